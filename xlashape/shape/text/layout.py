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
    type     := an integer type, or 'unknown_' INT

Spaces and comments are allowed between tokens. Parts with their default value are not printed.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import ClassVar, NoReturn, TypeVar

from xlashape.errors import FieldPath, InvalidArgumentError
from xlashape.shape.parts.fields import LayoutFields
from xlashape.shape.parts.primitive_type import PrimitiveType, type_spelled
from xlashape.shape.parts.tile import COMBINE, SplitConfig, Tile
from xlashape.text import Cursor

_Layout = TypeVar("_Layout")

_PART = re.compile(r"[A-Z]+|#|\*")
_LEVEL = re.compile(r"[DCSH]\+?~?")
_TYPE = re.compile(r"unknown_-?[0-9]+|[A-Za-z_][A-Za-z0-9_]*")
_PARTS = ("D", "T", "L", "#", "*", "E", "S", "SC", "P", "M")
_INVALID = PrimitiveType.PRIMITIVE_TYPE_INVALID


# -- reading --------------------------------------------------------------------------------


def parse_layout(cursor: Cursor, make: Callable[..., _Layout]) -> _Layout:
    """The layout that comes next, from its '{' to its '}'. ParseError otherwise.

    `make` is the constructor of `xlashape.shape.Layout`.
    """
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
        return make(
            order,
            parts.tiles,
            parts.numbers.get("L", 1),
            parts.types.get("#", _INVALID),
            parts.types.get("*", _INVALID),
            parts.numbers.get("E", 0),
            parts.numbers.get("S", 0),
            parts.splits,
            None,
            parts.numbers.get("M", 0),
        )
    except InvalidArgumentError as error:
        raise_located(cursor, error, positions, start)


class _Parts:
    """The parts of a layout after its ':'. `read` also writes into `positions` where in the text each field is."""

    _FIELDS: ClassVar[dict[str, str]] = {
        "L": "tail_padding_alignment_in_elements",
        "E": "element_size_in_bits",
        "S": "memory_space",
        "M": "dynamic_shape_metadata_prefix_bytes",
        "#": "index_primitive_type",
        "*": "pointer_primitive_type",
    }

    def __init__(self, cursor: Cursor, positions: dict[FieldPath, int]) -> None:
        self.cursor = cursor
        self.positions = positions
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
            start = cursor.at
            cursor.at += len(letters)
            if letters in self._FIELDS:
                self.positions[self._FIELDS[letters],] = start
            self._read_part(letters, start)

    def _read_part(self, letters: str, start: int) -> None:
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
            raise cursor.error("a physical shape belongs to a sparse array, and this one is dense", at=start)
        elif letters in "#*":
            self.types[letters] = _parse_integer_type(cursor)
        else:
            cursor.skip_space()
            self.positions[self._FIELDS[letters],] = cursor.at
            self.numbers[letters] = cursor.parse_int(self._FIELDS[letters])
        if not cursor.accept(")"):
            cursor.fail(f"')' of {letters}")

    def _read_tile(self) -> None:
        cursor = self.cursor
        sizes: list[int] = []
        positions: dict[FieldPath, int] = {}
        start = cursor.at - 1
        if not cursor.accept(")"):
            while True:
                cursor.skip_space()
                positions["dimensions", len(sizes)] = cursor.at
                sizes.append(COMBINE if cursor.accept("*") else cursor.parse_int("a tile size or '*'"))
                if cursor.accept(")"):
                    break
                if not cursor.accept(","):
                    cursor.fail("',' or ')' of the tile")
        try:
            self.tiles.append(Tile(sizes))
        except InvalidArgumentError as error:
            raise_located(cursor, error, positions, start)

    def _read_split(self) -> None:
        cursor = self.cursor
        positions: dict[FieldPath, int] = {}
        cursor.skip_space()
        start = cursor.at
        self.positions["split_configs", len(self.splits), "dimension"] = start
        dimension = cursor.parse_int("a dimension number")
        cursor.expect(":")
        indices: list[int] = []
        if not cursor.accept(")"):
            while True:
                cursor.skip_space()
                positions["split_indices", len(indices)] = cursor.at
                indices.append(cursor.parse_int("a split index"))
                if cursor.accept(")"):
                    break
                if not cursor.accept(","):
                    cursor.fail("',' or ')' of the split")
        try:
            self.splits.append(SplitConfig(dimension, indices))
        except InvalidArgumentError as error:
            raise_located(cursor, error, positions, start)

    def _drop_levels(self) -> None:
        cursor = self.cursor
        while not cursor.looking_at(")"):
            match = _LEVEL.match(cursor.text, cursor.at)
            if match is None:
                cursor.fail("a dimension level type: D, C, S or H")
            cursor.at = match.end()
            if not cursor.accept(","):
                return


def parse_type(cursor: Cursor) -> tuple[str, PrimitiveType | None]:
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
    word, kind = parse_type(cursor)
    if not word:
        cursor.fail("an integer type")
    if kind is None or (kind.is_known and not kind.is_integral):
        raise cursor.error(
            f"'{word[:60]}' is not an integer type", at=start, expected="an integer type", found=repr(word[:60])
        )
    return kind


def raise_located(cursor: Cursor, error: InvalidArgumentError, positions: dict[FieldPath, int], start: int) -> NoReturn:
    """Raises `error` of a constructor again, at the position of the field that it names, or at `start`."""
    path = error.path
    while path and path not in positions:
        path = path[:-1]
    raise cursor.error(error.message, at=positions.get(path, start)) from None


# -- printing -------------------------------------------------------------------------------


def layout_text(layout: LayoutFields) -> str:
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
