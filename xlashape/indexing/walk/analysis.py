"""`Analysis`: answers questions about instructions, walking through the computations that they call. Hard code: read
`coroutines` first.

The walk through one computation (`_walk_back`, `_walk_forward`), in plain words:

- *State*: for each instruction seen so far, and each leaf of it (array within its result), the set of maps that lead
  there from the array at which the walk began.
- *Start*: the result (a parameter) of the computation, with the identity.
- *Step*: take the next instruction, users before their operands (forward: operands before their users), and compose
  every map that leads to it with every map from it to its operands (forward: from its operands to it). Equal maps are
  one member of a set.
- *End*: every instruction has been visited once. The sets at the parameters (forward: at the result) are the answer.

    f { p0 = f32[8,8]  t = f32[8,8] transpose(p0)  ROOT r = f32[8,8] add(p0, t) }

From the result of f: at r the identity; at p0 the identity and, through t, (d0, d1) -> (d1, d0); so p0 has a set of two
maps.

Because equal maps are one, n places where two paths part and join again cost n steps, though 2ⁿ paths lead through
them. A walk through a fusion keeps up to `MAX_ACCESSES` different maps to one leaf. Beyond, it ends with a
LimitExceededError, and a loop or scan that waits for it gives a coarser answer. A branch of a conditional, or a called
computation, may be a whole model with hundreds of results, each of which reads hundreds of arrays along many paths. A
walk through it gives up exactness instead, one leaf at a time:

- a leaf that more than `MAX_WAYS` different maps lead to is reached in every element, as in loops
  (`repeated.iterations`);
- a fusion within it whose walk ends with that error is walked through once more, giving up exactness too;
- after its share of `MAX_COMPOSITIONS` compositions of maps, any leaf that two different maps lead to is reached in
  every element. All walks that may be made through the computation, one from each leaf of its result and of its
  parameters, have equal shares.

A call within a computation is answered by a walk through the called computation, whose maps are kept for the next call
of the same computation. Matches XLA's ComputeGroupedOutputToInputIndexing and its maps of fusions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from xlashape.errors import InvalidModuleError, LimitExceededError
from xlashape.hlo import HloComputation, HloInstruction, Opcode
from xlashape.hlo.ops.calls import Arguments
from xlashape.hlo.ops.registry import operation_of
from xlashape.indexing.answers.leaves import dims_of, is_unbounded, leaf_count, leaf_sizes, leaves
from xlashape.indexing.answers.operand_indexing import NOT_ACCESSED, Answer, OperandIndexing, OperandIndexingSet, set_of
from xlashape.indexing.ops import INPUT_TO_OUTPUT, OUTPUT_TO_INPUT
from xlashape.indexing.ops.rows import everything, identity, to_scalar
from xlashape.indexing.walk import coroutines
from xlashape.indexing.walk import instruction_answers as answers
from xlashape.indexing.walk.asynchronous import async_from_operand, async_from_output
from xlashape.indexing.walk.coroutines import ComputationMaps, ComputationRequest, MapsCoroutine
from xlashape.indexing.walk.dependencies import KnownContents, dependencies, operands_first
from xlashape.indexing.walk.instruction_answers import OperationSignature
from xlashape.indexing.walk.repeated.iterations import every_element
from xlashape.indexing.walk.repeated.scan import Scan
from xlashape.indexing.walk.repeated.while_loop import WhileLoop
from xlashape.limits import spend
from xlashape.shape import Shape

_KEPT_COMPOSITIONS = 1 << 16
"""The most compositions that one analysis keeps. When there are more, all are dropped."""

Accesses: TypeAlias = dict[OperandIndexing, None]
"""A set that keeps its order."""
Reached: TypeAlias = dict[HloInstruction, dict[int, Accesses]]
"""The maps that lead to each leaf of each instruction."""


# -- limits ------------------------------------------------------------------------------------


MAX_ACCESSES = 1 << 10
"""Different maps to one leaf of an instruction in a walk that does not give up exactness."""

MAX_WAYS = 32
"""Different maps to one leaf of an instruction in a walk that gives up exactness, before they become "every element".
"""

MAX_COMPOSITIONS = 1 << 14
"""Compositions of maps in all walks through one computation, from its results and from its parameters, before they keep
only one map to each leaf.
"""

MIN_COMPOSITIONS = 1 << 6
"""Compositions that each of these walks may make, however many walks there are."""


class PathLimits:
    """The limits of one walk, and what it has used of them."""

    def __init__(self, compositions: int | None, repetition: coroutines.Repetition | None = None) -> None:
        self._left = compositions
        self.repetition = repetition
        self.given_up: set[tuple[HloInstruction, int]] = set()
        """The leaves that have become "every element"."""

    @classmethod
    def of(cls, request: ComputationRequest) -> PathLimits:
        """The limits of the walk that answers a request: one that names every element of a leaf that has too many maps,
        or one that raises a LimitExceededError there.

        Each walk has its share of the compositions, so that an answer does not depend on the questions before it.
        """
        if not request.gives_up:
            return cls(None, request.repetition)
        root, parameters = request.computation.root, request.computation.parameters
        walks = leaf_count(root.shape) + sum([leaf_count(parameter.shape) for parameter in parameters])
        return cls(max(MIN_COMPOSITIONS, MAX_COMPOSITIONS // max(1, walks)), request.repetition)

    @property
    def are_exact(self) -> bool:
        """Whether the walk keeps every map, and ends with an error where there are too many."""
        return self._left is None

    def spend(self, compositions: int) -> None:
        """Counts compositions of maps."""
        if self._left is not None:
            self._left -= compositions

    def gives_up(self, instruction: HloInstruction, leaf: int, ways: int) -> bool:
        """Whether the maps to a leaf, `ways` of them, become "every element" from now on. LimitExceededError for too
        many in an exact walk.
        """
        if self._left is not None:
            if ways <= (MAX_WAYS if self._left >= 0 else 1):
                return False
            self.given_up.add((instruction, leaf))
            return True
        if ways > MAX_ACCESSES:
            raise LimitExceededError(
                f"instruction {instruction.name!r} is accessed in more than {MAX_ACCESSES} different ways",
                limit=coroutines.ACCESSES,
                maximum=MAX_ACCESSES,
                value=ways,
            )
        return False


# -- the analysis ------------------------------------------------------------------------------


class Analysis:
    """Answers questions about many instructions, and keeps what it finds out about computations and compositions for
    the next question.

    Ask about instructions of one module, from one thread. The functions of `xlashape.indexing` make an analysis for
    each call; an analysis raises the same errors.

    >>> from xlashape.hlo import HloModule
    >>> text = "HloModule m ENTRY e { p = f32[4,8] parameter(0) ROOT r = f32[32] reshape(p) }"
    >>> analysis = Analysis()
    >>> analysis.output_to_input(HloModule.parse(text).entry.root, 0)
    ({(d0) -> (d0 / 8, d0 mod 8), domain: d0 in [0, 31]},)
    """

    def __init__(self) -> None:
        # Caches of one module's computations and instructions; they live as long as the analysis.
        self._computations: dict[ComputationRequest, ComputationMaps] = {}
        self._orders: dict[HloComputation, list[HloInstruction]] = {}
        self._compositions: dict[tuple[OperandIndexing, OperandIndexing], OperandIndexing] = {}
        self._repeated: dict[HloInstruction, WhileLoop | Scan] = {}
        self._contents: KnownContents = {}
        self._checked_calls: set[tuple[HloInstruction, HloComputation]] = set()
        # The instruction with a tuple result that was asked about last. Its other outputs are usually asked for next,
        # and finding the signature of a tuple of n operands takes n steps for each of them.
        self._last: tuple[HloInstruction | None, OperationSignature | None] = (None, None)

    # -- questions ------------------------------------------------------------------------------

    def output_to_input(self, instruction: HloInstruction, output: int) -> Answer:
        """The accesses of an output to each operand: one set for each operand."""
        last, known = self._last
        if last is not instruction:
            opcode = instruction.opcode
            registered = OUTPUT_TO_INPUT.get(opcode)
            known = None if registered is None else answers.signature(instruction, registered)
            if known is None or instruction.shape.is_tuple or opcode == Opcode.ASYNC_DONE:
                if answers.has_no_arrays(instruction, output):
                    return (NOT_ACCESSED,) * len(instruction.operands)
                if answers.calls_computation(instruction):
                    return self._run(self._call_from_output(instruction, output))
                if known is None:
                    return answers.unknown_from_output(instruction)
                self._last = (instruction, known)
        assert known is not None
        return answers.answer_of_signature(instruction, output, known)

    def input_to_output(self, instruction: HloInstruction, operand: int, leaf: int) -> Answer:
        """The accesses of each leaf of the result to a leaf of an operand: one set for each leaf of the result. An
        operand without arrays, `()`, has an answer for leaf 0: no element of it is read.
        """
        operands = instruction.operands
        if leaf == 0 and 0 <= operand < len(operands) and answers.has_no_arrays(operands[operand], 0):
            return (NOT_ACCESSED,) * leaf_count(instruction.shape)
        if answers.calls_computation(instruction):
            return self._run(self._call_from_operand(instruction, operand, leaf))
        return answers.answer_from_operand(instruction, operand, leaf, INPUT_TO_OUTPUT.get(instruction.opcode))

    def to_ancestors(self, instruction: HloInstruction, output: int, among: set[HloInstruction] | None) -> Reached:
        """The maps from a leaf of an instruction to every instruction of its computation that it depends on. With
        `among`, only paths through these instructions are followed."""
        reached: Reached = {}

        def walk() -> MapsCoroutine:
            yield from self._walk_back(instruction, output, reached, among, PathLimits(None))
            return ()

        self._run(walk())
        return reached

    # -- running coroutines ---------------------------------------------------------------------

    def _run(self, first: MapsCoroutine) -> ComputationMaps:
        """Runs a coroutine to its end. When it requests the maps of a computation, the walk through that computation
        runs first.

        `stack` holds the coroutines that wait, each with the request that it answers. A LimitExceededError for too many
        accesses is thrown into the coroutine that waits for the failed walk; any other error ends the run.
        """
        stack: list[tuple[ComputationRequest | None, MapsCoroutine]] = [(None, first)]
        value: ComputationMaps | None = None
        failure: LimitExceededError | None = None
        while True:
            answered_request, coroutine = stack[-1]
            try:
                if failure is not None:
                    thrown, failure = failure, None
                    request = coroutine.throw(thrown)
                else:
                    request = next(coroutine) if value is None else coroutine.send(value)
            except LimitExceededError as error:
                stack.pop()
                if error.limit != coroutines.ACCESSES or not stack:
                    raise
                failure = error
                continue
            except StopIteration as stop:
                stack.pop()
                value = stop.value
                assert value is not None
                if answered_request is None:
                    return value
                self._computations[answered_request] = value
                continue
            value = self._computations.get(request)
            if value is None:
                stack.append((request, self._walk(request)))

    def _walk(self, request: ComputationRequest) -> MapsCoroutine:
        computation = request.computation
        limits = PathLimits.of(request)
        if request.parameter == coroutines.FROM_RESULT:
            return self._computation_from_result(computation, request.leaf, limits)
        return self._walk_forward(computation, request.parameter, request.leaf, limits)

    def _compose(self, first: OperandIndexing, second: OperandIndexing) -> OperandIndexing:
        key = (first, second)
        composed = self._compositions.get(key)
        if composed is None:
            if len(self._compositions) >= _KEPT_COMPOSITIONS:
                self._compositions.clear()
            composed = self._compositions[key] = first.compose(second)
        return composed

    # -- one instruction ------------------------------------------------------------------------

    def _call_from_output(
        self, instruction: HloInstruction, output: int, limits: PathLimits | None = None
    ) -> MapsCoroutine:
        """One set for each operand of an operation whose maps come from the computations that it calls. `limits` are
        those of the walk in which the operation lies; None: it is asked about alone.
        """
        opcode = instruction.opcode
        outputs, operands = leaves(instruction.shape), instruction.operands
        answers.check_output(instruction, output, len(outputs))
        if _is_unanswered(instruction):
            return answers.unknown_from_output(instruction)
        repetition = None if limits is None else limits.repetition
        if opcode == Opcode.CONDITIONAL:
            selector = set_of(to_scalar(dims_of(outputs[output]))[0].map)
            of_branches: list[OperandIndexingSet] = []
            for branch, argument in zip(_called(instruction, len(operands) - 1), operands[1:], strict=True):
                self._check_call(instruction, branch, (argument,), instruction.shape)
                of_branches += yield ComputationRequest(branch, coroutines.FROM_RESULT, output, True, repetition)
            return (selector, *of_branches)
        if opcode in (Opcode.WHILE, Opcode.SCAN):
            return (yield from self._repeated_computation(instruction).from_output(output))
        if opcode == Opcode.SORT:
            return answers.sort_from_output(instruction, output, self._contents)
        if opcode in (Opcode.ASYNC_START, Opcode.ASYNC_UPDATE, Opcode.ASYNC_DONE):
            return (yield from async_from_output(instruction, output))
        (computation,) = _called(instruction, 1)
        self._check_call(instruction, computation, operands, instruction.shape)
        answer = yield from _maps_of_call(
            instruction, ComputationRequest(computation, coroutines.FROM_RESULT, output), limits
        )
        return (*answer, *((NOT_ACCESSED,) * (len(operands) - len(answer))))

    def _call_from_operand(
        self, instruction: HloInstruction, operand: int, leaf: int, limits: PathLimits | None = None
    ) -> MapsCoroutine:
        """One set for each leaf of the result of an operation whose maps come from the computations that it calls;
        `limits` as above.
        """
        opcode = instruction.opcode
        outputs, operands = leaves(instruction.shape), instruction.operands
        answers.check_operand(instruction, operand, leaf)
        if _is_unanswered(instruction):
            return answers.unknown_from_operand(instruction)
        dims = dims_of(leaves(operands[operand].shape)[leaf])
        repetition = None if limits is None else limits.repetition
        if opcode == Opcode.CONDITIONAL:
            if operand == 0:
                return tuple([set_of(everything(dims, dims_of(shape)).map) for shape in outputs])
            branch = _called(instruction, len(operands) - 1)[operand - 1]
            self._check_call(instruction, branch, (operands[operand],), instruction.shape)
            return (yield ComputationRequest(branch, 0, leaf, True, repetition))
        if opcode == Opcode.SORT:
            return answers.sort_from_operand(instruction, operand, leaf, self._contents)
        if opcode in (Opcode.WHILE, Opcode.SCAN):
            repeated = self._repeated_computation(instruction)
            return (yield from repeated.from_operand(leaf if opcode == Opcode.WHILE else operand))
        if opcode in (Opcode.ASYNC_START, Opcode.ASYNC_UPDATE, Opcode.ASYNC_DONE):
            return (yield from async_from_operand(instruction, operand, leaf))
        (computation,) = _called(instruction, 1)
        self._check_call(instruction, computation, operands, instruction.shape)
        if operand >= len(computation.parameters):
            return (NOT_ACCESSED,) * len(outputs)
        results = yield from _maps_of_call(instruction, ComputationRequest(computation, operand, leaf), limits)
        return (*results, *((NOT_ACCESSED,) * (len(outputs) - len(results))))

    def _check_call(
        self,
        instruction: HloInstruction,
        computation: HloComputation,
        arguments: Sequence[HloInstruction],
        result: Shape,
    ) -> None:
        """Raises InvalidModuleError unless the arguments have the sizes of the parameters, and the results those of the
        instruction's result.

        A fusion may have more operands than parameters: the last operands are not read.
        """
        if (instruction, computation) in self._checked_calls:
            return
        parameters = computation.parameters
        if instruction.opcode == Opcode.FUSION:
            arguments = arguments[: len(parameters)]
        if (
            len(parameters) != len(arguments)
            or any(
                leaf_sizes(parameter.shape) != leaf_sizes(argument.shape)
                for parameter, argument in zip(parameters, arguments, strict=True)
            )
            or leaf_sizes(computation.root.shape) != leaf_sizes(result)
        ):
            raise InvalidModuleError(
                f"instruction {instruction.name!r} calls {computation.name!r}, whose parameters or result do not fit it"
            )
        self._checked_calls.add((instruction, computation))

    def _repeated_computation(self, instruction: HloInstruction) -> WhileLoop | Scan:
        repeated = self._repeated.get(instruction)
        if repeated is None:
            if instruction.opcode == Opcode.WHILE:
                repeated = WhileLoop(instruction, self._compose, self._contents)
            else:
                (body,) = _called(instruction, 1)
                repeated = Scan(instruction, dependencies(body, self._contents), self._compose)
            self._repeated[instruction] = repeated
        return repeated

    # -- whole computations ---------------------------------------------------------------------

    def _computation_from_result(self, computation: HloComputation, leaf: int, limits: PathLimits) -> MapsCoroutine:
        """The accesses of a leaf of the computation's result to each parameter: one set for each parameter."""
        reached: Reached = {}
        yield from self._walk_back(computation.root, leaf, reached, None, limits)
        return tuple(
            [
                OperandIndexingSet([access for accesses in reached.get(parameter, {}).values() for access in accesses])
                for parameter in computation.parameters
            ]
        )

    def _walk_back(
        self,
        start: HloInstruction,
        output: int,
        reached: Reached,
        among: set[HloInstruction] | None,
        limits: PathLimits,
    ) -> MapsCoroutine:
        """Fills `reached` with maps from a leaf of `start` to every instruction that it depends on. With `among`, only
        paths through these instructions are followed.
        """
        answers.check_output(start, output, leaf_count(start.shape))
        first = _identity(start.shape, output)
        reached[start] = {output: {first: None}}
        for instruction in reversed(self._order(start.computation)):
            by_leaf = reached.get(instruction)
            operands = instruction.operands
            if by_leaf is None or not operands:
                continue
            opcode, calls = instruction.opcode, answers.calls_computation(instruction)
            for leaf, accesses in list(by_leaf.items()):
                spend(1)
                if calls:
                    answer = _with_call_arguments(
                        instruction, (yield from self._call_from_output(instruction, leaf, limits))
                    )
                else:
                    answer = answers.answer_from_output(instruction, leaf, OUTPUT_TO_INPUT.get(opcode))
                if limits.repetition is not None:
                    answer = limits.repetition.seen(instruction, answer)
                for operand, reads in zip(operands, answer, strict=True):
                    if among is None or operand in among:
                        self._extend(reached, operand, None, accesses, reads, first, limits)
        return ()

    def _walk_forward(
        self, computation: HloComputation, parameter: int, leaf: int, limits: PathLimits
    ) -> MapsCoroutine:
        """The accesses of each leaf of the computation's result to a leaf of a parameter: one set for each leaf of the
        result."""
        reached: Reached = {}
        start, root = computation.parameters[parameter], computation.root
        first = _identity(start.shape, leaf)
        reached[start] = {leaf: {first: None}}
        for instruction in self._order(computation):
            opcode, calls = instruction.opcode, answers.calls_computation(instruction)
            for number, operand in enumerate(instruction.operands):
                for operand_leaf, accesses in list(reached.get(operand, {}).items()):
                    spend(1)
                    if calls:
                        answer = _with_call_arguments(
                            instruction, (yield from self._call_from_operand(instruction, number, operand_leaf, limits))
                        )
                    else:
                        answer = answers.answer_from_operand(
                            instruction, number, operand_leaf, INPUT_TO_OUTPUT.get(opcode)
                        )
                    if limits.repetition is not None:
                        answer = limits.repetition.seen_backwards(instruction, number, answer)
                    for output, writes in enumerate(answer):
                        self._extend(reached, instruction, output, accesses, writes, first, limits)
        of_root = reached.get(root, {})
        return tuple([OperandIndexingSet(of_root.get(output, ())) for output in range(leaf_count(root.shape))])

    def _extend(
        self,
        reached: Reached,
        target: HloInstruction,
        leaf: int | None,
        accesses: Accesses,
        step: OperandIndexingSet,
        first: OperandIndexing,
        limits: PathLimits,
    ) -> None:
        """Composes each of the accesses with each map of the step, and adds the results to the maps that lead to a leaf
        of the target: leaf number `leaf`, or where that is None the leaf that the map of the step names.
        """
        for second in step.members:
            number = second.leaf if leaf is None else leaf
            of_leaf = reached.setdefault(target, {}).setdefault(number, {})
            if limits.given_up and (target, number) in limits.given_up:
                if second.replica is not None or any(access.replica is not None for access in accesses):
                    _give_up(of_leaf, target, number, first, second.leaf, exchanges=True)
                continue
            compositions = 0
            for access in accesses:
                # A map composed with the identity is its simplified self.
                if access is first:
                    of_leaf[second.simplify()] = None
                else:
                    compositions += 1
                    of_leaf[self._compose(access, second)] = None
            limits.spend(compositions)
            if limits.gives_up(target, number, len(of_leaf)):
                exchanges = any(access.replica is not None for access in of_leaf)
                _give_up(of_leaf, target, number, first, second.leaf, exchanges=exchanges)

    def _order(self, computation: HloComputation) -> list[HloInstruction]:
        order = self._orders.get(computation)
        if order is None:
            order = self._orders[computation] = operands_first(computation)
        return order


