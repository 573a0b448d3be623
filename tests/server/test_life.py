"""Start and stop of a server, workers that end, calls in flight, threads, health and reflection."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf import descriptor_pb2
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from xlashape.errors import DeadlineExceededError, LimitExceededError, UnavailableError
from xlashape.proto import services, v1, xla
from xlashape_client import Client
from xlashape_client.status import exception_of
from xlashape_server import Config, Server

SHAPE = "f32[3,5]{1,0:T(2,2)}"


def wait_until(holds: Callable[[], bool], seconds: float = 20) -> None:
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, "it did not come to be in time"
        time.sleep(0.02)


def test_every_worker_stays_on_a_core_of_its_own(server: Server) -> None:
    pids = server.worker_pids
    assert len(pids) == 2
    if sys.platform == "linux":
        cores = [os.sched_getaffinity(pid) for pid in pids]
        assert all(len(core) == 1 for core in cores)
        if len(os.sched_getaffinity(0)) > 1:
            assert cores[0] != cores[1]


def test_connections_are_spread_over_the_workers(server: Server) -> None:
    pids: set[str] = set()
    for _ in range(200):
        with socket.create_connection(("127.0.0.1", server.config.host_and_port()[1]), timeout=5):
            pids.add("answered")
    assert pids == {"answered"}


def test_an_address_in_use_is_an_error(server: Server) -> None:
    with pytest.raises(UnavailableError, match=f"cannot listen on {server.address}"):
        Server(Config(address=server.address, workers=1)).start()
    with pytest.raises(UnavailableError, match="cannot listen on"):
        Server(Config(address="203.0.113.7:0", workers=1)).start()


def test_a_worker_that_cannot_start_says_why(tmp_path: Any) -> None:
    config = Config(address=f"unix:{tmp_path}/no/such/folder", log_level="error")
    with pytest.raises(UnavailableError, match="worker 0 cannot start: cannot listen on unix:.*/no/such/folder"):
        Server(config).start()


def test_a_worker_that_ends_is_replaced() -> None:
    with Server(Config(address="127.0.0.1:0", workers=1)) as server:
        [first] = server.worker_pids
        with Client(server.address) as client:
            assert client.linear_index(SHAPE, (2, 3)) == 17
            os.kill(first, signal.SIGKILL)
            wait_until(lambda: bool(server.worker_pids) and server.worker_pids != [first])
            client.wait_until_ready(20)
            assert client.linear_index(SHAPE, (2, 3)) == 17


def test_workers_end_with_their_parent() -> None:
    script = "from xlashape_server import *; import time; s = Server(Config(address='127.0.0.1:0', workers=2)).start(); print(s.worker_pids, flush=True); time.sleep(60)"
    parent = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    pids = json.loads(parent.stdout.readline())
    parent.kill()
    parent.communicate()

    def gone() -> bool:
        for pid in pids:
            try:
                os.kill(pid, 0)
            except ProcessLookupError:
                continue
            return False
        return True

    wait_until(gone)


class Upload:
    """An upload that stays in flight until `finish` or `give_up` is called."""

    def __init__(self, address: str, content: bytes) -> None:
        self._pieces: queue.Queue[bytes | None] = queue.Queue()
        self._channel = grpc.insecure_channel(address)
        call = self._channel.stream_unary("/xlashape.v1.HloService/UploadModule")
        half = len(content) // 2
        self._rest = v1.UploadModuleRequest(data=content[half:]).SerializeToString()
        self._pieces.put(v1.UploadModuleRequest(data=content[:half], size_bytes=len(content)).SerializeToString())
        self._future = call.future(self._messages(), timeout=30)

    def _messages(self) -> Iterator[bytes]:
        while (piece := self._pieces.get()) is not None:
            yield piece

    def finish(self) -> v1.UploadModuleResponse:
        self._pieces.put(self._rest)
        self._pieces.put(None)
        try:
            return v1.UploadModuleResponse.FromString(self._future.result(30))
        finally:
            self._channel.close()

    def give_up(self) -> None:
        self._pieces.put(None)
        self._future.cancel()
        self._channel.close()


def under_way(store: Path, count: int = 1) -> None:
    """Returns once `count` long uploads have reached the server, where each has an open file without a name."""
    if sys.platform != "linux":
        pytest.skip("open files without a name are seen in /proc, which only Linux has")
    unnamed = str(store / "incoming" / "#")

    def opened() -> int:
        found = 0
        for link in Path("/proc").glob("[0-9]*/fd/*"):
            with contextlib.suppress(OSError):  # the process has ended
                found += str(link.readlink()).startswith(unnamed)
        return found

    wait_until(lambda: opened() == count)


def long_module(module: bytes) -> bytes:
    """A serialized module of more than 2 MiB. It begins with a long name, which a later field of the same number
    replaces."""
    return xla.HloModuleProto(name="n" * (3 << 20)).SerializeToString() + module


def serving(store: Path) -> tuple[subprocess.Popen[str], dict[str, Any]]:
    script = "import json, sys; from xlashape_server import *; sys.exit(serve(Config(**json.loads(sys.argv[1]))))"
    config = Config(address="127.0.0.1:0", workers=2, grace_seconds=20, store_directory=str(store))
    command = [sys.executable, "-c", script, json.dumps(asdict(config))]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    assert process.stdout is not None
    return process, json.loads(process.stdout.readline())


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT], ids=["SIGTERM", "Ctrl-C"])
def test_a_call_in_flight_finishes_when_the_server_stops(
    how: signal.Signals, wide: Callable[[int], bytes], tmp_path: Path
) -> None:
    process, event = serving(tmp_path)
    assert (event["event"], event["workers"], event["pid"]) == ("serving", 2, process.pid)
    address = event["address"]
    upload = Upload(address, long_module(wide(10)))
    with grpc.insecure_channel(address) as channel:
        watch = health_pb2_grpc.HealthStub(channel).Watch(health_pb2.HealthCheckRequest(), timeout=30)
        assert next(watch).status == health_pb2.HealthCheckResponse.SERVING
        under_way(tmp_path)
        if how is signal.SIGINT:
            os.killpg(process.pid, how)  # the signal goes to the workers too, as from a terminal
        else:
            process.send_signal(how)
        assert next(watch).status == health_pb2.HealthCheckResponse.NOT_SERVING
        wait_until(lambda: not answers(address))
        assert process.poll() is None
        assert upload.finish().module.instruction_count == 10
    _, err = process.communicate(timeout=30)
    assert process.returncode == 0, err
    assert "Traceback" not in err


def answers(address: str) -> bool:
    with Client(address, timeout=2) as client:
        try:
            return client.linear_index(SHAPE, (2, 3)) == 17
        except (DeadlineExceededError, UnavailableError):
            return False


def test_a_second_signal_stops_at_once(wide: Callable[[int], bytes], tmp_path: Path) -> None:
    process, event = serving(tmp_path)
    upload = Upload(event["address"], long_module(wide(10)))
    under_way(tmp_path)
    process.send_signal(signal.SIGTERM)
    wait_until(lambda: not answers(event["address"]))
    assert process.poll() is None
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=15)
    assert process.returncode == 0
    upload.give_up()


def test_stopping_twice_or_before_starting_is_fine() -> None:
    server = Server(Config(address="127.0.0.1:0", workers=1))
    server.stop()
    with Server(Config(address="127.0.0.1:0", workers=1)) as running:
        running.stop()
        running.stop()
        assert running.worker_pids == []


def test_health_by_name(channel: grpc.Channel) -> None:
    stub = health_pb2_grpc.HealthStub(channel)
    for name in ("", *(service.full_name for service in services())):
        assert (
            stub.Check(health_pb2.HealthCheckRequest(service=name), timeout=10).status
            == health_pb2.HealthCheckResponse.SERVING
        )
    with pytest.raises(grpc.RpcError) as caught:
        stub.Check(health_pb2.HealthCheckRequest(service="xlashape.v1.Nothing"), timeout=10)
    assert caught.value.code() is grpc.StatusCode.NOT_FOUND


def reflected(channel: grpc.Channel, **question: Any) -> reflection_pb2.ServerReflectionResponse:
    ask = channel.stream_stream(
        "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
        reflection_pb2.ServerReflectionRequest.SerializeToString,
        reflection_pb2.ServerReflectionResponse.FromString,
    )
    return next(ask(iter([reflection_pb2.ServerReflectionRequest(**question)]), timeout=10))


def test_reflection_lists_every_service(channel: grpc.Channel) -> None:
    names = {one.name for one in reflected(channel, list_services="").list_services_response.service}
    assert names == {
        "xlashape.v1.ShapeService",
        "xlashape.v1.HloService",
        "xlashape.v1.IndexingService",
        "xlashape.v1.ReportService",
        "xlashape.v1.ViewService",
        "grpc.health.v1.Health",
        "grpc.reflection.v1alpha.ServerReflection",
    }


def test_reflection_gives_every_type(channel: grpc.Channel) -> None:
    files: dict[str, descriptor_pb2.FileDescriptorProto] = {}

    def learn(**question: str) -> None:
        answer = reflected(channel, **question)
        assert not answer.HasField("error_response"), answer.error_response.error_message
        for data in answer.file_descriptor_response.file_descriptor_proto:
            file = descriptor_pb2.FileDescriptorProto.FromString(data)
            if file.name not in files:
                files[file.name] = file
                for needed in file.dependency:
                    learn(file_by_filename=needed)

    for service in reflected(channel, list_services="").list_services_response.service:
        learn(file_containing_symbol=service.name)
    for symbol in ("xla.HloModuleProto", "xla.ShapeProto", "xlashape.v1.LinearIndexRequest.indices"):
        answer = reflected(channel, file_containing_symbol=symbol)
        assert answer.file_descriptor_response.file_descriptor_proto, symbol
    assert not [name for name in files if name.startswith("xla/")]  # the service's schema imports nothing of XLA's
    assert [one.name for one in files["xlashape/v1/shape_service.proto"].service] == ["ShapeService"]
    assert (
        reflected(channel, file_containing_symbol="no.such.Thing").error_response.error_code
        == grpc.StatusCode.NOT_FOUND.value[0]
    )


def test_every_rpc_of_the_schema_is_answered(channel: grpc.Channel) -> None:
    for service in services():
        for method in service.methods:
            path = f"/{service.full_name}/{method.name}"
            code = grpc.StatusCode.OK
            try:
                if method.client_streaming:
                    channel.stream_unary(path)(iter([b""]), timeout=10)
                elif method.server_streaming:
                    list(channel.unary_stream(path)(b"", timeout=10))
                else:
                    channel.unary_unary(path)(b"", timeout=10)
            except grpc.RpcError as error:
                code = error.code()
            assert code in (grpc.StatusCode.OK, grpc.StatusCode.INVALID_ARGUMENT), path


def test_more_calls_than_allowed_are_refused(tmp_path: Path) -> None:
    config = Config(
        address="127.0.0.1:0",
        workers=1,
        max_concurrent_calls=2,
        caller_share=1,
        store_directory=str(tmp_path),
    )
    with Server(config) as server:
        uploads = [Upload(server.address, bytes(4 << 20)) for _ in range(2)]
        under_way(tmp_path, 2)
        with Client(server.address) as client, pytest.raises(LimitExceededError) as caught:
            client.linear_index(SHAPE, (2, 3))
        assert caught.value.limit == "concurrent_calls"
        for upload in uploads:
            upload.give_up()


def test_a_client_that_never_sends_the_rest_does_not_hold_a_thread_forever(wide: Callable[[int], bytes]) -> None:
    config = Config(address="127.0.0.1:0", workers=1, max_call_seconds=0.5)
    with Server(config) as server, grpc.insecure_channel(server.address) as channel:
        more: queue.Queue[bytes | None] = queue.Queue()
        more.put(v1.UploadModuleRequest(data=wide(3)[:20]).SerializeToString())
        call = channel.stream_unary("/xlashape.v1.HloService/UploadModule").future(iter(more.get, None))
        with Client(server.address) as client:
            assert client.linear_index(SHAPE, (2, 3), timeout=20) == 17
        with pytest.raises(grpc.RpcError) as caught:
            call.result(20)
        assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        error = exception_of(caught.value, server.address)
        assert isinstance(error, LimitExceededError)
        assert error.limit == "call_seconds"
        more.put(None)


def test_idle_uploads_leave_threads_to_others() -> None:
    with (
        Server(Config(address="127.0.0.1:0", workers=1, max_concurrent_uploads=4)) as server,
        Client(server.address) as client,
        grpc.insecure_channel(server.address) as channel,
    ):
        upload = channel.stream_unary("/xlashape.v1.HloService/UploadModule")
        more: queue.Queue[bytes | None] = queue.Queue()
        calls = [upload.future(iter(more.get, None), timeout=60) for _ in range(4)]
        assert client.linear_index(SHAPE, (2, 3), timeout=20) == 17
        wait_until(lambda: sum(call.done() for call in calls) == 1)
        for call in (call for call in calls if call.done()):
            error = exception_of(call.exception(), server.address)
            assert isinstance(error, LimitExceededError)
            assert (error.limit, error.maximum) == ("concurrent_uploads", 4)
            assert "this caller has its share" in error.message
        for call in calls:
            call.cancel()
        for _ in calls:
            more.put(None)


def test_idle_reflection_streams_hold_no_threads_of_calls_and_end() -> None:
    config = Config(address="127.0.0.1:0", workers=1, max_call_seconds=2, max_reflection_streams=16)
    with (
        Server(config) as server,
        Client(server.address) as client,
        grpc.insecure_channel(server.address) as channel,
    ):
        more: queue.Queue[reflection_pb2.ServerReflectionRequest | None] = queue.Queue()
        stub = reflection_pb2_grpc.ServerReflectionStub(channel)
        streams = [stub.ServerReflectionInfo(iter(more.get, None)) for _ in range(12)]
        assert client.linear_index(SHAPE, (2, 3), timeout=1.5) == 17
        # Either the call's thread or the watch ends a call. Errors of the watch have no details: messages are compared.
        ended = 0
        for stream in streams:
            with pytest.raises(grpc.RpcError) as caught:
                next(stream)
            error = exception_of(caught.value, server.address)
            assert isinstance(error, LimitExceededError)
            assert ("the call took more than 2 seconds" in str(error)) != ("reflection streams" in str(error)), error
            ended += "the call took more than 2 seconds" in str(error)
        assert ended == 12
        # Their places are free again.
        listed = stub.ServerReflectionInfo(iter([reflection_pb2.ServerReflectionRequest(list_services="")]))
        assert next(listed).list_services_response.service
        for _ in streams:
            more.put(None)


def test_a_client_that_never_reads_does_not_hold_a_thread_forever(wide: Callable[[int], bytes]) -> None:
    config = Config(address="127.0.0.1:0", workers=1, max_call_seconds=1.5)
    with Server(config) as server, grpc.insecure_channel(server.address) as channel:
        request = v1.IndexingMapsRequest(module=v1.ModuleInput(serialized=wide(5000))).SerializeToString()
        stream = channel.unary_stream("/xlashape.v1.IndexingService/IndexingMaps")(request)
        assert next(stream)
        with Client(server.address) as client:
            assert client.linear_index(SHAPE, (2, 3), timeout=20) == 17
        stream.cancel()


def test_threads_of_one_client_share_its_connection(client: Client) -> None:
    wrong: list[int] = []

    def ask() -> None:
        for i in range(50):
            if client.linear_index(SHAPE, (i % 3, i % 5)) < 0:
                wrong.append(i)

    threads = [threading.Thread(target=ask) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not wrong
