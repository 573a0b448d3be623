"""The declaration of the report `memory`: its columns, totals and further tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from xlashape.base.tables import Column, ColumnKind
from xlashape.reports import vocabularies
from xlashape.reports.report import FRAMES, NOTES, STRICT, Option, Report, Section, by_section
from xlashape.reports.selection import bytes_of
from xlashape.reports.text import short_bytes
from xlashape.shape.parts.target import TARGET_NAMES

KEYS: Final = ("source", "op_name", "opcode", "computation", "shape", "kind", "space", "layer", "each_layer")
"""The keys by which `by` can group."""

_SIZES: Final = (
    Column("argument_bytes", ColumnKind.INTEGER, "allocations of parameters", "bytes", 3, "parameters"),
    Column("output_bytes", ColumnKind.INTEGER, "allocations that may hold a part of the result, parameters among them", "bytes", 3, "outputs"),
    Column("alias_bytes", ColumnKind.INTEGER, "allocations of parameters that hold a part of the result", "bytes", 4, "donated"),
    Column("temp_bytes", ColumnKind.INTEGER, "allocations that hold no parameter, no part of the result and no constant, and are not thread-local", "bytes", 2, "temporaries"),
    Column("constant_bytes", ColumnKind.INTEGER, "allocations of constants", "bytes", 4, "constants"),
)  # fmt: skip

BUFFERS: Final = (
    Column("name", ColumnKind.TEXT, "the instruction that makes the value", rank=1, heading="instruction"),
    Column("shape_index", ColumnKind.TEXT, "where the value is in the instruction's result, such as {1}", rank=6, heading="index"),
    Column("opcode", ColumnKind.TEXT, "the opcode of the instruction", rank=5),
    Column("shape", ColumnKind.TEXT, "the shape of the value, with its layout", rank=2),
    Column("bytes", ColumnKind.INTEGER, "the bytes that the value takes", "bytes", rank=1),
    Column("padding_bytes", ColumnKind.INTEGER, "the bytes among them that hold no element", "bytes", rank=4, heading="padding"),
    Column("kind", ColumnKind.TEXT, "what its memory is for", rank=3, choices=vocabularies.BUFFER_KINDS),
    Column("space", ColumnKind.INTEGER, "the memory space, XLA's color: 0 is the device's main memory"),
    Column("allocation", ColumnKind.INTEGER, "the allocation that the value is in"),
    Column("offset", ColumnKind.INTEGER, "where the value begins in its allocation", "bytes"),
    Column("begin", ColumnKind.INTEGER, "the first step of the timeline in which it takes memory"),
    Column("end", ColumnKind.INTEGER, "the last step of the timeline in which it takes memory"),
    Column("computation", ColumnKind.TEXT, "the computation of the instruction"),
    Column("op_name", ColumnKind.TEXT, "the operation of the user's program that the instruction comes from", rank=7),
    Column("source", ColumnKind.TEXT, "the line of the user's program that the instruction comes from", rank=2),
)  # fmt: skip

TIMELINE: Final = (
    Column("step", ColumnKind.INTEGER, "the number of the step; 0 is before the first instruction", rank=1),
    Column("name", ColumnKind.TEXT, "the instruction that runs", rank=1, heading="instruction"),
    Column("computation", ColumnKind.TEXT, "the computation of the instruction"),
    Column("bytes", ColumnKind.INTEGER, "all bytes that live then", "bytes", rank=1),
    Column("parameter_bytes", ColumnKind.INTEGER, "the bytes of parameters that live then", "bytes", rank=3, heading="parameters"),
    Column("temporary_bytes", ColumnKind.INTEGER, "the bytes of temporaries that live then", "bytes", rank=2, heading="temporaries"),
    Column("output_bytes", ColumnKind.INTEGER, "the bytes of outputs that live then", "bytes", rank=3, heading="outputs"),
    Column("constant_bytes", ColumnKind.INTEGER, "the bytes of constants that live then", "bytes", rank=4, heading="constants"),
    Column("spaces", ColumnKind.COUNTS, "memory space, but for 0 → the bytes in it"),
    Column("is_peak", ColumnKind.BOOLEAN, "whether it is the first step with the most bytes", rank=5, heading="peak"),
)  # fmt: skip

SPACE: Final = (
    Column("space", ColumnKind.INTEGER, "the memory space, XLA's color", rank=1),
    Column("name", ColumnKind.TEXT, "what the space is, where all compilers agree", rank=2),
    Column("peak_bytes", ColumnKind.INTEGER, "the most bytes that live in it at once", "bytes", rank=1, heading="peak"),
    *_SIZES,
    Column("total_allocation_bytes", ColumnKind.INTEGER, "the bytes of all allocations", "bytes", 4, "allocations"),
)  # fmt: skip

_GROUPS: Final = (
    Column("bytes", ColumnKind.INTEGER, "the bytes that buffers with the key take at the peak", "bytes", rank=1),
    Column("share", ColumnKind.NUMBER, "the bytes that buffers with the key take ÷ all bytes at the peak", "fraction", rank=2, heading="of the peak"),
    Column("padding_bytes", ColumnKind.INTEGER, "the bytes among them that hold no element", "bytes", rank=3, heading="padding"),
    Column("buffers", ColumnKind.INTEGER, "how many buffers with the key live at the peak", rank=3),
)  # fmt: skip

SUGGESTION: Final = (
    Column("change", ColumnKind.TEXT, "the kind of change", rank=1, choices=vocabularies.PEAK_CHANGES),
    Column("new_peak_bytes", ColumnKind.INTEGER, "the peak with the change", "bytes", rank=1, heading="new peak"),
    Column("saved_bytes", ColumnKind.INTEGER, "how much lower the peak is", "bytes", rank=2, heading="saved"),
    Column("lower_bytes", ColumnKind.INTEGER, "what the new peak is at least", "bytes"),
    Column("upper_bytes", ColumnKind.INTEGER, "what the new peak is at most, where that is known", "bytes"),
    Column("together_bytes", ColumnKind.INTEGER, "of a change in the list that brings the peak within the limit: the peak with it and those before it; it is at most that unless the verdict of the last one says by the estimate", "bytes", rank=3, heading="together"),
    Column("is_exact", ColumnKind.BOOLEAN, "whether the new peak is exact"),
    Column("fits", ColumnKind.BOOLEAN, "whether the new peak is within the limit for certain"),
    Column("verdict", ColumnKind.TEXT, "in words whether the change brings the peak within the limit, and how sure that is", rank=1),
    Column("flops", ColumnKind.INTEGER, "floating-point operations that the change adds", "flops", rank=6),
    Column("name", ColumnKind.TEXT, "the instruction that the change is about"),
    Column("text", ColumnKind.TEXT, "what to write in the program, in words", rank=1),
)  # fmt: skip

TOTALS: Final = (
    Column("peak_bytes", ColumnKind.INTEGER, "the most bytes that live at once", "bytes", 1, "peak"),
    *_SIZES,
    Column("is_estimate", ColumnKind.BOOLEAN, "whether the peak is estimated, because the program came without XLA's assignment of buffers", heading="estimate"),
    Column("target", ColumnKind.TEXT, "the device whose sizes are counted; not set where those of the layouts, or of the compiler, are", choices=TARGET_NAMES),
    Column("lower_bytes", ColumnKind.INTEGER, "what the peak is at least", "bytes", heading="peak at least"),
    Column("upper_bytes", ColumnKind.INTEGER, "what the peak is at most, where that is known", "bytes", heading="peak at most"),
    Column("peak_instruction", ColumnKind.TEXT, "the instruction that runs at the peak"),
    Column("peak_step", ColumnKind.INTEGER, "the step of the timeline with the peak"),
    Column("unpadded_peak_bytes", ColumnKind.INTEGER, "the peak if values took the bytes of their elements alone", "bytes", heading="peak without padding"),
    Column("total_allocation_bytes", ColumnKind.INTEGER, "all allocations of memory space 0", "bytes", heading="allocations, space 0"),
    Column("indefinite_bytes", ColumnKind.INTEGER, "allocations of memory space 0 that live throughout or in each call", "bytes", heading="held throughout"),
    Column("fragmentation_bytes", ColumnKind.INTEGER, "what temporary allocations have more than ever lives in them at once", "bytes"),
    Column("fragmentation", ColumnKind.NUMBER, "the fragmentation ÷ the temporaries, both in bytes", "fraction", heading="fragmented part"),
    Column("host_argument_bytes", ColumnKind.INTEGER, "allocations of parameters in the host's memory", "bytes"),
    Column("host_output_bytes", ColumnKind.INTEGER, "allocations in the host's memory that may hold a part of the result", "bytes"),
    Column("host_alias_bytes", ColumnKind.INTEGER, "allocations of parameters in the host's memory that hold a part of the result", "bytes"),
    Column("host_temp_bytes", ColumnKind.INTEGER, "allocations in the host's memory that are temporary", "bytes"),
    Column("missing_bytes", ColumnKind.INTEGER, "how many bytes the compiler's own peak lacks, where it said one", "bytes", heading="not in XLA's peak"),
    NOTES,
)  # fmt: skip

_CHANGES: Final = {
    "donate": "donation of what the caller no longer needs",
    "carry": "a stacked array in the carry of its scan",
    "copy": "a copy removed",
    "padding": "another layout",
    "recompute": "values computed again instead of kept",
    "precision": "bf16 instead of f32",
    "smaller": "a smaller dimension of the data",
}


def limit_of(limit: int | str, peak: int) -> int:
    """A limit in bytes, also as text: `16GiB`, digits alone, or a percentage of the present peak. InvalidArgumentError
    for other text."""
    if isinstance(limit, str):
        return int(limit) if limit.isdecimal() else bytes_of(limit, "fit", peak)
    return limit


def _fit_headline(answer: Any, rows: Sequence[Any], limit: Any) -> str:
    """A text: whether the peak is within the limit, for certain or by the estimate, and what brings it there."""
    part = f" ({limit} of the peak)" if isinstance(limit, str) and limit.endswith("%") else ""
    main = getattr(answer, "of_main_memory", answer)  # what a server answered is of it already
    where = "" if main is answer else " in main memory (space 0)"
    answer, peak, upper = main, main.peak_bytes, main.upper_bytes
    limit = limit_of(limit, peak)
    least, most = f"{short_bytes(limit)}{part}", f"{short_bytes(peak)}{where}"
    if peak <= limit:
        if upper is not None and upper <= limit:
            return f"It fits: the peak of {most} is within the limit of {least}."
        bound = "no upper bound is known" if upper is None else f"the peak may be up to {short_bytes(upper)}"
        return f"By the estimate it fits: the peak of {most} is within the limit of {least}, but {bound}."
    verdict, bound = "It does not fit", ""
    if answer.lower_bytes <= limit:
        verdict, bound = (
            "By the estimate it does not fit",
            f"; the peak may be as low as {short_bytes(answer.lower_bytes)}",
        )
    text = f"{verdict}: the peak of {most} is {short_bytes(peak - limit)} more than the limit of {least}{bound}."
    lasting = answer.argument_bytes + answer.output_bytes - answer.alias_bytes
    if lasting > limit:
        text += f" Arguments and outputs alone take {short_bytes(lasting)}."
    listed = [each for each in rows if each.together_bytes is not None]
    enough = next((each for each in rows if each.new_peak_bytes <= limit and each.together_bytes is None), None)
    if enough is not None and (not listed or enough.change != listed[-1].change == "smaller"):
        # What XLA keeps when it computes again is bounded by experience.
        sure = "for certain" if enough.fits and enough.change != "recompute" else "by the estimate"
        then = short_bytes(enough.new_peak_bytes)
        if not enough.fits:
            most = enough.upper_bytes
            then = f"about {then}, and {'no upper bound is known' if most is None else f'at most {short_bytes(most)}'}"
        text += f" With {_CHANGES[enough.change]} it fits {sure}: the peak is then {then}."
    if listed:
        changes = " and ".join(dict.fromkeys([_CHANGES[each.change] for each in listed]))
        most = short_bytes(listed[-1].together_bytes)
        how = "by the estimate" if "by the estimate" in listed[-1].verdict else "for certain"
        about = "at most" if how == "for certain" else "about"
        return f"{text} It fits {how} with {changes}: the peak is then {about} {most}."
    if enough is not None:
        return text
    return f"{text} {'None of these changes is enough alone.' if rows else 'No change is known that lowers it.'}"


REPORT: Final = Report(
    name="memory",
    summary="The peak of a program's memory, what lives then, and from which line of the program it comes.",
    columns=BUFFERS,
    totals=TOTALS,
    sections=(
        Section("timeline", TIMELINE, "the bytes that live along the program"),
        Section("spaces", SPACE, "each memory space by itself"),
        by_section("buffers", _GROUPS, KEYS),
        Section(
            "at",
            BUFFERS,
            "what lives while an instruction runs",
            Option("at", ColumnKind.TEXT, "the name of the instruction"),
        ),
        Section(
            "fit",
            SUGGESTION,
            "changes that would make the peak smaller",
            Option(
                "fit",
                ColumnKind.INTEGER,
                "a limit for the peak of main memory, or of the space that `space` names: whether the program fits, and changes "
                "that make the peak smaller",
                unit="bytes",
                percent_of="peak_bytes",
            ),
            _fit_headline,
            of="of_main_memory",
        ),
    ),
    options=(
        Option(
            "space",
            ColumnKind.INTEGER,
            "a memory space by XLA's number, whose memory alone counts; without it all count together, as in XLA",
        ),
        Option(
            "target",
            ColumnKind.TEXT,
            "of a program without an assignment of buffers: count as on this device; TPUs give layouts without tiles "
            "their own order and tiles",
            None,
            TARGET_NAMES,
        ),
        FRAMES,
        STRICT,
    ),
    compute="xlashape.reports.memory:memory",
    rows="peak_buffers",
    has_picture=True,
    shown=15,
    takes=(
        "X is a dump of XLA: a module (.hlo.pb with its buffer assignment, or without), *-buffer-assignment.txt, "
        "*-memory-usage-report.txt or .pb, "
        "*-buffer-assignment-values.txt, *-live-range.txt; or a profile. `-` reads standard input."
    ),
)
