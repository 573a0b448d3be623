"""The verifier's rules for buffers. A buffer, `b(f32[2])`, is a value that holds an array in memory and can be written.
The rules say which instructions may have buffers, how custom calls create and end them, and that each is written once.

In a computation that an async-start runs, only the rules of custom calls apply, and only to the root.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from typing import Final

from xlashape.errors import XlashapeError
from xlashape.hlo.kind import Kind
from xlashape.hlo.module import HloComputation, HloInstruction, HloModule
from xlashape.hlo.ops.opcode import Opcode
from xlashape.hlo.ops.verification import BufferTarget, held_array
from xlashape.hlo.verifier.module_rules import Problem
from xlashape.proto import xla
from xlashape.shape import Shape

_WITH_BUFFERS: Final = frozenset(
    (
        Opcode.ASYNC_DONE,
        Opcode.ASYNC_START,
        Opcode.ASYNC_UPDATE,
        Opcode.CUSTOM_CALL,
        Opcode.DYNAMIC_UPDATE_SLICE,
        Opcode.GET_TUPLE_ELEMENT,
        Opcode.PARAMETER,
        Opcode.TUPLE,
        Opcode.WHILE,
    )
)
"""The opcodes whose operands and results may be buffers. A parameter of the entry may not be a buffer."""
_STREAM: Final = "_xla_stream_annotation"
"""The frontend attribute of a call that runs on a separate stream. Such a call may have buffers."""
_WRITERS: Final = frozenset((Opcode.CALL, Opcode.CUSTOM_CALL, Opcode.DYNAMIC_UPDATE_SLICE, Opcode.WHILE))
"""The opcodes that write or end the buffers that are their operands."""
_MAKERS: Final = frozenset((Opcode.CUSTOM_CALL, Opcode.DYNAMIC_UPDATE_SLICE, Opcode.PARAMETER, Opcode.WHILE))
"""The opcodes whose result buffers are checked to be written once. Tuples only pass buffers on. As in XLA, the results
of calls and asynchronous operations are not checked.
"""
_TARGETS: Final = frozenset(map(str, BufferTarget))


def buffer_problems(module: HloModule) -> Iterator[Problem]:
    """The problems of the buffers of a module."""
    kinds = {each.kind for each in module.instructions()}
    holding = {kind for kind in kinds if _holds_buffer(kind.message.shape)}
    concerned = holding.union([kind for kind in kinds if _takes_buffer(kind)])
    if not concerned:
        return
    bodies: set[HloComputation] = set()
    asynchronous: set[HloComputation] = set()
    for instruction in module.instructions():
        if instruction.opcode is Opcode.WHILE:
            bodies.update(instruction.called_computations[:1])
        elif instruction.opcode is Opcode.ASYNC_START:
            asynchronous.update(instruction.called_computations)
    for computation in module.computations:
        if not any(each.kind in concerned for each in computation.instructions):
            continue
        is_asynchronous, root = computation in asynchronous, computation.root
        if is_asynchronous and root.opcode is not Opcode.CUSTOM_CALL:
            continue
        try:
            for instruction in (root,) if is_asynchronous else computation.instructions:
                message = _problem(instruction, is_entry=computation is module.entry)
                if message:
                    yield Problem(computation.name, instruction.name, message)
            if not is_asynchronous:
                with_buffers = [each for each in computation.instructions if each.kind in holding]
                yield from _writers(computation, with_buffers, bodies)
        except XlashapeError:
            continue  # another rule reports an instruction that cannot be decoded


def _holds_buffer(shape: xla.ShapeProto) -> bool:
    return shape.element_type == xla.BUFFER or any(map(_holds_buffer, shape.tuple_shapes))


def _takes_buffer(kind: Kind) -> bool:
    return kind.opcode is Opcode.CUSTOM_CALL and kind.message.custom_call_target in _TARGETS


def _problem(instruction: HloInstruction, *, is_entry: bool) -> str | None:
    opcode, shape = instruction.opcode, instruction.shape
    operands = [operand.shape for operand in instruction.operands]
    buffers = [each for each in (shape, *operands) if next(_buffer_indices(each), None) is not None]
    may_have = opcode in _WITH_BUFFERS or (
        opcode is Opcode.CALL and _STREAM in instruction.details.frontend_attributes.map
    )
    if not may_have or (is_entry and opcode is Opcode.PARAMETER):
        return f"neither its operands nor its result can be a buffer, found {buffers[0]}" if buffers else None
    if opcode is Opcode.CUSTOM_CALL:
        return _custom_call_problem(instruction.details, shape, operands)
    return None


def _custom_call_problem(message: xla.HloInstructionProto, shape: Shape, operands: Sequence[Shape]) -> str | None:
    target = message.custom_call_target
    if target == BufferTarget.CREATE:
        if operands:
            return f"{target} takes no operand, found {len(operands)}"
        return None if shape.is_buffer else f"the result of {target} must be a buffer, found {shape}"
    if target in (BufferTarget.PIN, BufferTarget.UNPIN):
        pins = target == BufferTarget.PIN
        taken, given = ("an array", "a buffer") if pins else ("a buffer", "an array")
        if len(operands) != 1 or not (operands[0].is_array if pins else operands[0].is_buffer):
            return f"{target} takes {taken}, found {', '.join(map(str, operands)) or 'nothing'}"
        if not (shape.is_buffer if pins else shape.is_array):
            return f"the result of {target} must be {given}, found {shape}"
        source, held = held_array(operands[0]), held_array(shape)
        if (source.dimensions, source.dynamic_dimensions) != (held.dimensions, held.dynamic_dimensions):
            return f"{target} must keep dimensions as they are, found {shape} of {operands[0]}"
        if len(message.output_operand_aliasing) != 1:
            return f"the result of {target} must be aliased with its operand"
        return None
    return _aliases_problem(message, shape, operands)


def _aliases_problem(message: xla.HloInstructionProto, shape: Shape, operands: Sequence[Shape]) -> str | None:
    """Checks that aliases join each buffer operand of a custom call with a buffer of its result, and each buffer of its
    result with an operand.
    """
    outputs = [tuple(alias.output_shape_index) for alias in message.output_operand_aliasing]
    inputs = [(alias.operand_index, tuple(alias.operand_shape_index)) for alias in message.output_operand_aliasing]
    for index in _buffer_indices(shape):
        if index not in outputs:
            return f"its output_to_operand_aliasing must have the buffer {list(index)} of its result"
    for number, operand in enumerate(operands):
        for index in _buffer_indices(operand):
            count = inputs.count((number, index))
            if count != 1:
                what = f"the buffer {list(index)} of operand {number} once, found it {count} times"
                return f"its output_to_operand_aliasing must have {what}"
    return None


def _buffer_indices(shape: Shape, index: tuple[int, ...] = ()) -> Iterator[tuple[int, ...]]:
    if shape.is_buffer:
        yield index
    elif shape.is_tuple:
        for number, part in enumerate(shape.tuple_shapes):
            yield from _buffer_indices(part, (*index, number))


def _writers(
    computation: HloComputation, with_buffers: Sequence[HloInstruction], bodies: Set[HloComputation]
) -> Iterator[Problem]:
    """Problems of buffers that several instructions write or end."""
    for instruction in with_buffers:
        if instruction.opcode not in _MAKERS:
            continue
        for index in _buffer_indices(instruction.shape):
            writers = _writers_of(instruction, index, bodies)
            if len(writers) > 1:
                names = " and ".join([repr(writer.name) for writer in writers[:2]])
                yield Problem(computation.name, instruction.name, f"its buffer is written or ended by {names}")


def _writers_of(
    instruction: HloInstruction, index: tuple[int, ...], bodies: Set[HloComputation]
) -> list[HloInstruction]:
    """The instructions that write or end the buffer at an index of a result. The buffer is followed through tuples.

    The next iteration of a loop writes the buffers that the body returns, so the root of a body counts as a writer if
    it passes the buffer on. If a tuple holds a buffer twice, only the first is followed, as in XLA.
    """
    writers: dict[HloInstruction, None] = {}
    values = [(instruction, index)]
    while values:
        value, index = values.pop()
        if value is not instruction and value.is_root and value.computation in bodies:
            writers[value] = None
        for user in value.users:
            opcode = user.opcode
            if opcode is Opcode.TUPLE:
                values.append((user, (user.operands.index(value), *index)))
            elif opcode is Opcode.GET_TUPLE_ELEMENT:
                if index[:1] == (user.kind.tuple_index,):
                    values.append((user, index[1:]))
            elif opcode in _WRITERS:
                writers[user] = None
    return list(writers)
