"""Shapes of results that text leaves out, where XLA's parser infers them: it does for operations whose shape follows from operands.

A result has its default layout, but for operations that keep an operand's: elementwise ones, transpose, reverse and the like.
"""

from __future__ import annotations

from collections.abc import Sequence

from xlashape.errors import XlashapeError
from xlashape.hlo.ops.infer_elementwise import ELEMENTWISE, Infer, is_floating, wider
from xlashape.hlo.ops.infer_windowed import (
    CannotInfer,
    array,
    convolution,
    dot,
    gather,
    pad,
    ragged_dot,
    reduce_window,
    select_and_scatter,
)
from xlashape.proto import xla
from xlashape.shape import Layout, PrimitiveType, Shape

__all__ = ["infer_shape"]

_P = PrimitiveType


def infer_shape(
    opcode: str, message: xla.HloInstructionProto, operands: Sequence[Shape], results: Sequence[Shape]
) -> Shape | str:
    """The result's shape, or a sentence that says why there is none. `results` are those of the computations it calls.

    >>> f32 = Shape.parse("f32[4]{0}")
    >>> str(infer_shape("add", xla.HloInstructionProto(), [f32, f32], []))
    'f32[4]{0}'
    >>> infer_shape("reshape", xla.HloInstructionProto(), [f32], [])
    'the shape of reshape must be written'
    """
    infer = _INFER.get(opcode)
    if infer is None:
        return f"the shape of {opcode} must be written"
    try:
        return infer(message, operands, results)
    except CannotInfer as error:
        return f"{opcode}: {error}"
    except XlashapeError as error:
        return f"{opcode}: {error.message}"


# -- structure ------------------------------------------------------------------------------


def _first(_: xla.HloInstructionProto, operands: Sequence[Shape], _results: Sequence[Shape]) -> Shape:
    return operands[0]


def _token(_: xla.HloInstructionProto, _operands: Sequence[Shape], _results: Sequence[Shape]) -> Shape:
    return Shape.token()


def _device(_: xla.HloInstructionProto, _operands: Sequence[Shape], _results: Sequence[Shape]) -> Shape:
    return Shape.array("u32", ())


def _tuple(_: xla.HloInstructionProto, operands: Sequence[Shape], _results: Sequence[Shape]) -> Shape:
    return Shape.tuple(operands)


def _element_of(message: xla.HloInstructionProto, operands: Sequence[Shape], _results: Sequence[Shape]) -> Shape:
    parts = operands[0].tuple_shapes
    if not operands[0].is_tuple or not 0 <= message.tuple_index < len(parts):
        raise CannotInfer(f"{operands[0]} has no element {message.tuple_index}")
    return parts[message.tuple_index]


def _called(_: xla.HloInstructionProto, _operands: Sequence[Shape], results: Sequence[Shape]) -> Shape:
    if not results:
        raise CannotInfer("it calls nothing")
    return results[0]


def _transpose(message: xla.HloInstructionProto, operands: Sequence[Shape], _results: Sequence[Shape]) -> Shape:
    shape, perm = array(operands[0]), list(message.dimensions)
    if sorted(perm) != list(range(shape.rank)):
        raise CannotInfer(f"dimensions {perm} are no permutation of those of {shape}")
    place = {dim: number for number, dim in enumerate(perm)}
    layout = shape.layout
    if layout is not None:
        order = [place[dim] for dim in layout.minor_to_major]
        layout = Layout(
            order,
            tiles=layout.tiles,
            tail_padding_alignment_in_elements=layout.tail_padding_alignment_in_elements,
            element_size_in_bits=layout.element_size_in_bits,
            memory_space=layout.memory_space,
        )
    sizes = [shape.dimensions[dim] for dim in perm]
    return Shape(shape.element_type, sizes, [shape.dynamic_dimensions[dim] for dim in perm], layout)


def _broadcast(message: xla.HloInstructionProto, operands: Sequence[Shape], _results: Sequence[Shape]) -> Shape:
    if message.dimensions or not array(operands[0]).is_scalar:
        raise CannotInfer("the shape of a broadcast must be written, but for a scalar's to a scalar")
    return operands[0]


