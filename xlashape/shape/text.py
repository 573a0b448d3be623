"""The text of shapes and layouts, both ways. What XLA's `ParseShape` reads and `ShapeUtil::HumanStringWithLayout` prints.

    shape    := array | '(' (shape (',' shape)*)? ')' | 'b' '(' array ')'
    array    := type '[' (dim (',' dim)*)? ']' layout?              f32[<=8,?]{1,0}    token[]    opaque[]
    dim      := INT | '<=' INT | '?'                                static | bounded dynamic | unbounded dynamic
    layout   := '{' (INT (',' INT)*)? (':' part*)? '}'              {1,0:T(8,128)(2,1)S(1)}
    part     := in this order, each at most once:
        'D' '(' level (',' level)* ')'        dimension level types of sparse arrays; read and dropped
        'T' ('(' size (',' size)* ')')+       tiles; a size is INT or '*'
        'L' '(' INT ')'                       tail_padding_alignment_in_elements
        '#' '(' type ')'                      index_primitive_type
        '*' '(' type ')'                      pointer_primitive_type
        'E' '(' INT ')'                       element_size_in_bits
        'S' '(' INT ')'                       memory_space
        'SC' ('(' INT ':' INT (',' INT)* ')')+    split_configs
        'P' '(' shape ')'                     physical_shape; sparse arrays only, so an error here
        'M' '(' INT ')'                       dynamic_shape_metadata_prefix_bytes

Spaces and comments may stand between tokens. A '{' begins a layout only before a number, a ':' or a '}': in HLO text
a computation's body may follow a shape. An array without a layout gets the default one, a scalar carries `{}`.

Printing leaves out what has its default value and puts `/*index=5*/` before every fifth element of a tuple.
"""

from __future__ import annotations

import re
from math import prod
from typing import ClassVar, NoReturn

from xlashape import limits
from xlashape.errors import InvalidArgumentError, ParseError
from xlashape.limits import INT64_MAX
from xlashape.shape._cache import BoundedCache
from xlashape.shape.layout import Layout
from xlashape.shape.primitive_type import PrimitiveType, unknown_type_message
from xlashape.shape.shape import UNBOUNDED_SIZE, Shape, parsed, unchecked_array
from xlashape.shape.tile import COMBINE, SplitConfig, Tile
from xlashape.text import Cursor

__all__ = ["layout_text", "parse_layout", "parse_layout_text", "parse_shape", "parse_shape_text", "shape_text"]

# An array without spaces, comments or leading zeros in its sizes, which are below 10^18; no layout only if none follows after
# spaces or comments.
_PLAIN = re.compile(
    r"([a-z][a-z0-9]*)\[((?:<=)?(?:0|[1-9][0-9]{0,17})(?:,(?:<=)?(?:0|[1-9][0-9]{0,17}))*|)\]"
    r"(?:(\{[0-9,]*(?::[^{}\s/]*)?\})|(?![ \t\r\n]*[{/]))"
)
_LAYOUT_BEGINS = re.compile(r"-?[0-9]|[:}]")
_PART = re.compile(r"[A-Z]+|#|\*")
_LEVEL = re.compile(r"[DCSH]\+?~?")
_PARTS = ("D", "T", "L", "#", "*", "E", "S", "SC", "P", "M")
_TYPES = {
    kind.text: kind
    for kind in PrimitiveType
    if kind.is_array_type or kind in (PrimitiveType.TOKEN, PrimitiveType.OPAQUE_TYPE)
}
_INVALID = PrimitiveType.PRIMITIVE_TYPE_INVALID
_STATIC = {rank: (False,) * rank for rank in range(16)}
_layouts: BoundedCache[str, Layout] = BoundedCache(1 << 20)


# -- reading --------------------------------------------------------------------------------


def parse_shape_text(text: str) -> Shape:
    """The shape that `text` is, and nothing else. What `Shape.parse` does."""
    found = parsed.get(text) if text.__class__ is str else None
    if found is None:
        match = _PLAIN.fullmatch(text) if text.__class__ is str else None
        found = _plain(match) if match is not None else None
        if found is None:
            cursor = Cursor(text)
            found = parse_shape(cursor)
            cursor.expect_end()
        parsed.put(text, found)
    return found


