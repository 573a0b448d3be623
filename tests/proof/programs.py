"""Programs of many kinds in plain JAX, from which XLA's stages are made: `python programs.py FOLDER [NAME …]`.

Run by a Python that has JAX, of any version since 0.4.31. Each program is compiled for the CPU in a process of its own,
and FOLDER/NAME gets the text after each pass. A program that this version of JAX cannot express is named and left out.
"""

from __future__ import annotations

import itertools
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

PROGRAMS: dict[str, Callable[[], tuple[Callable[..., Any], tuple[Any, ...]]]] = {}


def program(make: Callable[[], tuple[Callable[..., Any], tuple[Any, ...]]]) -> Any:
    PROGRAMS[make.__name__] = make
    return make


def floats(*dims: int, dtype: str = "float32") -> Any:
    import jax

    return jax.ShapeDtypeStruct(dims, dtype)


def ints(*dims: int, dtype: str = "int32") -> Any:
    return floats(*dims, dtype=dtype)


# Networks and their gradients


@program
def mlp_relu_step():
    import jax
    import jax.numpy as jnp

    def loss(params, x, y):
        for w, b in params[:-1]:
            x = jax.nn.relu(x @ w + b)
        w, b = params[-1]
        return jnp.mean((x @ w + b - y) ** 2)

    def step(params, x, y):
        return jax.tree.map(lambda p, g: p - 0.01 * g, params, jax.grad(loss)(params, x, y))

    sizes = [12, 24, 16, 5]
    params = [(floats(i, o), floats(o)) for i, o in itertools.pairwise(sizes)]
    return step, (params, floats(8, 12), floats(8, 5))


@program
def mlp_gelu_adam():
    import jax
    import jax.numpy as jnp

    def loss(params, x, y):
        return jnp.mean((jax.nn.gelu(x @ params["a"]) @ params["b"] - y) ** 2)

    def step(params, m, v, count, x, y):
        grads = jax.grad(loss)(params, x, y)
        m = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, m, grads)
        v = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * g * g, v, grads)
        count = count + 1
        t = count.astype(jnp.float32)
        new = jax.tree.map(
            lambda p, m, v: p - 1e-3 * (m / (1 - 0.9**t)) / (jnp.sqrt(v / (1 - 0.999**t)) + 1e-8), params, m, v
        )
        return new, m, v, count

    params = {"a": floats(6, 10), "b": floats(10, 3)}
    return step, (params, params, params, ints(), floats(4, 6), floats(4, 3))


@program
def bf16_mixed_precision_step():
    import jax
    import jax.numpy as jnp

    def loss(w, x, y):
        h = jnp.tanh(x.astype(jnp.bfloat16) @ w.astype(jnp.bfloat16))
        return jnp.sum((h.astype(jnp.float32) - y) ** 2)

    return jax.value_and_grad(loss), (floats(8, 8), floats(4, 8), floats(4, 8))


@program
def attention_gradient():
    import jax
    import jax.numpy as jnp

    def attention(q, k, v):
        scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / jnp.sqrt(8.0)
        mask = jnp.tril(jnp.ones((6, 6), bool))
        p = jax.nn.softmax(jnp.where(mask, scores, -1e9), axis=-1)
        return jnp.sum(jnp.einsum("bhqk,bkhd->bqhd", p, v) ** 2)

    return jax.grad(attention, argnums=(0, 1, 2)), (floats(2, 6, 3, 8),) * 3


@program
def attention_with_rotary_and_cache():
    import jax
    import jax.numpy as jnp

    def rotary(x, position):
        half = x.shape[-1] // 2
        angles = position * 10000.0 ** (-jnp.arange(half) / half)
        a, b = x[..., :half], x[..., half:]
        return jnp.concatenate(
            [a * jnp.cos(angles) - b * jnp.sin(angles), a * jnp.sin(angles) + b * jnp.cos(angles)], -1
        )

    def decode(x, wq, wk, wv, keys, values, position):
        q, k, v = rotary(x @ wq, position), rotary(x @ wk, position), x @ wv
        keys = jax.lax.dynamic_update_slice(keys, k[None], (position, 0))
        values = jax.lax.dynamic_update_slice(values, v[None], (position, 0))
        scores = jnp.where(jnp.arange(16) <= position, keys @ q, -jnp.inf)
        return jax.nn.softmax(scores) @ values, keys, values

    return decode, (floats(8), *(floats(8, 8),) * 3, floats(16, 8), floats(16, 8), ints())


