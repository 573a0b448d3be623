"""What moves, how much, why: one text for each kind of copy that GPU's and TPU's compilers, asynchronous operations and
loops have."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import permutations, product
from pathlib import Path

import numpy as np
import pytest

import xlashape as xs
from xlashape.reports.copies import Copy, CopySuggestion


def only(text: str) -> Copy:
    (row,) = xs.copies(text)
    return row


def entry(*lines: str, before: str = "") -> str:
    return f"HloModule m\n{before}\nENTRY e {{\n" + "\n".join(lines) + "\n}\n"


def test_tiles_count_on_tpus():
    """FlowPM's copy, from the text of an allocation that failed: 1 GiB becomes 32 GiB."""
    row = only(
        entry(
            "p = (s32[8388608,8,4]{0,2,1:T(4,128)}) parameter(0)",
            "g = s32[8388608,8,4]{0,2,1:T(4,128)} get-tuple-element(p), index=0",
            'ROOT c = s32[8388608,8,4]{2,1,0:T(8,128)} copy(g), metadata={op_type="FloorMod" '
            'op_name="slicewise_79/cic_update/FloorMod"}',
        )
    )
    assert (row.bytes_read, row.bytes_written) == (1 << 30, 32 << 30)
    assert (str(row.from_layout), str(row.to_layout)) == ("{0,2,1:T(4,128)}", "{2,1,0:T(8,128)}")
    assert row.cause_kind == "relayout" and row.op_name == "slicewise_79/cic_update/FloorMod"
    assert row.cause.endswith("Its tiles pad the result to 32 times the bytes of the operand.")
    assert row.is_exact is not True, "a compiler that chooses tiles may choose others"


def test_sub_byte_elements_share_bytes():
    row = only(entry("p = s4[64,32]{1,0:E(4)} parameter(0)", "ROOT c = s4[64,32]{0,1:E(4)} copy(p)"))
    assert (row.bytes_read, row.bytes_written) == (1024, 1024)


def test_pairs_of_start_and_done():
    row = only(
        entry(
            "p = f32[256]{0} parameter(0)",
            "s = (f32[256]{0:S(5)}, f32[256]{0}, u32[]) copy-start(p)",
            "ROOT d = f32[256]{0:S(5)} copy-done(s)",
        )
    )
    assert (row.name, row.cause_kind, row.forced_by, row.bytes) == ("s", "memory-space", "host offload", 2048)
    assert row.cause == "The data goes from main memory to host memory, for the output."
    prefetch = only(
        entry(
            "p = bf16[512,512]{1,0} parameter(0)",
            "q = bf16[512,512]{1,0} parameter(1)",
            "s = (bf16[512,512]{1,0:S(1)}, bf16[512,512]{1,0}, u32[]) copy-start(p)",
            "d = bf16[512,512]{1,0:S(1)} copy-done(s)",
            "ROOT r = bf16[512,512]{1,0} dot(d, q), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
        )
    )
    assert prefetch.forced_by == "prefetch to on-chip memory" and prefetch.consumer == "dot (r)"
    relayout = only(
        entry(
            "p = f32[8,16]{1,0} parameter(0)",
            "s = (f32[8,16]{0,1}, f32[8,16]{1,0}, u32[]) copy-start(p)",
            "ROOT d = f32[8,16]{0,1} copy-done(s)",
        )
    )
    assert relayout.cause_kind == "relayout" and relayout.forced_by == "entry layout of the output"


def test_asynchronous_operations_are_named_by_their_start():
    row = only(
        entry(
            "p = f32[64,128]{1,0} parameter(0)",
            "s = ((f32[64,128]{1,0}), f32[8,128]{1,0}, u32[]) slice-start(p), slice={[8:16], [0:128]}",
            "ROOT d = f32[8,128]{1,0} slice-done(s)",
        )
    )
    assert (row.name, row.cause_kind) == ("s", "slice")
    assert row.bytes_read == row.bytes_written == 8 * 128 * 4, "only the slice is read"


def test_transposes_that_stand_for_relayouts_on_gpus():
    """Layout normalisation turns a copy to another layout into a transpose between default layouts, with bitcasts
    around it."""
    lines = (
        "x = bf16[64,32]{1,0} parameter(0)",
        "w = bf16[64,16]{1,0} parameter(1)",
        't = bf16[32,64]{1,0} transpose(x), dimensions={1,0}, metadata={op_name="jit(f)/dot_general"}',
        'g = (bf16[32,16]{1,0}, s8[1024]{0}) custom-call(t, w), custom_call_target="__cublas$gemm"',
        "ROOT r = bf16[32,16]{1,0} get-tuple-element(g), index=0",
    )
    row = only(entry(*lines))
    assert (row.cause_kind, row.forced_by) == ("relayout", "custom call __cublas$gemm (g)")
    assert row.suggestion is not None and "jnp.transpose(x, (1, 0))" in row.suggestion
    asked = only(entry(*lines).replace("jit(f)/dot_general", "jit(f)/transpose"))
    assert asked.cause_kind == "transpose"


