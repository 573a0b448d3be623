"""Programs that JAX partitions for 8 devices of the CPU, of many kinds: `python tests/proof/partitioned.py FOLDER
[NAME …]` writes the text before all passes and after them into FOLDER, as NAME.before.txt and NAME.after.txt, and the
inputs and outputs of a run as NAME.npz. `python tests/support/collective_mutants.py FOLDER` then proves verdicts on
them. It needs JAX 0.8 or newer.
"""

import os
import re
import sys
import tempfile
from pathlib import Path

if __name__ == "__main__":
    DUMPS = tempfile.mkdtemp()
    os.environ["JAX_PLATFORMS"] = "cpu"
    os.environ["XLA_FLAGS"] = (
        f"--xla_force_host_platform_device_count=8 --xla_dump_to={DUMPS} --xla_dump_large_constants=true"
    )

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

PROGRAMS = {}


def mesh(**axes):
    return Mesh(np.array(jax.devices()[: int(np.prod(list(axes.values())))]).reshape(*axes.values()), tuple(axes))


LINE, GRID, WIDE, CUBE = {"x": 8}, {"x": 2, "y": 4}, {"x": 4, "y": 2}, {"x": 2, "y": 2, "z": 2}


def f32(*dims):
    return jax.ShapeDtypeStruct(dims, jnp.float32)


def s32(*dims):
    return jax.ShapeDtypeStruct(dims, jnp.int32)


def program(axes, args, specs, out):
    """A function of whole arrays, divided by the compiler."""

    def register(f):
        def lowered():
            m = mesh(**axes)
            shardings = jax.tree.map(partial(NamedSharding, m), (specs, out), is_leaf=lambda s: isinstance(s, P))
            with jax.set_mesh(m):
                return jax.jit(f, in_shardings=shardings[0], out_shardings=shardings[1]).lower(*args)

        PROGRAMS[f.__name__] = lowered
        return f

    return register


def mapped(axes, args, specs, out, check=True):
    """A function of the parts on each device."""

    def register(f):
        def lowered():
            m = mesh(**axes)
            g = jax.shard_map(f, mesh=m, in_specs=specs, out_specs=out, check_vma=check)
            named = jax.tree.map(partial(NamedSharding, m), (specs, out), is_leaf=lambda s: isinstance(s, P))

            def whole(*xs):
                return g(*xs)

            whole.__name__ = f.__name__
            return jax.jit(whole, in_shardings=named[0], out_shardings=named[1]).lower(*args)

        PROGRAMS[f.__name__] = lowered
        return f

    return register


def kept(x, *axes):
    return lax.with_sharding_constraint(x, P(*axes))


# Networks: data, tensor, sequence and expert parallel, sharded parameters


def mlp(x, a, b):
    return jax.nn.relu(x @ a) @ b


def loss(params, x, y):
    return jnp.mean((mlp(x, *params) - y) ** 2)


def step(params, x, y):
    return jax.tree.map(lambda p, g: p - 0.1 * g, params, jax.grad(loss)(params, x, y))


WEIGHTS = (f32(8, 16), f32(16, 8))


@program(LINE, (WEIGHTS, f32(16, 8), f32(16, 8)), ((P(), P()), P("x"), P("x")), (P(), P()))
def data_parallel_step(params, x, y):
    return step(params, x, y)


@program(LINE, (f32(4, 8), *WEIGHTS), (P(), P(None, "x"), P("x")), P())
def tensor_parallel(x, a, b):
    return mlp(x, a, b)


@program(GRID, (WEIGHTS, f32(8, 8), f32(8, 8)), ((P(None, "y"), P("y")), P("x"), P("x")), (P(None, "y"), P("y")))
def data_and_tensor_parallel_step(params, x, y):
    return step(params, x, y)


@program(LINE, (WEIGHTS, f32(16, 8), f32(16, 8)), ((P("x"), P("x")), P("x"), P("x")), (P("x"), P("x")))
def sharded_parameters_step(params, x, y):
    return step(params, x, y)


