"""Attributes as one operation has them: whether text must have them, and what XLA fills in where text has none.

An attribute itself, its name and how its value is read and written, is defined in xlashape.hlo.values. `COMMON` has
those that any instruction may have.
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
    """What HLO text says about the instruction that is being completed."""

    @property
    def opcode(self) -> str:
        """The opcode; of an asynchronous operation the one it wraps."""
        ...

    @property
    def shape(self) -> Shape | None:
        """The written shape; None where text leaves it out."""
        ...

    @property
    def operands(self) -> Sequence[Shape]:
        """The shapes of the operands."""
        ...

    def has(self, name: str) -> bool:
        """Whether the attribute is written."""
        ...

    def value(self, name: str) -> bytes:
        """The value of an attribute as fields of HloInstructionProto; b"" where the attribute is not written."""
        ...

    def called_parameters(self, name: str) -> Sequence[int]:
        """For each computation that the attribute names, how many parameters it has; -1 for one that could not be
        read."""
        ...


Fill = Callable[[Written, "bytes | None"], bytes]
"""The fields that an attribute becomes, from the fields its written value gave, None where it is not written. Raises
CannotComplete.
"""


class Presence(Enum):
    """Whether text has an attribute."""

    REQUIRED = "required"
    OPTIONAL = "optional"
    WRITTEN_ONLY = "written only"
    """The writer writes it where the proto has it; text with it is refused, as XLA refuses it."""


class Use(NamedTuple):
    """An attribute as one operation has it."""

    attribute: Attribute
    presence: Presence
    fill: Fill | None = None
    """What XLA fills in or changes; None where a written value is kept as it is, and a missing one stays missing."""


def required(attribute: Attribute, fill: Fill | None = None) -> Use:
    """An attribute that text must have."""
    return Use(attribute, Presence.REQUIRED, fill)


def optional(attribute: Attribute, fill: Fill | None = None, *, default: bytes | None = None) -> Use:
    """An attribute that text may have. `default` are its fields where text leaves it out."""
    return Use(attribute, Presence.OPTIONAL, fill if default is None else _default(default))


def _default(missing: bytes) -> Fill:
    return lambda _, value: missing if value is None else value


def written_only(attribute: Attribute) -> Use:
    """An attribute that only the writer knows for this operation."""
    return Use(attribute, Presence.WRITTEN_ONLY)


# -- attributes that any instruction may have ----------------------------------------------------

# The reader reads these itself, and the writer writes them: they belong to a computation's instructions and to a
# module's tables.
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
"""The attributes by name, in the order in which they are written. Only a parameter's PARAMETER_REPLICATION is written,
as its own.
"""
