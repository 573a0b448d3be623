"""Finds out how the time of a regular expression grows with the length of its text, without measuring seconds.

`ambiguity` finds exponential growth in the automaton alone. Where a repeat can match the same word in two ways and the
rest of the match fails, a backtracking matcher tries all ways, whose number doubles with each word. `ambiguity` treats
lookarounds and anchors such as `^` as always true, so it may refuse a repeat that only these make unambiguous.

`growth` finds slower growth too. It compiles the parse tree of `re` to a program, runs that with a backtracking
matcher, as `re` has one, and counts the steps. Its texts are pumped: they consist of a prefix that leads to a part of
the pattern, many times a word that this part matches, and an end that makes the match fail. A pattern is linear if for
each of these texts twice the length takes at most about twice the steps. Optimisations of `re` that this matcher lacks
(searches for a fixed prefix, runs of one character) change the number of steps by a factor, and not how it grows.
"""

from __future__ import annotations

import random
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from itertools import islice
from typing import Any, NamedTuple, TypeVar

if sys.version_info >= (3, 11):
    from re import _constants as sre  # the parse trees of `re` have no public name
    from re import _parser as sre_parse
else:
    import sre_constants as sre
    import sre_parse

__all__ = ["Growth", "ambiguity", "growth", "steps"]

# A repeat that is bounded by this many repetitions or more counts as one without a bound.
_ENDLESS = 100
# How many words the two texts have whose steps are compared.
_SIZES = (50, 100)
# The most repeats of a pattern that are pumped, and the most positions in it; of more, this many are drawn.
_PARTS = 14
# How many words of each repeat are tried.
_SAMPLES = 4
# The ends after the words.
_FAILURES = ("", "\0", "\n!", "x", " ")
# The most times as many steps for twice the text that count as linear growth; quadratic growth takes 4 times as many.
_LINEAR = 2.6
# Steps for each character: a text that takes at most `_FEW` is always fast, one that takes `_MANY` is always slow.
_FEW, _MANY = 15, 300

_LETTERS = [*map(chr, range(256)), "\u0131", "\u0663", "\u2028", "\u3042"]  # by which classes are compared

Class = Callable[[str], bool]
N = TypeVar("N", int, tuple[int, int])


class Growth(NamedTuple):
    """A text for which a pattern takes too long: the word that is repeated, what is before and after it, and the steps
    for each of the two sizes.
    """

    before: str
    word: str
    after: str
    steps: tuple[int, int]


class TooLongError(Exception):
    """The matcher took more steps than it may."""


def ambiguity(pattern: str | bytes, flags: int = 0) -> str | None:
    """A word that a repeat of the pattern matches in two ways, so that the number of ways doubles with each word; None
    if there is no such word.
    """
    _, program = _program_of(pattern, flags, is_whole=False)
    following = program.following()
    for group in _groups(following, {at: set(ways) for at, ways in following.items()}):
        for at in group:
            for after, ways in following[at].items():
                if ways > 1 and after in group:
                    return program.letters_of(at)[0]
        pairs = {
            (one, other): {
                (min(a, b), max(a, b))
                for a in following[one]
                for b in following[other]
                if a in group and b in group and program.masks[a] & program.masks[b]
            }
            for one in group
            for other in group
            if one <= other and program.masks[one] & program.masks[other]
        }
        for ambiguous in _groups(pairs, pairs):
            parted = [pair for pair in ambiguous if pair[0] != pair[1]]
            if parted and len(parted) < len(ambiguous):
                joined = min(pair for pair in ambiguous if pair[0] == pair[1])
                path = [*_path(pairs, joined, parted[0]), *_path(pairs, parted[0], joined)]
                return "".join(program.letters_of(*pair)[0] for pair in path)
    return None


