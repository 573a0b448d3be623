"""Movers: the executed instructions of a module that move data and compute nothing, and how many bytes each reads and
writes.

The row of an opcode says whether it moves data (`Operation.movement`): copy, transpose, reshape, slice, dynamic-slice,
pad, concatenate, reverse, and the starts of asynchronous copies do. A transpose or a reshape whose result lies in
memory as its operand does is a bitcast, and moves nothing. A fusion is a mover if all its instructions move data, but
for bitcasts, tuples, constants and the arithmetic of scalars that index a slice. A fusion that computes is one too if
it holds a copy: what it reads and writes for the copy alone counts, which is nothing where it computes with what is
copied. Instructions that write a part of a buffer in place (dynamic-update-slice, scatter) and those that look elements
up (gather) are no movers: the program itself asks for them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from xlashape.errors import XlashapeError
from xlashape.hlo import HloComputation, HloInstruction, HloModule, Opcode
from xlashape.hlo.flow import behind_bitcasts, executed_computations
from xlashape.hlo.kind import Kind
from xlashape.hlo.ops.operation import AsyncStep, Movement, ResultSource
from xlashape.limits import INT64_MAX, spend
from xlashape.shape import Layout, Shape
from xlashape.shape.tiling.padding import physical_bytes
from xlashape.shape.xla_util import shape_util


class Mover(NamedTuple):
    """An executed instruction that moves data and computes nothing."""

    row: HloInstruction
    """The instruction that is executed."""
    inner: HloInstruction
    """The instruction that says why data is moved: `row` itself or, if that is a fusion, an instruction in it."""
    all_inner: tuple[HloInstruction, ...]
    """All instructions of a fusion that move data; `row` alone where it is no fusion."""
    shown: HloInstruction
    """The instruction that a row of the report names: `row`, or the start of the asynchronous operation whose
    computation has no instruction but `row`.
    """
    computes: bool = False
    """Whether `row` is a fusion that also computes, so that only its copies move data."""

    @property
    def is_fusion(self) -> bool:
        """Whether the instruction that is executed is a fusion."""
        return self.row is not self.inner

    @property
    def source_shape(self) -> Shape | None:
        """The array that `inner` moves; None where its operand is no array."""
        operands = self.inner.operands
        return array_or_none(operands[0].shape) if operands else None

    @property
    def result_shape(self) -> Shape | None:
        """The array that `inner` makes; None where it makes none."""
        return moved_shape(self.inner)


def array_or_none(shape: Shape) -> Shape | None:
    """The array itself, or the one in a buffer; None for a tuple, a token or an opaque."""
    return shape if shape.is_array else shape.buffer_shape if shape.is_buffer else None


def moved_shape(instruction: HloInstruction) -> Shape | None:
    """The array that an instruction makes: of the start of an asynchronous operation, the array that its end will give.
    None where there is none.
    """
    return instruction.kind.fact(_moved_shape, _moved_shape)


def _moved_shape(kind: Kind) -> Shape | None:
    shape = kind.shape
    if shape.is_tuple:
        number = 0 if kind.row.movement is Movement.TRANSFER else 1
        shape = shape.tuple_shapes[number] if number < len(shape.tuple_shapes) else shape
    return array_or_none(shape)


def layout_of(shape: Shape) -> Layout:
    """The layout of an array; where it has none, the default one."""
    return shape.layout or Layout(range(shape.rank - 1, -1, -1))


def takes_more(array: Shape, order: tuple[int, ...]) -> bool:
    """Whether an array would take more bytes, padding included, in this order in memory, minor to major."""
    layout = layout_of(array).replace(minor_to_major=order)
    try:
        return physical_bytes(array.replace(layout=layout)) > physical_bytes(array)
    except XlashapeError:  # a dimension without a bound, or an element type without a known width
        return False


def moves(instruction: HloInstruction) -> bool:
    """Whether an instruction moves data: its opcode does, and it is no transpose or reshape that is a bitcast, and no
    copy of a tuple.
    """
    movement, operands = instruction.kind.row.movement, instruction.operands
    if movement is None or not operands:
        return False
    if movement is Movement.COPY:
        return not instruction.shape.is_tuple
    if movement not in (Movement.TRANSPOSE, Movement.RESHAPE):
        return True
    kind = instruction.kind
    return not kind.fact((_is_bitcast, operands[0].kind), lambda _: _is_bitcast(instruction))


def _is_bitcast(instruction: HloInstruction) -> bool:
    """Whether a transpose or a reshape leaves each element where it is in memory."""
    source, result = array_or_none(instruction.operands[0].shape), array_or_none(instruction.shape)
    if source is None or result is None or layout_of(source).tiles != layout_of(result).tiles:
        return False
    try:
        if layout_of(result).tiles and physical_bytes(source) != physical_bytes(result):
            return False
        if instruction.opcode == Opcode.TRANSPOSE:
            return shape_util.transpose_is_bitcast(source, result, instruction.details.dimensions)
        return shape_util.reshape_is_bitcast(source, result)
    except XlashapeError:
        return False


_FEW: Final = 8  # operands, which count as one with their instruction


def movers_of(module: HloModule) -> Iterator[Mover]:
    """The movers of a module, in the order of the module."""
    executed = executed_computations(module)
    starts: dict[HloComputation, HloInstruction] = {}
    for computation in executed:
        spend(2 * len(computation.instructions))
        for each in computation.instructions:
            if len(each.operands) > _FEW:
                spend(len(each.operands))
        for instruction in [each for each in computation.instructions if each.called_computations]:
            if instruction.kind.row.async_step is AsyncStep.START:
                for called in instruction.called_computations:
                    if sum([each.opcode != Opcode.PARAMETER for each in called.instructions]) == 1:
                        starts[called] = instruction
    fused: dict[HloComputation, tuple[tuple[HloInstruction, ...], bool]] = {}
    for computation in executed:
        for instruction in computation.instructions:
            row = instruction.kind.row
            if row.movement is None and not row.fuses_called_computation:
                continue
            shown = starts.get(computation, instruction)
            if row.fuses_called_computation:
                for called in instruction.called_computations[:1]:
                    if called not in fused:
                        fused[called] = _fused_movers(called)
                    found, computes = fused[called]
                    if found:
                        yield Mover(instruction, min(found, key=_rank), found, shown, computes)
            elif moves(instruction):
                yield Mover(instruction, instruction, (instruction,), shown)


def _rank(instruction: HloInstruction) -> int:
    """The rank of a mover in a fusion: the one of the lowest rank says why the fusion moves data."""
    movement = instruction.kind.row.movement
    if movement is None or (movement is Movement.COPY and relayouts(instruction)):
        return Movement.TRANSFER
    return movement


def relayouts(instruction: HloInstruction) -> bool:
    """Whether a copy gives its array another layout. The memory space does not count."""
    source, result = array_or_none(instruction.operands[0].shape), moved_shape(instruction)
    if source is None or result is None:
        return False
    before, after = layout_of(source), layout_of(result)
    return before != after and before.replace(memory_space=0) != after.replace(memory_space=0)


def _fused_movers(computation: HloComputation) -> tuple[tuple[HloInstruction, ...], bool]:
    """The instructions of a fused computation that move data, and whether it computes anything but scalar indices of
    slices: then its copies are what moves data.
    """
    moving = _only_moving(computation)
    if moving is not None:
        return moving, False
    copied = [each for each in computation.instructions if each.kind.row.movement is Movement.COPY and moves(each)]
    return tuple(copied), True


def _only_moving(computation: HloComputation) -> tuple[HloInstruction, ...] | None:
    """The instructions of a fused computation that move data; None if it computes anything but scalar indices of
    slices.
    """
    found: list[HloInstruction] = []
    steps: list[HloInstruction] = []
    moved: set[HloInstruction] = set()
    computed: set[HloInstruction] = set()
    for instruction in computation.instructions:
        spend(1)
        row, operands = instruction.kind.row, instruction.operands
        if row.movement not in (None, Movement.TRANSFER):
            data = operands if row.movement is Movement.JOIN else operands[:1]
            if not computed.isdisjoint(data):
                return None
            (found if moves(instruction) else steps).append(instruction)
            moved.add(instruction)
        elif row.moves_no_data or row.is_given:
            for group in (moved, computed):
                if not group.isdisjoint(operands):
                    group.add(instruction)
        elif instruction.shape.is_array and instruction.shape.rank == 0 and moved.isdisjoint(operands):
            computed.add(instruction)
        else:
            return None
    if computation.root in computed:
        return None
    if not found and steps:
        return tuple(steps[-1:])  # all are bitcasts by themselves, but the fusion writes a buffer of its own
    return tuple(found)


def _is_written_apart(copy: HloInstruction) -> bool:
    """Whether a fusion that computes writes the result of a copy in it for the copy alone: it is one of several,
    and what it copies is an operand of the fusion or another result."""
    root, data = copy.computation.root, behind_bitcasts(copy.operands[0])
    given = root.operands if root.kind.row.source is ResultSource.OPERANDS else ()
    return copy in given and (data.opcode == Opcode.PARAMETER or data in given)


# -- bytes ----------------------------------------------------------------------------------


def _result_bytes(kind: Kind) -> int | None:
    """The bytes of an instruction's result."""
    return bytes_of(kind.shape)


