"""Profiles of XLA's profiler, `*.xplane.pb`: an XSpace of planes (devices, the host), lines (threads, streams) and
events.

    XSpace         1 planes
    XPlane         2 name, 3 lines, 4 event metadata (map), 5 stat metadata (map), 6 stats
    XLine          2 name, 3 timestamp in ns, 4 events, 11 display name
    XEvent         1 metadata id, 2 offset in ps, 3 duration in ps, 4 stats, 5 number of occurrences
    XEventMetadata 1 id, 2 name, 4 display name, 5 stats
    XStatMetadata  1 id, 2 name
    XStat          1 metadata id; one of 2 double, 3 uint64, 4 int64, 5 text, 6 bytes, 7 id of the stat metadata whose
                   name is the value

An instruction's event is known by its stats, the same for all devices but TPUs:

    CPU, GPU       stats `hlo_op`, `hlo_module`, `program_id`, `run_id`. A GPU's kernel may have several operations in
                   `hlo_op`. Kernels of command buffers (stats `cuda_graph_id`, `graph_id`) have none.
    TPU            lines `XLA Ops` and `Async XLA Ops`; the metadata of the event has the instruction as display name,
                   and stats `program_id`, `flops`, `bytes_accessed`, `hlo_category`, `tf_op`, `source`
    modules        plane `/host:metadata`: metadata of an event for each, named `name(program id)`, with the stat
                   `hlo_proto`
    steps          the line `Steps` of a TPU; events of the host with the stat `step_num`

A plane is read in two passes, because its names come after its lines. Events are read in chunks, and not kept, unless a
line has them out of order.
"""

from __future__ import annotations

import re
import struct
from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from hashlib import blake2b
from typing import Any, Final, NamedTuple

from xlashape.errors import DecodeError
from xlashape.limits import check
from xlashape.proto.wire import BYTES, VARINT, fields, read_varint, signed
from xlashape.reports.profile.events import WAITING, OutOfOrder, ProfiledOperation, Tally, Timeline, in_order
from xlashape.reports.profile.spans import Span, Spans

_HLO_PROTO: Final = ("hlo_proto", "Hlo Proto")
_MOST_NAMES: Final = 1 << 22
_MOST_KEPT_EVENTS: Final = 1 << 22
_MOST_STEPS: Final = 1 << 20
_MOST_PLANES: Final = 1 << 20
_MOST_KEPT_PLANES: Final = 32
_MOST_CACHED: Final = 1 << 16
_MOST_KERNELS: Final = 1 << 12
_PROGRAM: Final = re.compile(r"\((-?[0-9]{1,20})\)$")
_TPU_LINES: Final = frozenset(("XLA Ops", "Async XLA Ops"))
# Lines that viewers derive from those of a GPU's streams.
_DERIVED_LINES: Final = frozenset(
    (
        *("Async XLA Ops", "Framework Name Scope", "Framework Ops", "Source code", "Steps"),
        *("TensorFlow Name Scope", "TensorFlow Ops", "XLA Modules", "XLA Ops", "XLA TraceMe"),
    )
)  # fmt: skip
# Stats of kernels in command buffers.
_GRAPHS: Final = frozenset(("cuda_graph_id", "cuda_graph_exec_id", "cuda_graph_node_id", "graph_id", "graph_node_id"))
_WANTED: Final = frozenset(("hlo_op", "hlo_module", "program_id", "run_id", "step_num", *_GRAPHS))


_Event = tuple[int, int, ProfiledOperation, int, str]
"""Begin, duration, operation, occurrences, execution."""


class HeldProgram(NamedTuple):
    """A module in a profile: where it is, to be read when it is needed."""

    name: str
    program_id: int | None
    spans: Spans
    span: Span

    def content(self) -> bytes:
        """The HloProto."""
        return self.spans.content(self.span)

    def digest(self) -> bytes:
        """A hash of the content, which differs between modules of the same name and id."""
        return blake2b(self.content(), digest_size=16).digest()


class _EventKind(NamedTuple):
    """The metadata that all events of a kind have in common."""

    name: str
    """The display name, where there is one."""
    stats: dict[str, Any]


