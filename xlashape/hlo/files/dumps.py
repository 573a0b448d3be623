"""Recognises files of XLA and its profiler that are not plain modules: some hold modules inside, others hold none.

    HloSnapshot                a module with arguments and results
    HloUnoptimizedSnapshot     a module with the arguments of each partition
    XSpace, `*.xplane.pb`      a profile: the modules that ran, each an HloProto in the metadata of an event
    XLA_SAVE_TENSORS_FILE      the graphs that PyTorch/XLA ran, each as HLO text

Their messages are read by field numbers, so that the schema of the profiler is not needed. `modules_in` gives the
modules in such bytes, and `content_of_module` the bytes of one of them. For content that holds no module, `what_else`
says what it is and what to open instead.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from xlashape.errors import DecodeError, InvalidArgumentError, NotFoundError
from xlashape.hlo.files.detect_format import holds_hlo_proto
from xlashape.hlo.files.stablehlo import stablehlo_in
from xlashape.proto.wire import BYTES, VARINT, fields

_OPEN_MODULE: Final = "open the module beside it, *_optimizations.txt or *.hlo.pb"
_OPEN_ABOVE: Final = "open the module in the directory above, *_optimizations.txt or *.hlo.pb"
_GET_HLO: Final = (
    "HLO comes from jax.jit(f).lower(…).compile().as_text(), from lowered.compiler_ir('hlo').as_hlo_text(), or from a "
    "dump with"
    " XLA_FLAGS=--xla_dump_to=DIR"
)
_NO_PROGRAM: Final = "and no program: Shape.of gives the shape of an array"
_NO_HLO: Final = "and holds no HLO: load it in its own framework, and pass the function and its inputs to HloModule.of"
_MEMORY_USAGE: Final = f"a report of the memory that a module uses; {_OPEN_MODULE}"
# Pattern of a file's name → what the file is. The first pattern that matches counts.
_NAMES: Final = tuple(
    (re.compile(pattern), what)
    for pattern, what in (
        (r"memory[-_]usage[-_]report[^/]*\.(?:pb|txt)$", _MEMORY_USAGE),
        (r"buffer-assignment\.txt$", f"the buffer assignment of a module as text; {_OPEN_MODULE}"),
        (r"live-range\.txt$", f"the live ranges of a module's buffers; {_OPEN_MODULE}"),
        (r"thunk_sequence(?:_metadata)?\.(?:pb|txt)$", f"the thunks that a module was compiled to; {_OPEN_MODULE}"),
        (r"\.mlir(?:bc)?$", f"a module in MLIR, not in HLO: {_GET_HLO}"),
        (r"\.dot$", f"a drawing of a module for Graphviz; {_OPEN_MODULE}"),
        (r"\.html$", f"a drawing of a module; {_OPEN_MODULE}"),
        (r"\.(?:ll|bc)$", f"LLVM's code of a module; {_OPEN_MODULE}"),
        (r"\.(?:ptx|cubin|hsaco|s|o|asm)$", f"the machine code of a module; {_OPEN_MODULE}"),
        (r"\.?debug_options(?:\.txt)?$|flags\.txt$", f"the options that a module was compiled with; {_OPEN_MODULE}"),
        (r"(?:gpu_)?target_config\.pbtxt$", f"the device that a module was compiled for; {_OPEN_MODULE}"),
        (r"autotune_results\.(?:pb|pbtxt|txt)$", f"the results of autotuning; {_OPEN_MODULE}"),
        (r"execution_options\.txt$", f"the options that a module was executed with; {_OPEN_MODULE}"),
        # In the folder of a module's name, which jaxlib 0.12 writes in a directory of dumps.
        (r"(?:^|/)compile_options\.(?:pb|pbtxt|txt)$", f"the options that a module was compiled with; {_OPEN_ABOVE}"),
        (r"(?:^|/)topology\.(?:pb|pbtxt|txt)$", f"the devices that a module was compiled for; {_OPEN_ABOVE}"),
    )
)
# Pattern of a file's first bytes → what the file is.
A_TRACEBACK: Final = (
    "a traceback of Python without a message about memory: `why` explains errors that say how much was needed, such as "
    "RESOURCE_EXHAUSTED"
)
_CONTENTS: Final = (
    (re.compile(rb'\s*\{.{0,4000}?"(?:traceEvents|displayTimeUnit)"', re.DOTALL),
     "a trace of the profiler, which holds no module: the report `profile` is about it"),
    (re.compile(rb"(?:[^\n]{0,1000}\n){0,20}Traceback \(most recent call last\):"), A_TRACEBACK),
    (re.compile(rb"\s*\{\s*lambda\b"), f"a jaxpr, not HLO: {_GET_HLO}"),
    (re.compile(rb"\s*(?:strict\s+)?digraph\b"), f"a drawing of a module for Graphviz; {_OPEN_MODULE}"),
    (re.compile(rb"\s*(?:; ModuleID|source_filename\s*=|target (?:datalayout|triple)\s*=)"),
     f"LLVM's code of a module; {_OPEN_MODULE}"),
    (re.compile(rb"\s*BufferAssignment:|\s*allocation 0: "),
     f"the buffer assignment of a module as text; {_OPEN_MODULE}"),
    (re.compile(rb"\s*(?:Total bytes used|Memory usage report)"), _MEMORY_USAGE),
    (re.compile(rb"\x93NUMPY|PK\x03\x04.{26}[^/]{1,200}?\.npy", re.DOTALL), f"arrays of NumPy, {_NO_PROGRAM}"),
    (re.compile(rb".{4}\0{4}\{\s*\"", re.DOTALL), f"arrays as safetensors, {_NO_PROGRAM}"),
    (re.compile(rb"\x89HDF\r\n"), f"arrays as HDF5, such as weights of Keras, {_NO_PROGRAM}"),
    (
        re.compile(
            rb"PK\x03\x04.{26}[^/]{1,200}/(?:data|code|byteorder|archive_|constants|models|\.)|\x80\x02\x8a\nl\xfc\x9cF",
            re.DOTALL,
        ),
        f"a file of PyTorch, such as weights or an exported program, {_NO_HLO}",
    ),
    (re.compile(rb"PK\x03\x04.{26}(?:metadata|config)\.json", re.DOTALL), f"a model of Keras, {_NO_HLO}"),
    (re.compile(rb"PK\x03\x04"), f"a ZIP archive, {_NO_HLO}"),
    (re.compile(rb"\x80[\x02-\x05]"), f"a pickle of Python, {_NO_HLO}"),
    (re.compile(rb"\x08\x01\x12"), f"a SavedModel of TensorFlow, {_NO_HLO}"),
    (re.compile(rb"\x08[\x02-\x7f][\x12\x1a\x22\x3a\x42]"), f"a model of ONNX, {_NO_HLO}"),
    (re.compile(rb".\0\0\0TFL3", re.DOTALL), f"a model of TensorFlow Lite, {_NO_HLO}"),
)  # fmt: skip
_IS_TEXT: Final = re.compile(rb"\s*HloModule")
_SUFFIXES: Final = (".hlo", ".txt", ".pb", ".pbtxt", ".json")
_SHOWN: Final = 5  # names in an error message
# Field number → wire type, of a plane of a profile (XPlane).
_PLANE_TYPES: Final = {1: VARINT, 2: BYTES, 3: BYTES, 4: BYTES, 5: BYTES, 6: BYTES}


_ASSIGNMENTS: Final = re.compile(
    r"(?P<base>.*?)-(?P<kind>buffer-assignment-values\.txt|buffer-assignment\.txt|memory-usage-report\.(?:txt|pb)|live-range\.txt)"
)
_ASSIGNMENT_CONTENT: Final = re.compile(
    rb"\s*(?:BufferAssignment:|allocation \d+: size|Total bytes used:|Memory Space: |Memory usage report|HloLiveRange)"
)
_BESIDE: Final = (".hlo.pb", ".hlo.pb.gz", ".txt", ".hlo", ".txt.gz")


class AssignmentFile(NamedTuple):
    """A file that XLA writes beside a module about the module's memory."""

    base: str
    """The name of the module's file, without its suffix."""
    kind: str
    """The part of this file's name after `base` and a hyphen, such as `buffer-assignment.txt`."""
    module: Path | None
    """The file of the module, if it is in the same directory."""


