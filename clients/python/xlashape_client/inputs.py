"""Converts arguments of the client's methods to messages."""

from __future__ import annotations

from collections.abc import AsyncIterable, Awaitable, Callable, Iterable
from os import PathLike
from pathlib import Path
from typing import Any, Protocol, TypeAlias, TypeVar

import numpy as np
from google.protobuf.message import Message
from numpy.typing import ArrayLike, NDArray

from xlashape.errors import FieldPath, InvalidArgumentError, InvalidIndexError, XlashapeError, is_a
from xlashape.hlo import HloModule
from xlashape.hlo.files.convert import no_such_file, text_or_proto
from xlashape.hlo.files.dumps import no_single_module, split_choice
from xlashape.hlo.files.module_of import is_path
from xlashape.proto import coerce, v1, xla
from xlashape.shape import Shape
from xlashape.symbolic import IndexingMap
from xlashape_client.results import Module

M = TypeVar("M", bound=Message)
T = TypeVar("T")

# The request's field for a parameter of a method, if they have different names.
_FIELDS: dict[str, FieldPath] = {
    "index": ("indices",),
    "rows": ("indices",),
    "point": ("points",),
    "sizes": ("tile", "sizes"),
    "offsets": ("tile", "offsets"),
    "strides": ("tile", "strides"),
}

AnyShape: TypeAlias = Shape | str | bytes | Message
"""A Shape, its text, a serialized ShapeProto, or a ShapeProto message of any descriptor pool."""

AnyMap: TypeAlias = IndexingMap | str
"""An IndexingMap or its text."""

AnyModule: TypeAlias = HloModule | Module | bytes | str | PathLike[str] | Message
"""An HloModule; a module of the server, or its name `modules/…`; HLO text or the path of a file; the content of a
file as bytes; an HloModuleProto or HloProto.
"""


class Readable(Protocol):
    """A file object for bytes; for asyncio, `read` may be a coroutine function."""

    def read(self, size: int, /) -> bytes | Awaitable[bytes]:
        """The next bytes, at most `size` of them; no bytes at the end."""
        ...


ModuleSource: TypeAlias = Readable | Iterable[bytes] | AsyncIterable[bytes]
"""The source of a module's content: a file object, or an iterator of bytes; for asyncio also an asynchronous iterator.
"""


def shape_input(shape: AnyShape) -> v1.ShapeInput:
    """The message for a shape."""
    if isinstance(shape, str):
        try:
            return v1.ShapeInput(text=shape)
        except ValueError:  # lone surrogates; the error of the shape parser has their position
            Shape.parse(shape)
            raise InvalidArgumentError("the shape's text has lone surrogates") from None
    if isinstance(shape, bytes):
        return v1.ShapeInput(serialized=shape)
    if isinstance(shape, Shape):
        # Text holds everything except unknown fields, and is faster to write and to read than a message.
        if not shape.unknown_fields and _is_plain(shape):
            return v1.ShapeInput(text=str(shape))
        return v1.ShapeInput(serialized=shape.to_proto().SerializeToString())
    if is_a(shape, Message):
        return v1.ShapeInput(serialized=coerce(xla.ShapeProto, shape).SerializeToString())
    raise InvalidArgumentError(f"expected a shape, its text, its bytes or its message, found {type(shape).__name__}")


def rank_of(shape: AnyShape) -> int:
    """The number of dimensions of a shape, for an empty response, which does not show it."""
    known = (
        shape if isinstance(shape, Shape) else Shape.parse(shape) if isinstance(shape, str) else Shape.from_proto(shape)
    )
    return (known.buffer_shape if known.is_buffer else known).rank


def result_count_of(value: AnyMap) -> int:
    """The number of results of a map, for an empty response, which does not show it."""
    return len((IndexingMap.parse(value) if isinstance(value, str) else value).results)


def message_of(message_class: type[M], /, **fields: Any) -> M:
    """A message with `fields`. InvalidArgumentError for a value that its field cannot hold: text with lone surrogates,
    a number too large, another type.
    """
    try:
        return message_class(**fields)
    except (ValueError, TypeError):
        for name, value in fields.items():
            try:
                message_class(**{name: value})
            except UnicodeEncodeError:
                raise InvalidArgumentError(f"{name}: {value!r} has lone surrogates", field=name) from None
            except (ValueError, TypeError):
                kind = type(value).__name__
                found = f"{value!r}" if isinstance(value, (int, float)) else f"a value of type {kind}"
                raise InvalidArgumentError(f"{name} cannot be {found}", field=name) from None
        raise


