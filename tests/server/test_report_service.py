"""ReportService: mistakes in requests, and requests that would take too much memory or time."""

from __future__ import annotations

import gzip
import time
from pathlib import Path

import command_line
import pytest

from xlashape.errors import DeadlineExceededError, DecodeError, InvalidArgumentError, LimitExceededError, NotFoundError
from xlashape.proto import v1
from xlashape.reports.diff import compare
from xlashape_server import Server
from xlashape_server.config import Config
from xlashape_server.handlers import rpcs
from xlashape_server.modules import Modules
from xlashape_server.store import Store

TEXT = "HloModule m ENTRY e { p = f32[4] parameter(0) ROOT n = f32[4] negate(p) }"
MODULE = {"text": TEXT}


@pytest.fixture(scope="module")
def handlers(tmp_path_factory):
    config = Config(max_module_bytes=8 << 20)
    store = Store(str(tmp_path_factory.mktemp("store")), max_bytes=1 << 30, max_age=3600.0)
    return {each.method.name: each for each in rpcs(config, Modules(config, store))}


def ask(handlers, name, seconds=30.0, **fields):
    request = getattr(v1, f"{name}Request")(**fields)
    return handlers[name].handler(request.SerializeToString(), time.monotonic() + seconds)


@pytest.mark.parametrize(
    ("name", "fields", "field"),
    [
        ("Diff", {"a": MODULE}, "b"),
        ("Diff", {}, "a"),
        ("Why", {}, "module"),
        ("Memory", {"module": MODULE, "table": 99}, "table"),
        ("Memory", {"module": MODULE, "table": v1.MEMORY_TABLE_BY}, "by"),
        ("Memory", {"module": MODULE, "table": v1.MEMORY_TABLE_BY, "by": v1.GROUPING_STEP}, "by"),
        ("Memory", {"module": MODULE, "table": v1.MEMORY_TABLE_BY, "by": 99}, "by"),
        ("Memory", {"module": MODULE, "table": v1.MEMORY_TABLE_AT, "fit": 1, "at": "n"}, "fit"),
        ("Memory", {"module": MODULE, "by": v1.GROUPING_OPCODE}, "by"),
        ("Memory", {"module": MODULE, "page_token": "x"}, "page_token"),
        ("Cost", {"module": MODULE, "page_size": -1}, "page_size"),
        ("Cost", {"module": MODULE, "target": 99}, "target"),
        ("Size", {"module": MODULE, "order": 99}, "order"),
        ("IndexingMaps", {"module": MODULE, "style": 99}, "style"),
    ],
)
def test_a_mistake_names_its_field(handlers, name, fields, field):
    with pytest.raises(InvalidArgumentError) as caught:
        ask(handlers, name, **fields)
    assert caught.value.field == field


def test_names_that_are_not_there(handlers):
    with pytest.raises(NotFoundError) as caught:
        ask(handlers, "Memory", module=MODULE, table=v1.MEMORY_TABLE_AT, at="nowhere")
    assert caught.value.field == "at"


def test_a_target_of_which_little_is_known(handlers):
    answer = v1.CostResponse.FromString(ask(handlers, "Cost", module=MODULE, target=v1.TARGET_GPU))
    assert answer.totals.target == v1.TARGET_GPU and not answer.totals.HasField("least_time")
    assert answer.totals.notes[0].startswith("Peaks of gpu are not known, so there are no times: pass peak and")
    answer = v1.ReadsResponse.FromString(ask(handlers, "Reads", module=MODULE, target=v1.TARGET_MI300X))
    assert answer.totals.unit == "segments of 128 bytes that a warp of 64 outputs reads"


IN_HAND = {"text": '[rank0]: %a = f32[4]{0} add(%p, %p)\n[rank0]: %n = f32[4]{0} negate(%a), metadata={op_name="n"}'}


