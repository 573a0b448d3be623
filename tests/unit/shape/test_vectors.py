"""Every row of tests/vectors/shapes.jsonl: XLA's own text and ShapeProto of a shape, its sizes and linear indices."""

from __future__ import annotations

import base64
import json
from pathlib import Path

from xlashape.proto import xla
from xlashape.shape import Shape, index_util, layout_util, shape_util
from xlashape.shape.text import shape_text

ROWS = [json.loads(line) for line in (Path(__file__).parents[2] / "vectors" / "shapes.jsonl").read_text().splitlines()]


def test_text() -> None:
    assert len(ROWS) > 1000
    for row in ROWS:
        shape = Shape.parse(row["input"])
        assert str(shape) == row["text"]
        assert shape_text(shape, layout=False) == row["text_without_layout"]
        assert Shape.parse(row["text"]) == shape


def test_proto() -> None:
    for row in ROWS:
        data = base64.b64decode(row["shape_proto"])
        shape = Shape.parse(row["input"])
        assert shape.to_proto() == xla.ShapeProto.FromString(data)
        assert shape.to_proto().SerializeToString(deterministic=True) == data
        decoded = Shape.from_proto(data)
        assert decoded == shape
        assert hash(decoded) == hash(shape)
        assert Shape.from_proto(shape.to_proto()) == shape


def test_sizes() -> None:
    checked = 0
    for row in ROWS:
        shape = Shape.parse(row["input"])
        if "byte_size_of" in row:
            assert shape_util.byte_size_of(shape) == row["byte_size_of"], row
            checked += 1
        if "elements_in" in row:
            assert shape_util.elements_in(shape) == row["elements_in"], row
    assert checked > 1000


def test_array_size() -> None:
    """Equal where XLA's shortcut is exact: at most one tile, and a tail padding on tiled arrays only; else never below
    it.
    """
    exact = shortcut = 0
    for row in ROWS:
        if "array_size" not in row:
            continue
        shape = Shape.parse(row["input"])
        layout = shape.layout
        assert layout is not None
        size = shape_util.array_size(shape)
        assert shape_util.array_data_size(shape) <= shape_util.array_size(
            shape.with_layout(layout.replace(split_configs=()))
        )
        if len(layout.tiles) == 1 or (not layout.tiles and layout.tail_padding_alignment_in_elements == 1):
            assert size == row["array_size"], row
            exact += 1
        else:
            assert size >= row["array_size"], row
            shortcut += 1
    assert exact > 700
    assert shortcut > 100


def test_linear_indices() -> None:
    for row in ROWS:
        if "index" not in row:
            continue
        shape, index = Shape.parse(row["input"]), tuple(row["index"])
        linear = index_util.multidimensional_index_to_linear_index(shape, index)
        assert linear == row["linear_index_untiled"], row
        assert index_util.linear_index_to_multidimensional_index(shape, linear) == index
        if "linear_index_one_tile" in row:
            assert layout_util.linear_index(shape, index) == row["linear_index_one_tile"], row
            assert layout_util.linear_index_for_nested_tiling(shape, index) == row["linear_index_one_tile"], row
            assert layout_util.delinearize_index_for_nested_tiling(shape, row["linear_index_one_tile"]) == index
