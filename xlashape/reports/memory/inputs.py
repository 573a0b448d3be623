"""The function `memory`: the inputs that it takes, and from where it gets the memory plan of each.

a dump NAME.hlo.pb with a buffer assignment, a profile          the assignment in it
jax.stages.Compiled, jaxlib's executables                       the assignment in their CompiledMemoryStats
a CompiledMemoryStats, a BufferAssignmentProto                  its assignment, without a module
NAME-buffer-assignment.txt, NAME-memory-usage-report.txt, …     the module NAME.hlo.pb or NAME.txt beside it; the
                                                                text where that module has no assignment
everything else that HloModule.of takes                         an estimate of its module
"""

from __future__ import annotations

import gzip
import os
import zlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple, cast

from google.protobuf.message import DecodeError as ProtobufDecodeError
from google.protobuf.message import Message

from xlashape.base.collector import collector_paused
from xlashape.errors import DecodeError, InvalidArgumentError, NotFoundError, XlashapeError
from xlashape.hlo.files.dumps import assignment_file, is_assignment_text
from xlashape.hlo.module import HloModule
from xlashape.limits import MAX_TEXT_CHARACTERS
from xlashape.proto import coerce, xla
from xlashape.reports.memory.answer import ProgramMemory
from xlashape.reports.memory.assignment import plan_of_assignment
from xlashape.reports.memory.liveness import plan_of_module
from xlashape.reports.memory.plan import Plan
from xlashape.reports.memory.texts import TextAssignment, read_text, read_usage_report
from xlashape.reports.memory.untraced import is_untraced, with_temporaries
from xlashape.reports.oom_text import is_report
from xlashape.reports.program import program
from xlashape.shape import Target

_MOST_OF_A_BEGINNING: Final = 200
_MOST_BYTES: Final = (1 << 31) - 1
_MOMENT: Final = (
    "The text has what lives at one moment alone: outputs that are made later are not counted, as they are in "
    "XLA's peak, and values that share memory count twice."
)
_OWN_SIZES: Final = (
    "The sizes are those of the compiler's assignment, not of {}: a target counts for modules without one, such as "
    "those before the optimizations."
)
_HOW_TO_DUMP: Final = (
    "XLA_FLAGS='--xla_dump_to=DIR --xla_dump_hlo_as_proto' writes DIR/….hlo.pb, whose assignment has the traces"
)


def memory(
    x: Any,
    *args: Any,
    space: int | None = None,
    target: Target | str | None = None,
    frames: str | None = None,
    strict: bool = False,
    **kwargs: Any,
) -> ProgramMemory:
    """The memory of a program: its peak, what lives then, and from which line it comes.

    `x` is a dump of XLA (`*.hlo.pb` with its buffer assignment), a text that XLA writes beside it, a Compiled of JAX, a
    BufferAssignmentProto, a profile (`FILE#MODULE` where it holds several), or anything else that `HloModule.of` takes;
    a jitted function is lowered with the arguments that follow. `strict` refuses text that is no module as it stands
    (`xlashape.hlo.files.forgiving`).
    Of a module without an assignment the peak is estimated: `is_estimate`, `lower_bytes`, `upper_bytes`. With `space`,
    XLA's number of a memory space, the answer is about that space alone. With a `target` that `why` takes, an estimate
    counts the bytes that arrays and tables of tuples take there; an assignment has the compiler's own sizes, whatever
    the target is. With `frames="all"`, `source` names every frame that called an operation, and not the line of the
    user's own code alone. Raises InvalidModuleError for an assignment that contradicts itself or its module,
    InvalidArgumentError for a target that does not exist, NotFoundError for a memory space in which nothing is, and
    what `HloModule.of` raises.

    >>> text = '''HloModule m, is_scheduled=true
    ... ENTRY e { p = f32[256] parameter(0) n = f32[256] negate(p) r = f32[256] reverse(n), dimensions={0}
    ... ROOT a = f32[256] add(n, r) }'''
    >>> answer = memory(text)
    >>> answer.is_estimate, answer.peak_bytes, [buffer.name for buffer in answer.peak_buffers]
    (True, 3072, ['a', 'p', 'r'])
    """
    if frames not in (None, "own", "all"):
        raise InvalidArgumentError(f"expected own or all, found {frames!r}", field="frames")
    device = None if target is None else Target.of(target)
    answer = _memory(x, args, kwargs, device, strict=strict)
    if device is not None and answer.target is None and answer is not x:
        notes = (*answer.notes[len(answer.plan.notes) :], _OWN_SIZES.format(device))
        answer = ProgramMemory(answer.plan, said_peak=answer.said_peak, notes=notes)
    if frames is not None:
        answer = answer.showing(frames)
    return answer if space is None else answer.in_space(space)


