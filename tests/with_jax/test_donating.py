"""What `memory` says about donating an argument, followed: of functions of every kind of signature, jax.jit takes what
is said, and XLA aliases what was promised."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import partial
from itertools import product
from typing import Any, NamedTuple

import pytest

import xlashape as xs

jax = pytest.importorskip("jax", reason="JAX is not installed")
if tuple(int(part) for part in jax.__version_info__[:2]) < (0, 7):
    pytest.skip("older versions name arguments in other ways", allow_module_level=True)

import jax.numpy as jnp  # noqa: E402 - it needs JAX

BEFORE = {"": (), "s, ": ("static",), "u, ": ("unused",), "b, ": ("used",), "s, u, b, ": ("static", "unused", "used")}
"""The parameters before the one that is donated → what is passed for them."""
AFTER = ("", "c", "z")
"""What comes after: nothing, or an argument by keyword that is sorted before or after keys of the donated one."""
KINDS = {"x": "named", "x, /": "position", "*, x": "named", "*x": "variadic", "**x": "keywords"}
TREES: dict[str, Any] = {
    "array": lambda make: make(),
    "list": lambda make: [make(), make()],
    "dict": lambda make: {"m": make(), "d": [make()]},
    "tuple": lambda make: (make(), {"k": make()}),
}


class Case(NamedTuple):
    """A function that returns what is passed for `x`, changed, and the arguments to lower it with."""

    parameters: str
    kind: str
    function: Any
    arguments: tuple[Any, ...]
    keywords: dict[str, Any]
    static: tuple[int, ...]
    uncounted: int
    """The static and unused arguments before `x`."""


def array() -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct((16, 16), jnp.float32)


def cases() -> Iterator[Case]:
    for (before, given), (form, kind), after, tree, form_of in product(
        BEFORE.items(), KINDS.items(), AFTER, TREES, ("function", "partial", "method")
    ):
        if kind == "keywords" and after:  # `**x` comes last
            parameters = f"{before}*, {after}, {form}"
        elif after and kind != "variadic" and "*" not in form:
            parameters = f"{before}{form}, *, {after}"
        else:
            parameters = f"{before}{form}" + (f", {after}" if after else "")
        if form_of != "function" and tree != "dict":
            continue
        used = [name for name in ("b", "c", "z") if f"{name}," in f"{before}{after},"]
        body = f"jax.tree.map(lambda y: y + 1, x), {' + '.join([*used, '0']) if used else 0}"
        scope: dict[str, Any] = {"jax": jax}
        owner = {"function": "", "partial": "p, ", "method": "self, "}[form_of]
        exec(f"def f({owner}{parameters}): return {body}", scope)
        function = scope["f"]
        if form_of == "partial":
            function = partial(function, 1)
        elif form_of == "method":
            function = type("T", (), {"f": function})().f
        value = TREES[tree](array)
        scalar = jax.ShapeDtypeStruct((), jnp.float32)
        arguments = [3 if what == "static" else scalar for what in given]
        keywords = {after: scalar} if after else {}
        uncounted = sum(what != "used" for what in given)
        if kind == "variadic":
            arguments += [value, TREES["array"](array), value]
        elif kind == "keywords":
            keywords |= {"m": value, "d": TREES["array"](array)}
        elif form == "*, x":
            keywords["x"] = value
        else:
            arguments.append(value)
        static = tuple([number for number, what in enumerate(given) if what == "static"])
        yield Case(
            f"{form_of} {owner}{parameters} of {tree}", kind, function, (*arguments,), keywords, static, uncounted
        )


def followed(case: Case, text: str) -> dict[str, Any]:
    """The option of jax.jit that a reader takes from the text, who knows the function's signature."""
    if case.kind == "keywords":
        return {"donate_argnames": ast.literal_eval(text.partition("if as **x: donate_argnames=")[2])}
    if case.kind == "named":
        found = re.search(r"^jax\.jit\(f, donate_argnames=(.*?)\)[,: ]", text)
        return {"donate_argnames": ast.literal_eval(found[1])}
    found = re.search(
        r"if f takes x by position only(?:, or as \*x)?: donate_argnums=(\d+|\(.*?\))(?:, or (\d+|\(.*?\)) if as \*x)?"
        r", not counting static or unused arguments(?:;|$)",
        text,
    )
    numbers = ast.literal_eval(found[1] if case.kind == "position" else found[2] or found[1])
    counted = (numbers,) if isinstance(numbers, int) else numbers
    return {"donate_argnums": tuple([number + case.uncounted for number in counted])}


CASES = [*cases()]


@pytest.mark.parametrize("part", range(4))
def test_donations_alias_what_they_promise(part: int):
    """Every kind of signature, with what is static, unused, nested, bound and passed by keyword."""
    for case in CASES[part::4]:
        jitted = jax.jit(case.function, static_argnums=case.static)
        compiled = jitted.lower(*case.arguments, **case.keywords).compile()
        (found,) = [each for each in xs.memory(compiled).suggest() if each.change == "donate"]
        options = followed(case, found.text)
        donating = jax.jit(case.function, static_argnums=case.static, **options)
        again = donating.lower(*case.arguments, **case.keywords).compile()
        assert again.memory_analysis().alias_size_in_bytes == 16 * 16 * 4 * len(found.parameters), (case, found.text)


def test_there_are_cases_of_every_kind():
    assert len(CASES) == 450
    assert {case.kind for case in CASES} == {*KINDS.values()}
