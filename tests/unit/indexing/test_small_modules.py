"""Maps of small modules that programs of several versions of XLA hold: each answered, and as XLA answers where that
does.

XLA's answers are those of jaxlib 0.12.0.1.
"""

from __future__ import annotations

from typing import NamedTuple

import pytest

from xlashape import indexing
from xlashape.errors import InvalidArgumentError, InvalidModuleError
from xlashape.hlo import HloModule
from xlashape.indexing import Knowledge

ADD = "add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(a, b) }\n"


class Case(NamedTuple):
    text: str
    """The module, without its header."""
    maps: list[list[str]]
    """From output 0 of the root to each operand."""
    replicas: tuple[tuple[int, ...], ...] | None = None
    """The groups of the first access."""


CASES = {
    "copy of a tuple": Case(
        "ENTRY e { p = (f32[2], f32[3]) parameter(0) ROOT c = (f32[2], f32[3]) copy(p) }",
        [["(d0) -> (d0), domain: d0 in [0, 1]"]],
    ),
    "all-gather across replicas and partitions": Case(
        "ENTRY e { p = f32[4,8] parameter(0) "
        "ROOT g = f32[4,32] all-gather(p), replica_groups={{0,1}}, channel_id=1, dimensions={1} }",
        [
            [
                "(d0, d1) -> (d0, d1 mod 8), domain: d0 in [0, 3], d1 in [0, 31]\nreplica id:\n"
                "(d0, d1) -> (d1 / 8), domain: d0 in [0, 3], d1 in [0, 31]"
            ]
        ],
        ((0, 1, 0, 1),),
    ),
    "all-gather across devices": Case(
        "ENTRY e { p = f32[4,8] parameter(0) "
        "ROOT g = f32[4,16] all-gather(p), replica_groups={{0,1}}, channel_id=1, use_global_device_ids=true, "
        "dimensions={1} }",
        [
            [
                "(d0, d1) -> (d0, d1 mod 8), domain: d0 in [0, 3], d1 in [0, 15]\nreplica id:\n"
                "(d0, d1) -> (d1 / 8), domain: d0 in [0, 3], d1 in [0, 15]"
            ]
        ],
        ((0, 1),),
    ),
    "all-gather of one element": Case(
        "ENTRY e { p = f32[1] parameter(0) ROOT g = f32[8] all-gather(p), dimensions={0}, "
        "replica_groups={{0,1,2,3,4,5,6,7}} }",
        [["(d0) -> (0), domain: d0 in [0, 7]\nreplica id:\n(d0) -> (d0), domain: d0 in [0, 7]"]],
    ),
    # XLA has no map of a reduce-scatter.
    "reduce-scatter across replicas and partitions": Case(
        ADD + "ENTRY e { p = f32[4,32] parameter(0) "
        "ROOT g = f32[4,8] reduce-scatter(p), replica_groups={{0,1}}, channel_id=1, dimensions={1}, to_apply=add }",
        [
            [
                "(d0, d1){rt0} -> (d0, rt0 * 8 + d1), domain: d0 in [0, 3], d1 in [0, 7], rt0 in [0, 3]\n"
                "runtime variables:\n\n"
                "rt0: position in a group of g; (d0, d1){rt0} -> (d0, d1 + rt0 * 8), domain: d0 in [0, 3], d1 in [0, "
                "7], rt0 in [0, 3]\n"
                "replica id:\n(d0, d1)[s0] -> (s0), domain: d0 in [0, 3], d1 in [0, 7], s0 in [0, 3]"
            ]
        ],
        ((0, 1, 0, 1),),
    ),
    # XLA gives operand 1, which is operand 0 too, the map of operand 0; the fused computation has no parameter for it.
    "fusion of one array twice, with one parameter": Case(
        "f { p = f32[4] parameter(0) ROOT r = f32[4] reverse(p), dimensions={0} }\n"
        "ENTRY e { x = f32[4] parameter(0) ROOT g = f32[4] fusion(x, x), kind=kLoop, calls=f }",
        [["(d0) -> (-d0 + 3), domain: d0 in [0, 3]"], []],
    ),
    # XLA gives both operands, which are one array, the maps of both parameters.
    "fusion of one array twice, with two parameters": Case(
        "f { p = f32[4] parameter(0) q = f32[4] parameter(1) r = f32[4] reverse(q), dimensions={0} ROOT n = f32[4] "
        "add(p, r) }\n"
        "ENTRY e { x = f32[4] parameter(0) ROOT g = f32[4] fusion(x, x), kind=kLoop, calls=f }",
        [["(d0) -> (d0), domain: d0 in [0, 3]"], ["(d0) -> (-d0 + 3), domain: d0 in [0, 3]"]],
    ),
    "fusion that does not read an operand": Case(
        "f { p = f32[4] parameter(0) ROOT r = f32[4] reverse(p), dimensions={0} }\n"
        "ENTRY e { x = f32[4] parameter(0) y = f32[7] parameter(1) ROOT g = f32[4] fusion(x, y), kind=kLoop, calls=f }",
        [["(d0) -> (-d0 + 3), domain: d0 in [0, 3]"], []],
    ),
    "fusion that reads at an offset, with fewer parameters": Case(
        "f { p = f32[8] parameter(0) i = s32[] parameter(1) ROOT r = f32[4] dynamic-slice(p, i), "
        "dynamic_slice_sizes={4} }\n"
        "ENTRY e { x = f32[8] parameter(0) i = s32[] parameter(1) ROOT g = f32[4] fusion(x, i, i), kind=kLoop, calls=f "
        "}",
        [
            [
                "(d0){rt0} -> (d0 + rt0), domain: d0 in [0, 3], rt0 in [0, 4]\nruntime variables:\n\nrt0: "
                "parameter(1); (d0) -> (), domain: d0 in [0, 3]"
            ],
            ["(d0) -> (), domain: d0 in [0, 3]"],
            [],
        ],
    ),
    "empty tuple": Case("ENTRY e { ROOT t = () tuple() }", []),
    "copy of an empty tuple": Case("ENTRY e { t = () tuple() ROOT c = () copy(t) }", [[]]),
}


