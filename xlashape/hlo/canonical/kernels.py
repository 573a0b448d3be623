r"""Backend configurations in canonical form, with the kernels that they contain: programs that Mosaic and Triton have
compiled to MLIR.

A configuration is JSON, text, or bytes. In JSON, keys are sorted, and members with the default value of their type are
left out, as protobuf's JSON leaves them out: false, 0, "0", "", [], {} and null. A kernel is replaced by a digest, in
which the directories of file paths do not count, because they only say where a library was installed.

    kernel  := MLIR's bytecode: raw, in base64, or escaped in text as "ML\EFR…";
               or MLIR's text, with loc("/…/file.py":…)

The bytecode begins with ML\xefR, a version and the name of the producer; sections follow. Section 0 holds all strings
of the program, and other sections refer to them by number. So paths are replaced in section 0 alone. Source:
https://mlir.llvm.org/docs/BytecodeFormat/. Bytes that do not follow this format are hashed unchanged.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Iterator, Mapping
from hashlib import blake2b
from typing import Any, Final, cast

_MAGIC: Final = b"ML\xefR"
_STRINGS: Final = 0
"""The number of the section that holds the strings of a kernel."""
_BASE64: Final = re.compile(r"TUzvU[A-Za-z0-9+/]{8,}={0,2}")
"""Bytecode in base64: `TUzv` and `U` are the magic bytes. The `U` also encodes bits of the byte after them."""
_ESCAPED: Final = re.compile(r'"(ML\\[eE][fF]R[^"\\]*(?:\\.[^"\\]*)*)("|\\?\Z)', re.DOTALL)
"""Bytecode as a string with escapes. It also matches a string without an end, which makes the search linear."""
_ESCAPE: Final = re.compile(rb"\\(?:([0-9A-Fa-f]{2})|(.))", re.DOTALL)
_PATH: Final = re.compile(r'(?:[A-Za-z]:(?=[/\\]))?[^\s"\'<>|:;,()\[\]{}]+')
_SEPARATOR: Final = re.compile(r"[/\\]")
_FILE: Final = re.compile(r".\.[A-Za-z]\w{0,5}(?!\w)", re.DOTALL)
"""Matches in a part of a path that is the name of a file with a suffix."""
_LOCATION: Final = re.compile(r'loc\("((?:[^"\\]|\\.)*)"')
_MAX_LEVELS: Final = 60
_MAX_JSON: Final = 1 << 26


def canonical_config(data: bytes) -> str:
    """A backend configuration as text: equal for equal configurations, "" for one that has only default values.

    >>> canonical_config(b'{"b": 0, "a": {"y": "2", "x": []}}')
    '{"a":{"y":"2"}}'
    """
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return f"bytes {kernel_digest(data)}"
    value = parsed_config(text)
    if value is not None:
        return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False) if value else ""
    return _canonical_text(text)


def parsed_config(text: str) -> Mapping[str, Any] | None:
    """The members of a configuration that is a JSON object, without defaults and with digests in place of kernels. None
    for a configuration that is not a JSON object.
    """
    stripped = text.strip()
    if not (stripped.startswith("{") and stripped.endswith("}")) or len(stripped) > _MAX_JSON:
        return None
    try:
        return cast("dict[str, Any]", _without_defaults(json.loads(stripped), 0))
    except (ValueError, RecursionError):
        return None


def _without_defaults(value: Any, level: int) -> Any:
    """A JSON value without defaults. Raises ValueError for a value that nests deeper than `_MAX_LEVELS`; the
    configuration is then treated as text.
    """
    if isinstance(value, str):
        return _canonical_text(value) if len(value) > 8 else value
    if level > _MAX_LEVELS and isinstance(value, (dict, list)):
        raise ValueError("nested too deeply")
    if isinstance(value, dict):
        members = {key: _without_defaults(each, level + 1) for key, each in cast("dict[str, Any]", value).items()}
        return {key: each for key, each in members.items() if not _is_default(each)}
    if isinstance(value, list):
        return [_without_defaults(each, level + 1) for each in cast("list[Any]", value)]
    return value


def _is_default(value: Any) -> bool:
    return value is None or value is False or value in (0, "", "0") or value in ([], {})


def _canonical_text(text: str) -> str:
    """Text with digests in place of kernels, and without the directories of file names in `loc("…")`."""
    if "TUzvU" in text:
        text = _BASE64.sub(lambda found: _base64_digest(found[0]), text)
    if "ML\\" in text:
        text = _ESCAPED.sub(
            lambda found: f'"{kernel_digest(_unescaped(found[1]))}"' if found[2] == '"' else found[0], text
        )
    if 'loc("' in text:
        text = _LOCATION.sub(lambda found: f'loc("{_without_directories(found[1])}"', text)
    return text


def _without_directories(text: str) -> str:
    """Text without the directories of paths to files with a suffix. The time is linear."""
    return _PATH.sub(_file_name, text)


def _file_name(found: re.Match[str]) -> str:
    """A path from its last part that is a file with a suffix; the whole path if there is none."""
    path = found[0]
    end = len(path)
    for start in reversed([separator.end() for separator in _SEPARATOR.finditer(path)]):
        if _FILE.search(path, start, end):
            return path[start:]
        end = start - 1
    return path


def _base64_digest(text: str) -> str:
    try:
        return kernel_digest(base64.b64decode(text))
    except (binascii.Error, ValueError):
        return text


def _unescaped(text: str) -> bytes:
    def byte(found: re.Match[bytes]) -> bytes:
        return bytes([int(found[1], 16)]) if found[1] else found[2]

    return _ESCAPE.sub(byte, text.encode())


def kernel_digest(data: bytes) -> str:
    """A hash of a kernel that does not depend on where its sources were installed.

    >>> kernel_digest(b"no kernel") == kernel_digest(b"no kernel"), len(kernel_digest(b""))
    (True, 39)
    """
    content = data
    if data.startswith(_MAGIC):
        try:
            content = b"\0".join(_bytecode_parts(data))
        except (IndexError, ValueError):
            content = data
    return f"kernel {blake2b(content, digest_size=16).hexdigest()}"


def _bytecode_parts(data: bytes) -> Iterator[bytes]:
    """The parts of MLIR's bytecode that a digest is made of. Raises IndexError or ValueError for malformed bytecode."""
    version, at = _varint(data, len(_MAGIC))
    end = data.index(b"\0", at)
    yield b"%d" % version
    at = end + 1
    while at < len(data):
        head = data[at]
        length, at = _varint(data, at + 1)
        if head & 0x80:
            alignment, at = _varint(data, at)
            at += -at % max(alignment, 1)
        section = data[at : at + length]
        if len(section) != length:
            raise ValueError("a section goes beyond the end")
        at += length
        yield b"%d" % (head & 0x7F)
        if head & 0x7F == _STRINGS:
            yield from _strings(section)
        else:
            yield section


def _strings(section: bytes) -> Iterator[bytes]:
    """The strings in the content of section 0, without the directories of file paths."""
    count, at = _varint(section, 0)
    if count > len(section):
        raise ValueError("more strings than bytes")
    lengths: list[int] = []
    for _ in range(count):
        length, at = _varint(section, at)
        lengths.append(length)
    if at + sum(lengths) != len(section):
        raise ValueError("the lengths of strings do not add up")
    for length in reversed(lengths):
        text = section[at : at + length]
        at += length
        yield _without_directories(text.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """The integer of variable length at an offset, and the offset after it. The number of zeros at the low end of the
    first byte says how many bytes follow.
    """
    first = data[at]
    if first == 0:
        return int.from_bytes(data[at + 1 : at + 9], "little"), at + 9
    more = (first & -first).bit_length() - 1
    return int.from_bytes(data[at : at + more + 1], "little") >> (more + 1), at + more + 1
