"""The answers of the rule of an instruction's opcode, and where they are kept.

    answer_from_output(instruction, 0, OUTPUT_TO_INPUT.get(opcode))

A rule sees shapes and attributes only, so its answer is kept under them (`signatures`): equal operations on equal
shapes are analysed once, in whichever module. Within a module, the signature is a fact of the instruction's kind and
the kinds of its operands. What differs from instruction to instruction is added here: the producers of runtime
variables (the instructions that compute their values), and the values of producers that are constants.

An `OperationSignature` stands for all instructions with the same operation, shapes and attributes. The answers to the
questions about it (which output, which operand) are added when they are first asked.

The value of a runtime variable is known where its producer is a constant or an iota: it is a number or an expression.
Matches what XLA folds (scalar constants and iota). Constant arrays are folded too where their values are an affine
function of the index: all equal, or equally spaced. A value that the operation would clamp is clamped here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from xlashape.base.caches import BoundedCache
from xlashape.errors import InvalidArgumentError, InvalidModuleError
from xlashape.hlo import HloInstruction, Opcode
from xlashape.indexing.answers.leaves import dims_of, integers, is_unbounded, leaf_count, leaves
from xlashape.indexing.answers.operand_indexing import (
    NOT_ACCESSED,
    Answer,
    OperandIndexing,
    OperandIndexingSet,
    ReplicaIndexing,
    RuntimeVariable,
)
from xlashape.indexing.ops.op import Access, Malformed, Op, Row, Rows, SparseRows
from xlashape.indexing.ops.reduction import SORT_INPUT_TO_OUTPUT, SORT_OUTPUT_TO_INPUT
from xlashape.indexing.ops.register import CALLS, WITHOUT_BOUNDS, Registered
from xlashape.indexing.walk.dependencies import KnownContents, dependencies
from xlashape.limits import spend
from xlashape.shape import Shape
from xlashape.symbolic import Expr, IndexingMap, Interval, Variable, VariableKind, const, maximum, minimum, rt
from xlashape.symbolic.expr.expression import substitute_in_map

# Estimates. The bytes that tracemalloc measures for large models are from a third of these estimates up to all of them.
SET_BYTES = 1600
"""The bytes of a set with one access, its map included."""
SHARED_SET_BYTES = 150
"""The bytes that are counted for a set in an answer: few, since most sets are shared by many answers."""
MAX_SETS = 1 << 13
"""The most sets in the answers that are kept of a signature."""
LEAF_BYTES = 20
"""The bytes that are counted for a leaf of a signature's shapes: few, since most shapes are shared by many signatures.
"""


class BoundRow(NamedTuple):
    """A row whose set has to be made for each instruction, because some of its accesses have runtime variables."""

    number: int
    """The number of the set in the answer."""
    row: Row


class KeptAnswer(NamedTuple):
    """The part of an answer that the cache keeps."""

    length: int
    """How many sets the answer has."""
    sets: dict[int, OperandIndexingSet]
    """The sets that hold for every instruction and are not empty, by number."""
    bound: tuple[BoundRow, ...]
    answer: Answer | None
    """The whole answer, where it holds for every instruction and is not too long to be kept."""


class OperationSignature:
    """An operation and a direction, with everything that its rule can see, and the answers so far by question: the
    number of an output, or the numbers of an operand and its leaf.
    """

    __slots__ = ("answers", "is_unbounded", "op", "registered", "room")

    answers: dict[Any, KeptAnswer]
    is_unbounded: bool
    """Whether any array has a dimension without a bound."""
    op: Op
    """The arguments of the rule."""
    registered: Registered
    """The rule."""
    room: int
    """How many sets further answers may have that are kept: n results of n operands may have n² of them."""

    def __init__(self, registered: Registered, shape: Shape, shapes: tuple[Shape, ...], attributes: Any) -> None:
        self.registered = registered
        self.op = Op.of(shape, shapes, attributes)
        self.is_unbounded = is_unbounded(shape) or any(map(is_unbounded, shapes))
        self.answers = {}
        self.room = MAX_SETS

    def keep(self, question: Any, kept: KeptAnswer) -> None:
        """Keeps an answer while there is room. Spends steps of the budget in force, by the number of sets."""
        count = len(kept.sets) + len(kept.bound)
        spend(1 + count)
        if count <= self.room:
            self.room -= count
            self.answers[question] = kept

    def most_bytes(self) -> int:
        """About the bytes that the signature has with all its answers, if most of their sets are shared."""
        op = self.op
        sets = min(MAX_SETS, 2 * len(op.outputs) * len(op.operands))
        return 600 + LEAF_BYTES * (len(op.outputs) + op.starts[-1]) + (300 + SHARED_SET_BYTES) * sets


signatures: BoundedCache[tuple[Any, ...], OperationSignature] = BoundedCache(
    "xlashape.indexing: answers of rules", 32 << 20, lambda key, signature: signature.most_bytes()
)
"""The signatures of all modules by what their rules see."""

sets_of_rows: BoundedCache[Row, OperandIndexingSet] = BoundedCache(
    "xlashape.indexing: sets of rows", 16 << 20, lambda row, made: SET_BYTES * len(row)
)
"""Rules share rows (all elementwise operations of one size have the same), so answers share their sets."""


# -- constants ---------------------------------------------------------------------------------


def _affine(values: Sequence[int], dims: Sequence[int], index: Sequence[Expr]) -> Expr | None:
    """The expression base + Σ step · index that gives all the values in row-major order; None where there is none.

    >>> from xlashape.symbolic import dim
    >>> _affine([5, 7, 9], [3], [dim(0)]), _affine([5, 7, 8], [3], [dim(0)])
    (d0 * 2 + 5, None)
    """
    steps: list[int] = []
    stride = len(values)
    for size in dims:
        stride //= size
        steps.append(values[stride] - values[0] if size > 1 else 0)
    expected = [values[0]]
    for size, step in zip(dims, steps, strict=True):
        expected = [value + i * step for value in expected for i in range(size)]
    if list(values) != expected:
        return None
    result: Expr = const(values[0])
    for step, position in zip(steps, index, strict=True):
        result = result + position * step
    return result


class _Value(NamedTuple):
    """A known value."""

    expr: Expr
    """The value, in the variables of the access."""
    bounds: Interval
    """Bounds of all values of the expression."""


def _known_value(producer: RuntimeVariable) -> _Value | None:
    instruction, index = producer.instruction, producer.map.results
    shape = instruction.shape
    if producer.is_position or not shape.is_array or len(index) != shape.rank or producer.map.is_known_empty:
        return None
    opcode = instruction.opcode
    if opcode == Opcode.IOTA:
        axis = instruction.kind.dimensions[0] if instruction.kind.dimensions else 0
        if not 0 <= axis < shape.rank or not shape.element_type.is_integral:
            return None
        size = shape.dimensions[axis]
        width = shape.element_type.bit_width - shape.element_type.is_signed
        return _Value(index[axis], Interval(0, size - 1)) if size - 1 < 1 << width else None
    if opcode != Opcode.CONSTANT:
        return None
    values = integers(instruction)
    if values is None:
        return None
    expr = _affine(values, shape.dimensions, index)
    return None if expr is None else _Value(expr, Interval(min(values), max(values)))


def fold_constants(indexing: OperandIndexing) -> OperandIndexing:
    """The same access, with each runtime variable whose value is known replaced by that value."""
    known = tuple([_known_value(producer) for producer in indexing.runtime])
    if known.count(None) == len(known):
        return indexing
    folded = _folded(indexing.map, known, tuple([producer.is_clamped for producer in indexing.runtime]))
    producers = tuple([producer for producer, value in zip(indexing.runtime, known, strict=True) if value is None])
    # The maps of these producers use no runtime variables, so no variable in them needs a new number.
    assert not any(variable.kind is VariableKind.RUNTIME for p in producers for variable in p.map.used_variables())
    return indexing.with_map(folded, producers)


def _folded(old: IndexingMap, values: tuple[_Value | None, ...], clamped: tuple[bool, ...]) -> IndexingMap:
    """The map with the runtime variables of known value replaced, and the others renumbered. `values` has None for a
    value that is not known."""
    replaced: dict[Variable, Expr] = {}
    constraints_on_values: list[tuple[Expr, Interval]] = []
    kept: list[int] = []
    for k, (known, is_clamped, var) in enumerate(zip(values, clamped, old.runtime, strict=True)):
        if known is None:
            if len(kept) != k:
                replaced[rt(k)] = rt(len(kept))
            kept.append(k)
            continue
        value, bounds = known
        if not var.bounds.contains(bounds):
            if not is_clamped:
                # The operation accesses nothing where the value lies beyond the bounds.
                constraints_on_values.append((value, var.bounds))
            else:
                if bounds.upper > var.bounds.upper:
                    value = minimum(value, var.bounds.upper)
                if bounds.lower < var.bounds.lower:
                    value = maximum(value, var.bounds.lower)
        replaced[rt(k)] = value
    results, constraints = substitute_in_map(old.results, old.constraints, replaced)
    constraints = [*constraints, *constraints_on_values]
    return IndexingMap(old.dims, old.ranges, [old.runtime[k] for k in kept], results, constraints)


# -- answers -----------------------------------------------------------------------------------


MAX_KEPT_LENGTH = 1 << 5
"""The most sets of an answer that is kept whole. A tuple of n elements has n answers of n sets, and all but n of the n²
sets are empty.
"""


def signature(instruction: HloInstruction, registered: Registered) -> OperationSignature:
    """The signature that the instruction shares with all instructions that look the same to the rule."""
    key = (registered.number, *[operand.kind for operand in instruction.operands])
    facts = instruction.kind.facts
    return facts.get(key) or facts.setdefault(key, _signature(instruction, registered))


def _signature(instruction: HloInstruction, registered: Registered) -> OperationSignature:
    key_of, reader, details = registered.key, registered.attributes, instruction.details
    of_attributes = None if key_of is None else key_of(details)
    shape, shapes = instruction.shape, tuple([operand.shape for operand in instruction.operands])
    key = (registered.number, of_attributes, shape, *shapes)
    known = signatures.get(key)
    if known is None:
        attributes = of_attributes if reader is None or reader is key_of else reader(details)
        known = OperationSignature(registered, shape, shapes, attributes)
        signatures.put(key, known)
    return known


_ADD_TO_STATE = frozenset({Opcode.ASYNC_UPDATE, Opcode.ASYNC_DONE})


def calls_computation(instruction: HloInstruction) -> bool:
    """Whether the maps of an instruction come from a computation. For an async-update or async-done, they do if it adds
    to the state.
    """
    opcode = instruction.kind.opcode
    if opcode not in _ADD_TO_STATE:
        return opcode in CALLS
    operands = instruction.operands
    if not operands or len(operands[0].shape.tuple_shapes) < 2:
        return False
    state = operands[0].shape
    if opcode == Opcode.ASYNC_DONE:
        return leaf_count(state.tuple_shapes[1]) != leaf_count(instruction.shape)
    return len(operands) > 1 or leaf_count(state) != leaf_count(instruction.shape)


def has_no_arrays(instruction: HloInstruction, output: int) -> bool:
    """Whether the result is an empty tuple, asked about at its output 0: nothing is read to compute it."""
    return output == 0 and instruction.shape.is_tuple and not leaf_count(instruction.shape)


def check_output(instruction: HloInstruction, output: int, count: int) -> None:
    """Raises InvalidArgumentError unless the instruction has the output, one of `count` leaves."""
    if not 0 <= output < count:
        raise InvalidArgumentError(f"{instruction.name} has no output {output}: it has {count}", field="output")


def check_operand(instruction: HloInstruction, operand: int, leaf: int) -> None:
    """Raises InvalidArgumentError unless the instruction has the operand, and the operand has the leaf."""
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


def answer_from_operand(instruction: HloInstruction, operand: int, leaf: int, registered: Registered | None) -> Answer:
    """One set for each leaf of the result, by the opcode's rule; UNDEFINED without a rule."""
    if registered is None:
        return unknown_from_operand(instruction)
    return answer_of_signature(instruction, (operand, leaf), signature(instruction, registered))


