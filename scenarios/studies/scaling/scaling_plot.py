"""MFU over GPUs as a picture, readable on light and on dark pages."""

import math
from html import escape

COLOURS = ("#3b82c4", "#d9812e", "#3f9b62")
INK, GRID = "#808080", "#80808040"
WIDTH, HEIGHT, LEFT, TOP, BOTTOM = 330, 230, 48, 34, 44
X_TICKS = (256, 1024, 4096, 16384, 65536)
Y_RANGE = (0, 70)


def x_of(gpus):
    return (math.log2(gpus) - 7.5) / 9.5 * WIDTH


def y_of(mfu):
    low, high = Y_RANGE
    return TOP + (high - mfu) / (high - low) * HEIGHT


def text(x, y, content, anchor="middle", more=""):
    return (f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{INK}"{more}>'
            f"{escape(content)}</text>")


def panel(left, title, curves):
    """`curves`: name -> [(GPUs, MFU, low, high)], in percent."""
    yield text(left + WIDTH / 2, TOP - 14, title, more=' font-weight="bold"')
    for mfu in range(Y_RANGE[0], Y_RANGE[1] + 1, 10):
        yield f'<path d="M{left} {y_of(mfu):.1f}h{WIDTH}" stroke="{GRID}"/>'
        yield text(left - 6, y_of(mfu) + 4, f"{mfu}", "end")
    for gpus in X_TICKS:
        yield text(left + x_of(gpus), TOP + HEIGHT + 16, f"{gpus:,}")
    yield text(left + WIDTH / 2, TOP + HEIGHT + 34, "GPUs")
    for number, (name, points) in enumerate(curves.items()):
        colour = COLOURS[number]
        at = [(left + x_of(p[0]), *(y_of(v) for v in p[1:])) for p in points]
        band = [(x, low) for x, _, low, _ in at] + [(x, high) for x, _, _, high in reversed(at)]
        yield (f'<polygon points="{" ".join(f"{x:.1f},{y:.1f}" for x, y in band)}" '
               f'fill="{colour}" fill-opacity="0.15"/>')
        yield (f'<polyline points="{" ".join(f"{p[0]:.1f},{p[1]:.1f}" for p in at)}" fill="none" '
               f'stroke="{colour}" stroke-width="1.8"/>')
        y = TOP + HEIGHT - 44 + 17 * number
        yield f'<path d="M{left + 10} {y - 4}h18" stroke="{colour}" stroke-width="3"/>'
        yield text(left + 34, y, name, "start")


def svg(panels):
    """The panels side by side; bands are 80 % intervals."""
    parts, pitch = [], LEFT + WIDTH + 20
    for place, (title, curves) in enumerate(panels):
        parts += panel(place * pitch + LEFT, f"{title}: MFU, %", curves)
    width, height = len(panels) * pitch, TOP + HEIGHT + BOTTOM
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
            f'width="{width}" height="{height}" font-size="12" font-family="sans-serif">\n'
            + "\n".join(parts) + "\n</svg>\n")
