"""Why the buffers of programs are as large as they are: those of an instruction's result, and those of all results in a
module that have buffers of their own (`xlashape.hlo.flow`).

The sum over all buffers of a module is not its peak: the compiler reuses the memory of buffers that are not live at the
same time. The peak comes from the report `memory`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from xlashape.base.display import printable
from xlashape.base.frozen import set_field
from xlashape.base.math import byte_text, counted
from xlashape.errors import XlashapeError
from xlashape.hlo.flow import Buffers, executed_computations, module_buffers
from xlashape.hlo.module import HloInstruction, HloModule
from xlashape.hlo.ops.opcode import Opcode
from xlashape.hlo.ops.registry import operation_of
from xlashape.limits import spend
from xlashape.reports.report import REPORTS, report_of, row_values
from xlashape.reports.text import alike_together, table_text
from xlashape.reports.why.causes import Cause, array_bytes, element_bytes_of, on_target
from xlashape.reports.why.declaration import BUFFER_COLUMNS, facts_lines
from xlashape.reports.why.shapes import ArrayMemory, Buffer, MemoryAnswer, TupleMemory, merged, ranked, shape_memory
from xlashape.reports.why.suggestions import Suggestion
from xlashape.shape import Shape, ShapeIndex, Target

_SHOWN_DONATED: Final = 3
"""The most outputs that text names as computed into the memory of parameters."""
_OP_NAME: Final = 60
_LINE: Final = 80


class Peak(NamedTuple):
    """The most bytes of a program that live at once."""

    bytes: int | None
    """None where the peak is not known."""
    is_estimate: bool | None = None
    reason: str = ""
    """Why the peak is not known, where that is known."""


def peak_of(*origins: Any) -> Peak:
    """The peak of a program by the report `memory`. `origins` are forms of the program; the first that the report takes
    counts."""
    reason = "no report about memory is registered"
    if "memory" in REPORTS:
        for origin in origins:
            try:
                answer: Any = report_of("memory").run(origin)
                return Peak(answer.peak_bytes, answer.is_estimate)
            except XlashapeError as error:
                reason = error.message
    return Peak(None, None, reason)


def peak_facts(peak: Peak) -> list[tuple[str, str]]:
    """The facts of a headline about the peak: one, or none where the peak is not known."""
    if peak.bytes is None:
        return []
    how = "estimated from the order of instructions" if peak.is_estimate else "by XLA's buffer assignment"
    return [("peak", f"{byte_text(peak.bytes)}, {how}")]


def sharing_text(count: int) -> str:
    """How many results take no memory of their own, as text."""
    return f"{counted(count, 'result')} that {'shares' if count == 1 else 'share'} the buffers of others"


def fused_text(count: int) -> str:
    """How many results are never in memory, as text."""
    return f"{counted(count, 'result')} that {'is' if count == 1 else 'are'} fused or applied to elements"


# The peak of a module with a target, and of one for which no peak is given.
UNKNOWN_PEAK: Final = Peak(None)


class InstructionMemory(MemoryAnswer):
    """Why the result of an instruction takes as much memory as it does."""

    __slots__ = ("computation", "name", "note", "op_name", "opcode", "result", "source", "target")
    _fields = ("name", "opcode", "computation", "note", "result", "source", "op_name")
    kind = "instruction"

    name: str
    opcode: str
    computation: str
    note: str
    """The reason if the result has no memory of its own; else empty."""
    result: ArrayMemory | TupleMemory
    source: str
    """The line of the program that the instruction comes from, as `train.py:73`; empty where the module does not say.
    """
    op_name: str

    def __init__(
        self,
        name: str,
        opcode: str,
        computation: str,
        note: str,
        result: ArrayMemory | TupleMemory,
        source: str = "",
        op_name: str = "",
    ) -> None:
        set_field(self, "name", name)
        set_field(self, "opcode", opcode)
        set_field(self, "computation", computation)
        set_field(self, "note", note)
        set_field(self, "result", result)
        set_field(self, "source", source)
        set_field(self, "op_name", op_name)
        set_field(self, "target", result.target)

    @property
    def element_bytes(self) -> int:
        """The bytes of the elements of the result."""
        return self.result.element_bytes

    @property
    def buffer_bytes(self) -> int:
        """The bytes of the buffers of the result."""
        return self.result.buffer_bytes

    @property
    def causes(self) -> tuple[Cause, ...]:
        """The causes of the result's size."""
        return self.result.causes

    @property
    def suggestions(self) -> tuple[Suggestion, ...]:
        """Changes that would make the result smaller; for a tuple, the arrays in it."""
        return self.result.suggestions

    @property
    def about(self) -> str:
        """The name of the instruction."""
        return self.name

    @property
    def buffers(self) -> tuple[Buffer, ...]:
        """The buffers of the result."""
        who: dict[str, Any] = {"name": self.name, "computation": self.computation, "opcode": self.opcode}
        who |= {"source": self.source or None, "op_name": self.op_name or None}
        return tuple([one._replace(**who) for one in self.result.buffers])

    def headline(self) -> str:
        """The instruction, where it comes from, and its result."""
        lines = [f"{self.name} ({self.opcode}, in {self.computation})"]
        origin = ", ".join([text for text in (self.source, _shortened(self.op_name)) if text])
        lines += [f"  from {origin}"] if origin else []
        lines += [f"  {self.note}"] if self.note else []
        return "\n".join(lines)

    def to_text(self, limit: int | None = None, *, width: int | None = None, hint: str = "") -> str:
        """The instruction and the explanation of its result, for people."""
        return printable("\n".join([self.headline(), *self.notes, self.result.to_text(limit, width=width, hint=hint)]))


