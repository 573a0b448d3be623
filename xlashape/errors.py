"""Every exception of the library. A mistake in what was passed in is one of these, never an abort.

    XlashapeError                     code
    ├── InvalidArgumentError          invalid_argument      also a ValueError: the input is wrong
    │   ├── ParseError                parse                 text; knows line, column and the line itself
    │   ├── DecodeError               decode                bytes that are not the message they should be
    │   ├── InvalidShapeError         invalid_shape         a shape, layout or tile that cannot be
    │   ├── InvalidIndexError         invalid_index         also an IndexError: not an index of this shape
    │   ├── SizeOverflowError         size_overflow         a size or position beyond int64
    │   ├── InvalidModuleError        invalid_module        an HLO module that breaks its own rules
    │   ├── InvalidMapError           invalid_map           an indexing map that cannot be
    │   └── LossyConversionError      lossy_conversion      the target form cannot hold what the source says
    ├── NotFoundError                 not_found             also a LookupError: no such instruction, module, file
    ├── LimitExceededError            limit_exceeded        knows the limit's name, its value and what was asked
    ├── DeadlineExceededError         deadline_exceeded     also a TimeoutError
    ├── UnsupportedError              unsupported           meaningful, but not answered by this version
    └── UnavailableError              unavailable           a server or an optional package that cannot be reached

`code` is stable and travels over the service, so a client raises the class that the server raised.

Where a mistake stands is a path: names of fields and numbers of their elements, from the outside in.

>>> error = InvalidShapeError("a tile size is 1 or more, not 0", field=("tiles", 2, "dimensions"))
>>> error.within("shapes", 0, "layout").path
('shapes', 0, 'layout', 'tiles', 2, 'dimensions')
>>> error.field
'shapes[0].layout.tiles[2].dimensions'
"""

from __future__ import annotations

from collections.abc import Mapping
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
    "SizeOverflowError",
    "UnavailableError",
    "UnsupportedError",
    "XlashapeError",
    "from_details",
    "path_of",
    "path_text",
]

FieldPath: TypeAlias = tuple[str | int, ...]
"""Names of fields, each followed by the numbers of the elements in it: ("shape", "layout", "tiles", 2)."""

_E = TypeVar("_E", bound="XlashapeError")

_CLASSES: dict[str, type[XlashapeError]] = {}


class XlashapeError(Exception):
    """The root of the tree. `message` is one sentence for a person.

    `path` says which argument, and which part of it, the message is about; it is empty if that is not known. An argument that a
    request of the service has a field for is called by the name of that field. `field=` takes a path, a single name, or a path's text.
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
        """The same exception, its path now starting with `steps`: what was said of a part is said of the whole that holds it."""
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
        """What the error knows beyond its message, as text, so that it survives a wire."""
        return {"field": path_text(self.path)} if self.path else {}

    @classmethod
    def rebuild(cls, message: str, details: Mapping[str, str]) -> XlashapeError:
        """The inverse of `details`. Missing entries take their defaults."""
        return cls(message, field=details.get("field"))


class InvalidArgumentError(XlashapeError, ValueError):
    """The input is wrong."""

    code = "invalid_argument"


class ParseError(InvalidArgumentError):
    """A mistake in text.

    `line` and `column` count from 1, the column in characters; `source_line` is the line it stands on
    (shortened around the mistake when very long), `name` where the text came from, `expected` and `found` what the
    message is made of. `str()` shows the line with a caret below the mistake. A parser that went on behind the mistake keeps what
    else it found in `others`, in the order of the text; `str()` shows them below. They do not travel over the service.
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
    """Bytes that are not the message they should be: truncated, of another kind, nested too deep."""

    code = "decode"


class InvalidShapeError(InvalidArgumentError):
    """A shape, layout or tile that cannot be, or a layout that does not fit its shape."""

    code = "invalid_shape"


class InvalidIndexError(InvalidArgumentError, IndexError):
    """Not an index of this shape: too few or too many numbers, out of bounds, or not a position of its buffer."""

    code = "invalid_index"


class SizeOverflowError(InvalidArgumentError):
    """A size or position that does not fit int64."""

    code = "size_overflow"


class InvalidModuleError(InvalidArgumentError):
    """An HLO module that breaks its own rules: an operand that is not there, two instructions of one id, …"""

    code = "invalid_module"


class InvalidMapError(InvalidArgumentError):
    """An indexing map that cannot be: an unknown variable, a divisor of zero, maps that do not compose."""

    code = "invalid_map"


class LossyConversionError(InvalidArgumentError):
    """The form asked for cannot hold what the source says."""

    code = "lossy_conversion"


class NotFoundError(XlashapeError, LookupError):
    """Nothing of that name is there. `kind` and `name` say of what and which, where that is known: "instruction", "fusion.3"."""

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
    """More than a limit allows. `limit` is its name, `maximum` its value, `value` what was asked (None: not counted)."""

    code = "limit_exceeded"

    def __init__(
        self,
        message: str,
        *,
        limit: str = "",
        maximum: int | None = None,
        value: int | None = None,
        field: str | FieldPath | None = None,
    ) -> None:
        super().__init__(message, field=field)
        self.limit = limit
        self.maximum = maximum
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
    """The time given was over before the answer was there."""

    code = "deadline_exceeded"


class UnsupportedError(XlashapeError):
    """Meaningful, but this version does not answer it."""

    code = "unsupported"


class UnavailableError(XlashapeError):
    """A server that cannot be reached, or an optional package that is not installed."""

    code = "unavailable"


_CLASSES[XlashapeError.code] = XlashapeError


def _integer(details: Mapping[str, str], key: str) -> int | None:
    # Another version may have sent something else under this name: then it is not known.
    try:
        return int(details[key])
    except (KeyError, ValueError):
        return None


def from_details(code: str, message: str, details: Mapping[str, str]) -> XlashapeError:
    """The exception that `code` names, rebuilt from its message and `details()`. An unknown code gives XlashapeError."""
    return _CLASSES.get(code, XlashapeError).rebuild(message, details)


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
    """The path that `field` stands for: a path itself, or the text of one. Text of another form is a name.

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
