"""Stores with a bucket behind them, as servers have them, and modules that are put into them."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from xlashape_server.store import Store, Stored

__all__ = ["FACTS", "MODULE", "no_cloud", "put", "put_at_once", "replica"]

FACTS: dict[str, str | int] = {"format": "text", "instruction_count": 3}
"""What is stored beside a module."""
MODULE = b"HloModule m\n\nENTRY e {\n  ROOT x = f32[3] parameter(0)\n}\n"


def no_cloud(monkeypatch: pytest.MonkeyPatch) -> None:
    """Removes the environment variables that say where buckets are and with which credentials: a test sets its own."""
    for name in list(os.environ):
        if name.startswith(("AWS_", "AZURE_", "AZURITE_", "GOOGLE_")):
            monkeypatch.delenv(name)


def replica(path: Path, name: str, url: str, max_bytes: int = 1 << 30) -> Store:
    """The store of one server, with its cache in the folder `name` below `path`."""
    return Store(path / name, max_bytes=max_bytes, max_age=600, bucket=url)


def put(store: Store, content: bytes) -> tuple[Stored, bool]:
    """Stores content; with whether it was there."""
    with store.upload() as upload:
        upload.write(content)
        return upload.store(FACTS)


def put_at_once(stores: list[Store], content: bytes) -> set[float]:
    """Has all stores put the same content at the same time, of which one has to create it. When it was created, as they
    say.
    """
    found: list[tuple[Stored, bool]] = []
    threads = [threading.Thread(target=lambda store=store: found.append(put(store, content))) for store in stores]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sorted(was_there for _, was_there in found) == [False] + [True] * (len(stores) - 1)
    return {stored.created for stored, _ in found}
