"""The rules of operations whose elements depend on many elements: reduce, reduce-window, select-and-scatter, sort,
topk, batch-norm-*.

The docstring of a rule says what an element of an output reads (`…_output_to_input`), or which elements of the outputs
an element of an operand takes part in (`…_input_to_output`).
"""

from __future__ import annotations

from xlashape.hlo import Opcode
from xlashape.hlo.values.plain import DIMENSIONS, FEATURE_INDEX, K
from xlashape.hlo.values.window import WindowDimension
from xlashape.indexing.answers.leaves import dims_of
from xlashape.indexing.ops.op import NOT_ACCESSED, Access, Op, Rows, require, require_dims
from xlashape.indexing.ops.register import input_to_output, output_to_input, registered_rule, without_bounds
from xlashape.indexing.ops.rows import across, aligned, everything, identity, make_map, to_scalar
from xlashape.indexing.ops.windows import (
    check_window,
    simplified_window_input,
    window_dimensions,
    window_input,
    window_output,
)
from xlashape.symbolic import Expr, IndexingMap, Interval, dim, rng

without_bounds(Opcode.REDUCE, Opcode.REDUCE_WINDOW)


@output_to_input(Opcode.REDUCE, attributes=DIMENSIONS)
def reduce_output_to_input(op: Op, output: int) -> Rows:
    """From an output element: all elements along the reduced dimensions of every input, and every initial value."""
    count, source, kept = _reduce(op)
    out = op.output_dims(output)
    read = (Access(aligned(out, kept, source, range(len(source)))),)
    return (read,) * count + (to_scalar(out),) * count


@input_to_output(Opcode.REDUCE, attributes=DIMENSIONS)
def reduce_input_to_output(op: Op, operand: int, leaf: int) -> Rows:
    """The index along the dimensions that are kept, in every output; an initial value takes part in every element."""
    count, source, kept = _reduce(op)
    out = op.output_dims(0)
    if operand >= count:
        return ((everything((), out),),) * count
    return ((Access(aligned(source, range(len(source)), out, kept)),),) * count


def _reduce(op: Op) -> tuple[int, tuple[int, ...], list[int]]:
    count = _inputs_and_initial_values(op)
    source = op.operand_dims(0)
    require_dims("dimensions", op.attributes, len(source))
    kept = [d for d in range(len(source)) if d not in op.attributes]
    expected = tuple(source[d] for d in kept)
    require(
        all(dims_of(shape) == expected for shape in op.outputs),
        lambda: f"reduces to {list(expected)}, which is not the shape of its result",
    )
    return count, source, kept


def _inputs_and_initial_values(op: Op) -> int:
    """How many inputs are reduced together. Raises Malformed unless each has an initial value and an output."""
    count = len(op.operands) // 2
    require(
        count >= 1 and len(op.operands) == 2 * count == 2 * len(op.outputs),
        "takes as many initial values as inputs, and returns as many",
    )
    op.require_operands(2 * count)
    require(all(op.operand_dims(i) == op.operand_dims(0) for i in range(count)), "has inputs of different sizes")
    require(all(not op.operand_dims(i) for i in range(count, 2 * count)), "has an initial value that is not a scalar")
    return count


@output_to_input(Opcode.REDUCE_WINDOW, attributes=window_dimensions)
def reduce_window_output_to_input(op: Op, output: int) -> Rows:
    """The elements within the output's window. In a cumulative operation, the window is as long as the array."""
    count, source, windows = _reduce_window(op)
    out = op.output_dims(output)
    read = (_read_by_window(out, source, windows),)
    return (read,) * count + (to_scalar(out),) * count


