"""The attributes metadata, origin and statistics of an instruction, and the attribute debug_attributes of a module.

`metadata={op_name="jit(f)/add" source_file="a.py" source_line=3}` says where in the user's program an instruction comes
from. Two fields of the proto are indices into tables of the module: stack_frame_id and the id of metadata_payload. XLA
does not write metadata that has no fields but lines, columns, profile types and a deduplicated name.

metadata    := '{' (field (','? field)*)? '}'       field := name '=' (string | INT | '{' INT '}')
several     := metadata | '{' metadata (',' metadata)* '}'                  within shardings

`origin={({"a"}, {"b" {1}})}` names the arrays of the unoptimized program that a value was made from.

origin   := '{' (tree (',' tree)*)? (',' call)? '}' | '{' '[synthetic_call]' '}'     of several trees the last counts
call     := '[' string ']'                                      the calls of the original program that lead to the value
tree     := '(' (tree (',' tree)*)? ')' | '{' array? '}'         a tree of the same tuples as the value's shape
array    := string ints?                                         an instruction, and an index into its shape

`debug_attributes` of a module say how the values of arrays are logged. XLA writes only the log modes and the fields of
this grammar:

table       := '{' (entry (',' entry)*)? '}'
entry       := array ':' '(' (attributes (',' attributes)*)? ')'
attributes  := '{' (field (',' field)*)? '}'
field       := 'log_mode=' ('default' | 'fusion_debugger') | 'callback_id=' INT | 'partitioned=' bool | 'op_id=' INT

`statistics={visualizing_index=0,flops=12}` are numbers that a profiler shows beside an instruction.

statistics  := '{' (name '=' INT (',' name '=' DOUBLE)*)? '}'    which statistic to show, by index; then all of them
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import attrgetter
from typing import Any, Final, NamedTuple

from xlashape.errors import InvalidModuleError
from xlashape.hlo.module_proto import schema_compat
from xlashape.hlo.tokens import HloCursor, escape, ints, number
from xlashape.hlo.values.attribute import message_value, structured, whole
from xlashape.limits import INT32_MAX, INT32_MIN, INT64_MAX, INT64_MIN
from xlashape.proto import xla
from xlashape.proto.wire import Fields

OP_METADATA: Final = Fields(xla.OpMetadata)
"""Serializes fields of OpMetadata by name."""
_STRINGS: Final = frozenset(("op_type", "op_name", "source_file", "deduplicated_name", "scheduling_name"))
_INTS: Final = frozenset(("source_line", "source_end_line", "source_column", "source_end_column", "stack_frame_id"))


# -- metadata: reading -------------------------------------------------------------------------


def parse_metadata(cursor: HloCursor) -> tuple[bytes, int, bytes | None]:
    """Reads a metadata. Returns a serialized OpMetadata without stack frame and payload, which the module keeps in
    tables, then these two: the number of the stack frame in the text's table, 0 for none; and the payload's bytes.
    """
    cursor.expect("{")
    seen: set[str] = set()
    pieces: list[bytes] = []
    frame = 0
    payload: bytes | None = None
    while not cursor.accept("}"):
        if seen:
            cursor.accept(",")
        cursor.skip_space()
        at = cursor.at
        name = cursor.parse_attribute_name()
        if name in seen:
            raise cursor.error(f"{name} is given twice", at=at)
        seen.add(name)
        if name in _STRINGS:
            pieces.append(OP_METADATA.string(name, cursor.parse_text(name)))
        elif name in _INTS:
            value = cursor.parse_int_between(INT32_MIN, INT32_MAX, name)
            if name == "stack_frame_id":
                frame = value
            else:
                pieces.append(OP_METADATA.integer(name, value))
        elif name == "profile_type":
            pieces.append(OP_METADATA.integers(name, cursor.parse_ints()))
        elif name == "metadata_payload":
            payload = cursor.parse_string(name)
        else:
            known = ", ".join(sorted(_STRINGS | _INTS | {"metadata_payload", "profile_type"}))
            raise cursor.error(
                f"metadata has no {name!r}; it has {known}", at=at, expected="a field of metadata", found=name
            )
    return b"".join(pieces), frame, payload


def parse_metadata_messages(cursor: HloCursor) -> list[xla.OpMetadata]:
    """Reads one metadata, or several in braces. Stack frames keep their numbers in the text's table."""

    def message() -> xla.OpMetadata:
        data, frame, payload = parse_metadata(cursor)
        metadata = xla.OpMetadata.FromString(data)
        metadata.stack_frame_id = frame
        if payload is not None:
            metadata.metadata_payload.value = payload
        return metadata

    start = cursor.at
    cursor.expect("{")
    are_several = cursor.looking_at("{")
    cursor.at = start
    return cursor.parse_list(message) if are_several else [message()]


