"""Recognizes what a text or a file is: a shape, a layout, an indexing map, a line of HLO, a module, a report about
memory, or a profile.

`recognize` recognizes a profile, a binary module and HLO text that begins with `HloModule` or `ENTRY` by their
beginning alone, and leaves the rest to the caller. In other content it reads further.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from xlashape.drawing.draw import example_of
from xlashape.errors import DecodeError, InvalidArgumentError, ParseError, XlashapeError
from xlashape.hlo import HloModule, Opcode
from xlashape.hlo.files.convert import FileKind, detect
from xlashape.hlo.files.detect_format import holds_text
from xlashape.hlo.files.dumps import A_TRACEBACK, what_else
from xlashape.proto.wire import BYTES, VARINT, fields
from xlashape.reports.oom_text import read_shapes
from xlashape.reports.program import MOST_SEARCHED, is_message, mends
from xlashape.shape import Layout, Shape
from xlashape.symbolic import IndexingMap

_HEAD: Final = 1 << 16
"""The bytes at the beginning by which a large file is recognized. Also the most characters of a text that is tried as a
shape, a layout, a map or lines of HLO."""
_SPACE: Final = re.compile(r"\s*")
_MODULE: Final = re.compile(r"(?:HloModule|ENTRY)\b")
_COMPUTATION: Final = re.compile(r"^(?:HloModule|ENTRY)\s+%?[\w.\-]", re.MULTILINE)
_MODULE_NAME: Final = re.compile(r"HloModule\s+([^\s,]{1,200})")
_NAMES: Final = ("an instruction", "a computation", "an instruction defined before", "a computation defined before")
"""The `expected` of the parser's error about a name that is not defined."""
_CONTROL: Final = re.compile(rb"[\x00-\x08\x0e-\x1f]")
_TRACE: Final = re.compile(rb'\s*\{.{0,4000}?"(?:traceEvents|displayTimeUnit)"', re.DOTALL)


class Recognized(NamedTuple):
    """The kind of some content, with the content in XLA's form."""

    kind: str
    """`shape`, `layout`, `map`, `instruction`, `module`, `report` or `profile`."""
    text: str
    """The content in XLA's form: a shape, a shape with the layout, a map, or a module that computes the instruction.
    For a report, the report itself. For a module as lines of HLO without its head, or as protobuf text or JSON, the
    text of the module. Empty for other modules, which the caller reads from the content, and for profiles.
    """
    instruction: str
    """For an instruction, its name in the module."""
    summary: str
    """The kind in words, for people."""


def recognize(content: bytes) -> Recognized:
    """What `content` is: text in UTF-8, or the bytes of a file without compression.

    For content of no known kind, the error is that of the kind that it resembles most: ParseError with line and column,
    or DecodeError. InvalidArgumentError for content that is empty.

    >>> recognize(b"f32[3,5]{1,0:T(2,2)}")
    Recognized(kind='shape', text='f32[3,5]{1,0:T(2,2)}', instruction='', summary='a shape')
    >>> (
    ...     recognize(b"%a = f32[8] add(f32[8] %x, f32[8] %y)").kind,
    ...     recognize(b"(d0) -> (d0 * 2), domain: d0 in [0, 9]").kind,
    ... )
    ('instruction', 'map')
    >>> recognize(b"1. Size: 2.00G Shape: f32[32,4096,4096]{1,2,0}").summary
    'a report about memory'
    >>> recognize(b"f32[3,")
    Traceback (most recent call last):
    xlashape.errors.ParseError: line 1, column 7: expected a dimension's size, found the end of the text
      f32[3,
            ^
    """
    if not content.strip():
        raise InvalidArgumentError("there is nothing: expected a shape, a map, HLO, a report or a file")
    if _TRACE.match(content) or _holds_planes(content):
        return Recognized("profile", "", "", "a profile")
    what = what_else(content)
    if what is not None and what != A_TRACEBACK:
        raise DecodeError(f"this is {what}")
    # Text such as `((` is a well-formed message too, but not a module: the message of a module has control characters.
    if not holds_text(content) and _CONTROL.search(content, 0, _HEAD) and not _begins_as_text(content):
        return Recognized("module", "", "", "a module as a proto")
    text = content.decode("utf-8-sig", "replace")
    if _MODULE.match(text, _start(text)):
        return _module(text)
    short = _short(text.strip()) if len(text) <= _HEAD else None
    if isinstance(short, Recognized):
        return short
    begin = text[:MOST_SEARCHED]
    if is_message(begin):
        return Recognized("report", text, "", "a report about memory")
    if _COMPUTATION.search(begin):
        return _module(text)
    if '"' in text and detect(content).kind in (FileKind.JSON, FileKind.PBTXT):
        return Recognized("module", HloModule.from_bytes(content).to_text(), "", "a module as protobuf text")
    if read_shapes(begin, 1) and (short is None or not _is_one(text, short)):
        return Recognized("report", text, "", "text with shapes in it")
    if what is not None:
        raise DecodeError(f"this is {what}")
    if short is not None and not ("\n" in text.strip() and "{" in text):
        raise short
    # These calls raise errors that say how to pass other kinds of programs. Text of letters alone is not decoded, since
    # it may be a well-formed message by chance.
    HloModule.from_bytes(content) if _CONTROL.search(content, 0, _HEAD) else HloModule.parse(text)
    return _module(text)


