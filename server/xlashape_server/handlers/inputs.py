"""What requests are made of, as values of the library. The path of an error is that of the field in the request: `shapes[3].text`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np
from google.protobuf.message import Message

from xlashape.caches import BoundedCache
from xlashape.errors import FieldPath, InvalidArgumentError, InvalidIndexError, LimitExceededError, XlashapeError
from xlashape.proto import coerce, v1, xla
from xlashape.shape import Shape
from xlashape.shape.parts.error_text import brief
from xlashape.symbolic import IndexingMap
from xlashape_server.config import Config
from xlashape_server.precount import count

__all__ = [
    "batch",
    "choice",
    "decoded",
    "item_count",
    "map_of",
    "map_output",
    "payload",
    "placed",
    "response_size",
    "shape_of",
    "style_of",
]

M = TypeVar("M", bound=Message)

_SMALL_SHAPE = 4096  # bytes or characters, of which no shape is made that takes long
_MAX_CACHED_BYTES = 2048  # of one map's message; larger maps hardly ever come again
_outputs: BoundedCache[tuple[IndexingMap, str], v1.MapOutput] = BoundedCache(
    "xlashape_server: maps of responses", 32 << 20, lambda _, output: 2000 + 10 * output.ByteSize()
)


def decoded(message_class: type[M], data: bytes) -> M:
    """The request itself. DecodeError if the bytes are not one."""
    return coerce(message_class, data)


def placed(error: XlashapeError, otherwise: FieldPath, **arguments: FieldPath) -> XlashapeError:
    """The error of a call of the library, its path now that of a field of the request.

    `arguments` says in which field the value of each argument came; errors about other arguments, or none, are about `otherwise`.
    """
    argument = error.path[0] if error.path else ""
    if argument in arguments:
        error.path = (*arguments[str(argument)], *error.path[1:])
    else:
        error.path = otherwise
    return error


def shape_of(value: v1.ShapeInput, path: FieldPath, config: Config) -> Shape:
    """The shape of an input; one that says no layout has the default one. LimitExceededError "shape_elements" before it takes long."""
    form = value.WhichOneof("form")
    try:
        if form == "text":
            text = value.text
            if len(text) > _SMALL_SHAPE:
                _check_commas(text, config.max_shape_elements)
            return Shape.parse(text)
        if form == "serialized":
            if len(value.serialized) > _SMALL_SHAPE:
                _check_elements(value.serialized, config)
            return _with_layout(Shape.from_proto(value.serialized))
        if form == "proto":
            if value.ByteSize() > _SMALL_SHAPE:
                _check_elements(value.proto.SerializeToString(), config)
            return _with_layout(Shape.from_proto(value.proto))
    except XlashapeError as error:
        raise error.within(*path, form or "") from None
    raise InvalidArgumentError("a shape is missing: expected proto, serialized or text", field=path)


def _check_commas(text: str, maximum: int) -> None:
    commas = text.count(",")
    if commas > maximum:
        raise LimitExceededError(
            f"the shape's text has {commas} commas, of {maximum} allowed",
            limit="shape_elements",
            maximum=maximum,
            value=commas,
        )


def _check_elements(data: bytes, config: Config) -> None:
    count(
        data,
        xla.ShapeProto.DESCRIPTOR,
        xla.ShapeProto.DESCRIPTOR.full_name,
        max_counted=config.max_shape_elements,
        max_memory=config.max_module_memory,
        subject="the shape",
        limit="shape_elements",
        plural="shapes within it",
        memory_limit="shape_memory",
    )


def _with_layout(shape: Shape) -> Shape:
    # A proto's array may come without a layout, the default one being meant; text fills it in by itself.
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


def map_of(value: v1.MapInput, path: FieldPath) -> IndexingMap:
    """The map of an input."""
    form = value.WhichOneof("form")
    try:
        if form == "text":
            return IndexingMap.parse(value.text)
        if form == "map":
            return IndexingMap.from_proto(value.map)
    except XlashapeError as error:
        raise error.within(*path, form or "") from None
    raise InvalidArgumentError("a map is missing: expected map or text", field=path)


def map_output(value: IndexingMap, style: str) -> v1.MapOutput:
    """A map as message and text. Callers share it and do not change it: modules repeat their maps, which take 80 µs each to make."""
    key = value, style
    output = _outputs.get(key)
    if output is None:
        output = v1.MapOutput(map=value.to_proto(), text=value.to_text(style))
        if output.ByteSize() <= _MAX_CACHED_BYTES:
            _outputs.put(key, output)
    return output


def style_of(number: int) -> str:
    """The library's name of a TextStyle."""
    return choice(number, ("xla", "xla", "affine"), "style")


def choice(number: int, meanings: Sequence[str], field: str) -> str:
    """What an enum's number means. InvalidArgumentError for one that this version does not know."""
    if not 0 <= number < len(meanings):
        raise InvalidArgumentError(f"expected a number from 0 to {len(meanings) - 1}, found {number}", field=field)
    return meanings[number]


def batch(count: int, maximum: int, field: str) -> None:
    """LimitExceededError if a batch has more parts than the server takes."""
    if count > maximum:
        raise LimitExceededError(
            f"{count} {field} in one request, of {maximum} allowed",
            limit="batch",
            maximum=maximum,
            value=count,
            field=field,
        )


def item_count(
    numbers: int, each: int, stated: int | None, maximum: int, field: str, item: str, of: Shape | None = None
) -> int:
    """How many items of `each` numbers there are in `numbers`, which the request may have stated; `item` (`of` a shape) is what one is called.

    Items of no numbers are counted by what was stated, one if nothing was. InvalidArgumentError where the numbers do not
    come out (InvalidIndexError where an item has too few or too many), LimitExceededError "indices" beyond `maximum`.
    """
    if stated is not None and stated < 0:
        raise InvalidArgumentError(f"expected 0 or more, found {stated}", field="count")
    found = numbers // each if each else 1 if stated is None else stated
    if numbers != found * each or (stated is not None and stated != found):
        if numbers == found * each and stated != 1:
            raise InvalidArgumentError(f"{stated} stated, but there are {found} in {field}", field="count")
        of_what = "" if of is None else f" of {brief(of)}"
        in_all = "" if stated == 1 or numbers < each else " in all"
        raise InvalidIndexError(
            f"expected {each or 'no'} number{'s'[: each != 1]} in {item}{of_what}, found {numbers}{in_all}", field=field
        )
    if found > maximum:
        raise LimitExceededError(
            f"{found} {field} in one request, of {maximum} allowed",
            limit="indices",
            maximum=maximum,
            value=found,
            field=field,
        )
    return found


def response_size(size: int, maximum: int, path: FieldPath) -> None:
    """LimitExceededError "response_bytes" if an answer would be larger than the server sends; `path` is what makes it so."""
    if size > maximum:
        raise LimitExceededError(
            f"the answer would have {size} bytes, of {maximum} allowed",
            limit="response_bytes",
            maximum=maximum,
            value=size,
            field=path,
        )


def payload(numbers: np.ndarray[Any, np.dtype[Any]]) -> memoryview:
    """The numbers as the bytes of a packed field: little-endian int64s, or bytes of 0 and 1."""
    if not numbers.size:
        return memoryview(b"")
    return np.ascontiguousarray(numbers, "<i8" if numbers.dtype != np.bool_ else None).data.cast("B")
