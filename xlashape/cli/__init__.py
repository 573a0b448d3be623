"""The command line. Its commands answer in this process or ask a server, for people or, with --json, for programs.

shapes       `shape`, `index`: one shape
drawing      `draw`: pictures
comparing    `diff`, `fingerprint`: modules beside each other
converting   `convert`: modules from one form to another
scanning     `scan`: many dumps as tables
opening      `open`, `report`: the HTML page about a module, a shape, …, in a browser and as a file
serving      `serve`, `demo`, `mcp`: the server, and tools for agents
health       `health`: whether a server answers
documenting  `protos`, `schemas`: the schemas of messages and of JSON
completing   `completion`, and the names that shells complete
commands     the group of all commands: help, errors, exit codes
modules      modules from the arguments of commands: files, standard input, modules that a server keeps
connection   the options --server, --timeout and --json, and the connection that they describe
local        the calls of the service, answered in this process
page_file    the page as one file, with the answers that it would ask a server for
reporting    the commands of reports, made of their declarations
many         several inputs of one command: directories, patterns, buckets
rows         --filter, --sort, --limit and --format; rows as JSON lines, CSV and Parquet
output       JSON documents, names with values, and other text; the progress bar
"""

from __future__ import annotations

import click

from xlashape.base.version import __version__
from xlashape.cli.commands import Commands
from xlashape.cli.comparing import diff, fingerprint
from xlashape.cli.completing import completion
from xlashape.cli.converting import convert
from xlashape.cli.documenting import protos, schemas
from xlashape.cli.drawing import draw
from xlashape.cli.health import health
from xlashape.cli.opening import open_page, report
from xlashape.cli.output import echo
from xlashape.cli.reporting import report_command
from xlashape.cli.scanning import scan
from xlashape.cli.serving import demo, mcp, serve
from xlashape.cli.shapes import index, shape

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
    xlashape why 'f32[1024,3]{1,0:T(8,128)}'    why a buffer is as large as it is
    xlashape memory DUMP.hlo.pb                 what lives at the peak of a program
    xlashape diff BEFORE.hlo AFTER.hlo          what changed between two programs
    """  # noqa: D301 - click reads \b as a character
    if context.invoked_subcommand is None:
        echo(context.get_help())


main.command_of_report = report_command
main.sections = (
    ("Shapes and layouts", ("shape", "index", "draw")),
    ("Memory", ("size", "why", "memory")),
    ("Whole programs", ("copies", "cost", "profile", "diff", "fingerprint")),
    ("What instructions read", ("reads", "map", "tile")),
    ("Modules", ("convert", "verify", "scan")),
    ("In a browser", ("open", "report")),
    ("Server", ("serve", "mcp", "health", "demo")),
    ("Shells and programs", ("completion", "protos", "schemas")),
)

for _command in (
    shape, index, convert, draw, serve, health, demo, completion, protos, schemas, diff, fingerprint, scan, mcp,
    open_page, report,
):  # fmt: skip
    main.add_command(_command)
