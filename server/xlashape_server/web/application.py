"""The ASGI application that answers every request over HTTP: RPCs in the forms of Connect and gRPC-Web at
/PACKAGE.SERVICE/METHOD, the page at /, and tools for agents at /mcp.

The paths are made from the descriptors of the RPCs, which have the same handlers as over gRPC. The guard (`guard.py`)
admits a request for an RPC or a tool before its body is read. RPCs that take a stream of requests are missing here,
since browsers cannot send one over HTTP/1.1.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.message_factory import GetMessageClass
from h11 import LocalProtocolError

from xlashape.base.extras import is_installed
from xlashape_server.callers import caller_at, peer_of
from xlashape_server.config import Config
from xlashape_server.guard import Guard
from xlashape_server.handlers import Rpc
from xlashape_server.modules import Modules
from xlashape_server.web.agents import CALL, PATH, AgentTools
from xlashape_server.web.exchanges import Exchange, Receive, Send, of_refusal
from xlashape_server.web.forms import GRPC_WEB_TYPES, STREAM_TYPES, UNARY_TYPES, Form
from xlashape_server.web.messages import Headers, Hosts, Origins, json_to_proto, mistake_of, proto_to_json, timeout_of
from xlashape_server.web.page import FOLDER, Page

_log = logging.getLogger("xlashape_server.web")

_NOSNIFF = (b"x-content-type-options", b"nosniff")  # has browsers believe content-type, and not guess from the content


class Application:
    """The application. `threads` are those in which handlers run. `abort` ends the connection of a client, which is an
    address and a port.
    """

    def __init__(
        self,
        config: Config,
        guard: Guard,
        rpcs: tuple[Rpc, ...],
        modules: Modules,
        threads: ThreadPoolExecutor,
        abort: Callable[[tuple[str, int]], None],
    ) -> None:
        self._config = config
        self._guard = guard
        self._threads = threads
        self._abort = abort
        self._origins = Origins(config)
        self._hosts = Hosts(config)
        self._page = Page(FOLDER)
        self._agents = AgentTools(config, modules) if is_installed("mcp") else None
        self._rpcs = {
            f"/{rpc.method.containing_service.full_name}/{rpc.method.name}": _Endpoint(rpc, config.max_json_bytes)
            for rpc in rpcs
            if not rpc.method.client_streaming
        }

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        """Answers one request of ASGI."""
        try:
            await self._answer(scope, receive, send)
        except LocalProtocolError:
            pass  # h11 has answered a broken request by itself
        except Exception as error:
            _log.error("%s failed", scope["path"][:100], exc_info=error)
            raise  # uvicorn sends the caller a status of 500

    async def _answer(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        mistake = mistake_of(scope["headers"], scope["query_string"], scope["http_version"])
        if mistake:
            await _refuse(send, 400, "invalid_argument", mistake, [(b"connection", b"close")])
            return
        if not self._hosts.allow(headers.get("host")):
            text = f"host: {headers['host'][:100]} is not a name of this server; the setting http_hosts names them"
            await _refuse(send, 421, "permission_denied", text)
            return
        origin = headers.get("origin")
        if scope["method"] == "OPTIONS" and "access-control-request-method" in headers:
            await send_answer(send, 204, [*self._origins.preflight(origin), _NOSNIFF])
            return
        page = self._page.answer(scope["method"], scope["path"], headers)
        if page is not None:
            await send_answer(send, *page)
            return
        own = self._origins.headers(origin)
        if scope["path"] == PATH and self._agents is not None:
            await self._answer_agent(self._agents, scope, headers, own, receive, send)
            return
        endpoint = self._rpcs.get(scope["path"])
        if endpoint is None:
            rpcs = "RPCs are at /PACKAGE.SERVICE/METHOD, such as /xlashape.v1.ShapeService/ByteSize"
            text = f"there is no {scope['path'][:100]} over HTTP; {rpcs}"
            self._guard.unknown_method()
            await _refuse(send, 404, "unimplemented", text, own)
            return
        verb, kind = scope["method"], headers.get("content-type", "").partition(";")[0].strip().lower()
        if verb == "POST":
            if kind not in endpoint.media_types:
                expected = ", ".join(endpoint.media_types)
                text = f"content-type: expected {' or '.join(endpoint.media_types)}, found {kind[:100] or 'none'}"
                await _refuse(send, 415, "invalid_argument", text, [(b"accept-post", expected.encode()), *own])
                return
        elif verb != "GET" or not endpoint.may_get:
            verbs = "GET, POST" if endpoint.may_get else "POST"
            text = f"{verb[:20]}: {endpoint.method.name} is asked with {verbs.replace(',', ' or')}"
            await _refuse(send, 405, "unimplemented", text, [(b"allow", verbs.encode()), *own])
            return
        await self._call(endpoint, scope, headers, kind, [*own, _NOSNIFF], receive, send)

    async def _answer_agent(
        self,
        agents: AgentTools,
        scope: dict[str, Any],
        headers: dict[str, str],
        own: Headers,
        receive: Receive,
        send: Send,
    ) -> None:
        """Answers a request of the Model Context Protocol. A page of another origin is refused unless
        `http_origins` allows that origin.
        """
        origin = headers.get("origin")
        is_own = headers.get("host") == (origin or "").partition("://")[2]
        if origin is not None and not is_own and not self._origins.allow(origin):
            await _refuse(send, 403, "permission_denied", f"origin: pages of {origin[:100]} may not ask this server")
            return
        if scope["method"] != "POST":  # GET would wait for messages of the server, but this server sends none
            text = f"{scope['method'][:20]}: {PATH} is asked with POST"
            await _refuse(send, 405, "unimplemented", text, [(b"allow", b"POST"), *own])
            return
        guard = self._guard
        client: tuple[str, int] = scope["client"] or ("", 0)
        caller = caller_at(peer_of(*client))
        form, abort = Form("application/json", headers), partial(self._abort, client)
        exchange = Exchange(CALL, guard, self._threads, form, [*own, _NOSNIFF], receive, send, abort)

        async def answer() -> None:
            call = guard.begin(CALL, lambda: caller, None, exchange.cut_off, headers=headers.items)
            exchange.begin(call, None)
            await agents.answer(call, exchange, scope, headers)

        await exchange.run(answer, caller.connection)

    async def _call(
        self,
        endpoint: _Endpoint,
        scope: dict[str, Any],
        headers: dict[str, str],
        kind: str,
        own: Headers,
        receive: Receive,
        send: Send,
    ) -> None:
        """Answers a request for an RPC."""
        guard, is_get = self._guard, scope["method"] == "GET"
        client: tuple[str, int] = scope["client"] or ("", 0)
        caller = caller_at(peer_of(*client))
        form = Form("application/json" if is_get else kind, headers)
        abort = partial(self._abort, client)
        exchange = Exchange(endpoint.name, guard, self._threads, form, own, receive, send, abort)

        async def answer() -> None:
            seconds = timeout_of(headers)
            call = guard.begin(
                endpoint.name,
                lambda: caller,
                seconds,
                exchange.cut_off,
                headers=headers.items,
            )
            exchange.begin(call, seconds)
            body = await exchange.body(self._config.max_request_bytes)
            if is_get:
                data = form.query(scope["query_string"])
                form.more = self._caching()
            else:
                form.check(headers)
                data = form.message(body)
            del body
            await (exchange.answer_many if endpoint.method.server_streaming else exchange.answer_one)(
                endpoint.handler, data, endpoint.read if form.is_json else None, partial(endpoint.write, form)
            )

        await exchange.run(answer, caller.connection)

    def _caching(self) -> Headers:
        """The headers of an answer that caches may keep."""
        seconds = int(self._config.http_cache_seconds)
        value = f"{'private' if self._config.auth else 'public'}, max-age={seconds}" if seconds else "no-store"
        found = [(b"cache-control", value.encode())]
        return [*found, (b"vary", b"Authorization")] if self._config.auth else found


class _Endpoint:
    """An RPC at its path: the verbs and media types of its requests, and the conversion of its messages."""

    def __init__(self, rpc: Rpc, max_json_bytes: int) -> None:
        self.method: MethodDescriptor = rpc.method
        self.handler: Callable[..., Any] = rpc.handler
        self.name = f"{rpc.method.containing_service.name}/{rpc.method.name}"
        self.media_types = (*(STREAM_TYPES if rpc.method.server_streaming else UNARY_TYPES), *GRPC_WEB_TYPES)
        options = rpc.method.GetOptions()
        is_pure = options.idempotency_level == options.NO_SIDE_EFFECTS
        self.may_get = bool(is_pure) and not rpc.method.server_streaming
        request, response = GetMessageClass(rpc.method.input_type), GetMessageClass(rpc.method.output_type)
        self.read = partial(json_to_proto, kind=request, max_bytes=max_json_bytes)
        self._in_json = partial(proto_to_json, kind=response, max_bytes=max_json_bytes)

    def write(self, form: Form, data: bytes) -> bytes:
        """An answer, from protobuf's format to the form of a call."""
        return form.written(self._in_json(data) if form.is_json else data)


async def send_answer(send: Send, status: int, headers: Headers, body: bytes = b"") -> None:
    """Sends an answer of one part."""
    if status not in (204, 304):
        headers = [*headers, (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body, "more_body": False})


async def _refuse(send: Send, status: int, code: str, text: str, headers: Headers | None = None) -> None:
    """Refuses a request for which no call begins, with an error in Connect's form."""
    body = json.dumps({"code": code, "message": text}, ensure_ascii=False).encode()
    headers = [(b"content-type", b"application/json"), _NOSNIFF, *of_refusal(status), *(headers or [])]
    await send_answer(send, status, headers, body)
