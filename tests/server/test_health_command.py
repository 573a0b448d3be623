"""`xlashape health` and the health check of containers: exit codes, addresses from environment variables, TLS, unix
sockets, and JSON output."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from tests.support import command_line
from tests.support.server_processes import wait_until
from xlashape import probe
from xlashape_server import Config, Server

SCHEMA = json.loads(
    (Path(__file__).resolve().parents[2] / "xlashape/cli/schemas/health.v1.json").read_text(encoding="utf-8")
)


@pytest.fixture(autouse=True)
def no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith("XLASHAPE_"):
            monkeypatch.delenv(name)


def asked(*arguments: str) -> tuple[int, str, str]:
    done: Any = command_line.run("health", *arguments)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


@pytest.mark.parametrize("service", ["live", "ready", "", "xlashape.v1.ShapeService"])
def test_a_server_that_answers_is_healthy(server: Server, service: str) -> None:
    told = f"{server.address} {service or 'the server'}: SERVING\n"
    assert asked("--server", server.address, "--service", service) == (0, told, "")


def test_the_answer_in_json_follows_its_schema(server: Server) -> None:
    code, out, _ = asked("--server", server.address, "--json")
    answer = json.loads(out)
    jsonschema.validate(answer, SCHEMA)
    assert code == 0
    assert (answer["server"], answer["service"], answer["status"]) == (server.address, "ready", "SERVING")


def test_a_service_that_the_server_does_not_know_is_an_error(server: Server) -> None:
    code, out, error = asked("--server", server.address, "--service", "nobody")
    assert (code, out) == (1, "")
    assert "there is no service 'nobody'" in error


def test_a_server_that_is_not_there_is_an_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        code, out, error = asked("--server", f"127.0.0.1:{port}", "--timeout", "0.5")
        assert (code, out) == (1, "")
        assert error.startswith(f"xlashape: 127.0.0.1:{port}")
    code, out, error = asked("--server", f"127.0.0.1:{port}")
    assert (code, out) == (1, "")
    assert "failed to connect" in error


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--server", " "], "--server: expected HOST:PORT, found nothing"),
        (["--server", "127.0.0.1:1", "--service", "x" * 128], "a name has at most 127 bytes, found 128"),
        (["--server", "127.0.0.1:1", "--ca", "/no/such/file"], "/no/such/file: No such file or directory"),
        (["--server", "127.0.0.1:1", "--key", "k.pem"], "--certificate and --key belong together"),
        (["--timeout", "0"], "timeout"),
    ],
)
def test_mistakes_are_told(arguments: list[str], words: str) -> None:
    code, out, error = asked(*arguments)
    assert code in (1, 2)
    assert out == ""
    assert words in error


def test_the_server_of_this_environment_is_asked(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    port = server.config.host_and_port()[1]
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    monkeypatch.setenv("XLASHAPE_ADDRESS", f"0.0.0.0:{port}")
    assert asked() == (0, f"127.0.0.1:{port} ready: SERVING\n", "")
    monkeypatch.delenv("XLASHAPE_ADDRESS")
    path = tmp_path / "xlashape.toml"
    path.write_text(f'address = "{server.address}"\nworkers = 2\n')
    monkeypatch.setenv("XLASHAPE_CONFIG", str(path))
    assert asked() == (0, f"{server.address} ready: SERVING\n", "")
    monkeypatch.setenv("XLASHAPE_ADDRESS", "127.0.0.1:0")
    code, _, error = asked()
    assert code == 1
    assert "whose port is chosen at the start" in error


def test_a_server_with_a_certificate_is_asked_by_its_settings(
    tls_pair: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    certificate, key = tls_pair
    config = Config(
        address="127.0.0.1:0", workers=1, log_level="error", tls_certificate=certificate, tls_key=key,
        tls_client_ca=certificate,
    )  # fmt: skip
    own = ("--certificate", certificate, "--key", key)
    with Server(config) as server:
        assert asked("--server", server.address, "--ca", certificate, "--server-name", "127.0.0.1", *own)[0] == 0
        assert asked("--server", server.address, "--ca", certificate, "--server-name", "other.example", *own)[0] == 1
        assert asked("--server", server.address, "--timeout", "2")[0] == 1
        monkeypatch.setenv("XLASHAPE_ADDRESS", server.address)
        monkeypatch.setenv("XLASHAPE_TLS_CERTIFICATE", certificate)
        monkeypatch.setenv("XLASHAPE_TLS_KEY", key)
        assert asked("--server-name", "127.0.0.1", *own) == (0, f"{server.address} ready: SERVING\n", "")


def test_a_socket_in_the_file_system_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Server(Config(address=f"unix:{tmp_path}/socket", log_level="error")) as server:
        assert asked("--server", server.address)[0] == 0
        monkeypatch.setenv("XLASHAPE_ADDRESS", server.address)
        assert asked("--service", "live") == (0, f"unix:{tmp_path}/socket live: SERVING\n", "")


def test_a_server_that_stops_is_not_ready() -> None:
    config = Config(address="127.0.0.1:0", workers=1, log_level="error", drain_seconds=30, grace_seconds=1)
    with Server(config) as server:
        assert asked("--server", server.address)[0] == 0
        [pid] = server.worker_pids
        os.kill(pid, signal.SIGTERM)
        told = f"{server.address} ready: NOT_SERVING\n"
        wait_until(lambda: asked("--server", server.address) == (1, told, ""))
        os.kill(pid, signal.SIGTERM)
        server.stop(0)


@pytest.mark.parametrize("service", ["live", "ready", "", "xlashape.v1.ShapeService"])
def test_a_check_answers_as_the_command(server: Server, service: str, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--server", server.address, "--service", service, "--timeout", "20"]
    assert probe.exit_code(arguments, {}) == 0
    assert capsys.readouterr() == asked(*arguments)[1:]


def test_a_check_loads_neither_the_command_line_nor_grpc(server: Server) -> None:
    script = (
        "import sys; from xlashape.__main__ import main\n"
        "try: main()\n"
        "except SystemExit as ended: print(ended.code, len(sys.modules), *sys.modules)"
    )
    environment = {**os.environ, "XLASHAPE_ADDRESS": server.address}
    command = [sys.executable, "-c", script, "health", "--service", "live"]
    told, modules = subprocess.run(command, env=environment, capture_output=True, text=True).stdout.splitlines()
    assert told == f"{server.address} live: SERVING"
    code, count, *names = modules.split()
    assert code == "0"
    assert int(count) < 100
    assert not {"click", "grpc", "xlashape.cli", "xlashape_server", "google.protobuf"} & set(names)


def test_a_check_knows_the_settings(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert Config().address == probe.DEFAULT_ADDRESS
    port = server.config.host_and_port()[1]
    assert probe.exit_code([], {"XLASHAPE_ADDRESS": f"0.0.0.0:{port}"}) == 0
    path = tmp_path / "xlashape.toml"
    path.write_text(f'address = "{server.address}"\n')
    assert probe.exit_code([], {"XLASHAPE_CONFIG": str(path)}) == (0 if sys.version_info >= (3, 11) else None)
    path.write_text('address = "127.0.0.1:1"\n')
    both = {"XLASHAPE_CONFIG": str(path), "XLASHAPE_ADDRESS": server.address}
    assert probe.exit_code([], both) == (0 if sys.version_info >= (3, 11) else None)
    capsys.readouterr()


@pytest.mark.parametrize(
    ("arguments", "environment"),
    [
        ([], {"XLASHAPE_TLS_CERTIFICATE": "c.pem"}),
        ([], {"XLASHAPE_CONFIG": "/no/such/file"}),
        ([], {"XLASHAPE_ADDRESS": "127.0.0.1:0"}),
        (["--server", "SERVER"], {"XLASHAPE_CA": "c.pem"}),
        (["--server", "SERVER"], {"https_proxy": "http://127.0.0.1:1"}),
        (["--server", "SERVER", "--json"], {}),
        (["--server", "SERVER", "--ca", "c.pem"], {}),
        (["--server", "SERVER", "--timeout", "0"], {}),
        (["--server", "SERVER", "--service", "nobody"], {}),
        (["--server", "SERVER", "--service", "x" * 101], {}),
        (["--server", "nothing"], {}),
        (["--server", "127.0.0.1:99999"], {}),
        (["--server", "::1:1"], {}),
        (["--server", "dns:///localhost:1"], {}),
        (["--server", "\0:1"], {}),
        (["--server", "unix:/no/such/socket"], {}),
        (["--help"], {}),
    ],
)
def test_what_a_check_does_not_know_is_left_to_the_command(
    server: Server, arguments: list[str], environment: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    given = [server.address if each == "SERVER" else each for each in arguments]
    assert probe.exit_code(given, environment) is None
    assert capsys.readouterr() == ("", "")


def test_a_check_asks_a_socket_in_the_file_system(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Server(Config(address=f"unix:{tmp_path}/socket", log_level="error")) as server:
        assert probe.exit_code([], {"XLASHAPE_ADDRESS": server.address}) == 0
        assert capsys.readouterr().out == f"{server.address} ready: SERVING\n"


@contextmanager
def answering(data: bytes, *, is_open: bool = False) -> Iterator[str]:
    """The address of a server that answers with these bytes."""
    ended = threading.Event()

    def answer() -> None:
        connection, _ = listener.accept()
        with connection:
            connection.recv(1000)
            connection.sendall(data)
            if is_open:
                ended.wait(30)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=answer)
        thread.start()
        yield f"127.0.0.1:{listener.getsockname()[1]}"
        ended.set()
        thread.join()


def frame(kind: int, flags: int, content: bytes, stream: int = 1) -> bytes:
    return len(content).to_bytes(3, "big") + bytes((kind, flags)) + stream.to_bytes(4, "big") + content


SERVING = b"\0\0\0\0\2\x08\1"


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (frame(4, 0, b"", 0) + frame(0, 0, SERVING), 0),
        (frame(0, 8, b"\2" + SERVING + b"\0\0"), 0),  # a frame with padding
        (frame(0, 0, SERVING[:3]) + frame(8, 0, b"\0\0\0\1", 0) + frame(0, 0, SERVING[3:]), 0),
        (frame(0, 0, b"\0\0\0\0\2\x08\2"), 1),
        (frame(0, 0, b"\0\0\0\0\0"), 1),  # UNKNOWN
        (frame(0, 0, b"\0\0\0\0\2\x08\7"), None),
        (frame(0, 0, b"\1" + SERVING[1:]), None),
        (frame(0, 8, b""), None),
        (frame(0, 8, b"\xff" + SERVING), None),
        (frame(0, 0, SERVING, stream=3), None),
        (frame(0, 0, SERVING)[:-1], None),
        (frame(1, 5, b""), None),
        (frame(3, 0, b"\0\0\0\1"), None),
        (frame(7, 0, b"\0" * 8, 0), None),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", None),
        (b"\xff" * 100_000, None),
        (b"", None),
    ],
)
def test_a_check_believes_what_is_an_answer(data: bytes, code: int | None, capsys: pytest.CaptureFixture[str]) -> None:
    with answering(data) as address:
        assert probe.exit_code(["--server", address, "--timeout", "30"], {}) == code
    assert bool(capsys.readouterr().out) is (code is not None)


def test_a_check_does_not_wait_for_ever(capsys: pytest.CaptureFixture[str]) -> None:
    with answering(frame(4, 0, b"", 0), is_open=True) as address:
        assert probe.exit_code(["--server", address, "--timeout", "0.5"], {}) == 1
        assert capsys.readouterr() == ("", f"xlashape: {address}: no answer within 0.5 seconds\n")
