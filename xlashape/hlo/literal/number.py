"""How a single number of each element type is stored, printed and parsed. `ELEMENT_TYPES` has a row for each type.
Matches XLA's literal text (xla/literal.cc). `xlashape.hlo.literal.parse` has the grammar of literals.

*Raw* numbers are little-endian bytes; a number of a type below 8 bits takes a byte. A LiteralProto holds its elements
in the order of its layout, the most minor dimension first, as bytes, varints or fixed-width numbers.

XLA prints floats as follows, found by experiment: an f32 with 6 digits if they read back to the same value, else with
9; an f64 with 15, else with 17; a narrower format with as many digits as it may need (f16 5, bf16 4, f8e4m3 3, f8e5m2
2, …). A nan shows its sign, and its payload unless only the quiet bit is set: nan, -nan, nan(0x1).
"""

from __future__ import annotations

import re
import struct
from array import array
from bisect import bisect_left
from collections.abc import Callable
from math import inf
from typing import Final, Literal, NamedTuple, NoReturn

from xlashape.base import caches
from xlashape.base.caches import cached
from xlashape.base.text import Source
from xlashape.proto import xla
from xlashape.shape.parts.primitive_type import FloatFormat, PrimitiveType


def float_format_of(name: str) -> FloatFormat:
    """The format of a floating-point type, or of the real and imaginary part of a complex type."""
    float_format = PrimitiveType.parse(name).float_format
    assert float_format is not None
    return float_format


_F16, _F32, _F64 = map(float_format_of, ("f16", "f32", "f64"))


def f32_text(pattern: int) -> str:
    """XLA's text of an f32.

    >>> f32_text(0x3DCCCCCD), f32_text(0x3EAAAAAB), f32_text(0x7F800001)
    ('0.1', '0.333333343', 'nan(0x1)')
    """
    (value,) = struct.unpack("<f", pattern.to_bytes(4, "little"))
    if value != value:
        return _F32.text(pattern)
    text = f"{value:.6g}"
    if struct.pack("<f", float(text)) == struct.pack("<f", value):
        return text
    return f"{value:.9g}"


def f64_text(pattern: int) -> str:
    """XLA's text of an f64.

    >>> f64_text(0x3FB999999999999A)
    '0.1'
    """
    (value,) = struct.unpack("<d", pattern.to_bytes(8, "little"))
    if value != value:
        return _F64.text(pattern)
    text = f"{value:.15g}"
    return text if float(text) == value else f"{value:.17g}"


@cached(max_bytes=160 << 10, entry_bytes=10 << 10)
def _magnitudes(float_format: FloatFormat) -> tuple[float, ...]:
    """The non-negative finite numbers of a format of at most 8 bits, in order. The index of a number is its bits."""
    magnitudes: list[float] = []
    end = (1 << float_format.bits) if float_format.kind == "exponent" else float_format.sign_bit
    for pattern in range(end):
        if float_format.is_nan(pattern) or float_format.value(pattern) == float("inf"):
            break
        magnitudes.append(float_format.value(pattern))
    return tuple(magnitudes)


