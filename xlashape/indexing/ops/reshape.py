"""The rules of operations that give the same elements other indices: reshape, dynamic-reshape, bitcast.

A reshape keeps the row-major position of every element, a bitcast its position in memory. Dimensions form groups of
equal product that are independent of each other: [4,8,12] → [32,3,4] is [4,8] → [32] and [12] → [3,4].

The docstring of a rule says what an element of an output reads (`…_output_to_input`), or which elements of the outputs
an element of an operand takes part in (`…_input_to_output`).
"""

from __future__ import annotations

from collections.abc import Sequence

from xlashape.base.math import product
from xlashape.hlo import Opcode
from xlashape.indexing.answers.leaves import WITHOUT_BOUND, dims_of
from xlashape.indexing.ops.op import Access, Op, Rows, require
from xlashape.indexing.ops.register import input_to_output, output_to_input, without_bounds
from xlashape.indexing.ops.rows import everything, identity, make_map, to_scalar
from xlashape.shape import Layout, Shape
from xlashape.shape.tiling.formula import geometry, logical_index, physical_position
from xlashape.symbolic import Expr, IndexingMap, Interval, const, dim, join_digits, rng
from xlashape.symbolic.expr.expression import as_expr

without_bounds(Opcode.RESHAPE, Opcode.BITCAST)


@output_to_input(Opcode.RESHAPE)
def reshape_output_to_input(op: Op, output: int) -> Rows:
    """The element of the same row-major position."""
    _check(op)
    return ((Access(_reshape(op.output_dims(output), op.operand_dims(0))),),)


@input_to_output(Opcode.RESHAPE)
def reshape_input_to_output(op: Op, operand: int, leaf: int) -> Rows:
    """The element of the same row-major position."""
    _check(op)
    return ((Access(_reshape(op.operand_dims(operand, leaf), op.output_dims(0))),),)


def _check(op: Op) -> None:
    op.require_operands(1)
    a, b = op.operand_dims(0), op.output_dims(0)
    if _has_no_bound(a, b):
        _check_without_bounds(a, b)
        return
    require(
        product(a) == product(b),
        lambda: f"cannot reshape {list(a)} to {list(b)}: {product(a)} and {product(b)} elements",
    )


def _has_no_bound(a: Sequence[int], b: Sequence[int]) -> bool:
    return WITHOUT_BOUND in a or WITHOUT_BOUND in b


def _check_without_bounds(a: Sequence[int], b: Sequence[int]) -> None:
    """Each dimension without a bound stays without one, with equally many elements between it and the next such
    dimension; or the first dimension is the only such dimension on both sides.
    """
    require(_between_unbounded(a) == _between_unbounded(b) or _is_first_alone(a, b), "mixes dimensions without a bound")


def _is_first_alone(a: Sequence[int], b: Sequence[int]) -> bool:
    return all(sizes[:1] == [WITHOUT_BOUND] and WITHOUT_BOUND not in sizes[1:] for sizes in (list(a), list(b)))


def _between_unbounded(sizes: Sequence[int]) -> list[int]:
    products = [1]
    for size in sizes:
        if size == WITHOUT_BOUND:
            products.append(1)
        else:
            products[-1] *= size
    return products


@output_to_input(Opcode.DYNAMIC_RESHAPE)
def dynamic_reshape_output_to_input(op: Op, output: int) -> Rows:
    """A reshape whose sizes are operands. Where a dimension is dynamic, an element may come from any index, since the
    sizes are known at run time only.
    """
    dims = op.output_dims(output)
    require(len(op.operands) >= 1 and all(len(operand) == 1 for operand in op.operands), "takes arrays")
    sizes = [
        to_scalar(dims) if not op.operand_dims(i) else (everything(dims, op.operand_dims(i)),)
        for i in range(1, len(op.operands))
    ]
    return (_dynamic_reshape(op, dims, op.operand_dims(0)), *sizes)


@input_to_output(Opcode.DYNAMIC_RESHAPE)
def dynamic_reshape_input_to_output(op: Op, operand: int, leaf: int) -> Rows:
    """The element of the same row-major position, or any element where a dimension is dynamic; a size takes part in
    every element.
    """
    dims = op.operand_dims(operand, leaf)
    if operand:
        return ((everything(dims, op.output_dims(0)),),)
    return (_dynamic_reshape(op, dims, op.output_dims(0)),)


def _dynamic_reshape(op: Op, source: tuple[int, ...], target: tuple[int, ...]) -> tuple[Access, ...]:
    if (
        any(op.outputs[0].dynamic_dimensions)
        or any(op.operands[0][0].dynamic_dimensions)
        or product(source) != product(target)
    ):
        return (everything(source, target, is_conservative=True),)
    return (Access(_reshape(source, target)),)


@output_to_input(Opcode.BITCAST)
def bitcast_output_to_input(op: Op, output: int) -> Rows:
    """The element at the same position in memory."""
    op.require_operands(1)
    return ((_bitcast(op.outputs[output], op.operands[0][0]),),)


@input_to_output(Opcode.BITCAST)
def bitcast_input_to_output(op: Op, operand: int, leaf: int) -> Rows:
    """The element at the same position in memory."""
    op.require_operands(1)
    return ((_bitcast(op.operands[operand][leaf], op.outputs[0]),),)