def test_bitcasts_move_nothing():
    assert not xs.copies(
        entry("p = f32[8,16]{1,0} parameter(0)", "ROOT t = f32[16,8]{0,1} transpose(p), dimensions={1,0}")
    )
    assert not xs.copies(entry("p = f32[8,16]{1,0} parameter(0)", "ROOT t = f32[128]{0} reshape(p)"))
    row = only(entry("p = f32[8,16]{0,1} parameter(0)", "ROOT t = f32[128]{0} reshape(p)"))
    assert (row.cause_kind, row.cause) == ("reshape", "The reshape is no bitcast: its operand has the layout {0,1}.")
    tiled = only(entry("p = f32[8,3]{1,0:T(8,128)} parameter(0)", "ROOT t = f32[24]{0:T(256)} reshape(p)"))
    assert (tiled.bytes_read, tiled.bytes_written) == (4096, 1024)


def test_reshapes_that_want_another_order():
    row = only(
        entry(
            "p = f32[8,16]{1,0} parameter(0)",
            "n = f32[8,16]{0,1} negate(p)",
            "c = f32[8,16]{1,0} copy(n)",
            "b = f32[128]{0} bitcast(c)",
            "ROOT r = f32[128]{0} exponential(b)",
        )
    )
    assert row.forced_by == "the reshape b, which is no bitcast of {0,1}"


@pytest.mark.parametrize(
    ("user", "who"),
    [
        ('f32[8,16]{0,1} custom-call(c), custom_call_target="lib.call"', "custom call lib.call (u)"),
        ("f32[16,16]{0,1} all-gather(c), dimensions={0}, replica_groups={{0,1}}", "collective all-gather (u)"),
        ("f32[8,16]{0,1} all-reduce(c), to_apply=sum", "collective all-reduce (u)"),
        ("f32[8,16]{0,1} sort(c), dimensions={0}, to_apply=less", "sort (u)"),
    ],
)
def test_who_fixes_layouts(user: str, who: str):
    before = (
        "sum { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(a, b) }\n"
        "less { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = pred[] compare(a, b), direction=LT }"
    )
    shape = "f32[16,16]" if "all-gather" in user else "f32[8,16]"
    lines = (
        "x = f32[8,16]{1,0} parameter(0)",
        "c = f32[8,16]{0,1} copy(x)",
        f"u = {user}",
        f"ROOT n = {shape}{{1,0}} negate(u)",
    )
    assert only(entry(*lines, before=before)).forced_by == who


def test_slices_for_collectives():
    lines = (
        "x = f32[4,8]{1,0} parameter(0)",
        's = f32[1,8]{1,0} slice(x), slice={[0:1], [0:8]}, metadata={op_name="jit(f)/sin"}',
        "ROOT a = f32[4,8]{1,0} all-gather(s), dimensions={0}, replica_groups={{0,1,2,3}}",
    )
    row = only(entry(*lines))
    assert (row.forced_by, row.cause) == (
        "collective all-gather (a)",
        "The partitioner takes a part of an array (jit(f)/sin), for collective all-gather (a).",
    )
    inside = only(entry(*[line.replace("jit(f)/sin", "jit(f)/shard_map/all_gather") for line in lines]))
    assert inside.forced_by == row.forced_by
    assert inside.cause.startswith("The program takes a part of an array (jit(f)/shard_map/all_gather), for collective")
    generated = 'metadata={op_name="jit(f)/shard_map/sin"}, frontend_attributes={is_spmd_generated="true"}'
    row = only(entry(lines[0], lines[1].partition("metadata")[0] + generated, lines[2]))
    assert row.cause.startswith("The partitioner takes a part of an array (jit(f)/shard_map/sin), for collective")
    marked = 'ROOT p = f32[64,8]{1,0} pad(x, z), padding=0_2x0_0, frontend_attributes={is_spmd_generated="true"}'
    row = only(entry("x = f32[62,8]{1,0} parameter(0)", "z = f32[] constant(0)", marked))
    assert (row.cause_kind, row.forced_by) == ("pad", "sharding")


@pytest.mark.parametrize(
    ("op_name", "is_einsum"),
    [
        ("jit(f)/bqhd,bkhd->bhqk/dot_general", True),
        ("jit(f)/jit(_einsum)/dot_general", True),
        ("jit(f)/Dense_0/dot_general", False),
        ("", False),
    ],
)
def test_letters_are_advice_for_an_einsum_alone(op_name, is_einsum):
    lines = (
        "x = f32[64,32]{1,0} parameter(0)",
        "y = f32[64,32]{0,1} negate(x)",
        "c = f32[64,32]{1,0} copy(y)",
        "ROOT d = f32[64,64]{1,0} dot(c, x), lhs_contracting_dims={1}, rhs_contracting_dims={1}, "
        f'metadata={{op_name="{op_name}"}}',
    )
    advice = only(entry(*lines)).suggestion
    assert ("letters of the einsum" in advice) == is_einsum
    assert "store the operand in the order that the dot wants" in advice


