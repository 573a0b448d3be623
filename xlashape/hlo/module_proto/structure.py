"""The structure of a module: the ids by which instructions and computations refer to each other. This file checks them.

`check_module` refuses a module with inconsistent ids: every id that it refers to must exist, and references
must not form a cycle. XLA looks at the low 32 bits of an id only. They are unique within the computation for
instructions, and within the module for computations. Newer XLA writes (computation id << 32) | number, older XLA
numbers that are unique in the module; both follow this rule. XLA also requires operands before their users and called
computations before their callers; here any order without a cycle is accepted. The verifier checks all other rules, such
as whether shapes fit operands.

`with_small_ids` gives a module ids that every version of XLA loads: jaxlib 0.4.30 and 0.4.35 refuse a module with ids
of the newer form in more than one computation; jaxlib 0.10.2 and 0.12 load both kinds.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final, Protocol

from google.protobuf.message import EncodeError, Message

from xlashape.errors import InvalidArgumentError, InvalidModuleError
from xlashape.hlo.module_proto.order import find_cycle
from xlashape.proto import xla

LOCAL_ID = 0xFFFFFFFF
"""The bits of an id that are unique: the local id of an instruction in its computation, or a computation in its
module.
"""


_SMALL: Final = 8
"""Ids are small up to this many times the number of instructions. XLA numbers nearly all of them so."""


class Named(Protocol):
    """A computation, or the message of one."""

    @property
    def name(self) -> str: ...
    @property
    def id(self) -> int: ...


def check_module(
    name: str, entry_id: int, computations: Sequence[Named], messages: Iterable[xla.HloComputationProto]
) -> dict[int, int]:
    """Checks the ids of a module of this name, whose entry computation has the id `entry_id`. `messages` are those of
    the computations, of which one at a time is looked at. Returns local id → index of each computation.

    Raises InvalidModuleError, which says which rule is broken and where. Time is linear in instructions, operands and
    calls.
    """
    prefix = f"module {name!r}: "
    index_by_id: dict[int, int] = {}
    for index, computation in enumerate(computations):
        local_id = computation.id & LOCAL_ID
        if local_id in index_by_id:
            first = computations[index_by_id[local_id]].name
            raise InvalidModuleError(
                f"{prefix}computations {first!r} and {computation.name!r} have the same id {computation.id}"
            )
        index_by_id[local_id] = index
    if entry_id & LOCAL_ID not in index_by_id:
        what = f"its entry computation, id {entry_id}, is not there" if index_by_id else "it has no computations"
        raise InvalidModuleError(prefix + what)
    calls = [_check_computation(message, index_by_id) for message in messages]
    cycle = find_cycle(list(map(tuple, calls)))
    if cycle is not None:
        names = " → ".join(repr(computations[index].name) for index in cycle)
        caller = calls[cycle[0]][cycle[1]]
        raise InvalidModuleError(f"{prefix}computations call each other in a cycle, {names}, by instruction {caller!r}")
    return index_by_id


def _check_computation(computation: xla.HloComputationProto, computation_by_id: dict[int, int]) -> dict[int, str]:
    """Checks the ids in a computation. Returns the index of each computation that it calls → the name of the first
    instruction that does.
    """
    instructions = computation.instructions
    # Whether an id was seen: a byte for each small one, where a set takes a hundred bytes.
    most = _SMALL * len(instructions)
    small, large = bytearray(most), set[int]()
    is_ordered = True  # whether all that every instruction so far waits for is before it
    calls: dict[int, str] = {}
    # `[:]` copies a repeated field to a list, which is iterated over in half the time.
    for instruction in instructions:
        for before in instruction.operand_ids[:] + instruction.control_predecessor_ids[:]:
            local_id = before & LOCAL_ID
            if not (small[local_id] if local_id < most else local_id in large):
                is_ordered = False
        for called in instruction.called_computation_ids[:]:
            called_index = computation_by_id.get(called & LOCAL_ID)
            if called_index is None:
                raise _error(
                    computation, instruction, f"calls a computation of id {called}, which is not in the module"
                )
            if called_index not in calls:
                calls[called_index] = instruction.name
        local_id = instruction.id & LOCAL_ID
        if small[local_id] if local_id < most else local_id in large:
            first = next(each.name for each in instructions if each.id & LOCAL_ID == local_id)
            raise _error(computation, instruction, f"has the same id {instruction.id} as instruction {first!r}")
        if local_id < most:
            small[local_id] = 1
        else:
            large.add(local_id)
    root_id = computation.root_id & LOCAL_ID
    if not (small[root_id] if root_id < most else root_id in large):
        raise InvalidModuleError(
            f"computation {computation.name!r}: its root, id {computation.root_id}, is not among its "
            f"{len(instructions)} instructions"
        )
    if not is_ordered:
        _check_order(computation)
    return calls


def _check_order(computation: xla.HloComputationProto) -> None:
    """Raises InvalidModuleError for an operand or control predecessor that is not in the computation, and for a cycle
    of them.
    """
    index_by_id = {each.id & LOCAL_ID: index for index, each in enumerate(computation.instructions)}
    operands: list[list[int]] = []
    all_before: list[list[int]] = []
    for instruction in computation.instructions:
        named = [(f"has as operand {k} the id {each}", each) for k, each in enumerate(instruction.operand_ids)]
        named += [(f"names a control predecessor of id {each}", each) for each in instruction.control_predecessor_ids]
        for role, each in named:
            if each & LOCAL_ID not in index_by_id:
                raise _error(computation, instruction, f"{role}, which is not in its computation")
        all_before.append([index_by_id[each & LOCAL_ID] for _, each in named])
        operands.append(all_before[-1][: len(instruction.operand_ids)])
    for before, role in ((operands, "operand"), (all_before, "operand or control predecessor")):
        cycle = find_cycle(before)
        if cycle is not None:
            names = " → ".join(repr(computation.instructions[index].name) for index in cycle[:8])
            first = computation.instructions[cycle[0]]
            raise _error(computation, first, f"is its own {role}, through {names}{' → …' if len(cycle) > 8 else ''}")


def _error(computation: xla.HloComputationProto, instruction: xla.HloInstructionProto, what: str) -> InvalidModuleError:
    name = repr(instruction.name) if instruction.name else f"of id {instruction.id}"
    return InvalidModuleError(f"computation {computation.name!r}: instruction {name} {what}")


# The first version of jaxlib that is known to load ids beyond 32 bits; 0.4.35 does not, versions between are unknown.
_LARGE_IDS_SINCE: Final = (0, 10)
_VERSION: Final = re.compile(r"[0-9]+(?:\.[0-9]+)*")


def needs_small_ids(version: str) -> bool:
    """Whether a version of jaxlib may refuse ids beyond 32 bits. Raises InvalidArgumentError for text that is not a
    version.

    >>> needs_small_ids("0.4.35"), needs_small_ids("0.12")
    (True, False)
    """
    if _VERSION.fullmatch(version) is None:
        raise InvalidArgumentError(f"{version!r} is not a version of jaxlib, such as 0.4.35", field="for_version")
    return tuple(map(int, version.split("."))) < _LARGE_IDS_SINCE


def with_small_ids(message: xla.HloModuleProto | xla.HloProto) -> xla.HloModuleProto | xla.HloProto:
    """A copy with ids below 2^32: instructions are numbered from 1 through all computations, then the computations.

    The order of the ids within a computation stays, since XLA prints in this order. Raises InvalidModuleError if the
    ids of the module are inconsistent.
    """
    copy = type(message).FromString(message.SerializeToString())
    module = copy.hlo_module if isinstance(copy, xla.HloProto) else copy
    check_module(module.name, module.entry_computation_id, module.computations, module.computations)
    by_computation: list[dict[int, int]] = []
    next_id = 1
    for computation in module.computations:
        local = sorted(instruction.id & LOCAL_ID for instruction in computation.instructions)
        by_computation.append({ident: next_id + number for number, ident in enumerate(local)})
        next_id += len(local)
    # Computations keep the order of their ids.
    old_ids = sorted(computation.id & LOCAL_ID for computation in module.computations)
    computation_ids = {ident: next_id + number for number, ident in enumerate(old_ids)}
    whole_ids: dict[int, int] = {}
    sequences = {ident & LOCAL_ID: sequence for ident, sequence in module.schedule.sequences.items()}
    schedule = xla.HloScheduleProto()
    for computation, ids in zip(module.computations, by_computation, strict=True):
        old_id = computation.id & LOCAL_ID
        new_id = computation_ids[old_id]
        if old_id in sequences:
            schedule.sequences[new_id].instruction_ids.extend(
                [ids.get(ident & LOCAL_ID, ident) for ident in sequences[old_id].instruction_ids]
            )
        computation.id = new_id
        computation.root_id = ids[computation.root_id & LOCAL_ID]
        for instruction in computation.instructions:
            whole_ids[instruction.id] = ids[instruction.id & LOCAL_ID]
            instruction.id = ids[instruction.id & LOCAL_ID]
            for numbers in (instruction.operand_ids, instruction.control_predecessor_ids):
                numbers[:] = [ids[ident & LOCAL_ID] for ident in numbers]
            instruction.called_computation_ids[:] = [
                computation_ids[ident & LOCAL_ID] for ident in instruction.called_computation_ids
            ]
    module.entry_computation_id = computation_ids[module.entry_computation_id & LOCAL_ID]
    module.id &= LOCAL_ID
    if module.HasField("schedule"):
        module.schedule.CopyFrom(schedule)
    if isinstance(copy, xla.HloProto):
        for buffer in copy.buffer_assignment.logical_buffers:
            ident = buffer.defined_at.instruction_id
            buffer.defined_at.instruction_id = whole_ids.get(ident, ident)
    return copy


def serialized(message: Message) -> bytes:
    """The bytes of a message. Raises InvalidModuleError if it cannot be serialized."""
    try:
        return message.SerializePartialToString(deterministic=True)
    except (EncodeError, ValueError) as error:
        raise InvalidModuleError(f"the module cannot be serialized: {error}") from error