def instruction_memory(instruction: HloInstruction, target: Target | None = None) -> InstructionMemory:
    """Why the result of an instruction takes as much memory as it does. Errors as in `tiling.physical_bytes`.

    >>> from xlashape.hlo import HloModule
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
        instruction.metadata.source,
        instruction.metadata.op_name,
    )


def _note(instruction: HloInstruction) -> str:
    """Why the result of an instruction has no memory of its own, or not all of it has; empty where it has."""
    if instruction.computation not in executed_computations(instruction.computation.module):
        return f"its result has no memory of its own: {instruction.computation.name} is fused or applied to elements"
    buffers = Buffers(instruction.computation.module)
    own = buffers.of(instruction)
    names = [each.parameter_text for (by, _), each in buffers.taken.items() if by == instruction]
    if own and not names:
        return ""
    if names:
        what = f"{len(names)} of its {len(own) + len(names)} arrays are" if own else "it is"
        return (
            f"{what} computed into the memory of {', '.join(names[:8])}{', …' if len(names) > 8 else ''}, which "
            "the caller may give away"
        )
    leaves = instruction.shape.leaves() if instruction.shape.is_tuple else (instruction.shape,)
    if not any(leaf.is_array or leaf.is_buffer for leaf in leaves):
        return "its result has no memory of its own: it holds no array"
    opcode = instruction.opcode
    if opcode == Opcode.PARAMETER:
        return "its result has no memory of its own: it shares the caller's buffer"
    if operation_of(instruction.opcode).runs_called_instructions:
        return f"its result has no memory of its own: the {opcode} shares buffers of what it calls"
    return f"its result has no memory of its own: the {opcode} shares the buffer of its operand"


class DonatedMemory(NamedTuple):
    """An output in the memory of a parameter, without a buffer of its own."""

    output_index: ShapeIndex
    """Which array of the module's result."""
    instruction: str
    """The instruction that computes the output, with the index in its result. The parameter itself where the output is
    the parameter, or the state of a loop whose initial state is the parameter.
    """
    parameter: str
    """The parameter whose memory the output takes, with the index in the parameter."""
    kind: str
    """`must-alias`; or `may-alias`, if that depends on whether the caller gives the argument away."""
    buffer_bytes: int | None
    """The bytes that are not counted for the output; None where the size is not known."""

    @property
    def bytes(self) -> int | None:
        """`buffer_bytes` under the name of its column."""
        return self.buffer_bytes

    def __str__(self) -> str:
        size = f" ({byte_text(self.buffer_bytes)})" if self.buffer_bytes else ""
        what = "the output" + (f" {self.output_index}" if self.output_index else "")
        by = "" if self.instruction == self.parameter else f", by {self.instruction}"
        return f"{what} in that of {self.parameter}{by}{size}"


