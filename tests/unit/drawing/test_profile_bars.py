"""The picture of a profile: bars against its rows, marks against least times, and what files hold."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from xspace_writer import Event, Plane, modules, xspace

import xlashape as xs
from xlashape.drawing import draw
from xlashape.drawing.profile_bars import MOST_BARS, ProfilePicture
from xlashape.errors import InvalidArgumentError, UnsupportedError
from xlashape.reports.profile import profile

VECTORS = Path(__file__).resolve().parents[2] / "vectors" / "profiles"
SVG = "{http://www.w3.org/2000/svg}"


def _profile(count: int, source: str = "train.py", **roof):
    """A profile of `count` copies, of which the number i takes i + 1 microseconds; the first has no known
    instruction."""
    lines = [f'  c.{number} = f32[64,64]{{0,1}} copy(p), metadata={{source_file="{source}" source_line={number + 1}}}' for number in range(1, count)]  # fmt: skip
    text = "\n".join(lines)
    module = xs.HloModule.parse(
        f"HloModule m\nENTRY e {{\n  p = f32[64,64] parameter(0)\n{text}\n  ROOT r = f32[64,64] negate(p)\n}}\n"
    )
    plane = Plane("/device:GPU:0")
    events: list[Event] = []
    start = 0
    for number in range(count):
        duration = (number + 1) * 1_000_000
        stats = {"hlo_op": f"c.{number}", "hlo_module": "m", "program_id": 7}
        events.append(Event(plane.kind(f"k{number}"), start, duration, stats))
        start += duration
    plane.line("Stream #1", events)
    return profile(xspace([plane, modules({"m(7)": module.to_bytes()})]), **roof)


def _bars(picture):
    """(width of the bar, distance of the mark or None, texts) of each row of the SVG."""
    root = ET.fromstring(picture.svg())
    found = []
    for group in root.iter(f"{SVG}g"):
        _, bar = group.findall(f"{SVG}rect")
        mark = group.find(f"{SVG}line")
        begin = float(bar.get("x"))
        texts = [each.text or "" for each in group.findall(f"{SVG}text")]
        found.append((float(bar.get("width")), None if mark is None else float(mark.get("x1")) - begin, texts))
    return found


def test_bars_are_as_long_as_times_and_marks_as_least_times():
    report = _profile(5, peak=1e12, bandwidth=1e10)
    picture = draw(report)
    assert isinstance(picture, ProfilePicture)
    found = _bars(picture)
    unit = found[0][0] / report.rows[0].self_time
    assert len(found) == len(report.rows) == 5
    for (width, mark, texts), row in zip(found, report.rows, strict=True):
        assert width == pytest.approx(row.self_time * unit, abs=0.01)
        assert texts[:2] == [row.name, row.source] and f"{100 * row.share:.1f}%" in texts
        if row.least_time is None:
            assert mark is None and row.name == "c.0"
        else:
            # 2 · 64 · 64 · 4 bytes at 10 GB/s
            assert row.least_time == pytest.approx(3.2768e-6)
            assert mark == pytest.approx(min(row.least_time * unit, found[0][0]), abs=0.01)
    assert [row.name for row in report.rows] == ["c.4", "c.3", "c.2", "c.1", "c.0"]


def test_without_a_target_there_are_no_marks():
    picture = draw(_profile(3))
    assert all(mark is None for _, mark, _ in _bars(picture))
    assert "Least times are not known" in picture.facts[1]
    assert "░" not in picture.text() and "▒" not in picture.text()


@pytest.mark.parametrize(("count", "bars"), [(MOST_BARS, MOST_BARS), (MOST_BARS + 1, MOST_BARS + 1), (300, MOST_BARS + 1)])  # fmt: skip
def test_the_shortest_instructions_are_one_bar(count, bars):
    report = _profile(count, peak=1e12, bandwidth=1e12)
    picture = draw(report)
    assert len(picture.bars) == bars == len(_bars(picture))
    assert sum(bar.time for bar in picture.bars) == pytest.approx(report.time)
    assert sum(bar.share for bar in picture.bars) == pytest.approx(1)
    if count == 300:
        last = picture.bars[-1]
        assert last.name == "260 more instructions" and last.time == pytest.approx(sum(range(1, 261)) * 1e-6)
        assert last.least is None  # that of one of them is not known
        assert len(picture.svg()) < 40_000


def test_the_text_is_full_up_to_the_least_time():
    lines = draw(_profile(5, peak=1e12, bandwidth=1e10)).text(width=80).splitlines()
    assert max(map(len, lines)) <= 80
    bars = {line.split()[0]: line for line in lines if line.startswith("c.")}
    for number in (1, 2):
        assert "█" in bars[f"c.{number}"] and "▒" not in bars[f"c.{number}"]  # least times above the times
    full, above = bars["c.4"].count("█"), bars["c.4"].count("▒")
    assert full / (full + above) == pytest.approx(3.2768 / 5, abs=1 / (full + above))
    assert "█" not in bars["c.0"] and "░" in bars["c.0"]


@pytest.mark.parametrize("name", sorted(path.name for path in VECTORS.glob("*")if not path.name.endswith(".json")))  # fmt: skip
def test_real_profiles_have_pictures(name):
    report = profile(VECTORS / name)
    picture = draw(report)
    assert [bar.name for bar in picture.bars] == [row.name for row in report.rows]
    assert len(_bars(picture)) == len(report.rows)
    assert all(len(line) <= 72 for line in picture.text(width=72).splitlines()[3:])


def test_names_of_a_profile_are_escaped():
    report = _profile(3, source="</script><img src=x onerror=alert(1)>")
    for text in (draw(report).svg(), draw(report).html()):
        assert "<img" not in text and "&lt;img" in text
        assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)|<script", text)
    plane = Plane("/device:GPU:0")
    plane.line("Stream #1", [Event(plane.kind("k"), 0, 5, {"hlo_op": "a\x00\x1b<b>", "hlo_module": "m\x07"})])
    picture = draw(profile(xspace([plane])))
    assert picture.bars[0].name == "a��<b>"
    ET.fromstring(picture.svg())
    assert "\x1b" not in picture.text()


def test_files_themes_and_a_profile_without_instructions(tmp_path):
    report = _profile(3, target="h100")
    picture = draw(report)
    for name in ("p.svg", "p.html", "p.txt", "p.png"):
        picture.save(tmp_path / name)
        assert (tmp_path / name).stat().st_size > 100
    assert "prefers-color-scheme:dark" in picture.svg() and picture.facts[1].startswith(
        "The mark is the least time on h100"
    )
    assert "prefers-color-scheme" not in draw(report, theme="dark").html()
    with pytest.raises(InvalidArgumentError, match="theme: expected auto, light or dark"):
        draw(report, theme="blue")
    with pytest.raises(UnsupportedError, match="has no scene"):
        _ = draw(report).scene
    plane = Plane("/host:CPU")
    plane.line("python", [Event(plane.kind("f"), 0, 5)])
    empty = draw(profile(xspace([plane])))
    assert empty.facts == ("The profile has no events of HLO instructions.",) and _bars(empty) == []
    assert empty.text().startswith("the time of a profile\n")
