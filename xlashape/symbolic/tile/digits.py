"""The results of a map as sums of digits of its variables, and the values that such a sum takes in a tile of any size.

    result = offset + Σ factor × digit,    digit = ((variable + shift) / divisor) mod modulus

While a variable takes the values of a tile, a digit takes consecutive values, a *run*, unless its mod wraps around.
Digits of different variables are independent of each other: they take every combination of values. Digits of one
variable are independent if each begins where the next lower one ends, as the digits of a number do.

A sum of digits, in the order of their factors, takes the values of one arithmetic progression in two cases:

- It has digits of size 1, then complete digits (which take all their values), each followed by a digit whose factor is
  the product of the complete digit's factor and size, then one digit of any size, then digits of size 1. The size of
  the progression is the product of all sizes, the stride is the factor of the first digit that does not have size 1.
  This is XLA's form.
- The smaller digits bridge the gap between two values of each digit, as with overlapping windows. The stride is the
  smallest factor. XLA finds no tile in this case.

If there are factors of both signs, the digits with negative factors are counted from their last value down, so that all
terms grow; the progression then begins where those digits end.

The map of a reshape that collapses dimensions and splits them elsewhere divides sums. Such a map is split into two
*stages*: a map to the sums, and a map from the sums to the results.

    (d0, d1) -> ((d0 * 6 + d1) / 16, (d0 * 6 + d1) mod 16)

is (d0, d1) -> (d0 * 6 + d1), followed by (d0) -> (d0 / 16, d0 mod 16). If the values of the first map for a tile are a
run, then the tile reads what that run reads through the second map.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple, TypeAlias

from xlashape.base.math import product
from xlashape.limits import check, spend
from xlashape.symbolic.expr import expression as ex
from xlashape.symbolic.expr.expression import Binary, Constant, Expr, Variable, VariableKind, const, dim
from xlashape.symbolic.expr.ranges import Interval, Ranges
from xlashape.symbolic.map.indexing_map import IndexingMap
from xlashape.symbolic.map.parts import Var
from xlashape.symbolic.simplify.rules import floordiv as floordiv_rules
from xlashape.symbolic.simplify.rules import mod as mod_rules
from xlashape.symbolic.simplify.rules.rule import BoundedContext, Form, Terms, expression_of
from xlashape.symbolic.simplify.simplifier import Simplifier
from xlashape.symbolic.tile.constraints import MOST_ALTERNATIVES, Condition, InRange, TileConstraints


class SizedDigit(NamedTuple):
    """A digit with a factor. It takes `size` values, an expression of the tile's sizes, and at most `most`."""

    size: Expr
    most: int
    factor: int


class SymbolicProgression(NamedTuple):
    """The values of a sum of digits: `size` of them from `start` + `constant`, with this stride, for tile sizes that
    satisfy `constraints`.
    """

    start: Expr
    constant: int
    size: Expr
    stride: Expr
    constraints: TileConstraints