class ModuleMemory(MemoryAnswer):
    """The buffers of a module and their sizes."""

    __slots__ = ("_buffers", "_peak", "donated", "donors", "name", "shared", "target", "whole_count", "without_memory")
    _fields = ("name", "target", "buffers", "shared", "without_memory", "donated", "donors", "whole_count")
    kind = "module"

    name: str
    target: Target | None
    _buffers: tuple[Buffer, ...]
    shared: dict[str, int]
    """Opcode → the number of executed instructions whose result shares buffers of other instructions. They are not
    counted.
    """
    without_memory: int
    """The number of instructions that are fused or applied to elements. They are not counted."""
    donated: tuple[DonatedMemory, ...]
    """The outputs that are computed into the memory of parameters. They are not counted."""
    donors: int
    """The number of arrays of parameters that the caller gives away and that no output has taken over yet: the compiler
    may still choose outputs for them.
    """
    whole_count: int | None
    """The number of buffers of the module, if `buffers` are only some of them; else None."""
    _peak: Peak | Callable[[], Peak]

    def __init__(
        self,
        name: str,
        target: Target | None,
        buffers: tuple[Buffer, ...],
        shared: dict[str, int],
        without_memory: int,
        donated: tuple[DonatedMemory, ...] = (),
        donors: int = 0,
        whole_count: int | None = None,
        peak: Peak | Callable[[], Peak] = UNKNOWN_PEAK,
    ) -> None:
        """`peak` may be a function, which computes the peak when it is first asked for."""
        set_field(self, "name", name)
        set_field(self, "target", target)
        set_field(self, "_buffers", buffers)
        set_field(self, "shared", shared)
        set_field(self, "without_memory", without_memory)
        set_field(self, "donated", donated)
        set_field(self, "donors", donors)
        set_field(self, "whole_count", whole_count)
        set_field(self, "_peak", peak)

    @property
    def buffers(self) -> tuple[Buffer, ...]:
        """The buffers: those with the most padding first, of equal padding the largest; scalars behind all others,
        buffers of unknown size last."""
        return self._buffers

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (*[getattr(self, name) for name in self._fields], self.peak)

    @property
    def about(self) -> str:
        """The name of the module."""
        return self.name

    @property
    def peak(self) -> Peak:
        """The most bytes that live at once: by the buffer assignment of a dump, else estimated. The peak is not known
        with a target.
        """
        known = self._peak
        if not isinstance(known, Peak):
            known = known()
            set_field(self, "_peak", known)
        return known

    @property
    def peak_bytes(self) -> int | None:
        """The bytes of `peak`; None where it is not known."""
        return self.peak.bytes

    @property
    def peak_is_estimate(self) -> bool | None:
        """Whether the peak is estimated, since there is no buffer assignment."""
        return self.peak.is_estimate

    @property
    def left_out(self) -> list[str]:
        """What the sums leave out."""
        return self.not_counted()

    @property
    def bytes_by_memory_space(self) -> dict[int, int]:
        """The bytes of the buffers in each memory space: 0 is the device's main memory, 1 its on-chip memory, 5 the
        host's.
        """
        totals: dict[int, int] = {}
        for buffer in self.buffers:
            if buffer.shape is None:
                continue
            array = buffer.shape.buffer_shape if buffer.shape.is_buffer else buffer.shape
            space = array.layout.memory_space if array.layout is not None else 0
            totals[space] = totals.get(space, 0) + (buffer.buffer_bytes or 0)
        return dict(sorted(totals.items()))

    def not_counted(self) -> list[str]:
        """Lines that say what the sums leave out."""
        lines: list[str] = []
        if self.shared:
            counts = ", ".join([f"{count} {opcode}" for opcode, count in sorted(self.shared.items())])
            lines.append(f"{sharing_text(sum(self.shared.values()))}: {counts}")
        if self.without_memory:
            lines.append(fused_text(self.without_memory))
        if self.donated:
            count = f"{len(self.donated)} output{' is' if len(self.donated) == 1 else 's are'}"
            size = sum([each.buffer_bytes or 0 for each in self.donated])
            saves = f", which saves {byte_text(size)}" if size else ""
            some = "; ".join(map(str, self.donated[:_SHOWN_DONATED]))
            more = "; …" if len(self.donated) > _SHOWN_DONATED else ""
            lines.append(f"{count} in the memory of donated parameters{saves}: {some}{more}")
        if self.donors:
            arrays = counted(self.donors, "donated array")
            lines.append(f"what the compiler may save by computing outputs into the memory of {arrays}")
        failed = sum([buffer.error is not None for buffer in self.buffers])
        if failed:
            lines.append(f"{failed} buffers of unknown size")
        lines.append("tables of tuples; memory that the compiler reuses, so that the peak may be lower than the sum")
        return lines

    def selected(self, rows: Sequence[Buffer]) -> ModuleMemory:
        """The answer about these buffers alone, with the sums over them. The peak is that of the whole module."""
        whole = len(self.buffers) if self.whole_count is None else self.whole_count
        kept = (self.shared, self.without_memory, self.donated, self.donors, whole)
        return ModuleMemory(self.name, self.target, tuple(rows), *kept, peak=self._peak).with_notes(self.notes)

    def headline(self) -> str:
        """The peak, the sums over all buffers, and what they leave out."""
        on = f" on {self.target.name}" if self.target is not None else ""
        whole = len(self.buffers) if self.whole_count is None else self.whole_count
        many = f"{len(self.buffers):,}" + (f" of {whole:,}" if len(self.buffers) < whole else "")
        first = f"{self.name or 'module'}: {many} buffer{'' if whole == 1 else 's'}{on}"
        facts = peak_facts(self.peak)
        these = "these" if len(self.buffers) < whole else "all"
        facts.append(("sum", f"{byte_text(self.buffer_bytes)} over {these} buffers{self.times_text}"))
        facts.append(("elements", byte_text(self.element_bytes)))
        spaces = self.bytes_by_memory_space
        if any(spaces):
            each = [f"{byte_text(size)} in memory space {space}" for space, size in spaces.items()]
            facts.append(("of these", ", ".join(each)))
        facts += [("" if i else "without", line) for i, line in enumerate(self.not_counted())]
        if self.target is None and self.buffers and not any(_has_tiles(each.shape) for each in self.buffers):
            facts.append(("hint", "no layout has tiles; with the target tpu those count that a TPU would use"))
        return "\n".join([first, *facts_lines(facts)])

    def to_text(self, limit: int | None = None, *, width: int | None = None, hint: str = "") -> str:
        """The headline; then explanations of the buffers with padding, or if none has padding a table of the largest,
        at most `limit` of them (0: all); and the errors of buffers of unknown size.

        In an answer by `selected`, all buffers are explained if one has padding.
        """
        most = self.report.shown if limit is None else limit
        rows = merged(self.buffers)
        known = [one for one in rows if one.error is None]
        padded = [one for one in known if one.padding_bytes]
        shown = (padded if self.whole_count is None else known) if padded else known
        first = shown[: most or len(shown)]
        parts = ["\n".join([self.headline(), *self.notes])]
        if padded:
            parts += [_explained(one) for one in first]
        elif first:
            values = [row_values(BUFFER_COLUMNS, one) for one in self.buffers if one.error is None]
            table = alike_together(BUFFER_COLUMNS, values, self.report.alike)
            parts.append(table_text(BUFFER_COLUMNS, table[: len(first)], width))
        if len(first) < len(shown):
            what = "buffers that are larger than their elements" if shown is padded else "buffers"
            parts.append(f"and {sum([one.times for one in shown[len(first) :]]):,} more {what}{hint}")
        parts += [f"{_title(one)}: {one.error}" for one in rows if one.error is not None]
        return printable("\n\n".join(parts))


