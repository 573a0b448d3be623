"""Names, paths and bytes of the wrong type are errors of the library."""

from __future__ import annotations

from typing import Any

import pytest

from xlashape.errors import InvalidArgumentError
from xlashape.hlo import HloModule

MODULE = HloModule.parse("HloModule m\nENTRY e {\n  ROOT p = f32[4]{0} parameter(0)\n}")
WRONG: tuple[Any, ...] = (None, 3, 3.5, b"p", object(), [], {}, MODULE, MODULE.entry.root, MODULE.proto)


@pytest.mark.parametrize("value", WRONG, ids=lambda value: type(value).__name__)
def test_names(value: Any) -> None:
    for ask in (MODULE.instruction, MODULE.computation, MODULE.entry.instruction):
        with pytest.raises(InvalidArgumentError, match=f"^name takes text, not {type(value).__name__}$"):
            ask(value)


@pytest.mark.parametrize("value", WRONG, ids=lambda value: type(value).__name__)
def test_paths(value: Any) -> None:
    with pytest.raises(InvalidArgumentError, match=f"^path takes text or a path, not {type(value).__name__}$"):
        HloModule.load(value)


@pytest.mark.parametrize("value", [None, 3, "p", [1], MODULE.proto], ids=lambda value: type(value).__name__)
def test_content(value: Any) -> None:
    with pytest.raises(InvalidArgumentError, match=f"^data takes bytes, not {type(value).__name__}$"):
        HloModule.from_bytes(value)


def test_every_kind_of_bytes_is_content() -> None:
    data = MODULE.proto.SerializeToString()
    for content in (data, bytearray(data), memoryview(data)):
        assert HloModule.from_bytes(content).proto == MODULE.proto
