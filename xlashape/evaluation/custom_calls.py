"""Models of custom calls: what a target computes, from what its operands and its configuration say.

`MODELS` has them by target, and takes more: a function from (machine, instruction, spreads of the operands) to a
spread, which is a list with the value of each device, or with one value if all devices have the same.

>>> from xlashape.evaluation import evaluate
>>> MODELS["double"] = lambda machine, call, operands: [machine.domain.add(x, x) for x in operands[0]]
>>> evaluate(
...     'ENTRY e { p = f32[2] parameter(0)  ROOT c = f32[2] custom-call(p), custom_call_target="double" }', [[1, 2]]
... )
[array([2., 4.], dtype=float32)]
>>> del MODELS["double"]
"""

# NumPy's stubs leave the types of many results unknown.
# pyright: reportUnknownArgumentType=false, reportUnknownVariableType=false

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias, cast

import numpy as np

from xlashape.evaluation.contraction import dot_general
from xlashape.evaluation.domains.domain import Array
from xlashape.evaluation.elementwise import empty, is_real
from xlashape.evaluation.linear_algebra import factored, solved
from xlashape.evaluation.machine import Machine, Spread, Value, at, dtype_of, evaluates_together, registers, unsupported
from xlashape.evaluation.movement import major_to_minor
from xlashape.evaluation.sorting import top
from xlashape.hlo import HloInstruction, Opcode
from xlashape.hlo.collectives.meshes import mesh_of
from xlashape.hlo.values.sharding import Sharding
from xlashape.indexing.sharding import spelled
from xlashape.shape import Shape

_CODE: Final = re.compile(r"\b([a-z_]{1,20}) = (\d{1,3})\b")

Model: TypeAlias = Callable[[Machine, HloInstruction, list[Spread]], Spread]

MODELS: dict[str, Model] = {}
"""Target → what it computes."""
models = registers(MODELS)
"""Registers the model of custom calls by their targets."""


def models_alone(*targets: str) -> Callable[[Callable[[Machine, HloInstruction, list[Value]], Value]], Model]:
    """As `models`, for functions of the operands' values on one device."""

    def register(function: Callable[[Machine, HloInstruction, list[Value]], Value]) -> Model:
        def model(machine: Machine, instruction: HloInstruction, operands: list[Spread]) -> Spread:
            count = max([len(spread) for spread in operands], default=1)
            return [function(machine, instruction, [at(o, device) for o in operands]) for device in range(count)]

        return models(*targets)(model)

    return register


@evaluates_together("custom-call")
def custom_call(machine: Machine, instruction: HloInstruction, operands: list[Spread]) -> Spread:
    model = MODELS.get(instruction.details.custom_call_target)
    return machine.outside(instruction, operands) if model is None else model(machine, instruction, operands)


# -- sharding --------------------------------------------------------------------------------------


@models(
    "Sharding", "annotate_device_placement", "MoveToHost", "MoveToDevice", "PinToDevice", "LayoutConstraint",
    "AssumeGatherIndicesInBound", "GatherScatterIndicesBitpacked", "xla.sdy.FuncResultSharding",
)  # fmt: skip
def _same(machine: Machine, instruction: HloInstruction, operands: list[Spread]) -> Spread:
    return operands[0]


@models("ConcatBitcast")
def _side_by_side(machine: Machine, instruction: HloInstruction, operands: list[Spread]) -> Spread:
    """The end of a copy in parts: slices that together are an array, in any order, since each is copied to the place
    in memory that it has there. Of other operands the places are not known.
    """
    axis, order, _ = whole_of_slices(instruction) or (0, [], None)
    if not order:
        return machine.outside(instruction, operands)
    ordered = [operands[number] for number in order]
    devices = range(max(map(len, ordered)))
    return [np.concatenate(machine.domain.joined([at(o, device) for o in ordered]), axis) for device in devices]


