"""`xs.draw`: what each form of a picture holds, how large it is, and what is refused."""

from __future__ import annotations

import itertools
import math
import re
import struct
import subprocess
import sys
import xml.etree.ElementTree as ET
import zlib
from importlib import resources
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st

import xlashape as xs
from xlashape.drawing import Picture, draw
from xlashape.drawing.marks import colours
from xlashape.drawing.marks.options import COLORS, LABELS
from xlashape.drawing.marks.scene import Grid, Listing, Strip
from xlashape.drawing.writers import style
from xlashape.errors import (
    InvalidArgumentError,
    InvalidIndexError,
    InvalidMapError,
    InvalidShapeError,
    LimitExceededError,
    NotFoundError,
    ParseError,
    UnavailableError,
    UnsupportedError,
    XlashapeError,
)
from xlashape.shape import COMBINE, Layout, Shape, tiling

SVG = "{http://www.w3.org/2000/svg}"

REAL = [
    "bf16[20,300]{1,0:T(8,128)(2,1)}",
    "s32[1024,8,4]",
    "s32[1024,8,4]{2,1,0:T(8,128)}",
    "f32[4096,4096]{1,0:T(8,128)}",
    "s4[64,256]{1,0:T(8,128)(4,1)E(4)}",
]
ANY = [
    *REAL,
    "f32[]",
    "f32[]{:T(128)}",
    "f32[0]",
    "f32[0,3]{1,0:T(8,128)}",
    "f32[7]{0}",
    "f32[1000]{0:T(1024)}",
    "f32[300]{0:T(8,128)}",
    "f32[1000000,1000000]",
    "f32[1000000,1000000]{0,1:T(8,128)}",
    "pred[2147483647,2147483647]{0,1}",
    "f32[2,3,4,5,6,7]{5,4,3,2,1,0}",
    "bf16[2,3,4,5,16,256]{5,4,3,2,1,0:T(8,128)(2,1)}",
    "f32[2,3,2]{2,1,0:T(*,2)}",
    "f32[2,7,8,11,10]{4,3,2,1,0:T(*,*,2,*,3)}",
    "f32[<=8,<=200]{1,0:T(8,128)M(8)}",
    "s4[3,3]{0,1:L(8)E(4)}",
    "s1[40]{0:E(1)}",
    "f6e3m2fn[5,7]{1,0:E(6)}",
    "f64[9,9]{0,1:L(100)}",
    "c128[1,1,1]{2,1,0}",
    "f32[8,8]{1,0:T(2,4)(2,1,1)}",
    "f32[16,16]{1,0:T(4,8)(3,1)}",
    "f32[512,512]{1,0:SC(0:256)}",
    "b(f32[20,300]{1,0:T(8,128)})",
    "()",
    "token[]",
    "(f32[2], (s32[1024,8,4]{2,1,0:T(8,128)}, token[]), f32[?], b(f32[4]))",
]


def cells(picture: Picture) -> list[tuple[object, object]]:
    """(label, fill) of every cell of the grids, in drawing order."""
    grids = [panel for band in picture.scene.bands for panel in band if isinstance(panel, Grid)]
    return [(cell.label, cell.fill) for grid in grids for row in grid.cells for cell in row if cell is not None]


def panels(picture: Picture, kind: type) -> list:
    return [panel for band in picture.scene.bands for panel in band if isinstance(panel, kind)]


@pytest.mark.parametrize("text", ANY)
def test_every_form_of_every_picture(text):
    picture = draw(text)
    svg = picture.svg()
    assert len(svg.encode()) < 200_000
    root = ET.fromstring(svg)
    assert root.tag == f"{SVG}svg"
    width, height = float(root.get("width")), float(root.get("height"))
    assert 0 < width < 1500
    assert 0 < height < 6000
    page = picture.html()
    assert page.startswith("<!DOCTYPE html>")
    assert str(Shape.parse(text))[:60].replace("<", "&lt;") in page
    assert picture.text().strip()
    assert repr(picture).startswith("<Picture of ")


@pytest.mark.parametrize("text", REAL)
@pytest.mark.parametrize("width", [40, 80, 100, 200])
@pytest.mark.parametrize("color", ["none", "256", "full"])
def test_lines_of_a_terminal_are_not_broken(text, width, color):
    lines = re.sub(r"\x1b\[[0-9;]*m", "", draw(text).text(color, width)).splitlines()
    tables = [line for line in lines if "│" in line or "┊" in line or "⋯" in line]
    assert tables
    assert max(map(len, tables)) <= max(width, 60)
    assert ("\x1b[" in draw(text).text(color, width)) == (color != "none")


