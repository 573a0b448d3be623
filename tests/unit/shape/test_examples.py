"""Every example in the docstrings of xlashape.shape runs and says the truth."""

from __future__ import annotations

import doctest
import importlib
import pkgutil

import pytest

import xlashape.shape

MODULES = [info.name for info in pkgutil.walk_packages(xlashape.shape.__path__, "xlashape.shape.")]


@pytest.mark.parametrize("name", MODULES)
def test_examples(name: str) -> None:
    module = importlib.import_module(name)
    assert doctest.testmod(module).failed == 0