def assignment_file(file: Path) -> AssignmentFile | None:
    """Parses the name of a file such as `NAME-buffer-assignment.txt`. None for the name of another file."""
    match = _ASSIGNMENTS.fullmatch(file.name.removesuffix(".gz"))
    if match is None:
        return None
    beside = [found for end in _BESIDE if (found := file.with_name(match["base"] + end)).is_file()]
    return AssignmentFile(match["base"], match["kind"], beside[0] if beside else None)


def is_assignment_text(data: bytes) -> bool:
    """Whether text begins like a file that XLA writes about a module's memory."""
    return _ASSIGNMENT_CONTENT.match(data) is not None


class HeldModule(NamedTuple):
    """A module inside a profile, a snapshot or another file."""

    name: str
    """The name that the profiler gives it, such as `jit_f(12)`; "" in a snapshot, which holds one module."""
    data: bytes
    """A serialized HloProto or HloModuleProto, or HLO text."""


def modules_in(data: bytes) -> list[HeldModule] | None:
    """The modules in a profile, a snapshot or the graphs of PyTorch/XLA; None for bytes that are none of them."""
    graphs = [part for part in data.split(b"## BEGIN_GRAPH\n")[1:] if part.startswith(b"HloModule ")]
    if graphs:
        return [_graph(number, text.partition(b"## END_GRAPH")[0]) for number, text in enumerate(graphs)]
    try:
        outermost = [(number, wire_type, data[content:end]) for number, wire_type, _, content, end in _first(data)]
    except DecodeError:
        return None
    first = [content for number, wire_type, content in outermost if number == 1 and wire_type == BYTES]
    if not first:
        return None
    if all(number <= 4 and wire_type == BYTES for number, wire_type, _ in outermost):
        if _are_planes(first):
            return [module for plane in first for module in _modules_of_plane(plane)]
        if len(first) == 1 and holds_hlo_proto(first[0]):
            return [HeldModule("", first[0])]
    types = {(number, wire_type) for number, wire_type, _ in outermost}
    if len(first) == 1 and (3, VARINT) in types <= {(1, BYTES), (2, BYTES), (3, VARINT)}:
        return [HeldModule("", first[0])]
    return None


