"""The verifier's rules that involve several instructions (fusions, threads, shardings of loops, aliases of the entry),
and the rules for annotations that any instruction may have: shardings and origins. `Problem` is a broken rule.

An origin (OriginalValueProto) says which instructions of the unoptimised module a value comes from.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence, Set
from itertools import groupby
from operator import attrgetter
from typing import Final, NamedTuple

from xlashape.base.math import product
from xlashape.errors import XlashapeError
from xlashape.hlo.module import HloComputation, HloInstruction, HloModule
from xlashape.hlo.ops.opcode import Opcode
from xlashape.proto import xla
from xlashape.shape import Shape
from xlashape.shape.value.shape import compatible_shapes, equal_layouts, part_of

_MAIN_THREAD: Final = "main"
_ON_ONE_THREAD: Final = frozenset((Opcode.FUSION, Opcode.WHILE, Opcode.CONDITIONAL))
_CONCERNED: Final = _ON_ONE_THREAD | {Opcode.ALL_REDUCE}
"""The opcodes of the instructions that the rules of several instructions are about."""
_COMPUTATION: Final = attrgetter("computation")


class Problem(NamedTuple):
    """One broken rule, and where. `instruction` is "" for a rule of a whole computation, and both names are "" for a
    rule of the whole module.
    """

    computation: str
    instruction: str
    message: str

    def __str__(self) -> str:
        text = f"computation {self.computation!r}: " if self.computation else ""
        text += f"instruction {self.instruction!r}: " if self.instruction else ""
        return text + self.message


def module_problems(module: HloModule) -> Iterator[Problem]:
    """The problems that involve several instructions, and those of the module's aliases and donors."""
    concerned = [each for each in module.instructions() if each.kind.opcode in _CONCERNED]
    for computation, group in groupby(concerned, _COMPUTATION):
        instructions = list(group)
        yield from _threads(computation, instructions)
        yield from _shardings(computation, instructions)
    yield from _fusions([each for each in concerned if each.opcode is Opcode.FUSION])
    yield from _constraints([each for each in concerned if each.opcode is Opcode.ALL_REDUCE])
    yield from _aliases(module)


def with_channel(instruction: HloInstruction, with_channel_0: Set[str]) -> xla.HloInstructionProto:
    """The details of an instruction. If its text has `channel_id=0`, they are a copy with channel 1: the instruction
    has a channel, but in a message 0 means none, and rules treat all channels from 1 on alike. `with_channel_0` has the
    names of such instructions.
    """
    if instruction.name not in with_channel_0:
        return instruction.details
    message = xla.HloInstructionProto()
    message.CopyFrom(instruction.details)
    message.channel_id = 1
    return message


# -- fusions --------------------------------------------------------------------------------


def _fusions(fusions: Sequence[HloInstruction]) -> Iterator[Problem]:
    """Problems of fused computations that several fusions call, or that have instructions which nothing uses."""
    callers: Counter[int] = Counter()
    fused: dict[int, HloComputation] = {}
    for fusion in fusions:
        for called in fusion.called_computations:
            callers[called.index] += 1
            fused[called.index] = called
    for index, computation in sorted(fused.items()):
        if callers[index] > 1:
            message = f"is that of {callers[index]} fusions; it must be that of one"
            yield Problem(computation.name, "", message)
        used = {operand for instruction in computation.instructions for operand in instruction.operands}
        for instruction in computation.instructions:
            if instruction not in used and not instruction.is_root:
                yield Problem(computation.name, instruction.name, "nothing in its fusion uses it")


def _threads(computation: HloComputation, instructions: Sequence[HloInstruction]) -> Iterator[Problem]:
    """Problems of fusions, loops and conditionals that call a computation of another thread."""
    thread = computation.execution_thread or _MAIN_THREAD
    for instruction in instructions:
        if instruction.kind.opcode not in _ON_ONE_THREAD:
            continue
        for called in instruction.called_computations:
            theirs = called.execution_thread or _MAIN_THREAD
            if theirs != thread:
                message = f"it runs on the thread {thread!r}, its computation {called.name!r} on {theirs!r}"
                yield Problem(computation.name, instruction.name, message)


def _shardings(computation: HloComputation, instructions: Sequence[HloInstruction]) -> Iterator[Problem]:
    """Problems of loops and conditionals whose sharding differs from that of the roots and parameters of the called
    computations, if both have one.
    """
    for instruction in instructions:
        opcode = instruction.kind.opcode
        if opcode not in (Opcode.WHILE, Opcode.CONDITIONAL):
            continue
        called = instruction.called_computations
        together = [instruction, *(each.root for each in (called[:1] if opcode is Opcode.WHILE else called))]
        try:
            if opcode is Opcode.WHILE:
                together += [parameter for each in called for parameter in each.parameters[:1]]
            sharded = [(each, each.sharding) for each in together if each.details.HasField("sharding")]
        except XlashapeError:
            continue  # another rule reports wrong parameters, and a sharding that cannot be decoded
        for other, sharding in sharded[1:]:
            first, expected = sharded[0]
            if sharding != expected:
                message = f"{first.name!r} has the sharding {expected}, {other.name!r} {sharding}; they must be equal"
                yield Problem(computation.name, instruction.name, message)
                break


