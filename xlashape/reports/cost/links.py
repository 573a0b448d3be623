"""The links between devices, as their makers publish them, and the least time that a collective takes on them.

The time is that of the bytes alone: latency and the work of sending are left out. A device sends at most what all its
links carry, wherever its partners are, so `max(sent, received) / links` is a lower bound for any placement. A topology
makes it tighter:

    a torus          only links along the axes in which the members of a group differ carry its data: two along an axis
                     that is a ring, else one. An all-to-all also has to pass each axis: every byte takes as many links
                     of it as its source and its target are apart.
    domains          devices with fast links between them, such as the 8 GPUs of a node or the chips of a slice. A
                     group that leaves its domain sends, domain by domain, as if each domain were one device, whose
                     links are the network adapters of its devices; all groups of a domain share them.

All devices run the collective at the same time, and their groups share links: where the bound follows from links that
several groups share, it is that of all groups together.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

from xlashape.base.math import product
from xlashape.base.similar import did_you_mean
from xlashape.errors import InvalidArgumentError, NotFoundError
from xlashape.hlo.collectives import Collective, DeviceGroups
from xlashape.limits import spend

_GB: Final = 1e9
_SIZES: Final = re.compile(r"(?:([a-z][a-z0-9\-]{0,30}?)x)?(\d{1,6}(?:x\d{1,6}){0,3})")


class Links(NamedTuple):
    """What one device sends at most, in bytes/s one way. It receives as much at the same time."""

    links: int
    """The number of links to other devices of the domain."""
    link: float
    """Bytes/s of one of them."""
    axes: int | None
    """The number of axes of the torus; None for links to a switch or to every other device."""
    ring: int
    """An axis of the torus is a ring where its size is a multiple of this."""
    domain: int | None
    """How many devices a domain has where no topology says it; None: any number."""
    network: float | None
    """Bytes/s to other domains; None where the maker publishes none."""
    source: str
    """Who publishes the numbers, and when."""

    @property
    def bandwidth(self) -> float:
        """Bytes/s through all links to devices of the domain."""
        return self.links * self.link


_TORUS: Final = "scaling-book 2025, How to Think About TPUs; Google Cloud TPU documentation 2026"
_NVIDIA: Final = "datasheet: NVLink, both ways together twice as much; network of"
LINKS: Final[dict[str, Links]] = {
    "tpu-v4": Links(6, 45 * _GB, 3, 4, None, None, _TORUS),
    "tpu-v5e": Links(4, 45 * _GB, 2, 16, None, 3.1 * _GB, _TORUS),
    "tpu-v5p": Links(6, 90 * _GB, 3, 4, None, 6.25 * _GB, _TORUS),
    "tpu-v6e": Links(4, 90 * _GB, 2, 16, None, 12.5 * _GB, _TORUS),
    "tpu-7x": Links(6, 90 * _GB, None, 1, None, 12.5 * _GB, f"{_TORUS}; two devices of JAX share the links of a chip"),
    "a100": Links(12, 25 * _GB, None, 1, 8, 25 * _GB, f"NVIDIA A100 {_NVIDIA} DGX A100, 2020"),
    "h100": Links(18, 25 * _GB, None, 1, 8, 50 * _GB, f"NVIDIA H100 {_NVIDIA} DGX H100, 2022"),
    "h200": Links(18, 25 * _GB, None, 1, 8, 50 * _GB, f"NVIDIA H200 {_NVIDIA} DGX H200, 2023"),
    "b200": Links(18, 50 * _GB, None, 1, 8, 50 * _GB, f"NVIDIA B200 {_NVIDIA} DGX B200, 2024"),
    "mi300x": Links(7, 64 * _GB, None, 1, 8, None, "AMD Instinct MI300X data sheet, 2023: Infinity Fabric"),
}
"""Name of a target → its links."""


class Topology(NamedTuple):
    """Where devices are: a torus of these sizes, or so many domains of so many devices."""

    sizes: tuple[int, ...]
    """Of a torus its axes, the one with successive ids first; else the numbers of domains and of devices in each, or
    that of devices alone."""
    target: str | None = None
    """The chip, if the text names it."""

    @staticmethod
    def parse(text: str) -> Topology:
        """The topology in text: `4x4`, a torus of a TPU; `8` or `h100x8`, 8 GPUs with links between them; `4x8`, 4
        domains of 8. Raises InvalidArgumentError, NotFoundError for an unknown target.

        >>> Topology.parse("4x4").sizes, Topology.parse("h100x8")
        ((4, 4), Topology(sizes=(8,), target='h100'))
        """
        match = _SIZES.fullmatch(text.strip().lower())
        sizes = tuple([int(size) for size in match[2].split("x")]) if match else ()
        if match is None or product(sizes) < 1 or product(sizes) > 1 << 20:
            raise InvalidArgumentError(
                f"expected a topology such as '4x4' or 'h100x8', found {text[:80]!r}", field="topology"
            )
        if match[1] is not None and match[1] not in LINKS:
            hint = did_you_mean(match[1], LINKS)
            raise NotFoundError(
                f"there is no target {match[1]!r} with links; there are {', '.join(LINKS)}{hint}",
                kind="target",
                name=match[1],
                field="topology",
            )
        return Topology(sizes, match[1])


def link_seconds(
    collective: Collective,
    groups: DeviceGroups,
    links: Links,
    topology: Topology | None = None,
    ids: Sequence[int] | None = None,
) -> float | None:
    """The least time of one execution of a collective; None where it is known only when the program runs how much it
    sends, and where a group leaves its domain by a network of unknown bandwidth. `ids` are the chips of the devices by
    position; None: their positions.
    """
    if collective.exchange.is_bound:
        return None
    moved = groups.moved(collective)
    most = max(moved.sent, moved.received)
    domain = links.domain if topology is None else product(topology.sizes) if links.axes else topology.sizes[-1]
    spend(sum(map(len, groups.members)))
    members = [[device if ids is None else ids[device] for device in group] for group in groups.members]
    members = [group for group in members if len(group) > 1]
    if domain is not None and any(group[0] // domain != chip // domain for group in members for chip in group):
        if links.network is None:
            return None
        within = most / (links.bandwidth + links.network)
        pairs = [(ids[a], ids[b]) if ids else (a, b) for a, b in groups.pairs or ()]
        load = _load(collective, members, pairs, domain)
        return max(within, load / (domain * links.network))
    if topology is None or links.axes is None or not _is_everywhere(groups, members, product(topology.sizes)):
        return most / links.bandwidth
    return _within(collective, members, links, topology, most)


def _is_everywhere(groups: DeviceGroups, members: Sequence[Sequence[int]], slice_size: int) -> bool:
    """Whether all chips of the slices are in groups of one size, and with pairs each chip sends: then what is true of
    the links of all chips together is true for one chip, too."""
    chips = {chip for group in members for chip in group}
    is_even = len({len(group) for group in members}) == 1 and len(chips) % slice_size == 0
    return is_even and (groups.pairs is None or len(groups.pairs) == len(chips))


def _within(
    collective: Collective, members: Sequence[Sequence[int]], links: Links, topology: Topology, most: int
) -> float:
    """The least time of groups in a torus that have all of its chips."""
    sizes = topology.sizes
    places = [[_place(chip % product(sizes), sizes) for chip in group] for group in members]
    spanned = [
        axis for axis in range(len(sizes)) if any(at[axis] != group[0][axis] for group in places for at in group)
    ]
    width = sum([2 if sizes[axis] % links.ring == 0 else 1 for axis in spanned])
    seconds = most / (min(width, links.links) * links.link)
    is_whole = all(len(group) == product([sizes[axis] for axis in spanned]) for group in places)
    if collective.exchange.has_own_data_for_each and is_whole:
        for axis in spanned:
            seconds = max(seconds, _across(sizes[axis], collective.operand_bytes, links))
    return seconds


def _across(size: int, operand_bytes: int, links: Links) -> float:
    """The least time in which all data of an all-to-all passes an axis, of whose `size` members each sends an equal
    part to each other."""
    if size % links.ring == 0:
        steps = sum([min(step, size - step) for step in range(1, size)])
        return operand_bytes / size * steps / (2 * links.link)
    half = size // 2
    return operand_bytes / size * half * (size - half) / links.link


def _place(chip: int, sizes: Sequence[int]) -> tuple[int, ...]:
    """Where a chip is in a torus: ids count along the first axis first."""
    place: list[int] = []
    for size in sizes:
        chip, at = divmod(chip, size)
        place.append(at)
    return tuple(place)


def _load(
    collective: Collective, members: Sequence[Sequence[int]], pairs: Sequence[tuple[int, int]], domain: int
) -> float:
    """The most bytes that a domain sends to others or receives from them."""
    load: dict[object, float] = {}
    for source, target in pairs:
        if source // domain != target // domain:
            for end in (("sent", source // domain), ("received", target // domain)):
                load[end] = load.get(end, 0.0) + collective.size
    for group in members if not pairs else ():
        inside: dict[int, int] = {}
        for chip in group:
            inside[chip // domain] = inside.get(chip // domain, 0) + 1
        for where, count in inside.items() if len(inside) > 1 else ():
            load[where] = load.get(where, 0.0) + _leaving(collective, len(group), len(inside), count)
    return max(load.values(), default=0.0)


def _leaving(collective: Collective, size: int, domains: int, inside: int) -> float:
    """The bytes that one group of `size` devices in so many domains sends out of one of them, which has `inside`."""
    if collective.exchange.has_own_data_for_each:
        return collective.operand_bytes / size * inside * (size - inside)
    moved = collective.exchange.moved(domains, collective.operand_bytes, collective.result_bytes)
    return max(moved.received, moved.sent_all / domains)
