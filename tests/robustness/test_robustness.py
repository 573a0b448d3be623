"""Short robustness runs for every run of the tests: a few faults, a few hundred changed requests. Other tests check
that the checker finds mistakes.

tests/robustness/run.py has all faults, and .ci/run runs it. The seeds here are fixed, so that two runs of the tests do
the same. run.py and the fuzzers draw and print a new seed where none is given.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from xlashape.base.extras import require

require("server", "the harness")

FOLDER = Path(__file__).resolve().parent

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the harness reads /proc, which only Linux has")


def run(script: str, *arguments: str) -> dict[str, Any]:
    command = [sys.executable, str(FOLDER / script), "--json", "--seed", "1", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=280)
    assert done.stdout, done.stderr
    told = json.loads(done.stdout)
    assert done.returncode == 0, (done.stderr, told)
    return told


@pytest.mark.slow
@pytest.mark.parametrize(
    ("transport", "faults"),
    [("plain", ("kill_worker", "slow_readers")), ("tls", ("kill_server", "swap_certificate"))],
)
def test_a_server_gets_over_faults(transport: str, faults: tuple[str, ...]) -> None:
    if transport == "tls" and shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    told = run("run.py", "--transport", transport, "--hold", "0.5", "--faults", *faults)[transport]
    assert told["violations"] == []
    measured = told["measured"]
    assert set(measured["seconds_to_normal"]) == set(faults)
    assert measured["calls_by_code"]["OK"] > 100
    assert measured["modules_read_at_the_end"] > 0


@pytest.mark.slow
def test_changed_requests_are_answered_or_refused() -> None:
    told = run("fuzz.py", "--requests", "600")
    assert told["rpcs"] >= 15  # of 20, drawn at random
    for code in ("OK", "INVALID_ARGUMENT"):
        assert sum(count for how, count in told["codes"].items() if how.endswith(f" {code}")) > 50


@pytest.mark.slow
def test_guided_fuzzing_reaches_more_and_finds_nothing(tmp_path: Path) -> None:
    told = run("guided_fuzz.py", "--requests", "600", "--keep", str(tmp_path))
    assert told["finds"] == []
    assert told["kept"] > 100
    assert told["lines_and_branches"] > 3000
    told = run("fuzz.py", "--requests", "200", "--corpus", str(tmp_path / "corpus.jsonl"))
    assert told["finds"] == []


JUDGED = """
import json, sys
sys.path[:0] = [{folder!r}, {support!r}]
from harness.checker import check
from harness.history import Entry, Fault
entries = [Entry(*each) for each in {entries!r}]
faults = [Fault(*each) for each in {faults!r}]
report = check(entries, faults, (), {stalls!r}, memory_budget=100, memory_most={memory!r})
print(json.dumps([report.violations, report.slow]))
"""
HEALTHY = ("p", "health", "live", 0.0, 0.1, "OK", "", "", "0801")
FAULT = ("kill_worker", 10.0, 11.0, 12.0, True, False)


def judged(
    *entries: tuple[object, ...],
    faults: tuple[object, ...] = (),
    memory: int = 0,
    stalls: tuple[tuple[float, float], ...] = (),
) -> tuple[list[str], list[str]]:
    code = JUDGED.format(
        folder=str(FOLDER),
        support=str(FOLDER.parent / "support"),
        entries=[HEALTHY, *entries],
        faults=list(faults),
        memory=memory,
        stalls=stalls,
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=os.environ)
    violations, slow = json.loads(done.stdout)
    return violations, slow


def test_the_checker_accepts_what_is_right() -> None:
    right = ("a", "question", "7", 1.0, 1.1, "OK", "", "x", "x")
    refused = ("a", "question", "8", 1.0, 1.1, "INVALID_ARGUMENT", "no", "y", "y")
    failed = ("a", "upload", "modules/1", 10.5, 10.6, "UNAVAILABLE", "", "", "")
    assert judged(right, refused, failed, faults=(FAULT,)) == ([], [])


@pytest.mark.parametrize(
    ("entry", "told"),
    [
        (("a", "question", "7", 1.0, 1.1, "OK", "", "x", "z"), "which is not what the library answers"),
        (
            ("a", "question", "7", 10.5, 10.6, "INTERNAL", "", "x", "z"),
            "INTERNAL, which is not what the library answers",
        ),
        (("a", "question", "7", 1.0, 1.1, "UNAVAILABLE", "", "x", "z"), "UNAVAILABLE while nothing was wrong"),
        (("a", "upload", "modules/1", 10.5, 10.6, "UNKNOWN", "", "", ""), "upload modules/1 ended with UNKNOWN"),
        (("a", "read", "modules/1", 1.0, 1.1, "OK", "", "x", "z"), "other bytes than were uploaded"),
        (("a", "read", "modules/1", 10.5, 10.6, "NOT_FOUND", "", "x", ""), "read modules/1 ended with NOT_FOUND"),
        (("a", "kept", "modules/1", 10.5, 10.6, "UNAVAILABLE", "", "x", ""), "UNAVAILABLE while nothing was wrong"),
        (("a", "deleted", "modules/1", 1.0, 1.1, "OK", "", "NOT_FOUND", "OK"), "could be read after that"),
        (("p", "small", "ByteSize", 1.0, 1.1, "OK", "", "x", "z"), "which is not what the library answers"),
        (("p", "health", "live", 1.0, 1.1, "UNIMPLEMENTED", "", "", ""), "UNIMPLEMENTED after 0.10 s, during no fault"),
        (("p", "health", "live", 1.0, 1.1, "OK", "", "", "0802"), "'live' was not serving"),
    ],
)
def test_the_checker_notices_wrong_answers(entry: tuple[object, ...], told: str) -> None:
    violations, _ = judged(entry, faults=(FAULT,))
    assert len(violations) == 1
    assert told in violations[0]


def test_the_checker_notices_silence() -> None:
    code = JUDGED.format(
        folder=str(FOLDER), support=str(FOLDER.parent / "support"), entries=[], faults=[], memory=0, stalls=()
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)[0] == ["health was never asked"]


def test_calls_that_a_machine_delays_are_no_violations_unless_they_are_many() -> None:
    late = ("a", "question", "7", 1.0, 11.0, "DEADLINE_EXCEEDED", "", "x", "z")
    for count in (3, 4):
        violations, slow = judged(*[late] * count)
        assert (len(violations), len(slow)) == ((0, 3) if count == 3 else (4, 0))
    refused = ("a", "question", "7", 1.0, 1.1, "UNAVAILABLE", "", "x", "z")
    assert len(judged(refused)[0]) == 1
    assert judged(refused, *[late] * 9, stalls=((0.2, 2.2),)) == ([], [])
    wrong = ("a", "question", "7", 1.0, 1.1, "INTERNAL", "", "x", "z")
    assert len(judged(wrong, stalls=((0.2, 2.2),))[0]) == 1
    ended = ("p", "health", "live", 1.0, 1.1, "UNAVAILABLE", "", "", "")
    assert len(judged(ended)[0]) == 1
    assert judged(ended, stalls=((0.2, 2.2),))[0] == []


def test_clients_may_wait_to_connect_for_as_long_as_a_fault_lasted() -> None:
    fault = ("kill_server", 10.0, 20.0, 22.0, True, False)
    for began, count in ((33.0, 0), (35.0, 1)):
        refused = ("a", "question", "7", began, began + 0.1, "UNAVAILABLE", "", "x", "z")
        assert len(judged(refused, faults=(fault,))[0]) == count


def test_a_failure_of_the_harness_names_the_fault(tmp_path: Path) -> None:
    """The failure is printed after everything else. A fault that the machine does not allow is skipped."""
    script = tmp_path / "run_broken.py"
    script.write_text(BROKEN.format(folder=str(FOLDER), support=str(FOLDER.parent / "support")))
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=False, timeout=200)
    assert done.returncode == 1, done.stderr
    *_, failure, seed = done.stdout.splitlines()
    assert failure == "    the harness, while broken: ValueError: a mistake"
    assert seed == "seed 5"
    assert "    forbidden: it is not permitted" in done.stdout.splitlines()


BROKEN = """
import sys
sys.path[:0] = [{folder!r}, {support!r}]
import run
from harness.faults import Kind, NotPossibleError

