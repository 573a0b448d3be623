"""Evaluating expressions: at one point with exact integers, and over arrays of points with NumPy.

A list of expressions becomes a tape: one operation per distinct node, operands before their users. The same tape runs over Python integers and over
blocks of columns of int64. Blocks are small enough to stay in the processor's cache, division and mod by powers of two are shifts and masks, and
bounds that a whole block keeps are checked by its least and greatest value alone.

Over arrays everything is int64. Whether a value can leave int64 is known from the bounds of the variables before anything is computed;
a map that can is evaluated point by point with exact integers instead, and raises SizeOverflowError only if a result does not fit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from xlashape.errors import InvalidArgumentError, InvalidIndexError, SizeOverflowError
from xlashape.limits import INT64_MAX, INT64_MIN, spend
from xlashape.symbolic.expr.expression import (
    Add,
    Binary,
    CeilDiv,
    Constant,
    Expr,
    FloorDiv,
    Max,
    Min,
    Mod,
    Mul,
    Variable,
    VariableKind,
    postorder,
)
from xlashape.symbolic.expr.interval import Interval
from xlashape.symbolic.expr.ranges import Ranges

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["Program"]

_BLOCK = 1 << 14  # points: 128 KiB a column

_SCALAR: dict[type[Binary], Callable[[int, int], int]] = {
    Add: lambda a, b: a + b,
    Mul: lambda a, b: a * b,
    Mod: lambda a, b: a % b,
    FloorDiv: lambda a, b: a // b,
    CeilDiv: lambda a, b: -(-a // b),
    Max: max,
    Min: min,
}


class Program:
    """The results and the domain of a map, ready to run.

    `counts` are the numbers of dimensions, range and runtime variables; a point lists them in this order.
    """

    __slots__ = ("_bounds", "_checks", "_constants", "_fits", "_inputs", "_outputs", "_registers", "_tape")

    def __init__(
        self,
        bounds: Sequence[Interval],
        counts: tuple[int, int, int],
        results: Sequence[Expr],
        constraints: Sequence[tuple[Expr, Interval]],
    ) -> None:
        offset = {VariableKind.DIM: 0, VariableKind.RANGE: counts[0], VariableKind.RUNTIME: counts[0] + counts[1]}
        # Constraints come first: a point outside the domain ends there.
        order = postorder((*(expr for expr, _ in constraints), *results))
        slot = {node: i for i, node in enumerate(order)}
        self._bounds = tuple(bounds)
        self._inputs = [(i, offset[node.kind] + node.index) for node, i in slot.items() if isinstance(node, Variable)]
        self._constants = [(i, node.value) for node, i in slot.items() if isinstance(node, Constant)]
        self._tape = [
            (node.__class__, i, slot[node.lhs], slot[node.rhs]) for node, i in slot.items() if isinstance(node, Binary)
        ]
        self._checks = [(slot[expr], interval) for expr, interval in constraints]
        self._outputs = [slot[expr] for expr in results]
        self._registers = len(order)
        ranges = Ranges.of_bounds(self._bounds, counts)
        self._fits = all(INT64_MIN <= low and high <= INT64_MAX for low, high in map(ranges.of, order)) and all(
            interval.is_empty or interval.fits_int64 for interval in self._bounds
        )

    def run(self, point: Sequence[int]) -> tuple[int, ...] | None:
        """The results at one point, None outside the domain. Exact, whatever the size of the numbers."""
        if len(point) != len(self._bounds):
            raise InvalidIndexError(f"the map has {len(self._bounds)} variables, the point {len(point)} values")
        spend(len(self._tape))
        for value, (low, high) in zip(point, self._bounds, strict=True):
            if not low <= value <= high:
                return None
        registers: list[int] = [0] * self._registers
        for i, variable in self._inputs:
            registers[i] = point[variable]
        for i, value in self._constants:
            registers[i] = value
        for operator, i, a, b in self._tape:
            registers[i] = _SCALAR[operator](registers[a], registers[b])
        for i, (low, high) in self._checks:
            if not low <= registers[i] <= high:
                return None
        return tuple([registers[i] for i in self._outputs])

    def points(self) -> Iterator[tuple[int, ...]]:
        """Every point of the domain in lexicographic order. Each point tried counts a step of the budget."""
        bounds = self._bounds
        point = [low for low, _ in bounds]
        while True:
            spend(1)
            if self.run(point) is not None:
                yield tuple(point)
            at = len(point) - 1
            while at >= 0 and point[at] == bounds[at].upper:
                point[at] = bounds[at].lower
                at -= 1
            if at < 0:
                return
            point[at] += 1

    def run_batch(self, points: Any) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """int64[n, variables] → int64[n, results] and bool[n] "in the domain". Rows outside the domain hold 0."""
        import numpy as np

        table = _as_points(points, len(self._bounds))
        count = len(table)
        spend(1 + (count >> 8) * len(self._tape))
        results = np.zeros((count, len(self._outputs)), dtype=np.int64)
        inside = np.ones(count, dtype=np.bool_)
        if not self._fits:
            self._run_exactly(table, results, inside)
            return results, inside
        steps, buffers = _block_steps(self)
        for start in range(0, count, _BLOCK):
            rows = table[start : start + _BLOCK]
            self._run_block(rows, results[start : start + _BLOCK], inside[start : start + _BLOCK], steps, buffers)
        return results, inside

    def _run_exactly(self, table: NDArray[np.int64], results: NDArray[np.int64], inside: NDArray[np.bool_]) -> None:
        for i, row in enumerate(table.tolist()):
            values = self.run(row)
            if values is None:
                inside[i] = False
                continue
            for j, value in enumerate(values):
                if not INT64_MIN <= value <= INT64_MAX:
                    raise SizeOverflowError(f"result {j} at point {i} does not fit int64")
                results[i, j] = value

    def _run_block(self, rows: Any, results: Any, inside: Any, steps: list[Any], buffers: list[Any]) -> None:
        import numpy as np

        length = len(rows)
        columns = np.ascontiguousarray(rows.T)
        everywhere = True
        if columns.size:
            lows, highs = columns.min(axis=1).tolist(), columns.max(axis=1).tolist()
            for column, low, high, (lower, upper) in zip(columns, lows, highs, self._bounds, strict=True):
                if low < lower or high > upper:
                    everywhere = False
                    if lower > upper or low > upper or high < lower:
                        inside[:] = False
                        return
                    # A bound that does not fit int64 is kept by every int64.
                    if low < lower:
                        inside &= column >= lower
                        np.maximum(column, lower, out=column)  # keeps what is computed for a point outside within int64
                    if high > upper:
                        inside &= column <= upper
                        np.minimum(column, upper, out=column)
        registers: list[Any] = [None] * self._registers
        for i, variable in self._inputs:
            registers[i] = columns[variable]
        for i, value in self._constants:
            registers[i] = value
        for function, i, a, b, buffer in steps:
            registers[i] = function(registers[a], registers[b], out=buffers[buffer][:length])
        for i, (low, high) in self._checks:
            value = registers[i]
            if isinstance(value, int):
                if not low <= value <= high:
                    inside[:] = False
                    return
            else:
                least, greatest = int(value.min()), int(value.max())
                if least < low or greatest > high:
                    everywhere = False
                    if least < low:
                        inside &= value >= low if low <= INT64_MAX else False
                    if greatest > high:
                        inside &= value <= high if high >= INT64_MIN else False
        for j, i in enumerate(self._outputs):
            results[:, j] = registers[i]
        if not everywhere:
            results[~inside] = 0


def _block_steps(program: Program) -> tuple[list[Any], list[Any]]:
    """The tape as NumPy calls, each with a buffer that no later step still reads."""
    import numpy as np

    tape = program._tape  # pyright: ignore[reportPrivateUsage]
    constants = dict(program._constants)  # pyright: ignore[reportPrivateUsage]
    last_use: dict[int, int] = {}
    for step, (_, _, a, b) in enumerate(tape):
        last_use[a] = last_use[b] = step
    for i in program._outputs:  # pyright: ignore[reportPrivateUsage]
        last_use[i] = len(tape)
    for i, _ in program._checks:  # pyright: ignore[reportPrivateUsage]
        last_use[i] = len(tape)
    functions: dict[type[Binary], Any] = {
        Add: np.add,
        Mul: np.multiply,
        Mod: np.mod,
        FloorDiv: np.floor_divide,
        Max: np.maximum,
        Min: np.minimum,
    }
    steps: list[Any] = []
    free: list[int] = []
    holds: dict[int, int] = {}
    buffers = 0
    for step, (operator, i, a, b) in enumerate(tape):
        function = functions.get(operator)
        divisor = constants.get(b)
        if operator is CeilDiv:
            function = _ceil_divide
        elif operator in (Mod, FloorDiv) and divisor is not None and divisor & (divisor - 1) == 0:
            function = _shifted(divisor.bit_length() - 1) if operator is FloorDiv else _masked(divisor - 1)
        elif operator is Mod:
            function = _modulo
        for operand in {a, b}:
            if last_use[operand] == step and operand in holds:
                free.append(holds.pop(operand))
        if operator in (Mod, CeilDiv) and function in (_modulo, _ceil_divide) and a in last_use and free:
            # These write their buffer before they have read all of their operand.
            buffer, buffers = buffers, buffers + 1
        elif free:
            buffer = free.pop()
        else:
            buffer, buffers = buffers, buffers + 1
        holds[i] = buffer
        steps.append((function, i, a, b, buffer))
    return steps, [np.empty(_BLOCK, dtype=np.int64) for _ in range(buffers)]


def _shifted(bits: int) -> Any:
    import numpy as np

    def shift(a: Any, b: Any, out: Any) -> Any:
        del b
        return np.right_shift(a, bits, out=out)

    return shift


def _masked(mask: int) -> Any:
    import numpy as np

    def cut(a: Any, b: Any, out: Any) -> Any:
        del b
        return np.bitwise_and(a, mask, out=out)

    return cut


def _modulo(a: Any, b: Any, out: Any) -> Any:
    """a - (a // b) * b: NumPy divides by a scalar faster than it takes the remainder."""
    import numpy as np

    np.floor_divide(a, b, out=out)
    np.multiply(out, b, out=out)
    return np.subtract(a, out, out=out)


def _ceil_divide(a: Any, b: Any, out: Any) -> Any:
    import numpy as np

    np.negative(a, out=out)
    np.floor_divide(out, b, out=out)
    return np.negative(out, out=out)


def _as_points(points: Any, variables: int) -> NDArray[np.int64]:
    import numpy as np

    try:
        table = np.asarray(points)
    except (ValueError, TypeError, OverflowError) as error:
        raise InvalidArgumentError(f"points are an array of integers, [n, {variables}]: {error}") from None
    if table.size == 0 and table.dtype.kind == "f" and not isinstance(points, np.ndarray):
        table = table.astype(np.int64)
    if table.ndim != 2 and table.size == 0 and table.ndim == 1 and variables:
        table = table.reshape(0, variables)
    if table.dtype.kind not in "iu":
        raise InvalidArgumentError(f"points are integers, not {table.dtype}")
    if table.ndim != 2 or table.shape[1] != variables:
        raise InvalidIndexError(
            f"points have the shape [n, {variables}], one column a variable, not {list(table.shape)}"
        )
    if table.dtype == np.uint64 and table.size and int(table.max()) > INT64_MAX:
        raise InvalidArgumentError("a coordinate of a point does not fit int64")
    return table.astype(np.int64, copy=False)
