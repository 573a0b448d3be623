"""The notebooks in docs run, and their outputs are up to date."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

nbformat = pytest.importorskip("nbformat", reason="the extra `docs` is not installed")
pytest.importorskip("nbclient", reason="the extra `docs` is not installed")
pytest.importorskip("ipykernel", reason="the extra `docs` is not installed")

DOCS = Path(__file__).resolve().parents[2] / "docs"
NOTEBOOKS = sorted((DOCS / "notebooks").glob("*.ipynb"))
SHOWN = "0.12"
"""The version of JAX whose outputs are shown. Other versions fuse instructions differently and give them other
names."""
REMEDY = "run python docs/run_notebooks.py with JAX 0.12, and look at the notebooks"


@pytest.fixture(scope="module")
def runner() -> ModuleType:
    spec = importlib.util.spec_from_file_location("run_notebooks", DOCS / "run_notebooks.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def outputs(notebook: Any) -> list[Any]:
    """The outputs of the cells, without the numbers of the cells."""
    return [
        [output.get("data", output.get("text")) for output in cell.outputs]
        for cell in notebook.cells
        if cell.cell_type == "code"
    ]


def test_there_are_notebooks() -> None:
    assert len(NOTEBOOKS) == 4


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs(path: Path, runner: ModuleType) -> None:
    committed = nbformat.read(path, as_version=4)
    nbformat.validate(committed)
    uses_jax = any("import jax" in cell.source for cell in committed.cells)
    jax_version = pytest.importorskip("jax", reason="JAX is not installed").__version__ if uses_jax else None
    found = runner.executed(path)
    assert len(outputs(found)) == len(outputs(committed))
    if jax_version is None or jax_version.startswith(SHOWN):
        assert outputs(found) == outputs(committed), REMEDY


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_small(path: Path) -> None:
    assert path.stat().st_size < 120_000
