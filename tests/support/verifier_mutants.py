"""Compares XLA's verifier with this library's on mutants: modules with small changes of texts that XLA accepts.

    python tests/support/verifier_mutants.py --python PYTHON [--count 5000] [--seed 0] [--write FILE]

`PYTHON` is an interpreter with the jaxlib of `xla_verifier`. The command prints three tables of mutants: those that XLA
refuses and this library accepts, those that XLA accepts and this library refuses, and those on which this library
raises an unexpected exception or takes too long. Rows are XLA's rules: its messages without names and numbers. Mutants
on which XLA itself gives no answer are counted and named.
"""

from __future__ import annotations

import argparse
import gzip
import json
import re
import signal
import sys
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from tests.support.module_mutants import Mutant, Mutator
from tests.support.xla_verifier import Said, XlaVerifier
from xlashape import HloModule, XlashapeError
from xlashape.hlo.verifier import verify

VECTORS = Path(__file__).resolve().parents[1] / "vectors"
_LONGEST = 6_000
"""The most characters of a text that mutants are made from."""


REFUSED_ON_PURPOSE = (
    "minor_to_major",  # XLA reads layouts that are not an order of the dimensions, and ends its process later
    "an unbounded dimension is dynamic",  # the same, of dynamic dimensions
    "its escapes are not UTF-8",  # such a text has no proto
    "is not a permutation of the iota's dimensions",  # names a device twice
    "inserted and batching dimensions",  # a dimension both inserted and batched
    "the size of an axis:",  # a mesh without devices
    "expected '{' before an array",  # XLA reads the shape of a literal's element twice
    "expected a number of type pred, found ','",  # the same, of a scalar
    "a tile size is 1 or more, not 0",  # XLA reads such tiles, and divides by them later
    "the layout is of",  # XLA reads the shapes of operands that have no name, and drops them
    "a tuple of 1 elements needs as many operands",  # XLA corrects the result of a tuple that a start gives too few
    "topk: k=",  # XLA compares k with a dimension that a scalar does not have
    "features, found f32[]",  # the same, of a mean
    "a literal cannot have element type buffer",  # XLA reads such a constant, whose bytes nothing says
    "the shape of a broadcast must be written",  # XLA infers a shape that its verifier refuses in most cases
)
"""Parts of this library's messages about what it refuses although XLA accepts it."""

ACCEPTED_ON_PURPOSE = (
    "shape equal to s32[], actual shape is u32[]",  # the type that TensorFlow 1.15 has
    "group_count must be a positive number, got 0",  # what protos have that leave the count out
    "expect result to have shape u64[2], got u64[1]",  # the state that modules of older versions of XLA have
)
"""Parts of XLA's messages about what this library accepts although XLA's verifier refuses it."""


class Difference(NamedTuple):
    """A mutant that only one of XLA and this library accepts, or on which this library fails."""

    mutant: Mutant
    xla: Said
    ours: str
    """The first problem that this library reports; "" for none."""
    failed: bool = False
    """Whether this library raised an unexpected exception, or took too long."""

    @property
    def rule(self) -> str:
        """XLA's message without names and numbers; where this library failed, the exception that it raised."""
        message = self.ours if self.failed else self.xla.message or self.ours
        message = re.sub(r"^\w+: |\[[^\]]*hlo_[^\]]*\]|during context.*?:", "", message.strip().splitlines()[0])
        message = re.sub(r"'[^']*'|%\S+|\b\w+\[[^\s]*|-?\d+|\b[\w.-]+\.\d+\b", "…", message)
        return message[:110]


def corpus() -> list[str]:
    """The texts that mutants are made from. XLA accepts most of them."""
    texts = [path.read_text(encoding="utf-8") for path in sorted((VECTORS / "hlo").glob("*.hlo"))]
    for name in ("async", "corpus", "forms"):
        with gzip.open(VECTORS / "hlo" / f"{name}.jsonl.gz", "rt", encoding="utf-8") as lines:
            texts += [json.loads(line)["text"] for line in lines]
    with (VECTORS / "verifier.jsonl").open(encoding="utf-8") as lines:
        texts += [row["text"] for row in map(json.loads, lines) if row["xla"] == "accepts"]
    with (VECTORS / "indexing.jsonl").open(encoding="utf-8") as lines:
        texts += sorted({json.loads(line)["hlo"] for line in lines})
    return [text for text in dict.fromkeys(texts) if len(text) <= _LONGEST]


# -- the comparison -------------------------------------------------------------------------


_SECONDS = 5.0
"""How long this library may take for a mutant. Most take less than a hundredth of a second."""


class Failure(Exception):
    """This library raised an exception that is not an XlashapeError, or took too long."""


@contextmanager
def _limited(seconds: float) -> Generator[None]:
    def stop(*_: object) -> None:
        raise Failure(f"takes longer than {seconds:.0f} seconds")

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def ours(text: str) -> str:
    """The first problem that this library reports about a text; "" where it accepts the text. Raises Failure."""
    try:
        with _limited(_SECONDS):
            return next((str(problem) for problem in verify(HloModule.parse(text), allow_mixed_precision=False)), "")
    except XlashapeError as error:
        return error.message
    except Failure:
        raise
    except Exception as error:
        raise Failure(f"raises {type(error).__name__}: {error}") from error


def difference(mutant: Mutant, said: Said) -> Difference | None:
    """How this library differs from XLA's answer `said` about a mutant. None where both accept or both refuse it, and
    where XLA has no answer, unless this library fails.
    """
    try:
        problem = ours(mutant.text)
    except Failure as failure:
        return Difference(mutant, said, str(failure), failed=True)
    if not said.is_answer:
        return None
    if bool(said.by) == bool(problem) or any(each in problem for each in REFUSED_ON_PURPOSE):
        return None
    if any(each in said.message for each in ACCEPTED_ON_PURPOSE):
        return None
    return Difference(mutant, said, problem)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--python", required=True)
    arguments.add_argument("--count", type=int, default=5_000)
    arguments.add_argument("--seed", type=int, default=0)
    arguments.add_argument("--write", type=Path)
    given = arguments.parse_args()
    missed: Counter[str] = Counter()
    false: Counter[str] = Counter()
    failed: Counter[str] = Counter()
    unanswered: Counter[str] = Counter()
    rows: list[dict[str, str]] = []
    with XlaVerifier(given.python) as xla:
        texts = [text for text in corpus() if not xla.verify(text).by]
        for number, mutant in enumerate(islice(Mutator(texts, given.seed), given.count)):
            said = xla.verify(mutant.text)
            if said.by == "time":
                unanswered[f"{said.by}: mutant {number} of seed {given.seed}, {mutant.kind}"] += 1
            elif not said.is_answer:
                unanswered[said.by] += 1
            found = difference(mutant, said)
            if found is None:
                continue
            counts = failed if found.failed else missed if said.by else false
            counts[f"{said.by}: {found.rule}"] += 1
            rows.append(
                {
                    "kind": mutant.kind,
                    "rule": found.rule,
                    "by": said.by,
                    "xla": said.message,
                    "ours": found.ours,
                    "text": mutant.text,
                }
            )
    if given.write:
        given.write.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    for title, counts in (
        ("XLA refuses, ours accepts", missed),
        ("XLA accepts, ours refuses", false),
        ("ours fails", failed),
        ("XLA has no answer", unanswered),
    ):
        print(f"{title}: {counts.total()} of {given.count} mutants of {len(texts)} texts")
        for rule, count in counts.most_common():
            print(f"{count:6}  {rule}")
    sys.exit(bool(missed or false or failed))


if __name__ == "__main__":
    main()
