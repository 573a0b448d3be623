"""The elements of a LiteralProto: as raw bytes, as NumPy arrays and as text.

- `raw`, `from_raw`: raw bytes, in the order of the literal's layout. Each element is little-endian and as wide as its
  type; an element of a type below 8 bits takes a byte. No bit changes, nan payloads included.
- `to_numpy`, `from_numpy`: arrays of the logical shape, with the same bits.
- `literal_text`: the text that XLA prints for a constant, on one line. From rank 4 on, each block begins with a comment
  that gives its index.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Any

from xlashape.base.math import product
from xlashape.errors import InvalidArgumentError, InvalidModuleError, UnavailableError
from xlashape.hlo.literal.number import ELEMENT_TYPES, ElementType
from xlashape.limits import MAX_SHAPE_DEPTH, check
from xlashape.proto import coerce, xla
from xlashape.proto.wire import BYTES, fields, tag, varint
from xlashape.shape import PrimitiveType

if TYPE_CHECKING:
    import numpy as np


def element_type(shape: xla.ShapeProto) -> ElementType:
    """The element type of an array shape. Raises InvalidModuleError for a type that literals cannot have."""
    element = ELEMENT_TYPES.get(shape.element_type)
    if element is None:
        raise InvalidModuleError(f"a literal cannot have element type {_type_name(shape.element_type)}")
    return element


def _type_name(number: int) -> str:
    try:
        return xla.PrimitiveType.Name(number).lower()
    except ValueError:
        return f"number {number}"


def element_count(shape: xla.ShapeProto) -> int:
    """The number of elements of a literal's array. Raises InvalidModuleError for a negative size; the smallest stands
    for an unbounded dimension.
    """
    if any(size < 0 for size in shape.dimensions):
        raise InvalidModuleError("a literal cannot have an unbounded or negative dimension")
    return product(shape.dimensions)


def row_major_positions(shape: xla.ShapeProto) -> list[int] | None:
    """For each element, in the order of the layout, its position in row-major order; None if both orders are the same.

    >>> shape = xla.ShapeProto(element_type=xla.F32, dimensions=[2, 2], layout={"minor_to_major": [0, 1]})
    >>> row_major_positions(shape)
    [0, 2, 1, 3]
    """
    dimensions = list(shape.dimensions)
    minor_to_major = list(shape.layout.minor_to_major) if shape.HasField("layout") else []
    rank = len(dimensions)
    if not minor_to_major or minor_to_major == list(range(rank - 1, -1, -1)):
        return None
    if sorted(minor_to_major) != list(range(rank)):
        raise InvalidModuleError(
            f"minor_to_major {minor_to_major} of a literal is not a permutation of its {rank} dimensions"
        )
    strides = [product(dimensions[i + 1 :]) for i in range(rank)]
    positions = [0]
    for dimension in reversed(minor_to_major):
        steps = [i * strides[dimension] for i in range(dimensions[dimension])]
        positions = [position + step for position in positions for step in steps]
    return positions


def raw(literal: xla.LiteralProto) -> bytes:
    """The raw bytes of an array literal's elements. Bits are kept, nan payloads included.

    Raises InvalidModuleError if the number of elements does not fit the shape.
    """
    element = element_type(literal.shape)
    content: Any = getattr(literal, element.field)
    if element.storage == "bytes":
        result = bytes(content)
    elif element.storage == "varint":
        result = array(element.code, content).tobytes()
    else:
        floats = array("f" if element.code == "I" else "d", content)
        # A Python float cannot hold a signalling nan: it becomes quiet. So nans are taken from the serialized bytes.
        result = _field_content(literal, element.field_number) if any(v != v for v in floats) else floats.tobytes()
    expected = element_count(literal.shape) * element.width
    if len(result) != expected:
        raise InvalidModuleError(
            f"a literal of {element.name}{list(literal.shape.dimensions)} holds {len(result) // element.width} "
            "elements,"
            f" not {expected // element.width}"
        )
    return result


def _field_content(literal: xla.LiteralProto, number: int) -> bytes:
    """The content of a packed field in the serialized literal."""
    data = literal.SerializePartialToString()
    return b"".join(
        [
            data[content:end]
            for found, wire_type, _, content, end in fields(data)
            if found == number and wire_type == BYTES
        ]
    )


def from_raw(shape: xla.ShapeProto, data: bytes) -> xla.LiteralProto:
    """The array literal of a shape with the raw bytes `data`. Raises InvalidArgumentError if there are more or fewer
    bytes than the shape has.

    >>> from_raw(xla.ShapeProto(element_type=xla.U8, dimensions=[2]), b"ab").u8s
    b'ab'
    """
    element = element_type(shape)
    expected = element_count(shape) * element.width
    if len(data) != expected:
        raise InvalidArgumentError(f"{len(data)} bytes for a literal of {expected}")
    if element.storage == "fixed":
        field = b"".join((tag(element.field_number, BYTES), varint(len(data)), data)) if data else b""
        literal = xla.LiteralProto.FromString(field)
    else:
        literal = xla.LiteralProto()
        if element.storage == "bytes":
            setattr(literal, element.field, data)
        else:
            values: array[int] = array(element.code)
            values.frombytes(data)
            getattr(literal, element.field).extend(map(bool, values) if element.kind == "pred" else values)
    literal.shape.CopyFrom(shape)
    return literal


# -- arrays ------------------------------------------------------------------------------------


def to_numpy(literal: xla.LiteralProto | bytes) -> np.ndarray[Any, Any] | tuple[Any, ...]:
    r"""The elements as a new NumPy array of the logical shape, with the same bits; a tuple of arrays for a tuple.

    Types that NumPy lacks (bf16, f8…, s4, …) come from ml_dtypes. Raises UnavailableError if NumPy or ml_dtypes is not
    installed.

    >>> to_numpy(xla.LiteralProto(shape={"element_type": xla.S8, "dimensions": [2]}, s8s=b"\x01\xff"))
    array([ 1, -1], dtype=int8)
    """
    import numpy as np  # start-up time

    literal = coerce(xla.LiteralProto, literal)
    if literal.shape.element_type == xla.TUPLE:
        return tuple(to_numpy(part) for part in literal.tuple_literals)
    element = element_type(literal.shape)
    dtype = PrimitiveType(element.number).numpy_dtype()
    data = raw(literal)
    flat: Any
    if element.code == "B" and element.kind in ("int", "pred") and element.name != "u8":
        # Each element is stored in a byte, of which only the lower bits belong to the value.
        low_bits: Any = np.frombuffer(data, np.uint8) & np.uint8(element.upper - element.lower)
        if element.lower < 0:
            half = np.int16(-element.lower)
            low_bits = ((low_bits.astype(np.int16) ^ half) - half).astype(np.int8)
        flat = low_bits.astype(dtype)
    else:
        flat = np.frombuffer(data, dtype)
    major_to_minor = [*reversed(literal.shape.layout.minor_to_major)]
    sizes = list(literal.shape.dimensions)
    if sorted(major_to_minor) != list(range(len(sizes))):
        if major_to_minor:
            raise InvalidModuleError(f"minor_to_major {major_to_minor[::-1]} of a literal is not a permutation")
        major_to_minor = list(range(len(sizes)))
    stored: Any = flat.reshape([sizes[d] for d in major_to_minor])
    logical: Any = stored.transpose([major_to_minor.index(d) for d in range(len(sizes))])
    result: np.ndarray[Any, Any] = logical.copy(order="C")
    return result


def from_numpy(value: Any, shape: xla.ShapeProto | None = None) -> xla.LiteralProto:
    """The literal of a NumPy array, of a value that `numpy.asarray` takes, or of a tuple of such values. Bits are kept.

    `shape` gives the element type and the layout. By default the type is the array's and the layout is row-major.
    Raises InvalidArgumentError for a type that XLA lacks or an array that does not fit `shape`.

    >>> import numpy as np
    >>> from_numpy(np.array([[1, 2]], np.int32)).s32s
    [1, 2]
    """
    import numpy as np  # start-up time

    if isinstance(value, tuple):
        parts: list[Any] = list(value)  # pyright: ignore[reportUnknownArgumentType]  # a tuple of anything
        shapes = list(shape.tuple_shapes) if shape is not None else [None] * len(parts)
        if len(shapes) != len(parts):
            raise InvalidArgumentError(f"{len(parts)} arrays for a tuple of {len(shapes)}")
        literals = [from_numpy(part, part_shape) for part, part_shape in zip(parts, shapes, strict=True)]
        if shape is None:
            shape = xla.ShapeProto(element_type=xla.TUPLE, tuple_shapes=[part.shape for part in literals])
        return xla.LiteralProto(shape=shape, tuple_literals=literals)
    array: Any = np.asarray(value)
    if shape is None:
        rank = array.ndim
        shape = xla.ShapeProto(
            element_type=_element_type_of(array.dtype),
            dimensions=array.shape,
            is_dynamic_dimension=[False] * rank,
            layout=xla.LayoutProto(minor_to_major=range(rank - 1, -1, -1), tail_padding_alignment_in_elements=1),
        )
    element = element_type(shape)
    dtype = PrimitiveType(element.number).numpy_dtype()
    if list(array.shape) != list(shape.dimensions) or array.dtype != dtype:
        raise InvalidArgumentError(
            f"an array of {array.dtype.name}{list(array.shape)} for a literal of {element.name}{list(shape.dimensions)}"
        )
    major_to_minor = [*reversed(shape.layout.minor_to_major)] or list(range(array.ndim))
    if sorted(major_to_minor) != list(range(array.ndim)):
        raise InvalidArgumentError(
            f"minor_to_major {major_to_minor[::-1]} is not a permutation of {array.ndim} dimensions"
        )
    return from_raw(shape, np.ascontiguousarray(array.transpose(major_to_minor)).tobytes())


def _element_type_of(dtype: np.dtype[Any]) -> int:
    for number in ELEMENT_TYPES:
        try:
            if PrimitiveType(number).numpy_dtype() == dtype:
                return number
        except UnavailableError:
            continue
    raise InvalidArgumentError(f"XLA has no element type like NumPy's {dtype.name}")


# -- text --------------------------------------------------------------------------------------


def literal_text(literal: xla.LiteralProto | bytes, *, depth: int = 0) -> str:
    """XLA's text of a literal on one line, without its shape.

    Raises InvalidModuleError for a literal whose elements do not fit its shape.

    >>> literal_text(xla.LiteralProto(shape={"element_type": xla.F32, "dimensions": [1, 2]}, f32s=[1, 0.1]))
    '{ { 1, 0.1 } }'
    """
    literal = coerce(xla.LiteralProto, literal)
    shape = literal.shape
    if shape.element_type == xla.TUPLE:
        check("levels of tuples in a literal", depth, MAX_SHAPE_DEPTH)
        return f"( {', '.join(literal_text(part, depth=depth + 1) for part in literal.tuple_literals)} )"
    if shape.element_type == xla.TOKEN:
        return ""
    return _array_text(literal, element_type(shape))


def _array_text(literal: xla.LiteralProto, element: ElementType) -> str:
    elements: array[int] = array(element.code)
    elements.frombytes(raw(literal))
    texts = element.texts(elements)
    positions = row_major_positions(literal.shape)
    if positions is not None:
        row_major = [""] * len(texts)
        for position, text in zip(positions, texts, strict=True):
            row_major[position] = text
        texts = row_major
    sizes = list(literal.shape.dimensions)
    if literal.dynamic_sizes:
        texts, sizes = _cut(texts, sizes, list(literal.dynamic_sizes))
    if not sizes:
        if element.kind == "pred":
            return "true" if texts[0] == "1" else "false"
        return texts[0]
    if len(sizes) == 1:
        return f"{{{', '.join(texts)}}}"
    return _nested(texts, sizes)


def _cut(texts: list[str], sizes: list[int], dynamic_sizes: list[int]) -> tuple[list[str], list[int]]:
    """The texts of the elements within the dynamic sizes, in row-major order, and the dynamic sizes."""
    if len(dynamic_sizes) != len(sizes) or any(
        not 0 <= dynamic <= size for dynamic, size in zip(dynamic_sizes, sizes, strict=True)
    ):
        raise InvalidModuleError(f"dynamic sizes {dynamic_sizes} of a literal do not fit its dimensions {sizes}")
    positions = [0]
    for dynamic, size in zip(dynamic_sizes, sizes, strict=True):
        positions = [position * size + i for position in positions for i in range(dynamic)]
    return [texts[position] for position in positions], dynamic_sizes


def _nested(texts: list[str], sizes: list[int]) -> str:
    """The text of an array of rank 2 or more from the texts of its elements, in row-major order. Joins the innermost
    rows first, then level after level around them.

    From rank 4 on, each block has a comment with its index, except the outermost block and the rows.
    """
    rank, row_size = len(sizes), sizes[-1]
    counts = [product(sizes[:level]) for level in range(rank)]
    if row_size > 1:
        parts = [f"{{ {', '.join(texts[i : i + row_size])} }}" for i in range(0, len(texts), row_size)]
    else:
        parts = [f"{{{text}}}" for text in texts] if row_size else ["{}"] * counts[-1]
    for level in range(rank - 2, -1, -1):
        size = sizes[level]
        has_comment = rank > 3 and level > 0
        outer: list[str] = []
        for i in range(counts[level]):
            inside = ", ".join(parts[i * size : (i + 1) * size])
            if has_comment:
                head = f"{{ /*i{level - 1}={i % sizes[level - 1]}*/"
                outer.append(f"{head} {inside} }}" if size else f"{head} }}")
            else:
                outer.append(f"{{ {inside} }}")
        parts = outer
    return parts[0]
