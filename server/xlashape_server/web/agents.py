"""Serves the tools of `xlashape.agents` at `/mcp`, with the official SDK of the Model Context Protocol. Needs the extra
`mcp`.

Each request is a call of the guard (`guard.py`), like a request for an RPC: it needs the same credentials and counts
among the calls in progress, and a tool computes within the turns, the deadline and the memory of the call. The argument
of a tool is text, or the name of a module in the store; no file of the server is opened. If the server's web page can
show the subject of an answer, the answer has an address in `page` that opens this view.

The SDK is loaded at the first request. Requests are independent of each other, since another worker may get the next.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Mapping
from contextvars import ContextVar
from functools import wraps
from importlib import import_module
from typing import Any, Final, NamedTuple
from urllib.parse import quote, urlencode

from xlashape.agents import Agent, ToolFunction, make_server
from xlashape.errors import NotFoundError, XlashapeError
from xlashape.hlo import HloModule
from xlashape.limits import budget
from xlashape.proto import v1
from xlashape.recognition import Recognized, recognize
from xlashape_server.calls import Call
from xlashape_server.config import Config
from xlashape_server.handlers.inputs import check_text
from xlashape_server.logs import Rate
from xlashape_server.modules import Modules
from xlashape_server.web.exchanges import Exchange

_log = logging.getLogger("xlashape_server.web")

PATH: Final = "/mcp"
CALL: Final = "Mcp/Call"
_MOST_BODY: Final = 4 << 20  # bytes of the body of a request
_TEXT: Final = frozenset(" \t\r\n{[(")
"""Any shape, map or HLO has one of these characters; a path of a file as a rule has none."""
_VIEWS: Final = {"what_is": "instructions", "map": "element"}
"""Tool → the view of the web page that shows the subject of its answers. Other tools have a view of the same name."""


class _Asked(NamedTuple):
    """The request that a tool answers, with the address of the server's web page."""

    call: Call
    exchange: Exchange
    address: str


_asked: ContextVar[_Asked] = ContextVar("asked")


class StoredAgent(Agent):
    """The tools for an agent that asks over HTTP. They open no files: an input `x` is text, or the name of a module in
    the store.
    """

    def __init__(self, config: Config, modules: Modules) -> None:
        self._config = config
        self._modules = modules

    def tools(self) -> dict[str, ToolFunction]:
        """The tools that open no files."""
        return {name: each for name, each in super().tools().items() if name not in ("dumps", "profile")}

    def _given(self, x: str) -> HloModule | bytes:
        if x.startswith("modules/"):
            return self._modules.read(v1.ModuleInput(name=x), ("x",))
        self._check(x)
        return x.encode(errors="replace")

    def _input(self, x: str) -> HloModule | bytes:
        """As `Agent._input`. The modules of the server bound the memory of a module in text, and keep it."""
        given = self._given(x)
        if isinstance(given, HloModule):
            return given
        found = recognize(given)
        if found.kind in ("module", "instruction"):
            return self._module(found, given)
        return found.text.encode() if found.kind == "layout" else given

    def _module(self, found: Recognized, content: bytes) -> HloModule:
        return self._modules.decode(found.text.encode() or content, ("x",), is_text=True)

    def draw(self, x: str) -> dict[str, Any]:  # pyright: ignore[reportIncompatibleMethodOverride] # writes no files
        """A picture of a layout, a map or what an instruction reads, as text. x: a shape, a layout, an indexing map or
        an instruction.
        """
        self._check(x)
        return super().draw(x)

    def _check(self, x: str) -> None:
        """LimitExceededError for text that is too long. NotFoundError for text that can only be a path: agents pass
        paths to these tools where they run on the agent's own machine.
        """
        check_text(x, self._config.max_text_bytes)
        if x and not any(character in _TEXT for character in x):
            name = x if len(x) <= 200 else f"{x[:200]}…"
            raise NotFoundError(
                f"{name!r} is no text of a shape, a map or HLO, and this server opens no files: store the "
                "module, such as"
                " with Client.upload_module of xlashape_client, and pass its name, modules/…",
                kind="module",
                name=name,
            )


