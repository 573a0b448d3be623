"""What a program of this folder is: a function that gives another one, and the shapes of its arguments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

PROGRAMS: dict[str, Callable[[], tuple[Callable[..., Any], tuple[Any, ...]]]] = {}


def program(make: Callable[[], tuple[Callable[..., Any], tuple[Any, ...]]]) -> Any:
    PROGRAMS[make.__name__] = make
    return make


def floats(*dims: int, dtype: str = "float32") -> Any:
    import jax

    return jax.ShapeDtypeStruct(dims, dtype)


def ints(*dims: int, dtype: str = "int32") -> Any:
    return floats(*dims, dtype=dtype)
