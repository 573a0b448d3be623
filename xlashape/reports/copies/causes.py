"""Why an instruction that only moves data is there: what wants the data in another layout, which two uses of a buffer
collide, or which operation of the program asks for it. `Mover` in `movers.py` is such an instruction.

XLA gives each array a layout (layout assignment) and inserts a copy where an instruction wants an operand in another
layout than the one in which the operand is made. Some instructions do not accept every layout: the module's own
parameters and outputs, library calls, dots and convolutions, loops, collectives, reshapes that are to be bitcasts.
Later XLA inserts copies where a buffer would be overwritten that is still needed (copy insertion). Neither pass records
its reason. The causes here are inferred from the module: from the instruction that makes the data and those that use
it.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from xlashape.errors import XlashapeError
from xlashape.hlo import HloInstruction, Opcode
from xlashape.hlo.flow import Flow, Role, Value, ValueUse, replaces_a_part
from xlashape.hlo.kind import Kind
from xlashape.hlo.ops.operation import Movement, ResultSource
from xlashape.limits import spend
from xlashape.reports.copies.movers import Mover, array_or_none, bytes_written, layout_of, relayouts
from xlashape.reports.copies.old_values import old_value
from xlashape.reports.copies.patches import patch_advice
from xlashape.reports.memory.plan import SPACES
from xlashape.shape import Layout, Shape, ShapeIndex
from xlashape.shape.xla_util import shape_util

RELAYOUT: Final = "relayout"
COPY_INSERTION: Final = "copy-insertion"
MEMORY_SPACE: Final = "memory-space"
SHARDING: Final = "sharding"
"""These four kinds of causes are reasons of the compiler. All other kinds are opcodes, such as `transpose` and `slice`,
of instructions that the program or the partitioner asks for.
"""

_ANNOTATION: Final = "sharding_constraint"
"""What JAX calls an annotation of sharding."""
_ASKED: Final[dict[Movement | None, str]] = {
    Movement.TAKE: "takes a part of an array",
    Movement.TAKE_AT: "takes a part of an array",
    Movement.PAD: "pads an array",
    Movement.JOIN: "puts arrays into one",
    Movement.REVERSE: "reverses an array",
}
"""What the program or the partitioner does with an instruction that moves data so, in words."""
_READ_BEFORE: Final = "read the old value before the new one is computed from it"
_RETURN_ONCE: Final = "return each array once, and no argument unchanged"
_ADVICE: Final = {
    "carry": "keep each element of the state at its place, and compute the new value from it alone",
    "branch": "give back from branches what they compute, and select what stays as it is outside",
    "pad": "choose sizes that need no padding",
    "concatenate": "write the parts into one array where they are made",
}
"""What may help, by the role of the use that needs the copy, or by what the program asks for."""
_SAME_ORDER: Final = "the data is copied in the order that it has"
"""What is said in place of two layouts that are the same order in memory."""
_LARGE: Final = 1024
_MOST_INNER: Final = 2_000
"""The most instructions of a fusion that are looked at."""


class Ends(NamedTuple):
    """Where the data of a mover comes from and where it goes."""

    source: Value
    """The value that is moved, followed back through bitcasts and tuples to the instruction that makes it."""
    from_bitcasts: tuple[HloInstruction, ...]
    """The bitcasts between the source and the mover, the one next to the mover first."""
    uses: list[ValueUse]
    """The uses of the mover's result."""


class CopyCause(NamedTuple):
    """Why a mover is there."""

    kind: str
    """RELAYOUT, COPY_INSERTION, MEMORY_SPACE, SHARDING, or an opcode."""
    forced_by: str | None
    """What fixes the layout, or the use that would overwrite the buffer; None where neither is known."""
    text: str
    """The cause in a sentence."""
    inferred_pass: str | None
    """The pass of XLA that inserts such an instruction; None where the program may have it itself."""
    advice: str = ""
    """What may help where no edit of the program is known that removes the mover; empty where nothing is known to."""


