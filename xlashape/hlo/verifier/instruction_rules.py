"""The verifier's rules for a single instruction: its opcode, its place after its operands, their number and shapes, its
sharding and origin, its shape, the computations that it calls, and the devices of a collective.

All of them but the place depend on the kind of the instruction and on the shapes of its operands and of the called
computations. What the rules find for these is kept, so that alike instructions are checked once: a language model of
31,855 instructions has 2,043 different ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Final

from xlashape.errors import XlashapeError
from xlashape.hlo.module import HloComputation, HloInstruction, HloModule
from xlashape.hlo.ops import verification
from xlashape.hlo.ops.collective_rules import Devices, check_devices
from xlashape.hlo.ops.opcode import Opcode
from xlashape.hlo.ops.operation import CannotInfer, Operation, Result
from xlashape.hlo.ops.registry import OPERATIONS
from xlashape.hlo.verifier.module_rules import origin_problem, sharding_problem, with_channel
from xlashape.proto import xla
from xlashape.shape import Shape
from xlashape.shape.value.shape import compatible_shapes

_SHOWN: Final = 20  # shapes in a message


class InstructionRules:
    """The rules for the instructions of one module, and what they have found so far."""

    def __init__(
        self, module: HloModule, devices: Devices | None, *, unbounded_dimensions: bool, mixed_precision: bool | None
    ) -> None:
        """`devices` are the numbers of devices that the module is for; None if they are not known. The other arguments
        say what is allowed. None for `mixed_precision` allows it in modules with tiled layouts."""
        self._module = module
        self._devices = devices
        self._unbounded_dimensions = unbounded_dimensions
        self._mixed_precision = mixed_precision
        self._with_channel_0 = frozenset(module.config.channels_0)
        # Equal shapes of a module are one object, so their ids stand for them.
        self._found: dict[tuple[object, ...], tuple[str, ...]] = {}
        self._signatures: dict[HloComputation, tuple[int, ...]] = {}

    def problems(self, instruction: HloInstruction) -> Sequence[str]:
        """The problems of an instruction. Raises DecodeError if the bytes of its kind are broken."""
        kind, index = instruction.kind, instruction.index
        key: list[object] | None = [kind]
        is_placed = True
        try:
            for operand in instruction.operands:
                key.append(id(operand.kind.shape))
                if operand.index >= index:
                    is_placed = False
            for called in instruction.called_computations:
                key.append(self._signatures.get(called) or self._signature(called))
                if called.index >= instruction.computation.index:
                    is_placed = False
        except XlashapeError:
            key, is_placed = None, False  # a message will name the instruction whose shape is wrong
        if key is not None and instruction.name in self._with_channel_0:
            key = None  # in a kind, no channel and channel 0 are the same
        found = None if key is None else self._found.get(tuple(key))
        if found is None:
            _ = kind.message  # raises DecodeError
            if kind.opcode not in OPERATIONS:
                return (f"has the unknown opcode {kind.opcode.value!r}",)
            try:
                shape = instruction.shape
                operands = [operand.shape for operand in instruction.operands]
            except XlashapeError as error:
                return (error.message,)
            found = tuple(self._of_kind(instruction, shape, operands))
            if key is not None:
                self._found[tuple(key)] = found
        return found if is_placed else (*_place(instruction), *found)

    def _signature(self, computation: HloComputation) -> tuple[int, ...]:
        """The shapes of the root and of the parameters of a computation. Raises InvalidModuleError for wrong ones."""
        parts = (computation.root, *computation.parameters)
        found = self._signatures[computation] = tuple([id(part.shape) for part in parts])
        return found

    @cached_property
    def _may_mix(self) -> bool:
        """Whether operands and result may have different floating-point types."""
        return _is_tiled(self._module) if self._mixed_precision is None else self._mixed_precision

    def _of_kind(self, instruction: HloInstruction, shape: Shape, operands: Sequence[Shape]) -> Iterator[str]:
        """The problems of an instruction of a known opcode that follow from its kind and from shapes."""
        row, message = OPERATIONS[instruction.opcode], instruction.details
        if not row.operands.least <= len(operands) <= row.operands.most:
            bound = str(row.operands) if len(operands) < row.operands.least else f"at most {row.operands.most}"
            bound = str(row.operands.least) if row.operands.least == row.operands.most else bound
            yield f"{row.opcode} takes {bound} operand{'' if bound == '1' else 's'}, found {len(operands)}"
            return
        partitions = 1 if self._devices is None else self._devices.num_partitions
        for problem in (sharding_problem(message, shape, partitions), origin_problem(message, shape)):
            if problem:
                yield problem
        if instruction.name in self._with_channel_0 and row.opcode == Opcode.ALL_REDUCE:
            yield "channel_id must be above 0, found 0"
        if not self._unbounded_dimensions and shape.is_unbounded_dynamic:
            yield f"its shape must have bounded dimensions, found {shape}"
        problem = self._operands_problem(row, operands)
        if problem:
            yield problem
            return
        message = with_channel(instruction, self._with_channel_0)
        try:
            problem = self._shape_problem(message, instruction.called_computations, row, shape, operands)
            if problem is None and row.exchanges_with_replicas:
                problem = check_devices(message, shape, operands, self._devices)
        except XlashapeError as error:
            problem = error.message
        if problem:
            yield problem

    def _operands_problem(self, row: Operation, operands: Sequence[Shape]) -> str | None:
        """The problem of operands that must have equal dimensions or equal types; None if there is none."""
        if row.operands_of_equal_sizes and len({operand.dimensions for operand in operands}) > 1:
            return f"its operands must have equal dimensions, found {_shown(operands)}"
        if row.one_precision:
            parts = [leaf for operand in operands for leaf in operand.leaves()]
            types = {part.element_type for part in parts if part.is_array and part.element_type.is_floating}
            if len(types) > 1 and not self._may_mix:
                return f"its floating operands must have the same element type, found {_shown(operands)}"
        return None

    def _shape_problem(
        self,
        message: xla.HloInstructionProto,
        called: Sequence[HloComputation],
        row: Operation,
        shape: Shape,
        operands: Sequence[Shape],
    ) -> str | None:
        """The problem of an instruction's shape, attributes or called computations; None if there is none."""
        result = Result(message, operands, [computation.root.shape for computation in called], shape=shape)
        try:
            if row.verify_calls is not None:
                result.parameters = parameters = [[parameter.shape for parameter in each.parameters] for each in called]
                problem = row.verify_calls(result)
                if problem is None and row.verify_calls is verification.check_reduction:
                    problem = verification.reduced_types_problem(operands, parameters[0])
                    if problem and self._may_mix:
                        problem = None
                if problem:
                    return problem
            if row.verify is not None:
                problem = row.verify(result)
                if problem and row.opcode not in _OF_ONE_PRECISION and self._may_mix:
                    result.shape = _with_precisions(shape, operands)
                    problem = row.verify(result)
                return problem
            if row.infer is None:
                return None
            inferred = row.infer_shape(result)
        except CannotInfer as error:
            said = str(error)
            return said if said.startswith(f"{row.opcode}: ") else f"{row.opcode}: {said}"
        except (ArithmeticError, LookupError):
            # Inference relies on checks that the parser makes, but a proto may hold any values.
            return "its attributes do not fit its operands"
        problem = verification.check_shape(shape, inferred)
        if problem and row.opcode not in _OF_ONE_PRECISION and self._may_mix:
            return None if compatible_shapes(shape, inferred, verification.same_type_or_both_floating) else problem
        return problem


