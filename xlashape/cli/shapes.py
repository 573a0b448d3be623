"""Commands about one shape: `shape`, `index`."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from xlashape.base.math import byte_text, checked_int64
from xlashape.cli.completing import complete_files, instruction_names
from xlashape.cli.connection import ServerAddress, connected, query_options
from xlashape.cli.modules import loaded, naming
from xlashape.cli.output import echo, print_facts, print_json, share_text
from xlashape.errors import InvalidIndexError, InvalidShapeError
from xlashape.shape import Shape, Target, tpu_layout
from xlashape.shape.parts.target import TARGETS
from xlashape.shape.tiling.padding import PaddingReport, padding_report

if TYPE_CHECKING:
    from xlashape.hlo import HloModule
    from xlashape_client.results import ShapeDescription

_INTEGER = re.compile(r"\s*[+-]?[0-9]{1,40}\s*")
_INDEX = re.compile(r"[(]?[-+0-9, ]{1,400}[)]?|-")

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
    return tpu_layout.default_shape(shape, target or "tpu") if is_tpu and (shape.is_array or shape.is_buffer) else shape


@click.command(short_help="The sizes and the layout of a shape.")
@click.argument("text", metavar="SHAPE")
@target_option
@query_options
def shape(text: str, target: str | None, server: ServerAddress | None, timeout: float, as_json: bool) -> None:
    """The sizes and the layout of SHAPE, such as 'f32[3,5]{1,0:T(2,2)}', and how much of its buffer is padding."""
    text = text_on_target(text, target)
    with connected(server, timeout) as service:
        description = service.describe_shape(text)
    if as_json:
        print_json("shape.v1", description_json(description))
    else:
        print_facts(_facts(description))


def description_json(description: ShapeDescription) -> dict[str, Any]:
    """A description as JSON. A value that has no meaning for the shape is null."""
    array = description.shape.is_array
    layout = description.shape.layout if array else None
    return {
        "shape": description.text,
        "element_type": description.shape.element_type.text,
        "dimensions": list(description.shape.dimensions) if array else None,
        "dynamic_dimensions": list(description.shape.dynamic_dimensions) if array else None,
        "minor_to_major": list(layout.minor_to_major) if layout is not None else None,
        "tiles": [list(tile.dimensions) for tile in layout.tiles] if layout is not None else None,
        "element_bits": description.element_bits if array else None,
        "memory_space": description.memory_space if array else None,
        "leaf_count": description.leaf_count,
        "is_static": description.is_static,
        "padding": _padding_json(padding_report(description.shape)) if array and description.size else None,
        "size": description.size._asdict() | {"padding_bytes": description.size.padding_bytes}
        if description.size
        else None,
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


def _facts(description: ShapeDescription) -> Iterator[tuple[str, object]]:
    yield "shape", description.text
    if description.shape.is_array:
        bits = f"{description.element_bits} bits in memory" if description.element_bits else "of unknown width"
        yield "element type", f"{description.shape.element_type}, {bits}"
        yield "dimensions", _dimensions_text(description)
        if description.shape.layout is not None and description.shape.rank:
            yield "layout", _layout_text(description)
    elif description.shape.is_tuple:
        yield "leaves", description.leaf_count
    if description.size is None:
        is_unbounded = description.shape.is_unbounded_dynamic
        reason = "a dynamic dimension has no bound" if is_unbounded else "the width of an element type is not known"
        yield "size", f"unknown: {reason}"
        return
    if description.shape.is_array:
        yield from padding_report(description.shape).facts()
        return
    yield "elements", byte_text(description.size.logical_bytes)
    padding = description.size.padding_bytes
    yield (
        "buffers",
        byte_text(description.size.physical_bytes)
        + (f", {share_text(padding, description.size.physical_bytes)} of it padding" if padding else ", no padding"),
    )
    if description.shape.is_tuple:
        yield "tuple table", byte_text(description.size.byte_size)


def _dimensions_text(description: ShapeDescription) -> str:
    if not description.shape.rank:
        return "none: a scalar"
    sizes = [
        str(size) if not dynamic else "?" if size < 0 else f"<={size}"
        for size, dynamic in zip(description.shape.dimensions, description.shape.dynamic_dimensions, strict=True)
    ]
    return (
        f"{' × '.join(sizes)}: {description.size.element_count:,} elements" if description.size else " × ".join(sizes)
    )


def _layout_text(description: ShapeDescription) -> str:
    layout = description.shape.layout
    assert layout is not None
    order = " ".join(map(str, reversed(layout.minor_to_major)))
    tiles = "".join(map(str, layout.tiles))
    parts = [
        f"dimensions {order} from major to minor" + (", the default order" if description.is_major_to_minor else "")
    ]
    if tiles:
        parts.append(f"tiles {tiles}")
    if layout.tail_padding_alignment_in_elements > 1:
        parts.append(f"a multiple of {layout.tail_padding_alignment_in_elements} elements")
    if description.memory_space:
        parts.append(f"memory space {description.memory_space}")
    return "; ".join(parts)


@click.command(
    short_help="The positions of elements in a buffer, or the elements at positions.",
    context_settings=_NUMBERS_AS_ARGUMENTS,
)
@click.argument("text", metavar="SHAPE|FILE", shell_complete=complete_files)
@click.argument("numbers", metavar="[INSTRUCTION] INDEX...", nargs=-1, required=True, shell_complete=instruction_names)
@click.option(
    "--inverse", is_flag=True, help="INDEX is a position in the buffer; print the index of the element there."
)
@click.option("--bytes", "in_bytes", is_flag=True, help="Positions count bytes, not elements.")
@target_option
@query_options
def index(
    text: str,
    numbers: tuple[str, ...],
    inverse: bool,
    in_bytes: bool,
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
    with connected(server, timeout) as service:
        element_bits = service.describe_shape(text).element_bits if in_bytes else 8
        if element_bits % 8:
            raise InvalidIndexError(f"elements of {element_bits} bits do not begin at whole bytes", field="--bytes")
        step = element_bits // 8
        rows: list[tuple[tuple[int, ...] | None, int]]
        if not given:  # standard input is empty: the shape is checked, and there is nothing to answer
            service.describe_shape(text)
            rows = []
        elif inverse:
            positions = [_position(argument, step) for argument in given]
            indices, are_elements = service.multi_indices(text, positions)
            rows = [
                (tuple(row) if is_element else None, position)
                for row, is_element, position in zip(indices.tolist(), are_elements.tolist(), positions, strict=True)
            ]
        else:
            elements = [numbers_of(argument) for argument in given]
            ragged = next((element for element in elements if len(element) != len(elements[0])), None)
            if ragged is not None:
                raise InvalidIndexError(
                    f"expected {len(elements[0])} numbers in each index, found {len(ragged)} in {_index_text(ragged)}"
                )
            # One index whose numbers were separated by spaces.
            if 1 < len(elements) == Shape.parse(text).rank and len(elements[0]) == 1:
                raise InvalidIndexError(
                    f"expected an index such as {','.join(given)}, found {len(given)} of one number each", field="INDEX"
                )
            rows = list(zip(elements, service.linear_indices(text, elements).tolist(), strict=True))
    if as_json:
        found = [
            {"index": None if element is None else list(element), "position": position * step}
            for element, position in rows
        ]
        print_json("index.v1", {"shape": text, "unit": "byte" if in_bytes else "element", "rows": found})
        return
    for element, position in rows:
        echo(("padding" if element is None else _index_text(element)) if inverse else str(position * step))


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


def _position(text: str, step: int) -> int:
    """A position in elements from text, which counts in units of which an element has `step`."""
    numbers = numbers_of(text)
    if len(numbers) != 1:
        raise InvalidIndexError(f"expected one position, found {text[:60]!r}", field="INDEX")
    if numbers[0] % step:
        raise InvalidIndexError(
            f"byte {numbers[0]} is not where an element begins: elements take {step} bytes", field="INDEX"
        )
    return numbers[0] // step


def _index_text(numbers: tuple[int, ...]) -> str:
    return ",".join(map(str, numbers)) or "()"
