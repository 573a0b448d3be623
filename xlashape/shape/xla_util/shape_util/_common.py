"""Helpers that the files of `shape_util` share: changes to the array inside a buffer and to every array of a shape, and
layouts whose dimensions are renumbered.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from xlashape.errors import InvalidShapeError
from xlashape.shape.arguments import array_of
from xlashape.shape.parts.checks import brief
from xlashape.shape.value.shape import Layout, Shape


def on_array(shape: Shape, change: Callable[[Shape], Shape]) -> Shape:
    """`change` applied to an array, or to the array inside a buffer. InvalidShapeError for anything else."""
    array = array_of(shape)
    changed = change(array)
    return changed if array is shape else shape.replace(tuple_shapes=(changed,))


def map_leaves(shape: Shape, change: Callable[[Shape], Shape]) -> Shape:
    """`change` applied to every array of a shape, those inside tuples and buffers too. Tokens and opaques are not
    changed.
    """
    if shape.is_array:
        return change(shape)
    if not shape.tuple_shapes:
        return shape
    return shape.replace(tuple_shapes=[map_leaves(inner, change) for inner in shape.tuple_shapes])


def require_tuple(shape: Shape) -> None:
    """InvalidShapeError unless the shape is a tuple."""
    if not shape.is_tuple:
        raise InvalidShapeError(f"expected a tuple, found {brief(shape)}", field="shape")


def minor_to_major_of(array: Shape) -> Sequence[int]:
    """The order of an array's dimensions; the default one if it has no layout."""
    return range(array.rank - 1, -1, -1) if array.layout is None else array.layout.minor_to_major


def reordered(layout: Layout | None, minor_to_major: Sequence[int], physical: Mapping[int, int]) -> Layout | None:
    """A layout with another order; `physical` gives the new physical number of each old one that is kept.

    Split configs have physical numbers, which change too.
    """
    if layout is None:
        return None
    splits = [s.replace(dimension=physical[s.dimension]) for s in layout.split_configs if s.dimension in physical]
    return layout.replace(minor_to_major=minor_to_major, split_configs=splits)
