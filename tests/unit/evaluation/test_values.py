"""Values of instructions, compared with execution by XLA and with NumPy."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from equivalent_programs import FOLDER, rows, texts

from xlashape.errors import InvalidArgumentError, LimitExceededError, UnsupportedError
from xlashape.evaluation import evaluate
from xlashape.evaluation.control import is_evaluated
from xlashape.hlo import HloModule, Opcode
from xlashape.hlo.literal import from_numpy
from xlashape.proto import xla
from xlashape.reports.equivalent import equivalent
from xlashape.shape import Shape, tiling

ELSEWHERE = {
    Opcode.PARAMETER: "its value is given",
    Opcode.COLLECTIVE_REDUCE: "XLA has not said yet what devices other than the root get",
    Opcode.SHUFFLE: "no compiler makes it yet, and XLA has not said in which direction it rotates",
}


@pytest.mark.parametrize("row", rows("evaluate"), ids=lambda row: row["key"])
def test_values_are_those_of_execution(row: dict[str, Any]) -> None:
    with np.load(FOLDER / "values.npz") as values:
        inputs = [values[f"{row['key']}.in{i}"] for i in range(row["inputs"])]
        expected = [values[f"{row['key']}.out{i}"] for i in range(row["outputs"])]
    found = evaluate(texts(row["program"])[row["file"]], inputs)
    for one, other in zip(found, expected, strict=True):
        if other.dtype.kind == "f":
            np.testing.assert_allclose(one.astype(np.float64), other, rtol=5e-3, atol=1e-5)
        else:
            assert np.array_equal(one, other)


def test_every_opcode_has_an_evaluator() -> None:
    left = {opcode for opcode in Opcode if not is_evaluated(str(opcode))}
    assert left == set(ELSEWHERE)


def run(body: str, *inputs: Any) -> list[np.ndarray]:
    return evaluate(f"HloModule m\n\nENTRY e {{\n{body}\n}}\n", list(inputs))


@pytest.mark.parametrize(
    ("opcode", "a", "b", "expected"),
    [
        ("divide", [7, -7, 7, -(1 << 31)], [2, 2, 0, -1], [3, -3, -1, -(1 << 31)]),
        ("remainder", [7, -7, 7, -7], [2, 2, 0, -4], [1, -1, 7, -3]),
        ("shift-left", [1, 1, 1, 3], [31, 32, -1, 1], [-(1 << 31), 0, 0, 6]),
        ("shift-right-logical", [-1, -1, 8, 8], [1, 32, 2, -1], [(1 << 31) - 1, 0, 2, 0]),
        ("shift-right-arithmetic", [-8, -8, 8, 8], [1, 32, 2, 40], [-4, -1, 2, 0]),
        ("power", [2, -1, 3, 0], [10, -3, -1, 0], [1024, -1, 0, 1]),
        ("add", [(1 << 31) - 1, 1, 2, 3], [1, 1, 1, 1], [-(1 << 31), 2, 3, 4]),
    ],
)
def test_integers_wrap_and_have_results_for_every_operand(
    opcode: str, a: list[int], b: list[int], expected: list[int]
) -> None:
    body = f"a = s32[4] parameter(0)\nb = s32[4] parameter(1)\nROOT r = s32[4] {opcode}(a, b)"
    assert run(body, a, b)[0].tolist() == expected


def test_floats_become_integers_as_in_xla() -> None:
    values = [2.9, -2.9, np.nan, 1e20, -np.inf]
    assert run("a = f32[5] parameter(0)\nROOT r = s32[5] convert(a)", values)[0].tolist() == [
        2,
        -2,
        0,
        (1 << 31) - 1,
        -(1 << 31),
    ]
    assert run("a = f32[5] parameter(0)\nROOT r = u8[5] convert(a)", values)[0].tolist() == [2, 0, 0, 255, 0]
    assert run("a = f32[2] parameter(0)\nROOT r = s64[2] convert(a)", [1e30, -1e30])[0].tolist() == [
        (1 << 63) - 1,
        -(1 << 63),
    ]


def test_indices_outside_are_clamped_or_skipped() -> None:
    body = """a = s32[5] parameter(0)
i = s32[3,1] parameter(1)
ROOT g = s32[3] gather(a, i), offset_dims={}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1}"""
    assert run(body, [10, 11, 12, 13, 14], [[-3], [2], [9]])[0].tolist() == [10, 12, 14]
    body = """HloModule m