@pytest.mark.parametrize("color", COLORS)
@pytest.mark.parametrize("label", LABELS)
def test_every_color_with_every_label(color, label):
    for text in ("bf16[20,300]{1,0:T(8,128)(2,1)}", "f32[64,64]", "s4[5]{0:E(4)}"):
        picture = draw(text, color=color, label=label)
        ET.fromstring(picture.svg())
        assert len(picture.svg()) < 200_000


def test_the_figure_of_a_small_tiled_array():
    """XLA's documentation: f32[3,5] with tiles of 2 × 2."""
    picture = draw("f32[3,5]{1,0:T(2,2)}")
    (grid,) = panels(picture, Grid)
    assert [[cell.label for cell in row] for row in grid.cells] == [
        ["0", "1", "4", "5", "8", "9"],
        ["2", "3", "6", "7", "10", "11"],
        ["12", "13", "16", "17", "20", "21"],
        ["14", "15", "18", "19", "22", "23"],
    ]
    padding = {cell.label for row in grid.cells for cell in row if cell.fill == colours.PADDING}
    assert padding == {"9", "11", "21", "14", "15", "18", "19", "22", "23"}
    (strip,) = panels(picture, Strip)
    held = [cell.cell.label for row in strip.rows for cell in row.cells]
    shape = Shape.parse("f32[3,5]{1,0:T(2,2)}")
    indices = [tiling.multi_index(shape, position) for position in range(24)]
    assert held == ["" if index is None else ",".join(map(str, index)) for index in indices]


def test_two_rows_lie_interleaved():
    """XLA's documentation on repeated tiling: f32[4,8] with T(2,4)(2,1)."""
    (grid,) = panels(draw("f32[4,8]{1,0:T(2,4)(2,1)}"), Grid)
    assert [[int(cell.label) for cell in row] for row in grid.cells] == [
        [0, 2, 4, 6, 8, 10, 12, 14],
        [1, 3, 5, 7, 9, 11, 13, 15],
        [16, 18, 20, 22, 24, 26, 28, 30],
        [17, 19, 21, 23, 25, 27, 29, 31],
    ]


def test_a_word_of_packed_elements_down_to_its_bits():
    (strip,) = panels(draw("s4[64,256]{1,0:T(8,128)(4,1)E(4)}"), Strip)
    word = strip.rows[0].cells
    assert [cell.cell.label for cell in word] == ["0,0", "1,0", "2,0", "3,0", "0,1", "1,1", "2,1", "3,1"]
    assert [(cell.bit, cell.bits) for cell in word] == [(4 * i, 4) for i in range(8)]
    assert "bits 4–7 of byte 0" in word[1].cell.tip
    assert strip.row_bits == 32


def test_tiles_beside_one_opened_tile():
    tiles, elements = panels(draw("bf16[20,300]{1,0:T(8,128)(2,1)}", at=(19, 299)), Grid)
    assert tiles.style == "tile"
    assert [[cell.label for cell in row] for row in tiles.cells] == [["0", "1", "2"], ["3", "4", "5"], ["6", "7", "8"]]
    assert tiles.cells[2][2].used == (0.5, 44 / 128)
    assert [cell.label for row in tiles.cells for cell in row if cell.is_marked] == ["8"]
    marked = [cell for row in elements.cells for cell in row if cell is not None and cell.is_marked]
    assert [cell.label for cell in marked] == [
        str(tiling.linear_index(Shape.parse("bf16[20,300]{1,0:T(8,128)(2,1)}"), (19, 299)))
    ]
    assert "index (19, 299) ↔ position 8,535" in marked[0].tip


def test_a_window():
    (grid,) = panels(draw("f32[1000,1000]", rows="100:103", columns=range(7, 9)), Grid)
    assert grid.row_heads == ("100", "101", "102")
    assert grid.column_heads == ("7", "8")
    assert [[cell.label for cell in row] for row in grid.cells] == [
        ["100007", "100008"],
        ["101007", "101008"],
        ["102007", "102008"],
    ]
    ET.fromstring(draw("f32[1000,1000]", rows=(0, 900), columns=(0, 900)).svg())
    assert len(draw("f32[1000,1000]", rows=(0, 900), columns=(0, 900)).svg()) < 200_000


