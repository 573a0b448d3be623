"""Modules a step away from those that XLA accepts, and what XLA's verifier and ours say of them.

    python tests/support/verifier_mutants.py --python PYTHON [--count 5000] [--seed 0] [--write FILE]

`PYTHON` is an interpreter with the jaxlib of `xla_verifier`. The tables that are printed count, by XLA's rule (its
message without names and numbers), the mutants that XLA refuses and ours accepts and those that XLA accepts and ours
refuses; and those on which ours raises an exception or takes too long. Mutants on which XLA itself gives no answer are
counted and named.
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import re
import signal
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from tests.support.xla_verifier import Said, XlaVerifier
from xlashape import HloModule, XlashapeError
from xlashape.hlo.verifier import verify

VECTORS = Path(__file__).resolve().parents[1] / "vectors"
_LONGEST = 6_000
"""Characters of a text that mutants are made of."""


REFUSED_ON_PURPOSE = (
    "minor_to_major",  # XLA reads layouts that are not an order of the dimensions, and ends its process later
    "an unbounded dimension is dynamic",  # the same, of dynamic dimensions
    "its escapes are not UTF-8",  # such a text has no proto
    "is not a permutation of the iota's dimensions",  # names a device twice
    "inserted and batching dimensions",  # a dimension both inserted and batched
    "the size of an axis: 0",  # a mesh without devices
    "expected '{' before an array",  # XLA reads the shape of a literal's element twice
    "expected a number of type pred, found ','",  # the same, of a scalar
    "the shape of a broadcast must be written",  # XLA infers a shape that its verifier refuses in most cases
)
"""What this library refuses although XLA accepts it: parts of its messages."""

ACCEPTED_ON_PURPOSE = (
    "expect result to have shape u64[2], got u64[1]",  # the state that modules of older versions of XLA have
)
"""What this library accepts although XLA's verifier refuses it: parts of XLA's messages."""


class Mutant(NamedTuple):
    """A changed text, and how it was changed."""

    kind: str
    text: str


class Difference(NamedTuple):
    """A mutant of which XLA says something else than this library, or on which this library fails."""

    mutant: Mutant
    xla: Said
    ours: str
    """The first problem that ours has; "" for none."""
    failed: bool = False
    """Whether ours raised an exception, or took too long."""

    @property
    def rule(self) -> str:
        """XLA's message without names and numbers; of a failure, what ours raised."""
        message = self.ours if self.failed else self.xla.message or self.ours
        message = re.sub(r"^\w+: |\[[^\]]*hlo_[^\]]*\]|during context.*?:", "", message.strip().splitlines()[0])
        message = re.sub(r"'[^']*'|%\S+|\b\w+\[[^\s]*|-?\d+|\b[\w.-]+\.\d+\b", "…", message)
        return message[:110]


def corpus() -> list[str]:
    """The texts that mutants are made of. XLA accepts most of them."""
    texts = [path.read_text(encoding="utf-8") for path in sorted((VECTORS / "hlo").glob("*.hlo"))]
    for name in ("async", "corpus", "forms"):
        with gzip.open(VECTORS / "hlo" / f"{name}.jsonl.gz", "rt", encoding="utf-8") as lines:
            texts += [json.loads(line)["text"] for line in lines]
    with (VECTORS / "verifier.jsonl").open(encoding="utf-8") as lines:
        texts += [row["text"] for row in map(json.loads, lines) if row["xla"] == "accepts"]
    with (VECTORS / "indexing.jsonl").open(encoding="utf-8") as lines:
        texts += sorted({json.loads(line)["hlo"] for line in lines})
    return [text for text in dict.fromkeys(texts) if len(text) <= _LONGEST]


# -- mutations ------------------------------------------------------------------------------

_LINE = re.compile(r"^ *(?:ROOT )?%?([\w.-]+) = .*\)", re.MULTILINE)
_SHAPE = re.compile(r"\b(?:[a-z]+\d+\w*|pred|token)\[[\d,<=?]*\](?:\{[\d,]*(?::[\w(),*]+)?\})?")
_TYPES = ("pred", "s4", "s8", "s32", "u8", "u32", "u64", "s64", "bf16", "f16", "f32", "f64", "c64", "f8e4m3fn", "token")
_ATTRIBUTE = re.compile(r", ([a-z_-]+)=")
_OPCODE = re.compile(r"(?<= )([a-z][a-z-]*)(?=\()")
_LAYOUTS = (
    "{0}",
    "{1,0}",
    "{0,1}",
    "{0:S(1)}",
    "{1,0:S(5)}",
    "{0:T(128)}",
    "{1,0:T(8,128)}",
    "{0:E(4)}",
    "{0:#(u8)}",
    "",
)


