"""The answer of an opcode's rule for one instruction: attributes read, runtime variables bound to the instructions that produce them.

    answer_from_output(instruction, 0, OUTPUT_TO_INPUT.get(opcode))

A rule sees shapes and attributes only, so its answer is kept under them (`answer_cache`). What differs from instruction to instruction is added
here: the producers of runtime variables, and the values of those that are constants.
"""

from __future__ import annotations

from typing import Any

from xlashape.errors import InvalidArgumentError, InvalidModuleError
from xlashape.hlo import HloInstruction
from xlashape.indexing.answers.leaves import dims_of, leaf_count, leaves
from xlashape.indexing.answers.operand_indexing import OperandIndexing, ReplicaIndexing, RuntimeVariable
from xlashape.indexing.answers.operand_indexing_set import NOT_ACCESSED, Answer, OperandIndexingSet
from xlashape.indexing.ops.build import Malformed
from xlashape.indexing.ops.op import Access, Op, Row, Rows, SparseRows
from xlashape.indexing.ops.reduction import SORT_INPUT_TO_OUTPUT, SORT_OUTPUT_TO_INPUT
from xlashape.indexing.ops.registry import WITHOUT_BOUNDS, Registered
from xlashape.indexing.walk.answer_cache import BoundRow, KeptAnswer, Signature, answers, sets_of_rows
from xlashape.indexing.walk.constant_folding import fold_constants
from xlashape.indexing.walk.dependencies.leaf_dependencies import KnownContents, dependencies
from xlashape.limits import spend
from xlashape.shape import Shape
from xlashape.symbolic import IndexingMap

MAX_KEPT_LENGTH = 1 << 5
"""Sets of an answer that is kept whole. A tuple of n elements has n answers of n sets, and all but n of the n² sets are empty."""


def signature(instruction: HloInstruction, registered: Registered) -> Signature:
    """The signature that the instruction shares with all instructions that look the same to the rule."""
    key_of = registered.key
    key = (
        registered.number,
        instruction.shape,
        None if key_of is None else key_of(instruction.proto),
        *[operand.shape for operand in instruction.operands],
    )
    known = answers.signatures.get(key)
    return _new_signature(instruction, registered, key) if known is None else known


def _new_signature(instruction: HloInstruction, registered: Registered, key: tuple[Any, ...]) -> Signature:
    reader = registered.attributes
    if reader is None:
        attributes = None
    else:
        attributes = key[2] if reader is registered.key else reader(instruction.proto)
    made = Signature(registered, key[1], key[3:], attributes)
    answers.add(key, made)
    return made


def has_no_arrays(instruction: HloInstruction, output: int) -> bool:
    """Whether the result is an empty tuple, asked about at its output 0: nothing is read to compute it."""
    return output == 0 and instruction.shape.is_tuple and not leaf_count(instruction.shape)


def check_output(instruction: HloInstruction, output: int, count: int) -> None:
    """Raises InvalidArgumentError unless the instruction has the output, one of `count` leaves."""
    if not 0 <= output < count:
        raise InvalidArgumentError(f"{instruction.name} has no output {output}: it has {count}", field="output")


def check_operand(instruction: HloInstruction, operand: int, leaf: int) -> None:
    """Raises InvalidArgumentError unless the instruction has the operand, and that the leaf."""
    operands = instruction.operands
    if not 0 <= operand < len(operands):
        raise InvalidArgumentError(
            f"{instruction.name} has no operand {operand}: it has {len(operands)}", field="operand"
        )
    count = leaf_count(operands[operand].shape)
    if not 0 <= leaf < count:
        raise InvalidArgumentError(
            f"operand {operand} of {instruction.name} has no leaf {leaf}: it has {count}", field="leaf"
        )


def answer_from_output(instruction: HloInstruction, output: int, registered: Registered | None) -> Answer:
    """One set for each operand, by the opcode's rule; UNDEFINED without a rule."""
    if registered is None:
        return unknown_from_output(instruction)
    return answer_of_signature(instruction, output, signature(instruction, registered))


