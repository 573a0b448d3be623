"""The edits of a module: each method of HloInstruction, HloComputation and HloModule that changes one calls a function
here. A function first reads and checks whatever may raise, up to `_begin`, and then changes the module: if it raises,
nothing has changed.

Whatever refers to what was changed follows: names, users, control dependencies, the schedule, signatures, the order of
instructions and computations. The buffer assignment of a module, which no longer fits, is removed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from xlashape.errors import InvalidArgumentError
from xlashape.hlo.editing import find
from xlashape.hlo.editing.dead import dead_instructions
from xlashape.hlo.editing.find import Named
from xlashape.hlo.editing.layouts import literal_with_layout, shape_with_layout
from xlashape.hlo.editing.order import dependencies, needs, settle, settle_after, settle_calls
from xlashape.hlo.editing.schedule import add_schedule, add_step, remove_schedule, remove_steps
from xlashape.hlo.editing.scope import Fragment, read_computations, read_instruction, split_line
from xlashape.hlo.editing.typed import built, changed_attribute, changed_opcode
from xlashape.hlo.ir import HloComputation, HloInstruction, ModuleData
from xlashape.hlo.kind import Kind
from xlashape.hlo.module_proto.structure import LOCAL_ID
from xlashape.hlo.ops.opcode import Opcode
from xlashape.proto import parse, xla
from xlashape.shape import Layout, Shape
from xlashape.shape.value.shape import compatible_shapes

# -- the beginning and the end of a change -----------------------------------------------------------------


def _begin(module: ModuleData, *computations: HloComputation, declared: HloInstruction | None = None) -> None:
    """Says that these computations change now, and perhaps the fields of the module beside them. Before, reads what is
    needed until the end of the change, so that broken bytes raise an error here. `declared` is an instruction whose
    shape may have to be copied to signatures."""
    for each in computations:
        _ = each.instructions
        _ = parse(xla.HloComputationProto, each.rest or b"")
    _ = parse(xla.HloProto, module.beside or b"")
    if declared is not None:
        _ = declared.kind.message
    module.begin_change(computations)


def _read_all(module: ModuleData) -> None:
    """Reads all computations, which a change of calls may put in another order."""
    for each in module.computations:
        _ = each.instructions


def _changed(instruction: HloInstruction) -> None:
    """Makes the rest of the module consistent after a change of an instruction."""
    _declare(instruction)
    settle_after(instruction)
    if instruction.called_computations:
        settle_calls(instruction.computation.module)
    _drop_assignment(instruction.computation.module)


def _signatures(computation: HloComputation) -> Iterator[xla.ProgramShapeProto]:
    """The signatures of a computation that a proto has, for their changes."""
    rest = computation.rest
    if rest is not None:
        message = parse(xla.HloComputationProto, rest)
        if message.HasField("program_shape"):
            yield message.program_shape
            computation.rest = message.SerializePartialToString()
    head = computation.module.head
    if computation is computation.module.entry and head.HasField("host_program_shape"):
        yield head.host_program_shape


def _declare(instruction: HloInstruction) -> None:
    """Copies the shape of an instruction to the signatures, if it is a parameter or the root."""
    is_parameter = instruction.opcode is Opcode.PARAMETER
    if not is_parameter and not instruction.is_root:
        return
    shape = instruction.kind.message.shape
    for signature in _signatures(instruction.computation):
        if is_parameter and 0 <= instruction.number < len(signature.parameters):
            signature.parameters[instruction.number].CopyFrom(shape)
        if instruction.is_root:
            signature.result.CopyFrom(shape)


def _drop_assignment(module: ModuleData) -> None:
    """Removes the buffer assignment, which no longer fits."""
    if module.beside:
        beside = parse(xla.HloProto, module.beside)
        beside.ClearField("buffer_assignment")
        module.beside = beside.SerializePartialToString()


def _mark_called(instruction: HloInstruction) -> None:
    """Says of the computations that an instruction fuses that a fusion calls them."""
    if instruction.kind.row.fuses_called_computation:
        _mark_fused(instruction.called_computations)


def _mark_fused(computations: Iterable[HloComputation]) -> None:
    for each in computations:
        if not each.is_fused:
            each.module.begin_change([each])
            each.is_fused = True
            remove_schedule(each)


# -- operands and users --------------------------------------------------------------------------------


def set_operands(instruction: HloInstruction, operands: Iterable[Named]) -> None:
    """Does the work of `HloInstruction.set_operands`."""
    computation = find.owner_of(instruction)
    new = find.all_within(computation, operands, "operands")
    least, most = instruction.kind.row.operands
    if not least <= len(new) <= most:
        wanted = least if len(new) < least else most
        raise InvalidArgumentError(f"{instruction.opcode} takes {wanted} operands, not {len(new)}", field="operands")
    _check_independent(instruction, new)
    if instruction.called_computations:
        _read_all(computation.module)
    _begin(computation.module, computation, declared=instruction)
    instruction.take(new)
    _changed(instruction)


def _check_independent(instruction: HloInstruction, needed: Sequence[HloInstruction]) -> None:
    """Raises InvalidArgumentError if one of `needed` is the instruction, or needs it."""
    if all(each.index < instruction.index for each in needed) and instruction.computation.is_ordered:
        return
    for each in needed:
        if instruction in dependencies([each]):
            what = "is the instruction itself" if each is instruction else f"needs {instruction.name!r}"
            raise InvalidArgumentError(f"{each.name!r} {what}: it cannot be its operand", field="operands")


def replace_uses(instruction: HloInstruction, replacement: Named, users: Iterable[Named] | None) -> None:
    """Does the work of `HloInstruction.replace_uses`."""
    computation = find.owner_of(instruction)
    target = _replacement(instruction, replacement, "replacement")
    taking = instruction.users if users is None else find.all_within(computation, users, "users")
    # Only instructions that are not after the replacement can be needed by it.
    first = 0
    doubtful = taking
    if computation.is_ordered:
        doubtful = [user for user in taking if user.index <= target.index]
        first = min([user.index for user in doubtful], default=0)
    needed = dependencies([target], first) if doubtful else set[HloInstruction]()
    for user in taking if users is not None else ():
        if user in needed:
            raise InvalidArgumentError(f"{target.name!r} needs {user.name!r}", field="users")
    if target.called_computations:
        _read_all(computation.module)
    _begin(computation.module, computation, declared=target)
    _give(instruction, target, [user for user in taking if user not in needed], gives_root=users is None)


def _replacement(instruction: HloInstruction, replacement: Named, field: str) -> HloInstruction:
    """The instruction that is to replace `instruction`. Raises InvalidArgumentError if it does not fit."""
    target = find.within(instruction.computation, replacement, field)
    old, new = instruction.shape, target.shape
    if old is not new and not compatible_shapes(old, new):
        raise InvalidArgumentError(f"{target.name!r} is {new}, {instruction.name!r} is {old}", field=field)
    return target


def _give(old: HloInstruction, new: HloInstruction, users: Sequence[HloInstruction], *, gives_root: bool) -> None:
    """Makes `users` take the result of `new` in place of `old`. With `gives_root`, `new` also becomes the root if `old`
    was the root."""
    for user in users:
        if old in user.operands:
            user.take(tuple([new if each is old else each for each in user.operands]))
    if gives_root and old.is_root:
        new.computation.set_root_to(new)
    _changed(new)


def set_root(computation: HloComputation, root: Named) -> None:
    """Does the work of `HloComputation.set_root`."""
    find.check_present(computation)
    new = find.within(computation, root, "root")
    if new.called_computations:
        _read_all(computation.module)
    _begin(computation.module, computation, declared=new)
    computation.set_root_to(new)
    _changed(new)


# -- removing ------------------------------------------------------------------------------------------


def delete(instruction: HloInstruction, replace_with: Named | None) -> None:
    """Does the work of `HloInstruction.delete`."""
    computation = find.owner_of(instruction)
    module = computation.module
    find.check_not_parameter(instruction)
    users = instruction.users
    target = None if replace_with is None else _replacement(instruction, replace_with, "replace_with")
    if target is None and (users or instruction.is_root):
        what = f"used by {users[0].name!r}" if users else f"the root of {computation.name!r}"
        raise InvalidArgumentError(f"{instruction.name!r} is {what}: name its replacement in `replace_with`")
    if target is not None and instruction in dependencies([target]):
        raise InvalidArgumentError(f"{target.name!r} depends on {instruction.name!r}", field="replace_with")
    if target is not None and target.called_computations:
        _read_all(module)
    uncalled = find.uncalled_computations(module) if instruction.called_computations else None
    _begin(module, computation, declared=target)
    _pass_on_control_predecessors(instruction)
    if target is not None:
        _give(instruction, target, users, gives_root=True)
    _remove(computation, {instruction})
    if uncalled is not None:
        _remove_computations(module, find.uncalled_computations(module) - uncalled)
    _drop_assignment(module)


def _pass_on_control_predecessors(instruction: HloInstruction) -> None:
    """Replaces an instruction by its own control predecessors wherever it is the control predecessor of another."""
    for other in instruction.computation.instructions:
        if other.control_predecessors and instruction in other.control_predecessors:
            kept = [each for each in other.control_predecessors if each is not instruction]
            kept += [each for each in instruction.control_predecessors if each not in kept and each is not other]
            other.control_predecessors = tuple(kept)


def remove_dead(module: ModuleData) -> None:
    """Does the work of `HloModule.remove_dead`."""
    uncalled = find.uncalled_computations(module)
    dead = dead_instructions(each for each in module.computations if each not in uncalled)
    if not uncalled and not dead:
        return
    _begin(module, *dead)
    _remove_computations(module, uncalled)
    for computation, instructions in dead.items():
        _remove(computation, instructions)
    if dead:
        _remove_computations(module, find.uncalled_computations(module))
        _drop_assignment(module)


def _remove(computation: HloComputation, unwanted: set[HloInstruction]) -> None:
    """Removes instructions from the list and the schedule. No other instruction may refer to them."""
    remove_steps(computation, unwanted)
    for each in unwanted:
        each.take(())
    computation.set_instructions([each for each in computation.instructions if each not in unwanted])
    for each in unwanted:
        each.index = -1


def _remove_computations(module: ModuleData, unwanted: set[HloComputation]) -> None:
    """Removes computations, and their schedules."""
    if not unwanted:
        return
    for each in unwanted:
        remove_schedule(each)
    module.set_computations([each for each in module.computations if each not in unwanted])
    for each in unwanted:
        each.index = -1


# -- opcode, attributes, shape -------------------------------------------------------------------------


def set_opcode(instruction: HloInstruction, opcode: Opcode | str) -> None:
    """Does the work of `HloInstruction.set_opcode`."""
    find.owner_of(instruction)
    find.check_not_parameter(instruction)
    _set_kind(instruction, changed_opcode(instruction, opcode))


def set_attribute(instruction: HloInstruction, attribute: str, value: Any) -> None:
    """Does the work of `HloInstruction.set_attribute`."""
    computation = find.owner_of(instruction)
    kind, called, channel = changed_attribute(instruction, attribute, value)
    find.check_calls(computation, called, attribute)
    _set_kind(instruction, kind, called)
    instruction.channel = channel


def set_shape(instruction: HloInstruction, shape: Shape | str) -> None:
    """Does the work of `HloInstruction.set_shape`."""
    find.owner_of(instruction)
    if instruction.opcode is Opcode.CONSTANT:
        raise InvalidArgumentError(f"{instruction.name!r} is a constant, whose elements have its shape: use rewrite")
    proto = _shape_of(shape).to_proto()
    _set_kind(instruction, instruction.kind.changed(lambda message: message.shape.CopyFrom(proto)))


def _shape_of(shape: Shape | str) -> Shape:
    if isinstance(shape, str):
        return Shape.parse(shape)
    # The check is for callers without types.
    if not isinstance(shape, Shape):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InvalidArgumentError(f"shape takes a Shape or its text, not {type(shape).__name__}", field="shape")
    return shape


def set_layout(instruction: HloInstruction, layout: Layout | str, index: Sequence[int]) -> None:
    """Does the work of `HloInstruction.set_layout`."""
    find.owner_of(instruction)
    new = Layout.parse(layout) if isinstance(layout, str) else layout
    shape = shape_with_layout(instruction.shape, new, tuple(index)).to_proto()
    message = instruction.kind.message
    literal = None
    if instruction.opcode is Opcode.CONSTANT and message.HasField("literal"):
        literal = literal_with_layout(message.literal, new, tuple(index))

    def change(message: xla.HloInstructionProto) -> None:
        message.shape.CopyFrom(shape)
        if literal is not None:
            message.literal.CopyFrom(literal)

    _set_kind(instruction, instruction.kind.changed(change))


def _set_kind(instruction: HloInstruction, kind: Kind, called: tuple[HloComputation, ...] | None = None) -> None:
    """Gives an instruction another kind, and perhaps other called computations."""
    computation = instruction.computation
    if called or instruction.called_computations:
        _read_all(computation.module)
    _begin(computation.module, computation)
    instruction.kind = kind
    if called is not None:
        instruction.called_computations = called
    _mark_called(instruction)
    _changed(instruction)


def set_kinds(module: ModuleData, kinds: Mapping[HloInstruction, Kind]) -> None:
    """Gives instructions of a module other kinds of the same opcodes, in one change: operands and calls stay."""
    _begin(module, *dict.fromkeys([each.computation for each in kinds]))
    for instruction, kind in kinds.items():
        instruction.kind = kind
        _declare(instruction)
    _drop_assignment(module)


# -- text and new instructions ---------------------------------------------------------------------------


def rewrite(instruction: HloInstruction, text: str) -> None:
    """Does the work of `HloInstruction.rewrite`."""
    computation = find.owner_of(instruction)
    find.check_not_parameter(instruction)
    line = split_line(text)
    if line.name not in ("", instruction.name):
        raise InvalidArgumentError(f"the text names {line.name!r}, not {instruction.name!r}: use rename", field="text")
    fragment = read_instruction(computation, instruction.name, line)
    new = fragment.instruction
    assert new is not None
    _check_independent(instruction, needs(new))
    find.check_calls(computation, new.called_computations, "text")
    _keep_unsaid(instruction, new)
    first = _room(computation.module, fragment)
    _begin(computation.module, computation)
    _add(computation.module, fragment, first)
    instruction.kind, instruction.channel, instruction.said_metadata = new.kind, new.channel, new.said_metadata
    instruction.called_computations = new.called_computations
    instruction.control_predecessors = new.control_predecessors
    instruction.take(new.operands)
    _changed(instruction)


def _keep_unsaid(old: HloInstruction, new: HloInstruction) -> None:
    """Gives a rewritten instruction the metadata, frontend attributes, sharding and control predecessors of the old one
    where its text has none. A sharding stays only if the dimensions do; the old control predecessors always stay."""
    if not new.metadata_bytes and old.has_metadata:
        new.said_metadata = old.said_metadata
    was, before, after = old.kind.message, old.shape, new.shape

    def change(message: xla.HloInstructionProto) -> None:
        if not message.frontend_attributes.ByteSize() and was.HasField("frontend_attributes"):
            message.frontend_attributes.CopyFrom(was.frontend_attributes)
        if not message.HasField("sharding") and was.HasField("sharding"):
            if before.is_array and after.is_array and before.dimensions == after.dimensions:
                message.sharding.CopyFrom(was.sharding)

    new.kind = new.kind.changed(change)
    new.control_predecessors = tuple(dict.fromkeys((*new.control_predecessors, *old.control_predecessors)))


def insert(computation: HloComputation, text: str, before: Named | None) -> HloInstruction:
    """Does the work of `HloComputation.insert`."""
    find.check_present(computation)
    line = split_line(text)
    if not line.name:
        raise InvalidArgumentError(f"{text.strip()[:60]!r} has no name: write `name = …`", field="text")
    find.check_new_name(computation.module, line.name)
    anchor = None if before is None else find.within(computation, before, "before")
    fragment = read_instruction(computation, line.name, line)
    new = fragment.instruction
    assert new is not None
    _place(new, anchor, fragment, is_root=line.is_root)
    return new


def insert_instruction(
    computation: HloComputation,
    name: str,
    opcode: Opcode | str,
    operands: Sequence[Named],
    shape: Shape | str | None,
    attributes: Mapping[str, Any],
    before: Named | None,
) -> HloInstruction:
    """Does the work of `HloComputation.insert_instruction`."""
    find.check_present(computation)
    find.check_new_name(computation.module, name)
    anchor = None if before is None else find.within(computation, before, "before")
    taken = find.all_within(computation, operands, "operands")
    written = None if shape is None else _shape_of(shape)
    kind, called, channel = built(computation.module, opcode, taken, attributes, written)
    new = HloInstruction(computation, name, 0, kind, taken, b"", channel=channel)
    new.called_computations = called
    _place(new, anchor, Fragment(new, [], [], []), is_root=False)
    return new


def _place(instruction: HloInstruction, anchor: HloInstruction | None, fragment: Fragment, *, is_root: bool) -> None:
    """Adds an instruction to its computation and to the schedule, with a new id, and with what its text brings: before
    the anchor, or without one after the last instruction that it needs, or at the end if it needs none."""
    computation = instruction.computation
    module, needed = computation.module, needs(instruction)
    if anchor is not None and anchor in dependencies(needed):
        raise InvalidArgumentError(
            f"{instruction.name!r} needs {anchor.name!r}: it cannot be before it", field="before"
        )
    find.check_calls(computation, instruction.called_computations, "text")
    first = _room(module, fragment)
    instruction.id = module.new_instruction_id(computation)
    _begin(module, computation, declared=instruction)
    _add(module, fragment, first)
    instructions = computation.instructions
    if anchor is not None:
        index = anchor.index
    else:
        index = max([each.index + 1 for each in needed], default=len(instructions))
    add_step(instruction, anchor)
    operands, instruction.operands = instruction.operands, ()
    computation.set_instructions([*instructions[:index], instruction, *instructions[index:]])
    instruction.take(operands)
    if is_root:
        computation.set_root_to(instruction)
    _mark_called(instruction)
    _changed(instruction)


def _room(module: ModuleData, fragment: Fragment) -> int:
    """The id of the first computation of a fragment. Also reads all computations, if the fragment calls any."""
    if fragment.computations or (fragment.instruction is not None and fragment.instruction.called_computations):
        _read_all(module)
    return module.new_computation_ids(len(fragment.computations)) if fragment.computations else 0


def _add(module: ModuleData, fragment: Fragment, first: int) -> None:
    """Adds the computations and payloads of a fragment, with names and ids that are new in the module. The first
    computation gets the id `first`, the next ones the ids after it."""
    new = fragment.computations
    if new:
        names = {each.name for each in module.computations}
        taken = set(module.instruction_by_name())
        if fragment.instruction is not None:
            taken.add(fragment.instruction.name)
        for number, computation in enumerate(new):
            computation.id = first + number
            computation.name = _unused(computation.name, names)
            names.add(computation.name)
            for each in computation.instructions:
                each.id = computation.id << 32 | each.id & LOCAL_ID
                each.name = _unused(each.name, taken)
                taken.add(each.name)
        module.set_computations([*module.computations, *new])
        for computation in new:
            computation.is_ordered = False  # operands that later steps of an asynchronous operation bring come last
            settle(computation)
            if not computation.is_fused:
                add_schedule(computation)
    if fragment.payloads:
        module.head.payloads.extend(fragment.payloads)
    _mark_fused(fragment.fused)


def _unused(name: str, names: Iterable[str]) -> str:
    """`name`, with a number appended if `names` has it."""
    number, free = 0, name
    while free in names:
        number += 1
        free = f"{name}.{number}"
    return free


# -- computations --------------------------------------------------------------------------------------


def add_computations(module: ModuleData, text: str) -> tuple[HloComputation, ...]:
    """Does the work of `HloModule.add_computations`."""
    fragment = read_computations(module, text)
    first = _room(module, fragment)
    _begin(module)
    _add(module, fragment, first)
    settle_calls(module)
    return tuple(fragment.computations)


def replace_calls(computation: HloComputation, replacement: HloComputation | str) -> None:
    """Does the work of `HloComputation.replace_calls`."""
    find.check_present(computation)
    module = computation.module
    target = find.callee(module, replacement, "replacement")
    if target is computation:
        return
    callers = list(dict.fromkeys(module.callers_of(computation)))
    for owner in dict.fromkeys([each.computation for each in callers]):
        find.check_calls(owner, [target], "replacement")
    _begin(module, computation, target, *dict.fromkeys([each.computation for each in callers]))
    fused = False
    for each in callers:
        called = [target if other is computation else other for other in each.called_computations]
        each.called_computations = tuple(called)
        fused = fused or each.kind.row.fuses_called_computation
    if fused and computation.is_fused:
        computation.is_fused = False  # no fusion calls it any more
        add_schedule(computation)
        _mark_fused((target,))
    module.set_computations(module.computations)
    settle_calls(module)
    _drop_assignment(module)


# -- names ---------------------------------------------------------------------------------------------


def rename(instruction: HloInstruction, new: str) -> None:
    """Does the work of `HloInstruction.rename`."""
    computation, old = find.owner_of(instruction), instruction.name
    module = computation.module
    find.check_name(new)
    if new == old:
        return
    find.check_new_name(module, new)
    _begin(module, computation)
    computation.rename_in_list(instruction, new)
    if instruction.opcode is Opcode.PARAMETER:
        number = instruction.number
        for signature in _signatures(computation):
            names = signature.parameter_names
            if 0 <= number < len(names) and names[number] == old:
                names[number] = new
    for location, event in _named_in_assignment(module):
        if location is not None and location.instruction_name == old:
            location.instruction_name = new
        if event is not None and event.instruction_name == old:
            event.instruction_name = new


def rename_computation(computation: HloComputation, new: str) -> None:
    """Does the work of `HloComputation.rename`."""
    find.check_present(computation)
    module, old = computation.module, computation.name
    find.check_name(new)
    if new == old:
        return
    if any(other.name == new for other in module.computations):
        raise InvalidArgumentError(f"there is a computation {new!r} already", field="name")
    _begin(module, computation)
    computation.name = new
    if computation is module.entry:
        module.head.entry_computation_name = new
    for _, event in _named_in_assignment(module):
        if event is not None and event.computation_name == old:
            event.computation_name = new


def _named_in_assignment(
    module: ModuleData,
) -> Iterator[tuple[xla.LogicalBufferProto.Location | None, xla.HeapSimulatorTrace.Event | None]]:
    """What names instructions and computations in the buffer assignment, for its changes."""
    if not module.beside:
        return
    beside = parse(xla.HloProto, module.beside)
    assignment = beside.buffer_assignment
    for buffer in assignment.logical_buffers:
        yield buffer.defined_at, None
    for alias in assignment.buffer_aliases:
        yield alias.location, None
    for trace in assignment.heap_simulator_traces:
        for event in trace.events:
            yield None, event
    module.beside = beside.SerializePartialToString()
