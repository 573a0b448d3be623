"""Bitcasts, as in XLA's `ShapeUtil`: whether a transpose or a reshape moves nothing in memory, and which transposes and
reshapes a bitcast consists of.

As in XLA these functions use `minor_to_major` and ignore tiles. An array without a layout has the default one.

A reshape keeps the row-major number of every element. It is a bitcast if it also keeps the position of every element in
memory, that is, if both arrays map the same number to the same position. A list of (size, stride), in row-major order,
describes that map. Neighbours whose strides fit together are merged and sizes of 1 are dropped. Two such lists are
equal exactly if the maps are equal.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from xlashape.base.math import product
from xlashape.errors import InvalidArgumentError, InvalidShapeError
from xlashape.shape.arguments import array_of, permutation_of
from xlashape.shape.parts.checks import brief
from xlashape.shape.value.shape import Layout, Shape
from xlashape.shape.xla_util.shape_util._common import minor_to_major_of
from xlashape.shape.xla_util.shape_util.elements import same_element_type
from xlashape.shape.xla_util.shape_util.make import make_shape_with_descending_layout_and_same_physical_layout
from xlashape.shape.xla_util.shape_util.sizes import elements_in

__all__ = [
    "BitcastDecomposition", "BitcastDecompositionReshape", "BitcastDecompositionTranspose", "BitcastDecompositionTrt",
    "ShapeEqualityDescriptor", "align_layouts", "decompose_bitcast", "decompose_bitcast_to_trt",
    "deduce_transpose_dimensions_for_bitcast", "dimensions_unmodified_by_reshape",
    "get_normalized_logical_transpose_shape", "inserted_or_deleted_1_sized_dimensions", "is_decomposable_bitcast",
    "is_reshape_or_transpose_bitcast", "reshape_is_bitcast", "reshape_leaves_dimensions_unmodified",
    "transpose_is_bitcast",
]  # fmt: skip


class ShapeEqualityDescriptor(NamedTuple):
    """Which dimensions of size 1 are deleted from the first shape, and which are inserted in the second."""

    deleted_dimensions: tuple[int, ...]
    inserted_dimensions: tuple[int, ...]


class BitcastDecompositionReshape(NamedTuple):
    """The bitcast is a reshape."""


class BitcastDecompositionTranspose(NamedTuple):
    """The bitcast is a transpose with these `dimensions`."""

    transpose_dims: tuple[int, ...]


class BitcastDecompositionTrt(NamedTuple):
    """The bitcast is a transpose, a reshape and a transpose; the shapes between them have the default order in
    memory.
    """

    transpose1_dims: tuple[int, ...]
    transpose1_shape: Shape
    reshape_shape: Shape
    transpose2_dims: tuple[int, ...]

    def is_transpose1_identity(self) -> bool:
        """Whether the first transpose changes nothing."""
        return self.transpose1_dims == tuple(range(len(self.transpose1_dims)))

    def is_transpose2_identity(self) -> bool:
        """Whether the second transpose changes nothing."""
        return self.transpose2_dims == tuple(range(len(self.transpose2_dims)))


BitcastDecomposition = BitcastDecompositionReshape | BitcastDecompositionTranspose | BitcastDecompositionTrt


def transpose_is_bitcast(
    input_shape: Shape, output_shape: Shape, dimension_mapping: Iterable[int], ignore_element_type: bool = False
) -> bool:
    """Whether the transpose whose output dimension i is the input's `dimension_mapping[i]` moves nothing in memory.

    >>> a, b = Shape.parse("f32[2,3]{1,0}"), Shape.parse("f32[3,2]{0,1}")
    >>> transpose_is_bitcast(a, b, (1, 0))
    True
    """
    source, target = array_of(input_shape), array_of(output_shape)
    if not ignore_element_type and not same_element_type(source, target):
        return False
    mapping = permutation_of(target.rank, dimension_mapping, "dimension_mapping")
    if source.rank != target.rank:
        raise InvalidArgumentError(
            f"{brief(source)} and {brief(target)} do not have the same number of dimensions", field="output_shape"
        )
    return [mapping[d] for d in minor_to_major_of(target)] == list(minor_to_major_of(source))


def reshape_is_bitcast(input_shape: Shape, output_shape: Shape, ignore_element_type: bool = False) -> bool:
    """Whether the reshape moves nothing in memory.

    False unless both have the same number of elements. A reshape of an array without elements always is a bitcast.

    >>> (
    ...     reshape_is_bitcast(Shape.parse("f32[2,3]{1,0}"), Shape.parse("f32[6]")),
    ...     reshape_is_bitcast(Shape.parse("f32[2,3]{0,1}"), Shape.parse("f32[6]")),
    ... )
    (True, False)
    """
    source, target = array_of(input_shape), array_of(output_shape)
    if not ignore_element_type and not same_element_type(source, target):
        return False
    count = elements_in(source)
    return count == elements_in(target) and (not count or _runs(source) == _runs(target))


def _runs(array: Shape) -> list[tuple[int, int]]:
    """The (size, stride) of an array's dimensions in row-major order, merged as far as possible. No size is 0."""
    strides = [0] * array.rank
    stride = 1
    for dimension in minor_to_major_of(array):
        strides[dimension] = stride
        stride *= array.dimensions[dimension]
    runs: list[tuple[int, int]] = []
    for size, stride in zip(array.dimensions, strides, strict=True):
        if size == 1:
            continue
        if runs and runs[-1][1] == size * stride:
            runs[-1] = (runs[-1][0] * size, stride)
        else:
            runs.append((size, stride))
    return runs


