"""ReportService: mistakes in requests, and requests that would fill a server."""

from __future__ import annotations

import gzip
import time

import command_line
import pytest

from xlashape.errors import DeadlineExceededError, DecodeError, InvalidArgumentError, LimitExceededError, NotFoundError
from xlashape.proto import v1
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
        ("Why", {"module": MODULE, "text": "f32[3]"}, "text"),
        ("Why", {}, "module"),
        ("Size", {"module": MODULE, "shape": {"text": "f32[3]"}}, "shape"),
        ("Memory", {"module": MODULE, "section": "totals"}, "section"),
        ("Memory", {"module": MODULE, "section": "by"}, "argument"),
        ("Memory", {"module": MODULE, "section": "by", "argument": "colour"}, "argument"),
        ("Memory", {"module": MODULE, "first_row": -1}, "first_row"),
        ("Cost", {"module": MODULE, "max_rows": -1}, "max_rows"),
        ("Cost", {"module": MODULE, "target": "z80"}, "target"),
    ],
)
def test_a_mistake_names_its_field(handlers, name, fields, field):
    with pytest.raises(InvalidArgumentError) as caught:
        ask(handlers, name, **fields)
    assert caught.value.field == field


def test_names_that_are_not_there(handlers):
    with pytest.raises(NotFoundError) as caught:
        ask(handlers, "Memory", module=MODULE, section="at", argument="nowhere")
    assert caught.value.field == "argument"
    with pytest.raises(NotFoundError, match="memory has no section 'timelin'"):
        ask(handlers, "Memory", module=MODULE, section="timelin")


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
    """Texts, gates, documents: the answer of the RPC has the same faces."""
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
    assert done.returncode == 1 and b"leave --server out" in done.stderr
