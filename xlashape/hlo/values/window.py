r"""The window of a convolution, reduce-window or select-and-scatter.

window      := '{' (list '=' INT ('x' INT)* | 'pad=' INT '_' INT ('x' INT '_' INT)*)* '}'        each at most once
list        := 'size' | 'stride' | 'lhs_dilate' | 'rhs_dilate' | 'rhs_reversal'

Each list has a number for each dimension; one that has its default in all dimensions is left out. Text of jaxlib 0.10 and older may
have fewer numbers in rhs_reversal: the window is not reversed in the dimensions after them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

from xlashape.caches import cached
from xlashape.hlo.lex import HloCursor
from xlashape.hlo.values.attribute import ABSENT, FIELDS, Attribute, Context
from xlashape.hlo.values.padding import parse_paddings
from xlashape.proto import xla

__all__ = ["WINDOW", "WINDOW_IF_ANY", "parse_numbers_by_x"]

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


def _read(cursor: HloCursor) -> bytes:
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
    padding = pads if pads is not None else [[0, 0]] * rank
    message = xla.Window()
    for dimension, size in enumerate(sizes):
        message.dimensions.add(
            size=size,
            stride=strides[dimension],
            padding_low=padding[dimension][0],
            padding_high=padding[dimension][1],
            window_dilation=window[dimension],
            base_dilation=base[dimension],
            # XLA takes any number other than 1 for false.
            window_reversal=reversal[dimension] == 1,
        )
    return FIELDS.message("window", message)


@cached(max_bytes=4 << 20, weigh=lambda key, text: 300 + 2 * len(key[0]) + len(text))
def _text(data: bytes) -> str:
    dimensions = xla.Window.FromString(data).dimensions
    if not dimensions:
        return ""

    def unless_default(name: str, values: Sequence[Any], default: Any) -> str:
        return f" {name}={'x'.join(map(str, values))}" if any(value != default for value in values) else ""

    text = f"size={'x'.join([str(dim.size) for dim in dimensions])}"
    text += unless_default("stride", [dim.stride for dim in dimensions], 1)
    text += unless_default("pad", [f"{dim.padding_low}_{dim.padding_high}" for dim in dimensions], "0_0")
    text += unless_default("lhs_dilate", [dim.base_dilation for dim in dimensions], 1)
    text += unless_default("rhs_dilate", [dim.window_dilation for dim in dimensions], 1)
    text += unless_default("rhs_reversal", [int(dim.window_reversal) for dim in dimensions], 0)
    return f", window={{{text}}}"


def _write(message: Any, _context: Context) -> str:
    return "" if message.window == ABSENT else _text(message.window)


def _write_even_if_empty(message: Any, _context: Context) -> str:
    return "" if message.window == ABSENT else _text(message.window) or ", window={}"


WINDOW: Final = Attribute("window", _read, _write)
WINDOW_IF_ANY: Final = Attribute("window", _read, _write_even_if_empty)
"""The window of a custom-call: where there is one, it is written even if it has no dimensions."""
