"""The element types: XLA's `PrimitiveType`, with a row for each type.

A row has the protobuf number, the spelling, the width, the NumPy counterpart and, for a float, the `FloatFormat`: which
number a pattern of bits is, and what XLA prints for it. All other facts of a type, such as its range and its place in
XLA's order of precision, follow from its row.

A type number that only a newer schema has is kept, as a `PrimitiveType` that is not `is_known`, is spelled `unknown_` +
number, and has no width. Functions that need the width raise UnsupportedError.
"""

from __future__ import annotations

import sys
from enum import IntEnum
from operator import index
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

from xlashape.errors import InvalidArgumentError, ParseError, UnavailableError, UnsupportedError, is_a

if TYPE_CHECKING:
    import numpy as np


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
    """The number of significant decimal digits that XLA prints."""

    @property
    def exponent_bits(self) -> int:
        """The number of stored bits of the exponent."""
        return self.bits - self.mantissa_bits - (self.kind != "exponent")

    @property
    def overflow_exponent(self) -> int:
        """The least n for which 2 ** n is greater than every finite value, as C's FLT_MAX_EXP."""
        # If the highest exponent of a format holds no numbers, the greatest number has the exponent below it.
        return (1 << self.exponent_bits) - self.bias - (self.kind in ("ieee", "exponent"))

    @property
    def underflow_exponent(self) -> int:
        """One more than the exponent of the smallest normal number, as C's FLT_MIN_EXP."""
        # The stored exponent 0 belongs to subnormal numbers, unless the format has no mantissa.
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
        """The pattern of +inf (ieee only). The pattern of a nan has these bits and a payload."""
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


# -- types -------------------------------------------------------------------------------------


ElementTypeLike: TypeAlias = "PrimitiveType | str | int | np.dtype[Any] | type[Any]"
"""The values that `PrimitiveType.of` takes."""

_UNKNOWN = "unknown_"
_INT32 = range(-(1 << 31), 1 << 31)
"""The numbers that a protobuf enum can have."""


