"""The verifier: no problems in modules that XLA made, a clear problem for each rule that a change breaks."""

import base64
import json
from pathlib import Path

import pytest

from xlashape.errors import DecodeError, InvalidArgumentError, InvalidModuleError
from xlashape.hlo import HloModule
from xlashape.hlo.verifier import Problem, check, verify
from xlashape.proto import xla

VECTORS = Path(__file__).resolve().parents[2] / "vectors"

TEXT = """HloModule m, is_scheduled=true

add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] add(a, b) }
body { ROOT bp = (s32[], f32[4]) parameter(0) }
cond { cp = (s32[], f32[4]) parameter(0)  i = s32[] get-tuple-element(cp), index=0  ROOT lt = pred[] compare(i, i), direction=LT }
tb { ROOT t = f32[4] parameter(0) }
fb { f = f32[4] parameter(0)  ROOT fn = f32[4] negate(f) }
less { l = f32[] parameter(0)  r = f32[] parameter(1)  ROOT lr = pred[] compare(l, r), direction=LT }

ENTRY e {
  p = f32[4,6] parameter(0)
  k = s32[] constant(3)
  z = f32[] constant(0)
  neg = f32[4,6] negate(p)
  sum = f32[4,6] add(p, neg)
  cmp = pred[4,6] compare(p, sum), direction=LT
  sel = f32[4,6] select(cmp, p, sum)
  bc = f32[2,4,6] broadcast(sel), dimensions={1,2}
  rs = f32[48] reshape(bc)
  tr = f32[6,4] transpose(p), dimensions={1,0}
  rv = f32[6,4] reverse(tr), dimensions={0}
  sl = f32[2,3] slice(rv), slice={[0:6:3], [1:4]}
  pd = f32[5,4] pad(sl, z), padding=1_2x0_1
  cc = f32[10,4] concatenate(pd, pd), dimensions={0}
  ds = f32[2,4] dynamic-slice(cc, k, k), dynamic_slice_sizes={2,4}
  du = f32[10,4] dynamic-update-slice(cc, ds, k, k)
  dt = f32[4,4] dot(p, tr), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  io = s32[3,2] iota(), iota_dimension=1
  cv = bf16[3,2] convert(io)
  bt = u16[3,2] bitcast-convert(cv)
  rd = f32[4] reduce(p, z), dimensions={1}, to_apply=add
  fu = f32[4] fusion(rd), kind=kLoop, calls=fb
  ca = f32[4] call(fu), to_apply=tb
  co = f32[4] conditional(k, ca, ca), branch_computations={tb, fb}
  tp = (s32[], f32[4]) tuple(k, co)
  wh = (s32[], f32[4]) while(tp), condition=cond, body=body
  ge = f32[4] get-tuple-element(wh), index=1
  so = f32[4] sort(ge), dimensions={0}, to_apply=less
  ROOT out = (f32[4], f32[48], f32[10,4], f32[4,4], u16[3,2]) tuple(so, rs, du, dt, bt)
}
"""


@pytest.fixture
def proto() -> xla.HloModuleProto:
    return HloModule.parse(TEXT).to_proto()


def find(proto: xla.HloModuleProto, name: str) -> xla.HloInstructionProto:
    return next(one for computation in proto.computations for one in computation.instructions if one.name == name)


def messages(proto: xla.HloModuleProto) -> list[str]:
    return [str(problem) for problem in verify(proto)]


# XLA reads and prints these without verifying them. Its verifier (0.12.0.1) refuses them.
REFUSED_BY_XLA = {
    "async_all": "an asynchronous computation of several instructions",
    "shapes": "dimensions without a bound",
    "all_coll": "a collective-permute-start that nothing ends",
    "collectives2": "a copy-start that nothing ends",
    "custom": "an alias between buffers of two shapes",
    "head_alias2": "a donor that is an alias too",
    "more_alias_deep": "a donor that is an alias too",
    "more_bodies": "a reduce-scatter whose result is not divided among the devices of a group",
    **dict.fromkeys(("ov_a3", "ov_a4", "ov_a5", "ov_a9"), "the origin of a tuple at an array"),
    **dict.fromkeys(
        ("ov_t0", "ov_t3", "ov_t5", "ov_t7", "ov_t9"), "an origin whose elements are not those of the tuple"
    ),
    "collectives": "all-reduces with constrained layouts and without",
}


