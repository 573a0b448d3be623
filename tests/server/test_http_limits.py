"""Limits of calls over HTTP, callers that do not read or go away, and TLS."""

from __future__ import annotations

import contextlib
import gzip
import http.client
import json
import socket
import ssl
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from http_calls import (
    BYTE_SIZE,
    JSON,
    LINEAR,
    MULTI_INDEX,
    QUESTION,
    Answer,
    ask,
    head,
    http_server,
    proto_question,
    slow,
)
from server_processes import ServerProcess, wait_until

from xlashape.proto import v1
from xlashape_server import Config, Server

pytest.importorskip("uvicorn", reason="uvicorn is not installed")


reads_proc = pytest.mark.skipif(
    sys.platform != "linux", reason="reads the files of another process from /proc, which only Linux has"
)


def descriptors(server: Server) -> int:
    [pid] = server.worker_pids
    return sum(1 for _ in Path(f"/proc/{pid}/fd").iterdir())


def connect(server: Server) -> socket.socket:
    """A connection that receives a few kB before the server has to wait until they are read."""
    host, _, port = server.http_address.rpartition(":")
    made = socket.socket()
    made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 12)
    made.settimeout(20)
    made.connect((host, int(port)))
    return made


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with http_server() as running:
        yield running


def test_a_body_that_is_too_large_is_refused_by_name(server: Server) -> None:
    answer = ask(server, LINEAR, b"\x00" * (5 << 20), "application/proto")
    assert (answer.status, answer.error[0]) == (429, "resource_exhausted")
    assert answer.error[1] == "a request message has more than 4194304 bytes, which are allowed"
    assert "google.rpc.QuotaFailure" in [each["type"] for each in answer.json["details"]]


def test_a_compressed_body_is_unpacked_within_the_limits(server: Server) -> None:
    small = gzip.compress(proto_question().SerializeToString())
    answer = ask(server, LINEAR, small, "application/proto", content_encoding="gzip")
    assert list(v1.LinearIndexResponse.FromString(answer.body).positions) == [17]
    in_json = ask(server, LINEAR, gzip.compress(json.dumps(QUESTION).encode()), content_encoding="gzip")
    assert in_json.json == {"positions": ["17"]}
    bomb = ask(
        server, LINEAR, gzip.compress(b"\x00" * (500 << 20), 1)[: 1 << 20], "application/proto", content_encoding="gzip"
    )
    assert bomb.error[0] == "resource_exhausted"
    cut = ask(server, LINEAR, small[:-9], "application/proto", content_encoding="gzip")
    assert cut.error == ("invalid_argument", "a compressed request message is truncated")
    wrong = ask(server, LINEAR, b"nothing", "application/proto", content_encoding="gzip")
    assert wrong.error[0] == "invalid_argument"
    assert ask(server, LINEAR, small, "application/proto", content_encoding="br").error[0] == "unimplemented"


def test_a_deadline_that_has_passed_ends_the_call(server: Server) -> None:
    answer = ask(server, LINEAR, QUESTION, connect_timeout_ms="0")
    assert (answer.status, answer.error[0]) == (504, "deadline_exceeded")
    for wrong in ("-1", "x", "12345678901", "1e3"):
        assert ask(server, LINEAR, QUESTION, connect_timeout_ms=wrong).error[0] == "invalid_argument"


def test_the_error_of_a_call_without_time_is_sent_while_its_body_still_comes() -> None:
    """The watch cuts off calls whose deadline has passed. A call that is already refused is left alone, so its
    connection can be used again."""
    request = proto_question().SerializeToString()
    # The usual limits are so high that a machine which stalls for a second does not reach them.
    config = Config(address="127.0.0.1:0", http="127.0.0.1:0", workers=1, log_level="error")
    with Server(config) as server:
        host, _, port = server.http_address.rpartition(":")
        with socket.create_connection((host, int(port)), timeout=20) as connection:
            _ask_without_time(connection, request)


def _ask_without_time(connection: socket.socket, request: bytes) -> None:
    for _ in range(3):
        connection.sendall(head(LINEAR, "application/proto", len(request), "connect-timeout-ms: 0"))
        time.sleep(0.3)
        connection.sendall(request)
        response = http.client.HTTPResponse(connection)
        response.begin()
        assert json.loads(response.read())["code"] == "deadline_exceeded"


