"""The caches of server and client: they are registered, bounded, and can be cleared."""

from __future__ import annotations

import copy
from pathlib import Path

import pytest

from xlashape.base import caches
from xlashape.hlo import HloModule
from xlashape.proto import services, v1
from xlashape.reports.memory import memory
from xlashape.reports.report import report_of
from xlashape_server.config import Config
from xlashape_server.handlers.reports import ReportHandlers
from xlashape_server.modules import ModuleCache, Modules
from xlashape_server.store import Store
from xlashape_server.worker import make_server

NEVER = float("inf")
MODULE = HloModule.parse("HloModule m\n\nENTRY e { ROOT x = f32[2] parameter(0) }\n")


def test_the_least_recently_used_modules_go_first() -> None:
    cache = ModuleCache(100)
    for key in "abc":
        cache.keep(key, 30, MODULE)
    kept = cache.get("a")
    assert kept is not None
    assert kept.module is MODULE
    cache.keep("d", 30, MODULE)
    assert [key for key in "abcd" if cache.get(key) is not None] == ["a", "c", "d"]
    assert cache.usage()[1:] == (3, 90, 100)
    cache.keep("e", 101, MODULE)
    assert cache.get("e") is None
    cache.clear()
    assert cache.usage()[1:] == (0, 0, 100)
    assert cache.get("a") is None


def test_reports_are_kept_with_their_modules() -> None:
    other = HloModule.parse("HloModule n\n\nENTRY e { ROOT x = f32[2] parameter(0) }\n")
    cache = ModuleCache(100)
    cache.keep("a", 30, MODULE)
    answer, second = memory(MODULE), memory(MODULE)
    cache.put_report(MODULE, b"memory", 20, answer)
    cache.put_report(other, b"memory", 20, second)  # a report about a module that is not kept
    assert cache.report(MODULE, b"memory") is answer
    assert cache.report(other, b"memory") is cache.report(MODULE, b"why") is None
    assert cache.usage()[1:] == (1, 50, 100)
    cache.put_report(MODULE, b"why", 80, second)  # module and report together exceed the cache
    assert (cache.report(MODULE, b"memory"), cache.report(MODULE, b"why")) == (answer, None)
    assert cache.usage()[1:] == (1, 50, 100)
    cache.put_report(MODULE, b"why", 70, second)
    assert cache.usage()[1:] == (1, 100, 100)
    cache.keep("b", 40, other)  # the first module leaves the cache, with the reports about it
    assert cache.report(MODULE, b"why") is None
    assert cache.usage()[1:] == (1, 40, 100)
    cache.clear()
    assert cache.usage()[1:] == (0, 0, 100)


def test_a_report_makes_other_modules_leave_that_were_used_less_recently() -> None:
    cache, first, last = ModuleCache(100), copy.copy(MODULE), copy.copy(MODULE)
    for name, module in (("first", first), ("asked", MODULE), ("last", last)):
        cache.keep(name, 30, module)
    cache.put_report(first, b"memory", 10, "kept with its module")
    cache.put_report(MODULE, b"memory", 30, "answer")
    assert cache.report(MODULE, b"memory") == "answer"
    assert [cache.get(name) is not None for name in ("first", "asked", "last")] == [False, True, True]
    assert cache.usage().bytes == 90
    cache.put_report(MODULE, b"why", 70, "as large as all the rest: the other report goes too")
    assert [cache.get(name) is not None for name in ("asked", "last")] == [True, False]
    assert (cache.report(MODULE, b"memory"), cache.usage().bytes) == (None, 100)
    cache.put_report(MODULE, b"reads", 71, "there is never room beside the module")
    assert (cache.report(MODULE, b"reads"), cache.usage().bytes) == (None, 100)


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


def test_what_a_request_has_of_unknown_fields_is_not_kept(tmp_path: Path) -> None:
    """An unknown field may be as large as a request. Kept with each report, it would fill the memory of a worker."""
    config = Config(store_directory=str(tmp_path))
    modules = Modules(config, Store.of(config))
    (method,) = [each for service in services() for each in service.methods if each.name == "Verify"]
    handle = ReportHandlers(config, modules).handler(method, "verify")
    request = v1.VerifyRequest(module=v1.ModuleInput(text=MODULE.to_text())).SerializeToString()
    handle(request, NEVER)
    before = modules.cache.usage()
    unknown = b"\xfa\x7f" + b"\x80\x80\x04" + bytes(1 << 16)  # field 2047, of 64 KiB
    handle(request + unknown, NEVER)
    handle(request + unknown[:-1] + b"x", NEVER)
    assert modules.cache.usage() == before


def test_a_worker_registers_the_cache_of_its_modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    registered: list[caches.Cache] = []
    monkeypatch.setattr(caches, "register", registered.append)
    server, _, _ = make_server(Config(address="127.0.0.1:0", store_directory=str(tmp_path), module_cache_bytes=1234))
    server.stop(None)
    # Modules that are imported for the first time register caches, too.
    [modules] = [each for each in registered if each.usage()[0].startswith("xlashape_server")]
    assert modules.usage() == ("xlashape_server: decoded modules", 0, 0, 1234)


def test_the_caches_of_handlers_and_client_are_listed() -> None:
    import xlashape_server.handlers  # noqa: F401

    owners = [usage.owner for usage in caches.report()]
    for owner in (
        "xlashape.reports.structures._map_of_bytes",
        "xlashape_server.handlers.shapes.size_of",
        "xlashape_server: maps of responses",
    ):
        assert owner in owners
