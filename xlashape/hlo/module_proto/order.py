"""The orders in which XLA visits a module: operands before their users, called computations before their callers.

`post_order` and `call_order` give the order in which XLA prints and numbers. XLA sorts instructions by id when it reads
a proto and walks them depth first. The walk starts at each instruction that is not an operand of another, in the order
of ids. It enters an instruction's control predecessors last to first, then its operands first to last. For
computations, the walk starts at each computation that no other calls, in the order of the list, and follows the calls
of its instructions in the order of their ids. All computations that one instruction calls are marked as seen at once:
if a loop and a loop in its body share a condition, the condition comes after the body. (A scheduled computation is
printed in the order of its schedule instead.)
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

from xlashape.limits import spend


def post_order(predecessors: Sequence[Sequence[int]], roots: Iterable[int], *, is_counted: bool = True) -> list[int]:
    """The nodes that can be reached from `roots`, each after its predecessors, which are walked first to last. Does not
    recurse.

    The walk ends on a graph with a cycle too; some node of the cycle then comes before one of its predecessors.
    With `is_counted`, the steps count against the budget (`xlashape.limits`), which may end the walk.

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
                if is_counted:
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


def is_post_order(operands: Sequence[Sequence[int]], ids: Sequence[int]) -> bool:
    """Whether XLA's order of instructions without control predecessors is the order that they already have. False where
    this pass cannot tell: `post_order` then decides.

    The nodes that a walk sees for the first time when it enters node n are a block that ends with n. The order is that
    of the walk if each block consists of the blocks of operands, in the order of the operands, and then n; and if every
    other operand of n was seen before: it is in an earlier block, or in the block of an operand before it. What is left
    are the blocks of the nodes where a walk starts, which must be in the order of ids.

    >>> is_post_order([[], [], [0, 1], [2, 0]], [0, 1, 2, 3]), is_post_order([[], [], [1, 0]], [0, 1, 2])
    (True, False)
    """
    left: list[int] = []  # the last nodes of blocks that are no part of another yet
    first_of: list[int] = []  # the first node of each node's block
    is_taken = bytearray(len(operands))
    for node, before in enumerate(operands):
        first = node
        if len(before) > 1:
            if len(set(before)) < len(before):
                before = list(dict.fromkeys(before))  # the walk enters an operand where it comes first
            before = before[::-1]
        for operand in before:
            if left and left[-1] == operand:
                left.pop()
                is_taken[operand] = 1
                first = first_of[operand]
            elif operand >= first or not is_taken[operand]:
                return False
        first_of.append(first)
        left.append(node)
    return all(ids[one] < ids[two] for one, two in pairwise(left))


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
