"""Compiles every .proto below this directory into the descriptor set that `xlashape.proto` loads, and into type stubs.

    python protos/schema_compiler.py        # after a change of a .proto; installing the project does it too

Written to xlashape/proto/, and not committed:

    schema.binpb    a google.protobuf.FileDescriptorSet without comments; a file comes after those that it imports
    <module>.pyi    a stub for each package in `STUBS`, with the schema's comments as docstrings

And to xlashape/v1/, not committed either, what protoc generates for `xlashape.v1` in protobuf's ordinary pool.
"""

from __future__ import annotations

import keyword
import re
import sys
import tempfile
import textwrap
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    EnumDescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
    FileDescriptorSet,
)

STUBS = {"google.protobuf": "well_known", "xla": "xla", "xlashape.v1": "v1"}
"""Package of the schema → module of `xlashape.proto` that publishes its messages."""

_SCALARS = {
    "int": ("INT32", "INT64", "UINT32", "UINT64", "SINT32", "SINT64", "FIXED32", "FIXED64", "SFIXED32", "SFIXED64"),
    "float": ("DOUBLE", "FLOAT"),
    "bool": ("BOOL",),
    "str": ("STRING",),
    "bytes": ("BYTES",),
}
_PYTHON_OF = {
    FieldDescriptorProto.Type.Value(f"TYPE_{name}"): f"builtins.{python}"
    for python, names in _SCALARS.items()
    for name in names
}

_IMPORTS = {
    "builtins": "import builtins",
    "Iterable": "from collections.abc import Iterable",
    "Mapping": "from collections.abc import Mapping",
    "ClassVar": "from typing import ClassVar",
    "Literal": "from typing import Literal",
    "overload": "from typing import overload",
    "Descriptor": "from google.protobuf.descriptor import Descriptor",
    "containers": "from google.protobuf.internal import containers",
    "well_known_types": "from google.protobuf.internal import well_known_types",
    "EnumTypeWrapper": "from google.protobuf.internal.enum_type_wrapper import EnumTypeWrapper",
    "Message": "from google.protobuf.message import Message",
}

# The protobuf runtime gives message classes of these names further methods, such as Pack and ToDatetime.
_WELL_KNOWN_BASES = {"Any", "Duration", "FieldMask", "ListValue", "Struct", "Timestamp"}


def build(protos: Path, package: Path) -> None:
    """Compiles `protos` and writes what is made of it into `proto` and `v1` of the package's directory."""
    target = package / "proto"
    files = compile_files(protos)
    for name, stub in stubs(files).items():
        _write_if_changed(target / f"{name}.pyi", stub.encode())
    for file in files.file:
        file.ClearField("source_code_info")
    _write_if_changed(target / "schema.binpb", files.SerializeToString(deterministic=True))
    for name, text in generated(protos).items():
        _write_if_changed(package / "v1" / name, text.encode())


# What protoc generates refuses runtimes older than itself. It works with every runtime that the project allows.
_VERSION_CHECKS = (
    re.compile(r"^from google\.protobuf import runtime_version as .*\n", re.MULTILINE),
    re.compile(r"^_runtime_version\.Validate\w+\([^)]*\)\n", re.MULTILINE),
    re.compile(
        r"^GRPC_GENERATED_VERSION = [^)]*?_version_not_supported = False\n.*?^    \)\n", re.MULTILINE | re.DOTALL
    ),
)


def generated(protos: Path) -> dict[str, str]:
    """`types_pb2.py`, … → the text that protoc generates for Python, without its checks of versions."""
    from grpc_tools import protoc

    names = sorted(path.relative_to(protos).as_posix() for path in protos.glob("xlashape/v1/*.proto"))
    with tempfile.TemporaryDirectory() as out:
        outputs = [f"--{kind}_out={out}" for kind in ("python", "pyi", "grpc_python")]
        well_known = Path(protoc.__file__).parent / "_proto"
        if protoc.main(["protoc", f"-I{protos}", f"-I{well_known}", *outputs, *names]) != 0:
            raise RuntimeError(f"protoc refused the schema in {protos}")
        found = {path.name: path.read_text(encoding="utf-8") for path in Path(out).rglob("*.py*")}
    for check in _VERSION_CHECKS:
        found = {name: check.sub("", text) for name, text in found.items()}
    return {name: text for name, text in found.items() if name != "types_pb2_grpc.py"}  # it has no service


def compile_files(protos: Path) -> FileDescriptorSet:
    """The descriptors of every .proto below `protos`, with source information. RuntimeError if protoc refuses one."""
    import grpc_tools
    from grpc_tools import protoc

    names = sorted(path.relative_to(protos).as_posix() for path in protos.rglob("*.proto"))
    well_known = Path(next(iter(grpc_tools.__path__))) / "_proto"
    with tempfile.TemporaryDirectory() as scratch:
        out = Path(scratch) / "schema.binpb"
        arguments = [
            "protoc",
            f"-I{protos}",
            f"-I{well_known}",
            "--include_imports",
            "--include_source_info",
            f"--descriptor_set_out={out}",
        ]
        if protoc.main([*arguments, *names]) != 0:
            raise RuntimeError(f"protoc refused the schema in {protos}")
        return FileDescriptorSet.FromString(out.read_bytes())


