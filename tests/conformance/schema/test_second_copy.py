"""A program with another copy of XLA's schema beside our generated code starts and runs in Go and in C++, which abort a
program with two copies of a file. A program in Go with stubs of its own, made of our schema by protoc or by buf, asks a
server.

The copy is that of protos/xla, generated as XLA's own build would: with the package `xla` and its files' own paths.
Each program writes a shape with XLA's message, reads the bytes with ours, and the reverse.

Run only in CI, with the tools that are installed, since the tests must need only Python.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from xlashape.shape import Shape

ROOT = Path(__file__).resolve().parents[3]
XLA = ("xla/xla_data.proto", "xla/service/hlo.proto", "xla/service/metrics.proto")
OURS = ("types", "shape_service", "hlo_service", "indexing_service", "report_service", "view_service")
TEXT = "bf16[<=20,300]{0,1:T(8,128)(2,1)S(1)}"
DATA = Shape.parse(TEXT).to_proto().SerializeToString(deterministic=True)

pytestmark = pytest.mark.skipif(
    os.environ.get("CI") != "true", reason="builds programs in Go and C++; run with CI=true"
)

GO = """
package main

import (
	"bytes"
	"fmt"
	"os"

	"example.com/two/xla"
	_ "example.com/two/xla/service"
	v1 "github.com/xlashape/xlashape/clients/go/xlashapev1"
	"google.golang.org/protobuf/proto"
)

func must(err error) {
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}

func main() {
	data, err := os.ReadFile("shape.binpb")
	must(err)
	var ours v1.Shape
	must(proto.Unmarshal(data, &ours))
	var theirs xla.ShapeProto
	must(proto.Unmarshal(data, &theirs))
	fromOurs, err := proto.Marshal(&ours)
	must(err)
	fromTheirs, err := proto.Marshal(&theirs)
	must(err)
	if !bytes.Equal(fromOurs, data) || !bytes.Equal(fromTheirs, data) {
		fmt.Println("the bytes differ")
		os.Exit(1)
	}
	fmt.Println(ours.GetElementType(), theirs.GetElementType(), ours.GetDimensions(), theirs.GetLayout().GetTiles()[0].GetDimensions())
}
"""

CPP = """
#include <fstream>
#include <iostream>
#include <iterator>
#include <string>

#include "xla/service/hlo.pb.h"
#include "xla/xla_data.pb.h"
#include "xlashape/v1/hlo_service.pb.h"
#include "xlashape/v1/indexing_service.pb.h"
#include "xlashape/v1/report_service.pb.h"
#include "xlashape/v1/shape_service.pb.h"
#include "xlashape/v1/view_service.pb.h"

