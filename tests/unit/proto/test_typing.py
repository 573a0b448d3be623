"""The stubs tell the truth: what the type checker is told here is what stands there at run time.

The type checker checks this file as strictly as the package; a suppression below asserts that the line above it, or it,
is an error, since a suppression without an error is one itself. pytest runs the same lines.
"""

from __future__ import annotations

from typing import Literal

import pytest
from google.protobuf.descriptor import Descriptor, ServiceDescriptor
from google.protobuf.internal.containers import (
    MessageMap,
    RepeatedCompositeFieldContainer,
    RepeatedScalarFieldContainer,
    ScalarMap,
)
from google.protobuf.message import Message
from typing_extensions import assert_type

from xlashape.proto import coerce, message_class, services, v1, well_known, xla


def test_singular_scalars() -> None:
    instruction = xla.HloInstructionProto(
        name="a", id=1, epsilon=0.5, is_stable=True, backend_config=b"{}", fft_type="RFFT"
    )
    assert_type(instruction.name, str)
    assert_type(instruction.id, int)
    assert_type(instruction.epsilon, float)
    assert_type(instruction.is_stable, bool)
    assert_type(instruction.backend_config, bytes)
    assert_type(instruction.fft_type, int)
    assert instruction.fft_type == xla.RFFT
    instruction.name = "b"
    instruction.fft_type = xla.FFT
    with pytest.raises(TypeError):
        instruction.name = 3  # pyright: ignore[reportAttributeAccessIssue]


def test_enums() -> None:
    assert_type(xla.F32, Literal[11])
    assert_type(xla.PrimitiveType.F32, Literal[11])
    assert_type(xla.PrimitiveType.Name(xla.F32), str)
    assert_type(xla.PrimitiveType.Value("F32"), int)
    assert_type(xla.OpSharding.TUPLE, Literal[2])
    assert_type(xla.OpSharding.Type.TUPLE, Literal[2])
    assert xla.OpSharding.Type.Name(xla.OpSharding.TUPLE) == "TUPLE"
    assert xla.PrimitiveType.keys()[0] == "PRIMITIVE_TYPE_INVALID"
    with pytest.raises(AttributeError):
        xla.PrimitiveType.F31  # pyright: ignore[reportAttributeAccessIssue]  # noqa: B018


def test_singular_messages() -> None:
    shape = xla.ShapeProto(element_type="F32", layout={"minor_to_major": [1, 0]})
    assert_type(shape.layout, xla.LayoutProto)
    assert_type(shape.layout.physical_shape, xla.ShapeProto)
    assert shape.HasField("layout")
    with pytest.raises(AttributeError):
        shape.layout = xla.LayoutProto()  # pyright: ignore[reportAttributeAccessIssue]
    shape.layout.CopyFrom(xla.LayoutProto(minor_to_major=[0]))
    assert_type(shape.SerializeToString(), bytes)
    assert_type(xla.ShapeProto.FromString(b""), xla.ShapeProto)
    assert_type(xla.ShapeProto.DESCRIPTOR, Descriptor)


def test_repeated_fields() -> None:
    shape = xla.ShapeProto(
        dimensions=[3, 5], is_dynamic_dimension=(False, True), tuple_shapes=[xla.ShapeProto(), {"element_type": 11}]
    )
    assert_type(shape.dimensions, RepeatedScalarFieldContainer[int])
    assert_type(shape.is_dynamic_dimension, RepeatedScalarFieldContainer[bool])
    assert_type(shape.tuple_shapes, RepeatedCompositeFieldContainer[xla.ShapeProto])
    assert_type(shape.tuple_shapes[1].element_type, int)
    assert_type(shape.tuple_shapes.add(element_type=xla.S8), xla.ShapeProto)
    shape.dimensions.append(7)
    shape.dimensions[:] = [1, 2]
    with pytest.raises(AttributeError):
        shape.dimensions = [1]  # pyright: ignore[reportAttributeAccessIssue]
    profile = xla.OpMetadata.ProfileInfo(profile_type=["FLAG", xla.WINDOW])
    assert_type(profile.profile_type, RepeatedScalarFieldContainer[int])
    assert list(profile.profile_type) == [2, 1]


def test_maps() -> None:
    attributes = xla.FrontendAttributes(map={"a": "1"})
    assert_type(attributes.map, ScalarMap[str, str])
    assert_type(attributes.map["a"], str)
    schedule = xla.HloScheduleProto(sequences={1: xla.HloScheduleProto.InstructionSequence(instruction_ids=[2])})
    assert_type(schedule.sequences, MessageMap[int, xla.HloScheduleProto.InstructionSequence])
    assert list(schedule.sequences[1].instruction_ids) == [2]


def test_presence_and_oneofs() -> None:
    payload = xla.Payload(id=0)
    assert_type(payload.WhichOneof("payload_source"), Literal["value", "id"] | None)
    assert payload.HasField("id")
    assert payload.HasField("payload_source")
    payload.ClearField("payload_source")
    assert payload.WhichOneof("payload_source") is None
    assert not xla.HloModuleProto().HasField("pjrt_id")
    instruction = xla.HloInstructionProto(cross_program_prefetch_index=0)
    assert instruction.WhichOneof("optional_cross_program_prefetch_index") == "cross_program_prefetch_index"
    assert instruction.WhichOneof("replica_group_list") is None
    with pytest.raises(ValueError, match="minor_to_major"):
        xla.LayoutProto().HasField("minor_to_major")  # pyright: ignore[reportArgumentType]
    with pytest.raises(ValueError, match="nothing"):
        payload.WhichOneof("nothing")  # pyright: ignore[reportArgumentType]


def test_field_numbers_and_unknown_fields() -> None:
    assert_type(xla.ShapeProto.ELEMENT_TYPE_FIELD_NUMBER, Literal[2])
    with pytest.raises(ValueError, match="rank"):
        xla.ShapeProto(rank=2)  # pyright: ignore[reportCallIssue]


def test_well_known_types() -> None:
    metrics = xla.PassMetrics()
    assert_type(metrics.pass_duration, well_known.Duration)
    metrics.pass_duration.FromSeconds(3)
    assert_type(metrics.pass_duration.ToSeconds(), int)
    metrics.custom_metrics.Pack(xla.KeyValueMetric(key="k"))
    assert_type(metrics.custom_metrics.TypeName(), str)
    assert_type(metrics.custom_metrics, well_known.Any)


def test_functions() -> None:
    assert_type(coerce(xla.ShapeProto, b""), xla.ShapeProto)
    assert_type(message_class("xla.ShapeProto"), type[Message])
    assert_type(services(), tuple[ServiceDescriptor, ...])
    assert isinstance(v1.__all__, list)