def arguments_in(data: bytes) -> tuple[bytes, ...]:
    """The literals, serialized, that the module of an HloSnapshot is called with; none of anything else."""
    held = modules_in(data)
    outermost = list(_first(data)) if held is not None and [each.name for each in held] == [""] else []
    if not all(wire_type == BYTES for _, wire_type, *_ in outermost):
        return ()
    return tuple([data[content:end] for number, _, _, content, end in outermost if number == 2])


def _graph(number: int, text: bytes) -> HeldModule:
    """A graph of PyTorch/XLA, of which there may be several of one name. Its hash stands behind the module."""
    name = text[len("HloModule ") : 200].partition(b",")[0].decode("utf-8", "replace")
    return HeldModule(f"{name}({number})", text[: text.rfind(b"\n}") + 2])


def _first(data: bytes) -> Iterator[tuple[int, int, int, int, int]]:
    """The outermost fields of a message. Gives none if the message has a field beyond 4, which neither a profile nor a
    snapshot has: then it is a module, whose fields are not read to the end.
    """
    found: list[tuple[int, int, int, int, int]] = []
    for field in fields(memoryview(data)):
        if field[0] > 4:
            return
        found.append(field)
    yield from found


def _are_planes(contents: list[bytes]) -> bool:
    """Whether messages are the planes of a profile: each has a name, and at least one name begins with '/'."""
    names: list[bytes] = []
    for content in contents:
        try:
            for number, wire_type, _, start, end in fields(content):
                if _PLANE_TYPES.get(number) != wire_type:
                    return False
                if number == 2:
                    names.append(content[start:end])
        except DecodeError:
            return False
    return len(names) == len(contents) and any(name.startswith(b"/") for name in names)


def _parts(data: bytes, wanted: int) -> Iterator[bytes]:
    """The contents of the length-delimited fields with the number `wanted`."""
    for number, wire_type, _, content, end in fields(data):
        if number == wanted and wire_type == BYTES:
            yield data[content:end]


def _modules_of_plane(plane: bytes) -> Iterator[HeldModule]:
    """The modules in a plane (XPlane). They are the field bytes_value (6) of the stats (5) of the values (2) of the map
    event_metadata (4).
    """
    for entry in _parts(plane, 4):
        for metadata in _parts(entry, 2):
            for stat in _parts(metadata, 5):
                for value in _parts(stat, 6):
                    if holds_hlo_proto(value):
                        name = next(_parts(metadata, 2), b"").decode("utf-8", "replace")
                        yield HeldModule(name, value)


