"""Reads XLA's out-of-memory reports as people paste them: with colours, quotation marks, log prefixes, and lines broken
anywhere.

    report      any text with allocations in it
    allocation  [NUMBER "."] "Size:" SIZE field*                          TPU: "1. Size: 32.00G"
                "Buffer" NUMBER ":" "Size:" SIZE field*                   GPU, CPU: "Buffer 1:  Size: 2.63GiB"
    field       "Operator:" TEXT | "XLA label:" TEXT | "Allocation type:" TEXT
                "Shape:" SHAPE
                "Unpadded size:" SIZE
                "Extra memory due to padding:" SIZE "(" FACTOR "x expansion)"
    SIZE        a number, then nothing, B, K, M, G or T, and perhaps iB: powers of 1,024

    amounts     of headings ("Total hbm usage >= 10.94G:", "Program hbm requirement 4.34G:", "HBM capacity 8.00G:",
                "BufferAssignment stats:", …) and of the lines below them: NAME [":"] SIZE DETAIL
    sentences   of rematerialization, of allocators, about reservations and outputs; CompiledMemoryStats(NAME=BYTES, …)
    chunks      lines of an allocator's dump: "2 Chunks of size 1024 totalling 2.0KiB", "Free at 7f2c of size 512 next 3"

White space within the words of a field, within sizes and within shapes is ignored, since lines are broken there. Lines
that are none of these are listed (`ReportText.unread`), and are no error. Of text that is no report, `read_shapes`
finds the shapes.
"""

from __future__ import annotations

import re
from fractions import Fraction
from math import ceil
from typing import Final, NamedTuple

from xlashape.base.pasted import clean
from xlashape.errors import XlashapeError
from xlashape.hlo.module_proto.stack_frames import Frame
from xlashape.limits import spend
from xlashape.shape import PrimitiveType, Shape

_UNITS: Final = {"": 0, "B": 0, "K": 10, "M": 20, "G": 30, "T": 40, "P": 50}
SIZE_PATTERN: Final = r"\d{1,15}(?:\.\d{1,15})?(?:[KMGTP]iB|[KMGTP]B?|B)?"
"""An amount of bytes, such as 21.50M, as part of a pattern."""
_SIZE: Final = re.compile(r"(-?\d+(?:\.\d+)?)(KiB|MiB|GiB|TiB|PiB|[KMGTP]B?|B|bytes?)?")


def _key(text: str) -> str:
    """A pattern that matches these words and a colon, with white space anywhere between the letters."""
    return r"\s*".join([re.escape(letter) for letter in text.replace(" ", "")]) + r"\s*:"


_FIELDS: Final = {
    "size": "Size",
    "operator": "Operator",
    "shape": "Shape",
    "subshape": "Entry Parameter Subshape",
    "unpadded": "Unpadded size",
    "padding": "Extra memory due to padding",
    "label": "XLA label",
    "label2": "XLA Label",
    "kind": "Allocation type",
}
# Longer words first: "Shape" also ends "Entry Parameter Subshape".
_FIELD: Final = re.compile(
    r"(?<![A-Za-z\"=_])(?:"
    + "|".join(
        [f"(?P<{name}>{_key(words)})" for name, words in sorted(_FIELDS.items(), key=lambda item: -len(item[1]))]
    )
    + ")"
)
_CHUNK: Final = re.compile(r"[^|\n]{0,40}\|")
"""What follows the size of a chunk in an allocator's dump, which is no allocation of a program."""
_CUT_SIZE: Final = re.compile(r"[\d.\s]{0,60}\Z")
"""The rest of a text that was cut off within a size: a whole size has a unit behind its digits."""
_NUMBER_BEFORE: Final = re.compile(r"(?:(\d{1,6})\\?[.)]|Buffer\s*(\d{1,6})\s*:)[\s*]*$")
_END: Final = re.compile(r"={4,}|(?:^|\s)(?:\d{1,6}\\?[.)]|Buffer\s*\d{1,6}\s*:)\s*$")
_EXPANSION: Final = re.compile(r"\((\d+(?:\.\d+)?)xexpansion\)?")
_SHAPE_START: Final = re.compile(
    r"(?<![\w.])("
    + "|".join(sorted([t.text for t in PrimitiveType if t.is_array_type], key=len, reverse=True))
    + r")\["
)
_DIMENSIONS: Final = re.compile(r"[\s\d,<=?]*\]")

