"""Evaluates whole modules: inputs and outputs are flat lists of arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, cast

import numpy as np

from xlashape.base.text import Source
from xlashape.errors import InvalidArgumentError, UnsupportedError
from xlashape.evaluation.custom_calls import shards, whole
from xlashape.evaluation.domains.domain import FloatDomain
from xlashape.evaluation.domains.values import PlainNumbers
from xlashape.evaluation.elementwise import is_real
from xlashape.evaluation.machine import Array, Machine, Outside, Spread, at, dtype_of, leaves, nested
from xlashape.hlo import HloInstruction, HloModule
from xlashape.hlo.canonical.constants import ELIDED, constant_key
from xlashape.hlo.files.convert import Document
from xlashape.hlo.files.module_of import document_of
from xlashape.hlo.literal import to_numpy
from xlashape.hlo.ops.opcode import Opcode
from xlashape.hlo.values.sharding import Sharding
from xlashape.shape import Shape

_MOST_SMALL = 10


def module_of(value: Any, *args: Any, **kwargs: Any) -> HloModule:
    """The module in anything that `HloModule.of` takes, where elided constants have no values."""
    if isinstance(value, HloModule):
        for computation in value.computations:
            for each in computation.instructions:
                if (
                    each.opcode is Opcode.CONSTANT
                    and each.shape.is_array
                    and np.prod(each.shape.dimensions) > _MOST_SMALL
                ):
                    if constant_key(each.details) == ELIDED:
                        raise UnsupportedError(f"instruction {each.name!r} is an elided constant, `constant({{...}})`")
        return value
    return _module_in(document_of(value, args, kwargs))


def _module_in(document: Document) -> HloModule:
    if isinstance(document.content, Source):
        return HloModule.parse(document.content, elided_values=False)
    return HloModule.of_document(document)


class DeviceCount(NamedTuple):
    """The devices that a module runs on."""

    number: int
    are_partitions: bool

    @staticmethod
    def of(module: HloModule) -> DeviceCount:
        """Those that the module's header says, or that its collectives name."""
        config = module.config
        count = max(config.replica_count, config.num_partitions)
        if min(config.replica_count, config.num_partitions) > 1:
            raise UnsupportedError("a module with several replicas and several partitions cannot be evaluated")
        if count == 1:
            count = 1 + max(list(_named(module)), default=0)
            return DeviceCount(count, are_partitions=True)
        return DeviceCount(count, config.num_partitions > 1)


def _named(module: HloModule) -> set[int]:
    """The devices that collectives and shardings name."""
    found: set[int] = set()
    for computation in module.computations:
        for instruction in computation.instructions:
            sharding = instruction.sharding
            for each in () if sharding is None else sharding.elements or (sharding,):
                if each.kind in ("tiled", "named"):
                    found.update(each.devices or ())
            if instruction.kind.row.exchanges_with_replicas:
                found.update(device for group in instruction.replica_groups.expand() for device in group)
                for pair in instruction.details.source_target_pairs:
                    found.update((pair.source, pair.target))
    return found


def input_shapes(module: HloModule) -> list[Shape]:
    """The shapes of the arrays that the parameters have."""
    return [leaf for parameter in module.entry.parameters for leaf in parameter.shape.leaves()]


def output_shapes(module: HloModule) -> list[Shape]:
    """The shapes of the arrays of the result."""
    return list(module.entry.root.shape.leaves())


def shardings_of(instructions: Sequence[HloInstruction]) -> list[Sharding | None]:
    """The sharding of each array of the instructions' results."""
    found: list[Sharding | None] = []
    for instruction in instructions:
        count, sharding = len(list(instruction.shape.leaves())), instruction.sharding
        elements = list(sharding.elements) if sharding is not None else []
        found += elements if len(elements) == count and elements else [sharding] * count
    return [None if s is None or s.kind in ("unknown", "manual") else s for s in found]


def run_module(
    module: HloModule,
    inputs: Sequence[Spread],
    domain: FloatDomain,
    devices: DeviceCount,
    *,
    outside: Outside | None = None,
    every: dict[HloInstruction, Spread] | None = None,
) -> list[Spread]:
    """The arrays of the result, from those of the parameters; a spread each."""
    machine = Machine(domain, devices.number, partitioned=devices.are_partitions, outside=outside, every=every)
    rest = list(inputs)
    arguments: list[Spread] = []
    for parameter in module.entry.parameters:
        taken = [rest.pop(0) for _ in parameter.shape.leaves()]
        count = max(map(len, taken), default=1)
        arguments.append([nested(parameter.shape, [at(s, d) for s in taken]) for d in range(count)])
    found = machine.run(module.entry, arguments)
    flat = [leaves(value) for value in found]
    return [[one[i] for one in flat] for i in range(len(flat[0]))]


