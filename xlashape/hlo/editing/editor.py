"""Editor: changes to a module that keep every reference consistent.

    edited = (
        Editor(module)
        .rewrite("add.3", "multiply(p, q)")                     # another opcode, operands, attributes, shape
        .insert("twice = f32[4] add(add.3, add.3)")             # a line of HLO text
        .replace_uses("add.3", "twice")
        .remove_dead()
        .module()                                               # verified
    )
    edited.save("edited.hlo")

The editor works on a copy of the module. Edits by text take HLO text, in which the shape of a result may be left out
where it follows from the operands.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from xlashape.errors import InvalidArgumentError, InvalidModuleError
from xlashape.hlo.editing.draft import (
    Draft,
    check_independent,
    check_name,
    dead_instructions,
    dependencies,
    keep_unsaid,
    local,
    pass_on_control_predecessors,
    rename_in_assignment,
    uncalled_computations,
)
from xlashape.hlo.editing.fragment import (
    Fragment,
    literal_with_layout,
    parse_computations,
    parse_instruction,
    shape_with_layout,
    split_line,
    words_of,
)
from xlashape.hlo.editing.typed_edits import new_instruction, with_attribute, with_opcode
from xlashape.hlo.module import HloModule
from xlashape.hlo.module_proto.structure import LOCAL_ID
from xlashape.hlo.ops.opcode import Opcode
from xlashape.hlo.ops.registry import operation_of
from xlashape.hlo.verifier import Problem, verify
from xlashape.proto import xla
from xlashape.shape import Layout, Shape
from xlashape.shape.value.shape import compatible_shapes

_SHOWN = 20  # problems in an error


class Editor:
    """Edits a copy of a module. Methods return the editor, so that they chain. A method that raises changes nothing.

    Methods take the names of instructions and computations, with or without `%`. Every edit of instructions keeps
    schedule, control dependencies and signatures consistent, and removes the buffer assignment, which no longer fits.

    >>> module = HloModule.parse("ENTRY e { p = f32[4] parameter(0)  c = f32[4] copy(p)  ROOT n = f32[4] negate(c) }")
    >>> edited = Editor(module).rewrite("n", "add(c, p)").delete("c", replace_with="p").rename("n", "sum").module()
    >>> [instruction.to_text() for instruction in edited.instructions()]
    ['%p = f32[4]{0} parameter(0)', '%sum = f32[4]{0} add(%p, %p)']
    """

    def __init__(self, module: HloModule) -> None:
        # The check is for callers without types.
        if not isinstance(module, HloModule):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InvalidArgumentError(f"module takes an HloModule, not {type(module).__name__}", field="module")
        self._module = module
        self._draft = Draft(module)

    def problems(self) -> tuple[Problem, ...]:
        """The rules that the module breaks as it is now, as `xlashape.hlo.verify` finds them."""
        return verify(self._draft.proto)

    def module(self, *, check: bool = True) -> HloModule:
        """The edited module, as a copy. Raises InvalidModuleError with the rules that the edits broke; rules that the
        module broke before do not count.

        `check=False` only checks that the ids are consistent.
        """
        problems = self.problems() if check else ()
        if problems:
            before = Counter(map(str, verify(self._module)))
            broken = [str(problem) for problem in problems if not _taken(before, str(problem))]
            if broken:
                more = f"\n… and {len(broken) - _SHOWN} more" if len(broken) > _SHOWN else ""
                raise InvalidModuleError("\n".join(broken[:_SHOWN]) + more)
        return self._draft.module()

    # -- instructions --------------------------------------------------------------------------

    def rewrite(self, name: str, text: str) -> Editor:
        """Gives an instruction the opcode, operands, attributes and shape of `text`, such as `multiply(p, q)`.

        The instruction keeps its name, users and control predecessors. Metadata, frontend attributes and sharding are
        kept where the text has none; the sharding only if the dimensions stay. `text` may begin with a shape, and with
        the name and `=`. Raises ParseError with lines and columns of `text`, InvalidArgumentError for a parameter, and
        for operands that need the instruction itself.
        """
        computation, instruction = self._draft.find(name)
        if instruction.opcode == Opcode.PARAMETER:
            raise InvalidArgumentError(f"{name!r} is a parameter: the computation's callers give it a value")
        line = split_line(text)
        if line.name not in ("", instruction.name):
            raise InvalidArgumentError(
                f"the text names {line.name!r}, not {instruction.name!r}: use rename", field="text"
            )
        fragment = parse_instruction(self._draft, computation, instruction.name, line)
        new = fragment.instruction
        check_independent(computation, instruction, [*new.operand_ids, *new.control_predecessor_ids])
        new.id = instruction.id
        keep_unsaid(instruction, new)
        self._add_computations(fragment)
        instruction.CopyFrom(new)
        self._changed(computation, instruction)
        return self

    def insert(self, text: str, *, before: str | None = None, computation: str | None = None) -> Editor:
        """Adds an instruction, a line of HLO text: `n = f32[4] negate(p)`. With ROOT it becomes the root of its
        computation.

        The instruction goes into `computation`, or else the computation of `before`, or else that of its operands, or
        else the entry. It goes before the instruction `before`, or else after its last operand. Raises ParseError with
        lines and columns of `text`, InvalidArgumentError for a name that is taken or missing, for a parameter, or for
        operands of several computations.
        """
        line = split_line(text)
        if not line.name:
            raise InvalidArgumentError(f"{text.strip()[:60]!r} has no name: write `name = …`", field="text")
        self._draft.check_new_name(line.name)
        owner = self._owner(line.rest, before, computation)
        anchor = None if before is None else self._draft.find_in(owner, before)
        fragment = parse_instruction(self._draft, owner, line.name, line)
        new = fragment.instruction
        needed = [*new.operand_ids, *new.control_predecessor_ids]
        if anchor is not None and local(anchor) in dependencies(owner, [i & LOCAL_ID for i in needed]):
            raise InvalidArgumentError(f"{line.name!r} needs {before!r}: it cannot be before it", field="before")
        new.id = self._draft.new_instruction_id(owner)
        self._add_computations(fragment)
        self._draft.place(owner, new, anchor)
        if line.is_root:
            owner.root_id = new.id
        self._changed(owner, new)
        return self

    def set_opcode(self, name: str, opcode: Opcode | str) -> Editor:
        """Gives an instruction another opcode, with the same operands, attributes and shape: `subtract` for `add`.

        Raises InvalidArgumentError if the opcode does not take these operands or attributes, for an unknown opcode, for
        a parameter, a constant and a step of an asynchronous operation.
        """
        computation, instruction = self._draft.find(name)
        if instruction.opcode == Opcode.PARAMETER:
            raise InvalidArgumentError(f"{name!r} is a parameter: the computation's callers give it a value")
        instruction.CopyFrom(with_opcode(self._draft, computation, instruction, opcode))
        self._mark_called(instruction)
        self._changed(computation, instruction)
        return self

    def set_attribute(self, name: str, attribute: str, value: Any) -> Editor:
        """Gives an instruction another value of an attribute, or none for None: `set_attribute("t", "dimensions", (1,
        0))`.

        `attribute` is a name as in `HloInstruction.attributes`. `value` is a typed value as there, or its HLO text:
        `"{size=3x3}"` for a window. An attribute that names computations, such as `to_apply`, takes the name of a
        computation, or a list of names. The shape stays: `set_shape` changes it. Raises InvalidArgumentError for an
        attribute that the opcode does not have, for None if the opcode needs the attribute, and for an invalid value.

        >>> module = HloModule.parse(
        ...     "ENTRY e { p = f32[4,4] parameter(0)  ROOT t = f32[4,4] transpose(p), dimensions={1,0} }"
        ... )
        >>> Editor(module).set_attribute("t", "dimensions", (0, 1)).module().entry.root.attributes.dimensions
        (0, 1)
        """
        computation, instruction = self._draft.find(name)
        instruction.CopyFrom(with_attribute(self._draft, computation, instruction, attribute, value))
        self._mark_called(instruction)
        self._changed(computation, instruction)
        return self

    def insert_instruction(
        self,
        name: str,
        opcode: Opcode | str,
        operands: Sequence[str] = (),
        *,
        shape: Shape | str | None = None,
        attributes: Mapping[str, Any] | None = None,
        before: str | None = None,
        computation: str | None = None,
    ) -> Editor:
        """Adds an instruction as `insert` does, from typed values in place of text. The shape is inferred from the
        operands unless it is given.

        `attributes` are values by name, as for `set_attribute`. The instruction goes into `computation`, or else the
        computation of `before`, or else that of its first operand, or else the entry. Raises InvalidArgumentError for
        operands or attributes that do not fit the opcode.

        >>> module = HloModule.parse("ENTRY e { p = f32[4,8] parameter(0)  ROOT n = f32[4,8] negate(p) }")
        >>> edited = (
        ...     Editor(module)
        ...     .insert_instruction("t", "transpose", ["n"], attributes={"dimensions": (1, 0)})
        ...     .set_root("t")
        ...     .module()
        ... )
        >>> edited.entry.root.to_text(print_percent=False)
        't = f32[8,4]{0,1} transpose(n), dimensions={1,0}'
        """
        if isinstance(operands, str):
            raise InvalidArgumentError("operands takes a list of names, not text", field="operands")
        self._draft.check_new_name(name)
        first = operands[0] if operands and computation is None and before is None else before
        owner = self._owner("", first, computation)
        anchor = None if before is None else self._draft.find_in(owner, before)
        new = new_instruction(self._draft, owner, opcode, operands, shape, attributes or {})
        if anchor is not None and local(anchor) in dependencies(owner, [i & LOCAL_ID for i in new.operand_ids]):
            raise InvalidArgumentError(f"{name!r} needs {before!r}: it cannot be before it", field="before")
        new.name, new.id = name, self._draft.new_instruction_id(owner)
        self._draft.place(owner, new, anchor)
        self._mark_called(new)
        self._changed(owner, new)
        return self

    def set_operands(self, name: str, operands: Iterable[str]) -> Editor:
        """Gives an instruction other operands, in order. The shape stays: `rewrite` and `set_shape` change it.

        Raises InvalidArgumentError for too many or too few, for instructions of other computations, and for operands
        that need the instruction itself.
        """
        if isinstance(operands, str):
            raise InvalidArgumentError("operands takes a list of names, not text", field="operands")
        computation, instruction = self._draft.find(name)
        ids = [self._draft.find_in(computation, operand).id for operand in operands]
        least, most = operation_of(instruction.opcode).operands
        if not least <= len(ids) <= most:
            wanted = least if len(ids) < least else most
            raise InvalidArgumentError(
                f"{instruction.opcode} takes {wanted} operands, not {len(ids)}", field="operands"
            )
        check_independent(computation, instruction, ids)
        instruction.operand_ids[:] = ids
        self._changed(computation, instruction)
        return self

    def set_shape(self, name: str, shape: Shape | str) -> Editor:
        """Gives the result of an instruction another shape, also in the signatures of its computation.

        Raises InvalidArgumentError for a constant, whose elements would not fit: use `rewrite`.
        """
        computation, instruction = self._draft.find(name)
        if instruction.opcode == Opcode.CONSTANT:
            raise InvalidArgumentError(f"{name!r} is a constant, whose elements have its shape: use rewrite")
        instruction.shape.CopyFrom((Shape.parse(shape) if isinstance(shape, str) else shape).to_proto())
        self._changed(computation, instruction)
        return self

    def set_root(self, name: str) -> Editor:
        """Makes an instruction the root of its computation."""
        computation, instruction = self._draft.find(name)
        computation.root_id = instruction.id
        self._changed(computation, instruction)
        return self

    def replace_uses(self, name: str, replacement: str, *, users: Iterable[str] | None = None) -> Editor:
        """Makes users of the instruction `name` take the result of `replacement` instead. With `users`, only these;
        without, all users, and `replacement` becomes the root if `name` was the root.

        `replacement` may be computed from `name`: instructions that `replacement` needs keep their operands. Raises
        InvalidArgumentError for a replacement of another shape or computation, and for one of `users` that the
        replacement needs.
        """
        computation, instruction = self._draft.find(name)
        target = self._replacement(computation, instruction, replacement)
        needed = dependencies(computation, [local(target)])
        chosen = [self._draft.find_in(computation, user) for user in users] if users is not None else None
        for user in chosen or ():
            if local(user) in needed:
                raise InvalidArgumentError(f"{replacement!r} needs {user.name!r}", field="users")
        taking = [
            user for user in (chosen if chosen is not None else computation.instructions) if local(user) not in needed
        ]
        self._give(computation, instruction, target, taking, gives_root=users is None)
        return self

    def remove_dead(self) -> Editor:
        """Removes the instructions whose results nothing needs, and the computations that the entry does not call,
        directly or not.

        Parameters stay, and so do instructions that may do more than give a result: instructions that have a side
        effect, exchange data with other replicas, are asynchronous, have an unknown opcode, or are at either end of a
        control dependency.
        """
        draft = self._draft
        draft.remove_computations(uncalled_computations(draft.proto))
        dead = dead_instructions(draft.proto)
        for computation in draft.proto.computations:
            if local(computation) in dead:
                draft.remove(computation, dead[local(computation)])
        if dead:
            draft.remove_computations(uncalled_computations(draft.proto))
            draft.drop_assignment()
        return self

    # -- computations --------------------------------------------------------------------------

    def add_computations(self, text: str) -> Editor:
        """Adds computations in HLO text, such as `sum { a = f32[] parameter(0) ROOT c = f32[] negate(a) }`.

        They may call computations of the module. Their instructions are renamed where the module already has the name.
        Raises ParseError with lines and columns of `text`, InvalidArgumentError for a computation whose name the module
        already has.
        """
        computations, fused = parse_computations(self._draft, text)
        if not computations:
            raise InvalidArgumentError("the text has no computation", field="text")
        self._draft.add_computations(computations)
        self._mark_fused(fused)
        self._draft.settle_calls()
        return self

    def replace_calls(self, name: str, replacement: str) -> Editor:
        """Makes every instruction that calls the computation `name` call `replacement` instead. Raises
        InvalidArgumentError if `replacement` is the entry."""
        old, new = self._draft.computation(name), self._draft.computation(replacement)
        if self._draft.is_entry(new):
            raise InvalidArgumentError(f"{replacement!r} is the entry, which nothing may call")
        fused = False
        for computation in self._draft.proto.computations:
            for instruction in computation.instructions:
                ids = instruction.called_computation_ids
                if any(i & LOCAL_ID == local(old) for i in ids):
                    ids[:] = [new.id if i & LOCAL_ID == local(old) else i for i in ids]
                    fused = fused or instruction.opcode == Opcode.FUSION
        if fused and old.is_fusion_computation:
            self._mark_fused(frozenset((local(new),)))
            old.is_fusion_computation = old is new  # no fusion calls another one any more
        self._draft.settle_calls()
        self._draft.drop_assignment()
        return self

    # -- names --------------------------------------------------------------------------------

    def rename(self, name: str, new: str) -> Editor:
        """Renames an instruction, also in signatures and in the buffer assignment.

        Raises NotFoundError if no instruction is called `name`, InvalidArgumentError if `new` is taken or is not a
        valid name.
        """
        computation, instruction = self._draft.find(name)
        check_name(new)
        if new != instruction.name and new in self._draft.names():
            raise InvalidArgumentError(f"there is an instruction {new!r} already")
        old, instruction.name = instruction.name, new
        if instruction.opcode == Opcode.PARAMETER:
            signatures = [computation.program_shape]
            if self._draft.is_entry(computation):
                signatures.append(self._draft.proto.host_program_shape)
            number = instruction.parameter_number
            for signature in signatures:
                names = signature.parameter_names
                if 0 <= number < len(names) and names[number] == old:
                    names[number] = new
        rename_in_assignment(self._draft.hlo_proto.buffer_assignment, old, new)
        self._draft.forget_names()
        return self

    def rename_computation(self, name: str, new: str) -> Editor:
        """Renames a computation. Raises as `rename` does."""
        computation = self._draft.computation(name)
        check_name(new)
        if any(other.name == new for other in self._draft.proto.computations if other.id != computation.id):
            raise InvalidArgumentError(f"there is a computation {new!r} already")
        old, computation.name = computation.name, new
        if self._draft.is_entry(computation):
            self._draft.proto.entry_computation_name = new
        for trace in self._draft.hlo_proto.buffer_assignment.heap_simulator_traces:
            for event in trace.events:
                if event.computation_name == old:
                    event.computation_name = new
        return self

    # -- layouts ------------------------------------------------------------------------------

    def set_layout(self, name: str, layout: Layout | str, index: Sequence[int] = ()) -> Editor:
        """Gives the result of an instruction another layout. For a tuple, `index` says which array gets the layout.

        Signatures get the layout too, and the elements of a constant are reordered. Other instructions stay as they
        are. Raises InvalidShapeError if the layout does not fit the array.
        """
        computation, instruction = self._draft.find(name)
        new_layout = Layout.parse(layout) if isinstance(layout, str) else layout
        shape = shape_with_layout(Shape.from_proto(instruction.shape), new_layout, tuple(index))
        literal = None
        if instruction.opcode == Opcode.CONSTANT and instruction.HasField("literal"):
            literal = literal_with_layout(instruction.literal, new_layout, tuple(index))
        instruction.shape.CopyFrom(shape.to_proto())
        if literal is not None:
            instruction.literal.CopyFrom(literal)
        self._draft.declare(computation, instruction)
        self._draft.drop_assignment()
        return self

    # -- deleting -----------------------------------------------------------------------------

    def delete(self, name: str, replace_with: str | None = None) -> Editor:
        """Removes an instruction from its computation, its schedule and control dependencies.

        Instructions that must run after the removed one must then run after its control predecessors. `replace_with`
        names an instruction of the same computation and shape: users take its result instead, and it becomes the root
        if the removed instruction was the root. Computations that are no longer called are removed too.

        Raises InvalidArgumentError for a parameter, for an instruction with users or a root without `replace_with`, and
        for a replacement that does not fit or depends on the removed instruction.
        """
        draft = self._draft
        computation, instruction = draft.find(name)
        if instruction.opcode == Opcode.PARAMETER:
            raise InvalidArgumentError(f"{name!r} is a parameter: the computation's callers give it a value")
        local_id = local(instruction)
        users = [user for user in computation.instructions if any(i & LOCAL_ID == local_id for i in user.operand_ids)]
        target = None if replace_with is None else self._replacement(computation, instruction, replace_with)
        if target is None and (users or computation.root_id & LOCAL_ID == local_id):
            what = f"used by {users[0].name!r}" if users else f"the root of {computation.name!r}"
            raise InvalidArgumentError(f"{name!r} is {what}: name its replacement in `replace_with`")
        if target is not None and local_id in dependencies(computation, [local(target)]):
            raise InvalidArgumentError(f"{replace_with!r} depends on {name!r}")
        called_before = uncalled_computations(draft.proto)
        pass_on_control_predecessors(computation, instruction)
        if target is not None:
            self._give(computation, instruction, target, users, gives_root=True)
        draft.remove(computation, {local_id})
        draft.remove_computations(uncalled_computations(draft.proto) - called_before)
        draft.drop_assignment()
        return self

    # -- parts of edits -----------------------------------------------------------------------

    def _replacement(
        self, computation: xla.HloComputationProto, instruction: xla.HloInstructionProto, name: str
    ) -> xla.HloInstructionProto:
        """The instruction called `name`, which is to replace `instruction`. Raises InvalidArgumentError if it does not
        fit.
        """
        target = self._draft.find_in(computation, name)
        old_shape, new_shape = Shape.from_proto(instruction.shape), Shape.from_proto(target.shape)
        if not compatible_shapes(old_shape, new_shape):
            raise InvalidArgumentError(f"{name!r} is {new_shape}, {instruction.name!r} is {old_shape}")
        return target

    def _give(
        self,
        computation: xla.HloComputationProto,
        old: xla.HloInstructionProto,
        new: xla.HloInstructionProto,
        users: Iterable[xla.HloInstructionProto],
        *,
        gives_root: bool,
    ) -> None:
        """Makes `users` take the result of `new` in place of `old`. With `gives_root`, `new` also becomes the root if
        `old` was the root.
        """
        for user in users:
            if any(i & LOCAL_ID == local(old) for i in user.operand_ids):
                user.operand_ids[:] = [new.id if i & LOCAL_ID == local(old) else i for i in user.operand_ids]
        if gives_root and computation.root_id & LOCAL_ID == local(old):
            computation.root_id = new.id
        self._changed(computation, new)

    def _changed(self, computation: xla.HloComputationProto, instruction: xla.HloInstructionProto) -> None:
        """Makes the rest of the module consistent after a change of an instruction: signatures, the order of
        instructions and computations, and the buffer assignment, which is removed.
        """
        self._draft.declare(computation, instruction)
        self._draft.settle(computation)
        if instruction.called_computation_ids:
            self._draft.settle_calls()
        self._draft.drop_assignment()

    def _owner(self, text: str, before: str | None, computation: str | None) -> xla.HloComputationProto:
        """The computation that gets a new instruction: `computation`, or else that of the instruction `before`, or else
        that of the instructions which `text` names, or else the entry.
        """
        if computation is not None:
            return self._draft.computation(computation)
        if before is not None:
            return self._draft.find(before)[0]
        names = self._draft.names()
        owners = {local(names[word][0]): names[word][0] for word in sorted(words_of(text)) if word in names}
        if len(owners) > 1:
            listed = ", ".join([repr(owner.name) for owner in owners.values()])
            raise InvalidArgumentError(
                f"the text names instructions of {listed}: say which `computation`", field="computation"
            )
        if owners:
            return next(iter(owners.values()))
        return next(each for each in self._draft.proto.computations if self._draft.is_entry(each))

    def _add_computations(self, fragment: Fragment) -> None:
        """Adds the computations and payloads of a fragment, and marks the computations that it fuses."""
        self._draft.add_computations(fragment.computations)
        self._draft.proto.payloads.extend(fragment.payloads)
        self._mark_fused(fragment.fused)

    def _mark_called(self, instruction: xla.HloInstructionProto) -> None:
        if operation_of(instruction.opcode).fuses_called_computation:
            self._mark_fused(frozenset([number & LOCAL_ID for number in instruction.called_computation_ids]))

    def _mark_fused(self, fused: frozenset[int]) -> None:
        for computation in self._draft.proto.computations:
            if local(computation) in fused:
                computation.is_fusion_computation = True


def _taken(counted: Counter[str], text: str) -> bool:
    """Whether the count of a text is above 0. If so, the count goes down by one."""
    if counted[text] <= 0:
        return False
    counted[text] -= 1
    return True