def ends_of(flow: Flow, mover: Mover) -> Ends:
    """Where the array that a mover moves comes from and goes to. Of a mover with several operands, it is the array that
    `mover.inner` moves.
    """
    operand = _moved_operand(mover)
    source, bitcasts = flow.source(operand)
    if mover.computes:
        return Ends(source, bitcasts, [ValueUse(mover.row, Role.OPERAND, 0, (), ())])
    index = (0,) if mover.row.opcode == Opcode.COPY_START else ()
    return Ends(source, bitcasts, flow.uses(mover.row, index))


def _moved_operand(mover: Mover) -> HloInstruction:
    """The operand of `mover.row` from which `mover.inner` has its data."""
    if not mover.is_fusion:
        return mover.row.operands[0]
    inner = mover.inner
    for _ in range(_MOST_INNER):
        if inner.opcode == Opcode.PARAMETER or not inner.operands:
            break
        inner = inner.operands[0]
    number = inner.number if inner.opcode == Opcode.PARAMETER else 0
    operands = mover.row.operands
    return operands[number] if 0 <= number < len(operands) else mover.row


# -- names ----------------------------------------------------------------------------------


def parameter_text(parameter: HloInstruction) -> str:
    """A parameter as users know it: its number, and the name that JAX gives it.

    >>> from xlashape.hlo import HloModule
    >>> text = 'HloModule m ENTRY e { ROOT p = f32[4] parameter(0), metadata={op_name="x"} }'
    >>> parameter_text(HloModule.parse(text).entry.root)
    'parameter 0 (x)'
    """
    name = parameter.metadata.op_name or parameter.name
    return f"parameter {parameter.number} ({name})"


def output_text(index: tuple[int, ...]) -> str:
    """An output of the module, by its index in the result."""
    return f"output {ShapeIndex(index)}" if index else "the output"


def is_entry_parameter(instruction: HloInstruction) -> bool:
    """Whether an instruction is an argument of the module: a parameter of its entry computation."""
    made_in = instruction.computation
    return instruction.kind.opcode is Opcode.PARAMETER and made_in is made_in.module.entry


def user_text(instruction: HloInstruction) -> str:
    """An instruction in words: its opcode and its name. A fusion has the opcode of the library operation in it."""
    opcode = str(instruction.opcode)
    if opcode == "custom-call":
        return f"custom call {instruction.details.custom_call_target} ({instruction.name})"
    inner = library_operation(instruction)
    if opcode == "fusion" and inner is not None:
        target = f" {inner.details.custom_call_target}" if inner.opcode == Opcode.CUSTOM_CALL else ""
        return f"{inner.opcode}{target} ({instruction.name})"
    return instruction.name if instruction.name.startswith(opcode) else f"{opcode} ({instruction.name})"


def library_operation(instruction: HloInstruction) -> HloInstruction | None:
    """The dot, convolution or library call that an instruction is, or that a fusion holds. Such an operation does not
    accept every layout. None for other instructions.
    """
    row = instruction.kind.row
    if row.restricts_layouts:
        return instruction
    if row.fuses_called_computation and instruction.called_computations:
        called = instruction.called_computations[0].instructions[:_MOST_INNER]
        spend(len(called))
        found = [each for each in called if each.kind.row.restricts_layouts]
        return min(found, key=_preference) if found else None
    return None


def _preference(instruction: HloInstruction) -> tuple[bool, bool]:
    """The key by which one of several library operations gives a fusion its name: products first, then custom calls."""
    row = instruction.kind.row
    return not row.uses_matrix_units, row.opcode != Opcode.CUSTOM_CALL


def _is_exchange(instruction: HloInstruction) -> bool:
    """Whether an instruction sends data to other devices or receives it from them."""
    row = instruction.kind.row
    return row.exchanges_with_replicas or (row.begins_asynchronously and row.has_effect)


def _fixed(instruction: HloInstruction) -> str | None:
    """An instruction in words, if it fixes the layouts of operands and result; None where it accepts every layout."""
    if library_operation(instruction) is not None:
        return user_text(instruction)
    if _is_exchange(instruction):
        return f"collective {instruction.opcode} ({instruction.name})"
    source = instruction.kind.row.source
    if source is ResultSource.STATE:
        return f"the state of {user_text(instruction)}"
    return user_text(instruction) if source is ResultSource.BRANCH else None


