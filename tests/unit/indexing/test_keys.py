"""Cheap keys of attributes: answers may be shared only where all that a rule sees is equal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from xlashape.errors import InvalidModuleError
from xlashape.indexing.ops import control, register
from xlashape.indexing.ops.register import key_of
from xlashape.proto import is_repeated, xla

TABLES = (register.OUTPUT_TO_INPUT, register.INPUT_TO_OUTPUT)
READERS = {
    one.attributes: str(opcode) for table in TABLES for opcode, one in table.items() if one.attributes is not None
}
"""The readers of attributes, each with an opcode whose rules it serves."""
MESSAGES = {
    "window": {"dimensions": [{"size": 3, "stride": 2}, {"size": 1, "padding_low": 1}]},
    "convolution_dimension_numbers": {"input_spatial_dimensions": [2, 3], "kernel_spatial_dimensions": [0, 1]},
    "dot_dimension_numbers": {"lhs_contracting_dimensions": [1], "rhs_contracting_dimensions": [0]},
    "gather_dimension_numbers": {"offset_dims": [0], "start_index_map": [0]},
    "scatter_dimension_numbers": {"update_window_dims": [0], "scatter_dims_to_operand_dims": [0]},
    "padding_config": {"dimensions": [{"edge_padding_low": 1}, {"interior_padding": 2}]},
    "slice_dimensions": [{"start": 1, "limit": 5, "stride": 1}, {"limit": 2, "stride": 1}],
    "replica_groups": [{"replica_ids": [0, 1]}, {"replica_ids": [2, 3]}],
    "source_target_pairs": [{"source": 0, "target": 1}],
    "cholesky_options": {},
    "triangular_solve_options": {},
    "ragged_dot_dimension_numbers": {"dot_dimension_numbers": {"lhs_contracting_dimensions": [1]}},
    "fft_length": [4],
    "dimensions": [0, 1],
    "gather_slice_sizes": [1, 2],
    "dynamic_slice_sizes": [1, 2],
}
FORMS: list[dict[str, Any]] = [
    {},
    {"collective_device_list": {"replica_groups": [{"replica_ids": [0, 1]}]}},
    {"iota_collective_device_list": {"num_replica_groups": 2, "num_devices_per_group": 2, "iota_reshape_dims": [4]}},
    {
        "mesh_axes_replica_group_list": {
            "mesh": {"axes": [{"name": "a", "size": 2}, {"name": "b", "size": 4}]},
            "axes": [{"mesh_axis_index": 1}, {"mesh_axis_index": 0, "sub_axis_info": {"pre_size": 1, "size": 2}}],
        }
    },
]


def changes(message: Any) -> Iterator[Callable[[], None]]:
    """Each field of the message and of those in it, changed: one step after another."""
    for field in message.DESCRIPTOR.fields:
        value = getattr(message, field.name)
        if field.message_type is not None:
            if field.message_type.full_name in (
                "xla.ShapeProto",
                "xla.OpMetadata",
                "xla.OpSharding",
                "xla.LiteralProto",
            ):
                continue
            for one in list(value) if is_repeated(field) else [value] if message.HasField(field.name) else []:
                yield from changes(one)
        elif is_repeated(field):
            if field.cpp_type in (field.CPPTYPE_INT64, field.CPPTYPE_INT32):
                yield lambda value=value: value.append(7)
                yield lambda value=value: value.reverse()
        elif field.cpp_type in (field.CPPTYPE_INT64, field.CPPTYPE_INT32, field.CPPTYPE_ENUM):
            yield lambda name=field.name, old=value: setattr(message, name, old + 2)
        elif field.cpp_type == field.CPPTYPE_BOOL:
            yield lambda name=field.name, old=value: setattr(message, name, not old)


@pytest.mark.parametrize("form", range(len(FORMS)))
@pytest.mark.parametrize("reader", READERS, ids=READERS.get)
def test_equal_keys_mean_equal_attributes(reader, form):
    proto = xla.HloInstructionProto(opcode="all-gather", **MESSAGES, **FORMS[form])
    seen: dict[Any, Any] = {}
    different = 0

    def look() -> None:
        nonlocal different
        try:
            found = reader(proto)
        except InvalidModuleError as error:
            found = str(error)
        key = key_of(reader)(proto)
        assert hash(key) == hash(key_of(reader)(proto))
        assert seen.setdefault(key, found) == found
        different = len(set(seen.values()))

    look()
    for change in changes(proto):
        change()
        look()
    assert different > 1 or reader is control._opcode


def test_operations_that_differ_in_an_attribute_alone_are_told_apart():
    from xlashape.hlo import HloModule
    from xlashape.indexing import output_to_input

    text = """HloModule m
ENTRY e {
  p = f32[4,4] parameter(0)
  a = f32[4,4] transpose(p), dimensions={1,0}
  b = f32[4,4] transpose(p), dimensions={0,1}
  c = f32[4,4] reverse(p), dimensions={0}
  d = f32[4,4] reverse(p), dimensions={1}
  s = f32[2,4] slice(p), slice={[0:2], [0:4]}
  t = f32[2,4] slice(p), slice={[0:4:2], [0:4]}
  ROOT r = (f32[4,4], f32[4,4]) tuple(a, b)
}
"""
    module = HloModule.parse(text)
    maps = [str(output_to_input(module.instruction(name))[0].map.simplify()) for name in "abcdst"]
    assert len(set(maps)) == len(maps)
