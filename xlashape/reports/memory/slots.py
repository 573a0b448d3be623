"""Slots, in which buffers live one after the other, and spans of time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


class Slots:
    """Slots: allocations that hold values one after the other, and the times at which each is taken. A set of slots is
    a number with a bit for each slot.

    A tree over the times of the schedule has such sets in its nodes. Its leaves are the times, and each 16 neighbours
    on a level have one parent. A span of times is represented by its two ends and, on each level, by the siblings
    between the ends.
    """

    def __init__(self, times: int, buffers: int) -> None:
        leaves = [0] * (times + 1)
        self._levels = [(leaves, leaves)]
        """Two lists for each level, the leaves first. For each node, the first has the slots that are taken at some
        time below it, the second those that are taken at all times below it by a span that contains the whole node."""
        while times >= 16:
            times >>= 4
            self._levels.append(([0] * (times + 1), [0] * (times + 1)))
        self._count = 0
        self.slot_of = [-1] * (buffers + 1)
        """The slot of each buffer, -1 for a buffer without one. The last entry is for the number -1, which is no
        buffer."""

    def add(self, number: int, spans: Sequence[tuple[int, int]]) -> int:
        """Makes a slot that has a buffer in it, and returns the number of the slot."""
        self._count += 1
        self.put(self._count - 1, number, spans)
        return self._count - 1

    def put(self, slot: int, number: int, spans: Sequence[tuple[int, int]]) -> None:
        """Puts a buffer into a slot."""
        self.slot_of[number] = slot
        bit = 1 << slot
        for low, high in spans:
            for some, every in self._levels:
                some[low] |= bit
                if low != high:
                    some[high] |= bit
                    if high - low > 1:
                        if low >> 4 == high >> 4:
                            inside = range(low + 1, high)
                        else:
                            inside = (*range(low + 1, (low | 15) + 1), *range(high & ~15, high))
                        for node in inside:
                            some[node] |= bit
                            every[node] |= bit
                low >>= 4
                high >>= 4

    def taken_at(self, time: int) -> int:
        """The slots that are taken at a time."""
        found = 0
        for _, every in self._levels:
            found |= every[time]
            time >>= 4
        return found

    def taken(self, spans: Iterable[tuple[int, int]]) -> int:
        """The slots that are taken at some time of the spans."""
        found = 0
        for low, high in spans:
            for some, every in self._levels:
                found |= every[low]
                if low != high:
                    found |= every[high]
                    if high - low > 1:
                        if low >> 4 == high >> 4:
                            inside = some[low + 1 : high]
                        else:
                            inside = some[low + 1 : (low | 15) + 1] + some[high & ~15 : high]
                        for each in inside:
                            found |= each
                low >>= 4
                high >>= 4
        return found


def union(spans: Iterable[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """The times of all spans as spans in order and apart from each other."""
    found: list[tuple[int, int]] = []
    for first, last in sorted(spans):
        if found and first <= found[-1][1] + 1:
            found[-1] = (found[-1][0], max(found[-1][1], last))
        else:
            found.append((first, last))
    return tuple(found)


def without(spans: Iterable[tuple[int, int]], times: Iterable[int]) -> list[tuple[int, int]]:
    """The parts of spans that have none of these times."""
    left = list(spans)
    for time in times:
        for number, (first, last) in enumerate(left):
            if first <= time <= last:
                left[number : number + 1] = [
                    part for part in ((first, time - 1), (time + 1, last)) if part[0] <= part[1]
                ]
                break
    return left


def overlap(a: Sequence[tuple[int, int]], b: Sequence[tuple[int, int]]) -> bool:
    """Whether two lists of spans, each in order, have a time in common."""
    x = y = 0
    while x < len(a) and y < len(b):
        if a[x][0] <= b[y][1] and b[y][0] <= a[x][1]:
            return True
        if a[x][1] < b[y][1]:
            x += 1
        else:
            y += 1
    return False
