"""Chooses rows of a table and their order: filters such as `bytes>=10MiB`, a column to sort by, a limit.

The same filters and sort keys are options of the command line (--filter, --sort), fields of requests to a server, and
inputs of its web page. Rows are tuples with a value for each column.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from heapq import nsmallest
from itertools import islice
from math import isfinite
from operator import eq, ge, gt, le, lt, ne
from typing import Any, Final, NamedTuple, TypeAlias

from xlashape.base.similar import did_you_mean
from xlashape.base.tables import Column, ColumnKind
from xlashape.errors import InvalidArgumentError

Row: TypeAlias = tuple[Any, ...]
"""A value for each column."""

_FILTER: Final = re.compile(r"\s*(\w+(?:[ -]+\w+)*)\s*(!=|<=|>=|!~|=|<|>|~)(.*)", re.DOTALL)
_AMOUNT: Final = re.compile(r"([+-]?(?:\d[\d_,]*)?(?:\.\d+)?(?:[eE][+-]?\d+)?)\s*(%|[kKMGT]i?B?|B)?")
_UNITS: Final = {"%": 0.01, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
_BINARY: Final = {"K": 1 << 10, "k": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_COMPARE: Final[dict[str, Callable[[Any, Any], bool]]] = {"=": eq, "!=": ne, "<": lt, "<=": le, ">": gt, ">=": ge}


class Selection(NamedTuple):
    """The choice of rows, and their order."""

    filters: tuple[str, ...]
    """A row is chosen if it passes all of them."""
    sort: str | None
    """As in `sort_key`; None keeps the order of the rows."""
    limit: int | None
    """The most rows, 0 for all; None for the limit that the caller of `chosen` has."""
    headings: Mapping[str, str] = {}
    """Heading → name of the column, for columns whose heading is another text. `filters` and `sort` may use both."""

    @property
    def is_all(self) -> bool:
        """Whether there is neither a filter nor a sort key, whatever the limit."""
        return not self.filters and self.sort is None

    def chosen(self, columns: Sequence[Column], rows: Iterable[Row], *, limit: int | None = None) -> Iterator[Row]:
        """The rows that pass all filters, in the order of `sort`: at most `self.limit` of them or, where that is None,
        at most `limit`. Either is 0 for all rows; so is None as `limit`.
        """
        tests = [_test(text, columns, self.headings) for text in self.filters]
        if tests:
            rows = (row for row in rows if all(test(row) for test in tests))
        most = (limit if self.limit is None else self.limit) or None
        if self.sort is not None:
            key = sort_key(self.sort, columns, self.headings)
            rows = sorted(rows, key=key) if most is None else nsmallest(most, rows, key=key)
        return islice(iter(rows), most)


def sort_key(text: str, columns: Sequence[Column], headings: Mapping[str, str]) -> Callable[[Row], tuple[bool, Any]]:
    """The key function for rows sorted by a column: `text` is its name, with `:asc` or `:desc` behind it or without.

    Without a direction, numbers are sorted from the largest, everything else from the smallest. Rows without a value
    come last. Raises InvalidArgumentError for a column that does not exist.
    """
    name, colon, direction = text.rpartition(":")
    if not colon or direction not in ("asc", "desc"):
        name, direction = text, ""
    number, column = _column(name, columns, headings, "--sort")
    is_number = column.kind in (ColumnKind.INTEGER, ColumnKind.NUMBER)
    descends = direction == "desc" or (not direction and is_number)

    def key(row: Row) -> tuple[bool, Any]:
        value = row[number]
        if value is None:
            return True, 0
        if is_number or column.kind is ColumnKind.BOOLEAN:
            return False, -value if descends else value
        return False, _Descending(str(value)) if descends else str(value)

    return key


class _Descending(str):
    """Text that is ordered from Z to A."""

    __slots__ = ()

    def __lt__(self, other: str) -> bool:
        return str.__gt__(self, other)


def _column(name: str, columns: Sequence[Column], headings: Mapping[str, str], option: str) -> tuple[int, Column]:
    """A column and its number, by its name (with spaces, hyphens or underscores), by its heading, or by the beginning
    of its name if no other column's name begins so. `option` is named in the error.
    """
    plain = name.strip().lower()
    wanted = headings.get(plain, plain).replace(" ", "_").replace("-", "_")
    names = [column.name for column in columns]
    if wanted in names:
        return names.index(wanted), columns[names.index(wanted)]
    headed = [number for number, column in enumerate(columns) if column.heading and column.heading.lower() == plain]
    if len(headed) == 1:
        return headed[0], columns[headed[0]]
    begun = [number for number, each in enumerate(names) if wanted and each.startswith(wanted)]
    if len(begun) == 1:
        return begun[0], columns[begun[0]]
    raise InvalidArgumentError(
        f"{option}: there is no column {plain!r}; there are "
        f"{', '.join(names)}{did_you_mean(wanted, [*names, *headings])}",
        field=option,
    )


def _test(text: str, columns: Sequence[Column], headings: Mapping[str, str]) -> Callable[[Row], bool]:
    """A function that tests a row by a filter such as `bytes>=10MiB`. A row without a value passes `!=` and `!~` only.

    Text that is no comparison is looked for in the first column of text.
    """
    match = _FILTER.fullmatch(text)
    if match is None:
        number = next((number for number, column in enumerate(columns) if column.kind is ColumnKind.TEXT), None)
        if number is None:
            raise InvalidArgumentError(
                f"--filter: the table has no text to search for {text[:60]!r}; "
                f"name a column: {', '.join([column.name for column in columns])}",
                field="--filter",
            )
        wanted = text.strip().removeprefix("%")
        return lambda row: wanted in (row[number] or "")
    name, sign, value = match[1].rstrip(), match[2], match[3].strip()
    number, column = _column(name, columns, headings, "--filter")
    if sign in ("~", "!~"):
        try:
            pattern = re.compile(value)
        except re.error as error:
            raise InvalidArgumentError(
                f"--filter: {value!r} is not a valid regular expression: {error}", field="--filter"
            ) from None
        finds = sign == "~"
        return lambda row: (row[number] is not None and pattern.search(str(row[number])) is not None) == finds
    compare = _COMPARE[sign]
    is_unequal = sign == "!="
    if column.kind in (ColumnKind.INTEGER, ColumnKind.NUMBER):
        amount = amount_of(value)
        return lambda row: is_unequal if row[number] is None else compare(row[number], amount)
    if column.kind not in (ColumnKind.TEXT, ColumnKind.INTEGER, ColumnKind.NUMBER) and sign not in ("=", "!="):
        raise InvalidArgumentError(f"--filter: {column.name} has no order: expected =, !=, ~ or !~", field="--filter")
    if column.kind not in (ColumnKind.TEXT, ColumnKind.BOOLEAN):
        return lambda row: (value in map(str, row[number] or ())) != is_unequal
    if column.kind is ColumnKind.BOOLEAN:
        if value.lower() not in ("true", "false"):
            raise InvalidArgumentError(f"--filter: {column.name} is true or false, not {value!r}", field="--filter")
        return lambda row: compare(row[number], value.lower() == "true")
    return lambda row: is_unequal if row[number] is None else compare(row[number], value)


def amount_of(text: str, option: str = "--filter") -> float:
    """A number written with %, k, M, G, T (decimal) or KiB, MiB, GiB, TiB behind it, or with nothing: 50% is 0.5.

    Raises InvalidArgumentError for other text, in which `option` says where the text was given.
    """
    match = _AMOUNT.fullmatch(text)
    try:
        if match is None or not match[1]:
            raise ValueError
        digits = match[1].replace(",", "").replace("_", "")
        number: float = int(digits) if digits.lstrip("+-").isdecimal() and len(digits) < 20 else float(digits)
    except ValueError:
        raise InvalidArgumentError(
            f"{option}: expected a number such as 128, 10MiB or 50%, found {text[:60]!r}", field=option
        ) from None
    unit = match[2]
    if not unit or unit == "B":
        return number
    return number * (_BINARY[unit[0]] if "i" in unit else _UNITS[unit[0]])


def bytes_of(text: str, option: str, whole: int | None = None) -> int:
    """A number of bytes, written as for `amount_of`; with `whole`, a percentage is that part of so many bytes. Raises
    InvalidArgumentError for other text, and for fewer bytes than 1 MiB without a unit: `16` is more probably meant as
    16 GiB than as 16 bytes.

    >>> bytes_of("16GiB", "--fit"), bytes_of("16B", "--fit"), bytes_of("2000000", "--fit"), bytes_of("80%", "--fit", 90)
    (17179869184, 16, 2000000, 72)
    """
    amount = amount_of(text, option)
    if whole is not None and text.endswith("%") and 0 < amount < 100:
        return max(1, round(amount * whole))
    if not isfinite(amount):
        raise InvalidArgumentError(f"{option}: {text[:60]!r} is too large for a number of bytes", field=option)
    if 0 < amount < 1 << 20 and not text[-1].isalpha():
        percent = ", or 80%" if whole is not None else ""
        message = f"{option}: expected bytes with their unit, such as 16GiB or 512B{percent}, found {text[:60]!r}"
        raise InvalidArgumentError(message, field=option)
    return int(amount)
