"""Which dimensions of a module change together with one dimension of an argument, and the module in which they have
another size.

A dimension is followed from instruction to instruction: a rule for each opcode says which dimensions of operands and
result are the same one. A reshape may make it a factor of a dimension, as 8 is of the 512 that [8,64] becomes: of every
dimension it is kept how many elements lie between two steps of the factor, so that a later reshape finds it again.
Where a dimension goes into something that is not known, the reason is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from math import prod
from typing import Any, Final, NamedTuple, TypeAlias

from xlashape.hlo.editing.edits import set_kinds
from xlashape.hlo.flow import Index, handed_on_from, handed_on_to
from xlashape.hlo.kind import Kind
from xlashape.hlo.module import HloComputation, HloInstruction, HloModule
from xlashape.hlo.ops.calls import Arguments
from xlashape.hlo.ops.opcode import Opcode
from xlashape.hlo.ops.operation import AsyncStep, ReadPattern, ResultSource
from xlashape.limits import spend
from xlashape.proto import xla
from xlashape.shape import Shape

RESULT: Final = -1
_REGROUPS: Final = (Opcode.RESHAPE, Opcode.BITCAST)
_MOST_STEPS: Final = 16
"""The most instructions between a gather or a scatter and what its indices count with."""
_Part: TypeAlias = tuple[int, Index, int]
"""A dimension of an operand or of the result: the operand's number or RESULT, where the array is in a tuple, and the
number of the dimension."""
_Place: TypeAlias = tuple[HloInstruction, Index]


class Axis(NamedTuple):
    """A dimension of a parameter of the program."""

    parameter: int
    dimension: int


class Followed:
    """What changes together with one axis of a parameter."""

    def __init__(self, axis: Axis, size: int) -> None:
        self.size = size
        self.axes: list[Axis] = [axis]
        """The axes of parameters that get the new size together."""
        self.marks: dict[_Place, dict[int, int]] = {}
        """Array → its dimensions that change → the elements between two steps of the axis in that dimension."""
        self.is_looked_up = False
        """Whether indices that the program computes choose elements along it, as in a table of words."""
        self.is_stepped = False
        """Whether it is taken apart into single elements, as a loop over layers or over time does."""
        self.is_batch_of_dot = False
        """Whether products are computed for each of its elements alone, as for heads of attention."""
        self.unknown: dict[str, str] = {}
        """Reason → the name of the first instruction where the dimension could not be followed for this reason."""


class _Ties:
    """Which dimensions of an instruction's operands and result are the same one."""

    def __init__(self) -> None:
        self.same: dict[_Part, list[_Part]] = {}
        self.inside: dict[_Part, list[tuple[_Part, int]]] = {}
        """Dimension → another one of which it is a factor, and the elements there between two steps of it."""
        self.factors: dict[_Part, list[tuple[_Part, int]]] = {}
        """Dimension → what is a factor of it, and the elements between two steps of that."""
        self.looked_up: set[_Part] = set()
        self.stepped: set[_Part] = set()
        self.of_dot: set[_Part] = set()
        self.unknown: dict[_Part, str] = {}

    def tie(self, parts: Iterable[_Part]) -> None:
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


def _elementwise(instruction: HloInstruction, ties: _Ties) -> None:
    places = [(RESULT, instruction.shape), *_operands(instruction)]
    ranks = {shape.rank for _, shape in places if shape.rank}
    if len(ranks) == 2:  # bitcast-convert, which splits the last dimension or merges it
        for dimension in range(min(ranks)):
            ties.tie([(RESULT, (), dimension), (0, (), dimension)])
    else:
        ties.tie_all(places)


def _each_alone(instruction: HloInstruction, ties: _Ties) -> None:
    """Array number i of the result is like operand number i."""
    for number, (index, shape) in enumerate(_results(instruction)):
        if number < len(instruction.operands):
            ties.tie_all([(RESULT, shape), (number, instruction.operands[number].shape)], index)


