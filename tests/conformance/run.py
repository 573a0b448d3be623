"""Runs the conformance suite: builds the testee of each language, and runs every case over every transport that it
supports.

    python tests/conformance/run.py                    # every language whose tools are installed
    python tests/conformance/run.py go rust            # these languages
    python tests/conformance/run.py go --cases maps/   # the cases whose names contain `maps/`

The exit code is 0 if exactly the cases failed that are listed in known_failing. tests/conformance/README.md says more.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from suite.cases import load
from suite.languages import languages
from suite.runner import KnownFailing, Outcome, run
from suite.server import Servers, http_setting

_MAX_SHOWN = 10  # failed cases that are shown for one language and transport


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument(
        "languages", nargs="*", metavar="LANGUAGE", help="Languages to run. Default: all whose tools are here."
    )
    parser.add_argument("--cases", default="", metavar="TEXT", help="Only cases whose names hold this text.")
    parser.add_argument("--transport", action="append", metavar="NAME", help="Only this transport: grpc or connect.")
    parser.add_argument("--build-seconds", type=float, default=1800.0, help="How long one command of a build may take.")
    parser.add_argument("--show", type=int, default=_MAX_SHOWN, metavar="N", help="How many failed cases to show.")
    parser.add_argument("--json", action="store_true", help="Print one JSON document instead of a table.")
    parser.add_argument("--required", action="store_true", help="A language that is skipped fails the run.")
    arguments = parser.parse_args()
    with _cache() as cache:
        return _run(arguments, cache)


@contextlib.contextmanager
def _cache():
    """The directory of builds: $XLASHAPE_BUILD_CACHE, or a directory in the user's cache, or one that is removed at the
    end."""
    named = os.environ.get("XLASHAPE_BUILD_CACHE")
    users = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    if named or users.is_dir():
        path = Path(named) if named else users / "xlashape" / "conformance"
        path.mkdir(parents=True, exist_ok=True)
        yield path
    else:
        with tempfile.TemporaryDirectory(prefix="xlashape-conformance-") as made:
            yield Path(made)


def _run(arguments: argparse.Namespace, cache: Path) -> int:
    known_languages = languages(cache)
    unknown = set(arguments.languages) - known_languages.keys()
    if unknown:
        print(
            f"no such language: {', '.join(sorted(unknown))}; there are {', '.join(known_languages)}", file=sys.stderr
        )
        return 2
    cases = list(load(arguments.cases))
    rows: list[dict[str, object]] = []
    failed = not cases
    for name in arguments.languages or known_languages:
        language = known_languages[name]
        reason = language.lacking()
        if reason:
            rows.append({"language": name, "transport": "", "skipped": reason})
            failed |= arguments.required
            continue
        began = time.monotonic()
        reason = language.made(arguments.build_seconds)
        built = time.monotonic() - began
        if reason:
            rows.append({"language": name, "transport": "", "error": f"not built: {reason}"})
            failed = True
            continue
        known = KnownFailing(name)
        unused = known.unused(language.transports, [case.name for case in load()])
        if unused:
            rows.append(
                {"language": name, "transport": "", "error": f"known_failing lists no case: {'; '.join(unused)}"}
            )
            failed = True
        for transport in language.transports:
            if arguments.transport and transport not in arguments.transport:
                continue
            if transport != "grpc" and http_setting() is None:
                rows.append({"language": name, "transport": transport, "skipped": "the server does not speak HTTP"})
                continue
            with Servers(transport) as servers:
                chosen = [case for case in cases if transport == "grpc" or not case.needs_grpc]
                outcome = run(language, transport, servers, chosen, known)
            rows.append(
                {"language": name, "transport": transport, "build_seconds": round(built, 1), **outcome._asdict()}
            )
            failed |= bool(outcome.failed or outcome.surprises)
    if arguments.json:
        print(json.dumps({"cases": len(cases), "rows": rows, "failed": failed}))
    else:
        _print(rows, arguments.show)
    return int(failed)


def _print(rows: list[dict[str, object]], most: int) -> None:
    print(f"{'language':15} {'transport':10} {'passed':>13} {'below':>6} {'known':>6} {'seconds':>8} {'build':>7}")
    for row in rows:
        head = f"{row['language']:15} {row['transport']:10}"
        if "skipped" in row:
            print(f"{head} skipped: {row['skipped']}")
            continue
        if "error" in row:
            print(f"{head} FAILED: {row['error']}")
            continue
        outcome = Outcome(**{name: row[name] for name in Outcome._fields})
        count = outcome.passed + outcome.known + len(outcome.failed)
        wrong = outcome.failed or outcome.surprises
        print(
            f"{head} {f'{outcome.passed} / {count}':>13} {outcome.below:>6} {outcome.known:>6} {outcome.seconds:>8.1f} "
            f"{row['build_seconds']:>7}"
            f"{'  FAILED' if wrong else ''}"
        )
        for name, problems in list(outcome.failed.items())[:most]:
            print(f"    {name}")
            for problem in problems:
                print(f"      {problem}")
        if len(outcome.failed) > most:
            print(f"    … and {len(outcome.failed) - most} more")
        for name in outcome.surprises:
            print(f"    {name}: passed, and known_failing/{row['language']}.txt lists it")


if __name__ == "__main__":
    sys.exit(main())
