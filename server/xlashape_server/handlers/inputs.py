"""Converts requests to values of the library, within the limits of the settings. Errors have the path of the request's
field, such as `shapes[3].text`.
"""

from __future__ import annotations

import base64
import hashlib
import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

import numpy as np
from google.protobuf.message import Message
from numpy.typing import NDArray

from xlashape.base.caches import BoundedCache
from xlashape.errors import (
    FieldPath,
    InvalidArgumentError,
    InvalidIndexError,
    XlashapeError,
)
from xlashape.hlo.files.convert import decompressed
from xlashape.limits import Budget, at_most, spend
from xlashape.proto import v1
from xlashape.proto.packed import split
from xlashape.shape import Shape
from xlashape.shape.parts.checks import brief
from xlashape.symbolic import IndexingMap
from xlashape_server.config import Config

R = TypeVar("R", bound=Message)
S = TypeVar("S")

_TOKEN = struct.Struct("<Q12s")
_MOST_WITHOUT_NUMBERS = 1 << 20  # items without numbers, of which a request of some bytes states how many
_SMALL_SHAPE = 4096  # bytes or characters; a smaller shape is read quickly, and is not checked before
_MAX_CACHED_BYTES = 2048  # bytes of one map's message; larger maps are rarely repeated, and not cached
# Map and style of text → its message, which modules repeat.
_outputs: BoundedCache[tuple[IndexingMap, str], v1.MapOutput] = BoundedCache(
    "xlashape_server: maps of responses", 32 << 20, lambda _, output: 2000 + 10 * output.ByteSize()
)


def check_text(size: int, maximum: int, what: str = "the text has {} characters") -> None:
    """LimitExceededError "text_bytes" for the text or the message of a shape or a map that is too long."""
    at_most(maximum, size, "text_bytes", what)


def unpacked(data: bytes, name: str, maximum: int) -> bytes:
    """The content of the field `name`, decompressed if it is gzip data. DecodeError if that is broken,
    LimitExceededError "module_bytes" if the content has more than `maximum` bytes.
    """
    try:
        content = decompressed(data, maximum)
    except XlashapeError as error:
        raise error.within(name) from None
    at_most(maximum, len(content), "module_bytes", "the content has {} bytes or more", field=name)
    return content


def placed(error: XlashapeError, otherwise: FieldPath, **arguments: FieldPath) -> XlashapeError:
    """The error of a call of the library, with the path of the request's field that is wrong.

    `arguments` maps an argument of the call to the field that its value came from. An error about another argument, or
    about none, gets the path `otherwise`.
    """
    argument = error.path[0] if error.path else ""
    if argument in arguments:
        error.path = (*arguments[str(argument)], *error.path[1:])
    else:
        error.path = otherwise
    return error


def shape_of(value: v1.ShapeInput, path: FieldPath, config: Config) -> Shape:
    """The shape of an input. An array without a layout gets the default layout. LimitExceededError "shape_elements" if
    the shape has too many parts.
    """
    form = value.WhichOneof("form")
    try:
        if form == "text":
            text = value.text
            if len(text) > _SMALL_SHAPE:
                at_most(config.max_shape_elements, text.count(","), "shape_elements", "the shape's text has {} commas")
                check_text(len(text), config.max_text_bytes)
            return Shape.parse(text)
        if form == "serialized":
            return _with_layout(_check_elements(Shape.from_proto(value.serialized), config.max_shape_elements))
        if form == "shape":
            data = value.shape.SerializeToString()  # xlashape.v1.Shape has the same bytes as xla.ShapeProto
            return _with_layout(_check_elements(Shape.from_proto(data), config.max_shape_elements))
    except XlashapeError as error:
        raise error.within(*path, form or "") from None
    raise InvalidArgumentError("a shape is missing: expected shape, serialized or text", field=path)


def _check_elements(shape: Shape, maximum: int) -> Shape:
    """The shape. LimitExceededError "shape_elements" if it has too many parts."""
    found, waiting = 0, [shape]
    while waiting:
        parts = waiting.pop().tuple_shapes
        found += len(parts)
        waiting += [each for each in parts if each.tuple_shapes]
    at_most(maximum, found, "shape_elements", "the shape has {} shapes within it")
    return shape


