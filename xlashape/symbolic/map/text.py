"""Text of indexing maps, written and read. Matches `xla::ParseIndexingMap` and `xla::ToString`; also reads older spellings.

    map       := 'KNOWN EMPTY' | 'UNDEFINED' | '#xla.indexing_map' '<' '"'? plain '"'? '>' | plain
    plain     := '(' names ')' ['[' names ']'] ['{' names '}'] '->' '(' [expr {',' expr}] ')' [','] ['domain' ':' item {sep item} [sep]]
    item      := expr 'in' '[' integer ',' integer ']' [producer] | 'is_simplified' ':' word
    producer  := newline 'hlo:' rest-of-line newline plain-without-domain          a runtime variable among the s of older text
    sep       := ',' | newline
    trailer   := 'runtime variables:' {name ':' instruction ';' map newline}       after the map, as the analysis prints it

Expressions are read and written by `xlashape.symbolic.expr.text`. The domain has an interval for every variable; further intervals of a variable are
intersected. Reading does not recurse.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Mapping
from typing import NamedTuple

from xlashape.math import checked_int64
from xlashape.symbolic.expr.expression import Expr, Variable, VariableKind
from xlashape.symbolic.expr.interval import Interval
from xlashape.symbolic.expr.substitute import substitute
from xlashape.symbolic.expr.text import (
    END,
    RESERVED,
    WORD,
    ExpressionReader,
    check_style,
    default_name,
    expression_text,
)
from xlashape.symbolic.map.parts import MapParts, Producer, Var, variable_names
from xlashape.text import Source

# Each of these takes time in proportion to the text, also where it does not match: callers of the service choose the text.
_WRAPPER = re.compile(r'\s*#xla\.indexing_map\s*<\s*"?')
_ALONE = re.compile(r"\s*(KNOWN\s+EMPTY|UNDEFINED)\s*\Z")
_TRAILER = re.compile(r"^[ \t]*runtime variables:[ \t]*$", re.MULTILINE)
_TRAILER_LINE = re.compile(r"\s*([A-Za-z_]\w*)\s*:(.*);([^;]*)\Z", re.DOTALL)
_PRODUCER = re.compile(r"^[ \t]*hlo:([^\n]*)$", re.MULTILINE)
_ORDINAL = re.compile(r"(?:d|s|rt)[0-9]+\Z")


def map_text(parts: MapParts, style: str = "xla") -> str:
    """The text of a map on one line. Constraints are sorted by their text. An empty map is `KNOWN EMPTY`, an undefined one `UNDEFINED`."""
    check_style(style)
    if parts.kind != "map":
        return "KNOWN EMPTY" if parts.kind == "empty" else "UNDEFINED"
    names = variable_names(parts)

    def printed_names(kind: VariableKind, variables: tuple[Var, ...]) -> list[str]:
        return [var.name or default_name(kind, i) for i, var in enumerate(variables)]

    dims, ranges = printed_names(VariableKind.DIM, parts.dims), printed_names(VariableKind.RANGE, parts.ranges)
    runtime = printed_names(VariableKind.RUNTIME, parts.runtime)
    head = f"({', '.join(dims)})"
    if ranges:
        head += f"[{', '.join(ranges)}]"
    if runtime:
        head += f"{{{', '.join(runtime)}}}"
    text = f"{head} -> ({', '.join([expression_text(result, names, style) for result in parts.results])})"
    domain = [
        f"{name} in {_interval_text(var.bounds)}"
        for name, var in zip(dims + ranges + runtime, parts.dims + parts.ranges + parts.runtime, strict=True)
    ]
    domain += sorted(
        [f"{expression_text(expr, names, style)} in {_interval_text(interval)}" for expr, interval in parts.constraints]
    )
    return f"{text}, domain: {', '.join(domain)}" if domain else text


def _interval_text(interval: Interval) -> str:
    lower, upper = interval
    return f"[{checked_int64(lower, 'a lower bound')}, {checked_int64(upper, 'an upper bound')}]"


def parse_map_parts(text: str) -> MapParts:
    """Reads a map. Raises ParseError with line and column."""
    source = Source(text)
    return _Reader(source, 0, len(source.text)).read()


class _Found(NamedTuple):
    """A producer in older text, with the offsets of its line `hlo:` and of its map, which is the next line."""

    start: int
    instruction: str
    map_start: int
    map_end: int


class _Reader(ExpressionReader):
    """Reads the map between two offsets of a source."""

    def __init__(self, source: Source, start: int, end: int) -> None:
        super().__init__(source)
        self.text = source.text
        self.start = start
        self.end = end
        self.dim_count = 0

    def read(self) -> MapParts:
        """The whole map, with its wrapper, the producers among its domain, and the runtime variables after it."""
        self._unwrap()
        alone = _ALONE.match(self.text, self.start, self.end)
        if alone is not None:
            return MapParts("undefined" if alone.group(1) == "UNDEFINED" else "empty")
        end = self.end
        trailer = _TRAILER.search(self.text, self.start, end)
        if trailer is not None:
            end = trailer.start()
            alone = _ALONE.match(self.text, self.start, end)
            if alone is not None:
                return MapParts("undefined" if alone.group(1) == "UNDEFINED" else "empty")
        producers = self._producers(end)
        at = self.start
        for producer in producers:
            self.tokenize(self.text, at, producer.start)
            at = producer.map_end
        self.tokenize(self.text, at, end)
        self.end_tokens(end)
        parts = self._map(deque(producers))
        if trailer is not None:
            parts = parts._replace(producers=self._trailer(trailer.end()))
        return parts

    def _unwrap(self) -> None:
        """Takes `#xla.indexing_map<"` and `">` away, if they are there."""
        wrapper = _WRAPPER.match(self.text, self.start, self.end)
        if wrapper is None:
            return
        start = wrapper.end()
        inside = self.text[start : self.end].rstrip()
        if inside.endswith(">"):
            inside = inside[:-1].rstrip().removesuffix('"')
            self.start, self.end = start, start + len(inside)

    def _producers(self, end: int) -> list[_Found]:
        """The producers in the lines before the offset `end`."""
        found: list[_Found] = []
        at = self.start
        while (match := _PRODUCER.search(self.text, at, end)) is not None:
            at = match.end() + 1
            line_end = self.text.find("\n", at, end)
            line_end = end if line_end < 0 else line_end
            line = self.text[at:line_end]
            if "->" in line:
                plain = line.rstrip(" \t\r").removesuffix(",")
                found.append(_Found(match.start(), match.group(1).strip(), at, at + len(plain)))
                at += len(line)
        return found

    def _map(self, producers: deque[_Found]) -> MapParts:
        declared: list[list[tuple[str, int]]] = []
        for opening, closing in (("(", ")"), ("[", "]"), ("{", "}")):
            if self.accept(opening):
                declared.append(self._names(closing))
            elif opening == "(":
                self.fail("'(' and the names of the dimensions, 'KNOWN EMPTY' or 'UNDEFINED'")
            else:
                declared.append([])
        for kind, group in zip(VariableKind, declared, strict=True):
            for i, (name, at) in enumerate(group):
                if name in self.names:
                    raise self.source.error(at, f"two variables are named {name!r:.60}")
                self.names[name] = Variable(kind, i)
        self.dim_count = len(declared[0])
        self.expect("->")
        results = self._results()
        self.accept(",")
        bounds: dict[Variable, Interval] = {}
        constraints: list[tuple[Expr, Interval]] = []
        of_producer: dict[Variable, Producer] = {}
        if self.accept("domain"):
            self.expect(":")
            self._domain(bounds, constraints, producers, of_producer)
        if self.kinds[self.at] != END:
            self.fail("the end of the text")
        for group in declared:
            for name, at in group:
                if self.names[name] not in bounds:
                    raise self.source.error(at, f"the domain gives no interval for {name!r:.60}")
        groups = [
            tuple(
                Var(bounds[Variable(kind, i)], "" if name == default_name(kind, i) else name)
                for i, (name, _) in enumerate(group)
            )
            for kind, group in zip(VariableKind, declared, strict=True)
        ]
        parts = MapParts("map", groups[0], groups[1], groups[2], results, tuple(constraints), (None,) * len(groups[2]))
        return self._split_runtime(parts, of_producer) if of_producer else parts

    def _names(self, closing: str) -> list[tuple[str, int]]:
        names: list[tuple[str, int]] = []
        if self.accept(closing):
            return names
        while True:
            if self.kinds[self.at] != WORD or self.tokens[self.at] in RESERVED:
                self.fail("the name of a variable")
            names.append((self.tokens[self.at], self.starts[self.at]))
            self.at += 1
            if self.accept(closing):
                return names
            if not self.accept(","):
                self.fail(f"',' or '{closing}'")

    def _results(self) -> tuple[Expr, ...]:
        self.expect("(")
        results: list[Expr] = []
        if self.accept(")"):
            return ()
        while True:
            results.append(self.expression())
            if self.accept(")"):
                return tuple(results)
            if not self.accept(","):
                self.fail("an operator, ',' or ')'")

    def _domain(
        self,
        bounds: dict[Variable, Interval],
        constraints: list[tuple[Expr, Interval]],
        producers: deque[_Found],
        of_producer: dict[Variable, Producer],
    ) -> None:
        while self.kinds[self.at] != END:
            if self.accept("is_simplified"):
                self.expect(":")
                if self.kinds[self.at] != WORD:
                    self.fail("true or false")
                self.at += 1
            else:
                expr = self.expression()
                if not self.accept("in"):
                    self.fail("an operator or 'in'")
                self.expect("[")
                lower = self.integer()
                self.expect(",")
                interval = Interval(lower, self.integer())
                self.expect("]")
                if isinstance(expr, Variable):
                    known = bounds.get(expr)
                    bounds[expr] = interval if known is None else known.intersect(interval)
                else:
                    constraints.append((expr, interval))
                if producers and producers[0].start < self.starts[self.at]:
                    producer = producers.popleft()
                    if not isinstance(expr, Variable):
                        raise self.source.error(producer.start, "'hlo:' follows the interval of a variable")
                    if expr.kind is VariableKind.DIM:
                        raise self.source.error(producer.start, "a dimension has no producer")
                    of_producer[expr] = self._producer(producer, bounds)
            after = self.source.text[self.starts[self.at - 1] : self.starts[self.at]]
            if not self.accept(",") and self.kinds[self.at] != END and "\n" not in after:
                self.fail("',', a new line or the end of the text")

    def _producer(self, found: _Found, bounds: Mapping[Variable, Interval]) -> Producer:
        """A producer in older text. Its map has no domain: its dimensions are those of the map that is being read, with the same bounds."""
        inner = _Reader(self.source, found.map_start, found.map_end)
        inner.tokenize(inner.text, inner.start, inner.end)
        inner.end_tokens(inner.end)
        inner.expect("(")
        names = inner._names(")")
        dims: list[Var] = []
        for i, (name, at) in enumerate(names):
            variable = self.names.get(name)
            if variable is None or variable != Variable(VariableKind.DIM, i) or variable not in bounds:
                raise self.source.error(at, f"expected the dimensions of the map, found {name!r:.60}")
            inner.names[name] = variable
            dims.append(Var(bounds[variable], "" if name == default_name(VariableKind.DIM, i) else name))
        if len(names) != self.dim_count:
            raise self.source.error(found.map_start, f"expected the {self.dim_count} dimensions of the map")
        inner.expect("->")
        results = inner._results()
        if inner.kinds[inner.at] != END:
            inner.fail("the end of the line")
        return Producer(found.instruction, MapParts("map", tuple(dims), results=results))

    def _split_runtime(self, parts: MapParts, of_producer: Mapping[Variable, Producer]) -> MapParts:
        """Makes range variables that have a producer runtime variables, in their order: older text lists both together."""
        order = [(VariableKind.RANGE, i, var) for i, var in enumerate(parts.ranges)]
        order += [(VariableKind.RUNTIME, i, var) for i, var in enumerate(parts.runtime)]
        renamed: dict[Variable, Expr] = {}
        groups: tuple[list[Var], list[Var]] = ([], [])
        producers: list[Producer | None] = []
        for kind, i, var in order:
            old = Variable(kind, i)
            is_runtime = kind is VariableKind.RUNTIME or old in of_producer
            group = groups[is_runtime]
            renamed[old] = Variable(VariableKind.RUNTIME if is_runtime else VariableKind.RANGE, len(group))
            group.append(var._replace(name="") if _ORDINAL.match(var.name) else var)
            if is_runtime:
                producers.append(of_producer.get(old))
        results = substitute(parts.results, renamed)
        constrained = substitute(tuple([expr for expr, _ in parts.constraints]), renamed)
        constraints = tuple(
            [(expr, interval) for expr, (_, interval) in zip(constrained, parts.constraints, strict=True)]
        )
        return MapParts("map", parts.dims, tuple(groups[0]), tuple(groups[1]), results, constraints, tuple(producers))

    def _trailer(self, start: int) -> tuple[Producer | None, ...]:
        """The producers in the lines after the map."""
        producers: dict[str, Producer] = {}
        at = start
        while at < self.end:
            end = self.text.find("\n", at, self.end)
            end = self.end if end < 0 else end
            line = self.text[at:end]
            if line.strip():
                match = _TRAILER_LINE.match(line)
                if match is None:
                    raise self.source.error(at, "expected a runtime variable as 'name: instruction; map'")
                variable = self.names.get(match.group(1))
                if variable is None or variable.kind is not VariableKind.RUNTIME:
                    raise self.source.error(at + match.start(1), f"no runtime variable is named {match.group(1)!r:.60}")
                inner = _Reader(self.source, at + match.start(3), at + match.end(3))
                producers[match.group(1)] = Producer(match.group(2).strip(), inner.read())
            at = end + 1
        runtime = [name for name, variable in self.names.items() if variable.kind is VariableKind.RUNTIME]
        return tuple(producers.get(name) for name in runtime)
