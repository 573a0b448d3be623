"""What the client for asyncio has beside the methods of the other: tasks, cancellation, event loops, turns, and its
end.
"""

from __future__ import annotations

import asyncio
import gc
import hashlib
import os
import sys
import threading
import time
import warnings
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scripted_server import scripted_server

from xlashape import errors
from xlashape.proto import v1
from xlashape_client import AsyncClient, transport
from xlashape_server import Config, Server

TILED = "f32[3,5]{1,0:T(2,2)}"
MODULE = b"""HloModule tiny

ENTRY main {
  p = f32[3,5]{1,0:T(2,2)} parameter(0)
  t = f32[5,3]{1,0} transpose(p), dimensions={1,0}
  ROOT n = f32[5,3]{1,0} negate(t)
}
"""
ANSWER = v1.LinearIndexResponse(positions=[17]).SerializeToString()


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with Server(Config(address="127.0.0.1:0", workers=1, log_level="error")) as server:
        yield server.address


def run(scenario: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Runs it, at most 60 seconds. Nothing may be left that Python warns of, such as a coroutine that was not
    awaited.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        asyncio.run(asyncio.wait_for(scenario(), 60))
        gc.collect()


async def until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < end
        await asyncio.sleep(0.01)


class Held:
    """Answers that do not come until the call is cancelled."""

    def __init__(self) -> None:
        self.begun = 0
        self.cancelled = 0
        self.free = threading.Event()
        self._lock = threading.Lock()

    def _begun(self, context: Any) -> threading.Event:
        ended = threading.Event()

        def cancelled() -> None:
            with self._lock:
                self.cancelled += not ended.is_set()
            ended.set()

        with self._lock:
            self.begun += 1
        context.add_callback(cancelled)
        return ended

    def answer(self, _: int, context: Any) -> bytes:
        ended = self._begun(context)
        while not ended.is_set() and not self.free.is_set():
            time.sleep(0.005)
        ended.set()
        return ANSWER


@pytest.fixture
def held() -> Held:
    return Held()


def test_thousands_of_calls_at_a_time(address: str) -> None:
    async def scenario() -> None:
        async with AsyncClient(address) as client:
            indices = [(i % 3, i % 5) for i in range(3000)]
            found = await asyncio.gather(*[client.linear_index(TILED, index) for index in indices])
            assert found == (await client.linear_indices(TILED, indices)).tolist()

    run(scenario)


def test_a_thousand_calls_at_a_time_of_several_kinds(address: str) -> None:
    async def names(client: AsyncClient) -> list[str]:
        return [found.name async for found in client.list_instructions(MODULE)]

    async def scenario() -> None:
        async with AsyncClient(address) as client:
            calls: list[Any] = []
            for _ in range(200):
                calls += [
                    client.byte_size(TILED),
                    client.upload_module(MODULE),
                    names(client),
                    client.evaluate_map("(d0) -> (d0 mod 4), domain: d0 in [0, 7]", (6,)),
                    client.byte_size("f32[2,"),
                ]
            found: list[Any] = await asyncio.gather(*calls, return_exceptions=True)
            assert {size.physical_bytes for size in found[0::5]} == {96}
            assert {module.name for module in found[1::5]} == {f"modules/{hashlib.sha256(MODULE).hexdigest()}"}
            assert all(names == ["p", "t", "n"] for names in found[2::5])
            assert set(found[3::5]) == {(2,)}
            assert {type(error) for error in found[4::5]} == {errors.ParseError}

    run(scenario)


def test_a_cancelled_task_cancels_its_call(held: Held) -> None:
    async def scenario() -> None:
        async with AsyncClient(address) as client:
            task = asyncio.create_task(client.linear_index(TILED, (2, 3)))
            await until(lambda: held.begun == 1)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await until(lambda: held.cancelled == 1)

    with scripted_server(held.answer) as (address, _):
        run(scenario)


def test_a_timeout_of_asyncio_cancels_the_call(held: Held) -> None:
    async def scenario() -> None:
        async with AsyncClient(address) as client:
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(client.linear_index(TILED, (2, 3)), 0.2)
            await until(lambda: held.cancelled == 1)
            if sys.version_info >= (3, 11):
                with pytest.raises(TimeoutError):
                    async with asyncio.timeout(0.2):
                        await client.linear_index(TILED, (2, 3))
                await until(lambda: held.cancelled == 2)

    with scripted_server(held.answer) as (address, _):
        run(scenario)


def test_a_call_has_a_deadline_of_its_own(held: Held) -> None:
    async def scenario() -> None:
        async with AsyncClient(address, timeout=0.2) as client:
            with pytest.raises(errors.DeadlineExceededError):
                await client.linear_index(TILED, (2, 3))
        async with AsyncClient(address) as client:
            with pytest.raises(errors.DeadlineExceededError):
                await client.linear_index(TILED, (2, 3), timeout=0.2)
            await until(lambda: held.cancelled == 2)

    with scripted_server(held.answer) as (address, _):
        run(scenario)


def test_an_iterator_asks_nothing_before_its_first_item() -> None:
    async def scenario() -> None:
        async with AsyncClient(address) as client:
            client.list_instructions("there is no such file")
            await client.list_instructions(MODULE).aclose()
            await asyncio.sleep(0.05)
            assert asked == []

    with scripted_server(lambda _, context: ANSWER) as (address, asked):
        run(scenario)


def test_no_more_calls_at_a_time_than_the_client_says(held: Held) -> None:
    async def scenario() -> None:
        async with AsyncClient(address, max_calls=3, timeout=30) as client:
            calls = [asyncio.create_task(client.linear_index(TILED, (2, 3))) for _ in range(12)]
            await until(lambda: held.begun == 3)
            await asyncio.sleep(0.1)
            assert held.begun == 3
            for call in calls[:2]:
                call.cancel()
            calls[5].cancel()  # which waits for its turn
            await until(lambda: held.begun == 5)
            held.free.set()
            found = await asyncio.gather(*calls, return_exceptions=True)
            assert [type(one) for one in found].count(asyncio.CancelledError) == 3
            assert found.count(17) == 9

    with scripted_server(held.answer, threads=8) as (address, _):
        run(scenario)


@pytest.mark.parametrize("wrong", [0, -1])
def test_an_impossible_number_of_calls_is_refused(wrong: int) -> None:
    with pytest.raises(errors.InvalidArgumentError, match=f"max_calls: expected a number from 1, found {wrong}"):
        AsyncClient("127.0.0.1:1", max_calls=wrong)


def test_close_ends_what_is_under_way(held: Held) -> None:
    """Also calls that wait for their turn."""

    async def scenario() -> None:
        client = AsyncClient(address, max_calls=2)
        calls: list[asyncio.Task[Any]] = [asyncio.create_task(client.linear_index(TILED, (2, 3))) for _ in range(4)]
        await until(lambda: held.begun == 2)
        await client.close()
        for found in await asyncio.gather(*calls, return_exceptions=True):
            assert isinstance(found, errors.UnavailableError)
            assert found.message == f"the client of {address} is closed"
        await until(lambda: held.cancelled == 2)
        await client.close()
        with pytest.raises(errors.UnavailableError, match="closed"):
            await client.byte_size(TILED)
        with pytest.raises(errors.UnavailableError, match="closed"):
            await anext(client.list_instructions(MODULE))
        with pytest.raises(errors.UnavailableError, match="closed"):
            await client.wait_until_ready(0.1)

    with scripted_server(held.answer) as (address, _):
        run(scenario)


@pytest.mark.skipif(sys.version_info < (3, 11), reason="Python 3.10 does not say whether a task was cancelled")
def test_a_task_that_was_cancelled_before_the_close_is_cancelled(held: Held) -> None:
    async def scenario() -> None:
        client = AsyncClient(address)
        task = asyncio.create_task(client.linear_index(TILED, (2, 3)))
        await until(lambda: held.begun == 1)
        task.cancel()
        await client.close()
        with pytest.raises(asyncio.CancelledError):
            await task

    with scripted_server(held.answer) as (address, _):
        run(scenario)


def test_another_event_loop_needs_another_client(address: str) -> None:
    client = AsyncClient(address)  # made without a loop

    async def answered() -> None:
        assert await client.linear_index(TILED, (2, 3)) == 17

    async def refused() -> None:
        message = f"the client of {address} belongs to another event loop: make a client in each loop"
        for call in (
            client.linear_index(TILED, (2, 3)),
            client.wait_until_ready(1),
            anext(client.list_instructions(MODULE)),
        ):
            with pytest.raises(errors.InvalidArgumentError) as caught:
                await call
            assert caught.value.message == message

    async def while_the_first_runs() -> None:
        await answered()
        await asyncio.to_thread(lambda: asyncio.run(refused()))
        with pytest.raises(errors.InvalidArgumentError, match="another event loop"):
            await asyncio.to_thread(lambda: asyncio.run(client.close()))
        await client.byte_size(TILED)

    run(while_the_first_runs)
    run(refused)  # the loop of the client has ended
    run(client.close)
    run(client.close)


def test_clients_in_several_event_loops(address: str) -> None:
    async def scenario() -> None:
        async with AsyncClient(address) as client:
            assert set(await asyncio.gather(*[client.linear_index(TILED, (2, 3)) for _ in range(50)])) == {17}

    threads = [threading.Thread(target=run, args=[scenario]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def test_a_client_that_is_left_open(address: str) -> None:
    async def scenario() -> None:
        assert await AsyncClient(address).linear_index(TILED, (2, 3)) == 17

    run(scenario)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs a file whose reader waits")
def test_a_file_is_read_beside_the_event_loop(address: str, tmp_path: Path) -> None:
    """The file is a pipe: it cannot be read before it is written, which happens after other calls have been
    answered.
    """
    os.mkfifo(tmp_path / "tiny.hlo")

    async def scenario() -> None:
        async with AsyncClient(address) as client:
            upload = asyncio.create_task(client.upload_module(tmp_path / "tiny.hlo"))
            for _ in range(5):
                assert await client.linear_index(TILED, (2, 3)) == 17
            assert not upload.done()
            await asyncio.to_thread((tmp_path / "tiny.hlo").write_bytes, MODULE)
            assert (await upload).module_name == "tiny"

    run(scenario)


def test_the_digest_of_a_large_module_is_computed_beside_the_event_loop(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[int] = []

    class Noting:
        @staticmethod
        def sha256(content: bytes) -> Any:
            threads.append(threading.get_ident())
            return hashlib.sha256(content)

    monkeypatch.setattr(transport, "hashlib", Noting)
    large = MODULE + b"//" + b"x" * (3 << 20)

    async def scenario() -> None:
        async with AsyncClient(address) as client:
            kept = await client.upload_module(large)
            assert (kept.name, kept.size_bytes) == (f"modules/{hashlib.sha256(large).hexdigest()}", len(large))
            assert [each.name async for each in client.list_instructions(large)] != []
            assert await client.download_module(kept) == large
            assert (await client.load_module(kept)).name == "tiny"

    run(scenario)
    assert threads
    assert threading.get_ident() not in threads


def test_requests_may_come_from_an_asynchronous_iterator(address: str) -> None:
    async def parts() -> AsyncIterator[bytes]:
        for part in transport.upload_messages(MODULE, hashlib.sha256(MODULE).hexdigest()):
            await asyncio.sleep(0)
            yield part

    async def scenario() -> None:
        async with AsyncClient(address) as client:
            response = v1.UploadModuleResponse.FromString(await client.send("UploadModule", parts(), None))
            assert response.module.module_name == "tiny"

    run(scenario)


def test_bulk_calls_at_a_time(address: str) -> None:
    rows = np.stack(np.unravel_index(np.arange(300_000) % 15, (3, 5)), axis=1)

    async def scenario() -> None:
        async with AsyncClient(address) as client:
            found = await asyncio.gather(*[client.linear_indices(TILED, rows) for _ in range(5)])
            expected = [await client.linear_index(TILED, index) for index in rows[:15].tolist()]
            for positions in found:
                assert positions.reshape(-1, 15).tolist() == [expected] * 20_000

    run(scenario)