def answer_of_signature(
    instruction: HloInstruction, question: int | tuple[int, int], known: OperationSignature
) -> Answer:
    """The answer where the signature is known. `question` is the number of an output, or the numbers of an operand and
    its leaf."""
    kept = known.answers.get(question)
    if kept is None:
        op = known.op
        spend(_question_steps(op))
        if isinstance(question, int):
            check_output(instruction, question, len(op.outputs))
            unknown, numbers, source, targets = unknown_from_output, (question,), op.outputs[question], op.operands
        else:
            check_operand(instruction, *question)
            unknown, numbers, source = unknown_from_operand, question, op.operands[question[0]][question[1]]
            targets = tuple([(shape,) for shape in op.outputs])
        if known.is_unbounded and instruction.opcode not in WITHOUT_BOUNDS:
            return unknown(instruction)
        try:
            rows = _rows(instruction, known.registered, op, *numbers)
        except InvalidModuleError:
            if known.is_unbounded:  # the sizes may fit at run time
                return unknown(instruction)
            raise
        kept = _kept(instruction, rows, targets, dims_of(source))
        known.keep(question, kept)
    return kept.answer or _bound(kept, instruction)


_UNKNOWN = OperandIndexing(IndexingMap.undefined())
# The steps of a budget that making the set of one row takes: tens of microseconds.
_ROW_STEPS = 8


