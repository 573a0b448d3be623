"""The order in which XLA prints: operands before their users, called computations before their callers.

XLA sorts instructions by id when it reads a proto and prints them in the order of a depth-first walk; a scheduled computation is printed
in the order of its schedule. The walk starts at each instruction that is no operand of another, in the order of ids, and takes control
predecessors last to first, then operands first to last. Computations: from each that no other calls, in the order of the list, through
the calls of its instructions in the order of ids.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

__all__ = ["post_order", "unused"]


def post_order(before: Sequence[Sequence[int]], roots: Iterable[int]) -> list[int]:
    """The nodes that `roots` lead to, each behind those that `before` gives for it, first to last.

    A circle does not hang it: some node of the circle then stands before one that it should stand behind.

    >>> post_order([[2], [], []], [0, 1])
    [2, 0, 1]
    """
    order: list[int] = []
    state = bytearray(len(before))  # 0 not seen, 1 waiting for what comes before it, 2 done
    done, stack = order.append, list[int]()
    push, pop = stack.append, stack.pop
    for start in roots:
        push(start)
        while stack:
            node = pop()
            if not state[node]:
                waits = False
                for target in reversed(before[node]):
                    if not state[target]:
                        if not waits:
                            waits = True
                            state[node] = 1
                            push(node)
                        push(target)
                if waits:
                    continue
            elif state[node] == 2:
                continue
            state[node] = 2
            done(node)
    return order


def unused(count: int, edges: Iterable[Iterable[int]]) -> list[int]:
    """The nodes of 0 … count-1 that are no target of an edge, in order."""
    used = bytearray(count)
    for targets in edges:
        for target in targets:
            used[target] = 1
    return [node for node in range(count) if not used[node]]
