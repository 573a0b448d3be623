"""The layer of an instruction that the compiler gave no name, such as a copy between memory spaces, a conversion or a
slice that it inserted: that of what the result is for.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable
from typing import Any, Final

from xlashape.base.similar import stem_of
from xlashape.hlo.flow import Flow, Role, Value
from xlashape.hlo.ir import HloComputation, HloInstruction, ModuleData
from xlashape.hlo.ops.opcode import Opcode
from xlashape.hlo.ops.operation import ResultSource
from xlashape.limits import spend
from xlashape.reports.groups import argument_layer, in_one_pattern, layer_of
from xlashape.reports.origin import source_of
from xlashape.shape.xla_util.shape_util import get_leaf_shapes

_LINE: Final = re.compile(r":\d+$")
_MOST_VALUES: Final = 128
"""So many arrays are followed from an instruction to what it is for."""
_MOST_ARRAYS: Final = 16
"""So many arrays of the result of an instruction are followed."""


class Layers:
    """The layers of instructions that have no name with a layer. The modules must not change meanwhile.

    >>> text = '''HloModule m
    ... ENTRY e { w = f32[64] parameter(0), metadata={op_name="params['w']"}
    ...   start = (f32[64]{0:S(1)}, f32[64], u32[]) copy-start(w)
    ...   done = f32[64]{0:S(1)} copy-done(start)
    ...   ROOT r = f32[64] tanh(done), metadata={op_name="jit(f)/net/layer_3/tanh"} }'''
    >>> from xlashape.hlo import HloModule
    >>> module = HloModule.parse(text)
    >>> Layers().of(module.instruction("start"))
    'net/layer_3'
    """

    def __init__(self, module: ModuleData | None = None) -> None:
        self._module = module
        self._flows: dict[ModuleData, Flow] = {}
        self._known: dict[HloInstruction, str] = {}
        self._calling: dict[HloComputation, tuple[str, ...]] = {}
        self._naming: dict[ModuleData, bool] = {}

    def of_row(self, row: Any) -> str:
        """As `of`, for the row of a report on the module: by its attribute `instruction`, or by its name."""
        instruction = getattr(row, "instruction", None)
        if not isinstance(instruction, HloInstruction):
            name = instruction or getattr(row, "name", None)
            module, computation = self._module, getattr(row, "computation", None)
            if module is None or name is None:
                return ""
            instruction = module.instruction_by_name().get(name)
            if instruction is None and computation:  # several computations have the name
                instruction = module.computation(computation).by_name().get(name)
        return "" if instruction is None else self.of(instruction)

    def of(self, instruction: HloInstruction) -> str:
        """The layer of an instruction without the name of an operation: what the layers of all uses of its result have
        in common, else the layer of what calls its computation, else that of its operands. That of what calls its
        computation for a name without a layer, such as `relu`. Empty where none is known, for parameters, and for a
        name with a layer.

        A line of the program, or an argument, is as good as a layer. Uses are followed through further instructions
        without a name, tuples, calls and the iterations of loops.
        """
        name = source_of(instruction)[1]
        if layer_of(name) or instruction.opcode == Opcode.PARAMETER:
            return ""
        follows = not _is_named(name) and self._names_any(instruction)
        found = self._of_uses(instruction) if follows else ""
        found = found or self._of_callers(instruction.computation)
        return found or (self._of_operands(instruction) if follows else "")

    def _names_any(self, instruction: HloInstruction) -> bool:
        """Whether any instruction of the module names a layer, a line or an argument."""
        module = instruction.computation.module
        if module not in self._naming:
            self._naming[module] = any(
                each.has_metadata and self._said(each) for called in module.computations for each in called.instructions
            )
        return self._naming[module]

    def _said(self, instruction: HloInstruction) -> str:
        """The layer, line or argument that an instruction names itself; empty where it names none."""
        known = self._known.get(instruction)
        if known is None:
            source, name = source_of(instruction)
            if instruction.opcode == Opcode.PARAMETER:
                is_argument = instruction.computation is instruction.computation.module.entry
                known = argument_layer(name) if name and is_argument else ""
            else:
                known = (layer_of(name) or source) if _is_named(name) else ""
            self._known[instruction] = known
        return known

    def _flow(self, instruction: HloInstruction) -> Flow:
        module = instruction.computation.module
        flow = self._flows.get(module)
        if flow is None:
            flow = self._flows[module] = Flow(module)
        return flow

    def _of_uses(self, instruction: HloInstruction) -> str:
        """What the users of a result have in common, those behind instructions without a name included."""
        flow, found = self._flow(instruction), dict[str, None]()
        pending = deque(_arrays(instruction))
        seen = {*pending}

        def go(values: Iterable[Value]) -> None:
            for value in values:
                if value not in seen:
                    seen.add(value)
                    pending.append(value)

        while pending and len(seen) < _MOST_VALUES:
            for user, role, _, at, _ in flow.uses(*pending.popleft()):
                spend()
                if user.kind.row.source is ResultSource.STATE:
                    states = [called.parameters[0] for called in user.called_computations if called.parameters]
                    go([Value(each, at) for each in (user, *states)])
                elif role is Role.BRANCH:
                    go([Value(user, at)])
                elif role is Role.OPERAND:
                    said = self._said(user)
                    if said:
                        found[said] = None
                    else:
                        go(_arrays(user))
        return _common(found)

    def _of_callers(self, computation: HloComputation) -> str:
        """The layers of the instructions that call a computation, as one name; empty where none is known."""
        layers = self._layers_calling(computation)
        if len(layers) < 2:
            return next(iter(layers), "")
        return in_one_pattern(layers) or f"{stem_of(computation.name).strip('_')}, in {len(layers)} layers"

    def _layers_calling(self, computation: HloComputation) -> tuple[str, ...]:
        """The layers of the instructions that call a computation, directly or by way of others."""
        pending, begun = [computation], set[HloComputation]()
        while pending:
            each = pending[-1]
            calls = {call: layer_of(f"{call.metadata.op_name}/") for call in each.module.callers_of(each)}
            above = [call.computation for call, layer in calls.items() if not layer]
            further = [other for other in above if other not in self._calling and other not in begun]
            if each in self._calling or (each in begun and not further):
                pending.pop()
                found: dict[str, None] = {}
                for call, layer in calls.items():
                    found |= dict.fromkeys([layer] if layer else self._calling.get(call.computation, ()))
                self._calling.setdefault(each, tuple(found))
            begun.add(each)
            pending += further
        return self._calling[computation]

    def _of_operands(self, instruction: HloInstruction) -> str:
        """What the nearest instructions that make the operands and name a layer have in common."""
        flow = self._flow(instruction)
        level, seen = [instruction], {instruction}
        while level and len(seen) < _MOST_VALUES:
            operands = [operand for each in level for operand in each.operands[:_MOST_ARRAYS]]
            before = [flow.definition(operand).instruction for operand in operands]
            found = {self._said(each): None for each in before}
            if any(found):
                return _common([each for each in found if each])
            level = [each for each in dict.fromkeys(before) if each not in seen]
            seen.update(level)
        return ""


def _is_named(name: str) -> bool:
    """Whether a name is that of an operation or an argument, and not one that the compiler made of an instruction's."""
    return "/" in name or "[" in name


def _arrays(instruction: HloInstruction) -> list[Value]:
    return [Value(instruction, tuple(leaf.index)) for leaf in get_leaf_shapes(instruction.shape)[:_MOST_ARRAYS]]


def _common(layers: Iterable[str]) -> str:
    """The layer that all have; one name for layers that differ in their numbers alone; of others the scopes that all
    begin with. Different lines have nothing in common.
    """
    layers = dict.fromkeys(layers)
    if len(layers) > 1 and (pattern := in_one_pattern(layers)):
        return pattern
    parts = [[layer] if _LINE.search(layer) else layer.split("/") for layer in layers]
    same: list[str] = []
    for each in zip(*parts, strict=False):
        if len({*each}) > 1:
            break
        same.append(each[0])
    return "/".join(same)
