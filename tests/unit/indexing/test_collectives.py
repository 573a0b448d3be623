"""Operations across replicas, run on a handful of replicas in NumPy: elements and the replicas that hold them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hlo_builder import Builder, one_op

from xlashape import indexing
from xlashape.errors import InvalidModuleError, LimitExceededError
from xlashape.hlo import HloInstruction

GROUPS = [(0, 2, 4, 6), (5, 1, 3, 7)]


def collective(
    opcode: str, output: str, operand: str, groups: Sequence[Sequence[int]] = GROUPS, **fields: Any
) -> HloInstruction:
    return one_op(
        opcode, output, [operand], replica_groups=[{"replica_ids": list(group)} for group in groups], **fields
    )


def sources(
    one: indexing.OperandIndexing, index: tuple[int, ...], replica: int, *, backwards: bool = False
) -> set[tuple[int, tuple[int, ...]]]:
    """(replica, element) for every element that the access names, for one executing replica."""
    group = next((group for group in GROUPS if replica in group), ())
    position = [group.index(replica) for _ in one.runtime]
    assert all(variable.is_position for variable in one.runtime)
    element = one.map.evaluate((*index, *position))
    if element is None:
        return set()
    if one.replica is None:
        return {(replica, element)}
    partners = one.replica.partners(replica, backwards=backwards)
    assert partners is not None
    where = one.replica.map
    if where.ranges:
        (every,) = where.ranges
        places = {where.evaluate((*index, s)) for s in range(every.bounds.lower, every.bounds.upper + 1)}
    else:
        places = {where.evaluate(index)}
    return {(partners[place[0]], element) for place in places if place is not None and place[0] < len(partners)}


def check(root: HloInstruction, run: Any, operand_dims: tuple[int, ...]) -> None:
    """`run` takes the values of all replicas to their results; distinct numbers are sets of one (replica, element)
    each."""
    replicas = sorted(r for group in GROUPS for r in group)
    values = {r: np.empty(operand_dims, dtype=object) for r in replicas}
    for r, array in values.items():
        for at in np.ndindex(*operand_dims):
            array[at] = frozenset({(r, at)})
    results = run(values)
    (read,) = indexing.output_to_input(root)
    (written,) = indexing.input_to_output(root)
    forwards: dict[tuple[int, tuple[int, ...]], set[tuple[int, tuple[int, ...]]]] = {}
    for r, array in results.items():
        for at in np.ndindex(*array.shape):
            for form in (read, read.simplify()):
                assert set().union(*(sources(one, at, r) for one in form)) == array[at], (r, at, str(form))
            for source in array[at]:
                forwards.setdefault(source, set()).add((r, at))
    for r, array in values.items():
        for at in np.ndindex(*array.shape):
            assert set().union(*(sources(one, at, r, backwards=True) for one in written)) == forwards.get(
                (r, at), set()
            ), (r, at, str(written))


def summed(arrays: Sequence[np.ndarray]) -> np.ndarray:
    total = np.array(arrays[0])
    for array in arrays[1:]:
        for at in np.ndindex(*array.shape):
            total[at] = total[at] | array[at]
    return total


def group_of(replica: int) -> tuple[int, ...]:
    return next(group for group in GROUPS if replica in group)


def test_all_reduce() -> None:
    check(
        collective("all-reduce", "f32[2,3]", "f32[2,3]"),
        lambda v: {r: summed([v[o] for o in group_of(r)]) for r in v},
        (2, 3),
    )


def test_all_gather() -> None:
    root = collective("all-gather", "f32[2,12]", "f32[2,3]", dimensions=[1])
    check(root, lambda v: {r: np.concatenate([v[o] for o in group_of(r)], 1) for r in v}, (2, 3))


def test_reduce_scatter() -> None:
    root = collective("reduce-scatter", "f32[2,2]", "f32[8,2]", dimensions=[0])
    check(
        root, lambda v: {r: np.split(summed([v[o] for o in group_of(r)]), 4)[group_of(r).index(r)] for r in v}, (8, 2)
    )


def test_all_to_all() -> None:
    root = collective("all-to-all", "f32[8,2]", "f32[8,2]", dimensions=[0])
    check(
        root,
        lambda v: {r: np.concatenate([np.split(v[o], 4)[group_of(r).index(r)] for o in group_of(r)]) for r in v},
        (8, 2),
    )


def test_collective_permute() -> None:
    pairs = [(0, 1), (1, 0), (2, 7), (2, 6)]
    root = one_op(
        "collective-permute", "f32[3]", ["f32[3]"], source_target_pairs=[{"source": s, "target": t} for s, t in pairs]
    )

    def run(values: dict[int, np.ndarray]) -> dict[int, np.ndarray]:
        nothing = np.empty(3, dtype=object)
        nothing[:] = [frozenset()] * 3
        return {r: next((values[s] for s, t in pairs if t == r), nothing) for r in values}

    (read,) = indexing.output_to_input(root)
    results = run({r: np.array([frozenset({(r, (i,))}) for i in range(3)], dtype=object) for r in range(8)})
    for r, array in results.items():
        for i in range(3):
            assert sources(read[0], (i,), r) == array[i]
    (written,) = indexing.input_to_output(root)
    assert written.replica is not None
    assert written.replica.partners(2, backwards=True) == (7, 6)


def test_collective_broadcast() -> None:
    root = collective("collective-broadcast", "f32[3]", "f32[3]")
    (read,) = indexing.output_to_input(root)
    assert {r: sources(read[0], (1,), r) for r in range(8)} == {r: {(group_of(r)[0], (1,))} for r in range(8)}


def test_all_to_all_of_a_tuple() -> None:
    builder = Builder()
    operands = [builder.parameter("f32[2]") for _ in range(2)]
    builder.op("all-to-all", "(f32[2], f32[2])", operands, replica_groups=[{"replica_ids": [3, 5]}])
    root = builder.root()
    for output in range(2):
        for one in indexing.output_to_input(root, output):
            assert str(one.map) == "(d0) -> (d0), domain: d0 in [0, 1]"
            assert one.replica is not None
            assert one.replica.map.evaluate((0,)) == (output,)


def test_one_replica_alone() -> None:
    root = collective("all-reduce", "f32[3]", "f32[3]", [(4,)])
    assert indexing.output_to_input(root)[0].replica is None
    root = collective("all-gather", "f32[3]", "f32[3]", [(0,)], dimensions=[0])
    assert str(indexing.output_to_input(root)[0].simplify().map) == "(d0) -> (d0), domain: d0 in [0, 2]"


def test_several_operands() -> None:
    builder = Builder()
    a, b = builder.parameter("f32[2]"), builder.parameter("s32[3]")
    builder.op("all-reduce", "(f32[2], s32[3])", [a, b], replica_groups=[{"replica_ids": [0, 1]}])
    root = builder.root()
    assert [len(one) for one in indexing.output_to_input(root, 1)] == [0, 1]
    assert [len(one) for one in indexing.input_to_output(root, 1)] == [0, 1]


def test_an_unknown_number_of_replicas() -> None:
    (read,) = indexing.output_to_input(one_op("all-reduce", "f32[3]", ["f32[3]"]))
    assert read.replica is not None
    assert read.replica.map.is_undefined
    assert read.replica.partners(0) is None
    (read,) = indexing.output_to_input(one_op("all-to-all", "f32[4,2]", ["f32[4,2]"], dimensions=[0]))
    assert str(read.map).startswith("(d0, d1)[s0] -> (s0, d1), ")
    assert read.replica is not None
    assert read.replica.map.is_undefined
    (read,) = indexing.output_to_input(one_op("all-gather", "f32[12]", ["f32[4]"], dimensions=[0]))
    assert str(read.replica) == "(d0) -> (d0 / 4), domain: d0 in [0, 11]"


def test_groups_written_as_an_iota() -> None:
    groups = {
        "num_replica_groups": 2,
        "num_devices_per_group": 4,
        "iota_reshape_dims": [4, 2],
        "iota_transpose_perm": [1, 0],
    }
    (read,) = indexing.output_to_input(
        one_op("all-gather", "f32[8]", ["f32[2]"], dimensions=[0], iota_collective_device_list=groups)
    )
    assert read.replica is not None
    assert read.replica.groups == ((0, 2, 4, 6), (1, 3, 5, 7))
    for bad in ({"iota_reshape_dims": [3]}, {"iota_transpose_perm": [0, 0]}, {"iota_reshape_dims": [-8, -1]}):
        with pytest.raises(InvalidModuleError, match="replica groups"):
            indexing.output_to_input(
                one_op("all-gather", "f32[8]", ["f32[2]"], dimensions=[0], iota_collective_device_list=groups | bad)
            )
    huge = {"num_replica_groups": 1, "num_devices_per_group": 1 << 40, "iota_reshape_dims": [1 << 40]}
    with pytest.raises(LimitExceededError, match="devices of a list"):
        indexing.output_to_input(
            one_op("all-gather", "f32[8]", ["f32[2]"], dimensions=[0], iota_collective_device_list=huge)
        )


def test_groups_through_a_fusion() -> None:
    builder = Builder()
    start = builder.op("transpose", "f32[3,2]", [builder.parameter("f32[2,3]")], dimensions=[1, 0])
    gathered = builder.op(
        "all-gather", "f32[3,8]", [start], dimensions=[1], replica_groups=[{"replica_ids": list(g)} for g in GROUPS]
    )
    builder.op("reverse", "f32[3,8]", [gathered], dimensions=[1])
    root = builder.root()
    found = indexing.output_to_ancestor(root, root.computation.parameters[0])
    assert found.replica is not None
    for i in range(3):
        for j in range(8):
            assert found.map.evaluate((i, j)) == ((7 - j) % 2, i)
            assert found.replica.map.evaluate((i, j)) == ((7 - j) // 2,)


def mesh_axis(index: int, pre_size: int | None = None, size: int = 0) -> dict[str, Any]:
    part = {} if pre_size is None else {"sub_axis_info": {"pre_size": pre_size, "size": size}}
    return {"mesh_axis_index": index} | part


def groups_of(sizes: Sequence[int], axes: list[dict[str, Any]], **mesh: Any) -> tuple[tuple[int, ...], ...]:
    grid = {"axes": [{"name": f"a{i}", "size": n} for i, n in enumerate(sizes)]} | mesh
    root = one_op("all-reduce", "f32[3]", ["f32[3]"], mesh_axes_replica_group_list={"mesh": grid, "axes": axes})
    (read,) = indexing.output_to_input(root)
    if read.replica is None:
        return ()
    assert not read.replica.map.is_undefined
    return read.replica.groups


def test_groups_named_by_axes_of_a_mesh() -> None:
    """Devices that differ in the named axes form a group; NumPy finds them by moving those axes to the end."""
    grid = np.arange(24).reshape(2, 3, 4)
    for named in [(0,), (1,), (2,), (0, 2), (2, 0), (1, 2), (0, 1, 2), (2, 1, 0)]:
        rest = [axis for axis in range(3) if axis not in named]
        expected = grid.transpose(*rest, *named).reshape(-1, int(np.prod([grid.shape[axis] for axis in named])))
        assert groups_of([2, 3, 4], [mesh_axis(axis) for axis in named]) == tuple(map(tuple, expected.tolist()))
    ids = [5, 3, 1, 0, 2, 4]
    assert groups_of([2, 3], [mesh_axis(1)], device_ids=ids) == ((5, 3, 1), (0, 2, 4))
    turned = {"reshape_dims": [3, 2], "transpose_perm": [1, 0]}
    assert groups_of([2, 3], [mesh_axis(1)], iota_transform=turned) == ((0, 2, 4), (1, 3, 5))
    # A part of an axis: of eight devices as (2, 2, 2) the one in the middle, then the first.
    assert groups_of([8], [mesh_axis(0, 2, 2)]) == ((0, 2), (1, 3), (4, 6), (5, 7))
    assert groups_of([8], [mesh_axis(0, 1, 2)]) == ((0, 4), (1, 5), (2, 6), (3, 7))
    assert groups_of([8], [mesh_axis(0, 1, 4), mesh_axis(0, 4, 2)]) == (tuple(range(8)),)
    assert groups_of([4], []) == ()  # each device by itself


@pytest.mark.parametrize(
    ("sizes", "axes", "mesh"),
    [
        ([0], [mesh_axis(0)], {}),
        ([2, 3], [mesh_axis(2)], {}),
        ([2, 3], [mesh_axis(-1)], {}),
        ([2, 3], [mesh_axis(0), mesh_axis(0)], {}),
        ([8], [mesh_axis(0, 3, 2)], {}),
        ([8], [mesh_axis(0, 4, 4)], {}),
        ([8], [mesh_axis(0, 0, 2)], {}),
        ([8], [mesh_axis(0, 1, 4), mesh_axis(0, 2, 2)], {}),
        ([2, 3], [mesh_axis(0)], {"device_ids": [0, 1]}),
        ([2, 3], [mesh_axis(0)], {"iota_transform": {"reshape_dims": [5], "transpose_perm": [0]}}),
        ([2, 3], [mesh_axis(0)], {"iota_transform": {"reshape_dims": [6], "transpose_perm": [1]}}),
    ],
)
def test_an_invalid_mesh(sizes: list[int], axes: list[dict[str, Any]], mesh: dict[str, Any]) -> None:
    with pytest.raises(InvalidModuleError, match="replica groups"):
        groups_of(sizes, axes, **mesh)
    with pytest.raises(LimitExceededError, match="devices of a mesh"):
        groups_of([1 << 40], [mesh_axis(0)])


def test_slices_permuted_in_place() -> None:
    """Any slice of the source's inputs may be written anywhere; elements that are not written keep their value."""
    builder = Builder()
    shapes = ["(f32[8], f32[2,3])", "(f32[4], f32[5])", "((s32[]), (s32[], s32[]))", "((s32[]), (s32[]))"]
    operands = [builder.parameter(shape) for shape in shapes]
    pairs = [{"source": 0, "target": 1}]
    builder.op("collective-permute", shapes[1], operands, source_target_pairs=pairs)
    root = builder.root()
    sent, kept, starts, places = indexing.output_to_input(root, 1)
    assert [(one.leaf, len(one.map.results)) for one in sent] == [(0, 1), (1, 2)]
    assert sent.knowledge is starts.knowledge is places.knowledge is indexing.Knowledge.EVERY_ELEMENT
    assert {one.replica.partners(1) for one in (*sent, *starts) if one.replica is not None} == {(0,)}
    assert [one.leaf for one in starts] == [0, 1, 2]
    assert (kept.leaf, str(kept.map), kept.replica) == (1, "(d0) -> (d0), domain: d0 in [0, 4]", None)
    assert all(one.replica is not None and one.replica.map.is_undefined for one in places)
    assert [len(one) for one in indexing.input_to_output(root, 1, 1)] == [0, 1]
    for operand, leaf in ((0, 1), (2, 2), (3, 1)):
        written = indexing.input_to_output(root, operand, leaf)
        assert [one.knowledge for one in written] == [indexing.Knowledge.EVERY_ELEMENT] * 2
    with pytest.raises(InvalidModuleError, match="writes to"):
        indexing.output_to_input(one_op("collective-permute", "f32[3]", ["f32[8]", "f32[4]", "s32[1]", "s32[1]"]))
    with pytest.raises(InvalidModuleError, match="as many arrays"):
        indexing.output_to_input(one_op("collective-permute", "f32[3]", ["f32[8]", "f32[4]"]))


