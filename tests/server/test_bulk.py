"""RPCs for many numbers: in one message, or as streams in which each message of the request has an answer."""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Iterator
from typing import Any

import grpc
import numpy as np
import pytest

from xlashape.errors import (
    DeadlineExceededError,
    InvalidArgumentError,
    InvalidIndexError,
    SizeOverflowError,
    XlashapeError,
)
from xlashape.hlo import HloModule
from xlashape.proto import v1, xla
from xlashape.shape import Shape, tiling
from xlashape.symbolic import IndexingMap
from xlashape_client import Client
from xlashape_client.methods import ServiceMethods
from xlashape_server.commands.page_file import Local
from xlashape_server.config import Config
from xlashape_server.handlers import ShapeHandlers
from xlashape_server.handlers.maps import MapHandlers

TILED = "bf16[700,1000]{1,0:T(8,128)(2,1)}"
MANY = 600_000
HANDLERS = ShapeHandlers(Config())
MAPS = MapHandlers(Config())


@pytest.fixture(params=["client", "client for asyncio", "this process"])
def service(request: pytest.FixtureRequest, client: Client, awaited_client: Any) -> ServiceMethods:
    return {"client": client, "client for asyncio": awaited_client, "this process": Local(60)}[request.param]


def rows() -> np.ndarray[Any, Any]:
    return np.stack(np.unravel_index(np.arange(MANY), (700, 1000)), axis=1)


def stream(*messages: Any) -> Iterator[bytes]:
    return iter([message.SerializeToString() for message in messages])


def test_many_indices_are_those_of_the_library(service: ServiceMethods) -> None:
    shape = Shape.parse(TILED)
    positions = service.linear_indices(TILED, rows())
    assert np.array_equal(positions, tiling.linear_indices(shape, rows()))
    indices, is_element = service.multi_indices(TILED, np.arange(MANY))
    expected, expected_is_element = tiling.multi_indices(shape, np.arange(MANY))
    assert np.array_equal(indices, expected)
    assert np.array_equal(is_element, expected_is_element)
    assert not is_element.all()


def test_many_points_are_those_of_the_library(service: ServiceMethods) -> None:
    text = "(d0)[s0] -> (d0 floordiv 7, s0 - d0), domain: d0 in [0, 500000], s0 in [0, 9]"
    points = np.stack([np.arange(MANY), np.arange(MANY) % 11], axis=1)
    results, inside = service.evaluate_map_batch(text, points)
    expected, expected_inside = IndexingMap.parse(text).evaluate_batch(points)
    assert np.array_equal(results, expected)
    assert np.array_equal(inside, expected_inside)


def test_scalars_and_maps_without_variables_in_bulk(service: ServiceMethods) -> None:
    assert service.linear_indices("f32[]", np.zeros((MANY, 0), np.int64)).tolist() == [0] * MANY
    results, inside = service.evaluate_map_batch("() -> (5), domain:", np.zeros((MANY, 0), np.int64))
    assert (results.shape, bool((results == 5).all()), bool(inside.all())) == ((MANY, 1), True, True)


def test_an_error_names_the_row_among_all(service: ServiceMethods) -> None:
    wrong = rows()
    wrong[500_000, 1] = 1000
    with pytest.raises(InvalidIndexError, match="index 1000 is outside dimension 1") as caught:
        service.linear_indices(TILED, wrong)
    assert caught.value.path == ("indices", 500_000, 1)
    with pytest.raises(SizeOverflowError, match="result 0 does not fit int64: 12000000000000000000") as overflow:
        text = "(d0, d1) -> (d0 * 4000000000000000000), domain: d0 in [0, 3], d1 in [0, 700000]"
        points = np.stack([np.where(np.arange(MANY) == 300_001, 3, 2), np.arange(MANY)], axis=1)
        service.evaluate_map_batch(text, points)
    assert overflow.value.path == ("points", 300_001)
    positions = np.arange(MANY)
    positions[400_000] = -1
    with pytest.raises(InvalidIndexError) as caught:
        service.multi_indices(TILED, positions)
    assert caught.value.path == ("positions", 400_000)


def test_each_message_is_answered_before_the_next_is_read() -> None:
    read: list[int] = []

    def messages() -> Iterator[bytes]:
        for i in range(3):
            read.append(i)
            shape = None if i else v1.ShapeInput(text="f32[4]{0}")
            yield v1.LinearIndicesRequest(shape=shape, indices=[i]).SerializeToString()

    answers = HANDLERS.linear_indices(messages())
    for i in range(3):
        assert list(v1.LinearIndicesResponse.FromString(next(answers)).positions) == [i]
        assert read == list(range(i + 1))
    assert list(answers) == []


def test_a_message_without_numbers_has_an_answer_without_numbers() -> None:
    first = v1.LinearIndicesRequest(shape=v1.ShapeInput(text="f32[]"))
    assert list(HANDLERS.linear_indices(stream(first))) == [b""]
    first = v1.MultiIndicesRequest(shape=v1.ShapeInput(text="f32[4]"))
    assert list(HANDLERS.multi_indices(stream(first))) == [b""]
    first = v1.EvaluateMapBatchRequest(map=v1.MapInput(text="() -> (5), domain:"))
    answers = list(MAPS.evaluate_map_batch(stream(first, v1.EvaluateMapBatchRequest(count=2)), time.monotonic() + 60))
    assert [list(v1.EvaluateMapBatchResponse.FromString(data).results) for data in answers] == [[], [5, 5]]
    assert list(HANDLERS.linear_indices(iter(()))) == []


