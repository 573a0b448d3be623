r"""The dimension numbers of a convolution: `dim_labels=b01f_01io->b01f`.

labels      := input '_' kernel '->' output

Each side has a label for each dimension, most major first: `b` batch and `f` feature of input and output, `i` input feature and `o` output
feature of the kernel, `0`, `1`, … the spatial dimensions, '?' a dimension without a meaning.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from xlashape.caches import cached
from xlashape.errors import InvalidModuleError
from xlashape.hlo.tokens.hlo_cursor import HloCursor
from xlashape.hlo.values.attribute import ABSENT, Context, structured, submessage, whole
from xlashape.proto import xla

_MAX_RANK: Final = 1000  # of a side that is written
_LABELS = re.compile(r"([0-9bf?]{2,})_([0-9io?]{2,})->([0-9bf?]{2,})")


class ConvolutionDimensionNumbers(NamedTuple):
    """Which dimension of a convolution's input, kernel and output means what, as `xla.ConvolutionDimensionNumbers` and text have it.

    >>> numbers = ConvolutionDimensionNumbers.parse("b01f_01io->b01f")
    >>> numbers.input_feature_dimension, numbers.kernel_spatial_dimensions, str(numbers)
    (3, (0, 1), 'b01f_01io->b01f')
    """

    input_batch_dimension: int
    input_feature_dimension: int
    input_spatial_dimensions: tuple[int, ...]
    kernel_input_feature_dimension: int
    kernel_output_feature_dimension: int
    kernel_spatial_dimensions: tuple[int, ...]
    output_batch_dimension: int
    output_feature_dimension: int
    output_spatial_dimensions: tuple[int, ...]

    @classmethod
    def parse(cls, text: str) -> ConvolutionDimensionNumbers:
        """The numbers written `text`. Raises ParseError."""
        return whole(cls.read, text)

    @classmethod
    def read(cls, cursor: HloCursor) -> ConvolutionDimensionNumbers:
        """The numbers at the cursor."""
        cursor.skip_space()
        at = cursor.at
        match = _LABELS.match(cursor.text, at)
        if match is None:
            cursor.fail("dimension labels, such as 'b01f_01io->b01f'")
        sides: list[tuple[int, int, tuple[int, ...]]] = []
        for side, letters, which in zip(match.groups(), ("bf", "io", "bf"), ("input", "kernel", "output"), strict=True):
            named = [char for char in side if char != "?"]
            if len(set(named)) != len(named):
                raise cursor.error(f"{side!r} has a label twice", at=at)
            rank = len(named) - 2
            # XLA takes a missing letter or number for dimension 0; here it is a mistake.
            if any(char not in named for char in letters) or any(str(number) not in named for number in range(rank)):
                raise cursor.error(
                    f"the labels of the {which} are {' and '.join(letters)} and the numbers from 0, found {side!r}",
                    at=at,
                )
            dimensions = {char: dimension for dimension, char in enumerate(side)}
            spatial = tuple([dimensions[str(number)] for number in range(rank)])
            sides.append((dimensions[letters[0]], dimensions[letters[1]], spatial))
        ranks = [len(spatial) for _, _, spatial in sides]
        if len(set(ranks)) != 1:
            shown = ", ".join(map(str, ranks))
            raise cursor.error(f"input, kernel and output have different numbers of spatial dimensions: {shown}", at=at)
        cursor.at = match.end()
        return cls(*sides[0], *sides[1], *sides[2])

    def write(self) -> str:
        """`b01f_01io->b01f`. InvalidModuleError for numbers that are not a permutation."""
        lhs = _side(
            ("b", self.input_batch_dimension), ("f", self.input_feature_dimension), self.input_spatial_dimensions
        )
        rhs = _side(
            ("i", self.kernel_input_feature_dimension),
            ("o", self.kernel_output_feature_dimension),
            self.kernel_spatial_dimensions,
        )
        output = _side(
            ("b", self.output_batch_dimension), ("f", self.output_feature_dimension), self.output_spatial_dimensions
        )
        return f"{lhs}_{rhs}->{output}"

    @classmethod
    def of_proto(cls, message: xla.ConvolutionDimensionNumbers) -> ConvolutionDimensionNumbers:
        """The numbers of a message."""
        return cls(
            message.input_batch_dimension,
            message.input_feature_dimension,
            tuple(message.input_spatial_dimensions),
            message.kernel_input_feature_dimension,
            message.kernel_output_feature_dimension,
            tuple(message.kernel_spatial_dimensions),
            message.output_batch_dimension,
            message.output_feature_dimension,
            tuple(message.output_spatial_dimensions),
        )

    def to_proto(self) -> xla.ConvolutionDimensionNumbers:
        """A new message."""
        return xla.ConvolutionDimensionNumbers(**self._asdict())

    def __str__(self) -> str:
        return self.write()


@cached(max_bytes=1 << 20, weigh=lambda key, text: 300 + len(key[0]) + len(text))
def _text(data: bytes) -> str:
    return ConvolutionDimensionNumbers.of_proto(xla.ConvolutionDimensionNumbers.FromString(data)).write()


def _side(first: tuple[str, int], second: tuple[str, int], spatial: Iterable[int]) -> str:
    """The labels of one side, from the dimension of each label. As in XLA, a dimension without a label is a '?'."""
    label_of: dict[int, str] = {}
    for label, dimension in (first, second, *((str(number), dimension) for number, dimension in enumerate(spatial))):
        if not 0 <= dimension < _MAX_RANK or dimension in label_of:
            raise InvalidModuleError(
                f"the dimension numbers of a convolution are not a permutation: {label!r} is dimension {dimension}"
            )
        label_of[dimension] = label
    return "".join([label_of.get(dimension, "?") for dimension in range(max(label_of) + 1)])


def _write(message: Any, _context: Context) -> str:
    return f", dim_labels={_text(submessage(message.convolution_dimension_numbers))}"


def _write_if_any(message: Any, context: Context) -> str:
    return "" if message.convolution_dimension_numbers == ABSENT else _write(message, context)


DIM_LABELS: Final = structured("dim_labels", ConvolutionDimensionNumbers, _write, field="convolution_dimension_numbers")
DIM_LABELS_IF_ANY: Final = DIM_LABELS._replace(write=_write_if_any)
"""Those of a custom call, which may be a convolution."""
