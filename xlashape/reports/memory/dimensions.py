"""Which dimensions of a module change together with one dimension of an argument, and the module in which they have
another size.

A dimension is followed from instruction to instruction: a rule for each opcode says which dimensions of operands and
result are the same one. A reshape may make it a factor of a dimension, as 8 is of the 512 that [8,64] becomes: of every
dimension it is kept how many elements lie between two steps of the factor, so that a later reshape finds it again.
Where a dimension goes into something that is not known, the reason is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, TypeAlias

from xlashape.hlo.editing.edits import set_kinds
from xlashape.hlo.flow import Index, handed_on_from, handed_on_to
from xlashape.hlo.kind import Kind
from xlashape.hlo.module import HloComputation, HloInstruction, HloModule
from xlashape.hlo.ops.calls import Arguments
from xlashape.hlo.ops.opcode import Opcode
from xlashape.hlo.ops.operation import AsyncStep, ResultSource
from xlashape.limits import spend
from xlashape.proto import xla
from xlashape.reports.memory.tied_dimensions import (
    REGROUPS,
    RESULT,
    Part,
    Ties,
    lie_side_by_side,
    regrouped,
    reshape_order,
    ties_of,
)
from xlashape.shape import Shape

_Place: TypeAlias = tuple[HloInstruction, Index]


class ArgumentAxis(NamedTuple):
    """A dimension of a parameter of the program."""

    parameter: int
    dimension: int


class Followed:
    """What changes together with one axis of a parameter."""

    def __init__(self, axis: ArgumentAxis, size: int) -> None:
        self.size = size
        self.axes: list[ArgumentAxis] = [axis]
        """The axes of parameters that get the new size together."""
        self.marks: dict[_Place, dict[int, int]] = {}
        """Array → its dimensions that change → the elements between two steps of the axis in that dimension."""
        self.is_own = False
        """Whether it is a dimension of a parameter's own."""
        self.is_stepped = False
        """Whether it is taken apart into single elements, as a loop over layers or over time does."""
        self.is_batch_of_dot = False
        """Whether products are computed for each of its elements alone, as for heads of attention."""
        self.unknown: dict[str, str] = {}
        """Reason → the name of the first instruction where the dimension could not be followed for this reason."""


# -- following --------------------------------------------------------------------------------


