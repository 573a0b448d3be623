"""Constants in canonical form: equal for equal elements in the same shape, in whichever order a layout has them.

An elided constant, `constant({...})`, is equal to any other of its shape: text does not have the values. The values
that the reader of text makes up for elided constants (`xlashape.hlo.literal.parse`) are recognised: a constant of more
than ten elements that consists of consecutive 32-bit words.
"""

from __future__ import annotations

from array import array
from hashlib import blake2b
from typing import Final

from xlashape.hlo.literal import raw
from xlashape.hlo.literal.data import element_type, row_major_positions
from xlashape.hlo.literal.number import ELEMENT_TYPES
from xlashape.hlo.values.attribute import ABSENT
from xlashape.limits import spend
from xlashape.proto import xla

ELIDED: Final = "{...}"
"""A constant whose values are not known."""
_MAX_SMALL: Final = 10
"""A constant of more elements is a large one: XLA's text elides it."""
_DIGEST: Final = 16


def constant_key(data: bytes, *, large: bool = True) -> str:
    """The canonical text of a serialized literal: its type, sizes and a hash of its elements, or `{...}` where the
    values are elided or made up.

    Without `large`, constants of more than ten elements are `{...}` too.
    """
    if data == ABSENT:
        return ELIDED
    return _literal_text(xla.LiteralProto.FromString(data), large)


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
        # Each element is a byte, of which only the lower bits count.
        data = data.translate(_low_bits(element.upper - element.lower))
    if count == 1:
        return data.hex()
    if count and data == data[: element.width] * count:
        return f"{data[: element.width].hex()} × {count}"
    return data.hex() if len(data) <= 2 * _DIGEST else blake2b(data, digest_size=_DIGEST).hexdigest()


def _low_bits(mask: int) -> bytes:
    return bytes([byte & mask for byte in range(256)])


def _row_major(data: bytes, positions: list[int] | None, width: int) -> bytes:
    if positions is None:
        return data
    spend(len(positions))
    elements = bytearray(len(data))
    for i, position in enumerate(positions):
        elements[position * width : (position + 1) * width] = data[i * width : (i + 1) * width]
    return bytes(elements)


def _is_made_up(data: bytes) -> bool:
    """Whether bytes are consecutive 32-bit words, as the reader of text fills elided constants with."""
    words = array("I")
    words.frombytes(data[: len(data) & ~3])
    first = words[0]
    return (
        first + len(words) <= 1 << 32
        and words[-1] == first + len(words) - 1
        and words == array("I", range(first, first + len(words)))
    )
