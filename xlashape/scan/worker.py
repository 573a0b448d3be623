"""A process that makes the rows of files, one file after the other. A file may end the process: by its time, by its
memory, or by a fault in compiled code.

The process reads requests from its standard input and writes tables to its standard output. A timer ends it when a file
takes too long, whatever the process is doing then; an allocation beyond its memory fails. Seconds are those of the
processor, so that a busy machine refuses no file; the elapsed time may be ten times as long, which bounds a hanging
file system. `Worker`, at the other end, starts a new process if a file has ended the last one.

    request     <I> size, JSON: {"path": …, "file": its absolute path, "datasets": […], "seconds": …,
                "content": bytes of content or null}, content
    ready       one byte, before the first answer
    answer      <I> size, JSON: {"tables": [[name, bytes], …]}, each table as an Arrow IPC stream

Without content the process reads the path.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import struct
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from importlib import import_module
from math import isfinite
from mmap import ACCESS_READ, mmap
from pathlib import Path
from tempfile import TemporaryFile
from types import TracebackType
from typing import IO, Any, Final

from xlashape.base.extras import require
from xlashape.base.math import byte_text
from xlashape.base.tables import Table, arrow_schema
from xlashape.errors import InvalidArgumentError, LimitExceededError, SizeOverflowError, UnavailableError
from xlashape.scan.datasets import BY_DEFAULT, DATASETS, failed_file, failed_table, key_of, rows_of_file

DEFAULT_SECONDS: Final = 300.0
"""Twice the time that a module of 100 MB took for all data sets but the maps."""
DEFAULT_MEMORY_BYTES: Final = 2 << 30
"""Twice the memory that a module of 100 MB took for all data sets but the maps."""

_PATIENCE: Final = 10
"""How many times as long as its processor time the elapsed time of a file may be."""
_TIMERS: Final = (-signal.SIGPROF, -signal.SIGALRM)
"""The exit codes of a process that has ended itself by a timer."""

_LARGE: Final = 1 << 20
"""The tables of files with more bytes than this are compressed. Compression would make small files, with a thousand
columns of a few values, take ten times as long."""

_CHANCES: Final = 6
"""How often a file is tried if its process is killed each time."""

_STARTS: Final = 50
"""The most processes that are started for a file, counting those that are killed while they start."""

_READY: Final = b"r"

_SIZE: Final = struct.Struct("<I")
_MEMORY: Final = "XLASHAPE_SCAN_MEMORY"
"""The environment variable by which the process gets the most memory of a file, in bytes."""
_START: Final = "from xlashape.scan.worker import serve; serve()"


_MOST_SECONDS: Final = 10**8
_MOST_MEMORY: Final = 1 << 60


def check_bounds(seconds: float, memory_bytes: int) -> None:
    """Raises InvalidArgumentError for bounds that no file could be held to."""
    if not isfinite(seconds) or not 0 < seconds <= _MOST_SECONDS:
        raise InvalidArgumentError(
            f"seconds must be above 0 and at most {_MOST_SECONDS:,}, not {seconds}", field="seconds"
        )
    if not 0 < memory_bytes <= _MOST_MEMORY:
        raise InvalidArgumentError(
            f"memory_bytes must be above 0 and at most {_MOST_MEMORY:,}, not {memory_bytes:,}", field="memory_bytes"
        )


class Worker:
    """A process for files. It starts with the first file, and again after one that ended it. Close it, or use it in a
    `with`.

    seconds: the most time of the processor that a file may take. memory_bytes: the most memory that it may take.
    Raises InvalidArgumentError for bounds that no file could be held to.
    """

    def __init__(self, seconds: float = DEFAULT_SECONDS, memory_bytes: int = DEFAULT_MEMORY_BYTES) -> None:
        require("tables", "a scan")
        check_bounds(seconds, memory_bytes)
        self._seconds = seconds
        self._memory_bytes = memory_bytes
        self._process: subprocess.Popen[bytes] | None = None
        self._is_ready = False
        """Whether the process has started and waits for files."""
        self._lock = threading.Lock()

    def tables(self, path: str, content: bytes | None, datasets: Sequence[str]) -> dict[str, Any]:
        """The rows of each of these data sets for a file as an Arrow table, otherwise as `streams`."""
        return {name: stream.read_all() for name, stream in self.streams(path, content, datasets).items()}

    def streams(self, path: str, content: bytes | None, datasets: Sequence[str]) -> dict[str, Any]:
        """The rows of each of these data sets for a file, as a reader of Arrow's record batches by the name of the data
        set. If `content` is None, the process reads the file `path`. The batches of large files are compressed until
        they are read. A file that is broken or that ends the process raises no error: it has a row in `errors`."""
        request = {
            "path": path,
            # The process may have been started in another directory.
            "file": os.path.abspath(path),  # noqa: PTH100 - of text
            "datasets": list(datasets),
            "seconds": self._seconds,
            "content": None if content is None else len(content),
        }
        with self._lock:
            code = deaths = 0
            for _ in range(_STARTS):
                process = self._process = self._process or self._started()
                assert process.stdin is not None
                assert process.stdout is not None
                try:
                    if not self._is_ready:
                        self._is_ready = _exactly(process.stdout, len(_READY)) == _READY
                    _write(process.stdin, json.dumps(request).encode(), content or b"")
                    answer = json.loads(_read(process.stdout))
                    return {name: opened(_exactly(process.stdout, size)) for name, size in answer["tables"]}
                except (EOFError, BrokenPipeError):
                    self.close()
                    code = process.returncode
                is_killed = code == -signal.SIGKILL
                # A process that is killed while it starts says nothing about the file.
                deaths += self._is_ready or not is_killed
                # The file has a second chance, and more if the process was killed from outside, such as by a system
                # that is short of memory.
                if code in _TIMERS or deaths >= (_CHANCES if is_killed else 2):
                    break
            return {
                "errors": failed_file(shown_path(path), _key(path, content), self._reason(code)).to_arrow().to_reader()
            }

    def _reason(self, code: int) -> Exception:
        """The error of a file that has ended the process with this exit code."""
        if code in _TIMERS:
            what = "of the processor's time" if code == -signal.SIGPROF else "in all"
            seconds = self._seconds if code == -signal.SIGPROF else self._seconds * _PATIENCE
            message = f"took more than {seconds:g} s {what}: larger `seconds` give it more"
            return LimitExceededError(message, limit="seconds", maximum=int(seconds))
        how = f"was ended by signal {-code}" if code < 0 else f"ended with exit code {code}"
        return UnavailableError(
            f"the process that read it {how}; it may have {byte_text(self._memory_bytes)} of memory"
        )

    def _started(self) -> subprocess.Popen[bytes]:
        environment = {**os.environ, _MEMORY: str(self._memory_bytes)}
        self._is_ready = False
        environment["PYTHONPATH"] = os.pathsep.join([path for path in sys.path if path])
        return subprocess.Popen(
            [sys.executable, "-c", _START], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment
        )

    def close(self) -> None:
        """Ends the process, if there is one. The next file starts another."""
        process, self._process = self._process, None
        if process is None:
            return
        for stream in (process.stdin, process.stdout):
            assert stream is not None
            with suppress(BrokenPipeError):
                stream.close()
        try:
            process.wait(0.5)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def __enter__(self) -> Worker:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def shown_path(path: str) -> str:
    r"""A path as rows have it: bytes that are no text, which names of files may have, as `\\udc80`."""
    return path.encode("utf-8", "backslashreplace").decode()


def _key(path: str, content: bytes | None) -> str | None:
    """The key of a file that could not be answered, for its row in `errors`; None if it cannot be read."""
    try:
        return key_of(path, _content(path) if content is None else content)
    except OSError:
        return None


def _content(path: str) -> bytes:
    with open(path, "rb") as file:  # noqa: PTH123 - a path as it was given
        return file.read()


def serve() -> None:
    """The main loop of the process: answers requests on standard input until the input ends."""
    with os.fdopen(os.dup(0), "rb") as requests, os.fdopen(os.dup(1), "wb") as answers:
        os.dup2(2, 1)  # what libraries print must not get between the answers
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the process that started it ends it
        # Imports what files need, outside their time and memory.
        _answer("", "", b"HloModule m ENTRY e { ROOT p = f32[1] parameter(0) }", BY_DEFAULT)
        most = _own_bytes() + int(os.environ[_MEMORY])
        resource.setrlimit(resource.RLIMIT_DATA, (most, most))
        with suppress(EOFError, BrokenPipeError):  # the other end is gone
            answers.write(_READY)
            answers.flush()
            while True:
                _serve_one(requests, answers)


def _serve_one(requests: IO[bytes], answers: IO[bytes]) -> None:
    request = json.loads(_read(requests))
    size = request["content"]
    content = None if size is None else _exactly(requests, size)
    signal.setitimer(signal.ITIMER_PROF, request["seconds"])
    signal.setitimer(signal.ITIMER_REAL, request["seconds"] * _PATIENCE)
    parts = _answer(request["path"], request["file"], content, request["datasets"])
    signal.setitimer(signal.ITIMER_PROF, 0)
    signal.setitimer(signal.ITIMER_REAL, 0)
    header = {"tables": [[name, len(data)] for name, data in parts.items()]}
    _write(answers, json.dumps(header).encode(), *parts.values())


def _own_bytes() -> int:
    """The data of the process before the first file, which does not count as a file's."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[5])
    except OSError:  # on other systems than Linux
        return 1 << 29
    return pages * resource.getpagesize()


