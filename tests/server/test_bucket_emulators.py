"""Stores that keep modules in buckets of third-party emulators of Google's and Azure's object stores.

test_bucket_clouds.py has buckets with scripted answers, for errors that the emulators do not make.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest
from bucket_stores import FACTS, MODULE, no_cloud, put, put_at_once, replica
from cloud_emulators import EMULATORS, Azurite, Emulator
from grpc_health.v1 import health_pb2, health_pb2_grpc
from optional import needed_in_ci
from server_processes import ServerProcess, wait_until

from xlashape.errors import NotFoundError, UnavailableError
from xlashape_client import Client
from xlashape_server import Config, bucket
from xlashape_server import store as stores

obstore = needed_in_ci("obstore")


@pytest.fixture(scope="module", params=EMULATORS, ids=lambda kind: kind.program)
def running(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Emulator]:
    with request.param(tmp_path_factory.mktemp("emulator")) as emulator:
        emulator.make_bucket("bucket")
        yield emulator


def lead(emulator: Emulator, way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sets the environment variables that lead clients to an emulator, and removes all others about buckets."""
    no_cloud(monkeypatch)
    for name, value in emulator.environments[way].items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def emulator(running: Emulator, monkeypatch: pytest.MonkeyPatch) -> Emulator:
    lead(running, "account", monkeypatch)
    return running


@pytest.fixture
def url(emulator: Emulator, tmp_path: Path) -> str:
    return f"{emulator.scheme}://bucket/some/{tmp_path.name}"


def test_replicas_share_modules(tmp_path: Path, url: str) -> None:
    first, second = replica(tmp_path, "1", url), replica(tmp_path, "2", url)
    first.check_shared()
    content = os.urandom(3_000_000)
    stored, was_there = put(first, content)
    assert not was_there
    assert second.find(stored.name).facts == FACTS
    assert second.read(stored.name) == content
    assert second.read(stored.name, offset=2_000_000, limit=7) == content[2_000_000:2_000_007]
    assert replica(tmp_path, "3", url).find(stored.name).created == pytest.approx(stored.created)
    again, was_there = put(replica(tmp_path, "4", url), content)
    assert was_there
    assert again.created == pytest.approx(stored.created)


def test_objects_are_created_and_never_overwritten(tmp_path: Path, url: str) -> None:
    raw = bucket.Bucket(url)._objects
    raw.put("a", b"first", mode="create", use_multipart=False)
    with pytest.raises(obstore.exceptions.AlreadyExistsError):
        raw.put("a", b"second", mode="create", use_multipart=False)
    assert bytes(raw.get("a").bytes()) == b"first"
    # Where several stores put the same module at the same time, one of them creates the object.
    stores = [replica(tmp_path, str(number), url) for number in range(4)]
    assert len(put_at_once(stores, os.urandom(200_000))) == 1


def test_a_damaged_object_is_repaired_by_an_upload(tmp_path: Path, url: str) -> None:
    stored, _ = put(replica(tmp_path, "1", url), b"abc" * 1000)
    raw = bucket.Bucket(url)._objects
    raw.put(stores._key(stored.sha256), b"something else", use_multipart=False)
    other = replica(tmp_path, "2", url)
    with pytest.raises(UnavailableError, match="the object in the bucket is damaged"):
        other.read(stored.name)
    assert put(other, b"abc" * 1000)[1] is False
    assert replica(tmp_path, "3", url).read(stored.name) == b"abc" * 1000