class Mutator:
    """Makes mutants of the texts of a corpus."""

    def __init__(self, texts: Sequence[str], seed: int) -> None:
        self._texts = texts
        self._random = random.Random(seed)
        self._values: dict[str, list[str]] = defaultdict(list)
        opcodes: set[str] = set()
        for text in texts:
            for name, value in _attributes(text):
                if len(value) < 200:
                    self._values[name].append(value)
            opcodes.update(_OPCODE.findall(text))
        self._values = {name: sorted(set(values)) for name, values in sorted(self._values.items())}
        self._opcodes = sorted(opcodes)
        self._kinds: dict[str, Callable[[str], str | None]] = {
            name[1:]: getattr(self, name)
            for name in dir(self)
            if re.match(r"_(change|drop|add|swap|repeat|move)_", name)
        }

    def __iter__(self) -> Iterator[Mutant]:
        """Mutants without end."""
        names = sorted(self._kinds)
        while True:
            text = self._random.choice(self._texts)
            kinds = [self._random.choice(names) for _ in range(self._random.choice((1, 1, 1, 2)))]
            mutant: str | None = text
            for kind in kinds:
                mutant = None if mutant is None else self._kinds[kind](mutant)
            if mutant is not None and mutant != text:
                yield Mutant("+".join(kinds), mutant)

    def _one(self, pattern: re.Pattern[str], text: str) -> re.Match[str] | None:
        found = list(pattern.finditer(text))
        return self._random.choice(found) if found else None

    def _changed(self, text: str, pattern: re.Pattern[str], new: Callable[[re.Match[str]], str]) -> str | None:
        found = self._one(pattern, text)
        return None if found is None else text[: found.start()] + new(found) + text[found.end() :]

    def _change_number(self, text: str) -> str | None:
        def near(found: re.Match[str]) -> str:
            return str(
                self._random.choice((0, 1, 2, 3, int(found[0]) + 1, max(0, int(found[0]) - 1), 2 * int(found[0])))
            )

        return self._changed(text, re.compile(r"(?<![\w.])\d{1,9}(?![\w.])"), near)

    def _change_type(self, text: str) -> str | None:
        return self._changed(text, re.compile(r"\b(?:[a-z]+\d+\w*|pred)(?=\[)"), lambda _: self._random.choice(_TYPES))

    def _change_shape(self, text: str) -> str | None:
        shapes = _SHAPE.findall(text) or ["f32[]"]
        return self._changed(text, _SHAPE, lambda _: self._random.choice(shapes))

    def _change_layout(self, text: str) -> str | None:
        pattern = re.compile(r"(?<=\])(\{[\d,]*(?::[\w(),*]+)?\})?(?= |,|\))")
        return self._changed(text, pattern, lambda _: self._random.choice(_LAYOUTS))

    def _change_dimensions(self, text: str) -> str | None:
        dims = ("", "1", "2", "4", "2,3", "<=4", "4,4", "?")
        return self._changed(text, re.compile(r"(?<=[a-z\d]\[)[\d,]*(?=\])"), lambda _: self._random.choice(dims))

    def _change_opcode(self, text: str) -> str | None:
        return self._changed(text, _OPCODE, lambda _: self._random.choice(self._opcodes))

    def _operands(self, text: str) -> re.Match[str] | None:
        return self._one(re.compile(r"(?<= [a-z])([a-z-]*\()((?:%?[\w.-]+(?:, ?)?)+)(?=\))"), text)

    def _change_operand(self, text: str) -> str | None:
        found, names = self._operands(text), _LINE.findall(text)
        if found is None or not names:
            return None
        operands = found[2].split(",")
        operands[self._random.randrange(len(operands))] = self._random.choice(names)
        return text[: found.start(2)] + ",".join(operands) + text[found.end(2) :]

    def _drop_operand(self, text: str) -> str | None:
        found = self._operands(text)
        if found is None:
            return None
        operands = found[2].split(",")
        del operands[self._random.randrange(len(operands))]
        return text[: found.start(2)] + ",".join(operands) + text[found.end(2) :]

    def _repeat_operand(self, text: str) -> str | None:
        found = self._operands(text)
        if found is None:
            return None
        operands = found[2].split(",")
        operands.insert(self._random.randrange(len(operands)), self._random.choice(operands))
        return text[: found.start(2)] + ",".join(operands) + text[found.end(2) :]

    def _swap_operands(self, text: str) -> str | None:
        found = self._operands(text)
        if found is None:
            return None
        operands = found[2].split(",")
        self._random.shuffle(operands)
        return text[: found.start(2)] + ",".join(operands) + text[found.end(2) :]

    def _drop_attribute(self, text: str) -> str | None:
        spans = list(_attribute_spans(text))
        if not spans:
            return None
        start, _, end = self._random.choice(spans)
        return text[:start] + text[end:]

    def _change_attribute(self, text: str) -> str | None:
        spans = [span for span in _attribute_spans(text) if _name_of(text, span) in self._values]
        if not spans:
            return None
        span = self._random.choice(spans)
        values = self._values[_name_of(text, span)]
        if "%" in "".join(values) or _name_of(text, span) in _COMPUTATIONS:
            values = re.findall(r"^(?:ENTRY )?(%?[\w.-]+) .*\{$", text, re.MULTILINE) or values
        return text[: span[1]] + self._random.choice(values) + text[span[2] :]

    def _add_attribute(self, text: str) -> str | None:
        name = self._random.choice(sorted(self._values))
        return self._changed(text, _LINE, lambda found: f"{found[0]}, {name}={self._random.choice(self._values[name])}")

    def _add_common_attribute(self, text: str) -> str | None:
        names = _LINE.findall(text) or ["p"]
        added = self._random.choice(
            (
                f"control-predecessors={{{self._random.choice(names)}}}",
                "sharding={"
                + self._random.choice(("replicated", "maximal device=1", "devices=[2]<=[2]", "manual"))
                + "}",
                f'async_execution_thread="{self._random.choice(("a", "main", "b"))}"',
                "channel_id=1",
                "is_host_transfer=true",
                "output_to_operand_aliasing={{}: (0, {})}",
                'frontend_attributes={_xla_stream_annotation="1"}',
            )
        )
        return self._changed(text, re.compile(r"^ +.*\w+ = .*$", re.MULTILINE), lambda found: f"{found[0]}, {added}")

    def _add_thread(self, text: str) -> str | None:
        return self._changed(
            text, re.compile(r"^\}", re.MULTILINE), lambda _: f'}}, execution_thread="{self._random.choice("ab")}"'
        )

    def _add_header(self, text: str) -> str | None:
        added = self._random.choice(
            (
                "replica_count=2",
                "num_partitions=2",
                "is_scheduled=true",
                "input_output_alias={ {}: (0, {}, may-alias) }",
                "input_output_alias={ {0}: (0, {}, must-alias), {1}: (0, {}) }",
                "buffer_donor={ (0, {}) }",
                "entry_computation_layout={(f32[4]{0})->f32[4]{0}}",
            )
        )
        return self._changed(
            text, re.compile(r"^HloModule [\w.-]+", re.MULTILINE), lambda found: f"{found[0]}, {added}"
        )

    def _drop_line(self, text: str) -> str | None:
        return self._changed(text, re.compile(r"^  .* = .*\n", re.MULTILINE), lambda _: "")

    def _repeat_line(self, text: str) -> str | None:
        number = self._random.randrange(1000)
        pattern = re.compile(r"^(  )(?:ROOT )?(%?[\w.-]+)( = .*\n)", re.MULTILINE)
        return self._changed(text, pattern, lambda found: f"{found[0]}{found[1]}{found[2]}.{number}{found[3]}")

    def _swap_lines(self, text: str) -> str | None:
        pattern = re.compile(r"^(  .* = .*\n)(  .* = .*\n)", re.MULTILINE)
        return self._changed(text, pattern, lambda found: found[2] + found[1])

    def _move_root(self, text: str) -> str | None:
        found = self._one(re.compile(r"^  (?=%?[\w.-]+ = )", re.MULTILINE), text)
        if found is None:
            return None
        begin = text.rfind("{\n", 0, found.start())
        end = text.find("\n}", found.start())
        if begin < 0 or end < 0:
            return None
        body = text[begin : found.end()].replace("ROOT ", "") + "ROOT " + text[found.end() : end].replace("ROOT ", "")
        return text[:begin] + body + text[end:]

    def _drop_tuple(self, text: str) -> str | None:
        return self._changed(
            text,
            re.compile(r"\(([^()=%]*\[[^()=%]*), ?([^(),=%]*\[[^()=%,]*\][^()=%,]*)\)"),
            lambda found: f"({found[1]})",
        )

    def _add_tuple(self, text: str) -> str | None:
        return self._changed(
            text,
            _SHAPE,
            lambda found: self._random.choice((f"({found[0]})", f"{found[0]}, {found[0]}", f"b({found[0]})")),
        )


