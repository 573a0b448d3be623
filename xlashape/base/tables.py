"""Tables: named columns of text, integers, numbers, truth values or lists of texts, for pandas, polars, Arrow, CSV and
JSON lines.

A `Table` holds its columns as lists, from which all conversions are made. Modules, computations and reports are
`Tabular`: they have a table and its conversions. Arrow, and with it Parquet and the PyCapsule interface, needs the
extra `tables`; pandas and polars are imported on first use.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from enum import Enum
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from xlashape.base.caches import cached
from xlashape.base.display import printable_json, shown
from xlashape.base.extras import require
from xlashape.base.frozen import Frozen, set_field
from xlashape.base.vocabulary import Vocabulary
from xlashape.errors import NotFoundError, SizeOverflowError

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl

__all__ = [
    "Column",
    "ColumnKind",
    "HasTable",
    "Table",
    "Tabular",
    "as_arrow",
    "as_arrow_stream",
    "as_pandas",
    "as_polars",
    "csv_line",
    "json_line",
]


class ColumnKind(str, Enum):
    """The type of the values of a column. Every kind allows None: not known, or without meaning in that row."""

    TEXT = "text"
    INTEGER = "integer"
    """Signed integers of 64 bits."""
    NUMBER = "number"
    BOOLEAN = "boolean"
    TEXTS = "texts"
    """A list of texts."""
    INTEGERS = "integers"
    """A list of signed integers of 64 bits."""
    COUNTS = "counts"
    """A number for each of some integers, such as the bytes in each memory space: a dict."""

    def __str__(self) -> str:
        return self.value


TEXTUAL: Final = frozenset({ColumnKind.TEXT, ColumnKind.TEXTS, ColumnKind.INTEGERS, ColumnKind.COUNTS})
"""The kinds that tables for people begin at the left, as text."""


class Column(NamedTuple):
    """A column: its name, the kind of its values, and what they mean, in words.

    `unit` says what numbers count, such as "bytes" or "seconds"; "fraction" is a number from 0 to 1 that people read in
    per cent. `rank` is for tables on a terminal: 0 is never shown there; on a narrow terminal, columns of high
    rank are left out first, those of rank 1 last. `heading` is what people read there instead of the name. `choices`
    are the texts that a column can have, if they are a closed list.
    """

    name: str
    kind: ColumnKind
    meaning: str
    unit: str = ""
    rank: int = 0
    heading: str = ""
    choices: Vocabulary | None = None


_PANDAS: Final = {
    ColumnKind.TEXT: "string",
    ColumnKind.INTEGER: "Int64",
    ColumnKind.NUMBER: "Float64",
    ColumnKind.BOOLEAN: "boolean",
}


class Table(Frozen):
    """Rows of the same columns.

    >>> columns = (Column("name", ColumnKind.TEXT, "a name"), Column("bytes", ColumnKind.INTEGER, "its bytes"))
    >>> table = Table(columns, [("a", 12), ("b", None)])
    >>> table["bytes"], len(table), list(table)[0]
    ([12, None], 2, {'name': 'a', 'bytes': 12})
    >>> print(table.to_csv())
    name,bytes
    a,12
    b,
    <BLANKLINE>
    """

    __slots__ = ("_length", "_values", "columns")

    columns: tuple[Column, ...]
    _values: dict[str, list[Any]]
    _length: int

    def __init__(self, columns: Sequence[Column], rows: Iterable[Sequence[Any]]) -> None:
        """`rows` have a value for each column, in the order of `columns`. ValueError for a row of another length."""
        values: list[list[Any]] = [[] for _ in columns]
        length = 0
        for row in rows:
            length += 1
            for column, value in zip(values, row, strict=True):
                column.append(value)
        set_field(self, "columns", tuple(columns))
        set_field(
            self, "_values", {column.name: column_values for column, column_values in zip(columns, values, strict=True)}
        )
        set_field(self, "_length", length)

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, name: str) -> list[Any]:
        """The values of a column. Raises NotFoundError for a name that no column has."""
        values = self._values.get(name)
        if values is None:
            raise NotFoundError(
                f"the table has no column {name!r}: it has {', '.join(self._values)}", kind="column", name=name
            )
        return values

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """The rows, as dicts."""
        names = list(self._values)
        for row in zip(*self._values.values(), strict=True):
            yield dict(zip(names, row, strict=True))

    def to_dict(self) -> dict[str, list[Any]]:
        """The values of each column by its name."""
        return {name: list(values) for name, values in self._values.items()}

    def to_arrow(self) -> Any:
        """As an Arrow table. The meaning and the unit of each column are in the metadata of its field. Raises
        SizeOverflowError where a number does not fit int64, UnavailableError without the extra `tables`.
        """
        require("tables", "a table of Arrow")
        pa: Any = import_module("pyarrow")  # an extra, and 100 ms; it has no types
        schema = arrow_schema(self.columns)
        with self._checking_integers():
            arrays = [
                pa.array(
                    _pairs(self._values[each.name]) if each.kind is ColumnKind.COUNTS else self._values[each.name],
                    field.type,
                )
                for each, field in zip(self.columns, schema, strict=True)
            ]
        return pa.Table.from_arrays(arrays, schema=schema)

    def to_pandas(self) -> pd.DataFrame:
        """As a DataFrame of pandas, with the types that have missing values: Int64, Float64, boolean, string. Lists of
        texts are objects. Raises SizeOverflowError where a number does not fit int64, UnavailableError without the
        extra `pandas`.
        """
        require("pandas", "a table of pandas")
        import pandas as pd  # an extra, and 300 ms

        with self._checking_integers():
            return pd.DataFrame(
                {
                    each.name: pd.Series(self._values[each.name], dtype=_PANDAS.get(each.kind, "object"))
                    for each in self.columns
                }
            )

    def to_polars(self) -> pl.DataFrame:
        """As a DataFrame of polars. Raises SizeOverflowError where a number does not fit int64, UnavailableError
        without the extra `polars`.
        """
        require("polars", "a table of polars")
        import polars as pl  # an extra, and 100 ms

        types = {
            ColumnKind.TEXT: pl.String,
            ColumnKind.INTEGER: pl.Int64,
            ColumnKind.NUMBER: pl.Float64,
            ColumnKind.BOOLEAN: pl.Boolean,
            ColumnKind.TEXTS: pl.List(pl.String),
            ColumnKind.INTEGERS: pl.List(pl.Int64),
            ColumnKind.COUNTS: pl.List(pl.Struct({"key": pl.Int64, "value": pl.Int64})),
        }
        with self._checking_integers():
            values = {
                each.name: [
                    None if pairs is None else [{"key": key, "value": value} for key, value in pairs]
                    for pairs in _pairs(self._values[each.name])
                ]
                for each in self.columns
                if each.kind is ColumnKind.COUNTS
            }
            return pl.DataFrame(
                {**self._values, **values}, schema={each.name: types[each.kind] for each in self.columns}
            )

    @contextmanager
    def _checking_integers(self) -> Generator[None, None, None]:
        """Raises SizeOverflowError in place of a library's own error if an integer does not fit int64."""
        try:
            yield
        except (OverflowError, TypeError):
            for column in self.columns:
                if column.kind is ColumnKind.INTEGER and any(
                    value is not None and not -(1 << 63) <= value < 1 << 63 for value in self._values[column.name]
                ):
                    raise SizeOverflowError(f"a number of the column {column.name!r} does not fit int64") from None
            raise

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Arrow's PyCapsule interface, by which DuckDB, polars, pandas, pyarrow and others read the table from Arrow's
        memory. Errors as for `to_arrow`.
        """
        return self.to_arrow().__arrow_c_stream__(requested_schema)

    def to_csv(self) -> str:
        """As CSV. The first line has the names of the columns. A cell is empty for None; a list is joined by spaces."""
        lines = [csv_line([each.name for each in self.columns])]
        lines += [csv_line(row) for row in zip(*self._values.values(), strict=True)]
        return "".join(lines)

    def to_jsonl(self) -> str:
        """As JSON lines: an object for each row."""
        return "".join([json_line(row) for row in self])

    def to_parquet(self) -> bytes:
        """As a Parquet file. Raises UnavailableError without the extra `tables`."""
        arrow = self.to_arrow()
        parquet: Any = import_module("pyarrow.parquet")

        data = io.BytesIO()
        parquet.write_table(arrow, data)
        return data.getvalue()

    def __repr__(self) -> str:
        return f"<Table of {len(self):,} rows: {', '.join(self._values)}>"

    def _repr_html_(self) -> str | None:
        """The first rows, for a notebook."""
        return shown(self)


# A scan makes seven tables for each small file; a tenth of its time went into their schemas.
@cached(max_bytes=1 << 18, entry_bytes=4096)
def arrow_schema(columns: tuple[Column, ...]) -> Any:
    """The Arrow schema of a table with these columns. pyarrow must be installed."""
    pa: Any = import_module("pyarrow")
    types = {
        ColumnKind.TEXT: pa.string(),
        ColumnKind.INTEGER: pa.int64(),
        ColumnKind.NUMBER: pa.float64(),
        ColumnKind.BOOLEAN: pa.bool_(),
        ColumnKind.TEXTS: pa.list_(pa.string()),
        ColumnKind.INTEGERS: pa.list_(pa.int64()),
        ColumnKind.COUNTS: pa.map_(pa.int64(), pa.int64()),
    }
    return pa.schema([pa.field(each.name, types[each.kind], metadata=_metadata(each)) for each in columns])


def _pairs(values: Iterable[dict[int, int] | None]) -> list[list[tuple[int, int]] | None]:
    return [None if counts is None else list(counts.items()) for counts in values]


def _metadata(column: Column) -> dict[str, str]:
    return {"meaning": column.meaning, **({"unit": column.unit} if column.unit else {})}


class HasTable(Protocol):
    """An object with a table, as `Tabular` requires."""

    def table(self) -> Table:
        """The rows."""
        ...


def as_arrow(value: HasTable) -> Any:
    """`table()` as an Arrow table; needs the extra `tables`."""
    return value.table().to_arrow()


def as_pandas(value: HasTable) -> pd.DataFrame:
    """`table()` as a DataFrame of pandas."""
    return value.table().to_pandas()


def as_polars(value: HasTable) -> pl.DataFrame:
    """`table()` as a DataFrame of polars."""
    return value.table().to_polars()


def as_arrow_stream(value: HasTable, requested_schema: object | None = None) -> object:
    """Arrow's PyCapsule interface to `table()`; needs the extra `tables`."""
    return value.table().__arrow_c_stream__(requested_schema)


class Tabular:
    """The conversions of an object with a `table()`. A NamedTuple, which can have no other base, repeats the four lines
    below.
    """

    __slots__ = ()

    to_arrow = as_arrow
    to_pandas = as_pandas
    to_polars = as_polars
    __arrow_c_stream__ = as_arrow_stream


def csv_line(values: Iterable[Any]) -> str:
    r"""A line of CSV with its end.

    >>> csv_line(["a,b", None, True, 0.5, ["p0", "p1"]])
    '"a,b",,true,0.5,p0 p1\n'
    """
    line = io.StringIO()
    csv.writer(line, lineterminator="\n").writerow([_csv_cell(value) for value in values])
    return line.getvalue()


def _csv_cell(value: Any) -> Any:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        value = [f"{key}:{count}" for key, count in value.items()]  # pyright: ignore[reportUnknownVariableType] - integers
    return " ".join(map(str, value)) if isinstance(value, (list, tuple)) else value  # pyright: ignore[reportUnknownArgumentType] - texts or integers


def json_line(row: dict[str, Any]) -> str:
    """A line of JSON with its end."""
    return printable_json(json.dumps(row, ensure_ascii=False)) + "\n"
