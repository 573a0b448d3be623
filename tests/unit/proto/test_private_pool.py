"""Two packages that both have `xla/xla_data.proto` live in one process, whichever is imported first."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

STAND_IN = """
# What the generated module of another package does when it is imported: its own xla/xla_data.proto, older and with
# a field of its own, goes into protobuf's default pool.
from google.protobuf import any_pb2, descriptor_pb2, descriptor_pool, message_factory, timestamp_pb2

def register():
    file = descriptor_pb2.FileDescriptorProto(name="xla/xla_data.proto", package="xla", syntax="proto3")
    shape = file.message_type.add(name="ShapeProto")
    shape.field.add(name="dimensions", number=3, label=3, type=3)
    shape.field.add(name="mine", number=4000, label=1, type=9)
    descriptor_pool.Default().AddSerializedFile(file.SerializeToString())
    return message_factory.GetMessageClass(descriptor_pool.Default().FindMessageTypeByName("xla.ShapeProto"))
"""

CHECK = """
import copy, pickle
from google.protobuf import json_format, text_format
assert theirs is not xla.ShapeProto
assert [f.name for f in theirs.DESCRIPTOR.fields] == ["dimensions", "mine"]
assert len(xla.ShapeProto.DESCRIPTOR.fields) == 5
message = xla.ShapeProto(element_type=xla.F32, dimensions=[3, 5])
for other in (pickle.loads(pickle.dumps(message)), copy.deepcopy(message), copy.copy(message),
              json_format.Parse(json_format.MessageToJson(message), xla.ShapeProto()),
              text_format.Parse(text_format.MessageToString(message), xla.ShapeProto())):
    assert other == message and type(other) is xla.ShapeProto
foreign = theirs(dimensions=[2, 7], mine="kept")
ours = coerce(xla.ShapeProto, foreign)
assert type(ours) is xla.ShapeProto and list(ours.dimensions) == [2, 7]
assert theirs.FromString(ours.SerializeToString()) == foreign
assert type(coerce(xla.ShapeProto, message)) is xla.ShapeProto
stamp = timestamp_pb2.Timestamp(seconds=1)
assert well_known.Timestamp.FromString(stamp.SerializeToString()).seconds == 1
assert any_pb2.Any is not well_known.Any
print("both")
"""

OURS = "from xlashape.proto import coerce, well_known, xla\n"
THEIRS = f"{STAND_IN}\ntheirs = register()\n"


@pytest.mark.parametrize("script", [OURS + THEIRS + CHECK, THEIRS + OURS + CHECK], ids=["ours first", "theirs first"])
@pytest.mark.parametrize("implementation", ["upb", "python"])
def test_both_orders(script: str, implementation: str) -> None:
    environment = os.environ | {"PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION": implementation}
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=environment, check=False)
    assert done.stdout == "both\n", done.stderr


def test_importing_the_library_loads_neither_protobuf_nor_numpy_nor_grpc() -> None:
    script = "import sys, xlashape; print([name for name in ('google.protobuf', 'numpy', 'grpc', 'click') if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


@pytest.mark.parametrize("version", ["3.20.3", "4.22.5", "4.23.4", "4.24.0rc1", "4.25.8", "5.29.1", "7.36.2"])
def test_an_old_protobuf_is_refused_with_a_sentence(version: str) -> None:
    script = (
        f"import google.protobuf\ngoogle.protobuf.__version__ = {version!r}\nimport xlashape\n"
        "try:\n    from xlashape.proto import xla\nexcept xlashape.XlashapeError as error:\n    print(error.code, "
        "error)\n"
        "else:\n    print('made')"
    )
    said = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False).stdout
    refusal = f"unavailable xlashape needs protobuf 4.25.8 or newer, and {version} is installed: pip install 'protobuf>=4.25.8'"
    assert said == ("made\n" if version in ("4.25.8", "5.29.1", "7.36.2") else f"{refusal}\n")