def test_a_body_that_does_not_come_is_waited_for_so_long(server: Server) -> None:
    head = f"POST {LINEAR} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n"
    began = time.monotonic()
    answer = slow(server, head.encode() + b'{"shape"')
    assert 0.9 < time.monotonic() - began < 5
    assert answer.startswith(b"HTTP/1.1 429")
    assert b"the request did not come within 1 seconds" in answer
    assert ask(server, LINEAR, QUESTION).status == 200


def test_what_is_no_http_ends_its_connection_only(server: Server) -> None:
    for start in (
        b"\x16\x03\x01\x00\xa5" + b"\x00" * 200,
        b"GET\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\xff" * 100,
    ):
        slow(server, start)
    assert ask(server, LINEAR, QUESTION).status == 200


def test_headers_have_a_limit(server: Server) -> None:
    with pytest.raises((http.client.HTTPException, OSError)) as caught:
        answer = ask(server, LINEAR, QUESTION, x_long="y" * 200_000)
        assert answer.status == 431
        raise http.client.HTTPException
    assert caught.value is not None
    assert ask(server, LINEAR, QUESTION).status == 200


@pytest.mark.parametrize("requests", [1, 5])
def test_callers_that_do_not_read_are_cut_off(server: Server, requests: int) -> None:
    host, _, port = server.http_address.rpartition(":")
    shape = v1.ShapeInput(text="f32[1000000]")
    body = v1.MultiIndexRequest(shape=shape, positions=range(300_000)).SerializeToString()
    with socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.settimeout(20)
        connection.connect((host, int(port)))
        with pytest.raises(ConnectionError):
            connection.sendall((head(MULTI_INDEX, "application/proto", len(body)) + body) * requests)
            while True:
                connection.sendall(b"x")
                time.sleep(0.1)
    assert ask(server, LINEAR, QUESTION).status == 200


@pytest.mark.parametrize("start", [b"", b"POST ", b"POST / HTTP/1.1\r\nhost: localhost\r\n"])
@pytest.mark.parametrize("before", [0, 1])
def test_a_request_that_does_not_begin_ends_its_connection(server: Server, start: bytes, before: int) -> None:
    """A byte now and then does not keep a connection open, neither a new one nor one after a request."""
    host, _, port = server.http_address.rpartition(":")
    content = json.dumps(QUESTION).encode()
    began = time.monotonic()
    with socket.create_connection((host, int(port)), timeout=10) as connection:
        connection.sendall((head(LINEAR, JSON, len(content)) + content) * before + start)
        connection.settimeout(0.2)
        with pytest.raises(ConnectionError):
            while time.monotonic() - began < 10:
                with contextlib.suppress(TimeoutError):
                    if connection.recv(65536) == b"":
                        raise ConnectionResetError
                if start:
                    connection.sendall(b"x")
    assert 0.9 < time.monotonic() - began < 6


def test_a_caller_that_goes_away_frees_its_place(server: Server) -> None:
    """Ten times as many callers go away as there are places for calls."""
    head = f"POST {LINEAR} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n"
    host, _, port = server.http_address.rpartition(":")
    for _ in range(640):
        with socket.create_connection((host, int(port)), timeout=20) as connection:
            connection.sendall(head.encode())

    def is_answered() -> bool:
        try:
            return ask(server, LINEAR, QUESTION).status == 200
        except ConnectionError:  # on a busy machine the connection was idle for too long before it was read
            return False

    wait_until(is_answered, 10)


@reads_proc
def test_a_connection_that_its_caller_closes_is_closed(server: Server) -> None:
    assert ask(server, LINEAR, QUESTION).status == 200
    before = descriptors(server)
    for _ in range(50):  # each on a connection of its own
        assert ask(server, LINEAR, QUESTION).status == 200
    wait_until(lambda: descriptors(server) < before + 10, 10)


@reads_proc
def test_a_connection_whose_caller_ends_its_sending_and_reads_nothing_is_closed(server: Server) -> None:
    question = v1.MultiIndexRequest(shape=v1.ShapeInput(text="f32[64,64]"), positions=[1] * 1_000_000)
    content = question.SerializeToString()
    assert ask(server, LINEAR, QUESTION).status == 200
    before = descriptors(server)
    callers = [connect(server) for _ in range(10)]
    try:
        for caller in callers:
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # refused before all of it is sent
                caller.sendall(
                    head("/xlashape.v1.ShapeService/MultiIndex", "application/proto", len(content)) + content
                )
                caller.shutdown(socket.SHUT_WR)
        wait_until(lambda: descriptors(server) < before + 5, 20)
    finally:
        for caller in callers:
            caller.close()


