"""Which array is which, what uses it, and which results are buffers of their own: modules written for the purpose, and
the example module.
"""

from __future__ import annotations

from importlib import resources

import pytest

from xlashape.errors import InvalidIndexError, LimitExceededError
from xlashape.hlo import HloModule
from xlashape.hlo.async_start import async_start
from xlashape.hlo.flow import (
    Buffers,
    Flow,
    donated_buffers,
    executed_computations,
    handed_on_from,
    in_place,
    module_buffers,
)
from xlashape.limits import budget

TEXT = """HloModule m

body {
  s = (s32[], f32[8,4]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[8,4] get-tuple-element(s), index=1
  one = s32[] constant(1)
  j = s32[] add(i, one)
  y = f32[8,4] negate(x)
  ROOT r = (s32[], f32[8,4]) tuple(j, y)
}

cond {
  state = (s32[], f32[8,4]) parameter(0)
  k = s32[] get-tuple-element(state), index=0
  ten = s32[] constant(10)
  ROOT less = pred[] compare(k, ten), direction=LT
}

sum { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }

fused { q = f32[8,4] parameter(0) n = f32[8,4] negate(q) ROOT both = (f32[8,4], f32[8,4]) tuple(q, n) }

ENTRY e {
  p = f32[8,4] parameter(0)
  zero = s32[] constant(0)
  start = (s32[], f32[8,4]) tuple(zero, p)
  loop = (s32[], f32[8,4]) while(start), condition=cond, body=body
  out = f32[8,4] get-tuple-element(loop), index=1
  flat = f32[32] bitcast(out)
  f = (f32[8,4], f32[8,4]) fusion(out), kind=kLoop, calls=fused, output_to_operand_aliasing={{0}: (0, {})}
  init = f32[] constant(0)
  total = f32[] reduce(flat, init), dimensions={0}, to_apply=sum
  cs = (f32[8,4], f32[8,4], u32[]) copy-start(out)
  cd = f32[8,4] copy-done(cs)
  done = token[] after-all()
  ROOT t = (f32[], f32[8,4]) tuple(total, cd)
}
"""


def test_buffers_of_a_module() -> None:
    module = HloModule.parse(TEXT)
    assert [computation.name for computation in executed_computations(module)] == ["body", "cond", "e"]
    found = module_buffers(module)
    assert sorted(map(str, found.buffers)) == sorted(
        [
            *("one", "j", "y", "ten", "less"),
            *("p", "zero", "f{1}", "init", "total", "cs{0}", "cs{2}"),
        ]
    )
    shapes = {str(buffer): str(buffer.shape) for buffer in found.buffers}
    assert (shapes["total"], shapes["cs{0}"], shapes["cs{2}"]) == ("f32[]", "f32[8,4]{1,0}", "u32[]")
    assert found.shared == {
        "parameter": 2,
        "get-tuple-element": 4,
        "tuple": 3,
        "while": 1,
        "bitcast": 1,
        "fusion": 1,
        "copy-start": 1,
        "copy-done": 1,
    }
    assert found.without_memory == 6
    assert Buffers(module).of(module.instruction("done")) == ()


def test_the_example_module() -> None:
    with resources.as_file(resources.files("xlashape.data") / "attention.hlo.pb") as path:
        module = HloModule.load(path)
    found = module_buffers(module)
    executed = [i for i in module.entry.instructions if str(i.opcode) not in ("bitcast", "tuple", "get-tuple-element")]
    assert [buffer.instruction for buffer in found.buffers] == executed
    assert found.without_memory == len(list(module.instructions())) - len(module.entry.instructions)


def test_donation_follows_what_shares_memory() -> None:
    text = """HloModule m, input_output_alias={ {0}: (0, {}, may-alias), {1}: (1, {}, must-alias), {2}: (9, {}, may-alias) }
ENTRY e {
  p = f32[8] parameter(0)
  q = f32[8] parameter(1)
  cs = (f32[8], f32[8], u32[]) copy-start(p)
  cd = f32[8] copy-done(cs)
  cc = (f32[8], f32[8]) custom-call(q, cd), custom_call_target="f", output_to_operand_aliasing={{1}: (1, {})}
  one = f32[8] get-tuple-element(cc), index=1
  zero = f32[8] get-tuple-element(cc), index=0
  k = f32[8] constant({...})
  ROOT t = (f32[8], f32[8], f32[8]) tuple(one, zero, k)
}
"""
    module = HloModule.parse(text)
    assert [(d.instruction.name, str(d.shape_index), d.parameter.name, d.kind) for d in donated_buffers(module)] == [
        ("cs", "{0}", "p", "may-alias"),
        ("cc", "{0}", "q", "must-alias"),
    ]
    assert {str(buffer) for buffer in module_buffers(module).buffers} == {"p", "q", "cs{2}", "k"}


def test_outputs_are_followed_back_within_a_budget():
    lines = "".join([f" b.{number} = f32[4] bitcast(b.{number - 1})" for number in range(1, 1000)])
    text = f"HloModule m ENTRY e {{ b.0 = f32[4] parameter(0){lines} ROOT r = f32[4] bitcast(b.999) }}"
    module = HloModule.parse(text).proto
    for _ in range(1000):
        module.input_output_alias.entries.add(kind=1)
    with budget(steps=100_000), pytest.raises(LimitExceededError):
        module_buffers(HloModule.from_proto(module))


def test_a_negative_index_of_an_output_is_refused():
    text = "HloModule m ENTRY e { p = f32[4] parameter(0) ROOT t = (f32[4]) tuple(p) }"
    module = HloModule.parse(text).proto
    module.input_output_alias.entries.add(kind=1, output_shape_index=[-5])
    with pytest.raises(InvalidIndexError, match="a shape index has numbers from 0, not -5"):
        donated_buffers(HloModule.from_proto(module))


