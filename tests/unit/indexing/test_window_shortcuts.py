"""Maps of windows that are put together from simplified dimensions equal the simplified whole maps."""

from __future__ import annotations

import random

import pytest

from xlashape.hlo.values.dimension_numbers import ConvolutionDimensionNumbers
from xlashape.hlo.values.window import WindowDimension
from xlashape.indexing import Analysis
from xlashape.indexing.ops import contraction, windows
from xlashape.indexing.ops.op import Op
from xlashape.indexing.ops.rows import make_map
from xlashape.shape import Shape
from xlashape.symbolic import dim, rng

assert Analysis  # the rules are registered


def random_window(draw: random.Random) -> tuple[WindowDimension, int, int]:
    """A window, the size of its input and of its output, which is not 0."""
    while True:
        w = WindowDimension(
            draw.choice([1, 1, 2, 3, 5]),
            draw.choice([1, 1, 2, 3]),
            draw.choice([0, 0, 1, 2, -1, 4]),
            draw.choice([0, 0, 1, 3, -1]),
            draw.choice([1, 1, 2, 3]),
            draw.choice([1, 1, 2, 4]),
            draw.random() < 0.2,
        )
        size = draw.choice([1, 2, 3, 5, 8, 16])
        padded = (size - 1) * w.base_dilation + 1 + w.padding_low + w.padding_high
        reach = (w.size - 1) * w.window_dilation + 1
        if 0 < reach <= padded:
            return w, size, (padded - reach) // w.stride + 1


def test_one_dimension():
    draw = random.Random(11)
    simple = empty = 0
    for _ in range(1500):
        w, size, out_size = random_window(draw)
        index, inside = windows.window_input(w, size, dim(0), rng(0))
        expected = make_map([out_size], [index], ranges=[w.size], constraints=inside).simplify()
        simplified = windows.simplified_window_input(w, size, out_size, dim(0), rng(0))
        if simplified is None:
            assert expected.is_known_empty
            empty += 1
            continue
        found = make_map(
            [simplified.output],
            [simplified.input_index],
            ranges=[simplified.window_index],
            constraints=simplified.constraints,
        )
        assert found == expected, w
        simple += windows._simple_at_once(w, size, out_size, dim(0), rng(0)) is not None and w.base_dilation == 1
    assert simple > 100
    assert empty > 10


@pytest.mark.parametrize("seed", range(4))
def test_convolutions(seed, monkeypatch):
    draw = random.Random(seed)
    for _ in range(80):
        drawn = [random_window(draw) for _ in range(draw.randint(0, 3))]
        rank = len(drawn) + 2
        features, groups, batch_groups = draw.choice([1, 2, 5]), draw.choice([1, 1, 2, 3]), draw.choice([1, 1, 2])
        outputs, batch = groups * batch_groups * draw.choice([1, 2, 4]), draw.choice([1, 2, 7])
        places = [draw.sample(range(rank), rank) for _ in range(3)]
        sizes = [[0] * rank for _ in range(3)]
        columns = [
            (batch * batch_groups, features, batch),
            (features * groups, outputs, outputs),
            *((size, w.size, out) for w, size, out in drawn),
        ]
        for number, column in enumerate(columns):
            for side in range(3):
                sizes[side][places[side][number]] = column[side]
        spatial = [tuple(place[2:]) for place in places]
        dimensions = ConvolutionDimensionNumbers(
            *(places[0][0], places[0][1], spatial[0]),
            *(places[1][0], places[1][1], spatial[1]),
            *(places[2][0], places[2][1], spatial[2]),
        )
        numbers = contraction.Convolution(tuple(w for w, _, _ in drawn), dimensions, groups, batch_groups)
        lhs, rhs, out = [Shape.array("f32", dims) for dims in sizes]
        op = Op.of(out, (lhs, rhs), numbers)
        found = contraction.convolution_output_to_input(op, 0)
        with monkeypatch.context() as patch:
            patch.setattr(contraction, "_from_simple_dimensions", lambda c: None)
            assert found == contraction.convolution_output_to_input(op, 0), numbers
