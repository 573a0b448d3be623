"""The cells of pictures lie where `xs.tiling` says: on random layouts, every cell's index and position, and all
padding."""

from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from xlashape.drawing.geometry.axes import axes_of, memory_rows, positions_in_a_row
from xlashape.drawing.geometry.grids import (
    GAP,
    GridWindow,
    coordinates_shown,
    element_grid,
    slices_shown,
    tile_grid,
    window_of,
)
from xlashape.errors import InvalidArgumentError, InvalidShapeError, UnsupportedError
from xlashape.shape import COMBINE, WHOLE_DIMENSION, Layout, Shape, Tile, tiling


@st.composite
def tiles(draw: st.DrawFn) -> Tile:
    length = draw(st.integers(1, 4))
    sizes = [draw(st.sampled_from([1, 2, 3, 4, 5, 8, COMBINE])) for _ in range(length - 1)]
    return Tile([*sizes, draw(st.sampled_from([1, 2, 3, 4, 6, 8, WHOLE_DIMENSION]))])


@st.composite
def shapes(draw: st.DrawFn, most: int = 3000) -> Shape:
    """Arrays with every kind of layout: several tiles, combine, tails, longer tiles than ranks, scalars, packed
    elements."""
    while True:
        rank = draw(st.integers(0, 6))
        largest = [17, 17, 17, 9, 5, 3, 2][rank]
        dimensions = [draw(st.integers(1, largest)) for _ in range(rank)]
        kind, bits = draw(
            st.sampled_from([("s32", 0), ("bf16", 0), ("s4", 4), ("s4", 0), ("f6e3m2fn", 6), ("pred", 0)])
        )
        layout = Layout(
            draw(st.permutations(range(rank))),
            draw(st.lists(tiles(), max_size=3)),
            draw(st.sampled_from([1, 1, 1, 2, 3, 16, 100])),
            element_size_in_bits=bits,
        )
        shape = Shape.array(kind, dimensions, layout, [draw(st.booleans()) for _ in range(rank)])
        if tiling.physical_elements(shape) <= most:
            return shape


@settings(max_examples=300, derandomize=True, deadline=None)
@given(shapes())
def test_every_cell_has_its_index_and_its_position(shape: Shape) -> None:
    view = axes_of(shape)
    seen: dict[int, tuple[int, ...] | None] = {}
    for cell in itertools.product(*(range(axis.padded) for axis in view.axes)):
        position, index = view.position(cell), view.element(cell)
        assert position not in seen
        seen[position] = index
        assert tiling.multi_index(shape, position) == index
        if index is not None:
            assert tiling.linear_index(shape, index) == position
            assert view.coordinates(index) == cell
    assert sum(index is not None for index in seen.values()) == math.prod(shape.dimensions)
    # No cell leads to the padding of later tiles and of the tail.
    for position in set(range(tiling.physical_elements(shape))) - seen.keys():
        assert tiling.multi_index(shape, position) is None


@settings(max_examples=150, derandomize=True, deadline=None)
@given(shapes(1500))
def test_grids_without_a_budget_show_every_element_once(shape: Shape) -> None:
    view = axes_of(shape)
    found: list[tuple[int, ...]] = []
    cells = 0
    for outer in slices_shown(view, 10**6):
        assert outer is not None
        grid = element_grid(view, outer, None, None, (10**6, 10**6))
        for row in grid.spots:
            for spot in row:
                assert spot is not None
                cells += 1
                assert tiling.multi_index(shape, spot.position) == spot.element
                if spot.element is not None:
                    found.append(spot.element)
    assert cells == math.prod(axis.padded for axis in view.axes)
    assert sorted(found) == list(itertools.product(*map(range, shape.dimensions)))