def is_reshape_or_transpose_bitcast(a: Shape, b: Shape, ignore_element_type: bool = False) -> bool:
    """Whether some transpose, or the reshape, from `a` to `b` moves nothing in memory."""
    if not ignore_element_type and not same_element_type(a, b):
        return False
    return deduce_transpose_dimensions_for_bitcast(a, b) is not None or reshape_is_bitcast(
        a, b, ignore_element_type=True
    )


def deduce_transpose_dimensions_for_bitcast(input_shape: Shape, output_shape: Shape) -> tuple[int, ...] | None:
    """The `dimensions` of the transpose that is equal to the bitcast, or None if no transpose is.

    >>> deduce_transpose_dimensions_for_bitcast(Shape.parse("f32[2,3]{1,0}"), Shape.parse("f32[3,2]{0,1}"))
    (1, 0)
    """
    source, target = array_of(input_shape), array_of(output_shape)
    if source.rank != target.rank:
        return None
    dimensions = [0] * source.rank
    for old, new in zip(minor_to_major_of(source), minor_to_major_of(target), strict=True):
        if source.dimensions[old] != target.dimensions[new]:
            return None
        dimensions[new] = old
    return tuple(dimensions)


def is_decomposable_bitcast(a: Shape, b: Shape) -> bool:
    """Whether both are arrays with the same number of elements; their element types are ignored."""
    arrays = all(shape.is_array or shape.is_buffer for shape in (a, b))
    return arrays and elements_in(a) == elements_in(b)


def decompose_bitcast_to_trt(input_shape: Shape, output_shape: Shape) -> BitcastDecompositionTrt:
    """The bitcast as a transpose, a reshape and a transpose. InvalidShapeError unless it is decomposable.

    >>> trt = decompose_bitcast_to_trt(Shape.parse("f32[2,3]{0,1}"), Shape.parse("f32[6]"))
    >>> trt.transpose1_dims, trt.transpose1_shape, trt.reshape_shape, trt.transpose2_dims
    ((1, 0), Shape('f32[3,2]{1,0}'), Shape('f32[6]{0}'), (0,))
    """
    if not is_decomposable_bitcast(input_shape, output_shape):
        raise InvalidShapeError(
            f"a bitcast from {brief(input_shape)} to {brief(output_shape)} cannot be decomposed", field="output_shape"
        )
    source, target = array_of(input_shape), array_of(output_shape)
    back = [0] * target.rank
    for physical, dimension in enumerate(reversed(minor_to_major_of(target))):
        back[dimension] = physical
    return BitcastDecompositionTrt(
        tuple(reversed(minor_to_major_of(source))),
        make_shape_with_descending_layout_and_same_physical_layout(source),
        make_shape_with_descending_layout_and_same_physical_layout(target),
        tuple(back),
    )


