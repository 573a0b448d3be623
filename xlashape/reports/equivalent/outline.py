"""Outline: large programs as expressions, of which only the parts that differ are evaluated.

Two outputs are compared from their roots down to where other operations stand on both sides. Such a pair must be equal:
it is evaluated from the nearest values that both sides share, which are drawn at random. If it differs, the cut may be
too tight, since what made a shared value was used: then more of it is computed. If it differs still, the values that
are made of the pair are compared in its place. Values that were shown to be equal are one from there on.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from heapq import heapify, heappop, heappush
from typing import Any, Final, NamedTuple, cast

import numpy as np

from xlashape.errors import LimitExceededError, UnsupportedError
from xlashape.evaluation.domains.field import Field
from xlashape.evaluation.domains.modular import mixed
from xlashape.evaluation.domains.numbers import FieldNumbers
from xlashape.evaluation.elementwise import is_real
from xlashape.evaluation.machine import Array, Machine, Spread, at, leaves
from xlashape.evaluation.partial import Grid, apply_at, every, joined, reads, size, taken
from xlashape.evaluation.run_module import DeviceCount
from xlashape.hlo import HloInstruction, Opcode
from xlashape.hlo.literal import to_numpy
from xlashape.hlo.ops.operation import ReadPattern
from xlashape.limits import budget, spend
from xlashape.reports.cost.arithmetic import NOTHING, arithmetic_of
from xlashape.reports.equivalent.ledger import digest_of, random
from xlashape.reports.equivalent.terms import Term, Terms, leaves_of
from xlashape.shape import Shape

_WIDER: Final = 3
"""How often more of a region is computed."""
_ENOUGH: Final = 1 << 12
"""Elements of which one draw is enough: the chance that all agree by accident is small."""
_STEPS: Final = 40_000
"""The most steps that the comparison of two modules takes."""
_WHOLE: Final = 1 << 17
"""Elements and products of a region, of 64 each: of larger ones a sample of elements is evaluated."""
_MOST: Final = 1 << 22
"""As _WHOLE, of a region that is evaluated."""
_ALONG: Final = 12
"""Indices along each dimension in a sample, at least."""
_SAMPLE: Final = 1 << 10
"""Elements in a sample, at most, unless _ALONG asks for more."""


class OutlinedValue(NamedTuple):
    """A value of a module."""

    instruction: HloInstruction | None
    """None for a parameter."""
    operands: tuple[int, ...]
    """The values that it is made of, in order."""
    terms: tuple[Term, ...]
    leaf: int
    """Which array of the instruction's result it is."""
    shape: Shape
    is_constant: bool
    """Whether it depends on no parameter."""
    signature: bytes


