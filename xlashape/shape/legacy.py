"""Layouts written before 2018, whose arrays may be padded: reading them, indexing them, and converting them to layouts
of today.

Serialized shapes of that time use numbers of `xla.LayoutProto` that are reserved today, and arrive as unknown fields:

| number | field | meaning |
|---|---|---|
| 2 | padded_dimensions | the width each dimension is padded up to at its end; as many as dimensions, or none |
| 3 | padding_value | what the padding holds: `PaddingValue` |
| 4 | format | `LegacyFormat` |
| 5 | max_sparse_elements | of sparse arrays |

`Shape.from_proto` keeps these fields, and nothing else in the library uses them. To read them, pass each array to
`read`:

>>> from xlashape.proto import xla
>>> message = Shape.parse("f32[2,3]{0,1}").to_proto()
>>> message.layout.MergeFromString(bytes([0x12, 2, 3, 5, 0x18, 1]))  # padded to [3, 5] with zeros
6
>>> array = read(Shape.from_proto(message))
>>> array.padded_dimensions, array.linear_index((1, 2)), array.byte_size()
((3, 5), 7, 60)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import IntEnum
from typing import TYPE_CHECKING, Any, cast

from xlashape.base.frozen import FrozenValue, set_field
from xlashape.errors import DecodeError, InvalidShapeError, LimitExceededError, LossyConversionError, UnsupportedError
from xlashape.proto import wire
from xlashape.shape import tiling
from xlashape.shape.arguments import checked_index
from xlashape.shape.parts.checks import int64, int64s
from xlashape.shape.parts.primitive_type import PrimitiveType
from xlashape.shape.parts.tile import UNBOUNDED_SIZE
from xlashape.shape.value.shape import Layout, Shape

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray

__all__ = ["LegacyArray", "LegacyFormat", "PaddingValue", "has_legacy_fields", "read"]


class PaddingValue(IntEnum):
    """What the padding of an array holds."""

    INVALID_PAD = 0
    ZERO_PAD = 1
    ONE_PAD = 2
    LOWEST_PAD = 3
    HIGHEST_PAD = 4
    UNKNOWN_PAD = 5


class LegacyFormat(IntEnum):
    """How an array is stored."""

    INVALID_FORMAT = 0
    DENSE = 1
    SPARSE = 2


_PADDED_DIMENSIONS, _PADDING_VALUE, _FORMAT, _MAX_SPARSE_ELEMENTS = 2, 3, 4, 5
_LEGACY = range(2, 6)


class LegacyArray(FrozenValue):
    """An array with the layout of before 2018.

    - `shape`: the array without its legacy fields; its layout gives the order of the padded array's dimensions.
    - `padded_dimensions`: a width for each dimension, not below its size. If none are given, the widths are the sizes.
    - `padding_value`, `format`, `max_sparse_elements`: as in the table above.

    InvalidShapeError for widths that do not fit, for shapes that are not arrays, and for unbounded dimensions.
    """

    __slots__ = ("format", "max_sparse_elements", "padded_dimensions", "padding_value", "shape")
    __match_args__ = ("shape", "padded_dimensions", "padding_value", "format")
    _fields = ("shape", "padded_dimensions", "padding_value", "format", "max_sparse_elements")
    shape: Shape
    padded_dimensions: tuple[int, ...]
    padding_value: PaddingValue
    format: LegacyFormat
    max_sparse_elements: int

    def __init__(
        self,
        shape: Shape,
        padded_dimensions: Iterable[int] = (),
        padding_value: PaddingValue | int = PaddingValue.INVALID_PAD,
        format: LegacyFormat | int = LegacyFormat.DENSE,  # noqa: A002 - the field's name
        max_sparse_elements: int = 0,
    ) -> None:
        if not shape.is_array:
            raise InvalidShapeError(f"a legacy layout belongs to an array, not to {shape!r:.100}", field="shape")
        if UNBOUNDED_SIZE in shape.dimensions:
            raise InvalidShapeError(f"{shape} has an unbounded dimension", field="shape")
        if has_legacy_fields(shape):
            raise InvalidShapeError("the shape still has its legacy fields: use legacy.read", field="shape")
        widths = int64s(padded_dimensions, "padded_dimensions") or shape.dimensions
        if len(widths) != shape.rank:
            message = f"{len(widths)} padded dimensions for {shape.rank} dimensions"
            raise InvalidShapeError(message, field="padded_dimensions")
        for i, (width, size) in enumerate(zip(widths, shape.dimensions, strict=True)):
            if width < size:
                message = f"dimension {i} of size {size} cannot be padded to {width}"
                raise InvalidShapeError(message, field=("padded_dimensions", i))
        set_field(self, "shape", shape)
        set_field(self, "padded_dimensions", widths)
        set_field(self, "padding_value", _member(PaddingValue, padding_value, "padding_value"))
        set_field(self, "format", _member(LegacyFormat, format, "format"))
        set_field(self, "max_sparse_elements", int64(max_sparse_elements, "max_sparse_elements"))

    @property
    def is_padded(self) -> bool:
        """Whether some dimension is wider in memory than its size."""
        return self.padded_dimensions != self.shape.dimensions

    @property
    def padded_shape(self) -> Shape:
        """The padded array as a shape of today. Its elements have the same positions as those of this array.

        UnsupportedError for a sparse array, which has no such shape.
        """
        if self.format is LegacyFormat.SPARSE:
            raise UnsupportedError(f"{self.shape} is sparse: where its elements lie depends on their values")
        return self.shape.replace(dimensions=self.padded_dimensions, dynamic_dimensions=None)

    def linear_index(self, index: Iterable[int]) -> int:
        """The position of an element in the buffer. InvalidIndexError for an index outside the array, padding
        included.
        """
        numbers = checked_index(self.shape, self.shape.dimensions, index)
        return tiling.linear_index(self.padded_shape, numbers)

    def multi_index(self, position: int) -> tuple[int, ...] | None:
        """The element at a position of the buffer, or None for padding. InvalidIndexError outside the buffer."""
        index = tiling.multi_index(self.padded_shape, position)
        if index is None or any(i >= size for i, size in zip(index, self.shape.dimensions, strict=True)):
            return None
        return index

    def byte_size(self) -> int:
        """The bytes of the buffer, padding included."""
        return tiling.physical_bytes(self.padded_shape)

    def pack(self, array: ArrayLike) -> NDArray[Any]:
        """The buffer of an array, its padding filled: zeros, ones, or the lowest or highest value of the element type
        (an infinity where it has one). If `padding_value` is invalid or unknown the padding is zero.

        Values and errors as in `tiling.pack`; LimitExceededError for a buffer that does not fit in memory.
        """
        import numpy as np

        plain = Shape.array(self.shape.element_type, self.shape.dimensions)
        values: NDArray[Any] = tiling.unpack(plain, tiling.pack(plain, array))
        try:
            padded = np.full(self.padded_dimensions, _fill(self.padding_value, self.shape.element_type), values.dtype)
        except (MemoryError, ValueError):
            message = f"a buffer of {self.byte_size()} bytes does not fit in memory"
            raise LimitExceededError(message, limit="buffer_bytes", value=self.byte_size()) from None
        padded[tuple([slice(size) for size in self.shape.dimensions])] = values
        return tiling.pack(self.padded_shape, padded)

    def unpack(self, buffer: Any) -> NDArray[Any]:
        """The array that a buffer holds, without the padding."""
        padded: NDArray[Any] = tiling.unpack(self.padded_shape, buffer)
        return padded[tuple([slice(size) for size in self.shape.dimensions])]

    def to_shape(self) -> Shape:
        """The array as a shape of today. LossyConversionError if it is padded or sparse, which a layout of today cannot
        say.
        """
        if self.format is LegacyFormat.SPARSE:
            raise LossyConversionError(f"{self.shape} is sparse, which a layout of today cannot say")
        if self.is_padded:
            widths = ",".join(map(str, self.padded_dimensions))
            raise LossyConversionError(f"{self.shape} is padded to [{widths}], which a layout of today cannot say")
        return self.shape

    def with_legacy_fields(self) -> Shape:
        """The shape with the legacy fields among the unknown fields of its layout. `read` reads it, and `to_proto`
        writes the fields.
        """
        data = b""
        if self.is_padded:
            data += wire.tag(_PADDED_DIMENSIONS, wire.BYTES) + wire.sized(wire.packed_ints(self.padded_dimensions))
        for number, value in (
            (_PADDING_VALUE, self.padding_value),
            (_FORMAT, self.format),
            (_MAX_SPARSE_ELEMENTS, self.max_sparse_elements),
        ):
            if value:
                data += wire.tag(number, wire.VARINT) + wire.varint(value)
        layout = self.shape.layout or Layout.default(self.shape.rank)
        return self.shape.with_layout(layout.replace(unknown_fields=data + layout.unknown_fields))

    def __repr__(self) -> str:
        padded = f", padded_dimensions={self.padded_dimensions}" if self.is_padded else ""
        return f"LegacyArray('{self.shape}'{padded}, {self.padding_value.name}, {self.format.name})"


def has_legacy_fields(shape: Shape) -> bool:
    """Whether an array of the shape has a layout with fields of before 2018.

    >>> has_legacy_fields(Shape.parse("(f32[2], s32[])"))
    False
    """
    if shape.tuple_shapes:
        return any(has_legacy_fields(inner) for inner in shape.tuple_shapes)
    return shape.layout is not None and any(
        number in _LEGACY for number, _, _ in _fields_of(shape.layout.unknown_fields)
    )


def read(shape: Shape) -> LegacyArray:
    """The array of a shape read from a proto of before 2018. An array without legacy fields is dense and not padded.

    DecodeError for malformed legacy fields, InvalidShapeError as in LegacyArray. For a tuple, call `read` on each of
    its `leaves()`.
    """
    if not shape.is_array or shape.layout is None or not shape.layout.unknown_fields:
        return LegacyArray(shape)
    widths: list[int] = []
    values = {_PADDING_VALUE: 0, _FORMAT: 0, _MAX_SPARSE_ELEMENTS: 0}
    rest = b""
    for number, payload, raw in _fields_of(shape.layout.unknown_fields):
        if number == _PADDED_DIMENSIONS:
            widths += [payload] if isinstance(payload, int) else _int64s(payload)
        elif number in values:
            if not isinstance(payload, int):
                raise DecodeError(f"layout field {number} is not a number", field="layout")
            values[number] = payload
        else:
            rest += raw
    plain = shape.with_layout(shape.layout.replace(unknown_fields=rest))
    kind = values[_FORMAT] or LegacyFormat.DENSE
    return LegacyArray(plain, widths, values[_PADDING_VALUE], kind, values[_MAX_SPARSE_ELEMENTS])


def _member(enum: Any, value: int, field: str) -> Any:
    try:
        return enum(value)
    except ValueError:
        raise InvalidShapeError(f"{value!r:.40} is not a {enum.__name__}", field=field) from None


def _fill(padding: PaddingValue, kind: PrimitiveType) -> Any:
    if padding is PaddingValue.ONE_PAD:
        return 1
    if padding is PaddingValue.LOWEST_PAD or padding is PaddingValue.HIGHEST_PAD:
        return _extreme(kind, highest=padding is PaddingValue.HIGHEST_PAD)
    return 0


def _extreme(kind: PrimitiveType, *, highest: bool) -> Any:
    """The lowest or highest value of a type: an infinity if the type has one. UnsupportedError for complex types, which
    have neither.
    """
    import numpy as np

    dtype: np.dtype[Any] = kind.numpy_dtype()
    if kind is PrimitiveType.PRED:
        return highest
    if kind.is_integral:
        bits = kind.bit_width - kind.is_signed
        return (1 << bits) - 1 if highest else -(1 << bits) if kind.is_signed else 0
    if kind.is_complex:
        raise UnsupportedError(f"{kind} has no lowest and no highest value to pad with")
    infinity = np.array(np.inf if highest else -np.inf).astype(dtype)
    if np.isinf(infinity.astype(np.float64)):
        return infinity
    import ml_dtypes

    finfo = cast("Any", ml_dtypes).finfo(dtype)
    return finfo.max if highest else finfo.min


# -- the wire -------------------------------------------------------------------------------


def _fields_of(data: bytes) -> Iterator[tuple[int, int | bytes, bytes]]:
    """The fields of serialized bytes: number, content (an int64 for a varint, else bytes), and the field's own
    bytes.
    """
    try:
        for number, wire_type, start, content, end in wire.fields(data):
            is_varint = wire_type == wire.VARINT
            value = wire.signed(wire.read_varint(data, content)[0]) if is_varint else data[content:end]
            yield number, value, data[start:end]
    except DecodeError:
        raise _not_fields() from None


def _int64s(data: bytes) -> list[int]:
    try:
        return [wire.signed(value) for value in wire.varints(data)]
    except DecodeError:
        raise _not_fields() from None


def _not_fields() -> DecodeError:
    return DecodeError("the layout's unknown fields are not protobuf fields", field="layout")
