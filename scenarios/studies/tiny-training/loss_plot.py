#!/usr/bin/env python3
"""loss_plot.py TRAIN.json FILE.svg: the losses that a training reported, as a picture. Readable on
light and on dark pages."""

import json
import sys
from dataclasses import dataclass
from html import escape
from pathlib import Path

COLOURS = ("#3b82c4", "#d9812e", "#3f9b62")
INK, GRID = "#808080", "#80808040"
WIDTH, HEIGHT = 300, 220  # of a panel's plot
LEFT, RIGHT, TOP, BOTTOM = 52, 24, 34, 44


@dataclass
class Curve:
    """`low` and `high` bound a band around the points, where they are given."""
    label: str
    points: list  # (x, y)
    low: list = ()
    high: list = ()
    dots: bool = False


@dataclass
class Panel:
    title: str
    curves: list


def ticks(low, high, about=5):
    """Round numbers from `low` to `high`."""
    raw = (high - low) / about
    power = 10.0 ** len(str(int(raw))) / 10 if raw >= 1 else 10.0 ** -3
    step = next(m * power for power in (power, power * 10, power * 100, power * 1000)
                for m in (1, 2, 5) if m * power >= raw)
    first = -int(-low // step) if low > 0 else 0
    return [n * step for n in range(first, int(high / step + 1e-9) + 1)]


def text(x, y, content, anchor="middle", more=""):
    return (f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{INK}"{more}>'
            f"{escape(content)}</text>")


class Frame:
    """Where a panel's numbers lie in the picture."""

    def __init__(self, left, x_range, y_range):
        self.left, self.x_range, self.y_range = left, x_range, y_range

    def x(self, value):
        low, high = self.x_range
        return self.left + (value - low) / (high - low) * WIDTH

    def y(self, value):
        low, high = self.y_range
        return TOP + (high - value) / (high - low) * HEIGHT

    def path(self, points):
        return " ".join(f"{self.x(x):.1f},{self.y(y):.1f}" for x, y in points)

    def axes(self, title, x_name, y_name):
        yield (f'<clipPath id="at{self.left}"><rect x="{self.left}" y="{TOP}" width="{WIDTH}" '
               f'height="{HEIGHT}"/></clipPath>')
        yield text(self.left + WIDTH / 2, TOP - 14, title, more=' font-weight="bold"')
        for value in ticks(*self.y_range):
            y = self.y(value)
            yield f'<path d="M{self.left} {y:.1f}h{WIDTH}" stroke="{GRID}"/>'
            yield text(self.left - 6, y + 4, f"{value:g}", "end")
        for value in ticks(*self.x_range):
            yield text(self.x(value), TOP + HEIGHT + 16, f"{value:,g}")
        yield f'<path d="M{self.left} {TOP + HEIGHT}h{WIDTH}" stroke="{INK}"/>'
        yield text(self.left + WIDTH / 2, TOP + HEIGHT + 34, x_name)
        if y_name:
            x, y = self.left - 38, TOP + HEIGHT / 2
            yield text(x, y, y_name, more=f' transform="rotate(-90 {x:.1f} {y:.1f})"')

    def curve(self, number, curve):
        colour = COLOURS[number % len(COLOURS)]
        yield f'<g clip-path="url(#at{self.left})">'
        if curve.low:
            band = self.path(curve.low) + " " + self.path(curve.high[::-1])
            yield f'<polygon points="{band}" fill="{colour}" fill-opacity="0.25"/>'
        yield (f'<polyline points="{self.path(curve.points)}" fill="none" stroke="{colour}" '
               'stroke-width="1.6"/></g>')
        if curve.dots:
            for x, y in curve.points:
                yield f'<circle cx="{self.x(x):.1f}" cy="{self.y(y):.1f}" r="3" fill="{colour}"/>'
                yield text(self.x(x), self.y(y) - 8, f"{y:.3f}")
        y = TOP + 14 + 17 * number
        yield (f'<path d="M{self.left + WIDTH - 22} {y - 4}h18" stroke="{colour}" '
               'stroke-width="3"/>')
        yield text(self.left + WIDTH - 28, y, curve.label, "end")


def svg(panels, x_name, y_name, top=None):
    """The panels side by side, on the same axes; what lies above `top` is cut off."""
    points = [p for panel in panels for curve in panel.curves
              for p in [*curve.points, *curve.low, *curve.high]]
    x_range = (0, max(x for x, _ in points))
    low, high = min(y for _, y in points), top or max(y for _, y in points)
    y_range = (low - 0.1 * (high - low), high)
    parts, pitch = [], LEFT + WIDTH + RIGHT
    for place, panel in enumerate(panels):
        frame = Frame(place * pitch + LEFT, x_range, y_range)
        parts += frame.axes(panel.title, x_name, y_name if place == 0 else "")
        for number, curve in enumerate(panel.curves):
            parts += frame.curve(number, curve)
    width, height = len(panels) * pitch, TOP + HEIGHT + BOTTOM
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
            f'width="{width}" height="{height}" font-size="12" font-family="sans-serif">\n'
            + "\n".join(parts) + "\n</svg>\n")


def plot_training(report):
    """The losses of one run: of each step, and of the validation split."""
    steps = [(s["step"], s["loss"]) for s in report["steps"]]
    evaluations = [(e["step"], e["validation_loss"]) for e in report["evaluations"]]
    curves = [Curve("training, a step", steps), Curve("validation", evaluations, dots=True)]
    return svg([Panel(report["scenario"], curves)], "step", "loss, nats a byte")


if __name__ == "__main__":
    Path(sys.argv[2]).write_text(plot_training(json.loads(Path(sys.argv[1]).read_text())))