_MOST_SHAPE_CHARACTERS: Final = 100_000
# Layouts have no nested braces. So text after an unclosed brace is scanned once, and not once for each shape.
_LAYOUT: Final = re.compile(r"\{[^{}]{0,100000}\}")


_OP_NAME: Final = re.compile(r'op_name="((?:[^"\\]|\\.)*)')
_SOURCE_FILE: Final = re.compile(r'source_file="([^"]+)"(?: source_line=(\d{1,9}))?')


class ReportedAllocation(NamedTuple):
    """An allocation as a report states it. Sizes are texts such as `32.00G`; a text that the report does not state is
    empty.
    """

    number: int | None
    """The number in the list of the report; None where it states none."""
    size: str
    shape: Shape | None
    unpadded: str
    """The size of the elements alone."""
    padding: str
    expansion: str
    """The factor by which padding expands the buffer, such as `32.0`."""
    operator: str
    label: str
    """The instruction, or its opcode."""
    kind: str
    """The type of the allocation, such as `HLO temp`."""

    @property
    def op_name(self) -> str:
        """The operation of the user's program that the operator names; empty where it names none."""
        match = _OP_NAME.search(self.operator)
        return match[1] if match else ""

    @property
    def source(self) -> str:
        """The line of the user's program that the operator names, as `train.py:73`; empty where it names none."""
        match = _SOURCE_FILE.search(self.operator)
        return Frame(match[1], "", int(match[2] or 0)).source if match else ""


class ReportedAmount(NamedTuple):
    """An amount that a report states beside its allocations."""

    group: str
    """The part of the report, such as `Program hbm requirement`."""
    name: str
    """What is measured, such as `HLO temp`."""
    text: str
    """The amount as it is written."""
    bytes: int | None
    """The bytes, as exactly as the text states them; None for `unknown`."""
    detail: str = ""
    """The text after the amount, such as utilization and fragmentation."""


class ReportedTotals(NamedTuple):
    """The numbers that a report states about the memory as a whole, such as `15.48G`. A number that the report does not
    state is empty."""

    memory_space: str
    used: str
    capacity: str
    exceeded: str


class ReportText(NamedTuple):
    """The facts about memory in a text."""

    allocations: list[ReportedAllocation]
    amounts: list[ReportedAmount]
    totals: ReportedTotals | None
    unread: list[str]
    """The lines of which nothing was read, except empty lines and rulers."""
    cut: str = ""
    """The label and the type of an allocation whose beginning, with its size, is not in the text; else empty."""


def is_report(text: str) -> bool:
    """Whether the text has allocations of a report, which are a size with a shape or another field, or the amounts that
    go with them.

    >>> (
    ...     is_report("1. Size: 2.00G Shape: f32[32,4096,4096]{1,2,0}"),
    ...     is_report("HBM capacity 8.00G:"),
    ...     is_report("f32[2]"),
    ... )
    (True, True, False)
    """
    cleaned = clean(text)
    names = {match.lastgroup for match in _fields(cleaned)}
    if "size" in names and names & {"shape", "unpadded", "kind", "label", "label2", "operator"}:
        return True
    return bool(_SAYS_AMOUNTS.search(cleaned) and _read_amounts(cleaned, most=1)[0])


def _fields(cleaned: str) -> list[re.Match[str]]:
    """The beginnings of fields in a cleaned text, in its order."""
    found: list[re.Match[str]] = []
    for match in _FIELD.finditer(cleaned):
        spend()
        if match.lastgroup != "size" or _CHUNK.match(cleaned, match.end()) is None:
            found.append(match)
    return found


def parse_size(text: str) -> int | None:
    """The bytes of a size, rounded: `2.63GiB`, `32.00G`, `4.0K`, `0B`. None for other text.

    >>> parse_size("4.0K"), parse_size("1.50G"), parse_size("many")
    (4096, 1610612736, None)
    """
    amount = _amount(text)
    return None if amount is None else round(amount[0])


def most_size(text: str) -> int:
    """The most bytes that a rounded size may stand for: one step of its last digit more. 0 for other text.

    >>> most_size("40.12M"), most_size("512B")
    (42079355, 512)
    """
    amount, step = _amount(text) or (Fraction(0), Fraction(1))
    return ceil(amount + step if step > 1 else amount)


