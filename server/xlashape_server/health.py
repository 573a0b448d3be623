"""Serves grpc.health.v1.Health in threads and places of its own, so that it answers even when all other calls are
busy. Checks whose request does not come give up their thread; each caller may hold a share of the places for watches.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from functools import partial
from typing import Any

import grpc
from google.protobuf.message import DecodeError as WireError
from grpc_health.v1 import health_pb2

from xlashape.errors import DecodeError, NotFoundError
from xlashape_server.call_threads import CallThreads
from xlashape_server.callers import Places
from xlashape_server.calls import Call
from xlashape_server.grpc_calls import GrpcCalls, add_methods
from xlashape_server.guard import Guard

SERVICE = health_pb2.DESCRIPTOR.services_by_name["Health"].full_name
CALLS = ("Health/Check", "Health/Watch")
"""The names of health calls in logs, metrics and rules of access."""

_MAX_CHECKS = 16  # checks at the same time
_MAX_PENDING = 1 << 10  # checks that are answered or whose answer is sent
_PATIENCE_SECONDS = 0.01  # seconds within which it must come while all threads wait for one
_RECEIVE_SECONDS = 2.0  # seconds within which the request must come
_MESSAGE_BYTES = 4096  # the most bytes of a request, which has the name of a service
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
        threads = (
            CallThreads(_MAX_CHECKS, "health", _PATIENCE_SECONDS),
            CallThreads(_MAX_WATCHES + _REFUSING_THREADS, "health watch"),
        )
        guard.watch.also += [partial(each.end_waiting, _RECEIVE_SECONDS) for each in threads]
        checks, watches = (
            Places("health_checks", _MAX_PENDING, 1.0),
            Places("health_watches", _MAX_WATCHES, guard.share),
        )
        check = GrpcCalls(guard, threads[0]).unary(CALLS[0], self.check, _MESSAGE_BYTES, checks)
        watch = GrpcCalls(guard, threads[1]).server_stream(CALLS[1], self.watch, _MESSAGE_BYTES, watches, endless=True)
        methods: dict[str, grpc.RpcMethodHandler[Any, Any]] = {
            "Check": grpc.unary_unary_rpc_method_handler(check),
            "Watch": grpc.unary_stream_rpc_method_handler(watch),
        }
        add_methods(server, SERVICE, methods)


def _service(data: bytes) -> str:
    try:
        return health_pb2.HealthCheckRequest.FromString(data).service
    except WireError as error:
        raise DecodeError(f"not a {SERVICE} request: {error}") from None