@pytest.mark.parametrize(("shape", "is_advised"), [("s32[]", False), ("f64[]", False), ("f32[64,8]{1,0}", True)])
def test_no_advice_is_given_for_a_scalar(shape, is_advised):
    lines = (
        f"x = {shape} parameter(0)",
        f"a = {shape} negate(x)",
        f"c = {shape} copy(a)",
        f"ROOT r = ({shape}, {shape}) tuple(a, c)",
    )
    row = only(entry(*lines))
    assert (row.suggestion is not None) == is_advised


def test_annotations_of_sharding():
    lines = (
        "x = f32[4,8]{1,0} parameter(0)",
        'c = f32[4,8]{1,0} copy(x), metadata={op_name="jit(f)/sharding_constraint"}',
        "ROOT n = f32[4,8]{1,0} negate(c)",
    )
    row = only(entry(*lines))
    assert (row.cause_kind, row.forced_by) == ("sharding", "sharding of jit(f)/sharding_constraint")


@pytest.mark.parametrize(
    ("copy", "kind"),
    [
        ("sharding_constraint.62 = f32[4,8]{1,0} copy(x)", "sharding"),
        ("sharding_constraint = f32[4,8]{1,0} copy(x)", "sharding"),
        ("weights.3 = f32[4,8]{1,0} copy(x), sharding={replicated}", "sharding"),
        ('w.0 = f32[4,8]{1,0} copy(x), metadata={op_name="w"}', "sharding"),
        ("sharding_constraint.62 = f32[4,8]{0,1} copy(x)", "relayout"),
        # Copy insertion puts a copy where an annotation was, which has its metadata.
        ('copy.5 = f32[4,8]{1,0} copy(x), metadata={op_name="jit(f)/sharding_constraint"}', "copy-insertion"),
        ('copy.5 = f32[4,8]{1,0} copy(x), metadata={op_name="jit(f)/while"}', "copy-insertion"),
    ],
)
@pytest.mark.parametrize("in_loop", [False, True])
def test_what_the_partitioner_leaves(copy: str, kind: str, in_loop: bool):
    name = copy.partition(" ")[0]
    layout = "{0,1}" if kind == "relayout" else "{1,0}"
    text = entry("x = f32[4,8]{1,0} parameter(0)", copy, f"ROOT n = f32[4,8]{layout} negate({name})")
    if in_loop:
        body = (
            f"body {{ s = (s32[], f32[4,8]) parameter(0) i = s32[] get-tuple-element(s), index=0 x = f32[4,8] get-tuple-element(s), index=1 "
            f"{copy} n = f32[4,8]{layout} negate({name}) m = f32[4,8] bitcast(n) ROOT r = (s32[], f32[4,8]) tuple(i, m) }}\n"
            "cond { s = (s32[], f32[4,8]) parameter(0) ROOT c = pred[] constant(false) }"
        )
        text = entry(
            "p = (s32[], f32[4,8]) parameter(0)",
            "ROOT w = (s32[], f32[4,8]) while(p), condition=cond, body=body",
            before=body,
        )
    row = only(text)
    assert (row.cause_kind, row.name) == (kind, name)
    assert ("annotation" in row.cause) is (kind == "sharding")
    assert kind != "sharding" or row.suggestion is None


def test_every_copy_before_copy_insertion_is_the_partitioners():
    text = entry(
        "x = f32[4,8]{1,0} parameter(0)", "copy.1 = f32[4,8]{1,0} copy(x)", "ROOT n = f32[4,8]{1,0} negate(copy.1)"
    )
    assert only(text).cause_kind == "copy-insertion"
    assert only(text.replace("HloModule m", "HloModule m, num_partitions=8")).cause_kind == "sharding"
    assert (
        only(text.replace("HloModule m", "HloModule m, num_partitions=8, is_scheduled=true")).cause_kind
        == "copy-insertion"
    )


@pytest.mark.parametrize("rank", [3, 4])
def test_every_transpose_names_orders_in_one_array(rank: int):
    """All transposes in all layouts of the operand: the order that is named is that of the addresses."""
    orders, sizes = list(permutations(range(rank))), [2, 3, 5, 7][:rank]
    expected: dict[str, str] = {}
    lines: list[str] = []
    for number, (dimensions, minor) in enumerate(product(orders, orders)):
        before, wanted = text_of(minor), text_of(orders[number * 7 % len(orders)])
        lines += [
            f"x{number} = f32[{text_of(sizes)}]{{{before}}} parameter({number})",
            f"t{number} = f32[{text_of([sizes[each] for each in dimensions])}]{{{wanted}}} transpose(x{number}), "
            f"dimensions={{{text_of(dimensions)}}}",
        ]
        # A dimension of the result has the stride that it has in the operand.
        strides, stride = {}, 1
        for each in minor:
            strides[each], stride = stride, stride * sizes[each]
        order = text_of(sorted(range(rank), key=lambda each: strides[dimensions[each]]))
        if order != wanted:
            expected[f"t{number}"] = f"the data is in {{{order}}} of the result and is wanted in {{{wanted}}}"
    found = {row.name: row.cause for row in xs.copies(entry(*lines, "ROOT r = () tuple()"))}
    assert found.keys() == expected.keys() and len(found) > 25
    assert [name for name, text in expected.items() if text not in found[name]] == []


