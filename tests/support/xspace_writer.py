"""Writes profiles as XLA's profiler does on GPUs and TPUs, which no test machine has: an XSpace in protobuf's wire
format. Times are in picoseconds.

    plane = Plane("/device:TPU:0", stats={"peak_teraflops_per_second": 918.0})
    kind = plane.kind("%add.1 = …", display="add.1", stats={"program_id": 7})
    plane.line("XLA Ops", [Event(kind, start=10, duration=5)])
    data = xspace([plane, modules({"jit_f(7)": hlo_proto_bytes})])
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from xlashape.proto.wire import BYTES, FIXED64, VARINT, sized, tag, varint


class Event(NamedTuple):
    """An event of a line."""

    kind: int
    start: int
    duration: int
    stats: Mapping[str, Any] = {}
    occurrences: int = 0


def _number(field: int, value: int) -> bytes:
    return tag(field, VARINT) + varint(value)


def _bytes(field: int, value: bytes | str) -> bytes:
    return tag(field, BYTES) + sized(value.encode() if isinstance(value, str) else value)


class Plane:
    """A plane of a profile: a device, or the host, with its timelines."""

    def __init__(self, name: str, *, stats: Mapping[str, Any] | None = None, refer: Iterable[str] = ()) -> None:
        """Stats whose names are in `refer` hold their text as a reference to the plane's table of names."""
        self.name = name
        self._stats = dict(stats or {})
        self._refer = set(refer)
        self._names: dict[str, int] = {}
        self._kinds: list[bytes] = []
        self._lines: list[bytes] = []

    def _name(self, name: str) -> int:
        return self._names.setdefault(name, len(self._names) + 1)

    def stat(self, name: str, value: Any) -> bytes:
        """A stat as an XStat: text, bytes, integers and floats each have a field of their own."""
        of = _number(1, self._name(name))
        if isinstance(value, float):
            return of + tag(2, FIXED64) + struct.pack("<d", value)
        if isinstance(value, int):
            return of + (_number(3, value) if value >= 0 else _number(4, value))
        if isinstance(value, bytes):
            return of + _bytes(6, value)
        return of + (_number(7, self._name(value)) if name in self._refer else _bytes(5, value))

    def kind(self, name: str, *, display: str = "", stats: Mapping[str, Any] | None = None) -> int:
        """Adds metadata that events refer to, and returns its id."""
        number = len(self._kinds) + 1
        message = _number(1, number) + _bytes(2, name) + (_bytes(4, display) if display else b"")
        message += b"".join([_bytes(5, self.stat(key, value)) for key, value in (stats or {}).items()])
        self._kinds.append(_number(1, number) + _bytes(2, message))
        return number

    def line(self, name: str, events: Iterable[Event], *, begins_ns: int = 0) -> None:
        """Adds a line, which is a timeline, with its events."""
        parts = [_number(1, len(self._lines) + 1), _bytes(2, name), _number(3, begins_ns) if begins_ns else b""]
        for event in events:
            held = _number(1, event.kind) + _number(2, event.start) + _number(3, event.duration)
            held += _number(5, event.occurrences) if event.occurrences else b""
            held += b"".join([_bytes(4, self.stat(key, value)) for key, value in event.stats.items()])
            parts.append(_bytes(4, held))
        self._lines.append(b"".join(parts))

    def message(self) -> bytes:
        """The XPlane, its fields in the order of their numbers."""
        stats = [_bytes(6, self.stat(key, value)) for key, value in self._stats.items()]
        names = [
            _bytes(5, _number(1, number) + _bytes(2, _number(1, number) + _bytes(2, name)))
            for name, number in self._names.items()
        ]
        parts = [
            _bytes(2, self.name),
            *[_bytes(3, each) for each in self._lines],
            *[_bytes(4, each) for each in self._kinds],
            *names,
            *stats,
        ]
        return b"".join(parts)


def modules(held: Mapping[str, bytes]) -> Plane:
    """The plane that holds modules. `held`: `NAME(PROGRAM ID)` → a serialized HloProto."""
    plane = Plane("/host:metadata")
    for name, data in held.items():
        plane.kind(name, stats={"hlo_proto": data})
    return plane


def xspace(planes: Iterable[Plane]) -> bytes:
    """The profile of these planes: a serialized XSpace."""
    return b"".join([_bytes(1, plane.message()) for plane in planes])
