"""A plugin of pytest: tests that a compiled program has not become worse.

    def test_step(hlo):
        hlo.check(jax.jit(step), params, batch, new_copies=0, peak="+2%")

    def test_the_new_step(hlo):
        hlo.same_meaning(jax.jit(step).lower(x), jax.jit(new_step).lower(x))

The first run with `--hlo-update` stores a summary of the program in a file beside the test, `test_train.hlo.json` of
`test_train.py`. Runs without the option compare the program with the summary, and fail where a limit is exceeded. The
limits are those of `xlashape.reports.diff.summary`; without any, the program must be the same. pytest loads the plugin
where the package is installed: the extra `pytest` brings pytest itself.
"""

from __future__ import annotations

import os
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

if TYPE_CHECKING:
    from xlashape.hlo import HloModule
    from xlashape.reports.diff import Diff
    from xlashape.reports.equivalent import Equivalent

_LOCK_SECONDS: Final = 20.0


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds --hlo-update."""
    group = parser.getgroup("xlashape")
    group.addoption(
        "--hlo-update", action="store_true", default=False,
        help="store what `hlo.check` finds, instead of comparing with what is stored",
    )  # fmt: skip


@pytest.fixture
def hlo(request: pytest.FixtureRequest) -> Hlo:
    """Compiles or loads programs, and compares them with what is stored beside the test."""
    path = Path(request.node.path)
    return Hlo(
        path.with_name(f"{path.stem}.hlo.json"), request.node.name, bool(request.config.getoption("--hlo-update"))
    )


class Hlo:
    """The value of the fixture `hlo`: it loads programs and checks them."""

    def __init__(self, path: Path, test: str, update: bool) -> None:
        self.path = path
        """The file of summaries."""
        self._test = test
        self._update = update
        self._count = 0

    def load(self, x: Any, *args: Any, **kwargs: Any) -> HloModule:
        """A program: a jitted function with arguments is compiled; anything else that `HloModule.of` takes is
        loaded.
        """
        from xlashape.hlo import HloModule  # deferred: a plugin is loaded by every run of pytest
        from xlashape.hlo.files.module_of import compiled

        if isinstance(x, HloModule) and not args and not kwargs:
            return x
        return HloModule.of(compiled(x, args, kwargs))

    def diff(self, a: Any, b: Any, **options: Any) -> Diff:
        """What changed from one program to another, as `xlashape.diff`."""
        from xlashape.reports.diff import diff  # deferred, as above

        return diff(a, b, **options)

    def check(
        self, x: Any, *args: Any, name: str | None = None, kwargs: dict[str, Any] | None = None, **limits: Any
    ) -> HloModule:
        """Fails where a program has become worse than its stored summary by more than `limits` allow: `new_copies=0,
        peak="+2%"`.

        x, args, kwargs: as `load` takes them. name: the name under which the summary is stored; by default the name of
        the test and, from the second check on, a number. Returns the program. Raises AssertionError with the reasons,
        and InvalidArgumentError for limits that do not exist.
        """
        __tracebackhide__ = True
        from xlashape.reports.diff.summary import ModuleSummary, read_summaries  # deferred, as above

        module = self.load(x, *args, **(kwargs or {}))
        self._count += 1
        key = name or (self._test if self._count == 1 else f"{self._test} {self._count}")
        now = ModuleSummary.of(module)
        now.broken(now, limits)  # raises for mistakes in limits, also in runs that only store
        if self._update:
            self._store(key, now)
            return module
        before = read_summaries(self.path).get(key)
        if before is None:
            raise AssertionError(
                f"{self.path.name} has no summary {key!r}: run pytest --hlo-update, and commit the file"
            )
        reasons = before.broken(now, limits or {"same": True})
        if reasons:
            # `same` says that something changed, and not in which direction.
            are_worse = any(not reason.startswith("same:") for reason in reasons)
            how = "is worse than" if are_worse else "differs from"
            lines = [
                f"the program {key!r} {how} its summary in {self.path.name}:",
                *[f"  {reason}" for reason in reasons],
            ]
            raise AssertionError("\n".join([*lines, "If that is meant, run pytest --hlo-update, and commit the file."]))
        return module

    def same_meaning(self, a: Any, b: Any, **options: Any) -> Equivalent:
        """Fails unless two programs compute the same, as `xlashape.equivalent` tells. Returns what it answers."""
        __tracebackhide__ = True
        from xlashape.reports.equivalent import equivalent  # deferred, as above

        found = equivalent(a, b, **options)
        if not found.is_equal:
            raise AssertionError(found.headline())
        return found

    def _store(self, key: str, summary: Any) -> None:
        from xlashape.reports.diff.summary import read_summaries, write_summaries  # deferred, as above

        with _locked(self.path):
            summaries = read_summaries(self.path)
            if summaries.get(key) != summary:
                write_summaries(self.path, {**summaries, key: summary})


@contextmanager
def _locked(path: Path) -> Generator[None, None, None]:
    """Keeps other processes of the same run from writing the file meanwhile. After 20 seconds the lock is ignored: the
    process that made it has probably died.
    """
    lock = path.with_name(f".{path.name}.lock")
    end = time.monotonic() + _LOCK_SECONDS
    while True:
        try:
            os.close(os.open(lock, os.O_CREAT | os.O_EXCL))
            break
        except FileExistsError:
            if time.monotonic() > end:
                break
            time.sleep(0.05)
    try:
        yield
    finally:
        with suppress(FileNotFoundError):
            lock.unlink()
