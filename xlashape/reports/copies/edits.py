"""The edits of a JAX program that remove copies. There are seven kinds:

    input-layout     another Format of an argument: it lies in memory as its users want it
    output-layout    another Format of a result: it lies in memory as it is computed
    input-order      an argument is handed over transposed, in the order of dimensions that its users transpose it to:
                     other letters in an einsum
    output-order     a result is returned in the order of dimensions in which it is computed
    donate           an argument is donated, so that it may be overwritten
    output-first     a result is returned before the others of its type and sizes, so that JAX gives it the memory of
                     the first donated argument
    carry            a donated array that a loop takes apart and stacks again is carried through the loop

A copy may need several edits at once, such as a layout and a donation, because without the copy the argument itself
would be overwritten. JAX gives the memory of the first donated argument to the first output of equal type and sizes,
the second to the second: so the donation of an argument may need that of an argument before it. With one array of an
argument, JAX donates them all: a suggestion states the donations of all that are of the type and sizes. A suggestion is
a set of edits with all copies that it removes. `is_exact` says that recompiling saves exactly these copies and their
bytes; otherwise other instructions share the buffer that changes, and the compiler may move the data elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from xlashape.errors import XlashapeError
from xlashape.hlo import HloInstruction, HloModule, Opcode
from xlashape.hlo.flow import Flow, Role, ValueUse
from xlashape.limits import spend
from xlashape.reports.copies.causes import (
    Ends,
    is_default,
    is_entry_parameter,
    library_operation,
    output_shape,
    output_text,
)
from xlashape.reports.copies.movers import Mover, array_or_none, layout_of, takes_more
from xlashape.reports.copies.old_values import comes_before
from xlashape.reports.donating import argument_name, how_to_donate
from xlashape.shape import Layout, Shape, ShapeIndex
from xlashape.shape.xla_util import shape_util

_MOST_STEPS = 200
"""The most instructions that a search looks at."""
_MOST_OTHERS = 32
"""The most other uses of an argument that are examined. Of an argument with more uses, another layout does not count as
exact, and no donation is suggested.
"""
_MOST_TOGETHER = 8
"""The most arguments that a suggestion donates so that one argument gets its output. Where that takes more, it donates
all arguments of the same type and sizes that JAX pairs as wanted.
"""

_MOST_NAMED = 3
"""The most arguments to donate that a text names."""


class Edit(NamedTuple):
    """One edit of a program."""

    kind: str
    """`input-layout`, `output-layout`, `input-order`, `output-order`, `donate`, `output-first` or `carry`."""
    parameter: int | None
    """The number of the module's parameter; None for an edit of an output alone."""
    output: tuple[int, ...] | None
    """The index of the output in the module's result; None for an edit of an argument alone."""
    order: tuple[int, ...] | None
    """The dimensions, major to minor: what `jax.experimental.layout.Layout` takes, or `jnp.transpose`. None for
    `donate`, `output-first` and `carry`.
    """
    text: str
    """The edit in JAX's words."""

    @property
    def short(self) -> str:
        """The edit in a short form for programs: `layout 0 (1, 0)`, `order {1} (0, 2, 1)`, `donate 0`, `first {1}`,
        `carry 0`."""
        what = self.kind.rpartition("-")[2]
        where = str(ShapeIndex(self.output or ())) if self.parameter is None else str(self.parameter)
        return f"{what} {where}" + ("" if self.order is None else f" {self.order}")


class Removal(NamedTuple):
    """The edits that together remove one copy."""

    edits: tuple[Edit, ...]
    is_exact: bool


def removal_of(flow: Flow, mover: Mover, ends: Ends) -> Removal | None:
    """The edits that remove a mover; None where none are known. `ends` is `ends_of(flow, mover)`."""
    chain = _Chain.of(mover) if mover.row.computation is flow.module.entry else None
    if chain is None:
        return None
    found = [each for each in (_by_input(flow, mover, ends, chain), _by_output(flow, ends, chain)) if each is not None]
    if not found:
        found = [each for each in (_by_donation(flow, mover, ends, chain),) if each is not None]
    # Best is an exact removal, then one of fewer edits, then one that changes an entry layout other than the default,
    # which the user must have chosen.
    return min(
        found, key=lambda each: (not each.is_exact, len(each.edits), not _undoes_choice(flow, each)), default=None
    )


