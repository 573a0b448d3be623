"""Explains the allocations of a report about memory that has run out, our sizes beside those of the report."""

from __future__ import annotations

from typing import Any, NamedTuple

from xlashape.errors import XlashapeError
from xlashape.frozen import set_field
from xlashape.math import byte_text
from xlashape.memory.answer import MemoryAnswer
from xlashape.memory.array_memory import ArrayMemory, array_bytes
from xlashape.memory.buffer_table import BUFFER_COLUMNS, buffer_row
from xlashape.memory.report_text import (
    ReportedAllocation,
    ReportedTotals,
    clean,
    read_allocations,
    read_shapes,
    read_totals,
)
from xlashape.memory.suggestions import array_memory
from xlashape.shape import Shape, Target, tpu_layout
from xlashape.tables import Table

__all__ = ["AllocationMemory", "ReportMemory", "ShapesMemory", "report_memory", "shapes_memory", "size_text"]

_OLD_TPU = "tpu-v3"
_MOST_SHAPES = 100


def size_text(size: int, like: str = "") -> str:
    """A number of bytes as reports write it, in the unit that fits, with the ending of `like`.

    >>> size_text(34359738368), size_text(1536), size_text(12), size_text(2823933952, "1.00GiB")
    ('32.00G', '1.5K', '12B', '2.63GiB')
    """
    ending = "iB" if like.endswith("iB") else ""
    for unit, exponent in (("P", 50), ("T", 40), ("G", 30), ("M", 20)):
        if size >= 1 << exponent:
            return f"{size / (1 << exponent):.2f}{unit}{ending}"
    if size >= 1 << 10:
        return f"{size / 1024:.2f}KiB" if ending else f"{size / 1024:.1f}K"
    return f"{size}B"


class AllocationMemory(NamedTuple):
    """An allocation of a report, explained."""

    reported: ReportedAllocation
    memory: ArrayMemory | None
    """The explanation; None if the report states no shape, or if it cannot be explained, and `error` says why."""
    error: XlashapeError | None = None

    @property
    def size(self) -> str:
        """Our size of the buffer, as the report would write it; empty if we have none."""
        return "" if self.memory is None else size_text(self.memory.buffer_bytes, self.reported.size)

    @property
    def unpadded(self) -> str:
        """Our size of the elements, as the report would write it."""
        return "" if self.memory is None else size_text(self.memory.element_bytes, self.reported.size)

    @property
    def padding(self) -> str:
        """Our size of the padding, as the report would write it; empty if there is none."""
        if self.memory is None or not self.memory.overhead_bytes:
            return ""
        return size_text(self.memory.overhead_bytes, self.reported.size)

    @property
    def expansion(self) -> str:
        """Our factor, as the report would write it; empty if there is no padding."""
        return f"{self.memory.factor:.1f}" if self.memory is not None and self.memory.overhead_bytes else ""

    @property
    def agrees(self) -> bool | None:
        """Whether every number that the report states equals ours; None if there is nothing to compare."""
        if self.memory is None:
            return None
        return all(
            theirs in ("", ours)
            for theirs, ours in (
                (self.reported.size, self.size),
                (self.reported.unpadded, self.unpadded),
                (self.reported.padding, self.padding),
                (self.reported.expansion, self.expansion),
            )
        )

    def to_dict(self) -> dict[str, Any]:
        """The allocation as a dict for JSON."""
        reported = self.reported._asdict() | {
            "shape": None if self.reported.shape is None else str(self.reported.shape)
        }
        ours = {"size": self.size, "unpadded": self.unpadded, "padding": self.padding, "expansion": self.expansion}
        return {
            "reported": reported,
            "ours": ours,
            "agrees": self.agrees,
            "memory": None if self.memory is None else self.memory.to_dict(),
            "error": None if self.error is None else str(self.error),
        }

    def __str__(self) -> str:
        theirs = self.reported
        number = f"{theirs.number}. " if theirs.number is not None else ""
        if self.memory is None:
            why = ", without a shape" if theirs.shape is None else f", {theirs.shape}"
            why = f": {self.error}" if self.error is not None else why
            return f"{number}{theirs.size}{why}" + (f" ({theirs.label})" if theirs.label else "")
        verdict = "the same" if self.agrees else "NOT the same"
        lines = [f"{number}{self.memory.shape}"]
        lines.append(f"  report    {_sizes_text(theirs.size, theirs.unpadded, theirs.padding, theirs.expansion)}")
        lines.append(f"  ours      {_sizes_text(self.size, self.unpadded, self.padding, self.expansion)}: {verdict}")
        lines += [f"  operator  {theirs.operator}"] if theirs.operator else []
        lines += [f"  {head:<9} {text}" for head, text in self.memory.facts()]
        return "\n".join(lines)