@settings(max_examples=150, derandomize=True, deadline=None)
@given(shapes(1500), st.integers(5, 9), st.integers(5, 9), st.data())
def test_windows_and_gaps_hide_cells_and_change_none(
    shape: Shape, rows: int, columns: int, data: st.DataObject
) -> None:
    view = axes_of(shape)
    focus = [data.draw(st.integers(0, axis.padded - 1)) for axis in view.axes]
    outer = [focus[i] for i in view.outer_axes]
    grid = element_grid(view, outer, None, None, (rows, columns), [focus])
    assert len(grid.rows) <= rows and len(grid.columns) <= columns
    spots = [spot for row in grid.spots for spot in row if spot is not None]
    assert tuple(focus) in {spot.coordinates for spot in spots}
    for spot in spots:
        assert spot.position == view.position(spot.coordinates)
        assert spot.element == tiling.multi_index(shape, spot.position)


@settings(max_examples=200, derandomize=True, deadline=None)
@given(shapes())
def test_tiles_are_whole_pieces_of_memory(shape: Shape) -> None:
    view = axes_of(shape)
    if not view.is_tiled:
        return
    assert view.elements >= math.prod(view.blocks)
    blocks: dict[int, set[int]] = {}
    elements: dict[int, int] = {}
    for cell in itertools.product(*(range(axis.padded) for axis in view.axes)):
        block = view.block(cell)
        blocks.setdefault(block, set()).add(view.position(cell))
        elements[block] = elements.get(block, 0) + (view.element(cell) is not None)
    assert len(blocks) == math.prod(view.blocks)
    counts = view._replace(axes=tuple([a._replace(padded=n) for a, n in zip(view.axes, view.blocks, strict=True)]))
    drawn = 0
    for outer in slices_shown(counts, 10**6):
        assert outer is not None
        for row in tile_grid(view, outer, (10**6, 10**6)).tiles:
            for tile in row:
                assert tile is not None
                drawn += 1
                assert tile.position == min(blocks[tile.block]) or view.block_elements is None
                assert tile.used == (elements[tile.block] > 0)
                if tile.last is not None:
                    assert blocks[tile.block] <= set(range(tile.position, tile.last + 1))
    assert drawn == len(blocks)


@settings(max_examples=150, derandomize=True, deadline=None)
@given(shapes(800))
def test_memory_holds_what_the_inverse_says(shape: Shape) -> None:
    view = axes_of(shape)
    count = positions_in_a_row(view.bits)
    rows = memory_rows(view, range(0, view.elements, count), count)
    cells = [cell for row in rows for cell in row.cells]
    assert [cell.position for cell in cells] == list(range(tiling.physical_elements(shape)))
    for row in rows:
        for cell in row.cells:
            assert cell.element == tiling.multi_index(shape, cell.position)
            assert row.bit + cell.bit == cell.position * tiling.stored_bits(shape)


def test_axes_of_a_tile_that_combines_and_of_one_that_is_longer_than_the_array():
    combined = axes_of(Shape.parse("f32[2,7,8,11,10]{4,3,2,1,0:T(*,*,2,*,3)}"))
    assert [(axis.name, axis.size, axis.padded, axis.tile) for axis in combined.axes] == [
        ("d0·d1·d2", 112, 112, 2),
        ("d3·d4", 110, 111, 3),
    ]
    longer = axes_of(Shape.parse("f32[300]{0:T(8,128)}"))
    assert [(axis.name, axis.size, axis.padded) for axis in longer.axes] == [("added", 1, 8), ("d0", 300, 384)]
    assert (longer.row_axis, longer.column_axis) == (0, 1)


@pytest.mark.parametrize(
    ("text", "rows", "columns"),
    [
        ("f32[4,8]", 0, 1),
        ("f32[4,8]{0,1}", 0, 1),
        ("f32[2,3,4,8]", 2, 3),
        ("f32[2,3,4,8]{0,1,2,3}", 0, 1),
        ("f32[8,128,1]", 0, 1),
        ("f32[8,1,128]{2,1,0}", 0, 2),
    ],
)
def test_the_dimensions_that_are_most_minor_in_memory_are_shown(text, rows, columns):
    view = axes_of(Shape.parse(text))
    assert view.row_axis is not None
    assert view.axes[view.row_axis].dimensions == (rows,)
    assert view.axes[view.column_axis].dimensions == (columns,)


