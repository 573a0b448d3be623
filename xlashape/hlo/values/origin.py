r"""The arrays of the unoptimized program that a value was made from: `origin={({"a"}, {"b" {1}})}`.

origin      := '{' (tree (',' tree)*)? (',' call)? '}' | '{' '[synthetic_call]' '}'     of several trees the last holds
call        := '[' string ']'                                       the calls of the original program that lead to the value
tree        := '(' (tree (',' tree)*)? ')' | '{' array? '}'         a tree of the same tuples as the value's shape
array       := string ints?                                         an instruction, and an index into its shape
"""

from __future__ import annotations

from typing import Any, Final

from xlashape.errors import InvalidModuleError
from xlashape.hlo import older
from xlashape.hlo.formatting import ints
from xlashape.hlo.lex import HloCursor
from xlashape.hlo.values.attribute import ABSENT, FIELDS, Attribute, Context
from xlashape.proto import xla

__all__ = ["ORIGIN", "original_array_text", "parse_original_array"]

_MAX_READ_DEPTH = 200
_MAX_WRITTEN_DEPTH = 100
_MAX_ELEMENTS = 1 << 20


# -- reading ---------------------------------------------------------------------------------


def parse_original_array(cursor: HloCursor) -> xla.OriginalArrayProto | None:
    """The array in braces; None for empty braces."""
    cursor.expect("{")
    array = None
    if not cursor.looking_at("}"):
        array = xla.OriginalArrayProto(instruction_name=cursor.parse_text("an instruction's name").decode())
        if cursor.looking_at("{"):
            array.shape_index.extend(cursor.parse_ints(what="an index into a shape"))
    cursor.expect("}")
    return array


def _read(cursor: HloCursor) -> bytes:
    value = xla.OriginalValueProto()
    cursor.expect("{")
    if cursor.accept("["):
        if cursor.parse_word("'synthetic_call'") != "synthetic_call":
            cursor.fail("'synthetic_call'")
        cursor.expect("]")
        value.is_synthetic_call, value.call_hierarchy = True, ""
    elif not cursor.looking_at("}"):
        _parse_tree(cursor, value, [])
        while cursor.accept(","):
            if cursor.accept("["):
                value.call_hierarchy = cursor.parse_text("a call hierarchy").decode()
                cursor.expect("]")
                if not value.call_hierarchy:
                    # The original program does not have the call: `[synthetic_call]` until jaxlib 0.10.2.
                    value.ClearField("elements")
                    value.is_synthetic_call = True
                break
            value.ClearField("elements")
            _parse_tree(cursor, value, [])
    cursor.expect("}")
    return FIELDS.message("original_value", value)


def _parse_tree(cursor: HloCursor, value: xla.OriginalValueProto, index: list[int]) -> None:
    if len(index) > _MAX_READ_DEPTH:
        raise cursor.error(f"a tree of original values nests deeper than {_MAX_READ_DEPTH} levels")
    if not cursor.accept("("):
        array = parse_original_array(cursor)
        element = value.elements.add(shape_index=index)
        if array is not None:
            element.original_array.CopyFrom(array)
        return
    if cursor.accept(")"):
        return
    index.append(0)
    while True:
        _parse_tree(cursor, value, index)
        if cursor.accept(")"):
            break
        cursor.expect(",")
        index[-1] += 1
    index.pop()


# -- writing ---------------------------------------------------------------------------------


def original_array_text(array: xla.OriginalArrayProto) -> str:
    """`"name" {0,1}`, without braces."""
    index = f" {ints(array.shape_index)}" if array.shape_index else ""
    return f'"{array.instruction_name}"{index}'


class _Node:
    """A tuple of the tree, or an array with its text."""

    __slots__ = ("children", "text")

    def __init__(self) -> None:
        self.text: str | None = None
        self.children: dict[int, _Node] = {}

    def to_text(self) -> str:
        if not self.children:
            return self.text if self.text is not None else "()"
        last = max(self.children)
        parts = [self.children[i].to_text() if i in self.children else "()" for i in range(last + 1)]
        return f"({', '.join(parts)})"


def _write(message: Any, _context: Context) -> str:
    if message.original_value == ABSENT:
        return ""
    value = older.original_value(message.original_value)
    call = f',["{value.call_hierarchy}"]' if value.HasField("call_hierarchy") else ""
    return f", origin={{{_tree_text(value)}{call}}}"


def _tree_text(value: xla.OriginalValueProto) -> str:
    root = _Node()
    for element in value.elements:
        node = root
        index = element.shape_index
        if any(not 0 <= i < _MAX_ELEMENTS for i in index) or len(index) > _MAX_WRITTEN_DEPTH:
            raise InvalidModuleError(f"no tuple has an element {ints(index)}")
        for i in index:
            node = node.children.setdefault(i, _Node())
        array = original_array_text(element.original_array) if element.HasField("original_array") else ""
        node.text = f"{{{array}}}"
    return root.to_text()


ORIGIN: Final = Attribute("origin", _read, _write)
