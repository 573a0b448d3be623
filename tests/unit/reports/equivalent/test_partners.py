"""Where programs part: the first instructions without a partner, of programs that are written in other ways too, and
constants that stand in the place of others."""

from __future__ import annotations

import random
import re

import numpy as np
import pytest
from equivalent_programs import PROGRAMS, before, rows, texts

import xlashape as xs
from xlashape.evaluation.run_module import module_of
from xlashape.reports.equivalent import compare
from xlashape.reports.equivalent.compare import ComparedProgram, Comparison
from xlashape.reports.equivalent.draws import scaled

ROWS, COLUMNS, STEPS = 4, 6, 8


class Written:
    """Writes a program step by step: of arrays as they are, or transposed where `random` says so; every array under a
    name of its own."""

    def __init__(self, name: str, turns: random.Random | None) -> None:
        self.name, self.turns = name, turns
        self.lines = [f"p{i} = f32[{ROWS},{COLUMNS}] parameter({i})" for i in range(2 * STEPS + 1)]
        self.last, self.is_turned = "p0", False
        self.named: dict[int, str] = {}
        self.count = 0

    def put(self, shape: str, text: str) -> str:
        self.count += 1
        self.lines.append(f"{self.name}{self.count} = f32[{shape}] {text}")
        return f"{self.name}{self.count}"

    @property
    def shape(self) -> str:
        return f"{COLUMNS},{ROWS}" if self.is_turned else f"{ROWS},{COLUMNS}"

    def operand(self, number: int) -> str:
        if self.is_turned:
            return self.put(self.shape, f"transpose(p{number}), dimensions={{1,0}}")
        return f"p{number}"

    def step(self, number: int, what: str) -> None:
        """Each step has parameters of its own, so that it cannot undo another one."""
        if self.turns is not None and self.turns.random() < 0.4:
            self.is_turned = not self.is_turned
            self.last = self.put(self.shape, f"transpose({self.last}), dimensions={{1,0}}")
        if what in ("tanh", "sine", "negate"):
            self.last = self.put(self.shape, f"{what}({self.last})")
        elif what == "both":
            one, other = self.operand(2 * number + 1), self.operand(2 * number + 2)
            if self.turns is None:  # (x + y) z
                self.last = self.put(self.shape, f"add({self.last}, {one})")
                self.last = self.put(self.shape, f"multiply({self.last}, {other})")
            else:  # x z + y z
                parts = [self.put(self.shape, f"multiply({x}, {other})") for x in (self.last, one)]
                self.last = self.put(self.shape, f"add({', '.join(parts)})")
        else:
            self.last = self.put(self.shape, f"{what}({self.last}, {self.operand(2 * number + 1)})")
        self.named[number] = self.last

    def text(self) -> str:
        if self.is_turned:
            self.last = self.put(f"{ROWS},{COLUMNS}", f"transpose({self.last}), dimensions={{1,0}}")
        self.lines[-1] = f"ROOT {self.lines[-1]}"
        return "ENTRY e {{ {} }}".format("\n  ".join(self.lines))


@pytest.mark.parametrize("seed", range(40))
def test_the_step_that_differs_is_named_in_both_programs(seed: int) -> None:
    """Programs of random steps, the second of which transposes arrays, distributes products, and has one other step."""
    rng = random.Random(seed)
    steps = [rng.choice(["tanh", "sine", "add", "multiply", "subtract", "both"]) for _ in range(STEPS)]
    wrong = rng.choice([n for n, what in enumerate(steps) if what != "both"])
    others = {"tanh": "sine", "sine": "negate", "add": "subtract", "multiply": "add", "subtract": "multiply"}
    one, other, same = Written("a", None), Written("b", random.Random(seed)), Written("c", random.Random(seed))
    for number, what in enumerate(steps):
        one.step(number, what)
        other.step(number, others[what] if number == wrong else what)
        same.step(number, what)
    text = one.text()
    assert xs.equivalent(text, same.text()).is_equal
    found = xs.equivalent(text, other.text())
    assert found.verdict == "differs"
    assert found.instruction == other.named[wrong]
    names = f"{other.named[wrong]} in B, {one.named[wrong]} in A"
    assert f"the first instruction whose value has no partner: {names}" in found.headline()


