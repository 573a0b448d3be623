"""The report `size`: how many bytes a shape, or the buffers of a program, take. Its rows are the buffers that the
report `why` explains, or those of one computation.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final

from xlashape.base.display import printable
from xlashape.base.frozen import FrozenValue, set_field
from xlashape.base.math import byte_text, checked_int64
from xlashape.base.tables import Column, ColumnKind
from xlashape.errors import InvalidArgumentError
from xlashape.hlo.module_proto.shown_frames import showing_frames
from xlashape.limits import spend
from xlashape.reports import vocabularies
from xlashape.reports.report import FRAMES, NOTES, STRICT, Computed, Option, Report, by_section
from xlashape.reports.why.declaration import ALIKE, BUFFER_COLUMNS, TARGET, facts_lines
from xlashape.reports.why.explain import why
from xlashape.reports.why.shapes import Buffer, MemoryAnswer, ranked
from xlashape.shape import Shape, ShapeIndex, Target
from xlashape.shape.parts.target import TARGET_NAMES

if TYPE_CHECKING:
    from xlashape.hlo.module import HloModule

_SUMS: Final = (
    Column("element_bytes", ColumnKind.INTEGER, "the sum of the bytes of their elements", "bytes", rank=3, heading="without padding"),
    Column("bytes", ColumnKind.INTEGER, "the sum of their bytes, padding included", "bytes", rank=1),
    Column("padding_bytes", ColumnKind.INTEGER, "the sum of their bytes that are not elements", "bytes", rank=2),
    Column("count", ColumnKind.INTEGER, "the number of buffers that are summed", rank=3, heading="buffers"),
)  # fmt: skip

REPORT: Final = Report(
    name="size",
    summary="How many bytes a shape takes, or which buffers of a program have the most padding.",
    columns=BUFFER_COLUMNS,
    totals=(
        Column("about", ColumnKind.TEXT, "the shape, or the name of the module"),
        Column("target", ColumnKind.TEXT, "the device whose sizes are counted; not set where those of the layouts are", choices=TARGET_NAMES),
        Column("computation", ColumnKind.TEXT, "the computation whose instructions are counted; not set where those of the whole program are"),
        Column("peak_bytes", ColumnKind.INTEGER, "of a module: the most bytes that live at once; not set where that is not known", "bytes"),
        Column("peak_is_estimate", ColumnKind.BOOLEAN, "whether the peak was estimated, since the module has no buffer assignment"),
        _SUMS[3],
        Column("of_count", ColumnKind.INTEGER, "the number of all buffers, among which filters chose", heading="of buffers"),
        *[each._replace(rank=0) for each in _SUMS[:3]],
        Column("padding_share", ColumnKind.NUMBER, "padding ÷ buffers", "fraction"),
        Column("shared_count", ColumnKind.INTEGER, "the instructions of a module whose results share the buffers of others", heading="share a buffer"),
        Column("fused_count", ColumnKind.INTEGER, "the instructions of a module that are fused or applied to elements, and have no buffers", heading="fused"),
        NOTES,
    ),
    sections=(by_section("buffers", _SUMS, ("source", "op_name", "opcode", "computation", "shape", "layer", "each_layer")),),
    options=(
        TARGET,
        Option("computation", ColumnKind.TEXT, "of a module, only the instructions of this computation, all of which count", ""),
        Option("order", ColumnKind.TEXT, "the order of the buffers", "padding", vocabularies.SIZE_ORDERS),
        FRAMES,
        STRICT,
    ),
    compute="xlashape.reports.size:size",
    inputs=("module", "shape"),
    rows="buffers",
    shown=20,
    alike=ALIKE,
    takes="X is a shape such as 'bf16[20,300]{1,0:T(8,128)(2,1)}'; a file with an HLO module; the name of a module "
        "that --server keeps; or text with "
    "shapes in it. `-` reads standard input. Of a module, only results that have memory of their own count.",
)  # fmt: skip


class SizeAnswer(FrozenValue, Computed[Buffer]):
    """Buffers and the sums of their bytes. The totals of `REPORT` say what each attribute is."""

    _fields = ("memory", "buffers", "computation", "shared_count", "fused_count", "of_count")
    __slots__ = (*_fields, "_notes")
    report: ClassVar[Report] = REPORT

    memory: MemoryAnswer
    """The answer of `why` about the same subject."""
    buffers: tuple[Buffer, ...]
    computation: str | None
    shared_count: int
    fused_count: int
    of_count: int

    def __init__(
        self,
        memory: MemoryAnswer,
        buffers: tuple[Buffer, ...],
        computation: str | None = None,
        shared_count: int = 0,
        fused_count: int = 0,
        of_count: int | None = None,
    ) -> None:
        set_field(self, "memory", memory)
        set_field(self, "buffers", buffers)
        set_field(self, "computation", computation)
        set_field(self, "shared_count", shared_count)
        set_field(self, "fused_count", fused_count)
        set_field(self, "of_count", len(buffers) if of_count is None else of_count)

    @property
    def about(self) -> str | None:
        """The shape, or the name of the module."""
        return self.memory.about

    @property
    def target(self) -> Target | None:
        """The device whose sizes are counted; None where the sizes of the layouts are."""
        return self.memory.target

    @property
    def peak_bytes(self) -> int | None:
        """The most bytes of a module that live at once, as the report `memory` says; None where that is not known."""
        return self.memory.peak_bytes

    @property
    def peak_is_estimate(self) -> bool | None:
        """Whether the peak was estimated; None where there is no peak."""
        return self.memory.peak_is_estimate

    @property
    def count(self) -> int:
        """The number of buffers."""
        return len(self.buffers)

    @property
    def element_bytes(self) -> int:
        """The bytes of the elements of all buffers of known size."""
        return checked_int64(sum([one.element_bytes or 0 for one in self.buffers]), "the bytes of all elements")

    @property
    def bytes(self) -> int:
        """The bytes of all buffers of known size."""
        return checked_int64(sum([one.bytes or 0 for one in self.buffers]), "the bytes of all buffers")

    @property
    def padding_bytes(self) -> int:
        """The bytes of the buffers that are not elements."""
        return self.bytes - self.element_bytes

    @property
    def padding_share(self) -> float:
        """The share of padding in the bytes of the buffers, from 0 to 1."""
        return self.padding_bytes / self.bytes if self.bytes else 0.0

    def selected(self, rows: Sequence[Buffer]) -> SizeAnswer:
        """The answer about these buffers alone: the sums are over them, but the peak is that of the whole module."""
        counts = (self.computation, self.shared_count, self.fused_count, self.of_count)
        return SizeAnswer(self.memory, tuple(rows), *counts).with_notes(self.notes)

    def headline(self) -> str:
        """The sum over the buffers; of a module also its peak, the number of buffers, and what the sum leaves out. Of
        one computation, there is no peak.
        """
        padding = f"{byte_text(self.padding_bytes)} ({self.padding_share:.1%}) of padding"
        parts = f": {byte_text(self.element_bytes)} of elements, {padding}" if self.padding_bytes else ""
        if self.memory.kind != "module":
            return f"{byte_text(self.bytes)}{parts}"
        # Start-up time, here and below: modules take longer to load than the size of a shape to answer.
        from xlashape.reports.why.programs import ModuleMemory, fused_text, peak_facts, sharing_text

        assert isinstance(self.memory, ModuleMemory)
        on = f" on {self.target.name}" if self.target is not None else ""
        within = f" in {self.computation}" if self.computation else ""
        many = f"{self.count:,}" + (f" of {self.of_count:,}" if self.count < self.of_count else "")
        facts = [] if self.computation else peak_facts(self.memory.peak)
        facts.append(
            ("sum", f"{byte_text(self.bytes)} over {'these' if self.count < self.of_count else 'all'} buffers{parts}")
        )
        if self.shared_count:
            facts.append(("without", sharing_text(self.shared_count)))
        if self.fused_count:
            head = "" if self.shared_count else "without"
            facts.append((head, fused_text(self.fused_count)))
        first = f"{self.about or 'module'}: {many} buffer{'' if self.of_count == 1 else 's'}{within}{on}"
        return printable("\n".join([first, *facts_lines(facts)]))

    def to_text(self, limit: int | None = None, *, width: int | None = None, hint: str = "") -> str:
        """The headline and the first buffers; for a shape with one buffer, the headline alone."""
        if self.count == 1 and self.memory.kind != "module":
            return self.headline()
        return super().to_text(limit, width=width, hint=hint)


# -- computation -------------------------------------------------------------------------------


_ORDERS = ("padding", "bytes", "module")


def size(
    x: Any,
    *,
    target: Target | str | None = None,
    computation: str = "",
    order: str = "padding",
    frames: str | None = None,
    strict: bool = False,
) -> SizeAnswer:
    """How many bytes the buffers of `x` take: a shape, a module, or anything else that `why` takes.

    target: as for `why`; with a target, the tables of pointers of tuples count too. computation: only the instructions
    of this computation of the module; if it is fused or applied to elements, all results count, as if they had memory.
    order: which buffers come first: those with the most padding ("padding"), the largest ("bytes"), or those of the
    module's first instructions ("module"). frames, strict: as for `why`.

    Errors are those of `why`; NotFoundError for a computation that the module does not have, InvalidArgumentError for
    another order.

    >>> answer = size("HloModule m ENTRY e { p = f32[3,5]{1,0:T(2,2)} parameter(0) ROOT n = f32[3,5] negate(p) }")
    >>> answer.count, answer.bytes, answer.padding_bytes, [(row.name, row.bytes) for row in answer]
    (2, 156, 36, [('p', 96), ('n', 60)])
    """
    if order not in _ORDERS:
        raise InvalidArgumentError(f"order is one of {', '.join(_ORDERS)}, not {order!r}", field="order")
    with showing_frames(frames):
        return _sized(x, None if target is None else Target.of(target), computation, order, strict=strict)


def _sized(x: Any, device: Target | None, computation: str, order: str, *, strict: bool) -> SizeAnswer:
    memory = None if computation else why(x, target=device, strict=strict)
    if memory is not None and memory.kind != "module":
        # Without a target, the size of a pointer is not known.
        buffers = [one for one in memory.buffers if device is not None or one.shape is None or not one.shape.is_tuple]
        return SizeAnswer(memory, tuple(buffers))
    # Start-up time: modules take longer to load than a question about a shape to answer.
    from xlashape.reports.program import program
    from xlashape.reports.why.programs import ModuleMemory

    if not isinstance(memory, ModuleMemory):
        module = program(x, strict=strict)
        return _of_computation(module, computation, device, order).with_notes(module.notes)
    shared = sum(memory.shared.values())
    answer = SizeAnswer(memory, _ordered(memory.buffers, order), None, shared, memory.without_memory)
    return answer.with_notes(memory.notes)


def _ordered(buffers: Iterable[Buffer], order: str) -> tuple[Buffer, ...]:
    if order == "bytes":
        return tuple(sorted(buffers, key=lambda one: -1 if one.bytes is None else one.bytes, reverse=True))
    if order == "module":
        return tuple(sorted(buffers, key=lambda one: one.position))
    return tuple(ranked(buffers))


def _of_computation(module: HloModule, name: str, target: Target | None, order: str) -> SizeAnswer:
    from xlashape.hlo.flow import Buffers, executed_computations
    from xlashape.reports.why.programs import ArraySizes, buffer_of, module_memory
    from xlashape.shape.xla_util.shape_util import get_leaf_shapes

    chosen = module.computation(name)
    is_executed = chosen in executed_computations(module)
    buffers = Buffers(module)
    known: dict[Shape, ArraySizes] = {}
    rows: list[Buffer] = []
    shared = 0
    for instruction in chosen.instructions:
        spend(16)
        if is_executed:
            arrays = [(each.shape_index, each.shape) for each in buffers.of(instruction)]
            shared += not arrays
        elif instruction.shape.is_tuple:
            arrays = [(leaf.index, leaf.shape) for leaf in get_leaf_shapes(instruction.shape)]
        else:
            arrays = [(ShapeIndex(), instruction.shape)]
        for index, shape in arrays:
            if shape.is_array or shape.is_buffer:
                rows.append(buffer_of(instruction, index, shape, target, known, len(rows)))
    return SizeAnswer(module_memory(module, target), _ordered(rows, order), name, shared)
