"""Names that were perhaps meant: the end of an error about a name that does not exist.

>>> did_you_mean("fuson.3", ["fusion.3", "fusion.12", "add"])
": did you mean 'fusion.3'?"
>>> did_you_mean("wastd", ["bytes", "wasted_bytes"])
": did you mean 'wasted_bytes'?"
>>> did_you_mean("zzz", ["fusion.3"])
''
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

_MOST_STEMS: Final = 1_000
"""The most different stems (names without the numbers at their end) that are compared, so that an error is as quick as
an answer."""
_MOST_CHARACTERS: Final = 200


def similar(name: str, names: Iterable[str]) -> str | None:
    """The one of `names` that is most like `name`; None if none is like it, or if `name` has more than 200 characters.

    Modules have tens of thousands of names, and few stems: `fusion` of `fusion.3`. The stems are compared, then the
    numbers behind them.
    """
    from difflib import get_close_matches  # for errors only

    if not name or len(name) > _MOST_CHARACTERS:
        return None
    by_stem: dict[str, list[str]] = {}
    for each in names:
        by_stem.setdefault(stem_of(each), []).append(each)
    if len(by_stem) > _MOST_STEMS:
        first = name[:1].lower()
        by_stem = {stem: found for stem, found in by_stem.items() if stem[:1].lower() == first}
    stems = [stem for stem in by_stem if len(stem) <= _MOST_CHARACTERS][:_MOST_STEMS]
    stem = stem_of(name)
    lowered = {each.lower(): each for each in reversed(stems)}
    near = (
        [stem]
        if stem in by_stem
        else [lowered[each] for each in get_close_matches(stem.lower(), list(lowered), 3, 0.7)]
    )
    if not near:  # perhaps a word of a name: `wastd` of `wasted_bytes`
        words = {word: each for each in reversed(stems) for word in each.lower().split("_")}
        return next((by_stem[words[each]][0] for each in get_close_matches(stem.lower(), list(words), 1, 0.7)), None)
    # A similar stem with the same number comes first, then stems that begin with the same letter.
    for each in near:
        if each + name[len(stem) :] in by_stem[each]:
            return each + name[len(stem) :]
    near.sort(key=lambda each: each[:1].lower() != name[:1].lower())
    candidates = by_stem[near[0]]
    closest = get_close_matches(near[0] + name[len(stem) :], candidates[:_MOST_STEMS], 1, 0.0)
    return closest[0] if closest else candidates[0]


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """The end of a message: a question with the name most like `name`; empty if none is like it."""
    found = similar(name, names)
    return "" if found is None else f": did you mean {found!r}?"


def stem_of(name: str) -> str:
    """The name without the numbers at its end: `add` of `add.3.1`. A name may be as long as a whole text, so each
    character is looked at only once.
    """
    end = at = len(name)
    while at > 0:
        at -= 1
        if name[at] in "._" and at + 1 < end:
            end = at
        elif not name[at].isdecimal():
            break
    return name[:end]
