"""Estimates the memory of a serialized message before it is decoded, by walking its wire format.

Three things make a small message expensive:

- Protobuf spends hundreds of bytes on a submessage that takes two on the wire: 2 MB of empty instructions decode into
  645 MB.
- Answers about a module have a name where the module has an id of one or two bytes: a module of 1 MB with one long name
  and 1,500 uses of it had a text of 1.5 GB.
- Answers sort some lists as a whole. Python sorts a million entries for a second, in which no other thread runs. So the
  length of such lists is bounded.

The walk needs little memory of its own and stops at the first limit that is passed.
"""

from __future__ import annotations

from typing import NamedTuple

from google.protobuf.descriptor import Descriptor, FieldDescriptor

from xlashape import limits
from xlashape.errors import DecodeError, LimitExceededError
from xlashape.proto import is_repeated, xla
from xlashape.proto.wire import BYTES, FIXED32, FIXED64, VARINT, read_varint

_MAX_DEPTH = 100  # messages within messages; protobuf's decoder refuses more

# C++ type of a field → bytes in memory of one number.
_NUMBER_BYTES = {
    FieldDescriptor.CPPTYPE_INT64: 8,
    FieldDescriptor.CPPTYPE_UINT64: 8,
    FieldDescriptor.CPPTYPE_DOUBLE: 8,
    FieldDescriptor.CPPTYPE_INT32: 4,
    FieldDescriptor.CPPTYPE_UINT32: 4,
    FieldDescriptor.CPPTYPE_ENUM: 4,
    FieldDescriptor.CPPTYPE_FLOAT: 4,
    FieldDescriptor.CPPTYPE_BOOL: 1,
}
# Type of a field → bytes on the wire of one number, where all have the same. Other numbers are varints.
_FIXED_BYTES = {
    FieldDescriptor.TYPE_FIXED64: 8,
    FieldDescriptor.TYPE_SFIXED64: 8,
    FieldDescriptor.TYPE_DOUBLE: 8,
    FieldDescriptor.TYPE_FIXED32: 4,
    FieldDescriptor.TYPE_SFIXED32: 4,
    FieldDescriptor.TYPE_FLOAT: 4,
}
_CONTINUED = bytes(range(128, 256))  # bytes of a varint that are not its last byte
_ID_BYTES = 80
"""Bytes of memory that one number of a repeated field of an instruction, such as the id of an operand, takes in the
library's view of the instruction and in answers. The characters of the name that an answer may have in place of an id
come on top.
"""
_SIZE_BYTES = 100
"""Bytes of memory that the library's view of a shape takes for one dimension size or dimension number, if the shape has
many of them.
"""
_FEW = 64  # bytes of packed numbers on the wire; in a longer field, each number of a shape counts `_SIZE_BYTES`
_CHARACTER_BYTES = 100  # bytes of memory that printing takes for an unusual character of a name, such as `(`
_MOST_ENTRIES = 100_000  # entries of one map, or of one other list that answers sort
_ENTRIES = ("xla.HloInputOutputAliasProto.AliasEntryProto", "xla.HloBufferDonorProto.BufferDonorEntryProto")
"""The messages that are entries of a list that answers sort, and not of a map."""
_SHAPES = (xla.ShapeProto.DESCRIPTOR, xla.LayoutProto.DESCRIPTOR, xla.TileProto.DESCRIPTOR)
_NAMES = frozenset(
    {
        xla.HloModuleProto.DESCRIPTOR.fields_by_name["name"].full_name,
        xla.HloInstructionProto.DESCRIPTOR.fields_by_name["name"].full_name,
        xla.HloComputationProto.DESCRIPTOR.fields_by_name["name"].full_name,
        xla.StackFrameIndexProto.DESCRIPTOR.fields_by_name["file_names"].full_name,
        xla.StackFrameIndexProto.DESCRIPTOR.fields_by_name["function_names"].full_name,
    }
)
"""The fields with names that an answer may repeat for each id and each instruction."""


class MessageCount(NamedTuple):
    """What `count` has found in a message."""

    counted: int
    """The number of submessages of the counted type."""
    memory: int
    """An upper bound of the bytes of memory that the message and one answer about it take."""
    messages: int = 0
    """The number of submessages of any type."""
    answers: int = 0
    """The part of `memory` that an answer with all ids and names takes."""


class _MessageType:
    """Facts about one message type that the walk needs."""

    __slots__ = ("facts", "is_entry", "many", "memory", "name", "names", "packed", "submessages")

    def __init__(self, name: str, memory: int, *, is_shape: bool, is_entry: bool) -> None:
        self.name = name
        self.is_entry = is_entry
        """Whether messages of this type are entries of a list that may have `_MOST_ENTRIES` at most."""
        self.memory = memory
        """Bytes that a message takes before its fields have any content."""
        self.submessages: dict[int, _MessageType] = {}
        """Tag of a field that holds messages → their type."""
        self.packed: dict[int, int] = {}
        """Tag of a field that holds packed numbers → the most bytes in memory for a byte on the wire."""
        self.many: set[int] = set()
        """The tags of the repeated numbers of an instruction."""
        self.names: set[int] = set()
        """The tags of the fields in `_NAMES`."""
        self.facts = self.submessages, self.packed, self.many, self.names, _SIZE_BYTES if is_shape else 8
        """`submessages`, `packed`, `many` and `names`, which the walk unpacks at once, and the bytes in memory of a
        number that is not packed.
        """


_types: dict[str, _MessageType] = {}
"""Full name → a message type that has been walked. This is a table and no cache: the schema has some hundred types."""


