"""Messages of HTTP: headers, origins, bodies and refusals.

What the headers of a request say: how long its caller waits, and how its answer may be compressed.

Which web pages may call: CORS for pages of other origins, and the names of this server for pages that claim to be of
its own.

A browser sends a preflight request first, and gives the answer to the page only if it is allowed. A page whose own name
leads to this machine once it is loaded (DNS rebinding) needs no permission of that kind: it is known by the name that
it asks for.

Statuses as connectrpc takes them, with details in JSON too.

Connect's protocol sends the bytes of a detail in base64, and beside them, under `debug`, what they say: for people who
read an answer with curl or in a browser's console. Clients read the bytes. connectrpc writes `debug` for messages whose
type it knows, so that the types of google.rpc are told to it.

The formats of messages over HTTP. Handlers use only protobuf's own format; JSON is read and written here, in the turn
of the call.

>>> from xlashape.proto import v1
>>> json_to_proto(b'{"indices": ["300"]}', v1.LinearIndexRequest, 1 << 20) == v1.LinearIndexRequest(indices=[300]).SerializeToString()
True
"""

from __future__ import annotations

import gzip
import ipaddress
import json
import re
from collections.abc import Iterable
from typing import Any, NamedTuple, cast

from connectrpc.code import Code
from connectrpc.errors import ConnectError, ErrorDetail
from google.protobuf import any_pb2, descriptor_pb2, json_format
from google.protobuf.descriptor import Descriptor, FileDescriptor
from google.protobuf.message import Message
from google.rpc import code_pb2, error_details_pb2, status_pb2
from protobuf import Registry
from protobuf.wkt import Any as AnyMessage
from protobuf.wkt import FileDescriptorSet

from xlashape.errors import DecodeError, LimitExceededError
from xlashape_server.config import Config
from xlashape_server.memory import reserve

ENCODINGS = ("accept-encoding", "connect-accept-encoding", "grpc-accept-encoding")
UNARY_TYPES = ("application/json", "application/proto")
_TIMEOUT = re.compile(r"\d{1,10}")
_GRPC_TIMEOUT = re.compile(r"(\d{1,8})([HMSmun])")
_GRPC_UNITS = {"H": 3600.0, "M": 60.0, "S": 1.0, "m": 1e-3, "u": 1e-6, "n": 1e-9}
_NO_WEIGHT = re.compile(r"q\s*=\s*0(\.0{0,3})?")


def timeout_of(headers: dict[str, str]) -> tuple[float | None, tuple[str, ...]]:
    """The timeout of a call in seconds, None without one, and the names of the headers that give it. The caller of this
    function removes them. A timeout that cannot be read is left in its header, and connectrpc refuses it.
    """
    timeout = headers.get("connect-timeout-ms")
    if timeout is not None and timeout.isascii() and _TIMEOUT.fullmatch(timeout):
        return int(timeout) / 1000, ("connect-timeout-ms",)
    match = _GRPC_TIMEOUT.fullmatch(headers.get("grpc-timeout", ""))
    if match is not None and headers["grpc-timeout"].isascii():
        return int(match[1]) * _GRPC_UNITS[match[2]], ("grpc-timeout",)
    return None, ()


