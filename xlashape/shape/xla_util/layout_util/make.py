"""Making layouts: what XLA's `LayoutUtil` builds."""

from __future__ import annotations

from collections.abc import Iterable

from xlashape.shape.arguments import array_of, dimension_number
from xlashape.shape.parts.primitive_type import PrimitiveType
from xlashape.shape.parts.tile import SplitConfig, Tile
from xlashape.shape.value.shape import Layout, Shape

__all__ = [
    "get_default_layout_for_r2",
    "get_default_layout_for_r3",
    "get_default_layout_for_r4",
    "get_default_layout_for_rank",
    "get_default_layout_for_shape",
    "make_ascending_layout",
    "make_descending_layout",
    "make_layout",
    "make_layout_from_major_to_minor",
    "move_dim_to_major",
    "move_dim_to_minor",
]

_INVALID = PrimitiveType.PRIMITIVE_TYPE_INVALID


def make_layout(
    minor_to_major: Iterable[int],
    tiles: Iterable[Tile | Iterable[int]] = (),
    tail_padding_alignment_in_elements: int = 1,
    index_primitive_type: PrimitiveType | str | int = _INVALID,
    pointer_primitive_type: PrimitiveType | str | int = _INVALID,
    element_size_in_bits: int = 0,
    memory_space: int = 0,
    split_configs: Iterable[SplitConfig] = (),
    physical_shape: Shape | None = None,
    dynamic_shape_metadata_prefix_bytes: int = 0,
) -> Layout:
    """A layout; the same as calling `Layout`.

    >>> make_layout((1, 0), [(8, 128)], memory_space=1)
    Layout('{1,0:T(8,128)S(1)}')
    """
    return Layout(
        minor_to_major,
        tiles,
        tail_padding_alignment_in_elements,
        index_primitive_type,
        pointer_primitive_type,
        element_size_in_bits,
        memory_space,
        split_configs,
        physical_shape,
        dynamic_shape_metadata_prefix_bytes,
    )


def make_layout_from_major_to_minor(major_to_minor: Iterable[int]) -> Layout:
    """The layout with these dimensions, the one that varies slowest first.

    >>> make_layout_from_major_to_minor((0, 2, 1))
    Layout('{1,2,0}')
    """
    return Layout(tuple(major_to_minor)[::-1])


def make_descending_layout(num_dims: int) -> Layout:
    """Major to minor: `{n-1,…,0}`."""
    return Layout.default(num_dims)


def make_ascending_layout(num_dims: int) -> Layout:
    """Minor to major: `{0,…,n-1}`."""
    return Layout(Layout.default(num_dims).major_to_minor)


def get_default_layout_for_rank(num_dims: int) -> Layout:
    """The default layout, major to minor.

    >>> get_default_layout_for_rank(3)
    Layout('{2,1,0}')
    """
    return Layout.default(num_dims)


def get_default_layout_for_r2() -> Layout:
    """`{1,0}`."""
    return Layout.default(2)


def get_default_layout_for_r3() -> Layout:
    """`{2,1,0}`."""
    return Layout.default(3)


def get_default_layout_for_r4() -> Layout:
    """`{3,2,1,0}`."""
    return Layout.default(4)


def get_default_layout_for_shape(shape: Shape) -> Layout:
    """The default layout of an array's number of dimensions."""
    return Layout.default(array_of(shape).rank)


def move_dim_to_major(layout: Layout, dim: int) -> Layout:
    """The layout with dimension `dim` varying slowest; the others keep their order, and the other parts of the layout are kept.

    >>> move_dim_to_major(Layout((1, 2, 0)), 1)
    Layout('{2,0,1}')
    """
    number = dimension_number(layout.rank, dim, "dim")
    return layout.replace(minor_to_major=[*[d for d in layout.minor_to_major if d != number], number])


def move_dim_to_minor(layout: Layout, dim: int) -> Layout:
    """The layout with dimension `dim` varying fastest.

    >>> move_dim_to_minor(Layout((1, 2, 0)), 0)
    Layout('{0,1,2}')
    """
    number = dimension_number(layout.rank, dim, "dim")
    return layout.replace(minor_to_major=[number, *[d for d in layout.minor_to_major if d != number]])
