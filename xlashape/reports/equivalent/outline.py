"""Outline: large programs as expressions, of which only the parts that differ are evaluated.

Two outputs are compared from their roots down to where other operations stand on both sides. Such a pair must be equal:
it is evaluated from the nearest values that both sides share, which are drawn at random. If it differs, the cut may be
too tight, since what made a shared value was used: then more of it is computed. If it differs still, the values that
are made of the pair are compared in its place. Values that were shown to be equal are one from there on.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from heapq import heapify, heappop, heappush
from typing import Any, Final, TypeAlias

import numpy as np

from xlashape.errors import LimitExceededError, UnsupportedError
from xlashape.evaluation.domains.field import Field
from xlashape.evaluation.domains.modular import mixed
from xlashape.evaluation.domains.numbers import FieldNumbers
from xlashape.evaluation.elementwise import is_real
from xlashape.evaluation.machine import Machine, Spread, dtype_of
from xlashape.evaluation.partial import Grid, every, size
from xlashape.evaluation.run_module import DeviceCount
from xlashape.hlo import HloComputation, HloInstruction, Opcode
from xlashape.hlo.ops.operation import ReadPattern
from xlashape.hlo.values.sharding import Sharding
from xlashape.limits import budget, spend
from xlashape.reports.equivalent.ledger import digest_of, random
from xlashape.reports.equivalent.parts import OutlinedValue, Part, computed_by, steps_of
from xlashape.reports.equivalent.terms import Ran, Term, Terms, arguments_of, by_name, leaves_of
from xlashape.shape import Shape

_FEW: Final = 64
_ROUNDS: Final = ((0, _FEW), (1, _FEW), (0, None), (1, None), (2, None))
"""How often more of a region is computed, and the most values of a region. Large ones come last: most belong to pairs
of values that have nothing to do with each other, and may not matter any more.
"""
_ENOUGH: Final = 1 << 12
"""Elements of which one draw is enough: the chance that all agree by accident is small."""
_OF_SCALARS: Final = 6
"""Draws, where a part takes a scalar integer of the parameters: each draw has one value of it."""
_STEPS: Final = 10_000_000
"""The most steps that the comparison of two modules takes; a step is about a microsecond."""
_STEPS_OF_PART: Final = 60_000
"""The most instructions that a part runs in a draw: iterations of loops times instructions."""
_WHOLE: Final = 1 << 17
"""Elements and products of a region, of 64 each: of larger ones a sample of elements is evaluated."""
_MOST: Final = 1 << 23
"""As _WHOLE, of a region that is evaluated."""


Pair: TypeAlias = "tuple[int, int]"


class Outline(Terms):
    """The values of modules as expressions."""

    def __init__(self, devices: DeviceCount, seed: int, corners: Sequence[int] = ()) -> None:
        """`corners` are integers beside which programs may behave differently."""
        super().__init__()
        self._corners = corners
        self.values: list[OutlinedValue] = []
        self._devices = devices
        self._seed = seed
        self._numbers = FieldNumbers()
        self._same: dict[int, int] = {}
        """Value → the equal value that stands for it."""
        self._forms: dict[tuple[Any, ...], str] = {}
        """What two values are computed from, as `_form` → why they are not known to be equal, "" where they are."""
        self._why: dict[Pair, str] = {}
        """Values that could not be shown to be equal → why."""
        self._loops: dict[tuple[Any, ...], dict[int, int]] = {}
        self.shardings: dict[int, Sharding | None] = {}
        """Parameter → how it is divided."""
        self.reasons: dict[str, None] = {}
        """What could not be evaluated."""
        self.is_sampled = False
        """Whether values were taken as equal of which some elements alone were evaluated."""

    def parameter(self, number: int, shape: Shape, sharding: Sharding | None) -> int:
        """The value of an array of the parameters, or of the parts into which it is divided."""
        if (number, sharding) not in self._by_key:
            value = self._by_key[number, sharding] = self._new(
                OutlinedValue(None, (), (), number, shape, False, b"", 0)
            )
            self.shardings[value] = sharding
        return self._by_key[number, sharding]

    def _new(self, value: OutlinedValue) -> int:
        self.values.append(value)
        return len(self.values) - 1

    def made(self, instruction: HloInstruction, operands: list[Term]) -> Term:
        flat = tuple([leaf for term in operands for leaf in leaves_of(term)])
        has_effect = instruction.kind.row.has_effect
        is_constant = not has_effect and all(self.values[leaf].is_constant for leaf in flat)
        signature, computed = self.signature(instruction), computed_by(instruction)
        count = 0

        def term(shape: Shape) -> Term:
            nonlocal count
            if shape.is_tuple:
                return tuple([term(part) for part in shape.tuple_shapes])
            count += 1
            return self._new(
                OutlinedValue(instruction, flat, tuple(operands), count - 1, shape, is_constant, signature, computed)
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
        # Of the same name may also be values that have nothing to do with each other.
        corresponding = self._corresponding(roots, below)
        self._corresponding(named, below)
        # Values are made of values with lower numbers: these have been compared.
        pairs = sorted(below)
        try:
            with budget(steps=_STEPS, subject="a large program"):
                for wider, most in _ROUNDS:
                    pairs = self._failed(pairs, below, wider, most)
                    if all(self.are_same(x, y) for x, y in roots):
                        return None
        except LimitExceededError as error:
            self.reasons.setdefault(error.message)
        told = [pair for pair in corresponding if self._opcode(pair[0]) is self._opcode(pair[1]) is not None]
        return next((pair for pair in [*told, *roots] if not self.are_same(*pair)), roots[0])

    def _opcode(self, value: int) -> Any:
        instruction = self.values[value].instruction
        return None if instruction is None else instruction.opcode

    def _corresponding(self, pending: Iterable[Pair], below: dict[Pair, list[Pair] | None]) -> list[Pair]:
        """The pairs, and those of operands of pairs of the same operation, in the order of their values. They are added
        to `below`: each with those that it follows from, None for one that does not follow from others."""
        found: list[Pair] = []
        pending = list(pending)
        while pending:
            pair = pending.pop()
            a, b = (self.values[i] for i in pair)
            if pair in below or self.find(pair[0]) == self.find(pair[1]) or a.shape.dimensions != b.shape.dimensions:
                continue
            alike = a.signature == b.signature != b"" and a.leaf == b.leaf and len(a.operands) == len(b.operands)
            operands = list(zip(a.operands, b.operands, strict=False))
            below[pair] = operands if alike else None
            found.append(pair)
            if alike or _are_calls(a, b):
                pending += operands
        return sorted(found)

    def _failed(
        self,
        pairs: Iterable[tuple[int, int]],
        below: Mapping[tuple[int, int], Sequence[tuple[int, int]] | None],
        wider: int,
        most: int | None,
    ) -> list[tuple[int, int]]:
        """The pairs that could not be shown to be equal. All others are one value from there on."""
        failed: list[tuple[int, int]] = []
        for pair in pairs:
            operands = below[pair]
            is_same = operands is not None and all(self.are_same(x, y) for x, y in operands)
            if is_same or self._are_equal(*pair, wider, most):
                # The lower number stands for both, so that values are made of lower ones.
                low, high = sorted(map(self.find, pair))
                if low != high:  # earlier pairs may have made them one
                    self._same[high] = low
            else:
                failed.append(pair)
        return failed

    def undecided(self, pair: Pair) -> str:
        """Which two values could not be shown to be equal, and why."""
        one, other = (self.values[value] for value in pair)
        names = [made.instruction.name if made.instruction else "a parameter" for made in (one, other)]
        why = self._why.get((self.find(pair[0]), self.find(pair[1])), "")
        if _are_calls(one, other):
            why = f"they are loops or branches, with {len(one.operands)} and {len(other.operands)} arrays"
        return f"{names[0]} and {names[1]} could not be shown to be equal" + (f": {why}" if why else "")

    def are_same(self, one: int, other: int) -> bool:
        """Whether two values are known to be equal."""
        return self.find(one) == self.find(other)

    def from_parameters(self, goals: Iterable[int]) -> Part:
        """The computation of values from parameters alone."""
        return Part.below(self.values, goals, lambda value: self.values[value].instruction is None, lambda value: value)

    def find(self, value: int) -> int:
        """The value that stands for a value, and for all that are known to be equal to it."""
        same = self._same
        while (lower := same.get(value)) is not None:
            same[value] = same.get(lower, lower)
            value = lower
        return value

    def _operands(self, value: int) -> list[int]:
        """What a value is made of, where equal values are one."""
        return [self.find(operand) for operand in self.values[value].operands]

    def _are_equal(self, one: int, other: int, wider: int, most: int | None) -> bool:
        one, other = self.find(one), self.find(other)
        if one == other or self._calls_agree(self.values[one], self.values[other]):
            return True
        opened: set[int] = set()
        part = self._part(one, other, opened, most)
        for _ in range(wider):
            if part is not None:
                opened |= part.edge
                part = self._part(one, other, opened, most)
        if part is None:
            return False
        key = self._form((one, other), part.region)
        if key not in self._forms:
            self._forms[key] = self._difference(one, other, part)
        self._why[one, other] = self._forms[key]
        return not self._forms[key]

    # -- loops and branches ------------------------------------------------------------------------

    def _calls_agree(self, a: OutlinedValue, b: OutlinedValue) -> bool:
        """Whether two results of loops are equal since one iteration of the loops is, or those of conditionals since
        their branches are."""
        if a.instruction is None or b.instruction is None or a.instruction.opcode is not b.instruction.opcode:
            return False
        if a.instruction.opcode is Opcode.WHILE:
            return self._carried(a, b).get(b.leaf) == a.leaf
        if a.instruction.opcode is not Opcode.CONDITIONAL or len(a.terms) != len(b.terms):
            return False
        if not self.are_same(a.operands[0], b.operands[0]):
            return False
        branches = [made.instruction.called_computations for made in (a, b) if made.instruction is not None]
        return all(
            self._same_after(one, leaves_of(x), other, leaves_of(y), [(a.leaf, b.leaf)]) == [True]
            for one, other, x, y in zip(*branches, a.terms[1:], b.terms[1:], strict=True)
        )

    def _carried(self, a: OutlinedValue, b: OutlinedValue) -> dict[int, int]:
        """The arrays of the state of one loop that are equal before each iteration to arrays of another one, and after
        the last: those that are equal at the start, and after an iteration if they were before. What an iteration hands
        on as it is has the value of the start."""
        assert a.instruction is not None and b.instruction is not None
        starts = [[self.find(value) for value in made.operands] for made in (a, b)]
        key = (a.signature, b.signature, *map(tuple, starts))
        found = self._loops.get(key)
        if found is not None:
            return found
        self._loops[key] = {}
        bodies, conditions = zip(a.instruction.called_computations, b.instruction.called_computations, strict=True)
        states: list[list[int]] = []
        for side, body in enumerate(bodies):
            shapes = [leaf for parameter in body.parameters for leaf in parameter.shape.leaves()]
            state = [
                self._new(OutlinedValue(None, (), (), number, shape, False, b"", 0))
                for number, shape in enumerate(shapes)
            ]
            after = leaves_of(self.run(body, arguments_of(body, state), []))
            states.append([start if x == y else x for x, y, start in zip(state, after, starts[side], strict=True)])
        related: dict[int, int] = {}
        for j, start in enumerate(starts[1]):
            alike = [i for i, x in enumerate(starts[0]) if x == start and i not in related.values()]
            if alike:
                related[j] = j if j in alike else alike[0]
        while related:
            other = [states[0][related[j]] if j in related else x for j, x in enumerate(states[1])]
            # Conditions must be the same expression: for how long they hold, some numbers do not show.
            tests = [
                leaves_of(self.run(condition, arguments_of(condition, state), []))
                for condition, state in zip(conditions, (states[0], other), strict=True)
            ]
            if not self.are_same(tests[0][0], tests[1][0]):
                return {}
            pairs = [(i, j) for j, i in related.items()]
            same = self._same_after(bodies[0], states[0], bodies[1], other, pairs)
            kept = {j: i for (i, j), is_same in zip(pairs, same, strict=True) if is_same}
            if kept == related:
                self._loops[key] = related
                break
            related = kept
        return related

    def _same_after(
        self, one: HloComputation, x: Iterable[int], other: HloComputation, y: Iterable[int], pairs: Sequence[Pair]
    ) -> list[bool]:
        """Whether arrays of the results of two computations, by their numbers, are equal for these arguments."""
        logs: tuple[list[Ran], list[Ran]] = ([], [])
        roots = [
            leaves_of(self.run(computation, arguments_of(computation, flat), log))
            for computation, flat, log in zip((one, other), (x, y), logs, strict=True)
        ]
        names = [by_name(log) for log in logs]
        alike = [(names[0][name], value) for name, value in names[1].items() if name in names[0]]
        first, second = ([root[at[side]] for at in pairs] for side, root in enumerate(roots))
        self.unequal(first, second, alike)
        return list(map(self.are_same, first, second))

    def _part(self, one: int, other: int, opened: Set[int], most: int | None) -> Part | None:
        """What two values are computed from: down to the nearest values that both are made of, but for those that are
        `opened`, which are computed too. Integers, predicates, constants, and what only moves elements are computed.
        None for more than `most` values.

        Values are looked at in descending order, so after all that is made of them. What is made of a value that is
        given is looked at for as long as something is to be computed that it may have been made of too.
        """
        values = self.values
        reached = {one: 1}
        reached[other] = reached.get(other, 0) | 2
        needed = {value for value in reached if values[value].instruction is not None}
        region, edge = set[int](), set[int]()
        pending = [-value for value in needed]
        heapify(pending)
        count = len(needed)
        """How many values of `needed` are pending."""
        while count and (most is None or len(region) <= most):
            value = -heappop(pending)
            made, side, is_needed = values[value], reached[value], value in needed
            if is_needed:
                count -= 1
                if side == 3 and value not in opened and self._may_be_given(made):
                    edge.add(value)
                    is_needed = False
                else:
                    region.add(value)
            for operand in self._operands(value):
                under = values[operand]
                if under.instruction is None:
                    continue
                if under.is_constant:
                    if is_needed:
                        self._add_constant(operand, region)
                    continue
                if operand not in reached:
                    reached[operand] = 0
                    heappush(pending, -operand)
                reached[operand] |= side
                if is_needed and operand not in needed:
                    needed.add(operand)
                    count += 1
        spend(4 * len(reached))
        return None if count else Part(values, region, edge, self.find)

    def _add_constant(self, value: int, region: set[int]) -> None:
        """Adds a constant and all that it is made of."""
        pending = [value]
        while pending:
            value = pending.pop()
            if value not in region:
                region.add(value)
                pending += self._operands(value)

    @staticmethod
    def _may_be_given(made: OutlinedValue) -> bool:
        """Whether a value can be drawn: not an integer, a predicate, or what only moves elements."""
        assert made.instruction is not None
        if len(made.operands) == 1 and made.instruction.kind.row.reads in (ReadPattern.EACH_ONCE, ReadPattern.ONE):
            return False
        return made.shape.is_array and (is_real(made.shape.element_type) or made.shape.element_type.is_complex)

    def _form(self, goals: tuple[int, int], region: Set[int]) -> tuple[Any, ...]:
        """What is computed, in the order of its values: the layers of a model have equal forms."""
        places: dict[int, int] = {}
        form: list[Any] = []
        pending = list(reversed(goals))
        while pending:
            value = pending[-1]
            made = self.values[value]
            if value in places:
                pending.pop()
            elif value not in region:
                places[value] = len(places)
                form.append((made.shape.element_type, made.shape.dimensions))
            elif missing := [i for i in self._operands(value) if i not in places]:
                pending += reversed(missing)
            else:
                places[value] = len(places)
                form.append((made.signature, made.leaf, *[places[i] for i in self._operands(value)]))
        return (*form, *[places[goal] for goal in goals])

    def _difference(self, one: int, other: int, part: Part) -> str:
        """Why two values are not known to be equal; "" where they are."""
        spend(32 * len(part.region))
        goal = every(self.values[one].shape)
        try:
            with np.errstate(all="ignore"):
                if part.cost() > _WHOLE:
                    chosen = part.chosen(
                        self._machine(self.field(0)),
                        lambda v, g: self._drawn(v, g, 0),
                        max(map(len, goal), default=0),
                        self._seed,
                    )
                    goal = part.sample(goal, self._seed, chosen)
                    self.is_sampled = True
                goals = {one: goal, other: goal}
                grids = part.needed(goals)
                cost = part.cost(grids)
                if cost > _MOST:
                    return f"{cost:,} elements are computed for them, of {_MOST:,} allowed"
                draws = 1 if size(goal) >= _ENOUGH else 2
                if any(self._is_scalar_integer(value) for value in grids):
                    draws = _OF_SCALARS
                for draw in range(draws):
                    spend(steps_of(cost))
                    if not self._agree_in(part, goals, grids, draw):
                        return "they differ for some values of what both are made of"
                return ""
        except (UnsupportedError, LimitExceededError) as error:
            self.reasons.setdefault(error.message)
            return error.message

    def _is_scalar_integer(self, value: int) -> bool:
        """Whether a value is a parameter of which a draw has one integer alone."""
        shape = self.values[value].shape
        return value in self.shardings and shape.is_array and not shape.rank and shape.element_type.is_integral

    def field(self, draw: int) -> Field:
        """The domain of a draw."""
        return Field(self._seed + draw, self._numbers)

    def _agree_in(self, part: Part, goals: Mapping[int, Grid], grids: Mapping[int, Grid], draw: int) -> bool:
        domain = self.field(draw)
        with budget(steps=_STEPS_OF_PART, subject="a part of a large program"):
            found = part.evaluated(self._machine(domain), goals, grids, lambda v, g: self._drawn(v, g, draw))
        return len({tuple([digest_of(domain, x) for x in spread]) for spread in found.values()}) == 1

    def _machine(self, domain: Field) -> Machine:
        return Machine(domain, self._devices.number, partitioned=self._devices.are_partitions)

    def _drawn(self, value: int, grid: Grid, draw: int) -> Spread:
        shape = self.values[value].shape
        if shape.is_token:
            return [np.asarray(1.0)]
        places = np.asarray(np.ravel_multi_index(np.ix_(*grid), shape.dimensions) if grid else np.zeros((), np.int64))
        seed = int(mixed(np.array([value]), 64 * self._seed + draw)[0] >> 1)
        found = [random(shape, places, seed + device) for device in range(self._devices.number)]
        if value in self.shardings and shape.element_type.is_integral and self._corners:
            # The state of a loop is left in range: compilers know how often it runs.
            which = mixed(places, seed ^ 1)
            pool = np.array(self._corners).astype(dtype_of(shape))
            is_corner = (which & 3) == 0 if shape.rank else np.asarray(draw > 0)
            found = [np.where(is_corner, pool[which % np.uint64(pool.size)], x) for x in found]
        return found


def _are_calls(a: OutlinedValue, b: OutlinedValue) -> bool:
    """Whether both are results of loops, or of conditionals."""
    opcodes = {None if made.instruction is None else made.instruction.opcode for made in (a, b)}
    return opcodes in ({Opcode.WHILE}, {Opcode.CONDITIONAL})
