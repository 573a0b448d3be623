"""Shapes: arrays, tuples, buffers, tokens and opaques. XLA's `Shape`, as a frozen value."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, TypeAlias

from xlashape import limits
from xlashape.caches import BoundedCache
from xlashape.errors import InvalidShapeError, LimitExceededError, SizeOverflowError
from xlashape.limits import INT64_MAX, INT64_MIN
from xlashape.shape.value.base import Value, bytes_of, entries_of, int64s
from xlashape.shape.value.layout import Layout
from xlashape.shape.value.primitive_type import PrimitiveType

if TYPE_CHECKING:
    from google.protobuf.message import Message

    from xlashape.proto import xla

__all__ = ["UNBOUNDED_SIZE", "Shape"]

UNBOUNDED_SIZE = INT64_MIN
"""The size of an unbounded dynamic dimension, printed `?`."""

_TUPLE, _TOKEN, _BUFFER = PrimitiveType.TUPLE, PrimitiveType.TOKEN, PrimitiveType.BUFFER
# Shape.tuple hides the built-in inside the class body
_Ints: TypeAlias = tuple[int, ...]
_Bools: TypeAlias = tuple[bool, ...]
_Shapes: TypeAlias = "tuple[Shape, ...]"

parsed: BoundedCache[str, Shape] = BoundedCache(
    "xlashape.shape: shapes by text", 8 << 20, lambda key, _: len(key) + 600
)
"""Text → shape, for `Shape.parse` and the parsers above it."""


class Shape(Value):
    """A shape. Arrays have an element type, dimensions and usually a layout; tuples and buffers have `tuple_shapes`.

    >>> shape = Shape.parse("f32[3,<=5]{1,0:T(2,2)}")
    >>> shape.element_type.text, shape.dimensions, shape.dynamic_dimensions, shape.layout.tiles
    ('f32', (3, 5), (False, True), (Tile('(2,2)'),))

    - `element_type`: of an array; or TUPLE, BUFFER, TOKEN, OPAQUE_TYPE.
    - `dimensions`: sizes, 0 or more each; UNBOUNDED_SIZE for an unbounded dynamic dimension.
    - `dynamic_dimensions`: a bool per dimension; a dynamic size is an upper bound. None: only unbounded ones are dynamic.
    - `layout`: of an array, or None. `Shape.array` and `Shape.parse` fill in the default one; this constructor and
      `from_proto` leave it as it is.
    - `tuple_shapes`: a tuple's elements; of a buffer, the one array it holds.
    - `unknown_fields`: protobuf fields this version does not know, as bytes. They travel along and count for equality.

    InvalidShapeError for a shape that cannot be (its `field` says where), SizeOverflowError when the sizes multiply to more
    than int64 holds, LimitExceededError for tuples nested deeper than `limits.MAX_SHAPE_DEPTH`.
    """

    __slots__ = (
        "_depth",
        "_text",
        "dimensions",
        "dynamic_dimensions",
        "element_type",
        "layout",
        "tuple_shapes",
        "unknown_fields",
    )
    __match_args__ = ("element_type", "dimensions", "layout")
    _fields = ("element_type", "dimensions", "dynamic_dimensions", "layout", "tuple_shapes", "unknown_fields")
    element_type: PrimitiveType
    dimensions: _Ints
    dynamic_dimensions: _Bools
    layout: Layout | None
    tuple_shapes: _Shapes
    unknown_fields: bytes
    _text: str
    _depth: int

    def __init__(
        self,
        element_type: PrimitiveType | str | int,
        dimensions: Iterable[int] = (),
        dynamic_dimensions: Iterable[bool] | None = None,
        layout: Layout | None = None,
        tuple_shapes: Iterable[Shape] = (),
        unknown_fields: bytes = b"",
    ) -> None:
        put = object.__setattr__
        kind = PrimitiveType.of(element_type)
        sizes = int64s(dimensions, "dimensions")
        inner = entries_of(tuple_shapes, Shape, "tuple_shapes")
        depth = 0
        if kind.is_array_type:
            dynamic = _check_array(sizes, dynamic_dimensions)
            if inner:
                raise InvalidShapeError(f"an array of {kind.text} has no tuple_shapes", field="tuple_shapes")
            if layout is not None:
                check_layout_fits(sizes, layout)
        else:
            dynamic = ()
            if kind is PrimitiveType.PRIMITIVE_TYPE_INVALID:
                raise InvalidShapeError("a shape has an element type", field="element_type")
            if sizes or (dynamic_dimensions is not None and _flags(dynamic_dimensions)):
                raise InvalidShapeError(f"{a_kind(kind)} has no dimensions", field="dimensions")
            if layout is not None:
                raise InvalidShapeError(f"{a_kind(kind)} has no layout", field="layout")
            if kind is _BUFFER and not (len(inner) == 1 and inner[0].is_array):
                raise InvalidShapeError("a buffer holds one array", field="tuple_shapes")
            if inner and kind is not _TUPLE and kind is not _BUFFER:
                raise InvalidShapeError(f"{a_kind(kind)} has no tuple_shapes", field="tuple_shapes")
            if kind is _TUPLE or kind is _BUFFER:
                depth = 1 + max([shape._depth for shape in inner], default=0)
                if depth > limits.MAX_SHAPE_DEPTH:
                    raise LimitExceededError(
                        f"tuples are nested more than {limits.MAX_SHAPE_DEPTH} deep",
                        limit="shape_depth",
                        maximum=limits.MAX_SHAPE_DEPTH,
                        value=depth,
                        field="tuple_shapes",
                    )
        put(self, "element_type", kind)
        put(self, "dimensions", sizes)
        put(self, "dynamic_dimensions", dynamic)
        put(self, "layout", layout)
        put(self, "tuple_shapes", inner)
        put(self, "unknown_fields", bytes_of(unknown_fields, "unknown_fields"))
        put(self, "_depth", depth)

    # -- making shapes ----------------------------------------------------------------------

    @classmethod
    def parse(cls, text: str) -> Shape:
        """The shape XLA writes `text`; the same text gives the same object while it is remembered.

        An array without a layout gets the default one, as in XLA. ParseError with line and column for a mistake; the
        grammar stands in `xlashape.shape.text.shape_text`.

        >>> Shape.parse("(f32[2,3], s32[])")
        Shape('(f32[2,3]{1,0}, s32[])')
        """
        found = parsed.get(text) if text.__class__ is str else None
        if found is None:
            from xlashape.shape.text.shape_text import parse_shape_text  # text.py stands above this file

            found = parse_shape_text(text)
        return found

    @classmethod
    def from_proto(cls, value: bytes | Message) -> Shape:
        """The shape of an `xla.ShapeProto`: its bytes, or a message of any protobuf pool.

        DecodeError for bytes that are no ShapeProto or nested beyond protobuf's limit; InvalidShapeError, with the path of
        the field, for a shape that cannot be.
        """
        from xlashape.shape.value.serde import shape_from_proto  # protobuf loads on first use

        return shape_from_proto(value)

    def to_proto(self) -> xla.ShapeProto:
        """A new `xla.ShapeProto`, unknown fields included."""
        from xlashape.shape.value.serde import shape_to_proto

        return shape_to_proto(self)

    @classmethod
    def array(
        cls,
        element_type: PrimitiveType | str | int,
        dimensions: Iterable[int] = (),
        layout: Layout | None = None,
        dynamic_dimensions: Iterable[bool] | None = None,
    ) -> Shape:
        """An array; without a layout it gets the default one, major to minor.

        >>> Shape.array("bf16", (2, 3)), Shape.array("f32", (2, 3), Layout((0, 1)))
        (Shape('bf16[2,3]{1,0}'), Shape('f32[2,3]{0,1}'))
        """
        kind = PrimitiveType.of(element_type)
        if not kind.is_array_type:
            raise InvalidShapeError(f"{kind.text} is no array's element type", field="element_type")
        sizes = int64s(dimensions, "dimensions")
        return cls(kind, sizes, dynamic_dimensions, Layout.default(len(sizes)) if layout is None else layout)

    @classmethod
    def tuple(cls, shapes: Iterable[Shape] = ()) -> Shape:
        """A tuple of shapes."""
        return cls(_TUPLE, tuple_shapes=shapes)

    @classmethod
    def token(cls) -> Shape:
        """The token: it orders effects and has no value."""
        return cls(_TOKEN)

    @classmethod
    def opaque(cls) -> Shape:
        """An opaque value of a device."""
        return cls(PrimitiveType.OPAQUE_TYPE)

    @classmethod
    def buffer(cls, array: Shape) -> Shape:
        """A buffer that holds an array: `b(f32[2]{0})`."""
        return cls(_BUFFER, tuple_shapes=(array,))

    # -- what it is -------------------------------------------------------------------------

    @property
    def is_array(self) -> bool:
        """Whether it is an array; a scalar is one."""
        return self.element_type.bit_width != 0

    @property
    def is_tuple(self) -> bool:
        """Whether it is a tuple."""
        return self.element_type is _TUPLE

    @property
    def is_token(self) -> bool:
        """Whether it is the token."""
        return self.element_type is _TOKEN

    @property
    def is_opaque(self) -> bool:
        """Whether it is an opaque."""
        return self.element_type is PrimitiveType.OPAQUE_TYPE

    @property
    def is_buffer(self) -> bool:
        """Whether it is a buffer."""
        return self.element_type is _BUFFER

    @property
    def is_scalar(self) -> bool:
        """Whether it is an array of no dimensions."""
        return not self.dimensions and self.is_array

    @property
    def is_static(self) -> bool:
        """Whether no dimension is dynamic, in any element."""
        return not any(self.dynamic_dimensions) and all(shape.is_static for shape in self.tuple_shapes)

    @property
    def is_unbounded_dynamic(self) -> bool:
        """Whether some dimension, in any element, is dynamic without a bound."""
        return UNBOUNDED_SIZE in self.dimensions or any(shape.is_unbounded_dynamic for shape in self.tuple_shapes)

    @property
    def rank(self) -> int:
        """The number of dimensions; 0 for what is no array."""
        return len(self.dimensions)

    @property
    def buffer_shape(self) -> Shape:
        """The array that a buffer holds. InvalidShapeError if it is no buffer."""
        if not self.is_buffer:
            raise InvalidShapeError(f"{self} is no buffer")
        return self.tuple_shapes[0]

    def leaves(self) -> Iterator[Shape]:
        """What is no tuple, depth first; a buffer is a leaf.

        >>> [str(leaf) for leaf in Shape.parse("(f32[], (token[], ()))").leaves()]
        ['f32[]', 'token[]']
        """
        if not self.is_tuple:
            yield self
        else:
            for shape in self.tuple_shapes:
                yield from shape.leaves()

    # -- the same with a change -------------------------------------------------------------

    def with_layout(self, layout: Layout | None) -> Shape:
        """The array with another layout, or without one."""
        return self.replace(layout=layout)

    def with_element_type(self, element_type: PrimitiveType | str | int) -> Shape:
        """The array with another element type."""
        return self.replace(element_type=element_type)

    def without_layout(self) -> Shape:
        """The shape without layouts, those of its elements too."""
        return self._with_leaves(lambda leaf: leaf.replace(layout=None))

    def with_default_layout(self) -> Shape:
        """The shape with the default layout in every array."""
        return self._with_leaves(lambda leaf: leaf.replace(layout=Layout.default(leaf.rank)))

    def _with_leaves(self, change: Callable[[Shape], Shape]) -> Shape:
        if self.is_array:
            return change(self)
        return self.replace(tuple_shapes=[shape._with_leaves(change) for shape in self.tuple_shapes])

    def __str__(self) -> str:
        try:
            return self._text
        except AttributeError:
            from xlashape.shape.text.shape_text import shape_text

            text = shape_text(self)
            object.__setattr__(self, "_text", text)
            return text

    def __repr__(self) -> str:
        text = str(self)
        return f"Shape('{text if len(text) <= 400 else text[:397] + '...'}')"


def unchecked_array(
    element_type: PrimitiveType,
    dimensions: tuple[int, ...],
    dynamic: tuple[bool, ...],
    layout: Layout,
    text: str | None,
) -> Shape:
    """An array whose parts are known to fit, as the text parser knows them to; `text` is what it prints, if known."""
    shape = object.__new__(Shape)
    put = object.__setattr__
    put(shape, "element_type", element_type)
    put(shape, "dimensions", dimensions)
    put(shape, "dynamic_dimensions", dynamic)
    put(shape, "layout", layout)
    put(shape, "tuple_shapes", ())
    put(shape, "unknown_fields", b"")
    put(shape, "_depth", 0)
    if text is not None:
        put(shape, "_text", text)
    return shape


def a_kind(kind: PrimitiveType) -> str:
    """The type with its article, for messages."""
    return f"{'an' if kind.text[0] in 'aeio' else 'a'} {kind.text}"


def _flags(dynamic_dimensions: Iterable[bool]) -> tuple[bool, ...]:
    try:
        return tuple([bool(flag) for flag in dynamic_dimensions])
    except (TypeError, ValueError):
        kind = type(dynamic_dimensions).__name__
        raise InvalidShapeError(
            f"dynamic_dimensions takes a sequence of truth values, not {kind}", field="dynamic_dimensions"
        ) from None


def _check_array(sizes: tuple[int, ...], dynamic_dimensions: Iterable[bool] | None) -> tuple[bool, ...]:
    """The flags, filled in; InvalidShapeError or SizeOverflowError for sizes or flags that cannot be."""
    for i, size in enumerate(sizes):
        if size < 0 and size != UNBOUNDED_SIZE:
            raise InvalidShapeError(f"a dimension's size is 0 or more, not {size}", field=f"dimensions[{i}]")
    check_product(sizes)
    if dynamic_dimensions is None:
        return tuple([size == UNBOUNDED_SIZE for size in sizes])
    dynamic = _flags(dynamic_dimensions)
    if len(dynamic) != len(sizes):
        raise InvalidShapeError(f"{len(dynamic)} dynamic flags for {len(sizes)} dimensions", field="dynamic_dimensions")
    for i, size in enumerate(sizes):
        if size == UNBOUNDED_SIZE and not dynamic[i]:
            raise InvalidShapeError("an unbounded dimension is dynamic", field=f"dynamic_dimensions[{i}]")
    return dynamic


def check_product(sizes: tuple[int, ...]) -> None:
    """SizeOverflowError if the sizes, unbounded ones left aside, multiply to more than int64 holds."""
    total, zero = 1, False
    for size in sizes:
        if size == 0:
            zero = True
        elif size != UNBOUNDED_SIZE and total <= INT64_MAX:
            total *= size
    if total > INT64_MAX and not zero:
        raise SizeOverflowError("the sizes multiply to more elements than int64 can count", field="dimensions")


def check_layout_fits(sizes: tuple[int, ...], layout: Layout) -> None:
    """InvalidShapeError if a layout cannot be that of an array of these sizes."""
    # The check is for callers without types.
    if not isinstance(layout, Layout):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InvalidShapeError(f"expected a Layout, found {type(layout).__name__}", field="layout")
    if len(layout.minor_to_major) != len(sizes):
        raise InvalidShapeError(
            f"the layout is of {len(layout.minor_to_major)} dimensions, the array has {len(sizes)}",
            field="layout.minor_to_major",
        )
