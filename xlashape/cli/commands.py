"""The group of all commands: help in sections, errors with their line and caret or as JSON, exit codes, progress.

Exit codes: 0 success, 1 an error of the library or the server, a module that breaks a rule, or a test of --fail-if that
holds, 2 a mistake in the command line, the value of an option included, 130 interrupted, 141 where the reader of
standard output has gone, as `head` does: shells report the same code for programs that SIGPIPE ends.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from typing import Any, Final, NamedTuple, NoReturn

import click

from xlashape.base.display import printable_json
from xlashape.base.similar import did_you_mean
from xlashape.cli.output import allow_any_encoding, clear, complain, shown
from xlashape.errors import ParseError, XlashapeError
from xlashape.reports.report import REPORTS

_PIPE_IS_CLOSED: Final = 141
_GROUP: Final = "xlashape.commands"
"""The entry points that are commands. Those beside the server, such as `serve`, are found by them."""
_NO_PROGRESS: Final = frozenset(["serve", "mcp", "demo", "completion", "open"])
"""Commands without a progress bar: they print while they run, or end at once."""


class CommandPlace(NamedTuple):
    """Where a command is. It is imported when it runs, or when its help is asked for."""

    path: str
    """`module:function`; empty where an entry point names the command, and is missing where that is not installed."""
    short: str
    """What the command does, for its line in the list of commands."""


class Commands(click.Group):
    """A group of commands. Errors of the library, of files and of the command line end a command with a message and an
    exit code, without a traceback."""

    sections: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """The headings of the help, and the commands below each."""
    places: Mapping[str, CommandPlace] = {}
    """The commands that are no reports, by name."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        here = [name for name, place in self.places.items() if place.path]
        return sorted({*super().list_commands(ctx), *here, *REPORTS, *_entry_points().names})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of this name. It is imported or, for a report, made of its declaration on first use."""
        if cmd_name not in self.commands:
            found = self._found(cmd_name)
            if found is not None:
                if cmd_name in self.places:
                    found.short_help = self.places[cmd_name].short
                self.add_command(found, cmd_name)
        return super().get_command(ctx, cmd_name)

    def _found(self, name: str) -> click.Command | None:
        place = self.places.get(name)
        if place is not None and place.path:
            module, _, function = place.path.partition(":")
            return getattr(import_module(module), function)
        if name in REPORTS:
            return import_module("xlashape.cli.reporting").report_command(name)
        return next((each.load() for each in _entry_points(name=name)), None)

    def main(self, args: Sequence[str] | None = None, *rest: Any, standalone_mode: bool = True, **kwargs: Any) -> Any:
        arguments = list(sys.argv[1:] if args is None else args)
        allow_any_encoding()
        if not standalone_mode:
            return super().main(arguments, *rest, standalone_mode=False, **kwargs)
        as_json = _wants_json(arguments)
        try:
            # In click's own standalone mode, errors of the library would be printed as tracebacks.
            result = super().main(arguments, *rest, standalone_mode=False, **kwargs)
            if sys.stdout is not None:  # None where it was closed, as `>&-` does
                sys.stdout.flush()
        except click.UsageError as error:
            where = error.ctx.command_path if error.ctx is not None else "xlashape"
            message = _in_one_line(error.format_message())
            _fail("usage", message, f"{message} ({where} --help says more)", as_json, code=error.exit_code)
        except click.ClickException as error:
            message = _in_one_line(error.format_message())
            _fail("usage", message, message, as_json, code=error.exit_code)
        except (click.Abort, KeyboardInterrupt):
            sys.exit(130)
        except XlashapeError as error:
            # An error in text shows its line and a caret below the mistake.
            text = str(error) if isinstance(error, ParseError) else _in_one_line(str(error))
            code = 2 if _is_about_option(error, arguments) else 1
            _fail(error.code, error.message, text, as_json, code=code, field=error.field, details=error.details())
        except BrokenPipeError:
            _leave_output()
            sys.exit(_PIPE_IS_CLOSED)
        except OSError as error:
            text = f"{error.filename}: {error.strerror}" if error.filename else str(error)
            _fail("file", text, text, as_json)
        sys.exit(result if isinstance(result, int) else 0)

    def invoke(self, ctx: click.Context) -> Any:
        """Runs the command under a progress bar."""
        # In this attribute click keeps the names of the commands that follow, until it resolves them.
        names = getattr(ctx, "_protected_args", None)  # `protected_args` before click 8.2
        if names is None:
            names = getattr(ctx, "protected_args", ())
        try:
            if not names or names[0] in _NO_PROGRESS:
                return super().invoke(ctx)
            with shown():
                return super().invoke(ctx)
        except BrokenPipeError:  # click would end with 1, as after an error
            _leave_output()
            ctx.exit(_PIPE_IS_CLOSED)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and self.get_command(ctx, args[0]) is None:
            words = import_module("xlashape.cli.unnamed").words_of(args[0])
            args = [*(words or args[:1]), *args[1:]]
        if args and not args[0].startswith("-") and self.get_command(ctx, args[0]) is None:
            ctx.fail(f"there is no command {args[0]!r}{did_you_mean(args[0], self.list_commands(ctx))}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Writes the commands under the headings of `sections`, then those that no heading has."""
        named = {name for _, names in self.sections for name in names}
        rest = tuple([name for name in self.list_commands(ctx) if name not in named])
        known = set(self.list_commands(ctx))
        for heading, section in (*self.sections, ("Other commands", rest)):
            names = [name for name in section if name in known]
            if names:
                with formatter.section(heading):
                    formatter.write_dl([(name, self._short_help(name)) for name in names], col_max=14)

    def _short_help(self, name: str) -> str:
        known = self.places.get(name) or REPORTS.get(name)
        command = None if known else self.commands.get(name) or self._found(name)
        return known.short if known else command.get_short_help_str(100) if command else ""


