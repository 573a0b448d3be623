"""The rules an HloModuleProto must keep so that it can be viewed at all: what is named must be there, and nothing may run in circles.

Whether shapes fit operands and attributes their opcode is the verifier's matter, not this file's.

Ids. XLA looks at the low 32 bits of an id only, within the computation for instructions, within the module for computations.
Newer XLA writes (computation id << 32) | number, older XLA numbers that are unique in the module; both keep this rule.
XLA also wants operands before their users and called computations before their callers; any order without a circle is taken here.
"""

from __future__ import annotations

from collections.abc import Sequence

from xlashape.errors import InvalidModuleError
from xlashape.proto import xla

__all__ = ["LOCAL_ID", "check_module", "find_cycle"]

LOCAL_ID = 0xFFFFFFFF
"""The bits of an id that name an instruction within its computation, a computation within its module."""


def check_module(module: xla.HloModuleProto) -> dict[int, int]:
    """The place of each computation by its local id, once the module keeps the rules.

    Raises InvalidModuleError naming what breaks which rule. Time is linear in instructions, operands and calls.
    """
    of = f"module {module.name!r}: "
    computations = module.computations
    places: dict[int, int] = {}
    for place, computation in enumerate(computations):
        local = computation.id & LOCAL_ID
        if local in places:
            first = computations[places[local]].name
            raise InvalidModuleError(
                f"{of}computations {first!r} and {computation.name!r} have the same id {computation.id}"
            )
        places[local] = place
    if module.entry_computation_id & LOCAL_ID not in places:
        what = (
            f"its entry computation, id {module.entry_computation_id}, is not there"
            if places
            else "it has no computations"
        )
        raise InvalidModuleError(of + what)
    calls = [_check_computation(computation, places) for computation in computations]
    cycle = find_cycle(calls)
    if cycle is not None:
        names = " → ".join(repr(computations[place].name) for place in cycle)
        caller = _caller(computations[cycle[0]], computations[cycle[1 % len(cycle)]].id)
        raise InvalidModuleError(f"{of}computations call each other in a circle, {names}, by instruction {caller!r}")
    return places


def _check_computation(computation: xla.HloComputationProto, computations: dict[int, int]) -> Sequence[int]:
    """The places of the computations that this one calls, each once."""
    instructions = computation.instructions
    places: dict[int, int] = {}
    in_order = True
    calls: dict[int, None] | None = None
    controlled: list[xla.HloInstructionProto] = []
    # Lists of their own, `[:]`, are gone through in half the time.
    for place, instruction in enumerate(instructions):
        for operand in instruction.operand_ids[:]:
            if operand & LOCAL_ID not in places:
                in_order = False
        for called in instruction.called_computation_ids[:]:
            target = computations.get(called & LOCAL_ID)
            if target is None:
                raise _error(
                    computation, instruction, f"calls a computation of id {called}, which is not in the module"
                )
            calls = {} if calls is None else calls
            calls[target] = None
        local = instruction.id & LOCAL_ID
        if local in places:
            first = instructions[places[local]].name
            raise _error(computation, instruction, f"has the same id {instruction.id} as instruction {first!r}")
        places[local] = place
        if instruction.control_predecessor_ids:
            controlled.append(instruction)
    if computation.root_id & LOCAL_ID not in places:
        raise InvalidModuleError(
            f"computation {computation.name!r}: its root, id {computation.root_id}, is not among its {len(instructions)} instructions"
        )
    if not in_order:
        _check_operands(computation, places)
    for instruction in controlled:
        for predecessor in instruction.control_predecessor_ids:
            if predecessor & LOCAL_ID not in places:
                raise _error(
                    computation,
                    instruction,
                    f"names a control predecessor of id {predecessor}, which is not in its computation",
                )
    return () if calls is None else tuple(calls)


def _check_operands(computation: xla.HloComputationProto, places: dict[int, int]) -> None:
    graph: list[list[int]] = []
    for instruction in computation.instructions:
        edges: list[int] = []
        for number, operand in enumerate(instruction.operand_ids):
            place = places.get(operand & LOCAL_ID)
            if place is None:
                raise _error(
                    computation,
                    instruction,
                    f"has as operand {number} the id {operand}, which is not in its computation",
                )
            edges.append(place)
        graph.append(edges)
    cycle = find_cycle(graph)
    if cycle is not None:
        names = " → ".join(repr(computation.instructions[place].name) for place in cycle[:8])
        first = computation.instructions[cycle[0]]
        raise _error(computation, first, f"is its own operand, through {names}{' → …' if len(cycle) > 8 else ''}")


def find_cycle(graph: Sequence[Sequence[int]]) -> list[int] | None:
    """Nodes along a circle of the directed graph, the first repeated at the end, or None. No recursion.

    >>> find_cycle([[1], [2], [1]]), find_cycle([[1, 2], [2], []])
    ([1, 2, 1], None)
    """
    unseen, open_, done = 0, 1, 2
    state = bytearray(len(graph))
    for start in range(len(graph)):
        if state[start] != unseen:
            continue
        path, rest = [start], [iter(graph[start])]
        state[start] = open_
        while path:
            for node in rest[-1]:
                if state[node] == open_:
                    return [*path[path.index(node) :], node]
                if state[node] == unseen:
                    state[node] = open_
                    path.append(node)
                    rest.append(iter(graph[node]))
                    break
            else:
                state[path.pop()] = done
                rest.pop()
    return None


def _caller(computation: xla.HloComputationProto, called: int) -> str:
    for instruction in computation.instructions:
        if any(one & LOCAL_ID == called & LOCAL_ID for one in instruction.called_computation_ids):
            return instruction.name
    return ""


def _error(computation: xla.HloComputationProto, instruction: xla.HloInstructionProto, what: str) -> InvalidModuleError:
    name = repr(instruction.name) if instruction.name else f"of id {instruction.id}"
    return InvalidModuleError(f"computation {computation.name!r}: instruction {name} {what}")
