"""Reads the headers of requests over HTTP, and converts messages from and to JSON.

Browsers keep answers from pages of other origins, since this server allows none.

Handlers use protobuf's own format. JSON is converted here, while the call has its turn to compute.

>>> from xlashape.proto import v1
>>> json_to_proto(b'{"indices": ["300"]}', v1.LinearIndexRequest, 1 << 20) == v1.LinearIndexRequest(
...     indices=[300]
... ).SerializeToString()
True
"""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Iterable
from contextlib import suppress
from typing import Any, cast

from google.protobuf import json_format
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message

from xlashape.errors import DecodeError, InvalidArgumentError, LimitExceededError
from xlashape.proto import is_repeated
from xlashape_server.memory import reserve

_TIMEOUT = re.compile(r"[0-9]{1,10}")
_NO_WEIGHT = re.compile(r"q\s*=\s*0(\.0{0,3})?")


def timeout_of(headers: dict[str, str]) -> float | None:
    """The timeout of a call in seconds; None without one. InvalidArgumentError if it cannot be read.

    >>> timeout_of({"connect-timeout-ms": "1500"}), timeout_of({})
    (1.5, None)
    """
    text = headers.get("connect-timeout-ms")
    if text is None:
        return None
    if not _TIMEOUT.fullmatch(text):
        raise InvalidArgumentError(f"connect-timeout-ms: cannot read the timeout {text[:100]!r}")
    return int(text) / 1000


def mistake_of(headers: Iterable[tuple[bytes, bytes]], query: bytes, version: str) -> str:
    r"""What is wrong with the headers and the query of a request of HTTP `version`; empty if nothing is.

    If a request has both content-length and transfer-encoding, two readers, such as a proxy and this server, may see
    its end at different places. The same holds for transfer-encoding in HTTP/1.0, which does not know it (RFC 9112,
    section 6.1).

    >>> mistake_of([(b"x-name", b"caf\xe9")], b"", "1.1")
    'header x-name: expected ASCII, found the byte 0xe9'
    """
    names: set[bytes] = set()
    for name, value in headers:
        names.add(name.lower())
        for part in (name, value):
            if not part.isascii():
                shown = name.decode("ascii", "replace")[:100]
                return f"header {shown}: expected ASCII, found the byte 0x{next(each for each in part if each > 127):x}"
    if not query.isascii():
        return "query: expected ASCII, with other characters as %XX"
    if {b"content-length", b"transfer-encoding"} <= names:
        return "content-length and transfer-encoding: expected one of them"
    if version == "1.0" and b"transfer-encoding" in names:
        return "transfer-encoding: not known in HTTP/1.0"
    return ""


def accepts_gzip(header: str) -> bool:
    """Whether a header such as Accept-Encoding allows gzip.

    >>> accepts_gzip("br, gzip;q=0.5"), accepts_gzip("gzip;q=0, br"), accepts_gzip("")
    (True, False, False)
    """
    for each in header.lower().split(","):
        name, _, weight = each.partition(";")
        if name.strip() == "gzip":
            return not _NO_WEIGHT.fullmatch(weight.strip())
    return False


Headers = list[tuple[bytes, bytes]]


# -- messages ----------------------------------------------------------------------------------


# The most bytes of memory that Python's objects take for a byte of JSON: the three bytes `{},` take 72.
_MEMORY_OF_JSON = 25
# The most bytes of memory that Python's objects take for a serialized byte of an answer: a varint of two bytes becomes
# a str of 53 bytes and an entry in a list.
_MEMORY_OF_ANSWER = 40
_MAX_ERROR_TEXT = 300  # characters
# gzip's level: 1 MB of JSON about instructions becomes 9 times smaller in 4 ms. With level 6, 10 times in 7 ms.
_LEVEL = 1


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


def compressed(data: bytes) -> bytes:
    """`data`, compressed with gzip."""
    return gzip.compress(data, _LEVEL, mtime=0)


def json_to_proto(data: bytes, kind: type[Message], max_bytes: int) -> bytes:
    """A message of `kind` in JSON, converted to protobuf's format. DecodeError if `data` is not such a message,
    LimitExceededError if it has more than `max_bytes`. Blank `data` is an empty message.

    Unknown fields are errors: a misspelled name would otherwise be a field that is not set.
    """
    if len(data) > max_bytes:
        raise LimitExceededError(
            f"a request message in JSON has {len(data)} bytes, of {max_bytes} allowed; protobuf's own format (proto) "
            "may be larger",
            limit="json_bytes",
            maximum=max_bytes,
            value=len(data),
        )
    if not data.strip():
        return b""
    reserve(_MEMORY_OF_JSON * len(data))
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


def proto_to_json(data: bytes, kind: type[Message], max_bytes: int) -> bytes:
    """A serialized answer of `kind`, converted to JSON in one line. LimitExceededError if the answer has more than
    `max_bytes`, serialized.
    """
    if len(data) > max_bytes:
        raise LimitExceededError(
            f"the answer has {len(data)} bytes, and up to {max_bytes} are written as JSON; ask for protobuf's own "
            "format (proto)",
            limit="json_bytes",
            maximum=max_bytes,
            value=len(data),
        )
    reserve(_MEMORY_OF_ANSWER * len(data))
    found = json_format.MessageToDict(kind.FromString(data))
    return json.dumps(found, ensure_ascii=False, separators=(",", ":")).encode()
