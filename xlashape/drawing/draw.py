"""`draw`: pictures of shapes, layouts, maps and instructions, given as objects or as text, of the memory of programs,
and of their time."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from xlashape.drawing.marks.arrays import array_scene, relayout_scene, tuple_scene
from xlashape.drawing.marks.cells import Options, PictureSpace, Scene, options_of
from xlashape.drawing.picture import Picture
from xlashape.errors import InvalidArgumentError
from xlashape.shape import Layout, Shape
from xlashape.shape.parts.checks import integer

if TYPE_CHECKING:
    from xlashape.hlo import HloInstruction
    from xlashape.reports.memory import ProgramMemory
    from xlashape.reports.profile import Profile
    from xlashape.symbolic import IndexingMap

Subject: TypeAlias = "Shape | Layout | IndexingMap | HloInstruction | str | Any"
"""The types that `draw` takes. It also takes everything that `Shape.of` takes, such as arrays of NumPy and JAX.
Text is a shape, a layout if it begins with a brace, or a map if it has an arrow `->`. The answer of `xlashape.memory`
is drawn over time, that of `xlashape.profile` as bars."""


def draw(
    subject: Subject,
    shape: Shape | str | None = None,
    *,
    after: Shape | str | None = None,
    at: Sequence[int] | None = None,
    rows: object = None,
    columns: object = None,
    color: str = "memory",
    label: str = "position",
    path: bool = True,
    segment_bytes: int = 128,
    banks: int = 32,
    bank_bytes: int = 4,
    output: int | Shape | str | None = None,
    operand: int | Shape | str | None = None,
    tile: Sequence[int] | None = None,
    warp: int | None = None,
    theme: str = "auto",
) -> Picture:
    """A picture of a layout of any size; of a layout before and after a change; of the elements that part of an output
    reads; of a program's memory, or of a profile's times.

    An array is drawn by its tiles, with one tile opened down to elements and bits; a small array is drawn whole, a
    tuple as a list. Of a map or an instruction, the picture shows which elements of the operands one element, a tile or
    a warp of the output reads, on the operands' layouts.

    Of a sharding, which device holds which block of the array `shape`, and the layout of one part.

    - `after`: the same array in another layout.
    - `at`: the index of an element, which is marked and shown with its surroundings. Of a map: the first element of the
      output.
    - `rows`, `columns`: a window of the two axes that are shown, such as `"8:16"` or `range(8, 16)`.
    - `color`: what fills show: `memory` (the order in memory), `tile`, `row`, `bank`, or `segment` (of `segment_bytes`
      bytes).
    - `label`: what is written in cells: `position`, `index`, `byte`, `tile`, `bank` or `segment`.
    - `path`: whether arrows follow the order of memory.
    - `banks`, `bank_bytes`: the number of memory banks, and the number of consecutive bytes in a bank.
    - `output`, `operand`: of an instruction, the numbers of an output (0 if not given) and of an operand (all if not
      given); of a map, their shapes.
    - `tile`, `warp`: the sizes of a tile of the output, or the number of outputs, consecutive in memory, of a warp.
    - `theme`: `light`, `dark`, or `auto`, which follows the setting of the reader's system.

    InvalidArgumentError, or a subclass, for what cannot be drawn: an array with an unbounded dimension, an unknown
    option. NotFoundError for an output or operand that the instruction does not have; UnsupportedError for a sparse
    layout or an element type of unknown width; LimitExceededError for more reads than a picture can hold.

    >>> draw("f32[4096,4096]{1,0:T(8,128)}", at=(1000, 1000), color="row")
    <Picture of f32[4096,4096]{1,0:T(8,128)}>
    >>> draw("f32[8,8]{1,0}", after="f32[8,8]{0,1}").title
    'f32[8,8]{1,0} → f32[8,8]{0,1}'
    >>> draw("(d0, d1)[s0] -> (d0, s0), domain: d0 in [0, 7], d1 in [0, 7], s0 in [0, 7]", at=(2, 3)).scene.facts
    ('1 output reads 8 elements of operand, in 1 segment of 128 bytes (at least 1 needed).',)
    """
    made = picture_of_answer(subject, theme)
    if made is not None:
        return made
    options = options_of(at, rows, columns, color, label, path, segment_bytes, banks, bank_bytes)
    if shape is not None:
        return _sharding_picture(subject, _shape(shape, "shape"), options, theme)
    if isinstance(subject, str):
        subject = _parsed(subject)
    if isinstance(subject, Layout):
        subject = example_of(subject)
    elif not isinstance(subject, Shape) and not _is_map_or_instruction(subject):
        subject = _shape_of(subject)
    if not isinstance(subject, Shape):
        if after is not None:
            raise InvalidArgumentError("only a shape has a layout before and after a change", field="after")
        _refuse(rows=rows, columns=columns, why="is for shapes: of a map, what is read and its surroundings are drawn")
        return Picture(_reads(subject, output, operand, tile, warp, options), theme)
    _refuse(
        output=output, operand=operand, tile=tile, warp=warp, why="is for maps and instructions: a shape reads nothing"
    )
    array = subject
    if after is not None:
        other = _shape(after, "after")
        return Picture(lambda space: relayout_scene(array, other, options, space), theme)
    if array.is_array or array.is_buffer:
        return Picture(lambda space: array_scene(array, options, space), theme)
    _refuse(at=at, rows=rows, columns=columns, why="is for arrays: draw one of the tuple's `leaves()`")
    return Picture(lambda space: tuple_scene(array, options, space), theme)


def _sharding_picture(subject: object, shape: Shape, options: Options, theme: str) -> Picture:
    # Modules and maps take time to load, and most pictures need neither.
    from xlashape.drawing.marks.shardings import sharding_scene
    from xlashape.indexing.sharding import of

    sharding = of(subject, shape)
    return Picture(lambda space: sharding_scene(sharding, shape, options, space), theme)


def picture_of_answer(answer: object, theme: str = "auto") -> Picture | None:
    """The picture of a report's answer; None for anything else, and for reports without a picture."""
    # If `answer` is a report's answer, the module of the report is loaded. The module of its picture is imported on
    # first use.
    memory, profile = (sys.modules.get(f"xlashape.reports.{name}") for name in ("memory", "profile"))
    if memory is not None and isinstance(answer, memory.ProgramMemory):
        from xlashape.drawing.memory_map import MemoryPicture

        return MemoryPicture(cast("ProgramMemory", answer), theme)
    if profile is not None and isinstance(answer, profile.Profile):
        from xlashape.drawing.profile_bars import ProfilePicture

        return ProfilePicture(cast("Profile", answer), theme)
    return None


