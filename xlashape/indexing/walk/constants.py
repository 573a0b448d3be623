"""Runtime variables that are none: their producer is a constant or an iota, so their value is a number or an expression.

Matches what XLA folds (scalar constants and iota), and folds constant arrays too where their values are an affine function of the index: a splat,
a counted list. A value that the operation would clamp is clamped here.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TypeAlias

from xlashape.indexing.answers.operand_indexing import OperandIndexing
from xlashape.indexing.answers.sources import RuntimeVariable
from xlashape.indexing.walk.constant_values import integers
from xlashape.symbolic import Expr, IndexingMap, Interval, Variable, VariableKind, const, maximum, minimum, rt
from xlashape.symbolic.expr.substitute import substitute

__all__ = ["fold_constants"]


def _affine(values: Sequence[int], dims: Sequence[int], index: Sequence[Expr]) -> Expr | None:
    """The expression base + Σ step · index that gives all the values, if there is one."""
    steps: list[int] = []
    stride = len(values)
    for size in dims:
        stride //= size
        steps.append(values[stride] - values[0] if size > 1 else 0)
    expected = [values[0]]
    for size, step in zip(dims, steps, strict=True):
        expected = [value + i * step for value in expected for i in range(size)]
    if list(values) != expected:
        return None
    result: Expr = const(values[0])
    for step, at in zip(steps, index, strict=True):
        result = result + at * step
    return result


_Known: TypeAlias = tuple[Expr, Interval]
"""A value as an expression, and between what it lies."""


def _value(producer: RuntimeVariable) -> _Known | None:
    """The value, if it is known."""
    instruction, index = producer.instruction, producer.map.results
    shape = instruction.shape
    if producer.is_position or not shape.is_array or len(index) != shape.rank or producer.map.is_known_empty:
        return None
    opcode = instruction.proto.opcode
    if opcode == "iota":
        axis = instruction.proto.dimensions[0] if instruction.proto.dimensions else 0
        if not 0 <= axis < shape.rank or not shape.element_type.is_integral:
            return None
        size = shape.dimensions[axis]
        width = shape.element_type.bit_width - shape.element_type.is_signed
        return (index[axis], Interval(0, size - 1)) if size - 1 < 1 << width else None
    if opcode != "constant":
        return None
    values = integers(instruction)
    if values is None:
        return None
    found = _affine(values, shape.dimensions, index)
    return None if found is None else (found, Interval(min(values), max(values)))


def fold_constants(indexing: OperandIndexing) -> OperandIndexing:
    """The same access with the known runtime variables replaced."""
    known = tuple([_value(producer) for producer in indexing.runtime])
    if known.count(None) == len(known):
        return indexing
    folded = _folded(indexing.map, known, tuple([producer.is_clamped for producer in indexing.runtime]))
    producers = tuple([producer for producer, value in zip(indexing.runtime, known, strict=True) if value is None])
    assert not any(variable.kind is VariableKind.RUNTIME for p in producers for variable in p.map.used_variables())
    return indexing.replaced(folded, producers)


@lru_cache(maxsize=1 << 12)
def _folded(old: IndexingMap, values: tuple[_Known | None, ...], clamped: tuple[bool, ...]) -> IndexingMap:
    """The map with the known runtime variables replaced, those that are left renumbered."""
    replaced: dict[Variable, Expr] = {}
    left_out: list[tuple[Expr, Interval]] = []
    kept: list[int] = []
    for k, (known, is_clamped, var) in enumerate(zip(values, clamped, old.runtime, strict=True)):
        if known is None:
            if len(kept) != k:
                replaced[rt(k)] = rt(len(kept))
            kept.append(k)
            continue
        value, bounds = known
        if not var.bounds.contains(bounds):
            if not is_clamped:
                left_out.append((value, var.bounds))
            else:
                if bounds.upper > var.bounds.upper:
                    value = minimum(value, var.bounds.upper)
                if bounds.lower < var.bounds.lower:
                    value = maximum(value, var.bounds.lower)
        replaced[rt(k)] = value
    exprs = substitute((*old.results, *(expr for expr, _ in old.constraints)), replaced)
    count = len(old.results)
    constraints = [*zip(exprs[count:], [interval for _, interval in old.constraints], strict=True), *left_out]
    return IndexingMap(old.dims, old.ranges, [old.runtime[k] for k in kept], exprs[:count], constraints)
