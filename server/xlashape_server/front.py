"""Answers the calls of a front: small questions here, all others in compute children.

Here are answered questions about shapes and small maps, whose time is bounded by their size: at most `_CONTENT` bytes
that are no packed numbers, so that no step of C holds the interpreter for more than 50 ms. Everything about modules,
and what is larger, goes to a child, as bytes. Finished answers are kept as bytes, and given again as long as the
modules that they are about are in the store.
"""

from __future__ import annotations

import contextlib
import tempfile
import threading
import time
from collections.abc import Generator, Iterable, Iterator
from hashlib import blake2b
from typing import Final, NamedTuple

from xlashape.base.caches import BoundedCache
from xlashape.errors import DeadlineExceededError, DecodeError, LimitExceededError, NotFoundError
from xlashape.limits import at_most, set_checkpoint
from xlashape.proto.wire import BYTES, fields
from xlashape_server.child import add_message
from xlashape_server.children import Children, Question
from xlashape_server.config import Config
from xlashape_server.guard import Call
from xlashape_server.handlers import Rpc
from xlashape_server.store import Store, digests_in

_CONTENT = 16 << 10
"""Bytes of a request, beside packed numbers, that are decoded here."""
_MAP_CONTENT = 2 << 10
"""Bytes of a request about maps that is tried here, for so many seconds; then a child is asked."""
_MAP_SECONDS = 0.02
_MOST_FIELDS = 64  # fields of a request with packed numbers; protobuf would make an object of each number of more
_BULK_CALLS = 2  # calls with many numbers that compute here at a time
_NAMED = 4096  # bytes of a request in which names of modules are looked for
_PART_OF_MEMORY = 8  # kept answers may take an eighth of the memory
_ENTRY_BYTES = 300  # bytes of memory of a kept answer beside its content

_NUMBERS: Final = {
    "LinearIndex": "indices",
    "LinearIndices": "indices",
    "MultiIndex": "positions",
    "MultiIndices": "positions",
    "EvaluateMapBatch": "points",
}
"""RPCs that are answered here whatever the size of this field, which has packed numbers."""
_SHAPES: Final = ("DescribeShape", "ByteSize")
_FACTS: Final = ("GetModule", "DeleteModule")
_MAPS: Final = ("ParseMap", "SimplifyMap", "ComposeMaps", "EvaluateMap")


class _Asked(NamedTuple):
    """An RPC, and where it is answered."""

    rpc: Rpc
    numbers: int
    """The number of its field with packed numbers; 0 for none."""
    content: int
    """The most bytes beside these of a request that is answered here; 0 if none is."""
    is_map: bool
    keeps: bool
    """Whether answers are kept."""


