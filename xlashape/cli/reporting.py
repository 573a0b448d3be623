"""The commands of reports, such as `memory`: one for each entry of `REPORTS`, made of the report's declaration.

    xlashape NAME X... [--OPTION …] [--show SECTION | --SECTION ARGUMENT] [--filter --sort --limit --format --json]

The report is computed in this process, or by the server that --server names. A section is a further table of a report;
some take an argument. Text, JSON, CSV and Parquet are made of the declared columns.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
from click.shell_completion import CompletionItem

from xlashape.base.math import byte_text, checked_int64
from xlashape.base.similar import did_you_mean
from xlashape.base.tables import Column, ColumnKind, Table
from xlashape.cli.completing import complete_files, computation_names, instruction_names
from xlashape.cli.connection import ServerAddress, connected, query_options
from xlashape.cli.many import common_folder, jobs_option, many_columns, many_rows, stage_option
from xlashape.cli.modules import loaded, naming
from xlashape.cli.output import complain, echo, print_json, progress, stepping, terminal_width
from xlashape.cli.rows import examples, row_options, write_rows
from xlashape.errors import DecodeError, InvalidArgumentError, NotFoundError
from xlashape.hlo.files.inputs import inputs, is_many
from xlashape.reports.report import REPORTS, Answer, Option, Report, report_of, row_values
from xlashape.reports.selection import Row, Selection, bytes_of
from xlashape.reports.text import broken_text, facts_text, not_shown, table_text

if TYPE_CHECKING:
    from xlashape_client import Client

_MOST_TOTALS: Final = 20
"""The most files whose totals stand above the rows."""
_NONE_PASSES: Final = "No row passes the filters."
_CONTENT: Final = "the profile"
"""The beginning of messages about the content of a profile, which is replaced by the name of the file."""
_LAYER: Final = "layer"
"""The key of `by` whose groups are layers, those that repeat as one."""
_ROW: Final = "name"
"""The column with the name of the instruction that a row is about, and the argument that chooses it."""
_JSON_NAMES: Final = {"totals": "totals_of_files"}
"""Section → the name of its table in a JSON document about several files, where that differs: the totals of the files
are rows there."""


def report_command(name: str) -> click.Command:
    """The command of the report with this name in `REPORTS`."""
    report = report_of(name)
    in_section = [each.argument._replace(name=each.name) for each in report.sections if each.argument is not None]
    plain_sections = [each.name for each in report.sections if each.argument is None]
    is_pair = report.inputs == ("a", "b")

    def run(
        what: tuple[str, ...],
        show: str | None,
        form: str | None,
        limit: int | None,
        sort: str | None,
        filters: tuple[str, ...],
        server: ServerAddress | None,
        timeout: float,
        as_json: bool,
        unfold: bool = False,
        stage: str = "last",
        jobs: int = 1,
        picture_file: Path | None = None,
        **values: Any,
    ) -> int:
        wanted = [
            (each.name, _value(each.argument, values.pop(each.name)))
            for each in report.sections
            if each.argument is not None
        ]
        chosen = [(section, value) for section, value in wanted if value is not None]
        chosen = [(section, f"each_{_LAYER}" if unfold and of == _LAYER else of) for section, of in chosen]
        chosen += [(show, None)] if show is not None else []
        chosen = chosen or [("", None)]
        section, argument = chosen[0]
        options = {each.name: _value(each, values[each.name]) for each in report.options if not each.positional}
        what, behind = _split(report, what)
        row = behind.pop(_ROW, "")
        options |= behind
        form = "json" if as_json else form or "table"
        selection = Selection(filters, sort, limit)

        def must_be_one(where: str) -> None:
            if len(chosen) > 1:
                raise click.UsageError(f"--{section} and --{chosen[1][0]} are two tables: {where} has one")

        if form not in ("table", "json"):
            must_be_one(f"--format {form}")
        if is_pair and len(what) > 2:
            raise click.UsageError(f"{name} takes A and B, or a directory: {len(what)} names are given")
        is_one = is_pair or (report.asks_directories and len(what) == 1 and Path(what[0]).is_dir())
        if form == "table" and len(what) == 1 and server is None and is_many(what) and not is_one:
            found = [each.name for each in islice(inputs(what, stage), 2) if not each.is_remote]
            what = tuple(found) if len(found) == 1 else what  # a directory with one program is that program
        if is_many(what) and not is_one:
            if server is not None:
                raise click.UsageError("--server answers about one module; leave it out for several files")
            must_be_one("an answer about several files")
            return _write_many(report, what, stage, jobs, options, section, argument, form, selection)
        whole = ["", *plain_sections] if form == "json" else [""]
        asked = [([section] if section else whole, argument) for section, argument in chosen]
        answers = (_answers_of_pair if is_pair else _answers)(report, what, options, asked, server, timeout)
        if row:
            about = _rows_about(answers[0], row)
            if form == "table" and not section and selection.is_all:
                echo("\n\n".join(about))
                return 0
            selection = selection._replace(filters=(f"{_ROW}={row}", *filters))
        if picture_file is not None:
            _save_picture(answers[0], picture_file)
            return 0
        parts = [(answer, *table) for answer, table in zip(answers, chosen, strict=True)]
        if len(parts) > 1:
            _write_tables(parts, " ".join(what), form, selection)
        else:
            _write(*parts[0], " ".join(what), form, selection, unfold=unfold)
        return int(bool(report.failures and getattr(answers[0], report.failures)))

    command: Callable[..., Any] = query_options(run)  # --help shows them last
    positional = [each.name for each in report.options if each.positional]
    subjects = ["A", "[B]"] if is_pair else ["X..."]
    positional = positional or (["instruction"] if _has_rows_of_instructions(report) else [])
    metavar = " ".join([*subjects, *[f"[{each.upper()}]" for each in positional]])
    command = click.argument(
        "what", nargs=-1, required=True, metavar=metavar, shell_complete=_complete if positional else complete_files
    )(command)
    if report.has_picture:
        command = click.option(
            "-o", "--picture", "picture_file", type=click.Path(path_type=Path, dir_okay=False), default=None,
            help="Draw the answer into a file instead: .svg, .html, .png or .txt.",
        )(command)  # fmt: skip
    if not is_pair:
        command = jobs_option("For several files: how many processes compute the answers.")(command)
        command = stage_option(
            "For directories of dumps: which dumps of a module are read: the one before or after the optimizations, "
            "all of them, or the one after a pass; without it the last."
        )(command)
    command = row_options(report.shown, "rows", examples(report.columns))(command)
    shown = ["totals, a row of numbers about the whole"]
    shown += [f"{each.name}, {each.meaning}" for each in report.sections if each.argument is None]
    command = click.option(
        "--show", type=click.Choice(["totals", *plain_sections]), default=None,
        help=f"Another table instead of {report.rows.replace('_', ' ')}: {'; '.join(shown)}.",
    )(command)  # fmt: skip
    if report.alike or any(_LAYER in each.choices for each in in_section):
        command = click.option(
            "--unfold", is_flag=True, help="Show rows that are alike, and layers that repeat, one by one."
        )(command)
    for option in (*in_section, *[each for each in report.options if not each.positional]):
        command = _click_option(option)(command)
    return click.command(name, short_help=REPORTS[name].short, help=f"{report.summary}\n\n{report.takes}")(command)


def _split(report: Report, what: tuple[str, ...]) -> tuple[tuple[str, ...], dict[str, str]]:
    """The arguments as inputs, and as values of the report's positional options by name. Behind a single input, the
    arguments are such values if none of them names a file. A report without such options, whose rows are about
    instructions, takes the name of one of them: `_ROW`.
    """
    names = [each.name for each in report.options if each.positional]
    names = names or ([_ROW] if _has_rows_of_instructions(report) else [])
    rest = what[1:]
    if 0 < len(rest) <= len(names) and not any(is_many((each,)) or Path(each).exists() for each in rest):
        return what[:1], dict(zip(names, [each.removeprefix("%") for each in rest], strict=False))
    return what, {}


def _has_rows_of_instructions(report: Report) -> bool:
    return report.inputs != ("a", "b") and report.columns[0].name == _ROW


def _rows_about(answer: Answer, name: str) -> list[str]:
    """The rows of the report about the instruction `name`, each as text: everything that is known, a line each. Raises
    NotFoundError if there are none.
    """
    columns = answer.report.columns
    rows = list(answer.rows_of())
    found = [row for row in rows if row[0] == name]
    if not found:
        raise NotFoundError(
            f"{answer.report.name} has no row about {name!r}, and no file has this name"
            f"{did_you_mean(name, [row[0] for row in rows])}",
            kind="instruction", name=name,
        )  # fmt: skip
    known = [[pair for pair in zip(columns, row, strict=True) if pair[1] not in (None, "", [], {})] for row in found]
    return [facts_text(facts) for facts in known]


def _complete(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[Any]:
    """Completions: files, or behind a file the names of its instructions that begin with `incomplete`."""
    names = instruction_names(context, parameter, incomplete) if context.params.get(parameter.name or "") else []
    return list(map(CompletionItem, names)) or complete_files(context, parameter, incomplete)


def _click_option(option: Option) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    dashed = f"--{option.name.replace('_', '-')}"
    if option.kind is ColumnKind.BOOLEAN:
        both = f"{dashed}/--no-{dashed[2:]}" if option.default is None else dashed
        return click.option(both, option.name, is_flag=True, default=option.default, help=_sentence(option))
    of_choices = click.Choice(option.choices) if option.choices else None
    kind: Any = of_choices or {ColumnKind.INTEGER: int, ColumnKind.NUMBER: float}.get(option.kind, str)
    if option.unit == "bytes":
        kind = str  # with units
    return click.option(
        dashed, option.name, type=kind, default=option.default, multiple=option.kind is ColumnKind.TEXTS,
        metavar=None if option.choices else (option.unit or option.kind.value).upper(), help=_sentence(option),
        show_default=option.default not in (None, "") and not isinstance(option.default, tuple),
        shell_complete={"computation": computation_names, "instruction": instruction_names}.get(option.name),
    )  # fmt: skip


def _sentence(option: Option) -> str:
    units = f", such as 16GiB, or 80% of the {option.percent_of.removesuffix('_bytes')}" if option.percent_of else ""
    return f"{option.meaning[:1].upper()}{option.meaning[1:].removesuffix('.')}{units}."


def _value(option: Option, value: Any) -> Any:
    """The value of an option as the report takes it: a number that fits int64, bytes from text such as `10MiB`. A
    percentage stays text, where the option takes one.
    """
    if isinstance(value, int):
        checked_int64(value, option.name, field=option.name)
    if value is not None and option.unit == "bytes" and isinstance(value, str):
        made = bytes_of(value, f"--{option.name.replace('_', '-')}", 1 << 60 if option.percent_of else None)
        return value if option.percent_of and value.endswith("%") else made
    return value


def _answers(
    report: Report, names: tuple[str, ...], options: dict[str, Any], asked: Sequence[tuple[list[str], Any]],
    server: ServerAddress | None, timeout: float,
) -> list[Answer]:  # fmt: skip
    """The answer to each of `asked`, computed in this process, where it is one answer, or by a server: the names of the
    sections that a server is asked for, and the argument of the section that takes one.
    """
    what = names[0]
    named = _naming_profile(what, asked[0][1]) if report.inputs == ("profile",) else naming(what)
    # Reports that take shapes too are computed in this process; the server only gives it modules.
    if server is not None and "shape" not in report.inputs:
        with named, connected(server, timeout) as service:
            progress("asking the server")
            subjects = [sys.stdin.buffer.read() if what == "-" else what]
            return [_asked(service, report, subjects, options, each, timeout) for each in asked]
    progress("reading")
    with named:
        x: Any = what
        if what == "-":
            x = sys.stdin.buffer.read()
            if not x.strip():
                raise InvalidArgumentError("standard input is empty", field="X")
        elif what.startswith("modules/"):
            x = loaded(what, server, timeout)
        progress(f"computing {report.name}")
        return [report.run(x, **options)] * len(asked)


def _answers_of_pair(
    report: Report, names: tuple[str, ...], options: dict[str, Any], asked: Sequence[tuple[list[str], Any]],
    server: ServerAddress | None, timeout: float,
) -> list[Answer]:  # fmt: skip
    """The answers of a report that compares two modules, or the stages of a directory, as `_answers`."""
    if names == ("-", "-"):
        raise click.UsageError("standard input can be read once: give a file for A or for B")
    if len(names) == 1:
        if server is not None:
            raise click.UsageError("a directory is compared here: leave --server out, or name two modules")
        with stepping(f"computing {report.name}"):
            return [report.run(Path(names[0]), **options)] * len(asked)
    if server is not None:
        with connected(server, timeout) as service:
            progress("asking the server")
            subjects = [sys.stdin.buffer.read() if each == "-" else each for each in names]
            return [_asked(service, report, subjects, options, each, timeout) for each in asked]
    modules = [loaded(each, server, timeout) for each in names]
    with stepping(f"computing {report.name}"):
        return [report.run(*modules, **options)] * len(asked)


@contextmanager
def _naming_profile(what: str, earlier: Any) -> Generator[None, None, None]:
    """Puts the name of the file into an error about the content of a profile. `earlier` is the file of an earlier
    profile that the profile is compared with."""
    try:
        yield
    except DecodeError as error:
        if not error.message.startswith(_CONTENT):
            raise
        file = earlier if error.field == "earlier" else "<stdin>" if what == "-" else what
        raise DecodeError(f"{file}{error.message.removeprefix(_CONTENT)}", field=error.field) from None


def _asked(
    service: Client,
    report: Report,
    subjects: Sequence[str | bytes],
    options: dict[str, Any],
    tables: tuple[list[str], Any],
    timeout: float,
) -> Answer:
    """The answer of a server. InvalidArgumentError for an option that names something on this machine."""
    local = [each.name for each in report.options if each.is_local and options[each.name]]
    if local:
        message = f"--{local[0]} names something of this machine: leave it out with --server"
        raise InvalidArgumentError(message, field=f"--{local[0]}")
    sections, argument = tables
    given = {name: value for name, value in options.items() if value not in (None, "", ())}
    ask = getattr(service, report.name)
    for of in [report.section(name).argument for name in sections if name]:
        if of is not None:
            if of.percent_of and isinstance(argument, str):
                main = {"space": 0} | given  # what a limit is of
                whole = getattr(ask(*subjects, timeout=timeout, max_rows=1, **main), of.percent_of)
                argument = bytes_of(argument, of.name, whole)
            given |= {of.name if of.is_content else "argument": str(argument)}
    # Totals come with every table.
    asked = ["" if name == "totals" else name for name in sections]
    return ask(*subjects, sections=asked, timeout=timeout, **given)


def _save_picture(answer: Answer, target: Path) -> None:
    from xlashape.drawing.draw import picture_of_answer  # deferred: few commands draw

    picture = picture_of_answer(answer)
    if picture is None:
        raise click.UsageError("the picture is drawn here: leave --server out")
    picture.save(target)


def _write_many(
    report: Report, what: tuple[str, ...], stage: str, jobs: int, options: dict[str, Any], section: str, argument: Any,
    form: str, selection: Selection,
) -> int:  # fmt: skip
    """The rows of several inputs in one table. The exit code is 1 if one of them is refused, or has a failure."""
    columns = many_columns(report.columns_of(section))
    if section == "totals":  # facts, which have no rank, are columns here
        columns = tuple([each if each.rank or each.name == "module" else each._replace(rank=2) for each in columns])
    found = list(inputs(what, stage))
    refused = failed = 0
    totals: list[Row] = []

    def every() -> Iterator[Row]:
        nonlocal refused, failed
        for row, is_refused in many_rows(report.name, found, options, section, argument, jobs, totals):
            refused += is_refused
            failed += bool(report.failures) and not section  # each row of such a report is a failure
            if is_refused:  # filters, --sort and --limit may leave its row out
                # Mistakes in content name the file by themselves.
                message = row[-1] if row[-1].startswith((f"{row[0]}:", f"{row[0]} ")) else f"{row[0]}: {row[-1]}"
                complain(f"xlashape: {message}")
            yield row

    if form == "table":
        rows = list(selection._replace(limit=0).chosen(columns, every()))
        most = (report.shown if selection.limit is None else selection.limit) or None
        folder = common_folder([each.name for each in found])
        shown, sums = ([(row[0].removeprefix(folder), *row[1:]) for row in part] for part in (rows[:most], totals))
        parts = [table_text(columns, shown, terminal_width())] if rows else []
        if not section and selection.is_all and totals and any(each.rank for each in report.totals):
            about = (*many_columns(report.totals)[:2], *report.totals)
            parts.insert(0, table_text(about, sums[:_MOST_TOTALS], terminal_width()))
            if len(totals) > _MOST_TOTALS:
                parts.insert(
                    1, f"{len(totals) - _MOST_TOTALS:,} more files have totals: --show totals --limit 0 shows all."
                )
        parts += [f"The files are in {folder}"] if folder else []
        parts.append(f"{len(found):,} files, {refused:,} of them refused; {len(rows):,} rows")
        if most is not None and len(rows) > most:
            parts.append(not_shown(len(rows) - most, ": --limit 0 shows all"))
        echo("\n\n".join(parts))
    elif form == "json":
        made = list(Table(columns, selection.chosen(columns, every())))
        print_json(
            f"{report.name}.v1",
            {"files": [each.name for each in found], _JSON_NAMES.get(section, section) or report.rows: made},
        )
    else:
        write_rows(form, columns, selection.chosen(columns, every()))
    return int(refused > 0 or failed > 0)


def _write_tables(parts: Sequence[tuple[Answer, str, Any]], what: str, form: str, selection: Selection) -> None:
    """Writes several sections of a report, each with its answer and its argument; what is said of all of them once."""
    made = [(answer, section, argument, answer.objects_of(section, argument)) for answer, section, argument in parts]
    if form == "json":
        tables = {
            section: list(Table(columns, selection.chosen(columns, (row_values(columns, row) for row in found))))
            for answer, section, _, found in made
            for columns in [answer.report.columns_of(section)]
        }
        print_json(f"{made[0][0].report.name}.v1", {"x": what, "totals": made[0][0].totals, **tables})
        return
    said = ""
    for answer, section, argument, found in made:
        columns = answer.report.columns_of(section)
        rows = iter([row_values(columns, each) for each in found])
        text = _text(answer, section, argument, found, columns, rows, selection, unfold=False)
        said = "\n\n".join([*filter(None, [said]), *[each for each in text.split("\n\n") if each not in said]])
    echo(said)


def _write(
    answer: Answer, section: str, argument: Any, what: str, form: str, selection: Selection, *, unfold: bool
) -> None:
    columns = answer.report.columns_of(section)
    has_none = False
    if not section and not selection.is_all and form in ("json", "table"):
        limit = selection.limit if form == "json" else 0
        part = answer.selected(_objects(answer, selection._replace(limit=limit)))
        if part is not None:
            has_none = bool(selection.filters) and not len(part)
            answer, selection = part, Selection((), None, None if form == "json" else selection.limit)
    found = answer.objects_of(section, argument) if section not in ("", "totals") else ()
    rows = iter([row_values(columns, each) for each in found]) if found else answer.rows_of(section, argument)
    if form == "json":
        _write_json(answer, what, section, columns, selection.chosen(columns, rows), selection)
    elif form == "table":
        text = _text(answer, section, argument, found, columns, rows, selection, unfold=unfold)
        echo(f"{text}\n\n{_NONE_PASSES}" if has_none else text)
    else:
        write_rows(form, columns, selection.chosen(columns, rows))


def _objects(answer: Answer, selection: Selection) -> list[Any]:
    """The objects behind the rows that `selection` chooses, in the order that it gives them."""
    rows = ((*row, each) for row, each in zip(answer.rows_of(), answer.objects_of(), strict=True))
    return [row[-1] for row in selection.chosen(answer.report.columns_of(), rows)]


def _write_json(
    answer: Answer, what: str, section: str, columns: Sequence[Column], rows: Iterator[Row], selection: Selection
) -> None:
    found = list(Table(columns, rows))
    if section:
        document: dict[str, Any] = {"totals": answer.answer_about(section).totals}
        if section != "totals":
            document[section] = found
    else:
        document = answer.to_dict() if selection.is_all and selection.limit is None else {"totals": answer.totals}
        document[answer.report.rows] = found
    print_json(f"{answer.report.name}.v1", {"x": what, **document})


def _text(
    answer: Answer,
    section: str,
    argument: Any,
    found: Sequence[Any],
    columns: Sequence[Column],
    every: Iterator[Row],
    selection: Selection,
    *,
    unfold: bool,
) -> str:
    hint = ": --limit 0 shows all"
    if section == "totals":
        known = [(column, value) for column, value in zip(columns, next(every), strict=True) if value not in (None, [])]
        return facts_text(known)
    if selection.is_all and not section and not unfold:
        return answer.to_text(selection.limit, width=terminal_width(), hint=hint)
    most = (answer.report.shown if selection.limit is None else selection.limit) or None
    chosen = list(selection._replace(limit=0).chosen(columns, every))
    total, rows = len(chosen), chosen[:most]
    of_section = answer.report.section(section).headline if section else None
    said = of_section(answer, found, argument) if of_section else "" if section else answer.headline()
    parts = [broken_text(said, terminal_width())]
    if rows:
        parts.append(
            table_text(columns, rows, terminal_width()) if section else answer.report.rows_text(rows, terminal_width())
        )
    else:
        parts.append(_NONE_PASSES if selection.filters else "There are no rows.")
    if selection.filters and rows:
        parts.append(_together(columns, rows, total, len(answer) if not section else None))
    if len(rows) < total:
        parts.append(not_shown(total - len(rows), hint))
    parts.append(broken_text("\n".join([each for each in answer.notes if each not in said]), terminal_width()))
    return "\n\n".join([part for part in parts if part])


def _together(columns: Sequence[Column], rows: Sequence[Row], passed: int, of: int | None) -> str:
    """Lines that say how many rows passed the filters, and the sums of columns of bytes over the rows that are shown.
    `of` is the number of all rows, None if it is not known.
    """
    facts = [f"{passed:,} rows pass the filters" if of is None else f"{passed:,} of {of:,} rows pass the filters"]
    for number, column in enumerate(columns):
        if column.kind is ColumnKind.INTEGER and column.unit == "bytes" and column.rank:
            known = [row[number] for row in rows if row[number] is not None]
            if known:
                facts.append(
                    f"{column.heading or column.name.replace('_', ' ')} of those shown: {byte_text(sum(known))}"
                )
    return "\n".join(facts)
