"""The time of a profile as a picture: a bar for each instruction, the longest first, with a mark at the least time that
the device allows.

The instructions beyond the first 40 share the last bar. A mark is drawn where the least time of the instruction is
known. The part of the bar behind the mark is the most time that could be saved with the same instruction.
"""

from __future__ import annotations

from html import escape
from typing import Final, NamedTuple

from xlashape.base.display import printable
from xlashape.base.frozen import set_field
from xlashape.base.math import counted
from xlashape.base.tables import Column, ColumnKind
from xlashape.drawing.marks import colours
from xlashape.drawing.picture import AnswerPicture
from xlashape.drawing.writers.panels import CHARACTER
from xlashape.reports.profile import InstructionTime, Profile
from xlashape.reports.text import cell_text, cut_middle

MOST_BARS: Final = 40
"""The most bars of instructions, beside one bar for all others."""
KINDS: Final = {
    "memory": "limited by memory",
    "compute": "limited by compute",
    "copy": "copy or transpose",
    "": "limit not known",
    "rest": "all others",
}
"""The meanings of a bar's colour, in the order of the legend."""
_FILLS: Final = dict(zip(KINDS, (20, 23, 24, 27, 40), strict=True))
# The widths of the columns in pixels, and the heights of a row and of its bar.
_NAMES, _LINES, _BARS, _NUMBERS = 236, 176, 420, 216
_ROW, _BAR = 22, 15
_LEFT: Final = 20
_FROM: Final = _LEFT + _NAMES + _LINES
_WIDTH: Final = _FROM + _BARS + _NUMBERS + 20
_SECONDS: Final = Column("time", ColumnKind.NUMBER, "", "seconds")
_FRACTION: Final = Column("share", ColumnKind.NUMBER, "", "fraction")
_RATE: Final = Column("rate", ColumnKind.NUMBER, "", "bytes/s")


class Bar(NamedTuple):
    """An instruction, or all that have no bar of their own. Times are in seconds, over all executions."""

    name: str
    time: float
    """The time, without that of other instructions' events within the events of this one."""
    share: float
    """The fraction of the profile's time."""
    least: float | None
    """The least time in which the device could run it; None if that is not known."""
    kind: str
    """A key of `KINDS`."""
    source: str
    tip: str


def bars_of(profile: Profile) -> tuple[Bar, ...]:
    """The bars of a profile, the longest first. The last may be that of all instructions without a bar of their own."""
    shown = profile.rows[:MOST_BARS] if len(profile.rows) > MOST_BARS + 1 else profile.rows
    rest = profile.rows[len(shown) :]
    bars = [_bar(row) for row in shown]
    if rest:
        least = [_least(row) for row in rest]
        known = [each for each in least if each is not None]
        name = f"{len(rest):,} more instructions"
        time, share = sum([row.self_time for row in rest]), sum([row.share for row in rest])
        bars.append(Bar(name, time, share, sum(known) if len(known) == len(least) else None, "rest", "", name))
    return tuple(bars)


def _least(row: InstructionTime) -> float | None:
    return None if row.least_time is None else row.least_time * row.executions


def _bar(row: InstructionTime) -> Bar:
    least = _least(row)
    tip = [f"{row.name} ({row.opcode})" if row.opcode else row.name]
    tip.append(f"{cell_text(_SECONDS, row.self_time)}, {cell_text(_FRACTION, row.share)}, {row.count:,} events")
    if least is not None:
        tip.append(f"least time {cell_text(_SECONDS, least)}, limited by {row.bound}")
    if row.bandwidth:
        tip.append(f"{cell_text(_RATE, row.bandwidth)}B/s")
    tip += [text for text in (row.module, row.source, row.op_name) if text]
    kind = "copy" if row.is_copy else row.bound or ""
    return Bar(
        printable(row.name), row.self_time, row.share, least, kind, printable(row.source), printable("\n".join(tip))
    )


