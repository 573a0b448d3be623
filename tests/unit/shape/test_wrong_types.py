"""Whatever is passed where a shape, a layout or a number belongs, the answer is an answer or an error of the
library.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any, cast

import pytest

from xlashape.errors import InvalidShapeError, XlashapeError
from xlashape.shape import (
    Layout,
    ProgramShape,
    Shape,
    ShapeIndex,
    SplitConfig,
    Tile,
    index_util,
    layout_util,
    shape_util,
    tiling,
)

SHAPE = Shape.parse("f32[3,4]{1,0:T(2,2)}")
MODULES = (shape_util, layout_util, index_util, tiling)
SYMBOLIC = {"logical_index", "physical_position"}
"""These take numbers of any kind, unchecked."""
GOOD: dict[str, Any] = {
    "Shape": SHAPE,
    "Layout": SHAPE.layout,
    "int": 0,
    "Iterable[int]": (0, 1),
    "Sequence[int]": (0, 1),
    "PrimitiveType | str | int": "f32",
    "Iterable[Shape]": [SHAPE],
    "Callable[[int], bool]": bool,
}
BAD: tuple[Any, ...] = (
    None,
    "f32[3]",
    b"x",
    3,
    3.5,
    True,
    -1,
    2**70,
    object(),
    [],
    {},
    ["a"],
    [None],
    [2**70],
    (True, False),
    SHAPE.to_proto(),
    SHAPE.layout,
    Shape.token(),
    Shape.tuple([SHAPE, Shape.token()]),
    Shape.buffer(SHAPE),
    Shape.parse("f32[?,<=4]"),
    Shape.parse("f32[0,4]"),
)


def functions(module: ModuleType) -> Iterator[tuple[str, Callable[..., Any]]]:
    for name in module.__all__:
        function = getattr(module, name)
        if callable(function) and not inspect.isclass(function) and hasattr(function, "__name__"):
            yield name, function


def call(function: Callable[..., Any], name: str, value: Any) -> None:
    """One argument wrong, the others right. What is lazy is begun."""
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    for parameter in inspect.signature(function).parameters.values():
        default = None if parameter.default is parameter.empty else parameter.default
        argument = value if parameter.name == name else GOOD.get(str(parameter.annotation), default)
        if parameter.kind is parameter.KEYWORD_ONLY:
            kwargs[parameter.name] = argument
        else:
            args.append(argument)
    answer = function(*args, **kwargs)
    if isinstance(answer, Iterator):
        next(cast("Iterator[object]", answer), None)


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__.rpartition(".")[2])
def test_no_foreign_error_escapes(module: ModuleType) -> None:
    called = 0
    for name, function in functions(module):
        for parameter, about in inspect.signature(function).parameters.items():
            if name in SYMBOLIC and about.annotation in ("Any", "Sequence[Any]"):
                continue
            for value in BAD:
                if name in SYMBOLIC and isinstance(value, Shape):
                    continue
                called += 1
                try:
                    call(function, parameter, value)
                except XlashapeError:
                    pass
                except Exception as error:
                    raise AssertionError(f"{name}({parameter}={value!r}): {error!r}") from error
    assert called > 100


@pytest.mark.parametrize("value", [None, "f32[3]", 3, SHAPE.to_proto(), SHAPE.layout, [SHAPE], {}])
@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__.rpartition(".")[2])
def test_what_is_no_shape_is_named(module: ModuleType, value: Any) -> None:
    for _, function in functions(module):
        required = [
            parameter
            for parameter in inspect.signature(function).parameters.values()
            if parameter.default is parameter.empty
        ]
        if [parameter.annotation for parameter in required] == ["Shape"]:
            with pytest.raises(InvalidShapeError, match=f"takes a Shape, not {type(value).__name__}"):
                call(function, required[0].name, value)


def test_the_message_says_what_was_found() -> None:
    with pytest.raises(InvalidShapeError, match="^shape takes a Shape, not str: Shape.parse reads text$"):
        tiling.physical_bytes(cast("Shape", "f32[3]"))
    with pytest.raises(InvalidShapeError, match="^layout takes a Layout, not NoneType$"):
        layout_util.is_monotonic_with_dim_0_minor(cast("Layout", None))


def test_other_type_errors_pass() -> None:
    """A mistake inside a caller's function is the caller's, and so is a parameter too many."""

    def refuse(dimension: int) -> bool:
        raise TypeError(f"no {dimension}")

    with pytest.raises(TypeError, match="no 0"):
        shape_util.filter_dimensions(refuse, SHAPE)
    with pytest.raises(TypeError, match="positional"):
        cast("Callable[..., int]", shape_util.elements_in)(SHAPE, SHAPE)


@pytest.mark.parametrize("sizes", [(True,), (2, False)])
def test_truth_values_are_no_sizes(sizes: tuple[int, ...]) -> None:
    with pytest.raises(InvalidShapeError, match="takes an integer, not bool"):
        Shape.array("f32", sizes)
    with pytest.raises(InvalidShapeError, match="takes an integer, not bool"):
        Layout((0,), [sizes])


CONSTRUCTORS: tuple[tuple[Callable[..., Any], dict[str, Any]], ...] = (
    (Shape, {"element_type": "f32", "dimensions": (3,)}),
    (Shape.array, {"element_type": "f32", "dimensions": (3,)}),
    (Shape.tuple, {}),
    (Shape.buffer, {}),
    (Shape.parse, {}),
    (Shape.from_proto, {}),
    (Layout, {"minor_to_major": (1, 0)}),
    (Layout.default, {}),
    (Layout.parse, {}),
    (Layout.from_proto, {}),
    (Tile, {"dimensions": (2,)}),
    (SplitConfig, {"dimension": 0}),
    (ProgramShape, {"parameters": [SHAPE], "result": SHAPE}),
    (ProgramShape.parse, {}),
    (ShapeIndex, {}),
)


@pytest.mark.parametrize(("make", "good"), CONSTRUCTORS, ids=lambda value: getattr(value, "__qualname__", ""))
def test_what_is_made_is_whole(make: Callable[..., Any], good: dict[str, Any]) -> None:
    """A value that a constructor lets pass prints and hashes."""
    for parameter in inspect.signature(make).parameters:
        for value in (*BAD, [SHAPE], [SHAPE.layout], [[1]], [Tile((2,))], float("nan")):
            try:
                made = make(**{**good, parameter: value}) if good else make(value)
            except XlashapeError:
                continue
            assert isinstance(str(made) + repr(made), str)
            assert hash(made) == hash(made)
