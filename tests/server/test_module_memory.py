"""The weight of a decoded module in the cache of a worker is about the memory that it takes, and never less."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from xlashape.errors import LimitExceededError
from xlashape.hlo import HloModule
from xlashape.proto import v1
from xlashape_server.config import Config
from xlashape_server.handlers import HloHandlers, rpcs
from xlashape_server.memory import Lease, Memory, set_lease
from xlashape_server.modules import Modules
from xlashape_server.store import Store

MIB = 1 << 20

# A program that measures in a process of its own: the memory of a module is the growth of the process while the module
# is decoded and all of its views are made. A second run measures Python's share with tracemalloc, which does not see
# the memory of protobuf.
MEASURE = """
import gc, json, sys, tracemalloc
from pathlib import Path
from xlashape_server.memory import resident_bytes
from xlashape_server.config import Config
from xlashape_server.modules import Modules
from xlashape_server.handlers.hlo import HloHandlers

path, kind, traced = Path(sys.argv[1]), sys.argv[2], sys.argv[3] == "traced"
modules = Modules(Config(), None)
modules.decode(b"HloModule m\\n\\nENTRY e { ROOT p = f32[2] parameter(0) }", ("module",), is_text=True).entry.root.shape
data = path.read_bytes()
gc.collect()
held, before = modules.cache.usage().bytes, resident_bytes()
if traced:
    tracemalloc.start()
module = modules.decode(data, ("module",), is_text=kind == "text")
for instruction in module.instructions():
    instruction.name, instruction.shape, instruction.operands, instruction.called_computations, str(instruction.shape)
gc.collect()
grown = tracemalloc.get_traced_memory()[0] if traced else resident_bytes() - before
print(json.dumps({"weight": modules.cache.usage().bytes - held, "grown": grown, "size": len(data)}))
"""


def measured(path: Path, kind: str, how: str) -> dict[str, int]:
    command = [sys.executable, "-c", MEASURE, str(path), kind, how]
    return json.loads(subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout)


@pytest.mark.parametrize("kind", ["proto", "text"])
def test_a_module_weighs_what_it_takes(kind: str, wide: Callable[[int], bytes], tmp_path: Path) -> None:
    content = wide(20_000)
    path = tmp_path / "module"
    path.write_bytes(HloModule.from_proto(content).to_text().encode() if kind == "text" else content)
    found = measured(path, kind, "resident")
    traced = measured(path, kind, "traced")
    assert found["weight"] > 20 * found["size"] / (2 if kind == "text" else 1)
    assert traced["grown"] < found["weight"] < 8 * traced["grown"]
    if sys.platform == "linux":
        # After text is read, the allocator keeps freed memory, so the process grows more.
        assert found["grown"] < found["weight"] * (2.5 if kind == "text" else 1.2)


@pytest.fixture
def modules(tmp_path: Path) -> Modules:
    return Modules(Config(), Store(tmp_path, max_bytes=1 << 30, max_age=60))


def test_an_elided_constant_holds_nothing(modules: Modules) -> None:
    text = "HloModule m\n\nENTRY e {\n  ROOT c = s8[268435456] constant({...})\n}\n"
    module = modules.decode(text.encode(), ("module",), is_text=True)
    assert modules.cache.usage().bytes < 10_000
    assert not module.entry.root.proto.HasField("literal")
    assert module.to_text().count("s8[268435456]{0} constant({...})") == 1
    listed = HloHandlers(Config(), modules).list_instructions(
        v1.ListInstructionsRequest(module=v1.ModuleInput(text=text)).SerializeToString(), 1e12
    )
    assert v1.ListInstructionsResponse.FromString(listed).instructions[0].shape == "s8[268435456]{0}"


def test_elided_constants_in_a_tuple_and_in_a_called_computation_hold_nothing(modules: Modules) -> None:
    text = """HloModule m

f {
  p = f32[] parameter(0)
  ROOT c = f32[100000000] constant({...})
}

ENTRY e {
  t = (f32[2], s8[200000000]) constant(({1, 2}, {...}))
  p = f32[] parameter(0)
  ROOT r = f32[100000000] call(p), to_apply=f
}
"""
    module = modules.decode(text.encode(), ("module",), is_text=True)
    assert modules.cache.usage().bytes < 20_000
    assert [i.proto.HasField("literal") for i in module.instructions() if i.proto.opcode == "constant"] == [False] * 2


def test_many_modules_do_not_take_more_than_the_cache_may(wide: Callable[[int], bytes], tmp_path: Path) -> None:
    few = Modules(Config(module_cache_bytes=4 * MIB), Store(tmp_path, max_bytes=1 << 30, max_age=60))
    for count in range(500, 540):
        few.decode(wide(count), ("module",))
        assert few.cache.usage().bytes <= 4 * MIB
    assert 2 <= few.cache.usage().entries < 40


LONG_NAME = f"n{'a' * 100_000}"
NAMED = "\n".join([
    "HloModule m", "", "ENTRY e {", f"  {LONG_NAME} = f32[2] parameter(0)",
    *[f"  x.{i} = f32[2] negate({LONG_NAME})" for i in range(300)], "  ROOT r = f32[2] negate(x.0)", "}", "",
])  # fmt: skip


@pytest.mark.parametrize("name", ["ListInstructions", "GetText", "Verify"])
def test_an_answer_about_a_kept_module_reserves_what_repeated_names_take(name: str, tmp_path: Path) -> None:
    """A module of 130 kB with one long name has a text of 30 MB, because the text contains the name 300 times."""
    config = Config(store_directory=str(tmp_path))
    kept = Modules(config, Store.of(config, ""))
    content = HloModule.parse(NAMED).to_bytes()
    kept.decode(content, ("module",))
    [handler] = [rpc.handler for rpc in rpcs(config, kept) if rpc.method.name == name]
    request = getattr(v1, f"{name}Request")(module=v1.ModuleInput(serialized=content)).SerializeToString()
    lease = Lease(Memory(1 << 40))
    set_lease(lease)
    try:
        handler(request, 1e12)
    finally:
        set_lease(None)
    assert lease.size > 300 * len(LONG_NAME)


def test_a_page_of_long_names_is_refused(modules: Modules) -> None:
    handlers = HloHandlers(Config(max_request_bytes=1 << 20), modules)
    request = v1.ListInstructionsRequest(module=v1.ModuleInput(text=NAMED))
    with pytest.raises(LimitExceededError, match="allowed") as caught:
        handlers.list_instructions(request.SerializeToString(), 1e12)
    assert (caught.value.limit, caught.value.field) == ("response_bytes", "page_size")
    request.page_size = 2
    handlers.list_instructions(request.SerializeToString(), 1e12)
