"""The rules of operations that compute each element from the elements of the same index (among them map and
bitcast-convert), of operations that read no element (constants, iota, parameters, …), and of random numbers.

A scalar operand of clamp or select takes part in every element.

The docstring of a rule says what an element of an output reads (`…_output_to_input`), or which elements of the outputs
an element of an operand takes part in (`…_input_to_output`).
"""

from __future__ import annotations

from xlashape.hlo import Opcode
from xlashape.hlo.ops.operation import ReadPattern
from xlashape.hlo.ops.registry import operation_of
from xlashape.hlo.values.enums import RNG_ALGORITHM
from xlashape.indexing.answers.leaves import WITHOUT_BOUND, dims_of
from xlashape.indexing.ops.op import Access, Malformed, Op, Row, Rows, require
from xlashape.indexing.ops.register import input_to_output, output_to_input, without_bounds
from xlashape.indexing.ops.rows import every_element, everything, identity, make_map, to_scalar
from xlashape.symbolic import Expr, Interval, dim, rng

ELEMENTWISE = (
    Opcode.MAP,
    *(each for each in Opcode if operation_of(each).reads is ReadPattern.SAME and each is not Opcode.BITCAST_CONVERT),
)
without_bounds(*ELEMENTWISE, Opcode.BITCAST_CONVERT)


@output_to_input(*ELEMENTWISE)
def elementwise_output_to_input(op: Op, output: int) -> Rows:
    """The element of the same index; the only element of a scalar operand."""
    dims = op.output_dims(output)
    same = identity(dims)
    return tuple([same if len(_dims(op, i)) == len(dims) else to_scalar(dims) for i in range(len(op.operands))])


@input_to_output(*ELEMENTWISE)
def elementwise_input_to_output(op: Op, operand: int, leaf: int) -> Rows:
    """The element of the same index; a scalar operand takes part in every element."""
    dims = op.output_dims(leaf)
    own = _dims(op, operand)
    if len(own) == len(dims):
        return (identity(own),)
    return ((everything(own, dims),),)


def _dims(op: Op, operand: int) -> tuple[int, ...]:
    """The sizes of an operand. Raises Malformed unless they are those of the result or of a scalar."""
    require(
        not op.shape.is_tuple and not op.operand_shapes[operand].is_tuple,
        "is elementwise, but takes or returns a tuple",
    )
    dims = dims_of(op.operands[operand][0])
    result = dims_of(op.outputs[0])
    if dims and dims != result and not _same_without_bounds(dims, result):
        raise Malformed(f"is elementwise, but operand {operand} is of {list(dims)} and the result of {list(result)}")
    return dims


def _same_without_bounds(a: tuple[int, ...], b: tuple[int, ...]) -> bool:
    """Whether the sizes may be equal; a dimension without a bound may have any size."""
    return len(a) == len(b) and all(m == n or WITHOUT_BOUND in (m, n) for m, n in zip(a, b, strict=True))


@output_to_input(
    Opcode.CONSTANT,
    Opcode.GET_DIMENSION_SIZE,
    Opcode.IOTA,
    Opcode.PARAMETER,
    Opcode.PARTITION_ID,
    Opcode.REPLICA_ID,
    Opcode.RNG_GET_AND_UPDATE_STATE,
)
def no_operands_output_to_input(op: Op, output: int) -> Rows:
    """No element of any operand; get-dimension-size reads a size, which is not an element."""
    return ((),) * len(op.operands)


@input_to_output(Opcode.GET_DIMENSION_SIZE)
def get_dimension_size_input_to_output(op: Op, operand: int, leaf: int) -> Rows:
    """No element takes part: the result is a size."""
    return ((),)


@output_to_input(Opcode.BITCAST_CONVERT)
def bitcast_convert_output_to_input(op: Op, output: int) -> Rows:
    """The same index. A result of a narrower type has one dimension more than the operand, which the map drops. A
    result of a wider type has one less; each element reads the operand's whole last dimension.
    """
    dims, source = op.output_dims(output), _bitcast_convert_source(op)
    if len(dims) == len(source):
        return (identity(dims),)
    if len(dims) == len(source) + 1:
        return ((Access(make_map(dims, [dim(i) for i in range(len(source))])),),)
    return ((Access(make_map(dims, [*(dim(i) for i in range(len(dims))), rng(0)], ranges=source[-1:])),),)


