"""The commands `open`, which shows the page about a module, a shape, … in a browser, and `report`, which writes this
page as one file. The page itself is in server/page."""

from __future__ import annotations

import hashlib
import html
import secrets
import signal
import sys
import tempfile
import webbrowser
from pathlib import Path
from typing import Any

import click

from xlashape.base.extras import require
from xlashape.cli.completing import complete_files
from xlashape.cli.connection import ServerAddress, answer_options
from xlashape.cli.modules import downloaded, naming
from xlashape.cli.output import echo, print_json, progress
from xlashape.errors import InvalidArgumentError

_UPLOAD_SECONDS = 600.0


@click.command(name="open")
@click.argument("files", metavar="[X]...", nargs=-1, shell_complete=complete_files)
@click.option(
    "--browser/--no-browser", default=True, help="Whether the browser is opened. The address is printed in any case."
)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=0,
    metavar="PORT",
    help="The port of the page. [default: a free one]",
)
def open_page(files: tuple[str, ...], browser: bool, port: int) -> None:
    """Shows the page about each X in a browser: a file with a module, a report about exhausted memory or a profile, a
    shape, a map or a line of HLO. Two files are compared.

    This command starts a server of the page that only this machine can reach. Ctrl-C ends both. The address of the
    page contains a random token, without which the server does not answer. A report or a profile that is too long for
    an address is shown as `xlashape report` writes it. The command needs the extra web.
    """
    from xlashape.page import PageSubject, subject_of
    from xlashape_client import Client
    from xlashape_server import Config, Server
    from xlashape_server.commands.page_file import page_file, page_folder  # start-up time
    from xlashape_server.process import StopSignals

    require("server", "the page")
    require("web", "the page")
    page_folder()
    token = secrets.token_urlsafe(24)
    with (
        StopSignals({signal.SIGHUP: lambda: signals.wake()}) as signals,
        tempfile.TemporaryDirectory(prefix="xlashape-") as folder,
    ):
        signals.exits = True
        callers = Path(folder) / "auth.toml"
        digest = hashlib.sha256(token.encode()).hexdigest()
        callers.write_text(f'[[token]]\nname = "page"\nsha256 = "{digest}"\naccess = "write"\n', encoding="utf-8")
        config = Config(
            address="127.0.0.1:0", http=f"127.0.0.1:{port}", auth=str(callers), workers=1,
            log_level="error", store_directory=str(Path(folder) / "store"),
        )  # fmt: skip
        with Server(config) as server:
            found: list[PageSubject] = []
            with Client(server.address, token=token, timeout=_UPLOAD_SECONDS) as client:
                for each in files:
                    with naming(each):
                        found.append(subject_of(each, client.upload_module))
            fragments = [each.fragment for each in found] or [""]
            if [each.kind for each in found] == ["module", "module"]:
                fragments = [f"v=diff&m={found[0].state['m']}&m2={found[1].state['m']}"]
            for number, fragment in enumerate(fragments):
                address = f"http://{server.http_address}/#{'&'.join(filter(None, [fragment, f'token={token}']))}"
                if len(fragments) == len(found) and not found[number].is_in_link:
                    path = Path(folder) / f"page{number}.html"
                    page_file(found[number].data).save(path)
                    address = path.as_uri()
                echo(address)
                if browser and not webbrowser.open(_leading_to(address, Path(folder)).as_uri()):
                    click.echo("xlashape: no browser could be opened: open the address by hand", err=True)
            click.echo("xlashape: the page is served until Ctrl-C", err=True)
            sys.stdout.flush()
            signals.exits = False
            signals.wait()


def _leading_to(address: str, folder: Path) -> Path:
    """A file of `folder` that leads a browser to the address. Other users of the machine may read the arguments of the
    browser, which would have the token of the address, but not this file."""
    path = folder / f"{secrets.token_hex(4)}.html"
    path.write_text(
        f'<!doctype html><meta http-equiv="refresh" content="0;url={html.escape(address, quote=True)}">',
        encoding="utf-8",
    )
    return path


@click.command()
@click.argument("x", metavar="X", shell_complete=complete_files)
@click.option(
    "-o", "--output-file", "file", required=True, type=click.Path(dir_okay=False, allow_dash=True), metavar="FILE",
    help="The file to write, such as report.html; `-` is standard output.",
)  # fmt: skip
@answer_options
def report(x: str, file: str, server: ServerAddress | None, timeout: float, as_json: bool) -> None:
    """Writes the page about X as one file, which shows X by a double click, without a server or a network: to attach to
    an issue, or to keep.

    X is a file with a module, a report about exhausted memory or a profile, a shape, a map or a line of HLO; `-` is
    standard input. Of a module, FILE has the instructions, the text, the graph, memory over time, and the tables of
    memory, copies, reads, cost, sizes and broken rules; of long tables the first rows. The page says what it
    leaves out.
    """
    from xlashape_server.commands.page_file import page_file  # start-up time

    if as_json and file == "-":
        raise InvalidArgumentError(
            "--json writes to standard output: write the page to a file, -o FILE", field="--json"
        )
    subject: Any = x
    if x == "-":
        progress("reading standard input")
        subject = sys.stdin.buffer.read()
    elif x.startswith("modules/"):
        subject = downloaded(x, server, timeout)
    with naming(x):
        page = page_file(subject, note=progress)
    if file == "-":
        echo(page.html.encode(), newline=False)
        return
    progress("writing")
    page.save(file)
    if as_json:
        print_json("report.v1", {"x": x, "title": page.title, "file": file, "bytes": len(page.html.encode())})
