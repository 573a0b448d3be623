"""Reads the text of an edit: an instruction, or computations, that become a part of a module. The text may name
instructions and computations of that module.

    line        := 'ROOT'? (name '=')? shape? opcode '(' operands ')' attributes
    computation := name '{' line+ '}'                                             one or several; no ENTRY, no HloModule

The reader of modules reads the text. The module itself does not change: `Fragment` has what must be added to it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

from xlashape.base.text import Source
from xlashape.errors import InvalidArgumentError, ParseError
from xlashape.hlo.ir import HloComputation, HloInstruction, ModuleData
from xlashape.hlo.module_proto.frame_tables import FrameTables
from xlashape.hlo.ops.opcode import Opcode
from xlashape.hlo.text.reader.body import parse_body
from xlashape.hlo.text.reader.instruction import begins_instruction, parse_right
from xlashape.hlo.text.reader.module import finish, parse_computations
from xlashape.hlo.text.reader.state import Body, State

_HEADS: Final = re.compile(r"^[^\S\n]*(?:HloModule|ENTRY)\b", re.MULTILINE)
_LINE: Final = re.compile(r"(?P<root>ROOT\s+)?(?:%?(?P<name>[\w.\-]+)\s*=(?!=)\s*)?")


class Line(NamedTuple):
    """The parts of a line of HLO text."""

    name: str
    """Empty where the line does not begin with `name =`."""
    is_root: bool
    rest: str
    """The part after `name =`."""
    text: str
    """The whole line."""


class Fragment(NamedTuple):
    """What was read from text, and what must be added to the module with it."""

    instruction: HloInstruction | None
    """The instruction, in no list of instructions yet."""
    computations: list[HloComputation]
    """New computations, such as the one that an asynchronous instruction wraps. Their names may be taken."""
    fused: list[HloComputation]
    """The computations that fusions of the text call."""
    payloads: list[bytes]
    """Payloads of metadata that the module does not have yet. Their numbers follow those of the module's."""


class _ModuleFrames(FrameTables):
    """The stack frames of a module that is edited: text names them by their numbers, and adds none."""

    def __init__(self, module: ModuleData) -> None:
        super().__init__()
        self._count = len(module.head.stack_frame_index.stack_frames)

    def number(self, frame: int) -> int:
        return frame if 0 < frame <= self._count else 0


class _Payloads(dict[bytes, int]):
    """Payload of metadata → its number. New ones follow all those of the module, which may have one of them twice."""

    def __init__(self, known: Sequence[bytes]) -> None:
        super().__init__({payload: number for number, payload in enumerate(known)})
        self.new: list[bytes] = []
        self._next = len(known)

    def setdefault(self, key: bytes, default: int = 0, /) -> int:  # noqa: ARG002 - the number is known here
        if key not in self:
            self[key] = self._next + len(self.new)
            self.new.append(key)
        return self[key]


def split_line(text: str) -> Line:
    """The parts of a line. Raises InvalidArgumentError if the line is not a string.

    >>> split_line("ROOT %n = f32[4] negate(p)")
    Line(name='n', is_root=True, rest='f32[4] negate(p)', text='ROOT %n = f32[4] negate(p)')
    """
    # The check is for callers without types.
    if not isinstance(text, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InvalidArgumentError(f"text takes a line of HLO text, not {type(text).__name__}", field="text")
    text = text.strip()
    head = _LINE.match(text)
    assert head is not None  # every part of the pattern may be empty
    return Line(head["name"] or "", head["root"] is not None, text[head.end() :], text)


def read_instruction(computation: HloComputation, name: str, line: Line) -> Fragment:
    """Reads the instruction `name` of a computation from `line.rest`: its shape, opcode, operands and attributes. It
    may refer to every other instruction of the computation.

    Raises ParseError with lines and columns of `line.text`, InvalidArgumentError for a parameter and for a text of
    several instructions.
    """
    state = _state(computation.module, line.text)
    body = Body(state, computation, parse_body)
    body.names.update(computation.by_name())
    body.names.pop(name, None)
    cursor = state.cursor
    cursor.at = len(line.text) - len(line.rest)
    try:
        made = parse_right(body, name)
        state.raise_errors()
        assert made is not None
        if made.opcode is Opcode.PARAMETER:
            raise InvalidArgumentError(
                "a parameter is given its value by the callers of its computation: it cannot be written", field="text"
            )
        if len(body.instructions) > 1 or begins_instruction(cursor):
            raise InvalidArgumentError("the text has several instructions: take them one by one", field="text")
        if not cursor.at_end():
            cursor.fail("the end of the instruction")
    except ParseError as error:
        raise error.within("text") from None
    return _fragment(state, made)


def read_computations(module: ModuleData, text: str) -> Fragment:
    """Reads the computations of a text. Raises ParseError with lines and columns of `text`, and InvalidArgumentError
    for a computation whose name the module already has, and for a text without computations."""
    # The check is for callers without types.
    if not isinstance(text, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InvalidArgumentError(f"text takes HLO text, not {type(text).__name__}", field="text")
    if _HEADS.search(text):
        raise InvalidArgumentError("computations are added without HloModule and ENTRY before them", field="text")
    state = _state(module, text)
    taken = dict(state.computation_by_name)
    try:
        if not state.cursor.at_end():
            parse_computations(state)
        state.raise_errors()
    except ParseError as error:
        raise error.within("text") from None
    for each in state.computations:
        # The reader itself names computations that are written within an instruction: they get another name.
        is_named = state.computation_by_name.get(each.name) is each
        if is_named and (each.name in taken or each.name == module.entry.name):
            raise InvalidArgumentError(f"there is a computation {each.name!r} already", field="text")
    if not state.computations:
        raise InvalidArgumentError("the text has no computation", field="text")
    return _fragment(state, None)


def _state(module: ModuleData, text: str) -> State:
    """The state of a reader that knows the computations of a module that a text may call."""
    state = State(Source(text), module)
    entry = module.entry
    state.known = frozenset(module.computations)
    state.computation_by_name.update({each.name: each for each in module.computations if each is not entry})
    return state


def _fragment(state: State, made: HloInstruction | None) -> Fragment:
    payloads = _Payloads(state.module.head.payloads)
    finish(state, _ModuleFrames(state.module), payloads, more=() if made is None else (made,))
    return Fragment(made, state.computations, state.fused, payloads.new)
