"""Writes docs/gallery.md and its pictures in docs/gallery/.

    python docs/generate_gallery.py

A test runs `page()` and `pictures()` and compares.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib import resources
from pathlib import Path
from typing import Any, NamedTuple

import xlashape as xs
from xlashape.drawing import Picture

PAGE = Path(__file__).with_name("gallery.md")
FOLDER = Path(__file__).with_name("gallery")


class Figure(NamedTuple):
    """A picture of the page: the name of its file, what it shows, and the call that makes it."""

    name: str
    text: str
    call: str
    make: Callable[[], Picture]


class Part(NamedTuple):
    """A part of the page."""

    title: str
    text: str
    figures: tuple[Figure, ...]


def _figure(name: str, text: str, subject: str, **options: Any) -> Figure:
    arguments = [
        repr(subject).replace("'", '"'),
        *[f"{key}={value!r}".replace("'", '"') for key, value in options.items()],
    ]
    return Figure(name, text, _call(arguments), lambda: xs.draw(subject, **options))


def _call(arguments: list[str]) -> str:
    """A call of `xs.draw`, in lines of 120 characters as ruff breaks them."""
    joined = ", ".join(arguments)
    if len(joined) <= 111:
        return f"xs.draw({joined})"
    if len(joined) <= 116:
        return f"xs.draw(\n    {joined}\n)"
    return "\n".join(["xs.draw(", *[f"    {argument}," for argument in arguments], ")"])


def _reads(name: str, text: str, instruction: str, **options: Any) -> Figure:
    def make() -> Picture:
        module = xs.HloModule.load(str(resources.files("xlashape.data") / "attention.hlo.pb"))
        return xs.draw(module.instruction(instruction), **options)

    arguments = [f'module.instruction("{instruction}")', *[f"{key}={value!r}" for key, value in options.items()]]
    return Figure(name, text, _call(arguments), make)


PARTS = (
    Part(
        "The figures of XLA's documentation",
        "XLA's page on [tiled layouts](https://openxla.org/xla/tiled_layout) explains tiles with these arrays.",
        (
            _figure(
                "tile",
                "Tiles of 2 × 2. Element (2, 3) lies at position 17: four tiles of four elements lie before its tile, "
                "and it is the second element "
                "there. Three tiles reach beyond the array; the positions there are padding.",
                "f32[3,5]{1,0:T(2,2)}",
            ),
            _figure(
                "row_major", "The same array without tiles: rows follow each other, nothing is padded.", "f32[3,5]{1,0}"
            ),
            _figure("column_major", "From minor to major: columns follow each other.", "f32[3,5]{0,1}"),
            _figure(
                "repeated",
                "A second tile cuts each first tile. With (2,1), two rows lie interleaved.",
                "f32[4,8]{1,0:T(2,4)(2,1)}",
            ),
            _figure(
                "bf16",
                "What TPUs do with bf16: two rows interleaved, so that the pair of elements in a 32-bit word comes "
                "from neighbouring rows. The tiles "
                "at the right and at the bottom are partly padding.",
                "bf16[20,300]{1,0:T(8,128)(2,1)}",
            ),
            _figure(
                "combine",
                "A `*` merges its dimension into the next more minor one before the tile applies: 2 × 7 × 8 becomes "
                "112 rows, 11 × 10 becomes 110 "
                "columns.",
                "f32[2,7,8,11,10]{4,3,2,1,0:T(*,*,2,*,3)}",
            ),
        ),
    ),
    Part(
        "Why a buffer is large",
        "",
        (
            _figure(
                "padding",
                "Four of 128 columns hold elements: the buffer is 32 times as large as what it holds.",
                "s32[1024,8,4]{2,1,0:T(8,128)}",
            ),
            _figure(
                "one_dimension",
                "A tile that is longer than the array adds an axis: one row of eight holds elements.",
                "f32[300]{0:T(8,128)}",
            ),
        ),
    ),
    Part(
        "Packed elements",
        "",
        (
            _figure(
                "packed",
                "Two elements of four bits in a byte, the first in its low-order bits; with (4,1), a 32-bit word holds "
                "two columns of four rows.",
                "s4[64,256]{1,0:T(8,128)(4,1)E(4)}",
            ),
            _figure("six_bits", "Elements of six bits begin in the middle of bytes.", "f6e3m2fn[5,7]{1,0:E(6)}"),
        ),
    ),
    Part(
        "Parts of large arrays",
        "",
        (
            _figure(
                "large",
                "512 × 32 tiles, one of them opened around the element that `at` names.",
                "f32[4096,4096]{1,0:T(8,128)}",
                at=(1000, 2000),
            ),
            _figure(
                "window",
                "A window of rows and columns, across the borders of tiles.",
                "f32[4096,4096]{1,0:T(8,128)}",
                rows="4:12",
                columns="122:134",
                color="tile",
            ),
            _figure(
                "slices",
                "More than two dimensions: a panel for each slice.",
                "f32[2,2,4,6]{3,2,1,0:T(2,4)}",
            ),
            _figure(
                "tuple",
                "A tuple as a list.",
                "(bf16[20,300]{1,0:T(8,128)(2,1)}, (s32[1024,8,4]{2,1,0:T(8,128)}, token[]), "
                "f32[16,128]{0,1:T(8,128)}, f32[6,9])",
            ),
        ),
    ),
    Part(
        "Colours and labels",
        "Colours show the order of memory if nothing else is chosen. They can be told apart with any kind of colour "
        "vision.",
        (
            _figure(
                "banks",
                "A column of a row-major array of 32 columns lies in one bank of shared memory: 16 threads that read "
                "it wait for each other.",
                "f32[16,32]{1,0}",
                columns="0:16",
                color="bank",
                label="bank",
            ),
            _figure(
                "segments",
                "Which elements one transaction of 128 bytes fetches.",
                "f32[16,48]{1,0}",
                columns="24:40",
                color="segment",
                label="segment",
            ),
            _figure(
                "rows",
                "The elements of a row, and where they lie in memory.",
                "bf16[8,16]{1,0:T(4,8)(2,1)}",
                color="row",
                label="index",
            ),
        ),
    ),
    Part(
        "Before and after",
        "",
        (
            _figure(
                "relayout",
                "A buffer before and after its layout changes: an element keeps its colour.",
                "bf16[8,12]{1,0}",
                after="bf16[8,12]{1,0:T(4,4)(2,1)}",
            ),
        ),
    ),
    Part(
        "What operations read",
        "",
        (
            _figure(
                "convolution",
                "A map that has range variables: one output of a window of 3 × 3 reads nine elements.",
                "(d0, d1)[s0, s1] -> (d0 + s0, d1 + s1), domain: d0 in [0, 9], d1 in [0, 11], s0 in [0, 2], s1 in [0, "
                "2]",
                at=(4, 5),
                operand="f32[12,14]{1,0:T(4,8)}",
            ),
            _figure(
                "transpose",
                "What a tile of 2 × 4 of a transposed array reads, on the operand's tiled layout.",
                "(d0, d1) -> (d1, d0), domain: d0 in [0, 299], d1 in [0, 19]",
                tile=(2, 4),
                at=(126, 6),
                output="bf16[300,20]{1,0:T(8,128)(2,1)}",
                operand="bf16[20,300]{1,0:T(8,128)(2,1)}",
            ),
            _figure(
                "transposed_warp",
                "What a warp of 32 neighbouring outputs of a transposed array reads: a column of the operand.",
                "(d0, d1) -> (d1, d0), domain: d0 in [0, 127], d1 in [0, 63]",
                warp=32,
                output="f32[128,64]{1,0}",
                operand="f32[64,128]{1,0}",
            ),
            _reads(
                "warp",
                "A fusion of a module: 32 neighbouring outputs read 32 elements of one column. Each lies in a memory "
                "segment of its own.",
                "transpose_copy_fusion.1",
                warp=32,
            ),
        ),
    ),
)


def figures() -> Iterator[Figure]:
    """All figures of the page."""
    for part in PARTS:
        yield from part.figures


def pictures() -> dict[str, str]:
    """The content of each picture by the name of its file."""
    return {f"{figure.name}.svg": figure.make().svg() for figure in figures()}


def page() -> str:
    """The text of the page."""
    lines = [
        "# Gallery",
        "",
        "Pictures of layouts and of what operations read. `xs.draw(…)` makes them in Python, `xlashape draw` on the "
        "command line. They follow the",
        "reader's setting of light or dark.",
        "",
        "Generated by docs/generate_gallery.py; a test checks that the page and its pictures are up to date.",
        "",
    ]
    for part in PARTS:
        lines += [f"## {part.title}", ""]
        if part.text:
            lines += [part.text, ""]
        for figure in part.figures:
            lines += [
                figure.text,
                "",
                "```python",
                figure.call,
                "```",
                "",
                f"![{_alt(figure)}](gallery/{figure.name}.svg)",
                "",
            ]
    return "\n".join(lines).rstrip() + "\n"


def _alt(figure: Figure) -> str:
    return figure.text.split(".")[0].split(":")[0].replace("[", "").replace("]", "")


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    content = pictures()
    for path in FOLDER.glob("*.svg"):
        if path.name not in content:
            path.unlink()
    for name, text in content.items():
        (FOLDER / name).write_text(text, encoding="utf-8")
    PAGE.write_text(page(), encoding="utf-8")
