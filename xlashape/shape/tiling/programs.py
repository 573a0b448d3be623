"""The programs of a shape: index → position in the buffer, and back. Kept for the shapes asked about last."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from xlashape.shape.tiling.formula import geometry, logical_index, physical_position
from xlashape.shape.tiling.program import Program, trace
from xlashape.shape.value.shape import Shape

__all__ = ["forward_program", "inverse_program"]


@lru_cache(maxsize=4096)
def forward_program(shape: Shape) -> tuple[tuple[int, ...], Program]:
    """The sizes, and the program index → position."""
    array = geometry(shape)
    if not array.elements:
        return array.dimensions, Program(len(array.dimensions), (), ((),))
    return array.dimensions, trace(array.dimensions, lambda index: [physical_position(shape, index)])


@lru_cache(maxsize=4096)
def inverse_program(shape: Shape) -> tuple[Program, tuple[tuple[int, int], ...]]:
    """The program position → (index…, further values…), and conditions (output, size): there is an element where output < size."""
    sizes: list[int] = []

    def formula(position: Sequence[Any]) -> list[Any]:
        index, conditions = logical_index(shape, position[0])
        sizes.extend(condition.size for condition in conditions)
        return [*index, *[condition.value for condition in conditions]]

    array = geometry(shape)
    rank = len(array.dimensions)
    program = trace((array.elements,), formula)
    # A condition is mostly about a number that is part of the index already.
    outputs = list(program.outputs[:rank])
    conditions: list[tuple[int, int]] = []
    for terms, size in zip(program.outputs[rank:], sizes, strict=True):
        if terms not in outputs:
            outputs.append(terms)
        condition = (outputs.index(terms), size)
        if condition not in conditions:
            conditions.append(condition)
    return program._replace(outputs=tuple(outputs)), tuple(conditions)