@program
def layer_norm_gradient():
    import jax
    import jax.numpy as jnp

    def f(x, scale, bias):
        mean = jnp.mean(x, -1, keepdims=True)
        variance = jnp.mean((x - mean) ** 2, -1, keepdims=True)
        return jnp.sum(jnp.sin((x - mean) * jax.lax.rsqrt(variance + 1e-5) * scale + bias))

    return jax.grad(f, argnums=(0, 1, 2)), (floats(4, 10), floats(10), floats(10))


@program
def rms_norm_swiglu():
    import jax
    import jax.numpy as jnp

    def f(x, scale, gate, up, down):
        x = x * jax.lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-6) * scale
        return (jax.nn.silu(x @ gate) * (x @ up)) @ down

    return f, (floats(5, 8), floats(8), floats(8, 12), floats(8, 12), floats(12, 8))


@program
def batch_norm_training():
    import jax
    import jax.numpy as jnp

    def f(x, scale, bias, mean, variance):
        m, v = jnp.mean(x, (0, 1, 2)), jnp.var(x, (0, 1, 2))
        y = (x - m) / jnp.sqrt(v + 1e-3) * scale + bias
        return jax.nn.relu(y), 0.9 * mean + 0.1 * m, 0.9 * variance + 0.1 * v

    return f, (floats(2, 5, 5, 4), *(floats(4),) * 4)


@program
def group_norm():
    import jax.numpy as jnp

    def f(x):
        g = x.reshape(2, 4, 4, 3, 2)
        g = (g - g.mean((1, 2, 4), keepdims=True)) / jnp.sqrt(g.var((1, 2, 4), keepdims=True) + 1e-5)
        return g.reshape(x.shape)

    return f, (floats(2, 4, 4, 6),)


