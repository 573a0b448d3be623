"""The scene of what an output reads: elements of the output, and the elements of the operands that they read, each on its layout."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from xlashape.drawing.geometry.axes import ArrayAxes, axes_of
from xlashape.drawing.geometry.reading import Reading, elements_read, outputs_of_tile, outputs_of_warp
from xlashape.drawing.marks import colours
from xlashape.drawing.marks.arrays import grid_title, has_padding, is_small, open_grids, tile_maps
from xlashape.drawing.marks.cells import Brush
from xlashape.drawing.marks.options import Options, Space
from xlashape.drawing.marks.panels import grid_panel
from xlashape.drawing.marks.scene import Grid, Legend, Panel, Scene
from xlashape.errors import InvalidArgumentError, InvalidMapError, NotFoundError
from xlashape.hlo import HloInstruction
from xlashape.indexing.answers.leaves import is_unbounded, leaves
from xlashape.indexing.queries import output_to_input
from xlashape.math import ceil_div
from xlashape.shape import Shape
from xlashape.shape.parts.checks import integer
from xlashape.symbolic import IndexingMap
from xlashape.symbolic.map.image import image_bounds

__all__ = ["Readers", "instruction_scene", "map_scene", "readers_of"]

_MAX_OPERANDS = 6


class Readers(NamedTuple):
    """Which elements of an output are looked at: one, a tile, or a warp."""

    tile: tuple[int, ...] | None = None
    warp: int | None = None

    def outputs(self, output: Shape, at: tuple[int, ...] | None) -> list[tuple[int, ...]]:
        """The indices of these elements; the first is `at`, or 0 along each dimension."""
        if 0 in output.dimensions:
            return []
        start = (0,) * output.rank if at is None else at
        if self.warp is not None:
            return outputs_of_warp(output, start, self.warp)
        return outputs_of_tile(output, start, self.tile or (1,) * output.rank)


def readers_of(tile: Sequence[int] | None, warp: int | None) -> Readers:
    """Checked readers. InvalidArgumentError for both a tile and a warp, or values of other types."""
    if tile is not None and warp is not None:
        raise InvalidArgumentError("choose a tile or a warp of the output, not both", field="warp")
    if warp is not None and integer(warp, "warp") < 1:
        raise InvalidArgumentError(f"a warp has 1 output or more, not {warp}", field="warp")
    if isinstance(tile, (str, bytes)):
        raise InvalidArgumentError(f"a tile is a sequence of sizes, not {type(tile).__name__}", field="tile")
    sizes = None if tile is None else tuple([integer(size, "tile") for size in tile])
    return Readers(sizes, None if warp is None else integer(warp, "warp"))


class _Operand(NamedTuple):
    """An array that is read."""

    name: str
    shape: Shape
    maps: tuple[IndexingMap, ...]


def map_scene(
    indexing_map: IndexingMap,
    output: Shape | None,
    operand: Shape | None,
    readers: Readers,
    options: Options,
    space: Space,
) -> Scene:
    """The scene of a map. Without shapes, the smallest arrays of f32 in default layouts that hold all indices of the map.

    InvalidMapError for an undefined map, and for shapes of other ranks.
    """
    if indexing_map.is_undefined:
        raise InvalidMapError("an undefined map says nothing that could be drawn", field="map")
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
    return _scene(title, output, [_Operand("operand", operand, (indexing_map,))], readers, options, space, notes)


def instruction_scene(
    instruction: HloInstruction,
    output: int,
    operand: int | None,
    readers: Readers,
    options: Options,
    space: Space,
) -> Scene:
    """The scene of an instruction: what one of its outputs reads of its operands, or of one of them.

    NotFoundError for an output or an operand that the instruction has not; errors as for `output_to_input`.
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
            name = source.name if len(arrays) == 1 else f"{source.name}{{{leaf}}}"
            if not maps:
                if len(arrays) == 1:
                    notes.append(f"Nothing of {name} is read.")
            elif is_unbounded(shape) or any(access.map.is_undefined for access in maps):
                notes.append(f"What is read of {name} is not known.")
            elif shape.is_array:
                found.append(_Operand(name, shape, tuple([access.map for access in maps])))
                if any(access.map.runtime for access in maps):
                    notes.append(f"Offsets of {name} that are known at run time have their lowest values.")
    if len(found) > _MAX_OPERANDS:
        notes.append(f"{len(found) - _MAX_OPERANDS:,} more operands are read: choose one with `operand`.")
    title = f"{instruction.name} ({instruction.opcode.value})"
    return _scene(title[:200], outputs[output], found[:_MAX_OPERANDS], readers, options, space, notes)


