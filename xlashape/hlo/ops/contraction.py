"""Table rows (`Operation`) and rules of contractions: dot, scaled-dot, ragged-dot and convolution. The functions infer
the shape of an instruction if text leaves it out, and verify a given shape.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from xlashape.base.math import ceil_div, product
from xlashape.hlo.module_proto.schema_compat import SparseOperand, sparse_operands
from xlashape.hlo.ops import inference
from xlashape.hlo.ops.attributes import optional, required, written_only
from xlashape.hlo.ops.inference import array, promoted_type
from xlashape.hlo.ops.opcode import Opcode
from xlashape.hlo.ops.operation import CannotInfer, Given, Operation, Result, at_least, exactly
from xlashape.hlo.ops.verification import check_array, check_shape
from xlashape.hlo.values import dimension_numbers
from xlashape.hlo.values.attribute import FIELDS
from xlashape.hlo.values.dimension_numbers import DotDimensionNumbers
from xlashape.hlo.values.enums import CONVOLUTION_KIND
from xlashape.hlo.values.plain import BATCH_GROUP_COUNT, FEATURE_GROUP_COUNT
from xlashape.hlo.values.precision import DOT_ALGORITHM, OPERAND_PRECISION
from xlashape.hlo.values.sparsity import BLOCK_SCALING_CONFIG, DOT_SPARSITY, SPARSITY_CONFIG
from xlashape.hlo.values.window import WINDOW, Window
from xlashape.proto import xla
from xlashape.shape import PrimitiveType, Shape

# -- dot ------------------------------------------------------------------------------------


def _check_dimensions(dims: Sequence[int], shape: Shape) -> None:
    """Raises CannotInfer unless `dims` are distinct dimensions of `shape`."""
    if len(set(dims)) != len(dims) or not all(0 <= dim < shape.rank for dim in dims):
        raise CannotInfer(f"dimensions {list(dims)} are not distinct dimensions of {shape}")


def _infer_dot(given: Given) -> Shape:
    lhs, rhs = _dot_sides(given.message, given.operands)
    return _dot_shape(
        DotDimensionNumbers.of_proto(given.message.dot_dimension_numbers), lhs, rhs, promoted_type(lhs, rhs)
    )


def _verify_dot(result: Result) -> str | None:
    # The element type of the result is not checked: an instruction may choose any type in which products are added.
    problem = _further_problem(result)
    if problem:
        return problem
    lhs, rhs = _dot_sides(result.message, result.operands)
    return check_shape(
        result.shape,
        _dot_shape(
            DotDimensionNumbers.of_proto(result.message.dot_dimension_numbers), lhs, rhs, result.shape.element_type
        ),
    )


def _further_problem(result: Result) -> str | None:
    """Checks the operands after the first two. Each says which elements a sparse operand has, or scales an operand, and
    sparsity_config or block_scaling_config must name it exactly once.
    """
    operands = result.operands
    sparsity, scaling = result.message.sparsity_config, result.message.block_scaling_config
    sides = ("lhs", "rhs")
    named: list[int] = [getattr(sparsity, side).idx for side in sides if sparsity.HasField(side)]
    for side in [getattr(scaling, side) for side in sides if scaling.HasField(side)]:
        named += [side.scale_idx, side.zero_idx] if side.zero_idx else [side.scale_idx]
    for number in named:
        if not 2 <= number < len(operands) or named.count(number) > 1:
            return f"sparsity_config and block_scaling_config must name further operands, each once, found {named}"
        if not operands[number].is_array:
            return check_array(operands[number], f"operand {number}")
    if len(named) != len(operands) - 2 and not sparse_operands(result.message):
        return (
            f"sparsity_config or block_scaling_config must name its {len(operands) - 2} further operands, found {named}"
        )
    return None


def _verify_scaled_dot(result: Result) -> str | None:
    """The rule of scaled-dot: the rule of dot, and further one contracting dimension for each operand, and a scale for
    each block of an operand.
    """
    numbers = DotDimensionNumbers.of_proto(result.message.dot_dimension_numbers)
    for contracted in (numbers.lhs_contracting_dimensions, numbers.rhs_contracting_dimensions):
        if len(contracted) != 1:
            return f"scaled-dot contracts one dimension of each operand, found {list(contracted)}"
    scales = result.operands[2:]
    if all(scale.is_scalar for scale in scales):
        return f"one of its operands must have scales, found {scales[0]} and {scales[1]}"
    contracting = (numbers.lhs_contracting_dimensions[0], numbers.rhs_contracting_dimensions[0])
    for operand, scale, along in zip(result.operands[:2], scales, contracting, strict=True):
        if _is_unscaled(operand, scale) and (not scale.rank or along < scale.rank):
            continue
        if not scale.is_array or scale.rank != operand.rank:
            return f"the scales of {operand} must have as many dimensions as it, found {scale}"
        for dim, (size, blocks) in enumerate(zip(operand.dimensions, scale.dimensions, strict=True)):
            if blocks <= 0 or size % blocks:
                return f"dimension {dim} of {operand} must be a multiple of that of its scales, found {scale}"
    shape = result.shape
    if not shape.is_array:
        return check_array(shape, "shape")
    return check_shape(
        shape, _dot_shape(numbers, array(result.operands[0]), array(result.operands[1]), shape.element_type)
    )


def _is_unscaled(operand: Shape, scale: Shape) -> bool:
    """Whether an operand has no scales: it is bf16, and so is the single number in place of the scales."""
    return (
        operand.element_type == scale.element_type == PrimitiveType.BF16
        and scale.is_array
        and product(scale.dimensions) == 1
    )


def _dot_sides(message: xla.HloInstructionProto, operands: Sequence[Shape]) -> tuple[Shape, Shape]:
    """The shapes of the two operands. The shape of a sparse operand counts its missing elements too."""
    sides = [array(operands[0]), array(operands[1])]
    if len(operands) > 2:
        for sparse in sparse_operands(message):
            if sparse.operand in (0, 1):
                sides[sparse.operand] = _dense(sides[sparse.operand], sparse)
    return sides[0], sides[1]


def _dense(shape: Shape, sparse: SparseOperand) -> Shape:
    """The shape of a sparse operand if it had its missing elements too."""
    sizes, dim = list(shape.dimensions), sparse.dimension
    if not 0 <= dim < len(sizes) or sparse.non_zeros < 1 or sizes[dim] % sparse.non_zeros:
        raise CannotInfer(
            f"no dimension {dim} of {shape} holds {sparse.non_zeros} of every {sparse.block_size} elements"
        )
    sizes[dim] = sizes[dim] // sparse.non_zeros * sparse.block_size
    return Shape(shape.element_type, sizes)


def _dot_shape(numbers: DotDimensionNumbers, lhs: Shape, rhs: Shape, element_type: PrimitiveType) -> Shape:
    """The shape of a dot: the batch dimensions, then the other dimensions of `lhs` that are not contracted, then those
    of `rhs`.
    """
    lhs_used = [*numbers.lhs_batch_dimensions, *numbers.lhs_contracting_dimensions]
    rhs_used = [*numbers.rhs_batch_dimensions, *numbers.rhs_contracting_dimensions]
    _check_dimensions(lhs_used, lhs)
    _check_dimensions(rhs_used, rhs)
    if [lhs.dimensions[dim] for dim in lhs_used] != [rhs.dimensions[dim] for dim in rhs_used]:
        raise CannotInfer(f"contracted or batch dimensions of {lhs} and {rhs} differ")
    batch = list(numbers.lhs_batch_dimensions)
    left = [dim for dim in range(lhs.rank) if dim not in lhs_used]
    right = [dim for dim in range(rhs.rank) if dim not in rhs_used]
    sizes = [lhs.dimensions[dim] for dim in (*batch, *left)] + [rhs.dimensions[dim] for dim in right]
    dynamic = [lhs.dynamic_dimensions[dim] for dim in (*batch, *left)] + [rhs.dynamic_dimensions[dim] for dim in right]
    return Shape(element_type, sizes, dynamic).with_default_layout()


def _infer_ragged_dot(given: Given) -> Shape:
    operands = given.operands
    return _ragged_dot_shape(given.message, operands, promoted_type(array(operands[0]), array(operands[1])))


def _verify_ragged_dot(result: Result) -> str | None:
    return check_shape(result.shape, _ragged_dot_shape(result.message, result.operands, result.shape.element_type))


def _ragged_dot_shape(
    message: xla.HloInstructionProto, operands: Sequence[Shape], element_type: PrimitiveType
) -> Shape:
    """The shape of a ragged-dot. Its groups lie one after the other along a ragged dimension of the left side, and the
    right side may have a dimension of groups.
    """
    numbers = dimension_numbers.RaggedDotDimensionNumbers.of_proto(message.ragged_dot_dimension_numbers)
    lhs, rhs, group_sizes = map(array, operands)
    if len(numbers.lhs_ragged_dimensions) != 1:
        raise CannotInfer("exactly one dimension of the left side must be ragged")
    dims, ragged = numbers.dot_dimension_numbers, numbers.lhs_ragged_dimensions[0]
    _check_dimensions([ragged], lhs)
    groups = list(numbers.rhs_group_dimensions)
    _check_dimensions(groups, rhs)
    lhs_used = [*dims.lhs_batch_dimensions, *dims.lhs_contracting_dimensions]
    rhs_used = [*dims.rhs_batch_dimensions, *dims.rhs_contracting_dimensions, *groups]
    _check_dimensions(lhs_used, lhs)
    _check_dimensions(rhs_used, rhs)
    if len(lhs_used) != len(rhs_used) - len(groups):
        raise CannotInfer(f"{lhs} and {rhs} must have as many batch and contracting dimensions")
    left = [dim for dim in range(lhs.rank) if dim not in lhs_used]
    _check_group_sizes(group_sizes, [lhs.dimensions[dim] for dim in _before_ragged(dims, left, ragged)])
    if ragged in left and [rhs.dimensions[dim] for dim in groups] != [group_sizes.dimensions[-1]]:
        raise CannotInfer(f"{rhs} must have a dimension of groups, and as many of them as {group_sizes} has sizes")
    if ragged not in left and groups:
        raise CannotInfer(f"{rhs} has a dimension of groups, though no dimension of the result is ragged")
    if ragged in dims.lhs_batch_dimensions:
        return _dot_shape(dims, lhs, rhs, element_type)
    pairs = zip(lhs_used, rhs_used, strict=False)
    if any(lhs.dimensions[left] != rhs.dimensions[right] for left, right in pairs):
        raise CannotInfer(f"contracted or batch dimensions of {lhs} and {rhs} differ")
    sizes = [lhs.dimensions[dim] for dim in dims.lhs_batch_dimensions]
    if ragged in dims.lhs_contracting_dimensions:
        sizes.insert(0, group_sizes.dimensions[-1])
    sizes += [lhs.dimensions[dim] for dim in left]
    sizes += [size for dim, size in enumerate(rhs.dimensions) if dim not in rhs_used]
    return Shape(element_type, sizes).with_default_layout()


def _before_ragged(dims: DotDimensionNumbers, left: Sequence[int], ragged: int) -> list[int]:
    """The dimensions of the left side that the sizes of groups may depend on: those before the ragged dimension, as
    batch, contracting and remaining dimensions are ordered.
    """
    batch, contracting = list(dims.lhs_batch_dimensions), list(dims.lhs_contracting_dimensions)
    if ragged in batch:
        return batch[: batch.index(ragged)]
    if ragged in contracting:
        return batch + contracting[: contracting.index(ragged)]
    return batch + [dim for dim in left if dim < ragged]


def _check_group_sizes(group_sizes: Shape, before: Sequence[int]) -> None:
    """Checks that the sizes of groups have one dimension, or one more after dimensions of the sizes `before`."""
    if group_sizes.rank != 1 and (not group_sizes.rank or list(group_sizes.dimensions[:-1]) != list(before)):
        raise CannotInfer(
            f"the sizes of groups must have one dimension, or {list(before)} and one, found {group_sizes}"
        )


_TWO_PRECISIONS = FIELDS.message(
    "precision_config", xla.PrecisionConfig(operand_precision=[xla.PrecisionConfig.DEFAULT] * 2)
)
_DOT_ATTRIBUTES = (
    *map(optional, dimension_numbers.DOT_DIMENSIONS),
    optional(OPERAND_PRECISION, default=_TWO_PRECISIONS),
    optional(DOT_ALGORITHM),
)
_DOT_FIELDS = FIELDS.message("dot_dimension_numbers", b"")
_SPARSITY_AND_BLOCKS = FIELDS.message("sparsity_config", b"") + FIELDS.message("block_scaling_config", b"")
_RAGGED_DOT_FIELDS = FIELDS.message(
    "ragged_dot_dimension_numbers", xla.RaggedDotDimensionNumbers(dot_dimension_numbers=xla.DotDimensionNumbers())
)


# -- convolution ----------------------------------------------------------------------------


def _infer_convolution(given: Given) -> Shape:
    lhs, rhs = array(given.operands[0]), array(given.operands[1])
    return _convolution_shape(given.message, lhs, rhs, promoted_type(lhs, rhs))


def _verify_convolution(result: Result) -> str | None:
    lhs, rhs = array(result.operands[0]), array(result.operands[1])
    return _further_problem(result) or check_shape(
        result.shape, _convolution_shape(result.message, lhs, rhs, result.shape.element_type)
    )


def _convolution_shape(message: xla.HloInstructionProto, lhs: Shape, rhs: Shape, element_type: PrimitiveType) -> Shape:
    """The shape of a convolution. It has the batch of the input, the output features of the kernel, and in each spatial
    dimension the number of positions of the window.
    """
    numbers = dimension_numbers.ConvolutionDimensionNumbers.of_proto(message.convolution_dimension_numbers)
    windows = Window.of_proto(message.window).dimensions
    rank = len(numbers.input_spatial_dimensions) + 2
    if lhs.rank != rank or rhs.rank != rank or len(windows) != rank - 2:
        raise CannotInfer(f"operands and window have {rank} dimensions, found {lhs} and {rhs}")
    sizes = [0] * rank
    for spatial, window in enumerate(windows):
        kernel = rhs.dimensions[numbers.kernel_spatial_dimensions[spatial]]
        if kernel != window.size:
            raise CannotInfer(f"the window's size {window.size} is not the kernel's, {kernel}")
        size = lhs.dimensions[numbers.input_spatial_dimensions[spatial]]
        sizes[numbers.output_spatial_dimensions[spatial]] = inference.window_steps(size, window)
    if message.feature_group_count < 0 or message.batch_group_count < 0:
        raise CannotInfer("feature_group_count and batch_group_count must be positive")
    # 0 counts as 1: a proto without the field has 0, and so may text.
    groups, batches = max(message.feature_group_count, 1), max(message.batch_group_count, 1)
    if groups > 1 and batches > 1:
        raise CannotInfer(f"it has groups of features or of the batch, found {groups} and {batches}")
    features = lhs.dimensions[numbers.input_feature_dimension]
    if features != rhs.dimensions[numbers.kernel_input_feature_dimension] * groups:
        raise CannotInfer(f"the features of {lhs} do not fit the kernel {rhs}")
    if rhs.dimensions[numbers.kernel_output_feature_dimension] % (groups * batches):
        raise CannotInfer(f"the output features of {rhs} are not a multiple of the {groups * batches} groups")
    if lhs.dimensions[numbers.input_batch_dimension] % batches:
        raise CannotInfer(f"the batch of {lhs} is not a multiple of the {batches} groups")
    if rhs.dynamic_dimensions[numbers.kernel_output_feature_dimension]:
        raise CannotInfer(f"the output features of the kernel must not be dynamic, found {rhs}")
    sizes[numbers.output_batch_dimension] = ceil_div(lhs.dimensions[numbers.input_batch_dimension], batches)
    sizes[numbers.output_feature_dimension] = rhs.dimensions[numbers.kernel_output_feature_dimension]
    dynamic = [False] * rank
    dynamic[numbers.output_batch_dimension] = lhs.dynamic_dimensions[numbers.input_batch_dimension]
    return Shape(element_type, sizes, dynamic).with_default_layout()


OPERATIONS: Final = (
    Operation(
        Opcode.DOT,
        restricts_layouts=True,
        uses_matrix_units=True,
        operands=at_least(2),
        arity=2,
        attributes=(
            *_DOT_ATTRIBUTES,
            optional(SPARSITY_CONFIG),
            optional(BLOCK_SCALING_CONFIG),
            optional(DOT_SPARSITY),
        ),
        fields=_DOT_FIELDS + _SPARSITY_AND_BLOCKS,
        infer=_infer_dot,
        verify=_verify_dot,
    ),
    Operation(
        Opcode.SCALED_DOT,
        restricts_layouts=True,
        uses_matrix_units=True,
        operands=exactly(4),
        attributes=_DOT_ATTRIBUTES,
        fields=_DOT_FIELDS,
        verify=_verify_scaled_dot,
    ),
    Operation(
        Opcode.RAGGED_DOT,
        restricts_layouts=True,
        uses_matrix_units=True,
        operands=exactly(3),
        attributes=(
            *map(optional, dimension_numbers.RAGGED_DOT_DIMENSIONS),
            optional(OPERAND_PRECISION, default=_TWO_PRECISIONS),
            written_only(DOT_ALGORITHM),
        ),
        fields=_RAGGED_DOT_FIELDS,
        infer=_infer_ragged_dot,
        verify=_verify_ragged_dot,
    ),
    Operation(
        Opcode.CONVOLUTION,
        restricts_layouts=True,
        uses_matrix_units=True,
        operands=exactly(2),
        attributes=(
            optional(WINDOW, default=inference.EMPTY_WINDOW),
            required(dimension_numbers.DIM_LABELS),
            optional(FEATURE_GROUP_COUNT, default=inference.DEFAULT_FEATURE_GROUP_COUNT),
            optional(BATCH_GROUP_COUNT, default=inference.DEFAULT_BATCH_GROUP_COUNT),
            optional(OPERAND_PRECISION, inference.precision_of_each_operand),
            optional(DOT_ALGORITHM),
            optional(CONVOLUTION_KIND),
            optional(SPARSITY_CONFIG),
            optional(BLOCK_SCALING_CONFIG),
        ),
        fields=_SPARSITY_AND_BLOCKS,
        infer=_infer_convolution,
        verify=_verify_convolution,
    ),
)