def test_a_later_tile_that_mixes_first_tiles_leaves_them_no_piece_of_memory():
    assert axes_of(Shape.parse("f32[8,8]{1,0:T(2,4)(2,1)}")).block_elements == 8
    assert axes_of(Shape.parse("f32[8,8]{1,0:T(2,4)(2,1,1)}")).block_elements is None


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("f32[?,3]", InvalidShapeError, "unbounded"),
        ("token[]", InvalidShapeError, "expected an array"),
        ("(f32[2])", InvalidShapeError, "expected an array"),
    ],
)
def test_what_has_no_places_is_refused(text, error, message):
    with pytest.raises(error, match=message):
        axes_of(Shape.parse(text))


def test_sparse_layouts_and_unknown_widths_are_refused():
    sparse = Shape.array("f32", [4, 4], Layout((1, 0), physical_shape=Shape.parse("f32[9]")))
    with pytest.raises(UnsupportedError, match="sparse"):
        axes_of(sparse)
    with pytest.raises(UnsupportedError):
        axes_of(Shape.from_proto(b"\x10\x4d\x1a\x01\x04"))


@pytest.mark.parametrize("budget", range(1, 8))
def test_no_more_slices_than_asked_for(budget: int) -> None:
    view = axes_of(Shape.parse("f32[3,5,8,128]"))
    shown = slices_shown(view, budget)
    assert 1 <= len(shown) <= budget and shown[0] == (0, 0)
    assert slices_shown(view, 1, [(2, 3, 0, 0)]) == ((2, 3),)


@settings(max_examples=300, derandomize=True, deadline=None)
@given(
    st.integers(0, 10**12),
    st.integers(1, 40),
    st.lists(st.integers(0, 10**12), max_size=30),
    st.integers(0, 10**6),
)
def test_coordinates_shown(size: int, budget: int, focus: list[int], start: int) -> None:
    shown = coordinates_shown(size, budget, sorted({start + f % size for f in focus}) if size else (), start)
    assert len(shown) <= budget
    kept = [c for c in shown if c is not None]
    assert kept == sorted(set(kept))
    if not size:
        assert shown == ()
        return
    if size > budget and budget < 3:
        wanted = min([start + f % size for f in focus], default=start)
        assert shown == (wanted,)
        return
    assert kept[0] == start and kept[-1] == start + size - 1
    for before, after in itertools.pairwise(shown):
        assert before is not GAP or after is not GAP
        if before is not None and after is not None:
            assert after == before + 1
    for at, c in enumerate(shown):
        if c is GAP:
            before, after = shown[at - 1], shown[at + 1]
            assert before is not None and after is not None and after - before > 2


@pytest.mark.parametrize(
    ("value", "window"),
    [
        ("0:4", (0, 4)),
        ("3", (3, 4)),
        (range(2, 5), (2, 5)),
        (slice(None, 4), (0, 4)),
        ((1, 3), (1, 3)),
        ([1, 3], (1, 3)),
    ],
)
def test_windows(value, window):
    assert window_of(value, "rows") == GridWindow(*window)


@pytest.mark.parametrize(
    "value",
    [
        "",
        "a:b",
        "4:2",
        "-1:3",
        ":",
        "1:",
        (1, 2, 3),
        7,
        (True, 2),
        range(0, 8, 2),
        slice(3),
        "9" * 60,
        (4, 4),
        object(),
    ],
)
def test_wrong_windows(value):
    if value == slice(3):
        assert window_of(value, "rows") == GridWindow(0, 3)
        return
    with pytest.raises(InvalidArgumentError, match="rows takes a window") as caught:
        window_of(value, "rows")
    assert caught.value.field == "rows"
