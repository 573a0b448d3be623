"""The maps of async-start, and of an async-update that brings operands which the start does not have.

The result of both is the tuple (operands so far, what the called computation returns, contexts that hold no element):

    start  = ((f32[4]), f32[4], u32[]) add-start(a)                      result: reads a through the computation
    update = ((f32[4], f32[4]), f32[4], u32[]) add-update(start, b)      result: that of `start`, and b through the computation

What a start reads and what its updates read is together what the computation reads.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from xlashape.errors import InvalidModuleError
from xlashape.hlo import HloComputation, HloInstruction, Opcode
from xlashape.hlo.ops.async_chain import find_origin
from xlashape.indexing.answers.leaves import leaf_count, leaf_sizes
from xlashape.indexing.answers.operand_indexing_set import NOT_ACCESSED, OperandIndexingSet, set_of
from xlashape.indexing.ops import CALLS
from xlashape.indexing.ops.build import identity
from xlashape.indexing.walk.coroutines import FROM_RESULT, ComputationRequest, MapsCoroutine, seen_from_caller
from xlashape.indexing.walk.instruction_answers import unknown_from_operand, unknown_from_output
from xlashape.shape import Shape


def calls_computation(instruction: HloInstruction) -> bool:
    """Whether the maps of an instruction come from a computation."""
    opcode = instruction.proto.opcode
    return opcode in CALLS or (opcode == Opcode.ASYNC_UPDATE and len(instruction.operands) > 1)


def async_from_output(instruction: HloInstruction, output: int) -> MapsCoroutine:
    """One set for each operand of an async-start, or of an async-update with further operands."""
    operands = instruction.operands
    parts = _Parts.of(instruction)
    if parts is None:
        return unknown_from_output(instruction)
    answer = [NOT_ACCESSED] * len(operands)
    if parts.is_update and (leaf := parts.leaf_before(output)) is not None:
        answer[0] = _passed(parts.before[leaf], leaf)
    for number, start in parts.positions():
        leaf = output - start
        sizes = leaf_sizes(operands[number].shape)
        if 0 <= leaf < len(sizes):
            answer[number] = _passed(sizes[leaf], leaf)
    result = output - parts.first_result
    if 0 <= result < parts.results:
        maps = yield ComputationRequest(parts.computation, FROM_RESULT, result, gives_up=True)
        for number, access in zip(range(parts.is_update, len(operands)), maps[parts.first_parameter :], strict=False):
            answer[number] = access
        return seen_from_caller(tuple(answer), parts.arguments(operands))
    return tuple(answer)


def async_from_operand(instruction: HloInstruction, operand: int, leaf: int) -> MapsCoroutine:
    """One set for each leaf of the result of an async-start, or of an async-update with further operands."""
    operands = instruction.operands
    parts = _Parts.of(instruction)
    if parts is None:
        return unknown_from_operand(instruction)
    answer = [NOT_ACCESSED] * leaf_count(instruction.shape)
    if parts.is_update and operand == 0:
        for output in range(len(answer)):
            if parts.leaf_before(output) == leaf:
                answer[output] = _passed(parts.before[leaf], 0)
        return tuple(answer)
    start = dict(parts.positions())[operand]
    answer[start + leaf] = _passed(leaf_sizes(operands[operand].shape)[leaf], 0)
    parameter = parts.first_parameter + operand - parts.is_update
    if parameter < len(parts.computation.parameters):
        maps: Sequence[OperandIndexingSet] = yield ComputationRequest(parts.computation, parameter, leaf, gives_up=True)
        answer[parts.first_result : parts.first_result + parts.results] = seen_from_caller(
            tuple(maps), parts.arguments(operands)
        )
    return tuple(answer)


def _passed(sizes: tuple[int, ...], leaf: int) -> OperandIndexingSet:
    return set_of(identity(sizes)[0].map, leaf)


class _Parts(NamedTuple):
    """The leaves of the result of an async-start or async-update, and the computation that runs."""

    instruction: HloInstruction
    computation: HloComputation
    is_update: bool
    before: list[tuple[int, ...]]
    """Of an update: the sizes of the leaves of the state that it takes."""
    held_before: int
    """Of an update: how many of those are operands."""
    first_parameter: int
    """The parameter of the computation that the first operand takes, the state not counted."""
    first_result: int
    """The number of the first leaf of what the computation returns."""
    results: int
    """How many leaves the computation returns."""

    @classmethod
    def of(cls, instruction: HloInstruction) -> _Parts | None:
        """None where the computation is not known. Raises InvalidModuleError where shapes do not fit."""
        computation = _computation(instruction)
        if computation is None:
            return None
        is_update = instruction.proto.opcode == Opcode.ASYNC_UPDATE
        operands = instruction.operands
        elements = instruction.shape.tuple_shapes
        # What a start takes is a state without operands.
        state = operands[0].shape if is_update else Shape.tuple([Shape.tuple([]), *elements[1:2]])
        if len(elements) < 2 or len(state.tuple_shapes) < 2:
            raise _does_not_fit(instruction)
        operands_before, result_before = state.tuple_shapes[:2]
        held, before = leaf_sizes(elements[0]), leaf_sizes(operands_before)
        given = [sizes for operand in operands[is_update:] for sizes in leaf_sizes(operand.shape)]
        first_parameter = len(operands_before.tuple_shapes)
        results = leaf_sizes(computation.root.shape)
        parameters = computation.parameters[first_parameter : first_parameter + len(operands) - is_update]
        taken = [sizes for parameter in parameters for sizes in leaf_sizes(parameter.shape)]
        if (
            held[: len(before) + len(given)] != before + given
            or taken != given[: len(taken)]
            or leaf_sizes(elements[1]) != results
            or leaf_sizes(result_before) != results
        ):
            raise _does_not_fit(instruction)
        whole = leaf_sizes(state)
        return cls(instruction, computation, is_update, whole, len(before), first_parameter, len(held), len(results))

    def positions(self) -> list[tuple[int, int]]:
        """For each operand but the state, its number and the leaf of the result at which it is handed on."""
        found: list[tuple[int, int]] = []
        start = self.held_before
        for number in range(self.is_update, len(self.instruction.operands)):
            found.append((number, start))
            start += leaf_count(self.instruction.operands[number].shape)
        return found

    def leaf_before(self, output: int) -> int | None:
        """The leaf of the state that an update hands on as a leaf of its own result; None if there is none."""
        if output < self.held_before:
            return output
        leaf = output - self.first_result + self.held_before
        if leaf < self.held_before or leaf >= len(self.before):
            return None
        return leaf if leaf_sizes(self.instruction.shape)[output] == self.before[leaf] else None

    def arguments(self, operands: Sequence[HloInstruction]) -> dict[HloInstruction, HloInstruction]:
        """Which operand each parameter of the computation takes, as far as the instruction has them."""
        parameters = self.computation.parameters[self.first_parameter :]
        return dict(zip(parameters, operands[self.is_update :], strict=False))


def _does_not_fit(instruction: HloInstruction) -> InvalidModuleError:
    return InvalidModuleError(
        f"instruction {instruction.name!r} ({instruction.proto.opcode}) does not return its operands and what its computation returns"
    )


def _computation(instruction: HloInstruction) -> HloComputation | None:
    """The computation that an asynchronous instruction runs; None if it is not known where it was started."""
    if not instruction.called_computations:
        origin = find_origin(_Views(), instruction, {})
        if origin is None:
            return None
        instruction = origin
    called = instruction.called_computations
    if len(called) != 1:
        raise InvalidModuleError(
            f"instruction {instruction.name!r} ({instruction.proto.opcode}) calls {len(called)} computations, not 1"
        )
    return called[0]


class _Views:
    """The instructions of a module, as find_origin asks for them."""

    def opcode(self, node: HloInstruction, /) -> str:
        return node.proto.opcode

    def operands(self, node: HloInstruction, /) -> Sequence[HloInstruction]:
        return node.operands

    def tuple_index(self, node: HloInstruction, /) -> int:
        return node.proto.tuple_index

    def body_root(self, node: HloInstruction, /) -> HloInstruction | None:
        if node.proto.opcode == Opcode.PARAMETER:
            return node.computation.root
        called = node.called_computations
        return called[0].root if called else None

    def loop(self, node: HloInstruction, /) -> HloInstruction | None:
        callers = [
            user
            for computation in node.computation.module.computations
            for user in computation.instructions
            for called in user.called_computations
            if called is node.computation
        ]
        if len(callers) != 1 or callers[0].proto.opcode != Opcode.WHILE:
            return None
        return callers[0] if callers[0].called_computations[0] is node.computation else None

    def is_origin(self, node: HloInstruction, /) -> bool:
        opcode = node.proto.opcode
        return opcode == Opcode.ASYNC_START or (
            opcode == Opcode.ASYNC_UPDATE and bool(node.proto.called_computation_ids)
        )