def test_a_deletion_reaches_the_other_replicas(tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = replica(tmp_path, "1", url), replica(tmp_path, "2", url)
    stored, _ = put(first, b"abc")
    assert second.read(stored.name) == b"abc"
    monkeypatch.setattr(stores, "_TRUST_SECONDS", 0.0)
    first.delete(stored.name)
    for store in (first, second, replica(tmp_path, "3", url)):
        for ask in (store.read, store.find, store.delete):
            with pytest.raises(NotFoundError, match="there is no module"):
                ask(stored.name)
    assert put(second, b"abc")[1] is False
    assert first.read(stored.name) == b"abc"


def test_a_wrong_bucket_is_told(tmp_path: Path, emulator: Emulator) -> None:
    store = replica(tmp_path, "1", f"{emulator.scheme}://wrong/prefix")
    with pytest.raises(UnavailableError, match="there is no such bucket"):
        put(store, b"abc")
    with pytest.raises(UnavailableError):
        store.check_shared()
    if isinstance(emulator, Azurite):  # Google's service does the same, and its emulator does not
        name = "modules/" + "0" * 64
        for question in (store.check_shared, lambda: store.read(name), lambda: store.delete(name)):
            with pytest.raises(UnavailableError, match="there is no such bucket: .*container does not exist"):
                question()


# The emulator of Google's store knows no credentials.
@pytest.mark.parametrize("running", [Azurite], indirect=True, ids=["azurite-blob"])
def test_a_wrong_key_is_told(tmp_path: Path, running: Emulator, monkeypatch: pytest.MonkeyPatch) -> None:
    lead(running, "account", monkeypatch)
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", "a2V5")
    store = replica(tmp_path, "1", "az://bucket/prefix")
    for question in (lambda: put(store, b"abc"), lambda: store.read("modules/" + "0" * 64), store.check_shared):
        with pytest.raises(UnavailableError, match="the bucket refuses access"):
            question()


def test_every_way_to_name_the_address_leads_there(
    tmp_path: Path, running: Emulator, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = os.urandom(1000)
    for way in running.environments:
        lead(running, way, monkeypatch)
        store = replica(tmp_path, way, f"{running.scheme}://bucket/{tmp_path.name}")
        store.check_shared()
        stored, was_there = put(store, content)
        assert was_there == (way != "account")
        assert store.read(stored.name) == content


def serves(address: str, name: str) -> bool:
    with grpc.insecure_channel(address) as channel:
        request = health_pb2.HealthCheckRequest(service=name)
        answer = health_pb2_grpc.HealthStub(channel).Check(request, timeout=20)
    return answer.status == health_pb2.HealthCheckResponse.SERVING


@pytest.mark.slow
def test_servers_outlive_an_emulator_that_stops(url: str, emulator: Emulator) -> None:
    config = Config(address="127.0.0.1:0", workers=1, store=url)
    with (
        ServerProcess(config) as first,
        ServerProcess(config) as second,
        Client(first.address, timeout=30) as one,
        Client(second.address, timeout=30) as other,
    ):
        module = one.upload_module(MODULE)
        assert other.download_module(module.name) == MODULE
        unseen = one.upload_module(MODULE + b"\n")
        wait_until(lambda: serves(second.address, "xlashape.v1.HloService"), 60)
        emulator.stop()
        try:
            with pytest.raises(UnavailableError, match="the bucket cannot be used"):
                one.upload_module(MODULE + b"\n\n")
            assert other.download_module(module.name) == MODULE
            wait_until(lambda: not serves(second.address, "xlashape.v1.HloService"), 60)
            assert serves(second.address, "ready")
        finally:
            emulator.start()
        # The emulator is started again at the same address: those of clouds do not change either.
        wait_until(lambda: serves(second.address, "xlashape.v1.HloService"), 60)
        assert other.download_module(unseen.name) == MODULE + b"\n"
        assert other.upload_module(MODULE + b"\n\n").name
        assert (first.stop(), second.stop()) == (0, 0)


@pytest.mark.slow
def test_a_server_starts_with_a_wrong_bucket_and_says_so(emulator: Emulator) -> None:
    config = Config(address="127.0.0.1:0", workers=1, store=f"{emulator.scheme}://wrong/prefix")
    with ServerProcess(config) as server, Client(server.address, timeout=30) as client:
        wait_until(lambda: not serves(server.address, "xlashape.v1.HloService"), 60)
        assert serves(server.address, "xlashape.v1.ShapeService")
        with pytest.raises(UnavailableError, match="there is no such bucket"):
            client.upload_module(MODULE)
        emulator.make_bucket("wrong")
        wait_until(lambda: serves(server.address, "xlashape.v1.HloService"), 60)
        assert client.download_module(client.upload_module(MODULE).name) == MODULE
        assert server.stop() == 0
        assert any("wrong" in line["message"] or "bucket" in line["message"] for line in server.lines())
