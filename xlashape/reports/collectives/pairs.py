"""How an array is divided before and after a collective: the axes of the mesh for each dimension.

A partitioned program says how its parameters are divided (`spmd_parameters_shardings`, or `sharding` of a parameter).
From there it is followed through what keeps, moves, drops or contracts whole dimensions, and through collectives:

    all-gather       the axes of its groups no longer divide its dimension
    reduce-scatter   they divide its dimension, and summands are added up
    all-reduce       summands are added up
    all-to-all       they divide one dimension instead of another one; these are the dimensions that the array has
                     before it is cut for the exchange, and after it is put together

`{?}` is a dimension of which nothing is known, as Shardy writes one that may be divided further.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from fractions import Fraction
from typing import Final, TypeAlias

from xlashape.base.math import product
from xlashape.hlo import HloInstruction, HloModule, Opcode
from xlashape.hlo.collectives import Collective, DeviceMesh
from xlashape.hlo.flow import Flow, Value, handed_on_from
from xlashape.hlo.ops.exchange import ALL_GATHER, ALL_REDUCE, ALL_TO_ALL, REDUCE_SCATTER
from xlashape.hlo.ops.operation import Movement, ReadPattern, ResultSource
from xlashape.hlo.values.sharding import Sharding
from xlashape.indexing.sharding.spelled import axes_of_dimensions
from xlashape.limits import spend
from xlashape.shape import Shape

Axes: TypeAlias = "tuple[str, ...]"
Divided: TypeAlias = "tuple[Axes | None, ...]"
"""For each dimension of an array the axes that divide it, the major one first; None where it is not known."""

_MOVED: Final = (Movement.COPY, Movement.RESHAPE, Movement.TRANSPOSE, Movement.TAKE, Movement.JOIN)
_MOST_MOVES: Final = 16
_MOST_ORIGINS: Final = 100


class ShardingPairs:
    """Follows how the arrays of a partitioned module are divided. `axes`: the axes that each collective spans."""

    def __init__(
        self, module: HloModule, flow: Flow, mesh: DeviceMesh, axes: Mapping[HloInstruction, Axes | None]
    ) -> None:
        self.mesh, self._flow, self._axes = mesh, flow, axes
        self._known: dict[Value, Divided] = {}
        self._operands = dict(_fused_operands(module))
        """Parameter of a fused computation → operand of the fusion."""
        kept = [Sharding.from_proto(each) for each in module.head.spmd_parameters_shardings]
        parameters = module.entry.parameters
        self.parameters = [parameter for parameter in parameters if parameter.shape.is_array]
        read: dict[Sharding, tuple[Axes, ...] | None] = {}
        for number, parameter in enumerate(parameters):
            sharding = kept[number] if len(kept) == len(parameters) else parameter.sharding
            if sharding is not None and parameter.shape.is_array:
                if sharding not in read:
                    read[sharding] = axes_of_dimensions(sharding, mesh)
                divided = read[sharding]
                if divided is not None and len(divided) in (0, parameter.shape.rank):
                    self._known[Value(parameter, ())] = divided or ((),) * parameter.shape.rank

    def divided(self, array: HloInstruction) -> Divided:
        """What divides each dimension of an instruction's result."""
        return self._divided(Value(array, ()))

    def pair(self, collective: Collective) -> tuple[str, str] | None:
        """How an array is divided before and after a collective; None for exchanges of other kinds, where its arrays
        differ in it, and where its axes are not known."""
        instruction, exchange = collective.instruction, collective.exchange
        axes = self._axes.get(instruction)
        if not axes or not all(operand.shape.is_array for operand in instruction.operands):
            return None
        with suppress(LookupError, ValueError):  # of a module that contradicts itself, which only a verifier tells
            if exchange is ALL_TO_ALL:
                return self._exchanged(instruction, axes)
            if exchange in (ALL_GATHER, ALL_REDUCE, REDUCE_SCATTER):
                found = {self._pair(collective, operand, axes) for operand in instruction.operands}
                return found.pop() if len(found) == 1 else None
        return None

    def _pair(self, collective: Collective, operand: HloInstruction, axes: Axes) -> tuple[str, str]:
        before = self._divided(Value(operand, ()))
        if collective.exchange is not ALL_GATHER:
            before = _summed(before, axes)
        if collective.exchange is ALL_REDUCE:
            return _text(before, unreduced=axes), _text(before)
        if collective.instruction.kind.row.exchange is ALL_REDUCE:  # a fusion slices the sum
            changed = _differing(operand.shape.dimensions, collective.instruction.computation.root.shape.dimensions)
            cut = changed[0][0] if changed else 0
        else:
            (cut,) = collective.instruction.details.dimensions
        after = _gathered(before, cut, axes) if collective.exchange is ALL_GATHER else _scattered(before, cut, axes)
        if collective.exchange is ALL_GATHER:
            return _text(before, open_={cut: axes}), _text(after)
        return _text(before, unreduced=axes), _text(after, open_={cut: axes})

    # -- what divides a value ------------------------------------------------------------------

    def _divided(self, value: Value) -> Divided:
        known, waiting = self._known, [value]
        begun: dict[Value, Value | None] = {}
        while waiting:
            here = waiting.pop()
            if here in known:
                continue
            if here in begun:
                same = begun[here]
                known[here] = self._made(here) if same is None else known.get(same, ())
                continue
            spend()
            same = begun[here] = self.same(here)
            needed = (same,) if same is not None else [Value(each, ()) for each in here.instruction.operands]
            waiting.append(here)
            waiting += [each for each in needed if each not in known and each not in begun]
        return known[value]

    def same(self, value: Value) -> Value | None:
        """The value that a value is, or that is divided as it is; None where an instruction makes it."""
        instruction, at = value
        if instruction.opcode is Opcode.BITCAST:
            return None
        before = handed_on_from(instruction, at)
        if before is not None:
            return before
        row, called = instruction.kind.row, instruction.called_computations
        if instruction.opcode is Opcode.PARAMETER:
            operand = self._operands.get(instruction)
            caller = self._flow.caller(instruction.computation)
            if operand is None and caller is not None:
                is_loop = caller.kind.row.source is ResultSource.STATE
                is_call = caller.kind.row.source is ResultSource.CALLED
                operand = caller.operands[0 if is_loop else instruction.number] if is_loop or is_call else None
            return None if operand is None else Value(operand, at)
        if row.source is ResultSource.STATE:  # each iteration returns what is divided as it was
            return Value(instruction.operands[0], at)
        if called and (row.source is ResultSource.CALLED or row.fuses_called_computation):
            return Value(called[0].root, at)
        return None

    def _made(self, value: Value) -> Divided:
        """What divides a value that an instruction makes."""
        instruction, shape = value.instruction, value.instruction.shape
        operands, exchange = instruction.operands, instruction.kind.row.exchange
        if exchange is not None:
            place = value.at[-1] if value.at and len(operands) > 1 else 0
            return self._received(instruction, self._known.get(Value(operands[place], ()), ()))
        if instruction.opcode is Opcode.COPY_START and value.at == (0,):
            return self._known.get(Value(operands[0], ()), ())
        if not shape.is_array or not operands:
            return _unknown(shape)
        given = [self._known.get(Value(operand, ()), ()) for operand in operands]
        opcode, details, first = instruction.opcode, instruction.details, given[0]
        sizes = operands[0].shape.dimensions
        if len(first) != len(sizes):
            return _unknown(shape)
        if instruction.kind.row.reads is ReadPattern.SAME or opcode in (Opcode.COPY, Opcode.DYNAMIC_UPDATE_SLICE):
            alike = [
                one for one, each in zip(given, operands, strict=True) if each.shape.dimensions == shape.dimensions
            ]
            return _merged(alike, shape.rank)
        if opcode is Opcode.TRANSPOSE:
            return tuple([first[dim] for dim in details.dimensions])
        if opcode is Opcode.BROADCAST:
            places = {to: dim for dim, to in enumerate(details.dimensions)}
            return tuple([first[places[dim]] if dim in places else None for dim in range(shape.rank)])
        if opcode is Opcode.REDUCE:
            return tuple([axes for dim, axes in enumerate(first) if dim not in details.dimensions])
        if opcode in (Opcode.SLICE, Opcode.DYNAMIC_SLICE):
            pairs = zip(first, sizes, shape.dimensions, strict=True)
            is_same = not any(self._is_by_device(offset) for offset in operands[1:])
            return tuple([axes if size == part or (is_same and axes == ()) else None for axes, size, part in pairs])
        if opcode is Opcode.DOT and len(given) == 2 and len(given[1]) == operands[1].shape.rank:
            return _of_dot(instruction, given)
        if opcode is Opcode.CONVOLUTION and len(given) == 2 and len(given[1]) == operands[1].shape.rank:
            return _of_convolution(instruction, given)
        if opcode is Opcode.RESHAPE:
            return _reshaped(first, sizes, shape.dimensions)
        if opcode is Opcode.BITCAST:  # a reshape of the dimensions in the order of memory
            old, new = _in_memory(operands[0].shape), _in_memory(shape)
            moved = _reshaped(
                [first[dim] for dim in old], [sizes[dim] for dim in old], [shape.dimensions[d] for d in new]
            )
            return tuple([moved[new.index(dim)] for dim in range(shape.rank)])
        return _unknown(shape)

    def _is_by_device(self, offset: HloInstruction) -> bool:
        """Whether an offset may be another one on each device."""
        waiting, seen = [Value(offset, ())], set[Value]()
        while waiting and len(seen) < _MOST_ORIGINS:
            spend()
            value = waiting.pop()
            if value not in seen:
                seen.add(value)
                if value.instruction.opcode in (Opcode.PARTITION_ID, Opcode.REPLICA_ID):
                    return True
                same = self.same(value)
                waiting += [same] if same is not None else [Value(each, ()) for each in value.instruction.operands]
        return bool(waiting)

    def _received(self, collective: HloInstruction, before: Divided) -> Divided:
        """What divides the result of a collective."""
        axes, exchange = self._axes.get(collective), collective.kind.row.exchange
        dimensions = list(collective.details.dimensions)
        if axes is not None and exchange is ALL_REDUCE:
            return _summed(before, axes)
        if axes is not None and exchange is ALL_GATHER and len(dimensions) == 1:
            return _gathered(before, dimensions[0], axes)
        if axes is not None and exchange is REDUCE_SCATTER and len(dimensions) == 1:
            return _scattered(_summed(before, axes), dimensions[0], axes)
        return (None,) * len(before)

    # -- exchanges of parts --------------------------------------------------------------------

    def _exchanged(self, instruction: HloInstruction, axes: Axes) -> tuple[str, str] | None:
        """What an all-to-all changes: a dimension that `axes` divide after it, and one that they divided before."""
        elements = sum([product(each.shape.dimensions) for each in instruction.operands])
        results = list(self._results(instruction, elements))
        arrays = [(origin, result) for origin in self._origins(instruction, elements) for result in results]
        arrays.sort(key=lambda pair: pair[0].instruction.shape.rank != pair[1].rank)
        for origin, result in arrays:
            divided, sizes = self._divided(origin), origin.instruction.shape.dimensions
            for before, a, b in _aligned(divided, sizes, result.dimensions):
                changed = [(Fraction(new, old), dim) for dim, old, new in _differing(a, b)]
                if len(changed) != 2 or changed[0][0] * changed[1][0] != 1:
                    continue
                cut, grown = [dim for _, dim in sorted(changed)]
                others = [axis for dim, held in enumerate(before) if dim != grown for axis in held or ()]
                gathered, held = _gathered(before, grown, axes), before[grown]
                if not set(axes).intersection(others) and (held is None or gathered[grown] is not None):
                    after = _scattered(gathered, cut, axes if held is None else held[len(held) - len(axes) :])
                    return _text(before, open_={grown: axes}), _text(after, open_={cut: axes})
        return None

    def _origins(self, instruction: HloInstruction, elements: int) -> Iterator[Value]:
        """The arrays that are cut for an exchange, the nearest first."""
        value = Value(instruction.operands[0], ())
        for _ in range(_MOST_MOVES):
            same = self.same(value)
            if same is not None:
                value = same
                continue
            if product(value.instruction.shape.dimensions) == elements and not value.at:
                yield value
            if not _is_moved(value.instruction):
                return
            value = Value(value.instruction.operands[0], ())

    def _results(self, instruction: HloInstruction, elements: int) -> Iterator[Shape]:
        """The shapes of what an exchange is put together to, the nearest first."""
        value = instruction
        for _ in range(_MOST_MOVES):
            if value.shape.is_array and product(value.shape.dimensions) == elements:
                yield value.shape
            users = [user for user in dict.fromkeys(value.users) if user.opcode is not Opcode.PARAMETER]
            if not users:
                return
            user = users[0]
            if user.kind.row.fuses_called_computation and user.called_computations:
                parameter = user.called_computations[0].parameters[user.operands.index(value)]
                user = parameter.users[0] if parameter.users else parameter
            if user.opcode is not Opcode.GET_TUPLE_ELEMENT and not _is_moved(user):
                return
            value = user


