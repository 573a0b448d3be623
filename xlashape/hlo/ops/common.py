"""Attributes that any instruction may have."""

from __future__ import annotations

from typing import Final

from xlashape.hlo.values.attribute import Attribute, not_written
from xlashape.hlo.values.metadata import ORIGIN, STATISTICS
from xlashape.hlo.values.plain import BACKEND_CONFIG, FRONTEND_ATTRIBUTES, PARAMETER_REPLICATION
from xlashape.hlo.values.sharding import SHARDING

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
"""The attributes by name, in the order in which they are written. Only a parameter's PARAMETER_REPLICATION is written, as its own."""
