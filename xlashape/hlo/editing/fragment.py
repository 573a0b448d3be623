"""Reads the text of an edit as a fragment: an instruction or computations that become a part of the edited module.

    line        := 'ROOT'? (name '=')? shape? opcode '(' operands ')' attributes
    computation := name '{' line+ '}'                                             one or several; no ENTRY, no HloModule

The reader of modules reads the text; it gets the instructions and computations that the text may name. The functions
here then give the result ids and names that the module does not use yet. The last two functions apply a new layout to a
shape, and to a literal, whose elements they reorder.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from xlashape.errors import InvalidArgumentError, InvalidShapeError, ParseError
from xlashape.hlo.editing.draft import Draft, local
from xlashape.hlo.literal.data import from_raw, raw, row_major_positions
from xlashape.hlo.module_proto.structure import LOCAL_ID
from xlashape.hlo.ops.opcode import Opcode
from xlashape.hlo.text.reader.scope import Scope, Signature, parse_computations_in, parse_instruction_in
from xlashape.proto import xla
from xlashape.shape import Layout, Shape

_WORD: Final = re.compile(r"[A-Za-z_][\w.\-]*")
_HEADS: Final = re.compile(r"^[^\S\n]*(?:HloModule|ENTRY)\b", re.MULTILINE)
_BEFORE_SIGNATURE: Final = re.compile(r"(?<![\w.\-])([A-Za-z_][\w.\-]*)\s*\(")
_RESULT: Final = re.compile(r"\)\s*->")
_LAST_WORD: Final = re.compile(r"(?<![\w.\-])([A-Za-z_][\w.\-]*)\s*\Z")
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
    """An instruction that was read from text, and what must be added to the module with it."""

    instruction: xla.HloInstructionProto
    """The instruction. Its operands, control predecessors and calls have the ids of the edited module."""
    computations: tuple[xla.HloComputationProto, ...]
    """New computations, such as the one that an asynchronous instruction wraps."""
    fused: frozenset[int]
    """The local ids of the computations that the instruction fuses."""
    payloads: tuple[bytes, ...]
    """Payloads that the instruction's metadata refers to, by numbers that follow those of the module's payloads."""


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
    """Reads the instruction `name` of a computation from `line.rest`: its shape, opcode, operands and attributes.

    The instruction has no id. It may refer to every other instruction of the computation. Raises ParseError with lines
    and columns of `line.text`, InvalidArgumentError for a parameter.
    """
    words = words_of(line.rest)
    operands = [each for each in computation.instructions if each.name in words and each.name != name]
    called = _called(draft, words)
    scope = Scope([(each.name, each.shape) for each in operands], [_signature(each) for each in called])
    try:
        proto = parse_instruction_in(scope, line.text, len(line.text) - len(line.rest), name)
    except ParseError as error:
        raise error.within("text") from None
    owner = proto.computations[-1]
    by_local = {
        local(each): operands[each.parameter_number].id
        for each in owner.instructions
        if each.opcode == Opcode.PARAMETER
    }
    found = next(each for each in owner.instructions if local(each) == owner.root_id & LOCAL_ID)
    brought, ids = _brought(draft, proto, called, proto.computations[len(called) : -1])
    instruction = xla.HloInstructionProto()
    instruction.CopyFrom(found)
    instruction.name = name
    instruction.ClearField("id")
    instruction.operand_ids[:] = [by_local[i & LOCAL_ID] for i in found.operand_ids]
    instruction.control_predecessor_ids[:] = [by_local[i & LOCAL_ID] for i in found.control_predecessor_ids]
    instruction.called_computation_ids[:] = [ids[i & LOCAL_ID] for i in found.called_computation_ids]
    if instruction.metadata.HasField("metadata_payload"):
        instruction.metadata.metadata_payload.id += len(draft.proto.payloads)
    return Fragment(instruction, brought, _fused(proto, ids), tuple(proto.payloads))


def parse_computations(draft: Draft, text: str) -> tuple[tuple[xla.HloComputationProto, ...], frozenset[int]]:
    """The computations of a text, with ids that are new in the module, and the local ids of all computations that they
    fuse.

    An instruction whose name the module already has gets a number appended to its name. Raises ParseError with lines
    and columns of `text`, and InvalidArgumentError for a computation whose name the module already has.
    """
    if _HEADS.search(text):
        raise InvalidArgumentError("computations are added without HloModule and ENTRY before them", field="text")
    called = _called(draft, words_of(text) - _defined(text))
    try:
        proto = parse_computations_in(Scope(computations=[_signature(each) for each in called]), text)
    except ParseError as error:
        raise error.within("text") from None
    new = proto.computations[len(called) :]
    taken = {each.name for each in draft.proto.computations}
    for each in new:
        if each.name in taken:
            raise InvalidArgumentError(f"there is a computation {each.name!r} already")
    brought, ids = _brought(draft, proto, called, new)
    return brought, _fused(proto, ids)


def _fused(proto: xla.HloModuleProto, ids: Mapping[int, int]) -> frozenset[int]:
    """The local ids, in the module, of the fused computations of `proto`. `ids` maps local ids in `proto` to ids in the
    module.
    """
    return frozenset([ids[local(each)] & LOCAL_ID for each in proto.computations if each.is_fusion_computation])


def _defined(text: str) -> set[str]:
    """The names that the text may give to computations: the words before a brace or a signature."""
    names: set[str] = set()
    for head in text.split("{")[:-1]:  # the text before each opening brace
        before = head.rpartition("}")[2]
        signature = _BEFORE_SIGNATURE.search(before) if _RESULT.search(before) else None
        name = signature or _LAST_WORD.search(before)
        if name is not None:
            names.add(name[1])
    return names


def _called(draft: Draft, words: set[str]) -> list[xla.HloComputationProto]:
    """The computations that a text may call if it consists of these words."""
    return [each for each in draft.proto.computations if each.name in words and not draft.is_entry(each)]


def _signature(computation: xla.HloComputationProto) -> Signature:
    """What the reader must know about a computation of the module that a text may call."""
    parameters = sorted(
        [each for each in computation.instructions if each.opcode == Opcode.PARAMETER],
        key=lambda each: each.parameter_number,
    )
    root = next(each for each in computation.instructions if local(each) == computation.root_id & LOCAL_ID)
    return Signature(computation.name, [each.shape for each in parameters], root.shape, computation.execution_thread)


def _brought(
    draft: Draft,
    proto: xla.HloModuleProto,
    called: Sequence[xla.HloComputationProto],
    new: Sequence[xla.HloComputationProto],
) -> tuple[tuple[xla.HloComputationProto, ...], dict[int, int]]:
    """The computations `new` of a fragment with ids and names that are new in the module; and a mapping from local ids
    of computations in the fragment to ids in the module. The fragment's first computations stand for `called`.
    """
    ids: dict[int, int] = {local(each): real.id for each, real in zip(proto.computations, called, strict=False)}
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
    """Makes the ids of instructions begin with the id of their computation, and the ids of called computations those of
    the module. `ids` maps local ids of computations to ids in the module.
    """
    upper = computation.id << 32
    computation.root_id = upper | (computation.root_id & LOCAL_ID)
    for instruction in computation.instructions:
        instruction.id = upper | local(instruction)
        instruction.operand_ids[:] = [upper | (i & LOCAL_ID) for i in instruction.operand_ids]
        instruction.control_predecessor_ids[:] = [upper | (i & LOCAL_ID) for i in instruction.control_predecessor_ids]
        instruction.called_computation_ids[:] = [ids[i & LOCAL_ID] for i in instruction.called_computation_ids]


def _unused(name: str, names: set[str]) -> str:
    """`name`, with a number appended if `names` holds it."""
    number, free = 0, name
    while free in names:
        number += 1
        free = f"{name}.{number}"
    return free


# -- layouts -----------------------------------------------------------------------------------


def shape_with_layout(shape: Shape, layout: Layout, index: tuple[int, ...]) -> Shape:
    """The shape with `layout` for the array at `index`. Raises InvalidShapeError if there is no array at `index`."""
    if not index:
        if not shape.is_array:
            raise InvalidShapeError(f"{shape} has no layout of its own; `index` names an array within a tuple")
        return shape.with_layout(layout)
    if not shape.is_tuple or not 0 <= index[0] < len(shape.tuple_shapes):
        raise InvalidShapeError(f"{shape} has no element {index[0]}")
    parts = list(shape.tuple_shapes)
    parts[index[0]] = shape_with_layout(parts[index[0]], layout, index[1:])
    return shape.replace(tuple_shapes=tuple(parts))


def literal_with_layout(literal: xla.LiteralProto, layout: Layout, index: tuple[int, ...]) -> xla.LiteralProto:
    """The literal with `layout` for the array at `index`, whose elements are reordered."""
    if index:
        copy = xla.LiteralProto()
        copy.CopyFrom(literal)
        copy.shape.CopyFrom(shape_with_layout(Shape.from_proto(literal.shape), layout, index).to_proto())
        part = literal.tuple_literals[index[0]]
        copy.tuple_literals[index[0]].CopyFrom(literal_with_layout(part, layout, index[1:]))
        return copy
    shape = shape_with_layout(Shape.from_proto(literal.shape), layout, ()).to_proto()
    data = raw(literal)
    before, after = row_major_positions(literal.shape), row_major_positions(shape)
    count = len(before or after or ())
    if count:
        width = len(data) // count
        elements = [data[i * width : (i + 1) * width] for i in range(count)]
        if before is not None:
            row_major = [b""] * count
            for position, element in zip(before, elements, strict=True):
                row_major[position] = element
            elements = row_major
        data = b"".join([elements[position] for position in after] if after is not None else elements)
    result = from_raw(shape, data)
    result.dynamic_sizes.extend(literal.dynamic_sizes)
    return result
