"""The text of shapes, both ways. What XLA's `ParseShape` reads and `ShapeUtil::HumanStringWithLayout` prints.

    shape    := array | '(' (shape (',' shape)*)? ')' | 'b' '(' array ')'
    array    := type '[' (dim (',' dim)*)? ']' layout?              f32[<=8,?]{1,0}    token[]    opaque[]
    dim      := INT | '<=' INT | '?'                                static | bounded dynamic | unbounded dynamic
    layout   := '{' … '}'                                           as `xlashape.shape.text.layout_text` says

Spaces and comments may stand between tokens. A '{' begins a layout only before a number, a ':' or a '}': in HLO text
a computation's body may follow a shape. An array without a layout gets the default one, a scalar carries `{}`.

Printing puts `/*index=5*/` before every fifth element of a tuple.
"""

from __future__ import annotations

import re
from math import prod

from xlashape import limits
from xlashape.errors import InvalidArgumentError, ParseError
from xlashape.limits import INT64_MAX
from xlashape.shape.text.layout_text import layout_text, parse_layout, parse_layout_text, raise_located, remembered
from xlashape.shape.value.layout import Layout
from xlashape.shape.value.primitive_type import PrimitiveType, unknown_type_message
from xlashape.shape.value.shape import UNBOUNDED_SIZE, Shape, a_kind, parsed, unchecked_array
from xlashape.text import Cursor

__all__ = ["layout_text", "parse_layout", "parse_layout_text", "parse_shape", "parse_shape_text", "shape_text"]

# An array without spaces, comments or leading zeros in its sizes, which are below 10^18; no layout only if none follows after
# spaces or comments.
_PLAIN = re.compile(
    r"([a-z][a-z0-9]*)\[((?:<=)?(?:0|[1-9][0-9]{0,17})(?:,(?:<=)?(?:0|[1-9][0-9]{0,17}))*|)\]"
    r"(?:(\{[0-9,]*(?::[^{}\s/]*)?\})|(?![ \t\r\n]*[{/]))"
)
_LAYOUT_BEGINS = re.compile(r"-?[0-9]|[:}]")
_TYPES = {
    kind.text: kind
    for kind in PrimitiveType
    if kind.is_array_type or kind in (PrimitiveType.TOKEN, PrimitiveType.OPAQUE_TYPE)
}
_STATIC = {rank: (False,) * rank for rank in range(16)}


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
            _refuse_brace(cursor, found)
            cursor.expect_end()
        parsed.put(text, found)
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
        layout = remembered.get(braces)
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
                _refuse_brace(cursor, shapes[-1])
                cursor.fail("',' or ')' of the tuple")
    try:
        return Shape.tuple(shapes)
    except InvalidArgumentError as error:
        raise_located(cursor, error, {}, start)


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
            raise_located(cursor, error, {}, at)
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
        raise_located(cursor, error, places, start)


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


def _refuse_brace(cursor: Cursor, shape: Shape) -> None:
    """ParseError if a '{' comes next, where after `shape` no computation's body can follow: it was meant for a layout."""
    if not cursor.looking_at("{"):
        return
    if not shape.is_array:
        raise cursor.error(f"{a_kind(shape.element_type)} has no layout")
    if cursor.text[: cursor.at].rstrip().endswith("]") and cursor.accept("{"):
        cursor.fail("a dimension number, ':' or '}' of the layout")


def _count(cursor: Cursor, what: str) -> int:
    """A number of 0 or more."""
    cursor.skip_space()
    at = cursor.at
    value = cursor.parse_int(what)
    if value < 0:
        raise cursor.error(f"{what} is not negative: {value}", at=at, expected=what, found=repr(str(value)))
    return value


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
