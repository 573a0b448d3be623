"""Files of pictures: SVG, HTML, PNG and text are well-formed, escaped, small and written whole."""

from __future__ import annotations

import re
import struct
import sys
import xml.etree.ElementTree as ET
import zlib
from pathlib import Path

import pytest
from drawn_pictures import ANY, panels
from hypothesis import given, reject, settings
from hypothesis import strategies as st

import xlashape as xs
from xlashape.drawing import draw
from xlashape.drawing.marks import colours
from xlashape.drawing.marks.cells import COLORS, LABELS, Grid
from xlashape.drawing.writers import panels as writer
from xlashape.errors import (
    InvalidArgumentError,
    LimitExceededError,
    UnavailableError,
    XlashapeError,
)
from xlashape.shape import COMBINE, Layout, Shape, tiling


@settings(max_examples=60, derandomize=True, deadline=None)
@given(st.sampled_from(ANY), st.sampled_from(COLORS), st.sampled_from(LABELS), st.booleans())
def test_pictures_are_well_formed(text: str, color: str, label: str, path: bool) -> None:
    svg = draw(text, color=color, label=label, path=path).svg()
    ET.fromstring(svg)
    assert len(svg.encode()) < 200_000


@pytest.mark.parametrize(
    "text",
    ["f32[1000,1000]", "f32[2,1000,1000]", "f32[4,4,4,4,4,4,1000,1000]", "c128[9,900,900]{0,1,2:T(2,2)}", "s4[9000]"],
)
@pytest.mark.parametrize("label", LABELS)
def test_large_windows_are_small_files(text: str, label: str) -> None:
    rows = None if "," not in text else "0:1000" if "1000" in text else "0:900"
    picture = draw(text, rows=rows, columns="0:900", label=label)
    for data in (False, True):
        svg = picture.svg(data=data)
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
        with pytest.raises(InvalidArgumentError, match="scale: expected a number above 0"):
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
    monkeypatch.setattr("xlashape.base.extras.find_spec", lambda name: None)
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
        ("x.pdf", "expected the extension .svg, .html, .png or .txt, found '.pdf'"),
        ("x.sgv", "found '.sgv': did you mean '.svg'?"),
        ("x", "not a file without an extension, 'x'"),
        ("x.svg.gz", "found '.gz'"),
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


def test_a_picture_follows_the_readers_theme():
    shape = "f32[3,5]{1,0:T(2,2)}"
    assert "prefers-color-scheme:dark" in draw(shape).svg()
    assert "prefers-color-scheme:dark" in draw(shape).html()
    assert "prefers-color-scheme" not in draw(shape, theme="dark").svg()
    assert writer.DARK["ground"] in draw(shape, theme="dark").svg()
    assert writer.DARK["ground"] not in draw(shape, theme="light").svg()


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


def test_names_of_classes_differ_without_their_case():
    """A page without a doctype does not tell the case of class names apart."""
    names = set(
        re.findall(r"\.(xs\w+)", writer.style_sheet([*colours.SCALE, colours.READ, colours.BLANK], "auto", "root"))
    )
    assert len({name.lower() for name in names}) == len(names) > 20
