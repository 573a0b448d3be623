"""The texts that XLA dumps beside modules, read as assignments of buffers.

NAME-buffer-assignment.txt      every allocation with its values, offsets and shapes
NAME-memory-usage-report.txt    the allocations by size, rounded; since March 2026 the bytes of each memory space
NAME-memory-usage-report.pb     the same, exact, without what an allocation is for
NAME-live-range.txt             the values that live at the moment with the most bytes

allocation := 'allocation' INT ': size' SIZE (', page' INT)? (',' FLAG)* ':'
value      := 'value: <' INT NAME '{…}'? '(phi)'? '@' INT '> (size=' INT ',offset=' INT '):' SHAPE
live       := NAME '{…}:' INT 'bytes'
"""

from __future__ import annotations

import re
from contextlib import suppress
from typing import Final, NamedTuple

from google.protobuf.message import DecodeError as ProtobufDecodeError

from xlashape.errors import DecodeError, ParseError, XlashapeError
from xlashape.hlo.tokens import without_comments
from xlashape.limits import INT64_MAX, spend
from xlashape.proto import xla
from xlashape.shape import Shape

_ALLOCATION: Final = re.compile(
    r"allocation (\d+): size (\d+(?:\.\d+)?)([KMGTP]iB|B)?(?:, page -?\d+)?((?:, .*)?):\s*$"
)
_COLOR: Final = re.compile(r"\bcolor (\d+)")
_PARAMETER: Final = re.compile(r"\bparameter (\d+), shape ")
_SHAPE_INDEX: Final = re.compile(r" at ShapeIndex \{([\d,\s]{0,1000})\}")
_VALUE: Final = re.compile(
    r"\s*value: <(\d+) ([^\s{}<>]+)(\{[\d,]*\})?( \(phi\))? @(-?\d+)> \(size=(\d+),offset=(\d+)\)(?:: (.*))?$"
)
_PEAK: Final = re.compile(r"\s*Live ranges at (\d+) \(peak\):")
_LIVE: Final = re.compile(r"\s*([^\s{}]+)(\{[\d,]*\}): (\d+) bytes")
_SPACE: Final = re.compile(r"\s*Memory Space: .*\(color=(\d+)\)")
_TOTAL: Final = re.compile(r"\s*Total bytes: (\d+)")
_UNITS: Final = {"": 1, "B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40, "PiB": 1 << 50}


class TextAssignment(NamedTuple):
    """An assignment that was read from a text."""

    proto: xla.BufferAssignmentProto
    shapes: dict[int, Shape]
    """The shapes of values by the ids of their logical buffers."""
    is_rounded: bool
    """Whether the text has sizes rounded to units such as MiB."""
    is_moment: bool = False
    """Whether the text has the values of one moment alone, without allocations."""


def read_text(text: str, name: str) -> TextAssignment:
    """The assignment in a text that XLA wrote. `name` is what errors call the text. Raises ParseError for a text with
    neither allocations nor live ranges."""
    proto = xla.BufferAssignmentProto()
    shapes: dict[int, Shape] = {}
    allocation: xla.BufferAllocationProto | None = None
    indices: set[int] = set()
    is_rounded = False
    at_peak = False
    live: list[tuple[str, str, int]] = []
    space = 0
    for line in text.splitlines():
        spend()
        start = line.find("allocation ")
        match = _ALLOCATION.match(line, start) if start >= 0 else None
        if match is not None:
            number = _int64(match[1], line)
            # A usage report lists each allocation again, with its values.
            allocation = None
            if number not in indices:
                indices.add(number)
                allocation = _add_allocation(proto, number, match)
                is_rounded = is_rounded or (match[3] or "B") != "B"
            continue
        match = _VALUE.match(line) if allocation is not None else None
        if match is not None and allocation is not None:
            _add_value(proto, allocation, shapes, match, line)
            continue
        match = _SPACE.match(line)
        if match is not None:
            space = _int64(match[1], line)
        match = None if indices else _TOTAL.match(line)
        if match is not None:
            # Newer usage reports have a table for each allocation, without its number.
            proto.buffer_allocations.add(index=len(proto.buffer_allocations), size=_int64(match[1], line), color=space)
        if _PEAK.match(line):
            at_peak = True
            continue
        if at_peak:
            match = _LIVE.match(line)
            at_peak = match is not None
            if match is not None:
                live.append((match[1], match[2], _int64(match[3], line)))
    is_moment = bool(live) and not proto.buffer_allocations
    if is_moment:
        _add_live(proto, live)
    if not proto.buffer_allocations:
        raise ParseError(f"{name} has no allocations of a buffer assignment", expected="allocation 0: size …")
    known = max([logical.id for logical in proto.logical_buffers], default=-1) + 1
    for added in proto.buffer_allocations:
        if not added.assigned:
            logical = proto.logical_buffers.add(id=known + added.index, size=added.size, color=added.color)
            logical.defined_at.instruction_name = f"allocation {added.index}"
            added.assigned.add(logical_buffer_id=logical.id, size=added.size)
    return TextAssignment(proto, shapes, is_rounded, is_moment)


def _int64(text: str, line: str) -> int:
    number = int(text) if len(text) < 20 else INT64_MAX + 1
    if number > INT64_MAX:
        raise ParseError(f"a number does not fit int64: {line.strip()[:120]}")
    return number


def _add_allocation(proto: xla.BufferAssignmentProto, number: int, match: re.Match[str]) -> xla.BufferAllocationProto:
    size = (
        round(float(match[2]) * _UNITS[match[3] or ""]) if "." in match[2] or match[3] else _int64(match[2], match[0])
    )
    flags = match[4]
    if size > INT64_MAX:
        raise ParseError(f"a number does not fit int64: {match[0].strip()[:120]}")
    added = proto.buffer_allocations.add(index=number, size=size)
    color, parameter = _COLOR.search(flags), _PARAMETER.search(flags)
    index = _SHAPE_INDEX.search(flags, parameter.end()) if parameter is not None else None
    if color is not None:
        added.color = _int64(color[1], match[0])
    if parameter is not None and index is not None:
        added.is_entry_computation_parameter = True
        added.parameter_number = _int64(parameter[1], match[0])
        added.parameter_shape_index.extend([int(each) for each in index[1].replace(" ", "").split(",") if each])
    added.maybe_live_out = "maybe-live-out" in flags
    added.is_parameter_aliased_with_output = added.is_entry_computation_parameter and added.maybe_live_out
    added.is_constant = ", constant" in flags
    added.is_thread_local = ", thread-local" in flags
    return added


def _add_value(
    proto: xla.BufferAssignmentProto,
    allocation: xla.BufferAllocationProto,
    shapes: dict[int, Shape],
    match: re.Match[str],
    line: str,
) -> None:
    number, size, offset = (_int64(match[each], line) for each in (1, 6, 7))
    logical = proto.logical_buffers.add(id=number, size=size, color=int(match[5]))
    logical.defined_at.instruction_name = match[2]
    logical.defined_at.shape_index.extend([int(each) for each in (match[3] or "{}")[1:-1].split(",") if each])
    allocation.assigned.add(logical_buffer_id=number, size=size, offset=offset)
    if match[8]:
        with suppress(XlashapeError):  # newer versions of XLA may write other shapes: the value is kept without one
            shapes[number] = Shape.parse(without_comments(match[8]))


def _add_live(proto: xla.BufferAssignmentProto, live: list[tuple[str, str, int]]) -> None:
    """Adds each value that lives at the peak, in an allocation of its own: the text does not say which allocations
    there are."""
    for number, (name, index, size) in enumerate(live):
        logical = proto.logical_buffers.add(id=number, size=size)
        logical.defined_at.instruction_name = name
        logical.defined_at.shape_index.extend([int(each) for each in index[1:-1].split(",") if each])
        added = proto.buffer_allocations.add(index=number, size=size)
        added.assigned.add(logical_buffer_id=number, size=size)


def read_usage_report(data: bytes, name: str) -> TextAssignment:
    """The allocations of a MemoryUsageReportProto, each with the name of its first value. The report does not say what
    an allocation is for. Raises DecodeError for data that is no such report, or has no allocations."""
    try:
        report = xla.MemoryUsageReportProto.FromString(data)
    except ProtobufDecodeError as error:
        raise DecodeError(f"{name} is not a memory usage report: {error}") from error
    proto = xla.BufferAssignmentProto()
    for space in report.memory_space_allocation_entries:
        for entry in space.allocation_entries:
            spend()
            color = space.memory_space_color
            logical = proto.logical_buffers.add(id=len(proto.logical_buffers), size=entry.size, color=color)
            if entry.defining_positions:
                logical.defined_at.instruction_name = entry.defining_positions[0]
            added = proto.buffer_allocations.add(index=entry.index, size=entry.size, color=color)
            added.assigned.add(logical_buffer_id=logical.id, size=entry.size)
    if not proto.buffer_allocations:
        raise DecodeError(f"{name} is a memory usage report without allocations")
    return TextAssignment(proto, {}, False)
