"""Linear forms, which the rules of the simplifier rewrite, and the decorators with which a rule gives examples of its
law.

An *atom* is an expression that is neither a sum nor a multiple of another expression: a variable, a mod, a division, a
min, a max, or a product of atoms. A linear form, Σ coefficient × atom + constant, is a pair (terms, constant). `terms`
maps atoms to coefficients other than 0, and is not changed after the function that made it has returned it.
`expression_of` writes a form as an expression, in XLA's order of terms.

A rule is a function from one linear form to another that is equal to it for all values of the variables within their
bounds, or to None where it does not apply. A result is always simpler: no rule undoes what another does. The docstring
of a rule states its law and condition; `@law` gives examples, which the tests check at every point of their domain.

Rules that need more than a linear form (how an expression is written, or the constraints of a domain) are methods of
the simplifier classes, marked with `@law` as well. Rules that simplify domains are methods of `MapDomain`, marked with
`@domain_law`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple, Protocol, TypeAlias, TypeVar

from xlashape.symbolic.expr.expression import Add, Constant, Expr, Mul, order_key
from xlashape.symbolic.expr.ranges import Bounds

Terms: TypeAlias = Mapping[Expr, int]
Form: TypeAlias = tuple[Terms, int]


def expression_of(terms: Terms, constant: int) -> Expr:
    """The canonical expression of a linear form: terms sorted, added from left to right, the constant last.

    >>> from xlashape.symbolic.expr.expression import dim
    >>> expression_of({dim(0): 1, dim(2): -1, dim(1): 4}, -3)
    d1 * 4 - d2 + d0 - 3
    """
    if len(terms) == 1:
        for atom, coefficient in terms.items():
            result = atom if coefficient == 1 else Mul(atom, coefficient)
            return result if constant == 0 else Add(result, constant)
    if not terms:
        return Constant(constant)
    ordered = [atom if coefficient == 1 else Mul(atom, coefficient) for atom, coefficient in terms.items()]
    ordered.sort(key=order_key)
    result = ordered[0]
    for i in range(1, len(ordered)):
        result = Add(result, ordered[i])
    return result if constant == 0 else Add(result, constant)


def single_atom(terms: Terms, constant: int) -> Expr | None:
    """The atom, if the form is one atom with coefficient 1 and constant 0.

    >>> from xlashape.symbolic.expr.expression import dim
    >>> single_atom({dim(0): 1}, 0), single_atom({dim(0): 2}, 0), single_atom({dim(0): 1}, 3)
    (d0, None, None)
    """
    if constant == 0 and len(terms) == 1:
        for atom, coefficient in terms.items():
            if coefficient == 1:
                return atom
    return None


# -- rules -------------------------------------------------------------------------------------


F = TypeVar("F", bound=Callable[..., object])


class RuleContext(Protocol):
    """The methods of a canonicalizer or simplifier that rules call. All forms that these methods take and return are
    simplified.
    """

    def form_of(self, expr: Expr) -> Form:
        """The linear form of an expression."""
        ...

    def floor_div(self, terms: Terms, constant: int, divisor: int) -> Form:
        """The form divided by a positive divisor, rounded towards −∞."""
        ...

    def modulo(self, terms: Terms, constant: int, modulus: int) -> Form:
        """The form modulo a positive modulus."""
        ...


class BoundedContext(RuleContext, Protocol):
    """The methods that rules call of a simplifier that knows the bounds of variables."""

    def range_of_form(self, terms: Terms, constant: int) -> Bounds:
        """(least, greatest) value of a linear form."""
        ...

    def floor_div_of_rest(self, terms: Terms, constant: int, divisor: int) -> Form:
        """`floor_div` for the terms that are left when a rule has taken others out of a dividend: stand-ins in them
        stay (see `simplifier`).
        """
        ...


class Example(NamedTuple):
    """`source` simplifies to `target` if the variables are in `domain`. All three are XLA's text."""

    domain: str
    source: str
    target: str


class DomainExample(NamedTuple):
    """`domain` simplifies to `target`, which is "" if the domain has no points. Both are XLA's text."""

    domain: str
    target: str


def law(*examples: tuple[str, str, str]) -> Callable[[F], F]:
    """Marks a rule and gives its examples: (domain, source, target)."""

    def mark(function: F) -> F:
        function.examples = tuple(Example(*example) for example in examples)  # type: ignore[attr-defined]  # the tests read it
        return function

    return mark


def domain_law(*examples: tuple[str, str]) -> Callable[[F], F]:
    """Marks a rule for domains and gives its examples: (domain, target)."""

    def mark(function: F) -> F:
        function.domain_examples = tuple(DomainExample(*example) for example in examples)  # type: ignore[attr-defined]  # the tests read it
        return function

    return mark
