"""Edits keep references right: whatever is done, the module still verifies and prints, and the module that was copied
is untouched."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.edited_modules import check_consistent
from xlashape.errors import InvalidShapeError, XlashapeError
from xlashape.hlo import HloModule
from xlashape.hlo.literal import to_numpy
from xlashape.hlo.verifier import verify
from xlashape.proto import xla

TEXT = """HloModule m, is_scheduled=true, input_output_alias={ {}: (0, {}, may-alias) }

inner { q = f32[2,3] parameter(0)  ROOT iq = f32[2,3] negate(q) }
outer { s = f32[2,3] parameter(0)  ROOT os = f32[2,3] call(s), to_apply=inner }

ENTRY e {
  p = f32[2,3] parameter(0)
  k = f32[2,3] constant({{1,2,3},{4,5,6}})
  a = f32[2,3] add(p, k)
  f = f32[2,3] fusion(a), kind=kLoop, calls=outer
  c = f32[2,3] copy(f), control-predecessors={a}
  d = f32[2,3] negate(k), control-predecessors={c}
  ROOT r = f32[2,3] multiply(c, d)
}
"""


@pytest.fixture
def module() -> HloModule:
    return HloModule.parse(TEXT)


def names(module: HloModule) -> list[str]:
    return [view.name for view in module.instructions()]


def test_rename_reaches_signatures_and_the_buffer_assignment(module):
    whole = xla.HloProto(hlo_module=module.proto)
    buffer = whole.buffer_assignment.logical_buffers.add(id=1)
    buffer.defined_at.instruction_name = "p"
    whole.buffer_assignment.heap_simulator_traces.add().events.add(instruction_name="p", computation_name="e")
    before = whole.SerializeToString(deterministic=True)
    edited = HloModule.from_proto(whole)
    edited.instruction("%p").rename("input.1")
    edited.computation("e").rename("main")
    assert whole.SerializeToString(deterministic=True) == before
    assert edited.instruction("a").operands[0].name == "input.1"
    assert edited.proto.entry_computation_name == "main"
    assert list(edited.entry.proto.program_shape.parameter_names) == ["input.1"]
    assert edited.hlo_proto.buffer_assignment.logical_buffers[0].defined_at.instruction_name == "input.1"
    event = edited.hlo_proto.buffer_assignment.heap_simulator_traces[0].events[0]
    assert (event.instruction_name, event.computation_name) == ("input.1", "main")
    assert "ENTRY %main (input.1: f32[2,3]) -> f32[2,3] {" in edited.to_text()
    assert verify(edited) == ()


def test_set_layout_follows_signatures_and_moves_a_constants_elements(module):
    edited = module.copy()
    edited.instruction("p").set_layout("{0,1}")
    edited.instruction("k").set_layout("{0,1:T(2,128)}")
    edited.instruction("r").set_layout("{0,1}")
    assert str(edited.instruction("p").shape) == "f32[2,3]{0,1}"
    text = edited.to_text()
    assert "entry_computation_layout={(f32[2,3]{0,1})->f32[2,3]{0,1}}" in text
    assert "%k = f32[2,3]{0,1:T(2,128)} constant({ { 1, 2, 3 }, { 4, 5, 6 } })" in text
    literal = edited.instruction("k").proto.literal
    assert list(literal.f32s) == [1, 4, 2, 5, 3, 6]
    assert np.array_equal(to_numpy(literal), to_numpy(module.instruction("k").proto.literal))
    assert verify(edited) == ()
    back = edited.copy()
    back.instruction("k").set_layout("{1,0}")
    assert list(back.instruction("k").proto.literal.f32s) == [1, 2, 3, 4, 5, 6]


def test_what_only_text_says_stays():
    module = HloModule.parse("HloModule m, replica_count=4\n\nENTRY e { ROOT p = f32[2] parameter(0) }")
    module.instruction("p").rename("q")
    assert "replica_count=4" in module.to_text()
    assert "replica_count=4" in module.copy().to_text()


def test_layouts_within_tuples():
    module = HloModule.parse("ENTRY e { ROOT p = (f32[2,3], (s32[4,5], pred[])) parameter(0) }")
    module.entry.root.set_layout("{0,1}", [1, 0])
    assert str(module.entry.root.shape) == "(f32[2,3]{1,0}, (s32[4,5]{0,1}, pred[]))"
    with pytest.raises(InvalidShapeError, match="has no layout of its own"):
        module.entry.root.set_layout("{0,1}", [1])


def test_delete_hands_over_users_dependencies_schedule_and_computations(module):
    edited = module.copy()
    edited.instruction("c").delete(replace_with="f")
    assert "c" not in names(edited)
    assert [view.name for view in edited.entry.root.operands] == ["f", "d"]
    # d waited for c, which waited for a.
    assert [view.name for view in edited.instruction("d").control_predecessors] == ["a"]
    assert verify(edited) == ()

    edited = module.copy()
    edited.instruction("f").delete(replace_with=edited.instruction("a"))
    assert [view.name for view in edited.computations] == ["e"]
    assert verify(edited) == ()
    assert len(module.computations) == 3


def test_deleting_the_root_makes_another_one(module):
    module.entry.root.delete(replace_with="c")
    assert module.entry.root.name == "c"
    assert verify(module) == ()


def test_a_replacement_from_further_on_comes_forward():
    text = "ENTRY e { p = f32[2] parameter(0)  a = f32[2] copy(p)  u = f32[2] negate(a)  b = f32[2] abs(p)  ROOT r = f32[2] add(u, b) }"
    edited = HloModule.parse(text)
    edited.instruction("a").delete(replace_with="b")
    assert [view.name for view in edited.instruction("u").operands] == ["b"]
    assert verify(edited) == ()


def test_a_buffer_assignment_that_is_no_longer_true_goes(module):
    whole = xla.HloProto(hlo_module=module.proto)
    whole.buffer_assignment.logical_buffers.add(id=1)
    edited = HloModule.from_proto(whole)
    edited.instruction("c").delete(replace_with="f")
    assert not edited.hlo_proto.HasField("buffer_assignment")


@settings(max_examples=100, deadline=None, derandomize=True)
@given(st.data())
def test_any_sequence_of_edits_leaves_a_module_that_verifies(data):
    module = HloModule.parse(TEXT)
    for _ in range(data.draw(st.integers(1, 6))):
        present = names(module)
        instruction = module.instruction(data.draw(st.sampled_from(present)))
        try:
            match data.draw(st.integers(0, 2)):
                case 0:
                    instruction.rename(data.draw(st.sampled_from(["x", "y.1", "a", "b-c"])))
                case 1:
                    instruction.set_layout(data.draw(st.sampled_from(["{0,1}", "{1,0}", "{1,0:T(8,128)}"])))
                case _:
                    instruction.delete(data.draw(st.sampled_from([None, *present])))
        except XlashapeError:
            continue
        assert verify(module) == ()
        check_consistent(module)
        assert HloModule.parse(module.to_text()).to_text() == module.to_text()