def sum_of_digits(digits: Sequence[SizedDigit]) -> SymbolicProgression:
    """The values of a sum of digits, which are in XLA's order of terms. Without digits, the size is 1 and the stride 0.

    >>> from xlashape.symbolic.expr.expression import dim
    >>> row, column = SizedDigit(dim(0), 4, 8), SizedDigit(dim(1), 8, 1)
    >>> progression = sum_of_digits([row, column])
    >>> progression.size, str(progression.constraints)
    (d0 * d1, 'd0 in [1, 1] || d1 in [1, 1] || d1 in [8, 8]')
    >>> window = sum_of_digits([SizedDigit(dim(0), 4, 2), SizedDigit(const(3), 3, 1)])
    >>> window.size, window.stride, str(window.constraints)
    (d0 * 2 + 1, 1, 'always')
    >>> dilated = sum_of_digits([SizedDigit(dim(0), 9, 1), SizedDigit(const(3), 3, 2)])
    >>> dilated.size, dilated.stride, str(dilated.constraints)
    (d0 + 4, 1, 'd0 in [2, 9]')
    """
    start: Expr = const(0)
    constant = 0
    if not digits:
        return SymbolicProgression(start, 0, const(1), const(0), TileConstraints.always())
    if len(digits) == 1:
        return SymbolicProgression(start, 0, digits[0].size, const(digits[0].factor), TileConstraints.always())
    if is_mixed([digit.factor for digit in digits]):
        start, constant = _weighted([(digit.size, digit.factor) for digit in digits if digit.factor < 0])
        digits = [digit._replace(factor=abs(digit.factor)) for digit in digits]
    # XLA treats the later one of two terms with equal factors as the smaller one.
    ascending = sorted(digits, key=lambda digit: -abs(digit.factor))[::-1]
    is_radix_number = all(high.factor == low.factor * low.most for low, high in pairwise(ascending))
    dense = TileConstraints.unsatisfiable() if is_radix_number else _dense(ascending)
    # A window reads all of its elements, whatever the size of the tile. Requiring that windows do not overlap would
    # leave only tiles of one index.
    windowed = any(isinstance(digit.size, Constant) and digit.size.value > 1 for digit in ascending[1:])
    if dense.is_always or (windowed and not dense.is_unsatisfiable):
        smallest = ascending[0].factor
        size, more = _weighted([(digit.size, digit.factor // smallest) for digit in digits])
        return SymbolicProgression(start, constant, size + (more + 1), const(smallest), dense)
    size = digits[0].size
    for digit in digits[1:]:
        size = size * digit.size
    return SymbolicProgression(
        start, constant, size, _stride(ascending), TileConstraints.any_of(_alternatives(ascending))
    )


def is_mixed(factors: Sequence[int]) -> bool:
    """Whether there are factors of both signs."""
    return any(factor < 0 for factor in factors) and any(factor > 0 for factor in factors)


def _weighted(terms: Sequence[tuple[Expr, int]]) -> tuple[Expr, int]:
    """Σ (size - 1) × factor as (expression, constant to add)."""
    total: Expr = const(0)
    constant = 0
    for size, factor in terms:
        constant -= factor
        if isinstance(size, Constant):
            constant += size.value * factor
        else:
            total = total + size * factor
    return total, constant


def _dense(ascending: Sequence[SizedDigit]) -> TileConstraints:
    """The conditions under which each digit has size 1 or a factor that the smaller digits bridge. All factors have the
    same sign. No tile satisfies the conditions if the smallest factor does not divide all others.
    """
    smallest = abs(ascending[0].factor)
    constraints = TileConstraints.always()
    least = most = 0
    below: list[tuple[Expr, int]] = []
    for digit in ascending:
        factor = abs(digit.factor)
        if factor % smallest:
            return TileConstraints.unsatisfiable()
        needed = factor - smallest
        if needed > least:
            alternatives: list[list[Condition]] = []
            if needed <= most:
                reach, constant = _weighted(below)
                alternatives.append([InRange(reach, Interval(needed - constant, most - constant))])
            if not isinstance(digit.size, Constant):
                alternatives.append([InRange(digit.size, Interval(1, 1))])
            constraints = constraints & TileConstraints.any_of(alternatives)
        least += factor * (digit.size.value - 1) if isinstance(digit.size, Constant) else 0
        most += factor * (digit.most - 1)
        below.append((digit.size, factor))
    return constraints


def _alternatives(ascending: Sequence[SizedDigit]) -> list[list[Condition]]:
    """The conditions of XLA's form, one alternative for each choice of digits `first` and `last`: the digits from
    `first` up to `last` are complete, `last` has any size, and the others have size 1.
    """
    count = len(ascending) * (len(ascending) + 1) // 2
    check("tile alternatives", count, MOST_ALTERNATIVES)
    spend(count)
    alternatives: list[list[Condition]] = []
    for first in range(len(ascending)):
        for last in range(first, len(ascending)):
            if last > first:
                low, high = ascending[last - 1], ascending[last]
                if high.factor != low.factor * low.most:
                    break
            sizes = [(digit.size, 1) for digit in (*ascending[:first], *ascending[last + 1 :])]
            sizes += [(digit.size, digit.most) for digit in ascending[first:last]]
            if any(isinstance(size, Constant) and size.value != value for size, value in sizes):
                continue
            alternatives.append(
                [InRange(size, Interval(value, value)) for size, value in sizes if not isinstance(size, Constant)]
            )
    return alternatives


def _stride(ascending: Sequence[SizedDigit]) -> Expr:
    """The factor of the first digit that does not have size 1, in the form in which XLA writes it; 0 if all digits have
    size 1.
    """
    stride: Expr = const(0)
    for digit in reversed(ascending):
        # (most + 1 - size) / most is 1 for size 1 and 0 for the other sizes up to `most`.
        is_one: Expr = -digit.size + (digit.most + 1)
        if digit.most != 1:
            is_one = is_one // digit.most
        stride = _chosen(is_one, stride, digit.factor)
    return stride


def _chosen(is_one: Expr, above: Expr, factor: int) -> Expr:
    """is_one * above + (1 - is_one) * factor."""
    if isinstance(is_one, Constant):
        return above if is_one.value else const(factor)
    if isinstance(above, Constant):
        begin = is_one if above.value == 1 else const(0) if above.value == 0 else ex.Mul(is_one, above)
    elif isinstance(above, ex.Mul) and isinstance(above.rhs, Constant):
        begin = ex.Mul(ex.Mul(is_one, above.lhs), above.rhs)
    else:
        begin = ex.Mul(is_one, above)
    not_one = -is_one + 1
    end = not_one if factor == 1 else ex.Mul(not_one, factor)
    if begin == const(0):
        return end
    if factor < 0:
        end = ex.Mul(is_one * factor - factor, -1)  # prints as "… - (is_one * -2 + 2)"
    elif factor == 1 and isinstance(is_one, ex.FloorDiv):
        end = ex.Mul(is_one - 1, -1)  # prints as "… - (is_one - 1)"
    return ex.Add(begin, end)


# -- digits ------------------------------------------------------------------------------------


MOST_ENUMERATED = 1 << 12
"""The largest number of values of a variable that are enumerated to decide whether its digits are independent."""


class Run(NamedTuple):
    """`length` consecutive numbers from `start`."""

    start: int
    length: int


class Digit(NamedTuple):
    """((variable + shift) / divisor) mod modulus, where a modulus of 0 means none.

    The shift is in [0, divisor), or in [0, divisor × modulus) if there is a modulus.
    """

    variable: Variable
    shift: int = 0
    divisor: int = 1
    modulus: int = 0

    def at(self, value: int) -> int:
        """The digit for a value of its variable."""
        quotient = (value + self.shift) // self.divisor
        return quotient % self.modulus if self.modulus else quotient

    def run(self, start: int, end: int) -> Run | None:
        """The values of the digit while its variable has the values start, …, end - 1, with start < end. None if these
        values are not consecutive: the mod wraps around before the digit has taken all its values.

        >>> from xlashape.symbolic.expr.expression import dim
        >>> digit = Digit(dim(0), 0, 4, 3)
        >>> digit.run(0, 8), digit.run(4, 40), digit.run(9, 15)
        (Run(start=0, length=2), Run(start=0, length=3), None)
        """
        first, last = (start + self.shift) // self.divisor, (end - 1 + self.shift) // self.divisor
        count = last - first + 1
        if not self.modulus:
            return Run(first, count)
        if count >= self.modulus:
            return Run(0, self.modulus)
        first %= self.modulus
        return Run(first, count) if first + count <= self.modulus else None

    def count(self, values: int) -> int:
        """How many values the digit takes while its variable has the values 0, …, values - 1."""
        count = (values + self.shift + self.divisor - 1) // self.divisor
        return min(count, self.modulus) if self.modulus else count


class DigitSum(NamedTuple):
    """One result of a map: `fixed` + `constant` + Σ digit × factor, in XLA's order of terms. `fixed` has runtime
    variables only.
    """

    fixed: Expr
    constant: int
    terms: tuple[tuple[Digit, int], ...]


def _within_period(context: BoundedContext, terms: Terms, constant: int, modulus: int) -> Form | None:
    """x mod m = x - q m if x lies within [q m, q m + m - 1]. Unlike `mod_rules.one_period`, keeps an x that has one
    value as it is.
    """
    low, high = context.range_of_form(terms, constant)
    start = low // modulus * modulus
    return None if high >= start + modulus else (terms, constant - start)


class TileSimplifier(Simplifier):
    """Simplifies as XLA does before it looks for tiles: a variable or division with one value is not replaced by that
    value.
    """

    __slots__ = ()
    _floordiv_rules = tuple([rule for rule in floordiv_rules.RULES if rule is not floordiv_rules.one_value])
    _mod_rules = tuple([_within_period if rule is mod_rules.one_period else rule for rule in mod_rules.RULES])

    def _form_of_variable(self, node: Variable) -> Form:
        return {node: 1}, 0


def linear_form_of(simplifier: Simplifier, expr: Expr) -> Form:
    """The simplified expression as Σ coefficient × atom + constant."""
    return _terms(simplifier.simplify(expr))


def _terms(expr: Expr) -> Form:
    """A simplified sum as Σ coefficient × atom + constant."""
    terms: dict[Expr, int] = {}
    constant = 0
    for term in ex.sum_terms(expr):
        if isinstance(term, Constant):
            constant += term.value
        elif isinstance(term, ex.Mul) and isinstance(term.rhs, Constant):
            terms[term.lhs] = terms.get(term.lhs, 0) + term.rhs.value
        else:
            terms[term] = terms.get(term, 0) + 1
    return terms, constant


def digit_sum_of(simplifier: Simplifier, result: Expr) -> DigitSum | None:
    """A result as a sum of digits; None if it is not such a sum."""
    terms, constant = linear_form_of(simplifier, result)
    fixed: dict[Expr, int] = {}
    digits: list[tuple[Expr, Digit, int]] = []
    for atom, factor in terms.items():
        if all(variable.kind is VariableKind.RUNTIME for variable in ex.variables_of([atom])):
            fixed[atom] = factor
            continue
        digit_and_shift = _digit_of(atom)
        if digit_and_shift is None:
            return None
        digit, added = digit_and_shift
        constant += added * factor
        digits.append((expression_of({atom: factor}, 0), digit, factor))
    digits.sort(key=lambda term: ex.order_key(term[0]))
    return DigitSum(expression_of(fixed, 0), constant, tuple([(digit, factor) for _, digit, factor in digits]))


def _digit_of(atom: Expr) -> tuple[Digit, int] | None:
    """(digit, constant to add) for a simplified atom that consists of divisions, mods and additions of constants on one
    variable; None if the atom is not a digit.

    A division or mod of a mod is not a digit: the simplifier has rewritten all that could be one.
    """
    operators: list[Binary] = []
    node = atom
    while isinstance(node, ex.FloorDiv | ex.Mod | ex.Add):
        if not isinstance(node.rhs, Constant):
            return None
        operators.append(node)
        node = node.lhs
    if not isinstance(node, Variable):
        return None
    shift, divisor, modulus, added = 0, 1, 0, 0
    for operator in reversed(operators):
        assert isinstance(operator.rhs, Constant)
        value = operator.rhs.value
        if isinstance(operator, ex.Add):
            added += value
        elif modulus:
            return None
        elif isinstance(operator, ex.FloorDiv):
            # ((v + s) / a + k) / b is (v + s + k a) / (a b).
            shift, divisor = shift + added * divisor, divisor * value
            added, shift = divmod(shift, divisor)
        else:
            shift, modulus, added = (shift + added * divisor) % (divisor * value), value, 0
    return Digit(node, shift, divisor, modulus), added


def runs_of(digits: Sequence[Digit], start: int, end: int) -> dict[Digit, Run] | None:
    """The runs of digits of one variable for its values start, …, end - 1. None if a digit is not a run or the digits
    are not independent.

    Also None if the digits are not those of a number (see `is_chain`) and the variable has more than `MOST_ENUMERATED`
    values.

    >>> from xlashape.symbolic.expr.expression import dim
    >>> row, column = Digit(dim(0), 0, 8), Digit(dim(0), 0, 1, 8)
    >>> [run.length for run in runs_of([row, column], 8, 24).values()], runs_of([row, column], 4, 12)
    ([2, 8], None)
    """
    runs: dict[Digit, Run] = {}
    for digit in digits:
        run = digit.run(start, end)
        if run is None:
            return None
        runs[digit] = run
    varying = sorted([digit for digit in digits if runs[digit].length > 1], key=lambda digit: -digit.divisor)
    if len(set(varying)) < len(varying):
        return None
    if len(varying) > 1 and not (_chain_is_independent if is_chain(varying) else _enumerated)(varying, start, end):
        return None
    return runs


def is_chain(digits: Sequence[Digit]) -> bool:
    """Whether the digits, the highest first, are those of a number: the divisor of each digit is a multiple of divisor
    × modulus of the next lower one.
    """
    return all(digit.shift == 0 for digit in digits) and all(
        low.modulus and high.divisor % (low.divisor * low.modulus) == 0 for high, low in pairwise(digits)
    )


def _chain_is_independent(chain: Sequence[Digit], start: int, end: int) -> bool:
    """Whether the digits of a number take every combination of values. Each of them is a run of several values for
    start, …, end - 1.

    The highest digit divides the values into blocks. In all blocks the lower digits must take the same combinations:
    all there are if some block is complete; otherwise there are two blocks, which must have the same runs.
    """
    if len(chain) < 2:
        return True
    top, below = chain[0], chain[1:]
    step = top.divisor
    first, last = start // step, (end - 1) // step
    count = last - first + 1
    complete = {digit: Run(0, digit.modulus) for digit in below}
    if top.modulus and count >= top.modulus + 2:
        return True
    head = _independent_runs(below, start, (first + 1) * step)
    tail = _independent_runs(below, last * step, end)
    if top.modulus and count == top.modulus + 1:
        # The first and the last block have the same highest digit, so together they must take all combinations of the
        # lower ones.
        covered = complete in (head, tail) or end - last * step >= start - first * step
        return covered or _enumerated(chain, start, end)
    return head is not None and head == tail and (count == 2 or head == complete)


def _independent_runs(chain: Sequence[Digit], start: int, end: int) -> dict[Digit, Run] | None:
    """The runs of the lower digits of a number in a part of a block; None if they are not independent."""
    runs: dict[Digit, Run] = {}
    for digit in chain:
        run = digit.run(start, end)
        assert run is not None  # the part begins or ends at a multiple of the digit's period
        runs[digit] = run
    varying = [digit for digit in chain if runs[digit].length > 1]
    return runs if _chain_is_independent(varying, start, end) else None


def _enumerated(digits: Sequence[Digit], start: int, end: int) -> bool:
    """Whether the digits take every combination of values, decided by enumeration. False if there are too many values
    to enumerate.
    """
    if end - start > MOST_ENUMERATED:
        return False
    spend(1 + (end - start) // 16)
    combinations = {tuple([digit.at(value) for digit in digits]) for value in range(start, end)}
    return len(combinations) == product(len(set(values)) for values in zip(*combinations, strict=True))


# -- stages ------------------------------------------------------------------------------------


_TermSet: TypeAlias = frozenset[tuple[Expr, int]]
"""The terms of a sum, without its constant: pairs (atom, coefficient)."""


class Stages(NamedTuple):
    """A map as `first` followed by `second`. The results of `first` are the dimensions of `second`. They are 0 at the
    start of a tile at index 0.
    """

    first: IndexingMap
    second: IndexingMap


def stages_of(simple: IndexingMap) -> Stages | None:
    """The stages of a simplified map; None if it divides no sum.

    >>> simple = IndexingMap.parse(
    ...     "(d0, d1, d2) -> ((d0 * 6 + d1) / 16, (d0 * 6 + d1) mod 16, d2), "
    ...     "domain: d0 in [0, 7], d1 in [0, 5], d2 in [0, 2]"
    ... )
    >>> for stage in stages_of(simple):
    ...     print(stage)
    (d0, d1, d2) -> (d0 * 6 + d1, d2), domain: d0 in [0, 7], d1 in [0, 5], d2 in [0, 2]
    (d0, d1) -> (d0 / 16, d0 mod 16, d1), domain: d0 in [0, 47], d1 in [0, 2]
    """
    exprs = (*simple.results, *(expr for expr, _ in simple.constraints))
    sums = _divided_sums(exprs)
    if not sums:
        return None
    variables = [variable for group in simple.variable_expressions() for variable in group]
    bounds = dict(zip(variables, [var.bounds for var in simple.variables], strict=True))
    starts: dict[_TermSet, int] = {terms: _at_start(terms, bounds) for terms in sums}
    # The sums become dimensions with numbers above those of the map's own dimensions. They are renumbered when it is
    # known which of these the second map keeps.
    placeholders = {terms: dim(len(simple.dims) + k) for k, terms in enumerate(sums)}
    replaced = _replaced(exprs, {terms: placeholders[terms] + starts[terms] for terms in sums})
    used_outside = ex.variables_of(replaced)
    used_in_sums = ex.variables_of([expression_of(dict(terms), 0) for terms in sums])
    kept = [variable for variable in variables[: len(simple.dims)] if variable in used_outside]
    kept += [
        variable
        for variable in variables
        if variable.kind is VariableKind.RANGE and variable in used_outside and variable in used_in_sums
    ]
    first_results = [expression_of(dict(terms), -starts[terms]) for terms in sums] + list(kept)
    ranges = Ranges({variable: (low, high) for variable, (low, high) in bounds.items()})
    second_dims = [Var(Interval(*ranges.of(result))) for result in first_results]
    second_ranges = [
        variable for variable in variables if variable.kind is VariableKind.RANGE and variable not in used_in_sums
    ]
    renumbered: dict[Variable, Expr] = {placeholders[terms]: dim(k) for k, terms in enumerate(sums)}
    renumbered |= {variable: dim(len(sums) + k) for k, variable in enumerate(kept)}
    renumbered |= {variable: Variable(VariableKind.RANGE, k) for k, variable in enumerate(second_ranges)}
    of_second = ex.substitute(replaced, renumbered)
    count = len(simple.results)
    return Stages(
        IndexingMap(simple.dims, simple.ranges, (), first_results),
        IndexingMap(
            second_dims,
            [simple.ranges[variable.index] for variable in second_ranges],
            simple.runtime,
            of_second[:count],
            zip(of_second[count:], [interval for _, interval in simple.constraints], strict=True),
        ),
    )


def _divided_sums(exprs: tuple[Expr, ...]) -> list[_TermSet]:
    """The sums of several terms that are divided, or taken modulo, without another such sum inside and without runtime
    variables.
    """
    sums: dict[_TermSet, None] = {}  # a set that keeps the order of insertion
    divides_sum: dict[Expr, bool] = {}
    for node in ex.postorder(exprs):
        divides = isinstance(node, Binary) and (divides_sum[node.lhs] or divides_sum[node.rhs])
        if isinstance(node, ex.FloorDiv | ex.Mod) and isinstance(node.lhs, ex.Add):
            terms, _ = _terms(node.lhs)
            spend(len(terms))
            if len(terms) > 1:
                has_runtime = any(variable.kind is VariableKind.RUNTIME for variable in ex.variables_of([node.lhs]))
                if not divides and not has_runtime:
                    sums[frozenset(terms.items())] = None
                divides = True
        divides_sum[node] = divides
    return list(sums)


def _at_start(terms: _TermSet, bounds: dict[Variable, Interval]) -> int:
    """The value of a sum where every dimension is 0 and every range variable has its first value."""
    expr = expression_of(dict(terms), 0)
    values: dict[Variable, Expr] = {
        variable: Constant(0 if variable.kind is VariableKind.DIM else bounds[variable].lower)
        for variable in ex.variables_of([expr])
    }
    (value,) = ex.substitute((expr,), values)
    assert isinstance(value, Constant)
    return value.value


def _replaced(exprs: tuple[Expr, ...], values: dict[_TermSet, Expr]) -> tuple[Expr, ...]:
    """The expressions with the sums of `values`, and integer multiples of them, replaced. Constants added to a sum
    stay.
    """
    order = ex.postorder(exprs)
    # A sum of many terms contains partial sums as nodes, which are not sums of the map.
    complete = set(exprs)
    for node in order:
        if isinstance(node, Binary) and not isinstance(node, ex.Add):
            complete |= {node.lhs, node.rhs}
    replaced: dict[Expr, Expr] = {}
    for node in order:
        form: Form = _terms(node) if isinstance(node, ex.Add) and node in complete else ({}, 0)
        terms, constant = form
        spend(1 + len(terms))
        value = None
        for terms_of_sum, replacement in values.items() if len(terms) > 1 else ():
            factor = _quotient(terms, dict(terms_of_sum))
            if factor:
                value = replacement * factor + constant
        if value is None and isinstance(node, Binary):
            value = node.__class__(replaced[node.lhs], replaced[node.rhs])
        replaced[node] = node if value is None else value
    return tuple([replaced[expr] for expr in exprs])


def _quotient(terms: Terms, divisor: Terms) -> int:
    """The integer by which `terms` are a multiple of the terms `divisor`; 0 if there is none."""
    if terms.keys() != divisor.keys():
        return 0
    atom = next(iter(divisor))
    factor = terms[atom] // divisor[atom]
    return factor if all(terms[atom] == factor * coefficient for atom, coefficient in divisor.items()) else 0
