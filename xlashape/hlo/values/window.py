"""Attributes that say which part of an array an operation takes: `window` of a convolution, reduce-window or
select-and-scatter, `padding` of a pad, `slice` of a slice, and the sizes of dynamic slices and of a gather's slices.

padding     := dimension ('x' dimension)*       dimension := INT '_' INT ('_' INT)?      low, high, interior
window      := '{' (list '=' INT ('x' INT)* | 'pad=' INT '_' INT ('x' INT '_' INT)*)* '}'        each at most once
list        := 'size' | 'stride' | 'lhs_dilate' | 'rhs_dilate' | 'rhs_reversal'
slice       := '{' (part (',' part)*)? '}'      part := '[' start ':' limit (':' stride)? ']'
sizes       := '{' (INT (',' INT)*)? '}'
each        := '{' (sizes (',' sizes)*)? '}'                slice_sizes of a collective-permute that moves many slices

The text of a scalar's padding is empty. Interior padding, and strides of slices, are written for all dimensions if any
dimension has a value other than the default. Each list of a window has a number for every dimension; a list that has
its default in all dimensions is left out. Text of jaxlib 0.10 and older may have fewer numbers in rhs_reversal; the
window is not reversed in the remaining dimensions.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from xlashape.hlo.tokens import HloCursor, ints
from xlashape.hlo.values import attribute
from xlashape.hlo.values.attribute import FIELDS, Attribute, Context
from xlashape.proto import xla

_PADDING = re.compile(
    r"-?[0-9]{1,19}_-?[0-9]{1,19}(?:_-?[0-9]{1,19})?(?:x-?[0-9]{1,19}_-?[0-9]{1,19}(?:_-?[0-9]{1,19})?)*(?![0-9A-Za-z_])"
)


def parse_paddings(cursor: HloCursor, *, with_interior: bool) -> list[list[int]]:
    """Reads paddings and returns the numbers of each dimension: low, high and, if `with_interior` and the text has it,
    interior."""
    cursor.skip_space()
    match = _PADDING.match(cursor.text, cursor.at)
    if match is None:
        cursor.fail("paddings, such as '0_0x1_2'")
    paddings = [[cursor.int64(digits) for digits in part.split("_")] for part in match.group().split("x")]
    if not with_interior and any(len(part) > 2 for part in paddings):
        raise cursor.error("a padding of a window has two numbers, low_high", expected="low_high")
    cursor.at = match.end()
    return paddings


class PaddingDimension(NamedTuple):
    """How one dimension is padded."""

    edge_padding_low: int = 0
    """The number of elements added before the first element; negative where elements are removed."""
    edge_padding_high: int = 0
    """The number of elements added after the last element; negative where elements are removed."""
    interior_padding: int = 0
    """The number of elements added between each two neighbouring elements."""


class PaddingConfig(NamedTuple):
    """The padding of a pad: the value of the attribute `padding`, an `xla.PaddingConfig`.

    >>> padding = PaddingConfig.parse("0_1_2x-3_4_0")
    >>> padding.dimensions[1].edge_padding_low, str(padding)
    (-3, '0_1_2x-3_4_0')
    """

    dimensions: tuple[PaddingDimension, ...] = ()

    @classmethod
    def parse(cls, text: str) -> PaddingConfig:
        """The padding that `text` describes. Raises ParseError."""
        return attribute.whole(cls.read, text)

    @classmethod
    def read(cls, cursor: HloCursor) -> PaddingConfig:
        """Reads the padding at the cursor."""
        if not cursor.at_end() and _PADDING.match(cursor.text, cursor.at) is None:
            cursor.fail("a padding, such as '0_0_0x3_3_1'")
        return cls(tuple([PaddingDimension(*numbers) for numbers in parse_paddings(cursor, with_interior=True)]))

    def write(self) -> str:
        """The text of the padding: `0_1x2_3`, or `0_1_2x3_4_0` if a dimension has interior padding."""
        has_interior = any(each.interior_padding for each in self.dimensions)
        return "x".join(
            [f"{low}_{high}{f'_{interior}' if has_interior else ''}" for low, high, interior in self.dimensions]
        )

    @classmethod
    def of_proto(cls, message: xla.PaddingConfig) -> PaddingConfig:
        """The padding of a message."""
        return cls(tuple([attribute.record_of(PaddingDimension, each) for each in message.dimensions]))

    def to_proto(self) -> xla.PaddingConfig:
        """A new `xla.PaddingConfig`."""
        dimensions = [xla.PaddingConfig.PaddingConfigDimension(**each._asdict()) for each in self.dimensions]
        return xla.PaddingConfig(dimensions=dimensions)

    def __str__(self) -> str:
        return self.write()


PADDING: Final = attribute.structured("padding", PaddingConfig, field="padding_config", is_required=True)


# -- windows -----------------------------------------------------------------------------------


_NUMBERS_BY_X = re.compile(r"-?[0-9]{1,19}(?:x-?[0-9]{1,19})*(?![0-9A-Za-z_])")
_LISTS: Final = ("size", "stride", "lhs_dilate", "rhs_dilate", "rhs_reversal")


def parse_numbers_by_x(cursor: HloCursor, what: str) -> list[int]:
    """Reads integers with an 'x' between each two: `3x1x-2`. `what` names them in the error."""
    cursor.skip_space()
    match = _NUMBERS_BY_X.match(cursor.text, cursor.at)
    if match is None:
        cursor.fail(what)
    numbers = [cursor.int64(digits) for digits in match.group().split("x")]
    cursor.at = match.end()
    return numbers


class WindowDimension(NamedTuple):
    """One dimension of a window."""

    size: int
    stride: int = 1
    padding_low: int = 0
    """The number of elements added before the operand's first; negative where elements are removed."""
    padding_high: int = 0
    """The number of elements added after the operand's last; negative where elements are removed."""
    window_dilation: int = 1
    """The distance between elements of the window, which text calls rhs_dilate."""
    base_dilation: int = 1
    """The distance between elements of the operand once zeros are put between them, which text calls lhs_dilate."""
    window_reversal: bool = False


