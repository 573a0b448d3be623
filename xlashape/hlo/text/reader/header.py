"""Reads the header of a module's text: the module's name, its attributes, and the tables of files, functions, locations
and stack frames that the metadata of instructions refers to.

    header      := 'HloModule' name ':'? (',' attribute)* tables?
    attribute  := 'is_scheduled=' bool | 'replica_count=' INT | 'num_partitions=' INT | 'alias_passthrough_params=' bool
                 | 'allow_spmd_sharding_propagation_to_parameters=' bools
                 | 'allow_spmd_sharding_propagation_to_output=' bools
                 | 'entry_computation_layout=' '{' '(' (shape (',' shape)* ','?)? ')' '->' shape '}'
                 | 'frontend_attributes=' …
                 | 'input_output_alias=' '{' (ints ':' '(' INT ',' ints (',' kind)? ')' (',' …)* ','?)? '}'
                 | 'buffer_donor=' '{' ('(' INT ',' ints ')' (',' …)* ','?)? '}'
                 | 'debug_attributes=' …
                 | 'origin_recovery_table=' '{' (array ':' array (',' string)? ','?)* '}'
    kind        := 'may-alias' | 'must-alias' | 'unknown_' INT
    bools       := bool | '{' (bool (',' bool)*)? '}'
    tables      := 'FileNames' (INT string)*  'FunctionNames' (INT string)*
                   'FileLocations' (INT '{' fields '}')*  'StackFrames' (INT '{' fields '}')*

HloModuleProto has no field for replica_count, num_partitions, alias_passthrough_params and the propagation flags: they
go into a ModuleConfig. A frame's `parent_frame_id` in text is one more than the parent's number, so 1 means that there
is no parent.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

from xlashape.hlo.module_proto.frame_tables import FrameTables, Location
from xlashape.hlo.text.reader.state import ParsedShape, State
from xlashape.hlo.tokens import RESERVED, HloCursor
from xlashape.hlo.values.aliasing import ALIAS_KINDS, parse_alias_kind
from xlashape.hlo.values.metadata import parse_debug_attributes, parse_original_array
from xlashape.hlo.values.plain import parse_frontend_attributes
from xlashape.proto import xla
from xlashape.proto.wire import Fields

_T = TypeVar("_T")


# -- header ------------------------------------------------------------------------------------


_MODULE = Fields(xla.HloModuleProto)
_DIGITS = re.compile(r"-?[0-9]")
_INT32 = (-(1 << 31), (1 << 31) - 1)
_LOCATION_FIELDS = ("file_name_id", "function_name_id", "line", "end_line", "column", "end_column")
_FRAME_FIELDS = ("file_location_id", "parent_frame_id")


class Alias(NamedTuple):
    """An entry of input_output_alias: a part of the module's result that shares the buffer of a part of a parameter."""

    output_index: tuple[int, ...]
    parameter: int
    parameter_index: tuple[int, ...]
    kind: int
    """A number of xla.Kind."""
    at: int
    """The offset of the entry in the text."""


class Recovery(NamedTuple):
    """An entry of origin_recovery_table: an array of the original program that was removed, and the array from which a
    module computes it."""

    old_array: xla.OriginalArrayProto
    new_array: xla.OriginalArrayProto
    module: str
    """The text of that module, the recovery module; empty for none."""
    at: int
    """The offset of the recovery module's text."""


class Header:
    """The content of a module's header."""

    __slots__ = ("aliases", "config", "data", "donors", "frames", "layout", "name", "recoveries", "scheduled")

    def __init__(self, name: str) -> None:
        self.name = name
        self.config: dict[str, Any] = {}
        """Fields of the module's ModuleConfig."""
        self.scheduled = False
        self.layout: tuple[list[ParsedShape], ParsedShape] | None = None
        """The shapes of the entry computation's parameters and result, with the layouts that callers see."""
        self.data = _MODULE.message("frontend_attributes", b"")
        """Serialized fields of the module, for attributes that need no further work."""
        self.aliases: list[Alias] = []
        self.donors: list[tuple[int, tuple[int, ...]]] = []
        """(number of a parameter, index into its shape) of each buffer that the module's caller donates."""
        self.frames = FrameTables()
        self.recoveries: list[Recovery] = []


Reader = Callable[[State, Header], None]
"""A function that reads the value of an attribute and stores it in the header."""


