"""Arguments of the wrong type: an error of the library, not the AttributeError that comes of it deep inside.

The functions are checked when they fail, not when they are called: a call that goes well costs one more call, no look at its
arguments. What is at fault is told by the annotation of the parameter; an error that no argument explains passes as it is.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator
from functools import wraps
from operator import index
from typing import Any, TypeVar, cast

from xlashape.errors import InvalidArgumentError, InvalidShapeError
from xlashape.shape.value.layout import Layout
from xlashape.shape.value.program_shape import ProgramShape
from xlashape.shape.value.shape import Shape
from xlashape.shape.value.tile import SplitConfig

__all__ = ["guard_all", "guarded"]

_F = TypeVar("_F", bound=Callable[..., Any])

_CLASSES: dict[str, type] = {
    "Layout": Layout,
    "None": type(None),
    "ProgramShape": ProgramShape,
    "Shape": Shape,
    "SplitConfig": SplitConfig,
}


def guard_all(namespace: dict[str, Any], names: Iterable[str]) -> None:
    """Puts `guarded` around the functions of a module; its classes and values stay."""
    for name in names:
        if inspect.isfunction(namespace[name]):
            namespace[name] = guarded(namespace[name])


def guarded(function: _F) -> _F:
    """`function`, with InvalidShapeError or InvalidArgumentError where an argument is not what its annotation says.

    >>> from xlashape.shape.shape_util import is_scalar
    >>> is_scalar("f32[]")
    Traceback (most recent call last):
        ...
    xlashape.errors.InvalidShapeError: shape takes a Shape, not str
    """

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except (AttributeError, TypeError):
            mistake = next(_mistakes(function, args, kwargs), None)
            if mistake is None:
                raise
        raise mistake

    return cast("_F", call)


def _mistakes(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Iterator[InvalidArgumentError]:
    signature = inspect.signature(function)
    try:
        given = signature.bind(*args, **kwargs).arguments
    except TypeError:
        return  # a parameter too many or too few: Python's own error says which
    for name, value in given.items():
        annotation = str(signature.parameters[name].annotation)
        yield from _wrong(value, annotation, name)


def _wrong(value: object, annotation: str, name: str) -> Iterator[InvalidArgumentError]:
    kinds = annotation.split(" | ")
    if all(kind in _CLASSES for kind in kinds):
        if not isinstance(value, tuple([_CLASSES[kind] for kind in kinds])):
            wanted = " or ".join([kind if kind == "None" else f"a {kind}" for kind in kinds])
            yield InvalidShapeError(f"{name} takes {wanted}, not {type(value).__name__}", field=name)
    elif annotation.startswith("Callable["):
        if not callable(value):
            yield InvalidArgumentError(f"{name} takes a function, not {type(value).__name__}", field=name)
    elif annotation == "int":
        if not _is_integer(value):
            yield InvalidArgumentError(f"{name} takes an integer, not {type(value).__name__}", field=name)
    elif annotation.startswith(("Iterable[", "Sequence[")) and not ("None" in kinds and value is None):
        inner = annotation[annotation.index("[") + 1 : annotation.rindex("]")]
        if isinstance(value, (str, bytes)) or not isinstance(value, Iterable):
            yield InvalidArgumentError(f"{name} takes a sequence, not {type(value).__name__}", field=name)
        else:
            # An iterator is used up by now, so its entries are beyond telling.
            for i, entry in enumerate(cast("Iterable[object]", value)):
                yield from _wrong(entry, inner, f"{name}[{i}]")


def _is_integer(value: Any) -> bool:
    try:
        index(value)
    except TypeError:
        return False
    return True