def encode_float(float_format: FloatFormat, value: float) -> int | None:
    """The bits of a number or infinity in a format, rounded as XLA rounds a literal. None for a number out of the
    format's range, unless the format has neither nan nor infinity.

    Rounds to nearest, ties to even, except that f8e8m0fnu rounds ties up. A number in f16 or bf16 is rounded to f32
    first. Infinity becomes nan in a format without infinity. In a format without nan and infinity, infinity and numbers
    out of range become the largest number.

    >>> encode_float(float_format_of("bf16"), 1.0) == 0x3F80, encode_float(float_format_of("f4e2m1fn"), 100.0)
    (True, 7)
    """
    if float_format.bits == 64:
        return int.from_bytes(struct.pack("<d", value), "little")
    sign = float_format.sign_bit if str(value).startswith("-") else 0
    magnitude = abs(value)
    if magnitude == float("inf"):
        if float_format.kind == "finite":
            return sign | (float_format.sign_bit - 1)
        return sign | (float_format.infinity if float_format.kind == "ieee" else float_format.quiet_nan)
    if float_format.bits >= 16:
        return _encode_wide(float_format, value)
    if float_format.kind == "exponent":
        return _encode_power_of_two(float_format, value)
    magnitudes = _magnitudes(float_format)
    pattern = bisect_left(magnitudes, magnitude)
    if pattern == len(magnitudes):
        if float_format.kind == "finite":
            pattern -= 1
        else:
            beyond = magnitudes[-1] + (magnitudes[-1] - magnitudes[-2])
            middle = (magnitudes[-1] + beyond) / 2
            pattern -= magnitude < middle or (magnitude == middle and pattern & 1 == 1)
            if pattern == len(magnitudes):
                return None
    elif magnitude < magnitudes[pattern]:
        middle = (magnitudes[pattern - 1] + magnitudes[pattern]) / 2
        pattern -= magnitude < middle or (magnitude == middle and pattern & 1 == 1)
    return pattern if float_format.kind == "fnuz" and pattern == 0 else sign | pattern


def _encode_wide(float_format: FloatFormat, value: float) -> int | None:
    """The bits of a finite number in f32, f16 or bf16."""
    try:
        packed = struct.pack("<f", value)
        if float_format.bits == 32:
            return int.from_bytes(packed, "little")
        if float_format == _F16:
            return int.from_bytes(struct.pack("<e", *struct.unpack("<f", packed)), "little")
    except OverflowError:
        return None
    f32 = int.from_bytes(packed, "little")
    pattern = (f32 + 0x7FFF + ((f32 >> 16) & 1)) >> 16
    return None if pattern & 0x7FFF == float_format.infinity else pattern


def _encode_power_of_two(float_format: FloatFormat, value: float) -> int | None:
    """The bits of a finite number in a format that holds powers of two alone (f8e8m0fnu)."""
    if value <= 0:
        return None
    magnitudes = _magnitudes(float_format)
    pattern = bisect_left(magnitudes, value)
    if pattern and (pattern == len(magnitudes) or value < magnitudes[pattern]):
        middle = magnitudes[pattern - 1] * 1.5
        pattern -= value < middle
    return None if pattern >= len(magnitudes) else pattern


# -- element types -----------------------------------------------------------------------------


_MAX_TEXTS: Final = 1 << 15
_TEXT_BYTES: Final = 200  # bytes of an entry: an int, a text of up to 24 characters, and their slots in the dict


class _TextCache(dict[int, str]):
    """Raw bits of a number → its text, computed on first use. The cache is emptied when it holds _MAX_TEXTS entries.

    It is a dict because a constant may have a million elements: a lookup takes 30 ns, and in a `BoundedCache` 150 ns.
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
    """How one element type is stored in a LiteralProto and written in text."""

    number: int
    """The number of the type in xla.PrimitiveType."""
    name: str
    field: str
    """The name of the field of LiteralProto that holds the elements."""
    storage: Literal["bytes", "varint", "fixed"]
    """How the field holds the elements: as raw bytes, as varints, or as numbers of fixed width."""
    code: str
    """The type code of `array` for an element's raw bits. A complex number takes two items of the array."""
    kind: Literal["pred", "int", "float", "complex"]
    texts: Callable[[array[int]], list[str]]
    """Raw bits of elements → their texts inside an array."""
    lower: int = 0
    upper: int = 0
    """The smallest and the greatest number of an integral type."""
    float_format: FloatFormat | None = None
    """The format of a floating-point type, or of the parts of a complex type; None for other types."""

    @property
    def width(self) -> int:
        """The number of bytes of a raw element."""
        return array(self.code).itemsize * (2 if self.kind == "complex" else 1)

    @property
    def field_number(self) -> int:
        """The number of the field in LiteralProto."""
        return xla.LiteralProto.DESCRIPTOR.fields_by_name[self.field].number


