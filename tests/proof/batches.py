"""Training steps for 8 devices whose weights are divided and whose activations are not said to be, each with the same
step whose activations are divided along the batch: `python tests/proof/batches.py > FILE` prints a line of JSON for
each, with the modules that XLA made of both. It needs JAX 0.8 or newer; tests/with_jax/test_batches.py compares what
the report `collectives` promises with what the change removes.
"""

import base64
import itertools
import json
import os

os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

VOCABULARY, WIDTH, HIDDEN = 512, 64, 128
MESHES = [(("data",), (8,)), (("data", "model"), (4, 2)), (("data", "model"), (2, 4))]


def attention(p, x):
    q, k, v = (jnp.einsum("bsd,dhe->bshe", x, p[name].reshape(WIDTH, 4, -1)) for name in ("q", "k", "v"))
    mixed = jax.nn.softmax(jnp.einsum("bqhe,bkhe->bhqk", q, k))
    return x + jnp.einsum("bhqk,bkhe->bqhe", mixed, v).reshape(x.shape)


def dense(p, x):
    return x + jax.nn.gelu(x @ p["up"]) @ p["down"]


def step(layer, constraint):
    def loss(p, t):
        x = p["embed"][t]
        if constraint is not None:
            x = lax.with_sharding_constraint(x, constraint)
        for _ in range(2):
            x = layer(p, x)
        scores = jax.nn.log_softmax(x @ p["head"])
        return -jnp.mean(jnp.take_along_axis(scores[:, :-1], t[:, 1:, None], axis=2))

    def step(p, t):
        return jax.tree.map(lambda w, g: w - 0.1 * g, p, jax.grad(loss)(p, t))

    return step


SHAPES = {
    "embed": (VOCABULARY, WIDTH),
    "head": (WIDTH, VOCABULARY),
    dense: {"up": (WIDTH, HIDDEN), "down": (HIDDEN, WIDTH)},
    attention: dict.fromkeys(("q", "k", "v"), (WIDTH, WIDTH)),
}
DIVIDED = {
    "first": lambda name, data, other: P(data, other),
    "second": lambda name, data, other: P(other, data),
    "features": lambda name, data, other: P(other, data) if name in ("embed", "down") else P(data, other),
}
"""Which dimension of each weight the axis of the batch divides, and which one the other axis does."""


def main():
    for (names, sizes), layer, batch, divided in itertools.product(
        MESHES, (dense, attention), ((16, 24), (8, 40)), DIVIDED
    ):
        mesh = Mesh(np.array(jax.devices()).reshape(sizes), names)
        shapes = {"embed": SHAPES["embed"], "head": SHAPES["head"], **SHAPES[layer]}
        weights = {name: jax.ShapeDtypeStruct(shape, jnp.float32) for name, shape in shapes.items()}
        specs = {
            name: NamedSharding(mesh, DIVIDED[divided](name, "data", names[1] if len(names) > 1 else None))
            for name in weights
        }
        tokens, along = jax.ShapeDtypeStruct(batch, jnp.int32), NamedSharding(mesh, P("data"))
        modules = [
            jax.jit(step(layer, constraint), in_shardings=(specs, along), out_shardings=specs, donate_argnums=0)
            .lower(weights, tokens)
            .compile()
            .runtime_executable()
            .hlo_modules()[0]
            for constraint in (None, along)
        ]
        name = f"{layer.__name__}-{'x'.join(map(str, sizes))}-{'x'.join(map(str, batch))}-{divided}"
        protos = [base64.b64encode(module.as_serialized_hlo_module_proto()).decode() for module in modules]
        print(
            json.dumps({"name": name, "before": protos[0], "after": protos[1], "text": modules[0].to_string()}),
            flush=True,
        )


if __name__ == "__main__":
    main()