def text_of(numbers: Sequence[int]) -> str:
    return ",".join(map(str, numbers))


def test_text_for_terminals_controls_nothing():
    name = "r\x1b]52;c;cm0=\x07\u202e"
    module = xs.HloModule.parse(
        entry('p = f32[4]{0} parameter(0), metadata={op_name="NAME"}', "ROOT c = f32[4]{0} copy(p)")
    )
    message = module.to_proto()
    for instruction in message.computations[0].instructions:
        instruction.name += name
        instruction.metadata.op_name = name
        instruction.metadata.source_file = name
    found = xs.copies(xs.HloModule.from_proto(message))
    assert name in found[0].name
    for width in (None, 80, 20):
        assert found.to_text(width=width).replace("\n", "").isprintable()


LOOP = """
body { s = (s32[], f32[8,16]{1,0}) parameter(0) i = s32[] get-tuple-element(s), index=0 x = f32[8,16]{1,0} get-tuple-element(s), index=1
  one = s32[] constant(1) n = s32[] add(i, one) t = f32[8,16]{0,1} copy(x) u = f32[8,16]{0,1} custom-call(t), custom_call_target="lib"
  b = f32[8,16]{1,0} copy(u) ROOT r = (s32[], f32[8,16]{1,0}) tuple(n, b) }
cond { s = (s32[], f32[8,16]{1,0}) parameter(0) i = s32[] get-tuple-element(s), index=0 LIMIT ROOT c = pred[] compare(i, l), direction=LT }
"""


@pytest.mark.parametrize(
    ("limit", "config", "times", "bound"),
    [
        ("l = s32[] constant(7)", "", 7, "exact"),
        ('l = s32[] custom-call(), custom_call_target="when"', "", 1, "at least"),
        (
            'l = s32[] custom-call(), custom_call_target="when"',
            ', backend_config={"known_trip_count":{"n":"12"}}',
            12,
            "exact",
        ),
    ],
)
def test_loops_multiply(limit: str, config: str, times: int, bound: str):
    found = xs.copies(
        entry(
            "z = s32[] constant(0)",
            "x = f32[8,16]{1,0} parameter(0)",
            "t = (s32[], f32[8,16]{1,0}) tuple(z, x)",
            f"w = (s32[], f32[8,16]{{1,0}}) while(t), condition=cond, body=body{config}",
            "ROOT r = f32[8,16]{1,0} get-tuple-element(w), index=1",
            before=LOOP.replace("LIMIT", limit),
        )
    )
    assert [(row.times, row.times_bound, row.total_bytes) for row in found] == [(times, bound, 1024 * times)] * 2
    assert {row.forced_by for row in found} == {"custom call lib (u)", "the state of while (w)"}
    assert found.causes[0].saved_bytes == 0, "nothing is promised inside a loop"


def fusion(*lines: str, kind: str = "f32[8,16]{0,1}") -> str:
    body = "f {\n" + "\n".join(lines) + "\n}"
    return entry("x = f32[8,16]{1,0} parameter(0)", f"ROOT r = {kind} fusion(x), kind=kLoop, calls=f", before=body)


def test_fusions_that_only_move():
    row = only(fusion("p = f32[8,16]{1,0} parameter(0)", "ROOT c = f32[8,16]{0,1} copy(p)"))
    assert (row.name, str(row.opcode), row.mover, row.bytes) == ("r", "fusion", "c", 1024)
    two = only(
        fusion(
            "p = f32[8,16]{1,0} parameter(0)",
            "z = f32[] constant(0)",
            "s = f32[4,16]{1,0} slice(p), slice={[0:4], [0:16]}",
            "ROOT q = f32[6,16]{1,0} pad(s, z), padding=0_2x0_0",
            kind="f32[6,16]{1,0}",
        )
    )
    assert two.movers == ("s", "q") and two.cause_kind == "pad"
    assert (two.bytes_read, two.bytes_written) == (4 * 16 * 4, 6 * 16 * 4)


P, C = "p = f32[8,16]{1,0} parameter(0)", "c = f32[8,16]{0,1} copy(p)"


