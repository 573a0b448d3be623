"""Modules that break rules: every report and every question answers, or refuses with an error of `xlashape.errors`.

Protos are changed so that instructions wait for themselves or for each other, and computations are called by several
callers or by themselves.
"""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

import xlashape as xs
from xlashape import indexing
from xlashape.errors import InvalidModuleError, XlashapeError
from xlashape.hlo import HloModule
from xlashape.proto import xla
from xlashape.reports.maps import maps
from xlashape.reports.size import size
from xlashape.reports.tiles import tiles

ENTRY = "ENTRY e { p = f32[8] parameter(0)"
UNARY = "f { a = f32[8] parameter(0) b = f32[8] negate(a) ROOT c = f32[8] add(a, b) }"
TEXTS = {
    "plain": f"{ENTRY} n = f32[8] negate(p) s = f32[8] sine(n) q = f32[8] add(n, s) ROOT r = f32[8] abs(q) }}",
    "fusions": f"""{UNARY} {ENTRY} n = f32[8] fusion(p), kind=kLoop, calls=f
        ROOT r = f32[8] fusion(n), kind=kLoop, calls=f }}""",
    "calls": f"""{UNARY} g {{ a = f32[8] parameter(0) b = f32[8] call(a), to_apply=f ROOT c = f32[8] add(a, b) }}
        {ENTRY} n = f32[8] call(p), to_apply=g ROOT r = f32[8] call(n), to_apply=f }}""",
    "branches": f"""{UNARY} g {{ a = f32[8] parameter(0) ROOT b = f32[8] negate(a) }}
        {ENTRY} k = s32[] parameter(1) n = f32[8] conditional(k, p, p), branch_computations={{f, g}}
        ROOT r = f32[8] conditional(k, n, p), branch_computations={{g, f}} }}""",
    "reductions": f"""a {{ x = f32[] parameter(0) y = f32[] parameter(1) ROOT s = f32[] add(x, y) }}
        {ENTRY} z = f32[] constant(0) r = f32[] reduce(p, z), dimensions={{0}}, to_apply=a
        b = f32[8] broadcast(r), dimensions={{}} ROOT t = f32[] reduce(b, z), dimensions={{0}}, to_apply=a }}""",
    "asynchronous": f"""{UNARY} {ENTRY} s = ((f32[8]), f32[8], s32[]) async-start(p), calls=f
        c = f32[8] negate(p) d = f32[8] async-done(s) ROOT r = f32[8] add(c, d) }}""",
    "loops": """cd { p = (s32[], f32[8]) parameter(0) i = s32[] get-tuple-element(p), index=0
          n = s32[] constant(10) ROOT l = pred[] compare(i, n), direction=LT }
        b0 { p = (s32[], f32[8]) parameter(0) i = s32[] get-tuple-element(p), index=0
          x = f32[8] get-tuple-element(p), index=1 o = s32[] constant(1) j = s32[] add(i, o)
          ROOT t = (s32[], f32[8]) tuple(j, x) }
        c2 { p = (s32[], f32[8]) parameter(0) i = s32[] get-tuple-element(p), index=0
          n = s32[] constant(10) ROOT l = pred[] compare(i, n), direction=LT }
        b1 { p = (s32[], f32[8]) parameter(0) ROOT w = (s32[], f32[8]) while(p), condition=cd, body=b0 }
        ENTRY e { p = (s32[], f32[8]) parameter(0) ROOT w = (s32[], f32[8]) while(p), condition=c2, body=b1 }""",
}
OTHER = HloModule.parse(f"HloModule other {TEXTS['plain']}")


def broken(name: str, r: random.Random) -> bytes:
    header = r.choice(["HloModule m", "HloModule m, is_scheduled=true"])
    proto = HloModule.parse(f"{header} {TEXTS[name]}").to_proto()
    for _ in range(r.randint(1, 2)):
        _break(proto, r)
    return proto.SerializeToString()


