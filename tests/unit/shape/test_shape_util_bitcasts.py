"""Functions of `shape_util` about bitcasts, reshapes and transposes, against NumPy."""

from __future__ import annotations

import itertools
import math
import random

import numpy as np
import pytest
from random_arrays import positions, random_array, random_sizes

from xlashape.errors import (
    InvalidShapeError,
)
from xlashape.shape import (
    Layout,
    Shape,
    index_util,
    shape_util,
)

parse = Shape.parse


def other_sizes(r: random.Random, sizes: list[int]) -> list[int]:
    factors = [p for size in sizes for p in ((2, 2) if size == 4 else (size,)) if p > 1]
    out: list[int] = []
    while factors:
        count = r.randint(1, 2)
        out.append(math.prod(factors[:count]))
        factors = factors[count:]
    for _ in range(r.randint(0, 2)):
        out.insert(r.randint(0, len(out)), 1)
    return out


def test_reshape_is_bitcast_is_what_numpy_says() -> None:
    r = random.Random(1)
    seen = {True: 0, False: 0}
    for _ in range(1_000):
        sizes = random_sizes(r)
        a, b = random_array(r, sizes), random_array(r, other_sizes(r, sizes))
        aligned = shape_util.align_layouts(a, b)
        same = bool((positions(a).reshape(b.dimensions) == positions(b)).all())
        assert shape_util.reshape_is_bitcast(a, b) == same
        seen[same] += 1
        if aligned is None:
            candidates = [b.with_layout(Layout(order)) for order in itertools.permutations(range(b.rank))]
            assert not any((positions(a).reshape(b.dimensions) == positions(c)).all() for c in candidates[:120])
        else:
            assert (positions(a).reshape(b.dimensions) == positions(aligned)).all()
            assert shape_util.reshape_is_bitcast(a, aligned)
            seen[True] += 1
    assert min(seen.values()) > 100


def test_transpose_is_bitcast_is_what_numpy_says() -> None:
    r = random.Random(2)
    seen = {True: 0, False: 0}
    for _ in range(500):
        sizes = [size + 1 for size in random_sizes(r)]
        a = random_array(r, sizes)
        permutation = list(range(a.rank))
        r.shuffle(permutation)
        b = shape_util.permute_dimensions(permutation, a)
        if r.random() < 0.5:
            b = random_array(r, list(b.dimensions))
        same = bool((positions(a).transpose(permutation) == positions(b)).all())
        assert shape_util.transpose_is_bitcast(a, b, permutation) == same
        seen[same] += 1
        deduced = shape_util.deduce_transpose_dimensions_for_bitcast(a, b)
        if deduced is not None:
            assert (positions(a).transpose(deduced) == positions(b)).all()
    assert min(seen.values()) > 50


def test_decompositions_say_what_numpy_says() -> None:
    r = random.Random(3)
    kinds = set()
    for _ in range(500):
        sizes = random_sizes(r)
        a, b = random_array(r, sizes), random_array(r, other_sizes(r, sizes))
        # the bitcast: the element at a place in memory is the same
        content = r.sample(range(1000), math.prod(sizes))
        before = np.array(content)[positions(a)]
        after = np.array(content)[positions(b)]
        found = shape_util.decompose_bitcast(a, b)
        kinds.add(type(found))
        trt = shape_util.decompose_bitcast_to_trt(a, b)
        middle = before.transpose(trt.transpose1_dims)
        assert middle.shape == trt.transpose1_shape.dimensions
        assert (middle.reshape(trt.reshape_shape.dimensions).transpose(trt.transpose2_dims) == after).all()
        assert trt.is_transpose1_identity() == (trt.transpose1_dims == tuple(range(a.rank)))
        assert trt.is_transpose2_identity() == (trt.transpose2_dims == tuple(range(b.rank)))
        if isinstance(found, shape_util.BitcastDecompositionReshape):
            assert (before.reshape(b.dimensions) == after).all()
        elif isinstance(found, shape_util.BitcastDecompositionTranspose):
            assert (before.transpose(found.transpose_dims) == after).all()
    assert len(kinds) == 3
    assert shape_util.decompose_bitcast(parse("f32[2]"), parse("f32[3]")) is None


def test_permutations_move_nothing() -> None:
    r = random.Random(4)
    for _ in range(200):
        a = random_array(r, random_sizes(r))
        permutation = list(range(a.rank))
        r.shuffle(permutation)
        for b in (shape_util.permute_dimensions(permutation, a), shape_util.reorder_logical_dimensions(a, permutation)):
            assert (positions(a).transpose(permutation) == positions(b)).all()
        plain = shape_util.make_shape_with_descending_layout_and_same_physical_layout(a)
        assert plain.layout == Layout.default(a.rank)
        assert (positions(plain).ravel() == np.sort(positions(a), axis=None)).all()


def test_normalized_transposes() -> None:
    r = random.Random(5)
    for _ in range(500):
        sizes = random_sizes(r)
        permutation = list(range(len(sizes)))
        r.shuffle(permutation)
        a, b = Shape.array("f32", sizes), Shape.array("f32", [sizes[d] for d in permutation])
        dimensions, short = shape_util.get_normalized_logical_transpose_shape(a, b, permutation)
        values = np.arange(math.prod(sizes))
        operand = [0] * len(short)
        for i, d in enumerate(short):
            operand[d] = dimensions[i]
        got = values.reshape(operand).transpose(short)
        assert (got.ravel() == values.reshape(sizes).transpose(permutation).ravel()).all()
        assert 1 not in dimensions
        assert all(second != first + 1 for first, second in itertools.pairwise(short))
    with pytest.raises(InvalidShapeError):
        shape_util.get_normalized_logical_transpose_shape(parse("f32[2,3]"), parse("f32[2,3]"), (1, 0))
    for a, b in (("f32[2,3]{0,1}", "f32[3,2]{1,0}"), ("f32[2,3]{1,0}", "f32[3,2]{0,1}")):
        with pytest.raises(InvalidShapeError, match="layout must descend"):
            shape_util.get_normalized_logical_transpose_shape(parse(a), parse(b), (1, 0))


def test_unmodified_dimensions() -> None:
    r = random.Random(6)
    for _ in range(300):
        sizes = random_sizes(r)
        a, b = Shape.array("f32", sizes), Shape.array("f32", other_sizes(r, sizes))
        pairs = shape_util.dimensions_unmodified_by_reshape(a, b)
        assert list(pairs) == sorted(pairs)
        for linear in range(math.prod(sizes)):
            before = index_util.linear_index_to_multidimensional_index(a, linear)
            after = index_util.linear_index_to_multidimensional_index(b, linear)
            assert all(before[i] == after[o] for i, o in pairs)
        found = shape_util.reshape_leaves_dimensions_unmodified(a, b, [i for i, _ in pairs])
        assert found == tuple([o for _, o in pairs])
