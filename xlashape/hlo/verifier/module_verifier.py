"""`verify` and `check` find out whether a module follows XLA's rules for names, order, shapes, calls, layouts of the
entry, schedule and more. Only a module with consistent ids can be checked further.

    for problem in verify(module):
        print(problem)                  # computation 'main': instruction 'add.3': its shape is f32[4], …
    check(module)                       # raises InvalidModuleError with the problems

The rules for single instructions are in instruction_rules.py; those for an instruction's operands, shape and calls are
in the row of its opcode, in xlashape.hlo.ops. Layouts of results are not compared with those of operands, and an opcode
whose row has no rule may have any shape. Further rules are in module_rules.py, async_rules.py and buffer_rules.py.
Matches the part of XLA's HloVerifier that needs no target.
"""

from __future__ import annotations

from collections.abc import Iterator

from xlashape.errors import InvalidArgumentError, InvalidModuleError, XlashapeError
from xlashape.hlo.module import HloComputation, HloModule
from xlashape.hlo.module_proto.module_config import UNSAID
from xlashape.hlo.module_proto.schema_compat import decode
from xlashape.hlo.module_proto.structure import LOCAL_ID
from xlashape.hlo.ops.collective_rules import Devices
from xlashape.hlo.ops.opcode import Opcode
from xlashape.hlo.serde import declared_signature
from xlashape.hlo.verifier.async_rules import async_problems
from xlashape.hlo.verifier.buffer_rules import buffer_problems
from xlashape.hlo.verifier.instruction_rules import InstructionRules
from xlashape.hlo.verifier.module_rules import Problem, module_problems
from xlashape.limits import spend
from xlashape.proto import xla
from xlashape.shape.value.shape import compatible_shapes

_SHOWN = 20  # problems in a message


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
    if not isinstance(module, HloModule):
        message, _ = decode(xla.HloModuleProto, module)
        try:
            module = HloModule(message)
        except XlashapeError as error:
            return (Problem("", "", error.message),)
    rules = InstructionRules(
        module,
        _devices(module, replica_count, num_partitions),
        unbounded_dimensions=allow_unbounded_dimensions,
        mixed_precision=allow_mixed_precision,
    )
    return tuple(_problems(module, rules))


def _check_count(value: int | None, name: str) -> None:
    if value is not None and value < 1:
        raise InvalidArgumentError(f"{name} must be at least 1, found {value}", field=name)


def _devices(module: HloModule, replica_count: int | None, num_partitions: int | None) -> Devices | None:
    """The numbers of devices that a module is for; None if neither the caller nor the module has them."""
    config = module.config
    known = config is not UNSAID
    declared = Devices(config.replica_count, config.num_partitions)
    if not known and module.head.HasField("device_assignment"):
        assignment = module.head.device_assignment
        known, declared = True, Devices(max(assignment.replica_count, 1), max(assignment.computation_count, 1))
    if not known and replica_count is None and num_partitions is None:
        return None
    return Devices(
        declared.replica_count if replica_count is None else replica_count,
        declared.num_partitions if num_partitions is None else num_partitions,
    )


def _problems(module: HloModule, rules: InstructionRules) -> Iterator[Problem]:
    """All problems of a module whose ids are consistent."""
    first_computations: dict[str, str] = {}
    for index, computation in enumerate(module.computations):
        if not computation.name:
            yield Problem("", "", f"computation {index} has no name")
        for instruction in computation.instructions:
            spend(4 + len(instruction.operands))
            name = instruction.name
            where = name or f"of id {instruction.id}"
            for message in rules.problems(instruction):
                yield Problem(computation.name, where, message)
            first = first_computations.setdefault(name, computation.name)
            if not name:
                yield Problem(computation.name, where, "has no name")
            elif first != computation.name:
                yield Problem(computation.name, where, f"has the name of an instruction in computation {first!r}")
        names = [instruction.name for instruction in computation.instructions]
        if len(set(names)) < len(names):
            seen: set[str] = set()
            for name in names:
                if name in seen:
                    yield Problem(computation.name, name, "has the name of another instruction in its computation")
                seen.add(name)
        for message in _parameters(computation):
            yield Problem(computation.name, "", message)
    for message in _entry(module):
        yield Problem("", "", message)
    yield from _schedule(module)
    yield from module_problems(module)
    yield from async_problems(module)
    yield from buffer_problems(module)


# -- computations and the module ------------------------------------------------------------


def _parameters(computation: HloComputation) -> Iterator[str]:
    """Problems of the parameters of a computation, and of its program_shape."""
    try:
        _ = computation.parameters
    except InvalidModuleError:
        numbers = sorted([each.number for each in computation.instructions if each.opcode is Opcode.PARAMETER])
        yield f"its parameters are numbered {numbers}, not from 0 without gaps"
        return
    declared = declared_signature(computation)
    if declared is not None:
        yield from _signature(computation, declared, "program_shape")


def _signature(computation: HloComputation, declared: xla.ProgramShapeProto, what: str) -> Iterator[str]:
    """Differences between a computation and a declared signature, which messages call `what`."""
    parameters, shape_of = computation.parameters, computation.module.kinds.shape_of
    if len(declared.parameters) != len(parameters):
        yield f"{what} has {len(declared.parameters)} parameters, {computation.name!r} has {len(parameters)}"
        return
    try:
        for number, (proto, parameter) in enumerate(zip(declared.parameters, parameters, strict=True)):
            shape = shape_of(proto)
            if shape is not parameter.shape and not compatible_shapes(shape, parameter.shape):
                yield f"{what} has {shape} as parameter {number}, {parameter.name!r} is {parameter.shape}"
        result = shape_of(declared.result)
        root = computation.root
        if result is not root.shape and not compatible_shapes(result, root.shape):
            yield f"{what} has {result} as its result, the root {root.name!r} is {root.shape}"
    except XlashapeError as error:
        yield f"{what}: {error.message}"


def _entry(module: HloModule) -> Iterator[str]:
    """Problems of the declared signature of the entry computation."""
    head, entry = module.head, module.entry
    if head.HasField("host_program_shape") and not any(_parameters(entry)):
        declared = head.host_program_shape
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
    computations = module.by_local_id()
    for key, sequence in module.head.schedule.sequences.items():
        computation = computations.get(key & LOCAL_ID)
        if computation is None:
            yield Problem("", "", f"the schedule has a computation of id {key}, which does not exist")
            continue
        instructions = computation.instructions
        ids = [ident & LOCAL_ID for ident in sequence.instruction_ids]
        own = [instruction.id & LOCAL_ID for instruction in instructions]
        if sorted(ids) != sorted(own):
            yield Problem(computation.name, "", "its schedule does not name each of its instructions once")
            continue
        place = {ident: step for step, ident in enumerate(ids)}
        steps = [place[ident] for ident in own]
        for instruction, step in zip(instructions, steps, strict=True):
            for before in (*instruction.operands, *instruction.control_predecessors):
                if steps[before.index] > step:
                    message = f"is scheduled before {before.name!r}, which it needs"
                    yield Problem(computation.name, instruction.name, message)
