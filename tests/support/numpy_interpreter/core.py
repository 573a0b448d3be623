"""Instruction by instruction through a computation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np

from xlashape.hlo import HloComputation, HloInstruction
from xlashape.shape import Shape

Value: TypeAlias = Any
"""An array, or a tuple of values."""
Values: TypeAlias = dict[HloInstruction, Value]
Apply: TypeAlias = Callable[[HloInstruction, list[Value]], Value]

INTERPRETERS: dict[str, Apply] = {}


def interprets(*opcodes: str) -> Callable[[Apply], Apply]:
    """Registers what runs the opcodes: from the instruction and its operands' values to its value."""

    def register(function: Apply) -> Apply:
        for opcode in opcodes:
            assert opcode not in INTERPRETERS, opcode
            INTERPRETERS[opcode] = function
        return function

    return register


def run(
    computation: HloComputation,
    parameters: list[Value],
    replaced: Mapping[HloInstruction, Value] | None = None,
    every: Values | None = None,
) -> Values:
    """The value of every instruction, also of those in computations called once. `replaced` values stand instead of computed ones."""
    values: Values = {} if every is None else every
    calls.append(values)
    try:
        with np.errstate(all="ignore"):
            for one in computation.instructions:
                if replaced and one in replaced:
                    values[one] = replaced[one]
                elif (opcode := one.proto.opcode) == "parameter":
                    values[one] = parameters[one.parameter_number]
                else:
                    values[one] = INTERPRETERS[opcode](one, [values[operand] for operand in one.operands])
    finally:
        calls.pop()
    return values


calls: list[Values] = []
"""The values of the computations that are running, the innermost last."""


def result(computation: HloComputation, parameters: list[Value]) -> Value:
    """The value of the root."""
    # What is called writes where its caller does, so that values inside fusions can be looked up.
    return run(computation, parameters, every=calls[-1] if calls else None)[computation.root]


def leaves(value: Value) -> list[np.ndarray]:
    """The arrays within a value, depth first."""
    return [leaf for part in value for leaf in leaves(part)] if isinstance(value, tuple) else [np.asarray(value)]


def dtype_of(shape: Shape) -> np.dtype[Any]:
    """The dtype of an array's elements. A token's number is a float."""
    return np.dtype(np.float64) if shape.is_token else np.dtype(shape.element_type.numpy_dtype())
