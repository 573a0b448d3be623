"""Attributes whose values are not in xlashape.hlo.values yet."""

from __future__ import annotations

from typing import Final

from xlashape.hlo.values.attribute import Attribute, flag, not_written
from xlashape.hlo.values.replica_groups import parse_replica_groups, parse_source_target_pairs
from xlashape.hlo.values.sharding import parse_domain

__all__ = ["DOMAIN", "IS_COMPOSITE", "REPLICA_GROUPS", "SOURCE_TARGET_PAIRS"]

REPLICA_GROUPS: Final = Attribute("replica_groups", parse_replica_groups, not_written)
SOURCE_TARGET_PAIRS: Final = Attribute("source_target_pairs", parse_source_target_pairs, not_written)
IS_COMPOSITE: Final = flag("is_composite")
DOMAIN: Final = Attribute("domain", parse_domain, not_written)
