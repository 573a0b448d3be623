"""Equality that ignores parts, prefixes, and what element types can hold."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from xlashape.errors import InvalidArgumentError
from xlashape.shape import Layout, PrimitiveType, Shape, ShapeIndex, layout_util, primitive_util, shape_util

# What jaxlib 0.12.0.1's primitive_util says of every floating-point type, and of every pair of types.
FACTS: dict[str, Any] = json.loads(
    (Path(__file__).parents[2] / "vectors" / "element_types.json").read_text(encoding="utf-8")
)
FLOATS: list[dict[str, Any]] = FACTS["floats"]
CASTS: dict[str, list[str]] = FACTS["casts_that_preserve_values"]

# What its Layout::Equal and Shape::Equal say of random pairs, with random parts ignored.
EQUALITY: list[dict[str, Any]] = [
    json.loads(line)
    for line in (Path(__file__).parents[2] / "vectors" / "equality.jsonl").read_text(encoding="utf-8").splitlines()
]


def test_equality_with_ignored_parts_is_that_of_xla():
    for row in EQUALITY:
        lhs, rhs = Shape.parse(row["lhs"]), Shape.parse(row["rhs"])
        if row["of"] == "layout":
            assert lhs.layout is not None
            assert rhs.layout is not None
            assert layout_util.equal(lhs.layout, rhs.layout, ignore=row["ignore"]) == row["equal"], row
        else:
            assert shape_util.equal(lhs, rhs, ignore=row["ignore"]) == row["equal"], row
    assert len(EQUALITY) == 700


@pytest.mark.parametrize(
    ("part", "text"),
    [
        ("tiles", "{0:T(8)}"),
        ("tail_padding_alignment_in_elements", "{0:L(2)}"),
        ("index_primitive_type", "{0:#(u32)}"),
        ("pointer_primitive_type", "{0:*(u32)}"),
        ("element_size", "{0:E(4)}"),
        ("memory_space", "{0:S(1)}"),
        ("split_configs", "{0:SC(0:1)}"),
    ],
)
def test_layouts_are_equal_but_for_one_part(part: str, text: str) -> None:
    plain, other = Layout.parse("{0}"), Layout.parse(text)
    assert not layout_util.equal(plain, other)
    assert layout_util.equal(plain, other, ignore=[part])
    assert layout_util.equal(plain, other, ignore=["minor_to_major_only"])
    different = "tiles" if part != "tiles" else "memory_space"
    assert not layout_util.equal(plain, other, ignore=[different])
    assert not layout_util.equal(Layout((0, 1)), Layout((1, 0)), ignore=["minor_to_major_only"])


@pytest.mark.parametrize(
    ("part", "a", "b"),
    [
        ("element_type", "f32[2]", "s32[2]"),
        ("fp_precision", "f32[2]", "bf16[2]"),
        ("dimensions", "f32[2]", "f32[3]"),
        ("dynamic_dimension", "f32[2]", "f32[<=2]"),
        ("buffer", "f32[2]", "b(f32[2])"),
        ("layout", "f32[2,3]{0,1}", "f32[2,3]"),
        ("tiles_in_layout", "f32[2]{0:T(8)}", "f32[2]"),
        ("element_size_in_layout", "s4[2]{0:E(4)}", "s4[2]"),
        ("memory_space_in_layout", "f32[2]{0:S(1)}", "f32[2]"),
        ("tail_padding_alignment_in_elements", "f32[2]{0:L(2)}", "f32[2]"),
        ("split_config_in_layout", "f32[2]{0:SC(0:1)}", "f32[2]"),
        ("minor_to_major_only_in_layout", "f32[2]{0:T(8)S(1)}", "f32[2]"),
    ],
)
def test_shapes_are_equal_but_for_one_part(part: str, a: str, b: str) -> None:
    for pattern in ("{}", "({}, token[])", "(s32[], ({}))"):
        left, right = Shape.parse(pattern.format(a)), Shape.parse(pattern.format(b))
        assert not shape_util.equal(left, right)
        assert shape_util.equal(left, right, ignore=[part])
    assert not shape_util.equal(Shape.parse("f32[2]"), Shape.parse("(f32[2])"), ignore=[part])


def test_layouts_are_equal_but_for_the_physical_shape() -> None:
    plain = Layout((0,))
    sparse = plain.replace(physical_shape=Shape.parse("f32[2]"))
    assert not layout_util.equal(plain, sparse)
    assert layout_util.equal(plain, sparse, ignore=["physical_shape"])


def test_unknown_parts_are_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="'colour'"):
        layout_util.equal(Layout((0,)), Layout((0,)), ignore=["colour"])
    with pytest.raises(InvalidArgumentError, match="'colour'"):
        shape_util.equal(Shape.parse("f32[]"), Shape.parse("f32[]"), ignore=["colour"])


@pytest.mark.parametrize(
    ("prefix", "shape", "expected"),
    [
        ("f32[]", "f32[]", True),
        ("f32[]", "s32[3]", False),
        ("f32[]", "(f32[],s32[])", False),
        ("(f32[])", "(f32[],s32[])", True),
        ("(f32[],s32[])", "(f32[])", False),
        ("(f32[],f32[])", "(f32[],(f32[]))", False),
        ("()", "(f32[])", True),
        ("()", "f32[]", True),
        ("(f32[])", "f32[]", False),
        ("(f32[],(s32[]))", "(f32[],(s32[],f32[]))", True),
        ("f32[]", "token[]", False),
    ],
)
def test_prefixes(prefix: str, shape: str, expected: bool) -> None:
    """What jaxlib 0.12.0.1's ShapeUtil::IsPrefix says with a predicate that compares texts."""
    a, b = Shape.parse(prefix), Shape.parse(shape)
    assert shape_util.is_prefix(a, b) == expected
    assert shape_util.is_prefix(a, b, lambda x, y: str(x) == str(y)) == expected
    assert shape_util.is_prefix(a, b, lambda _x, _y: True)


