"""`copies`: finds the movers of a module, which are the instructions that only move data, and explains each."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

from xlashape.errors import InvalidArgumentError, NotFoundError
from xlashape.hlo import HloModule
from xlashape.hlo.files.module_of import compiled
from xlashape.hlo.flow import Flow
from xlashape.hlo.module_proto.shown_frames import showing_frames
from xlashape.limits import INT64_MAX
from xlashape.reports.copies.answer import Copies, Copy, CopySuggestion
from xlashape.reports.copies.causes import Ends, cause_of, ends_of, source_text, taker_text
from xlashape.reports.copies.edits import Edit, Removal, excluding, matched_by_jax, removal_of, removal_text
from xlashape.reports.copies.movers import Mover, layout_of, movers_of
from xlashape.reports.copies.pass_dumps import Dump, Inserted, dumps_beside, inserted_by, one_of
from xlashape.reports.copies.stacks import Stacks
from xlashape.reports.copies.times import Moved, Times, executions, moved_by
from xlashape.reports.program import early_notes, loop_notes, program

_LONGEST_PATH = 4096
"""Text of as many characters or more is no path."""
_SHARED_FROM = 8
"""Tuples of more edits than this are compared by identity, which is quicker: the rows with the same long list of
donations share one tuple, which `matched_by_jax` gives them.
"""
_MOST_REPORT_BYTES = 1 << 24
"""As much is read of a file that may be a report about memory that has run out."""
_LABEL = re.compile(
    r"XLA label: %?(?P<name>[\w.\-]+) = (?P<shape>\S+) (?P<opcode>copy|transpose|reshape)"
    r"\((?P<operand>\S+) %?(?P<from>[\w.\-]+)\)(?P<rest>[^\n]*)"
)


def copies(
    x: Any,
    *args: Any,
    passes: str | os.PathLike[str] | None = None,
    frames: str | None = None,
    strict: bool = False,
    **kwargs: Any,
) -> Copies:
    """The executed instructions of a compiled program that move data and compute nothing: the bytes of each, why it is
    there, and what removes it.

    x: what `HloModule.of` takes: a module, a file, a directory of dumps with one module, text, bytes, a Compiled of
    JAX. A Lowered, or a jitted function with the arguments to lower it with (`args`, `kwargs`), is compiled first. `x`
    may also be a compiler's report about memory that has run out, as text or in a file: then the rows are the copies in
    its lines `XLA label: …`, and what makes and uses their data is not known.
    passes: a directory, or one of the files, of dumps after passes (`--xla_dump_hlo_pass_re=.*`), from which
    `pass_name` says which pass inserted an instruction. None is the directory of the file `x`.
    frames: with "all", `source` names every frame that called an operation, and not the line of the user's own code
    alone.
    strict: refuse text that is no module as it stands (`xlashape.hlo.files.forgiving`).

    Sizes are in bytes, with the padding of tiles. Raises as `HloModule.of` does; NotFoundError if `passes` has no
    dumps of the module, InvalidArgumentError if it is no path.

    >>> text = '''HloModule m
    ... ENTRY e { x = s32[4096,8,4]{0,2,1:T(4,128)} parameter(0) ROOT c = s32[4096,8,4]{2,1,0:T(8,128)} copy(x) }'''
    >>> row = copies(text).rows[0]
    >>> row.bytes_read, row.bytes_written, row.bytes_written // row.bytes_read
    (524288, 16777216, 32)
    """
    path = _path_of(x)
    if path is not None and path.is_dir():
        path = one_of(path)
    report = _report_text(x, path)
    if report is not None:
        return _copies_of_labels(report)
    module = program(path if path is not None else compiled(x, args, kwargs), strict=strict)
    with showing_frames(frames):
        return _copies_of(module, path, passes)


def _copies_of(module: HloModule, path: Path | None = None, passes: str | os.PathLike[str] | None = None) -> Copies:
    dumps = _dumps(path, passes, module.name)
    flow = Flow(module)
    times, trips = executions(flow)
    movers = list(movers_of(module))
    inserted = _inserted(movers, dumps)
    ends = [ends_of(flow, mover) for mover in movers]
    stacks = Stacks(module, flow, movers)
    removals = [
        stacks.removal(mover, each) or removal_of(flow, mover, each) for mover, each in zip(movers, ends, strict=True)
    ]
    removals = excluding(movers, matched_by_jax(flow, removals))
    edits = {id(each.edits): each.edits for each in removals if each is not None}
    texts = {key: removal_text(module, each) for key, each in edits.items()}  # many rows share long lists of edits
    moved: dict[tuple[object, ...], Moved] = {}
    found = [
        (_row(flow, stacks, mover, each, removal, times, moved, inserted, texts), removal)
        for mover, each, removal in zip(movers, ends, removals, strict=True)
    ]
    found.sort(key=lambda each: -(each[0].total_bytes or 0))
    rows = tuple([row for row, _ in found])
    loops = [each for each, count in trips.items() if count is None]
    is_exact = not any(times[mover.row.computation].is_lower_bound for mover in movers)
    notes = (*module.notes, *early_notes(module), *loop_notes([] if is_exact else loops))
    return Copies(module.name, rows, _suggestions(found, texts), bool(dumps), module).with_notes(notes)


def _report_text(x: Any, path: Path | None) -> str | None:
    """The text of a compiler's report about memory that has run out, if `x` is one or `path` has one; else None."""
    text = x if isinstance(x, str) else ""
    if path is not None and path.is_file():
        with path.open("rb") as file:
            text = file.read(_MOST_REPORT_BYTES).decode("utf-8", "replace")
    return text if "XLA label:" in text and not text.lstrip().startswith("HloModule") else None


