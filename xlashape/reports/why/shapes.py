"""Why the buffers of shapes are as large as they are: that of an array, those of a tuple, and those of all arrays in a
text. `Buffer` is the row, and `MemoryAnswer` the base class, of every answer of `why`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, ClassVar, Final, NamedTuple

from xlashape.base.frozen import FrozenValue, set_field
from xlashape.base.math import byte_text, checked_int64, counted, factor_text
from xlashape.errors import XlashapeError
from xlashape.reports.report import Computed, Report
from xlashape.reports.why.causes import (
    Cause,
    array_bytes,
    array_causes,
    element_bytes_of,
    on_target,
    share_of,
)
from xlashape.reports.why.declaration import REPORT, facts_lines
from xlashape.reports.why.suggestions import Suggestion, suggestion_lines, suggestions_for
from xlashape.shape import Shape, ShapeIndex, Target, shape_util
from xlashape.shape.arguments import array_of

_SHOWN: Final = 12
"""The most suggestions that the text of an array shows; `suggestions` holds all of them."""
_SHOWN_ELEMENTS: Final = 20
_EXPLAINED: Final = 10
"""The most different buffers whose causes and suggestions an answer about several buffers has."""


class Buffer(NamedTuple):
    """A buffer, the row of every answer. An attribute that does not apply or is not known is None."""

    name: str | None
    """The instruction that makes the buffer, or the name that a report gives it."""
    opcode: str | None
    computation: str | None
    index: ShapeIndex | None  # pyright: ignore[reportIncompatibleMethodOverride] - the column has this name; nobody looks for values in a row
    """The index in the instruction's result; None where the buffer is the whole result."""
    shape: Shape | None
    """The shape with the layout whose size is counted."""
    element_bytes: int | None
    """The bytes of the elements alone."""
    bytes: int | None
    """The bytes of the buffer, padding included."""
    error: XlashapeError | None = None
    """Why the size is not known."""
    source: str | None = None
    """The line of the user's program."""
    op_name: str | None = None
    """The operation of the user's program."""
    target: Target | None = None
    """The device whose sizes are counted; None for sizes by the layout alone."""
    times: int = 1
    """How many equal buffers the row stands for."""
    position: int = 0
    """The number of the buffer in the order of the module."""

    @property
    def shape_index(self) -> ShapeIndex:
        """The index in the instruction's result; empty where the buffer is the whole result."""
        return self.index or ShapeIndex()

    @property
    def buffer_bytes(self) -> int | None:
        """The bytes of the buffer."""
        return self.bytes

    @property
    def padding_bytes(self) -> int | None:
        """The bytes of the buffer that are not elements."""
        return None if self.bytes is None or self.element_bytes is None else self.bytes - self.element_bytes

    @property
    def overhead_bytes(self) -> int | None:
        """Another name of `padding_bytes`."""
        return self.padding_bytes

    @property
    def factor(self) -> float | None:
        """The bytes of the buffer ÷ those of the elements; None where there are no elements."""
        return self.bytes / self.element_bytes if self.bytes is not None and self.element_bytes else None

    @property
    def is_scalar(self) -> bool:
        """Whether the buffer holds one element."""
        array = self.shape.buffer_shape if self.shape is not None and self.shape.is_buffer else self.shape
        return array is not None and array.is_array and all(size == 1 for size in array.dimensions)

    @property
    def where(self) -> str:
        """The name of the instruction, and the index in its result."""
        return (self.name or "") + (str(self.index) if self.index else "")

    def explain(self) -> ArrayMemory:
        """The explanation of the buffer's size. Raises `error` if there is one."""
        if self.error is not None:
            raise self.error
        assert self.shape is not None
        return array_memory(self.shape, self.target)


def ranked(buffers: Iterable[Buffer]) -> list[Buffer]:
    """The buffers with the most padding first, of equal padding the largest; scalars behind all others, and buffers of
    unknown size last.
    """
    return sorted(
        buffers, key=lambda one: (one.error is not None, one.is_scalar, -(one.padding_bytes or 0), -(one.bytes or 0))
    )


