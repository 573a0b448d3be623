"""Explains the memory of what `why` takes besides shapes: instructions, modules, reports, and files with them."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from xlashape.base.pasted import clean, searched
from xlashape.base.whole_file import file_exists
from xlashape.errors import DecodeError, InvalidArgumentError, NotFoundError, ParseError, XlashapeError
from xlashape.hlo.files.dumps import assignment_file, is_assignment_text, what_else
from xlashape.hlo.module import HloComputation, HloInstruction, HloModule
from xlashape.reports.oom_text import is_report, read_totals
from xlashape.reports.program import mends, program
from xlashape.reports.why.compiler_messages import read_messages
from xlashape.reports.why.oom import ReportMemory, report_memory, shapes_memory
from xlashape.reports.why.programs import InstructionMemory, ModuleMemory, instruction_memory, module_memory
from xlashape.reports.why.shapes import ArrayMemory, ShapesMemory, TupleMemory, shape_memory
from xlashape.shape import Shape, Target

Memory: TypeAlias = "ArrayMemory | TupleMemory | InstructionMemory | ModuleMemory | ReportMemory | ShapesMemory"
"""The results of `why`. All have `element_bytes`, `buffer_bytes`, `overhead_bytes`, `factor`, `to_dict()`, and readable
text by `str()`.
"""

_BEGINNING = 4_096
"""How many bytes tell whether a file is text."""
_MODULE = re.compile(r"(?:\s|//[^\n]*\n|/\*[^*]*\*+(?:[^*/][^*]*\*+)*/)*HloModule\b")
"""The beginning of HLO text: comments, then the header."""

_CONTROL = re.compile(rb"[\x00-\x08]")
_MOST_WORDS_OF_A_SHAPE = 3
"""Text with more words than this and no bracket is not read as a shape."""

_PART_THAT_IS_NO_TEXT = 20
"""Data counts as text if about one in this many characters of its beginning, or fewer, is invalid UTF-8. Logs may have
a few such characters."""
_UNKNOWN = "expected a shape, an instruction, a module, a path, or text with shapes in it"


def explained(
    x: Any,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    device: Target | None,
    instruction: str,
    *,
    strict: bool,
) -> Memory:
    """The answer of `why` about anything; of a module, about the instruction, if it is named."""
    if instruction or args or kwargs:
        module = program(x, args, kwargs, strict=strict)
        if instruction:
            return instruction_memory(module.instruction(instruction), device).with_notes(module.notes)
        x = module
    if isinstance(x, Shape):
        return shape_memory(x, device)
    if isinstance(x, HloInstruction):
        return instruction_memory(x, device)
    if isinstance(x, HloModule):
        return _module(x, device)
    if isinstance(x, HloComputation):
        raise InvalidArgumentError(f"{_UNKNOWN}; found a computation: pass its module", field="x")
    if x is None:  # for Shape.of, None is a tree without leaves
        raise InvalidArgumentError(f"{_UNKNOWN}; found None", field="x")
    if isinstance(x, str):
        return _text(x, device, strict=strict)
    if isinstance(x, os.PathLike):
        return _file(Path(os.fspath(x)), device, strict=strict)  # pyright: ignore[reportUnknownArgumentType] - of text or bytes
    if isinstance(x, (bytes, bytearray)):
        return _content(bytes(x), device, strict=strict)
    return _object(x, device)


def _module(x: Any, device: Target | None, origin: Any = None, *, strict: bool = True) -> Memory:
    module = program(x, strict=strict)
    return module_memory(module, device, origin).with_notes(module.notes)


def _object(x: Any, device: Target | None) -> Memory:
    """Explains an object of another library."""
    if type(x).__name__ == "CompiledMemoryStats":  # `memory_analysis()` of a Compiled of JAX
        return report_memory(str(x), device)
    try:
        shape = Shape.of(x)
    except XlashapeError as no_shape:
        try:
            module = HloModule.of(x)
        except XlashapeError as no_module:
            is_module = hasattr(x, "as_text") or hasattr(x, "as_hlo_text") or hasattr(x, "lower")
            error = no_module if is_module else no_shape
            raise type(error).rebuild(f"{_UNKNOWN}: {error.message}", error.details()) from error
        return module_memory(module, device, x)
    return shape_memory(shape, device)


def _text(text: str, device: Target | None, *, strict: bool, is_content: bool = False) -> Memory:
    """Explains text. `is_content`: whether the text is the content of a file or of a request, and so names no file."""
    if not is_content and "\n" not in text and len(text) < 4_096 and not _MODULE.match(text):
        if file_exists(text.split("#", 1)[0]):
            return _file(Path(text), device, strict=strict)
    if _MODULE.match(text):
        return _module(text.encode("utf-8", "surrogatepass"), device, strict=strict)
    try:
        shape = Shape.parse(text.strip())
    except ParseError as error:
        no_shape = error
    else:
        return shape_memory(shape, device)
    if is_assignment_text(text[:200].encode("utf-8", "replace")):
        raise _no_module("this text")
    text, notes = searched(text)
    if _is_report(text):
        return report_memory(text, device).with_notes(notes)
    module = None if strict else mends(text)
    if module is not None:
        return _module(module, device).with_notes((*notes, *module.notes))
    arrays = shapes_memory(text, device)
    if arrays.arrays and not _is_one_shape(text):
        return arrays.with_notes(notes)
    if read_totals(clean(text)) is not None:
        return report_memory(text, device).with_notes(notes)
    if not is_content and "\n" not in text and "[" not in text and ("/" in text or "." in text):
        raise NotFoundError(f"there is no file {text[:200]!r}", kind="file", name=text[:200], field="x")
    what = what_else(text.encode("utf-8", "replace"))
    if what is not None and "MLIR" not in what:
        raise DecodeError(f"this is {what}")
    if "\n" in text and "{" in text:  # jaxlib makes a module of MLIR, or the error says what to pass instead
        return _module(text.encode(), device)
    if len(text.split()) > _MOST_WORDS_OF_A_SHAPE and "[" not in text:
        raise _nothing_in(text)
    raise no_shape


def _nothing_in(text: str) -> ParseError:
    message = "found no shape, no allocation of a report and no module in this text"
    return ParseError(message, source_line=text.strip().split("\n", 1)[0][:100], expected=_UNKNOWN)


def _is_report(text: str) -> bool:
    """Whether a compiler or an allocator wrote the text, about memory."""
    if is_report(text):
        return True
    cleaned = clean(text)
    totals = read_totals(cleaned)
    return (totals is not None and bool(totals.used)) or read_messages(cleaned) is not None


def _is_one_shape(text: str) -> bool:
    """Whether the text looks like a single shape, so that a mistake in it is reported as a ParseError of the shape."""
    return not any(character.isspace() or character in "%=\"'" for character in text.strip())


def _file(path: Path, device: Target | None, *, strict: bool) -> Memory:
    """Explains the module, the report or the shapes in a file. For a file that XLA wrote about a module's memory, it
    explains the module beside the file.
    """
    about = assignment_file(path)
    if about is not None and path.is_file():
        if about.module is None:
            raise _no_module(path.name)
        return module_memory(HloModule.load(about.module), device, path)
    try:
        text, notes = _text_in(path) if path.is_file() else (None, ())
    except OSError as error:
        raise NotFoundError(f"cannot read {path}: {error.strerror}", kind="file", name=str(path), field="x") from error
    if text is not None and not _MODULE.match(text) and _is_report(text):
        return report_memory(text, device).with_notes(notes)
    try:
        return _module(path, device, path, strict=strict)
    except XlashapeError as error:
        return _shapes_or(error, text, device).with_notes(notes)


def _content(data: bytes, device: Target | None, *, strict: bool) -> Memory:
    """Explains the content of a file."""
    text, notes = _as_text(data)
    if text is not None and is_assignment_text(data):
        raise _no_module("this text")
    if text is not None and not _MODULE.match(text) and (is_report(text) or len(text) < 4_096):
        return _text(text.strip(), device, strict=strict, is_content=True)
    try:
        return _module(data, device, strict=strict)
    except XlashapeError as error:
        return _shapes_or(error, text, device).with_notes(notes)


def _no_module(name: str) -> InvalidArgumentError:
    """The error for a text about a module's memory that has no module beside it."""
    return InvalidArgumentError(
        f"{name} says where a module's values lie, without the module: `memory` reads it; put the module beside it, "
        "NAME.hlo.pb or NAME.txt, or pass that",
        field="x",
    )


