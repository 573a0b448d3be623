"""The compiled schema equals XLA's, which xla_schema_0.12.0.1.json lists: every name, number, type and order.

The file is not part of the project. It is looked for in $XLASHAPE_SHARED/schema, then in ../shared/schema beside the
checkout.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    EnumDescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
)
from optional import shared

from xlashape import proto

CHECKOUT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def facts() -> dict[str, dict[str, Any]]:
    path = shared("schema", "xla_schema_0.12.0.1.json")
    return {file["file"]: file for file in json.loads(path.read_text())}


def _compiled(name: str) -> FileDescriptorProto:
    return FileDescriptorProto.FromString(proto.pool.FindFileByName(name).serialized_pb)


def _enum(enum: EnumDescriptorProto) -> dict[str, Any]:
    return {"name": enum.name, "values": [[value.name, value.number] for value in enum.value]}


def _field(field: FieldDescriptorProto, message: DescriptorProto) -> dict[str, Any]:
    """One field in the words of the file: `label` for repeated and for proto3's explicit optional, `oneof` for a real
    one."""
    told: dict[str, Any] = {"name": field.name, "number": field.number}
    told["type"] = field.type_name.lstrip(".") or FieldDescriptorProto.Type.Name(field.type)[len("TYPE_") :].lower()
    if field.label == FieldDescriptorProto.LABEL_REPEATED:
        told["label"] = "repeated"
    elif field.proto3_optional:
        told["label"] = "optional"
    elif field.HasField("oneof_index"):
        told["oneof"] = message.oneof_decl[field.oneof_index].name
    if field.options.deprecated:
        told["deprecated"] = True
    return told


def _message(message: DescriptorProto) -> dict[str, Any]:
    told: dict[str, Any] = {"name": message.name, "fields": [_field(field, message) for field in message.field]}
    # A descriptor's reserved ranges end before `end`, the file's end with their last number.
    if message.reserved_range:
        told["reserved_numbers"] = [[span.start, span.end - 1] for span in message.reserved_range]
    if message.reserved_name:
        told["reserved_names"] = list(message.reserved_name)
    if message.enum_type:
        told["enums"] = [_enum(enum) for enum in message.enum_type]
    if message.nested_type:
        told["messages"] = [_message(nested) for nested in message.nested_type]
    if message.options.map_entry:
        told["map_entry"] = True
    return told


def _flat(messages: list[dict[str, Any]], scope: str) -> dict[str, dict[str, Any]]:
    """Full name → message, each without its nested messages, so that a difference is reported at the message that has
    it."""
    flat: dict[str, dict[str, Any]] = {}
    for message in messages:
        name = f"{scope}.{message['name']}"
        nested = message.get("messages", [])
        flat[name] = {key: value for key, value in message.items() if key != "messages"} | {
            "nested": [inner["name"] for inner in nested if not inner.get("map_entry")]
        }
        flat |= _flat(nested, name)
    return flat


@pytest.mark.parametrize("name", ["xla/xla_data.proto", "xla/service/hlo.proto", "xla/service/metrics.proto"])
class TestAgainstXla:
    def test_package_syntax_and_imports(self, facts: dict[str, dict[str, Any]], name: str) -> None:
        compiled = _compiled(name)
        assert compiled.package == facts[name]["package"]
        assert compiled.syntax == facts[name]["syntax"]
        assert list(compiled.dependency) == facts[name]["imports"]

    def test_enums_with_their_values_in_order(self, facts: dict[str, dict[str, Any]], name: str) -> None:
        assert [_enum(enum) for enum in _compiled(name).enum_type] == facts[name]["enums"]

    def test_messages_in_order(self, facts: dict[str, dict[str, Any]], name: str) -> None:
        assert [message.name for message in _compiled(name).message_type] == [
            m["name"] for m in facts[name]["messages"]
        ]

    def test_every_message_field_by_field(self, facts: dict[str, dict[str, Any]], name: str) -> None:
        compiled = _flat([_message(message) for message in _compiled(name).message_type], "xla")
        expected = _flat(facts[name]["messages"], "xla")
        assert compiled.keys() == expected.keys()
        for full_name, message in expected.items():
            assert compiled[full_name] == message, full_name

    def test_nothing_beyond_the_facts(self, facts: dict[str, dict[str, Any]], name: str) -> None:
        """Options that would change the wire, and kinds of declaration XLA's schema does not use."""
        compiled = _compiled(name)
        assert not compiled.extension
        assert not compiled.service
        for descriptor in _walk(compiled.message_type):
            assert not descriptor.extension_range
            assert not any(
                field.options.HasField("packed") or field.HasField("default_value") for field in descriptor.field
            )


def _walk(messages: Any) -> list[DescriptorProto]:
    return [found for message in messages for found in (message, *_walk(message.nested_type))]


def test_the_facts_are_about_all_files_of_package_xla(facts: dict[str, dict[str, Any]]) -> None:
    root = CHECKOUT / "protos"
    assert sorted(facts) == sorted(path.relative_to(root).as_posix() for path in (root / "xla").rglob("*.proto"))
