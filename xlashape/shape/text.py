"""Reads shapes and layouts from text, and writes them as text. Matches XLA's `ParseShape` and
`ShapeUtil::HumanStringWithLayout`.

    shape    := array | '(' shapes? ')' | 'b' '(' array ')'
    shapes   := shape (',' shape)*
    array    := type '[' (dim (',' dim)*)? ']' layout?              f32[<=8,?]{1,0}    token[]    opaque[]
    dim      := INT | '<=' INT | '?'                                static | bounded dynamic | unbounded dynamic
    type     := a spelling of PrimitiveType, or 'unknown_' INT      a number of a newer schema
    layout   := '{' (INT (',' INT)*)? (':' part*)? '}'              {1,0:T(8,128)(2,1)S(1)}
    part     := in this order, each at most once:
        'D' '(' level (',' level)* ')'        dimension level types of sparse arrays; read and dropped
        'T' ('(' size (',' size)* ')')+       tiles; a size is INT, '*' or 'd'
        'L' '(' INT ')'                       tail_padding_alignment_in_elements
        '#' '(' type ')'                      index_primitive_type, an integer type
        '*' '(' type ')'                      pointer_primitive_type, an integer type
        'E' '(' INT ')'                       element_size_in_bits
        'S' '(' INT ')'                       memory_space
        'SC' ('(' INT ':' INT (',' INT)* ')')+    split_configs
        'P' '(' shape ')'                     physical_shape; sparse arrays only, so an error here
        'M' '(' INT ')'                       dynamic_shape_metadata_prefix_bytes

Spaces and comments are allowed between tokens. A '{' begins a layout only before a number, a ':' or a '}': in HLO text
a computation's body may follow a shape. An array without a layout gets the default one, a scalar the layout `{}`.
If a shape of an unknown type has inner shapes in its proto, they follow it in parentheses: `unknown_37[](f32[2]{0})`.

Printing puts `/*index=5*/` before every fifth element of a tuple, and leaves out the parts of a layout that have their
default value. `ShapeParser` is given the classes `Shape` and `Layout` as arguments, so this file does not import them.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from math import prod
from typing import Any, Generic, NoReturn, TypeVar

from xlashape import limits
from xlashape.base.caches import BoundedCache
from xlashape.base.text import Cursor
from xlashape.errors import FieldPath, InvalidArgumentError, ParseError
from xlashape.limits import INT64_MAX
from xlashape.shape.parts.checks import with_article
from xlashape.shape.parts.fields import LayoutFields, ShapeFields
from xlashape.shape.parts.primitive_type import PrimitiveType, type_spelled, unknown_type_message
from xlashape.shape.parts.tile import COMBINE, UNBOUNDED_SIZE, WHOLE_DIMENSION, SplitConfig, Tile

_Shape = TypeVar("_Shape", bound=ShapeFields)
_Layout = TypeVar("_Layout", bound=LayoutFields)

# An array of a known type without spaces, comments or leading zeros in its sizes, which are below 10^18. It matches
# without a layout only if no layout follows after spaces or comments.
_PLAIN = re.compile(
    r"([a-z][a-z0-9]*)\[((?:<=)?(?:0|[1-9][0-9]{0,17})(?:,(?:<=)?(?:0|[1-9][0-9]{0,17})){0,999}|)\]"
    r"(?:(\{[0-9,]*(?::[^{}\s/]*)?\})|(?![ \t\r\n]*[{/]))"
)
_LAYOUT_BEGINS = re.compile(r"-?[0-9]|[:}]")
_TUPLE, _BUFFER = PrimitiveType.TUPLE, PrimitiveType.BUFFER
_NO_WORDS = (PrimitiveType.PRIMITIVE_TYPE_INVALID, _TUPLE, _BUFFER)
"""Types that have a spelling, but are not written before '['."""
_TYPES = {kind.text: kind for kind in PrimitiveType if kind not in _NO_WORDS}
_STATIC = {rank: (False,) * rank for rank in range(16)}
_PART = re.compile(r"[A-Z]+|#|\*")
_LEVEL = re.compile(r"[DCSH]\+?~?")
_TYPE = re.compile(r"unknown_-?[0-9]+|[A-Za-z_][A-Za-z0-9_]*")
_INVALID = PrimitiveType.PRIMITIVE_TYPE_INVALID
_LEVELS = "D"
_FIELDS: dict[str, tuple[str, object]] = {
    "T": ("tiles", ()),
    "L": ("tail_padding_alignment_in_elements", 1),
    "#": ("index_primitive_type", _INVALID),
    "*": ("pointer_primitive_type", _INVALID),
    "E": ("element_size_in_bits", 0),
    "S": ("memory_space", 0),
    "SC": ("split_configs", ()),
    "P": ("physical_shape", None),
    "M": ("dynamic_shape_metadata_prefix_bytes", 0),
}
"""The letters of a part of a layout → the field that it has, and the value that is not written. In the order of text,
where `_LEVELS` comes first.
"""
_PARTS = (_LEVELS, *_FIELDS)
_TILE_LETTERS = (("*", COMBINE), ("d", WHOLE_DIMENSION))


def parsed_bytes(text: str) -> int:
    """The bytes of a text and of the shape or layout that was parsed from it, with the text it prints.

    A number takes up to 60 bytes in the tuples that hold it; a shape, layout, tile or split takes 250. The punctuation
    shows how many of each there are.
    """
    parts = text.count("[") + text.count("(") + 2 * text.count("_")  # only the names of unknown types have a '_'
    return 350 + 2 * len(text) + 60 * text.count(",") + 250 * parts


# -- reading shapes ----------------------------------------------------------------------------


class ShapeParser(Generic[_Shape, _Layout]):
    """Parses shapes and layouts, and caches them by their text.

    Its arguments are `xlashape.shape.Shape`, a function that makes arrays of parts that are known to fit (with the text
    that they print, where it is known), `xlashape.shape.Layout`, and a function from a rank to the default layout.
    """

    def __init__(
        self,
        make_shape: Callable[..., _Shape],
        make_known_array: Callable[[PrimitiveType, tuple[int, ...], tuple[bool, ...], _Layout, str | None], _Shape],
        make_layout: Callable[..., _Layout],
        default_layout: Callable[[int], _Layout],
    ) -> None:
        self._make_shape = make_shape
        self._make_known_array = make_known_array
        self._make_layout = make_layout
        self._default_layout = default_layout
        self.shapes: BoundedCache[str, _Shape] = BoundedCache(
            "xlashape.shape: shapes by text", 8 << 20, lambda text, _: parsed_bytes(text)
        )
        self.layouts: BoundedCache[str, _Layout] = BoundedCache(
            "xlashape.shape: layouts by text", 4 << 20, lambda text, _: parsed_bytes(text)
        )

    def shape_of(self, text: str) -> _Shape:
        """The shape written `text`, for `Shape.parse`. ParseError if the text is not exactly one shape."""
        shape = self.shapes.get(text) if text.__class__ is str else None
        if shape is None:
            match = _PLAIN.fullmatch(text) if text.__class__ is str else None
            shape = self._plain(match) if match is not None else None
            if shape is None:
                cursor = Cursor(text)
                shape = self.parse_shape(cursor)
                _refuse_brace(cursor, shape)
                cursor.expect_end()
            self.shapes.put(text, shape)
        return shape

    def layout_of(self, text: str) -> _Layout:
        """The layout written `text`, braces included. ParseError if the text is not exactly one layout."""
        layout = self.layouts.get(text) if text.__class__ is str else None
        if layout is None:
            cursor = Cursor(text)
            layout = self.parse_layout(cursor)
            cursor.expect_end()
            self.layouts.put(text, layout)
        return layout

    def parse_shape(self, cursor: Cursor) -> _Shape:
        """The shape that comes next. ParseError otherwise."""
        cursor.skip_space()
        return self._shape(cursor, 0)

    def parse_layout(self, cursor: Cursor) -> _Layout:
        """The layout that comes next, from its '{' to its '}'. ParseError otherwise."""
        cursor.expect("{")
        start = cursor.at - 1
        positions: dict[FieldPath, int] = {}
        order: list[int] = []
        has_parts = False
        if not cursor.accept("}"):
            has_parts = cursor.accept(":")
            if not has_parts:
                while True:
                    cursor.skip_space()
                    positions["minor_to_major", len(order)] = cursor.at
                    order.append(cursor.parse_int("a dimension number"))
                    if cursor.accept(","):
                        continue
                    has_parts = cursor.accept(":")
                    if not has_parts and not cursor.accept("}"):
                        cursor.fail("',', ':' or '}' of the layout")
                    break
        parts = _Parts(cursor, positions)
        if has_parts:
            parts.read()
        try:
            return self._make_layout(order, **parts.fields)
        except InvalidArgumentError as error:
            _raise_located(cursor, error, positions, start)

    def _shape(self, cursor: Cursor, depth: int) -> _Shape:
        # The cursor is at the first character of the shape.
        match = _PLAIN.match(cursor.text, cursor.at)
        if match is not None:
            text = match.group()
            shape = self.shapes.get(text)
            if shape is None:
                shape = self._plain(match)
                if shape is not None:
                    self.shapes.put(text, shape)
            if shape is not None:
                cursor.at = match.end()
                return shape
        if cursor.text.startswith("(", cursor.at):
            start = cursor.at
            return self._make(cursor, start, _TUPLE, tuple_shapes=self._inner(cursor, depth))
        return self._array(cursor, depth, buffers=True)

    def _plain(self, match: re.Match[str]) -> _Shape | None:
        """The array of a match of _PLAIN, or None if it cannot be a shape. The caller then parses the text again with a
        cursor, which raises the error.

        With the cursor alone a first `Shape.parse("f32[128,256]{1,0}")` takes 19 µs instead of 3.4 µs.
        """
        name, sizes, braces = match.groups()
        kind = _TYPES.get(name)
        if kind is None:
            return None
        if not kind.is_array_type:
            return None if sizes or braces else self._make_shape(kind)
        if "<" in sizes:
            dynamic = tuple([size[0] == "<" for size in sizes.split(",")])
            dimensions = tuple(map(int, sizes.replace("<=", "").split(",")))
        else:
            dimensions = tuple(map(int, sizes.split(","))) if sizes else ()
            dynamic = _STATIC.get(len(dimensions)) or (False,) * len(dimensions)
        if prod(dimensions) > INT64_MAX:
            return None
        if braces is None:
            layout = self._default_layout(len(dimensions))
            text = match.group() + str(layout) if dimensions else match.group()
        else:
            layout = self.layouts.get(braces)
            if layout is None:
                try:
                    layout = self.layout_of(braces)
                except ParseError:
                    return None
            if len(layout.minor_to_major) != len(dimensions):
                return None
            text = match.group() if str(layout) == braces != "{}" else None
        return self._make_known_array(kind, dimensions, dynamic, layout, text)

    def _inner(self, cursor: Cursor, depth: int) -> list[_Shape]:
        """The shapes between the '(' that comes next and its ')'."""
        if depth >= limits.MAX_SHAPE_DEPTH:
            raise cursor.error(f"tuples are nested more than {limits.MAX_SHAPE_DEPTH} deep")
        cursor.at += 1
        shapes: list[_Shape] = []
        for _ in cursor.items(")", "the tuple"):
            shapes.append(self._shape(cursor, depth + 1))
            if not cursor.text.startswith((",", ")"), cursor.at):
                _refuse_brace(cursor, shapes[-1])
        return shapes

    def _array(self, cursor: Cursor, depth: int, *, buffers: bool) -> _Shape:
        start = cursor.at
        word, kind = _parse_type(cursor)
        if not word:
            cursor.fail("a shape" if buffers else "an array")
        if word == "b" and buffers and cursor.accept("("):
            cursor.skip_space()
            at = cursor.at
            shape = self._array(cursor, depth, buffers=False)
            cursor.expect(")")
            return self._make(cursor, at, _BUFFER, tuple_shapes=(shape,))
        if kind is None or kind in _NO_WORDS:
            cursor.at = start
            raise cursor.error(unknown_type_message(word[:60]), expected="an element type", found=repr(word[:60]))
        cursor.expect("[")
        positions: dict[FieldPath, int] = {("dimensions",): cursor.at - 1}
        sizes: list[int] = []
        dynamic: list[bool] = []
        for at in cursor.items("]", "the dimensions"):
            if len(sizes) == limits.MAX_RANK:
                raise cursor.error(f"an array has more than {limits.MAX_RANK} dimensions")
            positions["dimensions", len(sizes)] = at
            if cursor.accept("?"):
                sizes.append(UNBOUNDED_SIZE)
                dynamic.append(True)
            else:
                dynamic.append(cursor.accept("<="))
                sizes.append(_parse_size(cursor))
        layout = None
        if kind.is_array_type and _layout_follows(cursor):
            positions["layout",] = cursor.at
            layout = self.parse_layout(cursor)
        inner = ()
        if not kind.is_known and cursor.text.startswith("(", cursor.at):
            inner = self._inner(cursor, depth)
        elif kind.is_array_type and layout is None:
            layout = self._default_layout(len(sizes))
        return self._make(cursor, start, kind, sizes, dynamic, layout, inner, positions=positions)

    def _make(
        self, cursor: Cursor, start: int, *parts: object, positions: dict[FieldPath, int] | None = None, **named: object
    ) -> _Shape:
        """Makes a shape. Raises the constructor's error at the position of the field that it names, or at `start`."""
        try:
            return self._make_shape(*parts, **named)
        except InvalidArgumentError as error:
            _raise_located(cursor, error, positions or {}, start)


