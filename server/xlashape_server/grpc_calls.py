"""Registers each RPC of the schema with grpc. This is the adapter between gRPC and the guard (`guard.py`), which admits
calls, and the front (`front.py`), which answers them.

Handlers are plain functions and no grpc.ServerInterceptor, which adds a fifth to the time of a small call. grpc chooses
the pool of threads by the method: questions that a front answers itself have a small one, calls that wait for a compute
child another, and so have large requests. A call holds a thread once its request is there (`CallThreads`). By itself
grpc gives a call its thread when its headers have come, and waits there for the request, so callers that send headers
alone would take all threads.
"""

from __future__ import annotations

import importlib
import inspect
import queue
import threading
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as NotInTimeError
from contextlib import closing
from functools import partial
from typing import Any, NoReturn, TypeAlias, TypeVar

import grpc
from grpc._cython import cygrpc
from grpc_status import rpc_status

from xlashape.errors import DeadlineExceededError, XlashapeError
from xlashape_server.callers import Places
from xlashape_server.config import Config
from xlashape_server.front import Front
from xlashape_server.guard import Call, Guard
from xlashape_server.handlers import Rpc

Q = TypeVar("Q")
Method: TypeAlias = "grpc.RpcMethodHandler[Any, Any]"
"""A method as grpc registers it."""

SMALL_THREADS = 32
"""The threads of a grpc server, in which a front answers what it answers itself."""
_REFUSING_THREADS = 16  # threads beyond those of admitted calls, to refuse further calls
_MAX_PENDING = 1 << 16  # calls that grpc keeps before Python code receives them
_IDENTITY, _GZIP = 0, 2  # grpc's numbers of compression algorithms


def server_options(config: Config) -> list[tuple[str, Any]]:
    """The options of a grpc server that the guard relies on."""
    return [
        # The guard refuses most messages that are too large, with an error that names the limit.
        ("grpc.max_receive_message_length", min(config.max_request_bytes * 5 // 4, (1 << 31) - 1)),
        ("grpc.max_send_message_length", -1),
        # The guard decompresses messages itself, because grpc decompresses without a limit: 60 kB become 60 MB.
        ("grpc.per_message_decompression", 0),
        ("grpc.compression_enabled_algorithms_bitset", 1 << _IDENTITY | 1 << _GZIP),
        # A connection needs no more streams than the calls that are admitted: further calls would only be refused.
        ("grpc.max_concurrent_streams", config.max_concurrent_calls),
        # The most calls that Python code has not received yet. By default grpc cancels some of them beyond 1,000,
        # whoever made them. The guard instead refuses calls by the shares of callers.
        ("grpc.server.max_pending_requests", _MAX_PENDING),
        ("grpc.server.max_pending_requests_hard_limit", _MAX_PENDING),
    ]


def add_services(
    server: grpc.Server, rpcs: tuple[Rpc, ...], guard: Guard, front: Front, small: CallThreads, config: Config
) -> None:
    """Registers `rpcs`. The threads of `server` are `small`; calls that are large or wait for children have others."""
    waiting = small.large = CallThreads(config.max_concurrent_calls + _REFUSING_THREADS, "module call")
    guard.also += [partial(each.end_waiting, config.max_receive_seconds) for each in (small, waiting)]
    guard.waiting += [small, waiting]
    by_service: dict[str, dict[str, Method]] = {}
    for number, rpc in enumerate(rpcs):
        method = rpc.method
        # A stream holds a thread while it waits for its caller.
        threads = small if front.is_small(number) and not method.client_streaming else waiting
        name = f"{method.containing_service.name}/{method.name}"
        if method.client_streaming and method.server_streaming:
            calls = GrpcCalls(guard, threads, guard.places, guard.streams)
            handler = calls.both_streams(name, partial(front.conversation, number))
        elif method.client_streaming:
            calls = GrpcCalls(guard, threads, guard.places, guard.uploads)
            handler = calls.client_stream(name, partial(front.upload, number))
        else:
            handler = GrpcCalls(guard, threads).unary(name, partial(front.answer, number))
        by_service.setdefault(method.containing_service.full_name, {})[method.name] = handler
    for full_name, methods in by_service.items():
        add_methods(server, full_name, methods)


def add_methods(server: grpc.Server, service: str, methods: dict[str, Method]) -> None:
    """Registers the methods of a service with `server`."""
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, methods),))
    typed: Any = (
        server  # the types of grpc do not have this: its core finds registered methods by itself, and so faster
    )
    typed.add_registered_method_handlers(service, methods)