# -- metadata: writing -------------------------------------------------------------------------

_fields = attrgetter(
    "op_type",
    "op_name",
    "source_file",
    "scheduling_name",
    "source_line",
    "source_end_line",
    "source_column",
    "source_end_column",
    "deduplicated_name",
    "profile_type",
)


def metadata_text(metadata: xla.OpMetadata, frame: int = 0, payloads: Sequence[bytes] = ()) -> str:
    r"""The text of a metadata, `op_name="x" source_line=3`, without braces; "" where XLA writes no metadata.

    `frame` is the number of the stack frame in the tables of the text, 0 for none. `payloads` is the module's table of
    payloads.

    >>> metadata_text(xla.OpMetadata(op_name="a\nb", source_line=3))
    'op_name="a\\nb" source_line=3'
    """
    kind, name, file, scheduling, line, end_line, column, end_column, deduplicated, profiles = _fields(metadata)
    payload = payload_bytes(metadata.metadata_payload, payloads) if metadata.HasField("metadata_payload") else b""
    if not (name or kind or file or scheduling or frame or payload):
        return ""
    text = f' op_type="{escape(kind)}"' if kind else ""
    if name:
        text += f' op_name="{escape(name)}"'
    if file:
        text += f' source_file="{escape(file)}"'
    if line:
        text += f" source_line={line}"
    if end_line:
        text += f" source_end_line={end_line}"
    if column:
        text += f" source_column={column}"
    if end_column:
        text += f" source_end_column={end_column}"
    if profiles:
        text += f" profile_type={ints(profiles)}"
    if deduplicated:
        text += f' deduplicated_name="{escape(deduplicated)}"'
    if scheduling:
        text += f' scheduling_name="{escape(scheduling)}"'
    if frame:
        text += f" stack_frame_id={frame}"
    if payload:
        text += f' metadata_payload="{escape(payload)}"'
    return text[1:]


def metadata_texts(messages: Iterable[xla.OpMetadata]) -> list[str]:
    """The text of each metadata of a sharding, in braces. Stack frames keep their numbers in the proto."""
    return [f"{{{metadata_text(metadata, metadata.stack_frame_id)}}}" for metadata in messages]


def payload_bytes(payload: xla.Payload, payloads: Sequence[bytes]) -> bytes:
    """The bytes of a payload: its own, or those in the module's table `payloads` if it has an id. InvalidModuleError
    for an id that the table does not have.
    """
    if not payload.HasField("id"):
        return payload.value
    if not 0 <= payload.id < len(payloads):
        raise InvalidModuleError(f"there is no payload {payload.id} in a module of {len(payloads)}")
    return payloads[payload.id]


# -- origins: reading --------------------------------------------------------------------------


_MAX_READ_DEPTH = 200
"""The greatest depth of tuples in the text of an origin."""
_MAX_WRITTEN_DEPTH = 100
"""The greatest depth of tuples in an origin that is written."""
_MAX_ELEMENTS = 1 << 20
"""The greatest number of elements of a tuple in an origin that is written."""


def parse_original_array(cursor: HloCursor) -> xla.OriginalArrayProto | None:
    """Reads the array in braces; None for empty braces."""
    cursor.expect("{")
    array = None
    if not cursor.looking_at("}"):
        array = xla.OriginalArrayProto(instruction_name=cursor.parse_text("an instruction's name").decode())
        if cursor.looking_at("{"):
            array.shape_index.extend(cursor.parse_ints(what="an index into a shape"))
    cursor.expect("}")
    return array


def _parse_tree(cursor: HloCursor, index: tuple[int, ...] = ()) -> list[_Element]:
    """Reads the tree whose elements have indices that begin with `index`."""
    if len(index) > _MAX_READ_DEPTH:
        raise cursor.error(f"a tree of original values nests deeper than {_MAX_READ_DEPTH} levels")
    if not cursor.accept("("):
        array = parse_original_array(cursor)
        return [(index, None if array is None else OriginalArray.of_proto(array))]
    elements: list[_Element] = []
    if cursor.accept(")"):
        return elements
    number = 0
    while True:
        elements += _parse_tree(cursor, (*index, number))
        if cursor.accept(")"):
            return elements
        cursor.expect(",")
        number += 1