def unknown_from_output(instruction: HloInstruction) -> Answer:
    """UNDEFINED for every leaf of every operand."""
    return tuple([_unknown_leaves(operand.shape) for operand in instruction.operands])


def unknown_from_operand(instruction: HloInstruction) -> Answer:
    """UNDEFINED for every leaf of the result."""
    return (OperandIndexingSet([_UNKNOWN]),) * leaf_count(instruction.shape)


def _unknown_leaves(shape: Shape) -> OperandIndexingSet:
    return OperandIndexingSet([_UNKNOWN.with_leaf(leaf) for leaf in range(leaf_count(shape))])


def _question_steps(op: Op) -> int:
    """The steps of a budget that a question takes: they grow with the number of the operation's leaves."""
    return 1 + (op.starts[-1] + len(op.outputs) >> 2)


def _rows(instruction: HloInstruction, registered: Registered, op: Op, *question: int) -> Rows:
    """The answer of the rule. Any exception that a malformed instruction causes in the rule becomes an
    InvalidModuleError that names the instruction.
    """
    try:
        return registered.rule(op, *question)
    except Malformed as error:
        message = str(error)
    except InvalidArgumentError:
        raise
    except (IndexError, ValueError, ZeroDivisionError):
        message = "has operands or attributes that do not fit it"
    raise InvalidModuleError(f"instruction {instruction.name!r} ({instruction.opcode}) {message}")