def _undoes_choice(flow: Flow, removal: Removal) -> bool:
    """Whether the first edit of a layout replaces an entry layout other than the default one."""
    for edit in removal.edits:
        if edit.kind == "input-layout" and edit.parameter is not None:
            shape = flow.module.entry.parameters[edit.parameter].shape
            return shape.is_array and not is_default(shape)
        if edit.kind == "output-layout" and edit.output is not None:
            shape = output_shape(flow.module.entry.root, edit.output)
            return shape is not None and not is_default(shape)
    return False


class _Chain(NamedTuple):
    """The steps from the operand of a mover to its result, each of which only moves."""

    steps: tuple[HloInstruction, ...]
    """Copies, transposes, reshapes and bitcasts, in the order of execution: those in a fusion, or `mover.row` alone."""
    operand: HloInstruction
    """The operand of `mover.row` that is moved."""

    @staticmethod
    def of(mover: Mover) -> _Chain | None:
        """The steps of a mover; None where it also adds elements, leaves some out or puts arrays together, or has more
        than _MOST_STEPS steps.
        """
        row = mover.row
        if not mover.is_fusion:
            alone = row.opcode in (Opcode.COPY, Opcode.TRANSPOSE, Opcode.RESHAPE)
            return _Chain((row,), row.operands[0]) if alone else None
        instruction = row.called_computations[0].root
        steps: list[HloInstruction] = []
        for _ in range(_MOST_STEPS):
            spend(1)
            if instruction.opcode == Opcode.PARAMETER:
                number = instruction.number
                return _Chain(tuple(reversed(steps)), row.operands[number]) if 0 <= number < len(row.operands) else None
            moves = instruction.opcode in (Opcode.COPY, Opcode.TRANSPOSE, Opcode.RESHAPE, Opcode.BITCAST)
            if not moves or not instruction.operands:
                return None
            steps.append(instruction)
            instruction = instruction.operands[0]
        return None

    @property
    def transposes(self) -> bool:
        """Whether a step exchanges dimensions. XLA gives the operand of such a step the default layout, whatever layout
        the argument has."""
        return any(step.opcode == Opcode.TRANSPOSE for step in self.steps)

    @property
    def reshapes(self) -> bool:
        """Whether a step changes the dimensions themselves."""
        return any(step.opcode in (Opcode.RESHAPE, Opcode.BITCAST) for step in self.steps)

    @property
    def keeps_layout(self) -> bool:
        """Whether the result lies in memory as the operand does, so that a copy of the buffer is all that happens."""
        source, result = array_or_none(self.operand.shape), array_or_none(self.steps[-1].shape)
        if source is None or result is None:
            return False
        return backward(self.steps, result, source) == layout_of(source).minor_to_major


def backward(steps: Sequence[HloInstruction], result: Shape, source: Shape) -> tuple[int, ...] | None:
    """The order of the source in memory, minor to major, with which all steps are bitcasts that end in the layout of
    `result`; None where there is none."""
    order: tuple[int, ...] | None = layout_of(result).minor_to_major
    for step in reversed(steps):
        order = _before(step, order)
        if order is None:
            return None
    return order if sorted(order or ()) == list(range(source.rank)) else None


def forward(steps: Sequence[HloInstruction], source: Shape) -> tuple[int, ...] | None:
    """The order of the result in memory with which all steps are bitcasts of the source in its layout; None where there
    is none."""
    order: tuple[int, ...] | None = layout_of(source).minor_to_major
    for step in steps:
        order = _after(step, order)
        if order is None:
            return None
    return order


def _before(step: HloInstruction, order: tuple[int, ...] | None) -> tuple[int, ...] | None:
    """The order of a step's operand in memory with which the step is a bitcast, if its result has `order`; or None."""
    operand, result = array_or_none(step.operands[0].shape), array_or_none(step.shape)
    if order is None or operand is None or result is None:
        return None
    if step.opcode == Opcode.COPY:
        return order
    if step.opcode == Opcode.TRANSPOSE:
        dimensions = step.kind.dimensions
        return tuple([dimensions[dimension] for dimension in order]) if sorted(dimensions) == sorted(order) else None
    return _reshaped(result, order, operand) if _is_reshape(step, operand, result) else None


