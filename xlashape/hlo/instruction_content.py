"""InstructionContent: what an instruction says by itself, apart from other instructions and computations.

Most of it stands in the instruction's kind (`xlashape.hlo.kind`), which all instructions share that are alike. The
metadata are the instruction's own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from xlashape.hlo.kind import Kind
from xlashape.hlo.ops.opcode import Opcode, UnknownOpcode
from xlashape.proto import parse, xla

if TYPE_CHECKING:
    from xlashape.hlo.values.replica_groups import ReplicaGroups
    from xlashape.hlo.values.sharding import Sharding


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
