"""What IndexingService answers."""

from __future__ import annotations

from typing import NamedTuple

from xlashape.caches import cached
from xlashape.proto import v1
from xlashape.symbolic import IndexingMap, Interval

__all__ = [
    "Access",
    "CoalescedAccess",
    "InstructionMaps",
    "InstructionReads",
    "InstructionTiles",
    "OperandReads",
    "OperandTile",
    "ReplicaIndexing",
    "RuntimeVariable",
    "SimplifiedMap",
    "SymbolicTile",
    "TensorMaps",
    "Tile",
]


class RuntimeVariable(NamedTuple):
    """Where the value of a runtime variable comes from: an element of `leaf` of the named instruction, at `map` of the access's variables.

    `is_position`: the value is no element but the position of the executing replica in its group of that instruction. A value beyond `bounds`
    (None: those in the access's map) counts as the nearest of them if `is_clamped`, else the access does not happen; nor does it where the
    value lies outside of the variable's bounds in the map.
    """

    instruction: str
    map: IndexingMap
    leaf: int
    is_position: bool
    is_clamped: bool
    bounds: Interval | None

    @classmethod
    def of(cls, one: v1.RuntimeVariable) -> RuntimeVariable:
        """From the message."""
        bounds = Interval(one.bounds.lower, one.bounds.upper) if one.HasField("bounds") else None
        return cls(one.instruction, _map(one.map), one.leaf, one.is_position, one.is_clamped, bounds)


class ReplicaIndexing(NamedTuple):
    """Which replicas hold the elements: a position in the executing one's group of `groups` (none: all replicas), or with `pairs` its partner."""

    map: IndexingMap
    groups: tuple[tuple[int, ...], ...]
    pairs: tuple[tuple[int, int], ...] | None


class Access(NamedTuple):
    """One way in which an array is accessed. `knowledge` is "exact", "every element" or "unknown"; `text` the map in the style asked for."""

    map: IndexingMap
    text: str
    runtime: tuple[RuntimeVariable, ...]
    replica: ReplicaIndexing | None
    leaf: int
    knowledge: str

    @classmethod
    def of(cls, one: v1.Access) -> Access:
        """From the message."""
        runtime = tuple(RuntimeVariable.of(each) for each in one.runtime)
        return cls(
            _map(one.map),
            one.map.text,
            runtime,
            _replica(one.replica) if one.HasField("replica") else None,
            one.leaf,
            _knowledge(one.knowledge),
        )


class TensorMaps(NamedTuple):
    """How an output and an operand are mapped to each other: the union of `accesses`."""

    output: int
    operand: int
    operand_name: str
    operand_leaf: int
    knowledge: str
    accesses: tuple[Access, ...]

    @property
    def maps(self) -> tuple[IndexingMap, ...]:
        """The maps of the accesses."""
        return tuple(access.map for access in self.accesses)

    @classmethod
    def of(cls, one: v1.TensorMaps) -> TensorMaps:
        """From the message."""
        accesses = tuple(Access.of(each) for each in one.accesses)
        return cls(one.output, one.operand, one.operand_name, one.operand_leaf, _knowledge(one.knowledge), accesses)


class InstructionMaps(NamedTuple):
    """The maps of one instruction. `direction` is "output_to_input" or "input_to_output". What `maps` leaves out takes no part."""

    instruction: str
    computation: str
    opcode: str
    direction: str
    maps: tuple[TensorMaps, ...]

    @classmethod
    def of(cls, one: v1.IndexingMapsResponse) -> InstructionMaps:
        """From the message."""
        direction = "input_to_output" if one.direction == v1.DIRECTION_INPUT_TO_OUTPUT else "output_to_input"
        return cls(
            one.instruction, one.computation, one.opcode, direction, tuple(TensorMaps.of(each) for each in one.maps)
        )


class CoalescedAccess(NamedTuple):
    """One way in which neighbouring elements of an output read an operand, as `xlashape.indexing.OperandCoalescing`.

    `map` leads from positions in the output's buffer to positions in the operand's; `text` is it in the style asked for. `stride` counts
    elements, `transactions` segments a warp, on average; None where that is not one number, or not known.
    """

    map: IndexingMap
    text: str
    leaf: int
    stride: int | None
    transactions: float | None
    ideal_transactions: int

    @classmethod
    def of(cls, one: v1.CoalescedAccess) -> CoalescedAccess:
        """From the message."""
        return cls(
            _map(one.map),
            one.map.text,
            one.leaf,
            one.stride if one.HasField("stride") else None,
            one.transactions if one.HasField("transactions") else None,
            one.ideal_transactions,
        )


