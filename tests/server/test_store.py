"""The store of modules: content is named by its digest, processes share the store, it is bounded in bytes and age, and
stays intact after a crash."""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from xlashape.errors import InvalidArgumentError, LimitExceededError, NotFoundError
from xlashape_server.store import Store, Stored, module_name

FACTS: dict[str, str | int] = {"format": "text", "instruction_count": 3}


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path, max_bytes=1_000_000, max_age=60)


def put(store: Store, content: bytes) -> Stored:
    return store.keep(content, hashlib.sha256(content).hexdigest(), FACTS)[0]


def files(path: Path) -> list[Path]:
    return [each for each in path.rglob("*") if each.is_file() and each.name != "lock"]


def aged(store: Store, stored: Stored, seconds: float) -> None:
    path = next(Path(store._modules).glob(f"??/{stored.sha256}"))
    os.utime(path, (time.time() - seconds,) * 2)


def test_stored_content_is_read_back(store: Store) -> None:
    content = os.urandom(5000)
    stored = put(store, content)
    assert stored.name == module_name(hashlib.sha256(content).hexdigest())
    assert (stored.size_bytes, stored.facts) == (5000, FACTS)
    assert store.read(stored.name) == content
    assert store.read(stored.name, offset=4990, limit=100) == content[4990:]
    assert store.read(stored.name, offset=9000) == b""
    found = store.find(stored.name)
    assert (found.size_bytes, found.facts, found.sha256) == (5000, FACTS, stored.sha256)


def test_the_same_content_is_one_file(store: Store, tmp_path: Path) -> None:
    first = put(store, b"abc")
    again, already_present = store.keep(b"abc", first.sha256, {"format": "other"})
    assert already_present
    assert (again.facts, again.created) == (first.facts, pytest.approx(first.created))
    assert len(files(tmp_path)) == 1


def test_names_are_checked(store: Store) -> None:
    for name in ("", "modules/", "modules/" + "A" * 64, "modules/../lock", "x" * 10_000, "modules/" + "0" * 64 + "\n"):
        with pytest.raises(InvalidArgumentError, match="64 digits") as caught:
            store.find(name, field="module.name")
        assert caught.value.field == "module.name"


def test_unknown_modules_are_not_found(store: Store) -> None:
    name = "modules/" + "0" * 64
    for ask in (store.find, store.read, store.delete):
        with pytest.raises(NotFoundError, match="never uploaded") as caught:
            ask(name, field="name")
        assert (caught.value.kind, caught.value.name, caught.value.field) == ("module", name, "name")


def test_a_deleted_module_is_not_found(store: Store, tmp_path: Path) -> None:
    stored = put(store, b"abc")
    store.delete(stored.name)
    with pytest.raises(NotFoundError):
        store.find(stored.name)
    assert files(tmp_path) == []


def test_the_least_recently_used_module_is_evicted(tmp_path: Path) -> None:
    store = Store(tmp_path, max_bytes=4000, max_age=60)
    old, used, young = (put(store, bytes([i]) * 1000) for i in range(3))
    for age, stored in ((30, old), (20, used), (10, young)):
        aged(store, stored, age)
    store.find(old.name)
    put(store, b"x" * 1000)
    assert store.usage()[1] <= 4000
    with pytest.raises(NotFoundError):
        store.find(used.name)
    for kept in (old, young):
        assert store.read(kept.name) == store.read(kept.name)


def test_a_module_that_was_not_used_for_long_is_evicted(store: Store, tmp_path: Path) -> None:
    kept, gone = put(store, b"kept"), put(store, b"gone")
    aged(store, gone, 61)
    with pytest.raises(NotFoundError):
        store.find(gone.name)
    store.evict()
    assert [path.name for path in files(tmp_path)] == [kept.sha256]


def test_a_use_changes_the_time_of_use_and_not_of_creation(store: Store) -> None:
    stored = put(store, b"abc")
    aged(store, stored, 50)
    found = store.find(stored.name)
    assert time.time() - found.used < 5
    assert found.created == pytest.approx(stored.created, abs=1e-3)