@pytest.mark.parametrize(
    ("lines", "kind", "bytes_"),
    [
        ((P, C, "ROOT n = f32[8,16]{0,1} negate(c)"), "f32[8,16]{0,1}", 0),
        ((P, "n = f32[8,16]{1,0} negate(p)", "ROOT c = f32[8,16]{0,1} copy(n)"), "f32[8,16]{0,1}", 0),
        # A copy that is a result of its own is written for itself, and read for itself if nothing else reads.
        (
            (P, C, "n = f32[8,16]{1,0} negate(p)", "ROOT t = (f32[8,16]{0,1}, f32[8,16]{1,0}) tuple(c, n)"),
            "(f32[8,16]{0,1}, f32[8,16]{1,0})",
            512,
        ),
        (
            (P, "n = f32[8,16]{1,0} negate(p)", "c = f32[8,16]{0,1} copy(n)", "ROOT t = (f32[8,16]{0,1}, f32[8,16]{1,0}) tuple(c, n)"),
            "(f32[8,16]{0,1}, f32[8,16]{1,0})",
            512,
        ),
        (
            (P, C, "z = f32[] constant(0)", "b = f32[4]{0} broadcast(z), dimensions={}", "n = f32[4]{0} negate(b)", "ROOT t = (f32[8,16]{0,1}, f32[4]{0}) tuple(c, n)"),
            "(f32[8,16]{0,1}, f32[4]{0})",
            1024,
        ),
    ],
)  # fmt: skip
def test_copies_in_fusions_that_compute(lines: tuple[str, ...], kind: str, bytes_: int):
    """What is read and written is counted where it is for the copy alone."""
    found = xs.copies(fusion(*lines, kind=kind))
    (row,) = found
    assert (row.name, row.mover, row.cause_kind, row.computes, row.bytes) == ("r", "c", "relayout", True, bytes_)
    assert "is in {1,0} and is wanted in {0,1}" in row.cause
    assert str(found).startswith("m: 1 fusion copies an array while computing: ")


def test_scalars_may_index_and_not_be_data():
    index = "i = s32[] parameter(1) one = s32[] constant(1) j = s32[] add(i, one) z = s32[] constant(0)"
    moves = f"f {{ p = f32[8,16]{{1,0}} parameter(0) {index} ROOT d = f32[1,16]{{1,0}} dynamic-slice(p, j, z), dynamic_slice_sizes={{1,16}} }}"
    lines = ("x = f32[8,16]{1,0} parameter(0)", "k = s32[] parameter(1)")
    row = only(entry(*lines, "ROOT r = f32[1,16]{1,0} fusion(x, k), kind=kLoop, calls=f", before=moves))
    assert (row.cause_kind, row.bytes_written) == ("slice", 64)
    computes = "f { p = f32[8,16]{1,0} parameter(0) z = s32[] constant(0) d = f32[1,1]{1,0} dynamic-slice(p, z, z), dynamic_slice_sizes={1,1} b = f32[] bitcast(d) ROOT n = f32[] negate(b) }"
    assert not xs.copies(entry(*lines, "ROOT r = f32[] fusion(x), kind=kLoop, calls=f", before=computes))


def convolved(transposes: str, name: str = "jit(f)/conv_general_dilated") -> str:
    """A module whose argument `x`, f32[8,3,16,16], is transposed for convolutions."""
    lines = [
        """HloModule m, is_scheduled=true
        ENTRY e {
          x = f32[8,3,16,16]{3,2,1,0} parameter(0), metadata={op_name="x"}
          k = f32[3,3,3,4]{3,2,1,0} parameter(1), metadata={op_name="k"}"""
    ]
    for number, dimensions in enumerate(transposes.split()):
        lines.append(
            f'  t{number} = f32[8,16,16,3]{{3,2,1,0}} transpose(x), dimensions={{{dimensions}}}, metadata={{op_name="jit(f)/transpose"}}\n'
            f"  c{number} = f32[8,16,16,4]{{3,2,1,0}} convolution(t{number}, k), window={{size=3x3 pad=1_1x1_1}}, "
            f'dim_labels=b01f_01io->b01f, metadata={{op_name="{name}"}}'
        )
    outputs = ", ".join([f"c{number}" for number in range(len(transposes.split()))])
    shapes = ", ".join(["f32[8,16,16,4]"] * len(transposes.split()))
    return "\n".join([*lines, f"  ROOT r = ({shapes}) tuple({outputs})", "}"])


def test_an_argument_of_a_convolution_has_dimension_numbers_and_no_letters_of_an_einsum():
    (found,) = xs.copies(convolved("0,2,3,1")).suggestions
    assert found.edits == ("order 0 (0, 2, 3, 1)",)
    assert found.text.endswith("(0, 2, 3, 1)): its letters in this order in dimension_numbers of the convolution")
    backward = convolved("0,2,3,1", "jit(f)/transpose(jvp(Conv))/conv_general_dilated")
    assert xs.copies(backward).suggestions == (), "no line names its dimension numbers"


def test_edits_that_exclude_each_other_say_so():
    found = xs.copies(convolved("0,2,3,1 0,3,2,1")).suggestions
    assert {each.edits for each in found} == {("order 0 (0, 2, 3, 1)",), ("order 0 (0, 3, 2, 1)",)}
    assert all(
        each.text.endswith("; instead of any other order of the same array that is named here") for each in found
    )
    module = convolved("0,2,3,1 0,3,2,1").replace(
        'dimensions={0,3,2,1}, metadata={op_name="jit(f)/transpose"}', "dimensions={0,3,2,1}"
    )
    (named,) = xs.copies(module).suggestions
    assert named.edits == ("order 0 (0, 2, 3, 1)",), "the compiler alone transposes to the other order"
    same = xs.copies(convolved("0,2,3,1 0,2,3,1")).suggestions
    assert [each.copies for each in same] == [2]
    assert "instead" not in same[0].text