def answer_of_signature(instruction: HloInstruction, output: int, known: Signature) -> Answer:
    """`answer_from_output`, where the signature is known."""
    kept = known.answers.get(output)
    if kept is None:
        op = known.op
        spend(_question_steps(op))
        check_output(instruction, output, len(op.outputs))
        if known.is_unbounded and instruction.proto.opcode not in WITHOUT_BOUNDS:
            return unknown_from_output(instruction)
        try:
            rows = _rows(instruction, known.registered, op, output)
        except InvalidModuleError:
            if known.is_unbounded:  # a dimension with a bound may fit one without
                return unknown_from_output(instruction)
            raise
        kept = _kept(instruction, rows, op.operands, dims_of(op.outputs[output]))
        answers.keep(known, output, kept)
    return kept.answer or _bound(kept, instruction)


def answer_from_operand(instruction: HloInstruction, operand: int, leaf: int, registered: Registered | None) -> Answer:
    """One set for each leaf of the result, by the opcode's rule; UNDEFINED without a rule."""
    if registered is None:
        return unknown_from_operand(instruction)
    known = signature(instruction, registered)
    kept = known.answers.get((operand, leaf))
    if kept is None:
        op = known.op
        spend(_question_steps(op))
        check_operand(instruction, operand, leaf)
        if known.is_unbounded and instruction.proto.opcode not in WITHOUT_BOUNDS:
            return unknown_from_operand(instruction)
        try:
            rows = _rows(instruction, known.registered, op, operand, leaf)
        except InvalidModuleError:
            if known.is_unbounded:  # a dimension with a bound may fit one without
                return unknown_from_operand(instruction)
            raise
        targets = tuple([(shape,) for shape in op.outputs])
        kept = _kept(instruction, rows, targets, dims_of(op.operands[operand][leaf]))
        answers.keep(known, (operand, leaf), kept)
    return kept.answer or _bound(kept, instruction)


_UNKNOWN = OperandIndexing(IndexingMap.undefined())
_ROW_STEPS = 8  # of a budget: to make the set of a row takes tens of microseconds


def unknown_from_output(instruction: HloInstruction) -> Answer:
    """UNDEFINED for every leaf of every operand."""
    return tuple([_unknown_leaves(operand.shape) for operand in instruction.operands])


def unknown_from_operand(instruction: HloInstruction) -> Answer:
    """UNDEFINED for every leaf of the result."""
    return (OperandIndexingSet([_UNKNOWN]),) * leaf_count(instruction.shape)


def _unknown_leaves(shape: Shape) -> OperandIndexingSet:
    return OperandIndexingSet([_UNKNOWN.with_leaf(leaf) for leaf in range(leaf_count(shape))])


def _question_steps(op: Op) -> int:
    """Steps of a budget for a question about one array among all the leaves of an operation, which are counted."""
    return 1 + (op.starts[-1] + len(op.outputs) >> 2)


def _rows(instruction: HloInstruction, registered: Registered, op: Op, *question: int) -> Rows:
    """The answer of the rule. What a rule stumbles over in a malformed instruction becomes an InvalidModuleError that names it."""
    try:
        return registered.rule(op, *question)
    except Malformed as error:
        message = str(error)
    except InvalidArgumentError:
        raise
    except (IndexError, ValueError, ZeroDivisionError):
        message = "has operands or attributes that do not fit it"
    raise InvalidModuleError(f"instruction {instruction.name!r} ({instruction.proto.opcode}) {message}")


def _kept(
    instruction: HloInstruction, rows: Rows, targets: tuple[tuple[Shape, ...], ...], dims: tuple[int, ...]
) -> KeptAnswer:
    """What is kept of a rule's answer. Raises InvalidModuleError unless its maps have the ranks of the arrays that they lead from and to.

    `targets` are the leaves of each array that the rows lead to, `dims` the sizes of the array that they lead from.
    """
    sets: dict[int, OperandIndexingSet] = {}
    bound: list[BoundRow] = []
    if isinstance(rows, SparseRows):
        length, numbered = rows.length, rows.not_empty.items()
    else:
        length, numbered = len(rows), enumerate(rows)
    fits = length == len(targets)
    for number, row in numbered:
        spend(_ROW_STEPS)
        if not row:
            continue
        has_runtime = False
        for access in row:
            access_map = access.map
            if fits and not access_map.is_undefined:
                target = dims_of(targets[number][access.leaf])
                fits = len(access_map.dims) == len(dims) and len(access_map.results) == len(target)
            has_runtime = has_runtime or bool(access.runtime)
        if has_runtime:
            bound.append(BoundRow(number, row))
        else:
            sets[number] = _set_of_row(row)
    if not fits:
        raise InvalidModuleError(
            f"instruction {instruction.name!r} ({instruction.proto.opcode}) has operands that do not fit it"
        )
    if bound or length > MAX_KEPT_LENGTH:
        return KeptAnswer(length, sets, tuple(bound), None)
    return KeptAnswer(length, sets, (), tuple([sets.get(number, NOT_ACCESSED) for number in range(length)]))


