"""What a result's shape must be for the operations whose rule is simple and that `infer` does not infer: one function an opcode.

A rule returns a sentence that says what is wrong, or None. Layouts are left aside.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from xlashape.math import product
from xlashape.proto import xla
from xlashape.shape import PrimitiveType, Shape
from xlashape.shape.shape_util import compatible

__all__ = ["CALLS", "RULES"]

Rule = Callable[[xla.HloInstructionProto, Shape, Sequence[Shape]], "str | None"]
RULES: Final[dict[str, Rule]] = {}


def _checks(*opcodes: str) -> Callable[[Rule], Rule]:
    def register(function: Rule) -> Rule:
        for opcode in opcodes:
            RULES[opcode] = function
        return function

    return register


def _array(shape: Shape, what: str) -> str | None:
    return None if shape.is_array else f"its {what} is an array, found {shape}"


def _same_type(shape: Shape, operand: Shape) -> str | None:
    if shape.element_type == operand.element_type:
        return None
    return f"its element type is its operand's, {operand.element_type}, found {shape.element_type}"


def _arrays(shape: Shape, operands: Sequence[Shape]) -> str | None:
    return _array(shape, "shape") or next((bad for one in operands if (bad := _array(one, "operand"))), None)


@_checks("broadcast")
def _broadcast(one: xla.HloInstructionProto, shape: Shape, operands: Sequence[Shape]) -> str | None:
    operand = operands[0]
    bad = _arrays(shape, operands) or _same_type(shape, operand)
    if bad:
        return bad
    dimensions = list(one.dimensions)
    if len(dimensions) != operand.rank or len(set(dimensions)) != len(dimensions):
        return f"dimensions={dimensions} do not name a dimension each for its operand {operand}"
    for place, target in enumerate(dimensions):
        if not 0 <= target < shape.rank or shape.dimensions[target] != operand.dimensions[place]:
            return f"dimension {place} of its operand {operand} does not fit dimension {target} of {shape}"
    return None


@_checks("reshape")
def _reshape(_: xla.HloInstructionProto, shape: Shape, operands: Sequence[Shape]) -> str | None:
    operand = operands[0]
    bad = _arrays(shape, operands) or _same_type(shape, operand)
    if bad or shape.is_unbounded_dynamic or operand.is_unbounded_dynamic:
        return bad
    ours, theirs = product(shape.dimensions), product(operand.dimensions)
    return None if ours == theirs else f"{shape} has {ours} elements, its operand {operand} has {theirs}"


@_checks("convert")
def _convert(_: xla.HloInstructionProto, shape: Shape, operands: Sequence[Shape]) -> str | None:
    bad = _arrays(shape, operands)
    if bad or shape.dimensions == operands[0].dimensions:
        return bad
    return f"its dimensions are its operand's, {operands[0]}, found {shape}"


@_checks("bitcast-convert")
def _bitcast_convert(_: xla.HloInstructionProto, shape: Shape, operands: Sequence[Shape]) -> str | None:
    operand = operands[0]
    bad = _arrays(shape, operands)
    if bad:
        return bad
    ours, theirs = shape.element_type.bit_width, operand.element_type.bit_width
    wide, narrow = (shape, operand) if ours >= theirs else (operand, shape)
    ratio = max(ours, theirs) // max(min(ours, theirs), 1)
    expected = wide.dimensions if ratio == 1 else (*wide.dimensions, ratio)
    return None if narrow.dimensions == expected else f"{shape} does not hold the bits of its operand {operand}"


@_checks("iota")
def _iota(one: xla.HloInstructionProto, shape: Shape, _: Sequence[Shape]) -> str | None:
    bad = _array(shape, "shape")
    dimension = one.dimensions[0] if one.dimensions else 0
    if bad or 0 <= dimension < shape.rank:
        return bad
    return f"iota_dimension={dimension} is no dimension of {shape}"


@_checks("slice")
def _slice(one: xla.HloInstructionProto, shape: Shape, operands: Sequence[Shape]) -> str | None:
    operand = operands[0]
    bad = _arrays(shape, operands) or _same_type(shape, operand)
    if bad:
        return bad
    if not len(one.slice_dimensions) == operand.rank == shape.rank:
        return f"its {len(one.slice_dimensions)} slices do not fit {operand} and {shape}"
    for place, part in enumerate(one.slice_dimensions):
        size = operand.dimensions[place]
        if not (0 <= part.start <= part.limit and (part.limit <= size or size < 0)) or part.stride < 1:
            return f"slice [{part.start}:{part.limit}:{part.stride}] is not within dimension {place} of {operand}"
        expected = -(-(part.limit - part.start) // part.stride)
        if shape.dimensions[place] != expected:
            return f"dimension {place} of {shape} should be {expected}"
    return None


@_checks("dynamic-slice")
def _dynamic_slice(one: xla.HloInstructionProto, shape: Shape, operands: Sequence[Shape]) -> str | None:
    operand = operands[0]
    bad = _array(operand, "operand") or _array(shape, "shape") or _same_type(shape, operand)
    if bad:
        return bad
    sizes = tuple(one.dynamic_slice_sizes)
    if sizes != shape.dimensions:
        return f"dynamic_slice_sizes={list(sizes)} are not the dimensions of {shape}"
    if len(sizes) != operand.rank or any(
        ours > theirs >= 0 for ours, theirs in zip(sizes, operand.dimensions, strict=True)
    ):
        return f"slices of {list(sizes)} do not fit its operand {operand}"
    return _starts(operands[1:], operand)


@_checks("dynamic-update-slice")
def _dynamic_update_slice(_: xla.HloInstructionProto, shape: Shape, operands: Sequence[Shape]) -> str | None:
    operand, update = operands[0], operands[1]
    bad = _array(operand, "operand") or _array(update, "update")
    if bad:
        return bad
    if not compatible(shape, operand):
        return f"its shape is its operand's, {operand}, found {shape}"
    if update.rank != operand.rank or any(
        ours > theirs >= 0 for ours, theirs in zip(update.dimensions, operand.dimensions, strict=True)
    ):
        return f"an update of {update} does not fit its operand {operand}"
    return _same_type(update, operand) or _starts(operands[2:], operand)


def _starts(starts: Sequence[Shape], operand: Shape) -> str | None:
    # A scalar a dimension; older modules have one vector of them.
    if len(starts) == 1 and starts[0].is_array and starts[0].dimensions == (operand.rank,):
        return None
    if len(starts) != operand.rank:
        return f"it has {len(starts)} start indices for an operand of rank {operand.rank}"
    for start in starts:
        if not start.is_scalar or not start.element_type.is_integral:
            return f"a start index is an integral scalar, found {start}"
    return None


@_checks("rng-bit-generator", "custom-call", "infeed", "bitcast", "rng", "domain")
def _anything(_one: xla.HloInstructionProto, _shape: Shape, _operands: Sequence[Shape]) -> str | None:
    return None


# -- called computations --------------------------------------------------------------------


Parameters = Sequence[Shape]
Call = Callable[[Shape, Sequence[Shape], Sequence[Parameters], Sequence[Shape]], "str | None"]
CALLS: Final[dict[str, Call]] = {}
"""Rules for what an instruction calls: (its shape, its operands, parameters of each called computation, their results)."""


def _calls(*opcodes: str) -> Callable[[Call], Call]:
    def register(function: Call) -> Call:
        for opcode in opcodes:
            CALLS[opcode] = function
        return function

    return register


def _fits(expected: Sequence[Shape], parameters: Parameters, what: str = "operand") -> str | None:
    if len(expected) != len(parameters):
        return f"calls a computation of {len(parameters)} parameters with {len(expected)}"
    for place, (ours, theirs) in enumerate(zip(expected, parameters, strict=True)):
        if not compatible(ours, theirs):
            return f"{what} {place} is {ours}, the parameter of the called computation {theirs}"
    return None


def _gives(shape: Shape, result: Shape) -> str | None:
    return None if compatible(shape, result) else f"its shape is {shape}, the called computation gives {result}"


@_calls("call", "fusion")
def _call(
    shape: Shape, operands: Sequence[Shape], called: Sequence[Parameters], results: Sequence[Shape]
) -> str | None:
    if len(called) != 1:
        return f"calls {len(called)} computations, not one"
    return _fits(operands, called[0]) or _gives(shape, results[0])


@_calls("while")
def _while(
    shape: Shape, operands: Sequence[Shape], called: Sequence[Parameters], results: Sequence[Shape]
) -> str | None:
    if len(called) != 2:
        return f"calls {len(called)} computations, not a body and a condition"
    bad = _fits(operands, called[0]) or _fits(operands, called[1]) or _gives(shape, results[0])
    if bad:
        return bad
    condition = results[1]
    is_pred = condition.is_scalar and condition.element_type == PrimitiveType.PRED
    return None if is_pred else f"its condition gives pred[], found {condition}"


@_calls("conditional")
def _conditional(
    shape: Shape, operands: Sequence[Shape], called: Sequence[Parameters], results: Sequence[Shape]
) -> str | None:
    if len(operands) != len(called) + 1:
        return f"has {len(operands)} operands for {len(called)} branches"
    chooser = operands[0]
    if not chooser.is_scalar or chooser.element_type not in (PrimitiveType.PRED, PrimitiveType.S32):
        return f"chooses by pred[] or s32[], found {chooser}"
    for place, (parameters, result) in enumerate(zip(called, results, strict=True)):
        bad = _fits([operands[place + 1]], parameters, "the operand of branch") or _gives(shape, result)
        if bad:
            return f"branch {place}: {bad}"
    return None


@_calls("sort")
def _sort(_: Shape, operands: Sequence[Shape], called: Sequence[Parameters], results: Sequence[Shape]) -> str | None:
    if len(called) != 1:
        return f"calls {len(called)} computations, not one"
    scalars = [Shape.array(one.element_type, ()) for one in operands if one.is_array for _side in range(2)]
    bad = _fits(scalars, called[0], "element")
    if bad:
        return bad
    is_pred = results[0].is_scalar and results[0].element_type == PrimitiveType.PRED
    return None if is_pred else f"its comparator gives pred[], found {results[0]}"


@_calls("reduce", "reduce-window")
def _reduce(_: Shape, operands: Sequence[Shape], called: Sequence[Parameters], _results: Sequence[Shape]) -> str | None:
    if len(called) != 1:
        return f"calls {len(called)} computations, not one"
    if len(called[0]) != len(operands):
        return f"calls a computation of {len(called[0])} parameters for {len(operands)} operands"
    bad = next((one for one in called[0] if not one.is_scalar), None)
    return None if bad is None else f"its computation takes scalars, found {bad}"