def test_prefixes_of_indices() -> None:
    assert ShapeIndex().is_prefix((3,))
    assert ShapeIndex((3,)).is_prefix((3,))
    assert not ShapeIndex((3, 1)).is_prefix((3,))


@pytest.mark.parametrize("row", FLOATS, ids=lambda row: row["type"])
def test_floats_are_those_of_jaxlib(row: dict[str, Any]) -> None:
    assert primitive_util.float_facts(row["type"])._asdict() == {k: v for k, v in row.items() if k != "type"}


@pytest.mark.parametrize("row", FLOATS, ids=lambda row: row["type"])
def test_floats_are_those_of_numpy(row: dict[str, Any]) -> None:
    """Compared with finfo, and for types of at most 16 bits with the values of all bit patterns."""
    kind = PrimitiveType.parse(row["type"])
    dtype = kind.numpy_dtype()
    facts = primitive_util.float_facts(kind)
    finfo: Any = np.finfo if kind.text in ("f16", "f32", "f64") else ml_dtypes.finfo
    info: Any = finfo(dtype)
    assert facts.significand_width == info.nmant + 1
    assert facts.exponent_width == info.nexp
    if facts.has_positive_zero:
        assert float(info.smallest_normal) == 2.0 ** (facts.underflow_exponent - 1)
    assert 2.0 ** (facts.overflow_exponent - 1) <= float(info.max)
    assert float(info.max) / 2 < 2.0 ** (facts.overflow_exponent - 1)
    if dtype.itemsize > 2:
        return
    bits = 4 if kind.text.startswith("f4") else 6 if kind.text.startswith("f6") else 8 * dtype.itemsize
    patterns = np.arange(1 << bits, dtype=np.uint16 if dtype.itemsize == 2 else np.uint8)
    with np.errstate(invalid="ignore"):
        values = patterns.view(dtype).astype(np.float64)
    zeros = values == 0
    assert facts.has_nan == bool(np.isnan(values).any())
    assert facts.has_infinity == bool(np.isinf(values).any())
    assert facts.has_positive_zero == bool((zeros & ~np.signbit(values)).any())
    assert facts.has_negative_zero == bool((zeros & np.signbit(values)).any())
    one = int(patterns[values == 1][0])
    assert facts.exponent_bias == one >> (facts.significand_width - 1)


def test_casts_are_those_of_jaxlib() -> None:
    for source in CASTS:
        for target in CASTS:
            assert primitive_util.cast_preserves_values(source, target) == (target in CASTS[source]), (source, target)


def test_casts_preserve_the_values() -> None:
    """For all pairs of types of at most 16 bits but pred and s1: the values of one, converted to the other and back,
    are the same.
    """
    narrow = [kind for text in CASTS if (kind := PrimitiveType.parse(text)).numpy_dtype().itemsize <= 2]
    narrow = [kind for kind in narrow if kind.text not in ("pred", "s1", "u1")]
    held: dict[str, set[str]] = {}
    for kind in narrow:
        dtype = kind.numpy_dtype()
        if kind.is_floating:
            bits = 4 if kind.text.startswith("f4") else 6 if kind.text.startswith("f6") else 8 * dtype.itemsize
            patterns = np.arange(1 << bits, dtype=np.uint16 if dtype.itemsize == 2 else np.uint8)
            with np.errstate(invalid="ignore"):
                values = patterns.view(dtype).astype(np.float64).tolist()
        else:
            half = 1 << (kind.bit_width - 1)
            values = [float(v) for v in (range(-half, half) if kind.is_signed_integral else range(2 * half))]
        held[kind.text] = {str(value) for value in values}
    for a in narrow:
        for b in narrow:
            # Integers have one zero, which is the positive one.
            expected = held[a.text] <= held[b.text] and not (a.is_floating and not b.is_floating)
            assert primitive_util.cast_preserves_values(a, b) == expected, (a, b)


def test_facts_of_other_types() -> None:
    assert not primitive_util.has_infinity("s32")
    assert not primitive_util.has_nan("c64")
    assert primitive_util.has_positive_zero("s32")
    with pytest.raises(InvalidArgumentError, match="not a real floating-point type"):
        primitive_util.exponent_bias("s32")
    with pytest.raises(InvalidArgumentError):
        primitive_util.cast_preserves_values("token", "f32")
