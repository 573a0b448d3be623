"""When a transpose or a reshape moves nothing in memory, and into which of them a bitcast falls apart. XLA's `ShapeUtil`.

As in XLA these functions look at `minor_to_major` and leave tiles aside. An array without a layout counts as one with
the default layout.

A reshape keeps the row-major number of every element. It is a bitcast when it also keeps its place in memory: when both
arrays send the same number to the same place. Each array does that by a list of (size, stride); neighbours that fit
together merge, size 1 drops out, and what is left is the same list exactly when the functions are the same.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from xlashape.errors import InvalidArgumentError, InvalidShapeError
from xlashape.shape.layout import Layout
from xlashape.shape.shape import Shape
from xlashape.shape.shape_util._common import array_of, minor_to_major_of, permutation_of, text_of
from xlashape.shape.shape_util.elements import same_element_type
from xlashape.shape.shape_util.make import make_shape_with_descending_layout_and_same_physical_layout
from xlashape.shape.shape_util.sizes import byte_size_of_primitive_type, elements_in

__all__ = [
    "BitcastDecomposition",
    "BitcastDecompositionReshape",
    "BitcastDecompositionTranspose",
    "BitcastDecompositionTrt",
    "ShapeEqualityDescriptor",
    "align_layouts",
    "decompose_bitcast",
    "decompose_bitcast_to_trt",
    "deduce_transpose_dimensions_for_bitcast",
    "dimensions_unmodified_by_reshape",
    "get_normalized_logical_transpose_shape",
    "inserted_or_deleted_1_sized_dimensions",
    "is_decomposable_bitcast",
    "is_reshape_or_transpose_bitcast",
    "reshape_is_bitcast",
    "reshape_leaves_dimensions_unmodified",
    "transpose_is_bitcast",
]


class ShapeEqualityDescriptor(NamedTuple):
    """Which dimensions of size 1 go from the first shape, and which come in the second."""

    deleted_dimensions: tuple[int, ...]
    inserted_dimensions: tuple[int, ...]


class BitcastDecompositionReshape(NamedTuple):
    """The bitcast is a reshape."""


class BitcastDecompositionTranspose(NamedTuple):
    """The bitcast is a transpose with these `dimensions`."""

    transpose_dims: tuple[int, ...]


class BitcastDecompositionTrt(NamedTuple):
    """The bitcast is a transpose, a reshape and a transpose; the shapes between them have the default order in memory."""

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
            f"{text_of(source)} and {text_of(target)} have not the same number of dimensions", field="output_shape"
        )
    return [mapping[d] for d in minor_to_major_of(target)] == list(minor_to_major_of(source))


def reshape_is_bitcast(input_shape: Shape, output_shape: Shape, ignore_element_type: bool = False) -> bool:
    """Whether the reshape moves nothing in memory.

    InvalidShapeError unless both have as many elements. Arrays of no elements are always a bitcast apart.

    >>> reshape_is_bitcast(Shape.parse("f32[2,3]{1,0}"), Shape.parse("f32[6]")), reshape_is_bitcast(
    ...     Shape.parse("f32[2,3]{0,1}"), Shape.parse("f32[6]"))
    (True, False)
    """
    source, target = array_of(input_shape), array_of(output_shape)
    if not ignore_element_type and not same_element_type(source, target):
        return False
    _require_same_elements(source, target)
    return not elements_in(source) or _runs(source) == _runs(target)


def _require_same_elements(source: Shape, target: Shape) -> None:
    a, b = elements_in(source), elements_in(target)
    if a != b:
        raise InvalidShapeError(f"{text_of(source)} has {a} elements, {text_of(target)} has {b}", field="output_shape")


def _runs(array: Shape) -> list[tuple[int, int]]:
    """The (size, stride) of an array's dimensions in row-major order, merged as far as they merge. No size is 0."""
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
    """The dimensions of the transpose that the bitcast is, or None if it is none.

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
    """Whether both are arrays of as many elements, and of the same size in bytes."""
    if not all(shape.is_array or shape.is_buffer for shape in (a, b)):
        return False
    source, target = array_of(a), array_of(b)
    return elements_in(source) == elements_in(target) and byte_size_of_primitive_type(
        source.element_type
    ) == byte_size_of_primitive_type(target.element_type)


def decompose_bitcast_to_trt(input_shape: Shape, output_shape: Shape) -> BitcastDecompositionTrt:
    """The bitcast as a transpose, a reshape and a transpose. InvalidShapeError unless it is decomposable.

    >>> trt = decompose_bitcast_to_trt(Shape.parse("f32[2,3]{0,1}"), Shape.parse("f32[6]"))
    >>> trt.transpose1_dims, trt.transpose1_shape, trt.reshape_shape, trt.transpose2_dims
    ((1, 0), Shape('f32[3,2]{1,0}'), Shape('f32[6]{0}'), (0,))
    """
    if not is_decomposable_bitcast(input_shape, output_shape):
        raise InvalidShapeError(
            f"a bitcast from {text_of(input_shape)} to {text_of(output_shape)} cannot be decomposed",
            field="output_shape",
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

    None unless it is decomposable.
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
    """The output with the order in memory that makes the reshape from the input a bitcast, or None if there is none.

    Dimensions of size 1 come out most major, the last one least so. As in XLA the answer is static, and of its old layout
    nothing is left.

    >>> align_layouts(Shape.parse("f32[4,6]{0,1}"), Shape.parse("f32[2,2,3,2]"))
    Shape('f32[2,2,3,2]{1,0,3,2}')
    """
    source, target = array_of(input_shape), array_of(output_shape)
    if not same_element_type(source, target):
        raise InvalidShapeError(
            f"{source.element_type} and {target.element_type} are not the same", field="output_shape"
        )
    _require_same_elements(source, target)
    aligned = Shape.array(target.element_type, target.dimensions)
    if not elements_in(source):
        return aligned
    strided: list[tuple[int, int]] = []  # stride and number of the target's dimensions of more than one element
    dimension = target.rank - 1
    for size, stride in reversed(_runs(source)):
        end = stride * size
        while stride < end:
            while target.dimensions[dimension] == 1:
                dimension -= 1
            strided.append((stride, dimension))
            stride *= target.dimensions[dimension]
            dimension -= 1
        if stride != end:
            return None
    order = [number for _, number in sorted(strided)]
    order += [d for d in reversed(range(target.rank)) if target.dimensions[d] == 1]
    return aligned.with_layout(Layout(order))


def inserted_or_deleted_1_sized_dimensions(shape_pre: Shape, shape_post: Shape) -> ShapeEqualityDescriptor | None:
    """The dimensions of size 1 to delete from the first and to insert in the second, if that is all the difference.

    >>> inserted_or_deleted_1_sized_dimensions(Shape.parse("f32[1,4]"), Shape.parse("f32[4,1]"))
    ShapeEqualityDescriptor(deleted_dimensions=(0,), inserted_dimensions=(1,))
    """
    before, after = array_of(shape_pre).dimensions, array_of(shape_post).dimensions
    deleted: list[int] = []
    inserted: list[int] = []
    i = j = 0
    while i < len(before) or j < len(after):
        if i < len(before) and j < len(after) and before[i] == after[j]:
            i, j = i + 1, j + 1
        elif i < len(before) and before[i] == 1:
            deleted.append(i)
            i += 1
        elif j < len(after) and after[j] == 1:
            inserted.append(j)
            j += 1
        else:
            return None
    return ShapeEqualityDescriptor(tuple(deleted), tuple(inserted))


def dimensions_unmodified_by_reshape(input_shape: Shape, output_shape: Shape) -> tuple[tuple[int, int], ...]:
    """The pairs of an input and an output dimension that the reshape leaves alone, in order; layouts are left aside.

    >>> dimensions_unmodified_by_reshape(Shape.parse("f32[2,3,4,5,42]"), Shape.parse("f32[6,4,1,5,6,7]"))
    ((2, 1), (3, 3))
    """
    source, target = array_of(input_shape), array_of(output_shape)
    _require_same_elements(source, target)
    a, b = source.dimensions, target.dimensions
    pairs: list[tuple[int, int]] = []
    for first, second in _common_factors(a, b):
        if len(first) == 1 and len(second) == 1:
            pairs.append((first[0], second[0]))
    return tuple(pairs)


def _common_factors(a: tuple[int, ...], b: tuple[int, ...]) -> list[tuple[range, range]]:
    """The shortest stretches of both lists with equal products, in order. A 1 across from something else stands alone.

    Lists with a 0 in them are one stretch, unless they are equal.
    """
    if a == b:
        return [(range(i, i + 1), range(i, i + 1)) for i in range(len(a))]
    if 0 in a or 0 in b:
        return [(range(len(a)), range(len(b)))]
    stretches: list[tuple[range, range]] = []
    i = j = 0
    while i < len(a) or j < len(b):
        first, second = i, j
        if i < len(a) and j < len(b) and (a[i] == b[j] or 1 not in (a[i], b[j])):
            left, right = a[i], b[j]
            i, j = i + 1, j + 1
            while left != right and (i < len(a) if left < right else j < len(b)):
                if left < right:
                    left, i = left * a[i], i + 1
                else:
                    right, j = right * b[j], j + 1
        elif i < len(a) and (a[i] == 1 or j == len(b)):
            i += 1
        else:
            j += 1
        stretches.append((range(first, i), range(second, j)))
    return stretches


def reshape_leaves_dimensions_unmodified(
    from_shape: Shape, to_shape: Shape, input_dim_indices: Iterable[int]
) -> tuple[int, ...] | None:
    """The output dimensions of the input dimensions named, which ascend, or None if the reshape changes one of them.

    >>> a, b = Shape.parse("f32[2,3,4,5,42]"), Shape.parse("f32[6,4,1,5,6,7]")
    >>> reshape_leaves_dimensions_unmodified(a, b, (2, 3)), reshape_leaves_dimensions_unmodified(a, b, (0,))
    ((1, 3), None)
    """
    unmodified = dict(dimensions_unmodified_by_reshape(from_shape, to_shape))
    found = [unmodified.get(dimension) for dimension in input_dim_indices]
    outputs = [dimension for dimension in found if dimension is not None]
    return tuple(outputs) if len(outputs) == len(found) else None


def get_normalized_logical_transpose_shape(
    operand_shape: Shape, output_shape: Shape, dimensions: Iterable[int]
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The transpose in as few dimensions as it takes: the sizes of its output, and its permutation.

    Dimensions of size 1 drop out, and those that stay neighbours become one; layouts are left aside. A transpose that
    moves nothing becomes one dimension with the permutation (0,). InvalidShapeError unless the two shapes are those of
    a transpose with these `dimensions`.

    >>> get_normalized_logical_transpose_shape(Shape.parse("f32[10,1,11,32]"), Shape.parse("f32[32,1,10,11]"), (3, 1, 0, 2))
    ((32, 110), (1, 0))
    """
    source, target = array_of(operand_shape), array_of(output_shape)
    mapping = permutation_of(target.rank, dimensions, "dimensions")
    if source.rank != target.rank or tuple([source.dimensions[d] for d in mapping]) != target.dimensions:
        raise InvalidShapeError(
            f"{text_of(target)} is no transpose of {text_of(source)} by {tuple(mapping)}", field="output_shape"
        )
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
