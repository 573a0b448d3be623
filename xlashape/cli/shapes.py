"""Commands about one shape: `shape`, `index`."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import click

from xlashape.base.math import byte_text, checked_int64
from xlashape.cli.completing import complete_files, instruction_names
from xlashape.cli.connection import ServerAddress, connected, query_options
from xlashape.cli.modules import loaded, naming
from xlashape.cli.output import echo, print_facts, print_json, share_text
from xlashape.errors import FieldPath, InvalidIndexError, InvalidShapeError, XlashapeError
from xlashape.limits import budget
from xlashape.shape import Layout, Shape, Target, tiling
from xlashape.shape.arguments import array_of
from xlashape.shape.parts.checks import brief
from xlashape.shape.parts.target import TARGETS
from xlashape.shape.tiling.padding import PaddingReport, padding_report

if TYPE_CHECKING:
    from xlashape.hlo import HloModule
    from xlashape_client import Client
    from xlashape_client.results import ShapeSize

_INTEGER = re.compile(r"\s*[+-]?[0-9]{1,40}\s*")
_INDEX = re.compile(r"[(]?[-+0-9, ]{1,400}[)]?|-")

_FEW: Final = 16
"""So many indices or positions are answered without NumPy, which takes longer to load."""

# With this setting, "-1,3" is not an option but an index, which is then refused.
_NUMBERS_AS_ARGUMENTS = {"ignore_unknown_options": True}


target_option = click.option(
    "--target", type=click.Choice(tuple(TARGETS)), default=None,
    help="The device: TPUs give layouts without tiles their own order and tiles.",
)  # fmt: skip
"""The option --target of the commands that take a shape."""


def text_on_target(text: str, target: str | None) -> str:
    """The text of a shape with the layout that it has on the device `target`; the text as it is if `target` is None."""
    return text if target is None else str(shape_on_target(Shape.parse(text), target))


def shape_on_target(shape: Shape, target: str | None) -> Shape:
    """A shape with the layouts that its arrays have on the device `target`. Only TPUs change layouts."""
    if shape.is_tuple:
        return Shape.tuple([shape_on_target(each, target) for each in shape.tuple_shapes])
    is_tpu = target is not None and Target.of(target).is_tpu
    from xlashape.shape import tpu_layout  # start-up time: few shapes are put on a device

    return tpu_layout.default_shape(shape, target or "tpu") if is_tpu and (shape.is_array or shape.is_buffer) else shape


@click.command()
@click.argument("text", metavar="SHAPE")
@target_option
@query_options
def shape(text: str, target: str | None, server: ServerAddress | None, timeout: float, as_json: bool) -> None:
    """The sizes and the layout of SHAPE, such as 'f32[3,5]{1,0:T(2,2)}', and how much of its buffer is padding."""
    text = text_on_target(text, target)
    if server is not None:
        with connected(server, timeout) as service:
            found = service.describe_shape(text)
        described, size = found.shape, found.size
    else:
        with _within(timeout):
            described = _parsed(text, ("shapes", 0))
            try:
                size = _size_of(described)
            except XlashapeError as error:
                error.path = ("shapes", 0)
                raise
    if as_json:
        print_json("shape.v1", _json(described, size))
    else:
        print_facts(_facts(described, size))


@contextmanager
def _within(timeout: float) -> Generator[None, None, None]:
    with budget(deadline=time.monotonic() + timeout, subject="shapes"):
        yield


def _parsed(text: str, path: FieldPath) -> Shape:
    """The shape in text. `path` is that of errors, which a server gives too."""
    try:
        return Shape.parse(text)
    except XlashapeError as error:
        raise error.within(*path, "text") from None


class _Size(NamedTuple):
    """The sizes of a shape, as a server gives them: for a tuple, sums over its arrays."""

    byte_size: int
    element_count: int
    logical_bytes: int
    physical_elements: int
    physical_bytes: int

    @property
    def padding_bytes(self) -> int:
        return self.physical_bytes - self.logical_bytes


def _size_of(shape: Shape) -> _Size | None:
    """The sizes of a shape; None where a dynamic dimension has no bound, or an element no known width."""
    from xlashape.shape.xla_util import shape_util  # start-up time: `index` does not need it

    arrays = [
        leaf.buffer_shape if leaf.is_buffer else leaf for leaf in shape.leaves() if leaf.is_array or leaf.is_buffer
    ]
    if shape.is_unbounded_dynamic or not all(map(_bits_of, arrays)):
        return None

    def added(function: Any, what: str) -> int:
        return checked_int64(sum(map(function, arrays)), f"the number of {what}")

    return _Size(
        shape_util.byte_size_of(shape, 8),
        added(shape_util.elements_in, "elements"),
        added(shape_util.byte_size_of_elements, "bytes"),
        added(tiling.physical_elements, "elements, padding included,"),
        added(tiling.physical_bytes, "bytes, padding included,"),
    )


def _bits_of(array: Shape) -> int:
    """The bits of an element in memory; 0 where the width is not known."""
    is_known = array.element_type.is_known or (array.layout is not None and array.layout.element_size_in_bits > 0)
    return tiling.stored_bits(array) if is_known else 0


def _leaf_count(shape: Shape) -> int:
    return sum(leaf.is_array or leaf.is_buffer for leaf in shape.leaves())


def _json(shape: Shape, size: _Size | ShapeSize | None) -> dict[str, Any]:
    """A shape and its sizes as JSON. A value that has no meaning for the shape is null."""
    array = shape.is_array
    layout = shape.layout if array else None
    return {
        "shape": str(shape),
        "element_type": shape.element_type.text,
        "dimensions": list(shape.dimensions) if array else None,
        "dynamic_dimensions": list(shape.dynamic_dimensions) if array else None,
        "minor_to_major": list(layout.minor_to_major) if layout is not None else None,
        "tiles": [list(tile.dimensions) for tile in layout.tiles] if layout is not None else None,
        "element_bits": _bits_of(shape) if array else None,
        "memory_space": (layout.memory_space if layout is not None else 0) if array else None,
        "leaf_count": _leaf_count(shape),
        "is_static": shape.is_static,
        "padding": _padding_json(padding_report(shape)) if array and size else None,
        "size": size._asdict() | {"padding_bytes": size.padding_bytes} if size else None,
    }


def _padding_json(report: PaddingReport) -> dict[str, Any]:
    return {
        "bytes": report.padding_bytes,
        "share": report.padding_share,
        "causes": [
            {
                "says": str(cause),
                "dimensions": list(cause.dimensions),
                "size": cause.size,
                "padded": cause.padded,
                "tile": None if cause.tile is None else list(cause.tile.dimensions),
                "tile_number": cause.tile_number,
                "elements": cause.elements,
            }
            for cause in report.causes
        ],
        "best_orders": [list(order) for order in report.best_orders],
        "best_bytes": report.best_bytes,
    }


def _facts(shape: Shape, size: _Size | ShapeSize | None) -> Iterator[tuple[str, object]]:
    yield "shape", shape
    if shape.is_array:
        bits = f"{_bits_of(shape)} bits in memory" if _bits_of(shape) else "of unknown width"
        yield "element type", f"{shape.element_type}, {bits}"
        yield "dimensions", _dimensions_text(shape, size)
        if shape.layout is not None and shape.rank:
            yield "layout", _layout_text(shape.layout)
    elif shape.is_tuple:
        yield "leaves", _leaf_count(shape)
    if size is None:
        reason = (
            "a dynamic dimension has no bound"
            if shape.is_unbounded_dynamic
            else "the width of an element type is not known"
        )
        yield "size", f"unknown: {reason}"
        return
    if shape.is_array:
        yield from padding_report(shape).facts()
        return
    yield "elements", byte_text(size.logical_bytes)
    padding = size.padding_bytes
    yield (
        "buffers",
        byte_text(size.physical_bytes)
        + (f", {share_text(padding, size.physical_bytes)} of it padding" if padding else ", no padding"),
    )
    if shape.is_tuple:
        yield "tuple table", byte_text(size.byte_size)


def _dimensions_text(shape: Shape, size: _Size | ShapeSize | None) -> str:
    if not shape.rank:
        return "none: a scalar"
    sizes = [
        str(each) if not dynamic else "?" if each < 0 else f"<={each}"
        for each, dynamic in zip(shape.dimensions, shape.dynamic_dimensions, strict=True)
    ]
    return " × ".join(sizes) + (f": {size.element_count:,} elements" if size else "")


def _layout_text(layout: Layout) -> str:
    order = " ".join(map(str, reversed(layout.minor_to_major)))
    is_default = layout.minor_to_major == Layout.default(len(layout.minor_to_major)).minor_to_major
    parts = [f"dimensions {order} from major to minor" + (", the default order" if is_default else "")]
    if layout.tiles:
        parts.append(f"tiles {''.join(map(str, layout.tiles))}")
    if layout.tail_padding_alignment_in_elements > 1:
        parts.append(f"a multiple of {layout.tail_padding_alignment_in_elements} elements")
    if layout.memory_space:
        parts.append(f"memory space {layout.memory_space}")
    return "; ".join(parts)


@click.command(context_settings=_NUMBERS_AS_ARGUMENTS)
@click.argument("text", metavar="SHAPE|FILE", shell_complete=complete_files)
@click.argument("numbers", metavar="[INSTRUCTION] INDEX...", nargs=-1, required=True, shell_complete=instruction_names)
@click.option(
    "--inverse", is_flag=True, help="INDEX is a position in the buffer; print the index of the element there."
)
@click.option(
    "--unit",
    type=click.Choice(["element", "byte", "bit"]),
    default="element",
    show_default=True,
    help="What positions count; --json has all three.",
)
@target_option
@query_options
def index(
    text: str,
    numbers: tuple[str, ...],
    inverse: bool,
    unit: str,
    target: str | None,
    server: ServerAddress | None,
    timeout: float,
    as_json: bool,
) -> None:
    """The position in the buffer of SHAPE of the element at each INDEX, such as 2,3: a line each. `-` reads indices
    from standard input.

    Of INSTRUCTION in the module in FILE, in the buffer of its result. With --inverse: the index of the element at each
    position, or `padding`.
    """
    if _is_file(text, numbers):
        with naming(text):
            text, numbers = str(_result(loaded(text, server, timeout), numbers[0])), numbers[1:]
        if not numbers:
            raise click.UsageError("Missing argument 'INDEX...': an index such as 2,3 behind the instruction")
    text = text_on_target(text, target)
    given = list(_lines(numbers))
    with _within(timeout) if server is None else connected(server, timeout) as service:
        shape = _parsed(text, ("shapes", 0) if unit != "element" or as_json or not given else ("shape",))
        bits = _bits_of(array_of(shape)) if unit != "element" or as_json else 1
        if unit == "byte" and bits % 8:
            raise InvalidIndexError(f"elements of {bits} bits do not begin at whole bytes: take bits", field="--unit")
        step = {"element": 1, "byte": bits // 8, "bit": bits}[unit]
        rows: list[tuple[tuple[int, ...] | None, int]]
        if not given:  # standard input is empty: the shape is checked, and there is nothing to answer
            rows = []
        elif inverse:
            positions = [_position(argument, unit, step) for argument in given]
            rows = list(zip(_indices(shape, positions, service), positions, strict=True))
        else:
            elements = [numbers_of(argument) for argument in given]
            ragged = next((element for element in elements if len(element) != len(elements[0])), None)
            if ragged is not None:
                raise InvalidIndexError(
                    f"expected {len(elements[0])} numbers in each index, found {len(ragged)} in {_index_text(ragged)}"
                )
            # One index whose numbers were separated by spaces.
            if 1 < len(elements) == shape.rank and len(elements[0]) == 1:
                raise InvalidIndexError(
                    f"expected an index such as {','.join(given)}, found {len(given)} of one number each", field="INDEX"
                )
            rows = list(zip(elements, _positions(shape, elements, service), strict=True))
    if as_json:
        found = [
            {
                "index": None if element is None else list(element),
                "position": position * step,
                "element": position,
                "byte": None if position * bits % 8 else position * bits // 8,
                "bit": position * bits,
            }
            for element, position in rows
        ]
        print_json("index.v1", {"shape": text, "unit": unit, "rows": found})
        return
    for element, position in rows:
        echo(("padding" if element is None else _index_text(element)) if inverse else str(position * step))


def _positions(shape: Shape, elements: list[tuple[int, ...]], service: Client | None) -> list[int]:
    """The positions in the buffer of the elements at indices of equal length, by a server or by this process."""
    if service is not None:
        return service.linear_indices(shape, elements).tolist()
    array, count = array_of(shape), len(elements[0])
    if count != array.rank:
        expected = f"{array.rank or 'no'} number{'s'[: array.rank != 1]}"
        raise InvalidIndexError(f"expected {expected} in an index of {brief(array)}, found {count}", field="indices")
    if len(elements) > _FEW:
        return tiling.linear_indices(array, elements).tolist()
    found: list[int] = []
    for row, element in enumerate(elements):
        try:
            found.append(tiling.linear_index(array, element))
        except XlashapeError as error:
            if error.path[:1] == ("indices",):
                error.path = ("indices", row, *error.path[1:])
            raise
    return found


def _indices(shape: Shape, positions: list[int], service: Client | None) -> list[tuple[int, ...] | None]:
    """The indices of the elements at positions, by a server or by this process; None for padding."""
    if service is None and len(positions) <= _FEW:
        try:
            return [tiling.multi_index(array_of(shape), each) for each in positions]
        except InvalidIndexError:
            pass  # the error about many positions says which of them is wrong
    array = array_of(shape)
    indices, are_elements = (
        tiling.multi_indices(array, positions) if service is None else service.multi_indices(shape, positions)
    )
    pairs = zip(indices.tolist(), are_elements.tolist(), strict=True)
    return [tuple(row) if is_element else None for row, is_element in pairs]


def _is_file(text: str, numbers: tuple[str, ...]) -> bool:
    """Whether the first argument is a module: one that a server keeps, a file, or, if an instruction and an index
    follow, a name without the brackets of a shape.
    """
    if text.startswith("modules/") or Path(text[:1024]).is_file():
        return True
    return len(numbers) > 1 and not any(bracket in text for bracket in "[(") and _INDEX.fullmatch(numbers[0]) is None


def _result(module: HloModule, name: str) -> Shape:
    """The shape of the array that an instruction makes. InvalidShapeError for a tuple."""
    found = module.instruction(name).shape
    if found.is_tuple:
        raise InvalidShapeError(
            f"{name} makes a tuple, {str(found)[:60]}: name an instruction that takes an array out of it",
            field="INSTRUCTION",
        )
    return found


def _lines(arguments: tuple[str, ...]) -> Iterator[str]:
    """The arguments, with the lines of standard input in place of `-`."""
    for argument in arguments:
        if argument == "-":
            yield from (line.strip() for line in sys.stdin if line.strip())
        else:
            yield argument


def numbers_of(text: str, field: str = "INDEX", what: str = "an index") -> tuple[int, ...]:
    """The numbers in text such as `2,3`, with or without parentheses or brackets. InvalidIndexError for other text,
    SizeOverflowError beyond int64; `field` and `what` name the text in the message.
    """
    inner = text.strip()
    if inner[:1] + inner[-1:] in ("()", "[]"):
        inner = inner[1:-1].strip()
        if not inner:
            return ()
    # "(2,)" is how Python writes an index of one number.
    parts = inner.removesuffix(",").split(",")
    if not all(_INTEGER.fullmatch(part) for part in parts):
        raise InvalidIndexError(f"expected {what} such as 2,3, found {text[:60]!r}", field=field)
    return tuple(checked_int64(int(part), f"a number of {field}") for part in parts)


def _position(text: str, unit: str, step: int) -> int:
    """A position in elements from text, which counts in units of which an element has `step`."""
    numbers = numbers_of(text)
    if len(numbers) != 1:
        raise InvalidIndexError(f"expected one position, found {text[:60]!r}", field="INDEX")
    if numbers[0] % step:
        raise InvalidIndexError(
            f"{unit} {numbers[0]} is not where an element begins: elements take {step} {unit}s", field="INDEX"
        )
    return numbers[0] // step


def _index_text(numbers: tuple[int, ...]) -> str:
    return ",".join(map(str, numbers)) or "()"
