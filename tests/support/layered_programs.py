"""Further JAX programs whose memory is compared with XLA's: layers of flax, experts, calls, scans in scans, donation,
custom calls, and programs on several devices. The file needs JAX; programs of flax are left out where it is missing.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from memory_programs import PROGRAMS as KNOWN
from memory_programs import array

PROGRAMS: dict[str, Any] = {}
"""Name → a function of no arguments that gives a `jax.stages.Lowered`."""


def add(name: str, function: Any, *shapes: Any, donate: tuple[int, ...] = (), **options: Any) -> None:
    """Registers a function with the shapes of its arguments."""

    def lowered() -> Any:
        return jax.jit(function, donate_argnums=donate, **options).lower(*shapes)

    PROGRAMS[name] = lowered


def gated(x: Any, gate: Any, experts: Any) -> Any:
    """A mixture of experts, each token to two of them."""
    weight, chosen = lax.top_k(jax.nn.softmax(x @ gate), 2)
    spread = jax.nn.one_hot(chosen, experts.shape[0]) * weight[..., None]
    return jnp.einsum("tke,td,edf->tf", spread, x, experts)


def layer(x: Any, w: Any) -> Any:
    return jax.nn.relu(x @ w) + x


def layers(x: Any, ws: Any) -> Any:
    inner = jax.jit(layer)
    for w in ws:
        x = inner(x, w)
    return x


def train(ws: Any, moments: Any, x: Any) -> Any:
    grads = jax.grad(lambda ws: (layers(x, ws) ** 2).mean())(ws)
    moments = [0.9 * m + g for m, g in zip(moments, grads, strict=True)]
    return [w - 0.1 * m for w, m in zip(ws, moments, strict=True)], moments


def deep(x: Any, ws: Any, **options: Any) -> Any:
    return lax.scan(lambda c, w: (jnp.tanh(c @ w), c.sum()), x, ws, **options)


def searched(x: Any) -> Any:
    def body(state: Any) -> Any:
        low, high, _ = state
        middle = (low + high) / 2
        below = lax.cond(middle.sum() > x.sum(), lambda: jnp.sin(middle), lambda: jnp.cos(middle).T)
        return jnp.where(below > 0, low, middle), jnp.where(below > 0, middle, high), (high - low).max()

    return lax.while_loop(lambda s: s[2] > 1e-3, body, (x, x + 1, jnp.float32(1)))


WS = [array(64, 64) for _ in range(5)]
SQUARE = array(160, 160)
add("scores", lambda e, h: h @ e.T, array(256, 230), array(1, 230))
add("transposed", lambda x: (x.T, x.reshape(32, -1).T, jnp.ones((64, 300))), array(64, 96))
add("moe", gated, array(64, 48), array(48, 8), array(8, 48, 48))
add("moe_grad", jax.grad(lambda e, x, g: gated(x, g, e).sum()), array(8, 48, 48), array(64, 48), array(48, 8))
add("calls", layers, array(32, 64), WS)
add("train", train, WS, WS, array(32, 64))
add("train_donated", train, WS, WS, array(32, 64), donate=(0, 1))
add("deep_scan", deep, array(32, 64), array(9, 64, 64))
add("deep_scan_unrolled", lambda x, ws: deep(x, ws, unroll=3), array(32, 64), array(9, 64, 64))
add("deep_scan_grad", jax.grad(lambda ws, x: deep(x, ws)[0].sum()), array(9, 64, 64), array(32, 64))
add("searched", searched, array(50, 50))
add("twice", lambda x, y: (x + y, x + y, x, x), SQUARE, SQUARE)
add("identity_donated", lambda x, y: (x, y * 2), SQUARE, SQUARE, donate=(0, 1))
add("swapped_donated", lambda x, y: (y, x), SQUARE, SQUARE, donate=(0, 1))
add("unused", lambda x, y: x + 1, SQUARE, SQUARE, keep_unused=True)
add("constant", lambda: (jnp.arange(3000.0).reshape(30, 100), jnp.zeros((100, 100))))
add("mixed", lambda a, b, c: (jnp.cumsum(a, 0) @ b, jnp.sort(c, 0) + jnp.cumsum(a, 0).T @ c), *[SQUARE] * 3)
add("mixed_donated", lambda a, b, c: (jnp.cumsum(a, 0) @ b, jnp.sort(c, 0) + a.T @ c), *[SQUARE] * 3, donate=(2,))
add("solve", lambda a, b: jnp.linalg.solve(a @ a.T + jnp.eye(80), b), array(80, 80), array(80, 3))
add("svd", lambda a: jnp.linalg.svd(a), array(40, 30))
add("eigh", lambda a: jnp.linalg.eigh(a + a.T), array(40, 40))
add(
    "small_floats",
    lambda a, b: (a.astype(jnp.float8_e4m3fn), b.astype(jnp.int4), b > 3),
    SQUARE,
    array(99, dtype=jnp.int8),
)
add(
    "pooled", lambda x: lax.reduce_window(x, -jnp.inf, lax.max, (1, 3, 3, 1), (1, 2, 2, 1), "SAME"), array(2, 33, 33, 8)
)
add("convolved", lambda x, k: lax.conv(x, k, (1, 1), "SAME"), array(2, 8, 32, 32), array(16, 8, 3, 3))
add("associative", lambda x: lax.associative_scan(jnp.matmul, x), array(20, 16, 16))
add("looked_up", lambda t, i: t[i].sum(1), array(500, 32), array(40, 7, dtype=jnp.int32))
add("complex", lambda x: jnp.fft.fft(x * 1j)[::-1], array(300, 40))
add("keys", lambda k: jax.random.permutation(jax.random.key(k), 3000), array(dtype=jnp.int32))
add("checkpointed", jax.grad(lambda w, x: jax.checkpoint(lambda v: jnp.sin(jnp.sin(v @ w)))(x).sum()), SQUARE, SQUARE)


def over_devices(name: str, function: Any, shapes: Any, specs: Any, *, donate: tuple[int, ...] = ()) -> None:
    """Registers a program whose arguments are divided over four devices, by the names of axes "a" and "b"."""

    def lowered() -> Any:
        import numpy as np
        from jax.sharding import Mesh, NamedSharding, PartitionSpec

        mesh = Mesh(np.array(jax.devices()[:4]).reshape(2, 2), ("a", "b"))
        given = [
            jax.ShapeDtypeStruct(each.shape, each.dtype, sharding=NamedSharding(mesh, PartitionSpec(*spec)))
            for each, spec in zip(shapes, specs, strict=True)
        ]
        return jax.jit(function, donate_argnums=donate).lower(*given)

    if len(jax.devices()) >= 4:
        PROGRAMS[name] = lowered


over_devices("sharded_product", lambda x, w: jnp.tanh(x @ w) @ w.T, [array(64, 96), array(96, 128)], ["a", ("b", None)])
over_devices("sharded_sum", lambda x: (x.sum(0), x * 2), [array(64, 96)], ["ab"])
over_devices("sharded_kept", lambda x, y: x + y.T, [SQUARE, SQUARE], ["ab", "ba"], donate=(0,))
over_devices("sharded_reshaped", lambda x: x.reshape(-1, 4).sum(0), [array(64, 96)], ["ab"], donate=(0,))


def _add_flax() -> None:
    from flax import linen

    class Block(linen.Module):
        @linen.compact
        def __call__(self, x: Any) -> Any:
            y = linen.LayerNorm()(x)
            x = x + linen.SelfAttention(num_heads=4)(y)
            return x + linen.Dense(32)(linen.gelu(linen.Dense(64)(linen.LayerNorm()(x))))

    class Convolutions(linen.Module):
        @linen.compact
        def __call__(self, x: Any) -> Any:
            x = linen.relu(linen.GroupNorm(4)(linen.Conv(8, (3, 3))(x)))
            x = linen.avg_pool(x, (2, 2), (2, 2))
            return linen.Dense(10)(x.reshape(x.shape[0], -1))

    class Recurrent(linen.Module):
        @linen.compact
        def __call__(self, x: Any) -> Any:
            return linen.RNN(linen.LSTMCell(24))(x)

    for name, module, x in (
        ("flax_block", Block(), array(4, 16, 32)),
        ("flax_convolutions", Convolutions(), array(2, 16, 16, 3)),
        ("flax_lstm", Recurrent(), array(3, 12, 8)),
    ):
        parameters = jax.eval_shape(module.init, jax.random.key(0), x)
        add(name, module.apply, parameters, x)

        def step(p: Any, x: Any, module: Any = module) -> Any:
            grads = jax.grad(lambda p: (module.apply(p, x) ** 2).mean())(p)
            return jax.tree.map(lambda w, g: w - 0.1 * g, p, grads)

        add(f"{name}_step", step, parameters, x, donate=(0,))


with suppress(ImportError):  # flax is optional
    _add_flax()
for _name, (_function, _shapes, _donate) in KNOWN.items():
    add(_name, _function, *_shapes, donate=_donate)
