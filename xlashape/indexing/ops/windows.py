"""The arithmetic of one dimension of a window, as reduce-window, convolution and select-and-scatter share it.

Output o and place w in the window meet the padded, dilated input at o · stride + w · window_dilation. Its position p counts from
-padding_low; an input element stands at every base_dilation-th position from 0.
"""

from __future__ import annotations

from math import gcd
from typing import NamedTuple

from xlashape.caches import cached
from xlashape.indexing.ops.attributes import WindowDim
from xlashape.indexing.ops.build import Malformed, make_map, require
from xlashape.symbolic import Expr, IndexingMap, Interval, Variable, dim, rng
from xlashape.symbolic.expr.substitute import substitute
from xlashape.symbolic.simplify.linear_form import expression_of

__all__ = ["Placed", "check_window", "simplified_window_input", "window_input", "window_output"]

Conditions = list[tuple[Expr, Interval]]


def check_window(w: WindowDim, size: int, out: int) -> None:
    """The window can be, and gives as many elements as the output has."""
    require(
        w.size >= 0 and w.stride > 0 and w.window_dilation > 0 and w.base_dilation > 0, "has a window that cannot be"
    )
    base = (size - 1) * w.base_dilation + 1 if size > 0 else 0
    padded = base + w.low + w.high
    reach = (w.size - 1) * w.window_dilation + 1 if w.size > 0 else 0
    expected = 0 if padded < reach or padded <= 0 else (padded - reach) // w.stride + 1
    if expected != out:
        raise Malformed(f"has a window that gives {expected} elements, not {out}")


def window_input(w: WindowDim, size: int, out: Expr, place: Expr) -> tuple[Expr, Conditions]:
    """The input index at `place` of the window of output `out`, and where there is one."""
    position = out * w.stride + place * w.window_dilation - w.low
    inside: Conditions = [(position, Interval(0, (size - 1) * w.base_dilation))]
    if w.base_dilation == 1:
        return position, inside
    inside.append((position % w.base_dilation, Interval(0, 0)))
    return position // w.base_dilation, inside


class Placed(NamedTuple):
    """One dimension of an input as a window meets it, simplified: the index, the bounds that are left to output and place, and what else holds."""

    at: Expr
    out: Interval
    place: Interval
    constraints: tuple[tuple[Expr, Interval], ...]


@cached(max_bytes=8 << 20, entry_bytes=3000)
def simplified_window_input(w: WindowDim, size: int, out_size: int, out: Variable, place: Variable) -> Placed | None:
    """`window_input` in simplified form; None where no place of the window meets an input element.

    No dimension of a window shares a variable with another, so a map is as simple as its dimensions are, each by itself: those of one model
    are few, and simplified once.
    """
    if w.base_dilation == 1 and out_size > 0 and w.size > 0:
        placed = _placed_at_once(w, size, out_size, out, place)
        if placed is not None:
            return placed
    found = _simplified_input(w, size, out_size)
    if found.is_known_empty:
        return None
    exprs = substitute((*found.results, *(expr for expr, _ in found.constraints)), {dim(0): out, rng(0): place})
    pairs = zip(exprs[1:], [interval for _, interval in found.constraints], strict=True)
    return Placed(exprs[0], found.dims[0].bounds, found.ranges[0].bounds, tuple(pairs))


def _placed_at_once(w: WindowDim, size: int, out_size: int, out: Variable, place: Variable) -> Placed | None:
    """Sums of variables that have nothing to simplify: no condition, or one that is simple as it stands. None for any other."""
    terms: dict[Expr, int] = {}
    reach = 0
    for variable, factor, count in ((out, w.stride, out_size), (place, w.window_dilation, w.size)):
        if count > 1:
            terms[variable] = factor
            reach += factor * (count - 1)
    bounds = Interval.of_size(out_size), Interval.of_size(w.size)
    if w.low <= 0 and reach - w.low < size:  # every place meets an element
        return Placed(expression_of(terms, -w.low), *bounds, ())
    common = gcd(w.stride, w.window_dilation)
    several = -(-w.low // common) < min(reach, w.low + size - 1) // common
    if len(terms) == 2 and w.low > 0 and several:
        return Placed(
            expression_of(terms, -w.low), *bounds, ((expression_of(terms, 0), Interval(w.low, w.low + size - 1)),)
        )
    return None


@cached(max_bytes=8 << 20, entry_bytes=4000)
def _simplified_input(w: WindowDim, size: int, out_size: int) -> IndexingMap:
    position, inside = window_input(w, size, dim(0), rng(0))
    return make_map([out_size], [position], ranges=[w.size], constraints=inside).simplify()


def window_output(w: WindowDim, out: int, index: Expr, place: Expr) -> tuple[Expr, Conditions]:
    """The output whose window has input `index` at `place`, and where there is one. With a reversed window places count from its end."""
    position = index * w.base_dilation + w.low - place * w.window_dilation
    inside: Conditions = [(position, Interval(0, (out - 1) * w.stride))]
    if w.stride == 1:
        return position, inside
    inside.append((position % w.stride, Interval(0, 0)))
    return position // w.stride, inside
