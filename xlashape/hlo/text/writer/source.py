"""A module as the printer reads it: plain lists of what differs between instructions, and one Kind for all that are alike.

Modules repeat themselves: once its name, id, operands and metadata are left aside, nine of ten instructions are the same, byte for
byte, as one before. So the module is parsed with a schema of its own on the same wire format, in which an instruction has those four
fields and all else stays unknown; what remains when the four are cleared is the key of its Kind, which is decoded and put into
words once. In a Kind, too, sub-messages (shapes, shardings, …) are bytes: keys of further dictionaries.

A sub-message that is not there reads as ABSENT, which no serialized message can be; one that is there but empty as b"". Enums read as
int32: a number without a name stays a number.
"""

from __future__ import annotations

from functools import cache
from operator import attrgetter
from typing import Any, Final

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import EncodeError

from xlashape.errors import InvalidModuleError
from xlashape.hlo.structure import LOCAL_ID
from xlashape.proto import is_repeated, xla

__all__ = ["ABSENT", "Computation", "Kind", "read_computations"]

ABSENT: Final = b"?"
"""0x3f is a tag of wire type 7, which does not exist."""

_Field = descriptor_pb2.FieldDescriptorProto
_OWN: Final = ("name", "id", "operand_ids", "metadata")
_COMPUTATION: Final = ("name", "id", "root_id", "execution_thread", "instructions")


def _message(name: str, descriptor: Descriptor, only: tuple[str, ...], parts: dict[str, str]) -> Any:
    made = descriptor_pb2.DescriptorProto(name=name)
    for field in descriptor.fields:
        if only and field.name not in only:
            continue
        repeated = is_repeated(field)
        copy = made.field.add(
            name=field.name,
            number=field.number,
            label=_Field.LABEL_REPEATED if repeated else _Field.LABEL_OPTIONAL,
        )
        if field.name in parts:
            copy.type, copy.type_name = _Field.TYPE_MESSAGE, f".xlashape.print.{parts[field.name]}"
        elif field.type == FieldDescriptor.TYPE_MESSAGE:
            copy.type = _Field.TYPE_BYTES
            if not repeated:
                copy.default_value = ABSENT.decode()
        elif field.type == FieldDescriptor.TYPE_ENUM:
            copy.type = _Field.TYPE_INT32
        else:
            copy.type = field.type  # pyright: ignore[reportAttributeAccessIssue] # the same numbers
    return made


@cache
def _classes() -> tuple[Any, Any]:
    file = descriptor_pb2.FileDescriptorProto(name="xlashape/print.proto", package="xlashape.print", syntax="proto2")
    instruction = xla.HloInstructionProto.DESCRIPTOR
    file.message_type.add().CopyFrom(_message("Kind", instruction, (), {}))
    file.message_type.add().CopyFrom(_message("Instruction", instruction, _OWN, {}))
    computation = _message(
        "Computation", xla.HloComputationProto.DESCRIPTOR, _COMPUTATION, {"instructions": "Instruction"}
    )
    file.message_type.add().CopyFrom(computation)
    module = _message("Module", xla.HloModuleProto.DESCRIPTOR, ("computations",), {"computations": "Computation"})
    file.message_type.add().CopyFrom(module)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    module_class = message_factory.GetMessageClass(pool.FindMessageTypeByName("xlashape.print.Module"))
    return module_class, message_factory.GetMessageClass(pool.FindMessageTypeByName("xlashape.print.Kind"))


class Kind:
    """What instructions have in common that differ in name, id, operands and metadata only.

    `message` has all fields of HloInstructionProto, sub-messages as bytes, without those four. The last five are the
    printer's.
    """

    __slots__ = (
        "called",
        "config",
        "head",
        "inside",
        "is_notable",
        "message",
        "opcode",
        "predecessors",
        "shape",
        "state",
        "tail",
    )

    def __init__(self, message: Any) -> None:
        self.message = message
        self.opcode: str = message.opcode
        self.shape: bytes = message.shape
        self.called: list[int] = list(message.called_computation_ids)
        self.predecessors: list[int] = list(message.control_predecessor_ids)
        self.is_notable = bool(self.opcode == "parameter" or self.called or self.predecessors)
        self.state = 0
        self.head = self.inside = self.tail = self.config = ""


