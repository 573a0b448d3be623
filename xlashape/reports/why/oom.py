"""Why the allocations in a compiler's or allocator's report about memory that has run out are as large as they are. The
sizes that this library computes, "ours", stand beside those of the report.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from textwrap import wrap
from typing import Final, NamedTuple

from xlashape.base.math import counted
from xlashape.base.pasted import clean
from xlashape.errors import XlashapeError
from xlashape.limits import spend
from xlashape.reports.oom_text import (
    IN_USE,
    LARGEST_FREE,
    ReportedAllocation,
    ReportedAmount,
    ReportedTotals,
    agrees,
    parse_size,
    read_report,
    read_shapes,
    totals_of,
)
from xlashape.reports.text import cut_middle
from xlashape.reports.why.causes import array_bytes
from xlashape.reports.why.compiler_messages import binary_text, read_messages
from xlashape.reports.why.declaration import facts_lines
from xlashape.reports.why.shapes import ArrayMemory, Buffer, MemoryAnswer, ShapesMemory, array_memory
from xlashape.shape import Shape, Target, tpu_layout

# Its layouts stand for those of older TPU compilers.
_OLD_TPU: Final = "tpu-v3"
_MOST_SHAPES: Final = 100
_LITTLE: Final = 1 << 30
"""A request of fewer bytes does not fail on an empty device: all have several GiB."""
_REQUESTS: Final = ("allocator", "reservation")
"""The groups of amounts that are requests of memory."""
_ABOUT: Final = {"memory": "in memory of the", "purpose": "for a", "on": "on"}
"""What a request may name → the words before it."""
_HELPS: Final = {
    "memory": "it is the host's own memory that ran out, not the device's",
    "purpose": "a constant takes device memory of its own: pass large arrays as arguments of the function",
    "error": "other processes on the GPU, or XLA's own pool (XLA_PYTHON_CLIENT_MEM_FRACTION), may hold its memory",
}
"""What a request may name → what that tells. The first counts: a GPU's driver also fails for host memory."""
_SHOWN_UNREAD: Final = 5
"""The most lines that were not understood which the headline shows."""
_WIDTH: Final = 80
_OP_NAME: Final = 60
_PLAIN: Final = re.compile(r"\d+(?: ?bytes?)?")
"""An amount of bytes without a larger unit."""
_LABEL: Final = re.compile(r"%?([\w.\-]+) = ")
_LABEL_OPCODE: Final = re.compile(r"[ )}\]]([a-z][a-z\-]*)\(")


def size_text(size: int, like: str = "") -> str:
    """A number of bytes as reports write it, in the unit that fits, with the ending of `like`.

    >>> (
    ...     size_text(34359738368),
    ...     size_text(1536),
    ...     size_text(12),
    ...     size_text(2823933952, "1.00GiB"),
    ...     size_text(393216, "1.0KiB"),
    ... )
    ('32.00G', '1.5K', '12B', '2.63GiB', '384.0KiB')
    """
    ending = "iB" if like.endswith("iB") else ""
    for unit, exponent in (("P", 50), ("T", 40), ("G", 30), ("M", 20)):
        if size >= 1 << exponent:
            return f"{size / (1 << exponent):.2f}{unit}{ending}"
    if size >= 1 << 10:
        return f"{size / 1024:.1f}K{ending}"
    return f"{size}B"


