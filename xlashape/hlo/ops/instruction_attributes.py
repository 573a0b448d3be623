"""`Attributes`, which `HloInstruction.attributes` returns: the attributes of an instruction as typed values, by the
names that they have in HLO text.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final, Protocol

from xlashape.base.caches import cached
from xlashape.base.frozen import Frozen, set_field
from xlashape.base.similar import did_you_mean
from xlashape.errors import InvalidModuleError, XlashapeError
from xlashape.hlo.ops.attributes import COMMON, CONTROL_PREDECESSORS, METADATA, Presence
from xlashape.hlo.ops.operation import Operation
from xlashape.hlo.ops.registry import operation_of
from xlashape.hlo.values import dimension_numbers
from xlashape.hlo.values.attribute import Attribute, Codec
from xlashape.hlo.values.metadata import payload_bytes
from xlashape.hlo.values.plain import BACKEND_CONFIG, CHANNEL_ID, PARAMETER_REPLICATION, config_value
from xlashape.proto import xla
from xlashape.shape import PrimitiveType

assert dimension_numbers.DIM_LABELS.value is not None
DIMENSION_NUMBERS: Final[dict[str, Codec]] = {
    "convolution_dimension_numbers": dimension_numbers.DIM_LABELS.value,
    "dot_dimension_numbers": dimension_numbers.DOT_DIMENSION_NUMBERS,
    "gather_dimension_numbers": dimension_numbers.GATHER_DIMENSION_NUMBERS,
    "ragged_dot_dimension_numbers": dimension_numbers.RAGGED_DOT_DIMENSION_NUMBERS,
    "scatter_dimension_numbers": dimension_numbers.SCATTER_DIMENSION_NUMBERS,
}
"""Field of HloInstructionProto → how its dimension numbers are read as one value. Text has several attributes for most
of these fields.
"""

_EMPTY: Final = xla.HloInstructionProto()


class HasAttributes(Protocol):
    """The properties of an instruction that `Attributes` needs. HloInstruction has them."""

    name: str
    """The name of the instruction."""
    channel: int
    """Its channel; 0 for none."""

    @property
    def opcode(self) -> str:
        """Its operation."""
        ...

    @property
    def details(self) -> xla.HloInstructionProto:
        """The fields of its kind, which must not be changed."""
        ...

    @property
    def kind(self) -> Any:
        """Its `Kind`, which keeps the values of attributes."""
        ...

    @property
    def called_computations(self) -> Sequence[Any]:
        """The computations that the instruction calls, in the proto's order."""
        ...

    @property
    def control_predecessors(self) -> Sequence[Any]:
        """The instructions that must run before this instruction."""
        ...

    @property
    def operands(self) -> Sequence[Any]:
        """The instructions whose results are the operands."""
        ...

    @property
    def metadata_bytes(self) -> bytes | None:
        """Its serialized OpMetadata."""
        ...

    @property
    def metadata(self) -> Any:
        """The `Metadata` of the instruction: the lines of a program that it comes from."""
        ...