# -- causes ---------------------------------------------------------------------------------


def cause_of(flow: Flow, mover: Mover, ends: Ends) -> CopyCause:
    """Why a mover is there."""
    inner = mover.inner
    opcode = str(inner.opcode)
    source, result = mover.source_shape, mover.result_shape
    if opcode in ("copy", "copy-start"):
        if source is not None and result is not None:
            before, after = layout_of(source), layout_of(result)
            if relayouts(inner):
                return _relayout(mover, ends, before, after, "layout-assignment")
            if before.memory_space != after.memory_space:
                return _memory_space(before.memory_space, after.memory_space, ends)
        if _is_left_by_partitioner(inner):
            text = "The partitioner has left a copy in the place of an annotation of sharding"
            return CopyCause(SHARDING, f"sharding of {inner.metadata.op_name or inner.name}", text + ".", None)
        if mover.computes:
            text = f"{user_text(mover.row)} computes, and copies an array on the way, in the layout that it has"
            return CopyCause("copy", None, _capital(text) + ".", None)
        if mover.is_fusion:
            # XLA inserts copies after fusion and does not fuse them. A copy in a fusion belongs to a custom call whose
            # operand is also its result.
            return _collision(flow, mover, ends)._replace(inferred_pass="layout-assignment")
        return _collision(flow, mover, ends)
    if opcode == "transpose" and source is not None and result is not None:
        name = _last_name(inner)
        if name and name != "transpose":
            return _relayout(mover, ends, layout_of(source), layout_of(result), None)
        orders = _orders(inner, layout_of(source), layout_of(result))
        advice = "" if orders == _SAME_ORDER else _transposed(ends)  # another order would not save the copy
        text = f"The program transposes: {orders}"
        return CopyCause("transpose", _who(mover, ends), _and_who(text, mover, ends), None, advice)
    if opcode == "reshape":
        text = f"The reshape is no bitcast: its operand has the layout {'' if source is None else layout_of(source)}"
        return CopyCause("reshape", user_text(inner), text + ".", None)
    kind = "slice" if opcode == "dynamic-slice" else opcode
    if kind == "slice" and source is not None and result is not None and not inner.metadata.op_name:
        spaces = layout_of(source).memory_space, layout_of(result).memory_space
        if spaces[0] != spaces[1]:  # the compiler brings an array in parts
            return _memory_space(*spaces, ends)
    what = _ASKED.get(inner.kind.row.movement, "moves an array")
    sharding = _sharding(mover, ends)
    if sharding is not None:
        # a shard_map exchanges shards itself
        who = "program" if "/shard_map/" in inner.metadata.op_name and not _is_marked(mover) else "partitioner"
        return CopyCause(kind, sharding, f"The {who} {what}{_op_name(inner)}, for {sharding}.", None)
    who = "The program" if inner.metadata.op_name else "The instruction"
    pads = next((use.user for use in ends.uses if kind == "pad" and use.user.opcode == Opcode.CONVOLUTION), None)
    advice = _ADVICE.get(kind, "") if inner.metadata.op_name else ""
    if kind == "pad" and "transpose(" in inner.metadata.op_name:
        advice = (
            "it is the gradient of a slice: compute with the whole array, and weight what the slice leaves out by 0"
        )
    elif pads is not None:
        advice = f"let the convolution pad: {user_text(pads)}"
    return CopyCause(kind, None, f"{who} {what}{_op_name(inner)}.", None, advice)


def _is_left_by_partitioner(copy: HloInstruction) -> bool:
    """Whether a copy that keeps the layout stands in the place of an annotation of sharding. It has the annotation, or
    is named after the operation or the argument that was annotated. Copies that the compiler inserts later are named
    `copy`, also where they have the metadata of an annotation that was at their place: copy insertion comes last, just
    before the schedule is made.
    """
    name, module = copy.name.partition(".")[0], copy.computation.module
    if name == _ANNOTATION or (module.config.num_partitions > 1 and not module.head.HasField("schedule")):
        return True
    is_named = not name.startswith("copy") and _last_name(copy) in (name, _ANNOTATION)
    return is_named or copy.kind.message.HasField("sharding")