def _bitcast(source: Shape, target: Shape) -> Access:
    """From an index of `source` to the index in `target` of the element that holds the same bytes."""
    require(source.is_array and target.is_array, "takes or returns a shape that is not an array")
    a, b = dims_of(source), dims_of(target)
    from_bits, to_bits = _width(source), _width(target)
    is_tiled = _is_tiled(source) or _is_tiled(target)
    has_no_bound = _has_no_bound(a, b)
    require(not has_no_bound or (not is_tiled and from_bits == to_bits), "turns unknown sizes into others")
    fits = is_tiled or has_no_bound or product(a) * from_bits == product(b) * to_bits
    require(fits, f"cannot turn {source} into {target}: they differ in size")
    if 0 in a:
        return Access(make_map(a, [const(0)] * len(b)))
    if is_tiled:
        return _tiled_bitcast(source, target, from_bits, to_bits)
    from_order, to_order = _major_to_minor(source), _major_to_minor(target)
    ordered: list[Expr] = [dim(d) for d in from_order]
    sizes, targets = [a[d] for d in from_order], [b[d] for d in to_order]
    own = list(a)
    if has_no_bound:
        _check_without_bounds(sizes, targets)
        if _between_unbounded(sizes) != _between_unbounded(targets):
            own[from_order[0]] = _countable(sizes)[0]
    ranges: tuple[int, ...] = ()
    if from_bits % to_bits == 0:
        # An element of the source has the bytes of several elements of the target.
        if from_bits > to_bits:
            ranges = (from_bits // to_bits,)
            ordered.append(rng(0))
            sizes.append(ranges[0])
    elif to_bits % from_bits == 0:
        targets.append(to_bits // from_bits)
    else:
        return everything(a, b, is_conservative=True)
    index = _regroup(ordered, sizes, targets)
    results: list[Expr] = [const(0)] * len(b)
    for d, expr in zip(to_order, index, strict=False):
        results[d] = expr
    return Access(make_map(own, results, ranges=ranges).simplify())


def _tiled_bitcast(source: Shape, target: Shape, from_bits: int, to_bits: int) -> Access:
    """A bitcast by positions in memory. It leads nowhere from an element whose bytes are padding of the other array, or
    lie beyond it.
    """
    position = as_expr(physical_position(source, [dim(d) for d in range(source.rank)]))
    ranges: tuple[int, ...] = ()
    if from_bits % to_bits == 0:
        ratio = from_bits // to_bits
        if ratio > 1:
            position, ranges = position * ratio + rng(0), (ratio,)
    elif to_bits % from_bits == 0:
        position = position // (to_bits // from_bits)
    else:
        return everything(source.dimensions, target.dimensions, is_conservative=True)
    results, conditions = logical_index(target, position)
    constraints = [(as_expr(value), Interval(0, size - 1)) for value, size in conditions]
    if geometry(source).elements * from_bits > geometry(target).elements * to_bits:
        constraints.append((position, Interval(0, geometry(target).elements - 1)))
    indexing_map = make_map(
        source.dimensions, [as_expr(result) for result in results], ranges=ranges, constraints=constraints
    )
    return Access(join_digits(indexing_map))


def _width(shape: Shape) -> int:
    size = shape.layout.element_size_in_bits if shape.layout is not None else 0
    return size or shape.element_type.bit_width


def _is_tiled(shape: Shape) -> bool:
    layout = shape.layout
    return layout is not None and bool(layout.tiles or layout.tail_padding_alignment_in_elements > 1)


def _major_to_minor(shape: Shape) -> list[int]:
    layout = shape.layout or Layout.default(shape.rank)
    return list(reversed(layout.minor_to_major))


def _reshape(source: tuple[int, ...], target: tuple[int, ...]) -> IndexingMap:
    if source == target:
        return identity(source)[0].map
    index: list[Expr] = [dim(i) for i in range(len(source))]
    in_place = _between_unbounded(source) == _between_unbounded(target)
    return make_map(source if in_place else _countable(source), _regroup(index, source, target)).simplify()


def _countable(sizes: Sequence[int]) -> list[int]:
    """The sizes, with a first dimension that has no bound replaced by the largest size for which an int64 counts the
    elements.
    """
    if sizes[:1] and sizes[0] == WITHOUT_BOUND:
        return [WITHOUT_BOUND // max(1, product(sizes[1:])), *sizes[1:]]
    return list(sizes)


def _regroup(index: list[Expr], sizes: Sequence[int], targets: Sequence[int]) -> list[Expr]:
    """The index in an array of the sizes `targets` of the element at the same row-major position as `index` in an array
    of the sizes `sizes`.

    >>> _regroup([dim(0)], [32], [4, 8])
    [d0 / 8, d0 mod 8]
    """
    if 0 in targets:
        return [const(0)] * len(targets)
    if _is_first_alone(sizes, targets) and product(sizes[1:]) != product(targets[1:]):
        return _one_group(index, sizes, targets)
    results: list[Expr] = []
    a = b = 0
    while a < len(sizes) or b < len(targets):
        # The shortest group of dimensions on both sides with the same product.
        first, last, left, right = a, b, 1, 1
        if a < len(sizes):
            left, a = sizes[a], a + 1
        if b < len(targets):
            right, b = targets[b], b + 1
        while left != right:
            if left < right:
                left, a = left * sizes[a], a + 1
            else:
                right, b = right * targets[b], b + 1
        results += _one_group(index[first:a], sizes[first:a], targets[last:b])
    return results


def _one_group(index: Sequence[Expr], sizes: Sequence[int], targets: Sequence[int]) -> list[Expr]:
    if len(sizes) == len(targets) == 1:
        return list(index)
    linear: Expr = const(0)
    stride = product(sizes)
    for expr, size in zip(index, sizes, strict=True):
        stride //= size
        linear = linear + expr * stride
    results: list[Expr] = []
    stride = product(targets)
    rest = linear
    for size in targets:
        stride //= size
        if size == 1:
            results.append(const(0))
        elif stride == 1:
            results.append(rest)
        else:
            results.append(rest // stride)
            rest = rest % stride
    return results
