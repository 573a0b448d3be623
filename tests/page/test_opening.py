"""`xlashape open`, `xlashape report` and `xs.open`: the page about files, as one file, and in a notebook."""

from __future__ import annotations

import gzip
import json
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from importlib import resources
from pathlib import Path
from random import Random
from typing import Any

import command_line
import jsonschema
import pytest
from optional import shared

import xlashape as xs
from xlashape.errors import DecodeError, NotFoundError, ParseError
from xlashape.page import PageFile, subject_of

MODULE = Path(__file__).resolve().parents[1] / "vectors" / "hlo" / "attention.after.hlo"
PROFILE = Path(__file__).resolve().parents[1] / "vectors" / "profiles" / "conv_grad.trace.json.gz"
REPORT = "1. Size: 2.00G\n   Shape: f32[32,4096,4096]{1,2,0}\n   Unpadded size: 2.00G\n"


@pytest.fixture(scope="module")
def about_a_module() -> PageFile:
    return xs.open(MODULE)


def shown(page: Any, text: str) -> None:
    page.wait_for_function("text => document.body.innerText.includes(text)", arg=text)


def test_a_file_shows_a_module_without_a_server(
    page: Any, context: Any, about_a_module: PageFile, tmp_path: Path
) -> None:
    path = tmp_path / "report.html"
    about_a_module.save(path)
    context.set_offline(True)
    page.goto(path.as_uri())
    shown(page, "of the peak")
    for view, text in (("Instructions", "transpose"), ("Reads", "wrapped_convert"), ("Cost", "FLOPs")):
        page.get_by_role("link", name=view, exact=True).click()
        shown(page, text) if view != "Cost" else page.wait_for_selector("[role=grid]")
    assert page.get_by_role("alert").count() == 0


