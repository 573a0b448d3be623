"""Regressions, as a compiler or a user may cause them: each changes one place of an HloModuleProto for the worse, and
states the row that `diff` should put first.

A regression takes a copy of a module and a random generator, changes the copy, and returns a `Seeded`; None where the
module has no place for the change.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import NamedTuple

from xlashape.hlo import HloModule
from xlashape.proto import xla
from xlashape.reports.diff import Diff
from xlashape.shape import Shape, shape_util


class Seeded(NamedTuple):
    """A change that was made, as the first row of `diff` should show it."""

    kind: str
    word: str
    """A word that the row's `what` should have; empty where an instruction was only added or removed."""
    opcode: str
    a: str | None
    """The names that the row should have in the module before (`a`) and after (`b`). Both are None where the row may
    name either of two fusions."""
    b: str | None
    delta_bytes: int | None
    """The row's `delta_bytes`; None where it is not compared, because the change has several rows."""
    then: Callable[[xla.HloModuleProto], None] | None = None
    """If given, the changed module is the one before, and this function makes the one after from it."""
    is_before: bool = False
    """Whether the changed module is the one before, and the original the one after."""


Regression = Callable[[xla.HloModuleProto, random.Random], "Seeded | None"]

_NOT_COPIED = {
    "parameter",
    "constant",
    "tuple",
    "get-tuple-element",
    "while",
    "conditional",
    "call",
    "bitcast",
    "after-all",
    "copy",
}


def _entry(module: xla.HloModuleProto) -> xla.HloComputationProto:
    return next(c for c in module.computations if c.id == module.entry_computation_id)


def _place(module: xla.HloModuleProto) -> xla.HloComputationProto:
    """The computation whose instructions are changed: the entry computation. Where that only calls others, the largest
    of these is taken, and so on.
    """
    place = _entry(module)
    by_id = {c.id: c for c in module.computations}
    while True:
        called = [by_id[i] for each in place.instructions if each.opcode == "call" for i in each.called_computation_ids]
        if not called or any(i.opcode not in _NOT_COPIED for i in place.instructions):
            return place
        place = max(called, key=lambda computation: len(computation.instructions))


def _bytes(shape: xla.ShapeProto) -> int:
    return shape_util.byte_size_of(Shape.from_proto(shape))


def _is_array(instruction: xla.HloInstructionProto) -> bool:
    return instruction.shape.element_type not in (xla.TUPLE, xla.TOKEN, xla.OPAQUE_TYPE)


def _arrays(module: xla.HloModuleProto, rng: random.Random, rank: int = 1) -> Iterator[xla.HloInstructionProto]:
    """Instructions of the entry computation whose results are buffers of arrays and are used, in random order."""
    entry = _place(module)
    used = {operand for i in entry.instructions for operand in i.operand_ids}
    found = [
        i
        for i in entry.instructions
        if _is_array(i)
        and i.opcode not in _NOT_COPIED
        and i.id in used
        and len(i.shape.dimensions) >= rank
        and sum(size > 1 for size in i.shape.dimensions) >= rank
    ]
    rng.shuffle(found)
    # Arrays with dimensions of size 1 are the last choice.
    yield from sorted(found, key=lambda i: min(i.shape.dimensions) < 2)


def _new(module: xla.HloModuleProto, like: xla.HloInstructionProto, opcode: str) -> xla.HloInstructionProto:
    entry = _place(module)
    made = xla.HloInstructionProto(name=f"{opcode}.9999", opcode=opcode, shape=like.shape, operand_ids=[like.id])
    made.id = max(i.id for i in entry.instructions) + 1
    made.metadata.CopyFrom(like.metadata)
    return made


def _insert_behind(module: xla.HloModuleProto, like: xla.HloInstructionProto, made: xla.HloInstructionProto) -> None:
    """Makes all users of an instruction use a new instruction instead, which follows it."""
    for instruction in _place(module).instructions:
        instruction.operand_ids[:] = [made.id if i == like.id else i for i in instruction.operand_ids]
    module.ClearField("schedule")
    _place(module).instructions.append(made)


def new_copy(module: xla.HloModuleProto, rng: random.Random) -> Seeded | None:
    for like in _arrays(module, rng):
        made = _new(module, like, "copy")
        _insert_behind(module, like, made)
        return Seeded("added", "copy", "copy", None, made.name, _bytes(like.shape))
    return None


