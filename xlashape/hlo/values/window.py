r"""The window of a convolution, reduce-window or select-and-scatter.

window      := '{' (list '=' INT ('x' INT)* | 'pad=' INT '_' INT ('x' INT '_' INT)*)* '}'        each at most once
list        := 'size' | 'stride' | 'lhs_dilate' | 'rhs_dilate' | 'rhs_reversal'

Each list has a number for each dimension; one that has its default in all dimensions is left out. Text of jaxlib 0.10 and older may
have fewer numbers in rhs_reversal: the window is not reversed in the dimensions after them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from xlashape.caches import cached
from xlashape.hlo.tokens.hlo_cursor import HloCursor
from xlashape.hlo.values.attribute import ABSENT, Attribute, Context, structured, whole
from xlashape.hlo.values.padding import parse_paddings
from xlashape.proto import xla

_NUMBERS_BY_X = re.compile(r"-?[0-9]{1,19}(?:x-?[0-9]{1,19})*(?![0-9A-Za-z_])")
_LISTS: Final = ("size", "stride", "lhs_dilate", "rhs_dilate", "rhs_reversal")


def parse_numbers_by_x(cursor: HloCursor, what: str) -> list[int]:
    """Integers with an 'x' between each two: `3x1x-2`. `what` names them in the error."""
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
    """Elements added before the operand's first; negative where elements are removed."""
    padding_high: int = 0
    window_dilation: int = 1
    """The distance between elements of the window, which text calls rhs_dilate."""
    base_dilation: int = 1
    """The distance between elements of the operand once zeros are put between them, which text calls lhs_dilate."""
    window_reversal: bool = False


class Window(NamedTuple):
    """A window, as `xla.Window` and text have it.

    >>> window = Window.parse("{size=3x2 stride=2x1 pad=1_1x0_0}")
    >>> window.dimensions[0].stride, window.dimensions[1].padding_low, str(window)
    (2, 0, '{size=3x2 stride=2x1 pad=1_1x0_0}')
    """

    dimensions: tuple[WindowDimension, ...] = ()

    @classmethod
    def parse(cls, text: str) -> Window:
        """The window written `text`, braces included. Raises ParseError."""
        return whole(cls.read, text)

    @classmethod
    def read(cls, cursor: HloCursor) -> Window:
        """The window at the cursor."""
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
        """`{size=3x2 stride=2x1}`; without what has its default in all dimensions."""
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
        """The window of a message, with its numbers as they are: a stride or dilation that is not set is 0."""
        return cls(
            tuple(
                [
                    WindowDimension(
                        each.size,
                        each.stride,
                        each.padding_low,
                        each.padding_high,
                        each.window_dilation,
                        each.base_dilation,
                        each.window_reversal,
                    )
                    for each in message.dimensions
                ]
            )
        )

    def to_proto(self) -> xla.Window:
        """A new message."""
        message = xla.Window()
        for each in self.dimensions:
            message.dimensions.add(**each._asdict())
        return message

    def with_defaults(self) -> Window:
        """The same window, in which strides and dilations that are not set, 0 in proto3, are 1."""
        if all(each.stride and each.window_dilation and each.base_dilation for each in self.dimensions):
            return self
        return Window(
            tuple(
                [
                    each._replace(
                        stride=each.stride or 1,
                        window_dilation=each.window_dilation or 1,
                        base_dilation=each.base_dilation or 1,
                    )
                    for each in self.dimensions
                ]
            )
        )

    def __str__(self) -> str:
        return self.write()


@cached(max_bytes=4 << 20, weigh=lambda key, text: 300 + 2 * len(key[0]) + len(text))
def _text(data: bytes) -> str:
    return Window.of_proto(xla.Window.FromString(data)).write()


def _write_even_if_empty(message: Any, _context: Context) -> str:
    return "" if message.window == ABSENT else f", window={_text(message.window)}"


def _write(message: Any, context: Context) -> str:
    text = _write_even_if_empty(message, context)
    return "" if text == ", window={}" else text


WINDOW: Final[Attribute] = structured("window", Window, _write)
WINDOW_IF_ANY: Final[Attribute] = WINDOW._replace(write=_write_even_if_empty)
"""The window of a custom-call: where there is one, it is written even if it has no dimensions."""