_COMPUTATIONS = frozenset(
    ("body", "calls", "condition", "scatter", "select", "to_apply", "true_computation", "false_computation")
)


def _attribute_spans(text: str) -> Iterator[tuple[int, int, int]]:
    """Where each attribute begins, where its value begins and where it ends."""
    for found in _ATTRIBUTE.finditer(text):
        depth, at, quoted = 0, found.end(), False
        while at < len(text):
            character = text[at]
            if quoted:
                at += character == "\\"
                quoted = character != '"'
            elif character == '"':
                quoted = True
            elif character in "{[(":
                depth += 1
            elif character in "}])":
                if not depth:
                    break
                depth -= 1
            elif not depth and character in ",\n ":
                break
            at += 1
        yield found.start(), found.end(), at


def _name_of(text: str, span: tuple[int, int, int]) -> str:
    return text[span[0] + 2 : span[1] - 1]


def _attributes(text: str) -> Iterator[tuple[str, str]]:
    for span in _attribute_spans(text):
        yield _name_of(text, span), text[span[1] : span[2]]


# -- the comparison -------------------------------------------------------------------------


_SECONDS = 5.0
"""How long this library may take for a mutant. Most take less than a hundredth of a second."""


class Failure(Exception):
    """This library raised an exception that is none of its own, or took too long."""


@contextmanager
def _limited(seconds: float) -> Iterator[None]:
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
    """What this library says of a text; "" where it accepts it. Raises Failure."""
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
    """How this library differs from what XLA says of a mutant; None where both accept it or both refuse it, or where
    XLA has no answer and ours any.
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
