"""Tuples, barriers, tokens, halves of asynchronous operations, branches, loops, custom calls."""

from __future__ import annotations

import random

from hlo_builder import Builder

from execution.case import Case, family, integers, make, sizes, text

ASYNCHRONOUS = "XLA runs asynchronous operations of the CPU only in forms that it has made itself"
ELSEWHERE = "it waits for data from outside of the module"


def _arrays(r: random.Random, count: int) -> list[str]:
    return [text("s64", sizes(r, 0, 2, 3)) for _ in range(count)]


def _tuple(parts: list[str]) -> str:
    return f"({', '.join(parts)})"


@family(seeds=8)
def tuple_(r: random.Random, seed: int) -> Case:
    parts = _arrays(r, r.randint(1, 3))
    if seed % 2:
        parts.append(_tuple(_arrays(r, 2)))
    r.shuffle(parts)
    return make("tuple", _tuple(parts), parts)


@family(seeds=8)
def get_tuple_element(r: random.Random, seed: int) -> Case:
    parts = [*_arrays(r, 2), _tuple(_arrays(r, 2)), *_arrays(r, 1)]
    r.shuffle(parts)
    at = r.randrange(4)
    return make("get-tuple-element", parts[at], [_tuple(parts)], tuple_index=at)


@family(seeds=8)
def passed_on(r: random.Random, seed: int) -> Case:
    opcode = ("opt-barrier", "domain")[seed % 2]
    shape = _tuple(_arrays(r, 2)) if opcode == "opt-barrier" and seed % 4 == 0 else _arrays(r, 1)[0]
    replicated = {"type": "REPLICATED"}
    fields = {"domain_entry_sharding": replicated, "domain_exit_sharding": replicated} if opcode == "domain" else {}
    return make(opcode, shape, [shape], **fields)


@family(seeds=4, not_by_xla=ASYNCHRONOUS)
def add_dependency(r: random.Random, seed: int) -> Case:
    (one,) = _arrays(r, 1)
    return make("add-dependency", one, [one, "token[]"])


def _wrapped(r: random.Random) -> tuple[Builder, list[str], str]:
    """A computation for an asynchronous operation: the sum of a reversed array and another array."""
    dims = sizes(r, 1, 2)
    one = text("s64", dims)
    inner = Builder("wrapped")
    a, b = inner.parameter(one), inner.parameter(one)
    inner.op("add", one, [inner.op("reverse", one, [a], dimensions=[0]), b])
    return inner, [one, one], one


@family(seeds=5, not_by_xla=ASYNCHRONOUS)
def async_start(r: random.Random, seed: int) -> Case:
    inner, operands, result = _wrapped(r)
    return make("async-start", f"({_tuple(operands)}, {result}, u32[])", operands, calls=[inner])


@family(seeds=12, not_by_xla=ASYNCHRONOUS)
def second_halves(r: random.Random, seed: int) -> Case:
    """The operation that takes the results out of the tuple that a start returns."""
    opcode = (
        "async-done",
        "async-update",
        "all-gather-done",
        "all-reduce-done",
        "copy-done",
        "collective-permute-done",
    )[seed % 6]
    (one,) = _arrays(r, 1)
    if opcode in ("async-done", "async-update", "all-gather-done"):
        started = (
            f"({_tuple(_arrays(r, 2))}, {one}, u32[])"
            if opcode != "all-gather-done"
            else _tuple([_arrays(r, 1)[0], one])
        )
        return make(opcode, started if opcode == "async-update" else one, [started])
    if opcode == "all-reduce-done":
        return make(opcode, one, [one])
    return make(opcode, one, [f"({one}, {one}, u32[])"])


@family(seeds=4, not_by_xla=ASYNCHRONOUS)
def copy_start(r: random.Random, seed: int) -> Case:
    (one,) = _arrays(r, 1)
    return make("copy-start", f"({one}, {one}, u32[])", [one])


