"""The caches of server and client: registered, bounded, clearable."""

from __future__ import annotations

from pathlib import Path

import pytest

from xlashape import caches
from xlashape.hlo import HloModule
from xlashape_server.config import Config
from xlashape_server.module_cache import ModuleCache
from xlashape_server.worker import make_server

MODULE = HloModule.parse("HloModule m\n\nENTRY e { ROOT x = f32[2] parameter(0) }\n")


def test_the_least_recently_used_modules_go_first() -> None:
    cache = ModuleCache(100)
    for key in "abc":
        cache.put(key, 30, MODULE)
    assert cache.get("a") is MODULE
    cache.put("d", 30, MODULE)
    assert [key for key in "abcd" if cache.get(key) is not None] == ["a", "c", "d"]
    assert cache.usage()[1:] == (3, 90, 100)
    cache.put("e", 101, MODULE)
    assert cache.get("e") is None
    cache.clear()
    assert cache.usage()[1:] == (0, 0, 100)
    assert cache.get("a") is None


def test_a_worker_registers_the_cache_of_its_modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    registered: list[caches.Cache] = []
    monkeypatch.setattr(caches, "register", registered.append)
    server, _, _ = make_server(Config(address="127.0.0.1:0", store_directory=str(tmp_path), module_cache_bytes=1234))
    server.stop(None)
    [cache] = registered
    assert cache.usage() == ("xlashape_server: decoded modules", 0, 0, 1234)


def test_the_caches_of_handlers_and_client_are_listed() -> None:
    import xlashape_server.handlers  # noqa: F401

    owners = [usage.owner for usage in caches.report()]
    for owner in (
        "xlashape_client.results.indexing._small_map",
        "xlashape_server.handlers.shapes.size_of",
        "xlashape_server: maps of responses",
    ):
        assert owner in owners
