"""The service's schema imports nothing of XLA's, its messages for shapes have the bytes of XLA's, and it follows the
rules of buf.yaml."""

from __future__ import annotations

import itertools
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor, FileDescriptor

from xlashape import proto
from xlashape.proto import is_repeated, services, v1, xla
from xlashape.shape import Shape

CHECKOUT = Path(__file__).resolve().parents[3]
FILES: list[FileDescriptor] = [
    proto.pool.FindFileByName(f"xlashape/v1/{name}.proto")
    for name in ("types", "shape_service", "hlo_service", "indexing_service", "report_service", "view_service")
]
TWINS = {"Shape": "ShapeProto", "Layout": "LayoutProto", "LayoutTile": "TileProto", "SplitConfig": "SplitConfigProto"}
ENUM_TWINS = {"ElementType": "PrimitiveType", "DimensionLevel": "DimLevelType"}


def test_every_file_of_the_package_is_tested_here() -> None:
    assert {file.name for file in FILES} == {
        path.relative_to(CHECKOUT / "protos").as_posix() for path in (CHECKOUT / "protos" / "xlashape").rglob("*.proto")
    }


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_it_imports_nothing_of_xla(file: FileDescriptor) -> None:
    assert all(needed.package in ("xlashape.v1", "google.protobuf") for needed in file.dependencies)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_options_for_the_languages(file: FileDescriptor) -> None:
    options = file.GetOptions()
    assert options.go_package == "github.com/xlashape/xlashape/clients/go/xlashapev1;xlashapev1"
    assert (options.java_package, options.java_multiple_files) == ("io.github.xlashape.v1", True)
    words = file.name.removesuffix(".proto").rpartition("/")[2].split("_")
    assert options.java_outer_classname == "".join(word.capitalize() for word in words) + "Proto"
    assert (options.csharp_namespace, options.objc_class_prefix, options.swift_prefix) == ("Xlashape.V1", "XLS", "XLS")
    assert (options.php_namespace, options.ruby_package) == ("Xlashape\\V1", "Xlashape::V1")


def test_only_what_stores_and_deletes_has_side_effects() -> None:
    levels = {"UploadModule": 2, "PutModule": 2, "DeleteModule": 0}  # IDEMPOTENT, and a second deletion is NOT_FOUND
    for service in services():
        for method in service.methods:
            assert method.GetOptions().idempotency_level == levels.get(method.name, 1), (
                f"the idempotency_level of {method.name} in {service.file.name}: NO_SIDE_EFFECTS, unless listed here"
            )


def _told(field: FieldDescriptor) -> tuple[object, ...]:
    """The properties that decide the bytes of a field."""
    kind = field.message_type.name if field.message_type else field.enum_type.name if field.enum_type else field.type
    return field.number, TWINS.get(str(kind), ENUM_TWINS.get(str(kind), kind)), is_repeated(field)


@pytest.mark.parametrize(("ours", "theirs"), TWINS.items())
def test_messages_for_shapes_have_the_fields_of_xlas(ours: str, theirs: str) -> None:
    mine: Descriptor = getattr(v1, ours).DESCRIPTOR
    other: Descriptor = getattr(xla, theirs).DESCRIPTOR
    assert {field.name: _told(field) for field in mine.fields} == {field.name: _told(field) for field in other.fields}


@pytest.mark.parametrize(("ours", "theirs"), ENUM_TWINS.items())
def test_enums_for_shapes_have_the_numbers_of_xlas(ours: str, theirs: str) -> None:
    mine: EnumDescriptor = getattr(v1, ours).DESCRIPTOR
    other: EnumDescriptor = getattr(xla, theirs).DESCRIPTOR
    numbers = {value.number for value in mine.values}
    assert {value.number: value.name for value in other.values if value.number not in numbers} == {}, (
        f"{ours} in protos/xlashape/v1/types.proto does not have these"
    )
    assert numbers <= set(other.values_by_number)
    renamed = {"PRIMITIVE_TYPE_INVALID": "UNSPECIFIED", "OPAQUE_TYPE": "OPAQUE", "DIM_DENSE": "UNSPECIFIED"}
    for value in mine.values:
        same = other.values_by_number[value.number].name
        prefix = "ELEMENT_TYPE_" if ours == "ElementType" else "DIMENSION_LEVEL_"
        assert value.name == prefix + renamed.get(same, same.removeprefix("DIM_"))