def _shapes_or(error: XlashapeError, text: str | None, device: Target | None) -> Memory:
    """Explains the shapes in a text, or the totals of a report; raises the error where it has neither."""
    if text is not None and not _MODULE.match(text):
        arrays = shapes_memory(text, device)
        if arrays.arrays:
            return arrays
        if read_totals(clean(text)) is not None:
            return report_memory(text, device)
        if text.strip() and isinstance(error, ParseError) and "[" not in text and "{" not in text:
            raise _nothing_in(text) from error
    raise error


def _as_text(data: bytes) -> tuple[str | None, tuple[str, ...]]:
    """The part of the bytes that is searched as text, with invalid UTF-8 replaced, and notes about it. None for gzip
    and for other data that is no text."""
    return searched(data.decode("utf-8-sig", "replace")) if _is_text(data[:_BEGINNING]) else (None, ())


def _text_in(path: Path) -> tuple[str | None, tuple[str, ...]]:
    """As `_as_text`, of a file."""
    with path.open("rb") as file:
        if not _is_text(file.read(_BEGINNING)):
            return None, ()
        file.seek(0)
        return _as_text(file.read())


def _is_text(data: bytes) -> bool:
    """Whether data that begins so is text."""
    if _CONTROL.search(data) or data.startswith(b"\x1f\x8b"):
        return False
    # A multi-byte character that is cut at the end counts once.
    beginning = data.decode("utf-8-sig", "replace")
    return beginning.count("\ufffd") <= 1 + len(beginning) // _PART_THAT_IS_NO_TEXT