def each(values: Iterable[Any], make: Callable[[Any], T], what: str) -> list[T]:
    """`make` applied to each value. InvalidArgumentError, which names `what`, if `values` is text, bytes or not
    iterable.
    """
    if not is_a(values, Iterable) or isinstance(values, (str, bytes)):
        raise InvalidArgumentError(f"{what}: expected a sequence, found {type(values).__name__}", field=what)
    return [make(value) for value in values]


def _is_plain(shape: Shape) -> bool:
    # The text of an array without a layout shows the default layout, which the server would use for the array anyway.
    return shape.is_array and (shape.layout is None or not shape.layout.unknown_fields)


def map_input(value: AnyMap) -> v1.MapInput:
    """The message for a map."""
    if isinstance(value, str):
        try:
            return v1.MapInput(text=value)
        except ValueError:
            IndexingMap.parse(value)
            raise InvalidArgumentError("the map's text has lone surrogates") from None
    if is_a(value, IndexingMap):
        return v1.MapInput(map=value.to_proto())
    raise InvalidArgumentError(f"expected an IndexingMap or its text, found {type(value).__name__}")


def is_in_file(module: AnyModule) -> bool:
    """Whether a file has to be read for the content of a module."""
    if isinstance(module, str):
        return not module.startswith("modules/") and is_path(module)
    return isinstance(module, PathLike)


def content_of(module: AnyModule) -> bytes | str:
    """The content of a module as bytes, or the name of a module of the server. A str is such a name, HLO text, or a
    path, as for `xlashape.memory`. NotFoundError for a path without a file.
    """
    if isinstance(module, HloModule):
        return module.to_bytes()
    if isinstance(module, Module):
        return module.name
    if isinstance(module, bytes):
        return module
    if isinstance(module, str) and not is_in_file(module):
        return module if module.startswith("modules/") else _encoded(module)
    if isinstance(module, (str, PathLike)):
        return _read(Path(module))
    if is_a(module, Message):
        return module.SerializeToString()
    raise InvalidArgumentError(f"expected a module, its name, its bytes or a path, found {type(module).__name__}")


def _encoded(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise InvalidArgumentError("the module's text has lone surrogates") from None


def _read(path: Path) -> bytes:
    name, choice = split_choice(str(path))
    try:
        content = Path(name).read_bytes()
    except FileNotFoundError:
        raise no_such_file(str(path)) from None
    except IsADirectoryError:
        raise no_single_module(path) from None
    except (OSError, ValueError) as error:
        raise InvalidArgumentError(f"cannot read {str(path)!r}: {getattr(error, 'strerror', None) or error}") from error
    return text_or_proto(content, name, choice=choice)


def one_row(numbers: Iterable[int], what: str) -> list[int]:
    """`numbers` as a list. InvalidIndexError, which names `what`, if they are not integers that fit int64."""
    if not is_a(numbers, Iterable):
        raise InvalidIndexError(
            f"{what}: expected a sequence of integers, found {type(numbers).__name__}", field=_field_of(what)
        )
    return [int(n) for n in integers([list(numbers)], what, 2)[0]]


def integers(values: ArrayLike, what: str, dimensions: int) -> NDArray[np.int64]:
    """`values` as an array of little-endian int64 with this number of dimensions. InvalidIndexError, which names
    `what`, if they are not integers of such an array.
    """
    try:
        table = np.asarray(values)
    except (ValueError, TypeError, OverflowError):
        table = None
    if table is None or table.ndim != dimensions or (table.dtype.kind not in "iu" and table.size):
        found = "rows of different lengths" if table is None else f"{table.dtype.name}{list(table.shape)}"
        raise InvalidIndexError(
            f"{what}: expected integers in {dimensions} dimension{'s'[: dimensions - 1]}, found {found}",
            field=_field_of(what),
        )
    if table.dtype == np.uint64 and table.size and int(table.max()) >= 1 << 63:
        raise InvalidIndexError(f"{what}: {int(table.max())} does not fit int64", field=_field_of(what))
    return np.ascontiguousarray(table, "<i8")


def _field_of(parameter: str) -> FieldPath:
    """The field of the request in which the numbers of a parameter are sent."""
    return _FIELDS.get(parameter, (parameter,))


def of_rows(error: XlashapeError, table: NDArray[np.int64], field: str) -> XlashapeError:
    """The error of a request whose `field` holds the rows of `table` one after another, with a path that names row and
    column.

    The request states the number of rows. If the error is about that number, the rows have too few or too many columns.
    """
    if error.path == ("count",):
        return InvalidIndexError(error.message, field=field)
    if len(error.path) == 2 and error.path[0] == field and isinstance(error.path[1], int):
        error.path = (field, *divmod(error.path[1], table.shape[1]))
    return error


def payload(numbers: NDArray[Any]) -> memoryview:
    """The bytes of an array."""
    return numbers.data.cast("B") if numbers.size else memoryview(b"")