@collector_paused()
def _memory(
    x: Any, args: Sequence[Any], kwargs: Mapping[str, Any], target: Target | None, *, strict: bool
) -> ProgramMemory:
    if isinstance(x, ProgramMemory):
        return x
    if isinstance(x, Message) and x.DESCRIPTOR.full_name == "xla.BufferAssignmentProto":
        return ProgramMemory(plan_of_assignment(coerce(xla.BufferAssignmentProto, x), None))
    if isinstance(x, (str, os.PathLike)):
        answer = _of_path(os.fspath(x), target)
        if answer is not None:
            return answer
    elif isinstance(x, (bytes, bytearray, memoryview)):
        data = bytes(cast("bytes", x))
        if is_assignment_text(data):
            return _of_text(read_text(data.decode("utf-8", "replace"), "the text"), None, "the text")
    elif not isinstance(x, (HloModule, type, list, tuple)):
        stats = _stats_of(x)
        if stats is not None:
            return _of_stats(x, stats)
    try:
        module = program(x, args, kwargs, strict=strict)
    except XlashapeError as error:
        if _is_report(x):
            message = "this is a report about memory that has run out, and no program: `why` explains it"
            raise InvalidArgumentError(message, field="x") from error
        raise
    return _of_module(module, target)


def _is_report(x: Any) -> bool:
    """Whether text, or the text in a file, is a report about memory that has run out."""
    try:
        if isinstance(x, (str, os.PathLike)) and "\n" not in os.fspath(x):
            file = Path(os.fspath(x))
            x = file.read_bytes() if file.stat().st_size <= MAX_TEXT_CHARACTERS else b""
        if isinstance(x, (bytes, bytearray, memoryview)):
            x = bytes(cast("bytes", x)).decode("utf-8", "replace")
        return isinstance(x, str) and is_report(x)
    except (OSError, ValueError, TypeError, XlashapeError):
        return False


def _of_module(module: HloModule, target: Target | None, notes: tuple[str, ...] = ()) -> ProgramMemory:
    assignment = module.assignment
    if assignment is not None:
        return ProgramMemory(plan_of_assignment(assignment, module), notes=notes)
    plan = plan_of_module(module, target)
    if module.is_part:
        plan = plan._replace(bounds=(0, None))
    return ProgramMemory(plan, notes=(*notes, *module.notes))


# -- objects of JAX ---------------------------------------------------------------------------


class _Stats(NamedTuple):
    """What a CompiledMemoryStats says: the BufferAssignmentProto as bytes, and the peak in bytes."""

    assignment: bytes
    peak: int | None


def _stats_of(value: Any) -> _Stats | None:
    """The stats of a Compiled or of an executable of jaxlib, or of an object that is the stats; None of anything
    else."""
    if hasattr(value, "serialized_buffer_assignment_proto"):
        return _stats(value)
    executable: Any = value
    if callable(getattr(value, "runtime_executable", None)):
        executable = _asked(value.runtime_executable)
    ask = getattr(executable, "get_compiled_memory_stats", None)
    found = _asked(ask) if callable(ask) else None
    return None if found is None or not hasattr(found, "serialized_buffer_assignment_proto") else _stats(found)


def _asked(question: Callable[[], Any]) -> Any:
    """The result of a call to another library; None where the call fails."""
    try:
        return question()
    except Exception:  # runtimes raise many kinds of errors
        return None


def _stats(found: Any) -> _Stats | None:
    data = _asked(lambda: bytes(found.serialized_buffer_assignment_proto))
    if not data:
        return None
    peak = getattr(found, "peak_memory_in_bytes", None)
    return _Stats(data, peak if isinstance(peak, int) else None)