def _sharding(mover: Mover, ends: Ends) -> str | None:
    """What a slice or pad of shards is for, in words: a collective, which exchanges them, or `sharding`, where the
    partitioner only cuts them. None for others.
    """
    for use in ends.uses:
        if use.role is Role.OPERAND and _is_exchange(use.user):
            return _fixed(use.user)
    return "sharding" if _is_marked(mover) or _last_name(mover.inner) in (_ANNOTATION, "shard_map") else None


def _is_marked(mover: Mover) -> bool:
    """Whether an instruction says that the partitioner made it."""
    return any(each.kind.fact(_says_marked, _says_marked) for each in (mover.inner, mover.row))


def _says_marked(kind: Kind) -> bool:
    return kind.message.frontend_attributes.map.get("is_spmd_generated") == "true"


def _op_name(instruction: HloInstruction) -> str:
    name = instruction.metadata.op_name
    return f" ({name})" if name else ""


def _last_name(instruction: HloInstruction) -> str:
    return instruction.metadata.op_name.rpartition("/")[2]


def _relayout(mover: Mover, ends: Ends, before: Layout, after: Layout, inferred: str | None) -> CopyCause:
    """The cause of a mover that changes the layout. inferred: the pass that inserts such a mover, if one does."""
    who = _who(mover, ends)
    text = _capital(_orders(mover.inner, before, after))
    if mover.is_fusion and mover.row.shape == _moved_operand(mover).shape and _keeps_order(mover):
        text = f"The data is copied from {before} to {after} and back, since it may not be overwritten"
    advice = "" if mover.computes else _transposed(ends) or _chosen(mover, ends)
    return CopyCause(RELAYOUT, who, _and_who(text, mover, ends), inferred, advice)


def _keeps_order(mover: Mover) -> bool:
    """Whether the result of a fusion that moves one array has each element at the index that it has in the operand."""
    step = mover.row.called_computations[0].root
    order = list(range(step.shape.rank)) if step.shape.is_array else []
    for _ in range(_MOST_INNER):
        if step.opcode == Opcode.PARAMETER:
            return order == sorted(order)
        if step.opcode not in (Opcode.COPY, Opcode.TRANSPOSE):
            return False
        if step.opcode == Opcode.TRANSPOSE:
            order = [step.kind.dimensions[each] for each in order]
        step = step.operands[0]
    return False


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _orders(inner: HloInstruction, before: Layout, after: Layout) -> str:
    """The layouts of the data before and after, in words. The dimensions of both are those of the result."""
    before, after = before.replace(memory_space=0), after.replace(memory_space=0)
    where = ""
    if inner.opcode == Opcode.TRANSPOSE:
        place = {dimension: number for number, dimension in enumerate(inner.kind.dimensions)}
        order = tuple([place.get(dimension, dimension) for dimension in before.minor_to_major])
        before, where = before.replace(minor_to_major=order), " of the result"
    if before == after:
        return _SAME_ORDER
    return f"the data is in {before}{where} and is wanted in {after}"


def _transposed(ends: Ends) -> str:
    """Advice where data is wanted in another order, and no edit is known."""
    users = [use.user for use in ends.uses if use.role is Role.OPERAND]
    overwrites = next((use.user for use in ends.uses if use.user.output_operand_aliasing), None)
    if overwrites is not None:
        return f"none: {user_text(overwrites)} works in the memory of its operand, so that a copy stays in every layout"
    inner = [one for user in users if (one := library_operation(user)) is not None and one.opcode == Opcode.DOT]
    if inner:
        store = "store the operand in the order that the dot wants"
        is_einsum = any("->" in one.metadata.op_name or "einsum" in one.metadata.op_name for one in inner)
        letters = "write the letters of the einsum in the order in which the operand is stored, or "
        return letters + store if is_einsum else store
    is_kept = is_entry_parameter(ends.source.instruction) or any(use.role is not Role.OPERAND for use in ends.uses)
    return "transpose once where the array is made, outside of loops, and keep it so" if is_kept else ""


