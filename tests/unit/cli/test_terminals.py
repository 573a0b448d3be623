"""No command prints what controls a terminal, whatever names a module and its file have."""

import json
from pathlib import Path

import command_line
import pytest

HOSTILE = "\x1b]0;t\x07\u202e\x9b"
HOSTILE_MODULE = (
    'HloModule m\n\nENTRY e {\n  p = f32[64,8]{1,0} parameter(0), metadata={op_name="%s" source_file="%s.py" source_line=3}\n'
    '  ROOT c = f32[64,8]{0,1} copy(p), metadata={op_name="%s"}\n}\n'
) % ((HOSTILE,) * 3)


@pytest.mark.parametrize(
    "command", ["copies", "cost", "diff", "fingerprint", "memory", "reads", "size", "verify", "why"]
)
@pytest.mark.parametrize("form", ["", "--json"])
def test_no_command_prints_what_controls_a_terminal(tmp_path: Path, command: str, form: str) -> None:
    files = [tmp_path / f"{name}{HOSTILE}.hlo" for name in "ab"]
    files[0].write_text(HOSTILE_MODULE, encoding="utf-8")
    files[1].write_text(HOSTILE_MODULE.replace("f32", "bf16"), encoding="utf-8")
    chosen = files if command in ("diff", "fingerprint") else files[:1]
    found = command_line.run(command, *map(str, chosen), *filter(None, [form]))
    assert found.stdout
    for text in (found.stdout.decode(), found.stderr.decode()):
        assert all(each.isprintable() or each == "\n" for each in text)
    if form:
        json.loads(found.stdout)
