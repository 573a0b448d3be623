"""The picture says of every element where it lies, and of every place what it holds."""

import re
import xml.etree.ElementTree as ET

import pytest

from xlashape import drawing
from xlashape.errors import InvalidShapeError, LimitExceededError
from xlashape.shape import Shape, tiling

SVG = "{http://www.w3.org/2000/svg}"


def cells(text):
    """(label, whether hatched as padding) of every cell, in drawing order."""
    root = ET.fromstring(text)
    groups = [g for g in root.iter(f"{SVG}g") if (g.get("class") or "").startswith("cell")]
    return [(g.find(f"{SVG}text").text or "", g.find(f"{SVG}rect").get("fill") == "url(#padding)") for g in groups]


@pytest.mark.parametrize(
    "text",
    [
        "f32[]",
        "f32[7]{0}",
        "f32[3,5]{1,0:T(2,2)}",
        "bf16[2,4,8]{2,1,0:T(2,4)(2,1)}",
        "s4[3,3]{0,1:L(8)E(4)}",
        "f32[2,2,2,3]{0,1,2,3}",
        "f32[2,3,2]{2,1,0:T(*,2)}",
    ],
)
def test_every_element_and_every_place_is_there(text):
    shape = Shape.parse(text)
    size, elements = tiling.physical_elements(shape), 1
    for dimension in shape.dimensions:
        elements *= dimension
    drawn = cells(drawing.svg(shape))
    assert len(drawn) == elements + size
    places = drawn[elements:]
    for position, (label, padding) in enumerate(places):
        index = tiling.multi_index(shape, position)
        assert padding == (index is None)
        assert label == ("" if index is None else ",".join(map(str, index)) or "()")
    assert sorted(int(label) for label, _ in drawn[:elements]) == [
        p for p, (_, padding) in enumerate(places) if not padding
    ]


def test_the_first_panel_stands_in_reading_order():
    labels = [label for label, _ in cells(drawing.svg(Shape.parse("f32[3,5]{1,0:T(2,2)}")))[:15]]
    assert labels == ["0", "1", "4", "5", "8", "2", "3", "6", "7", "10", "12", "13", "16", "17", "20"]


def test_an_empty_array_is_a_picture_without_cells():
    assert cells(drawing.svg(Shape.parse("f32[0,3]{1,0}"))) == []


def test_the_title_is_the_shape_and_is_escaped():
    shape = Shape.parse("f32[<=2]{0}")
    text = drawing.svg(shape)
    assert "f32[&lt;=2]{0}" in text
    assert re.search(r'width="\d+" height="\d+"', text)


@pytest.mark.parametrize("text", ["token[]", "(f32[2]{0})"])
def test_only_arrays_are_drawn(text):
    with pytest.raises(InvalidShapeError, match="only arrays can be drawn"):
        drawing.svg(Shape.parse(text))


def test_a_picture_nobody_could_read_is_refused():
    with pytest.raises(LimitExceededError, match="cells drawn: 1048576 is more than 16384"):
        drawing.svg(Shape.parse("f32[1024,1024]{1,0}"))


def test_an_unbounded_dimension_is_refused():
    with pytest.raises(InvalidShapeError):
        drawing.svg(Shape.parse("f32[?]"))
