r"""Reads the fields that older versions of XLA wrote and that the schema of this package, which is that of jaxlib 0.12,
no longer has. No other file deals with them.

    content                             written by                          field
    iota replica groups                 jaxlib 0.4.35–0.8.3, TF 2.19–2.21   CollectiveDeviceListProto, field 2
    origins as a list of leaves         jaxlib 0.4.35–0.5.3, TF 2.19        OriginalValueProto, field 1 otherwise
    origins as a shape and its leaves   jaxlib 0.6                          OriginalValueProto, fields 1 and 2 otherwise
    sparse operands of a dot            jaxlib 0.4.20–0.6, TF 2.16–2.19     HloInstructionProto, field 86
    the precision PACKED_NIBBLE         jaxlib 0.4.13–0.5.3, TF 2.19        PrecisionConfig.Precision, value 3

"Otherwise" means that today's schema uses the same field numbers with other types. An origin (OriginalValueProto)
says which instructions of the unoptimised module a value comes from.

A message with such fields is not changed: protobuf keeps fields that the schema does not name, so the module is written
back byte for byte. The writer of text and the indexing maps ask the functions below for the meaning of these fields.

There is one exception. The oldest form of origins has field numbers that were used again with other types: the name of
an instruction stands where the schema has a message, and protobuf refuses the module. `decode` reads such a module by
rewriting its origins to today's form, in which an edited module is written, too.

`modernized` gives the module in today's schema, for formats that cannot hold fields that the schema does not name.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple, TypeVar, cast

from google.protobuf.unknown_fields import UnknownFieldSet

from xlashape.errors import DecodeError
from xlashape.proto import coerce, xla
from xlashape.proto.wire import BYTES, VARINT, fields, read_varint, signed, sized, tag, varint, varints

DOT_SPARSITY: Final = 86
"""The number of the field of HloInstructionProto that says which operands of a dot are sparse."""

OLDER_PRECISIONS: Final = (("packed_nibble", 3),)
"""(name, number) of the precisions that the schema has no name for."""

_IOTA_REPLICA_GROUPS: Final = 2  # the number of a field of CollectiveDeviceListProto
_ELEMENT_TYPE_TAG: Final = tag(2, VARINT)  # the first bytes of a ShapeProto: its field element_type
_MAX_DEPTH: Final = 100  # levels of tuples in a shape, as many as protobuf decodes

Modules = TypeVar("Modules", xla.HloInstructionProto, xla.HloComputationProto, xla.HloModuleProto, xla.HloProto)


# -- replica groups -------------------------------------------------------------------------


def iota_replica_groups(groups: xla.CollectiveDeviceListProto) -> xla.IotaReplicaGroupListProto | None:
    r"""The replica groups in iota form, if they are in the older field; None if that field is empty.

    >>> groups = xla.CollectiveDeviceListProto.FromString(b"\x12\x0a\x08\x02\x10\x04\x1a\x01\x08\x22\x01\x00")
    >>> iota_replica_groups(groups).num_devices_per_group
    4
    """
    if groups.replica_groups or not groups.ByteSize():
        return None
    found = _last(groups.SerializeToString(), _IOTA_REPLICA_GROUPS)
    return None if found is None else coerce(xla.IotaReplicaGroupListProto, found)


def _last(data: bytes, wanted: int) -> bytes | None:
    """The content of the last field with the number `wanted` that holds bytes; None if there is none."""
    found = None
    for number, content in _submessages(data):
        if number == wanted:
            found = content
    return found


def _submessages(data: bytes) -> Iterator[tuple[int, bytes]]:
    """The length-delimited fields of a message: (field number, content)."""
    for number, wire_type, _, content, end in fields(data):
        if wire_type == BYTES:
            yield number, data[content:end]


# -- origins --------------------------------------------------------------------------------


def original_value(data: bytes) -> xla.OriginalValueProto:
    r"""The origin of a value in the bytes of an OriginalValueProto of any version. Raises DecodeError for other bytes.

    >>> original_value(b"\x0a\x04\x12\x02v1").elements[0].original_array.instruction_name
    'v1'
    """
    older = _older_origin(data)
    return coerce(xla.OriginalValueProto, data) if older is None else older


def _older_origin(data: bytes) -> xla.OriginalValueProto | None:
    """The origin in today's form; None if it has that form already or an unknown form."""
    try:
        parts = list(_submessages(data))
        leaves = [content for number, content in parts if number == 2]
        shapes = [content for number, content in parts if number == 1 and content[:1] == _ELEMENT_TYPE_TAG]
        if leaves or shapes:  # Field 2 is a bool today, which is not BYTES.
            return _origin_of_leaves(leaves, coerce(xla.ShapeProto, shapes[-1]) if shapes else None)
        leaves = [content for number, content in parts if number == 1]
        return _origin_of_leaves(leaves, None) if any(map(_is_older_leaf, leaves)) else None
    except DecodeError:
        return None