class PrimitiveType(IntEnum):
    """An element type; its value is the number of `xla.PrimitiveType` in the protobuf schema.

    >>> PrimitiveType.F32, PrimitiveType.parse("bf16").bit_width, str(PrimitiveType.F8E4M3FN)
    (<PrimitiveType.F32: 11>, 16, 'f8e4m3fn')

    - `text`: the spelling in shapes; `str()` gives it too.
    - `is_array_type`: whether arrays can have elements of this type. False for tuple, opaque, token, buffer and
      invalid.
    - `numpy_name`: its counterpart in NumPy, or in ml_dtypes as `ml_dtypes.bfloat16`; empty if neither has one.
    - `float_format`: the format of a real floating-point type, or of the parts of a complex type; None for others.

    `PrimitiveType(number)` takes every number that a protobuf enum can have, and pickle relies on it. A number that
    this version does not know makes a type that is not among the members, compares equal to other types of this number,
    and is not `is_known`. Compare types with `==`; `is` is enough if one side is a member. `PrimitiveType.of` refuses
    unknown numbers, since they are mistakes in a caller's code.

    >>> PrimitiveType(1000), PrimitiveType(1000).text, PrimitiveType.parse("unknown_1000") == PrimitiveType(1000)
    (<PrimitiveType.UNKNOWN_1000: 1000>, 'unknown_1000', True)
    """

    text: str
    is_array_type: bool
    numpy_name: str
    float_format: FloatFormat | None
    _bits: int
    _kind: str

    def __new__(
        cls,
        number: int,
        text: str,
        bit_width: int,
        kind: str,
        numpy_name: str = "",
        float_format: FloatFormat | None = None,
    ) -> PrimitiveType:
        """A member; the arguments after its number become attributes."""
        member = int.__new__(cls, number)
        member._value_ = number
        member.text = text
        member.is_array_type = kind != "-"
        member._bits = bit_width
        member._kind = kind
        member.numpy_name = numpy_name
        member.float_format = float_format
        return member

    # number, spelling, bits, kind, NumPy's type, format of a float and of the parts of a complex number.
    # kind: p pred, s signed integer, u unsigned integer, f float, c complex, - no array
    PRIMITIVE_TYPE_INVALID = 0, "invalid", 0, "-"
    PRED = 1, "pred", 8, "p", "bool"
    S1 = 30, "s1", 1, "s", "ml_dtypes.int1"
    S2 = 26, "s2", 2, "s", "ml_dtypes.int2"
    S4 = 21, "s4", 4, "s", "ml_dtypes.int4"
    S8 = 2, "s8", 8, "s", "int8"
    S16 = 3, "s16", 16, "s", "int16"
    S32 = 4, "s32", 32, "s", "int32"
    S64 = 5, "s64", 64, "s", "int64"
    U1 = 31, "u1", 1, "u", "ml_dtypes.uint1"
    U2 = 27, "u2", 2, "u", "ml_dtypes.uint2"
    U4 = 22, "u4", 4, "u", "ml_dtypes.uint4"
    U8 = 6, "u8", 8, "u", "uint8"
    U16 = 7, "u16", 16, "u", "uint16"
    U32 = 8, "u32", 32, "u", "uint32"
    U64 = 9, "u64", 64, "u", "uint64"
    F16 = 10, "f16", 16, "f", "float16", FloatFormat(16, 10, 15, "ieee", 5)
    F32 = 11, "f32", 32, "f", "float32", FloatFormat(32, 23, 127, "ieee", 9)
    BF16 = 16, "bf16", 16, "f", "ml_dtypes.bfloat16", FloatFormat(16, 7, 127, "ieee", 4)
    F64 = 12, "f64", 64, "f", "float64", FloatFormat(64, 52, 1023, "ieee", 17)
    F8E5M2 = 19, "f8e5m2", 8, "f", "ml_dtypes.float8_e5m2", FloatFormat(8, 2, 15, "ieee", 2)
    F8E4M3 = 28, "f8e4m3", 8, "f", "ml_dtypes.float8_e4m3", FloatFormat(8, 3, 7, "ieee", 3)
    F8E4M3FN = 20, "f8e4m3fn", 8, "f", "ml_dtypes.float8_e4m3fn", FloatFormat(8, 3, 7, "fn", 3)
    F8E4M3B11FNUZ = 23, "f8e4m3b11fnuz", 8, "f", "ml_dtypes.float8_e4m3b11fnuz", FloatFormat(8, 3, 11, "fnuz", 3)
    F8E3M4 = 29, "f8e3m4", 8, "f", "ml_dtypes.float8_e3m4", FloatFormat(8, 4, 3, "ieee", 3)
    F8E5M2FNUZ = 24, "f8e5m2fnuz", 8, "f", "ml_dtypes.float8_e5m2fnuz", FloatFormat(8, 2, 16, "fnuz", 2)
    F8E4M3FNUZ = 25, "f8e4m3fnuz", 8, "f", "ml_dtypes.float8_e4m3fnuz", FloatFormat(8, 3, 8, "fnuz", 3)
    F4E2M1FN = 32, "f4e2m1fn", 4, "f", "ml_dtypes.float4_e2m1fn", FloatFormat(4, 1, 1, "finite", 2)
    F8E8M0FNU = 33, "f8e8m0fnu", 8, "f", "ml_dtypes.float8_e8m0fnu", FloatFormat(8, 0, 127, "exponent", 2)
    F6E3M2FN = 35, "f6e3m2fn", 8, "f", "ml_dtypes.float6_e3m2fn", FloatFormat(6, 2, 3, "finite", 2)
    F6E2M3FN = 36, "f6e2m3fn", 8, "f", "ml_dtypes.float6_e2m3fn", FloatFormat(6, 3, 1, "finite", 3)
    C64 = 15, "c64", 64, "c", "complex64", FloatFormat(32, 23, 127, "ieee", 9)
    C128 = 18, "c128", 128, "c", "complex128", FloatFormat(64, 52, 1023, "ieee", 17)
    TUPLE = 13, "tuple", 0, "-"
    OPAQUE_TYPE = 14, "opaque", 0, "-"
    TOKEN = 17, "token", 0, "-"
    BUFFER = 34, "buffer", 0, "-"

    @classmethod
    def _missing_(cls, value: object) -> PrimitiveType | None:
        if type(value) is not int or value not in _INT32:
            return None
        kind = int.__new__(cls, value)
        kind._name_ = f"UNKNOWN_{value}"
        kind._value_ = value
        kind.text = f"{_UNKNOWN}{value}"
        kind.is_array_type = True
        kind._bits = 0
        kind._kind = "?"
        kind.numpy_name = ""
        kind.float_format = None
        return kind

    def __str__(self) -> str:
        return self.text

    def __format__(self, spec: str) -> str:
        return format(self.text, spec)

    @classmethod
    def parse(cls, text: str) -> PrimitiveType:
        """The type spelled `text`, exactly as shapes spell it. ParseError otherwise, with the nearest spelling.

        `unknown_` and a number is the type of that number, even if this version knows it under another spelling.
        """
        kind = type_spelled(text)
        if kind is None:
            start = str(text)[:60]
            source = start if start.isprintable() else ""
            raise ParseError(
                unknown_type_message(start), source_line=source, expected="an element type", found=repr(start)
            )
        return kind

    @classmethod
    def of(cls, value: ElementTypeLike, field: str = "element_type") -> PrimitiveType:
        """`value` itself, or the type of a spelling, a known protobuf number, or a NumPy type. `field` names it in the
        error.

        A NumPy type is a dtype, a scalar type such as `numpy.float32`, `ml_dtypes.bfloat16` or `jax.numpy.bfloat16`, or
        its name. If text is both a spelling of shapes and a code of NumPy, it is read as the spelling: "u8" has 8 bits.
        Python's `int` and `float` are refused, because NumPy and JAX give them different widths.

        >>> PrimitiveType.of("bf16"), PrimitiveType.of("bfloat16"), PrimitiveType.of(bool)
        (<PrimitiveType.BF16: 16>, <PrimitiveType.BF16: 16>, <PrimitiveType.PRED: 1>)
        """
        if isinstance(value, cls):
            return value
        if isinstance(value, str):
            return _BY_NUMPY_NAME.get(value) or cls.parse(value)
        try:
            # A value that is not a number raises TypeError; the values of the dictionary are members of this class.
            return cls._value2member_map_[index(value)]  # pyright: ignore[reportArgumentType, reportReturnType]
        except (KeyError, TypeError):
            kind = _of_dtype(value, field)
            if kind is None:
                raise InvalidArgumentError(f"{value!r:.60} is not an element type", field=field) from None
            return kind

    @property
    def is_known(self) -> bool:
        """Whether this version knows the type. The width of an unknown type, and what kind of numbers it holds, are not
        known either.
        """
        return self._kind != "?"

    @property
    def bit_width(self) -> int:
        """The bits of one element, as in XLA: 1 for s1 and u1, 8 for pred, f6e3m2fn and f6e2m3fn, 0 for a type that
        arrays cannot have. UnsupportedError if the type is not known.
        """
        if self._kind == "?":
            raise self._no_width()
        return self._bits

    def _no_width(self) -> UnsupportedError:
        return UnsupportedError(
            f"{self.text} is an element type that this version does not know, and neither is its width",
            field="element_type",
        )

    @property
    def precision(self) -> tuple[int, int, int]:
        """The place of an array's element type in XLA's order of precision.

        First predicates and integers by bits, a signed type after the unsigned type of as many bits; then real
        floating-point types by range, then by significant bits; then complex types. Two types may have the same place.
        UnsupportedError if the type is not known.

        >>> sorted(
        ...     map(PrimitiveType.parse, ["c64", "f32", "u8", "bf16", "s8", "pred"]), key=lambda kind: kind.precision
        ... )[2:]
        [<PrimitiveType.S8: 2>, <PrimitiveType.BF16: 16>, <PrimitiveType.F32: 11>, <PrimitiveType.C64: 15>]
        """
        if self.float_format is not None:
            return 1 + self.is_complex, self.float_format.overflow_exponent, self.float_format.mantissa_bits
        return 0, 1 if self._kind == "p" else self.bit_width, int(self.is_signed)

    @property
    def is_integral(self) -> bool:
        """Whether the type is a signed or unsigned integer (pred is neither). This property, like the similar ones
        below, is False for an unknown type.
        """
        return self._kind in "su"

    @property
    def is_signed_integral(self) -> bool:
        """Whether the type is a signed integer."""
        return self._kind == "s"

    @property
    def is_unsigned_integral(self) -> bool:
        """Whether the type is an unsigned integer."""
        return self._kind == "u"

    @property
    def is_floating(self) -> bool:
        """Whether the type is a real floating-point type."""
        return self._kind == "f"

    @property
    def is_complex(self) -> bool:
        """Whether the type is c64 or c128."""
        return self._kind == "c"

    @property
    def is_signed(self) -> bool:
        """Whether the type is a signed integer or a real floating-point type, f8e8m0fnu without sign included as in
        XLA.
        """
        return self._kind in "sf"

    def numpy_dtype(self) -> np.dtype[Any]:
        """The NumPy type of one element.

        Types that NumPy lacks (bf16, the 8, 6 and 4-bit floats, integers below 8 bits) come from the package ml_dtypes:
        UnavailableError if it is not installed or too old, and for a type that neither has. InvalidArgumentError for a
        type that arrays cannot have, UnsupportedError for a type that is not known.
        """
        if self._kind == "?":
            raise self._no_width()
        if not self.is_array_type:
            raise InvalidArgumentError(f"{self.text} is not the element type of an array", field="element_type")
        import numpy as np  # takes longer to load than all of this package

        package, _, name = self.numpy_name.rpartition(".")
        if not name:
            raise UnavailableError(f"{self.text} has no counterpart in NumPy")
        if not package:
            return np.dtype(name)
        try:
            import ml_dtypes

            return np.dtype(getattr(ml_dtypes, name))
        except ImportError:
            raise UnavailableError(
                f"{self.text} in NumPy needs the package ml_dtypes: pip install 'xlashape[ml-dtypes]'"
            ) from None
        except AttributeError:
            raise UnavailableError(f"{self.text} in NumPy needs a version of ml_dtypes that has {name}") from None

    @classmethod
    def from_numpy(cls, dtype: Any) -> PrimitiveType:
        """The element type of a NumPy type, which is anything that `numpy.dtype` takes. InvalidArgumentError if no
        element type corresponds to it.

        >>> PrimitiveType.from_numpy("int16"), PrimitiveType.from_numpy(bool)
        (<PrimitiveType.S16: 3>, <PrimitiveType.PRED: 1>)
        """
        import numpy as np

        try:
            name = str(np.dtype(dtype))  # includes the byte order if it is foreign, so the name is then not found
        except TypeError:
            raise InvalidArgumentError(f"{dtype!r:.60} is not a NumPy type", field="dtype") from None
        kind = _BY_NUMPY_NAME.get(name)
        if kind is None:
            hint = ""
            if (native := name.lstrip("<>")) != name and _BY_NUMPY_NAME.get(str(np.dtype(native))):
                hint = (
                    f": its bytes are in the other order, .astype({str(np.dtype(native))!r}) puts them into this "
                    "machine's"
                )
            raise InvalidArgumentError(f"no element type corresponds to NumPy's {name}{hint}", field="dtype")
        return kind


