"""Draws the curves of runs as one SVG: the mean reward of each step, thin, and the mean of ten steps, thick.

python3 curves.py out.svg learning=run/curve.json "shuffled rewards=other/curve.json"
"""

import json
import sys
from pathlib import Path

WIDTH, HEIGHT, LEFT, TOP, RIGHT, BOTTOM = 760, 380, 56, 20, 190, 48
COLOURS = ("#0072b2", "#56b4e9", "#009e73", "#d55e00", "#cc79a7", "#e69f00")
WINDOW = 10


def main(out: str, *runs: str) -> None:
    curves = {}
    for run in runs:
        label, _, path = run.partition("=")
        curves[label] = [step["reward"] for step in json.loads(Path(path).read_text())]

    Path(out).write_text(picture(curves))


def picture(curves: dict[str, list[float]]) -> str:
    steps = max(len(curve) for curve in curves.values())
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}"',
        ' font-family="sans-serif" font-size="13">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        *_axes(steps),
    ]
    for i, (label, curve) in enumerate(curves.items()):
        colour, right = COLOURS[i % len(COLOURS)], WIDTH - RIGHT + 16
        lines += [_line(curve, steps, colour, 1, 0.35), _line(averages(curve), steps, colour, 3, 1)]
        lines += [f'<text x="{right}" y="{TOP + 20 + 22 * i}" fill="{colour}">{label}</text>']

    return "\n".join([*lines, "</svg>\n"])


def averages(curve: list[float]) -> list[float]:
    """The mean of each step and those before it, ten at most."""
    parts = [curve[max(0, i + 1 - WINDOW) : i + 1] for i in range(len(curve))]

    return [sum(part) / len(part) for part in parts]


def _place(step: int, reward: float, steps: int) -> tuple[float, float]:
    width, height = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM

    return LEFT + width * step / max(1, steps - 1), TOP + height * (1 - reward)


def _line(curve: list[float], steps: int, colour: str, width: float, opacity: float) -> str:
    points = " ".join("%.1f,%.1f" % _place(i, reward, steps) for i, reward in enumerate(curve))

    return f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="{width}" opacity="{opacity}"/>'


def _axes(steps: int) -> list[str]:
    lines = []
    for reward in (0, 0.25, 0.5, 0.75, 1):
        x, y = _place(0, reward, steps)
        lines.append(f'<line x1="{x}" y1="{y}" x2="{WIDTH - RIGHT}" y2="{y}" stroke="#ddd"/>')
        lines.append(f'<text x="{x - 8}" y="{y + 4}" text-anchor="end">{reward}</text>')

    for step in range(0, steps, 10):
        x, y = _place(step, 0, steps)
        lines.append(f'<text x="{x:.1f}" y="{y + 18}" text-anchor="middle">{step + 1}</text>')

    middle = (LEFT + WIDTH - RIGHT) / 2

    title = "step (mean reward of 32 rollouts)"

    return [*lines, f'<text x="{middle}" y="{HEIGHT - 8}" text-anchor="middle">{title}</text>']


if __name__ == "__main__":
    main(*sys.argv[1:])
