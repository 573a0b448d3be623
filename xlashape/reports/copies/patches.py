"""A convolution whose window moves by its own size: it multiplies patches of an image by a matrix. TPUs pad the few
channels of an image to whole tiles, and the image is copied so; an array of patches needs no such copy."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from xlashape.hlo import HloInstruction, Opcode
from xlashape.hlo.flow import Value
from xlashape.shape import Shape


def patch_advice(source: Value, convolution: HloInstruction, image: Shape) -> str:
    """The edit that hands the argument `source` over as patches, where an image of this shape is convolved so; else
    empty."""
    argument = source.instruction
    while argument.opcode in (Opcode.CONVERT, Opcode.COPY) and argument.operands:
        argument = argument.operands[0]
    is_tiled = image.is_array and image.layout is not None and image.layout.tiles
    is_argument = argument.opcode == Opcode.PARAMETER and argument.computation is argument.computation.module.entry
    if (
        not is_tiled
        or not is_argument
        or argument.shape.dimensions != image.dimensions
        or not _is_of_patches(convolution, image)
    ):
        return ""
    batch, *sizes, channels = image.dimensions
    window = [each.size for each in convolution.details.window.dimensions]
    counts = [size // step for size, step in zip(sizes, window, strict=True)]
    split = [batch, *[each for pair in zip(counts, window, strict=True) for each in pair], channels]
    last = len(split) - 1
    order = [0, *range(1, last, 2), *range(2, last, 2), last]
    inner = prod(window) * channels
    name = argument.metadata.op_name or argument.name
    patches = f".reshape({_list(split)}).transpose({_list(order)}).reshape({_list([batch, *counts, inner])})"
    kernel = f"kernel.reshape({inner}, {convolution.shape.dimensions[-1]})"
    return f"hand {name} over in patches, {name}{patches}, and multiply it by {kernel} instead of convolving"


def _list(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers))


def _is_of_patches(convolution: HloInstruction, image: Shape) -> bool:
    """Whether a convolution takes an image of this shape apart without overlap: batch first, and features last."""
    details = convolution.details
    numbers, window = details.convolution_dimension_numbers, details.window.dimensions
    rank = len(window) + 2
    return (
        image.rank == convolution.shape.rank == rank > 2
        and (numbers.input_batch_dimension, numbers.input_feature_dimension) == (0, rank - 1)
        and [*numbers.input_spatial_dimensions] == [*numbers.output_spatial_dimensions] == [*range(1, rank - 1)]
        and [*numbers.kernel_spatial_dimensions] == [*range(rank - 2)]
        and (numbers.kernel_input_feature_dimension, numbers.kernel_output_feature_dimension) == (rank - 2, rank - 1)
        and (numbers.output_batch_dimension, numbers.output_feature_dimension) == (0, rank - 1)
        and (details.feature_group_count or 1) == (details.batch_group_count or 1) == 1
        and all(
            each.size == each.stride > 1
            and (each.padding_low, each.padding_high, each.window_dilation or 1, each.base_dilation or 1)
            == (0, 0, 1, 1)
            and not each.window_reversal
            and size % each.size == 0
            for each, size in zip(window, image.dimensions[1:-1], strict=True)
        )
    )