@program(LINE, (f32(3, 8, 8), f32(16, 8)), (P(None, "x"), P("x")), P(None, "x"))
def sharded_parameters_scan_gradient(w, x):
    def layer(h, w):
        return jnp.sin(h @ kept(w, None, None)), None

    return jax.grad(lambda w: jnp.sum(lax.scan(layer, x, w)[0] ** 2))(w)


@program(CUBE, (f32(4, 8, 8), f32(8, 16), f32(16, 8)), (P("x", "y"), P(None, "z"), P("z")), P("x", "y"))
def sequence_parallel_block(x, a, b):
    h = (x - x.mean(-1, keepdims=True)) * lax.rsqrt(x.var(-1, keepdims=True) + 1e-5)
    return x + kept(mlp(kept(h, "x", None, None), a, b), "x", "y", None)


def attention(q, k, v):
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / np.sqrt(q.shape[-1])
    return jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores, -1), v)


HEADS = (f32(2, 8, 4, 4),) * 3


@program(GRID, (f32(2, 8, 8), f32(3, 8, 4, 2)), (P("x"), P(None, None, "y")), P("x"))
def attention_by_heads(x, w):
    q, k, v = jnp.einsum("bsm,nmhd->nbshd", x, w)
    return attention(q, k, v).reshape(x.shape)


@program(GRID, HEADS, (P("x", "y"),) * 3, P("x", "y"))
def attention_by_sequence(q, k, v):
    return attention(q, k, v)


@program(GRID, HEADS, (P("x", None), P("x", "y"), P("x", "y")), P("x"))
def attention_over_divided_keys(q, k, v):
    return attention(q, k, v)


@mapped(LINE, (f32(16, 4),) * 3, (P("x"),) * 3, P("x"))
def ring_attention(q, k, v):
    pairs = [(i, (i + 1) % 8) for i in range(8)]

    def turn(state, _):
        k, v, total, weight = state
        w = jnp.exp(q @ k.T / 4)
        return (lax.ppermute(k, "x", pairs), lax.ppermute(v, "x", pairs), total + w @ v, weight + w.sum(1)), None

    start = (k, v, q * 0, q[:, 0] * 0)
    (_, _, total, weight), _ = lax.scan(turn, start, None, length=8)
    return total / weight[:, None]


@program(GRID, (f32(8, 4), s32(8), f32(4, 16)), (P("x"), P("x"), P(None, "y")), P())
def cross_entropy_over_divided_words(x, labels, w):
    logits = jax.nn.log_softmax(x @ w)
    return -jnp.mean(jnp.take_along_axis(logits, labels[:, None], 1))


@program(LINE, (f32(16, 4), s32(8, 3)), (P("x"), P()), P())
def embedding_of_divided_words(table, ids):
    return table[ids].sum(1)


@program(LINE, (f32(16, 4), s32(16), f32(16, 4)), (P(), P("x"), P("x")), P())
def embedding_gradient(table, ids, c):
    return jax.grad(lambda t: jnp.sum(jnp.sin(t[ids]) * c))(table)


@program(WIDE, (f32(8, 4), f32(8, 4), f32(4, 4, 6)), (P("y"), P("y"), P("x")), P("y"))
def mixture_of_experts(x, gates, w):
    chosen = jax.nn.one_hot(jnp.argmax(gates, 1), 4)
    return jnp.einsum("be,bf->bf", chosen, jnp.einsum("ebd,edf->bf", jnp.einsum("be,bd->ebd", chosen, x), w))


@mapped(LINE, (f32(64, 4), f32(8, 4, 4)), (P("x"), P("x")), P("x"))
def experts_by_exchange(x, w):
    sent = lax.all_to_all(x.reshape(8, 1, 4), "x", 0, 1, tiled=True)
    return lax.all_to_all(jnp.tanh(sent @ w), "x", 1, 0, tiled=True).reshape(8, 4)


