"""docs/xla_functions.md is what its generator writes, and names everything there is."""

from __future__ import annotations

import importlib.util
import inspect
from pathlib import Path
from types import ModuleType

import pytest

from xlashape.shape import Shape, index_util, layout_util, shape_util

DOCS = Path(__file__).parents[3] / "docs"
# Named here and by no function of XLA's ShapeUtil: the values that functions answer, and what XLA's backends compute.
VALUES = {
    "BitcastDecomposition",
    "BitcastDecompositionReshape",
    "BitcastDecompositionTranspose",
    "BitcastDecompositionTrt",
    "BufferSize",
    "IndexedShape",
    "ShapeEqualityDescriptor",
    "buffers_of",
}


@pytest.fixture(scope="module")
def generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("generate_xla_functions", DOCS / "generate_xla_functions.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_is_up_to_date(generator: ModuleType) -> None:
    assert (DOCS / "xla_functions.md").read_text(encoding="utf-8") == generator.page(), (
        "run python docs/generate_xla_functions.py"
    )


def test_every_cpp_function_has_one_answer(generator: ModuleType) -> None:
    for group, names in generator.FUNCTIONS.items():
        assert len(set(names)) == len(names)
        for name in names:
            answers = [
                generator.ours(group, name),
                generator.ELSEWHERE[group].get(name),
                generator.REASONS[group].get(name),
            ]
            assert sum(answer is not None for answer in answers) == 1, name
        for table in (generator.ELSEWHERE, generator.REASONS, generator.NOTES):
            assert set(table[group]) <= set(names)
        assert all(generator.ours(group, name) for name in generator.NOTES[group])


def test_what_answers_elsewhere_is_there(generator: ModuleType) -> None:
    homes = {"shape_util": shape_util, "layout_util": layout_util, "index_util": index_util, "Shape": Shape}
    for table in generator.ELSEWHERE.values():
        for answer in table.values():
            home, _, name = answer.strip("`").partition(".")
            assert hasattr(homes[home], name) or name in Shape.__slots__, answer


def test_every_function_is_on_the_page(generator: ModuleType) -> None:
    for group, module in generator.MODULES.items():
        named = {generator.ours(group, name) for name in generator.FUNCTIONS[group]}
        assert set(module.__all__) - VALUES == named - {None}
        for name in module.__all__:
            assert inspect.getdoc(getattr(module, name)), name


NAMES = {
    shape_util: """
        align_layouts append_major_dimension append_minor_dimension append_shape_to_tuple array_data_size array_size byte_size_of
        byte_size_of_elements byte_size_of_elements_recursive byte_size_of_primitive_type byte_size_of_tuple_index_table
        byte_strides change_element_type compatible compatible_ignoring_element_type compatible_ignoring_fp_precision
        compatible_kind complex_component_shape copy_dynamic_dimensions decompose_bitcast decompose_bitcast_to_trt
        deduce_transpose_dimensions_for_bitcast delete_dimension delete_dimensions device_shape_is_host_shape
        device_shape_to_host_shape dimensions_unmodified_by_reshape drop_degenerate_dimensions
        dynamic_array_shape_is_compatible dynamic_shape_is_compatible element_can_upcast element_has_bit_width
        element_is_complex element_is_floating element_is_integral element_is_integral_with_bits element_is_signed
        element_size_in_bits elements_in elements_in_recursive equal equal_ignoring_element_type equal_ignoring_fp_precision
        equal_structure extent_product filter_dimensions flatten_tuple_shape for_each_index for_each_leaf_shape
        for_each_subshape get_dimension get_dimension_number get_leaf_count get_leaf_shapes
        get_normalized_logical_transpose_shape get_subshape get_tuple_element_shape has_degenerate_dimensions
        has_primitive_type higher_precision_element_type human_string human_string_with_layout index_is_valid
        insert_dimension_at_index insert_dimensions_at_index inserted_or_deleted_1_sized_dimensions is_decomposable_bitcast
        is_effective_scalar is_effectively_most_major_dimension is_empty_tuple is_leaf_index is_nested_tuple
        is_reshape_or_transpose_bitcast is_scalar is_scalar_with_element_type is_zero_element_array last_dim_is_minor_most
        make_shape make_shape_with_dense_layout make_shape_with_descending_layout
        make_shape_with_descending_layout_and_same_physical_layout make_shape_with_static_dimensions make_shape_with_type
        make_scalar_shape make_tuple_shape make_maybe_tuple_shape make_nil make_token_shape make_opaque_shape
        make_buffer_shape make_program_shape make_validated_shape make_validated_tuple_shape move_dim_to_major
        packed_factor_for_1d_interleaved_array permute_dimensions permute_dimensions_ignoring_layout prepend_major_dimension
        reorder_logical_dimensions reshape_is_bitcast reshape_leaves_dimensions_unmodified same_dimensions same_element_type
        same_element_type_ignoring_fp_precision same_rank serialized_size slice_tuple static_extent_product subshape_count
        transpose_is_bitcast true_num_dimensions try_get_subshape tuple_element_count unpacked_byte_strides
        update_dynamic_dimension update_element_size_in_bits update_tuple_shape validate_shape
        validate_shape_with_optional_layout
    """,
    layout_util: """
        are_dimensions_consecutive byte_strides_is_major_to_minor clear_layout clear_tiles copy_layout_between_shapes
        delinearize_index_for_nested_tiling equal get_default_layout_for_rank get_default_layout_for_r2
        get_default_layout_for_r3 get_default_layout_for_r4 get_default_layout_for_shape get_split_config
        get_with_default_layout has_any_layout has_ascending_layout has_custom_element_size_in_bits has_descending_layout
        has_layout human_string is_dense_array is_monotonic_with_dim_0_major is_monotonic_with_dim_0_minor is_untiled_layout
        layouts_in_shapes_equal linear_index linear_index_for_nested_tiling major minor make_layout make_ascending_layout
        make_descending_layout make_layout_from_major_to_minor make_logical_to_physical max_elements_in_per_split
        max_split_size memory_space minor_to_major move_dim_to_major move_dim_to_minor set_to_default_layout
        validate_layout_for_shape validate_layout_in_shape
    """,
    index_util: """
        bump_indices compare_indices get_dimension_stride index_in_bounds linear_index_to_multidimensional_index
        multidimensional_index_to_linear_index
    """,
}


@pytest.mark.parametrize("module", NAMES, ids=lambda module: module.__name__.rpartition(".")[2])
def test_names_are_a_contract(module: ModuleType) -> None:
    assert set(NAMES[module].split()) <= set(module.__all__)
