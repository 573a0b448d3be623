"""`xlashape.v1`: the messages of the service in protobuf's ordinary pool."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from optional import needed_in_ci

PROTOS = Path(__file__).resolve().parents[3] / "protos"


def _by_protoc(out: Path) -> None:
    from grpc_tools import protoc

    names = [path.relative_to(PROTOS).as_posix() for path in PROTOS.glob("xlashape/v1/*.proto")]
    folders = [f"-I{PROTOS}", f"-I{Path(protoc.__file__).parent / '_proto'}"]
    assert protoc.main(["protoc", *folders, f"--python_out={out}", *names]) == 0


def _by_buf(out: Path) -> None:
    if shutil.which("buf") is None:
        pytest.skip("buf is not installed; `.ci/schema-tools DIRECTORY` installs it")
    plugin = {"protoc_builtin": "python", "protoc_path": [sys.executable, "-m", "grpc_tools.protoc"], "out": str(out)}
    template = {"version": "v2", "inputs": [{"directory": str(PROTOS), "paths": [str(PROTOS / "xlashape")]}]}
    command = ["buf", "generate", "--template", json.dumps(template | {"plugins": [plugin]})]
    done = subprocess.run(command, cwd=out, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("make", [_by_protoc, _by_buf])
def test_programs_with_stubs_of_their_own_work_beside_the_package(make: Callable[[Path], None], tmp_path: Path) -> None:
    """What protoc or buf has made of the same schema can be on the path before the package, and bytes go both ways."""
    needed_in_ci("grpc_tools")
    make(tmp_path)
    assert (tmp_path / "xlashape" / "v1" / "types_pb2.py").exists()
    _run(f"""
import sys
sys.path.insert(0, {str(tmp_path)!r})
import xlashape as xs
from xlashape.proto import v1
from xlashape.v1 import report_service_pb2, shape_service_pb2_grpc, types_pb2
asked = types_pb2.ShapeInput(text="f32[2]").SerializeToString()
assert v1.ShapeInput.FromString(asked).text == "f32[2]"
assert report_service_pb2.CostRequest(target="TARGET_H100").target == v1.TARGET_H100
assert shape_service_pb2_grpc.ShapeServiceStub and xs.Shape.parse("f32[2]").to_proto()
""")


def test_modules_of_protoc_can_have_another_name(tmp_path: Path) -> None:
    """Those of buf cannot: its descriptors have the names of JSON too, and a pool refuses two files of one name that
    differ."""
    needed_in_ci("grpc_tools")
    _by_protoc(tmp_path)
    _run(f"""
from importlib.util import module_from_spec, spec_from_file_location
from xlashape.v1 import types_pb2
spec = spec_from_file_location("mine", {str(tmp_path / "xlashape/v1/types_pb2.py")!r})
mine = module_from_spec(spec)
spec.loader.exec_module(mine)
assert types_pb2.ShapeInput.FromString(mine.ShapeInput(text="f32[2]").SerializeToString()).text == "f32[2]"
""")


def _run(program: str) -> None:
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
