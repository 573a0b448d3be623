"""Instructions and computations that are written as HLO text, read as parts of a module.

    line        := 'ROOT'? (name '=')? shape? opcode '(' operands ')' attributes         what a line of HLO text is
    computation := name '{' line+ '}'                                                    one or several; no ENTRY, no HloModule

The text is read by the reader of whole modules, within a module of stand-ins: a parameter for each instruction that the text names,
and a computation of the same signature for each computation that it names.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from xlashape.errors import InvalidArgumentError, ParseError
from xlashape.hlo.editing.draft import Draft, local
from xlashape.hlo.formatting import safe_name
from xlashape.hlo.ops.opcode import Opcode
from xlashape.hlo.structure import LOCAL_ID
from xlashape.hlo.text.reader.module import parse_module
from xlashape.proto import xla
from xlashape.shape import Shape

__all__ = ["Fragment", "Line", "parse_computations", "parse_instruction", "split_line", "words_of"]

_WORD: Final = re.compile(r"[A-Za-z_][\w.\-]*")
_PARAMETER: Final = re.compile(r"(?:[^=]*\s)?parameter\(")
_HEADS: Final = re.compile(r"^\s*(?:HloModule|ENTRY)\b", re.MULTILINE)
_LINE: Final = re.compile(r"(?P<root>ROOT\s+)?(?:%?(?P<name>[\w.\-]+)\s*=(?!=)\s*)?")


class Line(NamedTuple):
    """The parts of a line of HLO text."""

    name: str
    """Empty where the line does not begin with `name =`."""
    is_root: bool
    rest: str
    """What is behind `name =`."""
    text: str
    """The whole line."""


class Fragment(NamedTuple):
    """An instruction that was read, and the computations that it brought along, such as what an asynchronous instruction wraps."""

    instruction: xla.HloInstructionProto
    """Its operands, control predecessors and calls are those of the module."""
    computations: tuple[xla.HloComputationProto, ...]
    fused: frozenset[int]
    """The local ids of the computations that it fuses."""
    payloads: tuple[bytes, ...]
    """What its metadata refers to, by numbers that follow those of the module's payloads."""


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


def words_of(text: str) -> set[str]:
    """The words of a text that may be names."""
    return set(_WORD.findall(text))


def parse_instruction(draft: Draft, computation: xla.HloComputationProto, name: str, line: Line) -> Fragment:
    """The instruction `name` of a computation, of which `line.rest` says shape, opcode, operands and attributes.

    It has no id, and may refer to every other instruction of the computation. Raises ParseError with lines and columns of `line.text`,
    InvalidArgumentError for a parameter.
    """
    if _PARAMETER.match(line.rest):
        raise InvalidArgumentError(
            "a parameter is given its value by the callers of its computation: it cannot be written", field="text"
        )
    words = words_of(line.rest)
    operands = [each for each in computation.instructions if each.name in words and each.name != name]
    stand_ins, called = _stand_ins(draft, words)
    lines = [*stand_ins, f"ENTRY %{_free('fragment', draft)} {{"]
    lines += [f"  %{each.name} = {_shape(each.shape)} parameter({number})" for number, each in enumerate(operands)]
    head = f"  ROOT %{name} = "
    shift = len(head) - (len(line.text) - len(line.rest))
    proto = _parse(lines, f"{head}{line.rest}", ["}"], shift, line.text)
    entry = next(each for each in proto.computations if local(each) == proto.entry_computation_id & LOCAL_ID)
    by_local = {local(each): operands[each.parameter_number].id for each in entry.instructions if each.opcode == Opcode.PARAMETER and each.parameter_number < len(operands)}  # fmt: skip
    if len(entry.instructions) > len(operands) + 1:
        raise InvalidArgumentError("the text has several instructions: take them one by one", field="text")
    found = next(each for each in entry.instructions if local(each) == entry.root_id & LOCAL_ID)
    brought, ids = _brought(draft, proto, called, entry)
    instruction = xla.HloInstructionProto()
    instruction.CopyFrom(found)
    instruction.name = name
    instruction.ClearField("id")
    instruction.operand_ids[:] = [by_local[i & LOCAL_ID] for i in found.operand_ids]
    instruction.control_predecessor_ids[:] = [by_local[i & LOCAL_ID] for i in found.control_predecessor_ids]
    instruction.called_computation_ids[:] = [ids[i & LOCAL_ID] for i in found.called_computation_ids]
    fused = {ids[local(each)] & LOCAL_ID for each in proto.computations if each.is_fusion_computation}
    if instruction.metadata.HasField("metadata_payload"):
        instruction.metadata.metadata_payload.id += len(draft.proto.payloads)
    return Fragment(instruction, brought, frozenset(fused), tuple(proto.payloads))


def parse_computations(draft: Draft, text: str) -> tuple[tuple[xla.HloComputationProto, ...], frozenset[int]]:
    """The computations of a text, with ids of the module; and the local ids of all computations that they fuse.

    Names of their instructions that the module has get a number. Raises ParseError with lines and columns of `text`, and
    InvalidArgumentError for a computation whose name the module has.
    """
    if _HEADS.search(text):
        raise InvalidArgumentError("computations are added without HloModule and ENTRY before them", field="text")
    stand_ins, called = _stand_ins(draft, words_of(text) - _defined(text))
    end = [f"ENTRY %{_free('fragment', draft)} {{", "  ROOT %nothing = pred[] constant(false)", "}"]
    proto = _parse(stand_ins, text, end, 0, text)
    entry = next(each for each in proto.computations if local(each) == proto.entry_computation_id & LOCAL_ID)
    taken = {each.name for each in draft.proto.computations}
    for each in proto.computations[len(called) :]:
        if each.name in taken and local(each) != local(entry):
            raise InvalidArgumentError(f"there is a computation {each.name!r} already")
    brought, ids = _brought(draft, proto, called, entry)
    return brought, frozenset(ids[local(each)] & LOCAL_ID for each in proto.computations if each.is_fusion_computation)


