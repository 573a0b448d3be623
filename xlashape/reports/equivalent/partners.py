"""Partners: the first instructions of two programs whose values the other program does not have.

Values are found by digests that neither the order of elements changes nor how often all of them are repeated, so that
another layout, another order of dimensions and another place of a broadcast make no difference. A value without a
partner does not count if all that is made of it has one: then both programs come to the same on different ways.
"""

# NumPy's stubs leave the types of many results unknown.
# pyright: reportUnknownArgumentType=false, reportUnknownVariableType=false

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np

from xlashape.evaluation.domains.field import Field
from xlashape.evaluation.domains.modular import P, mixed
from xlashape.evaluation.elementwise import is_real
from xlashape.evaluation.machine import Spread
from xlashape.hlo import HloInstruction, Opcode
from xlashape.hlo.literal import to_numpy
from xlashape.reports.equivalent.terms import Ran, leaves_of

_SEEDS: Final = (11, 12)
_MOST_CONSTANTS: Final = 3
"""Numbers of a program that are taken to stand for those of another one."""
KeyOf: TypeAlias = Callable[[int], Hashable]


class OtherConstant(NamedTuple):
    """A constant of one element that one program has in the place of another."""

    a: HloInstruction
    b: HloInstruction

    def __str__(self) -> str:
        return " became ".join([f"{number_of(each)!s} of {named(each)}" for each in self])


class Alone(NamedTuple):
    """The instructions of two programs whose values the other program does not have."""

    a: HloInstruction | None = None
    """The first such instruction of the first program, in the order in which it runs."""
    b: HloInstruction | None = None
    constants: tuple[Sequence[HloInstruction], Sequence[HloInstruction]] = ((), ())
    """Of either program the constants of one element."""
    is_first: bool = True
    """Whether no instruction before has none; else that was not found out."""

    def explained(self, pairs: Sequence[Sequence[OtherConstant]], *, is_all: bool) -> tuple[Alone, list[str]]:
        """What is said of constants, which have no partner; `is_all`: of those that make the whole difference, which
        are the first instructions that matter then."""
        told = [str(each[0]) for each in pairs]
        if not is_all:
            return self, told
        told[-1] += ": with the former the programs compute the same"
        return Alone(pairs[0][0].a, pairs[0][0].b, self.constants), told

    def numbers(self) -> list[Any]:
        """The elements of the constants."""
        return [number_of(each) for those in self.constants for each in those]

    def pairs(self) -> list[list[OtherConstant]]:
        """Constants of the programs, in their order, which stand for each other if they are as many numbers: for each
        number those of the second program."""
        groups: list[list[list[HloInstruction]]] = []
        for those in self.constants:
            by_number: dict[Any, list[HloInstruction]] = {}
            for each in those:
                by_number.setdefault(_number_key(each), []).append(each)
            groups.append([*by_number.values()])
        if len(groups[0]) != len(groups[1]) or len(groups[0]) > _MOST_CONSTANTS:
            return []
        found = [[OtherConstant(x[0], each) for each in y] for x, y in zip(*groups, strict=True)]
        return found if all(pair.a.shape == pair.b.shape for each in found for pair in each) else []


def named(instruction: HloInstruction) -> str:
    """The name of an instruction, with the line of the user's program that it comes from."""
    source = instruction.metadata.source
    return f"{instruction.name} ({source})" if source else instruction.name


def contents(domain: Field, spread: Spread) -> Hashable:
    """A digest of the elements of a value on all devices: the mean of their hashes."""
    means = [0] * len(_SEEDS)
    for part in spread:
        if isinstance(part, tuple):
            return None
        x: Any = np.atleast_1d(part)  # NumPy warns of overflow of scalars
        if not x.size:
            return "empty"
        x = (domain.lift(x) if x.dtype.kind in "fc" else x).astype(np.int64).view(np.uint64)
        share = pow(x.size * len(spread), P - 2, P)
        for i, seed in enumerate(_SEEDS):
            means[i] = (means[i] + int((mixed(x, seed) % np.uint64(P)).sum() % np.uint64(P)) * share) % P
    return tuple(means)


def without_partner(
    logs: tuple[Sequence[Ran], Sequence[Ran]], roots: tuple[Iterable[int], Iterable[int]], key_of: KeyOf
) -> Alone:
    """What programs have without a partner, of that which the values of `roots` are made of."""
    # Parameters too, which do not run.
    values = [{leaf for ran in log for term in (ran.term, *ran.operands) for leaf in leaves_of(term)} for log in logs]
    known = {value: key_of(value) for those in values for value in those}
    keys = [{known[value] for value in those} for those in values]
    found = [
        _reached(log, ends, lambda value, side=side: known[value] not in keys[1 - side])
        for side, (log, ends) in enumerate(zip(logs, roots, strict=True))
    ]
    # A number says less than what it is used for.
    one, other = [next((each for each in those if not _is_number(each)), next(iter(those), None)) for those in found]
    within = [[inner for each in those for inner in _within(each)] for those in found]
    numbers = [{_number_key(each) for each in those} for those in within]
    constants = [
        [each for each in those if _is_number(each)]
        + [each for each in within[side] if _number_key(each) not in numbers[1 - side]]
        for side, those in enumerate(found)
    ]
    return Alone(one, other, (constants[0], constants[1]))


def _within(instruction: HloInstruction) -> list[HloInstruction]:
    """The constants in the bodies of loops, and of others that call computations and are not followed."""
    found: list[HloInstruction] = []
    pending = [*instruction.called_computations]
    while pending:
        for each in pending.pop().instructions:
            pending += each.called_computations
            found += [each] if _is_number(each) else []
    return found


def _number_key(constant: HloInstruction) -> Hashable:
    return str(constant.shape), str(number_of(constant))


def _is_number(instruction: HloInstruction) -> bool:
    if instruction.opcode is not Opcode.CONSTANT or not instruction.shape.is_array:
        return False
    return all(n == 1 for n in instruction.shape.dimensions) and instruction.details.HasField("literal")


def number_of(constant: HloInstruction) -> Any:
    """The element of a constant of one element."""
    literal: Any = to_numpy(constant.details.literal)
    found = np.asarray(literal).reshape(-1)[0]
    is_short = is_real(constant.shape.element_type) and constant.shape.element_type.bit_width <= 32
    return np.float32(found) if is_short else found


def _reached(log: Sequence[Ran], ends: Iterable[int], is_alone: Callable[[int], bool]) -> list[HloInstruction]:
    """The instructions whose values are alone, and lead to the ends through such values only."""
    makers: dict[int, int] = {}
    for number, ran in enumerate(log):
        for value in leaves_of(ran.term):
            makers.setdefault(value, number)
    found = set[int]()
    seen = set[int]()
    pending = list(ends)
    roots = set(pending)  # they differ, even if others have the same elements
    while pending:
        value = pending.pop()
        if value in seen or value not in makers:
            continue
        seen.add(value)
        if is_alone(value):
            found.add(makers[value])
        if makers[value] in found or value in roots:
            pending += [leaf for term in log[makers[value]].operands for leaf in leaves_of(term)]
    return [log[number].instruction for number in sorted(found)]
