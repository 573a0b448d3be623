"""Answers as they are sent: the headers that all of them have, their parts, and answers to requests that no protocol
takes.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

from connectrpc.code import Code

from xlashape_server.web.exchanges import LINGER_SECONDS

Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]

_SENT_AT_ONCE = 256 << 10  # bytes of an answer
_PLAIN = (b"content-encoding", b"identity")  # connectrpc's name for no compression


def with_headers(send: Send, headers: list[tuple[bytes, bytes]]) -> Send:
    """`send` with additional headers in each answer: the length, if the answer has one part; for errors, that caches
    must not keep them.
    """
    start: dict[str, Any] | None = None

    async def sending(message: dict[str, Any]) -> None:
        nonlocal start
        if message["type"] == "http.response.start":
            own = [each for each in message.get("headers", ()) if each != _PLAIN]
            own += headers
            own.append((b"x-content-type-options", b"nosniff"))  # browsers take an answer for what it says it is
            if message["status"] not in (200, 204):
                own.append((b"cache-control", b"no-store"))
            if message["status"] == 401:
                own.append((b"www-authenticate", b"Bearer"))
            start = {**message, "headers": own}
            return
        if start is not None:
            is_whole = not message.get("more_body", False) and not start.get("trailers", False)
            if is_whole and start["status"] != 204:
                start["headers"].append((b"content-length", b"%d" % len(message.get("body", b""))))
            await send(start)
            start = None
        # A connection of asyncio with TLS takes any one write whole: only those that follow wait until what was written
        # is read.
        body, at = message.get("body", b""), 0
        while len(body) - at > _SENT_AT_ONCE:
            await send({"type": message["type"], "body": body[at : at + _SENT_AT_ONCE], "more_body": True})
            at += _SENT_AT_ONCE
        await send({**message, "body": body[at:]} if at else message)

    return sending


async def send_answer(send: Send, status: int, headers: list[tuple[bytes, bytes]], body: bytes = b"") -> None:
    """Sends an answer of one part."""
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body, "more_body": False})


async def refuse(
    scope: dict[str, Any],
    receive: Receive,
    send: Send,
    status: int,
    code: Code,
    text: str,
    headers: list[tuple[bytes, bytes]],
) -> None:
    """Answers a request that belongs to none of these protocols with an error in Connect's form. HTTP/1.1 is told to
    close a connection with unread bytes.
    """
    if not await _rest_came(receive) and scope["http_version"].startswith("1"):
        headers = [*headers, (b"connection", b"close")]
    body = json.dumps({"code": code.value, "message": text}, ensure_ascii=False).encode()
    await send_answer(send, status, [(b"content-type", b"application/json"), *headers], body)


async def _rest_came(receive: Receive) -> bool:
    """Whether the whole body of the request arrives within a short time. A client that still sends would not read an
    answer.
    """

    async def read() -> None:
        while (await receive()).get("more_body", False):
            pass

    try:
        await asyncio.wait_for(read(), LINGER_SECONDS)
    except asyncio.TimeoutError:
        return False
    return True
