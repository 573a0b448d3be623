"""A made-up report: its declaration, its answer and one line in the register give it every face."""

from __future__ import annotations

import csv
import importlib.util
import io
import json
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

import command_line
import jsonschema
import pytest
from google.protobuf import message_factory
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from optional import needed_in_ci

from xlashape.cli import main
from xlashape.drawing.notebook import html
from xlashape.errors import InvalidArgumentError, NotFoundError
from xlashape.hlo import HloModule
from xlashape.hlo.ops.opcode import Opcode
from xlashape.reports import REPORTS, Answer, Column, ColumnKind, Option, Report, Section, report_of
from xlashape.reports.messages import Received, differences, response_of
from xlashape.reports.report import Entry
from xlashape.shape import Shape

COLUMNS = (
    Column("name", ColumnKind.TEXT, "the instruction", rank=1, heading="instruction"),
    Column("opcode", ColumnKind.TEXT, "its opcode", rank=3),
    Column("shape", ColumnKind.TEXT, "its shape", rank=4),
    Column("bytes", ColumnKind.INTEGER, "how much it weighs", "bytes", rank=2),
    Column("share", ColumnKind.NUMBER, "its part of the whole", "fraction", rank=5),
    Column("is_root", ColumnKind.BOOLEAN, "whether it is the result"),
    Column("operands", ColumnKind.TEXTS, "what it uses"),
)
REPORT = Report(
    name="weights",
    summary="How much each instruction weighs.",
    columns=COLUMNS,
    totals=(
        Column("total_bytes", ColumnKind.INTEGER, "the weight of all", "bytes"),
        Column("heaviest", ColumnKind.TEXT, "the heaviest instruction"),
    ),
    sections=(
        Section("roots", COLUMNS[:1], "the results of computations"),
        Section("by", (Column("key", ColumnKind.TEXT, "the group", rank=1), Column("count", ColumnKind.INTEGER, "how many", rank=2)),
                "the number of instructions by group", Option("key", ColumnKind.TEXT, "what to group by", choices=("opcode", "shape"))),
    ),
    options=(
        Option("least", ColumnKind.INTEGER, "the least weight of a row", 0, unit="bytes"),
        Option("target", ColumnKind.TEXT, "the device that weighs"),
    ),
    compute="weights_of_a_test:weights",
    shown=3,
)  # fmt: skip


class Weight(NamedTuple):
    name: str
    opcode: Opcode
    shape: Shape
    bytes: int
    share: float
    is_root: bool
    operands: tuple[str, ...]


class Weights(Answer):
    report = REPORT

    def __init__(self, rows):
        self.rows = rows
        self.roots = [row for row in rows if row.is_root]
        self.total_bytes = sum(row.bytes for row in rows)
        self.heaviest = max(rows, key=lambda row: row.bytes).name if rows else None

    def by(self, key):
        names = [str(getattr(row, key)) for row in self.rows]
        group = type("Group", (), {})
        groups = []
        for name in dict.fromkeys(names):
            made = group()
            made.key, made.count = name, names.count(name)
            groups.append(made)
        return groups


def weights(x, *, least=0, target=None):
    module = HloModule.of(x)
    found = [
        Weight(each.name, each.opcode, each.shape, 4 * len(each.name) * 1000, 0.25, each is module.entry.root, tuple(one.name for one in each.operands))
        for each in module.instructions()
    ]  # fmt: skip
    return Weights([row for row in found if row.bytes >= least])


TEXT = "HloModule m ENTRY e { p = f32[4] parameter(0) longer = f32[4] negate(p) sum = f32[4] add(p, longer) ROOT result = f32[4] exponential(sum) }"


@pytest.fixture(autouse=True)
def registered(monkeypatch):
    module = ModuleType("weights_of_a_test")
    module.REPORT, module.weights = REPORT, weights
    monkeypatch.setitem(__import__("sys").modules, "weights_of_a_test", module)
    monkeypatch.setitem(REPORTS, "weights", Entry("weights_of_a_test", "How much instructions weigh."))
    yield
    main.commands.pop("weights", None)


