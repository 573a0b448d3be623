"""The padding report: what it counts, what it blames, what it proposes."""

from __future__ import annotations

import itertools
import json
import math
from pathlib import Path

import pytest

from xlashape.errors import InvalidShapeError, SizeOverflowError
from xlashape.shape import Layout, Shape, Tile, tiling

ROWS = [json.loads(line) for line in (Path(__file__).parents[2] / "vectors" / "shapes.jsonl").read_text().splitlines()]


def arrays() -> list[Shape]:
    """The arrays of the vectors, small enough ranks for all their orders to be tried."""
    shapes = [Shape.parse(row["input"]) for row in ROWS]
    return [shape for shape in shapes if shape.is_array and not shape.is_unbounded_dynamic]


def test_32_times_bigger() -> None:
    report = tiling.padding_report(Shape.parse("s32[8388608,8,4]{2,1,0:T(8,128)}"))
    assert (report.logical_bytes, report.physical_bytes) == (1 << 30, 1 << 35)
    assert report.expansion == 32
    assert report.padding_share == 31 / 32
    assert report.padding_bytes == 31 << 30
    [cause] = report.causes
    assert (cause.what, cause.dimensions, cause.size, cause.padded) == ("dimension 2", (2,), 4, 128)
    assert (cause.tile, cause.tile_number, cause.factor) == (Tile((8, 128)), 0, 32)
    assert report.best_orders == ((0, 1, 2),)
    assert report.best_bytes == 1 << 30
    assert not report.is_best
    assert str(report).splitlines() == [
        "s32[8388608,8,4]{2,1,0:T(8,128)}",
        "  elements   1,073,741,824 bytes (1.00 GiB)",
        "  buffer     34,359,738,368 bytes (32.00 GiB), 32 times the elements: 96.9% is padding",
        "  why        tile (8,128) pads dimension 2 from 4 to 128: 32 times as much",
        "  better     {0,1,2:T(8,128)}: 1,073,741,824 bytes (1.00 GiB), no padding",
    ]


