"""The value of a constant instruction as text: which constants are written in full, and which as `{...}`."""

from __future__ import annotations

from typing import Any, Final

from xlashape.caches import cached
from xlashape.errors import ParseError
from xlashape.hlo.literal import literal_text, parse_literal, raw
from xlashape.hlo.literal.data import element_count, element_type
from xlashape.hlo.literal.element_types import ELEMENT_TYPES, ElementType
from xlashape.hlo.text.writer.options import PrintOptions
from xlashape.hlo.values.attribute import ABSENT
from xlashape.proto import xla
from xlashape.text import Source

__all__ = ["constant_text"]

_ELIDED: Final = "{...}"
_MAX_ELEMENTS: Final = 10
"""A constant of more elements is written as `{...}`, unless the options ask for large constants."""


def constant_text(data: bytes, options: PrintOptions) -> str:
    """The text between the parentheses of a constant whose literal is `data`, a serialized LiteralProto or ABSENT."""
    if data == ABSENT:
        return _ELIDED
    return _essential_text(data) if options.print_only_essentials else _text(data, options.print_large_constants)


def _weight(key: tuple[Any, ...], text: str) -> int:
    return 300 + len(key[0]) + len(text)


@cached(max_bytes=4 << 20, weigh=_weight)
def _text(data: bytes, large: bool) -> str:
    literal = xla.LiteralProto.FromString(data)
    is_small = literal.shape.element_type in ELEMENT_TYPES and element_count(literal.shape) <= _MAX_ELEMENTS
    return literal_text(literal) if large or is_small else _ELIDED


@cached(max_bytes=4 << 20, weigh=_weight)
def _essential_text(data: bytes) -> str:
    """What a fingerprint has: `0` or `1` where all elements are that, integers in full, and `{...}` for anything else."""
    literal = xla.LiteralProto.FromString(data)
    if literal.shape.element_type not in ELEMENT_TYPES:
        return _ELIDED
    element = element_type(literal.shape)
    values, count = raw(literal), element_count(literal.shape)
    if values == bytes(element.width) * count:
        return "0"
    if values == _one(element) * count:
        return "1"
    return literal_text(literal) if element.kind == "int" else _ELIDED


def _one(element: ElementType) -> bytes:
    """The raw bytes of the number 1; b"" for s1, which has no 1."""
    text = "(1, 0)" if element.kind == "complex" else "1"
    try:
        return raw(parse_literal(Source(text), 0, xla.ShapeProto(element_type=element.number))[0])
    except ParseError:
        return b""
