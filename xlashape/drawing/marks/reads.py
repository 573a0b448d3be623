"""The scene of a map or an instruction: elements of the output, and the elements of the operands that they read, each
array in its layout."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import NamedTuple

from xlashape.base.math import ceil_div, counted, product
from xlashape.drawing.geometry.axes import ArrayAxes, axes_of
from xlashape.drawing.geometry.reading import Elements, Outputs, elements_read, outputs_of_tile, outputs_of_warp
from xlashape.drawing.marks import colours
from xlashape.drawing.marks.arrays import grid_title, has_padding, is_small, open_grids, tile_maps
from xlashape.drawing.marks.cells import Brush, Cell, Grid, Legend, Options, Panel, PictureSpace, Scene, shortened
from xlashape.drawing.marks.panels import grid_panel
from xlashape.errors import InvalidArgumentError, InvalidMapError, LimitExceededError, NotFoundError
from xlashape.hlo import HloInstruction
from xlashape.indexing.answers.leaves import is_unbounded, leaves
from xlashape.indexing.queries import output_to_input
from xlashape.shape import Shape
from xlashape.shape.parts.checks import integer
from xlashape.symbolic import IndexingMap
from xlashape.symbolic.map.transforms import image_bounds

_MAX_OPERANDS = 6
_MAX_NOTES = 8
_MAX_TILE_CELLS = 4096


class Readers(NamedTuple):
    """Says which elements of an output are drawn with their reads: those of a tile or of a warp, or one element."""

    tile: tuple[int, ...] | None = None
    """The sizes of the tile."""
    warp: int | None = None
    """The number of elements of the warp, which are consecutive in memory."""

    def outputs(self, output: Shape, at: tuple[int, ...] | None) -> Outputs:
        """These elements of `output`; the first is at the index `at`, or at 0 along each dimension."""
        if 0 in output.dimensions:
            return Outputs((), None)
        start = (0,) * output.rank if at is None else at
        if self.warp is not None:
            return outputs_of_warp(output, start, self.warp)
        return outputs_of_tile(output, start, self.tile or (1,) * output.rank)


def readers_of(tile: Sequence[int] | None, warp: int | None) -> Readers:
    """The readers that a tile or a warp describes. InvalidArgumentError for both, and for values of other types."""
    if tile is not None and warp is not None:
        raise InvalidArgumentError("choose a tile or a warp of the output, not both", field="warp")
    if warp is not None and integer(warp, "warp") < 1:
        raise InvalidArgumentError(f"a warp has 1 output or more, not {warp}", field="warp")
    if isinstance(tile, (str, bytes)):
        raise InvalidArgumentError(f"a tile is a sequence of sizes, not {type(tile).__name__}", field="tile")
    sizes = None if tile is None else tuple([integer(size, "tile") for size in tile])
    return Readers(sizes, None if warp is None else integer(warp, "warp"))


class _Operand(NamedTuple):
    """An array that is read, with the maps from indices of the output to its own. `number`: that of the operand."""

    name: str
    shape: Shape
    maps: tuple[IndexingMap, ...]
    number: int = 0


def map_scene(
    indexing_map: IndexingMap, output: Shape | None, operand: Shape | None, readers: Readers, options: Options
) -> Callable[[PictureSpace], Scene]:
    """A function that makes the scene of a map. Without shapes, arrays are the smallest ones of f32 in default layouts
    that hold all indices of the map.

    InvalidMapError for an undefined map, and for shapes whose ranks are not those of the map.
    """
    if indexing_map.is_undefined:
        raise InvalidMapError("an undefined map has nothing to draw", field="map")
    notes: list[str] = []
    if output is None:
        output = Shape.array("f32", [max(0, var.bounds.upper + 1) for var in indexing_map.dims])
    if operand is None:
        operand = Shape.array("f32", [max(0, bounds.upper + 1) for bounds in image_bounds(indexing_map)])
        notes.append("The map names no shape of the operand: f32 and the default layout are assumed.")
    for shape, rank, what in (
        (output, len(indexing_map.dims), "output"),
        (operand, len(indexing_map.results), "operand"),
    ):
        if shape.rank != rank and not indexing_map.is_known_empty:
            raise InvalidMapError(f"the map's {what} has {rank} dimensions, and {shape} has {shape.rank}", field=what)
    if options.at is None and any(var.bounds.lower > 0 for var in indexing_map.dims):
        options = options._replace(at=tuple([var.bounds.lower for var in indexing_map.dims]))
    title = str(indexing_map)
    title = title if len(title) <= 200 else f"{title[:197]}..."
    return _scene(title, output, [_Operand("operand", operand, (indexing_map,))], readers, options, notes)


def instruction_scene(
    instruction: HloInstruction, output: int, operand: int | None, readers: Readers, options: Options
) -> Callable[[PictureSpace], Scene]:
    """A function that makes the scene of an instruction: the elements of all operands, or of one, that an output reads.

    NotFoundError for an output or an operand that the instruction does not have; errors as for `output_to_input`.
    """
    outputs = leaves(instruction.shape)
    if not 0 <= output < len(outputs):
        raise NotFoundError(f"{instruction.name} has no output {output}: it has {len(outputs)}", kind="output")
    count = len(instruction.operands)
    if operand is not None and not 0 <= operand < count:
        raise NotFoundError(f"{instruction.name} has no operand {operand}: it has {count}", kind="operand")
    notes: list[str] = []
    found: list[_Operand] = []
    answers = output_to_input(instruction, output)
    for number, (source, accesses) in enumerate(zip(instruction.operands, answers, strict=True)):
        if operand not in (None, number):
            continue
        arrays = leaves(source.shape)
        for leaf, shape in enumerate(arrays):
            maps = [access for access in accesses.simplify() if access.leaf == leaf]
            name = shortened(source.name, 80)
            name = name if len(arrays) == 1 else f"{name}{{{leaf}}}"
            if not maps:
                if len(arrays) == 1:
                    notes.append(f"Nothing of {name} is read.")
            elif is_unbounded(shape) or any(access.map.is_undefined for access in maps):
                notes.append(f"What is read of {name} is not known.")
            elif shape.is_array:
                found.append(_Operand(name, shape, tuple([access.map for access in maps]), number))
                if any(access.map.runtime for access in maps):
                    notes.append(f"Offsets of {name} that are known at run time have their lowest values.")
    if len(found) > _MAX_OPERANDS:
        notes.insert(0, f"{len(found) - _MAX_OPERANDS:,} more operands are read: choose one with `operand`.")
    title = f"{instruction.name} ({instruction.opcode.value})"
    return _scene(title[:200], outputs[output], found[:_MAX_OPERANDS], readers, options, notes)


class _Array(NamedTuple):
    """An array of the scene: the output, or an operand."""

    name: str
    view: ArrayAxes
    elements: Elements
    color: str
    number: int = 0
    """0 for the output; the number of an operand plus 1."""


def _scene(
    title: str, output: Shape, operands: Sequence[_Operand], readers: Readers, options: Options, notes: list[str]
) -> Callable[[PictureSpace], Scene]:
    """Finds the elements that are read. The returned function draws them in a space of any size."""
    outputs = readers.outputs(output, options.at)
    facts: list[str] = []
    asked = product(readers.tile) if readers.tile is not None else readers.warp or 0
    if 0 < outputs.total < asked:
        what = "tile" if readers.warp is None else "warp"
        facts.append(f"The output ends within the {what}: it has {outputs.total:,} of the {what}'s {asked:,} elements.")
    arrays = [_Array(f"output {output}", axes_of(output), outputs.elements(), "memory")]
    for operand in operands:
        view = axes_of(operand.shape)
        try:
            elements = elements_read(operand.maps, outputs, operand.shape)
        except LimitExceededError as error:
            if len(operands) == 1:
                raise
            notes.append(f"What is read of {operand.name} is not drawn: {error.message}.")
            continue
        facts.append(_fact(operand, view, elements, outputs.total, options))
        if elements.outside:
            notes.append(f"{elements.outside:,} reads lie outside of {operand.name}: they are not drawn.")
        arrays.append(_Array(f"{operand.name} {operand.shape}", view, elements, options.color, operand.number + 1))
    if len(notes) > _MAX_NOTES:
        notes[_MAX_NOTES:] = [f"… and {len(notes) - _MAX_NOTES:,} more remarks of this kind."]
    legends = _legends(arrays, outputs, options)
    plain = options._replace(at=None, rows=None, columns=None, path=False)
    remarks = tuple([shortened(note, 300) for note in notes])

    def build(space: PictureSpace) -> Scene:
        bands: list[tuple[Panel, ...]] = []
        left_out: list[str] = []
        for array in arrays:
            if array.view.elements and outputs.total:
                panels, more = _panels(array, outputs.total, plain, space)
                bands.append(tuple(panels))
                left_out += more
        return Scene(title, tuple(facts), tuple(bands), legends, (*remarks, *left_out))

    return build


def _legends(arrays: Sequence[_Array], outputs: Outputs, options: Options) -> tuple[Legend, ...]:
    legends: list[Legend] = []
    if len(outputs.indices) > 1:
        legends.append(Legend(colours.SCALE, f"the first of the {outputs.total:,} outputs that reads the element"))
    if len(outputs.indices) <= 1 or any(array.elements.boxes for array in arrays):
        legends.append(Legend((colours.READ,), "the output, and the elements that it reads"))
    elif any(array.view.is_tiled for array in arrays):
        legends.append(Legend((colours.READ,), "a tile that holds such elements"))
    if options.color != "memory":
        legends.append(Brush(arrays[0].view, options).legends()[0])
    legends.append(Legend((colours.BLANK,), "not read"))
    if any(has_padding(array.view) for array in arrays):
        legends.append(Legend((colours.PADDING,), "padding"))
    return tuple(legends)


def _panels(array: _Array, outputs: int, options: Options, space: PictureSpace) -> tuple[list[Grid], list[str]]:
    """The panels of an array, and a note about what they leave out. The panels show which tiles hold elements that are
    read, and these elements with their surroundings."""
    view, elements = array.view, array.elements
    in_colour = Brush(view, options._replace(color=array.color))

    def fill_at(index: tuple[int, ...]) -> int:
        number = elements.number(index)
        if number is None:
            return colours.BLANK
        if array.color != "memory":
            return in_colour.fill_of(index)
        return colours.READ if elements.boxes or outputs == 1 else colours.of_scale(number, 0, outputs - 1)

    cells = sorted([view.coordinates(index) for index in elements.samples()])
    name = shortened(array.name, 100)
    panels: list[Grid] = []
    if view.is_tiled and not is_small(view, space):
        blocks = {view.block(cell) for cell in cells}
        for panel in tile_maps(view, options, space, cells[0] if cells else (0,) * len(view.axes)):
            rows: list[tuple[Cell | None, ...]] = []
            for row in panel.cells:
                line: list[Cell | None] = []
                for cell in row:
                    if cell is not None:
                        is_read = cell.block in blocks or (
                            bool(elements.boxes) and _holds_any(view, cell.block, elements)
                        )
                        cell = cell._replace(fill=colours.READ if is_read else colours.BLANK, is_marked=False)
                    line.append(cell)
                rows.append(tuple(line))
            panels.append(panel._replace(cells=tuple(rows), title=f"{name}: {panel.title}", has_path=False))
    for grid in open_grids(view, options, space, None, cells):
        title = grid_title(view, grid, options)
        panels.append(grid_panel(Brush(view, options, fill_at=fill_at), grid, title if panels else f"{name}: {title}"))
    panels = [panel._replace(array=array.number) for panel in panels]
    slices = {tuple([cell[i] for i in view.outer_axes]) for cell in cells}
    if len(slices) <= space.slices:
        return panels, []
    return panels, [f"{name} is read in more slices than the {space.slices} that are drawn."]


def _holds_any(view: ArrayAxes, block: int, elements: Elements) -> bool:
    """Whether tile number `block`, of the layout's first level of tiling, holds an element that is read.

    Only the first `_MAX_TILE_CELLS` cells of a tile are checked.
    """
    starts: list[int] = []
    for axis, count in zip(reversed(view.axes), reversed(view.blocks), strict=True):
        block, number = divmod(block, count)
        starts.append(number * axis.tile)
    spans = [range(start, start + axis.tile) for start, axis in zip(reversed(starts), view.axes, strict=True)]
    for cell in itertools.islice(itertools.product(*spans), _MAX_TILE_CELLS):
        index = view.element(cell)
        if index is not None and elements.number(index) is not None:
            return True
    return False


def _fact(operand: _Operand, view: ArrayAxes, elements: Elements, outputs: int, options: Options) -> str:
    distinct = elements.distinct()
    subject = "1 output reads" if outputs == 1 else f"{outputs:,} outputs read"
    times = f" in {elements.reads:,} reads" if elements.reads != distinct else ""
    if distinct is None:
        return f"{subject} elements of {operand.name}{times}."
    what = f"{subject} {counted(distinct, 'element')} of {operand.name}{times}"
    if elements.boxes:
        return f"{what}."
    segments = {
        view.position(view.coordinates(index)) * view.bits // 8 // options.segment_bytes for index in elements.numbers
    }
    least = ceil_div(distinct * view.bits, 8 * options.segment_bytes)
    return (
        f"{what}, in {counted(len(segments), 'segment')} of {options.segment_bytes} bytes (at least {least:,} needed)."
    )
