"""protos/schema_compiler.py: what the build makes of the .proto files."""

from __future__ import annotations

import ast
import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorSet

CHECKOUT = Path(__file__).resolve().parents[3]

TYPES = """
syntax = "proto3";
package xla;

// The comment of Shape,
// on two lines, with a backslash \\d and a "quote".
message Shape {
  // Nested comment.
  message Part { string name = 1; }
  // Why it is so.
  enum Kind { KIND_A = 0; KIND_B = 1; }
  repeated int64 sizes = 1;
  Kind kind = 2;
  repeated Part parts = 3;
  map<string, Part> by_name = 4;
  optional double ratio = 5;
  oneof first { string a = 6; Part b = 7; }
  oneof second { bytes bytes = 8; bool bool = 9; }
  int32 from = 10;
}
"""

SERVICE = """
syntax = "proto3";
package xlashape.v1;
import "xla/types.proto";
import "google/protobuf/duration.proto";

message Ask { xla.Shape shape = 1; google.protobuf.Duration timeout = 2; }
service Answers { rpc Answer(Ask) returns (stream Ask); }
"""


@pytest.fixture(scope="module")
def compiler() -> ModuleType:
    spec = importlib.util.spec_from_file_location("schema_compiler", CHECKOUT / "protos" / "schema_compiler.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["schema_compiler"] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def protos(tmp_path: Path) -> Path:
    root = tmp_path / "protos"
    for name, text in (("xla/types.proto", TYPES), ("xlashape/v1/service.proto", SERVICE)):
        (root / name).parent.mkdir(parents=True)
        (root / name).write_text(text)
    return root


def members(stub: str, *names: str) -> dict[str, str]:
    """Name → source of what stands in a class of a stub."""
    body: list[ast.stmt] = ast.parse(stub).body
    for name in names:
        (body,) = (node.body for node in body if isinstance(node, ast.ClassDef) and node.name == name)
    found: dict[str, str] = {}
    for node in body:
        if isinstance(node, ast.AnnAssign):
            found[ast.unparse(node.target)] = ast.unparse(node.annotation)
        elif isinstance(node, ast.FunctionDef):
            found.setdefault(node.name, ast.unparse(node))
        elif isinstance(node, ast.ClassDef):
            found[node.name] = ast.unparse(node)
    return found


def test_every_file_after_what_it_imports_and_without_comments(
    compiler: ModuleType, protos: Path, tmp_path: Path
) -> None:
    compiler.build(protos, tmp_path)
    files = FileDescriptorSet.FromString((tmp_path / "proto" / "schema.binpb").read_bytes()).file
    seen: set[str] = set()
    for file in files:
        assert seen.issuperset(file.dependency)
        assert not file.HasField("source_code_info")
        seen.add(file.name)
    assert seen == {"xla/types.proto", "xlashape/v1/service.proto", "google/protobuf/duration.proto"}


def test_building_twice_changes_nothing(compiler: ModuleType, protos: Path, tmp_path: Path) -> None:
    compiler.build(protos, tmp_path)
    made = {path: path.stat().st_mtime_ns for path in tmp_path.glob("*/*_pb2*")}
    made |= {path: path.stat().st_mtime_ns for path in (tmp_path / "proto").iterdir()}
    assert {path.name for path in made} >= {"service_pb2.py", "service_pb2.pyi", "service_pb2_grpc.py", "schema.binpb"}
    compiler.build(protos, tmp_path)
    assert made == {path: path.stat().st_mtime_ns for path in made}


def test_the_stub_of_a_message(compiler: ModuleType, protos: Path) -> None:
    stub = compiler.stubs(compiler.compile_files(protos))["xla"]
    shape = members(stub, "Shape")
    assert "containers.RepeatedScalarFieldContainer[builtins.int]" in shape["sizes"]
    assert shape["kind"] == "builtins.int"
    assert "containers.RepeatedCompositeFieldContainer[Shape.Part]" in shape["parts"]
    assert "containers.MessageMap[builtins.str, Shape.Part]" in shape["by_name"]
    assert shape["ratio"] == "builtins.float"
    assert shape["bytes"] == "builtins.bytes"
    assert shape["bool"] == "builtins.bool"
    assert "Literal['parts'" not in shape["HasField"]
    assert "Literal['ratio', 'a', 'b', 'bytes', 'bool', 'first', 'second']" in shape["HasField"]
    assert "Literal['a', 'b'] | None" in shape["WhichOneof"]
    assert shape["KIND_B"] == "ClassVar[Literal[1]]"
    assert shape["FROM_FIELD_NUMBER"] == "ClassVar[Literal[10]]"
    assert "from" not in shape  # a keyword: no attribute can have that name
    assert "kind: builtins.int | builtins.str | None=..." in shape["__init__"]


def test_comments_become_docstrings(compiler: ModuleType, protos: Path) -> None:
    tree = ast.parse(compiler.stubs(compiler.compile_files(protos))["xla"])
    (shape,) = (node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == "Shape")
    assert ast.get_docstring(shape) == 'The comment of Shape,\non two lines, with a backslash \\d and a "quote".'
    nested = {node.name: ast.get_docstring(node) for node in shape.body if isinstance(node, ast.ClassDef)}
    assert nested == {"Part": "Nested comment.", "_Kind": "Why it is so."}


def test_a_stub_refers_to_its_siblings(compiler: ModuleType, protos: Path) -> None:
    stub = compiler.stubs(compiler.compile_files(protos))["v1"]
    assert "from xlashape.proto import well_known as _well_known" in stub
    ask = members(stub, "Ask")
    assert "-> _xla.Shape" in ask["shape"]
    assert "-> _well_known.Duration" in ask["timeout"]


def test_a_schema_that_protoc_refuses(compiler: ModuleType, protos: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (protos / "xla/types.proto").write_text('syntax = "proto3"; message M { int32 a = 1; int32 b = 1; }')
    with pytest.raises(RuntimeError, match="protoc refused the schema in"):
        compiler.compile_files(protos)
    assert "xla/types.proto" in capfd.readouterr().err  # protoc says which file and why


def test_what_is_installed_is_made_from_these_files(compiler: ModuleType) -> None:
    """Fails after a change of a .proto until `python protos/schema_compiler.py` has run, or the project is installed
    again.
    """
    from xlashape import proto

    for file in compiler.compile_files(CHECKOUT / "protos").file:
        if not file.name.startswith("google/"):
            file.ClearField("source_code_info")
            loaded = type(file).FromString(proto.pool.FindFileByName(file.name).serialized_pb)
            assert loaded == file, f"{file.name} has changed since the build"


@pytest.mark.parametrize("name", ["xla", "v1", "well_known"])
def test_stubs_publish_what_the_modules_publish(name: str) -> None:
    from xlashape import proto

    module = getattr(proto, name)
    stub = ast.parse((Path(module.__file__).with_suffix(".pyi")).read_text())
    (published,) = (ast.literal_eval(node.value) for node in stub.body if isinstance(node, ast.Assign))
    assert published == module.__all__