def _with_call_arguments(instruction: HloInstruction, answer: Answer) -> Answer:
    """The maps of a fusion or call, with its arguments as producers in place of the parameters that take them; the
    answer of any other instruction as it is.
    """
    if operation_of(instruction.opcode).calls.arguments is not Arguments.OPERANDS:
        return answer
    called = instruction.called_computations
    if len(called) != 1:  # a while loop, whose offsets differ from iteration to iteration
        return answer
    # A fusion may have more operands than parameters.
    return coroutines.seen_from_caller(answer, dict(zip(called[0].parameters, instruction.operands, strict=False)))


def _maps_of_call(instruction: HloInstruction, request: ComputationRequest, limits: PathLimits | None) -> MapsCoroutine:
    """The maps of the computation that a fusion or call calls. The maps of a fusion are exact, unless it has too many
    ways and the walk in which it lies may give up exactness.
    """
    if limits is not None:
        request = request._replace(repetition=limits.repetition)
    if instruction.opcode == Opcode.FUSION:
        try:
            return (yield request)
        except LimitExceededError:
            if limits is None or limits.are_exact:
                raise
    return (yield request._replace(gives_up=True))


def _give_up(
    of_leaf: Accesses, target: HloInstruction, number: int, first: OperandIndexing, leaf: int, *, exchanges: bool
) -> None:
    """Replaces the accesses to leaf `number` of the target by one access to every element, whose `leaf` is `leaf`.
    `first` is the access with which the walk began. `exchanges`: the element may be on any replica.
    """
    of_leaf.clear()
    dims = tuple([var.bounds.upper + 1 for var in first.map.dims])
    of_leaf[every_element(dims, dims_of(leaves(target.shape)[number]), leaf, exchanges=exchanges).simplify()] = None


def _is_unanswered(instruction: HloInstruction) -> bool:
    """Whether dimensions without a bound leave the maps of a loop, scan, sort or asynchronous call unknown."""
    if instruction.opcode in (Opcode.FUSION, Opcode.CALL, Opcode.CONDITIONAL):
        return False
    return is_unbounded(instruction.shape) or any(is_unbounded(operand.shape) for operand in instruction.operands)


def _identity(shape: Shape, leaf: int) -> OperandIndexing:
    return OperandIndexing(identity(dims_of(leaves(shape)[leaf]))[0].map, leaf=leaf)


def _called(instruction: HloInstruction, count: int) -> tuple[HloComputation, ...]:
    called = instruction.called_computations
    if len(called) != count:
        raise InvalidModuleError(
            f"instruction {instruction.name!r} ({instruction.opcode}) calls {len(called)} computations, not {count}"
        )
    return called
