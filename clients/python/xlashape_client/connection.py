"""Functions that `Client` and `AsyncClient` share for their connections to servers.

- Channels, tokens, and the wait until the server is ready.
- Retries, and the distribution of calls over replicas: by gRPC's service config, or by `Servers`.
- The header `traceparent` of W3C Trace Context, which names the span of the caller's program to which a call belongs. A
  program that makes spans has loaded OpenTelemetry; in other programs nothing is sent, and OpenTelemetry is not loaded.
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

from xlashape.base.version import __version__
from xlashape.errors import InvalidArgumentError, UnavailableError
from xlashape.proto import services

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
    """gRPC's service config in JSON: a call is tried `attempts` times while the server is unavailable, and replicas
    answer in turn.

    Calls with a stream, and calls of an RPC without an `idempotency_level`, are tried once: a second deletion would
    report that the module is missing. With a retry policy for streams, one of a thousand calls whose server was killed
    never ended in gRPC 1.85, not even at its deadline.

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
    """The headers for the current span of OpenTelemetry, from the propagators that the program uses. None without a
    span.

    >>> trace_headers()
    ()
    """
    if "opentelemetry.trace" not in sys.modules:
        return ()
    from opentelemetry import propagate  # the client does not depend on it: the program has loaded it

    carrier: dict[str, str] = {}
    propagate.inject(carrier)
    return tuple((name.lower(), value) for name, value in carrier.items())


# -- connections -------------------------------------------------------------------------------


# The largest number of attempts that gRPC allows.
_MAX_ATTEMPTS = 5
# The pause between two checks whether the server is ready.
_PAUSE_SECONDS = 0.05
_HEALTH = "/grpc.health.v1.Health/Check"
# The pause between two checks whether a server is connected.
_CONNECTING_SECONDS = 0.002
# A serialized HealthCheckResponse with 1, SERVING, in field 1.
_SERVING = b"\x08\x01"


def addresses_of(address: str | Sequence[str]) -> tuple[str, ...]:
    """The address, or the addresses, as a tuple. InvalidArgumentError if there is none."""
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
    root_certificates: bytes | None, private_key: bytes | None, certificate_chain: bytes | None, server_name: str | None
) -> grpc.ChannelCredentials | None:
    """The credentials of a channel; None for a channel without TLS. Empty `root_certificates` stand for the system's.

    InvalidArgumentError for an argument that only a connection with TLS uses, if `root_certificates` is missing: a
    token would go in plain text.
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
    """Functions that call the RPCs on a channel of grpc or grpc.aio, by the name of the RPC. "Check" is the health
    check.

    The functions take and return bytes: the client's methods make the messages, and bulk numbers never become Python
    objects.
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
    """The metadata of a call: its bearer token if there is one, and the headers for the current span of the program."""
    headers = trace_headers()
    if token is None:
        return headers or None
    return (("authorization", f"Bearer {token}"), *headers)


def timeout_of(request: object, timeout: float | None, usual: float, of_streams: float | None) -> float | None:
    """The seconds that a call may take: `timeout` if given, else `usual`, or `of_streams` for a stream of requests."""
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
        """The functions that call the RPCs of a server. The connected servers take turns. While no server is connected,
        this waits until `seconds` have passed or all connections have failed, and then returns the functions of the
        next server, whose error says why.
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
        """The answer of a call. With a single server, gRPC repeats a failed call, as the service config says. With
        several servers, this method repeats it.
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
                failed: Any = error  # grpc and grpc.aio have no common base class with the method `code`
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

    `check` calls the health service with a timeout of at most `longest` seconds. `pause` waits for its number of
    seconds.
    """
    end = time.monotonic() + seconds
    while True:
        cause: Exception | None = None
        try:
            if await check(min(end - time.monotonic(), longest)) == _SERVING:
                return
        except grpc.RpcError as error:
            cause = error  # the connection may break during the call; the next call opens it again
        if time.monotonic() + _PAUSE_SECONDS > end:
            raise UnavailableError(f"{address} does not serve") from cause
        await pause(_PAUSE_SECONDS)