def test_slices_of_more_than_two_dimensions():
    titles = [panel.title for panel in panels(draw("f32[2,2,2,3]"), Grid)]
    assert titles == [f"[{i}, {j}, :, :]: positions" for i in range(2) for j in range(2)]
    titles = [panel.title for panel in panels(draw("s32[1024,8,4]{2,1,0:T(8,128)}", at=(700, 1, 2)), Grid)]
    assert any(title.startswith("[700, :, :]: tiles of 8 × 128") for title in titles)
    assert titles[-1] == "[700, :, :]: positions in tile 700"


def test_a_tuple_is_a_list():
    (listing,) = panels(draw("(f32[2], (s32[1024,8,4]{2,1,0:T(8,128)}, token[]))"), Listing)
    assert [(row.path, row.text) for row in listing.rows] == [
        ("{0}", "f32[2]{0}"),
        ("{1,0}", "s32[1024,8,4]{2,1,0:T(8,128)}"),
        ("{1,1}", "token[]"),
    ]
    assert listing.rows[1].facts == ("4,194,304 bytes (4.00 MiB), 96.9 % padding",)
    many = draw(Shape.tuple([Shape.parse("f32[8,128]{1,0:T(8,128)}")] * 5000))
    assert len(many.svg()) < 200_000
    assert "4,960 more" in many.svg()


def test_an_element_keeps_its_colour_when_the_layout_changes():
    before, after = Shape.parse("bf16[8,8]{1,0}"), Shape.parse("bf16[8,8]{0,1:T(4,4)}")
    first, second = panels(draw(before, after=after), Grid)
    colour = {cell.key: cell.fill for row in first.cells for cell in row}
    assert len(colour) == 64
    assert {cell.key: cell.fill for row in second.cells for cell in row} == colour
    assert [int(cell.label) for row in second.cells for cell in row] == [
        tiling.linear_index(after, (i, j)) for i in range(8) for j in range(8)
    ]
    with pytest.raises(InvalidShapeError, match="an array keeps its dimensions"):
        draw(before, after="bf16[8,9]")


def read_labels(grid: Grid) -> set[str]:
    return {cell.label for row in grid.cells for cell in row if cell is not None and cell.fill != colours.BLANK}


def test_what_a_map_reads():
    picture = draw("(d0, d1) -> (d1, d0), domain: d0 in [0, 3], d1 in [0, 7]", tile=(2, 3), operand="f32[8,4]{0,1}")
    output, operand = panels(picture, Grid)
    assert read_labels(output) == {"0", "1", "2", "8", "9", "10"}
    shape = Shape.parse("f32[8,4]{0,1}")
    assert read_labels(operand) == {str(tiling.linear_index(shape, (j, i))) for i in range(2) for j in range(3)}
    assert picture.scene.facts == (
        "6 outputs read 6 elements of operand, in 1 segment of 128 bytes (at least 1 needed).",
    )


def test_what_an_instruction_reads_is_what_its_map_says():
    module = xs.HloModule.load(resources.files("xlashape.data") / "attention.hlo.pb")
    fusion = module.instruction("transpose_copy_fusion.1")
    picture = draw(fusion, warp=32)
    assert picture.scene.facts == (
        "32 outputs read 32 elements of wrapped_convert.1, in 32 segments of 128 bytes (at least 1 needed).",
    )
    (reads,) = xs.indexing.output_to_input(fusion)
    at = (1, 2, 3, 4)
    (one,) = panels(draw(fusion, at=at, operand=0), Grid)[-1:]
    source = fusion.operands[0].shape
    assert read_labels(one) == {str(tiling.linear_index(source, reads.map.evaluate(at)))}
    for instruction in module.entry.instructions:
        svg = draw(instruction, warp=8).svg()
        ET.fromstring(svg)
        assert len(svg) < 200_000
    with pytest.raises(NotFoundError, match="has no operand 3"):
        draw(fusion, operand=3)
    with pytest.raises(NotFoundError, match="has no output 1"):
        draw(fusion, output=1)


