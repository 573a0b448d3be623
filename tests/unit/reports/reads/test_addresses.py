"""Every number of `reads` against a simulation: fusions of real programs are run on the numbers of their operands'
elements, and the addresses are enumerated.

The simulation uses no indexing maps: each value of a fused computation is a list of NumPy arrays whose elements are
numbers of elements of one operand, and whose last axis goes through what one element of the value reads.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import xlashape as xs
from xlashape.errors import XlashapeError
from xlashape.hlo import HloInstruction
from xlashape.reports.reads import Reads
from xlashape.shape import Shape

VECTORS = Path(__file__).resolve().parents[3] / "vectors"
PROGRAMS = sorted(
    path
    for folder in ("hlo", "memory", "memory/programs", "versions", "pairs")
    for path in (VECTORS / folder).iterdir()
    if path.name.endswith((".hlo", ".txt", ".pb", ".hlo.gz", ".txt.gz", ".pb.gz"))
)
MOST_ELEMENTS = 200_000
SOURCES = {"constant", "iota", "partition-id", "replica-id"}
ELEMENTWISE = set(
    "abs add and atan2 cbrt ceil clamp compare complex convert copy cosine divide erf exponential exponential-minus-one floor imag is-finite log "
    "log-plus-one logistic maximum minimum multiply negate not or popcnt power real reduce-precision remainder round-nearest-afz "
    "round-nearest-even rsqrt select shift-left shift-right-arithmetic shift-right-logical sign sine sqrt subtract tan tanh xor".split()
)


class TooHard(Exception):
    """The simulation does not know the operation, or it is too large."""


def run(fusion: HloInstruction, operand: int) -> list[np.ndarray]:
    """What each element of the fusion's result reads of an operand, in the ways in which it does."""
    values: dict[HloInstruction, list[np.ndarray]] = {}
    computation = fusion.called_computations[0]
    for each in computation.instructions:
        values[each] = distinct(step(each, [values[one] for one in each.operands], operand))
    return values[computation.root]


def distinct(ways: list[np.ndarray]) -> list[np.ndarray]:
    kept: list[np.ndarray] = []
    for way in ways:
        if (way >= 0).any() and not any(way.shape == other.shape and (way == other).all() for other in kept):
            kept.append(way)
    return kept


def step(each: HloInstruction, ways: list[list[np.ndarray]], operand: int) -> list[np.ndarray]:
    opcode, proto = each.proto.opcode, each.proto
    if not each.shape.is_array:
        raise TooHard
    sizes = each.shape.dimensions
    if np.prod(sizes) > MOST_ELEMENTS:
        raise TooHard
    if opcode == "parameter":
        return [np.arange(np.prod(sizes, dtype=int)).reshape(*sizes, 1)] if each.parameter_number == operand else []
    if opcode in SOURCES:
        return []
    if opcode in ELEMENTWISE:
        if any(one.shape.dimensions != sizes for one in each.operands):
            raise TooHard
        return [way for of_operand in ways for way in of_operand]
    if opcode == "concatenate":
        (axis,), first, found = proto.dimensions, 0, []
        for one, of_operand in zip(each.operands, ways, strict=True):
            size = one.shape.dimensions[axis]
            for way in of_operand:
                whole = np.full((*sizes, way.shape[-1]), -1)
                np.moveaxis(whole, axis, 0)[first : first + size] = np.moveaxis(way, axis, 0)
                found.append(whole)
            first += size
        return found
    if opcode == "dot":
        return contracted(each, ways)
    if any(ways[1:]) or opcode not in MOVES:
        if not any(ways):
            return []
        raise TooHard
    return [MOVES[opcode](each, way) for way in (ways[0] if ways else [])]


def contracted(each: HloInstruction, ways: list[list[np.ndarray]]) -> list[np.ndarray]:
    numbers = each.proto.dot_dimension_numbers
    left, right = (one.shape.dimensions for one in each.operands)
    sides = (
        (list(numbers.lhs_batch_dimensions), list(numbers.lhs_contracting_dimensions)),
        (list(numbers.rhs_batch_dimensions), list(numbers.rhs_contracting_dimensions)),
    )
    free = [
        [axis for axis in range(len(shape)) if axis not in (*batch, *contracting)]
        for shape, (batch, contracting) in zip((left, right), sides, strict=True)
    ]
    found: list[np.ndarray] = []
    for side, of_operand in enumerate(ways):
        batch, contracting = sides[side]
        for way in of_operand:
            if way.shape[-1] != 1:
                raise TooHard
            turned = way[..., 0].transpose([*batch, *free[side], *contracting])
            count = int(np.prod(turned.shape[len(turned.shape) - len(contracting) :], dtype=int))
            turned = turned.reshape(*turned.shape[: len(turned.shape) - len(contracting)], count)
            shape = list(each.shape.dimensions)
            if np.prod(shape) * count > 4 * MOST_ELEMENTS:
                raise TooHard
            # Batch dimensions, then those of the left side, then those of the right.
            inner = [turned.shape[axis] for axis in range(len(batch))]
            mine = list(turned.shape[len(batch) : -1])
            ones = [1] * len(free[1 - side])
            inner += [*mine, *ones] if side == 0 else [*ones, *mine]
            found.append(np.broadcast_to(turned.reshape(*inner, count), (*shape, count)))
    return found


