r"""The padding of a pad: how many elements are added before, behind and between those of each dimension.

padding     := dimension ('x' dimension)*       dimension := INT '_' INT ('_' INT)?      low, high, interior

The padding of a scalar is written as nothing. Interior padding is written for all dimensions where it is not 0 for one of them.
"""

from __future__ import annotations

import re
from typing import Any, Final, NamedTuple

from xlashape.caches import cached
from xlashape.hlo.tokens.hlo_cursor import HloCursor
from xlashape.hlo.values.attribute import Context, structured, submessage, whole
from xlashape.proto import xla

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


class PaddingDimension(NamedTuple):
    """How one dimension is padded."""

    edge_padding_low: int = 0
    """Elements added before the first; negative where elements are removed."""
    edge_padding_high: int = 0
    interior_padding: int = 0
    """Elements added between each two."""


class PaddingConfig(NamedTuple):
    """The padding of a pad, as `xla.PaddingConfig` and text have it.

    >>> padding = PaddingConfig.parse("0_1_2x-3_4_0")
    >>> padding.dimensions[1].edge_padding_low, str(padding)
    (-3, '0_1_2x-3_4_0')
    """

    dimensions: tuple[PaddingDimension, ...] = ()

    @classmethod
    def parse(cls, text: str) -> PaddingConfig:
        """The padding written `text`. Raises ParseError."""
        return whole(cls.read, text)

    @classmethod
    def read(cls, cursor: HloCursor) -> PaddingConfig:
        """The padding at the cursor."""
        if not cursor.at_end() and _PADDING.match(cursor.text, cursor.at) is None:
            cursor.fail("a padding, such as '0_0_0x3_3_1'")
        return cls(tuple([PaddingDimension(*numbers) for numbers in parse_paddings(cursor, with_interior=True)]))

    def write(self) -> str:
        """`0_1x2_3`, with interior padding where there is some."""
        has_interior = any(each.interior_padding for each in self.dimensions)
        return "x".join(
            [f"{low}_{high}{f'_{interior}' if has_interior else ''}" for low, high, interior in self.dimensions]
        )

    @classmethod
    def of_proto(cls, message: xla.PaddingConfig) -> PaddingConfig:
        """The padding of a message."""
        return cls(
            tuple(
                [
                    PaddingDimension(each.edge_padding_low, each.edge_padding_high, each.interior_padding)
                    for each in message.dimensions
                ]
            )
        )

    def to_proto(self) -> xla.PaddingConfig:
        """A new message."""
        message = xla.PaddingConfig()
        for each in self.dimensions:
            message.dimensions.add(**each._asdict())
        return message

    def __str__(self) -> str:
        return self.write()


@cached(max_bytes=1 << 20, weigh=lambda key, text: 300 + len(key[0]) + len(text))
def _text(data: bytes) -> str:
    return PaddingConfig.of_proto(xla.PaddingConfig.FromString(data)).write()


def _write(message: Any, _context: Context) -> str:
    return f", padding={_text(submessage(message.padding_config))}"


PADDING: Final = structured("padding", PaddingConfig, _write, field="padding_config")
