"""How the elements of each array type lie in a LiteralProto and in text. Matches XLA's literal text (xla/literal.cc).

A LiteralProto holds its elements in the order of its layout, the most minor dimension first, as bytes, varints or fixed-width numbers.
Here they are always *raw*: little-endian bytes of a fixed width each, types below 8 bits in a byte each.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable
from typing import Final, Literal, NamedTuple

from xlashape import caches
from xlashape.hlo.literal.floats import f32_text, f64_text
from xlashape.proto import xla
from xlashape.shape import PrimitiveType
from xlashape.shape.parts.float_format import FloatFormat

_MAX_TEXTS: Final = 1 << 15
_TEXT_BYTES: Final = 200  # of an entry: an int, a text of up to 24 characters, and their place in the dict


class _TextCache(dict[int, str]):
    """Raw bits of a number → its text, computed on first use. Emptied when it holds _MAX_TEXTS entries.

    A dict, because a constant may have a million elements: looking one up takes 30 ns, in a `BoundedCache` 150.
    """

    def __init__(self, owner: str, text: Callable[[int], str]) -> None:
        super().__init__()
        self._owner = owner
        self._text = text
        caches.register(self)

    def __missing__(self, bits: int) -> str:
        text = self._text(bits)
        if len(self) >= _MAX_TEXTS:
            self.clear()
        self[bits] = text
        return text

    def usage(self) -> caches.CacheUsage:
        return caches.CacheUsage(self._owner, len(self), len(self) * _TEXT_BYTES, _MAX_TEXTS * _TEXT_BYTES)


class ElementType(NamedTuple):
    """How one element type lies in a LiteralProto and in text."""

    number: int
    """Of xla.PrimitiveType."""
    name: str
    field: str
    """Of LiteralProto."""
    storage: Literal["bytes", "varint", "fixed"]
    """How the field holds the elements."""
    code: str
    """The type code of `array` for an element's raw bits; a complex number is two of them."""
    kind: Literal["pred", "int", "float", "complex"]
    texts: Callable[[array[int]], list[str]]
    """Raw bits of elements → their texts inside an array."""
    lower: int = 0
    upper: int = 0
    """The range of an integral type."""
    float_format: FloatFormat | None = None
    """Of a floating point type, and of the parts of a complex type."""

    @property
    def width(self) -> int:
        """Bytes of an element's raw form."""
        return array(self.code).itemsize * (2 if self.kind == "complex" else 1)

    @property
    def field_number(self) -> int:
        """The number of the field in LiteralProto."""
        return xla.LiteralProto.DESCRIPTOR.fields_by_name[self.field].number


def _integer_texts(values: array[int]) -> list[str]:
    return [str(value) for value in values]


def _narrow_integer_texts(bits: int, *, is_signed: bool) -> Callable[[array[int]], list[str]]:
    """The texts of integers of less than 8 bits: the upper bits of their bytes do not count."""

    def text(byte: int) -> str:
        value = byte & ((1 << bits) - 1)
        return str(value - (1 << bits) if is_signed and value >> (bits - 1) else value)

    table = [text(byte) for byte in range(256)]
    return lambda raw: [table[byte] for byte in raw]


def _float_texts(texts: dict[int, str]) -> Callable[[array[int]], list[str]]:
    return lambda raw: [texts[bits] for bits in raw]


def _complex_texts(texts: dict[int, str]) -> Callable[[array[int]], list[str]]:
    return lambda raw: [f"({texts[raw[i]]}, {texts[raw[i + 1]]})" for i in range(0, len(raw), 2)]


# One for each format: a complex type has that of its parts.
_FLOAT_TEXTS = {
    kind.float_format: _TextCache(
        f"texts of {kind} elements", {32: f32_text, 64: f64_text}.get(kind.float_format.bits, kind.float_format.text)
    )
    for kind in PrimitiveType
    if kind.is_floating and kind.float_format
}

# Bytes of an element → type code of `array` for a signed and an unsigned integer, and for the bits of a float.
_SIGNED, _UNSIGNED = {1: "b", 2: "h", 4: "i", 8: "q"}, {1: "B", 2: "H", 4: "I", 8: "Q"}


def _element_type(kind: PrimitiveType) -> ElementType:
    number, name, field, bits = int(kind), kind.text, f"{kind.text}s", kind.bit_width
    float_format = kind.float_format
    if float_format is not None:
        cache = _FLOAT_TEXTS[float_format]
        storage = "bytes" if float_format.bits <= 16 else "fixed"
        code = _UNSIGNED[max(8, float_format.bits) // 8]
        if kind.is_complex:
            return ElementType(
                number, name, field, storage, code, "complex", _complex_texts(cache), float_format=float_format
            )
        return ElementType(number, name, field, storage, code, "float", _float_texts(cache), float_format=float_format)
    if kind is PrimitiveType.PRED:
        return ElementType(number, name, field, "varint", "B", "pred", _integer_texts, upper=1)
    is_signed = kind.is_signed_integral
    texts = _integer_texts if bits >= 8 else _narrow_integer_texts(bits, is_signed=is_signed)
    code = (_SIGNED if is_signed and bits >= 8 else _UNSIGNED)[max(8, bits) // 8]
    lower, upper = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if is_signed else (0, (1 << bits) - 1)
    return ElementType(number, name, field, "varint" if bits >= 32 else "bytes", code, "int", texts, lower, upper)


ELEMENT_TYPES: Final = {int(kind): _element_type(kind) for kind in PrimitiveType if kind.is_array_type}
"""Element types by their number in xla.PrimitiveType."""