def forbidden(setting, r):
    raise NotPossibleError("it is not permitted")
    yield

def broken(setting, r):
    yield
    raise ValueError("a mistake")

run.kinds = lambda scene, **known: [Kind("forbidden", forbidden, removes=True), Kind("broken", broken)]
sys.argv = ["run.py", "--transport", "plain", "--seed", "5", "--hold", "0.1"]
sys.exit(run.main())
"""


def test_the_first_of_two_failures_is_told_too() -> None:
    code = SUFFERING.format(folder=str(FOLDER), support=str(FOLDER.parent / "support"))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60)
    both = "NotPossibleError: it is not permitted; and while the server was to recover, OSError: it is gone"
    *trace, last = done.stderr.splitlines()
    assert last == f"RuntimeError: {both}"
    for each in ("harness.faults.NotPossibleError: it is not permitted", "OSError: it is gone"):
        assert each in trace


SUFFERING = """
import random, sys
sys.path[:0] = [{folder!r}, {support!r}]
from harness.faults import Kind, NotPossibleError
from run import suffer

def forbidden(setting, r):
    raise NotPossibleError("it is not permitted")
    yield

class Scene:
    def await_normal(self, seconds):
        raise OSError("it is gone")

suffer(Kind("forbidden", forbidden), Scene(), None, random.Random(5), 0.1)
"""


def test_the_checker_notices_what_is_slow() -> None:
    late = ("p", "health", "", 1.0, 2.5, "OK", "", "", "0801")
    slow_fault = ("full_disk", 20.0, 21.0, 30.0, False, False)
    violations, slow = judged(late, faults=(slow_fault,))
    assert violations == []
    assert slow == [
        "health of 'all': OK after 1.50 s, during no fault",
        "full_disk: back to normal after 9.0 s, not 5",
    ]


def test_the_checker_notices_a_server_that_stays_broken_and_too_much_memory() -> None:
    never = ("full_disk", 20.0, 21.0, 0.0, False, False)
    violations, _ = judged(faults=(never,), memory=101 << 20)
    assert len(violations) == 2
    assert "full_disk: the server did not get back to normal" in violations[0]
    assert "a worker took 101 MiB of memory" in violations[1]


def test_a_module_that_is_deleted_while_a_fault_removes_all_is_excused() -> None:
    support = FOLDER.parent / "support"
    code = f"""
import json, sys
sys.path[:0] = [{str(FOLDER)!r}, {str(support)!r}]
from harness.callers import Modules
modules = Modules()
for name in "abcd":
    modules.acknowledged(name, b"")
forgotten = [modules.forget("a")]
modules.deleted("a")
forgotten.append(modules.forget("b"))  # its deletion is under way when the fault begins
with modules.removed():
    forgotten.append(modules.forget("c"))
    modules.acknowledged("e", b"")
    forgotten.append(modules.forget("e"))
    modules.acknowledged("f", b"")
modules.acknowledged("g", b"")
forgotten.append(modules.forget("g"))
print(json.dumps([forgotten, sorted(modules.excused), list(modules.kept())]))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == [[True, True, False, True, True], [*"bcdef"], []]
