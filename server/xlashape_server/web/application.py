"""The ASGI application that answers every request over HTTP: RPCs in the form of Connect at /PACKAGE.SERVICE/METHOD,
and the page at /.

The paths are made from the descriptors of the RPCs, which the front answers as over gRPC. The guard (`guard.py`)
admits a request for an RPC before its body is read. RPCs with a stream are missing here: they are asked over gRPC.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, NamedTuple

from h11 import LocalProtocolError

from xlashape_server.callers import caller_at, peer_of
from xlashape_server.calls import Call
from xlashape_server.config import Config
from xlashape_server.front import Front
from xlashape_server.guard import Guard
from xlashape_server.handlers import Rpc
from xlashape_server.hosts import may_name
from xlashape_server.web.exchanges import Exchange, Receive, Send, of_refusal
from xlashape_server.web.forms import MEDIA_TYPES, Form, Headers, mistake_of, timeout_of
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
        front: Front,
        rpcs: tuple[Rpc, ...],
        threads: ThreadPoolExecutor,
        abort: Callable[[tuple[str, int]], None],
    ) -> None:
        self._config = config
        self._guard = guard
        self._front = front
        self._threads = threads
        self._abort = abort
        self._host = config.http_host_and_port()[0]
        self._page = Page(FOLDER)
        self._rpcs = {
            f"/{rpc.method.containing_service.full_name}/{rpc.method.name}": _Endpoint(
                number, f"{rpc.method.containing_service.name}/{rpc.method.name}"
            )
            for number, rpc in enumerate(rpcs)
            if not (rpc.method.client_streaming or rpc.method.server_streaming)
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
        if not may_name(headers.get("host"), self._host):
            text = f"host: {headers['host'][:100]} is not a name of this server"
            await _refuse(send, 421, "permission_denied", text)
            return
        page = self._page.answer(scope["method"], scope["path"], headers)
        if page is not None:
            await send_answer(send, *page)
            return
        endpoint = self._rpcs.get(scope["path"])
        if endpoint is None:
            rpcs = "RPCs are at /PACKAGE.SERVICE/METHOD, such as /xlashape.v1.ShapeService/ByteSize"
            text = f"there is no {scope['path'][:100]} over HTTP; {rpcs}"
            self._guard.unknown_method()
            await _refuse(send, 404, "unimplemented", text)
            return
        verb, kind = scope["method"], headers.get("content-type", "").partition(";")[0].strip().lower()
        if verb != "POST":
            text = f"{verb[:20]}: {endpoint.name.rpartition('/')[2]} is asked with POST"
            await _refuse(send, 405, "unimplemented", text, [(b"allow", b"POST")])
            return
        if kind not in MEDIA_TYPES:
            text = f"content-type: expected {' or '.join(MEDIA_TYPES)}, found {kind[:100] or 'none'}"
            await _refuse(send, 415, "invalid_argument", text, [(b"accept-post", ", ".join(MEDIA_TYPES).encode())])
            return
        await self._call(endpoint, scope, headers, Form(kind, headers), receive, send)

    async def _call(
        self,
        endpoint: _Endpoint,
        scope: dict[str, Any],
        headers: dict[str, str],
        form: Form,
        receive: Receive,
        send: Send,
    ) -> None:
        """Answers a request for an RPC."""
        guard, most = self._guard, self._config.max_body_bytes
        client: tuple[str, int] = scope["client"] or ("", 0)
        caller = caller_at(peer_of(*client))
        abort = partial(self._abort, client)
        exchange = Exchange(endpoint.name, guard, self._threads, form, [_NOSNIFF], receive, send, abort)

        async def answer() -> None:
            seconds = timeout_of(headers)
            call = guard.begin(endpoint.name, caller, seconds, exchange.cut_off, headers=headers.items)
            exchange.begin(call, seconds)
            body = await exchange.body(most)
            form.check(headers)
            data = form.message(body)

            def answered(call: Call) -> bytes:
                message = guard.message(call, data, most)
                return form.written(self._front.answer(endpoint.number, call, message, is_json=form.is_json))

            await exchange.answer(answered, len(data))

        await exchange.run(answer, caller.connection)


class _Endpoint(NamedTuple):
    """An RPC at its path: its number, and its name in logs."""

    number: int
    name: str


async def send_answer(send: Send, status: int, headers: Headers, body: bytes = b"") -> None:
    """Sends an answer of one part."""
    if status != 304:
        headers = [*headers, (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body, "more_body": False})


async def _refuse(send: Send, status: int, code: str, text: str, headers: Headers | None = None) -> None:
    """Refuses a request for which no call begins, with an error in Connect's form."""
    body = json.dumps({"code": code, "message": text}, ensure_ascii=False).encode()
    headers = [(b"content-type", b"application/json"), _NOSNIFF, *of_refusal(status), *(headers or [])]
    await send_answer(send, status, headers, body)
