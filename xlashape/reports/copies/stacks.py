"""Copies that XLA makes for arrays that a loop takes apart and stacks again (`xlashape.reports.memory.restacked`): of
the stack into the memory of the argument that is donated for it, or that an outer loop keeps it in, and of what the
stack is before the loop. With the array in the carry of the loop there is one array, and no copy."""

from __future__ import annotations

from collections.abc import Iterable

from xlashape.hlo import HloInstruction, HloModule, Opcode
from xlashape.hlo.flow import Flow, Role, Value
from xlashape.reports.copies.causes import COPY_INSERTION, CopyCause, Ends, output_text, parameter_text, user_text
from xlashape.reports.copies.edits import Edit, Removal
from xlashape.reports.copies.movers import Mover, relayouts
from xlashape.reports.memory.restacked import Restacked, carry_text, restacked

_COPIES = (Opcode.COPY, Opcode.COPY_START)


class Stacks:
    """The arrays of a module that loops take apart and stack again, where both are to be in the same memory."""

    def __init__(self, module: HloModule, flow: Flow, movers: Iterable[Mover]) -> None:
        self._flow = flow
        self._loops: dict[HloInstruction, list[Restacked]] = {}
        if any(_may_be_of_a_stack(mover) for mover in movers):
            for each in restacked(module):
                if each.shares:
                    self._loops.setdefault(each.loop, []).append(each)
        self._edits = {loop: _edits(arrays) for loop, arrays in self._loops.items()}

    def removal(self, mover: Mover, ends: Ends) -> Removal | None:
        """The edits that remove a copy of a stack; None for other movers."""
        array = self._stack(mover, ends) or self._begun(mover, ends)
        return None if array is None else Removal(self._edits[array.loop], False)

    def cause(self, mover: Mover, ends: Ends, known: CopyCause) -> CopyCause:
        """The cause of a copy of a stack into the memory of what is taken apart; for other movers the one that is
        known."""
        array = self._stack(mover, ends) if known.kind == COPY_INSERTION else None
        if array is None:
            return known
        where = "an array" if array.parameter is None else parameter_text(array.parameter)
        memory = "that the outer loop keeps it in" if array.output is None else "of the argument, which is donated for"
        by = "the state of the outer loop" if array.output is None else output_text(array.output)
        loop = user_text(array.loop)
        text = f"{loop[:1].upper()}{loop[1:]} takes {where} apart and stacks its new parts in a second array, which is "
        text += f"copied into the memory {memory}" + ("" if array.output is None else f" {by}")
        return known._replace(forced_by=by, text=f"{text}.", advice="")

    def _stack(self, mover: Mover, ends: Ends) -> Restacked | None:
        """The array whose stack a mover copies to where it is wanted."""
        if not self._loops or not _may_be_of_a_stack(mover):
            return None
        source = ends.source
        while source.instruction.opcode in _COPIES:
            source = self._flow.source(source.instruction.operands[0])[0]
        for array in self._loops.get(source.instruction, ()):
            if source == Value(array.loop, (array.stacked,)):
                is_wanted = all(
                    (use.role is Role.OUTPUT and use.at == array.output)
                    or (use.role is Role.CARRY and array.output is None)
                    or use.user.opcode in _COPIES
                    for use in ends.uses
                )
                return array if is_wanted else None
        return None

    def _begun(self, mover: Mover, ends: Ends) -> Restacked | None:
        """The array whose stack begins as what a mover copies."""
        if not self._loops or not _may_be_of_a_stack(mover) or len(ends.uses) != 1:
            return None
        use = ends.uses[0]
        arrays = self._loops.get(use.user, ()) if use.role is Role.OPERAND else ()
        return next((array for array in arrays if use.at == (array.stacked,)), None)


def _may_be_of_a_stack(mover: Mover) -> bool:
    return mover.row.opcode in _COPIES and not relayouts(mover.row)


def _edits(arrays: list[Restacked]) -> tuple[Edit, ...]:
    """An edit for each array of a loop, with one text for all."""
    text = carry_text(arrays)
    numbers = dict.fromkeys([None if each.parameter is None else each.parameter.number for each in arrays])
    return tuple([Edit("carry", number, None, None, text) for number in numbers])
