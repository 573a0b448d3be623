"""Which values floating-point element types can hold, and which conversions keep every value: functions of XLA's
`primitive_util`.
"""

from __future__ import annotations

from typing import NamedTuple

from xlashape.errors import InvalidArgumentError
from xlashape.shape.parts.primitive_type import FloatFormat, PrimitiveType

__all__ = [
    "FloatFacts", "cast_preserves_values", "exponent_bias", "exponent_width", "float_facts", "has_infinity", "has_nan",
    "has_negative_zero", "has_positive_zero", "overflow_exponent", "significand_width", "underflow_exponent",
]  # fmt: skip


class FloatFacts(NamedTuple):
    """Which values a real floating-point type can hold."""

    significand_width: int
    """The bits of a normal number's significand, including the leading bit, which is not stored."""
    exponent_width: int
    """The number of stored bits of the exponent."""
    exponent_bias: int
    """The number that is added to the exponent when it is stored."""
    underflow_exponent: int
    """One more than the exponent of the smallest normal number, as C's FLT_MIN_EXP: 2 ** (n - 1) is that number."""
    overflow_exponent: int
    """The least n for which 2 ** n is greater than every finite value, as C's FLT_MAX_EXP."""
    has_infinity: bool
    has_nan: bool
    has_negative_zero: bool
    has_positive_zero: bool


def _facts_of(float_format: FloatFormat) -> FloatFacts:
    kind = float_format.kind
    return FloatFacts(
        float_format.mantissa_bits + 1,
        float_format.exponent_bits,
        float_format.bias,
        float_format.underflow_exponent,
        float_format.overflow_exponent,
        has_infinity=kind == "ieee",
        has_nan=kind != "finite",
        has_negative_zero=kind in ("ieee", "fn", "finite"),
        has_positive_zero=kind != "exponent",
    )


_FACTS = {t: _facts_of(t.float_format) for t in PrimitiveType if t.is_floating and t.float_format}

Type = PrimitiveType | str | int
"""A type, its spelling or its number."""


def float_facts(element_type: Type) -> FloatFacts:
    """All facts of a real floating-point type. InvalidArgumentError for another type.

    >>> float_facts("bf16").significand_width, float_facts("f8e4m3fn").has_infinity
    (8, False)
    """
    kind = PrimitiveType.of(element_type)
    facts = _FACTS.get(kind)
    if facts is None:
        raise InvalidArgumentError(f"{kind.text} is not a real floating-point type", field="element_type")
    return facts


def significand_width(element_type: Type) -> int:
    """The bits of a normal number's significand, including the leading bit: 24 for f32."""
    return float_facts(element_type).significand_width


def exponent_width(element_type: Type) -> int:
    """The number of stored bits of the exponent: 8 for f32."""
    return float_facts(element_type).exponent_width


def exponent_bias(element_type: Type) -> int:
    """The number that is added to the exponent when it is stored: 127 for f32."""
    return float_facts(element_type).exponent_bias


def underflow_exponent(element_type: Type) -> int:
    """One more than the exponent of the smallest normal number: -125 for f32."""
    return float_facts(element_type).underflow_exponent


def overflow_exponent(element_type: Type) -> int:
    """The least n for which 2 ** n is greater than every finite value: 128 for f32."""
    return float_facts(element_type).overflow_exponent


def has_infinity(element_type: Type) -> bool:
    """Whether a type has infinities. As in XLA, False for types that are not real floating-point types."""
    return _has(element_type, "has_infinity")


def has_nan(element_type: Type) -> bool:
    """Whether a type has a NaN. False for types that are not real floating-point types."""
    return _has(element_type, "has_nan")


def has_negative_zero(element_type: Type) -> bool:
    """Whether a type has a zero with a sign. False for types that are not real floating-point types."""
    return _has(element_type, "has_negative_zero")


def has_positive_zero(element_type: Type) -> bool:
    """Whether a real floating-point type has a zero: f8e8m0fnu has none. True for integers and pred."""
    kind = PrimitiveType.of(element_type)
    return _FACTS[kind].has_positive_zero if kind in _FACTS else kind.is_array_type


def _has(element_type: Type, fact: str) -> bool:
    facts = _FACTS.get(PrimitiveType.of(element_type))
    return facts is not None and bool(getattr(facts, fact))


def cast_preserves_values(from_type: Type, to_type: Type) -> bool:
    """Whether every value of one type, NaN, infinities and the sign of zero included, is a value of another.

    As in XLA, a conversion of pred to s1 counts as one that keeps every value, though s1 holds 0 and -1.

    >>> cast_preserves_values("s8", "bf16"), cast_preserves_values("s16", "bf16"), cast_preserves_values("f16", "bf16")
    (True, False, False)
    """
    source, target = PrimitiveType.of(from_type), PrimitiveType.of(to_type)
    for kind in (source, target):
        if not (kind.is_array_type and kind.is_known):
            raise InvalidArgumentError(f"{kind.text} has no values that are known", field="element_type")
    if source == target:
        return True
    if target.is_complex:
        if source.is_complex:
            return source.bit_width <= target.bit_width
        return cast_preserves_values(source, PrimitiveType.F32 if target == PrimitiveType.C64 else PrimitiveType.F64)
    if source.is_complex or target == PrimitiveType.PRED:
        return False
    if source.is_floating:
        return target.is_floating and _holds_floats(_FACTS[target], _FACTS[source])
    # For integers, `bits` is the number of bits of the greatest value. The least value of a signed type needs one more.
    bits = 1 if source == PrimitiveType.PRED else source.bit_width - source.is_signed_integral
    if target.is_floating:
        facts = _FACTS[target]
        top = bits + source.is_signed_integral
        return facts.has_positive_zero and bits <= facts.significand_width and top <= facts.overflow_exponent
    if source == PrimitiveType.PRED:
        return True
    return (target.is_signed_integral or not source.is_signed_integral) and bits <= (
        target.bit_width - target.is_signed_integral
    )


def _holds_floats(target: FloatFacts, source: FloatFacts) -> bool:
    """Whether a type has every value of another: the special values, the greatest value and, with subnormal numbers,
    the least value.
    """
    return (
        source.has_infinity <= target.has_infinity
        and source.has_nan <= target.has_nan
        and source.has_negative_zero <= target.has_negative_zero
        and source.has_positive_zero <= target.has_positive_zero
        and source.significand_width <= target.significand_width
        and source.overflow_exponent <= target.overflow_exponent
        and source.underflow_exponent - source.significand_width >= target.underflow_exponent - target.significand_width
    )
