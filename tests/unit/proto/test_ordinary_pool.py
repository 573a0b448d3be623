"""`xlashape.v1`: the messages of the service in protobuf's ordinary pool."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from optional import needed_in_ci

PROTOS = Path(__file__).resolve().parents[3] / "protos"


def test_programs_with_stubs_of_their_own_work_beside_the_package(tmp_path: Path) -> None:
    """protoc's own modules of the same schema can be in the process, and bytes go both ways."""
    needed_in_ci("grpc_tools")
    from grpc_tools import protoc

    names = [path.relative_to(PROTOS).as_posix() for path in PROTOS.glob("xlashape/v1/*.proto")]
    assert (
        protoc.main(
            [
                "protoc",
                f"-I{PROTOS}",
                f"-I{Path(protoc.__file__).parent / '_proto'}",
                f"--python_out={tmp_path}",
                *names,
            ]
        )
        == 0
    )
    program = f"""
from importlib.util import module_from_spec, spec_from_file_location
import xlashape as xs
from xlashape.proto import v1
from xlashape.v1 import report_service_pb2, shape_service_pb2_grpc, types_pb2
spec = spec_from_file_location("mine", {str(tmp_path / "xlashape/v1/types_pb2.py")!r})
mine = module_from_spec(spec)
spec.loader.exec_module(mine)
for kind in (mine, types_pb2):
    asked = kind.ShapeInput(text="f32[2]").SerializeToString()
    assert v1.ShapeInput.FromString(asked).text == "f32[2]"
assert report_service_pb2.CostRequest(target="TARGET_H100").target == v1.TARGET_H100
assert shape_service_pb2_grpc.ShapeServiceStub and xs.Shape.parse("f32[2]").to_proto()
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
