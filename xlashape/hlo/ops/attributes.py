"""How an operation uses an attribute: whether text must have it, and which value XLA fills in if text does not.

The attributes themselves, with their names and how their values are read and written, are in xlashape.hlo.values.
`COMMON` has the attributes that any instruction may have.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from typing import Final, NamedTuple, Protocol

from xlashape.hlo.values.attribute import Attribute, not_written
from xlashape.hlo.values.metadata import ORIGIN, STATISTICS
from xlashape.hlo.values.plain import BACKEND_CONFIG, FRONTEND_ATTRIBUTES, PARAMETER_REPLICATION
from xlashape.hlo.values.sharding import SHARDING
from xlashape.shape import Shape


class CannotComplete(Exception):
    """The text of an instruction contradicts itself. The message says how; the reader adds the position in the text."""


class Written(Protocol):
    """An instruction as it is written in HLO text, before missing attributes are filled in."""

    @property
    def opcode(self) -> str:
        """The opcode. For an asynchronous instruction, the opcode of the operation that it wraps."""
        ...

    @property
    def shape(self) -> Shape | None:
        """The written shape; None if text leaves it out."""
        ...

    @property
    def operands(self) -> Sequence[Shape]:
        """The shapes of the operands."""
        ...

    def has(self, name: str) -> bool:
        """Whether the attribute is written."""
        ...

    def value(self, name: str) -> bytes:
        """The value of an attribute as serialized fields of HloInstructionProto; b"" if it is not written."""
        ...

    def called_parameters(self, name: str) -> Sequence[int]:
        """The number of parameters of each computation that the attribute names; -1 for a computation that could not be
        read."""
        ...


Fill = Callable[[Written, "bytes | None"], bytes]
"""A function that gives the final fields of an attribute. It takes the instruction, and the fields of the written value
or None if the attribute is not written. Raises CannotComplete.
"""


class Presence(Enum):
    """Whether text must, may or must not have an attribute."""

    REQUIRED = "required"
    OPTIONAL = "optional"
    WRITTEN_ONLY = "written only"
    """The writer writes the attribute if the proto has it. The reader refuses text with it, as XLA does."""


class AttributeUse(NamedTuple):
    """How one operation uses an attribute."""

    attribute: Attribute
    presence: Presence
    fill: Fill | None = None
    """Fills in or changes the value. None if a written value stays as it is, and a missing one stays missing."""


def required(attribute: Attribute, fill: Fill | None = None) -> AttributeUse:
    """An attribute that text must have."""
    return AttributeUse(attribute, Presence.REQUIRED, fill)


def optional(attribute: Attribute, fill: Fill | None = None, *, default: bytes | None = None) -> AttributeUse:
    """An attribute that text may have. If text leaves it out, it gets the fields `default`."""
    return AttributeUse(attribute, Presence.OPTIONAL, fill if default is None else _default(default))


def _default(missing: bytes) -> Fill:
    return lambda _, value: missing if value is None else value


def written_only(attribute: Attribute) -> AttributeUse:
    """An attribute that the writer may write for this operation, and that the reader refuses."""
    return AttributeUse(attribute, Presence.WRITTEN_ONLY)


# -- attributes that any instruction may have ----------------------------------------------------

# Reader and writer handle these two themselves: their values refer to other instructions, and to tables of the module.
CONTROL_PREDECESSORS: Final = Attribute("control-predecessors", None, not_written)
METADATA: Final = Attribute("metadata", None, not_written)

COMMON: Final = {
    attribute.name: attribute
    for attribute in (
        SHARDING,
        FRONTEND_ATTRIBUTES,
        CONTROL_PREDECESSORS,
        STATISTICS,
        ORIGIN,
        METADATA,
        BACKEND_CONFIG,
        PARAMETER_REPLICATION,
    )
}
"""Name → attribute, in the order in which they are written. PARAMETER_REPLICATION is read for any instruction, but only
written for a parameter, whose row has it too.
"""
