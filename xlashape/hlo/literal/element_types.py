"""How the elements of each array type lie in a LiteralProto and in text. Matches XLA's literal text (xla/literal.cc).

A LiteralProto holds its elements in the order of its layout, the most minor dimension first, as bytes, varints or fixed-width numbers.
Here they are always *raw*: little-endian bytes of a fixed width each, types below 8 bits in a byte each.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable
from typing import Final, Literal, NamedTuple

from xlashape import caches
from xlashape.hlo.literal.floats import BF16, F16, F32, F64, SMALL_FORMATS, FloatFormat, f32_text, f64_text
from xlashape.proto import xla

__all__ = ["ELEMENT_TYPES", "ElementType"]

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


def _integer_types() -> list[ElementType]:
    types = [_element_type("pred", "varint", "B", "pred", _integer_texts, upper=1)]
    for bits in (1, 2, 4):
        half = 1 << (bits - 1)
        texts = _narrow_integer_texts(bits, is_signed=True)
        types.append(_element_type(f"s{bits}", "bytes", "B", "int", texts, lower=-half, upper=half - 1))
        texts = _narrow_integer_texts(bits, is_signed=False)
        types.append(_element_type(f"u{bits}", "bytes", "B", "int", texts, upper=2 * half - 1))
    for bits, signed_code, unsigned_code in ((8, "b", "B"), (16, "h", "H"), (32, "i", "I"), (64, "q", "Q")):
        storage = "varint" if bits >= 32 else "bytes"
        half = 1 << (bits - 1)
        types.append(
            _element_type(f"s{bits}", storage, signed_code, "int", _integer_texts, lower=-half, upper=half - 1)
        )
        types.append(_element_type(f"u{bits}", storage, unsigned_code, "int", _integer_texts, upper=2 * half - 1))
    return types


def _float_types() -> list[ElementType]:
    types: list[ElementType] = []
    for name, float_format in {**SMALL_FORMATS, "f16": F16, "bf16": BF16}.items():
        texts = _float_texts(_TextCache(f"texts of {name} elements", float_format.text))
        code = "H" if float_format.bits == 16 else "B"
        types.append(_element_type(name, "bytes", code, "float", texts, float_format=float_format))
    for name, complex_name, code, float_format, text in (
        ("f32", "c64", "I", F32, f32_text),
        ("f64", "c128", "Q", F64, f64_text),
    ):
        cache = _TextCache(f"texts of {name} elements", text)
        types.append(_element_type(name, "fixed", code, "float", _float_texts(cache), float_format=float_format))
        types.append(
            _element_type(complex_name, "fixed", code, "complex", _complex_texts(cache), float_format=float_format)
        )
    return types


def _element_type(
    name: str,
    storage: Literal["bytes", "varint", "fixed"],
    code: str,
    kind: Literal["pred", "int", "float", "complex"],
    texts: Callable[[array[int]], list[str]],
    *,
    lower: int = 0,
    upper: int = 0,
    float_format: FloatFormat | None = None,
) -> ElementType:
    number = xla.PrimitiveType.Value(name.upper())
    return ElementType(number, name, f"{name}s", storage, code, kind, texts, lower, upper, float_format)


ELEMENT_TYPES: Final = {element.number: element for element in (*_integer_types(), *_float_types())}
"""Element types by their number in xla.PrimitiveType."""
