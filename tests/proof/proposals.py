"""Programs for 8 devices that send more than they have to, each with the program in which the change is made that the
report `collectives` proposes: `python tests/proof/proposals.py > FILE` prints a line of JSON for each, with the text
that XLA made of both and the kind of the finding. It needs JAX 0.8 or newer; tests/with_jax/test_proposals.py compares
what the report promises with what the change removes.
"""

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

MESHES = [(("x",), (8,)), (("data", "model"), (2, 4)), (("data", "model"), (4, 2)), (("a", "b", "c"), (2, 2, 2))]
TYPES = [jnp.float32, jnp.int32, jnp.float32, jnp.int32]


def text_of(function, mesh, *arguments):
    everywhere = [P(mesh.axis_names) if argument.ndim else P() for argument in arguments]
    mapped = jax.shard_map(
        function, mesh=mesh, in_specs=tuple(everywhere), out_specs=P(mesh.axis_names), check_vma=False
    )
    return jax.jit(mapped).lower(*arguments).compile().runtime_executable().hlo_modules()[0].to_string()


def sum_then_part(axis, size, dtype):
    """A device takes its part of a sum, of any dimension."""
    x = jax.ShapeDtypeStruct((8 * 16, 24), dtype)

    def before(x):
        whole = lax.psum(jnp.sin(x) if dtype == jnp.float32 else x * 3, axis)
        part = whole.shape[1] // size
        return lax.dynamic_slice_in_dim(whole, lax.axis_index(axis) * part, part, 1)

    def after(x):
        return lax.psum_scatter(jnp.sin(x) if dtype == jnp.float32 else x * 3, axis, scatter_dimension=1, tiled=True)

    return "sliced", before, after, [x]


def gather_then_part(axis, size, dtype):
    """A device takes its columns of all rows."""
    x = jax.ShapeDtypeStruct((8 * 4, 24), dtype)

    def before(x):
        whole = lax.all_gather(x * 3, axis, tiled=True)
        part = whole.shape[1] // size
        return lax.dynamic_slice_in_dim(whole, lax.axis_index(axis) * part, part, 1) + 1

    def after(x):
        return lax.all_to_all(x * 3, axis, 1, 0, tiled=True) + 1

    return "sliced", before, after, [x]


def gather_then_next(axis, size, dtype):
    """A device takes the rows of its neighbour."""
    x = jax.ShapeDtypeStruct((8 * 4, 24), dtype)

    def before(x):
        whole = lax.all_gather(x * 3, axis, tiled=True)
        at = (lax.axis_index(axis) + 1) % size
        return lax.dynamic_slice_in_dim(whole, at * 4, 4, 0) + 1

    def after(x):
        return lax.ppermute(x * 3, axis, [((i + 1) % size, i) for i in range(size)]) + 1

    return "sliced", before, after, [x]


def gathered_twice(axis, size, dtype):
    """Rows are gathered again after a barrier, as `jax.checkpoint` puts one before what it computes again."""
    x = jax.ShapeDtypeStruct((8 * 4, 24), dtype)

    def before(x):
        first = lax.all_gather(x, axis, tiled=True)
        same, _ = lax.optimization_barrier((x, first))
        again = lax.all_gather(same, axis, tiled=True)
        return first[: x.shape[0]] * 2 + again[-x.shape[0] :]

    def after(x):
        first = lax.all_gather(x, axis, tiled=True)
        return first[: x.shape[0]] * 2 + first[-x.shape[0] :]

    return "repeated", before, after, [x]


def gathered_in_a_loop(axis, size, dtype):
    """All iterations gather the same weights, behind a barrier as that of `jax.checkpoint`."""
    w, x = jax.ShapeDtypeStruct((8 * 4, 24), dtype), jax.ShapeDtypeStruct((8 * 3, 24), dtype)

    def loop(x, whole):
        return lax.fori_loop(0, 5, lambda _, y: y * 2 + whole(y)[:3], x)

    def before(w, x):
        return loop(x, lambda y: lax.all_gather(lax.optimization_barrier((w, y))[0], axis, tiled=True))

    def after(w, x):
        whole = lax.all_gather(w, axis, tiled=True)
        return loop(x, lambda _: whole)

    return "invariant", before, after, [w, x]


