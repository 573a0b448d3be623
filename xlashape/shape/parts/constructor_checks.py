"""Checks of the constructors of `Shape` and `Layout`. Each raises InvalidShapeError that names the field, unless it says otherwise."""

from __future__ import annotations

from collections.abc import Iterable

from xlashape import limits
from xlashape.errors import InvalidShapeError, LimitExceededError
from xlashape.shape.parts.checks import check_element_count, entries_of, flags, with_article
from xlashape.shape.parts.fields import LayoutFields, ShapeFields
from xlashape.shape.parts.primitive_type import PrimitiveType
from xlashape.shape.parts.tile import UNBOUNDED_SIZE, SplitConfig, Tile

_INVALID, _TUPLE, _BUFFER = PrimitiveType.PRIMITIVE_TYPE_INVALID, PrimitiveType.TUPLE, PrimitiveType.BUFFER


def tiles_of(tiles: Iterable[Tile | Iterable[int]]) -> tuple[Tile, ...]:
    """`tiles` as a tuple of tiles."""
    try:
        entries = tuple(tiles)
    except TypeError:
        raise InvalidShapeError(f"tiles takes a sequence, not {type(tiles).__name__}", field="tiles") from None
    return tuple([_tile(tile, i) for i, tile in enumerate(entries)])


def _tile(tile: Tile | Iterable[int], i: int) -> Tile:
    if isinstance(tile, Tile):
        return tile
    try:
        return Tile(tile)
    except InvalidShapeError as error:
        raise error.within("tiles", i) from None


def integer_type(value: PrimitiveType | str | int, field: str) -> PrimitiveType:
    """An integer type, an unknown type, or PRIMITIVE_TYPE_INVALID."""
    kind = PrimitiveType.of(value, field)
    if kind is not _INVALID and kind.is_known and not kind.is_integral:
        raise InvalidShapeError(f"{field} is an integer type, not {kind.text}", field=field)
    return kind


def splits_of(split_configs: Iterable[SplitConfig], rank: int) -> tuple[SplitConfig, ...]:
    """`split_configs` as a tuple, each of one of the dimensions."""
    splits = entries_of(split_configs, SplitConfig, "split_configs")
    for i, split in enumerate(splits):
        if split.dimension >= rank:
            raise InvalidShapeError(
                f"dimension {split.dimension} of a split is not one of the layout's {rank}",
                field=("split_configs", i, "dimension"),
            )
    return splits


def dynamic_flags(sizes: tuple[int, ...], dynamic_dimensions: Iterable[bool] | None) -> tuple[bool, ...]:
    """An array's flags, filled in. InvalidShapeError or SizeOverflowError for sizes or flags that cannot be."""
    for i, size in enumerate(sizes):
        if size < 0 and size != UNBOUNDED_SIZE:
            raise InvalidShapeError(f"a dimension's size is 0 or more, not {size}", field=("dimensions", i))
    check_element_count(sizes)
    if dynamic_dimensions is None:
        return tuple([size == UNBOUNDED_SIZE for size in sizes])
    dynamic = flags(dynamic_dimensions, "dynamic_dimensions")
    if len(dynamic) != len(sizes):
        raise InvalidShapeError(f"{len(dynamic)} dynamic flags for {len(sizes)} dimensions", field="dynamic_dimensions")
    for i, size in enumerate(sizes):
        if size == UNBOUNDED_SIZE and not dynamic[i]:
            raise InvalidShapeError("an unbounded dimension is dynamic", field=("dynamic_dimensions", i))
    return dynamic


def check_no_array(
    kind: PrimitiveType,
    sizes: tuple[int, ...],
    dynamic: Iterable[bool] | None,
    layout: LayoutFields | None,
    inner: tuple[ShapeFields, ...],
) -> None:
    """InvalidShapeError if a tuple, buffer, token or opaque cannot have these parts."""
    if kind is _INVALID:
        raise InvalidShapeError("a shape has an element type", field="element_type")
    if sizes or (dynamic is not None and flags(dynamic, "dynamic_dimensions")):
        raise InvalidShapeError(f"{with_article(kind.text)} has no dimensions", field="dimensions")
    if layout is not None:
        raise InvalidShapeError(f"{with_article(kind.text)} has no layout", field="layout")
    if kind is _BUFFER and not (len(inner) == 1 and inner[0].is_array):
        raise InvalidShapeError("a buffer holds one array", field="tuple_shapes")
    if inner and kind is not _TUPLE and kind is not _BUFFER:
        raise InvalidShapeError(f"{with_article(kind.text)} has no tuple_shapes", field="tuple_shapes")


def check_layout_fits(sizes: tuple[int, ...], layout: LayoutFields) -> None:
    """A layout of an array of these sizes has as many dimensions."""
    if len(layout.minor_to_major) != len(sizes):
        raise InvalidShapeError(
            f"the layout is of {len(layout.minor_to_major)} dimensions, the array has {len(sizes)}",
            field=("layout", "minor_to_major"),
        )


def check_depth(depth: int) -> None:
    """LimitExceededError beyond `limits.MAX_SHAPE_DEPTH` levels of tuples."""
    if depth > limits.MAX_SHAPE_DEPTH:
        raise LimitExceededError(
            f"tuples are nested more than {limits.MAX_SHAPE_DEPTH} deep",
            limit="shape_depth",
            maximum=limits.MAX_SHAPE_DEPTH,
            value=depth,
            field="tuple_shapes",
        )
