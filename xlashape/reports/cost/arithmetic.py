"""The arithmetic of an instruction: floating-point operations (FLOPs) and transcendental functions, counted as XLA's
HloCostAnalysis counts them.

An operation of one element counts 1, whatever its type: integers, booleans and complex numbers too. What XLA counts as
FLOPs:

    elementwise, conversions, comparisons         an operation for each element of the result
    dot, convolution                              2 for each product that is added up, but for products with padding
    reduce, reduce-window, select-and-scatter     the operations of the reducer, for each time that it is applied;
                                                  padding in a window counts, too
    scatter, map                                  the operations of the computation, for each update; for each element
    sort                                          n · ⌈log2 n⌉, where n is the number of elements of the first operand
    fft                                           8 · n · the product of ⌊log2 length⌋ over all lengths
    triangular-solve                              2 · elements of the result · rows of the matrix
    cholesky                                      elements · rows / 3
    all-reduce                                    an operation for each element
    fusion, call, async-start                     those of the called computation
    while, conditional                            none here: `program.py` adds those of the computations that they call
    everything else                               none

exp, log, sin, tanh, sqrt, power and their like are transcendentals and no FLOPs; so is each random number.

`arithmetic_of(…, as_xla=True)` follows HloCostAnalysis of jaxlib 0.12.0.1. Without `as_xla`, these counts differ:

    reduce of an empty array, where XLA's count is negative     0
    reduce-window, in a dimension that every window covers      the elements once, for all windows
    ragged-dot, which XLA counts as elementwise                 2 for each product that is added up
    scan, which XLA counts once for each element                the body, once for each step
    reduce-scatter, which XLA does not count                    an operation for each element, as for all-reduce
    custom-call, which XLA counts as -1, a kernel of Pallas     what it states as its cost; matrix products,
    as it states or as 0                                        convolutions and attention of GPU libraries; nothing
                                                                for marks of TPU compilers; others are not known
    a fusion of kind kCustom with a gather or scatter, which XLA counts as that alone       all that it holds
    batch-norm-*, which XLA does not count                      not known
    an opcode that this version does not know                   not known
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import gcd
from typing import Any, Final, NamedTuple

from xlashape.base.math import ceil_div, product
from xlashape.hlo import HloComputation, HloInstruction, Opcode, UnknownOpcode
from xlashape.hlo.ops.operation import ReadPattern
from xlashape.hlo.ops.registry import operation_of
from xlashape.limits import check, spend
from xlashape.proto import xla
from xlashape.reports.cost.xla_traffic import stands_for
from xlashape.shape import Shape

_TRANSCENDENTAL: Final = frozenset(
    Opcode(name)
    for name in (
        "acos acosh asin asinh atan2 atanh cbrt cosine cosh erf exp2 exponential exponential-minus-one log "
        "log-plus-one log2 logistic power"
        " rsqrt sine sinh sqrt tan tanh"
    ).split()
)
_INLINED: Final = frozenset((Opcode.FUSION, Opcode.CALL, Opcode.ASYNC_START))
_UNKNOWN_OPERATIONS: Final = frozenset(
    (Opcode.BATCH_NORM_GRAD, Opcode.BATCH_NORM_INFERENCE, Opcode.BATCH_NORM_TRAINING, Opcode.CUSTOM_CALL)
)
_MOST_STEPS: Final = 1 << 22


class Arithmetic(NamedTuple):
    """How much an instruction or a computation calculates in one execution."""

    flops: int = 0
    transcendentals: int = 0
    is_complete: bool = True
    """Whether all of it is known. What is not known counts 0 in the numbers."""
    is_stated: bool = False
    """Whether a kernel states it, and it does not follow from the module. Sums leave this out."""

    def plus(self, other: Arithmetic) -> Arithmetic:
        """The sum of both."""
        return Arithmetic(
            self.flops + other.flops,
            self.transcendentals + other.transcendentals,
            self.is_complete and other.is_complete,
        )

    def times(self, count: int) -> Arithmetic:
        """`count` executions."""
        return Arithmetic(self.flops * count, self.transcendentals * count, self.is_complete)

    def largest(self, other: Arithmetic) -> Arithmetic:
        """The larger one of the FLOPs of both, and the larger one of their transcendentals."""
        return Arithmetic(
            max(self.flops, other.flops),
            max(self.transcendentals, other.transcendentals),
            self.is_complete and other.is_complete,
        )


NOTHING: Final = Arithmetic()
UNKNOWN: Final = Arithmetic(is_complete=False)


def arithmetic_of(
    instruction: HloInstruction, inner: Callable[[HloComputation], Arithmetic], *, as_xla: bool
) -> Arithmetic:
    """What one execution of an instruction calculates: of a fusion and a call what the called computation does, of a
    loop and a conditional nothing.

    `inner` gives the sum over the instructions of a called computation. `as_xla` counts exactly as XLA does. Raises
    InvalidModuleError for an invalid shape.
    """
    opcode = instruction.opcode
    if instruction.kind.row.reads is ReadPattern.SAME:
        count = elements(instruction.shape)
        return Arithmetic(0, count) if opcode in _TRANSCENDENTAL else Arithmetic(count)
    if as_xla and opcode == Opcode.FUSION:
        stand_in = stands_for(instruction)
        if stand_in is not None:
            return arithmetic_of(stand_in, inner, as_xla=True)
    if opcode in _INLINED:
        return NOTHING if not instruction.called_computations else inner(instruction.called_computations[0])
    count = _COUNTS.get(opcode)
    if count is not None:
        return count(_Asked(instruction, inner, as_xla))
    if (opcode in _UNKNOWN_OPERATIONS or isinstance(opcode, UnknownOpcode)) and not as_xla:
        return UNKNOWN
    return NOTHING


def elements(shape: Shape) -> int:
    """The number of elements of an array, or of all arrays of a tuple. A dynamic dimension counts with its bound, or
    with 0 if it has none.
    """
    if shape.is_array:
        return _array_elements(shape)
    return sum([_array_elements(leaf) for leaf in shape.leaves() if leaf.is_array])


def _array_elements(array: Shape) -> int:
    return product([max(0, size) for size in array.dimensions])


class _Asked(NamedTuple):
    """The arguments of `arithmetic_of`, for the functions of single opcodes."""

    instruction: HloInstruction
    inner: Callable[[HloComputation], Arithmetic]
    as_xla: bool


def _applied(asked: _Asked) -> Arithmetic:
    """What one application of the computation calculates that an instruction applies to elements."""
    called = asked.instruction.called_computations
    return asked.inner(called[0]) if called else NOTHING


# -- contractions ---------------------------------------------------------------------------


def _dot(asked: _Asked) -> Arithmetic:
    numbers = asked.instruction.details.dot_dimension_numbers
    return Arithmetic(
        dot_flops(asked.instruction.operands[0].shape, numbers.lhs_contracting_dimensions, asked.instruction.shape)
    )


def dot_flops(left: Shape, contracting: Iterable[int], result: Shape) -> int:
    """Twice the number of products of a matrix product."""
    return 2 * elements(result) * product([max(0, left.dimensions[number]) for number in contracting])


def _ragged_dot(asked: _Asked) -> Arithmetic:
    """The count of a dot with this result, divided by the number of groups if the ragged dimension is a contracting
    one: each group then has a result of its own, of a part of the products.
    """
    if asked.as_xla:
        return Arithmetic(elements(asked.instruction.shape))
    numbers = asked.instruction.details.ragged_dot_dimension_numbers
    left = asked.instruction.operands[0].shape
    dot = numbers.dot_dimension_numbers
    flops = dot_flops(left, dot.lhs_contracting_dimensions, asked.instruction.shape)
    if set(numbers.lhs_ragged_dimensions) & set(dot.lhs_contracting_dimensions):
        groups = asked.instruction.operands[2].shape.dimensions
        flops //= max(1, groups[-1] if groups else 1)
    return Arithmetic(flops)


def _convolution(asked: _Asked) -> Arithmetic:
    image, kernel = asked.instruction.operands[0].shape, asked.instruction.operands[1].shape
    return Arithmetic(convolution_flops(asked.instruction.details, image, kernel, asked.instruction.shape))


def convolution_flops(proto: xla.HloInstructionProto, image: Shape, kernel: Shape, result: Shape) -> int:
    """Twice the number of products of an element of the image and an element of the kernel; padding has no products."""
    numbers = proto.convolution_dimension_numbers
    pairs = 1
    for dimension, window in enumerate(proto.window.dimensions):
        size = image.dimensions[numbers.input_spatial_dimensions[dimension]]
        outputs = result.dimensions[numbers.output_spatial_dimensions[dimension]]
        pairs *= valid_positions(size, outputs, window)
    channels = kernel.dimensions[numbers.kernel_input_feature_dimension]
    features = result.dimensions[numbers.output_feature_dimension]
    batch = image.dimensions[numbers.input_batch_dimension] // max(1, proto.batch_group_count)
    return 2 * pairs * max(0, channels) * max(0, features) * max(0, batch)


def valid_positions(size: int, outputs: int, window: xla.WindowDimension) -> int:
    """How many pairs of an output position and a position in the window, along one dimension, read an element and no
    padding. `size` elements are in the image, and `outputs` positions in the output.

    Position w of the window of output o reads position o * stride + w * window_dilation - padding_low of the image, in
    which base_dilation - 1 holes follow each element but the last. Raises LimitExceededError where both output and
    window have more than 4,194,304 positions.

    >>> from xlashape.proto import xla
    >>> valid_positions(
    ...     9,
    ...     9,
    ...     xla.WindowDimension(size=3, stride=1, padding_low=1, padding_high=1, window_dilation=1, base_dilation=1),
    ... )
    25
    """
    if size <= 0 or outputs <= 0 or window.size <= 0:
        return 0
    base, stride, dilation = max(1, window.base_dilation), max(1, window.stride), max(1, window.window_dilation)
    # One of the two positions is walked over, and the other is counted.
    (walked, step), (counted, jump) = sorted(((outputs, stride), (window.size, dilation)))
    check("positions of a convolution's window", walked, _MOST_STEPS)
    spend(walked)
    end = (size - 1) * base + 1
    common = gcd(jump, base)
    period = base // common
    inverse = pow(jump // common, -1, period)
    total = 0
    for position in range(walked):
        offset = position * step - window.padding_low
        first = max(0, ceil_div(-offset, jump))
        last = min(counted, ceil_div(end - offset, jump))
        if first >= last:
            continue
        if base == 1:
            total += last - first
        elif offset % common == 0:
            # Every `period`-th index reads an element, not a hole; `residue` is the first such index from 0 on.
            residue = -offset // common * inverse % period
            total += max(0, ceil_div(last - (first + (residue - first) % period), period))
    return total


# -- reductions -----------------------------------------------------------------------------


def _reduce(asked: _Asked) -> Arithmetic:
    result = next((leaf for leaf in asked.instruction.shape.leaves()), asked.instruction.shape)
    count = elements(asked.instruction.operands[0].shape) - elements(result)
    return _applied(asked).times(count if asked.as_xla else max(0, count))


def _reduce_window(asked: _Asked) -> Arithmetic:
    """A result for each window, but one for all where each of them covers the dimension: they are equal."""
    array = asked.instruction.operands[0].shape
    result = next((leaf for leaf in asked.instruction.shape.leaves()), asked.instruction.shape)
    window = asked.instruction.details.window.dimensions
    results, sizes = [max(0, size) for size in result.dimensions], [each.size for each in window]
    count = (product(sizes) - 1) * product(results)
    if asked.as_xla:
        wide = [number for number, each in enumerate(window) if each.size != 1 or each.padding_low or each.padding_high]
        if len(wide) == 1 and _is_centred(array.dimensions[wide[0]], window[wide[0]]):
            length = array.dimensions[wide[0]]
            count = product(results) // length + length - 1
    else:
        for number, length in enumerate(array.dimensions[: len(sizes)]):
            if covers(length, results[number], window[number]):
                results[number], sizes[number] = 1, length
        count = (product(sizes) - 1) * product(results)
    return _applied(asked).times(count)


def _is_centred(length: int, window: xla.WindowDimension) -> bool:
    """Whether XLA counts a window as one that covers a dimension in each position."""
    return (
        window.size == 2 * length - 1
        and window.padding_low == window.padding_high == length - 1
        and window.stride == window.window_dilation == window.base_dilation == 1
    )


def covers(length: int, outputs: int, window: xla.WindowDimension) -> bool:
    """Whether the window of every output reads all elements of a dimension. `length` elements are in the dimension, and
    `outputs` positions in the output. `valid_positions` says what a window reads.

    >>> from xlashape.proto import xla
    >>> wide = {"size": 9, "stride": 1, "padding_low": 4, "padding_high": 4, "window_dilation": 1, "base_dilation": 1}
    >>> covers(5, 5, xla.WindowDimension(**wide)), covers(6, 6, xla.WindowDimension(**wide))
    (True, False)
    """
    if length <= 0 or outputs <= 0:
        return False
    base, stride, dilation = max(1, window.base_dilation), max(1, window.stride), max(1, window.window_dilation)
    steps = (stride if outputs > 1 else 0, base if length > 1 else 0, window.padding_low)
    return (
        all(step % dilation == 0 for step in steps)
        and (outputs - 1) * stride <= window.padding_low
        and (length - 1) * base + window.padding_low <= (window.size - 1) * dilation
    )


def _select_and_scatter(asked: _Asked) -> Arithmetic:
    source = elements(asked.instruction.operands[1].shape)
    window = product([each.size for each in asked.instruction.details.window.dimensions])
    select, scatter = [asked.inner(each) for each in asked.instruction.called_computations[:2]]
    return select.times(source * (window - 1)).plus(scatter.times(source))


def _scatter(asked: _Asked) -> Arithmetic:
    return _applied(asked).times(elements(asked.instruction.operands[-1].shape))


def _map(asked: _Asked) -> Arithmetic:
    return _applied(asked).times(elements(asked.instruction.shape))


def _scan(asked: _Asked) -> Arithmetic:
    carries = asked.instruction.details.num_carries
    inputs = asked.instruction.operands[: len(asked.instruction.operands) - carries]
    shapes = [each.shape for each in (asked.instruction.operands if asked.as_xla else inputs) if each.shape.is_array]
    scanned = max(shapes, key=elements, default=None)
    if scanned is None:
        return UNKNOWN
    if asked.as_xla:
        return _applied(asked).times(elements(scanned))
    dimensions = asked.instruction.kind.dimensions
    return _applied(asked).times(max(0, scanned.dimensions[dimensions[0] if dimensions else 0]))


def _all_reduce(asked: _Asked) -> Arithmetic:
    return Arithmetic(sum([elements(operand.shape) for operand in asked.instruction.operands]))


def _reduce_scatter(asked: _Asked) -> Arithmetic:
    return NOTHING if asked.as_xla else _all_reduce(asked)


# -- everything else ------------------------------------------------------------------------


def _sort(asked: _Asked) -> Arithmetic:
    count = elements(asked.instruction.operands[0].shape)
    return Arithmetic(count * max(0, count - 1).bit_length())


def _fft(asked: _Asked) -> Arithmetic:
    logarithms = product([max(1, length).bit_length() - 1 for length in asked.instruction.details.fft_length])
    return Arithmetic(8 * elements(asked.instruction.operands[0].shape) * logarithms)


def _triangular_solve(asked: _Asked) -> Arithmetic:
    return Arithmetic(2 * elements(asked.instruction.shape) * asked.instruction.operands[0].shape.dimensions[-1])


def _cholesky(asked: _Asked) -> Arithmetic:
    matrix = asked.instruction.operands[0].shape
    return Arithmetic(elements(matrix) * matrix.dimensions[-1] // 3)


def _random(asked: _Asked) -> Arithmetic:
    return Arithmetic(0, elements(asked.instruction.shape))


_COUNTS: Final[dict[Any, Callable[[_Asked], Arithmetic]]] = {
    Opcode.ALL_REDUCE: _all_reduce,
    Opcode.ALL_REDUCE_START: _all_reduce,
    Opcode.CHOLESKY: _cholesky,
    Opcode.CONVOLUTION: _convolution,
    Opcode.DOT: _dot,
    Opcode.FFT: _fft,
    Opcode.MAP: _map,
    Opcode.RAGGED_DOT: _ragged_dot,
    Opcode.REDUCE: _reduce,
    Opcode.REDUCE_SCATTER: _reduce_scatter,
    Opcode.REDUCE_WINDOW: _reduce_window,
    Opcode.RNG: _random,
    Opcode.RNG_BIT_GENERATOR: _random,
    Opcode.SCALED_DOT: _dot,
    Opcode.SCAN: _scan,
    Opcode.SCATTER: _scatter,
    Opcode.SELECT_AND_SCATTER: _select_and_scatter,
    Opcode.SORT: _sort,
    Opcode.TRIANGULAR_SOLVE: _triangular_solve,
}

_ELEMENTWISE: Final = frozenset([each for each in Opcode if operation_of(each).reads is ReadPattern.SAME])
COUNTED: Final = _ELEMENTWISE | _INLINED | _UNKNOWN_OPERATIONS | frozenset(_COUNTS)
"""The opcodes of instructions that may calculate something."""
