"""Programs whose scans take arrays apart and stack them again, and the same with the arrays in the carry, as `memory`
and `copies` propose: `python tests/proof/scans.py [tpu] > FILE` prints a line of JSON for each, with the text that XLA
made of both, and the bytes that each takes: arguments, outputs that have memory of their own, and temporaries. With
`tpu` they are larger and compiled for a TPU v5e, which needs libtpu and no TPU. Programs without `after` are such that
the change would not be right. tests/with_jax/test_scans.py compares what is promised with what the change saves.
"""

import json
import os
import sys

os.environ["JAX_PLATFORMS"] = "cpu"
os.environ.setdefault("TPU_SKIP_MDS_QUERY", "1")

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

IS_TPU = sys.argv[1:] == ["tpu"]
F32, BF16 = jnp.float32, jnp.bfloat16 if IS_TPU else jnp.float32


def device():
    if not IS_TPU:
        return jax.devices()[0]
    from jax.experimental import topologies  # older versions lack what it needs

    return topologies.get_topology_desc(
        platform="tpu", topology_name="v5e:2x2", chips_per_host_bounds=[2, 2, 1]
    ).devices[0]


ONE = NamedSharding(Mesh(np.array([device()]), ("d",)), P())


def array(*sizes, dtype=F32):
    return jax.ShapeDtypeStruct(sizes, dtype, sharding=ONE)


def scanned(layer, x, weights, state, reverse=False):
    return lax.scan(layer, x, (weights, state), reverse=reverse)


def carrying(has_barrier):
    def carried(layer, x, weights, state, reverse=False):
        def body(carry, each):
            x, state = carry
            i, weights = each
            old = jax.tree.map(lambda a: lax.dynamic_index_in_dim(a, i, 0, keepdims=False), state)
            x, new = layer(x, (weights, lax.optimization_barrier(old) if has_barrier else old))
            return (x, jax.tree.map(lambda a, u: lax.dynamic_update_index_in_dim(a, u, i, 0), state, new)), None

        count = jax.tree.leaves(state)[0].shape[0]
        return lax.scan(body, (x, state), (jnp.arange(count), weights), reverse=reverse)[0]

    return carried


def heads(scan):
    """A step of a decoder with caches of keys and values for each head."""
    count, batch, length, many, size = (12, 4, 1024, 8, 128) if IS_TPU else (4, 2, 64, 2, 16)

    def decode(weights, cache, x, at):
        def layer(x, each):
            w, (keys, values) = each
            q, k, v = [(x @ w[name]).reshape(batch, many, size) for name in "qkv"]
            keys, values = [
                lax.dynamic_update_slice(a, new[:, None], (0, at, 0, 0)) for a, new in ((keys, k), (values, v))
            ]
            scores = jnp.where(jnp.arange(length) <= at, jnp.einsum("bhd,bthd->bht", q, keys), -1e9)
            y = jnp.einsum("bht,bthd->bhd", jax.nn.softmax(scores), values).reshape(batch, many * size)
            return x + y @ w["o"], (keys, values)

        return scan(layer, x, weights, cache)

    weights = {name: array(count, many * size, many * size, dtype=BF16) for name in "qkvo"}
    cache = [array(count, batch, length, many, size, dtype=BF16)] * 2
    return decode, (weights, tuple(cache), array(batch, many * size, dtype=BF16), array(dtype=jnp.int32)), 1


def joint(scan):
    """A step of a decoder with one cache of keys and values, in which each sequence has a position of its own."""
    count, batch, length, size = (8, 8, 2048, 1024) if IS_TPU else (3, 4, 128, 32)

    def decode(weights, cache, x, at):
        def layer(x, each):
            w, both = each
            k, v = jnp.split(x @ w["kv"], 2, -1)
            both = both.at[0, jnp.arange(batch), at].set(k).at[1, jnp.arange(batch), at].set(v)
            scores = jnp.einsum("bd,btd->bt", x @ w["q"], both[0])
            scores = jnp.where(jnp.arange(length) <= at[:, None], scores, -1e9)
            return x + jnp.einsum("bt,btd->bd", jax.nn.softmax(scores), both[1]), both

        return scan(layer, x, weights, cache)

    weights = {"q": array(count, size, size), "kv": array(count, size, 2 * size)}
    return decode, (weights, array(count, 2, batch, length, size), array(batch, size), array(batch, dtype=jnp.int32)), 1


def gated(scan, reverse=False):
    """A step of a stack of gated recurrent cells."""
    count, batch, size = (16, 4096, 1024) if IS_TPU else (4, 32, 64)

    def step(weights, states, x):
        def layer(x, each):
            w, h = each
            z = jax.nn.sigmoid(x @ w["z"] + h)
            h = (1 - z) * h + z * jnp.tanh(x @ w["h"] + z * h)
            return h, h

        return scan(layer, x, weights, states, reverse=reverse)

    weights = {name: array(count, size, size) for name in "zh"}
    return step, (weights, array(count, batch, size), array(batch, size)), 1


def gated_backwards(scan):
    return gated(scan, reverse=True)