def _with_layout(shape: Shape) -> Shape:
    # In a proto the layout of an array may be absent, which means the default layout. Shapes that were read from text
    # have it already.
    if shape.is_array:
        return shape if shape.layout is not None else shape.with_default_layout()
    if shape.tuple_shapes:
        filled = tuple([_with_layout(part) for part in shape.tuple_shapes])
        return (
            shape
            if all(a is b for a, b in zip(filled, shape.tuple_shapes, strict=True))
            else shape.replace(tuple_shapes=filled)
        )
    return shape


def map_of(value: v1.MapInput, path: FieldPath, config: Config) -> IndexingMap:
    """The map of an input."""
    form = value.WhichOneof("form")
    try:
        if form == "text":
            check_text(len(value.text), config.max_text_bytes)
            return IndexingMap.parse(value.text)
        if form == "map":
            check_text(value.map.ByteSize(), config.max_text_bytes, "the map has {} bytes")
            return IndexingMap.from_proto(value.map)
    except XlashapeError as error:
        raise error.within(*path, form or "") from None
    raise InvalidArgumentError("a map is missing: expected map or text", field=path)


def map_output(value: IndexingMap, style: str) -> v1.MapOutput:
    """The message for a map, with its text. Callers share the message and must not change it: to make one takes 80 µs,
    and a module has the same map many times.
    """
    key = value, style
    output = _outputs.get(key)
    if output is None:
        output = v1.MapOutput(map=value.to_proto(), text=value.to_text(style))
        if output.ByteSize() <= _MAX_CACHED_BYTES:
            _outputs.put(key, output)
    return output


def style_of(number: int) -> str:
    """The library's name for a TextStyle."""
    return choice(number, ("xla", "xla", "affine"), "style")


def choice(number: int, meanings: Sequence[str], field: str) -> str:
    """The entry of `meanings` for the number of an enum. InvalidArgumentError for a number that this version does not
    know.
    """
    if not 0 <= number < len(meanings):
        raise InvalidArgumentError(f"expected a number from 0 to {len(meanings) - 1}, found {number}", field=field)
    return meanings[number]


def not_negative(request: Message, *names: str) -> None:
    """InvalidArgumentError if one of these fields of a request is negative."""
    for name in names:
        if getattr(request, name) < 0:
            raise InvalidArgumentError(f"expected 0 or more, found {getattr(request, name)}", field=name)


class RequestedPage:
    """The page that a request asks for with `page_size` and `page_token`. A token holds the number of the page's first
    item, and a digest of the request without the two fields, which are cleared in it: InvalidArgumentError for a token
    of another request.
    """

    def __init__(self, request: Message, maximum: int) -> None:
        self._request = request
        asked: Any = request
        not_negative(asked, "page_size")
        size, token = asked.page_size, asked.page_token
        self.size: int = min(size or maximum, maximum)
        asked.ClearField("page_size")
        asked.ClearField("page_token")
        self.start = 0
        if token:
            try:
                self.start, digest = _TOKEN.unpack(base64.urlsafe_b64decode(token))
            except (struct.error, ValueError):
                digest = b""
            if digest != self._digest() or not 0 <= self.start <= 1 << 62:
                raise InvalidArgumentError(
                    "expected the next_page_token of an answer to the same request", field="page_token"
                )

    def _digest(self) -> bytes:
        return hashlib.sha256(self._request.SerializeToString(deterministic=True)).digest()[:12]

    def next_token(self, end: int, count: int) -> str:
        """The token of the page from item `end` on; empty if there are `count` items and no more."""
        return base64.urlsafe_b64encode(_TOKEN.pack(end, self._digest())).decode() if end < count else ""


def batch(count: int, maximum: int, field: str) -> None:
    """LimitExceededError "batch" if the repeated `field` of a request has more than `maximum` values."""
    at_most(maximum, count, "batch", f"{{}} {field} in one request", field=field)


