"""Stores that keep modules in a bucket: an S3 server on this machine behind a proxy that fails on demand, or a
directory."""

from __future__ import annotations

import hashlib
import logging
import os
import urllib.request
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import grpc
import pytest
from bucket_stores import FACTS, MODULE, put, put_at_once, replica
from faulty_proxy import FaultyProxy
from grpc_health.v1 import health_pb2, health_pb2_grpc
from server_processes import ServerProcess, wait_until

from xlashape.errors import InvalidArgumentError, NotFoundError, UnavailableError
from xlashape_client import Client
from xlashape_server import Config, bucket, grpc_services
from xlashape_server import store as stores

pytest.importorskip("obstore", reason="the extra `store` is not installed")
moto_server = pytest.importorskip("moto.server", reason="moto is not installed")


@pytest.fixture(scope="module")
def s3() -> Iterator[tuple[str, int]]:
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = moto_server.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    yield server.get_host_and_port()
    server.stop()


@pytest.fixture
def proxy(s3: tuple[str, int], monkeypatch: pytest.MonkeyPatch) -> Iterator[FaultyProxy]:
    with FaultyProxy(*s3) as running:
        signed = {"Authorization": "AWS4-HMAC-SHA256 Credential=a/20260101/us-east-1/s3/aws4_request"}
        create = urllib.request.Request(f"http://{s3[0]}:{s3[1]}/bucket", method="PUT", headers=signed)
        urllib.request.urlopen(create, timeout=20).close()
        monkeypatch.setenv("AWS_ENDPOINT_URL", running.url)
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "a")
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "b")
        monkeypatch.setenv("AWS_REGION", "us-east-1")
        yield running


