"""The rules of what an instruction of any opcode may be annotated with: shardings and origins. A part of `xlashape.hlo.verifier`."""

from __future__ import annotations

from xlashape.math import product
from xlashape.proto import xla
from xlashape.shape import Shape

__all__ = ["origin_problem", "sharding_problem"]


def sharding_problem(instruction: xla.HloInstructionProto, shape: Shape, num_partitions: int = 1) -> str | None:
    """What is wrong with the sharding of an instruction of that shape, or None.

    A sharding in a module for several partitions must divide among all of them. A module for one may be for any number.
    """
    if not instruction.HasField("sharding"):
        return None
    sharding = instruction.sharding
    if sharding.type == xla.OpSharding.TUPLE:
        if not shape.is_tuple:
            return f"its shape is {shape}, its sharding that of a tuple"
        leaves = [*shape.leaves()]
        if len(leaves) != len(sharding.tuple_shardings):
            return None
        pairs = [*zip(sharding.tuple_shardings, leaves, strict=True)]
    else:
        pairs = [(sharding, shape)]
    problems = (
        _devices_problem(part, num_partitions) or (_array_sharding_problem(part, leaf) if leaf.is_array else None)
        for part, leaf in pairs
    )
    return next((problem for problem in problems if problem), None)


def _devices_problem(sharding: xla.OpSharding, num_partitions: int) -> str | None:
    if sharding.HasField("named_sharding"):
        mesh = sharding.named_sharding.mesh
        count = product([axis.size for axis in mesh.axes])
        if num_partitions > 1 and mesh.axes and count != num_partitions:
            return f"its sharding must be for {num_partitions} partitions, found {count} devices"
        return None
    devices = sharding.tile_assignment_devices
    wrong = [device for device in devices if device < 0 or (num_partitions > 1 and device >= num_partitions)]
    if wrong:
        return f"its sharding must name devices from 0 to {num_partitions - 1}, found {wrong[0]}"
    tiled = sharding.type == xla.OpSharding.OTHER
    count = product(sharding.tile_assignment_dimensions)
    if tiled and num_partitions > 1 and count != num_partitions:
        return f"its sharding must be for {num_partitions} partitions, found {count} devices"
    return None


def _array_sharding_problem(sharding: xla.OpSharding, shape: Shape) -> str | None:
    if sharding.HasField("named_sharding"):
        count = len(sharding.named_sharding.dim_shardings)
        if count and count != shape.rank:
            return f"its sharding divides {count} dimensions, {shape} has {shape.rank}"
        return None
    if sharding.type != xla.OpSharding.OTHER:
        return None
    tiles = list(sharding.tile_assignment_dimensions)
    count = len(tiles) - len(sharding.last_tile_dims) - sharding.replicate_on_last_tile_dim
    if count != shape.rank:
        return f"its sharding divides {count} dimensions, {shape} has {shape.rank}"
    devices = sharding.tile_assignment_devices
    if len(set(devices)) != len(devices):
        return f"its sharding names a device twice: {list(devices)}"
    return None


def origin_problem(instruction: xla.HloInstructionProto, shape: Shape) -> str | None:
    """What is wrong with the original value of an instruction of that shape, or None: it has an element for each array of the shape."""
    if not instruction.HasField("original_value"):
        return None
    origin = instruction.original_value
    if origin.is_synthetic_call or origin.HasField("call_hierarchy") or shape.is_tuple:
        return None
    indices = [list(element.shape_index) for element in origin.elements]
    return None if indices == [[]] else f"its shape is {shape}, its origin has elements at {indices}"
