"""Runs a server while things go wrong, and judges everything that it answered.

    python tests/robustness/run.py                                  # every fault once, with a directory and with a bucket
    python tests/robustness/run.py --store bucket --faults kill_worker bit_flips --rounds 5 --seed 7
    python tests/robustness/run.py --soak 30                        # minutes without faults: memory, open files and threads stay flat

The seed, which is printed, says in which order faults come and what callers ask. tests/robustness/README.md says what is shown. The exit code is 1
after a violation; with --strict also if something was slow.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))

from harness.checker import Report, check
from harness.faults import Kind, kinds
from harness.history import Fault, History
from harness.questions import questions
from harness.scene import MEMORY, Scene

_IDLE_SECONDS = 5.0  # before the first fault, for comparison
_REST_SECONDS = 1.0  # between faults
_RECOVERY_SECONDS = 60.0  # after which it counts as none
_SOAK_GROWTH = 1.1  # of memory, open files and threads, between the second and the last quarter of a soak


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--store", choices=["directory", "bucket", "both"], default="both")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32), help="Default: another one each time.")
    parser.add_argument("--faults", nargs="*", metavar="NAME", help="Only these. Default: all.")
    parser.add_argument("--rounds", type=int, default=1, help="How often each fault comes.")
    parser.add_argument(
        "--hold", type=float, default=1.0, metavar="FACTOR", help="How long faults last, of their usual time."
    )
    parser.add_argument("--soak", type=float, metavar="MINUTES", help="No faults, for so long.")
    parser.add_argument(
        "--strict", action="store_true", help="What is slow fails the run too: for machines that do nothing else."
    )
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="Where the history goes.")
    parser.add_argument("--json", action="store_true", help="Print one document of JSON.")
    arguments = parser.parse_args()
    print(f"seed {arguments.seed}", file=sys.stderr)
    stores = ["directory", "bucket"] if arguments.store == "both" else [arguments.store]
    told = {store: _run(store, arguments) for store in stores}
    if arguments.json:
        print(json.dumps({"seed": arguments.seed, **told}))
    else:
        for store, found in told.items():
            print(f"== {store}")
            for name, value in found.items():
                print(f"{name}:" if isinstance(value, list) else f"{name}: {value}")
                for each in value if isinstance(value, list) else ():
                    print(f"    {each}")
    bad = any(found["violations"] or (arguments.strict and found["slow"]) for found in told.values())
    return 1 if bad else 0


def _run(store: str, arguments: argparse.Namespace) -> dict[str, Any]:
    scratch = Path(tempfile.mkdtemp(prefix="xlashape-robustness-"))
    skipped: list[str] = []
    history = History(scratch / f"{store}.jsonl")
    tls = store == "bucket" and shutil.which("openssl") is not None
    if store == "bucket" and not tls:
        skipped.append("swap_certificate: there is no openssl to make certificates")
    try:
        with Scene(scratch, history, arguments.seed, bucket=store == "bucket", tls=tls) as scene:
            scene.prepare()
            known = kinds(
                bucket=store == "bucket",
                tls=tls,
                disk=scene.disk is not None,
                skipped=lambda name, reason: skipped.append(f"{name}: {reason}"),
            )
            plan = [
                kind for kind in known if arguments.faults is None or kind.name in arguments.faults
            ] * arguments.rounds
            r = random.Random(arguments.seed)
            r.shuffle(plan)
            plan.sort(key=lambda kind: not kind.removes)  # at the end there is to be much to read
            scene.start_callers(questions(arguments.seed, 12))
            if arguments.soak:
                time.sleep(60 * arguments.soak)
            else:
                time.sleep(_IDLE_SECONDS)
                for kind in plan:
                    _suffer(kind, scene, history, r, arguments.hold)
            scene.stop_callers()
            entries, faults = list(history.entries), list(history.faults)
            report = check(entries, faults, scene.modules.excused, memory_budget=MEMORY, memory_most=scene.memory_most)
            report.violations += [f"the server's log: {line}" for line in scene.log_errors()]
            if arguments.soak:
                _judge_growth(scene, report)
        history.close()
        if arguments.keep:
            scene.copy_to(arguments.keep)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return {"measured": report.measured, "skipped": skipped, "slow": report.slow, "violations": report.violations}


def _suffer(kind: Kind, scene: Scene, history: History, r: random.Random, hold: float) -> None:
    """One fault, from its beginning until all is well again."""
    time.sleep(_REST_SECONDS)
    began = time.monotonic()
    for _ in kind.run(scene, r):
        time.sleep(kind.seconds * hold)
    ended = time.monotonic()
    normal = scene.await_normal(_RECOVERY_SECONDS)
    print(
        f"{kind.name}: back to normal after {normal - ended:.1f} s" if normal else f"{kind.name}: never back",
        file=sys.stderr,
    )
    history.add_fault(Fault(kind.name, began, ended, normal, kind.stops, kind.is_attack))


def _judge_growth(scene: Scene, report: Report) -> None:
    """Memory, open files and threads of the last quarter of a soak are those of the second."""
    quarter = len(scene.samples) // 4
    # Pools of threads and allocators grow a little for as long as calls happen to meet as never before.
    slacks = {"memory_bytes": 16 << 20, "open_files": 10, "threads": 10}
    for at, (name, slack) in enumerate(slacks.items(), 1):
        before = statistics.median(sample[at] for sample in scene.samples[quarter : 2 * quarter])
        after = statistics.median(sample[at] for sample in scene.samples[-quarter:])
        report.measured[name] = [before, after]
        if after > _SOAK_GROWTH * before + slack:
            report.violations.append(f"{name} grew from {before:.0f} to {after:.0f}")


if __name__ == "__main__":
    sys.exit(main())
