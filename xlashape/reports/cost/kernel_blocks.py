r"""The blocks of arrays that a Pallas kernel for TPUs works on, in the MLIR bytecode of its call.

    bytecode  := 'ML\xefR' version TEXT section*       section := id length content     TEXT ends with a zero
    strings   := count length* data                    section 0; the lengths in reverse order
    dialects  := count name* …                         section 1; from version 1 on name << 1 | has_version. The first
                                                       is `builtin`, to which the codes below belong
    offsets   := attributes types group*               section 3, of the entries in section 2: attributes, then types
    group     := dialect count (size << 1 | is_coded)*
    entry     := TEXT | code field*

The kernel is the function whose type has arrays in memory as arguments: those of the operands and results of the call,
then its scratch arrays. What else the bytecode holds is not read.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from typing import Any, Final, NamedTuple

from xlashape.errors import XlashapeError
from xlashape.hlo import HloInstruction, Opcode
from xlashape.limits import check, spend
from xlashape.shape import Shape, shape_util

_MAGIC: Final = b"ML\xefR"
_INTEGER, _FUNCTION, _MEMORY = 0, 2, 11
_FLOATS: Final = {3: "bf16", 4: "f16", 5: "f32", 6: "f64"}
_INTEGERS: Final = {1: "pred", 4: "s4", 8: "s8", 16: "s16", 32: "s32", 64: "s64"}
_SPACE: Final = re.compile(rb"#tpu\.memory_space<(\w{1,40})>")
_MOST_BYTES: Final = 1 << 26
_MOST_ENTRIES: Final = 1 << 20


class KernelBlocks(NamedTuple):
    """The arrays that a kernel holds in VMEM at a time."""

    blocks: tuple[Shape, ...]
    """Parts of its operands and results."""
    scratch: tuple[Shape, ...]
    size: int
    """The bytes of all of them. The compiler holds a block twice where it loads the next one meanwhile."""


def kernel_blocks(call: HloInstruction) -> KernelBlocks | None:
    """The blocks of a call of a Pallas kernel; None for other instructions, and where the call does not say them."""
    details = call.kind.message
    if call.opcode is not Opcode.CUSTOM_CALL or details.custom_call_target != "tpu_custom_call":
        return None
    count = len(call.operands) + sum(leaf.is_array for leaf in call.shape.leaves())
    try:
        body = json.loads(details.backend_config)["custom_call_config"]["body"]
        check("bytes of a kernel", len(body), _MOST_BYTES)
        spend(len(body) >> 6)
        arrays = _Bytecode(base64.b64decode(body)).kernel_arrays()
        kept = [tuple([shape for shape, space in part if space == "vmem"]) for part in (arrays[:count], arrays[count:])]
        size = sum([shape_util.byte_size_of(shape) for part in kept for shape in part])
    except (ValueError, TypeError, LookupError, RecursionError, binascii.Error, XlashapeError):
        return None
    return KernelBlocks(kept[0], kept[1], size) if any(kept) else None


class _Reader:
    """Reads integers whose first byte says by its lowest bits how many bytes follow."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def number(self) -> int:
        first = self.data[self.at]
        size = (first & -first).bit_length() if first else 9
        value = int.from_bytes(self.data[self.at : self.at + size], "little") >> min(size, 8)
        self.at += size
        return value

    def numbers(self) -> list[int]:
        count = self.number()
        check("entries of a kernel", count, _MOST_ENTRIES)
        return [self.number() for _ in range(count)]

    def text(self) -> bytes:
        end = self.data.index(0, self.at)
        text, self.at = self.data[self.at : end], end + 1
        return text


class _Bytecode:
    """The attributes and types of MLIR bytecode. Raises ValueError or LookupError for other data."""

    def __init__(self, data: bytes) -> None:
        if not data.startswith(_MAGIC):
            raise ValueError("no MLIR bytecode")
        reader = _Reader(data)
        reader.at = len(_MAGIC)
        version = reader.number()
        reader.text()
        sections: dict[int, _Reader] = {}
        while reader.at < len(data):
            name = data[reader.at]
            reader.at += 1
            size = reader.number()
            if name & 0x80:
                alignment = reader.number()
                reader.at += -reader.at % max(1, alignment)
            sections[name & 0x7F] = _Reader(data[reader.at : reader.at + size])
            reader.at += size
        strings, dialects, offsets = sections[0], sections[1], sections[3]
        sizes = strings.numbers()[::-1]
        dialects.number()
        name = dialects.number() >> (1 if version else 0)
        strings.at += sum(sizes[:name])
        if strings.text() != b"builtin":
            raise ValueError("the first dialect is another one")
        self._attributes, count = offsets.number(), offsets.number()
        check("entries of a kernel", self._attributes + count, _MOST_ENTRIES)
        self._entries: list[tuple[bool, bytes]] = []
        """For each attribute and type whether it is a code of the dialect `builtin`, and its data."""
        at = 0
        while len(self._entries) < self._attributes + count:
            is_builtin = offsets.number() == 0
            for each in offsets.numbers():
                self._entries.append((bool(each & 1) and is_builtin, sections[2].data[at : at + (each >> 1)]))
                at += each >> 1

    def _type(self, number: int) -> tuple[bool, bytes]:
        return self._entries[self._attributes + number]

    def kernel_arrays(self) -> list[tuple[Shape, str]]:
        """The arrays in memory that the kernel takes, and the memory that each is in."""
        for is_coded, data in self._entries[self._attributes :]:
            reader = _Reader(data)
            if is_coded and reader.number() == _FUNCTION:
                arrays = [array for each in reader.numbers() if (array := self._array(each)) is not None]
                if arrays:
                    return arrays
        return []

    def _array(self, number: int) -> tuple[Shape, str] | None:
        is_coded, data = self._type(number)
        reader = _Reader(data)
        if not is_coded or reader.number() != _MEMORY:
            return None
        space = _SPACE.match(self._entries[reader.number()][1])
        sizes = [each >> 1 if not each & 1 else -1 for each in reader.numbers()]  # the lowest bit is the sign
        return Shape(self._element(reader.number()), sizes), space[1].decode() if space is not None else ""

    def _element(self, number: int) -> Any:
        is_coded, data = self._type(number)
        if not is_coded:
            return _Reader(data).text().decode().lower()
        reader = _Reader(data)
        code = reader.number()
        return _INTEGERS[reader.number() >> 2] if code == _INTEGER else _FLOATS[code]
