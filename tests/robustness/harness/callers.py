"""Callers that record their requests and the outcomes. They use the Python client, gRPC without the client, or a
transport of `async_callers` or `http_callers`.

A caller is a thread with a connection of its own. It makes calls whose answers are known, uploads new modules, reads
modules of all callers, and deletes some.
"""

from __future__ import annotations

import hashlib
import random
import threading
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import Any, Protocol

import grpc

from harness.history import Entry, History, digest_of
from harness.questions import Outcome, Question, code_of
from xlashape.errors import XlashapeError
from xlashape.proto import message_class, services, v1
from xlashape_client import Client

__all__ = [
    "MAY_PASS",
    "PAUSE_SECONDS",
    "SECONDS",
    "Caller",
    "GrpcTransport",
    "Modules",
    "PythonTransport",
    "Transport",
    "name_of",
    "new_module",
    "outcome_of_error",
    "upload_requests",
]

MAY_PASS = {"UNAVAILABLE", "RESOURCE_EXHAUSTED", "DEADLINE_EXCEEDED", "CANCELLED"}
"""The codes with which a call may end during a fault. INTERNAL and UNKNOWN are always mistakes."""
SECONDS = 10.0
"""The deadline of a call."""
PAUSE_SECONDS = 0.01
"""The time between two calls, on average."""
_LONG_BYTES = 200_000
# The most modules that a caller has at a time. The modules of all callers fit the store, so that it evicts none.
_MAX_OWN = 45
# The bytes of a message of an upload.
_PIECE_BYTES = 65_536
_ANSWERS = {f"{s.name}/{m.name}": m.output_type.full_name for s in services() for m in s.methods}
_STREAMS = {f"{s.name}/{m.name}" for s in services() for m in s.methods if m.client_streaming or m.server_streaming}


class Transport(Protocol):
    """A way to make calls."""

    name: str
    takes_streams: bool
    has_own_bytes: bool
    """Whether the bytes of answers may differ from those that the server's handlers make, because the client decodes
    and encodes them."""

    def ask(self, rpc: str, requests: tuple[bytes, ...]) -> Outcome:
        """The outcome of a call."""
        ...

    def close(self) -> None:
        """Ends the connection."""
        ...


class GrpcTransport:
    """grpc without our client."""

    name = "grpc"
    takes_streams = True
    has_own_bytes = False

    def __init__(self, address: str, root: bytes | None) -> None:
        options = [("grpc.use_local_subchannel_pool", 1), ("grpc.max_reconnect_backoff_ms", 500)]
        self._channel: Any = (
            grpc.insecure_channel(address, options)
            if root is None
            else grpc.secure_channel(address, grpc.ssl_channel_credentials(root), options)
        )

    def ask(self, rpc: str, requests: tuple[bytes, ...]) -> Outcome:
        answers: list[bytes] = []
        try:
            call = self._channel.stream_stream(f"/xlashape.v1.{rpc}")
            answers.extend(call(iter(requests), timeout=SECONDS))
        except grpc.RpcError as error:
            failed: Any = error
            return Outcome(failed.code().name, failed.details() or "", tuple(answers))
        return Outcome("OK", "", tuple(answers))

    def close(self) -> None:
        self._channel.close()


class PythonTransport:
    """The Python client."""

    name = "python"
    takes_streams = True
    has_own_bytes = False

    def __init__(self, address: str, root: bytes | None) -> None:
        self._client = Client(address, timeout=SECONDS, root_certificates=root)
        self._methods = {f"{s.name}/{m.name}": m for s in services() for m in s.methods}

    def ask(self, rpc: str, requests: tuple[bytes, ...]) -> Outcome:
        method = self._methods[rpc]
        sent: bytes | Iterator[bytes] = iter(requests) if method.client_streaming else requests[0]
        answers: list[bytes] = []
        try:
            if method.server_streaming:
                answers.extend(self._client.stream(method.name, sent, None))
            else:
                answers.append(self._client.send(method.name, sent, None))
        except XlashapeError as error:
            return outcome_of_error(error, tuple(answers))
        return Outcome("OK", "", tuple(answers))

    def close(self) -> None:
        self._client.close()


