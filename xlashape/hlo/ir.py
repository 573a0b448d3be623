"""The one form of a module: instructions over shared kinds. Matches XLA's HloInstruction, HloComputation and HloModule.

    bytes  ⇄  module  ⇄  text          serde and text/ are edges that read into this form and write out of it

    Kind             what instructions share; immutable (`xlashape.hlo.kind`)
    HloInstruction   which one it is: name, id, kind, operands, called computations, control predecessors, metadata
    HloComputation   instructions in order, with a root
    ModuleData       computations with an entry, and `head`: what the module says beside them

What one of the three classes has without the others stands below them: what an instruction says by itself and the head
of a module in `kind.py`, the methods that edit in `edit_methods.py`.

A computation that was read from bytes is made of them when it is first touched. Reading is safe in several threads.
The methods that change a module are those of `HloInstruction`, `HloComputation` and `HloModule`
(`xlashape.hlo.module`); `xlashape.hlo.editing` does their work. An edit in one thread must not run beside another use
of the module.

`ModuleData` has what every file of the library needs. `HloModule`, the only class that derives from it, adds reading,
printing and editing, which stand on files above this one.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from xlashape.base.display import Displayed
from xlashape.base.similar import did_you_mean
from xlashape.base.tables import Table, Tabular
from xlashape.errors import InvalidArgumentError, InvalidModuleError, NotFoundError, XlashapeError, is_a
from xlashape.hlo.edit_methods import ComputationEdits, InstructionEdits
from xlashape.hlo.kind import InstructionContent, Kind, Kinds, ModuleHead, TextMetadata
from xlashape.hlo.module_proto.order import is_post_order, post_order, roots
from xlashape.hlo.module_proto.structure import LOCAL_ID
from xlashape.hlo.ops.opcode import Opcode
from xlashape.limits import spend
from xlashape.proto import xla
from xlashape.shape import Shape

if TYPE_CHECKING:
    from xlashape.hlo.module_proto.stack_frames import Metadata
    from xlashape.hlo.ops.instruction_attributes import Attributes

_T = TypeVar("_T")

# Instructions are compared by identity, so two threads that touch a computation first must get the same objects.
_MAKING = threading.RLock()


@dataclass(slots=True, eq=False, repr=False)
class HloInstruction(InstructionContent, InstructionEdits, Displayed):
    """One instruction of a computation. Compare instructions with `is`.

    Attributes are typed values: `instruction.attributes.window`. Methods such as `replace_uses` and `set_attribute`
    change the module in place; each changes everything or, where it raises, nothing.
    """

    computation: HloComputation
    """The computation that the instruction belongs to."""
    name: str
    """The name of the instruction, without `%`."""
    id: int
    """The id of the instruction in the proto: in newer modules (computation id << 32) | number."""
    kind: Kind
    """What the instruction is, apart from which one: shared with all instructions that are alike."""
    operands: tuple[HloInstruction, ...] = ()
    """The instructions whose results this instruction takes, in order. One that it takes twice occurs twice."""
    said_metadata: bytes | TextMetadata | None = None
    """The serialized OpMetadata, or its text; None for an instruction that has none. `metadata` reads it."""
    number: int = 0
    """The parameter's number; 0 for an instruction that is not a parameter."""
    channel: int = 0
    """The channel of a collective or a transfer, from 1; 0 for an instruction without one."""
    called_computations: tuple[HloComputation, ...] = ()
    """The computations that the instruction calls, in the proto's order: the body of a while before its condition, the
    branches of a conditional."""
    control_predecessors: tuple[HloInstruction, ...] = ()
    """The instructions that must have run before this instruction, in addition to its operands."""
    index: int = -1
    """The index of the instruction in `computation.instructions`."""
    known_users: tuple[HloInstruction, ...] | None = None
    """The users once they have been found; `users` asks for them."""

    @property
    def shape(self) -> Shape:
        """The shape of the result. Instructions of equal shapes share one object. Raises InvalidModuleError for an
        invalid shape."""
        try:
            return self.kind.shape
        except XlashapeError as error:
            raise self._error(f"has an invalid shape: {error}") from error

    @property
    def users(self) -> tuple[HloInstruction, ...]:
        """The instructions that take the result of this instruction, each once, in the order of the computation; those
        that an edit has added come last."""
        users = self.known_users
        if users is None:
            self.computation.find_users()
            users = self.known_users
            assert users is not None
        return users

    @property
    def parameter_number(self) -> int:
        """Which parameter of the computation this parameter is, from 0. Raises InvalidArgumentError for an instruction
        that is not a parameter."""
        if self.kind.opcode is not Opcode.PARAMETER:
            raise InvalidArgumentError(f"instruction {self.name!r} is not a parameter but {str(self.opcode)!r}")
        return self.number

    @property
    def is_root(self) -> bool:
        """Whether the result of this instruction is the result of its computation."""
        return self.computation.root is self

    # -- what the kind says ----------------------------------------------------------------------

    @property
    def attributes(self) -> Attributes:
        """The attributes as typed values, by their names in HLO text: `attributes.window`, `attributes.dimensions`.

        >>> from xlashape.hlo import HloModule
        >>> text = "HloModule m ENTRY e { p = f32[4,2] parameter(0) ROOT t = f32[2,4] transpose(p), dimensions={1,0} }"
        >>> attributes = HloModule.parse(text).entry.root.attributes
        >>> attributes.dimensions, dict(attributes)
        ((1, 0), {'dimensions': (1, 0)})
        """
        # start-up time: it loads the codecs of attributes
        from xlashape.hlo.ops.instruction_attributes import Attributes

        return Attributes(self, self.computation.module.head.payloads)

    # -- metadata --------------------------------------------------------------------------------

    @property
    def metadata(self) -> Metadata:
        """The operation and the lines of the user's program that the instruction comes from: `op_name`, `op_type`,
        `source`, `frames`.

        >>> from xlashape.hlo import HloModule
        >>> text = '''HloModule m ENTRY e { ROOT p = f32[4] parameter(0),
        ... metadata={op_name="jit(f)/x" source_file="/src/train.py" source_line=73} }'''
        >>> metadata = HloModule.parse(text).entry.root.metadata
        >>> metadata.op_name, metadata.source, metadata.source_file
        ('jit(f)/x', 'train.py:73', '/src/train.py')
        """
        return self.computation.module.metadata_of(self.metadata_bytes or b"")

    # -- edits -----------------------------------------------------------------------------------

    def take(self, operands: tuple[HloInstruction, ...]) -> None:
        """Sets the operands, and the users of the old and new ones. The order of instructions is not looked at: for
        edits alone."""
        old, self.operands = self.operands, operands
        if self.computation.has_users:
            for each in set(old).difference(operands):
                each.known_users = tuple([user for user in each.users if user is not self])
            for each in set(operands).difference(old):
                each.known_users = (*each.users, self)

    # -- edges -----------------------------------------------------------------------------------

    @property
    def proto(self) -> xla.HloInstructionProto:
        """A new HloInstructionProto of the instruction. Changing the message does not change the instruction."""
        return self.computation.module.instruction_proto(self)

    def to_text(self, style: Any = "default", **options: Any) -> str:
        """The line of the instruction as `HloModule.to_text` writes it, without indentation and `ROOT`.

        >>> from xlashape.hlo import HloModule
        >>> HloModule.parse("HloModule m ENTRY e { ROOT p = f32[4] parameter(0) }").entry.root.to_text()
        '%p = f32[4]{0} parameter(0)'
        """
        return self.computation.module.part_text(self, style, options)

    def __reduce__(self) -> tuple[Any, ...]:
        return _instruction_of, (self.computation, self.index)

    def _error(self, what: str) -> InvalidModuleError:
        source = self.metadata.source
        origin = f" ({source})" if source else ""
        return InvalidModuleError(f"computation {self.computation.name!r}: instruction {self.name!r}{origin} {what}")

    def __repr__(self) -> str:
        return f"<HloInstruction {self.name!r}: {self.opcode}>"


