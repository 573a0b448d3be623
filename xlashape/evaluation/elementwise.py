"""Operations on elements of the same index, constants, and conversions."""

# NumPy's stubs leave the types of many results unknown.
# pyright: reportUnknownArgumentType=false, reportUnknownVariableType=false

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, cast

import numpy as np

from xlashape.errors import UnsupportedError
from xlashape.evaluation.domains.domain import FloatDomain
from xlashape.evaluation.domains.values import compared
from xlashape.evaluation.integers import BINARY as INTEGER_BINARY
from xlashape.evaluation.integers import UNARY as INTEGER_UNARY
from xlashape.evaluation.machine import Array, Machine, Value, dtype_of, evaluates, unsupported
from xlashape.hlo import HloInstruction
from xlashape.hlo.literal.data import to_numpy
from xlashape.shape import PrimitiveType, Shape


def _operation(opcode: str) -> Callable[..., Array]:
    """The operation of a domain that has the name of an opcode, as a function of the domain and of arrays."""
    name = opcode.replace("-", "_")

    def operation(domain: FloatDomain, *args: Array) -> Array:
        return getattr(domain, name)(*args)

    return operation


_UNARY = (
    "abs", "cosh", "exp2", "exponential", "exponential-minus-one", "log", "log-plus-one", "log2", "logistic", "negate",
    "rsqrt", "sign", "sinh", "sqrt", "tan", "tanh",
)  # fmt: skip
_BINARY = ("add", "atan2", "divide", "maximum", "minimum", "multiply", "power", "remainder", "subtract")
UNARY: Final = {opcode: _operation(opcode) for opcode in _UNARY}
BINARY: Final = {opcode: _operation(opcode) for opcode in _BINARY}


def _times(d: FloatDomain, a: Array, b: Array) -> Array:
    (x, y), (u, v) = _parts(d, a), _parts(d, b)
    return d.complex(d.subtract(d.multiply(x, u), d.multiply(y, v)), d.add(d.multiply(x, v), d.multiply(y, u)))


def _over(d: FloatDomain, a: Array, b: Array) -> Array:
    size, product = _square(d, b), _times(d, a, _conjugate(d, b))
    return d.complex(d.divide(d.real(product), size), d.divide(d.imag(product), size))


def _parts(d: FloatDomain, x: Array) -> tuple[Array, Array]:
    return d.real(x), d.imag(x)


def _square(d: FloatDomain, x: Array) -> Array:
    first, second = _parts(d, x)
    return d.add(d.multiply(first, first), d.multiply(second, second))


def _conjugate(d: FloatDomain, x: Array) -> Array:
    return d.complex(d.real(x), d.negate(d.imag(x)))


def _exponential(d: FloatDomain, x: Array) -> Array:
    size, angle = d.exponential(d.real(x)), d.imag(x)
    return d.complex(d.multiply(size, d.function("cosine", angle)), d.multiply(size, d.function("sine", angle)))


def _logarithm(d: FloatDomain, x: Array) -> Array:
    return d.complex(d.multiply(d.one(0.5), d.log(_square(d, x))), d.atan2(d.imag(x), d.real(x)))


def _complex_tanh(d: FloatDomain, x: Array) -> Array:
    twice = _exponential(d, d.complex(d.multiply(d.real(x), d.one(2)), d.multiply(d.imag(x), d.one(2))))
    one = d.complex(d.one(), d.one(0))
    return _over(d, _by_parts("subtract")(d, twice, one), _by_parts("add")(d, twice, one))


def _by_parts(name: str) -> Callable[..., Array]:
    def apply(d: FloatDomain, *args: Array) -> Array:
        function: Callable[..., Array] = BINARY[name] if len(args) == 2 else UNARY[name]
        return d.complex(function(d, *map(d.real, args)), function(d, *map(d.imag, args)))

    return apply


def _root(factor: float) -> Callable[[FloatDomain, Array], Array]:
    def apply(d: FloatDomain, x: Array) -> Array:
        return _exponential(d, _times(d, _logarithm(d, x), d.complex(d.one(factor), d.one(0))))

    return apply


def _power(d: FloatDomain, a: Array, b: Array) -> Array:
    return _exponential(d, _times(d, _logarithm(d, a), b))


def _size(d: FloatDomain, x: Array) -> Array:
    return d.sqrt(_square(d, x))


COMPLEX: Final[dict[str, Callable[..., Array]]] = {
    "abs": _size,
    "add": _by_parts("add"),
    "divide": _over,
    "exponential": _exponential,
    "log": _logarithm,
    "multiply": _times,
    "negate": _by_parts("negate"),
    "power": _power,
    "rsqrt": _root(-0.5),
    "sqrt": _root(0.5),
    "subtract": _by_parts("subtract"),
    "tanh": _complex_tanh,
}
FUNCTIONS: Final = (
    "acos", "acosh", "asin", "asinh", "atanh", "cbrt", "ceil", "cosine", "erf", "floor", "round-nearest-afz",
    "round-nearest-even", "sine",
)  # fmt: skip


