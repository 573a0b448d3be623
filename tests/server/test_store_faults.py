"""Faults of the file system below the store: the errors that callers get, the answer of the readiness check, and
recovery when the fault has ended."""

from __future__ import annotations

import errno
import hashlib
import os
import resource
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from server_processes import ServerProcess, children, wait_until
from small_disk import SmallDisk, small_disk

from xlashape.errors import LimitExceededError, NotFoundError, UnavailableError, XlashapeError
from xlashape_client import Client
from xlashape_server import Config
from xlashape_server.store import Store, Stored, fault, faults

FACTS: dict[str, str | int] = {"format": "text", "instruction_count": 3}


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    made = small_disk(tmp_path / "disk")
    yield made
    made.unmount()


def put(store: Store, content: bytes) -> Stored:
    return store.keep(content, hashlib.sha256(content).hexdigest(), FACTS)[0]


def opened(path: Path, max_bytes: int = 1 << 30) -> Store:
    return Store(path, max_bytes=max_bytes, max_age=600)


@pytest.mark.parametrize("number", sorted(errno.errorcode))
def test_every_error_of_the_system_is_one_of_the_library(number: int) -> None:
    with pytest.raises((LimitExceededError, UnavailableError)) as caught, faults():
        raise OSError(number, os.strerror(number))
    assert os.strerror(number) in str(caught.value) or "is gone" in str(caught.value)


def test_errors_of_the_library_pass() -> None:
    for error in (NotFoundError("no"), LimitExceededError("no")):
        with pytest.raises(type(error)) as caught, faults():
            raise error
        assert caught.value is error
    assert isinstance(fault(OSError("no number")), UnavailableError)


def test_a_store_that_can_only_be_read_is_read(disk: SmallDisk) -> None:
    store = opened(disk.path / "store")
    stored = put(store, b"abc")
    disk.set_writable(False)
    assert store.read(stored.name) == b"abc"
    assert opened(disk.path / "store").find(stored.name).facts == FACTS
    with pytest.raises(NotFoundError):
        store.find("modules/" + "0" * 64)
    for change in (lambda: put(store, b"def"), lambda: store.delete(stored.name), store.evict, store.check):
        with pytest.raises(UnavailableError, match="cannot be written: Read-only file system"):
            change()
    disk.set_writable(True)
    store.check()
    assert store.read(put(store, b"def").name) == b"def"


def test_a_full_disk_refuses_uploads_and_keeps_what_it_has(disk: SmallDisk) -> None:
    store = opened(disk.path / "store")
    stored = put(store, b"abc" * 1000)
    filler = disk.fill()
    for change in (lambda: put(store, b"def" * 10_000), store.check):
        with pytest.raises(LimitExceededError, match="no space left") as caught:
            change()
        assert caught.value.limit == "store_space"
    assert store.read(stored.name) == b"abc" * 1000
    assert list((disk.path / "store" / "incoming").iterdir()) == []
    filler.unlink()
    store.check()
    put(store, b"def" * 10_000)


def test_without_file_descriptors_the_caller_is_to_try_again(tmp_path: Path) -> None:
    store = opened(tmp_path)
    stored = put(store, b"abc")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    highest = os.open(os.devnull, os.O_RDONLY)
    os.close(highest)
    questions: list[Callable[[], object]] = [
        lambda: store.find(stored.name),
        lambda: store.read(stored.name),
        lambda: put(store, b"def"),
        lambda: store.delete(stored.name),
    ]
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (highest, hard))
        for question in questions:
            with pytest.raises(LimitExceededError, match="no more files") as caught:
                question()
            assert caught.value.limit == "open_files"
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert store.read(stored.name) == b"abc"


