"""The tile of every instruction of a fusion, for given tiles of its results and of the dimensions that it sums over:
the tiles that a tiled kernel computes and loads at each step of its loops.

    tiling = tile_fusion(fusion)
    tiling.parameters                   # the sizes to choose, for results and for contracted and reduced dimensions
    tiling.valid([16, 64, 32])          # whether every tile of every instruction is a box
    tiling.at([16, 64, 32])             # these boxes

XLA's SymbolicTileAnalysis answers the same question. Unlike XLA's, this analysis takes any number of results, of
different sizes too, and tiles of reduced dimensions.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, Literal, NamedTuple

from xlashape.base.math import ceil_div
from xlashape.errors import InvalidArgumentError, is_a
from xlashape.hlo import HloComputation, HloInstruction, Opcode
from xlashape.indexing.answers.leaves import WITHOUT_BOUND, dims_of, leaf_sizes, leaves
from xlashape.indexing.answers.operand_indexing import OperandIndexing
from xlashape.indexing.queries import errors_name_instruction
from xlashape.indexing.walk.analysis import Analysis
from xlashape.indexing.walk.dependencies import operands_first
from xlashape.limits import check, spend
from xlashape.symbolic import (
    Expr,
    IndexingMap,
    Interval,
    SymbolicTile,
    TileBox,
    TileConstraints,
    Var,
    Variable,
    dim,
    minimum,
    ranges_to_dims,
    symbolic_tile,
)
from xlashape.symbolic.expr.expression import variables_of
from xlashape.symbolic.tile.constraints import Condition
from xlashape.symbolic.tile.symbolic_tile import integers

MOST_TILES = 1 << 12
"""The most tiles of a fusion: each way in which an array of an instruction is read has one."""

MOST_PARAMETERS = 1 << 7
"""The most `TileParameter`s of a fusion. Every map has a dimension for each; a whole model would have thousands."""

MOST_STARTS = 1 << 12
"""The most tiles of a grid that `valid` looks at for one instruction."""

_GROUPING = (Opcode.TUPLE, Opcode.GET_TUPLE_ELEMENT)
"""Instructions that compute nothing, and get no tile."""


class TileParameter(NamedTuple):
    """One size to choose: the elements of a tile along one dimension."""

    kind: Literal["output", "contracted", "reduced"]
    """A dimension of a result; one that a dot multiplies and sums over; one that a reduce reduces."""
    instruction: HloInstruction
    """The instruction whose result has the dimension (output), or which sums over it. Results of equal sizes share
    their parameters, which name the first of these results.
    """
    dimension: int
    """The number of the dimension: in the instruction's result (output), or in its first operand."""
    size: int
    """How many elements the dimension has: the largest size of a tile."""

    def __str__(self) -> str:
        return f"{self.kind} dimension {self.dimension} of {self.instruction.name}, size {self.size}"


class InstructionTile(NamedTuple):
    """The part of one leaf of an instruction (array within its result) that a step of the kernel needs, in one of the
    ways in which the leaf is read.
    """

    instruction: HloInstruction
    leaf: int
    indexing: OperandIndexing
    """The map from the indices along `FusionTiling.parameters`, in their order, to the elements of the leaf;
    simplified, with the producers of its runtime variables.
    """
    symbolic: SymbolicTile | None
    """Offsets, sizes and strides of the tile, as expressions in the sizes d0, d1, … of the parameters; None where no
    such form is found.
    """

    @property
    def is_scalar(self) -> bool:
        """Whether the leaf is an array without dimensions: a step needs its one element or nothing of it."""
        return not self.indexing.map.results and not self.indexing.map.is_undefined

    def box(self, sizes: Sequence[int], start: Sequence[int] | None = None) -> TileBox | None:
        """The elements of the tile at the step where the parameters have these sizes and begin at `start` (None: 0),
        with runtime variables at their lower bounds; None if they do not form a box.
        """
        if self.is_scalar:
            return TileBox((), (), ())
        if self.symbolic is None:
            return None
        cut = [min(size, var.bounds.upper) for size, var in zip(sizes, self.symbolic.sizes_of_tile, strict=True)]
        return self.symbolic.evaluate(cut, [var.bounds.lower for var in self.symbolic.runtime], start)