# -- origins: the value ------------------------------------------------------------------------


class OriginalArray(NamedTuple):
    """An array of the unoptimized program: an instruction, and an index into its shape."""

    instruction_name: str
    shape_index: tuple[int, ...] = ()

    @classmethod
    def of_proto(cls, message: xla.OriginalArrayProto) -> OriginalArray:
        """The array of a message."""
        return cls(message.instruction_name, tuple(message.shape_index))


_Element = tuple[tuple[int, ...], "OriginalArray | None"]


class OriginalValue(NamedTuple):
    """The arrays of the unoptimized program that a value was made from.

    >>> value = OriginalValue.parse('{({"a"}, {"b" {1}})}')
    >>> value.arrays[(1,)], str(value)
    (OriginalArray(instruction_name='b', shape_index=(1,)), '{({"a"}, {"b" {1}})}')
    """

    elements: tuple[tuple[tuple[int, ...], OriginalArray | None], ...] = ()
    """For each array of the value: its index into the value's shape, and the original array, None if that is not known.
    """
    call_hierarchy: str | None = None
    """The calls of the original program that lead to the value."""
    is_synthetic_call: bool = False

    @property
    def arrays(self) -> dict[tuple[int, ...], OriginalArray]:
        """The original arrays that are known, by index into the value's shape."""
        return {index: array for index, array in self.elements if array is not None}

    @classmethod
    def parse(cls, text: str) -> OriginalValue:
        """The origin that `text` describes, braces included. Raises ParseError."""
        return whole(cls.read, text)

    @classmethod
    def read(cls, cursor: HloCursor) -> OriginalValue:
        """Reads the origin at the cursor."""
        elements: list[_Element] = []
        call: str | None = None
        cursor.expect("{")
        if cursor.accept("["):
            if cursor.parse_word("'synthetic_call'") != "synthetic_call":
                cursor.fail("'synthetic_call'")
            cursor.expect("]")
            call = ""
        elif not cursor.looking_at("}"):
            elements = _parse_tree(cursor)
            while cursor.accept(","):
                if cursor.accept("["):
                    call = cursor.parse_text("a call hierarchy").decode()
                    cursor.expect("]")
                    break
                elements = _parse_tree(cursor)
        cursor.expect("}")
        if call == "":
            # An empty name means that the original program does not have the call. Until jaxlib 0.10.2, this was
            # written as `[synthetic_call]`.
            return cls((), call, is_synthetic_call=True)
        return cls(tuple(elements), call)

    def write(self) -> str:
        """The text of the origin: `{({"a"}, {"b" {1}})}`. InvalidModuleError for an index into the value's shape that
        is too long, or has a negative or too great number."""
        call = "" if self.call_hierarchy is None else f',["{self.call_hierarchy}"]'
        return f"{{{_tree_text(self.elements)}{call}}}"

    @classmethod
    def of_proto(cls, message: xla.OriginalValueProto) -> OriginalValue:
        """The origin of a message that any version of XLA wrote."""
        today = schema_compat.original_value(message.SerializeToString())
        elements: list[_Element] = []
        for each in today.elements:
            array = OriginalArray.of_proto(each.original_array) if each.HasField("original_array") else None
            elements.append((tuple(each.shape_index), array))
        call = today.call_hierarchy if today.HasField("call_hierarchy") else None
        return cls(tuple(elements), call, today.is_synthetic_call)

    def to_proto(self) -> xla.OriginalValueProto:
        """A new `xla.OriginalValueProto`."""
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


# -- origins: writing --------------------------------------------------------------------------


def original_array_text(array: OriginalArray | xla.OriginalArrayProto) -> str:
    """The text of an original array: `"name" {0,1}`, without braces around it."""
    index = f" {ints(array.shape_index)}" if array.shape_index else ""
    return f'"{array.instruction_name}"{index}'


class _Node:
    """A node of the tree of an origin that is being written: a tuple with children, or an array with its text."""

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