def item_count(numbers: int, each: int, stated: int | None, field: str, item: str, of: Shape | None = None) -> int:
    """How many items, such as indices, are in a list of `numbers` numbers, where each item has `each` numbers. Errors
    call an item `item`, perhaps of the shape `of`.

    `stated` is the number of items that the request states, or None. Items without numbers (of rank 0) cannot be
    counted: there are `stated` of them, or 1. InvalidIndexError if the items have too few or too many numbers,
    InvalidArgumentError if there are not `stated` items, LimitExceededError "indices" if there are too many items
    without numbers.
    """
    if stated is not None and stated < 0:
        raise InvalidArgumentError(f"expected 0 or more, found {stated}", field="count")
    found = numbers // each if each else 1 if stated is None else stated
    if numbers != found * each or (stated is not None and stated != found):
        if numbers == found * each and stated != 1:
            raise InvalidArgumentError(
                f"expected {found}, the number of items in {field}, found {stated}", field="count"
            )
        of_what = "" if of is None else f" of {brief(of)}"
        in_all = "" if stated == 1 or numbers < each else " in all"
        raise InvalidIndexError(
            f"expected {each or 'no'} number{'s'[: each != 1]} in {item}{of_what}, found {numbers}{in_all}", field=field
        )
    if not each:
        at_most(_MOST_WITHOUT_NUMBERS, found, "indices", f"{{}} {field} in one request", field=field)
    return found


def stated_count(request: Any, otherwise: int | None = None) -> int | None:
    """The number of items that a request states, or else `otherwise`. Items without numbers (of rank 0) cannot be
    counted, so in a message of a stream that states none there are 0.
    """
    return request.count if request.HasField("count") else otherwise


def first_message_only(request: Message, *names: str) -> None:
    """InvalidArgumentError if a message after the first of a stream has a field that only the first may have."""
    for descriptor, _ in request.ListFields():
        if descriptor.name in names:
            raise InvalidArgumentError("allowed in the first message of the stream only", field=descriptor.name)


def stream_answers(
    kind: type[R],
    field: str,
    requests: Iterable[bytes],
    begins: Callable[[R], S],
    answer: Callable[[S, R, NDArray[np.int64]], bytes],
    bounds: Callable[[], Budget],
) -> Iterator[bytes]:
    """The answer to each message of a stream, whose `field` has numbers. `begins` makes what they are about of the
    first message, whose other fields the others do not have. Each message has a budget of its own.
    """
    about: S | None = None
    seen = 0  # how many numbers earlier messages had
    for data in requests:
        with bounds():
            spend(256)
            request, [bulk] = split(kind, data, field)
            if about is None:
                about = begins(request)
            else:
                first_message_only(request, "shape", "order", "map")
            numbers = np.frombuffer(bulk, "<i8")
            try:
                made = answer(about, request, numbers)
            except XlashapeError as error:
                raise counted_from(seen, error, field) from None
            seen += len(numbers)
        yield made


def counted_from(seen: int, error: XlashapeError, field: str) -> XlashapeError:
    """An error about one number of `field` in a message of a stream. Its path gets the number's index in the whole
    stream: `seen` numbers were in earlier messages.
    """
    if len(error.path) == 2 and error.path[0] == field and isinstance(error.path[1], int):
        error.path = (field, seen + error.path[1])
    return error


def response_size(size: int, maximum: int, path: FieldPath) -> None:
    """LimitExceededError "response_bytes" if a response of `size` bytes is more than the `maximum`. `path` is the field
    of the request that makes it large.
    """
    at_most(maximum, size, "response_bytes", "the answer would have {} bytes", field=path)


def payload(numbers: NDArray[Any]) -> memoryview:
    """The numbers as the content of a packed field: integers as little-endian int64s, booleans as bytes 0 and 1."""
    if not numbers.size:
        return memoryview(b"")
    return np.ascontiguousarray(numbers, "<i8" if numbers.dtype != np.bool_ else None).data.cast("B")