class PlacedTile(NamedTuple):
    """The tile of an instruction at one step of the kernel, in numbers."""

    tile: InstructionTile
    box: TileBox | None
    """The elements, with runtime variables at their lower bounds; None if they do not form a box. A size of 0: nothing
    is read.
    """


@dataclass(slots=True, eq=False, repr=False)
class FusionTiling:
    """The tiles of a fusion's instructions. `parameters` are the sizes to choose, in the order in which all questions
    take them.

    >>> from xlashape.hlo import HloModule
    >>> fusion = HloModule.parse('''HloModule m
    ... sum { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(a, b) }
    ... f {
    ...   p = f32[64,96] parameter(0)
    ...   back = f32[8,8,96] reshape(p)
    ...   zero = f32[] constant(0)
    ...   ROOT r = f32[8,8] reduce(back, zero), dimensions={2}, to_apply=sum
    ... }
    ... ENTRY e { x = f32[64,96] parameter(0) ROOT y = f32[8,8] fusion(x), kind=kInput, calls=f }''').entry.root
    >>> tiling = tile_fusion(fusion)
    >>> for parameter in tiling.parameters:
    ...     print(parameter)
    output dimension 0 of r, size 8
    output dimension 1 of r, size 8
    reduced dimension 2 of r, size 96
    >>> (tile,) = tiling.tiles_of("p")
    >>> tile.symbolic.sizes, str(tile.symbolic.constraints)
    ((d0 * d1, d2), 'd0 in [1, 1] || d1 in [1, 1] || d1 in [8, 8]')
    >>> tiling.valid([2, 8, 32]), tiling.valid([2, 4, 32])
    (True, False)
    >>> (placed,) = [placed for placed in tiling.at([2, 8, 32], [6, 0, 64]) if placed.tile is tile]
    >>> tuple(placed.box)
    ((48, 64), (16, 32), (1, 1))
    """

    parameters: tuple[TileParameter, ...]
    results: tuple[tuple[HloInstruction, int], ...]
    """The arrays that the fusion returns, each as an instruction and the number of the leaf of its result."""
    tiles: tuple[InstructionTile, ...]
    """Users before their operands."""
    _constraints: TileConstraints | None = None

    @property
    def constraints(self) -> TileConstraints:
        """The constraints of all tiles on the sizes d0, d1, … of the parameters; unsatisfiable if a tile has no
        symbolic form (`untiled`).

        LimitExceededError if they have more than 4,096 alternatives. `valid` does not use them and has no such limit.
        """
        if self._constraints is None:
            combined = TileConstraints.unsatisfiable() if self.untiled else TileConstraints.always()
            for tile in () if self.untiled else self.tiles:
                if tile.symbolic is not None:
                    own = tile.symbolic.constraints.replaced(_cut_sizes(tile.symbolic, self.parameters))
                    combined = _without_implied(combined & own)
            self._constraints = combined
        return self._constraints

    @property
    def untiled(self) -> tuple[InstructionTile, ...]:
        """The tiles without a symbolic form, scalars aside. With any of them, no sizes are known to be valid."""
        return tuple([tile for tile in self.tiles if tile.symbolic is None and not tile.is_scalar])

    def tiles_of(self, instruction: HloInstruction | str) -> tuple[InstructionTile, ...]:
        """The tiles of an instruction or of the instruction of this name; empty if no result depends on it."""
        if isinstance(instruction, str):
            return tuple([tile for tile in self.tiles if tile.instruction.name == instruction])
        return tuple([tile for tile in self.tiles if tile.instruction is instruction])

    def valid(self, sizes: Sequence[int]) -> bool:
        """Whether tiles of these sizes, put next to each other from index 0 on, are boxes in each instruction.

        The constraints of a tile decide it for the tile at 0. Where they do not always hold, all tiles of the grid that
        may differ are examined; of more than 4,096 tiles, only the one at 0 is. InvalidArgumentError for sizes that
        tiles of these parameters cannot have.
        """
        chosen = self._checked(sizes)
        if self.untiled:
            return False
        spend(1 + len(self.tiles))
        return all(tile.box(chosen) is not None for tile in self.tiles) and all(
            _is_box_everywhere(tile, chosen, self.parameters) for tile in self.tiles
        )

    def sizes(self, most: int | None = None) -> Iterator[tuple[int, ...]]:
        """The valid sizes of which each is a power of two or the whole dimension, and at most `most`; the last
        parameter varies fastest.

        InvalidArgumentError for `most` below 1.
        """
        if most is not None and integers([most], "most")[0] < 1:
            raise InvalidArgumentError(f"tiles have at least one element, not {most}", field="most")
        candidates = [_candidates(parameter.size, most) for parameter in self.parameters]
        return (sizes for sizes in product(*candidates) if self.valid(sizes))

    def at(self, sizes: Sequence[int], start: Sequence[int] | None = None) -> tuple[PlacedTile, ...]:
        """Every tile of one step of the kernel, with the box of elements that it covers. `sizes` and `start` have a
        number for each parameter: the size of the step's tile, and the index at which it begins, by default 0.

        A tile that extends beyond a dimension is cut off there. InvalidArgumentError for sizes or a start that do not
        fit the parameters.
        """
        chosen = self._checked(sizes)
        first = [0] * len(chosen) if start is None else integers(start, "start")
        if len(first) != len(chosen):
            raise InvalidArgumentError(f"{len(first)} starts for {len(chosen)} parameters", field="start")
        for k, (index, parameter) in enumerate(zip(first, self.parameters, strict=True)):
            if not 0 <= index < max(1, parameter.size):
                raise InvalidArgumentError(f"the tile starts at {index} of parameter {k}: {parameter}", field="start")
        return tuple([PlacedTile(tile, tile.box(chosen, first)) for tile in self.tiles])

    def _checked(self, sizes: Sequence[int]) -> list[int]:
        chosen = integers(sizes, "sizes")
        if len(chosen) != len(self.parameters):
            raise InvalidArgumentError(f"{len(chosen)} sizes for {len(self.parameters)} parameters", field="sizes")
        for k, (size, parameter) in enumerate(zip(chosen, self.parameters, strict=True)):
            if not 1 <= size <= max(1, parameter.size):
                raise InvalidArgumentError(f"a tile has size {size} along parameter {k}: {parameter}", field="sizes")
        return chosen

    def __str__(self) -> str:
        lines = [f"d{k}: {parameter}" for k, parameter in enumerate(self.parameters)]
        for tile in self.tiles:
            symbolic = "no symbolic tile" if tile.symbolic is None else str(tile.symbolic).partition("\n")[2]
            lines.append(f"{tile.instruction.name}{f' leaf {tile.leaf}' if tile.leaf else ''}\n  {symbolic.strip()}")
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"FusionTiling({len(self.parameters)} parameters, {len(self.tiles)} tiles)"


