"""The server from the shell: `serve`, and `demo`, which starts a server and asks it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from importlib import resources
from typing import TYPE_CHECKING, Any, TypeVar

import click

from xlashape.cli.connection import connected
from xlashape.cli.output import share_text
from xlashape.extras import is_installed
from xlashape.math import byte_text

if TYPE_CHECKING:
    from xlashape_client.methods import ServiceMethods

__all__ = ["demo", "serve"]

F = TypeVar("F", bound=Callable[..., Any])


def _settings(command: F) -> F:
    """Adds an option for each setting of the server, with its default and its meaning."""
    from xlashape_server.config import Config

    for setting in reversed(dataclasses.fields(Config)):
        name = "--" + setting.name.replace("_", "-")
        text = setting.metadata["help"]
        if isinstance(setting.default, bool):
            option = click.option(f"{name}/--no-{name[2:]}", default=setting.default, show_default=True, help=text)
        else:
            shown = setting.default if setting.default != "" else None
            option = click.option(
                name, type=type(setting.default), default=setting.default, show_default=shown is not None, help=text
            )
        command = option(command)
    return command


@click.command(short_help="Serve over gRPC.")
@_settings
def serve(**settings: Any) -> None:
    """Serves over gRPC until it is interrupted. Calls in flight are finished first."""
    from xlashape_server import Config, serve

    raise SystemExit(serve(Config(**settings)))


@click.command(short_help="Ask a server about a shape, a module and fusions.")
def demo() -> None:
    """Starts a server on a free loopback port, asks it about a shape, a module and fusions, prints the answers, and stops the server.

    Where gRPC is not installed, this process answers the same questions.
    """
    if is_installed("server"):
        from xlashape_server import Config, Server

        with (
            Server(Config(address="127.0.0.1:0", workers=1, log_level="warning")) as server,
            connected(server.address, _DEMO_SECONDS) as service,
        ):
            click.echo(f"A server answers at {server.address}.\n")
            _ask(service)
        click.echo("\nThe server has stopped.")
    else:
        click.echo(
            "The server's packages are not installed, so this process answers itself; pip install 'xlashape[server]' installs them.\n"
        )
        with connected(None, _DEMO_SECONDS) as service:
            _ask(service)


def _ask(service: ServiceMethods) -> None:
    """Asks the questions of the demo and prints the answers."""
    click.echo("1. Where in memory is this element?")
    shape = "bf16[20,300]{1,0:T(8,128)(2,1)}"
    for index in ((0, 0), (1, 0), (0, 1), (19, 299)):
        click.echo(f"   {shape} at {index}: element {service.linear_index(shape, index)} of its buffer")

    click.echo("\n2. How big is this buffer really?")
    size = service.byte_size(shape)
    click.echo(
        f"   {shape}: {byte_text(size.logical_bytes)} of elements, {byte_text(size.physical_bytes)} in memory, "
        f"{share_text(size.padding_bytes, size.physical_bytes)} padding"
    )
    module = service.upload_module(resources.files("xlashape.data").joinpath(_MODULE).read_bytes())
    totals = service.byte_totals(module, computation=module.entry_computation)
    click.echo(f"   {module.module_name}, uploaded as {module.name[:20]}…: {module.instruction_count} instructions;")
    click.echo(
        f"   the {totals.instruction_count} arrays of its entry computation take {byte_text(totals.physical_bytes)}"
    )

    click.echo("\n3. What do these fusions read?")
    for fusion in _FUSIONS:
        for maps in service.indexing_maps(module, fusion):
            click.echo(f"   {maps.instruction}, for each element of its output:")
            for tensor in maps.maps:
                for access in tensor.accesses:
                    click.echo(f"     of {tensor.operand_name}: {access.text}")


_DEMO_SECONDS = 60.0  # that one answer may take
_MODULE = "attention.hlo.pb"
_FUSIONS = (
    "transpose_copy_fusion",
    "convert_convert_fusion",
)  # one head's share of a packed projection; the softmax's division
