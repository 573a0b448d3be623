"""`verify` and `check` find out whether a module follows XLA's rules for names, order, shapes, calls, layouts of the
entry, schedule and more. Only a module with consistent ids can be checked further.

    for problem in verify(module):
        print(problem)                  # computation 'main': instruction 'add.3': its shape is f32[4], …
    check(module)                       # raises InvalidModuleError with the problems

The rules for an instruction's operands, shape and calls are in the row of its opcode, in xlashape.hlo.ops. Layouts of
results are not compared with those of operands, and an opcode whose row has no rule may have any shape. Further rules
are in module_rules.py, async_rules.py and buffer_rules.py. Matches the part of XLA's HloVerifier that needs no target.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from functools import cached_property
from typing import Final, NamedTuple

from xlashape.errors import InvalidArgumentError, InvalidModuleError, XlashapeError
from xlashape.hlo.module import HloComputation, HloInstruction, HloModule
from xlashape.hlo.module_proto import structure
from xlashape.hlo.module_proto.module_config import UNSAID, ModuleConfig
from xlashape.hlo.module_proto.schema_compat import decode
from xlashape.hlo.module_proto.structure import LOCAL_ID
from xlashape.hlo.ops.collective_rules import Devices, check_devices
from xlashape.hlo.ops.opcode import Opcode
from xlashape.hlo.ops.operation import CannotInfer, Operation, Result
from xlashape.hlo.ops.registry import OPERATIONS
from xlashape.hlo.ops.verification import (
    check_reduction,
    check_shape,
    reduced_types_problem,
    same_type_or_both_floating,
)
from xlashape.hlo.verifier.async_rules import async_problems
from xlashape.hlo.verifier.buffer_rules import buffer_problems
from xlashape.hlo.verifier.module_rules import (
    Problem,
    module_problems,
    origin_problem,
    sharding_problem,
    with_channel,
)
from xlashape.limits import spend
from xlashape.proto import xla
from xlashape.shape import Shape
from xlashape.shape.value.shape import compatible_shapes

_SHOWN = 20  # problems, or shapes, in a message


def check(
    module: HloModule | xla.HloModuleProto | bytes,
    *,
    replica_count: int | None = None,
    num_partitions: int | None = None,
    allow_unbounded_dimensions: bool = False,
    allow_mixed_precision: bool | None = None,
) -> None:
    """Raises InvalidModuleError if a rule is broken, with up to 20 of the problems. The arguments are those of
    `verify`.
    """
    problems = verify(
        module,
        replica_count=replica_count,
        num_partitions=num_partitions,
        allow_unbounded_dimensions=allow_unbounded_dimensions,
        allow_mixed_precision=allow_mixed_precision,
    )
    if problems:
        shown = "\n".join(str(problem) for problem in problems[:_SHOWN])
        more = f"\n… and {len(problems) - _SHOWN} more" if len(problems) > _SHOWN else ""
        raise InvalidModuleError(shown + more)


def verify(
    module: HloModule | xla.HloModuleProto | bytes,
    *,
    replica_count: int | None = None,
    num_partitions: int | None = None,
    allow_unbounded_dimensions: bool = False,
    allow_mixed_precision: bool | None = None,
) -> tuple[Problem, ...]:
    """All broken rules, in the order of the module. If the ids of a module are inconsistent, this is the only problem.

    `replica_count` and `num_partitions` are the numbers of devices that the module is for. Rules of collectives depend
    on them. By default they are taken from the module's text or its device assignment. A module from a proto without a
    device assignment does not have them, and these rules are left out. XLA refuses unbounded dimensions, `f32[?]`,
    unless an option allows them, here `allow_unbounded_dimensions`. `allow_mixed_precision`, as XLA's option of this
    name, allows different floating-point types of operands and result. By default they are allowed in modules with
    tiled layouts, since compilers for TPUs allow them. Raises InvalidArgumentError for a number below 1.

    >>> negate = xla.HloInstructionProto(name="n", opcode="negate", shape={"element_type": xla.F32})
    >>> main = xla.HloComputationProto(name="main", instructions=[negate])
    >>> [str(problem) for problem in verify(xla.HloModuleProto(name="m", computations=[main]))]
    ["computation 'main': instruction 'n': negate takes 1 operand, found 0"]
    """
    _check_count(replica_count, "replica_count")
    _check_count(num_partitions, "num_partitions")
    config = UNSAID
    if isinstance(module, HloModule):
        # The owner may have changed the proto after the view decoded parts of it, so a new view is made.
        module, config = module.held.message, module.config
    proto, _ = decode(xla.HloModuleProto, module)
    try:
        structure.check_module(proto)
        view = HloModule(proto)
    except XlashapeError as error:
        return (Problem("", "", error.message),)
    devices = _devices(proto, config, replica_count, num_partitions)
    rules = _Rules(
        _Precisions(view, allow_mixed_precision),
        allow_unbounded_dimensions,
        devices,
        frozenset(config.channels_0),
    )
    return tuple(_problems(view, rules))


def _check_count(value: int | None, name: str) -> None:
    if value is not None and value < 1:
        raise InvalidArgumentError(f"{name} must be at least 1, found {value}", field=name)


class _Precisions:
    """Whether operands and result of an instruction may have different floating-point types."""

    def __init__(self, module: HloModule, allowed: bool | None) -> None:
        self._module = module
        self._allowed = allowed

    @cached_property
    def may_mix(self) -> bool:
        """Whether types may differ. Computed when it is first needed, since it may look at the whole module."""
        return _is_tiled(self._module) if self._allowed is None else self._allowed


class _Rules(NamedTuple):
    """The settings that decide which rules apply to a module."""

    precisions: _Precisions
    unbounded_dimensions: bool
    devices: Devices | None
    with_channel_0: Set[str]
    """The names of the instructions whose text has `channel_id=0`."""


def _devices(
    proto: xla.HloModuleProto, config: ModuleConfig, replica_count: int | None, num_partitions: int | None
) -> Devices | None:
    """The numbers of devices that a module is for; None if neither the caller nor the module has them."""
    known = config is not UNSAID
    declared = Devices(config.replica_count, config.num_partitions)
    if not known and proto.HasField("device_assignment"):
        assignment = proto.device_assignment
        known, declared = True, Devices(max(assignment.replica_count, 1), max(assignment.computation_count, 1))
    if not known and replica_count is None and num_partitions is None:
        return None
    return Devices(
        declared.replica_count if replica_count is None else replica_count,
        declared.num_partitions if num_partitions is None else num_partitions,
    )


def _problems(module: HloModule, rules: _Rules) -> Iterator[Problem]:
    """All problems of a module whose ids are consistent."""
    first_computations: dict[str, str] = {}
    for index, computation in enumerate(module.computations):
        if not computation.name:
            yield Problem("", "", f"computation {index} has no name")
        for instruction in computation.instructions:
            spend(4 + len(instruction.fields.operand_ids))
            where = instruction.name or f"of id {instruction.id}"
            for message in _instruction(instruction, index, rules):
                yield Problem(computation.name, where, message)
            first = first_computations.setdefault(instruction.name, computation.name)
            if not instruction.name:
                yield Problem(computation.name, where, "has no name")
            elif first != computation.name:
                yield Problem(computation.name, where, f"has the name of an instruction in computation {first!r}")
        names: set[str] = set()
        for instruction in computation.instructions:
            if instruction.name in names:
                yield Problem(
                    computation.name, instruction.name, "has the name of another instruction in its computation"
                )
            names.add(instruction.name)
        for message in _parameters(computation):
            yield Problem(computation.name, "", message)
    for message in _entry(module):
        yield Problem("", "", message)
    yield from _schedule(module)
    yield from module_problems(module)
    yield from async_problems(module, rules.with_channel_0)
    yield from buffer_problems(module)


def _is_tiled(module: HloModule) -> bool:
    """Whether any layout of a module has tiles, which shows that a compiler for TPUs has made the module.

    Such a compiler drops conversions between floating-point types, since its instructions convert by themselves: an f32
    operand may have a bf16 result. XLA's verifier allows that for TPUs and refuses it for other targets, but a module
    does not name its target.
    """
    return any(_has_tiles(instruction.proto.shape) for instruction in module.instructions())


def _has_tiles(shape: xla.ShapeProto) -> bool:
    return bool(shape.layout.tiles) or any(_has_tiles(part) for part in shape.tuple_shapes)


# -- instructions ---------------------------------------------------------------------------


def _instruction(instruction: HloInstruction, computation_index: int, rules: _Rules) -> Iterator[str]:
    """Problems of an instruction on its own. `computation_index` is the index of its computation in the module."""
    row = OPERATIONS.get(instruction.proto.opcode)
    if row is None:
        yield f"has the unknown opcode {instruction.proto.opcode!r}"
        return
    try:
        shape = instruction.shape
        operands = [operand.shape for operand in instruction.operands]
    except XlashapeError as error:
        yield error.message
        return
    for number, operand in enumerate(instruction.operands):
        if operand.index >= instruction.index:
            yield f"operand {number}, {operand.name!r}, is defined after it"
    for called in instruction.called_computations:
        if called.index >= computation_index:
            yield f"calls {called.name!r}, which is defined after its computation"
    if not row.operands.least <= len(operands) <= row.operands.most:
        bound = str(row.operands) if len(operands) < row.operands.least else f"at most {row.operands.most}"
        bound = str(row.operands.least) if row.operands.least == row.operands.most else bound
        yield f"{row.opcode} takes {bound} operand{'' if bound == '1' else 's'}, found {len(operands)}"
        return
    partitions = 1 if rules.devices is None else rules.devices.num_partitions
    for problem in (sharding_problem(instruction.proto, shape, partitions), origin_problem(instruction.proto, shape)):
        if problem:
            yield problem
    proto = with_channel(instruction, rules.with_channel_0)
    if proto is not instruction.proto and row.opcode == Opcode.ALL_REDUCE:
        yield "channel_id must be above 0, found 0"
    if not rules.unbounded_dimensions and shape.is_unbounded_dynamic:
        yield f"its shape must have bounded dimensions, found {shape}"
    problem = _operands_problem(row, operands, rules)
    if problem:
        yield problem
        return
    try:
        called = instruction.called_computations
        problem = _shape_problem(proto, called, row, shape, operands, rules)
        if problem is None and row.exchanges_with_replicas:
            problem = check_devices(proto, shape, operands, rules.devices)
    except XlashapeError as error:
        problem = error.message
    if problem:
        yield problem


def _operands_problem(row: Operation, operands: Sequence[Shape], rules: _Rules) -> str | None:
    """The problem of operands that must have equal dimensions or equal types; None if there is none."""
    if row.operands_of_equal_sizes and len({operand.dimensions for operand in operands}) > 1:
        return f"its operands must have equal dimensions, found {_shown(operands)}"
    if row.one_precision:
        parts = [leaf for operand in operands for leaf in operand.leaves()]
        types = {part.element_type for part in parts if part.is_array and part.element_type.is_floating}
        if len(types) > 1 and not rules.precisions.may_mix:
            return f"its floating operands must have the same element type, found {_shown(operands)}"
    return None


def _shown(shapes: Sequence[Shape]) -> str:
    return ", ".join(map(str, shapes[:_SHOWN]))


def _shape_problem(
    proto: xla.HloInstructionProto,
    called: Sequence[HloComputation],
    row: Operation,
    shape: Shape,
    operands: Sequence[Shape],
    rules: _Rules,
) -> str | None:
    """The problem of an instruction's shape, attributes or called computations; None if there is none."""
    result = Result(proto, operands, [computation.root.shape for computation in called], shape=shape)
    try:
        if row.verify_calls is not None:
            result.parameters = parameters = [[parameter.shape for parameter in each.parameters] for each in called]
            problem = row.verify_calls(result)
            if problem is None and row.verify_calls is check_reduction:
                problem = reduced_types_problem(operands, parameters[0])
                if problem and rules.precisions.may_mix:
                    problem = None
            if problem:
                return problem
        if row.verify is not None:
            problem = row.verify(result)
            if problem and row.opcode not in _OF_ONE_PRECISION and rules.precisions.may_mix:
                result.shape = _with_precisions(shape, operands)
                problem = row.verify(result)
            return problem
        if row.infer is None:
            return None
        inferred = row.infer_shape(result)
    except CannotInfer as error:
        message = str(error)
        return message if message.startswith(f"{row.opcode}: ") else f"{row.opcode}: {message}"
    except (ArithmeticError, LookupError):
        # Inference relies on checks that the parser makes, but a proto may hold any values.
        return "its attributes do not fit its operands"
    problem = check_shape(shape, inferred)
    if problem and row.opcode not in _OF_ONE_PRECISION and rules.precisions.may_mix:
        return None if compatible_shapes(shape, inferred, same_type_or_both_floating) else problem
    return problem