@pytest.fixture(params=["s3", "file"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "file":
        return f"file:{tmp_path}/bucket"
    request.getfixturevalue("proxy")
    return f"s3://bucket/{tmp_path.name}"


def test_replicas_share_modules(tmp_path: Path, url: str) -> None:
    first, second = replica(tmp_path, "1", url), replica(tmp_path, "2", url)
    content = os.urandom(3_000_000)
    stored, was_there = put(first, content)
    assert (stored.sha256, was_there) == (hashlib.sha256(content).hexdigest(), False)
    assert second.find(stored.name).facts == FACTS
    assert second.read(stored.name) == content
    assert second.read(stored.name, offset=2_000_000, limit=7) == content[2_000_000:2_000_007]
    assert second.find(stored.name).created == pytest.approx(stored.created)
    again, was_there = put(second, content)
    assert was_there
    assert again.created == pytest.approx(stored.created)
    third = replica(tmp_path, "3", url)
    again, was_there = put(third, content)
    assert was_there
    assert again.created == pytest.approx(stored.created)


def test_what_is_in_no_bucket_is_not_found(tmp_path: Path, url: str) -> None:
    store = replica(tmp_path, "1", url)
    name = "modules/" + "0" * 64
    for ask in (store.find, store.read, store.delete):
        with pytest.raises(NotFoundError, match="never uploaded") as caught:
            ask(name, field="name")
        assert caught.value.field == "name"
    with pytest.raises(InvalidArgumentError, match="64 digits"):
        store.find("modules/../../x")


def test_a_deletion_reaches_the_other_replicas(tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = replica(tmp_path, "1", url), replica(tmp_path, "2", url)
    stored, _ = put(first, b"abc")
    assert second.read(stored.name) == b"abc"
    first.delete(stored.name)
    with pytest.raises(NotFoundError):
        first.read(stored.name)
    assert second.read(stored.name) == b"abc"  # the second replica answers from its cache, for a minute
    monkeypatch.setattr(stores, "_TRUST_SECONDS", 0.0)
    for _ in range(2):
        with pytest.raises(NotFoundError):
            second.read(stored.name)
    put(second, b"abc")
    assert first.read(stored.name) == b"abc"


def test_the_cache_is_bounded_and_the_bucket_is_not(tmp_path: Path, url: str) -> None:
    store = replica(tmp_path, "1", url, max_bytes=4000)
    stored = [put(store, bytes([i]) * 1000)[0] for i in range(8)]
    assert store.total_bytes() <= 4000
    for i, each in enumerate(stored):
        assert store.read(each.name) == bytes([i]) * 1000


def test_a_damaged_cache_is_replaced(tmp_path: Path, url: str) -> None:
    store = replica(tmp_path, "1", url)
    stored, _ = put(store, b"abc" * 1000)
    path = store._path(stored.sha256)
    path.write_bytes(b"x" + path.read_bytes()[1:])
    assert store.read(stored.name) == b"abc" * 1000
    assert store.read(stored.name, offset=1, limit=5) == b"bcabc"


def test_replicas_that_put_the_same_agree(tmp_path: Path, url: str) -> None:
    stores = [replica(tmp_path, str(i), url) for i in range(4)]
    assert len(put_at_once(stores, os.urandom(200_000))) == 1


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    retries = {**bucket._RETRIES, "max_retries": 2, "retry_timeout": timedelta(seconds=2)}
    monkeypatch.setattr(bucket, "_RETRIES", retries)
    quick = {"connect_timeout": timedelta(seconds=1), "timeout": timedelta(seconds=2)}
    monkeypatch.setattr(bucket, "_CLIENT", {**bucket._CLIENT, **quick})


@pytest.mark.parametrize("fault", ["errors", "cut", "hangs"])
def test_a_bucket_that_fails_is_unavailable_and_the_cache_answers(
    tmp_path: Path, proxy: FaultyProxy, fault: str, impatient: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"s3://bucket/{tmp_path.name}"
    store, empty = replica(tmp_path, "1", url), replica(tmp_path, "2", url)
    stored, _ = put(store, b"abc")
    monkeypatch.setattr(stores, "_TRUST_SECONDS", 0.0)
    proxy.fault = fault
    assert store.read(stored.name) == b"abc"
    for question in (
        lambda: put(store, b"def"),
        lambda: empty.read(stored.name),
        lambda: store.delete(stored.name),
        store.check_shared,
    ):
        with pytest.raises(UnavailableError, match="the bucket cannot be used"):
            question()
    assert list((tmp_path / "1" / "incoming").iterdir()) == []
    proxy.fault = ""
    assert empty.read(stored.name) == b"abc"
    store.check_shared()
    assert put(store, b"def")[1] is False
    assert empty.read(put(store, b"def")[0].name) == b"def"


def test_a_check_of_the_bucket_ends_before_it_counts_as_hanging() -> None:
    assert bucket._PROBE_CLIENT["timeout"].total_seconds() < grpc_services._HANGING_SECONDS


def test_a_slow_bucket_is_waited_for(tmp_path: Path, proxy: FaultyProxy) -> None:
    proxy.fault = "slow"
    url = f"s3://bucket/{tmp_path.name}"
    stored, _ = put(replica(tmp_path, "1", url), b"abc")
    assert replica(tmp_path, "2", url).read(stored.name) == b"abc"


def test_a_cache_spares_the_bucket(tmp_path: Path, proxy: FaultyProxy) -> None:
    url = f"s3://bucket/{tmp_path.name}"
    stored, _ = put(replica(tmp_path, "1", url), b"abc")
    store = replica(tmp_path, "2", url)
    proxy.requests.clear()
    for _ in range(100):
        assert store.read(stored.name) == b"abc"
        store.find(stored.name)
    assert [each.split()[0] for each in proxy.requests] == ["GET"]


def test_other_bytes_are_never_used_and_an_upload_repairs(tmp_path: Path, proxy: FaultyProxy) -> None:
    url = f"s3://bucket/{tmp_path.name}"
    content = os.urandom(100_000)
    stored, _ = put(replica(tmp_path, "1", url), content)
    store = replica(tmp_path, "2", url)
    proxy.fault, proxy.method = "wrong bytes", "GET"
    for _ in range(2):
        with pytest.raises(UnavailableError, match="the object in the bucket is damaged"):
            store.read(stored.name)
    proxy.fault = ""
    assert store.read(stored.name) == content  # a fault of the connection has removed nothing
    raw = bucket.Bucket(url)._objects
    raw.put(stores._key(stored.sha256), b"something else")
    other = replica(tmp_path, "3", url)
    with pytest.raises(UnavailableError, match="the object in the bucket is damaged"):
        other.read(stored.name)
    assert put(other, content)[1] is False
    assert replica(tmp_path, "4", url).read(stored.name) == content


def test_a_bucket_that_is_missing_is_told(tmp_path: Path, proxy: FaultyProxy, impatient: None) -> None:
    store = replica(tmp_path, "1", "s3://no-such-bucket/x")
    for question in (lambda: put(store, b"abc"), store.check_shared):
        with pytest.raises(UnavailableError, match="no.such.bucket"):
            question()


@pytest.mark.parametrize("form", ["file:", "file://"])
@pytest.mark.parametrize("name", ["a#b", "a?b=c", "a%20b", "a b", "ä;x"])
def test_the_path_of_a_directory_is_taken_as_it_is(tmp_path: Path, form: str, name: str) -> None:
    url = Config(store=f"{form}{tmp_path}/{name}").store
    content = os.urandom(100)
    stored, _ = put(replica(tmp_path, "1", url), content)
    assert sorted(each.name for each in tmp_path.iterdir()) == sorted(["1", name])
    assert replica(tmp_path, "2", url).read(stored.name) == content


@pytest.mark.parametrize(
    "wrong", ["s3:bucket", "s3://", "http://x/y", "bucket", "file:relative", "s3://b/p?x=1", "s3://b/p q"]
)
def test_wrong_urls_are_refused(wrong: str) -> None:
    with pytest.raises(InvalidArgumentError, match="store: expected s3://BUCKET/PREFIX"):
        Config(store=wrong)


def test_servers_share_a_bucket(tmp_path: Path, proxy: FaultyProxy) -> None:
    config = Config(address="127.0.0.1:0", workers=1, store=f"s3://bucket/{tmp_path.name}")
    with (
        ServerProcess(config) as first,
        ServerProcess(config) as second,
        Client(first.address, timeout=30) as one,
        Client(second.address, timeout=30) as other,
        grpc.insecure_channel(second.address) as channel,
    ):
        assert first.event["store"] == config.store
        health = health_pb2_grpc.HealthStub(channel)

        def serving(name: str) -> bool:
            answer = health.Check(health_pb2.HealthCheckRequest(service=name), timeout=20)
            return answer.status == health_pb2.HealthCheckResponse.SERVING

        module = one.upload_module(MODULE)
        assert other.download_module(module.name) == MODULE
        assert other.map(module.name) is not None
        assert serving("xlashape.v1.HloService")
        proxy.fault = "errors"
        wait_until(lambda: not serving("xlashape.v1.HloService"), 60)
        assert serving("ready")
        assert serving("xlashape.v1.ShapeService")
        assert other.download_module(module.name) == MODULE
        proxy.fault = ""
        wait_until(lambda: serving("xlashape.v1.HloService"), 60)
        assert (first.stop(), second.stop()) == (0, 0)
