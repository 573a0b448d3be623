"""`instruction.attributes`: every attribute of many modules against the text that XLA has for it, and names that are
wrong."""

from __future__ import annotations

import pickle
from dataclasses import FrozenInstanceError
from pathlib import Path

import pytest
from xla_versions import cases

from xlashape import HloModule
from xlashape.errors import InvalidModuleError
from xlashape.hlo.module import HloInstruction
from xlashape.hlo.ops.instruction_attributes import attributes_by_name
from xlashape.hlo.ops.registry import OPERATIONS, operation_of
from xlashape.hlo.values.dimension_numbers import DotDimensionNumbers
from xlashape.hlo.values.window import Window, WindowDimension
from xlashape.proto import xla

VECTORS = Path(__file__).parents[2] / "vectors" / "hlo"
MODULES = sorted(path.name for path in VECTORS.glob("*.pb.gz"))


def root_of(text: str) -> HloInstruction:
    return HloModule.parse(f"HloModule m ENTRY e {{ {text} }}").entry.root


def check(module: HloModule) -> int:
    """Each attribute that is set stands in the text, and putting its value back changes nothing. Returns how many there
    were."""
    count = 0
    for instruction in module.instructions():
        operation = operation_of(instruction.proto.opcode)
        text = instruction.to_text(print_control_dependencies=True)
        before = instruction.proto.SerializeToString(deterministic=True)
        own = attributes_by_name(operation)
        for name, value in instruction.attributes.items():
            assert getattr(instruction.attributes, name) == value
            spelled = name.replace("_", "-") if name == "control_predecessors" else name
            is_wrapped = operation.async_step is not None and spelled in ("calls", "async_execution_thread")
            # XLA does not write an order that is the usual one of the element type, older types of comparisons, and
            # windows without dimensions.
            is_unwritten = name in ("order", "type") or value == Window()
            assert f", {spelled}=" in text or is_wrapped or is_unwritten or name == "metadata", (name, text)
            count += 1
        for name, attribute in own.items():
            assert attribute.value is not None
            copy = xla.HloInstructionProto()
            copy.CopyFrom(instruction.proto)
            attribute.value.put(copy, attribute.of(copy))
            if name != "origin":  # older forms are written as today's
                assert copy.SerializeToString(deterministic=True) == before
    return count


@pytest.mark.parametrize("name", MODULES)
def test_attributes_of_jax_programs(name: str):
    assert check(HloModule.load(VECTORS / name)) > 0


@pytest.mark.parametrize("case", cases(), ids=lambda case: case.name)
def test_attributes_of_many_versions(case):
    check(HloModule.from_proto(case.data))


def test_every_name_in_the_text_is_an_attribute():
    """The other way round: what the text has, the mapping has, for one instruction with many attributes."""
    root = root_of(
        "p = f32[1,8,8,1] parameter(0) k = f32[3,3,1,2] parameter(1) ROOT c = f32[1,4,4,2] convolution(p, k), "
        "window={size=3x3 stride=2x2 pad=0_1x0_1}, dim_labels=b01f_01io->b01f, operand_precision={highest,default}, "
        'sharding={replicated}, frontend_attributes={a="b"}, metadata={op_name="x"}, backend_config={"k":1}'
    )
    assert list(root.attributes) == [
        "window",
        "dim_labels",
        "operand_precision",
        "sharding",
        "frontend_attributes",
        "backend_config",
        "metadata",
    ]
    attributes = root.attributes
    assert attributes.window == Window((WindowDimension(3, 2, 0, 1), WindowDimension(3, 2, 0, 1)))
    assert attributes.dim_labels.kernel_output_feature_dimension == 3
    assert attributes.convolution_dimension_numbers == attributes.dim_labels
    assert attributes.operand_precision == ("highest", "default")
    assert str(attributes.sharding) == "{replicated}"
    assert attributes.frontend_attributes == {"a": "b"}
    assert attributes.backend_config == '{"k":1}'
    assert attributes.metadata.op_name == "x"
    assert attributes.feature_group_count == 1
    assert attributes.algorithm is None
    assert len(attributes) == 7
    assert "window" in attributes
    assert "algorithm" not in attributes
    assert attributes.get("algorithm") is None
    assert set(attributes) <= set(dir(attributes))