def checked(inputs: Sequence[Any], shapes: Sequence[Shape]) -> list[Array]:
    """The inputs as arrays of their types. InvalidArgumentError for another number or other sizes."""
    if len(inputs) != len(shapes):
        raise InvalidArgumentError(
            f"there are {len(inputs)} inputs for {len(shapes)} arrays of parameters", field="inputs"
        )
    found: list[Array] = []
    for number, (x, shape) in enumerate(zip(inputs, shapes, strict=True)):
        array = np.asarray(x)
        if shape.is_token:
            array = np.zeros(())
        elif array.shape != tuple(shape.dimensions):
            message = f"has the sizes {list(array.shape)}, and the parameter those of {shape}"
            raise InvalidArgumentError(f"input {number} {message}", field=("inputs", number))
        found.append(array.astype(dtype_of(shape)))
    return found


def given(domain: FloatDomain, x: Array, shape: Shape) -> Array:
    """An input as a value of the domain."""
    return domain.number(x) if is_real(shape.element_type) or shape.element_type.is_complex else x


def told(x: Array, shape: Shape) -> Array:
    """A value of NumPy's numbers in its declared type."""
    return np.asarray(x) if shape.is_token else np.asarray(x).astype(dtype_of(shape))


def drawn(shape: Shape, rng: np.random.Generator) -> Array:
    """Random elements of an array."""
    if shape.is_token:
        return np.zeros(())
    kind, dims = shape.element_type, shape.dimensions
    if kind.is_complex:
        return (rng.normal(size=dims) + 1j * rng.normal(size=dims)).astype(dtype_of(shape))
    if kind.text == "pred":
        return rng.random(dims) < 0.5
    if kind.is_integral:
        return rng.integers(0, 8 if kind.bit_width >= 8 else 2, dims).astype(dtype_of(shape))
    return np.asarray(rng.normal(size=dims)).astype(dtype_of(shape))


def evaluate(
    module: Any, inputs: Sequence[Any] | None = None, *, seed: int = 0, values: bool = False, like: Any = None
) -> Any:
    """The outputs of a module, as a flat list of NumPy arrays of the declared types. Floats are computed in 64 bits and
    rounded at the end; integers wrap around.

    `module` is anything that `HloModule.of` takes. `inputs` has an array for each array of the parameters, or the value
    of each device as a list of arrays, for a partitioned module; None takes the arguments of an HloSnapshot, and draws
    them with `seed` for other modules. With `like`, the global
    module of a partitioned one, inputs and outputs are global: they are divided and joined as the shardings of its
    parameters and its root say. Without it, the outputs of a partitioned module are lists, of an array for each device.

    With `values`, the result is a dictionary: name of an instruction → its value in the last run.

    UnsupportedError names an instruction that has no meaning without a device, such as a custom call of a target that
    `xlashape.evaluation.custom_calls.MODELS` does not have. LimitExceededError for results that are too large.

    >>> evaluate("ENTRY e { p = f32[2] parameter(0)  ROOT s = f32[2] multiply(p, p) }", [[2, 3]])
    [array([4., 9.], dtype=float32)]
    """
    if inputs is None and not isinstance(module, HloModule):
        document = document_of(module)
        found = _module_in(document)
        inputs = [leaf for argument in document.arguments for leaf in leaves(to_numpy(argument))] or None
    else:
        found = module_of(module)
    whole_program = found if like is None else module_of(like)
    devices, domain = DeviceCount.of(found), PlainNumbers()
    shapes = input_shapes(whole_program)
    if inputs is None:
        rng = np.random.default_rng(seed)
        inputs = [drawn(shape, rng) for shape in shapes]
    spreads: list[Spread] = []
    shardings = shardings_of(whole_program.entry.parameters) if like is not None else [None] * len(shapes)
    for number, (shape, sharding) in enumerate(zip(shapes, shardings, strict=True)):
        if number >= len(inputs):
            break
        parts = _parts_of(inputs[number], devices, shape)
        spread = [given(domain, array, shape) for array in checked(parts, [shape] * len(parts))]
        spreads.append(spread if sharding is None else shards(spread, sharding, shape, devices.number))
    if len(inputs) != len(shapes):
        checked(inputs, shapes)
    every: dict[HloInstruction, Spread] | None = {} if values else None
    outputs = run_module(found, spreads, domain, devices, every=every)
    if every is not None:
        return {each.name: _of_devices([_typed(v, each.shape) for v in spread]) for each, spread in every.items()}
    goals = output_shapes(whole_program)
    results: list[Any] = []
    joins = shardings_of([whole_program.entry.root]) if like is not None else [None] * len(goals)
    for spread, shape, sharding in zip(outputs, goals, joins, strict=True):
        joined = spread if sharding is None else whole(spread, sharding, shape, devices.number, domain.joined)
        results.append(_of_devices([told(x, shape) for x in joined]))
    return results


def _parts_of(x: Any, devices: DeviceCount, shape: Shape) -> list[Any]:
    """The values of the devices, if an input has them, or the one value of all."""
    if isinstance(x, list) and devices.number > 1:
        parts = cast("list[Any]", x)
        if len(parts) == devices.number and np.ndim(parts[0]) == shape.rank:
            return parts
    return [x]


def _of_devices(spread: Spread) -> Any:
    return spread[0] if len(spread) == 1 else spread


def _typed(value: Any, shape: Shape) -> Any:
    if shape.is_tuple:
        return tuple([_typed(part, inner) for part, inner in zip(value, shape.tuple_shapes, strict=True)])
    return told(value, shape)
