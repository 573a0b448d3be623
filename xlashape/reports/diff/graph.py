"""Two modules in the form in which `diff` compares them: each instruction by what it is (`xlashape.hlo.canonical`), by
its operands and by its users, in all of which nothing depends on names and ids.

What is compared often is replaced by numbers: equal values, of either module, have equal numbers (`Numbers`). Nothing
is computed for an instruction before it is asked for, so that instructions that did not change cost little.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Sequence
from functools import cached_property
from typing import Any

from xlashape.hlo.canonical import Counted, LocalParts, Locals
from xlashape.hlo.kind import Kind
from xlashape.hlo.module import HloComputation, HloModule
from xlashape.hlo.module_proto.order import post_order
from xlashape.hlo.ops.opcode import Opcode
from xlashape.hlo.ops.operation import AsyncStep
from xlashape.limits import spend
from xlashape.proto import xla
from xlashape.reports.diff.measures import ModuleMeasures


class Numbers(dict[Hashable, int]):
    """Value → its number, from 1. A value gets the next number when it is first asked for."""

    def __missing__(self, value: Hashable) -> int:
        number = self[value] = len(self) + 1
        return number


class _Twins(dict[Kind, Kind]):
    """Kind of a module → the kind of the first module with the same bytes; the kind itself where there is none."""

    def __init__(self, first: HloModule | None) -> None:
        self._first = first

    def __missing__(self, kind: Kind) -> Kind:
        found = self._first.kinds.find(kind.data) if self._first else None
        twin = self[kind] = found or kind
        return twin


class Computation:
    """A computation. Instructions are numbered in the order of the module."""

    def __init__(self, side: Side, hlo: HloComputation) -> None:
        self.side = side
        self.hlo = hlo
        self.index = hlo.index
        self.instructions = hlo.instructions
        self.size = len(self.instructions)
        self.root = hlo.root.index
        spend(1 + self.size)
        callers = [each for each in self.instructions if each.called_computations]
        self.called = {
            each.index: tuple([called.index for called in each.called_computations])
            for each in callers
            if each.kind.row.async_step in (None, AsyncStep.START)
        }
        """Index of an instruction that calls computations → the indices of these computations in the module."""
        controlled = [each for each in self.instructions if each.control_predecessors]
        self.predecessors = {
            each.index: tuple([before.index for before in each.control_predecessors]) for each in controlled
        }
        """Index of an instruction with control predecessors → their indices."""

        self._positions: dict[int, dict[int, list[int]]] = {}
        """Index of an instruction → index of an operand → at which positions the instruction has it."""

    def operands(self, i: int) -> list[int]:
        """The indices of an instruction's operands."""
        return [each.index for each in self.instructions[i].operands]

    def users(self, i: int) -> list[tuple[int, int]]:
        """The users of an instruction: the index of the user, and which of its operands the instruction is."""
        found: list[tuple[int, int]] = []
        for user in sorted([each.index for each in self.instructions[i].users]):
            positions = self._positions.get(user)
            if positions is None:
                positions = self._positions[user] = {}
                for position, operand in enumerate(self.operands(user)):
                    positions.setdefault(operand, []).append(position)
            found += [(user, position) for position in positions[i]]
        return found

    def base(self, i: int) -> Hashable:
        """What an instruction is, without its operands and, of a parameter, without its number."""
        local = self.local(i)
        if self.instructions[i].kind.opcode is not Opcode.PARAMETER:
            return local.digest
        return tuple([part for part in local.parts.items() if part[0] != "parameter"])

    def rich(self, i: int) -> Hashable:
        """What an instruction is as in `base`, together with the computations that it calls."""
        called = self.called.get(i)
        return (self.base(i), *map(self.side.digest, called)) if called else self.base(i)

    def op_name(self, i: int) -> str:
        """The op_name of an instruction, "" for none."""
        return self.side.op_name(self.instructions[i].metadata_bytes)

    @cached_property
    def order(self) -> Sequence[int]:
        """The instructions, operands and control predecessors before their users."""
        numbers = range(self.size)
        if self.hlo.is_ordered:
            return numbers
        return post_order([[*self.operands(i), *self.predecessors.get(i, ())] for i in numbers], numbers)

    def local(self, i: int) -> LocalParts:
        """The canonical parts of an instruction, without its operands."""
        return self.side.locals.of(self.instructions[i])

    def parts(self, i: int) -> dict[str, str]:
        """The canonical parts of an instruction: the texts of its opcode, shape and attributes, by name."""
        return self.local(i).parts

    def opcode(self, i: int) -> str:
        """The opcode of an instruction."""
        return str(self.instructions[i].kind.opcode)

    def name(self, i: int) -> str:
        """The name of an instruction."""
        return self.instructions[i].name

    # -- what is computed, and what for -----------------------------------------------------------

    def ups(self, matched: Sequence[int]) -> list[int]:
        """A number of what each instruction computes. An instruction with a number below 0 in `matched` has this
        number; the others have 0 there."""
        numbers, operands, digest = self.side.numbers, self.operands, self.side.digest
        up = list(matched)
        spend(1 + len(up))
        for i in self.order:
            if up[i] == 0:
                parts: list[Hashable] = [self.local(i).digest, *[up[operand] for operand in operands(i)]]
                if i in self.predecessors:
                    spend(len(self.predecessors[i]))
                    parts += ["control", *sorted([up[before] for before in self.predecessors[i]])]
                if i in self.called:
                    parts += ["calls", *map(digest, self.called[i])]
                up[i] = numbers[tuple(parts)]
        return up

    def downs(self, up: Callable[[int], Hashable], matched: Sequence[int], *, controls: bool) -> list[int]:
        """A number of each instruction, as `up` has it, and of all that uses it. `matched` is that of `ups`. controls:
        whether control successors count among the uses."""
        numbers, users, root = self.side.numbers, self.users, self.root
        successors: dict[int, list[int]] = {}
        for i, predecessors in self.predecessors.items() if controls else ():
            spend(len(predecessors))
            for before in predecessors:
                successors.setdefault(before, []).append(i)
        down = list(matched)
        spend(1 + len(down))
        for i in reversed(self.order):
            if down[i] == 0:
                uses = sorted([(position, down[user]) for user, position in users(i)])
                uses += sorted([(-1, down[user]) for user in successors.get(i, ())])
                down[i] = numbers[i == root, up(i), tuple(uses)]
        return down

    @cached_property
    def opcodes(self) -> Hashable:
        """How many instructions of each opcode there are."""
        return frozenset(Counter([each.kind.opcode for each in self.instructions]).items())

    def contents(self, contents: Sequence[int]) -> int:
        """A number of all that counts of the computation, in the order of the module. `contents` has those of the
        computations that it calls."""
        twins, numbers, called, predecessors = self.side.twins, self.side.numbers, self.called, self.predecessors
        parts: list[Hashable] = ["contents", self.hlo.execution_thread or "main", self.root]
        for each in self.instructions:
            part: tuple[Any, ...] = (twins[each.kind], each.number, *[operand.index for operand in each.operands])
            if each.index in called or each.index in predecessors:
                calls = tuple([contents[target] for target in called.get(each.index, ())])
                part += calls, predecessors.get(each.index)
            parts.append(part)
        return numbers[tuple(parts)]


