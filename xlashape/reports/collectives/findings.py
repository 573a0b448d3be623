"""What sends more than it has to, or more often, and what removes that. A finding is given only where it follows from
the module:

    repeated      two collectives of one computation and kind, with the same groups, have the same operands
    invariant     all operands of a collective in a loop are the same in every iteration
    accumulated   a loop's state has a sum to which each iteration adds the result of an all-reduce, and nothing else
                  uses either
    unread        what the last iteration of a loop receives is an element of the loop's state that nothing reads
                  behind the loop
    wide          the operand is a conversion to a wider type, or a fusion that ends in one. Of floats only with a
                  target that is no CPU, since the CPU's compiler converts by itself
    sliced        each device uses a part of the result alone, and another collective brings it that part
    argument      the partitioner has the devices exchange their parts of an argument, which nothing uses before, so
                  that the argument could come divided so
    undivided     all-reduces add up what each device computes of the whole batch, which an argument has divided over
                  the same devices
    small         all-reduces of less than 1 MiB with the same groups, none of which needs another one
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Final, NamedTuple

from xlashape.base.math import counted
from xlashape.hlo import HloInstruction, Opcode
from xlashape.hlo.collectives import Collective, DeviceGrid, DeviceGroups
from xlashape.hlo.flow import Flow, Value
from xlashape.hlo.ops.exchange import ALL_GATHER, ALL_REDUCE, COLLECTIVE_PERMUTE, REDUCE_SCATTER, Exchanged
from xlashape.limits import spend
from xlashape.reports.collectives.batches import Batch, batches_of, multiplied
from xlashape.reports.collectives.loops import Loop, is_carried_only, is_invariant, is_summand, loop_of
from xlashape.reports.collectives.pairs import ShardingPairs
from xlashape.reports.collectives.parts import PartFinder
from xlashape.reports.cost.program import Runs
from xlashape.reports.text import short_bytes
from xlashape.shape.xla_util.shape_util import byte_size_of_elements

_SMALL: Final = 1 << 20
_PROMOTED: Final = "promoted"


class Sent(NamedTuple):
    """A collective with what it moves and how often it runs."""

    collective: Collective
    moved: Exchanged
    groups: DeviceGroups
    axes: tuple[str, ...] | None
    times: int


class Found(NamedTuple):
    """A finding: the fields of `CollectiveFinding`, with the collectives themselves."""

    kind: str
    saved_bytes: int
    collectives: tuple[Collective, ...]
    text: str
    fix: str


def findings_of(
    flow: Flow, sent: Sequence[Sent], runs: Runs, grid: DeviceGrid, pairs: ShardingPairs | None, *, sends_floats: bool
) -> list[Found]:
    """The findings, those first that save the most. `pairs`: how arrays are divided, where that is known.
    `sends_floats`: whether the device is known to exchange floats of 16 bits and less as they are. XLA's CPU backend
    widens them first.
    """
    sending = [each for each in sent if any(each.moved)]
    if not sending:
        return []
    parts = PartFinder(flow, grid)
    is_optimized = flow.module.head.HasField("schedule")
    found = [*_repeated(sending), *_small(sending, is_optimized=is_optimized)]
    found += _undivided(sending, pairs) if pairs is not None else []
    for each in sending:
        if each.collective.begin is each.collective.instruction and each.times:
            loop = loop_of(each.collective.instruction.computation, flow, runs)
            with suppress(LookupError, ValueError):  # of a module that contradicts itself, which only a verifier tells
                finding = None
                if loop is not None:
                    finding = (
                        _invariant(each, loop, flow) or _accumulated(each, loop, flow) or _unread(each, loop, flow)
                    )
                finding = finding or _of_argument(each, flow, grid, pairs)
                finding = finding or _sliced(each, parts, is_optimized=is_optimized) or _wide(each, sends_floats)
                found += [finding] if finding is not None else []
    return sorted(_alike(found), key=lambda each: -each.saved_bytes)


def _alike(found: Iterable[Found]) -> Iterable[Found]:
    """The findings, of which those with the same fix are one."""
    groups: dict[tuple[str, str], list[Found]] = defaultdict(list)
    for each in found:
        groups[each.kind, each.fix].append(each)
    for same in groups.values():
        same.sort(key=lambda each: -each.saved_bytes)
        first = same[0]
        more = f" {counted(len(same) - 1, 'other')} like it." if len(same) > 1 else ""
        every = tuple([collective for each in same for collective in each.collectives])
        saved = sum([each.saved_bytes for each in same])
        yield first._replace(saved_bytes=saved, collectives=every, text=first.text + more)


def _name(each: Sent) -> str:
    return each.collective.instruction.name


def _repeated(sent: Sequence[Sent]) -> Iterable[Found]:
    groups: dict[tuple[object, ...], list[Sent]] = defaultdict(list)
    for each in sent:
        instruction = each.collective.instruction
        if each.collective.begin is instruction and not each.collective.exchange.is_one_sided:
            key = instruction.computation, instruction.kind, instruction.operands, instruction.called_computations
            groups[key].append(each)
    for same in groups.values():
        if len(same) > 1:
            again, kept = same[1:], same[0].collective.result_bytes
            yield Found(
                "repeated",
                sum([each.moved.sent * each.times for each in again]),
                tuple([each.collective for each in again]),
                f"{', '.join(map(_name, same[:4]))}{', …' if len(same) > 4 else ''} exchange the same operand.",
                f"Use the result of {_name(same[0])} for all, which then holds {short_bytes(kept)} until the last use.",
            )


def _small(sent: Sequence[Sent], *, is_optimized: bool) -> Iterable[Found]:
    """All-reduces of one computation that are small and do not need each other, so that one of a tuple would do."""
    fix = "One all-reduce of all of them, such as lax.psum of a tuple, waits once; the bytes stay, and less may run "
    fix += "beside it. On GPUs --xla_gpu_all_reduce_combine_threshold_bytes says what XLA combines."
    if not is_optimized:
        fix = f"XLA's optimizations, which are still to come, combine some. If others are left: {fix}"
    groups: dict[tuple[object, ...], list[Sent]] = defaultdict(list)
    written: dict[object, tuple[object, ...]] = {}
    for each in sent:
        instruction = each.collective.instruction
        # Of those that the partitioner made, XLA has combined what it could, and the author of the program none.
        is_left = is_optimized and bool(instruction.metadata.op_name) and not _is_asked(instruction)
        if each.collective.exchange is ALL_REDUCE and each.collective.size < _SMALL and not is_left:
            kind = instruction.kind
            if kind not in written:
                is_global = kind.message.use_global_device_ids
                written[kind] = instruction.replica_groups.groups, bool(instruction.channel), is_global
            where = each.collective.begin.computation, each.collective.begin is instruction
            groups[(*where, *written[kind], _reduction(instruction))].append(each)
    for members in groups.values():
        if len(members) < 2:
            continue
        rounds = _rounds([each.collective.begin for each in members])
        if rounds < len(members):
            total = sum([each.collective.size for each in members])
            yield Found(
                "small",
                0,
                tuple([each.collective for each in members]),
                f"{counted(len(members), 'all-reduce')} of less than 1 MiB over the same devices, {short_bytes(total)} "
                f"together, need only {counted(rounds, 'round')}.",
                fix,
            )


def _undivided(sent: Sequence[Sent], pairs: ShardingPairs) -> Iterable[Found]:
    """All-reduces of the whole batch of an argument, which the same axes divide."""
    gathers = [
        (each.collective.instruction, each.axes, each.groups.size)
        for each in sent
        if each.collective.exchange is ALL_GATHER and each.axes and each.collective.begin is each.collective.instruction
    ]
    batches = reversed(batches_of(pairs, gathers))
    for batch in {(frozenset(each.axes), each.sizes): each for each in batches}.values():
        saved = {each: _undivided_bytes(each, batch, pairs) for each in sent if set(each.axes or ()) == set(batch.axes)}
        found = sorted([(size, each) for each, size in saved.items() if size is not None], key=lambda pair: -pair[0])
        if found:
            over, first = ", ".join(map(repr, batch.axes)), found[0][1]
            spec = over if len(batch.axes) == 1 else f"({over})"
            yield Found(
                "undivided",
                sum([size for size, _ in found]),
                tuple([each.collective for _, each in found]),
                "Activations are divided along features, and not along the batch "
                f"({' × '.join(map(str, batch.sizes))}), as {batch.name} is over {over}: "
                f"{counted(len(found), 'all-reduce')} such as {_name(first)} add up products of the whole batch.",
                "Divide the activations along the batch where they begin, as behind the embedding: "
                f"jax.lax.with_sharding_constraint(x, NamedSharding(mesh, PartitionSpec({spec}))). Weights are "
                f"gathered instead, and each device computes and holds 1 of {first.groups.size} of the batch.",
            )


def _undivided_bytes(each: Sent, batch: Batch, pairs: ShardingPairs) -> int | None:
    """What is saved of an all-reduce where the batch is divided, and weights are gathered: once to use them, and as
    much again for their gradients. None where it is no all-reduce of a product of the whole batch, or nothing is saved.
    Of a product of two activations it is not known how much, and counts 0, where other axes may divide what is added.
    """
    instruction, saved = each.collective.instruction, 0
    is_sum = each.collective.exchange is ALL_REDUCE and _reduction(instruction) is Opcode.ADD
    if not is_sum or _is_asked(instruction):
        return None
    others = pairs.mesh.device_count // each.groups.size
    whole = [each for each in instruction.operands if each.shape.is_array and batch.is_in(each.shape.dimensions)]
    made = [(operand, found) for operand in whole if (found := multiplied(operand, batch, pairs)) is not None]
    is_open = False
    for operand, (weight,) in made:
        if weight is None and others > 1:
            is_open = True
        else:
            now = each.moved.sent * byte_size_of_elements(operand.shape) // each.collective.operand_bytes
            saved += max(0, now - 2 * (each.groups.size - 1) * (weight or 0))
    return saved * each.times if each.times and (saved or is_open) else None


def _sliced(each: Sent, parts: PartFinder, *, is_optimized: bool) -> Found | None:
    """A collective of whose result each device uses a part alone."""
    collective = each.collective
    instead = parts.instead(collective, each.groups)
    if instead is None:
        return None
    exchange, part = instead.exchange, collective.operand_bytes // each.groups.size
    if exchange is REDUCE_SCATTER and not is_optimized:
        return None  # the compiler is going to make a reduce-scatter of it
    if exchange is REDUCE_SCATTER and collective.size < _SMALL and _is_of_tpu(collective.instruction):
        return None  # the compiler made an all-reduce of the reduce-scatter
    saved = each.moved.sent - exchange.moved(instead.devices, collective.operand_bytes, part).sent
    if exchange is REDUCE_SCATTER:
        fix = "One reduce-scatter does both, which XLA's compilers for GPUs and TPUs often make: "
        if is_spmd(collective.instruction):
            fix += "with_sharding_constraint on the result says that each device wants its part."
        elif _reduction(collective.instruction) is Opcode.ADD:
            fix += "lax.psum_scatter asks for it."
        else:
            return None  # JAX scatters sums alone
    elif is_spmd(collective.instruction):
        fix = "The partitioner gathers it to get from one sharding to another: divide both alike, or constrain the "
        fix += "array to a sharding on the way (xs.sharding.reshard names some)."
    elif instead.devices:
        made = "lax.ppermute" if exchange is COLLECTIVE_PERMUTE else "lax.all_to_all"
        fix = f"{exchange.kind.capitalize()} ({made}) brings each device what it uses."
    else:
        fix = "Each device has the part that it uses: nothing has to be sent."
    text = f"{_name(each)} gives each device all, of which it uses part: 1 of {each.groups.size}."
    return Found("sliced", saved * each.times, (collective,), text, fix) if saved > 0 else None


def _of_argument(each: Sent, flow: Flow, grid: DeviceGrid, pairs: ShardingPairs | None) -> Found | None:
    """A permute of a whole argument, of which each device wants the part of another one, and which has no other use.
    Arguments in whose memory a result lies have to be divided as the result is."""
    instruction = each.collective.instruction
    if each.collective.exchange is not COLLECTIVE_PERMUTE or not is_spmd(instruction) or len(instruction.operands) != 1:
        return None
    argument = flow.definition(instruction.operands[0]).instruction
    sources = {pair.source: pair.target for pair in instruction.kind.message.source_target_pairs}
    is_argument = argument.opcode is Opcode.PARAMETER and argument.computation is flow.module.entry
    is_permutation = len(set(sources.values())) == len(sources) == grid.device_count
    if not is_argument or not is_permutation or argument.number in flow.donated or not argument.shape.is_array:
        return None
    if any(use.user not in each.collective.parts for use in flow.uses(argument)):
        return None
    name = argument.metadata.op_name or argument.name
    exchanged = None if pairs is None else pairs.mesh.exchanged(sources)
    how = "as it is used"
    if exchanged is not None:
        how = f"with {exchanged[0]} and {exchanged[1]} exchanged in its PartitionSpec"
    return Found(
        "argument",
        each.moved.sent * each.times,
        (each.collective,),
        f"{_name(each)} has the devices exchange their parts of the argument {name} before its first use.",
        f"Pass {name} divided {how}: nothing has to be sent for it.",
    )


def _is_of_tpu(instruction: HloInstruction) -> bool:
    """Whether an instruction has a layout with tiles, as those of TPUs have."""
    return any(leaf.layout is not None and bool(leaf.layout.tiles) for leaf in instruction.shape.leaves())


def _reduction(instruction: HloInstruction) -> object:
    """The opcode by which an all-reduce combines two values."""
    return instruction.called_computations[0].root.opcode if instruction.called_computations else None


def _rounds(members: Sequence[HloInstruction]) -> int:
    """The longest chain of members each of which needs the one before it."""
    chosen = set(members)
    longest: dict[HloInstruction, int] = {}
    instructions = members[0].computation.instructions
    spend(len(instructions))
    for each in instructions:
        before = max([longest.get(operand, 0) for operand in each.operands], default=0)
        longest[each] = before + (each in chosen)
    return max(longest.values())


# -- loops -------------------------------------------------------------------------------------


def _invariant(each: Sent, loop: Loop, flow: Flow) -> Found | None:
    operands = each.collective.instruction.operands
    if each.collective.exchange.is_one_sided or not all(is_invariant(operand, flow) for operand in operands):
        return None
    held = short_bytes(each.collective.result_bytes)
    return Found(
        "invariant",
        each.moved.sent * (each.times - loop.begins),
        (each.collective,),
        f"{_name(each)} exchanges the same value in each of {loop.trips:,} iterations.",
        f"Exchange it before the loop, which then holds {held} on each device.",
    )


def _accumulated(each: Sent, loop: Loop, flow: Flow) -> Found | None:
    """An all-reduce that adds up, and each array of which is only added to an element of the loop's state."""
    instruction = each.collective.instruction
    is_sum = each.collective.exchange is ALL_REDUCE and _reduction(instruction) is Opcode.ADD
    parts = [(n,) for n in range(len(instruction.shape.tuple_shapes))] if instruction.shape.is_tuple else [()]
    if not is_sum or instruction.is_root or not all(is_summand(Value(instruction, part), flow) for part in parts):
        return None
    return Found(
        "accumulated",
        each.moved.sent * (each.times - loop.begins),
        (each.collective,),
        f"{_name(each)} is reduced in each of {loop.trips:,} iterations, and only the sum is used.",
        "Add up what each device has, and reduce the sum once after the loop; floats may differ in the last bits.",
    )


