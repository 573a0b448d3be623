"""Every report of the register: its declaration is whole, and each face has it."""

from __future__ import annotations

import importlib.util
import inspect
import json
import pkgutil
from contextlib import suppress
from importlib import import_module, resources
from itertools import product
from pathlib import Path

import command_line
import jsonschema
import pytest

import xlashape
import xlashape.reports
from xlashape.cli import main
from xlashape.drawing.draw import picture_of_answer
from xlashape.errors import InvalidArgumentError, XlashapeError
from xlashape.hlo import HloModule, Opcode
from xlashape.proto import services
from xlashape.reports import REPORTS, Answer, report_of
from xlashape.reports.messages import differences, remote_options
from xlashape.reports.report import FRAMES, NOTES, STRICT, rpc_of
from xlashape_client import Client

DOCS = Path(__file__).resolve().parents[3] / "docs"


def test_every_declaration_is_registered():
    modules = [f"xlashape.reports.{each.name}" for each in pkgutil.iter_modules(xlashape.reports.__path__)]
    declared = {name for name in modules if hasattr(import_module(name), "REPORT")}
    missing = declared - {entry.module for entry in REPORTS.values()}
    assert missing == set(), "no line in REPORTS of xlashape/reports/report.py names these"


@pytest.mark.parametrize("name", REPORTS)
def test_a_declaration_is_whole(name):
    report = report_of(name)
    assert report.name == name
    module, _, function = report.compute.partition(":")
    assert callable(getattr(import_module(module), function))
    tables = [report.columns, report.totals, *[section.columns for section in report.sections]]
    for columns in tables:
        names = [column.name for column in columns]
        assert len(set(names)) == len(names)
        for column in columns:
            assert column.name.isidentifier()
            assert column.meaning, f"{column.name} has no meaning"
            assert not column.meaning.endswith("."), f"the meaning of {column.name} is no sentence with a full stop"
            assert column.name.endswith("bytes") <= (column.unit == "bytes"), f"{column.name} counts bytes"
    assert any(column.rank for column in report.columns), (
        "no column is shown on a terminal: give the important ones a rank"
    )
    taken = {"totals", "report", "table", "section", "headline"}
    reserved = {
        "what",
        "stage",
        "jobs",
        "picture_file",
        "show",
        "form",
        "limit",
        "sort",
        "filters",
        "server",
        "timeout",
        "as_json",
    }
    assert not reserved & {option.name for option in report.options}, (
        "the command has options of its own with these names"
    )
    assert not taken & {report.rows, *[section.name for section in report.sections]}


@pytest.mark.parametrize("name", REPORTS)
def test_the_command_and_the_schema_are_there(name):
    assert command_line.run(name, "--help").returncode == 0
    assert any(name in names for _, names in main.sections), "main.sections has the headings of the list of commands"
    schema = json.loads(command_line.run("schemas", f"{name}.v1").stdout)
    jsonschema.Draft202012Validator.check_schema(schema)


@pytest.mark.parametrize("name", REPORTS)
def test_a_picture_is_offered_where_there_is_one(name):
    """`-o` of a report that has no picture is no option: the command line says so."""
    module = str(resources.files("xlashape.data").joinpath("attention.hlo.pb"))
    if report_of(name).inputs == ("profile",):
        module = str(DOCS.parent / "tests/vectors/profiles/scan_grad.xplane.pb")
    subjects = (module, module) if report_of(name).inputs == ("a", "b") else (module,)
    drawn = picture_of_answer(report_of(name).run(*subjects)) is not None
    assert report_of(name).has_picture == drawn
    if name != "diff":  # its command is written by hand
        assert ("--picture" in command_line.run(name, "--help").stdout.decode()) == drawn


@pytest.mark.parametrize("name", REPORTS)
def test_its_function_and_the_method_of_the_client_take_its_options(name):
    report = report_of(name)
    module, _, function = report.compute.partition(":")
    of_function = inspect.signature(getattr(import_module(module), function)).parameters
    method = getattr(Client, name, None)
    assert method is not None, f"clients/python/xlashape_client/methods/reports.py has no method {name}"
    of_client = inspect.signature(method).parameters
    for option in report.options:
        assert option.name in of_function, f"{report.compute} does not take the option {option.name}"
    for option in remote_options(report):
        assert option.name in of_client, f"the client's method {name} does not take the option {option.name}"


# These answer in the library by other functions: of shapes, of `xlashape.indexing` and of `xlashape.hlo`.
_NOT_AT_THE_FRONT_DOOR = {"size", "map", "tile", "verify"}


