"""Tools for coding agents over HTTP (MCP), called with the SDK's own client: answers as from the command, questions
about stored modules, links to the page, and the limits and refusals of the server."""

from __future__ import annotations

import hashlib
import http.client
import json
import re
import socket
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from http_calls import slow
from optional import needed_in_ci

from xlashape.agents import Agent
from xlashape_client import Client
from xlashape_server import Config, Server

mcp = needed_in_ci("mcp")
anyio = needed_in_ci("anyio")
needed_in_ci("uvicorn")
over_http = needed_in_ci("mcp.client.streamable_http")

MODULE = Path(__file__).resolve().parents[1] / "vectors" / "hlo" / "attention.after.hlo"
TOKEN = "a token of some length"


@pytest.fixture(scope="module")
def server() -> Generator[Server]:
    with Server(Config(address="127.0.0.1:0", http="127.0.0.1:0", workers=1, log_level="error")) as running:
        yield running


@pytest.fixture(scope="module")
def stored(server: Server) -> str:
    with Client(server.address) as client:
        return client.upload_module(MODULE).name


def ask(server: Server, *calls: tuple[str, dict[str, Any]], token: str = "") -> list[Any]:
    """The answers of tools, asked by the SDK's client."""

    async def run() -> list[Any]:
        headers = {"authorization": f"Bearer {token}"} if token else {}
        async with over_http.create_mcp_http_client(headers=headers) as caller:
            transport = over_http.streamable_http_client(f"http://{server.http_address}/mcp", http_client=caller)
            async with mcp.Client(transport) as client:
                return [await client.call_tool(name, arguments) for name, arguments in calls]

    return anyio.run(run)


@pytest.mark.parametrize("verb", ["GET", "POST", "DELETE"])
def test_browsers_take_answers_for_what_they_say_they_are(server: Server, verb: str) -> None:
    asked = http.client.HTTPConnection(server.http_address, timeout=30)
    asked.request(verb, "/mcp", headers={"content-length": "0"})
    with asked.getresponse() as answer:
        assert answer.headers.get_all("x-content-type-options") == ["nosniff"]
    asked.close()


def test_the_tools_are_those_of_the_command_and_speak_of_no_files(server: Server) -> None:
    async def run() -> Any:
        async with mcp.Client(f"http://{server.http_address}/mcp") as client:
            return (await client.list_tools()).tools

    tools = anyio.run(run)
    assert {each.name for each in tools} == Agent(Path()).tools().keys() - {"dumps", "profile"}
    assert all(each.annotations.read_only_hint for each in tools)
    assert not [each.name for each in tools if re.search(r"\b(path|file)s?\b", each.description)]


def test_a_stored_module_is_asked_about_by_its_name(server: Server, stored: str) -> None:
    memory, cost, read = ask(
        server,
        ("memory", {"x": stored}),
        ("cost", {"x": stored}),
        ("reads", {"x": stored, "instruction": "ynn_fusion.4"}),
    )
    digest = stored.removeprefix("modules/")
    assert memory.structured_content["totals"]["peak_bytes"] == 2883584
    assert memory.structured_content["page"] == f"http://{server.http_address}/#v=memory&m={digest}"
    assert cost.structured_content["page"].endswith(f"#v=cost&m={digest}")
    assert read.structured_content["page"].endswith(f"#v=reads&m={digest}&i=ynn_fusion.4")


def test_text_is_asked_about_as_it_is(server: Server) -> None:
    why, index, what, drawn = ask(
        server,
        ("why", {"x": "f32[3,5]{1,0:T(2,2)}"}),
        ("index", {"shape": "f32[3,5]{1,0:T(2,2)}", "index": [2, 3]}),
        ("what_is", {"x": MODULE.read_text()}),
        ("draw", {"x": "f32[3,5]{1,0:T(2,2)}"}),
    )
    assert why.structured_content["totals"]["bytes"] == 96
    assert why.structured_content["page"].endswith("/#v=shape&s=f32%5B3%2C5%5D%7B1%2C0%3AT%282%2C2%29%7D")
    assert index.structured_content["totals"]["position"] == 17
    assert what.structured_content["totals"]["name"] == "jit_attention"
    assert "page" not in what.structured_content
    assert "0  1  2" in drawn.structured_content["picture"]


@pytest.mark.parametrize("x", ["/etc/passwd", "tests/vectors", "../pyproject.toml", "~/.ssh/id_rsa", "step.hlo"])
def test_no_file_is_opened(server: Server, x: str) -> None:
    for result in ask(server, *[(tool, {"x": x}) for tool in ("what_is", "why", "memory", "copies", "cost", "draw")]):
        assert result.is_error
        assert "root" not in result.content[0].text
        assert "this server opens no files: store the module" in result.content[0].text


def test_a_picture_is_written_nowhere(server: Server, tmp_path: Path) -> None:
    ask(server, ("draw", {"x": "f32[3]", "output": str(tmp_path / "x.svg")}))
    assert not (tmp_path / "x.svg").exists()


