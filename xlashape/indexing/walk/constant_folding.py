"""Runtime variables whose value is known: their producer is a constant or an iota, so the value is a number or an expression.

Matches what XLA folds (scalar constants and iota). Constant arrays are folded too where their values are an affine function of the index: all
equal, or equally spaced. A value that the operation would clamp is clamped here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from xlashape.caches import cached
from xlashape.hlo import Opcode
from xlashape.indexing.answers.constant_values import integers
from xlashape.indexing.answers.leaves import map_bytes
from xlashape.indexing.answers.operand_indexing import OperandIndexing, RuntimeVariable
from xlashape.symbolic import Expr, IndexingMap, Interval, Variable, VariableKind, const, maximum, minimum, rt
from xlashape.symbolic.expr.substitute import substitute


def _affine(values: Sequence[int], dims: Sequence[int], index: Sequence[Expr]) -> Expr | None:
    """The expression base + Σ step · index that gives all the values in row-major order; None where there is none.

    >>> from xlashape.symbolic import dim
    >>> _affine([5, 7, 9], [3], [dim(0)]), _affine([5, 7, 8], [3], [dim(0)])
    (d0 * 2 + 5, None)
    """
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
    for step, position in zip(steps, index, strict=True):
        result = result + position * step
    return result


class _Value(NamedTuple):
    """A known value."""

    expr: Expr
    """In the variables of the access."""
    bounds: Interval
    """All values that the expression takes lie within."""


def _known_value(producer: RuntimeVariable) -> _Value | None:
    instruction, index = producer.instruction, producer.map.results
    shape = instruction.shape
    if producer.is_position or not shape.is_array or len(index) != shape.rank or producer.map.is_known_empty:
        return None
    opcode = instruction.proto.opcode
    if opcode == Opcode.IOTA:
        axis = instruction.proto.dimensions[0] if instruction.proto.dimensions else 0
        if not 0 <= axis < shape.rank or not shape.element_type.is_integral:
            return None
        size = shape.dimensions[axis]
        width = shape.element_type.bit_width - shape.element_type.is_signed
        return _Value(index[axis], Interval(0, size - 1)) if size - 1 < 1 << width else None
    if opcode != Opcode.CONSTANT:
        return None
    values = integers(instruction)
    if values is None:
        return None
    expr = _affine(values, shape.dimensions, index)
    return None if expr is None else _Value(expr, Interval(min(values), max(values)))


def fold_constants(indexing: OperandIndexing) -> OperandIndexing:
    """The same access with the runtime variables whose value is known replaced by it."""
    known = tuple([_known_value(producer) for producer in indexing.runtime])
    if known.count(None) == len(known):
        return indexing
    folded = _folded(indexing.map, known, tuple([producer.is_clamped for producer in indexing.runtime]))
    producers = tuple([producer for producer, value in zip(indexing.runtime, known, strict=True) if value is None])
    # Producers of one instruction's offsets depend on no runtime variables, so theirs need no new numbers.
    assert not any(variable.kind is VariableKind.RUNTIME for p in producers for variable in p.map.used_variables())
    return indexing.with_map(folded, producers)


# Keeping results saves 7 % of the time of the maps of Llama 3.1.
@cached(max_bytes=16 << 20, weigh=lambda key, value: 400 + 300 * len(key[1]) + map_bytes(key[0]) + map_bytes(value))
def _folded(old: IndexingMap, values: tuple[_Value | None, ...], clamped: tuple[bool, ...]) -> IndexingMap:
    """The map with the known runtime variables replaced, those that are left renumbered. None in `values`: not known."""
    replaced: dict[Variable, Expr] = {}
    constraints_on_values: list[tuple[Expr, Interval]] = []
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
                # The operation leaves out what lies beyond.
                constraints_on_values.append((value, var.bounds))
            else:
                if bounds.upper > var.bounds.upper:
                    value = minimum(value, var.bounds.upper)
                if bounds.lower < var.bounds.lower:
                    value = maximum(value, var.bounds.lower)
        replaced[rt(k)] = value
    exprs = substitute((*old.results, *(expr for expr, _ in old.constraints)), replaced)
    count = len(old.results)
    constraints = [
        *zip(exprs[count:], [interval for _, interval in old.constraints], strict=True),
        *constraints_on_values,
    ]
    return IndexingMap(old.dims, old.ranges, [old.runtime[k] for k in kept], exprs[:count], constraints)