def test_what_xla_made_has_no_problems(proto):
    assert verify(proto) == ()
    check(HloModule.from_proto(proto))
    with (VECTORS / "hlo_print.jsonl").open(encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    wrong = [(row["name"], verify(base64.b64decode(row["proto"]))) for row in rows if "text" in row]
    assert len(wrong) > 150
    assert {name for name, problems in wrong if problems} == REFUSED_BY_XLA.keys()


@pytest.mark.parametrize(
    "name",
    "neg sum cmp sel bc rs tr rv sl pd cc ds du dt cv bt rd fu ca co wh ge so k".split(),
)
def test_a_wrong_size_is_found_at_the_instruction_itself(proto, name):
    shape = find(proto, name).shape
    if shape.element_type == xla.TUPLE:
        shape = shape.tuple_shapes[1]
    if shape.dimensions:
        shape.dimensions[-1] += 1
    else:
        shape.dimensions.append(2)
        shape.is_dynamic_dimension.append(False)
        shape.layout.minor_to_major.append(0)
    found = verify(proto)
    assert any(problem.instruction == name for problem in found), found
    with pytest.raises(InvalidModuleError, match=f"instruction '{name}': "):
        check(proto)


@pytest.mark.parametrize("name", "neg sum cmp sel bc rs tr rv sl pd cc ds du rd fu ca co wh ge so".split())
def test_a_wrong_element_type_is_found(proto, name):
    shape = find(proto, name).shape
    shape = shape.tuple_shapes[1] if shape.element_type == xla.TUPLE else shape
    shape.element_type = xla.S8
    assert any(problem.instruction == name for problem in verify(proto))


def change(proto: xla.HloModuleProto, name: str) -> xla.HloInstructionProto:
    return find(proto, name)


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (lambda p: find(p, "neg").operand_ids.append(0), "instruction 'neg': negate takes 1 operand, found 2"),
        (lambda p: find(p, "bc").dimensions.__setitem__(0, 0), "dimension 0 of its operand f32[4,6]{1,0} does not fit"),
        (lambda p: setattr(find(p, "sl").slice_dimensions[0], "limit", 7), "slice [0:7:3] is not within dimension 0"),
        (lambda p: find(p, "io").dimensions.__setitem__(0, 2), "iota_dimension=2 is not a dimension of s32[3,2]{1,0}"),
        (
            lambda p: find(p, "ds").dynamic_slice_sizes.__setitem__(0, 3),
            "dynamic_slice_sizes=[3, 4] are not the dimensions",
        ),
        (lambda p: find(p, "du").operand_ids.pop(), "it has 1 start indices for an operand of rank 2"),
        (lambda p: setattr(find(p, "ge"), "tuple_index", 5), "instruction 'ge': "),
        (lambda p: find(p, "k").ClearField("literal"), "instruction 'k': has no literal"),
        (lambda p: setattr(find(p, "sum"), "name", "neg"), "instruction 'neg': has the name of another instruction"),
        (
            lambda p: setattr(find(p, "fn"), "name", "neg"),
            "instruction 'neg': has the name of an instruction in computation 'fb'",
        ),
        (lambda p: setattr(find(p, "neg"), "name", ""), "has no name"),
        (lambda p: setattr(find(p, "neg"), "opcode", "nugate"), "instruction 'neg': has the unknown opcode 'nugate'"),
        (
            lambda p: setattr(find(p, "b"), "parameter_number", 0),
            "computation 'add': its parameters are numbered [0, 0]",
        ),
        (
            lambda p: p.host_program_shape.parameters[0].dimensions.__setitem__(0, 9),
            "the layout of the entry, has f32[9,6]{1,0} as parameter 0, 'p' is f32[4,6]{1,0}",
        ),
        (lambda p: p.host_program_shape.parameters.pop(), "has 0 parameters, 'e' has 1"),
        (lambda p: p.schedule.sequences[99].instruction_ids.append(1), "the schedule has a computation of id 99"),
        (
            lambda p: p.schedule.sequences[p.entry_computation_id].instruction_ids.pop(),
            "computation 'e': its schedule does not name each of its instructions once",
        ),
        (
            lambda p: p.schedule.sequences[p.entry_computation_id].instruction_ids.reverse(),
            "is scheduled before 'so', which it needs",
        ),
        (
            lambda p: p.input_output_alias.entries.add(kind=1, parameter_number=3),
            "names parameter 3 at [], which does not exist",
        ),
        (
            lambda p: p.input_output_alias.entries.add(kind=2, output_shape_index=[0]),
            "input_output_alias joins output f32[4]{0} with parameter 0, f32[4,6]{1,0}",
        ),
        (lambda p: p.buffer_donor.entries.add(parameter_shape_index=[1]), "buffer_donor names parameter 0 at [1]"),
        (lambda p: p.computations.insert(0, p.computations.pop()), None),
        (lambda p: find(p, "neg").operand_ids.__setitem__(0, 12345), "which is not in its computation"),
        (lambda p: find(p, "ca").called_computation_ids.append(0), "calls 2 computations, not one"),
        (lambda p: find(p, "wh").called_computation_ids.reverse(), "calls"),
        (lambda p: find(p, "co").operand_ids.pop(), "has 2 operands for 2 branches"),
    ],
)
def test_each_rule_says_what_is_broken(proto, edit, message):
    edit(proto)
    found = messages(proto)
    if message is None:
        assert any("which is defined after its computation" in one for one in found)
    elif message == "calls":
        assert any("instruction 'wh'" in one for one in found)
    else:
        assert any(message in one for one in found), found