@pytest.mark.parametrize("name", sorted(REPORTS.keys() - _NOT_AT_THE_FRONT_DOOR))
def test_its_function_is_at_the_front_door(name):
    module, _, function = report_of(name).compute.partition(":")
    found = getattr(xlashape, name, None)
    assert found is getattr(import_module(module), function), f"xlashape/__init__.py does not name {name}"


def test_answers_have_what_their_report_declares():
    def all_of(base):
        for each in base.__subclasses__():
            yield each
            yield from all_of(each)

    for name in REPORTS:
        report_of(name)
    for answer in all_of(Answer):
        if "report" in vars(answer) and answer.__module__.startswith("xlashape."):
            for section in answer.report.sections:
                assert hasattr(answer, section.name), f"{answer.__name__} has no attribute {section.name}"


def test_the_reference_is_up_to_date():
    spec = importlib.util.spec_from_file_location("generate_reports", DOCS / "generate_reports.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert module.page() == module.PAGE.read_text(encoding="utf-8"), "run python docs/generate_reports.py"


@pytest.mark.parametrize("name", REPORTS)
def test_the_messages_of_its_rpc_have_its_fields(name):
    from report_messages import proto_text

    methods = {method.name: method for service in services() for method in service.methods}
    method = methods.get(rpc_of(name))
    assert method is not None, f"no service has {rpc_of(name)}; its messages are:\n{proto_text([report_of(name)], {})}"
    found = differences(report_of(name), method.input_type, method.output_type)
    assert found == [], "run python protos/report_messages.py"


def test_the_schema_is_that_of_the_declarations():
    from report_messages import SCHEMA, schema_text

    schema = SCHEMA.read_text(encoding="utf-8")
    assert schema_text(schema) == schema, "run python protos/report_messages.py, and then protos/schema_compiler.py"


def test_reports_that_name_sources_take_frames():
    for name in REPORTS:
        report = report_of(name)
        has_source = any(column.name == "source" for column in report.columns)
        assert (FRAMES in report.options) == has_source, name


def test_reports_that_read_text_in_hand_say_so():
    for name in REPORTS:
        report = report_of(name)
        module, _, function = report.compute.partition(":")
        of_function = inspect.signature(getattr(import_module(module), function)).parameters
        assert (STRICT in report.options) == ("strict" in of_function), name
        assert (NOTES in report.totals) >= (STRICT in report.options), name


_FRAMES = """HloModule m

FileNames
1 "train.py"
2 "/venv/lib/python3.12/site-packages/flax/linen.py"

FunctionNames
1 "step"
2 "apply"

FileLocations
1 {file_name_id=1 function_name_id=1 line=7 end_line=7 column=1 end_column=2}
2 {file_name_id=2 function_name_id=2 line=99 end_line=99 column=1 end_column=2}

StackFrames
1 {file_location_id=1 parent_frame_id=1}
2 {file_location_id=2 parent_frame_id=2}

ENTRY e {
  p = f32[8,64]{1,0} parameter(0)
  ROOT n = f32[8,64]{0,1} copy(p), metadata={op_name="jit(step)/copy" stack_frame_id=2}
}
"""


@pytest.mark.parametrize("name", ["memory", "why", "size", "reads", "cost", "copies", "diff"])
def test_sources_are_lines_of_the_user_or_all_frames(name):
    asked = (_FRAMES, _FRAMES.replace("copy(p)", "negate(p)")) if name == "diff" else (_FRAMES,)
    report = report_of(name)

    def sources(**options):
        return set(report.run(*asked, **options).to_arrow()["source"].to_pylist()) - {None, ""}

    assert sources() == sources(frames="own") == {"train.py:7"}
    assert sources(frames="all") == {"linen.py:99 < train.py:7"}
    with pytest.raises(InvalidArgumentError, match="expected own or all, found 'most'") as raised:
        report.run(*asked, frames="most")
    assert raised.value.field == "frames"


_ABOUT_MODULES = [name for name in REPORTS if "module" in report_of(name).inputs and name != "tile"]


@pytest.mark.parametrize("opcode", sorted(map(str, Opcode)))
def test_an_instruction_without_what_its_opcode_needs_is_answered_or_refused(opcode: str):
    pair = "(f32[2,4], f32[2,4])"
    text = f"HloModule m ENTRY e {{ p = {pair} parameter(0) n = f32[2,4] negate(p) ROOT r = {pair} tuple(n, n) }}"
    for shape, operands in product((0, 1), (0, 1, 2)):
        module = HloModule.parse(text).proto
        parameter, bare, root = module.computations[0].instructions
        bare.opcode = opcode
        bare.operand_ids[:] = [parameter.id] * operands
        if shape:
            bare.shape.CopyFrom(parameter.shape)
            root.operand_ids.pop()
        for name in _ABOUT_MODULES:
            with suppress(XlashapeError):
                report_of(name).run(HloModule.from_proto(module)).headline()
