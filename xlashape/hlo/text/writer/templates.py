"""A module in the form that the writer reads. Instructions that differ only in name, id, operands and metadata share an
InstructionTemplate; a PrintedComputation has lists of these four for its instructions.

Modules repeat themselves: apart from the four fields, nine of ten instructions are byte for byte the same as an earlier
one. So the writer parses the module with a schema of its own, for the same wire format, in which an instruction has
only these four fields and everything else is unknown fields. The bytes that remain when the four are cleared are the
key of a template, which is decoded and written once. For a language model of 31855 instructions and 4188 templates,
writing takes 176 ms; with a template for each instruction it takes 517 ms.

In a template, submessages (shapes, shardings, …) are bytes, so that they can be keys of caches. A submessage that is
not set is ABSENT; one that is set but empty is b"". Enums are int32, so that a number without a name stays a number.
"""

from __future__ import annotations

from operator import attrgetter
from typing import Any, Final

from google.protobuf import descriptor_pb2
from google.protobuf.descriptor import Descriptor, FieldDescriptor

from xlashape.errors import InvalidModuleError
from xlashape.hlo.module_proto.compact import add_message, message_classes
from xlashape.hlo.module_proto.schema_compat import DOT_SPARSITY, decode
from xlashape.hlo.module_proto.structure import LOCAL_ID
from xlashape.hlo.ops.operation import Contents
from xlashape.hlo.ops.registry import operation_of
from xlashape.hlo.values.attribute import ABSENT
from xlashape.limits import spend
from xlashape.proto import parse, xla

_Field = descriptor_pb2.FieldDescriptorProto
_OWN: Final = ("name", "id", "operand_ids", "metadata")
_COMPUTATION: Final = ("name", "id", "root_id", "execution_thread", "instructions")


def _make_classes() -> tuple[Any, Any]:
    """Makes the message classes for a module and for a template."""
    file = descriptor_pb2.FileDescriptorProto(name="writer.proto", package="xlashape.writer", syntax="proto2")
    instruction = xla.HloInstructionProto.DESCRIPTOR
    template = add_message(file, "Template", instruction)
    for field in template.field:
        if field.type == _Field.TYPE_BYTES and field.label == _Field.LABEL_OPTIONAL and _is_message(instruction, field):
            field.default_value = ABSENT.decode()
    template.field.add(name="dot_sparsity", number=DOT_SPARSITY, label=_Field.LABEL_REPEATED, type=_Field.TYPE_BYTES)
    add_message(file, "Instruction", instruction, _OWN)
    computation = xla.HloComputationProto.DESCRIPTOR
    add_message(file, "Computation", computation, _COMPUTATION, {"instructions": "Instruction"})
    add_message(file, "Module", xla.HloModuleProto.DESCRIPTOR, ("computations",), {"computations": "Computation"})
    module_class, template_class = message_classes(file, "Module", "Template")
    return module_class, template_class


def _is_message(descriptor: Descriptor, field: descriptor_pb2.FieldDescriptorProto) -> bool:
    return descriptor.fields_by_number[field.number].type == FieldDescriptor.TYPE_MESSAGE


class InstructionTemplate:
    """The common part of instructions that differ only in name, id, operands and metadata.

    `message` has all fields of HloInstructionProto but those four, with submessages as bytes. LineWriter sets the last
    five attributes: the pieces of the line between its parts, and whether they hold for all instructions of the
    template.
    """

    __slots__ = (
        "attributes",
        "backend_config",
        "called",
        "head",
        "inside",
        "is_notable",
        "is_parameter",
        "is_written",
        "message",
        "opcode",
        "predecessors",
        "row",
        "shape",
    )

    def __init__(self, message: Any) -> None:
        self.message = message
        self.opcode: str = message.opcode
        self.row = operation_of(self.opcode)
        self.shape: bytes = message.shape
        self.called: list[int] = list(message.called_computation_ids)
        self.predecessors: list[int] = list(message.control_predecessor_ids)
        self.is_parameter = self.row.contents is Contents.PARAMETER_NUMBER
        self.is_notable = bool(self.is_parameter or self.called or self.predecessors)
        """Whether the instruction is a parameter, calls computations or has control predecessors."""
        self.is_written = False
        """Whether the following texts have been set and hold for all instructions of the template."""
        self.head = ""
        """The text from ` = ` to the opening parenthesis."""
        self.inside = ""
        """The text between the parentheses of an instruction without operands."""
        self.attributes = ""
        """The text from the closing parenthesis to the metadata."""
        self.backend_config = ""
        """The text of the attribute backend_config, which is the last."""