@family(seeds=14, not_by_xla=ELSEWHERE)
def tokens(r: random.Random, seed: int) -> Case:
    """Operations on tokens, some of which pass data on."""
    (one,) = _arrays(r, 1)
    pending = f"({one}, u32[], token[])"
    cases = {
        "after-all": ("token[]", ["token[]"] * 3),
        "infeed": (f"(({one}, {one}), token[])", ["token[]"]),
        "outfeed": ("token[]", [one, "token[]"]),
        "send": (pending, [one, "token[]"]),
        "send-done": ("token[]", [pending]),
        "recv": (pending, ["token[]"]),
        "recv-done": (f"({one}, token[])", [pending]),
    }
    opcode = list(cases)[seed % 7]
    shape, operands = cases[opcode]
    return make(opcode, shape, operands)


@family(seeds=5, not_by_xla="its target is unknown to XLA too")
def custom_call(r: random.Random, seed: int) -> Case:
    shape = _tuple(_arrays(r, 2)) if seed % 2 else _arrays(r, 1)[0]
    operands = [_arrays(r, 1)[0], _tuple(_arrays(r, 2))]
    return make("custom-call", shape.replace("s64", "f64"), operands, custom_call_target="elsewhere")


@family(seeds=10)
def conditional(r: random.Random, seed: int) -> Case:
    """Two branches selected by a predicate, or three by a number, which may be out of range; arguments of different
    shapes, one of them a tuple.
    """
    n = r.randint(2, 4)
    out = f"s64[{n}]"
    turned, spread, added = Builder("turned"), Builder("spread"), Builder("added")
    turned.op("reverse", out, [turned.parameter(out)], dimensions=[0])
    spread.op("broadcast", out, [spread.parameter("s64[]")], dimensions=[])
    pair = added.parameter(f"({out}, {out})")
    parts = [added.op("get-tuple-element", out, [pair], tuple_index=i) for i in range(2)]
    added.op("add", out, parts)
    branches = [(turned, out), (spread, "s64[]"), (added, f"({out}, {out})")]
    r.shuffle(branches)
    selector = "s32[]"
    if seed % 2:
        selector, branches = "pred[]", branches[:2]
    arguments = [shape for _, shape in branches]
    domain = {} if seed % 2 else {0: integers(-1, 3)}
    case = {"domains": domain, "union": frozenset(range(len(arguments) + 1)), "draws": 16}
    return make("conditional", out, [selector, *arguments], calls=[called for called, _ in branches], case=case)


@family(seeds=8)
def while_(r: random.Random, seed: int) -> Case:
    """A loop over a counter, an array that each step changes, and two arrays that are passed through, one of them in a
    nested tuple."""
    # n is even, so that no element of the reversed array keeps its index.
    n, limit = r.choice([2, 4]), r.randint(2, 3)
    array = f"s64[{n}]"
    state = f"(s32[], {array}, {array}, (s64[]))"
    parts = ["s32[]", array, array, "(s64[])"]
    body, condition = Builder("body"), Builder("condition")
    at = body.parameter(state)
    count, changed, kept, inner = (
        body.op("get-tuple-element", part, [at], tuple_index=i) for i, part in enumerate(parts)
    )
    count = body.op("add", "s32[]", [count, body.constant("s32[]", [1])])
    turned = body.op("reverse", array, [changed], dimensions=[0])
    both = body.op("add", array, [turned, kept]) if seed % 2 else turned
    body.op("tuple", state, [count, both, kept, inner])
    at = condition.parameter(state)
    count = condition.op("get-tuple-element", "s32[]", [at], tuple_index=0)
    condition.op("compare", "pred[]", [count, condition.constant("s32[]", [limit])], comparison_direction="LT")
    # A counter that is large at the start ends the loop before its first iteration: the result is then the start value.
    case = {"domains": {(0, 0): integers(0, limit + 2)}, "union": frozenset({0}), "draws": 10}
    return make("while", state, [state], calls=[body, condition], case=case)