@pytest.fixture
def path(tmp_path):
    made = tmp_path / "m.hlo"
    made.write_text(TEXT)
    return made


def run(*arguments, data=b""):
    done = command_line.run(*arguments, data=data)
    assert (done.returncode, done.stderr) == (0, b"")
    return done.stdout.decode()


def test_text_has_the_headline_the_worst_rows_and_how_many_more(path):
    assert run("weights", path) == (
        "total     64,000 bytes (62.50 KiB)\n"
        "heaviest  longer\n"
        "\n"
        "instruction   opcode      shape          bytes   share\n"
        "──────────────────────────────────────────────────────\n"
        "p             parameter   f32[4]{0}   3.91 KiB   25.0%\n"
        "longer        negate      f32[4]{0}   23.4 KiB   25.0%\n"
        "sum           add         f32[4]{0}   11.7 KiB   25.0%\n"
        "\n"
        "1 more row is not shown: --limit 0 shows all.\n"
    )
    assert str(weights(TEXT)) + "\n" == run("weights", path).replace("not shown: --limit 0 shows all.", "not shown.")


def test_json_follows_the_schema_that_the_command_prints(path):
    schema = json.loads(run("schemas", "weights.v1"))
    jsonschema.Draft202012Validator.check_schema(schema)
    for more in ((), ("--limit", "1"), ("--show", "roots"), ("--by", "opcode"), ("--filter", "opcode=add")):
        document = json.loads(run("weights", path, "--json", *more))
        jsonschema.validate(document, schema)
    assert schema["properties"]["rows"]["items"]["properties"]["bytes"]["description"] == "how much it weighs, in bytes"
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**document, "made_up": 1}, schema)
    whole = json.loads(run("weights", path, "--json"))
    assert whole["x"] == str(path)
    assert whole["totals"] == {"total_bytes": 64_000, "heaviest": "longer"}
    assert whole["roots"] == [{"name": "result"}]
    assert whole["rows"][2] == {
        "name": "sum", "opcode": "add", "shape": "f32[4]{0}", "bytes": 12_000, "share": 0.25, "is_root": False,
        "operands": ["p", "longer"],
    }  # fmt: skip


def test_rows_are_chosen_by_the_declared_columns(path):
    lines = run("weights", path, "--format", "jsonl", "--filter", "bytes>=11KiB", "--sort", "bytes").splitlines()
    assert [json.loads(line)["name"] for line in lines] == ["longer", "result", "sum"]
    rows = list(
        csv.DictReader(io.StringIO(run("weights", path, "--format", "csv", "--filter", "opcode~^(add|negate)$")))
    )
    assert [(row["name"], row["is_root"]) for row in rows] == [("longer", "false"), ("sum", "false")]
    text = run("weights", path, "--filter", "bytes>=11KiB", "--limit", "1")
    assert "3 of 4 rows pass the filters\nbytes of those shown: 24,000 bytes (23.44 KiB)" in text
    failed = command_line.run("weights", path, "--filter", "byte>1")
    assert failed.returncode == 0  # the beginning of a column's name is enough
    failed = command_line.run("weights", path, "--sort", "weight")
    assert failed.returncode == 2
    assert b"there is no column 'weight'; there are name, opcode" in failed.stderr


def test_options_and_sections_are_those_that_are_declared(path):
    assert "longer" in run("weights", path, "--least", "20KiB")
    assert len(json.loads(run("weights", path, "--least", "20KiB", "--json"))["rows"]) == 2
    assert run("weights", path, "--by", "opcode", "--limit", "0").splitlines()[2:] == [
        "parameter         1", "negate            1", "add               1", "exponential       1",
    ]  # fmt: skip
    both = run("weights", path, "--by", "opcode", "--show", "roots", "--json")
    assert [*json.loads(both)][-2:] == ["by", "roots"]
    help_text = run("weights", "--help")
    assert "--by [opcode|shape]" in help_text
    assert "The least weight of a row." in help_text
    assert "How much each instruction weighs." in help_text


