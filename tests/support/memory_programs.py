"""JAX programs whose memory XLA reports, for vectors with their dumps. The file needs JAX, and not xlashape.

    XLA_FLAGS="--xla_dump_to=DIRECTORY --xla_dump_hlo_as_proto" python tests/support/memory_programs.py [PROGRAM…]

compiles the programs and prints a line of JSON for each, with the sizes that `memory_analysis()` reports.
`tests/vectors/memory/programs` holds these lines, and the files `*.cpu_after_optimizations.hlo.pb` of jaxlib 0.7.1 and
0.12.0.1, compressed, with the paths of source files cut to their last parts.
"""

import json
import sys

import jax
import jax.numpy as jnp
from jax import lax

PROGRAMS = {}


def program(*shapes, donate=()):
    """A decorator that registers a function with the shapes of its arguments and the numbers of the donated ones."""

    def note(function):
        PROGRAMS[function.__name__] = (function, shapes, donate)
        return function

    return note


def array(*dimensions, dtype=jnp.float32):
    return jax.ShapeDtypeStruct(dimensions, dtype)


HEADS = [array(4, 64, 8, 32)] * 3
WEIGHTS = [array(96, 96) for _ in range(6)]


@program(*HEADS)
def attention(q, k, v):
    s = jnp.einsum("bqhd,bkhd->bhqk", q, k) / 6.0
    return jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(s, -1), v)


@program(*HEADS)
def attention_grad(q, k, v):
    return jax.grad(lambda *a: (attention(*a) ** 2).sum(), argnums=(0, 1, 2))(q, k, v)


@program(array(64, 64), array(128, 64))
def scan_remat(w, x):
    def loss(w, x):
        def body(c, _):
            return jnp.tanh(c @ w), None

        y, _ = lax.scan(jax.checkpoint(body), x, None, length=16)
        return (y**2).sum()

    return jax.grad(loss)(w, x)


@program(array(200, 100))
def while_power(a):
    b = a.T @ a

    def body(state):
        v, k, _ = state
        u = b @ v
        n = jnp.linalg.norm(u)
        return u / n, k + 1, jnp.abs(n)

    return lax.while_loop(lambda s: (s[1] < 50) & (s[2] > 1e-9), body, (jnp.ones((100,)), 0, 1.0))


@program(array(5000), array(5000, dtype=jnp.int32))
def sort_pairs(x, i):
    k, v = lax.sort((x, i), num_keys=1)
    return k[::-1], v * 2


@program(array(512, 256, dtype=jnp.bfloat16), array(256, 512, dtype=jnp.bfloat16))
def bf16_mm(a, b):
    return jax.nn.gelu(a @ b).astype(jnp.bfloat16).T


@program(array(128, 128), array(128, 128), array(32, 128), donate=(0, 1))
def adam(w, m, x):
    g = jax.grad(lambda w: (jax.nn.relu(x @ w) ** 2).mean())(w)
    m = 0.9 * m + 0.1 * g
    return w - 0.01 * m / (jnp.sqrt(m * m) + 1e-8), m


@program(array(1000, 32), array(300, dtype=jnp.int32), array(300, 32))
def scatter_gather(t, i, u):
    t2 = t.at[i].add(u)
    return t2[i[::-1]].sum(1), t2


@program(array(1000, 32), array(300, dtype=jnp.int32), array(300, 32), donate=(0,))
def scatter_donated(t, i, u):
    return t.at[i].add(u)


@program(array(2, 32, 32, 16), array(3, 3, 16, 32), array(3, 3, 32, 16))
def convnet(x, a, b):
    order = ("NHWC", "HWIO", "NHWC")

    def loss(a, b):
        h = jax.nn.relu(lax.conv_general_dilated(x, a, (1, 1), "SAME", dimension_numbers=order))
        y = lax.conv_general_dilated(h, b, (2, 2), "SAME", dimension_numbers=order)
        return (y**2).mean()

    return jax.grad(loss, argnums=(0, 1))(a, b)


