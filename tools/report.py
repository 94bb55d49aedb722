#!/usr/bin/env python3
"""Makes one self-contained HTML page of one or several runs, overlaid: loss, gradient norm, learning rate, throughput, time
per step, rank balance, memory by purpose, events. It needs no network and no packages.

usage: report.py [-o report.html] RUN_FOLDER...
"""
import argparse
import html
import json
import math
import os
import re

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 760, 260, 64, 12, 12, 30
COLOURS = ["#0b6e99", "#c4421a", "#4b8b2b", "#8a4fbf", "#b8860b", "#c2185b", "#00796b", "#5d4037"]
EVENT_COLOURS = {"saved": "#999999", "skipped": "#d08000", "rolled_back": "#c00000", "transient": "#c00000",
                 "straggler": "#8a4fbf", "stopped": "#333333", "request": "#333333"}
PLOTS = [("Loss", [("loss", ""), ("validation_loss", "validation")], False), ("Gradient norm", [("grad_norm", "")], True),
         ("Learning rate", [("lr", "")], False), ("Tokens per second", [("tokens_per_s", "")], False),
         ("TFLOP/s per rank, causal", [("tflops_causal", "")], False), ("Seconds per step", [("step_s", "")], False),
         ("Seconds computed before waiting, over the ranks",
          [("busy_min_s", "min"), ("busy_median_s", "median"), ("busy_max_s", "max")], False),
         ("Seconds of a save that training waited", [("stall_s", "")], False)]


class Run:
    def __init__(self, folder):
        self.name = os.path.basename(os.path.normpath(folder))
        self.rows, self.events, self.broken = [], [], 0
        with open(os.path.join(folder, "metrics.jsonl")) as file:
            for line in file:
                try:
                    row = json.loads(line)
                except json.JSONDecodeError:  # the last line of a run that was killed
                    self.broken += 1
                    continue
                if not isinstance(row, dict) or not isinstance(row.get("step"), int):
                    self.broken += 1
                    continue
                self.rows.append(row)
                if "event" in row:
                    self.events.append(row)
        self.log = self.read(folder, "log.txt")
        self.deck = self.read(folder, "deck.toml")

    @staticmethod
    def read(folder, name):
        try:
            with open(os.path.join(folder, name), errors="replace") as file:
                return file.read()
        except FileNotFoundError:
            return ""

    def curve(self, key):
        points = {}
        for row in self.rows:  # of a step that was done twice the later one counts
            if isinstance(row.get(key), (int, float)) and math.isfinite(row[key]):
                points[row["step"]] = row[key]
        return sorted(points.items())

    def starts(self):
        return [int(step) for step in re.findall(r"^resumed from .*: step (\d+),", self.log, re.MULTILINE)]

    def memory(self):
        """(GiB, purpose) of the last start-up table."""
        units = {"B": 2.0**-30, "KiB": 2.0**-20, "MiB": 2.0**-10, "GiB": 1.0, "TiB": 1024.0}
        tables = re.findall(r"^memory .*\n((?: {12}.*\n)+)", self.log, re.MULTILINE)
        found = re.findall(r"^ +([\d.]+) (B|[KMGT]iB)  (.*)$", tables[-1], re.MULTILINE) if tables else []
        return [(float(number) * units[unit], purpose) for number, unit, purpose in found]


def ticks(low, high, n=5):
    raw = (high - low) / n
    step = 10 ** math.floor(math.log10(raw)) if raw > 0 else 1
    step *= next((m for m in (1, 2, 5, 10) if m * step >= raw), 10)
    first = math.ceil(low / step)
    return [i * step for i in range(first, first + 3 * n) if i * step <= high + 1e-9 * step]


def thinned(points, most=1500):
    """Few enough for a page, keeping the extremes of what is left out."""
    if len(points) <= most:
        return points
    out, size = [], math.ceil(2 * len(points) / most)
    for i in range(0, len(points), size):
        part = points[i:i + size]
        out += sorted({min(part, key=lambda p: p[1]), max(part, key=lambda p: p[1])})
    return out