def test_mistakes_are_errors_of_the_tool(server: Server) -> None:
    missing = f"modules/{'0' * 64}"
    wrong, absent = ask(server, ("why", {"x": "f32[3"}), ("memory", {"x": missing}))
    assert wrong.is_error
    assert "expected ',' or ']'" in wrong.content[0].text
    assert absent.is_error
    assert "there is no module" in absent.content[0].text


def test_a_caller_shows_who_it_is(tmp_path: Path) -> None:
    path = tmp_path / "auth.toml"
    path.write_text(
        f'[[token]]\nname = "agent"\nsha256 = "{hashlib.sha256(TOKEN.encode()).hexdigest()}"\naccess = "read"\n'
    )
    config = Config(address="127.0.0.1:0", http="127.0.0.1:0", workers=1, log_level="error", auth=str(path))
    with Server(config) as server:
        [known] = ask(server, ("index", {"shape": "f32[3]", "index": [1]}), token=TOKEN)
        assert known.structured_content["totals"]["position"] == 1
        for headers in ({}, {"authorization": "Bearer wrong"}):
            status, told = posted(server, headers)
            assert status == 401
            assert told["code"] == "unauthenticated"


def posted(server: Server, headers: dict[str, str]) -> tuple[int, Any]:
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/list"})
    sent = {"content-type": "application/json", "accept": "application/json, text/event-stream", **headers}
    connection = http.client.HTTPConnection(server.http_address, timeout=30)
    connection.request("POST", "/mcp", body, sent)
    answer = connection.getresponse()
    content = answer.read()
    connection.close()
    return answer.status, json.loads(content) if content else None


def test_pages_of_others_may_not_ask(server: Server) -> None:
    assert posted(server, {"origin": "https://elsewhere.example"})[0] == 403
    assert posted(server, {"origin": f"http://{server.http_address}"})[0] == 200
    config = Config(
        address="127.0.0.1:0", http="127.0.0.1:0", workers=1, log_level="error", http_origins="https://known.example"
    )
    with Server(config) as choosy:
        assert posted(choosy, {"origin": "https://elsewhere.example"})[0] == 403
        assert posted(choosy, {"origin": "https://known.example"})[0] == 200
        assert posted(choosy, {"origin": f"http://{choosy.http_address}"})[0] == 200


@pytest.mark.parametrize("method", ["GET", "DELETE", "PUT"])
def test_nothing_but_a_question_is_answered(server: Server, method: str) -> None:
    connection = http.client.HTTPConnection(server.http_address, timeout=30)
    connection.request(method, "/mcp", headers={"accept": "text/event-stream"})
    answer = connection.getresponse()
    assert (answer.status, answer.getheader("allow")) == (405, "POST")
    assert json.loads(answer.read())["code"] == "unimplemented"
    connection.close()


HEAD = b"POST /mcp HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\naccept: application/json, text/event-stream\r\n"


def test_a_body_that_does_not_come_is_waited_for_so_long() -> None:
    config = Config(
        address="127.0.0.1:0",
        http="127.0.0.1:0",
        workers=1,
        log_level="error",
        max_receive_seconds=1,
        keepalive_seconds=1,
        max_concurrent_calls=1,
    )
    with Server(config) as server:
        answer = slow(server, HEAD + b"content-length: 500\r\n\r\n{")
        assert answer.startswith(b"HTTP/1.1 429")
        assert b"the request did not come within 1 seconds" in answer
        assert posted(server, {})[0] == 200  # the call that was refused no longer holds a place


def test_a_body_that_is_too_long_is_refused(server: Server) -> None:
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"x": "x" * (5 << 20)}}).encode()
    answer = slow(
        server, HEAD + b"connection: close\r\ncontent-length: %d\r\n\r\n" % len(body) + body[: 4 << 20] + b"x" * 100
    )
    assert answer.startswith(b"HTTP/1.1 429")
    assert posted(server, {})[0] == 200


def test_callers_who_go_away_and_what_is_no_question_fill_no_log(capfd: pytest.CaptureFixture[str]) -> None:
    config = Config(address="127.0.0.1:0", http="127.0.0.1:0", workers=1, log_level="info", store_directory="")
    with Server(config) as server:
        assert posted(server, {})[0] == 200
        capfd.readouterr()
        for _ in range(5):
            host, _, port = server.http_address.rpartition(":")
            with socket.create_connection((host, int(port)), timeout=20) as connection:
                connection.sendall(HEAD + b"content-length: 500\r\n\r\n{")
        for body in (
            b"",
            b"{",
            b"[]",
            b"17",
            b"\xff",
            b"[" * 20_000,
            b'{"jsonrpc": "2.0", "id": 1, "method": "nothing"}',
        ):
            answer = slow(server, HEAD + b"connection: close\r\ncontent-length: %d\r\n\r\n" % len(body) + body)
            assert answer.startswith(b"HTTP/1.1 ")
        assert posted(server, {})[0] == 200
    lines = capfd.readouterr().err.splitlines()
    assert all(line.startswith("{") for line in lines)
    assert sum("Mcp/Call" in line and "CANCELLED" in line for line in lines) <= 5
    assert len(lines) < 20
    assert not [line for line in lines if "Traceback" in line or '"error"' in json.loads(line)["level"]]