@program
def convolution_gradient():
    import jax

    def f(x, w):
        y = jax.lax.conv_general_dilated(x, w, (2, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
        return (jax.nn.relu(y) ** 2).sum()

    return jax.grad(f, argnums=(0, 1)), (floats(2, 7, 6, 3), floats(3, 3, 3, 4))


@program
def convolution_grouped_dilated():
    import jax

    def f(x, w):
        return jax.lax.conv_general_dilated(
            x, w, (1,), [(2, 3)], rhs_dilation=(2,), feature_group_count=2, dimension_numbers=("NWC", "WIO", "NWC")
        )

    return f, (floats(2, 9, 4), floats(3, 2, 6))


@program
def convolution_transposed():
    import jax

    return lambda x, w: jax.lax.conv_transpose(x, w, (2, 2), "SAME"), (floats(1, 4, 4, 2), floats(3, 3, 2, 3))


@program
def convolution_depthwise_gradient():
    import jax

    def f(x, w):
        y = jax.lax.conv_general_dilated(
            x, w, (1, 1), "VALID", feature_group_count=3, dimension_numbers=("NHWC", "HWIO", "NHWC")
        )
        return (y * y).sum()

    return jax.grad(f, argnums=(0, 1)), (floats(2, 5, 5, 3), floats(2, 2, 1, 3))


@program
def convolution_3d():
    import jax

    return lambda x, w: jax.lax.conv(x, w, (1, 2, 1), "SAME"), (floats(1, 2, 4, 4, 3), floats(3, 2, 2, 2, 2))


@program
def max_pool_gradient():
    import jax
    import jax.numpy as jnp

    def f(x):
        y = jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
        return (y * y).sum()

    return jax.grad(f), (floats(1, 6, 6, 2),)


@program
def average_pool_same():
    import jax

    def f(x):
        total = jax.lax.reduce_window(x, 0.0, jax.lax.add, (1, 3, 3, 1), (1, 2, 2, 1), "SAME")
        count = jax.lax.reduce_window(x * 0 + 1, 0.0, jax.lax.add, (1, 3, 3, 1), (1, 2, 2, 1), "SAME")
        return total / count

    return f, (floats(1, 5, 5, 2),)


@program
def mixture_of_experts():
    import jax
    import jax.numpy as jnp

    def f(x, router, w1, w2):
        weights, chosen = jax.lax.top_k(jax.nn.softmax(x @ router), 2)
        weights = weights / weights.sum(-1, keepdims=True)
        dispatch = jax.nn.one_hot(chosen, 4) * weights[..., None]
        h = jax.nn.relu(jnp.einsum("td,edf->tef", x, w1))
        return jnp.einsum("tke,tef,efd->td", dispatch, h, w2)

    return f, (floats(6, 5), floats(5, 4), floats(4, 5, 7), floats(4, 7, 5))


@program
def embedding_cross_entropy():
    import jax
    import jax.numpy as jnp

    def loss(table, tokens, labels):
        logits = table[tokens] @ table.T
        return -jnp.mean(jnp.take_along_axis(jax.nn.log_softmax(logits), labels[..., None], -1))

    return jax.value_and_grad(loss), (floats(11, 6), ints(3, 4), ints(3, 4))


@program
def remat_gradient():
    import jax
    import jax.numpy as jnp

    @jax.checkpoint
    def block(x, w):
        return jnp.tanh(x @ w) + x

    def f(ws, x):
        for index in range(3):
            x = block(x, ws[index])
        return x.sum()

    return jax.grad(f), (floats(3, 5, 5), floats(4, 5))


@program
def dropout_training():
    import jax

    def f(key, x, w):
        keep = jax.random.bernoulli(key, 0.8, x.shape)
        return (jax.numpy.where(keep, x / 0.8, 0) @ w).sum()

    return jax.grad(f, argnums=(1, 2)), (ints(2, dtype="uint32"), floats(4, 6), floats(6, 3))


# Loops, branches


@program
def lstm_scan_gradient():
    import jax
    import jax.numpy as jnp

    def f(wx, wh, xs):
        def cell(carry, x):
            h, c = carry
            i, f, g, o = jnp.split(x @ wx + h @ wh, 4, -1)
            c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
            h = jax.nn.sigmoid(o) * jnp.tanh(c)
            return (h, c), h

        start = (jnp.zeros((2, 4)), jnp.zeros((2, 4)))
        return jax.lax.scan(cell, start, xs)[1].sum()

    return jax.grad(f, argnums=(0, 1)), (floats(3, 16), floats(4, 16), floats(5, 2, 3))


@program
def transformer_layers_scanned():
    import jax
    import jax.numpy as jnp

    def f(x, wq, wk, wv, wo):
        def layer(x, w):
            q, k, v, o = w
            p = jax.nn.softmax((x @ q) @ (x @ k).T / 2.0)
            return x + jnp.tanh(p @ (x @ v) @ o), None

        return jax.lax.scan(layer, x, (wq, wk, wv, wo))[0]

    return f, (floats(5, 4), *(floats(3, 4, 4),) * 4)


@program
def state_space_associative_scan():
    import jax

    def f(a, b):
        def combine(left, right):
            return left[0] * right[0], right[0] * left[1] + right[1]

        return jax.lax.associative_scan(combine, (a, b))[1]

    return f, (floats(11, 3), floats(11, 3))


@program
def newton_while():
    import jax
    import jax.numpy as jnp

    def f(a):
        def more(state):
            count, x = state
            return (count < 20) & jnp.any(jnp.abs(x * x - a) > 1e-5)

        def step(state):
            count, x = state
            return count + 1, 0.5 * (x + a / x)

        return jax.lax.while_loop(more, step, (0, jnp.ones_like(a)))[1]

    return lambda a: f(jnp.abs(a) + 0.5), (floats(4),)


@program
def mandelbrot():
    import jax
    import jax.numpy as jnp

    def f(re, im):
        def step(_, state):
            x, y, count = state
            inside = x * x + y * y < 4.0
            x, y = jnp.where(inside, x * x - y * y + re, x), jnp.where(inside, 2 * x * y + im, y)
            return x, y, count + inside.astype(jnp.int32)

        zero = jnp.zeros_like(re)
        return jax.lax.fori_loop(0, 9, step, (zero, zero, zero.astype(jnp.int32)))[2]

    return f, (floats(4, 4), floats(4, 4))


@program
def switch_of_branches():
    import jax
    import jax.numpy as jnp

    def f(index, x):
        branches = [jnp.sin, lambda x: x * x + 1, lambda x: jnp.flip(x, 0), lambda x: jnp.cumsum(x, 1)]
        return jax.lax.switch(index, branches, x)

    return f, (ints(), floats(3, 4))


@program
def batched_condition():
    import jax
    import jax.numpy as jnp

    def f(flags, x):
        return jax.vmap(lambda p, v: jax.lax.cond(p > 0, lambda v: jnp.exp(-v * v), lambda v: 2 * v, v))(flags, x)

    return f, (ints(5), floats(5, 3))


@program
def runge_kutta():
    import jax
    import jax.numpy as jnp

    def f(y):
        def field(y):
            return jnp.stack([y[1], (1 - y[0] ** 2) * y[1] - y[0]])

        def step(y, _):
            h = 0.05
            a = field(y)
            b = field(y + h / 2 * a)
            c = field(y + h / 2 * b)
            d = field(y + h * c)
            return y + h / 6 * (a + 2 * b + 2 * c + d), y[0]

        return jax.lax.scan(step, y, None, length=7)

    return f, (floats(2),)


@program
def viterbi():
    import jax
    import jax.numpy as jnp

    def f(transition, emission, observed):
        def forward(score, symbol):
            options = score[:, None] + transition
            return options.max(0) + emission[:, symbol], options.argmax(0)

        score, back = jax.lax.scan(forward, emission[:, observed[0]], observed[1:])

        def backward(state, pointers):
            return pointers[state], pointers[state]

        return jax.lax.scan(backward, jnp.argmax(score), back, reverse=True)[1]

    return f, (floats(4, 4), floats(4, 3), ints(6))


@program
def kalman_filter():
    import jax
    import jax.numpy as jnp

    def f(state, covariance, transition, noise, observations):
        def step(carry, z):
            x, p = carry
            x, p = transition @ x, transition @ p @ transition.T + noise
            gain = p / (p[0, 0] + 1.0)
            return (x + gain[:, 0] * (z - x[0]), p - jnp.outer(gain[:, 0], p[0])), x[0]

        return jax.lax.scan(step, (state, covariance), observations)[1]

    return f, (floats(3), floats(3, 3), floats(3, 3), floats(3, 3), floats(5))


@program
def unrolled_and_nested_scans():
    import jax

    def f(x, w):
        def outer(x, w):
            return jax.lax.scan(lambda x, v: (x * v + 1, x.sum()), x, w, unroll=2)

        return jax.lax.scan(outer, x, w)

    return f, (floats(3), floats(2, 4, 3))


# Indices, sorting, scatters


@program
def gathers_of_all_modes():
    import jax.numpy as jnp

    def f(x, i, j):
        return (
            x[i],
            x[:, j],
            x[i, j],
            x.at[i].get(mode="clip"),
            x.at[i, j].get(mode="fill", fill_value=7.0),
            jnp.take(x, j, axis=1, mode="wrap"),
        )

    return f, (floats(6, 5), ints(4), ints(4))


@program
def scatters():
    def f(x, i, u):
        return x.at[i].add(u), x.at[i].max(u), x.at[i].min(u), x.at[i].mul(u), x.at[i, 1].set(3.0), x.at[i].set(u[0])

    return f, (floats(6, 3), ints(4), floats(4, 3))


@program
def scatter_gradient():
    import jax

    def f(x, i):
        return (x[i] ** 2).sum() + (x[::2, 1:] * 3).sum()

    return jax.grad(f), (floats(6, 4), ints(7))


@program
def segment_sums():
    import jax

    def f(data, segments):
        return (
            jax.ops.segment_sum(data, segments, 4),
            jax.ops.segment_max(data, segments, 4),
            jax.ops.segment_prod(data, segments, 4),
        )

    return f, (floats(9, 2), ints(9))


@program
def sorts():
    import jax
    import jax.numpy as jnp

    def f(x, k):
        return jnp.sort(x, 0), jnp.argsort(x, -1), jax.lax.sort((k, x), num_keys=2), -jnp.sort(-x, -1), jnp.median(x)

    return f, (floats(5, 4), ints(5, 4))


@program
def top_and_ranks():
    import jax
    import jax.numpy as jnp

    def f(x, v):
        return jax.lax.top_k(x, 3), jnp.searchsorted(jnp.sort(x[0]), v), jnp.argmax(x, 1), jnp.argmin(x, 0)

    return f, (floats(3, 7), floats(5))


@program
def unique_and_histogram():
    import jax.numpy as jnp

    def f(k, x):
        return (
            jnp.unique(k, size=6, fill_value=-1),
            jnp.bincount(k, length=8),
            jnp.histogram(x, bins=4, range=(-2.0, 2.0))[0],
            jnp.nonzero(k > 2, size=5),
        )

    return f, (ints(9), floats(9))


@program
def dynamic_slices():
    import jax

    def f(x, u, i, j):
        a = jax.lax.dynamic_slice(x, (i, j), (2, 3))
        b = jax.lax.dynamic_update_slice(x, u, (j, i))
        return a, b, jax.lax.dynamic_index_in_dim(x, i, 0), jax.lax.dynamic_update_slice(b, a[:1], (0, i))

    return f, (floats(5, 6), floats(2, 2), ints(), ints())


@program
def beam_search_step():
    import jax

    def f(scores, sequences, logits, step):
        total = (scores[:, None] + jax.nn.log_softmax(logits)).reshape(-1)
        best, chosen = jax.lax.top_k(total, 3)
        beam, token = chosen // 7, chosen % 7
        return best, jax.lax.dynamic_update_slice(sequences[beam], token[:, None], (0, step))

    return f, (floats(3), ints(3, 5), floats(3, 7), ints())


@program
def page_rank():
    import jax
    import jax.numpy as jnp

    def f(source, target, rank):
        degree = jnp.zeros(6).at[source].add(1.0)

        def step(_, rank):
            return 0.15 / 6 + 0.85 * jnp.zeros(6).at[target].add(rank[source] / jnp.maximum(degree[source], 1.0))

        return jax.lax.fori_loop(0, 5, step, rank)

    return f, (ints(10), ints(10), floats(6))


# Movement


@program
def movements():
    import jax
    import jax.numpy as jnp

    def f(x):
        return (
            jnp.roll(x, 2, 1),
            jnp.flip(x, (0, 2)),
            x.transpose(2, 0, 1).reshape(-1),
            jax.lax.pad(x, 1.5, [(1, -1, 0), (0, 2, 1), (-1, 0, 2)]),
            jnp.tile(x[0], (2, 3)),
            jnp.repeat(x, 2, 1)[:, 1::3],
        )

    return f, (floats(3, 4, 5),)


@program
def space_to_depth():
    def f(x):
        y = x.reshape(2, 3, 2, 2, 2, 3).transpose(0, 1, 3, 2, 4, 5).reshape(2, 3, 2, 12)
        return y, y.reshape(2, 3, 2, 2, 2, 3).transpose(0, 1, 3, 2, 4, 5).reshape(2, 6, 4, 3)

    return f, (floats(2, 6, 4, 3),)


@program
def einsums():
    import jax.numpy as jnp

    def f(a, b, c):
        return (
            jnp.einsum("ijk,jl,kl->il", a, b, c),
            jnp.einsum("iji->j", a[:, :, :2]),
            jnp.einsum("ijk,ijk->k", a, a),
            jnp.tensordot(a, b, ((1,), (0,))),
            jnp.kron(b, c),
        )

    return f, (floats(2, 3, 4), floats(3, 5), floats(4, 5))


@program
def triangles_and_masks():
    import jax.numpy as jnp

    def f(x):
        rows, columns = jnp.meshgrid(jnp.arange(5), jnp.arange(5), indexing="ij")
        return (
            jnp.tril(x),
            jnp.triu(x, 1),
            jnp.where((rows + columns) % 2 == 0, x, -x),
            jnp.diag(jnp.diag(x, 1)),
            jnp.trace(x),
        )

    return f, (floats(5, 5),)


@program
def image_resize():
    import jax

    return lambda x: jax.image.resize(x, (7, 5, 2), "bilinear"), (floats(4, 6, 2),)


@program
def bilinear_samples():
    import jax.numpy as jnp

    def f(image, y, x):
        y0, x0 = jnp.floor(y), jnp.floor(x)
        i, j = y0.astype(jnp.int32), x0.astype(jnp.int32)
        wy, wx = y - y0, x - x0

        def at(i, j):
            return image[jnp.clip(i, 0, 5), jnp.clip(j, 0, 6)]

        return (1 - wy) * ((1 - wx) * at(i, j) + wx * at(i, j + 1)) + wy * (
            (1 - wx) * at(i + 1, j) + wx * at(i + 1, j + 1)
        )

    return f, (floats(6, 7), floats(5), floats(5))


@program
def game_of_life():
    import jax
    import jax.numpy as jnp

    def f(board):
        def step(_, board):
            near = sum(jnp.roll(board, (i, j), (0, 1)) for i in (-1, 0, 1) for j in (-1, 0, 1)) - board
            return ((near == 3) | ((board == 1) & (near == 2))).astype(jnp.int32)

        return jax.lax.fori_loop(0, 3, step, (board & 1))

    return f, (ints(6, 6),)


# Numbers


@program
def cumulative():
    import jax.numpy as jnp
    from jax import lax

    def f(x):
        return (
            jnp.cumsum(x, 0),
            jnp.cumprod(x, 1),
            lax.cummax(x, 0),
            lax.cummin(x, 1, reverse=True),
            lax.cumlogsumexp(x, 0),
        )

    return f, (floats(5, 6),)


@program
def elementary_functions():
    import jax
    import jax.numpy as jnp

    def f(x):
        p = jnp.abs(x) + 0.1
        return (
            jnp.exp(x), jnp.log(p), jnp.log1p(p), jnp.expm1(x), jnp.tanh(x), jnp.sin(x), jnp.cos(x), jnp.tan(x),
            jnp.sqrt(p), jax.lax.rsqrt(p), jnp.cbrt(x), p**1.5, p**-2.0, x**3, jax.nn.sigmoid(x), jnp.arctan2(x, p),
            jnp.floor(x), jnp.ceil(x), jnp.round(x), jnp.sign(x), jax.nn.softplus(x), jax.lax.erf(x), jnp.logaddexp(x, p),
        )  # fmt: skip

    return f, (floats(7),)


@program
def hyperbolic_functions():
    import jax.numpy as jnp

    def f(x):
        u = jnp.tanh(x) * 0.9
        return (
            jnp.sinh(x),
            jnp.cosh(x),
            jnp.arcsinh(x),
            jnp.arctanh(u),
            jnp.arcsin(u),
            jnp.arccos(u),
            jnp.arctan(x),
            jnp.hypot(x, u),
        )

    return f, (floats(6),)


@program
def integers():
    import jax
    import jax.numpy as jnp

    def f(a, b, c):
        return (
            a // jnp.where(b == 0, 1, b), a % jnp.where(b == 0, 1, b), jax.lax.div(a, b), jax.lax.rem(a, b), a << (b & 31),
            a >> (b & 31), jax.lax.shift_right_logical(a, b & 31), jax.lax.population_count(a), jax.lax.clz(a), a ^ b, ~a,
            jnp.gcd(jnp.abs(a) % 50, jnp.abs(b) % 50), a * b + c.astype(jnp.int32), jnp.maximum(a, b), c // jnp.uint8(7),
        )  # fmt: skip

    return f, (ints(6), ints(6), ints(6, dtype="uint8"))


@program
def divisions_by_constants():
    import jax.numpy as jnp

    def f(a, u):
        return [(a // n, a % n, u // n, u % n) for n in (1, 2, 3, 7, 8, 64)], a * 8, jnp.abs(a) // 4

    return f, (ints(6), ints(6, dtype="uint32"))


@program
def quantized_product():
    import jax
    import jax.numpy as jnp

    def f(x, w):
        scale = jnp.max(jnp.abs(x), -1, keepdims=True) / 127.0
        q = jnp.clip(jnp.round(x / scale), -128, 127).astype(jnp.int8)
        y = jax.lax.dot_general(q, w, (((1,), (0,)), ((), ())), preferred_element_type=jnp.int32)
        return y.astype(jnp.float32) * scale

    return f, (floats(3, 8), ints(8, 4, dtype="int8"))


@program
def small_floats():
    import jax.numpy as jnp

    def f(x, y):
        a = x.astype(jnp.bfloat16) * y.astype(jnp.bfloat16)
        b = (x.astype(jnp.float16) + y.astype(jnp.float16)).astype(jnp.float32)
        return a.astype(jnp.float32), b, x.astype(jnp.float8_e4m3fn).astype(jnp.float32) * 2

    return f, (floats(6), floats(6))


@program
def random_numbers():
    import jax

    def f(key):
        a, b, c, d = jax.random.split(key, 4)
        return (
            jax.random.uniform(a, (5,)),
            jax.random.normal(b, (4,)),
            jax.random.randint(c, (6,), 3, 17),
            jax.random.permutation(d, 7),
        )

    return f, (ints(2, dtype="uint32"),)


@program
def random_choices():
    import jax

    def f(key, logits):
        a, b = jax.random.split(key)
        return jax.random.categorical(a, logits), jax.random.gumbel(b, (3,)), jax.random.exponential(a, (2, 2))

    return f, (ints(2, dtype="uint32"), floats(4, 5))


@program
def complex_numbers():
    import jax.numpy as jnp

    def f(re, im):
        z = re + 1j * im
        return jnp.abs(z) ** 2, (z * z.conj()).real, jnp.exp(1j * re), jnp.angle(z), (z @ z.T).imag, 1 / (z + 3)

    return f, (floats(4, 4), floats(4, 4))


@program
def fourier():
    import jax.numpy as jnp

    def f(x):
        return (
            jnp.fft.fft(x),
            jnp.fft.rfft(x, axis=0),
            jnp.fft.ifft(jnp.fft.fft(x) * 2).real,
            jnp.fft.irfft(jnp.fft.rfft(x)),
        )

    return f, (floats(4, 8),)


@program
def triangular_solves():
    import jax
    import jax.numpy as jnp

    def f(a, b):
        spd = a @ a.T + 4 * jnp.eye(4)
        factor = jnp.linalg.cholesky(spd)
        return jax.scipy.linalg.solve_triangular(factor, b, lower=True), factor

    return f, (floats(4, 4), floats(4, 3))


@program
def linear_solves():
    import jax.numpy as jnp

    def f(a, b):
        m = a + 5 * jnp.eye(4)
        return jnp.linalg.solve(m, b), jnp.linalg.det(m), jnp.linalg.inv(m)

    return f, (floats(4, 4), floats(4, 2))


@program
def decompositions():
    import jax.numpy as jnp

    def f(a):
        q, r = jnp.linalg.qr(a)
        return q @ r, jnp.linalg.eigvalsh(a @ a.T), jnp.linalg.svd(a, compute_uv=False)

    return f, (floats(4, 4),)


@program
def matrix_powers():
    import jax
    import jax.numpy as jnp

    return lambda a: (jnp.linalg.matrix_power(a, 5), jax.scipy.linalg.expm(a * 0.1)), (floats(3, 3),)


@program
def n_bodies():
    import jax
    import jax.numpy as jnp

    def energy(positions, masses):
        d = positions[:, None] - positions[None]
        distance = jnp.sqrt((d * d).sum(-1) + 0.1)
        return -(masses[:, None] * masses[None] / distance).sum() / 2

    return jax.grad(energy), (floats(5, 3), floats(5))


@program
def hessian():
    import jax
    import jax.numpy as jnp

    return jax.hessian(lambda x: jnp.sum(jnp.sin(x) * jnp.prod(x) + x**4)), (floats(4),)


@program
def jacobian_of_a_network():
    import jax
    import jax.numpy as jnp

    return jax.jacfwd(lambda x, w: jnp.tanh(w @ x)), (floats(4), floats(3, 4))


@program
def statistics():
    import jax
    import jax.numpy as jnp

    def f(x):
        return (
            jnp.var(x, 0),
            jnp.std(x, 1),
            jnp.cov(x),
            jax.nn.logsumexp(x, 0),
            jnp.percentile(x, 30.0, axis=1),
            jnp.ptp(x),
        )

    return f, (floats(4, 6),)


@program
def contrastive_loss():
    import jax
    import jax.numpy as jnp

    def loss(a, b, temperature):
        a = a / jnp.linalg.norm(a, axis=-1, keepdims=True)
        b = b / jnp.linalg.norm(b, axis=-1, keepdims=True)
        logits = a @ b.T * jnp.exp(temperature)
        labels = jnp.arange(4)
        return -jax.nn.log_softmax(logits)[labels, labels].mean() - jax.nn.log_softmax(logits.T)[labels, labels].mean()

    return jax.value_and_grad(loss, argnums=(0, 1, 2)), (floats(4, 6), floats(4, 6), floats())


@program
def policy_gradient():
    import jax
    import jax.numpy as jnp

    def returns(rewards):
        return jax.lax.scan(lambda total, r: ((total := r + 0.9 * total), total), 0.0, rewards, reverse=True)[1]

    def loss(w, states, actions, rewards):
        log_p = jax.nn.log_softmax(states @ w)
        chosen = jnp.take_along_axis(log_p, actions[:, None] % 3, 1)[:, 0]
        gain = returns(rewards)
        return -(chosen * (gain - gain.mean()) / (gain.std() + 1e-6)).sum()

    return jax.grad(loss), (floats(4, 3), floats(6, 4), ints(6), floats(6))


def main() -> int:
    folder = Path(sys.argv[1])
    chosen = sys.argv[2:]
    if len(chosen) == 1 and os.environ.get("ONE_PROGRAM"):
        import jax

        function, arguments = PROGRAMS[chosen[0]]()
        jax.jit(function).lower(*arguments).compile()
        return 0
    for name in chosen or PROGRAMS:
        into = folder / name
        shutil.rmtree(into, ignore_errors=True)
        flags = f"--xla_dump_to={into} --xla_dump_hlo_pass_re=.* --xla_dump_hlo_as_text --xla_dump_large_constants=true"
        environment = {**os.environ, "XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu", "ONE_PROGRAM": "1"}
        done = subprocess.run(
            [sys.executable, __file__, str(folder), name], env=environment, capture_output=True, text=True, check=False
        )
        if done.returncode:
            print(f"{name}: {done.stderr.strip().splitlines()[-1]}", file=sys.stderr)
            shutil.rmtree(into, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
