"""The connection of a command to a server, and the options that all queries share."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import click

from xlashape.errors import InvalidArgumentError

if TYPE_CHECKING:
    from xlashape_client import Client

F = TypeVar("F", bound=Callable[..., Any])

_TOKEN = "with the bearer token in the variable XLASHAPE_TOKEN if it is set"


class Certificates(NamedTuple):
    """The files in PEM that the options of TLS name, and the name in the server's certificate. Without `ca` the
    connection has no TLS.
    """

    ca: str | None = None
    key: str | None = None
    certificate: str | None = None
    server_name: str | None = None

    def read(self) -> tuple[bytes | None, bytes | None, bytes | None]:
        """The contents of `ca`, `key` and `certificate`. OSError for one that cannot be read; UsageError if one is
        missing that another needs.
        """
        if bool(self.certificate) != bool(self.key):
            raise click.UsageError("--certificate and --key belong together")
        if self.ca is None:
            # A token must not be sent in plain text to a server whose certificate somebody wanted to be checked.
            for name in ("certificate", "server_name"):
                if getattr(self, name) is not None:
                    raise click.UsageError(f"{_option(name)} needs --ca, which turns TLS on")
            return None, None, None
        if not self.ca:
            raise click.UsageError("--ca: expected a file, found nothing")
        ca, key, certificate = (Path(name).read_bytes() if name else None for name in self[:3])
        if ca is None or b"-----BEGIN" not in ca:
            raise InvalidArgumentError(f"--ca: {self.ca} has no certificate in PEM", field="ca")
        return ca, key, certificate


class ServerAddress(NamedTuple):
    """The server that a command asks: HOST:PORT or unix:PATH, and the files for TLS."""

    address: str
    certificates: Certificates = Certificates()


def query_options(command: F) -> F:
    """Adds --server, --timeout, --json and the options of TLS to a command, which takes them as `server` (a
    ServerAddress or None), `timeout` and `as_json`.
    """
    return _options(command, f"The server to ask, {_TOKEN}. Without this option, this process answers.")


def answer_options(command: F) -> F:
    """Adds the options of `query_options` to a command that this process always answers itself. The server of --server
    only gives it the module of a name `modules/…`.
    """
    return _options(
        command, f"The server that keeps the module where FILE is modules/…, {_TOKEN}. This process answers."
    )


def tls_options(command: F) -> F:
    """Adds --ca, --server-name, --certificate and --key to a command, which takes them as `certificates`."""

    @functools.wraps(command)
    def collected(
        *arguments: Any,
        ca: str | None,
        key: str | None,
        certificate: str | None,
        server_name: str | None,
        **others: Any,
    ) -> Any:
        return command(*arguments, certificates=Certificates(ca, key, certificate, server_name), **others)

    options = (
        click.option(
            "--key", metavar="FILE", envvar="XLASHAPE_CLIENT_KEY", show_envvar=True,
            help="The private key of --certificate, in PEM.",
        ),
        click.option(
            "--certificate", metavar="FILE", envvar="XLASHAPE_CLIENT_CERTIFICATE", show_envvar=True,
            help="The certificate in PEM that the server asks for.",
        ),
        click.option(
            "--server-name", metavar="NAME", envvar="XLASHAPE_SERVER_NAME", show_envvar=True,
            help="The name in the server's certificate, if not that of the address.",
        ),
        click.option(
            "--ca", metavar="FILE", envvar="XLASHAPE_CA", show_envvar=True,
            help="Certificates in PEM that the server's is checked against; turns TLS on.",
        ),
    )  # fmt: skip
    made: Any = collected
    for option in options:
        made = option(made)
    return made


def _options(command: F, server_help: str) -> F:
    @functools.wraps(command)
    def targeted(*arguments: Any, server: str | None, certificates: Certificates, **others: Any) -> Any:
        if server is None:
            _refuse_unused()
            return command(*arguments, server=None, **others)
        return command(*arguments, server=ServerAddress(server, certificates), **others)

    options = (
        click.option("--json", "as_json", is_flag=True, help="Print one JSON document instead of text for people."),
        click.option(
            "--timeout", type=click.FloatRange(min=0, min_open=True), default=60.0, show_default=True,
            metavar="SECONDS", help="The most time that the answer may take.",
        ),
        tls_options,
        click.option("--server", metavar="HOST:PORT", help=server_help),
    )  # fmt: skip
    made: Any = targeted
    for option in options:
        made = option(made)
    return made


def _refuse_unused() -> None:
    """UsageError for an option of TLS that was given without --server. Variables may be set for other commands."""
    context = click.get_current_context()
    for name in Certificates._fields:
        if context.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE:
            raise click.UsageError(f"{_option(name)} needs --server")


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"


@contextmanager
def connected(server: ServerAddress, timeout: float) -> Generator[Client, None, None]:
    """A client of `server`. `timeout` is in seconds. The variable XLASHAPE_TOKEN is the client's bearer token."""
    address, certificates = server
    if not address.strip():
        raise InvalidArgumentError("--server: expected HOST:PORT, found nothing", field="server")
    ca, key, certificate = certificates.read()
    # The exception describes the error; grpc's own log would repeat it on standard error.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    from xlashape_client import Client

    with Client(
        address,
        timeout=timeout,
        token=os.environ.get("XLASHAPE_TOKEN") or None,
        root_certificates=ca,
        private_key=key,
        certificate_chain=certificate,
        server_name=certificates.server_name,
    ) as client:
        yield client
