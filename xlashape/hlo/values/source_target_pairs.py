r"""Which device sends to which in a collective-permute: `source_target_pairs={{0,1},{1,0}}`.

pairs       := '{' (pair (',' pair)*)? '}'      pair := '{' source ',' target '}'
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from xlashape.hlo.tokens.hlo_cursor import HloCursor
from xlashape.hlo.values.attribute import Context, structured_list, whole
from xlashape.proto import xla


class SourceTarget(NamedTuple):
    """A device that sends, and the one that receives.

    >>> SourceTarget.parse("{0,1}")
    SourceTarget(source=0, target=1)
    """

    source: int
    target: int

    @classmethod
    def parse(cls, text: str) -> SourceTarget:
        """The pair written `text`, braces included. Raises ParseError."""
        return whole(cls.read, text)

    @classmethod
    def read(cls, cursor: HloCursor) -> SourceTarget:
        """The pair at the cursor."""
        cursor.skip_space()
        at = cursor.at
        ends = cursor.parse_ints(what="a device")
        if len(ends) != 2:
            raise cursor.error("expected a pair, {source,target}", at=at, expected="a pair")
        return cls(*ends)

    def write(self) -> str:
        """`{0,1}`."""
        return f"{{{self.source},{self.target}}}"

    @classmethod
    def of_proto(cls, message: xla.SourceTarget) -> SourceTarget:
        """The pair of a message."""
        return cls(message.source, message.target)

    def to_proto(self) -> xla.SourceTarget:
        """A new message."""
        return xla.SourceTarget(source=self.source, target=self.target)


def _write(message: Any, _context: Context) -> str:
    pairs = [SourceTarget.of_proto(xla.SourceTarget.FromString(data)) for data in message.source_target_pairs]
    return f", source_target_pairs={{{','.join([pair.write() for pair in pairs])}}}"


SOURCE_TARGET_PAIRS: Final = structured_list("source_target_pairs", SourceTarget, _write)
