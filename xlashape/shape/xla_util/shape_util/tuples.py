"""Functions of XLA's `ShapeUtil` on the shapes inside a tuple, and on the indices of an array's elements.

A function that calls a visitor in XLA returns a Python iterator. A leaf is a shape that is not a tuple; a buffer is a
leaf. A wrong index, for which XLA aborts the process, is an InvalidIndexError. A shape that must be a tuple and is not
is an InvalidShapeError.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from xlashape.base.frozen import FrozenValue, set_field
from xlashape.errors import InvalidArgumentError, InvalidIndexError, InvalidShapeError
from xlashape.limits import spend
from xlashape.shape.arguments import array_of, dimension_number, not_a_shape
from xlashape.shape.parts.checks import brief, integer, shown
from xlashape.shape.parts.tile import UNBOUNDED_SIZE
from xlashape.shape.value.shape import Shape
from xlashape.shape.value.shape_index import ShapeIndex
from xlashape.shape.xla_util.shape_util._common import minor_to_major_of, on_array, require_tuple

__all__ = [
    "IndexedShape", "append_shape_to_tuple", "flatten_tuple_shape", "for_each_index", "for_each_leaf_shape",
    "for_each_subshape", "for_each_subshape_post_order", "get_leaf_count", "get_leaf_shapes", "get_subshape",
    "get_tuple_element_shape", "index_is_valid", "is_empty_tuple", "is_leaf_index", "is_nested_tuple", "slice_tuple",
    "subshape_count", "try_get_subshape", "tuple_element_count", "update_dynamic_dimension", "update_tuple_shape",
]  # fmt: skip


class IndexedShape(FrozenValue):
    """A shape inside another one, and its index there."""

    __slots__ = ("index", "shape")
    __match_args__ = ("index", "shape")
    _fields = ("index", "shape")
    index: ShapeIndex
    shape: Shape

    def __init__(self, index: ShapeIndex, shape: Shape) -> None:
        set_field(self, "index", index)
        set_field(self, "shape", shape)

    def __repr__(self) -> str:
        return f"IndexedShape(index={self.index!r}, shape={self.shape!r})"


def is_nested_tuple(shape: Shape) -> bool:
    """Whether the shape is a tuple with a tuple among its elements."""
    return shape.is_tuple and any(inner.is_tuple for inner in shape.tuple_shapes)


def is_empty_tuple(shape: Shape) -> bool:
    """Whether the shape is the tuple of no elements."""
    return shape.is_tuple and not shape.tuple_shapes


def tuple_element_count(shape: Shape) -> int:
    """The number of a tuple's elements, without the elements of inner tuples."""
    require_tuple(shape)
    return len(shape.tuple_shapes)


def get_tuple_element_shape(shape: Shape, index: int) -> Shape:
    """An element of a tuple.

    >>> get_tuple_element_shape(Shape.parse("(f32[2], s32[])"), 1)
    Shape('s32[]')
    """
    require_tuple(shape)
    return shape.tuple_shapes[_element(shape, index)]


def _element(shape: Shape, index: int) -> int:
    number = integer(index, "index")
    if not 0 <= number < len(shape.tuple_shapes):
        count = len(shape.tuple_shapes)
        raise InvalidIndexError(f"{brief(shape)} has {count} elements, and no element {shown(number)}", field="index")
    return number


def subshape_count(shape: Shape) -> int:
    """The number of shapes in a shape: the shape itself, and all shapes inside its tuples.

    >>> subshape_count(Shape.parse("(f32[], (s32[], s32[]))"))
    5
    """
    return sum([1 for _ in for_each_subshape(shape)])


def slice_tuple(tuple: Shape, start: int, limit: int) -> Shape:  # noqa: A002 - XLA's name
    """The tuple of the elements from `start` up to, but not including, `limit`.

    >>> slice_tuple(Shape.parse("(f32[], s32[], u32[])"), 1, 3)
    Shape('(s32[], u32[])')
    """
    require_tuple(tuple)
    count = len(tuple.tuple_shapes)
    first, end = integer(start, "start"), integer(limit, "limit")
    if not 0 <= first <= end <= count:
        raise InvalidIndexError(
            f"there is no slice from {shown(first)} to {shown(end)} of {count} elements", field="limit"
        )
    return Shape.tuple(tuple.tuple_shapes[first:end])


def append_shape_to_tuple(shape: Shape, tuple_shape: Shape) -> Shape:
    """The tuple with one more element at its end. XLA changes its argument."""
    require_tuple(tuple_shape)
    return tuple_shape.replace(tuple_shapes=(*tuple_shape.tuple_shapes, shape))