def test_operands_after_their_users_are_found(proto):
    entry = proto.computations[-1]
    moved = xla.HloInstructionProto()
    place = next(i for i, one in enumerate(entry.instructions) if one.name == "p")
    moved.CopyFrom(entry.instructions[place])
    del entry.instructions[place]
    entry.instructions.append(moved)
    assert any("operand 0, 'p', is defined after it" in one for one in messages(proto))


def test_check_shows_at_most_twenty_problems(proto):
    for one in proto.computations[-1].instructions:
        one.name = "x"
    with pytest.raises(InvalidModuleError) as caught:
        check(proto)
    lines = caught.value.message.split("\n")
    assert len(lines) == 21
    assert lines[0] == "computation 'e': instruction 'x': has the name of another instruction in its computation"
    assert lines[-1] == f"… and {len(verify(proto)) - 20} more"


def test_a_module_that_cannot_be_viewed_is_one_problem():
    assert verify(xla.HloModuleProto(name="m")) == (Problem("", "", "module 'm': it has no computations"),)


def test_attributes_that_do_not_fit_operands_are_a_problem():
    shape = xla.ShapeProto(element_type=xla.F32, dimensions=[2, 2])
    parameter = xla.HloInstructionProto(name="p", opcode="parameter", shape=shape)
    one = xla.HloInstructionProto(name="c", opcode="convolution", id=1, operand_ids=[0, 0], shape=shape)
    one.convolution_dimension_numbers.output_batch_dimension = 7
    one.convolution_dimension_numbers.input_feature_dimension = -9
    main = xla.HloComputationProto(name="e", instructions=[parameter, one], root_id=1)
    found = verify(xla.HloModuleProto(name="m", computations=[main]))
    assert [problem.instruction for problem in found] == ["c"]


MIXED_PRECISION = """HloModule m

ENTRY e {{
  p = f32[4,8]{layout} parameter(0)
  c = bf16[4,8]{layout} copy(p)
  r = f32[32]{{0}} reshape(c)
  ROOT n = bf16[32]{{0}} negate(r)
}}
"""


@pytest.mark.parametrize(("layout", "count"), [("{1,0:T(4,128)}", 0), ("{1,0}", 3)])
def test_precision_may_change_only_where_layouts_are_tiled_as_for_tpus(layout, count):
    assert len(verify(HloModule.parse(MIXED_PRECISION.format(layout=layout)))) == count


