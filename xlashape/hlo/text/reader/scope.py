"""HLO text that is a part of a module: an instruction, or computations, which name instructions and computations that
the module has.

    part        := shape? opcode '(' operands ')' attributes  |  computation+              as in a module

What the text may name comes as a `Scope`. Each instruction of the scope is read as a parameter of the computation that
the instruction is in, each computation as one of the same signature.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from xlashape.errors import InvalidArgumentError
from xlashape.hlo.ops.opcode import Opcode
from xlashape.hlo.ops.registry import operation_of
from xlashape.hlo.text.reader.attributes import complete_parameter
from xlashape.hlo.text.reader.instruction import begins_instruction, parse_body, parse_right
from xlashape.hlo.text.reader.module import emit_computations, parse_computations
from xlashape.hlo.text.reader.state import Body, ParsedComputation, ParsedInstruction, ParsedShape, State
from xlashape.hlo.values.attribute import FIELDS
from xlashape.proto import coerce, xla
from xlashape.shape import Shape
from xlashape.text import Source


class Signature(NamedTuple):
    """A computation of the module, as callers know it."""

    name: str
    parameters: Sequence[xla.ShapeProto]
    result: xla.ShapeProto
    thread: str
    """The execution thread; empty for the main one."""


class Scope(NamedTuple):
    """What a text may name."""

    instructions: Sequence[tuple[str, xla.ShapeProto]] = ()
    """Names and shapes of instructions."""
    computations: Sequence[Signature] = ()


def parse_instruction_in(scope: Scope, text: str, at: int, name: str) -> xla.HloModuleProto:
    """The instruction `name`, whose shape, opcode, operands and attributes begin at offset `at` of a text.

    The module has the computations of the scope, then those that the instruction brought along, then the one of the
    instruction: a parameter for each instruction of the scope, and the instruction as root. Raises ParseError with
    lines and columns of `text`, InvalidArgumentError for a parameter, and for a text of several instructions.
    """
    state = _state(text, scope)
    computation = ParsedComputation("_")
    body = Body(state, computation, parse_body)
    for number, (each, shape) in enumerate(scope.instructions):
        _add_parameter(computation, each, shape, number)
        body.names[each] = number
    cursor = state.cursor
    cursor.at = at
    computation.root = parse_right(body, name)
    state.raise_errors()
    if computation.instructions[-1].opcode == Opcode.PARAMETER:
        raise InvalidArgumentError(
            "a parameter is given its value by the callers of its computation: it cannot be written", field="text"
        )
    if len(computation.instructions) > len(scope.instructions) + 1 or begins_instruction(cursor):
        raise InvalidArgumentError("the text has several instructions: take them one by one", field="text")
    if not cursor.at_end():
        cursor.fail("the end of the instruction")
    state.computations.append(computation)
    return _module(state)


def parse_computations_in(scope: Scope, text: str) -> xla.HloModuleProto:
    """The computations of a text, behind those of the scope. Raises ParseError with lines and columns of `text`."""
    state = _state(text, scope)
    if not state.cursor.at_end():
        parse_computations(state)
    state.raise_errors()
    return _module(state)


def _state(text: str, scope: Scope) -> State:
    """A reader that knows the computations of the scope."""
    state = State(Source(text))
    for index, signature in enumerate(scope.computations):
        computation = ParsedComputation(signature.name)
        computation.thread = signature.thread.encode() or computation.thread
        for number, shape in enumerate(signature.parameters):
            _add_parameter(computation, f"stand-in.{index}.{number}", shape, number)
        result = ParsedShape(Shape.from_proto(signature.result))
        data = operation_of(Opcode.CUSTOM_CALL).base + FIELDS.string("custom_call_target", "stand-in") + result.field
        operands = tuple(range(len(signature.parameters)))
        root = ParsedInstruction(f"stand-in.{index}", Opcode.CUSTOM_CALL, result, data, operands)
        computation.root = len(computation.instructions)
        computation.instructions.append(root)
        state.computation_indices[signature.name] = index
        state.computations.append(computation)
    return state


def _add_parameter(computation: ParsedComputation, name: str, shape: xla.ShapeProto, number: int) -> None:
    computation.parameters[number] = len(computation.instructions)
    computation.instructions.append(complete_parameter(name, ParsedShape(Shape.from_proto(shape)), number))


def _module(state: State) -> xla.HloModuleProto:
    computations, tables, _ = emit_computations(state.computations, None, scheduled=False)
    return coerce(xla.HloModuleProto, computations + tables)
