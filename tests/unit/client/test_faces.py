"""The two clients have the same methods: names, parameters, docstrings, and examples, which both run."""

from __future__ import annotations

import ast
import asyncio
import doctest
import inspect
import io
import re
from collections.abc import AsyncGenerator, Callable, Generator, Iterator
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import pytest

import xlashape_client.methods
from xlashape_client import AsyncClient, Client, results
from xlashape_client.faces import Methods, asynchronous, blocking, finished, iterator
from xlashape_client.items import Items
from xlashape_client.methods import AsyncServiceMethods, ServiceMethods
from xlashape_server import Config, Server
from xlashape_server.commands.page_file import Local

MODULE = b"""HloModule tiny

ENTRY main {
  p = f32[3,5]{1,0:T(2,2)} parameter(0)
  t = f32[5,3]{1,0} transpose(p), dimensions={1,0}
  ROOT n = f32[5,3]{1,0} negate(t)
}
"""
BLOCKING = {"with_cancellation"}  # tasks of asyncio can be cancelled as they are
NAMES = sorted(
    name
    for name in set(dir(Client)) - BLOCKING
    if not name.startswith("_") and callable(getattr(Client, name)) and name != "stream"
)
RPCS = sorted(name for name in vars(ServiceMethods) if not name.startswith("_"))
ITERATORS = {"list_instructions"}
PROMPT = re.compile(r"^[ \t]*>>> ", re.MULTILINE)


def public(kind: type[Any]) -> set[str]:
    return {name for name in dir(kind) if not name.startswith("_")}


def test_the_clients_have_the_same_names() -> None:
    assert public(Client) - BLOCKING == public(AsyncClient)
    assert public(ServiceMethods) == public(AsyncServiceMethods) == public(Local) - {"module"}
    assert len(RPCS) == 43, "change the number with the methods in clients/python/xlashape_client/methods/"
    assert set(RPCS) == {name for name in vars(AsyncServiceMethods) if not name.startswith("_")}


@pytest.mark.parametrize("name", NAMES)
def test_a_method_has_the_same_signature_and_docstring_in_both(name: str) -> None:
    blocks, awaits = getattr(Client, name), getattr(AsyncClient, name)
    mine, theirs = inspect.signature(blocks), inspect.signature(awaits)
    assert blocks.__name__ == awaits.__name__ == name
    assert blocks.__doc__
    assert awaits.__doc__ == blocks.__doc__
    assert not inspect.iscoroutinefunction(blocks)
    assert inspect.iscoroutinefunction(awaits) == (name not in ITERATORS)
    if name == "send":  # takes asynchronous iterators too
        mine, theirs = (one.replace(parameters=[*one.parameters.values()][:2]) for one in (mine, theirs))
    assert mine.parameters == theirs.parameters
    if name in ITERATORS:
        item = mine.return_annotation.removeprefix("Generator[").removesuffix(", None, None]")
        assert theirs.return_annotation == f"AsyncGenerator[{item}, None]"
    else:
        assert mine.return_annotation == theirs.return_annotation


def test_the_arguments_of_the_clients_are_the_same() -> None:
    mine = inspect.signature(Client).parameters
    theirs = dict(inspect.signature(AsyncClient).parameters)
    del theirs["max_calls"]
    assert list(mine) == list(theirs)
    for name in mine.keys() - {"token"}:  # may also be a coroutine function
        assert mine[name] == theirs[name]


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with Server(Config(address="127.0.0.1:0", workers=1, log_level="error")) as server:
        yield server.address