def update_tuple_shape(shape: Shape, index: int, tuple_shape: Shape) -> Shape:
    """The tuple with another element at `index`. XLA changes its argument.

    >>> update_tuple_shape(Shape.parse("s32[]"), 0, Shape.parse("(f32[], f32[])"))
    Shape('(s32[], f32[])')
    """
    require_tuple(tuple_shape)
    elements = list(tuple_shape.tuple_shapes)
    elements[_element(tuple_shape, index)] = shape
    return tuple_shape.replace(tuple_shapes=elements)


def update_dynamic_dimension(shape: Shape, index: Iterable[int], dim: int, is_dynamic: bool) -> Shape:
    """The shape with the dynamic flag of one dimension of the array at `index` set. XLA changes its argument.

    >>> update_dynamic_dimension(Shape.parse("(f32[2,3])"), (0,), -1, True)
    Shape('(f32[2,<=3]{1,0})')
    """
    path = ShapeIndex(index)
    if path:
        inner = update_dynamic_dimension(get_subshape(shape, path[:1]), path[1:], dim, is_dynamic)
        return update_tuple_shape(inner, path[0], shape)

    def update(array: Shape) -> Shape:
        flags = list(array.dynamic_dimensions)
        flags[dimension_number(array.rank, dim, "dim")] = is_dynamic
        return array.replace(dynamic_dimensions=flags)

    return on_array(shape, update)


def index_is_valid(shape: Shape, index: Iterable[int]) -> bool:
    """Whether there is a shape at `index`.

    >>> index_is_valid(Shape.parse("(f32[], (s32[]))"), (1, 0)), index_is_valid(Shape.parse("f32[2]"), (0,))
    (True, False)
    """
    for number in index:
        number = integer(number, "index")
        if not shape.is_tuple or not 0 <= number < len(shape.tuple_shapes):
            return False
        shape = shape.tuple_shapes[number]
    return True


def get_subshape(shape: Shape, index: Iterable[int]) -> Shape:
    """The shape at `index`; the shape itself for an empty one. InvalidIndexError if there is none.

    >>> get_subshape(Shape.parse("(f32[], (s32[], u8[]))"), (1, 1))
    Shape('u8[]')
    """
    subshape = shape
    path = ShapeIndex(index)
    for depth, number in enumerate(path):
        if not subshape.is_tuple or number >= len(subshape.tuple_shapes):
            description = (
                f"a tuple of {len(subshape.tuple_shapes)}"
                if subshape.is_tuple
                else f"{brief(subshape)}, which is not a tuple"
            )
            message = f"there is nothing at {path} of {brief(shape)}: at {ShapeIndex(path[:depth])} is {description}"
            raise InvalidIndexError(message, field=("index", depth))
        subshape = subshape.tuple_shapes[number]
    return subshape


def try_get_subshape(shape: Shape, index: Iterable[int]) -> Shape:
    """The same as `get_subshape`. In XLA, one of the two functions aborts and the other returns an error."""
    return get_subshape(shape, index)


def is_leaf_index(shape: Shape, index: Iterable[int]) -> bool:
    """Whether the shape at `index` is not a tuple."""
    return not get_subshape(shape, index).is_tuple


def get_leaf_count(shape: Shape) -> int:
    """The number of leaves; 1 for a shape that is not a tuple.

    >>> get_leaf_count(Shape.parse("(f32[], (), (s32[], token[]))"))
    3
    """
    return sum([1 for _ in shape.leaves()])


def for_each_subshape(shape: Shape) -> Iterator[tuple[Shape, ShapeIndex]]:
    """Every shape inside a shape with its index, each tuple before its elements.

    >>> [str(index) for _, index in for_each_subshape(Shape.parse("(f32[], (s32[]))"))]
    ['{}', '{0}', '{1}', '{1,0}']
    """
    return _every_subshape(shape, before=True)


def for_each_subshape_post_order(shape: Shape) -> Iterator[tuple[Shape, ShapeIndex]]:
    """Every shape inside a shape with its index, each tuple after its elements."""
    return _every_subshape(shape, before=False)


def _every_subshape(shape: Shape, *, before: bool) -> Iterator[tuple[Shape, ShapeIndex]]:
    # This function is not a generator, so that a wrong argument raises when the function is called.
    if type(shape) is not Shape:
        raise not_a_shape(shape)
    return _subshapes(shape, ShapeIndex(), before=before)


