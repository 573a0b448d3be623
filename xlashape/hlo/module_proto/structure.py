"""The structure of a module: the ids by which instructions and computations refer to each other. This file checks them,
finds the order in which XLA visits a module, and lists the instructions as a table.

`check_module` refuses an HloModuleProto with inconsistent ids: every id that it refers to must exist, and references
must not form a cycle. XLA looks at the low 32 bits of an id only. They are unique within the computation for
instructions, and within the module for computations. Newer XLA writes (computation id << 32) | number, older XLA
numbers that are unique in the module; both follow this rule. XLA also requires operands before their users and called
computations before their callers; here any order without a cycle is accepted. The verifier checks all other rules, such
as whether shapes fit operands.

`with_small_ids` gives a module ids that every version of XLA loads: jaxlib 0.4.30 and 0.4.35 refuse a module with ids
of the newer form in more than one computation; jaxlib 0.10.2 and 0.12 load both kinds.

`post_order` and `call_order` give the order in which XLA prints and numbers: operands before their users, called
computations before their callers. XLA sorts instructions by id when it reads a proto and walks them depth first. The
walk starts at each instruction that is not an operand of another, in the order of ids. It enters an instruction's
control predecessors last to first, then its operands first to last. For computations, the walk starts at each
computation that no other calls, in the order of the list, and follows the calls of its instructions in the order of
their ids. All computations that one instruction calls are marked as seen at once: if a loop and a loop in its body
share a condition, the condition comes after the body. (A scheduled computation is printed in the order of its schedule
instead.)
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final

from xlashape.errors import InvalidArgumentError, InvalidModuleError, XlashapeError
from xlashape.hlo.module_proto.compact import ComputationFields, Held, InstructionFields, ModuleFields
from xlashape.hlo.module_proto.stack_frames import Metadata, ModuleFrames
from xlashape.limits import spend
from xlashape.proto import xla
from xlashape.shape import Shape
from xlashape.shape.tiling.padding import physical_bytes
from xlashape.tables import Column, Kind, Table

LOCAL_ID = 0xFFFFFFFF
"""The bits of an id that are unique: the local id of an instruction in its computation, or a computation in its
module.
"""


def check_module(module: ModuleFields) -> dict[int, int]:
    """Checks the ids of a module. Returns local id → index of each computation.

    Raises InvalidModuleError, which says which rule is broken and where. Time is linear in instructions, operands and
    calls.
    """
    prefix = f"module {module.name!r}: "
    computations = module.computations
    index_by_id: dict[int, int] = {}
    for index, computation in enumerate(computations):
        local_id = computation.id & LOCAL_ID
        if local_id in index_by_id:
            first = computations[index_by_id[local_id]].name
            raise InvalidModuleError(
                f"{prefix}computations {first!r} and {computation.name!r} have the same id {computation.id}"
            )
        index_by_id[local_id] = index
    if module.entry_computation_id & LOCAL_ID not in index_by_id:
        what = (
            f"its entry computation, id {module.entry_computation_id}, is not there"
            if index_by_id
            else "it has no computations"
        )
        raise InvalidModuleError(prefix + what)
    calls = [_check_computation(computation, index_by_id) for computation in computations]
    cycle = find_cycle(calls)
    if cycle is not None:
        names = " → ".join(repr(computations[index].name) for index in cycle)
        caller = _caller(computations[cycle[0]], computations[cycle[1 % len(cycle)]].id)
        raise InvalidModuleError(f"{prefix}computations call each other in a cycle, {names}, by instruction {caller!r}")
    return index_by_id


def _check_computation(computation: ComputationFields, computation_by_id: dict[int, int]) -> Sequence[int]:
    """Checks the ids in a computation, and returns the indices of the computations that it calls, each once."""
    instructions = computation.instructions
    index_by_id: dict[int, int] = {}
    is_ordered = True  # whether every operand so far is before its user
    calls: dict[int, None] | None = None
    controlled: list[InstructionFields] = []
    # `[:]` copies a repeated field to a list, which is iterated over in half the time.
    for index, instruction in enumerate(instructions):
        for operand in instruction.operand_ids[:]:
            if operand & LOCAL_ID not in index_by_id:
                is_ordered = False
        for called in instruction.called_computation_ids[:]:
            called_index = computation_by_id.get(called & LOCAL_ID)
            if called_index is None:
                raise _error(
                    computation, instruction, f"calls a computation of id {called}, which is not in the module"
                )
            calls = {} if calls is None else calls
            calls[called_index] = None
        local_id = instruction.id & LOCAL_ID
        if local_id in index_by_id:
            first = instructions[index_by_id[local_id]].name
            raise _error(computation, instruction, f"has the same id {instruction.id} as instruction {first!r}")
        index_by_id[local_id] = index
        if instruction.control_predecessor_ids:
            controlled.append(instruction)
    if computation.root_id & LOCAL_ID not in index_by_id:
        raise InvalidModuleError(
            f"computation {computation.name!r}: its root, id {computation.root_id}, is not among its "
            f"{len(instructions)} instructions"
        )
    if not is_ordered:
        _check_operands(computation, index_by_id)
    for instruction in controlled:
        for predecessor in instruction.control_predecessor_ids:
            if predecessor & LOCAL_ID not in index_by_id:
                raise _error(
                    computation,
                    instruction,
                    f"names a control predecessor of id {predecessor}, which is not in its computation",
                )
    return () if calls is None else tuple(calls)


def _check_operands(computation: ComputationFields, index_by_id: dict[int, int]) -> None:
    """Raises InvalidModuleError for an operand that is not in the computation, and for a cycle of operands."""
    operands_of: list[list[int]] = []
    for instruction in computation.instructions:
        operands: list[int] = []
        for number, operand in enumerate(instruction.operand_ids):
            index = index_by_id.get(operand & LOCAL_ID)
            if index is None:
                raise _error(
                    computation,
                    instruction,
                    f"has as operand {number} the id {operand}, which is not in its computation",
                )
            operands.append(index)
        operands_of.append(operands)
    cycle = find_cycle(operands_of)
    if cycle is not None:
        names = " → ".join(repr(computation.instructions[index].name) for index in cycle[:8])
        first = computation.instructions[cycle[0]]
        raise _error(computation, first, f"is its own operand, through {names}{' → …' if len(cycle) > 8 else ''}")


def find_cycle(graph: Sequence[Sequence[int]]) -> list[int] | None:
    """The nodes along a cycle of a directed graph, the first repeated at the end. None if there is no cycle. Does not
    recurse.

    >>> find_cycle([[1], [2], [1]]), find_cycle([[1, 2], [2], []])
    ([1, 2, 1], None)
    """
    unseen, on_path, done = 0, 1, 2
    state = bytearray(len(graph))
    for start in range(len(graph)):
        if state[start] != unseen:
            continue
        path, remaining = [start], [iter(graph[start])]
        state[start] = on_path
        while path:
            for node in remaining[-1]:
                if state[node] == on_path:
                    return [*path[path.index(node) :], node]
                if state[node] == unseen:
                    state[node] = on_path
                    path.append(node)
                    remaining.append(iter(graph[node]))
                    break
            else:
                state[path.pop()] = done
                remaining.pop()
    return None


def _caller(computation: ComputationFields, called: int) -> str:
    """The name of the first instruction that calls the computation with the id `called`."""
    for instruction in computation.instructions:
        if any(number & LOCAL_ID == called & LOCAL_ID for number in instruction.called_computation_ids):
            return instruction.name
    return ""


def _error(computation: ComputationFields, instruction: InstructionFields, what: str) -> InvalidModuleError:
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
    check_module(module)
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


# -- order -------------------------------------------------------------------------------------


def post_order(predecessors: Sequence[Sequence[int]], roots: Iterable[int]) -> list[int]:
    """The nodes that can be reached from `roots`, each after its predecessors, which are walked first to last. Does not
    recurse.

    The walk ends on a graph with a cycle too; some node of the cycle then comes before one of its predecessors.

    >>> post_order([[2], [], []], [0, 1])
    [2, 0, 1]
    """
    order: list[int] = []
    state = bytearray(len(predecessors))  # 0 not seen, 1 waiting for its predecessors, 2 done
    append, stack = order.append, list[int]()
    push, pop = stack.append, stack.pop
    for root in roots:
        push(root)
        while stack:
            node = pop()
            if not state[node]:
                is_waiting = False
                spend(len(predecessors[node]))
                for predecessor in reversed(predecessors[node]):
                    if not state[predecessor]:
                        if not is_waiting:
                            is_waiting = True
                            state[node] = 1
                            push(node)
                        push(predecessor)
                if is_waiting:
                    continue
            elif state[node] == 2:
                continue
            state[node] = 2
            append(node)
    return order


def call_order(calls: Sequence[Sequence[Sequence[int]]], roots: Iterable[int]) -> list[int]:
    """The indices of the computations that can be reached from `roots`, called ones before their callers, in the order
    of XLA. `calls[c]` has a list for each instruction of the computation c: the computations that it calls.

    >>> call_order([[], [], [[1, 0]], [[2, 0]]], [3])  # 0 is the condition of both loops
    [1, 2, 0, 3]
    """
    order: list[int] = []
    seen = bytearray(len(calls))
    for root in roots:
        seen[root] = 1
        stack = [(root, iter(calls[root]))]
        while stack:
            computation, left = stack[-1]
            targets = next(left, None)
            if targets is None:
                order.append(computation)
                stack.pop()
                continue
            new: list[int] = []
            for target in reversed(targets):
                if not seen[target]:
                    seen[target] = 1
                    new.append(target)
            stack += [(target, iter(calls[target])) for target in new]
    return order


def roots(predecessors: Sequence[Iterable[int]]) -> list[int]:
    """The nodes that are not predecessors of another node, in order.

    >>> roots([[2], [], []])
    [0, 1]
    """
    is_predecessor = bytearray(len(predecessors))
    for nodes in predecessors:
        for node in nodes:
            is_predecessor[node] = 1
    return [node for node, flag in enumerate(is_predecessor) if not flag]


# -- instructions as a table -------------------------------------------------------------------


INSTRUCTION_COLUMNS: Final = (
    Column("instruction", Kind.TEXT, "its name"),
    Column("computation", Kind.TEXT, "the computation that it is in"),
    Column("opcode", Kind.TEXT, "its opcode"),
    Column("shape", Kind.TEXT, "the shape of its result, with its layout"),
    Column("bytes", Kind.INTEGER,
           "the bytes of all arrays of its result, padding included, whether or not they have memory of their own"),
    Column("operands", Kind.TEXTS, "the names of its operands"),
    Column("called_computations", Kind.TEXTS, "the names of the computations that it calls"),
    Column("is_root", Kind.BOOLEAN, "whether its result is that of its computation"),
    Column("op_name", Kind.TEXT, "the operation of the program that it comes from"),
    Column("source", Kind.TEXT, "the line of the user's own code that it comes from, as train.py:73"),
    Column("source_file", Kind.TEXT, "the path of that file"),
    Column("source_line", Kind.INTEGER, "the line of that file"),
)  # fmt: skip


def instruction_table(
    module: Held, computations: Iterable[ComputationFields] | None, shape_of: Callable[[xla.ShapeProto | bytes], Shape]
) -> Table:
    """A table with a row for each instruction of `computations`, in their order. None stands for all computations."""
    return Table(INSTRUCTION_COLUMNS, instruction_rows(module, computations, shape_of))


def instruction_rows(
    module: Held, computations: Iterable[ComputationFields] | None, shape_of: Callable[[xla.ShapeProto | bytes], Shape]
) -> Iterator[tuple[Any, ...]]:
    """Yields the rows of `instruction_table`. All rows together would take a kilobyte an instruction."""
    names = {computation.id & LOCAL_ID: computation.name for computation in module.fields.computations}
    sizes: dict[Shape, int | None] = {}
    frames = ModuleFrames(module.head.stack_frame_index)
    for computation in module.fields.computations if computations is None else computations:
        instructions = {instruction.id & LOCAL_ID: instruction.name for instruction in computation.instructions}
        for each in computation.instructions:
            shape = shape_of(each.shape)
            if shape not in sizes:
                sizes[shape] = _bytes(shape)
            metadata = Metadata.of_proto(each.metadata, frames)
            yield (
                each.name,
                computation.name,
                each.opcode,
                str(shape),
                sizes[shape],
                [instructions[number & LOCAL_ID] for number in each.operand_ids],
                [names[number & LOCAL_ID] for number in each.called_computation_ids],
                each.id & LOCAL_ID == computation.root_id & LOCAL_ID,
                metadata.op_name or None,
                metadata.source or None,
                metadata.source_file or None,
                metadata.source_line or None,
            )


def _bytes(shape: Shape) -> int | None:
    """The bytes of all arrays of a shape, padding included. None if a dimension is unbounded, or if the width of the
    elements is not known.
    """
    try:
        arrays = [leaf.buffer_shape if leaf.is_buffer else leaf for leaf in shape.leaves()]
        return sum([physical_bytes(array) for array in arrays if array.is_array])
    except XlashapeError:
        return None