def parse_layout_text(text: str) -> Layout:
    """The layout that `text` is, braces included, and nothing else."""
    found = _layouts.get(text) if text.__class__ is str else None
    if found is None:
        cursor = Cursor(text)
        found = parse_layout(cursor)
        cursor.expect_end()
        _layouts.put(text, found)
    return found


def parse_shape(cursor: Cursor) -> Shape:
    """The shape that comes next. ParseError otherwise."""
    cursor.skip_space()
    return _shape(cursor, 0)


def _shape(cursor: Cursor, depth: int) -> Shape:
    # `cursor` stands at the first character of the shape.
    match = _PLAIN.match(cursor.text, cursor.at)
    if match is not None:
        text = match.group()
        found = parsed.get(text)
        if found is None:
            found = _plain(match)
            if found is not None:
                parsed.put(text, found)
        if found is not None:
            cursor.at = match.end()
            return found
    if cursor.text.startswith("(", cursor.at):
        return _tuple(cursor, depth)
    return _array(cursor, buffers=True)


def _plain(match: re.Match[str]) -> Shape | None:
    """The array of a match of _PLAIN, or None if something is wrong with it: the cursor then finds out what."""
    name, sizes, braces = match.groups()
    kind = _TYPES.get(name)
    if kind is None:
        return None
    if not kind.bit_width:
        return None if sizes or braces else Shape(kind)
    if "<" in sizes:
        dynamic = tuple([size[0] == "<" for size in sizes.split(",")])
        dimensions = tuple(map(int, sizes.replace("<=", "").split(",")))
    else:
        dimensions = tuple(map(int, sizes.split(","))) if sizes else ()
        dynamic = _STATIC.get(len(dimensions)) or (False,) * len(dimensions)
    if prod(dimensions) > INT64_MAX:
        return None
    if braces is None:
        layout = Layout.default(len(dimensions))
        text = match.group() + str(layout) if dimensions else match.group()
    else:
        layout = _layouts.get(braces)
        if layout is None:
            try:
                layout = parse_layout_text(braces)
            except ParseError:
                return None
        if len(layout.minor_to_major) != len(dimensions):
            return None
        text = match.group() if str(layout) == braces != "{}" else None
    return unchecked_array(kind, dimensions, dynamic, layout, text)


def _tuple(cursor: Cursor, depth: int) -> Shape:
    start = cursor.at
    if depth >= limits.MAX_SHAPE_DEPTH:
        raise cursor.error(f"tuples are nested more than {limits.MAX_SHAPE_DEPTH} deep")
    cursor.at += 1
    shapes: list[Shape] = []
    if not cursor.accept(")"):
        while True:
            cursor.skip_space()
            shapes.append(_shape(cursor, depth + 1))
            if cursor.accept(")"):
                break
            if not cursor.accept(","):
                cursor.fail("',' or ')' of the tuple")
    try:
        return Shape.tuple(shapes)
    except InvalidArgumentError as error:
        _raise(cursor, error, {}, start)


def _array(cursor: Cursor, *, buffers: bool) -> Shape:
    start = cursor.at
    word = cursor.parse_optional_word()
    if word is None:
        cursor.fail("a shape" if buffers else "an array")
    if word == "b" and buffers and cursor.accept("("):
        cursor.skip_space()
        at = cursor.at
        shape = _array(cursor, buffers=False)
        cursor.expect(")")
        try:
            return Shape.buffer(shape)
        except InvalidArgumentError as error:
            _raise(cursor, error, {}, at)
    kind = _TYPES.get(word)
    if kind is None:
        cursor.at = start
        raise cursor.error(unknown_type_message(word[:60]), expected="an element type", found=repr(word[:60]))
    cursor.expect("[")
    places = {"dimensions": cursor.at - 1}
    sizes: list[int] = []
    dynamic: list[bool] = []
    if not cursor.accept("]"):
        while True:
            cursor.skip_space()
            places[f"dimensions[{len(sizes)}]"] = cursor.at
            if cursor.accept("?"):
                sizes.append(UNBOUNDED_SIZE)
                dynamic.append(True)
            else:
                dynamic.append(cursor.accept("<="))
                sizes.append(_count(cursor, "a dimension's size"))
            if cursor.accept("]"):
                break
            if not cursor.accept(","):
                cursor.fail("',' or ']' of the dimensions")
    layout = None
    if kind.is_array_type:
        if _layout_follows(cursor):
            places["layout"] = cursor.at
            layout = parse_layout(cursor)
        else:
            layout = Layout.default(len(sizes))
    try:
        return Shape(kind, sizes, dynamic, layout)
    except InvalidArgumentError as error:
        _raise(cursor, error, places, start)


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