@settings(max_examples=60, derandomize=True, deadline=None)
@given(st.sampled_from(ANY), st.sampled_from(COLORS), st.sampled_from(LABELS), st.booleans())
def test_pictures_are_well_formed(text: str, color: str, label: str, path: bool) -> None:
    svg = draw(text, color=color, label=label, path=path).svg()
    ET.fromstring(svg)
    assert len(svg.encode()) < 200_000


@pytest.mark.parametrize("text", ANY)
def test_a_page_needs_nothing_from_elsewhere(text):
    page = draw(text).html()
    assert not re.search(r"https?:|//[a-z]|\bsrc=|\bhref=|@import|url\((?!#)", page, re.IGNORECASE)


def test_a_page_shows_index_and_position():
    page = draw("f32[3,5]{1,0:T(2,2)}").html()
    assert 'data-t="index (2, 3) ↔ position 17 · bytes 68–71 · tile 4" data-k="17"' in page
    assert page.count('data-k="17"') == 2  # in the array and in memory


def hostile(name: str) -> xs.HloInstruction:
    text = "HloModule m ENTRY e { p = f32[4] parameter(0) ROOT r = f32[4] negate(p) }"
    proto = xs.HloModule.parse(text).to_proto()
    proto.computations[0].instructions[0].name = name
    return xs.HloModule.from_proto(proto).entry.root


@pytest.mark.parametrize(
    "name",
    ["</svg><script>alert(1)</script>", "a&b<c>\"d'", "\x00\x1b[31m\x07\x08", "￾x", "p" * 5000, "]]>", "é漢字🙂"],
)
def test_hostile_names_are_text(name):
    picture = draw(hostile(name))
    ET.fromstring(picture.svg())
    assert "<script>alert" not in picture.html()
    assert "<script>alert" not in picture._repr_html_()
    assert "\x1b" not in picture.text()
    assert len(picture.svg()) < 200_000


def pixels(data: bytes) -> bytes:
    """The bytes of an image, decompressed: two images with different pixels differ."""
    at, content = 8, b""
    while at < len(data):
        (length,) = struct.unpack(">I", data[at : at + 4])
        if data[at + 4 : at + 8] == b"IDAT":
            content += data[at + 8 : at + 8 + length]
        at += 12 + length
    return zlib.decompress(content)


def test_an_image_is_a_png_of_the_scale(tmp_path):
    picture = draw("f32[3,5]{1,0:T(2,2)}")
    data = picture.png(scale=1)
    assert data.startswith(b"\x89PNG\r\n\x1a\n")
    size = struct.unpack(">II", data[16:24])
    assert struct.unpack(">II", picture.png(scale=2)[16:24]) == (2 * size[0], 2 * size[1])
    assert pixels(data) != pixels(draw("f32[3,5]{1,0:T(2,2)}", theme="dark").png(scale=1))
    picture.save(tmp_path / "x.png")
    assert not (tmp_path / "x.png").read_bytes().startswith(b"<svg")
    for scale in (0, -1, 9, float("nan"), True, "2"):
        with pytest.raises(InvalidArgumentError, match="scale is above 0"):
            picture.png(scale=scale)


def test_an_image_of_too_many_pixels():
    with pytest.raises(LimitExceededError, match="pixels of the image"):
        draw("f32[4,64,64,256]{3,2,1,0:T(16,8,128)}").png(scale=8)


