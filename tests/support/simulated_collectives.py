"""A simulation of collectives that moves single elements between devices, one message after the other, and counts. It
knows nothing of formulas, of HLO and of the library: a collective is a kind, groups of devices, and the number of
elements that a device has.

An element is (the devices that have contributed to it, its number). Each kind ends with a check that every device has
what it should.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise, product
from typing import NamedTuple


class Counted(NamedTuple):
    """Elements, not bytes."""

    sent: Counter[int]
    """Device → the elements that it sent."""
    lacked: dict[int, int]
    """Device → the elements of its result that it did not have before."""


def chunks(count: int, parts: int) -> list[range]:
    """So many elements in consecutive parts, of which the first ones may have one more."""
    small, larger = divmod(count, parts)
    ends = [0]
    for part in range(parts):
        ends.append(ends[-1] + small + (part < larger))
    return [range(*pair) for pair in pairwise(ends)]


def simulate(kind: str, groups: Sequence[Sequence[int]], elements: int) -> Counted:
    """A collective of devices that each have `elements` elements. For a collective-permute, `groups` are pairs."""
    counted = Counted(Counter(), {})
    if kind == "collective-permute":
        for source, target in groups:
            if source != target:
                counted.sent[source] += elements
                counted.lacked[target] = elements
        return counted
    for group in groups:
        if len(group) > 1:
            {"all-gather": _gather, "all-reduce": _reduce, "reduce-scatter": _scatter, "all-to-all": _exchange}[kind](
                list(group), elements, counted
            )
    return counted


def _gather(group: list[int], elements: int, counted: Counted) -> None:
    has = {device: {(device, number) for number in range(elements)} for device in group}
    before = {device: set(held) for device, held in has.items()}
    for step in range(len(group) - 1):
        messages = []
        for place, device in enumerate(group):
            owner = group[(place - step) % len(group)]
            part = {each for each in has[device] if each[0] == owner}
            messages.append((device, group[(place + 1) % len(group)], part))
        for device, target, part in messages:
            counted.sent[device] += len(part)
            has[target] |= part
    everything = {(device, number) for device in group for number in range(elements)}
    for device in group:
        assert has[device] == everything
        counted.lacked[device] = len(everything - before[device])


def _scatter_steps(group: list[int], elements: int, counted: Counted) -> dict[int, dict[int, frozenset[int]]]:
    """The first half of a ring: device → number of an element → the devices whose summands the device has in it. In the
    end the device at each place has all summands of the chunk of the next place."""
    parts = chunks(elements, len(group))
    sums = {device: {number: frozenset([device]) for number in range(elements)} for device in group}
    for step in range(len(group) - 1):
        messages = []
        for place, device in enumerate(group):
            chunk = parts[(place - step) % len(group)]
            messages.append((device, group[(place + 1) % len(group)], {n: sums[device][n] for n in chunk}))
        for device, target, part in messages:
            counted.sent[device] += len(part)
            for number, summands in part.items():
                assert not summands & sums[target][number]
                sums[target][number] |= summands
    return sums


def _reduce(group: list[int], elements: int, counted: Counted) -> None:
    sums = _scatter_steps(group, elements, counted)
    parts = chunks(elements, len(group))
    for step in range(len(group) - 1):
        messages = []
        for place, device in enumerate(group):
            chunk = parts[(place + 1 - step) % len(group)]
            messages.append((device, group[(place + 1) % len(group)], {n: sums[device][n] for n in chunk}))
        for device, target, part in messages:
            counted.sent[device] += len(part)
            sums[target] |= part
    for device in group:
        assert all(summands == frozenset(group) for summands in sums[device].values())
        counted.lacked[device] = elements  # no element of the sum was there


def _scatter(group: list[int], elements: int, counted: Counted) -> None:
    sums = _scatter_steps(group, elements, counted)
    parts = chunks(elements, len(group))
    for place, device in enumerate(group):
        chunk = parts[(place + 1) % len(group)]
        assert all(sums[device][number] == frozenset(group) for number in chunk)
        counted.lacked[device] = len(chunk)


def _exchange(group: list[int], elements: int, counted: Counted) -> None:
    parts = chunks(elements, len(group))
    for device in group:
        own = parts[group.index(device)]
        for source in group:
            if source != device:
                counted.sent[source] += len(own)
        counted.lacked[device] = len(own) * (len(group) - 1)


def groups_along(mesh: Mapping[str, int], axes: Sequence[str]) -> list[list[int]]:
    """The devices of a mesh that differ along these axes alone."""
    found: dict[tuple[int, ...], list[int]] = {}
    for device, index in enumerate(product(*map(range, mesh.values()))):
        key = tuple([step for name, step in zip(mesh, index, strict=True) if name not in axes])
        found.setdefault(key, []).append(device)
    return list(found.values())
