"""Floating point formats: bits ↔ number ↔ text, as XLA reads and prints the elements of literals.

How XLA prints floats, found by experiment: f32 with 6 digits if they read back to the same value, else with 9; f64 with 15, else 17;
all narrower formats with as many digits as they may need (f16 5, bf16 4, f8e4m3 3, f8e5m2 2, …). A nan shows its sign, and its payload
unless only the quiet bit is set: nan, -nan, nan(0x1).
"""

from __future__ import annotations

import struct
from bisect import bisect_left
from typing import Final, Literal, NamedTuple

from xlashape.caches import cached

__all__ = ["BF16", "F16", "F32", "F64", "SMALL_FORMATS", "FloatFormat", "encode_float", "f32_text", "f64_text"]


class FloatFormat(NamedTuple):
    """A binary floating point format. `kind` says which bit patterns are not numbers:

    ieee      the highest exponent holds ±inf and nans with payloads
    fn        no inf; all ones, with either sign, is nan
    fnuz      no inf, no negative zero; the pattern of negative zero is nan
    finite    neither inf nor nan
    exponent  no sign, no mantissa; all ones is nan
    """

    bits: int
    mantissa_bits: int
    bias: int
    kind: Literal["ieee", "fn", "fnuz", "finite", "exponent"]
    digits: int
    """Significant decimal digits that XLA prints."""

    @property
    def mantissa_mask(self) -> int:
        """The bits of the mantissa, which are also those of a nan's payload."""
        return (1 << self.mantissa_bits) - 1

    @property
    def sign_bit(self) -> int:
        """The bit of the sign; 0 for a format without sign."""
        return 0 if self.kind == "exponent" else 1 << (self.bits - 1)

    @property
    def infinity(self) -> int:
        """The pattern of +inf, which is also that of a nan without sign and payload (ieee only)."""
        return self.sign_bit - (1 << self.mantissa_bits)

    @property
    def quiet_nan(self) -> int:
        """The pattern that the text `nan` stands for, before a sign is added."""
        if self.kind == "ieee":
            return self.infinity | (1 << (self.mantissa_bits - 1))
        return {
            "fn": self.sign_bit - 1,
            "fnuz": self.sign_bit,
            "finite": self.sign_bit,
            "exponent": (1 << self.bits) - 1,
        }[self.kind]

    def is_nan(self, pattern: int) -> bool:
        """Whether the pattern is a nan."""
        magnitude = pattern & ~self.sign_bit
        if self.kind == "ieee":
            return magnitude > self.infinity
        if self.kind == "fn":
            return magnitude == self.sign_bit - 1
        return pattern == self.quiet_nan if self.kind in ("fnuz", "exponent") else False

    def value(self, pattern: int) -> float:
        """The exact number of a pattern that is not a nan."""
        if self.kind == "exponent":
            return 2.0 ** (pattern - self.bias)
        sign = -1.0 if pattern & self.sign_bit else 1.0
        magnitude = pattern & (self.sign_bit - 1)
        if self.kind == "ieee" and magnitude == self.infinity:
            return sign * float("inf")
        exponent, mantissa = magnitude >> self.mantissa_bits, magnitude & self.mantissa_mask
        if exponent == 0:
            return sign * mantissa * 2.0 ** (1 - self.bias - self.mantissa_bits)
        return sign * (mantissa | (1 << self.mantissa_bits)) * 2.0 ** (exponent - self.bias - self.mantissa_bits)

    def text(self, pattern: int) -> str:
        """XLA's text of a pattern of at most 16 bits or of a nan; wider numbers have `f32_text` and `f64_text`."""
        if self.is_nan(pattern):
            text = "-nan" if pattern & self.sign_bit else "nan"
            payload = pattern & self.mantissa_mask
            if self.kind == "ieee" and payload != 1 << (self.mantissa_bits - 1):
                text += f"(0x{payload:x})"
            return text
        return f"{self.value(pattern):.{self.digits}g}"


