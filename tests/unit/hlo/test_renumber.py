"""Ids for an older XLA. That jaxlib 0.4.35 loads the result was not tried here; 0.10.2 and 0.12.0.1 load it and print
the same text."""

from __future__ import annotations

from pathlib import Path

import pytest

from xlashape.errors import InvalidArgumentError
from xlashape.hlo import HloModule, convert
from xlashape.proto import xla

TEXT = """HloModule m, is_scheduled=true, entry_computation_layout={(f32[4]{0})->f32[4]{0}}

%f (x: f32[4]) -> f32[4] {
  %x = f32[4]{0} parameter(0)
  ROOT %n = f32[4]{0} negate(%x)
}

ENTRY %e (p: f32[4]) -> f32[4] {
  %p = f32[4]{0} parameter(0)
  %c = f32[4]{0} copy(%p)
  ROOT %r = f32[4]{0} call(%c), to_apply=%f, control-predecessors={%p}
}

"""


def ids(module: xla.HloModuleProto) -> list[int]:
    return [
        ident
        for computation in module.computations
        for ident in (computation.id, computation.root_id, *[one.id for one in computation.instructions])
    ]


@pytest.mark.parametrize("version", ["0.4.30", "0.4.35", "0.5"])
def test_small_ids_that_mean_the_same(version):
    module = HloModule.parse(TEXT)
    assert max(ids(module.proto)) >> 32
    proto = module.to_proto(for_version=version)
    assert max(ids(proto)) < 8
    own = [computation.id for computation in proto.computations]
    own += [one.id for computation in proto.computations for one in computation.instructions]
    assert len(set(own)) == len(own)
    assert HloModule.from_proto(proto).to_text() == module.to_text() == TEXT
    assert sorted(proto.schedule.sequences) == [computation.id for computation in proto.computations]


def test_newer_versions_and_no_version_change_nothing():
    module = HloModule.parse(TEXT)
    assert module.to_proto(for_version="0.12.0.1") == module.to_proto() == module.proto


def test_what_is_no_version():
    with pytest.raises(InvalidArgumentError, match="not a version"):
        HloModule.parse(TEXT).to_proto(for_version="newest")


def test_buffers_name_the_instruction_that_defines_them():
    module = HloModule.parse(TEXT).proto
    whole = xla.HloProto(hlo_module=module)
    last = module.computations[1].instructions[-1]
    whole.buffer_assignment.logical_buffers.add(defined_at={"instruction_id": last.id})
    data = convert.encode(HloModule.from_proto(whole), "hlo.pb", for_version="0.4.35")
    again = HloModule.from_bytes(data).hlo_proto
    assert again is not None
    instruction = again.hlo_module.computations[1].instructions[-1]
    assert again.buffer_assignment.logical_buffers[0].defined_at.instruction_id == instruction.id < 8


def test_the_command_line(tmp_path: Path):
    from click.testing import CliRunner

    from xlashape.cli import main

    source, target = tmp_path / "m.hlo", tmp_path / "m.pb"
    source.write_text(TEXT)
    arguments = ["convert", str(source), str(target), "--for-version", "0.4.35"]
    assert CliRunner().invoke(main, arguments, standalone_mode=False).exception is None
    assert max(ids(HloModule.load(target).proto)) < 8