def _constraints(reduces: Sequence[HloInstruction]) -> Iterator[Problem]:
    """The problem that some all-reduces of a module have constrain_layout=true and others do not."""
    for instruction in reduces:
        if instruction.details.constrain_layout != reduces[0].details.constrain_layout:
            other = reduces[0].name
            message = f"constrain_layout must be the same in all instructions all-reduce, {other!r} has another"
            yield Problem(instruction.computation.name, instruction.name, message)
            return


# -- buffers of the entry -------------------------------------------------------------------


def _entry_shapes(module: HloModule) -> tuple[list[Shape], Shape]:
    """The shapes of the entry's parameters and of its result, with the layouts of entry_computation_layout."""
    parameters = [parameter.shape for parameter in module.entry.parameters]
    result = module.entry.root.shape
    declared = module.head.host_program_shape
    if not module.head.HasField("host_program_shape") or len(declared.parameters) != len(parameters):
        return parameters, result
    with_layouts = [Shape.from_proto(each) for each in declared.parameters]
    returned = Shape.from_proto(declared.result)
    pairs = [*zip(with_layouts, parameters, strict=True), (returned, result)]
    if all(compatible_shapes(shape, own) for shape, own in pairs):
        return with_layouts, returned
    return parameters, result  # another rule reports signatures that differ


def _aliases(module: HloModule) -> Iterator[Problem]:
    """Problems of input_output_alias and buffer_donor of the module."""
    try:
        parameters, result = _entry_shapes(module)
    except XlashapeError:
        return  # another rule reports a shape that cannot be decoded
    aliased: set[tuple[int, tuple[int, ...]]] = set()
    for alias in module.head.input_output_alias.entries:
        number, index = alias.parameter_number, tuple(alias.parameter_shape_index)
        output_index = tuple(alias.output_shape_index)
        given = _parameter_part(parameters, number, index)
        output = part_of(result, output_index)
        if given is None or output is None:
            what = f"parameter {number} at {list(index)}" if given is None else f"output {list(output_index)}"
            yield Problem("", "", f"input_output_alias names {what}, which does not exist")
        elif (number, index) in aliased:
            yield Problem("", "", f"input_output_alias names parameter {number} at {list(index)} twice")
        elif not given.is_array or not output.is_array:
            yield Problem("", "", f"input_output_alias must join arrays, found output {output} and parameter {given}")
        elif given.is_unbounded_dynamic != output.is_unbounded_dynamic:
            yield Problem("", "", f"input_output_alias must join arrays of one size, found {output} and {given}")
        elif alias.kind == xla.MUST_ALIAS and not _same_memory(given, output):
            yield Problem("", "", f"input_output_alias joins output {output} with parameter {number}, {given}")
        aliased.add((number, index))
    for donor in module.head.buffer_donor.entries:
        number, index = donor.parameter_number, tuple(donor.parameter_shape_index)
        donated = _parameter_part(parameters, number, index)
        if donated is None:
            yield Problem("", "", f"buffer_donor names parameter {number} at {list(index)}, which does not exist")
        elif not donated.is_array:
            yield Problem(
                "", "", f"buffer_donor must name arrays, found {donated}, parameter {number} at {list(index)}"
            )
        elif (number, index) in aliased:
            yield Problem(
                "", "", f"buffer_donor names parameter {number} at {list(index)}, which an output has as its alias"
            )


def _same_memory(given: Shape, output: Shape) -> bool:
    """Whether an output can take the place of a parameter in memory: both have the same shape, layout and memory
    space.
    """
    if given.dynamic_dimensions != output.dynamic_dimensions:
        return False
    if given.is_array and output.is_array and given.layout is not None and output.layout is not None:
        return compatible_shapes(given, output) and equal_layouts(given.layout, output.layout)
    return compatible_shapes(given, output)


def _parameter_part(parameters: Sequence[Shape], number: int, index: Sequence[int]) -> Shape | None:
    return part_of(parameters[number], index) if 0 <= number < len(parameters) else None


def sharding_problem(instruction: xla.HloInstructionProto, shape: Shape, num_partitions: int = 1) -> str | None:
    """The problem of the sharding of an instruction with this shape; None if there is none.

    In a module for several partitions, a sharding must use all of them. A module for one partition may not be
    partitioned yet, so its shardings may be for any number.
    """
    if not instruction.HasField("sharding"):
        return None
    sharding = instruction.sharding
    if shape.is_token:
        return None  # as in XLA, the sharding of a token may be anything
    if sharding.type == xla.OpSharding.TUPLE:
        if not shape.is_tuple:
            return f"its shape is {shape}, its sharding that of a tuple"
        leaves = [*shape.leaves()] or [shape]  # an empty tuple has one sharding
        if len(leaves) != len(sharding.tuple_shardings):
            return f"{shape} has {len(leaves)} arrays, its sharding is for {len(sharding.tuple_shardings)}"
        pairs = [*zip(sharding.tuple_shardings, leaves, strict=True)]
    else:
        pairs = [(sharding, leaf) for leaf in shape.leaves()]
    problems = (
        _devices_problem(part, num_partitions) or (_array_sharding_problem(part, leaf) if leaf.is_array else None)
        for part, leaf in pairs
        if not leaf.is_tuple
    )
    return next((problem for problem in problems if problem), None)