def _is_older_leaf(leaf: bytes) -> bool:
    """Whether an element of an origin is an older leaf, whose field 2 is a name, rather than an element of today, whose
    field 2 is an array.

    An array begins with the tag of its own field 1 or 2, which is a control character; a name does not. Only older
    leaves have a field 3.
    """
    parts = dict(_submessages(leaf))
    return 3 in parts or parts.get(2, b"")[:1] >= b" "


def _origin_of_leaves(leaves: list[bytes], shape: xla.ShapeProto | None) -> xla.OriginalValueProto:
    """An origin of today's form, made of older leaves. Leaves of `shape` that have no origin become elements without an
    array."""
    value = xla.OriginalValueProto()
    arrays: dict[tuple[int, ...], xla.OriginalArrayProto] = {}
    for leaf in leaves:
        index, array = _array_of_leaf(leaf)
        arrays[index] = array
    for index in arrays if shape is None else {**dict.fromkeys(_leaf_indices(shape)), **arrays}:
        element = value.elements.add(shape_index=index)
        if index in arrays and arrays[index].instruction_name:
            element.original_array.CopyFrom(arrays[index])
    return value


def _array_of_leaf(leaf: bytes) -> tuple[tuple[int, ...], xla.OriginalArrayProto]:
    """The index of an older leaf in the value's shape, and the array that the leaf comes from."""
    index: list[int] = []
    array = xla.OriginalArrayProto()
    for number, wire_type, _, content, end in fields(leaf):
        numbers = index if number == 1 else array.shape_index
        if number == 2 and wire_type == BYTES:
            array.instruction_name = leaf[content:end].decode("utf-8", "replace")
        elif number in (1, 3):
            found = varints(leaf[content:end]) if wire_type == BYTES else [read_varint(leaf, content)[0]]
            numbers.extend(map(signed, found))
    return tuple(index), array


def _leaf_indices(shape: xla.ShapeProto, index: tuple[int, ...] = ()) -> Iterator[tuple[int, ...]]:
    if shape.element_type != xla.TUPLE or len(index) > _MAX_DEPTH:
        yield index
        return
    for number, element in enumerate(shape.tuple_shapes):
        yield from _leaf_indices(element, (*index, number))


# -- sparse dots ----------------------------------------------------------------------------


class SparseOperand(NamedTuple):
    """A sparse operand of a dot: of each `block_size` elements along a dimension, the operand has only `non_zeros`.

    A further operand of the dot, after lhs and rhs, says which elements they are.
    """

    operand: int
    """0 is lhs, 1 is rhs."""
    dimension: int
    non_zeros: int
    block_size: int

    @classmethod
    def of(cls, data: bytes) -> SparseOperand:
        """The sparse operand in the bytes of a SparsityDescriptor."""
        values = [0] * 6
        for number, wire_type, _, content, _ in fields(data):
            if number < len(values) and wire_type == VARINT:
                values[number] = signed(read_varint(data, content)[0])
        return cls(*values[2:])

    def to_field(self) -> bytes:
        """The serialized field of HloInstructionProto that holds the sparse operand.

        >>> SparseOperand.of(SparseOperand(0, 1, 2, 4).to_field()[3:])
        SparseOperand(operand=0, dimension=1, non_zeros=2, block_size=4)
        """
        numbers = {1: 1, 2: self.operand, 3: self.dimension, 4: self.non_zeros, 5: self.block_size}
        content = b"".join(tag(number, VARINT) + varint(value) for number, value in numbers.items() if value)
        return tag(DOT_SPARSITY, BYTES) + sized(content)