def agrees(size: int, text: str) -> bool:
    """Whether a number of bytes equals the size that a report writes, within the rounding of its last digit.

    >>> agrees(384 << 10, "384.0KiB"), agrees((384 << 10) + 60, "384.00KiB"), agrees(393_000, "384.0KiB")
    (True, False, False)
    """
    amount = _amount(text)
    return amount is not None and abs(size - amount[0]) <= amount[1] / 2


def _amount(text: str) -> tuple[Fraction, Fraction] | None:
    """The bytes of a size, and the bytes of one step of its last digit; None for other text."""
    match = _SIZE.fullmatch("".join(text.split()).replace(",", ""))
    if match is None or len(match[1]) >= 30:
        return None
    unit = (match[2] or "").upper()
    exponent = 0 if unit.startswith("BYTE") else _UNITS[unit[:1]]
    whole, _, fraction = match[1].partition(".")
    step = Fraction(1 << exponent, 10 ** len(fraction))
    return int(whole + fraction) * step, step


def read_report(cleaned: str) -> ReportText:
    r"""Everything that a cleaned text says about memory.

    >>> read = read_report(
    ...     "Program hbm requirement 4.34G:\n  HLO temp  3.93G (97.4% utilization)\n1. Size: 2.0K Shape: f32[512]"
    ... )
    >>> [(each.name, each.bytes, each.detail) for each in read.amounts], read.allocations[0].size, read.unread
    ([('total', 4660039516, ''), ('HLO temp', 4219805368, '97.4% utilization')], '2.0K', [])
    """
    allocations, spans, cut = _read_allocations(cleaned)
    amounts, more = _read_amounts(cleaned)
    unread = _unread_lines(cleaned, sorted([*spans, *more]))
    return ReportText(allocations, amounts, read_totals(cleaned), unread, cut)


def _read_allocations(cleaned: str) -> tuple[list[ReportedAllocation], list[tuple[int, int]], str]:
    """The allocations, where in the text their fields are, and the label of one whose beginning was cut off."""
    matches = _fields(cleaned)
    found: list[ReportedAllocation] = []
    spans: list[tuple[int, int]] = []
    fields: dict[str, str] = {}
    number: int | None = None
    cut = ""

    def finish() -> None:
        nonlocal cut
        if not found and "size" not in fields and "kind" in fields:
            cut = " ".join(f"{fields.get('label', '')} ({fields['kind'].strip()})".split())
        if _size_text(fields.get("size", "")):
            found.append(_allocation(number, fields))

    for at, match in enumerate(matches):
        spend(4)
        is_last = at + 1 == len(matches)
        end = len(cleaned) if is_last else matches[at + 1].start()
        value = cleaned[match.end() : end]
        stop = _END.search(value)
        value = value[: stop.start()] if stop else value
        if is_last and not stop:  # what follows a report is separated from it by an empty line
            value = value.lstrip().partition("\n\n")[0]
        name = {"label2": "label", "subshape": "shape"}.get(match.lastgroup or "", match.lastgroup or "")
        start = match.start()
        if name == "size":
            finish()
            fields = {}
            if is_last and found and _CUT_SIZE.fullmatch(cleaned, match.end()):
                spans.append((start, end))
                break
            before = _NUMBER_BEFORE.search(cleaned[max(0, start - 40) : start])
            number = int(before[1] or before[2]) if before else None
            start = max(0, start - 40) + before.start() if before else start
        # The first of each field is used, since text after the report may repeat a word.
        fields.setdefault(name, value)
        if "size" in fields or name in ("label", "kind"):  # of an allocation whose beginning was cut off
            spans.append((start, match.end() + len(value) + (stop is not None)))
    finish()
    return found, spans, cut


def _allocation(number: int | None, fields: dict[str, str]) -> ReportedAllocation:
    padding = "".join(fields.get("padding", "").split())
    expansion = _EXPANSION.search(padding)
    return ReportedAllocation(
        number,
        _size_text(fields["size"]),
        _shape_of(fields.get("shape", "")),
        _size_text(fields.get("unpadded", "")),
        _size_text(padding),
        expansion[1] if expansion else "",
        " ".join(fields.get("operator", "").split()),
        " ".join(fields.get("label", "").split()),
        " ".join(fields.get("kind", "").split("\n\n")[0].split()),
    )


