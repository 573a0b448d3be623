"""Arguments of a wrong type: an error of the library instead of an AttributeError or TypeError from deep inside.

A guarded function is called first, and its arguments are compared with its annotations only if it raised one of these two
errors. A call that succeeds therefore pays for one more Python call, 0.1 µs; binding its arguments to the annotations first would
take 1.7 µs, twenty times as long as `shape_util.is_scalar` itself. An error that no argument explains is raised as it is.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator
from functools import wraps
from operator import index
from typing import Any, TypeVar, cast

from xlashape.errors import FieldPath, InvalidArgumentError, InvalidShapeError, path_text
from xlashape.shape.parts.target import Target
from xlashape.shape.parts.tile import SplitConfig
from xlashape.shape.value.program_shape import ProgramShape
from xlashape.shape.value.shape import Layout, Shape

__all__ = ["guard_all", "guarded"]

_Function = TypeVar("_Function", bound=Callable[..., Any])

_CLASSES: dict[str, type] = {
    "Layout": Layout,
    "None": type(None),
    "ProgramShape": ProgramShape,
    "Shape": Shape,
    "SplitConfig": SplitConfig,
    "Target": Target,
    "str": str,
}
"""The classes in annotations, which are text: every module has `from __future__ import annotations`."""


def guard_all(namespace: dict[str, Any], names: Iterable[str]) -> None:
    """Puts `guarded` around the functions of a module. Its classes and values stay as they are."""
    for name in names:
        if inspect.isfunction(namespace[name]):
            namespace[name] = guarded(namespace[name])


def guarded(function: _Function) -> _Function:
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

    return cast("_Function", call)


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
        yield from _mistakes_in(value, annotation, (name,))


def _mistakes_in(value: object, annotation: str, path: FieldPath) -> Iterator[InvalidArgumentError]:
    """The errors for a value, found at `path`, that is not what `annotation` says."""
    kinds = annotation.split(" | ")
    name, found = path_text(path), type(value).__name__
    if all(kind in _CLASSES for kind in kinds):
        if not isinstance(value, tuple([_CLASSES[kind] for kind in kinds])):
            wanted = " or ".join([kind if kind == "None" else f"a {kind}" for kind in kinds])
            yield InvalidShapeError(f"{name} takes {wanted}, not {found}", field=path)
    elif annotation.startswith("Callable["):
        if not callable(value):
            yield InvalidArgumentError(f"{name} takes a function, not {found}", field=path)
    elif annotation == "int":
        if not _is_integer(value):
            yield InvalidArgumentError(f"{name} takes an integer, not {found}", field=path)
    elif annotation.startswith(("Iterable[", "Sequence[")) and not ("None" in kinds and value is None):
        entry_annotation = annotation[annotation.index("[") + 1 : annotation.rindex("]")]
        if isinstance(value, (str, bytes)) or not isinstance(value, Iterable):
            yield InvalidArgumentError(f"{name} takes a sequence, not {found}", field=path)
        else:
            # The function has used up an iterator by now, so wrong entries of one are not found.
            for i, entry in enumerate(cast("Iterable[object]", value)):
                yield from _mistakes_in(entry, entry_annotation, (*path, i))


def _is_integer(value: Any) -> bool:
    try:
        index(value)
    except TypeError:
        return False
    return True
