"""`Attribute`: an attribute of instructions. It has a name in HLO text, a function that reads the value from text, a
function that writes it as text, and a `Codec`, which gives the value as a Python object.

`Attribute.read` returns bytes: serialized fields of HloInstructionProto. The reader concatenates the bytes of all
attributes of an instruction, and protobuf merges them: two parts of one submessage become one, repeated fields append.
So every attribute can be read on its own.

`Attribute.write` takes the HloInstructionProto. It does not read the fields that a writer handles itself: name, id,
shape, operands, called computations, control predecessors, parameter number and metadata.

The Python values, which users, rules and the editor hold, are numbers, texts, tuples, and a frozen type for each value
with a structure of its own, such as `Window`. Such a type has four methods: `read` from a cursor and `write` to text,
`of_proto` and `to_proto`.

The functions at the end construct attributes whose value is a number, a flag, a word, a list of numbers, or a value of
such a frozen type.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any, Final, NamedTuple, Protocol, TypeVar

from google.protobuf.message import Message

from xlashape.base.similar import did_you_mean
from xlashape.errors import InvalidArgumentError
from xlashape.hlo.tokens import HloCursor, ints
from xlashape.limits import INT32_MAX, INT32_MIN
from xlashape.proto import xla
from xlashape.proto.wire import Fields
from xlashape.shape import Shape

_T = TypeVar("_T")
_P = TypeVar("_P", bound="InProto")
_R = TypeVar("_R", bound=NamedTuple)
_V = TypeVar("_V", bound="Structured")

FIELDS: Final = Fields(xla.HloInstructionProto)
"""Serializes fields of HloInstructionProto by name."""


class Context(Protocol):
    """What `Attribute.write` may ask about the instruction that is being written and about the print options."""

    @property
    def operand_count(self) -> int:
        """The number of the instruction's operands."""
        ...

    def operand_shape(self, number: int) -> Shape | None:
        """The shape of an operand; None where the instruction has no operand of that number."""
        ...

    def shape_text(self, shape: xla.ShapeProto) -> str:
        """The text of a shape, layout included."""
        ...

    @property
    def is_fingerprint(self) -> bool:
        """Whether the text is made for a fingerprint, which has device lists in full and no infeed and outfeed
        configurations."""
        ...

    @property
    def show_ids(self) -> bool:
        """Whether the names of the module and its computations are written. The attribute parameter_replication is
        written only with them."""
        ...

    @property
    def payloads(self) -> Sequence[bytes]:
        """The module's table of payloads."""
        ...

    @property
    def show_metadata(self) -> bool:
        """Whether shardings are written with their metadata."""
        ...


Write = Callable[[xla.HloInstructionProto, Context], str]
"""The type of `Attribute.write`."""


class InProto(Protocol):
    """A Python value that stands for a protobuf message."""

    @classmethod
    def of_proto(cls: type[_P], message: Any) -> _P:
        """The value that a message stands for."""
        ...

    def to_proto(self) -> Any:
        """A new message that stands for the value."""
        ...


class Structured(InProto, Protocol):
    """A value that stands for a message, and that HLO text has as the value of a single attribute."""

    @classmethod
    def read(cls: type[_V], cursor: HloCursor) -> _V:
        """Reads the value at the cursor. Raises ParseError."""
        ...

    def write(self) -> str:
        """The text of the value, as it follows `name=` in HLO text."""
        ...


class Codec(NamedTuple):
    """How the value of an attribute is taken from an HloInstructionProto as a Python object and put into one."""

    get: Callable[[xla.HloInstructionProto], Any]
    """The value that an instruction has. For an instruction without the attribute: None if its proto can tell that,
    else 0, False or empty."""
    put: Callable[[xla.HloInstructionProto, Any], None]
    """Sets the value of an instruction; None removes it. Unknown fields stay. Raises TypeError, ValueError or
    AttributeError for an object that cannot be a value of the attribute.
    """
    what: str
    """What a value is, in a few words, for errors."""
    is_said: Callable[[Any], bool] | None = None
    """Whether XLA writes an attribute with this value. None where XLA writes every value but the one that `get` returns
    for an instruction without the attribute.
    """