ENTRY = "HloModule m{head}\n{more}\nENTRY e {{\n p = f32[4] parameter(0)\n q = bf16[4] parameter(1)\n k = token[] after-all()\n{body}\n}}"
ADD = "add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] add(a, b) }"
TWICE = "f { x = f32[4] parameter(0)  ROOT n = f32[4] negate(x) }"
DEAD = "f { x = f32[4] parameter(0)  d = f32[4] exponential(x)  ROOT n = f32[4] negate(x) }"
HOST = "is_host_transfer=true"
NEGATE = "ROOT r = f32[4] negate(p), "
STATE = "((f32[4], f32[4]), f32[4], u32[])"


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (
            "ROOT r = f32[4] add(p, q)",
            "its floating operands must have the same element type, found f32[4]{0}, bf16[4]{0}",
        ),
        (
            "s = f32[] constant(1)\n ROOT r = f32[4] add(p, s)",
            "its operands must have equal dimensions, found f32[4]{0}, f32[]",
        ),
        ("ROOT r = f32[8] concatenate(p, q), dimensions={0}", "its floating operands must have the same element type"),
        ("c = c64[4] complex(p, p)\n ROOT r = c64[4] cbrt(c)", "cbrt: its operand must be floating, found c64[4]{0}"),
        (NEGATE + "sharding={{replicated}}", "its shape is f32[4]{0}, its sharding that of a tuple"),
        (NEGATE + "sharding={devices=[2,1]<=[2]}", "its sharding divides 2 dimensions, f32[4]{0} has 1"),
        (NEGATE + "sharding={devices=[2]1,1}", "its sharding names a device twice: [1, 1]"),
        (NEGATE + "sharding={mesh['a'=2], [{'a'}, {}]}", "its sharding divides 2 dimensions, f32[4]{0} has 1"),
        (
            NEGATE + 'origin={({"a"}, {"b"})}',
            "its shape f32[4]{0} has arrays at [[]], its origin has elements at [[0], [1]]",
        ),
        (
            'ROOT r = f32[5] custom-call(p), custom_call_target="x", output_to_operand_aliasing={{}: (0, {})}',
            "output_to_operand_aliasing joins f32[5]{0} with f32[4]{0} of operand 0",
        ),
        ("ROOT r = f32[4] call(p), to_apply=f, is_composite=true", "a composite call must have its name and version"),
        (
            "s = f32[4] fusion(p), kind=kLoop, calls=f\n ROOT r = f32[4] fusion(s), kind=kLoop, calls=f",
            "is that of 2 fusions",
        ),
        (
            "s = f32[4] all-reduce-start(p), to_apply=add\n ROOT r = f32[5] all-reduce-done(s)",
            "its shape is f32[5]{0}, its operands give f32[4]{0}",
        ),
        (
            f"s = (f32[4], u32[], token[]) send(p, k), channel_id=1, {HOST}\n ROOT d = token[] send-done(s), "
            "channel_id=1",
            "it and 's' must both transfer to the host or neither",
        ),
        (
            f"s = (f32[4], u32[], token[]) send(p, k), channel_id=1, {HOST}\n d = token[] send-done(s), channel_id=1, "
            f"{HOST}\n"
            f"t = (f32[4], u32[], token[]) recv(k), channel_id=1, {HOST}\n"
            f"ROOT r = (f32[4], token[]) recv-done(t), channel_id=1, {HOST}",
            "uses channel 1 of 's'",
        ),
        (
            f"s = {STATE} add-start()\n ROOT r = f32[4] add-done(s)",
            "its shape adds 2 operands, found 0",
        ),
        (
            f"ROOT s = {STATE} add-start(p, p)",
            "the async-start must be ended by async-update or async-done, found none",
        ),
        (
            f"s = {STATE} add-start(p, p)\n ROOT r = f32[4] get-tuple-element(s), index=1",
            "the async-start must be ended by async-update or async-done, found none",
        ),
    ],
)
def test_rules_that_xla_has_too(body, message):
    found = messages(HloModule.parse(ENTRY.format(head="", more=f"{ADD}\n{TWICE}", body=body)).proto)
    assert any(message in one for one in found), found