def _after(step: HloInstruction, order: tuple[int, ...] | None) -> tuple[int, ...] | None:
    """The order of a step's result in memory with which the step is a bitcast, if its operand has `order`; or None."""
    operand, result = array_or_none(step.operands[0].shape), array_or_none(step.shape)
    if order is None or operand is None or result is None:
        return None
    if step.opcode == Opcode.COPY:
        return order
    if step.opcode == Opcode.TRANSPOSE:
        back = {dimension: number for number, dimension in enumerate(step.kind.dimensions)}
        return tuple([back[dimension] for dimension in order]) if sorted(back) == sorted(order) else None
    return _reshaped(operand, order, result) if _is_reshape(step, operand, result) else None


def _is_reshape(step: HloInstruction, operand: Shape, result: Shape) -> bool:
    """Whether a step is a reshape, or a bitcast that keeps the row-major order of the elements as a reshape does. Other
    bitcasts are transposes or change the type.
    """
    try:
        return step.opcode == Opcode.RESHAPE or shape_util.reshape_is_bitcast(operand, result)
    except XlashapeError:
        return False


def _reshaped(given: Shape, order: tuple[int, ...], wanted: Shape) -> tuple[int, ...] | None:
    """The order in memory with which `wanted` is a reshape, and a bitcast, of `given` in `order`; or None."""
    try:
        aligned = shape_util.align_layouts(given.replace(layout=Layout(order)), wanted)
    except XlashapeError:
        return None
    return None if aligned is None else layout_of(aligned).minor_to_major


# -- layouts of arguments and results -------------------------------------------------------


def _by_input(flow: Flow, mover: Mover, ends: Ends, chain: _Chain) -> Removal | None:
    """The removal of a copy by another layout of the argument that is copied, or another order of its dimensions."""
    parameter = ends.source.instruction
    if not is_entry_parameter(parameter) or ends.source.at or not parameter.shape.is_array or chain.keeps_layout:
        return None
    order = _wanted_of_source(mover, ends, chain)
    if order is None or order == layout_of(parameter.shape).minor_to_major or takes_more(parameter.shape, order):
        return None
    others = [use for use in flow.uses(parameter) if use.user is not mover.row]
    is_exact = len(others) <= _MOST_OTHERS and not layout_of(parameter.shape).tiles
    is_exact = is_exact and all(_also_wants(use, parameter, order) for use in others)
    if chain.transposes:
        is_exact = is_exact and is_default(parameter.shape) and not chain.reshapes and not ends.from_bitcasts
        users = [use.user for use in ends.uses if use.role is Role.OPERAND]
        if any(_is_gradient_of_convolution(user) for user in users):
            return None
        return _and_donation(flow, mover, ends, (_input_order(parameter, order, users),), is_exact)
    return _and_donation(flow, mover, ends, (input_layout(parameter, order),), is_exact)


def _wanted_of_source(mover: Mover, ends: Ends, chain: _Chain) -> tuple[int, ...] | None:
    """The order of the argument in memory, minor to major, with which the mover would move nothing."""
    result = array_or_none(mover.row.shape)
    if result is None:
        return None
    steps = (*reversed(ends.from_bitcasts), *chain.steps)
    return backward(steps, result, ends.source.instruction.shape)


def _also_wants(use: ValueUse, parameter: HloInstruction, order: tuple[int, ...]) -> bool:
    """Whether a use of a parameter only moves it, and would move nothing if the parameter had `order` in memory."""
    if use.role is not Role.OPERAND:
        return False
    inner = (use.user,)
    if use.user.opcode == Opcode.FUSION and use.user.called_computations:
        chain = _Chain.of(Mover(use.user, use.user.called_computations[0].root, (), use.user))
        if chain is None:
            return False
        inner = chain.steps
    elif use.user.opcode not in (Opcode.COPY, Opcode.TRANSPOSE, Opcode.RESHAPE):
        return False
    result = array_or_none(inner[-1].shape)
    return result is not None and backward((*use.bitcasts, *inner), result, parameter.shape) == order


