"""Connections: channels, their service config, and the context of traces.

gRPC's service config for clients: retries, and the distribution of calls over replicas.

The trace of the caller: a call tells the server which span of the program it belongs to, by the W3C's header
traceparent.

A program that makes spans has loaded OpenTelemetry. In any other there is nothing to tell, and nothing is loaded for
it.

What connections to a server have in common, whether their calls block or are awaited: channels, tokens, and the wait
until the server is ready.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any

import grpc

from xlashape.errors import InvalidArgumentError, UnavailableError
from xlashape.proto import services

_POLICY = {
    "initialBackoff": "0.1s",
    "maxBackoff": "2s",
    "backoffMultiplier": 2,
    "retryableStatusCodes": ["UNAVAILABLE"],
}
_TRIED_ONCE = ("DeleteModule",)  # a second attempt could report that the module is missing


def service_config(attempts: int) -> str:
    """The config in JSON: each call with one answer is tried so often while the server is unavailable, and replicas
    answer in turn.

    Calls that are answered by a stream are tried once. With a policy for these, calls whose server was killed never
    ended in gRPC 1.85, not at their deadlines either: one of a thousand.

    >>> service_config(1)
    '{"loadBalancingConfig": [{"round_robin": {}}]}'
    """
    config: dict[str, Any] = {"loadBalancingConfig": [{"round_robin": {}}]}
    if attempts > 1:
        names = [
            {"service": service.full_name, "method": method.name}
            for service in services()
            for method in service.methods
            if method.name not in _TRIED_ONCE and not method.server_streaming
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
_SERVING = b"\x08\x01"  # a HealthCheckResponse with 1, SERVING, in field 1


def channel_options(attempts: int, server_name: str | None = None) -> list[tuple[str, Any]]:
    """The options of a channel. InvalidArgumentError for a number of attempts that gRPC does not allow."""
    if not 1 <= attempts <= _MAX_ATTEMPTS:
        raise InvalidArgumentError(
            f"attempts: expected a number from 1 to {_MAX_ATTEMPTS}, found {attempts}", field="attempts"
        )
    options: list[tuple[str, Any]] = [
        ("grpc.max_receive_message_length", -1),
        ("grpc.max_send_message_length", -1),
        ("grpc.service_config", service_config(attempts)),
    ]
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


def closed(address: str) -> UnavailableError:
    """The error of a call after its client was closed."""
    return UnavailableError(f"the client of {address} is closed")


async def until_ready(
    address: str, seconds: float, check: Callable[[float], Awaitable[bytes]], pause: Callable[[float], Awaitable[None]]
) -> None:
    """Returns once the server reports that it serves calls. UnavailableError if it does not within `seconds`.

    `check` calls the service of health checks with a timeout, `pause` waits so many seconds.
    """
    end = time.monotonic() + seconds
    while True:
        cause: Exception | None = None
        try:
            if await check(end - time.monotonic()) == _SERVING:
                return
        except grpc.RpcError as error:
            cause = error  # the connection may break during the call; the next call makes another
        if time.monotonic() + _PAUSE_SECONDS > end:
            raise UnavailableError(f"{address} does not serve") from cause
        await pause(_PAUSE_SECONDS)
