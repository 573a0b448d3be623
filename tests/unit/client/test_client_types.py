"""What the type checker is told about the methods of both clients is what they return.

The type checker checks this file as strictly as the package; a suppression below asserts that its line is an error.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Generator, Iterator

import numpy as np
import pytest
from numpy.typing import NDArray
from typing_extensions import assert_type

from xlashape.symbolic import IndexingMap
from xlashape_client import AsyncClient, Client, Instruction, ShapeSize
from xlashape_server import Config, Server

TILED = "f32[3,5]{1,0:T(2,2)}"
MAP = "(d0) -> (d0 mod 4), domain: d0 in [0, 7]"
MODULE = b"HloModule tiny\n\nENTRY main {\n  ROOT p = f32[3,5] parameter(0)\n}\n"


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with Server(Config(address="127.0.0.1:0", workers=1, log_level="error")) as server:
        yield server.address


def test_the_blocking_client(address: str) -> None:
    with Client(address) as client:
        assert_type(client, Client)
        size = client.byte_size(TILED, timeout=10)
        assert_type(size, ShapeSize)
        assert isinstance(size, ShapeSize)
        results, inside = client.evaluate_map_batch(MAP, [[3]])
        assert_type(results, NDArray[np.int64])
        assert (results.dtype, inside.dtype) == (np.int64, np.bool_)
        composed = client.compose_maps(MAP, MAP, raw=True)
        assert_type(composed, IndexingMap)
        assert isinstance(composed, IndexingMap)
        instructions = client.list_instructions(MODULE, page_size=3)
        assert_type(instructions, Generator[Instruction, None, None])
        assert isinstance(instructions, Generator)
        assert isinstance(next(instructions), Instruction)
        assert_type(Client.multi_index(client, TILED, 17), tuple[int, ...] | None)
        with pytest.raises(TypeError):
            client.byte_size(TILED, 10)  # pyright: ignore[reportCallIssue]
        with pytest.raises(TypeError):
            client.list_instructions(MODULE, colour=3)  # pyright: ignore[reportCallIssue]


def test_the_client_for_asyncio(address: str) -> None:
    async def scenario() -> None:
        async with AsyncClient(address) as client:
            assert_type(client, AsyncClient)
            size = await client.byte_size(TILED, timeout=10)
            assert_type(size, ShapeSize)
            assert isinstance(size, ShapeSize)
            results, inside = await client.evaluate_map_batch(MAP, [[3]])
            assert_type(results, NDArray[np.int64])
            assert (results.dtype, inside.dtype) == (np.int64, np.bool_)
            found = client.list_instructions(MODULE)
            assert_type(found, AsyncGenerator[Instruction, None])
            assert isinstance(found, AsyncGenerator)
            assert isinstance(await anext(found), Instruction)
            both = await asyncio.gather(client.byte_size(TILED), client.evaluate_map(MAP, (3,)))
            assert_type(both, tuple[ShapeSize, tuple[int, ...] | None])
            assert_type(await AsyncClient.linear_index(client, TILED, (2, 3)), int)
            with pytest.raises(TypeError):
                await client.byte_size(TILED, 10)  # pyright: ignore[reportCallIssue]
            with pytest.raises(TypeError):
                client.list_instructions(MODULE, colour=3)  # pyright: ignore[reportCallIssue]
            with pytest.raises(TypeError):
                for _ in client.list_instructions(MODULE):  # pyright: ignore[reportGeneralTypeIssues, reportUnknownVariableType]
                    pass

    asyncio.run(scenario())
