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

from xlashape.errors import InvalidArgumentError, InvalidModuleError, XlashapeError, is_a
from xlashape.hlo.canonical.constants import constant_key
from xlashape.hlo.canonical.kernels import canonical_config
from xlashape.hlo.module_proto.compact import Held
from xlashape.hlo.module_proto.structure import LOCAL_ID, post_order
from xlashape.hlo.ops.operation import AsyncStep, Contents
from xlashape.hlo.text.writer.templates import InstructionTemplate, PrintedComputation, read_computations
from xlashape.hlo.values.aliasing import ALIAS_KINDS, OUTPUT_TO_OPERAND_ALIASING
from xlashape.hlo.values.attribute import ABSENT
from xlashape.hlo.values.devices import Iota
from xlashape.hlo.values.metadata import payload_bytes
from xlashape.hlo.values.plain import FRONTEND_ATTRIBUTES
from xlashape.hlo.values.sharding import SHARDING
from xlashape.limits import spend
from xlashape.math import product
from xlashape.proto import xla
from xlashape.shape import Shape
from xlashape.shape.text import shape_text
from xlashape.similar import did_you_mean

VERSION: Final = "1"
"""The version of the canonical form."""

_DIGEST: Final = 16
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


def _hash(*parts: bytes) -> bytes:
    return blake2b(b"".join(parts), digest_size=_DIGEST).digest()


class _Local:
    """The canonical parts of an instruction without its operands, with their hash and the instruction's channel (0: no
    channel).
    """

    __slots__ = ("channel", "digest", "parts")

    def __init__(self, parts: dict[str, str], channel: int) -> None:
        self.parts = parts
        self.digest = _hash(repr(sorted(parts.items())).encode("utf-8", "surrogateescape"))
        self.channel = channel


class _Context:
    """Answers what the writers of attributes ask about the instruction and the module. It implements
    `xlashape.hlo.values.attribute.Context`.
    """

    __slots__ = ("_shapes", "operands", "payloads")

    is_fingerprint = True  # makes writers list devices in full
    show_ids = False
    show_metadata = False

    def __init__(self, shapes: _ShapeTexts, payloads: Sequence[bytes]) -> None:
        self._shapes = shapes
        self.payloads = payloads
        self.operands: Sequence[bytes] = ()
        """The serialized shapes of the operands."""

    @property
    def operand_count(self) -> int:
        return len(self.operands)

    def operand_shape(self, number: int) -> Shape | None:
        return Shape.from_proto(self.operands[number]) if number < len(self.operands) else None

    def shape_text(self, data: bytes) -> str:
        return self._shapes[data]


class _ShapeTexts(dict[bytes, str]):
    """Serialized shape → canonical text. A shape without a layout gets the default layout."""

    def __init__(self, layouts: bool) -> None:
        super().__init__()
        self._layouts = layouts

    def __missing__(self, data: bytes) -> str:
        shape = Shape.from_proto(b"" if data == ABSENT else data)
        if self._layouts:
            text = str(_with_layouts(shape))
        else:
            text = shape_text(shape, layout=False)
        self[data] = text
        return text


def _with_layouts(shape: Shape) -> Shape:
    # Shapes nest at most MAX_SHAPE_DEPTH deep.
    if shape.is_tuple:
        return shape.replace(tuple_shapes=[_with_layouts(part) for part in shape.tuple_shapes])
    return shape.with_default_layout() if shape.is_array and shape.layout is None else shape


class CanonicalComputation:
    """A computation with its hashes. The lists are parallel, with an element for each instruction in the order of the
    proto, except `order`.
    """

    __slots__ = ("called", "digest", "down", "locals", "order", "predecessors", "printed", "up")

    printed: PrintedComputation
    locals: list[_Local]
    order: list[int]
    """The indices of the instructions, operands before their users."""
    predecessors: dict[int, tuple[int, ...]]
    """Index of an instruction with control predecessors → their indices."""
    called: dict[int, tuple[int, ...]]
    """Index of an instruction that calls computations → the indices of these computations in the module."""
    up: list[bytes]
    """A hash of what each instruction computes."""
    down: list[bytes]
    """A hash of what each instruction computes and of what uses it."""
    digest: bytes
    """The hash of the computation."""


