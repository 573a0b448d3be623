"""The text of what says where an instruction came from: metadata, original values, statistics, frontend attributes."""

from __future__ import annotations

from operator import attrgetter
from typing import Any

from xlashape.errors import InvalidModuleError
from xlashape.hlo.formatting import escape, ints, is_json_dict, number
from xlashape.proto import xla

__all__ = [
    "frontend_attributes_text",
    "metadata_fields",
    "original_array_text",
    "original_value_text",
    "statistics_text",
]


def metadata_fields(metadata: xla.OpMetadata, frame: int = 0, payloads: Any = ()) -> str:
    r"""`op_name="x" source_line=3`, without braces; "" where XLA prints nothing. `frame` is the number of its
    stack frame in the tables printed, 0 for none.

    >>> metadata_fields(xla.OpMetadata(op_name="a\nb", source_line=3))
    'op_name="a\\nb" source_line=3'
    """
    kind, name, file, scheduling, *rest = _fields(metadata)
    line, end_line, column, end_column, deduplicated, profiles = rest
    payload = _payload(metadata, payloads) if metadata.HasField("metadata_payload") else b""
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


def _payload(metadata: xla.OpMetadata, payloads: Any) -> bytes:
    return payload_bytes(metadata.metadata_payload, payloads)


def payload_bytes(payload: xla.Payload, payloads: Any) -> bytes:
    """The bytes of a payload, which may stand in the module's table. Raises InvalidModuleError if it names none there."""
    if not payload.HasField("id"):
        return payload.value
    if not 0 <= payload.id < len(payloads):
        raise InvalidModuleError(f"there is no payload {payload.id} in a module of {len(payloads)}")
    return payloads[payload.id]


def frontend_attributes_text(attributes: xla.FrontendAttributes) -> str:
    """`{a="x",b={…}}`, by name; "" for none. A value within braces stands as it is."""
    if not attributes.map:
        return ""
    # std::map sorts by bytes, and so do code points of UTF-8.
    parts = [
        f"{key}={value}" if is_json_dict(value) else f'{key}="{escape(value)}"'
        for key, value in sorted(attributes.map.items())
    ]
    return f"{{{','.join(parts)}}}"


def statistics_text(statistics: xla.StatisticsViz) -> str:
    """`{visualizing_index=0,a=1}`; "" for no statistics."""
    if not statistics.statistics:
        return ""
    parts = [f"{one.stat_name}={number(one.stat_val)}" for one in statistics.statistics]
    return f"{{visualizing_index={statistics.stat_index_to_visualize},{','.join(parts)}}}"


def original_array_text(array: xla.OriginalArrayProto) -> str:
    """`"name" {0,1}`: an instruction of the program as it was, and where in its value."""
    index = f" {ints(array.shape_index)}" if array.shape_index else ""
    return f'"{array.instruction_name}"{index}'


class _Node:
    __slots__ = ("children", "text")

    def __init__(self) -> None:
        self.text: str | None = None
        self.children: dict[int, _Node] = {}


def original_value_text(value: xla.OriginalValueProto) -> str:
    """The tree of the arrays that a value was made from: `{({"a"}, {"b" {1}})}`, braces included."""
    if value.is_synthetic_call:
        return "{[synthetic_call]}"
    root = _Node()
    for element in value.elements:
        node = root
        if any(not 0 <= i < 1 << 20 for i in element.shape_index) or len(element.shape_index) > 100:
            raise InvalidModuleError(f"no tuple has an element {ints(element.shape_index)}")
        for i in element.shape_index:
            node = node.children.setdefault(i, _Node())
        if element.HasField("original_array"):
            node.text = f"{{{original_array_text(element.original_array)}}}"
        else:
            node.text = "{}"
    return f"{{{_tree_text(root)}}}"


def _tree_text(node: _Node) -> str:
    if node.children:
        last = max(node.children)
        return f"({', '.join([_tree_text(node.children[i]) if i in node.children else '()' for i in range(last + 1)])})"
    return node.text if node.text is not None else "()"