def _layout_follows(cursor: Cursor) -> bool:
    start = cursor.at
    if not cursor.accept("{"):
        cursor.at = start
        return False
    cursor.skip_space()
    follows = _LAYOUT_BEGINS.match(cursor.text, cursor.at) is not None
    cursor.at = start
    if follows:
        cursor.skip_space()
    return follows


def _refuse_brace(cursor: Cursor, shape: ShapeFields) -> None:
    """ParseError if a '{' comes next. No computation's body can follow `shape` here, so it was meant for a layout."""
    if not cursor.looking_at("{"):
        return
    if not shape.is_array:
        raise cursor.error(f"{with_article(shape.element_type.text)} has no layout")
    if cursor.text[: cursor.at].rstrip().endswith("]") and cursor.accept("{"):
        cursor.fail("a dimension number, ':' or '}' of the layout")


def _parse_size(cursor: Cursor) -> int:
    """The size of a dimension, 0 or more."""
    name = "a dimension's size"
    cursor.skip_space()
    start = cursor.at
    value = cursor.parse_int(name)
    if value < 0:
        raise cursor.error(f"{name} is not negative: {value}", at=start, expected=name, found=repr(str(value)))
    return value


# -- reading layouts ---------------------------------------------------------------------------


class _Parts:
    """The parts of a layout after its ':'. `read` also writes into `positions` where in the text each field is."""

    def __init__(self, cursor: Cursor, positions: dict[FieldPath, int]) -> None:
        self.cursor = cursor
        self.positions = positions
        self.fields: dict[str, Any] = {}
        """The fields of the layout that the text has, by name."""

    def read(self) -> None:
        cursor = self.cursor
        left = _PARTS
        while not cursor.accept("}"):
            match = _PART.match(cursor.text, cursor.at)
            letters = "" if match is None else match.group()
            if letters not in left:
                expected = "'}' of the layout" + (f" or one of {' '.join(left)}" if left else "")
                if letters in _PARTS:
                    order = " ".join(_PARTS)
                    raise cursor.error(
                        f"'{letters}' cannot stand here: the parts of a layout come once each, in the order {order}",
                        expected=expected,
                        found=repr(letters),
                    )
                cursor.fail(expected)
            left = left[left.index(letters) + 1 :]
            start = cursor.at
            cursor.at += len(letters)
            self._read_part(letters, start)

    def _read_part(self, letters: str, start: int) -> None:
        cursor = self.cursor
        cursor.expect("(")
        if letters in ("T", "SC"):
            read = self._read_tile if letters == "T" else self._read_split
            found = self.fields[_FIELDS[letters][0]] = list[Any]()
            found.append(read())
            while cursor.accept("("):
                found.append(read())
            return
        if letters == _LEVELS:
            self._drop_levels()
        elif letters == "P":
            raise cursor.error("a physical shape belongs to a sparse array, and this one is dense", at=start)
        else:
            field, _ = _FIELDS[letters]
            cursor.skip_space()
            self.positions[field,] = start if letters in "#*" else cursor.at
            self.fields[field] = _parse_integer_type(cursor) if letters in "#*" else cursor.parse_int(field)
        if not cursor.accept(")"):
            cursor.fail(f"')' of {letters}")

    def _read_tile(self) -> Tile:
        cursor = self.cursor
        sizes: list[int] = []
        positions: dict[FieldPath, int] = {}
        start = cursor.at - 1
        for at in cursor.items(")", "the tile"):
            positions["dimensions", len(sizes)] = at
            letter = next((size for letter, size in _TILE_LETTERS if cursor.accept(letter)), None)
            sizes.append(cursor.parse_int("a tile size, '*' or 'd'") if letter is None else letter)
        try:
            return Tile(sizes)
        except InvalidArgumentError as error:
            _raise_located(cursor, error, positions, start)

    def _read_split(self) -> SplitConfig:
        cursor = self.cursor
        positions: dict[FieldPath, int] = {}
        cursor.skip_space()
        start = cursor.at
        self.positions["split_configs", len(self.fields["split_configs"]), "dimension"] = start
        dimension = cursor.parse_int("a dimension number")
        cursor.expect(":")
        indices: list[int] = []
        for at in cursor.items(")", "the split"):
            positions["split_indices", len(indices)] = at
            indices.append(cursor.parse_int("a split index"))
        try:
            return SplitConfig(dimension, indices)
        except InvalidArgumentError as error:
            _raise_located(cursor, error, positions, start)

    def _drop_levels(self) -> None:
        cursor = self.cursor
        while not cursor.looking_at(")"):
            match = _LEVEL.match(cursor.text, cursor.at)
            if match is None:
                cursor.fail("a dimension level type: D, C, S or H")
            cursor.at = match.end()
            if not cursor.accept(","):
                return