def test_asynchronous_permutes() -> None:
    pairs = [{"source": 2, "target": 5}]
    builder = Builder()
    operands = [builder.parameter("f32[4]"), builder.parameter("s32[3]")]
    shape = "((f32[4], s32[3]), (f32[4], s32[3]), u32[], u32[])"
    start = builder.op("collective-permute-start", shape, operands, source_target_pairs=pairs)
    builder.op("collective-permute-done", "(f32[4], s32[3])", [start])
    root = builder.root()
    found = indexing.output_to_ancestor(root, root.computation.parameters[1], 1)
    assert str(found.map) == "(d0) -> (d0), domain: d0 in [0, 2]"
    assert found.replica is not None
    assert found.replica.partners(5) == (2,)
    assert len(indexing.output_to_ancestor(root, root.computation.parameters[0], 1)) == 0
    (started,) = root.operands
    assert [[len(one) for one in indexing.output_to_input(started, i)] for i in range(6)] == [
        [1, 0], [0, 1], [1, 0], [0, 1], [0, 0], [0, 0],
    ]  # fmt: skip
    assert [len(one) for one in indexing.input_to_output(started, 1)] == [0, 1, 0, 1, 0, 0]
    builder = Builder()
    operands = [builder.parameter(one) for one in ("f32[8]", "f32[4]", "s32[1]", "s32[1]")]
    start = builder.op(
        "collective-permute-start", "(f32[8], f32[4], u32[], u32[])", operands, source_target_pairs=pairs
    )
    builder.op("collective-permute-done", "f32[4]", [start])
    root = builder.root()
    (started,) = root.operands
    assert [len(one) for one in indexing.output_to_input(started, 0)] == [1, 0, 0, 0]
    assert [len(one) for one in indexing.output_to_input(started, 1)] == [1, 1, 1, 1]
    kept = indexing.output_to_ancestor(root, root.computation.parameters[1])
    assert str(kept.map) == "(d0) -> (d0), domain: d0 in [0, 3]"
    with pytest.raises(InvalidModuleError, match="operands"):
        indexing.output_to_input(one_op("collective-permute-start", "f32[4]", ["f32[4]"]))
    with pytest.raises(InvalidModuleError, match="operands"):
        indexing.output_to_input(one_op("collective-permute-start", "(f32[3], f32[4])", ["f32[4]"]))


