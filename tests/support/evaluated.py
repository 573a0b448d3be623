"""Runs computations with `xlashape.evaluation`, so that tests can compare indexing maps with what operations do. It
shares no code with the indexing analysis.

Data from outside the module is made up: custom calls, infeeds and random numbers depend on every element they are
given.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from xlashape.evaluation.domains.values import PlainNumbers
from xlashape.evaluation.elementwise import is_real
from xlashape.evaluation.machine import Machine, Spread, Value, dtype_of, leaves
from xlashape.hlo import HloComputation, HloInstruction
from xlashape.shape import Shape

__all__ = ["dtype_of", "leaves", "result", "run"]


def run(
    computation: HloComputation,
    parameters: list[Value],
    replaced: Mapping[HloInstruction, Value] | None = None,
) -> dict[HloInstruction, Value]:
    """The value of every instruction, including those in computations that are called once. Values in `replaced` are
    used in place of computed ones.
    """
    every: dict[HloInstruction, Spread] = {}
    arguments = [[_of(p.shape, value)] for p, value in zip(computation.parameters, parameters, strict=True)]
    given = {each: [_of(each.shape, value)] for each, value in (replaced or {}).items()}
    Machine(PlainNumbers(), outside=_outside, replaced=given, every=every).run(computation, arguments)
    return {each: spread[0] for each, spread in every.items()}


def result(computation: HloComputation, parameters: list[Value]) -> Value:
    """The value of the root."""
    return run(computation, parameters)[computation.root]


def _of(shape: Shape, value: Any) -> Value:
    if shape.is_tuple:
        return tuple(_of(part, inner) for part, inner in zip(shape.tuple_shapes, value, strict=True))
    if shape.is_token:
        return np.asarray(value)
    array = np.asarray(value)
    if not is_real(shape.element_type):
        return array.astype(dtype_of(shape))
    return array.astype(np.float64)


def _outside(instruction: HloInstruction, operands: list[Spread]) -> Spread:
    """Numbers that depend on every element of the operands. Of data from elsewhere, only tokens do."""
    is_elsewhere = str(instruction.opcode) in ("infeed", "recv")
    total = sum(
        float(np.sum(np.real(leaf) * (1 + i))) for i, spread in enumerate(operands) for leaf in leaves(spread[0])
    )

    def made(shape: Shape, number: int) -> Value:
        if shape.is_tuple:
            return tuple(made(part, number + i) for i, part in enumerate(shape.tuple_shapes))
        if shape.is_token:
            return np.asarray(total + 1)
        along = np.arange(int(np.prod(shape.dimensions))).reshape(shape.dimensions)
        return ((0 if is_elsewhere else total) + number + along).astype(
            dtype_of(shape) if not is_real(shape.element_type) else np.float64
        )

    return [made(instruction.shape, 0)]
