r"""The padding of a pad: how many elements are added before, behind and between those of each dimension.

padding     := dimension ('x' dimension)*       dimension := INT '_' INT ('_' INT)?      low, high, interior

The padding of a scalar is written as nothing. Interior padding is written for all dimensions where it is not 0 for one of them.
"""

from __future__ import annotations

import re
from typing import Any, Final

from xlashape.caches import cached
from xlashape.hlo.lex import HloCursor
from xlashape.hlo.values.attribute import FIELDS, Attribute, Context, submessage
from xlashape.proto import xla

__all__ = ["PADDING", "parse_paddings"]

_PADDING = re.compile(
    r"-?[0-9]{1,19}_-?[0-9]{1,19}(?:_-?[0-9]{1,19})?(?:x-?[0-9]{1,19}_-?[0-9]{1,19}(?:_-?[0-9]{1,19})?)*(?![0-9A-Za-z_])"
)


def parse_paddings(cursor: HloCursor, *, with_interior: bool) -> list[list[int]]:
    """The numbers of each dimension: low, high and, `with_interior`, perhaps interior."""
    cursor.skip_space()
    match = _PADDING.match(cursor.text, cursor.at)
    if match is None:
        cursor.fail("paddings, such as '0_0x1_2'")
    paddings = [[cursor.int64(digits) for digits in part.split("_")] for part in match.group().split("x")]
    if not with_interior and any(len(part) > 2 for part in paddings):
        raise cursor.error("a padding of a window has two numbers, low_high", expected="low_high")
    cursor.at = match.end()
    return paddings


def _read(cursor: HloCursor) -> bytes:
    if not cursor.at_end() and _PADDING.match(cursor.text, cursor.at) is None:
        cursor.fail("a padding, such as '0_0_0x3_3_1'")
    config = xla.PaddingConfig()
    for low, high, *interior in parse_paddings(cursor, with_interior=True):
        config.dimensions.add(
            edge_padding_low=low, edge_padding_high=high, interior_padding=interior[0] if interior else 0
        )
    return FIELDS.message("padding_config", config)


@cached(max_bytes=1 << 20, weigh=lambda key, text: 300 + len(key[0]) + len(text))
def _text(data: bytes) -> str:
    dimensions = xla.PaddingConfig.FromString(data).dimensions
    has_interior = any(dim.interior_padding for dim in dimensions)
    return "x".join(
        [
            f"{dim.edge_padding_low}_{dim.edge_padding_high}{f'_{dim.interior_padding}' if has_interior else ''}"
            for dim in dimensions
        ]
    )


def _write(message: Any, _context: Context) -> str:
    return f", padding={_text(submessage(message.padding_config))}"


PADDING: Final = Attribute("padding", _read, _write)
