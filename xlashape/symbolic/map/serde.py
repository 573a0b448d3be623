"""Maps as `xlashape.v1.IndexingMap` and back: expressions as one flat list of nodes, operands before what is made of them.

Shared parts become one node, so the list is as long as the expressions are large in memory, not as they are when written out; neither
direction recurses.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from google.protobuf.message import Message

from xlashape.errors import InvalidMapError
from xlashape.limits import spend
from xlashape.math import checked_int64
from xlashape.proto import coerce, v1
from xlashape.symbolic.expr.expression import (
    Add,
    Binary,
    CeilDiv,
    Constant,
    Expr,
    FloorDiv,
    Max,
    Min,
    Mod,
    Mul,
    Variable,
    VariableKind,
)
from xlashape.symbolic.expr.interval import Interval
from xlashape.symbolic.map.indexing_map import IndexingMap
from xlashape.symbolic.map.parts import Var

__all__ = ["map_from_proto", "map_to_proto"]

_OPERATORS: dict[type[Binary], int] = {
    Add: v1.Expression.KIND_ADD,
    Mul: v1.Expression.KIND_MULTIPLY,
    FloorDiv: v1.Expression.KIND_FLOOR_DIVIDE,
    CeilDiv: v1.Expression.KIND_CEIL_DIVIDE,
    Mod: v1.Expression.KIND_MODULO,
    Min: v1.Expression.KIND_MINIMUM,
    Max: v1.Expression.KIND_MAXIMUM,
}
_CLASSES = {kind: made for made, kind in _OPERATORS.items()}
_TWO_ONLY = {v1.Expression.KIND_FLOOR_DIVIDE, v1.Expression.KIND_CEIL_DIVIDE, v1.Expression.KIND_MODULO}
_VARIABLES: dict[VariableKind, int] = {
    VariableKind.DIM: v1.Expression.KIND_DIMENSION,
    VariableKind.RANGE: v1.Expression.KIND_RANGE,
    VariableKind.RUNTIME: v1.Expression.KIND_RUNTIME,
}
_VARIABLE_KINDS: dict[int, VariableKind] = {number: kind for kind, number in _VARIABLES.items()}


def map_to_proto(value: IndexingMap) -> v1.IndexingMap:
    """The message for a map. SizeOverflowError if a number of it does not fit int64."""
    if value.is_undefined:
        return v1.IndexingMap(state=v1.IndexingMap.STATE_UNDEFINED)
    made = v1.IndexingMap(
        state=v1.IndexingMap.STATE_KNOWN_EMPTY if value.is_known_empty else v1.IndexingMap.STATE_DEFINED
    )
    for group, variables in ((made.dimensions, value.dims), (made.ranges, value.ranges), (made.runtime, value.runtime)):
        for var in variables:
            group.add(bounds=_interval(var.bounds), name=var.name)
    places: dict[Expr, int] = {}
    for result in value.results:
        made.results.append(_place(result, places, made))
    for expr, bounds in value.constraints:
        made.constraints.add(expression=_place(expr, places, made), bounds=_interval(bounds))
    return made


def _interval(value: Interval) -> v1.Interval:
    return v1.Interval(
        lower=checked_int64(value.lower, "the lower bound of an interval"),
        upper=checked_int64(value.upper, "the upper bound of an interval"),
    )


def _place(root: Expr, places: dict[Expr, int], made: v1.IndexingMap) -> int:
    """The position of an expression among the nodes, put there with all its parts if it was not yet."""
    pending = [root]
    while pending:
        expr = pending[-1]
        if expr in places:
            pending.pop()
            continue
        spend(1)
        if isinstance(expr, Binary):
            left, right = places.get(expr.lhs), places.get(expr.rhs)
            if left is None or right is None:
                pending += (expr.rhs, expr.lhs)
                continue
            made.expressions.add(kind=_OPERATORS[type(expr)], operands=(left, right))
        elif isinstance(expr, Variable):
            made.expressions.add(kind=_VARIABLES[expr.kind], value=expr.index)
        else:
            assert isinstance(expr, Constant)
            made.expressions.add(
                kind=v1.Expression.KIND_CONSTANT, value=checked_int64(expr.value, "a constant of the map")
            )
        places[expr] = len(made.expressions) - 1
        pending.pop()
    return places[root]


def map_from_proto(value: bytes | Message) -> IndexingMap:
    """The map of an `xlashape.v1.IndexingMap`, its bytes or a message.

    DecodeError for bytes that are none; InvalidMapError, with the path of the field, for a map that cannot be; LimitExceededError for
    expressions that are too deep or too long when written out.
    """
    message = coerce(v1.IndexingMap, value)
    state = message.state
    if state == v1.IndexingMap.STATE_UNDEFINED:
        return IndexingMap.undefined()
    if state not in (v1.IndexingMap.STATE_UNSPECIFIED, v1.IndexingMap.STATE_DEFINED, v1.IndexingMap.STATE_KNOWN_EMPTY):
        raise InvalidMapError(f"there is no state {state}", field="state")
    groups = [_variables(message.dimensions), _variables(message.ranges), _variables(message.runtime)]
    nodes = _nodes(message.expressions, [len(group) for group in groups])
    results = [_node(nodes, place, f"results[{i}]") for i, place in enumerate(message.results)]
    constraints = [
        (_node(nodes, one.expression, f"constraints[{i}].expression"), Interval(one.bounds.lower, one.bounds.upper))
        for i, one in enumerate(message.constraints)
    ]
    if state == v1.IndexingMap.STATE_KNOWN_EMPTY:
        # What no point satisfies is said by a constraint that never holds.
        constraints.append((Constant(0), Interval(1, 1)))
    return IndexingMap(groups[0], groups[1], groups[2], results, constraints)


def _variables(group: Iterable[v1.Variable]) -> list[Var]:
    return [Var(Interval(one.bounds.lower, one.bounds.upper), one.name) for one in group]


def _nodes(expressions: Sequence[v1.Expression], counts: Sequence[int]) -> list[Expr]:
    made: list[Expr] = []
    for i, one in enumerate(expressions):
        spend(1)
        kind, operands = one.kind, one.operands
        try:
            operator = _CLASSES.get(kind)
            if operator is not None:
                if len(operands) < 2 or (len(operands) > 2 and kind in _TWO_ONLY):
                    raise InvalidMapError(
                        f"expected {'two' if kind in _TWO_ONLY else 'two or more'} operands, found {len(operands)}"
                    )
                parts = [made[place] if place < i else None for place in operands]
                if None in parts:
                    raise InvalidMapError(f"an operand is a node before this one, not {operands[parts.index(None)]}")
                made.append(_folded(operator, [part for part in parts if part is not None]))
                continue
            if operands:
                raise InvalidMapError("only operations have operands")
            if kind == v1.Expression.KIND_CONSTANT:
                made.append(Constant(one.value))
            elif kind in _VARIABLE_KINDS:
                variable = _VARIABLE_KINDS[kind]
                if not 0 <= one.value < counts[variable]:
                    raise InvalidMapError(
                        f"there is no variable {one.value}: the map has {counts[variable]} of that kind"
                    )
                made.append(Variable(variable, one.value))
            else:
                raise InvalidMapError(f"there is no kind {kind}")
        except InvalidMapError as error:
            error.within("expressions", i)
            raise
    return made


def _folded(operator: type[Binary], parts: Sequence[Expr]) -> Expr:
    result = parts[0]
    for part in parts[1:]:
        result = operator(result, part)
    return result


def _node(nodes: Sequence[Expr], place: int, field: str) -> Expr:
    if place >= len(nodes):
        raise InvalidMapError(f"there is no expression {place}: the map has {len(nodes)}", field=field)
    return nodes[place]
