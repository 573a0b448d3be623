"""Lists the modules that the arguments of a command or a scan stand for. An argument is a file, a directory, a pattern
such as `dumps/**/*.hlo.pb`, or a prefix in a bucket of an object store.

A directory of `--xla_dump_to` has many files for each module. Of each module the file of the last stage is taken, as a
proto if there is one, since only protos hold buffer assignments; the argument `stage` chooses other stages. Of a
directory without such dumps, every file with the name of a module is taken. The store of a server, as a directory or in
a bucket, gives all its modules.
"""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import Any, Final, NamedTuple

from xlashape.base.extras import require
from xlashape.errors import DecodeError, NotFoundError

STORED: Final = re.compile(r"(?:^|/)(?:modules|v2)/[0-9a-f]{2}/([0-9a-f]{64})$")
"""Matches the names of the files in the store of a server, and of the objects in its bucket. `content_of_stored` reads
their format.
"""


_BUCKET: Final = re.compile(r"(s3|gs|az|file)://")
_ENDS: Final = (".hlo.pb", ".txt", ".hlo", ".pb", ".pbtxt", ".json")
_PLATFORM: Final = re.compile(r"\.(?:sm_\d+\.)?[^.]*after_optimizations$")
_PASS_NUMBER: Final = re.compile(r"\.(\d{4})\.")


class Input(NamedTuple):
    """A file or an object in a bucket that holds a module."""

    name: str
    """The path of the file, or the URL of the object."""
    module: str
    """The name of the module, taken from the file's name."""
    stamp: str = ""
    """Identifies the content of an object in a bucket: its size, with its tag or time. "" for a file."""

    @property
    def is_remote(self) -> bool:
        """Whether the input is an object in a bucket, and not a file."""
        return _is_bucket(self.name)


def is_many(names: Sequence[str]) -> bool:
    """Whether the arguments of a command may stand for more than one input."""
    return len(names) > 1 or any(_is_bucket(name) or _is_directory(name) or _is_pattern(name) for name in names)


def inputs(names: Sequence[str], stage: str) -> Iterator[Input]:
    """The inputs that the arguments stand for. Raises NotFoundError for an argument that stands for none.

    `stage` chooses among the dumps of a module: "last", "before" or "after" the optimisations, "all", or the name of a
    pass for the dumps after that pass. Files of folders without dumps are taken whatever the stage is.
    """
    for name in names:
        count = 0
        for each in _of_argument(name, stage):
            count += 1
            yield each
        if not count:
            if stage == "last" and _is_directory(name):
                raise NotFoundError(f"cannot read {name!r}: it is a directory without modules", kind="file", name=name)
            message = f"{name}: there is no module of stage {stage!r}{_stages_of(name)}"
            raise NotFoundError(message, kind="file", name=name, field="stage")


def _stages_of(name: str) -> str:
    """The end of the message about a stage that is not there: the stages of the dumps that an argument stands for."""
    found = {stage[1] for each in _of_argument(name, "all") if (stage := _stage_of(each.name.rpartition("/")[2]))}
    return f"; there are {', '.join(sorted(found))}" if found else ""


def _of_argument(name: str, stage: str) -> Iterator[Input]:
    """The inputs that one argument stands for."""
    from xlashape.hlo.files.dumps import module_files  # start-up time: most commands are about one file

    if _is_bucket(name):
        yield from _of_bucket(name, stage)
    elif name.startswith("file:") and not Path(name).exists():
        yield from _of_argument(name.removeprefix("file:"), stage)
    elif _is_directory(name):
        found = {str(Path(folder, file)) for folder, _, files in os.walk(name) for file in files}
        found = {path for path in found if _is_below(path, name)}
        whole = {str(path) for folder, _, _ in os.walk(name) for path in module_files(Path(folder))} & found
        whole |= {path for path in found if STORED.search(path)}
        yield from [Input(each, module) for each, module in _chosen(found, whole, stage)]
    elif _is_pattern(name):
        paths = glob.glob(name, recursive=True)  # noqa: PTH207 - pathlib finds only paths below a folder
        yield from [Input(each, _module_name(each)) for each in sorted(paths) if Path(each).is_file()]
    else:
        yield Input(name, _module_name(name))


def _is_below(path: str, folder: str) -> bool:
    """Whether a file is no link, or one that does not lead out of the folder."""
    return not Path(path).is_symlink() or Path(os.path.realpath(path)).is_relative_to(os.path.realpath(folder))


def _is_bucket(name: str) -> bool:
    return _BUCKET.match(name) is not None


def _is_directory(name: str) -> bool:
    try:
        return bool(name) and Path(name).is_dir()
    except OSError:  # text that is too long for the name of a file
        return False


def _is_pattern(name: str) -> bool:
    """Whether a name is a pattern of file names. A name with brackets, which the text of a shape has too, is a pattern
    only if files match it.
    """
    try:
        if not any(character in name for character in "*?[") or Path(name).exists():
            return False
        return "[" not in name or next(glob.iglob(name, recursive=True), None) is not None  # noqa: PTH207 - pathlib finds only paths below a folder
    except OSError:  # text that is too long for the name of a file
        return False


