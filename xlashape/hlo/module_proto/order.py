"""The order in which XLA prints and numbers: operands before their users, called computations before their callers.

XLA sorts instructions by id when it reads a proto and walks them depth first. The walk starts at each instruction that is not an operand
of another, in the order of ids. It enters an instruction's control predecessors last to first, then its operands first to last.
Computations: the walk starts at each that no other calls, in the order of the list, and follows the calls of its instructions in the
order of their ids. What one instruction calls is seen at once: a condition that a loop shares with a loop in its body follows that body. (A scheduled computation is printed in the order of its schedule instead.)
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def post_order(predecessors: Sequence[Sequence[int]], roots: Iterable[int]) -> list[int]:
    """The nodes that can be reached from `roots`, each after its predecessors, which are walked first to last. No recursion.

    The walk ends on a graph with a cycle too; some node of the cycle is then before one of its predecessors.

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
    """The computations that can be reached from `roots`. `calls` has what each instruction of each computation calls.

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