def content_of_module(data: bytes, name: str | None = None, choice: str | None = None) -> bytes:
    """The bytes of the module in the content of a file: the content itself unless it is a profile or a snapshot.

    `choice` names one module of a profile. Raises InvalidArgumentError if there are several modules and no choice,
    NotFoundError for a name that the file does not have, DecodeError for content that is known to hold no module.
    """
    held = modules_in(data)
    if held is None:
        what = what_else(data, name)
        if what is not None:
            raise DecodeError(f"{'this' if name is None else name} is {what}")
        if choice is not None:
            raise NotFoundError(f"{name} is one module, without modules to choose from", kind="module", name=choice)
        return data
    file = "the profile" if name is None else name
    if not held:
        raise DecodeError(f"{file} is a profile that holds no modules")
    if choice is None:
        if len(held) > 1:
            raise InvalidArgumentError(
                f"{file} holds {len(held)} modules: {_list([module.name for module in held])}; choose one as FILE#NAME"
            )
        return held[0].data
    found = [module for module in held if module.name == choice] or [
        module for module in held if module.name.partition("(")[0] == choice
    ]
    if len(found) != 1:
        how = f"{len(found)} modules" if found else "no module"
        raise NotFoundError(
            f"{file} has {how} {choice!r}; it holds {_list([module.name for module in found or held])}",
            kind="module",
            name=choice,
        )
    return found[0].data


def what_else(data: bytes, name: str | None = None) -> str | None:
    """What a file without a module is, and what to open instead, as the end of a message. None if the file may be a
    module. HLO text is recognised whatever the name is.
    """
    if stablehlo_in(data) is not None:
        return f"StableHLO or other MLIR, not HLO: HloModule.of makes HLO of it where jaxlib is installed; {_GET_HLO}"
    what = next((what for pattern, what in _CONTENTS if pattern.match(data)), None)
    if what is None and name is not None and _IS_TEXT.match(data) is None:
        what = _what_by_name(name)
    return _MEMORY_USAGE if what is None and _is_memory_usage(data) else what


def _is_memory_usage(data: bytes) -> bool:
    """Whether bytes are a serialized memory usage report: all its fields have the number 1, and hold messages that
    begin with a number as field 1.
    """
    if data[:1] != b"\x0a":
        return False
    try:
        return all(
            number == 1 and wire_type == BYTES and data[content : content + 1] == b"\x08"
            for number, wire_type, _, content, _ in _first(data)
        ) and any(True for _ in _first(data))
    except DecodeError:
        return False


def _what_by_name(name: str) -> str | None:
    name = name.removesuffix(".gz").lower()
    return next((what for pattern, what in _NAMES if pattern.search(name)), None)


def _list(names: list[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more


def split_choice(path: str) -> tuple[str, str | None]:
    """Splits `FILE#NAME` into the path of a file and the name of a module in it. The name is None if the path has no
    `#`, or is itself the path of a file.
    """
    file, mark, choice = path.rpartition("#")
    try:
        if not mark or not file or Path(path).exists() or not Path(file).is_file():
            return path, None
    except (OSError, ValueError):
        return path, None
    return file, choice


def may_be_module(name: str) -> bool:
    """Whether the file of a name may hold a module: not what XLA writes beside modules.

    >>> [may_be_module(f"module_0001.jit_f/{name}") for name in ("after.hlo.pb.gz", "topology.pb", "module.mlir")]
    [True, False, False]
    """
    return name.lower().removesuffix(".gz").endswith(_SUFFIXES) and _what_by_name(name) is None


def module_files(directory: Path) -> list[Path]:
    """The files of a directory whose names are those of modules, sorted."""
    return [path for path in sorted(directory.iterdir()) if path.is_file() and may_be_module(path.name)]


def no_single_module(directory: Path) -> InvalidArgumentError:
    """The error for a directory where one module is asked for."""
    names = sorted([path.name for path in module_files(directory)], key=lambda name: "after_optimizations" not in name)
    if not names:
        return InvalidArgumentError(f"cannot read {str(directory)!r}: it is a directory without modules")
    return InvalidArgumentError(f"cannot read {str(directory)!r}: it is a directory; its modules: {_list(names)}")
