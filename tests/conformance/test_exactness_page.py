"""docs/exactness.md has the numbers that its script computes."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parents[2] / "docs"


@pytest.mark.slow
def test_the_page_is_up_to_date() -> None:
    spec = importlib.util.spec_from_file_location("generate_exactness", DOCS / "generate_exactness.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    found = (DOCS / "exactness.md").read_text(encoding="utf-8")
    assert found == module.page(), "run python docs/generate_exactness.py"
    for row in module.COMPARED:
        assert (DOCS.parent / "tests" / "unit" / row.test).exists()
