"""Functions of XLA's `ShapeUtil` on the dimensions of an array: questions about them, and adding, deleting and
reordering them.

A dimension number may be negative; -1 is the last dimension. A buffer is treated as the array it holds and stays a
buffer. A function that changes a shape in XLA returns a new one here. Split configs follow their dimensions; XLA leaves
the numbers in them as they are when a most major dimension is added.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from xlashape.errors import InvalidArgumentError, InvalidIndexError, InvalidShapeError
from xlashape.shape.arguments import array_of, dimension_number, dimension_numbers, permutation_of
from xlashape.shape.parts.checks import brief, integer, shown
from xlashape.shape.parts.primitive_type import PrimitiveType
from xlashape.shape.parts.tile import UNBOUNDED_SIZE
from xlashape.shape.value.shape import Layout, Shape
from xlashape.shape.xla_util.shape_util._common import map_leaves, minor_to_major_of, on_array, reordered

__all__ = [
    "append_major_dimension", "append_minor_dimension", "copy_dynamic_dimensions", "delete_dimension",
    "delete_dimensions", "drop_degenerate_dimensions", "filter_dimensions", "get_dimension", "get_dimension_number",
    "has_degenerate_dimensions", "insert_dimension_at_index", "insert_dimensions_at_index", "is_effective_scalar",
    "is_effectively_most_major_dimension", "is_scalar", "is_scalar_with_element_type", "last_dim_is_minor_most",
    "move_dim_to_major", "permute_dimensions", "permute_dimensions_ignoring_layout", "prepend_major_dimension",
    "reorder_logical_dimensions", "true_num_dimensions",
]  # fmt: skip


def is_scalar(shape: Shape) -> bool:
    """Whether the shape is an array of no dimensions."""
    return shape.is_scalar


def is_effective_scalar(shape: Shape) -> bool:
    """Whether the shape is an array, or a buffer of an array, whose dimensions all have size 1."""
    return (shape.is_array or shape.is_buffer) and true_num_dimensions(shape) == 0


def is_scalar_with_element_type(shape: Shape, element_type: PrimitiveType | str | int) -> bool:
    """Whether the shape is a scalar of that type, or a buffer of such a scalar."""
    array = shape.buffer_shape if shape.is_buffer else shape
    return array.is_scalar and array.element_type == PrimitiveType.of(element_type)


def true_num_dimensions(array_shape: Shape) -> int:
    """The number of dimensions whose size is not 1.

    >>> true_num_dimensions(Shape.parse("f32[3,0,1]"))
    2
    """
    return sum([size != 1 for size in array_of(array_shape).dimensions])


def has_degenerate_dimensions(shape: Shape) -> bool:
    """Whether some dimension has size 1 (or is dynamic with the bound 1)."""
    return 1 in array_of(shape).dimensions


def get_dimension_number(shape: Shape, dimension_number: int) -> int:
    """A dimension number counted from 0. InvalidIndexError if there is no such dimension.

    >>> get_dimension_number(Shape.parse("f32[2,3]"), -1)
    1
    """
    return _number(array_of(shape).rank, dimension_number, "dimension_number")


_number = dimension_number


def get_dimension(shape: Shape, dimension_number: int) -> int:
    """The size of a dimension; the bound of a dynamic dimension, UNBOUNDED_SIZE if it has none."""
    return array_of(shape).dimensions[get_dimension_number(shape, dimension_number)]


def is_effectively_most_major_dimension(shape: Shape, dimension: int) -> bool:
    """Whether all dimensions that are more major than this one in the layout have size 1.

    >>> is_effectively_most_major_dimension(Shape.parse("f32[1,2,3]"), 1)
    True
    """
    array = array_of(shape)
    number = _number(array.rank, dimension)
    order = list(minor_to_major_of(array))
    return all(array.dimensions[d] == 1 for d in order[order.index(number) + 1 :])


def last_dim_is_minor_most(shape: Shape) -> bool:
    """Whether the last dimension varies fastest; false for a scalar.

    >>> last_dim_is_minor_most(Shape.parse("f32[2,3]{1,0}")), last_dim_is_minor_most(Shape.parse("f32[2,3]{0,1}"))
    (True, False)
    """
    array = array_of(shape)
    return array.rank > 0 and minor_to_major_of(array)[0] == array.rank - 1


def append_major_dimension(bound: int, shape: Shape) -> Shape:
    """The array with a last dimension that varies slowest.

    >>> append_major_dimension(5, Shape.parse("f32[2,3]{1,0}"))
    Shape('f32[2,3,5]{1,0,2}')
    """
    return _with_dimension(shape, bound, at_front=False, major=True)


def append_minor_dimension(bound: int, shape: Shape) -> Shape:
    """The array with a last dimension that varies fastest.

    >>> append_minor_dimension(5, Shape.parse("f32[2,3]{0,1}"))
    Shape('f32[2,3,5]{2,0,1}')
    """
    return _with_dimension(shape, bound, at_front=False, major=False)


def prepend_major_dimension(bound: int, shape: Shape) -> Shape:
    """The array with a first dimension that varies slowest.

    >>> prepend_major_dimension(5, Shape.parse("f32[2,3]{0,1}"))
    Shape('f32[5,2,3]{1,2,0}')
    """
    return _with_dimension(shape, bound, at_front=True, major=True)


def _with_dimension(shape: Shape, bound: int, *, at_front: bool, major: bool) -> Shape:
    def change(array: Shape) -> Shape:
        new = 0 if at_front else array.rank
        numbers = {d: d + at_front for d in range(array.rank)}
        order = [numbers[d] for d in minor_to_major_of(array)]
        order.insert(len(order) if major else 0, new)
        sizes, flags = list(array.dimensions), list(array.dynamic_dimensions)
        sizes.insert(new, bound)
        flags.insert(new, bound == UNBOUNDED_SIZE)
        physical = {p: p + major for p in range(array.rank)}
        return array.replace(
            dimensions=sizes, dynamic_dimensions=flags, layout=reordered(array.layout, order, physical)
        )

    return on_array(shape, change)


def insert_dimension_at_index(shape: Shape, index: int, dimension_size: int) -> Shape:
    """The array with one more dimension before dimension `index`, or at the end. See `insert_dimensions_at_index`."""
    return insert_dimensions_at_index(shape, index, (dimension_size,))


def insert_dimensions_at_index(shape: Shape, index: int, dimension_sizes: Iterable[int]) -> Shape:
    """The array with new dimensions before dimension `index`, or at the end if `index` is the number of dimensions.

    In memory, from major to minor, the new dimensions come directly before dimension `index`, in their order; new
    dimensions at the end are the most minor ones. As in XLA the result is static, except for unbounded dimensions, and
    only the order of its layout is kept.

    >>> insert_dimensions_at_index(Shape.parse("f32[2,3]{0,1}"), 1, (7, 8))
    Shape('f32[2,7,8,3]{0,3,2,1}')
    """
    new_sizes = list(dimension_sizes)

    def change(array: Shape) -> Shape:
        rank, count = array.rank, len(new_sizes)
        at = integer(index, "index")
        if not -rank <= at <= rank:
            raise InvalidIndexError(f"no dimension can be inserted at {shown(at)} of {rank}", field="index")
        at = at + rank if at < 0 else at
        sizes = (*array.dimensions[:at], *new_sizes, *array.dimensions[at:])
        layout = None
        if array.layout is not None:
            order = [d if d < at else d + count for d in array.layout.minor_to_major]
            position = order.index(at + count) + 1 if at < rank else 0
            layout = Layout((*order[:position], *range(at + count - 1, at - 1, -1), *order[position:]))
        return array.replace(dimensions=sizes, dynamic_dimensions=None, layout=layout)

    return on_array(shape, change)


def filter_dimensions(p: Callable[[int], bool], shape: Shape) -> Shape:
    """The array without the dimensions whose number `p` refuses; the others keep their order in memory.

    >>> filter_dimensions(lambda d: d != 1, Shape.parse("f32[2,3,4]{0,1,2}"))
    Shape('f32[2,4]{0,1}')
    """

    def change(array: Shape) -> Shape:
        kept = [d for d in range(array.rank) if p(d)]
        numbers = {d: i for i, d in enumerate(kept)}
        old = minor_to_major_of(array)
        order = [numbers[d] for d in old if d in numbers]
        majors = [p for p, d in enumerate(reversed(old)) if d in numbers]
        return array.replace(
            dimensions=[array.dimensions[d] for d in kept],
            dynamic_dimensions=[array.dynamic_dimensions[d] for d in kept],
            layout=reordered(array.layout, order, {p: i for i, p in enumerate(majors)}),
        )

    return on_array(shape, change)


def delete_dimension(dim_to_delete: int, shape: Shape) -> Shape:
    """The array without one dimension.

    >>> delete_dimension(1, Shape.parse("f32[2,3,4]{0,1,2}"))
    Shape('f32[2,4]{0,1}')
    """
    deleted = _number(array_of(shape).rank, dim_to_delete, "dim_to_delete")
    return filter_dimensions(lambda d: d != deleted, shape)


def delete_dimensions(dims_to_delete: Iterable[int], shape: Shape) -> Shape:
    """The array without these dimensions. They are given in any order, each once."""
    deleted = set(dimension_numbers(array_of(shape).rank, dims_to_delete, "dims_to_delete"))
    return filter_dimensions(lambda d: d not in deleted, shape)


def drop_degenerate_dimensions(shape: Shape) -> Shape:
    """The array without its dimensions of size 1.

    >>> drop_degenerate_dimensions(Shape.parse("f32[1,3,1,4]{0,3,2,1}"))
    Shape('f32[3,4]{1,0}')
    """
    sizes = array_of(shape).dimensions
    return filter_dimensions(lambda d: sizes[d] != 1, shape)


def permute_dimensions(permutation: Iterable[int], shape: Shape) -> Shape:
    """The array whose dimension i is the old dimension `permutation[i]`, with a layout that leaves every element where
    it is in memory.

    >>> permute_dimensions((2, 0, 1), Shape.parse("f32[2,3,4]{2,1,0}"))
    Shape('f32[4,2,3]{0,2,1}')
    """
    return _permuted(permutation, shape, keep_layout=False)


def permute_dimensions_ignoring_layout(permutation: Iterable[int], shape: Shape) -> Shape:
    """The array whose dimension i is the old dimension `permutation[i]`; the layout's order stays as it is written.

    >>> permute_dimensions_ignoring_layout((1, 0), Shape.parse("f32[2,3]{1,0}"))
    Shape('f32[3,2]{1,0}')
    """
    return _permuted(permutation, shape, keep_layout=True)


def reorder_logical_dimensions(shape: Shape, permutation: Iterable[int]) -> Shape:
    """The same as `permute_dimensions`: the physical order of the dimensions stays, and their numbers change."""
    return permute_dimensions(permutation, shape)


def _permuted(permutation: Iterable[int], shape: Shape, *, keep_layout: bool) -> Shape:
    named = list(permutation)

    def change(array: Shape) -> Shape:
        source = permutation_of(array.rank, named)
        numbers = {old: new for new, old in enumerate(source)}
        order = minor_to_major_of(array)
        if not keep_layout:
            order = [numbers[d] for d in order]
        return array.replace(
            dimensions=[array.dimensions[d] for d in source],
            dynamic_dimensions=[array.dynamic_dimensions[d] for d in source],
            layout=reordered(array.layout, order, {p: p for p in range(array.rank)}),
        )

    return on_array(shape, change)


def move_dim_to_major(shape: Shape, dim: int) -> Shape:
    """The shape with dimension `dim` varying slowest in every array; the others keep their order.

    As in XLA only the order of the layout is kept; tiles and everything else are dropped.

    >>> move_dim_to_major(Shape.parse("f32[2,3,4]{2,1,0}"), 2)
    Shape('f32[2,3,4]{1,0,2}')
    """
    for leaf in shape.leaves():
        if leaf.is_token or leaf.is_opaque:
            raise InvalidShapeError(f"a {leaf.element_type.text} has no dimensions", field="shape")

    def change(array: Shape) -> Shape:
        if not array.rank:
            return array.with_layout(Layout())
        number = _number(array.rank, dim, "dim")
        return array.with_layout(Layout([*[d for d in minor_to_major_of(array) if d != number], number]))

    return map_leaves(shape, change)


def copy_dynamic_dimensions(to: Shape, from_: Shape) -> Shape:
    """The first array with the dynamic flags of the second, which has the same number of dimensions.

    >>> copy_dynamic_dimensions(Shape.parse("f32[2,3]"), Shape.parse("s32[<=5,6]"))
    Shape('f32[<=2,3]{1,0}')
    """
    flags = array_of(from_).dynamic_dimensions
    if len(flags) != array_of(to).rank:
        message = f"{brief(to)} has {array_of(to).rank} dimensions, {brief(from_)} has {len(flags)}"
        raise InvalidArgumentError(message, field="from_")
    return on_array(to, lambda array: array.replace(dynamic_dimensions=flags))
