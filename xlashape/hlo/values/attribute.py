"""What an attribute of an instruction is: its name in HLO text, how its value is read, and how it is written.

Reading gives bytes: fields of HloInstructionProto on the wire. The reader concatenates the bytes of all attributes of an instruction, and
protobuf merges them: two parts of one submessage become one, repeated fields append. So every attribute can be read on its own.

Writing takes the instruction as the writer holds it, a message with the fields of HloInstructionProto whose submessages are left as
bytes. A submessage that is not set is ABSENT.

The constructors below make the attributes that are plain numbers, flags, strings or lists of numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple, Protocol

from google.protobuf.message import Message

from xlashape.hlo.formatting import ints
from xlashape.hlo.lex import HloCursor
from xlashape.limits import INT32_MAX, INT32_MIN
from xlashape.proto import xla
from xlashape.proto.wire import Fields
from xlashape.shape import Shape

__all__ = [
    "ABSENT",
    "FIELDS",
    "Attribute",
    "Context",
    "always_written",
    "flag",
    "int32",
    "integer",
    "integer_of",
    "integers",
    "integers_of",
    "not_written",
    "submessage",
]

ABSENT: Final = b"?"
"""The bytes of a submessage that is not set. 0x3f is a tag of wire type 7, which does not exist, so no message has these bytes."""

FIELDS: Final = Fields(xla.HloInstructionProto)
"""Encodes fields of an instruction, by name."""


class Context(Protocol):
    """What an attribute may ask the writer about the instruction that is being written, and about the options."""

    @property
    def operand_count(self) -> int:
        """The number of the instruction's operands."""
        ...

    def operand_shape(self, number: int) -> Shape | None:
        """The shape of an operand; None where the instruction has no operand of that number."""
        ...

    def shape_text(self, data: bytes) -> str:
        """The text of a serialized ShapeProto, layout included."""
        ...

    @property
    def is_fingerprint(self) -> bool:
        """Whether only what decides the program is written: device lists in full, no infeed and outfeed configurations."""
        ...

    @property
    def show_ids(self) -> bool:
        """Whether the names of the module and its computations are written, and with them parameter_replication."""
        ...

    @property
    def payloads(self) -> Sequence[bytes]:
        """The module's table of payloads."""
        ...

    @property
    def show_metadata(self) -> bool:
        """Whether shardings are written with their metadata."""
        ...


class Attribute(NamedTuple):
    """An attribute: its name and how its value is read and written. A name that means different fields for different opcodes has an
    Attribute for each meaning."""

    name: str
    """The name in HLO text, before the '='."""
    read: Callable[[HloCursor], bytes] | None
    """Reads the value and returns fields of HloInstructionProto. None where the reader of instructions reads the value itself,
    because it names computations or instructions, or belongs to a table of the module."""
    write: Callable[[Any, Context], str]
    """The attribute as text with `, ` before it, such as `, dimensions={1}`; "" where XLA writes none."""


def not_written(_message: Any, _context: Context) -> str:
    """The `write` of an attribute that XLA reads and never writes."""
    return ""


def always_written(name: str, field: str, text: Callable[[Any], str] = str) -> Callable[[Any, Context], str]:
    """The `write` of an attribute that XLA writes whatever the value of its field is; `text` is the text of a value."""

    def write(message: Any, _context: Context) -> str:
        return f", {name}={text(getattr(message, field))}"

    return write


def submessage(data: bytes) -> bytes:
    """The bytes of a submessage; those of an empty message where it is not set."""
    return b"" if data == ABSENT else data


def integer(name: str, field: str = "", *, defaults: tuple[int, ...] = ()) -> Attribute:
    """An attribute that is an int64. `field` is its field, where that has another name; a value of `defaults` is not written."""
    field = field or name

    def read(cursor: HloCursor) -> bytes:
        return FIELDS.integer(field, cursor.parse_int())

    def write(message: Any, _context: Context) -> str:
        value = getattr(message, field)
        return "" if value in defaults else f", {name}={value}"

    return Attribute(name, read, write)


def int32(name: str) -> Attribute:
    """An attribute that is an int32."""
    what = f"{name}, an int32"

    def read(cursor: HloCursor) -> bytes:
        return FIELDS.integer(name, cursor.parse_int_between(INT32_MIN, INT32_MAX, what))

    return Attribute(name, read, always_written(name, name))


def flag(name: str, *, write_false: bool = False) -> Attribute:
    """An attribute that is true or false. False is not written unless `write_false`."""

    def read(cursor: HloCursor) -> bytes:
        return FIELDS.integer(name, cursor.parse_bool())

    def write(message: Any, _context: Context) -> str:
        if getattr(message, name):
            return f", {name}=true"
        return f", {name}=false" if write_false else ""

    return Attribute(name, read, write)


def integers(name: str, field: str = "", *, write_empty: bool = True) -> Attribute:
    """An attribute that is a list of int64: `{1,2}`. An empty list is written as `{}` if `write_empty`, else not at all."""
    field = field or name

    def read(cursor: HloCursor) -> bytes:
        return FIELDS.integers(field, cursor.parse_ints())

    def write(message: Any, _context: Context) -> str:
        values = getattr(message, field)
        return f", {name}={ints(values)}" if values or write_empty else ""

    return Attribute(name, read, write)


def integer_of(message_class: type[Message], field: str, name: str) -> Attribute:
    """An attribute that is field `name`, an int64, of the message in field `field` of an instruction."""
    fields = Fields(message_class)

    def read(cursor: HloCursor) -> bytes:
        return FIELDS.message(field, fields.integer(name, cursor.parse_int()))

    def write(message: Any, _context: Context) -> str:
        return f", {name}={getattr(message_class.FromString(submessage(getattr(message, field))), name)}"

    return Attribute(name, read, write)


def integers_of(
    message_class: type[Message], field: str, name: str, part: str = "", *, write_empty: bool = True
) -> Attribute:
    """An attribute that is field `part`, a list of int64, of the message in field `field` of an instruction."""
    fields = Fields(message_class)
    part = part or name

    def read(cursor: HloCursor) -> bytes:
        return FIELDS.message(field, fields.integers(part, cursor.parse_ints()))

    def write(message: Any, _context: Context) -> str:
        values = getattr(message_class.FromString(submessage(getattr(message, field))), part)
        return f", {name}={ints(values)}" if values or write_empty else ""

    return Attribute(name, read, write)
