"""The services that gRPC itself defines: health, and reflection, which answers questions about the schema.

grpc.health.v1.Health has threads of its own, so that it answers even when all other calls are busy, and needs no
credentials. The names:

    live                              this process runs; SERVING until it begins to stop
    ready, ""                         calls can be answered; follows the directory of the store
    xlashape.v1.HloService, …         calls of this service can be answered; follows the directory of the store if the
                                      service reads modules

Kubernetes' gRPC probes ask for a name: use `live` for livenessProbe and `ready` for readinessProbe. A full disk makes a
server not ready, but does not restart its container.

Reflection looks descriptors up in the private pool of xlashape.proto, and in the default pool for health and reflection
themselves. It is grpc.reflection.v1alpha, which the package grpcio-reflection has; clients that ask for v1 first go on
with that.
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
from google.protobuf import descriptor_pool
from google.protobuf.message import DecodeError as WireError
from grpc_health.v1 import health_pb2
from grpc_health.v1.health import SERVICE_NAME, HealthServicer
from grpc_reflection.v1alpha import reflection, reflection_pb2

from xlashape.errors import DecodeError, XlashapeError
from xlashape.proto import pool, services
from xlashape_server.grpc_calls import CallThreads, GrpcCalls, Method, add_methods
from xlashape_server.guard import Call, Guard, content_of
from xlashape_server.store import Store

_log = logging.getLogger("xlashape_server.grpc_services")

_CHECKING_THREADS = 4
_MAX_WATCHES = 256  # watches at the same time, for each of which a thread sleeps; further ones wait
_REFUSING_THREADS = 4  # threads beyond those of reflection, to refuse further calls
_RECEIVE_SECONDS = 2.0  # seconds within which a request about health must come
_MESSAGE_BYTES = 4096  # the most bytes of such a request, which has the name of a service


class Health(HealthServicer):
    """The state of each service by its name; "" is the whole server. A name that was never set is unknown."""

    def __init__(self) -> None:
        super().__init__(experimental_non_blocking=False)

    def serves(self, service: str) -> bool:
        """Whether the state of a known service is SERVING."""
        return self.Check(health_pb2.HealthCheckRequest(service=service), cast("Any", None)).status == SERVING

    def enable(self, server: grpc.Server, guard: Guard) -> None:
        """Registers the service grpc.health.v1.Health with `server`."""
        written = health_pb2.HealthCheckResponse.SerializeToString

        def check(data: bytes, context: grpc.ServicerContext) -> Any:
            request = _request(data, context)
            answer = self.Check(request, context)
            if not answer.status:
                context.set_details(f"there is no service {request.service[:80]!r}")
            return answer

        def watch(data: bytes, context: grpc.ServicerContext) -> Any:
            return self.Watch(_request(data, context), context)

        for function, most in ((check, _CHECKING_THREADS), (watch, _MAX_WATCHES)):
            threads = CallThreads(most, "health")
            guard.also.append(partial(threads.end_waiting, _RECEIVE_SECONDS))
            answering: Any = function
            answering.experimental_thread_pool = threads
        methods: dict[str, Method] = {
            "Check": grpc.unary_unary_rpc_method_handler(check, response_serializer=written),
            "Watch": grpc.unary_stream_rpc_method_handler(watch, response_serializer=written),
        }
        add_methods(server, SERVICE_NAME, methods)


def _request(data: bytes, context: grpc.ServicerContext) -> Any:
    """A request about health, which may be compressed. Ends the call if it is none."""
    try:
        data = content_of(data, _MESSAGE_BYTES, lambda _: None)
        return health_pb2.HealthCheckRequest.FromString(data)
    except (WireError, XlashapeError) as error:
        return context.abort(grpc.StatusCode.INVALID_ARGUMENT, f"not a {SERVICE_NAME} request: {error}")


# -- readiness ---------------------------------------------------------------------------------


SERVING = health_pb2.HealthCheckResponse.SERVING
LIVE, READY = "live", "ready"
NAMES = ("", LIVE, READY)
"""The health names that are not names of services."""

_NEED_THE_STORE = tuple(f"xlashape.v1.{name}Service" for name in ("Hlo", "Indexing", "Report", "View"))
_FOLLOW_THE_STORE = ("", READY, *_NEED_THE_STORE)
_STORE_SECONDS = 1.0  # seconds between checks of the store
_HANGING_SECONDS = 5.0  # a check that takes longer counts as a fault: a network file system may not answer


def follow(store: Store, set_status: Callable[[str, int], None]) -> None:
    """Sets the status of the names that follow the store, in a thread, as long as this process runs, and logs faults of
    the store.
    """
    # A file system that does not answer blocks the thread of its check.
    threads = ThreadPoolExecutor(1, "check")

    def run() -> None:
        under_way: Future[str] | None = None
        previous = ""
        while True:
            check = under_way or threads.submit(_fault, store)
            under_way = None if wait((check,), _HANGING_SECONDS).done else check
            fault = "the store does not answer" if under_way else check.result()
            if fault != previous:
                for name in _FOLLOW_THE_STORE:
                    set_status(name, health_pb2.HealthCheckResponse.NOT_SERVING if fault else SERVING)
                if fault:
                    _log.error("not ready: %s", fault)
                else:
                    _log.warning("ready again: the store takes modules")
            previous = fault
            time.sleep(_STORE_SECONDS)

    threading.Thread(target=run, name="readiness", daemon=True).start()


def _fault(store: Store) -> str:
    """Why the store takes no modules; empty if it does."""
    try:
        store.check()
    except XlashapeError as error:
        return error.message
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return ""


# -- reflection --------------------------------------------------------------------------------


class _AllPools:
    """Two pools as one, for the reflection servicer: a lookup takes the first one that has what is asked for. The
    private pool comes first, since in the default pool another package may have other files of the same names.
    """

    def __init__(self) -> None:
        self._pools = (pool, descriptor_pool.Default())

    def __getattr__(self, name: str) -> Any:
        # FindFileByName, FindFileContainingSymbol, FindMessageTypeByName, FindExtensionByNumber, FindAllExtensions, …
        def find(*arguments: Any) -> Any:
            first, last = (getattr(pool, name) for pool in self._pools)
            with suppress(KeyError):
                return first(*arguments)
            return last(*arguments)

        return find


def enable_reflection(server: grpc.Server, guard: Guard) -> None:
    """Registers server reflection with `server`. Its streams may stay open for any time, so they have threads of their
    own, and a maximum of calls in progress of their own.
    """
    names = [*(service.full_name for service in services()), SERVICE_NAME, reflection.SERVICE_NAME]
    servicer = reflection.ReflectionServicer(names, pool=cast("Any", _AllPools()))
    answers = cast("Callable[[Iterator[Any], Any], Iterator[Any]]", servicer.ServerReflectionInfo)

    def converse(call: Call, requests: Iterator[bytes]) -> Iterator[bytes]:
        for answer in answers(map(_question, requests), None):
            call.check()
            yield answer.SerializeToString()

    threads = CallThreads(guard.conversations.maximum + _REFUSING_THREADS, "reflection")
    calls = GrpcCalls(guard, threads, guard.conversations)
    method = calls.both_streams("ServerReflection/ServerReflectionInfo", converse)
    add_methods(server, reflection.SERVICE_NAME, {"ServerReflectionInfo": method})


def _question(data: bytes) -> Any:
    try:
        return reflection_pb2.ServerReflectionRequest.FromString(data)
    except WireError as error:
        raise DecodeError(f"not a {reflection.SERVICE_NAME} request: {error}") from None
