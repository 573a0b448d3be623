"""Every row of tests/vectors/shape_util.jsonl: what XLA's ShapeUtil, LayoutUtil and IndexUtil answered.

In a row's arguments a shape is its text, a layout its text in braces, an element type its spelling. The answer "error"
stands for a status that is no OK; of functions whose name begins with validate the answer is whether the status is OK.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from xlashape.errors import XlashapeError
from xlashape.shape import Layout, PrimitiveType, Shape, index_util, layout_util, shape_util

ROWS = [
    json.loads(line) for line in (Path(__file__).parents[2] / "vectors" / "shape_util.jsonl").read_text().splitlines()
]
FUNCTIONS = sorted({row["function"] for row in ROWS})
MODULES = {"shape_util": shape_util, "layout_util": layout_util, "index_util": index_util}


def argument(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    if value.startswith("{"):
        return Layout.parse(value)
    return (
        Shape.parse(value) if value.startswith("(") or value.endswith((")", "]", "}")) else PrimitiveType.parse(value)
    )


def plain(value: Any) -> Any:
    if isinstance(value, PrimitiveType):
        return value.text
    if isinstance(value, Shape | Layout):
        return str(value)
    if isinstance(value, shape_util.BitcastDecompositionReshape):
        return ["reshape"]
    if isinstance(value, shape_util.BitcastDecompositionTranspose):
        return ["transpose", list(value.transpose_dims)]
    if isinstance(value, tuple | list):
        return [plain(item) for item in value]
    return value


def answer(row: dict[str, Any]) -> Any:
    module, name = row["function"].split(".")
    call = getattr(MODULES[module], name)
    arguments = [argument(value) for value in row["args"]]
    if name.startswith("validate"):
        try:
            call(*arguments)
        except XlashapeError:
            return False
        return True
    if row["answer"] == "error":
        with pytest.raises(XlashapeError):
            call(*arguments)
        return "error"
    value = call(*arguments)
    if name == "decompose_bitcast" and isinstance(value, shape_util.BitcastDecompositionTrt):
        return ["trt", *plain(value)]
    return plain(value)


def test_there_are_enough() -> None:
    assert len(ROWS) > 2000
    assert len(FUNCTIONS) > 85


@pytest.mark.parametrize("function", FUNCTIONS)
def test_xla_agrees(function: str) -> None:
    rows = [row for row in ROWS if row["function"] == function]
    assert rows
    for row in rows:
        assert answer(row) == row["answer"], row