class Window(NamedTuple):
    """The window of an operation: the value of the attribute `window`, an `xla.Window`.

    >>> window = Window.parse("{size=3x2 stride=2x1 pad=1_1x0_0}")
    >>> window.dimensions[0].stride, window.dimensions[1].padding_low, str(window)
    (2, 0, '{size=3x2 stride=2x1 pad=1_1x0_0}')
    """

    dimensions: tuple[WindowDimension, ...] = ()

    @classmethod
    def parse(cls, text: str) -> Window:
        """The window that `text` describes, braces included. Raises ParseError."""
        return attribute.whole(cls.read, text)

    @classmethod
    def read(cls, cursor: HloCursor) -> Window:
        """Reads the window at the cursor."""
        cursor.expect("{")
        lists: dict[str, list[int]] = {}
        pads: list[list[int]] | None = None
        start = cursor.at
        while not cursor.accept("}"):
            cursor.skip_space()
            at = cursor.at
            name = cursor.parse_attribute_name()
            if name in lists or (name == "pad" and pads is not None):
                raise cursor.error(f"{name} is given twice", at=at)
            if name == "pad":
                pads = parse_paddings(cursor, with_interior=False)
            elif name in _LISTS:
                lists[name] = parse_numbers_by_x(cursor, f"numbers with 'x' between them for {name}")
            else:
                raise cursor.error(
                    f"a window has no {name!r}; it has size, stride, pad, lhs_dilate, rhs_dilate, rhs_reversal",
                    at=at,
                    expected="a field of the window",
                    found=name,
                )
        sizes = lists.get("size", [])
        rank = len(sizes)
        for name, values in [*lists.items(), ("pad", pads or [])]:
            if values and len(values) != rank and not (name == "rhs_reversal" and len(values) < rank):
                raise cursor.error(f"{name} has {len(values)} numbers where size has {rank}", at=start)
        ones = [1] * rank
        strides, base, window = (lists.get(name, ones) for name in ("stride", "lhs_dilate", "rhs_dilate"))
        reversal = lists.get("rhs_reversal", [])
        reversal += [0] * (rank - len(reversal))
        lows, highs = zip(*pads, strict=True) if pads else ([0] * rank, [0] * rank)
        # XLA takes any number of rhs_reversal other than 1 for false.
        flags = [number == 1 for number in reversal]
        rows = zip(sizes, strides, lows, highs, window, base, flags, strict=True)
        return cls(tuple([WindowDimension(*row) for row in rows]))

    def write(self) -> str:
        """The text of the window: `{size=3x2 stride=2x1}`. A list that has its default in all dimensions is left
        out."""
        if not self.dimensions:
            return "{}"

        def unless_default(name: str, values: Sequence[Any], default: Any) -> str:
            return f" {name}={'x'.join(map(str, values))}" if any(value != default for value in values) else ""

        dimensions = self.dimensions
        text = f"size={'x'.join([str(each.size) for each in dimensions])}"
        text += unless_default("stride", [each.stride for each in dimensions], 1)
        text += unless_default("pad", [f"{each.padding_low}_{each.padding_high}" for each in dimensions], "0_0")
        text += unless_default("lhs_dilate", [each.base_dilation for each in dimensions], 1)
        text += unless_default("rhs_dilate", [each.window_dilation for each in dimensions], 1)
        text += unless_default("rhs_reversal", [int(each.window_reversal) for each in dimensions], 0)
        return f"{{{text}}}"

    @classmethod
    def of_proto(cls, message: xla.Window) -> Window:
        """The window of a message. A stride or dilation that is not set in the message is 0 here."""
        return cls(tuple([attribute.record_of(WindowDimension, each) for each in message.dimensions]))

    def to_proto(self) -> xla.Window:
        """A new `xla.Window`."""
        return xla.Window(dimensions=[xla.WindowDimension(**each._asdict()) for each in self.dimensions])

    def with_defaults(self) -> Window:
        """The same window with 1 for strides and dilations that are 0, which proto3 has for a number that is not
        set."""
        names = ("stride", "window_dilation", "base_dilation")
        return Window(
            tuple([each._replace(**{name: getattr(each, name) or 1 for name in names}) for each in self.dimensions])
        )

    def __str__(self) -> str:
        return self.write()