class Attribute(NamedTuple):
    """An attribute: its name and how its value is read and written. Where a name stands for different fields of
    different opcodes, there is an Attribute for each meaning.
    """

    name: str
    """The name in HLO text, before the '='."""
    read: Callable[[HloCursor], bytes] | None
    """Reads the value and returns serialized fields of HloInstructionProto. None where the reader of instructions reads
    the value itself, because the value names computations or instructions, or is kept in a table of the module.
    """
    write: Write
    """The attribute as text with `, ` before it, such as `, dimensions={1}`; "" where XLA does not write it."""
    value: Codec | None = None
    """The value as a Python object. None for attributes that name computations or instructions, or whose value is kept
    in a table of the module.
    """

    def of(self, instruction: xla.HloInstructionProto) -> Any:
        """The value of this attribute that an instruction has. Only for attributes that have a Codec, `value`."""
        assert self.value is not None
        return self.value.get(instruction)


def not_written(_message: xla.HloInstructionProto, _context: Context) -> str:
    """The `write` of an attribute that XLA reads and never writes."""
    return ""


def always_written(name: str, field: str, text: Callable[[Any], str] = str) -> Write:
    """The `write` of an attribute that XLA writes for every value of its field. `field` is `options.lower` for the
    field `lower` of the submessage `options`. `text` gives the text of a value.
    """
    get = attrgetter(field)

    def write(message: xla.HloInstructionProto, _context: Context) -> str:
        return f", {name}={text(get(message))}"

    return write


def _list_written(name: str, value: Codec, *, write_empty: bool) -> Write:
    """The `write` of an attribute that is a list of integers. An empty list is written as `{}` if `write_empty`, else
    not at all.
    """

    def write(message: xla.HloInstructionProto, _context: Context) -> str:
        numbers = value.get(message)
        return f", {name}={ints(numbers)}" if numbers or write_empty else ""

    return write


def whole(read: Callable[[HloCursor], _T], text: str) -> _T:
    """The value that `read` reads from `text`. Raises ParseError, also if more text follows the value."""
    cursor = HloCursor(text)
    value = read(cursor)
    cursor.expect_end()
    return value


def record_of(kind: type[_R], message: Any) -> _R:
    """The record of a message whose fields have the same names: numbers, flags and texts, and as a tuple each list."""
    values = [getattr(message, name) for name in kind._fields]
    return kind._make([value if isinstance(value, (int, float, str)) else tuple(value) for value in values])


def replace_known(target: Message, new: Message) -> None:
    """Replaces the fields of `target` by those of `new`. Unknown fields of `target` stay."""
    for field in target.DESCRIPTOR.fields:
        target.ClearField(field.name)
    target.MergeFrom(new)
    target.SetInParent()


# -- values -----------------------------------------------------------------------------------


def scalar_value(field: str, what: str, *, owner: str = "") -> Codec:
    """The Codec of a field that is a number, a flag or a string. `owner` is the submessage that has the field, "" for a
    field of the instruction itself.
    """

    def put(instruction: Any, value: Any) -> None:
        if value is not None:
            setattr(getattr(instruction, owner) if owner else instruction, field, value)
        elif not owner:
            instruction.ClearField(field)
        elif instruction.HasField(owner):
            getattr(instruction, owner).ClearField(field)

    return Codec(attrgetter(f"{owner}.{field}" if owner else field), put, what)


def list_value(field: str, what: str = "a list of integers", *, owners: Sequence[str] = ()) -> Codec:
    """The Codec of a repeated field of numbers or flags, whose value is a tuple. `owners` are the submessages that the
    field is in, the outermost first.
    """
    field_of = attrgetter(".".join([*owners, field]))

    def get(instruction: xla.HloInstructionProto) -> tuple[Any, ...]:
        return tuple(field_of(instruction)[:])

    def put(instruction: Any, value: Any) -> None:
        if isinstance(value, str):
            raise TypeError("text is no list")
        values = tuple(value or ())
        if values != get(instruction):
            field_of(instruction)[:] = values

    return Codec(get, put, what)


