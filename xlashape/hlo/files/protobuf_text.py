"""Reads and writes modules (HloModuleProto or HloProto) as protobuf text and as protobuf JSON."""

from __future__ import annotations

import json
import re
from typing import Any, Final

from xlashape.base.text import Source
from xlashape.errors import DecodeError, ParseError
from xlashape.proto import pool, xla

_MAX_F32: Final = float.fromhex("0x1.fffffep+127")
_ROUNDS_TO_INFINITY: Final = float.fromhex("0x1.ffffffp+127")  # the least number that becomes infinity as an f32
_MESSAGES: Final = (xla.HloModuleProto, xla.HloProto)
FIELD_NAMES: Final = frozenset(field.name for message in _MESSAGES for field in message.DESCRIPTOR.fields)
"""The names of fields with which the protobuf text of a module may begin."""
PBTXT_START: Final = re.compile(r"(?:\s|#[^\n]*\n)*(?:#|([a-z_0-9]+)\s*(?::|[{<](?!\s*(?:ROOT\s+)?%?[\w.\-]+\s*=)))")


def _text(data: bytes, name: str | None, what: str) -> Source:
    try:
        return Source(data.decode("utf-8-sig"), name)
    except UnicodeDecodeError as error:
        raise DecodeError(f"{what} is not UTF-8 at byte {error.start}") from error


def from_json(data: bytes, name: str | None) -> xla.HloModuleProto | xla.HloProto:
    """The module in protobuf JSON. Raises ParseError or DecodeError for a mistake."""
    from google.protobuf import json_format  # start-up time: 10 ms

    source = _text(data, name, "JSON")
    try:
        value: Any = json.loads(source.text, parse_float=_json_float)
    except json.JSONDecodeError as error:
        raise source.error(error.pos, f"not JSON: {error.msg}") from error
    except (RecursionError, ValueError) as error:
        raise DecodeError(f"not JSON: {'nested too deep' if isinstance(error, RecursionError) else error}") from error
    keys: set[Any] = set(value) if isinstance(value, dict) else set()  # pyright: ignore[reportUnknownArgumentType] # JSON
    is_hlo_proto = bool(keys & {"hloModule", "hlo_module", "bufferAssignment", "buffer_assignment"})
    message = xla.HloProto() if is_hlo_proto else xla.HloModuleProto()
    try:
        return json_format.ParseDict(value, message, descriptor_pool=pool)  # pyright: ignore[reportUnknownArgumentType] # JSON
    except (json_format.Error, RecursionError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise DecodeError(f"not the JSON of a {message.DESCRIPTOR.full_name}: {_first_line(error)}") from error
    except SystemError as error:  # upb, protobuf's C implementation, fails to look up the name of a field
        reason = "the name of a field has half of a surrogate pair, which is not text"
        raise DecodeError(f"not the JSON of a {message.DESCRIPTOR.full_name}: {reason}") from error


def _json_float(text: str) -> float | str:
    """A number of JSON. A number above the largest f32 that rounds down to it stays text, since json_format refuses it
    as a float, but reads it as text.

    >>> _json_float("1.5"), _json_float("3.4028235e+38")
    (1.5, '3.4028235e+38')
    """
    value = float(text)
    return text if _MAX_F32 < abs(value) < _ROUNDS_TO_INFINITY else value


def from_pbtxt(data: bytes, name: str | None) -> xla.HloModuleProto | xla.HloProto:
    """The module in protobuf text. Raises ParseError or DecodeError for a mistake."""
    from google.protobuf import text_format  # start-up time: 10 ms

    source = _text(data, name, "protobuf text")
    field = re.search(r"^[^\S\n]*(?:hlo_module|buffer_assignment)\b", source.text, re.MULTILINE)
    start = PBTXT_START.match(source.text)
    is_hlo_proto = field is not None and start is not None and start[1] in (None, "hlo_module", "buffer_assignment")
    message = xla.HloProto() if is_hlo_proto else xla.HloModuleProto()
    try:
        return text_format.Parse(source.text, message, descriptor_pool=pool)
    except text_format.ParseError as error:
        line, column = error.GetLine() or 1, error.GetColumn() or 1
        message_text = re.sub(r"^[0-9]+:[0-9]+ : ", "", _first_line(error))
        source_line = source.text.split("\n", line)[line - 1][:100] if line <= source.text.count("\n") + 1 else ""
        raise ParseError(
            message_text, line=line, column=column, source_line=source_line, caret=column - 1, name=name
        ) from error
    except (RecursionError, ValueError, OverflowError) as error:
        reason = "nested too deep" if isinstance(error, RecursionError) else _first_line(error)
        raise DecodeError(f"not the protobuf text of a {message.DESCRIPTOR.full_name}: {reason}") from error


def _first_line(error: Exception) -> str:
    return str(error).split("\n", 1)[0][:300]


def to_json(message: xla.HloModuleProto | xla.HloProto) -> bytes:
    """A module as protobuf JSON."""
    from google.protobuf import json_format  # start-up time: 10 ms

    text = json_format.MessageToJson(message, preserving_proto_field_name=True, descriptor_pool=pool)
    return text.encode("utf-8", "surrogatepass") + b"\n"


def to_pbtxt(message: xla.HloModuleProto | xla.HloProto) -> bytes:
    """A module as protobuf text."""
    from google.protobuf import text_format  # start-up time: 10 ms

    return text_format.MessageToString(message, as_utf8=True, descriptor_pool=pool).encode("utf-8", "surrogatepass")
