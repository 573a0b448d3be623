"""Reads shapes, layouts and program shapes from XLA's protobuf messages, and writes them. Matches XLA's
`Shape::FromProto` and `Shape::ToProto`.

`ProtoReader` is given the classes `Shape` and `Layout` as arguments, so this module does not import them. It is
imported on first use, because protobuf loads slowly.

Nothing is lost. Fields that this schema does not know, fields of layouts that `Layout` has no attribute for
(the dimension level types of sparse arrays) and the padding of layouts written before 2018 stay as bytes in
`unknown_fields` of the value they came with, and are merged back on the way out. An element type of an unknown number
stays a `PrimitiveType` of that number.

Two forms of a message that mean the same are read as the same value: a tail padding alignment of 0 is 1, and missing
dynamic flags are false. As in XLA, a written message always has the alignment and a flag for every dimension.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar, cast

from google.protobuf.message import DecodeError as WireError
from google.protobuf.message import EncodeError, Message
from google.protobuf.unknown_fields import UnknownFieldSet

from xlashape import errors
from xlashape.base.caches import BoundedCache
from xlashape.proto import coerce, xla
from xlashape.shape.parts.fields import LayoutFields, ProgramShapeFields, ShapeFields
from xlashape.shape.parts.primitive_type import PrimitiveType
from xlashape.shape.parts.tile import SplitConfig, Tile

_Shape = TypeVar("_Shape")
_Layout = TypeVar("_Layout")
_Program = TypeVar("_Program")

_TYPES = {int(kind): kind for kind in PrimitiveType}
_SHAPE_FIELDS = ("element_type", "dimensions", "is_dynamic_dimension", "tuple_shapes", "layout")
_LAYOUT_FIELDS = (
    "minor_to_major",
    "tiles",
    "tail_padding_alignment_in_elements",
    "element_size_in_bits",
    "memory_space",
    "index_primitive_type",
    "pointer_primitive_type",
    "physical_shape",
    "dynamic_shape_metadata_prefix_bytes",
    "split_configs",
)
_PROTO_FIELD: dict[str | int, str] = {"dynamic_dimensions": "is_dynamic_dimension"}
"""The field of ShapeProto for an attribute of Shape, where their names differ."""


# -- reading --------------------------------------------------------------------------------


def message_bytes(name: str, value: Any) -> bytes:
    """The bytes of the message `xla.name` that is given as bytes or as a message of any pool. DecodeError otherwise.

    A message is serialized, and later read from its bytes: protobuf reads at most 100 levels of nesting from bytes,
    while a message in memory can have any number of levels.
    """
    if isinstance(value, bytes):
        return value
    if isinstance(value, (bytearray, memoryview)):
        return bytes(cast("bytes", value))
    message_class: type[Message] = getattr(xla, name)
    try:
        return coerce(message_class, value).SerializeToString(deterministic=True)
    except (EncodeError, RecursionError):
        raise errors.DecodeError(
            f"not a {message_class.DESCRIPTOR.full_name}: messages nest deeper than protobuf's 100 levels"
        ) from None


_layouts: BoundedCache[bytes, LayoutFields] = BoundedCache(
    "xlashape.shape: layouts by proto", 1 << 20, lambda data, _: 400 + 35 * len(data)
)
"""Most shapes of a module have one of a few layouts: with this cache, reading 2,000 shapes of one layout takes half the
time. The weights are upper bounds of what tracemalloc measures.
"""


class ProtoReader(Generic[_Shape, _Layout]):
    """Reads messages as shapes and layouts. Its arguments are the constructors of `xlashape.shape.Shape` and
    `xlashape.shape.Layout`.
    """

    def __init__(self, make_shape: Callable[..., _Shape], make_layout: Callable[..., _Layout]) -> None:
        self._make_shape = make_shape
        self._make_layout = make_layout

    def shape(self, data: bytes) -> _Shape:
        """The shape of a serialized `xla.ShapeProto`. See `Shape.from_proto`."""
        return self._shape(coerce(xla.ShapeProto, data), ())

    def layout(self, data: bytes) -> _Layout:
        """The layout of a serialized `xla.LayoutProto`. See `Layout.from_proto`."""
        return self._layout(coerce(xla.LayoutProto, data), ())

    def program(self, data: bytes, make_program: Callable[..., _Program]) -> _Program:
        """The program shape of a serialized `xla.ProgramShapeProto`. See `ProgramShape.from_proto`."""
        message = coerce(xla.ProgramShapeProto, data)
        shapes = [self._shape(parameter, ("parameters", i)) for i, parameter in enumerate(message.parameters)]
        unknown = _unknown(message, ("parameters", "result", "parameter_names"))
        result = self._shape(message.result, ("result",))
        try:
            return make_program(shapes, result, message.parameter_names, unknown)
        except errors.InvalidShapeError as error:
            raise _error(error, ()) from None

    def _shape(self, message: xla.ShapeProto, path: errors.FieldPath) -> _Shape:
        kind = _element_type(message.element_type)
        inner = [self._shape(item, (*path, "tuple_shapes", i)) for i, item in enumerate(message.tuple_shapes)]
        layout = self._known_layout(message.layout, path) if message.HasField("layout") else None
        dynamic = message.is_dynamic_dimension
        unknown = _unknown(message, _SHAPE_FIELDS)
        try:
            return self._make_shape(kind, message.dimensions, dynamic if dynamic else None, layout, inner, unknown)
        except (errors.InvalidArgumentError, errors.LimitExceededError) as error:
            raise _error(error, path) from None

    def _known_layout(self, message: xla.LayoutProto, path: errors.FieldPath) -> _Layout:
        data = message.SerializeToString()
        layout = cast("_Layout | None", _layouts.get(data))
        if layout is None:
            layout = self._layout(message, (*path, "layout"))
            _layouts.put(data, cast("LayoutFields", layout))
        return layout

    def _layout(self, message: xla.LayoutProto, path: errors.FieldPath) -> _Layout:
        tiles = [_tile(tile, (*path, "tiles", i)) for i, tile in enumerate(message.tiles)]
        splits = [_split(split, (*path, "split_configs", i)) for i, split in enumerate(message.split_configs)]
        physical = None
        if message.HasField("physical_shape"):
            physical = self._shape(message.physical_shape, (*path, "physical_shape"))
        is_sparse = bool(message.dim_level_types or message.dim_unique or message.dim_ordered)
        try:
            return self._make_layout(
                message.minor_to_major,
                tiles,
                message.tail_padding_alignment_in_elements or 1,
                _element_type(message.index_primitive_type),
                _element_type(message.pointer_primitive_type),
                message.element_size_in_bits,
                message.memory_space,
                splits,
                physical,
                message.dynamic_shape_metadata_prefix_bytes,
                _unknown(message, _LAYOUT_FIELDS, certain=is_sparse),
            )
        except errors.InvalidArgumentError as error:
            raise _error(error, path) from None


def _element_type(number: int) -> PrimitiveType:
    kind = _TYPES.get(number)
    return PrimitiveType(number) if kind is None else kind


def _tile(message: xla.TileProto, path: errors.FieldPath) -> Tile:
    try:
        return Tile(message.dimensions, _unknown(message, ("dimensions",)))
    except errors.InvalidArgumentError as error:
        raise _error(error, path) from None


def _split(message: xla.SplitConfigProto, path: errors.FieldPath) -> SplitConfig:
    try:
        return SplitConfig(message.dimension, message.split_indices, _unknown(message, ("dimension", "split_indices")))
    except errors.InvalidArgumentError as error:
        raise _error(error, path) from None


def _unknown(message: Message, known: tuple[str, ...], *, certain: bool = False) -> bytes:
    """The bytes of the fields of a message that are not among `known`. `certain` says that there are such fields."""
    # UnknownFieldSet takes a message; its annotation is wrong.
    if not certain and not len(UnknownFieldSet(message)):
        return b""
    rest = type(message)()
    rest.CopyFrom(message)
    for name in known:
        rest.ClearField(name)
    return rest.SerializeToString(deterministic=True)


def _error(
    error: errors.InvalidArgumentError | errors.LimitExceededError, path: errors.FieldPath
) -> errors.InvalidArgumentError | errors.LimitExceededError:
    """`error` with the path in the proto of the field that is wrong, also in its message."""
    error.path = (*path, *[_PROTO_FIELD.get(step, step) for step in error.path])
    if error.path:
        error.message = f"{errors.path_text(error.path)}: {error.message}"
        error.args = (error.message,)
    return error


# -- writing --------------------------------------------------------------------------------


def shape_to_proto(shape: ShapeFields) -> xla.ShapeProto:
    """A new `xla.ShapeProto`."""
    message = xla.ShapeProto()
    _fill_shape(message, shape)
    return message


def layout_to_proto(layout: LayoutFields) -> xla.LayoutProto:
    """A new `xla.LayoutProto`."""
    message = xla.LayoutProto()
    _fill_layout(message, layout)
    return message


def program_shape_to_proto(program: ProgramShapeFields) -> xla.ProgramShapeProto:
    """A new `xla.ProgramShapeProto`."""
    message = xla.ProgramShapeProto()
    for shape in program.parameters:
        _fill_shape(message.parameters.add(), shape)
    message.result.SetInParent()
    _fill_shape(message.result, program.result)
    message.parameter_names.extend(program.parameter_names)
    _merge(message, program.unknown_fields)
    return message


def _fill_shape(message: xla.ShapeProto, shape: ShapeFields) -> None:
    message.element_type = int(shape.element_type)
    if shape.dimensions:
        message.dimensions.extend(shape.dimensions)
        message.is_dynamic_dimension.extend(shape.dynamic_dimensions)
    for inner in shape.tuple_shapes:
        _fill_shape(message.tuple_shapes.add(), inner)
    if shape.layout is not None:
        message.layout.SetInParent()
        _fill_layout(message.layout, shape.layout)
    _merge(message, shape.unknown_fields)


def _fill_layout(message: xla.LayoutProto, layout: LayoutFields) -> None:
    message.minor_to_major.extend(layout.minor_to_major)
    for tile in layout.tiles:
        part = message.tiles.add()
        part.dimensions.extend(tile.dimensions)
        _merge(part, tile.unknown_fields)
    message.tail_padding_alignment_in_elements = layout.tail_padding_alignment_in_elements
    message.index_primitive_type = int(layout.index_primitive_type)
    message.pointer_primitive_type = int(layout.pointer_primitive_type)
    message.element_size_in_bits = layout.element_size_in_bits
    message.memory_space = layout.memory_space
    for split in layout.split_configs:
        part = message.split_configs.add()
        part.dimension = split.dimension
        part.split_indices.extend(split.split_indices)
        _merge(part, split.unknown_fields)
    if layout.physical_shape is not None:
        message.physical_shape.SetInParent()
        _fill_shape(message.physical_shape, layout.physical_shape)
    message.dynamic_shape_metadata_prefix_bytes = layout.dynamic_shape_metadata_prefix_bytes
    _merge(message, layout.unknown_fields)


def _merge(message: Message, unknown: bytes) -> None:
    if unknown:
        try:
            message.MergeFromString(unknown)
        except WireError:
            raise errors.DecodeError("unknown_fields are not protobuf fields", field="unknown_fields") from None
