"""What connections to a server have in common, whether their calls block or are awaited.

- Channels, tokens, and the wait until the server is ready.
- Retries, and the distribution of calls over replicas, by gRPC's service config.
- The span of the caller's program that a call belongs to, in the header `traceparent` of W3C Trace Context. A program
  that makes spans has loaded OpenTelemetry; in any other nothing is sent, and nothing is loaded for it.
"""

from __future__ import annotations

import itertools
import json
import random
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

import grpc

from xlashape.errors import InvalidArgumentError, UnavailableError
from xlashape.proto import services
from xlashape.version import __version__

T = TypeVar("T")

_POLICY = {
    "initialBackoff": "0.1s",
    "maxBackoff": "2s",
    "backoffMultiplier": 2,
    "retryableStatusCodes": ["UNAVAILABLE"],
}


def retried() -> frozenset[str]:
    """The RPCs that are sent again while the server is unavailable: those with an `idempotency_level`, without a
    stream.
    """
    return frozenset(
        method.name
        for service in services()
        for method in service.methods
        if method.GetOptions().idempotency_level and not (method.client_streaming or method.server_streaming)
    )


def service_config(attempts: int) -> str:
    """The config in JSON: calls are tried so often while the server is unavailable, and replicas answer in turn.

    Calls with a stream, and those without an `idempotency_level`, are tried once: a second deletion would report that
    the module is missing. With a policy for streams, calls whose server was killed never ended in gRPC 1.85, not at
    their deadlines either: one of a thousand.

    >>> service_config(1)
    '{"loadBalancingConfig": [{"round_robin": {}}]}'
    """
    config: dict[str, Any] = {"loadBalancingConfig": [{"round_robin": {}}]}
    if attempts > 1:
        again = retried()
        names = [
            {"service": service.full_name, "method": method.name}
            for service in services()
            for method in service.methods
            if method.name in again
        ]
        config["methodConfig"] = [{"name": names, "retryPolicy": {"maxAttempts": attempts, **_POLICY}}]
    return json.dumps(config)


# -- traces ------------------------------------------------------------------------------------


def trace_headers() -> tuple[tuple[str, str], ...]:
    """The headers of the current span of OpenTelemetry, by the propagators that the program uses; none without a span.

    >>> trace_headers()
    ()
    """
    if "opentelemetry.trace" not in sys.modules:
        return ()
    from opentelemetry import propagate  # not a package of the client: the program has loaded it

    carrier: dict[str, str] = {}
    propagate.inject(carrier)
    return tuple((name.lower(), value) for name, value in carrier.items())


# -- connections -------------------------------------------------------------------------------


_MAX_ATTEMPTS = 5  # gRPC's own bound
_PAUSE_SECONDS = 0.05  # between two questions whether the server is ready
_HEALTH = "/grpc.health.v1.Health/Check"
_CONNECTING_SECONDS = 0.002  # between two questions whether a server is connected
_SERVING = b"\x08\x01"  # a HealthCheckResponse with 1, SERVING, in field 1


def addresses_of(address: str | Sequence[str]) -> tuple[str, ...]:
    """One address, or several. InvalidArgumentError for none."""
    addresses = (address,) if isinstance(address, str) else tuple(address)
    if not addresses:
        raise InvalidArgumentError("address: expected an address, found an empty list", field="address")
    return addresses


def channel_options(
    attempts: int, server_name: str | None = None, keepalive: float | None = None, servers: int = 1
) -> list[tuple[str, Any]]:
    """The options of a channel. InvalidArgumentError for a number of attempts that gRPC does not allow."""
    if not 1 <= attempts <= _MAX_ATTEMPTS:
        raise InvalidArgumentError(
            f"attempts: expected a number from 1 to {_MAX_ATTEMPTS}, found {attempts}", field="attempts"
        )
    options: list[tuple[str, Any]] = [
        ("grpc.max_receive_message_length", -1),
        ("grpc.max_send_message_length", -1),
        ("grpc.service_config", service_config(attempts if servers == 1 else 1)),  # see Servers.ask
        ("grpc.primary_user_agent", f"xlashape-python/{__version__}"),
    ]
    if keepalive is not None:
        options.append(("grpc.keepalive_time_ms", round(1000 * keepalive)))
    if server_name is not None:
        options.append(("grpc.ssl_target_name_override", server_name))
    return options


def channel_credentials(
    root_certificates: bytes | None,
    private_key: bytes | None,
    certificate_chain: bytes | None,
    server_name: str | None,
) -> grpc.ChannelCredentials | None:
    """The credentials of a channel; None for one without TLS. Empty `root_certificates` stand for the system's.

    InvalidArgumentError for what only a connection with TLS uses, without `root_certificates`: a token would go in
    plain text.
    """
    if root_certificates is None:
        given = {"private_key": private_key, "certificate_chain": certificate_chain, "server_name": server_name}
        for name, value in given.items():
            if value is not None:
                raise InvalidArgumentError(
                    f"{name} needs root_certificates, without which the connection has no TLS; b'' stands for the "
                    "system's",
                    field=name,
                )
        return None
    return grpc.ssl_channel_credentials(root_certificates or None, private_key, certificate_chain)


