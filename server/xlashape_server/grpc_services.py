"""The services that gRPC itself defines: health, and reflection, which answers questions about the schema.

grpc.health.v1.Health has threads and places of its own, so that it answers even when all other calls are busy. Each
caller may hold a share of the places for watches. The names:

    live                              this process runs; SERVING until it begins to stop
    ready, ""                         calls can be answered; follows the directory of the store
    xlashape.v1.HloService, …         calls of this service can be answered; follows the directory and the bucket of
                                      the store if the service reads modules

Kubernetes' gRPC probes ask for a name: use `live` for livenessProbe and `ready` for readinessProbe. A full disk makes a
server not ready, but does not restart its container. A bucket that does not answer affects all servers that share it,
so `ready` ignores it: otherwise a load balancer would have no server left for the calls that need no bucket.

Reflection looks descriptors up in the private pool of xlashape.proto, and in the default pool for health and reflection
themselves. The package grpcio-reflection has grpc.reflection.v1alpha only. Newer clients first ask for
grpc.reflection.v1, which has the same messages under another package name. So one handler answers both versions, and
the descriptors of v1 are made of those of v1alpha.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from functools import partial
from typing import Any, cast

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError as WireError
from grpc_health.v1 import health_pb2
from grpc_reflection.v1alpha import reflection, reflection_pb2

from xlashape.errors import DecodeError, NotFoundError, XlashapeError
from xlashape.proto import pool, services
from xlashape_server.callers import Places
from xlashape_server.grpc_calls import CallThreads, GrpcCalls, add_methods
from xlashape_server.guard import Call, Guard
from xlashape_server.store import Store

_log = logging.getLogger("xlashape_server.grpc_services")

_SERVICE = health_pb2.DESCRIPTOR.services_by_name["Health"].full_name
_CHECK, _WATCH, _REFLECTION = CALLS = ("Health/Check", "Health/Watch", "ServerReflection/ServerReflectionInfo")
"""The names of calls of these services in logs, metrics and rules of access."""

_MAX_CHECKS = 16  # checks at the same time
_MAX_PENDING = 1 << 10  # checks that are answered or whose answer is sent
_RECEIVE_SECONDS = 2.0  # seconds within which the request must come
_MESSAGE_BYTES = 4096  # the most bytes of a request, which has the name of a service
_MAX_WATCHES = 256  # watches at the same time; for each a thread sleeps
_REFUSING_THREADS = 4  # threads beyond those of watches and of reflection, to refuse further calls
_CHECK_SECONDS = 1.0  # seconds between checks that the caller of a watch is still there


class Health:
    """The state of each service by its name; "" is the whole server. A name that was never set is unknown."""

    def __init__(self) -> None:
        self._states: dict[str, Any] = {}
        self._changed = threading.Condition()
        self._is_final = False
        self._version = 0

    def set(self, service: str, status: int) -> None:
        """Sets the state of a service, a member of HealthCheckResponse.ServingStatus. Callers that watch it are
        notified.
        """
        with self._changed:
            if not self._is_final and self._states.get(service) != status:
                self._states[service] = status
                self._version += 1
                self._changed.notify_all()

    def enter_graceful_shutdown(self) -> None:
        """Sets all services to NOT_SERVING, for good."""
        with self._changed:
            self._is_final = True
            self._states = dict.fromkeys(self._states, health_pb2.HealthCheckResponse.NOT_SERVING)
            self._version += 1
            self._changed.notify_all()

    def serves(self, service: str) -> bool:
        """Whether the state of a service is SERVING."""
        return self._states.get(service) == health_pb2.HealthCheckResponse.SERVING

    def check(self, _: Call, data: bytes) -> bytes:
        """The RPC Check: the state of a service. NotFoundError for a service that is not known."""
        service = _service(data)
        status = self._states.get(service)
        if status is None:
            raise NotFoundError(f"there is no service {service[:80]!r}", kind="service", name=service)
        return health_pb2.HealthCheckResponse(status=status).SerializeToString()

    def watch(self, call: Call, data: bytes) -> Iterator[bytes]:
        """The RPC Watch: the state of a service now, and each new state, until the caller has gone."""
        service = _service(data)
        sent = None
        while True:
            with self._changed:
                version = self._version
                status = self._states.get(service, health_pb2.HealthCheckResponse.SERVICE_UNKNOWN)
            if status != sent:
                sent = status
                yield health_pb2.HealthCheckResponse(status=status).SerializeToString()
            call.check()
            with self._changed:
                if self._version == version:
                    self._changed.wait(_CHECK_SECONDS)

    def enable(self, server: grpc.Server, guard: Guard) -> None:
        """Registers the service grpc.health.v1.Health with `server`."""
        threads = CallThreads(_MAX_CHECKS, "health"), CallThreads(_MAX_WATCHES + _REFUSING_THREADS, "health watch")
        guard.watch.also += [partial(each.end_waiting, _RECEIVE_SECONDS) for each in threads]
        checks, watches = (
            Places("health_checks", _MAX_PENDING, 1.0),
            Places("health_watches", _MAX_WATCHES, guard.share),
        )
        check = GrpcCalls(guard, threads[0], checks, most=_MESSAGE_BYTES).unary(_CHECK, self.check)
        watch = GrpcCalls(guard, threads[1], watches, most=_MESSAGE_BYTES, endless=True).server_stream(
            _WATCH, self.watch
        )
        methods: dict[str, grpc.RpcMethodHandler[Any, Any]] = {
            "Check": grpc.unary_unary_rpc_method_handler(check),
            "Watch": grpc.unary_stream_rpc_method_handler(watch),
        }
        add_methods(server, _SERVICE, methods)


def _service(data: bytes) -> str:
    try:
        return health_pb2.HealthCheckRequest.FromString(data).service
    except WireError as error:
        raise DecodeError(f"not a {_SERVICE} request: {error}") from None


# -- readiness ---------------------------------------------------------------------------------


LIVE, READY = "live", "ready"
NAMES = ("", LIVE, READY)
"""The health names that are not names of services."""

_NEED_THE_STORE = tuple(f"xlashape.v1.{name}Service" for name in ("Hlo", "Indexing", "Report", "View"))
_FOLLOW_THE_DIRECTORY = ("", READY, *_NEED_THE_STORE)
_LOG_SECONDS = 60.0  # seconds between log lines about one lasting fault whose text changes
_STORE_SECONDS = 1.0  # seconds between checks of the store
_HANGING_SECONDS = 5.0  # a check that takes longer counts as a fault: a network file system may not answer


def follow(store: Store, set_status: Callable[[str, int], None]) -> None:
    """Sets the status of the names that follow the store, in a thread, as long as this process runs, and logs faults of
    the store.
    """
    checks = (
        ("the store", store.check, _FOLLOW_THE_DIRECTORY),
        ("the bucket", store.check_shared, _NEED_THE_STORE),
    )
    # A file system that does not answer blocks the thread of its check.
    threads = ThreadPoolExecutor(len(checks), "check")
    under_way: dict[str, Future[str]] = {}

    def fault_of(subject: str, check: Callable[[], None]) -> str:
        future = under_way.pop(subject, None) or threads.submit(_fault, check)
        if wait((future,), _HANGING_SECONDS).done:
            return future.result()
        under_way[subject] = future
        return f"{subject} does not answer"

    def run() -> None:
        previous, logged = ["", ""], float("-inf")
        while True:
            faults = [fault_of(subject, check) for subject, check, _ in checks]
            if faults != previous:
                down = {name for (*_, names), fault in zip(checks, faults, strict=True) if fault for name in names}
                response = health_pb2.HealthCheckResponse
                for name in _FOLLOW_THE_DIRECTORY:
                    set_status(name, int(response.NOT_SERVING if name in down else response.SERVING))
            for (subject, *_), fault, before in zip(checks, faults, previous, strict=True):
                # The text of a bucket's fault may differ each time.
                if fault and (not before or (fault != before and time.monotonic() - logged >= _LOG_SECONDS)):
                    logged = time.monotonic()
                    _log.error("not ready: %s", fault)
                elif before and not fault:
                    _log.warning("ready again: %s takes modules", subject)
            previous = faults
            time.sleep(_STORE_SECONDS)

    threading.Thread(target=run, name="readiness", daemon=True).start()


def _fault(check: Callable[[], None]) -> str:
    """The fault that a check finds; empty without one."""
    try:
        check()
    except XlashapeError as error:
        return error.message
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return ""


# -- reflection --------------------------------------------------------------------------------


_V1 = "grpc.reflection.v1"


def _v1_pool() -> DescriptorPool:
    """A pool with the file of grpc.reflection.v1."""
    file = descriptor_pb2.FileDescriptorProto()
    reflection_pb2.DESCRIPTOR.CopyToProto(file)
    file.name = "grpc/reflection/v1/reflection.proto"
    file.package = _V1
    old, new = f".{reflection_pb2.DESCRIPTOR.package}.", f".{_V1}."
    for message in file.message_type:
        for field in (each for each in message.field if each.HasField("type_name")):
            field.type_name = field.type_name.replace(old, new)
    for service in file.service:
        for method in service.method:
            method.input_type = method.input_type.replace(old, new)
            method.output_type = method.output_type.replace(old, new)
    made = DescriptorPool()
    made.AddSerializedFile(file.SerializeToString())
    return made


class _AllPools:
    """Several pools as one, for the reflection servicer: a lookup takes the first pool that has what is asked for. The
    private pool comes first, since in the default pool another package may have other files of the same names.
    """

    def __init__(self) -> None:
        self._pools = (pool, _v1_pool(), descriptor_pool.Default())

    def __getattr__(self, name: str) -> Any:
        # FindFileByName, FindFileContainingSymbol, FindMessageTypeByName, FindExtensionByNumber, FindAllExtensions, …
        def find(*arguments: Any) -> Any:
            *first, last = (getattr(pool, name) for pool in self._pools)
            for each in first:
                with suppress(KeyError):
                    return each(*arguments)
            return last(*arguments)

        return find


def enable_reflection(server: grpc.Server, guard: Guard) -> None:
    """Registers server reflection with `server`. Its streams may stay open for any time, so they have threads of their
    own, and a maximum of calls in progress of their own.
    """
    versions = (f"{_V1}.ServerReflection", reflection.SERVICE_NAME)
    names = [*(service.full_name for service in services()), _SERVICE, *versions]
    servicer = reflection.ReflectionServicer(names, pool=cast("DescriptorPool", _AllPools()))
    answers = cast("Callable[[Iterator[Any], Any], Iterator[Any]]", servicer.ServerReflectionInfo)

    def converse(call: Call, requests: Iterator[bytes]) -> Iterator[bytes]:
        for answer in answers(map(_question, requests), None):
            call.check()
            yield answer.SerializeToString()

    threads = CallThreads(guard.conversations.maximum + _REFUSING_THREADS, "reflection")
    answer = GrpcCalls(guard, threads, guard.conversations).both_streams(_REFLECTION, converse)
    for version in versions:
        add_methods(server, version, {"ServerReflectionInfo": grpc.stream_stream_rpc_method_handler(answer)})


def _question(data: bytes) -> Any:
    try:
        return reflection_pb2.ServerReflectionRequest.FromString(data)
    except WireError as error:
        raise DecodeError(f"not a {reflection.SERVICE_NAME} request: {error}") from None
