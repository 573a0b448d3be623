"""Elementwise operations, on numbers for which a change of any operand changes the result; map; random numbers;
bitcast-convert.
"""

from __future__ import annotations

import random
from typing import Any

from hlo_builder import Builder

from execution.case import Case, choice, family, integers, make, sizes, text, uniform
from xlashape.hlo import Opcode
from xlashape.hlo.ops.operation import ReadPattern
from xlashape.hlo.ops.registry import operation_of

ELEMENTWISE = [opcode for opcode in Opcode if operation_of(opcode).reads is ReadPattern.SAME]
UNARY = [one for one in ELEMENTWISE if operation_of(one).arity == 1 and one is not Opcode.BITCAST_CONVERT]
BINARY = [one for one in ELEMENTWISE if operation_of(one).arity == 2]

WHOLE = {"not", "popcnt", "count-leading-zeros"}
ROUNDING = {"ceil", "floor", "round-nearest-afz", "round-nearest-even", "sign", "reduce-precision"}
# Inverse functions that are defined between -1 and 1 alone.
INSIDE = {"acos", "asin", "atanh"}
BITS = {"and", "or", "xor", "mulhi", "shift-left", "shift-right-arithmetic", "shift-right-logical"}


NOT_ON_A_CPU = {
    **dict.fromkeys(
        ("acos", "acosh", "asin", "asinh", "atanh", "cosh", "sinh"),
        "XLA compiles what it is made of, not the operation",
    ),
    **dict.fromkeys(("exp2", "log2", "mulhi"), "StableHLO, in which XLA takes modules, does not have it"),
}
UNARY_BY_BOTH = tuple(opcode for opcode in UNARY if opcode not in NOT_ON_A_CPU)
BINARY_BY_BOTH = tuple(one for one in BINARY if one not in NOT_ON_A_CPU and one != "stochastic-convert")