def _shape_of(value: str) -> Shape | None:
    """The shape at the beginning of a field: an array, or a tuple. None for other text, and for an invalid shape."""
    if not value.lstrip().startswith("("):
        return next(iter(read_shapes(value, 1)), None)
    compact = "".join(value[:_MOST_SHAPE_CHARACTERS].split())
    depth = 0
    for at, character in enumerate(compact):
        depth += (character == "(") - (character == ")")
        if not depth:
            try:
                return Shape.parse(compact[: at + 1])
            except XlashapeError:
                return None
    return None


def _size_text(value: str) -> str:
    """The size at the beginning of a text, without white space; empty for other text."""
    match = _SIZE.match("".join(value[:80].split()))
    return match[0] if match else ""


def read_shapes(text: str, limit: int | None = None) -> list[Shape]:
    """The shapes of arrays in a text, in its order, without invalid ones. White space within a shape is ignored.

    >>> read_shapes("%fusion.1 = f32[8,<=4]{1,0: T(8, 128)} fusion(bf16[2,2] %x, q[3])")
    [Shape('f32[8,<=4]{1,0:T(8,128)}'), Shape('bf16[2,2]{1,0}')]
    """
    found: list[Shape] = []
    at = 0
    while limit is None or len(found) < limit:
        start = _SHAPE_START.search(text, at)
        if start is None:
            break
        spend(4)
        dimensions = _DIMENSIONS.match(text, start.end())
        if dimensions is None:
            at = start.end()
            continue
        at = dimensions.end()
        parts = [start[0] + "".join(dimensions[0].split())]
        brace = at + len(text[at : at + 200]) - len(text[at : at + 200].lstrip())
        layout = _LAYOUT.match(text, brace)
        if layout is not None:
            parts.insert(0, parts[0] + "".join(layout[0].split()))
        for number, part in enumerate(parts):
            try:
                found.append(Shape.parse(part))
            except XlashapeError:
                continue
            if number + 1 < len(parts) or len(parts) == 1:
                at = max(at, brace) if len(parts) > 1 else at
            break
    return found