def sparse_operands(instruction: xla.HloInstructionProto) -> tuple[SparseOperand, ...]:
    """The sparse operands of a dot. The dot has a further operand, after lhs and rhs, for each of them."""
    # UnknownFieldSet takes a message; its annotation is wrong.
    unknown: Any = UnknownFieldSet(cast("Any", instruction))
    parts = [each.data for each in unknown if each.field_number == DOT_SPARSITY and each.wire_type == BYTES]
    return tuple([SparseOperand.of(data) for data in parts])


# -- modules --------------------------------------------------------------------------------


def decode(message_class: type[Modules], value: object) -> tuple[Modules, bytes | None]:
    """Decodes an HloProto, or a module, computation or instruction of one, from bytes, or from a message of any
    package's classes, as `coerce` does. Raises as `coerce` does.

    If older origins keep protobuf from reading the bytes, they are rewritten first, and the second value has the bytes
    as they came. Otherwise the second value is None.
    """
    try:
        return coerce(message_class, value), None
    except DecodeError as error:
        if not isinstance(value, (bytes, bytearray, memoryview)):
            raise
        data = bytes(cast("bytes", value))
        try:
            rewritten = _with_todays_origins(data, _PATHS[message_class.DESCRIPTOR.full_name])
        except DecodeError:
            raise error from None
        if rewritten == data:
            raise
    message = coerce(message_class, rewritten)
    return message, data


_PATHS: Final = {
    "xla.HloInstructionProto": (88,),  # original_value
    "xla.HloComputationProto": (2, 88),  # instructions, …
    "xla.HloModuleProto": (3, 2, 88),  # computations, instructions, …
    "xla.HloProto": (1, 3, 2, 88),  # hlo_module, …
}


def _with_todays_origins(data: bytes, path: tuple[int, ...]) -> bytes:
    """Serialized message → the same message with origins of today's form. `path` has the numbers of the fields that
    lead to the origins.
    """
    if not path:
        older = _older_origin(data)
        return data if older is None else older.SerializeToString()
    parts: list[bytes] = []
    for number, wire_type, start, content, end in fields(data):
        if number == path[0] and wire_type == BYTES:
            inner = _with_todays_origins(data[content:end], path[1:])
            parts.append(tag(number, BYTES) + sized(inner))
        else:
            parts.append(data[start:end])
    return b"".join(parts)


def modernized(message: xla.HloModuleProto | xla.HloProto) -> xla.HloModuleProto | xla.HloProto:
    """The module with older fields moved to those of today's schema: a copy, or the message itself if nothing changes.

    Replica groups and origins are moved. Today's schema has no field for sparse operands of a dot: they stay in theirs.
    """
    module = message.hlo_module if isinstance(message, xla.HloProto) else message
    changes: list[tuple[int, int, xla.HloInstructionProto]] = []
    for c, computation in enumerate(module.computations):
        for i, instruction in enumerate(computation.instructions):
            fields_today = _fields_today(instruction)
            if fields_today is not None:
                changes.append((c, i, fields_today))
    if not changes:
        return message
    copy = type(message).FromString(message.SerializeToString())
    module = copy.hlo_module if isinstance(copy, xla.HloProto) else copy
    for c, i, fields_today in changes:
        instruction = module.computations[c].instructions[i]
        if fields_today.HasField("original_value"):
            instruction.original_value.CopyFrom(fields_today.original_value)
        if fields_today.HasField("iota_collective_device_list"):
            instruction.iota_collective_device_list.CopyFrom(fields_today.iota_collective_device_list)
    return copy


def _fields_today(instruction: xla.HloInstructionProto) -> xla.HloInstructionProto | None:
    """A message with today's form of an instruction's older fields; None if the instruction has none."""
    today = xla.HloInstructionProto()
    if instruction.HasField("original_value"):
        value = _older_origin(instruction.original_value.SerializePartialToString())
        if value is not None:
            today.original_value.CopyFrom(value)
    if instruction.HasField("collective_device_list"):
        groups = iota_replica_groups(instruction.collective_device_list)
        if groups is not None:
            today.iota_collective_device_list.CopyFrom(groups)
    return today if today.ByteSize() else None
