"""Training steps that are compared in parts."""

from __future__ import annotations

from declared import floats, ints, program

HEADS = 8
BATCH = 2


def norm(x, scale):
    import jax
    import jax.numpy as jnp

    return x * jax.lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-6) * scale


def attention(x, weights):
    import jax
    import jax.numpy as jnp

    steps, width = x.shape[1:]
    q, k, v = jnp.moveaxis((x @ weights).reshape(BATCH, steps, 3, HEADS, width // HEADS), 2, 0)
    scores = jnp.einsum("bthd,bshd->bhts", q, k) / 8.0
    p = jax.nn.softmax(jnp.where(jnp.tril(jnp.ones((steps, steps), bool)), scores, -1e9), -1)
    return jnp.einsum("bhts,bshd->bthd", p, v).reshape(x.shape)


def cross_entropy(x, table, tokens):
    import jax
    import jax.numpy as jnp

    logits = jax.nn.log_softmax(x @ table.T)
    return -jnp.mean(jnp.take_along_axis(logits, tokens[:, 1:, None], -1))


def layer_shapes(width, *stacked):
    return {
        "attention_scale": floats(*stacked, width),
        "mlp_scale": floats(*stacked, width),
        "qkv": floats(*stacked, width, 3 * width),
        "out": floats(*stacked, width, width),
        "up": floats(*stacked, width, 4 * width),
        "down": floats(*stacked, 4 * width, width),
    }


@program
def decoder_step():
    import jax

    def loss(params, tokens):
        x = params["table"][tokens[:, :-1]]
        for p in params["layers"]:
            x = x + attention(norm(x, p["attention_scale"]), p["qkv"]) @ p["out"]
            x = x + jax.nn.gelu(norm(x, p["mlp_scale"]) @ p["up"]) @ p["down"]
        return cross_entropy(norm(x, params["scale"]), params["table"], tokens)

    def step(params, momentum, tokens):
        momentum = jax.tree.map(lambda m, g: 0.9 * m + g, momentum, jax.grad(loss)(params, tokens))
        return jax.tree.map(lambda p, m: p - 1e-3 * m, params, momentum), momentum

    params = {"table": floats(4096, 512), "scale": floats(512), "layers": [layer_shapes(512)] * 4}
    return step, (params, params, ints(BATCH, 256))


@program
def decoder_step_scanned():
    import jax

    def loss(params, tokens):
        @jax.checkpoint
        def layer(x, p):
            x = x + attention(norm(x, p["attention_scale"]), p["qkv"]) @ p["out"]
            return x + jax.nn.silu(norm(x, p["mlp_scale"]) @ p["up"]) @ p["down"], None

        x = jax.lax.scan(layer, params["table"][tokens[:, :-1]], params["layers"])[0]
        return cross_entropy(norm(x, params["scale"]), params["table"], tokens)

    params = {"table": floats(2048, 256), "scale": floats(256), "layers": layer_shapes(256, 4)}
    return jax.value_and_grad(loss), (params, ints(BATCH, 128))


@program
def residual_network_step():
    import jax
    import jax.numpy as jnp

    def convolved(x, weights, stride=1):
        return jax.lax.conv_general_dilated(
            x, weights, (stride, stride), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
        )

    def normed(x, scale, bias):
        mean = x.mean((0, 1, 2))
        return (x - mean) * jax.lax.rsqrt(((x - mean) ** 2).mean((0, 1, 2)) + 1e-5) * scale + bias

    def loss(params, x, labels):
        x = jax.nn.relu(normed(convolved(x, params["stem"], 2), *params["first"]))
        x = jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 3, 3, 1), (1, 2, 2, 1), "SAME")
        for first, second, affine in params["blocks"]:
            y = jax.nn.relu(normed(convolved(x, first), *affine))
            x = jax.nn.relu(x + normed(convolved(y, second), *affine))
        return -jnp.mean(jax.nn.log_softmax(x.mean((1, 2)) @ params["out"])[jnp.arange(4), labels])

    def step(params, x, labels):
        return jax.tree.map(lambda p, g: p - 0.1 * g, params, jax.grad(loss)(params, x, labels))

    affine = (floats(32), floats(32))
    block = (floats(3, 3, 32, 32), floats(3, 3, 32, 32), affine)
    params = {"stem": floats(7, 7, 3, 32), "first": affine, "blocks": [block] * 3, "out": floats(32, 10)}
    return step, (params, floats(4, 64, 64, 3), ints(4))
