"""Runs a server under faults, and checks all its answers.

    python tests/robustness/run.py                                  # every fault once, without TLS and with it
    python tests/robustness/run.py --transport tls --faults kill_worker --rounds 5 --seed 7
    python tests/robustness/run.py --soak 30                        # minutes without faults: memory, open files and threads stay flat

The seed, which is printed, determines the order of faults and the requests of callers. tests/robustness/README.md
describes the checks. The exit code is 1 after a violation, and after a failure of the harness itself; with --strict
also if something was slow. Violations and failures are printed last.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import traceback
from importlib.util import find_spec
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))

from harness.callers import PAUSE_SECONDS
from harness.checker import Report, check
from harness.counts import check_counts
from harness.faults import Kind, NotPossibleError, kinds
from harness.history import Fault, History
from harness.questions import questions
from harness.scene import MEMORY, Scene

# The time without faults at the start of a run, with which later times are compared.
_IDLE_SECONDS = 5.0
# The time between two faults.
_REST_SECONDS = 1.0
# A server that takes longer to recover from a fault counts as not recovered.
_RECOVERY_SECONDS = 60.0
# The most violations that are printed. Usually most of them are alike.
_MOST_SHOWN = 60
# The most growth of memory, open files and threads, as a factor, from the second to the last quarter of a soak.
_SOAK_GROWTH = 1.1
# Signals that end a run as Ctrl-C does.
_ENDING = (signal.SIGTERM, signal.SIGHUP)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--transport", choices=["plain", "tls", "both"], default="both")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32), help="Default: another one each time.")
    parser.add_argument("--faults", nargs="*", metavar="NAME", help="Only these. Default: all.")
    parser.add_argument("--rounds", type=int, default=1, help="How often each fault comes.")
    parser.add_argument(
        "--hold", type=float, default=1.0, metavar="FACTOR", help="How long faults last, of their usual time."
    )
    parser.add_argument(
        "--at-most",
        type=float,
        default=float("inf"),
        metavar="SECONDS",
        help="Faults for which no time is left are skipped.",
    )
    parser.add_argument("--soak", type=float, metavar="MINUTES", help="No faults, for so long.")
    parser.add_argument(
        "--pause",
        type=float,
        default=PAUSE_SECONDS,
        metavar="SECONDS",
        help="Between two calls of a caller, on average. More leaves more of the machine to others.",
    )
    parser.add_argument(
        "--strict", action="store_true", help="What is slow fails the run too: for machines that do nothing else."
    )
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="Where the history goes.")
    parser.add_argument("--json", action="store_true", help="Print one document of JSON.")
    arguments = parser.parse_args()
    for each in _ENDING:
        if signal.getsignal(each) != signal.SIG_IGN:  # nohup ignores SIGHUP
            signal.signal(each, _end)
    print(f"seed {arguments.seed}", file=sys.stderr)
    if _groups_threads():
        print("kernel.sched_autogroup_enabled is on: Linux may delay everything (README.md)", file=sys.stderr)
    transports = ["plain", "tls"] if arguments.transport == "both" else [arguments.transport]
    began = time.monotonic()
    told: dict[str, dict[str, Any]] = {}
    for number, transport in enumerate(transports, 1):
        until = began + number * arguments.at_most / len(transports)
        told[transport] = _run(transport, arguments, until)
    if arguments.json:
        print(json.dumps({"seed": arguments.seed, **told}))
    else:
        for name in ("measured", "skipped", "slow", "log", "violations", "failures"):
            for transport, found in told.items():
                _show(transport, name, found[name])
        print(f"seed {arguments.seed}", flush=True)
    found_bad = ["violations", "failures", *(["slow"] if arguments.strict else [])]
    return 1 if any(found[name] for found in told.values() for name in found_bad) else 0


def _groups_threads() -> bool:
    """Whether Linux shares processor time by session, which delays threads for seconds in some versions."""
    try:
        return Path("/proc/sys/kernel/sched_autogroup_enabled").read_text(encoding="ascii").strip() == "1"
    except OSError:  # another system, or a kernel without the setting
        return False


def _end(signal_number: int, frame: object) -> None:
    """Ends the run as Ctrl-C does: its processes are ended and its file systems unmounted. A second signal does not
    interrupt this."""
    for each in _ENDING:
        signal.signal(each, signal.SIG_IGN)
    raise KeyboardInterrupt


def _show(transport: str, name: str, found: list[str] | dict[str, Any]) -> None:
    if isinstance(found, dict):
        for key, value in found.items():
            print(f"{transport}: {key}: {value}")
    elif found or name in ("violations", "failures"):
        print(f"{transport}: {len(found)} {name}")
        for each in found[:_MOST_SHOWN]:
            print(f"    {each}")
        if len(found) > _MOST_SHOWN:
            print(f"    and {len(found) - _MOST_SHOWN} more")


def _run(transport: str, arguments: argparse.Namespace, until: float) -> dict[str, Any]:
    """Runs with one kind of transport, and returns what was found. A failure of the harness is reported in the result
    and not raised, so that earlier findings are not lost."""
    told: dict[str, Any] = {"measured": {}, "skipped": [], "slow": [], "log": [], "violations": [], "failures": []}
    skipped = told["skipped"]
    tls = transport == "tls"
    if tls and shutil.which("openssl") is None:
        skipped.append("everything: there is no openssl to make certificates")
        return told
    scratch = Path(tempfile.mkdtemp(prefix="xlashape-robustness-"))
    history = History(scratch / f"{transport}.jsonl")
    report = Report()
    phase = "starting"
    if find_spec("prometheus_client") is None:
        skipped.append("metrics: prometheus_client must be installed to ask for them")
    try:
        with Scene(scratch, history, arguments.seed, tls=tls) as scene:
            try:
                scene.prepare()
                plan = _plan(arguments, scene, tls=tls, skipped=skipped)
                phase = "starting callers"
                scene.start_callers(questions(arguments.seed, 12), arguments.pause)
                r = random.Random(arguments.seed)
                phase = "time without faults"
                time.sleep(60 * arguments.soak if arguments.soak else _IDLE_SECONDS)
                for kind in plan:
                    if time.monotonic() > until:
                        skipped.append(f"{kind.name}: {arguments.at_most:g} seconds were over")
                        continue
                    phase = kind.name
                    try:
                        suffer(kind, scene, history, r, arguments.hold)
                    except (NotPossibleError, OSError, subprocess.SubprocessError) as error:
                        print(f"skipped: {error}", file=sys.stderr, flush=True)
                        skipped.append(f"{kind.name}: {error}")
                phase = "reading everything at the end"
                scene.stop_callers()
            except Exception as error:
                traceback.print_exc()
                told["failures"].append(f"the harness, while {phase}: {type(error).__name__}: {error}")
            phase = "judging"
            report = check(
                list(history.entries),
                list(history.faults),
                scene.modules.excused,
                scene.stalls,
                memory_budget=MEMORY,
                memory_most=scene.memory_most,
            )
            if not told["failures"]:
                check_counts(history.entries, history.faults, scene.observers.scrapes, report)
            report.violations += [f"the server's log: {line}" for line in scene.log_errors()]
            if arguments.soak and not told["failures"]:
                _judge_growth(scene, report)
            if report.violations or told["failures"]:
                told["log"] = scene.log_end()
        history.close()
        if arguments.keep:
            scene.copy_to(arguments.keep)
    except Exception as error:
        traceback.print_exc()
        told["failures"].append(f"the harness, while {phase}: {type(error).__name__}: {error}")
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    told.update(measured=report.measured, slow=report.slow, violations=report.violations)
    return told


def _plan(arguments: argparse.Namespace, scene: Scene, *, tls: bool, skipped: list[str]) -> list[Kind]:
    """The faults of a run, in their order."""
    if arguments.soak:
        return []

    def skip(name: str, reason: str) -> None:
        skipped.append(f"{name}: {reason}")

    known = kinds(scene, tls=tls, skipped=skip)
    plan = [kind for kind in known if arguments.faults is None or kind.name in arguments.faults] * arguments.rounds
    random.Random(arguments.seed).shuffle(plan)
    # Faults that remove modules come first, so that many modules are left to read at the end.
    return [*(kind for kind in plan if kind.removes), *(kind for kind in plan if not kind.removes)]


def suffer(kind: Kind, scene: Scene, history: History, r: random.Random, hold: float) -> None:
    """Runs one fault, from its beginning until the server has recovered.

    Raises the fault's exception after the server has recovered. If the wait for recovery fails too, it raises a
    RuntimeError that names both failures.
    """
    time.sleep(_REST_SECONDS)
    print(f"{kind.name}: ", end="", file=sys.stderr, flush=True)
    began = held = time.monotonic()
    failure: Exception | None = None
    try:
        for _ in kind.run(scene, r):
            held = time.monotonic()
            time.sleep(kind.seconds * hold)
    except Exception as error:
        failure = error
    ended = time.monotonic()
    try:
        normal = scene.await_normal(_RECOVERY_SECONDS)
        history.add_fault(Fault(kind.name, began, ended, normal, kind.stops, kind.is_attack, held, kind.stops_main))
    except Exception as error:
        if failure is None:
            raise
        error.__context__ = failure
        first, second = (f"{type(each).__name__}: {each}" for each in (failure, error))
        raise RuntimeError(f"{first}; and while the server was to recover, {second}") from error
    if failure is not None:
        raise failure
    seconds = f"back to normal after {normal - ended:.1f} s" if normal else "never back to normal"
    print(seconds, file=sys.stderr, flush=True)


def _judge_growth(scene: Scene, report: Report) -> None:
    """Checks that memory, open files and threads do not grow between the second and the last quarter of a soak."""
    quarter = len(scene.samples) // 4
    # Thread pools and allocators grow a little whenever more calls run at the same time than ever before.
    slacks = {"memory_bytes": 16 << 20, "open_files": 10, "threads": 10}
    for at, (name, slack) in enumerate(slacks.items(), 1):
        before = statistics.median(sample[at] for sample in scene.samples[quarter : 2 * quarter])
        after = statistics.median(sample[at] for sample in scene.samples[-quarter:])
        report.measured[name] = [before, after]
        if after > _SOAK_GROWTH * before + slack:
            report.violations.append(f"{name} grew from {before:.0f} to {after:.0f}")


if __name__ == "__main__":
    sys.exit(main())
