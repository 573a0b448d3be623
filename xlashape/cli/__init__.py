"""The command line. Its commands answer in this process or ask a server, for people or, with --json, for programs.

shapes      `shape`, `index`: one shape
drawing     `draw`: pictures
modules     `size`, `map`: shapes and modules by bytes, maps of instructions
explaining  `why`: why buffers are as large as they are
reading     `reads`: how efficiently instructions read
tiling      `tile`: the tiles that a tile reads
converting  `convert`: modules from one form to another
serving     `serve`, `demo`: the server
connection  the options --server, --timeout and --json, and the connection that they describe
local       the service in this process
output      JSON, tables, errors and exit codes
"""

from __future__ import annotations

import click

import xlashape
from xlashape.cli.converting import convert
from xlashape.cli.drawing import draw
from xlashape.cli.explaining import why
from xlashape.cli.modules import map_, size
from xlashape.cli.output import Commands
from xlashape.cli.reading import reads
from xlashape.cli.serving import demo, serve
from xlashape.cli.shapes import index, shape
from xlashape.cli.tiling import tile

__all__ = ["main"]


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(xlashape.__version__, "-V", "--version", prog_name="xlashape", message="%(prog)s %(version)s")
def main() -> None:
    """Where elements are in memory, how large buffers really are, what operations read: XLA's shapes, layouts, modules and
    indexing maps, without XLA.
    """


for _command in (shape, index, size, why, map_, reads, tile, convert, draw, serve, demo):
    main.add_command(_command)