class AllocationMemory(NamedTuple):
    """An allocation of a report, explained."""

    reported: ReportedAllocation
    memory: ArrayMemory | None
    """The explanation; None if the report states no array's shape, or if `error` says why its size is not known."""
    error: XlashapeError | None = None

    @property
    def size(self) -> str:
        """Our size of the buffer, as the report would write it; empty if we have none."""
        return "" if self.memory is None else size_text(self.memory.buffer_bytes, self.reported.size)

    @property
    def unpadded(self) -> str:
        """Our size of the elements, as the report would write it; empty if we have none."""
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
        """Whether every number that the report states equals ours within its rounding; None if there is nothing to
        compare.
        """
        memory, theirs = self.memory, self.reported
        if memory is None:
            return None
        sizes = (
            (theirs.size, memory.buffer_bytes),
            (theirs.unpadded, memory.element_bytes),
            (theirs.padding, memory.overhead_bytes),
        )
        # The factor of a report has one decimal.
        is_factor = not theirs.expansion or abs(memory.factor - float(theirs.expansion)) <= 0.05 + 1e-9
        return is_factor and all(not text or agrees(ours, text) for text, ours in sizes)

    @property
    def buffer(self) -> Buffer:
        """The row of the allocation, with our sizes where there is an explanation, else with the report's size."""
        theirs = self.reported
        label = _LABEL.match(theirs.label)
        opcode = _LABEL_OPCODE.search(theirs.label, label.end() - 1) if label is not None else None
        is_opcode = label is None and re.fullmatch(r"[a-z\-]+", theirs.label) is not None
        return Buffer(
            label[1] if label is not None else theirs.op_name or (theirs.label if not is_opcode else "") or None,
            opcode[1] if opcode is not None else theirs.label if is_opcode else None,
            None,
            None,
            theirs.shape if self.memory is None else self.memory.shape,
            None if self.memory is None else self.memory.element_bytes,
            parse_size(theirs.size) if self.memory is None else self.memory.buffer_bytes,
            self.error,
            theirs.source or None,
            theirs.op_name or None,
            None if self.memory is None else self.memory.target,
        )

    @property
    def origin(self) -> str:
        """The line of the user's program, and the end of the operation's name, which tells more than its beginning."""
        name = self.reported.op_name.partition("[")[0]
        name = name if len(name) <= _OP_NAME else f"…{name[-_OP_NAME:]}"
        return ", ".join([text for text in (self.reported.source, name) if text])

    def __str__(self) -> str:
        theirs = self.reported
        number = f"{theirs.number}. " if theirs.number is not None else ""
        if self.memory is None:
            is_cut = not (theirs.operator or theirs.label or theirs.kind)
            why = (
                f", {theirs.shape}" if theirs.shape is not None else ", cut off here" if is_cut else ", without a shape"
            )
            why = f": {self.error}" if self.error is not None else why
            return f"{number}{theirs.size}{why}" + (f" ({theirs.label})" if theirs.label else "")
        verdict = "the same" if self.agrees else "NOT the same"
        facts = [
            ("report", _sizes_text(theirs.size, theirs.unpadded, theirs.padding, theirs.expansion)),
            ("ours", f"{_sizes_text(self.size, self.unpadded, self.padding, self.expansion)}: {verdict}"),
        ]
        facts += [("from", self.origin)] if self.origin else []
        return "\n".join([f"{number}{self.memory.shape}", *facts_lines([*facts, *self.memory.facts()])])


def _sizes_text(size: str, unpadded: str, padding: str, expansion: str) -> str:
    text = size
    if unpadded:
        text += f", unpadded {unpadded}"
    if padding:
        text += f", padding {padding}"
    return text + (f" ({expansion}x expansion)" if expansion else "")