def _entry_points(**chosen: Any) -> Any:
    """The entry points of commands. Deferred: to look into all packages takes as long as a question about a shape."""
    from importlib.metadata import entry_points

    return entry_points(group=_GROUP, **chosen)


def _wants_json(arguments: Sequence[str]) -> bool:
    """Whether errors are written as JSON, which they are if answers are. The arguments are not parsed yet, and may be
    wrong.
    """
    forms = {"json", "jsonl"}
    return "--json" in arguments or any(
        (argument.startswith("--format=") and argument[len("--format=") :] in forms)
        or (argument == "--format" and following in forms)
        for argument, following in zip(arguments, [*arguments[1:], ""], strict=False)
    )


def _is_about_option(error: XlashapeError, arguments: Sequence[str]) -> bool:
    """Whether an error is about the value of an option that is among the arguments. The path of such an error begins
    with the option, or with the argument of the library's function that has the option's name."""
    option = f"--{str(error.path[0]).removeprefix('--').replace('_', '-')}" if error.path else None
    return option in [argument.partition("=")[0] for argument in arguments]


def _leave_output() -> None:
    """Points standard output at nothing, so that the interpreter does not write the rest at its end."""
    clear()
    with suppress(OSError, ValueError, AttributeError):  # it is not a file, or it is closed
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _in_one_line(text: str) -> str:
    return " ".join(text.split())


def _fail(
    kind: str,
    message: str,
    text: str,
    as_json: bool,
    *,
    code: int = 1,
    field: str | None = None,
    details: dict[str, str] | None = None,
) -> NoReturn:
    """Writes an error to standard error, as JSON or as `text`, and exits with `code`. `kind` is the error's code."""
    clear()
    if as_json:
        error = {"code": kind, "message": message, "field": field, "details": details or {}}
        document = {"schema": "xlashape.error.v1", "error": error, "exit_code": code}
        complain(printable_json(json.dumps(document, indent=2, ensure_ascii=False)))
    else:
        complain(f"xlashape: {text}")
    sys.exit(code)
