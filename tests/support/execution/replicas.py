"""Random collectives on a few replicas: their execution in NumPy, compared with the elements and replicas that maps
name.

Element e of replica r holds (e + 1) · 64^r. So the digits of a sum over replicas, in base 64, show which elements are
in the sum.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from hlo_builder import Builder

from execution.case import binary, sizes, text
from execution.predicted import Dims, pairs
from xlashape import indexing
from xlashape.hlo import HloInstruction
from xlashape.indexing import OperandIndexing
from xlashape.indexing.answers.leaves import leaves as leaf_shapes

REPLICAS = 4
BASE = 64

Rows = list[list[np.ndarray]]
"""For each replica, its arrays."""


@dataclass
class Collective:
    """A collective on parameters, which all replicas execute."""

    builder: Builder
    opcode: str
    groups: list[list[int]]
    sources: dict[int, int]
    """Of a permutation: the replica that receives → the replica that sends."""

    def __post_init__(self) -> None:
        self.root: HloInstruction = self.builder.root()

    def group(self, replica: int) -> list[int]:
        return next(group for group in self.groups if replica in group)

    def values(self) -> Rows:
        """For each replica, one array for each operand. Elements are numbered through all operands."""
        found: Rows = []
        for replica in range(REPLICAS):
            found.append([])
            first = 1
            for operand in self.root.operands:
                dims = operand.shape.dimensions
                count = int(np.prod(dims))
                found[-1].append((np.arange(first, first + count, dtype=np.int64) * BASE**replica).reshape(dims))
                first += count
            assert first <= BASE
        return found


# -- random collectives ----------------------------------------------------------------------------

OPCODES = (
    "all-gather",
    "all-reduce",
    "all-to-all",
    "collective-broadcast",
    "collective-permute",
    "reduce-scatter",
    "all-gather-start",
    "all-reduce-start",
    "collective-permute-start",
    "collective-reduce",
)
NOT_BY_XLA = {
    "collective-broadcast": "XLA does not run it on a CPU",
    "collective-reduce": "XLA does not run it on a CPU",
    "all-gather-start": "XLA runs asynchronous operations of the CPU only in forms that it has made itself",
    "all-reduce-start": "XLA runs asynchronous operations of the CPU only in forms that it has made itself",
    "collective-permute-start": "XLA runs asynchronous operations of the CPU only in forms that it has made itself",
}


def collective(opcode: str, r: random.Random) -> Collective:
    builder, fields = Builder(opcode.replace("-", "_")), {}
    order = r.sample(range(REPLICAS), REPLICAS)
    size = r.choice([1, 2, 4])
    groups = [order[i : i + size] for i in range(0, REPLICAS, size)]
    sources: dict[int, int] = {}
    if opcode.startswith("collective-permute"):
        targets = r.sample(range(REPLICAS), r.randint(1, REPLICAS))
        sources = dict(zip(targets, r.sample(range(REPLICAS), len(targets)), strict=True))
        fields["source_target_pairs"] = [{"source": s, "target": t} for t, s in sources.items()]
    elif r.random() < 0.3:
        # The same groups, written as a transposed iota.
        groups = [[first, first + 2] for first in (0, 1)]
        fields["iota_collective_device_list"] = {
            "num_replica_groups": 2,
            "num_devices_per_group": 2,
            "iota_reshape_dims": [2, 2],
            "iota_transpose_perm": [1, 0],
        }
    else:
        fields["replica_groups"] = [{"replica_ids": group} for group in groups]
    count = len(groups[0])
    part = sizes(r, 1, 2, 2)
    axis = r.randrange(len(part))
    whole = [n * count if d == axis else n for d, n in enumerate(part)]
    several = r.choice([1, 1, 2])
    before, after = part, part
    if opcode.startswith("all-gather"):
        after, fields["dimensions"] = whole, [axis]
    elif opcode == "reduce-scatter":
        before, fields["dimensions"] = whole, [axis]
    elif opcode == "all-to-all" and r.random() < 0.6:
        before, after, fields["dimensions"], several = whole, whole, [axis], 1
    elif opcode == "all-to-all":
        several = count
    if "permute" in opcode or opcode == "collective-broadcast":
        several = 1
    if "reduce" in opcode:
        fields["calls"] = [binary("add", "s64")]
    operands = [builder.parameter(text("s64", before)) for _ in range(several)]
    results = [text("s64", after)] * several
    # An all-to-all without a dimension returns a tuple, even of one array.
    is_tuple = several > 1 or (opcode == "all-to-all" and "dimensions" not in fields)
    shape = f"({', '.join(results)})" if is_tuple else results[0]
    if opcode == "all-gather-start":
        inputs = text("s64", before)
        shape = f"(({inputs}, {inputs}), {shape})" if several > 1 else f"({inputs}, {shape})"
    elif opcode == "collective-permute-start":
        shape = f"({text('s64', before)}, {shape}, u32[], u32[])"
    builder.op(opcode, shape, operands, **fields)
    return Collective(builder, opcode, groups, sources)


# -- what they do ----------------------------------------------------------------------------------


def run(one: Collective, values: Rows) -> Rows:
    """For each replica, the leaves of its result."""
    opcode = one.opcode.removesuffix("-start")
    results = [[_result(one, opcode, values, replica, n) for n in range(len(values[0]))] for replica in range(REPLICAS)]
    if one.opcode == "all-gather-start":
        return [[*values[replica], *results[replica]] for replica in range(REPLICAS)]
    if one.opcode == "collective-permute-start":
        context = np.zeros((), dtype=np.uint32)
        return [[*values[replica], *results[replica], context, context] for replica in range(REPLICAS)]
    return results


def _result(one: Collective, opcode: str, values: Rows, replica: int, number: int) -> np.ndarray:
    if opcode == "collective-permute":
        source = one.sources.get(replica)
        return np.zeros_like(values[replica][number]) if source is None else values[source][number]
    group = one.group(replica)
    place, theirs = group.index(replica), [values[member][number] for member in group]
    axis: Any = list(one.root.kind.dimensions)
    if opcode == "collective-broadcast":
        return theirs[0]
    if opcode in ("all-reduce", "collective-reduce"):  # of collective-reduce, any replica may have the result
        return sum(theirs[1:], theirs[0])
    if opcode == "all-gather":
        return np.concatenate(theirs, axis[0])
    if opcode == "reduce-scatter":
        return np.split(sum(theirs[1:], theirs[0]), len(group), axis[0])[place]
    assert opcode == "all-to-all"
    if not axis:
        return values[group[number]][place]
    return np.concatenate([np.split(x, len(group), axis[0])[place] for x in theirs], axis[0])


# -- the judge -------------------------------------------------------------------------------------

Run = Callable[[Collective, Rows], Rows]


def judge(one: Collective, results: Rows) -> int:
    """Asserts that maps in both directions name the elements that results are computed from. Returns how many pairs of
    elements were compared.
    """
    root = one.root
    # Which of several arrays a replica sends depends on its position in the group; the maps name the arrays for every
    # executing replica.
    agree = _agree_over_replicas if one.opcode == "all-to-all" and not root.kind.dimensions else np.array_equal
    outputs = [shape.dimensions for shape in leaf_shapes(root.shape)]
    compared = 0
    for number, operand in enumerate(root.operands):
        dims = operand.shape.dimensions
        first = sum(int(np.prod(o.shape.dimensions)) for o in root.operands[:number]) + 1
        for output, out in enumerate(outputs):
            seen = np.zeros((REPLICAS, int(np.prod(out)), REPLICAS, int(np.prod(dims))), dtype=bool)
            for replica in range(REPLICAS):
                # Each replica has one digit of the sum, which says which of its elements are in it.
                left = results[replica][output].astype(np.int64).ravel()
                for source in range(REPLICAS):
                    element = left % BASE - first
                    rows = np.flatnonzero((element >= 0) & (element < seen.shape[3]))
                    seen[replica, rows, source, element[rows]] = True
                    left = left // BASE
            read = indexing.output_to_input(root, output)[number]
            written = indexing.input_to_output(root, number)[output]
            told = f"{root.computation.module.to_text()}\noperand {number}, output {output}"
            for form in (read, read.simplify()):
                named = _named(one, list(form), out, dims, backwards=False)
                assert agree(named, seen), f"{told}: {form}"
            turned = seen.transpose(2, 3, 0, 1)
            for form in (written, written.simplify()):
                named = _named(one, list(form), dims, out, backwards=True)
                if one.opcode == "collective-broadcast":
                    # The map says where the elements of the first replica go; elements of other replicas go nowhere.
                    for replica in range(REPLICAS):
                        named[replica] &= replica == one.group(replica)[0]
                assert agree(named, turned), f"{told}: {form}"
            compared += 2 * seen.size
    return compared


def _agree_over_replicas(named: np.ndarray, seen: np.ndarray) -> bool:
    return not (seen & ~named).any() and np.array_equal(named.any(0), seen.any(0))


def _named(one: Collective, members: list[OperandIndexing], dims: Dims, target: Dims, *, backwards: bool) -> np.ndarray:
    """Whether the maps lead from one element to another: [replica, element, other replica, its element]."""
    found = np.zeros((REPLICAS, int(np.prod(dims)), REPLICAS, int(np.prod(target))), dtype=bool)
    for member in members:
        if member.map.is_known_empty:
            continue
        for replica in range(REPLICAS):
            place = 0 if one.sources else one.group(replica).index(replica)
            rows, results = pairs(member, dims, {}, place)
            assert np.all((results >= 0) & (results < np.array(target, dtype=np.int64)))
            others = _partners(member, dims, replica, backwards=backwards)
            for row, index in zip(rows, results, strict=True):
                element = int(np.ravel_multi_index(tuple(index), target)) if target else 0
                for other in others[int(row)]:
                    found[replica, row, other, element] = True
    return found


def _partners(member: OperandIndexing, dims: Dims, replica: int, *, backwards: bool) -> dict[int, list[int]]:
    """Number of an element → the replicas that the map names for it."""
    count = int(np.prod(dims))
    where = member.replica
    if where is None:
        return {row: [replica] for row in range(count)}
    listed = where.partners(replica, backwards=backwards)
    assert listed is not None
    found: dict[int, list[int]] = {row: [] for row in range(count)}
    rows, places = pairs(OperandIndexing(where.map), dims, {})
    for row, (place,) in zip(rows, places, strict=True):
        if place < len(listed):
            found[int(row)].append(listed[place])
    return found
