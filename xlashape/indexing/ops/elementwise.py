"""Operations that compute each element from the elements of the same index, and those without operands.

Matches XLA's elementwise ops, map, copy, constants and random numbers. A scalar operand of clamp or select takes part in every element.
"""

from __future__ import annotations

from xlashape.indexing.ops.attributes import random_algorithm
from xlashape.indexing.ops.build import (
    Malformed,
    dims_of,
    every_element,
    everything,
    identity,
    make_map,
    output_dims,
    require,
    to_scalar,
)
from xlashape.indexing.ops.registry import Access, Op, Rows, input_to_output, output_to_input
from xlashape.proto import xla
from xlashape.symbolic import Interval, dim, rng

UNARY = (
    "abs",
    "acos",
    "acosh",
    "asin",
    "asinh",
    "atanh",
    "cbrt",
    "ceil",
    "convert",
    "copy",
    "cosh",
    "cosine",
    "count-leading-zeros",
    "erf",
    "exponential",
    "exponential-minus-one",
    "floor",
    "imag",
    "is-finite",
    "log",
    "log-plus-one",
    "logistic",
    "negate",
    "not",
    "popcnt",
    "real",
    "reduce-precision",
    "round-nearest-afz",
    "round-nearest-even",
    "rsqrt",
    "sign",
    "sine",
    "sinh",
    "sqrt",
    "tan",
    "tanh",
)
BINARY = (
    "add",
    "and",
    "atan2",
    "compare",
    "complex",
    "divide",
    "maximum",
    "minimum",
    "mulhi",
    "multiply",
    "or",
    "power",
    "remainder",
    "shift-left",
    "shift-right-arithmetic",
    "shift-right-logical",
    "stochastic-convert",
    "subtract",
    "xor",
)
TERNARY = ("clamp", "select")
NO_OPERANDS = (
    "constant",
    "get-dimension-size",
    "iota",
    "parameter",
    "partition-id",
    "replica-id",
    "rng-get-and-update-state",
)


@output_to_input(*UNARY, *BINARY, *TERNARY, "map")
def elementwise_output_to_input(op: Op, output: int) -> Rows:
    """The same index; the only element of a scalar operand."""
    dims = output_dims(op, output)
    same = identity(dims)
    return tuple([same if _dims(op, i) == dims else to_scalar(dims) for i in range(len(op.operands))])


@input_to_output(*UNARY, *BINARY, *TERNARY, "map")
def elementwise_input_to_output(op: Op, operand: int, leaf: int) -> Rows:
    """The same index; every element from a scalar operand."""
    dims = output_dims(op, leaf)
    own = _dims(op, operand)
    if own == dims:
        return (identity(dims),)
    return ((everything(own, dims),),)


def _dims(op: Op, operand: int) -> tuple[int, ...]:
    require(
        not op.shape.is_tuple and not op.operand_shapes[operand].is_tuple,
        "is elementwise, but takes or returns a tuple",
    )
    dims = dims_of(op.operands[operand][0])
    result = dims_of(op.outputs[0])
    if dims and dims != result:
        raise Malformed(f"is elementwise, but operand {operand} is of {list(dims)} and the result of {list(result)}")
    return dims


@output_to_input(*NO_OPERANDS)
def no_operands_output_to_input(op: Op, output: int) -> Rows:
    """No element of any operand. (get-dimension-size reads a size, which is no element.)"""
    return ((),) * len(op.operands)


@input_to_output("get-dimension-size")
def get_dimension_size_input_to_output(op: Op, operand: int, leaf: int) -> Rows:
    """No element takes part."""
    return ((),)


@output_to_input("bitcast-convert")
def bitcast_convert_output_to_input(op: Op, output: int) -> Rows:
    """The same index. A narrower type adds a dimension that is dropped, a wider one takes in the last dimension whole."""
    dims, source = output_dims(op, output), _bitcast_convert_source(op)
    if len(dims) == len(source):
        return (identity(dims),)
    if len(dims) == len(source) + 1:
        return ((Access(make_map(dims, [dim(i) for i in range(len(source))])),),)
    return ((Access(make_map(dims, [*(dim(i) for i in range(len(dims))), rng(0)], ranges=source[-1:])),),)


