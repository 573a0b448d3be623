r"""The arrays of the unoptimized program that a value was made from: `origin={({"a"}, {"b" {1}})}`.

origin      := '{' (tree (',' tree)*)? (',' call)? '}' | '{' '[synthetic_call]' '}'     of several trees the last holds
call        := '[' string ']'                                       the calls of the original program that lead to the value
tree        := '(' (tree (',' tree)*)? ')' | '{' array? '}'         a tree of the same tuples as the value's shape
array       := string ints?                                         an instruction, and an index into its shape
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from xlashape.errors import InvalidModuleError
from xlashape.hlo.module_proto import schema_compat
from xlashape.hlo.tokens.formatting import ints
from xlashape.hlo.tokens.hlo_cursor import HloCursor
from xlashape.hlo.values.attribute import ABSENT, FIELDS, Attribute, Context, message_value, whole
from xlashape.proto import xla

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


def _parse_original_value(cursor: HloCursor) -> xla.OriginalValueProto:
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
    return value


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


# -- the value --------------------------------------------------------------------------------


class OriginalArray(NamedTuple):
    """An array of the unoptimized program: an instruction, and an index into its shape."""

    instruction_name: str
    shape_index: tuple[int, ...] = ()


class OriginalValue(NamedTuple):
    """The arrays of the unoptimized program that a value was made from.

    >>> value = OriginalValue.parse('{({"a"}, {"b" {1}})}')
    >>> value.arrays[(1,)], str(value)
    (OriginalArray(instruction_name='b', shape_index=(1,)), '{({"a"}, {"b" {1}})}')
    """

    elements: tuple[tuple[tuple[int, ...], OriginalArray | None], ...] = ()
    """For each array of the value its index into the value's shape, and the original array; None where that is not known."""
    call_hierarchy: str | None = None
    """The calls of the original program that lead to the value."""
    is_synthetic_call: bool = False

    @property
    def arrays(self) -> dict[tuple[int, ...], OriginalArray]:
        """The original arrays that are known, by index into the value's shape."""
        return {index: array for index, array in self.elements if array is not None}

    @classmethod
    def parse(cls, text: str) -> OriginalValue:
        """The origin written `text`, braces included. Raises ParseError."""
        return whole(cls.read, text)

    @classmethod
    def read(cls, cursor: HloCursor) -> OriginalValue:
        """The origin at the cursor."""
        return cls.of_proto(_parse_original_value(cursor))

    def write(self) -> str:
        """`{({"a"}, {"b" {1}})}`. InvalidModuleError for an index that no tuple has."""
        return _value_text(self.to_proto())

    @classmethod
    def of_proto(cls, message: xla.OriginalValueProto) -> OriginalValue:
        """The origin of a message, whichever version of XLA wrote it."""
        today = schema_compat.original_value(message.SerializeToString())
        elements: list[tuple[tuple[int, ...], OriginalArray | None]] = []
        for each in today.elements:
            array = each.original_array if each.HasField("original_array") else None
            original = None if array is None else OriginalArray(array.instruction_name, tuple(array.shape_index))
            elements.append((tuple(each.shape_index), original))
        call = today.call_hierarchy if today.HasField("call_hierarchy") else None
        return cls(tuple(elements), call, today.is_synthetic_call)

    def to_proto(self) -> xla.OriginalValueProto:
        """A new message."""
        message = xla.OriginalValueProto(is_synthetic_call=self.is_synthetic_call)
        for index, array in self.elements:
            element = message.elements.add(shape_index=index)
            if array is not None:
                element.original_array.SetInParent()
                element.original_array.instruction_name = array.instruction_name
                element.original_array.shape_index.extend(array.shape_index)
        if self.call_hierarchy is not None:
            message.call_hierarchy = self.call_hierarchy
        return message

    def __str__(self) -> str:
        return self.write()


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


def _read(cursor: HloCursor) -> bytes:
    return FIELDS.message("original_value", _parse_original_value(cursor))


def _write(message: Any, _context: Context) -> str:
    if message.original_value == ABSENT:
        return ""
    return f", origin={_value_text(schema_compat.original_value(message.original_value))}"


def _value_text(value: xla.OriginalValueProto) -> str:
    call = f',["{value.call_hierarchy}"]' if value.HasField("call_hierarchy") else ""
    return f"{{{_tree_text(value)}{call}}}"


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


def _put(instruction: xla.HloInstructionProto, value: Any) -> None:
    if value is not None and not isinstance(value, OriginalValue):
        raise TypeError("not an OriginalValue")
    # Fields of older versions go: they say the same in another form.
    instruction.ClearField("original_value")
    if value is not None:
        instruction.original_value.CopyFrom(value.to_proto())


ORIGIN: Final = Attribute("origin", _read, _write, message_value("original_value", OriginalValue)._replace(put=_put))