def _integer_texts(values: array[int]) -> list[str]:
    return [str(value) for value in values]


def _narrow_integer_texts(bits: int, *, is_signed: bool) -> Callable[[array[int]], list[str]]:
    """A function that gives the texts of integers of less than 8 bits. The upper bits of each byte are ignored."""

    def text(byte: int) -> str:
        value = byte & ((1 << bits) - 1)
        return str(value - (1 << bits) if is_signed and value >> (bits - 1) else value)

    table = [text(byte) for byte in range(256)]
    return lambda raw: [table[byte] for byte in raw]


def _float_texts(texts: dict[int, str]) -> Callable[[array[int]], list[str]]:
    return lambda raw: [texts[bits] for bits in raw]


def _complex_texts(texts: dict[int, str]) -> Callable[[array[int]], list[str]]:
    return lambda raw: [f"({texts[raw[i]]}, {texts[raw[i + 1]]})" for i in range(0, len(raw), 2)]


# Float format → cache of texts. A complex type uses the cache of its parts.
_FLOAT_TEXTS = {
    kind.float_format: _TextCache(
        f"texts of {kind} elements", {32: f32_text, 64: f64_text}.get(kind.float_format.bits, kind.float_format.text)
    )
    for kind in PrimitiveType
    if kind.is_floating and kind.float_format
}

# Bytes of an element → type code of `array`: for signed integers, and for unsigned integers and the bits of floats.
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
"""Number in xla.PrimitiveType → element type."""


# -- numbers as text ---------------------------------------------------------------------------


NUMBER: Final = r"(?:[0-9]+(?:\.[0-9]*)?|-(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+))(?:[eE][-+]?[0-9]+)?"
TOKEN: Final = re.compile(
    r"(?P<space>[ \t\r\n]+|/\*.*?\*/|//[^\n]*)|(?P<number>"
    + NUMBER
    + r"(?![A-Za-z_])|-?inf(?!\w)|-?nan(?:\(0x[0-9a-fA-F]+\)|(?!\w))"
    r"|true(?!\w)|false(?!\w))|(?P<mark>[{}(),]|\.\.\.)",
    re.DOTALL,
)
INTEGER: Final = re.compile(r"-?[0-9]+")


def skip_space(source: Source, at: int) -> int:
    """The offset after the spaces and comments that begin at `at`."""
    while (match := TOKEN.match(source.text, at)) is not None and match.lastgroup == "space":
        at = match.end()
    return at


def fail(source: Source, at: int, expected: str) -> NoReturn:
    """Raises ParseError, which says that `expected` was expected at the offset `at`, and what was found there."""
    rest = source.text[at : at + 40]
    if rest.startswith("/*"):
        raise source.error(at, "this comment is never closed", expected="*/")
    match = re.match(r"[^\s{}(),]+|.", rest)
    found = "the end of the text" if match is None else repr(match.group())
    raise source.error(at, f"expected {expected}, found {found}", expected=expected, found=found)


