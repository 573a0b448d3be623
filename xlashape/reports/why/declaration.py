"""The declaration of the report `why`: the columns of buffers, totals, causes and suggestions; and `facts_lines`, which
writes the facts of an answer as lines for people.

The report `size` has the same columns of buffers.
"""

from __future__ import annotations

from collections.abc import Iterable
from textwrap import wrap
from typing import Final

from xlashape.base.tables import Column, ColumnKind
from xlashape.reports import vocabularies
from xlashape.reports.report import FRAMES, NOTES, STRICT, Option, Report, Section
from xlashape.shape.parts.target import TARGET_NAMES

_LINE: Final = 80
"""The characters of a line of text."""
_HEAD: Final = 10
"""The characters before the text of a fact."""

BUFFER_COLUMNS: Final = (
    Column("name", ColumnKind.TEXT, "the instruction that makes the buffer, or what a report says the buffer is of", rank=1, heading="instruction"),
    Column("computation", ColumnKind.TEXT, "the computation that the instruction is in"),
    Column("opcode", ColumnKind.TEXT, "the opcode of the instruction", rank=7),
    Column("index", ColumnKind.TEXT, "which element of the result the buffer is; not set where it is the whole result", rank=6),
    Column("shape", ColumnKind.TEXT, "the shape, with the layout that is counted", rank=2),
    Column("element_bytes", ColumnKind.INTEGER, "the bytes of the elements alone", "bytes", 6, "without padding"),
    Column("bytes", ColumnKind.INTEGER, "the bytes of the buffer, padding included", "bytes", 1),
    Column("padding_bytes", ColumnKind.INTEGER, "the bytes of the buffer that are not elements", "bytes", 3, "padding"),
    Column("factor", ColumnKind.NUMBER, "buffer ÷ elements", rank=5, heading="padding factor"),
    Column("times", ColumnKind.INTEGER, "how many buffers the row stands for; tables for people have one row for equal ones", rank=2, heading="alike"),
    Column("source", ColumnKind.TEXT, "the line of the program that the instruction comes from, as train.py:73", rank=4),
    Column("op_name", ColumnKind.TEXT, "the operation of the program that it comes from, as jit(step)/dense/dot_general"),
    Column("error", ColumnKind.TEXT, "why the size is not known", rank=8),
)  # fmt: skip

ALIKE: Final = ("opcode", "shape", "bytes", "error")
"""Buffers that are equal in these columns share one row in tables for people."""

CAUSE_COLUMNS: Final = (
    Column("name", ColumnKind.TEXT, "the buffer; empty where the answer is about one", rank=2),
    Column("kind", ColumnKind.TEXT, "what makes the buffer larger", rank=3, choices=vocabularies.PADDING_CAUSES),
    Column("text", ColumnKind.TEXT, "the cause in words", rank=1),
    Column("bytes", ColumnKind.INTEGER, "the bytes that it adds after the causes before it", "bytes", 1),
    Column("share", ColumnKind.NUMBER, "the bytes of this cause ÷ all bytes that are not elements", "fraction", 4, "of the overhead"),
    Column("saved_bytes", ColumnKind.INTEGER, "what packing saves; below 0, what its absence costs", "bytes"),
    Column("dimensions", ColumnKind.TEXTS, "the logical dimensions that are padded"),
)  # fmt: skip

SUGGESTION_COLUMNS: Final = (
    Column("name", ColumnKind.TEXT, "the buffer; empty where the answer is about one", rank=3),
    Column("kind", ColumnKind.TEXT, "what is changed", rank=4, choices=vocabularies.SUGGESTED_CHANGES),
    Column("jax", ColumnKind.TEXT, "what to write in JAX for an array x; empty where the compiler alone can do it", rank=1),
    Column("text", ColumnKind.TEXT, "the change in words", rank=5),
    Column("shape", ColumnKind.TEXT, "the array with this change", rank=2),
    Column("bytes", ColumnKind.INTEGER, "the bytes of its buffer", "bytes", 1),
    Column("saved_bytes", ColumnKind.INTEGER, "how many bytes fewer that are", "bytes", 3, "saved"),
    Column("is_lossless", ColumnKind.BOOLEAN, "whether the array keeps all its elements and their values", rank=4, heading="lossless"),
)  # fmt: skip

DONATED_COLUMNS: Final = (
    Column("output_index", ColumnKind.TEXT, "which array of the module's result", rank=1, heading="output"),
    Column("instruction", ColumnKind.TEXT, "what computes it", rank=1),
    Column("parameter", ColumnKind.TEXT, "the parameter whose memory it takes over", rank=1),
    Column(
        "kind", ColumnKind.TEXT, "whether the output always takes over the memory", rank=2, choices=vocabularies.ALIASES
    ),
    Column("bytes", ColumnKind.INTEGER, "the bytes that are not counted for it", "bytes", 1),
)

