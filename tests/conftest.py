"""How many processes run the tests, the compiled schema that they need, and what is skipped where packages are
missing."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from collections.abc import Generator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from xlashape.errors import UnavailableError

ROOT = Path(__file__).resolve().parents[1]

# No test fails because it takes long: on a busy machine any may.
with suppress(ModuleNotFoundError):
    from hypothesis import settings

    settings.register_profile("without a deadline", deadline=None)
    settings.load_profile("without a deadline")


def pytest_configure(config: pytest.Config) -> None:
    """Compiles the schema again if a .proto is newer than it; once, not in each worker."""
    compiled = ROOT / "xlashape" / "proto" / "schema.binpb"
    if hasattr(config, "workerinput") or not compiled.exists():
        return
    if any(path.stat().st_mtime > compiled.stat().st_mtime for path in (ROOT / "protos").rglob("*.proto")):
        subprocess.run([sys.executable, str(ROOT / "protos" / "schema_compiler.py")], check=True)


def pytest_collection_finish() -> None:
    """Leaves what was imported and collected out of every later collection of garbage, which would take a twelfth of
    the time of `tests/unit/reports`."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int | None:
    """No workers for single files or tests: to start the workers would take longer than most of these. `-n 2` asks for
    workers."""
    arguments = config.args
    if arguments and all(argument.endswith(".py") or "::" in argument for argument in arguments):
        return 0
    return None


def _missing(error: BaseException | None) -> str | None:
    """Which package a test lacks, if that is why it failed: one of an extra, or one of the extra `test`. None under CI,
    where all are there."""
    if os.environ.get("CI"):
        return None
    if isinstance(error, ModuleNotFoundError) and error.name is not None:
        root = error.name.partition(".")[0]
        is_ours = root.startswith("xlashape") or (ROOT / "tests" / "support" / f"{root}.py").exists()
        return None if is_ours or root in sys.stdlib_module_names else f"{error.name} is not installed"
    if isinstance(error, UnavailableError) and "pip install" in str(error):
        return str(error)
    return None


@pytest.hookimpl(hookwrapper=True)
def pytest_make_collect_report(collector: pytest.Collector) -> Generator[None, Any, None]:
    """Skips a file of tests that imports a package which is not installed, with the reason."""
    errors: list[BaseException] = []
    if isinstance(collector, pytest.Module):
        imported = collector._getobj  # what imports the file; its error is wrapped in text

        def importing() -> Any:
            try:
                return imported()
            except Exception as error:
                errors.append(
                    error.__cause__ if isinstance(error, collector.CollectError) and error.__cause__ else error
                )
                raise

        collector._getobj = importing  # type: ignore[method-assign]
    outcome = yield
    report = outcome.get_result()
    reason = _missing(errors[0]) if errors and report.failed else None
    if reason is not None:
        report.outcome = "skipped"
        report.longrepr = (str(collector.path), 0, f"Skipped: {reason}")


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, Any, None]:
    """Skips a test that needs a package which is not installed, with the reason."""
    outcome = yield
    report = outcome.get_result()
    reason = _missing(call.excinfo.value) if call.excinfo is not None and report.failed else None
    if reason is not None:
        report.outcome = "skipped"
        report.longrepr = (str(item.path), 0, f"Skipped: {reason}")
