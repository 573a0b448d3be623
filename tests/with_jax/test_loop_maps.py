"""Maps through loops of JAX programs, against their Jacobians: EXACT maps name what is read and nothing else."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import xlashape as xs

jax = pytest.importorskip("jax", reason="JAX is not installed")

from jax import lax  # noqa: E402
from jax import numpy as jnp  # noqa: E402
from map_enumeration import elements  # noqa: E402 - beside JAX alone

SIZE = 8
Array = Any


def scan(step: Callable[..., Any], first: Any, *, reverse: bool = False) -> Callable[[Array], Array]:
    return lambda x: lax.scan(step, first, x, reverse=reverse)[1]


def repeat(count: int, step: Callable[..., Any]) -> Callable[[Array], Array]:
    return lambda x: lax.fori_loop(0, count, step, x)


def filled(count: int, step: Callable[..., Any]) -> Callable[[Array], Array]:
    """`step(i, y, x)` changes y, which begins as twice x."""
    return lambda x: lax.fori_loop(0, count, lambda i, y: step(i, y, x), 2 * x)


FOLLOWED: dict[str, Callable[[Array], Array]] = {
    "running sum": scan(lambda c, v: (c + v, c * v), 0.5),
    "running sum from the end": scan(lambda c, v: (c + v, c * v), 0.5, reverse=True),
    "carries that are handed on": lambda x: lax.scan(lambda c, v: ((c[1], v), c[0] * 2), (x[0], x[1]), x)[1],
    "a window that moves": scan(lambda c, v: (jnp.concatenate([c[1:], v[None]]), c.sum()), jnp.ones(3)),
    "a stencil": repeat(3, lambda i, y: y.at[i].set(y[i + 1] * y[i])),
    "a stencil to the end": repeat(SIZE, lambda i, y: y.at[i].set(y[i + 1] * y[i])),
    "a running product": repeat(SIZE - 1, lambda i, y: y.at[i + 1].set(y[i] * y[i + 1])),
    "the element before": repeat(SIZE, lambda i, y: y.at[i].set(y[i - 1] * 2)),
    "from both ends": repeat(SIZE, lambda i, y: y.at[SIZE - 1 - i].set(y[i] * 3)),
    "every second one": filled(SIZE // 2, lambda i, y, x: y.at[2 * i].set(x[i])),
    "pairs that overlap": filled(
        SIZE - 1, lambda i, y, x: lax.dynamic_update_slice(y, lax.dynamic_slice(x, (i,), (2,)), (i,))
    ),
    "pairs that overlap, downwards": filled(
        SIZE - 1, lambda i, y, x: lax.dynamic_update_slice(y, lax.dynamic_slice(x, (i,), (2,)), (SIZE - 2 - i,))
    ),
    "always the same place": repeat(4, lambda i, y: y.at[1].set(y[0] * y[2])),
    "two sums": lambda x: jnp.stack(lax.fori_loop(0, SIZE, lambda i, s: (s[0] + x[i], s[1] + s[0]), (0.0, 0.0))),
    "two that change places": lambda x: lax.fori_loop(0, 5, lambda i, s: (s[1] * 2, s[0]), (x, x[::-1]))[0],
    "read before it is written": lambda x: lax.fori_loop(
        0, 4, lambda i, s: (s[0].at[i].set(x[i]), s[1] + s[0][i]), (x[::-1], 0.0)
    )[1][None],
    "beyond the first": filled(SIZE, lambda i, y, x: y.at[i].set(lax.dynamic_slice(x, (i - 3,), (2,))[0])),
}
OTHERS: dict[str, Callable[[Array], Array]] = {
    "chosen by the counter": repeat(4, lambda i, y: jnp.where(i == 2, y[::-1], y)),
    "chosen by position": repeat(4, lambda i, y: jnp.where(jnp.arange(SIZE) < i, y[::-1], y)),
    "a branch": repeat(4, lambda i, y: lax.cond(i < 2, lambda z: z[::-1], lambda z: z * 2, y)),
    "squares": lambda x: lax.fori_loop(0, 3, lambda i, y: y + lax.dynamic_slice(x, (i * i,), (2,)), jnp.zeros(2)),
    "remainders": filled(SIZE, lambda i, y, x: y.at[i].set(x[i % 3])),
    "halves": filled(SIZE, lambda i, y, x: y.at[i // 2].set(x[i])),
    "a loop in a loop": filled(3, lambda i, y, x: lax.fori_loop(0, 2, lambda j, z: z.at[i].set(z[i] + x[j + i]), y)),
}


def named(module: xs.HloModule) -> tuple[np.ndarray, bool]:
    root, (parameter,) = module.entry.root, module.entry.parameters
    accesses = xs.indexing.output_to_ancestors(root).get(parameter, ())
    found = np.zeros((*root.shape.dimensions, SIZE), bool)
    for access in accesses:
        for index in range(root.shape.dimensions[0]):
            for (at,) in elements(access, (index,)):
                found[index, at] = True
    return found, all(access.knowledge is xs.indexing.Knowledge.EXACT for access in accesses)


def modules(function: Callable[[Array], Array], x: Array) -> Iterator[xs.HloModule]:
    lowered = jax.jit(function).lower(x)
    yield xs.HloModule.of(lowered)
    yield xs.HloModule.of(lowered.compile())


@pytest.mark.parametrize("name", [*FOLLOWED, *OTHERS])
def test_maps_through_loops_are_those_of_the_jacobian(name: str) -> None:
    function = {**FOLLOWED, **OTHERS}[name]
    x = jnp.linspace(0.5, 1.5, SIZE)
    seen = np.asarray(jax.jacfwd(function)(x)) != 0
    are_exact = False
    for module in modules(function, x):
        found, are_exact = named(module)
        assert not (seen & ~found).any(), np.argwhere(seen & ~found)
        if are_exact:
            assert (found == seen).all(), np.argwhere(found & ~seen)
    if name in FOLLOWED:  # in the module that is compiled: a lowered one scatters
        assert are_exact
