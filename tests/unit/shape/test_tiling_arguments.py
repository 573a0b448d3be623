"""Wrong arguments of `tiling`, and sizes near the end of int64."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from xlashape.errors import InvalidIndexError, InvalidShapeError, LimitExceededError, SizeOverflowError
from xlashape.shape import COMBINE, Layout, Shape, Tile, tiling


def positions(text: str) -> list[Any]:
    """The positions of all elements, nested as the array is."""
    shape = Shape.parse(text)
    rows = np.stack(np.meshgrid(*[np.arange(d) for d in shape.dimensions], indexing="ij"), -1).reshape(-1, shape.rank)
    return tiling.linear_indices(shape, rows).reshape(shape.dimensions).tolist()


# -- batches of every kind ------------------------------------------------------------------

SHAPE = Shape.parse("f32[3,5]{1,0:T(2,2)}")


# -- wrong questions ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("index", "message"),
    [
        ((3, 0), "index 3 is outside dimension 0 of f32[3,5]{1,0:T(2,2)}, which has size 3"),
        ((0, 5), "index 5 is outside dimension 1 of f32[3,5]{1,0:T(2,2)}, which has size 5"),
        ((0, -1), "index -1 is outside dimension 1 of f32[3,5]{1,0:T(2,2)}, which has size 5"),
        ((0, 1 << 70), f"index {1 << 70} is outside dimension 1 of f32[3,5]{{1,0:T(2,2)}}, which has size 5"),
        ((0, 10**5000), "index far above int64 is outside dimension 1 of f32[3,5]{1,0:T(2,2)}, which has size 5"),
        ((0,), "f32[3,5]{1,0:T(2,2)} takes an index of 2 numbers, found 1"),
        ((), "f32[3,5]{1,0:T(2,2)} takes an index of 2 numbers, found 0"),
        ((0, 0, 0), "f32[3,5]{1,0:T(2,2)} takes an index of 2 numbers, found 3"),
        ((0, 1.0), "index[1] takes an integer, found 1.0 of type float"),
        ((True, 0), "index[0] takes an integer, found True of type bool"),
        ((np.True_, 0), "index[0] takes an integer"),
        ((0, "1"), "index[1] takes an integer, found '1' of type str"),
        ((0, None), "index[1] takes an integer, found None of type NoneType"),
        (7, "an index is a sequence of integers, not int"),
        ("01", "an index is a sequence of integers, not str"),
        (None, "an index is a sequence of integers, not NoneType"),
    ],
)
def test_wrong_index(index: Any, message: str) -> None:
    with pytest.raises(InvalidIndexError) as caught:
        tiling.linear_index(SHAPE, index)
    assert message in str(caught.value)


def test_numpy_ints_are_ints() -> None:
    assert tiling.linear_index(SHAPE, np.array([2, 3])) == 17
    assert tiling.linear_index(SHAPE, (np.uint8(2), np.int64(3))) == 17
    assert type(tiling.linear_index(SHAPE, np.array([2, 3]))) is int
    assert tiling.multi_index(SHAPE, np.int32(17)) == (2, 3)  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("position", [-1, 24, 1 << 64, 1.5, True, None, "3", np.float64(3)])
def test_wrong_position(position: Any) -> None:
    with pytest.raises(InvalidIndexError, match="position"):
        tiling.multi_index(SHAPE, position)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([(0, 0), (1, 5)], "row 1: index 5 is outside dimension 1 of f32[3,5]{1,0:T(2,2)}, which has size 5"),
        ([(0, 0), (-1, 0)], "row 1: index -1 is outside dimension 0"),
        (np.array([[0, 1 << 63]], np.uint64), f"row 0: index {1 << 63} is outside dimension 1"),
        (np.array([[(1 << 64) - 1, 0]], np.uint64), f"row 0: index {(1 << 64) - 1} is outside dimension 0"),
        ([(0, 1 << 64)], f"rows[0]: {1 << 64} does not fit int64"),
        ([(0, 0), (0, 1 << 63)], f"rows[1]: {1 << 63} does not fit int64"),
        ([(0, -(10**3000))], "rows[0]: far below 0 does not fit int64"),
        ([(0, 0), (0,)], "rows takes integers of the shape [n, 2], found rows of different lengths"),
        ([(0, 0, 0)], "takes an index of 2 numbers, found rows of 3"),
        ([(), ()], "takes an index of 2 numbers, found rows of 0"),
        ([0, 0], "rows takes integers of the shape [n, 2], found [2]"),
        (3, "rows takes integers of the shape [n, 2], found []"),
        (None, "rows takes integers of the shape [n, 2], found []"),
        ("00", "rows takes integers of the shape [n, 2], found []"),
        (np.zeros((1, 2, 1), int), "rows takes integers of the shape [n, 2], found [1, 2, 1]"),
        (np.zeros((2, 2)), "rows takes integers of the shape [n, 2], found float64"),
        (np.zeros((0, 2)), "rows takes integers of the shape [n, 2], found float64"),
        (np.zeros((2, 2), bool), "rows takes integers of the shape [n, 2], found bool"),
        (np.zeros((2, 2), complex), "found complex128"),
        (np.zeros((2, 2), "M8[s]"), "found datetime64[s]"),
        ([["a", "b"]], "rows[0] takes an integer, found 'a' of type str"),
        ([[0, 0], [0, 0.5]], "rows[1] takes an integer, found 0.5 of type float"),
        ([[0, 0], [0, True]], "rows[1] takes an integer, found True of type bool"),
        ([[False, True]], "rows[0] takes an integer, found False of type bool"),
        ([[0, None]], "rows[0] takes an integer, found None of type NoneType"),
        (np.array([[0, True]], object), "rows[0] takes an integer, found True of type bool"),
    ],
)
def test_wrong_rows(rows: Any, message: str) -> None:
    with pytest.raises(InvalidIndexError) as caught:
        tiling.linear_indices(SHAPE, rows)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("positions", "message"),
    [
        (
            [0, 24],
            "row 1: position 24 is outside the buffer of f32[3,5]{1,0:T(2,2)}, which has 24 elements, padding included",
        ),
        ([0, 1, -1], "row 2: position -1 is outside the buffer"),
        (np.array([1 << 63], np.uint64), f"row 0: position {1 << 63} is outside the buffer"),
        ([[0]], "positions takes integers of the shape [n], found [1, 1]"),
        (0, "positions takes integers of the shape [n], found []"),
        ([0.5], "positions[0] takes an integer, found 0.5 of type float"),
        (np.array([0.5]), "positions takes integers of the shape [n], found float64"),
        ([0, True], "positions[1] takes an integer, found True of type bool"),
        (np.array([True]), "positions takes integers of the shape [n], found bool"),
        ([1 << 65], f"positions[0]: {1 << 65} does not fit int64"),
        ([[0], [0, 1]], "positions takes integers of the shape [n]"),
    ],
)
def test_wrong_positions(positions: Any, message: str) -> None:
    with pytest.raises(InvalidIndexError) as caught:
        tiling.multi_indices(SHAPE, positions)
    assert message in str(caught.value)


@pytest.mark.parametrize("text", ["(f32[2], s32[])", "()", "token[]", "opaque[]"])
def test_no_arrays(text: str) -> None:
    shape = Shape.parse(text)
    for question in (
        lambda: tiling.linear_index(shape, ()),
        lambda: tiling.multi_index(shape, 0),
        lambda: tiling.linear_indices(shape, []),
        lambda: tiling.multi_indices(shape, []),
        lambda: tiling.physical_elements(shape),
        lambda: tiling.physical_bytes(shape),
        lambda: tiling.physical_dimensions(shape),
        lambda: tiling.stored_bits(shape),
    ):
        with pytest.raises(InvalidShapeError, match="expected an array, found"):
            question()


def test_unbounded_dimensions() -> None:
    with pytest.raises(InvalidShapeError, match=r"dimension 1 of f32\[2,\?\]\{1,0\} is unbounded"):
        tiling.physical_elements(Shape.parse("f32[2,?]"))


HUGE = (1 << 63) - 1


def test_sizes_at_the_end_of_int64() -> None:
    shape = Shape.array("s8", (HUGE,))
    assert tiling.physical_bytes(shape) == HUGE
    assert tiling.linear_index(shape, (HUGE - 1,)) == HUGE - 1
    assert tiling.linear_indices(shape, [[HUGE - 1]]).tolist() == [HUGE - 1]
    assert tiling.multi_indices(shape, [HUGE - 1])[0].tolist() == [[HUGE - 1]]
    with pytest.raises(InvalidIndexError):
        tiling.linear_indices(shape, [[HUGE]])
    with pytest.raises(InvalidIndexError):
        tiling.linear_indices(shape, np.array([[1 << 63]], np.uint64))
    # Strides and partial sums near 2^63 come back right from arithmetic modulo 2^64.
    tiled = Shape.array("s8", (3, (1 << 60) + 1), Layout((1, 0), [(2, 1 << 59), (2, 1)]))
    index = (2, 1 << 60)
    position = tiling.linear_index(tiled, index)
    assert tiling.linear_indices(tiled, [index]).tolist() == [position]
    assert tiling.multi_index(tiled, position) == index
    assert tiling.multi_indices(tiled, [position])[0].tolist() == [list(index)]
    last = tiling.physical_elements(tiled) - 1
    assert tiling.multi_index(tiled, last) is None
    assert tiling.multi_indices(tiled, [last])[1].tolist() == [False]


@pytest.mark.parametrize(
    "shape",
    [
        Shape.array("s8", (1 << 40, 3), Layout((1, 0), [(8, 1 << 30)])),
        Shape.array("s8", (HUGE,), Layout((0,), [(2,)])),
        Shape.array("s8", (HUGE,), Layout((0,), (), 1 << 40)),
        Shape.array("s8", (1,), Layout((0,), [(HUGE, HUGE)])),
        Shape.array("s8", (2, HUGE // 2), Layout((1, 0), [(COMBINE, 1 << 62)])),
    ],
)
def test_sizes_beyond_int64(shape: Shape) -> None:
    if tiling_fits(shape):
        pytest.fail("expected an overflow")
    with pytest.raises(SizeOverflowError, match="does not fit int64"):
        tiling.linear_indices(shape, [[0] * shape.rank])
    with pytest.raises(SizeOverflowError, match="does not fit int64"):
        tiling.multi_index(shape, 0)


def tiling_fits(shape: Shape) -> bool:
    try:
        tiling.physical_elements(shape)
    except SizeOverflowError:
        return False
    return True


def test_bytes_beyond_int64() -> None:
    shape = Shape.array("f32", (1 << 62,))
    assert tiling.physical_elements(shape) == 1 << 62
    with pytest.raises(SizeOverflowError, match="bytes of f32"):
        tiling.physical_bytes(shape)


def test_an_empty_tile_changes_nothing() -> None:
    assert tiling.linear_index(Shape.array("f32", (2, 3), Layout((1, 0), [Tile(())])), (1, 2)) == 5


def test_numpy_is_not_loaded_for_single_questions() -> None:
    code = (
        "import sys; import xlashape as xs; s = xs.Shape.parse('f32[3,5]{1,0:T(2,2)}');"
        "assert xs.tiling.linear_index(s, (2, 3)) == 17 and xs.tiling.multi_index(s, 17) == (2, 3); assert 'numpy' not "
        "in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_unknown_names() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'unheard_of'"):
        _ = tiling.unheard_of


def test_hostile_layouts_are_refused_quickly() -> None:
    """Many tiles make many dimensions, each longer than the one before."""
    many = Shape.array("u8", (3,), Layout((0,), [(1, 1, 1)] * 100_000))
    for question in (tiling.physical_elements, tiling.padding_report, tiling.physical_dimensions):
        with pytest.raises(LimitExceededError, match="dimensions made by tiles") as caught:
            question(many)
        assert len(str(caught.value)) < 500
    long = Shape.array("u8", (3,), Layout((0,), [(1,) * 20_000]))
    assert tiling.linear_index(long, (2,)) == 2
    assert tiling.multi_index(long, 2) == (2,)
    with pytest.raises(InvalidIndexError) as wrong:
        tiling.linear_index(long, (3,))
    assert len(str(wrong.value)) < 500
    wide = Shape.array("u8", [1] * 5000)
    assert tiling.linear_index(wide, [0] * 5000) == 0
    assert tiling.padding_report(wide).is_best


@pytest.mark.parametrize("offset", range(9))
def test_a_number_of_more_than_32_bits_is_found_wherever_it_begins_in_memory(offset: int) -> None:
    """Numbers of messages are not aligned. Cut to its low 32 bits, 1 or 0, each of these would be inside the array."""
    shape = Shape.parse("f32[3,5]")
    for count in (1, 2, 7):
        held = np.ones(8 + offset + 16 * count, np.uint8)
        rows = held[offset : offset + 16 * count].view("<i8").reshape(count, 2)
        for row in range(count):
            for column in (0, 1):
                for wrong in (1 << 32, (1 << 32) + 1, 1 << 40, -(1 << 32) + 1, -(1 << 63)):
                    rows[:] = 1
                    assert tiling.linear_indices(shape, rows).tolist() == [6] * count
                    rows[row, column] = wrong
                    with pytest.raises(InvalidIndexError, match=str(wrong)) as caught:
                        tiling.linear_indices(shape, rows)
                    assert caught.value.path == ("indices", row, column)