def _has_dimensions(window: Window) -> bool:
    return bool(window.dimensions)


WINDOW: Final = attribute.structured(
    "window", Window, value=attribute.message_value("window", Window, is_said=_has_dimensions)
)
WINDOW_IF_ANY: Final = attribute.structured("window", Window)
"""The window of a custom-call. If the custom-call has a window, it is written even if it has no dimensions."""


# -- slices ------------------------------------------------------------------------------------


class SliceDimension(NamedTuple):
    """The elements that a slice takes of one dimension: every `stride`-th element from `start` to before `limit`.

    >>> SliceDimension.parse("[1:5:2]")
    SliceDimension(start=1, limit=5, stride=2)
    """

    start: int
    limit: int
    stride: int = 1

    @classmethod
    def parse(cls, text: str) -> SliceDimension:
        """The dimension that `text` describes, brackets included. Raises ParseError."""
        return attribute.whole(cls.read, text)

    @classmethod
    def read(cls, cursor: HloCursor) -> SliceDimension:
        """Reads the dimension at the cursor."""
        cursor.expect("[")
        start = cursor.parse_int("where the slice starts")
        cursor.expect(":")
        limit = cursor.parse_int("where the slice ends")
        stride = cursor.parse_int("the stride of the slice") if cursor.accept(":") else 1
        cursor.expect("]")
        return cls(start, limit, stride)

    def write(self, *, with_stride: bool = True) -> str:
        """The text of the dimension: `[1:5:2]`, or `[1:5]` without the stride. A slice writes the strides of all its
        dimensions or of none."""
        return f"[{self.start}:{self.limit}:{self.stride}]" if with_stride else f"[{self.start}:{self.limit}]"

    @classmethod
    def of_proto(cls, message: xla.HloInstructionProto.SliceDimensions) -> SliceDimension:
        """The dimension of a message."""
        return attribute.record_of(cls, message)

    def to_proto(self) -> xla.HloInstructionProto.SliceDimensions:
        """A new `xla.HloInstructionProto.SliceDimensions`."""
        return xla.HloInstructionProto.SliceDimensions(**self._asdict())


def _write_slice(message: xla.HloInstructionProto, _context: Context) -> str:
    dimensions = [SliceDimension.of_proto(each) for each in message.slice_dimensions]
    strided = any(each.stride != 1 for each in dimensions)
    return f", slice={{{', '.join([each.write(with_stride=strided) for each in dimensions])}}}"


def _read_permute_sizes(cursor: HloCursor) -> bytes:
    # The schema has a single list for the sizes of all slices, one slice after the other.
    lists = cursor.parse_list(cursor.parse_ints)
    return FIELDS.integers("dynamic_slice_sizes", [size for sizes in lists for size in sizes])


def _write_permute_sizes(message: xla.HloInstructionProto, context: Context) -> str:
    if not message.dynamic_slice_sizes:
        return ""
    sent = context.operand_shape(0)
    parts = () if sent is None else sent.tuple_shapes if sent.is_tuple else (sent,)
    return f", slice_sizes={_sizes_by_slice(list(message.dynamic_slice_sizes), [part.rank for part in parts])}"


def _sizes_by_slice(sizes: list[int], ranks: Sequence[int]) -> str:
    """The text `{{2,3},{4}}` for the sizes of all slices. Each slice has the rank of the array that it is a part of."""
    parts: list[str] = []
    first = number = 0
    while first < len(sizes):
        rank = ranks[number % len(ranks)] if ranks else 0
        number += 1
        if rank == 0:
            rank = len(sizes) - first
        parts.append(ints(sizes[first : first + rank]))
        first += rank
    return f"{{{','.join(parts)}}}"


DYNAMIC_SLICE_SIZES: Final = attribute.integers("dynamic_slice_sizes")
PERMUTE_SLICE_SIZES: Final = Attribute(
    "slice_sizes", _read_permute_sizes, _write_permute_sizes, attribute.list_value("dynamic_slice_sizes")
)
"""The slices of a collective-permute. The value is one list with the sizes of all slices, one slice after the other."""
SLICE: Final = attribute.structured_list("slice", SliceDimension, _write_slice, field="slice_dimensions")
SLICE_SIZES: Final = attribute.integers("slice_sizes", "gather_slice_sizes")
"""The sizes of the slice that a gather takes at each index."""