@dataclass(slots=True, eq=False, repr=False)
class HloComputation(ComputationEdits[HloInstruction], Displayed, Tabular):
    """A named list of instructions with a root. Compare computations with `is`."""

    module: ModuleData
    """The module that the computation belongs to."""
    name: str
    """The name of the computation, without `%`."""
    id: int
    """The id of the computation in the proto."""
    execution_thread: str = ""
    """The name of the thread that runs the computation; empty for the main thread, which XLA's text leaves out."""
    index: int = -1
    """The index of the computation in `module.computations`."""
    source: memoryview | bytes | None = None
    """The serialized computation, as long as nothing of it has changed; None where there is none."""
    count: int = 0
    """The number of instructions in `source`."""
    rest: bytes | None = None
    """The serialized fields beside name, id, root, thread and instructions, once the computation was touched. None for
    one that was made without a proto: its signature then follows from its instructions."""
    is_fused: bool = False
    """Whether a fusion calls the computation, as its text or proto says."""
    is_ordered: bool = True
    """Whether operands and control predecessors come before their users in `instructions`."""
    _instructions: tuple[HloInstruction, ...] | None = None
    _root: HloInstruction | None = None
    # What follows from the list of instructions.
    _by_local_id: dict[int, HloInstruction] | None = None
    _by_name: dict[str, HloInstruction] | None = None
    _parameters: tuple[HloInstruction, ...] | None = None
    _order: tuple[HloInstruction, ...] | None = None
    _has_users: bool = False

    def _forget(self) -> None:
        """Drops what follows from the list of instructions."""
        self._by_local_id = self._by_name = self._parameters = self._order = None
        self._has_users = False

    @property
    def instructions(self) -> tuple[HloInstruction, ...]:
        """The instructions in the order of the proto. XLA writes operands before their users."""
        return self._instructions or self.touched()

    def touched(self) -> tuple[HloInstruction, ...]:
        """The instructions, which are made of the bytes of the computation if this was not done yet."""
        with _MAKING:
            if self._instructions is None:
                self.module.read_computation(self)
        assert self._instructions is not None
        return self._instructions

    def fill(self, instructions: Sequence[HloInstruction], root: HloInstruction, *, is_ordered: bool = True) -> None:
        """Gives a computation that has no instructions its instructions."""
        for index, instruction in enumerate(instructions):
            instruction.index = index
        self._root = root
        self.is_ordered = is_ordered
        self._parameters = None
        self._instructions = tuple(instructions)

    @property
    def is_filled(self) -> bool:
        """Whether the computation has its instructions already."""
        return self._instructions is not None

    def set_post_order(self) -> None:
        """Says that the instructions are in XLA's order."""
        self._order = self._instructions

    def set_parameters(self, parameters: Sequence[HloInstruction]) -> None:
        """Sets the parameters of a computation that was filled, in the order of their numbers."""
        self._parameters = tuple(parameters)

    @property
    def root(self) -> HloInstruction:
        """The instruction whose result is the result of the computation."""
        if self._root is None:
            self.touched()
        assert self._root is not None
        return self._root

    @property
    def parameters(self) -> tuple[HloInstruction, ...]:
        """The parameters in the order of their numbers. Raises InvalidModuleError if a number is missing or occurs
        twice."""
        parameters = self._parameters
        if parameters is None:
            by_number = [each for each in self.instructions if each.kind.opcode is Opcode.PARAMETER]
            by_number.sort(key=lambda parameter: parameter.number)
            for expected, parameter in enumerate(by_number):
                if parameter.number != expected:
                    raise InvalidModuleError(
                        f"computation {self.name!r}: instruction {parameter.name!r} is parameter {parameter.number} "
                        f"where parameter {expected} was expected"
                    )
            parameters = self._parameters = tuple(by_number)
        return parameters

    def instruction(self, name: str) -> HloInstruction:
        """The instruction called `name`, which may begin with `%`. If two have that name, the first. Raises
        NotFoundError."""
        by_name = self.by_name()
        instruction = by_name.get(without_percent(name))
        if instruction is None:
            raise _not_found(f"computation {self.name!r}", "instruction", name, by_name)
        return instruction

    def by_name(self) -> dict[str, HloInstruction]:
        """Name → instruction; of two with one name the first."""
        by_name = self._by_name
        if by_name is None:
            by_name = self._by_name = {each.name: each for each in reversed(self.instructions)}
        return by_name

    def by_local_id(self) -> dict[int, HloInstruction]:
        """Local id → instruction."""
        found = self._by_local_id
        if found is None:
            found = self._by_local_id = {each.id & LOCAL_ID: each for each in self.instructions}
        return found

    def resolve(self, ids: Iterable[int]) -> tuple[HloInstruction, ...]:
        """The instructions with these ids, in the order of `ids`. Raises InvalidModuleError for an id that no
        instruction has."""
        return _resolved(self.by_local_id(), ids, f"computation {self.name!r} has no instruction")

    def find_users(self) -> None:
        """Finds the users of all instructions."""
        with _MAKING:
            if self._has_users:
                return
            instructions = self.instructions
            users: list[list[HloInstruction]] = [[] for _ in instructions]
            for user in instructions:
                operands = user.operands
                for operand in operands if len(operands) < 2 else dict.fromkeys(operands):
                    users[operand.index].append(user)
            for instruction, found in zip(instructions, users, strict=True):
                instruction.known_users = tuple(found)
            self._has_users = True

    def post_order(self) -> tuple[HloInstruction, ...]:
        """The instructions in XLA's order: operands before their users, as `xlashape.hlo.module_proto.order` says."""
        order = self._order
        if order is None:
            order = self._order = _post_order(self.instructions)
        return order

    # -- edits -----------------------------------------------------------------------------------

    def set_instructions(self, instructions: Sequence[HloInstruction]) -> None:
        """Sets the list of instructions. For edits alone."""
        by_name, had_users = self._by_name, self._has_users
        if by_name is not None and len(by_name) == len(self.instructions):  # no two have one name
            for each in set(self.instructions).symmetric_difference(instructions):
                if by_name.pop(each.name, None) is None:
                    by_name[each.name] = each
        else:
            by_name = None
        for index, each in enumerate(instructions):
            each.index = index
            if had_users and each.known_users is None:
                each.known_users = ()
        self._instructions = tuple(instructions)
        self._forget()
        self._by_name, self._has_users = by_name, had_users
        self.module.forget()

    def set_root_to(self, root: HloInstruction) -> None:
        """Sets the root. For edits alone."""
        self._root = root

    def rename_in_list(self, instruction: HloInstruction, name: str) -> None:
        """Sets the name of an instruction, which no other instruction has. For edits alone."""
        by_name = self._by_name
        if by_name is not None and len(by_name) == len(self.instructions):  # no two have one name
            del by_name[instruction.name]
            by_name[name] = instruction
        else:
            self._by_name = None
        instruction.name = name
        self.module.forget()

    def begin_change(self) -> None:
        """Gives up the bytes of the computation, whose instructions were made of them: something changes now."""
        self.source = None
        self._order = None

    @property
    def has_users(self) -> bool:
        """Whether the users of the instructions are known."""
        return self._has_users

    # -- edges -----------------------------------------------------------------------------------

    @property
    def proto(self) -> xla.HloComputationProto:
        """A new message of the computation; changes of it change nothing."""
        return self.module.computation_proto(self)

    def fingerprint(self, **counted: bool) -> str:
        """A hash of the computation and of all computations that it calls. `HloModule.fingerprint` describes the hash
        and `counted`."""
        return self.module.computation_fingerprint(self, counted)

    def to_text(self, style: Any = "default", **options: Any) -> str:
        """The text of the computation, from ENTRY or the name to the closing brace, as `HloModule.to_text` writes it.

        >>> from xlashape.hlo import HloModule
        >>> print(
        ...     HloModule.parse("HloModule m ENTRY e { ROOT p = f32[4] parameter(0) }").entry.to_text(
        ...         print_percent=False
        ...     )
        ... )
        ENTRY e (p: f32[4]) -> f32[4] {
          ROOT p = f32[4]{0} parameter(0)
        }
        """
        return self.module.part_text(self, style, options)

    def table(self) -> Table:
        """A row for each instruction of the computation, with the columns of `HloModule.table`."""
        return self.module.computation_table(self)

    def __reduce__(self) -> tuple[Any, ...]:
        return _computation_of, (self.module, self.index)

    def __len__(self) -> int:
        """The number of instructions, which are not made of bytes for it."""
        return self.count if self._instructions is None else len(self._instructions)

    def __bool__(self) -> bool:
        return True

    def __repr__(self) -> str:
        return f"<HloComputation {self.name!r}: {len(self)} instructions>"


