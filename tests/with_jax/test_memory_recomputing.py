"""`jax.checkpoint` around the body of a loop, and around layers: the promised peak and operations, proved by compiling
again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import xlashape as xs

jax = pytest.importorskip("jax", reason="JAX is not installed")
if tuple(int(part) for part in jax.__version_info__[:2]) < (0, 7):
    pytest.skip("one executable of older versions cannot be dumped by itself", allow_module_level=True)

import jax.numpy as jnp  # noqa: E402 - it needs JAX
from changed_programs import Change, Program, array  # noqa: E402 - it imports JAX


def attention(x, p):
    q, k, v = (x @ p[name] for name in ("q", "k", "v"))
    weights = jax.nn.softmax(q @ k.swapaxes(-1, -2) / 8.0)
    x = x + weights @ v
    return x + jax.nn.gelu(x @ p["up"]) @ p["down"]


def layers(count: int, size: int) -> dict[str, Any]:
    sizes = {"q": (size, size), "k": (size, size), "v": (size, size), "up": (size, 4 * size), "down": (4 * size, size)}
    return {name: array(count, *each) for name, each in sizes.items()}


def one_layer() -> dict[str, Any]:
    return {name: array(*each.shape[1:]) for name, each in layers(1, 64).items()}


def trained(loss: Callable[..., Any]) -> Callable[..., Any]:
    def step(change: Change, params: Any, x: Any):
        value, gradients = jax.value_and_grad(loss, argnums=1)(change, params, x)
        return jax.tree.map(lambda a, b: a - 0.1 * b, params, gradients), value

    return step


@trained
def stack(change: Change, params, x):
    body = change.keep(lambda x, layer: (attention(x, layer), None))
    return jnp.mean(jax.lax.scan(body, x, params)[0] ** 2)


@trained
def dense(change: Change, params, x):
    def body(x, layer):
        return x + jnp.tanh(jax.nn.gelu(x @ layer["up"]) @ layer["down"]), None

    return jnp.mean(jax.lax.scan(change.keep(body), x, params)[0] ** 2)


@trained
def cell(change: Change, params, x):
    def body(h, x):
        z = jax.nn.sigmoid(x @ params["wz"] + h @ params["uz"])
        return z * h + (1 - z) * jnp.tanh(x @ params["wc"] + h @ params["uc"]), None

    return jnp.mean(jax.lax.scan(change.keep(body), jnp.zeros(x.shape[1:]), x)[0] ** 2)


@trained
def every_state(change: Change, params, x):
    """The loop returns what each iteration makes: that is kept in any case."""

    def body(h, x):
        h = h + jnp.sin(jax.nn.gelu(h @ params["up"])) @ params["down"] + x
        return h, h

    return jnp.mean(jax.lax.scan(change.keep(body), jnp.zeros(x.shape[1:]), x)[1] ** 2)


@trained
def nested(change: Change, params, x):
    def inner(x, layer):
        return x + jnp.sin(jax.nn.gelu(x @ layer["up"])) @ layer["down"], None

    def outer(x, group):
        return jax.lax.scan(inner, x, group)[0], None

    return jnp.mean(jax.lax.scan(change.keep(outer), x, params)[0] ** 2)


PROGRAMS = {
    "stack": Program(stack, (layers(6, 64), array(4, 96, 64))),
    "dense": Program(dense, ({"up": array(8, 64, 256), "down": array(8, 256, 64)}, array(512, 64))),
    "cell": Program(cell, ({name: array(64, 64) for name in ("wz", "uz", "wc", "uc")}, array(32, 128, 64))),
    "every_state": Program(every_state, ({"up": array(64, 256), "down": array(256, 64)}, array(16, 128, 64))),
    "nested": Program(nested, ({"up": array(4, 5, 64, 256), "down": array(4, 5, 256, 64)}, array(512, 64))),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_loop_that_computes_again_what_it_keeps(name: str):
    before = PROGRAMS[name].memory()
    after = PROGRAMS[name].memory(Change(keep=jax.checkpoint))
    (found,) = [each for each in before.suggest() if each.change == "recompute"]
    assert found.text.startswith(f"jax.checkpoint(the body of the loop at {__file__.rpartition('/')[2]}:")
    assert found.new_peak_bytes == pytest.approx(after.peak_bytes, rel=0.15)
    assert found.lower_bytes <= after.peak_bytes <= found.upper_bytes < before.peak_bytes
    assert found.flops == pytest.approx(xs.cost(after.module).flops - xs.cost(before.module).flops, rel=0.15)
    assert not any(each.text.startswith("jax.checkpoint(") for each in after.suggest()), (
        "each keeps what it begins with"
    )


def unrolled(named: bool, widths: tuple[int, ...] | None = None) -> Callable[..., Any]:
    """Layers in a loop of Python, with a name for each or without. `widths`: how many rows each has, as the levels of a
    U-Net."""

    @trained
    def loss(change: Change, params, x):
        kept = change.keep(attention)
        levels = []
        for number, layer in enumerate(params):
            with jax.named_scope(f"block{number}" if named else "block"):
                x = kept(x if widths is None else x[:, : widths[number]], layer)
                levels.append(jnp.mean(x[:, :8] ** 2))
        return sum(levels)

    return loss


UNROLLED = {
    "named": Program(unrolled(True), ([one_layer() for _ in range(6)], array(4, 96, 64))),
    "without names": Program(unrolled(False), ([one_layer() for _ in range(6)], array(4, 96, 64))),
    "levels": Program(unrolled(True, (192, 96, 48, 24, 12, 12)), ([one_layer() for _ in range(6)], array(4, 192, 64))),
}


@pytest.mark.parametrize("name", UNROLLED)
def test_layers_that_compute_again_what_they_keep(name: str):
    before = UNROLLED[name].memory()
    after = UNROLLED[name].memory(Change(keep=jax.checkpoint))
    found = min(
        [each for each in before.suggest() if each.text.startswith("jax.checkpoint(")],
        key=lambda each: each.new_peak_bytes,
    )
    assert found.lower_bytes <= after.peak_bytes <= 1.1 * found.new_peak_bytes
    assert found.new_peak_bytes < 0.9 * before.peak_bytes