def whole_of_slices(call: HloInstruction) -> tuple[int, list[int], HloInstruction] | None:
    """The array that the operands of a ConcatBitcast are slices of and together are: the dimension that is sliced, the
    numbers of the operands in the order of their slices, and the array. None for operands of other kinds.
    """
    shape, parts, sources = call.shape, list[tuple[HloInstruction, int]](), set[HloInstruction]()
    for number, operand in enumerate(call.operands):
        each, source = _slice_and_source(operand)
        if each is None:
            return None
        parts.append((each, number))
        sources.add(source)
    if not shape.is_array or not shape.rank or len(sources) != 1:
        return None
    source = sources.pop()
    if (source.shape.element_type, source.shape.dimensions) != (shape.element_type, shape.dimensions):
        return None
    axis, stop = major_to_minor(shape)[0], 0
    parts.sort(key=lambda part: part[0].details.slice_dimensions[axis].start)
    for each, _ in parts:
        bounds = [(d.start, d.limit, d.stride or 1) for d in each.details.slice_dimensions]
        whole = [(0, size, 1) for size in shape.dimensions]
        whole[axis] = (stop, stop + each.shape.dimensions[axis], 1)
        if bounds != whole:
            return None
        stop = whole[axis][1]
    return (axis, [number for _, number in parts], source) if stop == shape.dimensions[axis] else None


def _slice_and_source(value: HloInstruction) -> tuple[HloInstruction | None, HloInstruction]:
    """The slice that a value is, maybe an asynchronous one, and what it is a slice of; None for other values."""
    if value.opcode is Opcode.ASYNC_DONE:
        start = value.operands[0]
        root = start.called_computations[0].root if start.called_computations else start
        return (root if root.opcode is Opcode.SLICE else None), start.operands[0]
    return (value, value.operands[0]) if value.opcode is Opcode.SLICE else (None, value)


def shards(spread: Spread, sharding: Sharding, shape: Shape, devices: int) -> Spread:
    """The part of each device of an array that is held whole. A part that the tiles do not fill has zeros there."""
    if sharding.tile_counts is None:
        return spread
    sizes = sharding.shard_shape(shape).dimensions
    found: Spread = []
    for device in range(devices):
        tile, x = sharding.tile_of(device, shape), np.asarray(at(spread, device))
        part = np.zeros(sizes, x.dtype)
        if tile is not None:
            part[tuple([slice(0, n) for n in tile.sizes])] = x[tile.slices]
        found.append(part)
    return found


def whole(spread: Spread, sharding: Sharding, shape: Shape, devices: int, joined: Callable[..., list[Array]]) -> Spread:
    """The array that the parts of the devices are."""
    if sharding.tile_counts is None:
        return spread
    parts = joined([at(spread, device) for device in range(devices)])
    out = np.zeros(shape.dimensions, parts[0].dtype)
    for device in range(devices):
        tile = sharding.tile_of(device, shape)
        if tile is not None:
            out[tile.slices] = parts[device][tuple([slice(0, n) for n in tile.sizes])]
    return [out]


def _shardings(instruction: HloInstruction, attribute: str, others: Sequence[HloInstruction]) -> list[Sharding]:
    """Those in an attribute of Shardy, where JAX before 0.11 has them, or those of other instructions."""
    text = instruction.kind.message.frontend_attributes.map.get(attribute)
    if text:
        found = spelled.of(text, mesh=mesh_of(instruction.computation.module))
        return list(found.elements) or [found]
    each = [list(_sharding(other).elements) or [_sharding(other)] * len(list(other.shape.leaves())) for other in others]
    return [sharding for of_one in each for sharding in of_one]


def _sharding(instruction: HloInstruction) -> Sharding:
    sharding = instruction.sharding
    if sharding is None or sharding.kind == "manual":
        raise unsupported(instruction, "does not say how its array is divided")
    return sharding


@models("SPMDFullToShardShape")
def _full_to_shard(machine: Machine, instruction: HloInstruction, operands: list[Spread]) -> Spread:
    source = instruction.operands[0]
    return shards(operands[0], _sharding(source), source.shape, machine.devices)


