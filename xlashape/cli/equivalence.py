"""The command `equivalent`: whether programs compute the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from xlashape.cli.completing import complete_files
from xlashape.cli.connection import ServerAddress, answer_options
from xlashape.cli.modules import loaded, naming
from xlashape.cli.output import echo, print_json, terminal_width


@click.command()
@click.argument("a", shell_complete=complete_files)
@click.argument("b", required=False, shell_complete=complete_files)
@click.option("--seed", type=click.IntRange(0, (1 << 31) - 1), default=0, show_default=True, help="Draws other inputs.")
@answer_options
def equivalent(a: str, b: str | None, seed: int, server: ServerAddress | None, timeout: float, as_json: bool) -> int:
    """Whether the programs in the files A and B compute the same. Of one directory of dumps, which XLA writes with
    --xla_dump_hlo_pass_re=.*, whether each stage computes what the one before computes.

    The exit code is 0 for `equal` and `equal over the reals`, 1 for `differs` and `unknown`.
    """
    from xlashape.reports.equivalent import equivalent as compared  # deferred: it loads NumPy

    def subject(name: str) -> Any:
        if server is None and name != "-":
            return Path(name)
        with naming(name):
            return loaded(name, server, timeout)

    found = compared(Path(a), seed=seed) if b is None else compared(subject(a), subject(b), seed=seed)
    if as_json:
        print_json("equivalent.v1", {"x": a if b is None else f"{a} {b}", **found.to_dict()})
    else:
        echo(found.to_text(width=terminal_width()))
    return 0 if found.is_equal else 1
