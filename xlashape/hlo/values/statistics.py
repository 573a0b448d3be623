r"""Numbers that a profiler shows beside an instruction: `statistics={visualizing_index=0,flops=12}`.

statistics  := '{' (name '=' INT (',' name '=' DOUBLE)*)? '}'       the index of the statistic to show, then all statistics
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from xlashape.hlo.tokens.formatting import number
from xlashape.hlo.tokens.hlo_cursor import HloCursor
from xlashape.hlo.values.attribute import ABSENT, Attribute, Context, message_value, structured, whole
from xlashape.proto import xla


class Statistics(NamedTuple):
    """Statistics by name, and which of them to show.

    >>> str(Statistics(0, (("flops", 12.0),)))
    '{visualizing_index=0,flops=12}'
    """

    stat_index_to_visualize: int = 0
    statistics: tuple[tuple[str, float], ...] = ()

    @classmethod
    def parse(cls, text: str) -> Statistics:
        """The statistics written `text`, braces included. Raises ParseError."""
        return whole(cls.read, text)

    @classmethod
    def read(cls, cursor: HloCursor) -> Statistics:
        """The statistics at the cursor."""
        index = 0
        found: list[tuple[str, float]] = []
        cursor.expect("{")
        if not cursor.accept("}"):
            cursor.parse_attribute_name()
            index = cursor.parse_int("the index of a statistic")
            while cursor.accept(","):
                found.append((cursor.parse_attribute_name(), cursor.parse_double("the value of a statistic")))
            cursor.expect("}")
        return cls(index, tuple(found))

    def write(self) -> str:
        """`{visualizing_index=0,flops=12}`."""
        parts = [f"{name}={number(value)}" for name, value in self.statistics]
        return f"{{{','.join([f'visualizing_index={self.stat_index_to_visualize}', *parts])}}}"

    @classmethod
    def of_proto(cls, message: xla.StatisticsViz) -> Statistics:
        """The statistics of a message."""
        found = [(each.stat_name, each.stat_val) for each in message.statistics]
        return cls(message.stat_index_to_visualize, tuple(found))

    def to_proto(self) -> xla.StatisticsViz:
        """A new message."""
        message = xla.StatisticsViz(stat_index_to_visualize=self.stat_index_to_visualize)
        for name, value in self.statistics:
            message.statistics.add(stat_name=name, stat_val=value)
        return message

    def __str__(self) -> str:
        return self.write()


def _write(message: Any, _context: Context) -> str:
    data = message.statistics_viz
    if not data or data == ABSENT:
        return ""
    found = Statistics.of_proto(xla.StatisticsViz.FromString(data))
    return f", statistics={found.write()}" if found.statistics else ""


def _get(instruction: xla.HloInstructionProto) -> Statistics | None:
    # XLA sets the field for every instruction.
    return Statistics.of_proto(instruction.statistics_viz) if instruction.statistics_viz.statistics else None


def _put(instruction: xla.HloInstructionProto, value: Any) -> None:
    if value is not None or instruction.HasField("statistics_viz"):
        _VALUE.put(instruction, Statistics() if value is None else value)


_VALUE: Final = message_value("statistics_viz", Statistics)

STATISTICS: Final[Attribute] = structured("statistics", Statistics, _write, field="statistics_viz")._replace(
    value=_VALUE._replace(get=_get, put=_put)
)