@input_to_output(Opcode.BITCAST_CONVERT)
def bitcast_convert_input_to_output(op: Op, operand: int, leaf: int) -> Rows:
    """The inverse of the map from the output."""
    dims, source = op.output_dims(0), _bitcast_convert_source(op)
    if len(dims) == len(source):
        return (identity(dims),)
    if len(dims) == len(source) + 1:
        return ((Access(make_map(source, [*(dim(i) for i in range(len(source))), rng(0)], ranges=dims[-1:])),),)
    return ((Access(make_map(source, [dim(i) for i in range(len(dims))])),),)


def _bitcast_convert_source(op: Op) -> tuple[int, ...]:
    require(
        len(op.operands) == 1 and len(op.operands[0]) == 1 and len(op.outputs) == 1,
        "takes or returns more than one array",
    )
    dims, source = dims_of(op.outputs[0]), dims_of(op.operands[0][0])
    shared = min(len(dims), len(source))
    require(
        dims[:shared] == source[:shared] and abs(len(dims) - len(source)) <= 1,
        f"cannot turn {list(source)} into {list(dims)}",
    )
    return source


@output_to_input(Opcode.RNG)
def rng_output_to_input(op: Op, output: int) -> Rows:
    """The only element of both parameters of the distribution."""
    dims = op.output_dims(output)
    for operand in op.operands:
        require(len(operand) == 1 and not dims_of(operand[0]), "takes scalars")
    return (to_scalar(dims),) * len(op.operands)


@input_to_output(Opcode.RNG)
def rng_input_to_output(op: Op, operand: int, leaf: int) -> Rows:
    """A parameter of the distribution takes part in every element."""
    return ((everything(dims_of(op.operands[operand][leaf]), op.output_dims(0)),),)


@output_to_input(Opcode.RNG_BIT_GENERATOR, attributes=RNG_ALGORITHM)
def rng_bit_generator_output_to_input(op: Op, output: int) -> Rows:
    """The bits depend on the whole state. In the new state, the key is that of the old state, and an element of the
    counter depends on itself and the lower elements. With another algorithm than `_COUNTING`, every element depends on
    every element.
    """
    state = _random_state(op)
    if op.attributes not in _COUNTING:
        return every_element(op, output)
    if output:
        return ((everything(op.output_dims(output), state),),)
    return (_new_state(state, dim(0) - rng(0)),)


@input_to_output(Opcode.RNG_BIT_GENERATOR, attributes=RNG_ALGORITHM)
def rng_bit_generator_input_to_output(op: Op, operand: int, leaf: int) -> Rows:
    """Each element of the state takes part in all bits. In the new state, the key takes part in itself, and an element
    of the counter in itself and the higher elements, to which a carry goes.
    """
    state = _random_state(op)
    if op.attributes not in _COUNTING:
        return tuple([(everything(state, dims_of(shape), is_conservative=True),) for shape in op.outputs])
    return _new_state(state, rng(0) - dim(0)), (everything(state, op.output_dims(1)),)


def _new_state(state: tuple[int, ...], higher: Expr) -> Row:
    """The key, which stays, and an element of the counter, which goes with those that a carry joins it with: where
    `higher`, the distance to the other element, is not negative."""
    counter = Interval(1, state[0] - 1)
    counted = make_map([counter], [rng(0)], ranges=[counter], constraints=[(higher, Interval(0, state[0] - 1))])
    return Access(make_map([1], [dim(0)])), Access(counted)


_COUNTING = frozenset({"rng_three_fry", "rng_philox"})
"""Algorithms whose state is a key (element 0) and a counter (the other elements, the lowest first), which an operation
only increases.
"""


def _random_state(op: Op) -> tuple[int, ...]:
    require(len(op.operands) == 1 and len(op.operands[0]) == 1, "takes a state")
    state = dims_of(op.operands[0][0])
    if op.attributes in _COUNTING:
        require(
            len(op.outputs) == 2 and op.output_dims(0) == state and len(state) == 1 and state[0] in (2, 3),
            f"returns no state and bits of a state of {list(state)}",
        )
    return state
