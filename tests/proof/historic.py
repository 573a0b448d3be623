"""Programs that XLA compiled wrongly, each compiled once more by the jaxlib that had the bug.

`python tests/proof/historic.py NAME FOLDER`, run by a Python with that jaxlib, dumps the text after every pass into
FOLDER, and prints a JSON object: the inputs, the `right` outputs by NumPy, and the `wrong` ones that the compiled
program returned. It fails where this jaxlib computes the program right. `motion49143` is compiled for a TPU, ahead of
time by libtpu, and is not run. `tests/vectors/equivalent` keeps the stages around each bug, and the printed object as a
row of `reference.jsonl`, with the first wrong stage and its pass.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np


class Bug(NamedTuple):
    """A program, and who computes it wrongly."""

    thread: str
    """Where it was reported; empty for a bug that no thread is known of."""
    jaxlib: str
    devices: int
    make: Callable[[], tuple[Any, tuple[Any, ...], Any]]
    """The jitted function, its inputs, and its outputs by NumPy."""


BUGS: dict[str, Bug] = {}


def bug(thread: str, jaxlib: str, devices: int = 1) -> Callable[[Any], Any]:
    def register(make: Any) -> Any:
        BUGS[make.__name__] = Bug(thread, jaxlib, devices, make)
        return make

    return register


def sharding(mesh: tuple[int, ...], *axes: str | None) -> Any:
    from jax.sharding import Mesh, NamedSharding, PartitionSpec

    devices = np.array(jax.devices()[: int(np.prod(mesh))]).reshape(mesh)
    return NamedSharding(Mesh(devices, ("x", "y")[: len(mesh)]), PartitionSpec(*axes))


@bug("openxla/xla#14074", "0.4.30")
def rsqrt14074():
    def f(x, y):
        return lax.rsqrt(abs(x)) * lax.rsqrt(abs(y))

    x, y = np.array([4, 1], np.float32), np.array([16, 4], np.float32)
    return jax.jit(f), (x, y), (x * y) ** -0.5


@bug("openxla/xla#48718", "0.11.2")
def scatter48718():
    numbers = lax.ScatterDimensionNumbers((), (0,), (0,))

    def f(x, index, update):
        return lax.scatter_add(x, index, update, numbers, mode="promise_in_bounds")

    x = np.arange(300, dtype=np.int32)
    right = x.copy()
    right[200] += 1000
    return jax.jit(f), (x, np.array([[200]], np.uint8), np.array([1000], np.int32)), right


@bug("openxla/xla#49121", "0.11.2")
def slices49121():
    def f(x, i, j):
        return lax.dynamic_slice(lax.dynamic_slice(x, (i,), (4,)), (j,), (1,))

    return jax.jit(f), (np.arange(10, dtype=np.float32), np.int32(9), np.int32(0)), np.array([6])


@bug("openxla/xla#49122", "0.11.2", 2)
def slice49122():
    def f(x, start):
        return lax.dynamic_slice(x, [np.int32(0), start], (2, 6))

    x, columns, whole = np.arange(16, dtype=np.int32).reshape(2, 8), sharding((2,), None, "x"), sharding((2,))
    return jax.jit(f, in_shardings=(columns, whole), out_shardings=columns), (x, np.int32(7)), x[:, 2:]


@bug("openxla/xla#49118", "0.12.0.1", 2)
def update49118():
    def f(x, update, start):
        return lax.dynamic_update_slice(x, update, [np.int32(0), start])

    columns, whole = sharding((2,), None, "x"), sharding((2,))
    jitted = jax.jit(f, in_shardings=(columns, whole, whole), out_shardings=columns)
    x = np.arange(4, dtype=np.int32).reshape(2, 2)
    return jitted, (x, np.full((2, 1), 99, np.int32), np.int32(2)), np.array([[0, 99], [2, 99]])


@bug("tensorflow/tensorflow#117142", "0.11.0")
def square117142():
    def f(x):
        square = x * x
        return jnp.where(square < 0, abs(square), square)

    return jax.jit(f), (np.array([12, 7, 20, 15, 11], np.int8),), np.array([112, 49, 112, 31, 121])


@bug("openxla/xla#46628", "0.11.0")
def iota46628():
    def f(x):
        return jnp.where(lax.iota(jnp.int8, 200) < 0, 1, 0) + x

    return jax.jit(f), (np.int32(0),), np.arange(200) >= 128


@bug("jax-ml/jax#24576", "0.4.35", 8)
def concatenate24576():
    def f(a, b):
        return jnp.concatenate([a, b])

    rows = sharding((4, 2), "x")
    a, b = np.arange(4, dtype=np.float32), np.arange(12, dtype=np.float32)
    return jax.jit(f, in_shardings=(rows, rows), out_shardings=rows), (a, b), np.concatenate([a, b])


@bug("jax-ml/jax#21403", "0.4.20", 8)
def cumsum21403():
    def f(x):
        return jnp.cumsum(lax.with_sharding_constraint(x, sharding((4, 2), "x", "y")), axis=1)

    x, whole = np.ones((4, 16), np.int32), sharding((4, 2))
    return jax.jit(f, in_shardings=whole, out_shardings=whole), (x,), np.cumsum(x, 1)


@bug("", "0.11.2", 8)
def extremes():
    """Found by `partitioned.py`: both running values got the padding of the sum."""

    def f(x):
        return jnp.cumsum(x, 0), lax.cummax(x, 0)

    x, rows = -1 - np.arange(16, dtype=np.float32).reshape(16, 1), sharding((8,), "x")
    jitted = jax.jit(f, in_shardings=rows, out_shardings=(rows, rows))
    return jitted, (x,), (np.cumsum(x, 0), np.maximum.accumulate(x, 0))


@bug("jax-ml/jax#18434", "0.4.20", 8)
def assign18434():
    def f(x, value):
        shifted = x.at[:-1, :].set(x[1:, :])
        return shifted.at[-1, :].set(jnp.ones(x.shape[1], x.dtype) * value)

    x = np.arange(48, dtype=np.float32).reshape(16, 3)
    right = np.concatenate([x[1:], np.full((1, 3), 1.5)])
    rows, whole = sharding((8,), "x"), sharding((8,))
    return jax.jit(f, in_shardings=(rows, whole), out_shardings=rows), (x, np.float32(1.5)), right


def _loop(condition: Callable[[Any], Any], step: int, start: int) -> Any:
    def f(x):
        return lax.while_loop(lambda s: condition(s[0]), lambda s: (s[0] + step, s[1] * 2 + 1), (start, x))

    return jax.jit(f)


@bug("tensorflow/tensorflow#123067", "0.11.2")
def loop123067():
    return _loop(lambda i: i < 1, 2, 0), (np.float32(3),), (2, 7.0)


@bug("openxla/xla#48454", "0.11.2")
def loop48454():
    return _loop(lambda i: i <= 1, 3, 3), (np.float32(3),), (3, 3.0)


@bug("openxla/xla#49143", "libtpu 0.0.48")
def motion49143():
    from jax.experimental import topologies
    from jax.sharding import Mesh, NamedSharding, PartitionSpec

    chips = np.array(topologies.get_topology_desc(platform="tpu", topology_name="v4:2x2x1").devices)
    mesh = Mesh(chips, ("x",))
    rows, steps, whole = (NamedSharding(mesh, PartitionSpec(*axes)) for axes in (["x"], [None, "x"], []))

    def f(ids, updates):
        def body(sums, step):
            i, u = (lax.with_sharding_constraint(each, rows) for each in step)
            return lax.with_sharding_constraint(sums.at[i].add(u), whole), None

        split = [lax.with_sharding_constraint(x.reshape(2, -1, *x.shape[1:]), steps) for x in (ids, updates)]
        return lax.scan(body, jnp.zeros((32, 4)), tuple(split))[0]

    shapes = jax.ShapeDtypeStruct((16, 8), np.int32), jax.ShapeDtypeStruct((16, 8, 4), np.float32)
    return jax.jit(f, in_shardings=(rows, rows), out_shardings=whole), shapes, None


def listed(x: Any) -> Any:
    return [np.asarray(leaf).tolist() for leaf in jax.tree_util.tree_leaves(x)]


def run(name: str) -> dict[str, Any]:
    """Compiles a program, and runs it."""
    made = BUGS[name]
    jitted, inputs, right = made.make()
    row = {"what": "historic", "program": name, "jaxlib": made.jaxlib, "thread": made.thread}
    if right is None:
        jitted.lower(*inputs).compile()
        return row
    wrong = jitted(*inputs)
    same = [np.allclose(x, y, rtol=1e-4) for x, y in zip(*map(jax.tree_util.tree_leaves, (wrong, right)), strict=True)]
    assert not all(same), f"jaxlib {jax.__version__} computes {name} right"
    return {**row, "devices": made.devices, "inputs": listed(inputs), "right": listed(right), "wrong": listed(wrong)}


if __name__ == "__main__":
    name, folder = sys.argv[1:]
    flags = [f"--xla_dump_to={folder}", "--xla_dump_hlo_pass_re=.*"]
    flags += ["--xla_dump_large_constants=true"] if BUGS[name].jaxlib != "0.4.20" else []
    flags += [f"--xla_force_host_platform_device_count={BUGS[name].devices}"]
    os.environ.update(JAX_PLATFORMS="cpu", XLA_FLAGS=" ".join(flags), TPU_SKIP_MDS_QUERY="1")
    import jax
    import jax.numpy as jnp
    from jax import lax

    print(json.dumps(run(name)))