def _sizes_text(size: str, unpadded: str, padding: str, expansion: str) -> str:
    text = size
    if unpadded:
        text += f", unpadded {unpadded}"
    if padding:
        text += f", padding {padding}"
    return text + (f" ({expansion}x expansion)" if expansion else "")


class ReportMemory(MemoryAnswer):
    """A report about memory that has run out, explained."""

    __slots__ = _fields = ("totals", "allocations")

    totals: ReportedTotals | None
    allocations: tuple[AllocationMemory, ...]

    def __init__(self, totals: ReportedTotals | None, allocations: tuple[AllocationMemory, ...]) -> None:
        set_field(self, "totals", totals)
        set_field(self, "allocations", allocations)

    @property
    def element_bytes(self) -> int:
        """The bytes of the elements of all allocations that have a shape."""
        return sum([one.memory.element_bytes for one in self.allocations if one.memory is not None])

    @property
    def buffer_bytes(self) -> int:
        """The bytes of all allocations that have a shape."""
        return sum([one.memory.buffer_bytes for one in self.allocations if one.memory is not None])

    @property
    def agrees(self) -> bool:
        """Whether all numbers of the report that can be compared equal ours."""
        return all(one.agrees is not False for one in self.allocations)

    def table(self) -> Table:
        """A row for each allocation, named as in the report."""
        return Table(
            BUFFER_COLUMNS,
            [
                buffer_row(
                    one.reported.shape if one.memory is None else one.memory.shape,
                    None if one.memory is None else one.memory.element_bytes,
                    None if one.memory is None else one.memory.buffer_bytes,
                    instruction=one.reported.operator or one.reported.label or None,
                    error=one.error,
                )
                for one in self.allocations
            ],
        )

    def to_dict(self) -> dict[str, Any]:
        """The explanation as a dict for JSON. Sizes are in bytes, or texts as in the report."""
        return {
            "kind": "report",
            "totals": None if self.totals is None else self.totals._asdict(),
            "element_bytes": self.element_bytes,
            "buffer_bytes": self.buffer_bytes,
            "overhead_bytes": self.overhead_bytes,
            "factor": self.factor,
            "agrees": self.agrees,
            "allocations": [one.to_dict() for one in self.allocations],
        }

    def __str__(self) -> str:
        compared = [one for one in self.allocations if one.agrees is not None]
        same = sum([bool(one.agrees) for one in compared])
        lines: list[str] = []
        if self.totals is not None and self.totals.used:
            space = f" of memory space {self.totals.memory_space}" if self.totals.memory_space else ""
            capacity = f" of {self.totals.capacity}" if self.totals.capacity else ""
            lines.append(f"{self.totals.used}{capacity} used{space}")
        lines.append(
            f"{len(self.allocations)} allocation{'' if len(self.allocations) == 1 else 's'}, {len(compared)} with a shape: {byte_text(self.buffer_bytes)}, "
            f"of which {byte_text(self.overhead_bytes)} are padding; {same} of {len(compared)} sizes are the same as ours"
        )
        saved = sum([_free_saving(one.memory) for one in self.allocations if one.memory is not None])
        if saved:
            lines.append(f"other orders, tiles and reshapes of the same arrays would save {byte_text(saved)} of them")
        for one in self.allocations:
            lines += ["", str(one)]
        return "\n".join(lines)


def _free_saving(memory: ArrayMemory) -> int:
    """The most bytes that a single change saves that keeps all elements and their type."""
    return max([one.saved_bytes for one in memory.suggestions if one.kind not in ("type", "round")], default=0)