def new_convert_and_back(module: xla.HloModuleProto, rng: random.Random) -> Seeded | None:
    for like in _arrays(module, rng):
        if like.shape.element_type != xla.F32:
            continue
        narrow = _new(module, like, "convert")
        narrow.name = "convert.9998"
        narrow.shape.element_type = xla.F64
        _insert_behind(module, like, narrow)
        back = _new(module, narrow, "convert")
        back.shape.element_type = xla.F32
        for instruction in _place(module).instructions:
            instruction.operand_ids[:] = [back.id if i == narrow.id else i for i in instruction.operand_ids]
        _place(module).instructions.append(back)
        return Seeded("added", "", "convert", None, narrow.name, 2 * _bytes(like.shape))
    return None


def flipped_layout(module: xla.HloModuleProto, rng: random.Random) -> Seeded | None:
    for like in _arrays(module, rng, rank=2):
        order = list(like.shape.layout.minor_to_major)
        like.shape.layout.minor_to_major[:] = order[::-1]
        return Seeded("changed", "layout", like.opcode, like.name, like.name, 0)
    return None


def widened_type(module: xla.HloModuleProto, rng: random.Random) -> Seeded | None:
    for like in _arrays(module, rng):
        if like.shape.element_type == xla.F32:
            before = _bytes(like.shape)
            like.shape.element_type = xla.F64
            return Seeded("changed", "element type", like.opcode, like.name, like.name, before)
    return None


def other_sizes(module: xla.HloModuleProto, rng: random.Random) -> Seeded | None:
    for like in _arrays(module, rng):
        before = _bytes(like.shape)
        like.shape.dimensions[0] *= 3
        return Seeded("changed", "shape", like.opcode, like.name, like.name, 2 * before)
    return None