def calls_of(channel: Any) -> dict[str, Any]:
    """What calls each RPC on a channel of grpc or grpc.aio, by the name of the RPC, and health by the name "Check".

    Calls take and return bytes: the methods make the messages themselves, and bulk numbers never become Python objects.
    """
    calls: dict[str, Any] = {"Check": channel.unary_unary(_HEALTH)}
    for service in services():
        for method in service.methods:
            path = f"/{service.full_name}/{method.name}"
            if method.client_streaming and method.server_streaming:
                calls[method.name] = channel.stream_stream(path)
            elif method.client_streaming:
                calls[method.name] = channel.stream_unary(path)
            elif method.server_streaming:
                calls[method.name] = channel.unary_stream(path)
            else:
                calls[method.name] = channel.unary_unary(path)
    return calls


def metadata_of(token: str | None) -> tuple[tuple[str, str], ...] | None:
    """The metadata of a call: its bearer token if there is one, and the span of the program that it belongs to."""
    headers = trace_headers()
    if token is None:
        return headers or None
    return (("authorization", f"Bearer {token}"), *headers)


def timeout_of(request: object, timeout: float | None, usual: float, of_streams: float | None) -> float | None:
    """The seconds that a call may take: its own, or else those of the client for one request, or for a stream."""
    if timeout is not None:
        return timeout
    return usual if isinstance(request, bytes) else of_streams


def closed(address: str) -> UnavailableError:
    """The error of a call after its client was closed."""
    return UnavailableError(f"the client of {address} is closed")


class Servers:
    """The servers of a client, each over a channel of its own, so that TLS checks each certificate against the name of
    its server.
    """

    def __init__(
        self, calls: Sequence[dict[str, Any]], states: Callable[[], Sequence[grpc.ChannelConnectivity]], attempts: int
    ) -> None:
        self._calls = calls
        self._attempts = attempts
        self._retried = retried() if len(calls) > 1 else frozenset[str]()
        self._states = states
        self._turns = itertools.count()

    async def calls(self, seconds: float | None, pause: Callable[[float], Awaitable[None]]) -> dict[str, Any]:
        """What calls the RPCs of the next server in turn of those that are connected. While none is, it waits until
        `seconds` have passed, or until all have failed: then it is the next server, whose error says why.
        """
        if len(self._calls) == 1:
            return self._calls[0]
        turn = next(self._turns)
        end = None if seconds is None else time.monotonic() + seconds
        while True:
            states = self._states()
            ready = [i for i, state in enumerate(states) if state is grpc.ChannelConnectivity.READY]
            if ready:
                return self._calls[ready[turn % len(ready)]]
            has_failed = all(state is grpc.ChannelConnectivity.TRANSIENT_FAILURE for state in states)
            if has_failed or (end is not None and time.monotonic() > end):
                return self._calls[turn % len(states)]
            await pause(_CONNECTING_SECONDS)

    async def ask(
        self,
        method: str,
        seconds: float | None,
        call: Callable[[Any, float | None], Awaitable[T]],
        pause: Callable[[float], Awaitable[None]],
    ) -> T:
        """The answer of a call. To a single server gRPC sends it again, as the service config says; to several this
        does.
        """
        left = self._attempts if method in self._retried else 1
        end = None if seconds is None else time.monotonic() + seconds
        wait = 0.1
        while True:
            calls = await self.calls(seconds, pause)
            try:
                return await call(calls[method], None if end is None else end - time.monotonic())
            except grpc.RpcError as error:
                left -= 1
                failed: Any = error  # a class of each face, which have no base with `code`
                if left == 0 or failed.code() is not grpc.StatusCode.UNAVAILABLE:
                    raise
            await pause(wait * random.uniform(0.8, 1.2))
            wait *= 2


async def until_ready(
    address: str,
    seconds: float,
    check: Callable[[float], Awaitable[bytes]],
    pause: Callable[[float], Awaitable[None]],
    longest: float,
) -> None:
    """Returns once the server reports that it serves calls. UnavailableError if it does not within `seconds`.

    `check` calls the service of health checks with a timeout, at most `longest` seconds; `pause` waits so many seconds.
    """
    end = time.monotonic() + seconds
    while True:
        cause: Exception | None = None
        try:
            if await check(min(end - time.monotonic(), longest)) == _SERVING:
                return
        except grpc.RpcError as error:
            cause = error  # the connection may break during the call; the next call makes another
        if time.monotonic() + _PAUSE_SECONDS > end:
            raise UnavailableError(f"{address} does not serve") from cause
        await pause(_PAUSE_SECONDS)
