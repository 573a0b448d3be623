"""What older versions of XLA wrote and the schema no longer has: its meaning is printed and answered, its bytes are
kept.

The protos are those that the named jaxlib made of the text beside them; the text is what that jaxlib printed of its own
proto.
"""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from xlashape import HloModule, indexing
from xlashape.errors import DecodeError
from xlashape.hlo import convert, verify
from xlashape.hlo.module_proto import schema_compat
from xlashape.proto import coerce, xla
from xlashape.proto.wire import BYTES, fields, sized, tag

VERSIONS = Path(__file__).resolve().parents[2] / "vectors" / "versions"
CASES = [
    "parsed-by-jax-0.5.3.origin_tuple",
    "parsed-by-jax-0.6.2.origin_tuple",
    "parsed-by-jax-0.8.3.origin_tuple",
    "parsed-by-jax-0.6.2.iota_groups",
    "parsed-by-jax-0.8.3.iota_groups",
    "parsed-by-jax-0.8.3.iota_groups_ag",
    "parsed-by-jax-0.6.2.sparse_dot",
    "parsed-by-jax-0.5.3.packed_nibble",
]


def proto_of(name: str) -> bytes:
    return gzip.decompress((VERSIONS / f"{name}.pb.gz").read_bytes())


def text_of(name: str) -> str:
    return gzip.decompress((VERSIONS / f"{name}.txt.gz").read_bytes()).decode()


def attributes(text: str) -> list[str]:
    """The attributes of each instruction, without those that are printed for each operand in older versions."""
    lines = [line.split("), ", 1)[1] for line in text.splitlines() if " = " in line and "), " in line]
    return [line for line in lines if not line.startswith("entry_computation_layout")]


@pytest.mark.parametrize("name", CASES)
def test_prints_as_the_version_that_wrote_it(name: str):
    module = HloModule.from_proto(proto_of(name))
    assert attributes(module.to_text()) == attributes(text_of(name)) != []
    assert verify(module) == ()


@pytest.mark.parametrize("name", CASES)
def test_its_text_is_read_back(name: str):
    text = HloModule.from_proto(proto_of(name)).to_text()
    assert HloModule.parse(text).to_text() == text


@pytest.mark.parametrize("name", CASES)
def test_written_back_byte_for_byte(name: str):
    data = proto_of(name)
    for module in (HloModule.from_proto(data), HloModule.from_bytes(data)):
        assert module.to_bytes() == data
    assert convert.encode(HloModule.of_document(convert.decode(data)), "pb") == data
    wrapped = tag(1, BYTES) + sized(data)
    assert convert.encode(HloModule.of_document(convert.decode(wrapped)), "hlo.pb") == wrapped
    assert HloModule.from_proto(wrapped).to_bytes() == wrapped


@pytest.mark.parametrize("name", [name for name in CASES if "sparse" not in name])
@pytest.mark.parametrize("form", ["json", "pbtxt"])
def test_converts_with_its_meaning(name: str, form: str):
    module = HloModule.of_document(convert.decode(proto_of(name)))
    assert HloModule.from_bytes(convert.encode(module, form)).to_text() == module.to_text()


def test_an_edited_module_is_written_in_todays_form():
    module = HloModule.from_proto(proto_of("parsed-by-jax-0.5.3.origin_tuple"))
    with pytest.raises(DecodeError):
        coerce(xla.HloModuleProto, module.to_bytes())
    module.instruction("r").rename("result")
    origin = xla.HloModuleProto.FromString(module.to_bytes()).computations[0].instructions[1].original_value
    assert origin.elements[0].original_array.instruction_name == "v1"
    module = HloModule.from_proto(proto_of("parsed-by-jax-0.5.3.origin_tuple"))
    module.add_computations("f { a = f32[] parameter(0)  ROOT b = f32[] negate(a) }")
    written = coerce(xla.HloModuleProto, module.to_bytes())  # also the computations that no edit has changed
    origins = [each.proto.original_value for each in module.entry.instructions if each.proto.HasField("original_value")]
    entry = next(each for each in written.computations if each.id == written.entry_computation_id)
    assert [each.original_value for each in entry.instructions if each.HasField("original_value")] == origins != []


def test_replica_map_of_older_groups():
    [read] = [
        read
        for read in indexing.module_indexing(HloModule.from_proto(proto_of("parsed-by-jax-0.8.3.iota_groups_ag")))
        if read.instruction.name == "r"
    ]
    replica = read.operands[0].replica
    assert replica is not None
    assert replica.groups == ((0, 2, 4, 6), (1, 3, 5, 7))


def test_maps_of_a_sparse_dot_say_that_they_know_nothing_narrower():
    module = HloModule.from_proto(proto_of("parsed-by-jax-0.6.2.sparse_dot"))
    sets = indexing.output_to_input(module.instruction("r"))
    assert [operand.knowledge for operand in sets] == [indexing.Knowledge.EVERY_ELEMENT] * 3


@pytest.mark.parametrize(
    ("data", "names"),
    [
        (b"", []),
        (b"\x0a\x04\x12\x02v1", ["v1"]),  # a leaf of 0.5.3
        (b"\x0a\x0b\x12\x09add.12345", ["add.12345"]),  # a name that is a well-formed message by chance
        (b"\x0a\x00", [""]),
        (b"\x0a\x06\x12\x04\x0a\x02v1", ["v1"]),  # today's form
        (b"\x0a\x02\x10\x0b\x12\x04\x12\x02v1", ["v1"]),  # a shape and a leaf, as of 0.6.2
        (b"\x0a\x02\x10\x0b", [""]),  # a shape alone
        (b"\x10\x01", []),  # is_synthetic_call
    ],
)
def test_forms_of_origins(data: bytes, names: list[str]):
    value = schema_compat.original_value(data)
    assert [element.original_array.instruction_name for element in value.elements] == names


def test_other_broken_modules_stay_errors():
    data = proto_of("parsed-by-jax-0.5.3.origin_tuple")
    for broken in (data[:-1], data[:40], b"\x0a\x05ab"):
        with pytest.raises(DecodeError):
            schema_compat.decode(xla.HloModuleProto, broken)
    assert schema_compat.decode(xla.HloModuleProto, proto_of(CASES[3]))[1] is None


def test_the_bytes_of_todays_modules_are_not_looked_through():
    today = xla.HloModuleProto(name="m")
    assert schema_compat.decode(xla.HloModuleProto, today)[0] is today
    assert schema_compat.modernized(today) is today


def test_without_the_rewriting_protobuf_refuses_the_module():
    data = proto_of("parsed-by-jax-0.5.3.origin_tuple")
    assert any(number == 3 for number, *_ in fields(data))
    with pytest.raises(DecodeError):
        coerce(xla.HloModuleProto, data)
