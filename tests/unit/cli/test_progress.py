"""The progress bar: on standard error, after a second, on a terminal only."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from importlib import resources

from xlashape.cli import output
from xlashape.limits import budget, spend

MODULE = str(resources.files("xlashape.data").joinpath("attention.hlo.pb"))

SCRIPT = """
import sys, time
from xlashape.cli import main, output
output.DELAY_SECONDS = float(sys.argv[1])
if not output.DELAY_SECONDS:  # the answer waits until the bar has been drawn
    from xlashape.reports.report import Report
    run = Report.run
    def slow(*arguments, **options):
        time.sleep(1)
        return run(*arguments, **options)
    Report.run = slow
main(["reads", sys.argv[2], "--format", "csv"])
"""


def on_a_terminal(delay: float) -> tuple[str, str]:
    """Standard output, and standard error, which is a terminal."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", SCRIPT, str(delay), MODULE],
        stdout=subprocess.PIPE,
        stderr=theirs,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "120"},
    )
    os.close(theirs)
    shown = b""
    while True:
        try:
            part = os.read(ours, 65536)
        except OSError:  # how Linux says that the other end is closed
            break
        if not part:
            break
        shown += part
    os.close(ours)
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    return out.decode(), shown.decode()


def test_a_long_command_has_a_bar_that_is_removed():
    out, shown = on_a_terminal(0)
    assert "computing reads" in shown
    assert shown.endswith("\r\x1b[2K\x1b[?25h")  # the line is cleared at the end
    assert "\x1b" not in out


def test_a_short_command_has_none():
    assert on_a_terminal(60)[1] == ""
    assert on_a_terminal(60)[0] == on_a_terminal(0)[0]


def test_without_a_terminal_there_is_none():
    command = [sys.executable, "-c", SCRIPT, "0", MODULE]
    assert subprocess.run(command, capture_output=True, timeout=60, check=True).stderr == b""


def test_a_command_that_is_short_loads_no_library_of_tables():
    script = (
        "import sys; from xlashape.cli import main; main(['size', 'f32[3]'], standalone_mode=False); "
        "assert 'pyarrow' not in sys.modules and 'pandas' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60, capture_output=True)


def test_the_rate_and_the_time_that_is_left_are_told(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(output, "monotonic", lambda: now[0])
    bar = output._Bar()
    try:
        bar.update("scanning", 10, 1000)
        assert bar._rate() == ""
        now[0] += 10
        bar.update("scanning", 110, 1000)
        assert bar._rate() == ", 10/s, 0:01:29 left"
        bar.update("writing", 5, 10)  # another step counts anew
        assert bar._rate() == ""
    finally:
        bar.end()


def test_the_steps_of_an_analysis_are_counted_while_it_runs(monkeypatch):
    told = []
    monkeypatch.setattr(output, "progress", lambda *state: told.append(state))
    with output.stepping("comparing"), budget(steps=1000, subject="two programs"):
        for _ in range(3):
            spend(300)
    assert told == [("comparing",), *[("comparing, steps", done, 1000) for done in (300, 600, 900)]]
    with budget(steps=1000, subject="another analysis"):
        spend(300)
    assert len(told) == 4