def parse_layout(cursor: Cursor) -> Layout:
    """The layout that comes next, from its '{' to its '}'. ParseError otherwise."""
    cursor.expect("{")
    start = cursor.at - 1
    places: dict[str, int] = {}
    order: list[int] = []
    parts = False
    if not cursor.accept("}"):
        parts = cursor.accept(":")
        if not parts:
            while True:
                cursor.skip_space()
                places[f"minor_to_major[{len(order)}]"] = cursor.at
                order.append(cursor.parse_int("a dimension number"))
                if cursor.accept(","):
                    continue
                parts = cursor.accept(":")
                if not parts and not cursor.accept("}"):
                    cursor.fail("',', ':' or '}' of the layout")
                break
    reader = _Parts(cursor, places)
    if parts:
        reader.read()
    try:
        return Layout(
            order,
            reader.tiles,
            reader.numbers.get("L", 1),
            reader.types.get("#", _INVALID),
            reader.types.get("*", _INVALID),
            reader.numbers.get("E", 0),
            reader.numbers.get("S", 0),
            reader.splits,
            None,
            reader.numbers.get("M", 0),
        )
    except InvalidArgumentError as error:
        _raise(cursor, error, places, start)


class _Parts:
    """The parts of a layout after its ':'. `places` learns where each stands."""

    _FIELDS: ClassVar[dict[str, str]] = {
        "L": "tail_padding_alignment_in_elements",
        "E": "element_size_in_bits",
        "S": "memory_space",
        "M": "dynamic_shape_metadata_prefix_bytes",
        "#": "index_primitive_type",
        "*": "pointer_primitive_type",
    }

    def __init__(self, cursor: Cursor, places: dict[str, int]) -> None:
        self.cursor = cursor
        self.places = places
        self.tiles: list[Tile] = []
        self.splits: list[SplitConfig] = []
        self.numbers: dict[str, int] = {}
        self.types: dict[str, PrimitiveType] = {}

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
            at = cursor.at
            cursor.at += len(letters)
            if letters in self._FIELDS:
                self.places[self._FIELDS[letters]] = at
            self._read_part(letters, at)

    def _read_part(self, letters: str, at: int) -> None:
        cursor = self.cursor
        cursor.expect("(")
        if letters == "T":
            while True:
                self._read_tile()
                if not cursor.accept("("):
                    return
        elif letters == "SC":
            while True:
                self._read_split()
                if not cursor.accept("("):
                    return
        elif letters == "D":
            self._drop_levels()
        elif letters == "P":
            raise cursor.error("a physical shape belongs to a sparse array, and this one is dense", at=at)
        elif letters in "#*":
            cursor.skip_space()
            at = cursor.at
            word = cursor.parse_word("an integer type")
            kind = _TYPES.get(word)
            if kind is None or not kind.is_integral:
                raise cursor.error(
                    f"'{word[:60]}' is no integer type", at=at, expected="an integer type", found=repr(word[:60])
                )
            self.types[letters] = kind
        else:
            cursor.skip_space()
            self.places[self._FIELDS[letters]] = cursor.at
            self.numbers[letters] = cursor.parse_int(self._FIELDS[letters])
        if not cursor.accept(")"):
            cursor.fail(f"')' of {letters}")

    def _read_tile(self) -> None:
        cursor = self.cursor
        sizes: list[int] = []
        places: dict[str, int] = {}
        start = cursor.at - 1
        if not cursor.accept(")"):
            while True:
                cursor.skip_space()
                places[f"dimensions[{len(sizes)}]"] = cursor.at
                sizes.append(COMBINE if cursor.accept("*") else cursor.parse_int("a tile size or '*'"))
                if cursor.accept(")"):
                    break
                if not cursor.accept(","):
                    cursor.fail("',' or ')' of the tile")
        try:
            self.tiles.append(Tile(sizes))
        except InvalidArgumentError as error:
            _raise(cursor, error, places, start)

    def _read_split(self) -> None:
        cursor = self.cursor
        places: dict[str, int] = {}
        cursor.skip_space()
        start = cursor.at
        self.places[f"split_configs[{len(self.splits)}].dimension"] = start
        dimension = cursor.parse_int("a dimension number")
        cursor.expect(":")
        indices: list[int] = []
        if not cursor.accept(")"):
            while True:
                cursor.skip_space()
                places[f"split_indices[{len(indices)}]"] = cursor.at
                indices.append(cursor.parse_int("a split index"))
                if cursor.accept(")"):
                    break
                if not cursor.accept(","):
                    cursor.fail("',' or ')' of the split")
        try:
            self.splits.append(SplitConfig(dimension, indices))
        except InvalidArgumentError as error:
            _raise(cursor, error, places, start)

    def _drop_levels(self) -> None:
        cursor = self.cursor
        while not cursor.looking_at(")"):
            match = _LEVEL.match(cursor.text, cursor.at)
            if match is None:
                cursor.fail("a dimension level type: D, C, S or H")
            cursor.at = match.end()
            if not cursor.accept(","):
                return