class PrintedComputation:
    """A computation. Its instructions are parallel lists, in the order of the proto. Other code refers to an
    instruction by its index in these lists.
    """

    __slots__ = (
        "_indices",
        "id",
        "ids",
        "metadata",
        "name",
        "names",
        "notable",
        "operands",
        "root",
        "templates",
        "thread",
    )

    def __init__(self, message: Any, templates: dict[bytes, InstructionTemplate], template_class: Any) -> None:
        """`templates` has the templates of the module so far, by their bytes. New ones are added to it."""
        self.name: str = message.name
        self.id: int = message.id & LOCAL_ID
        self.thread: str = message.execution_thread
        self._indices: dict[int, int] | None = None
        ids: list[int] = []
        names: list[str] = []
        metadata: list[bytes] = []
        # The operands of an instruction are a tuple since the garbage collector, unlike with lists, soon stops tracking
        # tuples of integers.
        operands: list[tuple[int, ...]] = []
        self.templates: list[InstructionTemplate] = []
        self.notable: list[int] = []
        """The indices of instructions whose template is notable."""
        index_of: dict[int, int] = {}
        # Instructions with an operand that comes later in the proto: (index, ids of the operands).
        forward: list[tuple[int, list[int]]] = []
        for index, instruction in enumerate(message.instructions):
            ident, name, repeated, data = _own_fields(instruction)
            clear = instruction.ClearField
            # A slice of the field makes a list at once; iterating over the field costs four times as much.
            operand_ids = repeated[:]
            if operand_ids:
                try:
                    operands.append(tuple([index_of[i] for i in operand_ids]))
                except KeyError:
                    forward.append((index, operand_ids))
                    operands.append(())
                clear("operand_ids")
            else:
                operands.append(())
            index_of[ident] = index
            ids.append(ident)
            names.append(name)
            metadata.append(data)
            clear("id")
            clear("name")
            clear("metadata")
            rest = instruction.SerializePartialToString()
            template = templates.get(rest)
            if template is None:
                decode(xla.HloInstructionProto, rest)  # raises DecodeError for attributes whose bytes are broken
                template = templates[rest] = InstructionTemplate(template_class.FromString(rest))
            self.templates.append(template)
            if template.is_notable:
                self.notable.append(index)
        self.ids = ids
        self.names = names
        self.metadata = metadata
        self.operands = operands
        for index, operand_ids in forward:
            operands[index] = tuple([self.index_of(i, index) for i in operand_ids])
        root = index_of.get(message.root_id)
        self.root: int = self.indices.get(message.root_id & LOCAL_ID, -1) if root is None else root

    @property
    def indices(self) -> dict[int, int]:
        """Local id of an instruction → its index."""
        if self._indices is None:
            self._indices = {ident & LOCAL_ID: index for index, ident in enumerate(self.ids)}
        return self._indices

    def predecessors_of(self, user: int) -> list[int]:
        """The indices of the control predecessors of the instruction at index `user`. Errors as in `index_of`."""
        idents = self.templates[user].predecessors
        spend(len(idents))
        return [self.index_of(ident, user) for ident in idents]

    def index_of(self, ident: int, user: int) -> int:
        """The index of the instruction with an id. InvalidModuleError if there is none; the error names the instruction
        at index `user`, which refers to the id."""
        index = self.indices.get(ident & LOCAL_ID)
        if index is None:
            raise InvalidModuleError(
                f"computation {self.name!r}: instruction {self.names[user]!r} names an instruction of id {ident},"
                " which is not in its computation"
            )
        return index


_own_fields: Final = attrgetter("id", "name", "operand_ids", "metadata")
_classes: Final = _make_classes()


def read_computations(module: bytes) -> list[PrintedComputation]:
    """The computations of a serialized module. Raises DecodeError for broken bytes."""
    module_class, template_class = _classes
    source = parse(module_class, module)
    templates: dict[bytes, InstructionTemplate] = {}
    return [PrintedComputation(computation, templates, template_class) for computation in source.computations]