def _by_output(flow: Flow, ends: Ends, chain: _Chain) -> Removal | None:
    """The removal of a copy by another layout of the output that it makes, or another order of its dimensions."""
    outputs = [use for use in ends.uses if use.role is Role.OUTPUT]
    if len(outputs) != 1 or chain.keeps_layout:
        return None
    use = outputs[0]
    source = array_or_none(chain.operand.shape)
    shape = output_shape(use.user, use.at)
    if source is None or shape is None:
        return None
    order = forward((*chain.steps, *use.bitcasts), source)
    if order is None or order == layout_of(shape).minor_to_major or takes_more(shape, order):
        return None
    made = ends.source
    # Without the copy, the output is the buffer that the copy reads. That must not be the buffer of an argument or a
    # constant, or one that another instruction writes.
    needs_memory = made.instruction.opcode in (Opcode.PARAMETER, Opcode.CONSTANT) or any(
        each.role is not Role.OPERAND or flow.written_in_place(each) is not None for each in flow.uses(*made)
    )
    if needs_memory:
        return None
    is_exact = len(ends.uses) == 1 and not layout_of(shape).tiles
    if chain.transposes:
        is_exact = is_exact and is_default(shape) and not chain.reshapes and not use.bitcasts
        return Removal((_output_order(use.at, order, [made.instruction]),), is_exact)
    return Removal((output_layout(use.at, order),), is_exact)


def _name(parameter: HloInstruction) -> str:
    return parameter.metadata.op_name or parameter.name


def input_layout(parameter: HloInstruction, order: tuple[int, ...]) -> Edit:
    """The edit that gives an argument this order in memory, minor to major."""
    major_to_minor = tuple(reversed(order))
    text = f"in_shardings of {_name(parameter)}: Format(Layout({major_to_minor}), sharding)"
    return Edit("input-layout", parameter.number, None, major_to_minor, text)


def output_layout(index: tuple[int, ...], order: tuple[int, ...]) -> Edit:
    """The edit that gives the result of this index this order in memory, minor to major."""
    major_to_minor = tuple(reversed(order))
    text = f"out_shardings of {output_text(index)}: Format(Layout({major_to_minor}), sharding)"
    return Edit("output-layout", None, index, major_to_minor, text)


def _input_order(parameter: HloInstruction, order: tuple[int, ...], users: Sequence[HloInstruction]) -> Edit:
    axes = tuple(reversed(order))
    text = f"keep {_name(parameter)} transposed, as jnp.transpose({_name(parameter)}, {axes}){_letters(axes, users)}"
    return Edit("input-order", parameter.number, None, axes, text)


def _output_order(index: tuple[int, ...], order: tuple[int, ...], makers: Sequence[HloInstruction]) -> Edit:
    axes = tuple(reversed(order))
    text = f"return {output_text(index)} as jnp.transpose(result, {axes}){_letters(axes, makers)}"
    return Edit("output-order", None, index, axes, text)


def _is_gradient_of_convolution(user: HloInstruction) -> bool:
    """Whether a convolution is one of the backward pass, whose dimension numbers no line of the program names."""
    inner = library_operation(user)
    if inner is None or inner.opcode != Opcode.CONVOLUTION:
        return False
    return "transpose(" in (inner.metadata.op_name or user.metadata.op_name)


def _letters(axes: tuple[int, ...], users: Sequence[HloInstruction]) -> str:
    """Where the program names the order of the axes, for what uses or makes the array: in the letters of an einsum for
    a dot, in the dimension numbers of a convolution.

    >>> from xlashape.hlo import HloModule
    >>> text = "HloModule m ENTRY e { a = f32[4,4] parameter(0) ROOT d = f32[4,4] dot(a, a), lhs_contracting_dims={1}"
    >>> _letters((1, 0), [HloModule.parse(text + ", rhs_contracting_dims={0} }").entry.root])
    ": 'ba' in place of 'ab' in einsum"
    """
    opcodes = [inner.opcode for user in users if (inner := library_operation(user)) is not None]
    if Opcode.CONVOLUTION in opcodes:
        return ": its letters in this order in dimension_numbers of the convolution"
    letters = "abcdefghijklmnopqrstuvwxyz"[: len(axes)]
    if Opcode.DOT not in opcodes or len(letters) < len(axes):
        return ""
    return f": '{''.join([letters[axis] for axis in axes])}' in place of '{letters}' in einsum"


