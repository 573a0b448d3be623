"""Rules that say which dimensions of an instruction's operands and of its result are the same one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from math import prod
from typing import Final, TypeAlias

from xlashape.hlo.flow import Index
from xlashape.hlo.module import HloInstruction
from xlashape.hlo.ops.calls import Arguments
from xlashape.hlo.ops.opcode import Opcode
from xlashape.hlo.ops.operation import ReadPattern
from xlashape.proto import xla
from xlashape.shape import Shape

RESULT: Final = -1
REGROUPS: Final = (Opcode.RESHAPE, Opcode.BITCAST)
_MOST_STEPS: Final = 16
"""The most instructions between a gather or a scatter and what its indices count with."""
Part: TypeAlias = tuple[int, Index, int]
"""A dimension of an operand or of the result: the operand's number or RESULT, where the array is in a tuple, and the
number of the dimension."""


class Ties:
    """Which dimensions of an instruction's operands and result are the same one."""

    def __init__(self) -> None:
        self.same: dict[Part, list[Part]] = {}
        self.inside: dict[Part, list[tuple[Part, int]]] = {}
        """Dimension → another one of which it is a factor, and the elements there between two steps of it."""
        self.factors: dict[Part, list[tuple[Part, int]]] = {}
        """Dimension → what is a factor of it, and the elements between two steps of that."""
        self.looked_up: set[Part] = set()
        self.stepped: set[Part] = set()
        self.of_dot: set[Part] = set()
        self.unknown: dict[Part, str] = {}

    def tie(self, parts: Iterable[Part]) -> None:
        together = [*parts]
        for each in together:
            self.same.setdefault(each, []).extend([other for other in together if other != each])

    def tie_all(self, places: Sequence[tuple[int, Shape]], index: Index = (), leave: Iterable[int] = ()) -> None:
        """Ties each dimension, but those in `leave`, of arrays that are alike. Scalars among them are left out."""
        rank = max([shape.rank for _, shape in places], default=0)
        for dimension in set(range(rank)).difference(leave):
            self.tie([(who, index if who == RESULT else (), dimension) for who, shape in places if shape.rank == rank])

    def leave(self, instruction: HloInstruction, reason: str, dimensions: Iterable[int] | None = None) -> None:
        """Says of these dimensions, or of all, of every array that the instruction reads and makes that they are not
        known."""
        for who, index, shape in _arrays(instruction):
            for dimension in range(shape.rank) if dimensions is None else dimensions:
                self.unknown[who, index, dimension] = reason


def _arrays(instruction: HloInstruction) -> Iterator[tuple[int, Index, Shape]]:
    pending = [(RESULT, (), instruction.shape)]
    pending += [(number, (), operand.shape) for number, operand in enumerate(instruction.operands)]
    while pending:
        who, index, shape = pending.pop()
        if shape.is_tuple:
            pending += [(who, (*index, number), each) for number, each in enumerate(shape.tuple_shapes)]
        elif shape.is_array:
            yield who, index, shape


def _operands(instruction: HloInstruction) -> list[tuple[int, Shape]]:
    return [(number, operand.shape) for number, operand in enumerate(instruction.operands)]


def _results(instruction: HloInstruction) -> list[tuple[Index, Shape]]:
    shape = instruction.shape
    return [((n,), each) for n, each in enumerate(shape.tuple_shapes)] if shape.is_tuple else [((), shape)]


# -- rules ------------------------------------------------------------------------------------


def _elementwise(instruction: HloInstruction, ties: Ties) -> None:
    places = [(RESULT, instruction.shape), *_operands(instruction)]
    ranks = {shape.rank for _, shape in places if shape.rank}
    if len(ranks) == 2:  # bitcast-convert, which splits the last dimension or merges it
        for dimension in range(min(ranks)):
            ties.tie([(RESULT, (), dimension), (0, (), dimension)])
    else:
        ties.tie_all(places)