class OperandReads(NamedTuple):
    """How one output reads one operand, as `xlashape.indexing.OperandUtilisation`. What is not known is None.

    `distinct_elements` may be less if `is_upper_bound`: which elements are read is known at run time only.
    """

    output: int
    operand: int
    operand_name: str
    elements: int | None
    distinct_elements: int | None
    is_upper_bound: bool
    reads: int | None
    accesses: tuple[CoalescedAccess, ...]

    @property
    def utilisation(self) -> float | None:
        """Distinct elements read ÷ elements; 1.0 of an operand without elements."""
        if self.elements is None or self.distinct_elements is None:
            return None
        return self.distinct_elements / self.elements if self.elements else 1.0

    @property
    def reads_per_element(self) -> float | None:
        """Reads ÷ distinct elements read; 0.0 where nothing is read."""
        if self.reads is None or self.distinct_elements is None:
            return None
        return self.reads / self.distinct_elements if self.distinct_elements else 0.0

    @classmethod
    def of(cls, one: v1.OperandReads) -> OperandReads:
        """From the message."""
        return cls(
            one.output,
            one.operand,
            one.operand_name,
            one.elements if one.HasField("elements") else None,
            one.distinct_elements if one.HasField("distinct_elements") else None,
            one.is_upper_bound,
            one.reads if one.HasField("reads") else None,
            tuple(CoalescedAccess.of(each) for each in one.accesses),
        )


class InstructionReads(NamedTuple):
    """How one instruction reads, for each of its outputs that was asked about. Operands that an output does not read are left out."""

    instruction: str
    computation: str
    opcode: str
    reads: tuple[OperandReads, ...]

    @classmethod
    def of(cls, one: v1.OperandReadsResponse) -> InstructionReads:
        """From the message."""
        return cls(one.instruction, one.computation, one.opcode, tuple(OperandReads.of(each) for each in one.reads))


class Tile(NamedTuple):
    """A box with steps: along each dimension `sizes` indices from `offsets`, `strides` apart (0 where there is one index)."""

    offsets: tuple[int, ...]
    sizes: tuple[int, ...]
    strides: tuple[int, ...]

    @classmethod
    def of(cls, one: v1.Tile) -> Tile:
        """From the message."""
        return cls(tuple(one.offsets), tuple(one.sizes), tuple(one.strides))


class SymbolicTile(NamedTuple):
    """The operand's tile for an output tile of any size, as `xlashape.symbolic.SymbolicTile`. `text` is XLA's, in the style asked for."""

    offset_map: IndexingMap
    size_map: IndexingMap
    stride_map: IndexingMap
    constraints: str
    text: str

    @classmethod
    def of(cls, one: v1.SymbolicTile) -> SymbolicTile:
        """From the message."""
        return cls(_map(one.offset_map), _map(one.size_map), _map(one.stride_map), one.constraints, one.text)


class OperandTile(NamedTuple):
    """What a tile of an output reads of one operand in one way. None: no such form is seen; what is read is no tile."""

    operand: int
    operand_name: str
    access: Access
    symbolic: SymbolicTile | None
    tile: Tile | None

    @classmethod
    def of(cls, one: v1.OperandTile) -> OperandTile:
        """From the message."""
        return cls(
            one.operand,
            one.operand_name,
            Access.of(one.access),
            SymbolicTile.of(one.symbolic) if one.HasField("symbolic") else None,
            Tile.of(one.tile) if one.HasField("tile") else None,
        )


class InstructionTiles(NamedTuple):
    """The tiles that a tile of one output of an instruction reads."""

    instruction: str
    computation: str
    opcode: str
    tiles: tuple[OperandTile, ...]

    @classmethod
    def of(cls, one: v1.OperandTilesResponse) -> InstructionTiles:
        """From the message."""
        return cls(one.instruction, one.computation, one.opcode, tuple(OperandTile.of(each) for each in one.tiles))


class SimplifiedMap(NamedTuple):
    """A simplified map, and the numbers of the range and runtime variables that were removed from it."""

    map: IndexingMap
    removed_ranges: tuple[int, ...]
    removed_runtime: tuple[int, ...]


def _map(one: v1.MapOutput) -> IndexingMap:
    data = one.map.SerializeToString()
    return _small_map(data) if len(data) <= 1024 else IndexingMap.from_proto(data)


# Modules repeat their maps, which take 70 µs each to decode.
@cached(max_bytes=16 << 20, weigh=lambda arguments, _: 2000 + 10 * len(arguments[0]))
def _small_map(data: bytes) -> IndexingMap:
    return IndexingMap.from_proto(data)


def _replica(one: v1.ReplicaIndexing) -> ReplicaIndexing:
    pairs = tuple((pair.source, pair.target) for pair in one.pairs.pairs) if one.HasField("pairs") else None
    return ReplicaIndexing(_map(one.map), tuple(tuple(group.replicas) for group in one.groups), pairs)


def _knowledge(number: int) -> str:
    return {v1.KNOWLEDGE_EXACT: "exact", v1.KNOWLEDGE_EVERY_ELEMENT: "every element"}.get(number, "unknown")