@pytest.mark.parametrize("name", ["Cost", "Size", "Why", "Memory", "Reads", "Copies", "IndexingMaps", "Tile"])
def test_text_in_hand_is_read_unless_the_request_is_strict(handlers, name):
    message = getattr(v1, f"{name}Response")
    answer = message.FromString(ask(handlers, name, module=IN_HAND, page_size=1))
    assert "Prefixes of log lines, colours and quotation marks were left out." in answer.totals.notes
    assert message.FromString(ask(handlers, name, module=IN_HAND, strict=False)).totals == answer.totals
    assert not [
        each for each in message.FromString(ask(handlers, name, module=MODULE)).totals.notes if "define" in each
    ]
    for _ in range(2):  # also where the module is in the cache
        with pytest.raises(InvalidArgumentError) as caught:
            ask(handlers, name, module=IN_HAND, strict=True)
        assert caught.value.field == "module.text"


def test_lines_that_are_asked_of_a_server_as_a_module_are_refused(handlers):
    for name in ("Diff", "Verify"):
        given = ("a", "b") if name == "Diff" else ("module",)
        with pytest.raises(InvalidArgumentError) as caught:
            ask(handlers, name, **dict.fromkeys(given, IN_HAND))
        assert caught.value.field == f"{given[0]}.text"


def test_pages(handlers):
    first = v1.SizeResponse.FromString(ask(handlers, "Size", module=MODULE, page_size=1))
    assert (len(first.buffers), first.row_count) == (1, 2)
    with pytest.raises(InvalidArgumentError, match="the next_page_token of an answer to the same request"):
        ask(handlers, "Size", module=MODULE, order=v1.SIZE_ORDER_BYTES, page_token=first.next_page_token)
    second = v1.SizeResponse.FromString(ask(handlers, "Size", module=MODULE, page_token=first.next_page_token))
    assert (len(second.buffers), second.next_page_token) == (1, "")


def test_a_comparison_is_made_once_for_all_of_its_pages(handlers, monkeypatch):
    """It is kept with the first module, by the content of the second and the options."""
    compared = []
    real = compare._compared
    monkeypatch.setattr(compare, "_compared", lambda *asked: compared.append(asked[0]) or real(*asked))
    others = [{"text": TEXT.replace("negate(p)", f'negate(p), metadata={{op_name="{name}"}}')} for name in "xy"]
    first = {"text": TEXT.replace("f32[4]", "f32[4711]")}
    for other in others:
        for page in ({}, {"table": v1.DIFF_TABLE_MEASURES}, {"page_size": 1}):
            ask(handlers, "Diff", a=first, b=other, **page)
    assert len(compared) == 2
    ask(handlers, "Diff", a=first, b=others[0], ignore=["copy"])
    ask(handlers, "Diff", a=others[0], b=first)
    assert len(compared) == 4
    ask(handlers, "Diff", a=first, b=first)
    ask(handlers, "Diff", a=first, b=first)
    assert len(compared) == 5


def test_text_of_a_request_is_no_path(handlers, tmp_path):
    secret = tmp_path / "secret.txt"
    secret.write_text("bf16[8,128] secret")
    for text in (str(secret), f" {secret} ", f"{secret}#x"):
        with pytest.raises(InvalidArgumentError) as caught:
            ask(handlers, "Why", text=text)
        assert "no file" not in str(caught.value)


def test_a_compressed_profile_is_bounded_by_what_it_holds(handlers):
    with pytest.raises(LimitExceededError):
        ask(handlers, "Profile", profile=gzip.compress(b"\n" + bytes(40 << 20)))
    with pytest.raises((DeadlineExceededError, DecodeError, LimitExceededError)):
        ask(handlers, "Profile", seconds=0.01, profile=gzip.compress(b'{"traceEvents":[' + b" " * (7 << 20)))
    with pytest.raises(DecodeError):
        ask(handlers, "Profile", profile=gzip.compress(b"x" * 100)[:-20])


def test_kernels_with_many_separators_do_not_take_long(handlers):
    config = 'loc(\\"' + "/" * 5_000 + '!\\")'
    text = f'HloModule m ENTRY e {{ p = f32[4] parameter(0) ROOT c = f32[4] custom-call(p), custom_call_target="k", backend_config="{config}" }}'
    answer = v1.DiffResponse.FromString(ask(handlers, "Diff", seconds=10.0, a={"text": text}, b={"text": text}))
    assert answer.totals.same


