"""Valid and invalid requests of every RPC with the library's answers. Their shapes, maps and modules are those of the
repository's vectors."""

from __future__ import annotations

import base64
import gzip
import json
import random
import shutil
import tempfile
import time
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from google.rpc import code_pb2

from xlashape.errors import XlashapeError
from xlashape.proto import v1
from xlashape_server.config import Config
from xlashape_server.conversions import status_of
from xlashape_server.handlers import rpcs
from xlashape_server.modules import Modules
from xlashape_server.store import Store

__all__ = ["Outcome", "Question", "code_of", "library", "module_texts", "questions"]

VECTORS = Path(__file__).resolve().parents[2] / "vectors"
_MAX_MODULE_BYTES = 7000
# The most time that the library may take to answer a request. Slower requests are left out.
_MAX_SECONDS = 0.1


class Outcome(NamedTuple):
    """The outcome of a call: the name of a gRPC code, the message of an error, and the answers in their order."""

    code: str
    message: str
    answers: tuple[bytes, ...]


class Question(NamedTuple):
    """A call: its RPC, such as "ShapeService/ByteSize", its request messages, and the library's outcome."""

    rpc: str
    requests: tuple[bytes, ...]
    expected: Outcome


def code_of(error: XlashapeError) -> str:
    """The name of the gRPC code of an error of the library."""
    return code_pb2.Code.Name(status_of(error).code)


def library() -> Callable[[str, tuple[bytes, ...]], Outcome]:
    """A function that answers a call in this process: the service's handlers, without a server."""
    config = Config()
    folder = tempfile.mkdtemp(prefix="xlashape-harness-")
    store = Store(folder, max_bytes=1 << 30, max_age=86_400)
    known = {
        f"{rpc.method.containing_service.name}/{rpc.method.name}": rpc for rpc in rpcs(config, Modules(config, store))
    }

    def ask(name: str, requests: tuple[bytes, ...]) -> Outcome:
        rpc = known[name]
        handler: Any = rpc.handler
        answers: list[bytes] = []
        try:
            found = handler(iter(requests) if rpc.method.client_streaming else requests[0], time.monotonic() + 60)
            answers.extend(found if rpc.method.server_streaming else (found,))
        except XlashapeError as error:
            status = status_of(error)
            return Outcome(code_pb2.Code.Name(status.code), status.message, tuple(answers))
        return Outcome("OK", "", tuple(answers))

    weakref.finalize(ask, shutil.rmtree, folder, ignore_errors=True)
    return ask


def module_texts() -> list[str]:
    """The small programs among the vectors, as HLO text."""
    paths = sorted((VECTORS / "hlo").glob("*.hlo"))
    return [path.read_text() for path in paths if path.stat().st_size <= _MAX_MODULE_BYTES]


def _rows(name: str, r: random.Random, count: int) -> list[dict[str, Any]]:
    lines = (VECTORS / name).read_text().splitlines()
    return [json.loads(line) for line in r.sample(lines, count)]


def questions(seed: int, count: int) -> list[Question]:
    """This many random requests of each kind."""
    r = random.Random(seed)
    ask = library()
    made: list[Question] = []
    for rpc, requests in (*_shape_calls(r, count), *_map_calls(r, count), *_module_calls(r, count)):
        packed = tuple(each.SerializeToString(deterministic=True) for each in requests)
        began = time.perf_counter()
        outcome = ask(rpc, packed)
        if time.perf_counter() - began < _MAX_SECONDS:
            made.append(Question(rpc, packed, outcome))
    r.shuffle(made)
    return made