@program(array(16, 64, 64))
def fft2(x):
    return jnp.abs(jnp.fft.ifft2(jnp.fft.fft2(x) * jnp.fft.fft2(x[::-1])))


@program(array(64, 64))
def cholesky(a):
    m = a @ a.T + 64 * jnp.eye(64)
    return jax.scipy.linalg.solve_triangular(jnp.linalg.cholesky(m), a, lower=True)


@program(array(100, 100), array(dtype=jnp.int32))
def switch(x, i):
    branches = [
        lambda x: jnp.sin(x) @ x,
        lambda x: jnp.cumsum(x, 0) * 2,
        lambda x: x.T + 1,
        lambda x: jnp.sort(x, 1),
    ]
    return lax.switch(i, branches, x)


@program(array(8, 2048))
def transformer_block(x):
    w = [jnp.full((2048, 256), 0.01), jnp.full((256, 2048), 0.02)]
    for k in range(4):
        with jax.named_scope(f"layer_{k}"):
            h = x - x.mean(-1, keepdims=True)
            h = h / jnp.sqrt((h**2).mean(-1, keepdims=True) + 1e-5)
            x = x + jax.nn.gelu(h @ w[0]) @ w[1]
    return x


@program(array(256, 64), array(64, 64))
def nested_scan(x, w):
    def outer(c, xs):
        def inner(d, _):
            return jnp.tanh(d @ w) + xs, d.sum()

        return lax.scan(inner, c, None, length=5)

    return lax.scan(outer, jnp.zeros((64,)), x)


@program(array(2, dtype=jnp.uint32))
def random_dropout(k):
    x = jax.random.normal(k, (200, 300))
    return jnp.where(jax.random.bernoulli(k, 0.5, (200, 300)), x, 0).sum(0)


@program(array(300, 300), array(300, 300))
def cond_grad(x, y):
    def loss(x):
        return lax.cond(y.sum() > 0, lambda: (jnp.tanh(x) @ y).sum(), lambda: (jnp.exp(-x) * y).sum())

    return jax.grad(loss)(x)


@program(array(64, 50, 32), donate=(0,))
def fori_update(x):
    return lax.fori_loop(0, 50, lambda i, a: a.at[:, i].set(a[:, i] * 2 + a[:, 0]), x)


@program(array(40, 40))
def hessian_small(x):
    return jax.hessian(lambda v: (jnp.sin(v) @ x @ v).sum())(jnp.ones(40))


@program(array(1024, 64), array(64, 1024))
def vmap_softmax(a, b):
    return jax.vmap(lambda r: jax.nn.log_softmax(r @ b))(a).max(1)


@program(array(20, 30, 40, dtype=jnp.int8), array(20, 30, 40, dtype=jnp.float16))
def casts(a, b):
    return (a.astype(jnp.float32) * b).astype(jnp.bfloat16).transpose(2, 0, 1), (a > 3).sum(), b.astype(jnp.float32)


@program(WEIGHTS, array(32, 96), donate=(0,))
def deep_sgd(ws, x):
    def loss(ws):
        h = x
        for w in ws:
            h = jnp.tanh(h @ w)
        return (h**2).sum()

    return [w - 0.1 * g for w, g in zip(ws, jax.grad(loss)(ws), strict=True)]


@program(WEIGHTS, array(32, 96))
def deep_sgd_kept(ws, x):
    return deep_sgd(ws, x)


def compiled(name):
    """A program compiled by JAX: a `jax.stages.Compiled`."""
    function, shapes, donate = PROGRAMS[name]
    return jax.jit(function, donate_argnums=donate).lower(*shapes).compile()


if __name__ == "__main__":
    for name in sys.argv[1:] or PROGRAMS:
        stats = compiled(name).memory_analysis()
        said = {key: getattr(stats, key) for key in dir(stats) if key.endswith("_in_bytes")}
        print(json.dumps({"program": name, "jaxlib": jax.lib.__version__, **said}))