add { x = s32[] parameter(0)
 y = s32[] parameter(1)
 ROOT s = s32[] add(x, y) }
ENTRY e { a = s32[5] parameter(0)
i = s32[4,1] parameter(1)
u = s32[4] parameter(2)
ROOT g = s32[5] scatter(a, i, u), update_window_dims={}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add }"""
    assert evaluate(body, [np.zeros(5), [[-1], [2], [2], [5]], [1, 2, 3, 4]])[0].tolist() == [0, 0, 5, 0, 0]


def test_all_devices_run_in_step() -> None:
    text = """HloModule m, num_partitions=4
add { x = f32[] parameter(0)
 y = f32[] parameter(1)
 ROOT s = f32[] add(x, y) }
ENTRY e { a = f32[2] parameter(0)
 i = u32[] partition-id()
 f = f32[] convert(i)
 b = f32[2] broadcast(f), dimensions={}
 m = f32[2] multiply(a, b)
 r = f32[2] all-reduce(m), replica_groups={{0,1},{2,3}}, to_apply=add
 ROOT p = f32[2] collective-permute(r), source_target_pairs={{0,2},{2,0}} }"""
    (found,) = evaluate(text, [[1, 2]])
    assert [one.tolist() for one in found] == [[5, 10], [0, 0], [1, 2], [0, 0]]
    (found,) = evaluate(text, [[np.full(2, n) for n in range(4)]])
    assert [one.tolist() for one in found] == [[13, 13], [0, 0], [1, 1], [0, 0]]


def test_shardings_in_attributes_of_shardy_divide_and_join() -> None:
    """JAX before 0.11 writes them so. What devices along x and y hold is joined along y and x."""
    given, made = [
        f'frontend_attributes={{xla.sdy.{name}="#sdy.sharding_per_value<[<@mesh, [{dims}]>]>"}}'
        for name, dims in (("in_shardings", r"{\"x\"}, {\"y\"}"), ("out_shardings", r"{\"y\"}, {\"x\"}"))
    ]
    text = f"""HloModule m, num_partitions=4, frontend_attributes={{xla.sdy.meshes={{mesh = #sdy.mesh<["x"=2, "y"=2]>}}}}
ENTRY e {{ x = s32[4,4] parameter(0)
 l = s32[2,2] custom-call(x), custom_call_target="xla.sdy.GlobalToLocalShape", {given}
 g = s32[4,4] custom-call(l), custom_call_target="xla.sdy.LocalToGlobalShape", {made}
 ROOT r = s32[4,4] custom-call(g), custom_call_target="xla.sdy.FuncResultSharding" }}"""
    (found,) = evaluate(text, [np.arange(16).reshape(4, 4)])
    assert found.tolist() == [[0, 1, 8, 9], [4, 5, 12, 13], [2, 3, 10, 11], [6, 7, 14, 15]]


def test_devices_that_exchange_data_go_on_together() -> None:
    text = """HloModule m, num_partitions=4
add {{ x = s32[] parameter(0)
 y = s32[] parameter(1)
 ROOT s = s32[] add(x, y) }}
more {{ x = s32[] parameter(0)
 c = s32[] constant(10)
 ROOT r = pred[] compare(x, c), direction=LT }}
body {{ x = s32[] parameter(0)
 ROOT s = s32[] {} }}
ENTRY e {{ x = s32[] parameter(0)
 ROOT w = s32[] while(x), condition=more, body=body }}"""
    groups = "all-reduce(x), replica_groups={{{{{}}},{{{}}}}}, to_apply=add"
    for line, starts, expected in (
        ("add(x, x)", (1, 12, 3, 4), [16, 12, 12, 16]),
        (groups.format("0,1", "2,3"), (1, 1, 3, 3), [16, 16, 12, 12]),
        (groups.format("0,2", "1,3"), (1, 12, 3, 12), [16, 12, 16, 12]),
        (groups.format("0,1", "2,3"), (1, 12, 3, 3), None),
        ("collective-permute(x), source_target_pairs={{0,1}}", (1, 12, 3, 3), None),
    ):
        inputs = [[np.int32(n) for n in starts]]
        if expected is None:
            with pytest.raises(UnsupportedError, match="ends on some devices before it ends on others"):
                evaluate(text.format(line), inputs)
        else:
            assert [int(x) for x in evaluate(text.format(line), inputs)[0]] == expected


def test_matrix_products_of_cublas_have_alpha_beta_and_epilogue() -> None:
    config = {
        "gemm_backend_config": {
            "alpha_real": 2, "alpha_imag": 0, "beta": 1, "epilogue": "BIAS_RELU",
            "dot_dimension_numbers": {"lhs_contracting_dimensions": ["1"], "rhs_contracting_dimensions": ["0"]},
        }
    }  # fmt: skip
    text = f"""ENTRY e {{ a = f32[2,3] parameter(0)  b = f32[3,2] parameter(1)  c = f32[2,2] parameter(2)
 d = f32[2] parameter(3)
 ROOT r = f32[2,2] custom-call(a, b, c, d), custom_call_target="__cublas$lt$matmul", backend_config={json.dumps(config)} }}"""
    rng = np.random.default_rng(0)
    a, b, c, d = rng.normal(size=(2, 3)), rng.normal(size=(3, 2)), rng.normal(size=(2, 2)), rng.normal(size=2)
    np.testing.assert_allclose(evaluate(text, [a, b, c, d])[0], np.maximum(2 * a @ b + c + d, 0), rtol=1e-6)


def test_what_cannot_be_evaluated_is_one_error_that_names_it() -> None:
    with pytest.raises(
        UnsupportedError, match="instruction 'c' cannot be evaluated: custom-call of 'mine' has no meaning"
    ):
        run('p = f32[2] parameter(0)\nROOT c = f32[2] custom-call(p), custom_call_target="mine"', [1, 2])
    with pytest.raises(UnsupportedError, match="instruction 'c' cannot be evaluated: constant has elided values"):
        run("ROOT c = f32[12] constant({...})")
    with pytest.raises(LimitExceededError, match="evaluated elements: 100000000000 is more than"):
        run("p = f32[] parameter(0)\nROOT b = f32[100000,1000000] broadcast(p), dimensions={}", 1)
    with pytest.raises(
        InvalidArgumentError, match=r"input 0 has the sizes \[3\], and the parameter those of f32\[2\]"
    ) as error:
        run("ROOT p = f32[2] parameter(0)", [1, 2, 3])
    assert error.value.path == ("inputs", 0)
    with pytest.raises(InvalidArgumentError, match="there are 2 inputs for 1 arrays of parameters"):
        run("ROOT p = f32[2] parameter(0)", [1, 2], [3, 4])
    endless = """HloModule m
body { ROOT b = s32[] parameter(0) }
cond { c = s32[] parameter(0)
 ROOT t = pred[] constant(true) }
ENTRY e { p = s32[] parameter(0)
 ROOT w = s32[] while(p), condition=cond, body=body }"""
    with pytest.raises(LimitExceededError, match="iterations of a loop: 20001 is more than 20000"):
        evaluate(endless, [1])


def test_values_of_all_instructions() -> None:
    found = evaluate(
        "ENTRY e { p = f32[2] parameter(0)  n = f32[2] negate(p)  ROOT t = (f32[2]) tuple(n) }", [[1, 2]], values=True
    )
    assert {name: np.asarray(value).tolist() for name, value in found.items()} == {
        "p": [1, 2],
        "n": [-1, -2],
        "t": [[-1, -2]],
    }


def test_a_snapshot_brings_its_arguments() -> None:
    module = HloModule.parse(
        "HloModule m\n\nENTRY e {\n p = (f32[2], s32[]) parameter(0)\n q = f32[2] parameter(1)\n x = f32[2] get-tuple-element(p), index=0\n"
        " ROOT s = f32[2] subtract(x, q)\n}\n"
    )
    literals = [
        from_numpy((np.array([1, 2], np.float32), np.array(3, np.int32))),
        from_numpy(np.array([5, 7], np.float32)),
    ]
    snapshot = xla.HloSnapshot(hlo=xla.HloProto(hlo_module=module.proto), arguments=literals, execution_platform="cpu")
    assert evaluate(snapshot.SerializeToString())[0].tolist() == [-4, -5]
    assert evaluate(snapshot.SerializeToString(), [[1, 1], 0, [1, 0]])[0].tolist() == [0, 1]


def test_pieces_of_different_sizes_go_to_the_device_and_the_place_that_their_sender_says() -> None:
    """Device 0 keeps one row and sends two to device 1, which sends one back, behind the row that is there."""
    text = """HloModule m, num_partitions=2
ENTRY e {
  x = f32[3] parameter(0)
  o = f32[4] parameter(1)
  b = s32[2] parameter(2)
  n = s32[2] parameter(3)
  p = s32[2] parameter(4)
  r = s32[2] parameter(5)
  ROOT a = f32[4] ragged-all-to-all(x, o, b, n, p, r), channel_id=1, replica_groups={{0,1}}
}"""
    per_device = [
        [[1, 2, 3], [4, 5, 6]],
        [[0, 0, 0, 0], [9, 9, 9, 9]],
        [[0, 1], [0, 1]],
        [[1, 2], [1, 0]],
        [[0, 1], [2, 0]],
        [[1, 1], [2, 0]],
    ]
    (found,) = evaluate(text, [[np.array(x) for x in each] for each in per_device])
    assert [x.tolist() for x in found] == [[1, 0, 4, 0], [9, 2, 3, 9]]


TILED = [
    ("f32[16,256]{1,0:T(8,128)}", "f32[256,16]{0,1:T(8,128)}"),
    ("f32[5,7]{1,0:T(8,128)}", "f32[1,5,7]{2,1,0:T(8,128)}"),
    ("f32[300]{0:T(256)}", "f32[2,150]{1,0:T(1,256)}"),
    ("bf16[20,300]{1,0:T(8,128)(2,1)}", "bf16[20,1,300]{2,0,1:T(8,128)(2,1)}"),
    ("s8[40,130]{1,0:T(8,128)(4,1)}", "s8[130,40]{0,1:T(8,128)(4,1)}"),
    ("pred[9,128]{1,0:T(8,128)(4,1)}", "pred[9,128,1]{1,0,2:T(8,128)(4,1)}"),
    ("s32[3,200]{1,0:T(4,128)}", "f32[3,200]{1,0:T(4,128)}"),
    ("f32[3,200]{1,0:T(4,128)}", "u32[3,200]{1,0:T(4,128)}"),
    ("bf16[256]{0:T(256)}", "u32[128]{0:T(128)}"),
    ("f32[4,3]{1,0}", "f32[4,3]{1,0:T(2,2)}"),
    ("f32[]{:T(128)}", "f32[1]{0:T(128)}"),
    ("f32[1]{0:T(128)}", "u32[]{:T(128)}"),
    ("c64[3]{0:T(128)}", "c64[1,3]{1,0:T(1,128)}"),
]


@pytest.mark.parametrize(("source", "target"), TILED)
def test_bitcasts_of_tiled_arrays_keep_the_bytes(source: str, target: str) -> None:
    a, b = Shape.parse(source), Shape.parse(target)
    dtype = a.element_type.numpy_dtype()
    values = np.random.default_rng(3).integers(0, 100, a.dimensions)
    x = (values % 2).astype(bool) if dtype == np.dtype(bool) else values.astype(dtype)
    (found,) = run(f"x = {source} parameter(0)\nROOT y = {target} bitcast(x)", x)
    buffer = np.zeros(max(map(tiling.physical_bytes, (a, b))), np.uint8)
    packed = tiling.pack(a, x)
    buffer[: packed.size] = packed
    expected = tiling.unpack(b, buffer[: tiling.physical_bytes(b)])
    assert found.dtype == expected.dtype and found.tobytes() == expected.tobytes()


def test_bitcasts_of_tiled_arrays_are_movements_in_a_field() -> None:
    source, target = "f32[16,256]{1,0:T(8,128)}", "f32[256,16]{0,1:T(8,128)}"
    text = f"ENTRY e {{ x = {source} parameter(0)  s = {source} add(x, x)  ROOT y = {target} OP }}"
    moved = text.replace("OP", "bitcast(s)")
    assert equivalent(moved, text.replace("OP", "transpose(s), dimensions={1,0}")).verdict == "equal"
    assert equivalent(moved, text.replace("OP", "reshape(s)")).verdict == "differs"


def call(target: str, result: str, *operands: str) -> str:
    names = [f"p{i}" for i in range(len(operands))]
    lines = [f"{name} = {shape} parameter({i})" for i, (name, shape) in enumerate(zip(names, operands, strict=True))]
    return "\n".join([*lines, f'ROOT r = {result} custom-call({", ".join(names)}), custom_call_target="{target}"'])


def test_calls_of_tpu_compilers_are_the_operations_that_they_stand_for() -> None:
    rng = np.random.default_rng(1)
    a = rng.normal(size=(4, 4))
    spd = a @ a.T + np.eye(4)
    (found,) = run(call("Cholesky", "f64[4,4]", "f64[4,4]"), spd)
    np.testing.assert_allclose(found, np.linalg.cholesky(spd), rtol=1e-9, atol=1e-12)
    for name, triangle in (("Lower", np.tril(a)), ("Upper", np.triu(a))):
        (found,) = run(call(f"InvertDiagBlocks{name}Triangular", "f64[1,4,4]", "f64[1,4,4]"), triangle[None])
        np.testing.assert_allclose(found[0] @ triangle, np.eye(4), rtol=1e-6, atol=1e-8)
    wide = np.array([-1, 5 << 40 | 3, -(1 << 63)])
    low, high = ([run(call(f"X64Split{part}", "u32[3]", "s64[3]"), wide)[0]] for part in ("Low", "High"))
    assert low[0].tolist() == [0xFFFFFFFF, 3, 0] and high[0].tolist() == [0xFFFFFFFF, 5 << 8, 0x80000000]
    assert run(call("X64Combine", "s64[3]", "u32[3]", "u32[3]"), *low, *high)[0].tolist() == wide.tolist()
    (found,) = run(call("X64Combine", "c64[1]", "f32[1]", "f32[1]"), np.float32([2]), np.float32([3]))
    assert found.tolist() == [2 + 3j]
    with pytest.raises(UnsupportedError, match="of floats is not known"):
        run(call("X64Combine", "f64[1]", "f32[1]", "f32[1]"), np.float32([2]), np.float32([3]))


def test_a_copy_in_parts_is_equal_to_the_array() -> None:
    shape = "f32[16,128]{1,0:T(8,128)}"
    text = f"ENTRY e {{ p = {shape} parameter(0)  q = {shape} parameter(1)  PARTS  ROOT r = {shape} add(JOINED, q) }}"
    part = "f32[8,128]{1,0:T(8,128)}"
    parts = f"a = {part} slice(p), slice={{[0:8], [0:128]}}  b = {part} slice(p), slice={{[8:16], [0:128]}}"
    joined = f'{parts}  c = {shape} custom-call(a, b), custom_call_target="ConcatBitcast"'
    whole = text.replace("PARTS", "").replace("JOINED", "p")
    made = text.replace("PARTS", joined).replace("JOINED", "c")
    assert equivalent(whole, made).verdict == "equal"
    # Libtpu lists parts in the order of their copies, and each goes to the place that it has in the array.
    assert equivalent(whole, made.replace("(a, b)", "(b, a)")).verdict == "equal"
    assert equivalent(whole, made.replace("add(c, q)", "subtract(c, q)")).verdict == "differs"
    for damaged in (made.replace("[8:16]", "[7:15]"), made.replace("slice(p), slice={[8", "slice(q), slice={[8")):
        assert damaged != made and equivalent(whole, damaged).verdict == "unknown"


def test_parts_that_are_copied_beside_other_work_go_to_their_places() -> None:
    part, space = "f32[8,128]{1,0:T(8,128)S(1)}", "f32[16,128]{1,0:T(8,128)}"
    lines = [f"p = {space} parameter(0)"]
    for name, taken in (("late", "8:16"), ("early", "0:8")):
        started = f"(({space}), {part}, s32[]{{:S(2)}}) slice-start(p), slice={{[{taken}], [0:128]}}"
        lines += [f"{name}.0 = {started}", f"{name}.1 = {part} slice-done({name}.0)"]
    whole = space.replace("}", "S(1)}")
    lines.append(f'ROOT c = {whole} custom-call(late.1, early.1), custom_call_target="ConcatBitcast"')
    x = np.arange(16 * 128, dtype=np.float32).reshape(16, 128)
    assert (run("\n".join(lines), x)[0] == x).all()
    scalar = 'p = f32[] parameter(0)\ns = f32[] slice(p), slice={}\nROOT c = f32[] custom-call(s), custom_call_target="ConcatBitcast"'
    with pytest.raises(UnsupportedError, match="ConcatBitcast"):
        run(scalar, np.float32(1))
