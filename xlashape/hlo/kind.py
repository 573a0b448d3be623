"""Kind: what an instruction is, apart from which one it is. Instructions of a module that differ only in name, id,
operands, called computations, control predecessors, metadata, parameter number and number of their channel share one.

A language model of 31,855 instructions has 392 kinds. Whatever depends on a kind alone is computed once and kept on
it: the decoded message, the shape, typed attributes, pieces of the printed line, a hash, sizes. Kinds are immutable:
an edit gives the instruction another kind. They belong to the module whose `Kinds` made them.

A kind is identified by its bytes: the serialized HloInstructionProto without these fields. Fields that the schema does
not name are part of it, so that nothing is lost. Rules ask whether an instruction has a channel, and not which: the
kind of an instruction with any channel above 0 says channel 1.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

from google.protobuf.message import Message

from xlashape.hlo.module_proto.schema_compat import decode
from xlashape.hlo.ops.opcode import Opcode, UnknownOpcode, opcode_of
from xlashape.hlo.ops.operation import Operation
from xlashape.hlo.ops.registry import operation_of
from xlashape.proto import xla
from xlashape.shape import Shape

_T = TypeVar("_T")

OWN_FIELDS: Final = (
    "name",
    "id",
    "operand_ids",
    "called_computation_ids",
    "control_predecessor_ids",
    "metadata",
    "parameter_number",
)
"""The fields of HloInstructionProto that belong to an instruction and not to its kind."""


def own_channel(message: xla.HloInstructionProto) -> int:
    """The channel of an instruction's message, in whose place the message gets the channel of its kind."""
    channel = message.channel_id
    if channel > 1:
        message.channel_id = 1
    return channel


class Kind:
    """What an instruction is, apart from which one it is. `Kinds` makes it."""

    __slots__ = ("_dimensions", "_message", "_shape", "_tuple_index", "data", "facts", "kinds", "opcode", "row")

    data: bytes
    """The serialized HloInstructionProto without `OWN_FIELDS`, and with channel 1 for any channel above 0."""
    opcode: Opcode | UnknownOpcode
    row: Operation
    """The row of the opcode in the table of operations."""
    kinds: Kinds
    """The kinds of the module."""
    facts: dict[object, Any]
    """What `fact` has computed."""

    def __init__(self, kinds: Kinds, data: bytes, opcode: str, shape: bytes | Shape) -> None:
        self.kinds = kinds
        self.data = data
        self.opcode = opcode_of(opcode)
        self.row = operation_of(opcode)
        self.facts = {}
        self._shape: bytes | Shape = shape  # its bytes until it is asked for
        self._message: xla.HloInstructionProto | None = None
        self._dimensions: tuple[int, ...] | None = None
        self._tuple_index: int | None = None

    @property
    def message(self) -> xla.HloInstructionProto:
        """The fields of the schema that `data` has. To be read only. Raises DecodeError for broken bytes."""
        message = self._message
        if message is None:
            message = self._message = decode(xla.HloInstructionProto, self.data)[0]
        return message

    def keep(self, message: xla.HloInstructionProto) -> None:
        """Keeps the message that was decoded of `data`."""
        self._message = message

    @property
    def shape(self) -> Shape:
        """The shape of the result. Equal shapes of a module are one object. Raises what `Shape.from_proto` raises."""
        shape = self._shape
        if isinstance(shape, bytes):
            shape = self._shape = self.kinds.shape_of(shape)
        return shape

    @property
    def tuple_index(self) -> int:
        """Which element a get-tuple-element takes; 0 for any other opcode."""
        index = self._tuple_index
        if index is None:
            index = self._tuple_index = self.message.tuple_index
        return index

    @property
    def dimensions(self) -> tuple[int, ...]:
        """The attribute `dimensions`; empty for an opcode without it."""
        dimensions = self._dimensions
        if dimensions is None:
            dimensions = self._dimensions = tuple(self.message.dimensions)
        return dimensions

    def fact(self, key: object, compute: Callable[[Kind], _T]) -> _T:
        """The result of `compute`, which depends on the kind alone, kept under `key`. Threads that ask at once may
        compute it twice."""
        found = self.facts.get(key)
        if found is None:
            found = self.facts[key] = compute(self)
        return found

    def changed(self, change: Callable[[xla.HloInstructionProto], object]) -> Kind:
        """The kind whose message `change` has changed. The message that it gets is a copy."""
        copy = xla.HloInstructionProto()
        copy.CopyFrom(self.message)
        change(copy)
        return self.kinds.of_message(copy)

    def __repr__(self) -> str:
        return f"<Kind {self.opcode}>"


class Kinds:
    """The kinds of a module by their bytes, and its shapes by theirs."""

    __slots__ = ("_by_data", "_shapes", "find")

    def __init__(self) -> None:
        self._by_data: dict[bytes, Kind] = {}
        self._shapes: dict[bytes, Shape] = {}
        self.find = self._by_data.get
        """The kind with these bytes; None if there is none yet."""

    def add(self, data: bytes, opcode: str, shape: bytes | Shape) -> Kind:
        """The kind with these bytes, which is made unless there is one. `opcode` and `shape` are those in the bytes;
        the shape may be a serialized ShapeProto."""
        return self._by_data.get(data) or self._by_data.setdefault(data, Kind(self, data, opcode, shape))

    def of_message(self, message: xla.HloInstructionProto, shape: Shape | None = None) -> Kind:
        """The kind of an instruction's message, which must not be changed afterwards. The fields of `OWN_FIELDS` do not
        count, and are cleared. `shape` is the shape of the message, for a caller that has it."""
        for name in OWN_FIELDS:
            message.ClearField(name)
        own_channel(message)
        data = message.SerializePartialToString()
        kind = self.find(data)
        if kind is None:
            kind = self.add(data, message.opcode, shape or message.shape.SerializePartialToString())
            kind.keep(message)
        return kind

    def shape_of(self, proto: Message | bytes) -> Shape:
        """The Shape of a ShapeProto, or of its bytes. Equal protos give the same object."""
        data = proto if isinstance(proto, bytes) else proto.SerializePartialToString()
        shape = self._shapes.get(data)
        if shape is None:
            shape = self._shapes[data] = Shape.from_proto(proto)
        return shape

    def same_shape(self, data: bytes, shape: Shape) -> Shape:
        """The object that stands in this module for a shape, whose serialized ShapeProto is `data`."""
        return self._shapes.setdefault(data, shape)

    def __len__(self) -> int:
        return len(self._by_data)
