"""The steps that `compare.py` measures. Only public names are used, since both trees must have them; they are imported
within the steps, by the tree's process."""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

__all__ = ["SHARED", "STEPS", "Step"]

ROOT = Path(__file__).resolve().parents[2]
SHARED = Path(os.environ.get("XLASHAPE_SHARED", ROOT.parent / "shared"))
VECTORS = ROOT / "tests" / "vectors"

Step = Callable[[], Any]
STEPS: dict[str, Callable[[], Step]] = {}


def step(name: str) -> Callable[[Callable[[], Step]], Callable[[], Step]]:
    """Registers a function that prepares a step and returns what is measured."""

    def add(prepare: Callable[[], Step]) -> Callable[[], Step]:
        STEPS[name] = prepare
        return prepare

    return add


def _model_texts() -> list[str]:
    """Some 200 kB of HLO text of every kind; whole models where there are any."""
    paths = sorted((VECTORS / "hlo").glob("*.after.hlo"))
    texts = [path.read_text() for path in paths]
    return texts + [path.read_text() for path in sorted((SHARED / "hlo" / "models").glob("*.hlo"))[:1]]


def _modules() -> list[Any]:
    from xlashape import HloModule

    return [HloModule.parse(text) for text in _model_texts()]


def _map_texts(call: str) -> list[dict[str, str]]:
    rows = [json.loads(line) for line in (VECTORS / "maps.jsonl").read_text().splitlines()]
    return [row for row in rows if row["call"] == call]


SHAPES = (
    "f32[{0},128]{{1,0}}",
    "bf16[{0},128]{{1,0:T(8,128)(2,1)S(1)}}",
    "s4[{0},<=7]{{0,1:T(*,4)(2,1)L(16)E(4)S(5)M(8)}}",
    "(f32[{0},128]{{1,0}}, s32[], (bf16[{0}]{{0}}, token[]))",
)


@step("shape parse, new text")
def _() -> Step:
    from xlashape import Shape

    fresh = itertools.count(1_000)

    def run() -> None:
        for _ in range(100):
            size = next(fresh)
            for template in SHAPES:
                Shape.parse(template.format(size))

    return run


@step("shape parse, same text")
def _() -> Step:
    from xlashape import Shape

    texts = [template.format(size) for size in range(8, 58) for template in SHAPES]
    return lambda: [Shape.parse(text) for text in texts]


@step("shape print")
def _() -> Step:
    from xlashape import Shape

    fresh = itertools.count(1_000)

    def run() -> None:
        shapes = [Shape("bf16", (next(fresh), 128)) for _ in range(200)]
        for shape in shapes:
            str(shape)

    return run


@step("shape proto")
def _() -> Step:
    from xlashape import Shape

    messages = [Shape.parse(template.format(size)).to_proto() for size in range(8, 58) for template in SHAPES]
    return lambda: [Shape.from_proto(message).to_proto() for message in messages]


TILED = (
    "f32[7,50,300,130]{3,2,1,0}",
    "bf16[7,50,300,130]{3,2,1,0:T(8,128)(2,1)}",
    "f32[7,50,300,130]{2,3,1,0:T(*,7,100)(5,6)}",
)


@step("tiling linear_index")
def _() -> Step:
    from xlashape import Shape, tiling

    shapes = [Shape.parse(text) for text in TILED]
    return lambda: [tiling.linear_index(shape, (3, 20, 100, column)) for shape in shapes for column in range(100)]


@step("tiling multi_index")
def _() -> Step:
    from xlashape import Shape, tiling

    shapes = [Shape.parse(text) for text in TILED]
    return lambda: [tiling.multi_index(shape, position) for shape in shapes for position in range(0, 100_000, 1_000)]


@step("tiling linear_indices, 100,000")
def _() -> Step:
    import numpy as np

    from xlashape import Shape, tiling

    shapes = [Shape.parse(text) for text in TILED]
    rows = np.stack([np.random.default_rng(0).integers(0, size, 100_000) for size in (7, 50, 300, 130)], 1)
    return lambda: [tiling.linear_indices(shape, rows) for shape in shapes]


@step("tiling multi_indices, 100,000")
def _() -> Step:
    import numpy as np

    from xlashape import Shape, tiling

    shapes = [Shape.parse(text) for text in TILED]
    positions = np.random.default_rng(0).integers(0, 13_650_000, 100_000)
    return lambda: [tiling.multi_indices(shape, positions) for shape in shapes]


@step("tiling first question of a shape")
def _() -> Step:
    from xlashape import Shape, tiling

    fresh = itertools.count(1_000)

    def run() -> None:
        for _ in range(50):
            shape = Shape.parse(f"bf16[{next(fresh)},300]{{1,0:T(8,128)(2,1)}}")
            tiling.physical_bytes(shape)
            tiling.linear_index(shape, (7, 7))

    return run


@step("pack and unpack")
def _() -> Step:
    import numpy as np

    from xlashape import Shape, tiling

    shape = Shape.parse("f32[300,500]{1,0:T(8,128)}")
    array = np.arange(150_000, dtype=np.float32).reshape(300, 500)
    return lambda: tiling.unpack(shape, tiling.pack(shape, array))


@step("hlo parse")
def _() -> Step:
    from xlashape import HloModule

    texts = _model_texts()
    return lambda: [HloModule.parse(text) for text in texts]