def test_a_fusion_that_computes_is_not_its_own_user():
    text = """HloModule m, is_scheduled=true
    f { p = f32[8,8]{1,0} parameter(0)
      t = f32[8,8]{0,1} transpose(p), dimensions={1,0}
      c = f32[8,8]{1,0} copy(t)
      ROOT n = f32[8,8]{1,0} negate(c) }
    only { p = f32[8,8]{1,0} parameter(0)
      t = f32[8,8]{0,1} transpose(p), dimensions={1,0}
      ROOT c = f32[8,8]{1,0} copy(t) }
    ENTRY e { p = f32[8,8]{1,0} parameter(0)
      a = f32[8,8]{1,0} fusion(p), kind=kLoop, calls=f
      ROOT b = f32[8,8]{1,0} fusion(a), kind=kLoop, calls=only }"""
    report = xs.copies(text)
    rows = {row.name: row for row in report}
    assert (rows["a"].computes, rows["a"].total_bytes, rows["a"].consumer) == (True, 0, None)
    assert "it goes to" not in rows["a"].cause
    assert "in a fusion that computes with it: the other order moves no bytes more" in rows["a"].cause
    assert "and back" not in rows["b"].cause, "dimensions of equal sizes are exchanged"
    assert report.headline().splitlines()[1] == "  relayout 100% in 1 copy"


@pytest.mark.parametrize(("order", "moves"), [("0,1", False), ("1,0", True)])
def test_a_transposition_may_keep_the_order_in_memory(order: str, moves: bool):
    """XLA for CPU makes a copy of a transposition that leaves each element where it is."""
    step = f"ROOT t = f32[16,8]{{{order}}} transpose(p), dimensions={{1,0}}"
    moved = f"f {{ p = f32[8,16]{{1,0}} parameter(0) {step} }}"
    row = only(
        entry(
            "x = f32[8,16]{1,0} parameter(0)",
            f"n = f32[16,8]{{{order}}} fusion(x), kind=kLoop, calls=f",
            f'ROOT r = f32[16,8]{{{order}}} custom-call(n), custom_call_target="use"',
            before=moved,
        )
    )
    assert ("the data is copied in the order that it has" in row.cause) != moves
    assert (" and is wanted in " in row.cause) == moves
    assert (row.suggestion is not None) == moves


def test_advice_is_for_what_the_program_asks_for():
    """XLA's own joins, and copies between two of its operations, are no line of the program."""
    joined = "HloModule m, is_scheduled=true ENTRY e {{ p = f32[8] parameter(0) ROOT c = f32[16] concatenate(p, p), dimensions={{0}}{} }}"
    (row,) = xs.copies(joined.format(', metadata={op_name="jit(f)/concatenate"}'))
    assert row.suggestion == "write the parts into one array where they are made"
    (row,) = xs.copies(joined.format(""))
    assert row.suggestion is None
    padded = 'HloModule m, is_scheduled=true ENTRY e {{ p = f32[8] parameter(0) z = f32[] constant(0) ROOT c = f32[9] pad(p, z), padding=0_1, metadata={{op_name="{}"}} }}'
    (row,) = xs.copies(padded.format("jit(f)/pad"))
    assert row.suggestion == "choose sizes that need no padding"
    (row,) = xs.copies(padded.format("jit(f)/transpose(jvp())/pad"))
    assert "gradient of a slice" in row.suggestion


def test_a_donation_needs_that_of_the_argument_before():
    """JAX gives the memory of the first donated argument to the first output of its type and sizes."""
    lines = (
        "x = f32[64]{0} parameter(0)",
        "y = f32[64]{0} parameter(1)",
        "u = f32[8]{0} parameter(2)",
        "i = s32[] constant(3)",
        "a = f32[64]{0} copy(x)",
        "b = f32[64]{0} copy(y)",
        "c = f32[64]{0} dynamic-update-slice(a, u, i)",
        "d = f32[64]{0} dynamic-update-slice(b, u, i)",
    )
    found = xs.copies(entry(*lines, "ROOT t = (f32[64]{0}, f32[64]{0}) tuple(c, d)"))
    assert [each.edits for each in found.suggestions] == [("donate 0", "donate 1"), ("donate 0",)]
    other = xs.copies(entry(*lines, "ROOT t = (f32[64]{0}, f32[64]{0}) tuple(d, c)"))
    assert sorted(each.edits for each in other.suggestions) == [("donate 0", "first {1}"), ("donate 1",)]
    one = xs.copies(entry(*lines, "n = f32[64]{0} negate(y)", "ROOT t = (f32[64]{0}, f32[64]{0}) tuple(n, c)"))
    assert ("donate 0", "first {1}") in [each.edits for each in one.suggestions]