F16: Final = FloatFormat(16, 10, 15, "ieee", 5)
BF16: Final = FloatFormat(16, 7, 127, "ieee", 4)
F32: Final = FloatFormat(32, 23, 127, "ieee", 9)
F64: Final = FloatFormat(64, 52, 1023, "ieee", 17)

SMALL_FORMATS: Final = {
    "f8e5m2": FloatFormat(8, 2, 15, "ieee", 2),
    "f8e4m3": FloatFormat(8, 3, 7, "ieee", 3),
    "f8e4m3fn": FloatFormat(8, 3, 7, "fn", 3),
    "f8e4m3b11fnuz": FloatFormat(8, 3, 11, "fnuz", 3),
    "f8e3m4": FloatFormat(8, 4, 3, "ieee", 3),
    "f8e5m2fnuz": FloatFormat(8, 2, 16, "fnuz", 2),
    "f8e4m3fnuz": FloatFormat(8, 3, 8, "fnuz", 3),
    "f4e2m1fn": FloatFormat(4, 1, 1, "finite", 2),
    "f6e3m2fn": FloatFormat(6, 2, 3, "finite", 2),
    "f6e2m3fn": FloatFormat(6, 3, 1, "finite", 3),
    "f8e8m0fnu": FloatFormat(8, 0, 127, "exponent", 2),
}
"""The formats of at most 8 bits, by the name of the element type."""


def f32_text(pattern: int) -> str:
    """XLA's text of an f32.

    >>> f32_text(0x3DCCCCCD), f32_text(0x3EAAAAAB), f32_text(0x7F800001)
    ('0.1', '0.333333343', 'nan(0x1)')
    """
    (value,) = struct.unpack("<f", pattern.to_bytes(4, "little"))
    if value != value:
        return F32.text(pattern)
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
        return F64.text(pattern)
    text = f"{value:.15g}"
    return text if float(text) == value else f"{value:.17g}"


@cached(max_bytes=160 << 10, entry_bytes=10 << 10)
def _magnitudes(float_format: FloatFormat) -> tuple[float, ...]:
    """The non-negative finite numbers of a format of at most 8 bits, in order: a pattern is the index of its number."""
    magnitudes: list[float] = []
    end = (1 << float_format.bits) if float_format.kind == "exponent" else float_format.sign_bit
    for pattern in range(end):
        if float_format.is_nan(pattern) or float_format.value(pattern) == float("inf"):
            break
        magnitudes.append(float_format.value(pattern))
    return tuple(magnitudes)


def encode_float(float_format: FloatFormat, value: float) -> int | None:
    """The bits of a number or infinity in a format, rounded as XLA rounds a literal; None for a number out of the format's range.

    Rounds to nearest, ties to even; f16 and bf16 by way of f32; f8e8m0fnu rounds ties up. Infinity becomes nan in a format that has
    no infinity, and the largest number in a format that has neither.

    >>> encode_float(BF16, 1.0) == 0x3F80, encode_float(SMALL_FORMATS["f4e2m1fn"], 100.0)
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
        if float_format == F16:
            return int.from_bytes(struct.pack("<e", *struct.unpack("<f", packed)), "little")
    except OverflowError:
        return None
    f32 = int.from_bytes(packed, "little")
    pattern = (f32 + 0x7FFF + ((f32 >> 16) & 1)) >> 16
    return None if pattern & 0x7FFF == BF16.infinity else pattern


def _encode_power_of_two(float_format: FloatFormat, value: float) -> int | None:
    """The bits of a finite number in a format of kind exponent."""
    if value <= 0:
        return None
    magnitudes = _magnitudes(float_format)
    pattern = bisect_left(magnitudes, value)
    if pattern and (pattern == len(magnitudes) or value < magnitudes[pattern]):
        middle = magnitudes[pattern - 1] * 1.5
        pattern -= value < middle
    return None if pattern >= len(magnitudes) else pattern