def test_a_step_that_is_left_out_is_named_in_the_program_that_has_it() -> None:
    text = (
        """ENTRY e { x = f32[8] parameter(0) y = f32[8] parameter(1) s = f32[8] add(x, y) ROOT t = f32[8] tanh(s) }"""
    )
    without = text.replace("ROOT t = f32[8] tanh(s)", "").replace("s = f32[8] add", "ROOT s = f32[8] add")
    assert "no partner: t in A" in xs.equivalent(text, without).headline()
    assert "no partner: t in B" in xs.equivalent(without, text).headline()


def test_elements_in_another_order_alone_are_found() -> None:
    """No value differs but in the order of its elements."""
    text = """ENTRY e { x = f32[5,5] parameter(0) n = f32[5,5] negate(x) t = f32[5,5] transpose(n), dimensions={1,0}
      r = f32[25] reshape(t) ROOT s = f32[5,5] reshape(r) }"""
    straight = text.replace("dimensions={1,0}", "dimensions={0,1}")
    for one, other, told in ((text, straight, "t in A"), (straight, text, "t in B")):
        found = xs.equivalent(one, other)
        assert found.verdict == "differs" and f"has no partner: {told}" in found.headline()


LARGE = """ENTRY e {{ x = f32[1024,1024] parameter(0) y = f32[1024,1024] parameter(1) a = f32[1024,1024] add(x, y)
  b = f32[1024,1024] tanh(a) t = f32[1024,1024] transpose(b), dimensions={{1,0}} c = f32[1024,1024] {}(t, y)
  d = f32[1024,1024] sine(c) f = f32[1024,1024] add(d, x) g = f32[1024,1024] negate(f) h = f32[1024,1024] tanh(g)
  i = f32[1024,1024] add(h, y) j = f32[1024,1024] {}(i) ROOT k = f32[1024,1024] add(j, x) }}"""


