r"""The dimension numbers of a convolution: `dim_labels=b01f_01io->b01f`.

labels      := input '_' kernel '->' output

Each side has a label for each dimension, most major first: `b` batch and `f` feature of input and output, `i` input feature and `o` output
feature of the kernel, `0`, `1`, … the spatial dimensions, '?' a dimension without a meaning.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final

from xlashape.caches import cached
from xlashape.errors import InvalidModuleError
from xlashape.hlo.lex import HloCursor
from xlashape.hlo.values.attribute import ABSENT, FIELDS, Attribute, Context, submessage
from xlashape.proto import xla

__all__ = ["DIM_LABELS", "DIM_LABELS_IF_ANY"]

_MAX_RANK: Final = 1000  # of a side that is written
_LABELS = re.compile(r"([0-9bf?]{2,})_([0-9io?]{2,})->([0-9bf?]{2,})")


def _read(cursor: HloCursor) -> bytes:
    cursor.skip_space()
    at = cursor.at
    match = _LABELS.match(cursor.text, at)
    if match is None:
        cursor.fail("dimension labels, such as 'b01f_01io->b01f'")
    message = xla.ConvolutionDimensionNumbers()
    spatial: list[int] = []
    for side, letters, which in zip(match.groups(), ("bf", "io", "bf"), ("input", "kernel", "output"), strict=True):
        named = [char for char in side if char != "?"]
        if len(set(named)) != len(named):
            raise cursor.error(f"{side!r} has a label twice", at=at)
        rank = len(named) - 2
        # XLA takes a missing letter or number for dimension 0; here it is a mistake.
        if any(char not in named for char in letters) or any(str(number) not in named for number in range(rank)):
            raise cursor.error(
                f"the labels of the {which} are {' and '.join(letters)} and the numbers from 0, found {side!r}", at=at
            )
        spatial.append(rank)
        dimensions = {char: dimension for dimension, char in enumerate(side)}
        first, second = dimensions[letters[0]], dimensions[letters[1]]
        numbers = [dimensions[str(number)] for number in range(rank)]
        if which == "input":
            message.input_batch_dimension, message.input_feature_dimension = first, second
            message.input_spatial_dimensions.extend(numbers)
        elif which == "kernel":
            message.kernel_input_feature_dimension, message.kernel_output_feature_dimension = first, second
            message.kernel_spatial_dimensions.extend(numbers)
        else:
            message.output_batch_dimension, message.output_feature_dimension = first, second
            message.output_spatial_dimensions.extend(numbers)
    if len(set(spatial)) != 1:
        shown = ", ".join(map(str, spatial))
        raise cursor.error(f"input, kernel and output have different numbers of spatial dimensions: {shown}", at=at)
    cursor.at = match.end()
    return FIELDS.message("convolution_dimension_numbers", message)


@cached(max_bytes=1 << 20, weigh=lambda key, text: 300 + len(key[0]) + len(text))
def _text(data: bytes) -> str:
    numbers = xla.ConvolutionDimensionNumbers.FromString(data)
    lhs = _side(
        ("b", numbers.input_batch_dimension), ("f", numbers.input_feature_dimension), numbers.input_spatial_dimensions
    )
    rhs = _side(
        ("i", numbers.kernel_input_feature_dimension),
        ("o", numbers.kernel_output_feature_dimension),
        numbers.kernel_spatial_dimensions,
    )
    output = _side(
        ("b", numbers.output_batch_dimension),
        ("f", numbers.output_feature_dimension),
        numbers.output_spatial_dimensions,
    )
    return f"{lhs}_{rhs}->{output}"


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


DIM_LABELS: Final = Attribute("dim_labels", _read, _write)
DIM_LABELS_IF_ANY: Final = DIM_LABELS._replace(write=_write_if_any)
"""Those of a custom call, which may be a convolution."""
