"""The fields of shapes, layouts and programs: their names and types for code that cannot import the classes (the text
and proto codecs), and what the constructors check of them.

A check raises InvalidShapeError that names the field, unless it says otherwise. `shape_bytes` and its neighbours
estimate the memory of shapes, for the bounds of caches: upper bounds of what tracemalloc measures.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from xlashape import limits
from xlashape.errors import InvalidShapeError, LimitExceededError
from xlashape.shape.parts.checks import check_element_count, entries_of, flags, with_article
from xlashape.shape.parts.primitive_type import PrimitiveType
from xlashape.shape.parts.tile import UNBOUNDED_SIZE, SplitConfig, Tile


class LayoutFields(Protocol):
    """The attributes of `xlashape.shape.Layout`, which describes them."""

    @property
    def minor_to_major(self) -> tuple[int, ...]: ...
    @property
    def tiles(self) -> tuple[Tile, ...]: ...
    @property
    def tail_padding_alignment_in_elements(self) -> int: ...
    @property
    def index_primitive_type(self) -> PrimitiveType: ...
    @property
    def pointer_primitive_type(self) -> PrimitiveType: ...
    @property
    def element_size_in_bits(self) -> int: ...
    @property
    def memory_space(self) -> int: ...
    @property
    def split_configs(self) -> tuple[SplitConfig, ...]: ...
    @property
    def physical_shape(self) -> ShapeFields | None: ...
    @property
    def dynamic_shape_metadata_prefix_bytes(self) -> int: ...
    @property
    def unknown_fields(self) -> bytes: ...


class ShapeFields(Protocol):
    """The attributes of `xlashape.shape.Shape`, which describes them."""

    @property
    def element_type(self) -> PrimitiveType: ...
    @property
    def dimensions(self) -> tuple[int, ...]: ...
    @property
    def dynamic_dimensions(self) -> tuple[bool, ...]: ...
    @property
    def layout(self) -> LayoutFields | None: ...
    @property
    def tuple_shapes(self) -> tuple[ShapeFields, ...]: ...
    @property
    def unknown_fields(self) -> bytes: ...
    @property
    def is_array(self) -> bool: ...


class ProgramShapeFields(Protocol):
    """The attributes of `xlashape.shape.ProgramShape`, which describes them."""

    @property
    def parameters(self) -> tuple[ShapeFields, ...]: ...
    @property
    def result(self) -> ShapeFields: ...
    @property
    def parameter_names(self) -> tuple[str, ...]: ...
    @property
    def unknown_fields(self) -> bytes: ...


def parsed_bytes(text: str) -> int:
    """The bytes of a text and of the shape or layout that was parsed from it, with the text it prints.

    A number takes up to 60 bytes in its tuples, a shape, layout, tile or split 250; both follow from the punctuation.
    """
    parts = text.count("[") + text.count("(") + 2 * text.count("_")  # '_' is in the names of unknown types alone
    return 350 + 2 * len(text) + 60 * text.count(",") + 250 * parts


def shape_bytes(shape: ShapeFields) -> int:
    """The bytes of a shape with all that it holds, the text it prints included. Equal inner shapes that are one object
    count once.
    """
    size = 250 + 60 * len(shape.dimensions) + len(shape.unknown_fields)
    if shape.layout is not None:
        size += layout_bytes(shape.layout)
    if not shape.element_type.is_known:
        size += 500
    if shape.tuple_shapes:
        distinct = {id(inner): inner for inner in shape.tuple_shapes}
        size += 60 * len(shape.tuple_shapes) + sum([shape_bytes(inner) for inner in distinct.values()])
    return size


def layout_bytes(layout: LayoutFields) -> int:
    """The bytes of a layout with all that it holds, the text it prints included."""
    size = 350 + 50 * len(layout.minor_to_major) + len(layout.unknown_fields)
    for tile in layout.tiles:
        size += 200 + 50 * len(tile.dimensions) + len(tile.unknown_fields)
    for split in layout.split_configs:
        size += 250 + 50 * len(split.split_indices) + len(split.unknown_fields)
    if layout.physical_shape is not None:
        size += shape_bytes(layout.physical_shape)
    return size


# -- what constructors check -------------------------------------------------------------------


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
    """An array's flags, filled in. InvalidShapeError or SizeOverflowError for sizes or flags that cannot be,
    LimitExceededError for too many.
    """
    if len(sizes) > limits.MAX_RANK:
        limits.check("dimensions", len(sizes), limits.MAX_RANK, field="dimensions")
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
