"""Random buffer assignments, and the results of XLA's own functions for them.

    python tests/support/random_assignments.py ORACLE_PYTHON ORACLE_DIRECTORY

writes a line for each assignment to standard output, for tests/vectors/memory/random_assignments.jsonl: an HloProto,
gzipped and in base64; the peak and the unpadded peak of ComputePeakMemorySizes; the totals of
ComputeTotalAllocationBytes and ComputeIndefiniteAllocationsInBytes. ORACLE_PYTHON is an interpreter with jaxlib 0.10.2,
whose library has these functions; ORACLE_DIRECTORY has `xla_oracle.py`, which calls them by address.
"""

from __future__ import annotations

import base64
import gzip
import json
import random
import subprocess
import sys

from xlashape.proto import xla

COUNT = 500
_SHAPES = (
    "f32[{a},{b}]",
    "f32[{a},{b}]{{0,1:T(8,128)}}",
    "bf16[{a},{b}]{{1,0:T(8,128)(2,1)}}",
    "pred[{a}]",
    "s4[{a},{b}]{{1,0:E(4)}}",
    "u8[{a}]{{0:S(5)}}",
    "s4[{a}]",
    "c128[]",
    "token[]",
    "(f32[{a}], s32[])",
    "(f32[{a}], (s8[{b},3], f64[{a}]))",
    "(pred[], bf16[{b}], f32[{a},{b}])",
)
_WORKER = """
import base64, ctypes, gzip, json, os, struct, sys
sys.path.insert(0, sys.argv[1])
from xla_oracle import Worker
channel = os.fdopen(os.dup(1), "w", buffering=1)
os.dup2(2, 1)
worker, P, I = Worker(), ctypes.c_void_p, ctypes.c_int64
def message(name, data):
    made = ctypes.create_string_buffer(4096)
    worker._fn(f"_ZN3xla{len(name)}{name}C1EPN6google8protobuf5ArenaE", None, P, P)(ctypes.addressof(made), None)
    parse = worker._fn("_ZN6google8protobuf11MessageLite14ParseFromArrayEPKvi", ctypes.c_bool, P, P, ctypes.c_int)
    assert parse(ctypes.addressof(made), data, len(data))
    return made
for line in sys.stdin:
    assignment, module = [base64.b64decode(text) for text in json.loads(line)]
    a, m = message("BufferAssignmentProto", assignment), message("HloModuleProto", module)
    out = ctypes.create_string_buffer(64)
    name = "_ZN3xla22ComputePeakMemorySizesERKNS_21BufferAssignmentProtoERKNS_14HloModuleProtoE"
    worker._fn(name, P, P, P, P)(*map(ctypes.addressof, (out, a, m)))
    status, peak, unpadded = struct.unpack("<3q", out.raw[:24])
    assert status == 1
    total = worker._fn("_ZN3xla27ComputeTotalAllocationBytesERKNS_21BufferAssignmentProtoEl", I, P, I)(ctypes.addressof(a), 0)
    name = "_ZN3xla35ComputeIndefiniteAllocationsInBytesERKNS_21BufferAssignmentProtoEl"
    channel.write(json.dumps([peak, unpadded, total, worker._fn(name, I, P, I)(ctypes.addressof(a), 0)]) + "\\n")
"""


def random_assignment(seed: int) -> xla.HloProto:
    """A module with an unusual but valid assignment: values share memory in chains, there are several heap traces and
    memory spaces, and allocations name ids that no value has.
    """
    from xlashape.shape import Shape

    rng = random.Random(seed)
    proto = xla.HloProto()
    module = proto.hlo_module
    module.name = f"m{seed}"
    computation = module.computations.add(name="main", id=1)
    module.entry_computation_id = 1
    assignment = proto.buffer_assignment
    colors = rng.choice([(0,), (0,), (0, 1), (0, 1, 5), (0, 2, 7)])
    for number in range(1, rng.randint(2, 14)):
        text = rng.choice(_SHAPES).format(a=rng.randint(1, 40), b=rng.randint(1, 9))
        instruction = computation.instructions.add(name=f"i{number}", id=number, opcode="custom-call")
        shape = Shape.parse(text)
        instruction.shape.CopyFrom(shape.to_proto())
        indices: list[tuple[int, ...]] = [()]
        if shape.is_tuple:
            indices += [(index,) for index in range(len(shape.tuple_shapes))]
            inner = shape.tuple_shapes[1]
            indices += [(1, index) for index in range(len(inner.tuple_shapes))] if inner.is_tuple else []
        for index in rng.sample(indices, rng.randint(1, len(indices))):
            logical = assignment.logical_buffers.add(
                id=len(assignment.logical_buffers) * 3 + 1, size=rng.randint(0, 6000), color=rng.choice(colors)
            )
            logical.defined_at.instruction_id = number
            logical.defined_at.shape_index.extend(index)
    computation.root_id = len(computation.instructions)
    ids = [logical.id for logical in assignment.logical_buffers]
    for index in range(rng.randint(0, 8)):
        flags = {name: rng.random() < 0.3 for name in ("is_thread_local", "is_constant", "maybe_live_out")}
        allocation = assignment.buffer_allocations.add(
            index=index, size=rng.randint(0, 9000), color=rng.choice(colors), **flags
        )
        allocation.is_entry_computation_parameter = not flags["is_constant"] and rng.random() < 0.3
        allocation.is_parameter_aliased_with_output = (
            allocation.is_entry_computation_parameter and flags["maybe_live_out"]
        )
        for each in rng.sample(ids, rng.randint(0, min(4, len(ids)))):
            allocation.assigned.add(logical_buffer_id=each if rng.random() < 0.85 else 9_000 + each)
    below: dict[int, int] = {}
    for index in range(rng.randint(0, 3)):
        trace = assignment.heap_simulator_traces.add(
            buffer_allocation_index=index, whole_module_simulation=rng.random() < 0.5
        )
        for _ in range(rng.randint(0, 30)):
            buffer = rng.choice(ids)
            kind = rng.choice(["ALLOC", "ALLOC", "FREE", "FREE", "SHARE_WITH"])
            if kind == "SHARE_WITH":
                shared = root = rng.choice(ids)
                while root in below:
                    root = below[root]
                if root == buffer:
                    continue  # XLA does not end on a value that shares its own memory
                below[buffer] = root
                trace.events.add(kind=kind, buffer_id=buffer, share_with_canonical_id=shared)
            else:
                if kind == "FREE":
                    below.pop(buffer, None)
                trace.events.add(kind=kind, buffer_id=buffer)
    return proto


def main(python: str, directory: str) -> None:
    """Writes the vectors to standard output."""
    protos = [random_assignment(seed) for seed in range(COUNT)]
    asked = "".join(
        [
            json.dumps(
                [
                    base64.b64encode(each.SerializeToString(deterministic=True)).decode()
                    for each in (proto.buffer_assignment, proto.hlo_module)
                ]
            )
            + "\n"
            for proto in protos
        ]
    )
    answers = subprocess.run(
        [python, "-c", _WORKER, directory], input=asked, capture_output=True, text=True, check=True
    )
    for proto, line in zip(protos, answers.stdout.splitlines(), strict=True):
        data = gzip.compress(proto.SerializeToString(deterministic=True), mtime=0)
        names = ("peak", "unpadded_peak", "total_allocation_bytes", "indefinite_bytes")
        row = {
            "hlo_proto": base64.b64encode(data).decode(),
            **dict(zip(names, json.loads(line), strict=True)),
            "jaxlib": "0.10.2",
        }
        print(json.dumps(row))


if __name__ == "__main__":
    main(*sys.argv[1:])
