"""Floating-point formats: which number a pattern of bits is, and what XLA prints for it."""

from __future__ import annotations

from typing import Literal, NamedTuple


class FloatFormat(NamedTuple):
    """A binary floating-point format. `kind` says which bit patterns are not numbers:

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
    def exponent_bits(self) -> int:
        """The stored bits of the exponent."""
        return self.bits - self.mantissa_bits - (self.kind != "exponent")

    @property
    def overflow_exponent(self) -> int:
        """The least n for which 2 ** n is greater than every finite value, as C's FLT_MAX_EXP."""
        # Formats whose highest exponent holds no numbers have one exponent less.
        return (1 << self.exponent_bits) - self.bias - (self.kind in ("ieee", "exponent"))

    @property
    def underflow_exponent(self) -> int:
        """One more than the exponent of the smallest normal number, as C's FLT_MIN_EXP."""
        # Exponent 0 is that of subnormal numbers, except where there is no mantissa.
        return (1 if self.kind == "exponent" else 2) - self.bias

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
