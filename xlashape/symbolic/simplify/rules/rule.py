"""What a rule is: a function from one linear form to another that is equal to it wherever the variables keep their bounds.

A rule answers None where it does not apply. Laws that ask how an expression is written, what is promised or what a domain holds are methods of those who
know; they are marked alike. The docstring states the law and its condition; `@law` gives examples, which the tests check at every point
of their box. A rule that answers has made progress: rules never undo each other's work.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol, TypeVar

from xlashape.symbolic.expr.expression import Expr
from xlashape.symbolic.simplify.linear_form import Form, Terms

__all__ = ["Context", "DomainExample", "Example", "domain_law", "law"]

Bounds = tuple[int, int]
F = TypeVar("F", bound=Callable[..., object])


class Context(Protocol):
    """What rules ask of the simplifier that runs them. All forms are simplified."""

    def form_of(self, expr: Expr) -> Form:
        """The linear form of an expression."""
        ...

    def range_of(self, atom: Expr) -> Bounds:
        """(least, greatest) value of an atom."""
        ...

    def range_of_form(self, terms: Terms, constant: int) -> Bounds:
        """(least, greatest) value of a linear form."""
        ...

    def floor_div(self, terms: Terms, constant: int, divisor: int) -> Form:
        """The form divided by a positive divisor, rounded towards −∞: a division of its own."""
        ...

    def floor_div_of_rest(self, terms: Terms, constant: int, divisor: int) -> Form:
        """The same for what is left of a sum that is being divided."""
        ...

    def modulo(self, terms: Terms, constant: int, modulus: int) -> Form:
        """The form modulo a positive modulus."""
        ...


class Example(NamedTuple):
    """Within `domain`, `source` simplifies to `target`. All in XLA's text."""

    domain: str
    source: str
    target: str


class DomainExample(NamedTuple):
    """`domain` simplifies to `target`, "" if no point is left. Both in XLA's text."""

    domain: str
    target: str


def law(*examples: tuple[str, str, str]) -> Callable[[F], F]:
    """Marks a rule and gives its examples: (domain, source, target)."""

    def mark(function: F) -> F:
        function.examples = tuple(Example(*example) for example in examples)  # type: ignore[attr-defined]
        return function

    return mark


def domain_law(*examples: tuple[str, str]) -> Callable[[F], F]:
    """Marks a rule for domains and gives its examples: (domain, target)."""

    def mark(function: F) -> F:
        function.domain_examples = tuple(DomainExample(*example) for example in examples)  # type: ignore[attr-defined]
        return function

    return mark
