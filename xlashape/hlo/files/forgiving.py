"""Makes a module of HLO text as people have it in hand: lines of a log, a part of a dump, a dump that is cut off.

    text        with prefixes of a log, colours, quotation marks and fences of Markdown; other lines before, between and
                behind those of HLO
    fragment    instructions without their computation, computations without a module or without an ENTRY
    names       that are not defined: an operand becomes a parameter of the shape written beside it, or of the shape of
                the result where the operation is elementwise; a computation becomes one that computes something
                unknown; a control predecessor is left out. An instruction with an operand of unknown shape becomes a
                parameter itself
    cut off     what stands there whole is kept; of the header, what it says of arguments and results is left out

`mended` gives the texts that are to be tried, each with notes that say what was done: `unwrapped` does the first of
these, `completed` the rest. They read lines, so text that has several instructions in a line stays as it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from xlashape.base.pasted import clean
from xlashape.errors import XlashapeError
from xlashape.hlo.ops.opcode import Opcode
from xlashape.hlo.ops.operation import CannotInfer, Given, ReadPattern
from xlashape.hlo.ops.registry import operation_of
from xlashape.limits import spend
from xlashape.proto import xla
from xlashape.shape import Shape
from xlashape.shape.xla_util import shape_util

_SHOWN: Final = 5
_LONGEST_PREFIX: Final = 200
_FENCE: Final = re.compile(r"\s*(?:```|~~~)")
_MODULE: Final = re.compile(r"\s*HloModule\s+[^\s,]")
_COMPUTATION: Final = re.compile(r"(ENTRY\b)?[ \t]*%?([\w.\-]+)[ \t]*([({])")
_TABLE: Final = re.compile(r"\s*(?:(?:FileNames|FunctionNames|FileLocations|StackFrames)\s*$|\d+ [\"{])")
_CLOSE: Final = re.compile(r"\s*\}[^{}]*")
_INSTRUCTION: Final = re.compile(r"\s*(ROOT\s+)?%?([\w.\-]+)\s*=\s*(?=[a-z(])")
_OPCODE: Final = re.compile(r"\s*([a-z][\w\-]*)\(")
# Strings and comments reach to the end of the text where they have no end: `end` is empty then.
_TOKEN: Final = re.compile(
    r'"(?:[^"\\]|\\.)*(?P<end>"?)|/\*(?:[^*]|\*(?!/))*(?P<stop>(?:\*/)?)|//[^\n]*|[(){}\[\],]', re.DOTALL
)
_CALLS: Final = re.compile(
    r",\s*(calls|to_apply|body|condition|select|scatter|branch_computations|called_computations|true_computation"
    r"|false_computation|comparator|async_wrapped|update_computation)=(?:\{([^{}]*)\}|(%?[\w.\-]+))"
)
_PREDECESSORS: Final = re.compile(r",\s*control-predecessors=\{[^{}]*\}")
_ABOUT_ENTRY: Final = re.compile(r",\s*(?:entry_computation_layout|input_output_alias|buffer_donor)=[{(]")
_NAME: Final = re.compile(r"[\w.\-]+")
_NUMBER: Final = re.compile(r"\bparameter\(\s*(\d{1,9})\s*\)")
_ELEMENTS: Final = re.compile(r"(?<!\w)[a-z]\w{0,20}(?=\[)")


class Text(NamedTuple):
    """A text of HLO, and what was done to get it."""

    text: str
    notes: tuple[str, ...]
    is_part: bool = False
    """Whether the program had more than the text, or other instructions."""


class _Instruction(NamedTuple):
    """An instruction, as its lines."""

    text: str
    name: str
    is_root: bool
    shape: str
    opcode: str
    operands: Sequence[tuple[str, str]]
    """The operands: the shape that is written beside each, empty for none, and its name."""


class _Computation:
    """A computation of the text. `name` is empty for lines that are in none."""

    def __init__(self, name: str, is_entry: bool) -> None:
        self.name = name
        self.is_entry = is_entry
        self.is_cut = True
        self.instructions: list[_Instruction] = []


def mended(text: str) -> Iterator[Text]:
    """Texts that may be a module where `text` itself is none, those with the fewest changes first."""
    plain = unwrapped(text)
    if plain.notes:
        yield plain
    for drop_last in (False, True):
        made = completed(plain.text, drop_last=drop_last)
        if made is not None:
            yield Text(made.text, (*plain.notes, *made.notes), is_part=True)


def unwrapped(text: str) -> Text:
    r"""The text without prefixes of logs, colours, quotation marks, fences and lines before `HloModule`. The lines keep
    their numbers.

    >>> unwrapped("I0101 10:00:00.000000  77 dump.cc:72] HloModule m\nI0101 10:00:00.000001  77 dump.cc:72] }").text
    'HloModule m\n}'
    """
    cleaned = _without_own_prefix(clean(text))
    notes: list[str] = []
    if cleaned != text.replace("\r\n", "\n"):
        notes.append("Prefixes of log lines, colours and quotation marks were left out.")
    lines = cleaned.split("\n")
    begin = next((number for number, line in enumerate(lines) if _MODULE.match(line)), 0)
    before = sum(1 for line in lines[:begin] if line.strip() and not _FENCE.match(line))
    begins = [line for line in lines[:begin] if _opened(line) or _INSTRUCTION.match(line)]
    if begins:
        begin = before = 0  # HLO stands before it
    if before:
        notes.append(f"{_lines(before)} before the module {_were(before)} left out.")
    fences = 0
    for number, line in enumerate(lines):
        if number < begin or _FENCE.match(line):
            fences += number >= begin
            lines[number] = ""
    if fences:
        notes.append("Fences of Markdown were left out.")
    return Text("\n".join(lines), tuple(notes))


def _without_own_prefix(text: str) -> str:
    r"""The text without what stands before the header of the module, on that line and on those after it; numbers in it
    differ.

    >>> _without_own_prefix("12:07 job 7> HloModule m\n12:08 job 7> }")
    'HloModule m\n}'
    """
    at = text.find("HloModule ")
    begin = text.rfind("\n", 0, max(0, at)) + 1
    before = text[begin:at].rstrip()
    if not before or len(before) > _LONGEST_PREFIX:
        return text
    prefix = "".join([r"\d+" if part.isdigit() else re.escape(part) for part in re.split(r"(\d+)", before)])
    body, count = re.subn(f"^{prefix}[ \t]?", "", text[begin:], flags=re.MULTILINE)
    return text[:begin] + body if count > 1 else text


def completed(text: str, *, drop_last: bool = False) -> Text | None:
    """A module that has what stands whole in the text, so that it can be parsed; None for text without an instruction.
    `drop_last` leaves out the last instruction of a text that is cut off.

    >>> made = completed("%a.2 = f32[4]{0} add(f32[4]{0} %x, f32[4]{0} %x)")
    >>> print(made.text)
    HloModule lines
    <BLANKLINE>
    ENTRY %lines {
      %x = f32[4]{0} parameter(0)
    %a.2 = f32[4]{0} add(f32[4]{0} %x, f32[4]{0} %x)
    }
    >>> made.notes
    ('x is not defined: it is a parameter of the shape beside it.',)
    """
    read = _Reader(text)
    computations = [each for each in read.computations if each.instructions or not each.is_cut]
    notes = list(read.notes)
    last = computations[-1] if computations else None
    is_cut = read.is_cut or (last is not None and last.is_cut and bool(last.name))
    if drop_last and not (is_cut and last is not None and last.instructions):
        return None
    defined = {each.name for each in computations}
    if last is not None and last.instructions and is_cut and not text.endswith("\n"):
        called = [_names(match[2] or match[3]) for match in _CALLS.finditer(last.instructions[-1].text)]
        drop_last |= not defined.issuperset([name for names in called for name in names])
    if drop_last and last is not None:
        last.instructions.pop()
        read.has_part = True
    computations = [each for each in computations if each.instructions]
    if not computations:
        return None
    if read.has_part:
        notes.append("The last line is cut off and was left out.")
    if is_cut and last is not None:
        where = f"computation {last.name}" if last.name else "its lines"
        notes.append(f"The text ends within {where}: the rest is missing, and sums and shares are those of this part.")
    names = {each.name for each in computations}
    for each in computations:
        if not each.name:
            each.name = next(name for number in range(len(names) + 1) if (name := f"lines{number or ''}") not in names)
            names.add(each.name)
    if not any(each.is_entry for each in computations):
        entry = computations[-1]
        if read.header and not is_cut:
            notes.append("The text has no ENTRY.")
        if len(computations) > 1:
            notes.append(f"The entry computation is not in the text: {entry.name}, the last one, stands for it.")
        entry.is_entry = True
    made = _Completion(computations)
    parts = [read.header or "HloModule lines", *made.unknown]
    for each in computations:
        body = "\n".join([*made.parameters[each], *made.texts[each]])
        parts.append(f"{'ENTRY ' if each.is_entry else ''}%{each.name} {{\n{body}\n}}")
    return Text("\n\n".join(parts), (*notes, *made.notes()), is_part=True)


class _Reader:
    """The lines of a text as computations."""

    def __init__(self, text: str) -> None:
        self.header = ""
        self.computations: list[_Computation] = []
        self.notes: list[str] = []
        self.is_cut = False
        """Whether the text ends within an instruction or the header."""
        self.has_part = False
        """Whether an instruction is not there as a whole, and was left out."""
        others: list[tuple[int, str]] = []
        pending: list[str] = []
        depth = 0
        for number, line in enumerate(text.split("\n"), 1):
            spend()
            begins = _INSTRUCTION.match(line) or _MODULE.match(line)
            if depth:
                if begins is None and _opened(line) is None:
                    pending.append(line)
                    depth = _depth(line, depth)
                    if not depth:
                        self._add("\n".join(pending))
                    continue
                others.append((number - len(pending), pending[0]))  # it does not end where another one begins
                depth = 0
            if begins is not None:
                pending = [line]
                depth = _depth(line, 0)
                if not depth:
                    self._add(line)
                continue
            opened = _opened(line)
            if opened is not None:
                self.computations.append(opened)
            elif _CLOSE.fullmatch(line):
                self._within().is_cut = False
            elif self.header and not self.computations and _TABLE.match(line):
                self.header += f"\n{line}"
            elif line.strip() and not line.lstrip().startswith(("//", "/*")):
                others.append((number, line))
        if depth:
            self.is_cut = self.has_part = True
        elif others and others[-1][0] == text.rstrip().count("\n") + 1 and self.computations and self.header:
            self.is_cut = self.has_part = True
            others.pop()
        if others:
            number, line = others[0]
            count = f"{len(others)} lines are no HLO and were left out, the first is line" if others[1:] else "Line"
            verb = "" if others[1:] else " is no HLO and was left out"
            hint = " ('#' begins no comment)" if line.lstrip().startswith("#") else ""
            self.notes.append(f"{count} {number}{verb}: {line.strip()[:60]!r}{hint}.")

    def _within(self) -> _Computation:
        """The computation that lines are in."""
        if not self.computations or not self.computations[-1].is_cut:
            self.computations.append(_Computation("", False))
        return self.computations[-1]

    def _add(self, text: str) -> None:
        if _MODULE.match(text):
            if not self.header:
                self.header = _without_entry(text)
                if self.header != text:
                    self.notes.append("What the header says of arguments, results and their aliases was left out.")
            return
        made = _instruction(text)
        if made is not None:
            self._within().instructions.append(made)


class _Completion:
    """What the computations of a text lack: parameters, and computations that they call."""

    def __init__(self, computations: Sequence[_Computation]) -> None:
        self.parameters: dict[_Computation, list[str]] = {}
        self.texts: dict[_Computation, list[str]] = {}
        self.unknown: list[str] = []
        """The texts of computations that are called and not there."""
        self._operands: dict[str, None] = {}
        self._called: dict[str, None] = {}
        self._guesses: dict[str, None] = {}
        self._given: dict[str, None] = {}
        self._missing = self._predecessors = 0
        defined = {each.name for each in computations}
        for computation in computations:
            shapes = {each.name: each.shape for each in computation.instructions}
            numbers = [_number(each.text) for each in computation.instructions if each.opcode == "parameter"]
            count = max(numbers, default=-1) + 1
            missing = sorted(set(range(count)).difference(numbers))
            made = [f"  %missing_parameter.{number} = token[] parameter({number})" for number in missing]
            texts: list[str] = []
            self._missing += len(missing)
            for each in computation.instructions:
                lacking = [(shape, name) for shape, name in each.operands if name not in shapes]
                guess = _guessed(each, shapes) if lacking else ""
                if not all(shape or guess for shape, _ in lacking):
                    root = "ROOT " if each.is_root else ""
                    texts.append(f"  {root}%{each.name} = {each.shape} parameter({count})")
                    self._given[each.name] = None
                    count += 1
                    continue
                for shape, name in dict.fromkeys(lacking):
                    if name not in shapes:
                        made.append(f"  %{name} = {shape or guess} parameter({count})")
                        shapes[name] = shape or guess
                        (self._operands if shape else self._guesses)[name] = None
                        count += 1
                texts.append(self._text(each, shapes, defined))
            self.parameters[computation] = made
            self.texts[computation] = texts

    def _text(self, instruction: _Instruction, shapes: dict[str, str], defined: set[str]) -> str:
        text = instruction.text
        found = _PREDECESSORS.search(text)
        if found and any(name not in shapes for name in _names(found[0].partition("{")[2])):
            text = text.replace(found[0], "", 1)
            self._predecessors += 1
        operands = [shape or shapes.get(name, "") for shape, name in instruction.operands]
        for match in _CALLS.finditer(text):
            for number, name in enumerate(_names(match[2] or match[3])):
                if name not in defined:
                    defined.add(name)
                    self._called[name] = None
                    parameters, result = _signature(match[1], number, instruction.shape, operands)
                    self.unknown.append(_unknown(name, parameters, result))
        return text

    def notes(self) -> Iterator[str]:
        """What was made up."""
        for names, one, many in (
            (
                [*self._operands],
                "is not defined: it is a parameter of the shape beside it",
                "are not defined: they are parameters of the shapes beside them",
            ),
            (
                [*self._guesses],
                "is not defined: it is a parameter of the shape that an elementwise operation makes of it",
                "are not defined: they are parameters of the shapes that elementwise operations make of them",
            ),
            (
                [*self._given],
                "has an operand whose shape the text does not say: its result is taken as a parameter",
                "have operands whose shapes the text does not say: their results are taken as parameters",
            ),
            (
                [*self._called],
                "is called and not in the text: what it computes is not known",
                "are called and not in the text: what they compute is not known",
            ),
        ):
            if names:
                shown = ", ".join(names[:_SHOWN]) + (f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else "")
                yield f"{shown} {many if names[1:] else one}."
        if self._missing:
            yield f"{self._missing} of the parameters are not in the text: tokens stand for them."
        if self._predecessors:
            yield "Control predecessors that are not defined were left out."


def _opened(line: str) -> _Computation | None:
    """The computation that a line opens, such as `ENTRY %main (a: f32[4]) -> f32[4] {`."""
    before = line.split("//", 1)[0].strip()
    head = _COMPUTATION.match(before)
    if head is None or head[2] == "HloModule":
        return None
    if (
        not before.endswith("{")
        or (head[3] == "{") != (len(before) == head.end())
        or (head[3] == "(" and "->" not in before)
    ):
        return None
    return _Computation(head[2], head[1] is not None)


def _instruction(text: str) -> _Instruction | None:
    head = _INSTRUCTION.match(text)
    if head is None:
        return None
    at = head.end()
    end = _shape_end(text, at)
    opcode = _OPCODE.match(text, end)
    operands: list[tuple[str, str]] = []
    if opcode is not None and opcode[1] not in ("constant", "parameter"):
        for part in _parts(text[opcode.end() : _closing(text, opcode.end())]):
            *shape, name = part.split() or [""]
            name = name.removeprefix("%").split("#", 1)[0]
            if _NAME.fullmatch(name):
                operands.append((" ".join(shape), name))
    return _Instruction(
        text, head[2], head[1] is not None, text[at:end].strip(), opcode[1] if opcode is not None else "", operands
    )


def _guessed(instruction: _Instruction, shapes: dict[str, str]) -> str:
    """The shape of an elementwise instruction whose operands without a shape have the shape of its result; empty where
    that does not follow."""
    row = operation_of(instruction.opcode)
    if row.infer is None or row.reads is not ReadPattern.SAME or row.opcode is Opcode.COMPARE:
        return ""
    if not row.operands.least <= len(instruction.operands) <= row.operands.most:
        return ""
    try:
        result = Shape.parse(instruction.shape)
        operands = [Shape.parse(shape or shapes.get(name) or instruction.shape) for shape, name in instruction.operands]
        inferred = row.infer(Given(xla.HloInstructionProto(), operands))
    except (CannotInfer, XlashapeError):
        return ""
    return instruction.shape if shape_util.compatible(inferred, result) else ""


def _shape_end(text: str, at: int) -> int:
    """Where the shape that begins at an offset ends."""
    if text.startswith("(", at):
        return _closing(text, at + 1) + 1
    while at < len(text) and not text[at].isspace():
        at = _closing(text, at + 1) + 1 if text[at] in "[{(" else at + 1
    return at


def _closing(text: str, at: int) -> int:
    """The offset of the bracket that closes what was opened before an offset; the end of the text without one."""
    depth = 1
    for match in _TOKEN.finditer(text, at):
        depth += _step(match[0])
        if not depth:
            return match.start()
    return len(text)


def _depth(line: str, depth: int) -> int:
    """The number of brackets that are open at the end of a line; never 0 within a string or a comment."""
    for match in _TOKEN.finditer(line):
        if match["end"] == "" or match["stop"] == "":
            return depth + 1
        depth = max(0, depth + _step(match[0]))
    return depth


def _step(token: str) -> int:
    return 1 if token in ("(", "[", "{") else -1 if token in (")", "]", "}") else 0


def _parts(text: str) -> Iterator[str]:
    """The parts between commas that are in no brackets, without comments."""
    parts: list[str] = []
    depth = at = 0
    for match in _TOKEN.finditer(text):
        if match[0].startswith("/"):
            parts.append(text[at : match.start()])
            at = match.end()
        elif match[0] == "," and not depth:
            yield "".join([*parts, text[at : match.start()]])
            parts, at = [], match.end()
        depth += _step(match[0])
    yield "".join([*parts, text[at:]])


def _names(text: str) -> list[str]:
    return _NAME.findall(text)


def _number(text: str) -> int:
    found = _NUMBER.search(text)
    return int(found[1]) if found else 0


def _signature(attribute: str, number: int, result: str, operands: Sequence[str]) -> tuple[list[str], str]:
    """The shapes of the parameters and of the result of a computation that an instruction calls by an attribute, whose
    computation of this number it is."""
    if attribute in ("calls", "called_computations", "async_wrapped"):
        return [*operands], result
    if attribute == "body":
        return [result], result
    if attribute == "condition":
        return [result], "pred[]"
    if attribute in ("branch_computations", "true_computation", "false_computation"):
        at = {"true_computation": 1, "false_computation": 2}.get(attribute, number + 1)
        return [*operands[at : at + 1]], result
    scalars = [f"{each.partition('[')[0]}[]" for each in operands]
    if attribute in ("select", "comparator"):
        return [scalars[0], scalars[0]] if scalars else [], "pred[]"
    arrays = [each.group() + "[]" for each in _ELEMENTS.finditer(result)]
    both = [*arrays, *arrays]
    return both, arrays[0] if len(arrays) == 1 else f"({', '.join(arrays)})"


def _unknown(name: str, parameters: Sequence[str], result: str) -> str:
    """A computation that computes something unknown of its parameters."""
    lines = [f"  %{name}.p{number} = {shape} parameter({number})" for number, shape in enumerate(parameters)]
    operands = ", ".join([f"{shape} %{name}.p{number}" for number, shape in enumerate(parameters)])
    root = f'  ROOT %{name}.unknown = {result} custom-call({operands}), custom_call_target="unknown"'
    return "\n".join([f"%{name} {{", *lines, root, "}"])


def _without_entry(header: str) -> str:
    """A header without what it says of the arguments and results of the entry computation."""
    while (found := _ABOUT_ENTRY.search(header)) is not None:
        header = header[: found.start()] + header[_closing(header, found.end()) + 1 :]
    return header


def _lines(count: int) -> str:
    return "1 line" if count == 1 else f"{count:,} lines"


def _were(count: int) -> str:
    return "was" if count == 1 else "were"