_OF_ONE_PRECISION: Final = frozenset((Opcode.TUPLE, Opcode.DYNAMIC_UPDATE_SLICE))
"""Opcodes whose result must have the types of the operands even if other opcodes may mix precisions."""


def _with_precisions(shape: Shape, operands: Sequence[Shape]) -> Shape:
    """The shape of a result with the floating-point type of the first operand. If it is a tuple with an element for
    each operand, each element gets the type of its operand.
    """
    if shape.is_tuple and len(shape.tuple_shapes) == len(operands):
        return Shape.tuple(
            [_with_precisions(part, [each]) for part, each in zip(shape.tuple_shapes, operands, strict=True)]
        )
    arrays = (shape, *operands[:1])
    if len(arrays) == 2 and all(each.is_array and each.element_type.is_floating for each in arrays):
        return shape.with_element_type(operands[0].element_type)
    return shape


# -- computations and the module ------------------------------------------------------------


def _parameters(computation: HloComputation) -> Iterator[str]:
    """Problems of the parameters of a computation, and of its program_shape."""
    numbers = sorted(
        instruction.proto.parameter_number
        for instruction in computation.instructions
        if instruction.proto.opcode == Opcode.PARAMETER
    )
    if numbers != list(range(len(numbers))):
        yield f"its parameters are numbered {numbers}, not from 0 without gaps"
        return
    if not computation.proto.HasField("program_shape"):
        return
    declared = computation.proto.program_shape
    yield from _signature(computation, declared, "program_shape")


