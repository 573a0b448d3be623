"""The caches of server and client: they are registered, bounded, and can be cleared."""

from __future__ import annotations

from pathlib import Path

import pytest

from xlashape.base import caches
from xlashape.errors import LimitExceededError
from xlashape.hlo import HloModule
from xlashape.proto import services, v1
from xlashape.reports.report import report_of
from xlashape_server.config import Config
from xlashape_server.handlers.hlo import HloHandlers
from xlashape_server.handlers.reports import ReportHandlers
from xlashape_server.modules import MOST_MODULES, Modules
from xlashape_server.store import Store

NEVER = float("inf")
MODULE = HloModule.parse("HloModule m\n\nENTRY e { ROOT x = f32[2] parameter(0) }\n")


def text_of(name: str) -> bytes:
    return f"HloModule {name}\n\nENTRY e {{ ROOT x = f32[2] parameter(0) }}\n".encode()


@pytest.fixture
def modules(tmp_path: Path) -> Modules:
    return Modules(Config(), Store(tmp_path, max_bytes=1 << 30, max_age=60))


def test_the_least_recently_used_modules_go_first(modules: Modules) -> None:
    first, second = (modules.decode(text_of(name), ("module",), is_text=True) for name in ("first", "second"))
    for number in range(MOST_MODULES - 1):
        assert modules.decode(text_of("first"), ("module",), is_text=True) is first
        modules.decode(text_of(f"m{number}"), ("module",), is_text=True)
    assert modules.decode(text_of("first"), ("module",), is_text=True) is first
    assert modules.decode(text_of("second"), ("module",), is_text=True) is not second
    modules.forget()
    assert modules.decode(text_of("first"), ("module",), is_text=True) is not first


def test_what_is_found_out_is_kept_with_the_module(modules: Modules) -> None:
    module = modules.decode(text_of("m"), ("module",), is_text=True)
    found = modules.found(module, b"question", object)
    assert modules.found(module, b"question", object) is found
    assert modules.found(module, b"another", object) is not found
    for number in range(16):
        modules.found(module, b"%d" % number, object)
    assert modules.found(module, b"question", object) is not found
    assert modules.found(MODULE, b"question", object) is not modules.found(MODULE, b"question", object)


def test_the_pages_of_a_report_are_computed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = Config(store_directory=str(tmp_path))
    handlers = ReportHandlers(config, Modules(config, Store.of(config)))
    (method,) = [
        each
        for service in services()
        if service.name == "ReportService"
        for each in service.methods
        if each.name == "Memory"
    ]
    handle = handlers.handler(method, "memory")

    def page(**fields: object) -> v1.MemoryResponse:
        module = v1.ModuleInput(text=MODULE.to_text())
        return v1.MemoryResponse.FromString(
            handle(v1.MemoryRequest(module=module, **fields).SerializeToString(), NEVER)
        )

    whole = page()
    monkeypatch.setattr(type(report_of("memory")), "run", None)
    assert page() == whole
    assert page(page_size=1).row_count == len(whole.peak_buffers)
    assert page(table=v1.MEMORY_TABLE_TIMELINE, page_size=1).timeline[0].step == 0
    with pytest.raises(TypeError):  # another question
        page(space=0)


def test_an_elided_constant_holds_nothing(modules: Modules) -> None:
    text = """HloModule m

f {
  p = f32[] parameter(0)
  ROOT c = f32[100000000] constant({...})
}

ENTRY e {
  t = (f32[2], s8[200000000]) constant(({1, 2}, {...}))
  p = f32[] parameter(0)
  ROOT r = f32[100000000] call(p), to_apply=f
}
"""
    module = modules.decode(text.encode(), ("module",), is_text=True)
    assert [i.proto.HasField("literal") for i in module.instructions() if i.proto.opcode == "constant"] == [False] * 2


LONG_NAME = f"n{'a' * 100_000}"
NAMED = "\n".join([
    "HloModule m", "", "ENTRY e {", f"  {LONG_NAME} = f32[2] parameter(0)",
    *[f"  x.{i} = f32[2] negate({LONG_NAME})" for i in range(300)], "  ROOT r = f32[2] negate(x.0)", "}", "",
])  # fmt: skip


def test_a_page_of_long_names_is_refused(modules: Modules) -> None:
    handlers = HloHandlers(Config(max_request_bytes=1 << 20), modules)
    request = v1.ListInstructionsRequest(module=v1.ModuleInput(text=NAMED))
    with pytest.raises(LimitExceededError, match="allowed") as caught:
        handlers.list_instructions(request.SerializeToString(), 1e12)
    assert (caught.value.limit, caught.value.field) == ("response_bytes", "page_size")
    request.page_size = 2
    handlers.list_instructions(request.SerializeToString(), 1e12)


def test_the_caches_of_handlers_and_client_are_listed() -> None:
    import xlashape_client.results  # noqa: F401
    import xlashape_server.handlers  # noqa: F401

    owners = [usage.owner for usage in caches.report()]
    for owner in (
        "xlashape.reports.structures._map_of_bytes",
        "xlashape_server.handlers.shapes.size_of",
        "xlashape_server: maps of responses",
    ):
        assert owner in owners