class Canonical:
    """A module in canonical form.

    `xlashape.hlo.module_proto.structure.check_module` must have accepted `module`. Raises InvalidModuleError for
    shapes and attributes that are invalid.
    """

    __slots__ = ("_context", "_locals", "_shapes", "computations", "counted", "order", "proto")

    def __init__(self, module: Held, counted: Counted) -> None:
        self.proto = proto = module.head
        self.counted = counted
        self._shapes = _ShapeTexts(counted.layouts)
        self._context = _Context(self._shapes, list(proto.payloads))
        self._locals: dict[object, _Local] = {}
        printed = read_computations(module.module_bytes())
        by_id = {computation.id: index for index, computation in enumerate(printed)}
        schedule_of: dict[int, Sequence[int]] = {}
        if counted.schedule:
            sequences = proto.schedule.sequences.items()
            schedule_of = {ident & LOCAL_ID: sequence.instruction_ids for ident, sequence in sequences}
        self.computations = [CanonicalComputation() for _ in printed]
        for canonical, computation in zip(self.computations, printed, strict=True):
            self._read(canonical, computation, by_id)
        calls = [
            [target for i in computation.called for target in computation.called[i]]
            for computation in self.computations
        ]
        self.order = post_order(calls, range(len(calls)))
        """The indices of the computations, each after those that it calls."""
        for index in self.order:
            computation = self.computations[index]
            self._hash(computation, schedule_of.get(computation.printed.id))

    # -- reading ------------------------------------------------------------------------------

    def _read(self, canonical: CanonicalComputation, computation: PrintedComputation, by_id: dict[int, int]) -> None:
        """Fills the fields of `canonical` from `computation`, except the hashes."""
        canonical.printed = computation
        templates, operands = computation.templates, computation.operands
        spend(1 + len(templates))
        canonical.called, canonical.predecessors = {}, {}
        for i in computation.notable:
            template = templates[i]
            if template.called and template.row.async_step in (None, AsyncStep.START):
                canonical.called[i] = tuple([by_id[ident & LOCAL_ID] for ident in template.called])
            if template.predecessors:
                canonical.predecessors[i] = tuple(computation.predecessors_of(i))
        known = self._locals
        found: list[_Local] = []
        for index, template in enumerate(templates):
            key: object = id(template)
            if template.row.text_depends_on_operands:
                key = (key, tuple([templates[i].shape for i in operands[index]]))
            local = known.get(key)
            if local is None:
                self._context.operands = [templates[i].shape for i in operands[index]]
                try:
                    local = known[key] = self._local(template)
                except XlashapeError as error:
                    raise InvalidModuleError(
                        f"computation {computation.name!r}: instruction {computation.names[index]!r}: {error.message}"
                    ) from error
            found.append(local)
        canonical.locals = found
        before: Sequence[Sequence[int]] = operands
        if canonical.predecessors:
            more = canonical.predecessors
            before = [[*targets, *more.get(i, ())] for i, targets in enumerate(operands)]
        canonical.order = post_order(before, range(len(templates)))

    def _local(self, template: InstructionTemplate) -> _Local:
        """The local parts of an instruction, which is given as a template of the text writer."""
        message, row, counted = template.message, template.row, self.counted
        context = self._context
        parts = {"opcode": template.opcode, "shape": self._shapes[template.shape]}
        if row.contents is Contents.PARAMETER_NUMBER:
            parts["parameter"] = str(message.parameter_number)
        elif row.contents is Contents.LITERAL:
            parts["literal"] = constant_key(message.literal, large=counted.constants)
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
                parts["sharding"] = _IOTA.sub(_listed, sharding.removeprefix(", sharding="))
        frontend = FRONTEND_ATTRIBUTES.write(message, context)
        if frontend:
            parts["frontend_attributes"] = frontend.removeprefix(", frontend_attributes=")
        config: bytes = message.backend_config
        if message.backend_config_payload != ABSENT:
            payload = xla.Payload.FromString(message.backend_config_payload)
            config = payload_bytes(payload, context.payloads) or config
        if config:
            text = canonical_config(config)
            if text:
                parts["backend_config"] = text
        if message.channel_id:
            parts["channel"] = "yes"
        return _Local(parts, message.channel_id)

    # -- hashing ------------------------------------------------------------------------------

    def _hash(self, computation: CanonicalComputation, schedule: Sequence[int] | None) -> None:
        printed = computation.printed
        operands, called, predecessors = printed.operands, computation.called, computation.predecessors
        local = [each.digest for each in computation.locals]
        order = computation.order
        spend(1 + len(order))
        up = [b""] * len(order)
        for i in order:
            parts = [local[i]]
            parts += [up[operand] for operand in operands[i]]
            if i in predecessors:
                spend(len(predecessors[i]))
                parts += [b"control", *sorted([up[before] for before in predecessors[i]])]
            if i in called:
                parts += [b"calls", *[self.computations[target].digest for target in called[i]]]
            up[i] = blake2b(b"".join(parts), digest_size=_DIGEST).digest()
        uses: list[list[bytes]] = [[] for _ in order]
        down = [b""] * len(order)
        for i in reversed(order):
            own = uses[i]
            if len(own) > 1:
                own.sort()
            head = b"root" if i == printed.root else b"used" if own else b"dead"
            digest = down[i] = blake2b(b"".join([up[i], head, *own]), digest_size=_DIGEST).digest()
            uses[i] = []
            for position, operand in enumerate(operands[i]):
                uses[operand].append(b"%d:%b" % (position, digest))
            spend(len(predecessors.get(i, ())))
            for before in predecessors.get(i, ()):
                uses[before].append(b"control:" + digest)
        thread = b"" if printed.thread in ("", "main") else printed.thread.encode("utf-8", "surrogateescape")
        scheduled: list[bytes] = []
        if schedule is not None:
            scheduled = [b"schedule", *[down[printed.index_of(ident, 0)] for ident in schedule]]
        computation.up, computation.down = up, down
        computation.digest = _hash(b"computation", thread, b";", *sorted(down), *scheduled)

    # -- results ------------------------------------------------------------------------------

    def computation_fingerprint(self, index: int) -> str:
        """The fingerprint of the computation at an index. The computations that it calls count too."""
        return _text(_hash(repr(tuple(self.counted)).encode(), self.computations[index].digest))

    def fingerprint(self) -> str:
        """The fingerprint of the module."""
        entry_id = self.proto.entry_computation_id & LOCAL_ID
        entry = next(each for each in self.computations if each.printed.id == entry_id)
        head = repr((tuple(self.counted), self.head(entry))).encode("utf-8", "surrogateescape")
        digests = sorted([each.digest for each in self.computations])
        return _text(_hash(head, entry.digest, b"computations", *digests, b"channels", *self._channels()))

    def head(self, entry: CanonicalComputation) -> dict[str, str]:
        """The parts of a module beside its computations that count, in canonical form: name of the part → text."""
        proto = self.proto
        parts: dict[str, str] = {}
        if proto.HasField("host_program_shape") and proto.host_program_shape.HasField("result"):
            shape = proto.host_program_shape
            parameters = [self._shapes[each.SerializeToString()] for each in shape.parameters]
            result = self._shapes[shape.result.SerializeToString()]
        else:
            templates = entry.printed.templates
            numbered = sorted(
                [(t.message.parameter_number, self._shapes[t.shape]) for t in templates if t.is_parameter]
            )
            parameters = [text for _, text in numbered]
            result = self._shapes[templates[entry.printed.root].shape] if entry.printed.root >= 0 else ""
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

    def _channels(self) -> list[bytes]:
        """For each channel that several instructions share, a hash of these instructions."""
        members: dict[int, list[bytes]] = {}
        for computation in self.computations:
            for index, local in enumerate(computation.locals):
                if local.channel:
                    members.setdefault(local.channel, []).append(computation.down[index])
        return sorted([_hash(*sorted(each)) for each in members.values() if len(each) > 1])


def _text(digest: bytes) -> str:
    return f"{VERSION}:{digest.hex()}"