class Front:
    """Answers calls by the number of their RPC in `rpcs`."""

    def __init__(self, config: Config, rpcs: tuple[Rpc, ...], store: Store, children: Children) -> None:
        self._asked = [_asked(rpc) for rpc in rpcs]
        self.store = store
        self._children = children
        self._max_seconds = config.max_call_seconds
        self._max_module_bytes = config.max_module_bytes
        self.kept: BoundedCache[bytes, bytes] = BoundedCache(
            "xlashape_server: finished answers",
            config.worker_memory() // _PART_OF_MEMORY,
            lambda _, answer: len(answer) + _ENTRY_BYTES,
        )
        self.hits = self.misses = 0
        """How many calls found an answer that was kept, and how many did not."""
        self._bulk = threading.BoundedSemaphore(_BULK_CALLS)

    def is_small(self, number: int) -> bool:
        """Whether the front answers the RPC itself, as a rule."""
        return self._asked[number].content > 0

    def answer(self, number: int, call: Call, data: bytes, *, is_json: bool = False) -> bytes:
        """The answer to one request, both as JSON if `is_json`."""
        asked = self._asked[number]
        is_small = len(data) <= asked.content or (asked.numbers and not is_json and self._fits(asked, data))
        if is_small and not asked.keeps:
            return self._here(asked, call, data, is_json=is_json) or b""
        key = blake2b(data, digest_size=16, key=b"%d %d" % (number, is_json)).digest()
        about = digests_in(data) if len(data) <= _NAMED else ()
        if asked.keeps:
            found = self.kept.get(key)
            if found is not None and self._are_there(about):
                self.hits += 1
                return found
            self.misses += 1
        found = self._here(asked, call, data, is_json=is_json) if is_small else None
        if found is None:
            found = self._children.ask(self._question(number + is_json * len(self._asked), call, data, key, about))
            call.hold(len(found))
        if asked.keeps:
            self.kept.put(key, found)
        return found

    def _here(self, asked: _Asked, call: Call, data: bytes, *, is_json: bool) -> bytes | None:
        """The answer to a small question, or one with many numbers; None if it is about maps and takes long, so that a
        child is to be asked.
        """
        deadline = min(call.deadline, time.monotonic() + _MAP_SECONDS) if asked.is_map else call.deadline
        if len(data) <= _CONTENT:
            set_checkpoint(call.check)
            try:
                answer = (asked.rpc.in_json if is_json else asked.rpc.handler)(data, deadline)
            except DeadlineExceededError:
                if not asked.is_map or call.is_over or time.monotonic() > call.deadline:
                    raise
                return None
            finally:
                set_checkpoint(None)
        else:
            with self._turn(call):
                answer = asked.rpc.handler(data, deadline)
        call.hold(len(answer))
        return answer

    def conversation(self, number: int, call: Call, messages: Generator[bytes]) -> Iterator[bytes]:
        """The answers to a stream of requests, one to each, which are computed here."""
        asked = self._asked[number]
        received: list[bytes] = []
        answers = asked.rpc.handler(iter(received.pop, None), call.deadline)
        for message in messages:
            if len(message) > _CONTENT and not self._fits(asked, message):
                text = f"a message of a stream may have {_CONTENT} bytes beside its packed numbers"
                raise LimitExceededError(text, limit="stream_content", maximum=_CONTENT)
            received.append(message)
            with self._turn(call):
                answer = next(answers)
            yield answer

    @contextlib.contextmanager
    def _turn(self, call: Call) -> Generator[None]:
        """One of few calls with many numbers, which compute here."""
        while not self._bulk.acquire(timeout=0.1):
            call.check()
        set_checkpoint(call.check)
        try:
            yield
        finally:
            set_checkpoint(None)
            self._bulk.release()

    def upload(self, number: int, call: Call, messages: Iterable[bytes]) -> bytes:
        """The answer to a stream of requests that come as slowly as their caller likes. They go to a file, and then to
        a child.
        """
        with self.store.noting_space(0):
            file = tempfile.TemporaryFile(dir=self.store.incoming)  # noqa: SIM115  # closed below
        try:
            size = 0
            for message in messages:
                size += len(message)
                if size > self._max_module_bytes + _CONTENT * 64:
                    at_most(
                        self._max_module_bytes, size, "module_bytes", "the module has {} bytes or more", field="data"
                    )
                with self.store.noting_space(size):
                    add_message(file, message)
            with self.store.noting_space(size):
                file.flush()
            return self._children.ask(self._question(number, call, b"", b"", ())._replace(file=file.fileno()))
        finally:
            with contextlib.suppress(OSError):  # the rest of it cannot be written, and is not needed
                file.close()

    def _question(self, number: int, call: Call, data: bytes, key: bytes, about: tuple[str, ...]) -> Question:
        seconds = call.deadline - time.monotonic()
        return Question(number, data, seconds, lambda: call.is_over, key, about, (call.address, call.peer))

    def _are_there(self, digests: tuple[str, ...]) -> bool:
        """Whether the store has all of these modules. This counts as a use of them."""
        try:
            for digest in digests:
                self.store.find(f"modules/{digest}")
        except NotFoundError:
            return False
        return True

    @staticmethod
    def _fits(asked: _Asked, data: bytes) -> bool:
        """Whether a request with packed numbers has little content beside them."""
        rest = len(data)
        try:
            for count, (field, wire_type, start, content, end) in enumerate(fields(data)):
                if count == _MOST_FIELDS:
                    return False
                if field == asked.numbers:
                    if wire_type != BYTES or (end - content) % 8:
                        return False  # protobuf would make an object of each number
                    rest -= end - start
        except DecodeError:
            return False
        return rest <= asked.content


def _asked(rpc: Rpc) -> _Asked:
    method = rpc.method
    numbers = _NUMBERS.get(method.name)
    is_map = method.name in _MAPS
    content = _MAP_CONTENT if is_map else _CONTENT if numbers or method.name in (*_SHAPES, *_FACTS) else 0
    number = method.input_type.fields_by_name[numbers].number if numbers else 0
    options = method.GetOptions()
    keeps = options.idempotency_level == options.NO_SIDE_EFFECTS and not numbers and method.name not in _FACTS
    return _Asked(rpc, number, content, is_map, keeps)
