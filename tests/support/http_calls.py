"""A server that answers over HTTP, and functions that call it and return the status, headers and body of the answer."""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
from collections.abc import Generator
from typing import Any

import pytest

from xlashape.proto import v1
from xlashape_server import Config, Server

pytest.importorskip("uvicorn", reason="uvicorn is not installed")

TILED = "f32[3,5]{1,0:T(2,2)}"
LINEAR = "/xlashape.v1.ShapeService/LinearIndex"
LINEAR_INDICES = "/xlashape.v1.ShapeService/LinearIndices"
MULTI_INDEX = "/xlashape.v1.ShapeService/MultiIndex"
UPLOAD = "/xlashape.v1.HloService/UploadModule"
BYTE_SIZE = "/xlashape.v1.ShapeService/ByteSize"
QUESTION = {"shape": {"text": TILED}, "indices": ["2", "3"]}
JSON = "application/json"


@contextlib.contextmanager
def http_server() -> Generator[Server]:
    """A server for HTTP with low limits."""
    config = Config(
        address="127.0.0.1:0",
        http="127.0.0.1:0",
        workers=1,
        max_request_bytes=1 << 20,
        max_receive_seconds=1,
        max_send_seconds=1,
        keepalive_seconds=2,
        max_call_seconds=4,
        max_concurrent_calls=64,
        grace_seconds=2,
        log_level="error",
    )
    with Server(config) as running:
        yield running


class Answer:
    """An answer: its status, its headers with names in lower case, and its body."""

    def __init__(self, response: http.client.HTTPResponse) -> None:
        self.status = response.status
        self.headers: dict[str, str] = {}
        for name, value in response.getheaders():
            before = self.headers.get(name.lower())
            self.headers[name.lower()] = value if before is None else f"{before}, {value}"
        self.body = response.read()

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def error(self) -> tuple[str, str]:
        return self.json["code"], self.json["message"]


def ask(
    server: Server, path: str, body: Any = None, kind: str = JSON, *, method: str = "POST", **headers: str
) -> Answer:
    connection = http.client.HTTPConnection(server.http_address, timeout=20)
    try:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        data = json.dumps(body) if isinstance(body, dict) else body
        connection.request(method, path, data, ({"content-type": kind} if kind else {}) | named)
        return Answer(connection.getresponse())
    finally:
        connection.close()


def proto_question() -> v1.LinearIndexRequest:
    return v1.LinearIndexRequest(shape=v1.ShapeInput(text=TILED), indices=[2, 3])


def slow(server: Server, start: bytes, seconds: float = 10) -> bytes:
    """What the server sends to a caller that sends `start` and nothing more, until it ends the connection."""
    host, _, port = server.http_address.rpartition(":")
    with socket.create_connection((host, int(port)), timeout=seconds) as connection:
        connection.sendall(start)
        received = b""
        while part := connection.recv(65536):
            received += part
        return received


def head(path: str, kind: str, size: int, *more: str) -> bytes:
    """The first line and the headers of a request."""
    lines = (f"POST {path} HTTP/1.1", "host: localhost", f"content-type: {kind}", f"content-length: {size}", *more)
    return "\r\n".join((*lines, "", "")).encode()
