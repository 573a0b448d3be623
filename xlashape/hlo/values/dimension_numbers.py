"""Dimension numbers: attributes that say which dimensions of its operands a dot contracts, which dimensions of a
convolution are batch, feature or spatial, and which dimensions the indices of a gather or a scatter refer to.

The dimension numbers of a dot, a gather and a scatter are lists of dimensions. Each list is an attribute:

    lhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_batch_dims={0}, rhs_contracting_dims={1}
    offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1
    update_window_dims={1}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1

The lists are fields of DotDimensionNumbers, GatherDimensionNumbers and ScatterDimensionNumbers. The
RaggedDotDimensionNumbers of a ragged dot contain a DotDimensionNumbers, and further lists. Lists of batch and batching
dimensions are written only if they are not empty.

The dimension numbers of a convolution are labels, `dim_labels=b01f_01io->b01f`:

    labels := input '_' kernel '->' output

Each side has a label for each dimension, most major first: `b` batch and `f` feature of input and output, `i` input
feature and `o` output feature of the kernel, `0`, `1`, … the spatial dimensions, '?' a dimension without a meaning.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final, NamedTuple

from google.protobuf.message import Message

from xlashape.errors import InvalidModuleError
from xlashape.hlo.tokens import HloCursor
from xlashape.hlo.values.attribute import (
    Attribute,
    integer_of,
    integers_of,
    message_value,
    record_of,
    structured,
    whole,
)
from xlashape.proto import xla


class DotDimensionNumbers(NamedTuple):
    """Which dimensions of a dot's operands are contracted and which are batch dimensions. Each dimension of lhs belongs
    to the dimension of rhs at the same position of the list."""

    lhs_contracting_dimensions: tuple[int, ...] = ()
    rhs_contracting_dimensions: tuple[int, ...] = ()
    lhs_batch_dimensions: tuple[int, ...] = ()
    rhs_batch_dimensions: tuple[int, ...] = ()

    @classmethod
    def of_proto(cls, message: xla.DotDimensionNumbers) -> DotDimensionNumbers:
        """The numbers of a message."""
        return record_of(cls, message)

    def to_proto(self) -> xla.DotDimensionNumbers:
        """A new `xla.DotDimensionNumbers`."""
        return xla.DotDimensionNumbers(**self._asdict())


class RaggedDotDimensionNumbers(NamedTuple):
    """The dimension numbers of a ragged dot: those of a dot, the ragged dimensions of lhs, and the dimensions of rhs
    that number the groups.
    """

    dot_dimension_numbers: DotDimensionNumbers = DotDimensionNumbers()
    lhs_ragged_dimensions: tuple[int, ...] = ()
    rhs_group_dimensions: tuple[int, ...] = ()

    @classmethod
    def of_proto(cls, message: xla.RaggedDotDimensionNumbers) -> RaggedDotDimensionNumbers:
        """The numbers of a message."""
        return cls(
            DotDimensionNumbers.of_proto(message.dot_dimension_numbers),
            tuple(message.lhs_ragged_dimensions),
            tuple(message.rhs_group_dimensions),
        )

    def to_proto(self) -> xla.RaggedDotDimensionNumbers:
        """A new `xla.RaggedDotDimensionNumbers`."""
        return xla.RaggedDotDimensionNumbers(
            dot_dimension_numbers=self.dot_dimension_numbers.to_proto(),
            lhs_ragged_dimensions=self.lhs_ragged_dimensions,
            rhs_group_dimensions=self.rhs_group_dimensions,
        )


DOT_DIMENSION_NUMBERS: Final = message_value("dot_dimension_numbers", DotDimensionNumbers, is_optional=False)
RAGGED_DOT_DIMENSION_NUMBERS: Final = message_value(
    "ragged_dot_dimension_numbers", RaggedDotDimensionNumbers, is_optional=False
)

_DOT: Final = ("dot_dimension_numbers", xla.DotDimensionNumbers)
_RAGGED: Final = ("ragged_dot_dimension_numbers", xla.RaggedDotDimensionNumbers)


_SIDES: Final = ("lhs_batch_dims", "lhs_contracting_dims", "rhs_batch_dims", "rhs_contracting_dims")


def _of_sides(*owners: tuple[str, type[Message]]) -> list[Attribute]:
    """The dimensions of both operands of a dot. Their fields have longer names: lhs_batch_dimensions."""
    return [
        integers_of(owners, name, name.replace("_dims", "_dimensions"), write_empty="contracting" in name)
        for name in _SIDES
    ]


DOT_DIMENSIONS: Final = tuple(_of_sides(_DOT))
RAGGED_DOT_DIMENSIONS: Final = (
    *_of_sides(_RAGGED, _DOT),
    integers_of([_RAGGED], "lhs_ragged_dims", "lhs_ragged_dimensions"),
    integers_of([_RAGGED], "rhs_group_dims", "rhs_group_dimensions", write_empty=False),
)


# -- convolution -------------------------------------------------------------------------------


_MAX_RANK: Final = 1000
"""The greatest rank of an input, kernel or output whose labels are written."""
_LABELS = re.compile(r"([0-9bf?]{2,})_([0-9io?]{2,})->([0-9bf?]{2,})")


class ConvolutionDimensionNumbers(NamedTuple):
    """The meaning of each dimension of a convolution's input, kernel and output: the value of the attribute
    `dim_labels`, an `xla.ConvolutionDimensionNumbers`.

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
        """The numbers that `text` describes. Raises ParseError."""
        return whole(cls.read, text)

    @classmethod
    def read(cls, cursor: HloCursor) -> ConvolutionDimensionNumbers:
        """Reads the numbers at the cursor."""
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
            # XLA takes dimension 0 for a missing letter or number. Here a missing label is an error.
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
        """The labels, such as `b01f_01io->b01f`. InvalidModuleError for a dimension that occurs twice or is out of
        range."""
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
        return record_of(cls, message)

    def to_proto(self) -> xla.ConvolutionDimensionNumbers:
        """A new `xla.ConvolutionDimensionNumbers`."""
        return xla.ConvolutionDimensionNumbers(**self._asdict())

    def __str__(self) -> str:
        return self.write()


