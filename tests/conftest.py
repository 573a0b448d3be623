"""How many processes run the tests."""

from __future__ import annotations

import pytest


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int | None:
    """No workers for single files or tests: to start the workers would take longer than most of these. `-n 2` asks for workers."""
    arguments = config.args
    if arguments and all(argument.endswith(".py") or "::" in argument for argument in arguments):
        return 0
    return None
