"""The text of reports for people: cells with their units, tables that fit a terminal, totals as a list of facts,
listings of rows with long texts, and bars.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from textwrap import fill, wrap
from typing import Any, Final

from xlashape.base.display import printable
from xlashape.base.math import byte_text, counted
from xlashape.base.tables import TEXTUAL, Column, ColumnKind

GAP: Final = "   "
LISTED: Final = 12
"""How many characters stand before the texts of `listing_text`."""
_INDENT: Final = "    "
_LEAST_WIDTH: Final = 14
"""Text is cut in the middle down to this many characters before a column is left out."""
_JUDGING: Final = 2
"""Columns up to this rank matter most: before one of them is left out, the table is made as narrow as possible."""
_SENTENCES: Final = ("text", "mend")
"""The columns that have sentences."""
_NARROW_GAP: Final = "  "
_NARROW_WIDTH: Final = 8
"""The value of `_LEAST_WIDTH` for a table that is made as narrow as possible."""
_DECIMAL: Final = (("P", 1e15), ("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3))
_RATES: Final = {"bytes/s": "B/s", "flops/s": "FLOP/s"}
_SECONDS: Final = (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6), ("ns", 1e-9))


def short_bytes(size: float) -> str:
    """A number of bytes in the largest binary unit of which there is at least one.

    >>> [short_bytes(size) for size in (96, 18_432, 597_688_320, 5 << 50, -2048)]
    ['96 B', '18.0 KiB', '570.0 MiB', '5.00 PiB', '-2.00 KiB']
    """
    if size < 0:
        return f"-{short_bytes(-size)}"
    for unit, exponent in (("EiB", 60), ("PiB", 50), ("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10)):
        amount = size / (1 << exponent)
        if amount >= 1:
            return f"{amount:.2f} {unit}" if amount < 9.995 else f"{amount:.1f} {unit}"
    return f"{size:.4g} B"


def cell_text(column: Column, value: Any) -> str:
    """A value as a person reads it: bytes in binary units, seconds, FLOPs and rates in decimal ones, fractions in per
    cent, other integers in full, texts with U+FFFD for characters that are not printed; nothing for None.

    >>> bytes_, share = (
    ...     Column("bytes", ColumnKind.INTEGER, "", "bytes"),
    ...     Column("share", ColumnKind.NUMBER, "", "fraction"),
    ... )
    >>> (
    ...     cell_text(bytes_, 18_432),
    ...     cell_text(share, 0.375),
    ...     *[cell_text(Column("time", ColumnKind.NUMBER, "", "seconds"), each) for each in (1.5e-5, 5e-12)],
    ...     cell_text(Column("bandwidth", ColumnKind.NUMBER, "", "bytes/s"), 1.281e10),
    ... )
    ('18.0 KiB', '37.5%', '15 µs', '< 1 ns', '12.81 GB/s')
    """
    if value is None:
        return ""
    if column.kind in (ColumnKind.TEXTS, ColumnKind.INTEGERS):
        return printable(", ".join(map(str, value)))
    if column.kind is ColumnKind.COUNTS:
        return ", ".join([f"{key}: {count:,}" for key, count in value.items()])
    if column.kind is ColumnKind.BOOLEAN:
        return "yes" if value else "no"
    if column.kind is ColumnKind.TEXT:
        return printable(" ".join(str(value).split()))
    if column.unit == "bytes":
        return short_bytes(value)
    if column.unit == "fraction":
        return f"{100 * value:.1f}%"
    if column.unit == "seconds":
        # A cycle of a clock takes about a nanosecond: less is no time of anything that runs.
        return _scaled(value, _SECONDS) if not 0 < abs(value) < 1e-9 else "< 1 ns" if value > 0 else "> -1 ns"
    if column.unit in _RATES:
        scaled = _scaled(value, _DECIMAL)
        return f"{scaled}{'' if scaled[-1].isalpha() else ' '}{_RATES[column.unit]}"
    if column.unit == "flops":
        return _scaled(value, _DECIMAL)
    return f"{value:,d}" if column.kind is ColumnKind.INTEGER else f"{value:.4g}"


def _scaled(value: float, units: Sequence[tuple[str, float]]) -> str:
    for unit, factor in units:
        if abs(value) >= factor:
            return f"{value / factor:.4g} {unit}"
    return f"{value:.4g}"


def not_shown(count: int, hint: str = "") -> str:
    """The sentence below a table that leaves out its last `count` rows.

    >>> not_shown(1), not_shown(2300, ": --limit 0 shows all")
    ('1 more row is not shown.', '2,300 more rows are not shown: --limit 0 shows all.')
    """
    return f"{counted(count, 'more row')} {'is' if count == 1 else 'are'} not shown{hint}."


def broken_text(text: str, width: int | None) -> str:
    """The text with lines that are longer than `width` characters continued in the next one; None breaks no line.

    >>> print(broken_text("of three loops it is not known how often they run", 24))
    of three loops it is not
      known how often they
      run
    """
    if width is None:
        return text
    room = max(width, 2 * LISTED)

    def broken(line: str) -> str:
        return line if len(line) <= room else fill(line, room, subsequent_indent="  ", break_on_hyphens=False)

    return "\n".join(map(broken, text.split("\n")))


def facts_text(facts: Iterable[tuple[Column, Any]]) -> str:
    """Totals with their values, a line each. Integers of bytes are exact, and are also given in a larger unit."""
    lines = [
        (column.heading or column.name.replace("_", " ").removesuffix(" bytes"), _fact(column, value))
        for column, value in facts
    ]
    width = max([len(name) for name, _ in lines], default=0)
    return "\n".join([f"{name:<{width}}  {text}" for name, text in lines])


def _fact(column: Column, value: Any) -> str:
    return (
        byte_text(value) if column.unit == "bytes" and column.kind is ColumnKind.INTEGER else cell_text(column, value)
    )


def table_text(columns: Sequence[Column], rows: Sequence[Sequence[Any]], width: int | None = None) -> str:
    """A table of the columns that have a rank, with a line of headings. Rows have a value for each column.

    Where lines are longer than `width` characters, the longest texts are cut in the middle; where that is not enough,
    columns of the highest rank are left out, and named below. Before one of rank 1 or 2 is left out, the table is made
    as narrow as it can be: smaller gaps, headings of several lines, and texts cut further. None as `width` cuts and
    leaves out nothing. Columns without any value are left out, but for the first one. A last column of `_SENTENCES` is
    not cut: where lines would be too long for it, it is wrapped below its row.

    >>> columns = (
    ...     Column("name", ColumnKind.TEXT, "", rank=1),
    ...     Column("part_read", ColumnKind.NUMBER, "", "fraction", rank=2),
    ... )
    >>> print(table_text(columns, [("transpose_copy_fusion.1", 0.375)], 18))
                  part
    name          read
    ──────────────────
    trans…ion.1  37.5%
    """
    ranked = [number for number, column in enumerate(columns) if column.rank]
    shown = [number for number in ranked if number == ranked[0] or any(row[number] not in (None, []) for row in rows)]
    headings = [column.heading or column.name.replace("_", " ") for column in columns]
    cells = [[cell_text(column, value) for column, value in zip(columns, row, strict=True)] for row in rows]
    texts = [max([len(row[number]) for row in cells], default=0) for number in range(len(columns))]
    parts = [[heading] for heading in headings]
    gap, least = GAP, _LEAST_WIDTH

    def full() -> list[int]:
        return [max(longest, *map(len, part)) for longest, part in zip(texts, parts, strict=True)]

    def fit(room: int) -> bool:
        return _fit(columns, widths, shown, room, [max(least, *map(len, part)) for part in parts])

    widths = full()
    left_out: list[int] = []
    below = (
        shown[-1] if shown and columns[shown[-1]].name in _SENTENCES and len(shown) > 1 and width is not None else None
    )
    if below is not None:
        if sum([widths[number] for number in shown]) + len(GAP) * (len(shown) - 1) > (width or 0):
            shown.remove(below)
        else:
            below = None
    while width is not None and not fit(width - len(gap) * (len(shown) - 1)):
        worst = max(shown, key=lambda number: (columns[number].rank, number))
        if columns[worst].rank <= _JUDGING and gap == GAP:
            gap, least = _NARROW_GAP, _NARROW_WIDTH
            parts = [heading.split() or [""] for heading in headings]
        elif len(shown) > 1:
            shown.remove(worst)
            left_out.append(worst)
        else:
            break
        widths = full()

    def line(values: Sequence[str]) -> str:
        made: list[str] = []
        for number in shown:
            text = cut_middle(values[number], widths[number])
            is_left = columns[number].kind in TEXTUAL
            made.append(text.ljust(widths[number]) if is_left else text.rjust(widths[number]))
        return gap.join(made).rstrip()

    height = max([len(parts[number]) for number in shown], default=1)
    lines = [line([([""] * height + part)[at - height] for part in parts]) for at in range(height)]
    lines.append("─" * (sum([widths[number] for number in shown]) + len(gap) * (len(shown) - 1)))
    for row in cells:
        lines.append(line(row))
        if below is not None:
            lines += wrap(
                row[below], width or 80, initial_indent=_INDENT, subsequent_indent=_INDENT, break_on_hyphens=False
            )
    if left_out:
        lines += [
            "",
            f"The terminal is too narrow for: {', '.join([headings[number] for number in sorted(left_out)])}.",
        ]
    return "\n".join(lines)


def alike_together(
    columns: Sequence[Column], rows: Iterable[Sequence[Any]], alike: Sequence[str]
) -> list[tuple[Any, ...]]:
    """Merges rows that are equal in the columns named `alike` into the first of them.

    The column `times` of a merged row is the sum over its rows, in which None counts 1; it is None where the sum is 1.

    >>> columns = (
    ...     Column("name", ColumnKind.TEXT, ""),
    ...     Column("bytes", ColumnKind.INTEGER, ""),
    ...     Column("times", ColumnKind.INTEGER, ""),
    ... )
    >>> alike_together(columns, [("a", 4, 1), ("b", 8, 1), ("c", 4, 1)], ["bytes"])
    [('a', 4, 2), ('b', 8, None)]
    """
    names = [column.name for column in columns]
    numbers = [names.index(name) for name in alike]
    times = names.index("times")
    groups: dict[tuple[Any, ...], list[Sequence[Any]]] = {}
    for row in rows:
        groups.setdefault(tuple([str(row[number]) for number in numbers]), []).append(row)
    made: list[tuple[Any, ...]] = []
    for group in groups.values():
        count = sum([1 if row[times] is None else row[times] for row in group])
        made.append((*group[0][:times], count if count > 1 else None, *group[0][times + 1 :]))
    return made


def _fit(columns: Sequence[Column], widths: list[int], shown: Sequence[int], room: int, least: list[int]) -> bool:
    """Narrows columns of text, the widest first and each to no less than its `least`, until all together have at most
    `room` characters. Returns whether that was possible.
    """
    too_much = sum([widths[number] for number in shown]) - room
    texts = [number for number in shown if columns[number].kind in TEXTUAL]
    while too_much > 0:
        texts = [number for number in texts if widths[number] > least[number]]
        if not texts:
            return False
        widest = max(texts, key=lambda number: widths[number])
        others = [widths[number] for number in texts if number != widest]
        step = min(too_much, max(1, widths[widest] - max([least[widest], *others])))
        widths[widest] -= step
        too_much -= step
    return True


_BARS: Final = "▁▂▃▄▅▆▇█"


def sparkline(values: Sequence[float], width: int = 60) -> str:
    """A bar for each value. More than `width` values are divided into `width` parts in their order, and each part has
    one bar, for its largest value. The largest value of all is the highest bar, and 0 the lowest.

    >>> sparkline([0, 2, 7, 4]), sparkline([1, 9, 3, 4, 5, 6], 3), sparkline([0, 0])
    ('▁▃█▅', '█▄▆', '▁▁')
    """
    count = min(len(values), width)
    parts = [values[len(values) * part // count : len(values) * (part + 1) // count] for part in range(count)]
    most = max(values, default=0)
    return "".join([_BARS[round((len(_BARS) - 1) * max(part) / most) if most > 0 else 0] for part in parts])


def listing_text(headings: tuple[str, str], rows: Iterable[tuple[str, str, str]], width: int | None) -> str:
    """Text for rows of three texts: a number, what it is the number of, and a further line below, which may be empty.

    Nothing is cut: what is longer than `width` characters is continued in the next line. None as `width` breaks no
    line.

    >>> print(
    ...     listing_text(
    ...         ("bytes", "copy"), [("4 KiB", "copy.1: a layout that another instruction wants", "train.py:31")], 40
    ...     )
    ... )
         bytes  copy
         4 KiB  copy.1: a layout that
                  another instruction wants
                train.py:31
    """
    room = None if width is None else max(width, 2 * LISTED)
    lines = [f"{headings[0]:>{LISTED - 2}}  {headings[1]}"]
    for number, text, more in rows:
        lines += _wrapped(f"{number:>{LISTED - 2}}  ", text, room)
        if more:
            lines += _wrapped(" " * LISTED, more, room)
    return "\n".join(lines)


def _wrapped(start: str, text: str, width: int | None) -> list[str]:
    if width is None:
        return [start + text]
    rest = " " * (LISTED + 2)
    return wrap(text, width, initial_indent=start, subsequent_indent=rest, break_on_hyphens=False) or [start]


def cut_middle(text: str, width: int) -> str:
    """The text; where it is longer than `width` characters, its beginning and its end, since names often differ there.

    >>> cut_middle("transpose_copy_fusion.1", 12)
    'transp…ion.1'
    """
    if len(text) <= width:
        return text
    end = (width - 1) // 2
    return f"{text[: width - 1 - end]}…{text[len(text) - end :]}"