class Side:
    """One of the two modules that are compared. `sides` makes it."""

    def __init__(self, module: HloModule, numbers: Numbers, first: Side | None) -> None:
        """`first` is the other side if that was made before this one."""
        self.module = module
        self.numbers = numbers
        self.locals = Locals(module, Counted())
        is_alike = first is not None and list(first.module.head.payloads) == list(module.head.payloads)
        self.twins = _Twins(first.module if first and is_alike else None)
        self._op_names: dict[bytes, str] = {}
        self.computations = [Computation(self, each) for each in module.computations]
        self.entry = self.computations[module.entry.index]
        self.callers: list[list[tuple[int, int]]] = [[] for _ in self.computations]
        """For each computation the instructions that call it, by the index of their computation and their index in that
        computation.
        """
        for computation in self.computations:
            for i, targets in computation.called.items():
                for target in targets:
                    self.callers[target].append((computation.index, i))
        calls = [[target for targets in each.called.values() for target in targets] for each in self.computations]
        self.order = post_order(calls, range(len(calls)))
        """The indices of the computations, each after those that it calls."""
        self.contents = [0] * len(calls)
        """A number of the contents of each computation; 0 for an entry computation, unless another one calls it."""
        self._digests: dict[int, int] = first._digests if first else {}
        self._like: defaultdict[Hashable, set[int]] = first._like if first else defaultdict(set)
        """How many instructions of each opcode a computation has → the contents of all such computations."""
        seen = set[int]()
        for index in self.order:
            if self.callers[index] or index != self.entry.index:
                contents = self.contents[index] = self.computations[index].contents(self.contents)
                if contents not in seen:
                    seen.add(contents)
                    self._like[self.computations[index].opcodes].add(contents)

    @cached_property
    def measures(self) -> ModuleMeasures:
        """What the instructions of the module cost."""
        return ModuleMeasures(self.module)

    def digest(self, index: int) -> int:
        """A number of a computation: equal for computations that are equal but for the order of
        their instructions."""
        digests, contents = self._digests, self.contents
        pending = [] if contents[index] in digests else [index]
        while pending:
            computation = self.computations[pending[-1]]
            if len(self._like[computation.opcodes]) == 1:
                digests[contents[pending.pop()]] = self.numbers["alone", computation.opcodes]
                continue
            missing = [t for targets in computation.called.values() for t in targets if contents[t] not in digests]
            if missing:
                pending += missing
                continue
            nothing = [0] * computation.size
            downs = computation.downs(computation.ups(nothing).__getitem__, nothing, controls=True)
            thread = computation.hlo.execution_thread or "main"
            digests[contents[pending.pop()]] = self.numbers["digest", thread, tuple(sorted(downs))]
        return digests[contents[index]]

    def computes_again(self, index: int, i: int) -> bool:
        """Whether a computation computes the value of an instruction more than once. `index`: its computation."""
        return self._ups[index][i] in self._repeated

    @cached_property
    def _ups(self) -> list[list[int]]:
        return [each.ups([0] * each.size) for each in self.computations]

    @cached_property
    def _repeated(self) -> set[int]:
        return {up for ups in self._ups for up, count in Counter(ups).items() if count > 1}

    def op_name(self, metadata: bytes | None) -> str:
        """The op_name in serialized metadata; "" where there is none."""
        if not metadata:
            return ""
        name = self._op_names.get(metadata)
        if name is None:
            name = self._op_names[metadata] = xla.OpMetadata.FromString(metadata).op_name
        return name


