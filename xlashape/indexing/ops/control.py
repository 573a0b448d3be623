"""The rules of operations that pass arrays on (tuples, copies, barriers, the halves of asynchronous operations), of
tokens and data from outside the module (infeed, send, …), and of custom calls. And the declarations of opcodes whose
maps come from the computations that they call.

A map between tokens is `() -> ()`: it says which operation must come before, not what is read. A leaf is an array
within a shape (`answers.leaves`); a shape that is not a tuple has one.

The docstring of a rule says what an element of an output reads (`…_output_to_input`), or which elements of the outputs
an element of an operand takes part in (`…_input_to_output`).
"""

from __future__ import annotations

from bisect import bisect_right

from xlashape.hlo import Opcode
from xlashape.hlo.values.plain import INDEX
from xlashape.indexing.answers.leaves import dims_of, element_starts, first_leaves
from xlashape.indexing.ops.op import NOT_ACCESSED, Access, Malformed, Op, Rows, SparseRows, require
from xlashape.indexing.ops.register import calls, input_to_output, output_to_input, without_bounds
from xlashape.indexing.ops.rows import every_element, everything, identity, passed, to_scalar
from xlashape.proto import xla

calls(Opcode.FUSION, "the maps of the fused computation's root, through every path")
calls(Opcode.CALL, "the maps of the computation's root")
calls(Opcode.ASYNC_START, "operands are passed on; results as the wrapped computation computes them")
calls(Opcode.CONDITIONAL, "every branch's maps, and the selector")
calls(Opcode.WHILE, "the body's maps, from iteration to iteration")
calls(Opcode.SORT, "the whole sorted dimension of itself and of what the comparator reads")
calls(Opcode.SCAN, "the computation's maps, from step to step")


def _passed(op: Op, operand: int, leaf: int, output: int) -> tuple[Access, ...]:
    """From an output: the same index of a leaf of an operand."""
    dims = op.output_dims(output)
    require(operand < len(op.operands) and leaf < len(op.operands[operand]), "passes on an array that does not exist")
    source = op.operand_dims(operand, leaf)
    if source != dims:
        raise Malformed(f"passes {list(source)} on as {list(dims)}")
    return passed(dims, leaf)


def _passed_to(op: Op, operand: int, leaf: int, output: int) -> tuple[Access, ...]:
    """From a leaf of an operand: the same index of an output."""
    require(output < len(op.outputs) and leaf < len(op.operands[operand]), "passes on an array that does not exist")
    dims = op.operand_dims(operand, leaf)
    target = op.output_dims(output)
    if target != dims:
        raise Malformed(f"passes {list(dims)} on as {list(target)}")
    return identity(dims)


# -- tuples -------------------------------------------------------------------------------------


@output_to_input(Opcode.TUPLE)
def tuple_output_to_input(op: Op, output: int) -> Rows:
    """The same index of the operand that is this element of the tuple."""
    starts = op.starts
    require(starts[-1] == len(op.outputs), lambda: f"has {len(op.outputs)} leaves of {starts[-1]} that it takes")
    operand = bisect_right(starts, output) - 1
    return SparseRows(len(op.operands), {operand: _passed(op, operand, output - starts[operand], output)})


@input_to_output(Opcode.TUPLE)
def tuple_input_to_output(op: Op, operand: int, leaf: int) -> Rows:
    """The same index of the tuple's element that the operand becomes."""
    number = op.starts[operand] + leaf
    return SparseRows(len(op.outputs), {number: _passed_to(op, operand, leaf, number)})


def _element(op: Op) -> int:
    """The first leaf of the element that is taken."""
    require(
        len(op.operands) == 1 and op.operand_shapes[0].is_tuple, "takes an element of an operand that is not a tuple"
    )
    starts = element_starts(op.operand_shapes[0])
    index: int = op.attributes
    if not 0 <= index < len(starts) - 1:
        raise Malformed(f"takes element {index} of {len(starts) - 1}")
    return starts[index]


@output_to_input(Opcode.GET_TUPLE_ELEMENT, attributes=INDEX)
def get_tuple_element_output_to_input(op: Op, output: int) -> Rows:
    """The same index of the leaf of the element that is taken."""
    return (_passed(op, 0, _element(op) + output, output),)


