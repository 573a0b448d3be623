"""The handler of ReportService, one for all reports. Each RPC of the service computes a report, and the declaration of
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
from xlashape.proto import v1
from xlashape.reports.messages import MOST_ROWS, remote_options, response_of
from xlashape.reports.report import Answer, Option, Report, report_of
from xlashape_server.config import Config
from xlashape_server.handlers.inputs import check_text, decoded, placed, shape_of, unpacked
from xlashape_server.memory import reserve
from xlashape_server.modules import Modules, reserve_work

_ROW_BYTES = 1_500
"""Bytes of memory for a row of an answer. Measured, with its texts: 0.4 to 1.2 kB."""


_CONTENTS = ("text", "profile")
"""The fields of requests that are inputs of a report as text or bytes. The other inputs are messages."""
_PROFILE_FACTOR = 12
"""Bytes of memory for each byte of a profile: its modules are decoded, and each of its instructions becomes a row."""


class ReportHandlers:
    """The handlers of ReportService. Errors are the library's, with the path of the request's field."""

    def __init__(self, config: Config, modules: Modules) -> None:
        self._config = config
        self._modules = modules

    def handler(self, method: MethodDescriptor) -> Callable[[bytes, float], bytes]:
        """The handler of an RPC, which has the name of its report: Memory computes the report `memory`."""
        report = report_of(method.name.lower())
        request, response = (getattr(v1, each.name) for each in (method.input_type, method.output_type))
        inputs = [
            field.name
            for field in method.input_type.fields
            if field.message_type is not None or field.name in _CONTENTS
        ]

        def handle(data: bytes, deadline: float) -> bytes:
            message: Any = decoded(request, data)
            if message.first_row < 0 or message.max_rows < 0:
                field = "first_row" if message.first_row < 0 else "max_rows"
                raise InvalidArgumentError(f"{field} is negative", field=field)
            with budget(self._config.max_analysis_steps, deadline, report.name):
                uploaded = _check_section(report, message)
                argument = self._input(message, uploaded) if uploaded else message.argument
                answer = self._kept_answer(report, message, inputs)
                reserve(_ROW_BYTES * min(message.max_rows or MOST_ROWS, MOST_ROWS))
                try:
                    made = response_of(
                        answer, response, section=message.section, argument=argument,
                        first=message.first_row, most=message.max_rows,
                    )  # fmt: skip
                except (DecodeError, InvalidArgumentError, NotFoundError) as error:
                    raise placed(error, (uploaded or "argument",)) from None
            return made.SerializeToString()

        return handle

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
        for name in ("first_row", "max_rows", "section", "argument", *given):
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
        for value in values:
            if isinstance(value, HloModule):
                reserve_work(value)
        options = {each.name: _value(each, message) for each in remote_options(report) if _is_set(each, message)}
        try:
            return report.run(*values, **options)
        except XlashapeError as error:
            raise placed(error, (given[0],), **{name: (name,) for name in options}) from None

    def _input(self, message: Any, name: str) -> Any:
        value = getattr(message, name)
        if isinstance(value, v1.ModuleInput):
            return self._modules.read(value, (name,))
        if isinstance(value, v1.ShapeInput):
            return shape_of(value, (name,), self._config)
        if isinstance(value, bytes):
            self._modules.check_size(len(value), (name,))
            reserve(_PROFILE_FACTOR * len(value))
            return unpacked(value, name, self._modules.check_size, _PROFILE_FACTOR)
        check_text(value, self._config.max_text_bytes)
        return value.encode()  # as content: text could name a file of this machine


def kept_answer(
    modules: Modules, module: HloModule, key: bytes, make: Callable[[], Answer], others: Sequence[HloModule] = ()
) -> Answer:
    """The answer of a report about a module, and perhaps about `others`. It is kept with the module under `key`: the
    name of the report, a space and the serialized options. `make` computes the answer if it is not kept, or if one of
    the `others` is not in the cache.
    """
    kept = [modules.cache.entry_of(other) for other in others]
    key += b"".join([name.encode() for name, _ in kept])

    def weigh(answer: Answer) -> int:
        # Tables that are made on demand have at most a row for each instruction. The answer holds the other modules.
        found = sum([len(computation.instructions) for each in (module, *others) for computation in each.computations])
        return len(key) + _ROW_BYTES * (1 + len(answer) + found) + sum([size for _, size in kept])

    if not all(name for name, _ in kept):
        return make()
    return modules.cache.report_or(module, key, make, weigh)


def _is_set(option: Option, message: Any) -> bool:
    return bool(getattr(message, option.name)) if option.kind is ColumnKind.TEXTS else message.HasField(option.name)


def _value(option: Option, message: Any) -> Any:
    value = getattr(message, option.name)
    if option.choices and value not in option.choices:
        raise InvalidArgumentError(
            f"{option.name}: expected one of {', '.join(option.choices)}, found {value[:60]!r}", field=option.name
        )
    return tuple(value) if option.kind is ColumnKind.TEXTS else value


def _check_section(report: Report, message: Any) -> str:
    """The field with the content, such as a profile, that the requested table needs; "" if it needs none. NotFoundError
    or InvalidArgumentError for a table or an argument that the report does not have.
    """
    try:
        if message.section == "totals":
            raise InvalidArgumentError("every response has the totals: leave `section` empty", field="section")
        argument = report.section(message.section).argument if message.section else None
    except XlashapeError as error:
        raise placed(error, ("section",)) from None
    if argument is not None and argument.is_content:
        if not message.HasField(argument.name):
            raise InvalidArgumentError(f"{message.section} needs {argument.meaning}", field=argument.name)
        return argument.name
    if argument is not None and not message.argument:
        raise InvalidArgumentError(f"{message.section} needs an argument: {argument.meaning}", field="argument")
    if argument is not None and argument.choices and message.argument not in argument.choices:
        expected = ", ".join(argument.choices)
        raise InvalidArgumentError(f"expected one of {expected}, found {message.argument[:60]!r}", field="argument")
    return ""