def message_value(
    field: str, kind: type[_P], *, is_optional: bool = True, is_said: Callable[[_P], bool] | None = None
) -> Codec:
    """The Codec of a field that is a message. Its value is of the frozen type `kind`. Unless `is_optional`, a field
    that is not set counts as an empty message. `is_said` says whether XLA writes a value; if it is not given, XLA
    writes every value.
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

    def is_set_and_said(value: _P | None) -> bool:
        return value is not None and (is_said is None or is_said(value))

    return Codec(get, put, f"a {kind.__name__}", is_set_and_said)


def messages_value(field: str, kind: type[InProto]) -> Codec:
    """The Codec of a repeated field of messages. Its value is a tuple of values of the frozen type `kind`."""

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
    """An attribute that is an int64. `field` is the name of its field if that differs from `name`. Values in `defaults`
    are not written.
    """
    field = field or name

    def read(cursor: HloCursor) -> bytes:
        return FIELDS.integer(field, cursor.parse_int())

    def write(message: xla.HloInstructionProto, _context: Context) -> str:
        value = getattr(message, field)
        return "" if value in defaults else f", {name}={value}"

    def is_said(value: int) -> bool:
        return value not in defaults

    value = scalar_value(field, "an integer")
    return Attribute(name, read, write, value._replace(is_said=is_said) if defaults else value)


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

    def write(message: xla.HloInstructionProto, _context: Context) -> str:
        if getattr(message, name):
            return f", {name}=true"
        return f", {name}=false" if write_false else ""

    return Attribute(name, read, write, scalar_value(name, "True or False"))


def word_attribute(name: str, field: str, words: Sequence[str], what: str, write: Write) -> Attribute:
    """An attribute whose value is one of `words`, in a string field. Another word that a proto has is kept."""
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

    value = list_value(field)
    return Attribute(name, read, _list_written(name, value, write_empty=write_empty), value)


def integer_of(message_class: type[Message], field: str, name: str) -> Attribute:
    """An attribute whose value is field `name`, an int64, of the submessage in field `field` of an instruction."""
    fields = Fields(message_class)

    def read(cursor: HloCursor) -> bytes:
        return FIELDS.message(field, fields.integer(name, cursor.parse_int()))

    return Attribute(name, read, always_written(name, f"{field}.{name}"), scalar_value(name, "an integer", owner=field))


def integers_of(
    owners: Sequence[tuple[str, type[Message]]], name: str, field: str = "", *, write_empty: bool = True
) -> Attribute:
    """An attribute that is a list of int64 in a submessage of an instruction. `owners` are the submessages that the
    list is in, the outermost first: the name of the field that has each, and its class. `field` is the name of the list
    in the last, `name` unless given.
    """
    field = field or name
    *outer, inner = FIELDS, *[Fields(kind) for _, kind in owners]
    names = [owner for owner, _ in owners]

    def read(cursor: HloCursor) -> bytes:
        data = inner.integers(field, cursor.parse_ints())
        for fields, owner in zip(reversed(outer), reversed(names), strict=True):
            data = fields.message(owner, data)
        return data

    value = list_value(field, owners=names)
    return Attribute(name, read, _list_written(name, value, write_empty=write_empty), value)


def structured(
    name: str, kind: type[Structured], *, field: str = "", value: Codec | None = None, is_required: bool = False
) -> Attribute:
    """An attribute whose value is a message, of the frozen type `kind`, in field `field` of an instruction. `field` is
    `name` unless given, and `value` is the `message_value` of the field.

    The attribute is written if `value` finds one and says that XLA writes it. An attribute that `is_required` is
    written even if its field is not set, as if that were an empty message.
    """
    field = field or name
    codec = value or message_value(field, kind)
    get, _, _, is_said = codec

    def read(cursor: HloCursor) -> bytes:
        return FIELDS.message(field, kind.read(cursor).to_proto())

    def write(message: xla.HloInstructionProto, _context: Context) -> str:
        found: Structured | None = get(message)
        if found is None:
            if not is_required:
                return ""
            found = kind.of_proto(getattr(message, field))
        return f", {name}={found.write()}" if is_said is None or is_said(found) else ""

    return Attribute(name, read, write, codec)


def structured_list(name: str, kind: type[Structured], write: Write, *, field: str = "") -> Attribute:
    """An attribute whose value is a list, in braces, of messages in the repeated field `field` of an instruction. Each
    is of the frozen type `kind`; `field` is `name` unless given."""
    field = field or name

    def read(cursor: HloCursor) -> bytes:
        return b"".join(cursor.parse_list(lambda: FIELDS.message(field, kind.read(cursor).to_proto())))

    return Attribute(name, read, write, messages_value(field, kind))
