"""Compares shardings of this library with arrays of JAX, element by element: run it as a program, with the number of
random shardings and a seed. It needs JAX, and makes 8 devices of the CPU.
"""

import os
import sys

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"

import random

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec, SingleDeviceSharding

import xlashape as xs

MESHES = [(8,), (2, 4), (4, 2), (2, 2, 2), (1, 8), (2, 3), (6,), (5,), (3, 2, 1), (2, 1, 4)]


def draw(rng: random.Random):
    """A random array of JAX, with distinct elements where its type has as many."""
    sizes = rng.choice(MESHES)
    count = int(np.prod(sizes))
    chosen = rng.sample(jax.devices(), count) if rng.random() < 0.3 else jax.devices()[:count]
    names = tuple("abc"[: len(sizes)])
    mesh = Mesh(np.array(chosen).reshape(sizes), names)
    rank = rng.randint(1, 4)
    left = list(names)
    rng.shuffle(left)
    spec, dims = [], []
    for _ in range(rank):
        axes = [left.pop() for _ in range(rng.choice([0, 0, 1, 1, 2])) if left]
        spec.append(None if not axes else axes[0] if len(axes) == 1 else tuple(axes))
        parts = int(np.prod([mesh.shape[axis] for axis in axes], dtype=int))
        dims.append(parts * rng.randint(1, 4))
    while spec and spec[-1] is None and rng.random() < 0.5:
        spec.pop()
    sharding = NamedSharding(mesh, PartitionSpec(*spec))
    tiles = [whole // part for whole, part in zip(dims, sharding.shard_shape(tuple(dims)), strict=True)]
    if hasattr(jax.sharding, "PositionalSharding") and int(np.prod(tiles)) == count and rng.random() < 0.5:
        sharding = jax.sharding.PositionalSharding(np.array(chosen)).reshape(tiles)
    if rng.random() < 0.05:
        sharding = SingleDeviceSharding(chosen[0])
    dtype = rng.choice([np.int32, np.int8, np.float16])
    host = np.arange(int(np.prod(dims))).reshape(dims).astype(dtype)
    return jax.device_put(host, sharding), host, sharding, chosen


def check(array, host, sharding, chosen) -> None:
    shape = xs.Shape.of(host)
    is_single = isinstance(sharding, SingleDeviceSharding)
    devices = 1 if is_single else len(chosen)
    positions = {device: position for position, device in enumerate(chosen)}
    index_map = xs.sharding.map(shape, sharding, devices=devices)
    bytes_map = xs.sharding.local_bytes(shape, sharding)
    value = xs.sharding.of(array)
    spelled_by_xla = xs.sharding.of(str(xs.hlo.Sharding.from_proto(proto_of(sharding, host.ndim))))
    for shard in array.addressable_shards:
        device = positions[shard.device]
        data = np.asarray(shard.data)
        assert xs.sharding.shard_shape(shape, sharding).dimensions == data.shape
        points = [(device, *index) for index in np.ndindex(data.shape)]
        for (_, *local), where in zip(points, (index_map.evaluate(point) for point in points), strict=True):
            assert where is not None
            assert host[where] == data[tuple(local)], (sharding, shape, device, local)
        first = data.tobytes()
        for _, *local in points[:: max(1, len(points) // 7)]:
            (at,) = bytes_map.evaluate(tuple(local))
            assert first[at : at + host.itemsize] == data[tuple(local)].tobytes()
        if not is_single:
            tile = value.tile_of(device, shape)
            assert np.array_equal(host[tile.slices], data)
            assert spelled_by_xla.tile_of(device, shape) == tile or spelled_by_xla.kind == "replicated"
            assert device in (xs.sharding.devices_of(shape, sharding, tile.offset) or ())


def proto_of(sharding, rank: int) -> bytes:
    return sharding._to_xla_hlo_sharding(rank).to_proto().SerializeToString()


def main() -> None:
    count, seed = int(sys.argv[1]), int(sys.argv[2])
    rng = random.Random(seed)
    for _ in range(count):
        check(*draw(rng))
    print(f"{count} shardings are equal")


if __name__ == "__main__":
    main()