def _signature(computation: HloComputation, declared: xla.ProgramShapeProto, what: str) -> Iterator[str]:
    """Differences between a computation and a declared signature, which messages call `what`."""
    parameters = computation.parameters
    if len(declared.parameters) != len(parameters):
        yield f"{what} has {len(declared.parameters)} parameters, {computation.name!r} has {len(parameters)}"
        return
    try:
        for number, (proto, parameter) in enumerate(zip(declared.parameters, parameters, strict=True)):
            shape = Shape.from_proto(proto)
            if not compatible_shapes(shape, parameter.shape):
                yield f"{what} has {shape} as parameter {number}, {parameter.name!r} is {parameter.shape}"
        result = Shape.from_proto(declared.result)
        root = computation.root
        if not compatible_shapes(result, root.shape):
            yield f"{what} has {result} as its result, the root {root.name!r} is {root.shape}"
    except XlashapeError as error:
        yield f"{what}: {error.message}"


def _entry(module: HloModule) -> Iterator[str]:
    """Problems of the declared signature of the entry computation."""
    proto, entry = module.proto, module.entry
    if proto.HasField("host_program_shape") and not any(_parameters(entry)):
        declared = proto.host_program_shape
        yield from _signature(entry, declared, "host_program_shape, the layout of the entry,")
        if any(map(_is_sparse, (*declared.parameters, declared.result))):
            yield "in the layout of the entry all arrays are dense: no layout has a type of indices or pointers"


