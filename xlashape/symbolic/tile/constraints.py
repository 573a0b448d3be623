"""The conditions on tile sizes under which a symbolic tile is right: a disjunction of conjunctions. Matches
`xla::ConstraintExpression`.

    8 mod d0 in [0, 0] || d0 in [1, 1] && d1 mod 8 in [0, 0]

A condition is either `InRange`, an expression of the tile's sizes that lies within an interval, or `Divides`, an
expression of the tile's sizes that divides a number. XLA writes `Divides` as a mod by a variable; the expressions of
this library have constant moduli only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import product
from typing import NamedTuple, TypeAlias

from xlashape.base.caches import cached
from xlashape.limits import check, spend
from xlashape.symbolic.expr.expression import Expr, Variable, substitute
from xlashape.symbolic.expr.ranges import Interval
from xlashape.symbolic.expr.text import expression_text

MOST_ALTERNATIVES = 1 << 12
"""The largest number of conjunctions in a disjunction."""


class InRange(NamedTuple):
    """`expr` lies within `interval`."""

    expr: Expr
    interval: Interval

    def holds(self, value: int) -> bool:
        """Whether the condition holds if the expression has this value."""
        return value in self.interval

    def to_text(self, style: str = "xla") -> str:
        """The text of the condition, such as `d0 in [1, 1]`."""
        return f"{expression_text(self.expr, style=style)} in {self.interval}"

    __str__ = to_text


class Divides(NamedTuple):
    """`expr` divides `dividend`. The value 0 divides nothing."""

    expr: Expr
    dividend: int

    def holds(self, value: int) -> bool:
        """Whether the condition holds if the expression has this value."""
        return value != 0 and self.dividend % value == 0

    def to_text(self, style: str = "xla") -> str:
        """The text of the condition, such as `8 mod d0 in [0, 0]`."""
        text = expression_text(self.expr, style=style)
        return f"{self.dividend} mod {f'({text})' if ' ' in text else text} in [0, 0]"

    __str__ = to_text


Condition: TypeAlias = InRange | Divides


class TileConstraints(NamedTuple):
    """The disjunction of `alternatives`, each of which is a conjunction of conditions. Without alternatives, no tile
    satisfies the constraints. An alternative without conditions always holds.

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
        """The constraints that every tile satisfies."""
        return cls(((),))

    @classmethod
    def unsatisfiable(cls) -> TileConstraints:
        """The constraints that no tile satisfies."""
        return cls(())

    @classmethod
    def any_of(cls, alternatives: Iterable[Iterable[Condition]]) -> TileConstraints:
        """The disjunction of conjunctions. Intervals of the same expression are intersected; a conjunction with an
        empty one is dropped.
        """
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
        """Whether every tile satisfies the constraints."""
        return () in self.alternatives

    @property
    def is_unsatisfiable(self) -> bool:
        """Whether no tile is known to satisfy the constraints."""
        return not self.alternatives

    def __and__(self, other: TileConstraints) -> TileConstraints:
        """The conjunction of both constraints. Raises LimitExceededError if it has more than 4,096 alternatives."""
        if self.is_always:
            return other
        if other.is_always:
            return self
        count = len(self.alternatives) * len(other.alternatives)
        check("tile alternatives", count, MOST_ALTERNATIVES)
        spend(count)
        return TileConstraints.any_of([(*a, *b) for a, b in product(self.alternatives, other.alternatives)])

    def replaced(self, values: Mapping[Variable, Expr]) -> TileConstraints:
        """The constraints with variables replaced by expressions."""
        exprs = self.expressions()
        known = dict(zip(exprs, substitute(exprs, values), strict=True))
        return TileConstraints.any_of(
            [
                [condition._replace(expr=known[condition.expr]) for condition in alternative]
                for alternative in self.alternatives
            ]
        )

    def expressions(self) -> tuple[Expr, ...]:
        """The different expressions of all conditions."""
        return tuple(dict.fromkeys([condition.expr for alternative in self.alternatives for condition in alternative]))

    def hold(self, value: Callable[[Expr], int]) -> bool:
        """Whether the constraints hold if `value` returns the value of each expression."""
        return any(
            all(condition.holds(value(condition.expr)) for condition in alternative)
            for alternative in self.alternatives
        )

    def to_text(self, style: str = "xla") -> str:
        """`always`, `unsatisfiable`, or the alternatives joined by `||`, the conditions of each joined by `&&`."""
        if self.is_always:
            return "always"
        texts = [
            " && ".join([condition.to_text(style) for condition in alternative]) for alternative in self.alternatives
        ]
        return " || ".join(texts) or "unsatisfiable"

    __str__ = to_text


def _merged(alternative: Iterable[Condition]) -> list[tuple[str, Condition]] | None:
    """The different conditions of a conjunction and their texts, sorted by text. None if conditions contradict."""
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


@cached(max_bytes=1 << 20, weigh=lambda arguments, text: 400 + 2 * len(text))
def _text(condition: Condition) -> str:
    return condition.to_text()