@models("xla.sdy.GlobalToLocalShape")
def _global_to_local(machine: Machine, instruction: HloInstruction, operands: list[Spread]) -> Spread:
    """A part of each operand for each device."""
    said = _shardings(instruction, "xla.sdy.in_shardings", instruction.operands)
    found = [
        shards(spread, sharding, source.shape, machine.devices)
        for spread, sharding, source in zip(operands, said, instruction.operands, strict=True)
    ]
    return _bundled(instruction, found)


@models("xla.sdy.LocalToGlobalShape")
def _local_to_global(machine: Machine, instruction: HloInstruction, operands: list[Spread]) -> Spread:
    joined, shapes = machine.domain.joined, list(instruction.shape.leaves())
    each = _shardings(instruction, "xla.sdy.out_shardings", [instruction])
    return _bundled(
        instruction,
        [whole(o, s, shape, machine.devices, joined) for o, s, shape in zip(operands, each, shapes, strict=True)],
    )


def _bundled(instruction: HloInstruction, spreads: list[Spread]) -> Spread:
    if not instruction.shape.is_tuple:
        return spreads[0]
    return [tuple([at(s, device) for s in spreads]) for device in range(max(map(len, spreads), default=1))]


@models("SPMDShardToFullShape")
def _shard_to_full(machine: Machine, instruction: HloInstruction, operands: list[Spread]) -> Spread:
    return whole(operands[0], _sharding(instruction), instruction.shape, machine.devices, machine.domain.joined)


# -- the library of linear algebra -----------------------------------------------------------------


@models_alone("TopK")
def _top_k(machine: Machine, instruction: HloInstruction, args: list[Value]) -> Value:
    values = instruction.shape.tuple_shapes[0]
    return top(machine, np.asarray(args[0]), values.dimensions[-1], real=is_real(values.element_type))


def _letter(instruction: HloInstruction, name: str) -> str:
    """A letter of the configuration, which has its code: `uplo = 76 : ui8`."""
    config = instruction.details.backend_config.decode("utf-8", "replace")
    said = dict(_CODE.findall(config))
    if name not in said:
        raise unsupported(instruction, f"does not say {name}")
    return chr(int(said[name]) & 127)


def _by_columns(instruction: HloInstruction, number: int) -> bool:
    """Whether the call takes an operand with its columns in one piece, as linear algebra does."""
    said = instruction.details.operand_shapes_with_layout
    shape = Shape.from_proto(said[number]) if said else instruction.operands[number].shape
    return shape.rank >= 2 and major_to_minor(shape)[-1] == shape.rank - 2


@models_alone(*[f"lapack_{kind}potrf_ffi" for kind in "sd"])
def _potrf(machine: Machine, instruction: HloInstruction, args: list[Value]) -> Value:
    lower, columns = _letter(instruction, "uplo") == "L", _by_columns(instruction, 0)
    x = np.asarray(args[0]) if columns else np.swapaxes(args[0], -1, -2)
    n = x.shape[-1]
    triangle: Array = np.tri(n, dtype=bool) if lower else np.tri(n, dtype=bool).T
    found = np.where(triangle, *machine.domain.joined([factored(machine, x, lower=lower), x]))
    return (found if columns else np.swapaxes(found, -1, -2), np.zeros(x.shape[:-2], np.int32))


@models_alone(*[f"blas_{kind}trsm_ffi" for kind in "sd"], *[f"lapack_{kind}trsm_ffi" for kind in "sd"])
def _trsm(machine: Machine, instruction: HloInstruction, args: list[Value]) -> Value:
    columns = [_by_columns(instruction, number) for number in range(2)]
    a, b = (np.asarray(x) if c else np.swapaxes(x, -1, -2) for x, c in zip(args, columns, strict=False))
    found = solved(
        machine, a, b,
        lower=_letter(instruction, "uplo") == "L",
        turned=_letter(instruction, "trans_x") in "TC",
        left=_letter(instruction, "side") == "L",
        unit=_letter(instruction, "diag") == "U",
    )  # fmt: skip
    found = found if columns[1] else np.swapaxes(found, -1, -2)
    return (found,) if instruction.shape.is_tuple else found


# -- what TPU compilers put in the place of operations -----------------------------------------------


@models_alone("Cholesky")
def _cholesky(machine: Machine, instruction: HloInstruction, args: list[Value]) -> Value:
    return factored(machine, np.asarray(args[0]), lower=True)