def parse_header(state: State) -> Header:
    """Reads the header of a module. The word 'HloModule' has been consumed."""
    cursor = state.cursor
    cursor.skip_space()
    at = cursor.at
    header = Header(cursor.parse_name("the name of the module"))
    if header.name in RESERVED:
        raise cursor.error(f"{header.name!r} cannot be a name", at=at, expected="a name", found=header.name)
    seen: set[str] = set()
    while cursor.accept(","):
        cursor.skip_space()
        at = cursor.at
        name = cursor.parse_attribute_name()
        if name in seen:
            raise cursor.error(f"attribute {name} is given twice", at=at, expected="each attribute once", found=name)
        seen.add(name)
        read = _ATTRIBUTES.get(name)
        if read is None:
            known = ", ".join(sorted(_ATTRIBUTES))
            raise cursor.error(
                f"a module has no attribute {name}; it may have {known}", at=at, expected="an attribute", found=name
            )
        read(state, header)
    if cursor.accept_word("FileNames"):
        _tables(cursor, header)
    return header


# -- attributes -----------------------------------------------------------------------------


def _scheduled(state: State, header: Header) -> None:
    header.scheduled = state.cursor.parse_bool()


def _bool(field: str) -> Reader:
    return lambda state, header: header.config.update({field: state.cursor.parse_bool()})


def _bools(field: str) -> Reader:
    def read(state: State, header: Header) -> None:
        cursor = state.cursor
        is_list = cursor.looking_at("{")
        header.config[field] = tuple(cursor.parse_list(cursor.parse_bool)) if is_list else (cursor.parse_bool(),)

    return read


def _count(field: str) -> Reader:
    return lambda state, header: header.config.update({field: state.cursor.parse_int("a count")})


def _layout(state: State, header: Header) -> None:
    cursor = state.cursor
    cursor.expect("{")
    parameters = _list(cursor, state.parse_shape, "(", ")")
    cursor.expect("->")
    header.layout = (parameters, state.parse_shape())
    cursor.expect("}")


def _list(cursor: HloCursor, read: Callable[[], _T], first: str = "{", last: str = "}") -> list[_T]:
    """Reads a list in which a ',' may follow the last entry, as in XLA."""
    entries: list[_T] = []
    cursor.expect(first)
    while not cursor.accept(last):
        entries.append(read())
        if not cursor.accept(",") and not cursor.looking_at(last):
            cursor.fail(f"',' or '{last}'")
    return entries


def _index(cursor: HloCursor, what: str) -> tuple[int, ...]:
    return tuple(_list(cursor, lambda: cursor.parse_int(what)))


_INDEX = r"\{((?:[0-9]{1,9}(?:, ?[0-9]{1,9}){0,30})?)\}"
_ALIAS = re.compile(rf"{_INDEX}: \(([0-9]{{1,9}}), {_INDEX}, (may|must)-alias\)")


def _aliases(state: State, header: Header) -> None:
    cursor = state.cursor

    def parse_alias() -> Alias:
        cursor.skip_space()
        at = cursor.at
        match = _ALIAS.match(cursor.text, at)
        if match is not None:  # an alias as XLA writes it
            cursor.at = match.end()
            output, parameter, inside, word = match.groups()
            return Alias(_numbers(output), int(parameter), _numbers(inside), ALIAS_KINDS.number(f"{word}-alias"), at)
        output = _index(cursor, "an index into the result")
        cursor.expect(":")
        cursor.expect("(")
        number = cursor.parse_int("a parameter's number")
        cursor.expect(",")
        index = _index(cursor, "an index into the parameter")
        kind: int = xla.MAY_ALIAS
        if cursor.accept(","):
            kind = parse_alias_kind(cursor)
        cursor.expect(")")
        return Alias(output, number, index, kind, at)

    header.aliases = _list(cursor, parse_alias)


def _numbers(text: str) -> tuple[int, ...]:
    return tuple([int(number) for number in text.split(",")]) if text else ()


def _donors(state: State, header: Header) -> None:
    cursor = state.cursor

    def parse_donor() -> tuple[int, tuple[int, ...]]:
        cursor.expect("(")
        number = cursor.parse_int("a parameter's number")
        cursor.expect(",")
        index = _index(cursor, "an index into the parameter")
        cursor.expect(")")
        return number, index

    header.donors = _list(cursor, parse_donor)


def _frontend_attributes(state: State, header: Header) -> None:
    header.data += _MODULE.message(
        "frontend_attributes", parse_frontend_attributes(state.cursor).SerializeToString(deterministic=True)
    )


def _recovery_table(state: State, header: Header) -> None:
    cursor = state.cursor
    cursor.expect("{")
    while not cursor.accept("}"):
        # XLA writes no comma between entries and reads one.
        if header.recoveries:
            cursor.accept(",")
        old = parse_original_array(cursor) or xla.OriginalArrayProto()
        cursor.expect(":")
        new = parse_original_array(cursor) or xla.OriginalArrayProto()
        has_module = cursor.accept(",") and (cursor.looking_at('"') or cursor.looking_at("'"))
        cursor.skip_space()
        at = cursor.at
        text = cursor.parse_text("the text of a module").decode() if has_module else ""
        header.recoveries.append(Recovery(old, new, text, at))