def element_bits(source: Source, at: int, element: ElementType) -> tuple[bytes, int]:
    """The raw bytes of the number that begins at `at`, and the offset after it. Raises ParseError."""
    at = skip_space(source, at)
    width, float_format, start = element.width, element.float_format, at
    if element.kind == "complex":
        assert float_format is not None
        if not source.text.startswith("(", at):
            fail(source, at, "'(' before a complex number")
        real, at = _number(source, at + 1, "a real part")
        at = skip_space(source, at)
        if not source.text.startswith(",", at):
            fail(source, at, "',' between the parts of a complex number")
        imaginary, at = _number(source, at + 1, "an imaginary part")
        at = skip_space(source, at)
        if not source.text.startswith(")", at):
            fail(source, at, "')' after a complex number")
        first = _float_bits(source, start, real, element.name, float_format)
        second = first if "nan" in real else _imaginary_bits(source, start, imaginary, element.name, float_format)
        return first.to_bytes(width // 2, "little") + second.to_bytes(width // 2, "little"), at + 1
    token, at = _number(source, at, f"a number of type {element.name}")
    if float_format is not None:
        return _float_bits(source, start, token, element.name, float_format).to_bytes(width, "little"), at
    if element.kind == "pred" and token in ("true", "false"):
        return (b"\x01" if token == "true" else b"\x00"), at
    if INTEGER.fullmatch(token) is None:
        raise source.error(start, f"expected an integer, found {token[:40]!r}", expected="an integer", found=token[:40])
    value = _int64(source, start, token)
    if element.kind == "pred":
        return (b"\x01" if value else b"\x00"), at
    if element.name == "u64":
        value %= 1 << 64
    if not element.lower <= value <= element.upper:
        limits = f"[{element.lower}, {element.upper}]"
        raise source.error(start, f"{token} is out of range for {element.name}, which is {limits}", found=token)
    if element.code == "B":
        # The upper bits of the byte of a type below 8 bits are zero.
        value &= element.upper - element.lower
    return value.to_bytes(width, "little", signed=value < 0), at


def _number(source: Source, at: int, what: str) -> tuple[str, int]:
    at = skip_space(source, at)
    match = TOKEN.match(source.text, at)
    if match is None or match.lastgroup != "number":
        fail(source, at, what)
    return match.group(), match.end()


def _int64(source: Source, at: int, token: str) -> int:
    value = int(token) if len(token) <= 4000 else 1 << 64
    if not -(1 << 63) <= value < 1 << 64:
        raise source.error(at, f"{token[:24]}{'…' if len(token) > 24 else ''} does not fit int64", found=token[:24])
    return value - (1 << 64) if value >= 1 << 63 else value


def _float_bits(source: Source, at: int, token: str, name: str, float_format: FloatFormat) -> int:
    if token in ("true", "false"):
        raise source.error(at, f"{token} is not a number of type {name}", found=token)
    if "nan" in token:
        sign = float_format.sign_bit if token.startswith("-") else 0
        if "(" not in token:
            # fnuz and exponent formats have a single nan, so its sign is ignored. A finite format has no nan, and gets
            # a zero of the opposite sign.
            if float_format.kind == "finite":
                return float_format.sign_bit ^ sign
            return (
                float_format.quiet_nan if float_format.kind in ("fnuz", "exponent") else float_format.quiet_nan | sign
            )
        payload = _payload(source, at, token)
        if float_format.kind != "ieee":
            raise source.error(at, f"a nan of type {name} has no payload", found=token)
        if payload > float_format.mantissa_mask:
            raise source.error(
                at, f"{token} is out of range: the payload is at most 0x{float_format.mantissa_mask:x}", found=token
            )
        return sign | float_format.infinity | payload
    bits = encode_float(float_format, _finite(source, at, token))
    if bits is None:
        raise source.error(at, f"{token} is out of range for {name}", found=token)
    return bits


def _payload(source: Source, at: int, token: str) -> int:
    payload = int(token[token.index("(") + 1 : -1], 16)
    if not 0 < payload < 1 << 52:
        raise source.error(
            at, f"the payload of a nan is from 0x1 to 0xfffffffffffff, found {token[:40]}", found=token[:40]
        )
    return payload


def _finite(source: Source, at: int, token: str) -> float:
    if INTEGER.fullmatch(token):
        return float(_int64(source, at, token))
    value = float(token)
    if abs(value) == inf and "inf" not in token:
        raise source.error(at, f"{token[:40]} is out of range for a 64-bit float", found=token[:40])
    return value


def _imaginary_bits(source: Source, at: int, token: str, name: str, float_format: FloatFormat) -> int:
    # XLA converts an imaginary nan through f64, which keeps only the upper bits of its payload.
    if "nan" not in token or float_format.bits == 64:
        return _float_bits(source, at, token, name, float_format)
    payload = _payload(source, at, token) >> 29 if "(" in token else 0
    return (float_format.sign_bit if token.startswith("-") else 0) | float_format.quiet_nan | payload