# -- donation -------------------------------------------------------------------------------


def _by_donation(flow: Flow, mover: Mover, ends: Ends, chain: _Chain) -> Removal | None:
    """The removal of a copy of an argument in its own layout, by a donation."""
    if not chain.keeps_layout or not is_entry_parameter(ends.source.instruction):
        return None
    # XLA inserts copies after fusion, so a copy in a fusion has another reason: a donation may not remove it.
    return _and_donation(flow, mover, ends, (), not mover.is_fusion)


def _and_donation(flow: Flow, mover: Mover, ends: Ends, edits: tuple[Edit, ...], is_exact: bool) -> Removal | None:
    """The removal by `edits`, with a donation of the argument if it would be overwritten, or be an output, without the
    copy. None where there is nothing to edit, or where the donation would not remove the copy.
    """
    parameter = ends.source.instruction
    lands = [use for use in ends.uses if use.role is not Role.OPERAND or flow.written_in_place(use) is not None]
    if not lands:
        return Removal(edits, is_exact) if edits else None
    if ends.source.at or not parameter.shape.is_array:
        return None
    number = parameter.number
    if number in flow.donated:
        return None
    output = _output_of(flow, lands)
    shape = None if output is None else output_shape(flow.module.entry.root, output)
    if output is None or shape is None or not _same_array(shape, parameter.shape) or output in flow.taken:
        return None
    if any(edit.kind == "input-order" for edit in edits):
        return None  # the argument would be another array than the output that is to take its memory
    order = edits[0].order if edits else tuple(reversed(layout_of(parameter.shape).minor_to_major))
    if tuple(reversed(layout_of(shape).minor_to_major)) != order:
        is_exact = False
    others = [use for use in flow.uses(parameter) if use.user is not mover.row]
    if len(others) > _MOST_OTHERS or not all(
        _is_copied_out(flow, use) or comes_before(use.user, lands[0].user) for use in others
    ):
        return None  # another use may read the argument after it is overwritten: XLA copies it nevertheless
    return Removal((*edits, _donation(parameter, output)), is_exact and len(ends.uses) == 1)


def _is_copied_out(flow: Flow, use: ValueUse) -> bool:
    """Whether a user of an argument is a copy of it that is an output."""
    return use.user.opcode == Opcode.COPY and all(each.role is Role.OUTPUT for each in flow.uses(use.user))


class _Paired(NamedTuple):
    """Arrays of one type and sizes that are donated together, as JAX pairs them with outputs."""

    numbers: tuple[int, ...]
    """All that are donated, in order, also those that no output is left for."""
    edits: tuple[Edit, ...]
    """The donations of those that get an output."""
    is_wanted: bool
    """Whether each array whose copy a donation is to remove gets the output that is computed in it."""
    is_known: bool
    """Whether `is_wanted`, and there is no other array, which may be copied because of its donation."""


