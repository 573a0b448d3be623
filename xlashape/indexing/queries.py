"""Questions about the maps of an instruction, of all instructions that it depends on, and of a whole module.

    maps = output_to_input(root)                     # one OperandIndexingSet for each operand
    print(maps[0].map)                               # the operand's map, or all of its maps
    [access.map for access in maps[0]]               # its maps as a list

Arrays inside a tuple are counted depth first: output 1 of an instruction that returns `(f32[2], (s32[], pred[3]))` is
the s32[]. A budget in force (`xlashape.limits.budget`) bounds every analysis; its error names the instruction.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from xlashape.base.frozen import Frozen, set_field
from xlashape.errors import (
    DeadlineExceededError,
    InvalidArgumentError,
    LimitExceededError,
    XlashapeError,
    from_details,
    is_a,
)
from xlashape.hlo import HloInstruction, HloModule
from xlashape.indexing.answers.leaves import leaf_count
from xlashape.indexing.answers.operand_indexing import NOT_ACCESSED, Answer, OperandIndexingSet
from xlashape.indexing.ops import OUTPUT_TO_INPUT
from xlashape.indexing.walk.analysis import Analysis
from xlashape.indexing.walk.instruction_answers import (
    answer_of_signature,
    calls_computation,
    has_no_arrays,
    signature,
    unknown_from_output,
)
from xlashape.shape.parts.checks import integer


def output_to_input(instruction: HloInstruction, output: int = 0) -> tuple[OperandIndexingSet, ...]:
    """From an element of an output to the elements of each operand that it is computed from.

    The answer has one set for each operand. Its maps are as the operation's definition gives them; `.simplify()` on a
    set, or on one access of it, gives the simplified form. Maps through a fusion are simplified already. An operand
    that is not read has an empty set. Where nothing is known the map is UNDEFINED; a map is never wrong.

    `output` is the number of an array within the result, 0 unless the result is a tuple; output 0 of an empty tuple
    reads nothing.
    InvalidArgumentError for an output that does not exist, InvalidModuleError for an instruction whose operands or
    attributes do not fit it, LimitExceededError or DeadlineExceededError by the budget in force.

    >>> text = "HloModule m ENTRY e { p = f32[20] parameter(0) ROOT b = f32[10,20] broadcast(p), dimensions={1} }"
    >>> (reads,) = output_to_input(HloModule.parse(text).entry.root)
    >>> reads.map
    (d0, d1) -> (d1), domain: d0 in [0, 9], d1 in [0, 19]
    """
    output = checked_number(instruction, output, "output")
    try:  # not errors_name_instruction: entering a context takes a tenth of the time of an answer that is known already
        return Analysis().output_to_input(instruction, output)
    except (LimitExceededError, DeadlineExceededError) as error:
        raise _with_name(instruction, error) from error


def input_to_output(instruction: HloInstruction, operand: int = 0, leaf: int = 0) -> tuple[OperandIndexingSet, ...]:
    """From an element of an operand to the elements of each output that it takes part in.

    The answer has one set for each array within the result. `leaf` is the number of an array within the operand, 0
    unless the operand is a tuple. Errors as for `output_to_input`.

    >>> text = "HloModule m ENTRY e { p = f32[20] parameter(0) ROOT b = f32[10,20] broadcast(p), dimensions={1} }"
    >>> (writes,) = input_to_output(HloModule.parse(text).entry.root, operand=0)
    >>> writes.map
    (d0)[s0] -> (s0, d0), domain: d0 in [0, 19], s0 in [0, 9]
    """
    operand = checked_number(instruction, operand, "operand")
    leaf = checked_number(instruction, leaf, "leaf")
    try:
        return Analysis().input_to_output(instruction, operand, leaf)
    except (LimitExceededError, DeadlineExceededError) as error:
        raise _with_name(instruction, error) from error


def output_to_ancestors(instruction: HloInstruction, output: int = 0) -> dict[HloInstruction, OperandIndexingSet]:
    """From an element of an output to the elements of every ancestor: each instruction of the same computation that the
    output depends on, through every path; simplified.

    Where an ancestor's result is a tuple, `leaf` of each access says which of its arrays is meant. The instruction
    itself is included, with the identity. Errors as for `output_to_input`.

    >>> text = '''HloModule m ENTRY e { p = f32[4] parameter(0) n = f32[4] negate(p)
    ... ROOT r = f32[4] reverse(n), dimensions={0} }'''
    >>> ancestors = output_to_ancestors(HloModule.parse(text).entry.root)
    >>> {ancestor.name: str(reads.map) for ancestor, reads in ancestors.items() if ancestor.name == "p"}
    {'p': '(d0) -> (-d0 + 3), domain: d0 in [0, 3]'}
    """
    output = checked_number(instruction, output, "output")
    if has_no_arrays(instruction, output):
        return {instruction: NOT_ACCESSED}
    with errors_name_instruction(instruction):
        reached = Analysis().to_ancestors(instruction, output, None)
    return {
        ancestor: OperandIndexingSet(access for accesses in by_leaf.values() for access in accesses)
        for ancestor, by_leaf in reached.items()
    }


def output_to_ancestor(instruction: HloInstruction, ancestor: HloInstruction, output: int = 0) -> OperandIndexingSet:
    """From an element of an output to the elements of one other instruction of the same computation, through every
    path; simplified.

    The set is empty where no path leads from the output to `ancestor`. InvalidArgumentError for instructions of
    different computations, else errors as for `output_to_input`.

    >>> text = '''HloModule m ENTRY e { p = f32[4] parameter(0) n = f32[4] negate(p)
    ... ROOT r = f32[4] reverse(n), dimensions={0} }'''
    >>> module = HloModule.parse(text)
    >>> output_to_ancestor(module.entry.root, module.instruction("p")).map
    (d0) -> (-d0 + 3), domain: d0 in [0, 3]
    """
    output = checked_number(instruction, output, "output")
    checked_number(ancestor, output, "output", "ancestor")
    if ancestor.computation is not instruction.computation:
        raise InvalidArgumentError(
            f"{ancestor.name} and {instruction.name} are in different computations", field="ancestor"
        )
    on_a_path = {ancestor}
    pending = [ancestor]
    while pending:
        for user in pending.pop().users:
            if user not in on_a_path:
                on_a_path.add(user)
                pending.append(user)
    if instruction not in on_a_path or has_no_arrays(instruction, output):
        return OperandIndexingSet()
    with errors_name_instruction(instruction):
        reached = Analysis().to_ancestors(instruction, output, on_a_path)
    return OperandIndexingSet(access for accesses in reached.get(ancestor, {}).values() for access in accesses)


class _Indexing(NamedTuple):
    instruction: HloInstruction
    output: int
    operands: Answer


class InstructionIndexing(Frozen, _Indexing):
    """The maps of one output of an instruction: a tuple of `instruction`, the number of the `output`, and `operands`,
    one set for each operand. Where there is an `error`, the maps of the sets are UNDEFINED, or `operands` is empty
    (an instruction whose shape is not well-formed).
    """

    error: XlashapeError | None = None
    """The error that `output_to_input` raises for this output; None where the maps are known. It is no part of the
    tuple.
    """


def is_of_budget(error: XlashapeError) -> bool:
    """Whether an error comes from the budget in force, so that every further instruction would raise it too."""
    return isinstance(error, DeadlineExceededError) or (
        isinstance(error, LimitExceededError) and error.limit == "analysis_steps"
    )


def module_indexing(module: HloModule) -> Iterator[InstructionIndexing]:
    """The maps of every output of every instruction with operands, computation by computation; lazily.

    Equal operations on equal shapes are analysed once, and so is every computation. The answers of an instruction that
    `output_to_input` refuses, or that exceeds a limit, have an `error`; the instructions after it are answered. Errors
    of the budget in force are raised.

    >>> text = '''HloModule m ENTRY e { p = f32[4] parameter(0) n = f32[4] negate(p)
    ... ROOT r = f32[4] reverse(n), dimensions={0} }'''
    >>> for indexing in module_indexing(HloModule.parse(text)):
    ...     print(indexing.instruction.name, indexing.operands[0].map)
    n (d0) -> (d0), domain: d0 in [0, 3]
    r (d0) -> (-d0 + 3), domain: d0 in [0, 3]
    """
    check_module(module)
    analysis = Analysis()
    for computation in module.computations:
        for instruction in computation.instructions:
            if not instruction.operands:
                continue
            output = 0
            try:
                registered = OUTPUT_TO_INPUT.get(instruction.kind.opcode)
                if registered is None or calls_computation(instruction):
                    for output in range(leaf_count(instruction.shape)):
                        yield InstructionIndexing(instruction, output, analysis.output_to_input(instruction, output))
                    continue
                # The signature has the number of outputs. Looking it up once, and not for each output, saves a tenth of
                # the time of a warm analysis.
                known = signature(instruction, registered)
                if len(known.op.outputs) == 1:
                    yield InstructionIndexing(instruction, 0, answer_of_signature(instruction, 0, known))
                    continue
                for output in range(len(known.op.outputs)):
                    yield InstructionIndexing(instruction, output, answer_of_signature(instruction, output, known))
            except XlashapeError as error:
                if is_of_budget(error):
                    raise _with_name(instruction, error) from error
                yield from _failures(instruction, output, error)


def _failures(instruction: HloInstruction, first: int, error: XlashapeError) -> Iterator[InstructionIndexing]:
    """The answers for the outputs from `first` on, whose maps are not known because of the error."""
    error = _with_name(instruction, error)
    try:
        count, operands = leaf_count(instruction.shape), unknown_from_output(instruction)
    except XlashapeError:  # the shape is not well-formed
        count, operands = 1, ()
    for output in range(first, max(count, first + 1)):
        failed = InstructionIndexing(instruction, output, operands)
        set_field(failed, "error", error)
        yield failed


def check_module(module: HloModule) -> None:
    """Raises InvalidArgumentError unless `module` is an HloModule."""
    if not is_a(module, HloModule):
        raise InvalidArgumentError(f"module takes an HloModule, not {type(module).__name__}", field="module")


def checked_number(instruction: HloInstruction, number: int, field: str, instruction_field: str = "instruction") -> int:
    """The number of a leaf or an operand as an int; `number` may be an integer of NumPy. InvalidArgumentError unless it
    is an integer and `instruction` an HloInstruction.
    """
    if type(instruction) is not HloInstruction:
        raise InvalidArgumentError(
            f"{instruction_field} takes an HloInstruction, not {type(instruction).__name__}", field=instruction_field
        )
    return number if type(number) is int else integer(number, field)


@contextmanager
def errors_name_instruction(instruction: HloInstruction) -> Generator[None, None, None]:
    """Errors about limits within the block name the instruction."""
    try:
        yield
    except (LimitExceededError, DeadlineExceededError) as error:
        raise _with_name(instruction, error) from error


def _with_name(instruction: HloInstruction, error: XlashapeError) -> XlashapeError:
    is_named = instruction.name in error.message
    message = error.message if is_named else f"instruction {instruction.name!r}: {error.message}"
    return from_details(error.code, message, error.details())