def plot(title, curves, logarithmic, marks):
    """curves: (label, colour, dashed, points). marks: (step, colour, text)."""
    curves = [curve for curve in curves if curve[3]]
    if not curves:
        return ""
    logarithmic = logarithmic and all(y > 0 for curve in curves for _, y in curve[3])
    scale = math.log10 if logarithmic else float
    xs = [x for curve in curves for x, _ in curve[3]]
    ys = [scale(y) for curve in curves for _, y in curve[3]]
    x0, x1, y0, y1 = min(xs), max(xs), min(ys), max(ys)
    x1 += x1 == x0
    pad = 0.05 * (y1 - y0) or abs(y1) * 0.1 or 1
    y0, y1 = y0 - pad, y1 + pad

    def px(x):
        return LEFT + (x - x0) / (x1 - x0) * (WIDTH - LEFT - RIGHT)

    def py(y):
        return HEIGHT - BOTTOM - (y - y0) / (y1 - y0) * (HEIGHT - TOP - BOTTOM)

    svg = [f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{html.escape(title)}">']
    for x in ticks(x0, x1):
        svg.append(f'<text x="{px(x):.1f}" y="{HEIGHT - 10}" class="x">{x:g}</text>')
    for y in ticks(y0, y1):
        svg.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{py(y):.1f}" y2="{py(y):.1f}" class="grid"/>')
        svg.append(f'<text x="{LEFT - 6}" y="{py(y) + 4:.1f}" class="y">{(10**y if logarithmic else y):.4g}</text>')
    for step, colour, text in marks:
        if x0 <= step <= x1:
            svg.append(f'<line x1="{px(step):.1f}" x2="{px(step):.1f}" y1="{TOP}" y2="{HEIGHT - BOTTOM}" stroke="{colour}" '
                       f'class="mark"><title>{html.escape(text)}</title></line>')
    for label, colour, dashed, points in curves:
        path = " ".join(f"{px(x):.1f},{py(scale(y)):.1f}" for x, y in thinned(points))
        shape = f'<polyline points="{path}" ' if len(points) > 1 else \
            f'<circle r="3" cx="{px(points[0][0]):.1f}" cy="{py(scale(points[0][1])):.1f}" '
        dash = ' stroke-dasharray="5 3"' if dashed else ""
        svg.append(f'{shape}stroke="{colour}"{dash} class="curve"><title>{html.escape(label)}</title>'
                   f'</{"polyline" if len(points) > 1 else "circle"}>')
    svg.append("</svg>")
    legend = "".join(f'<span style="color:{colour}">{"&#9476;" if dashed else "&#9472;"} {html.escape(label)}</span>'
                     for label, colour, dashed, _ in curves)
    return f"<figure><figcaption>{html.escape(title)} {legend}</figcaption>{''.join(svg)}</figure>"


def page(runs):
    parts = []
    for title, keys, logarithmic in PLOTS:
        curves, marks = [], []
        for i, run in enumerate(runs):
            for k, (key, suffix) in enumerate(keys):
                curves.append((f"{run.name} {suffix}".strip(), COLOURS[i % len(COLOURS)], k > 0, run.curve(key)))
            marks += [(e["step"], EVENT_COLOURS.get(e["event"], "#666666"), f"{run.name}, step {e['step']}: {e.get('text', '')}")
                      for e in run.events if e["event"] not in ("finished",)]
            marks += [(step, "#2b6cb0", f"{run.name}: started again from step {step}") for step in run.starts()]
        parts.append(plot(title, curves, logarithmic, marks))
    parts.append("<h2>Runs</h2><table><tr><th>run<th>steps<th>last loss<th>validation<th>median tok/s<th>starts again<th>memory "
                 "per rank, GiB</tr>")
    for run in runs:
        loss, validation, rates = run.curve("loss"), run.curve("validation_loss"), sorted(y for _, y in run.curve("tokens_per_s"))
        memory = ", ".join(f"{purpose} {gib:.3g}" for gib, purpose in run.memory() if gib > 0.0005) or "-"
        cells = [run.name, loss[-1][0] if loss else "-", f"{loss[-1][1]:.5f}" if loss else "-",
                 f"{validation[-1][1]:.5f}" if validation else "-", f"{rates[len(rates) // 2]:.0f}" if rates else "-",
                 len(run.starts()), memory]
        parts.append("<tr>" + "".join(f"<td>{html.escape(str(cell))}" for cell in cells) + "</tr>")
    parts.append("</table>")
    for run in runs:
        rows = "".join(f"<tr><td>{e['step']}<td>{html.escape(str(e['event']))}<td>{html.escape(str(e.get('text', '')))}</tr>"
                       for e in run.events)
        broken = f"<p>{run.broken} lines of metrics.jsonl could not be read.</p>" if run.broken else ""
        parts.append(f"<details><summary>{html.escape(run.name)}: {len(run.events)} events</summary>{broken}<table>{rows}</table>"
                     f"</details><details><summary>{html.escape(run.name)}: deck</summary><pre>{html.escape(run.deck)}</pre></details>")
    style = ("body{font:15px sans-serif;max-width:1600px;margin:1em auto;padding:0 1em}figure{display:inline-block;width:760px;"
             "max-width:100%;margin:.5em 1em .5em 0}svg{width:100%;background:#fff}.grid{stroke:#ddd}.mark{stroke-width:1.5;"
             "stroke-dasharray:2 4}.curve{fill:none;stroke-width:1.6}text{font:12px sans-serif;fill:#444}.x{text-anchor:middle}"
             ".y{text-anchor:end}figcaption span{margin-left:1em}table{border-collapse:collapse}td,th{border:1px solid #ccc;"
             "padding:.2em .6em;text-align:left}")
    return (f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{html.escape(", ".join(r.name for r in runs))}</title>'
            f"<style>{style}</style><h1>Trireme: {html.escape(', '.join(r.name for r in runs))}</h1>"
            "<p>Vertical marks are events and starts; hover over them.</p>" + "".join(parts) + "</html>\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", metavar="RUN_FOLDER")
    parser.add_argument("-o", "--output", default="report.html")
    arguments = parser.parse_args()
    try:
        runs = [Run(folder) for folder in arguments.runs]
    except OSError as error:
        parser.exit(3, f"report.py: {error}: give folders that hold a metrics.jsonl\n")
    with open(arguments.output, "w") as file:
        file.write(page(runs))
    print(arguments.output)


if __name__ == "__main__":
    main()
