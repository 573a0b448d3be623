"""Attributes that any instruction may have."""

from __future__ import annotations

from typing import Final

from xlashape.hlo.values.attribute import Attribute, not_written
from xlashape.hlo.values.plain import PARAMETER_REPLICATION
from xlashape.hlo.values.table import VALUES

__all__ = ["COMMON", "CONTROL_PREDECESSORS", "METADATA"]

CONTROL_PREDECESSORS: Final = Attribute("control-predecessors", None, not_written)
METADATA: Final = Attribute("metadata", None, not_written)

COMMON: Final = {
    attribute.name: attribute
    for attribute in (
        *[
            Attribute(name, VALUES[name], not_written)
            for name in ("backend_config", "frontend_attributes", "origin", "sharding", "statistics")
        ],
        CONTROL_PREDECESSORS,
        METADATA,
        PARAMETER_REPLICATION,
    )
}
"""The attributes by name."""
