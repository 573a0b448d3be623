"""Every RPC of the schema as an ASGI application. connectrpc speaks the protocols: Connect, gRPC-Web, and gRPC over
HTTP/2.

The endpoints are made from the descriptors, and call the same handlers as gRPC. The guard admits a request before its
body is read. `json_to_proto` and `proto_to_json` run in the thread of the handler.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from functools import partial
from typing import Any, cast

from connectrpc.code import Code
from connectrpc.method import IdempotencyLevel, MethodInfo, StreamType
from connectrpc.request import RequestContext
from connectrpc.server import ConnectASGIApplication, Endpoint
from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.message_factory import GetMessageClass
from h11 import LocalProtocolError

from xlashape_server.auth import Credentials
from xlashape_server.callers import Caller, Places
from xlashape_server.config import Config
from xlashape_server.guard import Guard
from xlashape_server.handlers import Rpc
from xlashape_server.web.answers import Send, refuse, send_answer, with_headers
from xlashape_server.web.exchanges import ConnectionEndedError, Exchange
from xlashape_server.web.messages import (
    CODECS,
    COMPRESSIONS,
    ENCODINGS,
    UNARY_TYPES,
    Hosts,
    Origins,
    Received,
    accepts_gzip,
    compressed,
    encodings_header,
    json_to_proto,
    mistake_of,
    proto_to_json,
    timeout_of,
)

_log = logging.getLogger("xlashape_server.web")

Context = RequestContext[Any, Any]
Handler = Callable[..., Any]

_exchange: ContextVar[Exchange] = ContextVar("exchange")

_STREAM_TYPES = ("application/connect+json", "application/connect+proto")
_GRPC_WEB_TYPES = ("application/grpc-web", "application/grpc-web+proto", "application/grpc-web+json")
_GRPC_TYPES = ("application/grpc", "application/grpc+proto", "application/grpc+json")
# of an answer; smaller ones are sent as they are, since compressing takes longer than it saves
_COMPRESSED_BYTES = 1024


class Application:
    """The RPCs behind the guard. `call` answers one request of ASGI."""

    def __init__(self, config: Config, guard: Guard, rpcs: tuple[Rpc, ...], threads: ThreadPoolExecutor) -> None:
        self._config = config
        self._guard = guard
        self._threads = threads
        self._origins = Origins(config)
        self._hosts = Hosts(config)
        self._methods = {f"/{rpc.method.containing_service.full_name}/{rpc.method.name}": rpc.method for rpc in rpcs}
        endpoints = {path: self._endpoint(rpc) for path, rpc in zip(self._methods, rpcs, strict=True)}
        self._protocols = _Protocols(
            service=None,
            endpoints=lambda _: endpoints,
            read_max_bytes=2 * config.max_request_bytes,  # twice the limit of the guard, whose error names the limit
            codecs=CODECS,
            compressions=COMPRESSIONS,
        )

    async def call(
        self,
        caller: Caller,
        certificate_names: tuple[str, ...],
        abort: Callable[[], None],
        scope: dict[str, Any],
        receive: Any,
        send: Send,
    ) -> None:
        """Answers one request of `caller`, whose certificate has these names. `abort` ends its connection."""
        if scope["type"] != "http":
            if scope["type"] == "websocket":  # of HTTP/2; HTTP/1.1 ignores upgrades
                await send({"type": "websocket.close"})
            return
        path = scope["path"][:100]
        try:
            await self._answer(caller, certificate_names, abort, scope, _ending(receive), _ending(send))
        except ConnectionEndedError as error:
            _log.debug("%s: the connection of %s ended: %s", path, caller.connection, error)
            abort()

    async def _answer(
        self,
        caller: Caller,
        certificate_names: tuple[str, ...],
        abort: Callable[[], None],
        scope: dict[str, Any],
        receive: Any,
        send: Send,
    ) -> None:
        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
        origin = headers.get("origin")
        mistake = mistake_of(scope["headers"], scope["query_string"])
        if mistake:
            close = [(b"connection", b"close")] if scope["http_version"].startswith("1") else []
            await refuse(scope, receive, with_headers(send, []), 400, Code.INVALID_ARGUMENT, mistake, close)
            return
        if not self._hosts.allow(headers.get("host")):
            text = f"host: {headers['host'][:100]} is not a name of this server; the setting http_hosts names them"
            await refuse(scope, receive, with_headers(send, []), 421, Code.PERMISSION_DENIED, text, [])
            return
        if scope["method"] == "OPTIONS" and "access-control-request-method" in headers:
            await send_answer(with_headers(send, []), 204, self._origins.preflight(origin))
            return
        send = with_headers(send, self._origins.headers(origin))
        method = self._methods.get(scope["path"])
        if method is None:
            path = scope["path"][:100]
            text = (
                f"there is no {path}; RPCs are at /PACKAGE.SERVICE/METHOD, such as /xlashape.v1.ShapeService/ByteSize"
            )
            self._guard.unknown_method()
            await refuse(scope, receive, send, 404, Code.UNIMPLEMENTED, text, [])
            return
        media_type = headers.get("content-type", "").partition(";")[0].strip().lower()
        if scope["method"] == "POST":
            expected = _media_types(method, scope)
            if media_type not in expected:
                text = f"content-type: expected {' or '.join(expected)}, found {media_type[:100] or 'none'}"
                accepted = [(b"accept-post", ", ".join(expected).encode())]
                await refuse(scope, receive, send, 415, Code.INVALID_ARGUMENT, text, accepted)
                return
        elif scope["method"] != "GET" or not _may_get(method):
            text = f"{scope['method'][:20]}: {method.name} is asked with {'GET or ' if _may_get(method) else ''}POST"
            allowed = [(b"allow", b"GET, POST" if _may_get(method) else b"POST")]
            await refuse(scope, receive, send, 405, Code.UNIMPLEMENTED, text, allowed)
            return
        seconds, ignored = timeout_of(headers)
        if scope["method"] == "GET":
            ignored = (*ignored, "content-type")  # it has no content
        scope["headers"] = [
            (name, media_type.encode() if name == b"content-type" else value)
            for name, value in ((name.lower(), value) for name, value in scope["headers"])
            if name.decode("latin-1") not in (*ENCODINGS, *ignored)
        ]
        encodings = encodings_header(scope["method"], media_type)
        accepts = accepts_gzip(headers.get(encodings, ""))
        if accepts and encodings != "accept-encoding":
            scope["headers"].append((encodings.encode(), b"gzip"))  # connectrpc marks each message of an answer
        name = f"{method.containing_service.name}/{method.name}"
        exchange = Exchange(name, self._guard, self._threads, receive, send, abort)
        exchange.accepts_gzip = accepts
        exchange.has_envelopes = encodings != "accept-encoding"
        credentials = Credentials(headers.get("authorization"), certificate_names)
        # gRPC and gRPC-Web are the same to traces, which tell them from Connect.
        system = "grpc" if media_type.startswith("application/grpc") else "connect_rpc"
        exchange.begin(caller, seconds, self._places(method), credentials, headers, system)
        exchange.is_half_duplex = scope["http_version"] not in ("2", "3")
        if not method.client_streaming or (method.server_streaming and exchange.is_half_duplex):
            exchange.max_body_bytes = self._config.max_request_bytes
        _exchange.set(exchange)
        try:
            await self._protocols(cast("Any", scope), cast("Any", exchange.receive), cast("Any", exchange.send))
        finally:
            exchange.end()

    def _places(self, method: MethodDescriptor) -> tuple[Places, ...] | None:
        guard = self._guard
        if method.client_streaming:
            return (guard.places, guard.streams if method.server_streaming else guard.uploads)
        return None

    def _endpoint(self, rpc: Rpc) -> Any:
        method = rpc.method
        if method.client_streaming and method.server_streaming:
            kind, make, function = StreamType.BIDI_STREAM, Endpoint.bidi_stream, self._both_streams
        elif method.client_streaming:
            kind, make, function = StreamType.CLIENT_STREAM, Endpoint.client_stream, self._client_stream
        elif method.server_streaming:
            kind, make, function = StreamType.SERVER_STREAM, Endpoint.server_stream, self._server_stream
        else:
            kind, make, function = StreamType.UNARY, Endpoint.unary, self._unary
        about = MethodInfo(
            name=method.name,
            service_name=method.containing_service.full_name,
            input=bytes,
            output=bytes,
            idempotency_level=(IdempotencyLevel.NO_SIDE_EFFECTS if _may_get(method) else IdempotencyLevel.UNKNOWN),
            stream_type=kind,
        )
        return make(method=about, function=partial(cast("Any", function), _Messages(rpc, self._config.max_json_bytes)))

    async def _unary(self, messages: _Messages, received: Received, context: Context) -> bytes:
        exchange = _exchange.get()
        call = exchange.check()
        exchange.message_came()
        call.received()

        is_compressed = False

        def packed(data: bytes, deadline: float) -> bytes:
            nonlocal is_compressed
            found = messages.unary(received.is_json)(data, deadline)
            is_compressed = exchange.has_envelopes or len(found) >= _COMPRESSED_BYTES
            return compressed(found) if is_compressed else found

        def answer() -> bytes:
            request = self._guard.message(call, received.data)
            handler = packed if exchange.accepts_gzip else messages.unary(received.is_json)
            return self._guard.answer(call, handler, request)

        response = await exchange.work(answer)
        if is_compressed and not exchange.has_envelopes:
            context.response_headers["content-encoding"] = "gzip"
        if context.http_method == "GET":
            context.response_headers["cache-control"] = self._caching()
            if self._config.auth:
                context.response_headers["vary"] = "Authorization"
        call.answered(len(response))
        exchange.succeeded(request_bytes=len(received.data), response_bytes=len(response))
        return response

    async def _server_stream(self, messages: _Messages, received: Received, context: Context) -> AsyncGenerator[bytes]:
        del context
        exchange = _exchange.get()
        call = exchange.check()
        exchange.message_came()
        call.received()

        def answers() -> Generator[bytes]:
            request = self._guard.message(call, received.data)
            handler = _packing(exchange, messages.server_stream(received.is_json))
            yield from self._guard.answers(call, handler, request)

        async for response in self._steps(exchange, answers()):
            yield response

    async def _client_stream(self, messages: _Messages, requests: AsyncGenerator[Received], context: Context) -> bytes:
        exchange = _exchange.get()
        call = exchange.check()
        incoming = _Requests(exchange, requests)

        def answer() -> bytes:
            handler = messages.client_stream(_is_json(context))
            return self._guard.answer(call, handler, self._guard.messages(call, incoming.read()))

        try:
            response = await exchange.work(answer)
        finally:
            await incoming.close()
        call.answered(len(response))
        exchange.succeeded(response_bytes=len(response))
        return response

    async def _both_streams(
        self, messages: _Messages, requests: AsyncGenerator[Received], context: Context
    ) -> AsyncGenerator[bytes]:
        exchange = _exchange.get()
        call = exchange.check()
        if exchange.is_half_duplex:
            requests = _again([received async for received in requests])
        incoming = _Requests(exchange, requests)

        def answers() -> Generator[bytes]:
            handler = _packing(exchange, messages.both_streams(_is_json(context)))
            yield from self._guard.answers(call, handler, self._guard.messages(call, incoming.read()))

        try:
            async for response in self._steps(exchange, answers()):
                yield response
        finally:
            await incoming.close()

    async def _steps(self, exchange: Exchange, answers: Generator[bytes]) -> AsyncGenerator[bytes]:
        """The answers, each computed in a thread after the one before it was sent."""
        call = exchange.check()
        count = size = 0
        try:
            while True:
                response = await exchange.work(partial(next, answers, None))
                if response is None:
                    break
                count, size = count + 1, size + len(response)
                yield response
        finally:
            exchange.close(answers)
        call.answered(0)
        exchange.succeeded(responses=count, response_bytes=size)

    def _caching(self) -> str:
        seconds = int(self._config.http_cache_seconds)
        return f"{'private' if self._config.auth else 'public'}, max-age={seconds}" if seconds else "no-store"


class _Protocols(ConnectASGIApplication[None]):
    @property
    def path(self) -> str:
        return ""


class _Messages:
    """The handlers of an RPC for messages in JSON and for messages in protobuf's format."""

    def __init__(self, rpc: Rpc, max_json_bytes: int) -> None:
        self._handler: Handler = rpc.handler
        request, answer = GetMessageClass(rpc.method.input_type), GetMessageClass(rpc.method.output_type)
        self._read = partial(json_to_proto, kind=request, max_bytes=max_json_bytes)
        self._write = partial(proto_to_json, kind=answer, max_bytes=max_json_bytes)

    def unary(self, is_json: bool) -> Handler:
        return self._of_json if is_json else self._handler

    def server_stream(self, is_json: bool) -> Handler:
        return self._stream_of_json if is_json else self._handler

    def client_stream(self, is_json: bool) -> Handler:
        return self._of_stream_of_json if is_json else self._handler

    def both_streams(self, is_json: bool) -> Handler:
        return self._streams_of_json if is_json else self._handler

    def _of_json(self, data: bytes, deadline: float) -> bytes:
        return self._write(self._handler(self._read(data), deadline))

    def _stream_of_json(self, data: bytes, deadline: float) -> Iterable[bytes]:
        return map(self._write, self._handler(self._read(data), deadline))

    def _of_stream_of_json(self, data: Iterator[bytes], deadline: float) -> bytes:
        return self._write(self._handler(map(self._read, data), deadline))

    def _streams_of_json(self, data: Iterator[bytes], deadline: float) -> Iterable[bytes]:
        return map(self._write, self._handler(map(self._read, data), deadline))


