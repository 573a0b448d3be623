"""Serializes what the reader has read: order and ids of instructions, unique names, stack frames, payloads, the schedule.

Instructions are in XLA's post order: see `xlashape.hlo.module_proto.order`, with positions in the text for ids. An instruction's id is
(index of the computation << 32) | index in the text. A scheduled module's order of execution is the order of the text; its schedule
holds it.

Names are made unique as XLA does where the computations of one text use a name twice. A name is a stem and, after its last dot, a number within int64:
`add.3` is number 3 of the stem `add`, so is `add.03`, and `add` alone is number 0. A name whose number is taken gets the smallest free number of its
stem.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from xlashape.hlo.module_proto.order import post_order, roots
from xlashape.hlo.text.reader.stack_frames import StackFrames
from xlashape.hlo.text.reader.state import MAIN_THREAD, ParsedComputation, ParsedInstruction
from xlashape.limits import INT64_MAX, INT64_MIN, spend
from xlashape.proto import xla
from xlashape.proto.wire import VARINT, Fields, numbered_ids, sized, tag, varint

_SINGLE: set[int] = set()  # instead of a set of one number, which most stems would need: see `_stems`


class UniqueNames:
    """The names given out so far.

    >>> names = UniqueNames()
    >>> [names.take(name) for name in ("p", "p", "p.1", "q.7", "q", "r.3", "r.3", "s.04")]
    ['p', 'p.1', 'p.2', 'q.7', 'q', 'r.3', 'r.0', 's.4']
    """

    __slots__ = ("_stems",)

    def __init__(self) -> None:
        # By stem: the numbers taken and the smallest that may be free; for a stem with one number, _SINGLE and that number.
        self._stems: dict[str, tuple[set[int], int]] = {}

    def take(self, name: str) -> str:
        """`name` if it is free, or else the name to use instead."""
        stem, dot, digits = name.rpartition(".")
        unsigned = digits.removeprefix("-")
        if dot and unsigned.isdecimal() and len(digits) < 32 and INT64_MIN <= (number := int(digits)) <= INT64_MAX:
            numbered = True
        else:
            stem, number, numbered = name, 0, False
        known = self._stems.get(stem)
        if known is None:
            self._stems[stem] = (_SINGLE, number)
            return f"{stem}.{number}" if numbered and len(unsigned) > 1 else name
        taken, smallest = known
        if taken is _SINGLE:
            taken, smallest = {smallest}, 0
        if number in taken:
            while smallest in taken:
                smallest += 1
            number, numbered = smallest, True
        taken.add(number)
        self._stems[stem] = (taken, smallest)
        return f"{stem}.{number}" if numbered else name


_MODULE = Fields(xla.HloModuleProto)
_COMPUTATION = Fields(xla.HloComputationProto)
_INSTRUCTION = Fields(xla.HloInstructionProto)
_METADATA = Fields(xla.OpMetadata)
_PROGRAM_SHAPE = Fields(xla.ProgramShapeProto)
_COMPUTATIONS = _MODULE.tag("computations")
_INSTRUCTIONS = _COMPUTATION.tag("instructions")
_PARAMETER_NAMES = _PROGRAM_SHAPE.tag("parameter_names")
_NAME = _INSTRUCTION.tag("name")
_OPERAND_IDS = _INSTRUCTION.tag("operand_ids")
_ID = tag(xla.HloInstructionProto.DESCRIPTOR.fields_by_name["id"].number, VARINT)
_STEPS_PER_INSTRUCTION = 5  # of the budget that `limits.spend` counts


class _Tables:
    """What the computations of one module share."""

    __slots__ = ("computation_ids", "frames", "names", "payloads")

    def __init__(self, frames: StackFrames, computation_ids: Sequence[int]) -> None:
        self.frames = frames
        self.computation_ids = computation_ids
        """The id of each computation that was read, by its index."""
        self.names = UniqueNames()
        """Of instructions."""
        self.payloads: dict[bytes, int] = {}
        """Serialized payload of metadata → its index in the module's table."""


def instruction_order(instructions: Sequence[ParsedInstruction]) -> list[int]:
    """The indices of a computation's instructions in XLA's post order."""
    operands = [instruction.operands for instruction in instructions]
    predecessors = operands
    if any(instruction.control for instruction in instructions):
        predecessors = [(*reversed(instruction.control), *instruction.operands) for instruction in instructions]
    return post_order(predecessors, roots(operands))


def program_shape(computation: ParsedComputation, names: Sequence[str]) -> bytes:
    """A ProgramShapeProto: parameters, result, and the parameters' names."""
    instructions = computation.instructions
    pieces: list[bytes] = []
    for number in range(len(computation.parameters)):
        pieces.append(_PROGRAM_SHAPE.message("parameters", instructions[computation.parameters[number]].shape.data))
    pieces.append(_PROGRAM_SHAPE.message("result", instructions[computation.root].shape.data))
    pieces.extend(_PARAMETER_NAMES + sized(name.encode()) for name in names)
    return b"".join(pieces)