def outcome(example: doctest.Example, names: dict[str, Any], loop: asyncio.AbstractEventLoop) -> str:
    """What an example prints, which may hold `await`."""
    code = compile(example.source, "<example>", "single", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    printed = io.StringIO()
    with redirect_stdout(printed):
        result = eval(code, names)
        if inspect.iscoroutine(result):
            loop.run_until_complete(result)
    return printed.getvalue()


def awaited(text: str) -> str:
    """Examples with `await` before each call of `client`, and `async` before each loop over its items."""
    text = re.sub(r"\bfor (?=\w+(, \w+)* in client\.)", "async for ", text)
    return re.sub(r"(?<! in )\bclient\.(?=\w+\()", r"await client.", text)


def run_examples(method: Callable[..., Any], client: Any, loop: asyncio.AbstractEventLoop) -> int:
    names = {"client": client, "MODULE": MODULE}
    text = method.__doc__ or ""
    examples = doctest.DocTestParser().get_examples(awaited(text) if isinstance(client, AsyncClient) else text)
    for example in examples:
        assert outcome(example, names, loop) == example.want, example.source
    return len(examples)


@pytest.mark.parametrize("kind", [Client, AsyncClient])
@pytest.mark.parametrize("name", RPCS)
def test_the_examples_of_a_method(address: str, kind: type[Any], name: str) -> None:
    loop = asyncio.new_event_loop()
    client = kind(address)
    assert run_examples(getattr(kind, name), client, loop) > 0
    ended = client.close()
    if ended is not None:
        loop.run_until_complete(ended)
    loop.run_until_complete(loop.shutdown_default_executor())
    loop.close()


def test_all_examples_of_the_files_are_run() -> None:
    folder = Path(xlashape_client.methods.__file__).parent
    written = sum(len(PROMPT.findall(path.read_text(encoding="utf-8"))) for path in folder.glob("*.py"))
    for kind in (Client, AsyncClient):
        assert sum(len(PROMPT.findall(getattr(kind, name).__doc__ or "")) for name in RPCS) == written


def test_a_blocking_call_that_waits_for_an_event_loop_is_a_mistake() -> None:
    class Waiting:
        def __await__(self) -> Generator[None, None, None]:
            yield

    async def waits() -> None:
        await Waiting()

    with pytest.raises(RuntimeError, match="a blocking call has waited for an event loop"):
        finished(waits())


def test_items_are_closed_however_their_iterator_ends() -> None:
    class Counted(Items[int]):
        def __init__(self, parts: list[tuple[int, ...]]) -> None:
            self.parts = parts
            self.closed = 0

        async def begin(self) -> None:
            self.parts.insert(0, ())

        async def part(self) -> tuple[int, ...] | None:
            if self.parts == [(9,)]:
                raise KeyError(9)
            return self.parts.pop(0) if self.parts else None

        async def close(self) -> None:
            self.closed += 1

    made: list[Counted] = []

    class Counting(Methods):
        @iterator
        def counted(self, parts: list[tuple[int, ...]]) -> Items[int]:
            made.append(Counted(parts))
            return made[-1]

    blocks: Any = blocking(type("Blocks", (Counting,), {}))()
    awaits: Any = asynchronous(type("Awaits", (Counting,), {}))()
    assert list(blocks.counted([(1, 2), (), (3,)])) == [1, 2, 3]
    with pytest.raises(KeyError):
        list(blocks.counted([(1,), (9,)]))
    left = blocks.counted([(1,), (2,)])
    assert next(left) == 1
    left.close()

    async def scenario() -> None:
        assert [number async for number in awaits.counted([(1, 2), (), (3,)])] == [1, 2, 3]
        with pytest.raises(KeyError):
            [number async for number in awaits.counted([(1,), (9,)])]
        left: AsyncGenerator[int, None] = awaits.counted([(1,), (2,)])
        assert await anext(left) == 1
        await left.aclose()

    asyncio.run(scenario())
    assert [items.closed for items in made] == [1] * 6


def test_every_result_is_exported() -> None:
    defined = {name for name, each in vars(results).items() if getattr(each, "__module__", "") == results.__name__}
    missing = sorted(name for name in defined if not name.startswith("_") and name not in results.__all__)
    assert not missing, f"not in `__all__` of clients/python/xlashape_client/results.py: {missing}"