def _each_alone(instruction: HloInstruction, ties: Ties) -> None:
    """Array number i of the result is like operand number i."""
    for number, (index, shape) in enumerate(_results(instruction)):
        if number < len(instruction.operands):
            ties.tie_all([(RESULT, shape), (number, instruction.operands[number].shape)], index)


def _all_alike(instruction: HloInstruction, ties: Ties) -> None:
    """All operands and results have the same dimensions."""
    shapes = _results(instruction)
    for dimension in range(instruction.operands[0].shape.rank):
        parts: list[Part] = [(RESULT, index, dimension) for index, _ in shapes]
        ties.tie([*parts, *[(number, (), dimension) for number, _ in _operands(instruction)]])


def _broadcast(instruction: HloInstruction, ties: Ties) -> None:
    for operand, result in enumerate(instruction.details.dimensions):
        ties.tie([(0, (), operand), (RESULT, (), result)])


def _transpose(instruction: HloInstruction, ties: Ties) -> None:
    for result, operand in enumerate(instruction.details.dimensions):
        ties.tie([(0, (), operand), (RESULT, (), result)])


def _reduce(instruction: HloInstruction, ties: Ties) -> None:
    arrays = range(len(instruction.operands) // 2)
    kept = [d for d in range(instruction.operands[0].shape.rank) if d not in instruction.details.dimensions]
    for result, operand in enumerate(kept):
        parts: list[Part] = [(number, (), operand) for number in arrays]
        ties.tie([*parts, *[(RESULT, index, result) for index, _ in _results(instruction)]])
    for dimension in instruction.details.dimensions:
        ties.tie([(number, (), dimension) for number in arrays])


def _dot(instruction: HloInstruction, ties: Ties) -> None:
    numbers = instruction.details.dot_dimension_numbers
    sides = (numbers.lhs_batch_dimensions, numbers.rhs_batch_dimensions)
    contracted = (numbers.lhs_contracting_dimensions, numbers.rhs_contracting_dimensions)
    for pair in zip(*contracted, strict=True):
        ties.tie([(side, (), dimension) for side, dimension in enumerate(pair)])
    for result, pair in enumerate(zip(*sides, strict=True)):
        ties.of_dot.add((RESULT, (), result))
        ties.tie([(RESULT, (), result), *[(side, (), dimension) for side, dimension in enumerate(pair)]])
    result = len(sides[0])
    for side in range(2):
        for dimension in range(instruction.operands[side].shape.rank):
            if dimension not in sides[side] and dimension not in contracted[side]:
                ties.tie([(RESULT, (), result), (side, (), dimension)])
                result += 1


def _is_trivial(window: xla.WindowDimension) -> bool:
    return (
        window.size == 1
        and window.stride <= 1
        and not window.padding_low
        and not window.padding_high
        and window.base_dilation <= 1
    )


def _convolution(instruction: HloInstruction, ties: Ties) -> None:
    details = instruction.details
    numbers = details.convolution_dimension_numbers
    ties.leave(instruction, "a convolution runs along it")
    known: list[tuple[Part, Part]] = []
    if details.batch_group_count <= 1:
        known.append(((0, (), numbers.input_batch_dimension), (RESULT, (), numbers.output_batch_dimension)))
        if details.feature_group_count <= 1:
            kernel, output = numbers.kernel_output_feature_dimension, numbers.output_feature_dimension
            known.append(((1, (), kernel), (RESULT, (), output)))
    if details.feature_group_count <= 1:
        known.append(((0, (), numbers.input_feature_dimension), (1, (), numbers.kernel_input_feature_dimension)))
    for number, window in enumerate(details.window.dimensions):
        if _is_trivial(window):
            inputs, outputs = numbers.input_spatial_dimensions, numbers.output_spatial_dimensions
            known.append(((0, (), inputs[number]), (RESULT, (), outputs[number])))
    for pair in known:
        ties.tie(pair)
        for part in pair:
            ties.unknown.pop(part, None)


def lie_side_by_side(window: xla.WindowDimension) -> bool:
    """Whether windows lie side by side, as where XLA reduces a dimension in two steps."""
    return window.size > 1 and window.stride == window.size and window.base_dilation <= 1 >= window.window_dilation


def _reduce_window(instruction: HloInstruction, ties: Ties) -> None:
    windows = instruction.details.window.dimensions
    for number, window in enumerate(windows):
        results: list[Part] = [(RESULT, index, number) for index, _ in _results(instruction)]
        arrays = [(each, (), number) for each, shape in _operands(instruction) if shape.rank == len(windows)]
        if _is_trivial(window):
            ties.tie([*results, *arrays])
        elif lie_side_by_side(window):
            ties.tie(arrays)  # with other windows the result has the same size
            ties.unknown.update(dict.fromkeys(results, "it counts windows of another dimension"))
        else:
            ties.leave(instruction, "a window runs along it", [number])


def _slice(instruction: HloInstruction, ties: Ties) -> None:
    before, after = instruction.operands[0].shape.dimensions, instruction.shape.dimensions
    for number, (size, kept) in enumerate(zip(before, after, strict=True)):
        if size == kept:
            ties.tie([(0, (), number), (RESULT, (), number)])
        elif kept == 1:
            ties.stepped.add((0, (), number))
        else:
            for who in (0, RESULT):
                ties.unknown[who, (), number] = "a part of it is taken, and whether that part changes too"


def _dynamic_slice(instruction: HloInstruction, ties: Ties) -> None:
    before, after = instruction.operands[0].shape.dimensions, instruction.shape.dimensions
    for number, (size, kept) in enumerate(zip(before, after, strict=True)):
        if size == kept:
            ties.tie([(0, (), number), (RESULT, (), number)])
        elif kept == 1:
            ties.stepped.add((0, (), number))
        else:
            ties.unknown[RESULT, (), number] = "it is a part of a larger array"


def _dynamic_update_slice(instruction: HloInstruction, ties: Ties) -> None:
    update = instruction.operands[1].shape.dimensions
    for number, (size, written) in enumerate(zip(instruction.shape.dimensions, update, strict=True)):
        parts: list[Part] = [(0, (), number), (RESULT, (), number)]
        ties.tie([*parts, (1, (), number)] if size == written else parts)
        if written == 1 and size != written:
            ties.stepped.update(parts)
        elif size != written:
            ties.unknown[1, (), number] = "it is a part of a larger array"


def _pad(instruction: HloInstruction, ties: Ties) -> None:
    for number, each in enumerate(instruction.details.padding_config.dimensions):
        if not each.edge_padding_low and not each.edge_padding_high and not each.interior_padding:
            ties.tie([(0, (), number), (RESULT, (), number)])
        else:
            ties.leave(instruction, "it is padded, and to which size", [number])


def _concatenate(instruction: HloInstruction, ties: Ties) -> None:
    along = instruction.details.dimensions[0]
    ties.tie_all([(RESULT, instruction.shape), *_operands(instruction)], leave=[along])
    if len(instruction.operands) > 1:
        ties.leave(instruction, "arrays are joined along it", [along])
    else:
        ties.tie([(0, (), along), (RESULT, (), along)])


def _gather(instruction: HloInstruction, ties: Ties) -> None:
    numbers, sizes = instruction.details.gather_dimension_numbers, instruction.details.gather_slice_sizes
    operand, indices = instruction.operands[0].shape, instruction.operands[1].shape
    left_out = {*numbers.collapsed_slice_dims, *numbers.operand_batching_dims}
    offsets = [*numbers.offset_dims]
    inside = [number for number in range(operand.rank) if number not in left_out]
    for number, result in zip(inside, offsets, strict=True):
        if sizes[number] == operand.dimensions[number]:
            ties.tie([(0, (), number), (RESULT, (), result)])
        else:
            ties.looked_up.add((0, (), number))
            ties.unknown[RESULT, (), result] = "it is a part of a larger array"
    ties.looked_up.update([(0, (), number) for number in numbers.collapsed_slice_dims])
    batch = [number for number in range(instruction.shape.rank) if number not in offsets]
    _tie_indices(ties, (RESULT, batch), indices, numbers.index_vector_dim)
    pairs = zip(numbers.operand_batching_dims, numbers.start_indices_batching_dims, strict=True)
    for number, index in pairs:
        ties.tie([(0, (), number), (1, (), index)])
    _tie_counted(instruction, ties, numbers.start_index_map, numbers.index_vector_dim)


def _scatter(instruction: HloInstruction, ties: Ties) -> None:
    numbers = instruction.details.scatter_dimension_numbers
    count = len(instruction.operands) // 2
    indices, updates = instruction.operands[count].shape, instruction.operands[count + 1].shape
    windows = [*numbers.update_window_dims]
    left_out = {*numbers.inserted_window_dims, *numbers.input_batching_dims}
    operand = instruction.operands[0].shape
    inside = [number for number in range(operand.rank) if number not in left_out]
    for number in range(operand.rank):
        parts: list[Part] = [(each, (), number) for each in range(count)]
        ties.tie([*parts, *[(RESULT, index, number) for index, _ in _results(instruction)]])
    for number, window in zip(inside, windows, strict=True):
        if operand.dimensions[number] == updates.dimensions[window]:
            ties.tie([(0, (), number), *[(count + 1 + each, (), window) for each in range(count)]])
        else:
            ties.looked_up.add((0, (), number))
    ties.looked_up.update([(0, (), number) for number in numbers.inserted_window_dims])
    batch = [number for number in range(updates.rank) if number not in windows]
    for each in range(count):
        _tie_indices(ties, (count + 1 + each, batch), indices, numbers.index_vector_dim, count)
    for number, index in zip(numbers.input_batching_dims, numbers.scatter_indices_batching_dims, strict=True):
        ties.tie([(0, (), number), (count, (), index)])
    _tie_counted(instruction, ties, numbers.scatter_dims_to_operand_dims, numbers.index_vector_dim, count)


def _tie_indices(ties: Ties, batch: tuple[int, Sequence[int]], indices: Shape, vector: int, number: int = 1) -> None:
    """Ties the dimensions of indices, but for the one of index vectors, with those of another array, in order."""
    who, dimensions = batch
    own = [each for each in range(indices.rank) if each != vector]
    for mine, other in zip(own, dimensions, strict=True):
        ties.tie([(number, (), mine), (who, (), other)])


def _tie_counted(
    instruction: HloInstruction, ties: Ties, dimensions: Sequence[int], vector: int, number: int = 1
) -> None:
    """Ties the dimensions of the first operand whose indices only count along a dimension of the indices, as those of
    jnp.take_along_axis do along a batch: nothing is looked up there."""
    indices = instruction.operands[number]
    for component, dimension in enumerate(dimensions):
        counted = _counted(indices, component, vector)
        if counted is not None:
            here, there = (0, (), dimension), (number, (), counted[0])
            ties.looked_up.discard(here)
            ties.inside.setdefault(here, []).append((there, counted[1]))
            ties.factors.setdefault(there, []).append((here, counted[1]))


def _counted(indices: HloInstruction, component: int, vector: int) -> tuple[int, int] | None:
    """The dimension of `indices` along which this component of its vectors counts from 0, and the elements there
    between two steps of the count; None where it does not count."""
    array, along = indices, vector if vector < indices.shape.rank else -1
    # Dimension of `array` → the dimension of `indices` that it is a factor of, and the elements between two steps.
    own = {each: (each, 1) for each in range(indices.shape.rank)}
    for _ in range(_MOST_STEPS):
        opcode, row = array.opcode, array.kind.row
        if opcode is Opcode.IOTA:
            dimension = array.details.dimensions[0]
            return own.get(dimension) if dimension != along else None
        if opcode is Opcode.CONCATENATE and array.details.dimensions[0] == along:
            for operand in array.operands:
                size = operand.shape.dimensions[along]
                if component < size:
                    array = operand
                    break
                component -= size
        elif opcode is Opcode.PARAMETER:
            callers = array.computation.module.callers_of(array.computation)
            if len(callers) != 1 or callers[0].kind.row.calls.arguments is not Arguments.OPERANDS:
                return None
            array = callers[0].operands[array.number]
        elif row.calls.arguments is Arguments.OPERANDS and array.called_computations and not array.shape.is_tuple:
            array = array.called_computations[0].root
        elif opcode is Opcode.BROADCAST:
            moved = {after: before for before, after in enumerate(array.details.dimensions)}
            own = {moved[each]: of for each, of in own.items() if each in moved}
            array, along = array.operands[0], moved.get(along, -1)
        elif opcode in REGROUPS:
            before, after = array.operands[0].shape, array.shape
            orders = reshape_order(array, before), reshape_order(array, after)
            found: dict[int, tuple[int, int]] = {}
            vectors = [-1]
            for dimension, size in enumerate(before.dimensions):
                to = regrouped(before, orders[0], dimension, 1, size, after, orders[1])
                if to is not None and to[0] == along and size > 1:
                    vectors.append(dimension)
                elif to is not None and to[0] in own:
                    found[dimension] = own[to[0]][0], own[to[0]][1] * to[1]
            array, along, own = array.operands[0], vectors[-1], found
        elif row.reads is ReadPattern.SAME and len(array.operands) == 1:
            array = array.operands[0]
        else:
            return None
    return None


def _leading(count: int) -> Callable[[HloInstruction, Ties], None]:
    """A rule for an operation on the last `count` dimensions of each array, for each index of the others."""

    def rule(instruction: HloInstruction, ties: Ties) -> None:
        rank = instruction.operands[0].shape.rank
        inner = len(instruction.details.fft_length) or count
        last = range(max(0, rank - inner), rank)
        ties.leave(instruction, "an algorithm of the whole matrix runs along it", last)
        for dimension in range(rank - inner):
            parts: list[Part] = [(RESULT, index, dimension) for index, _ in _results(instruction)]
            ties.tie([*parts, *[(n, (), dimension) for n, shape in _operands(instruction) if shape.rank == rank]])

    return rule


def _batch_norm(instruction: HloInstruction, ties: Ties) -> None:
    rank, feature = instruction.operands[0].shape.rank, instruction.details.feature_index
    for dimension in range(rank):
        ties.tie(
            [
                (who, index, dimension if shape.rank == rank else 0)
                for who, index, shape in _arrays(instruction)
                if shape.rank == rank or dimension == feature
            ]
        )


def _random_bits(instruction: HloInstruction, ties: Ties) -> None:
    if instruction.shape.is_tuple:
        ties.tie_all([(RESULT, instruction.shape.tuple_shapes[0]), (0, instruction.operands[0].shape)], (0,))


def _copy_start(instruction: HloInstruction, ties: Ties) -> None:
    ties.tie_all([(RESULT, instruction.shape.tuple_shapes[0]), (0, instruction.operands[0].shape)], (0,))


def _free(_instruction: HloInstruction, _ties: Ties) -> None:
    """The result has any size that is wanted."""


def _constant(instruction: HloInstruction, ties: Ties) -> None:
    ties.leave(instruction, "a constant of the program has its size")


def _custom_call(instruction: HloInstruction, ties: Ties) -> None:
    if instruction.details.custom_call_target == "Sharding":
        ties.tie_all([(RESULT, instruction.shape), (0, instruction.operands[0].shape)])
        return
    ties.leave(instruction, f"what the custom call {instruction.details.custom_call_target} does with it")
    # So that more than nothing is known of the size of the changed module: dimensions of the same size and number.
    for dimension in range(max([shape.rank for _, _, shape in _arrays(instruction)], default=0)):
        sizes: dict[int, list[Part]] = {}
        for who, index, shape in _arrays(instruction):
            if dimension < shape.rank:
                sizes.setdefault(shape.dimensions[dimension], []).append((who, index, dimension))
        for parts in sizes.values():
            ties.tie(parts)


_RULES: Final[dict[Opcode, Callable[[HloInstruction, Ties], None]]] = {
    Opcode.ALL_GATHER: _each_alone,
    Opcode.ALL_REDUCE: _each_alone,
    Opcode.ALL_TO_ALL: _each_alone,
    Opcode.BATCH_NORM_GRAD: _batch_norm,
    Opcode.BATCH_NORM_INFERENCE: _batch_norm,
    Opcode.BATCH_NORM_TRAINING: _batch_norm,
    Opcode.BROADCAST: _broadcast,
    Opcode.CHOLESKY: _leading(2),
    Opcode.COLLECTIVE_BROADCAST: _each_alone,
    Opcode.COLLECTIVE_PERMUTE: _each_alone,
    Opcode.CONCATENATE: _concatenate,
    Opcode.CONSTANT: _constant,
    Opcode.CONVOLUTION: _convolution,
    Opcode.COPY: _elementwise,
    Opcode.COPY_START: _copy_start,
    Opcode.CUSTOM_CALL: _custom_call,
    Opcode.DOT: _dot,
    Opcode.DYNAMIC_SLICE: _dynamic_slice,
    Opcode.DYNAMIC_UPDATE_SLICE: _dynamic_update_slice,
    Opcode.FFT: _leading(1),
    Opcode.GATHER: _gather,
    Opcode.IOTA: _free,
    Opcode.MAP: _elementwise,
    Opcode.PAD: _pad,
    Opcode.REDUCE: _reduce,
    Opcode.REDUCE_SCATTER: _each_alone,
    Opcode.REDUCE_WINDOW: _reduce_window,
    Opcode.REVERSE: _elementwise,
    Opcode.RNG: _free,
    Opcode.RNG_BIT_GENERATOR: _random_bits,
    Opcode.SCATTER: _scatter,
    Opcode.SLICE: _slice,
    Opcode.SORT: _all_alike,
    Opcode.TOPK: _leading(1),
    Opcode.TRANSPOSE: _transpose,
    Opcode.TRIANGULAR_SOLVE: _leading(2),
}


def ties_of(instruction: HloInstruction) -> Ties:
    """What the rule of an instruction's opcode says."""
    ties = Ties()
    opcode, row = instruction.opcode, instruction.kind.row
    rule = _RULES.get(opcode) if isinstance(opcode, Opcode) else None
    if rule is not None:
        rule(instruction, ties)
    elif row.reads is ReadPattern.SAME:
        _elementwise(instruction, ties)
    else:
        ties.leave(instruction, f"what the {opcode} does with it")
    return ties


# -- reshapes ---------------------------------------------------------------------------------


def reshape_order(instruction: HloInstruction, shape: Shape) -> list[int]:
    """The dimensions of an array in the order in which a reshape counts its elements, the slowest first: a bitcast
    counts them as they lie in memory."""
    if instruction.opcode is Opcode.BITCAST and shape.layout is not None:
        return [*reversed(shape.layout.minor_to_major)]
    return [*range(shape.rank)]


def regrouped(
    before: Shape, order: Sequence[int], dimension: int, inner: int, size: int, after: Shape, other: Sequence[int]
) -> tuple[int, int] | None:
    """Where a reshape has a factor `size` of a dimension: the dimension of the other array, and the elements between
    two steps there. None where it is split."""
    position = order.index(dimension)
    flat = inner * prod([before.dimensions[each] for each in order[position + 1 :]])
    minor = 1
    for each in reversed(other):
        extent = after.dimensions[each]
        if extent > 1 and flat < minor * extent:
            inside, rest = divmod(flat, minor)
            if rest or minor * extent % (flat * size):
                return None
            return each, inside
        minor *= extent
    return None
