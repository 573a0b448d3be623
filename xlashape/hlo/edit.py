"""Changes to a module that keep every reference right: rename, give another layout, delete.

    edited = Editor(module).rename("add.3", "sum").set_layout("sum", "{0,1}").delete("copy.7", replace_with="sum").module()

The editor works on a copy; `module()` checks what came out (structure, not shapes: that is `verify`) and gives a new HloModule.
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
from xlashape.shape.shape_util import compatible

__all__ = ["Editor"]


class Editor:
    """Edits a copy of a module. Methods return the editor, so that they chain; each is done wholly or, raising, not at all.

    >>> module = HloModule.parse("ENTRY e { p = f32[4] parameter(0)  c = f32[4] copy(p)  ROOT n = f32[4] negate(c) }")
    >>> edited = Editor(module).delete("c", replace_with="p").rename("n", "minus").module()
    >>> [one.name for one in edited.instructions()], edited.entry.root.operands[0].name
    (['p', 'minus'], 'p')
    """

    def __init__(self, module: HloModule) -> None:
        self._whole = xla.HloProto()
        if module.hlo_proto is not None:
            self._whole.CopyFrom(module.hlo_proto)
        self._whole.hlo_module.CopyFrom(module.proto)
        self._keeps_assignment = module.hlo_proto is not None
        self._config = module.config
        self._proto = self._whole.hlo_module
        self._places: dict[str, tuple[xla.HloComputationProto, xla.HloInstructionProto]] | None = None

    def module(self) -> HloModule:
        """The edited module. Raises InvalidModuleError if it does not hang together."""
        whole = xla.HloProto()
        whole.CopyFrom(self._whole)
        if self._keeps_assignment:
            return HloModule(whole.hlo_module, hlo_proto=whole, config=self._config)
        return HloModule(whole.hlo_module, config=self._config)

    # -- names --------------------------------------------------------------------------------

    def rename(self, name: str, new: str) -> Editor:
        """Gives an instruction another name, also in signatures and the buffer assignment.

        Raises NotFoundError if there is none of that name, InvalidArgumentError if `new` is taken or is no name.
        """
        computation, one = self._find(name)
        _check_name(new)
        if new != one.name and new in self._index():
            raise InvalidArgumentError(f"there is an instruction {new!r} already")
        old, one.name = one.name, new
        if one.opcode == "parameter":
            shapes = [computation.program_shape]
            if self._is_entry(computation):
                shapes.append(self._proto.host_program_shape)
            for shape in shapes:
                names = shape.parameter_names
                if 0 <= one.parameter_number < len(names) and names[one.parameter_number] == old:
                    names[one.parameter_number] = new
        assignment = self._whole.buffer_assignment
        for location in _locations(assignment):
            if location.instruction_name == old:
                location.instruction_name = new
        for trace in assignment.heap_simulator_traces:
            for event in trace.events:
                if event.instruction_name == old:
                    event.instruction_name = new
        self._places = None
        return self

    def rename_computation(self, name: str, new: str) -> Editor:
        """Gives a computation another name. Raises as `rename`."""
        computation = self._computation(name)
        _check_name(new)
        if any(one.name == new for one in self._proto.computations if one.id != computation.id):
            raise InvalidArgumentError(f"there is a computation {new!r} already")
        old, computation.name = computation.name, new
        if self._is_entry(computation):
            self._proto.entry_computation_name = new
        for trace in self._whole.buffer_assignment.heap_simulator_traces:
            for event in trace.events:
                if event.computation_name == old:
                    event.computation_name = new
        return self

    # -- layouts ------------------------------------------------------------------------------

    def set_layout(self, name: str, layout: Layout | str, index: Sequence[int] = ()) -> Editor:
        """Gives an instruction's array another layout; `index` names the array within a tuple.

        Signatures follow, and the elements of a constant move. Other instructions stay as they are, and a buffer assignment, which is no
        longer true, goes. Raises InvalidShapeError if the layout does not fit.
        """
        computation, one = self._find(name)
        wanted = Layout.parse(layout) if isinstance(layout, str) else layout
        before = Shape.from_proto(one.shape)
        shape = _with_layout(before, wanted, tuple(index))
        literal = None
        if one.opcode == "constant" and one.HasField("literal"):
            literal = _relaid(one.literal, wanted, tuple(index))
        one.shape.CopyFrom(shape.to_proto())
        if literal is not None:
            one.literal.CopyFrom(literal)
        for declared in self._declared(computation, one):
            declared.CopyFrom(one.shape)
        self._drop_assignment()
        return self

    def _declared(self, computation: xla.HloComputationProto, one: xla.HloInstructionProto) -> Iterator[xla.ShapeProto]:
        # Where signatures repeat the shape of a parameter or the root.
        signatures = [computation.program_shape] if computation.HasField("program_shape") else []
        if self._is_entry(computation) and self._proto.HasField("host_program_shape"):
            signatures.append(self._proto.host_program_shape)
        for signature in signatures:
            if one.opcode == "parameter" and 0 <= one.parameter_number < len(signature.parameters):
                yield signature.parameters[one.parameter_number]
            if one.id & LOCAL_ID == computation.root_id & LOCAL_ID:
                yield signature.result

    # -- deleting -----------------------------------------------------------------------------

    def delete(self, name: str, replace_with: str | None = None) -> Editor:
        """Takes an instruction out of its computation, its schedule and control dependencies.

        What waited for it now waits for what it waited for. `replace_with` is an instruction of the same computation and shape that
        its users use instead, and that becomes the root if it was. Computations that nothing calls any more go with it, and so does
        a buffer assignment, which is no longer true.

        Raises InvalidArgumentError for a parameter, for an instruction with users or a root without `replace_with`, and for a
        replacement that does not fit or depends on it.
        """
        computation, one = self._find(name)
        if one.opcode == "parameter":
            raise InvalidArgumentError(f"{name!r} is a parameter: the computation's callers give it a value")
        local = one.id & LOCAL_ID
        is_root = computation.root_id & LOCAL_ID == local
        users = [user for user in computation.instructions if any(i & LOCAL_ID == local for i in user.operand_ids)]
        target = None if replace_with is None else self._replacement(computation, one, replace_with)
        if target is None and (users or is_root):
            what = f"used by {users[0].name!r}" if users else f"the root of {computation.name!r}"
            raise InvalidArgumentError(f"{name!r} is {what}: say by `replace_with` what takes its place")
        if target is not None:
            for user in users:
                user.operand_ids[:] = [target.id if i & LOCAL_ID == local else i for i in user.operand_ids]
            if is_root:
                computation.root_id = target.id
                for declared in self._declared(computation, target):
                    declared.CopyFrom(target.shape)
        inherited = list(one.control_predecessor_ids)
        for other in computation.instructions:
            waits = [i for i in other.control_predecessor_ids if i & LOCAL_ID != local]
            if len(waits) != len(other.control_predecessor_ids):
                known = {i & LOCAL_ID for i in waits} | {other.id & LOCAL_ID}
                other.control_predecessor_ids[:] = [*waits, *(i for i in inherited if i & LOCAL_ID not in known)]
        for key, sequence in self._proto.schedule.sequences.items():
            if key & LOCAL_ID == computation.id & LOCAL_ID:
                sequence.instruction_ids[:] = [i for i in sequence.instruction_ids if i & LOCAL_ID != local]
        called = [i & LOCAL_ID for i in one.called_computation_ids]
        place = next(i for i, other in enumerate(computation.instructions) if other.id & LOCAL_ID == local)
        del computation.instructions[place]
        if target is not None and users:
            self._move_before_users(computation, target, users)
        self._drop_uncalled(called)
        self._drop_assignment()
        self._places = None
        return self

    def _replacement(
        self, computation: xla.HloComputationProto, one: xla.HloInstructionProto, name: str
    ) -> xla.HloInstructionProto:
        owner, target = self._find(name)
        if owner.id != computation.id:
            raise InvalidArgumentError(
                f"{name!r} is in computation {owner.name!r}, {one.name!r} in {computation.name!r}"
            )
        ours, theirs = Shape.from_proto(one.shape), Shape.from_proto(target.shape)
        if not compatible(ours, theirs):
            raise InvalidArgumentError(f"{name!r} is {theirs}, {one.name!r} is {ours}")
        if one.id & LOCAL_ID in _needed(computation, target):
            raise InvalidArgumentError(f"{name!r} needs {one.name!r} itself")
        return target

    @staticmethod
    def _move_before_users(
        computation: xla.HloComputationProto, target: xla.HloInstructionProto, users: Iterable[xla.HloInstructionProto]
    ) -> None:
        # Operands stand before their users: a replacement from further on comes forward, with all that it needs.
        waiting = {user.id & LOCAL_ID for user in users}
        order = [other.id & LOCAL_ID for other in computation.instructions]
        first = min(order.index(local) for local in waiting)
        needed = _needed(computation, target)
        late = [local for local in order[first:] if local in needed and local not in waiting]
        if not late:
            return
        moved = set(late)
        rest = [local for local in order if local not in moved]
        at = next(i for i, local in enumerate(rest) if local in waiting)
        places = {local: i for i, local in enumerate([*rest[:at], *late, *rest[at:]])}
        computation.instructions.sort(key=lambda other: places[other.id & LOCAL_ID])

    def _drop_uncalled(self, candidates: list[int]) -> None:
        while candidates:
            local = candidates.pop()
            called = (
                i & LOCAL_ID for c in self._proto.computations for o in c.instructions for i in o.called_computation_ids
            )
            if local == self._proto.entry_computation_id & LOCAL_ID or local in set(called):
                continue
            for place, computation in enumerate(self._proto.computations):
                if computation.id & LOCAL_ID == local:
                    candidates += [i & LOCAL_ID for one in computation.instructions for i in one.called_computation_ids]
                    for key in [key for key in self._proto.schedule.sequences if key & LOCAL_ID == local]:
                        del self._proto.schedule.sequences[key]
                    del self._proto.computations[place]
                    break

    # -- finding ------------------------------------------------------------------------------

    def _drop_assignment(self) -> None:
        self._whole.ClearField("buffer_assignment")

    def _is_entry(self, computation: xla.HloComputationProto) -> bool:
        return computation.id & LOCAL_ID == self._proto.entry_computation_id & LOCAL_ID

    def _index(self) -> dict[str, tuple[xla.HloComputationProto, xla.HloInstructionProto]]:
        if self._places is None:
            self._places = {}
            for computation in self._proto.computations:
                for one in computation.instructions:
                    self._places.setdefault(one.name, (computation, one))
        return self._places

    def _find(self, name: str) -> tuple[xla.HloComputationProto, xla.HloInstructionProto]:
        found = self._index().get(name.removeprefix("%"))
        if found is None:
            message = f"module {self._proto.name!r} has no instruction {name!r}"
            raise NotFoundError(message, kind="instruction", name=name, field="instruction")
        return found

    def _computation(self, name: str) -> xla.HloComputationProto:
        for computation in self._proto.computations:
            if computation.name == name.removeprefix("%"):
                return computation
        message = f"module {self._proto.name!r} has no computation {name!r}"
        raise NotFoundError(message, kind="computation", name=name, field="computation")


def _check_name(name: str) -> None:
    if not name or safe_name(name) != name:
        raise InvalidArgumentError(f"{name!r} is no name: letters, digits and _.- after a letter or _")


def _needed(computation: xla.HloComputationProto, one: xla.HloInstructionProto) -> set[int]:
    # The local ids of an instruction and of all that it needs, directly or not.
    by_id = {other.id & LOCAL_ID: other for other in computation.instructions}
    found: set[int] = set()
    rest = [one.id & LOCAL_ID]
    while rest:
        local = rest.pop()
        if local not in found and local in by_id:
            found.add(local)
            rest += [i & LOCAL_ID for i in by_id[local].operand_ids]
            rest += [i & LOCAL_ID for i in by_id[local].control_predecessor_ids]
    return found


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


def _relaid(literal: xla.LiteralProto, layout: Layout, index: tuple[int, ...]) -> xla.LiteralProto:
    """The literal with the elements of one array in the order of another layout."""
    made = xla.LiteralProto()
    made.CopyFrom(literal)
    if index:
        made.shape.CopyFrom(_with_layout(Shape.from_proto(literal.shape), layout, index).to_proto())
        made.tuple_literals[index[0]].CopyFrom(_relaid(literal.tuple_literals[index[0]], layout, index[1:]))
        return made
    shape = _with_layout(Shape.from_proto(literal.shape), layout, ()).to_proto()
    data = raw(literal)
    before, after = row_major_positions(literal.shape), row_major_positions(shape)
    count = len(before or after or ())
    if count:
        width = len(data) // count
        elements = [data[i * width : (i + 1) * width] for i in range(count)]
        if before is not None:
            logical = [b""] * count
            for place, element in zip(before, elements, strict=True):
                logical[place] = element
            elements = logical
        data = b"".join([elements[place] for place in after] if after is not None else elements)
    made = from_raw(shape, data)
    made.dynamic_sizes.extend(literal.dynamic_sizes)
    return made
