"""For which tile sizes a symbolic tile holds: a disjunction of conjunctions of conditions. Matches `xla::ConstraintExpression`.

    8 mod d0 in [0, 0] || d0 in [1, 1] && d1 mod 8 in [0, 0]

A condition is `InRange`, an expression in the tile's sizes within an interval, or `Divides`, an expression that divides a number: XLA writes it as a mod
by a variable, which expressions here do not have.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from itertools import product
from typing import NamedTuple, TypeAlias

from xlashape.limits import check, spend
from xlashape.symbolic.expr.expression import Expr, Variable
from xlashape.symbolic.expr.interval import Interval
from xlashape.symbolic.expr.substitute import substitute
from xlashape.symbolic.expr.text import expression_text

__all__ = ["MOST_ALTERNATIVES", "Condition", "Divides", "InRange", "TileConstraints"]

MOST_ALTERNATIVES = 1 << 12
"""Conjunctions of one disjunction."""


class InRange(NamedTuple):
    """`expr` lies within `interval`."""

    expr: Expr
    interval: Interval

    def holds(self, value: int) -> bool:
        """Whether it does where the expression has this value."""
        return value in self.interval

    def to_text(self, style: str = "xla") -> str:
        """As `d0 in [1, 1]`."""
        return f"{expression_text(self.expr, style=style)} in {self.interval}"

    __str__ = to_text


class Divides(NamedTuple):
    """`expr` divides `dividend`; 0 divides nothing."""

    expr: Expr
    dividend: int

    def holds(self, value: int) -> bool:
        """Whether it does where the expression has this value."""
        return value != 0 and self.dividend % value == 0

    def to_text(self, style: str = "xla") -> str:
        """As `8 mod d0 in [0, 0]`."""
        text = expression_text(self.expr, style=style)
        return f"{self.dividend} mod {f'({text})' if ' ' in text else text} in [0, 0]"

    __str__ = to_text


Condition: TypeAlias = InRange | Divides


class TileConstraints(NamedTuple):
    """One of `alternatives` holds, with all its conditions. No alternative: unsatisfiable. One without conditions: always.

    Alternatives and their conditions are sorted by their text, as XLA prints them.

    >>> from xlashape.symbolic.expr.expression import dim
    >>> whole = TileConstraints.any_of([[Divides(dim(0), 8)], [InRange(dim(0) % 8, Interval(0, 0))]])
    >>> print(whole)
    8 mod d0 in [0, 0] || d0 mod 8 in [0, 0]
    >>> print(whole & TileConstraints.any_of([[InRange(dim(1), Interval(1, 1))]]))
    8 mod d0 in [0, 0] && d1 in [1, 1] || d0 mod 8 in [0, 0] && d1 in [1, 1]
    >>> print(TileConstraints.always(), TileConstraints.unsatisfiable())
    always unsatisfiable
    """

    alternatives: tuple[tuple[Condition, ...], ...]

    @classmethod
    def always(cls) -> TileConstraints:
        """What every tile fulfils."""
        return cls(((),))

    @classmethod
    def unsatisfiable(cls) -> TileConstraints:
        """What no tile fulfils."""
        return cls(())

    @classmethod
    def any_of(cls, alternatives: Iterable[Iterable[Condition]]) -> TileConstraints:
        """The disjunction of conjunctions. Intervals of the same expression are intersected; a conjunction with an empty one goes away."""
        kept: dict[tuple[str, ...], tuple[Condition, ...]] = {}
        for alternative in alternatives:
            merged = _merged(alternative)
            if merged is None:
                continue
            if not merged:
                return cls.always()
            kept[tuple([text for text, _ in merged])] = tuple([condition for _, condition in merged])
        return cls(tuple([kept[key] for key in sorted(kept)]))

    @property
    def is_always(self) -> bool:
        """Whether every tile fulfils them."""
        return () in self.alternatives

    @property
    def is_unsatisfiable(self) -> bool:
        """Whether no tile is known to fulfil them."""
        return not self.alternatives

    def __and__(self, other: TileConstraints) -> TileConstraints:
        """Both hold. LimitExceededError beyond 4,096 alternatives."""
        if self.is_always:
            return other
        if other.is_always:
            return self
        count = len(self.alternatives) * len(other.alternatives)
        check("tile alternatives", count, MOST_ALTERNATIVES)
        spend(count)
        return TileConstraints.any_of([(*a, *b) for a, b in product(self.alternatives, other.alternatives)])

    def replaced(self, values: Mapping[Variable, Expr]) -> TileConstraints:
        """The same with expressions in place of variables."""
        exprs = self.expressions()
        known = dict(zip(exprs, substitute(exprs, values), strict=True))
        return TileConstraints.any_of(
            [[condition._replace(expr=known[condition.expr]) for condition in way] for way in self.alternatives]
        )

    def expressions(self) -> tuple[Expr, ...]:
        """Every expression that conditions speak of, once."""
        return tuple(dict.fromkeys([condition.expr for way in self.alternatives for condition in way]))

    def hold(self, value: Callable[[Expr], int]) -> bool:
        """Whether they hold where `value` says what each expression is worth."""
        return any(all(condition.holds(value(condition.expr)) for condition in way) for way in self.alternatives)

    def to_text(self, style: str = "xla") -> str:
        """`always`, `unsatisfiable`, or the alternatives with `||` between, their conditions with `&&`."""
        if self.is_always:
            return "always"
        ways = [" && ".join([condition.to_text(style) for condition in way]) for way in self.alternatives]
        return " || ".join(ways) or "unsatisfiable"

    __str__ = to_text


def _merged(alternative: Iterable[Condition]) -> list[tuple[str, Condition]] | None:
    """The conditions once each, sorted by text; None if they contradict each other."""
    intervals: dict[Expr, Interval] = {}
    others: list[Condition] = []
    for condition in alternative:
        if isinstance(condition, InRange):
            known = intervals.get(condition.expr)
            both = condition.interval if known is None else known.intersect(condition.interval)
            if both.is_empty:
                return None
            intervals[condition.expr] = both
        elif condition not in others:
            others.append(condition)
    ranges: list[Condition] = [InRange(expr, interval) for expr, interval in intervals.items()]
    return sorted([(_text(condition), condition) for condition in (*ranges, *others)], key=lambda pair: pair[0])


@lru_cache(1 << 10)
def _text(condition: Condition) -> str:
    return condition.to_text()
