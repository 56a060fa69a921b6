#!/usr/bin/env python3
"""Draws how a node's cost grows with its sessions, from what session-bench and memory-bench print with --json.

    python3 testing/benchmarks/plot.py OUT.svg FILE...

Each line of the files that is a JSON object and one of these is used, whatever else there is:
  session-bench --workload fanout --connections N --json   CPU of the proxy a frame, a line for each way
  memory-bench --json                                      resident memory of the node a session at the moment "idle", a line for each kind
A point is the median of what was measured at so many sessions, its bar reaches from the least to the most.
"""

import json
import math
import statistics
import sys
from xml.sax.saxutils import escape

PANEL, HEIGHT, MARGIN, GAP = 420, 300, (50, 30, 50, 70), 140  # margins: top, right, bottom, left
# Told apart without colours as well: each line has its name at its end.
COLOURS = ["#1f6fb4", "#c4511b", "#188a5f", "#8a4fb0", "#7a6a12", "#b03060"]


def main(arguments):
    if len(arguments) < 2:
        sys.exit(__doc__)
    out, files = arguments[0], arguments[1:]
    frames, memory = {}, {}
    for file in files:
        with open(file, encoding="utf-8") as lines:
            for line in lines:
                collect(line, frames, memory)
    panels = [
        panel
        for panel in [("CPU a frame (fanout)", "ns", frames), ("Resident memory an idle session", "KiB", memory)]
        if panel[2]
    ]
    if not panels:
        sys.exit("plot.py: no line of these files is of a fanout (session-bench --json) or of idle sessions (memory-bench --json)")
    with open(out, "w", encoding="utf-8") as svg:
        svg.write(draw(panels))


def collect(line, frames, memory):
    """Adds what a line measured to {name: {sessions: [figures]}}."""
    try:
        row = json.loads(line)
    except ValueError:
        return
    if not isinstance(row, dict):
        return
    cpu = row.get("proxy_cpu_ns_per_frame")
    if row.get("ticks_per_second") and cpu is not None and row.get("probe") is None:
        add(frames, row["path"], row["connections"], cpu)
    idle = row.get("row")
    if isinstance(idle, dict) and idle.get("moment") == "idle":
        add(memory, idle["kind"], idle["sessions"], idle["bytes_per_session"] / 1024)


def add(to, name, sessions, figure):
    to.setdefault(str(name), {}).setdefault(int(sessions), []).append(float(figure))


def draw(panels):
    top, right, bottom, left = MARGIN
    width = left + len(panels) * PANEL + (len(panels) - 1) * GAP + right + 60
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{top + HEIGHT + bottom}" '
        'font-family="sans-serif" font-size="12" fill="#222">',
        '<rect width="100%" height="100%" fill="#fff"/>',
    ]
    for index, (title, unit, series) in enumerate(panels):
        parts += panel(left + index * (PANEL + GAP), top, title, unit, series)
    return "\n".join(parts + ["</svg>", ""])


def panel(left, top, title, unit, series):
    sessions = sorted({count for points in series.values() for count in points})
    most = max(figure for points in series.values() for figures in points.values() for figure in figures)
    ticks = scale(most)
    low, high = math.log10(sessions[0]), math.log10(sessions[-1])

    def x(count):
        # A single number of sessions stands in the middle.
        return left + PANEL * ((math.log10(count) - low) / (high - low) if high > low else 0.5)

    def y(figure):
        return top + HEIGHT * (1 - figure / ticks[-1])

    yield f'<text x="{left}" y="{top - 20}" font-size="14" font-weight="bold">{escape(title)}</text>'
    for tick in ticks:
        yield f'<line x1="{left}" x2="{left + PANEL}" y1="{y(tick):.1f}" y2="{y(tick):.1f}" stroke="#ddd"/>'
        yield f'<text x="{left - 6}" y="{y(tick) + 4:.1f}" text-anchor="end">{tick:,g} {unit}</text>'
    for count in sessions:
        yield f'<text x="{x(count):.1f}" y="{top + HEIGHT + 18}" text-anchor="middle">{count:,}</text>'
    yield f'<text x="{left + PANEL / 2}" y="{top + HEIGHT + 38}" text-anchor="middle">sessions</text>'
    for name, colour, label in labels(series, y):
        points = sorted(series[name].items())
        line = " ".join(f"{x(count):.1f},{y(statistics.median(figures)):.1f}" for count, figures in points)
        yield f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="2"/>'
        for count, figures in points:
            middle, least, greatest = statistics.median(figures), min(figures), max(figures)
            told = f"{name}, {count:,} sessions: {middle:.1f} {unit} [{least:.1f}–{greatest:.1f}], {len(figures)} measured"
            yield f'<line x1="{x(count):.1f}" x2="{x(count):.1f}" y1="{y(least):.1f}" y2="{y(greatest):.1f}" stroke="{colour}"/>'
            yield f'<circle cx="{x(count):.1f}" cy="{y(middle):.1f}" r="3.5" fill="{colour}"><title>{escape(told)}</title></circle>'
        yield f'<text x="{x(points[-1][0]) + 8:.1f}" y="{label + 4:.1f}" fill="{colour}">{escape(name)}</text>'


def labels(series, y):
    """Name, colour, and the height of the name, from the top down; names do not lie on one another."""
    ends = sorted((y(statistics.median(points[max(points)])), name) for name, points in series.items())
    colours = {name: COLOURS[index % len(COLOURS)] for index, name in enumerate(sorted(series))}
    above = -math.inf
    for height, name in ends:
        above = max(height, above + 14)
        yield name, colours[name], above


def scale(most):
    """Round figures from 0 to at least the most."""
    step = 10 ** math.floor(math.log10(most)) if most > 0 else 1
    step *= next(factor for factor in (0.2, 0.5, 1, 2) if math.ceil(most / (step * factor)) <= 6)
    return [step * index for index in range(math.ceil(most / step) + 1)] if most > 0 else [0, 1]


if __name__ == "__main__":
    main(sys.argv[1:])
