"""Writes docs/exactness.md: what is exact, how that is proven, and how many of XLA's recorded answers are met.

    python docs/generate_exactness.py

The numbers are counted in tests/vectors, with the comparisons of the tests. A test runs `page()` and compares.
"""

from __future__ import annotations

import base64
import gzip
import json
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import xlashape as xs

ROOT = Path(__file__).resolve().parents[1]
PAGE = Path(__file__).with_name("exactness.md")
VECTORS = ROOT / "tests" / "vectors"
sys.path.insert(0, str(ROOT / "tests" / "support"))

import xla_versions  # noqa: E402 - the path comes first


class Agreement(NamedTuple):
    """How many answers of XLA are recorded, and how many of ours are the same."""

    what: str
    answers: int
    equal: int
    otherwise: str
    """What the others are."""


class Compared(NamedTuple):
    """A file of recorded answers, and the test that compares all of them."""

    what: str
    file: str
    test: str


COMPARED = (
    Compared(
        "functions of `ShapeUtil`, `LayoutUtil`, `IndexUtil`", "shape_util.jsonl", "shape/test_shape_util_vectors.py"
    ),
    Compared("when two shapes are equal to XLA", "equality.jsonl", "shape/test_equality.py"),
    Compared("prints of modules in many styles", "hlo_print.jsonl", "hlo/test_print.py"),
    Compared("literals, and texts of literals that XLA refuses", "hlo_literals.jsonl", "hlo/test_literal.py"),
    Compared("modules that XLA's verifier accepts or refuses", "verifier.jsonl", "hlo/test_verify_like_xla.py"),
    Compared("shardings in text and protos", "shardings.jsonl", "hlo/test_sharding.py"),
    Compared("sizes and offsets of shards", "sharding_tiles.jsonl", "hlo/test_sharding_values.py"),
    Compared("texts on which reader or writer once differed", "hlo/corpus.jsonl.gz", "hlo/test_corpus.py"),
    Compared("symbolic tiles", "symbolic_tiles.jsonl", "symbolic/test_tile_vectors.py"),
    Compared("published reports about memory that has run out", "memory_reports.jsonl", "why/test_reports.py"),
)
"""Tests are in tests/unit."""


