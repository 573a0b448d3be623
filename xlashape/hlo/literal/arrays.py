"""LiteralProto ↔ NumPy arrays of the logical shape, bit for bit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from xlashape.errors import InvalidArgumentError, InvalidModuleError, UnavailableError
from xlashape.hlo.literal.data import element_type, from_raw, raw
from xlashape.hlo.literal.element_types import ELEMENT_TYPES
from xlashape.proto import coerce, xla
from xlashape.shape import PrimitiveType

if TYPE_CHECKING:
    import numpy as np


def to_numpy(literal: xla.LiteralProto | bytes) -> np.ndarray[Any, Any] | tuple[Any, ...]:
    r"""The elements as a new NumPy array of the logical shape, with the same bits; a tuple of arrays for a tuple.

    Types that NumPy lacks (bf16, f8…, s4, …) come from ml_dtypes. Raises UnavailableError if NumPy or ml_dtypes is not installed.

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
        # Each element is a byte, of which only the lower bits count.
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
    """The literal of a NumPy array (or of a value that `numpy.asarray` takes), or of a tuple of them, with the same bits.

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