def tile_fusion(fusion: HloInstruction | HloComputation) -> FusionTiling:
    """The tiles of all instructions that the results of a fusion are computed from, its parameters included.

    `fusion` is a fusion instruction or the computation itself; of any other instruction, the tiles are its own and
    those of its operands. Results of equal sizes are tiled alike, those of other sizes by parameters of their own. A
    fusion or call within the computation is one instruction: its tiles take the dimensions that it sums over, and
    windows, whole.

    InvalidArgumentError for a dimension without a bound in a result, LimitExceededError for more than 4,096 tiles
    or 128 parameters, else errors as for `output_to_input`.
    """
    if not is_a(fusion, (HloInstruction, HloComputation)):
        raise InvalidArgumentError(f"a fusion or computation, not {type(fusion).__name__}", field="fusion")
    if isinstance(fusion, HloInstruction) and fusion.opcode is Opcode.FUSION:
        fusion = fusion.called_computations[0]
    if isinstance(fusion, HloComputation):
        return _Walk(fusion.root, operands_first(fusion)).tiling()
    return _Walk(fusion, [fusion]).tiling()


class _Walk:
    """A walk from the results through all instructions that they depend on, users first. It finds the maps from the
    parameters' indices to each instruction.
    """

    def __init__(self, root: HloInstruction, order: list[HloInstruction]) -> None:
        self.analysis = Analysis()
        self.order = order
        self.results = [_array_of(root, leaf) for leaf in range(len(leaves(root.shape)))]
        self.parameters: list[TileParameter] = []
        # The first parameter of results of these sizes, and of the dimensions that an instruction sums over.
        self.first_of_sizes: dict[tuple[int, ...], int] = {}
        self.first_of_sum: dict[HloInstruction, int] = {}
        self.reached: dict[HloInstruction, dict[int, dict[OperandIndexing, None]]] = {}
        self.count = 0

    def tiling(self) -> FusionTiling:
        self._add_parameters()
        ranges = [Var(Interval(0, parameter.size - 1)) for parameter in self.parameters]
        for instruction, leaf in self.results:
            sizes = leaf_sizes(instruction.shape)[leaf]
            first = self.first_of_sizes[sizes]
            identity = IndexingMap(ranges, results=[dim(first + d) for d in range(len(sizes))])
            self._add(instruction, leaf, OperandIndexing(identity.simplify()))
        for instruction in reversed(self.order):
            for leaf, accesses in sorted(self.reached.get(instruction, {}).items()):
                with errors_name_instruction(instruction):
                    self._step(instruction, leaf, accesses)
        return FusionTiling(tuple(self.parameters), tuple(self.results), tuple(self._tiles()))

    def _add_parameters(self) -> None:
        for instruction, leaf in self.results:
            sizes = leaf_sizes(instruction.shape)[leaf]
            if WITHOUT_BOUND in sizes:
                raise InvalidArgumentError(f"{instruction.name} has a dimension without a bound", field="fusion")
            if sizes not in self.first_of_sizes:
                self.first_of_sizes[sizes] = len(self.parameters)
                self.parameters += [TileParameter("output", instruction, d, size) for d, size in enumerate(sizes)]
        needed = {instruction for instruction, _ in self.results}
        for instruction in reversed(self.order):
            if instruction not in needed:
                continue
            needed.update(instruction.operands)
            summed = _summed_dimensions(instruction)
            if summed:
                self.first_of_sum[instruction] = len(self.parameters)
                self.parameters += summed
        check("tile parameters", len(self.parameters), MOST_PARAMETERS)

    def _add(self, instruction: HloInstruction, leaf: int, access: OperandIndexing) -> None:
        accesses = self.reached.setdefault(instruction, {}).setdefault(leaf, {})
        if access not in accesses:
            self.count += 1
            check("tiles of a fusion", self.count, MOST_TILES)
            accesses[access] = None

    def _step(self, instruction: HloInstruction, leaf: int, accesses: dict[OperandIndexing, None]) -> None:
        if instruction.opcode is Opcode.PARAMETER:
            return
        for operand, reads in zip(instruction.operands, self.analysis.output_to_input(instruction, leaf), strict=True):
            for read in reads:
                for access in accesses:
                    spend(1)
                    composed = self._composed(instruction, access, read)
                    if not composed.map.is_known_empty:
                        self._add(operand, composed.leaf, composed)

    def _composed(self, instruction: HloInstruction, access: OperandIndexing, read: OperandIndexing) -> OperandIndexing:
        """The access from the indices of the parameters to an operand. Range variables of summed dimensions become
        indices of parameters.
        """
        first = self.first_of_sum.get(instruction)
        if first is not None and read.map.ranges and not access.map.is_undefined:
            own = access.map
            summed = [dim(first + k) for k in range(len(read.map.ranges))]
            extended = IndexingMap(own.dims, own.ranges, own.runtime, (*own.results, *summed), own.constraints)
            access = access.with_map(extended, access.runtime)
            read = read.with_map(ranges_to_dims(read.map), read.runtime)
        return access.compose(read).simplify()

    def _tiles(self) -> Iterator[InstructionTile]:
        seen = set(self.order)
        # The operands of an instruction that is asked about alone are not in `order`.
        outside = [instruction for instruction in self.reached if instruction not in seen]
        for instruction in (*reversed(self.order), *outside):
            if instruction.opcode in _GROUPING:
                continue
            for leaf, accesses in sorted(self.reached.get(instruction, {}).items()):
                for access in accesses:
                    with errors_name_instruction(instruction):
                        symbolic = None if access.map.is_undefined else symbolic_tile(access.map)
                    yield InstructionTile(instruction, leaf, access, symbolic)


