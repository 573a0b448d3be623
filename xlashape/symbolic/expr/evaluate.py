"""Evaluating expressions: at one point with exact integers, and at many points with NumPy.

The expressions of a map are compiled to a list of instructions, one for every distinct operator node, operands before
the nodes that use them. The same instructions run on Python integers, for one point, and on int64 arrays, for a block
of points.

A block is small enough for its columns to stay in the processor's cache. Division and mod by powers of two become
shifts and masks. The least and the greatest value of a column show whether all points of the block keep a bound; only
if some point does not, every point is compared.

Whether an intermediate value can leave int64 follows from the bounds of the variables, before evaluation. If one can,
the points are evaluated one by one with exact integers.

Every intermediate value of the results and constraints of a map has to fit a signed integer of 128 bits: clients of all
languages give the same answers, and many have no larger integers. A point that a bound or a constraint rules out is
outside the domain, even if an expression exceeds 128 bits there. At any other point a value of more than 128 bits is a
SizeOverflowError.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from operator import index
from typing import TYPE_CHECKING, Any, NamedTuple

from xlashape.errors import InvalidArgumentError, InvalidIndexError, SizeOverflowError
from xlashape.limits import INT64_MAX, INT64_MIN, spend
from xlashape.symbolic.expr import expression as ex
from xlashape.symbolic.expr.expression import Binary, Constant, Expr, Variable, VariableKind
from xlashape.symbolic.expr.ranges import Interval, extent

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# The largest number of points in a block. A column of so many points takes 128 KiB.
_BLOCK = 1 << 14
# The largest number of bytes of all columns of a block. A block of more than 128 columns has fewer points.
_BUFFER_BYTES = 16 << 20
# The number of instructions between two checks of the budget. On a block they take some milliseconds.
_INSTRUCTIONS_AT_ONCE = 64
_INT128 = Interval(-1 << 127, (1 << 127) - 1)

_ON_INTEGERS: dict[type[Binary], Callable[[int, int], int]] = {
    ex.Add: lambda a, b: a + b,
    ex.Mul: lambda a, b: a * b,
    ex.Mod: lambda a, b: a % b,
    ex.FloorDiv: lambda a, b: a // b,
    ex.CeilDiv: lambda a, b: -(-a // b),
    ex.Max: max,
    ex.Min: min,
}


def evaluate(expr: Expr, values: Mapping[Variable, int]) -> int:
    """The exact value of an expression for these values of its variables.

    Raises SizeOverflowError if an intermediate value has more than 4,096 bits, and InvalidArgumentError if a variable
    of the expression has no value, or one that is not an integer.

    >>> from xlashape.symbolic.expr.expression import dim, rng
    >>> evaluate(dim(0) // 4 + rng(0) % 4, {dim(0): -7, rng(0): 6})
    0
    """
    done: dict[Expr, int] = {}
    order = ex.postorder((expr,))
    spend(len(order))
    for node in order:
        if isinstance(node, Binary):
            done[node] = ex.checked_value(_ON_INTEGERS[node.__class__](done[node.lhs], done[node.rhs]))
        elif isinstance(node, Constant):
            done[node] = node.value
        else:
            assert isinstance(node, Variable)
            value = values.get(node)
            if value is None:
                raise InvalidArgumentError(f"the variable {node} has no value")
            try:
                done[node] = index(value)
            except TypeError:
                raise InvalidArgumentError(f"the value of {node} is not an integer: {value!r}") from None
    return done[expr]


class _Instruction(NamedTuple):
    """registers[target] = operator(registers[lhs], registers[rhs])."""

    operator: type[Binary]
    target: int
    lhs: int
    rhs: int


class _BlockInstruction(NamedTuple):
    """An instruction on arrays: registers[target] = function(registers[lhs], registers[rhs], out=buffers[buffer])."""

    function: Callable[..., Any]
    target: int
    lhs: int
    rhs: int
    buffer: int


class CompiledExpressions:
    """The results and the constraints of a map, compiled.

    `counts` says how many dimensions, range variables and runtime variables the map has. `bounds` lists the bounds of
    the variables in this order, and a point lists their values in it.
    """

    __slots__ = (
        "_bounds",
        "_checks",
        "_constants",
        "_fits_128_bits",
        "_fits_int64",
        "_inputs",
        "_instructions",
        "_outputs",
        "_registers",
    )

    def __init__(
        self,
        bounds: Sequence[Interval],
        counts: tuple[int, int, int],
        results: Sequence[Expr],
        constraints: Sequence[tuple[Expr, Interval]],
    ) -> None:
        offset = {VariableKind.DIM: 0, VariableKind.RANGE: counts[0], VariableKind.RUNTIME: counts[0] + counts[1]}
        nodes = ex.postorder((*(expr for expr, _ in constraints), *results))
        register = {node: i for i, node in enumerate(nodes)}
        self._registers = len(nodes)
        self._bounds = tuple(bounds)
        self._inputs = [  # (register, index of the variable in a point)
            (i, offset[node.kind] + node.index) for node, i in register.items() if isinstance(node, Variable)
        ]
        self._constants = [(i, node.value) for node, i in register.items() if isinstance(node, Constant)]
        self._instructions = [
            _Instruction(node.__class__, i, register[node.lhs], register[node.rhs])
            for node, i in register.items()
            if isinstance(node, Binary)
        ]
        self._checks = [(register[expr], interval) for expr, interval in constraints]
        self._outputs = [register[expr] for expr in results]
        values = extent(nodes, self._bounds, counts)
        self._fits_128_bits = values is not None and _INT128.contains(values)
        self._fits_int64 = (
            values is not None
            and values.fits_int64
            and all(interval.is_empty or interval.fits_int64 for interval in self._bounds)
        )

    def evaluate(self, point: Sequence[int]) -> tuple[int, ...] | None:
        """The results at one point, None outside the domain. SizeOverflowError if an intermediate value has more than
        128 bits.
        """
        if len(point) != len(self._bounds):
            raise InvalidIndexError(
                f"the map has {len(self._bounds)} variables, the point {len(point)} values", field="points"
            )
        spend(len(self._instructions))
        for value, (low, high) in zip(point, self._bounds, strict=True):
            if not low <= value <= high:
                return None
        registers: list[int] = [0] * self._registers
        for i, variable in self._inputs:
            registers[i] = point[variable]
        for i, value in self._constants:
            registers[i] = value
        if not self._fits_128_bits:
            return self._evaluate_checked(registers)
        for operator, target, lhs, rhs in self._instructions:
            registers[target] = _ON_INTEGERS[operator](registers[lhs], registers[rhs])
        for i, (low, high) in self._checks:
            if not low <= registers[i] <= high:
                return None
        return tuple([registers[i] for i in self._outputs])

    def _evaluate_checked(self, inputs: list[int]) -> tuple[int, ...] | None:
        """The results of `evaluate` where values may have more than 128 bits.

        A value of more than 128 bits is None in the registers, and so is every value computed from it.
        """
        registers: list[int | None] = [_within_128_bits(value) for value in inputs]
        for operator, target, lhs, rhs in self._instructions:
            a, b = registers[lhs], registers[rhs]
            registers[target] = None if a is None or b is None else _within_128_bits(_ON_INTEGERS[operator](a, b))
        checked = [(registers[i], bounds) for i, bounds in self._checks]
        if any(value is not None and not low <= value <= high for value, (low, high) in checked):
            return None
        results = [value for value in (registers[i] for i in self._outputs) if value is not None]
        if len(results) < len(self._outputs) or any(value is None for value, _ in checked):
            raise SizeOverflowError("an expression takes a value of more than 128 bits")
        return tuple(results)

    def domain_points(self) -> Iterator[tuple[int, ...]]:
        """Every point of the domain in lexicographic order. Each point that is tried takes a step of the budget."""
        bounds = self._bounds
        point = [low for low, _ in bounds]
        while True:
            spend(1)
            if self.evaluate(point) is not None:
                yield tuple(point)
            i = len(point) - 1
            while i >= 0 and point[i] == bounds[i].upper:
                point[i] = bounds[i].lower
                i -= 1
            if i < 0:
                return
            point[i] += 1

    def evaluate_batch(self, points: Any) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """int64[n, variables] → int64[n, results] and bool[n] "in the domain". Rows outside the domain hold 0."""
        # NumPy is imported on first use, here and below, to keep the start of the library short.
        import numpy as np

        table = _as_points(points, len(self._bounds))
        count = len(table)
        spend(1)
        results = np.zeros((count, len(self._outputs)), dtype=np.int64)
        inside = np.ones(count, dtype=np.bool_)
        if not self._fits_int64:
            self._evaluate_exactly(table, results, inside)
            return results, inside
        instructions, needed = self._block_instructions()
        size = min(_BLOCK, max(1, _BUFFER_BYTES // (8 * max(needed, 1))))
        buffers = [np.empty(min(size, count), dtype=np.int64) for _ in range(needed)]
        for start in range(0, count, size):
            block = slice(start, start + size)
            self._evaluate_block(table[block], results[block], inside[block], instructions, buffers)
        return results, inside

    def _evaluate_exactly(
        self, table: NDArray[np.int64], results: NDArray[np.int64], inside: NDArray[np.bool_]
    ) -> None:
        for i, row in enumerate(table.tolist()):
            try:
                values = self.evaluate(row)
            except SizeOverflowError as error:
                raise error.within("points", i) from None
            if values is None:
                inside[i] = False
                continue
            for j, value in enumerate(values):
                if not INT64_MIN <= value <= INT64_MAX:
                    raise SizeOverflowError(f"result {j} does not fit int64: {value}", field=("points", i))
                results[i, j] = value

    def _evaluate_block(
        self, rows: Any, results: Any, inside: Any, instructions: list[_BlockInstruction], buffers: list[Any]
    ) -> None:
        """Fills `results` and `inside`, which hold 0 and True, for the points `rows`."""
        import numpy as np

        length = len(rows)
        columns = np.array(rows.T, order="C")  # a copy: coordinates outside the bounds are changed in it
        all_inside = True
        if columns.size:
            lows, highs = columns.min(axis=1).tolist(), columns.max(axis=1).tolist()
            for column, low, high, (lower, upper) in zip(columns, lows, highs, self._bounds, strict=True):
                if low < lower or high > upper:
                    all_inside = False
                    if lower > upper or low > upper or high < lower:
                        inside[:] = False
                        return
                    # Every int64 keeps a bound that does not fit int64. Coordinates outside the bounds are moved to
                    # the nearest bound, so that no value leaves int64.
                    if low < lower:
                        inside &= column >= lower
                        np.maximum(column, lower, out=column)
                    if high > upper:
                        inside &= column <= upper
                        np.minimum(column, upper, out=column)
        registers: list[Any] = [None] * self._registers
        for i, variable in self._inputs:
            registers[i] = columns[variable]
        for i, value in self._constants:
            registers[i] = value
        for first in range(0, len(instructions), _INSTRUCTIONS_AT_ONCE):
            some = instructions[first : first + _INSTRUCTIONS_AT_ONCE]
            spend(max(1, length >> 8) * len(some))
            for function, target, lhs, rhs, buffer in some:
                registers[target] = function(registers[lhs], registers[rhs], out=buffers[buffer][:length])
        for i, (lower, upper) in self._checks:
            value = registers[i]  # an array: a map has no constraints on constants
            low, high = int(value.min()), int(value.max())
            if low < lower or high > upper:
                all_inside = False
                if low < lower:
                    inside &= value >= lower if lower <= INT64_MAX else False
                if high > upper:
                    inside &= value <= upper if upper >= INT64_MIN else False
        for j, i in enumerate(self._outputs):
            results[:, j] = registers[i]
        if not all_inside:
            results[~inside] = 0

    def _block_instructions(self) -> tuple[list[_BlockInstruction], int]:
        """The instructions as NumPy calls, and how many buffers they need. Each instruction writes into a buffer whose
        old value no later instruction reads.
        """
        constants = dict(self._constants)
        last_use: dict[int, int] = {}
        for number, (_, _, lhs, rhs) in enumerate(self._instructions):
            last_use[lhs] = last_use[rhs] = number
        for i in (*self._outputs, *(i for i, _ in self._checks)):
            last_use[i] = len(self._instructions)
        instructions: list[_BlockInstruction] = []
        free: list[int] = []
        buffer_of: dict[int, int] = {}
        buffers = 0
        for number, (operator, target, lhs, rhs) in enumerate(self._instructions):
            if number % _INSTRUCTIONS_AT_ONCE == 0:
                spend(min(_INSTRUCTIONS_AT_ONCE, len(self._instructions) - number))
            function, reads_after_writing = _on_arrays(operator, constants.get(rhs))
            for operand in {lhs, rhs}:
                if last_use[operand] == number and operand in buffer_of:
                    free.append(buffer_of.pop(operand))
            if free and not reads_after_writing:
                buffer = free.pop()
            else:
                buffer, buffers = buffers, buffers + 1
            buffer_of[target] = buffer
            instructions.append(_BlockInstruction(function, target, lhs, rhs, buffer))
        return instructions, buffers


def _within_128_bits(value: int) -> int | None:
    return value if value in _INT128 else None


def _on_arrays(operator: type[Binary], divisor: int | None) -> tuple[Callable[..., Any], bool]:
    """The function of an operator on arrays, and whether it writes its buffer before it has read all of its
    operands.
    """
    import numpy as np

    if operator is ex.CeilDiv:
        return _ceil_divide, True
    if operator is ex.Mod or operator is ex.FloorDiv:
        if divisor is not None and divisor & (divisor - 1) == 0:
            return _masked(divisor - 1) if operator is ex.Mod else _shifted(divisor.bit_length() - 1), False
        return (_modulo, True) if operator is ex.Mod else (np.floor_divide, False)
    functions: dict[type[Binary], Any] = {ex.Add: np.add, ex.Mul: np.multiply, ex.Max: np.maximum, ex.Min: np.minimum}
    return functions[operator], False


def _shifted(bits: int) -> Callable[..., Any]:
    import numpy as np

    def shift(a: Any, b: Any, out: Any) -> Any:
        del b
        return np.right_shift(a, bits, out=out)

    return shift


def _masked(bits: int) -> Callable[..., Any]:
    import numpy as np

    def mask(a: Any, b: Any, out: Any) -> Any:
        del b
        return np.bitwise_and(a, bits, out=out)

    return mask


def _modulo(a: Any, b: Any, out: Any) -> Any:
    """a - (a // b) * b: NumPy divides by a scalar faster than it takes the remainder."""
    import numpy as np

    np.floor_divide(a, b, out=out)
    np.multiply(out, b, out=out)
    return np.subtract(a, out, out=out)


def _ceil_divide(a: Any, b: Any, out: Any) -> Any:
    """-(a // -b), in which no step leaves int64. -(-a // b) would, for a = -2^63."""
    import numpy as np

    np.floor_divide(a, -b, out=out)
    return np.negative(out, out=out)


def _as_points(points: Any, variables: int) -> NDArray[np.int64]:
    import numpy as np

    try:
        table = np.asarray(points)
    except (ValueError, TypeError, OverflowError) as error:
        raise InvalidArgumentError(
            f"points are an array of integers, [n, {variables}]: {error}", field="points"
        ) from None
    if table.size == 0 and table.dtype.kind == "f" and not isinstance(points, np.ndarray):
        table = table.astype(np.int64)  # NumPy takes an empty list for an array of floats
    if table.ndim == 1 and table.size == 0 and variables:
        table = table.reshape(0, variables)
    if table.dtype.kind not in "iu":
        raise InvalidArgumentError(f"points are integers, not {table.dtype}", field="points")
    if table.ndim != 2 or table.shape[1] != variables:
        raise InvalidIndexError(
            f"points have the shape [n, {variables}], one column a variable, not {list(table.shape)}", field="points"
        )
    if table.dtype == np.uint64 and table.size and int(table.max()) > INT64_MAX:
        raise InvalidArgumentError("a coordinate of a point does not fit int64", field="points")
    return table.astype(np.int64, copy=False)
