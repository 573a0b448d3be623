"""Every row of tests/vectors/shapes.jsonl: XLA's own text and ShapeProto of a shape."""

from __future__ import annotations

import base64
import json
from pathlib import Path

from xlashape.proto import xla
from xlashape.shape import Shape
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