def _debug_attributes(state: State, header: Header) -> None:
    for entry in parse_debug_attributes(state.cursor):
        header.data += _MODULE.message("debug_attributes", entry)


_ATTRIBUTES: dict[str, Reader] = {
    "alias_passthrough_params": _bool("alias_passthrough_params"),
    "allow_spmd_sharding_propagation_to_output": _bools("allow_spmd_sharding_propagation_to_output"),
    "allow_spmd_sharding_propagation_to_parameters": _bools("allow_spmd_sharding_propagation_to_parameters"),
    "buffer_donor": _donors,
    "debug_attributes": _debug_attributes,
    "entry_computation_layout": _layout,
    "frontend_attributes": _frontend_attributes,
    "input_output_alias": _aliases,
    "is_scheduled": _scheduled,
    "num_partitions": _count("num_partitions"),
    "origin_recovery_table": _recovery_table,
    "replica_count": _count("replica_count"),
}


# -- tables ---------------------------------------------------------------------------------


def _tables(cursor: HloCursor, header: Header) -> None:
    files = _strings(cursor, "FileNames")
    functions = _strings(cursor, "FunctionNames")
    rows = _records(cursor, "FileLocations", _LOCATION_FIELDS)
    frames = _records(cursor, "StackFrames", _FRAME_FIELDS)
    locations = [_location(files, functions, *row) for row in rows]
    header.frames = FrameTables(locations, [(location, parent - 1) for location, parent in frames])


def _location(files: list[str], functions: list[str], file: int, function: int, *numbers: int) -> Location | None:
    """The location that a row of FileLocations describes; None if the other tables lack its file or its function."""
    if not (0 < file <= len(files) and 0 < function <= len(functions)):
        return None
    return Location(files[file - 1], functions[function - 1], *numbers)


def _has_entry(cursor: HloCursor) -> bool:
    """Whether another entry of a table follows. Consumes the number before it, which is ignored as in XLA: entries are
    numbered by their order, from 1."""
    cursor.skip_space()
    if _DIGITS.match(cursor.text, cursor.at) is None:
        return False
    cursor.parse_int("the number of an entry")
    return True


# Numbers of nine digits are within int32.
_NUMBERS_ROW = re.compile(r"[ \t\r\n]*[0-9]{1,18} \{((?:[a-z_]{1,30}=[0-9]{1,9} ){0,5}[a-z_]{1,30}=[0-9]{1,9})\}(?=\n)")
_FIELD = re.compile(r"([a-z_]{1,30})=([0-9]{1,9})")
_STRING_ROW = re.compile(r'[ \t\r\n]*[0-9]{1,18} "([^"\\\n]*)"(?=\n)')


def _strings(cursor: HloCursor, table: str) -> list[str]:
    if table != "FileNames" and not cursor.accept_word(table):
        cursor.fail(f"the table {table}")
    entries: list[str] = []
    while (match := _STRING_ROW.match(cursor.text, cursor.at)) is not None:  # a row as XLA writes it
        entries.append(match[1])
        cursor.at = match.end()
    while _has_entry(cursor):
        entries.append(cursor.parse_text(f"an entry of {table}").decode())
    return entries


def _records(cursor: HloCursor, table: str, fields: tuple[str, ...]) -> list[tuple[int, ...]]:
    if not cursor.accept_word(table):
        cursor.fail(f"the table {table}")
    entries: list[tuple[int, ...]] = []
    while (match := _NUMBERS_ROW.match(cursor.text, cursor.at)) is not None:  # a row as XLA writes it
        row = _FIELD.findall(match[1])
        if tuple([name for name, _ in row]) != fields:
            break
        entries.append(tuple([int(value) for _, value in row]))
        cursor.at = match.end()
    while _has_entry(cursor):
        values: dict[str, int] = {}
        cursor.expect("{")
        while not cursor.accept("}"):
            cursor.skip_space()
            at = cursor.at
            name = cursor.parse_attribute_name()
            if name in values or name not in fields:
                raise cursor.error(f"an entry of {table} has {', '.join(fields)}, each once; found {name!r}", at=at)
            values[name] = cursor.parse_int_between(*_INT32, name)
            cursor.accept(",")
        missing = [name for name in fields if name not in values]
        if missing:
            raise cursor.error(f"an entry of {table} needs {', '.join(missing)}", expected=f"{missing[0]}=")
        entries.append(tuple(values[name] for name in fields))
    return entries
