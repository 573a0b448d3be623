"""Fills of cells: numbers, each of which stands for a colour. The colours are distinguishable with any kind of colour
vision, and black text on them has a contrast of at least 4.5.

The scale is the first part of Paul Tol's "iridescent", the palette his "light" (https://personal.sron.nl/~pault/). The
fills are the same in light and dark pictures: a cell brings its own background.
"""

from __future__ import annotations

SCALE: tuple[int, ...] = tuple(range(14))
"""Fills from light to dark."""

PALETTE: tuple[int, ...] = tuple(range(20, 28))
"""Fills without an order."""

BLANK = 40
"""An element that is not emphasised."""

PADDING = 41
"""Padding, which is hatched."""

READ = 27
"""An element that is read."""

_SCALE_COLOURS = (
    "#f5f3c1 #eaf0b5 #ddecbf #d0e7ca #c2e3d2 #b5ddd8 #a8d8dc #9bd2e1 #8dcbe4 #81c4e7 #7bbce7 #7eb2e4 #88a5dd #9398d2"
).split()
_PALETTE_COLOURS = "#77aadd #eedd88 #ffaabb #44bb99 #ee8866 #99ddff #bbcc33 #dd9fd6".split()
_COLOURS: dict[int, str] = {
    **dict(zip(SCALE, _SCALE_COLOURS, strict=True)),
    **dict(zip(PALETTE, _PALETTE_COLOURS, strict=True)),
    BLANK: "#f1f1ee",
    PADDING: "#e4e4e0",
}

INDEXED: dict[int, int] = {
    **dict(zip(SCALE, (230, 229, 193, 157, 158, 159, 153, 153, 117, 117, 111, 111, 104, 104), strict=True)),
    **dict(zip(PALETTE, (74, 222, 217, 72, 209, 159, 149, 176), strict=True)),
    BLANK: 255,
    PADDING: 251,
}
"""Fill → the nearest of the 256 colours of a terminal."""


def hex_of(fill: int) -> str:
    """The colour of a fill, such as `#77aadd`; for padding, the colour behind the hatching."""
    return _COLOURS[fill]


def rgb_of(fill: int) -> tuple[int, int, int]:
    """The red, green and blue of a fill's colour, from 0 to 255."""
    text = hex_of(fill)
    return int(text[1:3], 16), int(text[3:5], 16), int(text[5:7], 16)


def of_scale(value: int, lowest: int, highest: int) -> int:
    """The fill of `SCALE` for a value from `lowest` to `highest`.

    >>> of_scale(0, 0, 9), of_scale(9, 0, 9), of_scale(5, 5, 5)
    (0, 13, 0)
    """
    if highest <= lowest:
        return SCALE[0]
    return SCALE[(value - lowest) * (len(SCALE) - 1) // (highest - lowest)]


def of_number(number: int) -> int:
    """The fill of `PALETTE` for a number, such as that of a tile. The palette repeats."""
    return PALETTE[number % len(PALETTE)]
