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
_MAX_NAME_BYTES = 127


@click.command()
@click.option(
    "--server",
    metavar="HOST:PORT",
    default="127.0.0.1:50051",
    show_default=True,
    envvar="XLASHAPE_ADDRESS",
    help="The server to ask, HOST:PORT or unix:PATH; also by the variable XLASHAPE_ADDRESS, which the image sets.",
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
    server: str,
    service: str,
    certificates: Certificates,
    timeout: float,
    as_json: bool,
) -> int:
    """Whether a server answers calls, as grpc.health.v1 says. Exit code 0 if it does, and 1 if it does not or cannot be
    asked.

    Without --server it asks the server of this container or machine, which makes it the HEALTHCHECK of an image. With
    TLS it needs --ca, and perhaps --server-name.
    """
    require("server", "asking a server")
    address = server.strip()
    if not address:
        raise InvalidArgumentError("--server: expected HOST:PORT, found nothing", field="server")
    if len(service.encode()) > _MAX_NAME_BYTES:
        raise InvalidArgumentError(
            f"--service: a name has at most {_MAX_NAME_BYTES} bytes, found {len(service.encode())}", field="service"
        )
    options: list[tuple[str, Any]] = [("grpc.enable_http_proxy", 0)]
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
    return health_pb2.HealthCheckResponse.ServingStatus.Name(answer.status)