def _post_order(instructions: tuple[HloInstruction, ...]) -> tuple[HloInstruction, ...]:
    operands = [[operand.index for operand in each.operands] for each in instructions]
    controlled = [each for each in instructions if each.control_predecessors]
    ids = [each.id & LOCAL_ID for each in instructions]
    if not controlled and is_post_order(operands, ids):
        return instructions
    starts = roots(operands)
    starts.sort(key=ids.__getitem__)
    for each in controlled:
        spend(len(each.control_predecessors))
        operands[each.index][:0] = [predecessor.index for predecessor in reversed(each.control_predecessors)]
    order = post_order(operands, starts)
    if len(order) < len(instructions):
        order += sorted(set(range(len(instructions))).difference(order))
    return tuple([instructions[index] for index in order])


class ModuleData(ModuleHead, Displayed, Tabular):
    """The data of a module. `HloModule` is the class that users meet."""

    __slots__ = ("_by_local_id", "_callers", "_computations", "_highest", "_instruction_by_name", "kinds")

    kinds: Kinds
    """The kinds of the module's instructions."""

    def __init__(self) -> None:
        super().__init__()
        self.kinds = Kinds()
        self._computations: tuple[HloComputation, ...] = ()
        self._highest: int | None = None
        self.forget()

    def forget(self) -> None:
        """Drops what follows from the lists of computations and of instructions."""
        self._by_local_id: dict[int, HloComputation] | None = None
        self._instruction_by_name: dict[str, HloInstruction | None] | None = None
        self._callers: dict[HloComputation, list[HloInstruction]] | None = None

    def fill(
        self,
        head: xla.HloModuleProto | None,
        computations: Sequence[HloComputation],
        data: bytes = b"",
        content: bytes = b"",
    ) -> None:
        """Sets the computations, and what `fill_head` sets."""
        self.fill_head(head, data, content)
        self.set_computations(computations)

    # -- edits -----------------------------------------------------------------------------------

    def begin_change(self, computations: Sequence[HloComputation]) -> None:
        """Gives up the bytes of the module and of these computations: something of them changes now. All of them are
        read before; broken bytes raise an error and change nothing."""
        _ = self.head, [each.instructions for each in computations]
        for each in computations:
            each.begin_change()
        self.drop_bytes()
        self.forget()

    def set_computations(self, computations: Sequence[HloComputation]) -> None:
        """Sets the list of computations."""
        self._computations = tuple(computations)
        for index, computation in enumerate(self._computations):
            computation.index = index
        self._highest = None
        self.forget()

    def new_instruction_id(self, computation: HloComputation) -> int:
        """A new id for an instruction of a computation. Its local id is greater than any other of the module, as older
        modules need it; newer ones need it unique within a computation."""
        highest = self._highest
        if highest is None:
            highest = max([each.id & LOCAL_ID for each in self.instructions()], default=0)
        self._highest = _next(highest)
        return computation.instructions[0].id & ~LOCAL_ID | self._highest

    def new_computation_ids(self, count: int) -> int:
        """The first of `count` successive ids above those of all computations."""
        first = _next(max([each.id & LOCAL_ID for each in self._computations]))
        _next(first + count - 2)
        return first

    @property
    def computations(self) -> tuple[HloComputation, ...]:
        """The computations in the order of the proto. XLA writes called computations before their callers."""
        return self._computations

    @property
    def entry(self) -> HloComputation:
        """The computation where execution starts."""
        return self.by_local_id()[self.head.entry_computation_id & LOCAL_ID]

    def by_local_id(self) -> dict[int, HloComputation]:
        """Local id → computation."""
        found = self._by_local_id
        if found is None:
            found = self._by_local_id = {each.id & LOCAL_ID: each for each in self._computations}
        return found

    def computation(self, name: str) -> HloComputation:
        """The computation called `name`, which may begin with `%`. If two have that name, the first. Raises
        NotFoundError."""
        key = without_percent(name)
        for computation in self._computations:
            if computation.name == key:
                return computation
        raise _not_found(f"module {self.name!r}", "computation", name, [each.name for each in self._computations])

    def instructions(self) -> Iterator[HloInstruction]:
        """Every instruction, computation by computation."""
        for computation in self._computations:
            yield from computation.instructions

    def instruction(self, name: str) -> HloInstruction:
        """The instruction called `name`, which may begin with `%`, in whichever computation it is.

        XLA keeps names unique in a module. Where a name is not unique, the entry computation's instruction is returned.
        A name that several computations other than the entry have raises InvalidArgumentError: ask one of those
        computations instead. Raises NotFoundError if no instruction has the name.
        """
        by_name = self.instruction_by_name()
        key = without_percent(name)
        instruction = by_name.get(key)
        if instruction is None:
            if key in by_name:
                raise InvalidArgumentError(
                    f"module {self.name!r} has several instructions {name!r}; ask the computation for its own",
                    field="instruction",
                )
            raise _not_found(f"module {self.name!r}", "instruction", name, by_name)
        return instruction

    def instruction_by_name(self) -> dict[str, HloInstruction | None]:
        """Name → instruction; None where several computations other than the entry have the name."""
        by_name = self._instruction_by_name
        if by_name is None:
            by_name = {}
            for instruction in self.instructions():
                name = instruction.name
                by_name[name] = instruction if name not in by_name else None
            by_name.update(self.entry.by_name())
            self._instruction_by_name = by_name
        return by_name

    def callers_of(self, computation: HloComputation) -> Sequence[HloInstruction]:
        """The instructions that call a computation, once for each time that they name it."""
        callers = self._callers
        if callers is None:
            callers = {}
            for instruction in self.instructions():
                for called in instruction.called_computations:
                    callers.setdefault(called, []).append(instruction)
            self._callers = callers
        return callers.get(computation, ())

    def resolve(self, ids: Iterable[int]) -> tuple[HloComputation, ...]:
        """The computations with these ids, in the order of `ids`. Raises InvalidModuleError for an id that no
        computation has."""
        return _resolved(self.by_local_id(), ids, f"module {self.name!r} has no computation")

    def shape_of(self, proto: xla.ShapeProto | bytes) -> Shape:
        """The Shape of a ShapeProto, or of its bytes. Equal protos give the same object."""
        return self.kinds.shape_of(proto)

    def __repr__(self) -> str:
        return f"<HloModule {self.name!r}: {len(self._computations)} computations>"

    # -- edges, which HloModule has ------------------------------------------------------------------

    def edits(self) -> Any:
        """The module `xlashape.hlo.editing.edits`."""
        raise NotImplementedError

    def read_computation(self, computation: HloComputation) -> None:
        raise NotImplementedError

    def instruction_proto(self, instruction: HloInstruction) -> xla.HloInstructionProto:
        raise NotImplementedError

    def computation_proto(self, computation: HloComputation) -> xla.HloComputationProto:
        raise NotImplementedError

    def part_text(self, part: HloInstruction | HloComputation, style: Any, options: dict[str, Any]) -> str:
        raise NotImplementedError

    def computation_table(self, computation: HloComputation) -> Table:
        raise NotImplementedError

    def computation_fingerprint(self, computation: HloComputation, counted: dict[str, bool]) -> str:
        raise NotImplementedError


def _not_found(owner: str, kind: str, name: str, known: Iterable[str]) -> NotFoundError:
    hint = did_you_mean(without_percent(name), known)
    return NotFoundError(f"{owner} has no {kind} {name!r}{hint}", kind=kind, name=name, field=kind)


def _resolved(by_local_id: Mapping[int, _T], ids: Iterable[int], missing: str) -> tuple[_T, ...]:
    try:
        return tuple([by_local_id[number & LOCAL_ID] for number in ids])
    except KeyError as error:
        raise InvalidModuleError(f"{missing} of id {error.args[0]}") from None


def _next(highest: int) -> int:
    if highest >= LOCAL_ID >> 1:
        raise InvalidArgumentError("the module has an id beyond which there are no further ones of 32 bits")
    return highest + 1


def _computation_of(module: ModuleData, index: int) -> HloComputation:
    return module.computations[index]


def _instruction_of(computation: HloComputation, index: int) -> HloInstruction:
    return computation.instructions[index]


def without_percent(name: str) -> str:
    """A name without the `%` that text may have before it. Raises InvalidArgumentError for a value that is not text."""
    if not is_a(name, str):
        raise InvalidArgumentError(f"name takes text, not {type(name).__name__}", field="name")
    return name.removeprefix("%")