@mapped(LINE, (f32(4, 2, 4), f32(8, 4, 4)), (P(), P("x")), P("x"), check=False)
def pipeline(inputs, w):
    stage = lax.axis_index("x")

    def tick(carry, t):
        x = jnp.where(stage == 0, inputs[jnp.minimum(t, 3)], carry)
        y = jnp.tanh(x @ w[0])
        return lax.ppermute(y, "x", [(i, i + 1) for i in range(7)]), y

    return lax.scan(tick, jnp.zeros((2, 4)), jnp.arange(11))[1][-4:][None]


@mapped(LINE, (f32(16), f32(16), f32(16, 16)), (P("x"), P("x"), P("x")), P("x"))
def sharded_optimizer(p, m, x):
    whole = lax.all_gather(p, "x", tiled=True)
    gradient = lax.psum_scatter(jnp.sin(x * whole).sum(0), "x", tiled=True) / 8
    return p - 0.1 * (0.9 * m + gradient)


@mapped(GRID, (f32(8, 8), f32(8, 4)), (P(("x", "y")), P("y")), P("y"), check=False)
def gradient_through_all_gather(x, w):
    return lax.psum(jax.grad(lambda w: jnp.sum((x @ lax.all_gather(w, "y", tiled=True)) ** 2))(w), "x")


@mapped(LINE, (f32(4, 16, 4), f32(4)), (P(None, "x"), P()), P())
def accumulated_gradients(batches, w):
    def one(total, x):
        return total + lax.pmean(jax.grad(lambda w: jnp.sum(jnp.sin(x @ w)))(w), "x"), None

    return lax.scan(one, w * 0, batches)[0]


# Collectives that the program asks for


@mapped(GRID, (f32(8, 8),), P("x", "y"), P("x"))
def sum_over_columns(x):
    return lax.psum(x * x, "y")


@mapped(WIDE, (f32(8, 8),), P("x", "y"), P(None, "y"))
def sum_over_rows(x):
    return lax.psum(jnp.exp(x), "x")


@mapped(CUBE, (f32(4, 8),), P("x", ("y", "z")), P("x"))
def sums_over_two_axes(x):
    return lax.psum(x.sum(1), ("y", "z")) * lax.pmax(x.max(1), ("y", "z")) - lax.pmin(x[:, 0], ("z", "y"))


@mapped(LINE, (s32(8, 4),), P("x"), (P(), P(), P()))
def integer_sum_and_extremes(x):
    return lax.psum(x, "x"), lax.pmax(x, "x"), lax.pmin(x, "x")


@mapped(GRID, (f32(8, 8),), P("x", "y"), P("x"), check=False)
def gathered_columns(x):
    return lax.all_gather(x, "y", axis=1, tiled=True) @ jnp.arange(64.0).reshape(8, 8)


@mapped(WIDE, (f32(8, 6),), P("x", "y"), P(None, "y"), check=False)
def gathered_apart(x):
    return lax.all_gather(x, "x").transpose(1, 0, 2).reshape(8, 3)


@mapped(GRID, (f32(16, 8),), P(None, ("x", "y")), P("y", "x"))
def scattered_sums(x):
    return lax.psum_scatter(jnp.concatenate([x, 2 * x], 1), "y", tiled=True)[:, :4].repeat(2, 1)


@mapped(LINE, (f32(8, 16),), P(None, "x"), P(None, "x"))
def scattered_sums_of_columns(x):
    return lax.psum_scatter(jnp.repeat(x, 4, 1), "x", scatter_dimension=1, tiled=True)


@mapped(LINE, (f32(8, 16),), P("x"), P(None, "x"))
def exchanged_rows_and_columns(x):
    return lax.all_to_all(x, "x", 1, 0, tiled=True)


@mapped(GRID, (f32(8, 8, 4),), P("x", "y"), P("x", "y"))
def exchanged_in_groups(x):
    return lax.all_to_all(x, "y", 2, 1, tiled=False).reshape(4, 2, 4)


@mapped(LINE, (f32(16, 3),), P("x"), P("x"))
def shifted(x):
    return x - lax.ppermute(x, "x", [(i, (i + 3) % 8) for i in range(8)])