def test_all_to_all_of_a_tuple_that_does_not_fit_its_groups() -> None:
    builder = Builder()
    operands = [builder.parameter("f32[2]") for _ in range(2)]
    builder.op("all-to-all", "(f32[2], f32[2])", operands, replica_groups=[{"replica_ids": [3, 5, 7]}])
    root = builder.root()
    for ask in (indexing.output_to_input, indexing.input_to_output):
        with pytest.raises(InvalidModuleError, match="groups of 3 for 2 arrays"):
            ask(root)


def test_an_all_reduce_across_partitions_too() -> None:
    """With a channel and groups of replicas, every partition of the replicas takes part: of one replica, all its
    partitions."""
    groups = [{"replica_ids": [0]}]
    (read,) = indexing.output_to_input(one_op("all-reduce", "f32[3]", ["f32[3]"], replica_groups=groups, channel_id=1))
    assert str(read.map) == "(d0) -> (d0), domain: d0 in [0, 2]"
    assert read.replica is not None
    assert read.replica.map.is_undefined
    assert read.replica.partners(0) == (0,)
    for fields in ({}, {"channel_id": 1, "use_global_device_ids": True}):
        (read,) = indexing.output_to_input(one_op("all-reduce", "f32[3]", ["f32[3]"], replica_groups=groups, **fields))
        assert read.replica is None