def reshaped(each: HloInstruction, way: np.ndarray) -> np.ndarray:
    for one in (each.shape, each.operands[0].shape):
        if one.layout is not None and (one.layout.tiles or one.layout.minor_to_major != tuple(range(one.rank))[::-1]):
            raise TooHard
    if np.prod(each.shape.dimensions) != np.prod(each.operands[0].shape.dimensions):
        raise TooHard
    return way.reshape(*each.shape.dimensions, way.shape[-1])


def broadcast(each: HloInstruction, way: np.ndarray) -> np.ndarray:
    axes = list(each.proto.dimensions)
    if axes != sorted(axes) or np.prod(each.shape.dimensions) * way.shape[-1] > 4 * MOST_ELEMENTS:
        raise TooHard
    shape = [size if axis in axes else 1 for axis, size in enumerate(each.shape.dimensions)]
    return np.broadcast_to(way.reshape(*shape, way.shape[-1]), (*each.shape.dimensions, way.shape[-1]))


def sliced(each: HloInstruction, way: np.ndarray) -> np.ndarray:
    return way[tuple(slice(one.start, one.limit, one.stride) for one in each.proto.slice_dimensions)]


def padded(each: HloInstruction, way: np.ndarray) -> np.ndarray:
    whole = np.full((*each.shape.dimensions, way.shape[-1]), -1)
    places = []
    for size, one in zip(way.shape[:-1], each.proto.padding_config.dimensions, strict=True):
        if one.edge_padding_low < 0 or one.edge_padding_high < 0 or not size:
            raise TooHard
        step = one.interior_padding + 1
        places.append(slice(one.edge_padding_low, one.edge_padding_low + (size - 1) * step + 1, step))
    whole[tuple(places)] = way
    return whole


def reduced(each: HloInstruction, way: np.ndarray) -> np.ndarray:
    axes = list(each.proto.dimensions)
    kept = [axis for axis in range(way.ndim - 1) if axis not in axes]
    return way.transpose([*kept, *axes, way.ndim - 1]).reshape(*each.shape.dimensions, -1)


MOVES = {
    "transpose": lambda each, way: way.transpose([*each.proto.dimensions, way.ndim - 1]),
    "reverse": lambda each, way: np.flip(way, tuple(each.proto.dimensions)),
    "reshape": lambda each, way: way.reshape(*each.shape.dimensions, way.shape[-1]),
    "bitcast": reshaped,
    "broadcast": broadcast,
    "slice": sliced,
    "pad": padded,
    "reduce": reduced,
}


# -- memory
# ----------------------------------------------------------------------------------------------------


