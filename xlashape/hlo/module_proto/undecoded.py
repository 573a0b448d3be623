"""Modules that stay bytes: an instruction is decoded when it is asked for, and not kept.

A decoded instruction takes 1.4 kB, most of it fields that are not set, and its bytes take a tenth of that. The classes
stand for the messages of the same names where these are read. What they have beside computations and instructions is
a message, `head`, which answers everything else.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from typing import Any, Final, TypeVar, cast, overload

from google.protobuf.message import Message

from xlashape.errors import DecodeError
from xlashape.proto import coerce, xla
from xlashape.proto.wire import BYTES, fields

_MODULE: Final = 1
_COMPUTATIONS: Final = 3
_INSTRUCTIONS: Final = 2
_RECENT: Final = 256
M = TypeVar("M", bound=Message)


class Instructions(Sequence[xla.HloInstructionProto]):
    """The instructions of a computation. Those that were asked for last are kept for a while: reports ask
    for one many times."""

    __slots__ = ("_bounds", "_data", "_recent")

    def __init__(self, data: bytes | bytearray, recent: dict[int, xla.HloInstructionProto]) -> None:
        self._data = data
        self._bounds = array("Q")
        self._recent = recent

    def add(self, start: int, end: int) -> None:
        """Adds the instruction that lies between these offsets."""
        self._bounds.append(start)
        self._bounds.append(end)

    @overload
    def __getitem__(self, index: int) -> xla.HloInstructionProto: ...
    @overload
    def __getitem__(self, index: slice) -> list[xla.HloInstructionProto]: ...
    def __getitem__(self, index: int | slice) -> xla.HloInstructionProto | list[xla.HloInstructionProto]:
        if isinstance(index, slice):
            return [self[each] for each in range(*index.indices(len(self)))]
        if not -len(self) <= index < len(self):
            raise IndexError(index)
        at = 2 * (index % len(self))
        start = self._bounds[at]
        found = self._recent.get(start)
        if found is None:
            if len(self._recent) >= _RECENT:
                self._recent.clear()
            found = self._recent[start] = self._decoded(at)
        return found

    def __iter__(self) -> Iterator[xla.HloInstructionProto]:
        return map(self._decoded, range(0, len(self._bounds), 2))

    def __len__(self) -> int:
        return len(self._bounds) // 2

    def _decoded(self, at: int) -> xla.HloInstructionProto:
        return coerce(xla.HloInstructionProto, self._data[self._bounds[at] : self._bounds[at + 1]])


class _Message:
    """What the three stand-ins have in common."""

    __slots__ = ("head",)

    head: Any
    """The message without the parts that stay bytes."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self.head, name)


class Computation(_Message):
    """Stands for an HloComputationProto."""

    __slots__ = ("instructions",)

    def __init__(
        self, data: bytes | bytearray, start: int, end: int, recent: dict[int, xla.HloInstructionProto]
    ) -> None:
        self.instructions = Instructions(data, recent)
        self.head = _head(xla.HloComputationProto, data, start, end, _INSTRUCTIONS, self.instructions.add)


class Module(_Message):
    """Stands for an HloModuleProto."""

    __slots__ = ("_data", "computations")

    def __init__(self, data: bytes | bytearray) -> None:
        self._data = data
        self.computations: list[Computation] = []
        recent: dict[int, xla.HloInstructionProto] = {}

        def add(start: int, end: int) -> None:
            self.computations.append(Computation(data, start, end, recent))

        self.head = _head(xla.HloModuleProto, data, 0, len(data), _COMPUTATIONS, add)

    def SerializePartialToString(self) -> bytes:  # noqa: N802 - the name of protobuf
        """The bytes that it was made of."""
        return bytes(self._data)


class Program(_Message):
    """Stands for an HloProto."""

    __slots__ = ("hlo_module",)

    def __init__(self, data: bytes) -> None:
        modules: list[bytes] = []

        def add(start: int, end: int) -> None:
            modules.append(data[start:end])

        self.head = _head(xla.HloProto, data, 0, len(data), _MODULE, add)
        self.hlo_module = Module(b"".join(modules))  # pieces of one submessage merge


def undecoded_module(data: bytes | bytearray) -> xla.HloModuleProto:
    """The module in the bytes of an HloModuleProto. Raises DecodeError for broken bytes, some of it
    when an instruction is asked for."""
    return cast("xla.HloModuleProto", Module(data))


def undecoded_program(data: bytes) -> xla.HloProto:
    """The program in the bytes of an HloProto. Raises as `undecoded_module` does."""
    return cast("xla.HloProto", Program(data))


def is_undecoded(computation: xla.HloComputationProto) -> bool:
    """Whether the instructions of a computation are decoded anew when they are asked for."""
    return isinstance(cast("Any", computation), Computation)


def _head(message_class: type[M], data: bytes | bytearray, start: int, end: int, number: int, add: Any) -> M:
    """The message between these offsets without the fields of a number, which are given to `add` by their offsets."""
    rest: list[bytes] = []
    view = memoryview(data)[start:end]
    for found, wire_type, first, content, after in fields(view):
        if found != number:
            rest.append(bytes(view[first:after]))
        elif wire_type != BYTES:
            raise DecodeError(f"field {number} of {message_class.DESCRIPTOR.name} is not a message")
        else:
            add(start + content, start + after)
    return coerce(message_class, b"".join(rest))
