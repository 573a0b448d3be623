"""Explains the memory of a module: the buffers that exist (`xlashape.hlo.buffers`), largest overhead first.

The sum over all buffers of a module is not its peak: the compiler reuses the memory of buffers that are not live at the same time.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from xlashape.errors import XlashapeError
from xlashape.frozen import set_field
from xlashape.hlo.buffers import module_buffers
from xlashape.hlo.module import HloModule
from xlashape.limits import spend
from xlashape.math import byte_text, checked_int64
from xlashape.memory.answer import MemoryAnswer
from xlashape.memory.array_memory import ArrayMemory, array_bytes, element_bytes_of, on_target
from xlashape.memory.buffer_table import BUFFER_COLUMNS, buffer_row
from xlashape.memory.parts import factor_text
from xlashape.memory.suggestions import array_memory
from xlashape.shape import Shape, ShapeIndex, Target
from xlashape.tables import Table

__all__ = ["DonatedMemory", "ModuleBuffer", "ModuleMemory", "module_memory"]

_SHOWN = 10
"""The maximum of buffers that the text explains."""
_SHOWN_DONATED = 3
"""The most outputs in the memory of parameters that text names."""


class ModuleBuffer(NamedTuple):
    """A buffer of a module."""

    name: str
    """The instruction that makes it."""
    opcode: str
    computation: str
    shape_index: ShapeIndex
    """The index in the instruction's result; empty if the result is an array."""
    shape: Shape
    """The shape with the layout whose size is counted."""
    target: Target | None
    element_bytes: int | None
    buffer_bytes: int | None
    """The explanation; None if the size is unknown, and `error` says why."""
    error: XlashapeError | None = None

    @property
    def overhead_bytes(self) -> int | None:
        """The bytes that are not elements."""
        return (
            None if self.buffer_bytes is None or self.element_bytes is None else self.buffer_bytes - self.element_bytes
        )

    @property
    def where(self) -> str:
        """The instruction, and the index in its result."""
        return self.name + (str(self.shape_index) if self.shape_index else "")

    def explain(self, *, suggest: bool = True) -> ArrayMemory:
        """The explanation of the buffer's size. Raises `error` if there is one."""
        if self.error is not None:
            raise self.error
        return array_memory(self.shape, self.target, suggest=suggest)

    def to_dict(self) -> dict[str, Any]:
        """The buffer as a dict for JSON, without causes and suggestions."""
        return {
            "instruction": self.name,
            "opcode": self.opcode,
            "computation": self.computation,
            "index": str(self.shape_index),
            "shape": str(self.shape),
            "element_bytes": self.element_bytes,
            "buffer_bytes": self.buffer_bytes,
            "overhead_bytes": self.overhead_bytes,
            "error": None if self.error is None else str(self.error),
        }


class DonatedMemory(NamedTuple):
    """An output in the memory of a parameter, without a buffer of its own."""

    output_index: ShapeIndex
    """Which array of the module's result."""
    instruction: str
    """What computes it, with the index in its result. The parameter itself where that is the output, or what a loop begins with that gives it."""
    parameter: str
    """The parameter that it takes over, with the index in it."""
    kind: str
    """`must-alias`, or `may-alias`: if the caller gives the argument away."""
    buffer_bytes: int | None
    """The bytes that are not counted for it; None where the size is not known."""

    def to_dict(self) -> dict[str, Any]:
        """As JSON has it."""
        return self._asdict() | {"output_index": str(self.output_index)}

    def __str__(self) -> str:
        size = f" ({byte_text(self.buffer_bytes)})" if self.buffer_bytes else ""
        what = "the output" + (f" {self.output_index}" if self.output_index else "")
        by = "" if self.instruction == self.parameter else f", by {self.instruction}"
        return f"{what} in that of {self.parameter}{by}{size}"