def _chosen(mover: Mover, ends: Ends) -> str:
    """Advice where data is moved between two instructions whose layouts nothing in the program fixes."""
    users = [use.user for use in ends.uses if use.role is Role.OPERAND]
    if ends.source.instruction.opcode == Opcode.PARAMETER or not users or len(users) < len(ends.uses):
        return ""
    for one in map(library_operation, users):
        advice = patch_advice(ends.source, one, mover.row.shape) if one and one.opcode == Opcode.CONVOLUTION else ""
        if advice:
            return advice
    return "none is known: the compiler chooses both layouts itself"


def _and_who(text: str, mover: Mover, ends: Ends) -> str:
    """The sentence that begins with `text` and says where the data comes from and goes to."""
    maker, taker = source_text(ends), taker_text(ends)
    parts = [text]
    if maker:
        parts.append(f"it comes from {maker}")
    if mover.computes:
        parts.append("in a fusion that computes with it: the other order moves no bytes more, and may be read worse")
    elif taker:
        parts.append(f"it goes to {taker}")
    return ", ".join(parts) + "." + _padding(mover)


def _padding(mover: Mover) -> str:
    """A remark on the padding of tiles, if it makes operand or result twice as large as the other; else empty."""
    source, result = mover.source_shape, mover.result_shape
    try:
        if source is None or result is None:
            return ""
        read, written = shape_util.array_size(source), shape_util.array_size(result)
    except XlashapeError:
        return ""
    if read and written >= 2 * read:
        return f" Its tiles pad the result to {written / read:.4g} times the bytes of the operand."
    if written and read >= 2 * written:
        return f" The tiles of the operand pad it to {read / written:.4g} times the bytes of the result."
    return ""


def source_text(ends: Ends) -> str:
    """Where the data comes from, in words."""
    source = ends.source
    if is_entry_parameter(source.instruction):
        return parameter_text(source.instruction) + (f"{ShapeIndex(source.at)}" if source.at else "")
    if source.instruction.opcode == Opcode.PARAMETER:
        index = f"element {ShapeIndex(source.at)} of " if source.at else ""
        return f"{index}the argument of {source.instruction.computation.name}"
    return user_text(source.instruction)


def taker_text(ends: Ends) -> str:
    """Where the data goes, in words: to the use that fixes layouts, else to the nearest use. Empty without uses."""
    if not ends.uses:
        return ""
    use = next((use for use in ends.uses if _use_fixes(use)), ends.uses[0])
    return use_text(use)


def use_text(use: ValueUse) -> str:
    """A use in words."""
    if use.role is Role.OUTPUT:
        return output_text(use.at)
    if use.role is Role.CARRY:
        return f"element {ShapeIndex(use.at)} of the state of {user_text(use.user)}"
    if use.role is Role.BRANCH:
        return f"the result of a branch of {user_text(use.user)}"
    return user_text(use.user)


def _use_fixes(use: ValueUse) -> str | None:
    """What fixes the layout of a value that is used so, in words; None where the use accepts every layout."""
    if use.role is Role.OUTPUT:
        return f"entry layout of {output_text(use.at)}"
    if use.role is Role.CARRY:
        return f"the state of {user_text(use.user)}"
    return _fixed(use.user)


def is_default(shape: Shape) -> bool:
    """Whether an array is in row-major order in memory, the default. Dimensions of size 1 do not count."""
    order = [dimension for dimension in layout_of(shape).minor_to_major if shape.dimensions[dimension] != 1]
    return order == sorted(order, reverse=True)


def output_shape(module_root: HloInstruction, index: tuple[int, ...]) -> Shape | None:
    """The array at an index of an instruction's result; None where there is none."""
    shape = module_root.shape
    for number in index:
        if not shape.is_tuple or not 0 <= number < len(shape.tuple_shapes):
            return None
        shape = shape.tuple_shapes[number]
    return array_or_none(shape)


