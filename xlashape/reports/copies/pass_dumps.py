"""Which pass of the compiler inserted an instruction, from the modules that XLA dumped after its passes:
`--xla_dump_to=DIR --xla_dump_hlo_pass_re=.*`.

A dump is named `module_NNNN.NAME.SSSS.PIPELINE.after_P.before_Q.txt`, with `.hlo.pb` for protos and `.gz` where it is
compressed; the stages of copy insertion have no `before_Q`. An instruction is followed back from the last dump to the
first, and to the module in the file `before_optimizations`. In an older dump the same instruction has the same name,
opcode and sizes. Passes may rename it (a fusion clones its instructions): then it has the same opcode and shape, and a
name that the newer dump lacks. Where the older dump has no such instruction, the pass between the two dumps inserted
it.

It is certain which pass inserted an instruction (`is_exact`) if the older dump is the module right before the pass.
That is so if its name says it (`before_P`), or if XLA dumped the module after every pass that changed it. Whether XLA
did so is in `*.debug_options` beside the dumps; without that file, it is assumed where the dumps show the beginnings of
at least three pipelines.
"""

from __future__ import annotations

import gzip
import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from xlashape.errors import InvalidArgumentError, NotFoundError, XlashapeError
from xlashape.hlo import HloModule
from xlashape.hlo.files.dumps import module_files
from xlashape.hlo.ops.registry import operation_of
from xlashape.hlo.tokens import without_comments
from xlashape.limits import MAX_TEXT_CHARACTERS, spend
from xlashape.shape import Shape

_NAME: Final = re.compile(
    r"(?P<module>.+?)\.(?P<number>\d{4})\.(?P<pipeline>.+?)\.after_(?P<after>.+?)(?:\.before_(?P<before>.+?))?\.(?:txt|hlo|hlo\.pb|pb)(?:\.gz)?$"
)
_OPTIMIZED: Final = re.compile(r"(?P<module>.+?)\.(?:\w*after_optimizations)\.(?:txt|hlo|hlo\.pb|pb)(?:\.gz)?$")
_BEFORE: Final = re.compile(r"(?P<module>.+?)\.before_optimizations\.(?:txt|hlo|hlo\.pb|pb)(?:\.gz)?$")
_LINE: Final = re.compile(
    r"^[ \t]{0,200}(?:ROOT )?%?(?P<name>[\w.\-]+) = (?P<shape>\(.*?\)|\S+) (?P<opcode>[a-z][a-z0-9\-]*)\(", re.MULTILINE
)
_EXPRESSION: Final = re.compile(rb'xla_dump_hlo_pass_re: "((?:[^"\\]|\\.)*)"')
PROGRAM: Final = "program"
"""Named in place of a pass where an instruction was in the module before all passes."""
_COPY_INSERTION: Final = "copy-insertion"


class Dump(NamedTuple):
    """The module after a pass, in a file. The last four fields are those in the file's name."""

    path: Path
    number: int
    """The number of the dump; -1 for the module before all passes, whose pipeline and passes are empty."""
    pipeline: str
    after: str
    """The pass that has just run, the stage of copy insertion, or `pipeline-start`."""
    before: str
    """The pass that runs next; empty where the name of the file does not say it."""


class Inserted(NamedTuple):
    """The pass that inserted an instruction."""

    pass_name: str
    """`program` where the program has the instruction before all passes."""
    stage: str
    """The pipeline of the pass; for a stage of copy insertion also the stage. Empty for `program`."""
    is_exact: bool
    """Whether it is certain that this pass, and no other one, inserted the instruction."""


class _Instruction(NamedTuple):
    name: str
    opcode: str
    shape: str
    """The text of its shape, without spaces and comments."""


def one_of(directory: Path) -> Path:
    """The file of the optimized module in a directory of dumps. Raises InvalidArgumentError if there are several
    modules, NotFoundError if there is none.
    """
    found: dict[str, Path] = {}
    for path in module_files(directory):
        match = _OPTIMIZED.match(path.name)
        if match is not None:
            found.setdefault(match["module"], path)
    if not found:
        raise NotFoundError(
            f"{str(directory)!r} has no optimized module: files of this kind end in after_optimizations.txt or .hlo.pb",
            kind="module",
            name=str(directory),
        )
    if len(found) > 1:
        names = ", ".join([path.name for path in found.values()][:20])
        raise InvalidArgumentError(
            f"{str(directory)!r} has {len(found)} modules; pass one of the files: {names}", field="x"
        )
    return next(iter(found.values()))


def dumps_beside(path: Path) -> list[Dump]:
    """The dumps, in the folder of a file, of the module in that file: in the order of the passes, after the module
    before all passes. If the file is such a dump itself, the list ends with it. Empty where there are no dumps.
    """
    given = _NAME.match(path.name)
    optimized = _OPTIMIZED.match(path.name)
    if given is not None:
        module = given["module"]
    elif optimized is not None:
        module = optimized["module"]
    else:
        return []
    found: dict[int, Dump] = {}
    with suppress(OSError):
        for each in path.parent.iterdir():
            match = _BEFORE.match(each.name)
            if match is not None and match["module"] == module:
                found.setdefault(-1, Dump(each, -1, "", "", ""))
            match = _NAME.match(each.name)
            if match is not None and match["module"] == module:
                dump = Dump(each, int(match["number"]), match["pipeline"], match["after"], match["before"] or "")
                if given is None or dump.number <= int(given["number"]):
                    # Text is read in a third of the time of a proto.
                    if dump.number not in found or each.name.removesuffix(".gz").endswith(".txt"):
                        found[dump.number] = dump
    return [found[number] for number in sorted(found)] if max(found, default=-1) >= 0 else []


