"""Values of rows as messages of the service's schema, and back: indexing maps with what their runtime variables and
replicas are, and symbolic tiles.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from xlashape.base.caches import cached
from xlashape.indexing import OperandIndexing
from xlashape.proto import v1
from xlashape.symbolic import IndexingMap, Interval, SymbolicTile


class ReceivedRuntimeVariable(NamedTuple):
    """Where the value of a runtime variable comes from, as `xlashape.indexing.RuntimeVariable`; `instruction` is the
    name of the instruction.
    """

    instruction: str
    map: IndexingMap
    leaf: int
    is_position: bool
    is_clamped: bool
    bounds: Interval | None


class ReceivedReplica(NamedTuple):
    """Which replicas hold the elements, as `xlashape.indexing.ReplicaIndexing`."""

    map: IndexingMap
    groups: tuple[tuple[int, ...], ...]
    pairs: tuple[tuple[int, int], ...] | None


class ReceivedIndexing(NamedTuple):
    """One way in which an array is read, as `xlashape.indexing.OperandIndexing`."""

    map: IndexingMap
    runtime: tuple[ReceivedRuntimeVariable, ...]
    replica: ReceivedReplica | None


class ReceivedTileMaps(NamedTuple):
    """The maps of an `xlashape.symbolic.SymbolicTile`."""

    offset_map: IndexingMap
    size_map: IndexingMap
    stride_map: IndexingMap


# A module has few different maps, and to make the message of one takes 70 µs, to read it as long.
@cached(max_bytes=16 << 20, weigh=lambda _, message: 400 + 4 * message.ByteSize())
def map_message(value: IndexingMap) -> v1.IndexingMap:
    """The message of a map, which callers share and must not change. SizeOverflowError for a number beyond int64."""
    return value.to_proto()


@cached(max_bytes=16 << 20, weigh=lambda arguments, _: 2_000 + 10 * len(arguments[0]))
def _map_of_bytes(data: bytes) -> IndexingMap:
    return IndexingMap.from_proto(data)


def map_of(message: v1.IndexingMap) -> IndexingMap:
    """The map of a message."""
    return _map_of_bytes(message.SerializeToString())


def _indexing_message(value: OperandIndexing) -> v1.OperandIndexing:
    message = v1.OperandIndexing(map=map_message(value.map))
    for each in value.runtime:
        bounds = None if each.bounds is None else v1.Interval(lower=each.bounds.lower, upper=each.bounds.upper)
        message.runtime.add(
            instruction=each.instruction.name, map=map_message(each.map), leaf=each.leaf, is_position=each.is_position,
            is_clamped=each.is_clamped, bounds=bounds,
        )  # fmt: skip
    replica = value.replica
    if replica is not None:
        message.replica.map.CopyFrom(map_message(replica.map))
        for group in replica.groups:
            message.replica.groups.add(replicas=group)
        if replica.pairs is not None:
            message.replica.pairs.SetInParent()
            for source, target in replica.pairs:
                message.replica.pairs.pairs.add(source=source, target=target)
    return message


def _indexing_of(message: v1.OperandIndexing) -> ReceivedIndexing:
    runtime = [
        ReceivedRuntimeVariable(
            each.instruction, map_of(each.map), each.leaf, each.is_position, each.is_clamped,
            Interval(each.bounds.lower, each.bounds.upper) if each.HasField("bounds") else None,
        )
        for each in message.runtime
    ]  # fmt: skip
    replica = None
    if message.HasField("replica"):
        found = message.replica
        pairs = tuple([(pair.source, pair.target) for pair in found.pairs.pairs]) if found.HasField("pairs") else None
        groups = tuple([tuple(group.replicas) for group in found.groups])
        replica = ReceivedReplica(map_of(found.map), groups, pairs)
    return ReceivedIndexing(map_of(message.map), tuple(runtime), replica)


def _tile_message(value: SymbolicTile) -> v1.SymbolicTile:
    return v1.SymbolicTile(
        offset_map=map_message(value.offset_map),
        size_map=map_message(value.size_map),
        stride_map=map_message(value.stride_map),
    )


def _tile_of(message: v1.SymbolicTile) -> ReceivedTileMaps:
    return ReceivedTileMaps(map_of(message.offset_map), map_of(message.size_map), map_of(message.stride_map))


CODECS: Final[dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]]] = {
    "IndexingMap": (map_message, map_of),
    "OperandIndexing": (_indexing_message, _indexing_of),
    "SymbolicTile": (_tile_message, _tile_of),
}
"""Name of a message → what makes it of a row's value, and what reads it."""
RECEIVED: Final = {
    "IndexingMap": "IndexingMap",
    "OperandIndexing": "ReceivedIndexing",
    "SymbolicTile": "ReceivedTileMaps",
}
"""Name of a message → the class of what is read of it."""
