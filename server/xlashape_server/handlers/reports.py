"""The handler of all reports. Each RPC of ReportService computes a report, and so does IndexingMaps; the declaration of
the report says how the messages of the RPC are read and filled.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from google.protobuf.descriptor import MethodDescriptor

from xlashape.base.tables import ColumnKind
from xlashape.errors import DecodeError, InvalidArgumentError, NotFoundError, XlashapeError
from xlashape.hlo import HloModule
from xlashape.limits import budget
from xlashape.proto import parse, v1
from xlashape.reports.messages import (
    MOST_ROWS,
    arguments,
    has_structures,
    read_field,
    remote_options,
    response_of,
    tables,
    vocabulary_of,
)
from xlashape.reports.report import STRICT, Answer, Option, Report, report_of
from xlashape_server.config import Config
from xlashape_server.handlers.inputs import RequestedPage, check_text, placed, shape_of, unpacked
from xlashape_server.modules import Modules


class ReportHandlers:
    """The handlers of reports. Errors are the library's, with the path of the request's field."""

    def __init__(self, config: Config, modules: Modules) -> None:
        self._config = config
        self._modules = modules

    def handler(self, method: MethodDescriptor, name: str) -> Callable[[bytes, float], bytes]:
        """The handler of the RPC of the report `name`."""
        report = report_of(name)
        request, response = (getattr(v1, each.name) for each in (method.input_type, method.output_type))
        inputs = [field.name for field in method.input_type.fields if field.name in report.inputs]

        def handle(data: bytes, deadline: float) -> bytes:
            message: Any = parse(request, data)
            page = RequestedPage(message, MOST_ROWS)
            with budget(self._config.max_analysis_steps, deadline, report.name):
                section, option = self._table(report, message)
                argument = None
                if option is not None:
                    argument = self._input(message, option.name) if option.is_content else _value(option, message)
                answer = self._kept_answer(report, message, inputs)
                is_structured = has_structures(report) and message.structured
                try:
                    made: Any = response_of(
                        answer, response, section=section, argument=argument, first=page.start, most=page.size,
                        structured=is_structured,
                    )  # fmt: skip
                except (DecodeError, InvalidArgumentError, NotFoundError) as error:
                    raise placed(error, (option.name if option is not None else "table",)) from None
                end = page.start + len(getattr(made, section or report.rows))
                made.next_page_token = page.next_token(end, made.row_count)
            return made.SerializeToString()

        return handle

    def _table(self, report: Report, message: Any) -> tuple[str, Option | None]:
        """The section that a request names, "" for the main table, and its argument, if it takes one.
        InvalidArgumentError for a table that the report does not have, and where an argument is missing, or is that of
        another table.
        """
        known = tables(report)
        if known is None:
            return "", None
        name = known.check(known.text(message.table) or report.rows, "table")
        of_section = dict(zip([each.name for each in report.sections if each.argument], arguments(report), strict=True))
        for section, argument in of_section.items():
            if _is_set(argument, message) != (section == name):
                member = known.member(section)
                text = f"{member} needs {argument.meaning}" if section == name else f"only {member} has this argument"
                raise InvalidArgumentError(text, field=argument.name)
        return "" if name == report.rows else name, of_section.get(name)

    def _kept_answer(self, report: Report, message: Any, inputs: list[str]) -> Answer:
        """The answer of the report. An answer about one or two modules is kept with the first of them, since callers
        ask for it page by page.
        """
        given = [name for name in inputs if message.HasField(name)]
        is_whole = len(given) == (2 if report.inputs == ("a", "b") else 1)
        if not is_whole or not all(isinstance(getattr(message, name), v1.ModuleInput) for name in given):
            return self._answer(report, message, inputs)
        question = type(message)()
        question.CopyFrom(message)
        question.DiscardUnknownFields()  # they do not change the answer, and may be as large as a request
        for name in ("table", "structured", *given, *[each.name for each in arguments(report)]):
            if name in message.DESCRIPTOR.fields_by_name:
                question.ClearField(name)
        key = report.name.encode() + b" " + question.SerializeToString(deterministic=True)
        module, *others = [self._input(message, name) for name in given]
        return kept_answer(self._modules, module, key, lambda: self._answer(report, message, inputs), others)

    def _answer(self, report: Report, message: Any, inputs: list[str]) -> Answer:
        given = [name for name in inputs if message.HasField(name)]
        if report.inputs == ("a", "b"):
            missing = [name for name in inputs if name not in given]
            if missing:
                raise InvalidArgumentError(f"{missing[0]} is missing: a and b are compared", field=missing[0])
        elif len(given) != 1:
            found = "found none" if not given else f"found {' and '.join(given)}"
            message_ = f"expected one of {', '.join(inputs)}, {found}" if len(inputs) > 1 else f"{inputs[0]} is missing"
            raise InvalidArgumentError(message_, field=given[-1] if given else inputs[0])
        values = [self._input(message, name) for name in given]
        options = {each.name: _value(each, message) for each in remote_options(report) if _is_set(each, message)}
        try:
            return report.run(*values, **options)
        except XlashapeError as error:
            raise placed(error, (given[0],), **{name: (name,) for name in options}) from None

    def _input(self, message: Any, name: str) -> Any:
        value = getattr(message, name)
        if isinstance(value, v1.ModuleInput):
            has_option = STRICT.name in message.DESCRIPTOR.fields_by_name
            return self._modules.read(value, (name,), mends=has_option and not message.strict)
        if isinstance(value, v1.ShapeInput):
            return shape_of(value, (name,), self._config)
        if isinstance(value, bytes):
            return unpacked(value, name, self._config.max_module_bytes)
        check_text(len(value), self._config.max_text_bytes)
        return value.encode()  # as content: text could name a file of this machine


def kept_answer(
    modules: Modules, module: HloModule, key: bytes, make: Callable[[], Answer], others: Sequence[HloModule] = ()
) -> Answer:
    """The answer of a report about a module, and perhaps about `others`. It is kept with the module under `key`: the
    name of the report, a space and the serialized options. `make` computes the answer if it is not kept, or if one of
    the `others` is not kept.
    """
    names = [modules.key_of(other) for other in others]
    if not all(names):
        return make()
    return modules.found(module, key + "".join(names).encode(), make)


def _is_set(option: Option, message: Any) -> bool:
    if vocabulary_of(option) is None and message.DESCRIPTOR.fields_by_name[option.name].has_presence:
        return message.HasField(option.name)
    return bool(getattr(message, option.name))


def _value(option: Option, message: Any) -> Any:
    value: Any = read_field(option, message)
    choices = vocabulary_of(option)
    if choices is not None and option.kind is ColumnKind.TEXT:
        return choices.check(value, option.name)
    return tuple(value) if option.kind in (ColumnKind.TEXTS, ColumnKind.INTEGERS) else value
