"""The order in which a whole program runs its instructions, called computations included.

A scheduled module says the order of each computation; the instructions of a called computation come before the instruction that calls it, the condition of
a loop before its body, as in XLA's HloLiveRange. Of a module without a schedule the order is our own: of the instructions whose operands are there, the
one runs next that frees most memory for what it takes, as in XLA's ListScheduler.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from heapq import heapify, heappop, heappush
from typing import NamedTuple

from xlashape.hlo.module import HloComputation, HloInstruction, HloModule
from xlashape.hlo.module_proto.structure import LOCAL_ID
from xlashape.hlo.ops.opcode import Opcode, UnknownOpcode
from xlashape.hlo.ops.registry import operation_of
from xlashape.limits import spend
from xlashape.shape import Shape
from xlashape.shape.tiling import physical_bytes
from xlashape.shape.xla_util.shape_util import byte_size_of


class FlatSchedule(NamedTuple):
    """All instructions that run by themselves, in order."""

    instructions: tuple[HloInstruction, ...]
    times: Mapping[HloInstruction, int]
    """When each runs: its position."""
    spans: Mapping[HloComputation, tuple[int, int]]
    """The first and the last time of each computation that runs."""
    is_given: bool
    """Whether the module says the order; else it is our own."""


def flat_schedule(module: HloModule) -> FlatSchedule:
    """The order of a module's instructions. Fused computations, and those that are applied to elements, are left out."""
    sequences = {key & LOCAL_ID: value.instruction_ids for key, value in module.proto.schedule.sequences.items()}
    is_given = (module.entry.proto.id & LOCAL_ID) in sequences
    order: list[HloInstruction] = []
    spans: dict[HloComputation, tuple[int, int]] = {}

    def sequence(computation: HloComputation) -> Iterator[HloInstruction]:
        ids = sequences.get(computation.proto.id & LOCAL_ID)
        spans[computation] = (len(order), len(order))
        return iter(_list_schedule(computation) if ids is None else computation.resolve(ids))

    # Each entry: a computation, what is left of it, the instruction that waits for what it calls, and what is left of
    # that.
    stack: list[tuple[HloComputation, Iterator[HloInstruction], HloInstruction | None, Iterator[HloComputation]]] = []
    stack.append((module.entry, sequence(module.entry), None, iter(())))
    while stack:
        computation, left, caller, calls = stack.pop()
        called = next((each for each in calls if each not in spans), None)
        if called is not None:
            stack.append((computation, left, caller, calls))
            stack.append((called, sequence(called), None, iter(())))
            continue
        if caller is not None:
            order.append(caller)
        for instruction in left:
            spend()
            if operation_of(instruction.opcode).runs_called_instructions:
                stack.append((computation, left, instruction, iter(_runs(instruction))))
                break
            order.append(instruction)
        else:
            spans[computation] = (spans[computation][0], max(spans[computation][0], len(order) - 1))
    times = {instruction: time for time, instruction in enumerate(order)}
    return FlatSchedule(tuple(order), times, spans, is_given)


def _runs(instruction: HloInstruction) -> Sequence[HloComputation]:
    """The computations that an instruction runs one instruction after the other, the condition of a loop first."""
    called = instruction.called_computations
    return called[::-1] if instruction.opcode == Opcode.WHILE else called


def _list_schedule(computation: HloComputation) -> list[HloInstruction]:
    """An order of a computation's instructions that keeps little memory alive."""
    instructions = computation.instructions
    size_of: dict[Shape, int] = {}
    sizes: list[int] = []
    waits = [0] * len(instructions)
    needs: list[tuple[int, ...]] = []
    left = [0] * len(instructions)
    followers: list[list[int]] = [[] for _ in instructions]
    for index, each in enumerate(instructions):
        shape = each.shape
        size = size_of.get(shape)
        if size is None:
            size = size_of[shape] = leaf_bytes(shape)
        sizes.append(0 if _is_free(each.opcode) else size)
        operands = tuple([operand.index for operand in each.operands])
        if len(operands) > 1:
            operands = tuple(set(operands))
        needs.append(operands)
        for operand in operands:
            left[operand] += 1
        ids = each.proto.control_predecessor_ids
        before = {*operands, *[other.index for other in each.control_predecessors]} if ids else operands
        for other in before:
            followers[other].append(index)
        waits[index] = len(before)

    def gain(index: int) -> int:
        freed = 0
        for operand in needs[index]:
            if left[operand] == 1:
                freed += sizes[operand]
        return freed - sizes[index]

    ready = [(-gain(index), index) for index, count in enumerate(waits) if not count]
    heapify(ready)
    order: list[HloInstruction] = []
    has_run = bytearray(len(instructions))
    while ready:
        _, index = heappop(ready)
        if has_run[index]:
            continue
        has_run[index] = 1
        order.append(instructions[index])
        spend()
        for operand in needs[index]:
            left[operand] -= 1
            if left[operand] == 1:
                # The last user of a value frees it, and comes earlier from now on.
                for user in followers[operand]:
                    if not waits[user] and not has_run[user]:
                        heappush(ready, (-gain(user), user))
        for follower in followers[index]:
            waits[follower] -= 1
            if not waits[follower]:
                heappush(ready, (-gain(follower), follower))
    return order


def _is_free(opcode: Opcode | UnknownOpcode) -> bool:
    return opcode in (Opcode.PARAMETER, Opcode.CONSTANT) or operation_of(opcode).moves_no_data


def leaf_bytes(shape: Shape) -> int:
    """The bytes of all arrays of a shape, tiles included. Tokens, opaques and arrays of unknown size count as nothing.

    >>> leaf_bytes(Shape.parse("(f32[3,5]{1,0:T(8,128)}, s32[], token[])"))
    4100
    """
    return sum([array_bytes(leaf) for leaf in (shape.leaves() if shape.is_tuple else (shape,))])


def array_bytes(shape: Shape) -> int:
    """The bytes of an array's buffer."""
    if not (shape.is_array or shape.is_buffer) or shape.is_unbounded_dynamic:
        return 0
    layout = shape.buffer_shape.layout if shape.is_buffer else shape.layout
    return physical_bytes(shape) if layout is not None and layout.tiles else byte_size_of(shape)