def rows(name: str) -> list[dict[str, Any]]:
    """The rows of a file in tests/vectors."""
    path = VECTORS / name
    with gzip.open(path, "rt", encoding="utf-8") if path.suffix == ".gz" else path.open(encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def agreements() -> Iterator[Agreement]:
    """The comparisons that are counted here."""
    yield from _shapes()
    yield from _maps()
    yield from _operations()
    layouts = [
        (generation, text)
        for row in rows("tpu_layouts.jsonl")[1:]
        for generation in row["generations"]
        for text in row["layouts"]
    ]
    equal = sum([_tpu_layout(text, generation) == text for generation, text in layouts])
    yield Agreement("layouts that libtpu gave to parameters and results, by generation", len(layouts), equal, "")


def _shapes() -> Iterator[Agreement]:
    counts: Counter[str] = Counter()
    equal: Counter[str] = Counter()
    for row in rows("shapes.jsonl"):
        shape = xs.Shape.parse(row["input"])
        found: dict[str, object] = {"text": str(shape)}
        found["shape_proto"] = base64.b64encode(shape.to_proto().SerializeToString(deterministic=True)).decode()
        if "byte_size_of" in row:
            found["byte_size_of"] = xs.shape_util.byte_size_of(shape)
        if "array_size" in row:
            found["array_size"] = xs.shape_util.array_size(shape)
        if "linear_index_one_tile" in row:
            found["linear_index_one_tile"] = xs.layout_util.linear_index(shape, row["index"])
        for name, value in found.items():
            counts[name] += 1
            equal[name] += value == row[name]
    for name, what, otherwise in (
        ("text", "canonical text of shapes", ""),
        ("shape_proto", "protos of shapes, byte for byte", ""),
        ("byte_size_of", "bytes of shapes (`ByteSizeOf`)", ""),
        (
            "array_size",
            "bytes of buffers (`ArraySize`)",
            "ours are larger: XLA's count the padding of the first tile only",
        ),
        ("linear_index_one_tile", "positions in layouts of at most one tile", ""),
    ):
        yield Agreement(what, counts[name], equal[name], otherwise if counts[name] > equal[name] else "")


def _maps() -> Iterator[Agreement]:
    counts: Counter[str] = Counter()
    equal: Counter[str] = Counter()
    for row in rows("maps.jsonl"):
        if row["call"] == "simplify":
            ours, theirs = xs.IndexingMap.parse(row["map"]).simplify(), row["simplified"]
        else:
            ours = xs.IndexingMap.parse(row["first"]).compose(xs.IndexingMap.parse(row["second"]))
            theirs = row["composed"]
        counts[row["call"]] += 1
        equal[row["call"]] += str(ours) == theirs.strip()
    otherwise = "equal as functions; the text is as long as XLA's or shorter"
    for call, what in (("simplify", "texts of simplified maps"), ("compose", "texts of composed maps")):
        yield Agreement(what, counts[call], equal[call], otherwise if counts[call] > equal[call] else "")


def _operations() -> Iterator[Agreement]:
    answers = equal = unknown = 0
    for row in rows("indexing.jsonl"):
        root = xs.HloModule.parse(row["hlo"]).instruction("root")
        pairs = list(zip(xs.indexing.output_to_input(root), row["output_to_input_simplified"], strict=True))
        for operand, theirs in enumerate(row.get("input_to_output_simplified", [])):
            pairs += zip(xs.indexing.input_to_output(root, operand), theirs, strict=True)
        for ours, theirs in pairs:
            if any("UNDEFINED" in text for text in theirs):
                unknown += 1
                continue
            answers += 1
            found = sorted([access.to_text() for access in ours.simplify()])
            equal += found == sorted([text.strip() for text in theirs])
    yield Agreement(
        "simplified maps of operations and fusions, both directions",
        answers,
        equal,
        "equal as functions, which enumeration shows" if answers > equal else "",
    )
    yield Agreement(
        "maps that XLA does not know, and this library does", unknown, 0, "judged by running the operation in NumPy"
    )


def _tpu_layout(text: str, generation: str) -> str:
    shape = xs.Shape.parse(text)
    bare = xs.Shape.array(shape.element_type, shape.dimensions)
    return str(xs.shape.tpu_layout.default_shape(bare, f"tpu-{generation}"))


def versions() -> str:
    """The table of modules that many versions of XLA wrote: how many of them pass each check."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    passed: dict[str, Counter[str]] = defaultdict(Counter)
    for case in xla_versions.cases():
        for check in xla_versions.CHECKS:
            if xla_versions.applies(case, check):
                for version in (case.version, "all"):
                    counts[version][check] += 1
                    passed[version][check] += xla_versions.failure(case, check) is None
    names = sorted(counts.keys() - {"all"}, key=version_key)
    lines = ["| written by | " + " | ".join(xla_versions.CHECKS) + " |", "|---|" + "---|" * len(xla_versions.CHECKS)]
    for name in [*names, "all"]:
        cells = [f"{passed[name][check]} of {counts[name][check]}" for check in xla_versions.CHECKS]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def version_key(name: str) -> tuple[str, list[int]]:
    """Sorts by program, then by version.

    >>> sorted(["jax-0.10.2", "tf-2.6.5", "jax-0.4.13"], key=version_key)
    ['jax-0.4.13', 'jax-0.10.2', 'tf-2.6.5']
    """
    program, _, version = name.rpartition("-")
    return program, [int(part) for part in version.split(".")]


def _agreement_table() -> str:
    lines = ["| what | answers of XLA | equal | the others |", "|---|---|---|---|"]
    for row in agreements():
        equal = f"{row.equal:,}" if row.equal else "–"
        lines.append(f"| {row.what} | {row.answers:,} | {equal} | {row.otherwise} |")
    return "\n".join(lines)


def _compared_table() -> str:
    lines = ["| what | answers of XLA | test |", "|---|---|---|"]
    lines += [f"| {row.what} | {len(rows(row.file)):,} | `tests/unit/{row.test}` |" for row in COMPARED]
    return "\n".join(lines)


def page() -> str:
    """The text of the page."""
    return f"""# What is exact, and how it is proven

Generated by docs/generate_exactness.py; a test checks that it is up to date.

## What is exact

- **Positions and sizes** of every layout: all tiles, `*`, tails, packed elements and the sizes of dynamic dimensions count.
- **Maps** of operations: a map that is marked `EXACT` names exactly the elements that are read, at every point, and no element outside of the array. What operands
  hold is taken to be anything, and where their values decide, the answer is marked. Through while loops and scans the number of the iteration is a variable of
  the map: counters, and offsets and choices that follow from them, are known; where others decide what an iteration reads or overwrites, the map is not `EXACT`.
- **Text and protos** of modules: what is read is what XLA reads, what is printed is what XLA prints, and what the schema does not know is kept.
- **Numbers in reports** (bytes, causes of padding, segments, sizes of suggestions) are computed, not estimated, unless they are marked as estimates or bounds.

Nothing is measured on a device. Reports on reads count what a program asks of memory, not what a cache saves; sizes on TPUs follow rules that were
found from layouts of compiled programs.

## How it is proven

| question | what it is tested against |
|---|---|
| shapes, sizes, text, protos | XLA's own answers, recorded from jaxlib |
| positions of layouts with several tiles, where XLA's functions stop | the formula, by enumeration: every position of random layouts holds one element or padding; arrays packed and unpacked |
| maps | XLA's recorded maps as functions, point by point; and execution: an interpreter in NumPy runs the operation with one element changed |
| maps through loops | random loops over counters, run with one element changed; Jacobians of JAX programs |
| the simplifier | each rule by its law at every point of small domains; random maps before and after |
| layouts on TPUs | those that libtpu's ahead-of-time compiler gave to parameters and results of compiled programs |
| the server | each RPC asked of a server, in the process and through the client, must answer alike; so must all clients, from one suite of cases |
| whether two programs mean the same | stages of XLA's passes, which keep the meaning; changes of one instruction, of which execution by jaxlib says whether they change a value; [bugs of XLA](how-to/which-pass.md#passes-that-were-wrong) |
| bad input | mutated texts and bytes: one error of `xlashape.errors`, and the process lives |

Where jaxlib is installed, tests also ask it directly, for random input.

## Answers of XLA that were recorded

Counted when this page was made:

{_agreement_table()}

All answers of these files are compared by a test, which fails where an answer differs and is not listed with a reason:

{_compared_table()}

## Versions of XLA

Modules that {_programs()} wrote, in text and as protos. jaxlib {xla_versions.NEWEST} says what is right: what it reads of the text, and what it prints.

{versions()}

The columns: the text is read; it is read as jaxlib reads it, field by field; it is printed as jaxlib prints it; the proto is printed as jaxlib prints it;
the proto comes back with all that it holds; every instruction has its maps.

## Where XLA's answer is another

Three lists say where this library differs on purpose, because running the operation shows XLA's answer to be wrong or incomplete:
the [indexing analysis](reference/indexing.md), the [functions of `ShapeUtil` and others](xla_functions.md), and the cases of each test that are listed with a reason.
[Limits](limits.md) says what this library cannot answer.
"""


def _programs() -> str:
    names = {case.version.rpartition("-")[0] for case in xla_versions.cases()}
    words = {"jax": "jaxlib", "tf": "TensorFlow", "tpu-jax": "the compiler for TPUs"}
    return ", ".join([words[name] for name in sorted(names)])


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
