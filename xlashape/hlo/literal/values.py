"""The elements of a literal: bits ↔ value ↔ text, for every array element type. Matches XLA's literal text (xla/literal.cc).

A literal's elements lie in its LiteralProto in the order of its layout, the most minor dimension first, as bytes, varints or
fixed-width numbers. Here they are always *raw*: little-endian bytes of a fixed width each, types below 8 bits in a byte each.

How XLA writes floats, found out by experiment: f32 with 6 digits where those read back to the same value, else with 9; f64 with
15, else 17; all narrower types with as many digits as they may need (f16 5, bf16 4, f8e4m3 3, f8e5m2 2, …). A nan shows its
sign, and its payload unless that is the quiet bit alone: nan, -nan, nan(0x1).
"""

from __future__ import annotations

import struct
from array import array
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from xlashape.proto import xla

__all__ = ["ELEMENT_TYPES", "ElementType", "Floating", "encode_float"]

_CACHED_TEXTS: Final = 1 << 16


class _Texts(dict[int, str]):
    """Bits → text, computed on first use; bounded, so that a large constant does not stay in memory."""

    def __init__(self, text: Callable[[int], str]) -> None:
        super().__init__()
        self._text = text

    def __missing__(self, bits: int) -> str:
        result = self._text(bits)
        if len(self) >= _CACHED_TEXTS:
            self.clear()
        self[bits] = result
        return result


@dataclass(frozen=True)
class Floating:
    """A binary floating point format. `kind` says which bit patterns are not numbers:

    ieee      the highest exponent holds ±inf and nans with payloads
    fn        no inf; all ones (either sign) is nan
    fnuz      no inf, no negative zero; the pattern of negative zero is nan
    finite    neither inf nor nan
    exponent  no sign, no mantissa; all ones is nan
    """

    bits: int
    mantissa_bits: int
    bias: int
    kind: str
    digits: int
    """Significant decimal digits that XLA prints."""

    @property
    def mantissa_mask(self) -> int:
        """The mantissa's bits, which are a nan's payload too."""
        return (1 << self.mantissa_bits) - 1

    @property
    def sign_bit(self) -> int:
        """The sign's bit, 0 where there is none."""
        return 0 if self.kind == "exponent" else 1 << (self.bits - 1)

    @property
    def infinity(self) -> int:
        """The bits of +inf; the bits of a nan without sign and payload (ieee only)."""
        return self.sign_bit - (1 << self.mantissa_bits)

    @property
    def quiet_nan(self) -> int:
        """The bits that `nan` stands for, before a sign is added."""
        if self.kind == "ieee":
            return self.infinity | (1 << (self.mantissa_bits - 1))
        return {
            "fn": self.sign_bit - 1,
            "fnuz": self.sign_bit,
            "finite": self.sign_bit,
            "exponent": (1 << self.bits) - 1,
        }[self.kind]

    def is_nan(self, bits: int) -> bool:
        """Whether the pattern is a nan."""
        magnitude = bits & ~self.sign_bit
        if self.kind == "ieee":
            return magnitude > self.infinity
        if self.kind == "fn":
            return magnitude == self.sign_bit - 1
        return bits == self.quiet_nan if self.kind in ("fnuz", "exponent") else False

    def value(self, bits: int) -> float:
        """The number a pattern that is no nan stands for, exactly."""
        if self.kind == "exponent":
            return 2.0 ** (bits - self.bias)
        sign = -1.0 if bits & self.sign_bit else 1.0
        bits &= self.sign_bit - 1
        if self.kind == "ieee" and bits == self.infinity:
            return sign * float("inf")
        exponent, mantissa = bits >> self.mantissa_bits, bits & self.mantissa_mask
        if exponent == 0:
            return sign * mantissa * 2.0 ** (1 - self.bias - self.mantissa_bits)
        return sign * (mantissa | (1 << self.mantissa_bits)) * 2.0 ** (exponent - self.bias - self.mantissa_bits)

    def text(self, bits: int) -> str:
        """XLA's text of a pattern."""
        if self.is_nan(bits):
            text = "-nan" if bits & self.sign_bit else "nan"
            payload = bits & self.mantissa_mask
            if self.kind == "ieee" and payload != 1 << (self.mantissa_bits - 1):
                text += f"(0x{payload:x})"
            return text
        return f"{self.value(bits):.{self.digits}g}"


