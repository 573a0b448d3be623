"""Part: values of an outline between goals and values that are given, evaluated at the elements that goals need."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from heapq import heapify, heappop, heappush
from typing import Any, Final, NamedTuple, cast

import numpy as np

from xlashape.evaluation.machine import Array, Machine, Spread, at, leaves
from xlashape.evaluation.partial import Grid, apply_at, every, joined, reads, size, taken
from xlashape.hlo import HloInstruction, Opcode
from xlashape.hlo.literal import to_numpy
from xlashape.indexing.walk.repeated.trip_count import trip_count
from xlashape.limits import spend
from xlashape.reports.cost.arithmetic import NOTHING, arithmetic_of, elements
from xlashape.reports.equivalent.terms import Term
from xlashape.shape import Shape

_ALONG: Final = 12
"""Indices along each dimension in a sample, at least."""
_SAMPLE: Final = 1 << 10
"""Elements in a sample, at most, unless _ALONG asks for more."""


_NARROW: Final = 1 << 14
"""Elements, at most, of integers of which some are evaluated to choose a sample."""
_STEPS_TO_READ: Final = 60
"""Steps, of about a microsecond, in which it is found what elements of an operand are read."""
_CHOOSING: Final = 1 << 17
"""Elements and products, of 64 each, that may be evaluated for that."""


class OutlinedValue(NamedTuple):
    """A value of a module."""

    instruction: HloInstruction | None
    """None for a parameter."""
    operands: tuple[int, ...]
    """The values that it is made of, in order. They have lower numbers."""
    terms: tuple[Term, ...]
    leaf: int
    """Which array of the instruction's result it is, or which array of the parameters."""
    shape: Shape
    is_constant: bool
    """Whether it depends on no parameter."""
    signature: bytes
    computed: int
    """What `computed_by` says of the instruction."""

    def cost(self, grid: Grid | None = None) -> int:
        """The elements at a grid, or all; 64 products of a sum count as one."""
        assert self.instruction is not None
        whole = elements(self.shape)
        count = whole if grid is None else size(grid)
        if not self.instruction.shape.is_array:  # all arrays of a tuple are computed together
            return count + self.computed // max(len(self.operands), 1)
        return count + self.computed * count // max(whole, 1)


def steps_of(cost: int) -> int:
    """The steps, of about a microsecond, in which so many elements are computed."""
    return cost // 24


def computed_by(instruction: HloInstruction) -> int:
    """What an instruction computes beside its elements: sums of products, and what its loop or branches compute."""
    if instruction.opcode not in (Opcode.WHILE, Opcode.CONDITIONAL):
        # Asked for each value, of which most are alike.
        key = computed_by, *[operand.kind for operand in instruction.operands]
        return instruction.kind.fact(
            key, lambda _: arithmetic_of(instruction, lambda _: NOTHING, as_xla=False).flops // 128
        )
    each = [
        computed_by(inner) + (elements(inner.shape) if inner.shape.is_array else 0)
        for computation in instruction.called_computations
        for inner in computation.instructions
    ]
    if instruction.opcode is Opcode.CONDITIONAL:
        return sum(each)
    body, condition = instruction.called_computations
    return sum(each) * (trip_count(instruction, body, condition) or 1)