def _defined(text: str) -> set[str]:
    """The names that the text may give to computations: those before a brace or a signature."""
    return {match[1] for match in re.finditer(r"%?([A-Za-z_][\w.\-]*)\s*(?:\([^{}]*\)\s*->[^{}]*)?\{", text)}


def _parse(before: Iterable[str], text: str, after: Iterable[str], shift: int, written: str) -> xla.HloModuleProto:
    """The module of lines before a text, the text and lines after it. `shift` characters of the text's first line are not the user's."""
    head = ["HloModule fragment", *before]
    try:
        return parse_module("\n".join([*head, text, *after]))
    except ParseError as error:
        lines = written.split("\n")
        # A text that ends too soon is found wanting in the lines behind it.
        line = min(max(error.line - len(head), 1), len(lines))
        column = error.column - (shift if line == 1 else 0)
        if error.line - len(head) > len(lines):
            column = len(lines[-1]) + 1
        shown = lines[line - 1]
        column = min(max(column, 1), len(shown) + 1)
        whole = len(shown) <= 300
        raise ParseError(
            error.message,
            line=line,
            column=column,
            source_line=shown if whole else "",
            caret=column - 1 if whole else 0,
            expected=error.expected,
            found=error.found,
            field="text",
        ) from None


def _stand_ins(draft: Draft, words: set[str]) -> tuple[list[str], list[xla.HloComputationProto]]:
    """A computation as text, of the same signature, for each computation that `words` name; and those computations."""
    called = [
        each
        for each in draft.proto.computations
        if each.name in words and safe_name(each.name) == each.name and not draft.is_entry(each)
    ]
    lines: list[str] = []
    for computation in called:
        parameters = {
            each.parameter_number: each for each in computation.instructions if each.opcode == Opcode.PARAMETER
        }
        lines.append(f"%{computation.name} {{")
        lines += [
            f"  %p.{number} = {_shape(parameters[number].shape)} parameter({number})" for number in sorted(parameters)
        ]
        root = next(each for each in computation.instructions if local(each) == computation.root_id & LOCAL_ID)
        given = ", ".join([f"%p.{number}" for number in sorted(parameters)])
        lines.append(f'  ROOT %r = {_shape(root.shape)} custom-call({given}), custom_call_target="stand-in"')
        thread = computation.execution_thread
        lines.append(f'}}, execution_thread="{thread}"' if thread else "}")
    return lines, called


def _brought(
    draft: Draft,
    proto: xla.HloModuleProto,
    called: list[xla.HloComputationProto],
    entry: xla.HloComputationProto,
) -> tuple[tuple[xla.HloComputationProto, ...], dict[int, int]]:
    """The computations that a fragment adds, with ids and names for the module; and the ids in the module by the ids in the fragment."""
    ids: dict[int, int] = {local(each): real.id for each, real in zip(proto.computations, called, strict=False)}
    new = [each for each in proto.computations[len(called) :] if local(each) != local(entry)]
    first = draft.new_computation_id() if new else 0
    ids.update({local(each): first + number for number, each in enumerate(new)})
    taken: set[str] = set()
    brought: list[xla.HloComputationProto] = []
    names = {each.name for each in draft.proto.computations}
    for each in new:
        copy = xla.HloComputationProto()
        copy.CopyFrom(each)
        copy.id = ids[local(each)]
        copy.name = _unused(each.name, names)
        names.add(copy.name)
        _renumber(copy, ids)
        renamed: dict[str, str] = {}
        for instruction in copy.instructions:
            renamed[instruction.name] = draft.free_name(instruction.name, taken)
            instruction.name = renamed[instruction.name]
            taken.add(instruction.name)
        copy.program_shape.parameter_names[:] = [renamed[name] for name in each.program_shape.parameter_names]
        brought.append(copy)
    return tuple(brought), ids


def _renumber(computation: xla.HloComputationProto, ids: Mapping[int, int]) -> None:
    """Gives instructions the ids of their computation in the module. `ids` has the ids of computations by local ids."""
    upper = computation.id << 32
    computation.root_id = upper | (computation.root_id & LOCAL_ID)
    for instruction in computation.instructions:
        instruction.id = upper | local(instruction)
        instruction.operand_ids[:] = [upper | (i & LOCAL_ID) for i in instruction.operand_ids]
        instruction.control_predecessor_ids[:] = [upper | (i & LOCAL_ID) for i in instruction.control_predecessor_ids]
        instruction.called_computation_ids[:] = [ids[i & LOCAL_ID] for i in instruction.called_computation_ids]


def _free(name: str, draft: Draft) -> str:
    return _unused(name, {each.name for each in draft.proto.computations})


def _unused(name: str, names: set[str]) -> str:
    """`name`, with a number if it is in use."""
    number, free = 0, name
    while free in names:
        number += 1
        free = f"{name}.{number}"
    return free


def _shape(proto: xla.ShapeProto) -> str:
    return str(Shape.from_proto(proto))
