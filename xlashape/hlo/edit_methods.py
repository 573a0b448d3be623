"""The methods that edit an instruction or a computation in place. `HloInstruction` and `HloComputation` derive from
these classes.

`xlashape.hlo.editing.edits` does the work. It stands on files above this one, so the module gives it: `edits()`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from xlashape.hlo.ops.opcode import Opcode
from xlashape.shape import Layout, Shape

if TYPE_CHECKING:  # Python itself has it from 3.11 on
    from typing_extensions import Self

_Instruction = TypeVar("_Instruction")


class InstructionEdits:
    """The edits of an instruction."""

    __slots__ = ()

    computation: Any

    def replace_uses(self, replacement: Self | str, users: Iterable[Self | str] | None = None) -> None:
        """Makes users of this instruction take the result of `replacement` instead. With `users`, only these; without,
        all users, and `replacement` becomes the root if this instruction was the root.

        `replacement` may be computed from this instruction: instructions that `replacement` needs keep their operands.
        Instructions may be given by name. Raises InvalidArgumentError for a replacement of another shape or
        computation, and for one of `users` that the replacement needs.

        >>> from xlashape.hlo import HloModule
        >>> module = HloModule.parse(
        ...     "ENTRY e { p = f32[4] parameter(0)  c = f32[4] copy(p)  ROOT n = f32[4] negate(c) }"
        ... )
        >>> module.instruction("c").replace_uses("p")
        >>> module.entry.root.to_text(), module.instruction("p").users
        ('%n = f32[4]{0} negate(%p)', (<HloInstruction 'c': copy>, <HloInstruction 'n': negate>))
        """
        self.computation.module.edits().replace_uses(self, replacement, users)

    def set_operands(self, operands: Iterable[Self | str]) -> None:
        """Gives the instruction other operands, in order. The shape stays: `rewrite` and `set_shape` change it.

        Raises InvalidArgumentError for too many or too few, for instructions of other computations, and for operands
        that need the instruction itself.
        """
        self.computation.module.edits().set_operands(self, operands)

    def set_opcode(self, opcode: Opcode | str) -> None:
        """Gives the instruction another opcode, with the same operands, attributes and shape: `subtract` for `add`.

        Raises InvalidArgumentError if the opcode does not take these operands or attributes, for an unknown opcode, for
        a parameter, a constant and a step of an asynchronous operation.
        """
        self.computation.module.edits().set_opcode(self, opcode)

    def set_attribute(self, attribute: str, value: Any) -> None:
        """Gives the instruction another value of an attribute, or none for None: `set_attribute("dimensions", (1, 0))`.

        `attribute` is a name as in `attributes`. `value` is a typed value as there, or its HLO text: `"{size=3x3}"` for
        a window. An attribute that names computations, such as `to_apply`, takes a computation or its name, or a list.
        The shape stays: `set_shape` changes it. Raises InvalidArgumentError for an attribute that the opcode does not
        have, for None if the opcode needs the attribute, and for an invalid value.

        >>> from xlashape.hlo import HloModule
        >>> module = HloModule.parse(
        ...     "ENTRY e { p = f32[4,4] parameter(0)  ROOT t = f32[4,4] transpose(p), dimensions={1,0} }"
        ... )
        >>> module.entry.root.set_attribute("dimensions", (0, 1))
        >>> module.entry.root.attributes.dimensions
        (0, 1)
        """
        self.computation.module.edits().set_attribute(self, attribute, value)

    def set_shape(self, shape: Shape | str) -> None:
        """Gives the result another shape, also in the signatures of the computation.

        Raises InvalidArgumentError for a constant, whose elements would not fit: use `rewrite`.
        """
        self.computation.module.edits().set_shape(self, shape)

    def set_layout(self, layout: Layout | str, index: Sequence[int] = ()) -> None:
        """Gives the result another layout. For a tuple, `index` says which array gets the layout.

        Signatures get the layout too, and the elements of a constant are reordered. Other instructions stay as they
        are. Raises InvalidShapeError if the layout does not fit the array.
        """
        self.computation.module.edits().set_layout(self, layout, index)

    def rewrite(self, text: str) -> None:
        """Gives the instruction the opcode, operands, attributes and shape of `text`, such as `multiply(p, q)`.

        The instruction keeps its name, users and control predecessors. Metadata, frontend attributes and sharding are
        kept where the text has none; the sharding only if the dimensions stay. `text` may begin with a shape, and with
        the name and `=`. Raises ParseError with lines and columns of `text`, InvalidArgumentError for a parameter, and
        for operands that need the instruction itself.
        """
        self.computation.module.edits().rewrite(self, text)

    def rename(self, name: str) -> None:
        """Renames the instruction, also in signatures and in the buffer assignment. Raises InvalidArgumentError if an
        instruction of the module has the name already, or if it is not a valid name."""
        self.computation.module.edits().rename(self, name)

    def delete(self, replace_with: Self | str | None = None) -> None:
        """Removes the instruction from its computation, the schedule and control dependencies.

        Instructions that must run after it must then run after its control predecessors. `replace_with` is an
        instruction of the same computation and shape: users take its result instead, and it becomes the root if this
        instruction was the root. Computations that are no longer called are removed too.

        Raises InvalidArgumentError for a parameter, for an instruction with users or a root without `replace_with`, and
        for a replacement that does not fit or depends on this instruction.
        """
        self.computation.module.edits().delete(self, replace_with)


class ComputationEdits(Generic[_Instruction]):
    """The edits of a computation, whose instructions are of the class `_Instruction`."""

    __slots__ = ()

    module: Any

    def insert(self, text: str, before: _Instruction | str | None = None) -> _Instruction:
        """Adds an instruction, a line of HLO text: `n = f32[4] negate(p)`, and returns it. With ROOT it becomes the
        root. The shape may be left out where it follows from the operands.

        The instruction goes before the instruction `before`, or else after its last operand. Raises ParseError with
        lines and columns of `text`, InvalidArgumentError for a name that is taken or missing, and for a parameter.

        >>> from xlashape.hlo import HloModule
        >>> module = HloModule.parse("ENTRY e { p = f32[4] parameter(0)  ROOT n = f32[4] negate(p) }")
        >>> twice = module.entry.insert("twice = add(n, n)")
        >>> module.entry.set_root(twice)
        >>> [each.to_text() for each in module.entry.instructions][1:]
        ['%n = f32[4]{0} negate(%p)', '%twice = f32[4]{0} add(%n, %n)']
        """
        return self.module.edits().insert(self, text, before)

    def insert_instruction(
        self,
        name: str,
        opcode: Opcode | str,
        operands: Sequence[_Instruction | str] = (),
        *,
        shape: Shape | str | None = None,
        attributes: Mapping[str, Any] = MappingProxyType({}),
        before: _Instruction | str | None = None,
    ) -> _Instruction:
        """Adds an instruction as `insert` does, from typed values in place of text, and returns it. The shape is
        inferred from the operands unless it is given.

        `attributes` are values by name, as for `HloInstruction.set_attribute`. Raises InvalidArgumentError for operands
        or attributes that do not fit the opcode.

        >>> from xlashape.hlo import HloModule
        >>> module = HloModule.parse("ENTRY e { p = f32[4,8] parameter(0)  ROOT n = f32[4,8] negate(p) }")
        >>> t = module.entry.insert_instruction("t", "transpose", ["n"], attributes={"dimensions": (1, 0)})
        >>> t.to_text(print_percent=False)
        't = f32[8,4]{0,1} transpose(n), dimensions={1,0}'
        """
        return self.module.edits().insert_instruction(self, name, opcode, operands, shape, attributes, before)

    def set_root(self, root: _Instruction | str) -> None:
        """Makes an instruction the root."""
        self.module.edits().set_root(self, root)

    def rename(self, name: str) -> None:
        """Renames the computation. Raises InvalidArgumentError if another has the name, or if it is not valid."""
        self.module.edits().rename_computation(self, name)

    def replace_calls(self, replacement: Self | str) -> None:
        """Makes every instruction that calls this computation call `replacement` instead. Raises InvalidArgumentError
        if `replacement` is the entry, or calls one of the callers."""
        self.module.edits().replace_calls(self, replacement)
