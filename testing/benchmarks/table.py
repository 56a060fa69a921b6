#!/usr/bin/env python3
"""One table (Markdown) of what session-bench --json has said: table.py FILE...

Medians over the repeats; CPU with [least-most]. "proxied /" divides the node's figure by that path's, repeat by repeat.
"""

import json
import statistics
import sys


def switches(phase):
    return None if phase["proxy_waits_per_frame"] is None else phase["proxy_waits_per_frame"] + phase["proxy_preemptions_per_frame"]


FIGURES = {
    "frames": lambda phase: phase["frames_per_second"],
    "p50": lambda phase: phase["p50_us"],
    "p95": lambda phase: phase["p95_us"],
    "p99": lambda phase: phase["p99_us"],
    "cpu": lambda phase: phase["proxy_cpu_ns_per_frame"],
    "user": lambda phase: phase["proxy_user_ns_per_frame"],
    "allocations": lambda phase: phase["proxy_allocations_per_frame"],
    "segments": lambda phase: phase["tcp_segments_per_frame"],
    "switches": switches,
    "resident": lambda phase: None if phase["proxy_resident_kib"] is None else phase["proxy_resident_kib"] / 1024,
}
# What is found in phases that were disturbed for it.
PROBED = {"user": "user_part", "allocations": "allocations"}

HEAD = ["layout", "load", "path", "frames/s", "of direct", "p50 µs", "p95 µs", "p99 µs", "CPU ns/frame", "of it user", "segs/frame",
        "switches/frame", "alloc/frame", "RSS MiB", "proxied / CPU", "proxied / frames/s", "proxied / p50", "proxied / p95"]


def values(phases, figure):
    """The figure by repeat."""
    chosen = [phase for phase in phases if phase["probe"] == PROBED.get(figure)]
    found = {phase["repeat"]: FIGURES[figure](phase) for phase in chosen}
    return {repeat: value for repeat, value in found.items() if value is not None}


def median(phases, figure, decimals, spread=False):
    found = values(phases, figure).values()
    if not found:
        return "-"
    text = f"{statistics.median(found):.{decimals}f}"
    return f"{text} [{min(found):.{decimals}f}–{max(found):.{decimals}f}]" if spread else text


def ratios(one, other, figure):
    """Of one path's figure to the other's, repeat by repeat."""
    one, other = values(one, figure), values(other, figure)
    return [one[repeat] / other[repeat] for repeat in one if repeat in other]


def ratio(one, other, figure):
    found = ratios(one, other, figure)
    return f"{statistics.median(found):.3f}" if found else "-"


def rows(lines):
    runs = {}
    for line in filter(str.strip, lines):
        phase = json.loads(line)
        load = phase["workload"] or phase["trace"]
        if phase["ticks_per_second"]:
            load += f", {phase['connections']} players"
        if phase["mode"] != "initial":
            load += f", {phase['mode']}"
        if phase["rtt_ms"]:
            load += f", {phase['rtt_ms']} ms"
        runs.setdefault((phase["layout"], load), {}).setdefault(phase["path"], []).append(phase)
    for (layout, load), paths in runs.items():
        direct, proxied = paths.get("direct", []), paths.get("proxied", [])
        for path, phases in paths.items():
            against = ["-"] * 4 if path == "proxied" else [ratio(proxied, phases, figure) for figure in ("cpu", "frames", "p50", "p95")]
            yield [layout, load, path, median(phases, "frames", 0), ratio(phases, direct, "frames"), median(phases, "p50", 1),
                   median(phases, "p95", 1), median(phases, "p99", 1), median(phases, "cpu", 1, spread=True), median(phases, "user", 1),
                   median(phases, "segments", 4), median(phases, "switches", 4), median(phases, "allocations", 4),
                   median(phases, "resident", 1), *against]


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    lines = [line for name in sys.argv[1:] for line in open(name, encoding="utf-8")]
    table = [HEAD, *rows(lines)]
    widths = [max(len(row[column]) for row in table) for column in range(len(HEAD))]
    table.insert(1, ["-" * width for width in widths])
    for row in table:
        print("| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths)) + " |")


if __name__ == "__main__":
    main()