def _who(mover: Mover, ends: Ends) -> str | None:
    """What forces a layout, in words; None where it is not known.

    An entry layout other than the default one, which the user must have chosen, comes first: without it there would be
    no copy.
    """
    source = ends.source.instruction
    if is_entry_parameter(source):
        shape = output_shape(source, ends.source.at)
        if shape is not None and not is_default(shape):
            return f"entry layout of {parameter_text(source)}"
    for use in ends.uses:
        if use.role is Role.OUTPUT:
            shape = output_shape(use.user, use.at)
            if shape is not None and not is_default(shape):
                return f"entry layout of {output_text(use.at)}"
    takers = [use for use in ends.uses if use.role is not Role.OUTPUT]
    for use in takers:
        fixes = _use_fixes(use)
        if fixes is not None:
            return fixes
    maker = _fixed(source)
    if maker is not None and not _is_default_at(ends):
        return maker
    reshape = _reshape_after(mover, ends)
    if reshape is not None:
        return reshape
    for use in ends.uses:
        if use.role is Role.OUTPUT:
            return f"entry layout of {output_text(use.at)}"
    return maker or (f"entry layout of {parameter_text(source)}" if is_entry_parameter(source) else None)


def _is_default_at(ends: Ends) -> bool:
    """Whether the value that is moved has the default layout."""
    shape = output_shape(ends.source.instruction, ends.source.at)
    return shape is None or is_default(shape)


def _reshape_after(mover: Mover, ends: Ends) -> str | None:
    """The reshape, in words, that is a bitcast of the mover's result, but would be no bitcast of the mover's operand;
    None where there is none.
    """
    source = mover.source_shape
    candidates = [bitcast for use in ends.uses for bitcast in use.bitcasts[:1]]
    candidates += [user for user in mover.inner.users if user.opcode == Opcode.BITCAST] if mover.is_fusion else []
    for bitcast in candidates:
        shape = array_or_none(bitcast.shape)
        try:
            if shape is not None and source is not None and not shape_util.reshape_is_bitcast(source, shape):
                return f"the reshape {bitcast.name}, which is no bitcast of {layout_of(source)}"
        except XlashapeError:
            continue
    return None


def _memory_space(before: int, after: int, ends: Ends) -> CopyCause:
    names = [SPACES.get(space, f"memory space {space}") for space in (before, after)]
    text = f"The data goes from {names[0]} to {names[1]}"
    who = "host offload" if 5 in (before, after) else "prefetch to on-chip memory" if after == 1 else "memory space"
    taker = taker_text(ends)
    return CopyCause(MEMORY_SPACE, who, text + (f", for {taker}" if taker else "") + ".", None)


# -- copies of equal layout -----------------------------------------------------------------


def _collision(flow: Flow, mover: Mover, ends: Ends) -> CopyCause:
    """The cause of a copy that keeps the layout: two uses of a buffer that collide."""
    source, where = ends.source, source_text(ends)
    writer = next((use for use in ends.uses if flow.written_in_place(use) is not None), None)
    outputs = [use for use in ends.uses if use.role is Role.OUTPUT]
    carries = [use for use in ends.uses if use.role in (Role.CARRY, Role.BRANCH)]
    overwritten = user_text(writer.user) if writer is not None else None
    others = [use for use in flow.uses(*source) if use.user is not mover.row]
    other = next((use_text(use) for use in others), None)
    if is_entry_parameter(source.instruction):
        return _copied_parameter(flow, ends, writer, outputs)
    if source.instruction.opcode == Opcode.CONSTANT:
        taker = overwritten or taker_text(ends)
        text = f"{where} cannot be overwritten, and {taker or 'a user'} needs memory of its own."
        return _inserted(taker, text, "pass the constant as an argument, and donate it" if _is_large(mover) else "")
    state = _element_of_state(flow, source)
    if state is not None and carries:
        return _state(state, carries[0], others)
    caller = flow.caller(source.instruction.computation)
    if source.instruction.opcode == Opcode.PARAMETER and caller is not None and _is_loop(caller):
        return _still_read(flow, caller, ends)
    if carries:
        by = use_text(carries[0])
        # What a loop makes may have to lie elsewhere than the state, as rows that are gathered of it: no edit is sure.
        advice = _ADVICE["branch"] if carries[0].role is Role.BRANCH else ""
        return _inserted(by, f"{where} would have to be in the memory of {by}.", advice)
    first = flow.source(source.instruction.operands[0])[0] if source.instruction.opcode == Opcode.COPY else source
    if is_entry_parameter(first.instruction) and first.instruction.number in flow.donated:
        return _copied_donation(flow, first.instruction, ends)
    if writer is not None:
        reason = f", and {other} reads it" if other else ""
        advice = _READ_BEFORE if other and not _is_filling(source.instruction) else ""
        return _inserted(overwritten, f"{overwritten} would overwrite what {where} made{reason}.", advice)
    if outputs and other:
        by = use_text(outputs[0])
        return _inserted(by, f"{where} is {by} and also {other}: each output has memory of its own.", _RETURN_ONCE)
    taker = taker_text(ends)
    text = f"{where} is copied for {taker or 'its user'}; which use would overwrite it is not known."
    return _inserted(taker or None, text)


