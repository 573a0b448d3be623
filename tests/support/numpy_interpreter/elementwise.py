"""Operations on elements of the same index, and random numbers."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from numpy_interpreter.core import Value, dtype_of, interprets, result
from xlashape.hlo import HloInstruction


def _bits(x: Any) -> np.ndarray:
    """The bits of the elements, as unsigned Python integers."""
    unsigned = np.asarray(x).view(f"u{np.asarray(x).dtype.itemsize}")
    return unsigned.astype(object)


def _by_bits(function: Any) -> Any:
    def apply(x: Any) -> np.ndarray:
        x = np.asarray(x)
        width = x.dtype.itemsize * 8
        return np.array([function(int(v), width) for v in _bits(x).ravel()], x.dtype).reshape(x.shape)

    return apply


def _reduced(x: Any) -> Any:
    """The elements rounded to a mantissa of eight bits, the leading bit not counted."""
    mantissa, exponent = np.frexp(x)
    return np.ldexp(np.round(mantissa * 512) / 512, exponent)


UNARY: dict[str, Any] = {
    "abs": np.abs,
    "acos": np.arccos,
    "acosh": np.arccosh,
    "asin": np.arcsin,
    "asinh": np.arcsinh,
    "atanh": np.arctanh,
    "cbrt": np.cbrt,
    "ceil": np.ceil,
    "copy": np.array,
    "cosh": np.cosh,
    "cosine": np.cos,
    "count-leading-zeros": _by_bits(lambda v, width: width - v.bit_length()),
    "erf": np.vectorize(math.erf, otypes=[np.float64]),
    "exp2": np.exp2,
    "exponential": np.exp,
    "exponential-minus-one": np.expm1,
    "floor": np.floor,
    "imag": np.imag,
    "is-finite": np.isfinite,
    "log": np.log,
    "log-plus-one": np.log1p,
    "log2": np.log2,
    "logistic": lambda x: 1 / (1 + np.exp(-x)),
    "negate": np.negative,
    "not": np.invert,
    "popcnt": _by_bits(lambda v, width: v.bit_count()),
    "real": np.real,
    "reduce-precision": _reduced,
    "round-nearest-afz": lambda x: np.copysign(np.floor(np.abs(x) + 0.5), x),
    "round-nearest-even": np.round,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "sign": np.sign,
    "sine": np.sin,
    "sinh": np.sinh,
    "sqrt": np.sqrt,
    "tan": np.tan,
    "tanh": np.tanh,
}


def _mulhi(a: Any, b: Any) -> np.ndarray:
    """The upper half of the product of 32-bit numbers."""
    return (np.asarray(a).astype(np.int64) * np.asarray(b) >> 32).astype(np.int32)


def _unsigned_shift(a: Any, b: Any) -> np.ndarray:
    a = np.asarray(a)
    return (a.view(f"u{a.dtype.itemsize}") >> np.asarray(b).view(f"u{a.dtype.itemsize}")).view(a.dtype)


BINARY: dict[str, Any] = {
    "add": np.add,
    "and": np.bitwise_and,
    "atan2": np.arctan2,
    "complex": lambda a, b: a + 1j * b,
    "divide": np.divide,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "mulhi": _mulhi,
    "multiply": np.multiply,
    "or": np.bitwise_or,
    "power": np.power,
    "remainder": np.fmod,
    "shift-left": np.left_shift,
    "shift-right-arithmetic": np.right_shift,
    "shift-right-logical": _unsigned_shift,
    # A value is rounded up where the random bits are less than the bits that are cut off.
    "stochastic-convert": lambda x, bits: np.floor(x) + (bits / 2.0**32 < x - np.floor(x)),
    "subtract": np.subtract,
    "xor": np.bitwise_xor,
}
COMPARISONS: dict[str, Any] = {
    "EQ": np.equal,
    "NE": np.not_equal,
    "GE": np.greater_equal,
    "GT": np.greater,
    "LE": np.less_equal,
    "LT": np.less,
}


@interprets(*UNARY)
def unary(instruction: HloInstruction, args: list[Value]) -> Value:
    return np.asarray(UNARY[instruction.details.opcode](args[0]))


@interprets(*BINARY)
def binary(instruction: HloInstruction, args: list[Value]) -> Value:
    return np.asarray(BINARY[instruction.details.opcode](args[0], args[1]))


@interprets("compare")
def compare(instruction: HloInstruction, args: list[Value]) -> Value:
    return np.asarray(COMPARISONS[instruction.details.comparison_direction](args[0], args[1]))


@interprets("convert")
def convert(instruction: HloInstruction, args: list[Value]) -> Value:
    return np.asarray(args[0]).astype(dtype_of(instruction.shape))


@interprets("select")
def select(instruction: HloInstruction, args: list[Value]) -> Value:
    return np.where(np.asarray(args[0]) != 0, args[1], args[2])


@interprets("clamp")
def clamp(instruction: HloInstruction, args: list[Value]) -> Value:
    return np.minimum(np.maximum(args[0], args[1]), args[2])


@interprets("map")
def map_(instruction: HloInstruction, args: list[Value]) -> Value:
    # The called computation is written for scalars, and runs on whole arrays: NumPy's operations are elementwise.
    return np.broadcast_to(result(instruction.called_computations[0], args), instruction.shape.dimensions)


@interprets("constant")
def constant(instruction: HloInstruction, args: list[Value]) -> Value:
    values, dtype = (
        getattr(instruction.details.literal, f"{instruction.shape.element_type.text}s"),
        dtype_of(instruction.shape),
    )
    numbers = np.frombuffer(values, dtype) if isinstance(values, bytes) else np.array(values, dtype)
    return numbers.reshape(instruction.shape.dimensions)


@interprets("iota")
def iota(instruction: HloInstruction, args: list[Value]) -> Value:
    dims, axis = instruction.shape.dimensions, instruction.details.dimensions[0]
    along = np.arange(dims[axis], dtype=dtype_of(instruction.shape)).reshape(
        [-1 if d == axis else 1 for d in range(len(dims))]
    )
    return np.broadcast_to(along, dims)


@interprets("rng")
def rng(instruction: HloInstruction, args: list[Value]) -> Value:
    noise = np.random.default_rng(1).random(instruction.shape.dimensions)
    return args[0] + (args[1] - args[0]) * noise


@interprets("rng-bit-generator")
def rng_bit_generator(instruction: HloInstruction, args: list[Value]) -> Value:
    generator = np.random.default_rng([int(v) for v in np.asarray(args[0]).ravel()])
    return tuple(
        generator.integers(0, 1 << 31, size=shape.dimensions).astype(dtype_of(shape))
        for shape in instruction.shape.tuple_shapes
    )


@interprets("bitcast-convert")
def bitcast_convert(instruction: HloInstruction, args: list[Value]) -> Value:
    x, target = np.ascontiguousarray(args[0]), dtype_of(instruction.shape)
    if x.dtype.itemsize < target.itemsize:
        return x.view(target).reshape(instruction.shape.dimensions)
    return x.reshape((*x.shape, 1)).view(target).reshape(instruction.shape.dimensions)
