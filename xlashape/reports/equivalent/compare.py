"""Compares modules, each with the one before: what a comparison keeps, and its verdicts."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import compress
from typing import Any, Final, NamedTuple

import numpy as np

from xlashape.errors import InvalidArgumentError, LimitExceededError, UnsupportedError
from xlashape.evaluation.custom_calls import shards
from xlashape.evaluation.domains.field import Field
from xlashape.evaluation.domains.numbers import FieldNumbers
from xlashape.evaluation.domains.roundings import Exact, Roundings
from xlashape.evaluation.domains.values import PlainNumbers
from xlashape.evaluation.elementwise import is_real
from xlashape.evaluation.machine import Array, Machine, Spread, at, dtype_of
from xlashape.evaluation.partial import Grid, every
from xlashape.evaluation.run_module import DeviceCount, given, run_module
from xlashape.hlo import HloInstruction, HloModule
from xlashape.hlo.values.sharding import Sharding
from xlashape.limits import Budget, budget, check, spend
from xlashape.reports.equivalent.draws import Draw, draws_for, scaled
from xlashape.reports.equivalent.ledger import Ledger, digest_of
from xlashape.reports.equivalent.outline import Outline
from xlashape.reports.equivalent.partners import Alone, KeyOf, contents, without_partner
from xlashape.reports.equivalent.parts import steps_of
from xlashape.reports.equivalent.program import ComparedProgram
from xlashape.reports.equivalent.sampled import Roots, SampledOutputs, given_by
from xlashape.reports.equivalent.terms import Ran, Term, arguments_of, by_name, leaves_of
from xlashape.shape import Shape

EQUAL: Final = "equal"
OVER_REALS: Final = "equal over the reals"
DIFFERS: Final = "differs"
UNKNOWN: Final = "unknown"

_STEPS: Final = 400_000
"""The most steps that one run with ordinary numbers takes: instructions, and elements and products of large ones."""
_LARGE: Final = 1 << 23
"""Elements of all values: larger programs are evaluated in parts."""
_STEPS_OF_LARGE: Final = 60_000_000
"""The most steps that the comparison of two large programs takes; a step is about a microsecond."""
_CHEAPEST: Final = 8
"""Outputs of large programs among which the one is chosen that takes least."""
_MOST_IN_FIELD: Final = 1 << 25
"""The most elements and products, of 64 each, that a large program is computed from in the field."""
_MOST_ALONE: Final = 1 << 27
"""As _MOST_IN_FIELD, of two large programs that differ, to find where they part."""
_SHOWN: Final = 5
"""The most draws in which ordinary numbers are tried, of those whose elements differ."""
_FURTHER: Final = (4, 6, 8)
"""Further draws of ordinary numbers of both signs, for a difference that no other draw shows."""
_MIXED: Final = 1 << 17
"""Elements that are computed for draws of which the integers are those of one, and the floats those of another."""
_TRIED: Final = 2
"""As _SHOWN, for large programs: numbers of both signs, and positive ones."""
_TOLERANCE: Final = 1e-4
"""Of the greatest element of an output: less is not a difference."""
_GRAINS: Final = {"f64": 2.0**-52, "f32": 2.0**-23, "f16": 2.0**-10, "bf16": 2.0**-7}
_COARSE: Final = 0.25
"""As _GRAINS, of all other types."""
_PLAIN: Final = 0.1
"""Of the larger value: for a smaller difference, numbers of other sizes are tried too."""
_LEAST: Final = 1e-30
"""Less is no difference between very small numbers, which approximations may take for 0."""
_SCALED: Final = 1 << 23
"""Elements that are computed for draws of numbers of other sizes. There is one draw in any case."""
_APPROXIMATE: Final = "the modules differ as formulas, and agree on ordinary numbers: perhaps an approximation"
_AGREE: Final = "the modules differ as formulas, and agree on the numbers that were tried"
_MARGIN: Final = 16
"""Times the difference that rounding makes: less is not a difference."""


class Difference(NamedTuple):
    """An element of an output that differs."""

    output: int
    element: tuple[int, ...]
    a_value: Any
    b_value: Any
    inputs: list[Array]
    device: int | None

    @property
    def share(self) -> float:
        """The difference beside the larger value."""
        one, other = self.a_value, self.b_value
        return float(abs(one - other) / (max(abs(one), abs(other)) or 1)) if np.asarray(one).dtype.kind in "fc" else 1.0


@dataclass
class Verdict:
    """What a comparison found."""

    verdict: str
    reasons: list[str] = field(default_factory=list[str])
    difference: Difference | None = None
    alone: Alone = field(default_factory=Alone)
    """What has no partner, where the verdict is not equal."""
    constants: list[str] = field(default_factory=list[str])
    """The constants that make the difference."""
    inputs: str = "ordinary inputs"
    """What kind of inputs show the difference."""
    is_sampled: bool = False
    """Whether of large parts some elements alone were compared."""

    @property
    def instruction(self) -> HloInstruction | None:
        """The first instruction of the second program whose value has no partner."""
        return self.alone.b


class Comparison:
    """The draws and values that the comparisons of several modules share."""

    def __init__(self, modules: Sequence[HloModule], seed: int = 0) -> None:
        """`modules` has the first module, and others whose constants say what the corners of integers are."""
        self.whole = ComparedProgram(modules[0])
        devices = [DeviceCount.of(module) for module in modules]
        self.devices = max(devices, key=lambda d: d.number)
        self.draws: list[Draw] = draws_for(modules, seed)
        self._grain = 0.0
        corners = next((draw.corners for draw in self.draws if draw.corners), ())
        self._outline = Outline(self.devices, seed, corners) if _elements(modules[0]) > _LARGE else None
        exact, numbers = Exact(), FieldNumbers()
        roundings = {d.base: Roundings(2 * d.base + 1, exact) for d in self.draws}
        fields = {d.base: Field(2 * d.base + 2, numbers) for d in self.draws}
        self._ledgers: dict[type[Field], Ledger] = {
            Roundings: Ledger([roundings[d.base] for d in self.draws], self.devices),
            Field: Ledger([fields[d.base] for d in self.draws], self.devices),
        }

    def _learn(self, program: ComparedProgram) -> None:
        """Takes shardings that the first module leaves to the compiler from a later one that is not divided yet."""
        if self._sizes(program.inputs + program.outputs) == self._sizes(self.whole.inputs + self.whole.outputs):
            for known, said in (
                (self.whole.input_shardings, program.input_shardings),
                (self.whole.output_shardings, program.output_shardings),
            ):
                known[:] = [one or other for one, other in zip(known, said, strict=True)]

    # -- terms -------------------------------------------------------------------------------------

    def _is_divided(self, program: ComparedProgram) -> bool:
        """Whether a module is the partitioned one of the first module. Older partitioners leave shardings at it."""
        if program is self.whole or self.devices.number == 1:
            return False
        if self._sizes(program.inputs + program.outputs) != self._sizes(self.whole.inputs + self.whole.outputs):
            return True
        return any(self.whole.input_shardings) and not any(program.input_shardings)

    @staticmethod
    def _sizes(shapes: Sequence[Shape]) -> list[tuple[int, ...]]:
        return [tuple(shape.dimensions) if shape.is_array else () for shape in shapes]

    def _input(self, parameter: int, draw: Draw, *, domain: Field | None) -> Array:
        shape = self.whole.inputs[parameter]
        if domain is None:
            return draw.ordinary(parameter, shape)
        if shape.is_token:
            return np.zeros(())
        if is_real(shape.element_type) or shape.element_type.is_complex:
            return draw.elements(parameter, shape)
        return draw.integers(parameter, shape)

    def _parts(self, program: ComparedProgram, parameter: int, x: Array) -> Spread:
        """An input of the first module as the input of a module."""
        sharding = self.whole.input_shardings[parameter]
        if not self._is_divided(program) or sharding is None:
            return [x]
        return shards([x], sharding, self.whole.inputs[parameter], self.devices.number)

    def _fits(self, program: ComparedProgram) -> str | None:
        """Why a module does not take the inputs of the first, or give its outputs."""
        divided = self._is_divided(program)
        for name, own, other, shardings in (
            ("input", program.inputs, self.whole.inputs, self.whole.input_shardings),
            ("output", program.outputs, self.whole.outputs, self.whole.output_shardings),
        ):
            if len(own) != len(other):
                return f"the modules have {len(other)} and {len(own)} {name}s"
            for number, (one, first, sharding) in enumerate(zip(own, other, shardings, strict=True)):
                wanted = sharding.shard_shape(first) if divided and sharding is not None else first
                if one.is_token and wanted.is_token:
                    continue
                if one.dimensions != wanted.dimensions or one.element_type is not wanted.element_type:
                    return f"{name} {number} is {first} in one module and {one} in the other"
        return None

    def _ran(self, program: ComparedProgram, kind: type[Field]) -> tuple[list[Term], list[Ran]]:
        """The terms of a module's outputs, and of its instructions."""
        found = program.terms.get(kind)
        if found is None:
            ledger = self._ledgers[kind]
            flat = [self._parameter(program, parameter, ledger) for parameter in range(len(program.inputs))]
            log: list[Ran] = []
            arguments = arguments_of(program.module.entry, flat)
            root = ledger.run(program.module.entry, arguments, log)
            found = program.terms[kind] = (leaves_of(root), log)
        return found

    def _parameter(self, program: ComparedProgram, parameter: int, ledger: Ledger) -> Term:
        sharding = self.whole.input_shardings[parameter] if self._is_divided(program) else None
        made: dict[int, Spread] = {}
        shape = self.whole.inputs[parameter]
        is_integer = shape.is_array and not (is_real(shape.element_type) or shape.element_type.is_complex)

        def make(number: int) -> Spread:
            draw = self.draws[number]
            which = draw.number if is_integer else draw.base
            if which not in made:
                made[which] = self._parts(
                    program, parameter, self._input(parameter, draw, domain=ledger.domain(number))
                )
            return made[which]

        return ledger.leaf(("parameter", parameter, sharding), shape.element_type, make)

    def _outputs(self, program: ComparedProgram, kind: type[Field], beside: ComparedProgram) -> list[Term]:
        """The terms of the outputs, divided if those of `beside` are."""
        terms = self._ran(program, kind)[0]
        if self._is_divided(program) == self._is_divided(beside):
            return terms
        ledger, found = self._ledgers[kind], list[Term]()
        for number, term in enumerate(terms):
            sharding = self.whole.output_shardings[number]
            if sharding is not None:
                shape = self.whole.outputs[number]
                is_divided = self._is_divided(program)
                spreads = [
                    self._divided(ledger.spread(term, d), sharding, shape, is_divided) for d in range(len(self.draws))
                ]
                term = ledger.put(spreads, shape.element_type)
            found.append(term)
        return found

    def _divided(self, spread: Spread, sharding: Sharding, shape: Shape, is_divided: bool) -> Spread:
        """The parts of an output. Padding of the last ones counts as zeros."""
        if not is_divided:
            return shards(spread, sharding, shape, self.devices.number)
        if sharding.tile_counts is None:
            return spread
        found: Spread = []
        for device in range(self.devices.number):
            tile, x = sharding.tile_of(device, shape), np.asarray(at(spread, device))
            part = np.zeros_like(x)
            if tile is not None:
                inside = tuple([slice(0, n) for n in tile.sizes])
                part[inside] = x[inside]
            found.append(part)
        return found

    # -- verdicts ----------------------------------------------------------------------------------

    def compare(self, a: ComparedProgram, b: ComparedProgram) -> Verdict:
        """The verdict on two modules. One of them may be partitioned."""
        for program in (a, b):
            self._learn(program)
            why = self._fits(program)
            if why is not None:
                raise InvalidArgumentError(f"the modules cannot be compared: {why}", field="b")
        if self._outline is not None:
            with budget(steps=_STEPS_OF_LARGE, subject="two large programs") as left:
                return self._compare_outlines(a, b, self._outline, left)
        for kind, verdict in ((Roundings, EQUAL), (Field, OVER_REALS)):
            if self._outputs(a, kind, b) == self._outputs(b, kind, a):
                return Verdict(verdict)
        ledger = self._ledgers[Field]
        one, other = self._outputs(a, Field, b), self._outputs(b, Field, a)
        draws = [
            d
            for d in range(len(self.draws))
            if any(not _same(ledger, x, y, d) for x, y in zip(one, other, strict=True))
        ]
        reasons: list[str] = []
        # The signs of ordinary numbers are not those of elements: any draw may show it, or none of a few.
        tried = [self.draws[d] for d in draws[:: -(-len(draws) // _SHOWN) or 1]]
        others = [draw for draw in self.draws if not draw.corners]
        others += [self.draws[0]._replace(number=n, base=n) for n in _FURTHER]
        # Integers with which formulas differ, beside other floats, for as long as that costs little.
        mixed = [self.draws[d]._replace(base=n) for n in (1, *_FURTHER) for d in draws]
        others += mixed[: int(_MIXED // max(_elements(a.module), 1))]
        parting = draws[0] if draws else 0
        for draw in dict.fromkeys([*tried, *others] if draws else []):
            if reasons and draw not in tried:
                break
            try:
                found = self._shown(a, b, draw)
            except (UnsupportedError, LimitExceededError) as error:
                reasons.append(error.message)
                continue
            if found is not None:
                return self._differing(a, b, found, self._alone(a, b, parting), draw)
        if not draws:
            return Verdict(UNKNOWN, list(dict.fromkeys([*ledger.reasons, *reasons])) or [_APPROXIMATE])
        alone = self._alone(a, b, parting)
        if not reasons:
            limit = max(1, int(_SCALED // max(_elements(a.module), 1)))
            shown = self.shown_with(a, b, scaled(self.draws[0], alone.numbers())[:limit])
            if shown is not None:
                return self._differing(a, b, shown[0], alone, shown[1])
        alone, constants = self._constants(a, b, alone)
        reasons = list(dict.fromkeys([*ledger.reasons, *reasons])) or [_AGREE if constants else _APPROXIMATE]
        return Verdict(UNKNOWN, [*reasons, *constants], alone=alone)

    def shown_with(
        self, a: ComparedProgram, b: ComparedProgram, draws: Sequence[Draw]
    ) -> tuple[Difference, Draw] | None:
        """What the first of some draws of numbers of other sizes shows, and that draw; of small differences the largest
        one."""
        self._grain = grain_of([a.module, b.module])
        most: tuple[Difference, Draw] | None = None
        with suppress(UnsupportedError, LimitExceededError):
            for draw in draws:
                found = self._shown(a, b, draw)
                if found is not None and (most is None or found.share > most[0].share):
                    most = found, draw
                if most is not None and most[0].share >= _PLAIN:
                    break
        return most

    def _differing(
        self, a: ComparedProgram, b: ComparedProgram, found: Difference, alone: Alone, draw: Draw
    ) -> Verdict:
        alone, constants = self._constants(a, b, alone)
        return Verdict(DIFFERS, difference=found, alone=alone, constants=constants, inputs=draw.words)

    def _compare_outlines(self, a: ComparedProgram, b: ComparedProgram, outline: Outline, left: Budget) -> Verdict:
        self._run_outline(a, outline)
        self._run_outline(b, outline)
        roots = (a.outline or [], b.outline or [])
        if roots[0] == roots[1]:
            return Verdict(EQUAL, is_sampled=outline.is_sampled)
        divided = (self._is_divided(a), self._is_divided(b))
        alone, constants, inputs = Alone(), list[str](), self.draws[0].words
        reasons: list[str] = []
        found: Difference | None = None
        try:
            if divided[0] != divided[1]:
                if self._agree_on_samples(outline, roots, divided):
                    return Verdict(OVER_REALS, is_sampled=True)
                alone = self._alone_in(outline, a, b, None)
            else:
                unequal = outline.unequal(*roots, _of_one_name(a, b))
                if unequal is None:
                    return Verdict(OVER_REALS, is_sampled=outline.is_sampled)
                alone = self._alone_in(outline, a, b, unequal)
                reasons.append(outline.undecided(unequal))
            for draw in self.draws[:_TRIED]:
                found = found or self._shown_in(outline, roots, divided, draw, left)
            more = [] if found is not None else scaled(self.draws[0], alone.numbers())
            self._grain = grain_of([a.module, b.module])
            with suppress(UnsupportedError, LimitExceededError):
                for draw in more:
                    if found is None and left.steps < _STEPS_OF_LARGE // 2:
                        found = self._shown_in(outline, roots, divided, draw, left)
                        inputs = draw.words
            if divided[0] == divided[1]:
                alone, constants = self._constants_in(outline, a, b, alone)
        except (UnsupportedError, LimitExceededError, MemoryError) as error:
            reasons = [*dict.fromkeys([*reasons, *outline.reasons, str(error)])]
            return Verdict(UNKNOWN, reasons, alone=alone)
        if found is not None:
            return Verdict(DIFFERS, difference=found, alone=alone, constants=constants, inputs=inputs)
        return Verdict(UNKNOWN, [*dict.fromkeys([*reasons, *outline.reasons, *constants])], alone=alone)

    def _run_outline(self, program: ComparedProgram, outline: Outline) -> None:
        if program.outline is None:
            shardings = self.whole.input_shardings if self._is_divided(program) else [None] * len(program.inputs)
            flat: list[Term] = [
                outline.parameter(i, *s) for i, s in enumerate(zip(program.inputs, shardings, strict=True))
            ]
            arguments = arguments_of(program.module.entry, flat)
            program.outline = leaves_of(outline.run(program.module.entry, arguments, program.ran))
            program.named = by_name(program.ran)

    def _alone_in(
        self, outline: Outline, a: ComparedProgram, b: ComparedProgram, unequal: tuple[int, int] | None
    ) -> Alone:
        """As `_alone`, of large programs. Where they are too large for that, what made the first pair of values that
        are not known to be equal."""
        pairs = list(zip(a.outline or [], b.outline or [], strict=True))
        differ = [not outline.are_same(*pair) for pair in pairs]
        roots = (list(compress(a.outline or [], differ)), list(compress(b.outline or [], differ)))
        part = outline.from_parameters([*roots[0], *roots[1]])
        made = [None if unequal is None else outline.values[value].instruction for value in unequal or (0, 0)]
        same = without_partner((a.ran, b.ran), roots, outline.find)
        guessed = Alone(made[0], made[1], same.constants, is_first=False)
        if part.cost() > _MOST_ALONE:
            return guessed
        keys: dict[int, tuple[Hashable, Hashable]] = {}
        domain = outline.field(0)

        def seen(value: int, spread: Spread) -> None:
            keys[value] = contents(domain, spread), b"".join([digest_of(domain, x) for x in spread])

        given = given_by(outline, self.whole, self.devices, lambda p: self._input(p, self.draws[0], domain=domain))
        try:
            with np.errstate(all="ignore"), budget(steps=_STEPS_OF_LARGE, subject="two large programs"):
                spend(steps_of(part.cost()))
                machine = Machine(domain, self.devices.number, partitioned=self.devices.are_partitions)
                part.evaluated(machine, {}, part.whole(), given, seen)
        except (UnsupportedError, LimitExceededError, MemoryError):
            return guessed
        for which in range(2):
            found = without_partner(
                (a.ran, b.ran), roots, lambda value, i=which: keys[value][i] if value in keys else value
            )
            if found.a or found.b:
                return found
        return guessed

    def _constants_in(
        self, outline: Outline, a: ComparedProgram, b: ComparedProgram, alone: Alone
    ) -> tuple[Alone, list[str]]:
        """As `_constants`, of large programs."""
        pairs, terms = alone.pairs(), {ran.instruction: ran.term for ran in a.ran}
        if not pairs:
            return alone, []
        if any(each[0].a not in terms for each in pairs):
            return alone.explained(pairs, is_all=False)
        outline.instead = {pair.b: terms[pair.a] for each in pairs for pair in each}
        try:
            changed = ComparedProgram(b.module)
            self._run_outline(changed, outline)
        finally:
            outline.instead = {}
        is_all = outline.unequal(a.outline or [], changed.outline or [], _of_one_name(a, changed)) is None
        return alone.explained(pairs, is_all=is_all)

    def _agree_on_samples(self, outline: Outline, roots: Roots, divided: tuple[bool, bool]) -> bool:
        """Whether a program and the divided form of it have the same elements in the field. They share no values that
        could be drawn in the place of parameters."""
        outputs = [output for output, shape in enumerate(self.whole.outputs) if shape.is_array]
        first = self.draws[0]
        sampled = SampledOutputs(
            outline, self.whole, roots, outputs, divided, self.devices,
            lambda p: self._input(p, first, domain=None), first.seed,
        )  # fmt: skip
        check("elements of a run of a large program and its partitioned form", sampled.cost, _MOST_IN_FIELD)
        for draw in self.draws[:_TRIED]:
            domain = outline.field(draw.number)
            found = sampled.evaluated(domain, lambda p, d=draw, f=domain: self._input(p, d, domain=f))
            for one, other in found.values():
                for device in range(max(len(one), len(other))):
                    if digest_of(domain, at(one, device)) != digest_of(domain, at(other, device)):
                        return False
        return True

    def _alone(self, a: ComparedProgram, b: ComparedProgram, draw: int) -> Alone:
        """What has no partner among the values in a draw: their elements, or else these elements in this order."""
        ledger = self._ledgers[Field]
        (_, one), (_, other) = self._ran(a, Field), self._ran(b, Field)
        differ = [
            not _same(ledger, x, y, draw)
            for x, y in zip(self._outputs(a, Field, b), self._outputs(b, Field, a), strict=True)
        ]
        roots = [list(compress(self._ran(program, Field)[0], differ)) for program in (a, b)]
        kinds: tuple[KeyOf, KeyOf] = (
            lambda value: contents(ledger.domain(draw), ledger.spread(value, draw)),
            lambda value: _key(ledger, value, draw),
        )
        for key_of in kinds:
            found = without_partner((one, other), (roots[0], roots[1]), key_of)
            if found.a or found.b:
                return found
        return Alone()

    def _constants(self, a: ComparedProgram, b: ComparedProgram, alone: Alone) -> tuple[Alone, list[str]]:
        """Which constants make the difference."""
        ledger, pairs = self._ledgers[Field], alone.pairs()
        if not pairs:
            return alone, []
        terms = {ran.instruction: ran.term for ran in self._ran(a, Field)[1]}
        if any(each[0].a not in terms for each in pairs):  # in the body of a loop
            return alone.explained(pairs, is_all=False)
        ledger.instead = {pair.b: terms[pair.a] for each in pairs for pair in each}
        try:
            changed = ComparedProgram(b.module)
            is_all = self._outputs(changed, Field, a) == self._outputs(a, Field, changed)
        finally:
            ledger.instead = {}
        return alone.explained(pairs, is_all=is_all)

    def _shown(self, a: ComparedProgram, b: ComparedProgram, draw: Draw) -> Difference | None:
        """The element that differs most on ordinary numbers; None if none does beyond rounding."""
        inputs = [self._input(p, draw, domain=None) for p in range(len(self.whole.inputs))]
        runs = [[self._numbers(program, inputs, rounds=rounds) for rounds in (False, True)] for program in (a, b)]
        divided = [self._is_divided(program) for program in (a, b)]
        for output, shape in enumerate(self.whole.outputs):
            if not shape.is_array:
                continue
            sharding = self.whole.output_shardings[output]
            spreads = [[run[output] for run in of_program] for of_program in runs]
            if divided[0] != divided[1] and sharding is not None:
                spreads = [
                    [self._divided(s, sharding, shape, d) for s in pair]
                    for pair, d in zip(spreads, divided, strict=True)
                ]
            found = self._witness(output, spreads, every(shape), inputs, draw)
            if found is not None:
                return found
        return None

    def _witness(
        self, output: int, spreads: list[list[Spread]], grid: Grid, inputs: Sequence[Array], draw: Draw
    ) -> Difference | None:
        """The element at a grid of an output that differs most beyond rounding. `spreads` has for each program the
        values without and with roundings."""
        shape, sharding = self.whole.outputs[output], self.whole.output_shardings[output]
        count = max([len(s) for pair in spreads for s in pair])
        for device in range(count):
            (x, x_rounded), (y, y_rounded) = [[np.asarray(at(s, device)) for s in pair] for pair in spreads]
            element = differing(x, y, x_rounded, y_rounded, grain=self._grain if draw.scale != 1 else 0)
            if element is not None:
                place = tuple([int(along[i]) for along, i in zip(grid, element, strict=False)])
                if count > 1 and sharding is not None and (tile := sharding.tile_of(device, shape)) is not None:
                    place = tuple([i + o for i, o in zip(place, tile.offset, strict=True)])
                values = [v[element].astype(dtype_of(shape)) for v in (x, y)]
                return Difference(output, place, values[0], values[1], list(inputs), device if count > 1 else None)
        return None

    def _shown_in(
        self, outline: Outline, roots: Roots, divided: tuple[bool, bool], draw: Draw, left: Budget
    ) -> Difference | None:
        """As `_shown`, of some elements of the outputs that are not known to be equal: first of the output that takes
        least, then of all. If that one takes about as long as all, of all, or of it where all take too long."""
        outputs = [
            output
            for output, pair in enumerate(zip(*roots, strict=True))
            if self.whole.outputs[output].is_array and not outline.are_same(*pair)
        ]
        drawn: dict[int, Array] = {}

        def input_of(parameter: int) -> Array:
            if parameter not in drawn:
                drawn[parameter] = self._input(parameter, draw, domain=None)
            return drawn[parameter]

        def sampled_of(outputs: list[int]) -> SampledOutputs:
            return SampledOutputs(outline, self.whole, roots, outputs, divided, self.devices, input_of, draw.seed)

        # Values are made of values with lower numbers, so outputs of low numbers take little.
        low = sorted(outputs, key=lambda o: max(roots[0][o], roots[1][o]))[:_CHEAPEST]
        least = min(low, key=lambda o: outline.from_parameters([r[o] for r in roots]).cost())
        tried = [sampled_of([least]), sampled_of(outputs)]
        steps = [steps_of(sampled.cost) for sampled in tried]
        if 2 * steps[0] > steps[1]:
            tried = tried[1:] if steps[1] <= _STEPS_OF_LARGE - left.steps else tried[:1]
        for sampled in tried:
            spend(steps_of(sampled.cost))
            runs: list[dict[int, list[Spread]]] = []
            shown: Difference | None = None
            for rounds in (False, True):
                domain = PlainNumbers(rounds=rounds)
                runs.append(sampled.evaluated(domain, lambda p, d=domain: given(d, input_of(p), self.whole.inputs[p])))
                # What is no difference without roundings is none beside them.
                spreads = {o: [[runs[0][o][side], runs[-1][o][side]] for side in range(2)] for o in sampled.grids}
                witnesses = [self._witness(o, spreads[o], grid, (), draw) for o, grid in sampled.grids.items()]
                shown = next((each for each in witnesses if each is not None), None)
                if shown is None:
                    break
            if shown is not None:
                return shown._replace(inputs=[input_of(p) for p in range(len(self.whole.inputs))])
        return None

    def _numbers(self, program: ComparedProgram, inputs: list[Array], *, rounds: bool) -> list[Spread]:
        domain = PlainNumbers(rounds=rounds)
        spreads = [
            [given(domain, part, shape) for part in self._parts(program, p, x)]
            for p, (x, shape) in enumerate(zip(inputs, self.whole.inputs, strict=True))
        ]
        with budget(steps=_STEPS, subject="a run with ordinary numbers"):
            return run_module(program.module, spreads, domain, self.devices)


def differing(x: Array, y: Array, x_rounded: Array, y_rounded: Array, *, grain: float = 0) -> tuple[int, ...] | None:
    """The index at which arrays differ most, beyond what rounding to the declared types changes. Of numbers that may
    be very large or small, only finite values are compared, with roundings they differ too, and the difference is more
    than `grain` times their size.
    """
    if x.dtype.kind not in "fc":
        wrong = (x != y) & (x_rounded != y_rounded)
        # An integer that rounding changes is no witness.
        wrong &= (x == x_rounded) & (y == y_rounded)
        return tuple(int(i) for i in np.argwhere(wrong)[0]) if wrong.any() else None
    if not x.size:
        return None
    with np.errstate(all="ignore"):
        finite = np.isfinite(x) & np.isfinite(y)
        gap = np.where(finite, np.abs(x - y), 0)
        noise = np.abs(x - x_rounded) + np.abs(y - y_rounded)
        sizes = np.where(finite, np.maximum(np.abs(x), np.abs(y)), 0)
        noise = np.where(np.isfinite(noise), noise, np.inf)
        beyond = gap - _TOLERANCE * np.maximum(sizes, 1e-3 * sizes.max()) - _MARGIN * noise
        # Infinite or NaN in one program alone, however it rounds.
        broken = [np.isfinite(v) for v in (x, x_rounded, y, y_rounded)]
        alone = (broken[0] & broken[1] & ~broken[2] & ~broken[3]) | (~broken[0] & ~broken[1] & broken[2] & broken[3])
        beyond = np.where(alone, np.inf, np.where(np.isnan(beyond), -1, beyond))
        if grain:
            holds = np.isfinite(x_rounded) & np.isfinite(y_rounded) & (np.abs(x_rounded - y_rounded) > gap / 2)
            beyond = np.where(holds & (gap > np.maximum(grain * sizes, _LEAST)), beyond, -1)
    at_most = np.unravel_index(int(np.argmax(beyond)), beyond.shape)
    return tuple(int(i) for i in at_most) if beyond[at_most] > 0 else None


def grain_of(modules: Sequence[HloModule]) -> float:
    """A few times the greatest relative change that rounding to one of the types of modules makes."""
    types = {
        leaf.element_type
        for module in modules
        for computation in module.computations
        for each in computation.instructions
        for leaf in each.shape.leaves()
        if leaf.is_array and is_real(leaf.element_type)
    }
    return _MARGIN * max([_GRAINS.get(kind.text, _COARSE) for kind in types], default=_GRAINS["f32"])


def _of_one_name(a: ComparedProgram, b: ComparedProgram) -> list[tuple[int, int]]:
    """The values in two programs of instructions of the same name."""
    return [(a.named[name], value) for name, value in b.named.items() if name in a.named]


def _elements(module: HloModule) -> float:
    """The elements of the values of a module."""
    instructions = [each for computation in module.computations for each in computation.instructions]
    return sum(
        [float(np.prod(each.shape.dimensions, dtype=np.float64)) for each in instructions if each.shape.is_array]
    )


def _key(ledger: Ledger, term: int, draw: int) -> bytes:
    return b"".join([ledger.digest(x, draw) for x in ledger.spread(term, draw)])


def _same(ledger: Ledger, one: int, other: int, draw: int) -> bool:
    return one == other or _key(ledger, one, draw) == _key(ledger, other, draw)