def new_tile(module: xla.HloModuleProto, rng: random.Random) -> Seeded | None:
    for like in _arrays(module, rng, rank=2):
        before = _bytes(like.shape)
        like.shape.layout.tiles.add(dimensions=[8, 128])
        sizes = [like.shape.dimensions[d] for d in like.shape.layout.minor_to_major]
        sizes[0], sizes[1] = -(-sizes[0] // 128) * 128, -(-sizes[1] // 8) * 8
        after = before
        for d, size in zip(like.shape.layout.minor_to_major, sizes, strict=True):
            after = after // like.shape.dimensions[d] * size
        return Seeded("changed", "tile", like.opcode, like.name, like.name, after - before)
    return None


def other_memory_space(module: xla.HloModuleProto, rng: random.Random) -> Seeded | None:
    for like in _arrays(module, rng):
        like.shape.layout.memory_space = 5
        return Seeded("changed", "memory space", like.opcode, like.name, like.name, 0)
    return None


def extra_all_gather(module: xla.HloModuleProto, rng: random.Random) -> Seeded | None:
    for like in _arrays(module, rng):
        made = _new(module, like, "all-gather")
        made.shape.dimensions[0] *= 4
        made.dimensions.append(0)
        made.channel_id = 77
        made.collective_device_list.replica_groups.add(replica_ids=[0, 1, 2, 3])
        _insert_behind(module, like, made)
        return Seeded("added", "collective", "all-gather", None, made.name, 4 * _bytes(like.shape))
    return None


def recomputed(module: xla.HloModuleProto, rng: random.Random) -> Seeded | None:
    entry = _place(module)
    for like in _arrays(module, rng):
        users = [i for i in entry.instructions if like.id in i.operand_ids]
        if like.called_computation_ids or len(users) < 2:
            continue
        made = entry.instructions.add()
        made.CopyFrom(like)
        made.name, made.id = f"{like.name}.remat", max(i.id for i in entry.instructions) + 1
        users[-1].operand_ids[:] = [made.id if i == like.id else i for i in users[-1].operand_ids]
        module.ClearField("schedule")
        return Seeded("added", "recomputed", like.opcode, None, made.name, _bytes(like.shape))
    return None


def lost_donation(module: xla.HloModuleProto, rng: random.Random) -> Seeded | None:
    """The module loses a donation. A module that has none gets one, and is then the module before the regression."""
    entry = _entry(module)
    root = next(i for i in entry.instructions if i.id == entry.root_id)
    by_id = {i.id: i for i in entry.instructions}
    entries = list(module.input_output_alias.entries)
    rng.shuffle(entries)
    for alias in entries:
        if root.opcode != "tuple" or len(alias.output_shape_index) != 1:
            continue
        output = by_id[root.operand_ids[alias.output_shape_index[0]]]
        if output.opcode in _NOT_COPIED or not _is_array(output):
            continue
        left = [each for each in module.input_output_alias.entries if each != alias]
        del module.input_output_alias.entries[:]
        module.input_output_alias.entries.extend(left)
        return Seeded("changed", "donation", output.opcode, output.name, output.name, _bytes(output.shape))
    if entries:
        return None
    return _given_donation(module)


def _given_donation(module: xla.HloModuleProto) -> Seeded | None:
    entry = _entry(module)
    root = next(i for i in entry.instructions if i.id == entry.root_id)
    by_id = {i.id: i for i in entry.instructions}
    outputs = [by_id[i] for i in root.operand_ids] if root.opcode == "tuple" else [root]
    for number, output in enumerate(outputs):
        if output.opcode in _NOT_COPIED or not _is_array(output) or outputs.count(output) > 1:
            continue
        alias = module.input_output_alias.entries.add(parameter_number=0, kind=xla.MAY_ALIAS)
        if root.opcode == "tuple":
            alias.output_shape_index.append(number)
        return Seeded(
            "changed", "donation", output.opcode, output.name, output.name, _bytes(output.shape), is_before=True
        )
    return None


def changed_sharding(module: xla.HloModuleProto, rng: random.Random) -> Seeded | None:
    parameters = [i for i in _entry(module).instructions if i.opcode == "parameter" and _is_array(i)]
    like = rng.choice(parameters)
    like.sharding.Clear()
    like.sharding.type = xla.OpSharding.REPLICATED
    return Seeded("changed", "sharding", "parameter", like.name, like.name, 0)


def changed_config(module: xla.HloModuleProto, rng: random.Random) -> Seeded | None:
    for like in _arrays(module, rng):
        like.backend_config = b'{"outer_dimension_partitions":["7"]}'
        return Seeded("changed", "backend_config.outer_dimension_partitions", like.opcode, like.name, like.name, 0)
    return None


def changed_opcode(module: xla.HloModuleProto, rng: random.Random) -> Seeded | None:
    places = [(c, i) for c in module.computations for i in c.instructions if i.opcode in ("add", "multiply", "maximum")]
    if not places:
        return None
    _, like = rng.choice(places)
    like.opcode = "subtract"
    return Seeded("changed", "opcode", "subtract", like.name, like.name, 0)


def control_dependency(module: xla.HloModuleProto, rng: random.Random) -> Seeded | None:
    for like in _arrays(module, rng):
        first = next((i for i in _place(module).instructions if i.opcode == "parameter" and i.id != like.id), None)
        if first is None:
            return None
        like.control_predecessor_ids.append(first.id)
        return Seeded("changed", "control dependencies", like.opcode, like.name, like.name, 0)
    return None


def removed_instruction(module: xla.HloModuleProto, rng: random.Random) -> Seeded | None:
    entry = _place(module)
    for like in _arrays(module, rng):
        before = {i.id: i for i in entry.instructions}
        same = [before[i] for i in like.operand_ids if before[i].shape == like.shape]
        if not same or like.called_computation_ids or before[like.operand_ids[0]] is like:
            continue
        for instruction in entry.instructions:
            instruction.operand_ids[:] = [same[0].id if i == like.id else i for i in instruction.operand_ids]
        size, name, opcode = _bytes(like.shape), like.name, like.opcode
        module.ClearField("schedule")
        kept = [
            xla.HloInstructionProto.FromString(i.SerializeToString()) for i in entry.instructions if i.id != like.id
        ]
        del entry.instructions[:]
        entry.instructions.extend(kept)
        return Seeded("removed", "", opcode, name, None, -size)
    return None


def split_fusion(module: xla.HloModuleProto, rng: random.Random) -> Seeded | None:
    """The root of a fusion gets a fusion of its own, which reads what the first one writes."""
    entry = _place(module)
    by_id = {c.id: c for c in module.computations}
    for like in _arrays(module, rng):
        if like.opcode != "fusion":
            continue
        body = by_id[like.called_computation_ids[0]]
        inside = {i.id: i for i in body.instructions}
        root = inside[body.root_id]
        computed = [
            i for i in dict.fromkeys(root.operand_ids) if inside[i].opcode not in ("parameter", "constant", "broadcast")
        ]
        users = [i for i in body.instructions if computed and computed[0] in i.operand_ids]
        if len(computed) != 1 or len(users) != 1 or not _is_array(inside[computed[0]]) or root.called_computation_ids:
            continue
        if any(inside[i].opcode not in ("parameter", "constant") for i in root.operand_ids if i != computed[0]):
            continue
        middle = inside[computed[0]]
        # The second fusion: the root, what it reads of the first one, and of the parameters and constants.
        second = module.computations.add(name="split.9", id=max(by_id) + 1)
        second.instructions.add(name="split_p0.9", id=1, opcode="parameter", parameter_number=0, shape=middle.shape)
        made = xla.HloInstructionProto()
        made.CopyFrom(like)
        made.name, made.id = "split_fusion.9", max(i.id for i in entry.instructions) + 1
        made.called_computation_ids[:] = [second.id]
        operands, new_of = [like.id], {middle.id: 1}
        for i in dict.fromkeys(root.operand_ids):
            if i == middle.id:
                continue
            copy = second.instructions.add()
            copy.CopyFrom(inside[i])
            copy.id = new_of[i] = len(new_of) + 1
            copy.name = f"split_v{copy.id}.9"
            if copy.opcode == "parameter":
                operands.append(like.operand_ids[copy.parameter_number])
                copy.parameter_number = len(operands) - 1
        last = second.instructions.add()
        last.CopyFrom(root)
        last.id, last.name = len(new_of) + 1, "split_root.9"
        last.operand_ids[:] = [new_of[i] for i in root.operand_ids]
        second.root_id = last.id
        made.operand_ids[:] = operands
        kept = [xla.HloInstructionProto.FromString(i.SerializeToString()) for i in body.instructions if i.id != root.id]
        del body.instructions[:]
        body.instructions.extend(kept)
        body.root_id = middle.id
        body.ClearField("program_shape")
        for instruction in entry.instructions:
            instruction.operand_ids[:] = [made.id if i == like.id else i for i in instruction.operand_ids]
        entry.instructions.append(made)
        like.shape.CopyFrom(middle.shape)
        module.ClearField("schedule")
        return Seeded("changed", "fusion split", "fusion", None, None, _bytes(middle.shape))
    return None


def missing_alias(module: xla.HloModuleProto, rng: random.Random) -> Seeded | None:
    """A custom call that wrote its result over its operand gets a buffer for the result. `module` gets the call with
    the alias, and is the module before."""
    for like in _arrays(module, rng):
        made = _new(module, like, "custom-call")
        made.custom_call_target = "update"
        made.output_operand_aliasing.add(operand_index=0)
        _insert_behind(module, like, made)
        return Seeded("changed", "aliasing", "custom-call", made.name, made.name, _bytes(like.shape), _without_alias)
    return None


def _without_alias(module: xla.HloModuleProto) -> None:
    for each in _place(module).instructions:
        if each.custom_call_target == "update":
            each.ClearField("output_operand_aliasing")


def other_groups(module: xla.HloModuleProto, rng: random.Random) -> Seeded | None:
    """A collective exchanges among other devices."""
    for like in _arrays(module, rng):
        made = _new(module, like, "collective-broadcast")
        made.channel_id = 78
        made.collective_device_list.replica_groups.add(replica_ids=[0, 1])
        made.collective_device_list.replica_groups.add(replica_ids=[2, 3])
        _insert_behind(module, like, made)
        return Seeded(
            "changed", "replica groups", "collective-broadcast", made.name, made.name, 0, _with_crossed_groups
        )
    return None


def _with_crossed_groups(module: xla.HloModuleProto) -> None:
    for each in _place(module).instructions:
        if each.opcode == "collective-broadcast":
            for group, ids in zip(each.collective_device_list.replica_groups, ([0, 2], [1, 3]), strict=True):
                group.replica_ids[:] = ids


def other_constant(module: xla.HloModuleProto, rng: random.Random) -> Seeded | None:
    """A scalar has another value."""
    found = [
        i
        for c in module.computations
        for i in c.instructions
        if i.opcode == "constant"
        and len(i.literal.f32s) == 1
        and not i.shape.dimensions
        and abs(i.literal.f32s[0]) < 99
    ]
    if not found:
        return None
    like = rng.choice(found)
    like.literal.f32s[0] += 0.25
    return Seeded("changed", "value", "constant", like.name, like.name, 0)


def new_transposes(module: xla.HloModuleProto, rng: random.Random) -> Seeded | None:
    """An array is transposed and transposed back: two buffers more."""
    for like in _arrays(module, rng, rank=2):
        rank = len(like.shape.dimensions)
        if list(like.shape.layout.minor_to_major) != list(range(rank - 1, -1, -1)) or like.shape.layout.tiles:
            continue
        there = _new(module, like, "transpose")
        there.name = "transpose.9998"
        there.dimensions[:] = range(rank - 1, -1, -1)
        there.shape.dimensions[:] = list(like.shape.dimensions)[::-1]
        there.shape.is_dynamic_dimension[:] = list(like.shape.is_dynamic_dimension)[::-1]
        _insert_behind(module, like, there)
        back = _new(module, there, "transpose")
        back.shape.CopyFrom(like.shape)
        back.dimensions[:] = range(rank - 1, -1, -1)
        for instruction in _place(module).instructions:
            instruction.operand_ids[:] = [back.id if i == there.id else i for i in instruction.operand_ids]
        _place(module).instructions.append(back)
        return Seeded("added", "", "transpose", None, None, None)
    return None


def new_fusion(module: xla.HloModuleProto, rng: random.Random) -> Seeded | None:
    """An instruction gets a fusion of its own."""
    for like in _arrays(module, rng):
        if like.opcode not in ("add", "multiply", "subtract", "maximum", "exponential", "negate", "tanh", "convert"):
            continue
        place = _place(module)
        by_id = {i.id: i for i in place.instructions}
        body = module.computations.add(name="made.9", id=max(c.id for c in module.computations) + 1)
        inner = xla.HloInstructionProto()
        inner.CopyFrom(like)
        for number, operand in enumerate(like.operand_ids):
            body.instructions.add(
                name=f"made_p{number}",
                id=number + 1,
                opcode="parameter",
                parameter_number=number,
                shape=by_id[operand].shape,
            )
        inner.id, inner.name = len(like.operand_ids) + 1, "made_root"
        inner.operand_ids[:] = range(1, len(like.operand_ids) + 1)
        body.instructions.append(inner)
        body.root_id = inner.id
        like.opcode, like.fusion_kind = "fusion", "kLoop"
        like.called_computation_ids[:] = [body.id]
        return Seeded("changed", "fused", "fusion", None, None, 0)
    return None


REGRESSIONS: dict[str, Regression] = {
    regression.__name__: regression
    for regression in (
        new_copy,
        new_convert_and_back,
        flipped_layout,
        widened_type,
        other_sizes,
        new_tile,
        other_memory_space,
        extra_all_gather,
        recomputed,
        lost_donation,
        changed_sharding,
        changed_config,
        changed_opcode,
        control_dependency,
        removed_instruction,
        split_fusion,
        missing_alias,
        other_groups,
        other_constant,
        new_transposes,
        new_fusion,
    )
}


def seed(module: HloModule, regression: Regression, rng: random.Random) -> tuple[HloModule, HloModule, Seeded] | None:
    """The module before and after; None where the module has no place for the regression."""
    proto = module.to_proto()
    done = regression(proto, rng)
    if done is None:
        return None
    changed = HloModule.from_proto(proto)
    if done.then is not None:
        after = changed.to_proto()
        done.then(after)
        return changed, HloModule.from_proto(after), done
    return (changed, module, done) if done.is_before else (module, changed, done)


def check_first(made: Diff, done: Seeded) -> None:
    """Fails unless the first row says what was seeded."""
    first = made.changes[0]
    assert (first.kind, str(first.opcode)) == (done.kind, done.opcode)
    assert (first.a, first.b) == (done.a, done.b) or done.a is done.b is None
    assert first.delta_bytes == done.delta_bytes or done.delta_bytes is None
    assert not done.word or done.word in first.what