def decompose_bitcast(input_shape: Shape, output_shape: Shape) -> BitcastDecomposition | None:
    """The bitcast as a reshape if it is one, else as a transpose if it is one, else as `decompose_bitcast_to_trt` does.

    None if the bitcast is not decomposable.
    """
    if not is_decomposable_bitcast(input_shape, output_shape):
        return None
    if reshape_is_bitcast(input_shape, output_shape, ignore_element_type=True):
        return BitcastDecompositionReshape()
    dimensions = deduce_transpose_dimensions_for_bitcast(input_shape, output_shape)
    if dimensions is not None:
        return BitcastDecompositionTranspose(dimensions)
    return decompose_bitcast_to_trt(input_shape, output_shape)


def align_layouts(input_shape: Shape, output_shape: Shape) -> Shape | None:
    """The output with the order in memory that makes the reshape from the input a bitcast, or None if no order does.

    Dimensions of size 1 become the most major ones, in their order. As in XLA nothing of the output's old layout is
    kept, and its dynamic flags are kept only if it or the input has a dimension of size 1.

    >>> align_layouts(Shape.parse("f32[4,6]{0,1}"), Shape.parse("f32[2,2,3,2]"))
    Shape('f32[2,2,3,2]{1,0,3,2}')
    """
    source, target = array_of(input_shape), array_of(output_shape)
    if not same_element_type(source, target) or elements_in(source) != elements_in(target):
        return None
    physical = [d for d in minor_to_major_of(source) if source.dimensions[d] != 1]
    stretches: dict[int, tuple[list[int], list[int]]] = {}
    for first, second in _common_factors(source.dimensions, target.dimensions):
        olds = [d for d in reversed(first) if source.dimensions[d] != 1]
        if olds:
            stretches[olds[0]] = (olds, [d for d in reversed(second) if target.dimensions[d] != 1])
    order: list[int] = []
    at = 0
    while at < len(physical):
        olds, news = stretches.get(physical[at], ([], []))
        if not olds or physical[at : at + len(olds)] != olds:
            return None
        order += news
        at += len(olds)
    order += [d for d in reversed(range(target.rank)) if target.dimensions[d] == 1]
    dynamic = target.dynamic_dimensions if 1 in source.dimensions + target.dimensions else None
    return Shape.array(target.element_type, target.dimensions, Layout(order), dynamic)


def inserted_or_deleted_1_sized_dimensions(shape_pre: Shape, shape_post: Shape) -> ShapeEqualityDescriptor | None:
    """The dimensions of size 1 to delete from the first and to insert in the second, if that is the only difference.

    For arrays without elements XLA, and this function, compare only the dimensions before the first difference.

    >>> inserted_or_deleted_1_sized_dimensions(Shape.parse("f32[1,4]"), Shape.parse("f32[4,1]"))
    ShapeEqualityDescriptor(deleted_dimensions=(0,), inserted_dimensions=(1,))
    """
    deleted: list[int] = []
    inserted: list[int] = []
    before, after = array_of(shape_pre).dimensions, array_of(shape_post).dimensions
    for first, second in _common_factors(before, after):
        if len(first) == len(second) == 1:
            continue
        if any(before[d] > 1 for d in first) or any(after[d] > 1 for d in second):
            return None
        deleted += first
        inserted += second
    return ShapeEqualityDescriptor(tuple(deleted), tuple(inserted))


def dimensions_unmodified_by_reshape(input_shape: Shape, output_shape: Shape) -> tuple[tuple[int, int], ...]:
    """The pairs of an input and an output dimension that the reshape does not change, in order; layouts are ignored.

    >>> dimensions_unmodified_by_reshape(Shape.parse("f32[2,3,4,5,42]"), Shape.parse("f32[6,4,1,5,6,7]"))
    ((2, 1), (3, 3))
    """
    source, target = array_of(input_shape), array_of(output_shape)
    if elements_in(source) != elements_in(target):
        message = f"{brief(target)} does not have as many elements as {brief(source)}"
        raise InvalidShapeError(message, field="output_shape")
    pairs: list[tuple[int, int]] = []
    for first, second in _common_factors(source.dimensions, target.dimensions):
        if len(first) == 1 and len(second) == 1:
            pairs.append((first[0], second[0]))
    return tuple(pairs)


