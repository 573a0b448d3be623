"""Edits of an instruction by typed values of attributes: another opcode, another attribute, a new instruction.

The opcode's row in the table of operations (`xlashape.hlo.ops.operation.Operation`) decides here as it does for text:
which attributes an instruction may have and needs, which values are filled in, what is checked, and how the shape is
inferred.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

from xlashape.errors import InvalidArgumentError, XlashapeError
from xlashape.hlo.editing.draft import Draft, local
from xlashape.hlo.module_proto.structure import LOCAL_ID
from xlashape.hlo.ops.attributes import CannotComplete
from xlashape.hlo.ops.instruction_attributes import attributes_by_name, call_names, said_attributes
from xlashape.hlo.ops.opcode import Opcode
from xlashape.hlo.ops.operation import CannotInfer, Contents, Given, Operation
from xlashape.hlo.ops.registry import OPERATIONS, operation_of
from xlashape.hlo.tokens import HloCursor
from xlashape.hlo.values.attribute import Attribute
from xlashape.proto import xla
from xlashape.shape import Shape
from xlashape.similar import did_you_mean

_EVERYWHERE = frozenset(("metadata", "frontend_attributes", "statistics_viz"))
"""Fields that an instruction with any opcode may have."""
_COMMON = frozenset(("sharding", "frontend_attributes", "statistics", "origin", "backend_config"))
"""Attributes that stay when an instruction gets another opcode."""


def row_of(opcode: Opcode | str) -> Operation:
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


def with_opcode(
    draft: Draft, computation: xla.HloComputationProto, instruction: xla.HloInstructionProto, opcode: Opcode | str
) -> xla.HloInstructionProto:
    """A copy of an instruction with another opcode and the same operands, attributes and calls. Raises
    InvalidArgumentError if they do not fit the opcode.
    """
    old, new = operation_of(instruction.opcode), row_of(opcode)
    if old.contents is not Contents.OPERANDS or old.async_step is not None:
        raise InvalidArgumentError(
            f"{instruction.name!r} is a {old.opcode}, which is not made of operands: use rewrite"
        )
    values = {name: value for name, value in said_attributes(instruction).items() if name not in _COMMON}
    called = [draft.computation_of(number) for number in instruction.called_computation_ids]
    for name in (*values, *call_names(old, instruction, _is_on_predicate(computation, instruction))):
        if name not in new.readable:
            raise _no_attribute(new, name)
    made = _built(
        new, operands_of(computation, instruction.operand_ids), called, values, Shape.from_proto(instruction.shape)
    )
    result = xla.HloInstructionProto()
    result.CopyFrom(instruction)
    own = [_fields_of(attributes_by_name(old)[name], value) for name, value in values.items()]
    made.ClearField("shape")  # the instruction has its shape already
    for message in (xla.HloInstructionProto.FromString(old.base), *own, made):
        for field, _ in message.ListFields():
            if field.name not in _EVERYWHERE:
                result.ClearField(cast("Any", field.name))
    result.MergeFrom(made)
    return result


def with_attribute(
    draft: Draft, computation: xla.HloComputationProto, instruction: xla.HloInstructionProto, name: str, value: Any
) -> xla.HloInstructionProto:
    """A copy of an instruction with another value of an attribute, or without the attribute for None.

    The value is a typed value as in `HloInstruction.attributes`, or its HLO text. An attribute that names computations
    takes a name, or a list of names.
    """
    row = operation_of(instruction.opcode)
    result = xla.HloInstructionProto()
    result.CopyFrom(instruction)
    if name in row.required and value is None:
        raise InvalidArgumentError(f"{row.opcode} needs the attribute {name}", field=name)
    on_predicate = _is_on_predicate(computation, instruction)
    if name in call_names(row, instruction, on_predicate) or (
        name in row.call_names and not result.called_computation_ids
    ):
        result.called_computation_ids[:] = _called_ids(draft, row, instruction, name, value)
        return result
    attribute = attributes_by_name(row).get(name)
    if attribute is None:
        raise _no_attribute(row, name)
    put(result, attribute, value)
    return result


def new_instruction(
    draft: Draft,
    computation: xla.HloComputationProto,
    opcode: Opcode | str,
    operands: Sequence[str],
    shape: Shape | str | None,
    attributes: Mapping[str, Any],
) -> xla.HloInstructionProto:
    """A new instruction without name and id. If `shape` is None, the shape is inferred from the operands."""
    row = row_of(opcode)
    taken = [draft.find_in(computation, name) for name in operands]
    called: list[xla.HloComputationProto] = []
    values: dict[str, Any] = {}
    for name, value in attributes.items():
        if name in row.call_names:
            names = [value] if isinstance(value, str) else list(value)
            called += [draft.computation(each) for each in names]
        elif name in row.readable and name in attributes_by_name(row):
            values[name] = value
        else:
            raise _no_attribute(row, name)
    written = Shape.parse(shape) if isinstance(shape, str) else shape
    result = _built(row, taken, called, values, written)
    result.operand_ids.extend([each.id for each in taken])
    result.called_computation_ids.extend([each.id for each in called])
    return result


def operands_of(computation: xla.HloComputationProto, ids: Iterable[int]) -> list[xla.HloInstructionProto]:
    """The instructions of the computation that have these ids."""
    by_id = {local(each): each for each in computation.instructions}
    return [by_id[number & LOCAL_ID] for number in ids]


def put(instruction: xla.HloInstructionProto, attribute: Attribute, value: Any) -> None:
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
    operands: Sequence[xla.HloInstructionProto],
    called: Sequence[xla.HloComputationProto],
    values: Mapping[str, Any],
    shape: Shape | None,
) -> xla.HloInstructionProto:
    """A message with the opcode, the given and filled in attributes, and the shape, all of them checked. It has no
    name, id, operands and calls."""
    least, most = row.operands
    if not least <= len(operands) <= most:
        raise InvalidArgumentError(f"{row.opcode} takes {row.operands} operands, not {len(operands)}", field="operands")
    known = attributes_by_name(row)
    fields = {name: _fields_of(known[name], value) for name, value in values.items()}
    counts = [sum(each.opcode == Opcode.PARAMETER for each in computation.instructions) for computation in called]
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
    shapes = [Shape.from_proto(each.shape) for each in operands]
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
            results = [Shape.from_proto(_root(each).shape) for each in called]
            shape = row.infer_shape(Given(message, shapes, results))
    except (CannotComplete, CannotInfer) as error:
        raise InvalidArgumentError(str(error)) from None
    message.shape.CopyFrom(shape.to_proto())
    return message


def _fields_of(attribute: Attribute, value: Any) -> xla.HloInstructionProto:
    """A message that has the value of an attribute and nothing else."""
    fields = xla.HloInstructionProto()
    put(fields, attribute, value)
    return fields


def _root(computation: xla.HloComputationProto) -> xla.HloInstructionProto:
    return next(each for each in computation.instructions if local(each) == computation.root_id & LOCAL_ID)


def _is_on_predicate(computation: xla.HloComputationProto, instruction: xla.HloInstructionProto) -> bool:
    """Whether the first operand of an instruction is a predicate."""
    operands = operands_of(computation, instruction.operand_ids[:1])
    return bool(operands) and operands[0].shape.element_type == xla.PRED


def _called_ids(draft: Draft, row: Operation, instruction: xla.HloInstructionProto, name: str, value: Any) -> list[int]:
    """The ids of all called computations if the attribute `name` is set to `value`, a name or a list of names."""
    names: list[Any] = [value] if isinstance(value, str) else list(value or ())
    if not all(isinstance(each, str) for each in names):
        raise InvalidArgumentError(f"{name} takes names of computations, not {value!r}", field=name)
    found = [draft.computation(each) for each in names]
    for each in found:
        if draft.is_entry(each):
            raise InvalidArgumentError(f"{each.name!r} is the entry, which nothing may call", field=name)
    parts = dict(row.calls.parts)
    if name in parts:
        ids = list(instruction.called_computation_ids)
        if len(found) != 1:
            raise InvalidArgumentError(f"{name} takes one computation, not {len(found)}", field=name)
        ids[parts[name]] = found[0].id
        return ids
    if not row.calls.is_list and len(found) != 1:
        raise InvalidArgumentError(f"{name} takes one computation, not {len(found)}", field=name)
    return [each.id for each in found]


def _no_attribute(row: Operation, name: str) -> InvalidArgumentError:
    known = sorted({*attributes_by_name(row), *row.call_names})
    hint = did_you_mean(name, known) or f"; it may have {', '.join(known)}"
    return InvalidArgumentError(f"{row.opcode} has no attribute {name}{hint}", field=name)