def mistake_of(headers: Iterable[tuple[bytes, bytes]], query: bytes) -> str:
    r"""What is wrong with the headers and the query of any request; empty if nothing is.

    A request with a length and an encoding of its body ends at different places for different readers, such as a proxy
    and this server.

    >>> mistake_of([(b"x-name", b"caf\xe9")], b"")
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
    return ""


def encodings_header(http_method: str, media_type: str) -> str:
    """The header that says how answers may be compressed: the whole of one, or each message by itself. Empty for gRPC,
    whose clients all accept gzip and none expects it.
    """
    if http_method == "GET" or media_type in UNARY_TYPES:
        return "accept-encoding"
    if media_type.startswith("application/grpc"):
        return "grpc-accept-encoding" if media_type.startswith("application/grpc-web") else ""
    return "connect-accept-encoding"


def accepts_gzip(header: str) -> bool:
    """Whether a header such as Accept-Encoding has gzip in it.

    >>> accepts_gzip("br, gzip;q=0.5"), accepts_gzip("gzip;q=0, br"), accepts_gzip("")
    (True, False, False)
    """
    for each in header.lower().split(","):
        name, _, weight = each.partition(";")
        if name.strip() == "gzip":
            return not _NO_WEIGHT.fullmatch(weight.strip())
    return False


# -- origins -----------------------------------------------------------------------------------


Headers = list[tuple[bytes, bytes]]

# Headers that clients of Connect and gRPC-Web send, besides those that browsers always allow.
_REQUEST_HEADERS = (
    "authorization, content-type, connect-protocol-version, connect-timeout-ms, connect-content-encoding, "
    "connect-accept-encoding, "
    "content-encoding, grpc-timeout, grpc-encoding, grpc-accept-encoding, x-grpc-web, x-user-agent"
)
_ANSWER_HEADERS = "grpc-status, grpc-message, grpc-status-details-bin, connect-content-encoding, content-encoding"
_PREFLIGHT_SECONDS = 7200  # seconds for which browsers keep the answer to a preflight; Chrome's maximum


class Hosts:
    """The names that callers may ask for: addresses in numbers and `localhost`, which nobody else's name leads to, and
    those of `http_hosts`.

    A server that other machines can reach answers to any name, unless `http_hosts` says which: its own name is not
    known.
    """

    def __init__(self, config: Config) -> None:
        self._named = frozenset(config.allowed_hosts())
        self._allows_all = "*" in self._named or not (self._named or config.is_loopback)

    def allow(self, host: str | None) -> bool:
        """Whether a request for `host`, a name and perhaps a port, may be answered. Requests of HTTP/1.0 may have none,
        and browsers send none.
        """
        if self._allows_all or host is None:
            return True
        name = host.lower()
        bare, colon, port = name.rpartition(":")
        if colon and (port.isdigit() or not port) and not bare.endswith(":"):
            name = bare
        name = name.removesuffix(".")
        if name in self._named or name == "localhost" or name.endswith(".localhost"):
            return True
        try:
            ipaddress.ip_address(name.strip("[]"))
        except ValueError:
            return False
        return True


class Origins:
    """The origins of `http_origins`: none, some, or all (`*`)."""

    def __init__(self, config: Config) -> None:
        self._allowed = frozenset(config.allowed_origins())
        self._allows_all = "*" in self._allowed

    def headers(self, origin: str | None) -> Headers:
        """The headers of an answer to a page of `origin`; None if the request has no Origin header."""
        if not self._allowed:
            return []
        if self._allows_all:
            return [
                (b"access-control-allow-origin", b"*"),
                (b"access-control-expose-headers", _ANSWER_HEADERS.encode()),
            ]
        # Caches must keep answers for different origins apart.
        if origin is None or origin not in self._allowed:
            return [(b"vary", b"Origin")]
        return [
            (b"access-control-allow-origin", origin.encode()),
            (b"access-control-expose-headers", _ANSWER_HEADERS.encode()),
            (b"vary", b"Origin"),
        ]

    def preflight(self, origin: str | None) -> Headers:
        """The headers of the answer to a preflight."""
        headers = self.headers(origin)
        if any(name == b"access-control-allow-origin" for name, _ in headers):
            headers += [
                (b"access-control-allow-methods", b"GET, POST"),
                (b"access-control-allow-headers", _REQUEST_HEADERS.encode()),
                (b"access-control-max-age", b"%d" % _PREFLIGHT_SECONDS),
            ]
        return headers


# -- refusals ----------------------------------------------------------------------------------


_CODES = {member.value.upper().replace("CANCELED", "CANCELLED"): member for member in Code}


def connect_error(status: status_pb2.Status) -> ConnectError:
    """Code, message and details of a status."""
    code = _CODES.get(code_pb2.Code.Name(status.code), Code.UNKNOWN)
    return ConnectError(code, status.message, [_detail(each) for each in status.details])


def _detail(packed: any_pb2.Any) -> ErrorDetail:
    kept = AnyMessage(type_url=packed.type_url, value=packed.value)
    kind = _REGISTRY.message(packed.type_url.rpartition("/")[2])
    message = None if kind is None else kept.unpack(kind)
    return ErrorDetail(kept if message is None else message)


def _registry() -> Registry:
    """The types of google.rpc's error details."""
    files = descriptor_pb2.FileDescriptorSet()

    def add(file: FileDescriptor) -> None:
        for dependency in file.dependencies:
            add(dependency)
        if file.name not in {known.name for known in files.file}:
            file.CopyToProto(files.file.add())
            for message in files.file[-1].message_type:
                _name_fields(message, file.message_types_by_name[message.name])

    add(error_details_pb2.DESCRIPTOR)
    kind: Any = cast("Any", FileDescriptorSet)  # its types are of newer Pythons than the oldest that this runs on
    return kind.from_binary(files.SerializeToString()).to_registry()