class ModuleMemory(MemoryAnswer):
    """The buffers of a module and their sizes."""

    __slots__ = _fields = ("name", "target", "buffers", "shared", "without_memory", "donated", "donors")

    name: str
    target: Target | None
    buffers: tuple[ModuleBuffer, ...]
    """The buffers, by descending overhead, then by descending size; buffers of unknown size last."""
    shared: dict[str, int]
    """The number of executed instructions, by opcode, whose result shares buffers of other instructions. They are not counted."""
    without_memory: int
    """The number of instructions that are fused or applied to elements. They are not counted."""
    donated: tuple[DonatedMemory, ...]
    """The outputs that are computed into the memory of parameters. They are not counted."""
    donors: int
    """The arrays of parameters that the caller gives away and that no output has taken over yet: the compiler may still choose outputs for them."""

    def __init__(
        self,
        name: str,
        target: Target | None,
        buffers: tuple[ModuleBuffer, ...],
        shared: dict[str, int],
        without_memory: int,
        donated: tuple[DonatedMemory, ...] = (),
        donors: int = 0,
    ) -> None:
        set_field(self, "name", name)
        set_field(self, "target", target)
        set_field(self, "buffers", buffers)
        set_field(self, "shared", shared)
        set_field(self, "without_memory", without_memory)
        set_field(self, "donated", donated)
        set_field(self, "donors", donors)

    @property
    def element_bytes(self) -> int:
        """The bytes of the elements of all buffers of known size."""
        return sum([buffer.element_bytes or 0 for buffer in self.buffers])

    @property
    def buffer_bytes(self) -> int:
        """The bytes of all buffers of known size."""
        return checked_int64(sum([buffer.buffer_bytes or 0 for buffer in self.buffers]), "the bytes of all buffers")

    @property
    def bytes_by_memory_space(self) -> dict[int, int]:
        """The bytes of the buffers in each memory space: 0 is the device's main memory, 1 its on-chip memory, 5 the host's."""
        totals: dict[int, int] = {}
        for buffer in self.buffers:
            array = buffer.shape.buffer_shape if buffer.shape.is_buffer else buffer.shape
            space = array.layout.memory_space if array.layout is not None else 0
            totals[space] = totals.get(space, 0) + (buffer.buffer_bytes or 0)
        return dict(sorted(totals.items()))

    def not_counted(self) -> list[str]:
        """Lines that say what the sums leave out."""
        lines: list[str] = []
        if self.shared:
            counts = ", ".join([f"{count} {opcode}" for opcode, count in sorted(self.shared.items())])
            lines.append(f"{sum(self.shared.values())} results that share the buffers of others: {counts}")
        if self.without_memory:
            lines.append(f"{self.without_memory} results that are fused or applied to elements")
        if self.donated:
            count = f"{len(self.donated)} output{' is' if len(self.donated) == 1 else 's are'}"
            size = sum([each.buffer_bytes or 0 for each in self.donated])
            saves = f", which saves {byte_text(size)}" if size else ""
            some = "; ".join(map(str, self.donated[:_SHOWN_DONATED]))
            more = "; …" if len(self.donated) > _SHOWN_DONATED else ""
            lines.append(f"{count} in the memory of donated parameters{saves}: {some}{more}")
        if self.donors:
            arrays = f"{self.donors} donated array{'' if self.donors == 1 else 's'}"
            lines.append(f"what the compiler may save by computing outputs into the memory of {arrays}")
        failed = sum([buffer.error is not None for buffer in self.buffers])
        if failed:
            lines.append(f"{failed} buffers of unknown size")
        lines.append("tables of tuples; memory that the compiler reuses, so that the peak may be lower than the sum")
        return lines

    def to_dict(self, limit: int | None = None) -> dict[str, Any]:
        """The explanation as a dict for JSON, with the causes and suggestions of the first `limit` buffers (None: of those with overhead). Sizes are in bytes."""
        rows: list[dict[str, Any]] = []
        for number, buffer in enumerate(self.buffers):
            row = buffer.to_dict()
            if buffer.error is None and (buffer.overhead_bytes if limit is None else number < limit):
                explained = buffer.explain().to_dict()
                row |= {"causes": explained["causes"], "suggestions": explained["suggestions"]}
            rows.append(row)
        return {
            "kind": "module",
            "name": self.name,
            "target": None if self.target is None else self.target.name,
            "element_bytes": self.element_bytes,
            "buffer_bytes": self.buffer_bytes,
            "overhead_bytes": self.overhead_bytes,
            "factor": self.factor,
            "bytes_by_memory_space": {str(space): size for space, size in self.bytes_by_memory_space.items()},
            "buffers": rows,
            "shared": self.shared,
            "without_memory": self.without_memory,
            "donated": [each.to_dict() for each in self.donated],
            "donors": self.donors,
            "not_counted": self.not_counted(),
        }

    def to_text(self, limit: int = _SHOWN, *, only_larger: bool = True) -> str:
        """The explanation as text: the totals, the buffers with the most overhead, at most `limit` (0: all), and what is not counted.

        Without `only_larger`, buffers that are not larger than their elements are explained too.
        """
        on = f" on {self.target.name}" if self.target is not None else ""
        times = f", {factor_text(self.factor)} the elements" if self.overhead_bytes and self.element_bytes else ""
        lines = [
            f"{self.name or 'module'}: {len(self.buffers):,} buffer{'' if len(self.buffers) == 1 else 's'}{on}",
            f"  elements  {byte_text(self.element_bytes)}",
            f"  buffers   {byte_text(self.buffer_bytes)}{times}",
        ]
        spaces = self.bytes_by_memory_space
        if any(spaces):
            each = [f"{byte_text(size)} in memory space {space}" for space, size in spaces.items()]
            lines.append(f"  of these  {', '.join(each)}")
        lines += [f"  {'' if i else 'without':<9} {line}" for i, line in enumerate(self.not_counted())]
        worst = [
            buffer for buffer in self.buffers if buffer.overhead_bytes or (buffer.error is None and not only_larger)
        ]
        if self.target is None and self.buffers and not any(_has_tiles(buffer.shape) for buffer in self.buffers):
            lines.append("  hint      no layout has tiles; with the target tpu those count that a TPU would use")
        for buffer in worst if not limit else worst[:limit]:
            lines += ["", f"{buffer.where} ({buffer.opcode}, in {buffer.computation}): {buffer.explain()}"]
        if limit and len(worst) > limit:
            lines += [
                "",
                f"and {len(worst) - limit} more buffers{' that are larger than their elements' if only_larger else ''}",
            ]
        for buffer in self.buffers:
            if buffer.error is not None:
                lines += ["", f"{buffer.where} ({buffer.opcode}, in {buffer.computation}): {buffer.error}"]
        return "\n".join(lines)

    def table(self) -> Table:
        """A row for each buffer, in the order of `buffers`."""
        return Table(
            BUFFER_COLUMNS,
            [
                buffer_row(
                    buffer.shape,
                    buffer.element_bytes,
                    buffer.buffer_bytes,
                    instruction=buffer.name,
                    computation=buffer.computation,
                    opcode=buffer.opcode,
                    index=buffer.shape_index,
                    error=buffer.error,
                )
                for buffer in self.buffers
            ],
        )

    def __str__(self) -> str:
        return self.to_text()


