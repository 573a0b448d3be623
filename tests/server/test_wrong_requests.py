"""A wrong request is the same exception from the handlers in this process and from a server."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from xlashape import errors
from xlashape.errors import FieldPath, XlashapeError
from xlashape.proto import v1
from xlashape_client import Client
from xlashape_server.commands.page_file import Local

TILED = "f32[3,5]{1,0:T(2,2)}"
MAP = "(d0, d1) -> (d0 + d1), domain: d0 in [0, 3], d1 in [0, 3]"

TEXT = """HloModule m

ENTRY main {
  x = f32[3,5]{1,0} parameter(0)
  t = f32[5,3]{1,0} transpose(x), dimensions={1,0}
  ROOT n = f32[5,3]{1,0} negate(t)
}
"""


def raised(call: Callable[[], Any]) -> XlashapeError:
    with pytest.raises(XlashapeError) as caught:
        call()
    return caught.value


REQUESTS: dict[str, tuple[str, Any, type[XlashapeError], FieldPath]] = {
    "no shape": ("ByteSize", v1.ByteSizeRequest(shapes=[v1.ShapeInput()]), errors.InvalidArgumentError, ("shapes", 0)),
    "no shape of an index": ("LinearIndex", v1.LinearIndexRequest(), errors.InvalidArgumentError, ("shape",)),
    "no map": (
        "SimplifyMap",
        v1.SimplifyMapRequest(maps=[v1.MapInput()]),
        errors.InvalidArgumentError,
        ("maps", 0),
    ),
    "no map of a chain": (
        "ComposeMaps",
        v1.ComposeMapsRequest(chains=[v1.MapChain(maps=[v1.MapInput(text=MAP), v1.MapInput()])]),
        errors.InvalidArgumentError,
        ("chains", 0, "maps", 1),
    ),
    "a chain of one map": (
        "ComposeMaps",
        v1.ComposeMapsRequest(chains=[v1.MapChain(maps=[v1.MapInput(text=MAP)])]),
        errors.InvalidArgumentError,
        ("chains", 0, "maps"),
    ),
    "no map of a point": ("EvaluateMap", v1.EvaluateMapRequest(), errors.InvalidArgumentError, ("map",)),
    "a map that refers to a node it does not have": (
        "SimplifyMap",
        v1.SimplifyMapRequest(maps=[v1.MapInput(map=v1.IndexingMap(results=[3]))]),
        errors.InvalidMapError,
        ("maps", 0, "map", "results", 0),
    ),
    "no module": ("ListInstructions", v1.ListInstructionsRequest(), errors.InvalidArgumentError, ("module",)),
    "a tile with too few offsets": (
        "Tile",
        v1.TileRequest(module=v1.ModuleInput(text=TEXT), instruction="t", sizes=[1, 1], at=[0]),
        errors.InvalidArgumentError,
        ("at",),
    ),
    "an unknown order": (
        "LinearIndex",
        v1.LinearIndexRequest(shape=v1.ShapeInput(text=TILED), indices=[0, 0], order=7),
        errors.InvalidArgumentError,
        ("order",),
    ),
    "a number in a flat list of indices": (
        "LinearIndex",
        v1.LinearIndexRequest(shape=v1.ShapeInput(text=TILED), indices=[0, 0, 0, 9]),
        errors.InvalidIndexError,
        ("indices", 3),
    ),
    "a number in a long flat list of indices": (
        "LinearIndex",
        v1.LinearIndexRequest(shape=v1.ShapeInput(text=TILED), indices=[0, 0] * 100 + [3, 0]),
        errors.InvalidIndexError,
        ("indices", 200),
    ),
    "a count that is not that of the indices": (
        "LinearIndex",
        v1.LinearIndexRequest(shape=v1.ShapeInput(text=TILED), indices=[0, 0], count=2),
        errors.InvalidArgumentError,
        ("count",),
    ),
    "a name that is not a digest": (
        "GetModule",
        v1.GetModuleRequest(name="modules/there"),
        errors.InvalidArgumentError,
        ("name",),
    ),
    "a name that is not a digest, of a module to read": (
        "Size",
        v1.SizeRequest(module=v1.ModuleInput(name="there")),
        errors.InvalidArgumentError,
        ("module", "name"),
    ),
    "a negative offset": (
        "GetModule",
        v1.GetModuleRequest(name="modules/there", content_offset=-1),
        errors.InvalidArgumentError,
        ("content_offset",),
    ),
    "a negative page size": (
        "ListInstructions",
        v1.ListInstructionsRequest(module=v1.ModuleInput(text=TEXT), page_size=-1),
        errors.InvalidArgumentError,
        ("page_size",),
    ),
}


@pytest.mark.parametrize("name", REQUESTS)
def test_a_wrong_request_is_the_same_exception_in_this_process_and_from_a_server(client: Client, name: str) -> None:
    method, request, kind, path = REQUESTS[name]
    here, there = [
        raised(lambda service=service: service.send(method, request.SerializeToString(), 60))
        for service in (Local(60), client)
    ]
    assert (type(here), here.path) == (kind, path)
    assert (type(there), there.path, str(there), there.details()) == (kind, path, str(here), here.details())


def test_an_unknown_module_is_not_found(client: Client) -> None:
    name = "modules/" + "0" * 64
    here, there = [raised(lambda service=service: service.get_module(name)) for service in (Local(60), client)]
    # The texts differ, since only a server can be told to keep modules for other processes.
    for error in (here, there):
        assert isinstance(error, errors.NotFoundError)
        assert (error.kind, error.name, error.path) == ("module", name, ("name",))