def outcome_of_error(error: XlashapeError, answers: tuple[bytes, ...]) -> Outcome:
    """The outcome of a call of the Python client that raised `error` after these answers."""
    cause: Any = error.__cause__
    if isinstance(cause, grpc.RpcError) and hasattr(cause, "code"):
        return Outcome(cause.code().name, cause.details() or "", answers)
    return Outcome(code_of(error), str(error), answers)


class Modules:
    """The modules that all callers share: those that the server has acknowledged and that are not deleted, by name.

    Callers store, read and delete modules within `with modules.used()`. A `with modules.at_rest()` waits until no
    caller does, and makes callers wait until it ends.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users = threading.Condition()
        self._user_count = 0
        self._is_at_rest = False
        self._kept: dict[str, bytes] = {}
        self._leaving: set[str] = set()
        self._is_removed = False
        self.excused: set[str] = set()
        """Modules that a fault has removed."""

    @contextmanager
    def used(self) -> Generator[None]:
        """Waits while modules are at rest."""
        with self._users:
            self._users.wait_for(lambda: not self._is_at_rest)
            self._user_count += 1
        try:
            yield
        finally:
            with self._users:
                self._user_count -= 1
                self._users.notify_all()

    @contextmanager
    def at_rest(self) -> Generator[None]:
        """Waits until no caller uses a module, for as long as a call may take."""
        with self._users:
            self._is_at_rest = True
            self._users.wait_for(lambda: not self._user_count, 2 * SECONDS)
        try:
            yield
        finally:
            with self._users:
                self._is_at_rest = False
                self._users.notify_all()

    def acknowledged(self, name: str, content: bytes) -> None:
        """Notes that the server has acknowledged the module."""
        with self._lock:
            self._kept[name] = content

    def forget(self, name: str) -> bool:
        """Notes that a caller is about to delete the module. False if the module is not kept, because a fault has
        removed it."""
        with self._lock:
            if self._is_removed:
                self.excused.add(name)
            self._leaving.add(name)
            return self._kept.pop(name, None) is not None

    def deleted(self, name: str) -> None:
        """Notes that the call that deletes the module has ended."""
        with self._lock:
            self._leaving.discard(name)

    def kept(self) -> dict[str, bytes]:
        """The modules that the server must have."""
        with self._lock:
            return dict(self._kept)

    @contextmanager
    def removed(self) -> Generator[None]:
        """Notes that a fault removes all modules while the block runs, those too that are stored or deleted
        meanwhile."""
        self._excuse_all(is_removed=True)
        try:
            yield
        finally:
            self._excuse_all(is_removed=False)

    def _excuse_all(self, *, is_removed: bool) -> None:
        with self._lock:
            self._is_removed = is_removed
            self.excused.update(self._kept, self._leaving)
            self._kept.clear()


def new_module(r: random.Random) -> bytes:
    """The text of a module that was not uploaded before."""
    comment = f"// {r.getrandbits(64):x} " + "x" * r.choice((10, 10, 1000, _LONG_BYTES))
    return f"HloModule m{r.getrandbits(64):x}\n{comment}\nENTRY e {{\n  ROOT p = f32[{r.randint(1, 99)}] parameter(0)\n}}\n".encode()


def name_of(content: bytes) -> str:
    """The name that a module has on every server."""
    return f"modules/{hashlib.sha256(content).hexdigest()}"


def upload_requests(content: bytes) -> tuple[bytes, ...]:
    """The requests of UploadModule."""
    pieces = [content[at : at + _PIECE_BYTES] for at in range(0, len(content), _PIECE_BYTES)]
    made = [v1.UploadModuleRequest(data=piece) for piece in pieces]
    made[0].sha256, made[0].size_bytes = hashlib.sha256(content).hexdigest(), len(content)
    return tuple(each.SerializeToString() for each in made)


def read_requests(name: str) -> tuple[bytes, ...]:
    """The request for the content of a module."""
    return (v1.GetModuleRequest(name=name, include_content=True, content_limit=1 << 20).SerializeToString(),)


def _written_again(question: Question) -> Outcome:
    """The library's answers, decoded and encoded again: handlers may write fields in any order, and encoded messages
    have one order."""
    made = message_class(_ANSWERS[question.rpc])
    answers = (made.FromString(each).SerializeToString(deterministic=True) for each in question.expected.answers)
    return question.expected._replace(answers=tuple(answers))


class Caller(threading.Thread):
    """Makes calls until `stop` is set, with `pause` seconds between two calls on average. `tells_deletions`: whether
    it notes deletions, of which all workers know at once."""

    def __init__(
        self,
        name: str,
        transport: Transport,
        asked: list[Question],
        modules: Modules,
        history: History,
        stop: threading.Event,
        *,
        tells_deletions: bool,
        pause: float = PAUSE_SECONDS,
    ) -> None:
        super().__init__(name=name, daemon=True)
        self._transport = transport
        self._asked = [
            (
                str(number),
                question,
                digest_of(_written_again(question) if transport.has_own_bytes else question.expected),
            )
            for number, question in enumerate(asked)
            if transport.takes_streams or question.rpc not in _STREAMS
        ]
        self._modules = modules
        self._history = history
        self._stop_event = stop
        self._r = random.Random(name)
        self._own: list[str] = []
        self._tells_deletions = tells_deletions
        self._pause = pause
        self.failure: Exception | None = None
        """The exception that ended the caller before `stop` was set: a mistake of the harness."""

    def run(self) -> None:
        try:
            self._ask_until_stopped()
        except Exception as error:  # the run reports it
            self.failure = error
        finally:
            self._transport.close()

    def _ask_until_stopped(self) -> None:
        while not self._stop_event.wait(self._r.random() * 2 * self._pause):
            kind = self._r.random()
            if kind < 0.8:
                number, question, right = self._r.choice(self._asked)
                self._call("question", number, question.rpc, question.requests, right)
                continue
            with self._modules.used():
                if kind < 0.87 and len(self._own) < _MAX_OWN:
                    self._upload()
                elif kind < 0.98:
                    kept = self._modules.kept()
                    if kept:
                        name = self._r.choice(list(kept))
                        self.read(name, kept[name])
                elif self._own:
                    self._remove(self._own.pop(self._r.randrange(len(self._own))))

    def _call(self, what: str, subject: str, rpc: str, requests: tuple[bytes, ...], right: str = "") -> Outcome:
        began = time.monotonic()
        outcome = self._transport.ask(rpc, requests)
        self._note(what, subject, began, outcome, right, digest_of(outcome) if right else "", rpc)
        return outcome

    def _note(self, what: str, subject: str, began: float, outcome: Outcome, right: str, got: str, rpc: str) -> None:
        self._history.add(
            Entry(self.name, what, subject, began, time.monotonic(), outcome.code, outcome.message, right, got, rpc)
        )

    def _upload(self) -> None:
        content = new_module(self._r)
        name = name_of(content)
        if self._transport.takes_streams and self._r.random() < 0.5:
            outcome = self._call("upload", name, "HloService/UploadModule", upload_requests(content))
        else:
            request = v1.PutModuleRequest(data=content, sha256=hashlib.sha256(content).hexdigest())
            outcome = self._call("upload", name, "HloService/PutModule", (request.SerializeToString(),))
        if outcome.code == "OK":
            self._modules.acknowledged(name, content)
            self._own.append(name)

    def read(self, name: str, content: bytes, what: str = "read", until: float = 0.0) -> str:
        """Reads a module that the server must have, and returns the code. Codes of `MAY_PASS` are retried until a time
        of time.monotonic()."""
        while True:
            began = time.monotonic()
            outcome = self._transport.ask("HloService/GetModule", read_requests(name))
            if outcome.code not in MAY_PASS or time.monotonic() > until:
                break
            time.sleep(0.1)
        right = hashlib.sha256(content).hexdigest()[:16]
        got = ""
        if outcome.code == "OK":
            got = hashlib.sha256(v1.GetModuleResponse.FromString(outcome.answers[0]).content).hexdigest()[:16]
        elif outcome.code == "NOT_FOUND" and name not in self._modules.kept():
            return "NOT_FOUND"  # it was deleted meanwhile, or a fault removed it
        self._note(what, name, began, outcome, right, got, "HloService/GetModule")
        return outcome.code

    def _remove(self, name: str) -> None:
        if not self._modules.forget(name):
            return
        request = (v1.DeleteModuleRequest(name=name).SerializeToString(),)
        outcome = self._call("delete", name, "HloService/DeleteModule", request)
        self._modules.deleted(name)
        if outcome.code == "OK" and self._tells_deletions:
            again = self._transport.ask("HloService/GetModule", read_requests(name))
            if again.code == "OK":
                self._note("deleted", name, time.monotonic(), again, "NOT_FOUND", again.code, "HloService/GetModule")
