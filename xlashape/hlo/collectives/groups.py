"""The devices that a collective brings together. A device is the number replica × partitions + partition: a position in
the device assignment, not the id of a chip.

    opcode                            channel  use_global_device_ids  mode                         a group is
    all-reduce, all-gather,           no       –                      cross_replica                these replicas, once
    reduce-scatter                                                                                 for every partition
                                      yes      false                  cross_replica_and_partition  every partition of
                                                                                                   these replicas
                                      yes      true                   flattened                    these devices
    all others                        no       –                      cross_replica                as above
                                      yes      –                      cross_partition              these partitions,
                                                                                                   once for every
                                                                                                   replica

Without groups, all replicas or partitions are one. Permutes, sends and receives have pairs of a source and a target; a
group of theirs is a connected component of the pairs that have two ends.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from xlashape.base.math import ceil_div
from xlashape.errors import InvalidModuleError, ParseError
from xlashape.hlo.collectives.found import Collective
from xlashape.hlo.ir import HloInstruction, ModuleData
from xlashape.hlo.ops.exchange import Exchanged, GroupNumbers
from xlashape.hlo.values.replica_groups import ReplicaGroups
from xlashape.limits import check, spend

_MOST_DEVICES: Final = 1 << 20
_PAIRS: Final = "_xla_send_recv_source_target_pairs"


class DeviceGrid(NamedTuple):
    """The devices that run a module."""

    replicas: int
    partitions: int
    is_stated: bool = True
    """Whether the module says how many there are. If not, there are as many as its collectives name."""

    @property
    def device_count(self) -> int:
        """The number of devices."""
        return self.replicas * self.partitions


class DeviceGroups(NamedTuple):
    """The devices that a collective brings together."""

    mode: str
    members: tuple[tuple[int, ...], ...]
    """The devices of each group."""
    pairs: tuple[tuple[int, int], ...] | None
    """The source and the target of each transfer, if they differ; None for a collective without pairs."""

    @property
    def size(self) -> int:
        """The number of devices of the largest group."""
        return max([len(group) for group in self.members], default=1)

    def moved(self, collective: Collective) -> Exchanged:
        """The bytes that one execution of the collective moves."""
        sizes = collective.operand_bytes, collective.result_bytes
        exchange = collective.exchange
        if self.pairs is not None:
            return exchange.moved(len(self.pairs), *sizes)
        total = Exchanged()
        counts: dict[int, int] = {}
        for group in self.members:
            counts[len(group)] = counts.get(len(group), 0) + 1
        for size, count in counts.items():
            one = exchange.moved(size, *sizes)
            total = total.beside(Exchanged(one.sent, one.received, one.sent_all * count, one.received_all * count))
        return total


def device_grid(module: ModuleData, collectives: Iterable[Collective], mesh_size: int = 1) -> DeviceGrid:
    """The devices of a module: those of its device assignment, of its text, or of the mesh with `mesh_size` devices; at
    least as many as the collectives name.
    """
    assignment, config = module.head.device_assignment, module.config
    if assignment.replica_count > 0 and assignment.computation_count > 0:
        return DeviceGrid(assignment.replica_count, assignment.computation_count)
    replicas, partitions = max(1, config.replica_count), max(1, config.num_partitions)
    if replicas * partitions > 1:
        return DeviceGrid(replicas, partitions)
    named = {"flattened": mesh_size, "cross_partition": 1}
    for each in {each.instruction.kind: each for each in collectives}.values():
        lists = _lists(each.instruction, each.exchange.numbers)
        mode = _mode(each.instruction, each.exchange.numbers)
        most = max([number for numbers in lists for number in numbers], default=0) + 1
        named[mode] = max(named.get(mode, 1), most)
    replicas = max(named.get("cross_replica", 1), named.get("cross_replica_and_partition", 1))
    partitions = max(named["cross_partition"], ceil_div(named["flattened"], replicas))
    check("devices of a module", replicas * partitions, _MOST_DEVICES)
    return DeviceGrid(replicas, partitions, is_stated=False)


def groups_of(collective: Collective, grid: DeviceGrid) -> DeviceGroups:
    """The groups of a collective. Raises InvalidModuleError where they contradict themselves, LimitExceededError for
    more than 1,048,576 devices.
    """
    numbers = collective.exchange.numbers
    mode = _mode(collective.instruction, numbers)
    lists = _lists(collective.instruction, numbers)
    replicas, partitions = grid.replicas, grid.partitions
    every_replica, every_partition = range(replicas), range(partitions)
    if not lists and numbers is not GroupNumbers.PAIRS:
        everyone = {"flattened": grid.device_count, "cross_partition": partitions}.get(mode, replicas)
        lists = [tuple(range(everyone))]
    repeats = {"flattened": 1, "cross_partition": replicas}.get(mode, partitions)
    total = sum(map(len, lists)) * repeats
    check("devices of a collective's groups", total, _MOST_DEVICES)
    spend(total)
    members: list[tuple[int, ...]]
    if mode == "flattened":
        members = [tuple(group) for group in lists]
    elif mode == "cross_partition":
        members = [tuple([r * partitions + p for p in group]) for r in every_replica for group in lists]
    elif mode == "cross_replica":
        members = [tuple([r * partitions + p for r in group]) for p in every_partition for group in lists]
    else:
        members = [tuple([r * partitions + p for r in group for p in every_partition]) for group in lists]
    for group in members:
        if group and not (min(group) >= 0 and max(group) < grid.device_count):
            raise InvalidModuleError(
                f"instruction {collective.instruction.name!r} names device {max(group)}; there are {grid.device_count}"
            )
    if numbers is not GroupNumbers.PAIRS:
        return DeviceGroups(mode, tuple(members), None)
    pairs = tuple([(pair[0], pair[1]) for pair in members if pair[0] != pair[1]])
    return DeviceGroups(mode, _components(pairs), pairs)


def _mode(instruction: HloInstruction, numbers: GroupNumbers) -> str:
    if not instruction.channel:
        return "cross_replica"
    if numbers is not GroupNumbers.DEVICES:
        return "cross_partition"
    return "flattened" if instruction.kind.message.use_global_device_ids else "cross_replica_and_partition"


def _lists(instruction: HloInstruction, numbers: GroupNumbers) -> Sequence[tuple[int, ...]]:
    """The groups or the pairs as written."""
    message = instruction.kind.message
    if numbers is not GroupNumbers.PAIRS:
        return ReplicaGroups.of_proto(message).expand(_MOST_DEVICES)
    if instruction.kind.row.exchange is not None and not instruction.kind.row.exchange.is_one_sided:
        return [(pair.source, pair.target) for pair in message.source_target_pairs]
    text = message.frontend_attributes.map.get(_PAIRS, "")
    try:
        pairs = ReplicaGroups.parse(text).expand(_MOST_DEVICES) if text else ()
    except ParseError as error:
        raise InvalidModuleError(f"instruction {instruction.name!r}: {_PAIRS}: {error.message}") from error
    if any(len(pair) != 2 for pair in pairs):
        raise InvalidModuleError(f"instruction {instruction.name!r}: {_PAIRS} has a list that is no pair")
    return pairs


def _components(pairs: Iterable[tuple[int, int]]) -> tuple[tuple[int, ...], ...]:
    """The connected components of the graph with these edges, each sorted."""
    above: dict[int, int] = {}

    def top(device: int) -> int:
        while above.setdefault(device, device) != device:
            above[device] = device = above[above[device]]
        return device

    for source, target in pairs:
        above[top(source)] = top(target)
    found: dict[int, list[int]] = {}
    for device in sorted(above):
        found.setdefault(top(device), []).append(device)
    return tuple([tuple(group) for group in found.values()])