def _is_sparse(shape: xla.ShapeProto) -> bool:
    layout = shape.layout
    return bool(layout.index_primitive_type or layout.pointer_primitive_type) or any(
        map(_is_sparse, shape.tuple_shapes)
    )


def _schedule(module: HloModule) -> Iterator[Problem]:
    """Problems of the module's schedule."""
    computations = {computation.id & LOCAL_ID: computation for computation in module.computations}
    for key, sequence in module.proto.schedule.sequences.items():
        computation = computations.get(key & LOCAL_ID)
        if computation is None:
            yield Problem("", "", f"the schedule has a computation of id {key}, which does not exist")
            continue
        ids = [instruction_id & LOCAL_ID for instruction_id in sequence.instruction_ids]
        if sorted(ids) != sorted(instruction.id & LOCAL_ID for instruction in computation.instructions):
            yield Problem(computation.name, "", "its schedule does not name each of its instructions once")
            continue
        steps = {local_id: step for step, local_id in enumerate(ids)}
        for instruction in computation.instructions:
            for before in (*instruction.operands, *instruction.control_predecessors):
                if steps[before.id & LOCAL_ID] > steps[instruction.id & LOCAL_ID]:
                    message = f"is scheduled before {before.name!r}, which it needs"
                    yield Problem(computation.name, instruction.name, message)
