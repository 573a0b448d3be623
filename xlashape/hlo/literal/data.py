"""The elements of a LiteralProto as raw bytes, read and written without changing a bit.

*Raw*: in the order of the literal's layout, little-endian, each as wide as its type, types below 8 bits in a byte each.
"""

from __future__ import annotations

from array import array
from typing import Any

from xlashape.errors import InvalidArgumentError, InvalidModuleError
from xlashape.hlo.literal.element_types import ELEMENT_TYPES, ElementType
from xlashape.math import product
from xlashape.proto import xla
from xlashape.proto.wire import BYTES, fields, tag, varint


def element_type(shape: xla.ShapeProto) -> ElementType:
    """The element type of an array shape. Raises InvalidModuleError for a type that literals do not have."""
    element = ELEMENT_TYPES.get(shape.element_type)
    if element is None:
        raise InvalidModuleError(f"a literal cannot have element type {_type_name(shape.element_type)}")
    return element


def _type_name(number: int) -> str:
    try:
        return xla.PrimitiveType.Name(number).lower()
    except ValueError:
        return f"number {number}"


def element_count(shape: xla.ShapeProto) -> int:
    """The number of elements of a literal's array. Raises InvalidModuleError for a negative size, which also means unbounded."""
    if any(size < 0 for size in shape.dimensions):
        raise InvalidModuleError("a literal cannot have an unbounded or negative dimension")
    return product(shape.dimensions)


def row_major_positions(shape: xla.ShapeProto) -> list[int] | None:
    """For each element, in the order of the layout, its position in row-major order; None if both orders are the same.

    >>> shape = xla.ShapeProto(element_type=xla.F32, dimensions=[2, 2], layout={"minor_to_major": [0, 1]})
    >>> row_major_positions(shape)
    [0, 2, 1, 3]
    """
    dimensions = list(shape.dimensions)
    minor_to_major = list(shape.layout.minor_to_major) if shape.HasField("layout") else []
    rank = len(dimensions)
    if not minor_to_major or minor_to_major == list(range(rank - 1, -1, -1)):
        return None
    if sorted(minor_to_major) != list(range(rank)):
        raise InvalidModuleError(
            f"minor_to_major {minor_to_major} of a literal is not a permutation of its {rank} dimensions"
        )
    strides = [product(dimensions[i + 1 :]) for i in range(rank)]
    positions = [0]
    for dimension in reversed(minor_to_major):
        steps = [i * strides[dimension] for i in range(dimensions[dimension])]
        positions = [position + step for position in positions for step in steps]
    return positions


def raw(literal: xla.LiteralProto) -> bytes:
    """The raw elements of an array literal. Bits are kept, nan payloads included.

    Raises InvalidModuleError if their number is not that of the shape.
    """
    element = element_type(literal.shape)
    content: Any = getattr(literal, element.field)
    if element.storage == "bytes":
        result = bytes(content)
    elif element.storage == "varint":
        result = array(element.code, content).tobytes()
    else:
        floats = array("f" if element.code == "I" else "d", content)
        # A signalling nan becomes a quiet one when it is made a Python float: then the bytes on the wire are used.
        result = _field_content(literal, element.field_number) if any(v != v for v in floats) else floats.tobytes()
    expected = element_count(literal.shape) * element.width
    if len(result) != expected:
        raise InvalidModuleError(
            f"a literal of {element.name}{list(literal.shape.dimensions)} holds {len(result) // element.width} elements,"
            f" not {expected // element.width}"
        )
    return result


def _field_content(literal: xla.LiteralProto, number: int) -> bytes:
    """The content of a packed field on the wire."""
    data = literal.SerializePartialToString()
    return b"".join(
        [
            data[content:end]
            for found, wire_type, _, content, end in fields(data)
            if found == number and wire_type == BYTES
        ]
    )


def from_raw(shape: xla.ShapeProto, data: bytes) -> xla.LiteralProto:
    """The array literal of a shape whose raw elements are `data`. Raises InvalidArgumentError if their number is not the shape's.

    >>> from_raw(xla.ShapeProto(element_type=xla.U8, dimensions=[2]), b"ab").u8s
    b'ab'
    """
    element = element_type(shape)
    expected = element_count(shape) * element.width
    if len(data) != expected:
        raise InvalidArgumentError(f"{len(data)} bytes for a literal of {expected}")
    if element.storage == "fixed":
        field = b"".join((tag(element.field_number, BYTES), varint(len(data)), data)) if data else b""
        literal = xla.LiteralProto.FromString(field)
    else:
        literal = xla.LiteralProto()
        if element.storage == "bytes":
            setattr(literal, element.field, data)
        else:
            values: array[int] = array(element.code)
            values.frombytes(data)
            getattr(literal, element.field).extend(map(bool, values) if element.kind == "pred" else values)
    literal.shape.CopyFrom(shape)
    return literal
