"""The picture of a program's memory: geometry against the plan, and what files hold."""

from __future__ import annotations

import gzip
import json
import re
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from xlashape.drawing import draw
from xlashape.drawing.memory_map import KINDS, MemoryPicture
from xlashape.errors import InvalidArgumentError, InvalidModuleError, UnsupportedError
from xlashape.hlo import HloModule
from xlashape.proto import xla
from xlashape.reports.memory import memory

VECTORS = Path(__file__).resolve().parents[2] / "vectors" / "memory"
DUMPS = sorted(VECTORS.glob("*.hlo.pb*"))
HOSTILE = """HloModule hostile
ENTRY e {
  p = f32[64,64] parameter(0)
  a = f32[64,64] negate(p), metadata={op_name="</script><img src=x onerror=alert(1)>" source_file="x<y>.py" source_line=3}
  ROOT b = f32[64,64] exponential(a)
}
"""


def pictures():
    for path in DUMPS:
        yield path.name, memory(path)
    yield "estimate", memory(HloModule.parse(HOSTILE))


@pytest.mark.parametrize(
    ("name", "report"), list(pictures()), ids=lambda value: value if isinstance(value, str) else ""
)
def test_values_that_live_at_once_do_not_overlap(name, report):
    found = draw(report).map
    step = report.peak_step
    live = sorted(
        (each.bottom, each.bottom + each.buffer.bytes)
        for each in found.rectangles
        if each.buffer.begin <= step <= each.buffer.end
    )
    assert sum(end - begin for begin, end in live) == report.peak_bytes
    if name == "estimate" or found.is_placed_here:
        assert all(first[1] <= second[0] for first, second in pairwise(live))
    assert all(0 <= each.bottom and each.bottom + each.buffer.bytes <= found.height for each in found.rectangles)
    assert {each.buffer.kind for each in found.rectangles} <= set(KINDS)


def test_the_page_holds_its_data_and_asks_no_network():
    picture = draw(memory(HloModule.parse(HOSTILE)))
    assert isinstance(picture, MemoryPicture)
    page = picture.html()
    assert "<img" not in page
    assert not re.search(r"(src|href)\s*=|https?://|import\(|fetch\(", page.replace("src=x", ""))
    data = json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.S)[1])
    assert len(data["rows"]) == len(picture.map.rectangles)
    assert max(data["totals"]) == data["totals"][data["peak"]] == memory(HloModule.parse(HOSTILE)).peak_bytes
    assert "</script><img src=x onerror=alert(1)>" in data["texts"]


def test_svg_text_and_png(tmp_path):
    picture = draw(memory(HloModule.parse(HOSTILE)))
    assert picture.svg().startswith("<svg xmlns=")
    assert "<img" not in picture.svg()
    assert "▲" in picture.text()
    assert picture._repr_html_().count("<svg") == 1
    for name in ("m.svg", "m.html", "m.txt", "m.png"):
        picture.save(tmp_path / name)
        assert (tmp_path / name).stat().st_size > 100
    with pytest.raises(InvalidArgumentError, match="theme: expected auto, light or dark"):
        draw(memory(HloModule.parse(HOSTILE)), theme="blue")
    with pytest.raises(UnsupportedError, match="the picture of the memory of .* has no scene"):
        _ = picture.scene


def test_names_with_characters_that_are_not_printed():
    module = HloModule.parse("HloModule m ENTRY e { p = f32[4] parameter(0) ROOT n = f32[4] negate(p) }").proto
    module.name = "m\x07\u202e"
    for each in module.computations[0].instructions:
        each.name = each.metadata.op_name = f"{each.name}\x1b[31m\x00\ufffe\u202e"
    picture = draw(memory(HloModule.from_proto(module)))
    ET.fromstring(picture.svg())
    assert picture.png().startswith(b"\x89PNG")
    for text in (picture.svg(), picture.html(), picture.text(), picture.title):
        assert not set("\x00\x07\x1b\ufffe\u202e") & set(text)


def test_a_large_program_keeps_its_svg_small():
    lines = "\n".join(
        f"  n{number} = f32[{number % 7 + 1},1024] broadcast(c), dimensions={{}}" for number in range(3_000)
    )
    tuple_ = ", ".join(f"n{number}" for number in range(3_000))
    shapes = ", ".join(f"f32[{number % 7 + 1},1024]" for number in range(3_000))
    module = HloModule.parse(
        f"HloModule big\nENTRY e {{\n  c = f32[] parameter(0)\n{lines}\n  ROOT t = ({shapes}) tuple({tuple_})\n}}\n"
    )
    picture = draw(memory(module))
    assert len(picture.svg()) < 700_000
    assert "The 1,500 largest of 3," in picture.svg()
    assert len(gzip.compress(picture.html().encode())) < 200_000


def test_the_page_says_why_values_are_padded():
    text = "HloModule m ENTRY e { p = f32[64,3]{1,0:T(8,128)} parameter(0) ROOT n = f32[64,3]{1,0:T(8,128)} negate(p) }"
    page = draw(memory(HloModule.parse(text))).html()
    data = json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.S)[1])
    assert {data["texts"][row[-1]].partition(":")[0] for row in data["rows"]} == {
        "tile (8,128) pads dimension 1 from 3 to 128"
    }


def test_a_value_behind_the_end_of_its_allocation():
    proto = xla.BufferAssignmentProto()
    proto.logical_buffers.add(id=1, size=64).defined_at.instruction_name = "n"
    proto.buffer_allocations.add(index=3, size=64).assigned.add(logical_buffer_id=1, offset=64, size=64)
    proto.heap_simulator_traces.add().events.add(kind="ALLOC", buffer_id=1)
    answer = memory(proto)
    assert answer.peak_bytes == 64  # as XLA, which counts no offsets
    with pytest.raises(InvalidModuleError, match="'n' is 64 bytes behind the beginning of allocation 3, which has 64"):
        draw(answer)
