"""What an attribute of an instruction is: its name in HLO text, how its value is read and written, and its value as a
Python object.

Reading gives bytes: fields of HloInstructionProto on the wire. The reader concatenates the bytes of all attributes of
an instruction, and protobuf merges them: two parts of one submessage become one, repeated fields append. So every
attribute can be read on its own.

Writing takes the instruction as the writer holds it, a message with the fields of HloInstructionProto whose submessages
are left as bytes. A submessage that is not set is ABSENT.

Values are what users, rules and the editor hold: numbers, texts and tuples, and a frozen type for each value that has a
structure of its own, such as `Window`. Such a type has four methods side by side: `read` from a cursor and `write` to
text, `of_proto` and `to_proto`.

The constructors below make the attributes that are plain numbers, flags, words or lists of numbers, and those of such
a type.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple, Protocol, TypeVar

from google.protobuf.message import Message

from xlashape.errors import InvalidArgumentError
from xlashape.hlo.tokens import HloCursor, ints
from xlashape.limits import INT32_MAX, INT32_MIN
from xlashape.proto import xla
from xlashape.proto.wire import Fields
from xlashape.shape import Shape
from xlashape.similar import did_you_mean

_T = TypeVar("_T")
_P = TypeVar("_P", bound="InProto")
_V = TypeVar("_V", bound="Structured")

ABSENT: Final = b"?"
"""The bytes of a submessage that is not set. 0x3f is a tag of wire type 7, which does not exist, so no message has
these bytes.
"""

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
        """Whether only what decides the program is written: device lists in full, no infeed and outfeed
        configurations."""
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


class InProto(Protocol):
    """A value that is a message."""

    @classmethod
    def of_proto(cls: type[_P], message: Any) -> _P:
        """The value of its message."""
        ...

    def to_proto(self) -> Any:
        """A new message."""
        ...


class Structured(InProto, Protocol):
    """A value with a structure of its own, which text has in one place."""

    @classmethod
    def read(cls: type[_V], cursor: HloCursor) -> _V:
        """The value at the cursor. Raises ParseError."""
        ...

    def write(self) -> str:
        """The value as HLO text has it behind `name=`."""
        ...


class Codec(NamedTuple):
    """An attribute's value as a Python object."""

    get: Callable[[xla.HloInstructionProto], Any]
    """The value that an instruction has; None where it has none, and its proto says so."""
    put: Callable[[xla.HloInstructionProto, Any], None]
    """Gives an instruction a value, or none for None. Fields that the schema does not know stay. Raises TypeError,
    ValueError or AttributeError for something that is no such value.
    """
    what: str
    """What a value is, in a few words, for errors."""
    is_said: Callable[[Any], bool] | None = None
    """Whether a value says something: XLA writes others not at all. None where that is each but the value of an
    instruction without the attribute.
    """


class Attribute(NamedTuple):
    """An attribute: its name and how its value is read and written. A name that means different fields for different
    opcodes has an Attribute for each meaning.
    """

    name: str
    """The name in HLO text, before the '='."""
    read: Callable[[HloCursor], bytes] | None
    """Reads the value and returns fields of HloInstructionProto. None where the reader of instructions reads the value
    itself, because it names computations or instructions, or belongs to a table of the module.
    """
    write: Callable[[Any, Context], str]
    """The attribute as text with `, ` before it, such as `, dimensions={1}`; "" where XLA writes none."""
    value: Codec | None = None
    """Its value as a Python object. None where that names computations or instructions, or belongs to a table of the
    module.
    """

    def of(self, instruction: xla.HloInstructionProto) -> Any:
        """The value that an instruction has. Only for attributes that have a `value`."""
        assert self.value is not None
        return self.value.get(instruction)


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


def whole(read: Callable[[HloCursor], _T], text: str) -> _T:
    """What `read` makes of a whole text. Raises ParseError, also for something behind the value."""
    cursor = HloCursor(text)
    value = read(cursor)
    cursor.expect_end()
    return value


def replace_known(target: Message, new: Message) -> None:
    """Makes the fields of a message those of another one; fields that the schema does not know stay."""
    for field in target.DESCRIPTOR.fields:
        target.ClearField(field.name)
    target.MergeFrom(new)
    target.SetInParent()


# -- values -----------------------------------------------------------------------------------


def scalar_value(field: str, what: str, *, owner: str = "") -> Codec:
    """The value of a field that is a number, a flag or a string; `owner` is the submessage that it is in, if it is in
    one.
    """

    def get(instruction: Any) -> Any:
        return getattr(getattr(instruction, owner) if owner else instruction, field)

    def put(instruction: Any, value: Any) -> None:
        if value is not None:
            setattr(getattr(instruction, owner) if owner else instruction, field, value)
        elif not owner:
            instruction.ClearField(field)
        elif instruction.HasField(owner):
            getattr(instruction, owner).ClearField(field)

    return Codec(get, put, what)


def list_value(field: str, what: str = "a list of integers", *, owners: Sequence[str] = ()) -> Codec:
    """The value of a repeated field of numbers or flags: a tuple. `owners` are the submessages that it is in, the
    outermost first.
    """

    def message_of(instruction: Any) -> Any:
        message: Any = instruction
        for owner in owners:
            message = getattr(message, owner)
        return message

    def get(instruction: Any) -> tuple[Any, ...]:
        return tuple(getattr(message_of(instruction), field)[:])

    def put(instruction: Any, value: Any) -> None:
        if isinstance(value, str):
            raise TypeError("text is no list")
        values = tuple(value or ())
        if values != get(instruction):
            getattr(message_of(instruction), field)[:] = values

    return Codec(get, put, what)


