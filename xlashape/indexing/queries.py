"""What users ask: the maps of an instruction, of a way through its computation, of a whole module.

    maps = output_to_input(root)                     # one OperandIndexingSet an operand
    maps[0].map, maps[0].runtime                     # where it holds one map
    [one.map for one in maps[0]]                     # any number of them

Arrays inside a tuple are counted depth first, so output 1 of an instruction that returns `(f32[2], (s32[], pred[3]))` is the s32[]. A budget in
force (`xlashape.limits.budget`) bounds every analysis; the error names the instruction.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from xlashape.errors import (
    DeadlineExceededError,
    InvalidArgumentError,
    LimitExceededError,
    XlashapeError,
    from_details,
)
from xlashape.hlo import HloInstruction, HloModule
from xlashape.indexing.answers.operand_indexing import OperandIndexingSet
from xlashape.indexing.ops.registry import OUTPUT_TO_INPUT
from xlashape.indexing.walk.analysis import Answer, answer_from_output, leaf_count, signature
from xlashape.indexing.walk.computations import Analysis
from xlashape.shape.parts.checks import integer

__all__ = [
    "InstructionIndexing",
    "checked_number",
    "input_to_output",
    "module_indexing",
    "naming",
    "output_to_ancestor",
    "output_to_ancestors",
    "output_to_input",
]


def output_to_input(instruction: HloInstruction, output: int = 0) -> tuple[OperandIndexingSet, ...]:
    """From an element of an output to the elements of each operand that it is computed from.

    One set an operand, as the operation defines it; `.simplify()` on a set (or a member) gives the simplified form. Maps through a fusion are
    simplified already. An operand that is not read has an empty set. What cannot be told is UNDEFINED, never something wrong.

    `output` is the leaf of the result, 0 unless that is a tuple. InvalidArgumentError for an output that is not there, InvalidModuleError for an
    instruction whose operands or attributes do not fit it, LimitExceededError or DeadlineExceededError by the budget in force.
    """
    output = checked_number(instruction, output, "output")
    with naming(instruction):
        return Analysis().output_to_input(instruction, output)


def input_to_output(instruction: HloInstruction, operand: int = 0, leaf: int = 0) -> tuple[OperandIndexingSet, ...]:
    """From an element of an operand to the elements of each output that it takes part in.

    One set for each leaf of the result. `leaf` is the leaf of the operand, where that is a tuple. Errors as for `output_to_input`.
    """
    operand = checked_number(instruction, operand, "operand")
    leaf = checked_number(instruction, leaf, "leaf")
    with naming(instruction):
        return Analysis().input_to_output(instruction, operand, leaf)


def output_to_ancestors(instruction: HloInstruction, output: int = 0) -> dict[HloInstruction, OperandIndexingSet]:
    """From an element of an output to the elements of every instruction before it in its computation, through every path; simplified.

    The members' `leaf` says which array of the ancestor is meant. The instruction itself is there with the identity.
    """
    output = checked_number(instruction, output, "output")
    with naming(instruction):
        reached = Analysis().to_ancestors(instruction, output, None)
    return {
        one: OperandIndexingSet(member for leaf in leaves.values() for member in leaf)
        for one, leaves in reached.items()
    }


def output_to_ancestor(instruction: HloInstruction, ancestor: HloInstruction, output: int = 0) -> OperandIndexingSet:
    """From an element of an output to the elements of one instruction before it in its computation, through every path; simplified.

    Empty where no way leads there. InvalidArgumentError for instructions of different computations.
    """
    output = checked_number(instruction, output, "output")
    checked_number(ancestor, output, "output", "ancestor")
    if ancestor.computation is not instruction.computation:
        raise InvalidArgumentError(
            f"{ancestor.name} and {instruction.name} stand in different computations", field="ancestor"
        )
    among = {ancestor}
    pending = [ancestor]
    while pending:
        for user in pending.pop().users:
            if user not in among:
                among.add(user)
                pending.append(user)
    if instruction not in among:
        return OperandIndexingSet()
    with naming(instruction):
        reached = Analysis().to_ancestors(instruction, output, among)
    return OperandIndexingSet(member for leaf in reached.get(ancestor, {}).values() for member in leaf)


class InstructionIndexing(NamedTuple):
    """The maps of one output of an instruction."""

    instruction: HloInstruction
    output: int
    operands: Answer
    """One set an operand."""


def module_indexing(module: HloModule) -> Iterator[InstructionIndexing]:
    """The maps of every output of every instruction with operands, computation by computation; lazily.

    What was found out for one instruction serves the next: equal operations on equal shapes are analysed once, and so is every computation.
    """
    # The check is for callers without types.
    if not isinstance(module, HloModule):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InvalidArgumentError(f"module takes an HloModule, not {type(module).__name__}", field="module")
    analysis = Analysis()
    for computation in module.computations:
        for instruction in computation.instructions:
            if not instruction.operands:
                continue
            shape = instruction.shape
            known = OUTPUT_TO_INPUT.get(instruction.proto.opcode)
            try:
                if known is not None:
                    one = signature(instruction, known)
                    if not shape.is_tuple:  # what the constructor of a named tuple calls, in half the time
                        yield tuple.__new__(
                            InstructionIndexing, (instruction, 0, answer_from_output(instruction, 0, one))
                        )
                        continue
                    for output in range(leaf_count(shape)):
                        yield InstructionIndexing(instruction, output, answer_from_output(instruction, output, one))
                else:
                    for output in range(leaf_count(shape)):
                        yield InstructionIndexing(instruction, output, analysis.output_to_input(instruction, output))
            except (LimitExceededError, DeadlineExceededError) as error:
                raise _with_name(instruction, error) from error


def checked_number(instruction: HloInstruction, number: int, field: str, who: str = "instruction") -> int:
    """The number of a leaf or an operand, which may be NumPy's. For callers without types, the instruction too."""
    if type(instruction) is not HloInstruction:
        raise InvalidArgumentError(f"{who} takes an HloInstruction, not {type(instruction).__name__}", field=who)
    return number if type(number) is int else integer(number, field)


@contextmanager
def naming(instruction: HloInstruction) -> Generator[None, None, None]:
    """Errors about limits name the instruction."""
    try:
        yield
    except (LimitExceededError, DeadlineExceededError) as error:
        raise _with_name(instruction, error) from error


def _with_name(instruction: HloInstruction, error: LimitExceededError | DeadlineExceededError) -> XlashapeError:
    message = (
        error.message if instruction.name in error.message else f"instruction {instruction.name!r}: {error.message}"
    )
    return from_details(error.code, message, error.details())