def test_an_attribute_that_xla_does_not_write_is_not_set():
    module = HloModule.parse(
        "HloModule m ENTRY e { a = f32[2,3] parameter(0) b = f32[3,4] parameter(1) "
        "ROOT c = f32[2,4] convolution(a, b), dim_labels=bf_io->bf }"
    ).proto
    convolution = module.computations[0].instructions[2]
    convolution.window.SetInParent()
    convolution.result_accuracy.SetInParent()
    root = HloModule.from_proto(module).entry.root
    assert list(root.attributes) == ["dim_labels"]
    assert root.attributes.window == Window()


def test_dimension_numbers_as_one_value():
    root = root_of(
        "a = f32[2,3,4] parameter(0) b = f32[2,4,5] parameter(1) ROOT d = f32[2,3,5] dot(a, b), "
        "lhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_batch_dims={0}, rhs_contracting_dims={1}"
    )
    assert root.attributes.lhs_contracting_dims == (2,)
    assert root.attributes.dot_dimension_numbers == DotDimensionNumbers((2,), (1,), (0,), (0,))
    with pytest.raises(AttributeError, match="did you mean 'dot_dimension_numbers'"):
        _ = root.attributes.dot_dimension_number


def test_called_computations():
    module = HloModule.parse(
        "HloModule m add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(a, b) } "
        "yes { ROOT p = f32[] parameter(0) } no { ROOT p = f32[] parameter(0) } "
        "ENTRY e { x = f32[4] parameter(0) z = f32[] constant(0) r = f32[] reduce(x, z), dimensions={0}, to_apply=add "
        "i = s32[] constant(0) c = f32[] conditional(i, r, r), branch_computations={yes, no} "
        "t = pred[] constant(true) ROOT d = f32[] conditional(t, c, c), true_computation=yes, false_computation=no }"
    )
    computation = module.computation
    assert module.instruction("r").attributes.to_apply is computation("add")
    assert module.instruction("c").attributes.branch_computations == (computation("yes"), computation("no"))
    assert dict(module.instruction("d").attributes) == {
        "true_computation": computation("yes"),
        "false_computation": computation("no"),
    }


def test_unknown_names():
    root = root_of("p = f32[4] parameter(0) ROOT s = f32[2] slice(p), slice={[0:2]}")
    with pytest.raises(AttributeError, match=r"^slice has no attribute 'slices': did you mean 'slice'\?$"):
        _ = root.attributes.slices
    with pytest.raises(AttributeError, match="slice has no attribute 'window'; it may have slice, sharding, "):
        _ = root.attributes.window
    with pytest.raises(KeyError, match="did you mean 'slice'"):
        _ = root.attributes["slices"]
    with pytest.raises(KeyError):
        _ = root.attributes["sharding"]
    assert root.attributes.sharding is None
    assert not hasattr(root.attributes, "window")
    with pytest.raises(FrozenInstanceError):
        root.attributes.slice = ()


def test_an_unknown_opcode_has_common_attributes():
    proto = root_of("ROOT p = f32[4] parameter(0), sharding={manual}").computation.module.to_proto()
    proto.computations[0].instructions[0].opcode = "frobnicate"
    (instruction,) = HloModule.from_proto(proto).instructions()
    assert str(instruction.attributes.sharding) == "{manual}"
    with pytest.raises(AttributeError, match="frobnicate has no attribute 'slice'; it may have sharding"):
        _ = instruction.attributes.slice


def test_values_that_contradict_themselves():
    proto = root_of('ROOT p = f32[4] parameter(0), backend_config="x"').computation.module.proto
    proto.computations[0].instructions[0].backend_config_payload.id = 7
    root = HloModule(proto).entry.root
    with pytest.raises(
        InvalidModuleError, match="instruction 'p' has an invalid backend_config: there is no payload 7"
    ):
        _ = root.attributes.backend_config
    proto.payloads.extend([b""] * 7 + [b"found"])
    assert HloModule(proto).entry.root.attributes.backend_config == "found"


def test_every_opcode_has_attributes():
    for operation in OPERATIONS.values():
        for name, attribute in attributes_by_name(operation).items():
            assert attribute.value is not None
            assert attribute.name == name
            assert attribute.value.what


def test_values_are_pickled():
    window = Window.parse("{size=3x3}")
    assert pickle.loads(pickle.dumps(window)) == window
