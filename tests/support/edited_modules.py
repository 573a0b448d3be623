"""What tests of edits compare: all that a module says, and the rules that hold for every module after every edit."""

from __future__ import annotations

from typing import Any

from xlashape.hlo import HloComputation, HloInstruction, HloModule


def everything(module: HloModule) -> dict[str, Any]:
    """All that the module says and keeps: its bytes, its text, and of each instruction what it refers to."""
    return {
        "bytes": module.to_bytes(),
        "text": module.to_text(),
        "config": module.config,
        "computations": {
            computation.name: (
                computation,
                computation.index,
                computation.id,
                computation.is_fused,
                computation.execution_thread,
                computation.root,
                computation.parameters,
                computation.to_bytes() if hasattr(computation, "to_bytes") else computation.proto.SerializeToString(),
            )
            for computation in module.computations
        },
        "instructions": [
            (
                each,
                each.name,
                each.id,
                each.index,
                each.kind,
                each.number,
                each.operands,
                each.users,
                each.called_computations,
                each.control_predecessors,
                each.metadata_bytes,
                module.instruction(each.name),
            )
            for each in module.instructions()
        ],
    }


def _names(instructions: Any) -> list[str]:
    return [each.name for each in instructions]


def _of_instruction(each: HloInstruction) -> tuple[Any, ...]:
    return (
        each.name,
        each.id,
        each.kind.data,
        each.number,
        _names(each.operands),
        set(_names(each.users)),
        _names(each.called_computations),
        _names(each.control_predecessors),
        each.metadata_bytes or b"",
    )


def _of_computation(each: HloComputation) -> tuple[Any, ...]:
    return (
        each.name,
        each.id,
        each.is_fused,
        each.execution_thread,
        each.root.name,
        _names(each.parameters),
        [_of_instruction(instruction) for instruction in each.instructions],
    )


def check_consistent(module: HloModule) -> None:
    """Compares a module with one that is made of its bytes, and checks what holds for every module."""
    fresh = HloModule.from_proto(module.to_bytes())
    assert [_of_computation(each) for each in module.computations] == [
        _of_computation(each) for each in fresh.computations
    ]
    assert fresh.to_text() == HloModule(module.proto, config=fresh.config).to_text()
    assert HloModule(module.proto, config=module.config).to_text() == module.to_text()
    assert [each.index for each in module.computations] == list(range(len(module.computations)))
    assert module.entry.name == fresh.entry.name
    names = [each.name for each in module.instructions()]
    assert len(set(names)) == len(names)
    assert len({each.name for each in module.computations}) == len(module.computations)
    sequences = module.head.schedule.sequences
    if module.head.HasField("schedule"):
        assert {key & 0xFFFFFFFF for key in sequences} == {
            each.id & 0xFFFFFFFF for each in module.computations if not each.is_fused
        }
    for computation in module.computations:
        assert computation.module is module
        assert all(
            target.index < computation.index for each in computation.instructions for target in each.called_computations
        )
        assert [each.index for each in computation.instructions] == list(range(len(computation.instructions)))
        assert computation.root in computation.instructions
        for each in computation.instructions:
            assert each.computation is computation
            assert all(before.index < each.index for before in (*each.operands, *each.control_predecessors))
            assert all(before in computation.instructions for before in (*each.operands, *each.control_predecessors))
            assert all(called in module.computations for called in each.called_computations)
            assert module.instruction(each.name) is each is computation.instruction(each.name)
        by_id = {each.id & 0xFFFFFFFF: each for each in computation.instructions}
        assert len(by_id) == len(computation.instructions)
        for key, sequence in sequences.items():
            if key & 0xFFFFFFFF == computation.id & 0xFFFFFFFF:
                steps = [by_id[ident & 0xFFFFFFFF] for ident in sequence.instruction_ids]
                assert sorted(_names(steps)) == sorted(_names(computation.instructions))
                at = {each: step for step, each in enumerate(steps)}
                assert all(
                    at[before] < at[each] for each in steps for before in (*each.operands, *each.control_predecessors)
                )
