"""JAX programs that XLA compiles to modules with copies, each for another cause: layouts of arguments and results,
library calls, loops, donation. The tests of `xlashape.reports.copies` and `collect_copies.py` use them. They need JAX
0.7 or later.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental.layout import Format, Layout
from jax.sharding import SingleDeviceSharding

Order = tuple[int, ...] | None
"""An order of dimensions, major to minor, as JAX's `Layout` takes it; None for the default layout."""


class Program(NamedTuple):
    """A function with the arguments to lower it with, and the layouts of arguments and results."""

    name: str
    function: Callable[..., Any]
    arguments: tuple[jax.ShapeDtypeStruct, ...]
    inputs: tuple[Order, ...]
    outputs: tuple[Order, ...] | Order = None
    """A tuple of orders where there are several results."""
    donated: tuple[int, ...] = ()

    def compile(self) -> Any:
        """The program as XLA compiles it for the CPU."""
        device = SingleDeviceSharding(jax.devices("cpu")[0])

        def formatted(order: Order) -> Any:
            return None if order is None else Format(Layout(order), device)

        orders: Any = self.outputs
        several = orders is not None and not isinstance(orders[0], int)
        outputs = tuple(map(formatted, orders)) if several else formatted(orders)
        options: dict[str, Any] = {}
        if any(order is not None for order in self.inputs):
            options["in_shardings"] = tuple(map(formatted, self.inputs))
        if outputs is not None:
            options["out_shardings"] = outputs
        named = self.function
        named.__name__ = self.name
        return jax.jit(named, donate_argnums=self.donated, **options).lower(*self.arguments).compile()

    def edited(self, edits: tuple[str, ...]) -> Program:
        """The program with the edits of a suggestion, as `CopySuggestion.edits` states them."""
        changed = self
        for edit in edits:
            changed = changed._edited(*edit.split(" ", 2))
        return changed

    def _edited(self, what: str, where: str, order: str = "") -> Program:
        axes = tuple([int(number) for number in order.strip("()").split(",") if number.strip()])
        if what == "donate":
            return self._replace(donated=(*self.donated, int(where)))
        if where.startswith("{"):
            path = [int(number) for number in where.strip("{}").split(",") if number]
            if what == "first":
                return self._replace(function=_returning_first(self.function, path[0]))
            if what == "order":
                return self._replace(function=_returning(self.function, path, axes))
            results: Any = list(self.outputs or [None] * self.result_count) if path else axes
            if path:
                results[path[0]] = axes
            return self._replace(outputs=tuple(results))
        number = int(where)
        if what == "order":
            kept = self.arguments[number]
            handed = jax.ShapeDtypeStruct([kept.shape[axis] for axis in axes], kept.dtype)
            arguments = (*self.arguments[:number], handed, *self.arguments[number + 1 :])
            return self._replace(function=_taking(self.function, number, axes), arguments=arguments)
        inputs = list(self.inputs)
        inputs[number] = axes
        return self._replace(inputs=tuple(inputs))

    @property
    def result_count(self) -> int:
        """How many arrays the function returns."""
        return len(jax.tree.leaves(jax.eval_shape(self.function, *self.arguments)))


def _taking(function: Callable[..., Any], number: int, axes: tuple[int, ...]) -> Callable[..., Any]:
    """The function, changed to take argument `number` transposed by `axes`."""

    def edited(*arguments: Any) -> Any:
        back = jnp.transpose(arguments[number], sorted(range(len(axes)), key=lambda axis: axes[axis]))
        return function(*arguments[:number], back, *arguments[number + 1 :])

    return edited


def _returning(function: Callable[..., Any], path: list[int], axes: tuple[int, ...]) -> Callable[..., Any]:
    """The function, changed to return the result at `path` transposed by `axes`."""

    def edited(*arguments: Any) -> Any:
        results = function(*arguments)
        if not path:
            return jnp.transpose(results, axes)
        return tuple([jnp.transpose(each, axes) if number == path[0] else each for number, each in enumerate(results)])

    return edited