def _is_filling(made: HloInstruction) -> bool:
    """Whether a value is made of constants alone, as the zeros that arrays begin with, which nobody has to read."""
    return bool(made.operands) and all(operand.opcode == Opcode.CONSTANT for operand in made.operands)


def _is_large(mover: Mover) -> bool:
    """Whether an edit of the program for the sake of a mover's bytes is worth its while."""
    return (bytes_written(mover) or 0) >= _LARGE


def _is_loop(caller: HloInstruction) -> bool:
    return caller.kind.row.source is ResultSource.STATE


def _copied_parameter(flow: Flow, ends: Ends, writer: ValueUse | None, outputs: list[ValueUse]) -> CopyCause:
    """The cause of a copy of an argument of the module that keeps its layout. writer: the use that would overwrite the
    argument; outputs: its uses as outputs.
    """
    where = source_text(ends)
    parameter = ends.source.instruction
    number = parameter.number
    if number in flow.donated:
        return _copied_donation(flow, parameter, ends)
    if writer is not None:
        by = user_text(writer.user)
        old = old_value(flow, parameter, writer.user) if _is_first_output(flow, parameter, writer.user) else None
        text = f"{where} is copied: {by} would overwrite it, and it is not donated"
        if old is None:
            return _inserted(by, f"{text}.")
        more = f"donated alone it is copied too, for {user_text(old.reader)}, which reads the old value"
        return _inserted(by, f"{text}; {more}.", f"donate it, and {old.advice}")
    if outputs:
        by = output_text(outputs[0].at)
        text = f"{where} is {by}: it is not donated, so an output cannot have its memory."
        return _inserted(by, text, _RETURN_ONCE)
    branch = next((use for use in ends.uses if use.role is Role.BRANCH), None)
    if branch is not None:
        text = f"{where} is {use_text(branch)}, which has memory of its own."
        return _inserted(use_text(branch), text, _ADVICE["branch"])
    by = taker_text(ends)
    return _inserted(by or None, f"{where} is copied for {by or 'its user'}, and is not donated.")


def _is_first_output(flow: Flow, parameter: HloInstruction, made: HloInstruction) -> bool:
    """Whether JAX gives the memory of a parameter, donated alone, to what an instruction makes."""
    leaves = shape_util.get_leaf_shapes(flow.module.entry.root.shape)
    alike = [tuple(each.index) for each in leaves if shape_util.compatible(each.shape, parameter.shape)]
    first = next((index for index in alike if index not in flow.taken), None)
    return first is not None and flow.source(flow.module.entry.root, first)[0].instruction is made


def _copied_donation(flow: Flow, parameter: HloInstruction, ends: Ends) -> CopyCause:
    """The cause of a copy of a donated argument, or of a copy of such a copy."""
    output = flow.donated[parameter.number]
    where, taker = parameter_text(parameter), output_text(output)
    made = flow.source(flow.module.entry.root, output)[0].instruction
    old = old_value(flow, parameter, made)
    if old is not None:
        text = f"{where} is donated, and {user_text(made)} writes {taker} in its memory; {user_text(old.reader)} reads"
        again = ", to compute the new value again" if old.computes_again else ""
        return _inserted(taker, f"{text} the old value{again}, and nothing orders it before.", old.advice)
    need = f" while {taker_text(ends)} needs it" if ends.uses else ""
    is_read = any(use.role is Role.OPERAND for use in ends.uses)
    is_returned = any(use.role is Role.OUTPUT for use in ends.uses)
    advice = _RETURN_ONCE if is_returned and not is_read else ""
    return _inserted(taker, f"{where} is donated, and {taker} would overwrite it{need}.", advice)