@dataclass(frozen=True, eq=False, repr=False)
class ReportMemory(MemoryAnswer):
    """A report about memory that has run out, explained. Sums are over the allocations that are explained."""

    _fields = ("reported", "allocations", "stated", "unread", "said", "cut")
    kind = "report"

    reported: ReportedTotals | None
    """The bytes used and available, as the report states them; None where it states none."""
    allocations: tuple[AllocationMemory, ...]
    stated: tuple[ReportedAmount, ...] = ()
    """The amounts that the report states beside its allocations."""
    unread: tuple[str, ...] = ()
    """The lines that were not understood."""
    said: tuple[str, ...] = ()
    """What the message of a compiler says, in sentences, where it is of a kind that `compiler_messages` knows."""
    cut: str = ""
    """The label and the type of an allocation whose beginning, with its size, is not in the text; else empty."""

    @property
    def buffers(self) -> tuple[Buffer, ...]:
        """The allocations, in the order of the report."""
        found: list[Buffer] = []
        for one in self.allocations:
            spend(4)
            found.append(one.buffer)
        return tuple(found)

    @property
    def element_bytes(self) -> int:
        """The bytes of the elements of all allocations that are explained."""
        return sum([one.memory.element_bytes for one in self.allocations if one.memory is not None])

    @property
    def buffer_bytes(self) -> int:
        """The bytes of all allocations that are explained, as we compute them."""
        return sum([one.memory.buffer_bytes for one in self.allocations if one.memory is not None])

    @property
    def agrees(self) -> bool:
        """Whether all numbers of the report that can be compared equal ours, within their rounding."""
        return all(one.agrees is not False for one in self.allocations)

    @property
    def must_go_bytes(self) -> int | None:
        """How many bytes too many are used, 0 or more; None where that does not follow from the report."""
        amounts = {(each.group, each.name): each.bytes for each in self.stated}
        exceeded = parse_size(self.reported.exceeded) if self.reported is not None else None
        left = next((size for (_, name), size in amounts.items() if name == "Available after request"), None)
        reduced, limit = amounts.get(("rematerialization", "reduced to")), amounts.get(("rematerialization", "limit"))
        if exceeded is None and left is not None:
            exceeded = -left
        if exceeded is None and reduced is not None and limit is not None:
            exceeded = reduced - limit
        if exceeded is None and self.reported is not None:
            used, capacity = parse_size(self.reported.used), parse_size(self.reported.capacity)
            exceeded = used - capacity if used is not None and capacity is not None else None
        asked, free = self._request
        if exceeded is None and asked is not None and free is not None and free < asked:
            exceeded = asked - free
        return None if exceeded is None else max(0, exceeded)

    @property
    def _request(self) -> tuple[int | None, int | None]:
        """The bytes of the largest request that failed, and those that were free; None where the text does not state
        them."""
        rows = [each for each in self.stated if each.group in _REQUESTS and each.bytes is not None]
        asked = [each.bytes for each in rows if each.name == "requested" and each.bytes is not None]
        amounts = {each.name: each.bytes for each in rows}
        free, limit, held = [amounts.get(name) for name in ("free", "limit", "in use")]
        if free is None and limit is not None and held is not None:
            free = max(0, limit - held)
        return max(asked, default=None), free

    def headline(self) -> str:
        """The bytes used, available and in excess, the sums over the allocations, the other amounts, and the lines that
        were not understood.
        """
        if self.said:
            return "\n".join([piece for line in self.said for piece in _folded(line)])
        lines = list(self._use())
        lines += self._listed()
        saved = sum([_free_saving(one.memory) for one in self.allocations if one.memory is not None])
        if saved:
            enough = (
                ""
                if self.must_go_bytes is None
                else ", which is enough"
                if saved >= self.must_go_bytes
                else ", which is not enough"
            )
            lines.append(
                f"the same arrays in other forms, of which each value stays, would save {binary_text(saved)}{enough}"
            )
        lines += self._narrower()
        groups: dict[str, list[ReportedAmount]] = {}
        for each in self.stated:
            if each.group != IN_USE:
                groups.setdefault(each.group, []).append(each)
        lines += [f"{group}: {'; '.join(map(_amount_text, amounts))}" for group, amounts in groups.items()]
        if self._shares_nothing:
            lines.append(
                "outputs share nothing with arguments: where the caller no longer needs what it passes, try "
                "donate_argnums of jax.jit"
            )
        if self.cut:
            label = _LABEL.match(self.cut)
            cut = label[1] if label is not None else cut_middle(self.cut, _OP_NAME)
            lines.append(f"the text begins within an allocation whose size was cut off: {cut}")
        if self.unread:
            many = f"{len(self.unread)} line{' was' if len(self.unread) == 1 else 's were'}"
            shown = [cut_middle(line, _WIDTH - 2) for line in self.unread[:_SHOWN_UNREAD]]
            more = [f"… and {len(self.unread) - len(shown)} more"] if len(self.unread) > len(shown) else []
            lines.append("\n  ".join([f"{many} not understood:", *shown, *more]))
        return "\n".join([piece for line in lines for piece in _folded(line)])

    def _narrower(self) -> Iterator[str]:
        """A line about the first allocation that would be enough alone with narrower elements."""
        must_go = self.must_go_bytes
        for number, one in enumerate(self.allocations, 1):
            for each in () if one.memory is None or not must_go else one.memory.suggestions:
                if each.kind == "type" and each.saved_bytes >= (must_go or 0):
                    which = f"allocation {one.reported.number or number}"
                    yield (
                        f"{which} alone as {each.jax} would save {binary_text(each.saved_bytes)}, which is enough if "
                        "no other array takes its place; values change"
                    )
                    return

    @property
    def _shares_nothing(self) -> bool:
        """Whether the text says that no output has the memory of an argument."""
        amounts = {(each.group, each.name): each.bytes for each in self.stated}
        return bool(amounts.get(("output", "size"))) and amounts.get(("output", "shared with arguments")) == 0

    def _use(self) -> Iterator[str]:
        """Lines with the bytes needed, there and in excess, and with what takes less."""
        reported, must_go = self.reported, self.must_go_bytes
        stated = {(each.group, each.name): each.bytes for each in self.stated}
        reports = [one.reported for one in self.allocations]
        total = stated.get(("BufferAssignment stats", "total allocation"))
        used = None if reported is None else parse_size(reported.used)
        capacity = None if reported is None else parse_size(reported.capacity)
        space = reported.memory_space if reported is not None else ""
        before = f"{space}: " if space else ""
        excess = f": {binary_text(must_go)} too much" if must_go else ""
        taken = stated.get(("HBM capacity", "Currently allocated"))
        asked = stated.get(("HBM capacity", "Program requirement"))
        requested, free = self._request
        named = {each.name: each.text for each in self.stated if each.group == "allocator"}
        if capacity and taken is not None and asked is not None and must_go:
            reserved = capacity + must_go - taken - asked  # so that the parts add up to the excess
            held = f"{binary_text(reserved)} are reserved and " if reserved > 0 else ""
            yield f"{before}of {binary_text(capacity)}, {held}{binary_text(taken)} are allocated before"
            yield f"the program asks for {binary_text(asked)}{excess}"
        elif used is not None and capacity is not None:
            yield f"{before}{binary_text(used)} are needed, {binary_text(capacity)} are there{excess}"
        elif requested is not None:
            whole = f", and the program's buffers are {binary_text(total)} in all" if total else ""
            about = "".join([f" {words} {named[name]}" for name, words in _ABOUT.items() if name in named])
            left = "the text does not say how much was free"
            if free is not None:
                limit = stated.get(("allocator", "limit"))
                there = f"of {binary_text(limit)}, {binary_text(free)}" if limit else binary_text(free)
                left = f"{there} were free{excess or ', but not in one piece'}"
            yield f"a request of {binary_text(requested)}{about} failed{whole}; {left}"
            yield from [advice for name, advice in _HELPS.items() if name in named][:1]
            if free is None and max(requested, total or 0) < _LITTLE:
                yield "so little fails only where the device was full before: by other arrays, programs or processes"
        elif used is not None:
            yield f"{before}{binary_text(used)} are needed; the text does not say how much is there"
        elif total:
            yield f"the program's buffers are {binary_text(total)} in all; the text does not say how much is there"
        elif "wanted" in named:
            left = "" if free is None else f", and {binary_text(free)} were free"
            yield f"{binary_text(parse_size(named['wanted']) or 0)} were asked for{left}"
            yield "this is no failure: the caller goes on without them, and may be slower"
        elif "error" in named:
            yield "the driver of the GPU ran out of memory; the text does not say how much was asked for, or was free"
            yield _HELPS["error"]
        elif space:
            yield f"{space} is too small for what is asked of it; the text does not say how much that is"
        chunks = [each for each in self.stated if each.group == IN_USE]
        if chunks:
            sizes = [f"{each.name} of {binary_text(parse_size(each.text) or 0)}" for each in chunks[:_SHOWN_UNREAD]]
            more = sum([each.bytes or 0 for each in chunks[_SHOWN_UNREAD:]])
            yield f"chunks in use: {', '.join(sizes)}{f', and {binary_text(more)} in smaller ones' if more else ''}"
        piece = stated.get(("allocator", LARGEST_FREE))
        if piece is not None and requested is not None and free is not None and piece < min(requested, free):
            yield f"no free piece is larger than {binary_text(piece)}: what is free lies between chunks in use"
        is_of_device = not space or space == "hbm"
        if not self.allocations and is_of_device and named.keys().isdisjoint(("memory", "wanted", "error")):
            yield (
                "what holds the memory is not in this text: "
                + ("jax.live_arrays() lists the arrays on the device; " if requested is not None else "")
                + "`xlashape memory DIR` says it of the program that XLA_FLAGS=--xla_dump_to=DIR writes"
            )
        if space == "vmem" or self.cut.endswith("(scoped)") or any(one.kind == "scoped" for one in reports):
            yield (
                "VMEM holds the blocks and scratch of kernels, and what XLA keeps on the chip: smaller blocks "
                "(pl.BlockSpec) or less scratch take less"
            )

    def _listed(self) -> Iterator[str]:
        """Lines about the allocations of the text together, and those whose shape tells their size."""
        if not self.allocations:
            return
        must_go = self.must_go_bytes
        sizes = sorted([size for one in self.buffers if (size := one.bytes) is not None], reverse=True)
        enough = next((count for count in range(1, len(sizes) + 1) if must_go and sum(sizes[:count]) >= must_go), None)
        text = f"{counted(len(self.allocations), 'allocation')} listed, {binary_text(sum(sizes))} together"
        if enough is not None:
            which = "the largest" if enough == 1 else f"the {enough} largest"
            text += f": without {which} ({binary_text(sum(sizes[:enough]))}) it would fit"
        elif must_go:
            text += ": less than what is too much, so that more than these must go"
        yield text
        compared = [one for one in self.allocations if one.agrees is not None]
        if compared:
            differ = sum([not one.agrees for one in compared])
            padded = f"{binary_text(self.overhead_bytes)} of it padding" if self.overhead_bytes else "no padding"
            same = f"{differ} of them NOT as the text says" if differ else "as the text says"
            yield f"those with a shape ({len(compared)}) take {binary_text(self.buffer_bytes)}, {padded}: {same}"

    def to_text(self, limit: int | None = None, *, width: int | None = None, hint: str = "") -> str:  # noqa: ARG002 - there are no columns
        """The headline and each allocation explained, at most `limit` of them (None or 0: all), for people."""
        return "\n\n".join([self.headline(), *map(str, self.allocations[: limit or len(self.allocations)])])