@pytest.mark.parametrize(
    ("x", "text"),
    [
        ("f32[3,5]{1,0:T(2,2)}", "padding"),
        ("(d0) -> (d0 mod 4), domain: d0 in [0, 9]", "d0 mod 4"),
        (REPORT, "2.00 GiB"),
    ],
    ids=["shape", "map", "report"],
)
def test_a_file_shows_other_things(page: Any, x: str, text: str, tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    xs.open(x).save(path)
    page.goto(path.as_uri())
    shown(page, text)
    if x != REPORT:
        page.wait_for_selector("main svg [data-i]")
    assert page.get_by_role("alert").count() == 0


def test_a_file_shows_the_graph(page: Any, about_a_module: PageFile, tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    about_a_module.save(path)
    page.goto(path.as_uri())
    page.get_by_role("link", name="Graph", exact=True).click()
    page.wait_for_selector("main canvas")
    page.wait_for_timeout(500)
    assert page.get_by_role("alert").count() == 0


def test_a_file_shows_what_elements_of_the_worst_reads_read(
    page: Any, about_a_module: PageFile, tmp_path: Path
) -> None:
    path = tmp_path / "report.html"
    about_a_module.save(path)
    page.goto(path.as_uri())
    page.get_by_role("link", name="Reads", exact=True).click()
    page.locator("[role=row]").nth(1).click()
    page.get_by_role("link", name="What it reads").first.click()
    page.wait_for_selector("main svg [data-i]")
    cells = page.locator("main svg [data-array='0'] [data-i]:not([data-i=''])")
    cells.nth(3).click()
    shown(page, "The element reads")
    assert page.get_by_role("alert").count() == 0


def test_a_file_says_what_it_does_not_carry(page: Any, about_a_module: PageFile, tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    about_a_module.save(path)
    page.goto(f"{path.as_uri()}#v=cost&m={'0' * 64}")
    shown(page, "xlashape open FILE")


RESULTS = {
    "array": "ROOT %r = f32[8,4]{1,0} negate(%x)",
    "part of a tuple": "%t = (f32[8,4]{1,0}, f32[8,4]{1,0}) tuple(%x, %x)\n  ROOT %r = f32[8,4]{1,0} get-tuple-element(%t), index=1",
    "tuple": "%n = f32[8,4]{1,0} negate(%x)\n  ROOT %r = (f32[8,4]{1,0}, f32[8,4]{1,0}) tuple(%x, %n)",
    "tuple of arguments": "ROOT %r = (f32[8,4]{1,0}, f32[8,4]{1,0}) tuple(%x, %x)",
    "argument": "ROOT %y = f32[8,4]{1,0} parameter(1)",
    "constant": "ROOT %r = f32[] constant(1)",
    "empty tuple": "ROOT %r = () tuple()",
    "sort": "%i = s32[8,4]{1,0} iota(), iota_dimension=0\n"
    "  %s = (f32[8,4]{1,0}, s32[8,4]{1,0}) sort(%x, %i), dimensions={0}, to_apply=%less\n"
    "  ROOT %r = s32[8,4]{1,0} get-tuple-element(%s), index=1",
}
LESS = """%less (a: f32[], b: f32[], c: s32[], d: s32[]) -> pred[] {
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  %c = s32[] parameter(2)
  %d = s32[] parameter(3)
  ROOT %l = pred[] compare(%a, %b), direction=LT
}
"""


@pytest.mark.parametrize("result", RESULTS.values(), ids=RESULTS)
def test_every_view_of_a_file_has_its_answers(page: Any, result: str, tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    called = LESS if "%less" in result else ""
    xs.open(f"HloModule m\n\n{called}ENTRY %e {{\n  %x = f32[8,4]{{1,0}} parameter(0)\n  {result}\n}}").save(path)
    page.goto(path.as_uri())
    page.wait_for_selector("nav a")
    views = [each.inner_text() for each in page.locator("nav a").all()]
    assert {"Summary", "Graph", "Element", "Memory"} <= {*views}
    for view in views:
        page.get_by_role("link", name=view, exact=True).click()
        page.wait_for_timeout(150)
        assert page.get_by_role("alert").all_inner_texts() == [], view


@pytest.mark.parametrize("fragment", ["v=cost", "cost"])
def test_the_address_of_a_file_may_name_the_view_alone(
    page: Any, about_a_module: PageFile, tmp_path: Path, fragment: str
) -> None:
    path = tmp_path / "report.html"
    about_a_module.save(path)
    page.goto(f"{path.as_uri()}#{fragment}")
    shown(page, "FLOPs")
    page.wait_for_selector("[role=grid]")
    assert page.get_by_role("alert").count() == 0


def test_a_notebook_shows_it_in_a_frame(page: Any, about_a_module: PageFile, tmp_path: Path) -> None:
    path = tmp_path / "cell.html"
    path.write_text(f"<!doctype html><meta charset=utf-8><body>{about_a_module._repr_html_()}", encoding="utf-8")
    page.goto(path.as_uri())
    frame = page.frame_locator("iframe")
    frame.get_by_text("of the peak").first.wait_for()
    frame.get_by_role("link", name="Copies", exact=True).click()
    frame.get_by_text("copy_bitcast_fusion").first.wait_for()


def test_names_of_a_module_are_no_part_of_the_file(page: Any, tmp_path: Path) -> None:
    name = "</script><script>window.broken=1</script><img src=x onerror=window.broken=1>"
    module = xs.HloModule.load(MODULE).to_proto()
    module.name = name
    module.computations[-1].instructions[-1].metadata.op_name = name
    made = xs.open(xs.HloModule.from_proto(module))
    assert made.title == name
    assert "<img" not in made.html
    path = tmp_path / "report.html"
    made.save(path)
    page.goto(path.as_uri())
    shown(page, "of the peak")
    assert page.evaluate("window.broken") is None


def test_the_file_keeps_browsers_from_everything_else(about_a_module: PageFile) -> None:
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]+)"', about_a_module.html)
    assert policy is not None
    assert policy[1].startswith("default-src 'none'; script-src 'sha256-")
    assert not re.search(r'(?:src|href)="(?!data:)', about_a_module.html.split("<style>", 1)[0])


@contextmanager
def opened(*arguments: str) -> Generator[tuple[subprocess.Popen[str], list[str]]]:
    """`xlashape open` while it runs, with the addresses that it prints."""
    command = [sys.executable, "-m", "xlashape", "open", "--no-browser", *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield (
                process,
                [process.stdout.readline().strip() for _ in range(1 if len(arguments) < 3 else len(arguments))],
            )
        finally:
            process.send_signal(signal.SIGINT)
            _, errors = process.communicate(timeout=30)
            assert "Traceback" not in errors
            assert "{" not in errors, errors


def test_open_shows_a_module_to_whoever_has_the_address(page: Any, context: Any) -> None:
    with opened(str(MODULE)) as (process, [address]):
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+/#v=summary&m=[0-9a-f]{64}&token=[\w-]{32}", address)
        page.goto(address)
        shown(page, "of the peak")
        page.reload()
        shown(page, "of the peak")
        with context.expect_page() as opening:
            page.get_by_role("link", name="Copies", exact=True).click(modifiers=["Control"])
        tab = opening.value
        shown(tab, "only moves data")
        tab.get_by_role("link", name="xlashape", exact=True).click()
        tab.get_by_role("button", name="a shape", exact=True).click()
        tab.wait_for_selector("main svg [data-i]")
        tab.reload()
        tab.wait_for_selector("main svg [data-i]")
        other = context.new_page()
        other.goto(address.partition("&token")[0])
        shown(other, "token")
        assert "of the peak" not in other.inner_text("body")
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=30) == 0


def test_open_takes_a_port() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with opened("f32[3,5]", f"--port={port}") as (_, [address]):
        assert address.startswith(f"http://127.0.0.1:{port}/#")
        again = command_line.run("open", "--no-browser", "f32[3,5]", f"--port={port}")
        assert again.returncode == 1 and str(port) in again.stderr.decode()


def test_a_copied_link_has_no_token(new_page: Any) -> None:
    with opened(str(MODULE)) as (_, [address]):
        page = new_page(url=address)
        shown(page, "of the peak")
        page.get_by_role("button", name="Copy", exact=True).click()
        page.get_by_role("button", name="Link", exact=True).click()
        page.get_by_text("Link copied").first.wait_for(state="attached")
        copied = page.evaluate("navigator.clipboard.readText()")
        assert copied.startswith(address.partition("#")[0])
        assert "m=" in copied
        assert "token" not in copied


def long_profile(path: Path) -> Path:
    """A trace that is too long for a link."""
    document = json.loads(gzip.decompress(PROFILE.read_bytes()))
    random = Random(1)
    for _ in range(1000):
        document["traceEvents"].append({"ph": "M", "name": f"{random.getrandbits(256):x}", "pid": 1, "args": {}})
    path.write_text(json.dumps(document), encoding="utf-8")
    return path


def test_open_shows_a_long_profile(page: Any, tmp_path: Path) -> None:
    with opened(str(long_profile(tmp_path / "long.trace.json"))) as (_, [address]):
        assert address.startswith("file:///")
        page.goto(address)
        shown(page, "of device time")
        assert page.get_by_role("alert").count() == 0


def test_open_shows_the_profile_of_a_directory(page: Any, tmp_path: Path) -> None:
    run = tmp_path / "plugins" / "profile" / "2026_01_01_00_00_00"
    run.mkdir(parents=True)
    for host in ("a", "b"):  # each host of a run writes a file
        content = PROFILE.with_name(PROFILE.name.replace(".trace.json.gz", ".xplane.pb")).read_bytes()
        (run / f"{host}.xplane.pb").write_bytes(content)
    with opened(str(tmp_path)) as (_, [address]):
        page.goto(address)
        shown(page, "of device time")


def test_a_profile_without_instructions_says_so(page: Any, tmp_path: Path) -> None:
    path = tmp_path / "host.trace.json"
    host = {"ph": "M", "name": "process_name", "pid": 1, "args": {"name": "/host:CPU"}}
    wait = {"ph": "X", "name": "wait", "pid": 1, "tid": 1, "ts": 1, "dur": 5}
    path.write_text(json.dumps({"traceEvents": [host, wait]}), encoding="utf-8")
    with opened(str(path)) as (_, [address]):
        page.goto(address)
        shown(page, "The profile has no events of HLO instructions.")


def test_open_compares_two_modules(page: Any) -> None:
    with opened(str(MODULE), str(MODULE).replace("after", "before")) as (_, [address]):
        assert "#v=diff&m=" in address
        page.goto(address)
        shown(page, "change of the peak")


def test_open_without_a_file_shows_the_box(page: Any) -> None:
    with opened() as (_, [address]):
        page.goto(address)
        page.wait_for_selector("textarea")


def test_open_refuses_what_is_nothing() -> None:
    made = command_line.run("open", "--no-browser", "f32[3,")
    assert made.returncode == 1
    assert b"expected a dimension's size" in made.stderr
    made = command_line.run("open", "--no-browser", f"{MODULE}z")
    assert made.returncode == 1
    assert f"there is no file '{MODULE}z': did you mean '{MODULE}'?" in made.stderr.decode()


def test_report_writes_a_file_and_says_so(tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    made = command_line.run("report", str(MODULE), "-o", str(path), "--json")
    assert (made.returncode, made.stderr) == (0, b"")
    document = json.loads(made.stdout)
    schema = json.loads(resources.files("xlashape.cli.schemas").joinpath("report.v1.json").read_text())
    jsonschema.validate(document, schema)
    assert document["bytes"] == path.stat().st_size
    assert document["title"] == "jit_attention"
    assert command_line.run("report", "f32[8]", "-o", "-").stdout.startswith(b"<!doctype html>")


def test_what_the_page_is_about(tmp_path: Path) -> None:
    kept: list[object] = []

    def upload(module: Any) -> Any:
        from xlashape_server.commands.page_file import Local

        kept.append(module)
        return Local(60).upload_module(module)

    module = xs.HloModule.load(MODULE)
    assert subject_of("f32[8]", upload).state == {"v": "shape", "s": "f32[8]{0}"}
    assert subject_of(("f32", (8,)), upload).kind == "shape"
    assert subject_of("(d0) -> (d0), domain: d0 in [0, 3]", upload).kind == "map"
    assert subject_of(REPORT, upload).kind == "report"
    assert subject_of(PROFILE, upload).kind == "profile"
    assert not kept
    assert subject_of(module, upload).title == "jit_attention"
    assert subject_of(module.entry.root, upload).state["i"] == module.entry.root.name
    assert subject_of(module.entry, upload).state["v"] == "graph"
    assert subject_of(gzip.compress(MODULE.read_bytes()), upload).kind == "module"
    assert subject_of("%a = f32[8] add(f32[8] %x, f32[8] %y)", upload).state["i"] == "a"
    with pytest.raises(ParseError):
        subject_of("f32[3,", upload)
    for missing in (Path("/no/such/file"), "missing.hlo", tmp_path):
        with pytest.raises(NotFoundError):
            subject_of(missing, upload)
    with pytest.raises(DecodeError):
        xs.open(b'{"traceEvents": [{"ph": "X", "ts": "x"}], "displayTimeUnit": 1')


@pytest.mark.parametrize(
    "x", ["(d0) -> (d0 mod 4), domain: d0 in [0, 9]", REPORT, PROFILE], ids=["map", "report", "profile"]
)
def test_every_subject_has_a_file(x: Any) -> None:
    assert xs.open(x).html.startswith("<!doctype html>")


@pytest.mark.slow
def test_the_file_of_a_large_program_is_small() -> None:
    made = xs.open(shared("hlo", "models", "hlo_llama31_8b_bf16_1x8.hlo"))
    assert len(made.html) < 15_000_000
