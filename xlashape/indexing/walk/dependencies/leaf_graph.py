"""Reachability in a graph of leaves. Bit i of a set stands for leaf i; `edges[i]` is the set of leaves that one step leads to from leaf i."""

from __future__ import annotations

from collections.abc import Sequence

from xlashape.limits import spend


def reachable_from(start: int, edges: Sequence[int]) -> int:
    """The set of leaves that any number of steps, none included, leads to from the set `start`.

    >>> bin(reachable_from(0b001, [0b010, 0b010, 0b001]))
    '0b11'
    """
    found, pending = 0, start
    while pending:
        spend(1)
        leaf = pending.bit_length() - 1
        found |= 1 << leaf
        pending = (pending | edges[leaf]) & ~found
    return found


def reaching(end: int, edges: Sequence[int], order: Sequence[int]) -> int:
    """The set of leaves from which any number of steps, none included, leads to some leaf of the set `end`.

    `order` is what `successors_first` returns for the same edges. In that order, one pass over a graph without cycles finds all.

    >>> edges = [0b010, 0b010, 0b001]
    >>> bin(reaching(0b010, edges, successors_first(edges)))
    '0b111'
    """
    found, before = end, 0
    while found != before:
        before = found
        spend(len(order))
        for leaf in order:
            if edges[leaf] & found:
                found |= 1 << leaf
    return found


def successors_first(edges: Sequence[int]) -> list[int]:
    """All leaves in an order in which a leaf comes after those that a step from it leads to, except along cycles (depth-first postorder)."""
    order: list[int] = []
    unseen = (1 << len(edges)) - 1
    while unseen:
        stack = [unseen.bit_length() - 1]
        unseen ^= 1 << stack[0]
        while stack:
            spend(1)
            successors = edges[stack[-1]] & unseen
            if successors:
                stack.append(successors.bit_length() - 1)
                unseen ^= 1 << stack[-1]
            else:
                order.append(stack.pop())
    return order
