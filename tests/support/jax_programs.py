"""Small JAX programs of many kinds, by name: functions with the shapes of their arguments. Tests compare XLA's numbers
about the compiled programs with those of this library.

`example(name)` gives a program's function and arrays for its arguments.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

_DTYPES = {
    "f": jnp.float32,
    "h": jnp.bfloat16,
    "i": jnp.int32,
    "u": jnp.uint32,
    "c": jnp.complex64,
    "b": jnp.bool_,
    "e": jnp.int8,
}


def _norm(x: Any) -> Any:
    return (x - x.mean(-1, keepdims=True)) * lax.rsqrt(x.var(-1, keepdims=True) + 1e-6)


def _attention(q: Any, k: Any, v: Any) -> Any:
    scores = jnp.einsum("bhqd,bhkd->bhqk", q, k) / np.sqrt(q.shape[-1])
    causal = jnp.tril(jnp.ones(scores.shape[-2:], bool))
    return jnp.einsum("bhqk,bhkd->bhqd", jax.nn.softmax(jnp.where(causal, scores, -1e9)), v)


def _conv(x: Any, k: Any, **options: Any) -> Any:
    options = {"window_strides": (1, 1), "padding": "SAME", "dimension_numbers": ("NHWC", "HWIO", "NHWC"), **options}
    return lax.conv_general_dilated(x, k, **options)


def _pool(x: Any) -> Any:
    return lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")


def _scan(w: Any, x: Any) -> Any:
    return lax.scan(lambda h, row: ((h := jnp.tanh(row @ w + h)), h.sum()), jnp.zeros(w.shape[1]), x)


def _loop(x: Any) -> Any:
    return lax.fori_loop(0, 12, lambda i, y: y * 0.5 + i, x)


def _until(x: Any) -> Any:
    return lax.while_loop(lambda y: jnp.abs(y).sum() > 1, lambda y: y * 0.5, x)


def _mlp(w1: Any, w2: Any, x: Any) -> Any:
    return jnp.square(jax.nn.gelu(x @ w1) @ w2).mean()


def _lstm(w: Any, x: Any) -> Any:
    size = w.shape[1] // 4

    def step(carry: Any, row: Any) -> Any:
        h, c = carry
        i, f, g, o = jnp.split(jnp.concatenate([row, h]) @ w, 4)
        c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
        return (jax.nn.sigmoid(o) * jnp.tanh(c), c), h

    return lax.scan(step, (jnp.zeros(size), jnp.zeros(size)), x)[1]


def _tree(f: Any) -> Any:
    return jax.value_and_grad(f, argnums=0)


PROGRAMS: dict[str, tuple[Any, str]] = {
    "matmul": (lambda a, b: a @ b, "f64,128 f128,32"),
    "matmul_bf16": (lambda a, b: a @ b, "h64,128 h128,32"),
    "matmul_int8": (lambda a, b: lax.dot(a, b, preferred_element_type=jnp.int32), "e64,128 e128,32"),
    "matmul_complex": (lambda a, b: a @ b, "c16,24 c24,8"),
    "batched_matmul": (lambda a, b: a @ b, "f5,16,24 f5,24,8"),
    "vector_matrix": (lambda a, b: a @ b, "f300 f300,40"),
    "outer": (lambda a, b: jnp.outer(a, b), "f100 f50"),
    "matmul_transposed": (lambda a, b: a.T @ b.T, "f128,64 f32,128"),
    "matmul_chain": (lambda a, b, c: (a @ b) @ c, "f10,20 f20,30 f30,40"),
    "matmul_bias_relu": (lambda a, b, c: jax.nn.relu(a @ b + c), "f64,32 f32,48 f48"),
    "einsum": (lambda a, b: jnp.einsum("abc,cbd->ad", a, b), "f6,7,8 f8,7,9"),
    "attention": (_attention, "f2,4,16,8 f2,4,16,8 f2,4,16,8"),
    "attention_grad": (jax.grad(lambda *x: _attention(*x).sum(), argnums=(0, 1, 2)), "f2,4,16,8 f2,4,16,8 f2,4,16,8"),
    "mlp_grad": (_tree(_mlp), "f32,64 f64,16 f20,32"),
    "mlp_hessian_diagonal": (jax.grad(lambda w: jax.grad(lambda v: jnp.tanh(v @ v.T).sum())(w).sum()), "f12,12"),
    "layer_norm": (_norm, "f40,96"),
    "layer_norm_grad": (jax.grad(lambda x: jnp.sin(_norm(x)).sum()), "f40,96"),
    "softmax": (jax.nn.softmax, "f30,70"),
    "logsumexp": (jax.nn.logsumexp, "f30,70"),
    "cross_entropy": (lambda x, y: -jnp.take_along_axis(jax.nn.log_softmax(x), y[:, None] % 10, axis=1).mean(), "f30,10 i30"),
    "conv": (_conv, "f2,14,14,3 f3,3,3,8"),
    "conv_strided": (lambda x, k: _conv(x, k, window_strides=(2, 3)), "f2,15,15,3 f5,4,3,8"),
    "conv_dilated": (lambda x, k: _conv(x, k, rhs_dilation=(2, 2)), "f2,15,15,3 f3,3,3,8"),
    "conv_transposed": (lambda x, k: lax.conv_transpose(x, k, (2, 2), "SAME"), "f2,7,7,3 f3,3,3,8"),
    "conv_grouped": (lambda x, k: _conv(x, k, feature_group_count=4), "f2,9,9,8 f3,3,2,16"),
    "conv_depthwise": (lambda x, k: _conv(x, k, feature_group_count=8), "f2,9,9,8 f3,3,1,8"),
    "conv_1d": (lambda x, k: jnp.convolve(x, k), "f200 f7"),
    "conv_3d": (
        lambda x, k: _conv(x, k, window_strides=(1, 1, 1), dimension_numbers=("NDHWC", "DHWIO", "NDHWC")),
        "f1,5,6,7,2 f2,3,3,2,4",
    ),
    "conv_grad": (jax.grad(lambda k, x: jnp.square(_conv(x, k)).sum()), "f3,3,3,8 f2,10,10,3"),
    "max_pool": (_pool, "f2,12,12,4"),
    "max_pool_grad": (jax.grad(lambda x: jnp.square(_pool(x)).sum()), "f2,12,12,4"),
    "average_pool": (lambda x: lax.reduce_window(x, 0.0, lax.add, (1, 3, 3, 1), (1, 1, 1, 1), "SAME"), "f2,12,12,4"),
    "sum_rows": (lambda x: x.sum(1), "f50,60"),
    "sum_columns": (lambda x: x.sum(0), "f50,60"),
    "sum_all": (lambda x: x.sum(), "f50,60"),
    "product_and_max": (lambda x: (x.prod(0), x.max(1)), "f50,60"),
    "argmax": (lambda x: jnp.argmax(x, axis=1), "f50,60"),
    "variance": (lambda x: jnp.var(x, axis=0), "f50,60"),
    "cumsum": (lambda x: jnp.cumsum(x, axis=1), "f20,40"),
    "cumulative_max": (lambda x: lax.cummax(x), "f40,20"),
    "any_all": (lambda x: (jnp.any(x, axis=0), jnp.all(x)), "b30,40"),
    "sine_cosine": (lambda x: jnp.sin(x) * jnp.cos(x) + jnp.exp(-x), "f37,19"),
    "special": (lambda x: lax.erf(x) + jnp.log1p(jnp.abs(x)) + jnp.expm1(x) + jnp.cbrt(x) + jnp.tan(x), "f37,19"),
    "inverse_trigonometric": (lambda x: jnp.arctan2(x, x + 2) + jnp.arcsin(jnp.tanh(x)) + jnp.arccosh(x * x + 1), "f37,19"),
    "power": (lambda x: jnp.abs(x) ** 1.7 + x**3, "f37,19"),
    "integers": (lambda a, b: (a + b) * (a - b) // (jnp.abs(b) + 1) % 17, "i33,9 i33,9"),
    "bits": (lambda a, b: lax.population_count((a ^ b) >> 3) + lax.clz(a & ~b), "u33,9 u33,9"),
    "complex": (lambda a, b: jnp.abs(a * jnp.conj(b)) + jnp.real(jnp.exp(a)), "c20,20 c20,20"),
    "mixed_precision": (lambda a, b: (a.astype(jnp.float32) * b).astype(jnp.bfloat16), "h40,50 f40,50"),
    "where_clip": (lambda x: jnp.where(x > 0, jnp.clip(x, 0.1, 0.9), -x), "f37,19"),
    "round_sign": (lambda x: jnp.round(x) + jnp.floor(x) - jnp.sign(x) + jnp.ceil(x), "f37,19"),
    "transpose": (lambda x: jnp.transpose(x, (2, 0, 1)) + 1, "f10,11,12"),
    "reshape_flip": (lambda x: x.reshape(12, 10)[::-1] * 2, "f10,12"),
    "concatenate_pad": (lambda a, b: jnp.pad(jnp.concatenate([a, b], 1), ((1, 2), (0, 3))), "f10,12 f10,5"),
    "slices": (lambda x: x[2:9, ::2] - x[1:8, 1::2], "f12,20"),
    "roll": (lambda x: jnp.roll(x, 3, axis=1) - x, "f12,20"),
    "tile_repeat": (lambda x: jnp.tile(x, (2, 3)).sum(1) + jnp.repeat(x[:, 0], 2), "f12,20"),
    "gather_rows": (lambda x, i: x[i % 40], "f40,16 i9"),
    "gather_elements": (lambda x, i: jnp.take_along_axis(x, i % 16, axis=1), "f40,16 i40,5"),
    "scatter_add": (lambda x, i, u: x.at[i % 40].add(u), "f40,16 i9 f9,16"),
    "scatter_set": (lambda x, i, u: x.at[i % 40].set(u), "f40,16 i9 f9,16"),
    "scatter_max": (lambda x, i, u: x.at[i % 40].max(u), "f40,16 i9 f9,16"),
    "segment_sum": (lambda x, i: jax.ops.segment_sum(x, i % 7, 7), "f40,16 i40"),
    "embedding_grad": (jax.grad(lambda e, i: jnp.sin(e[i % 50]).sum()), "f50,12 i20"),
    "update_slice": (lambda x, u, i: lax.dynamic_update_slice(x, u, (i, i)), "f40,16 f4,3 i"),
    "dynamic_slice": (lambda x, i: lax.dynamic_slice(x, (i, 0), (5, 16)) * 2, "f40,16 i"),
    "one_hot": (lambda i: jax.nn.one_hot(i, 11), "i30"),
    "sort": (lambda x: jnp.sort(x, axis=1), "f7,33"),
    "argsort": (lambda x: jnp.argsort(x), "f65"),
    "top_k": (lambda x: lax.top_k(x, 4), "f9,30"),
    "unique_counts": (lambda x: jnp.bincount(x % 13, length=13), "i50"),
    "searchsorted": (lambda a, v: jnp.searchsorted(a, v), "f64 f10"),
    "scan": (_scan, "f20,16 f30,20"),
    "scan_grad": (jax.grad(lambda w, x: _scan(w, x)[0].sum()), "f16,16 f30,16"),
    "lstm": (_lstm, "f24,64 f10,8"),
    "fori_loop": (_loop, "f30,20"),
    "while_loop": (_until, "f30,20"),
    "nested_loops": (lambda x: lax.fori_loop(0, 4, lambda i, y: lax.fori_loop(0, 5, lambda j, z: jnp.sin(z) + j, y), x), "f30,20"),
    "map": (lambda x: lax.map(lambda row: jnp.outer(row, row).sum(0), x), "f9,14"),
    "cond": (lambda p, x: lax.cond(p > 0, jnp.sin, lambda y: y @ y, x), "i f12,12"),
    "switch": (lambda i, x: lax.switch(i % 3, [jnp.exp, lambda y: y + 1, lambda y: y * y + y], x), "i f12,12"),
    "associative_scan": (lambda x: lax.associative_scan(jnp.multiply, x), "f33,8"),
    "fft": (lambda x: jnp.abs(jnp.fft.fft(x)), "f6,32"),
    "rfft2": (lambda x: jnp.fft.irfft2(jnp.fft.rfft2(x) * 2, s=(16, 8)), "f16,8"),
    "cholesky": (lambda x: jnp.linalg.cholesky(x @ x.T + 10 * jnp.eye(12)), "f12,12"),
    "solve_triangular": (lambda a, b: jax.scipy.linalg.solve_triangular(a, b, lower=True), "f12,12 f12,5"),
    "normal": (lambda x: x + jax.random.normal(jax.random.key(3), x.shape), "f21,17"),
    "dropout": (lambda x: jnp.where(jax.random.bernoulli(jax.random.key(1), 0.5, x.shape), x * 2, 0), "f21,17"),
    "rematerialised": (jax.grad(lambda w, x: jax.checkpoint(lambda v: jnp.tanh(jnp.tanh(x @ v) @ v))(w).sum()), "f16,16 f9,16"),
    "jacobian": (jax.jacfwd(lambda x: jnp.sin(x) * x.sum()), "f17"),
    "vmap_solve": (jax.vmap(lambda a, b: jnp.dot(a, b) / jnp.linalg.norm(b)), "f9,12 f9,12"),
    "distance_matrix": (lambda a, b: jnp.sqrt(jnp.square(a[:, None] - b[None]).sum(-1)), "f20,5 f30,5"),
    "stencil": (lambda x: (x[:-2, 1:-1] + x[2:, 1:-1] + x[1:-1, :-2] + x[1:-1, 2:] - 4 * x[1:-1, 1:-1]), "f40,50"),
    "adam": (
        lambda w, g, m, v: (w - 0.1 * (n := 0.9 * m + 0.1 * g) / (jnp.sqrt(s := 0.99 * v + 0.01 * g * g) + 1e-8), n, s),
        "f40,50 f40,50 f40,50 f40,50",
    ),
    "constant_table": (lambda i: jnp.asarray(np.arange(300, dtype=np.float32) ** 1.5)[i % 300] * 2, "i40"),
    "polynomial": (lambda x: jnp.polyval(jnp.asarray([1.0, 2.0, 3.0, 4.0]), x), "f100"),
    "quantise": (lambda x: jnp.round(x * 127).astype(jnp.int8), "f40,50"),
    "rotary": (
        lambda x: jnp.concatenate([x[..., :8] * jnp.cos(1.0) - x[..., 8:] * jnp.sin(1.0), x[..., 8:] + x[..., :8]], -1),
        "f4,10,16",
    ),
}  # fmt: skip


def example(name: str) -> tuple[Any, list[Any]]:
    """The function of a program, not yet jitted, and arrays for its arguments, the same in every run."""
    function, shapes = PROGRAMS[name]
    numbers = np.random.default_rng(7)
    arrays: list[Any] = []
    for text in shapes.split():
        dimensions = [int(size) for size in text[1:].split(",") if size]
        values = numbers.normal(size=dimensions) * (10 if text[0] in "iue" else 1)
        arrays.append(jnp.asarray(values > 0 if text[0] == "b" else values).astype(_DTYPES[text[0]]))
    return function, arrays