def _answer(path: str, file: str, content: bytes | None, datasets: Sequence[str]) -> dict[str, Any]:
    """The rows of a file, as an Arrow IPC stream for each data set. `path` is for the rows; `file` is read if `content`
    is None. OSError and MemoryError become a row of `errors`."""
    shown = shown_path(path)
    try:
        size = os.stat(file).st_size if content is None else len(content)  # noqa: PTH116 - a path as it was given
        # Nothing here keeps the content, so that its memory is freed when the modules are made.
        rows = rows_of_file(shown, _content(file) if content is None else content, datasets)
        return _streams(datasets, rows, is_large=size > _LARGE)
    except OSError as error:
        return _error(shown, None, error)
    except MemoryError:
        message = f"needs more than {byte_text(int(os.environ[_MEMORY]))} of memory: larger `memory_bytes` give it more"
        error = LimitExceededError(message, limit="memory_bytes", maximum=int(os.environ[_MEMORY]))
        return _error(shown, _key(file, content), error)


def _streams(datasets: Sequence[str], tables: Iterable[tuple[str, Table]], *, is_large: bool = False) -> dict[str, Any]:
    """The tables of each data set as one Arrow IPC stream, in a bytes-like object."""
    pa: Any = import_module("pyarrow")
    options = pa.ipc.IpcWriteOptions(compression="lz4" if is_large else None)
    # The rows of a large file wait on the disk. For a small file, a temporary file would take longer than all the rest.
    made: Callable[[], Any] = TemporaryFile if is_large else pa.BufferOutputStream
    sinks: dict[str, Any] = {name: made() for name in datasets}
    writers = {
        name: pa.ipc.new_stream(sink, arrow_schema(DATASETS[name].all_columns), options=options)
        for name, sink in sinks.items()
    }
    for name, table in tables:
        try:
            arrow = table.to_arrow()
        except SizeOverflowError as error:
            name, arrow = "errors", failed_table(name, table, error).to_arrow()
        writers[name].write_table(arrow)
    for writer in writers.values():
        writer.close()
    if not is_large:
        return {name: sink.getvalue() for name, sink in sinks.items()}
    return {name: _mapped(sink) for name, sink in sinks.items()}


def _mapped(file: IO[bytes]) -> mmap:
    """The bytes of a temporary file, which is deleted when nothing refers to them any more."""
    with file:
        file.flush()
        return mmap(file.fileno(), 0, access=ACCESS_READ)


def _error(path: str, key: str | None, error: Exception) -> dict[str, Any]:
    return _streams(["errors"], [("errors", failed_file(path, key, error))])


def opened(data: bytes) -> Any:
    """A reader of the record batches in an Arrow IPC stream."""
    return import_module("pyarrow").ipc.open_stream(data)


def _write(stream: IO[bytes], header: bytes, *rest: Any) -> None:
    stream.write(_SIZE.pack(len(header)))
    stream.write(header)
    for part in rest:
        stream.write(part)
    stream.flush()


def _read(stream: IO[bytes]) -> bytes:
    return _exactly(stream, _SIZE.unpack(_exactly(stream, _SIZE.size))[0])


def _exactly(stream: IO[bytes], size: int) -> bytes:
    data = stream.read(size)
    if len(data) < size:
        raise EOFError
    return data