class _Plane:
    """The names of a plane: events, stats, and where its lines are."""

    def __init__(self, spans: Spans, whole: Span) -> None:
        self.spans = spans
        self.name = ""
        self.lines: list[Span] = []
        self.stat_names: dict[int, str] = {}
        self.kinds: dict[int, _EventKind] = {}
        """The metadata of events by its id; empty until `read_kinds`."""
        self._kind_places = array("q")  # where the metadata of each kind of events begins and ends
        self._stats: list[Span] = []
        self._cache: dict[bytes, tuple[str, Any]] = {}
        for field in spans.fields(whole.start, whole.end):
            if field.wire_type != BYTES:
                continue
            if field.number == 2:
                self.name = spans.text(field)
            elif field.number == 3:
                self.lines.append(field)
            elif field.number == 4:
                self._kind_places.extend((field.start, field.end))
                check("names of a profile", len(self._kind_places) // 2, _MOST_NAMES)
            elif field.number == 5:
                self._read_stat_name(field)
            elif field.number == 6:
                self._stats.append(field)

    def _read_stat_name(self, entry: Span) -> None:
        check("names of a profile", len(self.stat_names) + 1, _MOST_NAMES)
        for value in self.spans.fields(entry.start, entry.end):
            if value.number == 2 and value.wire_type == BYTES:
                number, name = 0, ""
                for part in self.spans.fields(value.start, value.end):
                    if part.number == 1 and part.wire_type == VARINT:
                        number = part.value
                    elif part.number == 2 and part.wire_type == BYTES:
                        name = self.spans.text(part)
                self.stat_names[number] = name

    def stats(self) -> dict[str, Any]:
        """The stats of the plane itself."""
        return dict(self.stat(self.spans.content(each)) for each in self._stats)

    def read_kinds(self) -> None:
        """Reads the metadata of all events."""
        for start, end in zip(self._kind_places[::2], self._kind_places[1::2], strict=True):
            for value in self.spans.fields(start, end):
                if value.number == 2 and value.wire_type == BYTES:
                    number, kind = self._kind(value)
                    self.kinds[number] = kind

    def _kind(self, metadata: Span) -> tuple[int, _EventKind]:
        number = 0
        name = shown = ""
        stats: dict[str, Any] = {}
        for part in self.spans.fields(metadata.start, metadata.end):
            if part.number == 1 and part.wire_type == VARINT:
                number = part.value
            elif part.number == 2 and part.wire_type == BYTES:
                name = self.spans.text(part)
            elif part.number == 4 and part.wire_type == BYTES:
                shown = self.spans.text(part)
            elif part.number == 5 and part.wire_type == BYTES:
                key, value = self.stat(self.spans.content(part))
                if not isinstance(value, bytes):
                    stats[key] = value
        return number, _EventKind(shown or name, stats)

    def programs(self) -> Iterator[HeldProgram]:
        """The modules of the plane `/host:metadata`."""
        for start, end in zip(self._kind_places[::2], self._kind_places[1::2], strict=True):
            for value in self.spans.fields(start, end):
                if value.number != 2 or value.wire_type != BYTES:
                    continue
                name = ""
                held: list[Span] = []
                for part in self.spans.fields(value.start, value.end):
                    if part.number == 2 and part.wire_type == BYTES:
                        name = self.spans.text(part)
                    elif part.number == 5 and part.wire_type == BYTES:
                        parts = list(self.spans.fields(part.start, part.end))
                        ids = [each.value for each in parts if each.number == 1 and each.wire_type == VARINT]
                        is_module = any(self.stat_names.get(each) in _HLO_PROTO for each in ids)
                        held += [each for each in parts if each.number == 6 and each.wire_type == BYTES and is_module]
                if held:
                    match = _PROGRAM.search(name)
                    number = None if match is None else int(match[1])
                    yield HeldProgram(name[: match.start()] if match else name, number, self.spans, held[0])

    def stat(self, data: bytes) -> tuple[str, Any]:
        """The name and the value of a stat."""
        found = self._cache.get(data)
        if found is None:
            if len(self._cache) >= _MOST_CACHED:
                self._cache.clear()
            found = self._cache[data] = self._decoded(data)
        return found

    def _decoded(self, data: bytes) -> tuple[str, Any]:
        name = ""
        value: Any = None
        for number, wire_type, _, start, end in fields(data):
            if wire_type == VARINT:
                plain, _ = read_varint(data, start)
                if number == 1:
                    name = self.stat_names.get(plain, "")
                elif number == 7:
                    value = self.stat_names.get(plain, "")
                elif number in (3, 4):
                    value = plain if number == 3 else signed(plain)
            elif number == 2 and end - start == 8:
                (value,) = struct.unpack("<d", data[start:end])
            elif number == 5 and wire_type == BYTES:
                value = data[start:end].decode("utf-8", "replace")
            elif number == 6 and wire_type == BYTES:
                value = data[start:end]
        return name, value

    def line_names(self, line: Span) -> tuple[str, int]:
        """The name of a line, and when it begins, in picoseconds."""
        name = shown = ""
        begins = 0
        for part in self.spans.fields(line.start, line.end):
            # The events come after the fields that name the line.
            if part.number == 4:
                break
            if part.number == 2 and part.wire_type == BYTES:
                name = self.spans.text(part)
            elif part.number == 11 and part.wire_type == BYTES:
                shown = self.spans.text(part)
            elif part.number == 3 and part.wire_type == VARINT:
                begins = signed(part.value) * 1000
        return name or shown, begins

    def has_stat(self, line: Span, marks: list[bytes]) -> bool:
        """Whether a line may have an event with a stat whose bytes begin with one of these, as `_mark` gives them."""
        if not marks:
            return False
        return self.spans.may_have(
            line.start, line.end, rb"\x22[\x00-\xff]{1,3}?(?:" + b"|".join([re.escape(mark) for mark in marks]) + b")"
        )

    @property
    def names_operations(self) -> bool:
        """Whether the metadata of events, and not each event, says which instruction it runs."""
        return any("hlo_op" in kind.stats for kind in self.kinds.values())

    def events(self, line: Span) -> Iterator[tuple[int, int, int, int, list[bytes]]]:
        """(metadata id, offset, duration, occurrences, stats) of each event, times in picoseconds."""
        for buffer, at, end in self.spans.messages(line.start, line.end, 4):
            kind = offset = duration = 0
            occurrences = 1
            stats: list[bytes] = []
            try:
                while at < end:
                    tag, value = buffer[at], buffer[at + 1]
                    if value < 0x80:
                        at += 2
                    else:
                        value, at = read_varint(buffer, at + 1)
                    if tag == 0x22:
                        stats.append(buffer[at : at + value])
                        at += value
                    elif tag == 0x08:
                        kind = value
                    elif tag == 0x10:
                        offset = signed(value)
                    elif tag == 0x18:
                        duration = max(0, signed(value))
                    elif tag == 0x28:
                        occurrences = max(1, value)
                    elif tag & 7 == BYTES:
                        at += value
                    elif tag & 7 != VARINT:
                        raise DecodeError("there is no such field")
                if at > end:
                    raise DecodeError("a field is longer than the message that holds it")
            except (DecodeError, IndexError) as error:
                what = "a varint is truncated" if isinstance(error, IndexError) else error
                raise self.spans.error(f"an event of {self.name!r}: {what}", line.start) from None
            yield kind, offset, duration, occurrences, stats


def read_xspace(spans: Spans, tally: Tally) -> Iterator[HeldProgram]:
    """Gives the modules of a profile, and counts its events in `tally` by the end of the iteration. Raises DecodeError
    for bytes that are not a profile."""
    found: list[_Plane | Span] = []
    host_steps: set[tuple[int, int, str]] = set()
    has_name = False
    for field in spans.fields(0, spans.size):
        if field.number > 4 or field.wire_type != BYTES:
            raise spans.error("a profile has no such field", field.start)
        if field.number != 1:
            continue
        plane = _Plane(spans, field)
        has_name = has_name or bool(plane.name)
        if plane.name == "/host:metadata":
            yield from plane.programs()
        if plane.lines and plane.name.startswith("/host:") and "step_num" in plane.stat_names.values():
            host_steps.update(_host_steps(plane))
            check("steps of a profile", len(host_steps), _MOST_STEPS)
        if plane.lines and plane.name.startswith(("/host:CPU", "/device:")):
            # If there are many planes, only their places in the file are kept.
            found.append(plane if len(found) < _MOST_KEPT_PLANES else field)
            check("planes of a profile", len(found), _MOST_PLANES)
    if not has_name:
        raise spans.error("there is no plane with a name", 0)
    ordered = sorted(host_steps)
    found.reverse()
    while found:
        each = found.pop()
        _read_plane(_Plane(spans, each) if isinstance(each, Span) else each, tally, ordered)


def _read_plane(plane: _Plane, tally: Tally, host_steps: list[tuple[int, int, str]]) -> None:
    """Counts the events of a plane. Its steps are those that it marks itself, else those of the host."""
    is_device = plane.name.startswith("/device:")
    if not plane.kinds:
        plane.read_kinds()
    if is_device:
        stats = plane.stats()
        tally.teraflops = max(tally.teraflops, _number(stats.get("peak_teraflops_per_second")))
        tally.gigabytes = max(tally.gigabytes, _number(stats.get("peak_hbm_bw_gigabytes_per_second")))
    lines = [(line, *plane.line_names(line)) for line in plane.lines]
    steps = sorted([step for line, name, begins in lines if name == "Steps" for step in _steps(plane, line, begins)])
    step_of = _finder(steps or host_steps)
    names = {name for _, name, _ in lines}
    is_tpu = "TPU" in plane.name or (bool(names & _TPU_LINES) and not any(name.startswith("Stream") for name in names))
    for line, name, begins in lines:
        if (name not in _TPU_LINES) if is_tpu else (name in _DERIVED_LINES and is_device):
            continue
        events = _tpu_events if is_tpu else _kernel_events
        counted = _counted(partial(events, plane, line, begins), plane.name, step_of)
        tally.take_line(counted)
        if counted.operations:
            tally.planes.add(plane.name)


def _counted(
    events: Callable[[Tally], Iterable[_Event]], device: str, step_of: Callable[[int], str | None] | None
) -> Tally:
    """The sums of a line. `events` reads its events, and counts those without an operation in the tally that it is
    given. Where they are not in the order of their beginnings, the line is read again and sorted."""
    tally = Tally()
    line = Timeline(tally, device, step_of)
    try:
        for event in events(tally):
            line.add(*event)
    except OutOfOrder:
        tally = Tally()
        line = Timeline(tally, device, step_of)
        for event in in_order(events(tally), _MOST_KEPT_EVENTS):
            line.add(*event)
    line.finish()
    return tally


def _kernel_events(plane: _Plane, line: Span, begins: int, tally: Tally) -> Iterator[_Event]:
    """The events of CPUs and GPUs. An event without an operation is counted as lost on a device, and ignored on the
    host.
    """
    is_device = plane.name.startswith("/device:")
    marks = [_mark(number) for number, name in plane.stat_names.items() if name == "hlo_op"]
    if not is_device and not plane.names_operations and not plane.has_stat(line, marks):
        return
    waiting = {number for number, each in plane.kinds.items() if each.name == WAITING}
    kernels: dict[tuple[int, tuple[bytes, ...]], _Kernel | None] = {}
    operations: dict[tuple[Any, Any, Any], ProfiledOperation] = {}
    for kind, offset, duration, occurrences, stats in plane.events(line):
        key = kind, tuple(stats)
        if key in kernels:
            kernel = kernels[key]
        else:
            # Most events have the same stats as others. Stats with a number of their own would fill the cache, so it is
            # emptied when it is full.
            if len(kernels) >= _MOST_KERNELS:
                kernels.clear()
            kernel = kernels[key] = _kernel(plane, kind, stats, marks, operations)
        if kernel is None:
            if kind in waiting:
                tally.waited.add(duration, occurrences)
            continue
        operation, run, in_graph = kernel
        if operation is not None:
            yield begins + offset, duration, operation, occurrences, run
        elif is_device:
            tally.lost.add(duration, occurrences)
            if in_graph:
                tally.lost_in_graphs.add(duration, occurrences)


class _Kernel(NamedTuple):
    """What the stats of an event say: the operation that it ran, in which execution, whether in a command buffer."""

    operation: ProfiledOperation | None
    run: str
    in_graph: bool


def _kernel(
    plane: _Plane,
    kind: int,
    stats: list[bytes],
    marks: list[bytes],
    operations: dict[tuple[Any, Any, Any], ProfiledOperation],
) -> _Kernel | None:
    """What the stats of an event say; None for an event of the host that has no operation."""
    held = plane.kinds.get(kind)
    found = dict(held.stats) if held is not None else {}
    if (
        not plane.name.startswith("/device:")
        and "hlo_op" not in found
        and not any(each.startswith(mark) for each in stats for mark in marks)
    ):
        return None
    for each in stats:
        name, value = plane.stat(each)
        if name in _WANTED:
            found[name] = value
    names, run = found.get("hlo_op"), found.get("run_id")
    if not names:
        return _Kernel(None, "", bool(_GRAPHS & found.keys()))
    key = (names, found.get("hlo_module"), found.get("program_id"))
    operation = operations.get(key)
    if operation is None:
        several = tuple([each.strip().removeprefix("%") for each in re.split(r"[,;]", str(names)) if each.strip()])
        operation = operations[key] = ProfiledOperation(several, str(key[1] or ""), _program_id(key[2]))
    return _Kernel(operation, "" if run is None else f"run {run}", False)


def _mark(number: int) -> bytes:
    """The first bytes of a stat whose metadata has this id."""
    digits = bytearray([0x08])
    while number > 0x7F:
        digits.append(number & 0x7F | 0x80)
        number >>= 7
    digits.append(number)
    return bytes(digits)


def _tpu_events(plane: _Plane, line: Span, begins: int, tally: Tally) -> Iterator[_Event]:
    """The events of a line of a TPU. An event without an operation is counted as lost."""
    operations: dict[int, ProfiledOperation | None] = {}
    for kind, offset, duration, occurrences, _ in plane.events(line):
        if kind not in operations:
            operations[kind] = _tpu_operation(plane.kinds.get(kind))
        operation = operations[kind]
        if operation is not None:
            yield begins + offset, duration, operation, occurrences, ""
        else:
            tally.lost.add(duration, occurrences)


def _tpu_operation(kind: _EventKind | None) -> ProfiledOperation | None:
    """The instruction that the metadata of an event names: the display name, or the beginning of its HLO text."""
    if kind is None or not kind.name:
        return None
    stats = kind.stats
    name = kind.name.partition(" = ")[0].strip().removeprefix("%")
    flops, moved = stats.get("flops"), stats.get("bytes_accessed")
    return ProfiledOperation(
        (name,),
        str(stats.get("hlo_module") or ""),
        _program_id(stats.get("program_id")),
        str(stats.get("hlo_category") or ""),
        int(flops) if isinstance(flops, (int, float)) else None,
        int(moved) if isinstance(moved, (int, float)) else None,
        str(stats.get("source") or ""),
        str(stats.get("tf_op") or ""),
    )


def _steps(plane: _Plane, line: Span, begins: int) -> Iterator[tuple[int, int, str]]:
    """The steps of a line: the times at which each begins and ends, in picoseconds, and its name."""
    for count, (kind, offset, duration, _, _) in enumerate(plane.events(line)):
        check("steps of a profile", count, _MOST_STEPS)
        held = plane.kinds.get(kind)
        yield begins + offset, begins + offset + duration, held.name if held is not None else str(kind)


def _host_steps(plane: _Plane) -> Iterator[tuple[int, int, str]]:
    """The steps that a program has marked on the host, as StepTraceAnnotation does."""
    marks = [_mark(number) for number, name in plane.stat_names.items() if name == "step_num"]
    for line in plane.lines:
        if not plane.has_stat(line, marks):
            continue
        _, begins = plane.line_names(line)
        for _, offset, duration, _, stats in plane.events(line):
            for each in stats:
                if any(each.startswith(mark) for mark in marks):
                    name, value = plane.stat(each)
                    if name == "step_num":
                        yield begins + offset, begins + offset + duration, f"step {value}"


def _finder(steps: list[tuple[int, int, str]]) -> Callable[[int], str | None] | None:
    """A function that gives the name of the step in which a time lies; None where there are no steps."""
    if not steps:
        return None
    begins = [step[0] for step in steps]

    def step_of(time: int) -> str | None:
        index = bisect_right(begins, time) - 1
        return steps[index][2] if index >= 0 and time < steps[index][1] else None

    return step_of


def _program_id(value: Any) -> int | None:
    if isinstance(value, int):
        return value
    text = str(value) if value is not None else ""
    return int(text) if re.fullmatch(r"-?[0-9]{1,20}", text) else None


def _number(value: Any) -> float:
    return float(value) if isinstance(value, (int, float)) else 0.0