def growth(pattern: str | bytes, flags: int = 0, *, searches: bool = True, is_whole: bool = False) -> Growth | None:
    """A text for which the steps of a pattern grow faster than the text; None if none is found. `searches`: the pattern
    is searched for at all positions, not matched at one. `is_whole`: nothing may follow the match.
    """
    tree, program = _program_of(pattern, flags, is_whole=is_whole)
    for before, word in _pumps(tree, program):
        for after in _FAILURES:
            texts = [before + word * size + after for size in _SIZES]
            found = (steps(program, texts[0], searches=searches), steps(program, texts[1], searches=searches))
            is_long = found[1] >= _MANY * len(texts[1])
            if is_long or (found[1] > _LINEAR * found[0] and found[1] > _FEW * len(texts[1])):
                return Growth(before, word, after, found)
    return None


def _program_of(pattern: str | bytes, flags: int, *, is_whole: bool) -> tuple[Any, _Program]:
    text = pattern.decode("latin-1") if isinstance(pattern, bytes) else pattern
    if isinstance(pattern, bytes):
        flags |= re.ASCII
    tree = sre_parse.parse(text, flags & ~re.UNICODE)
    if is_whole:
        tree.append((sre.AT, sre.AT_END_STRING))
    return tree, _Program(tree, tree.state.flags | flags)


def _groups(nodes: Iterable[N], after: Mapping[N, set[N]]) -> Iterator[set[N]]:
    """The strongly connected components of a graph; nodes that do not reach themselves are left out."""
    order: list[N] = []
    seen: set[N] = set()
    for root in nodes:
        stack = [(root, iter(after[root]))] if root not in seen else []
        seen.add(root)
        while stack:
            node, rest = stack[-1]
            following = next((each for each in rest if each not in seen), None)
            if following is None:
                order.append(stack.pop()[0])
            else:
                seen.add(following)
                stack.append((following, iter(after[following])))
    before: dict[N, set[N]] = {node: set() for node in order}
    for node in order:
        for each in after[node]:
            before[each].add(node)
    taken: set[N] = set()
    for root in reversed(order):
        if root not in taken:
            group, queue = {root}, [root]
            taken.add(root)
            while queue:
                fresh = before[queue.pop()] - taken
                taken |= fresh
                group |= fresh
                queue.extend(fresh)
            if len(group) > 1 or root in after[root]:
                yield group


def _path(after: Mapping[N, set[N]], start: N, end: N) -> list[N]:
    """The nodes after `start` on a shortest path to `end`."""
    came: dict[N, N] = {}
    queue = [start]
    for node in queue:
        for each in sorted(after[node]):
            if each not in came:
                came[each] = node
                queue.append(each)
    path = [end]
    while came[path[0]] != start:
        path.insert(0, came[path[0]])
    return path


def steps(program: _Program, text: str, *, searches: bool) -> int:
    """The number of steps of matching the text at its beginning, or with `searches` of looking for all matches in it.
    If it takes more than `_MANY` for each character, that many.
    """
    count, most = 0, _MANY * len(text)
    try:
        at = 0
        while at <= len(text):
            taken, end = program.run(text, at, most - count)
            count += taken
            if not searches:
                break
            at = end if end is not None and end > at else at + 1
    except TooLongError:
        return most
    return count


