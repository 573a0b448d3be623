r"""Which device sends to which in a collective-permute: `source_target_pairs={{0,1},{1,0}}`.

pairs       := '{' (pair (',' pair)*)? '}'      pair := '{' source ',' target '}'
"""

from __future__ import annotations

from typing import Any, Final

from xlashape.hlo.lex import HloCursor
from xlashape.hlo.values.attribute import FIELDS, Attribute, Context
from xlashape.proto import xla

__all__ = ["SOURCE_TARGET_PAIRS"]


def _read(cursor: HloCursor) -> bytes:
    def pair() -> bytes:
        cursor.skip_space()
        at = cursor.at
        ends = cursor.parse_ints(what="a device")
        if len(ends) != 2:
            raise cursor.error("expected a pair, {source,target}", at=at, expected="a pair")
        return FIELDS.message("source_target_pairs", xla.SourceTarget(source=ends[0], target=ends[1]))

    return b"".join(cursor.parse_list(pair))


def _write(message: Any, _context: Context) -> str:
    pairs = [xla.SourceTarget.FromString(data) for data in message.source_target_pairs]
    return f", source_target_pairs={{{','.join([f'{{{pair.source},{pair.target}}}' for pair in pairs])}}}"


SOURCE_TARGET_PAIRS: Final = Attribute("source_target_pairs", _read, _write)
