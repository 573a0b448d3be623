"""dot, scaled-dot, ragged-dot, convolution."""

# NumPy's stubs leave the types of many results unknown.
# pyright: reportUnknownArgumentType=false, reportUnknownVariableType=false

from __future__ import annotations

from itertools import product
from typing import Any, Final

import numpy as np

from xlashape.evaluation.elementwise import converted, is_real
from xlashape.evaluation.machine import Array, Machine, Value, dtype_of, evaluates
from xlashape.evaluation.reduction import window_slices
from xlashape.hlo import HloInstruction
from xlashape.limits import spend
from xlashape.shape import PrimitiveType

_PRODUCTS_OF_A_STEP: Final = 1 << 18


def _products(machine: Machine, a: Array, b: Array, kind: PrimitiveType, dtype: np.dtype[Any]) -> Array:
    """The products of matrices [batch, m, k] and [batch, k, n] of a type. Sums of integers are of `dtype`."""
    domain = machine.domain
    spend(a.size * b.shape[-1] // _PRODUCTS_OF_A_STEP)
    if is_real(kind):
        return domain.matmul(a, b)
    if kind.is_complex:
        (x, y), (u, v) = [(domain.real(p), domain.imag(p)) for p in (a, b)]
        first = domain.subtract(domain.matmul(x, u), domain.matmul(y, v))
        return domain.complex(first, domain.add(domain.matmul(x, v), domain.matmul(y, u)))
    if kind is PrimitiveType.PRED:
        return np.matmul(a.astype(np.int64), b.astype(np.int64)) > 0
    if a.dtype.itemsize <= 2 and b.dtype.itemsize <= 2 and a.shape[-1] <= 1 << 20:
        return np.matmul(a.astype(np.float64), b.astype(np.float64)).astype(np.int64).astype(dtype)
    return np.matmul(a.astype(np.int64), b.astype(np.int64)).astype(dtype)


def _same_type(machine: Machine, instruction: HloInstruction, args: list[Value]) -> tuple[Array, Array, PrimitiveType]:
    """The first two operands in one type, which is that of the result where they differ."""
    kinds = [operand.shape.element_type for operand in instruction.operands[:2]]
    target = kinds[0] if kinds[0] is kinds[1] else instruction.shape.element_type
    a, b = (converted(machine.domain, np.asarray(x), kind, target) for x, kind in zip(args, kinds, strict=False))
    return a, b, target


@evaluates("dot")
def dot(machine: Machine, instruction: HloInstruction, args: list[Value]) -> Value:
    n = instruction.details.dot_dimension_numbers
    a, b, kind = _same_type(machine, instruction, args)
    return dot_general(
        machine, a, b, kind, dtype_of(instruction.shape),
        (list(n.lhs_batch_dimensions), list(n.rhs_batch_dimensions)),
        (list(n.lhs_contracting_dimensions), list(n.rhs_contracting_dimensions)),
    )  # fmt: skip


def dot_general(
    machine: Machine,
    a: Array,
    b: Array,
    kind: PrimitiveType,
    dtype: np.dtype[Any],
    batches: tuple[list[int], list[int]],
    contracted: tuple[list[int], list[int]],
) -> Array:
    """The sums of products, with dimensions as XLA's dot has them: batches, rest of the left, rest of the right."""
    rest = [
        [d for d in range(x.ndim) if d not in (*p, *q)] for x, p, q in zip((a, b), batches, contracted, strict=True)
    ]
    batch = tuple([a.shape[d] for d in batches[0]])
    sizes = [tuple([x.shape[d] for d in r]) for x, r in zip((a, b), rest, strict=True)]
    size = int(np.prod(batch, dtype=np.int64))
    depth = int(np.prod([a.shape[d] for d in contracted[0]], dtype=np.int64))
    m, n = (int(np.prod(s, dtype=np.int64)) for s in sizes)
    left = np.transpose(a, [*batches[0], *rest[0], *contracted[0]]).reshape((size, m, depth))
    right = np.transpose(b, [*batches[1], *contracted[1], *rest[1]]).reshape((size, depth, n))
    return _products(machine, left, right, kind, dtype).reshape((*batch, *sizes[0], *sizes[1]))


@evaluates("scaled-dot")
def scaled_dot(machine: Machine, instruction: HloInstruction, args: list[Value]) -> Value:
    kinds = [operand.shape.element_type for operand in instruction.operands]
    scaled = [
        _scaled(machine, *(converted(machine.domain, np.asarray(args[i]), kinds[i], PrimitiveType.F32) for i in pair))
        for pair in ((0, 2), (1, 3))
    ]
    n = instruction.details.dot_dimension_numbers
    return dot_general(
        machine, scaled[0], scaled[1], PrimitiveType.F32, dtype_of(instruction.shape),
        (list(n.lhs_batch_dimensions), list(n.rhs_batch_dimensions)),
        (list(n.lhs_contracting_dimensions), list(n.rhs_contracting_dimensions)),
    )  # fmt: skip


def _scaled(machine: Machine, x: Array, scale: Array) -> Array:
    for axis in range(scale.ndim):
        if scale.shape[axis]:
            scale = np.repeat(scale, x.shape[axis] // scale.shape[axis], axis)
    return machine.domain.multiply(x, scale)


@evaluates("ragged-dot")
def ragged_dot(machine: Machine, instruction: HloInstruction, args: list[Value]) -> Value:
    """Groups lie one after the other along a dimension of the left side: each row is multiplied with its group of the
    right side, or each group is summed for itself. What is in no group counts as zeros."""
    numbers = instruction.details.ragged_dot_dimension_numbers
    n, ragged = numbers.dot_dimension_numbers, numbers.lhs_ragged_dimensions[0]
    a, b, kind = _same_type(machine, instruction, args)
    dtype, groups = dtype_of(instruction.shape), list(numbers.rhs_group_dimensions)
    batches = (list(n.lhs_batch_dimensions), list(n.rhs_batch_dimensions))
    contracted = (list(n.lhs_contracting_dimensions), list(n.rhs_contracting_dimensions))
    if ragged in batches[0]:
        return dot_general(machine, a, b, kind, dtype, batches, contracted)
    rest = [d for d in range(a.ndim) if d not in (*batches[0], *contracted[0])]
    order = [*batches[0], *(contracted[0] if ragged in contracted[0] else rest)]
    sizes = np.asarray(args[2]).astype(np.int64)
    before = order[: order.index(ragged)] if sizes.ndim > 1 else []
    ends = np.cumsum(sizes, -1)
    along: Array = np.arange(a.shape[ragged]).reshape([-1 if d == ragged else 1 for d in range(a.ndim)])

    def product(group: int) -> Array:
        def bound(x: Array) -> Array:
            """The sizes that depend on dimensions before the ragged one, beside the left side."""
            moved = np.transpose(x[..., group], np.argsort(before).tolist()) if before else x[..., group]
            return moved.reshape([a.shape[d] if d in before else 1 for d in range(a.ndim)])

        inside: Array = np.logical_and(along >= bound(ends - sizes), along < bound(ends))
        part = np.where(inside, *machine.domain.joined([a, np.broadcast_to(_zero(machine, kind, a.dtype), a.shape)]))
        right, dims = b, (batches[1], contracted[1])
        if groups:
            right = np.take(b, group, groups[0])
            dims = tuple([[d - (d > groups[0]) for d in of] for of in dims])
        return dot_general(machine, part, right, kind, dtype, (batches[0], dims[0]), (contracted[0], dims[1]))

    products = [product(group) for group in range(sizes.shape[-1])]
    if ragged in contracted[0]:
        return np.stack(machine.domain.joined(products))
    total = products[0]
    for more in products[1:]:
        total = added(machine, kind, total, more)
    return total


def _zero(machine: Machine, kind: PrimitiveType, dtype: np.dtype[Any]) -> Array:
    return machine.domain.one(0) if is_real(kind) or kind.is_complex else np.zeros((), dtype)


@evaluates("convolution")
def convolution(machine: Machine, instruction: HloInstruction, args: list[Value]) -> Value:
    """For each index in the window, a product of matrices of the inputs and the weights there."""
    details = instruction.details
    x, k, kind = _same_type(machine, instruction, args)
    n, dims = details.convolution_dimension_numbers, instruction.shape.dimensions
    groups, batches = details.feature_group_count or 1, details.batch_group_count or 1
    windows = list(details.window.dimensions)
    # Input as [group, batch, feature, space], weights as [group, feature in, feature out, space].
    x = np.transpose(x, [n.input_batch_dimension, n.input_feature_dimension, *n.input_spatial_dimensions])
    k = np.transpose(
        k, [n.kernel_input_feature_dimension, n.kernel_output_feature_dimension, *n.kernel_spatial_dimensions]
    )
    space = x.shape[2:]
    batch, features, outputs = x.shape[0] // batches, x.shape[1] // groups, k.shape[1] // (groups * batches)
    x = np.moveaxis(x.reshape((batches, batch, groups, features, *space)), 2, 0)
    x = np.moveaxis(x.reshape((groups * batches, batch, features, *space)), 2, -1)
    k = np.moveaxis(k.reshape((k.shape[0], groups * batches, outputs, *k.shape[2:])), 1, 0)
    out_space = tuple([dims[d] for d in n.output_spatial_dimensions])
    dtype = dtype_of(instruction.shape)
    total: Array = np.array(
        np.broadcast_to(_zero(machine, kind, dtype), (groups * batches, batch, *out_space, outputs))
    )
    for place in product(*[range(w.size) for w in windows]):
        slices = window_slices(windows, place, space, out_space)
        if slices is None:
            continue
        at = tuple([w.size - 1 - i if w.window_reversal else i for w, i in zip(windows, place, strict=True)])
        inputs = x[(slice(None), slice(None), *slices[1])]
        flat = inputs.reshape((inputs.shape[0], -1, features))
        products = _products(machine, flat, k[(slice(None), slice(None), slice(None), *at)], kind, dtype)
        here = (slice(None), slice(None), *slices[0])
        total, products = machine.domain.joined([total, products.reshape((*inputs.shape[:-1], outputs))])
        total[here] = added(machine, kind, total[here], products)
    # Back to [batch, group and feature, space], and to the places where the result has them.
    found = np.moveaxis(np.moveaxis(total, -1, 1), 2, 0).reshape((batch, groups * batches * outputs, *out_space))
    return np.transpose(
        found, np.argsort([n.output_batch_dimension, n.output_feature_dimension, *n.output_spatial_dimensions])
    )


def added(machine: Machine, kind: PrimitiveType, a: Array, b: Array) -> Array:
    """The sum of two arrays of a type."""
    if is_real(kind):
        return machine.domain.add(a, b)
    if kind.is_complex:
        d = machine.domain
        return d.complex(d.add(d.real(a), d.real(b)), d.add(d.imag(a), d.imag(b)))
    return np.add(a, b)
