"""Explains the memory of a module or an instruction: the buffers that exist (`xlashape.hlo.buffers`), largest overhead first.

The sum over all buffers of a module is not its peak: the compiler reuses the memory of buffers that are not live at the same time.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from xlashape.display import shown
from xlashape.errors import XlashapeError
from xlashape.hlo.buffers import executed_computations, instruction_buffers, module_buffers
from xlashape.hlo.module import HloInstruction, HloModule
from xlashape.hlo.ops.opcode import Opcode
from xlashape.hlo.ops.registry import operation_of
from xlashape.limits import spend
from xlashape.math import byte_text, checked_int64
from xlashape.memory.array_memory import ArrayMemory, array_bytes, element_bytes_of, on_target
from xlashape.memory.buffer_table import BUFFER_COLUMNS, buffer_row
from xlashape.memory.parts import Cause, Suggestion, factor_text
from xlashape.memory.shape_memory import TupleMemory, shape_memory
from xlashape.memory.suggestions import array_memory
from xlashape.shape import Shape, ShapeIndex, Target
from xlashape.tables import Table, as_arrow, as_arrow_stream, as_pandas, as_polars

__all__ = ["InstructionMemory", "ModuleBuffer", "ModuleMemory", "instruction_memory", "module_memory"]

_SHOWN = 10
"""The maximum of buffers that the text explains."""


class InstructionMemory(NamedTuple):
    """Why the result of an instruction takes as much memory as it does."""

    name: str
    opcode: str
    computation: str
    note: str
    """The reason if the result has no memory of its own; else empty."""
    result: ArrayMemory | TupleMemory

    @property
    def element_bytes(self) -> int:
        """The bytes of the elements of the result."""
        return self.result.element_bytes

    @property
    def buffer_bytes(self) -> int:
        """The bytes of the buffers of the result."""
        return self.result.buffer_bytes

    @property
    def overhead_bytes(self) -> int:
        """The bytes of the buffers that are not elements."""
        return self.result.overhead_bytes

    @property
    def factor(self) -> float:
        """How many times as large as the elements the buffers are."""
        return self.result.factor

    @property
    def causes(self) -> tuple[Cause, ...]:
        """The causes of the result's size."""
        return self.result.causes

    @property
    def suggestions(self) -> tuple[Suggestion, ...]:
        """Changes that would make the result smaller, if it is an array."""
        return self.result.suggestions if isinstance(self.result, ArrayMemory) else ()

    def to_dict(self) -> dict[str, Any]:
        """The explanation as a dict for JSON. Sizes are in bytes."""
        return {
            "kind": "instruction",
            "name": self.name,
            "opcode": self.opcode,
            "computation": self.computation,
            "note": self.note,
            "element_bytes": self.element_bytes,
            "buffer_bytes": self.buffer_bytes,
            "overhead_bytes": self.overhead_bytes,
            "factor": self.factor,
            "result": self.result.to_dict(),
        }

    def table(self) -> Table:
        """A row for each buffer of the result."""
        head = (self.name, self.computation, self.opcode)
        names = [column.name for column in BUFFER_COLUMNS]
        return Table(BUFFER_COLUMNS, [(*head, *[row[name] for name in names[3:]]) for row in self.result.table()])

    to_arrow = as_arrow
    to_pandas = as_pandas
    to_polars = as_polars
    __arrow_c_stream__ = as_arrow_stream
    _repr_html_ = shown

    def __str__(self) -> str:
        lines = [f"{self.name} ({self.opcode}, in {self.computation})"]
        lines += [f"  {self.note}"] if self.note else []
        return "\n".join([*lines, str(self.result)])


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


class ModuleMemory(NamedTuple):
    """The buffers of a module and their sizes."""

    name: str
    target: Target | None
    buffers: tuple[ModuleBuffer, ...]
    """The buffers, by descending overhead, then by descending size; buffers of unknown size last."""
    shared: dict[str, int]
    """The number of executed instructions, by opcode, whose result shares buffers of other instructions. They are not counted."""
    without_memory: int
    """The number of instructions that are fused or applied to elements. They are not counted."""

    @property
    def element_bytes(self) -> int:
        """The bytes of the elements of all buffers of known size."""
        return sum([buffer.element_bytes or 0 for buffer in self.buffers])

    @property
    def buffer_bytes(self) -> int:
        """The bytes of all buffers of known size."""
        return checked_int64(sum([buffer.buffer_bytes or 0 for buffer in self.buffers]), "the bytes of all buffers")

    @property
    def overhead_bytes(self) -> int:
        """The bytes of buffers that are not elements."""
        return self.buffer_bytes - self.element_bytes

    @property
    def factor(self) -> float:
        """How many times as large as their elements the buffers are; 1.0 where there are none."""
        return self.buffer_bytes / self.element_bytes if self.element_bytes else 1.0

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

    to_arrow = as_arrow
    to_pandas = as_pandas
    to_polars = as_polars
    __arrow_c_stream__ = as_arrow_stream
    _repr_html_ = shown

    def __str__(self) -> str:
        return self.to_text()


def _has_tiles(array: Shape) -> bool:
    layout = array.buffer_shape.layout if array.is_buffer else array.layout
    return layout is not None and bool(layout.tiles)


def instruction_memory(instruction: HloInstruction, target: Target | None = None) -> InstructionMemory:
    """Why the result of an instruction takes as much memory as it does. Errors as in `tiling.physical_bytes`.

    >>> text = "HloModule m ENTRY e { p = f32[3,5]{1,0:T(2,2)} parameter(0) ROOT b = f32[15] bitcast(p) }"
    >>> module = HloModule.parse(text)
    >>> instruction_memory(module.instruction("p")).factor, instruction_memory(module.instruction("b")).note
    (1.6, 'its result has no memory of its own: the bitcast shares the buffer of its operand')
    """
    return InstructionMemory(
        instruction.name,
        str(instruction.opcode),
        instruction.computation.name,
        _note(instruction),
        shape_memory(instruction.shape, target),
    )


def _note(instruction: HloInstruction) -> str:
    if instruction.computation not in executed_computations(instruction.computation.module):
        return f"its result has no memory of its own: {instruction.computation.name} is fused or applied to elements"
    if instruction_buffers(instruction):
        return ""
    leaves = instruction.shape.leaves() if instruction.shape.is_tuple else (instruction.shape,)
    if not any(leaf.is_array or leaf.is_buffer for leaf in leaves):
        return "its result has no memory of its own: it holds no array"
    opcode = instruction.opcode
    if opcode == Opcode.PARAMETER:
        return "its result has no memory of its own: it shares the caller's buffer"
    if operation_of(instruction.proto.opcode).runs_called_instructions:
        return f"its result has no memory of its own: the {opcode} shares buffers of what it calls"
    return f"its result has no memory of its own: the {opcode} shares the buffer of its operand"


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
    return ModuleMemory(module.name, target, tuple(rows), found.shared, found.without_memory)


def _sizes(shape: Shape, target: Target | None) -> tuple[Shape, int | None, int | None, XlashapeError | None]:
    try:
        tiled = on_target(shape, target)
        return tiled, element_bytes_of(tiled), array_bytes(tiled, target), None
    except XlashapeError as error:
        return shape, None, None, error
