"""Instructions and numbers of the wrong type are errors of the library; NumPy's integers are numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from xlashape.errors import InvalidArgumentError
from xlashape.hlo import HloModule
from xlashape.indexing import (
    input_to_output,
    module_indexing,
    output_to_ancestor,
    output_to_ancestors,
    output_to_input,
)

MODULE = HloModule.parse(
    "HloModule m\nENTRY e {\n  p = f32[4,3]{1,0} parameter(0)\n  ROOT t = f32[3,4]{1,0} transpose(p), "
    "dimensions={1,0}\n}"
)
ROOT, P = MODULE.entry.root, MODULE.instruction("p")
WRONG: tuple[Any, ...] = (None, "a", b"x", 3.5, True, object(), [], {}, MODULE, MODULE.proto)
NUMBERS: dict[str, Callable[[Any], object]] = {
    "output_to_input": lambda n: output_to_input(ROOT, output=n),
    "input_to_output": lambda n: input_to_output(ROOT, n),
    "leaf": lambda n: input_to_output(ROOT, 0, n),
    "output_to_ancestors": lambda n: output_to_ancestors(ROOT, n),
    "output_to_ancestor": lambda n: output_to_ancestor(ROOT, P, n),
}


@pytest.mark.parametrize("ask", NUMBERS.values(), ids=NUMBERS)
def test_numbers(ask: Callable[[Any], object]) -> None:
    for value in (*WRONG, ROOT):
        with pytest.raises(InvalidArgumentError, match="takes an integer, found"):
            ask(value)
    assert ask(np.int32(0)) == ask(0)


@pytest.mark.parametrize("value", [*WRONG, 3], ids=lambda value: type(value).__name__)
def test_instructions(value: Any) -> None:
    asks: list[Callable[..., object]] = [output_to_input, input_to_output, output_to_ancestors]
    for ask in asks:
        with pytest.raises(
            InvalidArgumentError, match=f"^instruction takes an HloInstruction, not {type(value).__name__}$"
        ):
            ask(value)
    with pytest.raises(
        InvalidArgumentError, match=f"^instruction takes an HloInstruction, not {type(value).__name__}$"
    ):
        output_to_ancestor(value, P)
    with pytest.raises(InvalidArgumentError, match=f"^ancestor takes an HloInstruction, not {type(value).__name__}$"):
        output_to_ancestor(ROOT, value)


@pytest.mark.parametrize("value", [None, "m", ROOT, MODULE.proto], ids=lambda value: type(value).__name__)
def test_modules(value: Any) -> None:
    with pytest.raises(InvalidArgumentError, match=f"^module takes an HloModule, not {type(value).__name__}$"):
        next(module_indexing(value))
