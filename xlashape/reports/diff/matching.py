"""Which instructions of two modules correspond: by structure, data flow and op_name.

Computations are matched with their callers, the two entry computations first. Two instructions are alike if they are
equal but for their operands: in opcode, shape and attributes, first with the computations that they call, then without
(`rich` and `base` in `graph.py`). Neighbours of an instruction are its operands and its users. Within two matched
computations, these are matched:

0. instructions that stand in the same order in both computations, if their operands and users do too (`unchanged.py`);
1. instructions that are alike in all they depend on and in all that depends on them;
2. instructions alike in all that depends on them, then instructions alike in all they depend on, where each computation
   has only one such instruction;
3. instructions that are alike and whose neighbours are matched to each other, and so on from neighbour to neighbour;
4. instructions that are alike and have the same op_name: first where each computation has only one, with step 3 before
   and after; then parameters of the same number; then also where there are several, in order;
5. instructions that have changed: neighbours of matched ones, in pairs, those with the highest score first. The score
   counts equal opcode, op_name, sizes, element type and number of operands, and the share of operands and users that
   are matched to each other;
6. the remaining instructions of the same opcode, sizes and op_name, in order.

At last, the remaining instructions are matched across computations: they have moved.

The names and ids of instructions and computations play no part. Each step is linear in instructions and operands, or
has a bound for the candidates of an instruction.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from heapq import heapify, heappop, heappush
from typing import Final

from xlashape.hlo.ops.opcode import Opcode
from xlashape.hlo.ops.operation import ResultSource
from xlashape.hlo.ops.registry import OPERATIONS
from xlashape.limits import spend
from xlashape.reports.diff.graph import Computation, Side
from xlashape.reports.diff.unchanged import unchanged

_MAX_NEIGHBOURS: Final = 8
"""Up to this number of unmatched neighbours in each module, all pairs of them are candidates."""
_MOST_USERS: Final = 64
"""An instruction with more users is not matched by them."""
_LEAST_SCORE: Final = 5.5
"""Pairs with a lower score are not matched."""
_ROUNDS: Final = 8
"""The most rounds of `_Pair._rounds`."""
_REPLACEABLE: Final = (ResultSource.COMPUTED, ResultSource.OPERAND, ResultSource.CALLED)
_FIXED: Final = frozenset(
    [
        row.opcode
        for row in OPERATIONS.values()
        if row.source not in _REPLACEABLE or row.is_given or row.fuses_called_computation or row.opcode == Opcode.COPY
    ]
)
"""Opcodes whose changed instructions are matched to instructions of the same opcode only."""
_TRIVIAL: Final = frozenset([row.opcode for row in OPERATIONS.values() if row.is_given or row.moves_no_data])
"""Opcodes whose instructions are not matched across computations: an equal one elsewhere has not moved there."""

NodeId = tuple[int, int]
"""The index of a computation, and of an instruction in it."""


class Matching:
    """Which computations and instructions of two modules are matched."""

    __slots__ = ("a", "b", "computation_of_a", "computation_of_b", "of_a", "of_b", "touched")

    def __init__(self, a: Side, b: Side) -> None:
        self.a, self.b = a, b
        self.computation_of_a: dict[int, int] = {}
        """Index of a computation of a → index of the computation of b that it is matched to."""
        self.computation_of_b: dict[int, int] = {}
        self.of_a: list[list[NodeId | None]] = [[None] * each.size for each in a.computations]
        """For each computation and each instruction of a: the instruction of b; None where it is not matched."""
        self.of_b: list[list[NodeId | None]] = [[None] * each.size for each in b.computations]
        self.touched: dict[int, list[int]] = {}
        """Index of a matched computation of a → its instructions that may differ from those that they are matched to,
        in themselves, their operands or control predecessors.
        """

    def put(self, one: NodeId, other: NodeId) -> None:
        """Matches two instructions."""
        self.of_a[one[0]][one[1]] = other
        self.of_b[other[0]][other[1]] = one

    def put_computations(self, one: int, other: int) -> None:
        """Matches two computations."""
        self.computation_of_a[one] = other
        self.computation_of_b[other] = one


def match(a: Side, b: Side) -> Matching:
    """Matches the computations and instructions of two modules."""
    matching = Matching(a, b)
    matching.put_computations(a.entry.index, b.entry.index)
    pending = [(a.entry.index, b.entry.index)]
    while True:
        while pending:
            one, other = pending.pop()
            pending += _match_computations(matching, a.computations[one], b.computations[other])
        # Computations whose callers are not matched to each other.
        pairs = _equal_computations(matching) or _uncalled_computations(matching)
        if not pairs:
            break
        for one, other in pairs:
            matching.put_computations(one, other)
        pending = pairs
    _match_moved(matching)
    return matching


def _equal_computations(matching: Matching) -> list[tuple[int, int]]:
    """Pairs of equal computations that are not matched, callers first. Those that they call are left out."""
    free: dict[int, list[int]] = defaultdict(list)
    for each in matching.b.computations:
        if each.index not in matching.computation_of_b:
            free[matching.b.digest(each.index)].append(each.index)
    called = [[t for targets in each.called.values() for t in targets] for each in matching.a.computations]
    pairs: list[tuple[int, int]] = []
    taken: set[int] = set()
    for index in reversed(matching.a.order):
        if index in matching.computation_of_a or index in taken or not free:
            continue
        others = free.get(matching.a.digest(index))
        if others:
            pairs.append((index, others.pop()))
            # The computations that it calls are matched with it.
            stack: list[int] = list(called[index])
            while stack:
                target = stack.pop()
                if target not in taken:
                    taken.add(target)
                    stack += called[target]
    return pairs


def _uncalled_computations(matching: Matching) -> list[tuple[int, int]]:
    """Pairs of computations that nothing calls and that are not matched, with equal shapes of parameters and result."""
    free: dict[Hashable, list[int]] = defaultdict(list)
    for each in matching.b.computations:
        if each.index not in matching.computation_of_b and not matching.b.callers[each.index]:
            free[_signature(each)].append(each.index)
    pairs: list[tuple[int, int]] = []
    for each in matching.a.computations:
        if each.index not in matching.computation_of_a and not matching.a.callers[each.index]:
            others = free.get(_signature(each))
            if others:
                pairs.append((each.index, others.pop(0)))
    return pairs


def _signature(computation: Computation) -> Hashable:
    """The shapes of a computation's parameters, sorted, and of its result."""
    shapes = [
        computation.parts(i)["shape"] for i in range(computation.size) if computation.opcode(i) == Opcode.PARAMETER
    ]
    return tuple(sorted(shapes)), computation.parts(computation.root)["shape"] if computation.root >= 0 else ""