def _read_by_window(out: tuple[int, ...], source: tuple[int, ...], windows: tuple[WindowDimension, ...]) -> Access:
    simplified = [simplified_window_input(w, source[d], out[d], dim(d), rng(d)) for d, w in enumerate(windows)]
    simple = [dimension for dimension in simplified if dimension is not None]
    if len(simple) == len(windows):
        read = make_map(
            [dimension.output for dimension in simple],
            [dimension.input_index for dimension in simple],
            ranges=[dimension.window_index for dimension in simple],
            constraints=[constraint for dimension in simple for constraint in dimension.constraints],
        )
        return Access(read.remove_unused_symbols().map)
    results: list[Expr] = []
    constraints: list[tuple[Expr, Interval]] = []
    for d, w in enumerate(windows):
        index, inside = window_input(w, source[d], dim(d), rng(d))
        results.append(index)
        constraints += inside
    return _simplified(make_map(out, results, ranges=[w.size for w in windows], constraints=constraints))


@input_to_output(Opcode.REDUCE_WINDOW, attributes=window_dimensions)
def reduce_window_input_to_output(op: Op, operand: int, leaf: int) -> Rows:
    """The outputs whose window covers the element; an initial value takes part in every element."""
    count, source, windows = _reduce_window(op)
    out = op.output_dims(0)
    if operand >= count:
        return ((everything((), out),),) * count
    results: list[Expr] = []
    constraints: list[tuple[Expr, Interval]] = []
    for d, w in enumerate(windows):
        index, inside = window_output(w, out[d], dim(d), rng(d))
        results.append(index)
        constraints += inside
    return (
        (_simplified(make_map(source, results, ranges=[w.size for w in windows], constraints=constraints)),),
    ) * count


def _reduce_window(op: Op) -> tuple[int, tuple[int, ...], tuple[WindowDimension, ...]]:
    count = _inputs_and_initial_values(op)
    source, out, windows = op.operand_dims(0), op.output_dims(0), op.attributes
    require(len(source) == len(out) == len(windows), lambda: f"has a window of rank {len(windows)} over {list(source)}")
    require(all(dims_of(shape) == out for shape in op.outputs), "has outputs of different sizes")
    for w, n, size in zip(windows, source, out, strict=True):
        check_window(w, n, size)
    return count, source, windows


def _simplified(indexing_map: IndexingMap) -> Access:
    return Access(indexing_map.simplify().remove_unused_symbols().map)


@output_to_input(Opcode.SELECT_AND_SCATTER, attributes=window_dimensions)
def select_and_scatter_output_to_input(op: Op, output: int) -> Rows:
    """The operand's element of the same index may be the selected one of any window that covers it.

    The output then reads that window's source element, and the operand's elements in the window, which are compared.
    """
    source_dims, dims, windows = _select_and_scatter(op)
    window_of: list[Expr] = []
    compared: list[Expr] = []
    constraints: list[tuple[Expr, Interval]] = []
    in_window: list[tuple[Expr, Interval]] = []
    rank = len(dims)
    for d, w in enumerate(windows):
        index, inside = window_output(w, source_dims[d], dim(d), rng(d))
        window_of.append(index)
        constraints += inside
        other, inside = window_input(w, dims[d], index, rng(rank + d))
        compared.append(other)
        in_window += inside
    sizes = [w.size for w in windows]
    return (
        (_simplified(make_map(dims, compared, ranges=sizes * 2, constraints=constraints + in_window)),),
        (_simplified(make_map(dims, window_of, ranges=sizes, constraints=constraints)),),
        to_scalar(dims),
    )


@input_to_output(Opcode.SELECT_AND_SCATTER, attributes=window_dimensions)
def select_and_scatter_input_to_output(op: Op, operand: int, leaf: int) -> Rows:
    """A source element may go to any element of its window; an element is compared with all elements that share a
    window with it.
    """
    source_dims, dims, windows = _select_and_scatter(op)
    if operand == 2:
        return ((everything((), dims),),)
    rank, sizes = len(dims), [w.size for w in windows]
    results: list[Expr] = []
    constraints: list[tuple[Expr, Interval]] = []
    for d, w in enumerate(windows):
        window: Expr = dim(d)
        if operand == 0:
            window, inside = window_output(w, source_dims[d], dim(d), rng(rank + d))
            constraints += inside
        index, inside = window_input(w, dims[d], window, rng(d))
        results.append(index)
        constraints += inside
    ranges = sizes if operand else sizes * 2
    return (
        (_simplified(make_map(source_dims if operand else dims, results, ranges=ranges, constraints=constraints)),),
    )


