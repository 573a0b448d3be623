"""The rules of what an instruction of any opcode may be annotated with: shardings and origins. A part of `xlashape.hlo.verifier`."""

from __future__ import annotations

from xlashape.proto import xla
from xlashape.shape import Shape

__all__ = ["origin_problem", "sharding_problem"]


def sharding_problem(instruction: xla.HloInstructionProto, shape: Shape) -> str | None:
    """What is wrong with the sharding of an instruction of that shape, or None."""
    if not instruction.HasField("sharding"):
        return None
    sharding = instruction.sharding
    if sharding.type == xla.OpSharding.TUPLE:
        if shape.is_tuple:
            return None
        return f"its shape is {shape}, its sharding that of a tuple"
    return _array_sharding_problem(sharding, shape) if shape.is_array else None


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