def test_an_image_without_the_renderer_or_without_fonts(tmp_path, monkeypatch):
    picture = draw("f32[3]")
    import resvg_py

    monkeypatch.setattr(resvg_py, "svg_to_bytes", lambda **options: b"empty")
    with pytest.raises(UnavailableError, match="needs a monospace font"):
        picture.png()
    monkeypatch.setitem(sys.modules, "resvg_py", None)
    monkeypatch.setattr("xlashape.extras.find_spec", lambda name: None)
    with pytest.raises(UnavailableError, match=r"needs the renderer resvg.*pip install 'xlashape\[png\]'"):
        picture.save(tmp_path / "x.png")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("name", "start"),
    [("x.svg", "<svg "), ("x.SVG", "<svg "), ("x.html", "<!DOCTYPE"), ("x.htm", "<!DOCTYPE"), ("x.txt", "f32[3]")],
)
def test_the_extension_decides(tmp_path, name, start):
    draw("f32[3]").save(tmp_path / name)
    assert (tmp_path / name).read_text(encoding="utf-8").startswith(start)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("x.pdf", "a picture is saved as .svg, .html, .png or .txt, not '.pdf'"),
        ("x.sgv", "not '.sgv': did you mean '.svg'?"),
        ("x", "not a file without an extension, 'x'"),
        ("x.svg.gz", "not '.gz'"),
    ],
)
def test_other_extensions_are_refused(tmp_path, name, message):
    with pytest.raises(
        InvalidArgumentError, match=re.escape(message) if "'x'" not in message else "without an extension"
    ):
        draw("f32[3]").save(tmp_path / name)
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_cannot_be_written_is_refused(tmp_path, monkeypatch):
    with pytest.raises(InvalidArgumentError, match="cannot write '.*x.svg': No such file or directory"):
        draw("f32[3]").save(tmp_path / "nowhere" / "x.svg")
    (tmp_path / "x.txt").write_text("old")
    monkeypatch.setattr(Path, "replace", lambda *_: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    with pytest.raises(InvalidArgumentError, match="No space left on device"):
        draw("f32[3]").save(tmp_path / "x.txt")
    assert [path.name for path in tmp_path.iterdir()] == ["x.txt"] and (tmp_path / "x.txt").read_text() == "old"


def test_an_array_that_has_no_shape_is_told_why():
    with pytest.raises(InvalidArgumentError, match="no element type corresponds to NumPy's <U1"):
        draw(np.array(["a"]))


def test_one_element_is_in_the_singular():
    assert "\n1 element of f32, 32 bits.\n" in draw("f32[]").text()
    assert "\n1 × 3 elements of f32, 32 bits each." in draw("f32[1,3]").text()


@pytest.mark.parametrize(
    ("arguments", "options", "error", "message"),
    [
        ("f32[?]", {}, InvalidShapeError, "unbounded"),
        ("f32[3", {}, ParseError, "line 1"),
        ("(d0) -> (d1)", {}, XlashapeError, "d1"),
        ("f32[3]", {"at": (3,)}, InvalidIndexError, "outside dimension 0"),
        ("f32[3]", {"at": (1, 2)}, InvalidIndexError, "takes an index of 1 number"),
        ("f32[3]", {"at": "12"}, InvalidArgumentError, "at takes an index"),
        ("f32[3]", {"at": 7}, InvalidArgumentError, "at takes an index"),
        (
            "f32[3]",
            {"color": "rainbow"},
            InvalidArgumentError,
            "color is memory, tile, row, bank or segment, not 'rainbow'",
        ),
        ("f32[3]", {"color": 3}, InvalidArgumentError, "color is memory"),
        ("f32[3]", {"label": "indx"}, InvalidArgumentError, "did you mean 'index'"),
        ("f32[3]", {"rows": "0:2"}, InvalidArgumentError, "an array of one axis has no rows"),
        ("f32[3,4]", {"rows": "9:12"}, InvalidArgumentError, "rows 9:12 lie outside the axis, which has 3"),
        ("f32[3,4]", {"banks": 0}, InvalidArgumentError, "banks is from 1"),
        ("f32[3,4]", {"segment_bytes": True}, InvalidArgumentError, "segment_bytes"),
        ("f32[3,4]", {"theme": "blue"}, InvalidArgumentError, "theme is auto, light or dark"),
        ("f32[3,4]", {"tile": (1, 2)}, InvalidArgumentError, "tile is for maps and instructions"),
        ("f32[0,3]", {"at": (0, 0)}, InvalidIndexError, "outside dimension 0"),
        ("(f32[3], f32[4])", {"at": (0,)}, InvalidArgumentError, "at is for arrays"),
        ("(f32[3], f32[4])", {"rows": "0:1"}, InvalidArgumentError, "rows is for arrays"),
        ("(d0) -> (d0), domain: d0 in [0, 9]", {"columns": "0:1"}, InvalidArgumentError, "columns is for shapes"),
        ("f32[3,4]", {"after": 3}, InvalidArgumentError, "after takes a shape"),
        ("(d0) -> (d0), domain: d0 in [0, 9]", {"after": "f32[3]"}, InvalidArgumentError, "only a shape"),
        ("(d0) -> (d0), domain: d0 in [0, 9]", {"tile": (2,), "warp": 3}, InvalidArgumentError, "a tile or a warp"),
        ("(d0) -> (d0), domain: d0 in [0, 9]", {"warp": 0}, InvalidArgumentError, "1 output or more"),
        ("(d0) -> (d0), domain: d0 in [0, 9]", {"tile": (0,)}, InvalidArgumentError, "sizes of 1 or more"),
        ("(d0) -> (d0), domain: d0 in [0, 9]", {"operand": "f32[3,3]"}, InvalidMapError, "operand has 1 dimensions"),
        (
            "(d0)[s0] -> (s0), domain: d0 in [0, 9], s0 in [0, 99999], s0 mod 3 in [0, 1]",
            {},
            LimitExceededError,
            "reads that are drawn: 100000 is more than 16384, and they form no tile",
        ),
        (
            "(d0) -> (d0), domain: d0 in [0, 999999]",
            {"warp": 999999},
            LimitExceededError,
            "of the output that are drawn",
        ),
    ],
)
def test_what_is_refused(arguments, options, error, message):
    with pytest.raises(error, match=message):
        draw(arguments, **options)


@pytest.mark.parametrize("subject", [3, None, b"f32[3]", object(), {1, 2}])
def test_other_subjects_are_refused(subject):
    with pytest.raises(
        InvalidArgumentError, match="draw takes a shape, a layout, an array, an indexing map or an instr"
    ):
        draw(subject)


def test_a_module_is_no_subject_and_its_instructions_are():
    module = xs.HloModule.parse("ENTRY e { ROOT p = f32[4] parameter(0) }")
    with pytest.raises(InvalidArgumentError, match=r"not HloModule: name one of its instructions, `module.instruction"):
        draw(module)
    assert draw(module.entry.root).title == "p (parameter)"


def test_arrays_are_drawn_by_their_shapes():
    assert draw(np.zeros((3, 5), np.float32)).title == "f32[3,5]{1,0}"
    assert draw(("bf16", (8, 128))).title == "bf16[8,128]{1,0}"


def test_sparse_and_unknown_types_are_refused():
    with pytest.raises(UnsupportedError, match="sparse: only dense arrays can be drawn"):
        draw(Shape.array("f32", [4, 4], Layout((1, 0), physical_shape=Shape.parse("f32[9]"))))
    with pytest.raises(UnsupportedError):
        draw(Shape.from_proto(b"\x10\x4d\x1a\x01\x04"))


def test_a_tile_of_a_matrix_product_reads_boxes():
    """Millions of reads are not enumerated."""
    text = """
    ENTRY e {
      a = bf16[4096,512]{1,0:T(8,128)(2,1)} parameter(0)
      b = bf16[512,2048]{1,0:T(8,128)(2,1)} parameter(1)
      ROOT c = bf16[4096,2048]{1,0:T(8,128)(2,1)} dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}
    }"""
    picture = draw(xs.HloModule.parse(text).entry.root, tile=(128, 256), at=(256, 512))
    assert picture.scene.facts == (
        "32,768 outputs read 65,536 elements of a in 16,777,216 reads.",
        "32,768 outputs read 131,072 elements of b in 16,777,216 reads.",
    )
    ET.fromstring(picture.svg())
    tiles = {panel.title.split(" ")[0]: panel for panel in panels(picture, Grid) if panel.style == "tile"}
    for name, rows, columns in (
        ("output", (256, 384), (512, 768)),
        ("a", (256, 384), (0, 512)),
        ("b", (0, 512), (512, 768)),
    ):
        panel = tiles[name]
        seen = 0
        for head, row in zip(panel.row_heads, panel.cells, strict=True):
            for column, cell in zip(panel.column_heads, row, strict=True):
                if cell is not None:
                    at = int(head.split("–")[0]), int(column.split("–")[0])
                    inside = rows[0] <= at[0] < rows[1] and columns[0] <= at[1] < columns[1]
                    assert (cell.fill == colours.READ) == inside
                    seen += inside
        assert seen
    everything = draw("(d0)[s0] -> (s0), domain: d0 in [0, 9], s0 in [0, 99999999]")
    assert everything.scene.facts == ("1 output reads 100,000,000 elements of operand.",)


def test_pictures_of_many_parts_stay_small():
    parameters = " ".join(f"p{i} = f32[9,9,20,300]{{3,2,1,0:T(8,128)}} parameter({i})" for i in range(40))
    names = ",".join(f"p{i}" for i in range(40))
    text = f"ENTRY e {{ {parameters} ROOT c = f32[360,9,20,300] concatenate({names}), dimensions={{0}} }}"
    picture = draw(xs.HloModule.parse(text).entry.root, tile=(100, 9, 2, 3))
    assert len(picture.svg().encode()) < 200_000
    assert len(picture.html().encode()) < 1_000_000
    assert any("34 more operands are read" in note for note in picture.scene.notes)
    for shape in (Shape.array("f32", [1] * 2990 + [2] * 10), Shape.array("f32", [1] * 500, None, [True] * 500)):
        assert len(draw(shape).svg()) < 60_000
        assert len(shape._repr_html_()) < 20_000
    deep = Shape.parse("f32[2]")
    for _ in range(75):
        deep = Shape.tuple([deep])
    assert len(draw(deep).svg()) < 60_000


def test_maps_without_points():
    ET.fromstring(draw(xs.IndexingMap.empty()).svg())
    with pytest.raises(InvalidMapError, match="an undefined map"):
        draw(xs.IndexingMap.undefined())
    lower = draw("(d0) -> (d0 - 5), domain: d0 in [5, 9]")
    assert read_labels(panels(lower, Grid)[1]) == {"0"}
    outside = draw("(d0) -> (d0 - 5), domain: d0 in [0, 9]")
    assert any("lie outside of operand" in note for note in outside.scene.notes)


def test_every_text_on_a_cell_has_a_contrast_of_4_5():
    for fill in (*colours.SCALE, *colours.PALETTE, colours.BLANK):
        assert colours.contrast("#000000", colours.hex_of(fill)) >= 4.5
    assert colours.contrast("#333333", colours.hex_of(colours.PADDING)) >= 4.5
    assert colours.contrast("#333333", "#b3b3ab") >= 4.5  # the hatching
    for page in (style.LIGHT, style.DARK):
        for name in ("text", "muted"):
            assert colours.contrast(page[name], page["ground"]) >= 4.5


def test_a_picture_follows_the_readers_theme():
    shape = "f32[3,5]{1,0:T(2,2)}"
    assert "prefers-color-scheme:dark" in draw(shape).svg()
    assert "prefers-color-scheme:dark" in draw(shape).html()
    assert "prefers-color-scheme" not in draw(shape, theme="dark").svg()
    assert style.DARK["ground"] in draw(shape, theme="dark").svg()
    assert style.DARK["ground"] not in draw(shape, theme="light").svg()


def test_pictures_in_one_page_share_no_ids():
    first, second = (draw(text)._repr_html_() for text in ("f32[3,5]{1,0:T(2,2)}", "f32[3,5]{1,0:T(2,4)}"))
    ids = [set(re.findall(r'id="([^"]+)"', text)) for text in (first, second)]
    assert ids[0] and ids[1] and not ids[0] & ids[1]
    assert set(re.findall(r"url\(#([^)]+)\)", first)) == ids[0]


def test_a_notebook_is_given_a_picture():
    bundle = draw("f32[3]")._repr_mimebundle_()
    assert bundle["text/plain"] == "<Picture of f32[3]{0}>"
    assert bundle["text/html"].startswith("<div ")
    ET.fromstring(bundle["image/svg+xml"])


@pytest.mark.parametrize("text", ANY)
def test_shapes_and_layouts_show_themselves_in_notebooks(text):
    shape = Shape.parse(text)
    values = [shape] + ([shape.layout] if shape.is_array and shape.layout is not None else [])
    for value in values:
        html = value._repr_html_()
        assert html.startswith("<div")
        assert len(html) < 20_000
        ET.fromstring(html)


def test_maps_show_themselves_in_notebooks():
    html = xs.IndexingMap.parse("(d0) -> (d0 mod 4), domain: d0 in [0, 31]")._repr_html_()
    ET.fromstring(html)
    assert "(d0) -&gt; (d0 mod 4)" in html
    for value in (xs.IndexingMap.undefined(), xs.IndexingMap.empty()):
        ET.fromstring(value._repr_html_())


def test_showing_a_shape_loads_drawing_and_nothing_before():
    script = (
        "import sys, xlashape as xs; s = xs.Shape.parse('f32[3,5]'); assert 'xlashape.drawing' not in sys.modules; "
        "assert s._repr_html_(); assert 'xlashape.drawing' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)


@st.composite
def any_shape(draw: st.DrawFn) -> Shape:
    """Arrays of any size and rank, most of them far larger than a picture."""
    rank = draw(st.integers(0, 6))
    dimensions = [draw(st.one_of(st.integers(0, 5), st.integers(0, 300), st.integers(0, 10**6))) for _ in range(rank)]
    sizes = st.sampled_from([1, 2, 3, 4, 8, 16, 100, 128, 1024, COMBINE])
    tiles = [
        [*draw(st.lists(sizes, max_size=3)), draw(st.sampled_from([1, 2, 4, 5, 128, 2048]))]
        for _ in range(draw(st.integers(0, 3)))
    ]
    kind, bits = draw(st.sampled_from([("f32", 0), ("s4", 4), ("s4", 0), ("f6e3m2fn", 6), ("c128", 0), ("pred", 0)]))
    layout = Layout(
        draw(st.permutations(range(rank))), tiles, draw(st.sampled_from([1, 1, 1000])), element_size_in_bits=bits
    )
    try:
        shape = Shape.array(kind, dimensions, layout)
        tiling.physical_bytes(shape)
    except XlashapeError:
        reject()
    return shape


@settings(max_examples=250, derandomize=True, deadline=None)
@given(any_shape(), st.data())
def test_any_array_is_a_small_well_formed_picture(shape: Shape, data: st.DataObject) -> None:
    at = None
    if 0 not in shape.dimensions and data.draw(st.booleans()):
        at = [data.draw(st.integers(0, size - 1)) for size in shape.dimensions]
    picture = draw(shape, at=at, color=data.draw(st.sampled_from(COLORS)), label=data.draw(st.sampled_from(LABELS)))
    ET.fromstring(picture.svg())
    assert len(picture.svg().encode()) < 200_000
    picture.text(width=data.draw(st.integers(1, 300)))
    # Every cell that is shown says what tiling says.
    for panel in panels(picture, Grid):
        if panel.style != "element":
            continue
        for cell in [cell for row in panel.cells for cell in row if cell is not None]:
            index = tiling.multi_index(shape, cell.order)
            assert (cell.fill == colours.PADDING) == (index is None)
            told = f"index ({', '.join(map(str, index))})" if index is not None else "padding"
            assert cell.tip.startswith(f"{told} ↔ position {cell.order:,} · ")
    if at is not None:
        assert any(cell.is_marked for panel in panels(picture, Grid) for row in panel.cells for cell in row if cell)


def test_a_large_array_has_colours_that_differ():
    """Colours follow the order of what is shown, so that a few rows of a million are not all alike."""
    (grid,) = panels(draw("f32[1000000,1000000]"), Grid)
    assert len({row[0].fill for row in grid.cells if row[0] is not None}) > 8


def test_fills_can_be_told_apart_without_colour_vision():
    """Machado, Oliveira and Fernandes (2009): the colours as people without one kind of cone see them."""
    seen_with = {
        "all cones": [[1, 0, 0], [0, 1, 0], [0, 0, 1]],
        "no long": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
        "no medium": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
        "no short": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
    }
    for cones, matrix in seen_with.items():
        palette = [_lab(fill, matrix) for fill in colours.PALETTE]
        for a, b in itertools.pairwise(palette):
            assert math.dist(a, b) > 12, f"neighbours of the palette, {cones}"
        for a, b in itertools.combinations(palette, 2):
            assert math.dist(a, b) > 5, f"the palette, {cones}"
        scale = [_lab(fill, matrix)[0] for fill in colours.SCALE]
        assert scale == sorted(scale, reverse=True), f"the scale becomes darker, {cones}"
        assert scale[0] - scale[-1] > 25


def _lab(fill: int, matrix: list[list[float]]) -> tuple[float, float, float]:
    """Lightness and the two opponent colours (CIELAB) of a fill, seen through a matrix on linear RGB."""
    channels = [c / 255 for c in colours.rgb_of(fill)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    seen = [min(1.0, max(0.0, sum(m * c for m, c in zip(row, linear, strict=True)))) for row in matrix]
    to_xyz = [[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]
    white = [0.9505, 1.0, 1.089]
    x, y, z = [sum(m * c for m, c in zip(row, seen, strict=True)) / w for row, w in zip(to_xyz, white, strict=True)]
    f = [t ** (1 / 3) if t > 0.008856 else 7.787 * t + 16 / 116 for t in (x, y, z)]
    return 116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])
