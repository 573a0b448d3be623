"""What a compare asks: `direction=LT`, and `order=TOTAL` where the element type does not say it.

direction   := 'EQ' | 'NE' | 'GE' | 'GT' | 'LE' | 'LT'
order       := 'PARTIAL' | 'TOTAL'
type        := 'FLOAT' | 'TOTALORDER' | 'SIGNED' | 'UNSIGNED'      instead of an order, in text of jaxlib 0.10.2 and before

The fields are strings. Any other string is written as it is.
"""

from __future__ import annotations

from typing import Any, Final

from xlashape.hlo.values.attribute import Context, always_written, not_written
from xlashape.hlo.values.enums import word_attribute
from xlashape.shape import PrimitiveType

_DIRECTIONS: Final = ("EQ", "NE", "GE", "GT", "LE", "LT")
_ORDERS: Final = ("PARTIAL", "TOTAL")
_TYPES: Final = ("FLOAT", "TOTALORDER", "SIGNED", "UNSIGNED")


def default_comparison_order(element_type: PrimitiveType) -> str:
    """How operands of an element type are ordered where nothing is written.

    >>> [default_comparison_order(element_type) for element_type in (PrimitiveType.F32, PrimitiveType.S8, PrimitiveType.PRED)]
    ['PARTIAL', 'TOTAL', 'TOTAL']
    """
    return "PARTIAL" if element_type.is_floating or element_type.is_complex else "TOTAL"


def comparison_order(order: str, comparison_type: str) -> str:
    """The order that an instruction has, from its fields comparison_order and comparison_type; "" where both are empty.

    XLA wrote a type until jaxlib 0.10.2 and writes an order since 0.11.

    >>> comparison_order("", "TOTALORDER"), comparison_order("", "FLOAT"), comparison_order("PARTIAL", "SIGNED")
    ('TOTAL', 'PARTIAL', 'PARTIAL')
    """
    if order or not comparison_type:
        return order
    return "PARTIAL" if comparison_type == "FLOAT" else "TOTAL" if comparison_type in _TYPES else comparison_type


def _write_order(message: Any, context: Context) -> str:
    order = comparison_order(message.comparison_order, message.comparison_type)
    if not order:
        return ""
    shape = context.operand_shape(0)
    return "" if shape is not None and order == default_comparison_order(shape.element_type) else f", order={order}"


DIRECTION: Final = word_attribute(
    "direction",
    "comparison_direction",
    _DIRECTIONS,
    "a direction of comparison",
    always_written("direction", "comparison_direction"),
)
COMPARISON_TYPE: Final = word_attribute("type", "comparison_type", _TYPES, "a type of comparison", not_written)
COMPARISON_ORDER: Final = word_attribute("order", "comparison_order", _ORDERS, "an order of comparison", _write_order)