def _scene(
    title: str,
    output: Shape,
    operands: Sequence[_Operand],
    readers: Readers,
    options: Options,
    space: Space,
    notes: list[str],
) -> Scene:
    outputs = readers.outputs(output, options.at)
    view = axes_of(output)
    plain = options._replace(at=None, rows=None, columns=None, path=False)
    lanes = {index: _lane_fill(lane, len(outputs)) for lane, index in enumerate(outputs)}
    bands: list[tuple[Panel, ...]] = []
    facts: list[str] = []
    if view.elements and outputs:
        bands.append(tuple(_panels(view, lanes, plain._replace(color="memory"), space, f"output {output}")))
    for operand in operands:
        its_view = axes_of(operand.shape)
        reading = elements_read(operand.maps, outputs, operand.shape)
        facts.append(_fact(operand, its_view, reading, len(outputs), options))
        if reading.outside:
            notes.append(f"{reading.outside:,} reads lie outside of {operand.name}: they are not drawn.")
        if not its_view.elements:
            continue
        fills = {
            index: _lane_fill(lane, len(outputs))
            if options.color == "memory"
            else Brush(its_view, options).fill_of(index)
            for index, lane in reading.readers.items()
        }
        bands.append(tuple(_panels(its_view, fills, plain, space, f"{operand.name} {operand.shape}")))
        slices = {tuple([its_view.coordinates(index)[i] for i in its_view.outer_axes]) for index in fills}
        if len(slices) > space.slices:
            notes.append(f"{len(slices):,} slices of {operand.name} are read; {space.slices} of them are drawn.")
    legends: list[Legend] = []
    if len(outputs) > 1:
        legends.append(Legend(colours.SCALE, f"the first of the {len(outputs):,} outputs that reads the element"))
    else:
        legends.append(Legend((colours.READ,), "the output, and the elements that it reads"))
    if options.color != "memory":
        legends.append(Brush(view, options).legends()[0])
    legends.append(Legend((colours.BLANK,), "not read"))
    if any(has_padding(axes_of(shape)) for shape in (output, *[operand.shape for operand in operands])):
        legends.append(Legend((colours.PADDING,), "padding"))
    return Scene(title, tuple(facts), tuple(bands), tuple(legends), tuple(notes))


def _lane_fill(lane: int, lanes: int) -> int:
    return colours.READ if lanes == 1 else colours.of_scale(lane, 0, lanes - 1)


def _panels(
    view: ArrayAxes, fills: dict[tuple[int, ...], int], options: Options, space: Space, name: str
) -> list[Grid]:
    """The tiles of an array that hold filled elements, and the surroundings of these elements."""
    cells = sorted([view.coordinates(index) for index in fills])
    brush = Brush(view, options, fills=fills)
    panels: list[Grid] = []
    name = name if len(name) <= 100 else f"{name[:97]}..."
    if view.is_tiled and not is_small(view, space):
        blocks = {view.block(cell) for cell in cells}
        for panel in tile_maps(view, options, space, cells[0] if cells else (0,) * len(view.axes)):
            rows = [
                tuple(
                    [
                        cell
                        and cell._replace(fill=colours.READ if cell.block in blocks else colours.BLANK, is_marked=False)
                        for cell in row
                    ]
                )
                for row in panel.cells
            ]
            panels.append(panel._replace(cells=tuple(rows), title=f"{name}: {panel.title}", has_path=False))
    for grid in open_grids(view, options, space, None, cells):
        title = grid_title(view, grid, options)
        panels.append(grid_panel(brush, grid, title if panels else f"{name}: {title}"))
    return panels


def _fact(operand: _Operand, view: ArrayAxes, reading: Reading, outputs: int, options: Options) -> str:
    distinct = len(reading.readers)
    segments = {
        view.position(view.coordinates(index)) * view.bits // 8 // options.segment_bytes for index in reading.readers
    }
    least = ceil_div(distinct * view.bits, 8 * options.segment_bytes)
    subject = "1 output reads" if outputs == 1 else f"{outputs:,} outputs read"
    times = f" in {reading.reads:,} reads" if reading.reads != distinct else ""
    return (
        f"{subject} {distinct:,} element{'' if distinct == 1 else 's'} of {operand.name}{times}, "
        f"in {len(segments):,} segment{'' if len(segments) == 1 else 's'} of {options.segment_bytes} bytes "
        f"(at least {least:,} needed)."
    )