def _refuse(*, why: str, **values: object) -> None:
    """Raises InvalidArgumentError for an option that does not apply to the subject."""
    for name, value in values.items():
        if value is not None:
            raise InvalidArgumentError(f"{name} {why}", field=name)


def example_of(layout: Layout) -> Shape:
    """An array to show a layout with: f32, about two and a half tiles along each dimension that the layout's first tile
    cuts, 4 elements along every other one.

    >>> example_of(Layout.parse("{1,0:T(8,128)}"))
    Shape('f32[20,320]{1,0:T(8,128)}')
    """
    sizes = [4] * layout.rank
    if layout.tiles:
        first = layout.tiles[0].dimensions
        order = layout.minor_to_major
        for number, t in zip(order, reversed(first), strict=False):
            if t > 0:
                sizes[number] = 2 * t + t // 2 if t > 1 else 4
    return Shape.array("f32", sizes, layout)


def _is_map_or_instruction(subject: object) -> bool:
    # Modules and maps take time to load. An object of their classes shows that they are loaded.
    hlo, symbolic = (sys.modules.get(name) for name in ("xlashape.hlo.module", "xlashape.symbolic.map.indexing_map"))
    return (hlo is not None and isinstance(subject, hlo.HloInstruction)) or (
        symbolic is not None and isinstance(subject, symbolic.IndexingMap)
    )


def _shape_of(subject: object) -> Shape:
    """The shape of an array of NumPy or JAX, or of another value that `Shape.of` takes."""
    if subject is not None:
        try:
            return Shape.of(subject)
        except InvalidArgumentError:
            if hasattr(subject, "dtype"):  # an array, whose elements or sizes are the mistake
                raise
    what = type(subject).__name__
    hint = ": name one of its instructions, `module.instruction(name)`" if what == "HloModule" else ""
    raise InvalidArgumentError(
        f"draw takes a shape, a layout, an array, an indexing map or an instruction, not {what}{hint}", field="subject"
    )


def _parsed(text: str) -> Shape | Layout | IndexingMap:
    if text.lstrip().startswith("{"):
        return Layout.parse(text.strip())
    if "->" in text:
        from xlashape.symbolic import IndexingMap  # takes time to load, and most pictures need no maps

        return IndexingMap.parse(text)
    return Shape.parse(text)


def _shape(value: object, field: str) -> Shape:
    if isinstance(value, str):
        return Shape.parse(value)
    if isinstance(value, Shape):
        return value
    raise InvalidArgumentError(f"{field} takes a shape or its text, not {type(value).__name__}", field=field)


def _reads(
    subject: object,
    output: int | Shape | str | None,
    operand: int | Shape | str | None,
    tile: Sequence[int] | None,
    warp: int | None,
    options: Options,
) -> Callable[[PictureSpace], Scene]:
    # Modules and the analysis take time to load, and most pictures need neither.
    from xlashape.drawing.marks import reads
    from xlashape.hlo import HloInstruction
    from xlashape.symbolic import IndexingMap

    readers = reads.readers_of(tile, warp)
    if isinstance(subject, IndexingMap):
        shapes = [
            None if value is None else _shape(value, name) for name, value in (("output", output), ("operand", operand))
        ]
        return reads.map_scene(subject, shapes[0], shapes[1], readers, options)
    if isinstance(subject, HloInstruction):
        numbers = [
            None if value is None else integer(value, name)
            for name, value in (("output", output), ("operand", operand))
        ]
        return reads.instruction_scene(subject, numbers[0] or 0, numbers[1], readers, options)
    raise InvalidArgumentError(
        f"draw takes a shape, a layout, an indexing map or an instruction, not {type(subject).__name__}",
        field="subject",
    )