def _common_factors(a: tuple[int, ...], b: tuple[int, ...]) -> list[tuple[range, range]]:
    """Both lists cut into the shortest stretches with equal products, in order. A 1 opposite another number is a
    stretch by itself.

    Where the lists begin with equal numbers, each pair is a stretch. If a 0 follows, the rest is one stretch. If the
    rests do not have the same product, the lists as they are form one stretch.
    """
    i = j = next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))
    if product(a[i:]) != product(b[j:]):
        return [(range(len(a)), range(len(b)))]
    stretches = [(range(k, k + 1), range(k, k + 1)) for k in range(i)]
    if 0 in a[i:] or 0 in b[j:]:
        return [*stretches, (range(i, len(a)), range(j, len(b)))]
    while i < len(a) or j < len(b):
        first, second = i, j
        if i < len(a) and j < len(b) and (a[i] == b[j] or 1 not in (a[i], b[j])):
            left, right = a[i], b[j]
            i, j = i + 1, j + 1
            while left != right:
                if left < right:
                    left, i = left * a[i], i + 1
                else:
                    right, j = right * b[j], j + 1
        elif i < len(a) and a[i] == 1:
            i += 1
        else:
            j += 1
        stretches.append((range(first, i), range(second, j)))
    return stretches


def reshape_leaves_dimensions_unmodified(
    from_shape: Shape, to_shape: Shape, input_dim_indices: Iterable[int]
) -> tuple[int, ...] | None:
    """The output dimensions of the given input dimensions, which ascend, or None if the reshape changes one of them.

    >>> a, b = Shape.parse("f32[2,3,4,5,42]"), Shape.parse("f32[6,4,1,5,6,7]")
    >>> reshape_leaves_dimensions_unmodified(a, b, (2, 3)), reshape_leaves_dimensions_unmodified(a, b, (0,))
    ((1, 3), None)
    """
    unmodified = dict(dimensions_unmodified_by_reshape(from_shape, to_shape))
    inputs = list(input_dim_indices)
    if any(dimension not in unmodified for dimension in inputs):
        return None
    return tuple([unmodified[dimension] for dimension in inputs])


def get_normalized_logical_transpose_shape(
    operand_shape: Shape, output_shape: Shape, dimensions: Iterable[int]
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The transpose in as few dimensions as possible: the sizes of its output, and its permutation.

    Dimensions of size 1 are dropped, and dimensions that stay neighbours are merged. A transpose that moves nothing
    becomes one dimension with the permutation (0,). InvalidShapeError unless the two shapes are those of a transpose
    with these `dimensions`, and for layouts that do not descend, for which XLA gives no answer.

    >>> get_normalized_logical_transpose_shape(
    ...     Shape.parse("f32[10,1,11,32]"), Shape.parse("f32[32,1,10,11]"), (3, 1, 0, 2)
    ... )
    ((32, 110), (1, 0))
    """
    source, target = array_of(operand_shape), array_of(output_shape)
    mapping = permutation_of(target.rank, dimensions, "dimensions")
    if source.rank != target.rank or tuple([source.dimensions[d] for d in mapping]) != target.dimensions:
        raise InvalidShapeError(
            f"{brief(target)} is not a transpose of {brief(source)} by {tuple(mapping)}", field="output_shape"
        )
    for field, array in (("operand_shape", source), ("output_shape", target)):
        if array.layout is not None and list(array.layout.minor_to_major) != list(range(array.rank))[::-1]:
            raise InvalidShapeError(f"the layout must descend, found {brief(array)}", field=field)
    kept = [d for d in range(source.rank) if source.dimensions[d] != 1]
    number = {d: i for i, d in enumerate(kept)}
    sizes: list[int] = []
    firsts: list[int] = []
    previous = None
    for d in [number[d] for d in mapping if d in number]:
        size = source.dimensions[kept[d]]
        if previous is not None and d == previous + 1:
            sizes[-1] *= size
        else:
            sizes.append(size)
            firsts.append(d)
        previous = d
    ranks = {first: i for i, first in enumerate(sorted(firsts))}
    return tuple(sizes), tuple([ranks[first] for first in firsts])