def merged(buffers: Iterable[Buffer]) -> list[Buffer]:
    """One row for all buffers with the same opcode, shape, size and error, in the order of the first of each. `times`
    says how many there are.

    >>> shape = Shape.parse("f32[8]")
    >>> rows = [Buffer(name, "add", "main", None, shape, 32, 32) for name in ("add", "add.1", "add.2")]
    >>> [(row.name, row.times) for row in merged(rows)]
    [('add', 3)]
    """
    times: dict[tuple[Any, ...], list[Buffer]] = {}
    for one in buffers:
        times.setdefault((one.opcode, one.shape, one.bytes, str(one.error)), []).append(one)
    return [group[0]._replace(times=sum([one.times for one in group])) for group in times.values()]


class MemoryAnswer(FrozenValue, Computed[Buffer]):
    """Why buffers are as large as they are. `str()` is the text for people; sizes are in bytes."""

    __slots__ = ("_notes",)
    report: ClassVar[Report] = REPORT
    kind: ClassVar[str]
    """The subject of the answer: array, tuple, instruction, module, report or shapes."""

    # Columns of `TOTALS` and sections that only some answers have.
    target: Target | None = None
    note: str = ""
    unread: tuple[str, ...] = ()
    stated: tuple[Any, ...] = ()
    donated: tuple[Any, ...] = ()

    @property
    def peak_bytes(self) -> int | None:
        """The most bytes of a program that live at once; None where that is not known."""
        return None

    @property
    def peak_is_estimate(self) -> bool | None:
        """Whether the peak is an estimate."""
        return None

    @property
    def agrees(self) -> bool | None:
        """Whether the numbers of a report equal the computed ones; None for another answer."""
        return None

    @property
    def must_go_bytes(self) -> int | None:
        """By how many bytes the memory in use exceeds the capacity, according to a report; None for another answer."""
        return None

    @property
    def left_out(self) -> Sequence[str]:
        """What the sums leave out."""
        return ()

    @property
    def about(self) -> str | None:
        """The subject of the answer; None for text with several shapes."""
        return None

    @property
    def buffers(self) -> tuple[Buffer, ...]:
        """The rows of the answer."""
        raise NotImplementedError

    @property
    def count(self) -> int:
        """The number of buffers."""
        return len(self.buffers)

    @property
    def element_bytes(self) -> int:
        """The bytes of the elements alone, of all buffers of known size."""
        return sum([one.element_bytes or 0 for one in self.buffers])

    @property
    def buffer_bytes(self) -> int:
        """The bytes of all buffers of known size."""
        return checked_int64(sum([one.bytes or 0 for one in self.buffers]), "the bytes of all buffers")

    @property
    def bytes(self) -> int:
        """Another name of `buffer_bytes`."""
        return self.buffer_bytes

    @property
    def overhead_bytes(self) -> int:
        """The bytes of the buffers that are not elements."""
        return self.buffer_bytes - self.element_bytes

    @property
    def padding_bytes(self) -> int:
        """Another name of `overhead_bytes`."""
        return self.overhead_bytes

    @property
    def factor(self) -> float:
        """How many times as large as the elements the buffers are; 1.0 where there are none."""
        return self.buffer_bytes / self.element_bytes if self.element_bytes else 1.0

    @property
    def causes(self) -> tuple[Cause, ...]:
        """What makes the first buffers with padding larger than their elements. Each cause names its buffer."""
        return tuple([cause._replace(name=one.where) for one in self.explained() for cause in one.explain().causes])

    @property
    def suggestions(self) -> tuple[Suggestion, ...]:
        """What would make the first buffers with padding smaller. Each suggestion names its buffer."""
        return tuple([each._replace(name=one.where) for one in self.explained() for each in one.explain().suggestions])

    def explained(self) -> Sequence[Buffer]:
        """The first ten different buffers with padding, whose causes and suggestions the answer has."""
        padded = [one for one in self.buffers if one.padding_bytes and one.error is None and one.shape is not None]
        return [one for one in merged(padded) if one.shape is not None and one.shape.is_array][:_EXPLAINED]

    @property
    def times_text(self) -> str:
        """How many times as large as the elements the buffers are, behind a comma; empty without padding."""
        return f", {factor_text(self.factor)} the elements" if self.overhead_bytes and self.element_bytes else ""

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self.buffer_bytes:,} bytes{self.times_text}>"