def _shape_calls(r: random.Random, count: int) -> Iterator[tuple[str, list[Any]]]:
    for row in _rows("shapes.jsonl", r, count):
        shape = r.choice(
            [v1.ShapeInput(text=row["text"]), v1.ShapeInput(serialized=base64.b64decode(row["shape_proto"]))]
        )
        index, position = row.get("index") or [], row.get("linear_index_one_tile") or 0
        if r.random() < 0.1:
            index = [value + r.choice((-1, 1, 1 << 40)) for value in index]
        order = r.choice(v1.LinearOrder.values())
        yield "ShapeService/DescribeShape", [v1.DescribeShapeRequest(shapes=[shape] * r.randint(1, 3))]
        yield "ShapeService/ByteSize", [v1.ByteSizeRequest(shapes=[shape], pointer_size=r.choice((0, 4, 8)))]
        yield "ShapeService/LinearIndex", [v1.LinearIndexRequest(shape=shape, indices=index * 2, order=order)]
        yield "ShapeService/MultiIndex", [v1.MultiIndexRequest(shape=shape, positions=[position, 0], order=order)]
        linear = [v1.LinearIndicesRequest(shape=shape, indices=index, order=order)]
        linear += [v1.LinearIndicesRequest(indices=index * r.randint(1, 9)) for _ in range(r.randint(0, 3))]
        yield "ShapeService/LinearIndices", linear
        multiple = [v1.MultiIndicesRequest(shape=shape, positions=[position], order=order)]
        multiple += [v1.MultiIndicesRequest(positions=range(position + 1)[:9]) for _ in range(r.randint(0, 3))]
        yield "ShapeService/MultiIndices", multiple
        yield "ViewService/Recognize", [v1.RecognizeRequest(content=row["text"].encode())]
        yield "ViewService/Draw", [v1.DrawRequest(shape=shape, at=index, theme=r.choice(("", "dark", "absent")))]


def _map_calls(r: random.Random, count: int) -> Iterator[tuple[str, list[Any]]]:
    for row in _rows("maps.jsonl", r, count):
        if row["call"] == "compose":
            chain = [v1.MapInput(text=row[name]) for name in ("first", "second")]
            yield (
                "IndexingService/ComposeMaps",
                [v1.ComposeMapsRequest(chains=[v1.MapChain(maps=chain)], raw=r.random() < 0.3)],
            )
            text = row["first"]
        else:
            text = row["map"]
        given = v1.MapInput(text=text)
        style = r.choice(v1.TextStyle.values())
        yield "IndexingService/ParseMap", [v1.ParseMapRequest(maps=[given], style=style)]
        yield "IndexingService/SimplifyMap", [v1.SimplifyMapRequest(maps=[given], style=style)]
        variables = text[: text.index("->")].replace("]", ",").count(",") + 1
        points = [r.randint(-2, 20) for _ in range(variables * r.randint(1, 4))]
        yield "IndexingService/EvaluateMap", [v1.EvaluateMapRequest(map=given, points=points)]
        batch = [v1.EvaluateMapBatchRequest(map=given, points=points)]
        batch += [v1.EvaluateMapBatchRequest(points=points) for _ in range(r.randint(0, 3))]
        yield "IndexingService/EvaluateMapBatch", batch


def _module_calls(r: random.Random, count: int) -> Iterator[tuple[str, list[Any]]]:
    texts = module_texts()
    packed = [
        gzip.decompress(path.read_bytes())
        for path in sorted((VECTORS / "hlo").glob("*.hlo.pb.gz"))
        if path.stat().st_size <= _MAX_MODULE_BYTES
    ]
    for _ in range(count):
        text = r.choice(texts)
        module = r.choice([v1.ModuleInput(text=text), v1.ModuleInput(serialized=r.choice(packed))])
        names = [line.split("=")[0].split()[-1] for line in text.splitlines() if " = " in line]
        module_of_name = v1.ModuleInput(text=text)
        name = r.choice([*names, "absent"])
        direction = r.choice([*v1.Direction.values(), 7])
        index = r.choice((None, 0, 0, 1, 9))
        flags = {"raw": r.random() < 0.3, "physical": r.random() < 0.2}
        yield (
            "HloService/ListInstructions",
            [v1.ListInstructionsRequest(module=module, page_size=r.choice((0, 5)), opcode=r.choice(("", "add")))],
        )
        maps = v1.IndexingMapsRequest(module=module, direction=direction, page_size=r.choice((0, 5)), **flags)
        yield "IndexingService/IndexingMaps", [maps]
        one = v1.IndexingMapsRequest(
            module=module_of_name, instruction=name, direction=direction, output=index, structured=True, **flags
        )
        yield "IndexingService/IndexingMaps", [one]
        lines = r.choice((-1, 0, 1, 9))
        yield "ViewService/GetText", [v1.GetTextRequest(module=module, first_line=lines, max_lines=9, name=name)]
        yield "ViewService/Graph", [v1.GraphRequest(module=module, instruction=name, distance=r.choice((0, 1, 2)))]
    if not texts or not packed:
        raise RuntimeError(f"there are no modules in {VECTORS}")
