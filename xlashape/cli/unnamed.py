"""The command for an input that is named without one: `xlashape FILE`, `xlashape -`, `xlashape 'f32[8,128]'`.

a module, an instruction, a directory of dumps   summary
a shape, a report about memory                   why
a buffer assignment as text                      memory
a layout, a map                                  draw
a profile, a directory with nothing else         profile
"""

from __future__ import annotations

import io
import sys
from pathlib import Path
from typing import Final

from xlashape.errors import XlashapeError
from xlashape.hlo.files.convert import decompressed
from xlashape.hlo.files.dumps import is_assignment_text
from xlashape.hlo.files.inputs import inputs
from xlashape.recognition import recognize
from xlashape.reports.profile.sources import files_of

_COMMANDS: Final = {
    "shape": "why",
    "layout": "draw",
    "map": "draw",
    "instruction": "summary",
    "module": "summary",
    "report": "why",
    "profile": "profile",
}
"""The kinds of `xlashape.recognition.Recognized`, each with the command that answers about it."""
_SUMMARY: Final = "summary"


def words_of(name: str) -> list[str] | None:
    """The command and its input: `name`, or the text of a layout or a map in a file. None where `name` is no file, no
    directory, not `-`, and has no bracket, no `/` and no suffix. Standard input is read, and a copy takes its place.

    >>> words_of("f32[8,128]{1,0}"), words_of("(d0) -> (d0), domain: d0 in [0, 9]")[0], words_of("sumary")
    (['why', 'f32[8,128]{1,0}'], 'draw', None)
    """
    try:
        path = Path(name)
        is_file, is_directory = path.is_file(), path.is_dir()
        if not path.exists() and name != "-" and Path(name.rpartition("#")[0] or "#").is_file():
            return [_SUMMARY, name]  # a module of a file
    except (OSError, ValueError):  # the text is too long for a file name, or has a NUL
        is_file = is_directory = False
    if is_directory:
        return ["profile" if _has_only_profiles(name) else _SUMMARY, name]
    is_text = not is_file and name != "-"
    if is_text and not any(mark in name for mark in "[{("):
        # The error of the command says that there is no such file.
        return [_SUMMARY, name] if "/" in name or Path(name).suffix else None
    content = b""
    try:
        content = name.encode() if is_text else _standard_input() if name == "-" else Path(name).read_bytes()
        found = recognize(decompressed(content))
    except (XlashapeError, OSError, ValueError):
        if is_assignment_text(content):
            return ["memory", name]
        is_prose = bool(content) and b"{" not in content and b"\0" not in content
        return ["why" if is_text or is_prose else _SUMMARY, name]  # the error of the command says what is wrong
    command = _COMMANDS[found.kind]
    return [command, found.text if command == "draw" else name]


def _standard_input() -> bytes:
    content = sys.stdin.buffer.read()
    sys.stdin = io.TextIOWrapper(io.BytesIO(content), "utf-8")
    return content


def _has_only_profiles(folder: str) -> bool:
    """Whether a directory has a profile, and no modules beside its files."""
    try:
        profiles = {path.parent for path in files_of(folder)}
    except XlashapeError:
        return False
    try:
        return all(Path(each.name).parent in profiles for each in inputs([folder], "last"))
    except XlashapeError:  # no modules
        return True