def places(shape: Shape) -> np.ndarray:
    """The place in memory of each element, in elements: by strides, or by tiles of one level; those within them do not
    change which tile it is."""
    order = shape.layout.minor_to_major if shape.layout is not None else tuple(range(shape.rank))[::-1]
    tile = tuple(shape.layout.tiles[0].dimensions) if shape.layout is not None and shape.layout.tiles else ()
    majors = list(reversed(order))
    if len(tile) > len(majors):
        raise TooHard
    index = np.indices(shape.dimensions).reshape(shape.rank, int(np.prod(shape.dimensions, dtype=int)))
    outer, inner = np.zeros(index.shape[1], int), np.zeros(index.shape[1], int)
    for number, axis in enumerate(majors):
        side = tile[number - len(majors) + len(tile)] if number >= len(majors) - len(tile) else 1
        outer = outer * -(-shape.dimensions[axis] // side) + index[axis] // side
        inner = inner * side + index[axis] % side
    return outer * int(np.prod(tile, dtype=int)) + inner


def tile_size(shape: Shape) -> int:
    return int(np.prod(shape.layout.tiles[0].dimensions)) if shape.layout is not None and shape.layout.tiles else 0


def units(kind: str, result: Shape, operand: Shape) -> tuple[int, int]:
    """(outputs that read together, elements of a unit of the operand's memory)."""
    bits = max(8, operand.element_type.bit_width)
    if kind == "tpu":
        if not tile_size(result) or not tile_size(operand):
            raise TooHard
        return tile_size(result), tile_size(operand)
    if kind == "gpu":
        return 32, 128 * 8 // bits
    return max(1, 256 // max(8, result.element_type.bit_width)), 64 * 8 // bits


def touched(rows: np.ndarray, unit: int) -> tuple[int, int, int]:
    """(units that all rows touch, rows that read, elements asked for); −1 is no element."""
    touched_units = np.sort(np.where(rows >= 0, rows // unit, -1), axis=1)
    is_new = np.diff(touched_units, axis=1, prepend=-1) > 0
    return np.count_nonzero(is_new), np.count_nonzero(touched_units[:, -1] >= 0), np.count_nonzero(rows >= 0)


def numbers_in(values: np.ndarray) -> np.ndarray:
    """The different numbers in an array, in order: `np.unique` takes ten times as long, and these are small."""
    return np.flatnonzero(np.bincount(values))


def grouped(values: np.ndarray, numbers: np.ndarray, together: int) -> np.ndarray:
    """Rows of `together` lanes: lane and row of a value follow from its number."""
    rows = np.full(((int(numbers.max()) // together + 1), together), -1)
    rows[numbers // together, numbers % together] = values
    return rows


def segments(way: np.ndarray, result: Shape, at: np.ndarray, together: int, unit: int) -> float:
    """Units that a read touches on average, in the better of two orders: outputs side by side, or what one output
    combines."""
    where = places(result)
    read = np.where(way >= 0, at[way], -1).reshape(len(where), -1)
    # Each column is a read of its own: its rows come after those of the column before.
    lanes = (int(where.max()) // together + 1) * together
    numbers = where[:, None] + np.arange(read.shape[1]) * lanes
    total, count, asked = touched(grouped(read.ravel(), numbers.ravel(), together), unit)
    if read.shape[1] == 1:
        return total / count
    combined = np.sort(read, axis=1)
    numbers = where[:, None] * read.shape[1] + np.arange(read.shape[1])
    other_total, other_count, other_asked = touched(grouped(combined.ravel(), numbers.ravel(), together), unit)
    return total / count if total / asked <= other_total / other_asked else other_total / other_count


# -- comparison
# ----------------------------------------------------------------------------------------------------


def fusions(path: Path, seen: set[tuple[object, ...]]):
    """The fusions of a program that are not like one before."""
    try:
        module = xs.HloModule.load(path)
    except XlashapeError:  # some of these files are there because they are refused
        return
    for computation in module.computations:
        for each in computation.instructions:
            if each.opcode != "fusion" or not each.shape.is_array or not each.called_computations:
                continue
            inside = tuple((one.proto.opcode, str(one.shape)) for one in each.called_computations[0].instructions)
            if inside not in seen:
                seen.add(inside)
                yield module, each


def compared(fusion: HloInstruction, report: Reads) -> tuple[int, int]:
    """How many operands were compared, and of how many the segments too."""
    count = with_segments = 0
    for row in report:
        shape = fusion.operands[row.operand].shape
        if row.error is not None or not shape.is_array or not np.prod(shape.dimensions):
            continue
        if np.prod(shape.dimensions) > MOST_ELEMENTS or shape.element_type.bit_width < 8:
            continue
        try:
            ways = run(fusion, row.operand)
            together, unit = units(report.device.kind, fusion.shape, shape)
            at = places(shape)
            spots = places(fusion.shape)
        except TooHard:
            continue
        bits = max(8, shape.element_type.bit_width)
        read = numbers_in(np.concatenate([way[way >= 0] for way in ways])) if ways else np.zeros(0, int)
        about = fusion.name, row.operand_name
        assert row.distinct_bytes == len(read) * bits // 8, about
        assert row.least_bytes == len(numbers_in(at[read] // unit)) * unit * bits // 8, about
        count += 1
        if len(ways) == 1 and len(spots) * ways[0].shape[-1] <= MOST_ELEMENTS:
            expected = segments(ways[0], fusion.shape, at, together, unit)
            assert row.touched == pytest.approx(expected, rel=1e-9 if ways[0].size <= 1 << 16 else 0.02), about
            assert row.ideal <= row.touched + 1e-9, about
            with_segments += 1
    return count, with_segments


def test_numbers_are_those_of_a_direct_enumeration_of_addresses() -> None:
    seen: set[tuple[object, ...]] = set()
    simulated = {"cpu": 0, "gpu": 0, "tpu": 0}
    operands = with_segments = 0
    for path in PROGRAMS:
        for number, (module, fusion) in enumerate(fusions(path, seen)):
            target = None if tile_size(fusion.shape) else ("cpu", "gpu")[number % 2]
            where = {"instruction": fusion.name, "computation": fusion.computation.name}
            report = xs.reads(module, **where, target=target)
            count, of_segments = compared(fusion, report)
            simulated[report.device.kind] += count > 0
            operands += count
            with_segments += of_segments
    assert sum(simulated.values()) >= 300 and min(simulated["cpu"], simulated["gpu"]) >= 100 and simulated["tpu"] >= 5
    assert operands >= 500 and with_segments >= 400
