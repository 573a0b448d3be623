r"""Where an instruction came from: `metadata={op_name="jit(f)/add" source_file="a.py" source_line=3}`.

metadata    := '{' (field (','? field)*)? '}'       field := name '=' (string | INT | '{' INT '}')
several     := metadata | '{' metadata (',' metadata)* '}'                  as shardings carry them

The proto keeps two fields as numbers into tables of the module: stack_frame_id and the id of metadata_payload. XLA writes nothing at all
of a message that has only lines, columns and profile types.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import attrgetter
from typing import Final

from xlashape.errors import InvalidModuleError
from xlashape.hlo.tokens.formatting import escape, ints
from xlashape.hlo.tokens.hlo_cursor import HloCursor
from xlashape.limits import INT32_MAX, INT32_MIN
from xlashape.proto import xla
from xlashape.proto.wire import Fields

_METADATA: Final = Fields(xla.OpMetadata)
_STRINGS: Final = frozenset(("op_type", "op_name", "source_file", "deduplicated_name", "scheduling_name"))
_INTS: Final = frozenset(("source_line", "source_end_line", "source_column", "source_end_column", "stack_frame_id"))


# -- reading ---------------------------------------------------------------------------------


def parse_metadata(cursor: HloCursor) -> tuple[bytes, int, bytes | None]:
    """The wire bytes of an OpMetadata without what the module keeps in tables: the stack frame and the payload.

    Behind the bytes: the number of the stack frame in the text's table, 0 for none, and the payload itself.
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
            pieces.append(_METADATA.string(name, cursor.parse_text(name)))
        elif name in _INTS:
            value = cursor.parse_int_between(INT32_MIN, INT32_MAX, name)
            if name == "stack_frame_id":
                frame = value
            else:
                pieces.append(_METADATA.integer(name, value))
        elif name == "profile_type":
            pieces.append(_METADATA.integers(name, cursor.parse_ints()))
        elif name == "metadata_payload":
            payload = cursor.parse_string(name)
        else:
            known = ", ".join(sorted(_STRINGS | _INTS | {"metadata_payload", "profile_type"}))
            raise cursor.error(
                f"metadata has no {name!r}; it has {known}", at=at, expected="a field of metadata", found=name
            )
    return b"".join(pieces), frame, payload


def parse_metadata_messages(cursor: HloCursor) -> list[xla.OpMetadata]:
    """One metadata or a list of several in braces. Stack frames keep the numbers of the text."""

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


# -- writing ---------------------------------------------------------------------------------

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
    r"""`op_name="x" source_line=3`, without braces; "" where XLA writes nothing.

    `frame` is the number of the stack frame in the tables that are written, 0 for none; `payloads` is the module's table.

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
    """The text of each, in braces, as shardings carry them: stack frames keep the numbers of the proto."""
    return [f"{{{metadata_text(metadata, metadata.stack_frame_id)}}}" for metadata in messages]


def payload_bytes(payload: xla.Payload, payloads: Sequence[bytes]) -> bytes:
    """The bytes of a payload, which may be in the module's table `payloads`. InvalidModuleError if the table does not have it."""
    if not payload.HasField("id"):
        return payload.value
    if not 0 <= payload.id < len(payloads):
        raise InvalidModuleError(f"there is no payload {payload.id} in a module of {len(payloads)}")
    return payloads[payload.id]
