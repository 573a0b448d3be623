"""Modules in canonical form: the parts of each instruction that count, and hashes of instructions, computations and the
module. The docstring of `xlashape.hlo.canonical` says what counts.

Each instruction has local parts without operands: opcode, shape and attributes in canonical form. `up` is a hash of
these parts, of the `up` of operands and control predecessors, and of the hashes of called computations. `down` is a
hash of `up` and of the `down` of all users, with the position of the operand in each. The hash of a computation is a
hash of the sorted `down` of its instructions. So an instruction is identified by what it computes and by what uses it.
Instructions that agree in both are counted, but not distinguished. Time and memory are linear in instructions and
operands, apart from sorting; nothing is recursive.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Final, NamedTuple

from xlashape.base.math import product
from xlashape.base.similar import did_you_mean
from xlashape.errors import InvalidArgumentError, InvalidModuleError, XlashapeError, is_a
from xlashape.hlo.canonical.constants import constant_key
from xlashape.hlo.canonical.kernels import canonical_config
from xlashape.hlo.ir import HloComputation, HloInstruction, ModuleData
from xlashape.hlo.module_proto.order import post_order
from xlashape.hlo.ops.opcode import Opcode
from xlashape.hlo.ops.operation import AsyncStep, Contents
from xlashape.hlo.serde import sequences
from xlashape.hlo.values.aliasing import ALIAS_KINDS, OUTPUT_TO_OPERAND_ALIASING
from xlashape.hlo.values.devices import Iota
from xlashape.hlo.values.metadata import payload_bytes
from xlashape.hlo.values.plain import FRONTEND_ATTRIBUTES
from xlashape.hlo.values.sharding import SHARDING
from xlashape.limits import spend
from xlashape.proto import xla
from xlashape.shape import Shape
from xlashape.shape.text import shape_text

VERSION: Final = "1"
"""The version of the canonical form."""

_DIGEST: Final = 16
_POSITIONS: Final = [b"%d:" % position for position in range(16)]
"""What stands before the hash of a user, by the position of the operand."""
_LAYOUT_ATTRIBUTES: Final = frozenset(("operand_layout_constraints",))
_SHARDING_ATTRIBUTES: Final = frozenset(("domain",))
_NOT_ESSENTIAL: Final = frozenset(("channel_id",))
_COMPILER_NOTES: Final = frozenset(("fingerprint_before_lhs",))
"""Frontend attributes of a module in which a compiler keeps its own hash of the module."""


class Counted(NamedTuple):
    """The options of a fingerprint: each field says whether something counts in it."""

    layouts: bool = True
    """Layouts of shapes, memory spaces and tiles included."""
    sharding: bool = True
    """Shardings of instructions."""
    schedule: bool = False
    """The order of the instructions of scheduled computations."""
    constants: bool = True
    """The values of constants of more than ten elements."""

    @staticmethod
    def of(chosen: Mapping[str, bool] | Counted) -> Counted:
        """The options that a caller chose by name, with defaults for the others. Raises InvalidArgumentError for an
        unknown name, and for a value that is not True or False.

        >>> Counted.of({"layouts": False})
        Counted(layouts=False, sharding=True, schedule=False, constants=True)
        """
        if isinstance(chosen, Counted):
            return chosen
        for name, value in chosen.items():
            if name not in Counted._fields:
                message = f"a fingerprint has no option {name!r}; it has {', '.join(Counted._fields)}"
                raise InvalidArgumentError(message + did_you_mean(name, Counted._fields), field=name)
            if not is_a(value, bool):
                raise InvalidArgumentError(f"{name} is True or False, not {value!r}", field=name)
        return Counted(**chosen)


_IOTA: Final = re.compile(r"<=\[([0-9,]+)\](?:T\(([0-9,]+)\))?")
_MAX_LISTED: Final = 1 << 12
"""Devices. A sharding of at most so many is compared by the list of its devices, since older versions of XLA wrote a
list where newer ones write an iota such as `<=[8]`.
"""


def _listed(iota: re.Match[str]) -> str:
    """The devices of an iota as a list; the iota itself if there are too many."""
    sizes = [int(size) for size in iota[1].split(",")]
    order = [int(dimension) for dimension in iota[2].split(",")] if iota[2] else []
    if product(sizes) > _MAX_LISTED:
        return iota[0]
    return ",".join(map(str, Iota.of(sizes, order).devices()))


def _with_lists(sharding: str) -> str:
    """The text of a sharding with lists in the place of iotas."""
    return _IOTA.sub(_listed, sharding)


def _hash(*parts: bytes) -> bytes:
    return blake2b(b"".join(parts), digest_size=_DIGEST).digest()


class LocalParts:
    """The canonical parts of an instruction without its operands and its channel, with their hash."""

    __slots__ = ("digest", "parts")

    def __init__(self, parts: dict[str, str]) -> None:
        self.parts = parts
        self.digest = _hash(repr(sorted(parts.items())).encode("utf-8", "surrogateescape"))


class _Context:
    """Answers what the writers of attributes ask about the instruction and the module. It implements
    `xlashape.hlo.values.attribute.Context`.
    """

    __slots__ = ("_module", "_shapes", "instruction", "payloads")

    is_fingerprint = True  # makes writers list devices in full
    show_ids = False
    show_metadata = False

    def __init__(self, module: ModuleData, shapes: _ShapeTexts) -> None:
        self._module = module
        self._shapes = shapes
        self.payloads: Sequence[bytes] = list(module.head.payloads)
        self.instruction: HloInstruction | None = None

    @property
    def operand_count(self) -> int:
        return 0 if self.instruction is None else len(self.instruction.operands)

    def operand_shape(self, number: int) -> Shape | None:
        operands = () if self.instruction is None else self.instruction.operands
        return operands[number].shape if number < len(operands) else None

    def shape_text(self, shape: xla.ShapeProto) -> str:
        return self._shapes[self._module.shape_of(shape)]


class _ShapeTexts(dict[Shape, str]):
    """Shape → canonical text. A shape without a layout gets the default layout."""

    def __init__(self, layouts: bool) -> None:
        super().__init__()
        self._layouts = layouts

    def __missing__(self, shape: Shape) -> str:
        text = str(_with_layouts(shape)) if self._layouts else shape_text(shape, layout=False)
        self[shape] = text
        return text


def _with_layouts(shape: Shape) -> Shape:
    # Shapes nest at most MAX_SHAPE_DEPTH deep.
    if shape.is_tuple:
        return shape.replace(tuple_shapes=[_with_layouts(part) for part in shape.tuple_shapes])
    return shape.with_default_layout() if shape.is_array and shape.layout is None else shape


class Locals:
    """What counts of a module's instructions without their operands, and of the module without its computations. The
    parts of instructions are computed once a kind, when they are first asked for.
    """

    __slots__ = ("_context", "_known", "_module", "_shapes", "counted")

    def __init__(self, module: ModuleData, counted: Counted) -> None:
        self.counted = counted
        self._module = module
        self._shapes = _ShapeTexts(counted.layouts)
        self._context = _Context(module, self._shapes)
        self._known: dict[object, LocalParts] = {}

    def of(self, instruction: HloInstruction) -> LocalParts:
        """The local parts of an instruction. Raises InvalidModuleError for a shape or an attribute that is invalid."""
        key: object = instruction.kind
        if instruction.number:
            key = key, instruction.number
        elif instruction.kind.row.text_depends_on_operands:
            key = key, tuple([each.shape for each in instruction.operands])
        local = self._known.get(key)
        if local is None:
            try:
                local = self._known[key] = self._local(instruction)
            except XlashapeError as error:
                place = f"computation {instruction.computation.name!r}: instruction {instruction.name!r}"
                raise InvalidModuleError(f"{place}: {error.message}") from error
        return local

    def _local(self, instruction: HloInstruction) -> LocalParts:
        """The local parts of an instruction."""
        message, row, counted, context = instruction.kind.message, instruction.kind.row, self.counted, self._context
        context.instruction = instruction
        parts = {"opcode": str(instruction.opcode), "shape": self._shapes[instruction.shape]}
        if row.contents is Contents.PARAMETER_NUMBER:
            parts["parameter"] = str(instruction.number)
        elif row.contents is Contents.LITERAL:
            parts["literal"] = constant_key(message, large=counted.constants)
        for use in (*row.attributes, *row.attributes_after_calls):
            name = use.attribute.name
            if name in _NOT_ESSENTIAL:
                continue
            if (name in _LAYOUT_ATTRIBUTES and not counted.layouts) or (
                name in _SHARDING_ATTRIBUTES and not counted.sharding
            ):
                continue
            text = use.attribute.write(message, context)
            if text:
                parts[name] = text.removeprefix(f", {name}=")
        if row.async_step is not None:
            aliasing = OUTPUT_TO_OPERAND_ALIASING.write(message, context)
            if aliasing:
                parts["output_to_operand_aliasing"] = aliasing
            if message.async_execution_thread not in ("", "main") and row.async_step is AsyncStep.START:
                parts["async_execution_thread"] = message.async_execution_thread
        for name in ("infeed_config", "outfeed_config"):
            if getattr(message, name):
                parts[name] = repr(getattr(message, name))
        if counted.sharding:
            sharding = SHARDING.write(message, context)
            if sharding:
                parts["sharding"] = _with_lists(sharding.removeprefix(", sharding="))
        frontend = FRONTEND_ATTRIBUTES.write(message, context)
        if frontend:
            parts["frontend_attributes"] = frontend.removeprefix(", frontend_attributes=")
        config: bytes = message.backend_config
        if message.HasField("backend_config_payload"):
            config = payload_bytes(message.backend_config_payload, context.payloads) or config
        if config:
            text = canonical_config(config)
            if text:
                parts["backend_config"] = text
        if message.channel_id:
            parts["channel"] = "yes"
        return LocalParts(parts)

    def head(self) -> dict[str, str]:
        """The parts of a module beside its computations that count, in canonical form: name of the part → text."""
        proto, shape_of = self._module.head, self._module.shape_of
        parts: dict[str, str] = {}
        if proto.HasField("host_program_shape") and proto.host_program_shape.HasField("result"):
            shape = proto.host_program_shape
            parameters = [self._shapes[shape_of(each)] for each in shape.parameters]
            result = self._shapes[shape_of(shape.result)]
        else:
            entry = self._module.entry
            numbered = [each for each in entry.instructions if each.opcode is Opcode.PARAMETER]
            numbered.sort(key=lambda each: each.number)
            parameters = [self._shapes[each.shape] for each in numbered]
            result = self._shapes[entry.root.shape]
        parts["entry_computation_layout"] = f"({', '.join(parameters)})->{result}"
        spend(len(proto.input_output_alias.entries))
        aliases = [
            (tuple(e.output_shape_index), e.parameter_number, tuple(e.parameter_shape_index), ALIAS_KINDS.text(e.kind))
            for e in proto.input_output_alias.entries
        ]
        donors = [(e.parameter_number, tuple(e.parameter_shape_index)) for e in proto.buffer_donor.entries]
        attributes = {k: v for k, v in proto.frontend_attributes.map.items() if k not in _COMPILER_NOTES}
        if aliases:
            parts["input_output_alias"] = repr(sorted(aliases))
        if donors:
            parts["buffer_donor"] = repr(sorted(donors))
        if attributes:
            parts["frontend_attributes"] = repr(sorted(attributes.items()))
        return parts


class Canonical:
    """A module in canonical form. Raises InvalidModuleError for shapes and attributes that are invalid."""

    __slots__ = ("_found", "_hashed", "_parts", "counted", "locals", "module")

    def __init__(self, module: ModuleData, counted: Counted) -> None:
        self.module = module
        self.counted = counted
        self.locals = Locals(module, counted)
        self._hashed: dict[object, tuple[list[bytes], bytes]] = {}
        """What the hashes of a computation are made of → the hashes. Large programs repeat many computations."""
        self._parts = [
            [self.locals.of(each) for each in computation.instructions] for computation in module.computations
        ]
        self._found: dict[int, tuple[list[bytes], bytes]] = {}
        """Index of a computation → a hash of what each instruction computes and of what uses it, and the hash of the
        computation."""
        schedules = dict(sequences(module)) if counted.schedule else {}
        calls = [
            [called.index for each in computation.instructions for called in _called(each)]
            for computation in module.computations
        ]
        for index in post_order(calls, range(len(calls))):
            computation = module.computations[index]
            self._found[index] = self._hash(computation, schedules.get(computation))

    def _hash(self, computation: HloComputation, schedule: Sequence[int] | None) -> tuple[list[bytes], bytes]:
        """The value of `_found` for a computation, once those that it calls have theirs."""
        instructions, found = computation.instructions, self._found
        spend(2 + 2 * len(instructions))
        operands = [[x.index for x in each.operands] for each in instructions]
        called = {
            each.index: [found[target.index][1] for target in _called(each)]
            for each in instructions
            if each.called_computations
        }
        predecessors = {
            each.index: [before.index for before in each.control_predecessors]
            for each in instructions
            if each.control_predecessors
        }
        root = computation.root.index
        parts_of = self._parts[computation.index]
        key: object = None
        if schedule is None and not predecessors:
            calls = [(i, *digests) for i, digests in called.items()]
            key = computation.execution_thread, root, *parts_of, *map(tuple, operands), *calls
            if (same := self._hashed.get(key)) is not None:
                return same
        order: Sequence[int] = range(len(operands))
        if not computation.is_ordered:
            order = post_order([[*each, *predecessors.get(i, ())] for i, each in enumerate(operands)], order)
        up = [b""] * len(order)
        for i in order:
            parts = [parts_of[i].digest, *[up[operand] for operand in operands[i]]]
            if i in predecessors:
                spend(2 * len(predecessors[i]))
                parts += [b"control", *sorted([up[before] for before in predecessors[i]])]
            if called.get(i):
                parts += [b"calls", *called[i]]
            up[i] = blake2b(b"".join(parts), digest_size=_DIGEST).digest()
        uses: list[list[bytes]] = [[] for _ in order]
        down = [b""] * len(order)
        for i in reversed(order):
            own = uses[i]
            if len(own) > 1:
                own.sort()
            head = b"root" if i == root else b"used" if own else b"dead"
            digest = down[i] = blake2b(up[i] + head + b"".join(own), digest_size=_DIGEST).digest()
            for position, operand in enumerate(operands[i]):
                uses[operand].append((_POSITIONS[position] if position < 16 else b"%d:" % position) + digest)
            for before in predecessors.get(i, ()):
                uses[before].append(b"control:" + digest)
        thread = computation.execution_thread
        thread = b"" if thread in ("", "main") else thread.encode("utf-8", "surrogateescape")
        scheduled: list[bytes] = []
        if schedule is not None:
            scheduled = [b"schedule", *[down[each.index] for each in computation.resolve(schedule)]]
        hashes = down, _hash(b"computation", thread, b";", *sorted(down), *scheduled)
        if key is not None:
            self._hashed[key] = hashes
        return hashes

    def computation_fingerprint(self, index: int) -> str:
        """The fingerprint of the computation at an index. The computations that it calls count too."""
        return _text(_hash(repr(tuple(self.counted)).encode(), self._found[index][1]))

    def fingerprint(self) -> str:
        """The fingerprint of the module."""
        entry = self._found[self.module.entry.index][1]
        head = repr((tuple(self.counted), self.locals.head())).encode("utf-8", "surrogateescape")
        digests = sorted([digest for _, digest in self._found.values()])
        return _text(_hash(head, entry, b"computations", *digests, b"channels", *self._channels()))

    def _channels(self) -> list[bytes]:
        """For each channel that several instructions share, a hash of these instructions."""
        members: dict[int, list[bytes]] = {}
        for computation in self.module.computations:
            for instruction, down in zip(computation.instructions, self._found[computation.index][0], strict=True):
                if instruction.channel:
                    members.setdefault(instruction.channel, []).append(down)
        return sorted([_hash(*sorted(each)) for each in members.values() if len(each) > 1])


def _called(instruction: HloInstruction) -> tuple[HloComputation, ...]:
    """The computations that an instruction calls; none for a later step of an asynchronous operation."""
    return instruction.called_computations if instruction.kind.row.async_step in (None, AsyncStep.START) else ()


def _text(digest: bytes) -> str:
    return f"{VERSION}:{digest.hex()}"
