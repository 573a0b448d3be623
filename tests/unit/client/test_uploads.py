"""Modules that are uploaded while they are read, by both clients: what is sent, what is told, and how an upload
fails."""

from __future__ import annotations

import asyncio
import hashlib
import io
import logging
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest
from awaited_client import AwaitedClient

from xlashape.errors import DeadlineExceededError, InvalidArgumentError, LimitExceededError, NotFoundError
from xlashape_client import AsyncClient, Client
from xlashape_server import Config, Server

PART = 1 << 20
SMALL = b"HloModule tiny\n\nENTRY main {\n  ROOT p = f32[3,5] parameter(0)\n}\n"
LARGE = SMALL + b"//" + b"x" * (3 * PART + 12345)
DIES_WITHIN_AN_UPLOAD = """
import os, signal, sys, time
from xlashape_client import Client

def parts():
    yield sys.stdin.buffer.read()
    time.sleep(0.1)  # the part is with the server
    os.kill(os.getpid(), signal.SIGKILL)

Client(sys.argv[1]).upload_module_from(parts())
"""
PROGRESS = [PART, 2 * PART, 3 * PART, len(LARGE)]
BOTH = pytest.mark.parametrize("make", [Client, AwaitedClient])
Make = Callable[..., Any]


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with Server(Config(address="127.0.0.1:0", workers=1, log_level="error", max_module_bytes=8 * PART)) as server:
        yield server.address


def name_of(content: bytes) -> str:
    return f"modules/{hashlib.sha256(content).hexdigest()}"


def cut(content: bytes, size: int) -> Iterator[bytes]:
    return (content[at : at + size] for at in range(0, len(content), size))


async def awaited(parts: Iterator[bytes]) -> AsyncIterator[bytes]:
    for part in parts:
        await asyncio.sleep(0)
        yield part


class Unbuffered(io.RawIOBase):
    """A file object that gives fewer bytes than it is asked for."""

    def __init__(self, content: bytes) -> None:
        self._file = io.BytesIO(content)

    def read(self, size: int = -1, /) -> bytes:
        return self._file.read(min(size, 70_001))


@BOTH
@pytest.mark.parametrize(
    "source",
    [
        io.BytesIO,
        Unbuffered,
        lambda content: cut(content, 999_999),
        lambda content: cut(content, 3 * PART),
        lambda content: [b"", bytearray(content[:7]), memoryview(content)[7:], b""],
    ],
    ids=["file", "unbuffered", "small_chunks", "large_chunks", "list"],
)
def test_a_module_is_sent_in_parts_whatever_it_is_read_from(
    make: Make, source: Callable[[bytes], Any], address: str
) -> None:
    told: list[int] = []
    with make(address) as client:
        kept = client.upload_module_from(source(LARGE), progress=told.append)
        assert (kept.name, kept.size_bytes, kept.module_name) == (name_of(LARGE), len(LARGE), "tiny")
        assert told == PROGRESS
        assert client.download_module(kept) == LARGE
        client.delete_module(kept)


def test_asynchronous_sources(address: str) -> None:
    async def scenario() -> None:
        reader = asyncio.StreamReader()
        reader.feed_data(LARGE)
        reader.feed_eof()
        async with AsyncClient(address) as client:
            for source in (awaited(cut(LARGE, 999_999)), reader):
                told: list[int] = []
                kept = await client.upload_module_from(source, progress=told.append)
                assert kept.name == name_of(LARGE)
                assert told == PROGRESS
                await client.delete_module(kept)

    asyncio.run(scenario())


@BOTH
def test_a_source_that_fails_stores_nothing(make: Make, address: str, caplog: pytest.LogCaptureFixture) -> None:
    failure = OSError("the disk is gone")

    def source() -> Iterator[bytes]:
        yield LARGE[: 2 * PART + 5]
        raise failure

    def disagree(_: int) -> None:
        raise failure

    with make(address) as client, caplog.at_level(logging.INFO):
        for arguments in ((source(), None), (io.BytesIO(LARGE), disagree)):
            with pytest.raises(OSError, match="the disk is gone") as found:
                client.upload_module_from(arguments[0], progress=arguments[1])
            assert found.value is failure
        for content in (LARGE[: 2 * PART + 5], LARGE[: 2 * PART], LARGE[:PART], LARGE):
            with pytest.raises(NotFoundError):
                client.get_module(name_of(content))
        assert client.upload_module_from(io.BytesIO(SMALL)).name == name_of(SMALL)
    # A server of an earlier test may still write lines of its own.
    written = [record.getMessage() for record in caplog.records if not record.name.startswith("xlashape_server")]
    assert written == []


def test_a_program_that_dies_within_an_upload_stores_nothing(address: str) -> None:
    with Client(address) as client:
        sent = [(SMALL + b"//%d" % i).ljust(PART) for i in range(5)]  # each of these parts is a module by itself
        for part in sent:
            died = subprocess.run([sys.executable, "-c", DIES_WITHIN_AN_UPLOAD, address], input=part, check=False)
            assert died.returncode == -signal.SIGKILL
        time.sleep(0.5)
        for part in sent:
            with pytest.raises(NotFoundError):
                client.get_module(name_of(part))


@BOTH
@pytest.mark.parametrize(
    ("source", "message"),
    [
        (b"HloModule m", "source: expected a file object or an iterator of bytes, found bytes"),
        ("dump.hlo", "source: expected a file object or an iterator of bytes, found str"),
        (7, "source: expected a file object or an iterator of bytes, found int"),
        (io.StringIO, "source: expected bytes, found str"),
        (["HloModule m"], "source: expected bytes, found str"),
    ],
    ids=["bytes", "path", "number", "text_file", "texts"],
)
def test_what_is_no_source(make: Make, source: Any, message: str, address: str) -> None:
    with make(address) as client, pytest.raises(InvalidArgumentError) as found:
        client.upload_module_from(source("HloModule m") if source is io.StringIO else source)
    assert (found.value.message, found.value.field) == (message, "source")


def test_a_blocking_client_takes_no_asynchronous_source(address: str) -> None:
    with (
        Client(address) as client,
        pytest.raises(InvalidArgumentError, match=r"an iterator of bytes, found async_generator$"),
    ):
        client.upload_module_from(awaited(cut(LARGE, PART)))


@BOTH
def test_nothing_is_no_module(make: Make, address: str) -> None:
    with make(address) as client, pytest.raises(InvalidArgumentError) as found:
        client.upload_module_from(io.BytesIO())
    assert (found.value.message, found.value.field) == ("the module is empty", "data")


@BOTH
def test_an_upload_that_is_refused_reads_no_further(make: Make, address: str) -> None:
    read = 0

    def endless() -> Iterator[bytes]:
        nonlocal read
        while True:
            read += 1
            yield bytes(PART)

    with make(address) as client, pytest.raises(LimitExceededError):
        client.upload_module_from(endless())
    so_far = read
    time.sleep(0.2)
    assert read <= so_far + 1


@BOTH
def test_the_time_of_an_upload_is_that_of_streams(make: Make, address: str) -> None:
    def slow() -> Iterator[bytes]:
        for part in cut(SMALL, 20):
            time.sleep(0.15)
            yield part

    with make(address, timeout=0.1) as client:
        assert client.upload_module_from(slow()).name == name_of(SMALL)
        with pytest.raises(DeadlineExceededError):
            client.upload_module_from(slow(), timeout=0.1)
    with make(address, stream_timeout=0.1) as client, pytest.raises(DeadlineExceededError):
        client.upload_module_from(slow())
