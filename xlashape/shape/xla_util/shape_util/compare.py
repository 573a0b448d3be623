"""When two shapes count as the same: the relations of XLA's `ShapeUtil`.

| relation | compares |
|---|---|
| equal | everything but `dynamic_shape_metadata_prefix_bytes` and unknown protobuf fields |
| equal_ignoring_element_type | as `equal`, except the element type |
| equal_ignoring_fp_precision | as `equal`, but all real floats count as one type |
| compatible | kind, element type, sizes; an unbounded dimension fits any; dynamic flags and layouts are ignored |
| compatible_ignoring_element_type | as `compatible`, except the element type |
| compatible_ignoring_fp_precision | as `compatible`, but all real floats count as one type |
| compatible_kind | kinds and numbers of dimensions |
| equal_structure | which elements are tuples, and their lengths |

`==` on shapes is stricter than all of them: it compares every field.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from xlashape.errors import InvalidArgumentError
from xlashape.shape.arguments import array_of
from xlashape.shape.value.shape import (
    Shape,
    compatible_shapes,
    equal_layouts,
    equal_shapes,
    ignored_fields,
    same_kind_and_length,
    same_sizes,
)
from xlashape.shape.xla_util.shape_util.elements import same_element_type, same_element_type_ignoring_fp_precision

__all__ = [
    "compatible", "compatible_ignoring_element_type", "compatible_ignoring_fp_precision", "compatible_kind",
    "dynamic_array_shape_is_compatible", "dynamic_shape_is_compatible", "equal", "equal_ignoring_element_type",
    "equal_ignoring_fp_precision", "equal_structure", "is_prefix", "same_dimensions", "same_rank",
]  # fmt: skip


def same_rank(lhs: Shape, rhs: Shape) -> bool:
    """Whether two arrays have the same number of dimensions."""
    return array_of(lhs).rank == array_of(rhs).rank


def same_dimensions(lhs: Shape, rhs: Shape) -> bool:
    """Whether two arrays have the same sizes; an unbounded dimension fits any.

    >>> same_dimensions(Shape.parse("f32[2,?]"), Shape.parse("s32[2,3]"))
    True
    """
    return same_sizes(array_of(lhs).dimensions, array_of(rhs).dimensions)


def compatible(lhs: Shape, rhs: Shape) -> bool:
    """Whether kinds, element types and sizes agree, element by element in tuples; layouts and dynamic flags are
    ignored.

    >>> compatible(Shape.parse("f32[2,3]{1,0}"), Shape.parse("f32[2,<=3]{0,1}"))
    True
    """
    return compatible_shapes(lhs, rhs, same_element_type)


def compatible_ignoring_element_type(lhs: Shape, rhs: Shape) -> bool:
    """Whether kinds and sizes agree."""
    return compatible_shapes(lhs, rhs, _any_type)


def compatible_ignoring_fp_precision(lhs: Shape, rhs: Shape) -> bool:
    """Whether kinds, sizes and element types agree, where all real floating-point types count as one."""
    return compatible_shapes(lhs, rhs, same_element_type_ignoring_fp_precision)


def _any_type(lhs: Shape, rhs: Shape) -> bool:  # noqa: ARG001 - a relation takes both
    return True


def compatible_kind(lhs: Shape, rhs: Shape, ignore_buffer: bool = False) -> bool:
    """Whether kinds and numbers of dimensions agree, element by element in tuples.

    With `ignore_buffer` a buffer counts as the array it holds.

    >>> compatible_kind(Shape.parse("(f32[2])"), Shape.parse("(s32[5])"))
    True
    """
    if ignore_buffer:
        lhs, rhs = [shape.tuple_shapes[0] if shape.is_buffer else shape for shape in (lhs, rhs)]
    if lhs.is_array and rhs.is_array:
        return lhs.rank == rhs.rank
    return same_kind_and_length(lhs, rhs) and all(
        compatible_kind(a, b, ignore_buffer) for a, b in zip(lhs.tuple_shapes, rhs.tuple_shapes, strict=True)
    )


_LAYOUT_PARTS = {
    "tiles_in_layout": "tiles",
    "element_size_in_layout": "element_size",
    "memory_space_in_layout": "memory_space",
    "tail_padding_alignment_in_elements": "tail_padding_alignment_in_elements",
    "split_config_in_layout": "split_configs",
    "minor_to_major_only_in_layout": "minor_to_major_only",
}
"""The names of what a comparison of shapes can ignore in layouts, and the names in a comparison of layouts."""
_PARTS = frozenset(["buffer", "dimensions", "dynamic_dimension", "element_type", "fp_precision", "layout"])


def equal(lhs: Shape, rhs: Shape, *, ignore: Iterable[str] = ()) -> bool:
    """Whether two shapes are the same to XLA: types, sizes, dynamic flags and layouts.

    `dynamic_shape_metadata_prefix_bytes` and unknown protobuf fields are ignored. `ignore` names what else does not
    count, as the methods of XLA's `Shape::Equal`: `element_type`, `fp_precision` (all real floats count as one type),
    `dynamic_dimension`, `dimensions` (only their number counts), `buffer` (a buffer counts as its array), `layout`, or
    of the layout `tiles_in_layout`, `element_size_in_layout`, `memory_space_in_layout`,
    `tail_padding_alignment_in_elements`, `split_config_in_layout` or `minor_to_major_only_in_layout` (only the order
    counts).

    >>> (
    ...     equal(Shape.parse("f32[2]{0}"), Shape.parse("f32[2]{0:M(8)}")),
    ...     equal(Shape.parse("f32[2]"), Shape.parse("f32[<=2]")),
    ... )
    (True, False)
    >>> equal(
    ...     Shape.parse("f32[2]{0:S(1)}"),
    ...     Shape.parse("bf16[<=2]"),
    ...     ignore=["fp_precision", "dynamic_dimension", "layout"],
    ... )
    True
    """
    ignored = frozenset(ignore)
    if not ignored:
        return lhs == rhs or equal_shapes(lhs, rhs)
    for name in ignored:
        if name not in _PARTS and name not in _LAYOUT_PARTS:
            raise InvalidArgumentError(f"nothing to ignore is called {name!r:.60}", field="ignore")
    fields = ignored_fields([_LAYOUT_PARTS[name] for name in ignored if name in _LAYOUT_PARTS])
    return _equal_ignoring(lhs, rhs, ignored, fields)


def _equal_ignoring(lhs: Shape, rhs: Shape, ignored: frozenset[str], fields: frozenset[str]) -> bool:
    if "buffer" in ignored:
        lhs, rhs = [shape.buffer_shape if shape.is_buffer else shape for shape in (lhs, rhs)]
    if not (lhs.is_array and rhs.is_array):
        return same_kind_and_length(lhs, rhs) and all(
            _equal_ignoring(a, b, ignored, fields) for a, b in zip(lhs.tuple_shapes, rhs.tuple_shapes, strict=True)
        )
    if "element_type" not in ignored:
        same_type = same_element_type_ignoring_fp_precision if "fp_precision" in ignored else same_element_type
        if not same_type(lhs, rhs):
            return False
    return (
        (lhs.rank == rhs.rank if "dimensions" in ignored else lhs.dimensions == rhs.dimensions)
        and ("dynamic_dimension" in ignored or lhs.dynamic_dimensions == rhs.dynamic_dimensions)
        and ("layout" in ignored or equal_layouts(lhs.layout, rhs.layout, fields))
    )


def is_prefix(prefix: Shape, shape: Shape, matches: Callable[[Shape, Shape], bool] = equal) -> bool:
    """Whether `shape` begins as `prefix` does: the two match, or each element of the tuple `prefix` is a prefix of the
    element of `shape` with the same number. `shape` may have more elements; the empty tuple is a prefix of everything.

    >>> (
    ...     is_prefix(Shape.parse("(f32[])"), Shape.parse("(f32[], s32[])")),
    ...     is_prefix(Shape.parse("f32[]"), Shape.parse("(f32[])")),
    ... )
    (True, False)
    """
    if matches(prefix, shape):
        return True
    if not prefix.is_tuple:
        return False
    elements = shape.tuple_shapes if shape.is_tuple else ()
    return len(prefix.tuple_shapes) <= len(elements) and all(
        is_prefix(a, b, matches) for a, b in zip(prefix.tuple_shapes, elements, strict=False)
    )


def equal_ignoring_element_type(lhs: Shape, rhs: Shape) -> bool:
    """As `equal`, but element types are ignored."""
    return equal_shapes(lhs, rhs, _any_type)


def equal_ignoring_fp_precision(lhs: Shape, rhs: Shape) -> bool:
    """As `equal`, but all real floating-point types count as one."""
    return equal_shapes(lhs, rhs, same_element_type_ignoring_fp_precision)


def equal_structure(lhs: Shape, rhs: Shape) -> bool:
    """Whether two shapes have shapes at the same indices. The leaves are not compared; an empty tuple counts as a leaf.

    >>> equal_structure(Shape.parse("(f32[], (s32[2], f32[]))"), Shape.parse("(s32[], (token[], pred[3]))"))
    True
    """
    inner = [shape.tuple_shapes if shape.is_tuple else () for shape in (lhs, rhs)]
    return len(inner[0]) == len(inner[1]) and all(equal_structure(a, b) for a, b in zip(*inner, strict=True))


def dynamic_array_shape_is_compatible(dynamic_shape: Shape, bounded_shape: Shape) -> bool:
    """Whether two arrays have the same number of dimensions and no size of the first is greater than that of the
    second.

    An unbounded size counts as -2^63, as in the proto. Element types are ignored.

    >>> dynamic_array_shape_is_compatible(Shape.parse("f32[2]"), Shape.parse("f32[<=3]"))
    True
    """
    lhs, rhs = array_of(dynamic_shape).dimensions, array_of(bounded_shape).dimensions
    return len(lhs) == len(rhs) and all(a <= b for a, b in zip(lhs, rhs, strict=True))


def dynamic_shape_is_compatible(dynamic_shape: Shape, bounded_shape: Shape) -> bool:
    """Whether every dynamic array of the first shape fits the array at the same index of the second.

    The first must have tuples where the second has tuples, and its tuples may not be longer. Static arrays are not
    compared.

    >>> dynamic_shape_is_compatible(Shape.parse("(f32[<=2], s32[9])"), Shape.parse("(f32[3], s32[])"))
    True
    """
    if dynamic_shape.is_tuple or bounded_shape.is_tuple:
        if not (dynamic_shape.is_tuple and bounded_shape.is_tuple):
            return False
        inner, bounds = dynamic_shape.tuple_shapes, bounded_shape.tuple_shapes
        return len(inner) <= len(bounds) and all(
            dynamic_shape_is_compatible(a, b) for a, b in zip(inner, bounds, strict=False)
        )
    if dynamic_shape.is_static:
        return True
    if not (bounded_shape.is_array or bounded_shape.is_buffer):
        return False
    return dynamic_array_shape_is_compatible(dynamic_shape, bounded_shape)
