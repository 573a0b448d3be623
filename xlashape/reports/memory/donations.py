"""Arguments whose memory outputs can take, with the peak of the program that donates them.

A donation is exact where no copy can become necessary: every use of the argument comes before the instruction that
overwrites it. Elsewhere XLA may copy the argument before, and the output after: the new peak counts the output's copy,
and the upper bound both.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import accumulate
from operator import add
from typing import Final, NamedTuple, TypeAlias

from xlashape.base.math import counted
from xlashape.hlo.flow import Index, Value, behind_bitcasts, handed_on_from, handed_on_to
from xlashape.hlo.module import HloInstruction, HloModule
from xlashape.hlo.ops.opcode import Opcode
from xlashape.hlo.ops.operation import ResultSource
from xlashape.hlo.ops.registry import operation_of
from xlashape.limits import spend
from xlashape.reports.donating import argument_name, how_to_donate
from xlashape.reports.memory.liveness import fuses_by_position, keeps_positions, plan_of_module
from xlashape.reports.memory.plan import Plan, in_space
from xlashape.reports.memory.schedule import leaf_bytes
from xlashape.reports.text import short_bytes
from xlashape.shape import Shape

_MOST_DONORS: Final = 40
# Each donation needs a plan of the whole module. The first number is the most instructions that are planned in all, the
# second how many plans may be made in any case.
_MOST_PLANNED: Final = 100_000
_LEAST_PLANNED: Final = 3
_MOST_NAMED: Final = 3
"""The most arrays of an argument that a text names one by one."""
_STATE: Final = re.compile(r"\b(opt_state|optimizer|opt|mu|nu)\b")
"""Parts of the names of arrays that an optimizer keeps."""
_COUNT: Final = re.compile(r"(\.count|\['count'\])$")
"""The ends of the names of numbers that an optimizer keeps: how many steps there were."""
_ELSEWHERE: Final[Index] = (-1,)
"""The index of no part."""
Aliases: TypeAlias = tuple[tuple[tuple[int, ...], int], ...]
"""Pairs of the index of an output and the number of the parameter whose memory it takes."""


class Donation(NamedTuple):
    """Arrays that are donated together, and the peak then."""

    text: str
    parameters: tuple[int, ...]
    aliases: Aliases
    new_peak_bytes: int
    lower_bytes: int
    upper_bytes: int
    is_exact: bool
    name: str | None
    """The parameter, if it is one alone."""


class _Collision(NamedTuple):
    """A donated argument that may still be read when the output that takes its memory is written."""

    size: int
    """The bytes of the argument."""
    first: int
    """The step that first writes to the memory."""
    last: int
    """The last step that reads the argument."""
    is_copied: bool
    """Whether XLA is expected to copy the argument."""
    may_be_last: bool
    """Whether libtpu can write the output after all that reads the argument."""
    has_copy: bool
    """Whether the program copies the argument already, and reads that alone."""


class Donations:
    """The donations of a module, of which `plan` is the plan."""

    def __init__(self, plan: Plan, module: HloModule) -> None:
        self._plan = plan
        self._module = module
        self._peak = max(plan.steps.totals)
        self._plans: dict[Aliases, Plan] = {}
        count = sum([len(computation.instructions) for computation in module.computations])
        self.may_plan = max(_LEAST_PLANNED, _MOST_PLANNED // max(1, count))
        """How many further plans may be made."""

    def found(self, least: float) -> list[Donation]:
        """The donations of whole arguments, of at least so many bytes, that do not raise the peak."""
        groups = self._groups(least)
        found: list[Donation] = []
        # The largest first, as long as further plans may be made.
        for numbers, argument in sorted(groups.items(), key=lambda item: -self._bytes_of(item[0])):
            aliases = self.aliases(numbers)
            if not self.may_plan and aliases not in self._plans:
                break
            new_peak = self.peak_with(aliases)
            is_exact = self.is_exact(aliases)
            lower, upper = self._bounds(aliases, new_peak)
            if new_peak < self._peak and (upper <= self._peak or self._plan.bounds is not None):
                first = self._module.entry.parameters[numbers[0]]
                name = None if len(numbers) > 1 else first.name
                text = self._text(numbers, argument, aliases)
                found.append(Donation(text, numbers, aliases, new_peak, lower, upper, is_exact, name))
        return found

    def together(self, found: Sequence[Donation]) -> Donation:
        """Several donations as one."""
        aliases = self.aliases({number for each in found for number in each.parameters})
        alone = next((each for each in found if each.aliases == aliases), None)
        if alone is not None:
            return alone
        numbers = tuple(sorted([number for _, number in aliases]))
        new_peak = self.peak_with(aliases)
        lower, upper = self._bounds(aliases, new_peak)
        how = how_to_donate(self._module, numbers)
        what = f"outputs take the memory of {counted(len(aliases), 'array')}, {short_bytes(self._bytes_of(numbers))}"
        text = f"jax.jit(f, {how.option}): {what}{how.otherwise}"
        return Donation(text, numbers, aliases, new_peak, lower, upper, self.is_exact(aliases), None)

    def _groups(self, least: float) -> dict[tuple[int, ...], str]:
        """The numbers of the arrays of each argument that outputs can take → the name of the argument; "" where the
        module does not say which arrays are one argument."""
        given = {alias.parameter_number for alias in self._module.head.input_output_alias.entries}
        named: dict[str, list[int]] = {}
        groups: dict[tuple[int, ...], str] = {}
        parameters = self._module.entry.parameters
        for parameter in parameters:
            number = parameter.number
            if number in given or parameter.shape.is_tuple or not self.aliases([number]):
                continue
            full = parameter.metadata.op_name
            argument = argument_name(full)
            named.setdefault(argument, []).append(number)
            # A part of an argument cannot be donated alone.
            if argument == full and len(groups) < _MOST_DONORS:
                groups[number,] = ""
        for name, numbers in named.items():
            paths = {parameters[number].metadata.op_name for number in numbers}
            if paths != {name} or len(numbers) > 1:
                groups[tuple(numbers)] = name if len(paths) == len(numbers) else ""
        return {numbers: name for numbers, name in groups.items() if self._bytes_of(numbers) >= least}

    def _text(self, numbers: tuple[int, ...], argument: str, aliases: Aliases) -> str:
        parameters = self._module.entry.parameters
        how = how_to_donate(self._module, [number for _, number in aliases])
        call = f"jax.jit(f, {how.option})"
        if len(numbers) == 1:
            first, takes = parameters[numbers[0]], _named(aliases[0][0])
            which = f"{first.metadata.op_name or first.name} (parameter {numbers[0]})"
            if argument:  # an array of an argument, whose other arrays no output can take
                return f"{call}: {takes} takes the memory of {which}{how.otherwise}"
            return f"{call} with argument {which}: {takes} takes its memory{how.otherwise}"
        if len(numbers) <= _MOST_NAMED:
            which = ", ".join([f"{_named(output)} of parameter {parameter}" for output, parameter in aliases])
            return f"{call}, all of {argument or 'these arguments'}: outputs take their memory, {which}{how.otherwise}"
        donated = [number for _, number in aliases]
        theirs = self._of_optimizer(donated)
        count = counted(len(donated), "array") + (f" of {argument}" if argument else "")
        count += f" ({theirs} of them optimizer state)" if theirs else ""
        what = f"outputs take the memory of {count}, {short_bytes(self._bytes_of(donated))}"
        return f"{call}: {what}{how.otherwise}"

    def _of_optimizer(self, numbers: Sequence[int]) -> int:
        """How many of these parameters an optimizer keeps; of its counts of steps, those that stand in the module
        beside what it keeps."""
        parameters = [self._module.entry.parameters[number] for number in numbers]
        kept = [each for each in parameters if _STATE.search(each.metadata.op_name)]
        others = [each for each in parameters if each not in kept and _COUNT.search(each.metadata.op_name)]
        counts = [each for each in others if not each.shape.rank and each.shape.element_type.is_integral]
        return len(kept) + (len(counts) if kept else 0)

    def _bytes_of(self, numbers: Iterable[int]) -> int:
        parameters = self._module.entry.parameters
        return sum([leaf_bytes(parameters[number].shape, self._plan.target) for number in numbers])

    def aliases(self, numbers: Iterable[int]) -> Aliases:
        """Which output takes the memory of which of these parameters: each output the first of its shape that is left,
        as JAX chooses."""
        root = self._module.entry.root
        taken = {tuple(alias.output_shape_index) for alias in self._module.head.input_output_alias.entries}
        outputs = (
            [((number,), shape) for number, shape in enumerate(root.shape.tuple_shapes)]
            if root.shape.is_tuple
            else [((), root.shape)]
        )
        left: dict[Shape, deque[int]] = {}
        for number in sorted(numbers):
            left.setdefault(self._module.entry.parameters[number].shape, deque()).append(number)
        return tuple(
            [(index, left[shape].popleft()) for index, shape in outputs if index not in taken and left.get(shape)]
        )

    def plan_with(self, aliases: Aliases, changed: HloModule | None = None) -> Plan:
        """The estimated plan of the module, or of a changed one, with donations."""
        known = self._plans.get(aliases) if changed is None else None
        if known is None:
            module = self._module if changed is None else changed
            if aliases:
                self.may_plan -= 1
                module = module.copy()
                module.begin_change(())
                for output, parameter in aliases:
                    module.head.input_output_alias.entries.add(
                        output_shape_index=output, parameter_number=parameter, kind=1
                    )
            known = plan_of_module(module, self._plan.target)
            known = known if self._plan.space is None else in_space(known, self._plan.space)
            if changed is None:
                self._plans[aliases] = known
        return known

    def peak_with(self, aliases: Aliases) -> int:
        """The peak with donations: the present peak less the bytes that they save in the estimated plan, which does not
        model XLA's heap. Where an argument is still read when the output that takes its memory is written, XLA copies
        the argument for those that read it."""
        totals = map(add, self.plan_with(aliases).steps.totals, self._copied(aliases))
        return self._peak + max(totals) - max(self.plan_with(()).steps.totals)

    def _copied(self, aliases: Aliases) -> list[int]:
        """The bytes of copies of arguments, in each step of the plan with donations: until the last instruction that
        reads the argument."""
        changes = [0] * (len(self.plan_with(aliases).steps.totals) + 1)
        for each in self._collisions(aliases):
            if each.is_copied:
                changes[0] += each.size
                changes[each.last + 1] -= each.size
        return list(accumulate(changes[:-1]))

    def _bounds(self, aliases: Aliases, new_peak: int) -> tuple[int, int]:
        """The bounds of the peak with donations. While an argument that is still read lives beside the output that took
        its memory, both may be copies; of an argument whose readers can all be executed before, one."""
        plan = self.plan_with(aliases)
        totals = plan.steps.totals
        changes = [0] * (len(totals) + 1)
        for each in self._collisions(aliases):
            changes[0 if each.may_be_last else each.first] += each.size
            if not (each.may_be_last or each.has_copy):
                changes[0] += each.size
                changes[each.last + 1] -= each.size
        copied = max(map(add, totals, accumulate(changes[:-1]))) - max(totals)
        least = self._peak + max(totals) - max(self.plan_with(()).steps.totals)  # without copies
        if self._plan.bounds is None:
            return least, max(new_peak, least + copied)
        lower, upper = plan.bounds or (least, least)
        if upper is None:  # whatever else is copied or kept, each value has its memory at most twice
            upper = totals[0] + 2 * sum([plan.values.sizes[value] for value in plan.lives.values])
        return min(lower, least), max(upper, least) + copied

    def _collisions(self, aliases: Aliases) -> list[_Collision]:
        """The donations that may need a copy."""
        steps = self.plan_with(aliases).steps
        step_of = {each.name: step for step, each in enumerate(steps.instructions or (), 1)}
        after: dict[HloInstruction, set[HloInstruction]] = {}
        found: list[_Collision] = []
        for output, number in aliases:
            parameter, made = self._pair(output, number)
            if _needs_no_copy(parameter, made):
                continue
            readers = _readers(parameter)
            begins = _maker(made, () if made is not self._module.entry.root else output)
            is_free = begins is not None and _is_free_before(begins, parameter, readers, _is_likely_in_place)
            is_tiled = parameter.shape.layout is not None and parameter.shape.layout.tiles  # compiled for a TPU
            may_be_last = begins is not None and bool(is_tiled) and _may_be_last(begins, parameter, readers, after)
            size = leaf_bytes(parameter.shape, self._plan.target)
            first = 0 if begins is None else step_of.get(begins.name, 0)
            # A copy of the copy may be made as late as it is used.
            late = [user for each in readers if each.opcode == Opcode.COPY for user in each.users]
            last = max([step_of.get(each.name, len(steps.totals) - 1) for each in (*readers, *late)], default=0)
            has_copy = begins is not None and begins.opcode == Opcode.COPY and parameter.users == (begins,)
            is_copied = begins is not None and not is_free and not may_be_last
            found.append(_Collision(size, first, last, is_copied, may_be_last, has_copy))
        return found

    def _pair(self, output: tuple[int, ...], number: int) -> tuple[HloInstruction, HloInstruction]:
        """A parameter, and the instruction that makes the output that takes its memory."""
        entry = self._module.entry
        made = entry.root
        if output and made.opcode == Opcode.TUPLE:
            made = made.operands[output[0]]
        return entry.parameters[number], made

    def is_exact(self, aliases: Aliases) -> bool:
        """Whether the peak with donations is known for certain."""
        if any(not _needs_no_copy(*self._pair(*each)) for each in aliases):
            return False
        return self._plan.bounds is None or self._module.head.HasField("schedule")


def _named(output: Index) -> str:
    return f"output {output[0]}" if output else "the output"


def hands_on(instruction: HloInstruction) -> bool:
    """Whether the result of an instruction is what others make: the instruction that makes or reads it is another."""
    return operation_of(instruction.opcode).source is not ResultSource.COMPUTED


def _maker(instruction: HloInstruction, index: Index) -> HloInstruction | None:
    """The instruction that first makes a value in the memory that an array has: a loop changes its state in place. None
    where that is not in the same computation."""
    while hands_on(instruction):
        spend()
        is_loop = operation_of(instruction.opcode).source is ResultSource.STATE
        before = Value(instruction.operands[0], index) if is_loop else handed_on_from(instruction, index)
        if before is None:
            return None
        instruction, index = before
    return instruction


def _readers(parameter: HloInstruction) -> set[HloInstruction]:
    """What uses a parameter, or a value that it is handed on as. Of a tuple, that is what uses this part of it."""
    found: set[HloInstruction] = set()
    pending: list[tuple[HloInstruction, Index | None]] = [(parameter, ())]
    seen = set(pending)
    while pending:
        spend()
        instruction, index = pending.pop()
        for user in instruction.users:
            at = _part_in(user, instruction, index)
            if at is _ELSEWHERE:
                continue
            found.add(user)
            if hands_on(user) and (user, at) not in seen:
                seen.add((user, at))
                pending.append((user, at))
    return found


def _part_in(user: HloInstruction, operand: HloInstruction, index: Index | None) -> Index | None:
    """Where the result of a user has the part at `index` of an operand; None where it may be anywhere, `_ELSEWHERE`
    where the user takes another part."""
    if index is None or not hands_on(user):
        return None
    source = operation_of(user.opcode).source
    if source is ResultSource.STATE:
        return index
    if source is ResultSource.ELEMENT:
        at = handed_on_to(user, 0, index)
        return _ELSEWHERE if at is None else at
    numbers = [number for number, each in enumerate(user.operands) if each is operand]
    return handed_on_to(user, numbers[0], index) if len(numbers) == 1 else None


def _needs_no_copy(parameter: HloInstruction, made: HloInstruction) -> bool:
    """Whether every use of a parameter comes before the instruction that overwrites it, in any order that operands
    allow."""
    made = behind_bitcasts(made)
    if made.computation is not parameter.computation or made is parameter or hands_on(made):
        return False
    if any(hands_on(user) for user in parameter.users):
        return False
    return _is_free_before(made, parameter, parameter.users, keeps_positions)


def _may_be_last(
    made: HloInstruction,
    parameter: HloInstruction,
    readers: set[HloInstruction],
    after: dict[HloInstruction, set[HloInstruction]],
) -> bool:
    """Whether an instruction can be executed after all readers of a parameter, but for itself if it is likely to
    compute in its memory. libtpu orders them so. The order goes into `after`: an instruction → what it comes after."""
    others = readers - {made}
    others.update([user for each in others if each.kind.row.begins_asynchronously for user in each.users])
    if not _computes_in(made, _fetched(parameter, readers), _is_likely_in_place) or made in _all_before(others, after):
        return False
    after.setdefault(made, set()).update(others)
    return True


def _is_likely_in_place(made: HloInstruction, operands: Sequence[int]) -> bool:
    """Whether an instruction is expected to compute in the memory of these operands. A copy is not needed then, and
    compilers for TPUs let the elementwise part of an output fusion do so."""
    if made.opcode == Opcode.COPY or keeps_positions(made, operands):
        return True
    return made.details.fusion_kind == "kOutput" and fuses_by_position(made, operands)


def _is_free_before(
    made: HloInstruction,
    parameter: HloInstruction,
    users: Iterable[HloInstruction],
    is_in_place: Callable[[HloInstruction, Sequence[int]], bool],
) -> bool:
    """Whether these users of a parameter come before an instruction in any order that operands allow, but for the
    instruction itself if it computes in the parameter's memory. Not every compiler lets a sort do that."""
    fetched = _fetched(parameter, users)
    if not _computes_in(made, fetched, is_in_place):
        return False
    before = _all_before([made], {})
    return before.issuperset(user for each in fetched for user in each.users) and before.issuperset(users)


