"""The parts of a map as `xlashape.v1.IndexingMap`, and back. A message holds expressions as one flat list of nodes,
operands before their users.

A part that several expressions share is one node of the list, so the length of the list is the number of different
nodes. Neither direction recurses.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from google.protobuf.message import Message

from xlashape.base.math import checked_int64
from xlashape.errors import FieldPath, InvalidMapError
from xlashape.limits import spend
from xlashape.proto import coerce, v1
from xlashape.symbolic.expr import expression as ex
from xlashape.symbolic.expr.expression import Binary, Constant, Expr, Variable, VariableKind
from xlashape.symbolic.expr.ranges import Interval, extent
from xlashape.symbolic.map.parts import MapParts, Var

_STATES = {
    "map": v1.IndexingMap.STATE_DEFINED,
    "empty": v1.IndexingMap.STATE_KNOWN_EMPTY,
    "undefined": v1.IndexingMap.STATE_UNDEFINED,
}
_OPERATORS: dict[type[Binary], int] = {
    ex.Add: v1.Expression.KIND_ADD,
    ex.Mul: v1.Expression.KIND_MULTIPLY,
    ex.FloorDiv: v1.Expression.KIND_FLOOR_DIVIDE,
    ex.CeilDiv: v1.Expression.KIND_CEIL_DIVIDE,
    ex.Mod: v1.Expression.KIND_MODULO,
    ex.Min: v1.Expression.KIND_MINIMUM,
    ex.Max: v1.Expression.KIND_MAXIMUM,
}
_CLASSES = {kind: operator for operator, kind in _OPERATORS.items()}
_EXACTLY_TWO_OPERANDS = {v1.Expression.KIND_FLOOR_DIVIDE, v1.Expression.KIND_CEIL_DIVIDE, v1.Expression.KIND_MODULO}
_VARIABLES: dict[VariableKind, int] = {
    VariableKind.DIM: v1.Expression.KIND_DIMENSION,
    VariableKind.RANGE: v1.Expression.KIND_RANGE,
    VariableKind.RUNTIME: v1.Expression.KIND_RUNTIME,
}
_VARIABLE_KINDS: dict[int, VariableKind] = {number: kind for kind, number in _VARIABLES.items()}


def parts_to_proto(parts: MapParts) -> v1.IndexingMap:
    """The message of a map. SizeOverflowError if one of its numbers does not fit int64."""
    message = v1.IndexingMap(state=_STATES[parts.kind])
    for group, variables in (
        (message.dimensions, parts.dims),
        (message.ranges, parts.ranges),
        (message.runtime, parts.runtime),
    ):
        for var in variables:
            group.add(bounds=_interval(var.bounds), name=var.name)
    indices: dict[Expr, int] = {}
    for result in parts.results:
        message.results.append(_add_nodes(result, indices, message))
    for expr, bounds in parts.constraints:
        message.constraints.add(expression=_add_nodes(expr, indices, message), bounds=_interval(bounds))
    counts = (len(parts.dims), len(parts.ranges), len(parts.runtime))
    values = extent(indices, [var.bounds for var in (*parts.dims, *parts.ranges, *parts.runtime)], counts)
    message.fits_int64 = parts.kind == "empty" or (parts.kind == "map" and values is not None and values.fits_int64)
    return message


def _interval(value: Interval) -> v1.Interval:
    return v1.Interval(
        lower=checked_int64(value.lower, "the lower bound of an interval"),
        upper=checked_int64(value.upper, "the upper bound of an interval"),
    )


def _add_nodes(root: Expr, indices: dict[Expr, int], message: v1.IndexingMap) -> int:
    """Adds the nodes of an expression that the message does not have yet. Returns the index of the root."""
    pending = [root]
    while pending:
        expr = pending[-1]
        if expr in indices:
            pending.pop()
            continue
        spend(1)
        if isinstance(expr, Binary):
            left, right = indices.get(expr.lhs), indices.get(expr.rhs)
            if left is None or right is None:
                pending += (expr.rhs, expr.lhs)
                continue
            message.expressions.add(kind=_OPERATORS[type(expr)], operands=(left, right))
        elif isinstance(expr, Variable):
            message.expressions.add(kind=_VARIABLES[expr.kind], value=expr.index)
        else:
            assert isinstance(expr, Constant)
            message.expressions.add(
                kind=v1.Expression.KIND_CONSTANT, value=checked_int64(expr.value, "a constant of the map")
            )
        indices[expr] = len(message.expressions) - 1
        pending.pop()
    return indices[root]


def parts_from_proto(value: bytes | Message) -> MapParts:
    """The parts of the map in an `xlashape.v1.IndexingMap`, given as bytes or as a message. Raises the errors that
    `IndexingMap.from_proto` lists, except those about names, which the constructor of `IndexingMap` checks.

    The parts of a map known to be empty are of kind "map" and have a constraint that never holds.
    """
    message = coerce(v1.IndexingMap, value)
    state = message.state
    if state == v1.IndexingMap.STATE_UNDEFINED:
        return MapParts("undefined")
    if state not in (v1.IndexingMap.STATE_UNSPECIFIED, v1.IndexingMap.STATE_DEFINED, v1.IndexingMap.STATE_KNOWN_EMPTY):
        raise InvalidMapError(f"there is no state {state}", field="state")
    groups = [_variables(message.dimensions), _variables(message.ranges), _variables(message.runtime)]
    nodes = _nodes(message.expressions, [len(group) for group in groups])
    results = [_node(nodes, index, ("results", i)) for i, index in enumerate(message.results)]
    constraints = [
        (
            _node(nodes, constraint.expression, ("constraints", i, "expression")),
            Interval(constraint.bounds.lower, constraint.bounds.upper),
        )
        for i, constraint in enumerate(message.constraints)
    ]
    if state == v1.IndexingMap.STATE_KNOWN_EMPTY:
        constraints.append((Constant(0), Interval(1, 1)))
    return MapParts("map", groups[0], groups[1], groups[2], tuple(results), tuple(constraints))


def _variables(group: Iterable[v1.Variable]) -> tuple[Var, ...]:
    variables: list[Var] = []
    for variable in group:
        spend(1)
        variables.append(Var(Interval(variable.bounds.lower, variable.bounds.upper), variable.name))
    return tuple(variables)


def _nodes(expressions: Sequence[v1.Expression], counts: Sequence[int]) -> list[Expr]:
    """The expressions of the nodes of a message. The operands of a node stand before it in the list."""
    nodes: list[Expr] = []
    for i, expression in enumerate(expressions):
        spend(1)
        kind, operands = expression.kind, expression.operands
        try:
            operator = _CLASSES.get(kind)
            if operator is not None:
                if len(operands) < 2 or (len(operands) > 2 and kind in _EXACTLY_TWO_OPERANDS):
                    raise InvalidMapError(
                        f"expected {'two' if kind in _EXACTLY_TWO_OPERANDS else 'two or more'} operands, found "
                        f"{len(operands)}"
                    )
                parts = [nodes[index] if index < i else None for index in operands]
                if None in parts:
                    raise InvalidMapError(f"an operand is a node before this one, not {operands[parts.index(None)]}")
                nodes.append(_folded(operator, [part for part in parts if part is not None]))
                continue
            if operands:
                raise InvalidMapError("only operations have operands")
            if kind == v1.Expression.KIND_CONSTANT:
                nodes.append(Constant(expression.value))
            elif kind in _VARIABLE_KINDS:
                variable = _VARIABLE_KINDS[kind]
                if not 0 <= expression.value < counts[variable]:
                    raise InvalidMapError(
                        f"there is no variable {expression.value}: the map has {counts[variable]} of that kind"
                    )
                nodes.append(Variable(variable, expression.value))
            else:
                raise InvalidMapError(f"there is no kind {kind}")
        except InvalidMapError as error:
            error.within("expressions", i)
            raise
    return nodes


def _folded(operator: type[Binary], parts: Sequence[Expr]) -> Expr:
    """A binary operator applied to two or more operands from left to right."""
    result = parts[0]
    for part in parts[1:]:
        result = operator(result, part)
    return result


def _node(nodes: Sequence[Expr], index: int, field: FieldPath) -> Expr:
    if index >= len(nodes):
        raise InvalidMapError(f"there is no expression {index}: the map has {len(nodes)}", field=field)
    return nodes[index]
