"""Tables: the same values by every way out, missing ones included; against the objects that they are tables of."""

from __future__ import annotations

import csv
import io
import json
import subprocess
import sys
from importlib import resources

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet
import pytest

import xlashape as xs
from xlashape.base.tables import Column, ColumnKind, Table
from xlashape.errors import NotFoundError, SizeOverflowError, UnavailableError
from xlashape.reports.reads import Read

MODULE = resources.files("xlashape.data").joinpath("attention.hlo.pb")
COLUMNS = (
    Column("name", ColumnKind.TEXT, "a name"),
    Column("bytes", ColumnKind.INTEGER, "its bytes"),
    Column("share", ColumnKind.NUMBER, "a share"),
    Column("is_root", ColumnKind.BOOLEAN, "whether it is the root"),
    Column("operands", ColumnKind.TEXTS, "its operands"),
)
ROWS = [
    ("a", 2**63 - 1, 0.1, True, ["p", "q"]),
    ('"b",\n<i>', -(2**63), None, False, []),
    (None, None, 1.0, None, None),
]


@pytest.fixture
def module():
    return xs.HloModule.load(str(MODULE))


def test_every_way_out_has_the_values():
    table = Table(COLUMNS, ROWS)
    rows = [dict(zip([column.name for column in COLUMNS], row, strict=True)) for row in ROWS]
    assert list(table) == rows
    assert table.to_arrow().to_pylist() == rows
    assert table.to_polars().to_dicts() == rows
    assert pa.table(table).to_pylist() == rows  # by the PyCapsule interface
    assert pl.DataFrame(table).to_dicts() == rows
    frame = table.to_pandas()
    assert list(map(str, frame.dtypes))[1:4] == ["Int64", "Float64", "boolean"]
    assert frame["bytes"].tolist()[:2] == [2**63 - 1, -(2**63)]
    assert frame.isna().to_numpy().tolist() == [[value is None for value in row] for row in ROWS]
    assert [json.loads(line) for line in table.to_jsonl().splitlines()] == rows
    assert list(csv.reader(io.StringIO(table.to_csv())))[1:] == [
        ["a", str(2**63 - 1), "0.1", "true", "p q"],
        ['"b",\n<i>', str(-(2**63)), "", "false", ""],
        ["", "", "1.0", "", ""],
    ]
    assert pa.parquet.read_table(io.BytesIO(table.to_parquet())).to_pylist() == rows
    assert table.to_arrow().schema.field("bytes").metadata == {b"meaning": b"its bytes"}


@pytest.mark.parametrize("number", [2**63, -(2**63) - 1, 2**70])
@pytest.mark.parametrize("convert", [Table.to_arrow, Table.to_pandas, Table.to_polars, Table.to_parquet])
def test_an_integer_of_more_than_64_bits(number, convert):
    with pytest.raises(SizeOverflowError, match="a number of the column 'bytes' does not fit int64"):
        convert(Table(COLUMNS, [*ROWS, ("c", number, None, None, None)]))


def test_a_table_without_rows_keeps_its_types():
    table = Table(COLUMNS, [])
    assert table.to_polars().schema["operands"] == pl.List(pl.String)
    assert (len(table.to_pandas()), table.to_arrow().num_rows, table.to_csv().count("\n")) == (0, 0, 1)


def test_a_column_that_does_not_exist():
    with pytest.raises(NotFoundError, match="the table has no column 'byte': it has name, bytes, share"):
        Table(COLUMNS, ROWS)["byte"]


def test_a_module_and_its_computations(module):
    table = module.table()
    instructions = list(module.instructions())
    assert table["instruction"] == [each.name for each in instructions]
    assert table["operands"] == [[operand.name for operand in each.operands] for each in instructions]
    assert table["called_computations"] == [
        [called.name for called in each.called_computations] for each in instructions
    ]
    assert table["is_root"] == [each.is_root for each in instructions]
    assert table["bytes"] == [xs.tiling.physical_bytes(each.shape) for each in instructions]
    assert module.entry.to_polars()["instruction"].to_list() == [each.name for each in module.entry.instructions]
    assert isinstance(module.to_pandas(), pd.DataFrame)
    assert module.to_arrow().num_rows == len(instructions)
    assert pa.table(module).num_rows == len(instructions)


def test_memory(module):
    memory = xs.why(module, target="tpu")
    frame = memory.to_pandas()
    assert frame["bytes"].sum() == memory.buffer_bytes
    assert frame["padding_bytes"].sum() == memory.overhead_bytes
    assert frame["name"].tolist() == [buffer.name for buffer in memory.buffers]
    for text in ("f32[3,5]{1,0:T(2,2)}", "(f32[], s32[4])", "an f32[3,5] and an s8[7]"):
        answer = xs.why(text)
        assert answer.to_polars()["bytes"].sum() == answer.buffer_bytes
    answer = xs.why(module.instruction("ynn_fusion.3"))
    assert answer.to_polars()["name"].to_list() == ["ynn_fusion.3"]
    unknown = xs.why("HloModule m ENTRY e { p = f32[?] parameter(0) ROOT n = f32[?] negate(p) }").table()
    assert unknown["bytes"] == [None, None]
    assert all("unbounded" in reason for reason in unknown["error"])


def test_reads(module):
    report = xs.reads(module)
    table = report.table()
    names = [column.name for column in table.columns]
    assert sorted(names) == sorted(Read._fields)
    assert len(table) == len(report.rows)
    for row, read in zip(table, report.rows, strict=True):
        values = {name: getattr(read, name) for name in names}
        assert row == {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}
    assert report.to_pandas()["bytes"].tolist() == [read.bytes for read in report.rows]
    assert report.to_arrow().num_rows == len(table)


def test_without_the_extra_the_error_names_it():
    script = """
import sys
class NotInstalled:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("pyarrow", "pandas", "polars"):
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, NotInstalled())
import xlashape as xs
memory = xs.why("f32[3]")
assert memory.table().to_csv().startswith("name,")
for name in ("to_arrow", "to_pandas", "to_polars", "__arrow_c_stream__"):
    try:
        getattr(memory, name)()
    except xs.errors.UnavailableError as error:
        print(error)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.splitlines() == [
        f"a table of {name} needs {package}, and the module {package} is not installed: pip install 'xlashape[{extra}]'"
        for name, package, extra in (
            ("Arrow", "pyarrow", "tables"),
            ("pandas", "pandas", "pandas"),
            ("polars", "polars", "polars"),
            ("Arrow", "pyarrow", "tables"),
        )
    ]
    assert issubclass(UnavailableError, xs.XlashapeError)
