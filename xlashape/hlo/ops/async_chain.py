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

from collections.abc import Hashable, Sequence
from typing import Final, NamedTuple, Protocol, TypeVar

from xlashape.hlo.ops.opcode import Opcode
from xlashape.limits import spend

_STEPS: Final = 1_000
"""The most instructions that one search looks at: the number of paths through nested tuples may be exponential."""

_PASSED_ON: Final = frozenset((Opcode.ASYNC_UPDATE, Opcode.COPY, Opcode.OPT_BARRIER))

NodeT = TypeVar("NodeT", bound=Hashable)


class Graph(Protocol[NodeT]):
    """The questions that the search asks about instructions. `node` stands for an instruction."""

    def opcode(self, node: NodeT, /) -> str:
        """The opcode of an instruction."""
        ...

    def operands(self, node: NodeT, /) -> Sequence[NodeT]:
        """The operands of an instruction."""
        ...

    def tuple_index(self, node: NodeT, /) -> int:
        """Which element a get-tuple-element takes."""
        ...

    def body_root(self, node: NodeT, /) -> NodeT | None:
        """The root of the body of a while; of a parameter, the root of its computation."""
        ...

    def loop(self, node: NodeT, /) -> NodeT | None:
        """The while whose body holds a parameter; None if anything else calls that computation."""
        ...

    def is_origin(self, node: NodeT, /) -> bool:
        """Whether the search ends at an instruction: one that begins an asynchronous operation, such as async-start."""
        ...


class _Index(NamedTuple):
    """A linked list of the indices of the get-tuple-elements that the search has passed, the last one first."""

    number: int
    earlier: _Index | None


def find_origin(graph: Graph[NodeT], node: NodeT, known: dict[NodeT, NodeT | None]) -> NodeT | None:
    """The first instruction for which `graph.is_origin` is true, on the paths from `node` against the flow of data.
    None if the search finds none.

    `known` has the results for nodes of the same graph. They are used and added to, so that searches from all steps of
    a chain together take linear time.
    """
    chain: list[NodeT] = []
    while node not in known and not graph.is_origin(node) and graph.opcode(node) in _PASSED_ON and graph.operands(node):
        spend(1)
        chain.append(node)
        node = graph.operands(node)[0]
    found = known[node] if node in known else _search(graph, node)
    for each in chain:
        known[each] = found
    return found


def _search(graph: Graph[NodeT], node: NodeT) -> NodeT | None:
    path: dict[NodeT, None] = {}
    # For each node of the path, the nodes that remain to be searched from it, the next one last. The first entry is the
    # start of the search.
    left: list[list[tuple[NodeT, _Index | None]]] = [[(node, None)]]
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
        if graph.is_origin(node):
            return node
        steps += 1
        if steps > _STEPS:
            return None
        spend(1)
        path[node] = None
        ways = _ways(graph, node, index)
        ways.reverse()
        left.append(ways)
    return None


def _ways(graph: Graph[NodeT], node: NodeT, index: _Index | None) -> list[tuple[NodeT, _Index | None]]:
    """The instructions at which the search goes on after `node`, each with the indices that are kept."""
    opcode, operands = graph.opcode(node), graph.operands(node)
    if opcode in _PASSED_ON:
        return [(operand, index) for operand in operands[:1]]
    if opcode == Opcode.GET_TUPLE_ELEMENT:
        return [(operand, _Index(graph.tuple_index(node), index)) for operand in operands[:1]]
    if opcode == Opcode.TUPLE:
        if index is None:
            return [(operand, None) for operand in operands]
        return [(operand, index.earlier) for operand in operands[index.number : index.number + 1]]
    if opcode == Opcode.WHILE:
        return [(way, index) for way in (graph.body_root(node), *operands[:1]) if way is not None]
    if opcode == Opcode.PARAMETER:
        loop = graph.loop(node)
        if loop is None:
            return []
        return [(way, index) for way in (*graph.operands(loop)[:1], graph.body_root(node)) if way is not None]
    return []