def _copies_of_labels(text: str) -> Copies:
    """The copies that a report about memory that has run out shows. It does not show what makes and uses their data."""
    labels = {match["name"]: match for match in _LABEL.finditer(text)}
    lines: list[str] = []
    for number, (name, match) in enumerate(labels.items()):
        rest = match["rest"].strip().rstrip("\\")
        lines.append(f"operand.{number} = {match['operand']} parameter({number})")
        lines.append(f"{name} = {match['shape']} {match['opcode']}(operand.{number}){rest}")
    names = ", ".join([*labels])
    shapes = ", ".join([match["shape"] for match in labels.values()])
    found = _copies_of(
        HloModule.parse(
            f"HloModule report\nENTRY e {{\n{chr(10).join(lines)}\nROOT labels = ({shapes}) tuple({names})\n}}"
        )
    )
    unknown = "transpose once where the array is made, outside of loops, and keep it so"
    rows = [
        row._replace(
            forced_by=None,
            producer=labels[row.name]["from"],
            consumer=None,
            cause=_without_neighbours(row.cause),
            suggestion=unknown if row.cause_kind == "relayout" else None,
            saved_bytes=None,
            is_exact=None,
        )
        for row in found.rows
    ]
    return Copies("", tuple(rows), (), False, None)


def _path_of(x: Any) -> Path | None:
    """The file or the directory that `x` names; None where `x` is something else."""
    if isinstance(x, os.PathLike):
        return Path(cast("os.PathLike[str]", x))
    if isinstance(x, str) and 0 < len(x) < _LONGEST_PATH and not any(mark in x for mark in "\n{\0"):
        path = Path(x)
        return path if path.is_dir() or path.is_file() else None
    return None


def _dumps(path: Path | None, passes: str | os.PathLike[str] | None, module: str) -> list[Dump]:
    """The dumps after passes of the module named `module`. path: the module's file, if it came from one."""
    if passes is None:
        return [] if path is None else dumps_beside(path)
    try:
        place = Path(passes)
        if path is not None and place.is_dir() and dumps_beside(place / path.name):
            return dumps_beside(place / path.name)
        found = dumps_beside(_one_of_module(place, module) if place.is_dir() else place)
    except (OSError, TypeError, ValueError):
        raise InvalidArgumentError(f"passes takes a directory or a file, not {passes!r:.200}", field="passes") from None
    if not found:
        raise NotFoundError(
            f"{str(place)!r} has no dumps after passes of module {module!r}: make them with "
            "XLA_FLAGS='--xla_dump_to=DIR --xla_dump_hlo_pass_re=.*'",
            kind="file",
            name=str(place),
        )
    return found


def _one_of_module(directory: Path, module: str) -> Path:
    """The last dump of the module named `module`, if the directory has dumps of exactly one module of this name; else
    the file of its optimized module.
    """
    named = sorted([each for each in directory.glob("module_*.after_*") if f".{module}." in each.name])
    numbers = {each.name.partition(".")[0] for each in named}
    return named[-1] if len(numbers) == 1 else one_of(directory)


def _inserted(movers: Sequence[Mover], dumps: Sequence[Dump]) -> dict[str, Inserted]:
    """Name of `Mover.inner` → the pass that inserted it, where the dumps show it."""
    if not dumps or not movers:
        return {}
    inner = {mover.inner.name: mover.inner for mover in movers}
    return inserted_by(dumps, [(name, str(each.opcode), each.shape) for name, each in inner.items()])