def _array_of(root: HloInstruction, leaf: int) -> tuple[HloInstruction, int]:
    """The instruction that computes a leaf of the root, and the number of that leaf in its result. A tuple computes
    nothing, so its operand takes its place.
    """
    while root.opcode is Opcode.TUPLE:
        for operand in root.operands:
            count = len(leaves(operand.shape))
            if leaf < count:
                root = operand
                break
            leaf -= count
        else:
            break
    return root, leaf


def _summed_dimensions(instruction: HloInstruction) -> list[TileParameter]:
    """A parameter for every dimension of the first operand that a dot or reduce sums over, in the order of the range
    variables of its maps.
    """
    proto: Any = instruction.details
    if instruction.opcode in (Opcode.DOT, Opcode.SCALED_DOT):
        dimensions, kind = proto.dot_dimension_numbers.lhs_contracting_dimensions, "contracted"
    elif instruction.opcode is Opcode.REDUCE:
        dimensions, kind = proto.dimensions, "reduced"
    else:
        return []
    sizes = dims_of(instruction.operands[0].shape)
    return [TileParameter(kind, instruction, d, sizes[d]) for d in dimensions if 0 <= d < len(sizes)]


def _cut_sizes(tile: SymbolicTile, parameters: Sequence[TileParameter]) -> dict[Variable, Expr]:
    """Variable → expression for each size that the tile's domain bounds more tightly than its parameter: the size, cut
    to that bound.
    """
    return {
        Variable(dim(0).kind, k): minimum(dim(k), var.bounds.upper)
        for k, (var, parameter) in enumerate(zip(tile.sizes_of_tile, parameters, strict=True))
        if var.bounds.upper < parameter.size
    }