def _select_and_scatter(op: Op) -> tuple[tuple[int, ...], tuple[int, ...], tuple[WindowDimension, ...]]:
    op.require_operands(3)
    dims, source, windows = op.operand_dims(0), op.operand_dims(1), op.attributes
    require(
        dims == op.output_dims(0) and len(dims) == len(source) == len(windows),
        "has a window or source that does not fit",
    )
    require(not op.operand_dims(2), "has an initial value that is not a scalar")
    for w, n, size in zip(windows, dims, source, strict=True):
        check_window(w, n, size)
    return source, dims, windows


def sort_output_to_input(op: Op, output: int) -> Rows:
    """The same index of every operand, with every index along the sorted dimension: all elements along it decide the
    order.
    """
    axis, dims = _sort(op)
    return ((Access(across(op.output_dims(output), dims, {axis})),),) * len(op.operands)


def sort_input_to_output(op: Op, operand: int, leaf: int) -> Rows:
    """The same index of every output, with every index along the sorted dimension."""
    axis, dims = _sort(op)
    return ((Access(across(dims, dims, {axis})),),) * len(op.outputs)


def _sort(op: Op) -> tuple[int, tuple[int, ...]]:
    op.require_operands(len(op.operands))
    require(bool(op.operands) and len(op.outputs) == len(op.operands), "returns as many arrays as it takes")
    dims = op.operand_dims(0)
    require(all(op.operand_dims(i) == dims for i in range(len(op.operands))), "sorts arrays of different sizes")
    require(all(dims_of(shape) == dims for shape in op.outputs), "changes the shape")
    require(len(op.attributes) == 1, f"needs exactly one dimension, not {len(op.attributes)}")
    require_dims("dimensions", op.attributes, len(dims))
    return op.attributes[0], dims


SORT_OUTPUT_TO_INPUT = registered_rule(sort_output_to_input, DIMENSIONS)
SORT_INPUT_TO_OUTPUT = registered_rule(sort_input_to_output, DIMENSIONS)


@output_to_input(Opcode.TOPK, attributes=K)
def topk_output_to_input(op: Op, output: int) -> Rows:
    """The operand's whole last dimension."""
    source = _topk(op)
    return ((Access(across(op.output_dims(output), source, {len(source) - 1})),),)


@input_to_output(Opcode.TOPK, attributes=K)
def topk_input_to_output(op: Op, operand: int, leaf: int) -> Rows:
    """The whole last dimension of both outputs, the values and the indices."""
    source = _topk(op)
    return ((Access(across(source, op.output_dims(0), {len(source) - 1})),),) * len(op.outputs)


def _topk(op: Op) -> tuple[int, ...]:
    op.require_operands(1)
    source = op.operand_dims(0)
    require(len(source) >= 1, "selects the largest elements of a scalar")
    expected = (*source[:-1], op.attributes)
    require(
        all(dims_of(shape) == expected for shape in op.outputs),
        lambda: f"gives {list(expected)}, which is not the shape of its results",
    )
    return source


@output_to_input(Opcode.BATCH_NORM_TRAINING, attributes=FEATURE_INDEX)
def batch_norm_training_output_to_input(op: Op, output: int) -> Rows:
    """Mean and variance of a feature are computed from all elements of the feature, and so is every normalised
    element.
    """
    return _batch_norm_training(op, output)


@input_to_output(Opcode.BATCH_NORM_TRAINING, attributes=FEATURE_INDEX)
def batch_norm_training_input_to_output(op: Op, operand: int, leaf: int) -> Rows:
    """An element takes part in all results of its feature; scale and offset in the normalised elements alone."""
    return _batch_norm_training(op, operand)


def _batch_norm_training(op: Op, number: int) -> Rows:
    """Operand 0 and output 0 are the array; operands and outputs 1 and 2 have a number for each feature."""
    feature, dims = _batch_norm(op, 3, 3)
    if number == 0:
        of_feature = _number_of_feature(dims, feature)
        return (_all_of_feature(dims, dims, feature),), of_feature, of_feature
    return (_all_of_feature((dims[feature],), dims, feature),), NOT_ACCESSED, NOT_ACCESSED


