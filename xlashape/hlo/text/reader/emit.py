"""From what was read to the message: order of instructions, ids, unique names, stack frames, schedule.

Instructions stand in XLA's post order: from each instruction that nobody uses, in the order of the text, depth first, control
predecessors before operands, the last of them first. The id is (place of the computation << 32) | place in the text. A scheduled
module's order of execution, which is the text's, goes into its schedule.
"""

from __future__ import annotations

from collections.abc import Sequence

from xlashape.hlo.text.reader.state import MAIN_THREAD, Computation, Instruction
from xlashape.hlo.text.reader.unique_names import UniqueNames
from xlashape.limits import spend
from xlashape.proto import xla
from xlashape.proto.wire import VARINT, Fields, numbered_ids, sized, tag, varint

__all__ = ["Frames", "Location", "emit_computations", "post_order", "program_shape"]

_MODULE = Fields(xla.HloModuleProto)
_COMPUTATION = Fields(xla.HloComputationProto)
_INSTRUCTION = Fields(xla.HloInstructionProto)
_METADATA = Fields(xla.OpMetadata)
_PROGRAM_SHAPE = Fields(xla.ProgramShapeProto)
_COMPUTATIONS = _MODULE.tag("computations")
_PARAMETER_NAME = _PROGRAM_SHAPE.tag("parameter_names")
_NAME = _INSTRUCTION.tag("name")
_OPERANDS = _INSTRUCTION.tag("operand_ids")
_ONE = _COMPUTATION.tag("instructions")
_STEPS = 5  # of a budget, an instruction
_ID = tag(xla.HloInstructionProto.DESCRIPTOR.fields_by_name["id"].number, VARINT)

Location = tuple[str, str, tuple[int, int, int, int]]
"""Where in a program: file, function, (line, end line, column, end column)."""


class Frames:
    """The module's table of stack frames, made of those that instructions name in the text's tables."""

    __slots__ = ("_locations", "_made", "_numbers", "files", "frames", "functions", "index", "locations", "payloads")

    def __init__(
        self,
        locations: Sequence[Location | None] = (),
        frames: Sequence[tuple[int, int]] = (),
    ) -> None:
        self.locations = locations
        """The text's file locations; None for one whose names are in no table."""
        self.frames = frames
        """The text's stack frames: (number of the location, number of the parent), 0 for no parent."""
        self.index = xla.StackFrameIndexProto()
        self.files: dict[str, int] = {}
        self.functions: dict[str, int] = {}
        self._locations: dict[tuple[int, int, tuple[int, int, int, int]], int] = {}
        self._made: dict[tuple[int, int], int] = {}
        self._numbers: dict[int, int] = {}
        self.payloads: dict[bytes, int] = {}

    def number(self, frame: int) -> int:
        """The number in the module's table of the text's frame; 0 for one that the text does not have whole, up to its root."""
        chain: list[int] = []
        seen: set[int] = set()
        while frame != 0 and frame not in self._numbers:
            chain.append(frame)
            if frame in seen or not 0 < frame <= len(self.frames):
                # Parents in a circle or in no table: such frames are none.
                self._numbers.update(dict.fromkeys(chain, 0))
                return 0
            seen.add(frame)
            frame = self.frames[frame - 1][1]
        made = self._numbers.get(frame, 0)
        whole = frame == 0 or made != 0
        for one in reversed(chain):
            location = self._location(self.frames[one - 1][0]) if whole else 0
            whole = location != 0
            made = self._numbers[one] = self._frame(location, made) if whole else 0
        return made

    def _location(self, number: int) -> int:
        """The number in the module's table of the text's location; 0 for one that is in no table, or whose names are in none."""
        location = self.locations[number - 1] if 0 < number <= len(self.locations) else None
        if location is None:
            return 0
        file, function, numbers = location
        key = (self._string(self.files, file), self._string(self.functions, function), numbers)
        found = self._locations.get(key)
        if found is None:
            found = self._locations[key] = len(self._locations) + 1
            line, end_line, column, end_column = numbers
            self.index.file_locations.add(
                file_name_id=key[0],
                function_name_id=key[1],
                line=line,
                end_line=end_line,
                column=column,
                end_column=end_column,
            )
        return found

    @staticmethod
    def _string(table: dict[str, int], text: str) -> int:
        return table.setdefault(text, len(table) + 1)

    def _frame(self, location: int, parent: int) -> int:
        found = self._made.get((location, parent))
        if found is None:
            found = self._made[location, parent] = len(self._made) + 1
            self.index.stack_frames.add(file_location_id=location, parent_frame_id=parent)
        return found

    def data(self) -> bytes:
        """Fields of the module: the tables, where there are any."""
        payloads = b"".join(_MODULE.message("payloads", payload) for payload in self.payloads)
        if not self._made:
            return payloads
        self.index.file_names.extend(self.files)
        self.index.function_names.extend(self.functions)
        return _MODULE.message("stack_frame_index", self.index) + payloads


