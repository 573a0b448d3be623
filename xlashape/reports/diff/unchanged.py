"""Instructions that two computations have in the same order, with the same operands and the same users. They are found
by their kinds alone, so that what did not change is not looked at further.
"""

from __future__ import annotations

from operator import attrgetter
from typing import Final

from xlashape.reports.diff.graph import Computation

_INDEX: Final = attrgetter("index")


def unchanged(a: Computation, b: Computation) -> list[int]:
    """For each instruction of a, the instruction of b that is the same and has the same operands and users; -1 for
    none. An instruction with another user has -1 too: its place may be that of an instruction that is alike.
    """
    contents = a.side.contents[a.index]
    if contents and contents == b.side.contents[b.index]:
        return list(range(a.size))
    places = _places(a, b)
    found = [j if j >= 0 and _is_same(a, i, b, j, places) else -1 for i, j in enumerate(places)]
    of_b = {j: i for i, j in enumerate(found) if j >= 0}
    changed = [i for i, j in enumerate(found) if j < 0]
    before = [x for i in changed for x in (*a.operands(i), *a.predecessors.get(i, ()))]
    for j in [j for j in range(b.size) if j not in of_b]:
        before += [of_b[y] for y in (*b.operands(j), *b.predecessors.get(j, ())) if y in of_b]
    for i in before:
        found[i] = -1
    return found


def _is_same(a: Computation, i: int, b: Computation, j: int, places: list[int]) -> bool:
    """Whether two instructions of one place are the same, and so are the places of their operands."""
    one, other = a.instructions[i], b.instructions[j]
    if (
        one.kind is not b.side.twins[other.kind]
        or [*map(places.__getitem__, map(_INDEX, one.operands))] != [*map(_INDEX, other.operands)]
        or one.number != other.number
        or (i == a.root) != (j == b.root)
    ):
        return False
    if not (one.called_computations or one.control_predecessors or other.control_predecessors):
        return True
    contents_a, contents_b = a.side.contents, b.side.contents
    return [places[x] for x in a.predecessors.get(i, ())] == list(b.predecessors.get(j, ())) and [
        contents_a[x.index] for x in one.called_computations
    ] == [contents_b[y.index] for y in other.called_computations]


def _places(a: Computation, b: Computation) -> list[int]:
    """For each instruction of a, the instruction of b at the same place: counted from the beginning up to the first
    kind that differs, and from the end behind the last one. -1 for those between, unless both computations have equally
    many instructions.
    """
    if a.size == b.size:
        return list(range(a.size))
    kinds_a, kinds_b = [each.kind for each in a.instructions], [b.side.twins[each.kind] for each in b.instructions]
    least = min(a.size, b.size)
    head = next((n for n in range(least) if kinds_a[n] is not kinds_b[n]), least)
    tail = next((n for n in range(least - head) if kinds_a[-1 - n] is not kinds_b[-1 - n]), least - head)
    return [*range(head), *[-1] * (a.size - head - tail), *range(b.size - tail, b.size)]
