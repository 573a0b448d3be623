"""Metrics of real servers, as Prometheus asks for them: complete, right, monotonic when workers are killed, and always
answered."""

from __future__ import annotations

import http.client
import itertools
import json
import os
import re
import signal
import socket
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.openmetrics import parser as openmetrics
from prometheus_client.parser import text_string_to_metric_families

from tests.support.http2_caller import Http2Caller
from tests.support.scraped_metrics import SHAPE, Samples, asks, grows, refused, samples, scraped, value
from tests.support.server_processes import children, wait_until
from xlashape.errors import InvalidIndexError, LimitExceededError, NotFoundError
from xlashape.proto import services, v1
from xlashape_client import Client
from xlashape_server import Config, Server
from xlashape_server.counts import BUCKETS, METRICS, STAGES

OPERATIONS = (Path(__file__).resolve().parents[2] / "docs" / "operations.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def metered() -> Iterator[Server]:
    config = Config(
        address="127.0.0.1:0",
        http="127.0.0.1:0",
        metrics="127.0.0.1:0",
        workers=2,
        log_level="error",
        max_batch=100,
    )
    with Server(config) as running:
        yield running


def test_a_scrape_has_every_metric_of_the_catalogue(metered: Server) -> None:
    wait_until(lambda: ("xlashape_store_modules", ()) in samples(metered))
    families = list(text_string_to_metric_families(scraped(metered.metrics_address)))
    found = {
        family.name + "_total" * (family.type == "counter"): (family.type, family.documentation) for family in families
    }
    assert found == {about.name: (about.kind, about.meaning) for about in METRICS.values()}
    for family in families:
        about = METRICS[family.name + "_total" * (family.type == "counter")]
        for sample in family.samples:
            assert {*sample.labels} - {"le"} == set(about.labels), sample
    assert value(metered, "xlashape_workers_answering") == value(metered, "xlashape_workers") == 2
    assert value(metered, "xlashape_worker_ready") == 2
    assert value(metered, "xlashape_memory_limit_bytes") == metered.config.max_worker_memory
    assert abs(value(metered, "xlashape_start_time_seconds") - time.time()) < 600


def test_names_follow_prometheus() -> None:
    for about in METRICS.values():
        assert re.fullmatch(r"xlashape_[a-z_]+[a-z]", about.name)
        assert about.name.endswith("_total") == (about.kind == "counter")
        assert not re.search(r"_(ms|milliseconds|kb|mb|count|sum|bucket)(_|$)", about.name)
        assert about.meaning.endswith(".")
    assert list(BUCKETS) == sorted(set(BUCKETS))


def test_the_page_on_operations_has_every_metric() -> None:
    rows = re.findall(r"^\| `(xlashape_\w+)` \| (\w+) \| ([^|]*) \| ([^|]*) \|$", OPERATIONS, re.MULTILINE)
    documented = {name: (kind, tuple(re.findall(r"`(\w+)`", labels))) for name, kind, labels, _ in rows}
    assert documented == {about.name: (about.kind, about.labels) for about in METRICS.values()}
    assert len(rows) == len(METRICS)


def test_newer_scrapers_get_openmetrics(metered: Server) -> None:
    accepts = {"Accept": "application/openmetrics-text;version=1.0.0", "Accept-Encoding": "gzip"}
    request = urllib.request.Request(f"http://{metered.metrics_address}/metrics", headers=accepts)
    with urllib.request.urlopen(request, timeout=20) as response:
        assert response.headers["Content-Type"].startswith("application/openmetrics-text")
        assert response.headers["Content-Encoding"] == "gzip"
    del request.headers["Accept-encoding"]
    with urllib.request.urlopen(request, timeout=20) as response:
        names = {family.name for family in openmetrics.text_string_to_metric_families(response.read().decode())}
    assert {"xlashape_calls", "xlashape_call_duration_seconds", "xlashape_worker_resident_memory_bytes"} <= names


def test_calls_are_counted_by_method_and_code(metered: Server) -> None:
    ok = {"method": "ShapeService/LinearIndex", "code": "OK"}
    grows(metered, 5, "xlashape_calls_total", lambda: asks(metered, 5), **ok)
    wrong = {"method": "ShapeService/LinearIndex", "code": "INVALID_ARGUMENT"}

    def outside(client: Client) -> Any:
        return client.linear_index(SHAPE, (3, 0))

    def nothing(client: Client) -> Any:
        return client.get_module("modules/" + "0" * 64)

    grows(metered, 1, "xlashape_calls_total", lambda: refused(metered, InvalidIndexError, outside), **wrong)
    missing = {"method": "HloService/GetModule", "code": "NOT_FOUND"}
    grows(metered, 1, "xlashape_calls_total", lambda: refused(metered, NotFoundError, nothing), **missing)


def test_every_call_has_a_duration(metered: Server) -> None:
    name = {"method": "ShapeService/LinearIndex"}
    grows(metered, 3, "xlashape_call_duration_seconds_count", lambda: asks(metered, 3), **name)
    found = samples(metered)
    wait_until(lambda: value(metered, "xlashape_calls_in_flight") == 0)
    found = samples(metered)
    buckets = [
        found["xlashape_call_duration_seconds_bucket", (("le", bound), ("method", name["method"]))]
        for bound in (*(str(each) for each in BUCKETS), "+Inf")
    ]
    assert buckets == sorted(buckets)
    count = found["xlashape_call_duration_seconds_count", (("method", name["method"]),)]
    assert buckets[-1] == count > 0
    assert 0 < found["xlashape_call_duration_seconds_sum", (("method", name["method"]),)] < 60 * count


def test_calls_over_http_are_counted_alike(metered: Server) -> None:
    def post(path: str, body: object) -> int:
        data, headers = json.dumps(body).encode(), {"Content-Type": "application/json"}
        request = urllib.request.Request(f"http://{metered.http_address}{path}", data, headers)
        try:
            with urllib.request.urlopen(request, timeout=20) as response:
                return response.status
        except urllib.error.HTTPError as error:
            return error.code

    path = "/xlashape.v1.ShapeService/LinearIndex"
    question = {"shape": {"text": SHAPE}, "indices": [2, 3]}
    method = {"method": "ShapeService/LinearIndex"}
    grows(metered, 1, "xlashape_calls_total", lambda: post(path, question), **method, code="OK")
    grows(metered, 1, "xlashape_call_duration_seconds_count", lambda: post(path, question), **method)
    many = {"shapes": [{"text": SHAPE}] * 101}
    sizes = "/xlashape.v1.ShapeService/ByteSize"
    grows(metered, 1, "xlashape_calls_refused_total", lambda: post(sizes, many), limit="batch")
    wrong = {**method, "code": "INVALID_ARGUMENT"}
    grows(metered, 1, "xlashape_calls_total", lambda: post(path, {"shapes": 1}), **wrong)


def test_the_methods_of_the_schema_have_labels_from_the_start(metered: Server) -> None:
    methods = {labels for name, labels in samples(metered) if name == "xlashape_calls_total"}
    known = {f"{service.name}/{method.name}" for service in services() for method in service.methods}
    assert {dict(labels)["method"] for labels in methods} - {"other"} == known


def test_limits_that_refuse_are_counted(metered: Server) -> None:
    many = v1.ByteSizeRequest(shapes=[v1.ShapeInput(text=SHAPE)] * 101).SerializeToString()
    grows(
        metered,
        1,
        "xlashape_calls_refused_total",
        lambda: refused(metered, LimitExceededError, lambda client: client.send("ByteSize", many, 20)),
        limit="batch",
    )


def test_a_call_under_way_shows_its_stage(metered: Server) -> None:
    assert {dict(labels)["stage"] for name, labels in samples(metered) if name == "xlashape_calls_in_flight"} == {
        *STAGES
    }
    with Http2Caller(metered.address) as caller:
        caller.call("/xlashape.v1.ShapeService/DescribeShape", None)  # a call whose request is never sent
        wait_until(lambda: value(metered, "xlashape_calls_in_flight", stage="receiving") == 1)
    wait_until(lambda: value(metered, "xlashape_calls_in_flight") == 0)
    assert value(metered, "xlashape_calls_total", method="ShapeService/DescribeShape") == 0  # it was never admitted


def test_the_cache_and_the_store_are_counted(tmp_path: Path, wide: Callable[[int], bytes]) -> None:
    config = Config(
        address="127.0.0.1:0",
        metrics="127.0.0.1:0",
        workers=1,
        log_level="error",
        store_directory=str(tmp_path / "store"),
        store_bytes=30_000,
    )
    with Server(config) as server, Client(server.address, timeout=20) as client:
        names = [client.upload_module(wide(200 + number)).name for number in range(4)]
        assert client.size(names[-1]).count == 203
        held = {path.name for path in (tmp_path / "store" / "modules").glob("??/*")}
        assert 0 < len(held) < 4
        assert client.size(names[-1]).count == 203
        wait_until(lambda: value(server, "xlashape_kept_answer_hits_total") == 1)
        assert value(server, "xlashape_kept_answer_misses_total") == 1
        assert value(server, "xlashape_kept_answer_bytes") > 0
        assert value(server, "xlashape_children") == 1
        os.kill(children(server.worker_pids[0])[0], signal.SIGKILL)  # the zygote, and so its child
        assert client.size(names[-1], computation="main").count == 203
        wait_until(lambda: value(server, "xlashape_children_ended_total", reason="killed") == 1)
        # A byte in the middle of a stored module flips.
        [path] = (tmp_path / "store" / "modules").glob(f"??/{names[-1].partition('/')[2]}")
        data = bytearray(path.read_bytes())
        data[len(data) // 3] ^= 1
        path.write_bytes(data)
        with pytest.raises(NotFoundError):
            client.download_module(names[-1])
        # The store is looked at every ten seconds.
        wait_until(lambda: value(server, "xlashape_store_modules") == len(held) - 1)
        sizes = [path.stat().st_size for path in (tmp_path / "store" / "modules").glob("??/*")]
        assert value(server, "xlashape_store_bytes") == sum(sizes)


def test_callers_that_are_cut_off_are_counted() -> None:
    config = Config(address="127.0.0.1:0", metrics="127.0.0.1:0", workers=1, log_level="error", max_receive_seconds=0.2)
    with Server(config) as server, Http2Caller(server.address) as caller:
        caller.call("/xlashape.v1.ShapeService/ByteSize", None)
        wait_until(lambda: value(server, "xlashape_calls_cut_off_total", stage="receiving") >= 1)


def counters(server: Server) -> Samples:
    suffixes = ("_total", "_bucket", "_count", "_sum")
    return {key: value for key, value in samples(server).items() if key[0].endswith(suffixes)}


def answered(server: Server) -> float:
    """How many calls of LinearIndex are counted as answered."""
    return value(server, "xlashape_calls_total", method="ShapeService/LinearIndex", code="OK")


def test_counters_outlive_a_worker_that_is_killed() -> None:
    config = Config(address="127.0.0.1:0", metrics="127.0.0.1:0", workers=2, log_level="error")
    with Server(config) as server:
        seen = [counters(server)]
        for number in range(2):
            asks(server, 10)
            # A caller may have its answer before the call is counted.
            wait_until(lambda count=10 * (number + 1): answered(server) == count)
            pids = server.worker_pids
            os.kill(pids[number % 2], signal.SIGKILL)
            wait_until(lambda pids=pids: len(server.worker_pids) == 2 and server.worker_pids != pids)
            wait_until(lambda: value(server, "xlashape_workers_answering") == 2)
            seen.append(counters(server))
        for before, after in itertools.pairwise(seen):
            for key, number in before.items():
                assert after[key] >= number, key
        # The new worker continues the counts of the killed one, its last call included.
        assert answered(server) == 20
        assert value(server, "xlashape_worker_restarts_total", worker="0") == 1
        assert value(server, "xlashape_worker_restarts_total", worker="1") == 1


def test_a_dead_worker_has_no_values_of_the_moment() -> None:
    config = Config(address="127.0.0.1:0", metrics="127.0.0.1:0", workers=2, log_level="error")
    with Server(config) as server:
        live = ("xlashape_children", "xlashape_calls_in_flight", "xlashape_worker_ready", "xlashape_message_bytes")
        wait_until(lambda: all((name, (("worker", "1"),)) in samples(server) for name in (live[0], *live[2:])))
        os.kill(server.worker_pids[1], signal.SIGKILL)
        wait_until(lambda: len(server.worker_pids) == 1, 10)
        found = samples(server)
        if len(server.worker_pids) == 1:
            assert not [key for key in found if key[0] in live and ("worker", "1") in key[1]]
        assert ("xlashape_worker_cpu_seconds_total", (("worker", "1"),)) in found


def test_metrics_are_answered_while_workers_are_stopped_or_full() -> None:
    config = Config(
        address="127.0.0.1:0", metrics="127.0.0.1:0", workers=1, log_level="error", watchdog_seconds=0,
        max_concurrent_calls=4, caller_share=1,
    )  # fmt: skip
    with Server(config) as server, Http2Caller(server.address) as caller:
        [pid] = server.worker_pids
        for _ in range(4):
            caller.call("/xlashape.v1.ShapeService/LinearIndices", None)
        wait_until(lambda: value(server, "xlashape_calls_in_flight", stage="receiving") == 4)
        full = {"limit": "concurrent_calls"}

        def ask() -> None:
            refused(server, LimitExceededError, lambda client: client.linear_index(SHAPE, (2, 3)))

        grows(server, 1, "xlashape_calls_refused_total", ask, **full)
        os.kill(pid, signal.SIGSTOP)
        try:
            assert value(server, "xlashape_worker_resident_memory_bytes") > 1 << 20
            assert value(server, "xlashape_calls_in_flight", stage="receiving") == 4
        finally:
            os.kill(pid, signal.SIGCONT)


def test_slow_scrapers_keep_nobody_waiting(metered: Server) -> None:
    host, port = metered.config.host_and_port("metrics")
    slow = [socket.create_connection((host, port)) for _ in range(100)]
    try:
        for each in slow:
            each.sendall(b"GET /metrics HTTP/1.1\r\n")
        began = time.monotonic()
        assert "xlashape_workers 2" in scraped(metered.metrics_address)
        assert time.monotonic() - began < 8  # a slow scraper is cut off after ten seconds, which were not waited for
    finally:
        for each in slow:
            each.close()


def test_a_host_of_strangers_is_refused(metered: Server) -> None:
    """A page that leads its own name to this machine would read the metrics otherwise."""
    for host, status in (("evil.example", 421), ("localhost:1", 200), ("127.0.0.1", 200)):
        connection = http.client.HTTPConnection(metered.metrics_address, timeout=20)
        connection.request("GET", "/metrics", headers={"host": host})
        assert connection.getresponse().status == status
        connection.close()


@pytest.mark.parametrize(("method", "path", "status"), [("GET", "/", 404), ("POST", "/metrics", 405)])
def test_other_questions_are_refused(metered: Server, method: str, path: str, status: int) -> None:
    connection = http.client.HTTPConnection(metered.metrics_address, timeout=20)
    connection.request(method, path)
    answer = connection.getresponse()
    assert answer.status == status
    answer.read()
    connection.close()


def test_garbage_at_the_address_of_metrics_does_no_harm(metered: Server) -> None:
    host, port = metered.config.host_and_port("metrics")
    for data in (b"\0" * 70_000, b"GET " + b"/" * 70_000, b"\x16\x03\x01\x02\x00", b"GET /metrics HTTP/9.9\r\n\r\n"):
        with socket.create_connection((host, port), timeout=20) as caller:
            caller.sendall(data)
            caller.shutdown(socket.SHUT_WR)
    assert "xlashape_workers 2" in scraped(metered.metrics_address)