def _of_dtype(value: Any, field: str) -> PrimitiveType | None:
    """The element type of a NumPy type, or of a type of another library that has the name of a NumPy type; None for
    another value.
    """
    if value is bool:
        return PrimitiveType.PRED
    numpy = sys.modules.get("numpy")  # it is loaded if the value is one of its types
    if numpy is not None:
        # jax.numpy.bfloat16 is a class that is not NumPy's and has a dtype.
        dtype = getattr(value, "dtype", None) if isinstance(value, type) else value
        if isinstance(value, type) and issubclass(value, numpy.generic):
            dtype = numpy.dtype(value)
        if isinstance(dtype, numpy.dtype):
            try:
                return PrimitiveType.from_numpy(dtype)
            except InvalidArgumentError as error:
                raise InvalidArgumentError(error.message, field=field) from None
    if type(value).__name__ in ("dtype", "DType"):  # torch.bfloat16, tf.bfloat16
        return _BY_NUMPY_NAME.get(str(getattr(value, "name", value)).rpartition(".")[2])
    return None


def type_spelled(text: str) -> PrimitiveType | None:
    """The type spelled `text`, or None where `PrimitiveType.parse` raises an error."""
    if not is_a(text, str):
        return None
    kind = _BY_TEXT.get(text)
    if kind is None and text.startswith(_UNKNOWN):
        digits = text[len(_UNKNOWN) :]
        try:
            number = int(digits[:12])
        except ValueError:
            return None
        # The comparison refuses leading zeros, spaces and digits beyond int32.
        if str(number) == digits and number in _INT32:
            kind = PrimitiveType(number)
    return kind


def unknown_type_message(text: str) -> str:
    """The message of an error for a word that names no element type."""
    from difflib import get_close_matches  # for errors only

    near = get_close_matches(text.lower(), [t.text for t in PrimitiveType if t.is_array_type], 1)
    return f"'{text}' is not an element type" + (f"; did you mean '{near[0]}'?" if near else "")


_BY_TEXT: dict[str, PrimitiveType] = {t.text: t for t in PrimitiveType}

_BY_NUMPY_NAME: dict[str, PrimitiveType] = {t.numpy_name.rpartition(".")[2]: t for t in PrimitiveType if t.numpy_name}