class GrpcCalls:
    """Makes methods for grpc, which run in `threads`, of functions that answer calls; for each kind of RPC. A
    call needs one of each kind of `places`, by default an ordinary one.
    """

    def __init__(self, guard: Guard, threads: CallThreads, *places: Places) -> None:
        self.guard, self.threads, self.places = guard, threads, places

    def unary(self, name: str, answer: Callable[[Call, bytes], bytes]) -> Method:
        """From one request to one response."""

        def answered(data: bytes, context: Any) -> bytes:
            with _Answering(self, name, context) as call:
                response = answer(call, self.guard.message(call, data))
                call.answered(len(response))
                return response

        return grpc.unary_unary_rpc_method_handler(self._in_threads(answered))

    def client_stream(self, name: str, answer: Callable[[Call, Iterator[bytes]], bytes]) -> Method:
        """From a stream of requests to one response."""

        def answered(requests: Iterator[bytes], context: Any) -> bytes:
            with _Answering(self, name, context) as call, closing(received(requests, call.deadline)) as stream:
                response = answer(call, self._messages(call, stream))
                call.answered(len(response))
                return response

        return grpc.stream_unary_rpc_method_handler(self._in_threads(answered))

    def both_streams(self, name: str, answers: Callable[[Call, Generator[bytes]], Iterable[bytes]]) -> Method:
        """From a stream of requests to a stream of responses."""

        def answered(requests: Iterator[bytes], context: Any) -> Iterator[bytes]:
            with _Answering(self, name, context) as call, closing(received(requests, call.deadline)) as stream:
                for response in answers(call, self._messages(call, stream)):
                    call.sends(len(response))
                    yield response
                    if call.is_over:
                        break
                    call.sent()
                call.answered(0)

        return grpc.stream_stream_rpc_method_handler(self._in_threads(answered))

    def _in_threads(self, function: Any) -> Any:
        function.experimental_thread_pool = self.threads
        return function

    def _messages(self, call: Call, stream: Iterator[bytes]) -> Generator[bytes]:
        """The messages of a stream of requests."""
        is_first = True
        while True:
            call.receives(is_first=is_first)
            try:
                data = next(stream, None)
            finally:
                call.received()
            if data is None:
                return
            is_first = False
            yield self.guard.message(call, data)


class _Answering:
    """One call, from its admission to the end of its work. An exception that is raised within the `with` block becomes
    the status of the call. `context` is a grpc.ServicerContext.
    """

    __slots__ = ("_context", "_guard", "call")

    def __init__(self, calls: GrpcCalls, name: str, context: Any) -> None:
        self._guard, self._context = calls.guard, context
        try:
            self.call = self._guard.begin(
                name,
                context.peer(),
                context.time_remaining(),
                partial(_cut_off, self._guard, context),
                calls.places or None,
                headers=context.invocation_metadata,
            )
        except Exception as error:
            self._end(name, None, error)
        if not context.add_callback(self.call.transport_ended):
            self.call.transport_ended()

    def __enter__(self) -> Call:
        return self.call

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        call = self.call
        try:
            # An RpcError means that the caller went away before its request came, so no status is sent.
            if isinstance(error, Exception) and not isinstance(error, grpc.RpcError):
                self._end(call.name, call, error)
        finally:
            call.work_ended()

    def _end(self, name: str, call: Call | None, error: Exception) -> NoReturn:
        """Ends the call, which is None if it was not admitted, with the status of `error`."""
        status = self._guard.refusal(name, call, error)
        if call is not None:
            call.sends(0)
        self._context.abort_with_status(rpc_status.to_status(status))
        raise AssertionError("grpc's context has ended the call by an exception")


def _cut_off(guard: Guard, context: Any, call: Call, error: XlashapeError) -> None:
    """Ends a call from a thread that is not its own. The caller gets the status of `error` at once, even if it has not
    read the messages that were sent before.

    `cancel` of grpc's context gives no status: the caller would see CANCELLED without a reason. The call object within
    the context has a `cancel` with a status, but no public name.
    """
    status = guard.refusal(call.name, call, error)
    transport: Any = getattr(getattr(context, "_rpc_event", None), "call", None)
    try:
        transport.cancel(status.code, status.message)
    except Exception:  # another version of grpc, or the call has just ended
        context.cancel()


def received(requests: Iterator[Q], deadline: float) -> Generator[Q]:
    """The requests of a stream. Each is read only when the caller of this generator asks for it. DeadlineExceededError
    if a request does not arrive before `deadline`, a time of time.monotonic().

    A thread reads the requests, since grpc's iterator waits for a message without a timeout. The thread ends with the
    call.
    """
    thread = ThreadPoolExecutor(1, "requests")
    try:
        while True:
            item = thread.submit(next, requests, None).result(max(0.0, deadline - time.monotonic()))
            if item is None:
                return
            yield item
    except NotInTimeError:
        raise DeadlineExceededError("the deadline passed before the stream of requests ended") from None
    finally:
        thread.shutdown(wait=False)