def _f32_text(bits: int) -> str:
    (value,) = struct.unpack("<f", bits.to_bytes(4, "little"))
    if value != value:
        return _F32.text(bits)
    text = f"{value:.6g}"
    if abs(value) < 3.4e38 and struct.pack("<f", float(text)) == struct.pack("<f", value):
        return text
    return f"{value:.9g}"


def _f64_text(bits: int) -> str:
    (value,) = struct.unpack("<d", bits.to_bytes(8, "little"))
    if value != value:
        return _F64.text(bits)
    text = f"{value:.15g}"
    return text if float(text) == value else f"{value:.17g}"


_F16 = Floating(16, 10, 15, "ieee", 5)
_BF16 = Floating(16, 7, 127, "ieee", 4)
_F32 = Floating(32, 23, 127, "ieee", 9)
_F64 = Floating(64, 52, 1023, "ieee", 17)


def _plain_texts(raw: array[int]) -> list[str]:
    return [str(value) for value in raw]


@dataclass(frozen=True)
class ElementType:
    """How one element type lies in a LiteralProto and in text."""

    number: int
    """Of xla.PrimitiveType."""
    name: str
    field: str
    """Of LiteralProto."""
    storage: str
    """bytes | varint | fixed: how the field holds the elements."""
    code: str
    """Of `array`: an element's raw bits (both halves of a complex number apart)."""
    kind: str
    """pred | int | float | complex."""
    lower: int = 0
    upper: int = 0
    """The range of an integral type."""
    floating: Floating | None = None
    texts: Callable[[array[int]], list[str]] = _plain_texts
    """Raw bits of elements → their texts inside an array."""

    @property
    def width(self) -> int:
        """Bytes of an element's raw form."""
        return array(self.code).itemsize * (2 if self.kind == "complex" else 1)

    @property
    def field_number(self) -> int:
        """Of the field in LiteralProto."""
        return xla.LiteralProto.DESCRIPTOR.fields_by_name[self.field].number


def _sub_byte_texts(bits: int, signed: bool) -> Callable[[array[int]], list[str]]:
    def text(byte: int) -> str:
        value = byte & ((1 << bits) - 1)
        return str(value - (1 << bits) if signed and value >> (bits - 1) else value)

    table = [text(byte) for byte in range(256)]
    return lambda raw: [table[byte] for byte in raw]


def _float_texts(text: Callable[[int], str]) -> Callable[[array[int]], list[str]]:
    memo = _Texts(text)
    return lambda raw: [memo[bits] for bits in raw]


def _complex_texts(text: Callable[[int], str]) -> Callable[[array[int]], list[str]]:
    memo = _Texts(text)
    return lambda raw: [f"({memo[raw[i]]}, {memo[raw[i + 1]]})" for i in range(0, len(raw), 2)]


def _make() -> dict[int, ElementType]:
    number = xla.PrimitiveType.Value
    made = [ElementType(number("PRED"), "pred", "preds", "varint", "B", "pred", 0, 1)]
    for bits in (1, 2, 4):
        for sign in "su":
            lower, upper = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if sign == "s" else (0, (1 << bits) - 1)
            name = f"{sign}{bits}"
            texts = _sub_byte_texts(bits, sign == "s")
            made.append(
                ElementType(number(name.upper()), name, f"{name}s", "bytes", "B", "int", lower, upper, texts=texts)
            )
    for bits, signed, unsigned in ((8, "b", "B"), (16, "h", "H"), (32, "i", "I"), (64, "q", "Q")):
        storage = "varint" if bits >= 32 else "bytes"
        half = 1 << (bits - 1)
        made.append(ElementType(number(f"S{bits}"), f"s{bits}", f"s{bits}s", storage, signed, "int", -half, half - 1))
        made.append(ElementType(number(f"U{bits}"), f"u{bits}", f"u{bits}s", storage, unsigned, "int", 0, 2 * half - 1))
    small = {
        "f8e5m2": Floating(8, 2, 15, "ieee", 2),
        "f8e4m3": Floating(8, 3, 7, "ieee", 3),
        "f8e4m3fn": Floating(8, 3, 7, "fn", 3),
        "f8e4m3b11fnuz": Floating(8, 3, 11, "fnuz", 3),
        "f8e3m4": Floating(8, 4, 3, "ieee", 3),
        "f8e5m2fnuz": Floating(8, 2, 16, "fnuz", 2),
        "f8e4m3fnuz": Floating(8, 3, 8, "fnuz", 3),
        "f4e2m1fn": Floating(4, 1, 1, "finite", 2),
        "f6e3m2fn": Floating(6, 2, 3, "finite", 2),
        "f6e2m3fn": Floating(6, 3, 1, "finite", 3),
        "f8e8m0fnu": Floating(8, 0, 127, "exponent", 2),
        "f16": _F16,
        "bf16": _BF16,
    }
    for name, format_ in small.items():
        texts = _float_texts(format_.text)
        code = "H" if format_.bits == 16 else "B"
        made.append(
            ElementType(number(name.upper()), name, f"{name}s", "bytes", code, "float", floating=format_, texts=texts)
        )
    for name, code, format_, text in (("f32", "I", _F32, _f32_text), ("f64", "Q", _F64, _f64_text)):
        wide = "c64" if name == "f32" else "c128"
        made.append(
            ElementType(
                number(name.upper()),
                name,
                f"{name}s",
                "fixed",
                code,
                "float",
                floating=format_,
                texts=_float_texts(text),
            )
        )
        made.append(
            ElementType(
                number(wide.upper()),
                wide,
                f"{wide}s",
                "fixed",
                code,
                "complex",
                floating=format_,
                texts=_complex_texts(text),
            )
        )
    return {element.number: element for element in made}


