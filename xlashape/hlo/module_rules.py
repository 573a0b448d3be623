"""The rules that several instructions keep together: fusions, threads, aliases of the entry. A part of `xlashape.hlo.verifier`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from xlashape.errors import XlashapeError
from xlashape.hlo.module import HloComputation, HloModule
from xlashape.hlo.ops.opcode import Opcode
from xlashape.proto import xla
from xlashape.shape import Shape
from xlashape.shape.value.equality import compatible_shapes

__all__ = ["Problem", "module_problems"]


class Problem(NamedTuple):
    """One broken rule, and where. A name is "" where the rule is one of the whole module or the whole computation."""

    computation: str
    instruction: str
    message: str

    def __str__(self) -> str:
        text = f"computation {self.computation!r}: " if self.computation else ""
        text += f"instruction {self.instruction!r}: " if self.instruction else ""
        return text + self.message


def module_problems(module: HloModule) -> Iterator[Problem]:
    """The problems of instructions with other instructions, and of the module's aliases and donors."""
    for computation in module.computations:
        yield from _threads(computation)
    yield from _fusions(module)
    yield from _aliases(module)


# -- fusions --------------------------------------------------------------------------------


def _fusions(module: HloModule) -> Iterator[Problem]:
    """Fused computations that several fusions call, or that compute what nothing uses."""
    callers: Counter[int] = Counter()
    fused: dict[int, HloComputation] = {}
    for computation in module.computations:
        for instruction in computation.instructions:
            if instruction.proto.opcode == Opcode.FUSION:
                for called in instruction.called_computations:
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


_MAIN_THREAD: Final = "main"


def _threads(computation: HloComputation) -> Iterator[Problem]:
    """Fusions whose computation runs on another thread than they."""
    thread = computation.execution_thread or _MAIN_THREAD
    for instruction in computation.instructions:
        if instruction.proto.opcode != Opcode.FUSION:
            continue
        for called in instruction.called_computations:
            theirs = called.execution_thread or _MAIN_THREAD
            if theirs != thread:
                message = f"it runs on the thread {thread!r}, its computation {called.name!r} on {theirs!r}"
                yield Problem(computation.name, instruction.name, message)


# -- buffers of the entry -------------------------------------------------------------------


def _aliases(module: HloModule) -> Iterator[Problem]:
    try:
        parameters = [parameter.shape for parameter in module.entry.parameters]
        result = module.entry.root.shape
    except XlashapeError:
        return  # the instruction whose shape cannot be decoded is a problem of its own
    aliased: set[tuple[int, tuple[int, ...]]] = set()
    for alias in module.proto.input_output_alias.entries:
        number, index = alias.parameter_number, tuple(alias.parameter_shape_index)
        output_index = tuple(alias.output_shape_index)
        given = _parameter_part(parameters, number, index)
        output = _part(result, output_index)
        if given is None or output is None:
            what = f"parameter {number} at {list(index)}" if given is None else f"output {list(output_index)}"
            yield Problem("", "", f"input_output_alias names {what}, which does not exist")
        elif (number, index) in aliased:
            yield Problem("", "", f"input_output_alias names parameter {number} at {list(index)} twice")
        elif given.is_tuple or output.is_tuple:
            yield Problem("", "", f"input_output_alias must join arrays, found output {output} and parameter {given}")
        elif alias.kind == xla.MUST_ALIAS and not compatible_shapes(given, output):
            yield Problem("", "", f"input_output_alias joins output {output} with parameter {number}, {given}")
        aliased.add((number, index))
    for donor in module.proto.buffer_donor.entries:
        number, index = donor.parameter_number, tuple(donor.parameter_shape_index)
        if _parameter_part(parameters, number, index) is None:
            yield Problem("", "", f"buffer_donor names parameter {number} at {list(index)}, which does not exist")
        elif (number, index) in aliased:
            yield Problem(
                "", "", f"buffer_donor names parameter {number} at {list(index)}, which an output has as its alias"
            )


def _parameter_part(parameters: Sequence[Shape], number: int, index: Sequence[int]) -> Shape | None:
    return _part(parameters[number], index) if 0 <= number < len(parameters) else None


def _part(shape: Shape, index: Sequence[int]) -> Shape | None:
    """The part of a shape at an index; None if it has none there."""
    for element in index:
        if not shape.is_tuple or not 0 <= element < len(shape.tuple_shapes):
            return None
        shape = shape.tuple_shapes[element]
    return shape
