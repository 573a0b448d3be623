"""Makes shapes of objects of other libraries, for `Shape.of`: of arrays, objects that describe arrays, element types,
and trees of these.

No other library is imported: an object is recognized by its attributes.

    object                                            attributes                       shape
    NumPy array or scalar                             dtype, shape, and for the order  an array with its dimensions in
                                                      flags, strides                   the order that memory has, if it
                                                                                       has no gaps
    JAX array, ShapeDtypeStruct, abstract value       dtype, shape, and for a layout   an array with its layout
                                                      format (layout before JAX 0.7)
    array of random keys                              the same, an extended dtype      the numbers that hold the keys
    array of another library with NumPy's type names  dtype, shape                     an array
    instruction of `xlashape.hlo`                     shape                            the shape of its result
    jaxlib's Shape                                    to_serialized_proto              the same shape
    `xla.ShapeProto`, of any pool, or its bytes       DESCRIPTOR                       the same shape
    text                                                                               what `Shape.parse` reads
    element type (see `PrimitiveType.of`)                                              a scalar
    (element type, dimensions)                                                         an array
    tuple, list                                                                        a tuple
    dict                                                                               a tuple in the order of its keys
    None                                                                               an empty tuple

`ObjectReader` gets the class Shape, and the functions that make shapes and layouts, as arguments. So this module does
not import Shape and Layout.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import index
from typing import Any, Generic, TypeVar, cast

from xlashape.errors import FieldPath, InvalidArgumentError, XlashapeError, is_a
from xlashape.limits import MAX_SHAPE_DEPTH, check
from xlashape.shape.parts.primitive_type import PrimitiveType

_Shape = TypeVar("_Shape")
_Layout = TypeVar("_Layout")

_NO_WIDTH = {
    int: "int has no width of its own, NumPy makes it s64 and JAX s32: pass numpy.int32(x) or jax.numpy.asarray(x)",
    float: "float has no width of its own, NumPy makes it f64 and JAX f32: pass numpy.float32(x) or "
    "jax.numpy.asarray(x)",
    complex: "complex has no width of its own, NumPy makes it c128 and JAX c64: pass numpy.complex64(x) or "
    "jax.numpy.asarray(x)",
}
_TAKEN = (
    "an array, a jax.ShapeDtypeStruct, a Shape of jaxlib, text, an element type, a pair (element type, dimensions),"
    " or a tuple, list or dict of these"
)


class ObjectReader(Generic[_Shape, _Layout]):
    """Makes shapes of objects. `Shape.of` says which objects it takes, and which errors it raises."""

    def __init__(
        self,
        shape_class: type[_Shape],
        make_array: Callable[[PrimitiveType, Iterable[Any], _Layout | None], _Shape],
        make_tuple: Callable[[Iterable[_Shape]], _Shape],
        make_layout: Callable[..., _Layout],
        parse: Callable[[str], _Shape],
        from_proto: Callable[[Any], _Shape],
    ) -> None:
        """`make_array` is called with None for the default layout."""
        self._shape_class = shape_class
        self._make_array = make_array
        self._make_tuple = make_tuple
        self._make_layout = make_layout
        self._parse = parse
        self._from_proto = from_proto

    def shape(self, value: Any) -> _Shape:
        """The shape of an object."""
        return self._shape(value, ())

    def _shape(self, value: Any, path: FieldPath) -> _Shape:
        """The shape of an object found at `path` in a tree of objects."""
        check("shape depth", len(path), MAX_SHAPE_DEPTH, field="value")
        if isinstance(value, self._shape_class):
            return value
        if isinstance(value, (tuple, list)) and not _is_type_and_dimensions(items := cast("Sequence[Any]", value)):
            return self._make_tuple([self._shape(item, (*path, i)) for i, item in enumerate(items)])
        if isinstance(value, Mapping):
            tree = cast("Mapping[Any, Any]", value)
            return self._make_tuple([self._shape(tree[key], (*path, str(key))) for key in _keys(tree, path)])
        if value is None:
            return self._make_tuple(())
        try:
            return self._leaf(value)
        except XlashapeError as error:
            raise error.within(*path) if path else error from None

    def _leaf(self, value: Any) -> _Shape:
        if isinstance(value, str):
            return self._make_array(kind, (), None) if (kind := _type_named(value)) else self._parse(value)
        if isinstance(value, (bytes, bytearray, memoryview)) or hasattr(value, "DESCRIPTOR"):
            return self._from_proto(value)
        if isinstance(value, tuple):
            element_type, dimensions = cast("tuple[Any, Any]", value)
            return self._array(element_type, dimensions, None)
        if isinstance(value, bool):
            return self._make_array(PrimitiveType.PRED, (), None)
        number_type = value if isinstance(value, type) else type(value)
        if number_type in _NO_WIDTH:
            raise InvalidArgumentError(f"Python's {_NO_WIDTH[number_type]}", field="value")
        if not isinstance(value, type):
            serialize = getattr(value, "to_serialized_proto", None)
            if callable(serialize):
                return self._from_proto(serialize())
            dimensions = getattr(value, "shape", None)
            if isinstance(dimensions, self._shape_class):
                return dimensions
            if isinstance(dimensions, Iterable) and hasattr(value, "dtype"):
                return self._array(value.dtype, cast("Iterable[Any]", dimensions), value)
        kind = _element_type(value)
        if kind is None:
            raise InvalidArgumentError(f"{_named(value)} has no shape: pass {_TAKEN}", field="value")
        return self._make_array(kind, (), None)

    def _array(self, dtype: Any, dimensions: Iterable[Any], owner: Any) -> _Shape:
        """An array with the layout of the object `owner`, if it has one."""
        sizes = _sizes(dimensions)
        if isinstance(dtype, str):
            return self._make_array(PrimitiveType.of(dtype), sizes, None)
        kind = _element_type(dtype)
        if kind is None:
            element = _element_of_extended_type(dtype)
            if element is None:
                raise InvalidArgumentError(
                    f"no element type corresponds to {dtype!r:.60}; for random keys pass jax.random.key_data(keys)",
                    field="dtype",
                )
            return self._array(element.dtype, (*sizes, *element.shape), None)
        layout = _layout_of(owner)
        if layout is None and (order := _order_of(owner)) is not None:
            return self._make_array(kind, sizes, self._make_layout(order))
        return self._make_array(kind, sizes, None if layout is None else _of_jax(layout, self._make_layout))


def _is_type_and_dimensions(value: Sequence[Any]) -> bool:
    """Whether a value is a pair (element type, dimensions) rather than a tree: an element type is not an array, and
    dimensions are not shapes.
    """
    if not isinstance(value, tuple) or hasattr(cast("Any", value), "_fields") or len(cast("Any", value)) != 2:
        return False
    first, second = cast("tuple[Any, Any]", value)
    if isinstance(first, (str, type)) and type(second) is int:
        # A number is not a sequence of dimensions. `_sizes` raises the error for this mistake.
        return not isinstance(first, str) or _type_named(first) is not None
    if isinstance(second, str) or not isinstance(second, Iterable) or isinstance(second, Mapping):
        return False
    if isinstance(first, str):
        return _type_named(first) is not None or all(type(size) is int for size in cast("Iterable[Any]", second))
    is_type = isinstance(first, type) or not (hasattr(first, "shape") and hasattr(first, "dtype"))
    return is_type and (_element_type(first) is not None or _element_of_extended_type(first) is not None)


def _type_named(text: str) -> PrimitiveType | None:
    try:
        return PrimitiveType.of(text)
    except XlashapeError:
        return None


def _element_type(value: Any) -> PrimitiveType | None:
    """The element type that `value` is or, if it is a NumPy type, corresponds to. None for other values, also for
    Python's number types. InvalidArgumentError for a NumPy type to which no element type corresponds.
    """
    if isinstance(value, PrimitiveType):
        return value
    if isinstance(value, str) or value is None or (hasattr(value, "__index__") and not isinstance(value, type)):
        return None
    try:
        return PrimitiveType.of(value, "dtype")
    except InvalidArgumentError as error:
        if error.message.startswith("no element type corresponds"):
            raise
        return None


def _element_of_extended_type(dtype: Any) -> Any:
    """The numbers that hold one element of an extended type of JAX, such as a random key, as an abstract value with
    dtype and shape. None for other types.
    """
    rules = getattr(dtype, "_rules", None)
    physical = getattr(rules, "physical_element_aval", None)
    return physical(dtype) if callable(physical) else None


def _layout_of(owner: Any) -> Any:
    """The layout of a JAX array or ShapeDtypeStruct: an object with `major_to_minor`. None if `owner` has no layout, or
    leaves it to XLA.
    """
    for name in ("format", "layout"):
        layout = _unwrapped(getattr(owner, name, None))
        if hasattr(layout, "major_to_minor"):
            return layout
    return None


def _unwrapped(value: Any) -> Any:
    """The layout in a Format of JAX, which holds a layout and a sharding; any other value as it is. Before JAX 0.7 a
    Format was called Layout and held a device_local_layout."""
    for part in ("device_local_layout", "layout"):
        value = getattr(value, part, value)
    return value


def _order_of(owner: Any) -> Sequence[int] | None:
    """The dimensions of an array of NumPy from minor to major, as its memory has them. None for the default order, for
    memory with gaps, and for other objects."""
    flags, strides = getattr(owner, "flags", None), getattr(owner, "strides", None)
    if strides is None or getattr(flags, "c_contiguous", True):
        return None
    minor_to_major = range(len(strides))
    if not getattr(flags, "f_contiguous", False):
        minor_to_major = sorted(minor_to_major, key=lambda dimension: (strides[dimension], -dimension))
    return minor_to_major if owner.transpose(minor_to_major[::-1]).flags.c_contiguous else None


def layout_of(value: Any, layout_class: Any) -> Any:
    """The layout in a value, for `Layout.of`; `layout_class` is Layout."""
    given = _unwrapped(value)
    if isinstance(value, layout_class):
        return value
    if isinstance(value, (bytes, bytearray)) or hasattr(value, "DESCRIPTOR"):
        return layout_class.from_proto(value)
    if hasattr(given, "major_to_minor"):
        return _of_jax(given, layout_class)
    if isinstance(given, str) or hasattr(given, "_xla_layout") or callable(getattr(given, "minor_to_major", None)):
        return layout_class.parse(str(given))
    taken = "a Format or a Layout of JAX, a layout of jaxlib, a message or text"
    raise InvalidArgumentError(f"{_named(value)} has no layout: pass {taken}", field="value")


def _of_jax(layout: Any, make: Callable[..., _Layout]) -> _Layout:
    """A layout of JAX: major_to_minor, tiling, sub_byte_element_size_in_bits. JAX 0.4 had the last two under private
    names.
    """
    tiling = getattr(layout, "tiling", None) or getattr(layout, "_tiling", None) or ()
    bits = getattr(layout, "sub_byte_element_size_in_bits", None) or getattr(
        layout, "_sub_byte_element_size_in_bits", 0
    )
    return make(tuple(layout.major_to_minor)[::-1], tiling, element_size_in_bits=bits)


def _sizes(dimensions: Iterable[Any]) -> tuple[Any, ...]:
    """The sizes of dimensions. Integers are checked by the shape."""
    if not is_a(dimensions, Iterable):
        raise InvalidArgumentError(
            f"dimensions takes sizes such as ({dimensions},), not {dimensions}", field="dimensions"
        )
    sizes = tuple(dimensions)
    for number, size in enumerate(sizes):
        try:
            index(size)
        except Exception:  # a symbolic size of JAX raises an exception of JAX
            what = "None" if size is None else str(size)
            raise InvalidArgumentError(
                f"dimension {number} has the size {what:.60}, which is not an integer", field=("dimensions", number)
            ) from None
    return sizes


def _keys(tree: Mapping[Any, Any], path: FieldPath) -> list[Any]:
    """The keys in the order in which JAX takes them: sorted, except in an OrderedDict."""
    keys = list(tree)
    if type(tree).__name__ == "OrderedDict":
        return keys
    try:
        return sorted(keys)
    except TypeError:
        raise InvalidArgumentError("the keys of a dict have no order", field=path or "value") from None


def _named(value: object) -> str:
    return f"the class {value.__name__}" if isinstance(value, type) else f"a value of type {type(value).__name__}"