def gated_after_a_read(scan):
    """What reads the states before the loop may do so."""
    step, arguments, donated = gated(scan)
    return lambda weights, states, x: step(weights, states, x + states[0]), arguments, donated


def linear(scan):
    """A step of a stack of state space layers: two operations of each layer read the old state."""
    count, batch, size, inner = (12, 64, 2048, 16) if IS_TPU else (4, 4, 64, 8)

    def step(weights, states, x):
        def layer(x, each):
            w, h = each
            h = jnp.exp(-w["a"]) * h + (x @ w["in"])[..., None] * w["b"]
            return x + (h * w["c"]).sum(-1), h

        return scan(layer, x, weights, states)

    weights = {name: array(count, size, inner) for name in "abc"} | {"in": array(count, size, size)}
    return step, (weights, array(count, batch, size, inner), array(batch, size)), 1


def momentum(scan):
    """An optimizer that updates parameters and their momentum a layer at a time."""
    count, rows, columns = (12, 2048, 4096) if IS_TPU else (4, 64, 128)

    def update(state, gradients, rate):
        def layer(norm, each):
            g, old = each
            norm = norm + sum([jnp.sum(v * v) for v in g.values()])
            m = {name: 0.9 * old["m"][name] + g[name] for name in g}
            return norm, {"m": m, "p": {name: old["p"][name] - rate * m[name] for name in g}}

        return scan(layer, jnp.zeros((), F32), gradients, state)

    params = {"a": array(count, rows, columns), "b": array(count, columns, rows)}
    return update, ({"m": params, "p": params}, params, array()), 0


def generated(scan):
    """Several steps: the states are in the state of a loop around the one over layers."""
    step, arguments, donated = gated(scan)

    def steps(weights, states, x):
        return lax.fori_loop(0, 5, lambda _, carry: step(weights, carry[1], carry[0]), (x, states))

    return steps, arguments, donated


def not_to_be_changed():
    """Programs that need both arrays, or whose arrays are not alike."""
    step, (weights, states, x), _ = gated(scanned)
    other = array(*states.shape, dtype=jnp.int32)

    def layer_by_layer(layer, given=states):
        return lambda weights, states, x: lax.scan(layer, x, (jnp.arange(states.shape[0]), weights, states)), given

    def is_read_after(weights, states, x):
        x, new = step(weights, states, x)
        return x, new, (new - states).sum((1, 2))

    def is_returned(weights, states, x):
        return *step(weights, states, x), states

    def reads_another_layer(weights, states, x):
        def layer(x, each):
            i, w, h = each
            z = jax.nn.sigmoid(x @ w["z"] + h + states[(i + 2) % states.shape[0]])
            return z, z * h

        return lax.scan(layer, x, (jnp.arange(states.shape[0]), weights, states))

    def of_another_type(x, each):
        z = jax.nn.sigmoid(x @ each[1]["z"] + each[2].astype(F32))
        return z, z * each[2]

    def of_another_shape(x, each):
        z = jax.nn.sigmoid(x @ each[1]["z"] + each[2])
        return z, jnp.concatenate([z * each[2], z], -1)

    def of_other_values(x, each):
        z = jax.nn.sigmoid(x @ each[1]["z"])
        return z + jnp.sum(each[2], -1, keepdims=True), z

    programs = {
        "is_read_after": (is_read_after, states),
        "is_returned": (is_returned, states),
        "reads_another_layer": (reads_another_layer, states),
        "of_another_type": layer_by_layer(of_another_type, other),
        "of_another_shape": layer_by_layer(of_another_shape),
        "of_other_values": layer_by_layer(of_other_values),
    }
    for name, (function, given) in programs.items():
        yield name, function, (weights, given, x)


FAMILIES = [heads, joint, gated, gated_backwards, gated_after_a_read, linear, momentum, generated]
HAVE_BARRIER = (linear, momentum)
"""Whose change has a barrier: several operations read the old part."""


def compiled(function, arguments, donated):
    made = jax.jit(function, donate_argnums=donated).lower(*arguments).compile()
    sizes = made.memory_analysis()
    own = sizes.output_size_in_bytes - sizes.alias_size_in_bytes
    return made.as_text(), sizes.argument_size_in_bytes + own + sizes.temp_size_in_bytes


def main():
    for family in FAMILIES:
        function, arguments, number = family(scanned)
        changed = family(carrying(family in HAVE_BARRIER))[0]
        after, after_bytes = compiled(changed, arguments, (number,))
        for donated in (number,), ():
            before, before_bytes = compiled(function, arguments, donated)
            if not donated and family is generated:  # the outer loop has memory of its own, with or without a donation
                after, after_bytes = compiled(changed, arguments, ())
            line = {"name": family.__name__, "is_donated": bool(donated), "before": before, "after": after}
            print(json.dumps(line | {"before_bytes": before_bytes, "after_bytes": after_bytes}), flush=True)
    for name, function, arguments in not_to_be_changed():
        text, size = compiled(function, arguments, (1,))
        print(json.dumps({"name": name, "is_donated": True, "before": text, "before_bytes": size}), flush=True)


if __name__ == "__main__":
    main()