class ShapesMemory(MemoryAnswer):
    """The arrays in a text that is not a report, each explained once."""

    __slots__ = _fields = ("arrays",)

    arrays: tuple[ArrayMemory, ...]

    def __init__(self, arrays: tuple[ArrayMemory, ...]) -> None:
        set_field(self, "arrays", arrays)

    @property
    def element_bytes(self) -> int:
        """The bytes of the elements of all arrays."""
        return sum([array.element_bytes for array in self.arrays])

    @property
    def buffer_bytes(self) -> int:
        """The bytes of all buffers."""
        return sum([array.buffer_bytes for array in self.arrays])

    def table(self) -> Table:
        """A row for each array."""
        return Table(
            BUFFER_COLUMNS, [buffer_row(one.shape, one.element_bytes, one.buffer_bytes) for one in self.arrays]
        )

    def to_dict(self) -> dict[str, Any]:
        """The explanation as a dict for JSON. Sizes are in bytes."""
        return {
            "kind": "shapes",
            "element_bytes": self.element_bytes,
            "buffer_bytes": self.buffer_bytes,
            "overhead_bytes": self.overhead_bytes,
            "factor": self.factor,
            "arrays": [array.to_dict() for array in self.arrays],
        }

    def __str__(self) -> str:
        return "\n\n".join(map(str, self.arrays))


def report_memory(text: str, target: Target | None = None) -> ReportMemory:
    """Explains the allocations of a report: of XLA on TPUs, or of its allocator on GPUs and CPUs.

    Reports of older TPU compilers write layouts without tiles. The tiles are then those of the target, or without a target those of the TPU
    generation for which our size equals the report's.

    >>> text = "1. Size: 6.00G Shape: u32[12582912,1]{1,0:T(8,128)} Unpadded size: 48.00M Extra memory due to padding: 5.95G (128.0x expansion)"
    >>> (allocation,) = report_memory(text).allocations
    >>> allocation.size, allocation.unpadded, allocation.padding, allocation.expansion, allocation.agrees
    ('6.00G', '48.00M', '5.95G', '128.0', True)
    """
    cleaned = clean(text)
    totals = read_totals(cleaned)
    reported = read_allocations(cleaned)
    arrays = [one.shape for one in reported if one.shape is not None and one.shape.is_array]
    is_tpu = any(one.unpadded for one in reported) or any(map(tpu_layout.has_tpu_tiles, arrays))
    is_tpu = is_tpu or (totals is not None and totals.memory_space in ("hbm", "vmem", "smem", "cmem"))
    found: list[AllocationMemory] = []
    for one in reported:
        try:
            # A tuple's allocation is its table, or one of its elements: the report does not say which.
            is_array = one.shape is not None and one.shape.is_array
            memory = _explained(one, one.shape, target, is_tpu) if one.shape is not None and is_array else None
            found.append(AllocationMemory(one, memory))
        except XlashapeError as error:
            found.append(AllocationMemory(one, None, error))
    return ReportMemory(totals, tuple(found))


def _explained(reported: ReportedAllocation, shape: Shape, target: Target | None, is_tpu: bool) -> ArrayMemory:
    if not is_tpu or (shape.layout is not None and shape.layout.tiles):
        return array_memory(shape, target)
    if target is not None:
        tiled = tpu_layout.default_shape(shape, target, keep_order=True) if target.is_tpu else shape
        return array_memory(tiled, target)
    choices = [tpu_layout.default_shape(shape, each, keep_order=True) for each in ("tpu", _OLD_TPU)]
    for choice in (*choices, shape):
        if size_text(array_bytes(choice), reported.size) == reported.size:
            return array_memory(choice)
    return array_memory(choices[0])


def shapes_memory(text: str, target: Target | None = None) -> ShapesMemory:
    """Explains the arrays in a text, each once, at most 100; arrays of unknown size are left out.

    >>> [array.buffer_bytes for array in shapes_memory("fusion(f32[3,5]{1,0:T(2,2)} %x, s8[3])").arrays]
    [96, 3]
    """
    found: list[ArrayMemory] = []
    for shape in list(dict.fromkeys(read_shapes(clean(text))))[:_MOST_SHAPES]:
        try:
            found.append(array_memory(shape, target))
        except XlashapeError:
            continue
    return ShapesMemory(tuple(found))
