"""The module while it is edited: `Draft` holds a copy, and finds, numbers, orders and removes its instructions and
computations.

The functions after the class work on messages: they follow and replace references between instructions, keep parts of
a rewritten instruction, and find the instructions and computations that nothing needs. A local id is the lower half of
an id (`local`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from xlashape.errors import InvalidArgumentError, NotFoundError
from xlashape.hlo.module import HloModule
from xlashape.hlo.module_proto.structure import LOCAL_ID, post_order
from xlashape.hlo.ops.opcode import Opcode, UnknownOpcode
from xlashape.hlo.ops.registry import operation_of
from xlashape.hlo.tokens import safe_name
from xlashape.proto import xla
from xlashape.shape import Shape
from xlashape.similar import did_you_mean

_Entry = tuple[xla.HloComputationProto, xla.HloInstructionProto]


class Draft:
    """A copy of a module. Callers may change `proto`. After a change of names or of the list of instructions they must
    call `forget_names`.
    """

    def __init__(self, module: HloModule) -> None:
        self.hlo_proto = xla.HloProto()
        held = module.held.decoded()
        if held.program is not None:
            self.hlo_proto.CopyFrom(held.program)
        self.hlo_proto.hlo_module.CopyFrom(held.message)
        self.proto = self.hlo_proto.hlo_module
        self._had_hlo_proto = held.is_program
        self._config = module.config
        self._by_name: dict[str, _Entry] | None = None
        self._highest: int | None = None

    def module(self) -> HloModule:
        """The module as it is now, as a copy. Raises InvalidModuleError if its ids are inconsistent."""
        copy = xla.HloProto()
        copy.CopyFrom(self.hlo_proto)
        return HloModule(copy.hlo_module, hlo_proto=copy if self._had_hlo_proto else None, config=self._config)

    # -- finding ------------------------------------------------------------------------------

    def forget_names(self) -> None:
        """Drops the index of names, because instructions were renamed, added, moved or removed."""
        self._by_name = None

    def names(self) -> dict[str, _Entry]:
        """Name of an instruction → its computation and the instruction."""
        if self._by_name is None:
            self._by_name = {}
            for computation in self.proto.computations:
                for instruction in computation.instructions:
                    self._by_name.setdefault(instruction.name, (computation, instruction))
        return self._by_name

    def find(self, name: str) -> _Entry:
        """The instruction called `name`, which may begin with `%`, after its computation. Raises NotFoundError."""
        entry = self.names().get(name.removeprefix("%"))
        if entry is None:
            hint = did_you_mean(name.removeprefix("%"), self.names())
            raise NotFoundError(
                f"module {self.proto.name!r} has no instruction {name!r}{hint}",
                kind="instruction",
                name=name,
                field="instruction",
            )
        return entry

    def find_in(self, computation: xla.HloComputationProto, name: str) -> xla.HloInstructionProto:
        """The instruction called `name`. Raises NotFoundError if there is none, InvalidArgumentError if it is in
        another computation.
        """
        owner, instruction = self.find(name)
        if local(owner) != local(computation):
            raise InvalidArgumentError(f"{name!r} is in computation {owner.name!r}, not in {computation.name!r}")
        return instruction

    def computation(self, name: str) -> xla.HloComputationProto:
        """The computation called `name`, which may begin with `%`. Raises NotFoundError."""
        for computation in self.proto.computations:
            if computation.name == name.removeprefix("%"):
                return computation
        hint = did_you_mean(name.removeprefix("%"), [each.name for each in self.proto.computations])
        message = f"module {self.proto.name!r} has no computation {name!r}{hint}"
        raise NotFoundError(message, kind="computation", name=name, field="computation")

    def computation_of(self, number: int) -> xla.HloComputationProto:
        """The computation with an id, as instructions that call it have it."""
        return next(each for each in self.proto.computations if local(each) == number & LOCAL_ID)

    def is_entry(self, computation: xla.HloComputationProto) -> bool:
        """Whether execution starts in the computation."""
        return local(computation) == self.proto.entry_computation_id & LOCAL_ID

    def declared_shapes(
        self, computation: xla.HloComputationProto, instruction: xla.HloInstructionProto
    ) -> Iterator[xla.ShapeProto]:
        """The shapes in signatures that repeat the shape of the instruction, which is a parameter or the root."""
        signatures = [computation.program_shape] if computation.HasField("program_shape") else []
        if self.is_entry(computation) and self.proto.HasField("host_program_shape"):
            signatures.append(self.proto.host_program_shape)
        number = instruction.parameter_number
        for signature in signatures:
            if instruction.opcode == Opcode.PARAMETER and 0 <= number < len(signature.parameters):
                yield signature.parameters[number]
            if local(instruction) == computation.root_id & LOCAL_ID:
                yield signature.result

    def declare(self, computation: xla.HloComputationProto, instruction: xla.HloInstructionProto) -> None:
        """Copies the shape of the instruction to the signatures, if it is a parameter or the root."""
        for declared in self.declared_shapes(computation, instruction):
            declared.CopyFrom(instruction.shape)

    # -- names and ids ------------------------------------------------------------------------

    def check_new_name(self, name: str) -> None:
        """Raises InvalidArgumentError if `name` is not a valid name, or if an instruction has it already."""
        check_name(name)
        if name in self.names():
            raise InvalidArgumentError(f"there is an instruction {name!r} already")

    def free_name(self, name: str, taken: Iterable[str] = ()) -> str:
        """`name`, with a number appended if an instruction of the module has it or `taken` holds it."""
        names = {*self.names(), *taken}
        number, free = 0, name
        while free in names:
            number += 1
            free = f"{name}.{number}"
        return free

    def new_instruction_id(self, computation: xla.HloComputationProto) -> int:
        """A new id for an instruction of the computation. Its local id is unique in the whole module, as older modules
        need it; newer ones need it unique within a computation.
        """
        if self._highest is None:
            ids = [local(instruction) for each in self.proto.computations for instruction in each.instructions]
            self._highest = max(ids, default=0)
        self._highest = self._next(self._highest)
        upper = computation.instructions[0].id & ~LOCAL_ID if computation.instructions else 0
        return upper | self._highest

    def new_computation_id(self) -> int:
        """An id that no computation has."""
        return self._next(max(local(computation) for computation in self.proto.computations))

    @staticmethod
    def _next(highest: int) -> int:
        if highest >= LOCAL_ID >> 1:
            raise InvalidArgumentError("the module has an id beyond which there are no further ones of 32 bits")
        return highest + 1

    # -- order --------------------------------------------------------------------------------

    def settle(self, computation: xla.HloComputationProto) -> None:
        """Puts instructions after their operands and control predecessors, in the list and in the schedule. An order
        that is right already stays.
        """
        position = _settled(computation, [local(instruction) for instruction in computation.instructions])
        if position is not None:
            computation.instructions.sort(key=lambda instruction: position[local(instruction)])
        sequence = self.schedule_of(computation)
        if sequence is not None:
            step = _settled(computation, [number & LOCAL_ID for number in sequence.instruction_ids])
            if step is not None:
                ids = sorted(sequence.instruction_ids, key=lambda number: step[number & LOCAL_ID])
                sequence.instruction_ids[:] = ids

    def settle_calls(self) -> None:
        """Puts computations after those that they call."""
        computations = self.proto.computations
        index_of = {local(computation): index for index, computation in enumerate(computations)}
        calls = [
            [index_of[i & LOCAL_ID] for instruction in each.instructions for i in instruction.called_computation_ids]
            for each in computations
        ]
        position = {node: number for number, node in enumerate(post_order(calls, range(len(calls))))}
        order = {local(computation): position[index] for index, computation in enumerate(computations)}
        computations.sort(key=lambda computation: order[local(computation)])

    def schedule_of(self, computation: xla.HloComputationProto) -> xla.HloScheduleProto.InstructionSequence | None:
        """The schedule of a computation, if it has one."""
        for key, sequence in self.proto.schedule.sequences.items():
            if key & LOCAL_ID == local(computation):
                return sequence
        return None

    def place(
        self,
        computation: xla.HloComputationProto,
        instruction: xla.HloInstructionProto,
        anchor: xla.HloInstructionProto | None,
    ) -> None:
        """Adds an instruction to a computation and its schedule: before the anchor, or without one after the last
        instruction that it needs, or at the end if it needs none.
        """
        needed = {i & LOCAL_ID for i in (*instruction.operand_ids, *instruction.control_predecessor_ids)}

        def index_in(order: list[int]) -> int:
            if anchor is not None:
                return order.index(local(anchor))
            return max((at + 1 for at, local_id in enumerate(order) if local_id in needed), default=len(order))

        index = index_in([local(each) for each in computation.instructions])
        computation.instructions.insert(index, instruction)
        self.names()[instruction.name] = (computation, computation.instructions[index])
        sequence = self.schedule_of(computation)
        if sequence is not None:
            steps = list(sequence.instruction_ids)
            steps.insert(index_in([i & LOCAL_ID for i in steps]), instruction.id)
            sequence.instruction_ids[:] = steps

    def add_computations(self, computations: Iterable[xla.HloComputationProto]) -> None:
        """Adds computations, whose ids must be new."""
        self.proto.computations.extend(computations)
        self._highest = None
        self.forget_names()

    # -- removing -----------------------------------------------------------------------------

    def remove(self, computation: xla.HloComputationProto, unwanted: set[int]) -> None:
        """Removes the instructions with these local ids from the list and the schedule. No other instruction may refer
        to them.
        """
        sequence = self.schedule_of(computation)
        if sequence is not None:
            sequence.instruction_ids[:] = [i for i in sequence.instruction_ids if i & LOCAL_ID not in unwanted]
        for index in range(len(computation.instructions) - 1, -1, -1):
            if local(computation.instructions[index]) in unwanted:
                del computation.instructions[index]
        self.forget_names()

    def remove_computations(self, unwanted: set[int]) -> None:
        """Removes the computations with these local ids, and their schedules."""
        for key in [key for key in self.proto.schedule.sequences if key & LOCAL_ID in unwanted]:
            del self.proto.schedule.sequences[key]
        for index in range(len(self.proto.computations) - 1, -1, -1):
            if local(self.proto.computations[index]) in unwanted:
                del self.proto.computations[index]
        self.forget_names()

    def drop_assignment(self) -> None:
        """Removes the buffer assignment, which no longer fits."""
        self.hlo_proto.ClearField("buffer_assignment")


def local(value: xla.HloInstructionProto | xla.HloComputationProto) -> int:
    """The local id: the lower half of an id. It is unique among the instructions of a computation, or among the
    computations of a module.
    """
    return value.id & LOCAL_ID


def dependencies(computation: xla.HloComputationProto, starts: Iterable[int]) -> set[int]:
    """The local ids in `starts`, and those of all operands and control predecessors, direct or not."""
    by_id = {local(other): other for other in computation.instructions}
    needed: set[int] = set()
    pending = list(starts)
    while pending:
        local_id = pending.pop()
        if local_id not in needed and local_id in by_id:
            needed.add(local_id)
            pending += [i & LOCAL_ID for i in by_id[local_id].operand_ids]
            pending += [i & LOCAL_ID for i in by_id[local_id].control_predecessor_ids]
    return needed


def check_name(name: str) -> None:
    """Raises InvalidArgumentError for a name that XLA would change."""
    if not name or safe_name(name) != name:
        raise InvalidArgumentError(f"{name!r} is not a valid name: a letter or _, then letters, digits and _.-")


def _settled(computation: xla.HloComputationProto, order: list[int]) -> dict[int, int] | None:
    """Local id → position of each instruction in an order in which operands and control predecessors come before their
    users. The order is close to the given one, a list of local ids.

    None if the given order is already right, which is usual.
    """
    index_of = {local_id: index for index, local_id in enumerate(order)}
    by_id = {local(instruction): instruction for instruction in computation.instructions}
    predecessors: list[list[int]] = []
    is_settled = True
    for index, local_id in enumerate(order):
        instruction = by_id[local_id]
        before = [
            index_of.get(i & LOCAL_ID, -1) for i in (*instruction.control_predecessor_ids, *instruction.operand_ids)
        ]
        is_settled = is_settled and all(each < index for each in before)
        predecessors.append([each for each in before if each >= 0])
    if is_settled:
        return None
    return {order[node]: number for number, node in enumerate(post_order(predecessors, range(len(order))))}


# -- references --------------------------------------------------------------------------------


def check_independent(
    computation: xla.HloComputationProto, instruction: xla.HloInstructionProto, ids: Sequence[int]
) -> None:
    """Raises InvalidArgumentError if one of the instructions with these ids is the instruction, or needs it."""
    if local(instruction) not in dependencies(computation, [number & LOCAL_ID for number in ids]):
        return
    by_id = {local(other): other for other in computation.instructions}
    for number in ids:
        if local(instruction) in dependencies(computation, [number & LOCAL_ID]):
            name = by_id[number & LOCAL_ID].name
            what = "is the instruction itself" if name == instruction.name else f"needs {instruction.name!r}"
            raise InvalidArgumentError(f"{name!r} {what}: it cannot be its operand", field="operands")


def keep_unsaid(old: xla.HloInstructionProto, new: xla.HloInstructionProto) -> None:
    """Gives a rewritten instruction the metadata, frontend attributes, sharding and control predecessors of the old one
    where its text has none. A sharding stays only if the dimensions do; the old control predecessors always stay.
    """
    if not new.metadata.ByteSize() and old.HasField("metadata"):
        new.metadata.CopyFrom(old.metadata)
    if not new.frontend_attributes.ByteSize() and old.HasField("frontend_attributes"):
        new.frontend_attributes.CopyFrom(old.frontend_attributes)
    if not new.HasField("sharding") and old.HasField("sharding"):
        before, after = Shape.from_proto(old.shape), Shape.from_proto(new.shape)
        if before.is_array and after.is_array and before.dimensions == after.dimensions:
            new.sharding.CopyFrom(old.sharding)
    present = {i & LOCAL_ID for i in new.control_predecessor_ids}
    new.control_predecessor_ids.extend([i for i in old.control_predecessor_ids if i & LOCAL_ID not in present])


def pass_on_control_predecessors(computation: xla.HloComputationProto, instruction: xla.HloInstructionProto) -> None:
    """Replaces an instruction by its own control predecessors wherever it is the control predecessor of another."""
    inherited = list(instruction.control_predecessor_ids)
    for other in computation.instructions:
        kept = [i for i in other.control_predecessor_ids if i & LOCAL_ID != local(instruction)]
        if len(kept) != len(other.control_predecessor_ids):
            present = {i & LOCAL_ID for i in kept} | {local(other)}
            other.control_predecessor_ids[:] = [*kept, *(i for i in inherited if i & LOCAL_ID not in present)]


def rename_in_assignment(assignment: xla.BufferAssignmentProto, old: str, new: str) -> None:
    """Renames an instruction in a buffer assignment."""
    for location in _locations(assignment):
        if location.instruction_name == old:
            location.instruction_name = new
    for trace in assignment.heap_simulator_traces:
        for event in trace.events:
            if event.instruction_name == old:
                event.instruction_name = new


def _locations(assignment: xla.BufferAssignmentProto) -> Iterator[xla.LogicalBufferProto.Location]:
    for buffer in assignment.logical_buffers:
        yield buffer.defined_at
    for alias in assignment.buffer_aliases:
        yield alias.location


# -- unneeded instructions and computations ----------------------------------------------------


_EFFECTS: Final = frozenset(
    (
        Opcode.INFEED,
        Opcode.OUTFEED,
        Opcode.SEND,
        Opcode.SEND_DONE,
        Opcode.RECV,
        Opcode.RECV_DONE,
        Opcode.RNG,
        Opcode.RNG_GET_AND_UPDATE_STATE,
    )
)
"""Opcodes of operations that do more than give a result: they move data in and out, or advance a state."""


def dead_instructions(module: xla.HloModuleProto) -> dict[int, set[int]]:
    """Local id of a computation → the local ids of its instructions whose results nothing needs. Computations without
    such instructions are left out.

    Needed are the root, parameters, instructions with an effect, instructions that exchange data with other replicas,
    asynchronous instructions, instructions with an unknown opcode, both ends of a control dependency, and all
    instructions that these need.
    """
    with_effects = _computations_with_effects(module)
    dead: dict[int, set[int]] = {}
    for computation in module.computations:
        by_id = {instruction.id & LOCAL_ID: instruction for instruction in computation.instructions}
        pending = [computation.root_id & LOCAL_ID]
        for local_id, instruction in by_id.items():
            controlled = [i & LOCAL_ID for i in instruction.control_predecessor_ids]
            if controlled or instruction.opcode == Opcode.PARAMETER or _has_effect(instruction, with_effects):
                pending += [local_id, *controlled]
        live: set[int] = set()
        while pending:
            local_id = pending.pop()
            if local_id not in live:
                live.add(local_id)
                pending += [i & LOCAL_ID for i in by_id[local_id].operand_ids]
        if len(live) < len(by_id):
            dead[computation.id & LOCAL_ID] = by_id.keys() - live
    return dead


def uncalled_computations(module: xla.HloModuleProto) -> set[int]:
    """The local ids of the computations that the entry does not call, directly or not."""
    calls = {
        computation.id & LOCAL_ID: {
            i & LOCAL_ID for instruction in computation.instructions for i in instruction.called_computation_ids
        }
        for computation in module.computations
    }
    called: set[int] = set()
    pending = [module.entry_computation_id & LOCAL_ID]
    while pending:
        local_id = pending.pop()
        if local_id not in called:
            called.add(local_id)
            pending += calls[local_id]
    return calls.keys() - called


def _computations_with_effects(module: xla.HloModuleProto) -> set[int]:
    """The local ids of computations that have an effect, themselves or through a computation that they call."""
    found: set[int] = set()
    size = -1
    # Runs once for each level of calls if the module has callers before the computations that they call.
    while size < len(found):
        size = len(found)
        for computation in module.computations:
            if any(_has_effect(instruction, found) for instruction in computation.instructions):
                found.add(computation.id & LOCAL_ID)
    return found


def _has_effect(instruction: xla.HloInstructionProto, with_effects: set[int]) -> bool:
    row = operation_of(instruction.opcode)
    return (
        instruction.opcode in _EFFECTS
        or isinstance(row.opcode, UnknownOpcode)
        or row.exchanges_with_replicas
        or row.async_step is not None
        or instruction.custom_call_has_side_effect
        or any(i & LOCAL_ID in with_effects for i in instruction.called_computation_ids)
    )