def _place(instruction: HloInstruction) -> Iterator[str]:
    """The problems of an instruction that stands before its operands, or in front of the computations that it calls."""
    for number, operand in enumerate(instruction.operands):
        if operand.index >= instruction.index:
            yield f"operand {number}, {operand.name!r}, is defined after it"
    for called in instruction.called_computations:
        if called.index >= instruction.computation.index:
            yield f"calls {called.name!r}, which is defined after its computation"


def _shown(shapes: Sequence[Shape]) -> str:
    return ", ".join(map(str, shapes[:_SHOWN]))


_OF_ONE_PRECISION: Final = frozenset((Opcode.TUPLE, Opcode.DYNAMIC_UPDATE_SLICE))
"""Opcodes whose result must have the types of the operands even if other opcodes may mix precisions."""


def _with_precisions(shape: Shape, operands: Sequence[Shape]) -> Shape:
    """The shape of a result with the floating-point type of the first operand. If it is a tuple with an element for
    each operand, each element gets the type of its operand.
    """
    if shape.is_tuple and len(shape.tuple_shapes) == len(operands):
        return Shape.tuple(
            [_with_precisions(part, [each]) for part, each in zip(shape.tuple_shapes, operands, strict=True)]
        )
    arrays = (shape, *operands[:1])
    if len(arrays) == 2 and all(each.is_array and each.element_type.is_floating for each in arrays):
        return shape.with_element_type(operands[0].element_type)
    return shape


def _is_tiled(module: HloModule) -> bool:
    """Whether any layout of a module has tiles, which shows that a compiler for TPUs has made the module.

    Such a compiler drops conversions between floating-point types, since its instructions convert by themselves: an f32
    operand may have a bf16 result. XLA's verifier allows that for TPUs and refuses it for other targets, but a module
    does not name its target.
    """
    return any(_has_tiles(kind.message.shape) for kind in {each.kind for each in module.instructions()})


def _has_tiles(shape: xla.ShapeProto) -> bool:
    return bool(shape.layout.tiles) or any(_has_tiles(part) for part in shape.tuple_shapes)