def _of_bucket(name: str, stage: str) -> Iterator[Input]:
    """The objects below a prefix, or else the object with exactly this name."""
    from xlashape.hlo.files.dumps import may_be_module  # start-up time: most commands are about one file

    if name.count("/") == 2:  # s3://bucket
        name += "/"
    root, _, last = name.rpartition("/")
    with _bucket(f"{root}/") as store:
        # The client lists by whole segments of names: `dumps` lists `dumps/…`, and not `dumps2/…`.
        entries = {entry["path"]: entry for page in store.list(last or None) for entry in page}
        if last and not entries:
            with suppress(FileNotFoundError):
                entries = {last: import_module("obstore").head(store, last)}
    keys = list(entries)
    whole = {key for key in keys if may_be_module(key) or STORED.search(key)}
    if keys == [last]:
        whole = {last}
    for key, module in _chosen(keys, whole, stage):
        entry = entries[key]
        stamp = f"{entry['size']}:{entry.get('e_tag') or entry['last_modified'].timestamp()}"
        yield Input(f"{root}/{key}", module, stamp)


def absolute(each: Input) -> Input:
    """The input with an absolute path, which stays valid if the current directory changes. An object stays as it is."""
    return each if each.is_remote else each._replace(name=os.path.abspath(each.name))  # noqa: PTH100 - name is text


def content_of_stored(data: bytes, sha256: str) -> bytes:
    """The module in a file of a server's store: a line of facts, which begins with the version of the format, and then
    the module. Raises DecodeError if the module does not have the digest `sha256`.
    """
    import hashlib  # start-up time: few files are of a store

    facts, _, found = data.partition(b"\n")
    if not facts.startswith(b"xlashape.v3 ") or hashlib.sha256(found).hexdigest() != sha256:
        raise DecodeError("the file of the store is damaged: its content does not have the digest that is its name")
    return found


def content(each: Input) -> bytes:
    """The bytes of an input. If it cannot be read, raises OSError for a file and NotFoundError for an object."""
    if not each.is_remote:
        return Path(each.name).read_bytes()
    root, _, key = each.name.rpartition("/")
    with _bucket(f"{root}/") as store:
        return bytes(import_module("obstore").get(store, key).bytes())


@contextmanager
def _bucket(prefix: str) -> Generator[Any, None, None]:
    """A client of the bucket of a URL. Raises NotFoundError where the client raises an error of its own."""
    require("store", "a bucket")
    failure: type[Exception] = import_module("obstore.exceptions").BaseError  # obstore is an optional dependency
    try:
        yield import_module("obstore.store").from_url(prefix)
    except failure as error:
        raise _unreadable(prefix, error) from None


def _unreadable(name: str, error: Exception) -> NotFoundError:
    # The further lines of the client's message show its internal objects.
    return NotFoundError(f"cannot read {name}: {str(error).partition(chr(10))[0]}", kind="file", name=name)


def _chosen(names: Iterable[str], whole: Iterable[str], stage: str) -> list[tuple[str, str]]:
    """The chosen file names, each with the name of its module: of `names` the dumps of the stage, and of `whole` the
    files in folders that have no dumps.
    """
    by_module: dict[tuple[str, str], list[tuple[str, str, int, str]]] = {}
    for name in sorted(names):
        folder, _, file = name.rpartition("/")
        parsed = _stage_of(file)
        if parsed is not None:
            module, kind, number = parsed
            by_module.setdefault((folder, module), []).append((kind, file, number, name))
    dumps = {folder for folder, _ in by_module}
    rest = [name for name in sorted(whole) if name.rpartition("/")[0] not in dumps]
    found: list[tuple[str, str]] = []
    for (_, module), files in sorted(by_module.items()):
        taken: dict[tuple[str, int], str] = {}
        for kind, file, number, name in files:
            is_proto = file.removesuffix(".gz").endswith(".pb")
            if (kind, number) not in taken or is_proto:
                taken[kind, number] = name
        order = sorted(taken, key=lambda key: {"before": -1, "after": 1 << 20}.get(key[0], key[1]))
        if stage == "last":
            order = order[-1:]
        elif stage != "all":
            order = [key for key in order if key[0] == stage]
        found += [(taken[key], module) for key in order]
    return found + [(name, _module_name(name)) for name in rest]


def _stage_of(file: str) -> tuple[str, str, int] | None:
    """Parses the name of a dump: (module, "before" | "after" | the pass after which it was dumped, number of the dump).
    None for the name of another file.

    >>> _stage_of("module_0001.jit_f.cpu_after_optimizations.hlo.pb.gz")
    ('module_0001.jit_f', 'after', 0)
    >>> _stage_of("module_0001.jit_f.0003.Simplify.after_dce.before_cse.txt")
    ('module_0001.jit_f', 'dce', 3)
    """
    stem = file.removesuffix(".gz")
    end = next((end for end in _ENDS if stem.endswith(end)), None)
    if end is None or not stem.startswith("module_"):
        return None
    stem = stem.removesuffix(end)
    if stem.endswith(".before_optimizations"):
        return stem.removesuffix(".before_optimizations"), "before", 0
    if stem.endswith("after_optimizations"):
        # The platform comes before it. For GPUs it has a version with a dot: .sm_8.0_gpu_after_optimizations
        return _PLATFORM.sub("", stem), "after", 0
    head, sign, tail = stem.partition(".after_")
    number = _PASS_NUMBER.search(head)
    if not sign or number is None:
        return None
    return head[: number.start()], tail.partition(".before_")[0], int(number[1])


def _module_name(name: str) -> str:
    """The name of a file's module, taken from the name of the file."""
    file = name.rsplit("/", 1)[-1]
    parsed = _stage_of(file)
    return without_end(file) if parsed is None else parsed[0]


def without_end(name: str) -> str:
    """The name of a file without the suffix of a module's format, and without .gz.

    >>> without_end("dumps/step.hlo.pb.gz"), without_end("notes.md")
    ('dumps/step', 'notes.md')
    """
    stem = name.removesuffix(".gz")
    return next((stem.removesuffix(end) for end in _ENDS if stem.endswith(end)), stem)