def _without_implied(constraints: TileConstraints) -> TileConstraints:
    """The same constraints without each alternative that has all conditions of another one, and more."""
    kept: list[tuple[Condition, ...]] = []
    for alternative in sorted(constraints.alternatives, key=len):
        if not any(set(other) <= set(alternative) for other in kept):
            kept.append(alternative)
    return TileConstraints.any_of(kept)


def _is_box_everywhere(tile: InstructionTile, sizes: Sequence[int], parameters: Sequence[TileParameter]) -> bool:
    """Whether all tiles of the grid that may differ are boxes; True where these are more than `MOST_STARTS`."""
    if tile.symbolic is None or tile.symbolic.constraints.is_always:
        return True
    mentioned = variables_of(tile.symbolic.constraints.expressions())
    grid = [
        range(0, max(1, parameter.size), size) if dim(k) in mentioned else range(1)
        for k, (size, parameter) in enumerate(zip(sizes, parameters, strict=True))
    ]
    count = 1
    for parameter, size, starts in zip(parameters, sizes, grid, strict=True):
        count *= ceil_div(max(1, parameter.size), size) if len(starts) > 1 else 1
    if count > MOST_STARTS:
        return True
    spend(count)
    return all(tile.box(sizes, start) is not None for start in product(*grid))


def _candidates(size: int, most: int | None) -> list[int]:
    whole = max(1, size)
    powers = [1 << k for k in range(whole.bit_length()) if 1 << k < whole]
    return [candidate for candidate in (*powers, whole) if most is None or candidate <= most]