def _tree_text(elements: Iterable[_Element]) -> str:
    root = _Node()
    for index, array in elements:
        node = root
        if any(not 0 <= i < _MAX_ELEMENTS for i in index) or len(index) > _MAX_WRITTEN_DEPTH:
            raise InvalidModuleError(f"no tuple has an element {ints(index)}")
        for i in index:
            node = node.children.setdefault(i, _Node())
        node.text = f"{{{'' if array is None else original_array_text(array)}}}"
    return root.to_text()


def _put_origin(instruction: xla.HloInstructionProto, value: Any) -> None:
    if value is not None and not isinstance(value, OriginalValue):
        raise TypeError("not an OriginalValue")
    # The whole field is cleared, since an older XLA wrote the same information into fields that the schema lacks.
    instruction.ClearField("original_value")
    if value is not None:
        instruction.original_value.CopyFrom(value.to_proto())


ORIGIN: Final = structured(
    "origin",
    OriginalValue,
    field="original_value",
    value=message_value("original_value", OriginalValue)._replace(put=_put_origin),
)


# -- debug attributes --------------------------------------------------------------------------


_LOG_MODES: Final = {"default": 1, "fusion_debugger": 2}
_LOG_MODE_NAMES: Final = {number: name for name, number in _LOG_MODES.items()}
_FIELDS: Final = ("log_mode", "callback_id", "partitioned", "op_id")


def parse_debug_attributes(cursor: HloCursor) -> list[xla.DebugAttributeTableEntryProto]:
    """Reads a table of debug attributes and returns its entries, sorted by their arrays. If an array has several
    entries, the last counts. Raises ParseError.
    """
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
    """The lines of a module's debug attributes, from `debug_attributes={` to the closing brace; empty if the module has
    none.
    """
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


# -- statistics --------------------------------------------------------------------------------


class Statistics(NamedTuple):
    """The statistics of an instruction by name, and the index of the statistic that a profiler shows.

    >>> str(Statistics(0, (("flops", 12.0),)))
    '{visualizing_index=0,flops=12}'
    """

    stat_index_to_visualize: int = 0
    statistics: tuple[tuple[str, float], ...] = ()

    @classmethod
    def parse(cls, text: str) -> Statistics:
        """The statistics that `text` describes, braces included. Raises ParseError."""
        return whole(cls.read, text)

    @classmethod
    def read(cls, cursor: HloCursor) -> Statistics:
        """Reads the statistics at the cursor."""
        index = 0
        found: list[tuple[str, float]] = []
        cursor.expect("{")
        if not cursor.accept("}"):
            cursor.parse_attribute_name()
            index = cursor.parse_int("the index of a statistic")
            while cursor.accept(","):
                found.append((cursor.parse_attribute_name(), cursor.parse_double("the value of a statistic")))
            cursor.expect("}")
        return cls(index, tuple(found))

    def write(self) -> str:
        """The text of the statistics: `{visualizing_index=0,flops=12}`."""
        parts = [f"{name}={number(value)}" for name, value in self.statistics]
        return f"{{{','.join([f'visualizing_index={self.stat_index_to_visualize}', *parts])}}}"

    @classmethod
    def of_proto(cls, message: xla.StatisticsViz) -> Statistics:
        """The statistics of a message."""
        found = [(each.stat_name, each.stat_val) for each in message.statistics]
        return cls(message.stat_index_to_visualize, tuple(found))

    def to_proto(self) -> xla.StatisticsViz:
        """A new `xla.StatisticsViz`."""
        message = xla.StatisticsViz(stat_index_to_visualize=self.stat_index_to_visualize)
        for name, value in self.statistics:
            message.statistics.add(stat_name=name, stat_val=value)
        return message

    def __str__(self) -> str:
        return self.write()


def _get(instruction: xla.HloInstructionProto) -> Statistics | None:
    # XLA sets the field for every instruction, so an empty message means that there are no statistics.
    return Statistics.of_proto(instruction.statistics_viz) if instruction.statistics_viz.statistics else None


def _put_statistics(instruction: xla.HloInstructionProto, value: Any) -> None:
    if value is not None or instruction.HasField("statistics_viz"):
        _VALUE.put(instruction, Statistics() if value is None else value)


_VALUE: Final = message_value("statistics_viz", Statistics)

STATISTICS: Final = structured(
    "statistics", Statistics, field="statistics_viz", value=_VALUE._replace(get=_get, put=_put_statistics)
)