# A line that is empty, or a ruler.
_RULE: Final = re.compile(r"[\s=\-_*#.;:`'\"]*")
_AMOUNT: Final = r"-?\d[\d,]{0,40}(?:\.\d{1,20})?\s?(?:[KMGTP]iB|[KMGTP]B?|B|bytes?)?(?![\w%])"
_EXACT: Final = re.compile(r"\(\s*(-?[\d,]+) bytes\s*\)")
_MOST_DETAIL: Final = 1_000
_BRACKETED: Final = re.compile(r"\((.*)\)\s*\[?([^\[\]]*)\]?")
_SAYS_AMOUNTS: Final = re.compile(
    r"usage >=|requirement|capacity|allocator status|BufferAssignment|CompiledMemoryStats|rematerialization|trying to allocate"
    r"|Attempting\s+to|[Ff]ailed\s+to\s+alloc|[Cc]ould\s+not\s+allocate|ERROR_OUT_OF_MEMORY|E(?:RROR_|rror)OutOfMemory"
)
_BEGINS_AMOUNTS: Final = re.compile(_SAYS_AMOUNTS.pattern + r"|^Largest program|^Peak buffers|^Persistent allocations")
_HEADINGS: Final = tuple(
    re.compile(pattern)
    for pattern in (
        rf"(?P<group>Total \w+ usage) (?P<text>(?:>= )?{_AMOUNT}):?",
        rf"(?P<group>Program \w+ requirement) (?P<text>{_AMOUNT}):?",
        rf"(?P<group>\b\w{{1,40}} capacity) (?P<text>{_AMOUNT}):?",
        r"(?P<group>Heap allocator status):",
        r"(?P<group>Persistent allocations) include some or all of:",
        r"(?P<group>BufferAssignment stats):",
        r"(?P<group>)(?:Largest program allocations in \w+|Peak buffers|BufferAssignment OOM Debugging)[:.]?",
    )
)
_ENTRY: Final = re.compile(
    rf"(?P<name>[A-Za-z][\w/\-]*(?: [\w/\-]+){{0,8}}(?: ?\([^()]*\))?):?\s{{1,200}}(?P<text>unknown size|unknown|{_AMOUNT})(?P<detail>.*)"
)
_BEGINS_HEADING: Final = re.compile(r"(?:Total|Program|\w+ capacity|Heap|Persistent|BufferAssignment|Largest|Peak) ?")
_BEGINS_SENTENCE: Final = re.compile(
    r"Output size|Attempting to|Can't reduce|Allocator \(|(?:Ran o|O)ut of memory|[Ff]ailed to"
)
_EMPTY_ENTRIES: Final = ("overlays",)
# The group of a sentence's amounts, and its pattern. The names of the pattern's groups are the names of the amounts.
_SENTENCES: Final = tuple(
    (group, re.compile(pattern.replace(" ", r"\s+").replace("SIZE", _AMOUNT)))
    for group, pattern in (
        ("output", r"Output size (?P<size>SIZE|unknown)(?:; shares (?P<shared_with_arguments>SIZE) with arguments)?\."),
        ("reservation", r"Attempting to reserve (?P<requested>SIZE) at the \w+ of memory\. That was not possible\. There are (?P<free>SIZE) free, (?P<reserved>SIZE) reserved, and (?P<reservable>SIZE) reservable\.?"),
        ("reservation", r"attempting reservation for program memory"),
        ("rematerialization", r"Can't reduce memory use below (?P<limit>SIZE)(?P<limit_exact> \([\d,]+ bytes\))? by rematerialization; only reduced to (?P<reduced_to>SIZE)(?P<reduced_to_exact> \([\d,]+ bytes\))?(?:, down from (?P<originally>SIZE)(?P<originally_exact> \([\d,]+ bytes\))? originally)?"),
        ("allocator", r"Allocator \((?P<allocator>[^()]*)\) ran out of memory trying to allocate (?:(?P<wanted>SIZE)[^.]{0,80}\. The caller indicates that this is not a failure[^.]{0,200}\.?|(?P<requested>SIZE)(?: \(rounded to (?P<rounded>\d+)\))?\s*(?:requested by op)?(?:[^\S\n]+[\w/.\-]+)?)"),
        ("allocator", r"Attempting to allocate (?P<requested>SIZE)\. That was not possible\. There (?:are|is) (?P<free>SIZE) free\.?(?:; \((?P<on>\w+)\))?"),
        ("allocator", r"[Ff]ailed to alloc(?:ate)? (?:request for )?(?P<requested>SIZE)(?P<requested_exact> \([\d,]+\s?(?:B|bytes)\))?(?: on (?P<on>device ordinal \d+)| (?:on|of)(?: pinned)? (?P<memory>host)(?: memory)?| for (?P<purpose>new constant))?"),
        ("allocator", r"[Cc]ould not allocate (?:\w+ )?(?P<memory>host) memory of size:? (?P<requested>SIZE)"),
        ("allocator", r"(?P<error>CUDA_ERROR_OUT_OF_MEMORY|HIP_ERROR_OutOfMemory|hipErrorOutOfMemory)(?:: out of memory)?"),
        ("allocator", r"(?:Stats: )?Limit: (?P<limit>SIZE) InUse: (?P<in_use>SIZE)(?: MaxInUse: (?P<most_in_use>SIZE))?(?: NumAllocs: \d+)?(?: MaxAllocSize: (?P<largest_allocation>SIZE))?(?: Reserved: SIZE)?(?: PeakReserved: SIZE)?(?: LargestFreeBlock: (?P<largest_free_block>SIZE))?"),
        ("", r"BFCAllocator dump for \S+|Sum Total of in-use chunks: SIZE|Total bytes in pool: [^\n]*|Next region of size \d+"),
        ("", r"Bin (?:\(\d+\):\s|for SIZE was SIZE)[^\n]*|Size: SIZE \| Requested Size: [^\n]*|Summary of in-use Chunks by size:"),
        ("allocator", r"Out of memory (?:while trying to allocate|allocating) (?P<requested>SIZE)(?: bytes)?\.?"),
        ("", r"Ran out of memory (?:in memory space|on) \w+[.,]?(?: Used SIZE of SIZE \w+\.)?(?: Exceeded \w+ capacity by SIZE\.?)?"),
        ("", r"(?m:^)[^\n]*(?:RESOURCE_EXHAUSTED|Resource exhausted|Closing session due to error):?(?: From /job:\S+)?(?: E\d{4}:?(?: \w+:)?)?[ \t]*(?=\n|\Z)"),
        ("", r"the total memory required for HLO temporaries \(SIZE\) exceeds available \w+ \(SIZE\)\.?(?: HLO module: \S+)?"),
        ("", r"\bE\d{4}: \w+:"),
        ("", r"See https://openxla\.org/\S+ for more details\.?"),
    )
)  # fmt: skip
IN_USE: Final = "chunks in use"
LARGEST_FREE: Final = "largest free chunk"
_CHUNKS: Final = re.compile(
    r"\b(?P<count>\d{1,12}) Chunks of size (?P<size>\d{1,18}) totalling \S+"
    r"|\b(?P<state>InUse|Chunk|Free)\s{1,9}at (?:0x)?[0-9a-fA-F]{1,16}(?: next \d{1,20})? of size (?P<free>\d{1,18})(?: next \d{1,20})?"
)
_STATS: Final = re.compile(r"CompiledMemoryStats\((?P<fields>[^()]{0,4000})\)")
_STATS_FIELD: Final = re.compile(r"\b(\w{1,60})\s{0,9}=\s{0,9}(-?\d{1,30})")