def _divides_dimensions(named: xla.NamedShardingProto) -> bool:
    """Whether a named sharding divides any dimension."""
    return any(_divides(named.mesh, axis) for dim in named.dim_shardings for axis in dim.axes)


def _divides(mesh: xla.MeshProto, axis: xla.AxisRefProto) -> bool:
    """Whether a mesh axis, or the part of it that `axis` names, has more than one device."""
    if axis.HasField("sub_axis_info"):
        return axis.sub_axis_info.size > 1
    index = axis.mesh_axis_index
    return not 0 <= index < len(mesh.axes) or mesh.axes[index].size > 1


def _devices_problem(sharding: xla.OpSharding, num_partitions: int) -> str | None:
    """The problem of the devices that a sharding uses; None if there is none."""
    if sharding.HasField("named_sharding"):
        mesh = sharding.named_sharding.mesh
        devices = mesh.device_ids if not mesh.axes else ()
        if any(device < 0 or (num_partitions > 1 and device >= num_partitions) for device in devices):
            return f"its sharding must name devices from 0 to {num_partitions - 1}, found {mesh.device_ids[0]}"
        if not _divides_dimensions(sharding.named_sharding) and not _has_groups(sharding.named_sharding):
            return None
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
    """The problem of how a sharding divides an array; None if there is none."""
    if sharding.HasField("named_sharding"):
        named = sharding.named_sharding
        count = len(named.dim_shardings)
        # As in XLA, the number of dimensions does not matter if none is divided and all devices do the same.
        if count != shape.rank and (_divides_dimensions(named) or _has_groups(named)):
            return f"its sharding divides {count} dimensions, {shape} has {shape.rank}"
        return None
    if sharding.type != xla.OpSharding.OTHER:
        return None
    tiles = list(sharding.tile_assignment_dimensions)
    count = len(tiles) - len(sharding.last_tile_dims) - sharding.replicate_on_last_tile_dim
    if count != shape.rank:
        return f"its sharding divides {count} dimensions, {shape} has {shape.rank}"
    if product(tiles) == 1:
        return f"its sharding must divide among several devices, found one in {tiles}"
    devices = sharding.tile_assignment_devices
    if len(set(devices)) != len(devices):
        return f"its sharding names a device twice: {list(devices)}"
    return None


def _has_groups(named: xla.NamedShardingProto) -> bool:
    """Whether a sharding has manual or unreduced axes, but neither kind covers all devices. XLA then checks the number
    of dimensions even if none is divided."""
    sizes = [axis.size for axis in named.mesh.axes]
    counts = [
        product(
            [
                axis.sub_axis_info.size if axis.HasField("sub_axis_info") else sizes[axis.mesh_axis_index]
                for axis in axes
                if axis.HasField("sub_axis_info") or 0 <= axis.mesh_axis_index < len(sizes)
            ]
        )
        for axes in (named.manual_axes, named.unreduced_axes)
    ]
    return bool(named.manual_axes or named.unreduced_axes) and product(sizes) not in counts


def origin_problem(instruction: xla.HloInstructionProto, shape: Shape) -> str | None:
    """The problem of the origin of an instruction with this shape; None if there is none. An origin must have an
    element for each array of the shape.
    """
    if not instruction.HasField("original_value"):
        return None
    origin = instruction.original_value
    if origin.is_synthetic_call or origin.HasField("call_hierarchy"):
        return None
    indices = sorted({tuple(element.shape_index) for element in origin.elements})
    # The XLA of 2025 wrote elements for tuples too. They are dropped: such an index is a prefix of the next one.
    following: list[tuple[int, ...]] = [*indices[1:], (-1,)][: len(indices)]
    indices = [
        each for each, after in zip(indices, following, strict=True) if after[: len(each)] != each or after == (-1,)
    ]
    expected = _leaf_indices(shape)
    if indices == expected or _has_unknown_fields(origin):  # the schema of early 2025 has other fields
        return None
    return f"its shape {shape} has arrays at {_listed(expected)}, its origin has elements at {_listed(indices)}"


def _has_unknown_fields(origin: xla.OriginalValueProto) -> bool:
    known = xla.OriginalValueProto()
    known.CopyFrom(origin)
    known.DiscardUnknownFields()
    return known.ByteSize() != origin.ByteSize()


def _leaf_indices(shape: Shape, index: tuple[int, ...] = ()) -> list[tuple[int, ...]]:
    if not shape.is_tuple:
        return [index]
    return [leaf for number, part in enumerate(shape.tuple_shapes) for leaf in _leaf_indices(part, (*index, number))]


def _listed(indices: Sequence[Sequence[int]]) -> str:
    return str([list(index) for index in indices])