@input_to_output("bitcast-convert")
def bitcast_convert_input_to_output(op: Op, operand: int, leaf: int) -> Rows:
    """The inverse."""
    dims, source = output_dims(op, 0), _bitcast_convert_source(op)
    if len(dims) == len(source):
        return (identity(dims),)
    if len(dims) == len(source) + 1:
        return ((Access(make_map(source, [*(dim(i) for i in range(len(source))), rng(0)], ranges=dims[-1:])),),)
    return ((Access(make_map(source, [dim(i) for i in range(len(dims))])),),)


def _bitcast_convert_source(op: Op) -> tuple[int, ...]:
    require(
        len(op.operands) == 1 and len(op.operands[0]) == 1 and len(op.outputs) == 1, "takes one array and returns one"
    )
    dims, source = dims_of(op.outputs[0]), dims_of(op.operands[0][0])
    shared = min(len(dims), len(source))
    require(
        dims[:shared] == source[:shared] and abs(len(dims) - len(source)) <= 1,
        f"cannot turn {list(source)} into {list(dims)}",
    )
    return source


@output_to_input("rng")
def rng_output_to_input(op: Op, output: int) -> Rows:
    """Both parameters of the distribution are scalars."""
    dims = output_dims(op, output)
    for operand in op.operands:
        require(len(operand) == 1 and not dims_of(operand[0]), "takes scalars")
    return (to_scalar(dims),) * len(op.operands)


@input_to_output("rng")
def rng_input_to_output(op: Op, operand: int, leaf: int) -> Rows:
    """A parameter of the distribution takes part in every element."""
    return ((everything(dims_of(op.operands[operand][leaf]), output_dims(op, 0)),),)


@output_to_input("rng-bit-generator", attributes=random_algorithm)
def rng_bit_generator_output_to_input(op: Op, output: int) -> Rows:
    """The bits come from the whole state, the new state from the old one; of an algorithm that is left open, all from all."""
    state = _random_state(op)
    if op.attributes not in _COUNTING:
        return every_element(op, output)
    if output:
        return ((everything(output_dims(op, output), state),),)
    counted = make_map(
        [Interval(1, state[0] - 1)],
        [rng(0)],
        ranges=[Interval(1, state[0] - 1)],
        constraints=[(dim(0) - rng(0), Interval(0, state[0] - 1))],
    )
    return ((Access(make_map([1], [dim(0)])), Access(counted)),)


@input_to_output("rng-bit-generator", attributes=random_algorithm)
def rng_bit_generator_input_to_output(op: Op, operand: int, leaf: int) -> Rows:
    """Each element of the state takes part in all bits: the key stays, a carry of the counter goes on to its higher elements."""
    state = _random_state(op)
    if op.attributes not in _COUNTING:
        return tuple([(everything(state, dims_of(shape), every=True),) for shape in op.outputs])
    counted = make_map(
        [Interval(1, state[0] - 1)],
        [rng(0)],
        ranges=[Interval(1, state[0] - 1)],
        constraints=[(rng(0) - dim(0), Interval(0, state[0] - 1))],
    )
    return (Access(make_map([1], [dim(0)])), Access(counted)), (everything(state, output_dims(op, 1)),)


_COUNTING = frozenset({xla.RNG_THREE_FRY, xla.RNG_PHILOX})
"""The state is a key and a counter, lowest element first, that only goes up."""


def _random_state(op: Op) -> tuple[int, ...]:
    require(len(op.operands) == 1 and len(op.operands[0]) == 1, "takes a state")
    state = dims_of(op.operands[0][0])
    if op.attributes in _COUNTING:
        require(
            len(op.outputs) == 2 and output_dims(op, 0) == state and len(state) == 1 and state[0] in (2, 3),
            f"returns no state and bits of a state of {list(state)}",
        )
    return state