@models_alone("InvertDiagBlocksLowerTriangular", "InvertDiagBlocksUpperTriangular")
def _inverted(machine: Machine, instruction: HloInstruction, args: list[Value]) -> Value:
    a = np.asarray(args[0])
    lower = "Lower" in instruction.details.custom_call_target
    one = np.broadcast_to(machine.domain.number(np.eye(a.shape[-1])), a.shape)
    return solved(machine, a, one, lower=lower, turned=False, left=True, unit=False)


@models_alone("X64Combine")
def _combined(machine: Machine, instruction: HloInstruction, args: list[Value]) -> Value:
    """Both parts of complex numbers, or the lower and the upper half of integers of 64 bits."""
    kind = instruction.shape.element_type
    if kind.is_complex:
        return machine.domain.complex(*machine.domain.joined(args))
    if is_real(kind):
        raise unsupported(instruction, "of floats is not known")
    low, high = (np.asarray(x).astype(np.uint32).astype(np.uint64) for x in args)
    return (low | high << np.uint64(32)).astype(kind.numpy_dtype())


@models_alone("X64SplitLow", "X64SplitHigh")
def _split(machine: Machine, instruction: HloInstruction, args: list[Value]) -> Value:
    kind, is_high = instruction.operands[0].shape.element_type, "High" in instruction.details.custom_call_target
    if kind.is_complex:
        return machine.domain.imag(args[0]) if is_high else machine.domain.real(args[0])
    if is_real(kind):
        raise unsupported(instruction, "of floats is not known")
    half = np.asarray(args[0]).astype(np.uint64) >> np.uint64(32 * is_high)
    return half.astype(np.uint32).astype(instruction.shape.element_type.numpy_dtype())


# -- matrix products -------------------------------------------------------------------------------


def _numbers(config: dict[str, Any], name: str) -> list[int]:
    return [int(v) for v in config.get(name, ())]


@models_alone("__cublas$gemm", "__cublas$lt$matmul")
def _gemm(machine: Machine, instruction: HloInstruction, args: list[Value]) -> Value:
    """epilogue(alpha · a·b + beta · c), with the bias of the epilogue as the last operand."""
    domain = machine.domain
    try:
        whole_config: Any = json.loads(instruction.details.backend_config)
        config = cast("dict[str, Any]", whole_config.get("gemm_backend_config", whole_config))
        alpha, imaginary, beta = (float(config.get(name, 0)) for name in ("alpha_real", "alpha_imag", "beta"))
        epilogue, numbers = str(config.get("epilogue", "DEFAULT")), config["dot_dimension_numbers"]
        batches = (_numbers(numbers, "lhs_batch_dimensions"), _numbers(numbers, "rhs_batch_dimensions"))
        contracted = (_numbers(numbers, "lhs_contracting_dimensions"), _numbers(numbers, "rhs_contracting_dimensions"))
    except (ValueError, KeyError, AttributeError, TypeError):
        raise unsupported(instruction, "has a configuration that is not known") from None
    shape = next(iter(instruction.shape.leaves()))
    if imaginary or not is_real(shape.element_type) or epilogue not in _EPILOGUES:
        raise unsupported(instruction, f"with the epilogue {epilogue} is not known")
    product = dot_general(machine, args[0], args[1], shape.element_type, dtype_of(shape), batches, contracted)
    total = domain.multiply(domain.one(alpha), product.reshape(shape.dimensions))
    rest = args[2:]
    if beta:
        total = domain.add(total, domain.multiply(domain.one(beta), rest.pop(0)))
    if "BIAS" in epilogue:
        total = domain.add(total, np.broadcast_to(rest.pop(0), shape.dimensions))
    if "RELU" in epilogue:
        total = domain.maximum(total, domain.one(0))
    if not instruction.shape.is_tuple:
        return total
    return (total, *[empty(machine, part) for part in instruction.shape.tuple_shapes[1:]])


_EPILOGUES: Final = ("DEFAULT", "BIAS", "RELU", "BIAS_RELU")