def summed_in_a_loop(axis, size, dtype):
    x = jax.ShapeDtypeStruct((8 * 6, 24), dtype)

    def before(x):
        return lax.fori_loop(0, 6, lambda i, s: s + lax.psum(x[i] * 3, axis), jnp.zeros(24, dtype))[None]

    def after(x):
        total = lax.fori_loop(0, 6, lambda i, s: s + x[i] * 3, jnp.zeros(24, dtype))
        return lax.psum(total, axis)[None]

    return "accumulated", before, after, [x]


def turned_once_too_often(axis, size, dtype):
    """A ring in which the last iteration hands on blocks too."""
    x = jax.ShapeDtypeStruct((8 * 4, 24), dtype)
    ring = [(i, (i + 1) % size) for i in range(size)]

    def step(_, state):
        total, block = state
        return total + block * block, lax.ppermute(block, axis, ring)

    def before(x):
        return lax.fori_loop(0, size, step, (x * 3, x))[0]

    def after(x):
        total, block = lax.fori_loop(0, size - 1, step, (x * 3, x))
        return total + block * block

    return "unread", before, after, [x]


def gathered_wide(axis, size, dtype):
    x = jax.ShapeDtypeStruct((8 * 4, 24), jnp.int16 if dtype == jnp.float32 else jnp.int8)

    def before(x):
        return lax.all_gather(x.astype(jnp.int32), axis, tiled=True) * 3

    def after(x):
        return lax.all_gather(x, axis, tiled=True).astype(jnp.int32) * 3

    return "wide", before, after, [x]


FAMILIES = [
    sum_then_part, gather_then_part, gather_then_next, gathered_twice, gathered_in_a_loop, summed_in_a_loop,
    turned_once_too_often, gathered_wide,
]  # fmt: skip


def divided_otherwise(mesh, given, wanted, dtype):
    """The text of a program whose weights come divided over the axis `given` and are used divided over `wanted`."""
    w, x = jax.ShapeDtypeStruct((8 * 4, 24), dtype), jax.ShapeDtypeStruct((24, 8 * 2), dtype)

    def function(w, x):
        used = lax.with_sharding_constraint(w, NamedSharding(mesh, P(wanted)))
        return lax.with_sharding_constraint(used @ x, NamedSharding(mesh, P(wanted)))

    shardings = [NamedSharding(mesh, P(given)), NamedSharding(mesh, P())]
    compiled = jax.jit(function, in_shardings=shardings).lower(w, x).compile()
    return compiled.runtime_executable().hlo_modules()[0].to_string()


def main():
    mesh = Mesh(np.array(jax.devices()).reshape(2, 2, 2), ("a", "b", "c"))
    for (given, wanted), dtype in zip([("a", "b"), ("c", "a"), ("b", "c")], TYPES, strict=False):
        texts = [divided_otherwise(mesh, axis, wanted, dtype) for axis in (given, wanted)]
        line = {
            "name": f"divided_otherwise-{given}-{wanted}",
            "kind": "argument",
            "before": texts[0],
            "after": texts[1],
        }
        print(json.dumps(line), flush=True)
    for family in FAMILIES:
        for (names, sizes), dtype in zip(MESHES, TYPES, strict=True):
            mesh = Mesh(np.array(jax.devices()).reshape(sizes), names)
            for axis, size in zip(names[-2:], sizes[-2:], strict=True):
                kind, before, after, arguments = family(axis, size, dtype)
                texts = [text_of(function, mesh, *arguments) for function in (before, after)]
                name = f"{family.__name__}-{'x'.join(map(str, sizes))}-{axis}"
                line = {"name": name, "kind": kind, "before": texts[0], "after": texts[1]}
                print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
