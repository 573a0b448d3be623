"""The judge that is not ours: XLA itself compiles the cases for the CPU and runs them, through what jaxlib alone offers.

All cases become one module, since compiling takes most of the time: an entry that calls each of them. One run then changes one element of every case.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from hlo_builder import Builder
from optional import needed_in_ci

from execution.case import Case
from execution.judge import Drawn, Seen, changed
from xlashape.hlo import HloModule
from xlashape.shape import Shape


class Program:
    """A module that XLA has compiled, on one device or several replicas."""

    def __init__(self, module: HloModule, replicas: int = 1) -> None:
        client = needed_in_ci("jaxlib.xla_client")
        jax = needed_in_ci("jaxlib._jax")
        self.jax, self.replicas = jax, replicas
        self.devices = _client(client, replicas).devices()
        parsed = client.hlo.hlo_module_from_text(module.to_text())
        # The client takes no HLO but StableHLO, which XLA makes of it and turns back into HLO.
        portable = jax.mlir.hlo_to_stablehlo(parsed.as_serialized_hlo_module_proto())
        options = client.CompileOptions()
        options.executable_build_options.debug_options.xla_backend_optimization_level = 0
        if replicas > 1:
            options.num_replicas = options.executable_build_options.num_replicas = replicas
            options.device_assignment = client.DeviceAssignment.create(np.arange(replicas).reshape(replicas, 1))
        devices = jax.DeviceList(tuple(self.devices[:replicas]))
        self.executable = _client(client, replicas).compile_and_load(portable, devices, options)

    def buffer(self, array: np.ndarray) -> Any:
        """The array on the device."""
        # A copy: what is read-only or still used by the caller cannot be handed over.
        capsule = np.array(array, order="C").__dlpack__()
        return self.jax.dlpack_managed_tensor_to_buffer(capsule, self.devices[0], None)

    def run(self, buffers: Sequence[Any]) -> list[np.ndarray]:
        """The leaves of the result."""
        return [np.asarray(one) for one in self.executable.execute(list(buffers))]

    def run_everywhere(self) -> list[list[np.ndarray]]:
        """Without parameters, on all replicas: for every leaf of the result, each replica's array."""
        found = self.executable.execute_sharded([]).disassemble_into_single_device_arrays()
        return [[np.asarray(one) for one in leaf] for leaf in found]


_clients: dict[int, Any] = {}


def _client(xla_client: Any, devices: int) -> Any:
    if devices not in _clients:
        _clients[devices] = xla_client.make_cpu_client(num_devices=devices)
    return _clients[devices]


class Merged:
    """Many cases as one module. Parameters and results are the leaves of the cases' own, case by case."""

    def __init__(self, cases: Sequence[Case]) -> None:
        entry = Builder("all_cases")
        results: list[int] = []
        self.outputs: list[int] = []
        for number, case in enumerate(cases):
            _rename(case.builder, number)
            arguments = [_argument(entry, parameter.shape) for parameter in case.parameters]
            called = entry.op("call", str(case.root.shape), arguments, calls=[case.builder])
            before = len(results)
            _take_apart(entry, called, case.root.shape, results)
            self.outputs.append(len(results) - before)
        entry.op("tuple", f"({', '.join(entry.text(one) for one in results)})", results)
        self.program = Program(entry.module())


def _rename(builder: Builder, number: int) -> None:
    pending, done = [builder], set()
    while pending:
        one = pending.pop()
        if id(one) not in done:
            done.add(id(one))
            one.name = f"{one.name}.{number}.{len(done)}"
            pending += one.called


def _argument(entry: Builder, shape: Shape) -> int:
    if not shape.is_tuple:
        return entry.parameter(str(shape))
    return entry.op("tuple", str(shape), [_argument(entry, part) for part in shape.tuple_shapes])


def _take_apart(entry: Builder, value: int, shape: Shape, leaves: list[int]) -> None:
    if not shape.is_tuple:
        leaves.append(value)
        return
    for index, part in enumerate(shape.tuple_shapes):
        element = entry.op("get-tuple-element", str(part), [value], tuple_index=index)
        _take_apart(entry, element, part, leaves)


class XlaJudge:
    """An `Observe` that compiles when it is first asked, and whenever it is asked about other cases."""

    def __init__(self) -> None:
        self.merged: dict[tuple[Case, ...], Merged] = {}

    def __call__(self, cases: Sequence[Case], values: Sequence[Drawn], others: Sequence[Drawn]) -> list[Seen]:
        key = tuple(cases)
        if key not in self.merged:
            self.merged[key] = Merged(key)
        merged = self.merged[key]
        program = merged.program
        flat = [array for drawn in values for arrays in drawn for array in arrays]
        buffers = [program.buffer(array) for array in flat]
        before = _by_case(program.run(buffers), merged.outputs)
        seen: list[Seen] = []
        # Per case: (which parameter of all, key, element) one after the other.
        steps: list[list[tuple[int, tuple[int, int], tuple[int, ...]]]] = []
        at = 0
        for number, drawn in enumerate(values):
            seen.append({})
            steps.append([])
            for parameter, arrays in enumerate(drawn):
                for leaf, array in enumerate(arrays):
                    seen[-1][parameter, leaf] = [np.zeros((old.size, array.size), dtype=bool) for old in before[number]]
                    steps[-1] += [(at, (parameter, leaf), index) for index in np.ndindex(*array.shape)]
                    at += 1
        for step in range(max(map(len, steps))):
            moved = list(buffers)
            running = [number for number in range(len(cases)) if step < len(steps[number])]
            for number in running:
                place, (parameter, leaf), index = steps[number][step]
                array = np.array(flat[place])
                array[index] = others[number][parameter][leaf][index]
                moved[place] = program.buffer(array)
            after = _by_case(program.run(moved), merged.outputs)
            for number in running:
                _, name, index = steps[number][step]
                column = int(np.ravel_multi_index(index, values[number][name[0]][name[1]].shape)) if index else 0
                for rows, old, new in zip(seen[number][name], before[number], after[number], strict=True):
                    rows[:, column] = changed(old, new)
        return seen


def _by_case(found: list[np.ndarray], counts: list[int]) -> list[list[np.ndarray]]:
    rest = iter(found)
    return [[next(rest) for _ in range(count)] for count in counts]
