"""`xlashape health` and the health check of containers: exit codes, addresses from environment variables, TLS, unix
sockets, and JSON output."""

from __future__ import annotations

import json
import os
import socket
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from tests.support import command_line
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
        assert error == f"xlashape: 127.0.0.1:{port}: no answer within 0.5 seconds\n"
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


def test_the_server_of_this_environment_is_asked(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    port = server.config.host_and_port()[1]
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    monkeypatch.setenv("XLASHAPE_ADDRESS", f"0.0.0.0:{port}")
    assert asked() == (0, f"0.0.0.0:{port} ready: SERVING\n", "")


def test_a_server_with_a_certificate_is_asked(tls_pair: tuple[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
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
        monkeypatch.setenv("XLASHAPE_CA", certificate)
        assert asked("--server-name", "127.0.0.1", *own) == (0, f"{server.address} ready: SERVING\n", "")


def test_a_socket_in_the_file_system_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Server(Config(address=f"unix:{tmp_path}/socket", log_level="error")) as server:
        assert asked("--server", server.address)[0] == 0
        monkeypatch.setenv("XLASHAPE_ADDRESS", server.address)
        assert asked("--service", "live") == (0, f"unix:{tmp_path}/socket live: SERVING\n", "")
