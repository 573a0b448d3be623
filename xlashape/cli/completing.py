"""Completion of arguments on the shell: `completion`, and the names of instructions and computations in a file."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

import click
from click.shell_completion import CompletionItem, get_completion_class

from xlashape.cli.output import echo
from xlashape.errors import XlashapeError

if TYPE_CHECKING:
    from xlashape.hlo import HloModule

_MOST_BYTES: Final = 64 << 20
"""The most bytes of a file that are read, since completion runs while the user waits after a key. Of longer text, the
rest is not searched; from a longer file of another format, nothing is completed."""
_MOST_NAMES: Final = 2_000
_LINE: Final = re.compile(rb"^[ \t]*(?:ROOT[ \t]+)?%?([A-Za-z_][\w.\-]*) = ", re.MULTILINE)
_COMPUTATION: Final = re.compile(rb"^(?:ENTRY[ \t]+)?%?([A-Za-z_][\w.\-]*)[ \t]*(?:\([^\n]*)?\{[ \t]*$", re.MULTILINE)

_SHELLS: Final = ("bash", "fish", "zsh")


@click.command()
@click.argument("shell", type=click.Choice(_SHELLS))
def completion(shell: str) -> None:
    """Prints the script that completes commands, options, files and names of instructions in SHELL.

    bash: put eval "$(xlashape completion bash)" into ~/.bashrc

    zsh: put eval "$(xlashape completion zsh)" into ~/.zshrc

    fish: xlashape completion fish > ~/.config/fish/completions/xlashape.fish
    """
    made = get_completion_class(shell)
    assert made is not None
    context = click.get_current_context().find_root()
    echo(made(context.command, {}, "xlashape", "_XLASHAPE_COMPLETE").source(), is_data=True)


def complete_files(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The shell's own completion of files."""
    return [CompletionItem(incomplete, type="file")]


def instruction_names(context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    """The names of instructions, in the file that the command names, that begin with `incomplete`."""
    return _names(context, incomplete, _LINE, _of_instructions)


def computation_names(context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    """The names of computations, in the file that the command names, that begin with `incomplete`."""
    return _names(context, incomplete, _COMPUTATION, _of_computations)


def _of_instructions(module: HloModule) -> Iterator[str]:
    return (each.name for each in module.instructions())


def _of_computations(module: HloModule) -> Iterator[str]:
    return (each.name for each in module.computations)


def _names(
    context: click.Context, incomplete: str, pattern: re.Pattern[bytes], of_module: Callable[[HloModule], Iterator[str]]
) -> list[str]:
    # While an option still lacks its value, click has not matched the arguments with their names yet.
    named = (context.params[name] for name in ("file", "what", "subject") if context.params.get(name))
    given: Any = next(named, context.args[0] if context.args else None)
    given = cast("tuple[str, ...]", given)[0] if isinstance(given, tuple) else given
    wanted = incomplete.removeprefix("%")
    try:
        found = _found(str(given), pattern, of_module) if given else iter(())
        return list(islice(dict.fromkeys(name for name in found if name.startswith(wanted)), _MOST_NAMES))
    except (XlashapeError, OSError, ValueError, EOFError):  # no such file, or no module: nothing is completed
        return []


def _found(file: str, pattern: re.Pattern[bytes], of_module: Callable[[HloModule], Iterator[str]]) -> Iterator[str]:
    """The names in a file. HLO text is searched by `pattern`, in a fiftieth of the time that parsing it would take. Any
    other file is loaded, and `of_module` gives its names.
    """
    path = Path(file)
    if path.is_file():
        with path.open("rb") as stream:
            data = stream.read(_MOST_BYTES + 1)
        if data.startswith(b"\x1f\x8b"):
            import gzip  # start-up time: every command imports this file

            with gzip.open(path) as stream:
                data = stream.read(_MOST_BYTES + 1)
        if b"HloModule" in data[:4_096] and b"\x00" not in data[:4_096]:
            for match in pattern.finditer(data):
                yield match[1].decode("utf-8", "replace")
            return
        if len(data) > _MOST_BYTES:
            return
    from xlashape.hlo import HloModule  # deferred: the reader of HLO takes longer to load than the command line

    yield from of_module(HloModule.load(file))
