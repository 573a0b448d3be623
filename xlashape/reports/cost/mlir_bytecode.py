r"""MLIR bytecode of version 0, in which Pallas writes its kernels for TPUs: operations, attributes and types.

    bytecode   := 'ML\xefR' version TEXT section*       section := id length content     TEXT ends with a zero
    strings    := count length* data                    section 0; the lengths in reverse order
    dialects   := count name* (dialect count name*)*    section 1; names of dialects, then of their operations. The
                                                        first dialect is `builtin`, to which the codes below belong
    offsets    := attributes types group*               section 3, of the entries in section 2: attributes, then types
    group      := dialect count (size << 1 | is_coded)*
    entry      := TEXT | code field*
    operations := block                                 section 4
    block      := (count << 1 | has_arguments) [count (type location)*] operation*
    operation  := name mask location [attributes] [count type*] [count operand*] [count block*] [regions region*]
    region     := blocks [values block*]

`mask` says which of the parts in brackets an operation has; `regions` is the number of regions << 1, plus 1 where they
use no values from outside. Values are numbered in the order in which they are made, those of a region from the number
of values that are visible around it.
"""

from __future__ import annotations

import re
from typing import Any, Final, NamedTuple

from xlashape.limits import check
from xlashape.shape import Shape

_MAGIC: Final = b"ML\xefR"
_ARRAY, _DICTIONARY, _STRING, _SYMBOL, _NUMBER, _NUMBERS = 0, 1, 2, 4, 8, 17  # codes of attributes
_INTEGER, _INDEX, _FUNCTION, _MEMORY, _VECTOR = 0, 1, 2, 11, 19  # codes of types
_FLOATS: Final = {3: "bf16", 4: "f16", 5: "f32", 6: "f64"}
_INTEGERS: Final = {1: "pred", 4: "s4", 8: "s8", 16: "s16", 32: "s32", 64: "s64"}
_SPACE: Final = re.compile(rb"#tpu\.memory_space<(\w{1,40})>")
_MOST_ENTRIES: Final = 1 << 20


class MlirOperation(NamedTuple):
    """An operation; values are numbers, `attributes` is the number of a dictionary, `types` those of the results'
    types."""

    name: str
    attributes: int | None
    results: range
    operands: list[int]
    blocks: list[MlirBlock]
    types: list[int]


class MlirBlock(NamedTuple):
    """Operations in order, and the values that they may use first."""

    arguments: range
    operations: list[MlirOperation]