def is_real(element_type: PrimitiveType) -> bool:
    """Whether elements are numbers of the domain: neither integers nor complex."""
    return element_type.is_floating or not (
        element_type.is_integral or element_type.is_complex or element_type is PrimitiveType.PRED
    )


def empty(machine: Machine, shape: Shape) -> Value:
    """Zeros in the place of data that nothing reads."""
    if shape.is_tuple:
        return tuple([empty(machine, part) for part in shape.tuple_shapes])
    if shape.is_token:
        return np.zeros(())
    zeros: Any = np.zeros(shape.dimensions, dtype_of(shape))
    return machine.domain.number(zeros) if is_real(shape.element_type) or shape.element_type.is_complex else zeros


@evaluates(*UNARY, *FUNCTIONS, "not", "popcnt", "count-leading-zeros")
def unary(machine: Machine, instruction: HloInstruction, args: list[Value]) -> Value:
    opcode, kind, x = str(instruction.opcode), instruction.operands[0].shape.element_type, args[0]
    if is_real(kind):
        function = UNARY.get(opcode)
        return machine.domain.function(opcode, x) if function is None else function(machine.domain, x)
    if kind.is_complex:
        if opcode not in COMPLEX:
            raise unsupported(instruction, "of complex numbers is not known")
        return COMPLEX[opcode](machine.domain, x)
    return np.asarray(INTEGER_UNARY[opcode](np.asarray(x)))


@evaluates(*{**BINARY, **INTEGER_BINARY})
def binary(machine: Machine, instruction: HloInstruction, args: list[Value]) -> Value:
    return applied(machine.domain, str(instruction.opcode), instruction.operands[0].shape.element_type, *args)


def applied(domain: FloatDomain, opcode: str, kind: PrimitiveType, a: Array, b: Array) -> Array:
    """An operation on two arrays of a type."""
    table = BINARY if is_real(kind) else COMPLEX if kind.is_complex else None
    if table is not None and opcode not in table:
        raise UnsupportedError(f"{opcode} of {kind.text} has no meaning")
    return np.asarray(
        INTEGER_BINARY[opcode](np.asarray(a), np.asarray(b)) if table is None else table[opcode](domain, a, b)
    )


@evaluates("reduce-precision")
def reduce_precision(machine: Machine, instruction: HloInstruction, args: list[Value]) -> Value:
    bits = instruction.attributes
    return machine.domain.reduced(args[0], bits.exponent_bits, bits.mantissa_bits)


@evaluates("copy", "optimization-barrier")
def same(_: Machine, instruction: HloInstruction, args: list[Value]) -> Value:
    return args[0]


@evaluates("is-finite")
def is_finite(machine: Machine, instruction: HloInstruction, args: list[Value]) -> Value:
    return machine.domain.is_finite(args[0])


@evaluates("real", "imag")
def part(machine: Machine, instruction: HloInstruction, args: list[Value]) -> Value:
    domain, is_first = machine.domain, str(instruction.opcode) == "real"
    if not instruction.operands[0].shape.element_type.is_complex:
        return args[0] if is_first else np.broadcast_to(domain.one(0), np.shape(args[0]))
    return domain.real(args[0]) if is_first else domain.imag(args[0])


@evaluates("complex")
def complex_(machine: Machine, instruction: HloInstruction, args: list[Value]) -> Value:
    return machine.domain.complex(*machine.domain.joined(args))


@evaluates("stochastic-convert")
def stochastic_convert(machine: Machine, instruction: HloInstruction, args: list[Value]) -> Value:
    """Rounds to an integer: up where the random bits are less than the bits that are cut off."""
    if not instruction.shape.element_type.is_integral:
        return args[0]
    x = np.asarray(args[0], np.float64)
    floor = np.floor(x)
    up = args[1] / 2.0 ** (8 * np.asarray(args[1]).dtype.itemsize) < x - floor
    return machine.domain.integer(floor + up, dtype_of(instruction.shape))


@evaluates("compare")
def compare(machine: Machine, instruction: HloInstruction, args: list[Value]) -> Value:
    details, kind = instruction.details, instruction.operands[0].shape.element_type
    direction = details.comparison_direction
    if is_real(kind):
        return machine.domain.compare(direction, *args, total=details.comparison_type == "TOTALORDER")
    if kind.is_complex:
        d = machine.domain
        equal = [d.compare("EQ", part(args[0]), part(args[1])) for part in (d.real, d.imag)]
        return (equal[0] & equal[1]) ^ (direction == "NE")
    return compared(direction, np.asarray(args[0]), np.asarray(args[1]))


