"""The text of a constant instruction's value: which are shown, which are `{...}`."""

from __future__ import annotations

from functools import lru_cache

from xlashape.hlo.literal.data import element_count, element_type, raw
from xlashape.hlo.literal.element_types import ELEMENT_TYPES
from xlashape.hlo.literal.format import literal_text
from xlashape.hlo.literal.parse import parse_literal
from xlashape.hlo.text.writer.options import PrintOptions
from xlashape.hlo.values.attribute import ABSENT
from xlashape.proto import xla
from xlashape.text import Source

__all__ = ["constant_text"]

_ELIDED = "{...}"
_SMALL = 10  # elements


def constant_text(data: bytes, options: PrintOptions) -> str:
    """The text between the parentheses of a constant whose literal is `data`, a serialized LiteralProto or ABSENT."""
    if data == ABSENT:
        return _ELIDED
    if options.print_only_essentials:
        return _essential(data)
    if len(data) < 256:
        return _short(data, options.print_large_constants)
    literal = xla.LiteralProto.FromString(data)
    return literal_text(literal) if options.print_large_constants or _is_small(literal) else _ELIDED


@lru_cache(4096)
def _short(data: bytes, large: bool) -> str:
    literal = xla.LiteralProto.FromString(data)
    return literal_text(literal) if large or _is_small(literal) else _ELIDED


def _is_small(literal: xla.LiteralProto) -> bool:
    return literal.shape.element_type in ELEMENT_TYPES and element_count(literal.shape) <= _SMALL


@lru_cache(4096)
def _essential(data: bytes) -> str:
    literal = xla.LiteralProto.FromString(data)
    if literal.shape.element_type not in ELEMENT_TYPES:
        return _ELIDED
    element = element_type(literal.shape)
    values = raw(literal)
    for text, one in (("0", bytes(element.width)), ("1", _one(element.number))):
        if values == one * element_count(literal.shape):
            return text
    return literal_text(literal) if element.kind == "int" else _ELIDED


@lru_cache(64)
def _one(number: int) -> bytes:
    text = "(1, 0)" if ELEMENT_TYPES[number].kind == "complex" else "1"
    try:
        return raw(parse_literal(Source(text), 0, xla.ShapeProto(element_type=number))[0])
    except Exception:
        return b"?"
