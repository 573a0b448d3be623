"""JAX programs that tests compile with and without a change that `memory` suggests: a smaller dimension, bf16 instead
of f32, functions in jax.checkpoint, donations.

A program is a function of a `Change` and of arrays. Its code contains no sizes: all follow from the arguments.
The size of a batch or of a sequence differs from all other sizes, so that a test can change it alone.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

import xlashape as xs


def _same(function: Callable[..., Any]) -> Callable[..., Any]:
    return function


class Change(NamedTuple):
    """A change with which a program is compiled."""

    dtype: Any = jnp.float32
    """The dtype in which the program computes."""
    keep: Callable[..., Any] = _same
    """The function that the layers of the program are wrapped in, such as jax.checkpoint."""


class Program(NamedTuple):
    """A function of a Change and of arrays."""

    function: Callable[..., Any]
    arguments: tuple[Any, ...]

    def flat(self) -> list[jax.ShapeDtypeStruct]:
        """All arrays in the program's arguments."""
        return jax.tree.leaves(self.arguments)

    def memory(
        self,
        change: Change | None = None,
        *,
        donated: tuple[int, ...] = (),
        sizes: Mapping[tuple[int, int], int] | None = None,
    ) -> xs.reports.memory.ProgramMemory:
        """The memory of the compiled program, read from a dump, which has XLA's heap traces. `donated` are the numbers
        of the donated arrays, `sizes` other sizes of dimensions, each as the number of an array and of its dimension.
        """
        arrays = [
            jax.ShapeDtypeStruct(
                [(sizes or {}).get((number, dimension), each) for dimension, each in enumerate(array.shape)],
                array.dtype,
            )
            for number, array in enumerate(self.flat())
        ]
        tree = jax.tree.structure(self.arguments)
        used = Change() if change is None else change

        def call(*arguments: Any) -> Any:
            return self.function(used, *jax.tree.unflatten(tree, arguments))

        with tempfile.TemporaryDirectory() as folder:
            options = {"xla_dump_to": folder, "xla_dump_hlo_as_proto": True}
            jax.jit(call, donate_argnums=donated).lower(*arrays).compile(compiler_options=options)
            (dump,) = Path(folder).glob("*after_optimizations.hlo.pb")
            return xs.memory(dump)


PROGRAMS: dict[str, Program] = {}


def array(*sizes: int, dtype: Any = jnp.float32) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(sizes, dtype)


def program(*arguments: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def note(function: Callable[..., Any]) -> Callable[..., Any]:
        PROGRAMS[function.__name__] = Program(function, arguments)
        return function

    return note


def squares(x):
    return (x.astype(jnp.float32) ** 2).sum()


@program([array(64, 64)] * 6, array(250, 64))
def dense(change, ws, x):
    def layer(h, w):
        return jnp.tanh(h @ w.astype(change.dtype))

    def loss(ws):
        h = x.astype(change.dtype)
        for w in ws:
            h = change.keep(layer)(h, w)
        return squares(h)

    return jax.grad(loss)(ws)


@program([(array(64, 128), array(128, 64))] * 4, array(140, 64))
def residual(change, ws, x):
    def layer(h, up, down):
        return h + jnp.tanh(jnp.tanh(h @ up.astype(change.dtype)) @ down.astype(change.dtype))

    def loss(ws):
        h = x.astype(change.dtype)
        for up, down in ws:
            h = change.keep(layer)(h, up, down)
        return squares(h)

    return jax.value_and_grad(loss)(ws)


@program([array(96, 96)] * 5, array(120, 96))
def normalized(change, ws, x):
    def layer(h, w):
        centered = h - h.mean(-1, keepdims=True)
        scaled = centered / jnp.sqrt(h.var(-1, keepdims=True) + 1e-5)
        return h + jax.nn.gelu(scaled @ w.astype(change.dtype))

    def loss(ws):
        h = x.astype(change.dtype)
        for w in ws:
            h = change.keep(layer)(h, w)
        return squares(h)

    return [w - 0.1 * g for w, g in zip(ws, jax.grad(loss)(ws), strict=True)]


@program(array(6, 50, 4, 32), array(6, 50, 4, 32), array(6, 50, 4, 32))
def attention(change, q, k, v):
    def layer(q, k, v):
        scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / 6
        return jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores, -1), v)

    def loss(q, k, v):
        return squares(change.keep(layer)(q.astype(change.dtype), k.astype(change.dtype), v.astype(change.dtype)))

    return jax.grad(loss, (0, 1, 2))(q, k, v)


@program(array(64, 64), array(20, 36, 64))
def recurrent(change, w, xs):
    def layer(h, x):
        h = jnp.tanh(h @ w_now.astype(change.dtype) + x.astype(change.dtype))
        return h, None

    w_now = w

    def loss(weights):
        nonlocal w_now
        w_now = weights
        h, _ = lax.scan(change.keep(layer), jnp.zeros(xs.shape[1:], change.dtype), xs)
        return squares(h)

    return jax.grad(loss)(w)


