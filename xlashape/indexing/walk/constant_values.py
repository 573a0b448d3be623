"""The numbers that a constant instruction holds, where they are whole numbers."""

from __future__ import annotations

import sys
from array import array
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

from xlashape.errors import InvalidModuleError
from xlashape.hlo.literal.data import element_type, raw, row_major_places
from xlashape.math import product
from xlashape.proto import xla
from xlashape.shape import PrimitiveType, Shape

if TYPE_CHECKING:
    from xlashape.hlo import HloInstruction

__all__ = ["integers", "scalar_value"]

MAX_ELEMENTS = 1 << 16
"""Elements of a constant that are looked at."""


def scalar_value(instruction: HloInstruction) -> int | None:
    """The value of an integral scalar constant, else None."""
    if instruction.proto.opcode != "constant" or instruction.shape.dimensions:
        return None
    values = integers(instruction)
    return None if values is None else values[0]


def integers(instruction: HloInstruction) -> Sequence[int] | None:
    """The elements of an integral constant in row-major order; None for another type, a large array, or a literal that was left out."""
    shape = instruction.shape
    if not shape.is_array or not (shape.element_type.is_integral or shape.element_type is PrimitiveType.PRED):
        return None
    count = product(shape.dimensions)
    if count == 0 or count > MAX_ELEMENTS or not instruction.proto.HasField("literal"):
        return None
    literal = instruction.proto.literal
    return _elements(literal, shape) if shape.dimensions else _scalar_elements(literal.SerializeToString(), shape)


@lru_cache(maxsize=1 << 10)
def _scalar_elements(literal: bytes, shape: Shape) -> Sequence[int] | None:
    """Offsets are the same few scalars all over a module."""
    return _elements(xla.LiteralProto.FromString(literal), shape)


def _elements(literal: xla.LiteralProto, shape: Shape) -> Sequence[int] | None:
    count = product(shape.dimensions)
    if tuple(literal.shape.dimensions) != shape.dimensions or literal.shape.element_type != int(shape.element_type):
        return None
    try:
        element = element_type(literal.shape)
        data = raw(literal)
        places = row_major_places(literal.shape)
    except InvalidModuleError:
        return None
    if count > _PRINTED_IN_FULL and data == _left_out(len(data)):
        return None
    stored: array[int] = array(element.code)
    stored.frombytes(data)
    if sys.byteorder == "big":
        stored.byteswap()
    values: list[int] = list(stored)
    width = shape.element_type.bit_width
    if width < 8:
        values = [value & ((1 << width) - 1) for value in values]
        if shape.element_type.is_signed:
            values = [value - (1 << width) if value >> (width - 1) else value for value in values]
    if places is None:
        return values
    ordered = [0] * count
    for place, value in zip(places, values, strict=True):
        ordered[place] = value
    return ordered


_PRINTED_IN_FULL = 10
"""XLA's text leaves out the elements of larger constants, `{...}`, and reading it back puts numbers counted up from 0 in their place."""


def _left_out(size: int) -> bytes:
    words = array("I", range(size // 4)).tobytes()
    return words + bytes(size - len(words))
