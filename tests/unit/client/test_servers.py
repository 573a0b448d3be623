"""Clients of several servers, of which some refuse, do not listen, or say nothing."""

from __future__ import annotations

import asyncio
import socket
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import grpc
import pytest

from xlashape.errors import InvalidArgumentError, UnavailableError
from xlashape.proto import v1
from xlashape_client import AsyncClient, Client

SHAPE = "f32[3]"


class Fakes:
    """Servers whose sizes are their own numbers, and that note the calls they get."""

    def __init__(self, stack: ExitStack) -> None:
        self.calls: Counter[int] = Counter()
        self._stack = stack

    def address(self, number: int, *, refuses: bool = False) -> str:
        def answer(request: bytes, context: Any) -> bytes:
            self.calls[number] += 1
            if refuses:
                context.abort(grpc.StatusCode.UNAVAILABLE, "stopping")
            return v1.ByteSizeResponse(sizes=[v1.ShapeSize(physical_bytes=number)]).SerializeToString()

        def serving(request: bytes, context: Any) -> bytes:
            return b"\x08\x01"

        server = grpc.server(ThreadPoolExecutor(4))
        for service, method, function in (
            ("xlashape.v1.ShapeService", "ByteSize", answer),
            ("grpc.health.v1.Health", "Check", serving),
        ):
            handlers = {method: grpc.unary_unary_rpc_method_handler(function)}
            server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, handlers),))
        port = server.add_insecure_port("127.0.0.1:0")
        server.start()
        self._stack.callback(lambda: server.stop(None).wait())
        return f"127.0.0.1:{port}"

    def other(self, *, listens: bool) -> str:
        """An address that takes connections and says nothing, or that takes none."""
        unused = self._stack.enter_context(socket.socket())
        unused.bind(("127.0.0.1", 0))
        if listens:
            unused.listen(16)
        return f"127.0.0.1:{unused.getsockname()[1]}"


@pytest.fixture
def fakes() -> Iterator[Fakes]:
    with ExitStack() as stack:
        yield Fakes(stack)


def sizes(addresses: list[str], count: int, *, awaits: bool, **options: Any) -> list[int]:
    """The answers to some calls, one after another."""

    async def awaited() -> list[int]:
        async with AsyncClient(addresses, timeout=15, **options) as client:
            await client.wait_until_ready()
            return [(await client.byte_size(SHAPE)).physical_bytes for _ in range(count)]

    if awaits:
        return asyncio.run(awaited())
    with Client(addresses, timeout=15, **options) as client:
        client.wait_until_ready()
        return [client.byte_size(SHAPE).physical_bytes for _ in range(count)]


@pytest.mark.parametrize("awaits", [False, True])
def test_calls_go_to_the_servers_that_are_connected(fakes: Fakes, awaits: bool) -> None:
    addresses = [fakes.other(listens=True), fakes.address(7), fakes.other(listens=False)]
    assert sizes(addresses, 20, awaits=awaits) == [7] * 20


@pytest.mark.parametrize("awaits", [False, True])
def test_calls_go_to_all_in_turn(fakes: Fakes, awaits: bool) -> None:
    found = sizes([fakes.address(1), fakes.address(2)], 200, awaits=awaits)
    assert set(found) == {1, 2}
    assert found[-2] != found[-1]


@pytest.mark.parametrize("awaits", [False, True])
def test_a_call_that_one_refuses_is_sent_to_another(fakes: Fakes, awaits: bool) -> None:
    addresses = [fakes.address(1, refuses=True), fakes.address(2)]
    assert sizes(addresses, 6, awaits=awaits, attempts=5) == [2] * 6
    assert fakes.calls[1] > 0


@pytest.mark.parametrize("awaits", [False, True])
def test_there_are_no_more_attempts_than_are_allowed(fakes: Fakes, awaits: bool) -> None:
    addresses = [fakes.address(number, refuses=True) for number in (1, 2)]
    with pytest.raises(UnavailableError):
        sizes(addresses, 1, awaits=awaits, attempts=3)
    assert fakes.calls.total() == 3


def test_an_empty_list_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="found an empty list"):
        Client([])


def test_a_client_that_is_closed_says_so(fakes: Fakes) -> None:
    client = Client([fakes.address(1), fakes.address(2)])
    client.close()
    with pytest.raises(UnavailableError, match="is closed"):
        client.byte_size(SHAPE)
