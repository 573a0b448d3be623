"""What modules, parts of them and reports show in a notebook: their facts, small, escaped, without colours of their own
for text."""

from __future__ import annotations

import re
import subprocess
import sys
from html.parser import HTMLParser
from importlib import resources

import pytest

import xlashape as xs
from xlashape.indexing import module_reads, operand_reads, output_to_input

MODULE = resources.files("xlashape.data").joinpath("attention.hlo.pb")
TEXT = """HloModule m
ENTRY e {
  p = f32[64,20]{1,0:T(8,128)} parameter(0), metadata={op_name="<script>alert(3)</script>"}
  ROOT t = f32[20,64] transpose(p), dimensions={1,0}
}
"""
HOSTILE = "\"'><script>alert(1)</script><img src=x onerror=alert(2)>"


class _Reader(HTMLParser):
    """The tags in their order, whether each is closed, and the text."""

    def __init__(self, html):
        super().__init__()
        self.tags, self.open, self.text = set(), [], ""
        self.attributes = set()
        self.feed(html)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.attributes.update(name for name, _ in attrs)
        self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.add(tag)
        self.attributes.update(name for name, _ in attrs)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data


def hostile():
    proto = xs.HloModule.parse(TEXT).to_proto()
    proto.name = proto.computations[0].name = HOSTILE
    for number, instruction in enumerate(proto.computations[0].instructions):
        instruction.name = f"{HOSTILE}.{number}"
    return xs.HloModule.from_proto(proto)


def things(module):
    root = module.entry.root
    return [
        module,
        module.entry,
        root,
        module.table(),
        xs.why(module),
        xs.why(root),
        xs.reads(module),
        operand_reads(root)[0],
        next(iter(module_reads(module))),
        operand_reads(root),
        output_to_input(root)[0].simplify()[0].map,
    ]


@pytest.mark.parametrize("number", range(11))
@pytest.mark.parametrize("which", ["attention", "hostile"])
def test_it_is_small_and_well_formed_and_escaped(which, number):
    thing = things(hostile() if which == "hostile" else xs.HloModule.load(str(MODULE)))[number]
    html = thing._repr_html_()
    assert len(html) < 25_000
    found = _Reader(html)
    assert found.open == []
    assert not found.tags & {"script", "img", "iframe", "link"}
    assert not any(name.startswith("on") or name in ("src", "href") for name in found.attributes)
    # Text has the colour of the page.
    assert not re.search(r"(?<![-\w])color\s*:", re.sub(r"<svg.*?</svg>|<style.*?</style>", "", html, flags=re.DOTALL))


def test_a_module_shows_what_it_holds():
    module = xs.HloModule.load(str(MODULE))
    text = _Reader(module._repr_html_()).text
    count = len(list(module.instructions()))
    assert f"{count} instructions in {len(module.computations)} computations" in text
    assert all(parameter.name in text for parameter in module.entry.parameters)
    text = _Reader(module.instruction("transpose_copy_fusion.1")._repr_html_()).text
    assert "wrapped_convert.1" in text
    assert "262,144 bytes (256.00 KiB)" in text
    assert "<svg" in module.instruction("transpose_copy_fusion.1")._repr_html_()
    text = _Reader(module.entry._repr_html_()).text
    assert f"ROOT {module.entry.root.name}" in text


def test_reports_show_their_numbers():
    memory = xs.why("s32[1024,8,4]{2,1,0:T(8,128)}")
    text = _Reader(memory._repr_html_()).text
    assert "tile (8,128) pads dimension 2 from 4 to 128: 32 times as much" in text
    assert "<svg" in memory._repr_html_()
    report = xs.reads(TEXT)
    text = _Reader(report._repr_html_()).text
    assert all(part in text for part in ("tiles of the operand", "32.0 KiB", "unused"))
    module = xs.why(xs.HloModule.parse(TEXT), target="tpu")
    assert "on tpu" in _Reader(module._repr_html_()).text
    assert "elements" in _Reader(xs.why("(f32[], f32[3,5])")._repr_html_()).text
    assert "2 arrays" in _Reader(xs.why("an f32[3,5] and an s8[7]")._repr_html_()).text


def test_what_is_not_known_is_said():
    module = xs.HloModule.parse("HloModule m ENTRY e { p = f32[?] parameter(0) ROOT n = f32[?] negate(p) }")
    for thing in (module, module.entry, module.entry.root, module.table(), xs.reads(module)):
        assert _Reader(thing._repr_html_()).open == []
    assert "unbounded" in xs.why(module)._repr_html_()


@pytest.mark.parametrize(
    "text",
    [
        "(d0, d1) -> (d1, d0), domain: d0 in [0, 7], d1 in [0, 4]",
        "(d0, d1)[s0] -> (d0, s0), domain: d0 in [0, 63], d1 in [0, 63], s0 in [0, 63]",
        "(d0) -> (d0 / 128, d0 mod 128), domain: d0 in [0, 100000]",
        "(d0, d1, d2) -> (d2 / 2, d0 * 3, d1), domain: d0 in [0, 63], d1 in [5, 63], d2 in [0, 12]",
    ],
)
def test_a_map_shows_what_a_tile_of_its_output_reads(text):
    html = xs.IndexingMap.parse(text)._repr_html_()
    assert html.count("<svg") == 2
    assert len(html) < 25_000
    found = _Reader(html)
    assert found.open == []
    assert "output" in found.text
    assert "operand" in found.text
    assert text.partition(", domain")[0] in found.text


@pytest.mark.parametrize(
    "text",
    [
        "() -> (), domain:",
        "(d0) -> (), domain: d0 in [0, 3]",
        "(d0) -> (d0), domain: d0 in [0, -1]",
        "(d0)[s0] -> (d0, s0), domain: d0 in [0, 9], s0 in [0, 1000000000]",
        "(d0) -> (d0), domain: d0 in [0, 9223372036854775806]",
    ],
)
def test_a_map_without_a_picture_is_text(text):
    parsed = xs.IndexingMap.parse(text)
    found = _Reader(parsed._repr_html_())
    assert found.open == []
    assert str(parsed).partition(", domain")[0] in found.text


def test_reads_show_the_elements_that_a_warp_reads():
    html = operand_reads(xs.HloModule.parse(TEXT).entry.root)._repr_html_()
    assert html.count("<svg") == 2
    text = _Reader(html).text
    assert all(part in text for part in ("100.0%", "128", "the first 32 elements of the output"))
    module = xs.HloModule.load(str(MODULE))
    text = _Reader(xs.reads(module)._repr_html_()).text
    assert re.search(r"instructions +16operands", text)
    assert "transpose_copy_fusion.1" in text


def test_a_shape_loads_no_modules():
    script = (
        "import sys, xlashape as xs; assert xs.Shape.parse('f32[3]')._repr_html_(); "
        "assert not [name for name in sys.modules if name.startswith(('xlashape.hlo', 'xlashape.indexing', "
        "'xlashape.reports.why'))]"
    )
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)
