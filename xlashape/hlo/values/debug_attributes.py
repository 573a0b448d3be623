r"""The debug attributes of a module: how values of arrays are logged.

table       := '{' (entry (',' entry)*)? '}'
entry       := array ':' '(' (attributes (',' attributes)*)? ')'             array as in `xlashape.hlo.values.origin`
attributes  := '{' (field (',' field)*)? '}'
field       := 'log_mode=' ('default' | 'fusion_debugger') | 'callback_id=' INT | 'partitioned=' bool | 'op_id=' INT

XLA writes no other log modes, and none of the remaining fields of the message.
"""

from __future__ import annotations

from typing import Any, Final

from xlashape.hlo.tokens.hlo_cursor import HloCursor
from xlashape.hlo.values.origin import original_array_text, parse_original_array
from xlashape.limits import INT64_MAX, INT64_MIN
from xlashape.proto import xla

_LOG_MODES: Final = {"default": 1, "fusion_debugger": 2}
_LOG_MODE_NAMES: Final = {number: name for name, number in _LOG_MODES.items()}
_FIELDS: Final = ("log_mode", "callback_id", "partitioned", "op_id")


def parse_debug_attributes(cursor: HloCursor) -> list[xla.DebugAttributeTableEntryProto]:
    """The entries of a table, sorted by their arrays. Of several entries of an array the last counts. Raises ParseError."""
    entries: dict[tuple[str, tuple[int, ...]], xla.DebugAttributeTableEntryProto] = {}
    for entry in cursor.parse_list(lambda: _parse_entry(cursor)):
        entries[_key(entry)] = entry
    return [entries[key] for key in sorted(entries) if entries[key].debug_attributes]


def _key(entry: xla.DebugAttributeTableEntryProto) -> tuple[str, tuple[int, ...]]:
    return entry.original_array.instruction_name, tuple(entry.original_array.shape_index)


def _parse_entry(cursor: HloCursor) -> xla.DebugAttributeTableEntryProto:
    entry = xla.DebugAttributeTableEntryProto(original_array=parse_original_array(cursor))
    cursor.expect(":")
    cursor.parse_list(lambda: _parse_attributes(cursor, entry.debug_attributes.add()), "(", ")")
    return entry


def _parse_attributes(cursor: HloCursor, attributes: Any) -> None:
    seen: set[str] = set()

    def parse_field() -> None:
        cursor.skip_space()
        at = cursor.at
        name = cursor.parse_attribute_name()
        if name in seen or name not in _FIELDS:
            raise cursor.error(f"debug attributes have {', '.join(_FIELDS)}, each once; found {name!r}", at=at)
        seen.add(name)
        if name == "log_mode":
            attributes.log_mode = cursor.parse_word_of(_LOG_MODES, "a log mode")
        elif name == "partitioned":
            attributes.partitioned = cursor.parse_bool()
        else:
            setattr(attributes, name, cursor.parse_int_between(INT64_MIN, INT64_MAX, name))

    cursor.parse_list(parse_field)


def debug_attributes_text(module: xla.HloModuleProto) -> list[str]:
    """The lines of a module's table, from `debug_attributes={` to the closing brace; none where the module has no table."""
    entries: dict[tuple[str, tuple[int, ...]], tuple[str, list[str]]] = {}
    for entry in module.debug_attributes:
        array = original_array_text(entry.original_array)
        _, texts = entries.setdefault(_key(entry), (array, []))
        texts += [_attributes_text(attributes) for attributes in entry.debug_attributes]
    if not entries:
        return []
    lines = [f"  {{{array}}}:({','.join(texts)})" for _, (array, texts) in sorted(entries.items())]
    return ["debug_attributes={", ",\n".join(lines), "}"]


def _attributes_text(attributes: Any) -> str:
    fields: list[str] = []
    if attributes.log_mode in _LOG_MODE_NAMES:
        fields.append(f"log_mode={_LOG_MODE_NAMES[attributes.log_mode]}")
    if attributes.callback_id:
        fields.append(f"callback_id={attributes.callback_id}")
    if attributes.partitioned:
        fields.append("partitioned=true")
    if attributes.op_id:
        fields.append(f"op_id={attributes.op_id}")
    return f"{{{','.join(fields)}}}"