def _count(cursor: Cursor, what: str) -> int:
    """A number of 0 or more."""
    cursor.skip_space()
    at = cursor.at
    value = cursor.parse_int(what)
    if value < 0:
        raise cursor.error(f"{what} is not negative: {value}", at=at, expected=what, found=repr(str(value)))
    return value


def _raise(cursor: Cursor, error: InvalidArgumentError, places: dict[str, int], start: int) -> NoReturn:
    """`error` of a value's constructor, at the place of the field it names."""
    field = error.field or ""
    while field and field not in places:
        field = field.rpartition(".")[0]
    raise cursor.error(error.message, at=places.get(field, start)) from None


# -- printing -------------------------------------------------------------------------------


def shape_text(shape: Shape, *, layout: bool = True) -> str:
    """XLA's text of a shape; `layout=False` leaves layouts out.

    >>> shape_text(Shape.parse("(f32[2,3], s4[8]{0:E(4)})")), shape_text(Shape.parse("f32[2,3]"), layout=False)
    ('(f32[2,3]{1,0}, s4[8]{0:E(4)})', 'f32[2,3]')
    """
    kind = shape.element_type
    if shape.is_tuple:
        texts = [str(inner) if layout else shape_text(inner, layout=False) for inner in shape.tuple_shapes]
        for i in range(5, len(texts), 5):
            texts[i] = f"/*index={i}*/{texts[i]}"
        return "(" + ", ".join(texts) + ")"
    if shape.is_buffer:
        return f"b({shape_text(shape.tuple_shapes[0], layout=layout)})"
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
    return text


def layout_text(layout: Layout) -> str:
    """XLA's text of a layout, braces included."""
    parts: list[str] = []
    if layout.tiles:
        parts.append("T" + "".join(map(str, layout.tiles)))
    if layout.tail_padding_alignment_in_elements != 1:
        parts.append(f"L({layout.tail_padding_alignment_in_elements})")
    if layout.index_primitive_type is not _INVALID:
        parts.append(f"#({layout.index_primitive_type.text})")
    if layout.pointer_primitive_type is not _INVALID:
        parts.append(f"*({layout.pointer_primitive_type.text})")
    if layout.element_size_in_bits:
        parts.append(f"E({layout.element_size_in_bits})")
    if layout.memory_space:
        parts.append(f"S({layout.memory_space})")
    if layout.split_configs:
        parts.append("SC" + "".join(map(str, layout.split_configs)))
    if layout.physical_shape is not None:
        parts.append(f"P({layout.physical_shape})")
    if layout.dynamic_shape_metadata_prefix_bytes:
        parts.append(f"M({layout.dynamic_shape_metadata_prefix_bytes})")
    order = ",".join(map(str, layout.minor_to_major))
    return "{" + order + (":" + "".join(parts) if parts else "") + "}"