def _match_computations(matching: Matching, a: Computation, b: Computation) -> list[tuple[int, int]]:
    """Matches the instructions of two computations, and the computations that matched instructions call. Returns the
    pairs of these computations, whose instructions are still to be matched.
    """
    pair = _Pair(a, b)
    matching.touched[a.index] = pair.run()
    pending: list[tuple[int, int]] = []
    matching.of_a[a.index] = [None if j < 0 else (b.index, j) for j in pair.of_a]
    matching.of_b[b.index] = [None if i < 0 else (a.index, i) for i in pair.of_b]
    for i, called in a.called.items():
        if pair.of_a[i] in b.called:
            for one, other in zip(called, b.called[pair.of_a[i]], strict=False):
                if one not in matching.computation_of_a and other not in matching.computation_of_b:
                    matching.put_computations(one, other)
                    pending.append((one, other))
    return pending


class _Pair:
    """Two computations whose instructions are being matched.

    `of_a` has for each instruction of a that of b, or -1, and `of_b` the reverse. `new` has the pairs that `_spread`
    has not yet looked at.
    """

    def __init__(self, a: Computation, b: Computation) -> None:
        self.a, self.b = a, b
        self.of_a = [-1] * a.size
        self.of_b = [-1] * b.size
        self.new: list[tuple[int, int]] = []
        self.is_same = False
        self.bodies: dict[tuple[int, int], Counter[Hashable]] = {}
        self._free: tuple[Sequence[int], Sequence[int]] = (range(a.size), range(b.size))
        spend(1 + a.size + b.size)

    def put(self, i: int, j: int) -> None:
        self.of_a[i] = j
        self.of_b[j] = i
        self.new.append((i, j))

    def free(self) -> tuple[list[int], list[int]]:
        """The instructions of each computation that are not matched, in order."""
        of_a, of_b, (free_a, free_b) = self.of_a, self.of_b, self._free
        free = self._free = [i for i in free_a if of_a[i] < 0], [j for j in free_b if of_b[j] < 0]
        return free

    def run(self) -> list[int]:
        """Matches the instructions in the steps that the module's docstring lists. Returns the value of
        `Matching.touched`."""
        self.of_a = unchanged(self.a, self.b)
        for i, j in enumerate(self.of_a):
            if j >= 0:
                self.of_b[j] = i
        free, others = self.free()
        if not free and not others:
            return []
        touched = set(free)
        touched.update([user for i in free for user, _ in self.a.users(i)])
        touched.update([i for i, before in self.a.predecessors.items() if not touched.isdisjoint(before)])
        if free and others:
            self._match_changed_runs()
            if self.is_same:
                return []
        return sorted(touched)

    def _match_changed_runs(self) -> None:
        """All steps after the first one. Sets `is_same` where the two computations turn out to be equal."""
        a, b = self.a, self.b
        marks_a = [-1 - j if j >= 0 else 0 for j in self.of_a]
        marks_b = [-1 - j if i >= 0 else 0 for j, i in enumerate(self.of_b)]
        up_a, up_b = a.ups(marks_a).__getitem__, b.ups(marks_b).__getitem__
        down_a, down_b = a.downs(up_a, marks_a, controls=True), b.downs(up_b, marks_b, controls=True)
        self._by_key(down_a.__getitem__, down_b.__getitem__, several=True)
        self.is_same = not any(self.free())
        if self.is_same:
            return
        if (
            a.root >= 0
            and b.root >= 0
            and self.of_a[a.root] < 0
            and self.of_b[b.root] < 0
            and a.rich(a.root) == b.rich(b.root)
        ):
            self.put(a.root, b.root)
        self.new.clear()
        use_a, use_b = [each.downs(each.rich, marks, controls=False) for each, marks in ((a, marks_a), (b, marks_b))]
        self._by_key(use_a.__getitem__, use_b.__getitem__)
        self._by_key(up_a, up_b, skipped=Opcode.PARAMETER)
        self.new = self._beside_free()
        self._spread()
        for lists_a, lists_b in ((a.rich, b.rich), (a.base, b.base)):
            if not self._is_open():
                return
            self._rounds(lists_a, lists_b)
            self._by_key(_names(a, lists_a), _names(b, lists_b))
            self._spread()
            self._rounds(lists_a, lists_b)
        self._by_key(lambda i: _number(a, i), lambda j: _number(b, j))
        self._spread()
        self._by_key(_names(a, a.rich), _names(b, b.rich), several=True)
        self._spread()
        self._match_changed()
        self._by_key(lambda i: _kin(a, i), lambda j: _kin(b, j), several=True)

    def _is_open(self) -> bool:
        return all(self.free())

    def _by_key(
        self,
        key_a: Callable[[int], Hashable | None],
        key_b: Callable[[int], Hashable | None],
        *,
        several: bool = False,
        skipped: str = "",
    ) -> bool:
        """Matches unmatched instructions with the same key: where one instruction of each computation has the key or,
        with `several`, also where more have it, in order. An instruction with the key None, or of the opcode `skipped`,
        is left out. Returns whether there were any.
        """
        free_a, free_b = self.free()
        if not free_a or not free_b:
            return False
        spend(len(free_a) + len(free_b))
        by_key: dict[Hashable, list[int]] = {}
        theirs: dict[Hashable, list[int]] = {}
        for free, key, computation, lists in (free_a, key_a, self.a, by_key), (free_b, key_b, self.b, theirs):
            for i in free:
                if skipped and computation.opcode(i) == skipped:
                    continue
                found = key(i)
                if found is not None and (lists is by_key or found in by_key):
                    entry = lists.get(found)
                    if entry is None:
                        lists[found] = [i]
                    else:
                        entry.append(i)
        before = len(self.new)
        for found, own in by_key.items():
            others = theirs.get(found, ())
            if len(own) == 1 == len(others) or several:
                for i, j in zip(own, others, strict=False):
                    self.put(i, j)
        return len(self.new) > before

    def _beside_free(self) -> list[tuple[int, int]]:
        """The matched pairs whose instruction of `a` has a neighbour that is not matched, in order. All other pairs
        have no neighbours left to match."""
        a, of_a = self.a, self.of_a
        beside: set[int] = set()
        for i in self.free()[0]:
            beside.update(a.operands(i), [user for user, _ in a.users(i)])
        return [(i, of_a[i]) for i in sorted(beside) if of_a[i] >= 0]

    def _spread(self) -> None:
        """Matches neighbours of newly matched instructions to each other where they are alike, and then their
        neighbours: operands at the same position, and users that have the instruction at the same position and are
        unique in that.
        """
        if not self._is_open():
            return
        a, b, of_a, of_b = self.a, self.b, self.of_a, self.of_b
        operands_a, operands_b, users_a, users_b = a.operands, b.operands, a.users, b.users
        for lists_a, lists_b in ((a.rich, b.rich), (a.base, b.base)):
            queue = self.new if lists_a is a.rich else self._beside_free()
            queue.reverse()  # earlier instructions first: of two that are alike, the later one counts as added
            self.new = []
            while queue:
                i, j = queue.pop()
                for one, other in zip(operands_a(i), operands_b(j), strict=False):
                    if of_a[one] < 0 and of_b[other] < 0 and lists_a(one) == lists_b(other):
                        of_a[one], of_b[other] = other, one
                        queue.append((one, other))
                found = _unique([(lists_a(u), p, u) for u, p in users_a(i) if of_a[u] < 0])
                if found:
                    others = _unique([(lists_b(u), p, u) for u, p in users_b(j) if of_b[u] < 0])
                    for key, one in found.items():
                        other = others.get(key, -1)
                        if one >= 0 and other >= 0 and of_a[one] < 0 and of_b[other] < 0:
                            of_a[one], of_b[other] = other, one
                            queue.append((one, other))
        self.new = []

    def _rounds(self, lists_a: Callable[[int], Hashable], lists_b: Callable[[int], Hashable]) -> None:
        """Matches instructions that are alike (equal hashes in `lists_a` and `lists_b`) and whose neighbours are
        matched to each other: all neighbours, then the operands alone, then the users alone.
        """
        for _ in range(_ROUNDS):
            moved = False
            for operands, users in ((True, True), (True, False), (False, True)):
                moved |= self._by_key(
                    _surroundings(self.a, lists_a, self.of_a, self.of_a, operands, users),
                    _surroundings(self.b, lists_b, self.of_b, range(self.b.size), operands, users),
                )
                self._spread()
            if not moved or not self._is_open():
                return

    # -- changed instructions -------------------------------------------------------------------

    def _match_changed(self) -> None:
        """Matches instructions that have changed, next to matched ones, the pairs with the highest score first."""
        a, b, of_a, of_b = self.a, self.b, self.of_a, self.of_b
        if not self._is_open():
            return
        heap = [
            (-score, i, j)
            for i, j in {pair for k, m in self._beside_free() for pair in self._beside(k, m)}
            if (score := self._score(i, j))
        ]
        if (
            a.root >= 0
            and b.root >= 0
            and of_a[a.root] < 0
            and of_b[b.root] < 0
            and (score := self._score(a.root, b.root))
        ):
            heap.append((-score, a.root, b.root))
        heapify(heap)
        while heap:
            least, i, j = heappop(heap)
            if of_a[i] >= 0 or of_b[j] >= 0:
                continue
            spend()
            score = self._score(i, j)
            if -score < least - 0.01:
                heappush(heap, (-score, i, j))  # more of its neighbours are matched than before
                continue
            of_a[i], of_b[j] = j, i
            for one, other in self._beside(i, j):
                score = self._score(one, other)
                if score:
                    heappush(heap, (-score, one, other))

    def _beside(self, i: int, j: int) -> Iterable[tuple[int, int]]:
        """The pairs of unmatched neighbours of two matched instructions."""
        of_a, of_b = self.of_a, self.of_b
        found: list[tuple[int, int]] = []
        operands_a, operands_b = self.a.operands(i), self.b.operands(j)
        if len(operands_a) == len(operands_b):
            found += [(x, y) for x, y in zip(operands_a, operands_b, strict=True) if of_a[x] < 0 and of_b[y] < 0]
        else:
            own, others = [x for x in operands_a if of_a[x] < 0], [y for y in operands_b if of_b[y] < 0]
            if len(own) <= _MAX_NEIGHBOURS and len(others) <= _MAX_NEIGHBOURS:
                found += [(x, y) for x in own for y in others]
        own = [u for u, _ in self.a.users(i) if of_a[u] < 0]
        others = [u for u, _ in self.b.users(j) if of_b[u] < 0]
        if len(own) <= _MAX_NEIGHBOURS and len(others) <= _MAX_NEIGHBOURS:
            found += [(x, y) for x in own for y in others]
        return found

    def _score(self, i: int, j: int) -> float:
        """How similar two instructions are; 0 for those that are not to be matched."""
        a, b = self.a, self.b
        one, other = a.opcode(i), b.opcode(j)
        score = 4.0
        if one != other:
            if one in _FIXED or other in _FIXED:
                return 0.0
            score = 0.0
        name = a.op_name(i)
        if name and name == b.op_name(j):
            score += 2.0
        shape, target = a.parts(i)["shape"], b.parts(j)["shape"]
        type_a, _, sizes_a = shape.partition("[")
        type_b, _, sizes_b = target.partition("[")
        if sizes_a.partition("]")[0] == sizes_b.partition("]")[0]:
            score += 1.5
        if type_a == type_b:
            score += 0.5
        operands_a, operands_b = a.operands(i), b.operands(j)
        if len(operands_a) == len(operands_b):
            score += 0.5
        if operands_a and operands_b:
            same = sum([self.of_a[x] == y for x, y in zip(operands_a[:64], operands_b[:64], strict=False)])
            score += 2.0 * same / min(64, max(len(operands_a), len(operands_b)))
        users_a, users_b = a.users(i), b.users(j)
        if users_a and users_b:
            wanted = {u for u, _ in users_b[:64]}
            same = sum([self.of_a[u] in wanted for u, _ in users_a[:64]])
            score += 2.0 * same / min(64, max(len(users_a), len(users_b)))
        elif not users_a and not users_b:
            score += 1.0
        if one == other == Opcode.FUSION and a.rich(i) != b.rich(j):
            score += 3.0 * self._alike(i, j) - 1.0
        return score if score >= _LEAST_SCORE else 0.0

    def _alike(self, i: int, j: int) -> float:
        """The share of instructions that the bodies of two fusions have in common, from 0 to 1."""
        one, other = self._body(0, self.a, i), self._body(1, self.b, j)
        both = sum((one & other).values())
        return 2 * both / max(1, sum(one.values()) + sum(other.values()))

    def _body(self, side: int, computation: Computation, i: int) -> Counter[Hashable]:
        """The hashes of the instructions in a fusion's body, without its parameters. `side` is 0 for a, 1 for b."""
        known = self.bodies.get((side, i))
        if known is None:
            known = Counter[Hashable]()
            for target in computation.called.get(i, ()):
                body = computation.side.computations[target]
                known.update([body.base(n) for n in range(body.size) if body.opcode(n) != Opcode.PARAMETER])
            self.bodies[side, i] = known
        return known


