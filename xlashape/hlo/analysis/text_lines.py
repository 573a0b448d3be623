"""The text of a module as numbered lines, and the lines that define its computations and instructions. Callers that
show a part of the text find the part here.

>>> text = TextLines.of(HloModule.parse("HloModule m ENTRY main { p = f32[8] parameter(0) ROOT n = f32[8] negate(p) }"))
>>> text.line_of("main"), text.line_of("n"), text.lines[text.line_of("n")]
(2, 4, '  ROOT %n = f32[8]{0} negate(%p)')
>>> text.find("f32[8]{0} ")
[3, 4]
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from xlashape.base.similar import did_you_mean
from xlashape.errors import NotFoundError
from xlashape.hlo.module import HloModule
from xlashape.limits import spend

_COMPUTATION: Final = re.compile(r"(?:ENTRY )?%?([\w.\-]+) .*\{$")
_INSTRUCTION: Final = re.compile(r" +(?:ROOT )?%?([\w.\-]+) = ")


class TextLines(NamedTuple):
    """The lines of a module's text. Lines are counted from 0."""

    lines: list[str]
    """The lines without their line ends."""
    computations: dict[str, int]
    """Name of a computation → the number of the line in which it begins, in the order of the text."""
    instructions: list[tuple[int, str]]
    """(number of the line, name) for each instruction, in the order of the text."""

    @classmethod
    def of(cls, module: HloModule) -> TextLines:
        """The lines of the text that XLA writes by default."""
        lines = module.to_text().rstrip("\n").split("\n")
        computations: dict[str, int] = {}
        instructions: list[tuple[int, str]] = []
        for number, line in enumerate(lines):
            spend(1)
            if line.startswith(" "):
                if computations and (match := _INSTRUCTION.match(line)):
                    instructions.append((number, match[1]))
            elif number and line.endswith("{") and (match := _COMPUTATION.match(line)):
                computations[match[1]] = number
        return cls(lines, computations, instructions)

    def line_of(self, name: str, computation: str = "") -> int:
        """The line that defines the instruction or computation `name`. With `computation`, the line of the instruction
        in that computation. Raises NotFoundError if there is none.
        """
        name, computation = name.removeprefix("%"), computation.removeprefix("%")
        if not computation and name in self.computations:
            return self.computations[name]
        first, last = 0, len(self.lines)
        if computation:
            if computation not in self.computations:
                raise _missing("computation", computation, self.computations)
            first = self.computations[computation]
            last = min([at for at in self.computations.values() if at > first], default=last)
        for number, each in self.instructions:
            if each == name and first <= number < last:
                return number
        raise _missing("instruction", name, [each for number, each in self.instructions if first <= number < last])

    def find(self, text: str) -> list[int]:
        """The numbers of the lines that hold a text, whether its letters are upper or lower case."""
        wanted = text.lower()
        found: list[int] = []
        for number, line in enumerate(self.lines):
            spend(1)
            if wanted in line.lower():
                found.append(number)
        return found


def _missing(kind: str, name: str, names: dict[str, int] | list[str]) -> NotFoundError:
    return NotFoundError(
        f"there is no {kind} {name[:200]!r}{did_you_mean(name, list(names)[:10_000])}", kind=kind, name=name
    )
