"""Outline: large programs as expressions, of which only the parts that differ are evaluated.

Two outputs are compared from their roots down to where other operations stand on both sides. Such a pair must be equal:
it is evaluated from the nearest values that both sides share, which are drawn at random. If it differs, the cut may be
too tight, since what made a shared value was used: then more of it is computed. If it differs still, the values that
are made of the pair are compared in its place. Values that were shown to be equal are one from there on.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple, cast

import numpy as np

from xlashape.errors import LimitExceededError, UnsupportedError
from xlashape.evaluation.domains.field import Field
from xlashape.evaluation.domains.modular import P
from xlashape.evaluation.domains.numbers import FieldNumbers
from xlashape.evaluation.elementwise import is_real
from xlashape.evaluation.machine import Machine, Spread, at, leaves
from xlashape.evaluation.run_module import DeviceCount
from xlashape.hlo import HloInstruction
from xlashape.limits import budget
from xlashape.reports.equivalent.ledger import digest_of
from xlashape.reports.equivalent.terms import Term, Terms, leaves_of
from xlashape.shape import Shape

_WIDER: Final = 3
"""How often more of a region is computed."""
_FAILURES: Final = 8
"""Pairs that could not be shown to be equal, after which no others are tried."""
_ELEMENTS: Final = 1 << 28
"""The most elements of the values of a region."""
_STEPS: Final = 100_000
_ENOUGH: Final = 1 << 12


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
            if pair in below or self._find(pair[0]) == self._find(pair[1]):
                continue
            a, b = (self.values[i] for i in pair)
            alike = a.signature == b.signature != b"" and a.leaf == b.leaf and len(a.operands) == len(b.operands)
            below[pair] = list(zip(a.operands, b.operands, strict=True)) if alike else None
            pending += below[pair] or ()
        failed: list[tuple[int, int]] = []
        # Values are made of values with lower numbers: these have been compared.
        for pair in sorted(below):
            operands = below[pair]
            is_same = operands is not None and all(self._find(x) == self._find(y) for x, y in operands)
            if is_same or self._are_equal(*pair):
                self._same[self._find(pair[1])] = self._find(pair[0])
            else:
                failed.append(pair)
                if len(failed) > _FAILURES:
                    break
        return None if all(self._find(x) == self._find(y) for x, y in roots) else failed[0]

    def _find(self, value: int) -> int:
        while value in self._same:
            value = self._same[value]
        return value

    def _operands(self, value: int) -> list[int]:
        """What a value is made of, where equal values are one."""
        return [self._find(operand) for operand in self.values[value].operands]

    def _are_equal(self, one: int, other: int) -> bool:
        if self.values[one].shape.dimensions != self.values[other].shape.dimensions:
            return False
        one, other = self._find(one), self._find(other)
        shared = self._made_of(one) & self._made_of(other)
        for _ in range(_WIDER):
            region, edge = self._region((one, other), shared)
            if sum(_size(self.values[i].shape) for i in region) > _ELEMENTS:
                return False
            key = self._form((one, other), shared)
            if key not in self._forms:
                self._forms[key] = self._agree(one, other, shared)
            if self._forms[key]:
                return True
            if not edge:
                return False
            shared -= edge
        return False

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
        """Whether a value is drawn: integers, predicates and constants are computed."""
        made = self.values[value]
        if made.instruction is None:
            return True
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
        try:
            # In a large region one draw is enough: the chance that all elements agree by accident is small.
            draws = 1 if _size(self.values[one].shape) >= _ENOUGH else 2
            return all(self._agree_in(one, other, shared, draw) for draw in range(draws))
        except (UnsupportedError, LimitExceededError):
            return False

    def _agree_in(self, one: int, other: int, shared: set[int], draw: int) -> bool:
        domain = Field(self._seed + draw, self._numbers)
        machine = Machine(domain, self._devices.number, partitioned=self._devices.are_partitions)
        known: dict[int, Spread] = {}
        for goal in (one, other):
            pending = [goal]
            while pending:
                value = pending[-1]
                made = self.values[value]
                if value in known:
                    pending.pop()
                elif self._is_cut(value, shared):
                    known[value] = self._drawn(value, draw)
                elif missing := [i for i in self._operands(value) if i not in known]:
                    pending += missing
                else:
                    assert made.instruction is not None
                    with np.errstate(all="ignore"), budget(steps=_STEPS):
                        spread = machine.apply(made.instruction, [self._bundled(known, term) for term in made.terms])
                    first = value - made.leaf
                    for i in range(len(list(made.instruction.shape.leaves()))):
                        known.setdefault(first + i, [leaves(x)[i] for x in spread])
        return [digest_of(domain, x) for x in known[one]] == [digest_of(domain, x) for x in known[other]]

    def _bundled(self, known: dict[int, Spread], term: Term) -> Spread:
        if not isinstance(term, tuple):
            return known[self._find(term)]
        parts = [self._bundled(known, part) for part in cast("tuple[Term, ...]", term)]
        return [tuple([at(p, device) for p in parts]) for device in range(max(map(len, parts), default=1))]

    def _drawn(self, value: int, draw: int) -> Spread:
        shape = self.values[value].shape
        rng = np.random.default_rng([self._seed, value, draw])
        kind = shape.element_type
        count = 1 if self._devices.number == 1 else self._devices.number
        if shape.is_token:
            return [np.asarray(1.0)]
        if kind.is_integral:
            return [rng.integers(0, 8, shape.dimensions).astype(kind.numpy_dtype()) for _ in range(count)]
        if kind.text == "pred":
            return [rng.random(shape.dimensions) < 0.5 for _ in range(count)]
        elements = [np.asarray(rng.integers(1, P, shape.dimensions)) for _ in range(count)]
        return [x << 32 | x for x in elements] if kind.is_complex else list(elements)


def _size(shape: Shape) -> int:
    return int(np.prod(shape.dimensions, dtype=np.int64)) if shape.is_array else 1