class _Program:
    """A pattern as instructions: (name, argument, argument)."""

    def __init__(self, tree: Any, flags: int) -> None:
        self.flags = flags
        self.code: list[tuple[Any, ...]] = []
        self.marks = 0
        self.masks: dict[int, int] = {}
        self.alphabet = sorted(_letters(tree) | set("a0 _-.\n"))
        self._sequence(tree)
        self.code.append(("end",))

    def run(self, text: str, start: int, most: int) -> tuple[int, int | None]:
        """The steps that matching at `start` takes, and where the match ends. TooLongError if it takes more than
        `most`.
        """
        return self._run(0, text, start, most)

    def following(self) -> dict[int, dict[int, int]]:
        """For each character class of the program, the classes that may come next, each with the number of ways that
        lead to it."""
        self.masks = {
            at: sum(1 << i for i, c in enumerate(_LETTERS) if step[1](c))
            for at, step in enumerate(self.code)
            if step[0] == "class"
        }
        return {at: self._next_classes(at + 1) for at in self.masks}

    def letters_of(self, *classes: int) -> list[str]:
        """The characters that are in all of the classes, printable ones first."""
        return sorted(
            (c for i, c in enumerate(_LETTERS) if all(self.masks[at] >> i & 1 for at in classes)),
            key=lambda c: (not c.isprintable(), c),
        )

    def _next_classes(self, start: int) -> dict[int, int]:
        found: dict[int, int] = {}
        stack: list[tuple[int, frozenset[int]]] = [(start, frozenset())]
        taken = 0
        while stack:
            pc, begun = stack.pop()
            taken += 1
            assert taken < 1_000_000, "too many ways without a character"
            step = self.code[pc]
            if step[0] == "class":
                found[pc] = found.get(pc, 0) + 1
            elif step[0] == "split":
                stack += [(step[1], begun), (step[2], begun)]
            elif step[0] in ("jump", "look"):
                stack.append((step[1], begun))
            elif step[0] == "mark":
                stack.append((pc + 1, begun | {step[1]}))
            elif step[0] == "at" or (step[0] == "moved" and step[1] not in begun):
                stack.append((pc + 1, begun))
        return found

    def _run(self, start_at: int, text: str, start: int, most: int) -> tuple[int, int | None]:
        code, count = self.code, 0
        stack: list[tuple[int, int, tuple[int, ...]]] = [(start_at, start, (-1,) * self.marks)]
        while stack:
            pc, at, marks = stack.pop()
            while True:
                count += 1
                if count > most:
                    raise TooLongError
                step = code[pc]
                name = step[0]
                if name == "class":
                    if at >= len(text) or not step[1](text[at]):
                        break
                    at, pc = at + 1, pc + 1
                elif name == "split":
                    stack.append((step[2], at, marks))
                    pc = step[1]
                elif name == "jump":
                    pc = step[1]
                elif name == "mark":
                    marks = (*marks[: step[1]], at, *marks[step[1] + 1 :])
                    pc += 1
                elif name == "moved":  # a repeat whose body has matched nothing ends
                    if marks[step[1]] == at:
                        break
                    pc += 1
                elif name == "at":
                    if not step[1](text, at):
                        break
                    pc += 1
                elif name == "look":
                    _, after, width, is_negative = step
                    taken, end = (0, None)
                    if at >= width:
                        taken, end = self._run(pc + 1, text, at - width, most - count)
                    count += taken
                    if (end is None) is not is_negative:
                        break
                    pc = after
                else:
                    return count, at
        return count, None

    def _sequence(self, tree: Any) -> None:
        for op, argument in tree:
            self._node(op, argument)

    def _node(self, op: Any, argument: Any) -> None:
        code = self.code
        if op in (sre.LITERAL, sre.NOT_LITERAL, sre.IN, sre.ANY):
            code.append(("class", _class_of(op, argument, self.flags)))
        elif op is sre.SUBPATTERN:
            self._sequence(argument[-1])
        elif op is sre.BRANCH:
            ends: list[int] = []
            for i, branch in enumerate(argument[1]):
                is_last = i == len(argument[1]) - 1
                if not is_last:
                    split = self._hole()
                self._sequence(branch)
                if not is_last:
                    ends.append(self._hole())
                    code[split] = ("split", split + 1, len(code))
            for end in ends:
                code[end] = ("jump", len(code))
        elif op in (sre.MAX_REPEAT, sre.MIN_REPEAT):
            self._repeat(*argument, is_lazy=op is sre.MIN_REPEAT)
        elif op is sre.AT:
            code.append(("at", _place_of(argument, self.flags)))
        elif op in (sre.ASSERT, sre.ASSERT_NOT):
            direction, tree = argument
            look = self._hole()
            self._sequence(tree)
            code.append(("end",))
            width = tree.getwidth()[0] if direction < 0 else 0
            code[look] = ("look", len(code), width, op is sre.ASSERT_NOT)
        else:
            raise NotImplementedError(f"{op} of a regular expression")

    def _repeat(self, least: int, most: int, body: Any, *, is_lazy: bool) -> None:
        code = self.code
        for _ in range(min(least, _ENDLESS)):
            self._sequence(body)
        if most >= _ENDLESS:
            mark, self.marks = self.marks, self.marks + 1
            split = self._hole()
            code.append(("mark", mark))
            self._sequence(body)
            code += [("moved", mark), ("jump", split)]
            targets = (split + 1, len(code))
            code[split] = ("split", *(reversed(targets) if is_lazy else targets))
            return
        splits: list[int] = []
        for _ in range(most - least):
            splits.append(self._hole())
            self._sequence(body)
        for split in splits:
            targets = (split + 1, len(code))
            code[split] = ("split", *(reversed(targets) if is_lazy else targets))

    def _hole(self) -> int:
        self.code.append(())
        return len(self.code) - 1