@step("hlo print")
def _() -> Step:
    modules = _modules()
    return lambda: [module.to_text() for module in modules]


@step("hlo load and walk")
def _() -> Step:
    from xlashape import HloModule

    data = [module.proto.SerializeToString() for module in _modules()]

    def run() -> None:
        for item in data:
            for instruction in HloModule.from_proto(item).instructions():
                _ = instruction.name, instruction.opcode, instruction.shape, instruction.operands
                _ = instruction.users, instruction.called_computations

    return run


@step("hlo verify")
def _() -> Step:
    try:
        from xlashape.hlo.verifier import verify
    except ImportError:  # older trees
        from xlashape.hlo.verify import verify  # pyright: ignore[reportMissingImports, reportUnknownVariableType]

    modules = _modules()
    return lambda: [verify(module) for module in modules]


@step("maps of modules, warm")
def _() -> Step:
    from xlashape import indexing

    modules = _modules()
    return lambda: [sum(1 for _ in indexing.module_indexing(module)) for module in modules]


@step("maps of modules, new views")
def _() -> Step:
    from xlashape import HloModule, indexing

    data = [module.proto.SerializeToString() for module in _modules()]
    return lambda: [sum(1 for _ in indexing.module_indexing(HloModule.from_proto(item))) for item in data]


@step("maps of modules, cold")
def _() -> Step:
    from xlashape import HloModule, indexing

    warm = HloModule.parse("HloModule m\nENTRY e { p = f32[3]{0} parameter(0) ROOT n = f32[3]{0} negate(p) }")
    assert sum(1 for _ in indexing.module_indexing(warm))
    modules = _modules()
    return lambda: [sum(1 for _ in indexing.module_indexing(module)) for module in modules]


@step("operand reads, cold")
def _() -> Step:
    from xlashape import HloModule, indexing

    warm = HloModule.parse("HloModule m\nENTRY e { p = f32[3]{0} parameter(0) ROOT n = f32[3]{0} negate(p) }")
    list(indexing.module_reads(warm))
    modules = [HloModule.load(path) for path in sorted((VECTORS / "hlo").glob("*.after.hlo"))[:6]]
    return lambda: [list(indexing.module_reads(module)) for module in modules]


@step("map parse")
def _() -> Step:
    from xlashape import IndexingMap

    texts = [row["map"] for row in _map_texts("simplify")]
    return lambda: [IndexingMap.parse(text) for text in texts]


@step("map simplify, cold")
def _() -> Step:
    from xlashape import IndexingMap

    IndexingMap.parse("(d0) -> (d0 mod 4), domain: d0 in [0, 3]").simplify()
    maps = [IndexingMap.parse(row["map"]) for row in _map_texts("simplify")]
    return lambda: [m.simplify() for m in maps]


@step("map compose, cold")
def _() -> Step:
    from xlashape import IndexingMap

    first = IndexingMap.parse("(d0) -> (d0 mod 4), domain: d0 in [0, 3]")
    first.compose(first)
    pairs = [(IndexingMap.parse(row["first"]), IndexingMap.parse(row["second"])) for row in _map_texts("compose")]
    return lambda: [a.compose(b) for a, b in pairs]


@step("map simplify, again")
def _() -> Step:
    from xlashape import IndexingMap

    texts = [row["map"] for row in _map_texts("simplify")][:300]
    return lambda: [IndexingMap.parse(text).simplify() for text in texts]


@step("map print")
def _() -> Step:
    from xlashape import IndexingMap

    maps = [IndexingMap.parse(row["map"]) for row in _map_texts("simplify")]
    return lambda: [m.to_text() for m in maps]


@step("map evaluate")
def _() -> Step:
    from xlashape import IndexingMap

    m = IndexingMap.parse(
        "(d0, d1, d2) -> ((d0 * 600 + d1 * 30 + d2) / 77, (d0 * 600 + d1 * 30 + d2) mod 77), domain: d0 in [0, 99], d1 "
        "in [0, 19], d2 in [0, 29]"
    )
    return lambda: [m.evaluate((row, 7, 9)) for row in range(100)]


@step("map evaluate_batch, 100,000")
def _() -> Step:
    import numpy as np

    from xlashape import IndexingMap

    m = IndexingMap.parse(
        "(d0, d1, d2) -> ((d0 * 600 + d1 * 30 + d2) / 77, (d0 * 600 + d1 * 30 + d2) mod 77), domain: d0 in [0, 99], d1 "
        "in [0, 19], d2 in [0, 29]"
    )
    points = np.stack([np.random.default_rng(0).integers(0, size, 100_000) for size in (100, 20, 30)], 1)
    return lambda: m.evaluate_batch(points)


def _with_client(ask: Callable[[Any], Any]) -> Step:
    import atexit

    from xlashape_client import Client
    from xlashape_server import Config, Server

    server = Server(Config(address="127.0.0.1:0", workers=1)).start()
    client = Client(server.address)
    atexit.register(server.stop)
    atexit.register(client.close)
    return lambda: ask(client)


@step("RPC byte_size")
def _() -> Step:
    return _with_client(lambda client: client.byte_size("bf16[20,300]{1,0:T(8,128)(2,1)}"))


@step("RPC linear_index")
def _() -> Step:
    return _with_client(lambda client: client.linear_index("bf16[20,300]{1,0:T(8,128)(2,1)}", (17, 123)))