class Part:
    """The values that goals are made of, down to those that are given."""

    def __init__(
        self, values: Sequence[OutlinedValue], region: Set[int], edge: Set[int], found: Callable[[int], int]
    ) -> None:
        """`found` says which value stands for a value."""
        self._values = values
        self._found = found
        self.region = region
        """What is computed."""
        self.edge = edge
        """What is given, and could be computed too."""

    @classmethod
    def below(
        cls,
        values: Sequence[OutlinedValue],
        goals: Iterable[int],
        is_given: Callable[[int], bool],
        found: Callable[[int], int],
    ) -> Part:
        """What goals are made of down to values that are given."""
        region, edge, pending = set[int](), set[int](), list(goals)
        while pending:
            value = pending.pop()
            if is_given(value):
                if values[value].instruction is not None:
                    edge.add(value)
            elif value not in region:
                region.add(value)
                pending += [found(operand) for operand in values[value].operands]
        return cls(values, region, edge, found)

    def _operands(self, value: int) -> list[int]:
        return [self._found(operand) for operand in self._values[value].operands]

    def cost(self, grids: Mapping[int, Grid] | None = None) -> int:
        """The elements that are computed, at grids or all."""
        if grids is None:
            return sum([self._values[value].cost() for value in self.region])
        return sum([self._values[value].cost(grid) for value, grid in grids.items() if value in self.region])

    def whole(self) -> dict[int, Grid]:
        """All elements of all values that are computed or that they are computed from."""
        read = {operand for value in self.region for operand in self._operands(value)}
        return {value: every(self._values[value].shape) for value in self.region | read}

    def sample(self, grid: Grid, seed: int, chosen: Iterable[int] = ()) -> Grid:
        """Some of the elements: the first and last along each dimension, those at indices that the data choose, those
        beside numbers that the attributes of the region name, and others at random."""
        named = {n for value in self.region for n in _numbers_of(self._values[value].instruction)}
        told = list(dict.fromkeys([*chosen, *sorted(named)]))
        rng = np.random.default_rng([seed, len(grid)])
        found: list[Array] = []
        count = _ALONG
        while np.prod([min(len(along), 2 * count) for along in grid]) <= _SAMPLE and count < _SAMPLE:
            count *= 2
        for along in grid:
            n = len(along)
            if n > count:
                near = np.array([i for i in (0, 1, n - 2, n - 1, *told) if 0 <= i < n][: count - 4])
                along = np.unique(np.concatenate([near, rng.choice(n, count - len(near), replace=False)]))
            found.append(along)
        return tuple(found)

    def chosen(self, machine: Machine, given: Callable[[int, Grid], Spread], most: int, seed: int) -> list[int]:
        """Some indices below `most` that the data choose: those at which scatters and updates write, and those that
        comparisons of integers find. Other elements of an array may all be passed over."""
        sources: dict[int, int | None] = {}
        for value in self.region:
            instruction, operands = self._values[value].instruction, self._operands(value)
            assert instruction is not None
            if instruction.opcode is Opcode.SCATTER:
                vector_dim = instruction.details.scatter_dimension_numbers.index_vector_dim
                sources[operands[len(operands) // 2]] = vector_dim
            elif instruction.opcode is Opcode.DYNAMIC_UPDATE_SLICE:
                sources |= dict.fromkeys(operands[2:])
            elif instruction.opcode is Opcode.COMPARE and instruction.operands[0].shape.element_type.is_integral:
                sources |= dict.fromkeys([found for each in operands if (found := self._narrow(each)) is not None])
        rng = np.random.default_rng(seed)
        numbers: list[int] = []
        for number in rng.permutation(len(sources)):
            value, vector_dim = list(sources.items())[int(number)]
            part = Part.below(self._values, [value], lambda v: v not in self.region, self._found)
            if len(numbers) >= 2 * _ALONG or part.cost() > _CHOOSING:
                continue
            goals = {value: every(self._values[value].shape)}
            x = np.asarray(part.evaluated(machine, goals, part.needed(goals), given)[value][0])
            vectors = x[..., None] if vector_dim is None or vector_dim == x.ndim else np.moveaxis(x, vector_dim, -1)
            inside = np.argwhere(((vectors >= 0) & (vectors < most)).all(-1)).tolist()
            for k in rng.choice(len(inside), min(len(inside), 2), replace=False):
                numbers += [*vectors[tuple(inside[int(k)])].tolist(), *inside[int(k)]]
        return numbers

    def _narrow(self, value: int) -> int | None:
        """What a value repeats or moves, if that is small and no constant."""
        while not (made := self._values[value]).is_constant:
            if elements(made.shape) <= _NARROW:
                return value
            if made.instruction is None or made.instruction.opcode not in (
                Opcode.BROADCAST, Opcode.RESHAPE, Opcode.TRANSPOSE, Opcode.CONVERT, Opcode.COPY,
            ):  # fmt: skip
                break
            (value,) = self._operands(value)
        return None

    def needed(self, goals: Mapping[int, Grid]) -> dict[int, Grid]:
        """The elements of values that those of the goals are computed from."""
        found = dict(goals)
        pending = [-value for value in goals]
        heapify(pending)
        while pending:
            value = -heappop(pending)
            if value not in self.region:
                continue
            instruction = self._values[value].instruction
            assert instruction is not None
            operands = self._operands(value)
            spend(_STEPS_TO_READ * len(operands))
            read = reads(instruction, found[value]) or [every(self._values[o].shape) for o in operands]
            for operand, more in zip(operands, read, strict=True):
                known, whole = found.get(operand), elements(self._values[operand].shape)
                if known is None or size(more) == whole:
                    found[operand] = more
                elif size(known) < whole:
                    found[operand] = joined([known, more])
                if known is None:
                    heappush(pending, -operand)
        return found

    def evaluated(
        self,
        machine: Machine,
        goals: Mapping[int, Grid],
        grids: Mapping[int, Grid],
        given: Callable[[int, Grid], Spread],
        seen: Callable[[int, Spread], None] | None = None,
    ) -> dict[int, Spread]:
        """The goals' elements. `grids` has the elements that are needed, `given` gives those of a value, and `seen` is
        called with each value.
        """
        known: dict[int, Spread] = {}
        order = sorted(grids)
        last = {operand: value for value in order if value in self.region for operand in self._operands(value)}
        for value in order:
            if value not in known:
                if value in self.region:
                    self._compute(machine, value, grids, known)
                else:
                    known[value] = given(value, grids[value])
            if seen is not None:
                seen(value, known[value])
            for operand in self._operands(value) if value in self.region else ():
                if last[operand] == value and operand not in goals:
                    known.pop(operand, None)  # its memory is free
        return {value: [taken(x, grids[value], grid) for x in known[value]] for value, grid in goals.items()}

    def _compute(self, machine: Machine, value: int, grids: Mapping[int, Grid], known: dict[int, Spread]) -> None:
        made = self._values[value]
        assert made.instruction is not None
        operands = [self._bundled(known, term) for term in made.terms]
        read = reads(made.instruction, grids[value])
        if read is not None:
            held = [grids[operand] for operand in self._operands(value)]
            parts = [[taken(x, h, r) for x in o] for o, h, r in zip(operands, held, read, strict=True)]
            known[value] = apply_at(machine, made.instruction, parts, read, grids[value])
            return
        spread = machine.apply(made.instruction, operands)
        for leaf in range(len(list(made.instruction.shape.leaves()))):
            each = value - made.leaf + leaf
            if each in grids:
                whole = every(self._values[each].shape)
                known[each] = [taken(leaves(x)[leaf], whole, grids[each]) for x in spread]

    def _bundled(self, known: Mapping[int, Spread], term: Term) -> Spread:
        if not isinstance(term, tuple):
            return known[self._found(term)]
        parts = [self._bundled(known, part) for part in cast("tuple[Term, ...]", term)]
        return [tuple([at(p, device) for p in parts]) for device in range(max(map(len, parts), default=1))]


def _numbers_of(instruction: HloInstruction | None) -> Iterable[int]:
    """Numbers of an instruction beside which elements are treated in another way."""
    assert instruction is not None
    details = instruction.details
    found = [n for d in details.slice_dimensions for n in (d.start, d.limit)]
    found += [d.edge_padding_low for d in details.padding_config.dimensions]
    if instruction.opcode is Opcode.CONCATENATE:
        found.append(instruction.operands[0].shape.dimensions[details.dimensions[0]])
    if instruction.opcode is Opcode.CONSTANT and not instruction.shape.rank:
        literal: Any = to_numpy(details.literal)
        found += [int(literal)] if instruction.shape.element_type.is_integral else []
    return [n + by for n in found for by in (0, -1, 1)]