@mapped(GRID, (f32(8, 8),), P("x", "y"), P("x", "y"))
def shifted_in_groups(x):
    return x * lax.ppermute(x, "y", [(0, 1), (1, 2), (2, 3)])


@mapped(LINE, (f32(32),), P("x"), P("x"))
def stencil_with_halo(x):
    right = lax.ppermute(x[-1:], "x", [(i, i + 1) for i in range(7)])
    left = lax.ppermute(x[:1], "x", [(i + 1, i) for i in range(7)])
    padded = jnp.concatenate([right, x, left])
    return padded[2:] + padded[:-2] - 2 * x


@mapped(LINE, (f32(8, 8),), P("x"), P("x"))
def ring_sum_by_hand(x):
    def turn(_, state):
        moving, total = state
        moving = lax.ppermute(moving, "x", [(i, (i + 1) % 8) for i in range(8)])
        return moving, total + moving

    return lax.fori_loop(0, 7, turn, (x, x))[1]


@mapped(LINE, (f32(16),), P("x"), P("x"))
def loop_until_all_agree(x):
    def more(state):
        i, x = state
        return (lax.pmax(jnp.max(jnp.abs(x)), "x") > 1) & (i < 20)

    return lax.while_loop(more, lambda s: (s[0] + 1, s[1] * 0.7), (0, x))[1]


@mapped(LINE, (f32(8, 4),), P("x"), P("x"))
def own_number(x):
    i = lax.axis_index("x")
    return x * (i + 1) + lax.psum(jnp.where(i == 3, x, 0), "x")


@mapped(GRID, (jax.ShapeDtypeStruct((8, 8), jnp.complex64),), P("x", "y"), P("x"))
def complex_sums(x):
    return lax.psum(x * jnp.conj(x) + x, "y")


@mapped(LINE, (jax.ShapeDtypeStruct((8, 8), jnp.bfloat16),), P("x"), P())
def bfloat16_mean(x):
    return lax.pmean(x, "x")


# Resharding, and operations along divided dimensions


@program(LINE, (f32(8, 16),), (P("x"),), P(None, "x"))
def rows_to_columns(x):
    return jnp.cos(x)


@program(GRID, (f32(8, 8),), (P("x", "y"),), P("y", "x"))
def transposed_mesh(x):
    return x * 2


@program(CUBE, (f32(8, 8),), (P(("x", "y"), "z"),), P("z", ("y", "x")))
def axes_exchanged(x):
    return x + 1


@program(CUBE, (f32(8, 8), f32(8, 8)), (P("x", ("y", "z")), P(("y", "z"))), P("x", "y"))
def product_over_two_axes(x, y):
    return x @ y


@program(GRID, (f32(2, 8, 8), f32(2, 8, 4)), (P("x", None, "y"), P("x", "y")), P("x"))
def batched_product(x, y):
    return jnp.einsum("bij,bjk->bik", x, y)


@program(
    LINE,
    (jax.ShapeDtypeStruct((4, 16), jnp.int8), jax.ShapeDtypeStruct((16, 4), jnp.int8)),
    (P(None, "x"), P("x")),
    P(),
)
def quantized_product(x, y):
    return lax.dot(x, y, preferred_element_type=jnp.int32)


@program(LINE, (f32(16, 6),), (P("x"),), P("x"))
def reshaped(x):
    return x.reshape(8, 4, 3).swapaxes(1, 2)


@program(LINE, (f32(16, 3),), (P("x"),), P("x"))
def rolled_and_reversed(x):
    return jnp.roll(x, 3, 0) + jnp.flip(x, 0)


@program(LINE, (f32(16, 3),), (P("x"),), P())
def uneven_differences(x):
    return jnp.sum((x[1:] - x[:-1]) ** 2, 0)


@program(LINE, (f32(24, 3),), (P("x"),), P("x"))
def padded_and_joined(x):
    return jnp.concatenate([jnp.pad(x[3:16], ((2, 1), (0, 0))), x[:8]])


@program(LINE, (f32(16, 2),), (P("x"),), (P("x"), P("x")))
def running_sums(x):
    return jnp.cumsum(x, 0), lax.cummax(x, 0)