def _side(first: tuple[str, int], second: tuple[str, int], spatial: Iterable[int]) -> str:
    """The labels of an input, a kernel or an output, made of the dimension that each label has. As in XLA, a dimension
    without a label is written as '?'."""
    label_of: dict[int, str] = {}
    for label, dimension in (first, second, *((str(number), dimension) for number, dimension in enumerate(spatial))):
        if not 0 <= dimension < _MAX_RANK or dimension in label_of:
            raise InvalidModuleError(
                f"the dimension numbers of a convolution are not a permutation: {label!r} is dimension {dimension}"
            )
        label_of[dimension] = label
    return "".join([label_of.get(dimension, "?") for dimension in range(max(label_of) + 1)])


DIM_LABELS: Final = structured(
    "dim_labels", ConvolutionDimensionNumbers, field="convolution_dimension_numbers", is_required=True
)
DIM_LABELS_IF_ANY: Final = structured("dim_labels", ConvolutionDimensionNumbers, field="convolution_dimension_numbers")
"""The labels of a custom call, which has them if it is a convolution."""


# -- gather ------------------------------------------------------------------------------------


class GatherDimensionNumbers(NamedTuple):
    """Which dimensions of a gather's operand, indices and output belong together."""

    offset_dims: tuple[int, ...] = ()
    """The dimensions of the output that come from the slice."""
    collapsed_slice_dims: tuple[int, ...] = ()
    """The dimensions of the slice, all of size 1, that the output does not have."""
    start_index_map: tuple[int, ...] = ()
    """The operand's dimension that each element of an index vector refers to."""
    index_vector_dim: int = 0
    """The dimension of the indices that an index vector extends along."""
    operand_batching_dims: tuple[int, ...] = ()
    """The batching dimensions of the operand."""
    start_indices_batching_dims: tuple[int, ...] = ()
    """The dimension of the indices that belongs to each of `operand_batching_dims`."""

    @classmethod
    def of_proto(cls, message: xla.GatherDimensionNumbers) -> GatherDimensionNumbers:
        """The numbers of a message."""
        return record_of(cls, message)

    def to_proto(self) -> xla.GatherDimensionNumbers:
        """A new `xla.GatherDimensionNumbers`."""
        return xla.GatherDimensionNumbers(**self._asdict())


GATHER_DIMENSION_NUMBERS: Final = message_value("gather_dimension_numbers", GatherDimensionNumbers, is_optional=False)


_GATHER: Final = ("gather_dimension_numbers", xla.GatherDimensionNumbers)
GATHER_DIMENSIONS: Final = (
    *[integers_of([_GATHER], name) for name in GatherDimensionNumbers._fields[:3]],
    *[integers_of([_GATHER], name, write_empty=False) for name in GatherDimensionNumbers._fields[4:]],
    integer_of(xla.GatherDimensionNumbers, "gather_dimension_numbers", "index_vector_dim"),
)
"""The attributes in the order in which they are written."""


# -- scatter -----------------------------------------------------------------------------------


class ScatterDimensionNumbers(NamedTuple):
    """Which dimensions of a scatter's operand, indices and updates belong together."""

    update_window_dims: tuple[int, ...] = ()
    """The dimensions of the updates that belong to the window."""
    inserted_window_dims: tuple[int, ...] = ()
    """The dimensions of the operand that the window in the updates does not have. The window has size 1 there."""
    scatter_dims_to_operand_dims: tuple[int, ...] = ()
    """The operand's dimension that each element of an index vector refers to."""
    index_vector_dim: int = 0
    """The dimension of the indices that an index vector extends along."""
    input_batching_dims: tuple[int, ...] = ()
    """The batching dimensions of the operand."""
    scatter_indices_batching_dims: tuple[int, ...] = ()
    """The dimension of the indices that belongs to each of `input_batching_dims`."""

    @classmethod
    def of_proto(cls, message: xla.ScatterDimensionNumbers) -> ScatterDimensionNumbers:
        """The numbers of a message."""
        return record_of(cls, message)

    def to_proto(self) -> xla.ScatterDimensionNumbers:
        """A new `xla.ScatterDimensionNumbers`."""
        return xla.ScatterDimensionNumbers(**self._asdict())


SCATTER_DIMENSION_NUMBERS: Final = message_value(
    "scatter_dimension_numbers", ScatterDimensionNumbers, is_optional=False
)


_SCATTER: Final = ("scatter_dimension_numbers", xla.ScatterDimensionNumbers)
SCATTER_DIMENSIONS: Final = (
    *[integers_of([_SCATTER], name) for name in ScatterDimensionNumbers._fields[:3]],
    *[integers_of([_SCATTER], name, write_empty=False) for name in ScatterDimensionNumbers._fields[4:]],
    integer_of(xla.ScatterDimensionNumbers, "scatter_dimension_numbers", "index_vector_dim"),
)
"""The attributes in the order in which they are written."""
