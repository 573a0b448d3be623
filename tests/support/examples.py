"""The doctest runner for the examples in docstrings and pages."""

from __future__ import annotations

import doctest
from typing import Any

from xlashape.errors import UnavailableError


class Runner(doctest.DocTestRunner):
    """Runs examples. An example that needs a package which is not installed skips its test."""

    def report_unexpected_exception(self, out: Any, test: Any, example: Any, exc_info: Any) -> None:
        if isinstance(exc_info[1], (ModuleNotFoundError, UnavailableError)):
            raise exc_info[1]
        super().report_unexpected_exception(out, test, example, exc_info)