class Computation:
    """A computation: its instructions as parallel lists, in the order of the proto.

    Instructions are told by their place in these lists, operands too.
    """

    __slots__ = ("_places", "id", "ids", "kinds", "metadata", "name", "names", "notable", "operands", "root", "thread")

    def __init__(self, message: Any, kinds: dict[bytes, Kind], kind_class: Any) -> None:
        self.name: str = message.name
        self.id: int = message.id & LOCAL_ID
        self.thread: str = message.execution_thread
        self._places: dict[int, int] | None = None
        ids: list[int] = []
        names: list[str] = []
        metadata: list[bytes] = []
        # Tuples of integers do not stay with the garbage collector as lists would.
        operands: list[tuple[int, ...]] = []
        self.kinds: list[Kind] = []
        self.notable: list[int] = []
        """The places of parameters and of instructions that call computations or have control predecessors."""
        places: dict[int, int] = {}
        late: list[tuple[int, list[int]]] = []
        for place, one in enumerate(message.instructions):
            ident, name, repeated, data = _own(one)
            clear = one.ClearField
            # A slice is a list at once; iterating over the field itself costs four times as much.
            operand_ids = repeated[:]
            if operand_ids:
                try:
                    if len(operand_ids) == 1:
                        operands.append((places[operand_ids[0]],))
                    else:
                        operands.append(tuple([places[i] for i in operand_ids]))
                except KeyError:
                    late.append((place, operand_ids))
                    operands.append(())
                clear("operand_ids")
            else:
                operands.append(())
            places[ident] = place
            ids.append(ident)
            names.append(name)
            metadata.append(data)
            clear("id")
            clear("name")
            clear("metadata")
            rest = one.SerializePartialToString()
            kind = kinds.get(rest)
            if kind is None:
                kind = kinds[rest] = Kind(kind_class.FromString(rest))
            self.kinds.append(kind)
            if kind.is_notable:
                self.notable.append(place)
        self.ids = ids
        self.names = names
        self.metadata = metadata
        self.operands = operands
        for place, operand_ids in late:
            operands[place] = tuple([self.place(i, place) for i in operand_ids])
        root = places.get(message.root_id)
        self.root: int = self.places.get(message.root_id & LOCAL_ID, -1) if root is None else root

    @property
    def places(self) -> dict[int, int]:
        """Local id → place."""
        if self._places is None:
            self._places = {ident & LOCAL_ID: place for place, ident in enumerate(self.ids)}
        return self._places

    def place(self, instruction: int, user: int) -> int:
        """The place of the instruction of an id; InvalidModuleError naming the one at place `user`, which asks for it."""
        place = self.places.get(instruction & LOCAL_ID)
        if place is None:
            raise InvalidModuleError(
                f"computation {self.name!r}: instruction {self.names[user]!r} names an instruction of id {instruction},"
                " which is not in its computation"
            )
        return place


_own: Final = attrgetter("id", "name", "operand_ids", "metadata")


def read_computations(module: xla.HloModuleProto | bytes) -> list[Computation]:
    """The computations of a module or of its bytes; InvalidModuleError if it cannot be serialized (beyond 2 GiB)."""
    module_class, kind_class = _classes()
    try:
        source = module_class.FromString(module if isinstance(module, bytes) else module.SerializePartialToString())
    except (EncodeError, ValueError) as error:
        raise InvalidModuleError(f"the module cannot be serialized: {error}") from error
    kinds: dict[bytes, Kind] = {}
    return [Computation(one, kinds, kind_class) for one in source.computations]