def _of_stats(value: Any, stats: _Stats) -> ProgramMemory:
    try:
        proto = xla.BufferAssignmentProto.FromString(stats.assignment)
    except ProtobufDecodeError as error:
        raise DecodeError(f"the buffer assignment of this {type(value).__name__} cannot be decoded: {error}") from error
    has_module = not hasattr(value, "serialized_buffer_assignment_proto")
    plan = plan_of_assignment(proto, HloModule.of(value) if has_module else None)
    if not is_untraced(plan, proto):
        return ProgramMemory(plan, said_peak=stats.peak)
    plan = with_temporaries(plan, proto)
    peak = max(plan.steps.totals)
    if stats.peak is not None and stats.peak < peak:
        about = "about " if plan.bounds is not None else ""
        said = (
            f"jaxlib says a peak of {stats.peak:,} bytes, which lacks {about}{peak - stats.peak:,} bytes of temporaries"
        )
    else:
        said = "jaxlib has dropped the heap traces of this executable"
    return ProgramMemory(plan, said_peak=stats.peak, notes=(f"{said}: {_HOW_TO_DUMP}.",))


# -- files ------------------------------------------------------------------------------------


def _of_path(path: str, target: Target | None) -> ProgramMemory | None:
    """The memory by a text or report that XLA wrote, in a file or as `path` itself; None for another file, and for the
    text of a module."""
    if "\n" in path or len(path) > 4096:
        data = path.encode("utf-8", "surrogatepass")
        return _of_text(read_text(path, "the text"), None, "the text") if is_assignment_text(data) else None
    file = Path(path)
    about = assignment_file(file)
    if about is None:
        if not is_assignment_text(_beginning(file)):
            return None
        return _of_text(read_text(_content(file).decode("utf-8", "replace"), file.name), None, file.name)
    module = None if about.module is None else HloModule.load(about.module)
    beside = "" if about.module is None else about.module.name
    if module is not None and module.assignment is not None:
        return _of_module(module, target, (f"The assignment is that of {beside}.",))
    if about.kind in ("buffer-assignment-values.txt", "live-range.txt") and module is not None:
        return _of_module(module, target, (f"The module is that of {beside}.",))
    if about.kind == "buffer-assignment-values.txt":
        raise InvalidArgumentError(
            f"{file.name} has no sizes of its values: put {about.base}.hlo.pb or {about.base}.txt beside it, or pass "
            "that"
        )
    data = _content(file)
    if about.kind == "memory-usage-report.pb":
        return _of_text(read_usage_report(data, file.name), None, file.name)
    has_values = about.kind == "buffer-assignment.txt"
    return _of_text(read_text(data.decode("utf-8", "replace"), file.name), module if has_values else None, file.name)


def _beginning(file: Path) -> bytes:
    try:
        with file.open("rb") as stream:
            return stream.read(_MOST_OF_A_BEGINNING)
    except OSError:
        return b""


def _content(file: Path) -> bytes:
    try:
        data = file.read_bytes()
    except FileNotFoundError as error:
        raise NotFoundError(f"no such file: {str(file)!r}", kind="file", name=str(file)) from error
    except OSError as error:
        raise InvalidArgumentError(f"cannot read {str(file)!r}: {error.strerror}") from error
    if data[:2] != b"\x1f\x8b":
        return data
    try:
        with gzip.open(file) as stream:
            return stream.read(_MOST_BYTES)
    except (OSError, EOFError, zlib.error) as error:
        raise DecodeError(f"{file.name} is not gzip data: {error}") from error


def _of_text(said: TextAssignment, module: HloModule | None, name: str) -> ProgramMemory:
    plan: Plan = plan_of_assignment(said.proto, module, said.shapes)
    if is_untraced(plan, said.proto):
        plan = with_temporaries(plan, said.proto)
    if said.is_moment:
        plan = plan._replace(bounds=(0, None), notes=(_MOMENT,))
    notes = (f"{name} has rounded sizes.",) if said.is_rounded else ()
    return ProgramMemory(plan, notes=notes)
