"""Runs a computation instruction by instruction, with the functions that `interprets` has registered."""

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
    """A decorator that registers the function which runs some opcodes. It takes an instruction and the values of the
    operands, and returns the value of the instruction."""

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
    """The value of every instruction, including those in computations that are called once. Values in `replaced` are
    used in place of computed ones.
    """
    values: Values = {} if every is None else every
    calls.append(values)
    try:
        with np.errstate(all="ignore"):
            for instruction in computation.instructions:
                if replaced and instruction in replaced:
                    values[instruction] = replaced[instruction]
                elif (opcode := instruction.details.opcode) == "parameter":
                    values[instruction] = parameters[instruction.parameter_number]
                else:
                    assert opcode in INTERPRETERS, f"tests/support/numpy_interpreter/ does not compute {opcode}"
                    values[instruction] = INTERPRETERS[opcode](
                        instruction, [values[operand] for operand in instruction.operands]
                    )
    finally:
        calls.pop()
    return values


calls: list[Values] = []
"""The values of the computations that are running, the innermost last."""


def result(computation: HloComputation, parameters: list[Value]) -> Value:
    """The value of the root."""
    # A called computation adds its values to those of its caller, so that values within fusions can be looked up.
    return run(computation, parameters, every=calls[-1] if calls else None)[computation.root]


def leaves(value: Value) -> list[np.ndarray]:
    """The arrays within a value, depth first."""
    return [leaf for part in value for leaf in leaves(part)] if isinstance(value, tuple) else [np.asarray(value)]


def dtype_of(shape: Shape) -> np.dtype[Any]:
    """The dtype of an array's elements. A token's number is a float."""
    return np.dtype(np.float64) if shape.is_token else np.dtype(shape.element_type.numpy_dtype())