def _all_alike(instruction: HloInstruction, ties: _Ties) -> None:
    """All operands and results have the same dimensions."""
    shapes = _results(instruction)
    for dimension in range(instruction.operands[0].shape.rank):
        parts: list[_Part] = [(RESULT, index, dimension) for index, _ in shapes]
        ties.tie([*parts, *[(number, (), dimension) for number, _ in _operands(instruction)]])


def _broadcast(instruction: HloInstruction, ties: _Ties) -> None:
    for operand, result in enumerate(instruction.details.dimensions):
        ties.tie([(0, (), operand), (RESULT, (), result)])


def _transpose(instruction: HloInstruction, ties: _Ties) -> None:
    for result, operand in enumerate(instruction.details.dimensions):
        ties.tie([(0, (), operand), (RESULT, (), result)])


def _reduce(instruction: HloInstruction, ties: _Ties) -> None:
    arrays = range(len(instruction.operands) // 2)
    kept = [d for d in range(instruction.operands[0].shape.rank) if d not in instruction.details.dimensions]
    for result, operand in enumerate(kept):
        parts: list[_Part] = [(number, (), operand) for number in arrays]
        ties.tie([*parts, *[(RESULT, index, result) for index, _ in _results(instruction)]])
    for dimension in instruction.details.dimensions:
        ties.tie([(number, (), dimension) for number in arrays])


def _dot(instruction: HloInstruction, ties: _Ties) -> None:
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


def _convolution(instruction: HloInstruction, ties: _Ties) -> None:
    details = instruction.details
    numbers = details.convolution_dimension_numbers
    ties.leave(instruction, "a convolution runs along it")
    known: list[tuple[_Part, _Part]] = []
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


def _tiles(window: xla.WindowDimension) -> bool:
    """Whether windows lie side by side, as where XLA reduces a dimension in two steps."""
    return window.size > 1 and window.stride == window.size and window.base_dilation <= 1 >= window.window_dilation


def _reduce_window(instruction: HloInstruction, ties: _Ties) -> None:
    windows = instruction.details.window.dimensions
    for number, window in enumerate(windows):
        results: list[_Part] = [(RESULT, index, number) for index, _ in _results(instruction)]
        arrays = [(each, (), number) for each, shape in _operands(instruction) if shape.rank == len(windows)]
        if _is_trivial(window):
            ties.tie([*results, *arrays])
        elif _tiles(window):
            ties.tie(arrays)  # with other windows the result has the same size
            ties.unknown.update(dict.fromkeys(results, "it counts windows of another dimension"))
        else:
            ties.leave(instruction, "a window runs along it", [number])


def _slice(instruction: HloInstruction, ties: _Ties) -> None:
    before, after = instruction.operands[0].shape.dimensions, instruction.shape.dimensions
    for number, (size, kept) in enumerate(zip(before, after, strict=True)):
        if size == kept:
            ties.tie([(0, (), number), (RESULT, (), number)])
        elif kept == 1:
            ties.stepped.add((0, (), number))
        else:
            for who in (0, RESULT):
                ties.unknown[who, (), number] = "a part of it is taken, and whether that part changes too"


def _dynamic_slice(instruction: HloInstruction, ties: _Ties) -> None:
    before, after = instruction.operands[0].shape.dimensions, instruction.shape.dimensions
    for number, (size, kept) in enumerate(zip(before, after, strict=True)):
        if size == kept:
            ties.tie([(0, (), number), (RESULT, (), number)])
        elif kept == 1:
            ties.stepped.add((0, (), number))
        else:
            ties.unknown[RESULT, (), number] = "it is a part of a larger array"


def _dynamic_update_slice(instruction: HloInstruction, ties: _Ties) -> None:
    update = instruction.operands[1].shape.dimensions
    for number, (size, written) in enumerate(zip(instruction.shape.dimensions, update, strict=True)):
        parts: list[_Part] = [(0, (), number), (RESULT, (), number)]
        ties.tie([*parts, (1, (), number)] if size == written else parts)
        if written == 1 and size != written:
            ties.stepped.update(parts)
        elif size != written:
            ties.unknown[1, (), number] = "it is a part of a larger array"


def _pad(instruction: HloInstruction, ties: _Ties) -> None:
    for number, each in enumerate(instruction.details.padding_config.dimensions):
        if not each.edge_padding_low and not each.edge_padding_high and not each.interior_padding:
            ties.tie([(0, (), number), (RESULT, (), number)])
        else:
            ties.leave(instruction, "it is padded, and to which size", [number])


def _concatenate(instruction: HloInstruction, ties: _Ties) -> None:
    along = instruction.details.dimensions[0]
    ties.tie_all([(RESULT, instruction.shape), *_operands(instruction)], leave=[along])
    if len(instruction.operands) > 1:
        ties.leave(instruction, "arrays are joined along it", [along])
    else:
        ties.tie([(0, (), along), (RESULT, (), along)])


def _gather(instruction: HloInstruction, ties: _Ties) -> None:
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


def _scatter(instruction: HloInstruction, ties: _Ties) -> None:
    numbers = instruction.details.scatter_dimension_numbers
    count = len(instruction.operands) // 2
    indices, updates = instruction.operands[count].shape, instruction.operands[count + 1].shape
    windows = [*numbers.update_window_dims]
    left_out = {*numbers.inserted_window_dims, *numbers.input_batching_dims}
    operand = instruction.operands[0].shape
    inside = [number for number in range(operand.rank) if number not in left_out]
    for number in range(operand.rank):
        parts: list[_Part] = [(each, (), number) for each in range(count)]
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


def _tie_indices(ties: _Ties, batch: tuple[int, Sequence[int]], indices: Shape, vector: int, number: int = 1) -> None:
    """Ties the dimensions of indices, but for the one of index vectors, with those of another array, in order."""
    who, dimensions = batch
    own = [each for each in range(indices.rank) if each != vector]
    for mine, other in zip(own, dimensions, strict=True):
        ties.tie([(number, (), mine), (who, (), other)])


def _tie_counted(
    instruction: HloInstruction, ties: _Ties, dimensions: Sequence[int], vector: int, number: int = 1
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
        elif opcode in _REGROUPS:
            before, after = array.operands[0].shape, array.shape
            orders = _order(array, before), _order(array, after)
            found: dict[int, tuple[int, int]] = {}
            vectors = [-1]
            for dimension, size in enumerate(before.dimensions):
                to = _regrouped(before, orders[0], dimension, 1, size, after, orders[1])
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


def _leading(count: int) -> Callable[[HloInstruction, _Ties], None]:
    """A rule for an operation on the last `count` dimensions of each array, for each index of the others."""

    def rule(instruction: HloInstruction, ties: _Ties) -> None:
        rank = instruction.operands[0].shape.rank
        inner = len(instruction.details.fft_length) or count
        last = range(max(0, rank - inner), rank)
        ties.leave(instruction, "an algorithm of the whole matrix runs along it", last)
        for dimension in range(rank - inner):
            parts: list[_Part] = [(RESULT, index, dimension) for index, _ in _results(instruction)]
            ties.tie([*parts, *[(n, (), dimension) for n, shape in _operands(instruction) if shape.rank == rank]])

    return rule


def _batch_norm(instruction: HloInstruction, ties: _Ties) -> None:
    rank, feature = instruction.operands[0].shape.rank, instruction.details.feature_index
    for dimension in range(rank):
        ties.tie(
            [
                (who, index, dimension if shape.rank == rank else 0)
                for who, index, shape in _arrays(instruction)
                if shape.rank == rank or dimension == feature
            ]
        )


def _random_bits(instruction: HloInstruction, ties: _Ties) -> None:
    if instruction.shape.is_tuple:
        ties.tie_all([(RESULT, instruction.shape.tuple_shapes[0]), (0, instruction.operands[0].shape)], (0,))


def _copy_start(instruction: HloInstruction, ties: _Ties) -> None:
    ties.tie_all([(RESULT, instruction.shape.tuple_shapes[0]), (0, instruction.operands[0].shape)], (0,))


def _free(_instruction: HloInstruction, _ties: _Ties) -> None:
    """The result has any size that is wanted."""


def _constant(instruction: HloInstruction, ties: _Ties) -> None:
    ties.leave(instruction, "a constant of the program has its size")


def _custom_call(instruction: HloInstruction, ties: _Ties) -> None:
    if instruction.details.custom_call_target == "Sharding":
        ties.tie_all([(RESULT, instruction.shape), (0, instruction.operands[0].shape)])
        return
    ties.leave(instruction, f"what the custom call {instruction.details.custom_call_target} does with it")
    # So that more than nothing is known of the size of the changed module: dimensions of the same size and number.
    for dimension in range(max([shape.rank for _, _, shape in _arrays(instruction)], default=0)):
        sizes: dict[int, list[_Part]] = {}
        for who, index, shape in _arrays(instruction):
            if dimension < shape.rank:
                sizes.setdefault(shape.dimensions[dimension], []).append((who, index, dimension))
        for parts in sizes.values():
            ties.tie(parts)


_RULES: Final[dict[Opcode, Callable[[HloInstruction, _Ties], None]]] = {
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


def _ties(instruction: HloInstruction) -> _Ties:
    ties = _Ties()
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


def _order(instruction: HloInstruction, shape: Shape) -> list[int]:
    """The dimensions of an array in the order in which a reshape counts its elements, the slowest first: a bitcast
    counts them as they lie in memory."""
    if instruction.opcode is Opcode.BITCAST and shape.layout is not None:
        return [*reversed(shape.layout.minor_to_major)]
    return [*range(shape.rank)]


def _regrouped(
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


# -- following --------------------------------------------------------------------------------


class Dimensions:
    """Follows axes of parameters through a module."""

    def __init__(self, module: HloModule) -> None:
        self._module = module
        self._ties: dict[HloInstruction, _Ties] = {}

    def follow(self, axis: Axis) -> Followed:
        """What changes together with an axis of a parameter that is an array."""
        start = self._module.entry.parameters[axis.parameter]
        found = Followed(axis, start.shape.dimensions[axis.dimension])
        pending: list[tuple[_Place, int]] = []

        def mark(place: _Place, dimension: int, inner: int, by: HloInstruction) -> None:
            instruction, index = place
            marks = found.marks.setdefault(place, {})
            known = marks.get(dimension)
            if known is None:
                shape = _part(instruction.shape, index)
                if shape.dimensions[dimension] % (inner * found.size):
                    found.unknown.setdefault("only a part of it goes on", by.name)
                    return
                marks[dimension] = inner
                pending.append((place, dimension))
                if instruction.opcode is Opcode.PARAMETER and instruction.computation is self._module.entry:
                    each = Axis(instruction.number, dimension)
                    if index or inner != 1 or shape.dimensions[dimension] != found.size:
                        found.unknown.setdefault("the size of an argument would be a multiple of it", by.name)
                    elif each not in found.axes:
                        found.axes.append(each)
            elif known != inner:
                found.unknown.setdefault("it is joined with another dimension in two ways", by.name)

        mark((start, ()), axis.dimension, 1, start)
        while pending:
            spend()
            place, dimension = pending.pop()
            instruction, index = place
            inner = found.marks[place][dimension]
            for other in self._same_arrays(instruction, index):
                mark(other, dimension, inner, instruction)
            self._tied(found, mark, instruction, (RESULT, index, dimension), inner)
            for user in instruction.users:
                for number, operand in enumerate(user.operands):
                    if operand is instruction:
                        self._tied(found, mark, user, (number, index, dimension), inner)
        return found

    def _tied(self, found: Followed, mark: Any, instruction: HloInstruction, part: _Part, inner: int) -> None:
        """Marks what an instruction ties with a dimension of an operand or of its result."""
        if instruction.opcode in _REGROUPS:
            who, _, dimension = part
            shapes = [instruction.operands[0].shape, instruction.shape]
            before, after = shapes if who == 0 else shapes[::-1]
            orders = _order(instruction, before), _order(instruction, after)
            moved = _regrouped(before, orders[0], dimension, inner, found.size, after, orders[1])
            if moved is None:
                found.unknown.setdefault("a reshape splits it", instruction.name)
            else:
                mark((instruction if who == 0 else instruction.operands[0], ()), *moved, instruction)
            return
        if _hands_on(instruction):
            return
        ties = self._ties.get(instruction)
        if ties is None:
            ties = self._ties[instruction] = _ties(instruction)
        found.is_looked_up = found.is_looked_up or part in ties.looked_up
        found.is_stepped = found.is_stepped or part in ties.stepped
        found.is_batch_of_dot = found.is_batch_of_dot or part in ties.of_dot
        reason = ties.unknown.get(part)
        if reason is not None:
            found.unknown.setdefault(reason, instruction.name)
        reached = [(other, inner) for other in ties.same.get(part, ())]
        reached += [(other, inner * step) for other, step in ties.inside.get(part, ())]
        for other, step in ties.factors.get(part, ()):
            extent = instruction.operands[other[0]].shape.dimensions[other[2]]
            if inner % step == 0 and extent % (inner // step * found.size) == 0:
                reached.append((other, inner // step))
        for (who, at, dimension), step in reached:
            mark((instruction if who == RESULT else instruction.operands[who], at), dimension, step, instruction)

    def _same_arrays(self, instruction: HloInstruction, index: Index) -> Iterator[_Place]:
        """The arrays that are an array under another name: in tuples, and on the other side of a call."""
        if instruction.opcode not in _REGROUPS:
            source = handed_on_from(instruction, index)
            if source is not None:
                yield source.instruction, source.at
        for user in instruction.users:
            for number, operand in enumerate(user.operands):
                if operand is instruction:
                    if user.opcode not in _REGROUPS:
                        to = handed_on_to(user, number, index)
                        if to is not None:
                            yield user, to
                    yield from _entered(user, number, index)
                    if user.kind.row.repeated_operand is not None:
                        yield from _repeated(user, number, index)
        yield from _returned(instruction, index)
        computation = instruction.computation
        if instruction.opcode is Opcode.PARAMETER:
            for caller in dict.fromkeys(self._module.callers_of(computation)):
                for number in range(len(caller.operands)):
                    if any(place[0] is instruction for place in _entered(caller, number, index)):
                        yield caller.operands[number], index
        if instruction is computation.root:
            for caller in dict.fromkeys(self._module.callers_of(computation)):
                if _returns(caller, computation):
                    yield caller, (1, *index) if caller.kind.row.async_step is AsyncStep.START else index
                    if caller.kind.row.calls.arguments is Arguments.CARRIED:
                        yield caller.operands[0], index


def _entered(caller: HloInstruction, number: int, index: Index) -> Iterator[_Place]:
    """The parameters of called computations, and the result of a loop, that an operand becomes."""
    arguments, called = caller.kind.row.calls.arguments, caller.called_computations
    if arguments is Arguments.OPERANDS:
        for each in called[:1]:
            if number < len(each.parameters):
                yield each.parameters[number], index
    elif arguments is Arguments.CARRIED:
        yield from [(each.parameters[0], index) for each in called]
        yield caller, index
    elif arguments is Arguments.ONE_OPERAND_EACH and 0 < number <= len(called):
        yield called[number - 1].parameters[0], index


def _returned(caller: HloInstruction, index: Index) -> Iterator[_Place]:
    """The results of called computations that a result is."""
    if caller.kind.row.async_step is AsyncStep.START and caller.called_computations:
        if index[:1] == (1,):
            yield caller.called_computations[0].root, index[1:]
        return
    for each in caller.called_computations:
        if _returns(caller, each):
            yield each.root, index
    if caller.kind.row.calls.arguments is Arguments.CARRIED:
        yield caller.operands[0], index


def _returns(caller: HloInstruction, called: HloComputation) -> bool:
    arguments = caller.kind.row.calls.arguments
    is_condition = arguments is Arguments.CARRIED and called is not caller.called_computations[0]
    return arguments is not Arguments.ELEMENTS and not is_condition


def _repeated(start: HloInstruction, number: int, index: Index) -> Iterator[_Place]:
    """Where the result of an asynchronous start has its operand again."""
    first = start.kind.row.repeated_operand or 0
    for place in ((first, *index), (first, number, *index)):
        found = handed_on_from(start, place) if _has(start.shape, place) else None
        if found is not None and found.instruction is start.operands[number] and found.at == index:
            yield start, place


def _hands_on(instruction: HloInstruction) -> bool:
    """Whether an instruction only hands arrays on, to a tuple or to a called computation."""
    row = instruction.kind.row
    return row.source is not ResultSource.COMPUTED or row.calls.arguments is not Arguments.ELEMENTS


def _part(shape: Shape, index: Index) -> Shape:
    for each in index:
        shape = shape.tuple_shapes[each]
    return shape


def _has(shape: Shape, index: Index) -> bool:
    for each in index:
        if not shape.is_tuple or not 0 <= each < len(shape.tuple_shapes):
            return False
        shape = shape.tuple_shapes[each]
    return True


# -- the changed module -----------------------------------------------------------------------


def resized(module: HloModule, followed: Followed, size: int) -> HloModule:
    """A copy of the module in which the axes that were followed have another size, and all that depends on it."""
    copy = module.copy()
    marks: dict[HloInstruction, list[tuple[Index, tuple[int, ...]]]] = {}
    read: dict[HloInstruction, tuple[Shape, tuple[int, ...]]] = {}
    for (instruction, index), dimensions in followed.marks.items():
        marks.setdefault(instruction, []).append((index, tuple(dimensions)))
        for user in instruction.users:
            if user.opcode in (Opcode.GATHER, Opcode.REDUCE_WINDOW) and user.operands[0] is instruction:
                read[user] = instruction.shape, tuple(dimensions)
    made: dict[Any, Kind] = {}
    kinds: dict[HloInstruction, Kind] = {}
    for instruction in {**marks, **read}:
        key = instruction.kind, tuple(marks.get(instruction, ())), read.get(instruction)
        if key not in made:
            change = _Resize(followed.size, size, key[1], key[2])
            made[key] = instruction.kind.changed(change.apply)
        kinds[copy.computations[instruction.computation.index].instructions[instruction.index]] = made[key]
    set_kinds(copy, kinds)
    return copy


class _Resize(NamedTuple):
    """A change of the fields of an instruction that depend on sizes."""

    before: int
    after: int
    results: tuple[tuple[Index, tuple[int, ...]], ...]
    """The dimensions of the result that change, for each array in it."""
    operand: tuple[Shape, tuple[int, ...]] | None
    """The shape of the first operand of a gather or of a reduce-window, and its dimensions that change."""

    def apply(self, message: xla.HloInstructionProto) -> None:
        for index, dimensions in self.results:
            shape = message.shape
            for each in index:
                shape = shape.tuple_shapes[each]
            for dimension in dimensions:
                size = shape.dimensions[dimension] = self._of(shape.dimensions[dimension])
                if message.slice_dimensions:
                    message.slice_dimensions[dimension].limit = size
                if message.dynamic_slice_sizes:
                    message.dynamic_slice_sizes[dimension] = size
        if self.operand is None:
            return
        shape, dimensions = self.operand
        for dimension in dimensions:
            size = self._of(shape.dimensions[dimension])
            if message.gather_slice_sizes and message.gather_slice_sizes[dimension] == shape.dimensions[dimension]:
                message.gather_slice_sizes[dimension] = size
            window = message.window.dimensions[dimension] if message.window.dimensions else None
            if window is not None and _tiles(window):
                padding = window.padding_low + window.padding_high
                count = (shape.dimensions[dimension] + padding) // window.size
                window.size = window.stride = -(-size // count)
                window.padding_low, window.padding_high = 0, window.size * count - size

    def _of(self, size: int) -> int:
        return size // self.before * self.after
