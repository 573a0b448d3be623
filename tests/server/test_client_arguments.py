"""Wrong arguments of the client's methods raise the errors of the library, before anything is sent."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from xlashape import HloModule, IndexingMap, Shape
from xlashape.errors import InvalidArgumentError, InvalidIndexError, NotFoundError, ParseError
from xlashape.proto import xla
from xlashape_client import Client

LONE = "\ud800"
MAP = "(d0) -> (d0), domain: d0 in [0, 3]"

SAID_HERE: list[tuple[Callable[[Client], Any], Callable[[], Any]]] = [
    (lambda c: c.byte_size(f"f32[{LONE}]"), lambda: Shape.parse(f"f32[{LONE}]")),
    (lambda c: c.describe_shape(f"f32[{LONE}]"), lambda: Shape.parse(f"f32[{LONE}]")),
    (lambda c: c.linear_index(f"f32[{LONE}]", (1,)), lambda: Shape.parse(f"f32[{LONE}]")),
    (lambda c: c.multi_index(f"f32[{LONE}]", 1), lambda: Shape.parse(f"f32[{LONE}]")),
    (lambda c: c.simplify_map(LONE), lambda: IndexingMap.parse(LONE)),
    (lambda c: c.compose_maps(MAP, LONE), lambda: IndexingMap.parse(LONE)),
    (lambda c: c.evaluate_map(LONE, (1,)), lambda: IndexingMap.parse(LONE)),
]


@pytest.mark.parametrize(("far", "near"), SAID_HERE)
def test_text_with_lone_surrogates_is_the_parse_error_of_the_library(
    client: Client, far: Callable[[Client], Any], near: Callable[[], Any]
) -> None:
    with pytest.raises(ParseError) as expected:
        near()
    with pytest.raises(ParseError) as caught:
        far(client)
    assert str(caught.value) == str(expected.value)


@pytest.mark.parametrize(
    ("call", "field"),
    [
        (lambda c, m: c.get_module(LONE), "name"),
        (lambda c, m: c.delete_module(LONE), "name"),
        (lambda c, m: c.download_module(f"modules/{LONE}"), "name"),
        (lambda c, m: list(c.list_instructions(f"modules/{LONE}")), "name"),
        (lambda c, m: list(c.list_instructions(m, computation=LONE)), "computation"),
        (lambda c, m: list(c.list_instructions(m, page_size=2**40)), "page_size"),
        (lambda c, m: list(c.list_instructions(m, page_size="a")), "page_size"),
        (lambda c, m: list(c.list_instructions(m, opcode=LONE)), "opcode"),
        (lambda c, m: c.size(m, order=[]), "order"),
        (lambda c, m: c.map(m, LONE), "instruction"),
        (lambda c, m: c.map(m, 3), "instruction"),
        (lambda c, m: c.map(m, output=2**70), "output"),
        (lambda c, m: c.map(m, max_rows=-1), "max_rows"),
        (lambda c, m: c.map(m, max_rows="a"), "max_rows"),
        (lambda c, m: c.get_module(3), "name"),
        (lambda c, m: c.describe_shapes(3), "shapes"),
        (lambda c, m: c.byte_sizes("f32[2]"), "shapes"),
        (lambda c, m: c.simplify_maps(None), "maps"),
        (lambda c, m: c.compose_map_chains(3), "chains"),
        (lambda c, m: c.compose_map_chains([3]), "maps"),
    ],
)
def test_wrong_arguments_name_their_field(
    client: Client, module: xla.HloModuleProto, call: Callable[[Client, Any], Any], field: str
) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        call(client, HloModule.from_proto(module))
    assert caught.value.field == field


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda c: c.linear_index("f32[2]", 3), "index: expected a sequence of integers, found int"),
        (lambda c: c.evaluate_map(MAP, 3), "point: expected a sequence of integers, found int"),
        (lambda c: c.linear_indices("f32[2]", 3), "rows: expected integers in 2 dimensions"),
        (lambda c: c.multi_index("f32[2]", None), "positions: expected integers in 1 dimension, found"),
    ],
)
def test_indices_that_are_not_integers_are_refused_before_they_are_sent(
    client: Client, call: Callable[[Client], Any], message: str
) -> None:
    with pytest.raises(InvalidIndexError) as caught:
        call(client)
    assert str(caught.value).startswith(message)


def test_bytes_that_are_not_utf8_are_refused_and_not_changed(client: Client, tmp_path: Path) -> None:
    content = b"HloModule \xff\n\nENTRY e { ROOT p = f32[] parameter(0) }\n"
    path = tmp_path / "module.hlo"
    path.write_bytes(content)
    with pytest.raises(ParseError) as expected:
        HloModule.from_bytes(content)
    for module in (content, path):
        with pytest.raises(ParseError) as caught:
            list(client.list_instructions(module))
        assert caught.value.message == expected.value.message
        assert (caught.value.line, caught.value.column) == (1, 11)


def test_a_module_is_its_text_its_file_or_its_bytes(client: Client, tmp_path: Path) -> None:
    text = "HloModule m\n\nENTRY e { ROOT p = f32[8]{0} parameter(0) }\n"
    path = tmp_path / "module.hlo"
    path.write_text(text)
    named = [client.put_module(each).name for each in (text, text.encode(), path, str(path), HloModule.parse(text))]
    assert len(set(named[:4])) == 1 and named[4].startswith("modules/")
    with pytest.raises(InvalidArgumentError, match="lone surrogates"):
        client.put_module(text + "// \ud800")
    with pytest.raises(NotFoundError):
        client.put_module("missing.hlo")


@pytest.mark.parametrize("point", [(1, 2), (1, 2, 3, 4)])
def test_a_point_of_the_wrong_length_names_its_length(client: Client, point: tuple[int, ...]) -> None:
    three = "(d0, d1, d2) -> (d0), domain: d0 in [0, 3], d1 in [0, 3], d2 in [0, 3]"
    with pytest.raises(InvalidArgumentError, match=f"expected 3 numbers in a point, found {len(point)}"):
        client.evaluate_map(three, point)
