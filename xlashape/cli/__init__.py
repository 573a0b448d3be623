"""The command line. Its commands answer in this process or ask a server, for people or, with --json, for programs.

shapes       `shape`, `index`: one shape
drawing      `draw`: pictures
comparing    `diff`, `fingerprint`: modules beside each other
converting   `convert`: modules from one form to another
scanning     `scan`: many dumps as tables
agents       `mcp`: tools for agents
documenting  `protos`, `schemas`: the schemas of messages and of JSON
completing   `completion`, and the names that shells complete
commands     the group of all commands: help, errors, exit codes
unnamed      the command for a file that is named without one
modules      modules from the arguments of commands: files, standard input, modules that a server keeps
connection   the options --server, --timeout and --json, and the connection that they describe
reporting    the commands of reports, made of their declarations
many         several inputs of one command: directories, patterns, buckets
rows         --filter, --sort, --limit and --format; rows as JSON lines, CSV and Parquet
output       JSON documents, names with values, and other text; the progress bar

A command is imported when it runs. Those that need the server (`serve`, `open`, `report`, `health`, `demo`) live beside
it, in `xlashape_server.commands`, and are found by the entry points of the group `xlashape.commands`.
"""

from __future__ import annotations

import click

from xlashape.base.version import __version__
from xlashape.cli.commands import CommandPlace, Commands
from xlashape.cli.output import echo

__all__ = ["main"]


# click itself treats a call without a command as an error whose message is the help.
@click.group(
    cls=Commands,
    subcommand_metavar="[COMMAND] [ARGS]...",  # click before 8.2 leaves the brackets out
    invoke_without_command=True,
    no_args_is_help=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="""Exit codes: 0 success; 1 an error, a module that breaks a rule, or a test of --fail-if that holds;
    2 a mistake in the command line, such as an option or a column that does not exist; 130 interrupted; 141 the
    reader of the output has gone.
    With --json an error is a JSON document on standard error.""",
)
@click.version_option(__version__, "-V", "--version", prog_name="xlashape", message="%(prog)s %(version)s")
@click.pass_context
def main(context: click.Context) -> None:
    """Where elements are in memory, how large buffers really are, what operations read: XLA's shapes, layouts, modules
    and indexing maps, without XLA.

    \b
    xlashape DUMP.hlo.pb                        what stands out in a program
    xlashape why 'f32[1024,3]{1,0:T(8,128)}'    why a buffer is as large as it is
    xlashape memory DUMP.hlo.pb                 what lives at the peak of a program
    xlashape diff BEFORE.hlo AFTER.hlo          what changed between two programs
    """  # noqa: D301 - click reads \b as a character
    if context.invoked_subcommand is None:
        echo(context.get_help())


main.places = {
    "shape": CommandPlace("xlashape.cli.shapes:shape", "The sizes and the layout of a shape."),
    "index": CommandPlace(
        "xlashape.cli.shapes:index", "The positions of elements in a buffer, or the elements at positions."
    ),
    "draw": CommandPlace("xlashape.cli.drawing:draw", "A picture of a layout, or of what an instruction reads."),
    "diff": CommandPlace("xlashape.cli.comparing:diff", "What changed from one program to another."),
    "fingerprint": CommandPlace("xlashape.cli.comparing:fingerprint", "Whether modules are the same program."),
    "convert": CommandPlace(
        "xlashape.cli.converting:convert", "A module in another form: text, proto, JSON, compressed or not."
    ),
    "scan": CommandPlace("xlashape.cli.scanning:scan", "Many dumps as tables in Parquet."),
    "open": CommandPlace("", "The page about files, in a browser."),
    "report": CommandPlace("", "The page about a file, as one file that needs no server."),
    "serve": CommandPlace("", "Serve over gRPC."),
    "mcp": CommandPlace("xlashape.cli.agents:mcp", "Tools for coding agents, over the Model Context Protocol."),
    "health": CommandPlace("", "Whether a server answers calls."),
    "demo": CommandPlace("", "Ask a server about a shape, a module and fusions."),
    "completion": CommandPlace(
        "xlashape.cli.completing:completion", "A script that completes commands, options and names of instructions."
    ),
    "protos": CommandPlace("xlashape.cli.documenting:protos", "Write the protobuf schema to a directory."),
    "schemas": CommandPlace("xlashape.cli.documenting:schemas", "The JSON Schemas of what --json prints."),
}
main.sections = (
    ("Shapes and layouts", ("shape", "index", "draw")),
    ("Memory", ("size", "why", "memory")),
    ("Whole programs", ("summary", "copies", "cost", "collectives", "profile", "diff", "equivalent", "fingerprint")),
    ("What instructions read", ("reads", "map", "tile")),
    ("Modules", ("convert", "verify", "scan")),
    ("In a browser", ("open", "report")),
    ("Server", ("serve", "mcp", "health", "demo")),
    ("Shells and programs", ("completion", "protos", "schemas")),
)
