"""Authentication: tokens, read and write access, and the file that grants it."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from awaited_client import AwaitedClient
from credentials import BOTH, READER, WRITER, digest, tokens
from grpc_health.v1 import health_pb2, health_pb2_grpc
from server_processes import wait_until

from xlashape.errors import (
    InvalidArgumentError,
    LimitExceededError,
    NotFoundError,
    PermissionDeniedError,
    UnauthenticatedError,
)
from xlashape.proto import xla
from xlashape_client import Client
from xlashape_server import Config, Server
from xlashape_server.auth import Gate

TILED = "f32[3,5]{1,0:T(2,2)}"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    path = tmp_path_factory.mktemp("auth") / "auth.toml"
    path.write_text(BOTH)
    config = Config(address="127.0.0.1:0", workers=1, auth=str(path), log_level="error")
    with Server(config) as running:
        yield running


@pytest.fixture(params=[Client, AwaitedClient])
def kind(request: pytest.FixtureRequest) -> type[Client]:
    """The class of a client: the blocking one, or the wrapper with which tests use the one for asyncio."""
    return request.param


def test_a_token_that_is_known_may_ask(server: Server, kind: type[Client]) -> None:
    for token in (READER, lambda: WRITER):
        with kind(server.address, token=token) as client:
            assert client.linear_index(TILED, (2, 3)) == 17
            assert client.evaluate_map_batch("(d0) -> (d0), domain: d0 in [0, 9]", [[3]] * 300_000)[1].all()


def test_a_token_may_be_awaited(server: Server) -> None:
    async def token() -> str:
        await asyncio.sleep(0)
        return READER

    with AwaitedClient(server.address, token=token) as client:
        assert client.linear_index(TILED, (2, 3)) == 17
        with pytest.raises(NotFoundError):
            list(client.list_instructions("modules/" + "0" * 64))


@pytest.mark.parametrize(
    ("token", "message"),
    [
        (None, "a bearer token is missing"),
        ("wrong", "the bearer token is not known"),
        (digest(READER), "the bearer token is not known"),
        ("a.b.c", "the bearer token is not known"),
        ("", "authorization: expected Bearer and a token"),
        ("x" * 8193, "authorization: expected Bearer and a token|metadata"),
    ],
    ids=["none", "wrong", "digest", "jwt", "empty", "long"],
)
def test_others_may_not(server: Server, kind: type[Client], token: str | None, message: str) -> None:
    with kind(server.address, token=token) as client:
        with pytest.raises((UnauthenticatedError, LimitExceededError), match=message):
            client.linear_index(TILED, (2, 3))
        with pytest.raises((UnauthenticatedError, LimitExceededError), match=message):
            list(client.list_instructions("modules/" + "0" * 64))


def test_the_status_of_a_refusal_has_details(server: Server) -> None:
    with grpc.insecure_channel(server.address) as channel:
        connected: Any = channel
        call = connected.unary_unary("/xlashape.v1.ShapeService/ByteSize")
        with pytest.raises(grpc.RpcError) as caught:
            call(b"", timeout=10)
    error: Any = caught.value
    assert error.code() is grpc.StatusCode.UNAUTHENTICATED
    assert any(key == "grpc-status-details-bin" for key, _ in error.trailing_metadata())


def test_who_may_read_may_not_write(server: Server, module: xla.HloModuleProto) -> None:
    with Client(server.address, token=READER) as reader, Client(server.address, token=WRITER) as writer:
        with pytest.raises(
            PermissionDeniedError, match=r"token:ann may read, and HloService/(Upload|Put)Module needs the access write"
        ):
            reader.upload_module(module.SerializeToString())
        with pytest.raises(PermissionDeniedError, match="HloService/PutModule"):
            reader.put_module(module.SerializeToString())
        stored = writer.upload_module(module.SerializeToString())
        assert reader.get_module(stored.name).name == stored.name
        with pytest.raises(PermissionDeniedError, match="HloService/DeleteModule"):
            reader.delete_module(stored.name)
        writer.delete_module(stored.name)


def test_health_needs_no_credentials(server: Server) -> None:
    with grpc.insecure_channel(server.address) as channel:
        stub: Any = health_pb2_grpc.HealthStub(channel)
        assert stub.Check(health_pb2.HealthCheckRequest(), timeout=10).status == 1


def test_reflection_needs_credentials(server: Server) -> None:
    from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

    with grpc.insecure_channel(server.address) as channel:
        stub: Any = reflection_pb2_grpc.ServerReflectionStub(channel)
        asked = reflection_pb2.ServerReflectionRequest(list_services="")
        with pytest.raises(grpc.RpcError) as caught:
            next(stub.ServerReflectionInfo(iter([asked]), timeout=10))
        error: Any = caught.value
        assert error.code() is grpc.StatusCode.UNAUTHENTICATED
        metadata = (("authorization", f"Bearer {READER}"),)
        assert next(
            stub.ServerReflectionInfo(iter([asked]), timeout=10, metadata=metadata)
        ).list_services_response.service


def test_the_command_line_takes_the_token_of_a_variable(server: Server) -> None:
    from click.testing import CliRunner

    from xlashape.cli import main

    command = ["index", TILED, "2,3", "--server", server.address]
    refused = CliRunner().invoke(main, command)
    assert refused.exit_code
    assert "a bearer token is missing" in refused.output
    assert CliRunner(env={"XLASHAPE_TOKEN": READER}).invoke(main, command).output.strip().startswith("17")


# HTTP


def test_http_has_the_same_rules(tmp_path: Path) -> None:
    pytest.importorskip("uvicorn", reason="uvicorn is not installed")
    path = tmp_path / "auth.toml"
    path.write_text(BOTH)
    config = Config(address="127.0.0.1:0", http="127.0.0.1:0", workers=1, auth=str(path), log_level="error")
    with Server(config) as running:

        def ask(rpc: str, token: str | None) -> tuple[int, dict[str, str], Any]:
            connection = http.client.HTTPConnection(running.http_address, timeout=20)
            headers = {"content-type": "application/json"} | ({"authorization": f"Bearer {token}"} if token else {})
            connection.request("POST", f"/xlashape.v1.{rpc}", "{}", headers)
            response = connection.getresponse()
            found = response.status, {k.lower(): v for k, v in response.getheaders()}, json.loads(response.read())
            connection.close()
            return found

        status, headers, answer = ask("ShapeService/ByteSize", None)
        assert (status, headers["www-authenticate"], answer["code"]) == (401, "Bearer", "unauthenticated")
        assert ask("ShapeService/ByteSize", "wrong")[0] == 401
        assert ask("ShapeService/ByteSize", READER)[0] == 200
        status, _, answer = ask("HloService/PutModule", READER)
        assert (status, answer["code"]) == (403, "permission_denied")
        assert ask("HloService/PutModule", WRITER)[2]["code"] == "invalid_argument"


# The file


def test_the_file_is_read_again_when_it_changes(tmp_path: Path) -> None:
    path = tmp_path / "auth.toml"
    path.write_text(BOTH)
    gate = Gate(Config(auth=str(path)))

    def is_known(token: str) -> bool:
        with contextlib.suppress(UnauthenticatedError):
            gate.admit("ShapeService/ByteSize", f"Bearer {token}")
            return True
        return False

    assert (is_known(READER), is_known("new")) == (True, False)
    path.write_text(tokens(new=("new", "read")))
    wait_until(lambda: is_known("new"))
    assert not is_known(READER)
    path.write_text("[[token")  # a file that cannot be parsed: the content before stays in force
    time.sleep(1.2)
    assert is_known("new")
    path.unlink()
    time.sleep(1.2)
    assert is_known("new")
    path.write_text(BOTH)
    wait_until(lambda: is_known(READER))
    assert not is_known("new")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the file admits no caller: expected"),
        ("[", "not TOML"),
        ("[token]\nname = 'a'", r"token: expected \[\[token\]\], with two brackets"),
        ("[[token]]\nname = 'a'\naccess = 'read'", r"token\[0\].sha256: expected a text"),
        (
            "[[token]]\nname = 'a'\nsha256 = 'secret'\naccess = 'read'",
            r"token\[0\].sha256: expected 64 hexadecimal digits",
        ),
        (BOTH.replace('"write"', '"all"'), r"token\[1\].access: expected read or write, found 'all'"),
        (BOTH + BOTH, r"token\[2\].sha256: another token has the same"),
        (BOTH + "[qouta]\n", "there is no 'qouta'; expected token, anonymous"),
        ("[anonymous]\n", "anonymous.access: expected a text"),
    ],
)
def test_what_is_wrong_in_the_file_is_named_before_the_server_starts(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "auth.toml"
    path.write_text(text)
    with pytest.raises(InvalidArgumentError, match=message) as caught:
        Server(Config(address="127.0.0.1:0", auth=str(path))).start()
    assert caught.value.field == "auth"


def test_a_file_that_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError, match="absent.toml: cannot be read"):
        Server(Config(address="127.0.0.1:0", auth=str(tmp_path / "absent.toml"))).start()


def test_everybody_may_read_if_the_file_says_so(tmp_path: Path) -> None:
    path = tmp_path / "auth.toml"
    path.write_text(BOTH + '[anonymous]\naccess = "read"\n')
    gate = Gate(Config(auth=str(path)))
    gate.admit("ShapeService/ByteSize", None)
    with pytest.raises(PermissionDeniedError, match="a caller without a token may read"):
        gate.admit("HloService/PutModule", None)
    with pytest.raises(UnauthenticatedError):  # a token that is shown must be valid, even where everybody may read
        gate.admit("ShapeService/ByteSize", "Bearer wrong")
    for scheme in ("Basic YTpi", "Bearer", "bearer ", READER):
        with pytest.raises(UnauthenticatedError, match="expected Bearer and a token"):
            gate.admit("ShapeService/ByteSize", scheme)
