"""Indices, movement, numbers: programs of a few operations."""

from __future__ import annotations

from declared import floats, ints, program

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