def _amount_text(amount: ReportedAmount) -> str:
    detail = f" ({amount.detail})" if amount.detail else ""
    is_plain = amount.bytes is not None and _PLAIN.fullmatch(amount.text) is not None
    return f"{amount.name} {binary_text(amount.bytes or 0) if is_plain else amount.text}".rstrip() + detail


def _folded(line: str) -> list[str]:
    """The line in lines of at most 80 characters, where words allow that."""
    return [
        piece
        for each in line.split("\n")
        for piece in wrap(each, _WIDTH, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False) or [""]
    ]


def _free_saving(memory: ArrayMemory) -> int:
    """The most bytes that a single suggestion saves without a change of any element's value."""
    return max([one.saved_bytes for one in memory.suggestions if one.is_lossless], default=0)


def report_memory(text: str, target: Target | None = None) -> ReportMemory:
    """Explains the allocations of a report: of XLA on TPUs, or of its allocator on GPUs and CPUs. Of a message that
    `compiler_messages` knows, it tells what that says.

    Reports of older TPU compilers write layouts without tiles. The tiles are then those of the target, or without a
    target those of the first of `tpu` and `tpu-v3` for which our size equals the report's.

    >>> text = (
    ...     "1. Size: 6.00G Shape: u32[12582912,1]{1,0:T(8,128)} Unpadded size: 48.00M "
    ...     "Extra memory due to padding: 5.95G (128.0x expansion)"
    ... )
    >>> (allocation,) = report_memory(text).allocations
    >>> allocation.size, allocation.unpadded, allocation.padding, allocation.expansion, allocation.agrees
    ('6.00G', '48.00M', '5.95G', '128.0', True)
    """
    cleaned = clean(text)
    said = read_messages(cleaned, target)
    if said is not None:
        return ReportMemory(said.totals, (), said.amounts, said=said.said)
    read = read_report(cleaned)
    totals, reported = totals_of(read), read.allocations
    arrays = [one.shape for one in reported if one.shape is not None and one.shape.is_array]
    is_tpu = any(one.unpadded for one in reported) or any(map(tpu_layout.has_tpu_tiles, arrays))
    is_tpu = is_tpu or (totals is not None and totals.memory_space in ("hbm", "vmem", "smem", "cmem"))
    found: list[AllocationMemory] = []
    for one in reported:
        spend(64)
        try:
            # A tuple's allocation is its table, or one of its elements: the report does not say which.
            is_array = one.shape is not None and one.shape.is_array
            memory = _explained(one, one.shape, target, is_tpu) if one.shape is not None and is_array else None
            found.append(AllocationMemory(one, memory))
        except XlashapeError as error:
            found.append(AllocationMemory(one, None, error))
    return ReportMemory(totals, tuple(found), tuple(read.amounts), tuple(read.unread), cut=read.cut)