def _returning_first(function: Callable[..., Any], number: int) -> Callable[..., Any]:
    """The function, changed to return result `number` before the others."""

    def edited(*arguments: Any) -> Any:
        results = list(function(*arguments))
        return (results.pop(number), *results)

    return edited


def array(*sizes: int, kind: Any = jnp.float32) -> jax.ShapeDtypeStruct:
    """An array to lower with."""
    return jax.ShapeDtypeStruct(sizes, kind)


def _program(name: str, function: Callable[..., Any], *arguments: Any, **options: Any) -> Program:
    options.setdefault("inputs", (None,) * len(arguments))
    return Program(name, function, arguments, **options)


_A, _B = array(64, 128), array(128, 32)
_T = (1, 0)


def _loop(body: Callable[[Any], Any], steps: int = 5) -> Callable[..., Any]:
    return lambda *state: lax.fori_loop(0, steps, lambda _, each: body(each), state[0] if len(state) == 1 else state)


def programs() -> list[Program]:
    """All programs."""
    return [
        # layouts of arguments and results that somebody chose
        _program("dot_both", lambda x, y: x @ y, _A, _B, inputs=(_T, _T)),
        _program("dot_left", lambda x, y: x @ y, _A, _B, inputs=(_T, None)),
        _program("dot_right", lambda x, y: x @ y, array(96, 160), array(160, 40), inputs=(None, _T)),
        _program("dot_result", lambda x, y: x @ y, _A, _B, outputs=_T),
        _program("dot_all", lambda x, y: x @ y, _A, _B, inputs=(_T, None), outputs=_T),
        _program("sort_rows", lambda x: jnp.sort(x, axis=1), _A, inputs=(_T,)),
        _program("sort_columns", lambda x: jnp.sort(x, axis=0), _A, inputs=(_T,)),
        _program("sort_result", lambda x: jnp.sort(x, axis=0), array(40, 72), outputs=_T),
        _program("argsort", lambda x: jnp.argsort(x, axis=-1), array(24, 200), inputs=(_T,)),
        _program("two_results", lambda x, y: (x @ y, jnp.sort(x)), _A, _B, outputs=(_T, None)),
        _program("transposed_cube", lambda x: jnp.fft.fft(x), array(8, 16, 32, kind=jnp.complex64), inputs=((2, 0, 1),)),
        _program("cumsum", lambda x: lax.cumsum(x, axis=0) @ x.T, array(48, 80), inputs=(_T,)),
        _program("half", lambda x, y: x @ y, array(64, 64, kind=jnp.bfloat16), array(64, 64, kind=jnp.bfloat16), inputs=(_T, _T)),
        _program("topk", lambda x: lax.top_k(x, 4), array(32, 100), inputs=(_T,)),
        # dots and convolutions that want their operands in an order of their own
        _program("attention", lambda q, k: jnp.einsum("bqhd,bkhd->bhqk", q, k), array(2, 32, 4, 16), array(2, 32, 4, 16)),
        _program("values", lambda p, v: jnp.einsum("bhqk,bkhd->bqhd", p, v), array(2, 4, 32, 32), array(2, 32, 4, 16)),
        _program("batched", lambda x, y: jnp.einsum("abk,kcb->bac", x, y), array(6, 8, 20), array(20, 12, 8)),
        _program("convolution", lambda x, k: lax.conv_general_dilated(x, k, (1, 1), "SAME", dimension_numbers=("NCHW", "OIHW", "NCHW")), array(2, 8, 16, 16), array(4, 8, 3, 3)),
        _program("convolution_nhwc", lambda x, k: lax.conv_general_dilated(x, k, (1, 1), "SAME", dimension_numbers=("NHWC", "OIHW", "NHWC")), array(2, 16, 16, 8), array(4, 8, 3, 3)),
        # library calls
        _program("fft_columns", lambda x: jnp.fft.fft(x, axis=0), array(64, 128, kind=jnp.complex64)),
        _program("fft_middle", lambda x: jnp.fft.ifft(x, axis=1), array(4, 32, 16, kind=jnp.complex64)),
        _program("lu", lambda x: lax.linalg.lu(x)[0], array(32, 32)),
        _program("qr", lambda x: tuple(jnp.linalg.qr(x)), array(32, 16)),
        _program("svd", lambda x: tuple(jnp.linalg.svd(x, full_matrices=False)), array(24, 16)),
        _program("triangular", lambda a, b: lax.linalg.triangular_solve(a, b, left_side=True, lower=True), array(32, 32), array(32, 8)),
        # written in place, and not donated
        _program("update", lambda x, y: lax.dynamic_update_slice(x, y, (0, 0)), _A, array(8, 128)),
        _program("update_at", lambda x, i, y: lax.dynamic_update_slice(x, jnp.sin(y), (i, 0)), _A, array(kind=jnp.int32), array(8, 128)),
        _program("update_and_read", lambda x, y: (lax.dynamic_update_slice(x, jnp.sin(y), (0, 0)), x.sum()), _A, array(8, 128)),
        _program("update_two", lambda x, z, y: (lax.dynamic_update_slice(x, y, (0, 0)), lax.dynamic_update_slice(z, y, (8, 0))), _A, _A, array(8, 128)),
        _program("update_swapped", lambda x, z, y: (lax.dynamic_update_slice(z, y, (8, 0)), lax.dynamic_update_slice(x, y, (0, 0))), _A, _A, array(8, 128)),
        _program("scatter_add", lambda x, i, y: x.at[i].add(y), _A, array(8, kind=jnp.int32), array(8, 128)),
        _program("scatter_set", lambda x, i, y: x.at[i].set(y), array(200, kind=jnp.int32), array(8, kind=jnp.int32), array(8, kind=jnp.int32)),
        _program("update_transposed", lambda x, y: lax.dynamic_update_slice(x, y, (0, 0)), array(40, 50), array(8, 50), inputs=(_T, None)),
        # state of loops
        _program("loop", _loop(lambda x: jnp.sin(x) @ jnp.cos(x)), array(64, 64)),
        _program("loop_pair", _loop(lambda s: (s[0] + 1, s[0] @ s[1])), array(48, 48), array(48, 48)),
        _program("loop_swap", _loop(lambda s: (s[1], s[0] * 2)), _A, _A),
        _program("loop_layout", _loop(lambda x: jnp.sin(x) @ jnp.cos(x)), array(56, 56), inputs=(_T,)),
        _program("loop_result", _loop(lambda x: jnp.sin(x) @ jnp.cos(x)), array(56, 56), outputs=_T),
        _program("loop_invariant", lambda w, x: lax.fori_loop(0, 7, lambda _, each: jnp.tanh(each @ w), x), array(40, 40), array(16, 40), inputs=(_T, None)),
        _program("scan", lambda x, xs: lax.scan(lambda c, v: (c + v, c * v), x, xs), array(128), array(10, 128)),
        _program("scan_weights", lambda x, ws: lax.scan(lambda c, w: (jnp.tanh(c @ w), c.sum()), x, ws), array(16, 32), array(6, 32, 32)),
        _program("while_unknown", lambda x: lax.while_loop(lambda s: s.sum() < 100, lambda s: s * 2 + 1, x), array(64, 32)),
        # branches, results that share memory, barriers
        _program("branch", lambda p, x: lax.cond(p > 0, lambda y: y, jnp.sin, x), array(), _A),
        _program("result_twice", lambda x: (lambda y: (y, y))(jnp.sin(x)), _A),
        _program("barrier", lambda x: lax.optimization_barrier((x, x)), _A),
        _program("barrier_one", lambda x: lax.optimization_barrier(x), array(77, 9)),
        # donated already
        _program("donated_update", lambda x, y: (lax.dynamic_update_slice(x, y, (0, 0)), x @ x.T), _A, array(8, 128), donated=(0,)),
        _program("donated_swap", lambda x, y: lax.optimization_barrier((y, x)), _A, _A, donated=(0, 1)),
        # what the program asks for
        _program("transpose", lambda x: jnp.transpose(x, (2, 0, 1)), array(8, 16, 32)),
        _program("pad_concatenate", lambda x, y: jnp.concatenate([jnp.pad(x, ((0, 3), (0, 5))), y], 0), array(16, 27), array(5, 32)),
        _program("slice", lambda x: x[:, 3:70], _A),
    ]  # fmt: skip