def test_every_instruction_of_a_kind_has_its_problem():
    proto = HloModule.parse(
        """HloModule m
        ENTRY e { p = f32[4] parameter(0) q = f32[2] parameter(1)
        a = f32[4] add(p, p) b = f32[4] add(p, p) c = f32[4] add(p, p) d = f32[4] negate(c)
        ROOT r = (f32[4], f32[4], f32[4]) tuple(a, b, d) }"""
    ).proto
    wrong = find(proto, "q").id
    find(proto, "a").operand_ids[:] = find(proto, "c").operand_ids[:] = [wrong, wrong]
    said = "its shape is f32[4]{0}, its operands give f32[2]{0}"
    assert messages(proto) == [f"computation 'e': instruction {name!r}: {said}" for name in ("a", "c")]
    find(proto, "a").operand_ids[:] = [find(proto, "b").id] * 2  # defined after a
    assert messages(proto) == [
        "computation 'e': instruction 'a': operand 0, 'b', is defined after it",
        "computation 'e': instruction 'a': operand 1, 'b', is defined after it",
        f"computation 'e': instruction 'c': {said}",
    ]


def test_parameters_of_a_loop_are_numbered_without_gaps(proto):
    find(proto, "bp").parameter_number = 1
    gap = "instruction 'bp' is parameter 1 where parameter 0 was expected"
    assert messages(proto) == [
        "computation 'body': its parameters are numbered [1], not from 0 without gaps",
        f"computation 'e': instruction 'wh': computation 'body': {gap}",
    ]


def test_broken_bytes_of_an_attribute_raise():
    proto = HloModule.parse("HloModule m ENTRY e { ROOT p = f32[4] parameter(0), sharding={maximal device=5} }").proto
    data = proto.SerializeToString()
    sharding = proto.computations[0].instructions[0].sharding.SerializeToString()
    module = HloModule.from_proto(data.replace(sharding, b"\xff" * len(sharding)))
    with pytest.raises(DecodeError):
        verify(module)


def test_an_end_of_a_parameter_of_the_entry_has_no_start():
    text = "HloModule m ENTRY e { p = (f32[4], f32[4], u32[]) parameter(0)  ROOT d = f32[4] copy-done(p) }"
    assert messages(HloModule.parse(text).proto) == [
        "computation 'e': instruction 'd': the copy-done must end a copy-start, found parameter 'p'"
    ]


def test_a_fusion_computes_nothing_that_is_not_used():
    text = ENTRY.format(head="", more=DEAD, body="ROOT r = f32[4] fusion(p), kind=kLoop, calls=f")
    assert messages(HloModule.parse(text).proto) == ["computation 'f': instruction 'd': nothing in its fusion uses it"]


@pytest.mark.parametrize(
    ("head", "message"),
    [
        ("input_output_alias={ {0}: (0, {}), {1}: (0, {}) }", "input_output_alias names parameter 0 at [] twice"),
        (
            "input_output_alias={ {0}: (0, {}) }, buffer_donor={ (0, {}) }",
            "buffer_donor names parameter 0 at [], which an output has as its alias",
        ),
    ],
)
def test_a_buffer_of_the_entry_is_given_away_once(head, message):
    body = "ROOT r = (f32[4], f32[4]) tuple(p, p)"
    assert messages(HloModule.parse(ENTRY.format(head=f", {head}", more="", body=body)).proto) == [message]


def test_operands_that_updates_bring_make_a_valid_module():
    body = f"s = ((f32[4]), f32[4], u32[]) add-start(p)\n u = {STATE} add-update(s, p)\n ROOT r = f32[4] add-done(u)"
    assert messages(HloModule.parse(ENTRY.format(head="", more="", body=body)).proto) == []


GATHER = """{header}
ENTRY e {{
  p = f32[4,4] parameter(0)
  ROOT r = f32[8,4] all-gather(p), dimensions={{0}}{attributes}
}}
"""


def gather(header: str, attributes: str = "") -> HloModule:
    return HloModule.parse(GATHER.format(header=header, attributes=attributes))