def test_diff_of_a_server_says_what_this_process_says(server: Server, tmp_path):
    """The answer of the RPC gives the same text, the same verdicts on limits and the same JSON as one computed here."""
    other = TEXT.replace("n = f32[4] negate(p)", "n = f32[4] negate(c)").replace("ROOT", "c = f32[4] copy(p) ROOT")
    files = []
    for name, text in (("a", TEXT), ("b", other)):
        files.append(tmp_path / f"{name}.hlo")
        files[-1].write_text(text)
    for more in (
        [],
        ["--fail-if", "copies.bytes > 2%", "--fail-if", "peak_bytes > 1"],
        ["--ignore", "copy"],
        ["--json"],
        ["--format", "markdown"],
        ["--format", "html"],
        ["--show", "measures"],
        ["--filter", "kind=removed"],
    ):
        here = command_line.run("diff", *files, *more)
        there = command_line.run("diff", *files, *more, "--server", server.address)
        assert (there.returncode, there.stdout) == (here.returncode, here.stdout), more
        assert here.returncode == ("--fail-if" in more)
    done = command_line.run("diff", *files, "--beside", "n", "--server", server.address)
    assert done.returncode == 2 and b"leave --server out" in done.stderr


def test_two_profiles_are_compared_as_in_process(tmp_path):
    vectors = Path(__file__).resolve().parents[1] / "vectors" / "profiles"
    run = tmp_path / "plugins" / "profile" / "2026_01_01_00_00_00"
    run.mkdir(parents=True)
    (run / "host.xplane.pb").write_bytes((vectors / "scan_grad.xplane.pb").read_bytes())
    (tmp_path / "x.hlo").write_text(TEXT)
    earlier = str(vectors / "conv_grad.xplane.pb")
    with Server(Config(address="127.0.0.1:0", workers=1)) as server:
        for question in (
            ["profile", str(tmp_path), "--target", "h100"],
            ["profile", str(tmp_path), "--against", earlier],
            ["profile", str(tmp_path), "--against", earlier, "--json"],
            ["diff", earlier, str(run / "host.xplane.pb"), "--limit", "3"],
            ["profile", str(tmp_path / "x.hlo")],
            ["profile", str(tmp_path), "--against", str(tmp_path / "x.hlo")],
            ["profile", str(tmp_path), "--against", str(tmp_path / "none")],
        ):
            here = command_line.run(*question)
            there = command_line.run(*question, "--server", server.address)
            assert (there.returncode, there.stdout, there.stderr) == (here.returncode, here.stdout, here.stderr)
            assert (
                here.stdout or b"x.hlo is not a profile, or is damaged" in here.stderr or b"cannot read" in here.stderr
            )
        (run / "other.xplane.pb").write_bytes((vectors / "conv_grad.xplane.pb").read_bytes())
        several = command_line.run("profile", str(tmp_path), "--server", server.address)
        assert several.returncode and b"has a run of 2 files: a server takes one, such as" in several.stderr


def test_an_earlier_profile_is_content(handlers):
    content = (Path(__file__).resolve().parents[1] / "vectors" / "profiles" / "scan_grad.xplane.pb").read_bytes()
    with pytest.raises(InvalidArgumentError, match="PROFILE_TABLE_AGAINST needs an earlier profile") as caught:
        ask(handlers, "Profile", profile=content, table=v1.PROFILE_TABLE_AGAINST)
    assert caught.value.field == "earlier"
    for damaged in (b"no profile", __file__.encode(), gzip.compress(content)[:-20]):
        with pytest.raises(DecodeError) as found:
            ask(handlers, "Profile", profile=content, table=v1.PROFILE_TABLE_AGAINST, earlier=damaged)
        assert found.value.field == "earlier"
    with pytest.raises(LimitExceededError):
        ask(
            handlers,
            "Profile",
            profile=content,
            table=v1.PROFILE_TABLE_AGAINST,
            earlier=gzip.compress(b"\n" + bytes(40 << 20)),
        )