class ArrayMemory(MemoryAnswer):
    """The explanation of the size of an array's buffer, with changes that make it smaller. The changes are computed
    when they are first asked for.
    """

    __slots__ = ("_buffer_bytes", "_causes", "_element_bytes", "_suggestions", "given", "shape", "target")
    _fields = ("shape", "given", "target", "element_bytes", "buffer_bytes", "causes")
    kind = "array"

    shape: Shape
    """The array with the layout that is explained."""
    given: Shape
    """The array as it was given: `shape`, unless the target's default layout took the place of a layout without tiles.
    """
    target: Target | None
    """The device whose sizes are computed; None for sizes by the layout alone."""
    _element_bytes: int
    _buffer_bytes: int
    _causes: tuple[Cause, ...]
    _suggestions: tuple[Suggestion, ...] | None

    def __init__(
        self,
        shape: Shape,
        given: Shape,
        target: Target | None,
        element_bytes: int,
        buffer_bytes: int,
        causes: tuple[Cause, ...],
    ) -> None:
        set_field(self, "shape", shape)
        set_field(self, "given", given)
        set_field(self, "target", target)
        set_field(self, "_element_bytes", element_bytes)
        set_field(self, "_buffer_bytes", buffer_bytes)
        set_field(self, "_causes", causes)
        set_field(self, "_suggestions", None)

    @property
    def about(self) -> str:
        """The shape of the array."""
        return str(self.shape)

    @property
    def buffers(self) -> tuple[Buffer, ...]:
        """The one buffer of the array."""
        index = ShapeIndex()
        return (Buffer(None, None, None, index, self.shape, self.element_bytes, self.buffer_bytes, target=self.target),)

    @property
    def element_bytes(self) -> int:
        """The bytes of the elements alone, each with the bits of its type, rounded up to whole bytes unless `E(n)`
        packs elements.
        """
        return self._element_bytes

    @property
    def buffer_bytes(self) -> int:
        """The bytes of the buffer."""
        return self._buffer_bytes

    @property
    def causes(self) -> tuple[Cause, ...]:
        """The causes of overhead, in the order in which the parts of a buffer are counted (`causes.py`)."""
        return self._causes

    @property
    def suggestions(self) -> tuple[Suggestion, ...]:
        """Changes that make the buffer smaller: first those that keep all values and can be written in JAX, the
        smallest buffer first; those that lose something last.
        """
        found = self._suggestions
        if found is None:
            found = suggestions_for(self.shape, self.target)
            set_field(self, "_suggestions", found)
        return found

    def suggest(self, *types: str) -> tuple[Suggestion, ...]:
        """`suggestions`, with these element types among them, such as f4e2m1fn. Raises ParseError for a name that is no
        type.
        """
        return suggestions_for(self.shape, self.target, types)

    def facts(self) -> list[tuple[str, str]]:
        """The lines of the text, each as its heading (empty if it is that of the line before) and its text."""
        lines: list[tuple[str, str]] = []
        if self.shape != self.given:
            assert self.target is not None
            lines.append(("layout", f"{self.target.name} gives {self.given} the layout {self.shape.layout}"))
        lines.append(("elements", byte_text(self.element_bytes)))
        times = ", no padding"
        if self.overhead_bytes:
            times = self.times_text or ", and no elements"
        lines.append(("buffer", f"{byte_text(self.buffer_bytes)}{times}"))
        lines += [("" if i else "why", str(cause)) for i, cause in enumerate(self.causes)]
        lines += suggestion_lines(self.suggestions[:_SHOWN])
        if len(self.suggestions) > _SHOWN:
            lines.append(("", f"and {len(self.suggestions) - _SHOWN} more"))
        return lines

    def headline(self) -> str:
        """The whole answer: sizes, causes and suggestions."""
        return "\n".join([str(self.shape), *facts_lines(self.facts())])

    def to_text(self, limit: int | None = None, *, width: int | None = None, hint: str = "") -> str:  # noqa: ARG002 - there are no columns
        """The headline, which is the whole answer."""
        return self.headline()


