"""What left and entered the peak of memory from one module to another, by layer and line of the program. The numbers
add up to how much the peak changed.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple, TypeAlias

from xlashape.base.tables import Column, ColumnKind
from xlashape.errors import DeadlineExceededError, LimitExceededError, XlashapeError
from xlashape.hlo.module import HloModule
from xlashape.reports.groups import layer_of_row, unnumbered
from xlashape.reports.layers import Layers
from xlashape.reports.memory import LiveBuffer, ProgramMemory, memory

PEAK_COLUMNS: Final = (
    Column("delta_bytes", ColumnKind.INTEGER, "how many more bytes it holds at the peak of the second module", "bytes", rank=1, heading="Δ bytes"),
    Column("layer", ColumnKind.TEXT, "the layer of the program, with repeated layers as one; for a value of none what it is for", rank=1),
    Column("a_bytes", ColumnKind.INTEGER, "the bytes at the peak of the first module", "bytes", rank=3),
    Column("b_bytes", ColumnKind.INTEGER, "the bytes at the peak of the second module", "bytes", rank=3),
    Column("a_buffers", ColumnKind.INTEGER, "how many buffers these are in the first module", rank=4),
    Column("b_buffers", ColumnKind.INTEGER, "how many buffers these are in the second module", rank=4),
    Column("largest", ColumnKind.TEXT, "the largest of these buffers, in the module where they take more", rank=3),
    Column("source", ColumnKind.TEXT, "the line of the user's code", rank=2),
)  # fmt: skip


_Held: TypeAlias = "dict[tuple[str, str | None], list[LiveBuffer]]"


class PeakChange(NamedTuple):
    """What a layer and line of the program hold at both peaks. `PEAK_COLUMNS` says what the fields are."""

    delta_bytes: int
    layer: str
    a_bytes: int
    b_bytes: int
    a_buffers: int
    b_buffers: int
    largest: str
    source: str | None


def memories(one: HloModule, other: HloModule) -> tuple[ProgramMemory | None, ProgramMemory | None]:
    """The main memory of both modules: by XLA's assignments of buffers where both modules have one, else both
    estimated, so that the two can be compared. None where it is not known.
    """
    first = _memory(one)
    if one is other:
        return first, first
    second = _memory(other)
    if first is None or second is None or first.is_estimate == second.is_estimate:
        return first, second
    estimated = [
        each if each.is_estimate else _memory(HloModule.from_proto(module.module_bytes()))
        for each, module in ((first, one), (second, other))
    ]
    return estimated[0], estimated[1]


def peak_changes(one: ProgramMemory | None, other: ProgramMemory | None) -> tuple[PeakChange, ...]:
    """What differs between the peaks, the largest difference first. Empty where one of them is not known."""
    if one is None or other is None:
        return ()
    known = Layers()
    sides = [_held(each.peak_buffers, known) for each in (one, other)]
    sides[0] = _renamed(*sides)
    found: list[PeakChange] = []
    for key in {**sides[0], **sides[1]}:
        a, b = (side.get(key, []) for side in sides)
        size_a, size_b = (sum([each.bytes for each in buffers]) for buffers in (a, b))
        if size_a != size_b:
            more = a if size_a > size_b else b
            layers = {_layer(each, known) for each in more}
            layer = layers.pop() if len(layers) == 1 else key[0]
            largest = max(more, key=lambda each: each.bytes)
            text = f"{largest.name}: {largest.shape}" if largest.shape is not None else largest.name
            found.append(PeakChange(size_b - size_a, layer, size_a, size_b, len(a), len(b), text, key[1]))
    return tuple(sorted(found, key=lambda each: (-abs(each.delta_bytes), each.layer)))


def _held(buffers: Iterable[LiveBuffer], known: Layers) -> _Held:
    """Buffers by layer, without its number, and line."""
    found: _Held = {}
    for each in buffers:
        found.setdefault((unnumbered(_layer(each, known)), each.source or None), []).append(each)
    return found


def _renamed(one: _Held, other: _Held) -> _Held:
    """The buffers of the first side by the lines of the second. A line that only the first has is the one that only
    the second has, where these hold as much in the same layer: the file has another name, or lines were added above.
    """
    lines: dict[tuple[str, int], list[str | None]] = {}
    for (layer, line), buffers in other.items():
        if (layer, line) not in one:
            lines.setdefault((layer, sum([each.bytes for each in buffers])), []).append(line)
    found: _Held = {}
    for (layer, line), buffers in one.items():
        same = lines.get((layer, sum([each.bytes for each in buffers]))) if (layer, line) not in other else None
        found[layer, same.pop(0) if same else line] = buffers
    return found


def _layer(buffer: LiveBuffer, known: Layers) -> str:
    what = buffer.kind if buffer.source else f"{buffer.kind} of no known layer"
    return known.of_row(buffer) or layer_of_row(buffer, what)


def _memory(module: HloModule) -> ProgramMemory | None:
    """What a module holds in main memory, which a program runs out of; None where it is not known."""
    try:
        return memory(module).of_main_memory
    except (DeadlineExceededError, LimitExceededError):
        raise
    except XlashapeError:
        return None
