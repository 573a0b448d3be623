"""The maps of asynchronous starts, updates and ends whose operation is a called computation.

The result of a start or update is the state of the operation: a tuple of the operands so far, of what the called
computation returns, and of contexts, which hold no elements. A leaf is an array within a tuple, counted depth first.

    start  = ((f32[4]), f32[4], u32[]) add-start(a)                   result: reads a through the computation
    update = ((f32[4], f32[4]), f32[4], u32[]) add-update(start, b)   result: as `start`, and b through the computation

A step is a start, an update or an end. It *brings* those parameters of the computation that are operands of the step
itself. A start and its updates together read what the computation reads. A state may lack the result, or elements of
it, until a later step adds them. That step reads the operands in the state through the computation:

    start  = ((), (), u32[]) add-start()
    update = ((f32[4], f32[4]), (), u32[]) add-update(start, a, b)    hands a and b on
    done   = f32[4] add-done(update)                                  reads a and b of the state through the computation
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from enum import Enum
from typing import NamedTuple, TypeAlias

from xlashape.errors import InvalidModuleError
from xlashape.hlo import HloComputation, HloInstruction
from xlashape.hlo.async_start import async_start
from xlashape.hlo.ops.operation import AsyncStep
from xlashape.hlo.ops.registry import operation_of
from xlashape.indexing.answers.leaves import dims_of, first_leaves, leaf_count, leaf_sizes, leaves
from xlashape.indexing.answers.operand_indexing import NOT_ACCESSED, OperandIndexing, OperandIndexingSet, set_of
from xlashape.indexing.ops.rows import identity
from xlashape.indexing.walk.coroutines import FROM_RESULT, ComputationRequest, MapsCoroutine, seen_from_caller
from xlashape.indexing.walk.instruction_answers import unknown_from_operand, unknown_from_output
from xlashape.shape import Shape


def async_from_output(instruction: HloInstruction, output: int) -> MapsCoroutine:
    """The accesses of one leaf of a step's result to each operand of the step."""
    operands = instruction.operands
    step = _Step.of(instruction)
    if step is None:
        return unknown_from_output(instruction)
    answer = [NOT_ACCESSED] * len(operands)
    part = step.after[output]
    sizes = leaf_sizes(instruction.shape)[output]
    before = step.index_before(part)
    if before is not None and leaf_sizes(operands[0].shape)[before] == sizes:
        answer[0] = _passed(sizes, before)
    if part.kind is _Kind.OPERAND:
        bringing = step.bringing(part.number)
        if bringing is not None:
            answer[bringing[0]] = _passed(sizes, bringing[1])
    if part.kind is not _Kind.RESULT:
        return tuple(answer)
    maps = yield ComputationRequest(step.computation, FROM_RESULT, part.number, gives_up=True)
    maps = seen_from_caller(maps, step.arguments(operands))
    through_state: list[OperandIndexing] = []
    for parameter, accesses in enumerate(maps):
        operand = step.operand_of(parameter)
        if operand is not None:
            answer[operand] = accesses
        elif before is None:
            for access in accesses:
                leaf = step.index_before(_Part(_Kind.OPERAND, step.first_leaves[parameter] + access.leaf))
                if leaf is not None:
                    through_state.append(access.with_leaf(leaf))
    if through_state:
        answer[0] = OperandIndexingSet(through_state)
    return tuple(answer)


def async_from_operand(instruction: HloInstruction, operand: int, leaf: int) -> MapsCoroutine:
    """The accesses of each leaf of a step's result to one leaf of an operand."""
    operands = instruction.operands
    step = _Step.of(instruction)
    if step is None:
        return unknown_from_operand(instruction)
    is_state = step.takes_state and operand == 0
    sizes = leaf_sizes(operands[operand].shape)[leaf]
    part = step.before[leaf] if is_state else _Part(_Kind.OPERAND, step.number_of(operand, leaf))
    answer = [
        _passed(sizes, 0) if each == part and dims_of(shape) == sizes else NOT_ACCESSED
        for each, shape in zip(step.after, leaves(instruction.shape), strict=True)
    ]
    if part.kind is not _Kind.OPERAND:
        return tuple(answer)
    # An operand in the state takes part only in results that this step adds: an earlier step computed the others.
    results = [
        (output, each.number)
        for output, each in enumerate(step.after)
        if each.kind is _Kind.RESULT and not (is_state and step.index_before(each) is not None)
    ]
    parameter = bisect_right(step.first_leaves, part.number) - 1
    if results and parameter < len(step.computation.parameters):
        request = ComputationRequest(
            step.computation, parameter, part.number - step.first_leaves[parameter], gives_up=True
        )
        maps: Sequence[OperandIndexingSet] = yield request
        maps = seen_from_caller(tuple(maps), step.arguments(operands))
        for output, number in results:
            answer[output] = maps[number]
    return tuple(answer)


def _passed(sizes: tuple[int, ...], leaf: int) -> OperandIndexingSet:
    return set_of(identity(sizes)[0].map, leaf)


class _Kind(Enum):
    """The part of a state that a leaf belongs to."""

    OPERAND = "an operand of the computation"
    RESULT = "what the computation returns"
    CONTEXT = "a context"


class _Part(NamedTuple):
    """What a leaf of a state holds. Two states of one operation may have the same part at different leaves."""

    kind: _Kind
    number: int
    """The number of the leaf among all leaves of the parameters, of the result, or of the contexts."""


