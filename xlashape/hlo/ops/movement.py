"""Table rows (`Operation`) and rules of operations that move elements without changing them (broadcasts, reshapes,
transposes, concatenations, paddings, copies), or that get and set the sizes of dynamic dimensions.
"""

from __future__ import annotations

from typing import Final

from xlashape.base.math import product
from xlashape.hlo.ops.attributes import CannotComplete, Written, optional, required
from xlashape.hlo.ops.inference import array, exactly_one_dimension, first_operand, wider_type
from xlashape.hlo.ops.opcode import Opcode
from xlashape.hlo.ops.operation import (
    CannotInfer,
    Given,
    MemoryTraffic,
    Movement,
    Operation,
    ReadPattern,
    Result,
    ResultSource,
    at_least,
    exactly,
)
from xlashape.hlo.ops.verification import any_shape, check_arrays, check_element_type, check_shape
from xlashape.hlo.values.plain import DIMENSIONS, INFERRED_DIMENSION
from xlashape.hlo.values.shuffle import SHIFTS, SHUFFLE_KIND
from xlashape.hlo.values.window import PADDING, PaddingConfig
from xlashape.proto import xla
from xlashape.shape import Layout, PrimitiveType, Shape

# -- broadcast ------------------------------------------------------------------------------


def _check_broadcast(written: Written) -> None:
    if not written.has("dimensions"):
        operand = written.operands[0]
        if not (operand.is_array and operand.is_scalar):
            raise CannotComplete(f"broadcast of {operand} needs the attribute dimensions; that of a scalar does not")


def _infer_broadcast(given: Given) -> Shape:
    if given.message.dimensions or not array(given.operands[0]).is_scalar:
        raise CannotInfer("the shape of a broadcast must be written, except for a scalar that stays a scalar")
    return given.operands[0]


def _verify_broadcast(result: Result) -> str | None:
    shape = result.shape
    operand = result.operands[0]
    problem = check_arrays(shape, result.operands) or check_element_type(shape, operand)
    if problem:
        return problem
    dimensions = list(result.message.dimensions)
    if len(dimensions) != operand.rank:
        return f"dimensions={dimensions} do not name a dimension each for its operand {operand}"
    for source, target in enumerate(dimensions):
        if not 0 <= target < shape.rank or shape.dimensions[target] != operand.dimensions[source]:
            return f"dimension {source} of its operand {operand} does not fit dimension {target} of {shape}"
    return None


# -- reshape, transpose ---------------------------------------------------------------------


def _check_reshape(written: Written) -> None:
    shape, operand = written.shape, written.operands[0]
    if shape is None or operand.is_unbounded_dynamic:
        return
    # An unbounded dimension counts as the size 1, as in XLA.
    counts = [product(max(size, 1) if size < 0 else size for size in each.dimensions) for each in (shape, operand)]
    if not shape.is_array or not operand.is_array or counts[0] != counts[1]:
        raise CannotComplete(f"its shape {shape} must have as many elements as its operand {operand}")


def _verify_reshape(result: Result) -> str | None:
    shape = result.shape
    operand = result.operands[0]
    problem = check_arrays(shape, result.operands) or check_element_type(shape, operand)
    if problem or shape.is_unbounded_dynamic or operand.is_unbounded_dynamic:
        return problem
    count, expected = product(shape.dimensions), product(operand.dimensions)
    return None if count == expected else f"{shape} has {count} elements, its operand {operand} has {expected}"


def _infer_transpose(given: Given) -> Shape:
    shape, permutation = array(given.operands[0]), list(given.message.dimensions)
    if sorted(permutation) != list(range(shape.rank)):
        raise CannotInfer(f"dimensions {permutation} are not a permutation of the dimensions of {shape}")
    moved_to = {source: target for target, source in enumerate(permutation)}
    layout = shape.layout
    if layout is not None:
        layout = Layout(
            [moved_to[dim] for dim in layout.minor_to_major],
            tiles=layout.tiles,
            tail_padding_alignment_in_elements=layout.tail_padding_alignment_in_elements,
            element_size_in_bits=layout.element_size_in_bits,
            memory_space=layout.memory_space,
        )
    sizes = [shape.dimensions[dim] for dim in permutation]
    return Shape(shape.element_type, sizes, [shape.dynamic_dimensions[dim] for dim in permutation], layout)


# -- concatenate, pad -----------------------------------------------------------------------


