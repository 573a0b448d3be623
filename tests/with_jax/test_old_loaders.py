"""Protos written for an older XLA, loaded by the jaxlib that is installed: runs beside any version from 0.4.30 on, and
is skipped without one."""

from __future__ import annotations

from pathlib import Path

import pytest

import xlashape as xs

jaxlib = pytest.importorskip("jaxlib", reason="jaxlib is not installed")
pytest.importorskip("jaxlib.xla_client", reason="this jaxlib has no xla_client")

TEXTS = sorted((Path(__file__).parents[1] / "vectors" / "hlo").glob("*.after.hlo"))


def _loads(data: bytes) -> bool:
    from jaxlib import xla_client

    try:
        return bool(xla_client.XlaComputation(data).as_hlo_text())
    except Exception:  # each version raises a class of its own
        return False


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: path.name)
def test_ids_fit_the_loader(path: Path):
    module = xs.HloModule.parse(path.read_text())
    assert _loads(module.to_proto(for_version="0.4.30").SerializeToString())
    version = tuple(int(part) for part in jaxlib.__version__.split(".")[:3])
    if version < (0, 4, 36):  # refuses ids beyond 32 bits, which text of several computations gets by default
        assert not _loads(module.to_proto().SerializeToString())
    else:
        assert _loads(module.to_proto().SerializeToString())
