"""`health`: whether a server answers calls, for containers, scripts and people."""

from __future__ import annotations

import os
import time
from typing import Any

import click

from xlashape.base.extras import require
from xlashape.cli.connection import Certificates, tls_options
from xlashape.cli.output import echo, print_json
from xlashape.errors import DeadlineExceededError, InvalidArgumentError

_SERVICE = "ready"
_SECONDS = 4.0
# Host that a server listens on, if it listens on all of them → the host at which it is asked.
_ANY_HOST = {"0.0.0.0": "127.0.0.1", "[::]": "[::1]"}
# HealthCheckResponse.ServingStatus → its name. SERVICE_UNKNOWN is of Watch alone.
_STATES = {1: "SERVING", 2: "NOT_SERVING"}
_MAX_NAME_BYTES = 127


@click.command()
@click.option(
    "--server",
    metavar="HOST:PORT",
    help="The server to ask, HOST:PORT or unix:PATH. Default: the one that `xlashape serve` would be here, by the "
    "variables XLASHAPE_CONFIG and XLASHAPE_ADDRESS.",
)
@click.option(
    "--service",
    metavar="NAME",
    default=_SERVICE,
    show_default=True,
    help="live: the process answers; ready: all calls are answered; or a service such as xlashape.v1.ShapeService.",
)
@tls_options
@click.option(
    "--timeout",
    type=click.FloatRange(min=0, min_open=True),
    default=_SECONDS,
    show_default=True,
    metavar="SECONDS",
    help="The most time that the answer may take.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document instead of text for people.")
def health(
    server: str | None,
    service: str,
    certificates: Certificates,
    timeout: float,
    as_json: bool,
) -> int:
    """Whether a server answers calls, as grpc.health.v1 says. Exit code 0 if it does, and 1 if it does not or cannot be
    asked.

    Without --server it asks the server of this container or machine, which makes it the HEALTHCHECK of an image. Where
    its settings have tls_certificate, that is what the server's certificate is checked against, unless --ca names
    another. The variables for TLS are about other servers, and not looked at.
    """
    require("server", "asking a server")
    if server is None:
        address, own_certificate = _own_server()
        certificates = certificates.without_variables()
        if certificates.ca is None and own_certificate is not None:
            certificates = certificates._replace(ca=own_certificate)
    else:
        address = server.strip()
        if not address:
            raise InvalidArgumentError("--server: expected HOST:PORT, found nothing", field="server")
    if len(service.encode()) > _MAX_NAME_BYTES:
        raise InvalidArgumentError(
            f"--service: a name has at most {_MAX_NAME_BYTES} bytes, found {len(service.encode())}", field="service"
        )
    options: list[tuple[str, Any]] = []
    if server is None:
        options.append(("grpc.enable_http_proxy", 0))  # nothing stands between this machine and its own server
    if certificates.server_name:
        options.append(("grpc.ssl_target_name_override", certificates.server_name))
    files = certificates.read()
    began = time.monotonic()
    status = _status(address, service, options, files, timeout)
    seconds = time.monotonic() - began
    if as_json:
        milliseconds = round(seconds * 1e3, 3)
        print_json("health.v1", {"server": address, "service": service, "status": status, "milliseconds": milliseconds})
    else:
        echo(f"{address} {service or 'the server'}: {status}")
    return 0 if status == "SERVING" else 1


def _own_server() -> tuple[str, str | None]:
    """The address of the server that the settings of this environment describe, and the file of its certificate if it
    has one.
    """
    # Deferred: other commands need no settings of a server.
    from xlashape_server.config import settings_of

    config = settings_of(os.environ.get("XLASHAPE_CONFIG"), os.environ, {})
    host, colon, port = config.address.rpartition(":")
    if not config.unix_path and not int(port):
        raise InvalidArgumentError(
            f"the settings have the address {config.address}, whose port is chosen at the start; --server says which "
            "server to ask",
            field="server",
        )
    return f"{_ANY_HOST.get(host, host)}{colon}{port}", config.tls_certificate or None


def _status(
    address: str, service: str, options: list[tuple[str, Any]], files: tuple[bytes | None, ...], timeout: float
) -> str:
    """The status of the service on the server: a name of HealthCheckResponse.ServingStatus. Raises errors of the
    library if the server cannot be asked.
    """
    # The exception describes the error; grpc's own log would repeat it on standard error.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    # Deferred, as everywhere on the command line: gRPC takes longer to load than most commands to answer.
    import grpc
    from grpc_health.v1 import health_pb2, health_pb2_grpc

    from xlashape_client.status import exception_of

    ca, key, certificate = files
    if ca is None:
        channel = grpc.insecure_channel(address, options)
    else:
        channel = grpc.secure_channel(address, grpc.ssl_channel_credentials(ca, key, certificate), options)
    with channel:
        try:
            request = health_pb2.HealthCheckRequest(service=service)
            stub: Any = health_pb2_grpc.HealthStub(channel)
            answer = stub.Check(request, timeout=timeout)
        except grpc.RpcError as error:
            if isinstance(error, grpc.Call) and error.code() is grpc.StatusCode.DEADLINE_EXCEEDED:
                raise DeadlineExceededError(f"{address}: no answer within {timeout:g} seconds") from error
            raise exception_of(error, address) from error
    return _STATES.get(answer.status, "UNKNOWN")