def _type_of(descriptor: Descriptor) -> _MessageType:
    """The facts about a message type; computed once, with those of the types of its fields."""
    made = _types.get(descriptor.full_name)
    if made is not None:
        return made
    fields = list(descriptor.fields)
    # A header of 16 bytes; for each field a slot of 8 bytes, of 16 for a string; and twice 8 bytes for the slot in the
    # parent's array, since an array that grew may have twice the slots that it uses.
    memory = 32 + sum(
        16 if field.cpp_type == FieldDescriptor.CPPTYPE_STRING and not is_repeated(field) else 8 for field in fields
    )
    made = _types[descriptor.full_name] = _MessageType(
        descriptor.full_name,
        memory,
        is_shape=descriptor in _SHAPES,
        is_entry=descriptor.GetOptions().map_entry or descriptor.full_name in _ENTRIES,
    )
    for field in fields:
        tag = field.number << 3 | BYTES
        if field.message_type is not None:
            made.submessages[tag] = _type_of(field.message_type)
        elif field.full_name in _NAMES:
            made.names.add(tag)
        elif (
            descriptor is xla.HloInstructionProto.DESCRIPTOR and is_repeated(field) and field.cpp_type in _NUMBER_BYTES
        ):
            made.many.add(tag)
        elif field.cpp_type in _NUMBER_BYTES:
            made.packed[tag] = max(1, _NUMBER_BYTES[field.cpp_type] // _FIXED_BYTES.get(field.type, 1))
    return made


def count(
    data: bytes,
    descriptor: Descriptor,
    counted: str,
    *,
    max_counted: int,
    max_memory: int,
    subject: str,
    limit: str,
    plural: str = "instructions",
    memory_limit: str = "module_memory",
) -> MessageCount:
    """Walks `data`, a serialized message of `descriptor`, and counts the submessages whose full name is `counted`.

    LimitExceededError `limit` as soon as there are more than `max_counted` of them, `memory_limit` as soon as the
    message takes more than `max_memory` bytes in memory, "entries" for a list of more than `_MOST_ENTRIES`. DecodeError
    if the wire format is broken. In the text of errors, `subject` stands for the message and `plural` for the counted
    submessages.
    """
    current = _type_of(descriptor)
    submessages, packed, many, names, single = current.facts
    # For each message around the current message: where it ends, its type, and how many entries it has had so far.
    enclosing: list[tuple[int, _MessageType, int]] = []
    entries = 0  # of lists in the current message
    at, end = 0, len(data)
    memory, found, messages = current.memory + len(data), 0, 0
    ids = longest = 0
    # The fields are read here, and a tag or length of one byte without a function call: `wire.fields` takes 8.8 ms
    # instead of 4.2 for a module of 119 kB.
    try:
        while True:
            while at == end:
                if not enclosing:
                    answers = longest * (found + ids + _CHARACTER_BYTES) + _ID_BYTES * ids
                    memory += answers
                    if memory > max_memory:
                        raise _too_much(subject, memory_limit, max_memory)
                    return MessageCount(found, memory, messages, answers)
                end, current, entries = enclosing.pop()
                submessages, packed, many, names, single = current.facts
            if at > end:
                broken_at = end
                break
            tag = data[at]
            at += 1
            if tag >= 128:
                tag, at = read_varint(data, at - 1)
            wire_type = tag & 7
            if wire_type == BYTES:
                size = data[at]
                at += 1
                if size >= 128:
                    size, at = read_varint(data, at - 1)
                child = submessages.get(tag)
                if child is None:
                    at += size
                    if tag in many:
                        ids += len(data[at - size : at].translate(None, _CONTINUED))
                    elif tag in packed:
                        memory += size * (packed[tag] if size <= _FEW or single == 8 else single)
                    elif tag in names and size > longest:
                        longest = size
                    continue
                memory += child.memory
                if child.name == counted:
                    found += 1
                    if found > max_counted:
                        raise LimitExceededError(
                            f"{subject} has more than {max_counted} {plural}", limit=limit, maximum=max_counted
                        )
                elif child.is_entry:
                    entries += 1
                    if entries > _MOST_ENTRIES:
                        raise LimitExceededError(
                            f"{subject} has a list of more than {_MOST_ENTRIES} entries in {current.name}",
                            limit="entries",
                            maximum=_MOST_ENTRIES,
                        )
                if memory > max_memory:
                    raise _too_much(subject, memory_limit, max_memory)
                messages += 1
                if not messages & 4095:
                    limits.spend(4096)
                if size:
                    if at + size > end or len(enclosing) >= _MAX_DEPTH:
                        broken_at = at
                        break
                    enclosing.append((end, current, entries))
                    current, end, entries = child, at + size, 0
                    submessages, packed, many, names, single = current.facts
            elif wire_type == VARINT:
                memory += single
                if many:
                    ids += tag | BYTES in many
                while data[at] >= 128:
                    at += 1
                at += 1
            elif wire_type == FIXED64:
                at += 8
            elif wire_type == FIXED32:
                at += 4
            else:
                broken_at = at
                break
    except (IndexError, DecodeError):
        broken_at = len(data)
    raise _broken(subject, descriptor, broken_at)


def _too_much(subject: str, limit: str, maximum: int) -> LimitExceededError:
    return LimitExceededError(f"{subject} would take more than {maximum} bytes of memory", limit=limit, maximum=maximum)


def _broken(subject: str, descriptor: Descriptor, at: int) -> DecodeError:
    return DecodeError(
        f"{subject} is not a {descriptor.full_name}: the wire format is broken near byte {at}, or nests deeper than "
        "100 levels"
    )