class _Donations:
    """The donations that removals want, and what JAX makes of them.

    JAX donates whole arguments: with `c[0]` all arrays of `c`. It gives the memory of the first donated array to the
    first output of equal type and sizes, the second to the second.
    """

    def __init__(self, flow: Flow, removals: Sequence[Removal | None]) -> None:
        self._parameters = flow.module.entry.parameters
        self._wanted: dict[int, Edit] = {}
        """The number of an array → its donation for the first of the outputs that could take its memory."""
        for removal in removals:
            for edit in () if removal is None else removal.edits:
                if edit.kind == "donate" and edit.parameter is not None:
                    before = self._wanted.setdefault(edit.parameter, edit)
                    if (before.output or ()) > (edit.output or ()):
                        self._wanted[edit.parameter] = edit
        self._outputs: dict[tuple[Any, ...], list[tuple[int, ...]]] = {}
        self._arrays: dict[tuple[Any, ...], list[int]] = {}
        """The arrays of each argument that are of one type and sizes, and are not donated."""
        self._paired: dict[tuple[Any, ...], _Paired] = {}
        self._joined: dict[tuple[Any, ...], tuple[Edit, ...]] = {}
        """Equal edits as one tuple, since many rows share long ones."""
        self._same: dict[tuple[Any, ...], list[int]] = {}
        """The wanted arrays of one type and sizes, as far as JAX pairs them all as wanted."""
        if self._wanted:
            self._sort(flow)

    def _sort(self, flow: Flow) -> None:
        for leaf in shape_util.get_leaf_shapes(flow.module.entry.root.shape):
            if leaf.shape.is_array and tuple(leaf.index) not in flow.taken:
                self._outputs.setdefault(_kind_of(leaf.shape), []).append(tuple(leaf.index))
        for parameter in self._parameters:
            if parameter.shape.is_array and parameter.number not in flow.donated:
                self._arrays.setdefault(self._argument(parameter.number), []).append(parameter.number)
        for number in sorted(self._wanted):
            self._same.setdefault(_kind_of(self._parameters[number].shape), []).append(number)
        for same in self._same.values():
            outputs = {edit.parameter: edit.output for edit in self._pair(same).edits}
            right = [outputs.get(number) == self._wanted[number].output for number in same]
            del same[right.index(False) if False in right else len(right) :]

    def _argument(self, number: int) -> tuple[Any, ...]:
        """What tells the arrays of an argument that are of one type and sizes from all others."""
        parameter = self._parameters[number]
        name = parameter.metadata.op_name
        return (argument_name(name) if name else number, *_kind_of(parameter.shape))

    def _pair(self, numbers: Sequence[int], first: tuple[int, ...] | None = None) -> _Paired:
        """What JAX pairs if these arrays of one type and sizes are donated, and the output `first` is returned before
        the others.
        """
        arguments = dict.fromkeys([self._argument(number) for number in numbers])
        key = (first, *arguments)
        if key not in self._paired:
            outputs = self._outputs[_kind_of(self._parameters[numbers[0]].shape)]
            if first is not None:
                outputs = [first, *[each for each in outputs if each != first]]
            every = sorted([number for argument in arguments for number in self._arrays[argument]])
            edits = tuple([_donation(self._parameters[one], to) for one, to in zip(every, outputs, strict=False)])
            is_wanted = all(self._wanted.get(one.parameter or 0, one) == one for one in edits)
            is_known = is_wanted and all(number in self._wanted for number in every[: len(edits)])
            self._paired[key] = _Paired(tuple(every), edits, is_wanted, is_known)
        return self._paired[key]

    def made(self, removal: Removal) -> Removal | None:
        """The removal with all that its donation needs; None where no donation has its argument take that output."""
        donation = next((edit for edit in removal.edits if edit.kind == "donate"), None)
        if donation is None or donation.parameter is None or donation.output is None:
            return removal
        number = donation.parameter
        if self._wanted[number] != donation:
            return None  # one output only can take the memory of an argument, and it is another one
        alone = self._pair([number])
        if donation in alone.edits:
            return self._with(removal, alone)
        same = self._same[_kind_of(self._parameters[number].shape)]
        if number in same:
            place = same.index(number) + 1
            paired = self._pair(same[: place if place <= _MOST_TOGETHER else len(same)])
            if paired.is_wanted and donation in paired.edits:
                return self._with(removal, paired)
        first = self._wanted.get(alone.numbers[0], donation).output or ()
        if len(first) != 1:
            return removal._replace(is_exact=False) if len(alone.numbers) == 1 else None
        paired = self._pair([number], first)
        return self._with(removal, paired, (_output_first(first),)) if paired.is_known else None

    def _with(self, removal: Removal, paired: _Paired, more: tuple[Edit, ...] = ()) -> Removal:
        others = tuple([edit for edit in removal.edits if edit.kind != "donate"])
        edits = self._joined.setdefault((others, id(paired)), (*others, *paired.edits, *more))
        return Removal(edits, removal.is_exact and paired.is_known)