@program(LINE, (f32(16, 3),), (P("x"),), (P("x"), P(), P()))
def sorted_and_ranked(x):
    return jnp.sort(x, 0), jnp.argmax(x, 0), lax.top_k(x.T, 3)[0]


@program(GRID, (f32(8, 8),), (P("x", "y"),), (P(), P("x")))
def statistics(x):
    return jnp.var(x), jax.nn.logsumexp(x, 1)


@program(LINE, (f32(2, 32, 3), f32(5, 3, 4)), (P(None, "x"), P()), P(None, "x"))
def convolution_with_halo(x, w):
    return lax.conv_general_dilated(x, w, (1,), "SAME", dimension_numbers=("NWC", "WIO", "NWC"))


@program(GRID, (f32(1, 16, 16, 2), f32(3, 3, 2, 2)), (P(None, "x", "y"), P()), P(None, "x", "y"))
def strided_convolution_2d(x, w):
    return lax.conv_general_dilated(x, w, (2, 2), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))


@program(LINE, (f32(8, 16, 3), f32(3, 3, 4)), (P("x"), P()), P())
def convolution_gradient(x, w):
    def f(w):
        return jnp.sum(lax.conv_general_dilated(x, w, (1,), "VALID", dimension_numbers=("NWC", "WIO", "NWC")) ** 2)

    return jax.grad(f)(w)


@program(LINE, (f32(1, 32, 2),), (P(None, "x"),), P(None, "x"))
def pooled(x):
    return lax.reduce_window(x, -np.inf, lax.max, (1, 4, 1), (1, 2, 1), "SAME")


@program(LINE, (f32(16, 4, 2), f32(2), f32(2)), (P("x"), P(), P()), P("x"))
def batch_norm(x, scale, offset):
    mean, var = x.mean((0, 1)), x.var((0, 1))
    return (x - mean) * lax.rsqrt(var + 1e-5) * scale + offset


@program(GRID, (f32(2, 8, 4), f32(2, 1, 4), s32()), (P("x", "y"), P("x"), P()), P("x", "y"))
def cache_update(cache, new, position):
    return lax.dynamic_update_slice(cache, new, (0, jnp.clip(position, 0, 7), 0))


@program(LINE, (f32(16, 3), s32(8), f32(8, 3)), (P("x"), P(), P()), P("x"))
def scattered_rows(x, ids, new):
    return x.at[ids].add(new)


@program(LINE, (f32(8, 8), f32(8, 8)), (P("x"), P("x")), P())
def product_of_transposed(x, y):
    return jnp.tanh(x.T @ y).sum(0)


def drawn(shape, rng):
    if shape.dtype.kind == "i":
        return rng.integers(0, 8, shape.shape).astype(shape.dtype)
    x = rng.normal(size=shape.shape)
    return (x + 1j * rng.normal(size=shape.shape) if shape.dtype.kind == "c" else x).astype(shape.dtype)


def main(folder, names):
    Path(folder).mkdir(parents=True, exist_ok=True)
    for name in names or PROGRAMS:
        lowered, rng = PROGRAMS[name](), np.random.default_rng(0)
        inputs = jax.tree.map(lambda shape, rng=rng: drawn(shape, rng), lowered.in_avals[0])
        outputs = lowered.compile()(*inputs)
        values = {
            f"{kind}{i}": np.asarray(x, np.float32 if x.dtype == jnp.bfloat16 else x.dtype)
            for kind, tree in (("in", inputs), ("out", outputs))
            for i, x in enumerate(jax.tree.leaves(tree))
        }
        np.savez(Path(folder) / f"{name}.npz", **values)
        for stage, file in (("before", "before_optimizations"), ("after", "cpu_after_optimizations")):
            (path,) = Path(DUMPS).glob(f"*.jit_{name}.{file}.txt")
            text = re.sub(r'"/[^"]*/', '"', path.read_text())  # no folders of this machine
            (Path(folder) / f"{name}.{stage}.txt").write_text(text)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