@program(array(12, 64, 64), array(100, 64))
def scanned(change, ws, x):
    def layer(h, w):
        return h + jnp.tanh(h @ w.astype(change.dtype)), None

    def loss(ws):
        return squares(lax.scan(change.keep(layer), x.astype(change.dtype), ws)[0])

    return jax.grad(loss)(ws)


@program(array(3, 3, 8, 16), array(3, 3, 16, 16), array(6, 24, 24, 8))
def convolutions(change, a, b, x):
    def convolve(x, k):
        return lax.conv_general_dilated(x, k, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))

    def layer(x, k):
        return jax.nn.relu(convolve(x, k))

    def loss(a, b):
        h = change.keep(layer)(x.astype(change.dtype), a.astype(change.dtype))
        return squares(change.keep(layer)(h, b.astype(change.dtype)))

    return jax.grad(loss, (0, 1))(a, b)


@program(array(2048, 32), array(60, 32), array(60, dtype=jnp.int32))
def logits(change, embedding, x, targets):
    def layer(x, embedding):
        return jax.nn.log_softmax(x.astype(change.dtype) @ embedding.astype(change.dtype).T)

    def loss(embedding):
        found = change.keep(layer)(x, embedding)
        return -jnp.take_along_axis(found, targets[:, None], 1).astype(jnp.float32).mean()

    return jax.grad(loss)(embedding)


@program(array(500, 96), array(96, 96))
def forward(change, x, w):
    h, w = x.astype(change.dtype), w.astype(change.dtype)
    a = jnp.tanh(h @ w)
    b = jnp.sin(a @ w)
    return ((a + b * jnp.exp(-((b @ w) ** 2))) @ w).astype(jnp.float32).sum(1)


@program(array(260, 128), array(128, 128))
def long_lived(change, x, w):
    h = jnp.sin(x.astype(change.dtype)) * 2
    y = h
    for _ in range(4):
        y = jnp.tanh(y @ w.astype(change.dtype))
    return (y[::-1] * h).astype(jnp.float32).sum(0)


@program(array(128, 128), array(128, 128), array(128, 128), array(40, 128))
def adam(change, w, m, v, x):
    def loss(w):
        return squares(change.keep(lambda w: jax.nn.relu(x.astype(change.dtype) @ w.astype(change.dtype)))(w))

    g = jax.grad(loss)(w)
    m = 0.9 * m + 0.1 * g
    v = 0.99 * v + 0.01 * g * g
    return w - 0.01 * m / (jnp.sqrt(v) + 1e-8), m, v


@program(array(1000, 32), array(300, dtype=jnp.int32), array(300, 32))
def scattered(change, table, rows, updates):
    return table.at[rows].add(updates)


@program(array(90, 100, 32))
def updated(change, x):
    return lax.fori_loop(0, x.shape[1], lambda i, a: a.at[:, i].set(a[:, i] * 2 + a[:, 0]), x)


@program(array(5000), array(5000, dtype=jnp.int32))
def sorted_pairs(change, x, i):
    k, v = lax.sort((x, i), num_keys=1)
    return k[::-1], v * 2


@program(array(18, 64, 64))
def spectrum(change, x):
    return jnp.abs(jnp.fft.ifft2(jnp.fft.fft2(x) * jnp.fft.fft2(x[::-1])))


@program(array(300, 200), array(200, 160), array(300, 160))
def shifted(change, x, w, y):
    return y + jnp.tanh(x.astype(change.dtype) @ w.astype(change.dtype)).astype(jnp.float32)


@program(array(700, 64), array(64, 640))
def soft(change, a, b):
    return jax.nn.log_softmax(a.astype(change.dtype) @ b.astype(change.dtype)).astype(jnp.float32).max(1)


@program(array(80, 30, 48), array(48, 48))
def stacked(change, x, w):
    def layer(h):
        return jax.nn.gelu(h @ w.astype(change.dtype))

    def loss(x):
        h = x.astype(change.dtype)
        for _ in range(3):
            h = change.keep(layer)(h)
        return squares(h)

    return jax.value_and_grad(loss)(x)


@program(array(256, 256), array(256, 256))
def chain(change, a, b):
    return jnp.linalg.matrix_power(jnp.tanh(a @ b), 3) + a, b * 2


@program(array(110, 40, 20), array(110, 40, 20))
def mixed(change, x, y):
    z = jnp.einsum("bij,bkj->bik", x.astype(change.dtype), y.astype(change.dtype))
    return jnp.einsum("bik,bkj->bij", jax.nn.softmax(z), y.astype(change.dtype)).astype(jnp.float32), x - y