def _unread(each: Sent, loop: Loop, flow: Flow) -> Found | None:
    """A collective whose result is only handed on to the next iteration, as the blocks of a ring are."""
    end = each.collective.end or each.collective.instruction
    parts = [(n,) for n in range(len(end.shape.tuple_shapes))] if end.shape.is_tuple else [()]
    if each.collective.exchange.is_one_sided or not all(is_carried_only(Value(end, part), flow) for part in parts):
        return None
    name = _name(each)
    return Found(
        "unread",
        each.moved.sent * loop.begins,
        (each.collective,),
        f"Nothing reads what {name} brings in the last of {loop.trips:,} iterations.",
        f"Run the loop for {counted(loop.trips - 1, 'iteration')}, and behind it what the last one computes, without "
        "the exchange.",
    )


# -- types -----------------------------------------------------------------------------------


def _wide(each: Sent, sends_floats: bool) -> Found | None:
    """A collective of one array that is a conversion of a narrower one."""
    instruction = each.collective.instruction
    # XLA's AllReducePromotion converts for backends that cannot add up narrow types, and names what it made.
    is_promoted = any(_PROMOTED in called.name for called in instruction.called_computations)
    if len(instruction.operands) != 1 or each.collective.exchange.is_one_sided or is_promoted:
        return None
    made = instruction.operands[0]
    if made.kind.row.fuses_called_computation and made.called_computations:
        made = made.called_computations[0].root
    if made.opcode is not Opcode.CONVERT or not made.shape.is_array:
        return None
    narrow, wide = made.operands[0].shape.element_type, made.shape.element_type
    is_left = narrow.text.startswith(("f", "bf")) and not sends_floats
    if not narrow.bit_width < wide.bit_width or narrow.text == "pred" or is_left:
        return None
    kept = each.moved.sent * narrow.bit_width // wide.bit_width
    exact = each.collective.exchange not in (ALL_REDUCE, REDUCE_SCATTER)
    loss = "" if exact else f"; sums are then in {narrow.text}"
    return Found(
        "wide",
        (each.moved.sent - kept) * each.times,
        (each.collective,),
        f"{_name(each)} exchanges {wide.text} that were {narrow.text} just before.",
        f"Exchange {narrow.text} and convert after{loss}.",
    )


