"""Changes as rows of the report `diff`: each has names and numbers, alike ones are one row, and the costliest are
first. They are made from the units of `units.py`, which are sets of instructions of the two modules a and b.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from xlashape.errors import XlashapeError
from xlashape.hlo.module import HloInstruction
from xlashape.hlo.ops.opcode import Opcode, UnknownOpcode
from xlashape.hlo.ops.operation import MemoryTraffic
from xlashape.hlo.ops.registry import operation_of
from xlashape.indexing.queries import is_of_budget
from xlashape.indexing.reports.reads import instruction_reads
from xlashape.indexing.walk.analysis import Analysis
from xlashape.reports.diff.aspects import Aspect
from xlashape.reports.diff.graph import Side
from xlashape.reports.diff.matching import NodeId
from xlashape.reports.diff.measures import NOTHING, Measures
from xlashape.reports.diff.units import Member, Unit
from xlashape.shape import Shape

_KINDS: Final = {"changed": 0, "added": 1, "removed": 2, "moved": 3}
_FUSION_WORDS: Final = (
    "fusion split",
    "fusion merged",
    "fusion grown",
    "fusion shrunk",
    "fusion boundary",
    "fused",
    "unfused",
)
_MOST_DETAILS: Final = 6
_MOST_SEGMENTS: Final = 40
"""For so many rows, those that cost most, `delta_segments` is computed."""
_MOST_READERS: Final = 8
"""At most so many instructions of a row count in `delta_segments`. The users of one with more users do not count."""


class Change(NamedTuple):
    """A change, or several that are alike. The numbers `delta_…` say how much more the second module has."""

    kind: str
    """`added`, `removed`, `changed` or `moved`."""
    what: tuple[str, ...]
    """In what respect: `copy`, `layout`, `element type`, `donation`, …"""
    opcode: Opcode | UnknownOpcode | str
    """The opcode in the second module, or else in the first one; `module` or `computation` for a change of these."""
    a: str | None
    """The name of the instruction in the first module; None where it is not there."""
    b: str | None
    """The name of the instruction in the second module; None where it is not there."""
    times: int
    """How many changes the row stands for. Its numbers are their sums."""
    details: str
    """The values before and after, such as `layout {1,0} → {0,1}`."""
    delta_bytes: int = 0
    delta_padding_bytes: int = 0
    delta_bytes_read: int = 0
    delta_bytes_written: int = 0
    delta_copies: int = 0
    delta_copy_bytes: int = 0
    delta_collectives: int = 0
    delta_collective_bytes: int = 0
    delta_fusions: int = 0
    delta_instructions: int = 0
    delta_flops: int | None = 0
    """None where the FLOPs of an instruction are not known."""
    delta_segments: float | None = None
    """How many more segments of memory (the pieces in which a GPU fetches it) one read of a warp touches, summed over
    the operands of instructions that both modules have, and over the users of these. None where that is 0 or not known.
    """
    runs: int = 1
    """How often the instruction runs in one run of its module, in the module in which it runs more often."""
    shape: Shape | None = None
    """The shape in the second module; in the first one, if the instruction is in that alone."""
    source: str | None = None
    """The line of the user's code, of the second module, or else of the first one."""
    op_name: str | None = None
    source_a: str | None = None
    op_name_a: str | None = None
    source_b: str | None = None
    op_name_b: str | None = None
    names: tuple[tuple[str | None, str | None], ...] = ()
    """The names of all instructions that the row is about, in pairs: of the first and of the second module."""
    nodes: tuple[Member, ...] = ()
    """The instructions of `names`, each by the index of its computation and its index in that computation."""

    @property
    def delta(self) -> Measures:
        """The numbers `delta_…` that add up: all but `delta_segments`. FLOPs that are not known are 0."""
        return Measures(
            self.delta_instructions,
            self.delta_fusions,
            self.delta_copies,
            self.delta_copy_bytes,
            self.delta_collectives,
            self.delta_collective_bytes,
            self.delta_bytes,
            self.delta_padding_bytes,
            self.delta_bytes_read,
            self.delta_bytes_written,
            self.delta_flops or 0,
        )

    @property
    def cost(self) -> int:
        """The number of bytes by which changes are ranked: by how much the bytes of buffers differ, plus by how much
        those do that are read, written and exchanged in all runs (or those that copies move, if that is more).
        """
        moved = abs(self.delta_bytes_read) + abs(self.delta_bytes_written) + abs(self.delta_collective_bytes)
        return abs(self.delta_bytes) + max(moved, abs(self.delta_copy_bytes))