@pytest.mark.parametrize("name", CASES)
def test_maps(name: str) -> None:
    text, maps, replicas = CASES[name]
    root = HloModule.parse(f"HloModule m\n{text}").entry.root
    answer = indexing.output_to_input(root)
    found = [[access.simplify().to_text() for access in reads] for reads in answer]
    assert found == maps
    if replicas is not None:
        replica = answer[0].replica
        assert replica is not None
        assert replica.groups == replicas
    ancestors = indexing.output_to_ancestors(root)
    assert ancestors.keys() >= {root, *(o for o, reads in zip(root.operands, answer, strict=True) if reads)}
    for operand, other in enumerate(root.operands):
        for leaf in range(len(list(other.shape.leaves()))):
            written = indexing.input_to_output(root, operand, leaf)
            assert all(not access.map.is_undefined for accesses in written for access in accesses)
            assert any(written) == (leaf > 0 or bool(answer[operand]))


def test_the_other_leaf_of_a_copied_tuple() -> None:
    root = HloModule.parse(f"HloModule m\n{CASES['copy of a tuple'].text}").entry.root
    ((access,),) = indexing.output_to_input(root, 1)
    assert (str(access.map), access.leaf) == ("(d0) -> (d0), domain: d0 in [0, 2]", 1)
    first, second = indexing.input_to_output(root, 0, 1)
    assert not first
    assert str(second.map) == "(d0) -> (d0), domain: d0 in [0, 2]"


@pytest.mark.parametrize(
    "text",
    [
        "ENTRY e { p = (f32[2], f32[3]) parameter(0) ROOT c = (f32[3], f32[2]) copy(p) }",
        # Three parts cannot be those of every partition of two replicas.
        "ENTRY e { p = f32[8] parameter(0) ROOT g = f32[24] all-gather(p), replica_groups={{0,1}}, channel_id=1, "
        "dimensions={0} }",
    ],
)
def test_refused(text: str) -> None:
    proto = HloModule.parse(f"HloModule m\n{text}")
    with pytest.raises(InvalidModuleError):
        indexing.output_to_input(proto.entry.root)


def test_an_output_that_an_empty_tuple_does_not_have() -> None:
    root = HloModule.parse("HloModule m\nENTRY e { ROOT t = () tuple() }").entry.root
    for ask in (indexing.output_to_input, indexing.output_to_ancestors):
        with pytest.raises(InvalidArgumentError):
            ask(root, 1)


def test_an_opcode_that_is_not_known() -> None:
    proto = HloModule.parse(
        "HloModule m\nENTRY e { p = f32[4] parameter(0) n = f32[4] negate(p) ROOT r = f32[4] reverse(n), "
        "dimensions={0} }"
    ).to_proto()
    proto.computations[0].instructions[1].opcode = "frobnicate"
    module = HloModule.from_proto(proto)
    by_name = {answer.instruction.name: answer.operands[0].knowledge for answer in indexing.module_indexing(module)}
    assert by_name == {"n": Knowledge.UNKNOWN, "r": Knowledge.EXACT}
    unknown = module.instruction("n")
    assert indexing.input_to_output(unknown)[0].knowledge is Knowledge.UNKNOWN
    ancestors = indexing.output_to_ancestors(module.entry.root)
    assert {i.name: reads.knowledge for i, reads in ancestors.items()} == {
        "r": Knowledge.EXACT,
        "n": Knowledge.EXACT,
        "p": Knowledge.UNKNOWN,
    }
    assert len(list(indexing.module_reads(module))) == 2