def message_value(field: str, kind: type[InProto], *, is_optional: bool = True) -> Codec:
    """The value of a field that is a message, for which there is a frozen type. Unless `is_optional`, a field that is
    not set counts as empty.
    """

    def get(instruction: Any) -> Any:
        is_there = not is_optional or instruction.HasField(field)
        return kind.of_proto(getattr(instruction, field)) if is_there else None

    def put(instruction: Any, value: Any) -> None:
        if value is None:
            instruction.ClearField(field)
            return
        if not isinstance(value, kind):
            raise TypeError(f"not {kind.__name__}")
        replace_known(getattr(instruction, field), value.to_proto())

    return Codec(get, put, f"a {kind.__name__}")


def messages_value(field: str, kind: type[InProto]) -> Codec:
    """The value of a repeated field of messages, for which there is a frozen type: a tuple of these."""

    def get(instruction: Any) -> tuple[Any, ...]:
        return tuple([kind.of_proto(each) for each in getattr(instruction, field)])

    def put(instruction: Any, value: Any) -> None:
        values: tuple[Any, ...] = tuple(value or ())
        messages = [(each if isinstance(each, kind) else kind(*each)).to_proto() for each in values]
        del getattr(instruction, field)[:]
        getattr(instruction, field).extend(messages)

    return Codec(get, put, f"a list of {kind.__name__}")


# -- attributes -------------------------------------------------------------------------------


def integer(name: str, field: str = "", *, defaults: tuple[int, ...] = ()) -> Attribute:
    """An attribute that is an int64. `field` is its field, where that has another name; a value of `defaults` is not
    written.
    """
    field = field or name

    def read(cursor: HloCursor) -> bytes:
        return FIELDS.integer(field, cursor.parse_int())

    def write(message: Any, _context: Context) -> str:
        value = getattr(message, field)
        return "" if value in defaults else f", {name}={value}"

    def is_said(value: int) -> bool:
        return value not in defaults

    get, put, what, _ = scalar_value(field, "an integer")
    return Attribute(name, read, write, Codec(get, put, what, is_said if defaults else None))


def int32(name: str) -> Attribute:
    """An attribute that is an int32."""
    what = f"{name}, an int32"

    def read(cursor: HloCursor) -> bytes:
        return FIELDS.integer(name, cursor.parse_int_between(INT32_MIN, INT32_MAX, what))

    return Attribute(name, read, always_written(name, name), scalar_value(name, "an integer of 32 bits"))


def flag(name: str, *, write_false: bool = False) -> Attribute:
    """An attribute that is true or false. False is not written unless `write_false`."""

    def read(cursor: HloCursor) -> bytes:
        return FIELDS.integer(name, cursor.parse_bool())

    def write(message: Any, _context: Context) -> str:
        if getattr(message, name):
            return f", {name}=true"
        return f", {name}=false" if write_false else ""

    return Attribute(name, read, write, scalar_value(name, "True or False"))


def word_attribute(
    name: str, field: str, words: Sequence[str], what: str, write: Callable[[Any, Context], str]
) -> Attribute:
    """An attribute that is one of some words, in a string field. Instructions may have another word, which is kept."""
    known = {word: word for word in words}

    def read(cursor: HloCursor) -> bytes:
        return FIELDS.string(field, cursor.parse_word_of(known, what))

    def get(instruction: xla.HloInstructionProto) -> str | None:
        return getattr(instruction, field) or None

    def put(instruction: xla.HloInstructionProto, value: Any) -> None:
        if value is not None and value not in known:
            hint = did_you_mean(value, words) if isinstance(value, str) else ""
            raise InvalidArgumentError(f"expected {what}: {', '.join(words)}; found {value!r}{hint}")
        setattr(instruction, field, value or "")

    return Attribute(name, read, write, Codec(get, put, what))


def integers(name: str, field: str = "", *, write_empty: bool = True) -> Attribute:
    """An attribute that is a list of int64: `{1,2}`. An empty list is written as `{}` if `write_empty`, else not at
    all.
    """
    field = field or name

    def read(cursor: HloCursor) -> bytes:
        return FIELDS.integers(field, cursor.parse_ints())

    def write(message: Any, _context: Context) -> str:
        values = getattr(message, field)
        return f", {name}={ints(values)}" if values or write_empty else ""

    return Attribute(name, read, write, list_value(field))


def integer_of(message_class: type[Message], field: str, name: str) -> Attribute:
    """An attribute that is field `name`, an int64, of the message in field `field` of an instruction."""
    fields = Fields(message_class)

    def read(cursor: HloCursor) -> bytes:
        return FIELDS.message(field, fields.integer(name, cursor.parse_int()))

    def write(message: Any, _context: Context) -> str:
        return f", {name}={getattr(message_class.FromString(submessage(getattr(message, field))), name)}"

    return Attribute(name, read, write, scalar_value(name, "an integer", owner=field))


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

    return Attribute(name, read, write, list_value(part, owners=(field,)))


def structured(
    name: str, kind: type[Structured], write: Callable[[Any, Context], str], *, field: str = ""
) -> Attribute:
    """An attribute whose value is a message in field `field` of an instruction, which is called as the attribute unless
    given.
    """
    field = field or name

    def read(cursor: HloCursor) -> bytes:
        return FIELDS.message(field, kind.read(cursor).to_proto())

    return Attribute(name, read, write, message_value(field, kind))


def structured_list(
    name: str, kind: type[Structured], write: Callable[[Any, Context], str], *, field: str = ""
) -> Attribute:
    """An attribute whose value is a list, in braces, of messages in field `field` of an instruction."""
    field = field or name

    def read(cursor: HloCursor) -> bytes:
        return b"".join(cursor.parse_list(lambda: FIELDS.message(field, kind.read(cursor).to_proto())))

    return Attribute(name, read, write, messages_value(field, kind))
