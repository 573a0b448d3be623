"""What tests compare with where it is installed: a user's machine may lack it, the project's own checks may not."""

import importlib
import os
from pathlib import Path
from types import ModuleType
from typing import NoReturn

import pytest

SHARED = Path(os.environ.get("XLASHAPE_SHARED", Path(__file__).resolve().parents[3] / "shared"))
"""Files that are no part of the project: whole models, facts of XLA's schema, published reports."""


def needed_in_ci(name: str) -> ModuleType:
    """The module, or a test that is skipped with the reason; under CI, one that fails."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        without(f"{name} is not installed: {error}")


def without(reason: str) -> NoReturn:
    """Skips the test; under CI it fails."""
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason, allow_module_level=True)


def shared(*steps: str) -> Path:
    """The file or folder of `SHARED`, or a test that is skipped. Where the directory is, the file must be: under CI the
    test fails."""
    path = SHARED.joinpath(*steps)
    if not path.exists():
        if SHARED.is_dir():
            without(f"{SHARED} exists without {'/'.join(steps)}")
        pytest.skip(f"{path} is not here: XLASHAPE_SHARED names another directory")
    return path
