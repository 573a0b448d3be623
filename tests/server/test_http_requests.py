"""Requests over HTTP that two readers may understand differently, or that a web page of a stranger sends: they are
refused with a reason, and never cause an internal error."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator

import pytest
from http_calls import LINEAR, QUESTION, ask, http_server

from xlashape_server import Server
from xlashape_server.callers import may_name

pytest.importorskip("uvicorn", reason="uvicorn is not installed")

BODY = json.dumps(QUESTION).encode()


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with http_server() as running:
        yield running


def told(server: Server, request: bytes) -> tuple[int, dict[bytes, bytes], bytes]:
    """Status, headers and body of the answer to the bytes of one request."""
    host, _, port = server.http_address.rpartition(":")
    with socket.create_connection((host, int(port)), timeout=10) as connection:
        connection.sendall(request)
        data = b""
        while b"\r\n\r\n" not in data:
            piece = connection.recv(1 << 16)
            assert piece, data
            data += piece
        head, _, body = data.partition(b"\r\n\r\n")
        lines = head.split(b"\r\n")
        headers = {name.lower(): value for name, value in (line.split(b": ", 1) for line in lines[1:])}
        while len(body) < int(headers.get(b"content-length", b"0")):
            body += connection.recv(1 << 16)
    return int(lines[0].split()[1]), headers, body


def post(*headers: bytes, host: bytes = b"localhost", body: bytes = BODY, length: bool = True) -> bytes:
    sized = [b"content-length: %d" % len(body)] if length else []
    lines = [f"POST {LINEAR} HTTP/1.1".encode(), b"host: " + host, b"content-type: application/json", *sized, *headers]
    return b"\r\n".join(lines) + b"\r\n\r\n" + body


def test_a_length_and_an_encoding_are_not_both_taken(server: Server) -> None:
    """For one reader the rest of the body may be the next request, for another a part of this one."""
    chunked = b"%x\r\n%s\r\n0\r\n\r\n" % (len(BODY), BODY)
    status, headers, body = told(server, post(b"transfer-encoding: chunked", body=chunked))
    assert status == 400
    assert (
        json.loads(body)["message"]
        == "content-length and transfer-encoding: expected one of them, and the second only in HTTP/1.1"
    )
    assert headers[b"connection"] == b"close"
    request = post(b"transfer-encoding: chunked", body=chunked, length=False)
    assert told(server, request)[0] == 200
    status, headers, _ = told(server, request.replace(b"HTTP/1.1", b"HTTP/1.0"))
    assert (status, headers[b"connection"]) == (400, b"close")


@pytest.mark.parametrize("protocol", [b"h2c", b"websocket"])
def test_upgrades_are_ignored(server: Server, protocol: bytes) -> None:
    upgrade = (b"connection: upgrade, http2-settings", b"upgrade: " + protocol, b"http2-settings: AAMAAABkAAQAAP__")
    key = (b"sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==", b"sec-websocket-version: 13")
    assert told(server, post(*upgrade, *key))[0] == 200
    get = b"\r\n".join((b"GET /nothing HTTP/1.1", b"host: localhost", *upgrade, *key, b"", b""))
    status, _, body = told(server, get)
    assert status == 404
    assert json.loads(body)["code"] == "unimplemented"


@pytest.mark.parametrize(
    "host", [b"localhost", b"localhost:80", b"LOCALHOST.", b"a.localhost", b"127.0.0.1", b"127.0.0.1:1", b"[::1]:80"]
)
def test_the_own_names_of_a_local_server_are_answered(server: Server, host: bytes) -> None:
    assert told(server, post(host=host))[0] == 200


@pytest.mark.parametrize(
    "host", [b"evil.example", b"evil.example:50052", b"127.0.0.1.evil.example", b"localhost.evil.example", b"x"]
)
def test_names_of_others_are_refused(server: Server, host: bytes) -> None:
    status, headers, body = told(server, post(host=host))
    assert status == 421
    assert json.loads(body)["code"] == "permission_denied"
    assert headers[b"x-content-type-options"] == b"nosniff"


def test_a_server_that_others_reach_answers_to_any_name() -> None:
    assert not may_name("shapes.example", "127.0.0.1")
    assert not may_name("shapes.example:80", "::1")
    assert may_name("shapes.example", "0.0.0.0")
    assert may_name(None, "127.0.0.1")


def test_answers_are_what_they_say(server: Server) -> None:
    for answer in (ask(server, LINEAR, QUESTION), ask(server, LINEAR, {}), ask(server, "/nothing", {})):
        assert answer.headers["x-content-type-options"] == "nosniff"
