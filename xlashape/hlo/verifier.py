"""Whether a module keeps XLA's rules beyond those it needs to be viewed: names, order, shapes, calls, layouts of the entry, schedule.

    for problem in verify(module):
        print(problem)                  # computation 'main': instruction 'add.3': its shape is f32[4], …
    check(module)                       # raises InvalidModuleError with all of them

The rules of an instruction's operands, shape and calls are in the row of its opcode, in xlashape.hlo.ops. What an operation does to
layouts is not checked, and an opcode whose row has no rule may have any shape. The rules of shardings and origins are in
annotation_rules.py, those of several instructions together in module_rules.py. Matches the part of XLA's HloVerifier that needs no target.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from xlashape.errors import InvalidModuleError, XlashapeError
from xlashape.hlo import structure
from xlashape.hlo.annotation_rules import origin_problem, sharding_problem
from xlashape.hlo.module import HloComputation, HloInstruction, HloModule
from xlashape.hlo.module_rules import Problem, module_problems
from xlashape.hlo.older import decode
from xlashape.hlo.ops.opcode import Opcode
from xlashape.hlo.ops.operation import CannotInfer, Operation
from xlashape.hlo.ops.registry import OPERATIONS
from xlashape.hlo.ops.verification import check_shape, same_type_or_both_floating
from xlashape.hlo.structure import LOCAL_ID
from xlashape.proto import xla
from xlashape.shape import Shape
from xlashape.shape.value.equality import compatible_shapes

__all__ = ["Problem", "check", "verify"]

_SHOWN = 20


def check(module: HloModule | xla.HloModuleProto | bytes) -> None:
    """Raises InvalidModuleError if a rule is broken, with up to 20 of the problems."""
    problems = verify(module)
    if problems:
        shown = "\n".join(str(problem) for problem in problems[:_SHOWN])
        more = f"\n… and {len(problems) - _SHOWN} more" if len(problems) > _SHOWN else ""
        raise InvalidModuleError(shown + more)


def verify(module: HloModule | xla.HloModuleProto | bytes) -> tuple[Problem, ...]:
    """All broken rules, in the order of the module. A module that cannot even be viewed has one problem, which says why.

    >>> negate = xla.HloInstructionProto(name="n", opcode="negate", shape={"element_type": xla.F32})
    >>> main = xla.HloComputationProto(name="main", instructions=[negate])
    >>> [str(problem) for problem in verify(xla.HloModuleProto(name="m", computations=[main]))]
    ["computation 'main': instruction 'n': negate takes 1 operand, found 0"]
    """
    if isinstance(module, HloModule):
        # A view keeps what it has decoded; the proto may have changed since.
        module = module.proto
    proto, _ = decode(xla.HloModuleProto, module)
    try:
        structure.check_module(proto)
        view = HloModule(proto)
    except XlashapeError as error:
        return (Problem("", "", error.message),)
    return tuple(_problems(view))


def _problems(module: HloModule) -> Iterator[Problem]:
    first_computations: dict[str, str] = {}
    mixed_precision = _is_tiled(module)
    for index, computation in enumerate(module.computations):
        if not computation.name:
            yield Problem("", "", f"computation {index} has no name")
        for instruction in computation.instructions:
            where = instruction.name or f"of id {instruction.id}"
            for message in _instruction(instruction, index, mixed_precision=mixed_precision):
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


def _is_tiled(module: HloModule) -> bool:
    """Whether a layout has tiles, as those of a module that a compiler for TPUs has worked on have.

    Such a compiler drops conversions between floating-point types that its instructions make on their own: an f32 operand may have
    a bf16 result. XLA's verifier allows that for TPUs and refuses it for other targets; the module itself does not name its target.
    """
    return any(_has_tiles(instruction.proto.shape) for instruction in module.instructions())


def _has_tiles(shape: xla.ShapeProto) -> bool:
    return bool(shape.layout.tiles) or any(_has_tiles(part) for part in shape.tuple_shapes)


# -- instructions ---------------------------------------------------------------------------


def _instruction(instruction: HloInstruction, computation_index: int, *, mixed_precision: bool) -> Iterator[str]:
    """What is wrong with an instruction of the computation at an index.

    With `mixed_precision` the precision of floating-point numbers may differ between operands and result.
    """
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
    for check_annotation in (sharding_problem, origin_problem):
        problem = check_annotation(instruction.proto, shape)
        if problem:
            yield problem
    problem = _operands_problem(row, operands, mixed_precision=mixed_precision)
    if problem:
        yield problem
        return
    try:
        problem = _shape_problem(instruction, row, shape, operands, mixed_precision=mixed_precision)
    except XlashapeError as error:
        problem = error.message
    if problem:
        yield problem


def _operands_problem(row: Operation, operands: Sequence[Shape], *, mixed_precision: bool) -> str | None:
    """What is wrong with operands that must be alike."""
    shown = ", ".join(map(str, operands[:_SHOWN]))
    if row.operands_of_equal_sizes and len({operand.dimensions for operand in operands}) > 1:
        return f"its operands must have equal dimensions, found {shown}"
    if row.one_precision and not mixed_precision:
        types = {operand.element_type for operand in operands if operand.is_array and operand.element_type.is_floating}
        if len(types) > 1:
            return f"its floating operands must have the same element type, found {shown}"
    return None


def _shape_problem(
    instruction: HloInstruction, row: Operation, shape: Shape, operands: Sequence[Shape], *, mixed_precision: bool
) -> str | None:
    called = instruction.called_computations
    results = [computation.root.shape for computation in called]
    if row.verify_calls is not None:
        parameters = [[parameter.shape for parameter in computation.parameters] for computation in called]
        problem = row.verify_calls(shape, operands, parameters, results)
        if problem:
            return problem
    try:
        if row.verify is not None:
            problem = row.verify(instruction.proto, shape, operands)
            if problem and mixed_precision and _both_floating_arrays(shape, operands):
                problem = row.verify(instruction.proto, shape.with_element_type(operands[0].element_type), operands)
            return problem
        if row.infer is None:
            return None
        inferred = row.infer_shape(instruction.proto, operands, results)
    except CannotInfer as error:
        message = str(error)
        return message if message.startswith(f"{row.opcode}: ") else f"{row.opcode}: {message}"
    except (ArithmeticError, LookupError):
        # Inference relies on what the parser has checked; a proto may hold anything.
        return "its attributes do not fit its operands"
    if mixed_precision and compatible_shapes(shape, inferred, same_type_or_both_floating):
        return None
    return check_shape(shape, inferred)


def _both_floating_arrays(shape: Shape, operands: Sequence[Shape]) -> bool:
    arrays = (shape, *operands[:1])
    return len(arrays) == 2 and all(each.is_array and each.element_type.is_floating for each in arrays)


# -- computations and the module ------------------------------------------------------------


def _parameters(computation: HloComputation) -> Iterator[str]:
    """What is wrong with the parameters of a computation and with its program_shape."""
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
    proto, entry = module.proto, module.entry
    if proto.HasField("host_program_shape") and not any(_parameters(entry)):
        yield from _signature(entry, proto.host_program_shape, "host_program_shape, the layout of the entry,")


def _schedule(module: HloModule) -> Iterator[Problem]:
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
