"""Maps to ancestors, judged by execution: an element of an instruction is changed, and the result's maps to it must
name what changes."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from evaluated import leaves, run
from execution.case import Case, integers, nested, sizes, text
from execution.families.programs import Chain
from execution.judge import changed, parameters
from execution.predicted import matrix
from hlo_builder import Builder

from xlashape import indexing
from xlashape.hlo import HloInstruction
from xlashape.indexing.answers.leaves import leaves as leaf_shapes


def program(r: random.Random) -> Case:
    """A chain of operations; sometimes a part of it goes through a tuple or a fusion of several results."""
    dims = sizes(r, 1, 2, 4)
    builder = Builder()
    source, zero = builder.parameter(text("s64", dims)), builder.parameter("s64[]")
    offsets = [builder.parameter("s32[]") for _ in range(r.choice([0, 2]))]
    chain = Chain(r, builder, source, list(dims), zero, offsets)
    chain.steps(r.randint(1, 4))
    if r.random() < 0.6:
        through(r, chain)
        chain.steps(r.randint(1, 3))
    chain.finish()
    return Case(builder, {2 + i: integers(-1, 3) for i in range(len(offsets))})


def through(r: random.Random, chain: Chain) -> None:
    """Continues the chain through a tuple: one element is the array, another the result of an operation on it."""
    array = text("s64", chain.dims)
    if r.random() < 0.5:
        turned = chain.op("reverse", chain.dims, [chain.at], dimensions=[0]) if chain.dims else chain.at
        pair = chain.builder.op("tuple", f"({array}, {array})", [chain.at, turned])
    else:
        inner = Builder("inside")
        at = inner.parameter(array)
        square = inner.op("multiply", array, [at, at])
        inner.op("tuple", f"({array}, {array})", [square, at])
        pair = chain.builder.op("fusion", f"({array}, {array})", [chain.at], calls=[inner], fusion_kind="kLoop")
    parts = [chain.builder.op("get-tuple-element", array, [pair], tuple_index=i) for i in (0, 1)]
    chain.to("multiply", chain.dims, parts)


def seen_after(root: HloInstruction, given: list[Any], every: dict[HloInstruction, Any], at: HloInstruction, leaf: int):
    """Which elements of the result (rows) change with which element of that leaf (columns)."""
    arrays = leaves(every[at])
    before = np.asarray(every[root])
    found = np.zeros((before.size, arrays[leaf].size), dtype=bool)
    for column, index in enumerate(np.ndindex(*arrays[leaf].shape)):
        moved = [np.array(one) for one in arrays]
        moved[leaf][index] += 1 + 2 * (index[0] if index else 0)
        after = run(root.computation, given, {at: nested(at.shape, moved)})[root]
        found[:, column] = changed(before, after)
    return found


@pytest.mark.parametrize("seed", range(24))
def test_maps_to_ancestors_say_what_a_change_on_the_way_does(seed: int) -> None:
    case = program(random.Random(f"ancestors/{seed}"))
    root, rng = case.root, np.random.default_rng(seed)
    given = parameters(case, case.drawn(rng))
    every = run(root.computation, given)
    answers = indexing.output_to_ancestors(root)
    assert answers[root][0].map.is_identity or root.shape.rank == 0
    for instruction in root.computation.instructions:
        answer = list(answers.get(instruction, ()))
        assert indexing.output_to_ancestor(root, instruction) == indexing.OperandIndexingSet(answer)
        for leaf, shape in enumerate(leaf_shapes(instruction.shape)):
            seen = seen_after(root, given, every, instruction, leaf)
            members = [one for one in answer if one.leaf == leaf]
            named, outside = matrix(members, root.shape.dimensions, shape.dimensions, every)
            told = f"{instruction.name} leaf {leaf}: {members}\n{root.computation.module.to_text()}"
            assert not outside, told
            assert not (seen & ~named).any(), told
            # Padding values and initial values may take part in every element, and so may offsets and what is computed
            # from them.
            if shape.element_type.text == "s64" and instruction.name != "main.parameter.2":
                assert np.array_equal(seen, named) or _made_of_zero(instruction), told


def _made_of_zero(instruction: HloInstruction) -> bool:
    return any(operand.name == "main.parameter.2" for operand in instruction.operands) and str(instruction.opcode) in (
        "broadcast",
        "convert",
    )