def _explained(one: Buffer) -> str:
    """The title and the explanation of a buffer."""
    title, text = _title(one), str(one.explain())
    fits = len(title) + len(text.split("\n", 1)[0]) < _LINE
    return f"{title}:{' ' if fits else chr(10)}{text}"


def _title(one: Buffer) -> str:
    """The instruction that makes a buffer, where that comes from, and how many equal buffers there are."""
    origin = ", ".join([text for text in (one.opcode, f"in {one.computation}", one.source) if text])
    return f"{one.where} ({origin})" + (f", {one.times:,} times" if one.times > 1 else "")


def _shortened(op_name: str) -> str:
    """The end of the name of an operation, which tells more than its beginning."""
    return op_name if len(op_name) <= _OP_NAME else f"…{op_name[-_OP_NAME:]}"


def module_memory(module: HloModule, target: Target | None = None, origin: Any = None) -> ModuleMemory:
    """The buffers of a module and their sizes. A buffer of unknown size has an error; the others are explained.

    `origin` is the object that the module was read from. It may say more about the module's memory, as a file with a
    buffer assignment beside it does.

    >>> text = "HloModule m ENTRY e { p = f32[3,5]{1,0:T(2,2)} parameter(0) ROOT n = f32[3,5] negate(p) }"
    >>> memory = module_memory(HloModule.parse(text))
    >>> [(buffer.name, buffer.buffer_bytes) for buffer in memory.buffers], memory.buffer_bytes
    ([('p', 96), ('n', 60)], 156)
    """
    found = module_buffers(module)
    known: dict[Shape, ArraySizes] = {}
    rows: list[Buffer] = []
    for buffer in found.buffers:
        spend(16)
        rows.append(buffer_of(buffer.instruction, buffer.shape_index, buffer.shape, target, known, len(rows)))
    donated = tuple(
        [
            DonatedMemory(
                each.output_index,
                each.instruction.name + (str(each.shape_index) if each.shape_index else ""),
                each.parameter_text,
                each.kind,
                0 if shape is None else _sizes(shape, target).bytes,
            )
            for each, shape in found.donated
        ]
    )
    donors = len(module.head.buffer_donor.entries)
    forms = [module] if origin is None else [origin, module]
    return ModuleMemory(
        module.name,
        target,
        tuple(ranked(rows)),
        found.shared,
        found.without_memory,
        donated,
        donors,
        peak=UNKNOWN_PEAK if target is not None else lambda: peak_of(*forms),
    )