class Dimensions:
    """Follows axes of parameters through a module."""

    def __init__(self, module: HloModule) -> None:
        self._module = module
        self._ties: dict[HloInstruction, Ties] = {}

    def follow(self, axis: ArgumentAxis, is_own: Callable[[ArgumentAxis], bool]) -> Followed:
        """What changes together with an axis of a parameter that is an array. It is followed no further once it is a
        dimension of a parameter's own: one that indices look up, or tied with one of which `is_own` says so."""
        start = self._module.entry.parameters[axis.parameter]
        found = Followed(axis, start.shape.dimensions[axis.dimension])
        pending: list[tuple[_Place, int]] = []

        def mark(place: _Place, dimension: int, inner: int, by: HloInstruction) -> None:
            instruction, index = place
            marks = found.marks.setdefault(place, {})
            known = marks.get(dimension)
            if known is None:
                shape = _part(instruction.shape, index)
                if shape.dimensions[dimension] % (inner * found.size):
                    found.unknown.setdefault("only a part of it goes on", by.name)
                    return
                marks[dimension] = inner
                pending.append((place, dimension))
                if instruction.opcode is Opcode.PARAMETER and instruction.computation is self._module.entry:
                    each = ArgumentAxis(instruction.number, dimension)
                    if index or inner != 1 or shape.dimensions[dimension] != found.size:
                        found.unknown.setdefault("the size of an argument would be a multiple of it", by.name)
                    elif each not in found.axes:
                        found.axes.append(each)
                        found.is_own = found.is_own or is_own(each)
            elif known != inner:
                found.unknown.setdefault("it is joined with another dimension in two ways", by.name)

        mark((start, ()), axis.dimension, 1, start)
        while pending and not found.is_own:
            spend()
            place, dimension = pending.pop()
            instruction, index = place
            inner = found.marks[place][dimension]
            for other in self._same_arrays(instruction, index):
                mark(other, dimension, inner, instruction)
            self._tied(found, mark, instruction, (RESULT, index, dimension), inner)
            for user in instruction.users:
                for number, operand in enumerate(user.operands):
                    if operand is instruction:
                        self._tied(found, mark, user, (number, index, dimension), inner)
        if found.is_stepped:
            self._compare_outputs(found)
        return found

    def _compare_outputs(self, found: Followed) -> None:
        """Keeps as a reason that outputs have the size of an axis that a loop takes apart, but are not tied with it. A
        loop fills them element by element, as `jnp.zeros_like` of the argument begins them."""
        root = self._module.entry.root
        parts = enumerate(root.shape.tuple_shapes) if root.shape.is_tuple else [(None, root.shape)]
        for number, shape in parts:
            marks = found.marks.get((root, () if number is None else (number,)), {})
            if shape.is_array and any(
                size == found.size and dimension not in marks for dimension, size in enumerate(shape.dimensions[:1])
            ):
                made = root.operands[number] if number is not None and root.operands else root
                found.unknown.setdefault("whether outputs of that size change with it", made.name)

    def _tied(self, found: Followed, mark: Any, instruction: HloInstruction, part: Part, inner: int) -> None:
        """Marks what an instruction ties with a dimension of an operand or of its result."""
        if instruction.opcode in REGROUPS:
            who, _, dimension = part
            shapes = [instruction.operands[0].shape, instruction.shape]
            before, after = shapes if who == 0 else shapes[::-1]
            orders = reshape_order(instruction, before), reshape_order(instruction, after)
            moved = regrouped(before, orders[0], dimension, inner, found.size, after, orders[1])
            if moved is None:
                found.unknown.setdefault("a reshape splits it", instruction.name)
            else:
                mark((instruction if who == 0 else instruction.operands[0], ()), *moved, instruction)
            return
        if _hands_on(instruction):
            return
        ties = self._ties.get(instruction)
        if ties is None:
            ties = self._ties[instruction] = ties_of(instruction)
        found.is_own = found.is_own or part in ties.looked_up
        found.is_stepped = found.is_stepped or part in ties.stepped
        found.is_batch_of_dot = found.is_batch_of_dot or part in ties.of_dot
        reason = ties.unknown.get(part)
        if reason is not None:
            found.unknown.setdefault(reason, instruction.name)
        reached = [(other, inner) for other in ties.same.get(part, ())]
        reached += [(other, inner * step) for other, step in ties.inside.get(part, ())]
        for other, step in ties.factors.get(part, ()):
            extent = instruction.operands[other[0]].shape.dimensions[other[2]]
            if inner % step == 0 and extent % (inner // step * found.size) == 0:
                reached.append((other, inner // step))
        for (who, at, dimension), step in reached:
            mark((instruction if who == RESULT else instruction.operands[who], at), dimension, step, instruction)

    def _same_arrays(self, instruction: HloInstruction, index: Index) -> Iterator[_Place]:
        """The arrays that are an array under another name: in tuples, and on the other side of a call."""
        if instruction.opcode not in REGROUPS:
            source = handed_on_from(instruction, index)
            if source is not None:
                yield source.instruction, source.at
        for user in instruction.users:
            for number, operand in enumerate(user.operands):
                if operand is instruction:
                    if user.opcode not in REGROUPS:
                        to = handed_on_to(user, number, index)
                        if to is not None:
                            yield user, to
                    yield from _entered(user, number, index)
                    if user.kind.row.repeated_operand is not None:
                        yield from _repeated(user, number, index)
        yield from _returned(instruction, index)
        computation = instruction.computation
        if instruction.opcode is Opcode.PARAMETER:
            for caller in dict.fromkeys(self._module.callers_of(computation)):
                for number in range(len(caller.operands)):
                    if any(place[0] is instruction for place in _entered(caller, number, index)):
                        yield caller.operands[number], index
        if instruction is computation.root:
            for caller in dict.fromkeys(self._module.callers_of(computation)):
                if _returns(caller, computation):
                    yield caller, (1, *index) if caller.kind.row.async_step is AsyncStep.START else index
                    if caller.kind.row.calls.arguments is Arguments.CARRIED:
                        yield caller.operands[0], index


def _entered(caller: HloInstruction, number: int, index: Index) -> Iterator[_Place]:
    """The parameters of called computations, and the result of a loop, that an operand becomes."""
    arguments, called = caller.kind.row.calls.arguments, caller.called_computations
    if arguments is Arguments.OPERANDS:
        for each in called[:1]:
            if number < len(each.parameters):
                yield each.parameters[number], index
    elif arguments is Arguments.CARRIED:
        yield from [(each.parameters[0], index) for each in called]
        yield caller, index
    elif arguments is Arguments.ONE_OPERAND_EACH and 0 < number <= len(called):
        yield called[number - 1].parameters[0], index


def _returned(caller: HloInstruction, index: Index) -> Iterator[_Place]:
    """The results of called computations that a result is."""
    if caller.kind.row.async_step is AsyncStep.START and caller.called_computations:
        if index[:1] == (1,):
            yield caller.called_computations[0].root, index[1:]
        return
    for each in caller.called_computations:
        if _returns(caller, each):
            yield each.root, index
    if caller.kind.row.calls.arguments is Arguments.CARRIED:
        yield caller.operands[0], index


def _returns(caller: HloInstruction, called: HloComputation) -> bool:
    arguments = caller.kind.row.calls.arguments
    is_condition = arguments is Arguments.CARRIED and called is not caller.called_computations[0]
    return arguments is not Arguments.ELEMENTS and not is_condition


def _repeated(start: HloInstruction, number: int, index: Index) -> Iterator[_Place]:
    """Where the result of an asynchronous start has its operand again."""
    first = start.kind.row.repeated_operand or 0
    for place in ((first, *index), (first, number, *index)):
        found = handed_on_from(start, place) if _has(start.shape, place) else None
        if found is not None and found.instruction is start.operands[number] and found.at == index:
            yield start, place


def _hands_on(instruction: HloInstruction) -> bool:
    """Whether an instruction only hands arrays on, to a tuple or to a called computation."""
    row = instruction.kind.row
    return row.source is not ResultSource.COMPUTED or row.calls.arguments is not Arguments.ELEMENTS


def _part(shape: Shape, index: Index) -> Shape:
    for each in index:
        shape = shape.tuple_shapes[each]
    return shape


def _has(shape: Shape, index: Index) -> bool:
    for each in index:
        if not shape.is_tuple or not 0 <= each < len(shape.tuple_shapes):
            return False
        shape = shape.tuple_shapes[each]
    return True


# -- the changed module -----------------------------------------------------------------------


def resized(module: HloModule, followed: Followed, size: int) -> HloModule:
    """A copy of the module in which the axes that were followed have another size, and all that depends on it. They may
    have been followed in a module of which this one is such a copy."""
    copy = module.copy()
    marks: dict[HloInstruction, list[tuple[Index, tuple[int, ...]]]] = {}
    read: dict[HloInstruction, tuple[Shape, tuple[int, ...]]] = {}
    for (marked, index), dimensions in followed.marks.items():
        instruction = module.computations[marked.computation.index].instructions[marked.index]
        marks.setdefault(instruction, []).append((index, tuple(dimensions)))
        for user in instruction.users:
            if user.opcode in (Opcode.GATHER, Opcode.REDUCE_WINDOW) and user.operands[0] is instruction:
                read[user] = instruction.shape, tuple(dimensions)
    made: dict[Any, Kind] = {}
    kinds: dict[HloInstruction, Kind] = {}
    for instruction in {**marks, **read}:
        key = instruction.kind, tuple(marks.get(instruction, ())), read.get(instruction)
        if key not in made:
            change = _Resize(followed.size, size, key[1], key[2])
            made[key] = instruction.kind.changed(change.apply)
        kinds[copy.computations[instruction.computation.index].instructions[instruction.index]] = made[key]
    set_kinds(copy, kinds)
    return copy


class _Resize(NamedTuple):
    """A change of the fields of an instruction that depend on sizes."""

    before: int
    after: int
    results: tuple[tuple[Index, tuple[int, ...]], ...]
    """The dimensions of the result that change, for each array in it."""
    operand: tuple[Shape, tuple[int, ...]] | None
    """The shape of the first operand of a gather or of a reduce-window, and its dimensions that change."""

    def apply(self, message: xla.HloInstructionProto) -> None:
        for index, dimensions in self.results:
            shape = message.shape
            for each in index:
                shape = shape.tuple_shapes[each]
            for dimension in dimensions:
                size = shape.dimensions[dimension] = self._of(shape.dimensions[dimension])
                if message.slice_dimensions:
                    message.slice_dimensions[dimension].limit = size
                if message.dynamic_slice_sizes:
                    message.dynamic_slice_sizes[dimension] = size
        if self.operand is None:
            return
        shape, dimensions = self.operand
        for dimension in dimensions:
            size = self._of(shape.dimensions[dimension])
            if message.gather_slice_sizes and message.gather_slice_sizes[dimension] == shape.dimensions[dimension]:
                message.gather_slice_sizes[dimension] = size
            window = message.window.dimensions[dimension] if message.window.dimensions else None
            if window is not None and lie_side_by_side(window):
                padding = window.padding_low + window.padding_high
                count = (shape.dimensions[dimension] + padding) // window.size
                window.size = window.stride = -(-size // count)
                window.padding_low, window.padding_high = 0, window.size * count - size

    def _of(self, size: int) -> int:
        return size // self.before * self.after