def test_it_stands_in_the_list_of_commands_and_names_are_suggested():
    assert "weights" in run("--help")
    wrong = command_line.run("weigts", "x")
    assert b"did you mean 'weights'" in wrong.stderr
    with pytest.raises(NotFoundError, match="did you mean 'weights'"):
        report_of("weigts")
    with pytest.raises(
        InvalidArgumentError, match="weights has no section 'root'; it has roots, by: did you mean 'roots'"
    ):
        REPORT.section("root")


def test_standard_input_and_mistakes_in_it(path):
    assert run("weights", "-", data=TEXT.encode()) == run("weights", path)
    assert b"standard input is empty" in command_line.run("weights", "-", data=b" \n").stderr
    missing = command_line.run("weights", "/nowhere/m.hlo", "--json")
    assert missing.returncode == 1
    assert json.loads(missing.stderr)["error"]["code"] == "not_found"


def test_it_is_a_sequence_a_table_and_a_card():
    answer = weights(TEXT)
    assert [row.name for row in answer] == ["p", "longer", "sum", "result"]
    assert (len(answer), answer[0].name, answer.totals["total_bytes"]) == (4, "p", 64_000)
    assert next(iter(answer.section("by", "opcode"))) == {"key": "parameter", "count": 1}
    made = html(answer)
    assert "64,000 bytes" in made
    assert "<script" not in made
    with pytest.raises(InvalidArgumentError):
        weights("HloModule <b>")


def test_arrow_has_the_meaning_and_the_unit_of_each_column():
    needed_in_ci("pyarrow")
    table = weights(TEXT).to_arrow()
    assert table.schema.field("bytes").metadata == {b"meaning": b"how much it weighs", b"unit": b"bytes"}
    assert table.column("operands").to_pylist()[2] == ["p", "longer"]


@pytest.fixture(scope="module")
def messages(tmp_path_factory):
    """The classes of the messages that the declaration gives, compiled by protoc."""
    needed_in_ci("grpc_tools")
    from grpc_tools import protoc

    from report_messages import proto_text

    folder = tmp_path_factory.mktemp("schema")
    head = 'syntax = "proto3";\npackage made_up;\nmessage ModuleInput { string text = 1; }\n'
    (folder / "weights.proto").write_text(head + proto_text([REPORT], {}), encoding="utf-8")
    arguments = ["protoc", f"-I{folder}", f"--descriptor_set_out={folder}/set.binpb", str(folder / "weights.proto")]
    assert protoc.main(arguments) == 0
    files = FileDescriptorSet.FromString((folder / "set.binpb").read_bytes())
    pool = DescriptorPool()
    pool.Add(files.file[0])
    return {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"made_up.{name}"))
        for name in ("WeightsRequest", "WeightsResponse")
    }


def test_its_messages_have_its_fields_and_carry_its_answer(messages):
    response, request = messages["WeightsResponse"], messages["WeightsRequest"]
    assert differences(REPORT, request.DESCRIPTOR, response.DESCRIPTOR) == []
    answer = weights(TEXT)

    def page(first=0, section="", argument=""):
        made = response_of(answer, response, first=first, most=3, section=section, argument=argument)
        return response.FromString(made.SerializeToString())

    assert [len(page(first).rows) for first in (0, 3)] == [3, 1]
    pages = {
        "": [page(0), page(3)],
        "roots": [page(0, "roots")],
        "by": [page(0, "by", "opcode"), page(3, "by", "opcode")],
    }
    received = Received(REPORT, pages)
    assert received.to_dict() == answer.to_dict()
    assert received.to_text() == answer.to_text()
    assert received.table().to_csv() == answer.table().to_csv()
    assert received.section("by", "opcode").to_csv() == answer.section("by", "opcode").to_csv()
    assert (received.total_bytes, received[1].name, received.rows[1].bytes) == (64_000, "longer", 24_000)
    with pytest.raises(InvalidArgumentError, match="the server was not asked for roots: name it in `sections`"):
        _ = Received(REPORT, {"": pages[""]}).roots
    with pytest.raises(AttributeError, match="the row has no 'weight'; it has name"):
        _ = received[0].weight
    assert "24,000" in html(received) or "23.4 KiB" in html(received)


