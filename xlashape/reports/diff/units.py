"""Changes from module a to module b before they are rows. A `Unit` is one change: a set of instructions of both modules
that differ together.

An instruction that is not matched to one of the other module, and a matched pair that differs, is in exactly one unit.
So the sum over all units of what their instructions of b cost, less what those of a cost, is the difference in cost of
the two modules. Units are united where they are one change: the body of an added or removed fusion with the fusion; two
fusions that were one; parameters of a fusion with the fusion; get-tuple-element with its operand.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence

from xlashape.hlo.flow import DonatedBuffer
from xlashape.hlo.module_proto.structure import LOCAL_ID
from xlashape.hlo.ops.opcode import Opcode
from xlashape.hlo.ops.registry import operation_of
from xlashape.limits import spend
from xlashape.reports.diff.aspects import Aspect, aspects
from xlashape.reports.diff.graph import Computation, Side
from xlashape.reports.diff.matching import Matching, NodeId
from xlashape.reports.diff.measures import NOTHING, Measures

Member = tuple["NodeId | None", "NodeId | None"]
"""An instruction of a and the one of b that it is matched to; None for the one that is not there."""

DonationKey = tuple[Member, Member, tuple[int, ...], tuple[int, ...], str]
"""A donation: the instruction that makes the output, the parameter whose memory it takes over, the indices of the
arrays in both, and the kind of the aliasing.
"""


class Unit:
    """One change."""

    __slots__ = ("aspects", "delta", "kind", "leading", "members", "words")

    def __init__(self, member: Member, delta: Measures, words: Iterable[str] = ()) -> None:
        self.members: list[Member] = [member]
        self.leading: Member | None = None
        """The member that stands for the unit, where it is not the one that costs most."""
        self.kind: str | None = None
        """`added` or `removed`, where only the leading member was added or removed."""
        self.delta = delta
        self.words: dict[str, None] = dict.fromkeys(words)
        """In what respect it is a change, as in the column `what`: a set that keeps its order."""
        self.aspects: dict[Member, list[Aspect]] = {}
        """Pair of instructions → the aspects in which the two differ."""


class Units:
    """All changes between two matched modules."""

    def __init__(self, matching: Matching) -> None:
        self.matching = matching
        self.a, self.b = matching.a, matching.b
        self._units: list[Unit] = []
        self._parents: list[int] = []
        """The number of the unit into which each unit was united; its own number for a unit that was not. Such chains
        are followed by `_find`.
        """
        self._of_a: dict[NodeId, int] = {}
        """Instruction of a → the number of the unit that was made with it."""
        self._of_b: dict[NodeId, int] = {}
        self.module_aspects: list[Aspect] = []
        """The aspects of the modules themselves, not of their instructions, that differ."""
        self._pairs()
        self._fusions()
        self._bodies()
        self._plumbing()
        self._donations()
        self._costs()
        self._heads()
        self.rescheduled = list(self._rescheduled())
        """For each computation whose schedule changed: the first instruction that runs at another place, how many
        instructions do, and how many instructions of both schedules were compared.
        """

    def units(self) -> list[Unit]:
        """The changes, in the order in which their first instructions were found: those of a in the order of its
        computations, then those that b alone has, then those that have changed only through others.
        """
        found: dict[int, Unit] = {}
        for number, unit in enumerate(self._units):
            root = self._find(number)
            if root == number:
                found.setdefault(root, unit)
        return list(found.values())

    # -- sets ---------------------------------------------------------------------------------

    def _find(self, number: int) -> int:
        """The number of the unit that a unit is united into."""
        parents = self._parents
        while parents[number] != number:
            parents[number] = parents[parents[number]]
            number = parents[number]
        return number

    def _unite(self, number: int, other: int) -> int:
        """Unites the second unit into the first one, and returns the number of that."""
        first, second = self._find(number), self._find(other)
        if first != second:
            kept, gone = self._units[first], self._units[second]
            kept.leading = kept.leading or kept.members[0]
            kept.members += gone.members
            kept.delta = kept.delta.plus(gone.delta)
            kept.words.update(gone.words)
            kept.aspects.update(gone.aspects)
            kept.kind = kept.kind or gone.kind
            gone.members, gone.words, gone.aspects = [], {}, {}
            self._parents[second] = first
        return first

    def _add(self, one: NodeId | None, other: NodeId | None, words: Iterable[str] = ()) -> int:
        """Makes a unit of an instruction of a, one of b, or a matched pair, and returns its number."""
        before = NOTHING if one is None else self.a.measures.of[one[0]][one[1]]
        after = NOTHING if other is None else self.b.measures.of[other[0]][other[1]]
        number = len(self._units)
        self._units.append(Unit((one, other), after.minus(before), words))
        self._parents.append(number)
        if one is not None:
            self._of_a[one] = number
        if other is not None:
            self._of_b[other] = number
        return number

    def _unit_of(self, one: NodeId | None, other: NodeId | None) -> int:
        """The number of the unit of an instruction of a, or of b. The unit is made if there is none."""
        number = self._of_a.get(one) if one is not None else None
        if number is None and other is not None:
            number = self._of_b.get(other)
        if number is None:
            if one is not None and other is None:
                other = self.matching.of_a[one[0]][one[1]]
            elif other is not None and one is None:
                one = self.matching.of_b[other[0]][other[1]]
            number = self._add(one, other)
        return number

    # -- single instructions ------------------------------------------------------------------

    def _pairs(self) -> None:
        """Makes a unit of each instruction that is not matched, and of each matched pair that differs."""
        matching, a, b = self.matching, self.a, self.b
        for computation in a.computations:
            rows = matching.of_a[computation.index]
            spend(1 + len(rows))
            partner_index = matching.computation_of_a.get(computation.index)
            touched = set(matching.touched.get(computation.index, computation.order))
            for i in computation.order if touched or None in rows else ():
                partner = rows[i]
                if partner is None:
                    self._add((computation.index, i), None)
                    continue
                if i not in touched:
                    continue
                other = b.computations[partner[0]]
                words: list[str] = []
                found: list[Aspect] = []
                if computation.local(i).digest != other.local(partner[1]).digest:
                    found = list(self._aspects(computation, i, other, partner[1]))
                    words += [aspect.word for aspect in found]
                if partner[0] != partner_index:
                    words.append("moved")
                elif self._is_rewired(computation, i, other, partner[1]):
                    words.append("operands")
                if self._is_reordered(computation, i, other, partner[1]):
                    words.append("control dependencies")
                if words:
                    number = self._add((computation.index, i), partner, words)
                    if found:
                        self._units[number].aspects[(computation.index, i), partner] = found
        for computation in b.computations:
            rows = matching.of_b[computation.index]
            for i in computation.order if None in rows else ():
                if rows[i] is None:
                    self._add(None, (computation.index, i))

    def _aspects(self, computation: Computation, i: int, other: Computation, j: int) -> Iterable[Aspect]:
        one, two = computation.parts(i), other.parts(j)
        shape, changed = computation.instructions[i].shape, other.instructions[j].shape
        is_entry = computation is self.a.entry
        for aspect in aspects(one, two, shape, changed):
            if aspect.word == "parameter number" and not is_entry:
                continue  # no change: the operands of the calling instruction are in another order too
            if aspect.word == "value" and "{...}" in (aspect.before, aspect.after):
                continue  # an elided constant: its values are not known
            yield aspect

    def _is_rewired(self, computation: Computation, i: int, other: Computation, j: int) -> bool:
        """Whether an operand of a matched pair is another one than before, though both modules have both operands. An
        operand that was added, removed or moved is a change by itself.
        """
        operands, others = computation.operands(i), other.operands(j)
        order = self._parameter_order(computation, i, other, j) if computation.opcode(i) == Opcode.FUSION else None
        if order is not None:
            # The matched parameters of the two bodies say which operands are compared. Their order does not matter.
            pairs = [(operands[p], others[q]) for p, q in order.items() if p < len(operands) and q < len(others)]
        elif len(operands) != len(others):
            return True
        else:
            pairs = list(zip(operands, others, strict=True))
        rows_a, rows_b = self.matching.of_a[computation.index], self.matching.of_b[other.index]
        for x, y in pairs:
            one, two = rows_a[x], rows_b[y]
            if one is None or two is None or one == (other.index, y):
                continue
            if one[0] == other.index and two[0] == computation.index:  # else it has moved, which is a change of its own
                return True
        return False

    def _parameter_order(self, computation: Computation, i: int, other: Computation, j: int) -> dict[int, int] | None:
        """Number of a parameter of a fusion in a → the number of the parameter that it is matched to in b; None unless
        the computations of the two fusions are matched.
        """
        called, others = computation.called.get(i), other.called.get(j)
        if not called or not others or self.matching.computation_of_a.get(called[0]) != others[0]:
            return None
        body, other_body = self.a.computations[called[0]], self.b.computations[others[0]]
        order: dict[int, int] = {}
        for parameter in body.hlo.parameters:
            k = parameter.index
            partner = self.matching.of_a[body.index][k]
            if partner is not None:
                order[int(body.parts(k)["parameter"])] = int(other_body.parts(partner[1])["parameter"])
        return order

    def _is_reordered(self, computation: Computation, i: int, other: Computation, j: int) -> bool:
        """Whether the control predecessors of a matched pair are not matched to each other."""
        before, after = computation.predecessors.get(i, ()), other.predecessors.get(j, ())
        if not before and not after:
            return False
        rows = self.matching.of_a[computation.index]
        return {rows[k] for k in before} != {(other.index, k) for k in after}

    # -- what belongs together ----------------------------------------------------------------

    def _fusions(self) -> None:
        """Unites instructions that moved into a fusion, out of one, or from one to another, with these fusions."""
        for node, number in list(self._of_a.items()):
            partner = self.matching.of_a[node[0]][node[1]]
            if (
                partner is None
                or "moved" not in self._units[self._find(number)].words
                or self._units[number].members == []
            ):
                continue
            source, target = _fusion_of(self.a, node[0]), _fusion_of(self.b, partner[0])
            if source is None and target is None:
                continue
            kept = self.matching.of_a[source[0]][source[1]] if source else None
            came = self.matching.of_b[target[0]][target[1]] if target else None
            if source and target:
                word = (
                    "fusion split" if kept and not came else "fusion merged" if came and not kept else "fusion boundary"
                )
            elif target:
                word = "fusion grown" if came else "fused"
            else:
                word = "fusion shrunk" if kept else "unfused"
            first = self._unit_of(source, kept) if source else self._unit_of(came, target)
            unit = self._units[self._find(first)]
            unit.words[word] = None
            first = self._unite(first, number)
            if source and target:
                first = self._unite(first, self._unit_of(came, target))
            unit = self._units[first]
            unit.words.pop("moved", None)
            leading = (source, kept) if kept or not target else (came, target)
            unit.leading = leading if leading != (None, None) else unit.leading

    def _bodies(self) -> None:
        """Unites changed instructions of a computation with the instruction that calls it, if that has changed."""
        for side, units, matched in (
            (self.a, self._of_a, self.matching.computation_of_a),
            (self.b, self._of_b, self.matching.computation_of_b),
        ):
            inside: dict[int, list[NodeId]] = {}
            for node in list(units):
                inside.setdefault(node[0], []).append(node)
            for index, nodes in inside.items():
                callers = side.callers[index]
                changed = next((caller for caller in callers if caller in units), None)
                is_new = index not in matched
                is_kernel = any(_runs_as_one(side.computations[c].opcode(i)) for c, i in callers)
                if changed is not None and (is_new or is_kernel):
                    for node in nodes:
                        self._unite(units[changed], units[node])
                elif is_new:
                    for node in nodes[1:]:
                        self._unite(units[nodes[0]], units[node])
                elif changed is not None:
                    # A loop that carries another tuple: the parameter and the root of its body change with it.
                    for node in nodes:
                        computation = side.computations[index]
                        if computation.opcode(node[1]) == Opcode.PARAMETER or node[1] == computation.root:
                            self._unite(units[changed], units[node])

    def _plumbing(self) -> None:
        """Unites instructions that move no data with the changed instruction whose result they take."""
        for side, units in ((self.a, self._of_a), (self.b, self._of_b)):
            for (index, i), number in list(units.items()):
                computation = side.computations[index]
                if not operation_of(computation.opcode(i)).moves_no_data:  # mostly changes because an operand does
                    continue
                unit = self._units[self._find(number)]
                if len(unit.members) != 1 or (
                    computation.opcode(i) == Opcode.TUPLE
                    and i == computation.root
                    and len(computation.operands(i)) > 64
                ):
                    continue
                operand = next(((index, x) for x in computation.operands(i) if (index, x) in units), None)
                if operand is not None:
                    self._unite(units[operand], number)

    def _donations(self) -> None:
        """Adds changes for outputs that take over the memory of a parameter in one of the modules only."""
        one = {self._donation(self.a, each): each for each in self.a.measures.donated}
        other = {self._donation(self.b, each): each for each in self.b.measures.donated}
        lost, gained = [key for key in one if key not in other], [key for key in other if key not in one]
        places = {(other[key].output_index, *key[1:2], *key[3:]): key for key in gained}
        for key in lost:
            heir = places.get((one[key].output_index, *key[1:2], *key[3:]))
            pairs = (
                [] if heir is None else [(heir[0], key[0], heir[0][0] is None), (key[0], heir[0], key[0][1] is None)]
            )
            lead = next((pair for pair in pairs if pair[2]), None) or next(
                (pair for pair in pairs if pair[0][0] in self._of_a), None
            )
            if heir is not None and lead is not None:
                # Another instruction makes the output, in the same memory as before. The donation is then no change by
                # itself: the two instructions are one change.
                leading, rest, is_alone = lead
                number = self._unite(self._unit_of(*leading), self._unit_of(*rest))
                self._units[number].leading = leading
                if is_alone:
                    self._units[number].kind = "added" if leading[0] is None else "removed"
                gained.remove(heir)
            else:
                self._donation_changed(key[0], "donated", "")
        for key in gained:
            self._donation_changed(key[0], "", "donated")

    def _donation(self, side: Side, each: DonatedBuffer) -> DonationKey:
        """A donation of one module in the form in which it is equal to the same donation of the other."""
        nodes: list[Member] = []
        for view in (each.instruction, each.parameter):
            node = (view.computation.index, view.index)
            if side is self.a:
                partner = self.matching.of_a[node[0]][node[1]]
                nodes.append((node, partner))
            else:
                nodes.append((self.matching.of_b[node[0]][node[1]], node))
        return nodes[0], nodes[1], tuple(each.shape_index), tuple(each.parameter_index), each.kind

    def _donation_changed(self, member: Member, before: str, after: str) -> None:
        """Adds the aspect `donation` to the unit of an instruction whose output was, or is, in the memory of a
        parameter.
        """
        number = self._find(self._unit_of(*member))
        unit = self._units[number]
        unit.words["donation"] = None
        found = unit.aspects.setdefault(member, [])
        aspect = Aspect("donation", before, after)
        if aspect not in found:
            found.append(aspect)

    def _costs(self) -> None:
        """Adds the difference in cost of each matched pair that is in no unit to the change that is the reason for it;
        to a new change where there is none.
        """
        matching = self.matching
        for computation in self.a.computations:
            rows = matching.of_a[computation.index]
            before = self.a.measures.of[computation.index]
            for i, partner in enumerate(rows):
                if partner is None:
                    continue
                after = self.b.measures.of[partner[0]][partner[1]]
                if before[i] == after or (node := (computation.index, i)) in self._of_a:
                    continue
                delta = after.minus(before[i])
                number = self._loop(node, partner)
                rest = delta._replace(bytes_read=0, bytes_written=0, copies=0, copy_bytes=0, flops=0)
                if number is None and rest == NOTHING:
                    number = self._reason(node, partner)
                if number is None:
                    word = "donation" if delta.bytes else "operands"
                    self._add(node, partner, [word])
                else:
                    unit = self._units[self._find(number)]
                    unit.delta = unit.delta.plus(delta)

    def _reason(self, node: NodeId, partner: NodeId) -> int | None:
        """The number of the change because of which an instruction costs more or less: one in a computation that it
        calls, or one of an operand. None where there is none.
        """
        bodies = self.a.computations[node[0]].called.get(node[1], ())
        for body in bodies:
            for i in range(self.a.computations[body].size):
                inner = self.matching.of_a[body][i]
                number = self._of_a.get((body, i), self._of_b.get(inner) if inner is not None else None)
                if number is not None:
                    return number
        for body in self.b.computations[partner[0]].called.get(partner[1], ()):
            for i in range(self.b.computations[body].size):
                if (body, i) in self._of_b:
                    return self._of_b[body, i]
        operands = self.a.computations[node[0]].operands(node[1])
        others = self.b.computations[partner[0]].operands(partner[1])
        for x, y in zip(operands, others, strict=False):
            number = self._of_b.get((partner[0], y), self._of_a.get((node[0], x)))
            if number is not None:
                return number
        return None

    def _loop(self, node: NodeId, partner: NodeId) -> int | None:
        """The number of the unit of the loop that runs an instruction more or less often than before; None where no
        loop does. The unit gets the word `iterations`.
        """
        one, other = node[0], partner[0]
        before, after = self.a.measures.times, self.b.measures.times
        while before.get(one) != after.get(other):
            callers, others = self.a.callers[one], self.b.callers[other]
            if len(callers) != 1 or len(others) != 1 or self.matching.of_a[callers[0][0]][callers[0][1]] != others[0]:
                return None
            (caller,), (its,) = callers, others
            runs, run = before.get(caller[0]), after.get(its[0])
            if runs == run and runs and self.a.computations[caller[0]].opcode(caller[1]) == Opcode.WHILE:
                number = self._find(self._unit_of(caller, its))
                unit = self._units[number]
                if "iterations" not in unit.words:
                    unit.words["iterations"] = None
                    body = self.a.computations[caller[0]].called[caller[1]][0]
                    counts = [
                        str(times.get(index, 0) // runs)
                        for times, index in ((before, body), (after, self.matching.computation_of_a.get(body, -1)))
                    ]
                    unit.aspects.setdefault((caller, its), []).append(Aspect("iterations", *counts))
                return number
            one, other = caller[0], its[0]
        return None

    def _heads(self) -> None:
        """Finds the aspects in which the modules themselves differ, such as the layout of the entry computation."""
        one = self.a.locals.head()
        other = self.b.locals.head()
        donation = any("donation" in unit.words for unit in self.units())
        shapes = any(
            {"layout", "shape", "element type", "tile", "memory space"} & unit.words.keys() for unit in self.units()
        )
        for name in dict.fromkeys((*one, *other)):
            before, after = one.get(name, ""), other.get(name, "")
            if before == after or (name == "input_output_alias" and donation):
                continue
            if name == "entry_computation_layout" and shapes:
                continue  # the changes of the parameters and of the root show it already
            word = {"entry_computation_layout": "entry layout", "frontend_attributes": "frontend_attributes"}.get(
                name, "donation"
            )
            self.module_aspects.append(Aspect(word, before, after))

    def _rescheduled(self) -> Iterator[tuple[Member, int, int]]:
        """The elements of `rescheduled`. Empty unless both modules have a schedule."""
        sides = [
            {number: sequence.instruction_ids for number, sequence in side.module.head.schedule.sequences.items()}
            for side in (self.a, self.b)
        ]
        if not all(sides):
            return
        for computation in self.a.computations:
            index = self.matching.computation_of_a.get(computation.index)
            if index is None:
                continue
            one, other = computation.hlo, self.b.computations[index].hlo
            first, second = [
                hlo.resolve(next((ids for number, ids in each.items() if number & LOCAL_ID == hlo.id & LOCAL_ID), ()))
                for each, hlo in zip(sides, (one, other), strict=True)
            ]
            place = {each.index: number for number, each in enumerate(second)}
            rows = self.matching.of_a[computation.index]
            order: list[tuple[int, int]] = []
            for each in first:
                i = each.index
                partner = rows[i]
                if partner is not None and partner[0] == index and partner[1] in place:
                    if not operation_of(computation.opcode(i)).moves_no_data:
                        order.append((i, place[partner[1]]))
            spend(1 + len(order))
            kept = set(longest_rise([number for _, number in order]))
            if len(kept) < len(order):
                i = next(i for number, (i, _) in enumerate(order) if number not in kept)
                yield ((computation.index, i), rows[i]), len(order) - len(kept), len(order)


def longest_rise(numbers: Sequence[int]) -> list[int]:
    """The positions of the numbers of a longest subsequence that increases strictly.

    >>> longest_rise([0, 3, 1, 2, 4])
    [0, 2, 3, 4]
    """
    ends: list[int] = []
    least: list[int] = []
    before: list[int] = []
    for place, number in enumerate(numbers):
        at = bisect_left(least, number)
        before.append(ends[at - 1] if at else -1)
        if at == len(ends):
            ends.append(place)
            least.append(number)
        else:
            ends[at], least[at] = place, number
    found: list[int] = []
    place = ends[-1] if ends else -1
    while place >= 0:
        found.append(place)
        place = before[place]
    return found[::-1]


def _runs_as_one(opcode: str) -> bool:
    """Whether the computation that an instruction calls is one kernel, or is applied to elements, and is not executed
    instruction by instruction.
    """
    return not operation_of(opcode).runs_called_instructions


def _fusion_of(side: Side, index: int) -> NodeId | None:
    """The fusion that calls a computation; None where no fusion does."""
    for caller in side.callers[index]:
        if side.computations[caller[0]].opcode(caller[1]) == Opcode.FUSION:
            return caller
    return None