@output_to_input(Opcode.BATCH_NORM_INFERENCE, attributes=FEATURE_INDEX)
def batch_norm_inference_output_to_input(op: Op, output: int) -> Rows:
    """The element of the same index, and the four numbers of its feature."""
    feature, dims = _batch_norm(op, 5, 1)
    return (identity(dims),) + (_number_of_feature(dims, feature),) * 4


@input_to_output(Opcode.BATCH_NORM_INFERENCE, attributes=FEATURE_INDEX)
def batch_norm_inference_input_to_output(op: Op, operand: int, leaf: int) -> Rows:
    """The element of the same index; a number of a feature takes part in all elements of the feature."""
    feature, dims = _batch_norm(op, 5, 1)
    return (identity(dims),) if operand == 0 else ((_all_of_feature((dims[feature],), dims, feature),),)


@output_to_input(Opcode.BATCH_NORM_GRAD, attributes=FEATURE_INDEX)
def batch_norm_grad_output_to_input(op: Op, output: int) -> Rows:
    """Operands are (operand, scale, mean, variance, grad_output), outputs the gradients of (operand, scale, offset). A
    gradient depends on numbers of its own feature, and on all elements of the feature in operand and grad_output.
    """
    feature, dims = _batch_norm(op, 5, 3)
    if output == 0:
        whole, number = (_all_of_feature(dims, dims, feature),), _number_of_feature(dims, feature)
        return whole, number, number, number, whole
    own = (dims[feature],)
    whole, number = (_all_of_feature(own, dims, feature),), identity(own)
    if output == 1:
        return whole, NOT_ACCESSED, number, number, whole
    return NOT_ACCESSED, NOT_ACCESSED, NOT_ACCESSED, NOT_ACCESSED, whole


@input_to_output(Opcode.BATCH_NORM_GRAD, attributes=FEATURE_INDEX)
def batch_norm_grad_input_to_output(op: Op, operand: int, leaf: int) -> Rows:
    """The inverse of the maps from the outputs."""
    feature, dims = _batch_norm(op, 5, 3)
    own = (dims[feature],)
    if operand in (0, 4):
        number = _number_of_feature(dims, feature)
        return (_all_of_feature(dims, dims, feature),), number, number if operand == 4 else NOT_ACCESSED
    return (_all_of_feature(own, dims, feature),), NOT_ACCESSED if operand == 1 else identity(own), NOT_ACCESSED


def _batch_norm(op: Op, operands: int, outputs: int) -> tuple[int, tuple[int, ...]]:
    op.require_operands(operands)
    feature: int = op.attributes
    dims = op.operand_dims(0)
    require(0 <= feature < len(dims), lambda: f"has feature dimension {feature} of rank {len(dims)}")
    own = (dims[feature],)
    require(len(op.outputs) == outputs and op.output_dims(0) == dims, "changes the shape")
    require(
        all(dims_of(shape) == own for shape in op.outputs[1:]), "has a result that is not one number for each feature"
    )
    numbers = range(1, 4 if outputs == 3 and operands == 5 else operands)
    require(all(op.operand_dims(i) == own for i in numbers), "has an operand that is not one number for each feature")
    require(outputs == 1 or operands == 3 or op.operand_dims(4) == dims, "has a gradient of another shape")
    return feature, dims


def _number_of_feature(dims: tuple[int, ...], feature: int) -> tuple[Access, ...]:
    return (Access(make_map(dims, [dim(feature)])),)


def _all_of_feature(dims: tuple[int, ...], target: tuple[int, ...], feature: int) -> Access:
    """From an element of an array (`dims` is `target`), or from a feature's number (`dims` has one dimension): all
    elements of the feature in an array of sizes `target`.
    """
    if dims is target:
        return Access(across(dims, target, {*range(len(dims))} - {feature}))
    return Access(aligned(dims, [feature], target, range(len(target))))
