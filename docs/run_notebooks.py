"""Runs the notebooks in docs/notebooks/ and writes their outputs into them. They show what JAX 0.12 makes on a CPU.

    python docs/run_notebooks.py

A test runs them and compares.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import nbclient
import nbformat

FOLDER = Path(__file__).with_name("notebooks")
KERNEL = {"display_name": "Python 3", "language": "python", "name": "python3"}


def notebooks() -> list[Path]:
    """The files, in the order of their names."""
    return sorted(FOLDER.glob("*.ipynb"))


def executed(path: Path) -> Any:
    """The notebook with new outputs, without what differs from run to run. An exception in a cell is raised."""
    notebook = nbformat.read(path, as_version=4)
    nbclient.NotebookClient(notebook, timeout=300, kernel_name="python3", coalesce_streams=True).execute()
    notebook.metadata = {"kernelspec": KERNEL, "language_info": {"name": "python"}}
    for cell in notebook.cells:
        cell.metadata = {}
        for output in cell.get("outputs", ()):
            # The picture in text/html is the same one.
            if "text/html" in output.get("data", {}):
                output.data.pop("image/svg+xml", None)
    return notebook


if __name__ == "__main__":
    for path in notebooks():
        nbformat.write(executed(path), path)