@pytest.mark.parametrize(
    ("messages", "path", "message"),
    [
        ([v1.LinearIndicesRequest(indices=[0])], ("shape",), "a shape is missing"),
        (
            [v1.LinearIndicesRequest(shape=v1.ShapeInput(text="f32[4]"))] * 2,
            ("shape",),
            "allowed in the first message of the stream only",
        ),
        (
            [v1.LinearIndicesRequest(shape=v1.ShapeInput(text="f32[4]")), v1.LinearIndicesRequest(order=1)],
            ("order",),
            "allowed in the first message of the stream only",
        ),
        ([v1.LinearIndicesRequest(shape=v1.ShapeInput(text="f32[4,2]"), indices=[0])], ("indices",), "expected 2 num"),
        ([v1.LinearIndicesRequest(shape=v1.ShapeInput(text="f32[4]"), indices=[0], count=2)], ("count",), "expected 1, the number of items in indices, found 2"),
        (
            [v1.LinearIndicesRequest(shape=v1.ShapeInput(text="f32[4]"), indices=[0, 1]), v1.LinearIndicesRequest(indices=[3, 4])],
            ("indices", 3),
            "index 4 is outside",
        ),
    ],
)  # fmt: skip
def test_mistakes_in_a_stream(messages: list[Any], path: tuple[Any, ...], message: str) -> None:
    with pytest.raises(XlashapeError, match=message) as caught:
        list(HANDLERS.linear_indices(stream(*messages)))
    assert caught.value.path == path


def test_a_stream_that_stops_sending_is_ended_at_its_deadline(channel: Any) -> None:
    done = threading.Event()

    def messages() -> Iterator[bytes]:
        yield v1.LinearIndicesRequest(shape=v1.ShapeInput(text="f32[4]"), indices=[1]).SerializeToString()
        done.wait(30)

    call = channel.stream_stream("/xlashape.v1.ShapeService/LinearIndices")(messages(), timeout=1)
    assert v1.LinearIndicesResponse.FromString(next(call)).positions == [1]
    with pytest.raises(grpc.RpcError) as caught:
        next(call)
    done.set()
    error: Any = caught.value
    assert error.code() is grpc.StatusCode.DEADLINE_EXCEEDED


def test_a_deadline_ends_the_work_for_a_message() -> None:
    first = v1.LinearIndicesRequest(shape=v1.ShapeInput(text="f32[4]"), indices=[1])
    with pytest.raises(DeadlineExceededError):
        list(HANDLERS.linear_indices(stream(first), time.monotonic() - 1))


def test_streams_wait_for_each_other_and_not_for_small_calls(channel: Any) -> None:
    """More streams are open than there are threads for them. Each stream is answered in its turn."""
    ends = [threading.Event() for _ in range(12)]

    def messages(end: threading.Event) -> Iterator[bytes]:
        yield v1.LinearIndicesRequest(shape=v1.ShapeInput(text="f32[4]"), indices=[3]).SerializeToString()
        end.wait(30)

    calls: list[Any] = [
        channel.stream_stream("/xlashape.v1.ShapeService/LinearIndices")(messages(end), timeout=60) for end in ends
    ]
    small = v1.LinearIndexRequest(shape=v1.ShapeInput(text="f32[4]"), indices=[2]).SerializeToString()
    answer = channel.unary_unary("/xlashape.v1.ShapeService/LinearIndex")(small, timeout=10)
    assert list(v1.LinearIndexResponse.FromString(answer).positions) == [2]
    for end in ends:
        end.set()
    assert [[list(v1.LinearIndicesResponse.FromString(data).positions) for data in call] for call in calls] == [
        [[3]]
    ] * 12


def test_a_module_in_one_message_is_the_module_that_is_uploaded(
    service: ServiceMethods, module: xla.HloModuleProto, ask: Any
) -> None:
    given = HloModule.from_proto(module)
    assert service.put_module(given).name == service.upload_module(given).name
    content = module.SerializeToString()
    again = ask("HloService/PutModule", v1.PutModuleRequest(data=content, sha256=hashlib.sha256(content).hexdigest()))
    assert again.module.name == f"modules/{hashlib.sha256(content).hexdigest()}"


@pytest.mark.parametrize(
    ("request_message", "path", "message"),
    [
        (v1.PutModuleRequest(), ("data",), "the module is empty"),
        (v1.PutModuleRequest(data=b"HloModule \xff"), ("data",), "byte 0xff is not UTF-8"),
        (v1.PutModuleRequest(data=b"\xff\xff"), ("data",), "the wire format is broken"),
        (v1.PutModuleRequest(data=b"HloModule m", sha256="abc"), ("sha256",), "expected 64 digits"),
        (
            v1.PutModuleRequest(data=b"HloModule m", sha256="0" * 64),
            ("sha256",),
            "expected content with the SHA-256 0000",
        ),
    ],
)
def test_mistakes_in_a_module_in_one_message(request_message: Any, path: tuple[Any, ...], message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message) as caught:
        Local(60).send("PutModule", request_message.SerializeToString(), None)
    assert caught.value.path == path
