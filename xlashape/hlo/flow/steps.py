"""One step of a value: which operand a result is, by the rows of the opcodes, and which results share the memory of
operands. Matches XLA's HloDataflowAnalysis.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, TypeAlias

from xlashape.hlo.ir import HloInstruction
from xlashape.hlo.ops.opcode import Opcode
from xlashape.hlo.ops.operation import AsyncStep, InPlace, Operation, ResultSource
from xlashape.hlo.ops.registry import operation_of
from xlashape.limits import spend
from xlashape.shape.value.shape import part_of

Index: TypeAlias = tuple[int, ...]
"""Where a part is in a nested tuple; empty for the whole."""


class Value(NamedTuple):
    """An array, or another part of a result: the instruction, and where the part is in its result."""

    instruction: HloInstruction
    at: Index


# -- instructions that hand arrays on -------------------------------------------------------------------------------


def handed_on_from(instruction: HloInstruction, index: Index = ()) -> Value | None:
    """The part of an operand that the part at `index` of a result is, in the same memory. None where the instruction
    makes it, and where it comes from another computation.

    >>> from xlashape.hlo import HloModule
    >>> text = "HloModule m ENTRY e { p = f32[8] parameter(0) c = (f32[8], f32[8], u32[]) copy-start(p) "
    >>> root = HloModule.parse(text + "ROOT d = f32[8] copy-done(c) }").entry.root
    >>> handed_on_from(root)
    Value(instruction=<HloInstruction 'c': copy-start>, at=(0,))
    >>> print(handed_on_from(root.operands[0], (0,)), handed_on_from(root.operands[0], (1,)))
    None Value(instruction=<HloInstruction 'p': parameter>, at=())
    """
    row = operation_of(instruction.opcode)
    source, operands = row.source, instruction.operands
    if source is ResultSource.COMPUTED:
        is_repeated = row.repeated_operand is not None and index[:1] == (row.repeated_operand,)
        return _repeated(instruction, row, index[1:]) if is_repeated else None
    if not operands:
        return None
    if source is ResultSource.ELEMENT:
        return Value(operands[0], (instruction.details.tuple_index, *index))
    if source is ResultSource.OPERANDS:
        return Value(operands[index[0]], index[1:]) if index and 0 <= index[0] < len(operands) else None
    if source is not ResultSource.OPERAND:
        return None
    if row.async_step is AsyncStep.UPDATE:
        return _updated(operands, index)
    count = len(row.same.result)
    if index[:count] != row.same.result:
        return None
    return Value(operands[0], (*row.same.operand, *index[count:]))


def _repeated(start: HloInstruction, row: Operation, index: Index) -> Value | None:
    """The operand at `index` of that element of a start's result which has the operands again: the only operand, or a
    tuple of all."""
    operands, parts = start.operands, start.shape.tuple_shapes
    number = row.repeated_operand or 0
    if not operands or number >= len(parts):
        return None
    if not parts[number].is_tuple or (row.async_step is None and operands[0].shape.is_tuple):
        return Value(operands[0], index)
    return Value(operands[index[0]], index[1:]) if index and index[0] < len(operands) else None


def _updated(operands: Sequence[HloInstruction], index: Index) -> Value | None:
    """Where the state of an async-update has a part from: from the state before, or from a further operand."""
    state = operands[0]
    if not index:
        return None if len(operands) > 1 else Value(state, ())
    brought = state.shape.tuple_shapes[0].tuple_shapes if state.shape.tuple_shapes else ()
    if index[0] == 0 and len(index) > 1 and index[1] >= len(brought):
        number = 1 + index[1] - len(brought)
        return Value(operands[number], index[2:]) if number < len(operands) else None
    return Value(state, index) if part_of(state.shape, index) else None


def handed_on_to(user: HloInstruction, operand: int, index: Index) -> Index | None:
    """Where the result of `user` has the part at `index` of its operand number `operand`, in the same memory; None
    where it has not. Of a part that holds the part that is handed on, the part that is."""
    row = operation_of(user.opcode)
    if row.source is ResultSource.OPERANDS:
        return operand, *index
    if operand:
        return None
    if row.source is ResultSource.ELEMENT:
        return index[1:] if not index or index[0] == user.details.tuple_index else None
    if row.source is not ResultSource.OPERAND:
        return None
    before = row.same.operand
    if not index:
        return row.same.result
    return (*row.same.result, *index[len(before) :]) if index[: len(before)] == before else None


def behind_bitcasts(instruction: HloInstruction) -> HloInstruction:
    """The instruction that makes the array that an instruction is, if that is a bitcast, or a bitcast of a bitcast."""
    while instruction.opcode == Opcode.BITCAST and instruction.operands:
        spend()
        instruction = instruction.operands[0]
    return instruction


# -- memory ---------------------------------------------------------------------------------


class Overwrite(NamedTuple):
    """A part of a result that is in the memory of a part of an operand."""

    result: Index
    operand: int
    """The number of the operand."""
    at: Index
    """Where the overwritten part is in the operand."""


def in_place(instruction: HloInstruction) -> list[Overwrite]:
    """The parts of a result that are in the memory of operands: those that the instruction declares, and those of
    operations that replace a part of an operand, or end a fusion with such an operation.

    >>> from xlashape.hlo import HloModule
    >>> text = '''HloModule m
    ... f { p = f32[8] parameter(0) u = f32[1] parameter(1) i = s32[] parameter(2)
    ...   ROOT d = f32[8] dynamic-update-slice(p, u, i) }
    ... ENTRY e { a = f32[8] parameter(0) b = f32[1] parameter(1) c = s32[] parameter(2)
    ...   ROOT x = f32[8] fusion(a, b, c), kind=kLoop, calls=f }'''
    >>> in_place(HloModule.parse(text).entry.root)
    [Overwrite(result=(), operand=0, at=())]
    """
    row = operation_of(instruction.opcode)
    found = [
        Overwrite(tuple(alias.output_shape_index), alias.operand_index, tuple(alias.operand_shape_index))
        for alias in instruction.output_operand_aliasing
        if 0 <= alias.operand_index < len(instruction.operands)
    ]
    if row.in_place is InPlace.FUSED:
        declared = {each.result for each in found}
        return found + [each for each in _fused_in_place(instruction) if each.result not in declared]
    if row.in_place is InPlace.NO or not instruction.operands:
        return found
    parts = range(len(instruction.shape.tuple_shapes)) if row.in_place is InPlace.EACH_ARRAY else ()
    if not parts:
        return [*found, Overwrite((), 0, ())]
    return [*found, *[Overwrite((number,), number, ()) for number in parts if number < len(instruction.operands)]]


def _fused_in_place(fusion: HloInstruction) -> Iterator[Overwrite]:
    """The results of a fusion that replace a part of a parameter of the fused computation."""
    for called in fusion.called_computations[:1]:
        root = called.root
        makes_tuple = operation_of(root.opcode).source is ResultSource.OPERANDS
        for index in [(number,) for number in range(len(root.operands))] if makes_tuple else [()]:
            made = _within(Value(root, index))
            for each in in_place(made.instruction) if replaces_a_part(made.instruction) else ():
                if each.result == made.at:
                    written = _within(Value(made.instruction.operands[each.operand], each.at))
                    if operation_of(written.instruction.opcode).source is ResultSource.ARGUMENT:
                        number = written.instruction.parameter_number
                        if number < len(fusion.operands):
                            yield Overwrite(index, number, written.at)


def replaces_a_part(instruction: HloInstruction) -> bool:
    """Whether an instruction replaces a part of an operand and leaves the rest where it is in memory."""
    return operation_of(instruction.opcode).in_place in (InPlace.FIRST_OPERAND, InPlace.EACH_ARRAY) and bool(
        instruction.operands
    )


def _within(value: Value) -> Value:
    """The value that a value is, followed within its computation."""
    while (before := handed_on_from(*value)) is not None:
        spend()
        value = before
    return value


def declared_alias(instruction: HloInstruction, index: Index) -> Value | None:
    """The part of an operand whose memory the part at `index` of a result is in, as the instruction declares it; None
    where it does not."""
    for alias in instruction.output_operand_aliasing:
        result = tuple(alias.output_shape_index)
        if index[: len(result)] == result and 0 <= alias.operand_index < len(instruction.operands):
            operand = instruction.operands[alias.operand_index]
            return Value(operand, (*alias.operand_shape_index, *index[len(result) :]))
    return None
