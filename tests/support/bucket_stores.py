"""Stores of servers that keep modules in a bucket, and functions that put modules into them."""

from __future__ import annotations

import hashlib
import os
import threading
from pathlib import Path

import pytest

from xlashape_server.store import Store, Stored

__all__ = ["FACTS", "MODULE", "no_cloud", "put", "put_at_once", "replica"]

FACTS: dict[str, str | int] = {"format": "text", "instruction_count": 3}
"""The facts about a module that are stored with it."""
MODULE = b"HloModule m\n\nENTRY e {\n  ROOT x = f32[3] parameter(0)\n}\n"


def no_cloud(monkeypatch: pytest.MonkeyPatch) -> None:
    """Removes the environment variables about addresses and credentials of buckets. A test sets those that it needs."""
    for name in list(os.environ):
        if name.startswith(("AWS_", "AZURE_", "AZURITE_", "GOOGLE_")):
            monkeypatch.delenv(name)


def replica(path: Path, name: str, url: str, max_bytes: int = 1 << 30) -> Store:
    """The store of one server, with its cache in the folder `name` below `path`."""
    return Store(path / name, max_bytes=max_bytes, max_age=600, bucket=url)


def put(store: Store, content: bytes) -> tuple[Stored, bool]:
    """Stores content. Returns what was stored, and whether the store had it already."""
    return store.keep(content, hashlib.sha256(content).hexdigest(), FACTS)


def put_at_once(stores: list[Store], content: bytes) -> set[float]:
    """Has all stores put the same content at the same time, and asserts that one of them creates it. Returns the times
    of creation that the stores report.
    """
    found: list[tuple[Stored, bool]] = []
    threads = [threading.Thread(target=lambda store=store: found.append(put(store, content))) for store in stores]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sorted(was_there for _, was_there in found) == [False] + [True] * (len(stores) - 1)
    return {stored.created for stored, _ in found}