def _is_moved(made: HloInstruction) -> bool:
    """Whether an instruction moves the elements of its first operand, or computes one from each."""
    row = made.kind.row
    is_moved = row.movement in _MOVED or made.opcode is Opcode.BITCAST
    return is_moved or (row.reads is ReadPattern.SAME and bool(made.operands))


def _fused_operands(module: HloModule) -> Iterator[tuple[HloInstruction, HloInstruction]]:
    for computation in module.computations:
        spend(len(computation.instructions))
        for each in computation.instructions:
            if each.called_computations and each.kind.row.fuses_called_computation:
                yield from zip(each.called_computations[0].parameters, each.operands, strict=False)


def _unknown(shape: Shape) -> Divided:
    return (None,) * shape.rank if shape.is_array else ()


def _merged(given: Sequence[Divided], rank: int) -> Divided:
    """What is known of each dimension from the first that knows it."""
    known = [each for each in given if len(each) == rank]
    return tuple([next((each[dim] for each in known if each[dim] is not None), None) for dim in range(rank)])


def _of_dot(instruction: HloInstruction, given: Sequence[Divided]) -> Divided:
    n = instruction.details.dot_dimension_numbers
    sides = (
        (given[0], n.lhs_batch_dimensions, n.lhs_contracting_dimensions),
        (given[1], n.rhs_batch_dimensions, n.rhs_contracting_dimensions),
    )
    free = [axes for each, *used in sides for dim, axes in enumerate(each) if not any(dim in dims for dims in used)]
    batches = [tuple([each[dim] for dim in batch]) for each, batch, _ in sides]
    return (*_merged(batches, len(batches[0])), *free)