# Each ends an asynchronous operation of a module with the parameter p, a token k and a donated output {0}.
ENDS = {
    "copy-start": "s = (f32[8], f32[8], u32[]) copy-start(p) d = f32[8] copy-done(s)",
    "all-reduce-start": "s = f32[8] all-reduce-start(p), to_apply=sum d = f32[8] all-reduce-done(s)",
    "all-gather-start": "s = (f32[8], f32[8]) all-gather-start(p), dimensions={0} d = f32[8] all-gather-done(s)",
    "collective-permute-start": "s = (f32[8], f32[8]) collective-permute-start(p), source_target_pairs={{0,0}} "
    "d = f32[8] collective-permute-done(s)",
    "recv": "s = (f32[8], u32[], token[]) recv(k), channel_id=1 r = (f32[8], token[]) recv-done(s), channel_id=1 "
    "d = f32[8] get-tuple-element(r), index=0",
    "negate": "s = ((f32[8]), f32[8], u32[]) async-start(p), calls=wrapped d = f32[8] async-done(s)",
    "tanh": "d = f32[8] call(p), to_apply=called",
}


def ending(opcode: str) -> HloModule:
    return HloModule.parse(
        "HloModule m, input_output_alias={ {0}: (0, {}, may-alias) } "
        "sum { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) } "
        "wrapped { q = f32[8] parameter(0) ROOT n = f32[8] negate(q) } "
        "called { q = f32[8] parameter(0) ROOT h = f32[8] tanh(q) } "
        f"ENTRY e {{ p = f32[8] parameter(0) k = token[] parameter(1) {ENDS[opcode]} ROOT t = (f32[8]) tuple(d) }}"
    )


@pytest.mark.parametrize("opcode", ENDS)
def test_the_result_of_an_asynchronous_operation_is_one_array(opcode: str):
    """It is made by the start, or by the computation that runs; an output in donated memory has no other buffer."""
    module = ending(opcode)
    value = Flow(module).definition(module.entry.root, (0,))
    assert value.instruction.opcode == opcode
    (donated,) = donated_buffers(module)
    assert (donated.instruction, donated.shape_index) == value
    arrays = [str(buffer) for buffer in module_buffers(module).buffers if buffer.shape.dimensions]
    assert arrays == ["p"]


@pytest.mark.parametrize("opcode", ["copy-start", "all-gather-start", "collective-permute-start", "negate"])
def test_a_start_repeats_its_operand(opcode: str):
    module = ending(opcode)
    start = module.instruction("s")
    index = {"copy-start": (1,), "negate": (0, 0)}.get(opcode, (0,))
    assert handed_on_from(start, index) == (module.entry.parameters[0], ())


def test_uses_are_found_behind_the_ends_of_asynchronous_operations():
    for opcode in ENDS:
        module = ending(opcode)
        flow = Flow(module)
        uses = flow.uses(*flow.definition(module.entry.root, (0,)))
        assert [(use.role.value, use.at) for use in uses] == [("output", (0,))], opcode


def test_the_start_of_a_chain_is_found_through_a_loop():
    text = """HloModule m
    wrapped { q = f32[8] parameter(0) ROOT n = f32[8] negate(q) }
    body { b = (((f32[8]), f32[8], u32[])) parameter(0) g = ((f32[8]), f32[8], u32[]) get-tuple-element(b), index=0
      u = ((f32[8]), f32[8], u32[]) async-update(g) ROOT r = (((f32[8]), f32[8], u32[])) tuple(u) }
    cond { b = (((f32[8]), f32[8], u32[])) parameter(0) ROOT c = pred[] constant(false) }
    ENTRY e { p = f32[8] parameter(0) s = ((f32[8]), f32[8], u32[]) async-start(p), calls=wrapped
      t = (((f32[8]), f32[8], u32[])) tuple(s) w = (((f32[8]), f32[8], u32[])) while(t), condition=cond, body=body
      x = ((f32[8]), f32[8], u32[]) get-tuple-element(w), index=0 ROOT d = f32[8] async-done(x) }"""
    module = HloModule.parse(text)
    start = module.instruction("s")
    assert [async_start(module.instruction(name)) for name in ("s", "u", "d", "p")] == [start, start, start, None]
    flow = Flow(module)
    assert flow.is_unchanged(module.instruction("w"), (0, 1))
    assert flow.definition(module.entry.root).instruction.opcode == "negate"


def test_an_update_of_a_fused_parameter_is_in_place():
    text = """HloModule m
    f { p = f32[8] parameter(0) u = f32[1] parameter(1) i = s32[] parameter(2) b = f32[8] bitcast(p)
      d = f32[8] dynamic-update-slice(b, u, i) ROOT t = (f32[1], f32[8]) tuple(u, d) }
    ENTRY e { a = f32[8] parameter(0) b = f32[1] parameter(1) c = s32[] parameter(2)
      ROOT x = (f32[1], f32[8]) fusion(a, b, c), kind=kLoop, calls=f }"""
    assert in_place(HloModule.parse(text).entry.root) == [((1,), 0, ())]


def test_a_computation_of_several_callers_is_not_entered():
    text = """HloModule m, input_output_alias={ {0}: (0, {}, may-alias) }
    called { q = f32[8] parameter(0) ROOT h = f32[8] tanh(q) }
    ENTRY e { p = f32[8] parameter(0) c = f32[8] call(p), to_apply=called d = f32[8] call(c), to_apply=called
      ROOT t = (f32[8], f32[8]) tuple(d, c) }"""
    module = HloModule.parse(text)
    assert [each.instruction.name for each in donated_buffers(module)] == ["d"]
    assert Flow(module).definition(module.instruction("q")).instruction.name == "q"
