"""The client for asyncio keeps the status of calls that the server ends while their requests are still written."""

from __future__ import annotations

import asyncio
import hashlib
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import grpc
import pytest

from xlashape.errors import InvalidIndexError, LimitExceededError, XlashapeError
from xlashape.proto import v1
from xlashape_client import AsyncClient, status
from xlashape_server import Config, Server

ROUNDS, TOGETHER = 50, 6


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    config = Config(address="127.0.0.1:0", workers=1, log_level="error", max_module_bytes=1000)
    with Server(config) as server:
        yield server.address


def outcomes(address: str, ask: Callable[[AsyncClient], Awaitable[Any]]) -> Counter[type]:
    found: Counter[type] = Counter()

    async def one(client: AsyncClient) -> None:
        try:
            await ask(client)
        except XlashapeError as error:
            found[type(error)] += 1

    async def scenario() -> None:
        async with AsyncClient(address, timeout=30) as client:
            for _ in range(ROUNDS):
                await asyncio.gather(*(one(client) for _ in range(TOGETHER)))

    asyncio.run(asyncio.wait_for(scenario(), 120))
    return found


def test_a_stream_that_is_refused_tells_the_reason(address: str) -> None:
    wrong = v1.LinearIndicesRequest(shape=v1.ShapeInput(text="f32[3]"), indices=[9]).SerializeToString()
    more = v1.LinearIndicesRequest(indices=[1]).SerializeToString()

    async def ask(client: AsyncClient) -> None:
        async for _ in client.stream("LinearIndices", iter([wrong, *[more] * 40]), None):
            pass

    assert outcomes(address, ask) == {InvalidIndexError: ROUNDS * TOGETHER}


def test_an_upload_that_is_refused_tells_the_reason(address: str) -> None:
    content = b"x" * 100_000
    first = v1.UploadModuleRequest(sha256=hashlib.sha256(content).hexdigest(), size_bytes=len(content))
    pieces = [v1.UploadModuleRequest(data=content[at : at + 1000]) for at in range(0, len(content), 1000)]
    requests = [each.SerializeToString() for each in (first, *pieces)]

    async def ask(client: AsyncClient) -> None:
        await client.send("UploadModule", iter(requests), None)

    assert outcomes(address, ask) == {LimitExceededError: ROUNDS * TOGETHER}


class Core:
    """A call of the core, which has ended or not."""

    def __init__(self, *, is_done: bool) -> None:
        self.is_done = is_done
        self.told: list[str] = []

    def done(self) -> bool:
        return self.is_done

    def set_internal_error(self, text: str) -> None:
        self.told.append(text)


class Call:
    def __init__(self, core: Core) -> None:
        self._cython_call = core


@pytest.mark.parametrize(("is_done", "comes", "told"), [(True, False, []), (False, True, []), (False, False, ["x"])])
def test_a_call_without_a_status_still_fails(
    monkeypatch: pytest.MonkeyPatch, is_done: bool, comes: bool, told: list[str]
) -> None:
    monkeypatch.setattr(status, "_GRACE_SECONDS", 0.01)

    async def scenario() -> None:
        core = Core(is_done=is_done)
        call = status.keep_status(Call(core))
        call._cython_call.set_internal_error("x")
        core.is_done = is_done or comes
        await asyncio.sleep(0.1)
        assert core.told == told

    asyncio.run(scenario())


def test_calls_of_another_kind_stay_as_they_are() -> None:
    other = object()
    assert status.keep_status(other) is other


def test_calls_of_grpc_have_what_is_replaced(address: str) -> None:
    async def scenario() -> None:
        async with grpc.aio.insecure_channel(address) as channel:
            made: Any = channel.stream_stream("/xlashape.v1.ShapeService/LinearIndices")
            call = made(iter([b""]))
            inner = call._cython_call
            assert callable(inner.set_internal_error)
            assert status.keep_status(call) is call
            assert call._cython_call is not inner
            call.cancel()

    asyncio.run(scenario())
