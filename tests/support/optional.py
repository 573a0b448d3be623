"""Packages and files that a user's machine may lack. Tests that need them are skipped; under CI they fail."""

import importlib
import os
from pathlib import Path
from types import ModuleType
from typing import NoReturn

import pytest

SHARED = Path(os.environ.get("XLASHAPE_SHARED", Path(__file__).resolve().parents[3] / "shared"))
"""The folder of files that are not part of the project: whole models, facts of XLA's schema, published reports."""


def needed_in_ci(name: str) -> ModuleType:
    """Imports a module. Where it is not installed, the test is skipped with the reason; under CI it fails."""
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
    """A file or folder below `SHARED`. If it is missing, the test is skipped. If `SHARED` itself exists, the test fails
    under CI instead."""
    path = SHARED.joinpath(*steps)
    if not path.exists():
        if SHARED.is_dir():
            without(f"{SHARED} exists without {'/'.join(steps)}")
        pytest.skip(f"{path} is not here: XLASHAPE_SHARED names another directory")
    return path
