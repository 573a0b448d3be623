r"""Numbers that a profiler shows beside an instruction: `statistics={visualizing_index=0,flops=12}`.

statistics  := '{' (name '=' INT (',' name '=' DOUBLE)*)? '}'       the index of the statistic to show, then all statistics
"""

from __future__ import annotations

from typing import Any, Final

from xlashape.hlo.formatting import number
from xlashape.hlo.lex import HloCursor
from xlashape.hlo.values.attribute import ABSENT, FIELDS, Attribute, Context
from xlashape.proto import xla

__all__ = ["STATISTICS"]


def _read(cursor: HloCursor) -> bytes:
    message = xla.StatisticsViz()
    cursor.expect("{")
    if not cursor.accept("}"):
        cursor.parse_attribute_name()
        message.stat_index_to_visualize = cursor.parse_int("the index of a statistic")
        while cursor.accept(","):
            name = cursor.parse_attribute_name()
            message.statistics.add(stat_name=name, stat_val=cursor.parse_double("the value of a statistic"))
        cursor.expect("}")
    return FIELDS.message("statistics_viz", message)


def _write(message: Any, _context: Context) -> str:
    data = message.statistics_viz
    if not data or data == ABSENT:
        return ""
    statistics = xla.StatisticsViz.FromString(data)
    if not statistics.statistics:
        return ""
    parts = [f"{statistic.stat_name}={number(statistic.stat_val)}" for statistic in statistics.statistics]
    return f", statistics={{visualizing_index={statistics.stat_index_to_visualize},{','.join(parts)}}}"


STATISTICS: Final = Attribute("statistics", _read, _write)