_CATEGORIES: dict[Any, str] = {
    sre.CATEGORY_DIGIT: r"\d",
    sre.CATEGORY_NOT_DIGIT: r"\D",
    sre.CATEGORY_SPACE: r"\s",
    sre.CATEGORY_NOT_SPACE: r"\S",
    sre.CATEGORY_WORD: r"\w",
    sre.CATEGORY_NOT_WORD: r"\W",
}


def _class_of(op: Any, argument: Any, flags: int) -> Class:
    """A function that says whether a character is in the class of a node of the parse tree."""
    if op is sre.ANY:
        return (lambda _: True) if flags & re.DOTALL else (lambda c: c != "\n")
    known: dict[str, bool] = {}

    def contains(c: str) -> bool:
        if c not in known:
            others = {c, c.lower(), c.upper()} if flags & re.IGNORECASE else {c}
            known[c] = any(_is_in(op, argument, each, flags) for each in others if len(each) == 1)
        return known[c]

    return contains


def _is_in(op: Any, argument: Any, c: str, flags: int) -> bool:
    if op is sre.LITERAL:
        return ord(c) == argument
    if op is sre.NOT_LITERAL:
        return ord(c) != argument
    if op is sre.RANGE:
        return argument[0] <= ord(c) <= argument[1]
    if op is sre.CATEGORY:
        return re.fullmatch(_CATEGORIES[argument], c, flags & re.ASCII) is not None
    is_negative = argument[0][0] is sre.NEGATE
    return any(_is_in(*each, c, flags) for each in argument[is_negative:]) is not is_negative


def _place_of(place: Any, flags: int) -> Callable[[str, int], bool]:
    """A function that says whether an anchor, such as `^` or `\\b`, holds at an offset of a text."""
    if place is sre.AT_BEGINNING and flags & re.MULTILINE:
        return lambda text, at: at == 0 or text[at - 1] == "\n"
    if place is sre.AT_END and flags & re.MULTILINE:
        return lambda text, at: at == len(text) or text[at] == "\n"
    if place in (sre.AT_BEGINNING, sre.AT_BEGINNING_STRING):
        return lambda _, at: at == 0
    if place is sre.AT_END:
        return lambda text, at: at == len(text) or (at == len(text) - 1 and text[at] == "\n")
    if place is sre.AT_END_STRING:
        return lambda text, at: at == len(text)
    word = re.compile(r"\w", flags & re.ASCII)

    def is_boundary(text: str, at: int) -> bool:
        before = at > 0 and word.match(text[at - 1]) is not None
        return before is not (at < len(text) and word.match(text[at]) is not None)

    return is_boundary if place is sre.AT_BOUNDARY else lambda text, at: not is_boundary(text, at)