def _moved_bytes(kind: Kind) -> int | None:
    """The bytes of what `moved_shape` gives."""
    shape = _moved_shape(kind)
    return None if shape is None else bytes_of(shape)


def bytes_of(shape: Shape) -> int | None:
    """The bytes of all arrays of a shape with the padding of tiles; None where a size is not known."""
    spend()
    try:
        leaves = [array_or_none(leaf) for leaf in shape.leaves()] if shape.is_tuple else [array_or_none(shape)]
        return sum([physical_bytes(leaf) for leaf in leaves if leaf is not None])
    except XlashapeError:
        return None


def bytes_written(mover: Mover) -> int | None:
    """The bytes of the buffers that a mover writes, padding included; None where a size is not known."""
    if mover.computes:
        return _known_sum(
            [each.kind.fact(_result_bytes, _result_bytes) for each in mover.all_inner if _is_written_apart(each)]
        )
    size = _result_bytes if mover.is_fusion else _moved_bytes
    return mover.row.kind.fact(size, size)


def bytes_read(mover: Mover) -> int | None:
    """The bytes that a mover reads, padding included: whole operands, or the slices of an operand that is only sliced.
    None where a size is not known.
    """
    row = mover.row
    if mover.is_fusion:
        called = row.called_computations[0]
        apart = [each for each in mover.all_inner if mover.computes and _is_written_apart(each)]
        sizes = [
            _read_of(operand, parameter)
            for operand, parameter in zip(row.operands, called.parameters, strict=False)
            if not mover.computes or all(user in apart for user in parameter.users)
        ]
    elif _takes_a_part(row):
        sizes = [_slice_bytes(row.operands[0], [row])]
    else:
        sizes = [operand.kind.fact(_result_bytes, _result_bytes) for operand in row.operands]
    return _known_sum(sizes)