def _is_asked(instruction: HloInstruction) -> bool:
    """Whether the program itself asks for a collective, as its name says."""
    return any(name in (instruction.metadata.op_name or "") for name in ("psum", "shard_map"))


def is_spmd(instruction: HloInstruction) -> bool:
    """Whether an instruction says that the partitioner made it."""
    return instruction.details.frontend_attributes.map.get("is_spmd_generated") == "true"


def cause_of(collective: Collective, axes: tuple[str, ...] | None, pair: tuple[str, str] | None) -> str:
    """What a collective exchanges, in words."""
    instruction, exchange = collective.instruction, collective.exchange
    over = f" over {', '.join(axes)}" if axes else ""
    dimensions = list(instruction.details.dimensions)
    where = f"dimension {dimensions[0]}" if dimensions else "parts"
    wanted = {
        ALL_GATHER: f"{where} is divided{over}, and each device wants it whole",
        REDUCE_SCATTER: f"each device has a summand{over}, and wants its part of the sum",
        ALL_REDUCE: f"each device has a summand{over}, and wants the sum",
    }
    said = wanted.get(exchange, f"{exchange.kind}{over}")
    if pair is not None:
        said += f": from {pair[0]} to {pair[1]}"
    return f"{said}; the partitioner made it" if is_spmd(instruction) else said
