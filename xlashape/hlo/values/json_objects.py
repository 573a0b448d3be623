r"""Values that are a string or an object: `backend_config={"a":1}` and `frontend_attributes={k="v",j={"a":1}}`.

config      := string | object
attributes  := '{' (name '=' (string | object) (',' …)*)? '}'
object      := '{' … '}'            JSON as a rule; only strings and braces are looked at, and the text is kept as it is

A value is written without quotes where braces enclose it and balance.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from xlashape.caches import cached
from xlashape.hlo.tokens.formatting import escape, is_json_dict
from xlashape.hlo.tokens.hlo_cursor import HloCursor
from xlashape.hlo.values.attribute import ABSENT, FIELDS, Attribute, Codec, Context
from xlashape.hlo.values.metadata import payload_bytes
from xlashape.proto import xla

_BRACE_OR_QUOTE = re.compile(r'[{}"]')


def _parse_object(cursor: HloCursor) -> bytes:
    """The text between braces, these included."""
    cursor.skip_space()
    start = cursor.at
    text = cursor.text
    if not text.startswith("{", start):
        cursor.fail("a string or an object in braces")
    at, depth = start, 0
    while True:
        match = _BRACE_OR_QUOTE.search(text, at)
        if match is None:
            raise cursor.error("this object is never closed", at=start, expected="'}'")
        at = match.end()
        char = match.group()
        if char == '"':
            at = cursor.string_end(at - 1)
        else:
            depth += 1 if char == "{" else -1
            if depth == 0:
                break
    cursor.at = at
    try:
        return text[start:at].encode()
    except UnicodeEncodeError:
        raise cursor.error("half of a surrogate pair is not text", at=start, expected="text") from None


# -- frontend_attributes ---------------------------------------------------------------------


def parse_frontend_attributes(cursor: HloCursor) -> xla.FrontendAttributes:
    """Names with strings or objects. Of a name that is given twice the last value counts."""
    attributes = xla.FrontendAttributes()

    def entry() -> None:
        name = cursor.parse_attribute_name()
        value = _parse_object(cursor) if cursor.looking_at("{") else cursor.parse_text(f"the value of {name}")
        attributes.map[name] = value.decode()

    cursor.parse_list(entry)
    return attributes


def frontend_attributes_text(attributes: xla.FrontendAttributes) -> str:
    """`{a="x",b={…}}`, sorted by name; "" for none."""
    if not attributes.map:
        return ""
    # XLA sorts names by their bytes; the order of code points is the same.
    parts = [
        f"{key}={value}" if is_json_dict(value) else f'{key}="{escape(value)}"'
        for key, value in sorted(attributes.map.items())
    ]
    return f"{{{','.join(parts)}}}"


def _read_frontend_attributes(cursor: HloCursor) -> bytes:
    data = parse_frontend_attributes(cursor).SerializeToString(deterministic=True)
    return FIELDS.message("frontend_attributes", data)


@cached(max_bytes=8 << 20, weigh=lambda key, text: 300 + len(key[0]) + len(text))
def _frontend_attributes(data: bytes) -> str:
    text = frontend_attributes_text(xla.FrontendAttributes.FromString(data))
    return f", frontend_attributes={text}" if text else ""


def _write_frontend_attributes(message: Any, _context: Context) -> str:
    data = message.frontend_attributes
    return "" if not data or data == ABSENT else _frontend_attributes(data)


# -- backend_config --------------------------------------------------------------------------


def _read_backend_config(cursor: HloCursor) -> bytes:
    value = _parse_object(cursor) if cursor.looking_at("{") else cursor.parse_string("a backend config")
    return FIELDS.string("backend_config", value)


def _write_backend_config(message: Any, context: Context) -> str:
    data: bytes = message.backend_config
    if message.backend_config_payload != ABSENT:
        data = payload_bytes(xla.Payload.FromString(message.backend_config_payload), context.payloads) or data
    if not data:
        return ""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return f', backend_config="{escape(data)}"'
    return f", backend_config={text}" if is_json_dict(text) else f', backend_config="{escape(text)}"'


def _get_frontend_attributes(instruction: xla.HloInstructionProto) -> Mapping[str, str]:
    return MappingProxyType(dict(sorted(instruction.frontend_attributes.map.items())))


def _put_frontend_attributes(instruction: xla.HloInstructionProto, value: Any) -> None:
    entries = dict(value or {})
    if not all(isinstance(key, str) and isinstance(text, str) for key, text in entries.items()):
        raise TypeError("not texts by name")
    if entries or instruction.HasField("frontend_attributes"):
        instruction.frontend_attributes.map.clear()
        instruction.frontend_attributes.map.update(entries)


def _get_backend_config(instruction: xla.HloInstructionProto) -> str | bytes | None:
    payload = instruction.backend_config_payload
    return config_value(payload.value or instruction.backend_config)


def _put_backend_config(instruction: xla.HloInstructionProto, value: Any) -> None:
    data = value.encode() if isinstance(value, str) else b"" if value is None else value
    if not isinstance(data, bytes):
        raise TypeError("not text")
    instruction.backend_config = data
    instruction.ClearField("backend_config_payload")


def config_value(data: bytes) -> str | bytes | None:
    """A configuration as text; as bytes where it is not UTF-8, None where it is empty."""
    if not data:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return data


BACKEND_CONFIG: Final = Attribute(
    "backend_config",
    _read_backend_config,
    _write_backend_config,
    Codec(_get_backend_config, _put_backend_config, "text or bytes"),
)
FRONTEND_ATTRIBUTES: Final = Attribute(
    "frontend_attributes",
    _read_frontend_attributes,
    _write_frontend_attributes,
    Codec(_get_frontend_attributes, _put_frontend_attributes, "texts by name"),
)