def _of_convolution(instruction: HloInstruction, given: Sequence[Divided]) -> Divided:
    n = instruction.details.convolution_dimension_numbers
    made: list[Axes | None] = [None] * instruction.shape.rank
    made[n.output_batch_dimension] = given[0][n.input_batch_dimension]
    made[n.output_feature_dimension] = given[1][n.kernel_output_feature_dimension]
    return tuple(made)


def _reshaped(divided: Sequence[Axes | None], before: Sequence[int], after: Sequence[int]) -> Divided:
    """What divides the dimensions of a reshaped array: what divided the first of those that become one divides the
    first of those that it becomes."""
    if any(size == 1 and axes for size, axes in zip(before, divided, strict=True)):
        return (None,) * len(after)
    olds = [(size, axes) for size, axes in zip(before, divided, strict=True) if size != 1]
    made: list[Axes | None] = []
    waiting = [size for size in after if size != 1]
    while olds and waiting:
        (size, lead), news = olds.pop(0), [waiting.pop(0)]
        rest: list[Axes | None] = []
        total = news[0]
        while size != total:
            if size < total and olds:
                more, axes = olds.pop(0)
                size *= more
                rest.append(axes)
            elif size > total and waiting:
                news.append(waiting.pop(0))
                total *= news[-1]
            else:
                return (None,) * len(after)
        is_known = all(axes == () for axes in rest)
        made += [lead if is_known else None, *[() if is_known else None for _ in news[1:]]]
    found = iter(made)
    return tuple([() if size == 1 else next(found, None) for size in after])


