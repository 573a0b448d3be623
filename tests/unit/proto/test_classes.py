"""The message classes: names, copies, pickles, JSON and text, and what they keep of what they do not know."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Iterator

import pytest
from google.protobuf import json_format, text_format
from google.protobuf.descriptor import Descriptor
from google.protobuf.message import Message

from xlashape import proto
from xlashape.errors import NotFoundError
from xlashape.proto import is_repeated, message_class, pool, service, services, v1, well_known, xla


def every_descriptor() -> Iterator[Descriptor]:
    def below(descriptor: Descriptor) -> Iterator[Descriptor]:
        yield descriptor
        for nested in descriptor.nested_types:
            yield from below(nested)

    for module in (xla, v1, well_known):
        for name in module.__all__:
            published = getattr(module, name)
            if isinstance(published, type) and issubclass(published, Message):
                yield from below(published.DESCRIPTOR)


def shape() -> xla.ShapeProto:
    made = xla.ShapeProto(element_type=xla.F32, dimensions=[3, 5], is_dynamic_dimension=[False, True])
    made.layout.minor_to_major.extend([1, 0])
    made.layout.tiles.add(dimensions=[2, 2])
    return made


class TestNames:
    def test_messages_enums_and_values_stand_where_generated_code_has_them(self) -> None:
        assert xla.ShapeProto.DESCRIPTOR.full_name == "xla.ShapeProto"
        assert xla.OpMetadata.ProfileInfo.DESCRIPTOR.full_name == "xla.OpMetadata.ProfileInfo"
        assert xla.HeapSimulatorTrace.Event.Kind.Name(2) == "SHARE_WITH"
        assert xla.PrimitiveType.Value("F32") == xla.F32 == xla.PrimitiveType.F32 == 11
        assert xla.OpSharding.TUPLE == 2
        assert xla.TUPLE == 13
        assert xla.ShapeProto.TUPLE_SHAPES_FIELD_NUMBER == 4

    def test_every_message_knows_its_module_and_qualified_name(self) -> None:
        for descriptor in every_descriptor():
            made = message_class(descriptor.full_name)
            assert f"{made.__module__}.{made.__qualname__}".startswith("xlashape.proto.")
            assert descriptor.full_name.endswith(made.__qualname__)
            found: object = __import__(made.__module__, fromlist=["_"])
            for part in made.__qualname__.split("."):
                found = getattr(found, part)
            assert found is made

    def test_the_pool_is_not_the_default_one(self) -> None:
        from google.protobuf import descriptor_pool

        assert pool.FindMessageTypeByName("xla.ShapeProto") is xla.ShapeProto.DESCRIPTOR
        with pytest.raises(KeyError):
            descriptor_pool.Default().FindFileByName("xlashape/v1/types.proto")

    def test_message_class_by_name(self) -> None:
        assert message_class("xla.PaddingConfig.PaddingConfigDimension") is xla.PaddingConfig.PaddingConfigDimension
        with pytest.raises(NotFoundError, match=r"the schema has no message 'xla\.Shape'"):
            message_class("xla.Shape")

    def test_services(self) -> None:
        names = [found.full_name for found in services()]
        assert len(names) == len(set(names))
        assert all(service(name).full_name == name for name in names)
        with pytest.raises(NotFoundError, match=r"the schema has no service 'xlashape\.v1\.Nothing'"):
            service("xlashape.v1.Nothing")

    def test_which_fields_are_repeated(self) -> None:
        fields = [*xla.FrontendAttributes.DESCRIPTOR.fields, *xla.ShapeProto.DESCRIPTOR.fields]
        assert [f.name for f in fields if is_repeated(f)] == [
            "map",
            "dimensions",
            "is_dynamic_dimension",
            "tuple_shapes",
        ]

    def test_what_the_package_publishes_is_there(self) -> None:
        assert all(hasattr(proto, name) for name in proto.__all__)


class TestCopies:
    @pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
    def test_pickle(self, protocol: int) -> None:
        for original in (shape(), xla.OpMetadata.ProfileInfo(relative_speedup=1.5), well_known.Duration(seconds=3)):
            loaded = pickle.loads(pickle.dumps(original, protocol))
            assert loaded == original
            assert type(loaded) is type(original)

    def test_pickle_every_message_and_its_class(self) -> None:
        for descriptor in every_descriptor():
            if not descriptor.GetOptions().map_entry:
                made = message_class(descriptor.full_name)
                assert pickle.loads(pickle.dumps(made)) is made
                assert pickle.loads(pickle.dumps(made())) == made()

    def test_copies_are_equal_and_apart(self) -> None:
        for original in (shape(), xla.MeshProto.MeshAxis(name="x", size=4)):
            for duplicate in (copy.copy(original), copy.deepcopy(original)):
                assert duplicate == original
                assert type(duplicate) is type(original)
                duplicate.Clear()
                assert duplicate != original

    def test_deepcopy_of_a_container(self) -> None:
        held = {"parts": [xla.OpMetadata.ProfileInfo(relative_speedup=2.0)]}
        duplicate = copy.deepcopy(held)
        assert duplicate == held
        assert duplicate["parts"][0] is not held["parts"][0]


class TestForms:
    def test_wire(self) -> None:
        # Written by hand: field 2 varint 11; field 3 packed 3, 5; field 5 a layout whose field 1 is packed 1, 0.
        data = bytes.fromhex("100b 1a020305 2a04 0a020100")
        made = xla.ShapeProto.FromString(data)
        assert (made.element_type, list(made.dimensions), list(made.layout.minor_to_major)) == (xla.F32, [3, 5], [1, 0])
        assert made.SerializeToString() == data

    def test_unknown_fields_come_back(self) -> None:
        # Field 2 and 4 of a layout from before 2018, and field 999, which no schema has.
        data = bytes.fromhex("0a020100 12020305 2001") + b"\xba\x3e\x02hi"
        made = xla.LayoutProto.FromString(data)
        assert list(made.minor_to_major) == [1, 0]
        assert xla.LayoutProto.FromString(made.SerializeToString()) == made
        assert sorted(made.SerializeToString()) == sorted(data)
        assert copy.deepcopy(made).SerializeToString() == made.SerializeToString()
        assert pickle.loads(pickle.dumps(made)).SerializeToString() == made.SerializeToString()

    def test_an_enum_value_of_the_future_is_kept(self) -> None:
        made = xla.ShapeProto.FromString(b"\x10\xc8\x01")
        assert made.element_type == 200
        assert made.SerializeToString() == b"\x10\xc8\x01"

    def test_json(self) -> None:
        made = shape()
        text = json_format.MessageToDict(made)
        assert text["elementType"] == "F32"
        assert text["dimensions"] == ["3", "5"]
        assert json_format.ParseDict(text, xla.ShapeProto()) == made
        assert (
            json_format.Parse(json_format.MessageToJson(made, preserving_proto_field_name=True), xla.ShapeProto())
            == made
        )

    def test_text_format(self) -> None:
        made = shape()
        assert text_format.Parse(text_format.MessageToString(made), xla.ShapeProto()) == made

    def test_maps(self) -> None:
        made = xla.FrontendAttributes(map={"a": "1"})
        made.map["b"] = "2"
        assert json_format.MessageToDict(made) == {"map": {"a": "1", "b": "2"}}
        schedule = xla.HloScheduleProto()
        schedule.sequences[7].instruction_ids.append(70)
        assert xla.HloScheduleProto.FromString(schedule.SerializeToString()) == schedule

    def test_explicit_presence_and_oneofs(self) -> None:
        module = xla.HloModuleProto(pjrt_id=0)
        assert module.HasField("pjrt_id")
        assert not xla.HloModuleProto().HasField("pjrt_id")
        payload = xla.Payload(id=0)
        assert payload.WhichOneof("payload_source") == "id"
        payload.value = b""
        assert payload.WhichOneof("payload_source") == "value"


class TestWellKnownTypes:
    def test_their_methods(self) -> None:
        metrics = xla.PassMetrics()
        metrics.pass_duration.FromMilliseconds(1500)
        assert json_format.MessageToDict(metrics) == {"passDuration": "1.500s"}
        assert isinstance(metrics.pass_duration, well_known.Duration)

    def test_any_packs_and_unpacks(self) -> None:
        metadata = xla.HloPassMetadata()
        metadata.custom_metadata.Pack(xla.KeyValueMetric(key="k", value=5))
        found = xla.KeyValueMetric()
        assert metadata.custom_metadata.Is(xla.KeyValueMetric.DESCRIPTOR)
        assert metadata.custom_metadata.Unpack(found)
        assert found.value == 5

    def test_any_in_json_and_text_is_looked_up_in_the_pool_that_is_passed(self) -> None:
        metadata = xla.HloPassMetadata()
        metadata.custom_metadata.Pack(xla.KeyValueMetric(key="k", value=5))
        told = json_format.MessageToDict(metadata, descriptor_pool=pool)
        assert told == {"customMetadata": {"@type": "type.googleapis.com/xla.KeyValueMetric", "key": "k", "value": "5"}}
        assert json_format.ParseDict(told, xla.HloPassMetadata(), descriptor_pool=pool) == metadata
        text = text_format.MessageToString(metadata, descriptor_pool=pool)
        assert "[type.googleapis.com/xla.KeyValueMetric]" in text
        assert text_format.Parse(text, xla.HloPassMetadata(), descriptor_pool=pool) == metadata
