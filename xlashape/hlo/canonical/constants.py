"""Constants in canonical form. Two constants of the same shape are equal here if their elements are, in whichever order
their layouts store them.

An elided constant, `constant({...})`, has no values in the text, and is equal to any other elided constant of its
shape. The reader of text fills elided constants with consecutive 32-bit words (`xlashape.hlo.literal.parse`). A
constant of more than ten elements that consists of such words therefore counts as elided too.
"""

from __future__ import annotations

from array import array
from hashlib import blake2b
from typing import Final

from xlashape.hlo.literal import raw
from xlashape.hlo.literal.data import element_type, row_major_positions
from xlashape.hlo.literal.number import ELEMENT_TYPES
from xlashape.limits import spend
from xlashape.proto import xla

ELIDED: Final = "{...}"
"""The canonical text of a constant whose values are not known."""
_MAX_SMALL: Final = 10
"""Elements. XLA's text elides a constant that has more."""
_DIGEST: Final = 16


def constant_key(constant: xla.HloInstructionProto, *, large: bool = True) -> str:
    """The canonical text of a constant: its elements as hexadecimal digits, a hash of them if there are many, or
    `{...}` if the values are elided.

    Without `large`, constants of more than ten elements are `{...}` too.
    """
    return _literal_text(constant.literal, large) if constant.HasField("literal") else ELIDED


def _literal_text(literal: xla.LiteralProto, large: bool) -> str:
    shape = literal.shape
    if shape.element_type == xla.TUPLE:
        return f"({', '.join([_literal_text(part, large) for part in literal.tuple_literals])})"
    if shape.element_type not in ELEMENT_TYPES:
        return ELIDED
    element = element_type(shape)
    data = _row_major(raw(literal), row_major_positions(shape), element.width)
    count = len(data) // max(element.width, 1)
    if count > _MAX_SMALL and (not large or _is_made_up(data)):
        return ELIDED
    if element.code == "B" and element.kind in ("int", "pred") and element.name != "u8":
        # Each element is stored in a byte, of which only the lower bits belong to the value.
        data = data.translate(_low_bits(element.upper - element.lower))
    if count == 1:
        return data.hex()
    if count and data == data[: element.width] * count:
        return f"{data[: element.width].hex()} × {count}"
    return data.hex() if len(data) <= 2 * _DIGEST else blake2b(data, digest_size=_DIGEST).hexdigest()


def _low_bits(mask: int) -> bytes:
    return bytes([byte & mask for byte in range(256)])


def _row_major(data: bytes, positions: list[int] | None, width: int) -> bytes:
    """The elements in row-major order. `positions` has the row-major position of each element, None if all stay."""
    if positions is None:
        return data
    spend(len(positions))
    elements = bytearray(len(data))
    for i, position in enumerate(positions):
        elements[position * width : (position + 1) * width] = data[i * width : (i + 1) * width]
    return bytes(elements)


def _is_made_up(data: bytes) -> bool:
    """Whether bytes are the consecutive 32-bit words with which the reader of text fills elided constants."""
    words = array("I")
    words.frombytes(data[: len(data) & ~3])
    first = words[0]
    return (
        first + len(words) <= 1 << 32
        and words[-1] == first + len(words) - 1
        and words == array("I", range(first, first + len(words)))
    )