def _letters(tree: Any) -> set[str]:
    """The characters that a pattern names."""
    found: set[str] = set()
    stack: list[Any] = [tree]
    while stack:
        node = stack.pop()
        if isinstance(node, tuple | list | sre_parse.SubPattern):
            if len(node) == 2 and node[0] in (sre.LITERAL, sre.NOT_LITERAL):
                found.add(chr(node[1]))
            elif len(node) == 2 and node[0] is sre.RANGE:
                found |= {chr(node[1][0]), chr(node[1][1])}
            else:
                stack.extend(node)
    return found


def _pumps(tree: Any, program: _Program) -> Iterator[tuple[str, str]]:
    """Pairs of a prefix and a word to repeat after it. For each repeat of the pattern, the words are texts that it
    matches; for each position in the pattern, the word is a text that leads there.
    """
    seen: set[tuple[str, str]] = set()
    for before, word in _words(tree, program):
        if word and (before, word) not in seen:
            seen.add((before, word))
            yield before, word


def _words(tree: Any, program: _Program) -> Iterator[tuple[str, str]]:
    draw = random.Random(7)
    sample = partial(_sample, program=program, draw=draw)
    repeats: list[tuple[str, Any]] = []

    def visit(nodes: Any, before: str) -> str:
        """Collects the repeats in a sequence that the text `before` leads to. Returns a text that leads behind it."""
        for op, argument in nodes:
            if op is sre.BRANCH:
                for branch in argument[1]:
                    visit(branch, before)
            elif op is sre.SUBPATTERN:
                visit(argument[-1], before)
            elif op in (sre.ASSERT, sre.ASSERT_NOT):
                visit(argument[1], before)
            elif op in (sre.MAX_REPEAT, sre.MIN_REPEAT):
                if argument[1] >= _ENDLESS:
                    repeats.append((before, argument[2]))
                visit(argument[2], before)
            before += sample([(op, argument)], short=True)
            places.append(before)
        return before

    places: list[str] = []
    visit(tree, "")
    repeats = draw.sample(repeats, min(len(repeats), _PARTS))
    places = draw.sample(places, min(len(places), _PARTS))
    bodies = [body for _, body in repeats]
    for before, body in repeats:
        if len(body) == 1 and body[0][0] in (sre.LITERAL, sre.NOT_LITERAL, sre.IN, sre.ANY):
            contains = _class_of(*body[0], program.flags)
            for c in islice(filter(contains, program.alphabet), 12):
                yield before, c
        else:
            for _ in range(_SAMPLES):
                yield before, sample(body, short=False)
            yield before, sample(body, short=True)
        for other in bodies[:6]:
            yield before, sample(body, short=True) + sample(other, short=True)
    for place in places:  # a search tries a match from each
        yield "", place
        yield "", place + "\n"


def _sample(nodes: Any, *, short: bool, program: _Program, draw: random.Random) -> str:
    """A text that a sequence matches, if lookarounds are ignored."""
    out: list[str] = []
    for op, argument in nodes:
        if op in (sre.LITERAL, sre.NOT_LITERAL, sre.IN, sre.ANY):
            fitting = [c for c in program.alphabet if _class_of(op, argument, program.flags)(c)]
            fitting = fitting or [chr(c) for c in range(33, 256) if _class_of(op, argument, program.flags)(chr(c))]
            out.append(draw.choice(fitting) if fitting else "")
        elif op is sre.SUBPATTERN:
            out.append(_sample(argument[-1], short=short, program=program, draw=draw))
        elif op is sre.BRANCH:
            out.append(_sample(draw.choice(argument[1]), short=short, program=program, draw=draw))
        elif op in (sre.MAX_REPEAT, sre.MIN_REPEAT):
            least, most, body = argument
            count = least if short else min(most, least + draw.randrange(3))
            out.extend(_sample(body, short=short, program=program, draw=draw) for _ in range(min(count, 50)))
    return "".join(out)