class _Requests:
    """The messages of a stream of requests, read on the event loop when a thread asks for one."""

    def __init__(self, exchange: Exchange, requests: AsyncGenerator[Received]) -> None:
        self._exchange = exchange
        self._requests = requests
        self._reading: Any = None
        self._is_closed = False

    def read(self) -> Generator[bytes]:
        """The messages, for a thread."""
        call = self._exchange.check()
        while True:
            received = self._exchange.wait_for(self._next, call.deadline)
            if received is None:
                return
            yield received.data

    async def _next(self) -> Received | None:
        if self._is_closed:
            return None
        self._reading = asyncio.current_task()
        try:
            found = await anext(self._requests, None)
        finally:
            self._reading = None
        if not self._exchange.is_half_duplex:  # then all messages are held in memory
            self._exchange.message_came()
        return found

    async def close(self) -> None:
        """Ends the reading of messages."""
        self._is_closed = True
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.wait([self._reading])


def _ending(function: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
    """`receive` or `send` of ASGI, which raises ConnectionEndedError if the connection has ended, or hypercorn has
    answered a broken request by itself.
    """

    async def calling(*arguments: Any) -> Any:
        try:
            return await function(*arguments)
        except (OSError, LocalProtocolError) as error:
            raise ConnectionEndedError(repr(error)) from error

    return calling


def _packing(exchange: Exchange, handler: Handler) -> Handler:
    """The handler of a stream of answers, which compresses them where the caller takes that."""
    if not exchange.accepts_gzip:
        return handler

    def packed(data: Any, deadline: float) -> Iterable[bytes]:
        return map(compressed, handler(data, deadline))

    return packed


async def _again(found: list[Received]) -> AsyncGenerator[Received]:
    """The messages that were read already, one by one."""
    found.reverse()
    while found:
        yield found.pop()


def _may_get(method: MethodDescriptor) -> bool:
    options = method.GetOptions()
    pure = options.idempotency_level == options.NO_SIDE_EFFECTS
    return bool(pure) and not method.client_streaming and not method.server_streaming


def _media_types(method: MethodDescriptor, scope: dict[str, Any]) -> tuple[str, ...]:
    is_stream = method.client_streaming or method.server_streaming
    types = (*(_STREAM_TYPES if is_stream else UNARY_TYPES), *_GRPC_WEB_TYPES)
    return (*types, *_GRPC_TYPES) if "http.response.trailers" in scope["extensions"] else types


def _is_json(context: Context) -> bool:
    return context.request_headers.get("content-type", "").endswith("json")
