"""Compares two profiles: which instructions became slower or quicker, and what changed in them.

Instructions of modules that both profiles know are joined as `diff` matches them, by structure and data flow, so that
another name is no change. All others, and those of several modules of one name, are joined by their names.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple, cast

from xlashape.base.tables import Column, ColumnKind
from xlashape.errors import XlashapeError
from xlashape.hlo import HloInstruction, HloModule
from xlashape.reports.diff.compare import diff
from xlashape.reports.diff.graph import sides
from xlashape.reports.diff.matching import NodeId, match
from xlashape.reports.diff.rows import Change
from xlashape.reports.profile.joined import Joined
from xlashape.reports.text import cell_text

_PS: Final = 1e-12

CHANGES: Final = (
    Column("name", ColumnKind.TEXT, "the instruction, in the later profile where both have it", rank=1),
    Column("a_name", ColumnKind.TEXT, "the name of the instruction in the earlier profile, where that is another", rank=6, heading="was"),
    Column("module", ColumnKind.TEXT, "the module of the instruction", rank=7),
    Column("opcode", ColumnKind.TEXT, "the opcode of the instruction", rank=5),
    Column("a_time", ColumnKind.NUMBER, "the time of the instruction in the earlier profile, without what runs within it; empty where that does not have it", "seconds", rank=2, heading="before"),
    Column("b_time", ColumnKind.NUMBER, "the time of the instruction in the later profile, likewise", "seconds", rank=2, heading="after"),
    Column("delta_time", ColumnKind.NUMBER, "how much slower it is in the later profile", "seconds", rank=1, heading="Δ time"),
    Column("a_count", ColumnKind.INTEGER, "how many events it has in the earlier profile"),
    Column("b_count", ColumnKind.INTEGER, "how often the instruction ran in the later profile"),
    Column("change", ColumnKind.TEXT, "what changed in it from one module to the other, in the words of `diff`; empty where nothing did or a module is not known", rank=3),
    Column("details", ColumnKind.TEXT, "the values before and after", rank=8),
    Column("source", ColumnKind.TEXT, "the line of the program that it comes from", rank=4),
    Column("per", ColumnKind.TEXT, "what the times are those of: a `step` where both profiles have marks of steps, else a `run` of its program where both have runs, else the whole `profile`"),
)  # fmt: skip


class TimeChange(NamedTuple):
    """The times of an instruction in two profiles, in seconds for each period that `per` names. `a_…` belongs to the
    first profile, `b_…` to the second; the values of a profile that does not have the instruction are None."""

    name: str
    """The name of the instruction, in the second profile where both have it."""
    module: str
    opcode: str
    a_time: float | None
    b_time: float | None
    delta_time: float
    """How much slower the instruction is in the second profile; below 0 where it is quicker."""
    a_count: int | None
    b_count: int | None
    """How many events the instruction has in each whole profile."""
    source: str
    a_name: str | None = None
    """The name of the instruction in the first profile, where the names differ."""
    change: str = ""
    """What changed in the instruction from one module to the other, in the words of `xlashape.diff`; empty where
    nothing did, or a module is not known."""
    details: str = ""
    """What had which value before and after the change, as `xlashape.diff` says it."""
    per: str = "step"
    """The period to which both times belong: a `step`, a `run` of the program, or the whole `profile`."""

    def __str__(self) -> str:
        before, after = ("absent" if each is None else _text(each) for each in (self.a_time, self.b_time))
        sign = "+" if self.delta_time > 0 else ""
        change = f": {self.change}" if self.change else ""
        return f"{self.name}: {before} → {after} ({sign}{_text(self.delta_time)}){change}"


def _text(seconds: float) -> str:
    return cell_text(CHANGES[4], seconds)


def changes_of(a: Sequence[Joined], b: Sequence[Joined], steps: tuple[int, int]) -> tuple[TimeChange, ...]:
    """What became slower or quicker from the instructions `a` of a profile to `b` of another, the largest change first.

    steps: how many marked steps each profile has. Times are divided by these. Where a profile has none, the times of a
    program are divided by its runs. Where the runs of some program are not known, times are those of the whole
    profiles.
    """
    before, after = _by_module(a), _by_module(b)
    runs = _runs(a), _runs(b)
    per = "step" if all(steps) else "run" if all(all(each.values()) for each in runs) else "profile"
    made: list[TimeChange] = []
    for module in {**before, **after}:
        parts = [count if per == "step" else of.get(module, 1) for count, of in zip(steps, runs, strict=True)]
        counts = (1, 1) if per == "profile" else (parts[0], parts[1])
        made += [
            each._replace(per=per) for each in _changes(module, before.get(module, {}), after.get(module, {}), counts)
        ]
    return tuple(sorted(made, key=lambda each: (-abs(each.delta_time), each.name)))


def _runs(rows: Sequence[Joined]) -> dict[str, int]:
    """How often each module ran; 0 where that is not known of one of its programs."""
    programs = {(each.module, each.program_id): each.runs for each in rows}
    found: dict[str, list[int]] = {}
    for (module, _), runs in programs.items():
        found.setdefault(module, []).append(runs)
    return {module: sum(counts) if all(counts) else 0 for module, counts in found.items()}


def _by_module(rows: Iterable[Joined]) -> dict[str, dict[str, list[Joined]]]:
    """The rows by the name of their module and, within that, by their own name."""
    found: dict[str, dict[str, list[Joined]]] = {}
    for row in rows:
        found.setdefault(row.module, {}).setdefault(row.name, []).append(row)
    return found


def _changes(
    module: str, a: dict[str, list[Joined]], b: dict[str, list[Joined]], steps: tuple[int, int]
) -> list[TimeChange]:
    """The changes of one module. `a` and `b` are its rows by name; `steps` are the numbers by which their times are
    divided."""
    module_a, module_b = _module_of(a), _module_of(b)
    differences = _Differences(module_a, module_b, {*a, *b}) if module_a is not None and module_b is not None else None
    made: list[TimeChange] = []
    taken: set[str] = set()
    for name, rows in b.items():
        other = name if differences is None else differences.name_in_a(name)
        earlier = a.get(other) if other is not None else None
        if earlier is not None and other is not None:
            taken.add(other)
        made.append(_change(name, module, earlier, rows, steps, other, differences))
    made += [
        _change(name, module, rows, None, steps, name, differences) for name, rows in a.items() if name not in taken
    ]
    return made


def _module_of(rows: dict[str, list[Joined]]) -> HloModule | None:
    """The module of these instructions; None where no module is known, or several have this name."""
    joined = [each for of_name in rows.values() for each in of_name]
    modules = [each.instruction.computation.module for each in joined if each.instruction is not None]
    found = {id(module): module for module in modules}
    programs = {each.program_id for each in joined}
    return cast("HloModule", next(iter(found.values()))) if len(found) == 1 == len(programs) else None


def _change(
    name: str,
    module: str,
    a: list[Joined] | None,
    b: list[Joined] | None,
    steps: tuple[int, int],
    a_name: str | None,
    differences: _Differences | None,
) -> TimeChange:
    """The change of one instruction. `a` and `b` are its rows, None in a profile that does not have it; `a_name` is its
    name in the first profile."""
    every = [*(b or ()), *(a or ())]
    times = [
        None if rows is None else sum([row.own for row in rows]) * _PS / count
        for rows, count in zip((a, b), steps, strict=True)
    ]
    counts = [None if rows is None else sum([row.count for row in rows]) for rows in (a, b)]
    found: list[Change] = []
    if differences is not None:
        found = differences.of_b(name) if b is not None else differences.of_a(name)
    words = dict.fromkeys([", ".join(each.what) or each.kind for each in found])
    if (
        differences is not None
        and (a is None) != (b is None)
        and not words
        and differences.is_known(name, in_a=b is None)
    ):
        words = {"not timed before" if a is None else "not timed after": None}
    return TimeChange(
        name,
        module,
        next((text for row in every if (text := row.opcode)), ""),
        times[0],
        times[1],
        (times[1] or 0.0) - (times[0] or 0.0),
        counts[0],
        counts[1],
        next((text for row in every if (text := row.source)), ""),
        a_name if a is not None and a_name != name else None,
        "; ".join(words),
        "; ".join(dict.fromkeys([each.details for each in found if each.details])),
    )


class _Differences:
    """The changes that `diff` finds between two modules, by the names of the instructions that have times."""

    def __init__(self, a: HloModule, b: HloModule, timed: set[str]) -> None:
        self._timed = timed
        self._nodes = _nodes(a), _nodes(b)
        self._by_node: tuple[dict[NodeId, list[Change]], dict[NodeId, list[Change]]] = {}, {}
        self._names_in_a: dict[str, str] | None = None
        try:
            matching = match(*sides(a, b))
            found = diff(a, b).changes
        except XlashapeError:  # modules that are too large to be compared are joined by names
            return
        names: dict[str, str] = {}
        for name, (instruction, (computation, place)) in self._nodes[1].items():
            other = matching.of_b[computation][place]
            if instruction.name == name and other is not None:
                names[name] = a.computations[other[0]].instructions[other[1]].name
        self._names_in_a = names
        for each in found:
            for pair in each.nodes:
                for side, node in zip(self._by_node, pair, strict=True):
                    if node is not None:
                        side.setdefault(node, []).append(each)

    def name_in_a(self, name: str) -> str | None:
        """The name in the first module of an instruction of the second; None where only that has it."""
        if self._names_in_a is None or name not in self._nodes[1]:
            return name
        return self._names_in_a.get(name)

    def is_known(self, name: str, *, in_a: bool) -> bool:
        """Whether the first module (`in_a`), or else the second, has an instruction of this name."""
        return name in self._nodes[0 if in_a else 1]

    def of_a(self, name: str) -> list[Change]:
        """The changes of an instruction of the first module, and of what runs within it."""
        return self._of(0, name)

    def of_b(self, name: str) -> list[Change]:
        """The changes of an instruction of the second module, and of what runs within it."""
        return self._of(1, name)

    def _of(self, side: int, name: str) -> list[Change]:
        known = self._nodes[side].get(name)
        if known is None:
            return []
        instruction, node = known
        found = list(self._by_node[side].get(node, ()))
        pending = list(instruction.called_computations)
        seen: set[int] = set()
        while pending:
            computation = pending.pop()
            # Instructions with times of their own have the changes in their own rows.
            if computation.index in seen or any(each.name in self._timed for each in computation.instructions):
                continue
            seen.add(computation.index)
            for place, each in enumerate(computation.instructions):
                found += self._by_node[side].get((computation.index, place), ())
                pending += each.called_computations
        return list({id(each): each for each in found}.values())


def _nodes(module: HloModule) -> dict[str, tuple[HloInstruction, NodeId]]:
    """Each instruction of a module and its place, by name. Of several of one name, that of the entry computation
    counts."""
    found: dict[str, tuple[HloInstruction, NodeId]] = {}
    for computation in module.computations:
        for place, instruction in enumerate(computation.instructions):
            if instruction.name not in found or computation is module.entry:
                found[instruction.name] = instruction, (computation.index, place)
    return found