def post_order(instructions: Sequence[Instruction]) -> list[int]:
    """Places of the instructions in XLA's post order."""
    count = len(instructions)
    used = bytearray(count)
    for one in instructions:
        for operand in one.operands:
            used[operand] = 1
    order: list[int] = []
    state = bytearray(count)  # 0 not seen, 1 entered, 2 written
    for root in range(count):
        if used[root]:
            continue
        stack = [root]
        while stack:
            place = stack[-1]
            if state[place]:
                if state[place] == 1:
                    state[place] = 2
                    order.append(place)
                stack.pop()
                continue
            state[place] = 1
            one = instructions[place]
            for operand in reversed(one.operands):
                if not state[operand]:
                    stack.append(operand)
            for before in one.control:
                if not state[before]:
                    stack.append(before)
    return order


def program_shape(computation: Computation, names: Sequence[str]) -> bytes:
    """A ProgramShapeProto: parameters, result, and the parameters' names."""
    instructions = computation.instructions
    pieces: list[bytes] = []
    for number in range(len(computation.parameters)):
        pieces.append(_PROGRAM_SHAPE.message("parameters", instructions[computation.parameters[number]].shape.data))
    pieces.append(_PROGRAM_SHAPE.message("result", instructions[computation.root].shape.data))
    pieces.extend(_PARAMETER_NAME + sized(name.encode()) for name in names)
    return b"".join(pieces)


def emit_computations(
    computations: Sequence[Computation], frames: Frames | None, *, scheduled: bool, single: bool = False
) -> tuple[bytes, list[str]]:
    """Fields of the module: its computations, tables and, where it is scheduled, its schedule. Also the computations' final names.

    Uses the computations up: their instructions are gone afterwards. A `single` instruction's text makes its computation, the
    last, before those within it: it is number 0 and named first.
    """
    frames = Frames() if frames is None else frames
    unique, unique_computations = UniqueNames(), UniqueNames()
    last = len(computations) - 1
    reserved = unique_computations.take(computations[last].name) if single else ""
    ids = [last - place for place in range(len(computations))] if single else range(len(computations))
    pieces: list[bytes] = []
    final_names: list[str] = []
    sequences = xla.HloScheduleProto()
    for place, computation in enumerate(computations):
        spend(_STEPS * len(computation.instructions))
        name = reserved if single and place == last else unique_computations.take(computation.name)
        final_names.append(name)
        number = ids[place]
        data = _emit(computation, name, number, ids, unique, frames)
        pieces.append(_COMPUTATIONS)
        pieces.append(varint(len(data)))
        pieces.append(data)
        if scheduled and not computation.is_fusion:
            base = number << 32
            sequences.sequences[number].instruction_ids.extend(range(base, base + len(computation.instructions)))
        computation.instructions = []
    pieces.append(frames.data())
    if scheduled:
        pieces.append(_MODULE.message("schedule", sequences))
    return b"".join(pieces), final_names


def _emit(
    computation: Computation, name: str, own: int, ids: Sequence[int], unique: UniqueNames, frames: Frames
) -> bytes:
    instructions = computation.instructions
    base = own << 32
    numbers = numbered_ids(own, len(instructions))
    take = unique.take
    names = [take(one.name) for one in instructions]
    pieces: list[bytes] = [_COMPUTATION.string("name", name)]
    add = pieces.append
    for one in instructions:
        # Frames are numbered in the order of the instructions' ids.
        if one.frame:
            frames.number(one.frame)
    for number in post_order(instructions):
        one = instructions[number]
        encoded = names[number].encode()
        operands = one.operands
        data = b"".join((_NAME, varint(len(encoded)), encoded, one.data, _ID, numbers[number]))
        if operands:
            packed = b"".join([numbers[operand] for operand in operands])
            data = b"".join((data, _OPERANDS, varint(len(packed)), packed))
        if one.is_linked:
            data += _links(one, base, ids, frames)
        add(_ONE)
        add(varint(len(data)))
        add(data)
    parameters = [names[computation.parameters[number]] for number in range(len(computation.parameters))]
    pieces.append(_COMPUTATION.message("program_shape", program_shape(computation, parameters)))
    pieces.append(_COMPUTATION.integer("id", own))
    pieces.append(_COMPUTATION.integer("root_id", base | computation.root))
    pieces.append(_COMPUTATION.integer("is_fusion_computation", computation.is_fusion))
    if computation.thread != MAIN_THREAD:
        pieces.append(_COMPUTATION.string("execution_thread", computation.thread))
    return b"".join(pieces)


def _links(one: Instruction, base: int, ids: Sequence[int], frames: Frames) -> bytes:
    """Fields that name what stands elsewhere: computations, predecessors, frames, payloads, threads."""
    parts: list[bytes] = []
    if one.calls:
        parts.append(_INSTRUCTION.integers("called_computation_ids", [ids[place] for place in one.calls]))
    if one.control:
        parts.append(_INSTRUCTION.integers("control_predecessor_ids", [base | place for place in one.control]))
    if one.frame:
        parts.append(_INSTRUCTION.message("metadata", _METADATA.integer("stack_frame_id", frames.number(one.frame))))
    if one.payload is not None:
        number = frames.payloads.setdefault(one.payload, len(frames.payloads))
        payload = xla.OpMetadata(metadata_payload=xla.Payload(id=number))
        parts.append(_INSTRUCTION.message("metadata", payload))
    if one.thread != MAIN_THREAD:
        parts.append(_INSTRUCTION.string("async_execution_thread", one.thread))
    return b"".join(parts)