_Parts: TypeAlias = "list[_Part]"


def _parts_of(part: Shape, whole: Shape, kind: _Kind, first: int = 0) -> Iterator[_Part]:
    """What the leaves of `part` hold. `part` is as much of `whole` as a state has so far: its tuples may lack their
    last elements. ValueError where it does not fit `whole`.
    """
    if not part.is_tuple:
        if whole.is_tuple or dims_of(part) != dims_of(whole):
            raise ValueError
        yield _Part(kind, first)
    elif part.tuple_shapes:
        if len(part.tuple_shapes) > len(whole.tuple_shapes):
            raise ValueError
        for each, its_whole in zip(part.tuple_shapes, whole.tuple_shapes, strict=False):
            yield from _parts_of(each, its_whole, kind, first)
            first += leaf_count(its_whole)


def _state_parts(state: Shape, parameters: Shape, result: Shape) -> _Parts:
    """What each leaf of a state holds. ValueError where the state does not fit the computation."""
    elements = state.tuple_shapes
    if len(elements) < 2 or not elements[0].is_tuple:
        raise ValueError
    contexts = sum([leaf_count(each) for each in elements[2:]])
    return [
        *_parts_of(elements[0], parameters, _Kind.OPERAND),
        *_parts_of(elements[1], result, _Kind.RESULT),
        *(_Part(_Kind.CONTEXT, number) for number in range(contexts)),
    ]


class _Step:
    """A start, update or end of an asynchronous operation: the computation that it runs, and what each leaf of the
    state before it and of its result holds. Parameters that the step does not bring are in the state."""

    def __init__(self, instruction: HloInstruction, computation: HloComputation) -> None:
        """Raises ValueError where shapes do not fit."""
        step, operands = operation_of(instruction.opcode).async_step, instruction.operands
        shapes = tuple([parameter.shape for parameter in computation.parameters])
        parameters, result = Shape.tuple(shapes), computation.root.shape
        self.computation = computation
        self.takes_state = step is not AsyncStep.START
        self.first_leaves = first_leaves(shapes)
        """The number of the first leaf of each parameter among the leaves of all."""
        self.before = _state_parts(operands[0].shape, parameters, result) if self.takes_state else []
        """What each leaf of the state before the step holds; empty for a start."""
        self.after = (
            list(_parts_of(instruction.shape, result, _Kind.RESULT))
            if step is AsyncStep.DONE
            else _state_parts(instruction.shape, parameters, result)
        )
        """What each leaf of the step's result holds."""
        self._leaves_before = {part: leaf for leaf, part in enumerate(self.before)}
        self._first = len(operands[0].shape.tuple_shapes[0].tuple_shapes) if self.takes_state else 0
        self._brought = len(operands) - self.takes_state
        for operand, shape in zip(operands[self.takes_state :], shapes[self._first :], strict=False):
            if leaf_sizes(operand.shape) != leaf_sizes(shape):
                raise ValueError

    @classmethod
    def of(cls, instruction: HloInstruction) -> _Step | None:
        """The step that an instruction is; None where the computation that it runs is not known. Raises
        InvalidModuleError where shapes do not fit.
        """
        computation = _computation(instruction)
        if computation is None:
            return None
        try:
            return cls(instruction, computation)
        except ValueError:
            raise _does_not_fit(instruction) from None

    def index_before(self, part: _Part) -> int | None:
        """The leaf of the state before the step that holds this part; None if no leaf does."""
        return self._leaves_before.get(part)

    def operand_of(self, parameter: int) -> int | None:
        """The number of the step's operand that the parameter with this number takes; None if the step does not bring
        the parameter.
        """
        brought = parameter - self._first
        return brought + self.takes_state if 0 <= brought < self._brought else None

    def bringing(self, number: int) -> tuple[int, int] | None:
        """The operand that brings leaf `number` of all parameters' leaves, and the leaf's number in that operand; None
        if the step does not bring it."""
        parameter = bisect_right(self.first_leaves, number) - 1
        operand = self.operand_of(parameter)
        return None if operand is None else (operand, number - self.first_leaves[parameter])

    def number_of(self, operand: int, leaf: int) -> int:
        """The number that a leaf of an operand (not of the state) has among the leaves of all parameters."""
        parameter = self._first + operand - self.takes_state
        return self.first_leaves[min(parameter, len(self.first_leaves) - 1)] + leaf

    def arguments(self, operands: Sequence[HloInstruction]) -> dict[HloInstruction, HloInstruction]:
        """Parameter of the computation → the operand that it takes, for the parameters that the step brings."""
        return dict(zip(self.computation.parameters[self._first :], operands[self.takes_state :], strict=False))


def _does_not_fit(instruction: HloInstruction) -> InvalidModuleError:
    return InvalidModuleError(
        f"instruction {instruction.name!r} ({instruction.opcode}) does not return its operands and what its "
        "computation returns"
    )


def _computation(instruction: HloInstruction) -> HloComputation | None:
    """The computation that an asynchronous instruction runs; None if the operation's start is not found."""
    if not instruction.called_computations:
        start = async_start(instruction)
        if start is None:
            return None
        instruction = start
    called = instruction.called_computations
    if len(called) != 1:
        raise InvalidModuleError(
            f"instruction {instruction.name!r} ({instruction.opcode}) calls {len(called)} computations, not 1"
        )
    return called[0]