def _concatenate(message: xla.HloInstructionProto, operands: Sequence[Shape], _results: Sequence[Shape]) -> Shape:
    if not operands or len(message.dimensions) != 1:
        raise CannotInfer("it takes operands and one dimension")
    first, dim = array(operands[0]), message.dimensions[0]
    if not 0 <= dim < first.rank:
        raise CannotInfer(f"{first} has no dimension {dim}")
    sizes, dynamic, kind = list(first.dimensions), list(first.dynamic_dimensions), first.element_type
    for other in map(array, operands[1:]):
        sides = [size for number, size in enumerate(other.dimensions) if number != dim]
        if other.rank != first.rank or sides != [size for number, size in enumerate(sizes) if number != dim]:
            raise CannotInfer(f"operands {first} and {other} do not fit together")
        kind = wider(Shape(kind), other)
        sizes[dim] += other.dimensions[dim]
        dynamic = [x or y for x, y in zip(dynamic, other.dynamic_dimensions, strict=True)]
    return Shape(kind, sizes, dynamic).with_default_layout()


def _dimension_size(message: xla.HloInstructionProto, operands: Sequence[Shape], _results: Sequence[Shape]) -> Shape:
    _dimension(message, array(operands[0]))
    return Shape.array("s32", ())


def _set_dimension_size(
    message: xla.HloInstructionProto, operands: Sequence[Shape], _results: Sequence[Shape]
) -> Shape:
    shape, size = array(operands[0]), array(operands[1])
    dim = _dimension(message, shape)
    if size.element_type != _P.S32 or size.rank:
        raise CannotInfer(f"the size is a scalar s32, found {size}")
    dynamic = [moves or number == dim for number, moves in enumerate(shape.dynamic_dimensions)]
    return Shape(shape.element_type, shape.dimensions, dynamic, shape.layout)


def _dimension(message: xla.HloInstructionProto, shape: Shape) -> int:
    dim = message.dimensions[0] if message.dimensions else 0
    if not 0 <= dim < shape.rank:
        raise CannotInfer(f"{shape} has no dimension {dim}")
    return dim


