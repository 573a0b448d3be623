"""Finds the start of an asynchronous operation: the async-start whose state an async-update or async-done takes.

The state may pass through copies, tuples and loops. XLA looks for the start against the flow of data, depth first. From
an instruction, the search goes on at:

    copy, opt-barrier, async-update   the first operand
    get-tuple-element                 the tuple; the element's index is kept until a tuple is reached
    tuple                             the element of the index kept last, or each in turn where none is kept
    while                             the root of its body, then its operand
    a parameter of a loop's body      the loop's operand, then the root of the body; only if no other instruction calls
                                      the body

The search does not go beyond any other operation. Matches what jaxlib 0.12.0.1 prints.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from xlashape.hlo.ir import HloComputation, HloInstruction
from xlashape.hlo.ops.opcode import Opcode
from xlashape.limits import spend

_STEPS: Final = 1_000
"""The most instructions that one search looks at: the number of paths through nested tuples may be exponential."""

_PASSED_ON: Final = frozenset((Opcode.ASYNC_UPDATE, Opcode.COPY, Opcode.OPT_BARRIER))

Callers = Callable[[HloComputation], Sequence[HloInstruction]]
"""A function that gives the instructions that call a computation."""


class _Index(NamedTuple):
    """A linked list of the indices of the get-tuple-elements that the search has passed, the last one first."""

    number: int
    earlier: _Index | None


def is_start(node: HloInstruction) -> bool:
    """Whether an instruction is an async-start, or an async-update that calls a computation itself."""
    return node.opcode is Opcode.ASYNC_START or (node.opcode is Opcode.ASYNC_UPDATE and bool(node.called_computations))


def async_start(
    instruction: HloInstruction,
    known: dict[HloInstruction, HloInstruction | None] | None = None,
    *,
    callers: Callers | None = None,
    begins: Callable[[HloInstruction], bool] = is_start,
) -> HloInstruction | None:
    """The first instruction that begins an asynchronous operation on the paths from `instruction` against the flow of
    data. From an async-done, the search begins at its operand. None if the search finds none. `begins` says which
    instructions begin an operation, and `callers` which call a computation; without it, those of the module.

    `known` has the results for instructions of the same module and the same `begins`. They are used and added to, so
    that searches from all steps of a chain together take linear time.
    """
    known = {} if known is None else known
    callers = instruction.computation.module.callers_of if callers is None else callers
    chain: list[HloInstruction] = []
    node = instruction.operands[0] if instruction.opcode is Opcode.ASYNC_DONE else instruction
    while node not in known and not begins(node) and node.opcode in _PASSED_ON and node.operands:
        spend(1)
        chain.append(node)
        node = node.operands[0]
    found = known[node] if node in known else _search(node, callers, begins)
    for each in chain:
        known[each] = found
    return found


def _search(node: HloInstruction, callers: Callers, begins: Callable[[HloInstruction], bool]) -> HloInstruction | None:
    path: dict[HloInstruction, None] = {}
    # For each node of the path, the nodes that remain to be searched from it, the next one last. The first entry is the
    # start of the search.
    left: list[list[tuple[HloInstruction, _Index | None]]] = [[(node, None)]]
    steps = 0
    while left:
        if not left[-1]:
            left.pop()
            if left:
                path.popitem()
            continue
        node, index = left[-1].pop()
        if node in path:
            continue
        if begins(node):
            return node
        steps += 1
        if steps > _STEPS:
            return None
        spend(1)
        path[node] = None
        ways = _ways(node, index, callers)
        ways.reverse()
        left.append(ways)
    return None


def _ways(node: HloInstruction, index: _Index | None, callers: Callers) -> list[tuple[HloInstruction, _Index | None]]:
    """The instructions at which the search goes on after `node`, each with the indices that are kept."""
    opcode, operands = node.opcode, node.operands
    if opcode in _PASSED_ON:
        return [(operand, index) for operand in operands[:1]]
    if opcode is Opcode.GET_TUPLE_ELEMENT:
        return [(operand, _Index(node.kind.tuple_index, index)) for operand in operands[:1]]
    if opcode is Opcode.TUPLE:
        if index is None:
            return [(operand, None) for operand in operands]
        return [(operand, index.earlier) for operand in operands[index.number : index.number + 1]]
    if opcode is Opcode.WHILE:
        roots = [called.root for called in node.called_computations[:1]]
        return [(way, index) for way in (*roots, *operands[:1])]
    if opcode is Opcode.PARAMETER:
        found = callers(node.computation)
        if len(found) == 1 and found[0].opcode is Opcode.WHILE and found[0].called_computations[0] is node.computation:
            return [(way, index) for way in (*found[0].operands[:1], node.computation.root)]
    return []