def _begins_as_text(content: bytes) -> bool:
    """Whether content with control characters begins in a way in which no proto of a module does. The proto of a module
    begins with one of its first three fields. The tag of field 1 is a newline in text, but in a proto a length follows
    it that the rest of the bytes can hold.
    """
    if not content.startswith(b"\n"):
        return content[0] in b"\0\t\r" or 0x20 <= content[0] < 0x7F
    try:
        next(fields(content), None)
    except XlashapeError:
        return 0x20 <= content[1] < 0x7F
    return False


def _start(text: str) -> int:
    """Where the first word of a text is, behind spaces and comments."""
    at = 0
    while True:
        space = _SPACE.match(text, at)
        at = at if space is None else space.end()
        if text.startswith("//", at):
            end = text.find("\n", at)
        elif text.startswith("/*", at):
            end = text.find("*/", at + 2) + 1
        else:
            return at
        if end <= 0:
            return len(text)
        at = end + 1


def _module(text: str) -> Recognized:
    name = _MODULE_NAME.search(text[:_HEAD])
    return Recognized("module", "", "", f"the module {name[1]}" if name else "a module as text")


def _short(text: str) -> Recognized | XlashapeError:
    """A shape, a layout, a map, or lines of HLO; else the error of the kind that the text resembles most."""
    if text.startswith("{") and "=" not in text:
        try:
            layout = Layout.parse(text)
        except XlashapeError as error:
            return error
        return Recognized("layout", str(example_of(layout)), "", f"the layout {layout}")
    if "=" in text and "(" in text:
        return _lines(text)
    if "->" in text:
        try:
            return Recognized("map", str(IndexingMap.parse(text)), "", "an indexing map")
        except XlashapeError as error:
            return error
    try:
        shape = Shape.parse(text)
    except XlashapeError as error:
        return error
    return Recognized("shape", str(shape), "", "a tuple of shapes" if shape.is_tuple else "a shape")


def _lines(text: str) -> Recognized | XlashapeError:
    try:
        module = HloModule.parse(text, elided_values=False)
    except XlashapeError as error:
        found = mends(text)
        if found is None:
            return error
        module = found
    root = module.entry.root
    if all(each.opcode == Opcode.PARAMETER or each is root for each in module.instructions()):
        return Recognized("instruction", module.to_text(), root.name, f"the instruction {root.name}")
    return Recognized("module", module.to_text(), "", "lines of HLO")


def _is_one(text: str, error: XlashapeError) -> bool:
    """Whether the text is one shape or instruction with a mistake in its syntax, rather than text with shapes in it. In
    a line of HLO, a name that is not defined is not a mistake in syntax.
    """
    if "=" in text and "(" in text:
        return "\n" not in text.strip() and isinstance(error, ParseError) and error.expected not in _NAMES
    return not any(character.isspace() or character in "%=\"'" for character in text.strip())


def _holds_planes(data: bytes) -> bool:
    """Whether `data` is a serialized XSpace, which is a profile. Its first field is a plane, and the plane begins with
    its number, or with its name, which has a space, `/` or `#`, as no name of a computation has."""
    view = memoryview(data)
    try:
        for number, wire_type, _, content, end in fields(view):
            if number != 1 or wire_type != BYTES:
                return False
            for inner, kind, _, start, stop in fields(view[content:end]):
                if inner == 1:
                    return kind == VARINT
                name = data[content + start : content + stop][:200]
                return inner == 2 and kind == BYTES and any(character in name for character in b"/# ")
            return False
    except XlashapeError:
        pass
    return False
