"""A map as a value: what it consists of, equality and hashing, and what can be asked of it. `IndexingMap` adds its making and its algebra."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from xlashape.errors import InvalidMapError
from xlashape.symbolic.expr.evaluate import CompiledExpressions
from xlashape.symbolic.expr.expression import Expr, Variable, VariableKind, const, dim
from xlashape.symbolic.expr.substitute import variables_of
from xlashape.symbolic.map.parts import MapParts, Var
from xlashape.symbolic.map.well_formed import listed, merged_domain
from xlashape.symbolic.simplify.domain import Constraint

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["FrozenMap", "fill", "set_known_empty", "set_undefined"]

M = TypeVar("M", bound="FrozenMap")


class FrozenMap:
    """A map's parts, frozen. Two maps are equal if they are written the same, names included."""

    __slots__ = (
        "__weakref__",
        "_cache",
        "_hash",
        "constraints",
        "dims",
        "is_known_empty",
        "is_undefined",
        "ranges",
        "results",
        "runtime",
    )

    dims: tuple[Var, ...]
    ranges: tuple[Var, ...]
    runtime: tuple[Var, ...]
    results: tuple[Expr, ...]
    constraints: tuple[Constraint, ...]
    is_known_empty: bool
    is_undefined: bool
    _cache: dict[str, Any]
    _hash: int | None

    # Value semantics

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"indexing maps are frozen: cannot set {name}")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"indexing maps are frozen: cannot delete {name}")

    def _key(self) -> tuple[Any, ...]:
        return (
            self.is_known_empty,
            self.is_undefined,
            self.dims,
            self.ranges,
            self.runtime,
            self.results,
            self.constraints,
        )

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return self._key() == other._key() if isinstance(other, FrozenMap) else NotImplemented

    def __hash__(self) -> int:
        if self._hash is None:
            _set_hash(self, hash(self._key()))
        assert self._hash is not None
        return self._hash

    def __copy__(self: M) -> M:
        return self

    def __deepcopy__(self: M, memo: dict[int, Any]) -> M:
        return self

    def _size(self) -> int:
        """Nodes of all its expressions as trees."""
        return sum([expr.size for expr in self.results]) + sum([expr.size for expr, _ in self.constraints])

    def _parts(self) -> MapParts:
        kind = "undefined" if self.is_undefined else "empty" if self.is_known_empty else "map"
        return MapParts(kind, self.dims, self.ranges, self.runtime, self.results, self.constraints)

    # Questions

    @property
    def variables(self) -> tuple[Var, ...]:
        """All variables in the order of a point: dimensions, ranges, runtime."""
        return self.dims + self.ranges + self.runtime

    @property
    def counts(self) -> tuple[int, int, int]:
        """How many dimensions, range and runtime variables there are."""
        return (len(self.dims), len(self.ranges), len(self.runtime))

    @property
    def is_identity(self) -> bool:
        """Whether every element maps to itself: results d0, d1, …, and nothing else in the map."""
        if self.is_undefined or self.is_known_empty or self.ranges or self.runtime or self.constraints:
            return False
        return len(self.results) == len(self.dims) and all(result is dim(i) for i, result in enumerate(self.results))

    def variable_expressions(self) -> tuple[tuple[Variable, ...], tuple[Variable, ...], tuple[Variable, ...]]:
        """The variables as expressions: dimensions, ranges, runtime."""
        dims, ranges, runtime = [
            tuple([Variable(kind, i) for i in range(n)]) for kind, n in zip(VariableKind, self.counts, strict=True)
        ]
        return dims, ranges, runtime

    def used_variables(self) -> set[Variable]:
        """The variables that results or constraints mention."""
        return variables_of([*self.results, *(expr for expr, _ in self.constraints)])

    # Evaluation

    def evaluate(self, point: Sequence[int]) -> tuple[int, ...] | None:
        """The results at a point, which gives dimensions, then ranges, then runtime variables; None outside the domain.

        Exact for integers of any size. Raises InvalidIndexError for a wrong number of values, InvalidMapError on an undefined map.
        """
        self._refuse_undefined("evaluated")
        program = self._program()
        point = tuple([_point_value(value) for value in listed(point, "point")])
        result = program.evaluate(point)
        return None if self.is_known_empty else result

    def evaluate_batch(self, points: Any) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """int64[n, variables] → (int64[n, results], bool[n] "is in the domain"); rows outside the domain hold 0.

        Computes in int64, or exactly where the bounds of the variables allow a value beyond it; a result that does not fit raises
        SizeOverflowError.

        >>> from xlashape.symbolic.expr.expression import dim
        >>> from xlashape.symbolic.map.indexing_map import IndexingMap
        >>> results, inside = IndexingMap.from_sizes([32], results=[dim(0) // 8, dim(0) % 8]).evaluate_batch([[9], [31], [32]])
        >>> results.tolist(), inside.tolist()
        ([[1, 1], [3, 7], [0, 0]], [True, True, False])
        """
        self._refuse_undefined("evaluated")
        results, inside = self._program().evaluate_batch(points)
        if self.is_known_empty:
            results[:] = 0
            inside[:] = False
        return results, inside

    def domain_points(self) -> Iterator[tuple[int, ...]]:
        """Every point of the domain in lexicographic order. Lazy; each point tried counts a step of the budget."""
        self._refuse_undefined("enumerated")
        if self.is_known_empty:
            return
        yield from self._program().domain_points()

    def _program(self) -> CompiledExpressions:
        program = self._cache.get("program")
        if program is None:
            bounds = [var.bounds for var in self.variables]
            program = self._cache["program"] = CompiledExpressions(bounds, self.counts, self.results, self.constraints)
        return program

    def _refuse_undefined(self, what: str) -> None:
        if self.is_undefined:
            raise InvalidMapError(f"an undefined map cannot be {what}")


def _point_value(value: Any) -> int:
    if value.__class__ is int:
        return value
    return const(value).value


def fill(
    made: FrozenMap,
    dims: tuple[Var, ...],
    ranges: tuple[Var, ...],
    runtime: tuple[Var, ...],
    results: tuple[Expr, ...],
    constraints: Sequence[Constraint],
) -> None:
    """Sets every field of a map that is being made."""
    domain = merged_domain(dims, ranges, runtime, constraints)
    _set_dims(made, domain.dims)
    _set_ranges(made, domain.ranges)
    _set_runtime(made, domain.runtime)
    _set_results(made, tuple([const(0)] * len(results)) if domain.is_empty else results)
    _set_constraints(made, domain.constraints)
    set_known_empty(made, domain.is_empty)
    set_undefined(made, False)
    _set_cache(made, {})
    _set_hash(made, None)


_set_dims = FrozenMap.dims.__set__  # type: ignore[attr-defined]
_set_ranges = FrozenMap.ranges.__set__  # type: ignore[attr-defined]
_set_runtime = FrozenMap.runtime.__set__  # type: ignore[attr-defined]
_set_results = FrozenMap.results.__set__  # type: ignore[attr-defined]
_set_constraints = FrozenMap.constraints.__set__  # type: ignore[attr-defined]
set_known_empty: Callable[[FrozenMap, bool], None] = FrozenMap.is_known_empty.__set__  # type: ignore[attr-defined]
set_undefined: Callable[[FrozenMap, bool], None] = FrozenMap.is_undefined.__set__  # type: ignore[attr-defined]
_set_cache = FrozenMap._cache.__set__  # type: ignore[attr-defined]
_set_hash = FrozenMap._hash.__set__  # type: ignore[attr-defined]
