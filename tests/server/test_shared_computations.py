"""Valid modules whose computations are shared: one condition of nested loops, a body that is called twice, branches
that are one computation. Every RPC about a module answers them, or refuses them with an error of the library: any other
exception would end a call as INTERNAL.
"""

from __future__ import annotations

import contextlib
import random
import time
from collections.abc import Iterator
from typing import Any

import pytest

from xlashape.errors import InvalidModuleError, LimitExceededError, UnsupportedError, XlashapeError
from xlashape.hlo import HloModule, verify
from xlashape.proto import v1
from xlashape_server.config import Config
from xlashape_server.handlers import Rpc, rpcs
from xlashape_server.modules import Modules
from xlashape_server.store import Store

STATE = "(s32[], f32[8,4])"
HEAD = f"""HloModule shared

add {{
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b)
}}

condition {{
  p = {STATE} parameter(0)
  i = s32[] get-tuple-element(p), index=0
  n = s32[] constant(3)
  ROOT less = pred[] compare(i, n), direction=LT
}}

wrapped {{
  p = f32[8,4] parameter(0)
  ROOT n = f32[8,4] negate(p)
}}

started {{
  p = f32[8,4] parameter(0)
  ROOT n = f32[8,4] negate(p)
}}
"""


def generated(seed: int) -> str:
    """A module whose computations call those before them at random."""
    chance = random.Random(seed)
    parts = [HEAD]
    bodies: list[str] = []
    for number in range(chance.randint(1, 6)):
        name = f"body{number}"
        lines = [
            f"  p = {STATE} parameter(0)",
            "  i = s32[] get-tuple-element(p), index=0",
            "  x0 = f32[8,4] get-tuple-element(p), index=1",
            "  one = s32[] constant(1)",
            "  next = s32[] add(i, one)",
            "  zero = f32[] constant(0)",
        ]
        for step in range(1, chance.randint(2, 7)):
            value = f"x{chance.randrange(step)}"
            lines += [*_step(chance, step, value, bodies)]
        last = sum(line.startswith("  x") for line in lines) - 1
        lines.append(f"  ROOT r = {STATE} tuple(next, x{last})")
        parts.append(f"{name} {{\n" + "\n".join(lines) + "\n}\n")
        bodies.append(name)
    body = chance.choice(bodies)
    parts.append(
        f"ENTRY main {{\n  p = {STATE} parameter(0)\n  w = {STATE} while(p), condition=condition, body={bodies[-1]}\n"
        f"  v = {STATE} while(w), condition=condition, body={body}\n  ROOT c = {STATE} call(v), to_apply={body}\n}}\n"
    )
    return "\n".join(parts)


def _step(chance: random.Random, step: int, value: str, bodies: list[str]) -> Iterator[str]:
    """The lines that compute `x{step}` from the array `value`."""
    kinds = ["reduce", "map", "async", "control", "custom", "sort"]
    kind = chance.choice(kinds + ["while", "conditional", "call", "switch"] * 2 if bodies else kinds)
    control = f", control-predecessors={{x{step - 1}}}" if chance.random() < 0.3 else ""
    made = f"  x{step} = f32[8,4]"
    if kind in ("while", "conditional", "call", "switch"):
        body = chance.choice(bodies)
        yield f"  t{step} = {STATE} tuple(next, {value})"
        if kind == "while":
            yield f"  w{step} = {STATE} while(t{step}), condition=condition, body={body}{control}"
        elif kind == "call":
            yield f"  w{step} = {STATE} call(t{step}), to_apply={body}{control}"
        elif kind == "switch":
            yield (
                f"  w{step} = {STATE} conditional(i, t{step}, t{step}, t{step}), "
                f"branch_computations={{{body}, {body}, {chance.choice(bodies)}}}{control}"
            )
        else:
            yield f"  f{step} = pred[] constant(true)"
            yield (
                f"  w{step} = {STATE} conditional(f{step}, t{step}, t{step}), true_computation={body}, "
                f"false_computation={body}{control}"
            )
        yield f"{made} get-tuple-element(w{step}), index=1"
    elif kind == "reduce":
        yield f"  d{step} = f32[8] reduce({value}, zero), dimensions={{1}}, to_apply=add{control}"
        yield f"{made} broadcast(d{step}), dimensions={{0}}"
    elif kind == "map":
        yield f"{made} map({value}, {value}), dimensions={{0,1}}, to_apply=add{control}"
    elif kind == "async":
        yield f"  a{step} = ((f32[8,4]), f32[8,4], s32[]) async-start({value}), calls=started{control}"
        yield f"{made} async-done(a{step})"
    elif kind == "custom":
        yield f'{made} custom-call({value}), custom_call_target="c", called_computations={{wrapped, wrapped}}{control}'
    elif kind == "sort":
        yield f"{made} all-reduce({value}), replica_groups={{}}, to_apply=add{control}"
    else:
        yield f"{made} negate({value}), control-predecessors={{x{step - 1}}}"