def _in_memory(shape: Shape) -> list[int]:
    """The dimensions of an array, the major one first."""
    return list(reversed(shape.layout.minor_to_major)) if shape.layout is not None else list(range(shape.rank))


def _differing(one: Sequence[int], other: Sequence[int]) -> list[tuple[int, int, int]]:
    """The dimensions that differ in two arrays of one rank, with both sizes."""
    return [(dim, a, b) for dim, (a, b) in enumerate(zip(one, other, strict=False)) if a != b]


def _aligned(
    divided: Divided, before: tuple[int, ...], after: tuple[int, ...]
) -> Iterator[tuple[Divided, tuple[int, ...], tuple[int, ...]]]:
    """Both sizes of an array with the same rank. Where one of them lacks a dimension of size 1, it may be anywhere."""
    if len(before) == len(after):
        yield divided, before, after
    for dim in range(max(len(before), len(after))):
        if len(before) == len(after) + 1:
            yield divided, before, (*after[:dim], 1, *after[dim:])
        elif len(before) + 1 == len(after):
            yield (*divided[:dim], None, *divided[dim:]), (*before[:dim], 1, *before[dim:]), after


def _summed(divided: Divided, axes: Axes) -> Divided:
    """What divides summands that are added up over axes: parts of an array that these axes divide are no parts then,
    but summands."""
    return tuple([None if held is None else tuple([axis for axis in held if axis not in axes]) for held in divided])


def _gathered(divided: Divided, dim: int, axes: Axes) -> Divided:
    held = divided[dim] if dim < len(divided) else None
    is_minor = held is not None and set(held[len(held) - len(axes) :]) == set(axes)
    rest = held[: len(held) - len(axes)] if held is not None and is_minor else None
    return (*divided[:dim], rest, *divided[dim + 1 :])


def _scattered(divided: Divided, dim: int, axes: Axes) -> Divided:
    held = divided[dim] if dim < len(divided) else None
    return (*divided[:dim], None if held is None else (*held, *axes), *divided[dim + 1 :])


def _text(divided: Divided, *, unreduced: Axes = (), open_: dict[int, Axes] | None = None) -> str:
    """The text of what divides an array. `open_`: axes that divide a dimension of which nothing else is known."""
    dims: list[str] = []
    for dim, axes in enumerate(divided):
        texts = [*(repr(axis) for axis in (axes if axes is not None else (open_ or {}).get(dim, ())))]
        dims.append("{" + ", ".join(texts if axes is not None else [*texts, "?"]) + "}")
    tail = f", unreduced={{{', '.join(map(repr, unreduced))}}}" if unreduced else ""
    return f"[{', '.join(dims)}]{tail}"