def test_what_its_messages_lack_is_named(messages):
    response, request = messages["WeightsResponse"].DESCRIPTOR, messages["WeightsRequest"].DESCRIPTOR
    other = REPORT._replace(
        columns=(
            *COLUMNS[:3],
            Column("bytes", ColumnKind.NUMBER, "a number"),
            Column("age", ColumnKind.INTEGER, "how old"),
        ),
        options=(*REPORT.options, Option("most", ColumnKind.INTEGER, "the largest weight")),
        sections=(*REPORT.sections, Section("leaves", COLUMNS, "what uses nothing")),
    )
    assert differences(other, request, response) == [
        "WeightsRow.bytes is optional int64, and not optional double",
        "WeightsRow has no age",
        "WeightsRow.share is not declared",
        "WeightsRow.is_root is not declared",
        "WeightsRow.operands is not declared",
        "WeightsResponse has no message leaves",
        "WeightsRequest has no most",
    ]


def test_the_reference_lists_its_columns():
    path = Path(__file__).resolve().parents[3] / "docs" / "generate_reports.py"
    spec = importlib.util.spec_from_file_location("generate_reports", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert "| `bytes` | integer | bytes | how much it weighs |" in module.page()


def test_several_files_are_one_table_and_a_refused_one_is_a_row(path, tmp_path):
    (tmp_path / "other.hlo").write_text(TEXT.replace("longer", "x"))
    (tmp_path / "broken.hlo").write_text("HloModule m {")
    done = command_line.run("weights", tmp_path, "--format", "jsonl")
    rows = [json.loads(line) for line in done.stdout.decode().splitlines()]
    assert done.returncode == 1
    assert [(row["module"], row["name"]) for row in rows] == [
        ("broken", None), ("m", "p"), ("m", "longer"), ("m", "sum"), ("m", "result"),
        ("other", "p"), ("other", "x"), ("other", "sum"), ("other", "result"),
    ]  # fmt: skip
    assert rows[0]["file"] == str(tmp_path / "broken.hlo")
    assert rows[0]["error"]
    document = json.loads(
        command_line.run("weights", path, tmp_path / "other.hlo", "--json", "--show", "totals").stdout
    )
    jsonschema.validate(document, REPORT.json_schema())
    assert [(row["module"], row["total_bytes"]) for row in document["totals_of_files"]] == [
        ("m", 64_000),
        ("other", 44_000),
    ]
    pattern = command_line.run("weights", str(tmp_path / "[mo]*.hlo"), "--sort", "bytes", "--limit", "2")
    assert pattern.returncode == 0
    assert "2 files, 0 of them refused; 8 rows" in pattern.stdout.decode()


def test_of_dumps_the_last_stage_of_each_module_is_taken(tmp_path):
    stem = "module_0001.jit_f"
    names = [
        f"{stem}.before_optimizations.txt", f"{stem}.0001.Simplify.after_dce.before_cse.txt", f"{stem}.cpu_after_optimizations.txt",
        f"{stem}.cpu_after_optimizations-buffer-assignment.txt", "module_0002.jit_g.before_optimizations.txt", "notes.txt",
    ]  # fmt: skip
    for number, name in enumerate(names):
        (tmp_path / name).write_text(TEXT.replace("longer", f"n{number}"))

    def found(*options):
        lines = command_line.run(
            "weights", tmp_path, "--format", "jsonl", "--filter", "opcode=negate", *options
        ).stdout.splitlines()
        return [(json.loads(line)["module"], json.loads(line)["name"]) for line in lines]

    assert found() == [("module_0001.jit_f", "n2"), ("module_0002.jit_g", "n4")]
    assert found("--stage", "before") == [("module_0001.jit_f", "n0"), ("module_0002.jit_g", "n4")]
    assert found("--stage", "dce") == [("module_0001.jit_f", "n1")]
    assert len(found("--stage", "all")) == 4
    nothing = command_line.run("weights", tmp_path, "--stage", "made-up")
    assert nothing.returncode == 2
    assert b"there is no module of stage 'made-up'; there are after, before, dce\n" in nothing.stderr


def test_a_bucket_is_read_like_a_directory(path, tmp_path):
    needed_in_ci("obstore")
    lines = run("weights", f"file://{tmp_path}/", "--format", "jsonl").splitlines()
    assert [json.loads(line)["name"] for line in lines] == ["p", "longer", "sum", "result"]
    assert json.loads(lines[0])["file"] == f"file://{tmp_path}/m.hlo"


def test_filters_of_every_kind_of_column(path):
    def names(*filters):
        chosen = [part for each in filters for part in ("--filter", each)]
        return [json.loads(line)["name"] for line in run("weights", path, "--format", "jsonl", *chosen).splitlines()]

    assert names("operands=longer") == ["sum"]
    assert names("operands!=longer") == ["p", "longer", "result"]
    assert names("is_root=true") == ["result"]
    for wrong in ("operands<x", "is_root>true"):
        failed = command_line.run("weights", path, "--filter", wrong)
        assert failed.returncode == 2
        assert b"has no order: expected =, !=, ~ or !~" in failed.stderr
    assert b"is too large for a number of bytes" in command_line.run("weights", path, "--least", "1e400").stderr


def test_totals_alone_are_facts_and_in_json_an_object(path):
    assert run("weights", path, "--show", "totals") == "total     64,000 bytes (62.50 KiB)\nheaviest  longer\n"
    document = json.loads(run("weights", path, "--show", "totals", "--json"))
    jsonschema.validate(document, REPORT.json_schema())
    assert document["totals"] == {"total_bytes": 64_000, "heaviest": "longer"}


def test_a_refused_file_is_told_even_where_filters_leave_its_row_out(path):
    done = command_line.run("weights", path, "/nowhere/x.hlo", "--format", "csv", "--filter", "bytes>=1")
    assert done.returncode == 1
    assert b"/nowhere/x.hlo" in done.stderr
    assert b"/nowhere/x.hlo" not in done.stdout


def test_dumps_of_gpus_are_one_module_with_their_stages(tmp_path):
    for name in ("before_optimizations", "sm_8.0_gpu_after_optimizations"):
        (tmp_path / f"module_0001.jit_f.{name}.txt").write_text(TEXT)
    rows = [json.loads(line) for line in run("weights", tmp_path, "--format", "jsonl").splitlines()]
    assert {row["module"] for row in rows} == {"module_0001.jit_f"}
    assert len(rows) == 4


def test_a_bucket_that_cannot_be_read_is_an_error(tmp_path):
    needed_in_ci("obstore")
    failed = command_line.run("weights", f"file://{tmp_path}/nothing/here/")
    assert failed.returncode == 1
    assert b"Traceback" not in failed.stderr


def test_a_page_ends_before_it_is_too_large(messages):
    text = "HloModule m ENTRY e {\n" + "".join(
        f"  {'n' * 9_000}{number} = f32[] parameter({number})\n" for number in range(500)
    )
    answer = weights(text + f"  ROOT r = f32[] negate({'n' * 9_000}0)\n}}")
    pages = []
    while sum(len(page.rows) for page in pages) < len(answer):
        pages.append(response_of(answer, messages["WeightsResponse"], first=sum(len(page.rows) for page in pages)))
    assert len(pages) > 1
    assert max(page.ByteSize() for page in pages) < 4 << 20
    assert [row.name for row in Received(REPORT, {"": pages})] == [row.name for row in answer]
    only_groups = Received(
        REPORT, {"by": [response_of(answer, messages["WeightsResponse"], section="by", argument="opcode")]}
    )
    assert (len(only_groups), str(only_groups)) == (0, answer.headline())
