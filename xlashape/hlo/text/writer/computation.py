"""Computations as text. Matches XLA's HloComputation printer.

computation := 'ENTRY '? name signature? '{' line* '}' (', execution_thread="' thread '"')?
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from operator import itemgetter
from typing import Final

from xlashape.errors import InvalidModuleError, LimitExceededError, XlashapeError
from xlashape.hlo.text.writer.line import LineWriter
from xlashape.hlo.text.writer.printed_module import PrintedModule
from xlashape.hlo.text.writer.templates import PrintedComputation

_MAX_BODY_LEVELS: Final = 100
_MAX_BODIES: Final = 1 << 20
"""The number of bodies within bodies grows exponentially where computations call others twice."""


class ComputationWriter:
    """Writes the computations of one module."""

    def __init__(self, module: PrintedModule) -> None:
        self._module = module
        self._bodies = 0

    def lines(
        self,
        index: int,
        *,
        is_entry: bool,
        order: list[int] | None = None,
        level: int = 0,
        nested: bool = False,
        frontend: bool = True,
    ) -> list[str]:
        """The lines of a computation, each indented, from its header to its closing brace.

        `order` is its schedule, `level` its depth among bodies that are written within bodies. `frontend` says whether
        frontend attributes are written.
        """
        module = self._module
        options = module.options
        computation = module.computations[index]
        order = module.order(index) if order is None else order
        tab = "  " * (options.indent_amount + level)
        own_names = module.instruction_names(computation)
        names = self._names(own_names, order)
        head = "ENTRY " if is_entry else ""
        if not nested and not options.is_in_nested_computation:
            head += f"{module.names[index]} " if options.print_ids else module.percent
        writer = LineWriter(module, computation, names, own_names, level, self._body, frontend=frontend)
        lines = [""]
        with _errors_name_instruction(computation, writer):
            writer.write(order, f"{tab}  ", lines)
            if options.print_program_shape:
                head += self._signature(computation, own_names)
            lines[0] = f"{tab}{head}{{"
        thread = computation.thread
        shows_thread = thread and thread != "main" and options.print_ids
        lines.append(f'{tab}}}, execution_thread="{thread}"' if shows_thread else f"{tab}}}")
        return lines

    def line(self, index: int, instruction: int, order: list[int] | None = None) -> str:
        """One instruction of a computation, by their indices, without `ROOT`. `order` is as for `lines`.

        As in XLA, an instruction alone has no names in place of which numbers could be written.
        """
        module = self._module
        computation = module.computations[index]
        own_names = module.kept_names(index)
        names = own_names
        if module.options.canonicalize_instruction_names:
            names = self._names(own_names, module.order(index) if order is None else order)
        shows_names = not module.options.canonicalize_instruction_names or module.options.is_in_nested_computation
        # The bodies of computations that it calls are indented as it is.
        writer = LineWriter(module, computation, names, own_names, -1, self._body, shows_names=shows_names)
        lines: list[str] = []
        with _errors_name_instruction(computation, writer):
            writer.write([instruction], "  " * module.options.indent_amount, lines)
        text = "\n".join(lines)
        indent = "  " * module.options.indent_amount
        text = text.removeprefix(indent)
        if instruction == computation.root:
            text = text.removeprefix("ROOT ")
        if not shows_names:
            text = text.removeprefix(f"{names[instruction]} = ")
        return indent + text

    def _names(self, own_names: list[str], order: list[int]) -> list[str]:
        """The names to write, by index."""
        if not self._module.options.canonicalize_instruction_names:
            return own_names
        names = [""] * len(own_names)
        for number, i in enumerate(order):
            names[i] = f"tmp_{number}"
        return names

    def _signature(self, computation: PrintedComputation, names: list[str]) -> str:
        percent = len(self._module.percent)
        shapes = self._module.shapes_without_layout
        templates = computation.templates
        parameters = [
            (templates[i].message.parameter_number, f"{names[i][percent:]}: {shapes[templates[i].shape]}")
            for i in computation.notable
            if templates[i].is_parameter
        ]
        parameters.sort(key=itemgetter(0))
        result = shapes[templates[computation.root].shape] if computation.root >= 0 else ""
        return f"({', '.join([text for _, text in parameters])}) -> {result} "

    def _body(self, computation_id: int, level: int, frontend: bool) -> str:
        """The body of a called computation, from its opening brace on, as it is written within another computation."""
        self._bodies += 1
        if level > _MAX_BODY_LEVELS:
            raise LimitExceededError(
                f"computations call each other more than {_MAX_BODY_LEVELS} levels deep",
                limit="body_levels",
                maximum=_MAX_BODY_LEVELS,
                value=level,
            )
        if self._bodies > _MAX_BODIES:
            raise LimitExceededError(
                f"more than {_MAX_BODIES} bodies within bodies", limit="bodies", maximum=_MAX_BODIES, value=self._bodies
            )
        index = self._module.index_of(computation_id)
        return "\n".join(self.lines(index, is_entry=False, level=level, nested=True, frontend=frontend))


@contextmanager
def _errors_name_instruction(computation: PrintedComputation, writer: LineWriter) -> Generator[None, None, None]:
    """Errors within the block name the computation and the instruction that is being written. Those about limits stay as they are."""
    try:
        yield
    except LimitExceededError:
        raise
    except XlashapeError as error:
        name = f"instruction {computation.names[writer.index]!r}: " if writer.index >= 0 else ""
        raise InvalidModuleError(f"computation {computation.name!r}: {name}{error.message}") from error