def test_a_directory_that_was_removed_is_made_again(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    store = opened(tmp_path / "store")
    stored = put(store, b"abc")
    shutil.rmtree(tmp_path / "store")
    with pytest.raises(NotFoundError):
        store.find(stored.name)
    assert "was removed, and is made again" in caplog.text
    assert put(store, b"abc").name == stored.name
    assert store.read(stored.name) == b"abc"


def test_nothing_is_written_below_a_mount_that_is_gone(disk: SmallDisk) -> None:
    store = opened(disk.path)
    stored = put(store, b"abc")
    disk.unmount()
    for question in (lambda: store.find(stored.name), lambda: put(store, b"def"), store.check):
        with pytest.raises(UnavailableError, match="is the store.s file system mounted"):
            question()
    assert list(disk.path.iterdir()) == []


def damage(store: Store, stored: Stored, at: int) -> None:
    path = next(store._modules.glob(f"??/{stored.sha256}"))
    with path.open("r+b") as file:
        file.seek(at, os.SEEK_SET if at >= 0 else os.SEEK_END)
        byte = file.read(1)[0]
        file.seek(-1, os.SEEK_CUR)
        file.write(bytes([byte ^ 4]))


MIB = 1 << 20
SIZE = 3 * MIB + 100


@pytest.mark.parametrize("at", [0, MIB, 2 * MIB + 7, SIZE - 1, SIZE + 20, -1, -40])
def test_a_flipped_bit_is_never_served(tmp_path: Path, at: int, caplog: pytest.LogCaptureFixture) -> None:
    store = opened(tmp_path)
    content = os.urandom(SIZE)
    stored = put(store, content)
    damage(store, stored, at)
    with pytest.raises(NotFoundError, match="was damaged; upload it again"):
        for read in range(0, SIZE, 300_000):
            assert store.read(stored.name, offset=read, limit=300_000) == content[read : read + 300_000]
    [line] = [each for each in caplog.records if "is damaged" in each.message]
    assert line.levelname == "ERROR"
    assert not store._path(stored.sha256).exists()
    with pytest.raises(NotFoundError):
        store.find(stored.name)
    assert put(store, content).sha256 == stored.sha256
    assert store.read(stored.name, offset=SIZE - 5) == content[-5:]


def test_a_whole_file_that_took_the_place_of_a_damaged_one_stays(tmp_path: Path) -> None:
    """A reader finds damage in a file that it has open, after another process has replaced it by an intact file."""
    store = opened(tmp_path)
    stored = put(store, b"abc")
    path = store._path(stored.sha256)
    whole = path.read_bytes()
    path.write_bytes(whole[:-1] + b"x")
    with pytest.raises(NotFoundError), store._opened(stored.sha256) as module:
        repaired = tmp_path / "repaired"
        repaired.write_bytes(whole)
        repaired.replace(path)
        module.check()
    assert store.read(stored.name) == b"abc"


def test_a_damaged_module_that_is_uploaded_again_is_repaired(tmp_path: Path) -> None:
    """Nobody has noticed the damage before the upload. The upload is acknowledged, so the module must be readable."""
    store = opened(tmp_path)
    stored = put(store, b"abc" * 1000)
    damage(store, stored, 5)
    assert store.keep(b"abc" * 1000, stored.sha256, FACTS)[1] is False
    assert store.read(stored.name) == b"abc" * 1000


@pytest.mark.parametrize("size", [0, 1, MIB - 1, MIB, MIB + 1, 3 * MIB])
def test_parts_are_parts_of_the_whole(tmp_path: Path, size: int) -> None:
    store = opened(tmp_path)
    content = os.urandom(size)
    stored = put(store, content)
    for offset in {0, 1, size // 2, MIB - 1, MIB, size - 1, size, size + 5} - {-1}:
        for limit in (0, 1, 2, MIB, 2 * MIB, None):
            expected = content[offset:] if limit is None else content[offset : offset + limit]
            assert store.read(stored.name, offset=offset, limit=limit) == expected


def test_the_next_server_removes_a_file_that_a_killed_one_was_writing(tmp_path: Path) -> None:
    (tmp_path / "incoming").mkdir()
    (tmp_path / "incoming" / "part").write_bytes(b"abc")
    with ServerProcess(Config(address="127.0.0.1:0", workers=1, store_directory=str(tmp_path))) as server:
        assert not (tmp_path / "incoming" / "part").exists()
        assert server.stop() == 0


def test_a_file_that_is_being_written_stays_whatever_the_clock_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, other = opened(tmp_path), opened(tmp_path)
    now = time.time()
    with store._new_file() as file:
        monkeypatch.setattr(time, "time", lambda: now + 86_400)
        other.evict()
        assert Path(file.name).exists()
    assert list((tmp_path / "incoming").iterdir()) == []


MODULE = b"HloModule m\n\nENTRY e {\n  ROOT x = f32[3] parameter(0)\n}\n"


def code_of(question: Callable[[], object]) -> str:
    try:
        question()
    except XlashapeError as error:
        return error.code
    return "ok"


def test_readiness_follows_the_store(disk: SmallDisk) -> None:
    config = Config(address="127.0.0.1:0", workers=1, store_directory=str(disk.path / "store"))
    with (
        ServerProcess(config) as server,
        Client(server.address, timeout=20) as client,
        grpc.insecure_channel(server.address) as channel,
    ):
        health = health_pb2_grpc.HealthStub(channel)

        def states() -> dict[str, bool]:
            serving = health_pb2.HealthCheckResponse.SERVING
            names = ("", "ready", "live", "xlashape.v1.HloService", "xlashape.v1.ShapeService")
            return {
                name: health.Check(health_pb2.HealthCheckRequest(service=name), timeout=20).status == serving
                for name in names
            }

        up = dict.fromkeys(("", "ready", "live", "xlashape.v1.HloService", "xlashape.v1.ShapeService"), True)
        down = {**up, "": False, "ready": False, "xlashape.v1.HloService": False}
        wait_until(lambda: states() == up)
        module = client.upload_module(MODULE)
        for break_it, repair, code in (
            (disk.fill, lambda: (disk.path / "filler").unlink(), "limit_exceeded"),
            (lambda: disk.set_writable(False), lambda: disk.set_writable(True), "unavailable"),
        ):
            break_it()
            wait_until(lambda: states() == down)
            assert code_of(lambda: client.upload_module(MODULE + b"//" + b" " * 100_000)) == code  # called at once
            assert client.get_module(module.name).module_name == "m"
            assert client.linear_index("f32[3,5]{1,0:T(2,2)}", (2, 3)) == 17
            repair()
            wait_until(lambda: states() == up)
        shutil.rmtree(disk.path / "store")
        assert code_of(lambda: client.get_module(module.name)) == "not_found"
        wait_until(lambda: states() == up)
        assert client.upload_module(MODULE).name == module.name
        assert [line["level"] for line in server.logged("not ready")] == ["error", "error"]
        assert children(server.process.pid)
        assert server.stop() == 0


def test_a_server_that_refused_an_upload_for_space_is_not_ready_until_there_is_space(disk: SmallDisk) -> None:
    """A disk that still has room for small files is full for a large one: all workers say so."""
    config = Config(address="127.0.0.1:0", workers=2, store_directory=str(disk.path / "store"))
    free = os.statvfs(disk.path)
    large = MODULE + b"//" + b" " * (free.f_bavail * free.f_frsize // 2)
    with ServerProcess(config) as server, Client(server.address, timeout=20) as client:

        def is_ready() -> set[bool]:
            found: set[bool] = set()
            for _ in range(8):  # connections to both workers
                with grpc.insecure_channel(server.address, options=[("grpc.use_local_subchannel_pool", 1)]) as channel:
                    asked = health_pb2.HealthCheckRequest(service="ready")
                    answer = health_pb2_grpc.HealthStub(channel).Check(asked, timeout=20)
                    found.add(answer.status == health_pb2.HealthCheckResponse.SERVING)
            return found

        wait_until(lambda: is_ready() == {True})
        filler = disk.path / "half"
        filler.write_bytes(bytes(free.f_bavail * free.f_frsize * 6 // 10))
        assert code_of(lambda: client.upload_module(MODULE)) == "ok"
        assert is_ready() == {True}
        assert code_of(lambda: client.upload_module(large)) == "limit_exceeded"
        wait_until(lambda: is_ready() == {False})
        filler.unlink()
        wait_until(lambda: is_ready() == {True})
        assert code_of(lambda: client.upload_module(large)) == "ok"
        assert server.stop() == 0


def test_others_on_the_machine_cannot_read_the_store(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        put(opened(tmp_path / "a" / "store"), b"module")
    finally:
        os.umask(before)
    store = tmp_path / "a" / "store"
    assert {path.stat().st_mode & 0o077 for path in (store, store / "modules", store / "incoming")} == {0}