def _row(
    flow: Flow,
    stacks: Stacks,
    mover: Mover,
    ends: Ends,
    removal: Removal | None,
    times: dict[Any, Times],
    moved: dict[tuple[object, ...], Moved],
    inserted: dict[str, Inserted],
    texts: dict[int, str],
) -> Copy:
    row, inner = mover.row, mover.inner
    cause = stacks.cause(mover, ends, cause_of(flow, mover, ends))
    executed = times[row.computation]
    read, written, size, total = moved_by(mover, executed, moved)
    known = inserted.get(inner.name)
    is_known = known is not None and known.is_exact
    before, after = mover.source_shape, mover.result_shape
    line, op_name = _origin(mover, ends)
    few = after is not None and after.rank == 0  # a counter's copy is worth no edit
    advice = texts[id(removal.edits)] if removal is not None else "" if few else cause.advice
    return Copy(
        name=mover.shown.name,
        opcode=mover.shown.opcode,
        cause_kind=cause.kind,
        total_bytes=total,
        bytes=size,
        bytes_read=read,
        bytes_written=written,
        times=executed.number,
        times_bound=executed.bound,
        from_layout=None if before is None else layout_of(before),
        to_layout=None if after is None else layout_of(after),
        shape=after,
        forced_by=cause.forced_by,
        producer=source_text(ends),
        consumer=None if mover.computes else taker_text(ends) or None,
        source=line,
        op_name=op_name,
        pass_name=known.pass_name if is_known and known is not None else None,
        inferred_pass=cause.inferred_pass,
        is_inferred=not is_known,
        stage=(known.stage or None) if is_known and known is not None else None,
        computation=row.computation.name,
        mover=inner.name,
        movers=tuple([each.name for each in mover.all_inner]),
        computes=mover.computes,
        cause=cause.text,
        suggestion=advice or None,
        saved_bytes=total if removal is not None else None,
        is_exact=None if removal is None else removal.is_exact,
    )


def _origin(mover: Mover, ends: Ends) -> tuple[str | None, str | None]:
    """The line and the operation of the program that a mover comes from: those in its own metadata, else those of its
    users, else those of the instruction that makes its data.
    """
    line = name = None
    for each in (mover.inner, mover.row, *[use.user for use in ends.uses], ends.source.instruction):
        if each.metadata_bytes:
            metadata = each.metadata
            name = name or metadata.op_name or None
            line = line or metadata.source
            if line and name:
                break
    return line, name


def _suggestions(found: Sequence[tuple[Copy, Removal | None]], texts: dict[int, str]) -> tuple[CopySuggestion, ...]:
    """A suggestion for each set of edits, with the copies that the whole set or a part of it removes."""
    groups: dict[int | frozenset[Edit], tuple[Edit, ...]] = {}
    for _, removal in found:
        if removal is not None:
            key = id(removal.edits) if len(removal.edits) > _SHARED_FROM else frozenset(removal.edits)
            groups.setdefault(key, removal.edits)
    by_edit: dict[Edit, list[tuple[Copy, Removal]]] = {}
    for row, removal in found:
        if removal is not None:
            by_edit.setdefault(removal.edits[0], []).append((row, removal))
    made: list[CopySuggestion] = []
    for edits in groups.values():
        wanted = frozenset(edits)
        rows = [
            (row, removal)
            for edit in edits
            for row, removal in by_edit.get(edit, ())
            if removal.edits is edits or wanted.issuperset(removal.edits)
        ]
        made.append(
            CopySuggestion(
                text=texts[id(edits)],
                kinds=tuple([edit.kind for edit in edits]),
                saved_bytes=min(sum([row.total_bytes or 0 for row, _ in rows]), INT64_MAX),
                copies=len(rows),
                removes=tuple([row.name for row, _ in rows]),
                is_exact=all(removal.is_exact for _, removal in rows),
                edits=tuple([edit.short for edit in edits]),
            )
        )  # fmt: skip
    return tuple(sorted(made, key=lambda each: -each.saved_bytes))


def _without_neighbours(cause: str) -> str:
    """A cause without the names of what makes and uses the data, which a report about memory does not show."""
    before, comes, rest = cause.partition(", it comes from parameter")
    after = rest.partition(", it goes to output {")[2].partition("}")
    return before + after[2] if comes and after[1] else cause