def test_numbers_of_devices_come_from_the_text_the_device_assignment_or_the_caller():
    of_two, of_four = gather("HloModule m, replica_count=2"), gather("HloModule m, replica_count=4")
    assert verify(of_two) == ()
    [problem] = verify(of_four)
    assert problem.message == (
        "dimension 0 of f32[8,4]{1,0} must be that of f32[4,4]{1,0} times the 4 devices of a group"
    )
    # The proto does not say the number, so the rules that need it are left out.
    assert verify(of_four.to_proto()) == ()
    assert verify(of_four.to_proto(), replica_count=4) == (problem,)
    assert verify(of_four, replica_count=2) == ()
    assigned = of_four.to_proto()
    assigned.device_assignment.replica_count = 4
    assigned.device_assignment.computation_count = 1
    assert verify(assigned) == (problem,)
    with_partitions = gather("HloModule m", ", channel_id=1, replica_groups={{0}}")
    assert verify(with_partitions, num_partitions=2) == ()
    [problem] = verify(with_partitions, num_partitions=4)
    assert "times the 4 devices" in problem.message
    with pytest.raises(InvalidModuleError, match="times the 4 devices"):
        check(with_partitions, num_partitions=4)


@pytest.mark.parametrize("name", ["replica_count", "num_partitions"])
@pytest.mark.parametrize("value", [0, -1, -(2**70)])
def test_numbers_of_devices_are_positive(name, value):
    with pytest.raises(InvalidArgumentError, match=f"{name} must be at least 1, found {value}") as caught:
        verify(gather("HloModule m"), **{name: value})
    assert caught.value.field == name


def test_more_devices_than_the_groups_hold():
    module = gather("HloModule m", ", replica_groups={{0,1}}")
    assert verify(module, replica_count=2**62) != ()
    assert verify(module, num_partitions=2**62) == ()


def test_unbounded_dimensions_are_refused_unless_they_are_allowed():
    module = HloModule.parse("HloModule m ENTRY e { p = f32[?] parameter(0) ROOT r = f32[?] negate(p) }")
    assert [(problem.instruction, problem.message) for problem in verify(module)] == [
        ("p", "its shape must have bounded dimensions, found f32[?]{0}"),
        ("r", "its shape must have bounded dimensions, found f32[?]{0}"),
    ]
    assert verify(module, allow_unbounded_dimensions=True) == ()


# Asked of HloVerifier in jaxlib 0.12.0.1: an array of one dimension, a sharding of two that are not divided.
@pytest.mark.parametrize(
    ("mesh", "axes", "is_refused"),
    [
        ("'x'=2,'y'=2", "", False),
        ("'x'=2,'y'=2", ", manual={'x'}", True),
        ("'x'=2,'y'=2", ", manual={'x','y'}", False),
        ("'x'=2,'y'=2", ", unreduced={'x'}", True),
        ("'x'=2,'y'=2", ", unreduced={'x','y'}", False),
        ("'x'=2,'y'=2", ", replicated={'x'}", False),
        ("'x'=2,'y'=2", ", unreduced={'x'}, manual={'y'}", True),
        ("'x'=2,'y'=1", ", manual={'x'}", False),
        ("'x'=2,'y'=1", ", manual={'y'}", True),
        ("'x'=4", ", manual={'x':(1)2}", True),
    ],
)
def test_groups_of_devices_count_the_dimensions_of_a_sharding(mesh: str, axes: str, is_refused: bool) -> None:
    text = (
        f"HloModule m\n\nENTRY e {{\n  ROOT p = f32[2] parameter(0), sharding={{mesh[{mesh}], [{{}},{{}}]{axes}}}\n}}\n"
    )
    assert bool(verify(HloModule.parse(text))) == is_refused


def test_a_scatter_has_as_many_updates_as_arrays():
    module = HloModule.parse(
        """HloModule m
        first { x = f32[] parameter(0) ROOT y = f32[] parameter(1) }
        ENTRY e { x = f32[4] parameter(0) i = s32[1,1] parameter(1) u = f32[1] parameter(2)
        ROOT s = f32[4] scatter(x, i, u), update_window_dims={}, inserted_window_dims={0},
        scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=first }"""
    ).proto
    assert not verify(HloModule.from_proto(module))
    module.computations[-1].instructions[-1].operand_ids.append(module.computations[-1].instructions[2].id)
    [problem] = verify(HloModule.from_proto(module))
    assert "expected arrays, indices and as many updates as arrays, found 4 operands" in problem.message