def _fetched(parameter: HloInstruction, users: Iterable[HloInstruction]) -> set[HloInstruction]:
    """A parameter, and what is it in another memory space, which the compiler decides last."""
    fetched = {parameter}
    pending = [*users]
    while pending:
        user = pending.pop()
        if user.opcode in (Opcode.COPY_START, Opcode.COPY_DONE) and user not in fetched:
            fetched.add(user)
            pending += user.users
    return fetched


def _computes_in(
    made: HloInstruction,
    fetched: set[HloInstruction],
    is_in_place: Callable[[HloInstruction, Sequence[int]], bool],
) -> bool:
    """Whether an instruction reads none of these values, or computes in their memory."""
    read = [number for number, operand in enumerate(made.operands) if behind_bitcasts(operand) in fetched]
    return not read or (made.opcode != Opcode.SORT and is_in_place(made, read))


def _all_before(
    instructions: Iterable[HloInstruction], after: Mapping[HloInstruction, Iterable[HloInstruction]]
) -> set[HloInstruction]:
    """These instructions and all that come before them: by operands, by control predecessors, and by `after`."""
    before = set(instructions)
    pending = [*before]
    while pending:
        instruction = pending.pop()
        for each in (*instruction.operands, *instruction.control_predecessors, *after.get(instruction, ())):
            if each not in before:
                before.add(each)
                pending.append(each)
    return before
