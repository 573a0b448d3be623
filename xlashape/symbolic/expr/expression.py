"""Integer expressions over bounded variables: variables, constants, +, ×, floor and ceiling division, mod, min, max.
Matches `xla::SymbolicExpr`.

Nodes are frozen and interned: two equal expressions are the same object, so equality and hashing go by identity, and
shared parts are stored once.

Division rounds towards −∞ (`CeilDiv`: towards +∞); the value of a mod is in [0, modulus). Calling a class builds the
node as given. Python's operators (`dim(0) + 1`) call the functions `add`, `multiply`, …, which fold constants: an
operation on constants is a constant, and other constants move to the right. Constants are exact integers of up to 4,096
bits. Code that writes constants to text, a proto or an array checks that they fit int64.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from enum import IntEnum
from typing import Any, ClassVar, NoReturn, TypeAlias, TypeVar, Union, cast

from xlashape.base.frozen import Frozen, set_field
from xlashape.errors import InvalidMapError, SizeOverflowError
from xlashape.limits import MAX_EXPRESSION_DEPTH, check, spend
from xlashape.symbolic.expr.interning import intern, references

_T = TypeVar("_T")
_Part = TypeVar("_Part", bound="Expr")

MAX_EXPRESSION_NODES = 1 << 20
"""The largest number of nodes of an expression as a tree, in which a shared part counts each time it is used."""

_MAX_BITS = 1 << 12
"""The largest number of bits of a constant and of a value. Sums and products of int64 numbers fit and are exact, and
their size is bounded.
"""

_LIMIT = 1 << _MAX_BITS


def checked_value(value: int) -> int:
    """The intermediate value `value` of an expression. Raises SizeOverflowError if it has more than 4,096 bits: an
    expression that multiplies a shared part by itself, again and again, squares the value with each node.

    >>> checked_value(1 << 4096)
    Traceback (most recent call last):
    xlashape.errors.SizeOverflowError: an expression takes values of more than 4096 bits
    """
    if -_LIMIT < value < _LIMIT:
        return value
    raise SizeOverflowError(f"an expression takes values of more than {_MAX_BITS} bits")


class VariableKind(IntEnum):
    """The kind of a variable. Variables are sorted and listed in this order of kinds."""

    DIM = 0
    RANGE = 1
    RUNTIME = 2


Operand: TypeAlias = Union["Expr", int]


class Expr(Frozen):
    """An expression. `depth` counts levels of operators (a sum of any length is one level), `size` the nodes of the
    tree.
    """

    __slots__ = ("__weakref__", "cached_order_key", "depth", "size")

    rank: ClassVar[int] = -1
    """Index of the class in XLA's order of terms: sum, product, mod, floor division, ceiling division, max, min,
    variable, constant.
    """

    to_text: ClassVar[Callable[[Expr], str]]
    """The function that writes an expression as text, for `repr`. `xlashape/symbolic/expr/text.py` sets it when it is
    imported, because that file imports this one.
    """

    depth: int
    size: int
    cached_order_key: tuple[int, ...] | None  # `order_key` fills it in

    def __add__(self, other: Operand) -> Expr:
        return add(self, other)

    def __radd__(self, other: Operand) -> Expr:
        return add(as_expr(other), self)

    def __sub__(self, other: Operand) -> Expr:
        return add(self, -other)

    def __rsub__(self, other: Operand) -> Expr:
        return add(as_expr(other), -self)

    def __neg__(self) -> Expr:
        return multiply(self, -1)

    def __pos__(self) -> Expr:
        return self

    def __mul__(self, other: Operand) -> Expr:
        return multiply(self, other)

    def __rmul__(self, other: Operand) -> Expr:
        return multiply(as_expr(other), self)

    def __floordiv__(self, other: Operand) -> Expr:
        return floor_div(self, other)

    def __rfloordiv__(self, other: Operand) -> Expr:
        return floor_div(as_expr(other), self)

    def __mod__(self, other: Operand) -> Expr:
        return modulo(self, other)

    def __rmod__(self, other: Operand) -> Expr:
        return modulo(as_expr(other), self)

    def __reduce__(self) -> tuple[Any, ...]:
        return (_rebuild, (_flatten(self),))

    def __repr__(self) -> str:
        return Expr.to_text(self)


class Constant(Expr):
    """An integer."""

    __slots__ = ("value",)
    __match_args__ = ("value",)
    rank = 8
    value: int

    def __new__(cls, value: int) -> Constant:
        key = (cls, value)
        reference = references.get(key)
        if reference is not None and (node := reference()) is not None and value.__class__ is int:
            return node
        value = _plain_int(value, "a constant")
        if value.bit_length() > _MAX_BITS:
            raise InvalidMapError(f"a constant of an expression has more than {_MAX_BITS} bits")
        node = object.__new__(cls)
        set_field(node, "value", value)
        set_field(node, "depth", 0)
        set_field(node, "size", 1)
        set_field(node, "cached_order_key", (8, value))
        return intern((cls, value), node)


class Variable(Expr):
    """A variable of an indexing map: number `index` of its kind, counted from 0. The map holds its bounds and its
    name.
    """

    __slots__ = ("index", "kind")
    __match_args__ = ("kind", "index")
    rank = 7
    kind: VariableKind
    index: int

    def __new__(cls, kind: VariableKind, index: int) -> Variable:
        reference = references.get((cls, kind, index))
        if reference is not None and (node := reference()) is not None:
            return node
        try:
            kind = VariableKind(kind)
        except ValueError:
            raise InvalidMapError(f"not a kind of variable: {kind!r}") from None
        index = _plain_int(index, "the index of a variable")
        if index < 0:
            raise InvalidMapError(f"the index of a variable is 0 or more, not {index}")
        node = object.__new__(cls)
        set_field(node, "kind", kind)
        set_field(node, "index", index)
        set_field(node, "depth", 0)
        set_field(node, "size", 1)
        set_field(node, "cached_order_key", (7, int(kind), index))
        return intern((cls, kind, index), node)


class Binary(Expr):
    """An operator with two operands, `lhs` and `rhs`."""

    __slots__ = ("lhs", "rhs")
    __match_args__ = ("lhs", "rhs")
    lhs: Expr
    rhs: Expr

    def __new__(cls, lhs: Operand, rhs: Operand) -> Any:
        key = (cls, lhs, rhs)
        reference = references.get(key)
        if reference is not None and (node := reference()) is not None:
            return node
        left, right = as_expr(lhs), as_expr(rhs)
        if cls._divides and (type(right) is not Constant or right.value <= 0):
            _refuse_divisor(cls, right)
        size = left.size + right.size + 1
        if size > MAX_EXPRESSION_NODES:
            check("expression nodes", size, MAX_EXPRESSION_NODES)
        if cls is Add:
            below = max(left.depth - (left.__class__ is Add), right.depth - (right.__class__ is Add))
        else:
            below = max(left.depth, right.depth)
        if below >= MAX_EXPRESSION_DEPTH:
            check("expression depth", below + 1, MAX_EXPRESSION_DEPTH)
        node = object.__new__(cls)
        set_field(node, "lhs", left)
        set_field(node, "rhs", right)
        set_field(node, "depth", below + 1)
        set_field(node, "size", size)
        set_field(node, "cached_order_key", None)
        return intern((cls, left, right), node)

    _divides: ClassVar[bool] = False


class Add(Binary):
    """lhs + rhs."""

    __slots__ = ()
    rank = 0


class Mul(Binary):
    """lhs * rhs."""

    __slots__ = ()
    rank = 1


class Mod(Binary):
    """lhs mod rhs, in [0, rhs). The modulus is a positive constant."""

    __slots__ = ()
    rank = 2
    _divides = True


class FloorDiv(Binary):
    """lhs / rhs rounded towards −∞. The divisor is a positive constant."""

    __slots__ = ()
    rank = 3
    _divides = True


class CeilDiv(Binary):
    """lhs / rhs rounded towards +∞. The divisor is a positive constant."""

    __slots__ = ()
    rank = 4
    _divides = True


class Max(Binary):
    """The larger of both."""

    __slots__ = ()
    rank = 5


class Min(Binary):
    """The smaller of both."""

    __slots__ = ()
    rank = 6


def _plain_int(value: Any, what: str) -> int:
    if value.__class__ is int:
        return value
    if not isinstance(value, bool):
        try:
            return int(value.__index__())
        except AttributeError:
            pass
    raise InvalidMapError(f"{what} is an integer, not {value!r:.40}")


def _refuse_divisor(cls: type[Binary], divisor: Expr) -> NoReturn:
    what = "a modulus" if cls is Mod else "a divisor"
    if isinstance(divisor, Constant):
        raise InvalidMapError(f"{what} is a positive constant, not {divisor.value}")
    raise InvalidMapError(f"{what} is a positive constant, not an expression")


def as_expr(value: Operand) -> Expr:
    """`value` itself if it is an expression, and the constant `value` if it is an integer."""
    return value if isinstance(value, Expr) else Constant(value)


def const(value: int) -> Constant:
    """The constant `value`."""
    return Constant(value)


def dim(index: int) -> Variable:
    """The dimension variable d`index`."""
    return Variable(VariableKind.DIM, index)


def rng(index: int) -> Variable:
    """The range variable s`index`."""
    return Variable(VariableKind.RANGE, index)


def rt(index: int) -> Variable:
    """The runtime variable rt`index`."""
    return Variable(VariableKind.RUNTIME, index)


# -- folding of constants ----------------------------------------------------------------------


def add(lhs: Operand, rhs: Operand) -> Expr:
    """lhs + rhs. Constants fold and move to the right; 0 is dropped.

    >>> 2 + dim(0), dim(0) + 0, const(2) + 3
    (d0 + 2, d0, 5)
    """
    a, b = as_expr(lhs), as_expr(rhs)
    if isinstance(a, Constant):
        if isinstance(b, Constant):
            return Constant(a.value + b.value)
        a, b = b, a
    if isinstance(b, Constant) and b.value == 0:
        return a
    return Add(a, b)


def multiply(lhs: Operand, rhs: Operand) -> Expr:
    """lhs * rhs. Constants fold and move to the right; constant factors merge; -1 is multiplied into the terms of a
    sum. A product with 0 is 0, unless the other factor may have more than 128 bits: evaluating such a factor is an
    error, so that product stays.

    >>> 2 * dim(0) * 3, dim(0) * 0, -(dim(0) - 1)
    (d0 * 6, 0, -d0 + 1)
    """
    a, b = as_expr(lhs), as_expr(rhs)
    if isinstance(a, Constant):
        if isinstance(b, Constant):
            return Constant(a.value * b.value)
        a, b = b, a
    if isinstance(b, Constant):
        if b.value == 0:
            return b if _fits(a) else Mul(a, b)
        if b.value == 1:
            return a
        if isinstance(a, Mul) and isinstance(a.rhs, Constant):
            return multiply(a.lhs, a.rhs.value * b.value)
        if isinstance(a, Add) and b.value == -1:
            terms = sum_terms(a)
            result = multiply(terms[0], b)
            for term in terms[1:]:
                spend(1)  # a part of the sum that the expression shares is multiplied each time
                result = add(result, multiply(term, b))
            return result
    return Mul(a, b)


def _fits(expr: Expr) -> bool:
    """Whether all intermediate values of `expr` fit 128 bits, for all int64 values of its variables."""
    if isinstance(expr, Variable):
        return True
    order = postorder(expr)
    spend(len(order))
    greatest: dict[Expr, int] = {}  # the greatest absolute value of each node
    for node in order:
        if not isinstance(node, Binary):
            value = abs(node.value) if isinstance(node, Constant) else 1 << 63
        else:
            a, b = greatest[node.lhs], greatest[node.rhs]
            if isinstance(node, Mod):
                value = b
            elif isinstance(node, FloorDiv | CeilDiv):
                value = a
            else:
                value = a + b if isinstance(node, Add) else a * b if isinstance(node, Mul) else max(a, b)
        if value >= 1 << 127:
            return False
        greatest[node] = value
    return True


def floor_div(lhs: Operand, rhs: Operand) -> Expr:
    """lhs / rhs rounded towards −∞; constants fold, and a / 1 is a. A negative divisor negates the dividend: a / -3 is
    (-a) / 3.

    >>> dim(0) // 8, const(-7) // 2, dim(0) // -3
    (d0 / 8, -4, -d0 / 3)
    >>> dim(0) // 1, dim(0) // -1
    (d0, -d0)
    """
    a, b = as_expr(lhs), as_expr(rhs)
    if isinstance(b, Constant) and b.value != 0:
        if isinstance(a, Constant):
            return Constant(a.value // b.value)
        if b.value < 0:
            a, b = multiply(a, -1), Constant(-b.value)
        if b.value == 1:
            return a
    return FloorDiv(a, b)


def ceil_div(lhs: Operand, rhs: Operand) -> Expr:
    """lhs / rhs rounded towards +∞; constants fold, and the quotient by 1 is the dividend. A negative divisor negates
    the dividend.

    >>> ceil_div(dim(0), 8), ceil_div(const(-7), 2)
    (d0 ceildiv 8, -3)
    """
    a, b = as_expr(lhs), as_expr(rhs)
    if isinstance(b, Constant) and b.value != 0:
        if isinstance(a, Constant):
            return Constant(-(-a.value // b.value))
        if b.value < 0:
            a, b = multiply(a, -1), Constant(-b.value)
        if b.value == 1:
            return a
    return CeilDiv(a, b)


def modulo(lhs: Operand, rhs: Operand) -> Expr:
    """lhs mod rhs, in [0, rhs); constants fold, and a mod 1 is 0 unless a may have more than 128 bits. The modulus is
    positive.

    >>> dim(0) % 8, const(-7) % 4, dim(0) % 1
    (d0 mod 8, 1, 0)
    """
    a, b = as_expr(lhs), as_expr(rhs)
    if isinstance(a, Constant) and isinstance(b, Constant) and b.value > 0:
        return Constant(a.value % b.value)
    if isinstance(b, Constant) and b.value == 1 and _fits(a):
        return Constant(0)
    return Mod(a, b)


def minimum(lhs: Operand, rhs: Operand) -> Expr:
    """The smaller of both; constants fold and move to the right.

    >>> minimum(4, dim(0))
    min(d0, 4)
    """
    return _one_of(lhs, rhs, Min, min)


def maximum(lhs: Operand, rhs: Operand) -> Expr:
    """The larger of both; constants fold and move to the right.

    >>> maximum(dim(0), 4)
    max(d0, 4)
    """
    return _one_of(lhs, rhs, Max, max)


def _one_of(lhs: Operand, rhs: Operand, node: type[Min | Max], choose: Callable[[int, int], int]) -> Expr:
    a, b = as_expr(lhs), as_expr(rhs)
    if isinstance(a, Constant):
        if isinstance(b, Constant):
            return Constant(choose(a.value, b.value))
        a, b = b, a
    return node(a, b)


_FOLDING: dict[type[Expr], Callable[[Operand, Operand], Expr]] = {
    Add: add,
    Mul: multiply,
    Mod: modulo,
    FloorDiv: floor_div,
    CeilDiv: ceil_div,
    Max: maximum,
    Min: minimum,
}


# -- walking over expressions ------------------------------------------------------------------


def sum_terms(expr: Expr) -> list[Expr]:
    """The terms of a sum from left to right; the expression itself if it is not a sum.

    >>> sum_terms(dim(0) + (dim(1) * 2 + 3))
    [d0, d1 * 2, 3]
    """
    terms: list[Expr] = []
    node = expr
    while isinstance(node, Add) and node.rhs.__class__ is not Add:  # sums lean to the left, nearly always
        terms.append(node.rhs)
        node = node.lhs
    if not isinstance(node, Add):
        terms.append(node)
        terms.reverse()
        return terms
    terms.clear()
    stack = [expr]
    while stack:
        node = stack.pop()
        if isinstance(node, Add):
            stack.append(node.rhs)
            stack.append(node.lhs)
        else:
            terms.append(node)
    return terms


def postorder(roots: Expr | tuple[Expr, ...], known: Container[Expr] = ()) -> list[Expr]:
    """Every node of the expressions `roots` once, operands before the nodes that use them.

    Leaves out the nodes in `known`, and nodes that are reachable through them only. Does not recurse.
    """
    seen: set[Expr] = set()
    order: list[Expr] = []
    stack: list[Expr] = list(reversed(roots)) if isinstance(roots, tuple) else [roots]
    while stack:
        node = stack[-1]
        if node in seen or node in known:
            stack.pop()
            continue
        if isinstance(node, Binary):
            lhs, rhs = node.lhs, node.rhs
            depth = len(stack)
            if rhs not in seen and rhs not in known:
                stack.append(rhs)
            if lhs not in seen and lhs not in known:
                stack.append(lhs)
            if len(stack) > depth:
                continue
        stack.pop()
        seen.add(node)
        order.append(node)
    return order


def _flatten(expr: Expr) -> tuple[tuple[Any, ...], ...]:
    """The nodes of an expression in postorder, with operands as positions in that order. A pickle holds this list, so
    that pickling does not recurse.
    """
    order = postorder(expr)
    position = {node: i for i, node in enumerate(order)}
    flat: list[tuple[Any, ...]] = []
    for node in order:
        if isinstance(node, Binary):
            flat.append((node.__class__, position[node.lhs], position[node.rhs]))
        elif isinstance(node, Variable):
            flat.append((Variable, int(node.kind), node.index))
        elif isinstance(node, Constant):
            flat.append((Constant, node.value))
    return tuple(flat)


def _rebuild(flat: tuple[tuple[Any, ...], ...]) -> Expr:
    nodes: list[Any] = []
    for entry in flat:
        cls: Any = entry[0]
        if issubclass(cls, Binary):
            nodes.append(cls(nodes[entry[1]], nodes[entry[2]]))
        else:
            nodes.append(cls(*entry[1:]))
    return nodes[-1]


_COMMON_NODES = [
    *[Variable(kind, index) for kind in VariableKind for index in range(8)],
    *[Constant(value) for value in range(-1, 65)],
]
"""Nodes that nearly every map uses. This list keeps them in the table of nodes. Reading a map takes a sixth less time
with it, if no other map holds the same nodes.
"""


def order_key(expr: Expr) -> tuple[int, ...]:
    """A key that sorts as XLA orders terms.

    The key is the expression in prefix notation, each node a number or more. No expression's key is a prefix of
    another's, so comparing two keys number by number compares classes, then left operands, then right operands.

    >>> sorted([dim(1), dim(0), dim(1) * 2, dim(0) % 4 + 1], key=order_key)
    [d0 mod 4 + 1, d1 * 2, d0, d1]
    """
    key = expr.cached_order_key
    if key is None:
        words: list[int] = []
        stack = [expr]
        while stack:
            node = stack.pop()
            known = node.cached_order_key
            if known is not None:
                words.extend(known)
            elif isinstance(node, Binary):
                words.append(node.rank)
                stack.append(node.rhs)
                stack.append(node.lhs)
        key = tuple(words)
        # Longer keys are rare; keeping one for every prefix of a long sum would take memory quadratic in its length.
        if len(key) <= 64:
            set_field(expr, "cached_order_key", key)
    return key


# -- replacing ---------------------------------------------------------------------------------


def replace(expr: Expr, replaced: Mapping[Expr, Operand]) -> Expr:
    """The expression with every part that is a key of `replaced` replaced by its value; constants fold. No part of a
    replacement is replaced again.

    >>> replace(dim(0) * 2 + dim(1) % 4, {dim(0): dim(1), dim(1) % 4: 3})
    d1 * 2 + 3
    """
    return substitute((expr,), {part: as_expr(value) for part, value in replaced.items()})[0]


def substitute(exprs: tuple[Expr, ...], replaced: Mapping[_Part, Expr]) -> tuple[Expr, ...]:
    """`replace` in several expressions. Shared parts are visited once.

    >>> substitute((dim(0) * 2 + dim(1),), {dim(1): const(3)})
    (d0 * 2 + 3,)
    """
    if not replaced:
        return exprs
    values = cast("Mapping[Expr, Expr]", replaced)
    done: dict[Expr, Expr] = {}
    order = postorder(exprs)
    spend(len(order))
    for node in order:
        value = values.get(node)
        if value is None:
            value = node
            if isinstance(node, Binary):
                lhs, rhs = done[node.lhs], done[node.rhs]
                if lhs is not node.lhs or rhs is not node.rhs:
                    value = _FOLDING[node.__class__](lhs, rhs)
        done[node] = value
    return tuple([done[expr] for expr in exprs])


def substitute_in_map(
    results: Sequence[Expr], constraints: Sequence[tuple[Expr, _T]], replaced: Mapping[_Part, Expr]
) -> tuple[tuple[Expr, ...], tuple[tuple[Expr, _T], ...]]:
    """`substitute` in the results of a map and in the expressions of its constraints. The intervals stay the same.

    >>> substitute_in_map([dim(0)], [(dim(0) % 4, "interval")], {dim(0): dim(1)})
    ((d1,), ((d1 mod 4, 'interval'),))
    """
    exprs = substitute((*results, *[expr for expr, _ in constraints]), replaced)
    count = len(results)
    return exprs[:count], tuple(zip(exprs[count:], [interval for _, interval in constraints], strict=True))


def variables_of(exprs: Iterable[Expr]) -> set[Variable]:
    """The variables that occur in the expressions.

    >>> variables_of([dim(0) + 1, dim(2) % 4]) == {dim(0), dim(2)}
    True
    """
    variables: set[Variable] = set()
    seen: set[Expr] = set()
    stack = [*exprs]
    while stack:
        node = stack.pop()
        if isinstance(node, Variable):
            variables.add(node)
        elif isinstance(node, Binary) and node not in seen:
            seen.add(node)
            stack.append(node.lhs)
            stack.append(node.rhs)
    return variables
