"""Tools for coding agents: `mcp`."""

from __future__ import annotations

from pathlib import Path

import click


@click.command()
@click.option(
    "--root",
    type=click.Path(exists=True, file_okay=False),
    default=".",
    help="The directory whose files may be opened. [default: the current directory]",
)
def mcp(root: str) -> None:
    """Serves the questions of this library as tools for a coding agent, over the Model Context Protocol on standard
    input and output.

    An agent starts it itself, with a configuration such as {"command": "xlashape", "args": ["mcp", "--root",
    "/dumps"]}. It needs the extra mcp.
    """
    from xlashape.agents import make_server  # start-up time

    make_server(Path(root)).run("stdio")