@input_to_output(Opcode.GET_TUPLE_ELEMENT, attributes=INDEX)
def get_tuple_element_input_to_output(op: Op, operand: int, leaf: int) -> Rows:
    """A leaf of the element that is taken keeps its index; other elements go nowhere."""
    output = leaf - _element(op)
    if not 0 <= output < len(op.outputs):
        return (NOT_ACCESSED,) * len(op.outputs)
    return SparseRows(len(op.outputs), {output: _passed_to(op, operand, leaf, output)})


# -- arrays passed on unchanged -----------------------------------------------------------------


_PASSED_ON = (Opcode.COPY, Opcode.OPT_BARRIER, Opcode.DOMAIN, Opcode.ASYNC_UPDATE, Opcode.ALL_REDUCE_DONE)
"""Each takes an array or a tuple, whose arrays the result holds in the same order."""

without_bounds(Opcode.TUPLE, Opcode.GET_TUPLE_ELEMENT, Opcode.ADD_DEPENDENCY, *_PASSED_ON)


@output_to_input(*_PASSED_ON)
def pass_output_to_input(op: Op, output: int) -> Rows:
    """The same index of the same leaf."""
    return (_passed(op, 0, output, output), *((NOT_ACCESSED,) * (len(op.operands) - 1)))


@input_to_output(*_PASSED_ON)
def pass_input_to_output(op: Op, operand: int, leaf: int) -> Rows:
    """The same index of the same leaf."""
    return SparseRows(len(op.outputs), {leaf: _passed_to(op, operand, leaf, leaf)})


@output_to_input(Opcode.ADD_DEPENDENCY)
def add_dependency_output_to_input(op: Op, output: int) -> Rows:
    """The same index of the first operand; nothing is read of the second, which only has to be computed before."""
    return _passed(op, 0, output, output), NOT_ACCESSED


@input_to_output(Opcode.ADD_DEPENDENCY)
def add_dependency_input_to_output(op: Op, operand: int, leaf: int) -> Rows:
    """The first operand is passed on; the second goes nowhere, as it only has to be computed before."""
    return (
        (NOT_ACCESSED,) * len(op.outputs)
        if operand
        else SparseRows(len(op.outputs), {leaf: _passed_to(op, 0, leaf, leaf)})
    )


@output_to_input(Opcode.SET_DIMENSION_SIZE)
def set_dimension_size_output_to_input(op: Op, output: int) -> Rows:
    """The same index of the array, and the size, which is operand 1."""
    dims = op.output_dims(output)
    require(len(op.operands) == 2, "takes an array and a size")
    return _passed(op, 0, 0, 0), to_scalar(dims)


@input_to_output(Opcode.SET_DIMENSION_SIZE)
def set_dimension_size_input_to_output(op: Op, operand: int, leaf: int) -> Rows:
    """The same index; the size takes part in every element."""
    return ((everything((), op.output_dims(0)),),) if operand else (_passed_to(op, 0, leaf, 0),)


# -- asynchronous pairs -------------------------------------------------------------------------


def _opcode(instruction: xla.HloInstructionProto) -> str:
    return instruction.opcode


def _results_before(op: Op) -> int:
    """How many leaves of the operand come before the results: those of the operands that the start has passed on."""
    require(len(op.operands) >= 1 and op.operand_shapes[0].is_tuple, "takes no tuple that a start returns")
    if op.attributes in (Opcode.ASYNC_DONE, Opcode.ALL_GATHER_DONE, Opcode.COLLECTIVE_PERMUTE_DONE):
        return first_leaves(op.operand_shapes[0].tuple_shapes[:1])[-1]
    return 0


_DONE = (Opcode.ASYNC_DONE, Opcode.ALL_GATHER_DONE, Opcode.COPY_DONE, Opcode.COLLECTIVE_PERMUTE_DONE, Opcode.RECV_DONE)


@output_to_input(*_DONE, attributes=_opcode)
def done_output_to_input(op: Op, output: int) -> Rows:
    """The same index of the result, which the tuple that the start returns holds; for a token, its last token."""
    before = _results_before(op)
    if op.outputs[output].is_token:
        tokens = [leaf for leaf, shape in enumerate(op.operands[0]) if shape.is_token]
        return SparseRows(len(op.operands), {0: _passed(op, 0, tokens[-1], output) if tokens else NOT_ACCESSED})
    return SparseRows(len(op.operands), {0: _passed(op, 0, before + output, output)})