_IDLE_SECONDS = 10.0  # seconds after which a thread without a call ends
_MOST_WAITING = 8192  # calls that wait for their requests; of more, those that have waited longest are ended
_SMALL_BYTES = 16 << 10  # bytes of a request that is answered before long
_GRPC: Any = importlib.import_module("grpc._server")  # nothing public has a request received without a thread
_RECEIVES_WITHOUT_THREAD = (
    hasattr(_GRPC, "_RECEIVE_MESSAGE_TOKEN")
    and hasattr(_GRPC, "_receive_message")
    and [*inspect.signature(_GRPC._receive_message).parameters] == ["state", "call", "request_deserializer"]
)
"""Whether grpc is as known, as versions 1.71 to 1.85 are. With another one calls hold a thread while they wait."""
_Task = tuple["Future[Any]", Callable[..., Any], tuple[Any, ...]]


class CallThreads(ThreadPoolExecutor):
    """At most `most` threads. grpc asks for this class; its own methods are not used, since Python 3.12 starts a thread
    for each call of a burst although others are free.
    """

    def __init__(self, most: int, name: str) -> None:
        super().__init__(1)
        self._most, self._name = most, name
        self._tasks: queue.SimpleQueue[_Task] = queue.SimpleQueue()
        self._room = threading.Lock()
        self._queued = 0
        self._waiting: dict[int, tuple[float, Any]] = {}
        """The calls that wait for their requests, the first one first: since when, and grpc's object for the call."""
        self.large = self
        """The threads of calls whose requests are not small: those keep no small one waiting."""
        self.ended = 0
        """How many calls were ended because their request did not come."""
        self._start()
        self._count = self._free = 1

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Runs the function in a thread, once one is free, and once the request is there if grpc is to wait for it."""
        del kwargs
        future: Future[Any] = Future()
        at = next((at for at, each in enumerate(args) if hasattr(each, "call_details")), None)
        known = _RECEIVES_WITHOUT_THREAD and at is not None and len(args) >= at + 5
        if at is None or not known or getattr(args[at + 3], "__name__", "") != "unary_request":
            self._add((future, fn, args))
        else:
            event, state, _, request, read = args[at : at + 5]
            taken = (*args[: at + 3], lambda: _taken(state, request), *args[at + 4 :])
            self._receive(event.call, state, read, (future, fn, taken))
        return future

    def _receive(self, call: Any, state: Any, read: Any, task: _Task) -> None:
        """Has the request of a call received, and then the task run."""
        receive = _GRPC._receive_message(state, call, read)

        def received(event: Any) -> Any:
            try:
                return receive(event)
            finally:
                self._waiting.pop(id(state), None)
                (self if len(state.request or b"") <= _SMALL_BYTES else self.large)._add(task)

        self._waiting[id(state)] = time.monotonic(), call
        with state.condition:
            call.start_server_batch((cygrpc.ReceiveMessageOperation(0),), received)
            state.due.add(_GRPC._RECEIVE_MESSAGE_TOKEN)
        if len(self._waiting) > _MOST_WAITING:
            self.end_waiting(0, len(self._waiting) - _MOST_WAITING)

    def _add(self, task: _Task) -> None:
        with self._room:
            if self._free:
                self._free -= 1
            elif self._count < self._most and self._start():
                self._count += 1
            else:
                self._queued += 1
        self._tasks.put(task)

    def _start(self) -> bool:
        try:
            threading.Thread(target=self._run, name=self._name, daemon=True).start()
        except RuntimeError:  # the system refuses a thread; the call waits for one that exists
            return False
        return True

    def _run(self) -> None:
        while True:
            try:
                future, function, arguments = self._tasks.get(timeout=_IDLE_SECONDS)
            except queue.Empty:
                with self._room:
                    if self._free and self._count > 1:  # none of the free threads was chosen for a task
                        self._free -= 1
                        self._count -= 1
                        return
                continue
            try:
                future.set_result(function(*arguments))
            except BaseException as error:
                future.set_exception(error)
            del future, function, arguments
            with self._room:
                if self._queued:
                    self._queued -= 1
                else:
                    self._free += 1

    @property
    def waiting(self) -> int:
        """How many calls wait for their request."""
        return len(self._waiting)

    def end_waiting(self, seconds: float, most: int = 100) -> None:
        """Ends calls whose request has not come for so many seconds, at most this many."""
        now = time.monotonic()
        for key, (since, call) in list(self._waiting.items())[:most]:
            if now - since < seconds:
                return
            if self._waiting.pop(key, None) is not None:
                self.ended += 1
                text = f"the request did not come within {now - since:.0f} seconds"
                call.cancel(grpc.StatusCode.RESOURCE_EXHAUSTED.value[0], text)


def _taken(state: Any, request: Callable[[], Any]) -> Any:
    """The request that was received; without one, grpc's own function says why."""
    with state.condition:
        found, state.request = state.request, None
    return request() if found is None else found
