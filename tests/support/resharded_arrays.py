"""Arrays that JAX brings from one random sharding to another, on 8 devices of the CPU. Run it as a program with a
number and a seed; it prints a line of JSON for each: the mesh, the axes of each dimension before and after, and the
proto that XLA made (base64). It needs JAX.
"""

import os
import sys

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"

import base64
import json
import random

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

SIZES = [(8,), (2, 4), (4, 2), (2, 2, 2)]


def divided(rng: random.Random, rank: int, names: tuple[str, ...]) -> list[list[str]]:
    """Axes for each dimension; each axis divides one of them at most."""
    dims: list[list[str]] = [[] for _ in range(rank)]
    for name in rng.sample(names, len(names)):
        place = rng.randrange(rank + 1)
        if place < rank:
            dims[place].append(name)
    return dims


def made(rng: random.Random) -> dict:
    sizes = rng.choice(SIZES)
    names = ("x", "y", "z")[: len(sizes)]
    mesh = Mesh(np.array(jax.devices()).reshape(sizes), names)
    rank = rng.randint(1, 3)
    before, after = divided(rng, rank, names), divided(rng, rank, names)
    shardings = [NamedSharding(mesh, PartitionSpec(*[tuple(dim) for dim in dims])) for dims in (before, after)]
    shape = jax.ShapeDtypeStruct([8 * rng.randint(1, 3) for _ in range(rank)], np.float32)
    lowered = jax.jit(lambda x: x * 2, in_shardings=shardings[0], out_shardings=shardings[1]).lower(shape)
    (module,) = lowered.compile().runtime_executable().hlo_modules()
    return {
        "mesh": dict(zip(names, sizes, strict=True)),
        "before": before,
        "after": after,
        "proto": base64.b64encode(module.as_serialized_hlo_module_proto()).decode(),
    }


if __name__ == "__main__":
    generator = random.Random(int(sys.argv[2]))
    for _ in range(int(sys.argv[1])):
        print(json.dumps(made(generator)), flush=True)