def _read_amounts(cleaned: str, most: int | None = None) -> tuple[list[ReportedAmount], list[tuple[int, int]]]:
    """The amounts, and where in the text they are. With `most`, the search ends behind the first so many amounts below
    headings, and may leave out sentences."""
    found: list[ReportedAmount] = []
    spans: list[tuple[int, int]] = []
    group = ""
    at = 0
    for whole in cleaned.split("\n"):
        spend()
        line, start = whole.strip(), at
        at += len(whole) + 1
        if not line or not (group or _BEGINS_AMOUNTS.search(line)):
            continue
        if most is not None and len(found) >= most:
            return found, spans
        heading = None
        if _BEGINS_HEADING.match(line):
            heading = next((match for pattern in _HEADINGS if (match := pattern.fullmatch(line))), None)
        entry = _ENTRY.fullmatch(line) if group and heading is None else None
        if heading is not None:
            group = heading["group"]
            if heading.groupdict().get("text"):
                found.append(ReportedAmount(group, "total", heading["text"], parse_size(heading["text"].lstrip(">= "))))
        elif entry is not None and not _BEGINS_SENTENCE.match(line):
            exact = _EXACT.search(entry["detail"])
            size = int(exact[1].replace(",", "")) if exact else parse_size(entry["text"])
            detail = _EXACT.sub("", entry["detail"]).strip()
            bracketed = _BRACKETED.fullmatch(detail) if len(detail) < _MOST_DETAIL else None
            if bracketed is not None:
                detail = f"{bracketed[1]}{', ' if bracketed[2] else ''}{bracketed[2]}"
            found.append(ReportedAmount(group, entry["name"].strip(), entry["text"], size, detail))
        elif group and line in _EMPTY_ENTRIES:
            found.append(ReportedAmount(group, line, "", None))
        elif _RULE.fullmatch(line):
            continue
        else:
            group = ""
            continue
        spans.append((start, start + len(whole)))
    for group, pattern in _SENTENCES:
        for match in pattern.finditer(cleaned):
            spans.append(match.span())
            parts = match.groupdict()
            for name, text in parts.items():
                if text is not None and not name.endswith("_exact"):
                    exact = parts.get(f"{name}_exact")
                    size = parse_size(exact.strip("() \n").removesuffix("bytes").strip() if exact else text)
                    found.append(ReportedAmount(group, name.replace("_", " "), text.strip(), size))
    chunks, more = _read_chunks(cleaned)
    found += chunks
    spans += more
    for match in _STATS.finditer(cleaned):
        spans.append(match.span())
        for name, text in _STATS_FIELD.findall(match["fields"]):
            found.append(ReportedAmount("CompiledMemoryStats", name.removesuffix("_in_bytes"), text, int(text)))
    return found, spans


