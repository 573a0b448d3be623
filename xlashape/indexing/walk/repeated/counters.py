"""Integers that the body of a loop computes from its counters, as functions of the number of the iteration.

    body: (i, x) -> (i + 1, x[i - 1] …)        i is 0 before the first of 5 iterations

    i is t; i - 1 is t - 1; select(i - 1 < 0, i - 1 + n, i - 1) is n - 1 in iteration 0, and t - 1 in 1 to 4

A value is a list of pieces, each linear in the number of the iteration, t. Known are scalar constants, counters (arrays
of the state that begin with a constant, to which every iteration adds the same), and what scalar arithmetic makes of
these, in fusions and calls too. An element of an array of one element counts as a scalar.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple, TypeAlias

from xlashape.base.math import product
from xlashape.hlo import HloComputation, HloInstruction, Opcode
from xlashape.indexing.answers.leaves import leaves, scalar_value
from xlashape.indexing.walk.repeated.trip_count import fits
from xlashape.limits import spend
from xlashape.shape import PrimitiveType

MAX_PIECES = 8
"""Pieces of a value, before it counts as unknown."""
MAX_ROUNDS = 8
"""How often arrays are taken out that are no counters, before all of them are: others may be computed from them."""
MAX_DEPTH = 32
"""How deep operands of operands are followed."""


class Piece(NamedTuple):
    """The value `base + slope * t` for t from `first` to `last`."""

    first: int
    last: int
    slope: int
    base: int


Pieces: TypeAlias = tuple[Piece, ...]
"""A value in all iterations: pieces that follow one on the other."""

Origin: TypeAlias = Callable[[HloInstruction, int], "tuple[HloInstruction, int]"]
"""Where the body computes a leaf, seen through tuples, copies and the parameters of fusions and calls."""


def joined(pieces: list[Piece]) -> Pieces | None:
    """The pieces, with neighbours of one function as one piece; None where there are too many.

    >>> joined([Piece(0, 3, 1, 0), Piece(4, 5, 1, 0), Piece(6, 6, 0, 2)])
    (Piece(first=0, last=5, slope=1, base=0), Piece(first=6, last=6, slope=0, base=2))
    """
    result: list[Piece] = []
    for piece in pieces:
        if piece.first == piece.last and piece.slope:
            piece = Piece(piece.first, piece.last, 0, piece.base + piece.slope * piece.first)
        if result and _goes_on(result[-1], piece):
            slope, base = _line(result[-1], piece)
            result[-1] = Piece(result[-1].first, piece.last, slope, base)
        else:
            result.append(piece)
    return tuple(result) if len(result) <= MAX_PIECES else None


def _goes_on(one: Piece, other: Piece) -> bool:
    slope, base = _line(one, other)
    return all(
        slope * t + base == piece.slope * t + piece.base for piece in (one, other) for t in (piece.first, piece.last)
    )


def _line(one: Piece, other: Piece) -> tuple[int, int]:
    """Slope and base of the line through the end of one piece and the beginning of the other."""
    before, after = one.slope * one.last + one.base, other.slope * other.first + other.base
    return after - before, before - (after - before) * one.last


def overlaps(*values: Pieces) -> list[tuple[int, int, tuple[Piece, ...]]]:
    """The runs of iterations in which each of the values is one piece, with these pieces."""
    runs: list[tuple[int, int, tuple[Piece, ...]]] = [(values[0][0].first, values[0][-1].last, ())]
    for value in values:
        runs = [
            (max(first, piece.first), min(last, piece.last), (*pieces, piece))
            for first, last, pieces in runs
            for piece in value
            if max(first, piece.first) <= min(last, piece.last)
        ]
    return runs


def signs(first: int, last: int, slope: int, base: int) -> list[tuple[int, int, int]]:
    """The runs of t in which `base + slope * t` has one sign: (first, last, -1, 0 or 1).

    >>> signs(0, 5, 2, -4)
    [(0, 1, -1), (2, 2, 0), (3, 5, 1)]
    """
    if not slope:
        return [(first, last, (base > 0) - (base < 0))]
    side = 1 if slope > 0 else -1
    size, offset = abs(slope), base * side
    last_before, first_after = (-offset - 1) // size, -offset // size + 1
    runs = [
        (first, min(last, last_before), -side),
        (max(first, last_before + 1), min(last, first_after - 1), 0),
        (max(first, first_after), last, side),
    ]
    return [run for run in runs if run[0] <= run[1]]


def clamped(value: Pieces, lower: int, upper: int) -> Pieces | None:
    """The value, moved into the bounds.

    >>> [(piece.first, piece.last, piece.slope) for piece in clamped((Piece(0, 5, 1, -1),), 0, 3) or ()]
    [(0, 1, 0), (2, 4, 1), (5, 5, 0)]
    """
    first, last = value[0].first, value[-1].last
    above = _chosen(value, (Piece(first, last, 0, lower),), largest=True)
    return None if above is None else _chosen(above, (Piece(first, last, 0, upper),), largest=False)


def _chosen(a: Pieces, b: Pieces, *, largest: bool) -> Pieces | None:
    """The larger or the smaller of two values, in each iteration."""
    pieces: list[Piece] = []
    for first, last, (x, y) in overlaps(a, b):
        for begin, end, sign in signs(first, last, x.slope - y.slope, x.base - y.base):
            taken = x if (sign > 0) == largest else y
            pieces.append(Piece(begin, end, taken.slope, taken.base))
    return joined(pieces)


def _compared(a: Pieces, b: Pieces, direction: str) -> Pieces | None:
    holds = {"LT": (-1,), "LE": (-1, 0), "GT": (1,), "GE": (0, 1), "EQ": (0,), "NE": (-1, 1)}.get(direction)
    if holds is None:
        return None
    return joined(
        [
            Piece(begin, end, 0, int(sign in holds))
            for first, last, (x, y) in overlaps(a, b)
            for begin, end, sign in signs(first, last, x.slope - y.slope, x.base - y.base)
        ]
    )


def _product(a: Pieces, b: Pieces) -> Pieces | None:
    pieces: list[Piece] = []
    for first, last, (x, y) in overlaps(a, b):
        if x.slope and y.slope:
            return None
        pieces.append(Piece(first, last, x.slope * y.base + y.slope * x.base, x.base * y.base))
    return joined(pieces)


def _sum(a: Pieces, b: Pieces, sign: int = 1) -> Pieces | None:
    return joined(
        [Piece(first, last, x.slope + sign * y.slope, x.base + sign * y.base) for first, last, (x, y) in overlaps(a, b)]
    )


def _fits(value: Pieces, kind: PrimitiveType) -> bool:
    return all(fits(piece.base + piece.slope * t, kind) for piece in value for t in (piece.first, piece.last))


class Counters:
    """The values that the body of a loop computes from its counters. `starts` are the integers that arrays of the state
    begin with, by leaf.
    """

    def __init__(self, body: HloComputation, count: int, starts: Mapping[int, int], origin: Origin) -> None:
        self._body = body
        self._origin = origin
        self._known: dict[tuple[HloInstruction, int], Pieces | None] = {}
        self._last = 0
        self.leaves: dict[int, Pieces] = {leaf: (Piece(0, 0, 0, start),) for leaf, start in starts.items()}
        """The counters among the leaves of the state, with their values when an iteration begins."""
        after = {leaf: self.of(body.root, leaf) for leaf in starts}
        steps = {leaf: value[0].base - starts[leaf] for leaf, value in after.items() if value is not None}
        self._last = count - 1
        for left in range(MAX_ROUNDS, -1, -1):
            spend(len(steps))
            self._known.clear()
            lines = {leaf: Piece(0, count - 1, step, starts[leaf]) for leaf, step in steps.items()}
            self.leaves = {leaf: joined([line]) or () for leaf, line in lines.items()}
            wrong = [
                leaf
                for leaf, line in lines.items()
                if joined([line._replace(base=line.base + line.slope)]) != self.of(body.root, leaf)
            ]
            if not wrong:
                break
            for leaf in wrong if left > 1 else list(steps):
                del steps[leaf]

    def of(self, instruction: HloInstruction, leaf: int = 0, depth: int = 0) -> Pieces | None:
        """The value of a scalar in each iteration; None where it is not known."""
        instruction, leaf = self._origin(instruction, leaf)
        key = instruction, leaf
        if key not in self._known:
            self._known[key] = None
            value = self._computed(instruction, leaf, depth) if depth < MAX_DEPTH else None
            if value is not None and _fits(value, leaves(instruction.shape)[leaf].element_type):
                self._known[key] = value
        return self._known[key]

    def follows_from_counters(self, instruction: HloInstruction) -> bool:
        """Whether a value depends on constants and counters alone, so that nothing else decides it."""
        pending, seen = [(instruction, 0)], set[HloInstruction]()
        while pending:
            computed_by, leaf = self._origin(*pending.pop())
            if computed_by.opcode == Opcode.PARAMETER:
                if computed_by.computation is not self._body or leaf not in self.leaves:
                    return False
            elif computed_by not in seen:
                seen.add(computed_by)
                if len(seen) > MAX_DEPTH:
                    return True
                pending += [(operand, 0) for operand in computed_by.operands]
        return True

    def _computed(self, instruction: HloInstruction, leaf: int, depth: int) -> Pieces | None:
        opcode = instruction.opcode
        shape = leaves(instruction.shape)[leaf]
        kind = shape.element_type
        if opcode == Opcode.PARAMETER:
            return self.leaves.get(leaf) if instruction.computation is self._body else None
        if not (kind.is_integral or kind is PrimitiveType.PRED) or product(shape.dimensions) != 1:
            return None
        if opcode in (Opcode.FUSION, Opcode.CALL):
            return self.of(instruction.called_computations[0].root, leaf, depth + 1)
        if opcode == Opcode.CONSTANT:
            number = scalar_value(instruction)
            return None if number is None else (Piece(0, self._last, 0, number),)
        values: list[Pieces] = []
        for operand in instruction.operands if opcode != Opcode.IOTA else ():
            value = self.of(operand, 0, depth + 1)
            if value is None:
                return None
            values.append(value)
        return _operated(instruction, values)


def _operated(instruction: HloInstruction, values: list[Pieces]) -> Pieces | None:
    """The result of an operation on scalars."""
    is_pred = instruction.shape.element_type is PrimitiveType.PRED
    match instruction.opcode, values:
        case ((Opcode.COPY | Opcode.BITCAST | Opcode.RESHAPE | Opcode.BROADCAST | Opcode.CONVERT), [value]):
            return value
        case Opcode.ADD, [a, b] if not is_pred:
            return _sum(a, b)
        case Opcode.SUBTRACT, [a, b]:
            return _sum(a, b, -1)
        case (Opcode.MULTIPLY, [a, b]) | (Opcode.AND, [a, b]) if is_pred or instruction.opcode == Opcode.MULTIPLY:
            return _product(a, b)
        case Opcode.NEGATE, [a]:
            return tuple([Piece(p.first, p.last, -p.slope, -p.base) for p in a])
        case Opcode.NOT, [a] if is_pred:
            return tuple([Piece(p.first, p.last, -p.slope, 1 - p.base) for p in a])
        case Opcode.OR, [a, b] if is_pred:
            return _chosen(a, b, largest=True)
        case Opcode.MAXIMUM, [a, b]:
            return _chosen(a, b, largest=True)
        case Opcode.MINIMUM, [a, b]:
            return _chosen(a, b, largest=False)
        case Opcode.CLAMP, [lower, value, upper]:
            above = _chosen(value, lower, largest=True)
            return None if above is None else _chosen(above, upper, largest=False)
        case Opcode.COMPARE, [a, b]:
            return _compared(a, b, instruction.details.comparison_direction)
        case Opcode.SELECT, [which, a, b]:
            return joined(
                [
                    Piece(begin, end, *(x if sign else y)[2:])
                    for first, last, (chosen, x, y) in overlaps(which, a, b)
                    for begin, end, sign in signs(first, last, chosen.slope, chosen.base)
                ]
            )
        case _:
            return None