def _kept(
    instruction: HloInstruction, rows: Rows, targets: tuple[tuple[Shape, ...], ...], dims: tuple[int, ...]
) -> KeptAnswer:
    """The part of a rule's answer that the cache keeps. Raises InvalidModuleError unless the maps have the ranks of the
    arrays that they lead from and to.

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
                shapes = targets[number]
                fits = access.leaf < len(shapes) and len(access_map.dims) == len(dims)
                fits = fits and len(access_map.results) == len(dims_of(shapes[access.leaf]))
            has_runtime = has_runtime or bool(access.runtime)
        if has_runtime:
            bound.append(BoundRow(number, row))
        else:
            sets[number] = _set_of_row(row)
    if not fits:
        raise InvalidModuleError(
            f"instruction {instruction.name!r} ({instruction.opcode}) has operands that do not fit it"
        )
    if bound or length > MAX_KEPT_LENGTH:
        return KeptAnswer(length, sets, tuple(bound), None)
    return KeptAnswer(length, sets, (), tuple([sets.get(number, NOT_ACCESSED) for number in range(length)]))


@sets_of_rows.results_by_argument
def _set_of_row(row: Row) -> OperandIndexingSet:
    """The set of a row without runtime variables; equal rows share it."""
    return OperandIndexingSet([_without_runtime(access) for access in row])


def _without_runtime(access: Access) -> OperandIndexing:
    return _accessed(access, ())


def _accessed(access: Access, producers: tuple[RuntimeVariable, ...]) -> OperandIndexing:
    replica = None if access.replicas is None else ReplicaIndexing(*access.replicas)
    return OperandIndexing(
        access.map, producers, replica, access.leaf, access.is_conservative, stays_inside=access.stays_inside
    )


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
    return fold_constants(_accessed(access, producers))


def sort_from_output(instruction: HloInstruction, output: int, known: KnownContents) -> Answer:
    """The whole sorted dimension of the operand that the output orders, and of the operands that decide the order."""
    answer = answer_from_output(instruction, output, SORT_OUTPUT_TO_INPUT)
    deciding = _deciding(instruction, known)
    return tuple(
        [access if number == output or deciding >> number & 1 else NOT_ACCESSED for number, access in enumerate(answer)]
    )


def sort_from_operand(instruction: HloInstruction, operand: int, leaf: int, known: KnownContents) -> Answer:
    """The whole sorted dimension of the operand's own output; of all outputs, where the operand decides the order."""
    answer = answer_from_operand(instruction, operand, leaf, SORT_INPUT_TO_OUTPUT)
    if _deciding(instruction, known) >> operand & 1:
        return answer
    return tuple([access if number == operand else NOT_ACCESSED for number, access in enumerate(answer)])


def _deciding(instruction: HloInstruction, known: KnownContents) -> int:
    """The operands that decide the order, as bits: those that the comparator reads, or all of them without a
    comparator.

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
