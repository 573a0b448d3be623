"""The address of metrics, and what workers count for it."""

from __future__ import annotations

import socket
from concurrent.futures import ThreadPoolExecutor

import pytest
from google.rpc import code_pb2

from tests.support.scraped_metrics import scraped
from tests.support.server_processes import ServerProcess
from xlashape.errors import InvalidArgumentError, UnavailableError
from xlashape_server import Config, Server
from xlashape_server.counts import BUCKETS, DURATION, SUM, Recorder


def test_the_address_is_announced() -> None:
    with ServerProcess(Config(address="127.0.0.1:0", metrics="127.0.0.1:0", workers=1)) as server:
        assert "xlashape_workers 1" in scraped(server.event["metrics"])


def test_there_are_no_metrics_unless_they_are_asked_for() -> None:
    with ServerProcess(Config(address="127.0.0.1:0", workers=1)) as server:
        assert "metrics" not in server.event


def test_an_address_that_is_taken_is_an_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(UnavailableError, match=f"cannot listen on {address}"):
            Server(Config(address="127.0.0.1:0", metrics=address, workers=1)).start()


def test_an_address_that_is_none_names_the_setting() -> None:
    with pytest.raises(InvalidArgumentError, match="metrics: expected HOST:PORT, found 'nowhere'"):
        Config(metrics="nowhere")


def test_all_counts_are_reported() -> None:
    recorder = Recorder(["A/B"])
    for seconds in (BUCKETS[0], BUCKETS[0] * 1.01, BUCKETS[-1] + 1):
        recorder.ended("A/B", code_pb2.OK, seconds)
    recorder.ended("Some/Other", code_pb2.NOT_FOUND, 0.1)
    expected = {
        ("xlashape_calls_total", "A/B", "OK"): 3,
        ("xlashape_calls_total", "other", "NOT_FOUND"): 1,
        (DURATION, "A/B", "0"): 1,
        (DURATION, "A/B", "1"): 1,
        (DURATION, "A/B", str(len(BUCKETS))): 1,
        (DURATION, "A/B", SUM): BUCKETS[0] * 2.01 + BUCKETS[-1] + 1,
    }
    found = {key: value for key, value in recorder.sample()[1] if value and "cpu" not in key[0]}
    assert found == pytest.approx(expected)
    recorder.ended("A/B", code_pb2.OK, None)
    assert dict(recorder.sample()[1])["xlashape_calls_total", "A/B", "OK"] == 4


def test_threads_lose_no_count() -> None:
    recorder = Recorder(["A/B"])
    with ThreadPoolExecutor(8) as pool:
        for _ in range(8):
            pool.submit(lambda: [recorder.ended("A/B", code_pb2.OK, 0.001) for _ in range(2000)])
    assert dict(recorder.sample()[1])["xlashape_calls_total", "A/B", "OK"] == 16_000


def test_limits_beyond_sixty_four_share_a_label() -> None:
    recorder = Recorder([])
    for number in range(1000):
        recorder.refused(f"limit_{number}")
    found = {key: count for key, count in recorder.sample()[1] if key[0] == "xlashape_calls_refused_total"}
    assert len(found) == 65
    assert found["xlashape_calls_refused_total", "other"] == 936