def inserted_by(dumps: Sequence[Dump], names: Iterable[tuple[str, str, Shape]]) -> dict[str, Inserted]:
    """Name of an instruction → the pass that inserted it. `names` has (name, opcode, shape) of the instructions.

    The last dump may be of the module that has these instructions, or of an earlier state of it: an instruction that
    was inserted later is left out of the result. Dumps that cannot be read are skipped.
    """
    pending = {name: _Instruction(name, opcode, _plain(str(shape))) for name, opcode, shape in names}
    found: dict[str, Inserted] = {}
    is_whole = _are_all(dumps)
    newer: Dump | None = None
    # Instructions that a pass between two dumps may have renamed, or that copy insertion may have inserted there.
    unsure: set[str] = set()
    newer_names = set(pending)
    for dump in reversed(dumps):
        if not pending:
            break
        try:
            here = _movers(dump.path)
        except (XlashapeError, OSError, EOFError):
            continue
        by_name = {each.name: each for each in here}
        gone: dict[tuple[str, str], str] = {}
        for each in here:
            if each.name not in newer_names:
                gone.setdefault((each.opcode, each.shape), each.name)
        for name, wanted in list(pending.items()):
            spend(1)
            same = by_name.get(wanted.name)
            if same is not None and same.opcode == wanted.opcode and _sizes(same.shape) == _sizes(wanted.shape):
                pending[name] = same
                continue
            renamed = gone.get((wanted.opcode, wanted.shape))
            is_next = newer is not None and _is_next(dump, newer, is_whole)
            has_new_copies = newer is not None and _COPY_INSERTION in (newer.pipeline, newer.after)
            if renamed is not None and not (is_next and has_new_copies):
                pending[name] = by_name[renamed]
                if has_new_copies:
                    unsure.add(name)
            elif newer is not None:
                found[name] = _insertion(newer, is_next and name not in unsure)
                del pending[name]
            else:
                del pending[name]  # inserted after the last dump: not known
        newer, newer_names = dump, set(by_name)
    for name in pending:
        if newer is not None:
            found[name] = Inserted(
                PROGRAM, "", name not in unsure and (newer.number < 0 or (newer.number == 0 and is_whole))
            )
    return found


def _is_next(older: Dump, newer: Dump, is_whole: bool) -> bool:
    """Whether only one pass ran between two dumps: the one after which the newer dump was written."""
    if newer.after == "pipeline-start" or older.number < 0:
        return False
    if newer.pipeline == _COPY_INSERTION:
        return is_whole or older.pipeline == _COPY_INSERTION or older.before == _COPY_INSERTION
    if newer.after == _COPY_INSERTION and older.pipeline == _COPY_INSERTION:
        return True
    return is_whole or (older.pipeline == newer.pipeline and older.before == newer.after)


def _insertion(newer: Dump, is_exact: bool) -> Inserted:
    """The pass after which a dump was written, as the one that inserted an instruction."""
    if newer.pipeline == _COPY_INSERTION:
        return Inserted(_COPY_INSERTION, f"{newer.pipeline}: {newer.after.replace('_', ' ')}", is_exact)
    return Inserted(newer.after, newer.pipeline, is_exact)


def _are_all(dumps: Sequence[Dump]) -> bool:
    """Whether the dumps are those of all passes that changed the module."""
    if not dumps:
        return False
    match = _NAME.match(dumps[-1].path.name)
    options = dumps[-1].path.parent / f"{'' if match is None else match['module']}.debug_options"
    with suppress(OSError):
        expression = _EXPRESSION.search(options.read_bytes())
        if expression is not None:
            return expression[1] in (b".*", b".+", b".")
    return len({dump.pipeline for dump in dumps if dump.after == "pipeline-start"}) >= 3


def _movers(path: Path) -> list[_Instruction]:
    """The instructions of a dump that may move data. Text is searched by lines, which takes a tenth of the time of
    reading a module."""
    found: list[_Instruction] = []
    if path.name.removesuffix(".gz").endswith((".txt", ".hlo")):
        text = _text(path)
        for match in _LINE.finditer(text):
            if operation_of(match["opcode"]).movement is not None:
                found.append(_Instruction(match["name"], match["opcode"], _plain(match["shape"])))
        spend(len(text) // 64)
        return found
    for computation in HloModule.load(path).computations:
        for instruction in computation.instructions:
            if instruction.kind.row.movement is not None:
                found.append(_Instruction(instruction.name, str(instruction.opcode), _plain(str(instruction.shape))))
        spend(len(computation.instructions))
    return found


def _text(path: Path) -> str:
    with gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb") as file:
        return file.read(MAX_TEXT_CHARACTERS).decode("utf-8", "replace")


def _plain(shape: str) -> str:
    return "".join(without_comments(shape).split())


def _sizes(shape: str) -> str:
    """The type and sizes of an array's text. Its layout is left out, since layout assignment changes the layouts of
    existing instructions."""
    return shape.partition("{")[0]