@input_to_output(*_DONE, attributes=_opcode)
def done_input_to_output(op: Op, operand: int, leaf: int) -> Rows:
    """The leaves of the start's tuple that are the result keep their index; the other leaves go nowhere."""
    output = leaf - _results_before(op)
    if op.operands[operand][leaf].is_token:
        tokens = [output for output, shape in enumerate(op.outputs) if shape.is_token]
        output = tokens[-1] if tokens else -1
    if not 0 <= output < len(op.outputs) or op.outputs[output].is_token != op.operands[operand][leaf].is_token:
        return (NOT_ACCESSED,) * len(op.outputs)
    return SparseRows(len(op.outputs), {output: _passed_to(op, operand, leaf, output)})


@output_to_input(Opcode.COPY_START)
def copy_start_output_to_input(op: Op, output: int) -> Rows:
    """The result is (copy, operand, context): the first two hold the operand's elements."""
    require(len(op.operands) == 1 and len(op.outputs) >= 2, "returns a copy, the operand and a context")
    return (_passed(op, 0, 0, output),) if output < 2 else (NOT_ACCESSED,)


@input_to_output(Opcode.COPY_START)
def copy_start_input_to_output(op: Op, operand: int, leaf: int) -> Rows:
    """The result is (copy, operand, context): the first two hold the operand's elements."""
    require(len(op.operands) == 1 and len(op.outputs) >= 2, "returns a copy, the operand and a context")
    both = _passed_to(op, operand, leaf, 0)
    return SparseRows(len(op.outputs), {0: both, 1: both})


# -- tokens, and data from or to other modules --------------------------------------------------


def _after(op: Op, output: int, first: int = 0) -> Rows:
    """An output that is a token comes after the tokens among the operands, from operand `first` on; data comes from
    outside the module.
    """
    if not op.outputs[output].is_token:
        return (NOT_ACCESSED,) * len(op.operands)
    return tuple(
        tuple(to_scalar(())[0]._replace(leaf=leaf) for leaf, shape in enumerate(operand) if shape.is_token)
        if number >= first
        else NOT_ACCESSED
        for number, operand in enumerate(op.operands)
    )


def _before(op: Op, operand: int, leaf: int) -> Rows:
    """A token among the operands comes before the tokens of the result; data goes outside the module."""
    if not op.operands[operand][leaf].is_token:
        return (NOT_ACCESSED,) * len(op.outputs)
    return tuple(to_scalar(()) if shape.is_token else NOT_ACCESSED for shape in op.outputs)


@output_to_input(Opcode.AFTER_ALL, Opcode.INFEED, Opcode.OUTFEED, Opcode.RECV, Opcode.SEND_DONE)
def token_output_to_input(op: Op, output: int) -> Rows:
    """Tokens come after tokens. Data that is fed in or received comes from outside the module; data that is fed out
    goes there.
    """
    return _after(op, output)


@input_to_output(Opcode.AFTER_ALL, Opcode.INFEED, Opcode.OUTFEED, Opcode.RECV, Opcode.SEND_DONE)
def token_input_to_output(op: Op, operand: int, leaf: int) -> Rows:
    """Tokens come before tokens."""
    return _before(op, operand, leaf)


@output_to_input(Opcode.SEND)
def send_output_to_input(op: Op, output: int) -> Rows:
    """The result is (data, context, token): the data is passed on, the token comes after that of operand 1."""
    require(len(op.operands) == 2, "takes data and a token")
    if output < len(op.operands[0]):
        return _passed(op, 0, output, output), NOT_ACCESSED
    return _after(op, output, 1)


@input_to_output(Opcode.SEND)
def send_input_to_output(op: Op, operand: int, leaf: int) -> Rows:
    """The result is (data, context, token): the data is passed on, operand 1 comes before the token."""
    require(len(op.operands) == 2, "takes data and a token")
    if operand == 0:
        return SparseRows(len(op.outputs), {leaf: _passed_to(op, 0, leaf, leaf)})
    return tuple(
        to_scalar(()) if shape.is_token and output >= len(op.operands[0]) else NOT_ACCESSED
        for output, shape in enumerate(op.outputs)
    )


# -- custom calls -------------------------------------------------------------------------------


@output_to_input(Opcode.CUSTOM_CALL)
def custom_call_output_to_input(op: Op, output: int) -> Rows:
    """Every element of every operand: nothing narrower is known to be true."""
    return every_element(op, output)


@input_to_output(Opcode.CUSTOM_CALL)
def custom_call_input_to_output(op: Op, operand: int, leaf: int) -> Rows:
    """Every element of every output: nothing narrower is known to be true."""
    own = op.operand_dims(operand, leaf)
    return tuple((everything(own, dims_of(shape), is_conservative=True),) for shape in op.outputs)