def _parse_type(cursor: Cursor) -> tuple[str, PrimitiveType | None]:
    """The word that comes next ("" if none does), and the element type that it names, if it names one."""
    cursor.skip_space()
    match = _TYPE.match(cursor.text, cursor.at)
    if match is None:
        return "", None
    cursor.at = match.end()
    word = match.group()
    return word, type_spelled(word)


def _parse_integer_type(cursor: Cursor) -> PrimitiveType:
    cursor.skip_space()
    start = cursor.at
    word, kind = _parse_type(cursor)
    if not word:
        cursor.fail("an integer type")
    if kind is None or (kind.is_known and not kind.is_integral):
        raise cursor.error(
            f"'{word[:60]}' is not an integer type", at=start, expected="an integer type", found=repr(word[:60])
        )
    return kind


def _raise_located(
    cursor: Cursor, error: InvalidArgumentError, positions: dict[FieldPath, int], start: int
) -> NoReturn:
    """Raises `error` of a constructor again, at the position of the field that it names, or at `start`."""
    path = error.path
    while path and path not in positions:
        path = path[:-1]
    raise cursor.error(error.message, at=positions.get(path, start)) from None


# -- printing ----------------------------------------------------------------------------------


def shape_text(shape: ShapeFields, *, layout: bool = True) -> str:
    """XLA's text of a shape; `layout=False` leaves layouts out.

    >>> from xlashape.shape import Shape
    >>> shape_text(Shape.parse("(f32[2,3], s4[8]{0:E(4)})")), shape_text(Shape.parse("f32[2,3]"), layout=False)
    ('(f32[2,3]{1,0}, s4[8]{0:E(4)})', 'f32[2,3]')
    """
    kind = shape.element_type
    if kind is _BUFFER:
        return f"b({shape_text(shape.tuple_shapes[0], layout=layout)})"
    if kind is _TUPLE:
        return _tuple_text(shape, layout=layout)
    if any(shape.dynamic_dimensions):
        sizes = ",".join(
            [
                "?" if size == UNBOUNDED_SIZE else f"<={size}" if dynamic else str(size)
                for size, dynamic in zip(shape.dimensions, shape.dynamic_dimensions, strict=True)
            ]
        )
    else:
        sizes = ",".join(map(str, shape.dimensions))
    text = f"{kind.text}[{sizes}]"
    if layout and shape.layout is not None:
        braces = str(shape.layout)
        if braces != "{}":
            text += braces
    return text + _tuple_text(shape, layout=layout) if shape.tuple_shapes else text


def _tuple_text(shape: ShapeFields, *, layout: bool) -> str:
    # `str` keeps the text of an array with the array. The text of an inner tuple is not kept: in deeply nested tuples
    # the same text would be stored again at each level.
    texts = [
        str(inner) if layout and not inner.tuple_shapes else shape_text(inner, layout=layout)
        for inner in shape.tuple_shapes
    ]
    for i in range(5, len(texts), 5):
        texts[i] = f"/*index={i}*/{texts[i]}"
    return "(" + ", ".join(texts) + ")"


def layout_text(layout: LayoutFields) -> str:
    """XLA's text of a layout, braces included."""
    parts = ""
    for letters, (field, unwritten) in _FIELDS.items():
        value = getattr(layout, field)
        if value != unwritten:
            each = "".join(map(str, value)) if isinstance(unwritten, tuple) else f"({value})"
            parts += letters + each
    order = ",".join(map(str, layout.minor_to_major))
    return "{" + order + (f":{parts}" if parts else "") + "}"
