"""Checks of arguments that the functions on shapes share: arrays, dimension numbers, indices, types. Also the errors
for wrong arguments.

An error names the field of the service's request: `indices` for an index, and the first of `positions` for a position.

`guard_all` is for arguments of a wrong type: it gives an error of the library instead of an AttributeError or TypeError
from deep inside. A guarded function is called first, and its arguments are compared with its annotations only if it
raised one of these two errors. A call that succeeds therefore pays for one more Python call, 0.1 µs; binding its
arguments to the annotations first would take 1.7 µs, twenty times as long as `shape_util.is_scalar` itself. An error
that no argument explains is raised as it is.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import wraps
from operator import index
from typing import Any, TypeVar, cast

from xlashape.errors import FieldPath, InvalidArgumentError, InvalidIndexError, InvalidShapeError, path_text
from xlashape.shape.parts.checks import brief, integer, shown
from xlashape.shape.parts.target import Target
from xlashape.shape.parts.tile import SplitConfig
from xlashape.shape.value.program_shape import ProgramShape
from xlashape.shape.value.shape import Layout, Shape


def dimension_number(rank: int, dimension: Any, field: str | FieldPath = "dimension") -> int:
    """`dimension` counted from 0; negative numbers count from the end. InvalidIndexError if there is no such
    dimension.
    """
    number = integer(dimension, field)
    if not -rank <= number < rank:
        raise InvalidIndexError(f"there is no dimension {shown(number)} among {rank}", field=field)
    return number % rank


def dimension_numbers(rank: int, dimensions: Iterable[Any], field: str = "dimensions") -> list[int]:
    """Distinct dimension numbers counted from 0, in the order given."""
    numbers = [dimension_number(rank, dimension, (field, i)) for i, dimension in enumerate(dimensions)]
    for i, number in enumerate(numbers):
        if number in numbers[:i]:
            raise InvalidIndexError(f"dimension {number} is named twice", field=(field, i))
    return numbers


def permutation_of(rank: int, permutation: Iterable[Any], field: str = "permutation") -> list[int]:
    """`permutation` as a list, or InvalidArgumentError unless it names each of 0 … rank-1 once."""
    numbers = [integer(number, (field, i)) for i, number in enumerate(permutation)]
    if sorted(numbers) != list(range(rank)):
        listed = shown(tuple(numbers))
        raise InvalidArgumentError(f"{field} {listed} is not a permutation of the {rank} dimensions", field=field)
    return numbers


def array_of(shape: Shape) -> Shape:
    """The shape itself if it is an array, or the array inside if it is a buffer. InvalidShapeError for other shapes."""
    if type(shape) is not Shape:
        raise not_a_shape(shape)
    if shape.is_array:
        return shape
    if shape.is_buffer:
        return shape.tuple_shapes[0]
    raise InvalidShapeError(f"expected an array, found {brief(shape)}", field="shape")


def not_a_shape(value: object, field: str = "shape") -> InvalidShapeError:
    """The error for a value that is not a Shape. Functions with a cache raise it before they look into the cache, since
    some values cannot be hashed.
    """
    return InvalidShapeError(f"{field} takes a Shape, not {_found(value, ['Shape'])}", field=field)


def _found(value: object, kinds: Sequence[str]) -> str:
    """The type of a value that is of none of `kinds`, in words; of text, how a Shape is made of it."""
    hint = ": Shape.parse reads text" if isinstance(value, str) and "Shape" in kinds else ""
    return f"{type(value).__name__}{hint}"


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
"""The classes by the names that annotations use. Annotations are text in modules with `from __future__ import
annotations`.
"""


def guard_all(namespace: dict[str, Any], names: Iterable[str]) -> None:
    """Replaces the functions of a module by `guarded` functions. Its classes and values stay as they are."""
    for name in names:
        if inspect.isfunction(namespace[name]):
            namespace[name] = guarded(namespace[name])


def guarded(function: _Function) -> _Function:
    """A function that does what `function` does, and raises InvalidShapeError or InvalidArgumentError if an argument is
    not what its annotation says.

    >>> from xlashape.shape.xla_util.shape_util import is_scalar
    >>> is_scalar("f32[]")
    Traceback (most recent call last):
        ...
    xlashape.errors.InvalidShapeError: shape takes a Shape, not str: Shape.parse reads text
    """

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except (AttributeError, TypeError, InvalidShapeError, InvalidArgumentError):
            # A guarded function that `function` calls raises the last two.
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
        return  # an argument too many or too few: Python's own error says which
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
            yield InvalidShapeError(f"{name} takes {wanted}, not {_found(value, kinds)}", field=path)
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
            # If the argument is an iterator, the function has used it up by now, and its wrong entries are not found.
            for i, entry in enumerate(cast("Iterable[object]", value)):
                yield from _mistakes_in(entry, entry_annotation, (*path, i))


def _is_integer(value: Any) -> bool:
    try:
        index(value)
    except TypeError:
        return False
    return True


def checked_index(shape: Shape, dimensions: tuple[int, ...], index: Iterable[Any]) -> list[int]:
    """`index` as ints, each inside its dimension. InvalidIndexError otherwise."""
    if isinstance(index, (str, bytes)):
        raise InvalidIndexError(f"an index is a sequence of integers, not {type(index).__name__}", field="indices")
    try:
        numbers = list(index)
    except TypeError:
        raise InvalidIndexError(
            f"an index is a sequence of integers, not {type(index).__name__}", field="indices"
        ) from None
    if len(numbers) != len(dimensions):
        raise InvalidIndexError(
            f"{brief(shape)} takes {index_length(len(dimensions))}, found {len(numbers)}", field="indices"
        )
    for i, size in enumerate(dimensions):
        number = numbers[i]
        if type(number) is not int:
            number = numbers[i] = integer(number, ("indices", i), f"index[{i}]")
        if not 0 <= number < size:
            raise InvalidIndexError(outside_dimension(shape, i, size, number), field=("indices", i))
    return numbers


def checked_position(shape: Shape, elements: int, position: Any) -> int:
    """`position` as an int inside a buffer of `elements`. InvalidIndexError otherwise."""
    number = position if type(position) is int else integer(position, ("positions", 0), "position")
    if not 0 <= number < elements:
        raise InvalidIndexError(outside_buffer(shape, elements, number), field=("positions", 0))
    return number


def outside_dimension(shape: Shape, dimension: int, size: int, number: int) -> str:
    """The message for an index outside its dimension."""
    return f"index {shown(number)} is outside dimension {dimension} of {brief(shape)}, which has size {size}"


def outside_buffer(shape: Shape, elements: int, number: int) -> str:
    """The message for a position outside the buffer."""
    return (
        f"position {shown(number)} is outside the buffer of {brief(shape)}, which has {elements} elements, "
        "padding included"
    )


def index_length(rank: int) -> str:
    """How many numbers an index of an array of this rank has, in words."""
    return "an index of 1 number" if rank == 1 else f"an index of {rank} numbers"
