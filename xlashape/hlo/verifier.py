"""Whether a module keeps XLA's rules beyond those it needs to be viewed: names, order, shapes, calls, layouts of the entry, schedule.

    for problem in verify(module):
        print(problem)                  # computation 'main': instruction 'add.3': its shape is f32[4], …
    check(module)                       # raises InvalidModuleError with all of them

Shapes are checked against operands for operations with simple rules (elementwise, broadcast, reshape, transpose, slices, pad, concatenate,
dot, reduce, tuples, control flow, …); what an operation does to layouts is not checked, nor operations whose rule is not simple.
Matches the part of XLA's HloVerifier that needs no target.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from xlashape.errors import InvalidModuleError, XlashapeError
from xlashape.hlo import structure
from xlashape.hlo.module import HloComputation, HloInstruction, HloModule
from xlashape.hlo.ops.infer import infer_shape
from xlashape.hlo.ops.opcode import UnknownOpcode
from xlashape.hlo.ops.table import OPERATIONS
from xlashape.hlo.ops.verify_rules import CALLS, RULES
from xlashape.hlo.structure import LOCAL_ID
from xlashape.proto import coerce, xla
from xlashape.shape import Shape
from xlashape.shape.shape_util import compatible

__all__ = ["Problem", "check", "verify"]

_SHOWN = 20


@dataclass(frozen=True)
class Problem:
    """One broken rule, and where: "" stands for the module or the computation as a whole."""

    computation: str
    instruction: str
    message: str

    def __str__(self) -> str:
        where = [
            f"{what} {name!r}: "
            for what, name in (("computation", self.computation), ("instruction", self.instruction))
            if name
        ]
        return "".join(where) + self.message


def check(module: HloModule | xla.HloModuleProto | bytes) -> None:
    """Raises InvalidModuleError if a rule is broken, with up to 20 of the problems."""
    problems = verify(module)
    if problems:
        shown = "\n".join(str(problem) for problem in problems[:_SHOWN])
        more = f"\n… and {len(problems) - _SHOWN} more" if len(problems) > _SHOWN else ""
        raise InvalidModuleError(shown + more)


def verify(module: HloModule | xla.HloModuleProto | bytes) -> tuple[Problem, ...]:
    """All broken rules, in the order of the module. A module that cannot even be viewed has one problem, which says why.

    >>> one = xla.HloInstructionProto(name="n", opcode="negate", shape={"element_type": xla.F32})
    >>> main = xla.HloComputationProto(name="main", instructions=[one])
    >>> [str(problem) for problem in verify(xla.HloModuleProto(name="m", computations=[main]))]
    ["computation 'main': instruction 'n': negate takes 1 operand, found 0"]
    """
    if isinstance(module, HloModule):
        # A view knows its module as it was; the proto may have changed since.
        module = module.proto
    proto = coerce(xla.HloModuleProto, module)
    try:
        structure.check_module(proto)
        view = HloModule(proto)
    except XlashapeError as error:
        return (Problem("", "", error.message),)
    return tuple(_problems(view))


def _problems(module: HloModule) -> Iterator[Problem]:
    names: dict[str, str] = {}
    for place, computation in enumerate(module.computations):
        if not computation.name:
            yield Problem("", "", f"computation {place} has no name")
        for one in computation.instructions:
            for message in _instruction(one, place):
                yield Problem(computation.name, one.name or f"of id {one.id}", message)
            first = names.setdefault(one.name, computation.name)
            if first != computation.name or not one.name:
                message = f"has the name of one in computation {first!r}" if one.name else "has no name"
                yield Problem(computation.name, one.name or f"of id {one.id}", message)
        seen: set[str] = set()
        for one in computation.instructions:
            if one.name in seen:
                yield Problem(computation.name, one.name, "has the name of another one in its computation")
            seen.add(one.name)
        for message in _parameters(computation):
            yield Problem(computation.name, "", message)
    for message in _entry(module):
        yield Problem("", "", message)
    yield from _schedule(module)
    yield from _aliases(module)


def _instruction(one: HloInstruction, place: int) -> Iterator[str]:
    try:
        opcode = one.opcode
        shape = one.shape
        operands = [operand.shape for operand in one.operands]
    except XlashapeError as error:
        yield error.message
        return
    if isinstance(opcode, UnknownOpcode):
        yield f"has the unknown opcode {opcode.value!r}"
        return
    for number, operand in enumerate(one.operands):
        if operand.index >= one.index:
            yield f"operand {number}, {operand.name!r}, stands behind it"
    for called in one.called_computations:
        if called.index >= place:
            yield f"calls {called.name!r}, which stands behind its computation"
    row = OPERATIONS.get(opcode)
    if row is not None and opcode != "fusion" and not row.least <= len(operands) <= row.most:
        bound = (
            str(row.least)
            if row.least == row.most
            else f"at least {row.least}"
            if len(operands) < row.least
            else f"at most {row.most}"
        )
        yield f"{opcode} takes {bound} operand{'' if bound == '1' else 's'}, found {len(operands)}"
        return
    try:
        message = _shape_problem(one, shape, operands)
    except XlashapeError as error:
        message = error.message
    if message:
        yield message


def _shape_problem(one: HloInstruction, shape: Shape, operands: Sequence[Shape]) -> str | None:
    opcode = str(one.opcode)
    if opcode == "constant":
        if not one.proto.HasField("literal"):
            return "has no literal"
        literal = Shape.from_proto(one.proto.literal.shape)
        return None if compatible(shape, literal) else f"its shape is {shape}, its literal's {literal}"
    called = [[parameter.shape for parameter in target.parameters] for target in one.called_computations]
    results = [target.root.shape for target in one.called_computations]
    calls = CALLS.get(opcode)
    if calls is not None:
        message = calls(shape, operands, called, results)
        if message:
            return message
    rule = RULES.get(opcode)
    if rule is not None:
        return rule(one.proto, shape, operands)
    if opcode in ("while", "call", "fusion", "conditional", "parameter") or opcode.startswith("async-"):
        return None
    try:
        inferred = infer_shape(opcode, one.proto, operands, results)
    except (ArithmeticError, LookupError):
        # Inference is written for what the parser has checked; a proto may hold anything.
        return "its attributes do not fit its operands"
    if isinstance(inferred, str):
        # "must be written": there is no rule for it. Anything else says what is wrong with its operands.
        return None if inferred.endswith("must be written") else inferred
    return None if compatible(shape, inferred) else f"its shape is {shape}, of its operands follows {inferred}"


def _parameters(computation: HloComputation) -> Iterator[str]:
    numbers = sorted(one.proto.parameter_number for one in computation.instructions if one.proto.opcode == "parameter")
    if numbers != list(range(len(numbers))):
        yield f"its parameters are numbered {numbers}, not from 0 on"
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
        for number, (ours, theirs) in enumerate(zip(declared.parameters, parameters, strict=True)):
            if not compatible(Shape.from_proto(ours), theirs.shape):
                yield f"{what} has {Shape.from_proto(ours)} as parameter {number}, {theirs.name!r} is {theirs.shape}"
        result = Shape.from_proto(declared.result)
        root = computation.root
        if not compatible(result, root.shape):
            yield f"{what} has {result} as its result, the root {root.name!r} is {root.shape}"
    except XlashapeError as error:
        yield f"{what}: {error.message}"


def _entry(module: HloModule) -> Iterator[str]:
    proto, entry = module.proto, module.entry
    if proto.entry_computation_name and proto.entry_computation_name != entry.name:
        yield f"entry_computation_name is {proto.entry_computation_name!r}, the entry computation {entry.name!r}"
    if proto.HasField("host_program_shape") and not any(_parameters(entry)):
        yield from _signature(entry, proto.host_program_shape, "host_program_shape, the layout of the entry,")


def _schedule(module: HloModule) -> Iterator[Problem]:
    computations = {one.id & LOCAL_ID: one for one in module.computations}
    for key, sequence in module.proto.schedule.sequences.items():
        computation = computations.get(key & LOCAL_ID)
        if computation is None:
            yield Problem("", "", f"the schedule has a computation of id {key}, which is not there")
            continue
        ids = [one & LOCAL_ID for one in sequence.instruction_ids]
        if sorted(ids) != sorted(one.id & LOCAL_ID for one in computation.instructions):
            yield Problem(computation.name, "", "its schedule does not name each of its instructions once")
            continue
        place = {one: number for number, one in enumerate(ids)}
        for one in computation.instructions:
            for before in (*one.operands, *one.control_predecessors):
                if place[before.id & LOCAL_ID] > place[one.id & LOCAL_ID]:
                    yield Problem(computation.name, one.name, f"is scheduled before {before.name!r}, which it needs")


def _aliases(module: HloModule) -> Iterator[Problem]:
    try:
        parameters = [one.shape for one in module.entry.parameters]
        result = module.entry.root.shape
        targets = [
            (one.parameter_number, tuple(one.parameter_shape_index), tuple(one.output_shape_index))
            for one in module.proto.input_output_alias.entries
        ]
        for number, index, output in targets:
            ours = _part(parameters[number], index) if 0 <= number < len(parameters) else None
            theirs = _part(result, output)
            if ours is None or theirs is None:
                what = f"parameter {number} at {list(index)}" if ours is None else f"output {list(output)}"
                yield Problem("", "", f"input_output_alias names {what}, which is not there")
            elif not compatible(ours, theirs):
                yield Problem("", "", f"input_output_alias joins output {theirs} with parameter {number}, {ours}")
        for one in module.proto.buffer_donor.entries:
            number, index = one.parameter_number, tuple(one.parameter_shape_index)
            if not 0 <= number < len(parameters) or _part(parameters[number], index) is None:
                yield Problem("", "", f"buffer_donor names parameter {number} at {list(index)}, which is not there")
    except XlashapeError:
        return  # shapes that cannot be are told where they stand


def _part(shape: Shape, index: Sequence[int]) -> Shape | None:
    for i in index:
        if not shape.is_tuple or not 0 <= i < len(shape.tuple_shapes):
            return None
        shape = shape.tuple_shapes[i]
    return shape
