"""How the arguments of a module are donated to `jax.jit`, in its words.

JAX names each array of a module after the parameter of the function that it was passed for: `x`, `state['m'][0]`,
`params.kernel`. Such a name does not say of which kind the parameter is: `a[0]` may be the first array of a list, or
the first of `*a`; `kw['m']` an array of a dictionary, or the keyword `m` of `**kw`. The order of the arrays says which
number an argument has among those that the program uses: static arguments and unused ones are not in a module. jit
takes `donate_argnames` of a parameter that may be passed by name, and `donate_argnums` of all others, so the advice
names what it depends on.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from xlashape.hlo.module import HloModule

_PATH: Final = re.compile(
    r"""(?P<name>\w+)(?:\[(?P<index>\d+)\]|\['(?P<key>[^']*)'\]|\["(?P<other>[^"]*)"\])?(?:[.\[].*)?"""
)
_MOST_NAMED: Final = 3
"""The most numbers of arguments that a text names."""
_COUNTED: Final = ", not counting static or unused arguments"


class HowToDonate(NamedTuple):
    """How to donate arguments."""

    option: str
    """The option of jax.jit, for parameters that may be passed by name."""
    otherwise: str
    """What to give instead where that is not so, as the end of a sentence; empty where no name is known."""


class _Path(NamedTuple):
    """The first parts of the name of an array."""

    name: str
    element: int | None
    key: str | None


def argument_name(op_name: str) -> str:
    """The parameter of the function that an array was passed for; the whole text where it is no such name.

    >>> argument_name("state.params['w'][0]"), argument_name("x"), argument_name("jit(f)/x")
    ('state', 'x', 'jit(f)/x')
    """
    path = _path(op_name)
    return op_name if path is None else path.name


def how_to_donate(module: HloModule, numbers: Iterable[int]) -> HowToDonate:
    """How to donate the parameters of a module that have these numbers.

    >>> text = 'ENTRY e { x = f32[4] parameter(0), metadata={op_name="%s"} ROOT n = f32[4] negate(x) }'
    >>> for name in "x", "x[0]", "x['m']", "x.m", "":
    ...     how = how_to_donate(HloModule.parse("HloModule m " + text % name), [0])
    ...     print(how.option + how.otherwise.replace(", not counting static or unused arguments", " …"))
    donate_argnames='x'; if f takes x by position only: donate_argnums=0 …
    donate_argnames='x'; if f takes x by position only, or as *x: donate_argnums=0 …
    donate_argnames='x'; if f takes x by position only: donate_argnums=0 …; if as **x: donate_argnames='m'
    donate_argnames='x'; if f takes x by position only: donate_argnums=0 …
    donate_argnums=…
    """
    parameters = module.entry.parameters
    known: list[_Path] = []
    for number in sorted(numbers):
        path = _path(parameters[number].metadata.op_name)
        if path is None or not path.name.isidentifier():
            return HowToDonate("donate_argnums=…", "")
        known.append(path)
    names = [*dict.fromkeys([each.name for each in known])]
    what = names[0] if len(names) == 1 else "one of these"
    every = [_path(each.metadata.op_name) for each in parameters]
    numbered = _numbers(every)
    text = f"; if f takes {what} by position only"
    alone = [numbered[name] for name in names if name in numbered]
    indexed = {each.name for each in known if each.element is not None}
    variadic = next((name for name in names if name in indexed and _may_be_variadic(name, every)), None)
    if len(alone) < len(names):
        text += ": donate_argnums"
    elif variadic is None:
        text += f": donate_argnums={_some(alone)}{_COUNTED}"
    else:
        # What comes after `*name` is passed by keyword.
        first = numbered[variadic]
        before = [number for number in alone if number < first]
        elements = [first + each.element for each in known if each.name == variadic and each.element is not None]
        spread = [*before, *dict.fromkeys(elements)]
        if spread == alone:
            text += f", or as *{variadic}: donate_argnums={_some(alone)}{_COUNTED}"
        else:
            text += f": donate_argnums={_some(alone)}, or {_some(spread)} if as *{variadic}{_COUNTED}"
    keyed = {each.name for each in known if each.key is not None}
    for name in [name for name in names if name in keyed and _may_be_keywords(name, every)]:
        keys = dict.fromkeys([each.key or "" for each in known if each.name == name])
        text += f"; if as **{name}: donate_argnames={_quoted([*keys])}"
    return HowToDonate(f"donate_argnames={_quoted(names)}", text)


def _path(op_name: str) -> _Path | None:
    match = _PATH.fullmatch(op_name)
    if match is None:
        return None
    key = match["other"] if match["key"] is None else match["key"]
    return _Path(match["name"], None if match["index"] is None else int(match["index"]), key)


def _numbers(every: Iterable[_Path | None]) -> dict[str, int]:
    """The parameters of the function → their numbers, counted among those that the program uses. Those behind an array
    without such a name, and one whose arrays do not follow each other, are left out."""
    found: dict[str, int] = {}
    last: str | None = None
    for path in every:
        if path is None or (path.name != last and path.name in found):
            break
        last = path.name
        found.setdefault(last, len(found))
    return found


def _may_be_variadic(name: str, every: Sequence[_Path | None]) -> bool:
    """Whether a parameter may be `*name`. All arguments behind it are passed by keyword then, and JAX sorts those."""
    last = max([number for number, each in enumerate(every) if each is not None and each.name == name])
    return _is_sorted([each.name for each in every[last + 1 :] if each is not None and each.key is None])


def _may_be_keywords(name: str, every: Sequence[_Path | None]) -> bool:
    """Whether a parameter may be `**name`: what is passed for it, and all arguments behind it, is sorted by keyword."""
    first = next(number for number, each in enumerate(every) if each is not None and each.name == name)
    rest = [each for each in every[first:] if each is not None]
    return all(each.name != name or each.key is not None for each in rest) and _is_sorted(
        [(each.key if each.name == name else each.name) or "" for each in rest]
    )


def _is_sorted(texts: Sequence[str]) -> bool:
    return all(before <= after for before, after in pairwise(texts))


def _some(numbers: Sequence[int]) -> str:
    """A number, or a tuple of numbers, as Python writes it."""
    if len(numbers) == 1:
        return str(numbers[0])
    more = "" if len(numbers) <= _MOST_NAMED else f", … {numbers[-1]}"
    return f"({', '.join(map(str, numbers[:_MOST_NAMED]))}{more})"


def _quoted(names: Sequence[str]) -> str:
    return repr(names[0]) if len(names) == 1 else repr(tuple(names))
