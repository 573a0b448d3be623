"""The address of metrics, and the files in which workers count: they are announced and removed, the disk is full, or
the files are removed or damaged."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path

import grpc
import pytest

from tests.support.scraped_metrics import SHAPE, asks, refused, scraped, value
from tests.support.server_processes import ServerProcess, children, wait_until
from tests.support.small_disk import small_disk
from xlashape.errors import InvalidArgumentError, InvalidIndexError, LimitExceededError, UnavailableError
from xlashape_client import Client
from xlashape_server import Config, Server


def test_the_address_is_announced_and_its_files_are_removed(tmp_path: Path) -> None:
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    config = Config(address="127.0.0.1:0", metrics="127.0.0.1:0", workers=1)
    with ServerProcess(config, env=environment) as killed:
        assert "xlashape_workers 1" in scraped(killed.event["metrics"])
        [left] = tmp_path.glob("xlashape-metrics-*")
        workers = children(killed.process.pid)
        killed.process.kill()
        killed.process.wait()
    wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in workers))
    with ServerProcess(config, env=environment) as server:
        assert not left.exists()
        assert len([*tmp_path.glob("xlashape-metrics-*")]) == 1
        assert server.stop() == 0
    assert [*tmp_path.iterdir()] == []


def test_there_are_no_metrics_unless_they_are_asked_for(tmp_path: Path) -> None:
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    with ServerProcess(Config(address="127.0.0.1:0", workers=1), env=environment) as server:
        assert "metrics" not in server.event
        assert not [*tmp_path.glob("xlashape-metrics-*")]
        [worker] = children(server.process.pid)
        assert "prometheus" not in Path(f"/proc/{worker}/maps").read_text()


def test_an_address_that_is_taken_is_an_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(UnavailableError, match=f"cannot listen on {address}"):
            Server(Config(address="127.0.0.1:0", metrics=address, workers=1)).start()


def test_an_address_that_is_none_names_the_setting() -> None:
    with pytest.raises(InvalidArgumentError, match="metrics: expected HOST:PORT, found 'nowhere'"):
        Config(metrics="nowhere")


def test_a_disk_without_room_is_an_error_at_the_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The system ends a worker that writes to a mapped file on a full disk, so the room is taken at the start."""
    disk = small_disk(tmp_path / "disk", 600 << 10)
    try:
        monkeypatch.setattr("tempfile.tempdir", str(disk.path))
        with pytest.raises(UnavailableError, match="No space left on device"):
            Server(Config(address="127.0.0.1:0", metrics="127.0.0.1:0", workers=1)).start()
        assert not [*disk.path.glob("xlashape-metrics-*")]
    finally:
        disk.unmount()


def test_a_disk_that_is_full_later_does_no_harm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = small_disk(tmp_path / "disk", 3 << 20)
    try:
        monkeypatch.setattr("tempfile.tempdir", str(disk.path))
        config = Config(
            address="127.0.0.1:0", metrics="127.0.0.1:0", workers=1, log_level="error",
            store_directory=str(tmp_path / "store"),
        )  # fmt: skip
        with Server(config) as server:
            [pid] = server.worker_pids
            disk.fill()
            for code in (InvalidIndexError, LimitExceededError):
                refused(server, code, lambda client, code=code: _wrong(client, code))
            asks(server, 10)
            with pytest.raises(grpc.RpcError), grpc.insecure_channel(server.address) as channel:
                channel.unary_unary("/some.other/Method")(b"", timeout=20)
            wait_until(lambda: value(server, "xlashape_calls_total") == 13)
            assert server.worker_pids == [pid]
    finally:
        disk.unmount()


def _wrong(client: Client, kind: type[Exception]) -> None:
    if kind is InvalidIndexError:
        client.linear_index(SHAPE, (3, 0))
    client.byte_size("f32[1]" + " " * (3 << 20))


@pytest.mark.parametrize("harm", ["directory removed", "files removed", "files damaged"])
def test_calls_and_metrics_are_answered_whatever_happens_to_the_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, harm: str
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    config = Config(
        address="127.0.0.1:0", metrics="127.0.0.1:0", workers=1, log_level="error",
        store_directory=str(tmp_path / "store"),
    )  # fmt: skip
    with Server(config) as server:
        asks(server, 3)
        [directory] = tmp_path.glob("xlashape-metrics-*")
        if harm == "directory removed":
            shutil.rmtree(directory)
        for path in directory.glob("*.db"):
            if harm == "files removed":
                path.unlink()
            else:
                with path.open("r+b") as file:
                    file.write((4000).to_bytes(4, "little") + b"\xff" * 4092)
        assert value(server, "xlashape_workers") == 1
        [pid] = server.worker_pids
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda: server.worker_pids not in ([], [pid]) and value(server, "xlashape_workers_answering") == 1)
        asks(server, 3)
        if harm != "directory removed":
            wait_until(lambda: value(server, "xlashape_calls_total", method="ShapeService/LinearIndex") == 3)
        assert value(server, "xlashape_worker_restarts_total") == 1


def test_the_files_have_room_for_everything(tmp_path: Path) -> None:
    """Counts every method, code, limit and stage. This runs in a process of its own, since prometheus_client has one
    file for each process."""
    program = """
import sys
from pathlib import Path
from google.rpc import code_pb2
from xlashape.proto import services
from xlashape_server.telemetry.catalogue import allocate
from xlashape_server.telemetry.recorder import Recorder
directory = Path(sys.argv[1])
allocate(directory, 0)
before = {path.name: path.stat().st_size for path in directory.iterdir()}
names = [f"{service.name}/{method.name}" for service in services() for method in service.methods] + ["Health/Check", "Health/Watch", "ServerReflection/ServerReflectionInfo"]
recorder = Recorder(str(directory), 0, names)
for name in (*names, "Some/Other", "Yet/Another"):
    for code in code_pb2.Code.values():
        recorder.ended(name, code, 0.001)
for number in range(1000):
    recorder.refused(f"limit_with_a_rather_long_name_{number}")
for stage in ("receiving", "waiting", "working", "sending"):
    recorder.cut_off(stage)
assert before == {path.name: path.stat().st_size for path in directory.iterdir()}
for path in directory.iterdir():
    assert int.from_bytes(path.read_bytes()[:4], sys.byteorder) < 0.75 * before[path.name], path
from prometheus_client.multiprocess import MultiProcessCollector
limits = [sample for metric in MultiProcessCollector(None, str(directory)).collect() if metric.name == "xlashape_calls_refused" for sample in metric.samples]
assert len(limits) == 65 and {sample.value for sample in limits if sample.labels["limit"] == "other"} == {936.0}, limits
"""
    subprocess.run([sys.executable, "-c", program, str(tmp_path)], check=True, timeout=60)