def stubs(files: FileDescriptorSet) -> dict[str, str]:
    """Stub module name → its text, for every package of `STUBS`."""
    comments: dict[str, str] = {}
    maps: dict[str, DescriptorProto] = {}
    for file in files.file:
        comments.update(_comments(file))
        for full_name, message in _messages(file.package, file.message_type):
            if message.options.map_entry:
                maps[f".{full_name}"] = message
    texts: dict[str, str] = {}
    for package, name in STUBS.items():
        module = _Module(package, name, comments, maps)
        module.write([file for file in files.file if file.package == package])
        texts[name] = module.text()
    return texts


def _messages(scope: str, messages: Iterable[DescriptorProto]) -> Iterator[tuple[str, DescriptorProto]]:
    for message in messages:
        full_name = f"{scope}.{message.name}"
        yield full_name, message
        yield from _messages(full_name, message.nested_type)


def _comments(file: FileDescriptorProto) -> dict[str, str]:
    """Full name of a message, field, enum or value → the comment above it."""
    found: dict[str, str] = {}
    for location in file.source_code_info.location:
        text = location.leading_comments.strip()
        path = list(location.path)
        if not text or len(path) % 2:
            continue
        # A path is pairs of (number of a repeated field of the descriptor, index in it), from the file inward.
        element: Any = file
        names = [file.package]
        for number, index in zip(path[::2], path[1::2], strict=True):
            element = getattr(element, element.DESCRIPTOR.fields_by_number[number].name)[index]
            names.append(element.name)
        found[".".join(names)] = "\n".join(line.strip() for line in text.splitlines())
    return found