@pytest.fixture(scope="module")
def handlers(tmp_path_factory: pytest.TempPathFactory) -> tuple[Rpc, ...]:
    config = Config(store_directory=str(tmp_path_factory.mktemp("store")))
    return rpcs(config, Modules(config, Store.of(config)))


def requests(rpc: Rpc, module: v1.ModuleInput, instructions: list[str]) -> Iterator[bytes]:
    fields = rpc.method.input_type.fields_by_name
    if rpc.method.client_streaming or not {"module", "a"} & {*fields}:
        return
    made: dict[str, Any] = {name: module for name in ("module", "a", "b") if name in fields}
    kind = getattr(v1, rpc.method.input_type.name)
    yield kind(**made).SerializeToString()
    if "instruction" in fields and rpc.method.name in ("IndexingMaps", "Draw", "Graph", "Tile"):
        for name in instructions:
            yield kind(**made, instruction=name).SerializeToString()


def test_an_instruction_that_waits_for_itself_is_answered_or_refused(handlers: tuple[Rpc, ...]) -> None:
    message = HloModule.parse(generated(1)).to_proto()
    for computation in message.computations:
        for instruction in computation.instructions:
            instruction.control_predecessor_ids.append(instruction.id)
    for rpc in handlers:
        for request in requests(rpc, v1.ModuleInput(serialized=message.SerializeToString()), []):
            with contextlib.suppress(XlashapeError):
                rpc.handler(request, time.monotonic() + 20)


@pytest.mark.parametrize("seed", range(12))
def test_every_rpc_answers_or_refuses(seed: int, handlers: tuple[Rpc, ...]) -> None:
    text = generated(seed)
    module = HloModule.parse(text)
    assert not verify(module)
    names = [each.name for each in module.instructions() if each.opcode in ("while", "call", "conditional", "map")]
    for rpc in handlers:
        for request in requests(rpc, v1.ModuleInput(text=text), names[:4]):
            with contextlib.suppress(LimitExceededError, UnsupportedError):
                rpc.handler(request, time.monotonic() + 60)


def test_programs_that_break_a_rule_are_not_compared(handlers: tuple[Rpc, ...]) -> None:
    """Their types say so only when they are evaluated: a branch that is a condition, and operands of other shapes."""
    [rpc] = [each for each in handlers if each.method.name == "Equivalent"]
    refused = 0
    for seed in range(20):
        chance = random.Random(seed)
        message = HloModule.parse(generated(seed)).to_proto()
        callers = [each for one in message.computations for each in one.instructions if each.called_computation_ids]
        for caller in callers:
            caller.called_computation_ids[0] = chance.choice(callers).called_computation_ids[0]
        broken = v1.ModuleInput(serialized=message.SerializeToString())
        try:
            rpc.handler(v1.EquivalentRequest(a=broken, b=broken).SerializeToString(), time.monotonic() + 20)
        except XlashapeError as error:
            refused += isinstance(error, InvalidModuleError)
    assert refused