ELEMENT_TYPES: Final = _make()
"""Element types by their number in xla.PrimitiveType."""


_LADDERS: dict[Floating, list[float]] = {}


def _ladder(format_: Floating) -> list[float]:
    # The non-negative finite numbers in order; a pattern is its place in the list.
    ladder = _LADDERS.get(format_)
    if ladder is None:
        ladder, bits = [], 0
        end = (1 << format_.bits) if format_.kind == "exponent" else format_.sign_bit
        while bits < end and not format_.is_nan(bits) and format_.value(bits) != float("inf"):
            ladder.append(format_.value(bits))
            bits += 1
        _LADDERS[format_] = ladder
    return ladder


def encode_float(format_: Floating, value: float) -> int | None:
    """The bits of a number (inf included, nan not) in a format, rounded as XLA rounds a literal; None: out of its range.

    Rounds to nearest, ties to even; f16 and bf16 by way of f32; f8e8m0fnu ties up. A format without inf makes nan of it, one
    with neither takes its largest number.
    """
    if format_.bits == 64:
        return int.from_bytes(struct.pack("<d", value), "little")
    sign = format_.sign_bit if str(value).startswith("-") else 0
    magnitude = abs(value)
    if magnitude == float("inf"):
        if format_.kind == "finite":
            return sign | (format_.sign_bit - 1)
        return sign | (format_.infinity if format_.kind == "ieee" else format_.quiet_nan)
    if format_.bits >= 16:
        try:
            packed = struct.pack("<f", value)
            if format_.bits == 32:
                return int.from_bytes(packed, "little")
            if format_.mantissa_bits == 10:
                return int.from_bytes(struct.pack("<e", *struct.unpack("<f", packed)), "little")
        except OverflowError:
            return None
        wide = int.from_bytes(packed, "little")
        bits = (wide + 0x7FFF + ((wide >> 16) & 1)) >> 16
        return None if bits & 0x7FFF == 0x7F80 else bits
    ladder = _ladder(format_)
    if format_.kind == "exponent":
        if magnitude == 0 or sign or value < 0:
            return None
        bits = bisect_left(ladder, magnitude)
        if bits and (bits == len(ladder) or magnitude < ladder[bits]):
            middle = ladder[bits - 1] * 1.5
            bits -= magnitude < middle
        return None if bits >= len(ladder) else bits
    bits = bisect_left(ladder, magnitude)
    if bits == len(ladder):
        if format_.kind == "finite":
            bits -= 1
        else:
            beyond = ladder[-1] + (ladder[-1] - ladder[-2])
            middle = (ladder[-1] + beyond) / 2
            bits -= magnitude < middle or (magnitude == middle and bits & 1 == 1)
            if bits == len(ladder):
                return None
    elif magnitude < ladder[bits]:
        middle = (ladder[bits - 1] + ladder[bits]) / 2
        bits -= magnitude < middle or (magnitude == middle and bits & 1 == 1)
    return bits if format_.kind == "fnuz" and bits == 0 else sign | bits