def test_where_large_programs_part(monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = LARGE.format("multiply", "sine"), LARGE.format("add", "cosine")
    assert "has no partner: c in B, c in A" in xs.equivalent(one, other).headline()
    monkeypatch.setattr(compare, "_MOST_ALONE", 0)
    told = re.search(r"has no partner is this, or one before: (\w+) in B", xs.equivalent(one, other).headline())
    assert told is not None and told[1] in "cdfghijk"


# -- constants -----------------------------------------------------------------------------------

CONSTANTS: dict[str, tuple[str, tuple[float, float]]] = {
    "beside a square": (
        "m = f32[64] multiply(x, x) b = f32[64] broadcast(c), dimensions={} s = f32[64] add(m, b) q = f32[64] rsqrt(s) ROOT r = f32[64] multiply(q, x)",
        (1e-6, 1e-5),
    ),
    "beside a root": (
        "m = f32[64] multiply(x, x) q = f32[64] sqrt(m) b = f32[64] broadcast(c), dimensions={} s = f32[64] add(q, b) ROOT r = f32[64] divide(x, s)",
        (1e-8, 1e-7),
    ),
    "beside a number": (
        "a = f32[64] abs(x) b = f32[64] broadcast(c), dimensions={} s = f32[64] add(a, b) ROOT r = f32[64] log(s)",
        (1e-7, 1e-6),
    ),
    "a bound": ("b = f32[64] broadcast(c), dimensions={} ROOT r = f32[64] minimum(x, b)", (100, 1000)),
    "a threshold": (
        "b = f32[64] broadcast(c), dimensions={} p = pred[64] compare(x, b), direction=GT n = f32[64] negate(x) ROOT r = f32[64] select(p, x, n)",
        (2000, 3000),
    ),
    "a factor": ("b = f32[64] broadcast(c), dimensions={} ROOT r = f32[64] multiply(x, b)", (3, 4)),
}


def with_constant(form: str, value: float) -> str:
    return f"ENTRY e {{ x = f32[64] parameter(0) c = f32[] constant({value}) {CONSTANTS[form][0]} }}"


@pytest.mark.parametrize("form", CONSTANTS)
@pytest.mark.parametrize("turned", [False, True])
def test_another_constant_is_told_and_inputs_show_it(form: str, turned: bool) -> None:
    values = CONSTANTS[form][1][::-1] if turned else CONSTANTS[form][1]
    texts = [with_constant(form, value) for value in values]
    found = xs.equivalent(*texts)
    assert found.verdict == "differs", found.headline()
    told = [f"{np.float32(value)!s} of c" for value in values]
    assert found.constants == (f"{told[0]} became {told[1]}: with the former the programs compute the same",)
    assert found.instruction == "c"
    assert found.inputs is not None and found.output is not None
    one, other = [xs.evaluate(text, found.inputs)[0][found.element] for text in texts]
    assert abs(one - other) > 1e-2 * max(abs(one), abs(other))


@pytest.mark.parametrize("form", CONSTANTS)
def test_a_constant_that_rounding_changes_is_no_difference(form: str) -> None:
    value = CONSTANTS[form][1][0]
    for factor in (1 + 2e-7, 1 - 2e-7, 1 + 1e-6):
        found = xs.equivalent(with_constant(form, value), with_constant(form, value * factor))
        assert found.verdict != "differs", (factor, found.headline())


def test_a_constant_in_a_loop_is_told() -> None:
    text = """body { s = (s32[], f32[8]) parameter(0) i = s32[] get-tuple-element(s), index=0 x = f32[8] get-tuple-element(s), index=1
      one = s32[] constant(1) j = s32[] add(i, one) e = f32[] constant(%s) b = f32[8] broadcast(e), dimensions={}
      m = f32[8] multiply(x, x) a = f32[8] add(m, b) q = f32[8] rsqrt(a) y = f32[8] multiply(x, q)
      ROOT t = (s32[], f32[8]) tuple(j, y) }
    cond { s = (s32[], f32[8]) parameter(0) i = s32[] get-tuple-element(s), index=0 n = s32[] constant(3)
      ROOT c = pred[] compare(i, n), direction=LT }
    ENTRY e { x = f32[8] parameter(0) z = s32[] constant(0) s = (s32[], f32[8]) tuple(z, x)
      w = (s32[], f32[8]) while(s), condition=cond, body=body ROOT r = f32[8] get-tuple-element(w), index=1 }"""
    found = xs.equivalent(text % "1e-6", text % "1e-5")
    assert found.constants == ("1e-06 of e became 1e-05 of e",)
    assert (found.verdict, found.instruction) == ("differs", "w")


KINDS = {"f16": 2**-10, "bf16": 2**-7, "f32": 2**-23, "f64": 2**-52}


@pytest.mark.parametrize("size", [1e-32, 1e-20, 1e-9, 1e-4, 1e-3, 1.0, 1e3, 1e9, 1e20, 1e30])
@pytest.mark.parametrize("kind", KINDS)
def test_what_rounding_explains_is_no_witness(size: float, kind: str) -> None:
    """Of numbers of any size, gaps within a few roundings are none, nor those that roundings hide; others are."""
    rng = np.random.default_rng(3)
    x = rng.normal(size=200) * size
    grain = compare.grain_of([xs.HloModule.parse(f"ENTRY e {{ ROOT x = {kind}[200] parameter(0) }}")])
    assert grain == 16 * KINDS[kind]
    near = x * (1 + rng.uniform(-4, 4, 200) * KINDS[kind])
    assert compare.differing(x, near, x, near, grain=grain) is None
    assert compare.differing(x, 2 * x, x, x, grain=grain) is None
    assert (compare.differing(x, 2 * x, x, 2 * x, grain=grain) is not None) == (size > 1e-30)


@pytest.mark.parametrize("program", [program for program in PROGRAMS if not program.startswith("g_")])
def test_stages_agree_on_numbers_of_all_sizes(program: str) -> None:
    """But for the stage that is wrong, whether or not they are equal as formulas."""
    names = list(texts(program))
    wrong = {row["first"] for row in rows("historic")}
    comparison = Comparison([module_of(before(program))])
    last = comparison.whole
    for name in names[1:]:
        this = ComparedProgram(module_of(texts(program)[name]))
        if name not in wrong and (name in names[-2:] or len(names) < 8):
            assert comparison.shown_with(last, this, scaled(comparison.draws[0], [1e-5, 100.0])) is None, name
        last = this