def _infer_concatenate(given: Given) -> Shape:
    operands = given.operands
    if not operands or len(given.message.dimensions) != 1:
        raise CannotInfer("it needs operands and exactly one dimension")
    first, dim = array(operands[0]), given.message.dimensions[0]
    if not 0 <= dim < first.rank:
        raise CannotInfer(f"{first} has no dimension {dim}")
    sizes, dynamic, element_type = list(first.dimensions), list(first.dynamic_dimensions), first.element_type
    for other in map(array, operands[1:]):
        other_sides = [size for index, size in enumerate(other.dimensions) if index != dim]
        if other.rank != first.rank or other_sides != [size for index, size in enumerate(sizes) if index != dim]:
            raise CannotInfer(f"operands {first} and {other} do not fit together")
        element_type = wider_type(Shape(element_type), other)
        sizes[dim] += other.dimensions[dim]
        dynamic = [x or y for x, y in zip(dynamic, other.dynamic_dimensions, strict=True)]
    return Shape(element_type, sizes, dynamic).with_default_layout()


def _infer_pad(given: Given) -> Shape:
    shape, value = array(given.operands[0]), array(given.operands[1])
    paddings = PaddingConfig.of_proto(given.message.padding_config).dimensions
    if len(paddings) != shape.rank or value.rank:
        raise CannotInfer(
            f"it needs a padding for each dimension of {shape} and a scalar, found {len(paddings)} and {value}"
        )
    sizes: list[int] = []
    for size, padding in zip(shape.dimensions, paddings, strict=True):
        if padding.interior_padding < 0:
            raise CannotInfer("interior padding must not be negative")
        interior = max(size - 1, 0) * padding.interior_padding
        padded = size + padding.edge_padding_low + padding.edge_padding_high + interior
        if padded < 0:
            raise CannotInfer("negative padding removes more elements than the operand has")
        sizes.append(padded)
    return Shape(wider_type(shape, value), sizes, shape.dynamic_dimensions).with_default_layout()


def _verify_reverse(result: Result) -> str | None:
    operands = result.operands
    dimensions = list(result.message.dimensions)
    if len(set(dimensions)) != len(dimensions) or not all(0 <= dim < operands[0].rank for dim in dimensions):
        return f"dimensions={dimensions} must be distinct dimensions of {operands[0]}"
    return check_shape(result.shape, operands[0])


def _verify_dynamic_reshape(result: Result) -> str | None:
    shape, operands = result.shape, result.operands
    operand, sizes = operands[0], operands[1:]
    problem = check_arrays(shape, operands) or check_element_type(shape, operand)
    if problem:
        return problem
    # As XLA, this does not check that the sizes are scalars.
    if len(sizes) != shape.rank or any(size.element_type != PrimitiveType.S32 for size in sizes):
        return f"it needs a size of s32[] for each dimension of {shape}, found {', '.join(map(str, sizes))}"
    count, expected = product(shape.dimensions), product(operand.dimensions)
    return None if count == expected else f"{shape} has {count} elements, its operand {operand} has {expected}"


def _check_dynamic_reshape(written: Written) -> None:
    shape, operand, sizes = written.shape, written.operands[0], written.operands[1:]
    if shape is None or not shape.is_array or not operand.is_array:
        return
    if product(shape.dimensions) != product(operand.dimensions):
        raise CannotComplete(f"its shape {shape} must have as many elements as its operand {operand}")
    if len(sizes) != shape.rank:
        raise CannotComplete(f"it needs a size for each dimension of {shape}, found {len(sizes)}")


def _infer_shuffle(given: Given) -> Shape:
    message = given.message
    shape, dims = array(given.operands[0]), list(message.dimensions)
    if not dims or len(set(dims)) != len(dims) or not all(0 <= dim < shape.rank for dim in dims):
        raise CannotInfer(f"dimensions {dims} are not one or more dimensions of {shape}, each once")
    shifts = message.shuffle_mode.rotate.shifts
    if message.shuffle_mode.HasField("rotate") and len(shifts) != len(dims):
        raise CannotInfer(f"it needs a shift for each of its {len(dims)} dimensions, found {list(shifts)}")
    return shape


_GREATEST_SIZE: Final = 2**31 - 1


def _dimension(message: xla.HloInstructionProto, shape: Shape) -> int:
    """The dimension whose size an instruction gets or sets. Raises CannotInfer if it is not valid."""
    dim = message.dimensions[0] if message.dimensions else 0
    if not 0 <= dim < shape.rank:
        raise CannotInfer(f"{shape} has no dimension {dim}")
    if shape.dimensions[dim] > _GREATEST_SIZE:
        raise CannotInfer(f"the size of dimension {dim} of {shape} must fit in an s32")
    return dim


