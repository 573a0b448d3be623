"""The program that a report about one program is asked of, as people have it in hand."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from io import IOBase
from pathlib import Path
from typing import Any, Final, cast

from xlashape.base.pasted import clean, searched
from xlashape.errors import DeadlineExceededError, DecodeError, LimitExceededError, ParseError, XlashapeError
from xlashape.hlo.files.convert import decompressed
from xlashape.hlo.files.forgiving import mended
from xlashape.hlo.files.module_of import is_path
from xlashape.hlo.module import HloInstruction, HloModule
from xlashape.hlo.ops.opcode import Opcode
from xlashape.reports.oom_text import is_report, read_totals
from xlashape.reports.why.compiler_messages import read_messages

MOST_SEARCHED: Final = 4 << 20
"""The characters at the beginning of a text in which messages, computations and shapes are searched. The search takes a
third of a second; in 60 million characters it would take seven seconds, and no other thread runs meanwhile.
"""
_EARLY: Final = (
    "The module has no schedule and no fusion, as before XLA's optimizations: bytes moved, copies, reads and "
    "temporaries are those of its instructions one by one, and not of what runs. Dump the module after optimizations "
    "for these."
)


def program(
    x: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None, *, strict: bool = False
) -> HloModule:
    r"""The module in whatever `HloModule.of` takes. Unless `strict`, text that is no module is read as
    `xlashape.hlo.files.forgiving` says; the `notes` of the module say what was left out or assumed. Raises what
    `HloModule.of` raises.

    >>> program("%a.2 = f32[4]{0} add(f32[4]{0} %x, f32[4]{0} %x)\n%b = f32[4]{0} negate(%a.2)").notes
    ('x is not defined: it is a parameter of the shape beside it.',)
    """
    start = x.tell() if not strict and isinstance(x, IOBase) and x.seekable() else None
    try:
        return HloModule.of(x, *args, **(kwargs or {}))
    except (ParseError, DecodeError) as error:
        error.__traceback__ = None  # its frames hold the text
        if start is not None:
            x.seek(start)
            x = x.read()
        text = None if strict else _text_of(x)
        if text is None:
            raise
        text, notes = searched(text)
        if is_message(text):
            raise DecodeError("this is a report about memory, which `why` explains") from None
        module = _mended(text)
        if module is None:
            raise error
        module.notes = (*notes, *module.notes)
        return module


def is_early(module: HloModule) -> bool:
    """Whether a module is as XLA has it before its optimizations: without a schedule and without a fusion."""
    return not module.head.HasField("schedule") and all(
        each.kind.opcode is not Opcode.FUSION for each in module.instructions()
    )


def early_notes(module: HloModule) -> tuple[str, ...]:
    """The note of reports whose numbers are not those of the compiled program, for a module that `is_early`. Of a part
    of a text, which has notes of its own, that is not known."""
    return (_EARLY,) if is_early(module) and not module.notes else ()


def loop_notes(loops: Sequence[HloInstruction]) -> tuple[str, ...]:
    """The note of reports whose totals count one iteration of these loops, of which nothing says how often they run.

    >>> loop = HloModule.parse(
    ...     "c { s = s32[] parameter(0) ROOT t = pred[] constant(true) } b { ROOT s = s32[] parameter(0) } "
    ...     "ENTRY e { p = s32[] parameter(0) ROOT w = s32[] while(p), condition=c, body=b }"
    ... ).instruction("w")
    >>> loop_notes([loop])
    ('It is not known how often the loop w runs: one iteration counts in every total.',)
    """
    if not loops:
        return ()
    first = f"{loops[0].name}{f' ({source})' if (source := loops[0].metadata.source) else ''}"
    which = (
        f"the loop {first} runs: one iteration"
        if len(loops) == 1
        else (f"{len(loops):,} loops run, such as {first}: one iteration of each")
    )
    return (f"It is not known how often {which} counts in every total.",)


def is_message(text: str) -> bool:
    """Whether a text is what a compiler or an allocator says about memory that has run out."""
    cleaned = clean(text[:MOST_SEARCHED])
    return is_report(cleaned) or read_totals(cleaned) is not None or read_messages(cleaned) is not None


def mends(text: str) -> HloModule | None:
    """The module of a text that is none as it stands but holds lines of HLO; None where it holds none."""
    return None if is_message(text) else _mended(text)


def _mended(text: str) -> HloModule | None:
    for made in mended(text):
        try:
            # Without the values that a text elides: nobody asked for them, and they may take 256 MB for a line.
            module = HloModule.parse(made.text, elided_values=False)
        except (LimitExceededError, DeadlineExceededError):
            raise
        except XlashapeError:
            continue
        module.notes, module.is_part = made.notes, made.is_part
        return module
    return None


def _text_of(x: Any) -> str | None:
    """The text that a value or a file holds; None where it holds something else."""
    if isinstance(x, (list, tuple)) and len(cast("Sequence[Any]", x)) == 1:
        return _text_of(x[0])
    if isinstance(x, os.PathLike) or (isinstance(x, str) and is_path(x)):
        try:
            x = Path(cast("str", x)).read_bytes()
        except OSError:
            return None
    if isinstance(x, str):
        return x
    if not isinstance(x, (bytes, bytearray, memoryview)):
        return None
    content = decompressed(bytes(cast("bytes", x)))
    if b"\0" in content:
        return None
    return content.decode("utf-8-sig", "replace")
