#!/usr/bin/env python3
"""Whether the bounds that were set for a node are kept: goals.py FOLDER, as goals.sh has filled it.

Prints a table (Markdown) and ends with 1 if a bound is not kept. Ratios are of the node's figure to nginx's of the same repeat, and
the median of these counts.
"""

import json
import pathlib
import statistics
import sys

from table import ratios, values

# What must be at most this, and what is aimed at: of the node's CPU a frame, its p50 and its p95, to nginx's.
CPU = {"burst32": (1.05, 1.00), "w16": (1.05, 1.00), "w1": (1.15, 1.00)}
LATENCY = (1.15, 1.00)
# And at least: frames a second.
THROUGHPUT = {"burst32": (0.95, 1.00), "w16": (0.95, 1.00), "w1": (0.90, 1.00)}


def lines(file):
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines() if line.strip()]


def check(what, must, aim, came, least=False, decimals=3):
    """A row, and whether its bound is kept."""
    kept = came >= must if least else came <= must
    reached = aim is not None and (came >= aim if least else came < aim)
    sign = "≥" if least else "≤"
    aimed = "" if aim is None else f"{'≥' if least else '<'} {aim:,}"
    return [what, f"{sign} {must:,}", aimed, f"{came:,.{decimals}f}", "**no**" if not kept else "and the aim" if reached else "yes"], kept


def relayed(folder):
    for workload in ("burst32", "w16", "w1", "fanout"):
        paths = {}
        for phase in lines(folder / f"same-{workload}.json"):
            paths.setdefault(phase["path"], []).append(phase)
        node, nginx = paths["proxied"], paths["nginx"]

        def against(figure):
            return statistics.median(ratios(node, nginx, figure))

        if workload in CPU:
            yield check(f"{workload}: CPU a frame / nginx's", *CPU[workload], against("cpu"))
            yield check(f"{workload}: frames/s / nginx's", *THROUGHPUT[workload], against("frames"), least=True)
        for figure in ("p50", "p95"):
            yield check(f"{workload}: {figure} / nginx's", *LATENCY, against(figure))
        if workload == "burst32":
            yield check(f"{workload}: TCP segments a frame / nginx's", 1.05, None, against("segments"))
            yield check(f"{workload}: user-space CPU ns a frame", 40, 20, statistics.median(values(node, "user").values()), decimals=1)
        # It is the node's whole process that is counted: beats, reports and the control stream allocate a few times a second.
        yield check(f"{workload}: allocations a frame", 0.001, None, max(values(node, "allocations").values()), decimals=6)


def resident(folder):
    bounds = {"vanilla": (6, 3), "forge": (24, None)}
    for kind, bound in bounds.items():
        found = [line["row"] for line in lines(folder / "memory.json")]
        found = [row for row in found if row["kind"] == kind and row["moment"] == "idle"]
        most = max(row["sessions"] for row in found)
        kib = statistics.median(row["bytes_per_session"] / 1024 for row in found if row["sessions"] == most)
        yield check(f"KiB of an idle {kind} session, of {most}", *bound, kib, decimals=2)
    for line in lines(folder / "floods.json"):
        flood = line["flood"]
        mark, growth, bound = (flood[name] / (1 << 20) for name in ("node_buffers", "growth", "bound"))
        yield check(f"MiB that {flood['players']} players who do not read take, at a mark of {mark:.0f} MiB", round(bound, 1), None, growth, decimals=1)


def logins(folder):
    rows = {}
    for line in lines(folder / "logins.json"):
        rows.setdefault(line["row"]["at_once"], []).append(line["row"]["per_second"])
    for at_once, found in rows.items():
        yield check(f"logins a second, {at_once} at a time", 3000, None, statistics.median(found), least=True, decimals=0)


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    folder = pathlib.Path(sys.argv[1])
    checked = [*relayed(folder), *resident(folder), *logins(folder)]
    counted = (folder / "counts.status").read_text(encoding="utf-8").strip() == "0"
    gate = ["instructions: moved, Forge, keep-alives ≤ + 3 %, committed figures ± 2 %", "the gate", "", "passes" if counted else "fails",
            "yes" if counted else "**no**"]
    table = [["", "must", "aim", "came to", "kept"], *(row for row, _ in checked), gate]
    widths = [max(len(row[column]) for row in table) for column in range(5)]
    table.insert(1, ["-" * width for width in widths])
    for row in table:
        print("| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths)) + " |")
    return 0 if counted and all(kept for _, kept in checked) else 1


if __name__ == "__main__":
    sys.exit(main())