@pytest.mark.parametrize("size", [1000, 1001])  # the file is larger than the content, since it has the facts too
def test_content_larger_than_the_store_is_refused(tmp_path: Path, size: int) -> None:
    store = Store(tmp_path, max_bytes=1000, max_age=60)
    with pytest.raises(LimitExceededError, match="at most 1000 bytes") as caught:
        put(store, b"x" * size)
    assert (caught.value.limit, caught.value.maximum) == ("store_bytes", 1000)
    assert files(tmp_path) == []


@pytest.mark.parametrize("damage", ["cut", "flipped", "emptied", "facts"])
def test_a_damaged_file_counts_as_absent_and_can_be_stored_again(store: Store, damage: str) -> None:
    content = os.urandom(1000)
    stored = put(store, content)
    path = next(store._modules.glob(f"??/{stored.sha256}"))
    whole = path.read_bytes()
    path.write_bytes(
        {
            "cut": whole[:-5],
            "flipped": bytes([whole[0] ^ 1]) + whole[1:],
            "emptied": b"",
            "facts": whole[:1000] + b"?" + whole[1001:],
        }[damage]
    )
    with pytest.raises(NotFoundError):
        store.read(stored.name)
    assert put(store, content).sha256 == stored.sha256
    assert store.read(stored.name) == content


def test_abandoned_uploads_are_removed_and_others_are_not(store: Store, tmp_path: Path) -> None:
    (tmp_path / "incoming" / "dead").write_bytes(b"abc")
    os.utime(tmp_path / "incoming" / "dead", (time.time() - 7200,) * 2)
    with store._new_file() as written:
        store.evict()
        assert Path(written.name).exists()
    stored = put(store, b"abc")
    assert [path.name for path in files(tmp_path)] == [stored.sha256]


def test_a_new_store_finds_what_the_old_one_kept(store: Store, tmp_path: Path) -> None:
    stored = put(store, b"abc")
    assert Store(tmp_path, max_bytes=1000, max_age=60).read(stored.name) == b"abc"


WRITER = textwrap.dedent(
    """
    import hashlib, sys
    from xlashape.errors import NotFoundError
    from xlashape_server.store import Store

    store = Store(sys.argv[1], max_bytes=60_000, max_age=60)
    print("up", flush=True)
    for i in range(int(sys.argv[2])):
        content = b"%d" % (i % 7) * 10_000
        stored, _ = store.keep(content, hashlib.sha256(content).hexdigest(), {"format": "text"})
        with store._locked():  # without the lock, a file that comes counts beside one that goes for it
            used = store.usage()[1]
        assert used <= 60_000, used
        try:
            assert store.read(stored.name) == content
        except NotFoundError:
            pass  # it made room for what another process stored
        if i % 5 == 0:
            try:
                store.delete(stored.name)
            except NotFoundError:
                pass
    print("done", flush=True)
    """
)


@pytest.fixture
def writer(tmp_path: Path) -> Callable[[int], subprocess.Popen[str]]:
    return lambda rounds: subprocess.Popen(
        [sys.executable, "-c", WRITER, str(tmp_path), str(rounds)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_processes_share_the_store(writer: Callable[[int], subprocess.Popen[str]], tmp_path: Path) -> None:
    running = [writer(60) for _ in range(3)]
    for one in running:
        out, err = one.communicate(timeout=60)
        assert (out, err) == ("up\ndone\n", "")
    assert Store(tmp_path, max_bytes=60_000, max_age=60).usage()[1] <= 60_000


def test_a_killed_process_leaves_the_store_intact(
    writer: Callable[[int], subprocess.Popen[str]], tmp_path: Path
) -> None:
    for pause in (0.0, 0.01, 0.05):
        dying = writer(10**9)
        assert dying.stdout is not None
        dying.stdout.readline()
        time.sleep(pause)
        dying.send_signal(signal.SIGKILL)
        dying.communicate()
        survivor = writer(14)
        assert survivor.communicate(timeout=60) == ("up\ndone\n", "")
    store = Store(tmp_path, max_bytes=60_000, max_age=60)
    for path in store._modules.glob("??/*"):
        assert hashlib.sha256(store.read(f"modules/{path.name}")).hexdigest() == path.name