def _set_of_row(row: Row) -> OperandIndexingSet:
    """The set of a row without runtime variables; equal rows share it."""
    known = sets_of_rows.get(row)
    if known is None:
        known = OperandIndexingSet([_without_runtime(access) for access in row])
        sets_of_rows.put(row, known)
    return known


def _replica(access: Access) -> ReplicaIndexing | None:
    return None if access.replicas is None else ReplicaIndexing(*access.replicas)


def _without_runtime(access: Access) -> OperandIndexing:
    return OperandIndexing(access.map, (), _replica(access), access.leaf, access.is_conservative)


def _bound(kept: KeptAnswer, instruction: HloInstruction) -> Answer:
    """The answer for one instruction: its runtime variables are bound to the instruction's operands."""
    answer = [NOT_ACCESSED] * kept.length
    for number, accesses in kept.sets.items():
        answer[number] = accesses
    for number, row in kept.bound:
        answer[number] = OperandIndexingSet([_bound_access(access, instruction) for access in row])
    return tuple(answer)


def _bound_access(access: Access, instruction: HloInstruction) -> OperandIndexing:
    if not access.runtime or access.map.is_known_empty:
        return _without_runtime(access)
    operands = instruction.operands
    producers = tuple(
        [
            RuntimeVariable(instruction, access.map, 0, is_position=True, bounds=var.bounds)
            if source is None
            else RuntimeVariable(operands[source.operand], source.map, 0, False, source.is_clamped, var.bounds)
            for source, var in zip(access.runtime, access.map.runtime, strict=True)
        ]
    )
    return fold_constants(OperandIndexing(access.map, producers, _replica(access), access.leaf, access.is_conservative))


def sort_from_output(instruction: HloInstruction, output: int, known: KnownContents) -> Answer:
    """The whole sorted dimension of the array itself, and of those that decide the order."""
    answer = answer_from_output(instruction, output, SORT_OUTPUT_TO_INPUT)
    deciding = _deciding(instruction, known)
    return tuple(
        [access if number == output or deciding >> number & 1 else NOT_ACCESSED for number, access in enumerate(answer)]
    )


def sort_from_operand(instruction: HloInstruction, operand: int, leaf: int, known: KnownContents) -> Answer:
    """The whole sorted dimension of the array itself; of all arrays, where this one decides the order."""
    answer = answer_from_operand(instruction, operand, leaf, SORT_INPUT_TO_OUTPUT)
    if _deciding(instruction, known) >> operand & 1:
        return answer
    return tuple([access if number == operand else NOT_ACCESSED for number, access in enumerate(answer)])


def _deciding(instruction: HloInstruction, known: KnownContents) -> int:
    """The operands that decide the order, as bits: those that the comparator reads, or all of them without a comparator.

    The comparator takes two elements of each operand, one after the other.
    """
    count, called = len(instruction.operands), instruction.called_computations
    if not called:
        return (1 << count) - 1
    comparator = called[0]
    read_by_result = dependencies(comparator, known).leaves
    elements = [leaf for parameter in comparator.parameters for leaf in leaves(parameter.shape)]
    fits = len(called) == 1 and len(comparator.parameters) == len(elements) == 2 * count and len(read_by_result) == 1
    if not fits:
        raise InvalidModuleError(f"instruction {instruction.name!r} (sort) calls a comparator that does not fit it")
    return sum(1 << number for number in range(count) if read_by_result[0] >> 2 * number & 3)