def sides(a: HloModule, b: HloModule) -> tuple[Side, Side]:
    """Two modules to be compared."""
    numbers = Numbers()
    first = Side(a, numbers, None)
    return first, Side(b, numbers, first)


def are_equal(one: Side, other: Side) -> bool:
    """Whether the two modules are the same program, as their fingerprints say. Fingerprints are only computed where
    neither the instructions that the modules have nor the order in which they stand decides.
    """
    both = one, other
    kinds = [Counter[Kind](), Counter[Kind]()]
    for side, found in zip(both, kinds, strict=True):
        for kind, count in Counter([i.kind for each in side.computations for i in each.instructions]).items():
            found[side.twins[kind]] += count
    unlike = {
        kind
        for kind in {*kinds[0], *kinds[1]}
        if kind.row.text_depends_on_operands or kinds[0][kind] != kinds[1][kind]
        if kind.opcode is not Opcode.PARAMETER  # whose number counts too
    }
    if unlike:
        one_digests, other_digests = [
            Counter(
                [
                    side.locals.of(i).digest
                    for each in side.computations
                    for i in each.instructions
                    if side.twins[i.kind] in unlike
                ]
            )
            for side in both
        ]
        if one_digests != other_digests:
            return False
    elif one.locals.head() == other.locals.head():
        contents = [[each.contents(side.contents) for each in side.computations] for side in both]
        channels = [[i.channel for each in side.computations for i in each.instructions] for side in both]
        if contents[0] == contents[1] and channels[0] == channels[1] and one.entry.index == other.entry.index:
            return True
    return one.module.fingerprint() == other.module.fingerprint()
