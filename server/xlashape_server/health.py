"""Serves grpc.health.v1.Health in threads of its own, so that it answers even when all other calls are busy.

Health checks have places of their own, apart from those of other calls. A place is the right to have one call in
progress. A caller has two seconds to send its request. If there are too many checks, the oldest check of the caller
that has the most is ended. Watches have other places, of which each caller may hold a share.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
from google.protobuf.message import DecodeError as WireError
from grpc_health.v1 import health_pb2

from xlashape.errors import DecodeError, NotFoundError
from xlashape_server.callers import Newest, Places, Shares
from xlashape_server.grpc_calls import GrpcCalls
from xlashape_server.guard import Guard
from xlashape_server.services import add_methods

SERVICE = health_pb2.DESCRIPTOR.services_by_name["Health"].full_name
CALLS = ("Health/Check", "Health/Watch")
"""The names of health calls in logs, metrics and rules of access."""

_MAX_CHECKS = 32  # checks at the same time
_PLACES_PER_CHECK = 8
_MAX_WATCHES = 256  # watches at the same time; for each a thread sleeps
_REFUSING_THREADS = 4  # threads beyond those of watches, to refuse further watches
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

    def check(self, data: bytes) -> bytes:
        """The RPC Check: the state of a service. NotFoundError for a service that is not known."""
        service = _service(data)
        status = self._states.get(service)
        if status is None:
            raise NotFoundError(f"there is no service {service[:80]!r}", kind="service", name=service)
        return health_pb2.HealthCheckResponse(status=status).SerializeToString()

    def watch(self, data: bytes, check: Callable[[], None]) -> Iterator[bytes]:
        """The RPC Watch: the state of a service now, and each new state. `check` raises once the caller has gone."""
        service = _service(data)
        sent = None
        while True:
            with self._changed:
                version = self._version
                status = self._states.get(service, health_pb2.HealthCheckResponse.SERVICE_UNKNOWN)
            if status != sent:
                sent = status
                yield health_pb2.HealthCheckResponse(status=status).SerializeToString()
            check()
            with self._changed:
                if self._version == version:
                    self._changed.wait(_CHECK_SECONDS)

    def enable(self, server: grpc.Server, guard: Guard) -> None:
        """Registers the service grpc.health.v1.Health with `server`."""
        calls = GrpcCalls(guard)
        # There are more places than checks, since a check that was ended frees its place only a moment later.
        checks = Places("health_checks", _PLACES_PER_CHECK * _MAX_CHECKS, Shares(1.0, 1.0))
        watches = Places("health_watches", _MAX_WATCHES, guard.shares)
        check: Any = calls.apart(CALLS[0], self.check, checks, Newest("health_checks", _MAX_CHECKS))
        watch: Any = calls.watch(CALLS[1], self.watch, watches)
        check.experimental_thread_pool = ThreadPoolExecutor(2 * _MAX_CHECKS, "health")
        watch.experimental_thread_pool = ThreadPoolExecutor(_MAX_WATCHES + _REFUSING_THREADS, "health watch")
        methods: dict[str, grpc.RpcMethodHandler[Any, Any]] = {
            "Check": grpc.stream_unary_rpc_method_handler(check),
            "Watch": grpc.stream_stream_rpc_method_handler(watch),
        }
        add_methods(server, SERVICE, methods)


def _service(data: bytes) -> str:
    try:
        return health_pb2.HealthCheckRequest.FromString(data).service
    except WireError as error:
        raise DecodeError(f"not a {SERVICE} request: {error}") from None
