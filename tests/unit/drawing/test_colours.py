"""Fills of cells: their contrast, and how well they can be told apart."""

from __future__ import annotations

import itertools
import math

from drawn_pictures import panels

from xlashape.drawing import draw
from xlashape.drawing.marks import colours
from xlashape.drawing.marks.cells import Grid
from xlashape.drawing.writers import panels as writer


def contrast(a: str, b: str) -> float:
    """The contrast of two colours such as `#77aadd`, 1 to 21, as WCAG 2 defines it."""
    light, dark = sorted([luminance(a), luminance(b)], reverse=True)
    return (light + 0.05) / (dark + 0.05)


def luminance(colour: str) -> float:
    channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return sum(weight * c for weight, c in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def test_every_text_on_a_cell_has_a_contrast_of_4_5():
    for fill in (*colours.SCALE, *colours.PALETTE, colours.BLANK):
        assert contrast("#000000", colours.hex_of(fill)) >= 4.5
    assert contrast("#333333", colours.hex_of(colours.PADDING)) >= 4.5
    assert contrast("#333333", "#b3b3ab") >= 4.5  # the hatching
    for page in (writer.LIGHT, writer.DARK):
        for name in ("text", "muted"):
            assert contrast(page[name], page["ground"]) >= 4.5


def test_a_large_array_has_colours_that_differ():
    """Colours follow the order of what is shown, so that a few rows of a million are not all alike."""
    (grid,) = panels(draw("f32[1000000,1000000]"), Grid)
    assert len({row[0].fill for row in grid.cells if row[0] is not None}) > 8


def test_fills_can_be_told_apart_without_colour_vision():
    """Machado, Oliveira and Fernandes (2009): the colours as people without one kind of cone see them."""
    seen_with = {
        "all cones": [[1, 0, 0], [0, 1, 0], [0, 0, 1]],
        "no long": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
        "no medium": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
        "no short": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
    }
    for cones, matrix in seen_with.items():
        palette = [_lab(fill, matrix) for fill in colours.PALETTE]
        for a, b in itertools.pairwise(palette):
            assert math.dist(a, b) > 12, f"neighbours of the palette, {cones}"
        for a, b in itertools.combinations(palette, 2):
            assert math.dist(a, b) > 5, f"the palette, {cones}"
        scale = [_lab(fill, matrix)[0] for fill in colours.SCALE]
        assert scale == sorted(scale, reverse=True), f"the scale becomes darker, {cones}"
        assert scale[0] - scale[-1] > 25


def _lab(fill: int, matrix: list[list[float]]) -> tuple[float, float, float]:
    """Lightness and the two opponent colours (CIELAB) of a fill, seen through a matrix on linear RGB."""
    channels = [c / 255 for c in colours.rgb_of(fill)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    seen = [min(1.0, max(0.0, sum(m * c for m, c in zip(row, linear, strict=True)))) for row in matrix]
    to_xyz = [[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]
    white = [0.9505, 1.0, 1.089]
    x, y, z = [sum(m * c for m, c in zip(row, seen, strict=True)) / w for row, w in zip(to_xyz, white, strict=True)]
    f = [t ** (1 / 3) if t > 0.008856 else 7.787 * t + 16 / 116 for t in (x, y, z)]
    return 116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])