@evaluates("convert")
def convert(machine: Machine, instruction: HloInstruction, args: list[Value]) -> Value:
    return converted(
        machine.domain, args[0], instruction.operands[0].shape.element_type, instruction.shape.element_type
    )


def converted(domain: FloatDomain, x: Array, source: PrimitiveType, target: PrimitiveType) -> Array:
    """The elements as elements of another type."""
    if source.is_complex and not target.is_complex:
        return converted(domain, domain.real(x), PrimitiveType.F64, target)
    if is_real(source):
        if target.is_complex:
            return domain.complex(*domain.joined([x, np.zeros(x.shape)]))
        if is_real(target):
            return domain.converted(x, source, target)
        if target is PrimitiveType.PRED:
            return domain.compare("NE", x, domain.one(0))
        return domain.integer(x, target.numpy_dtype())
    if target.is_complex:
        return x if source.is_complex else domain.number(np.asarray(x).astype(np.complex128))
    if is_real(target):
        return domain.number(np.asarray(x))
    if target is PrimitiveType.PRED:
        return np.asarray(x) != 0
    return np.asarray(x).astype(target.numpy_dtype())


@evaluates("bitcast-convert")
def bitcast_convert(machine: Machine, instruction: HloInstruction, args: list[Value]) -> Value:
    source, target = instruction.operands[0].shape, instruction.shape
    dims = target.dimensions if target.rank != source.rank else np.shape(args[0])
    return reinterpreted(machine.domain, args[0], source.element_type, target.element_type, dims)


def reinterpreted(
    domain: FloatDomain, x: Array, source: PrimitiveType, target: PrimitiveType, dims: tuple[int, ...]
) -> Array:
    """The bits of elements as elements of another type. A difference of width is in the last dimension."""
    if source is target or (is_real(source) and is_real(target) and source.bit_width == target.bit_width):
        return x.reshape(dims)
    if source.is_complex or target.is_complex:
        raise UnsupportedError(f"the bits of {source.text} as {target.text} are not known")
    bits = domain.bits(x, source.numpy_dtype()) if is_real(source) else np.asarray(x)
    goal = target.numpy_dtype()
    kind = np.dtype(f"u{goal.itemsize}") if is_real(target) else goal
    bits = np.ascontiguousarray(bits)
    if bits.dtype.itemsize < kind.itemsize:
        found = bits.view(kind).reshape(dims)
    else:
        found = bits.reshape((*bits.shape, 1)).view(kind).reshape(dims)
    return domain.of_bits(found, goal) if is_real(target) else found


@evaluates("select")
def select(machine: Machine, instruction: HloInstruction, args: list[Value]) -> Value:
    if isinstance(args[1], tuple):
        return args[1] if np.all(args[0]) else args[2]
    return np.where(np.asarray(args[0]) != 0, *machine.domain.joined(args[1:]))


@evaluates("clamp")
def clamp(machine: Machine, instruction: HloInstruction, args: list[Value]) -> Value:
    low, x, high = args
    if is_real(instruction.shape.element_type):
        return machine.domain.clamp(low, x, high)
    return np.minimum(np.maximum(low, x), high)


@evaluates("map")
def map_(machine: Machine, instruction: HloInstruction, args: list[Value]) -> Value:
    # The called computation is written for scalars, and runs on whole arrays: its operations are elementwise.
    found = machine.result(instruction.called_computations[0], args)
    return np.broadcast_to(found, instruction.shape.dimensions)


@evaluates("constant")
def constant(machine: Machine, instruction: HloInstruction, args: list[Value]) -> Value:
    details = instruction.details
    if not details.HasField("literal"):
        raise unsupported(instruction, "has elided values, which the text does not say")
    return _of_literal(machine.domain, to_numpy(details.literal))


def _of_literal(domain: FloatDomain, value: Any) -> Value:
    if isinstance(value, tuple):
        return tuple([_of_literal(domain, part) for part in cast("tuple[Any, ...]", value)])
    return domain.number(value) if is_real(PrimitiveType.from_numpy(value.dtype)) or value.dtype.kind == "c" else value


@evaluates("iota")
def iota(machine: Machine, instruction: HloInstruction, args: list[Value]) -> Value:
    shape, axis = instruction.shape, instruction.details.dimensions[0]
    sizes = [-1 if d == axis else 1 for d in range(shape.rank)]
    along = converted(machine.domain, np.arange(shape.dimensions[axis]), PrimitiveType.S64, shape.element_type).reshape(
        sizes
    )
    return np.broadcast_to(along, shape.dimensions)
