"""What a compare asks: `direction=LT`, and `type=TOTALORDER` where the element type does not say it.

direction   := 'EQ' | 'NE' | 'GE' | 'GT' | 'LE' | 'LT'
type        := 'FLOAT' | 'TOTALORDER' | 'SIGNED' | 'UNSIGNED'

Both fields are strings. A string that is none of these words is written as it is.
"""

from __future__ import annotations

from typing import Any, Final

from xlashape.hlo.lex import HloCursor
from xlashape.hlo.values.attribute import FIELDS, Attribute, Context, always_written
from xlashape.shape import PrimitiveType

__all__ = ["COMPARISON_TYPE", "DIRECTION", "default_comparison_type"]

_DIRECTIONS: Final = {word: word for word in ("EQ", "NE", "GE", "GT", "LE", "LT")}
_TYPES: Final = {word: word for word in ("FLOAT", "TOTALORDER", "SIGNED", "UNSIGNED")}


def default_comparison_type(element_type: PrimitiveType) -> str:
    """The type of comparison of operands of an element type, where none is written.

    >>> [default_comparison_type(element_type) for element_type in (PrimitiveType.F32, PrimitiveType.S8, PrimitiveType.PRED)]
    ['FLOAT', 'SIGNED', 'UNSIGNED']
    """
    if element_type.is_floating or element_type.is_complex:
        return "FLOAT"
    return "SIGNED" if element_type.is_signed_integral else "UNSIGNED"


def _read_direction(cursor: HloCursor) -> bytes:
    return FIELDS.string("comparison_direction", cursor.parse_word_of(_DIRECTIONS, "a direction of comparison"))


def _read_type(cursor: HloCursor) -> bytes:
    return FIELDS.string("comparison_type", cursor.parse_word_of(_TYPES, "a type of comparison"))


def _write_type(message: Any, context: Context) -> str:
    kind = message.comparison_type
    if not kind:
        return ""
    shape = context.operand_shape(0)
    return "" if shape is not None and kind == default_comparison_type(shape.element_type) else f", type={kind}"


DIRECTION: Final = Attribute("direction", _read_direction, always_written("direction", "comparison_direction"))
COMPARISON_TYPE: Final = Attribute("type", _read_type, _write_type)
