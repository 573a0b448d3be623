"""What is folded away still counts: a value of more than 128 bits is an error of its point, as for clients, which
compute every node.
"""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from xlashape.errors import SizeOverflowError
from xlashape.limits import INT64_MAX, INT64_MIN
from xlashape.symbolic import IndexingMap

_POINTS = (INT64_MIN, -3, -1, 0, 1, 7, INT64_MAX)
_DIVISIONS: dict[str, Callable[[int, int], int]] = {
    "floordiv": lambda a, c: a // c,
    "ceildiv": lambda a, c: -(-a // c),
    "mod": lambda a, c: a % c,
}


class _Overflow(Exception):
    pass


def _random(chance: random.Random, depth: int) -> tuple[str, Callable[[int], int]]:
    """The text of an expression in d0, and the function of d0 that computes every node of it."""
    if depth == 0:
        return "d0", lambda x: x
    kind = chance.choice(["sum", "product", "shifted", "scaled", "division"])
    text, left = _random(chance, depth - 1)
    if kind in ("sum", "product"):
        other, right = _random(chance, chance.randrange(depth))
        if kind == "sum":
            return f"({text} + {other})", lambda x: _kept(left(x) + right(x))
        return f"({text} * {other})", lambda x: _kept(left(x) * right(x))
    if kind == "shifted":
        number = chance.choice((0, 1, -1, 3, 1 << 40, INT64_MAX, -(1 << 62)))
        return f"({text} + {number})", lambda x: _kept(left(x) + number)
    if kind == "scaled":
        factor = chance.choice((0, 0, 1, 2, INT64_MAX))
        return f"({text} * {factor})", lambda x: _kept(left(x) * factor)
    name, divisor = chance.choice(sorted(_DIVISIONS)), chance.choice((1, 1, 2, 7, INT64_MAX))
    return f"({text} {name} {divisor})", lambda x: _DIVISIONS[name](left(x), divisor)


def _kept(value: int) -> int:
    if not -(1 << 127) <= value < 1 << 127:
        raise _Overflow
    return value


@pytest.mark.parametrize("seed", range(20))
def test_random_expressions_overflow_as_their_text_does(seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(200):
        text, function = _random(chance, 6)
        given = IndexingMap.parse(f"(d0) -> ({text}), domain: d0 in [{INT64_MIN}, {INT64_MAX}]")
        try:
            given.to_proto()
        except SizeOverflowError:
            continue  # factors that have become one constant, which does not fit int64
        for point in _POINTS:
            try:
                expected = function(point)
            except _Overflow:
                expected = None
            try:
                found = given.evaluate((point,))
            except SizeOverflowError:
                found = (None,)
            assert found == (expected,), (text, point)


def test_what_cannot_overflow_is_folded_away() -> None:
    text = "(d0) -> ((d0 * 9223372036854775807) mod 1, (d0 + 5) * 0), domain: d0 in [0, 9]"
    assert str(IndexingMap.parse(text)) == "(d0) -> (0, 0), domain: d0 in [0, 9]"
    huge = "(d0) -> ((d0 * d0 * d0) mod 1), domain: d0 in [0, 9]"
    assert str(IndexingMap.parse(huge)) == huge
    assert str(IndexingMap.parse(huge).simplify()) == "(d0) -> (0), domain: d0 in [0, 9]"