def _element_of_state(flow: Flow, source: Value) -> Value | None:
    """The part of a parameter that a value is, or is a copy of; None for other values. In the body of a loop, it is an
    element of the loop's state.
    """
    if source.instruction.opcode == Opcode.COPY and source.instruction.operands:
        source = flow.source(source.instruction.operands[0])[0]
    return source if source.instruction.opcode == Opcode.PARAMETER else None


def _still_read(flow: Flow, loop: HloInstruction, ends: Ends) -> CopyCause:
    """The cause of a copy of an element of a loop's state: which instruction reads the old value when which other one
    writes the new value, or which element takes its place.
    """
    old = ends.source
    new = flow.source(old.instruction.computation.root, old.at)[0]
    writer = new.instruction
    for _ in range(_MOST_INNER):
        if new.instruction.opcode != Opcode.COPY or not new.instruction.operands:
            break
        new = flow.source(new.instruction.operands[0])[0]
    if new.instruction is old.instruction and new.at != old.at:
        return _moved_in_state(new.at, old.at, use_text(ValueUse(loop, Role.CARRY, 0, old.at, ())))
    if writer.opcode == Opcode.COPY:
        writer = new.instruction
    where = (f"element {ShapeIndex(old.at)} of " if old.at else "") + f"the state of {user_text(loop)}"
    readers = [use for use in ends.uses if use.user is not writer] or ends.uses
    reader = use_text(readers[0]) if readers else "a later instruction"
    by = f" by {user_text(writer)}" if writer.opcode not in (Opcode.PARAMETER, Opcode.TUPLE) else ""
    text = f"{where} is still read by {reader} when its new value is written{by}."
    # What keeps the old value, as differentiation does for the backward pass, cannot come before it.
    keeps = any(flow.written_in_place(use) is None and _stores(use.user) for use in readers)
    return _inserted(f"the state of loop {loop.name}", text, "" if keeps else _READ_BEFORE)


def _stores(user: HloInstruction) -> bool:
    """Whether an instruction, or what a fusion ends in, puts a part into an array."""
    root = user.called_computations[0].root if user.opcode == Opcode.FUSION and user.called_computations else user
    return any(map(replaces_a_part, root.operands if root.opcode == Opcode.TUPLE else (root,)))


def _moved_in_state(before: tuple[int, ...], after: tuple[int, ...], by: str) -> CopyCause:
    """The cause of a copy where an element of a loop's state becomes another one."""
    text = f"Element {ShapeIndex(before)} of the loop's state becomes element {ShapeIndex(after)}"
    return _inserted(by, f"{text}, whose old value is still needed.", _ADVICE["carry"])


def _state(source: Value, carry: ValueUse, others: list[ValueUse]) -> CopyCause:
    """The cause of a copy where a loop's body returns an element of its state, at the same or another index, or a
    branch returns its operand.
    """
    before = ShapeIndex(source.at)
    by, advice = use_text(carry), _ADVICE[carry.role.value]
    if carry.role is Role.BRANCH:
        return _inserted(by, f"The branch gives its operand {before} back, which is not its own memory.", advice)
    if source.at != carry.at:
        return _moved_in_state(source.at, carry.at, by)
    other = next((use_text(use) for use in others if use is not carry), None)
    text = f"Element {before} of the loop's state goes on unchanged"
    return _inserted(by, text + (f", and {other} needs it too." if other else "."), advice)


def _inserted(by: str | None, text: str, advice: str = "") -> CopyCause:
    """The cause of a copy that copy insertion inserts. by: what forces it; text: the sentence; advice: what helps."""
    return CopyCause(COPY_INSERTION, by, _capital(text), "copy-insertion", advice)