class _Group:
    """Changes that are alike, and the sums of their numbers."""

    def __init__(self, order: int, change: Change) -> None:
        self.order = order
        self.first = change
        self.times = 0
        self.delta = NOTHING
        self.has_flops = True
        self.names: list[tuple[str | None, str | None]] = []
        self.nodes: list[Member] = []

    def add(self, change: Change) -> None:
        self.times += 1
        self.delta = self.delta.plus(change.delta)
        self.has_flops &= change.delta_flops is not None
        self.names += change.names
        self.nodes += change.nodes

    def row(self) -> Change:
        return _with_delta(self.first, self.delta, has_flops=self.has_flops)._replace(
            times=self.times, names=tuple(self.names), nodes=tuple(self.nodes)
        )


def _with_delta(change: Change, delta: Measures, *, has_flops: bool) -> Change:
    made = change._replace(**{f"delta_{name}": value for name, value in delta._asdict().items()})
    return made if has_flops else made._replace(delta_flops=None)


def changes(a: Side, b: Side, units: Iterable[Unit], module_aspects: Iterable[Aspect]) -> tuple[Change, ...]:
    """The rows for `units`, the costliest first, then one for each aspect in which the modules themselves differ."""
    groups: dict[object, _Group] = {}
    for unit in units:
        change = _change(a, b, unit)
        # Changes are alike if they are equal in everything but names and lines of source.
        key = (
            change.kind,
            change.what,
            str(change.opcode),
            change.details,
            change.delta,
            change.runs,
            len(unit.members),
            str(change.shape),
        )
        group = groups.get(key)
        if group is None:
            group = groups[key] = _Group(len(groups), change)
        group.add(change)
    made = [(group.row(), group.order) for group in groups.values()]
    made.sort(key=lambda each: (_rank(each[0]), each[1]))
    segments = _Segments(a, b)
    rows = [
        row._replace(delta_segments=segments.delta(row)) if number < _MOST_SEGMENTS else row
        for number, (row, _) in enumerate(made)
    ]
    for aspect in module_aspects:
        rows.append(_module_change(a, b, aspect))
    return tuple(rows)