def _explained(reported: ReportedAllocation, shape: Shape, target: Target | None, is_tpu: bool) -> ArrayMemory:
    """Explains an allocation of this shape, with the tiles that `report_memory` describes. `is_tpu`: whether the report
    is one of a TPU."""
    if not is_tpu or (shape.layout is not None and shape.layout.tiles):
        return array_memory(shape, target)
    if target is not None:
        tiled = tpu_layout.default_shape(shape, target, keep_order=True) if target.is_tpu else shape
        return array_memory(tiled, target)
    choices = [tpu_layout.default_shape(shape, each, keep_order=True) for each in ("tpu", _OLD_TPU)]
    for choice in (*choices, shape):
        if agrees(array_bytes(choice), reported.size):
            return array_memory(choice)
    return array_memory(choices[0])


def shapes_memory(text: str, target: Target | None = None) -> ShapesMemory:
    """Explains the first 100 different arrays in a text; arrays of unknown size are left out.

    >>> [array.buffer_bytes for array in shapes_memory("fusion(f32[3,5]{1,0:T(2,2)} %x, s8[3])").arrays]
    [96, 3]
    """
    found: list[ArrayMemory] = []
    for shape in list(dict.fromkeys(read_shapes(clean(text))))[:_MOST_SHAPES]:
        spend(64)
        try:
            found.append(array_memory(shape, target))
        except XlashapeError:
            continue
    return ShapesMemory(tuple(found))
