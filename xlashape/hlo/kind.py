"""Kind: what an instruction is, apart from which one it is. Instructions of a module that differ only in name, id,
operands, called computations, control predecessors, metadata, parameter number and number of their channel share one.

A language model of 31,855 instructions has 392 kinds. Whatever depends on a kind alone is computed once and kept on
it: the decoded message, the shape, typed attributes, pieces of the printed line, a hash, sizes. Kinds are immutable:
an edit gives the instruction another kind. They belong to the module whose `Kinds` made them.

A kind is identified by its bytes: the serialized HloInstructionProto without these fields. Fields that the schema does
not name are part of it, so that nothing is lost. Rules ask whether an instruction has a channel, and not which: the
kind of an instruction with any channel above 0 says channel 1.

InstructionContent is what an instruction reads from its kind and its metadata, and ModuleHead what a module says beside
its computations: what both say apart from other instructions and computations.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar

from google.protobuf.message import Message

from xlashape.hlo.module_proto.module_config import UNSAID, ModuleConfig
from xlashape.hlo.module_proto.schema_compat import decode
from xlashape.hlo.ops.opcode import Opcode, UnknownOpcode, opcode_of
from xlashape.hlo.ops.operation import Operation
from xlashape.hlo.ops.registry import operation_of
from xlashape.proto import parse, xla
from xlashape.shape import Shape

if TYPE_CHECKING:
    from xlashape.hlo.module_proto.stack_frames import Metadata, ModuleFrames
    from xlashape.hlo.values.replica_groups import ReplicaGroups
    from xlashape.hlo.values.sharding import Sharding

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


# -- what stands beside the graph ---------------------------------------------------------


class TextMetadata:
    """Metadata that stands as it was written in text, until it is asked for."""

    __slots__ = ("_data", "frame", "read", "text")

    def __init__(self, text: str, frame: int, read: Callable[[TextMetadata], bytes]) -> None:
        """`read` gives the serialized OpMetadata."""
        self.text = text
        """The text between the braces, without the stack frame, as XLA writes it."""
        self.frame = frame
        """The number of the stack frame in the module's table; 0 for none."""
        self.read = read
        self._data: bytes | None = None

    @property
    def data(self) -> bytes:
        """The serialized OpMetadata."""
        if self._data is None:
            self._data = self.read(self)
        return self._data


class InstructionContent:
    """What `HloInstruction` reads from its kind and from its metadata."""

    __slots__ = ()

    kind: Kind
    said_metadata: bytes | TextMetadata | None

    @property
    def opcode(self) -> Opcode | UnknownOpcode:
        """The operation of the instruction. For an opcode that this library does not know, an UnknownOpcode with the
        name that the module has."""
        return self.kind.opcode

    @property
    def details(self) -> xla.HloInstructionProto:
        """The fields of the proto other than name, id, operands, called computations, control predecessors, metadata
        and parameter number; `channel_id` is 1 for any channel above 0. All instructions of the kind share the message:
        it must not be changed."""
        return self.kind.message

    @property
    def sharding(self) -> Sharding | None:
        """How the result is distributed over devices; None for an instruction without a sharding."""
        details = self.kind.message
        if not details.HasField("sharding"):
            return None
        from xlashape.hlo.values.sharding import Sharding  # start-up time: it loads the codecs of attributes

        return Sharding.from_proto(details.sharding)

    @property
    def replica_groups(self) -> ReplicaGroups:
        """The groups in which a collective exchanges data. Empty for a collective without groups and for any other
        instruction."""
        # start-up time: it loads the codecs of attributes
        from xlashape.hlo.values.replica_groups import ReplicaGroups

        return ReplicaGroups.from_instruction(self.kind.message)

    @property
    def output_operand_aliasing(self) -> Sequence[xla.OutputOperandAliasing]:
        """Which parts of the result share memory with which parts of operands: the attribute
        `output_to_operand_aliasing`. To be read only."""
        return self.kind.message.output_operand_aliasing

    @property
    def metadata_bytes(self) -> bytes | None:
        """The serialized OpMetadata; None for an instruction that has none."""
        metadata = self.said_metadata
        return metadata.data if isinstance(metadata, TextMetadata) else metadata

    @property
    def has_metadata(self) -> bool:
        """Whether the instruction has metadata, which says where in the user's program it comes from."""
        return self.said_metadata is not None

    @property
    def op_metadata(self) -> xla.OpMetadata:
        """The metadata of the instruction as a new message."""
        return parse(xla.OpMetadata, self.metadata_bytes or b"")


