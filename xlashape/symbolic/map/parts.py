"""The parts of an indexing map as plain tuples, and the text of a map. Matches `xla::ParseIndexingMap` and
`xla::ToString`; also reads older spellings.

`IndexingMap` is made of a `MapParts`. Reading text or a proto makes a `MapParts`, and writing them takes one. In normal
form, variables have distinct names, each expression has at most one constraint, and constraints are sorted.

    map       := 'KNOWN EMPTY' | 'UNDEFINED' | '#xla.indexing_map' '<' '"'? plain '"'? '>' | plain
    plain     := '(' names ')' ['[' names ']'] ['{' names '}'] '->' '(' [expr {',' expr}] ')' [',']
                 ['domain' ':' item {sep item} [sep]]
    item      := expr 'in' '[' integer ',' integer ']' [producer] | 'is_simplified' ':' word
    producer  := newline 'hlo:' rest-of-line newline plain-without-domain      a runtime variable of older text
    sep       := ',' | newline
    trailer   := 'runtime variables:' {name ':' instruction ';' map newline}    after the map, as the analysis prints it

Expressions are read and written by `xlashape.symbolic.expr.text`. The domain has an interval for every variable;
further intervals of a variable are intersected. Reading does not recurse.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, NamedTuple, TypeVar

from xlashape.base.math import checked_int64
from xlashape.base.text import Source
from xlashape.errors import InvalidMapError
from xlashape.symbolic.expr import expression as ex
from xlashape.symbolic.expr.expression import Expr, Operand, Variable, VariableKind, const
from xlashape.symbolic.expr.ranges import Interval
from xlashape.symbolic.expr.text import (
    END,
    RESERVED,
    WORD,
    ExpressionReader,
    check_style,
    default_name,
    expression_text,
    is_name,
)
from xlashape.symbolic.simplify.domain import Constraint


class Var(NamedTuple):
    """A variable of a map: its bounds and its name. An empty name means that it prints as d0, s0, rt0, …."""

    bounds: Interval
    name: str = ""


class Producer(NamedTuple):
    """The origin of a runtime variable according to a text: the instruction that produces its value, as written, and
    the map to the element of that instruction, if the text gives it.
    """

    instruction: str
    map: MapParts | None


class MapParts(NamedTuple):
    """The parts of a map. `kind` is "empty" for a map known to be empty and "undefined" for an undefined one.

    `producers` are in the order of the runtime variables. Only the reader of text fills them in.
    """

    kind: Literal["map", "empty", "undefined"] = "map"
    dims: tuple[Var, ...] = ()
    ranges: tuple[Var, ...] = ()
    runtime: tuple[Var, ...] = ()
    results: tuple[Expr, ...] = ()
    constraints: tuple[tuple[Expr, Interval], ...] = ()
    producers: tuple[Producer | None, ...] = ()


def variable_bounds(dims: Iterable[Var], ranges: Iterable[Var], runtime: Iterable[Var]) -> dict[Variable, Interval]:
    """The bounds of the variables of a map."""
    groups = zip(VariableKind, (dims, ranges, runtime), strict=True)
    return {Variable(kind, i): var.bounds for kind, group in groups for i, var in enumerate(group)}


def variable_names(parts: MapParts) -> dict[Variable, str]:
    """The names of those variables of a map that have one."""
    groups = ((VariableKind.DIM, parts.dims), (VariableKind.RANGE, parts.ranges), (VariableKind.RUNTIME, parts.runtime))
    return {Variable(kind, i): var.name for kind, group in groups for i, var in enumerate(group) if var.name}


T = TypeVar("T")


def checked_parts(
    dims: Iterable[Var],
    ranges: Iterable[Var],
    runtime: Iterable[Var],
    results: Iterable[Operand],
    constraints: Iterable[tuple[Operand, Interval | tuple[int, int]]],
) -> MapParts:
    """The arguments of `IndexingMap` as parts. Raises InvalidMapError for what cannot be a map."""
    groups = [
        tuple([var._replace(name="") if var.name == default_name(kind, i) else var for i, var in enumerate(group)])
        for kind, group in zip(VariableKind, map(_checked_variables, (dims, ranges, runtime)), strict=True)
    ]
    expressions = tuple([ex.as_expr(result) for result in checked_list(results, "results")])
    pairs = tuple([_checked_constraint(constraint) for constraint in checked_list(constraints, "constraints")])
    counts = [len(group) for group in groups]
    for variable in ex.variables_of([*expressions, *(expr for expr, _ in pairs)]):
        if variable.index >= counts[variable.kind]:
            raise InvalidMapError(
                f"{variable!r} is not a variable of the map: it has {counts[variable.kind]} of that kind"
            )
    check_names(groups)
    return MapParts("map", groups[0], groups[1], groups[2], expressions, pairs)


def checked_list(values: Iterable[T], field: str) -> list[T]:
    """The values as a list. Raises InvalidMapError if they are not a sequence, which happens in code without types."""
    try:
        return list(values)
    except TypeError:
        raise InvalidMapError(f"{field} takes a sequence, not {type(values).__name__}", field=field) from None


def checked_integers(values: Iterable[int], field: str) -> list[int]:
    """The values as Python integers. Raises InvalidMapError if they are not a sequence of integers; NumPy's integers
    are accepted.
    """
    return [value if value.__class__ is int else const(value).value for value in checked_list(values, field)]


def _checked_variables(group: Iterable[Var]) -> tuple[Var, ...]:
    """Variables with checked bounds; a pair of bounds is a variable without name."""
    variables: list[Var] = []
    for var in checked_list(group, "variables"):
        bounds, name = var if isinstance(var, Var) else (var, "")  # pyright: ignore[reportUnnecessaryIsInstance]  # code without types
        variables.append(Var(_checked_interval(bounds), name))
    return tuple(variables)


def _checked_constraint(constraint: tuple[Operand, Interval | tuple[int, int]]) -> Constraint:
    try:
        expr, interval = constraint
    except (TypeError, ValueError):
        raise InvalidMapError(
            f"a constraint is an expression and an interval, not {constraint!r:.60}", field="constraints"
        ) from None
    return ex.as_expr(expr), _checked_interval(interval)


def _checked_interval(value: Interval | tuple[int, int]) -> Interval:
    try:
        lower, upper = value
    except (TypeError, ValueError):
        raise InvalidMapError(f"an interval is a pair of integers, not {value!r:.60}") from None
    if lower.__class__ is not int or upper.__class__ is not int:
        lower, upper = const(lower).value, const(upper).value
    return Interval(lower, upper)


def check_names(groups: Sequence[tuple[Var, ...]]) -> None:
    """Raises InvalidMapError unless all variables print as different names."""
    names = [var.name for group in groups for var in group]  # a list: `any` over a generator takes three times as long
    if not any(names):
        return
    seen: set[str] = set()
    for kind, group in zip(VariableKind, groups, strict=True):
        for i, var in enumerate(group):
            name = var.name or default_name(kind, i)
            if not is_name(name):
                raise InvalidMapError(f"not a name for a variable: {name!r:.60}")
            if name in seen:
                raise InvalidMapError(f"two variables are named {name!r:.60}")
            seen.add(name)


def distinct_names(groups: Sequence[tuple[Var, ...]]) -> tuple[tuple[Var, ...], tuple[Var, ...], tuple[Var, ...]]:
    """Dimensions, range and runtime variables with distinct names. A name is dropped if an earlier variable has it, or
    if a variable without name would print as it.
    """
    if any(var.name for group in groups for var in group):
        taken = {
            default_name(kind, i) for kind, group in zip(VariableKind, groups, strict=True) for i in range(len(group))
        }
        distinct: list[tuple[Var, ...]] = []
        for group in groups:
            renamed: list[Var] = []
            for var in group:
                renamed.append(var._replace(name="") if var.name in taken else var)
                taken.add(var.name or "")
            distinct.append(tuple(renamed))
        groups = distinct
    return groups[0], groups[1], groups[2]


def normalized(parts: MapParts) -> MapParts:
    """The parts in normal form: one constraint for each expression, sorted. Constraints on variables become bounds.
    Constraints on constants are dropped if they hold.

    The kind becomes "empty" if a constraint on a constant does not hold, or an interval is empty. An empty map has no
    constraints, and its results are 0.
    """
    if parts.kind == "undefined":
        return MapParts("undefined")
    dims, ranges, runtime, constraints = parts.dims, parts.ranges, parts.runtime, parts.constraints
    is_empty = parts.kind == "empty"
    if constraints:
        on_variables: dict[Variable, Interval] = {}
        merged: dict[Expr, Interval] = {}
        for expr, interval in constraints:
            if isinstance(expr, ex.Constant):
                is_empty = is_empty or expr.value not in interval
            elif isinstance(expr, Variable):
                known = on_variables.get(expr)
                on_variables[expr] = interval if known is None else known.intersect(interval)
            else:
                known = merged.get(expr)
                merged[expr] = interval if known is None else known.intersect(interval)
        is_empty = is_empty or any(interval.lower > interval.upper for interval in merged.values())
        if on_variables:
            dims = _narrowed(VariableKind.DIM, dims, on_variables)
            ranges = _narrowed(VariableKind.RANGE, ranges, on_variables)
            runtime = _narrowed(VariableKind.RUNTIME, runtime, on_variables)
        constraints = tuple(
            sorted(merged.items(), key=lambda pair: ex.order_key(pair[0])) if len(merged) > 1 else merged.items()
        )
    for group in (dims, ranges, runtime):
        for (lower, upper), _ in group:
            if lower > upper:
                is_empty = True
    if is_empty:
        return MapParts("empty", dims, ranges, runtime, (const(0),) * len(parts.results))
    if not parts.constraints:
        return parts
    return MapParts("map", dims, ranges, runtime, parts.results, constraints)


def _narrowed(kind: VariableKind, group: tuple[Var, ...], intervals: dict[Variable, Interval]) -> tuple[Var, ...]:
    narrowed: list[Var] = []
    for i, var in enumerate(group):
        interval = intervals.get(Variable(kind, i))
        narrowed.append(var if interval is None else Var(var.bounds.intersect(interval), var.name))
    return tuple(narrowed)


# -- text --------------------------------------------------------------------------------------


# Each of these patterns takes time in proportion to the text, even if it does not match: callers of the service choose
# the text.
_WRAPPER = re.compile(r'\s*#xla\.indexing_map\s*<\s*"?')
_ALONE = re.compile(r"\s*(KNOWN\s+EMPTY|UNDEFINED)\s*\Z")
_TRAILER = re.compile(r"^[ \t]*runtime variables:[ \t]*$", re.MULTILINE)
_TRAILER_LINE = re.compile(r"\s*([A-Za-z_]\w*)\s*:(.*);([^;]*)\Z", re.DOTALL)
_PRODUCER = re.compile(r"^[ \t]*hlo:([^\n]*)$", re.MULTILINE)
_ORDINAL = re.compile(r"(?:d|s|rt)[0-9]+\Z")


def map_text(parts: MapParts, style: str = "xla") -> str:
    """The text of a map on one line. Constraints are sorted by their text. An empty map is `KNOWN EMPTY`, an undefined
    one `UNDEFINED`.
    """
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
        """A producer in older text. Its map has no domain: its dimensions are those of the map that is being read, with
        the same bounds.
        """
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
        """Turns the range variables that have a producer into runtime variables, in the same order: older text lists
        both kinds together.
        """
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
        results, constraints = ex.substitute_in_map(parts.results, parts.constraints, renamed)
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
