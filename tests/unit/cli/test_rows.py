"""--filter, --sort, --limit and --format: against the same selection in Python, and against other readers of the
files."""

from __future__ import annotations

import csv
import io
import json
import re
from importlib import resources

import command_line
import pyarrow.parquet
import pytest

from xlashape.base.tables import Column, ColumnKind
from xlashape.reports import REPORTS, report_of
from xlashape.reports.maps import REPORT as MAP
from xlashape.reports.selection import Selection
from xlashape.reports.why.declaration import BUFFER_COLUMNS

MODULE = str(resources.files("xlashape.data").joinpath("attention.hlo.pb"))
COMMANDS = {"size": BUFFER_COLUMNS, "reads": report_of("reads").columns, "map": MAP.columns, "why": BUFFER_COLUMNS}


def answer(*arguments, code=0):
    result = command_line.run(*arguments)
    assert result.returncode == code, result.stderr
    return (result.stdout if code == 0 else result.stderr).decode()


def lines(*arguments):
    return [json.loads(line) for line in answer(*arguments, "--format", "jsonl").splitlines()]


@pytest.mark.parametrize("command", COMMANDS)
def test_every_format_has_the_same_rows(command):
    rows = lines(command, MODULE)
    assert rows
    assert list(rows[0]) == [column.name for column in COMMANDS[command]]
    text = [
        {
            name: "" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
            for name, value in {key: " ".join(v) if isinstance(v, list) else v for key, v in row.items()}.items()
        }
        for row in rows
    ]
    assert list(csv.DictReader(io.StringIO(answer(command, MODULE, "--format", "csv")))) == text
    data = command_line.run(command, MODULE, "--format", "parquet").stdout
    assert pyarrow.parquet.read_table(io.BytesIO(data)).to_pylist() == rows


@pytest.mark.parametrize("command", COMMANDS)
def test_filter_sort_and_limit_are_those_of_a_list(command):
    rows = lines(command, MODULE)
    name = {"size": "bytes", "reads": "bytes", "map": "operand", "why": "bytes"}[command]
    first = next(iter(rows[0]))  # `instruction` is its heading, where it has another name
    kept = [row for row in rows if row["opcode"] == "fusion" and "fusion" in row[first]]
    kept.sort(key=lambda row: -row[name])
    assert kept
    filters = ("--filter", "opcode=fusion", "--filter", "fusion")
    assert lines(command, MODULE, *filters, "--sort", name, "--limit", "2") == kept[:2]
    assert lines(command, MODULE, *filters, "--sort", f"{name}:desc", "--limit", "0") == kept
    ascending = lines(command, MODULE, *filters, "--sort", f"{name}:asc")
    assert [row[name] for row in ascending] == sorted(row[name] for row in kept)
    by_name = lines(command, MODULE, "--filter", "instruction!~fusion", "--sort", "instruction")
    assert [row[first] for row in by_name] == sorted(row[first] for row in rows if not re.search("fusion", row[first]))


def test_the_table_and_json_are_selected_too():
    table = answer("reads", MODULE, "--filter", "part read<50%", "--sort", "lines", "--limit", "1").splitlines()
    rows = [row for row in lines("reads", MODULE) if row["part_read"] is not None and row["part_read"] < 0.5]
    assert table[-1].startswith("2 more rows") and len(rows) == 3
    assert max(rows, key=lambda row: row["lines"])["instruction"] in "\n".join(table)
    for command in ("reads", "size", "memory"):
        assert answer(command, MODULE, "--filter", "source=nowhere").endswith("\n\nNo row passes the filters.\n")
    told = json.loads(answer("map", MODULE, "--filter", "operand=1", "--limit", "1", "--json"))
    assert [row["operand"] for row in told["maps"]] == [1]
    told = json.loads(answer("why", MODULE, "--filter", "opcode=parameter", "--json"))
    assert {row["opcode"] for row in told["buffers"]} == {"parameter"}
    assert told["totals"]["bytes"] == sum(row["bytes"] for row in told["buffers"])
    assert told["totals"]["count"] == len(told["buffers"])


@pytest.mark.parametrize("command", REPORTS)
def test_the_filters_of_help_are_filters_of_the_command(command):
    text = " ".join(answer(command, "--help").split())
    examples = re.findall(r"'([^']+)'", text.partition("--filter TEST")[2].partition("--s")[0])
    assert examples
    assert list(Selection(tuple(examples), None, None).chosen(report_of(command).columns, [])) == []


TEST_COLUMNS = (
    Column("instruction", ColumnKind.TEXT, ""),
    Column("bytes", ColumnKind.INTEGER, ""),
    Column("share", ColumnKind.NUMBER, ""),
    Column("is_known", ColumnKind.BOOLEAN, ""),
)
ROWS = [("a", 1_000, 0.5, True), ("B", 1_024, 0.25, False), ("c", None, None, None), ("a b", 0, 1.0, True)]


@pytest.mark.parametrize(
    ("test", "kept"),
    [
        ("bytes>=1KiB", "B"),
        ("bytes=1k", "a"),
        ("bytes<1,000", "a b"),
        ("bytes!=0", "a B c"),
        ("share<=50%", "a B"),
        ("share > .25", "a a b"),
        ("bytes>1e3", "B"),
        ("is_known=true", "a a b"),
        ("is known=FALSE", "B"),
        ("is-known = FALSE", "B"),
        ("by>0", "a B"),
        ("instruction=a b", "a b"),
        ("instruction~^[a-z]$", "a c"),
        ("%a", "a a b"),
        ("instruction>a", "c a b"),
    ],
)
def test_filters(test, kept):
    found = Selection((test,), None, None).chosen(TEST_COLUMNS, ROWS)
    assert " ".join(row[0] for row in found) == kept


def test_rows_without_a_value_are_last_in_either_direction():
    for sort, order in (("bytes", "B a a b c"), ("bytes:asc", "a b a B c"), ("instruction:desc", "c a b a B")):
        assert " ".join(row[0] for row in Selection((), sort, None).chosen(TEST_COLUMNS, ROWS)) == order
        first = Selection((), sort, 2).chosen(TEST_COLUMNS, ROWS)
        assert order.startswith(" ".join(row[0] for row in first))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--filter", "opcod=fusion="], ""),
        (["--filter", "oppcode=fusion"], "--filter: there is no column 'oppcode'; there are instruction, "),
        (["--filter", "oppcode=fusion"], "did you mean 'opcode'?"),
        (["--filter", "part-reed<1"], "--filter: there is no column 'part-reed'; there are instruction, "),
        (["--sort", "segmnts"], "did you mean 'segments'?"),
        (["--filter", "stride>far"], "expected a number such as 128, 10MiB or 50%, found 'far'"),
        (["--filter", "stride>"], "found ''"),
        (["--filter", "instruction~("], "'(' is not a valid regular expression"),
        (["--filter", "is_upper_bound=maybe"], "is_upper_bound is true or false, not 'maybe'"),
    ],
)
def test_a_wrong_selection_is_said(arguments, said):
    if said:
        assert said in answer("reads", MODULE, *arguments, code=2)
    else:
        assert lines("reads", MODULE, *arguments) == []


def test_rows_come_before_the_end(monkeypatch):
    """Without --sort a row is written before the next is computed."""
    seen = []

    def rows():
        for number in range(3):
            seen.append(number)
            yield ("a", number, 0.0, True)

    chosen = Selection((), None, 2).chosen(TEST_COLUMNS, rows())
    assert next(chosen)[1] == 0
    assert seen == [0]
    assert [row[1] for row in chosen] == [1]
    assert seen == [0, 1]