def test_counts_are_those_of_tiling() -> None:
    for shape in arrays():
        report = tiling.padding_report(shape)
        assert report.physical_elements == tiling.physical_elements(shape)
        assert report.physical_bytes == tiling.physical_bytes(shape)
        assert report.logical_elements == math.prod(shape.dimensions)
        assert report.logical_bytes == -(-report.logical_elements * tiling.stored_bits(shape) // 8)
        assert sum(cause.elements for cause in report.causes) == report.padding_elements
        assert 0 <= report.padding_share < 1
        factors = math.prod(cause.factor for cause in report.causes)
        assert factors == pytest.approx(report.expansion)
        assert str(report).startswith(str(shape))


def test_the_best_orders_are_the_best() -> None:
    """Every order tried, with the sizes that `tiling` gives."""
    checked = 0
    for shape in arrays():
        assert shape.layout is not None
        if not shape.layout.tiles or not 1 < shape.rank <= 4 or shape.layout.split_configs:
            continue
        sizes = {
            order: tiling.physical_bytes(shape.with_layout(shape.layout.replace(minor_to_major=order)))
            for order in itertools.permutations(range(shape.rank))
        }
        report = tiling.padding_report(shape)
        assert report.best_bytes == min(sizes.values())
        assert report.best_orders
        for order in report.best_orders:
            assert sizes[order] == report.best_bytes
        assert report.is_best == (sizes[shape.layout.minor_to_major] == report.best_bytes)
        if report.is_best:
            assert report.best_orders[0] == shape.layout.minor_to_major
        checked += 1
    assert checked > 200


def test_each_kind_of_cause() -> None:
    report = tiling.padding_report(Shape.parse("u8[50,60,70]{2,1,0:T(*,9,7)(4,5)L(64)}"))
    assert [(cause.what, cause.dimensions, cause.size, cause.padded, cause.tile_number) for cause in report.causes] == [
        ("dimensions 0 and 1 combined", (0, 1), 3000, 3006, 0),
        ("the inside of a tile along dimensions 0 and 1 combined", (0, 1), 9, 12, 1),
        ("the inside of a tile along dimension 2", (2,), 7, 10, 1),
        ("all elements", (), 400_800, 400_832, None),
    ]
    assert str(report.causes[-1]) == "the tail pads all elements from 400,800 to 400,832: 0.00798% more"
    added = tiling.padding_report(Shape.parse("f32[5]{0:T(2,4)}")).causes[0]
    assert (added.what, added.dimensions, added.size, added.padded) == ("a dimension that the tile adds", (), 1, 2)
    counts = tiling.padding_report(Shape.parse("f32[1000]{0:T(6)(5,4)}")).causes[1]
    assert (counts.what, counts.size, counts.padded) == ("the tiles along dimension 0", 167, 170)
    mixed = tiling.padding_report(Shape.parse("f32[1000]{0:T(6)(*,4)}")).causes[1]
    assert mixed.what == "the tiles along dimension 0 and the inside of a tile along dimension 0 combined"
    assert mixed.dimensions == (0,)


def test_nothing_to_report() -> None:
    for text in ("f32[2,3]{1,0}", "f32[]", "f32[8,128]{1,0:T(8,128)(2,1)}", "f32[0,3]{1,0:T(8,128)}"):
        report = tiling.padding_report(Shape.parse(text))
        assert report.causes == ()
        assert (report.padding_bytes, report.padding_share, report.expansion) == (0, 0.0, 1.0)
        assert report.is_best
        assert "no padding" in str(report)
        assert "better" not in str(report)


def test_scalars_and_packed_elements() -> None:
    report = tiling.padding_report(Shape.parse("u4[7]{0:T(4)E(4)}"))
    assert (report.logical_bytes, report.physical_bytes, report.padding_elements) == (4, 4, 1)
    scalar = tiling.padding_report(Shape.parse("f32[]{:T(128)}"))
    assert scalar.expansion == 128
    assert scalar.best_orders == ((),)
    assert "no other order of the dimensions makes it smaller" in str(scalar)


def test_too_many_orders_to_compare() -> None:
    shape = Shape.array("f32", [2] * 12, Layout(range(11, -1, -1), [(3,) * 12]))
    report = tiling.padding_report(shape)
    assert report.best_orders == ()
    assert report.best_bytes == report.physical_bytes
    assert "better" not in str(report)


def test_equal_sizes_are_named_once() -> None:
    report = tiling.padding_report(Shape.parse("f32[8,1,1,1,1,1]{5,4,3,2,1,0:T(8,128)}"))
    assert report.best_orders == ((0, 4, 5, 3, 2, 1), (5, 0, 4, 3, 2, 1))
    assert report.best_bytes == 4096


def test_split_configs_are_left_aside() -> None:
    report = tiling.padding_report(Shape.parse("f32[256,4]{1,0:T(8,128)SC(0:128)}"))
    assert report.physical_bytes == 256 * 128 * 4
    assert "{0,1:T(8,128)}: 8,192 bytes" in str(report)


def test_a_value() -> None:
    shape = Shape.parse("f32[3,5]{1,0:T(2,2)}")
    report = tiling.padding_report(shape)
    assert report == tiling.padding_report(Shape.parse("f32[3,5]{1,0:T(2,2)}"))
    assert hash(report) == hash(tiling.padding_report(shape))
    with pytest.raises(AttributeError):
        report.best_bytes = 0  # pyright: ignore[reportAttributeAccessIssue]
    assert isinstance(report, tiling.PaddingReport)
    assert tiling.padding_report(Shape.parse("b(f32[3,5]{1,0:T(2,2)})")) == report


def test_wrong_shapes() -> None:
    for text in ("(f32[2])", "token[]"):
        with pytest.raises(InvalidShapeError, match="expected an array"):
            tiling.padding_report(Shape.parse(text))
    with pytest.raises(InvalidShapeError, match="unbounded"):
        tiling.padding_report(Shape.parse("f32[?]"))
    with pytest.raises(SizeOverflowError):
        tiling.padding_report(Shape.array("f32", (1,), Layout((0,), [(1 << 62,)])))
    # An order that would overflow is not a better one.
    wide = Shape.array("s8", (1 << 40, 1), Layout((1, 0), [(1 << 30, 1)]))
    assert tiling.padding_report(wide).best_orders == ((1, 0),)


def test_little_padding_is_said_in_bytes() -> None:
    report = tiling.padding_report(Shape.parse("f32[1000001,128]{1,0:T(8,128)}"))
    assert "1.00001 times the elements: 3,584 bytes (3.50 KiB) are padding" in str(report)