def _has_tiles(array: Shape) -> bool:
    layout = array.buffer_shape.layout if array.is_buffer else array.layout
    return layout is not None and bool(layout.tiles)


def module_memory(module: HloModule, target: Target | None = None) -> ModuleMemory:
    """The buffers of a module and their sizes. A buffer of unknown size has an error; the others are explained.

    >>> text = "HloModule m ENTRY e { p = f32[3,5]{1,0:T(2,2)} parameter(0) ROOT n = f32[3,5] negate(p) }"
    >>> memory = module_memory(HloModule.parse(text))
    >>> [(buffer.name, buffer.buffer_bytes) for buffer in memory.buffers], memory.buffer_bytes
    ([('p', 96), ('n', 60)], 156)
    """
    found = module_buffers(module)
    known: dict[Shape, tuple[Shape, int | None, int | None, XlashapeError | None]] = {}
    rows: list[ModuleBuffer] = []
    for buffer in found.buffers:
        spend(16)
        if buffer.shape not in known:
            known[buffer.shape] = _sizes(buffer.shape, target)
        shape, elements, size, error = known[buffer.shape]
        instruction = buffer.instruction
        rows.append(
            ModuleBuffer(
                instruction.name,
                str(instruction.opcode),
                instruction.computation.name,
                buffer.shape_index,
                shape,
                target,
                elements,
                size,
                error,
            )
        )
    rows.sort(key=lambda row: (row.error is not None, -(row.overhead_bytes or 0), -(row.buffer_bytes or 0)))
    donated = tuple(
        [
            DonatedMemory(
                each.output_index,
                each.instruction.name + (str(each.shape_index) if each.shape_index else ""),
                each.parameter_text,
                each.kind,
                0 if shape is None else _sizes(shape, target)[2],
            )
            for each, shape in found.donated
        ]
    )
    donors = len(module.proto.buffer_donor.entries)
    return ModuleMemory(module.name, target, tuple(rows), found.shared, found.without_memory, donated, donors)


def _sizes(shape: Shape, target: Target | None) -> tuple[Shape, int | None, int | None, XlashapeError | None]:
    try:
        tiled = on_target(shape, target)
        return tiled, element_bytes_of(tiled), array_bytes(tiled, target), None
    except XlashapeError as error:
        return shape, None, None, error