@pytest.mark.parametrize(
    "text",
    [
        "f32[3,5]{1,0:T(2,2)}",
        "bf16[<=20,300]{0,1:T(8,128)(2,1)E(16)S(1)}",
        "(s4[2]{0:E(4)}, (token[], u8[?,2]{1,0}))",
        "f32[8]{0:D(C)#(u32)*(u16)}",
        "f32[8,4]{1,0:SC(0:4)}",
        "unknown_99[2]{0}",
    ],
)
def test_a_shape_is_the_same_bytes_in_both_schemas(text: str) -> None:
    data = Shape.parse(text).to_proto().SerializeToString()
    ours = v1.Shape.FromString(data)
    assert ours.SerializeToString() == data
    assert str(Shape.from_proto(ours.SerializeToString())) == str(Shape.parse(text))


_DECLARED = re.compile(r"\s+(rpc \w+\(|((repeated|optional) )?[\w.]+ \w+ = \d+|map<|[A-Z_0-9]+ = \d+)")


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_every_rpc_and_field_has_a_comment(file: FileDescriptor) -> None:
    lines = (CHECKOUT / "protos" / file.name).read_text(encoding="utf-8").splitlines()
    for before, line in itertools.pairwise(lines):
        assert _DECLARED.match(line) is None or before.lstrip().startswith("//"), f"no comment before: {line.strip()}"


def _fields(message: Descriptor) -> Iterator[tuple[str, int]]:
    """The names and numbers of the fields of a message and of the messages within it."""
    yield from [(field.name, field.number) for field in message.fields]
    for nested in message.nested_types:
        if not nested.GetOptions().map_entry:
            yield from _fields(nested)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_committed_messages_have_the_fields_of_the_schema(file: FileDescriptor) -> None:
    """What needs no generator of `test_committed_code_is_what_the_generators_write`."""
    stem = Path(file.name).stem
    go = (CHECKOUT / "clients" / "go" / "xlashapev1" / f"{stem}.pb.go").read_text(encoding="utf-8")
    generated = CHECKOUT / "clients" / "typescript" / "src" / "gen"
    typescript = (generated / f"{file.name.removesuffix('.proto')}_pb.ts").read_text(encoding="utf-8")
    declared = Counter([field for message in file.message_types_by_name.values() for field in _fields(message)])
    for written in (
        re.findall(r'protobuf:"\w+,(\d+),[^"]*?name=(\w+)', go),
        [(number, name) for name, number in re.findall(r"@generated from field: .*?(\w+) = (\d+)", typescript)],
    ):
        assert Counter([(name, int(number)) for number, name in written]) == declared, "(cd protos && buf generate)"


def _buf() -> str:
    found = shutil.which("buf")
    if found is None:
        if os.environ.get("CI") == "true":
            pytest.fail("buf is not here; .ci/run installs it")
        pytest.skip("buf is not installed; `.ci/schema-tools DIRECTORY` installs it")
    return found


@pytest.mark.parametrize(
    "arguments", [["lint", "protos"], ["format", "--diff", "--exit-code", "protos", "--path", "protos/xlashape"]]
)
def test_buf_finds_nothing(arguments: list[str]) -> None:
    done = subprocess.run([_buf(), *arguments], cwd=CHECKOUT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


_GENERATED = re.compile(r"^// (Code |@)generated by proto", re.MULTILINE)
"""Stands in the files of protoc's plugins and of protos/client_methods."""


@pytest.mark.parametrize("folder", ["protos", "tests/conformance"])
def test_committed_code_is_what_the_generators_write(folder: str, tmp_path: Path) -> None:
    missing = [name for name in ("protoc-gen-go", "protoc-gen-go-grpc", "protoc-gen-es") if shutil.which(name) is None]
    if missing:
        pytest.skip(f"{', '.join(missing)}: not installed; `.ci/schema-tools DIRECTORY` installs them")
    command = [_buf(), "generate", "--output", str(tmp_path / folder)]
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])  # one of the plugins is in Python
    environment = os.environ | {"PATH": path}
    done = subprocess.run(command, cwd=CHECKOUT / folder, capture_output=True, text=True, check=False, env=environment)
    assert (done.returncode, done.stderr) == (0, "")
    written = sorted(path for path in (tmp_path / "clients").rglob("*") if path.is_file())
    assert written
    for path in written:
        committed = CHECKOUT / path.relative_to(tmp_path)
        assert path.read_text() == committed.read_text(), f"cd {folder} && buf generate"
        beside = {
            one.name for one in committed.parent.glob("*") if one.is_file() and _GENERATED.search(one.read_text())
        }
        assert beside == {one.name for one in written if one.parent == path.parent}
