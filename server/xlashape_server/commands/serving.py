"""The commands `serve`, a gRPC server, and `demo`, which starts one and asks it."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from importlib import resources
from typing import TYPE_CHECKING, Any, TypeVar

import click

from xlashape.base.extras import is_installed, require
from xlashape.base.math import byte_text
from xlashape.cli.connection import ServerAddress, connected
from xlashape.cli.output import share_text
from xlashape.errors import XlashapeError

if TYPE_CHECKING:
    from xlashape_client.methods import ServiceMethods
    from xlashape_server import Config

F = TypeVar("F", bound=Callable[..., Any])


def _settings(command: F) -> F:
    """Adds an option for each setting of the server, with its default and its meaning. An option that is not given is
    None.
    """
    from xlashape_server.config import FIELDS

    for setting in reversed(FIELDS.values()):
        name = "--" + setting.name.replace("_", "-")
        text = setting.metadata["help"]
        if isinstance(setting.default, bool):
            shown = name[2:] if setting.default else f"no-{name[2:]}"
            option = click.option(f"{name}/--no-{name[2:]}", default=None, help=f"{text} [default: {shown}]")
        else:
            shown = f" [default: {setting.default}]" if setting.default != "" else ""
            kind = "TEXT" if isinstance(setting.default, str) else "NUMBER"
            option = click.option(name, default=None, metavar=kind, help=text + shown)
        command = option(command)
    return command


@click.command()
@click.option(
    "--config",
    "file",
    metavar="FILE",
    envvar="XLASHAPE_CONFIG",
    help="Settings in TOML, by the names of the options with underscores.",
)
@click.option(
    "--check",
    "checks",
    is_flag=True,
    help="Check the settings, the certificates, the tokens and the store, and exit.",
)
@_settings
def serve(file: str | None, checks: bool, **options: Any) -> None:
    """Serves over gRPC until it is interrupted. Calls in flight are finished first.

    Settings come from the file, then from variables such as XLASHAPE_STORE_BYTES, then from the options; the last one
    counts. Bytes and seconds may have units: 64MiB, 24h. SIGHUP has them read again: the log level counts at once.
    """
    from xlashape_server import serve as run
    from xlashape_server.app import check
    from xlashape_server.config import settings_of
    from xlashape_server.process import configure

    def read() -> Config:
        return settings_of(file, os.environ, options)

    require("server", "a server")
    # From here on the log is JSON: readers of it would not understand other lines.
    configure("info", pid=os.getpid())
    log = logging.getLogger("xlashape_server")
    try:
        config = read()
        if checks:
            check(config)
            log.info("a server can start with these settings")
            return
        code = run(config, read_again=read)
    except XlashapeError as error:
        log.error("cannot start: %s", error.message, extra={"facts": {"code": error.code, "field": error.field}})
        code = 1
    raise SystemExit(code)


@click.command()
def demo() -> None:
    """Starts a server on a free loopback port, asks it about a shape, a module and fusions, prints the answers, and
    stops the server.

    Where gRPC is not installed, this process answers the same questions.
    """
    if is_installed("server"):
        from xlashape_server import Config, Server

        with (
            Server(Config(address="127.0.0.1:0", workers=1, log_level="warning")) as server,
            connected(ServerAddress(server.address), _DEMO_SECONDS) as service,
        ):
            click.echo(f"A server answers at {server.address}.\n")
            _ask(service)
        click.echo("\nThe server has stopped.")
    else:
        click.echo(
            "The server's packages are not installed, so this process answers itself; pip install 'xlashape[server]' "
            "installs them.\n"
        )
        from xlashape_server.commands.page_file import Local  # start-up time: few machines have no gRPC

        _ask(Local(_DEMO_SECONDS))


def _ask(service: ServiceMethods) -> None:
    """Asks the questions of the demo and prints the answers."""
    click.echo("1. Where in memory is this element?")
    shape = "bf16[20,300]{1,0:T(8,128)(2,1)}"
    for index in ((0, 0), (1, 0), (0, 1), (19, 299)):
        click.echo(f"   {shape} at {index}: element {service.linear_index(shape, index)} of its buffer")

    click.echo("\n2. How big is this buffer really?")
    of_shape = service.byte_size(shape)
    click.echo(
        f"   {shape}: {byte_text(of_shape.logical_bytes)} of elements, {byte_text(of_shape.physical_bytes)} in memory, "
        f"{share_text(of_shape.padding_bytes, of_shape.physical_bytes)} padding"
    )
    module = service.upload_module(resources.files("xlashape.data").joinpath(_MODULE).read_bytes())
    size = service.size(module, computation=module.entry_computation, max_rows=1)
    click.echo(f"   {module.module_name}, uploaded as {module.name[:20]}…: {module.instruction_count} instructions;")
    click.echo(f"   the {size.count} arrays of its entry computation take {byte_text(size.bytes)}")

    click.echo("\n3. What do these fusions read?")
    for fusion in _FUSIONS:
        click.echo(f"   {fusion}, for each element of its output:")
        for row in service.map(module, fusion):
            click.echo(f"     of {row.operand_name}: {row.map}")


# The seconds that one answer may take.
_DEMO_SECONDS = 60.0
_MODULE = "attention.hlo.pb"
# A fusion that takes one head's share of a packed projection, and one that divides in a softmax.
_FUSIONS = ("transpose_copy_fusion", "convert_convert_fusion")