def matched_by_jax(flow: Flow, removals: Sequence[Removal | None]) -> list[Removal | None]:
    """The removals, with the further donations, or the order of outputs, that JAX needs so that each output takes the
    memory of the argument that it is computed in. A removal becomes None where no donation of whole arguments does.
    """
    donations = _Donations(flow, removals)
    return [None if removal is None else donations.made(removal) for removal in removals]


def _kind_of(shape: Shape) -> tuple[Any, ...]:
    return (shape.element_type, shape.dimensions)


def excluding(movers: Sequence[Mover], removals: Sequence[Removal | None]) -> list[Removal | None]:
    """The removals without two that exclude each other unsaid. Of edits that give one array different orders, those for
    an operation that the program names stay; where several do, their texts say that they exclude each other.
    """
    orders: dict[tuple[Any, ...], dict[Edit, bool]] = {}
    for mover, each in zip(movers, removals, strict=True):
        edit = each.edits[0] if each is not None else None
        if edit is not None and edit.order is not None:
            known = orders.setdefault((edit.parameter, edit.output), {})
            known[edit] = known.get(edit, False) or any(one.metadata.op_name for one in (mover.inner, mover.row))
    changed: dict[Edit, Edit | None] = {}
    for same in orders.values():
        named = [edit for edit, is_named in same.items() if is_named] or [*same]
        more = "; instead of any other order of the same array that is named here" if len(named) > 1 else ""
        if len(same) > 1:
            changed |= {edit: edit._replace(text=edit.text + more) if edit in named else None for edit in same}
    made: list[Removal | None] = []
    for each in removals:
        if each is None or each.edits[0] not in changed:
            made.append(each)
            continue
        first = changed[each.edits[0]]
        made.append(None if first is None else each._replace(edits=(first, *each.edits[1:])))
    return made


def _same_array(left: Shape, right: Shape) -> bool:
    return left.element_type == right.element_type and left.dimensions == right.dimensions


def _output_of(flow: Flow, lands: Iterable[ValueUse]) -> tuple[int, ...] | None:
    """The index of the output that has the memory of a value: the output is the value, or is computed in its place,
    maybe in several steps. `lands` are the uses of the value to follow. None where there is none.
    """
    pending = list(lands)
    for _ in range(_MOST_STEPS):
        if not pending:
            break
        use = pending.pop(0)
        if use.role is Role.OUTPUT:
            return use.at
        index = flow.written_in_place(use)
        if index is not None:
            pending += flow.uses(use.user, index)
    return None


def _output_first(index: tuple[int, ...]) -> Edit:
    text = (
        f"return {output_text(index)} before the others of its type and sizes: JAX gives it the memory of the "
        "first donated argument"
    )
    return Edit("output-first", None, index, None, text)


def _donation(parameter: HloInstruction, output: tuple[int, ...]) -> Edit:
    return Edit("donate", parameter.number, output, None, f"donate {_name(parameter)}")


def removal_text(module: HloModule, edits: Sequence[Edit]) -> str:
    """The edits of a module in words."""
    texts = [*dict.fromkeys([edit.text for edit in edits if edit.kind != "donate"])]
    donations = {edit.parameter: edit for edit in edits if edit.kind == "donate" and edit.parameter is not None}
    if donations:
        how = how_to_donate(module, donations)
        names = [edit.text for edit in donations.values()]
        named = ", ".join([names[0], *[name.removeprefix("donate ") for name in names[1:_MOST_NAMED]]])
        takes = [output_text(edit.output or ()) for edit in donations.values()]
        what = f"{takes[0]} takes its memory" if len(takes) == 1 else f"{' and '.join(takes)} take their memory"
        if len(names) > _MOST_NAMED:
            named += f" and {len(names) - _MOST_NAMED} more arguments"
            what = "each output takes the memory of its own"
        texts.append(f"{named}: jit(…, {how.option}); {what}{how.otherwise}")
    return "; and ".join(texts)
