"""Floating point formats: bits ↔ number ↔ text, as XLA reads and prints the elements of literals.

How XLA prints floats, found by experiment: f32 with 6 digits if they read back to the same value, else with 9; f64 with 15, else 17;
all narrower formats with as many digits as they may need (f16 5, bf16 4, f8e4m3 3, f8e5m2 2, …). A nan shows its sign, and its payload
unless only the quiet bit is set: nan, -nan, nan(0x1).
"""

from __future__ import annotations

import struct
from bisect import bisect_left

from xlashape.caches import cached
from xlashape.shape.parts.float_format import FloatFormat
from xlashape.shape.parts.primitive_type import PrimitiveType


def float_format_of(name: str) -> FloatFormat:
    """The format of a floating-point type, or of the parts of a complex one."""
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
    """The bits of a finite number in a format of kind exponent."""
    if value <= 0:
        return None
    magnitudes = _magnitudes(float_format)
    pattern = bisect_left(magnitudes, value)
    if pattern and (pattern == len(magnitudes) or value < magnitudes[pattern]):
        middle = magnitudes[pattern - 1] * 1.5
        pattern -= value < middle
    return None if pattern >= len(magnitudes) else pattern