STATED_COLUMNS: Final = (
    Column("group", ColumnKind.TEXT, "the part of the report that the number is in", rank=1),
    Column("name", ColumnKind.TEXT, "what is measured", rank=1),
    Column("text", ColumnKind.TEXT, "the amount as it is written", rank=1),
    Column("bytes", ColumnKind.INTEGER, "the bytes, as exactly as they are written", "bytes", 2),
    Column("detail", ColumnKind.TEXT, "what stands behind the amount, such as utilization and fragmentation", rank=3),
)

TOTALS: Final = (
    Column("kind", ColumnKind.TEXT, "what was asked about", choices=vocabularies.SUBJECTS),
    Column("about", ColumnKind.TEXT, "the shape, or the name of the instruction or module"),
    Column("target", ColumnKind.TEXT, "the device whose sizes are counted; not set where those of the layouts are", choices=TARGET_NAMES),
    Column("peak_bytes", ColumnKind.INTEGER, "of a module: the most bytes that live at once; not set where that is not known", "bytes"),
    Column("peak_is_estimate", ColumnKind.BOOLEAN, "whether the peak was estimated, since the module has no buffer assignment"),
    Column("count", ColumnKind.INTEGER, "the number of buffers"),
    Column("element_bytes", ColumnKind.INTEGER, "the sum of the bytes of the elements, over all buffers of known size", "bytes"),
    Column("bytes", ColumnKind.INTEGER, "the sum of the bytes of all buffers of known size", "bytes"),
    Column("padding_bytes", ColumnKind.INTEGER, "the sum of the bytes that are not elements", "bytes"),
    Column("factor", ColumnKind.NUMBER, "buffers ÷ elements; 1 where there are none"),
    Column("note", ColumnKind.TEXT, "of an instruction: why its result has no memory of its own"),
    Column("left_out", ColumnKind.TEXTS, "of a module: what the sums leave out"),
    Column("agrees", ColumnKind.BOOLEAN, "of a report: whether every number that can be compared equals ours, within its rounding"),
    Column("must_go_bytes", ColumnKind.INTEGER, "of a report: how many bytes too many are used", "bytes"),
    Column("unread", ColumnKind.TEXTS, "of a report: the lines that were not understood"),
    NOTES,
)  # fmt: skip

TARGET: Final = Option(
    "target",
    ColumnKind.TEXT,
    "count as on this device; TPUs give layouts without tiles their own order and tiles",
    None,
    TARGET_NAMES,
)

REPORT: Final = Report(
    name="why",
    summary="Why buffers are as large as they are, and what would make them smaller.",
    columns=BUFFER_COLUMNS,
    totals=TOTALS,
    sections=(
        Section("causes", CAUSE_COLUMNS, "what makes buffers larger than their elements; of a program, those of the first buffers with padding"),
        Section("suggestions", SUGGESTION_COLUMNS, "what would make these buffers smaller: first what keeps all values and can be written in JAX"),
        Section("donated", DONATED_COLUMNS, "the outputs of a module that are computed into the memory of parameters"),
        Section("stated", STATED_COLUMNS, "the amounts that a report about memory states, without its allocations"),
    ),
    options=(
        TARGET,
        Option("instruction", ColumnKind.TEXT, "of a module, the instruction whose result is explained", "", positional=True),
        FRAMES,
        STRICT,
    ),
    compute="xlashape.reports.why:why",
    inputs=("module", "shape", "text"),
    rows="buffers",
    shown=10,
    alike=ALIKE,
    takes="X is a shape such as 's32[1024,8,4]{2,1,0:T(8,128)}'; a file with an HLO module; the name of a module "
        "that --server keeps; or text with "
    "shapes in it, such as the report of a compiler that has run out of memory, in a file or as it is. `-` "
        "reads standard input.",
)  # fmt: skip


def facts_lines(facts: Iterable[tuple[str, str]], indent: int = 2) -> list[str]:
    """Lines for people, of at most 80 characters where words allow that. A fact is a heading (empty if the fact before
    has the same heading) and a text.

    Lines are not broken at no-break spaces, which become spaces.

    >>> facts_lines(
    ...     [("elements", "96 bytes"), ("why", "a tile pads dimension 0 from 3 to 4, and another one pads dimension 1")]
    ... )
    ['  elements  96 bytes', '  why       a tile pads dimension 0 from 3 to 4, and another one pads dimension', '            1']
    """
    lines: list[str] = []
    for head, text in facts:
        pieces = wrap(text, _LINE - indent - _HEAD, break_long_words=False, break_on_hyphens=False) or [""]
        for number, piece in enumerate(pieces):
            lines.append(f"{'':{indent}}{'' if number else head:<9} {piece}".rstrip().replace("\xa0", " "))
    return lines