@pytest.mark.parametrize("path", [LINEAR, "/nothing"])
def test_a_body_that_breaks_after_its_answer_began_ends_its_connection_only(server: Server, path: str) -> None:
    """h11 can neither answer the broken request nor continue with the connection."""
    with ServerProcess(Config(address="127.0.0.1:0", http="127.0.0.1:0", workers=1)) as running:
        host, _, port = running.event["http"].rpartition(":")
        start = f"POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: x\r\ntransfer-encoding: chunked\r\n\r\n"
        for pause in (0, 0.1):
            for _ in range(5):
                with socket.create_connection((host, int(port)), timeout=10) as connection:
                    connection.sendall(start.encode() + b"5\r\nhello\r\n")
                    time.sleep(pause)
                    with contextlib.suppress(OSError):
                        connection.sendall(b"this is no chunk\r\n\r\n")
                        while connection.recv(65536):
                            pass
        assert running.stop() == 0
        assert [line for line in running.lines() if line["level"] in ("error", "warning")] == []


def test_http_speaks_tls_with_the_certificate_of_the_server(tls_pair: tuple[str, str]) -> None:
    certificate, key = tls_pair
    config = Config(
        address="127.0.0.1:0",
        http="127.0.0.1:0",
        workers=1,
        tls_certificate=certificate,
        tls_key=key,
        log_level="error",
    )
    with Server(config) as running:
        context = ssl.create_default_context(cafile=certificate)
        context.check_hostname = False
        host, _, port = running.http_address.rpartition(":")
        context.set_alpn_protocols(["h2", "http/1.1"])
        with context.wrap_socket(socket.create_connection((host, int(port)), timeout=20)) as secured:
            assert secured.selected_alpn_protocol() == "http/1.1"
        connection = http.client.HTTPSConnection(running.http_address, context=context, timeout=20)
        connection.request("POST", LINEAR, json.dumps(QUESTION), {"content-type": JSON})
        assert Answer(connection.getresponse()).json == {"positions": ["17"]}
        connection.close()


def test_connections_that_end_badly_are_no_errors_of_the_server(tls_pair: tuple[str, str]) -> None:
    """One caller over TLS sends more data after the server has ended the connection. Another reads nothing and is cut
    off."""
    certificate, key = tls_pair
    config = Config(
        address="127.0.0.1:0",
        http="127.0.0.1:0",
        workers=1,
        tls_certificate=certificate,
        tls_key=key,
        max_send_seconds=1,
        log_level="debug",
    )
    positions = v1.MultiIndexRequest(shape=v1.ShapeInput(text="f32[64,64]"), positions=[1] * 1_000_000)
    content = positions.SerializeToString()
    with ServerProcess(config) as running:
        host, _, port = running.event["http"].rpartition(":")
        context = ssl.create_default_context(cafile=certificate)
        context.check_hostname = False

        def connect(receive_bytes: int = 1 << 16) -> ssl.SSLSocket:
            plain = socket.socket()
            plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
            plain.settimeout(20)
            plain.connect((host, int(port)))
            return context.wrap_socket(plain)

        for _ in range(5):
            with connect() as connection, contextlib.suppress(OSError):
                connection.sendall(head(BYTE_SIZE, "application/proto", 0, "connection: close"))
                while True:
                    connection.sendall(b"x" * 5000)
        with connect(1 << 12) as connection:
            connection.sendall(head("/xlashape.v1.ShapeService/MultiIndex", "application/proto", len(content)))
            connection.sendall(content)
            wait_until(lambda: bool(running.logged("cut off")), 30)
        with connect() as connection:
            connection.sendall(head(BYTE_SIZE, "application/proto", 0))
            assert connection.recv(12) == b"HTTP/1.1 200"
        assert running.stop() == 0
        errors = [line for line in running.lines() if line["level"] == "error"]
        assert errors == [], errors


def test_calls_under_way_are_answered_when_the_server_stops() -> None:
    config = Config(address="127.0.0.1:0", http="127.0.0.1:0", workers=1, grace_seconds=20, log_level="error")
    with Server(config) as running:
        body = json.dumps(QUESTION).encode()
        connection = http.client.HTTPConnection(running.http_address, timeout=20)
        connection.putrequest("POST", LINEAR)
        connection.putheader("content-type", JSON)
        connection.putheader("content-length", str(len(body)))
        connection.endheaders()
        time.sleep(0.3)
        stopping = threading.Thread(target=running.stop)
        stopping.start()
        time.sleep(0.5)
        connection.send(body)
        assert Answer(connection.getresponse()).json == {"positions": ["17"]}
        connection.close()
        stopping.join(20)
        assert not stopping.is_alive()