@family(seeds=2 * len(UNARY_BY_BOTH))
def unary(r: random.Random, seed: int) -> Case:
    return _unary(UNARY_BY_BOTH[seed // 2], sizes(r, 0, 2, 2))


def _unary(opcode: str, dims: list[int]) -> Case:
    kind, result, domain = "f64", "f64", uniform(1.1, 1.9)
    fields: dict[str, Any] = {}
    if opcode in WHOLE:
        kind = result = "s32"
        domain = integers(-(1 << 30), 1 << 30)
    elif opcode in ROUNDING:
        domain = uniform(-3, 3)
    elif opcode in INSIDE:
        domain = uniform(-0.9, 0.9)
    elif opcode in ("real", "imag"):
        return make(opcode, text("f64", dims), [text("c128", dims)])
    elif opcode == "is-finite":
        result, domain = "pred", choice(1.0, float("inf"))
    elif opcode == "convert":
        result = "s32"
        domain = uniform(-1000, 1000)
    if opcode == "reduce-precision":
        fields = {"exponent_bits": 11, "mantissa_bits": 8}
    # Opcodes that round or count bits: some changes do not change the result, so there are several draws.
    several = {"draws": 12, "union": frozenset({0})}
    case = {"domains": {0: domain}, **several}
    return make(opcode, text(result, dims), [text(kind, dims)], case=case, **fields)


@family(seeds=2 * len(BINARY_BY_BOTH))
def binary(r: random.Random, seed: int) -> Case:
    return _binary(BINARY_BY_BOTH[seed // 2], sizes(r, 0, 2, 2))


def _binary(opcode: str, dims: list[int]) -> Case:
    kind, result = "f64", "f64"
    domains = {0: uniform(1, 2), 1: uniform(1, 2)}
    if opcode == "stochastic-convert":
        domains = {0: uniform(0, 4), 1: integers(0, (1 << 32) - 1)}
        case = {"domains": domains, "union": frozenset({0, 1}), "draws": 40}
        return make(opcode, text("s16", dims), [text("f32", dims), text("u32", dims)], case=case)
    fields: dict[str, Any] = {}
    if opcode in BITS:
        kind = result = "s32"
        domains = {0: integers(-(1 << 30), 1 << 30), 1: integers(0, 20) if "shift" in opcode else integers(0, 1 << 30)}
    elif opcode == "remainder":
        domains = {0: uniform(10, 20), 1: uniform(1, 2)}
    elif opcode == "complex":
        result = "c128"
    elif opcode == "compare":
        result = "pred"
        fields = {"comparison_direction": "LT"}
    case = {"domains": domains, "union": frozenset({0, 1}), "draws": 12}
    return make(opcode, text(result, dims), [text(kind, dims)] * 2, case=case, **fields)


def _apart(opcode: str) -> None:
    """A family for operations that XLA does not run here, or that need many draws."""

    @family(seeds=4, not_by_xla=NOT_ON_A_CPU.get(opcode, ""), name=opcode)
    def one(r: random.Random, seed: int) -> Case:
        dims = sizes(r, 0, 2, 2)
        return _unary(opcode, dims) if opcode in UNARY else _binary(opcode, dims)


for _opcode in (*NOT_ON_A_CPU, "stochastic-convert"):
    _apart(_opcode)


@family(seeds=12)
def ternary(r: random.Random, seed: int) -> Case:
    opcode = ("clamp", "select")[seed % 2]
    dims = sizes(r, 0, 2, 2)
    several = {"union": frozenset({0, 1, 2}), "draws": 16}
    full, scalar = text("f64", dims), "f64[]"
    if opcode == "select":
        mask = text("pred", r.choice([dims, []]))
        return make(opcode, full, [mask, full, full], case=several)
    low, high = (r.choice([full, scalar]) for _ in range(2))
    case = {"domains": {0: uniform(0, 1), 1: uniform(-1, 3), 2: uniform(1, 2)}, **several}
    return make(opcode, full, [low, full, high], case=case)


@family(seeds=8)
def map_(r: random.Random, seed: int) -> Case:
    inner = Builder("mapped")
    a, b = inner.parameter("s64[]"), inner.parameter("s64[]")
    inner.op("add", "s64[]", [inner.op("multiply", "s64[]", [a, a]), b])
    dims = sizes(r, 0)
    full = text("s64", dims)
    return make("map", full, [full, full], calls=[inner], dimensions=list(range(len(dims))))


@family(seeds=10)
def bitcast_convert(r: random.Random, seed: int) -> Case:
    dims = sizes(r, 0)
    source, target, more = r.choice(
        [
            ("s32", "u32", 0),
            ("f64", "s64", 0),
            ("s64", "s32", 2),
            ("u32", "u8", 4),
            ("s32", "s64", -2),
            ("u8", "u32", -4),
        ]
    )
    before = [*dims, -more] if more < 0 else dims
    after = [*dims, more] if more > 0 else dims
    # Every byte of an element must change the result, so elements are large numbers.
    domain = {"u8": integers(0, 255), "s32": integers(-(1 << 31), (1 << 31) - 1), "u32": integers(0, (1 << 32) - 1)}
    wide = integers(-(1 << 63), (1 << 63) - 1)
    case = {"union": frozenset({0}), "draws": 6, "domains": {0: domain.get(source, wide)} if source != "f64" else {}}
    return make("bitcast-convert", text(target, after), [text(source, before)], case=case)


@family(seeds=6, not_by_xla="its numbers are others in every run")
def rng(r: random.Random, seed: int) -> Case:
    bounds = {"domains": {0: uniform(0, 1), 1: uniform(2, 3)}}
    return make("rng", text("f64", sizes(r, 0)), ["f64[]", "f64[]"], case=bounds, distribution=1)


@family(seeds=6, not_by_numpy="the generators are XLA's own")
def rng_bit_generator(r: random.Random, seed: int) -> Case:
    count, algorithm = ((3, 2), (2, 1), (3, 0))[seed % 3]
    state = f"u64[{count}]"
    shape = f"({state}, {text('u32', sizes(r, 0))})"
    case = {"loose": {0: "a carry into the upper half of a counter shows itself once in 2^64 states"}, "draws": 2}
    return make("rng-bit-generator", shape, [state], case=case, rng_algorithm=algorithm)
