"""Profiles as the trace viewers read them, `*.trace.json.gz`: JSON with a list of events, read one by one.

    {"displayTimeUnit": "ns", "traceEvents": [
      {"ph": "M", "pid": 1, "name": "process_name", "args": {"name": "/device:GPU:0"}},
      {"ph": "M", "pid": 1, "tid": 2, "name": "thread_name", "args": {"name": "Stream #13"}},
      {"ph": "X", "pid": 1, "tid": 2, "ts": 324.702, "dur": 4.92, "name": "loop_fusion", "args": {"hlo_op": "fusion.1",
      "hlo_module": "jit_f"}}]}

Times are in microseconds, with three decimals. These files hold no modules, mostly no program ids, and at most a
million events of a long profile. The events of a line (a thread or a stream) are counted in the order of their
beginnings, and files have them in another order. So all events are kept until the end, each as four numbers.
"""

from __future__ import annotations

import json
import re
import zlib
from array import array
from codecs import getincrementaldecoder
from collections.abc import Iterator
from typing import Any, BinaryIO, Final, NamedTuple, cast

from xlashape.errors import DecodeError
from xlashape.limits import check, spend
from xlashape.reports.profile.events import WAITING, ProfiledOperation, Tally, Timeline

_CHUNK: Final = 1 << 20
_MOST_EVENTS: Final = 1 << 22
_MOST_CHARACTERS: Final = 1 << 24
_BEGIN: Final = re.compile(r'"traceEvents"\s*:\s*\[')
_SEPARATORS: Final = re.compile(r"[ \t\r\n,]+")
_TPU_LINES: Final = frozenset(("XLA Ops", "Async XLA Ops"))
# Arguments of kernels in command buffers.
_GRAPHS: Final = ("cuda_graph_id", "graph_id", "cuda_graph_node_id")
_WANTED: Final = (
    *("hlo_op", "hlo_module", "program_id", "hlo_category", "flops", "bytes_accessed", "source"),
    *("tf_op", "long_name", *_GRAPHS),
)
# Lines that viewers derive from those of a GPU's streams.
_DERIVED: Final = re.compile(r"Steps|XLA Modules|XLA Ops|Framework|TensorFlow|Source code|Async XLA Ops")


class _Events(NamedTuple):
    """The events of a line: begin and duration in microseconds, the number of the kind (a name with arguments), and the
    number of the execution of a program."""

    begins: array[float]
    durations: array[float]
    kinds: array[int]
    runs: array[int]


def read_trace(file: BinaryIO, name: str, tally: Tally) -> None:
    """Counts the events of a trace in `tally`. Raises DecodeError for a file that is no trace; `name` is what the error
    calls it."""
    processes: dict[Any, str] = {}
    threads: dict[tuple[Any, Any], str] = {}
    lines: dict[tuple[Any, Any], _Events] = {}
    # Most events have the same name and arguments as others, so these are held once.
    numbers: dict[tuple[Any, ...], int] = {}
    kinds: list[tuple[str, dict[str, Any]]] = []
    runs: dict[str, int] = {}
    waited: dict[tuple[Any, Any], int] = {}
    count = 0
    for event in _events(file, name):
        spend()
        arguments: Any = event.get("args")
        held = cast("dict[str, Any]", arguments) if isinstance(arguments, dict) else {}
        where = (_hashable(event.get("pid")), _hashable(event.get("tid")))
        if event.get("ph") == "M":
            if event.get("name") == "process_name":
                processes[where[0]] = str(held.get("name", ""))
            elif event.get("name") == "thread_name":
                threads[where] = str(held.get("name", ""))
        elif event.get("ph") == "X":
            count += 1
            check("events of a trace", count, _MOST_EVENTS)
            times = [event.get("ts"), event.get("dur", 0)]
            if not all(isinstance(each, (int, float)) and abs(each) < 1e18 for each in times):
                raise DecodeError(
                    f"{name}: an event {event.get('name')!r} has no times: ts={times[0]!r}, dur={times[1]!r}"
                )
            if processes.get(where[0], "").startswith("/host:") and not held.get("hlo_op"):
                if event.get("name") == WAITING:
                    waited[where] = waited.get(where, 0) + max(0, round(float(times[1] or 0) * 1e6))
                continue
            kept = {name: held[name] for name in _WANTED if name in held}
            named = str(event.get("name", ""))
            is_plain = all(isinstance(value, (str, int, float)) for value in kept.values())
            number = numbers.setdefault((named, *kept.items()) if is_plain else (id(kept), len(kinds)), len(kinds))
            if number == len(kinds):
                kinds.append((named, kept))
            run = held.get("run_id")
            run_number = runs.setdefault("" if run is None else f"run {run}", len(runs))
            line = lines.get(where)
            if line is None:
                line = lines[where] = _Events(array("d"), array("d"), array("i"), array("i"))
            line.begins.append(float(times[0] or 0))
            line.durations.append(float(times[1] or 0))
            line.kinds.append(number)
            line.runs.append(run_number)
    if not processes:
        raise DecodeError(f"{name} names no process: it is not a trace of the profiler")
    for where, events in lines.items():
        line = Tally()
        if where in waited:
            line.waited.add(waited[where], 1)
        _count(tally, line, processes.get(where[0], ""), threads.get(where, ""), events, kinds, list(runs))