class ArraySizes(NamedTuple):
    """The sizes of an array in bytes; None if there is an error."""

    shape: Shape
    """The array with the layout that is counted."""
    element_bytes: int | None
    bytes: int | None
    error: XlashapeError | None = None


def buffer_of(
    instruction: HloInstruction,
    index: ShapeIndex,
    shape: Shape,
    target: Target | None,
    known: dict[Shape, ArraySizes],
    position: int,
) -> Buffer:
    """The row of an array of an instruction's result. `known` keeps the sizes of shapes. `position` is the number of
    the row in the order of the module.
    """
    sizes = known.get(shape)
    if sizes is None:
        sizes = known[shape] = _sizes(shape, target)
    metadata = instruction.metadata
    return Buffer(
        instruction.name,
        str(instruction.opcode),
        instruction.computation.name,
        index or None,
        *sizes,
        metadata.source or None,
        metadata.op_name or None,
        target,
        position=position,
    )


def _sizes(shape: Shape, target: Target | None) -> ArraySizes:
    try:
        tiled = on_target(shape, target)
        return ArraySizes(tiled, element_bytes_of(tiled), array_bytes(tiled, target))
    except XlashapeError as error:
        return ArraySizes(shape, None, None, error)


def _has_tiles(shape: Shape | None) -> bool:
    array = shape.buffer_shape if shape is not None and shape.is_buffer else shape
    return array is not None and array.layout is not None and bool(array.layout.tiles)