def _break(proto: xla.HloModuleProto, r: random.Random) -> None:
    computation = r.choice(proto.computations)
    one, other = r.choice(computation.instructions), r.choice(computation.instructions)
    match r.choice(["itself", "other", "both", "operand", "caller", "called", "root", "schedule"]):
        case "itself":
            one.control_predecessor_ids.append(one.id)
        case "other":
            one.control_predecessor_ids.append(other.id)
        case "both":
            one.control_predecessor_ids.append(other.id)
            other.control_predecessor_ids.append(one.id)
        case "operand" if one.operand_ids:
            one.operand_ids[r.randrange(len(one.operand_ids))] = other.id
        case "caller" if one.called_computation_ids:
            one.called_computation_ids[0] = computation.id
        case "called" if one.called_computation_ids:
            one.called_computation_ids[0] = r.choice(proto.computations).id
        case "root":
            computation.root_id = one.id
        case "schedule" if proto.schedule.sequences:
            ids = proto.schedule.sequences[computation.id].instruction_ids
            shuffled = r.sample(list(ids), r.randint(0, len(ids)))
            ids[:] = shuffled
        case _:
            pass


def _all_maps(module: HloModule) -> None:
    for instruction in module.instructions():
        questions: list[Callable[[], object]] = [
            lambda: indexing.output_to_input(instruction, 0),  # noqa: B023  # called before the next round
            lambda: indexing.input_to_output(instruction, 0),  # noqa: B023
            lambda: indexing.output_to_ancestors(instruction),  # noqa: B023
        ]
        for ask in questions:
            try:
                ask()
            except XlashapeError:
                continue
    list(indexing.module_indexing(module))


QUESTIONS: dict[str, Callable[[HloModule], object]] = {
    "cost": xs.cost,
    "size": size,
    "why": xs.why,
    "memory": xs.memory,
    "memory of a TPU": lambda module: xs.memory(module, target="tpu-v5e"),
    "diff": lambda module: (xs.diff(module, OTHER), xs.diff(OTHER, module)),
    "copies": xs.copies,
    "map": maps,
    "tile": lambda module: tiles(module.entry.root, [1] * module.entry.root.shape.rank),
    "verify": xs.hlo.verify,
    "reads": xs.reads,
    "maps": _all_maps,
    "text": lambda module: (module.to_text(), module.to_proto(), module.copy(), module.fingerprint()),
}


@pytest.mark.parametrize("name", TEXTS)
def test_broken_modules_are_answered_or_refused(name: str) -> None:
    r = random.Random(name)
    outcomes: list[bool] = []
    for _ in range(16):
        data = broken(name, r)
        try:
            module = HloModule.from_proto(data)
            module.entry.root.users  # noqa: B018  # makes all computations
        except XlashapeError:
            outcomes.append(False)
            continue
        outcomes.append(True)
        for what, ask in QUESTIONS.items():
            if what in ("why", "memory", "memory of a TPU", "diff") and _shares_a_loop(module):
                continue
            try:
                str(ask(module))
            except XlashapeError:
                continue
            except Exception as error:
                raise AssertionError(f"{what} of {module.to_text()}") from error
    assert len(set(outcomes)) == 2


def _shares_a_loop(module: HloModule) -> bool:
    """tests/unit/reports/memory has loops that share a computation."""
    called = [each.called_computations for each in module.instructions() if each.opcode == "while"]
    everything = [computation for computations in called for computation in computations]
    return len(set(everything)) < len(everything)


def test_an_instruction_that_waits_for_itself() -> None:
    """XLA refuses it too: what comes before an instruction must be listed before it."""
    proto = HloModule.parse(f"HloModule m {TEXTS['plain']}").to_proto()
    by_name = {each.name: each for each in proto.computations[0].instructions}
    by_name["n"].control_predecessor_ids.append(by_name["q"].id)
    with pytest.raises(
        InvalidModuleError, match="'n' is its own operand or control predecessor, through 'n' → 'q' → 'n'"
    ):
        HloModule.from_proto(proto)
    del by_name["n"].control_predecessor_ids[:]
    by_name["p"].control_predecessor_ids.append(by_name["p"].id)
    with pytest.raises(InvalidModuleError, match="'p' is its own operand or control predecessor, through 'p' → 'p'"):
        HloModule.from_proto(proto)
