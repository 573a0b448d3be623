"""JAX programs with one collective each, on 8 devices of the CPU: random meshes, axes, kinds, types and loops. Run it
as a program with a number and a seed; it prints a line of JSON for each program: what was asked for, and the text and
the proto (base64) that XLA made of it. With a topology as third argument, such as `v5e:4x4`, they are compiled for
TPUs ahead of time. It needs JAX, and libtpu for TPUs.
"""

import os
import sys

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"

import base64
import json
import random
from math import prod

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import Mesh, PartitionSpec

SIZES = {
    8: [(8,), (2, 4), (4, 2), (2, 2, 2), (1, 8), (2, 1, 4)],
    16: [(16,), (2, 8), (4, 4), (2, 2, 4)],
    256: [(16, 16), (4, 64), (8, 8, 4)],
}
KINDS = ["all-gather", "all-reduce", "reduce-scatter", "all-to-all", "collective-permute"]


def made(rng: random.Random, devices: list) -> dict:
    sizes = rng.choice(SIZES[len(devices)])
    names = tuple(rng.sample(["data", "model", "stage"], len(sizes)))
    mesh = Mesh(np.array(devices).reshape(sizes), names)
    kind = rng.choice(KINDS)
    usable = [name for name in names if mesh.shape[name] > 1]
    axes = rng.sample(usable, 1 if kind in ("collective-permute", "all-to-all") else rng.randint(1, len(usable)))
    axes.sort(key=names.index)
    size = prod(mesh.shape[axis] for axis in axes)
    rows = size * rng.randint(1, 3) if kind in ("reduce-scatter", "all-to-all") else rng.randint(1, 7)
    columns = rng.randint(1, 6)
    dtype = rng.choice(
        ["float32", "int32"] if kind in ("all-reduce", "reduce-scatter") else ["float32", "int8", "int32"]
    )
    trips = rng.choice([1, 1, 1, 3, 5])
    shift = rng.randint(1, size - 1)
    pairs = [(number, (number + shift) % size) for number in range(size)]
    if rng.random() < 0.3:
        pairs.pop(rng.randrange(len(pairs)))

    def once(x):
        if kind == "all-gather":
            return lax.all_gather(x, tuple(axes), tiled=True)
        if kind == "all-reduce":
            return lax.psum(x, tuple(axes))
        if kind == "reduce-scatter":
            return lax.psum_scatter(x, tuple(axes), tiled=True)
        if kind == "all-to-all":
            return lax.all_to_all(x, axes[0], 0, 0, tiled=True)
        return lax.ppermute(x, axes[0], pairs)

    def body(x):
        if trips == 1:
            return once(x)

        # Each iteration exchanges another value, which keeps its shape.
        def step(_, y):
            z = once(y)
            return z[: y.shape[0]] + y if z.shape[0] >= y.shape[0] else y + jnp.tile(z, (y.shape[0] // z.shape[0], 1))

        return lax.fori_loop(0, trips, step, x)

    everywhere = PartitionSpec(names)
    mapped = jax.shard_map(body, mesh=mesh, in_specs=everywhere, out_specs=everywhere, check_vma=False)
    compiled = jax.jit(mapped).lower(jax.ShapeDtypeStruct((len(devices) * rows, columns), dtype)).compile()
    (module,) = compiled.runtime_executable().hlo_modules()
    return {
        "kind": kind,
        "mesh": dict(zip(names, sizes, strict=True)),
        "axes": axes,
        "pairs": pairs if kind == "collective-permute" else None,
        "elements": rows * columns,
        "width": np.dtype(dtype).itemsize,
        "times": trips,
        "text": module.to_string(),
        "proto": base64.b64encode(module.as_serialized_hlo_module_proto()).decode(),
    }


def main() -> None:
    devices = jax.devices()
    if len(sys.argv) > 3:
        from jax.experimental import topologies

        devices = topologies.get_topology_desc(platform="tpu", topology_name=sys.argv[3]).devices
    rng = random.Random(int(sys.argv[2]))
    for _ in range(int(sys.argv[1])):
        print(json.dumps(made(rng, devices)), flush=True)


if __name__ == "__main__":
    main()