def cache(outputs: str, *, key: str = "k", names: tuple[str, str] = ("c[0]", "c[1]")) -> tuple[CopySuggestion, ...]:
    """What is advised for a decoder's cache, whose keys and values are updated. XLA copies the values, since they
    are not donated, and the keys only if `key` is "k".
    """
    form = "bf16[16,8,2048,64]{2,3,1,0:T(8,128)(2,1)}"
    lines = (
        f'k = {form} parameter(0), metadata={{op_name="{names[0]}"}}',
        f'v = {form} parameter(1), metadata={{op_name="{names[1]}"}}',
        "u = bf16[16,8,1,64]{2,3,1,0:T(8,128)(2,1)} parameter(2)",
        "i = s32[] parameter(3)",
        "z = s32[] constant(0)",
        f"a = {form} {'copy' if key == 'k' else 'negate'}(k)",
        f"b = {form} copy(v)",
        f"nk = {form} dynamic-update-slice(a, u, z, z, i, z)",
        f"nv = {form} dynamic-update-slice(b, u, z, z, i, z)",
        f"ROOT t = ({form}, {form}) tuple({outputs})",
    )
    return xs.copies(entry(*lines)).suggestions


def test_a_donation_by_name_is_that_of_the_whole_argument():
    """libtpu compiles a decoder's step without the copy if `c` is donated, and with two more copies if the outputs are
    swapped besides. What else is computed in the memory of the keys is not known here.
    """
    (found,) = cache("nk, nv", key="none")
    assert found.edits == ("donate 0", "donate 1")
    assert found.text.startswith("donate c[0], c[1]: jit(…, donate_argnames='c'); output {0} and output {1} take their")
    assert not found.is_exact
    assert cache("nv, nk", key="none") == ()
    (alone,) = cache("nk, nv", key="none", names=("k", "v"))
    assert alone.edits == ("donate 1", "first {1}"), "v can be donated without k"


def test_an_order_of_outputs_pairs_all_arrays_of_an_argument():
    (given,) = cache("nk, nv")
    assert (given.edits, given.removes, given.is_exact) == (("donate 0", "donate 1"), ("a", "b"), True)
    (swapped,) = cache("nv, nk")
    assert (swapped.edits, sorted(swapped.removes)) == (("donate 0", "donate 1", "first {1}"), ["a", "b"])
    assert swapped.is_exact
    assert swapped.text.startswith("return output {1} before the others")


def test_a_long_suggestion_is_listed_once():
    """The two copies of an argument become the memory of one output, so the same edits remove both."""
    numbers = range(12)
    aliasing = "output_to_operand_aliasing={{}: (0, {}), {}: (1, {})}"
    lines = [f"p{number} = f32[4,8]{{1,0}} parameter({number})" for number in numbers]
    for number in numbers:
        lines += [f"{name}{number} = f32[4,8]{{0,1}} copy(p{number})" for name in "cd"]
        lines.append(
            f'r.{number} = f32[4,8]{{0,1}} custom-call(c{number}, d{number}), custom_call_target="x", {aliasing}'
        )
    kinds, results = ", ".join(["f32[4,8]{0,1}"] * 12), ", ".join([f"r.{number}" for number in numbers])
    found = xs.copies(entry(*lines, f"ROOT t = ({kinds}) tuple({results})"))
    assert max(len(each.edits) for each in found.suggestions) > 12
    assert [each.removes for each in found.suggestions].count(("c11", "d11")) == 1
    assert len({frozenset(each.edits) for each in found.suggestions}) == len(found.suggestions) == 12


def test_an_argument_that_is_read_beside_the_update_is_not_donated():
    lines = (
        "x = f32[64]{0} parameter(0)",
        "u = f32[8]{0} parameter(1)",
        "i = s32[] constant(3)",
        "a = f32[64]{0} copy(x)",
        "c = f32[64]{0} dynamic-update-slice(a, u, i)",
    )
    beside = xs.copies(entry(*lines, "n = f32[64]{0} negate(x)", "ROOT t = (f32[64]{0}, f32[64]{0}) tuple(c, n)"))
    assert not beside.suggestions
    before = (
        *lines[:1],
        "s = f32[8]{0} slice(x), slice={[8:16]}",
        *lines[2:4],
        "c = f32[64]{0} dynamic-update-slice(a, s, i)",
    )
    found = xs.copies(entry(*before, "ROOT t = (f32[64]{0}) tuple(c)"))
    assert [each.edits for each in found.suggestions] == [("donate 0",)], "the update needs what was read"