def array_memory(shape: Shape, target: Target | None = None) -> ArrayMemory:
    """Why the buffer of an array is as large as it is.

    Errors as in `tiling.physical_bytes`.

    >>> memory = array_memory(Shape.parse("s32[1024,8,4]{2,1,0:T(8,128)}"))
    >>> memory.element_bytes, memory.buffer_bytes, memory.factor
    (131072, 4194304, 32.0)
    >>> print(memory.suggestions[0])
    x.transpose(2, 1, 0), order {0,1,2:T(8,128)}: 131,072 bytes (128.00 KiB), 3.1% of now
    """
    given = array_of(shape)
    array = on_target(given, target)
    size = array_bytes(array, target)
    return ArrayMemory(array, given, target, element_bytes_of(array), size, array_causes(array, target))


class TupleElement(NamedTuple):
    """A buffer of a tuple: that of an array in it, or the table of pointers of the tuple itself or of a tuple in it."""

    shape_index: ShapeIndex
    shape: Shape
    buffer_bytes: int
    array: ArrayMemory | None
    """The explanation of an array's buffer; None for tables, tokens and opaques."""


class TupleMemory(MemoryAnswer):
    """The explanation of a tuple's buffers: its table of pointers, and the buffers of its elements.

    A token or an opaque is explained as a tuple with one element: itself.
    """

    __slots__ = _fields = ("shape", "target", "elements")
    kind = "tuple"

    shape: Shape
    target: Target | None
    elements: tuple[TupleElement, ...]
    """The buffers of the tuple, its own table first. The table of a tuple within it comes before that tuple's elements.
    """

    def __init__(self, shape: Shape, target: Target | None, elements: tuple[TupleElement, ...]) -> None:
        set_field(self, "shape", shape)
        set_field(self, "target", target)
        set_field(self, "elements", elements)

    @property
    def element_bytes(self) -> int:
        """The bytes of the elements of all arrays."""
        return sum([one.array.element_bytes for one in self.elements if one.array is not None])

    @property
    def buffer_bytes(self) -> int:
        """The bytes of all buffers."""
        return checked_int64(sum([one.buffer_bytes for one in self.elements]), "the bytes of all buffers")

    @property
    def table_bytes(self) -> int:
        """The bytes of the tables of pointers."""
        return sum([one.buffer_bytes for one in self.elements if one.shape.is_tuple])

    @property
    def causes(self) -> tuple[Cause, ...]:
        """The causes of the tuple's overhead: its tables of pointers, what it adds to scalars and opaques within it,
        and the overhead of its arrays as one cause. The causes of each array are in `elements`.
        """
        causes: list[Cause] = []
        overhead = self.overhead_bytes
        tables = [one for one in self.elements if one.shape.is_tuple]
        if self.table_bytes:
            many = f"the tables of pointers of {len(tables)} tuples" if len(tables) > 1 else "the table of pointers"
            text = f"{many}: {byte_text(self.table_bytes)}"
            causes.append(Cause("tuple table", text, self.table_bytes, share_of(self.table_bytes, overhead)))
        nested = [one for one in self.elements if one.array is not None and one.buffer_bytes != one.array.buffer_bytes]
        added = sum([one.buffer_bytes - one.array.buffer_bytes for one in nested if one.array is not None])
        if nested and self.target is not None:
            many = (
                "a scalar inside the tuple takes"
                if len(nested) == 1
                else f"{len(nested)} scalars inside the tuple each take"
            )
            sizes = sorted({one.buffer_bytes for one in nested})
            text = f"{many} {' or '.join([byte_text(size) for size in sizes])}"
            causes.append(Cause("nested scalar", text, added, share_of(added, overhead)))
        own = sum([one.array.overhead_bytes for one in self.elements if one.array is not None])
        if own:
            causes.append(Cause("tile", f"padding of the arrays: {byte_text(own)}", own, share_of(own, overhead)))
        opaque = overhead - sum([cause.bytes for cause in causes])
        if opaque:
            causes.append(
                Cause("opaque", f"pointers of opaques: {byte_text(opaque)}", opaque, share_of(opaque, overhead))
            )
        return tuple(causes)

    @property
    def about(self) -> str:
        """The shape of the tuple."""
        return str(self.shape)

    @property
    def buffers(self) -> tuple[Buffer, ...]:
        """The buffers of tables and elements. Those of tables have no bytes of elements."""
        return tuple(
            [
                Buffer(
                    None,
                    None,
                    None,
                    one.shape_index or None,
                    one.shape if one.array is None else one.array.shape,
                    0 if one.array is None else one.array.element_bytes,
                    one.buffer_bytes,
                    target=self.target,
                )
                for one in self.elements
            ]
        )

    def explained(self) -> list[Buffer]:
        """The first ten different arrays with padding, whose suggestions the answer has."""
        arrays = [one for one, element in zip(self.buffers, self.elements, strict=True) if element.array is not None]
        return merged([one for one in arrays if one.padding_bytes])[:_EXPLAINED]

    def headline(self) -> str:
        """The sums and their causes."""
        facts = [("elements", byte_text(self.element_bytes))]
        facts.append(("buffers", f"{byte_text(self.buffer_bytes)}{self.times_text}"))
        facts += [("" if i else "why", cause.text) for i, cause in enumerate(self.causes)]
        return "\n".join([str(self.shape), *facts_lines(facts)])

    def to_text(self, limit: int | None = None, *, width: int | None = None, hint: str = "") -> str:  # noqa: ARG002 - there are no columns
        """The sums, then each element explained, at most `limit` of them (0: all), for people."""
        most = (_SHOWN_ELEMENTS if limit is None else limit) or len(self.elements)
        lines = [self.headline()]
        for element in self.elements[:most]:
            head = f"{element.shape_index} "
            if element.array is None:
                what = "the table" if element.shape.is_tuple else str(element.shape)
                lines.append(f"  {head}{what}: {byte_text(element.buffer_bytes)}")
            else:
                lines.append("\n".join(["  " + line for line in (head + str(element.array)).splitlines()]))
        if len(self.elements) > most:
            lines.append(f"  and {len(self.elements) - most} more")
        return "\n".join(lines)