def _count(
    tally: Tally,
    counted: Tally,
    plane: str,
    thread: str,
    events: _Events,
    kinds: list[tuple[str, dict[str, Any]]],
    runs: list[str],
) -> None:
    """Counts the events of a line, the timeline `thread` of `plane`, in `counted`, which it adds to `tally`."""
    # Deferred: profiles of the other format do not need NumPy.
    import numpy as np

    is_device = plane.startswith("/device:")
    is_tpu = plane.startswith("/device:TPU")
    if is_tpu and thread not in _TPU_LINES:
        return
    if is_device and not is_tpu and _DERIVED.match(thread):
        return
    line = Timeline(counted, plane)
    begins, durations = (np.rint(np.frombuffer(each) * 1e6) for each in (events.begins, events.durations))
    durations = np.maximum(durations, 0)
    operations: dict[int, ProfiledOperation | None] = {}
    order: Iterator[int] = iter(np.lexsort((-durations, begins)))
    for at in order:
        start, duration, number = int(begins[at]), int(durations[at]), events.kinds[at]
        if number not in operations:
            operations[number] = _operation(*kinds[number], is_tpu=is_tpu)
        operation = operations[number]
        if operation is not None:
            tally.planes.add(plane)
            line.add(start, duration, operation, 1, runs[events.runs[at]])
        elif is_device:
            counted.lost.add(duration, 1)
            if any(key in kinds[number][1] for key in _GRAPHS):
                counted.lost_in_graphs.add(duration, 1)
    line.finish()
    tally.take_line(counted)


def _operation(name: str, held: dict[str, Any], *, is_tpu: bool) -> ProfiledOperation | None:
    """The instruction that an event of this name and these arguments ran; None where it names none."""
    names = held.get("hlo_op") or (name if is_tpu else None)
    if not names:
        return None
    several = tuple([each.strip().removeprefix("%") for each in re.split(r"[,;]", str(names)) if each.strip()])
    return ProfiledOperation(
        several,
        str(held.get("hlo_module") or ""),
        _integer(held.get("program_id")),
        str(held.get("hlo_category") or ""),
        _integer(held.get("flops")),
        _integer(held.get("bytes_accessed")),
        str(held.get("source") or ""),
        str(held.get("tf_op") or held.get("long_name") or "") if is_tpu else "",
    )


def _integer(value: Any) -> int | None:
    text = str(value) if value is not None else ""
    return int(text) if re.fullmatch(r"-?[0-9]{1,20}", text) else None


def _hashable(value: Any) -> Any:
    return value if isinstance(value, (int, str, float)) else str(value)


def _events(file: BinaryIO, name: str) -> Iterator[dict[str, Any]]:
    """The objects of the list `traceEvents` one by one, without the whole file in memory."""
    decoder = json.JSONDecoder()
    text = _Text(file, name)
    while (match := _BEGIN.search(text.held)) is None:
        if len(text.held) > _MOST_CHARACTERS or not text.more():
            raise DecodeError(f"{name} is not a trace: it has no traceEvents")
    at = match.end()
    while True:
        skipped = _SEPARATORS.match(text.held, at)
        at = skipped.end() if skipped is not None else at
        if at < len(text.held) and text.held[at] == "]":
            return
        try:
            event, end = decoder.raw_decode(text.held, at)
            # A number at the end of a chunk may go on.
            is_whole = end < len(text.held)
        except RecursionError:
            raise DecodeError(f"{name}: an event is nested too deeply") from None
        except ValueError:
            event, end, is_whole = None, at, False
        if not is_whole:
            if len(text.held) - at > _MOST_CHARACTERS:
                raise DecodeError(f"{name}: an event is damaged, or longer than {_MOST_CHARACTERS:,} characters")
            text.drop(at)
            at = 0
            if not text.more():
                raise DecodeError(f"{name} is truncated: the list of events has no end")
            continue
        if isinstance(event, dict):
            yield cast("dict[str, Any]", event)
        at = end
        if at > _CHUNK:
            text.drop(at)
            at = 0


class _Text:
    """The next characters of a file."""

    def __init__(self, file: BinaryIO, name: str) -> None:
        self._file = file
        self._name = name
        self._decoder = getincrementaldecoder("utf-8")("replace")
        self.held = ""

    def drop(self, count: int) -> None:
        """Forgets what has been read."""
        self.held = self.held[count:]

    def more(self) -> bool:
        """Reads more of the file. False at its end."""
        try:
            data = self._file.read(_CHUNK)
        except (OSError, EOFError, zlib.error) as error:
            raise DecodeError(f"{self._name} cannot be decompressed: {error}") from None
        spend(1 + len(data) // 1024)
        self.held += self._decoder.decode(data)
        return bool(data)