def _infer_get(given: Given) -> Shape:
    _dimension(given.message, array(given.operands[0]))
    return Shape.array("s32", ())


def _verify_get(result: Result) -> str | None:
    shape = result.shape
    _dimension(result.message, array(result.operands[0]))
    # The XLA of 2019, which is part of TensorFlow 1.15, gave u32.
    if shape.is_scalar and shape.element_type in (PrimitiveType.S32, PrimitiveType.U32):
        return None
    return f"its shape must be s32[], or u32[] as older versions of XLA had it, found {shape}"


def _infer_set(given: Given) -> Shape:
    shape, size = array(given.operands[0]), array(given.operands[1])
    dim = _dimension(given.message, shape)
    if size.element_type != PrimitiveType.S32 or size.rank:
        raise CannotInfer(f"the size must be a scalar s32, found {size}")
    dynamic = [is_dynamic or index == dim for index, is_dynamic in enumerate(shape.dynamic_dimensions)]
    return Shape(shape.element_type, shape.dimensions, dynamic, shape.layout)


_ATTRIBUTES = (required(DIMENSIONS, exactly_one_dimension),)


OPERATIONS: Final = (
    Operation(
        Opcode.BROADCAST,
        operands=exactly(1),
        reads=ReadPattern.ONE,
        attributes=(optional(DIMENSIONS),),
        check=_check_broadcast,
        infer=_infer_broadcast,
        verify=_verify_broadcast,
    ),
    Operation(
        Opcode.RESHAPE,
        operands=exactly(1),
        reads=ReadPattern.EACH_ONCE,
        movement=Movement.RESHAPE,
        attributes=(optional(INFERRED_DIMENSION),),
        check=_check_reshape,
        verify=_verify_reshape,
    ),
    Operation(
        Opcode.DYNAMIC_RESHAPE,
        operands=at_least(1),
        reads=ReadPattern.ONE,
        check=_check_dynamic_reshape,
        verify=_verify_dynamic_reshape,
    ),
    Operation(
        Opcode.TRANSPOSE,
        operands=exactly(1),
        attributes=(required(DIMENSIONS),),
        infer=_infer_transpose,
        reads=ReadPattern.EACH_ONCE,
        movement=Movement.TRANSPOSE,
    ),
    Operation(
        Opcode.SHUFFLE,
        operands=exactly(1),
        reads=ReadPattern.ONE,
        attributes=(required(DIMENSIONS), required(SHUFFLE_KIND), required(SHIFTS)),
        infer=_infer_shuffle,
    ),
    Operation(
        Opcode.REVERSE,
        operands=exactly(1),
        reads=ReadPattern.EACH_ONCE,
        movement=Movement.REVERSE,
        attributes=(required(DIMENSIONS),),
        infer=first_operand,
        verify=_verify_reverse,
    ),
    Operation(
        Opcode.CONCATENATE,
        operands=at_least(0),
        reads=ReadPattern.ONE,
        movement=Movement.JOIN,
        attributes=(required(DIMENSIONS, exactly_one_dimension),),
        infer=_infer_concatenate,
        one_precision=True,
    ),
    Operation(
        Opcode.PAD,
        operands=exactly(2),
        attributes=(required(PADDING),),
        infer=_infer_pad,
        one_precision=True,
        reads=ReadPattern.ONE,
        movement=Movement.PAD,
    ),
    Operation(
        Opcode.BITCAST,
        operands=exactly(1),
        verify=any_shape,
        source=ResultSource.OPERAND,
        reads=ReadPattern.EACH_ONCE,
        moves_no_data=True,
    ),
    Operation(
        Opcode.COPY,
        operands=exactly(1),
        infer=first_operand,
        one_precision=True,
        passes_first_operand_through=True,
        reads=ReadPattern.EACH_ONCE,
        movement=Movement.COPY,
    ),
    Operation(
        Opcode.GET_DIMENSION_SIZE,
        operands=exactly(1),
        traffic=MemoryTraffic.NOTHING,
        attributes=_ATTRIBUTES,
        infer=_infer_get,
        verify=_verify_get,
    ),
    Operation(
        Opcode.SET_DIMENSION_SIZE, operands=exactly(2), attributes=_ATTRIBUTES, infer=_infer_set, reads=ReadPattern.ONE
    ),
)
