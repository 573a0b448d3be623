"""The application of ASGI without hypercorn: answers that cannot be sent, since the connection ended or hypercorn has answered by itself.

Whatever `send` raises, the call ends, gives back what it held, and raises nothing, since hypercorn logs that as a failure of the server.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from http_calls import BYTE_SIZE, JSON, LINEAR_INDICES, enveloped

from xlashape.proto import v1
from xlashape_server import Config
from xlashape_server.bucket import open_store
from xlashape_server.callers import caller_at
from xlashape_server.guard import Guard
from xlashape_server.handlers import rpcs
from xlashape_server.modules import Modules

h11 = pytest.importorskip("h11", reason="hypercorn is not installed")
application = pytest.importorskip("xlashape_server.web.application", reason="connectrpc needs Python 3.11")

MULTI_INDEX = "/xlashape.v1.ShapeService/MultiIndex"
UPLOAD = "/xlashape.v1.HloService/UploadModule"
ENDS = {
    "the connection was reset": ConnectionResetError("Connection lost"),
    "TLS has ended": OSError("SSL shutdown timed out"),
    "hypercorn has answered": h11.LocalProtocolError("Too much data for declared Content-Length"),
}


class Worker:
    """The guard of a worker and its application. `sent` has the types of what an answer sent; `aborts` counts the connections that were ended."""

    def __init__(self, folder: Path) -> None:
        config = Config(store_directory=str(folder))
        self.guard = Guard(config)
        self.sent: list[str] = []
        self.aborts = 0
        self._threads = ThreadPoolExecutor(4)
        answered = rpcs(config, Modules(config, open_store(config)))
        self._application = application.Application(config, self.guard, answered, self._threads)

    def ask(
        self, path: str, body: bytes, kind: str, *, fails_at: int, error: Exception, method: str = "POST", **more: str
    ) -> None:
        """Asks for `path`. `send` raises `error` from its call of this number on."""
        headers = {"content-type": kind, **{name.replace("_", "-"): value for name, value in more.items()}}
        scope = {
            "type": "http",
            "http_version": "1.1",
            "method": method,
            "path": path,
            "query_string": b"",
            "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
            "extensions": {},
        }
        parts = [{"type": "http.request", "body": body, "more_body": False}]

        async def receive() -> dict[str, Any]:
            if parts:
                return parts.pop()
            await asyncio.sleep(60)  # nothing more comes
            return {"type": "http.disconnect"}

        async def send(message: dict[str, Any]) -> None:
            if len(self.sent) >= fails_at:
                raise error.with_traceback(None)
            self.sent.append(message["type"])

        def abort() -> None:
            self.aborts += 1

        caller = caller_at("ipv4:127.0.0.1:1000")
        call = self._application.call(caller, (), abort, scope, receive, send)
        asyncio.run(asyncio.wait_for(call, 20))

    def close(self) -> None:
        self._threads.shutdown()

    def has_given_back_all(self) -> bool:
        """Whether no call is under way or holds a place or memory, now or within ten seconds: a thread closes the last step of a stream."""
        end = time.monotonic() + 10
        guard = self.guard
        while guard.watch.calls or guard.memory.reserved or guard.places.taken or guard.streams.taken:
            if time.monotonic() > end:
                return False
            time.sleep(0.01)
        return not guard.uploads.taken


@pytest.fixture
def worker(tmp_path: Path) -> Iterator[Worker]:
    made = Worker(tmp_path)
    yield made
    made.close()


def _large() -> bytes:
    """A request whose answer is sent in several parts, and has its memory reserved."""
    return v1.MultiIndexRequest(shape=v1.ShapeInput(text="f32[64,64]"), positions=[1] * 500_000).SerializeToString()


def _stream() -> bytes:
    """A stream of requests, each with an answer."""
    shape = v1.ShapeInput(text="f32[64,64]")
    message = v1.LinearIndicesRequest(shape=shape, indices=[7] * 100_000).SerializeToString()
    return enveloped(message, *[v1.LinearIndicesRequest(indices=[7] * 100_000).SerializeToString()] * 5)


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("fails_at", [0, 1, 3], ids=["start", "first part", "middle"])
@pytest.mark.parametrize(
    ("path", "kind", "request_of"),
    [(MULTI_INDEX, "application/proto", _large), (LINEAR_INDICES, "application/connect+proto", _stream)],
    ids=["one answer", "stream"],
)
def test_an_answer_that_cannot_be_sent_ends_its_call(
    worker: Worker, path: str, kind: str, request_of: Any, fails_at: int, end: str
) -> None:
    worker.ask(path, request_of(), kind, fails_at=100, error=ENDS[end])
    assert len(worker.sent) > fails_at + 1, "the answer has no part that could fail"
    assert worker.aborts == 0
    worker.sent.clear()
    worker.ask(path, request_of(), kind, fails_at=fails_at, error=ENDS[end])
    assert (len(worker.sent), worker.aborts) == (fails_at, 1)
    assert worker.has_given_back_all()


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("fails_at", [0, 1], ids=["start", "body"])
@pytest.mark.parametrize(
    ("path", "body", "kind", "more"),
    [
        (BYTE_SIZE, b"{", JSON, {}),
        (UPLOAD, b"no envelope", "application/connect+proto", {}),
        ("/somewhere", b"", JSON, {}),
        (BYTE_SIZE, b"", "text/plain", {}),
        (BYTE_SIZE, b"", JSON, {"method": "PUT"}),
        (BYTE_SIZE, b"", JSON, {"method": "OPTIONS", "access-control-request-method": "POST"}),
    ],
    ids=["message", "stream", "path", "media type", "method", "preflight"],
)
def test_a_refusal_that_cannot_be_sent_ends_its_call(
    worker: Worker, path: str, body: bytes, kind: str, more: dict[str, str], fails_at: int, end: str
) -> None:
    worker.ask(path, body, kind, fails_at=fails_at, error=ENDS[end], **more)
    assert (len(worker.sent), worker.aborts) == (fails_at, 1)
    assert worker.has_given_back_all()


def test_what_fails_by_itself_is_not_taken_for_the_end_of_a_connection(worker: Worker) -> None:
    with pytest.raises(ZeroDivisionError):
        worker.ask(MULTI_INDEX, _large(), "application/proto", fails_at=1, error=ZeroDivisionError())
    assert worker.has_given_back_all()


@pytest.mark.parametrize("name", ["unknown_method", "access"])
def test_an_oserror_of_the_server_itself_is_not_taken_for_the_end_of_a_connection(
    worker: Worker, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """hypercorn logs what an application raises as an error of the server."""

    class Full:
        def __getattr__(self, _: str) -> Any:
            return self

        def __call__(self, *_: object, **more: object) -> Any:
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(worker.guard, name, Full())
    path = "/somewhere" if name == "unknown_method" else BYTE_SIZE
    with pytest.raises(OSError, match="No space left on device"):
        worker.ask(path, b"{}", JSON, fails_at=100, error=ZeroDivisionError())
    assert worker.aborts == 0
