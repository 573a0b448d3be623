"""The graph of every program of the vectors, and of whole models where they are at hand, has few boxes at any
moment."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from optional import SHARED

import xlashape as xs
from xlashape.errors import XlashapeError
from xlashape.hlo.files.inputs import inputs
from xlashape.proto import v1
from xlashape_server.commands.page_file import Local

ROOT = Path(__file__).resolve().parents[2]
MODELS = SHARED / "hlo" / "models"


def _programs() -> list[Path]:
    folders = [ROOT / "tests" / "vectors" / name for name in ("hlo", "memory", "collectives", "costs")]
    found = [Path(each.name) for folder in folders for each in inputs([str(folder)], "all")]
    return [*found, *sorted(MODELS.glob("*.hlo"))]


@pytest.mark.usefixtures("packages")
def test_every_program_has_few_boxes_whatever_is_opened(tmp_path: Path) -> None:
    local = Local(600.0)
    for number, path in enumerate(_programs()):
        try:
            module = xs.HloModule.load(path)
        except XlashapeError:
            continue
        name = local.upload_module(module).name
        answer = local.send("Graph", v1.GraphRequest(module=v1.ModuleInput(name=name)).SerializeToString(), None)
        (tmp_path / f"{number}-{path.name}").write_bytes(answer)
    assert len(list(tmp_path.iterdir())) > 40
    made = subprocess.run(
        ["npm", "test", "--silent"], cwd=ROOT / "server" / "page", env={**os.environ, "XLASHAPE_GRAPHS": str(tmp_path)},
        capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    assert made.returncode == 0, made.stdout[-4000:] + made.stderr
