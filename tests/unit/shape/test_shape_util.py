"""ShapeUtil by definition: against NumPy's own strides, reshapes and transposes, and against enumeration. XLA's answers
stand in
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable

import numpy as np
import pytest
from random_arrays import positions, random_array, random_sizes

from xlashape.errors import (
    InvalidArgumentError,
    InvalidIndexError,
    InvalidShapeError,
    LimitExceededError,
    SizeOverflowError,
    XlashapeError,
)
from xlashape.limits import budget
from xlashape.shape import (
    UNBOUNDED_SIZE,
    Layout,
    PrimitiveType,
    Shape,
    SplitConfig,
    index_util,
    layout_util,
    shape_util,
)
from xlashape.shape.value.program_shape import ProgramShape
from xlashape.shape.value.shape_index import ShapeIndex

parse = Shape.parse


def test_strides() -> None:
    r = random.Random(7)
    for _ in range(200):
        a = random_array(r, random_sizes(r))
        strides = shape_util.byte_strides(a)
        assert strides is not None
        places = positions(a) * 4
        for d in range(a.rank):
            if a.dimensions[d] > 1:
                assert strides[d] == np.take(places, 1, d).flat[0] - np.take(places, 0, d).flat[0]
            assert index_util.get_dimension_stride(a, d) * 4 == strides[d]
            assert index_util.get_dimension_stride(a, d - a.rank) * 4 == strides[d]
        descending = a.layout == Layout.default(a.rank)
        if descending:
            assert layout_util.byte_strides_is_major_to_minor(strides, a.dimensions, "s32")
    assert shape_util.unpacked_byte_strides(parse("s4[2,4]{1,0:E(4)}")) == (4, 1)
    assert not layout_util.byte_strides_is_major_to_minor((4, 8), (2, 3), "f32")
    with pytest.raises(InvalidArgumentError):
        layout_util.byte_strides_is_major_to_minor((4,), (2, 3), "f32")


def test_for_each_index() -> None:
    r = random.Random(8)
    for _ in range(100):
        a = random_array(r, random_sizes(r))
        indices = list(shape_util.for_each_index(a))
        linear = [index_util.multidimensional_index_to_linear_index(a, index) for index in indices]
        assert linear == list(range(math.prod(a.dimensions)))
        base = [r.randrange(size) for size in a.dimensions]
        count = [r.randint(0, size - start) for size, start in zip(a.dimensions, base, strict=True)]
        incr = [r.randint(1, 3) for _ in a.dimensions]
        wanted = itertools.product(
            *[range(b, b + c, i) if c else [b] for b, c, i in zip(base, count, incr, strict=True)]
        )
        assert sorted(shape_util.for_each_index(a, base, count, incr)) == sorted(wanted)
    assert list(shape_util.for_each_index(parse("f32[]"))) == [()]
    assert list(shape_util.for_each_index(parse("f32[2,0]"))) == []
    # What jaxlib 0.12.0.1 visits where a count is 0.
    for base, count, incr, visited in (
        ((0, 0), (0, 2), (0, 1), [(0, 0), (0, 1)]),
        ((0, 0), (2, 0), (1, 0), [(0, 0), (1, 0)]),
        ((0, 0), (0, 0), (0, 0), [(0, 0)]),
        ((0, 0), (0, 2), (1, 1), [(0, 0), (0, 1)]),
        ((1, 0), (0, 2), (0, 1), [(1, 0), (1, 1)]),
    ):
        assert list(shape_util.for_each_index(parse("f32[2,2]"), base, count, incr)) == visited
    assert list(shape_util.for_each_index(parse("f32[2,0]"), (0, 0), (2, 0), (1, 0))) == []
    huge = shape_util.for_each_index(parse("f32[1000000,1000000]"))
    assert next(huge) == (0, 0)
    with budget(steps=1_000), pytest.raises(LimitExceededError):
        list(huge)


def test_bump_indices_visits_everything_once() -> None:
    shape = parse("f32[2,1,3]{0,1,2}")
    index: tuple[int, ...] | None = (0, 0, 0)
    seen = []
    while index is not None:
        seen.append(index)
        index = index_util.bump_indices(shape, index)
    assert seen == list(itertools.product(range(2), range(1), range(3)))
    assert all(index_util.compare_indices(a, b) == -1 for a, b in itertools.pairwise(seen))
    assert index_util.compare_indices((1, 2), (1, 2)) == 0
    assert index_util.compare_indices((1, 3), (1, 2)) == 1
    assert index_util.bump_indices(parse("f32[]"), ()) is None


def test_other_orders() -> None:
    shape = parse("f32[2,3]{1,0}")
    assert index_util.multidimensional_index_to_linear_index(shape, (1, 2), (0, 1)) == 5
    assert index_util.multidimensional_index_to_linear_index(shape, (1, 0), (0, 1)) == 1
    assert index_util.multidimensional_index_to_linear_index(parse("b(f32[2,3]{0,1})"), (1, 0)) == 1
    assert index_util.index_in_bounds(parse("f32[?,2]"), (10**9, 1))


def test_sizes_beyond_the_vectors() -> None:
    assert shape_util.byte_size_of(parse("(f32[2], opaque[])")) == 16
    assert shape_util.byte_size_of(parse("opaque[]"), 4) == 4
    assert shape_util.byte_size_of_elements_recursive(parse("(f32[2], (s4[3]{0:E(4)}, token[], opaque[]))")) == 10
    assert shape_util.elements_in_recursive(parse("b(f32[2,3])")) == 6
    assert shape_util.extent_product(parse("f32[2,?]"), bounded_dynamic_ok=True) == 2
    assert [shape_util.byte_size_of_primitive_type(t) for t in ("pred", "s1", "f6e3m2fn", "bf16", "c128")] == [
        1,
        1,
        1,
        2,
        16,
    ]
    assert shape_util.element_size_in_bits(parse("b(s4[2]{0:E(4)})")) == 4
    assert shape_util.packed_factor_for_1d_interleaved_array(parse("s8[4096]{0:T(4096)(128)(4,1)}")) == 4
    # a later tile adds padding of its own, and an untiled array has its tail
    assert shape_util.array_size(parse("f32[3]{0:T(4)(3)}")) == 24
    assert shape_util.array_size(parse("f32[3]{0:L(8)}")) == 32
    assert shape_util.array_data_size(parse("f32[3]{0:L(8)}")) == 12
    assert shape_util.array_data_size(parse("f32[3,0]{1,0:T(8,128)}")) == 0
    assert shape_util.array_size(parse("f32[100,5]{0,1:T(8,128)SC(1:30,40)}")) == 8 * 128 * 4


def test_dimension_numbers_may_be_negative() -> None:
    a = parse("f32[2,3,4]{0,2,1}")
    for d in range(3):
        n = d - 3
        assert shape_util.get_dimension(a, n) == a.dimensions[d]
        assert shape_util.get_dimension_number(a, n) == d
        assert shape_util.delete_dimension(n, a) == shape_util.delete_dimension(d, a)
        assert shape_util.delete_dimensions([n], a) == shape_util.delete_dimension(d, a)
        assert shape_util.move_dim_to_major(a, n) == shape_util.move_dim_to_major(a, d)
        assert shape_util.insert_dimension_at_index(a, n, 5) == shape_util.insert_dimension_at_index(a, d, 5)
        assert shape_util.is_effectively_most_major_dimension(a, n) == (d == 1)
        assert shape_util.update_dynamic_dimension(a, (), n, True).dynamic_dimensions[d]
        assert layout_util.move_dim_to_major(a.layout, n) == layout_util.move_dim_to_major(a.layout, d)
        assert layout_util.move_dim_to_minor(a.layout, n).minor_to_major[0] == d
        assert layout_util.max_split_size(a, n) == a.dimensions[d]


def test_dimensions_beyond_the_vectors() -> None:
    assert str(shape_util.prepend_major_dimension(5, parse("b(f32[2,3]{0,1:S(1)})"))) == "b(f32[5,2,3]{1,2,0:S(1)})"
    # the split of the most major dimension is that of the next one after another comes before it
    assert str(shape_util.prepend_major_dimension(5, parse("f32[8,3]{1,0:SC(0:4)}"))) == "f32[5,8,3]{2,1,0:SC(1:4)}"
    assert str(shape_util.append_minor_dimension(5, parse("f32[8,3]{1,0:SC(0:4)}"))) == "f32[8,3,5]{2,1,0:SC(0:4)}"
    assert (
        str(shape_util.filter_dimensions(lambda d: d != 0, parse("f32[8,<=3]{1,0:SC(1:2)}"))) == "f32[<=3]{0:SC(0:2)}"
    )
    assert shape_util.delete_dimension(0, Shape("f32", (2, 3))).layout is None
    assert shape_util.is_effective_scalar(parse("b(f32[1,1])"))
    assert not shape_util.is_effective_scalar(parse("(f32[])"))
    assert not shape_util.last_dim_is_minor_most(parse("f32[]"))
    assert shape_util.is_scalar(parse("f32[]"))
    assert shape_util.element_is_integral_with_bits(parse("s4[2]"), 4)
    assert shape_util.same_element_type(parse("f32[2]"), parse("f32[]"))


def test_tuples() -> None:
    shape = parse("(f32[2], (s32[], ()), token[])")
    walked = [(str(index), str(inner)) for inner, index in shape_util.for_each_subshape(shape)]
    assert walked == [
        ("{}", "(f32[2]{0}, (s32[], ()), token[])"),
        ("{0}", "f32[2]{0}"),
        ("{1}", "(s32[], ())"),
        ("{1,0}", "s32[]"),
        ("{1,1}", "()"),
        ("{2}", "token[]"),
    ]
    post = [str(index) for _, index in shape_util.for_each_subshape_post_order(shape)]
    assert post == ["{0}", "{1,0}", "{1,1}", "{1}", "{2}", "{}"]
    leaves = shape_util.get_leaf_shapes(shape)
    assert [leaf.index for leaf in leaves] == [(0,), (1, 0), (2,)]
    assert [leaf.shape for leaf in leaves] == shape_util.flatten_tuple_shape(shape) == list(shape.leaves())
    assert shape_util.get_leaf_count(shape) == 3
    for inner, index in shape_util.for_each_subshape(shape):
        assert shape_util.get_subshape(shape, index) is inner
        assert shape_util.try_get_subshape(shape, list(index)) is inner
        assert shape_util.is_leaf_index(shape, index) == (not inner.is_tuple)
    assert str(shape_util.slice_tuple(shape, 1, 1)) == "()"
    assert str(shape_util.update_tuple_shape(parse("u8[]"), 2, shape).tuple_shapes[2]) == "u8[]"
    assert str(shape_util.update_dynamic_dimension(parse("(b(f32[2]))"), (0,), 0, True)) == "(b(f32[<=2]{0}))"


def test_making() -> None:
    assert shape_util.make_shape("f32", (2, 3), (True, False)) == parse("f32[<=2,3]")
    assert shape_util.make_shape("tuple", ()) == shape_util.make_nil() == parse("()")
    assert shape_util.make_scalar_shape("bf16") == parse("bf16[]")
    assert shape_util.make_shape_with_type(np.int8, (2,)) == parse("s8[2]")
    assert shape_util.make_shape_with_descending_layout("f32", (2, 3)) == parse("f32[2,3]{1,0}")
    text = "s4[8,16]{0,1:T(8,128)L(2)E(4)S(1)SC(0:3)}"
    made = shape_util.make_shape_with_dense_layout("s4", (8, 16), (0, 1), [(8, 128)], 2, 4, 1, [SplitConfig(0, (3,))])
    assert made == parse(text)
    assert shape_util.make_tuple_shape([made]) == parse(f"({text})")
    assert shape_util.make_maybe_tuple_shape([made]) == made
    assert shape_util.make_maybe_tuple_shape([made, made]) == parse(f"({text}, {text})")
    assert (
        shape_util.make_buffer_shape(parse("f32[2]")) == shape_util.make_buffer_shape("f32", (2,)) == parse("b(f32[2])")
    )
    assert shape_util.make_token_shape() == parse("token[]")
    assert shape_util.make_opaque_shape() == parse("opaque[]")
    program = shape_util.make_program_shape([parse("f32[2]")], parse("f32[]"))
    assert shape_util.human_string(program) == "((unknown): f32[2]) -> f32[]"
    static = shape_util.make_shape_with_static_dimensions(parse("(f32[<=2]{0:M(8)})"))
    assert str(static) == "(f32[2]{0:M(8)})"


def test_layouts_of_programs() -> None:
    program = ProgramShape.parse("(p: f32[2,3]{0,1}) -> (f32[2]{0})")
    bare = layout_util.clear_layout(program)
    assert str(bare) == "(p: f32[2,3]) -> (f32[2])"
    assert layout_util.has_layout(program)
    assert not layout_util.has_layout(bare)
    assert str(layout_util.set_to_default_layout(bare)) == "(p: f32[2,3]{1,0}) -> (f32[2]{0})"


def test_shapes_without_layout() -> None:
    bare = Shape("f32", (2, 3))
    shape_util.validate_shape_with_optional_layout(bare)
    layout_util.validate_layout_in_shape(bare, allow_missing_layouts=True)
    for check in (shape_util.validate_shape, layout_util.validate_layout_in_shape):
        with pytest.raises(InvalidShapeError, match=r"f32\[2,3\] has no layout"):
            check(Shape.tuple([bare]))
    assert not layout_util.has_layout(bare)
    assert not layout_util.has_any_layout(Shape.tuple([bare]))
    assert not shape_util.equal(bare, parse("f32[2,3]"))
    assert shape_util.compatible(bare, parse("f32[2,3]"))
    assert layout_util.layouts_in_shapes_equal(bare, Shape("s32", (4, 5)))
    assert not layout_util.layouts_in_shapes_equal(bare, parse("f32[2,3]"))
    assert layout_util.copy_layout_between_shapes(bare, parse("s32[4,5]")).layout is None
    assert layout_util.minor_to_major(bare) == (1, 0)
    assert layout_util.memory_space(bare) == 0
    assert shape_util.byte_strides(bare) == (12, 4)
    assert shape_util.reshape_is_bitcast(bare, parse("f32[6]"))
    assert index_util.get_dimension_stride(bare, 0) == 3
    assert shape_util.serialized_size(bare) == 8 + bare.to_proto().ByteSize() + 24


def test_layout_questions() -> None:
    layout = Layout((0, 2, 1))
    assert [layout_util.major(layout, d) for d in range(3)] == [1, 2, 0]
    assert [layout_util.minor(layout, d) for d in range(3)] == [0, 2, 1]
    assert layout_util.make_logical_to_physical(layout) == (2, 0, 1)
    assert layout_util.make_layout_from_major_to_minor(layout.major_to_minor) == layout
    assert layout_util.make_ascending_layout(3) == Layout((0, 1, 2))
    assert layout_util.has_ascending_layout(Layout((0, 1, 2)))
    assert layout_util.make_descending_layout(3) == layout_util.get_default_layout_for_r3() == Layout((2, 1, 0))
    assert layout_util.get_default_layout_for_r2() == Layout((1, 0))
    assert layout_util.get_default_layout_for_r4() == Layout((3, 2, 1, 0))
    assert layout_util.are_dimensions_consecutive(layout, (1, 2))
    assert not layout_util.are_dimensions_consecutive(layout, (0, 1))
    assert layout_util.are_dimensions_consecutive(layout, ())
    assert layout_util.is_untiled_layout(layout)
    assert not layout_util.is_untiled_layout(layout.replace(tiles=[(2,)]))
    assert layout_util.is_dense_array(parse("f32[2]"))
    assert not layout_util.is_dense_array(parse("token[]"))
    assert layout_util.make_layout(
        (0,), [(8,)], 2, "u32", "u64", 4, 5, [SplitConfig(0, (1,))], None, 8
    ) == Layout.parse("{0:T(8)L(2)#(u32)*(u64)E(4)S(5)SC(0:1)M(8)}")
    split = parse("f32[8,4]{0,1:SC(0:3)}")
    assert layout_util.get_split_config(split, 1) == SplitConfig(0, (3,))
    assert layout_util.get_split_config(split, 0) is None
    assert layout_util.max_elements_in_per_split(split) == 24
    assert (
        str(layout_util.clear_tiles(parse("(f32[2]{0:T(8)}, b(f32[2]{0:T(8)S(1)}))")))
        == "(f32[2]{0}, b(f32[2]{0:S(1)}))"
    )


WRONG: list[Callable[[], object]] = [
    lambda: shape_util.elements_in(parse("token[]")),
    lambda: shape_util.elements_in(parse("(f32[2])")),
    lambda: shape_util.elements_in(parse("f32[?]")),
    lambda: shape_util.byte_size_of(parse("f32[?]")),
    lambda: shape_util.byte_size_of(parse("(f32[2])"), -1),
    lambda: shape_util.byte_size_of_primitive_type("token"),
    lambda: shape_util.byte_size_of_tuple_index_table(parse("f32[2]")),
    lambda: shape_util.byte_strides(parse("f32[?,2]")),
    lambda: shape_util.packed_factor_for_1d_interleaved_array(parse("f32[2]")),
    lambda: shape_util.serialized_size(parse("(f32[2], token[])")),
    lambda: shape_util.array_size(parse("()")),
    lambda: shape_util.change_element_type(parse("token[]"), "f32"),
    lambda: shape_util.change_element_type(parse("f32[2]"), "tuple"),
    lambda: shape_util.complex_component_shape(parse("f32[2]")),
    lambda: shape_util.higher_precision_element_type(parse("f8e4m3[]"), parse("f8e4m3fnuz[]")),
    lambda: shape_util.element_can_upcast(parse("()"), parse("f32[]")),
    lambda: shape_util.same_dimensions(parse("()"), parse("f32[]")),
    lambda: shape_util.get_dimension(parse("f32[2]"), 1),
    lambda: shape_util.get_dimension(parse("f32[2]"), -2),
    lambda: shape_util.get_dimension(parse("f32[2]"), 10**5_000),
    lambda: shape_util.get_dimension(parse("f32[2]"), "0"),
    lambda: shape_util.delete_dimensions((0, 0), parse("f32[2,3]")),
    lambda: shape_util.delete_dimensions((0, -2), parse("f32[2,3]")),
    lambda: shape_util.insert_dimension_at_index(parse("f32[2]"), 2, 3),
    lambda: shape_util.insert_dimension_at_index(parse("f32[2]"), 0, -3),
    lambda: shape_util.append_major_dimension(-1, parse("f32[2]")),
    lambda: shape_util.append_major_dimension(2**62, parse("f32[2]")),
    lambda: shape_util.permute_dimensions((0, 0), parse("f32[2,3]")),
    lambda: shape_util.permute_dimensions((0,), parse("f32[2,3]")),
    lambda: shape_util.move_dim_to_major(parse("(f32[2], f32[])"), 1),
    lambda: shape_util.move_dim_to_major(parse("token[]"), 0),
    lambda: shape_util.copy_dynamic_dimensions(parse("f32[2]"), parse("f32[2,3]")),
    lambda: shape_util.copy_dynamic_dimensions(parse("f32[?]"), parse("f32[2]")),
    lambda: shape_util.make_static_shape(parse("(f32[?])")),
    lambda: shape_util.make_shape("f32", (-1,)),
    lambda: shape_util.make_shape_with_type("datetime64", ()),
    lambda: shape_util.make_shape_with_type(object(), ()),
    lambda: shape_util.tuple_element_count(parse("f32[]")),
    lambda: shape_util.get_tuple_element_shape(parse("(f32[])"), 1),
    lambda: shape_util.get_tuple_element_shape(parse("(f32[])"), -1),
    lambda: shape_util.slice_tuple(parse("(f32[])"), 1, 0),
    lambda: shape_util.slice_tuple(parse("(f32[])"), 0, 2),
    lambda: shape_util.append_shape_to_tuple(parse("f32[]"), parse("f32[]")),
    lambda: shape_util.get_subshape(parse("(f32[])"), (0, 0)),
    lambda: shape_util.try_get_subshape(parse("(f32[])"), (1,)),
    lambda: shape_util.get_subshape(parse("(f32[])"), (-1,)),
    lambda: shape_util.is_leaf_index(parse("(f32[])"), (5,)),
    lambda: shape_util.update_dynamic_dimension(parse("f32[2]"), (), 1, True),
    lambda: shape_util.transpose_is_bitcast(parse("f32[2]"), parse("f32[2,1]"), (0, 1)),
    lambda: shape_util.transpose_is_bitcast(parse("f32[2]"), parse("f32[2]"), (1,)),
    lambda: shape_util.reshape_is_bitcast(parse("f32[?]"), parse("f32[2]")),
    lambda: shape_util.decompose_bitcast_to_trt(parse("f32[2]"), parse("f32[3]")),
    lambda: shape_util.dimensions_unmodified_by_reshape(parse("f32[2]"), parse("f32[3]")),
    lambda: shape_util.validate_shape_with_optional_layout(parse("f32[4611686018427387904]")),
    lambda: shape_util.byte_size_of(parse("f32[4611686018427387904]")),
    lambda: shape_util.byte_strides(parse("f32[4611686018427387904]")),
    lambda: shape_util.for_each_index(parse("f32[?]")),
    lambda: shape_util.for_each_index(parse("f32[2]"), (1,), (2,)),
    lambda: shape_util.for_each_index(parse("f32[2]"), None, None, (0,)),
    lambda: shape_util.for_each_index(parse("f32[2]"), (0, 0)),
    lambda: layout_util.major(Layout((0,)), 1),
    lambda: layout_util.move_dim_to_minor(Layout(()), 0),
    lambda: layout_util.make_layout((0, 0)),
    lambda: layout_util.make_descending_layout(-1),
    lambda: layout_util.max_split_size(parse("token[]"), 0),
    lambda: layout_util.max_elements_in_per_split(parse("f32[?]")),
    lambda: layout_util.delinearize_index_for_nested_tiling(parse("f32[3]{0:T(4)}"), 3),
    lambda: layout_util.delinearize_index_for_nested_tiling(parse("f32[3]{0:T(4)}"), 4),
    lambda: layout_util.linear_index(parse("f32[3]"), (3,)),
    lambda: layout_util.copy_layout_between_shapes(parse("f32[2]"), parse("(f32[2])")),
    lambda: layout_util.validate_layout_for_shape(Layout((0,)), parse("()")),
    lambda: layout_util.validate_layout_for_shape(Layout((0,)), parse("f32[]")),
    lambda: layout_util.validate_layout_for_shape(Layout.parse("{0:T()}"), parse("f32[2]")),
    lambda: index_util.multidimensional_index_to_linear_index(parse("f32[2]"), ()),
    lambda: index_util.multidimensional_index_to_linear_index(parse("f32[2]"), (2,)),
    lambda: index_util.multidimensional_index_to_linear_index(parse("f32[2]"), (-1,)),
    lambda: index_util.multidimensional_index_to_linear_index(parse("f32[2]"), (0.5,)),
    lambda: index_util.multidimensional_index_to_linear_index(parse("f32[2]"), (0,), (0, 1)),
    lambda: index_util.multidimensional_index_to_linear_index(parse("f32[?]"), (0,)),
    lambda: index_util.multidimensional_index_to_linear_index(parse("()"), ()),
    lambda: index_util.linear_index_to_multidimensional_index(parse("f32[2]"), 2),
    lambda: index_util.linear_index_to_multidimensional_index(parse("f32[0]"), 0),
    lambda: index_util.linear_index_to_multidimensional_index(parse("f32[2]"), -1),
    lambda: index_util.bump_indices(parse("f32[2]"), (2,)),
    lambda: index_util.get_dimension_stride(parse("f32[]"), 0),
    lambda: index_util.compare_indices((0,), (0, 1)),
]


@pytest.mark.parametrize("call", WRONG, ids=range(len(WRONG)))
def test_wrong_arguments(call: Callable[[], object]) -> None:
    with pytest.raises(XlashapeError) as caught:
        call()
    assert isinstance(caught.value, InvalidArgumentError)
    assert 0 < len(str(caught.value)) < 500


def test_which_errors() -> None:
    with pytest.raises(SizeOverflowError, match="the byte size of"):
        shape_util.byte_size_of(parse("f32[4611686018427387904]"))
    with pytest.raises(InvalidIndexError, match="there is no dimension 1 among 1"):
        shape_util.get_dimension(parse("f32[2]"), 1)
    with pytest.raises(
        InvalidIndexError,
        match=r"there is nothing at \{0,0\} of \(f32\[\]\): at \{0\} is f32\[\], which is not a tuple",
    ):
        shape_util.get_subshape(parse("(f32[])"), (0, 0))
    with pytest.raises(InvalidShapeError, match=r"f32\[2,\?\]\{1,0\} has an unbounded dimension"):
        shape_util.elements_in(parse("f32[2,?]"))
    assert UNBOUNDED_SIZE == -(2**63)


def test_types() -> None:
    assert isinstance(shape_util.higher_precision_element_type(parse("f32[]"), parse("f64[]")), PrimitiveType)
    assert all(isinstance(index, ShapeIndex) for _, index in shape_util.for_each_subshape(parse("(f32[])")))
