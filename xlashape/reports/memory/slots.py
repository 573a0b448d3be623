"""Slots, in which buffers live one after the other, and spans of time."""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Iterable, Sequence
from itertools import accumulate


class Slots:
    """Slots: allocations that hold buffers one after the other, and the times at which each is free. A set of slots is
    a number with a bit for each slot.

    There is such a set for each time of the schedule, for each block of neighbouring times, and for each block of
    neighbouring blocks. A slot is free at a time if it is in all three: a span takes it out of as few as make it up.
    """

    def __init__(self, times: int, first: Sequence[Sequence[tuple[int, int]]]) -> None:
        """Slots with a buffer in each: `first` has the spans of these, in order and apart from each other."""
        change = [(1 << len(first)) - 1] + [0] * (times + 1)
        for slot, spans in enumerate(first):
            for low, high in spans:
                change[low] ^= 1 << slot
                change[high + 1] ^= 1 << slot
        shift = self._shift = ((times + 1).bit_length() + 2) // 3
        """A block has two to this power of times, or of blocks."""
        self._levels = (
            list(accumulate(change, int.__xor__)),
            [-1] * ((times >> shift) + 1),
            [-1] * ((times >> 2 * shift) + 1),
        )
        self._begins = [[low for low, _ in spans] for spans in first]
        """For each slot, the times from which it is taken, in order."""

    def put(self, slot: int, spans: Iterable[tuple[int, int]]) -> None:
        """Puts a buffer into a slot."""
        others, shift = ~(1 << slot), self._shift
        for low, high in spans:
            insort(self._begins[slot], low)
            high += 1
            for sets in self._levels:
                first, last = -(-low >> shift), high >> shift
                if first >= last:
                    for each in range(low, high):
                        sets[each] &= others
                    break
                for each in (*range(low, first << shift), *range(last << shift, high)):
                    sets[each] &= others
                low, high = first, last

    def free_at(self, time: int) -> int:
        """The slots that are free at a time."""
        times, blocks, large = self._levels
        return times[time] & blocks[time >> self._shift] & large[time >> 2 * self._shift]

    def last_free(self, slots: int, spans: Iterable[tuple[int, int]]) -> int:
        """The last one of some slots that is free throughout the spans; -1 where there is none."""
        (times, blocks, large), shift = self._levels, self._shift
        for low, high in spans:
            slots = slots & times[low] & times[high] & blocks[low >> shift] & blocks[high >> shift]
            slots = slots & large[low >> 2 * shift] & large[high >> 2 * shift]
        while slots:
            slot = slots.bit_length() - 1
            begins = self._begins[slot]
            for low, high in spans:
                later = bisect_right(begins, low)
                if later < len(begins) and begins[later] <= high:
                    slots &= self.free_at(begins[later])
                    break
            else:
                return slot
        return -1


def union(spans: Iterable[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """The times of all spans as spans in order and apart from each other."""
    found: list[tuple[int, int]] = []
    for first, last in sorted(spans):
        if found and first <= found[-1][1] + 1:
            found[-1] = (found[-1][0], max(found[-1][1], last))
        else:
            found.append((first, last))
    return tuple(found)


def without(spans: Iterable[tuple[int, int]], times: Iterable[int]) -> Iterable[tuple[int, int]]:
    """The parts of spans that have none of these times."""
    for time in times:
        spans = [
            part
            for first, last in spans
            for part in (((first, time - 1), (time + 1, last)) if first <= time <= last else ((first, last),))
            if part[0] <= part[1]
        ]
    return spans
