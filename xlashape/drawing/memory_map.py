"""The memory of a program as a picture: time along x, memory along y. Each value is a rectangle, as wide as the steps
of the program in which it lives and as high as its bytes.

Allocations stand one above the other: parameters, constants, outputs, temporaries. Where XLA's assignment gives
offsets, a value is drawn at its offset. Where it does not (an estimate), this file places the values: each at the
lowest place that is free when it begins.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Sequence
from html import escape
from itertools import pairwise
from typing import Any, Final, NamedTuple

from xlashape.base.display import printable
from xlashape.base.frozen import set_field
from xlashape.base.math import byte_text
from xlashape.drawing.marks import colours
from xlashape.drawing.picture import AnswerPicture
from xlashape.drawing.writers.memory_page import page_text
from xlashape.errors import InvalidModuleError, XlashapeError
from xlashape.limits import spend
from xlashape.reports.memory import LiveBuffer, ProgramMemory
from xlashape.reports.text import cut_middle, short_bytes
from xlashape.reports.why import ArrayMemory, why
from xlashape.shape import Shape

KINDS: Final = ("parameter", "constant", "output", "temporary")
"""The kinds of values, in the order in which they stand in the picture, from the bottom."""
_FILLS: Final = dict(zip(KINDS, (20, 21, 23, 24), strict=True))
# In pixels: the size of the map, the height of the curve of bytes above it, and the margins.
_WIDTH, _HEIGHT, _CURVE, _LEFT, _TOP = 960, 420, 90, 92, 64
_MOST_RECTANGLES: Final = 1_500
"""The most rectangles of an SVG, which shows the largest ones by bytes times steps. The HTML page has all."""
_MOST_POINTS: Final = 600
"""The most points of the curve of an SVG."""


class Rectangle(NamedTuple):
    """A value, drawn from the first to the last step of `buffer`, and from `bottom`, in bytes above the bottom of the
    picture, as high as its bytes."""

    buffer: LiveBuffer
    bottom: int


class MemoryMap(NamedTuple):
    """The geometry of the picture."""

    rectangles: tuple[Rectangle, ...]
    height: int
    """The bytes of the whole picture."""
    is_placed_here: bool
    """Whether the compiler gave no offset for some values, so that this file placed them."""


def memory_map(memory: ProgramMemory) -> MemoryMap:
    """The rectangle of each value of a program. Raises InvalidModuleError for a value that begins behind the end of its
    allocation.
    """
    buffers = [each for each in memory.buffers() if each.bytes and each.kind in KINDS]
    spend(len(buffers) * 4 + 1)
    sizes = {each.number: each.size for each in memory.plan.allocations}
    lanes: dict[tuple[int, int], list[LiveBuffer]] = {}
    loose: dict[int, list[LiveBuffer]] = {}
    for each in buffers:
        kind = KINDS.index(each.kind)
        if each.allocation is None or each.offset is None:
            loose.setdefault(kind, []).append(each)
        else:
            size = sizes.get(each.allocation, 0)
            if each.offset >= max(size, 1):
                raise InvalidModuleError(
                    f"buffer assignment: {each.name!r} is {each.offset:,} bytes behind the beginning of allocation "
                    f"{each.allocation}, which has {size:,} bytes"
                )
            lanes.setdefault((kind, each.allocation), []).append(each)
    bottom = 0
    rectangles: list[Rectangle] = []
    for kind in range(len(KINDS)):
        for (_, allocation), members in sorted(lane for lane in lanes.items() if lane[0][0] == kind):
            rectangles += [Rectangle(each, bottom + (each.offset or 0)) for each in members]
            bottom += max(sizes.get(allocation, 0), *[(each.offset or 0) + each.bytes for each in members])
        placed, height = _placed(loose.get(kind, []))
        rectangles += [Rectangle(each, bottom + offset) for each, offset in placed]
        bottom += height
    return MemoryMap(tuple(rectangles), max(bottom, 1), bool(loose))


def _placed(buffers: Sequence[LiveBuffer]) -> tuple[list[tuple[LiveBuffer, int]], int]:
    """The values with offsets at which no two that live at once overlap, and the bytes that they take together. A value
    gets the lowest place that is free when it begins."""
    placed: list[tuple[LiveBuffer, int]] = []
    live: list[tuple[int, int, int]] = []
    """(offset, bytes, last step) of what lives, in the order of offsets."""
    height = 0
    for each in sorted(buffers, key=lambda one: (one.begin, -one.end, -one.bytes)):
        spend(len(live) // 16 + 1)
        live = [entry for entry in live if entry[2] >= each.begin]
        at = 0
        for offset, size, _ in live:
            if offset - at >= each.bytes:
                break
            at = max(at, offset + size)
        insort(live, (at, each.bytes, each.end))
        placed.append((each, at))
        height = max(height, at + each.bytes)
    return placed, height


class MemoryPicture(AnswerPicture):
    """The picture of a program's memory. It is shown and saved like other pictures; its page zooms, searches and names
    the value under the pointer."""

    __slots__ = ("_map", "_memory")
    _memory: ProgramMemory
    _map: MemoryMap

    def __init__(self, memory: ProgramMemory, theme: str = "auto") -> None:
        super().__init__(theme)
        set_field(self, "_memory", memory)
        set_field(self, "_map", memory_map(memory))

    @property
    def title(self) -> str:
        name = self._memory.module.name if self._memory.module is not None else "a program"
        return printable(f"the memory of {name}")

    @property
    def facts(self) -> tuple[str, ...]:
        """What stands below the title."""
        memory = self._memory
        peak = f"{'estimated peak' if memory.is_estimate else 'peak'} {byte_text(memory.peak_bytes)}"
        at = f" while {memory.peak_instruction} runs" if memory.peak_instruction else ""
        placed = ("Offsets are not known: values are placed where there is room.",) if self._map.is_placed_here else ()
        return (printable(peak + at), *placed)

    def draw(self, theme: str, *, standalone: bool) -> str:
        """The text of an SVG file, or of an SVG within a page if not `standalone`. Of more than 1,500 values it has the
        largest, by bytes times steps.
        """
        memory, found = self._memory, self._map
        totals = memory.plan.steps.totals
        steps = max(len(totals), 1)
        size = _LEFT + _WIDTH + 20, _TOP + _CURVE + _HEIGHT + 60
        parts = self.head("xsmm", size, 20, theme, _rules, standalone=standalone)

        def across(step: float) -> float:
            return round(_LEFT + step / steps * _WIDTH, 2)

        # the curve of bytes
        peak = max(totals, default=0) or 1
        columns = _columns(totals, _MOST_POINTS)
        points = [f"{across(0)},{_TOP + _CURVE}"]
        for number, value in enumerate(columns):
            y = round(_TOP + _CURVE - value / peak * (_CURVE - 12), 2)
            points += [
                f"{across(number * steps / len(columns))},{y}",
                f"{across((number + 1) * steps / len(columns))},{y}",
            ]
        points.append(f"{across(steps)},{_TOP + _CURVE}")
        parts.append(f'<polygon class="c" points="{" ".join(points)}"/>')
        parts.append(f'<text class="u e" x="{_LEFT - 8}" y="{_TOP + 18}">{short_bytes(peak)}</text>')
        # the map
        base = _TOP + _CURVE + 16
        shown = sorted(
            found.rectangles, key=lambda each: -each.buffer.bytes * (each.buffer.end - each.buffer.begin + 1)
        )[:_MOST_RECTANGLES]
        for each in shown:
            buffer = each.buffer
            x, w = across(buffer.begin), max(round((buffer.end - buffer.begin + 1) / steps * _WIDTH, 2), 0.5)
            h = max(round(buffer.bytes / found.height * _HEIGHT, 2), 0.4)
            y = round(base + _HEIGHT - each.bottom / found.height * _HEIGHT - h, 2)
            tip = (
                f"{buffer.name}: {buffer.shape or ''} {byte_text(buffer.bytes)}, "
                f"{buffer.kind}{f', {buffer.source}' if buffer.source else ''}"
            )
            parts.append(
                f'<rect class="k{KINDS.index(buffer.kind)}" x="{x}" y="{y}" width="{w}" '
                f'height="{h}"><title>{escape(printable(tip))}</title></rect>'
            )
            if h >= 13 and w >= 50:
                label = escape(cut_middle(printable(buffer.name), max(3, int(w / 6.7) - 1)))
                parts.append(f'<text class="l" x="{x + 3}" y="{round(y + h / 2 + 4, 2)}">{label}</text>')
        x = across(memory.peak_step + 0.5)
        parts.append(f'<line class="p" x1="{x}" y1="{_TOP}" x2="{x}" y2="{base + _HEIGHT}"/>')
        parts.append(f'<text class="u e" x="{_LEFT - 8}" y="{base + 10}">{short_bytes(found.height)}</text>')
        parts.append(f'<text class="u e" x="{_LEFT - 8}" y="{base + _HEIGHT}">0</text>')
        for number, kind in enumerate(KINDS):
            parts.append(
                f'<rect class="k{number}" x="{_LEFT + 110 * number}" y="{base + _HEIGHT + 14}" width="12" height="12"/>'
            )
            parts.append(f'<text class="t" x="{_LEFT + 18 + 110 * number}" y="{base + _HEIGHT + 24}">{kind}</text>')
        parts.append(
            f'<text class="u e" x="{_LEFT + _WIDTH}" y="{base + _HEIGHT + 24}">{len(totals):,} steps of the program '
            "→</text>"
        )
        if len(shown) < len(found.rectangles):
            parts.append(
                f'<text class="u" x="{_LEFT}" y="{base + _HEIGHT + 42}">The {len(shown):,} largest of '
                f"{len(found.rectangles):,} values.</text>"
            )
        return "".join(parts) + "</svg>"

    def html(self) -> str:
        """The picture as a self-contained page, which needs no network."""
        return page_text(self.title, self.facts, _data(self._memory, self._map), self.theme)

    def text(self, color: str = "none", width: int = 100) -> str:
        """The picture as text: a line of blocks whose heights are the bytes that live along the program, with the peak
        marked below. `color` changes nothing."""
        del color  # blocks have none
        totals = self._memory.plan.steps.totals
        columns = _columns(totals, max(8, min(width, 400) - 2))
        peak = max(columns, default=0)
        bars = "".join(["▁▂▃▄▅▆▇█"[min(7, 8 * value // (peak + 1))] for value in columns])
        return "\n".join([self.title, *self.facts, bars, " " * columns.index(peak) + "▲" if columns else ""]) + "\n"

    @property
    def map(self) -> MemoryMap:
        """The geometry."""
        return self._map


def _columns(values: Sequence[int], count: int) -> list[int]:
    """The largest value of each of `count` runs of consecutive values; the values themselves if they are fewer."""
    if len(values) <= count:
        return list(values)
    ends = [number * len(values) // count for number in range(count + 1)]
    return [max(values[begin:end]) for begin, end in pairwise(ends)]


def _data(memory: ProgramMemory, found: MemoryMap) -> dict[str, Any]:
    """The data of the HTML page. A value is a list of numbers; a text in it is its number in `texts`, which has each
    text once."""
    texts: dict[str, int] = {"": 0}

    def text(value: object) -> int:
        return texts.setdefault("" if value is None else str(value), len(texts))

    known: dict[Shape, str] = {}

    def causes(buffer: LiveBuffer) -> str:
        shape = buffer.shape
        if not buffer.padding_bytes or shape is None or not shape.is_array:
            return ""
        if shape not in known:
            try:
                answer = why(shape)
                known[shape] = "; ".join(
                    [each.text for each in answer.causes] if isinstance(answer, ArrayMemory) else []
                )
            except XlashapeError:  # of a shape whose layout has no explanation
                known[shape] = ""
        return known[shape]

    rows = [
        [
            each.buffer.begin, each.buffer.end, each.bottom, each.buffer.bytes, KINDS.index(each.buffer.kind),
            text(each.buffer.name), text(each.buffer.opcode), text(each.buffer.shape), text(each.buffer.op_name),
            text(each.buffer.source), -1 if each.buffer.padding_bytes is None else each.buffer.padding_bytes,
            text(causes(each.buffer)),
        ]
        for each in found.rectangles
    ]  # fmt: skip
    return {
        "height": found.height,
        "peak": memory.peak_step,
        "totals": list(memory.plan.steps.totals),
        "rows": rows,
        "names": [text(memory.name_of_step(step)) for step in range(len(memory.plan.steps.totals))],
        "texts": list(texts),
        "kinds": list(KINDS),
        "fills": [colours.hex_of(_FILLS[kind]) for kind in KINDS],
        "palette": [colours.hex_of(fill) for fill in colours.PALETTE],
    }


def _rules(page: dict[str, str]) -> str:
    fills = "".join(
        [
            f".xsmm .k{number}{{fill:{colours.hex_of(_FILLS[kind])};stroke:{page['ground']};stroke-width:.4}}"
            for number, kind in enumerate(KINDS)
        ]
    )
    return (
        f".xsmm .g{{fill:{page['ground']}}}.xsmm .t{{fill:{page['text']}}}.xsmm .u{{fill:{page['muted']}}}.xsmm "
        f".e{{text-anchor:end}}"
        f".xsmm .l{{fill:#000;pointer-events:none}}.xsmm .c{{fill:{page['muted']};opacity:.45}}"
        f".xsmm .p{{stroke:{page['mark']};stroke-width:1.5;stroke-dasharray:4 3}}{fills}"
    )
