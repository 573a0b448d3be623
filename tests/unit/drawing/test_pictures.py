"""`xs.draw`: the cells, labels and colours of pictures of shapes, maps and instructions."""

from __future__ import annotations

import itertools
import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from importlib import resources
from typing import Any

import pytest
from drawn_pictures import ANY, REAL, panels

import xlashape as xs
from xlashape.drawing import draw
from xlashape.drawing.marks import colours
from xlashape.drawing.marks.arrays import thumbnail
from xlashape.drawing.marks.cells import COLORS, LABELS, Grid, Listing, Strip, options_of
from xlashape.errors import (
    InvalidMapError,
    InvalidShapeError,
    NotFoundError,
)
from xlashape.shape import Shape, tiling

SVG = "{http://www.w3.org/2000/svg}"


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


@pytest.mark.parametrize(
    ("asked", "cut"),
    [
        ({"tile": (8, 32)}, "The output ends within the tile: it has 80 of the tile's 256 elements."),
        ({"tile": (2, 2), "at": (9, 9)}, "The output ends within the tile: it has 1 of the tile's 4 elements."),
        ({"warp": 32, "at": (9, 8)}, "The output ends within the warp: it has 2 of the warp's 32 elements."),
        ({"tile": (2, 2), "at": (8, 8)}, None),
        ({"warp": 32}, None),
    ],
)
def test_a_tile_that_the_output_cuts_is_told(asked: dict[str, Any], cut: str | None):
    facts = draw("(d0, d1) -> (d1, d0), domain: d0 in [0, 9], d1 in [0, 9]", **asked).scene.facts
    assert [fact for fact in facts if fact.startswith("The output ends")] == ([] if cut is None else [cut])


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


def test_maps_without_points():
    ET.fromstring(draw(xs.IndexingMap.empty()).svg())
    with pytest.raises(InvalidMapError, match="an undefined map"):
        draw(xs.IndexingMap.undefined())
    lower = draw("(d0) -> (d0 - 5), domain: d0 in [5, 9]")
    assert read_labels(panels(lower, Grid)[1]) == {"0"}
    outside = draw("(d0) -> (d0 - 5), domain: d0 in [0, 9]")
    assert any("lie outside of operand" in note for note in outside.scene.notes)


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


def test_the_path_of_tiles_keeps_off_their_texts():
    """No line of a path crosses the numbers and offsets of tiles, whichever way memory runs."""
    for text in (
        "bf16[8,2048,128]{2,1,0:T(16,128)(2,1)}",
        "f32[2048,2048]{0,1:T(8,128)}",
        "bf16[20,300]{1,0:T(8,128)(2,1)}",
    ):
        picture = draw(text)
        svg = ET.fromstring(picture.svg(data=True))
        for panel in svg.iter(f"{SVG}g"):
            if panel.get("data-panel") != "tiles":
                continue
            boxes = []
            for label in panel.iter(f"{SVG}text"):
                if "xsk" in label.get("class").split() or "xsq" in label.get("class").split():
                    half = len(label.text) * (2.7 if "xsn" in label.get("class") else 3.4)
                    x, y = float(label.get("x")), float(label.get("y"))
                    boxes.append((x - half, y - 8, x + half, y))
            runs = [path.get("d") for path in panel.iter(f"{SVG}path") if path.get("class") == "xsp"]
            assert boxes
            assert runs
            for run in runs:
                for line in run.split("M")[1:]:
                    points = [tuple(map(float, point.split())) for point in line.split("L")]
                    for (x0, y0), (x1, y1) in itertools.pairwise(points):
                        for left, top, right, low in boxes:
                            is_beside = max(x0, x1) < left or min(x0, x1) > right
                            assert is_beside or max(y0, y1) < top or min(y0, y1) > low, (text, line)


def test_texts_of_a_tile_lie_in_its_elements_or_in_its_padding():
    """Of tiles that are partly padding, texts do not lie on the border where there is place beside it."""
    svg = ET.fromstring(draw("bf16[20,300]{1,0:T(8,128)(2,1)}").svg(data=True))
    (panel,) = [each for each in svg.iter(f"{SVG}g") if each.get("data-panel") == "tiles"]
    cells = {each.get("data-i"): each for each in panel.iter(f"{SVG}rect") if each.get("data-i")}
    cell = cells["0,256"]
    border = float(cell.get("x")) + float(cell.get("width")) * 44 / 128
    texts = [each for each in panel.iter(f"{SVG}text") if each.text == "@2048"]
    assert [each.get("class").split()[0] for each in texts] == ["xsq"]
    assert float(texts[0].get("x")) - 2.7 * len("@2048") > border


def test_the_end_of_what_is_read_is_seen():
    """The columns that are shown have the first ones that are read, the last ones, and one that is not read."""
    picture = draw(
        "(d0, d1) -> (d1, d0), domain: d0 in [0, 299], d1 in [0, 299]",
        tile=(8, 128),
        output="f32[300,300]{1,0}",
        operand="f32[300,300]{1,0}",
    )
    output = picture.scene.bands[0][0]
    assert isinstance(output, Grid)
    assert {"0", "126", "127", "128", "299"} <= set(output.column_heads)
    fills = dict(zip(output.column_heads, [cell and cell.fill for cell in output.cells[0]], strict=True))
    assert fills["127"] != colours.BLANK
    assert fills["128"] == colours.BLANK


def test_tiles_and_elements_have_legends_of_their_own_scales():
    texts = [legend.text for legend in draw("bf16[20,300]{1,0:T(8,128)(2,1)}").scene.legends]
    assert "elements: order in memory: position 0 to 1,023" in texts
    assert "tiles: order in memory: position 0 to 8,192" in texts
    assert draw("f32[3,5]{1,0:T(2,2)}").scene.legends[0].text == "order in memory: position 0 to 23"


def test_a_thumbnail_of_a_mostly_empty_tile_shows_its_elements():
    grid = thumbnail(xs.Shape.parse("s32[1024,8,4]{2,1,0:T(8,128)}"), options_of())
    assert grid is not None
    fills = [cell.fill for row in grid.cells for cell in row if cell is not None]
    assert colours.PADDING in fills
    assert sum(fill != colours.PADDING for fill in fills) == 16


def test_attributes_say_index_and_position():
    """The attributes of a picture for scripts are those of tiled indexing."""
    shape = xs.Shape.parse("bf16[20,300]{1,0:T(8,128)(2,1)}")
    svg = ET.fromstring(draw(shape).svg(data=True))
    found = 0
    for panel in svg.iter(f"{SVG}g"):
        for cell in panel.iter(f"{SVG}rect"):
            if cell.get("data-i") is None:
                continue
            found += 1
            index = tuple(map(int, cell.get("data-i").split(",")))
            assert int(cell.get("data-p")) == xs.tiling.linear_index(shape, index)
    assert found > 100
    for text in ("f32[4096,4096]{1,0:T(8,128)}", "f32[8]", "f32[]", "(f32[3], f32[4])", "f6e3m2fn[5,7]{1,0:E(6)}"):
        assert len(draw(text).svg(data=True).encode()) < 200_000