def _executed(computation: ParsedComputation) -> Iterable[int]:
    """The instructions of a computation in the order in which they run: that of the text, except that the root of a computation which is made for
    an asynchronous operation comes after the parameters that later steps have added."""
    count, root = len(computation.instructions), computation.root
    if max(computation.instructions[root].operands, default=0) < root:
        return range(count)
    return (*range(root), *range(root + 1, count), root)


def emit_computations(
    computations: Sequence[ParsedComputation], frames: StackFrames | None, *, scheduled: bool, single: bool = False
) -> tuple[bytes, list[str]]:
    """Fields of the module: its computations, its tables and, if it is scheduled, its schedule. Also the computations' final names.

    Empties the computations as it goes, to save memory: their instructions are gone afterwards. `single` says that the text was one
    instruction: its computation, the last, then gets id 0 and is named first, before the computations that it calls.
    """
    last = len(computations) - 1
    ids = [last - index for index in range(len(computations))] if single else range(len(computations))
    tables = _Tables(StackFrames() if frames is None else frames, ids)
    computation_names = UniqueNames()
    last_name = computation_names.take(computations[last].name) if single else ""
    pieces: list[bytes] = []
    final_names: list[str] = []
    schedule = xla.HloScheduleProto()
    for index, computation in enumerate(computations):
        spend(_STEPS_PER_INSTRUCTION * len(computation.instructions))
        name = last_name if single and index == last else computation_names.take(computation.name)
        final_names.append(name)
        computation_id = ids[index]
        data = _computation(computation, name, computation_id, tables)
        pieces += (_COMPUTATIONS, varint(len(data)), data)
        if scheduled and not computation.is_fusion:
            first = computation_id << 32
            instruction_ids = [first + index for index in _executed(computation)]
            schedule.sequences[computation_id].instruction_ids.extend(instruction_ids)
        computation.instructions = []
    pieces += [_MODULE.message("payloads", payload) for payload in tables.payloads]
    if tables.frames.index.stack_frames:
        pieces.append(_MODULE.message("stack_frame_index", tables.frames.index))
    if scheduled:
        pieces.append(_MODULE.message("schedule", schedule))
    return b"".join(pieces), final_names


def _computation(computation: ParsedComputation, name: str, computation_id: int, tables: _Tables) -> bytes:
    """A serialized HloComputationProto."""
    instructions = computation.instructions
    first_id = computation_id << 32
    ids = numbered_ids(computation_id, len(instructions))
    take = tables.names.take
    names = [take(instruction.name) for instruction in instructions]
    pieces: list[bytes] = [_COMPUTATION.string("name", name)]
    append = pieces.append
    for instruction in instructions:
        # Frames are numbered in the order of the instructions' ids.
        if instruction.frame:
            tables.frames.number(instruction.frame)
    for index in instruction_order(instructions):
        instruction = instructions[index]
        encoded_name = names[index].encode()
        data = b"".join((_NAME, varint(len(encoded_name)), encoded_name, instruction.data, _ID, ids[index]))
        if instruction.operands:
            operand_ids = b"".join([ids[operand] for operand in instruction.operands])
            data = b"".join((data, _OPERAND_IDS, varint(len(operand_ids)), operand_ids))
        if instruction.is_linked:
            data += _references(instruction, first_id, tables)
        append(_INSTRUCTIONS)
        append(varint(len(data)))
        append(data)
    parameters = [names[computation.parameters[number]] for number in range(len(computation.parameters))]
    pieces.append(_COMPUTATION.message("program_shape", program_shape(computation, parameters)))
    pieces.append(_COMPUTATION.integer("id", computation_id))
    pieces.append(_COMPUTATION.integer("root_id", first_id | computation.root))
    pieces.append(_COMPUTATION.integer("is_fusion_computation", computation.is_fusion))
    if computation.thread != MAIN_THREAD:
        pieces.append(_COMPUTATION.string("execution_thread", computation.thread))
    return b"".join(pieces)


def _references(instruction: ParsedInstruction, first_id: int, tables: _Tables) -> bytes:
    """The fields of an instruction that refer to other parts of the module: computations, predecessors, frames, payloads, threads."""
    parts: list[bytes] = []
    if instruction.calls:
        called_ids = [tables.computation_ids[index] for index in instruction.calls]
        parts.append(_INSTRUCTION.integers("called_computation_ids", called_ids))
    if instruction.control:
        predecessor_ids = [first_id | index for index in instruction.control]
        parts.append(_INSTRUCTION.integers("control_predecessor_ids", predecessor_ids))
    if instruction.frame:
        frame = tables.frames.number(instruction.frame)
        parts.append(_INSTRUCTION.message("metadata", _METADATA.integer("stack_frame_id", frame)))
    if instruction.payload is not None:
        number = tables.payloads.setdefault(instruction.payload, len(tables.payloads))
        metadata = xla.OpMetadata(metadata_payload=xla.Payload(id=number))
        parts.append(_INSTRUCTION.message("metadata", metadata))
    if instruction.thread != MAIN_THREAD:
        parts.append(_INSTRUCTION.string("async_execution_thread", instruction.thread))
    return b"".join(parts)
