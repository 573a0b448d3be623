"""The numbers that a constant instruction holds, where they are whole numbers."""

from __future__ import annotations

import sys
from array import array
from collections.abc import Sequence

from xlashape.caches import cached
from xlashape.errors import InvalidModuleError
from xlashape.hlo import HloInstruction, Opcode
from xlashape.hlo.literal.data import element_type, raw, row_major_positions
from xlashape.math import product
from xlashape.proto import xla
from xlashape.shape import PrimitiveType, Shape

MAX_ELEMENTS = 1 << 16
"""The most elements of a constant that are read."""


def scalar_value(instruction: HloInstruction) -> int | None:
    """The value of an integral scalar constant, else None."""
    if instruction.proto.opcode != Opcode.CONSTANT or instruction.shape.dimensions:
        return None
    values = integers(instruction)
    return None if values is None else values[0]


def integers(instruction: HloInstruction) -> Sequence[int] | None:
    """The elements of an integral (or pred) constant in row-major order.

    None for another element type, for an array without elements or of more than `MAX_ELEMENTS`, and where the literal is missing or was left
    out of the text that the module was read from.
    """
    shape = instruction.shape
    if not shape.is_array or not (shape.element_type.is_integral or shape.element_type is PrimitiveType.PRED):
        return None
    count = product(shape.dimensions)
    if count == 0 or count > MAX_ELEMENTS or not instruction.proto.HasField("literal"):
        return None
    literal = instruction.proto.literal
    if shape.dimensions:
        return _elements(literal, shape)
    return _scalar_elements(literal.SerializeToString(), shape) or None


# Keeping results saves 7 % of the time of the maps of Llama 3.1.
@cached(max_bytes=1 << 20, weigh=lambda key, value: 700 + len(key[0]))
def _scalar_elements(literal: bytes, shape: Shape) -> tuple[int, ...]:
    """The one element of a scalar; empty where it is not known. A module repeats the same few scalars as offsets."""
    return tuple(_elements(xla.LiteralProto.FromString(literal), shape) or ())


def _elements(literal: xla.LiteralProto, shape: Shape) -> Sequence[int] | None:
    count = product(shape.dimensions)
    if tuple(literal.shape.dimensions) != shape.dimensions or literal.shape.element_type != int(shape.element_type):
        return None
    try:
        element = element_type(literal.shape)
        data = raw(literal)
        positions = row_major_positions(literal.shape)
    except InvalidModuleError:
        return None
    if count > _PRINTED_IN_FULL and data == _placeholder(len(data)):
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
    if positions is None:
        return values
    ordered = [0] * count
    for position, value in zip(positions, values, strict=True):
        ordered[position] = value
    return ordered


_PRINTED_IN_FULL = 10
"""Constants of more elements are printed as `{...}`. Reading such text fills the literal's bytes with the 32-bit numbers 0, 1, 2, … instead."""


def _placeholder(size: int) -> bytes:
    """The bytes that stand in for elements that the text left out."""
    words = array("I", range(size // 4)).tobytes()
    return words + bytes(size - len(words))