def shape_memory(shape: Shape, target: Target | None = None) -> ArrayMemory | TupleMemory:
    """Why the buffers of a shape are as large as they are. Errors as in `tiling.physical_bytes`.

    >>> print(
    ...     shape_memory(Shape.parse("(f32[], f32[2]{0:T(128)})"), Target.of("tpu")).buffer_bytes
    ... )  # 512 + 4,096 + 512
    5120
    """
    if shape.is_array or shape.is_buffer:
        return array_memory(shape, target)
    elements: list[TupleElement] = []
    for inner, index in shape_util.for_each_subshape(shape):
        array = array_memory(inner, target) if inner.is_array or inner.is_buffer else None
        if array is None or (target is not None and index and inner.is_scalar and target.scalar_elements):
            size = shape_util.byte_size_of(inner, target=target)
        else:
            size = array.buffer_bytes
        elements.append(TupleElement(index, inner, size, array))
    return TupleMemory(shape, target, tuple(elements))


class ShapesMemory(MemoryAnswer):
    """The arrays in a text that is not a report, each explained once."""

    __slots__ = _fields = ("arrays",)
    kind = "shapes"

    arrays: tuple[ArrayMemory, ...]

    def __init__(self, arrays: tuple[ArrayMemory, ...]) -> None:
        set_field(self, "arrays", arrays)

    @property
    def buffers(self) -> tuple[Buffer, ...]:
        """The buffer of each array."""
        return tuple([buffer for one in self.arrays for buffer in one.buffers])

    def headline(self) -> str:
        """How many arrays there are, and the sum of their bytes."""
        return f"{counted(len(self.arrays), 'array')}: {byte_text(self.buffer_bytes)}{self.times_text}"

    def to_text(self, limit: int | None = None, *, width: int | None = None, hint: str = "") -> str:  # noqa: ARG002 - there are no columns
        """Each array explained, at most `limit` of them (None or 0: all), for people."""
        return "\n\n".join(map(str, self.arrays[: limit or len(self.arrays)]))
