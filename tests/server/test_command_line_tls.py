"""Queries of the command line to a server with TLS: certificate authorities, certificates of clients, the name in the
server's certificate, and the environment variables in place of the options."""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from optional import without

from tests.support import certificates, command_line
from xlashape.errors import InvalidArgumentError, UnavailableError
from xlashape_client import AsyncClient, Client
from xlashape_server import Config, Server

if shutil.which("openssl") is None:
    without("openssl is not installed")

TILED = "f32[3,5]{1,0:T(2,2)}"
QUERY = ("index", TILED, "2,3")


@pytest.fixture(autouse=True)
def no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith("XLASHAPE_"):
            monkeypatch.delenv(name)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("certificates")
    certificates.make_authority(made)
    for name in ("server", "caller"):
        certificates.make_certificate(made, name)
    return made


@pytest.fixture(scope="module")
def address(folder: Path) -> Iterator[str]:
    """A server that asks its callers for certificates."""
    config = Config(
        address="127.0.0.1:0",
        workers=1,
        log_level="error",
        tls_certificate=str(folder / "server.pem"),
        tls_key=str(folder / "server.key"),
        tls_client_ca=str(folder / "ca.pem"),
    )
    with Server(config) as server:
        yield server.address


def asked(*arguments: str) -> tuple[int, str, str]:
    done: Any = command_line.run(*arguments)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def test_the_options_name_the_files_of_a_connection(folder: Path, address: str) -> None:
    ca = ("--ca", str(folder / "ca.pem"))
    own = ("--certificate", str(folder / "caller.pem"), "--key", str(folder / "caller.key"))
    assert asked(*QUERY, "--server", address, *ca, *own) == (0, "17\n", "")
    for missing in ((), ca):
        code, out, error = asked(*QUERY, "--server", address, *missing, "--timeout", "2")
        assert (code, out) == (1, "")
        assert error.startswith(f"xlashape: {address}")


def test_the_name_in_the_certificate_may_be_another_than_the_address(folder: Path, address: str) -> None:
    files = (
        "--ca",
        str(folder / "ca.pem"),
        "--certificate",
        str(folder / "caller.pem"),
        "--key",
        str(folder / "caller.key"),
    )
    assert asked(*QUERY, "--server", address, *files, "--server-name", "127.0.0.1") == (0, "17\n", "")
    assert asked(*QUERY, "--server", address, *files, "--server-name", "other.example", "--timeout", "2")[0] == 1


def test_variables_stand_for_the_options(folder: Path, address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XLASHAPE_CA", str(folder / "ca.pem"))
    monkeypatch.setenv("XLASHAPE_CLIENT_CERTIFICATE", str(folder / "caller.pem"))
    monkeypatch.setenv("XLASHAPE_CLIENT_KEY", str(folder / "caller.key"))
    assert asked(*QUERY, "--server", address) == (0, "17\n", "")
    assert asked("health", "--server", address)[0] == 0
    monkeypatch.setenv("XLASHAPE_SERVER_NAME", "other.example")
    assert asked(*QUERY, "--server", address, "--timeout", "2")[0] == 1


def test_a_query_of_this_process_reads_no_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XLASHAPE_CA", "/no/such/file")
    assert asked(*QUERY) == (0, "17\n", "")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--ca", "ca.pem"], "--ca needs --server"),
        (["--server-name", "x"], "--server-name needs --server"),
        (["--server", "127.0.0.1:1", "--ca", "/no/such/file"], "/no/such/file: No such file or directory"),
        (["--server", "127.0.0.1:1", "--key", "k.pem"], "--certificate and --key belong together"),
        (["--server", "127.0.0.1:1", "--certificate", "c", "--key", "k"], "--certificate needs --ca"),
        (["--server", "127.0.0.1:1", "--server-name", "x"], "--server-name needs --ca"),
        (["--server", "127.0.0.1:1", "--ca", ""], "--ca: expected a file, found nothing"),
        (["--server", "127.0.0.1:1", "--ca", os.devnull], f"--ca: {os.devnull} has no certificate in PEM"),
    ],
)
def test_mistakes_are_told(options: list[str], words: str) -> None:
    code, out, error = asked(*QUERY, *options)
    assert code in (1, 2)
    assert out == ""
    assert words in error


@pytest.mark.parametrize("options", [("--ca", ""), ("--server-name", "x")])
def test_a_token_is_not_sent_in_plain_text_where_tls_was_wanted(
    options: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XLASHAPE_TOKEN", "secret")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(0.1)
        host, port = listener.getsockname()
        assert asked(*QUERY, "--server", f"{host}:{port}", "--timeout", "1", *options)[0] == 2
        with pytest.raises(TimeoutError):
            listener.accept()


@pytest.mark.parametrize("name", ["private_key", "certificate_chain", "server_name"])
def test_clients_refuse_what_only_tls_uses_without_it(name: str) -> None:
    options: dict[str, Any] = {name: "x" if name == "server_name" else b"x"}
    with pytest.raises(InvalidArgumentError, match="needs root_certificates") as caught:
        Client("127.0.0.1:1", **options)
    assert caught.value.path == (name,)
    with pytest.raises(InvalidArgumentError, match="needs root_certificates"):
        AsyncClient("127.0.0.1:1", **options)


def test_both_clients_take_the_name_in_the_certificate(folder: Path, address: str) -> None:
    files: dict[str, Any] = {
        "root_certificates": (folder / "ca.pem").read_bytes(),
        "private_key": (folder / "caller.key").read_bytes(),
        "certificate_chain": (folder / "caller.pem").read_bytes(),
    }

    async def awaited(name: str) -> int:
        async with AsyncClient(address, server_name=name, attempts=1, **files) as client:
            return await client.linear_index(TILED, (2, 3), timeout=10)

    def blocking(name: str) -> int:
        with Client(address, server_name=name, attempts=1, **files) as client:
            return client.linear_index(TILED, (2, 3), timeout=10)

    assert blocking("127.0.0.1") == asyncio.run(awaited("127.0.0.1")) == 17
    with pytest.raises(UnavailableError):
        blocking("other.example")
    with pytest.raises(UnavailableError):
        asyncio.run(awaited("other.example"))
