"""The inverse of a one-to-one map: from results back to dimensions.

Each result is taken for a number in mixed radix, Σ coefficient × digit + constant. A digit is an atom whose range is too small to reach the next larger
coefficient, so it is a floor division and a mod of the result. The digits x / m and x mod m give x, which is taken apart in the same way, until all
dimensions are known. At the end the simplifier must prove that the map followed by the inverse is the identity, so that every inverse returned is right.
"""

from __future__ import annotations

from xlashape.errors import UnsupportedError
from xlashape.limits import spend
from xlashape.symbolic.expr.expression import Constant, Expr, Mod, Variable, VariableKind, const, dim
from xlashape.symbolic.expr.interval import Interval
from xlashape.symbolic.map.image import image_bounds
from xlashape.symbolic.map.indexing_map import IndexingMap, checked_map
from xlashape.symbolic.map.parts import Var
from xlashape.symbolic.simplify.linear_form import Form
from xlashape.symbolic.simplify.simplifier import Simplifier


def inverse(indexing_map: IndexingMap) -> IndexingMap:
    """The map from B to A that undoes a map from A to B, simplified. Its domain is exactly the image of the map.

    Raises UnsupportedError if the map has range or runtime variables, is undefined, or is not found to be one-to-one.

    >>> inverse(IndexingMap.from_sizes([4, 8], results=[dim(1), dim(0)]))
    (d0, d1) -> (d1, d0), domain: d0 in [0, 7], d1 in [0, 3]
    >>> inverse(IndexingMap.parse("(d0) -> (d0 / 8, d0 mod 8), domain: d0 in [0, 31]"))
    (d0, d1) -> (d0 * 8 + d1), domain: d0 in [0, 3], d1 in [0, 7]
    """
    checked_map(indexing_map)
    if indexing_map.is_undefined:
        raise UnsupportedError("an undefined map has no inverse")
    if indexing_map.ranges or indexing_map.runtime:
        raise UnsupportedError("a map with range or runtime variables has no inverse: an element stands for several")
    forward = indexing_map.simplify()
    if forward.is_known_empty:
        return IndexingMap.empty()
    values = _Solver(forward).solve()
    if values is None:
        raise UnsupportedError(f"no inverse was found: the map may not be one-to-one: {indexing_map!s:.200}")
    bounds = image_bounds(forward)
    candidate = IndexingMap([Var(interval) for interval in bounds], (), (), values)
    if not _undoes(forward, candidate):
        raise UnsupportedError(f"no inverse was found: the map may not be one-to-one: {indexing_map!s:.200}")
    # A point of B is in the image if the candidate takes it into A's domain and the map takes it back to the same point.
    back = candidate.compose_unsimplified(forward)
    constraints = [*back.constraints, *((result - dim(i), Interval(0, 0)) for i, result in enumerate(back.results))]
    return IndexingMap(back.dims, (), (), values, constraints).simplify()


def _undoes(forward: IndexingMap, candidate: IndexingMap) -> bool:
    """Whether the simplifier proves that the map followed by the candidate is the identity."""
    both = IndexingMap(
        forward.dims, (), (), forward.compose_unsimplified(candidate).results, forward.constraints
    ).simplify()
    return all(
        result is dim(i) or (var.bounds.is_point and result is const(var.bounds.lower))
        for i, (result, var) in enumerate(zip(both.results, both.dims, strict=True))
    )


class _Solver:
    """Solves a map for its dimensions. `known` holds the atoms solved so far, as expressions of the map's results, which are written d0, d1, …."""

    def __init__(self, forward: IndexingMap) -> None:
        bounds: dict[Variable, tuple[int, int]] = {
            Variable(VariableKind.DIM, i): var.bounds for i, var in enumerate(forward.dims)
        }
        self.forward = forward
        self.simplifier = Simplifier(bounds)
        self.known: dict[Expr, Expr] = {}

    def solve(self) -> list[Expr] | None:
        """The dimensions in terms of the results; None if one is not found."""
        for i, result in enumerate(self.forward.results):
            self._take_apart(self.simplifier.form_of(result), dim(i))
        while self._join():
            spend(1)
        values: list[Expr] = []
        for i, var in enumerate(self.forward.dims):
            value = const(var.bounds.lower) if var.bounds.is_point else self.known.get(dim(i))
            if value is None:
                return None
            values.append(value)
        return values

    def _take_apart(self, form: Form, value: Expr) -> None:
        """Solves the digits of a number in mixed radix, given as a linear form, from its value."""
        terms, constant = form
        ordered = sorted(terms.items(), key=lambda term: abs(term[1]))
        lows: list[int] = []
        for atom, coefficient in ordered:
            low, high = self.simplifier.range_of(atom)
            lows.append(low * coefficient if coefficient > 0 else high * coefficient)
        # Now value = Σ |coefficient| × digit, with all digits counted from 0.
        value = value - (constant + sum(lows))
        reach = 0
        for i, (atom, coefficient) in enumerate(ordered):
            size = abs(coefficient)
            low, high = self.simplifier.range_of(atom)
            next_size = abs(ordered[i + 1][1]) if i + 1 < len(ordered) else None
            reach += size * (high - low)
            digit = value // size if size > 1 else value
            if next_size is not None:
                if next_size % size or next_size <= reach:
                    return
                digit = digit % (next_size // size)
            self.known.setdefault(atom, digit + low if coefficient > 0 else high - digit)

    def _join(self) -> bool:
        """Solves one x from known x / m and x mod m. Returns whether there was such a pair."""
        for atom, value in list(self.known.items()):
            if not isinstance(atom, Mod) or not isinstance(atom.rhs, Constant):
                continue
            modulus = atom.rhs.value
            terms, constant = self.simplifier.floor_div(*self.simplifier.form_of(atom.lhs), modulus)
            if any(part not in self.known for part in terms):
                continue
            total: Expr = value + constant * modulus
            for part, coefficient in terms.items():
                total = total + self.known[part] * (coefficient * modulus)
            del self.known[atom]
            inner = self.simplifier.form_of(atom.lhs)
            if len(inner[0]) == 1 and inner[1] == 0 and next(iter(inner[0].values())) == 1:
                self.known.setdefault(next(iter(inner[0])), total)
            else:
                self._take_apart(inner, total)
            return True
        return False
