"""The text of layouts, both ways; the part of XLA's shape grammar between braces.

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

Spaces and comments may stand between tokens. Printing leaves out what has its default value.
"""

from __future__ import annotations

import re
from typing import ClassVar, NoReturn

from xlashape.caches import BoundedCache
from xlashape.errors import InvalidArgumentError
from xlashape.shape.value.layout import Layout
from xlashape.shape.value.primitive_type import PrimitiveType
from xlashape.shape.value.tile import COMBINE, SplitConfig, Tile
from xlashape.text import Cursor

__all__ = ["layout_text", "parse_layout", "parse_layout_text", "raise_located"]

_PART = re.compile(r"[A-Z]+|#|\*")
_LEVEL = re.compile(r"[DCSH]\+?~?")
_PARTS = ("D", "T", "L", "#", "*", "E", "S", "SC", "P", "M")
_INTEGRAL = {kind.text: kind for kind in PrimitiveType if kind.is_integral}
_INVALID = PrimitiveType.PRIMITIVE_TYPE_INVALID
remembered: BoundedCache[str, Layout] = BoundedCache(
    "xlashape.shape: layouts by text", 4 << 20, lambda key, _: len(key) + 600
)
"""Text → layout, for `parse_layout_text` and the parser of shapes."""


def parse_layout_text(text: str) -> Layout:
    """The layout that `text` is, braces included, and nothing else."""
    found = remembered.get(text) if text.__class__ is str else None
    if found is None:
        cursor = Cursor(text)
        found = parse_layout(cursor)
        cursor.expect_end()
        remembered.put(text, found)
    return found


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
        raise_located(cursor, error, places, start)


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
            kind = _INTEGRAL.get(word)
            if kind is None:
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
            raise_located(cursor, error, places, start)

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
            raise_located(cursor, error, places, start)

    def _drop_levels(self) -> None:
        cursor = self.cursor
        while not cursor.looking_at(")"):
            match = _LEVEL.match(cursor.text, cursor.at)
            if match is None:
                cursor.fail("a dimension level type: D, C, S or H")
            cursor.at = match.end()
            if not cursor.accept(","):
                return


def raise_located(cursor: Cursor, error: InvalidArgumentError, places: dict[str, int], start: int) -> NoReturn:
    """`error` of a value's constructor, at the place of the field it names."""
    field = error.field or ""
    while field and field not in places:
        field = field.rpartition(".")[0]
    raise cursor.error(error.message, at=places.get(field, start)) from None


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