def _read_chunks(cleaned: str) -> tuple[list[ReportedAmount], list[tuple[int, int]]]:
    """What an allocator's dump says of its chunks: those in use by size, the largest first, and the largest free one;
    and where in the text they are."""
    used: dict[int, int] = {}
    free = -1
    spans: list[tuple[int, int]] = []
    for match in _CHUNKS.finditer(cleaned):
        spend()
        spans.append(match.span())
        if match["count"] is not None:
            used[int(match["size"])] = int(match["count"])
        elif match["state"] == "Free":
            free = max(free, int(match["free"]))
    found = [
        ReportedAmount(IN_USE, str(used[size]), f"{size}B", used[size] * size) for size in sorted(used, reverse=True)
    ]
    return found + ([ReportedAmount("allocator", LARGEST_FREE, f"{free} bytes", free)] if free >= 0 else []), spans


def _unread_lines(cleaned: str, spans: list[tuple[int, int]]) -> list[str]:
    """The lines that none of the spans reaches, except empty lines and rulers. The spans are sorted."""
    found: list[str] = []
    at = number = 0
    reached = -1
    for line in cleaned.split("\n"):
        spend()
        end = at + len(line)
        while number < len(spans) and spans[number][0] <= end:
            reached = max(reached, spans[number][1])
            number += 1
        if reached <= at and _RULE.fullmatch(line) is None:
            found.append(" ".join(line.split()))
        at = end + 1
    return found


# Patterns for a text from which all white space was removed.
_SPACE: Final = re.compile(r"Ranoutofmemory(?:inmemoryspace|on)(\w+)", re.IGNORECASE)
_USED: Final = re.compile(r"Used(-?[\d.]+[KMGTP]?)of([\d.]+[KMGTP]?)(\w+)")
_EXCEEDED: Final = re.compile(r"Exceeded\w{1,40}?capacityby(\d+(?:\.\d+)?[KMGTP]?)")
_TEMPORARIES: Final = re.compile(r"forHLOtemporaries\(([\d.]+[KMGTP]?)\)exceedsavailable(\w+)\(([\d.]+[KMGTP]?)\)")
_REQUESTED: Final = re.compile(r"Outofmemory(?:whiletryingtoallocate|allocating)(\d+)bytes", re.IGNORECASE)


def read_totals(cleaned: str) -> ReportedTotals | None:
    """The numbers that a cleaned text states about the memory as a whole; None if it states none.

    >>> read_totals("Ran out of memory in memory space hbm. Used 17.21G of 15.48G hbm. Exceeded hbm capacity by 1.73G.")
    ReportedTotals(memory_space='hbm', used='17.21G', capacity='15.48G', exceeded='1.73G')
    """
    compact = "".join(cleaned.split())
    space, used, exceeded = _SPACE.search(compact), _USED.search(compact), _EXCEEDED.search(compact)
    temporaries, requested = _TEMPORARIES.search(compact), _REQUESTED.search(compact)
    if temporaries is not None:
        return ReportedTotals(temporaries[2].lower(), temporaries[1], temporaries[3], "")
    if used is not None:
        return ReportedTotals(used[3].lower(), used[1], used[2], exceeded[1] if exceeded else "")
    if requested is not None:
        return ReportedTotals("", requested[1] + "B", "", "")
    return ReportedTotals(space[1].lower(), "", "", "") if space is not None else None


def totals_of(read: ReportText) -> ReportedTotals | None:
    """The totals that the text states, else those that follow from its amounts; None if there are none."""
    if read.totals is not None and read.totals.used:
        return read.totals
    amounts = {(each.group, each.name): each.text for each in reversed(read.amounts)}
    for group, name in amounts:
        if group.startswith("Total ") and name == "total":
            space = group.split()[1]
            capacity = amounts.get((f"{space.upper()} capacity", "total"), "")
            return ReportedTotals(space, amounts[group, name].lstrip(">= "), capacity, "")
    reduced = amounts.get(("rematerialization", "reduced to"))
    if reduced is not None:
        return ReportedTotals("", reduced, amounts["rematerialization", "limit"], "")
    stats = {each.name: each.bytes or 0 for each in read.amounts if each.group == "CompiledMemoryStats"}
    if stats:
        parts = ("generated_code_size", "argument_size", "output_size", "temp_size")
        used = sum([stats.get(name, 0) for name in parts]) - stats.get("alias_size", 0)
        return ReportedTotals("", f"{stats.get('peak_memory', 0) or used}B", "", "")
    requested = amounts.get(("allocator", "requested"))
    return ReportedTotals("", requested, "", "") if requested is not None else read.totals