def _known_sum(sizes: Sequence[int | None]) -> int | None:
    """The sum; None where one is not known."""
    known = [size for size in sizes if size is not None]
    return min(sum(known), INT64_MAX) if len(known) == len(sizes) else None


def _takes_a_part(instruction: HloInstruction) -> bool:
    return instruction.kind.row.movement in (Movement.TAKE, Movement.TAKE_AT)


def _read_of(operand: HloInstruction, parameter: HloInstruction) -> int | None:
    """The bytes that a fusion reads of an operand. `parameter` stands for the operand in the fusion."""
    if not parameter.users:
        return 0
    slices: list[HloInstruction] = []
    pending, seen = list(parameter.users), {parameter}
    while pending:
        user = pending.pop()
        spend(1)
        if user in seen:
            continue
        seen.add(user)
        if user.opcode == Opcode.BITCAST:
            pending += user.users
        elif _takes_a_part(user) and user.operands[0] in seen:
            slices.append(user)
        else:
            return operand.kind.fact(_result_bytes, _result_bytes)
    return _slice_bytes(operand, slices)


def _slice_bytes(operand: HloInstruction, slices: Iterable[HloInstruction]) -> int | None:
    """The bytes that slices of an operand read, at most those of the operand; None where a size is not known."""
    whole = operand.kind.fact(_result_bytes, _result_bytes)
    sizes = [each.kind.fact(_moved_bytes, _moved_bytes) for each in slices]
    known = [size for size in sizes if size is not None]
    return None if whole is None or len(known) < len(sizes) else min(whole, sum(known))