def _name_fields(message: descriptor_pb2.DescriptorProto, known: Descriptor) -> None:
    """Sets the names of fields in JSON, which Google's descriptors know and do not copy."""
    for field in message.field:
        field.json_name = known.fields_by_name[field.name].json_name
    for nested in message.nested_type:
        _name_fields(nested, known.nested_types_by_name[nested.name])


_REGISTRY = _registry()


# -- messages ----------------------------------------------------------------------------------


_MEMORY_OF_JSON = 25  # upper bound of the bytes of Python objects for each byte of JSON; `{},` takes 72
# the same for each byte of an answer: a varint of two bytes becomes a str of 53 bytes and an entry in a list
_MEMORY_OF_ANSWER = 40
_MAX_ERROR_TEXT = 300
_GZIP = b"\x1f\x8b"  # no message of protobuf or JSON begins so
_LEVEL = 1  # 1 MB of JSON about instructions is 9 times smaller after 4 ms; level 6 makes it 10 times smaller in 7 ms


class Received(NamedTuple):
    """A message as it was received."""

    data: bytes
    is_json: bool


class _Codec:
    """A codec for connectrpc that leaves messages undecoded: they are decoded where a call has a turn and a
    reservation, not on the event loop.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._is_json = name == "json"

    def name(self) -> str:
        return self._name

    def encode(self, message: bytes) -> bytes:
        return message

    def decode(self, data: bytes | bytearray, message_class: object) -> Received:
        del message_class
        return Received(bytes(data), self._is_json)


class _Gzip:
    """Compression with gzip for connectrpc, which leaves messages as they come: the guard unpacks requests, within its
    limits, and answers are compressed in the turns of their calls, not on the event loop.
    """

    def name(self) -> str:
        return "gzip"

    def compress(self, data: bytes | bytearray | memoryview) -> bytes:
        return (
            bytes(data) if bytes(data[:2]) == _GZIP else compressed(bytes(data))
        )  # what connectrpc says at the end of a stream

    def decompress(self, data: bytes | bytearray | memoryview, read_max_bytes: int | None = None) -> bytes:
        del read_max_bytes
        if bytes(data[:2]) != _GZIP:
            raise ValueError("the message is not in the format of gzip")
        return bytes(data)


def compressed(data: bytes) -> bytes:
    """The content compressed with gzip."""
    return gzip.compress(data, _LEVEL, mtime=0)


CODECS: tuple[Any, ...] = (_Codec("proto"), _Codec("json"))
COMPRESSIONS: tuple[Any, ...] = (_Gzip(),)


def json_to_proto(data: bytes, kind: type[Message], max_bytes: int) -> bytes:
    """A message of `kind` in JSON, converted to protobuf's format. DecodeError if `data` is not such a message,
    LimitExceededError if it has more than `max_bytes`.

    Unknown fields are errors: a misspelled name would otherwise be a field that is not set.
    """
    if not data.strip():
        return b""
    if len(data) > max_bytes:
        raise LimitExceededError(
            f"a request message in JSON has {len(data)} bytes, of {max_bytes} allowed; protobuf's own format (proto) "
            "may be larger",
            limit="json_bytes",
            maximum=max_bytes,
            value=len(data),
        )
    reserve(_MEMORY_OF_JSON * len(data))
    try:
        if data.lstrip()[:1] != b"{":  # an empty list, which Parse takes for an empty message
            raise ValueError("expected an object in braces")
        return json_format.Parse(data, kind()).SerializeToString()
    except json_format.ParseError as error:
        text = str(error)
    except (RecursionError, ValueError) as error:
        text = str(error)
    if "recursion" in text:
        text = "it is nested too deeply"
    text = " ".join(text.split()).removesuffix(".")
    raise DecodeError(
        f"not a {kind.DESCRIPTOR.full_name} in JSON: "
        f"{text if len(text) <= _MAX_ERROR_TEXT else text[:_MAX_ERROR_TEXT] + '…'}"
    )


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