@dataclass
class _Module:
    """One stub: the messages and enums of one package."""

    package: str
    name: str
    comments: dict[str, str]
    maps: dict[str, DescriptorProto]
    lines: list[str] = field(default_factory=list[str])
    imports: set[str] = field(default_factory=set[str])
    published: list[str] = field(default_factory=list[str])

    def write(self, files: list[FileDescriptorProto]) -> None:
        for file in files:
            for enum in file.enum_type:
                self._enum(enum, self.package, 0)
                self.published += [enum.name, *(value.name for value in enum.value)]
        for file in files:
            for message in file.message_type:
                self._message(message, self.package, 0)
                self.published.append(message.name)

    def text(self) -> str:
        body = "\n".join(self.lines)
        code = "\n".join(line for line in self.lines if not line.lstrip().startswith('"""'))
        imports = [statement for name, statement in _IMPORTS.items() if re.search(rf"\b{name}\b", code)]
        siblings = [f"from xlashape.proto import {name} as _{name}" for name in sorted(self.imports)]
        head = [
            f'"""Types of the messages of package {self.package}. Made by the build from protos/; do not edit."""',
            "",
            "# HasField and its kin take the names of this message's fields only, which is less than Message promises.",
            "# pyright: reportIncompatibleMethodOverride=false, reportIncompatibleVariableOverride=false",
            "",
        ]
        published = f"__all__ = {sorted(name for name in self.published if not keyword.iskeyword(name))!r}"
        return "\n".join([*head, *imports, *siblings, "", published, "", body]) + "\n"

    def _put(self, level: int, *lines: str) -> None:
        self.lines += ["    " * level + line for line in lines]

    def _doc(self, full_name: str, level: int) -> None:
        text = self.comments.get(full_name)
        if text:
            text = text.replace("\\", "\\\\").replace('"""', "'''")
            ending = '\n"""' if "\n" in text or text.endswith('"') else '"""'
            self.lines.append(textwrap.indent(f'"""{text}{ending}', "    " * level))

    def _enum(self, enum: EnumDescriptorProto, scope: str, level: int) -> None:
        # At run time an enum is one wrapper object and its values are plain ints, beside it and in it.
        full_name = f"{scope}.{enum.name}"
        values = [value for value in enum.value if not keyword.iskeyword(value.name)]
        self._put(level, f"class _{enum.name}(EnumTypeWrapper):")
        self._doc(full_name, level + 1)
        for value in values:
            self._put(level + 1, f"{value.name}: Literal[{value.number}]")
            self._doc(f"{full_name}.{value.name}", level + 1)
        kind = "ClassVar[{}]" if level else "{}"
        self._put(level, "", f"{enum.name}: {kind.format('_' + enum.name)}")
        self._put(level, *(f"{value.name}: {kind.format(f'Literal[{value.number}]')}" for value in values), "")

    def _message(self, message: DescriptorProto, scope: str, level: int) -> None:
        full_name = f"{scope}.{message.name}"
        if message.options.map_entry:
            return
        bases = "Message"
        if self.package == "google.protobuf" and message.name in _WELL_KNOWN_BASES:
            bases += f", well_known_types.{message.name}"
        self._put(level, f"class {message.name}({bases}):")
        self._doc(full_name, level + 1)
        self._put(level + 1, "DESCRIPTOR: ClassVar[Descriptor]")
        for enum in message.enum_type:
            self._enum(enum, full_name, level + 1)
        for nested in message.nested_type:
            self._message(nested, full_name, level + 1)
        fields = [f for f in message.field if not keyword.iskeyword(f.name)]
        self._put(level + 1, *(f"{f.name.upper()}_FIELD_NUMBER: ClassVar[Literal[{f.number}]]" for f in message.field))
        for f in fields:
            self._field(f, full_name, level + 1)
        parameters = "".join(f", {f.name}: {self._accepted(f)} | None = ..." for f in fields)
        self._put(level + 1, f"def __init__(self{', *' if fields else ''}{parameters}) -> None: ...")
        self._presence(message, level + 1)
        self.lines.append("")

    def _field(self, f: FieldDescriptorProto, scope: str, level: int) -> None:
        full_name = f"{scope}.{f.name}"
        entry = self.maps.get(f.type_name)
        if f.label != FieldDescriptorProto.LABEL_REPEATED and f.type != FieldDescriptorProto.TYPE_MESSAGE:
            self._put(level, f"{f.name}: {self._type(f)}")
            self._doc(full_name, level)
            return
        if entry is not None:
            value = entry.field[1]
            container = "MessageMap" if value.type == FieldDescriptorProto.TYPE_MESSAGE else "ScalarMap"
            held = f"containers.{container}[{self._type(entry.field[0])}, {self._type(value)}]"
        elif f.label == FieldDescriptorProto.LABEL_REPEATED:
            container = "Composite" if f.type == FieldDescriptorProto.TYPE_MESSAGE else "Scalar"
            held = f"containers.Repeated{container}FieldContainer[{self._type(f)}]"
        else:
            held = self._type(f)
        self._put(level, "@builtins.property", f"def {f.name}(self) -> {held}:")
        self._doc(full_name, level + 1)
        self._put(level + 1, "...")

    def _presence(self, message: DescriptorProto, level: int) -> None:
        oneofs: dict[str, list[str]] = {}
        present: list[str] = []
        for f in message.field:
            if f.HasField("oneof_index") and not f.proto3_optional:
                oneofs.setdefault(message.oneof_decl[f.oneof_index].name, []).append(f.name)
            if f.HasField("oneof_index") or (f.label != f.LABEL_REPEATED and f.type == f.TYPE_MESSAGE):
                present.append(f.name)
        every = [f.name for f in message.field]
        if present:
            self._put(level, f"def HasField(self, field_name: {_literal([*present, *oneofs])}) -> builtins.bool: ...")
        if every:
            self._put(level, f"def ClearField(self, field_name: {_literal([*every, *oneofs])}) -> None: ...")
        for name, members in oneofs.items():
            if len(oneofs) > 1:
                self._put(level, "@overload")
            self._put(
                level, f"def WhichOneof(self, oneof_group: {_literal([name])}) -> {_literal(members)} | None: ..."
            )

    def _accepted(self, f: FieldDescriptorProto) -> str:
        """The type of the constructor's argument for a field, without None."""
        entry = self.maps.get(f.type_name)
        if entry is not None:
            return f"Mapping[{self._type(entry.field[0])}, {self._one(entry.field[1])}]"
        return f"Iterable[{self._one(f)}]" if f.label == f.LABEL_REPEATED else self._one(f)

    def _one(self, f: FieldDescriptorProto) -> str:
        if f.type == f.TYPE_ENUM:
            return "builtins.int | builtins.str"
        if f.type == f.TYPE_MESSAGE:
            return f"{self._type(f)} | Mapping[builtins.str, object]"
        return self._type(f)

    def _type(self, f: FieldDescriptorProto) -> str:
        """The type of one value of the field as the message holds it."""
        if f.type == f.TYPE_ENUM:
            return "builtins.int"
        if f.type != f.TYPE_MESSAGE:
            return _PYTHON_OF[f.type]
        full_name = f.type_name[1:]
        home = max((package for package in STUBS if full_name.startswith(f"{package}.")), key=len, default=None)
        if home is None:
            return "Message"
        local = full_name[len(home) + 1 :]
        if home == self.package:
            return local
        self.imports.add(STUBS[home])
        return f"_{STUBS[home]}.{local}"


def _literal(names: list[str]) -> str:
    return f"Literal[{', '.join(repr(name) for name in names)}]"


def _write_if_changed(path: Path, content: bytes) -> None:
    if not path.exists() or path.read_bytes() != content:
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content)


if __name__ == "__main__":
    here = Path(__file__).resolve().parent
    try:
        build(here, here.parent / "xlashape")
    except RuntimeError as error:
        sys.exit(str(error))
