"""What a large module takes while it is read and its rows are made: its instructions are not kept decoded."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.corpus import text_of
from xlashape import HloModule
from xlashape.scan import datasets

_CHILD = """
import json, sys
from xlashape.scan import datasets
from xlashape.scan.datasets import rows_of_file

datasets._MOST_DECODED = 1 << 20

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
    # A decoded instruction alone takes 1,400 bytes, and the rows of accesses took as much again.
    assert large - small < 1_700 * 20_000


@pytest.mark.parametrize("form", ["hlo", "pb", "hlo.pb", "json", "pbtxt.gz"])
def test_rows_do_not_depend_on_whether_a_module_is_decoded(
    form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / f"m.{form}"
    module = HloModule.parse(text_of(3))
    module.save(path)
    names = [name for name in datasets.DATASETS if name != "errors"]
    decoded = [(name, list(table)) for name, table in datasets.rows_of_file(str(path), path.read_bytes(), names)]
    monkeypatch.setattr(datasets, "_MOST_DECODED", 10)
    undecoded = [(name, list(table)) for name, table in datasets.rows_of_file(str(path), path.read_bytes(), names)]
    assert {name for name, _ in decoded} == set(names)
    assert undecoded == decoded


def test_broken_bytes_of_a_large_module_are_the_same_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    data = HloModule.parse(text_of(3)).to_bytes()
    contents = [data[:cut] + middle for cut in range(1, len(data), 7) for middle in (b"", b"\xff" + data[cut + 1 :])]

    def rows() -> list[Any]:
        names = ["instructions", "errors"]
        return [[(name, list(each)) for name, each in datasets.rows_of_file("m.pb", data, names)] for data in contents]

    decoded = rows()
    monkeypatch.setattr(datasets, "_MOST_DECODED", 10)
    assert rows() == decoded