def _surroundings(
    side: Computation,
    lists: Callable[[int], Hashable],
    matched: list[int],
    numbers: Sequence[int],
    operands: bool,
    users: bool,
) -> Callable[[int], Hashable | None]:
    """A function that gives the key of an instruction, made of its hash and its neighbours: their numbers in b where
    they are matched, their hashes where they are not. None where no neighbour is matched. `matched` has a partner, or
    -1, for each instruction of the side, `numbers` those in b; `operands`, `users`: which neighbours count.
    """

    def name(neighbour: int) -> tuple[int, int]:
        if matched[neighbour] >= 0:
            return numbers[neighbour], 0
        return -1, side.side.numbers[lists(neighbour)]

    def key(i: int) -> Hashable | None:
        named = [name(operand) for operand in side.operands(i)] if operands else []
        own = side.users(i) if users else []
        if len(own) > _MOST_USERS:
            return None
        used = sorted([(name(user), position) for user, position in own])
        if any(number >= 0 for number, _ in named) or any(number >= 0 for (number, _), _ in used):
            return lists(i), tuple(named), tuple(used)
        return None

    return key


def _unique(found: list[tuple[Hashable, int, int]]) -> dict[tuple[Hashable, int], int]:
    """(hash of a user, position of the operand) → the number of the user; -1 where several users are alike. `found` has
    (hash, position, user).
    """
    users: dict[tuple[Hashable, int], int] = {}
    for key, position, user in found:
        users[key, position] = -1 if users.get((key, position), user) != user else user
    return users


