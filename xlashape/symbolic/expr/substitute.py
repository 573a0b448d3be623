"""Replacing variables and other parts of expressions, and listing the variables that they use. Shared parts are visited
once; nothing recurses.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

from xlashape.limits import spend
from xlashape.symbolic.expr.expression import Binary, Expr, Methods, Operand, Variable, as_expr, postorder

T = TypeVar("T")


def replace(expr: Expr, replaced: Mapping[Expr, Operand]) -> Expr:
    """The expression with every part that is a key of `replaced` replaced by its value; constants fold. What replaces a
    part is left as it is.

    >>> from xlashape.symbolic.expr.expression import dim
    >>> replace(dim(0) * 2 + dim(1) % 4, {dim(0): dim(1), dim(1) % 4: 3})
    d1 * 2 + 3
    """
    values = {part: as_expr(value) for part, value in replaced.items()}
    done: dict[Expr, Expr] = {}
    order = postorder((expr,))
    spend(len(order))
    for node in order:
        if node in values:
            done[node] = values[node]
        elif isinstance(node, Binary):
            lhs, rhs = done[node.lhs], done[node.rhs]
            done[node] = node if lhs is node.lhs and rhs is node.rhs else Methods.fold[node.__class__](lhs, rhs)
        else:
            done[node] = node
    return done[expr]


def substitute(exprs: tuple[Expr, ...], replaced: Mapping[Variable, Expr]) -> tuple[Expr, ...]:
    """The expressions with every variable that is a key of `replaced` replaced by its value; constants fold.

    >>> from xlashape.symbolic.expr.expression import dim, const
    >>> substitute((dim(0) * 2 + dim(1),), {dim(1): const(3)})
    (d0 * 2 + 3,)
    """
    if not replaced:
        return exprs
    done: dict[Expr, Expr] = {}
    order = postorder(exprs)
    spend(len(order))
    for node in order:
        if isinstance(node, Binary):
            lhs, rhs = done[node.lhs], done[node.rhs]
            done[node] = node if lhs is node.lhs and rhs is node.rhs else Methods.fold[node.__class__](lhs, rhs)
        elif isinstance(node, Variable):
            done[node] = replaced.get(node, node)
        else:
            done[node] = node
    return tuple([done[expr] for expr in exprs])


def substitute_in_map(
    results: Sequence[Expr], constraints: Sequence[tuple[Expr, T]], replaced: Mapping[Variable, Expr]
) -> tuple[tuple[Expr, ...], tuple[tuple[Expr, T], ...]]:
    """`substitute` in the results of a map and in its constraints, whose intervals stay.

    >>> from xlashape.symbolic.expr.expression import dim
    >>> substitute_in_map([dim(0)], [(dim(0) % 4, "interval")], {dim(0): dim(1)})
    ((d1,), ((d1 mod 4, 'interval'),))
    """
    exprs = substitute((*results, *[expr for expr, _ in constraints]), replaced)
    count = len(results)
    return exprs[:count], tuple(zip(exprs[count:], [interval for _, interval in constraints], strict=True))


def variables_of(exprs: Iterable[Expr]) -> set[Variable]:
    """The variables that occur in the expressions.

    >>> from xlashape.symbolic.expr.expression import dim
    >>> variables_of([dim(0) + 1, dim(2) % 4]) == {dim(0), dim(2)}
    True
    """
    variables: set[Variable] = set()
    seen: set[Expr] = set()
    stack = [*exprs]
    while stack:
        node = stack.pop()
        if isinstance(node, Variable):
            variables.add(node)
        elif isinstance(node, Binary) and node not in seen:
            seen.add(node)
            stack.append(node.lhs)
            stack.append(node.rhs)
    return variables
