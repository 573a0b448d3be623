"""The log: every line is JSON, whichever library writes it, calls have lines, and the server's start says where modules
are kept and who can reach it."""

from __future__ import annotations

import io
import json
import logging
import socket
from pathlib import Path

import pytest
from server_processes import ServerProcess

from xlashape.errors import NotFoundError
from xlashape_client import Client
from xlashape_server import Config
from xlashape_server.process import configure


def test_every_line_is_json(tmp_path: Path, tls_pair: tuple[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """gRPC's core would write plain text about failed handshakes."""
    # The command line silences gRPC, and its tests run in this process.
    monkeypatch.delenv("GRPC_VERBOSITY", raising=False)
    certificate, key = tls_pair
    config = Config(address="127.0.0.1:0", workers=1, tls_certificate=certificate, tls_key=key)
    with ServerProcess(config) as server:
        host, port = server.address.split(":")
        for _ in range(20):
            with socket.create_connection((host, int(port)), timeout=10) as stranger:
                stranger.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n" * 20)
                stranger.settimeout(2)
                try:
                    while stranger.recv(4096):
                        pass
                except OSError:
                    pass
        assert server.stop() == 0
        for line in server.lines():
            assert {"time", "level", "message", "pid"} <= line.keys()
            assert line["level"] == "info"


def test_a_line_is_no_longer_than_what_it_says_is_worth(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.StringIO()
    monkeypatch.setattr("sys.stderr", stream)
    root = logging.getLogger("xlashape_server")
    before = root.handlers[:], root.propagate, root.level
    try:
        configure("info")
        logging.getLogger("xlashape_server.calls").info("call", extra={"facts": {"error": "x" * 1_000_000, "ms": 1.5}})
    finally:
        root.handlers[:], root.propagate = before[:2]
        root.setLevel(before[2])
    line = json.loads(stream.getvalue())
    assert (len(line["error"]), line["ms"]) == (2001, 1.5)


@pytest.mark.parametrize(("level", "count"), [("debug", 3), ("info", 0)])
def test_the_level_debug_has_a_line_for_each_call(level: str, count: int) -> None:
    with ServerProcess(Config(address="127.0.0.1:0", workers=1, log_level=level)) as server:
        with Client(server.address, timeout=20) as client:
            for _ in range(count):
                client.linear_index("f32[3,5]{1,0:T(2,2)}", (2, 3))
            with pytest.raises(NotFoundError):
                client.get_module("modules/" + "0" * 64)
        assert server.stop() == 0
        succeeded = [line for line in server.logged("call") if line.get("code") == "OK"]
        assert [line["rpc"] for line in succeeded] == ["ShapeService/LinearIndex"] * count
        assert all({"peer", "ms", "worker"} <= line.keys() for line in succeeded)
        refused = [line["error"] for line in server.logged("refused")]
        assert len(refused) == (1 if count else 0)
        assert all("never uploaded" in error for error in refused)


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
        [line] = [line for line in server.lines() if line["level"] == "warning"]
        assert line["message"].startswith(f"{server.address}: other machines reach this address, which lacks TLS")


def test_metrics_that_others_reach_are_told_once() -> None:
    pytest.importorskip("prometheus_client", reason="prometheus_client is not installed")
    settings = {"address": "127.0.0.1:0", "workers": 2, "log_level": "warning"}
    for host, count in (("0.0.0.0", 1), ("127.0.0.1", 0)):
        with ServerProcess(Config(metrics=f"{host}:0", **settings)) as server:
            assert server.stop() == 0
            messages = [line["message"] for line in server.lines() if line["level"] == "warning"]
            assert len(messages) == count
            assert all(message.startswith(f"{server.event['metrics']}: other machines") for message in messages)


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
    assert Config(address=address).is_loopback() is is_loopback
    if not address.startswith("unix:"):
        assert Config(metrics=address).is_loopback("metrics") is is_loopback
