"""Shapes of results that text leaves out, where XLA's parser infers them: it does for operations whose shape follows from operands.

A result has its default layout, but for operations that keep an operand's: elementwise ones, transpose, reverse and the like.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xlashape.errors import XlashapeError
from xlashape.hlo.infer_windowed import (
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

Infer = Callable[[xla.HloInstructionProto, Sequence[Shape], Sequence[Shape]], Shape]
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


# -- elementwise ----------------------------------------------------------------------------


def _element(shape: Shape, kind: PrimitiveType) -> Shape:
    return shape if shape.element_type == kind else shape.with_element_type(kind)


def _unary(allowed: Callable[[PrimitiveType], bool], what: str) -> Infer:
    def infer(_: xla.HloInstructionProto, operands: Sequence[Shape], _results: Sequence[Shape]) -> Shape:
        shape = array(operands[0])
        if not allowed(shape.element_type):
            raise CannotInfer(f"its operand is {what}, found {shape}")
        return shape

    return infer


def _is_floating(kind: PrimitiveType) -> bool:
    return kind.is_floating or kind.is_complex


def _is_number(kind: PrimitiveType) -> bool:
    return kind.is_integral or kind.is_floating or kind.is_complex


def _is_bits(kind: PrimitiveType) -> bool:
    return kind.is_integral or kind == _P.PRED


_FLOATING = _unary(_is_floating, "floating or complex")
_NUMBER = _unary(_is_number, "a number")
_BITS = _unary(_is_bits, "an integer or pred")
_INTEGER = _unary(lambda kind: kind.is_integral, "an integer")
_REAL_FLOATING = _unary(lambda kind: kind.is_floating, "floating")
_SIGNED = _unary(lambda kind: _is_floating(kind) or kind.is_signed_integral, "a signed number")


def _abs(message: xla.HloInstructionProto, operands: Sequence[Shape], results: Sequence[Shape]) -> Shape:
    shape = _SIGNED(message, operands, results)
    return _real_part(shape) if shape.element_type.is_complex else shape


def _real_part(shape: Shape) -> Shape:
    kind = {_P.C64: _P.F32, _P.C128: _P.F64}.get(shape.element_type, shape.element_type)
    return _element(shape, kind)


def _real(_: xla.HloInstructionProto, operands: Sequence[Shape], _results: Sequence[Shape]) -> Shape:
    shape = array(operands[0])
    if not _is_floating(shape.element_type):
        raise CannotInfer(f"its operand is floating or complex, found {shape}")
    return _real_part(shape)


def _is_finite(_: xla.HloInstructionProto, operands: Sequence[Shape], _results: Sequence[Shape]) -> Shape:
    shape = array(operands[0])
    if not shape.element_type.is_floating:
        raise CannotInfer(f"its operand is floating, found {shape}")
    return _element(shape, _P.PRED)


def _wider(a: Shape, b: Shape) -> PrimitiveType:
    """The element type of both, or the wider of two floating ones."""
    x, y = a.element_type, b.element_type
    if x == y:
        return x
    if x.is_floating and y.is_floating and x.bit_width != y.bit_width:
        return x if x.bit_width > y.bit_width else y
    raise CannotInfer(f"operands of types {x} and {y}")


def _merged(a: Shape, b: Shape, kind: PrimitiveType) -> Shape:
    """Two operands' dimensions: equal, or one of them a scalar, or 1 where the other is more."""
    if a.dimensions == b.dimensions:
        dynamic = tuple(x or y for x, y in zip(a.dynamic_dimensions, b.dynamic_dimensions, strict=True))
        return Shape(kind, a.dimensions, dynamic, a.layout)
    if a.rank == 0 or b.rank == 0:
        other = b if a.rank == 0 else a
        return Shape(kind, other.dimensions, other.dynamic_dimensions).with_default_layout()
    if a.rank != b.rank:
        raise CannotInfer(f"operands {a} and {b} have different ranks")
    sizes: list[int] = []
    dynamic_dims: list[bool] = []
    for x, y, moves_x, moves_y in zip(
        a.dimensions, b.dimensions, a.dynamic_dimensions, b.dynamic_dimensions, strict=True
    ):
        if x == y:
            sizes.append(x)
            dynamic_dims.append(moves_x or moves_y)
        elif x == 1 or y == 1:
            sizes.append(y if x == 1 else x)
            dynamic_dims.append(moves_y if x == 1 else moves_x)
        elif x < 0 or y < 0:
            # The other side's bound holds for an unbounded size.
            sizes.append(y if x < 0 else x)
            dynamic_dims.append(moves_y if x < 0 else moves_x)
        else:
            raise CannotInfer(f"operands {a} and {b} have different sizes")
    return Shape(kind, sizes, dynamic_dims).with_default_layout()