class _Reader:
    """Reads integers whose first byte says by its lowest bits how many bytes follow."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def byte(self) -> int:
        self.at += 1
        return self.data[self.at - 1]

    def number(self) -> int:
        first = self.data[self.at]
        size = (first & -first).bit_length() if first else 9
        value = int.from_bytes(self.data[self.at : self.at + size], "little") >> min(size, 8)
        self.at += size
        return value

    def skip(self, count: int) -> None:
        for _ in range(count):
            self.number()

    def signed(self) -> int:
        value = self.number()
        return value >> 1 ^ -(value & 1)

    def count(self) -> int:
        count = self.number()
        check("entries of a kernel", count, _MOST_ENTRIES)
        return count

    def numbers(self) -> list[int]:
        return [self.number() for _ in range(self.count())]

    def text(self) -> bytes:
        end = self.data.index(0, self.at)
        text, self.at = self.data[self.at : end], end + 1
        return text


class Bytecode:
    """A module of MLIR. Raises ValueError or LookupError for other data."""

    def __init__(self, data: bytes) -> None:
        if not data.startswith(_MAGIC):
            raise ValueError("no MLIR bytecode")
        reader = _Reader(data)
        reader.at = len(_MAGIC)
        self._version = reader.number()
        reader.text()
        sections: dict[int, _Reader] = {}
        while reader.at < len(data):
            name = reader.byte()
            size = reader.number()
            if name & 0x80:
                alignment = reader.number()
                reader.at += -reader.at % max(1, alignment)
            sections[name & 0x7F] = _Reader(data[reader.at : reader.at + size])
            reader.at += size
        strings, self._dialects, offsets = sections[0], sections[1], sections[3]
        self._body = sections[4]
        sizes, at = strings.numbers()[::-1], strings.at
        self._strings: list[bytes] = []
        for size in sizes:
            self._strings.append(strings.data[at : at + size].removesuffix(b"\0"))
            at += size
        self._dialect_names = [each >> (1 if self._version else 0) for each in self._dialects.numbers()]
        if self._strings[self._dialect_names[0]] != b"builtin":
            raise ValueError("the first dialect is another one")
        self._attributes, count = offsets.number(), offsets.number()
        check("entries of a kernel", self._attributes + count, _MOST_ENTRIES)
        self._entries: list[tuple[bool, bytes]] = []
        """For each attribute and type whether it is a code of the dialect `builtin`, and its data."""
        self._read = 0
        at = 0
        while len(self._entries) < self._attributes + count:
            is_builtin = offsets.number() == 0
            for each in offsets.numbers():
                self._entries.append((bool(each & 1) and is_builtin, sections[2].data[at : at + (each >> 1)]))
                at += each >> 1

    # -- types --------------------------------------------------------------------------------

    def _type(self, number: int) -> tuple[bool, bytes]:
        return self._entries[self._attributes + number]

    def kernel_arrays(self) -> list[tuple[Shape, str]]:
        """The arrays in memory that the kernel takes, and the memory that each is in: those of the operands and results
        of the call, then its scratch arrays. The kernel is the function that takes arrays.
        """
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
        sizes = [max(reader.signed(), -1) for _ in range(reader.count())]
        element = self._element(reader.number())
        if element.startswith("!"):  # a semaphore
            return None
        return Shape(element, sizes), space[1].decode() if space is not None else ""

    def vector(self, number: int) -> list[int] | None:
        """The sizes of the dimensions of a vector's type; None for another type."""
        is_coded, data = self._type(number)
        reader = _Reader(data)
        return [reader.signed() for _ in range(reader.count())] if is_coded and reader.number() == _VECTOR else None

    def _element(self, number: int) -> str:
        is_coded, data = self._type(number)
        if not is_coded:
            return _Reader(data).text().decode().lower()
        reader = _Reader(data)
        code = reader.number()
        return _INTEGERS[reader.number() >> 2] if code == _INTEGER else _FLOATS[code]

    # -- attributes ---------------------------------------------------------------------------

    def attribute(self, number: int) -> Any:
        """A text, an integer, integers, a list or a dictionary; of other dialects the text; else None."""
        self._read += 1
        check("entries of a kernel", self._read, _MOST_ENTRIES)
        is_coded, data = self._entries[number]
        reader = _Reader(data)
        if not is_coded:
            return reader.text().decode("utf-8", "replace")
        code = reader.number()
        if code == _ARRAY:
            return [self.attribute(each) for each in reader.numbers()]
        if code == _DICTIONARY:
            return {self.attribute(reader.number()): self.attribute(reader.number()) for _ in range(reader.count())}
        if code == _STRING:
            return self._text(reader.number())
        if code == _SYMBOL:
            return self.attribute(reader.number())
        if code == _NUMBER:
            width = self._width(reader.number())
            return reader.byte() if width <= 8 else reader.signed()
        if code == _NUMBERS:
            size = self._width(reader.number()) >> 3
            reader.skip(2)
            data = data[reader.at :]
            return [int.from_bytes(data[at : at + size], "little", signed=True) for at in range(0, len(data), size)]
        return None

    def _width(self, number: int) -> int:
        """The bits of an integer type."""
        reader = _Reader(self._type(number)[1])
        return 64 if reader.number() == _INDEX else reader.number() >> 2

    def attributes(self, operation: MlirOperation) -> dict[Any, Any]:
        """The attributes of an operation by name."""
        return {} if operation.attributes is None else self.attribute(operation.attributes)

    # -- operations ---------------------------------------------------------------------------

    def operations(self) -> list[MlirOperation]:
        """The operations of the module, of which the first holds all others."""
        if self._version:
            raise ValueError("a version of bytecode whose operations are not read")
        names: list[str] = []
        while self._dialects.at < len(self._dialects.data):
            dialect = self._text(self._dialect_names[self._dialects.number()])
            names += [f"{dialect}.{self._text(each)}" for each in self._dialects.numbers()]
        return self._block(names, 0, 0).operations

    def _text(self, number: int) -> str:
        return self._strings[number].decode("utf-8", "replace")

    def _region(self, names: list[str], first: int) -> list[MlirBlock]:
        """The blocks of a region, whose values are numbered from `first` on."""
        blocks: list[MlirBlock] = []
        count = self._body.count()
        visible = first + self._body.number() if count else first
        for _ in range(count):
            blocks.append(self._block(names, first, visible))
            first = max([blocks[-1].arguments.stop, *[each.results.stop for each in blocks[-1].operations]])
        return blocks

    def _block(self, names: list[str], first: int, visible: int) -> MlirBlock:
        """A block whose values are numbered from `first` on, in a region with which `visible` values are visible."""
        reader = self._body
        head, after = reader.number(), first
        if head & 1:
            after += reader.count()
            reader.skip(2 * (after - first))
        block = MlirBlock(range(first, after), [])
        check("entries of a kernel", head >> 1, _MOST_ENTRIES)
        for _ in range(head >> 1):
            name, mask = names[reader.number()], reader.byte()
            reader.number()
            attributes = reader.number() if mask & 1 else None
            types = reader.numbers() if mask & 2 else []
            results = range(after, after := after + len(types))
            operands = reader.numbers() if mask & 4 else []
            if mask & 8:
                reader.numbers()
            regions = reader.number() if mask & 16 else 0
            inside = 0 if regions & 1 else visible
            blocks = [block for _ in range(regions >> 1) for block in self._region(names, inside)]
            block.operations.append(MlirOperation(name, attributes, results, operands, blocks, types))
        return block
