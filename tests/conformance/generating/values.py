"""The value of a map at a point, computed from its message by the comments of types.proto alone, node by node."""

from __future__ import annotations

from xlashape.limits import INT64_MAX, INT64_MIN
from xlashape.proto import v1

__all__ = ["Overflow", "value"]

_128_BITS = range(-1 << 127, 1 << 127)


class Overflow(Exception):
    """A value does not fit. The text is the message of the error that a client gives."""


def value(message: v1.IndexingMap, point: list[int]) -> list[int] | None:
    """The results, None outside the domain."""
    if message.state == v1.IndexingMap.STATE_KNOWN_EMPTY:
        return None
    groups = [list(message.dimensions), list(message.ranges), list(message.runtime)]
    variables = [variable for group in groups for variable in group]
    for variable, number in zip(variables, point, strict=True):
        if not variable.bounds.lower <= number <= variable.bounds.upper:
            return None
    offsets = {v1.Expression.KIND_DIMENSION: 0, v1.Expression.KIND_RANGE: len(groups[0])}
    offsets[v1.Expression.KIND_RUNTIME] = len(groups[0]) + len(groups[1])
    values: list[int | None] = []  # None: does not fit 128 bits
    for node in message.expressions:
        values.append(_node(node, values, point, offsets))
    needed = [values[result] for result in message.results]
    for constraint in message.constraints:
        needed.append(values[constraint.expression])
        if needed[-1] is not None and not constraint.bounds.lower <= needed[-1] <= constraint.bounds.upper:
            return None
    known = [number for number in needed if number is not None]
    if len(known) < len(needed):
        raise Overflow("an expression takes a value of more than 128 bits")
    results = known[: len(message.results)]
    for i, number in enumerate(results):
        if not INT64_MIN <= number <= INT64_MAX:
            raise Overflow(f"result {i} does not fit int64: {number}")
    return results


def _node(node: v1.Expression, values: list[int | None], point: list[int], offsets: dict[int, int]) -> int | None:
    if node.kind == v1.Expression.KIND_CONSTANT:
        return node.value
    if node.kind in offsets:
        return point[offsets[node.kind] + node.value]
    result, *others = [values[operand] for operand in node.operands]
    for other in others:
        if result is None or other is None:
            return None
        result = _operation(node.kind, result, other)
        if result not in _128_BITS:
            return None
    return result


def _operation(kind: int, left: int, right: int) -> int:
    kinds = v1.Expression
    if kind == kinds.KIND_ADD:
        return left + right
    if kind == kinds.KIND_MULTIPLY:
        return left * right
    if kind == kinds.KIND_FLOOR_DIVIDE:
        return left // right
    if kind == kinds.KIND_CEIL_DIVIDE:
        return -(-left // right)
    if kind == kinds.KIND_MODULO:
        return left % right
    if kind == kinds.KIND_MINIMUM:
        return min(left, right)
    if kind == kinds.KIND_MAXIMUM:
        return max(left, right)
    raise AssertionError(kind)