int main() {
  std::ifstream file("shape.binpb", std::ios::binary);
  const std::string data((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  xlashape::v1::ShapeInput ours;
  xla::HloModuleProto module;
  xla::ShapeProto theirs;
  if (!ours.mutable_shape()->ParseFromString(data) || !theirs.ParseFromString(data)) return 1;
  if (ours.shape().SerializeAsString() != data || theirs.SerializeAsString() != data) return 2;
  std::cout << xlashape::v1::ElementType_Name(ours.shape().element_type()) << " " << xla::PrimitiveType_Name(theirs.element_type()) << " "
            << ours.shape().dimensions(1) << " " << theirs.layout().tiles(0).dimensions(1) << std::endl;
}
"""


ASKING = """
package main

import (
	"context"
	"fmt"
	"os"

	v1 "example.com/two/xlashape/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

func main() {
	connection, err := grpc.NewClient(os.Args[1], grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		panic(err)
	}
	shape := &v1.ShapeInput{Form: &v1.ShapeInput_Text{Text: "f32[3,5]{1,0:T(2,2)}"}}
	answer, err := v1.NewShapeServiceClient(connection).ByteSize(context.Background(), &v1.ByteSizeRequest{Shapes: []*v1.ShapeInput{shape}})
	if err != nil {
		panic(err)
	}
	fmt.Println(answer.GetSizes()[0].GetPhysicalBytes())
}
"""


def need(*programs: str) -> None:
    missing = [name for name in programs if shutil.which(name) is None]
    if missing:
        pytest.skip(f"{', '.join(missing)}: not installed")


def done(folder: Path, *command: str) -> str:
    ended = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=600)
    assert ended.returncode == 0, f"{' '.join(command)}\n{ended.stdout}\n{ended.stderr}"
    return ended.stdout


def compiled(folder: Path, protoc: str, *options: str, files: tuple[str, ...]) -> None:
    done(folder, *protoc.split(), f"-I{ROOT / 'protos'}", *options, *files)


def test_in_go(tmp_path: Path) -> None:
    need("go", "protoc-gen-go")
    packages = [f"--go_opt=M{name}=example.com/two/{Path(name).parent}" for name in XLA]
    protoc = f"{sys.executable} -m grpc_tools.protoc"
    compiled(tmp_path, protoc, "--go_out=.", "--go_opt=module=example.com/two", *packages, files=XLA)
    client = ROOT / "clients" / "go"
    lines = (client / "go.mod").read_text().splitlines()
    lines[0] = "module example.com/two"
    lines += ["require github.com/xlashape/xlashape/clients/go v0.0.0"]
    lines += [f"replace github.com/xlashape/xlashape/clients/go => {client}"]
    (tmp_path / "go.mod").write_text("\n".join(lines) + "\n")
    shutil.copy(client / "go.sum", tmp_path / "go.sum")
    (tmp_path / "main.go").write_text(GO)
    (tmp_path / "shape.binpb").write_bytes(DATA)
    done(tmp_path, "go", "build", "-mod=mod", "-o", "two", ".")
    assert done(tmp_path, "./two") == "ELEMENT_TYPE_BF16 BF16 [20 300] [8 128]\n"


@pytest.mark.parametrize("maker", ["protoc", "buf"])
def test_stubs_of_ones_own_in_go(maker: str, tmp_path: Path) -> None:
    from xlashape_server import Config, Server

    need("go", "protoc-gen-go", "protoc-gen-go-grpc", *([maker] if maker == "buf" else []))
    files = tuple(f"xlashape/v1/{name}.proto" for name in OURS)
    options = ["module=example.com/two", *(f"M{name}=example.com/two/xlashape/v1" for name in files)]
    if maker == "protoc":
        flags = [f"--{plugin}_opt={option}" for plugin in ("go", "go-grpc") for option in options]
        protoc = f"{sys.executable} -m grpc_tools.protoc"
        compiled(tmp_path, protoc, "--go_out=.", "--go-grpc_out=.", *flags, files=files)
    else:
        plugins = [{"local": f"protoc-gen-{name}", "out": ".", "opt": options} for name in ("go", "go-grpc")]
        inputs = [{"directory": str(ROOT / "protos"), "paths": [str(ROOT / "protos" / "xlashape")]}]
        done(
            tmp_path,
            "buf",
            "generate",
            "--template",
            json.dumps({"version": "v2", "inputs": inputs, "plugins": plugins}),
        )
    client = ROOT / "clients" / "go"
    lines = (client / "go.mod").read_text().splitlines()
    (tmp_path / "go.mod").write_text("\n".join(["module example.com/two", *lines[1:]]) + "\n")
    shutil.copy(client / "go.sum", tmp_path / "go.sum")
    (tmp_path / "main.go").write_text(ASKING)
    done(tmp_path, "go", "build", "-mod=mod", "-o", "two", ".")
    with Server(Config(address="127.0.0.1:0", workers=1, log_level="error")) as server:
        assert done(tmp_path, "./two", server.address) == "96\n"


def test_in_cpp(tmp_path: Path) -> None:
    need("protoc", "g++", "pkg-config")
    files = (*XLA, *(f"xlashape/v1/{name}.proto" for name in OURS))
    compiled(tmp_path, "protoc", "--cpp_out=.", files=files)
    (tmp_path / "main.cc").write_text(CPP)
    (tmp_path / "shape.binpb").write_bytes(DATA)
    flags = done(tmp_path, "pkg-config", "--cflags", "--libs", "protobuf").split()
    sources = [str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*.cc")]
    done(tmp_path, "g++", "-std=c++17", "-O0", "-I.", *sources, *flags, "-o", "two")
    assert done(tmp_path, "./two") == "ELEMENT_TYPE_BF16 BF16 300 128\n"