class Attributes(Frozen, Mapping[str, Any]):
    """The attributes of an instruction, each by `attributes.window`, `attributes["window"]` or
    `attributes.get("window")`.

    Names are those of HLO text, with `_` for `-`, and those of the fields of dimension numbers. Values are numbers,
    texts, tuples, and the frozen types of `xlashape.hlo.values`. The value of an attribute that names computations is
    an HloComputation or a tuple of them. The mapping holds the attributes that are set, and those that the opcode must
    have. `attributes.name` also works for the other attributes that the opcode may have: the value is then None, False,
    0 or empty. Any other name raises AttributeError, or KeyError as a key.

    >>> from xlashape.hlo import HloModule
    >>> root = HloModule.parse(
    ...     "HloModule m ENTRY e { p = f32[8] parameter(0) ROOT s = f32[2] slice(p), slice={[1:5:2]} }"
    ... ).entry.root
    >>> root.attributes.slice, list(root.attributes), root.attributes.sharding
    ((SliceDimension(start=1, limit=5, stride=2),), ['slice'], None)
    >>> root.attributes.slices
    Traceback (most recent call last):
    AttributeError: slice has no attribute 'slices': did you mean 'slice'?
    """

    __slots__ = ("_instruction", "_operation", "_payloads")
    _instruction: HasAttributes
    _operation: Operation
    _payloads: Sequence[bytes]

    def __init__(self, instruction: HasAttributes, payloads: Sequence[bytes]) -> None:
        """`payloads` is the module's table of payloads."""
        set_field(self, "_instruction", instruction)
        set_field(self, "_payloads", payloads)
        set_field(self, "_operation", operation_of(instruction.opcode))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self._value(name, AttributeError)

    def __getitem__(self, name: str) -> Any:
        value = self._value(name, KeyError)
        if not self._is_set(name, value):
            raise KeyError(name)
        return value

    def __iter__(self) -> Iterator[str]:
        for name in self._names():
            if self._is_set(name, self._value(name, KeyError)):
                yield name

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *self._names(), *self._dimension_numbers()})

    def __repr__(self) -> str:
        return f"<Attributes of {self._instruction.name!r}: {', '.join(self)}>"

    def _names(self) -> list[str]:
        """The names of all attributes that the instruction may have, in the order in which they are written."""
        names = attributes_by_name(self._operation)
        own = [name for name in names if name not in COMMON]
        return [*own, *self._called(), *[name for name in names if name in COMMON], "control_predecessors", "metadata"]

    def _dimension_numbers(self) -> list[str]:
        details = self._instruction.details
        return [name for name in DIMENSION_NUMBERS if details.HasField(name)]  # pyright: ignore[reportArgumentType] # each is the name of a field

    def _called(self) -> dict[str, Any]:
        """Attribute that names called computations in text → its computation, or a tuple of computations."""
        called, operands = self._instruction.called_computations, self._instruction.operands
        calls = self._operation.calls
        on_predicate = bool(operands) and operands[0].shape.element_type == PrimitiveType.PRED
        names = call_names(self._operation, len(called), on_predicate)
        if len(names) == 1 and names[0] == calls.label:
            return {calls.label: called[0] if len(called) == 1 and not calls.is_list else tuple(called)}
        indices = dict(calls.parts)
        return {name: called[indices[name]] for name in names}

    def _is_set(self, name: str, value: Any) -> bool:
        attribute = attributes_by_name(self._operation).get(name)
        if attribute is not None:
            return _is_said(self._operation, attribute, value)
        if name == "metadata":
            return bool(self._instruction.metadata_bytes)
        return bool(value) if name == "control_predecessors" else value is not None

    def _value(self, name: str, error: type[AttributeError | KeyError]) -> Any:
        instruction = self._instruction
        attribute = attributes_by_name(self._operation).get(name)
        try:
            if attribute is CHANNEL_ID:
                return instruction.channel
            if attribute is not None:
                details = instruction.details
                if attribute is BACKEND_CONFIG and details.HasField("backend_config_payload"):
                    payload = payload_bytes(details.backend_config_payload, self._payloads)
                    return config_value(payload or details.backend_config)
                return instruction.kind.fact(("attribute", name), partial(_read, attribute))
            if name in DIMENSION_NUMBERS and name in self._dimension_numbers():
                return DIMENSION_NUMBERS[name].get(instruction.details)
        except XlashapeError as problem:
            raise InvalidModuleError(f"instruction {instruction.name!r} has an invalid {name}: {problem}") from problem
        if name == "control_predecessors":
            return tuple(instruction.control_predecessors)
        if name == "metadata":
            return instruction.metadata
        called = self._called()
        if name in called:
            return called[name]
        known = [*self._names(), *self._dimension_numbers()]
        hint = did_you_mean(name, known) or f"; it may have {', '.join(known)}"
        raise error(f"{self._operation.opcode} has no attribute {name!r}{hint}")


@cached(max_bytes=1 << 19, entry_bytes=2048)
def attributes_by_name(operation: Operation) -> Mapping[str, Attribute]:
    """Name → attribute, for the attributes of an opcode that have typed values: its own, then those of COMMON, in the
    order in which they are written."""
    uses = (*operation.attributes, *operation.attributes_after_calls)
    own = [use.attribute for use in sorted(uses, key=lambda use: use.presence is Presence.WRITTEN_ONLY)]
    common = [each for each in COMMON.values() if each not in (CONTROL_PREDECESSORS, METADATA)]
    common = [each for each in common if each is not PARAMETER_REPLICATION]
    found: dict[str, Attribute] = {}
    for attribute in (*own, *common):
        if attribute.value is not None:
            found.setdefault(attribute.name, attribute)
    return found


def _read(attribute: Attribute, kind: Any) -> Any:
    return attribute.of(kind.message)


def call_names(operation: Operation, called: int, on_predicate: bool) -> tuple[str, ...]:
    """The names of the attributes by which text names the computations that an instruction calls. `called` is how many
    they are, and `on_predicate` says whether its first operand is a predicate.
    """
    calls = operation.calls
    if called and called == len(calls.parts) and (on_predicate or not calls.parts_need_predicate):
        return tuple([name for name, _ in calls.parts])
    return (calls.label,) if called else ()


def said_attributes(instruction: xla.HloInstructionProto) -> dict[str, Any]:
    """Name → value, for the attributes that are set or that the opcode must have. Attributes that refer to other parts
    of the module, such as called computations, are left out.
    """
    operation = operation_of(instruction.opcode)
    values = {name: (each, each.of(instruction)) for name, each in attributes_by_name(operation).items()}
    return {name: value for name, (each, value) in values.items() if _is_said(operation, each, value)}


def _is_said(operation: Operation, attribute: Attribute, value: Any) -> bool:
    """Whether the opcode must have an attribute, or its value differs from that of an instruction without the
    attribute."""
    assert attribute.value is not None  # `attributes_by_name` has no others
    if attribute.name in operation.required:
        return True
    is_said = attribute.value.is_said
    return value != _value_of_none(attribute)[0] if is_said is None else is_said(value)


@cached(max_bytes=1 << 18, entry_bytes=1024)
def _value_of_none(attribute: Attribute) -> tuple[Any]:
    """The value of an attribute that is not set. It is in a tuple because it may be None, which caches cannot hold."""
    return (attribute.of(_EMPTY),)