def test_it_reads_well():
    text = str(xs.copies(fusion("p = f32[8,16]{1,0} parameter(0)", "ROOT c = f32[8,16]{0,1} copy(p)")))
    assert text.splitlines()[0] == "m: 1 instruction only moves data: 1,024 bytes (1.00 KiB) read and written"
    assert (
        max(
            map(
                len,
                xs.copies(fusion("p = f32[8,16]{1,0} parameter(0)", "ROOT c = f32[8,16]{0,1} copy(p)"))
                .to_text(width=80)
                .splitlines()[5:],
            )
        )
        <= 80
    )


def test_it_takes_what_modules_are_made_of(tmp_path: Path):
    text = entry("x = f32[8,16]{1,0} parameter(0)", "ROOT c = f32[8,16]{0,1} copy(x)")
    module = xs.HloModule.parse(text)
    module.save(tmp_path / "m.hlo.pb.gz", lossy=True)
    expected = xs.copies(module).to_dict()
    for each in (text, module.to_bytes(), module.proto, tmp_path / "m.hlo.pb.gz", str(tmp_path / "m.hlo.pb.gz")):
        assert xs.copies(each).to_dict() == expected
    with pytest.raises(xs.errors.NotFoundError, match="there is no file"):
        xs.copies(tmp_path / "none.hlo")


def test_copies_in_reports_about_memory(tmp_path: Path):
    """A TPU's allocator shows the largest allocations with the instructions that they are of, and no module."""
    text = """Ran out of memory in memory space hbm. Used 41.74G of 16.00G hbm. Exceeded hbm capacity by 25.74G.
  Largest program allocations in hbm:

  1. Size: 4.00M
     Operator: op_type="FloorMod" op_name="cic/FloorMod"
     Shape: s32[1024,8,4]{2,1,0:T(8,128)}
     XLA label: %copy.40 = s32[1024,8,4]{2,1,0:T(8,128)} copy(s32[1024,8,4]{0,2,1:T(4,128)} %get-tuple-element.32), metadata={op_type="FloorMod" op_name="cic/FloorMod"}
     Allocation type: HLO temp
  2. Size: 1.00M
     XLA label: %fusion.1 = f32[8,128]{1,0:T(8,128)} fusion(f32[]{:T(256)} %p), kind=kLoop, calls=%f
"""
    (row,) = xs.copies(text)
    assert (row.name, row.producer, row.cause_kind, row.forced_by) == (
        "copy.40",
        "get-tuple-element.32",
        "relayout",
        None,
    )
    assert row.bytes_written == 32 * row.bytes_read == 4 << 20
    assert row.op_name == "cic/FloorMod"
    assert row.cause == (
        "The data is in {0,2,1:T(4,128)} and is wanted in {2,1,0:T(8,128)}. Its tiles pad the result to 32 times the "
        "bytes of the operand."
    )
    (tmp_path / "report.txt").write_text(text)
    assert xs.copies(tmp_path / "report.txt").rows == xs.copies(text).rows
    assert not xs.copies("  1. Size: 1M\n     XLA label: fusion.1 = fusion(a, b), kind=kOutput, calls=c\n")


PATCHES = """HloModule m, is_scheduled=true
ENTRY e {
  x = f32[8,224,224,3]{2,1,3,0:T(8,128)} parameter(0), metadata={op_name="x"}
  k = bf16[16,16,3,256]{3,2,1,0:T(8,128)(2,1)} parameter(1), metadata={op_name="k"}
  n = bf16[8,224,224,3]{2,1,3,0:T(8,128)(2,1)} convert(x)
  c = bf16[8,224,224,3]{0,3,2,1:T(4,128)(2,1)} copy(n)
  ROOT r = bf16[8,14,14,256]{3,0,2,1:T(8,128)(2,1)} convolution(c, k), window={size=16x16 stride=16x16}, dim_labels=b01f_01io->b01f
}"""


def test_an_image_is_handed_over_in_patches():
    """libtpu compiles the convolution of a vision transformer for v5e with 52.4 MiB of copies, and the product of
    patches and kernel with 1.8 MiB."""
    (row,) = [row for row in xs.copies(PATCHES) if row.name == "c"]
    told = "hand x over in patches, (.*), and multiply it by (.*) instead of convolving"
    patches, matrix = re.fullmatch(told, row.suggestion).groups()
    rng = np.random.default_rng(7)
    x, kernel = rng.integers(-3, 4, (8, 224, 224, 3)), rng.integers(-3, 4, (16, 16, 3, 256))
    product = eval(patches, {"x": x}) @ eval(matrix, {"kernel": kernel})
    for _ in range(50):
        b, i, j, f = rng.integers(0, (8, 14, 14, 256))
        part = x[b, 16 * i : 16 * i + 16, 16 * j : 16 * j + 16]
        assert product[b, i, j, f] == (part * kernel[..., f]).sum()
    for changed in ("stride=8x8", "stride=16x16 pad=0_16x0_16"):
        size = 27 if "8x8" in changed else 15
        other = PATCHES.replace("stride=16x16", changed).replace("8,14,14,256", f"8,{size},{size},256")
        (row,) = [row for row in xs.copies(other) if row.name == "c"]
        assert row.suggestion == "none is known: the compiler chooses both layouts itself"
