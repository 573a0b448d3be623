"""The exceptions of the library. A mistake in its input raises one of these.

    XlashapeError                     code
    ├── InvalidArgumentError          invalid_argument      also a ValueError: an argument is wrong
    │   ├── ParseError                parse                 a mistake in text; has line, column and the line itself
    │   ├── DecodeError               decode                bytes that are not a message of the expected type
    │   ├── InvalidShapeError         invalid_shape         a shape, layout or tile that breaks a rule
    │   ├── InvalidIndexError         invalid_index         also an IndexError: not an index of the shape
    │   ├── SizeOverflowError         size_overflow         a size or position beyond int64
    │   ├── InvalidModuleError        invalid_module        an HLO module that breaks a rule
    │   ├── InvalidMapError           invalid_map           an indexing map that breaks a rule
    │   └── LossyConversionError      lossy_conversion      the target form cannot hold everything in the source
    ├── NotFoundError                 not_found             also a LookupError: no such instruction, module, file
    ├── LimitExceededError            limit_exceeded        has the limit's name, its value and the requested value
    ├── DeadlineExceededError         deadline_exceeded     also a TimeoutError
    ├── UnauthenticatedError          unauthenticated       the server does not know who asks
    ├── PermissionDeniedError         permission_denied     also a PermissionError: not allowed for the caller
    ├── UnsupportedError              unsupported           meaningful, but not supported by this version
    └── UnavailableError              unavailable           a server or an optional package that is not available

`code` does not change between versions. The service sends it, so that a client raises the class that the server raised.

The place of a mistake is a path: names of fields and numbers of their elements, from the outermost to the innermost.

>>> error = InvalidShapeError("a tile size is 1 or more, not 0", field=("tiles", 2, "dimensions"))
>>> error.within("shapes", 0, "layout").path
('shapes', 0, 'layout', 'tiles', 2, 'dimensions')
>>> error.field
'shapes[0].layout.tiles[2].dimensions'
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, TypeAlias, TypeVar

__all__ = [
    "DeadlineExceededError",
    "DecodeError",
    "FieldPath",
    "InvalidArgumentError",
    "InvalidIndexError",
    "InvalidMapError",
    "InvalidModuleError",
    "InvalidShapeError",
    "LimitExceededError",
    "LossyConversionError",
    "NotFoundError",
    "ParseError",
    "PermissionDeniedError",
    "SizeOverflowError",
    "UnauthenticatedError",
    "UnavailableError",
    "UnsupportedError",
    "XlashapeError",
    "from_details",
    "path_of",
    "path_text",
]

FieldPath: TypeAlias = tuple[str | int, ...]
"""Names of fields, and numbers of elements of the fields before them: ("shape", "layout", "tiles", 2)."""

_E = TypeVar("_E", bound="XlashapeError")

_CLASSES: dict[str, type[XlashapeError]] = {}


class XlashapeError(Exception):
    """The base of all exceptions. `message` is one sentence for people.

    `path` names the argument that the message is about, and the part of it; it is empty if that is not known. If a
    request of the service has a field for the argument, the path has the name of that field. `field=` takes a path, a
    single name, or the text of a path.
    """

    code: ClassVar[str] = "error"

    def __init__(self, message: str, *, field: str | FieldPath | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.path: FieldPath = path_of(field)

    @property
    def field(self) -> str | None:
        """The path as text: "shape.layout.tiles[2]". None if it is empty."""
        return path_text(self.path) or None

    def within(self: _E, *steps: str | int) -> _E:
        """Puts `steps` in front of the path, and returns the exception: an error about a part becomes an error about
        the whole that holds it.
        """
        self.path = (*steps, *self.path)
        return self

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        _CLASSES[cls.code] = cls

    def __str__(self) -> str:
        return self.message

    def __reduce__(self) -> tuple[Any, ...]:
        return (from_details, (self.code, self.message, self.details()))

    def details(self) -> dict[str, str]:
        """The attributes of the exception beyond its message, as text, so that they can be sent."""
        return {"field": path_text(self.path)} if self.path else {}

    @classmethod
    def rebuild(cls, message: str, details: Mapping[str, str]) -> XlashapeError:
        """An exception of this class from a message and what `details()` gave. Missing entries have their defaults."""
        return cls(message, field=details.get("field"))


class InvalidArgumentError(XlashapeError, ValueError):
    """An argument is wrong."""

    code = "invalid_argument"


class ParseError(InvalidArgumentError):
    """A mistake in text.

    `line` and `column` count from 1, the column in characters. `source_line` is the line of the mistake, shortened
    around the mistake if it is very long; `caret` is the mistake's offset in it. `name` is the path of the text, if it
    has one. `expected` and `found` are parts of the message. `str()` shows the line with a caret below the mistake. If
    the parser continued after the mistake, `others` has the further mistakes in the order of the text; `str()` shows
    them below. The service does not send `others`.
    """

    code = "parse"

    def __init__(
        self,
        message: str,
        *,
        line: int = 1,
        column: int = 1,
        source_line: str = "",
        caret: int = 0,
        name: str | None = None,
        expected: str | None = None,
        found: str | None = None,
        field: str | FieldPath | None = None,
    ) -> None:
        super().__init__(message, field=field)
        self.line = line
        self.column = column
        self.source_line = source_line
        self.caret = caret
        self.name = name
        self.expected = expected
        self.found = found
        self.others: tuple[ParseError, ...] = ()

    def __str__(self) -> str:
        where = f"{self.name}:{self.line}:{self.column}" if self.name else f"line {self.line}, column {self.column}"
        text = f"{where}: {self.message}"
        if self.source_line:
            text += f"\n  {self.source_line}\n  {' ' * self.caret}^"
        return "\n".join([text, *map(str, self.others)])

    def details(self) -> dict[str, str]:
        known = {
            "line": str(self.line),
            "column": str(self.column),
            "source_line": self.source_line,
            "caret": str(self.caret),
            "name": self.name,
            "expected": self.expected,
            "found": self.found,
        }
        return super().details() | {key: value for key, value in known.items() if value is not None}

    @classmethod
    def rebuild(cls, message: str, details: Mapping[str, str]) -> ParseError:
        return cls(
            message,
            line=_integer(details, "line") or 1,
            column=_integer(details, "column") or 1,
            source_line=details.get("source_line", ""),
            caret=_integer(details, "caret") or 0,
            name=details.get("name"),
            expected=details.get("expected"),
            found=details.get("found"),
            field=details.get("field"),
        )


class DecodeError(InvalidArgumentError):
    """Bytes that are not a message of the expected type: truncated, of another type, or nested too deeply."""

    code = "decode"


class InvalidShapeError(InvalidArgumentError):
    """A shape, layout or tile that breaks a rule, or a layout that does not fit its shape."""

    code = "invalid_shape"


class InvalidIndexError(InvalidArgumentError, IndexError):
    """Not an index of the shape: too few or too many numbers, or a number out of bounds; or not a position of the
    shape's buffer.
    """

    code = "invalid_index"


class SizeOverflowError(InvalidArgumentError):
    """A size or position that does not fit int64."""

    code = "size_overflow"


class InvalidModuleError(InvalidArgumentError):
    """An HLO module that breaks a rule: an operand does not exist, two instructions have the same id, …"""

    code = "invalid_module"


class InvalidMapError(InvalidArgumentError):
    """An indexing map that breaks a rule: an unknown variable, a divisor of zero, maps that do not compose."""

    code = "invalid_map"


class LossyConversionError(InvalidArgumentError):
    """The requested form cannot hold everything in the source."""

    code = "lossy_conversion"


class NotFoundError(XlashapeError, LookupError):
    """There is nothing of that name. `kind` and `name`, if known, say what was looked for: "instruction",
    "fusion.3".
    """

    code = "not_found"

    def __init__(self, message: str, *, kind: str = "", name: str = "", field: str | FieldPath | None = None) -> None:
        super().__init__(message, field=field)
        self.kind = kind
        self.name = name

    def details(self) -> dict[str, str]:
        known = {"kind": self.kind, "name": self.name}
        return super().details() | {key: value for key, value in known.items() if value}

    @classmethod
    def rebuild(cls, message: str, details: Mapping[str, str]) -> NotFoundError:
        return cls(message, kind=details.get("kind", ""), name=details.get("name", ""), field=details.get("field"))


class LimitExceededError(XlashapeError):
    """More than a limit allows. `limit` is the limit's name; `maximum` its value, None if that is not given or not a
    whole number (the message has it); `value` the requested value, None if it was not counted.
    """

    code = "limit_exceeded"

    def __init__(
        self,
        message: str,
        *,
        limit: str = "",
        maximum: float | None = None,
        value: int | None = None,
        field: str | FieldPath | None = None,
    ) -> None:
        super().__init__(message, field=field)
        self.limit = limit
        self.maximum = int(maximum) if maximum is not None and maximum % 1 == 0 else None
        self.value = value

    def details(self) -> dict[str, str]:
        known = {"limit": self.limit, "maximum": self.maximum, "value": self.value}
        return super().details() | {key: str(value) for key, value in known.items() if value is not None}

    @classmethod
    def rebuild(cls, message: str, details: Mapping[str, str]) -> LimitExceededError:
        return cls(
            message,
            limit=details.get("limit", ""),
            maximum=_integer(details, "maximum"),
            value=_integer(details, "value"),
            field=details.get("field"),
        )


class DeadlineExceededError(XlashapeError, TimeoutError):
    """The deadline passed before the result was computed."""

    code = "deadline_exceeded"


class UnsupportedError(XlashapeError):
    """Meaningful, but not supported by this version."""

    code = "unsupported"


class UnavailableError(XlashapeError):
    """A server that cannot be reached, or an optional package that is not installed."""

    code = "unavailable"


class UnauthenticatedError(XlashapeError):
    """A server that requires credentials, and received none that it knows."""

    code = "unauthenticated"


class PermissionDeniedError(XlashapeError, PermissionError):
    """A caller that a server knows, and that is not allowed to make its request."""

    code = "permission_denied"


_CLASSES[XlashapeError.code] = XlashapeError


def _integer(details: Mapping[str, str], key: str) -> int | None:
    # Another version may send other text under this name. Then the value is unknown.
    try:
        return int(details[key])
    except (KeyError, ValueError):
        return None


def from_details(code: str, message: str, details: Mapping[str, str]) -> XlashapeError:
    """The exception with this code and message, and with what its `details()` gave. An unknown code gives
    XlashapeError.
    """
    return _CLASSES.get(code, XlashapeError).rebuild(message, details)


is_a: Callable[[object, type[Any] | tuple[type[Any], ...]], bool] = isinstance
"""`isinstance` for arguments whose declared type implies the result: a caller without type checks may pass anything."""


def path_text(path: FieldPath) -> str:
    """A path as text.

    >>> path_text(("shape", "layout", "tiles", 2))
    'shape.layout.tiles[2]'
    """
    text = ""
    for step in path:
        text += f"[{step}]" if isinstance(step, int) else f".{step}" if text else step
    return text


def path_of(field: str | FieldPath | None) -> FieldPath:
    """The path that `field` gives: a path itself, or the text of a path. Text of another form is a single name; None is
    the empty path.

    >>> path_of("shape.layout.tiles[2]"), path_of(None), path_of("--bytes")
    (('shape', 'layout', 'tiles', 2), (), ('--bytes',))
    """
    if not field:
        return ()
    if not isinstance(field, str):
        return field
    path: list[str | int] = []
    for part in field.split("."):
        name, *numbers = part.split("[")
        if name:
            path.append(name)
        elif path or not numbers:
            return (field,)
        for number in numbers:
            digits = number[:-1]
            if not (number.endswith("]") and digits.isascii() and digits.isdecimal() and len(digits) < 20):
                return (field,)
            path.append(int(digits))
    return tuple(path)