def _names(computation: Computation, lists: Callable[[int], Hashable]) -> Callable[[int], Hashable | None]:
    """A function from an instruction to its key, which is its hash in `lists` and its op_name; None without op_name."""
    return lambda i: (lists(i), name) if (name := computation.op_name(i)) else None


def _number(computation: Computation, i: int) -> Hashable | None:
    """The key of a parameter, which is its number; None for other instructions."""
    return computation.parts(i).get("parameter") if computation.opcode(i) == Opcode.PARAMETER else None


def _kin(computation: Computation, i: int) -> Hashable | None:
    """The key of an instruction: its opcode, op_name and sizes. None without op_name, and for opcodes of _TRIVIAL."""
    name = computation.op_name(i)
    if not name or computation.opcode(i) in _TRIVIAL:
        return None
    return computation.opcode(i), name, computation.parts(i)["shape"].partition("]")[0].partition("[")[2]


def _match_moved(matching: Matching) -> None:
    """Matches the remaining instructions across computations: those that are alike and have the same op_name, then
    those with the same end of the op_name, then those without regard to it.

    Where a call is inlined, the end of an op_name stays as it is: `…/while/body/closed_call/mul` becomes
    `…/while/body/mul`.
    """
    some_a = [each for each in matching.a.computations if None in matching.of_a[each.index]]
    some_b = [each for each in matching.b.computations if None in matching.of_b[each.index]]
    for name_of in (str, _end_of_name, None) if some_a and some_b else ():
        free: dict[Hashable, list[NodeId]] = defaultdict(list)
        for key, node in _left(some_b, matching.of_b, name_of):
            free[key].append(node)
        for each in free.values():
            each.reverse()
        left = list(_left(some_a, matching.of_a, name_of))
        counts = Counter([key for key, _ in left])
        for key, node in left:
            others = free.get(key)
            # Without regard to op_names, only instructions that each module has once.
            if others and (name_of is not None or counts[key] == len(others) == 1):
                matching.put(node, others.pop())


def _end_of_name(name: str) -> str:
    return name.rpartition("/")[2]


def _left(
    computations: Iterable[Computation], matched: list[list[NodeId | None]], name_of: Callable[[str], str] | None
) -> Iterable[tuple[Hashable, NodeId]]:
    """The instructions that are not matched, each with its key: the hash, and `name_of` its op_name."""
    for computation in computations:
        rows = matched[computation.index]
        for i in computation.order:
            if rows[i] is None and computation.opcode(i) not in _TRIVIAL:
                name = computation.op_name(i)
                if name_of is None:
                    yield computation.rich(i), (computation.index, i)
                elif name:
                    yield (computation.rich(i), name_of(name)), (computation.index, i)