def _subshapes(shape: Shape, index: ShapeIndex, *, before: bool) -> Iterator[tuple[Shape, ShapeIndex]]:
    if before:
        yield shape, index
    if shape.is_tuple:
        for i, inner in enumerate(shape.tuple_shapes):
            yield from _subshapes(inner, index.child(i), before=before)
    if not before:
        yield shape, index


def for_each_leaf_shape(shape: Shape) -> Iterator[tuple[Shape, ShapeIndex]]:
    """Every leaf with its index, in the order of `for_each_subshape`."""
    return ((leaf, index) for leaf, index in for_each_subshape(shape) if not leaf.is_tuple)


def get_leaf_shapes(shape: Shape) -> list[IndexedShape]:
    """Every leaf with its index.

    >>> [f"{leaf.index} {leaf.shape}" for leaf in get_leaf_shapes(Shape.parse("(f32[], (s32[]))"))]
    ['{0} f32[]', '{1,0} s32[]']
    """
    return [IndexedShape(index, leaf) for leaf, index in for_each_leaf_shape(shape)]


def flatten_tuple_shape(shape: Shape) -> list[Shape]:
    """The leaves, without their indices."""
    return list(shape.leaves())


# -- iterate -----------------------------------------------------------------------------------


def for_each_index(
    shape: Shape,
    base: Iterable[int] | None = None,
    count: Iterable[int] | None = None,
    incr: Iterable[int] | None = None,
) -> Iterator[tuple[int, ...]]:
    """The indices of an array in the order of its layout, the most minor dimension fastest.

    Dimension d goes from `base[d]` up to, but not including, `base[d] + count[d]` in steps of `incr[d]`; by default it
    covers all indices. As in XLA, a dimension with a count of 0 has one index, `base[d]`, and its step may be 0. An
    array without elements has no indices; a scalar has one. InvalidArgumentError for arguments of the wrong length, a
    range beyond the array, or any other step below 1. Over several indices, a step of 0 would give an iterator without
    end: XLA repeats such indices until the visitor stops it.

    >>> list(for_each_index(Shape.parse("f32[2,2]{0,1}")))
    [(0, 0), (1, 0), (0, 1), (1, 1)]
    >>> list(for_each_index(Shape.parse("f32[4]"), (0,), (4,), (3,)))
    [(0,), (3,)]
    >>> list(for_each_index(Shape.parse("f32[2,2]"), (1, 0), (0, 2), (0, 1)))
    [(1, 0), (1, 1)]
    """
    array = array_of(shape)
    if UNBOUNDED_SIZE in array.dimensions:
        raise InvalidShapeError(f"{brief(array)} has an unbounded dimension, so no end of indices", field="shape")
    first = _entries(array, base, 0, "base")
    span = [size - start for size, start in zip(array.dimensions, first, strict=True)]
    span = span if count is None else _entries(array, count, 0, "count")
    step = _entries(array, incr, 1, "incr")
    for d, size in enumerate(array.dimensions):
        if step[d] < 1 and not (step[d] == 0 and span[d] == 0):
            endless = ": the indices would have no end" if step[d] == 0 else ""
            raise InvalidArgumentError(f"a step is 1 or more, not {shown(step[d])}{endless}", field=("incr", d))
        if first[d] < 0 or span[d] < 0 or first[d] + (span[d] or min(size, 1)) > size:
            end = shown(first[d] + span[d])
            raise InvalidArgumentError(
                f"{shown(first[d])} to {end} is not inside dimension {d} of {brief(array)}", field="count"
            )
    if 0 in array.dimensions:
        return iter(())
    ranges = [range(first[d], first[d] + (span[d] or 1), step[d] or 1) for d in range(array.rank)]
    return _indices(ranges, list(minor_to_major_of(array)))


def _entries(array: Shape, values: Iterable[int] | None, default: int, field: str) -> list[int]:
    if values is None:
        return [default] * array.rank
    entries = [integer(value, (field, d)) for d, value in enumerate(values)]
    if len(entries) != array.rank:
        raise InvalidArgumentError(f"{field} has {len(entries)} numbers for {array.rank} dimensions", field=field)
    return entries


def _indices(ranges: list[range], order: list[int]) -> Iterator[tuple[int, ...]]:
    counters = [0] * len(ranges)
    index = [values[0] for values in ranges]
    while True:
        spend()
        yield tuple(index)
        for d in order:
            counters[d] += 1
            if counters[d] < len(ranges[d]):
                index[d] = ranges[d][counters[d]]
                break
            counters[d] = 0
            index[d] = ranges[d][0]
        else:
            return
