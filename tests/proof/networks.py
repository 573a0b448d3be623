"""Networks, their gradients, loops and branches."""

from __future__ import annotations

import itertools

from declared import floats, ints, program


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
