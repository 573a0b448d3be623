"""The connection of a command: to a server, or to the service in this process. The options that all queries share."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import click

from xlashape.errors import InvalidArgumentError

if TYPE_CHECKING:
    from xlashape_client.methods import ServiceMethods

__all__ = ["answer_options", "connected", "query_options"]

F = TypeVar("F", bound=Callable[..., Any])


def query_options(command: F) -> F:
    """Adds --server, --timeout and --json to a command, which takes them as `server`, `timeout` and `as_json`."""
    return _options(
        command,
        "The server to ask, with the bearer token in the variable XLASHAPE_TOKEN if it is set. Without this option, this process answers.",
    )


def answer_options(command: F) -> F:
    """The same options for a command that this process answers in any case: a server only gives it modules."""
    return _options(
        command,
        "The server that keeps the module where FILE is modules/…, with the bearer token in the variable XLASHAPE_TOKEN if it is set. This process answers.",
    )


def _options(command: F, server_help: str) -> F:
    options = (
        click.option("--json", "as_json", is_flag=True, help="Print one JSON document instead of text for people."),
        click.option(
            "--timeout", type=click.FloatRange(min=0, min_open=True), default=60.0, show_default=True, metavar="SECONDS",
            help="The most time that the answer may take.",
        ),
        click.option("--server", metavar="HOST:PORT", help=server_help),
    )  # fmt: skip
    for option in options:
        command = option(command)
    return command


@contextmanager
def connected(server: str | None, timeout: float) -> Generator[ServiceMethods, None, None]:
    """The service: a client of `server`, or the handlers in this process. Both give the same answers. The variable XLASHAPE_TOKEN is the client's bearer token."""
    if server is None:
        from xlashape.cli.local import Local

        yield Local(timeout)
    elif not server.strip():
        raise InvalidArgumentError("--server: expected HOST:PORT, found nothing", field="server")
    else:
        # The exception says what goes wrong; grpc's own log would repeat it on standard error.
        os.environ.setdefault("GRPC_VERBOSITY", "NONE")
        from xlashape_client import Client

        with Client(server, timeout=timeout, token=os.environ.get("XLASHAPE_TOKEN") or None) as client:
            yield client