class Outline(Terms):
    """The values of modules as expressions."""

    def __init__(self, devices: DeviceCount, seed: int) -> None:
        super().__init__()
        self.values: list[OutlinedValue] = []
        self._devices = devices
        self._seed = seed
        self._numbers = FieldNumbers()
        self._same: dict[int, int] = {}
        """Value → the equal value that stands for it."""
        self._forms: dict[tuple[Any, ...], bool] = {}
        self.reasons: dict[str, None] = {}
        """What could not be evaluated."""
        self.is_sampled = False
        """Whether values were taken as equal of which some elements alone were evaluated."""

    def parameter(self, number: int, shape: Shape, key: Any) -> int:
        """The value of an array of the parameters."""
        if (number, key) not in self._by_key:
            self._by_key[number, key] = self._new(OutlinedValue(None, (), (), number, shape, False, b""))
        return self._by_key[number, key]

    def _new(self, value: OutlinedValue) -> int:
        self.values.append(value)
        return len(self.values) - 1

    def made(self, instruction: HloInstruction, operands: list[Term]) -> Term:
        flat = tuple([leaf for term in operands for leaf in leaves_of(term)])
        has_effect = instruction.kind.row.has_effect
        is_constant = not has_effect and all(self.values[leaf].is_constant for leaf in flat)
        count = 0

        def term(shape: Shape) -> Term:
            nonlocal count
            if shape.is_tuple:
                return tuple([term(part) for part in shape.tuple_shapes])
            count += 1
            signature = self.signature(instruction)
            return self._new(
                OutlinedValue(instruction, flat, tuple(operands), count - 1, shape, is_constant, signature)
            )

        return term(instruction.shape)

    # -- comparisons -------------------------------------------------------------------------------

    def unequal(
        self, one: Sequence[int], other: Sequence[int], named: Sequence[tuple[int, int]]
    ) -> tuple[int, int] | None:
        """The first pair of values, of those that correspond, that could not be shown to be equal; None if the outputs
        are equal. `named` has pairs of the same name, which are probably equal."""
        roots = list(zip(one, other, strict=True))
        below: dict[tuple[int, int], list[tuple[int, int]] | None] = {}
        pending = [*roots, *named]
        while pending:
            pair = pending.pop()
            a, b = (self.values[i] for i in pair)
            if pair in below or self._find(pair[0]) == self._find(pair[1]) or a.shape.dimensions != b.shape.dimensions:
                continue
            alike = a.signature == b.signature != b"" and a.leaf == b.leaf and len(a.operands) == len(b.operands)
            below[pair] = list(zip(a.operands, b.operands, strict=True)) if alike else None
            pending += below[pair] or ()
        # Values are made of values with lower numbers: these have been compared.
        pairs = sorted(below)
        try:
            with budget(steps=_STEPS, subject="a large program"):
                for wider in range(_WIDER):
                    pairs = self._failed(pairs, below, wider)
                    if all(self._find(x) == self._find(y) for x, y in roots):
                        return None
        except LimitExceededError as error:
            self.reasons.setdefault(error.message)
        return next((pair for pair in pairs if self._find(pair[0]) != self._find(pair[1])), roots[0])

    def _failed(
        self,
        pairs: Iterable[tuple[int, int]],
        below: Mapping[tuple[int, int], Sequence[tuple[int, int]] | None],
        wider: int,
    ) -> list[tuple[int, int]]:
        """The pairs that could not be shown to be equal. All others are one value from there on."""
        failed: list[tuple[int, int]] = []
        for pair in pairs:
            operands = below[pair]
            is_same = operands is not None and all(self._find(x) == self._find(y) for x, y in operands)
            if is_same or self._are_equal(*pair, wider):
                # The lower number stands for both, so that values are made of lower ones.
                low, high = sorted(map(self._find, pair))
                self._same[high] = low
            else:
                failed.append(pair)
        return failed

    def _find(self, value: int) -> int:
        while value in self._same:
            value = self._same[value]
        return value

    def _operands(self, value: int) -> list[int]:
        """What a value is made of, where equal values are one."""
        return [self._find(operand) for operand in self.values[value].operands]

    def _are_equal(self, one: int, other: int, wider: int) -> bool:
        one, other = self._find(one), self._find(other)
        if one == other:
            return True
        shared = self._made_of(one) & self._made_of(other)
        spend(1 + len(shared) // 64)
        for _ in range(wider):
            shared -= self._region((one, other), shared)[1]
        key = self._form((one, other), shared)
        if key not in self._forms:
            self._forms[key] = self._agree(one, other, shared)
        return self._forms[key]

    def _made_of(self, value: int) -> set[int]:
        """The value and all that it is made of."""
        found, pending = {value}, [value]
        while pending:
            for operand in self._operands(pending.pop()):
                if operand not in found:
                    found.add(operand)
                    pending.append(operand)
        return found

    def _is_cut(self, value: int, shared: set[int]) -> bool:
        """Whether a value is drawn. Integers, predicates, constants, and what only moves elements are computed."""
        made = self.values[value]
        if made.instruction is None:
            return True
        if len(made.operands) == 1 and made.instruction.kind.row.reads in (ReadPattern.EACH_ONCE, ReadPattern.ONE):
            return False
        is_float = made.shape.is_array and (is_real(made.shape.element_type) or made.shape.element_type.is_complex)
        return value in shared and is_float and not made.is_constant

    def _region(self, values: Iterable[int], shared: set[int]) -> tuple[set[int], set[int]]:
        """(what is computed, the values at its edge that could be computed too)."""
        pending, region, edge = list(values), set[int](), set[int]()
        while pending:
            value = pending.pop()
            if self._is_cut(value, shared):
                if self.values[value].instruction is not None:
                    edge.add(value)
            elif value not in region:
                region.add(value)
                pending += self._operands(value)
        return region, edge

    def _form(self, goals: tuple[int, int], shared: set[int]) -> tuple[Any, ...]:
        """What is computed, in the order of its values: the layers of a model have equal forms."""
        places: dict[int, int] = {}
        form: list[Any] = []
        pending = list(reversed(goals))
        while pending:
            value = pending[-1]
            made = self.values[value]
            if value in places:
                pending.pop()
            elif self._is_cut(value, shared):
                places[value] = len(places)
                form.append((made.shape.element_type, made.shape.dimensions))
            elif missing := [i for i in self._operands(value) if i not in places]:
                pending += reversed(missing)
            else:
                places[value] = len(places)
                form.append((made.signature, made.leaf, *[places[i] for i in self._operands(value)]))
        return (*form, *[places[goal] for goal in goals])

    def _agree(self, one: int, other: int, shared: set[int]) -> bool:
        """Whether two values are equal. A part that cannot be evaluated is not known to be."""
        region, _ = self._region((one, other), shared)
        goal = every(self.values[one].shape)
        if sum([self._cost(value, every(self.values[value].shape)) for value in region]) > _WHOLE:
            goal = self._sample(goal, region)
            self.is_sampled = True
        grids = self._needed((one, other), region, goal)
        if sum([self._cost(value, grids[value]) for value in region]) > _MOST:
            return False
        try:
            draws = 1 if size(goal) >= _ENOUGH else 2
            with np.errstate(all="ignore"):
                return all(self._agree_in((one, other), goal, region, grids, draw) for draw in range(draws))
        except (UnsupportedError, LimitExceededError) as error:
            self.reasons.setdefault(error.message)
            return False

    def _cost(self, value: int, grid: Grid) -> int:
        """The elements at a grid; 64 products of a sum count as one."""
        instruction = self.values[value].instruction
        assert instruction is not None
        products = arithmetic_of(instruction, lambda _: NOTHING, as_xla=False).flops // 128
        return size(grid) + products * size(grid) // max(_size(instruction.shape), 1)

    def _sample(self, grid: Grid, region: Iterable[int]) -> Grid:
        """Some of the elements: the first and last along each dimension, those beside numbers that the attributes of
        the region name, and others at random."""
        named = {n for value in region for n in self._numbers_of(value)}
        rng = np.random.default_rng([self._seed, len(grid)])
        found: list[Array] = []
        count = _ALONG
        while np.prod([min(len(along), 2 * count) for along in grid]) <= _SAMPLE and count < _SAMPLE:
            count *= 2
        for along in grid:
            n = len(along)
            if n > count:
                near = np.array([i for i in (0, 1, n - 2, n - 1, *sorted(named)) if 0 <= i < n][: count - 4])
                along = np.unique(np.concatenate([near, rng.choice(n, count - len(near), replace=False)]))
            found.append(along)
        return tuple(found)

    def _numbers_of(self, value: int) -> Iterable[int]:
        """Numbers of an instruction beside which elements are treated in another way."""
        instruction = self.values[value].instruction
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

    def _agree_in(
        self, goals: tuple[int, int], goal: Grid, region: set[int], grids: dict[int, Grid], draw: int
    ) -> bool:
        domain = Field(self._seed + draw, self._numbers)
        machine = Machine(domain, self._devices.number, partitioned=self._devices.are_partitions)
        known: dict[int, Spread] = {}
        # The operands of a value have lower numbers.
        for value in sorted(grids):
            made = self.values[value]
            if value in known:
                continue
            if value not in region:
                known[value] = self._drawn(value, grids[value], draw)
                continue
            assert made.instruction is not None
            operands = [self._bundled(known, term) for term in made.terms]
            read = reads(made.instruction, grids[value])
            if read is not None:
                held = [grids[operand] for operand in self._operands(value)]
                given = [[taken(x, h, r) for x in o] for o, h, r in zip(operands, held, read, strict=True)]
                known[value] = apply_at(machine, made.instruction, given, read, grids[value])
                continue
            spread = machine.apply(made.instruction, operands)
            for leaf in range(len(list(made.instruction.shape.leaves()))):
                each = value - made.leaf + leaf
                if each in grids:
                    whole = every(self.values[each].shape)
                    known[each] = [taken(leaves(x)[leaf], whole, grids[each]) for x in spread]
        return len({tuple([digest_of(domain, taken(x, grids[g], goal)) for x in known[g]]) for g in goals}) == 1

    def _needed(self, goals: tuple[int, int], region: set[int], grid: Grid) -> dict[int, Grid]:
        """The elements of values that the goals' elements at a grid are computed from."""
        found = dict.fromkeys(goals, grid)
        pending = [-value for value in goals]
        heapify(pending)
        while pending:
            value = -heappop(pending)
            if value not in region or (pending and pending[0] == -value):
                continue
            instruction = self.values[value].instruction
            assert instruction is not None
            operands = self._operands(value)
            read = reads(instruction, found[value]) or [every(self.values[o].shape) for o in operands]
            for operand, more in zip(operands, read, strict=True):
                found[operand] = joined([found[operand], more]) if operand in found else more
                heappush(pending, -operand)
        return found

    def _bundled(self, known: dict[int, Spread], term: Term) -> Spread:
        if not isinstance(term, tuple):
            return known[self._find(term)]
        parts = [self._bundled(known, part) for part in cast("tuple[Term, ...]", term)]
        return [tuple([at(p, device) for p in parts]) for device in range(max(map(len, parts), default=1))]

    def _drawn(self, value: int, grid: Grid, draw: int) -> Spread:
        shape = self.values[value].shape
        if shape.is_token:
            return [np.asarray(1.0)]
        places = np.ravel_multi_index(np.ix_(*grid), shape.dimensions) if grid else np.zeros((), np.int64)
        return [
            random(shape, np.asarray(places), int(mixed(np.array([value]), 64 * self._seed + draw)[0] >> 1) + device)
            for device in range(self._devices.number)
        ]


def _size(shape: Shape) -> int:
    return int(np.prod(shape.dimensions, dtype=np.int64)) if shape.is_array else 1
