"""Reads HLO text of an instruction, or of computations, that is to become part of an existing module. The text may name
instructions and computations of that module.

    part        := shape? opcode '(' operands ')' attributes  |  computation+              as in a module

A `Scope` has the instructions and computations that the text may name. The reader puts stand-ins in their place: a
parameter for each instruction, and for each computation another one with the same signature. The result is a module of
the stand-ins and of what the text has.
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
    """The signature of a computation of the existing module: its name, parameters and result."""

    name: str
    parameters: Sequence[xla.ShapeProto]
    result: xla.ShapeProto
    thread: str
    """The execution thread; empty for the main one."""


class Scope(NamedTuple):
    """The instructions and computations of a module that a text may name."""

    instructions: Sequence[tuple[str, xla.ShapeProto]] = ()
    """Names and shapes of instructions."""
    computations: Sequence[Signature] = ()


def parse_instruction_in(scope: Scope, text: str, at: int, name: str) -> xla.HloModuleProto:
    """Reads an instruction, which gets the name `name`. Its shape, opcode, operands and attributes begin at offset `at`
    of `text`.

    The result is a module. It has the stand-ins of the scope's computations, then the computations that are written
    within the instruction, then a computation with a parameter for each instruction of the scope and the instruction
    as root. Raises ParseError with lines and columns of `text`, InvalidArgumentError for a parameter and for a text of
    several instructions.
    """
    state = _state(text, scope)
    computation = ParsedComputation("_")
    body = Body(state, computation, parse_body)
    for number, (known_name, shape) in enumerate(scope.instructions):
        _add_parameter(computation, known_name, shape, number)
        body.names[known_name] = number
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
    """Reads the computations of a text. The result is a module of the stand-ins of the scope's computations and, after
    them, those of the text. Raises ParseError with lines and columns of `text`."""
    state = _state(text, scope)
    if not state.cursor.at_end():
        parse_computations(state)
    state.raise_errors()
    return _module(state)


def _state(text: str, scope: Scope) -> State:
    """The state of a reader that already has a stand-in for each computation of the scope."""
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
