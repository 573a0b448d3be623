"""What a command loads: the library alone, and of it little. What needs the server is found by entry points."""

from __future__ import annotations

import subprocess
import sys

import pytest

SCRIPT = """
import sys
from xlashape.__main__ import main
sys.argv = ["xlashape", *sys.argv[1:]]
try:
    main()
finally:
    print(*sorted({name for name in sys.modules}), file=sys.stderr)
"""


def loaded(*arguments: str) -> set[str]:
    """The modules that a command has loaded when it ends."""
    done = subprocess.run([sys.executable, "-c", SCRIPT, *arguments], capture_output=True, text=True, check=True)
    return set(done.stderr.split())


@pytest.mark.parametrize(
    "arguments",
    [
        ("index", "f32[3,5]{1,0:T(2,2)}", "2,3"),
        ("index", "f32[3,5]{1,0:T(2,2)}", "17", "--inverse"),
        ("shape", "f32[3,5]{1,0:T(2,2)}"),
        ("size", "f32[3,5]{1,0:T(2,2)}"),
        ("why", "f32[3,5]{1,0:T(2,2)}"),
    ],
    ids=" ".join,
)
def test_a_question_about_a_shape_loads_little(arguments: tuple[str, ...]) -> None:
    found = loaded(*arguments)
    heavy = {"numpy", "grpc", "google.protobuf", "xlashape.hlo.module", "xlashape.symbolic", "multiprocessing"}
    assert not found & {*heavy, "importlib.metadata"}
    assert not [name for name in found if name.startswith(("xlashape_server", "xlashape_client"))]


def test_a_list_of_commands_loads_none_of_them() -> None:
    found = loaded("--help")
    assert {name for name in found if name.startswith("xlashape.cli.")} <= {
        "xlashape.cli.commands",
        "xlashape.cli.output",
    }
    assert not [name for name in found if name.startswith(("xlashape_server", "xlashape_client", "grpc"))]


def test_a_command_beside_the_server_is_found() -> None:
    assert "xlashape_server.commands.serving" in loaded("serve", "--help")