class ProfilePicture(AnswerPicture):
    """The picture of a profile. It is shown and saved like other pictures."""

    __slots__ = ("_profile", "bars")
    _profile: Profile
    bars: tuple[Bar, ...]
    """The bars, from the top."""

    def __init__(self, profile: Profile, theme: str = "auto") -> None:
        super().__init__(theme)
        set_field(self, "_profile", profile)
        set_field(self, "bars", bars_of(profile))

    @property
    def title(self) -> str:
        names = list(dict.fromkeys([row.module for row in self._profile.rows if row.module]))
        more = f" and {len(names) - 2:,} more modules" if len(names) > 2 else ""
        return printable(f"the time of {', '.join(names[:2]) or 'a profile'}{more}")

    @property
    def facts(self) -> tuple[str, ...]:
        """What stands below the title."""
        profile = self._profile
        if not profile.rows:
            return ("The profile has no events of HLO instructions.",)
        steps = f", {counted(profile.steps, 'step')}" if profile.steps else ""
        facts = [f"{cell_text(_SECONDS, profile.time)} in {len(profile.rows):,} instructions{steps}"]
        if self.has_marks:
            facts.append(f"The mark is the least time on {self._device}: at most the rest of the bar can be saved.")
        else:
            facts.append("Least times are not known: give a target, or peak and bandwidth, for marks of the roofline.")
        return tuple(facts)

    @property
    def has_marks(self) -> bool:
        """Whether the least time of some bar is known."""
        return any(bar.least is not None for bar in self.bars)

    @property
    def _device(self) -> str:
        return self._profile.target or "this device"

    def draw(self, theme: str, *, standalone: bool) -> str:
        bars = self.bars
        top = 56 + 15 * len(self.facts)
        bottom = top + _ROW * len(bars)
        parts = self.head("xspb", (_WIDTH, bottom + 40), _LEFT, theme, _rules, standalone=standalone)
        if not bars:
            return "".join(parts) + "</svg>"
        most = max([bar.time for bar in bars]) or 1.0
        ends = [_FROM + _BARS + 66, _FROM + _BARS + 128, _FROM + _BARS + _NUMBERS]
        headings = ["time", "share", "least time"] if self.has_marks else ["time", "share"]
        parts += [
            f'<text class="u" x="{_LEFT}" y="{top - 8}">instruction</text>',
            f'<text class="u" x="{_LEFT + _NAMES}" y="{top - 8}">source</text>',
        ]
        parts += [
            f'<text class="u e" x="{end}" y="{top - 8}">{heading}</text>'
            for heading, end in zip(headings, ends, strict=False)
        ]
        for number, bar in enumerate(bars):
            y, base = top + _ROW * number, top + _ROW * number + _BAR - 3
            width = max(round(bar.time / most * _BARS, 2), 0.5)
            name = escape(cut_middle(bar.name, int((_NAMES - 12) / CHARACTER)))
            source = escape(cut_middle(bar.source, int((_LINES - 12) / CHARACTER)))
            cells = [cell_text(_SECONDS, bar.time), cell_text(_FRACTION, bar.share)]
            if bar.least is not None:
                cells.append(cell_text(_SECONDS, bar.least))
            parts.append(
                f'<g><title>{escape(bar.tip)}</title><rect class="g" x="0" y="{y - 3}" width="{_WIDTH}" '
                f'height="{_ROW}"/>'
                f'<text class="t" x="{_LEFT}" y="{base}">{name}</text>'
                f'<text class="u" x="{_LEFT + _NAMES}" y="{base}">{source}</text>'
                f'<rect class="k{list(KINDS).index(bar.kind)}" x="{_FROM}" y="{y}" width="{width}" height="{_BAR}"/>'
            )
            parts += [
                f'<text class="t e" x="{end}" y="{base}">{escape(cell)}</text>'
                for cell, end in zip(cells, ends, strict=False)
            ]
            if bar.least is not None:
                # A least time beyond the longest bar is marked at the end of the axis.
                x = round(_FROM + min(bar.least / most, 1.0) * _BARS, 2)
                ends_of_mark = f'x1="{x}" y1="{y - 3}" x2="{x}" y2="{y + _BAR + 3}"'
                parts.append(f'<line class="q" {ends_of_mark}/><line class="p" {ends_of_mark}/>')
            parts.append("</g>")
        found = {bar.kind for bar in bars}
        x = _LEFT
        for number, (kind, meaning) in enumerate(KINDS.items()):
            if kind in found:
                parts.append(f'<rect class="k{number}" x="{x}" y="{bottom + 12}" width="12" height="12"/>')
                parts.append(f'<text class="t" x="{x + 18}" y="{bottom + 22}">{meaning}</text>')
                x += 170
        if self.has_marks:
            parts.append(f'<line class="p" x1="{x + 6}" y1="{bottom + 8}" x2="{x + 6}" y2="{bottom + 28}"/>')
            parts.append(f'<text class="t" x="{x + 18}" y="{bottom + 22}">least time on the device</text>')
        return "".join(parts) + "</svg>"

    def text(self, color: str = "none", width: int = 100) -> str:
        """The bars as lines of `width` characters or fewer; `width` counts as 60 if it is less. Up to the least time,
        if it is known, a bar has full blocks, and lighter blocks behind it. `color` changes nothing."""
        del color  # bars have none
        width = max(60, min(width, 400))
        first, *others = self.facts
        if self.has_marks:
            others = [f"█ least time on {self._device}  ▒ above it  ░ least time not known"]
        lines = [self.title, first, *others, ""]
        times = [cell_text(_SECONDS, bar.time) for bar in self.bars]
        names = min(max([len(bar.name) for bar in self.bars], default=0), width * 3 // 10)
        sources = min(max([len(bar.source) for bar in self.bars], default=0), width // 4)
        numbers = max([len(each) for each in times], default=0)
        room = width - names - sources - numbers - 6 - 2 * (4 if sources else 3)
        most = max([bar.time for bar in self.bars], default=0.0) or 1.0
        for bar, time in zip(self.bars, times, strict=True):
            full = max(1, round(bar.time / most * room))
            least = min(full, round((bar.least or 0.0) / most * room)) if self.has_marks else full
            blocks = "█" * least + ("▒" if bar.least is not None else "░") * (full - least)
            parts = [cut_middle(bar.name, names).ljust(names), blocks.ljust(room)]
            parts += [time.rjust(numbers), cell_text(_FRACTION, bar.share).rjust(6), cut_middle(bar.source, sources)]
            lines.append("  ".join(parts).rstrip())
        return "\n".join(lines) + "\n"


def _rules(page: dict[str, str]) -> str:
    fills = "".join(
        [
            f".xspb .k{number}{{fill:{colours.hex_of(fill)};stroke:{page['rule']};stroke-width:.5}}"
            for number, fill in enumerate(_FILLS.values())
        ]
    )
    return (
        f".xspb .g{{fill:{page['ground']}}}.xspb .t{{fill:{page['text']}}}.xspb .u{{fill:{page['muted']}}}"
        f".xspb .e{{text-anchor:end}}.xspb .p{{stroke:{page['mark']};stroke-width:2}}"
        f".xspb .q{{stroke:{page['ground']};stroke-width:5}}{fills}"
    )
