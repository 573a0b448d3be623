"""`HloModule.save`: every format that `load` reads, files replaced as a whole, losses refused."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import BinaryIO

import pytest

from xlashape.base.whole_file import replace_file
from xlashape.errors import InvalidArgumentError, LossyConversionError
from xlashape.hlo import HloModule

TEXT = """HloModule m
ENTRY e {
  p = f32[16] parameter(0)
  c = f32[16] constant({0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15})
  ROOT a = f32[16] add(p, c), metadata={op_name="jit(f)/add"}
}
"""
SUFFIXES = [f"{suffix}{end}" for suffix in (".hlo", ".txt", ".pb", ".hlo.pb", ".pbtxt", ".json") for end in ("", ".gz")]


def _names(directory: Path) -> list[str]:
    return [path.name for path in directory.iterdir()]


@pytest.mark.parametrize("suffix", [*SUFFIXES, ".HLO.PB"])
def test_what_is_saved_is_loaded(tmp_path: Path, suffix: str):
    module = HloModule.parse(TEXT)
    for path in (tmp_path / f"m{suffix}", str(tmp_path / f"m{suffix}")):
        module.save(path)
        loaded = HloModule.load(path)
        assert loaded.to_text(print_large_constants=True) == module.to_text(print_large_constants=True)
        assert loaded.to_proto() == module.to_proto()
    assert _names(tmp_path) == [f"m{suffix}"]


def test_options():
    module = HloModule.parse(TEXT)
    path = Path("unused")
    with pytest.raises(
        InvalidArgumentError, match=r"'unused' names no format: there are \.hlo, \.txt, \.pb, \.hlo\.pb"
    ):
        module.save(path)
    assert not path.exists()


def test_options_of_the_text(tmp_path: Path):
    HloModule.parse(TEXT).save(tmp_path / "m.txt", style="short_parsable")
    text = (tmp_path / "m.txt").read_text()
    assert "a = f32[16]{0} add(p, c)\n" in text and "op_name" not in text and "14, 15" in text
    HloModule.parse(TEXT).save(tmp_path / "m.txt", print_large_constants=False)
    assert "constant({...})" in (tmp_path / "m.txt").read_text()


def test_losses_are_refused(tmp_path: Path):
    module = HloModule.parse(TEXT.replace("HloModule m", "HloModule m, replica_count=2"))
    with pytest.raises(LossyConversionError, match="replica_count would be lost"):
        module.save(tmp_path / "m.pb")
    assert _names(tmp_path) == []
    module.save(tmp_path / "m.pb", lossy=True)
    module.save(tmp_path / "m.hlo")
    assert HloModule.load(tmp_path / "m.hlo").config == module.config


def test_a_buffer_assignment_is_kept(tmp_path: Path):
    from xlashape.proto import xla

    hlo_proto = xla.HloProto(hlo_module=HloModule.parse(TEXT).to_proto())
    hlo_proto.buffer_assignment.buffer_allocations.add(index=0, size=64)
    module = HloModule.of(hlo_proto.SerializeToString())
    module.save(tmp_path / "m.hlo.pb")
    assert HloModule.load(tmp_path / "m.hlo.pb").hlo_proto == hlo_proto
    with pytest.raises(LossyConversionError, match="the buffer assignment would be lost"):
        module.save(tmp_path / "m.pb")


def test_small_ids_for_an_older_xla(tmp_path: Path):
    text = "f { ROOT a = f32[] parameter(0) } ENTRY e { p = f32[2] parameter(0) ROOT m = f32[2] map(p), dimensions={0}, to_apply=f }"
    HloModule.parse(text).save(tmp_path / "m.hlo.pb", for_version="0.4.35")
    assert max(instruction.id for instruction in HloModule.load(tmp_path / "m.hlo.pb").instructions()) < 2**31


def test_a_failure_leaves_the_old_file(tmp_path: Path):
    path = tmp_path / "m.hlo"
    path.write_text("old")

    def fail(stream: object) -> None:
        stream.write(b"new")
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space"):
        replace_file(path, fail)
    assert path.read_text() == "old" and _names(tmp_path) == ["m.hlo"]
    with pytest.raises(InvalidArgumentError, match=r"cannot write '.*none/m\.hlo': No such file or directory"):
        HloModule.parse(TEXT).save(tmp_path / "none" / "m.hlo")
    with pytest.raises(InvalidArgumentError, match="cannot write"):
        HloModule.parse(TEXT).save("m\0.hlo")


def test_links_and_modes_are_kept(tmp_path: Path):
    target, link = tmp_path / "real.hlo", tmp_path / "link.hlo"
    target.write_text("old")
    target.chmod(0o640)
    link.symlink_to(target)
    HloModule.parse(TEXT).save(link)
    assert link.is_symlink() and stat.S_IMODE(target.stat().st_mode) == 0o640 and target.read_text() != "old"
    mask = os.umask(0o027)
    try:
        HloModule.parse(TEXT).save(tmp_path / "new.hlo")
    finally:
        os.umask(mask)
    assert stat.S_IMODE((tmp_path / "new.hlo").stat().st_mode) == 0o640


def test_the_umask_of_the_process_is_not_touched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    # It belongs to all threads: another one that makes a file meanwhile would make it with the wrong mode.
    def refuse(_: int) -> int:
        raise AssertionError("umask")

    monkeypatch.setattr(os, "umask", refuse)
    HloModule.parse(TEXT).save(tmp_path / "new.hlo")
    assert (tmp_path / "new.hlo").exists()


def test_what_replaces_a_private_file_is_private_while_it_is_written(tmp_path: Path):
    target = tmp_path / "real"
    target.write_text("old")
    target.chmod(0o600)
    modes: list[int] = []

    def write(stream: BinaryIO) -> None:
        modes.append(stat.S_IMODE(os.fstat(stream.fileno()).st_mode))

    replace_file(target, write)
    assert modes == [0o600] and stat.S_IMODE(target.stat().st_mode) == 0o600


def test_a_device_is_written_to():
    replace_file("/dev/null", lambda stream: stream.write(b"x"))
    assert Path("/dev/null").is_char_device()
