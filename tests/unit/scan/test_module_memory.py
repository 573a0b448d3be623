"""What a large module takes while it is read and its rows are made."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

_CHILD = """
import json, sys
from xlashape.scan.datasets import rows_of_file

def most():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmHWM"))

def text(count):
    yield "HloModule big, is_scheduled=true ENTRY main { p.0 = f32[128,256] parameter(0) p.1 = f32[128,256] parameter(1)"
    for i in range(2, count):
        yield f'p.{i} = f32[128,256] add(p.{i - 1}, p.{i - 2}), metadata={{op_name="jit(step)/layer_{i // 500}/add" source_line={i // 100}}}'
    yield f"ROOT r = f32[128,256] negate(p.{count - 1}) }}"

found = []
for count in (10_000, 30_000):
    content = "\\n".join(text(count)).encode()
    for _ in rows_of_file("large.hlo", content, ["computations", "instructions", "accesses"]):
        pass
    found.append(most())
print(json.dumps(found))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="asks Linux for the most memory that a process has had")
def test_rows_of_a_large_module_are_made_in_bounded_memory() -> None:
    child = subprocess.run([sys.executable, "-c", _CHILD], capture_output=True, text=True, check=True)
    small, large = json.loads(child.stdout)
    # 1,700 bytes an instruction; the message of the schema alone would be 1,400 more, the rows of accesses as much
    # again.
    assert large - small < 2_300 * 20_000
