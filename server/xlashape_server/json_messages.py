"""Converts messages between JSON and protobuf's own format, in which handlers read and write.

>>> from xlashape.proto import v1
>>> json_to_proto(b'{"indices": ["300"]}', v1.LinearIndexRequest) == v1.LinearIndexRequest(
...     indices=[300]
... ).SerializeToString()
True
"""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any, cast

from google.protobuf import json_format
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message

from xlashape.errors import DecodeError
from xlashape.proto import is_repeated

_MAX_ERROR_TEXT = 300  # characters


_NAMES: dict[type, str] = {
    str: "text",
    bool: "true or false",
    int: "a number",
    float: "a number",
    list: "a list",
    dict: "an object",
}
_NUMBER = ((int, float, str), "a number")
_TYPES: dict[int, tuple[tuple[type, ...], str]] = {
    FieldDescriptor.CPPTYPE_INT32: _NUMBER,
    FieldDescriptor.CPPTYPE_INT64: _NUMBER,
    FieldDescriptor.CPPTYPE_UINT32: _NUMBER,
    FieldDescriptor.CPPTYPE_UINT64: _NUMBER,
    FieldDescriptor.CPPTYPE_DOUBLE: _NUMBER,
    FieldDescriptor.CPPTYPE_FLOAT: _NUMBER,
    FieldDescriptor.CPPTYPE_BOOL: ((bool,), "true or false"),
    FieldDescriptor.CPPTYPE_ENUM: ((str, int), "the name of a value"),
    FieldDescriptor.CPPTYPE_STRING: ((str,), "text"),
    FieldDescriptor.CPPTYPE_MESSAGE: ((dict,), "an object"),
}
"""C++ type of a field → Python's types of its value in JSON, and the words for them in errors. JSON has integers of 64
bits as texts.
"""


def json_to_proto(data: bytes, kind: type[Message]) -> bytes:
    """A message of `kind` in JSON, converted to protobuf's format. DecodeError if `data` is not such a message.
    Blank `data` is an empty message.

    Unknown fields are errors: a misspelled name would otherwise be a field that is not set.
    """
    if not data.strip():
        return b""
    try:
        if data.lstrip()[:1] != b"{":  # Parse takes an empty list for an empty message
            raise ValueError("expected an object in braces")
        return json_format.Parse(data, kind()).SerializeToString()
    except (json_format.ParseError, RecursionError, ValueError) as error:
        text = str(error)
    with suppress(RecursionError, ValueError):  # the data is no JSON
        text = _wrong_type(json.loads(data), cast("Descriptor", kind.DESCRIPTOR)) or text
    if "recursion" in text:
        text = "it is nested too deeply"
    if "SystemError" in text:  # raised by upb, protobuf's C library, when it looks the name up
        text = "the name of a field has half of a surrogate pair, which is not text"
    text = " ".join(text.split()).removesuffix(".")
    raise DecodeError(
        f"not a {kind.DESCRIPTOR.full_name} in JSON: "
        f"{text if len(text) <= _MAX_ERROR_TEXT else text[:_MAX_ERROR_TEXT] + '…'}"
    )


def _wrong_type(message: Any, kind: Descriptor, path: str = "") -> str:
    """An error text about the first value in a JSON message that does not have the type of its field; empty if all
    have. json_format's own errors name types of Python.
    """
    for name, value in cast("dict[str, Any]", message).items() if isinstance(message, dict) else ():
        if value is None or not name.isascii():  # looking up half of a surrogate pair fails in upb
            continue
        field = kind.fields_by_camelcase_name.get(name, kind.fields_by_name.get(name))
        if field is None:
            continue
        at, values = f"{path}{name}", {"": value}
        if is_repeated(field):
            if type(value) is not list:
                return f"{at}: expected a list, found {_named(value)}"
            values = {f"[{number}]": each for number, each in enumerate(cast("list[Any]", value))}
        for index, each in values.items():
            types, expected = _TYPES[field.cpp_type]
            if type(each) not in types or (expected == "a number" and not _is_number(each)):
                return f"{at}{index}: expected {expected}, found {_named(each)}"
            text = _wrong_type(each, field.message_type, f"{at}{index}.") if field.message_type is not None else ""
            if text:
                return text
    return ""


def _is_number(value: str | float) -> bool:
    try:
        float(value)
    except (ValueError, OverflowError) as error:
        return isinstance(error, OverflowError)  # json_format's error says that the number is out of range
    return True


def _named(value: object) -> str:
    return _NAMES.get(type(value), "null")


def proto_to_json(data: bytes, kind: type[Message]) -> bytes:
    """A serialized answer of `kind`, converted to JSON in one line."""
    found = json_format.MessageToDict(kind.FromString(data))
    return json.dumps(found, ensure_ascii=False, separators=(",", ":")).encode()
