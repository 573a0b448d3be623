"""The log: every line is JSON, whichever library writes it, calls have lines, and the server's start says where modules
are kept and who can reach it."""

from __future__ import annotations

import io
import json
import logging
import os
import signal
import socket
from pathlib import Path

import pytest
from server_processes import ServerProcess, children, wait_until

from xlashape.errors import NotFoundError
from xlashape_client import Client
from xlashape_server import Config
from xlashape_server.process import CallLog, OutputLines, configure, set_level


@pytest.mark.parametrize("how", ["garbage for TLS", "stacks"])
def test_every_line_is_json(
    tmp_path: Path, how: str, tls_pair: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """gRPC's core writes plain text about failed handshakes, and faulthandler writes stacks as plain text."""
    # The command line silences gRPC, and its tests run in this process.
    monkeypatch.delenv("GRPC_VERBOSITY", raising=False)
    certificate, key = tls_pair
    config = Config(address="127.0.0.1:0", workers=1, tls_certificate=certificate, tls_key=key)
    with ServerProcess(config) as server:
        host, port = server.address.split(":")
        [worker] = children(server.process.pid)
        if how == "stacks":
            os.kill(worker, signal.SIGUSR1)
            wait_until(lambda: bool(server.logged("most recent call first")))
        else:
            for _ in range(20):
                with socket.create_connection((host, int(port)), timeout=10) as stranger:
                    stranger.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n" * 20)
                    stranger.settimeout(2)
                    try:
                        while stranger.recv(4096):
                            pass
                    except OSError:
                        pass
        wait_until(lambda: any("worker_pid" in line for line in server.lines()))
        assert server.stop() == 0
        for line in server.lines():
            assert {"time", "level", "message", "pid"} <= line.keys()
            assert line["level"] in ("info", "warning") or "stopping" in line["message"]


def test_the_signal_for_stacks_reaches_the_workers_by_way_of_the_server() -> None:
    """Operators send signals to the main process, which watches the workers. The signal must not end it, since that
    ends the server."""
    with ServerProcess(Config(address="127.0.0.1:0", workers=2)) as server:
        workers = set(children(server.process.pid))
        for count in (1, 2):
            server.process.send_signal(signal.SIGUSR1)

            def counts(times: int = count) -> bool:
                found = [line["worker_pid"] for line in server.logged("most recent call first") if "worker_pid" in line]
                return all(found.count(pid) >= times for pid in workers)

            wait_until(counts)
        with Client(server.address) as client:
            assert client.linear_index("f32[3,5]{1,0:T(2,2)}", (2, 3)) == 17
        assert set(children(server.process.pid)) == workers
        assert server.stop() == 0


def test_a_server_that_drains_still_writes_the_stacks_of_its_workers() -> None:
    with ServerProcess(Config(address="127.0.0.1:0", workers=1, drain_seconds=30, grace_seconds=1)) as server:
        [worker] = children(server.process.pid)
        server.process.send_signal(signal.SIGTERM)
        wait_until(lambda: bool(server.logged("stopping")))
        server.process.send_signal(signal.SIGUSR1)
        wait_until(lambda: any(line.get("worker_pid") == worker for line in server.logged("most recent call first")))
        server.process.send_signal(signal.SIGTERM)  # a second signal stops the server at once
        server.process.wait(20)


def test_lines_of_grpc_keep_their_level_and_source(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "xlashape_server.output")
    lines = OutputLines(3, 99)
    lines.log("E0000 00:00:1763798415.713   4242 ssl_transport_security.cc:1884] Handshake failed with error\n")
    lines.log("I1122 07:06:06.338118    3413 add_port.cc:83] hello\n")
    lines.log("WARNING: All log messages before absl::InitializeLog() is called are written to STDERR\n")
    lines.log("Fatal Python error: Segmentation fault\n")
    lines.log("\n")
    found = [(each.levelname, each.message, each.facts.get("source")) for each in caplog.records]
    assert found == [
        ("WARNING", "Handshake failed with error", "ssl_transport_security.cc:1884"),
        ("INFO", "hello", "add_port.cc:83"),
        ("WARNING", "Fatal Python error: Segmentation fault", None),
    ]
    assert {each.facts["worker"] for each in caplog.records} == {3}


def test_a_flood_of_lines_is_cut(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    lines = OutputLines(0, 1)
    for _ in range(1000):
        lines.log("x" * 5000)
    now[0] += 1
    lines.log("after")
    messages = [each.getMessage() for each in caplog.records]
    assert messages[:100] == ["x" * 2000] * 100
    assert messages[100:] == ["after"]
    assert [each.facts.get("unlogged") for each in caplog.records] == [None] * 100 + [900]


def access_lines(caplog: pytest.LogCaptureFixture) -> list[dict[str, object]]:
    return [each.facts for each in caplog.records if each.getMessage() == "call"]


def test_many_successes_are_sampled_and_refusals_are_not(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.INFO, "xlashape_server.calls")
    now = [100.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    log = CallLog(3)

    def succeed() -> None:
        log.add("S/M", "OK", "peer", 0.0015, request_bytes=7, responses=None)

    for _ in range(10):
        succeed()
    for _ in range(10):
        log.add("S/M", "NOT_FOUND", "peer", error="no")
    now[0] += 1
    succeed()
    lines = access_lines(caplog)
    assert [line["code"] for line in lines] == ["OK"] * 3 + ["NOT_FOUND"] * 10 + ["OK"]
    assert lines[0] == {"rpc": "S/M", "code": "OK", "peer": "peer", "ms": 1.5, "request_bytes": 7}
    assert lines[-1]["unlogged"] == 7


def test_a_flood_of_refusals_is_cut(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    caplog.set_level(logging.INFO, "xlashape_server.calls")
    now = [100.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    log = CallLog(10)
    for _ in range(1000):
        log.add("S/M", "NOT_FOUND", "peer", error="no")
    now[0] += 1
    log.add("S/M", "NOT_FOUND", "peer", error="no")
    lines = access_lines(caplog)
    assert len(lines) == 101
    assert lines[-1]["unlogged"] == 900
    assert "unlogged" not in lines[-2]


def test_a_line_is_no_longer_than_what_it_says_is_worth() -> None:
    stream = io.StringIO()
    root = logging.getLogger("xlashape_server")
    before = root.handlers[:], root.propagate, root.level
    try:
        configure("info", stream)
        logging.getLogger("xlashape_server.calls").info("call", extra={"facts": {"error": "x" * 1_000_000, "ms": 1.5}})
    finally:
        root.handlers[:], root.propagate = before[:2]
        root.setLevel(before[2])
    line = json.loads(stream.getvalue())
    assert (len(line["error"]), line["ms"]) == (2001, 1.5)


@pytest.mark.parametrize(("level", "expected"), [("debug", 50), ("info", 10), ("warning", 0), ("error", 0)])
def test_the_level_says_which_calls_have_lines(level: str, expected: int, caplog: pytest.LogCaptureFixture) -> None:
    root = logging.getLogger("xlashape_server")
    before = root.level
    try:
        set_level(level)
        log = CallLog(10)
        for _ in range(50):
            log.add("S/M", "OK", "peer")
        assert len(access_lines(caplog)) == expected
    finally:
        root.setLevel(before)


def test_a_call_has_a_line_at_the_default_level() -> None:
    with ServerProcess(Config(address="127.0.0.1:0", workers=1, log_calls_per_second=5)) as server:
        with Client(server.address, timeout=20) as client:
            for _ in range(200):
                client.linear_index("f32[3,5]{1,0:T(2,2)}", (2, 3))
            for _ in range(7):
                with pytest.raises(NotFoundError):
                    client.get_module("modules/" + "0" * 64)
        assert server.stop() == 0
        lines = server.logged("call")
        succeeded = [line for line in lines if line.get("code") == "OK"]
        refused = [line for line in lines if line.get("code") == "NOT_FOUND"]
        assert 5 <= len(succeeded) < 100
        assert succeeded[0]["rpc"] == "ShapeService/LinearIndex"
        assert {"peer", "ms", "request_bytes", "response_bytes", "worker"} <= succeeded[0].keys()
        assert len(refused) == 7
        assert "never uploaded" in refused[0]["error"]


def test_the_start_says_where_modules_are_kept(tmp_path: Path) -> None:
    config = Config(address="127.0.0.1:0", workers=1, store_directory=str(tmp_path / "store"), store_age_seconds=7200)
    with ServerProcess(config) as server:
        assert server.event["store"] == str(tmp_path / "store")
        assert server.stop() == 0
        [line] = server.logged("modules are kept in")
        assert (
            line["message"]
            == f"modules are kept in {tmp_path}/store, also when the server stops, for 2 hours after their last use"
        )
        assert [each for each in server.lines() if each["level"] == "warning"] == []
    with ServerProcess(Config(address="127.0.0.1:0", workers=1)) as server:
        assert server.stop() == 0
        [line] = server.logged("modules are kept in")
        assert f"{server.event['store']}, until the server stops" in line["message"]


def test_an_open_door_is_told() -> None:
    with ServerProcess(Config(address="0.0.0.0:0", workers=1, log_level="warning")) as server:
        assert server.stop() == 0
        messages = [line["message"] for line in server.lines() if line["level"] == "warning"]
        assert len(messages) == 2
        assert "without TLS" in messages[0]
        assert "callers are not authenticated" in messages[1]


def test_metrics_that_others_reach_are_told_once() -> None:
    pytest.importorskip("prometheus_client", reason="prometheus_client is not installed")
    settings = {"address": "127.0.0.1:0", "workers": 2, "log_level": "warning"}
    for host, count in (("0.0.0.0", 1), ("127.0.0.1", 0)):
        with ServerProcess(Config(metrics=f"{host}:0", **settings)) as server:
            assert server.stop() == 0
            messages = [line["message"] for line in server.lines() if line["level"] == "warning"]
            assert len(messages) == count
            for message in messages:
                assert message.startswith(f"{server.event['metrics']}: metrics are shown without TLS to anyone")


@pytest.mark.parametrize(
    ("address", "is_loopback"),
    [
        ("127.0.0.1:1", True),
        ("127.9.9.9:1", True),
        ("[::1]:1", True),
        ("localhost:1", True),
        ("unix:/s", True),
        ("0.0.0.0:1", False),
        ("[::]:1", False),
        ("192.0.2.1:1", False),
        ("example.org:1", False),
        ("[fe80::1%eth0]:1", False),
    ],
)
def test_who_is_reached(address: str, is_loopback: bool) -> None:
    assert Config(address=address).is_loopback is is_loopback
    assert bool(Config(address=address).exposures()) is not is_loopback
    if not address.startswith("unix:"):
        assert bool(Config(metrics=address).exposures()) is not is_loopback


def test_tls_with_certificates_of_callers_is_no_open_door() -> None:
    closed = Config(address="0.0.0.0:1", tls_certificate="c", tls_key="k", tls_client_ca="a")
    assert closed.exposures() == []
    assert json.loads(closed.to_json())["tls_client_ca"] == "a"
