"""The gallery in docs is what its script writes, and its pictures are small."""

from __future__ import annotations

import importlib.util
import xml.etree.ElementTree as ET
from pathlib import Path
from types import ModuleType

import pytest

DOCS = Path(__file__).resolve().parents[3] / "docs"
REMEDY = "run python docs/generate_gallery.py, and look at the pictures"


@pytest.fixture(scope="module")
def generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("generate_gallery", DOCS / "generate_gallery.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_is_up_to_date(generator):
    assert (DOCS / "gallery.md").read_text(encoding="utf-8") == generator.page(), REMEDY


def test_the_pictures_are_up_to_date(generator):
    content = generator.pictures()
    assert {path.name for path in (DOCS / "gallery").iterdir()} == set(content), REMEDY
    for name, text in content.items():
        assert (DOCS / "gallery" / name).read_text(encoding="utf-8") == text, f"{name}: {REMEDY}"


def test_the_pictures_are_small_and_well_formed(generator):
    for path in (DOCS / "gallery").glob("*.svg"):
        ET.parse(path)
        assert path.stat().st_size < 100_000


def test_the_calls_of_the_page_make_its_pictures(generator):
    """The text of a call, run as a reader would, gives the picture that stands below it."""
    import xlashape as xs

    module = xs.HloModule.load(DOCS.parent / "xlashape" / "data" / "attention.hlo.pb")
    names = [figure.name for figure in generator.figures()]
    assert len(names) == len(set(names))
    for figure in generator.figures():
        picture = eval(figure.call, {"xs": xs, "module": module})
        assert picture.svg() == (DOCS / "gallery" / f"{figure.name}.svg").read_text(encoding="utf-8")
