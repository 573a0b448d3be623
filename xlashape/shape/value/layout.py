"""How the elements of an array lie in memory: XLA's `Layout`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from xlashape.errors import InvalidShapeError
from xlashape.shape.value.base import Value, bytes_of, entries_of, int64, int64s
from xlashape.shape.value.primitive_type import PrimitiveType
from xlashape.shape.value.tile import SplitConfig, Tile

if TYPE_CHECKING:
    from google.protobuf.message import Message

    from xlashape.proto import xla
    from xlashape.shape.value.shape import Shape

__all__ = ["Layout"]

_INVALID = PrimitiveType.PRIMITIVE_TYPE_INVALID
_Tiles = Iterable["Tile | Iterable[int]"]


class Layout(Value):
    """The order of an array's elements and what else says where they lie.

    >>> Layout((1, 0), tiles=[(8, 128), (2, 1)], memory_space=1)
    Layout('{1,0:T(8,128)(2,1)S(1)}')

    - `minor_to_major`: dimension numbers, the one that varies fastest first; a permutation of 0 … rank-1.
    - `tiles`: applied left to right. An entry may be given as plain sizes.
    - `tail_padding_alignment_in_elements`: the number of elements is rounded up to a multiple of this, 1 or more.
    - `index_primitive_type`, `pointer_primitive_type`: integer types of sparse arrays, or PRIMITIVE_TYPE_INVALID.
    - `element_size_in_bits`: 0 for the element type's own size.
    - `memory_space`: 0 main memory, 1 on-chip memory, 5 host memory; others depend on the device, and XLA has negative ones
      too.
    - `split_configs`: physical dimensions cut into parts, numbered from the most major one.
    - `physical_shape`: sparse arrays only.
    - `dynamic_shape_metadata_prefix_bytes`: bytes before the data that hold the sizes of dynamic dimensions.
    - `unknown_fields`: protobuf fields that have no place above, as bytes. Layouts of before 2018 keep their padding there
      (`xlashape.shape.legacy` reads it).

    InvalidShapeError where a field cannot be; its `field` names which. Source of the facts: `xla.LayoutProto`.
    """

    __slots__ = (
        "_text",
        "dynamic_shape_metadata_prefix_bytes",
        "element_size_in_bits",
        "index_primitive_type",
        "memory_space",
        "minor_to_major",
        "physical_shape",
        "pointer_primitive_type",
        "split_configs",
        "tail_padding_alignment_in_elements",
        "tiles",
        "unknown_fields",
    )
    __match_args__ = ("minor_to_major", "tiles")
    _fields = (
        "minor_to_major",
        "tiles",
        "tail_padding_alignment_in_elements",
        "index_primitive_type",
        "pointer_primitive_type",
        "element_size_in_bits",
        "memory_space",
        "split_configs",
        "physical_shape",
        "dynamic_shape_metadata_prefix_bytes",
        "unknown_fields",
    )
    minor_to_major: tuple[int, ...]
    tiles: tuple[Tile, ...]
    tail_padding_alignment_in_elements: int
    index_primitive_type: PrimitiveType
    pointer_primitive_type: PrimitiveType
    element_size_in_bits: int
    memory_space: int
    split_configs: tuple[SplitConfig, ...]
    physical_shape: Shape | None
    dynamic_shape_metadata_prefix_bytes: int
    unknown_fields: bytes
    _text: str

    def __init__(
        self,
        minor_to_major: Iterable[int] = (),
        tiles: _Tiles = (),
        tail_padding_alignment_in_elements: int = 1,
        index_primitive_type: PrimitiveType | str | int = _INVALID,
        pointer_primitive_type: PrimitiveType | str | int = _INVALID,
        element_size_in_bits: int = 0,
        memory_space: int = 0,
        split_configs: Iterable[SplitConfig] = (),
        physical_shape: Shape | None = None,
        dynamic_shape_metadata_prefix_bytes: int = 0,
        unknown_fields: bytes = b"",
    ) -> None:
        put = object.__setattr__
        order = _permutation(minor_to_major)
        put(self, "minor_to_major", order)
        put(self, "tiles", _tiles(tiles))
        put(
            self,
            "tail_padding_alignment_in_elements",
            _at_least(1, tail_padding_alignment_in_elements, "tail_padding_alignment_in_elements"),
        )
        put(self, "index_primitive_type", _integral(index_primitive_type, "index_primitive_type"))
        put(self, "pointer_primitive_type", _integral(pointer_primitive_type, "pointer_primitive_type"))
        put(self, "element_size_in_bits", _at_least(0, element_size_in_bits, "element_size_in_bits"))
        put(self, "memory_space", int64(memory_space, "memory_space"))
        splits = entries_of(split_configs, SplitConfig, "split_configs")
        for i, split in enumerate(splits):
            if split.dimension >= len(order):
                raise InvalidShapeError(
                    f"dimension {split.dimension} of a split is not one of the layout's {len(order)}",
                    field=f"split_configs[{i}].dimension",
                )
        put(self, "split_configs", splits)
        if physical_shape is not None:
            _check_physical(physical_shape)
        put(self, "physical_shape", physical_shape)
        put(
            self,
            "dynamic_shape_metadata_prefix_bytes",
            _at_least(0, dynamic_shape_metadata_prefix_bytes, "dynamic_shape_metadata_prefix_bytes"),
        )
        put(self, "unknown_fields", bytes_of(unknown_fields, "unknown_fields"))

    @classmethod
    def parse(cls, text: str) -> Layout:
        """The layout written `text`, braces included: `{1,0:T(8,128)}`. ParseError with line and column otherwise."""
        from xlashape.shape.text.layout_text import parse_layout_text  # stands above this file

        return parse_layout_text(text)

    @classmethod
    def from_proto(cls, value: bytes | Message) -> Layout:
        """The layout of an `xla.LayoutProto`: its bytes, or a message of any protobuf pool.

        Fields that have no place here are kept in `unknown_fields`. DecodeError for bytes that are no LayoutProto,
        InvalidShapeError (its `field` is the path) for a layout that cannot be.
        """
        from xlashape.shape.value.serde import layout_from_proto  # protobuf loads on first use

        return layout_from_proto(value)

    def to_proto(self) -> xla.LayoutProto:
        """A new `xla.LayoutProto`, unknown fields included."""
        from xlashape.shape.value.serde import layout_to_proto

        return layout_to_proto(self)

    @classmethod
    def default(cls, rank: int) -> Layout:
        """Major to minor, nothing else: `{rank-1,…,0}`.

        >>> Layout.default(3)
        Layout('{2,1,0}')
        """
        layout = _DEFAULTS.get(rank) if rank.__class__ is int else None
        if layout is None:
            rank = _at_least(0, rank, "rank")
            layout = cls(range(rank - 1, -1, -1))
            if rank < 64:
                _DEFAULTS[rank] = layout
        return layout

    @property
    def rank(self) -> int:
        """The number of dimensions."""
        return len(self.minor_to_major)

    @property
    def major_to_minor(self) -> tuple[int, ...]:
        """Dimension numbers, the one that varies slowest first."""
        return self.minor_to_major[::-1]

    def __str__(self) -> str:
        try:
            return self._text
        except AttributeError:
            from xlashape.shape.text.layout_text import layout_text

            text = layout_text(self)
            object.__setattr__(self, "_text", text)
            return text

    def __repr__(self) -> str:
        return f"Layout('{self}')"


_DEFAULTS: dict[int, Layout] = {}


def _permutation(minor_to_major: Iterable[int]) -> tuple[int, ...]:
    order = int64s(minor_to_major, "minor_to_major")
    rank = len(order)
    seen = [False] * rank
    for i, dimension in enumerate(order):
        field = f"minor_to_major[{i}]"
        if not 0 <= dimension < rank:
            numbers = "the number 0" if rank == 1 else f"each of 0 to {rank - 1} once"
            of = "1 dimension" if rank == 1 else f"{rank} dimensions"
            raise InvalidShapeError(f"minor_to_major of {of} has {numbers}, not {dimension}", field=field)
        if seen[dimension]:
            named = set(order)
            missing = next(d for d in range(rank) if d not in named)
            raise InvalidShapeError(f"minor_to_major has {dimension} twice and {missing} never", field=field)
        seen[dimension] = True
    return order


def _tiles(tiles: _Tiles) -> tuple[Tile, ...]:
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


def _check_physical(shape: Shape) -> None:
    from xlashape.shape.value.shape import Shape  # stands above this file

    # The check is for callers without types.
    if not isinstance(shape, Shape):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InvalidShapeError(f"physical_shape takes a Shape, not {type(shape).__name__}", field="physical_shape")


def _at_least(minimum: int, value: Any, field: str) -> int:
    number = int64(value, field)
    if number < minimum:
        raise InvalidShapeError(f"{field} is {minimum} or more, not {number}", field=field)
    return number


def _integral(value: PrimitiveType | str | int, field: str) -> PrimitiveType:
    found = PrimitiveType.of(value, field)
    if found is not _INVALID and not found.is_integral:
        raise InvalidShapeError(f"{field} is an integer type, not {found.text}", field=field)
    return found