class AgentTools:
    """Answers the requests to `PATH`."""

    def __init__(self, config: Config, modules: Modules) -> None:
        self._config = config
        self._most_body = min(_MOST_BODY, config.max_request_bytes)
        self._agent = StoredAgent(config, modules)
        self._manager: Any = None
        self._starting = asyncio.Lock()
        self._running: asyncio.Task[None] | None = None

    async def answer(self, call: Call, exchange: Exchange, scope: dict[str, Any], headers: Mapping[str, str]) -> None:
        """Answers a request. `call` is the request's call, which was admitted, and `scope` its scope of ASGI."""
        body = await exchange.body(self._most_body)
        await self._start()
        token = _asked.set(_Asked(call, exchange, f"{scope['scheme']}://{headers.get('host', '')}/"))
        try:
            await exchange.hand_over(self._manager.handle_request, scope, body)
        finally:
            _asked.reset(token)

    async def _start(self) -> None:
        """Starts the SDK's manager of sessions, unless it runs, in a task of its own that lives as long as the loop."""
        async with self._starting:
            if self._running is not None and not self._running.done():
                return
            started = asyncio.Event()
            # The SDK is an extra. Importing it takes half a second, so a thread does it while the loop answers others.
            sessions = await asyncio.to_thread(import_module, "mcp.server.streamable_http_manager")
            server = make_server(self._tools())
            lines = logging.getLogger("mcp")
            lines.handlers[:], lines.propagate = [_Lines(logging.ERROR)], False
            manager = sessions.StreamableHTTPSessionManager(
                server._lowlevel_server, json_response=True, stateless=True, max_request_body_size=_MOST_BODY
            )

            async def run() -> None:
                async with manager.run():
                    started.set()
                    await asyncio.Event().wait()

            self._manager = manager
            self._running = asyncio.create_task(run())
            await started.wait()

    def _tools(self) -> dict[str, ToolFunction]:
        return {name: self._within_the_call(name, each) for name, each in self._agent.tools().items()}

    def _within_the_call(self, name: str, method: ToolFunction) -> ToolFunction:
        """The tool `method`, computed as work of the call that asks for it, with the address of the page's view in the
        answer.
        """

        @wraps(method)
        def tool(*args: Any, **kwargs: Any) -> dict[str, Any]:
            asked = _asked.get()

            def compute() -> dict[str, Any]:
                with asked.call, budget(self._config.max_analysis_steps, asked.call.deadline, name):
                    return method(*args, **kwargs)

            found = asked.exchange.compute(compute)
            state = _state(name, kwargs)
            return {**found, "page": f"{asked.address}#{urlencode(state, quote_via=quote)}"} if state else found

        tool.__doc__ = _without_paths(method.__doc__ or "")
        return tool


class _Lines(logging.Handler):
    """Logs errors of the SDK in the server's log, one a second at most, since callers can cause them."""

    def __init__(self, level: int) -> None:
        super().__init__(level)
        self._rate = Rate(1)

    def emit(self, record: logging.LogRecord) -> None:
        if self._rate.allows():
            facts = self._rate.unlogged()
            _log.error("%s", record.getMessage(), exc_info=record.exc_info, extra={"facts": facts})


def _without_paths(text: str) -> str:
    """The description of a tool for agents, with the name of a module in the store in place of the path of a file."""
    text = " ".join(text.split()).replace("a text or a file", "a text or a module")
    return re.sub(r"(?:the )?paths? of (?:a )?(?:dump|file)s?", "the name of a module of the server (modules/…)", text)


def _state(name: str, arguments: Mapping[str, Any]) -> dict[str, str]:
    """The state in which the web page shows the subject of a tool's answer, a part of the page's address. It is empty
    if the page cannot show the subject, or the subject's text is too long for an address.
    """
    x = str(arguments.get("x", arguments.get("a", arguments.get("shape", ""))))
    if x.startswith("modules/"):
        state = {"v": _VIEWS.get(name, name), "m": x.removeprefix("modules/")}
        other = str(arguments.get("b", ""))
        if name == "diff":
            return {**state, "m2": other.removeprefix("modules/")} if other.startswith("modules/") else {}
        instruction = arguments.get("instruction")
        return {**state, "i": str(instruction)} if instruction else state
    if len(x) > 500 or name == "diff":
        return {}
    try:
        found = recognize(x.encode(errors="replace"))
    except XlashapeError:
        return {}
    if found.kind in ("shape", "layout"):
        return {"v": "shape", "s": found.text}
    return {"v": "map", "p": found.text} if found.kind == "map" else {}
