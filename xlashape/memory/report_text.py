"""Reads XLA's out-of-memory reports as people paste them: with colours, quotation marks, log prefixes, and lines broken anywhere.

    report      any text with allocations in it
    allocation  [NUMBER "."] "Size:" SIZE field*                          TPU: "1. Size: 32.00G"
                "Buffer" NUMBER ":" "Size:" SIZE field*                   GPU, CPU: "Buffer 1:  Size: 2.63GiB"
    field       "Operator:" TEXT | "XLA label:" TEXT | "Allocation type:" TEXT
                "Shape:" SHAPE
                "Unpadded size:" SIZE
                "Extra memory due to padding:" SIZE "(" FACTOR "x expansion)"
    SIZE        a number, then nothing, B, K, M, G or T, and perhaps iB: powers of 1,024

White space within the words of a field, within sizes and within shapes is ignored, since lines are broken there. In other text, only shapes are
found.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from xlashape.errors import XlashapeError
from xlashape.limits import MAX_TEXT_CHARACTERS, check
from xlashape.shape import PrimitiveType, Shape

__all__ = [
    "ReportedAllocation",
    "ReportedTotals",
    "clean",
    "is_report",
    "parse_size",
    "read_allocations",
    "read_shapes",
    "read_totals",
]

_ANSI: Final = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-_])")
_QUOTES: Final = re.compile(r"^(?:[ \t]*>)+ ?")
_PREFIXES: Final = tuple(
    re.compile(pattern)
    for pattern in (
        # 2024-05-04T09:05:40.1234567Z, as CI prints it, and the time of docker and kubectl
        r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)? ?",
        # 2020-05-04 09:05:40.719745: E    1578 tensorflow/compiler/xla/xla_client/xla_util.cc:76]
        r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:[.,]\d+)?:? (?:[A-Z]+ +)?(?:\d+ )?(?:[\w./\-]+:\d+\] ?)?",
        # I0309 12:51:51.376826 140505975940928 run_docker.py:247]
        r"^[IWEF]\d{4,8} \d\d:\d\d:\d\d(?:\.\d+)? +\d+ [\w./\-<>]+:\d+\] ?",
        # (train pid=12, ip=10.0.0.1), [rank0]:, [1,0]<stderr>:, worker-0:, service_1  |
        r"^\([\w ./:=,\-]*pid=[^)]*\) ?",
        r"^\[[\w ,./:\-]+\](?:<\w+>)?: ?",
        r"^(?:worker|host|rank|task|process|w)[-_ ]?\d+: ?",
        r"^[\w.\-]+ +\| ?",
    )
)

_UNITS: Final = {"": 0, "B": 0, "K": 10, "M": 20, "G": 30, "T": 40, "P": 50}
_SIZE: Final = re.compile(r"(-?\d+(?:\.\d+)?)(KiB|MiB|GiB|TiB|PiB|[KMGTP]B?|B|bytes?)?")


def _key(text: str) -> str:
    """A pattern that matches these words with white space anywhere in them."""
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
_NUMBER_BEFORE: Final = re.compile(r"(?:(\d{1,6})\\?[.)]|Buffer\s*(\d{1,6})\s*:)\s*\**\s*$")
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


class ReportedAllocation(NamedTuple):
    """An allocation as a report states it. Sizes are texts such as `32.00G`; a value that the report does not state is empty."""

    number: int | None
    size: str
    shape: Shape | None
    unpadded: str
    padding: str
    expansion: str
    """Such as `32.0`."""
    operator: str
    label: str
    kind: str


class ReportedTotals(NamedTuple):
    """The numbers of a report about the whole memory. A number that it does not state is empty."""

    memory_space: str
    used: str
    capacity: str
    exceeded: str


def clean(text: str) -> str:
    r"""The text without colours, quotation marks and log prefixes; `\n` within a quoted text becomes a line end.

    >>> clean("\x1b[31m> I0309 12:51:51.376826 140505975940928 run_docker.py:247] Size: 2.63GiB\x1b[0m")
    'Size: 2.63GiB'
    """
    check("text characters", len(text), MAX_TEXT_CHARACTERS)
    text = _ANSI.sub("", text).replace("\r\n", "\n").replace("\r", "\n").replace("\xa0", " ")
    if text.count("\\n") > 3 + text.count("\n"):
        text = text.replace("\\n", "\n").replace('\\"', '"').replace("\\'", "'")
    return "\n".join([_without_prefixes(line) for line in text.split("\n")])


def _without_prefixes(line: str) -> str:
    # Quotes and log prefixes may be nested in any order.
    for _ in range(4):
        before = line
        line = _QUOTES.sub("", line)
        for prefix in _PREFIXES:
            line = prefix.sub("", line, count=1)
        if line == before:
            break
    return line


def is_report(text: str) -> bool:
    """Whether the text has allocations of a report: a size with a shape or another field.

    >>> is_report("1. Size: 2.00G Shape: f32[32,4096,4096]{1,2,0}"), is_report("f32[2]")
    (True, False)
    """
    cleaned = clean(text)
    names = {match.lastgroup for match in _FIELD.finditer(cleaned)}
    return "size" in names and bool(names & {"shape", "unpadded", "kind", "label", "label2", "operator"})


def parse_size(text: str) -> int | None:
    """The bytes of a size, rounded: `2.63GiB`, `32.00G`, `4.0K`, `0B`. None for other text.

    >>> parse_size("4.0K"), parse_size("1.50G"), parse_size("many")
    (4096, 1610612736, None)
    """
    match = _SIZE.fullmatch("".join(text.split()))
    if match is None:
        return None
    unit = (match[2] or "").upper()
    exponent = 0 if unit.startswith("BYTE") else _UNITS[unit[:1]]
    whole, _, fraction = match[1].partition(".")
    digits = int(whole + fraction)
    return round(digits * (1 << exponent) / 10 ** len(fraction)) if len(match[1]) < 30 else None


def read_allocations(cleaned: str) -> list[ReportedAllocation]:
    """The allocations of a cleaned text, in its order."""
    matches = list(_FIELD.finditer(cleaned))
    found: list[ReportedAllocation] = []
    fields: dict[str, str] = {}
    number: int | None = None

    def finish() -> None:
        if _size_text(fields.get("size", "")):
            found.append(_allocation(number, fields))

    for at, match in enumerate(matches):
        end = matches[at + 1].start() if at + 1 < len(matches) else len(cleaned)
        value = cleaned[match.end() : end]
        stop = _END.search(value)
        value = value[: stop.start()] if stop else value
        name = {"label2": "label", "subshape": "shape"}.get(match.lastgroup or "", match.lastgroup or "")
        if name == "size":
            finish()
            fields = {}
            before = _NUMBER_BEFORE.search(cleaned[max(0, match.start() - 40) : match.start()])
            number = int(before[1] or before[2]) if before else None
        # The first of each field is used, since text after the report may repeat a word.
        fields.setdefault(name, value)
    finish()
    return found


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


# For text without white space.
_SPACE: Final = re.compile(r"Ranoutofmemory(?:inmemoryspace|on)(\w+)", re.IGNORECASE)
_USED: Final = re.compile(r"Used(-?[\d.]+[KMGTP]?)of([\d.]+[KMGTP]?)(\w+)")
_EXCEEDED: Final = re.compile(r"Exceeded\w+?capacityby(\d+(?:\.\d+)?[KMGTP]?)")
_TEMPORARIES: Final = re.compile(r"forHLOtemporaries\(([\d.]+[KMGTP]?)\)exceedsavailable(\w+)\(([\d.]+[KMGTP]?)\)")
_REQUESTED: Final = re.compile(r"Outofmemory(?:whiletryingtoallocate|allocating)(\d+)bytes", re.IGNORECASE)


def read_totals(cleaned: str) -> ReportedTotals | None:
    """The numbers of a cleaned text about the whole memory; None if it has none.

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
