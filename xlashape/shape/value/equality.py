"""XLA's relations of shapes: equality, which does not compare dynamic metadata and unknown fields as `==` does, and compatibility."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from xlashape.errors import InvalidArgumentError
from xlashape.shape.parts.tile import UNBOUNDED_SIZE
from xlashape.shape.value.shape import Layout, Shape

_PLAIN_FIELDS = (
    "tail_padding_alignment_in_elements",
    "index_primitive_type",
    "pointer_primitive_type",
    "element_size_in_bits",
    "memory_space",
)
_LAYOUT_FIELDS = frozenset([*_PLAIN_FIELDS, "tiles", "split_configs", "physical_shape"])
"""The fields of a layout that a comparison can ignore: all that XLA compares but the order."""


def _same_type(lhs: Shape, rhs: Shape) -> bool:
    return lhs.element_type == rhs.element_type


def same_kind_and_length(lhs: Shape, rhs: Shape) -> bool:
    """Whether two shapes are of one kind and have the same number of elements. The elements are not compared."""
    return lhs.element_type == rhs.element_type and len(lhs.tuple_shapes) == len(rhs.tuple_shapes)


def equal_shapes(lhs: Shape, rhs: Shape, same_type: Callable[[Shape, Shape], bool] = _same_type) -> bool:
    """Whether two shapes are the same to XLA. `same_type` compares the element types of arrays."""
    if lhs.is_array and rhs.is_array:
        return (
            same_type(lhs, rhs)
            and lhs.dimensions == rhs.dimensions
            and lhs.dynamic_dimensions == rhs.dynamic_dimensions
            and equal_layouts(lhs.layout, rhs.layout)
        )
    return same_kind_and_length(lhs, rhs) and all(
        equal_shapes(a, b, same_type) for a, b in zip(lhs.tuple_shapes, rhs.tuple_shapes, strict=True)
    )


def same_sizes(lhs: tuple[int, ...], rhs: tuple[int, ...]) -> bool:
    """Whether the sizes of two arrays agree; an unbounded size agrees with any."""
    return len(lhs) == len(rhs) and all(a == b or UNBOUNDED_SIZE in (a, b) for a, b in zip(lhs, rhs, strict=True))


def compatible_shapes(lhs: Shape, rhs: Shape, same_type: Callable[[Shape, Shape], bool] = _same_type) -> bool:
    """Whether kinds, sizes and, by `same_type`, the element types of arrays agree. Layouts and dynamic flags are not compared."""
    if lhs.is_array and rhs.is_array:
        return same_type(lhs, rhs) and same_sizes(lhs.dimensions, rhs.dimensions)
    return same_kind_and_length(lhs, rhs) and all(
        compatible_shapes(a, b, same_type) for a, b in zip(lhs.tuple_shapes, rhs.tuple_shapes, strict=True)
    )


def equal_layouts(lhs: Layout | None, rhs: Layout | None, ignored: frozenset[str] = frozenset()) -> bool:
    """Whether two layouts are the same to XLA, the `ignored` fields aside. No layout is not the same as the default layout."""
    if lhs is None or rhs is None:
        return lhs is rhs
    if lhs == rhs:
        return True
    if lhs.minor_to_major != rhs.minor_to_major:
        return False
    return (
        ("tiles" in ignored or [t.dimensions for t in lhs.tiles] == [t.dimensions for t in rhs.tiles])
        and all(field in ignored or getattr(lhs, field) == getattr(rhs, field) for field in _PLAIN_FIELDS)
        and (
            "split_configs" in ignored
            or [(s.dimension, s.split_indices) for s in lhs.split_configs]
            == [(s.dimension, s.split_indices) for s in rhs.split_configs]
        )
        and ("physical_shape" in ignored or _equal_physical(lhs.physical_shape, rhs.physical_shape))
    )


def _equal_physical(lhs: Shape | None, rhs: Shape | None) -> bool:
    return lhs is rhs if lhs is None or rhs is None else equal_shapes(lhs, rhs)


def ignored_fields(names: Iterable[str]) -> frozenset[str]:
    """The fields of a layout that a comparison ignores. InvalidArgumentError for a name that is not among those of `layout_util.equal`."""
    fields: set[str] = set()
    for name in names:
        field = "element_size_in_bits" if name == "element_size" else name
        if field == "minor_to_major_only":
            fields |= _LAYOUT_FIELDS
        elif field in _LAYOUT_FIELDS:
            fields.add(field)
        else:
            raise InvalidArgumentError(f"nothing to ignore is called {name!r:.60}", field="ignore")
    return frozenset(fields)
