"""What tests compare with where it is installed: a user's machine may lack it, the project's own checks may not."""

import importlib
import os
from types import ModuleType
from typing import NoReturn

import pytest


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