def _reduce(message: xla.HloInstructionProto, operands: Sequence[Shape], results: Sequence[Shape]) -> Shape:
    inputs = [array(one) for one in operands[: len(operands) // 2]]
    if not inputs or not results:
        raise CannotInfer("it takes operands and as many initial values")
    gone = set(message.dimensions)
    if len(gone) != len(message.dimensions) or not all(0 <= dim < inputs[0].rank for dim in gone):
        raise CannotInfer(f"dimensions {list(message.dimensions)} are not those of {inputs[0]}")
    kept = [number for number in range(inputs[0].rank) if number not in gone]
    sizes = [inputs[0].dimensions[dim] for dim in kept]
    dynamic = [inputs[0].dynamic_dimensions[dim] for dim in kept]
    parts = results[0].tuple_shapes if results[0].is_tuple else (results[0],)
    made = [Shape(part.element_type, sizes, dynamic).with_default_layout() for part in parts]
    return Shape.tuple(made) if results[0].is_tuple else made[0]


def _sort(_: xla.HloInstructionProto, operands: Sequence[Shape], _results: Sequence[Shape]) -> Shape:
    if not operands:
        raise CannotInfer("it takes operands")
    return operands[0] if len(operands) == 1 else Shape.tuple(operands)


def _topk(message: xla.HloInstructionProto, operands: Sequence[Shape], _results: Sequence[Shape]) -> Shape:
    shape = array(operands[0])
    if not shape.rank or not 0 <= message.k <= shape.dimensions[-1]:
        raise CannotInfer(f"{shape} has no {message.k} greatest")
    sizes = [*shape.dimensions[:-1], message.k]
    return Shape.tuple([Shape.array(kind, sizes) for kind in (shape.element_type, _P.S32)])


def _cholesky(_: xla.HloInstructionProto, operands: Sequence[Shape], _results: Sequence[Shape]) -> Shape:
    shape = array(operands[0])
    if not is_floating(shape.element_type) or shape.rank < 2 or shape.dimensions[-1] != shape.dimensions[-2]:
        raise CannotInfer(f"its operand is square and floating, found {shape}")
    return shape


def _triangular(message: xla.HloInstructionProto, operands: Sequence[Shape], _results: Sequence[Shape]) -> Shape:
    a, b = array(operands[0]), array(operands[1])
    if not message.triangular_solve_options.transpose_a:
        raise CannotInfer("transpose_a is not said")
    if a.rank != b.rank or a.rank < 2 or a.dimensions[-1] != a.dimensions[-2] or a.element_type != b.element_type:
        raise CannotInfer(f"operands {a} and {b} do not fit together")
    side = -2 if message.triangular_solve_options.left_side else -1
    if a.dimensions[-1] != b.dimensions[side] or a.dimensions[:-2] != b.dimensions[:-2]:
        raise CannotInfer(f"operands {a} and {b} do not fit together")
    return b


def _fft(message: xla.HloInstructionProto, operands: Sequence[Shape], _results: Sequence[Shape]) -> Shape:
    shape, lengths = array(operands[0]), list(message.fft_length)
    if not 1 <= len(lengths) <= 3 or shape.rank < len(lengths):
        raise CannotInfer(f"1 to 3 lengths that {shape} has, found {lengths}")
    sizes = list(shape.dimensions)
    expected = sizes[-len(lengths) :]
    if message.fft_type in (xla.FFT, xla.IFFT):
        if not shape.element_type.is_complex or expected != lengths:
            raise CannotInfer(f"its operand is complex with the last sizes {lengths}, found {shape}")
        return shape
    half = [*lengths[:-1], lengths[-1] // 2 + 1]
    if message.fft_type == xla.RFFT:
        kinds, wanted, sizes[-1] = {_P.F32: _P.C64, _P.F64: _P.C128}, lengths, half[-1]
    else:
        kinds, wanted, sizes[-1] = {_P.C64: _P.F32, _P.C128: _P.F64}, half, lengths[-1]
    if shape.element_type not in kinds or expected != wanted:
        raise CannotInfer(f"the last sizes are {wanted}, found {shape}")
    return Shape(kinds[shape.element_type], sizes, shape.dynamic_dimensions, shape.layout)


def _map(message: xla.HloInstructionProto, operands: Sequence[Shape], results: Sequence[Shape]) -> Shape:
    if not operands or not results:
        raise CannotInfer("it takes operands")
    shape = array(operands[0])
    if list(message.dimensions) != list(range(shape.rank)):
        raise CannotInfer(f"its dimensions are all of {shape}, found {list(message.dimensions)}")
    return Shape(results[0].element_type, shape.dimensions, shape.dynamic_dimensions).with_default_layout()


def _batch_norm(message: xla.HloInstructionProto, operands: Sequence[Shape], _results: Sequence[Shape]) -> Shape:
    shape, dim = array(operands[0]), message.feature_index
    if not 0 <= dim < shape.rank:
        raise CannotInfer(f"{shape} has no dimension {dim}")
    vectors = operands[1:] if message.opcode != "batch-norm-grad" else operands[1:4]
    for one in map(array, vectors):
        if one.dimensions != (shape.dimensions[dim],):
            raise CannotInfer(f"expected a vector of {shape.dimensions[dim]} features, found {one}")
    if message.opcode == "batch-norm-inference":
        return shape
    feature = Shape(shape.element_type, [shape.dimensions[dim]], [shape.dynamic_dimensions[dim]]).with_default_layout()
    return Shape.tuple([shape, feature, feature])


_INFER: dict[str, Infer] = {
    **ELEMENTWISE,
    **dict.fromkeys("add-dependency domain reverse while scatter copy".split(), _first),
    **dict.fromkeys("batch-norm-training batch-norm-inference batch-norm-grad".split(), _batch_norm),
    **dict.fromkeys("call conditional".split(), _called),
    **dict.fromkeys("partition-id replica-id".split(), _device),
    "after-all": _token,
    "broadcast": _broadcast,
    "cholesky": _cholesky,
    "concatenate": _concatenate,
    "convolution": convolution,
    "dot": dot,
    "fft": _fft,
    "gather": gather,
    "get-dimension-size": _dimension_size,
    "get-tuple-element": _element_of,
    "map": _map,
    "pad": pad,
    "ragged-dot": ragged_dot,
    "reduce": _reduce,
    "reduce-window": reduce_window,
    "select-and-scatter": select_and_scatter,
    "set-dimension-size": _set_dimension_size,
    "sort": _sort,
    "topk": _topk,
    "transpose": _transpose,
    "triangular-solve": _triangular,
    "tuple": _tuple,
}