class ModuleHead:
    """The part of a module beside its computations."""

    __slots__ = (
        "__weakref__",
        "_content",
        "_data",
        "_frames",
        "_head",
        "_metadata",
        "beside",
        "config",
        "is_part",
        "notes",
    )

    _data: bytes | None
    """The serialized module as it came, as long as nothing was changed; None for a module that was changed, or made of
    text."""
    _content: bytes
    """The bytes of the HloModuleProto that `_data` holds."""
    _head: xla.HloModuleProto | None
    beside: bytes | None
    """The serialized fields of the HloProto around the module, such as the buffer assignment; None if the module came
    without one."""
    config: ModuleConfig
    """The part of the module's text that the proto has no field for; `UNSAID`, the defaults, for a module made from a
    proto."""
    notes: tuple[str, ...]
    """What was left out or assumed where the module was made of text that is none as it stands
    (`xlashape.hlo.files.forgiving`); mostly empty."""
    is_part: bool
    """Whether such text is a part of a program, so that nothing bounds what the whole program takes."""

    def __init__(self) -> None:
        self._data = None
        self._content = b""
        self._head = None
        self._frames: ModuleFrames | None = None
        self._metadata: dict[bytes, Metadata] = {}
        self.beside = None
        self.config = UNSAID
        self.notes = ()
        self.is_part = False

    def fill_head(self, head: xla.HloModuleProto | None, data: bytes, content: bytes) -> None:
        """Sets the message with the fields other than the computations. None for a module that was read from the bytes
        `data`, in which `content` is its HloModuleProto."""
        self._head, self._data, self._content = head, data or None, content

    def drop_bytes(self) -> None:
        """Gives up the bytes of the module, whose `head` was read: something of it changes now."""
        self._data = None

    def read_head(self, content: bytes) -> xla.HloModuleProto:
        """The head in the bytes of an HloModuleProto."""
        raise NotImplementedError

    @property
    def head(self) -> xla.HloModuleProto:
        """A message with the module's fields other than its computations. To be read only."""
        head = self._head
        if head is None:
            head = self._head = self.read_head(self._content)
        return head

    def source(self) -> tuple[bytes, bytes]:
        """The bytes that the module was read from, and the HloModuleProto in them; empty for a module that was changed,
        or made of text."""
        return (b"", b"") if self._data is None else (self._data, self._content)

    @property
    def name(self) -> str:
        """The module's name."""
        return self.head.name

    @property
    def stack_frames(self) -> ModuleFrames:
        """The module's table of stack frames: the lines of the program that instructions refer to by number.
        `HloInstruction.metadata` shows them."""
        frames = self._frames
        if frames is None:
            # start-up time: few programs ask
            from xlashape.hlo.module_proto.stack_frames import ModuleFrames

            frames = self._frames = ModuleFrames(self.head.stack_frame_index)
        return frames

    def metadata_of(self, data: bytes) -> Metadata:
        """The Metadata in a serialized OpMetadata. Equal ones are one object."""
        found = self._metadata.get(data)
        if found is None:
            # start-up time: few programs ask
            from xlashape.hlo.module_proto.stack_frames import Metadata

            found = self._metadata[data] = Metadata.of_proto(data, self.stack_frames)
        return found