def _binary(allowed: Callable[[PrimitiveType], bool], what: str) -> Infer:
    def infer(_: xla.HloInstructionProto, operands: Sequence[Shape], _results: Sequence[Shape]) -> Shape:
        a, b = array(operands[0]), array(operands[1])
        kind = _wider(a, b)
        if not allowed(kind):
            raise CannotInfer(f"its operands are {what}, found {a}")
        return _merged(a, b, kind)

    return infer


def _compare(_: xla.HloInstructionProto, operands: Sequence[Shape], _results: Sequence[Shape]) -> Shape:
    a, b = array(operands[0]), array(operands[1])
    _wider(a, b)
    return _merged(a, b, _P.PRED)


def _complex(_: xla.HloInstructionProto, operands: Sequence[Shape], _results: Sequence[Shape]) -> Shape:
    a, b = array(operands[0]), array(operands[1])
    kind = {_P.F32: _P.C64, _P.F64: _P.C128}.get(_wider(a, b))
    if kind is None:
        raise CannotInfer(f"its operands are f32 or f64, found {a}")
    return _merged(a, b, kind)


def _select(_: xla.HloInstructionProto, operands: Sequence[Shape], _results: Sequence[Shape]) -> Shape:
    pred, on_true, on_false = map(array, operands)
    if pred.element_type != _P.PRED:
        raise CannotInfer(f"its first operand is pred, found {pred}")
    if on_true.dimensions != on_false.dimensions:
        raise CannotInfer(f"operands {on_true} and {on_false} have different sizes")
    if pred.rank and pred.dimensions != on_true.dimensions:
        raise CannotInfer(f"the predicate {pred} has other sizes than {on_true}")
    kind = _wider(on_true, on_false)
    if pred.rank:
        # Sizes and layout are the predicate's.
        return _element(pred, kind)
    return _element(on_true, kind)


def _clamp(_: xla.HloInstructionProto, operands: Sequence[Shape], _results: Sequence[Shape]) -> Shape:
    low, value, high = map(array, operands)
    for bound in (low, high):
        if bound.element_type != value.element_type or (bound.rank and bound.dimensions != value.dimensions):
            raise CannotInfer(f"the bound {bound} does not fit {value}")
    return value


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
        kind = _wider(Shape(kind), other)
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
    if not _is_floating(shape.element_type) or shape.rank < 2 or shape.dimensions[-1] != shape.dimensions[-2]:
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


_ARITHMETIC = _binary(_is_number, "numbers")
_LOGICAL = _binary(_is_bits, "integers or pred")

_INFER: dict[str, Infer] = {
    **dict.fromkeys(
        "acos acosh asin asinh atanh cbrt cosine cosh erf exponential exponential-minus-one log log-plus-one logistic "
        "rsqrt sine sinh sqrt tan tanh".split(),
        _FLOATING,
    ),
    **dict.fromkeys("ceil floor round-nearest-afz round-nearest-even".split(), _REAL_FLOATING),
    **dict.fromkeys("popcnt count-leading-zeros".split(), _INTEGER),
    **dict.fromkeys("add multiply maximum minimum".split(), _binary(lambda kind: True, "arrays")),
    **dict.fromkeys("divide power remainder subtract".split(), _ARITHMETIC),
    **dict.fromkeys("and or xor".split(), _LOGICAL),
    **dict.fromkeys(
        "shift-left shift-right-arithmetic shift-right-logical mulhi".split(),
        _binary(lambda kind: kind.is_integral, "integers"),
    ),
    **dict.fromkeys("add-dependency domain reverse while scatter copy".split(), _first),
    **dict.fromkeys("batch-norm-training batch-norm-inference batch-norm-grad".split(), _batch_norm),
    **dict.fromkeys("call conditional".split(), _called),
    **dict.fromkeys("partition-id replica-id".split(), _device),
    "abs": _abs,
    "after-all": _token,
    "atan2": _binary(_is_floating, "floating"),
    "cholesky": _cholesky,
    "clamp": _clamp,
    "compare": _compare,
    "complex": _complex,
    "concatenate": _concatenate,
    "convolution": convolution,
    "dot": dot,
    "fft": _fft,
    "gather": gather,
    "get-dimension-size": _dimension_size,
    "get-tuple-element": _element_of,
    "imag": _real,
    "is-finite": _is_finite,
    "map": _map,
    "negate": _NUMBER,
    "not": _BITS,
    "pad": pad,
    "ragged-dot": ragged_dot,
    "real": _real,
    "reduce": _reduce,
    "reduce-window": reduce_window,
    "select": _select,
    "select-and-scatter": select_and_scatter,
    "set-dimension-size": _set_dimension_size,
    "sign": _SIGNED,
    "sort": _sort,
    "topk": _topk,
    "transpose": _transpose,
    "triangular-solve": _triangular,
    "tuple": _tuple,
}
