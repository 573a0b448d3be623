"""Changes to a module that keep every reference consistent: rename, change a layout, delete.

    edited = Editor(module).rename("add.3", "sum").set_layout("sum", "{0,1}").delete("copy.7", replace_with="sum").module()

The editor works on a copy. `module()` checks the ids of the result and returns a new HloModule; `verify` checks its shapes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from xlashape.errors import InvalidArgumentError, InvalidShapeError, NotFoundError
from xlashape.hlo.formatting import safe_name
from xlashape.hlo.literal.data import from_raw, raw, row_major_positions
from xlashape.hlo.module import HloModule
from xlashape.hlo.structure import LOCAL_ID
from xlashape.proto import xla
from xlashape.shape import Layout, Shape
from xlashape.shape.value.equality import compatible_shapes

__all__ = ["Editor"]


class Editor:
    """Edits a copy of a module. Methods return the editor, so that they chain; a method that raises has changed nothing.

    >>> module = HloModule.parse("ENTRY e { p = f32[4] parameter(0)  c = f32[4] copy(p)  ROOT n = f32[4] negate(c) }")
    >>> edited = Editor(module).delete("c", replace_with="p").rename("n", "minus").module()
    >>> [instruction.name for instruction in edited.instructions()], edited.entry.root.operands[0].name
    (['p', 'minus'], 'p')
    """

    def __init__(self, module: HloModule) -> None:
        self._hlo_proto = xla.HloProto()
        if module.hlo_proto is not None:
            self._hlo_proto.CopyFrom(module.hlo_proto)
        self._hlo_proto.hlo_module.CopyFrom(module.proto)
        self._had_hlo_proto = module.hlo_proto is not None
        self._config = module.config
        self._proto = self._hlo_proto.hlo_module
        # By name; None after a change that moves or renames instructions.
        self._by_name: dict[str, tuple[xla.HloComputationProto, xla.HloInstructionProto]] | None = None

    def module(self) -> HloModule:
        """The edited module. Raises InvalidModuleError if its ids are inconsistent."""
        copy = xla.HloProto()
        copy.CopyFrom(self._hlo_proto)
        return HloModule(copy.hlo_module, hlo_proto=copy if self._had_hlo_proto else None, config=self._config)

    # -- names --------------------------------------------------------------------------------

    def rename(self, name: str, new: str) -> Editor:
        """Renames an instruction, also in signatures and the buffer assignment.

        Raises NotFoundError if no instruction is called `name`, InvalidArgumentError if `new` is taken or is not a valid name.
        """
        computation, instruction = self._find(name)
        _check_name(new)
        if new != instruction.name and new in self._index():
            raise InvalidArgumentError(f"there is an instruction {new!r} already")
        old, instruction.name = instruction.name, new
        if instruction.opcode == "parameter":
            signatures = [computation.program_shape]
            if self._is_entry(computation):
                signatures.append(self._proto.host_program_shape)
            number = instruction.parameter_number
            for signature in signatures:
                names = signature.parameter_names
                if 0 <= number < len(names) and names[number] == old:
                    names[number] = new
        assignment = self._hlo_proto.buffer_assignment
        for location in _locations(assignment):
            if location.instruction_name == old:
                location.instruction_name = new
        for trace in assignment.heap_simulator_traces:
            for event in trace.events:
                if event.instruction_name == old:
                    event.instruction_name = new
        self._by_name = None
        return self

    def rename_computation(self, name: str, new: str) -> Editor:
        """Renames a computation. Raises as `rename` does."""
        computation = self._computation(name)
        _check_name(new)
        if any(other.name == new for other in self._proto.computations if other.id != computation.id):
            raise InvalidArgumentError(f"there is a computation {new!r} already")
        old, computation.name = computation.name, new
        if self._is_entry(computation):
            self._proto.entry_computation_name = new
        for trace in self._hlo_proto.buffer_assignment.heap_simulator_traces:
            for event in trace.events:
                if event.computation_name == old:
                    event.computation_name = new
        return self

    # -- layouts ------------------------------------------------------------------------------

    def set_layout(self, name: str, layout: Layout | str, index: Sequence[int] = ()) -> Editor:
        """Gives an instruction's array another layout; `index` names an array within a tuple.

        Signatures change with it, and the elements of a constant are reordered. Other instructions stay as they are. A buffer assignment
        is removed, because it no longer fits. Raises InvalidShapeError if the layout does not fit the array.
        """
        computation, instruction = self._find(name)
        new_layout = Layout.parse(layout) if isinstance(layout, str) else layout
        shape = _with_layout(Shape.from_proto(instruction.shape), new_layout, tuple(index))
        literal = None
        if instruction.opcode == "constant" and instruction.HasField("literal"):
            literal = _literal_with_layout(instruction.literal, new_layout, tuple(index))
        instruction.shape.CopyFrom(shape.to_proto())
        if literal is not None:
            instruction.literal.CopyFrom(literal)
        for declared in self._declared_shapes(computation, instruction):
            declared.CopyFrom(instruction.shape)
        self._drop_assignment()
        return self

    def _declared_shapes(
        self, computation: xla.HloComputationProto, instruction: xla.HloInstructionProto
    ) -> Iterator[xla.ShapeProto]:
        """Where signatures repeat the shape of a parameter or of the root."""
        signatures = [computation.program_shape] if computation.HasField("program_shape") else []
        if self._is_entry(computation) and self._proto.HasField("host_program_shape"):
            signatures.append(self._proto.host_program_shape)
        number = instruction.parameter_number
        for signature in signatures:
            if instruction.opcode == "parameter" and 0 <= number < len(signature.parameters):
                yield signature.parameters[number]
            if instruction.id & LOCAL_ID == computation.root_id & LOCAL_ID:
                yield signature.result

    # -- deleting -----------------------------------------------------------------------------

    def delete(self, name: str, replace_with: str | None = None) -> Editor:
        """Removes an instruction from its computation, its schedule and control dependencies.

        The instructions that had it as control predecessor get its control predecessors. `replace_with` is an instruction of the same
        computation and shape: the users take its result instead, and it becomes the root if the removed instruction was the root.
        Computations that are no longer called are removed too, and so is a buffer assignment, because it no longer fits.

        Raises InvalidArgumentError for a parameter, for an instruction with users or a root without `replace_with`, and for a
        replacement that does not fit or depends on the instruction.
        """
        computation, instruction = self._find(name)
        if instruction.opcode == "parameter":
            raise InvalidArgumentError(f"{name!r} is a parameter: the computation's callers give it a value")
        local_id = instruction.id & LOCAL_ID
        is_root = computation.root_id & LOCAL_ID == local_id
        users = [user for user in computation.instructions if any(i & LOCAL_ID == local_id for i in user.operand_ids)]
        target = None if replace_with is None else self._replacement(computation, instruction, replace_with)
        if target is None and (users or is_root):
            what = f"used by {users[0].name!r}" if users else f"the root of {computation.name!r}"
            raise InvalidArgumentError(f"{name!r} is {what}: name its replacement in `replace_with`")
        if target is not None:
            for user in users:
                user.operand_ids[:] = [target.id if i & LOCAL_ID == local_id else i for i in user.operand_ids]
            if is_root:
                computation.root_id = target.id
                for declared in self._declared_shapes(computation, target):
                    declared.CopyFrom(target.shape)
        self._pass_on_control_predecessors(computation, instruction)
        for key, sequence in self._proto.schedule.sequences.items():
            if key & LOCAL_ID == computation.id & LOCAL_ID:
                sequence.instruction_ids[:] = [i for i in sequence.instruction_ids if i & LOCAL_ID != local_id]
        called = [i & LOCAL_ID for i in instruction.called_computation_ids]
        index = next(i for i, other in enumerate(computation.instructions) if other.id & LOCAL_ID == local_id)
        del computation.instructions[index]
        if target is not None and users:
            self._move_before_users(computation, target, users)
        self._drop_uncalled(called)
        self._drop_assignment()
        self._by_name = None
        return self

    @staticmethod
    def _pass_on_control_predecessors(
        computation: xla.HloComputationProto, instruction: xla.HloInstructionProto
    ) -> None:
        """Replaces an instruction by its control predecessors wherever it is a control predecessor."""
        local_id = instruction.id & LOCAL_ID
        inherited = list(instruction.control_predecessor_ids)
        for other in computation.instructions:
            kept = [i for i in other.control_predecessor_ids if i & LOCAL_ID != local_id]
            if len(kept) != len(other.control_predecessor_ids):
                present = {i & LOCAL_ID for i in kept} | {other.id & LOCAL_ID}
                other.control_predecessor_ids[:] = [*kept, *(i for i in inherited if i & LOCAL_ID not in present)]

    def _replacement(
        self, computation: xla.HloComputationProto, instruction: xla.HloInstructionProto, name: str
    ) -> xla.HloInstructionProto:
        """The instruction called `name`, which is to replace `instruction`. Raises InvalidArgumentError if it does not fit."""
        owner, target = self._find(name)
        if owner.id != computation.id:
            raise InvalidArgumentError(
                f"{name!r} is in computation {owner.name!r}, {instruction.name!r} in {computation.name!r}"
            )
        old_shape, new_shape = Shape.from_proto(instruction.shape), Shape.from_proto(target.shape)
        if not compatible_shapes(old_shape, new_shape):
            raise InvalidArgumentError(f"{name!r} is {new_shape}, {instruction.name!r} is {old_shape}")
        if instruction.id & LOCAL_ID in _needed(computation, target):
            raise InvalidArgumentError(f"{name!r} depends on {instruction.name!r}")
        return target

    @staticmethod
    def _move_before_users(
        computation: xla.HloComputationProto, target: xla.HloInstructionProto, users: Iterable[xla.HloInstructionProto]
    ) -> None:
        """Moves a replacement that is after a user, and everything that the replacement needs, before the first user."""
        user_ids = {user.id & LOCAL_ID for user in users}
        order = [other.id & LOCAL_ID for other in computation.instructions]
        first = min(order.index(local_id) for local_id in user_ids)
        needed = _needed(computation, target)
        moved = [local_id for local_id in order[first:] if local_id in needed and local_id not in user_ids]
        if not moved:
            return
        moved_ids = set(moved)
        rest = [local_id for local_id in order if local_id not in moved_ids]
        at = next(i for i, local_id in enumerate(rest) if local_id in user_ids)
        new_index = {local_id: i for i, local_id in enumerate([*rest[:at], *moved, *rest[at:]])}
        computation.instructions.sort(key=lambda other: new_index[other.id & LOCAL_ID])

    def _drop_uncalled(self, candidates: list[int]) -> None:
        """Removes those computations of local ids `candidates` that are not called, then those that only they called."""
        while candidates:
            local_id = candidates.pop()
            called = {
                i & LOCAL_ID
                for computation in self._proto.computations
                for instruction in computation.instructions
                for i in instruction.called_computation_ids
            }
            if local_id == self._proto.entry_computation_id & LOCAL_ID or local_id in called:
                continue
            for index, computation in enumerate(self._proto.computations):
                if computation.id & LOCAL_ID == local_id:
                    candidates += [
                        i & LOCAL_ID
                        for instruction in computation.instructions
                        for i in instruction.called_computation_ids
                    ]
                    for key in [key for key in self._proto.schedule.sequences if key & LOCAL_ID == local_id]:
                        del self._proto.schedule.sequences[key]
                    del self._proto.computations[index]
                    break

    # -- finding ------------------------------------------------------------------------------

    def _drop_assignment(self) -> None:
        self._hlo_proto.ClearField("buffer_assignment")

    def _is_entry(self, computation: xla.HloComputationProto) -> bool:
        return computation.id & LOCAL_ID == self._proto.entry_computation_id & LOCAL_ID

    def _index(self) -> dict[str, tuple[xla.HloComputationProto, xla.HloInstructionProto]]:
        if self._by_name is None:
            self._by_name = {}
            for computation in self._proto.computations:
                for instruction in computation.instructions:
                    self._by_name.setdefault(instruction.name, (computation, instruction))
        return self._by_name

    def _find(self, name: str) -> tuple[xla.HloComputationProto, xla.HloInstructionProto]:
        """The instruction called `name`, which may begin with `%`, and its computation. Raises NotFoundError."""
        entry = self._index().get(name.removeprefix("%"))
        if entry is None:
            raise NotFoundError(f"module {self._proto.name!r} has no instruction {name!r}")
        return entry

    def _computation(self, name: str) -> xla.HloComputationProto:
        for computation in self._proto.computations:
            if computation.name == name.removeprefix("%"):
                return computation
        message = f"module {self._proto.name!r} has no computation {name!r}"
        raise NotFoundError(message, kind="computation", name=name, field="computation")


def _check_name(name: str) -> None:
    if not name or safe_name(name) != name:
        raise InvalidArgumentError(f"{name!r} is not a valid name: a letter or _, then letters, digits and _.-")


def _needed(computation: xla.HloComputationProto, instruction: xla.HloInstructionProto) -> set[int]:
    """The local ids of an instruction and of everything that it needs, directly or not."""
    by_id = {other.id & LOCAL_ID: other for other in computation.instructions}
    needed: set[int] = set()
    pending = [instruction.id & LOCAL_ID]
    while pending:
        local_id = pending.pop()
        if local_id not in needed and local_id in by_id:
            needed.add(local_id)
            pending += [i & LOCAL_ID for i in by_id[local_id].operand_ids]
            pending += [i & LOCAL_ID for i in by_id[local_id].control_predecessor_ids]
    return needed


def _locations(assignment: xla.BufferAssignmentProto) -> Iterator[xla.LogicalBufferProto.Location]:
    for buffer in assignment.logical_buffers:
        yield buffer.defined_at
    for alias in assignment.buffer_aliases:
        yield alias.location


def _with_layout(shape: Shape, layout: Layout, index: tuple[int, ...]) -> Shape:
    if not index:
        if not shape.is_array:
            raise InvalidShapeError(f"{shape} has no layout of its own; `index` names an array within a tuple")
        return shape.with_layout(layout)
    if not shape.is_tuple or not 0 <= index[0] < len(shape.tuple_shapes):
        raise InvalidShapeError(f"{shape} has no element {index[0]}")
    parts = list(shape.tuple_shapes)
    parts[index[0]] = _with_layout(parts[index[0]], layout, index[1:])
    return shape.replace(tuple_shapes=tuple(parts))


def _literal_with_layout(literal: xla.LiteralProto, layout: Layout, index: tuple[int, ...]) -> xla.LiteralProto:
    """The literal with the elements of the array at `index` in the order of another layout."""
    if index:
        copy = xla.LiteralProto()
        copy.CopyFrom(literal)
        copy.shape.CopyFrom(_with_layout(Shape.from_proto(literal.shape), layout, index).to_proto())
        part = literal.tuple_literals[index[0]]
        copy.tuple_literals[index[0]].CopyFrom(_literal_with_layout(part, layout, index[1:]))
        return copy
    shape = _with_layout(Shape.from_proto(literal.shape), layout, ()).to_proto()
    data = raw(literal)
    before, after = row_major_positions(literal.shape), row_major_positions(shape)
    count = len(before or after or ())
    if count:
        width = len(data) // count
        elements = [data[i * width : (i + 1) * width] for i in range(count)]
        if before is not None:
            row_major = [b""] * count
            for position, element in zip(before, elements, strict=True):
                row_major[position] = element
            elements = row_major
        data = b"".join([elements[position] for position in after] if after is not None else elements)
    result = from_raw(shape, data)
    result.dynamic_sizes.extend(literal.dynamic_sizes)
    return result
