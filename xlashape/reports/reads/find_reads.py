"""`reads`: what the instructions of a module read, and how well."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Any, cast

from xlashape.base.caches import cached
from xlashape.base.collector import collector_paused
from xlashape.base.math import ceil_div, product
from xlashape.errors import InvalidArgumentError, XlashapeError
from xlashape.hlo import HloInstruction, HloModule, Opcode
from xlashape.hlo.files.module_of import compiled
from xlashape.hlo.module_proto.shown_frames import showing_frames
from xlashape.indexing.answers.leaves import is_unbounded, leaves, map_bytes
from xlashape.indexing.answers.operand_indexing import Knowledge, OperandIndexing, OperandIndexingSet
from xlashape.indexing.queries import errors_name_instruction, is_of_budget
from xlashape.indexing.reports.coalescing import Sample, check_warp, positions_read, sampled
from xlashape.indexing.reports.counting import fixed_runtime
from xlashape.indexing.reports.physical import physical_of_operand
from xlashape.indexing.reports.reads import computed_outputs, executed_readers
from xlashape.indexing.reports.utilisation import OperandUtilisation, point_count_of, utilisation_of_operand
from xlashape.indexing.walk.analysis import Analysis
from xlashape.indexing.walk.instruction_answers import calls_computation
from xlashape.limits import INT64_MAX, spend
from xlashape.reports.cost.kernel_blocks import kernel_blocks
from xlashape.reports.cost.program import runs_of
from xlashape.reports.cost.traffic import updated_operands
from xlashape.reports.origin import source_of
from xlashape.reports.program import early_notes, loop_notes, program
from xlashape.reports.reads.answer import Alike, Lanes, Measured, OperandRead, Read, Reads, Way, units_touched
from xlashape.reports.reads.consumers import CACHED, UNKNOWN, consumer_of, deciding_opcodes
from xlashape.reports.reads.devices import Device, device_of, place_in_tile
from xlashape.reports.reads.kernels import read_by_kernel
from xlashape.reports.reads.mends import Mend, mend_of
from xlashape.reports.reads.units import units_of, units_of_all
from xlashape.shape import Shape, Target
from xlashape.shape.tiling.padding import physical_bytes, stored_bits
from xlashape.symbolic import IndexingMap

_LONGEST_PATH = 4096
NO_SAMPLE = Sample(None, None, None, None)
"""The measurements of a way of reading of which nothing is known."""
_COALESCED = 2.0
"""A warp that touches at most this many times the ideal number of segments reads well: data need not begin at a
segment.
"""

_NOTHING = OperandIndexingSet()
_MOVES = frozenset({Opcode.TRANSPOSE, Opcode.REVERSE, Opcode.COPY})
_LEAST_COPY = 64 << 10
"""A read of fewer bytes is no copy inside a fusion."""


@collector_paused()
def reads(
    x: Any,
    *args: Any,
    instruction: str = "",
    computation: str = "",
    output: int | None = None,
    target: Target | str | None = None,
    warp: int | None = None,
    segment_bytes: int | None = None,
    frames: str | None = None,
    strict: bool = False,
    **kwargs: Any,
) -> Reads:
    """What each instruction of a program reads from memory, how the elements are used, and how many bytes are fetched
    in vain.

    x: a jitted function, whose arguments follow and which is lowered and compiled for the device that JAX has; a
    Lowered, which is compiled; or whatever else `HloModule.of` takes.
    instruction: only this instruction, which may be a fused one. `computation` then says where it is.
    computation: all instructions of this computation that have operands. Without either, those that read arrays from
    memory.
    output: only this array of the results, by its number.
    target: "gpu", "tpu", "cpu", "tpu-v5e", …; by default the device for which the module was compiled, as far as it
    says, else a GPU.
    warp: how many neighbouring outputs read together.
    segment_bytes: how many bytes are fetched together.
    frames: with "all", `source` names every frame that called an operation, and not the line of the user's own code
    alone.
    strict: refuse text that is no module as it stands (`xlashape.hlo.files.forgiving`).

    Rows come by instruction, and those first that fetch most in vain and again. An instruction that cannot be analysed
    has a row with an `error`; if it is the only one that was asked for, the error is raised. Raises what `HloModule.of`
    raises, NotFoundError for an instruction or computation that does not exist, InvalidArgumentError for a target or an
    output that does not exist and for a warp or a segment below 1, LimitExceededError for one that is too large, errors
    of JAX as they are, and those of the budget in force.

    >>> report = reads(
    ...     "ENTRY e { p = f32[64,20]{1,0:T(8,128)} parameter(0) ROOT t = f32[64,20]{1,0:T(8,128)} negate(p) }"
    ... )
    >>> report.target, report[0].tiles, report[0].tile_part, report[0].wasted_bytes
    ('tpu', 1.0, 0.15625, 27648)
    """
    check_warp(1 if warp is None else warp, 1 if segment_bytes is None else segment_bytes)
    module = program(compiled(x, args, kwargs), strict=strict)
    name = str(cast("os.PathLike[str]", x)) if isinstance(x, os.PathLike) else x
    is_file = isinstance(name, str) and len(name) < _LONGEST_PATH and "\n" not in name
    device = device_of(module, name if is_file else "", target, warp, segment_bytes)
    if instruction:
        where = module.computation(computation) if computation else module
        chosen = [where.instruction(instruction)]
    elif computation:
        chosen = [each for each in module.computation(computation).instructions if each.operands]
    else:
        chosen = executed_readers(module)
    with showing_frames(frames):
        found = _Finder(module, device, output, is_one=bool(instruction)).found(chosen)
    if output is not None and chosen and not found.reads:
        raise InvalidArgumentError(f"no instruction that reads something has an output {output}", field="output")
    return found


def wasted_by(
    module: HloModule, chosen: Sequence[HloInstruction], target: Target | str | None
) -> dict[HloInstruction, int]:
    """The bytes that each of these instructions fetches in vain in one execution, beyond the padding of what it reads.
    Instructions whose reads are not known, and those that read nothing from memory, are left out. For an operand that
    is read for several outputs, the output that wastes most counts.
    """
    device = device_of(module, "", target, None, None)
    by_name = {(each.computation.name, each.name): each for each in executed_readers(module)}
    wanted = [each for each in chosen if (each.computation.name, each.name) in by_name]
    worst: dict[tuple[str, str], dict[str | None, int]] = {}
    for row in _Finder(module, device, None, is_one=False).found(wanted).reads:
        if row.error is None and row.wasted_bytes is not None:
            beyond = max(0, row.wasted_bytes - round((row.padding_bytes or 0) * (row.part_read or 0.0)))
            of_operands = worst.setdefault((row.computation, row.instruction), {})
            of_operands[row.operand_name] = max(beyond, of_operands.get(row.operand_name, 0))
    return {by_name[name]: sum(of_operands.values()) for name, of_operands in worst.items()}


def fused_copies(module: HloModule) -> dict[HloInstruction, int]:
    """The loop fusions that transpose, reverse or copy what they read, and read at least 64 KiB of it so that
    neighbouring outputs are not neighbours in memory: each with the bytes that it reads so in a run of the program.

    >>> text = '''HloModule m f { q = f32[256,256] parameter(0) t = f32[256,256] transpose(q), dimensions={1,0}
    ... ROOT n = f32[256,256] negate(t) } ENTRY e { p = f32[256,256] parameter(0)
    ... ROOT fusion = f32[256,256] fusion(p), kind=kLoop, calls=f }'''
    >>> [(each.name, size) for each, size in fused_copies(HloModule.parse(text)).items()]
    [('fusion', 262144)]
    """
    finder = _Finder(module, device_of(module, "", None, None, None), None, is_one=False)
    found: dict[HloInstruction, int] = {}
    for instruction in executed_readers(module):
        if instruction.details.fusion_kind != "kLoop" or not any(
            each.opcode in _MOVES for called in instruction.called_computations for each in called.instructions
        ):
            continue
        strided: dict[int | None, int] = {}
        for row in finder.rows(instruction, finder.alike(instruction)):
            is_strided = row.stride not in (None, 0, 1) or (row.efficiency or 1.0) * _COALESCED < 1.0
            if is_strided and "streamed" in row.access and (row.distinct_bytes or 0) >= _LEAST_COPY:
                strided[row.operand] = max(strided.get(row.operand, 0), row.distinct_bytes or 0)
        if strided:
            found[instruction] = sum(strided.values()) * (finder.runs_of(instruction) or 1)
    return found


def each_read(module: HloModule) -> Iterator[Read]:
    """The rows of `reads` about a module, in the order of its instructions, one by one. None is kept, since each takes
    about a kilobyte.

    >>> text = "HloModule m ENTRY e { p = f32[64] parameter(0) ROOT s = f32[2] slice(p), slice={[0:64:32]} }"
    >>> [row.wasted_bytes for row in each_read(HloModule.parse(text))]
    [248]
    """
    finder = _Finder(module, device_of(module, "", None, None, None), None, is_one=False)
    for instruction in executed_readers(module):
        yield from finder.rows(instruction, finder.alike(instruction))


class _Finder:
    """Finds the rows of one call of `reads`. `output` is the only one that is wanted, or None. `is_one`: whether one
    instruction was asked for, so that its error is raised and not put into a row."""

    def __init__(self, module: HloModule, device: Device, output: int | None, *, is_one: bool) -> None:
        self._module = module
        self._device = device
        self._output = output
        self._is_one = is_one
        self._analysis = Analysis()
        runs = runs_of(module)
        self._unknown_loops = runs.unknown_loops
        self._runs = {computation: runs.times[computation] for computation in runs.exact}
        self._sizes: dict[Shape, tuple[str, int | None, int | None]] = {}
        self._opcodes: dict[Any, frozenset[str]] = {}
        self._known: dict[Any, tuple[OperandIndexingSet, Measured]] = {}
        self._alike: dict[tuple[object, ...], Alike] = {}
        """What holds for every instruction of a kind whose operands look so to it."""

    def found(self, chosen: Sequence[HloInstruction]) -> Reads:
        """The answer about these instructions: first those whose reads of main memory fetch most in vain and again in a
        run of the program, then those that read most of it, then as much for all memories.
        """
        alike = [self.alike(each) for each in chosen]
        runs = [self._runs.get(each.computation) for each in chosen]
        weights = [
            _weight(each, found, 1 if many is None else many)
            for each, found, many in zip(chosen, alike, runs, strict=True)
        ]
        order = sorted(range(len(chosen)), key=weights.__getitem__, reverse=True)
        rows = [row for number in order for row in self.rows(chosen[number], alike[number])]
        notes = (
            *self._module.notes,
            *early_notes(self._module),
            *loop_notes(self._unknown_loops if None in runs else ()),
        )
        answer = Reads(self._module, self._device, tuple(rows), dict(zip(chosen, alike, strict=True)))
        return answer.with_notes(notes)

    def alike(self, instruction: HloInstruction) -> Alike:
        """How an instruction reads."""
        # Values decide where nothing computes them. Equal shapes of a module are one object.
        kind, operands = instruction.kind, instruction.operands
        key = (kind, *[id(operand.kind.shape) if operand.operands else operand.kind for operand in operands])
        found = self._alike.get(key)
        if found is not None:
            return found
        size = "", None, None
        try:
            size = self._size(instruction.shape)
            with errors_name_instruction(instruction):
                reads, are_alike = self._operands_of(instruction)
        except XlashapeError as error:
            if self._is_one or is_of_budget(error):
                raise
            return Alike((), (), size, error)
        worst_first = sorted(reads, key=lambda each: (-each.measured.lost, -each.measured.distinct))
        found = Alike(tuple(reads), tuple(worst_first), size)
        if are_alike:
            self._alike[key] = found
        return found

    def runs_of(self, instruction: HloInstruction) -> int | None:
        """How often an instruction runs in one run of the program; None where that is not known."""
        return self._runs.get(instruction.computation)

    def rows(self, instruction: HloInstruction, alike: Alike) -> Iterator[Read]:
        """The rows of an instruction that reads so."""
        if alike.error is not None:
            yield _failed(instruction, alike.error)
            return
        spend(1 + len(alike.operands))
        name, computation, opcode = instruction.name, instruction.computation, str(instruction.kind.opcode)
        operands, where, runs = instruction.operands, computation.name, self._runs.get(computation)
        source, op_name = source_of(instruction)
        for output, number, measured in alike.worst_first:
            yield Read._make(
                (
                    name,
                    where,
                    output,
                    number,
                    operands[number].name,
                    opcode,
                    *measured.columns,
                    measured.mend and measured.mend.text(instruction, operands[number], output),
                    source,
                    op_name,
                    None,
                    runs,
                )
            )

    def _size(self, shape: Shape) -> tuple[str, int | None, int | None]:
        """The text of a shape on the device, the bytes of its buffers, and how many are padding; None where they are
        not known.
        """
        known = self._sizes.get(shape)
        if known is None:
            known = self._sizes[shape] = self._size_of(shape)
        return known

    def _size_of(self, shape: Shape) -> tuple[str, int | None, int | None]:
        total = elements = 0
        placed = self._device.placed(shape)
        try:
            for leaf in shape.leaves():
                array = leaf.buffer_shape if leaf.is_buffer else leaf
                if array.is_array:
                    array = self._device.placed(array)
                    total += physical_bytes(array)
                    elements += ceil_div(product(array.dimensions) * stored_bits(array), 8)
        except XlashapeError:  # a dimension without a bound, or an element type without a known width
            return str(placed), None, None
        return str(placed), total, total - elements

    def _operands_of(self, instruction: HloInstruction) -> tuple[list[OperandRead], bool]:
        """How each operand is read for each output, and whether that holds for all instructions of the same kinds."""
        found: list[OperandRead] = []
        kernel = kernel_blocks(instruction)
        kernel = kernel if kernel is not None and kernel.is_known else None
        arrays = computed_outputs(instruction)[: None if kernel is None else 1]  # a kernel reads for all at once
        if self._output is not None:
            if not self._is_one and self._output not in arrays:
                return found, True
            arrays = [self._output]
        fused = instruction.called_computations if instruction.opcode == "fusion" else ()
        key = fused[0] if fused else str(instruction.opcode)
        opcodes = self._opcodes.get(key)
        if opcodes is None:
            opcodes = self._opcodes[key] = deciding_opcodes(instruction)
        outputs = leaves(instruction.shape)
        unbounded = is_unbounded(instruction.shape)
        are_alike = not calls_computation(instruction)
        updated = updated_operands(instruction)
        for output in arrays:
            maps = self._analysis.output_to_input(instruction, output)
            if not 0 <= output < len(outputs) or not (outputs[output].is_array or outputs[output].is_buffer):
                raise InvalidArgumentError(
                    f"output {output} of {instruction.name} is not an array: it has no positions", field="output"
                )
            shape = outputs[output]
            for number, (operand, ways) in enumerate(zip(instruction.operands, maps, strict=True)):
                spend(1 + len(ways))
                # One map says where the elements are that an update in place keeps.
                read = _NOTHING if len(ways) == 1 and updated.get(output) == number else ways
                # Equal sets of maps are mostly one object, and to hash them takes longer than to measure one again.
                key = id(read), shape, operand.shape, opcodes, unbounded
                known = self._known.get(key)
                if known is None:
                    measured = self._measured(read, shape, operand.shape, opcodes, unbounded)
                    known = self._known[key] = (read, measured)
                are_alike = are_alike and not any(access.runtime for access in read)
                measured = known[1]
                if kernel is not None:
                    measured = read_by_kernel(kernel, number, operand, measured)
                found.append(OperandRead(output, number, measured))
        return found, are_alike

    def _measured(
        self, maps: OperandIndexingSet, output: Shape, operand: Shape, opcodes: frozenset[str], unbounded: bool,
        mended: bool = True,
    ) -> Measured:  # fmt: skip
        """The measurements of an operand of this shape that is read for an output of this shape; `mended`: and what
        mends the read."""
        use = OperandUtilisation(None, None, None) if unbounded else utilisation_of_operand(maps, operand)
        arrays = [self._device.placed(leaf) for leaf in leaves(operand)]
        output = self._device.placed(output)
        positions = physical_of_operand(output, maps, arrays)
        ways = tuple(self._ways_of(maps.simplify(), arrays, positions, use, opcodes, output))
        kinds = tuple(dict.fromkeys([way.consumer.kind for way in ways])) or ("not read",)
        least = self._least(arrays, use, ways)
        distinct = _distinct(arrays, use)
        wasted = None
        if least is not None and distinct is not None and UNKNOWN.isdisjoint(kinds):
            wasted = 0 if CACHED.issuperset(kinds) else self._wasted(arrays, ways, least, distinct)
        most, again = self._most(arrays, ways, least)
        sample = max([way.sample for way in ways if way.sample.segments is not None], key=_badness, default=NO_SAMPLE)
        kind = self._device.kind
        relayouts = [way.lanes.relayout for way in ways if way.lanes.relayout is not None]
        text, size, padding = self._size(operand)
        columns = (
            kinds,
            use.utilisation,
            use.is_upper_bound,
            use.reads_per_element,
            tuple(dict.fromkeys([each for way in ways for each in way.consumer.reused_along])),
            sample.stride,
            *units_touched(sample, kind).values(),
            sample.ideal,
            _is_coalesced(sample) if kind == "gpu" else None,
            distinct / least if kind == "tpu" and distinct is not None and least else None,
            next((each for each in relayouts if each != "none"), relayouts[0] if relayouts else None),
            text,
            size,
            padding,
            distinct,
            least,
            most,
            wasted,
            again,
            maps.knowledge.value if len(maps) else Knowledge.EXACT.value,
            "\n".join([way.access.map.to_text() for way in ways]) or "not read",
        )
        lost = (wasted or 0) + (again or 0)
        mend = self._mend(ways, maps, output, arrays, lost, opcodes) if mended else None
        return Measured(columns, ways, lost, distinct or 0, mend)

    def _mend(
        self, ways: Sequence[Way], maps: OperandIndexingSet, output: Shape, arrays: Sequence[Shape], lost: int,
        opcodes: frozenset[str],
    ) -> Mend | None:  # fmt: skip
        """What mends the read of an operand, if it is one array, and `lost` bytes are fetched in vain or again."""

        def lost_by(operand: Shape, result: Shape) -> int:
            return self._measured(maps, result, operand, opcodes, False, mended=False).lost

        if not lost or len(arrays) != 1:
            return None
        found = [mend_of(way, arrays[0], output, lost, lost_by) for way in ways]
        return next((each for each in found if each), None)

    def _ways_of(
        self, maps: OperandIndexingSet, arrays: Sequence[Shape], physical: OperandIndexingSet, use: OperandUtilisation,
        opcodes: frozenset[str], output: Shape,
    ) -> Iterator[Way]:  # fmt: skip
        """The ways in which an operand with these leaves is read for an output of this shape."""
        again = use.reads is None or use.distinct is None or use.reads > use.distinct
        by_position: list[OperandIndexing | None] = list(physical) if len(physical) == len(maps) else [None] * len(maps)
        for access, found in zip(maps, by_position, strict=True):
            if access.map.is_known_empty:
                continue
            reads_again = again
            if again and len(maps) > 1:
                count = point_count_of(access.map)
                reads_again = count is None or use.distinct is None or count > use.distinct
            consumer = consumer_of(access, opcodes, reads_again=reads_again)
            array = arrays[access.leaf]
            if found is None or consumer.kind == "unknown" or not array.is_array:
                yield Way(access, found, consumer, NO_SAMPLE, Lanes())
                continue
            fixed, bits = fixed_runtime(found.map), stored_bits(array)
            together = self._device.outputs(output)
            lanes = Lanes()
            if self._device.kind == "tpu":
                lanes = _lanes(fixed, bits, stored_bits(output), together)
                lanes = lanes if consumer.kind in ("streamed", "broadcast") else lanes._replace(relayout=None)
            yield Way(access, found, consumer, sampled(fixed, bits, together, self._device.unit_bytes(array)), lanes)

    def _least(self, arrays: Sequence[Shape], use: OperandUtilisation, ways: Sequence[Way]) -> int | None:
        """The bytes of all units that hold an element which is read; None where that is not known."""
        if use.distinct == 0:
            return 0
        if use.distinct is None or any(not leaf.is_array for leaf in arrays):
            return None
        by_leaf: dict[int, list[Way]] = {}
        for way in ways:
            by_leaf.setdefault(way.access.leaf, []).append(way)
        total = 0
        for leaf, of_leaf in by_leaf.items():
            array = arrays[leaf]
            unit = self._device.unit_bytes(array)
            physical = [fixed_runtime(way.physical.map) for way in of_leaf if way.physical is not None]
            if use.distinct == use.elements:
                count = units_of_all(array, unit)
            elif len(physical) < len(of_leaf) or any(way.consumer.kind in UNKNOWN for way in of_leaf):
                return None
            else:
                count = units_of(array, [fixed_runtime(way.access.map) for way in of_leaf], physical, unit)
            if count is None:
                return None
            total += count * unit
        return min(total, INT64_MAX)

    def _wasted(self, arrays: Sequence[Shape], ways: Sequence[Way], least: int, distinct: int) -> int:
        """The bytes that are fetched beside the wanted ones, if fewer units could hold the wanted bytes."""
        unit = max([self._device.unit_bytes(arrays[way.access.leaf]) for way in ways], default=1)
        return max(0, least - distinct) if least > ceil_div(distinct, unit) * unit else 0

    def _most(self, arrays: Sequence[Shape], ways: Sequence[Way], least: int | None) -> tuple[int | None, int | None]:
        """The bytes that are fetched if every group of outputs fetches all that it reads, and how many of them because
        elements that are streamed are not contiguous; None where that is not known."""
        total = streamed = contiguous = 0.0
        for way in ways:
            count, sample = point_count_of(way.access.map), way.sample
            if count is None or sample.per_element is None:
                return None, None
            fetched = count * sample.per_element * self._device.unit_bytes(arrays[way.access.leaf])
            total += fetched
            if way.consumer.kind == "streamed" and sample.segments and sample.ideal is not None:
                streamed += fetched
                contiguous += fetched * sample.ideal / sample.segments
        again = max(0, round(streamed) - max(least or 0, round(contiguous)))
        return min(max(least or 0, round(total)), INT64_MAX), min(again, INT64_MAX)


def _weight(instruction: HloInstruction, alike: Alike, runs: int) -> tuple[int, int, int, int]:
    """What an instruction fetches in vain and again of main memory in a run of the program, and what it reads of it;
    and as much of all memories."""
    main = [each for each in alike.operands if _is_in_main_memory(instruction.operands[each.number].shape)]
    sums = [
        runs * sum([getattr(each.measured, name) for each in some])
        for some in (main, alike.operands)
        for name in ("lost", "distinct")
    ]
    return sums[0], sums[1], sums[2], sums[3]


def _is_in_main_memory(shape: Shape) -> bool:
    return shape.layout is None or not shape.layout.memory_space


def _distinct(arrays: Sequence[Shape], use: OperandUtilisation) -> int | None:
    """The bytes of the elements that are read at least once; None where that is not known."""
    if use.distinct is None:
        return None
    try:
        bits = {stored_bits(leaf) for leaf in arrays if leaf.is_array}
    except XlashapeError:  # an element type without a known width
        return None
    return ceil_div(use.distinct * bits.pop(), 8) if len(bits) == 1 else None


def _badness(sample: Sample) -> float:
    """How many times as many units are touched as contiguous elements would touch."""
    return (sample.segments or 0.0) / (sample.ideal or 1.0)


def _is_coalesced(sample: Sample) -> bool | None:
    return None if sample.segments is None or sample.ideal is None else sample.segments <= _COALESCED * sample.ideal


def _failed(instruction: HloInstruction, error: XlashapeError) -> Read:
    """The row of an instruction whose reads are not known."""
    known: dict[str, Any] = dict.fromkeys(Read._fields)
    known["access"], known["reused_along"], known["error"] = ("unknown",), (), error.message
    known["instruction"], known["computation"] = instruction.name, instruction.computation.name
    known["opcode"] = str(instruction.opcode)
    known["source"], known["op_name"] = source_of(instruction)
    return Read(**known)


def _distinct_of(numbers: Any) -> int:
    """How many different numbers an array has, in a tenth of the time that `numpy.unique` takes."""
    import numpy as np

    ascending = np.sort(numbers)
    return 1 + int((ascending[1:] != ascending[:-1]).sum())


# Modules repeat their maps, so results are kept.
@cached(max_bytes=4 << 20, weigh=lambda key, value: 400 + map_bytes(key[0]))
def _lanes(indexing_map: IndexingMap, bits: int, output_bits: int, outputs: int) -> Lanes:
    """The parts of the lanes and sublanes of the touched tiles that are used, and which of the two change from operand
    to output. `bits` are those of an element, `outputs` is how many neighbouring outputs read together.
    """
    import numpy as np

    if indexing_map.is_undefined or indexing_map.is_known_empty:
        return Lanes()
    found = positions_read(indexing_map, outputs)
    rows, columns = np.nonzero(found.is_read)
    if not len(rows):
        return Lanes()
    positions = found.positions[rows, columns]
    sublane, lane = (np.asarray(each) for each in place_in_tile(positions, bits))
    # The number of the 4 KiB tile of each read. Combined with a lane or a sublane it is a single number too.
    blocks = positions * bits // (32 * 1024)
    tile = rows * (int(blocks.max()) + 1) + blocks
    if (int(blocks.max()) + 1) * (int(rows.max()) + 1) >= INT64_MAX >> 7:
        tile = np.unique(tile, return_inverse=True)[1]
    touched, lanes, sublanes = _distinct_of(tile), _distinct_of(tile * 128 + lane), _distinct_of(tile * 8 + sublane)
    other_sublane, other_lane = (np.asarray(each) for each in place_in_tile(found.outputs[rows, columns], output_bits))
    moved = [
        name
        for name, one, other in (("lanes", lane, other_lane), ("sublanes", sublane, other_sublane))
        if (one != other).any()
    ]
    return Lanes(lanes / (128 * touched), sublanes / (8 * touched), " and ".join(moved) or "none")
