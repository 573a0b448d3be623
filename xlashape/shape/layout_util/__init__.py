"""XLA's `LayoutUtil`: making layouts, asking about them, checking them against shapes, tiled indices.

Functions that change their argument in XLA return a new value here; those that return a status raise an error. Where an order is
needed, an array without a layout has the default one. Functions with a dimension number as parameter also accept negative numbers.

Three functions are exact where XLA takes a shortcut. `linear_index` applies all tiles, while XLA's applies the first one alone;
`linear_index_for_nested_tiling` and its inverse also apply the combine size `*`.

- `make`: making layouts
- `ask`: questions to one layout
- `in_shapes`: the layouts in a shape: setting, clearing, copying, comparing, checking
"""

from xlashape.shape.arguments.types import guard_all
from xlashape.shape.layout_util.ask import (
    are_dimensions_consecutive,
    byte_strides_is_major_to_minor,
    delinearize_index_for_nested_tiling,
    equal,
    get_split_config,
    has_ascending_layout,
    has_descending_layout,
    human_string,
    is_dense_array,
    is_monotonic_with_dim_0_major,
    is_monotonic_with_dim_0_minor,
    is_untiled_layout,
    linear_index,
    linear_index_for_nested_tiling,
    major,
    make_logical_to_physical,
    max_elements_in_per_split,
    max_split_size,
    memory_space,
    minor,
    minor_to_major,
)
from xlashape.shape.layout_util.in_shapes import (
    clear_layout,
    clear_tiles,
    copy_layout_between_shapes,
    get_with_default_layout,
    has_any_layout,
    has_custom_element_size_in_bits,
    has_layout,
    layouts_in_shapes_equal,
    set_to_default_layout,
    validate_layout_for_shape,
    validate_layout_in_shape,
)
from xlashape.shape.layout_util.make import (
    get_default_layout_for_r2,
    get_default_layout_for_r3,
    get_default_layout_for_r4,
    get_default_layout_for_rank,
    get_default_layout_for_shape,
    make_ascending_layout,
    make_descending_layout,
    make_layout,
    make_layout_from_major_to_minor,
    move_dim_to_major,
    move_dim_to_minor,
)

__all__ = [
    "are_dimensions_consecutive",
    "byte_strides_is_major_to_minor",
    "clear_layout",
    "clear_tiles",
    "copy_layout_between_shapes",
    "delinearize_index_for_nested_tiling",
    "equal",
    "get_default_layout_for_r2",
    "get_default_layout_for_r3",
    "get_default_layout_for_r4",
    "get_default_layout_for_rank",
    "get_default_layout_for_shape",
    "get_split_config",
    "get_with_default_layout",
    "has_any_layout",
    "has_ascending_layout",
    "has_custom_element_size_in_bits",
    "has_descending_layout",
    "has_layout",
    "human_string",
    "is_dense_array",
    "is_monotonic_with_dim_0_major",
    "is_monotonic_with_dim_0_minor",
    "is_untiled_layout",
    "layouts_in_shapes_equal",
    "linear_index",
    "linear_index_for_nested_tiling",
    "major",
    "make_ascending_layout",
    "make_descending_layout",
    "make_layout",
    "make_layout_from_major_to_minor",
    "make_logical_to_physical",
    "max_elements_in_per_split",
    "max_split_size",
    "memory_space",
    "minor",
    "minor_to_major",
    "move_dim_to_major",
    "move_dim_to_minor",
    "set_to_default_layout",
    "validate_layout_for_shape",
    "validate_layout_in_shape",
]

guard_all(globals(), __all__)
