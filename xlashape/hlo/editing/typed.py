"""Edits of an instruction by typed values of attributes: another opcode, another attribute, a new instruction.

The opcode's row in the table of operations (`xlashape.hlo.ops.operation.Operation`) decides here as it does for text:
which attributes an instruction may have and needs, which values are filled in, what is checked, and how the shape is
inferred.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from xlashape.base.similar import did_you_mean
from xlashape.errors import InvalidArgumentError, XlashapeError
from xlashape.hlo.editing.find import callee
from xlashape.hlo.ir import HloComputation, HloInstruction, ModuleData
from xlashape.hlo.kind import Kind, own_channel
from xlashape.hlo.ops.attributes import CannotComplete
from xlashape.hlo.ops.instruction_attributes import attributes_by_name, call_names, said_attributes
from xlashape.hlo.ops.opcode import Opcode
from xlashape.hlo.ops.operation import CannotInfer, Contents, Given, Operation
from xlashape.hlo.ops.registry import OPERATIONS
from xlashape.hlo.tokens import HloCursor
from xlashape.hlo.values.attribute import Attribute
from xlashape.hlo.values.plain import CHANNEL_ID
from xlashape.proto import xla
from xlashape.shape import PrimitiveType, Shape

_EVERYWHERE = frozenset(("metadata", "frontend_attributes", "statistics_viz"))
"""Fields that an instruction with any opcode may have."""
_COMMON = frozenset(("sharding", "frontend_attributes", "statistics", "origin", "backend_config"))
"""Attributes that stay when an instruction gets another opcode."""


def _row_of(opcode: Opcode | str) -> Operation:
    """The row of an opcode whose instructions have operands and wrap no other operation. Raises InvalidArgumentError
    for any other opcode.
    """
    row = OPERATIONS.get(str(opcode))
    if row is None:
        hint = did_you_mean(str(opcode), map(str, OPERATIONS))
        raise InvalidArgumentError(f"{str(opcode)!r} is not an opcode{hint}", field="opcode")
    if row.contents is not Contents.OPERANDS:
        raise InvalidArgumentError(f"a {row.opcode} is not made of operands: use insert or rewrite", field="opcode")
    if row.async_step is not None:
        raise InvalidArgumentError(f"{row.opcode} is written as what it wraps: use insert or rewrite", field="opcode")
    return row


def changed_opcode(instruction: HloInstruction, opcode: Opcode | str) -> Kind:
    """The kind of an instruction with another opcode and the same operands, attributes and calls. Raises
    InvalidArgumentError if they do not fit the opcode.
    """
    old, new = instruction.kind.row, _row_of(opcode)
    if old.contents is not Contents.OPERANDS or old.async_step is not None:
        raise InvalidArgumentError(
            f"{instruction.name!r} is a {old.opcode}, which is not made of operands: use rewrite"
        )
    message = instruction.kind.message
    values = {name: value for name, value in said_attributes(message).items() if name not in _COMMON}
    called = instruction.called_computations
    for name in (*values, *call_names(old, len(called), _is_on_predicate(instruction))):
        if name not in new.readable:
            raise _no_attribute(new, name)
    made = _built(new, instruction.operands, called, values, instruction.shape)
    own = [_fields_of(attributes_by_name(old)[name], value) for name, value in values.items()]
    made.ClearField("shape")  # the instruction has its shape already

    def change(result: xla.HloInstructionProto) -> None:
        for each in (xla.HloInstructionProto.FromString(old.base), *own, made):
            for field, _ in each.ListFields():
                if field.name not in _EVERYWHERE:
                    result.ClearField(cast("Any", field.name))
        result.MergeFrom(made)

    return instruction.kind.changed(change)


def changed_attribute(
    instruction: HloInstruction, name: str, value: Any
) -> tuple[Kind, tuple[HloComputation, ...], int]:
    """The kind, the called computations and the channel of an instruction with another value of an attribute, or
    without the attribute for None.

    The value is a typed value as in `HloInstruction.attributes`, or its HLO text. An attribute that names computations
    takes a computation or its name, or a list of them.
    """
    row, called = instruction.kind.row, instruction.called_computations
    if name in row.required and value is None:
        raise InvalidArgumentError(f"{row.opcode} needs the attribute {name}", field=name)
    names = call_names(row, len(called), _is_on_predicate(instruction))
    if name in names or (name in row.call_names and not called):
        called = _called(instruction.computation.module, row, called, name, value)
        return instruction.kind, called, instruction.channel
    attribute = attributes_by_name(row).get(name)
    if attribute is None:
        raise _no_attribute(row, name)
    kind = instruction.kind.changed(lambda message: _put(message, attribute, value))
    channel = _fields_of(attribute, value).channel_id if attribute is CHANNEL_ID else instruction.channel
    return kind, called, channel


def built(
    module: ModuleData,
    opcode: Opcode | str,
    operands: Sequence[HloInstruction],
    attributes: Mapping[str, Any],
    shape: Shape | None,
) -> tuple[Kind, tuple[HloComputation, ...], int]:
    """The kind, the called computations and the channel of a new instruction. If `shape` is None, the shape is inferred
    from the operands."""
    row = _row_of(opcode)
    called: list[HloComputation] = []
    values: dict[str, Any] = {}
    for name, value in attributes.items():
        if name in row.call_names:
            called += _callees(module, name, value)
        elif name in row.readable and name in attributes_by_name(row):
            values[name] = value
        else:
            raise _no_attribute(row, name)
    message = _built(row, operands, called, values, shape)
    channel = own_channel(message)
    return module.kinds.of_message(message), tuple(called), channel


def _put(instruction: xla.HloInstructionProto, attribute: Attribute, value: Any) -> None:
    """Sets an attribute of an instruction to a typed value, or to a value in HLO text. Raises InvalidArgumentError for
    any other value.
    """
    assert attribute.value is not None
    try:
        attribute.value.put(instruction, value)
    except (TypeError, ValueError, AttributeError) as error:
        if isinstance(value, str) and attribute.read is not None and not isinstance(error, XlashapeError):
            cursor = HloCursor(value)
            read = xla.HloInstructionProto.FromString(attribute.read(cursor))
            cursor.expect_end()
            attribute.value.put(instruction, attribute.of(read))
            return
        if isinstance(error, XlashapeError):
            raise
        raise InvalidArgumentError(
            f"{attribute.name} takes {attribute.value.what}, not {value!r}", field=attribute.name
        ) from None


# -- parts ------------------------------------------------------------------------------------


class _Made:
    """A new instruction as the functions see it that fill in and check attributes. It implements
    `xlashape.hlo.ops.attributes.Written`.
    """

    def __init__(
        self,
        row: Operation,
        shape: Shape | None,
        operands: Sequence[Shape],
        fields: Mapping[str, xla.HloInstructionProto],
        parameters: Mapping[str, Sequence[int]],
    ) -> None:
        self.opcode = str(row.opcode)
        self.shape = shape
        self.operands = operands
        self._fields = fields
        self._parameters = parameters

    def has(self, name: str) -> bool:
        """Whether the attribute is given."""
        return name in self._fields or name in self._parameters

    def value(self, name: str) -> bytes:
        """The serialized fields of an attribute; b"" where it is not given."""
        return self._fields[name].SerializeToString() if name in self._fields else b""

    def called_parameters(self, name: str) -> Sequence[int]:
        """For each computation that the attribute names, how many parameters it has."""
        return self._parameters.get(name, ())


def _built(
    row: Operation,
    operands: Sequence[HloInstruction],
    called: Sequence[HloComputation],
    values: Mapping[str, Any],
    shape: Shape | None,
) -> xla.HloInstructionProto:
    """A message with the opcode, the given and filled in attributes, and the shape, all of them checked."""
    least, most = row.operands
    if not least <= len(operands) <= most:
        raise InvalidArgumentError(f"{row.opcode} takes {row.operands} operands, not {len(operands)}", field="operands")
    known = attributes_by_name(row)
    fields = {name: _fields_of(known[name], value) for name, value in values.items()}
    counts = [sum(each.opcode is Opcode.PARAMETER for each in computation.instructions) for computation in called]
    names = row.call_names if len(row.call_names) == len(called) else row.call_names[-1:]
    if called and not names:
        raise InvalidArgumentError(f"{row.opcode} calls no computation", field="opcode")
    parameters = (
        {name: [count] for name, count in zip(names, counts, strict=True)}
        if len(names) == len(called)
        else {names[0]: counts}
    )
    for name in row.required:
        if name not in fields and name not in parameters:
            raise InvalidArgumentError(f"{row.opcode} needs the attribute {name}", field=name)
    shapes = [each.shape for each in operands]
    made = _Made(row, shape, shapes, fields, parameters if called else {})
    message = xla.HloInstructionProto.FromString(row.base)
    try:
        for name, fill in row.fills.items():
            given = fields.pop(name, None)
            message.MergeFromString(fill(made, None if given is None else given.SerializeToString()))
        if row.check is not None:
            row.check(made)
        for each in fields.values():
            message.MergeFrom(each)
        if shape is None:
            shape = row.infer_shape(Given(message, shapes, [each.root.shape for each in called]))
    except (CannotComplete, CannotInfer) as error:
        raise InvalidArgumentError(str(error)) from None
    message.shape.CopyFrom(shape.to_proto())
    return message


def _fields_of(attribute: Attribute, value: Any) -> xla.HloInstructionProto:
    """A message that has the value of an attribute and nothing else."""
    fields = xla.HloInstructionProto()
    _put(fields, attribute, value)
    return fields


def _is_on_predicate(instruction: HloInstruction) -> bool:
    """Whether the first operand of an instruction is a predicate."""
    return bool(instruction.operands) and instruction.operands[0].shape.element_type == PrimitiveType.PRED


def _called(
    module: ModuleData, row: Operation, called: tuple[HloComputation, ...], name: str, value: Any
) -> tuple[HloComputation, ...]:
    """All called computations if the attribute `name` is set to `value`: a computation or its name, or a list."""
    found = _callees(module, name, value)
    parts = dict(row.calls.parts)
    if name not in parts and row.calls.is_list:
        return found
    if len(found) != 1:
        raise InvalidArgumentError(f"{name} takes one computation, not {len(found)}", field=name)
    if name not in parts:
        return found
    changed = list(called)
    changed[parts[name]] = found[0]
    return tuple(changed)


def _callees(module: ModuleData, name: str, value: Any) -> tuple[HloComputation, ...]:
    """The computations in the value of the attribute `name`: a computation or its name, or a list."""
    if isinstance(value, (str, HloComputation)):
        return (callee(module, value, name),)
    if not isinstance(value, (list, tuple)):
        raise InvalidArgumentError(f"{name} takes a computation or its name, or a list, not {value!r}", field=name)
    return tuple([callee(module, each, name) for each in cast("Sequence[Any]", value)])


def _no_attribute(row: Operation, name: str) -> InvalidArgumentError:
    known = sorted({*attributes_by_name(row), *row.call_names})
    hint = did_you_mean(name, known) or f"; it may have {', '.join(known)}"
    return InvalidArgumentError(f"{row.opcode} has no attribute {name}{hint}", field=name)