class _Segments:
    """Compares how many segments of memory are read by changed instructions and by the users of their results."""

    def __init__(self, a: Side, b: Side) -> None:
        self._sides = a, b
        self._analyses = Analysis(), Analysis()
        self._known: dict[tuple[int, NodeId], dict[int, float] | None] = {}

    def delta(self, row: Change) -> float | None:
        """`Change.delta_segments` of a row."""
        pairs = [(one, other) for one, other in row.nodes[: len(row.nodes) // row.times] if one and other]
        total = 0.0
        for one, other in pairs[:_MOST_READERS]:
            nodes = one, other
            if any(node[0] not in side.measures.executed for side, node in zip(self._sides, nodes, strict=True)):
                continue
            own = [self._reads(side, node) for side, node in enumerate(nodes)]
            before, after = own
            if before is None or after is None:
                return None
            total += sum(after.values()) - sum(before.values())
            users = [
                [(node[0], user, position) for user, position in side.computations[node[0]].users(node[1])]
                for side, node in zip(self._sides, nodes, strict=True)
            ]
            if len(users[0]) != len(users[1]) or len(users[0]) > _MOST_READERS:
                continue
            for number, (computation, user, position) in [(n, each) for n in (0, 1) for each in users[n]]:
                found = self._reads(number, (computation, user))
                if found is None:
                    return None
                total += found.get(position, 0.0) * (1 if number else -1)
        return round(total, 3) or None

    def _reads(self, number: int, node: NodeId) -> dict[int, float] | None:
        """Number of an operand → the segments that a read of it touches. Empty for an instruction that reads no memory;
        None where they are not known. `number` is 0 for module a, 1 for b.
        """
        if (number, node) not in self._known:
            view = self._sides[number].computations[node[0]].instructions[node[1]]
            found: dict[int, float] | None = {}
            if view.operands and operation_of(view.opcode).traffic is not MemoryTraffic.NOTHING:
                try:
                    found = self._of(view, self._analyses[number])
                except XlashapeError as error:
                    if is_of_budget(error):
                        raise
                    found = None
            self._known[number, node] = found
        return self._known[number, node]

    def _of(self, view: HloInstruction, analysis: Analysis) -> dict[int, float] | None:
        found: dict[int, float] = {}
        for output in instruction_reads(view, analysis=analysis):
            for operand in output.operands:
                for access in operand.accesses:
                    if access.segments is None:
                        return None
                    found[operand.operand] = found.get(operand.operand, 0.0) + access.segments
        return found


def _rank(change: Change) -> tuple[int, int, int]:
    return -change.cost, -abs(change.delta_flops or 0), _KINDS[change.kind]


def _module_change(a: Side, b: Side, aspect: Aspect) -> Change:
    names = (a.module.name, b.module.name)
    return Change("changed", (aspect.word,), "module", *names, 1, str(aspect), names=(names,))


def _change(a: Side, b: Side, unit: Unit) -> Change:
    """The row for one unit."""
    one, other = unit.leading or _costliest(a, b, unit.members)
    left, right = _view(a, one), _view(b, other)
    known = right or left
    assert known is not None
    words = list(unit.words)
    only_words = [word for word in words if word in _FUSION_WORDS]
    if only_words:
        words = [*only_words, *[word for word in words if word not in only_words and word != "operands"]]
    kind = "changed"
    if not any(x is not None and y is not None for x, y in unit.members):
        kind = (
            "added"
            if all(x is None for x, _ in unit.members)
            else "removed"
            if all(y is None for _, y in unit.members)
            else "changed"
        )
    elif unit.kind is not None and not only_words:
        kind = unit.kind
        words = [word for word in words if word != "operands"]
    elif words == ["moved"] and (left is None or right is None):
        # The instructions have moved into a call that is new, or out of a call that is gone.
        kind, words = ("added", ["outlined"]) if left is None else ("removed", ["inlined"])
    elif words == ["moved"]:
        kind, words = "moved", []
    if left is None or right is None:
        if not only_words and kind == "changed":
            words = words or ["replaced"]
        words = [*_nature(b if right else a, other or one, known, is_new=right is not None), *words]
    details = [str(aspect) for aspect in unit.aspects.get((one, other), [])]
    if not details:
        details = [str(aspect) for found in unit.aspects.values() for aspect in found]
    if only_words:
        details.insert(0, _members_text(a, b, unit.members))
    rest = len(details) - _MOST_DETAILS
    text = ", ".join(list(dict.fromkeys(details))[:_MOST_DETAILS]) + (f", and {rest} more" if rest > 0 else "")
    names = tuple([(_name(a, x), _name(b, y)) for x, y in unit.members])
    source_a, op_name_a = _origin(left)
    source_b, op_name_b = _origin(right)
    made = Change(
        kind,
        tuple(dict.fromkeys(words)),
        known.opcode,
        _name(a, one),
        _name(b, other),
        1,
        text,
        runs=max(_runs(a, one), _runs(b, other)),
        shape=known.shape,
        source=source_b or source_a,
        op_name=op_name_b or op_name_a,
        source_a=source_a,
        op_name_a=op_name_a,
        source_b=source_b,
        op_name_b=op_name_b,
        names=names,
        nodes=tuple(unit.members),
    )
    return _with_delta(made, unit.delta, has_flops=_has_flops(a, b, unit.members))


def _has_flops(a: Side, b: Side, members: Iterable[Member]) -> bool:
    for number, side in enumerate((a, b)):
        unknown = side.measures.unknown
        if unknown is None or (unknown and any(member[number] in unknown for member in members)):
            return False
    return True


def _runs(side: Side, node: NodeId | None) -> int:
    return 0 if node is None else side.measures.times.get(node[0], 1)


def _members_text(a: Side, b: Side, members: Iterable[Member]) -> str:
    """The fusions of a change, before and after, such as `fusion.1 → fusion.1, fusion.2`."""
    sides: list[str] = []
    for side, nodes in ((a, [x for x, _ in members]), (b, [y for _, y in members])):
        names = [
            side.computations[node[0]].name(node[1])
            for node in nodes
            if node is not None and side.computations[node[0]].opcode(node[1]) == Opcode.FUSION
        ]
        sides.append(", ".join(names[:4]) + (", …" if len(names) > 4 else "") or "no fusion")
    return " → ".join(sides)


def _nature(side: Side, node: NodeId | None, view: HloInstruction, *, is_new: bool) -> list[str]:
    """Words of the column `what` for an added or removed instruction: `copy`, `collective`, `recomputed`."""
    row = operation_of(view.opcode)
    words: list[str] = []
    if view.opcode in (Opcode.COPY, Opcode.COPY_START) or (node and side.measures.of[node[0]][node[1]].copies):
        words.append("copy")
    if row.exchanges_with_replicas:
        words.append("collective")
    is_value = view.operands and not row.moves_no_data
    if node and is_value and is_new and side.computes_again(*node):
        words.append("recomputed")
    return words


def _costliest(a: Side, b: Side, members: list[Member]) -> Member:
    def cost(member: Member) -> int:
        one, other = member
        before = a.measures.of[one[0]][one[1]] if one else NOTHING
        after = b.measures.of[other[0]][other[1]] if other else NOTHING
        return sum(map(abs, after.minus(before)))

    return members[0] if len(members) == 1 else max(members, key=cost)


def _view(side: Side, node: NodeId | None) -> HloInstruction | None:
    return None if node is None else side.computations[node[0]].instructions[node[1]]


def _name(side: Side, node: NodeId | None) -> str | None:
    return None if node is None else side.computations[node[0]].name(node[1])


def _origin(view: HloInstruction | None) -> tuple[str | None, str | None]:
    if view is None:
        return None, None
    metadata = view.metadata
    return metadata.source or None, metadata.op_name or None
