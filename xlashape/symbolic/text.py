"""Text of expressions and indexing maps, read and written. Matches `xla::ParseIndexingMap` and `xla::ToString`, and reads older spellings too.

    map       := 'KNOWN EMPTY' | 'UNDEFINED' | '#xla.indexing_map' '<' '"'? plain '"'? '>' | plain
    plain     := '(' names ')' ['[' names ']'] ['{' names '}'] '->' '(' [expr {',' expr}] ')' [','] ['domain' ':' item {sep item} [sep]]
    item      := expr 'in' '[' integer ',' integer ']' [producer] | 'is_simplified' ':' word
    producer  := newline 'hlo:' rest-of-line newline plain-without-domain          a runtime variable among the s of older text
    sep       := ',' | newline
    trailer   := 'runtime variables:' {name ':' instruction ';' map newline}       after the map, as the analysis prints it
    expr      := product {('+' | '-') product}
    product   := unary {('*' | '/' | 'floordiv' | 'ceildiv' | 'mod') unary}
    unary     := '-' unary | integer | name | '(' expr ')' | ('min' | 'max') '(' expr ',' expr ')'

Every variable has its interval in the domain; further intervals of the same variable narrow it. Reading takes no stack, however deep the text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, NoReturn

from xlashape.errors import InvalidArgumentError, InvalidMapError
from xlashape.math import checked_int64
from xlashape.symbolic.expr import (
    Add,
    Binary,
    CeilDiv,
    Constant,
    Expr,
    FloorDiv,
    Max,
    Min,
    Mod,
    Mul,
    Variable,
    VariableKind,
    sum_terms,
)
from xlashape.symbolic.folding import add, ceil_div, floor_div, maximum, minimum, modulo, multiply
from xlashape.symbolic.interval import Interval
from xlashape.symbolic.substitute import substitute
from xlashape.text.source import Source

__all__ = ["MapParts", "Producer", "Var", "default_name", "expression_text", "map_text", "parse_map_parts"]

_PREFIX = {VariableKind.DIM: "d", VariableKind.RANGE: "s", VariableKind.RUNTIME: "rt"}
_STYLES: dict[str, dict[type[Expr], str]] = {
    "xla": {Mul: " * ", Mod: " mod ", FloorDiv: " / ", CeilDiv: " ceildiv "},
    "affine": {Mul: " * ", Mod: " mod ", FloorDiv: " floordiv ", CeilDiv: " ceildiv "},
}
_READ: dict[str, tuple[int, Callable[[Expr, Expr], Expr]]] = {
    "+": (1, add),
    "-": (1, lambda a, b: add(a, multiply(b, -1))),
    "*": (2, multiply),
    "/": (2, floor_div),
    "floordiv": (2, floor_div),
    "ceildiv": (2, ceil_div),
    "mod": (2, modulo),
}
_FUNCTIONS = {"min": minimum, "max": maximum}
_RESERVED = frozenset({"min", "max", "mod", "floordiv", "ceildiv", "in", "domain"})
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_NEGATE = 3  # precedence of a leading minus: it binds to its operand alone


class Var(NamedTuple):
    """A variable of a map: its bounds, and its name if it has one of its own (else it prints as d0, s0, rt0, …)."""

    bounds: Interval
    name: str = ""


class Producer(NamedTuple):
    """Where text says that a runtime variable comes from: the instruction as written, and the map to its element, if given."""

    instruction: str
    map: MapParts | None


class MapParts(NamedTuple):
    """A map as text gives it. `kind` is "map", "empty" or "undefined"; `producers` stand in the order of the runtime variables."""

    kind: str = "map"
    dims: tuple[Var, ...] = ()
    ranges: tuple[Var, ...] = ()
    runtime: tuple[Var, ...] = ()
    results: tuple[Expr, ...] = ()
    constraints: tuple[tuple[Expr, Interval], ...] = ()
    producers: tuple[Producer | None, ...] = ()


def default_name(kind: VariableKind, index: int) -> str:
    """How a variable without a name of its own prints: d0, s0, rt0."""
    return f"{_PREFIX[kind]}{index}"


def is_name(name: str) -> bool:
    """Whether a variable may be called so."""
    return _NAME.fullmatch(name) is not None and name not in _RESERVED


# -- printing ---------------------------------------------------------------------------------------------------------------------


def expression_text(expr: Expr, names: Mapping[Variable, str] | None = None, style: str = "xla") -> str:
    """The text of an expression; `names` are the variables' names where they differ from d0, s0, rt0.

    >>> from xlashape.symbolic.expr import dim
    >>> expression_text((dim(1) % 2) * 4 - dim(0) // 8 * 3 + 1)
    '(d1 mod 2) * 4 - (d0 / 8) * 3 + 1'
    """
    operators = _STYLES.get(style)
    if operators is None:
        raise InvalidArgumentError(f"style is one of {', '.join(sorted(_STYLES))}, not {style!r:.40}")
    names = names or {}
    out: list[str] = []
    stack: list[Expr | str] = [expr]
    while stack:
        node = stack.pop()
        if isinstance(node, str):
            out.append(node)
        elif isinstance(node, Variable):
            out.append(names.get(node) or f"{_PREFIX[node.kind]}{node.index}")
        elif isinstance(node, Constant):
            out.append(str(checked_int64(node.value, "a constant of an expression")))
        else:
            parts = _sum_parts(node) if isinstance(node, Add) else _term_parts(node, operators)
            parts.reverse()
            stack.extend(parts)
    return "".join(out)


Expr.printer = expression_text


def _sum_parts(node: Expr) -> list[Expr | str]:
    parts: list[Expr | str] = []
    for term in sum_terms(node):
        if not parts:
            parts.append(term)
        elif isinstance(term, Constant) and term.value < 0:
            parts.append(f" - {-term.value}")
        elif isinstance(term, Mul) and isinstance(term.rhs, Constant) and term.rhs.value < 0:
            parts.append(" - ")
            if term.rhs.value == -1:
                parts.extend(_parenthesised(term.lhs) if isinstance(term.lhs, Add) else (term.lhs,))
            else:
                parts.extend(_left(term.lhs, Mul))
                parts.append(f" * {-term.rhs.value}")
        else:
            parts.append(" + ")
            parts.append(term)
    return parts


def _term_parts(node: Expr, operators: Mapping[type[Expr], str]) -> list[Expr | str]:
    assert isinstance(node, Binary)
    if isinstance(node, Min | Max):
        return ["min(" if isinstance(node, Min) else "max(", node.lhs, ", ", node.rhs, ")"]
    if _is_negation(node):
        operand = node.lhs
        bare = isinstance(operand, Variable | Min | Max) or (isinstance(operand, Mul) and not _is_negation(operand))
        return ["-", operand] if bare else ["-", *_parenthesised(operand)]
    parts = _left(node.lhs, node.__class__)
    parts.append(operators[node.__class__])
    parts.extend(
        (node.rhs,) if not isinstance(node.rhs, Binary) or isinstance(node.rhs, Min | Max) else _parenthesised(node.rhs)
    )
    return parts


def _left(operand: Expr, operator: type[Expr]) -> list[Expr | str]:
    """The left operand of an operator that binds like a product."""
    if isinstance(operand, Add):
        return _parenthesised(operand)
    if isinstance(operand, Mul | Mod | FloorDiv | CeilDiv) and operand.__class__ is not operator:
        if not (_is_negation(operand) and not isinstance(operand.lhs, Mul)):
            return _parenthesised(operand)
    return [operand]


def _is_negation(node: Expr) -> bool:
    return isinstance(node, Mul) and isinstance(node.rhs, Constant) and node.rhs.value == -1


def _parenthesised(node: Expr) -> list[Expr | str]:
    return ["(", node, ")"]


def variable_names(parts: MapParts) -> dict[Variable, str]:
    """The names of the variables of a map that have one of their own."""
    groups = ((VariableKind.DIM, parts.dims), (VariableKind.RANGE, parts.ranges), (VariableKind.RUNTIME, parts.runtime))
    return {Variable(kind, i): var.name for kind, group in groups for i, var in enumerate(group) if var.name}


def map_text(parts: MapParts, style: str = "xla") -> str:
    """The text of a map on one line; `KNOWN EMPTY` and `UNDEFINED` stand alone. Constraints are sorted as strings."""
    if style not in _STYLES:
        raise InvalidArgumentError(f"style is one of {', '.join(sorted(_STYLES))}, not {style!r:.40}")
    if parts.kind != "map":
        return "KNOWN EMPTY" if parts.kind == "empty" else "UNDEFINED"
    named = variable_names(parts)

    def listed(kind: VariableKind, variables: tuple[Var, ...]) -> list[str]:
        return [var.name or default_name(kind, i) for i, var in enumerate(variables)]

    dims, ranges = listed(VariableKind.DIM, parts.dims), listed(VariableKind.RANGE, parts.ranges)
    runtime = listed(VariableKind.RUNTIME, parts.runtime)
    head = f"({', '.join(dims)})"
    if ranges:
        head += f"[{', '.join(ranges)}]"
    if runtime:
        head += f"{{{', '.join(runtime)}}}"
    text = f"{head} -> ({', '.join([expression_text(result, named, style) for result in parts.results])})"
    domain = [
        f"{name} in {_interval_text(var.bounds)}"
        for name, var in zip(dims + ranges + runtime, parts.dims + parts.ranges + parts.runtime, strict=True)
    ]
    domain += sorted(
        [f"{expression_text(expr, named, style)} in {_interval_text(interval)}" for expr, interval in parts.constraints]
    )
    return f"{text}, domain: {', '.join(domain)}" if domain else text


def _interval_text(interval: Interval) -> str:
    lower, upper = interval
    return f"[{checked_int64(lower, 'a lower bound')}, {checked_int64(upper, 'an upper bound')}]"


# -- reading ----------------------------------------------------------------------------------------------------------------------

_TOKEN = re.compile(r"[ \t\r\n]*(?:([0-9]+)|([A-Za-z_][A-Za-z0-9_]*)|(->|[-+*/(),\[\]{}:])|($)|(.))", re.DOTALL)
_NUMBER, _WORD, _SIGN, _END, _OTHER = 1, 2, 3, 4, 5
_WRAPPER = re.compile(r'\s*#xla\.indexing_map\s*<\s*"?(.*?)"?\s*>\s*\Z', re.DOTALL)
_ALONE = re.compile(r"\s*(KNOWN\s+EMPTY|UNDEFINED)\s*\Z")
_TRAILER = re.compile(r"^[ \t]*runtime variables:[ \t]*$", re.MULTILINE)
_TRAILER_LINE = re.compile(r"\s*([A-Za-z_]\w*)\s*:(.*);([^;]*)\Z", re.DOTALL)
_PRODUCER = re.compile(r"^[ \t]*hlo:([^\n]*)\n([^\n]*->[^\n]*?),?[ \t\r]*$", re.MULTILINE)
_ORDINAL = re.compile(r"(?:d|s|rt)[0-9]+\Z")


def parse_map_parts(text: str) -> MapParts:
    """Reads a map. Raises ParseError with line and column."""
    source = Source(text)
    return _Reader(source, 0, len(source.text)).read()


class _Reader:
    """Reads the map that stands between two offsets of a source."""

    def __init__(self, source: Source, start: int, end: int) -> None:
        self.source = source
        self.text = source.text if end == len(source.text) else source.text[:end]
        self.start = start
        self.kinds: list[int] = []
        self.tokens: list[str] = []
        self.starts: list[int] = []
        self.at = 0
        self.names: dict[str, Variable] = {}

    def read(self) -> MapParts:
        wrapper = _WRAPPER.match(self.text, self.start)
        if wrapper is not None:
            self.text, self.start = self.text[: wrapper.end(1)], wrapper.start(1)
        alone = _ALONE.match(self.text, self.start)
        if alone is not None:
            return MapParts("undefined" if alone.group(1) == "UNDEFINED" else "empty")
        end = len(self.text)
        trailer = _TRAILER.search(self.text, self.start)
        if trailer is not None:
            end = trailer.start()
        producers = list(_PRODUCER.finditer(self.text, self.start, end)) if "hlo:" in self.text else []
        body = self.text[:end]
        for match in producers:
            body = body[: match.start()] + re.sub(r"[^\n]", " ", match.group()) + body[match.end() :]
        if trailer is not None and _ALONE.match(body, self.start):
            return MapParts("undefined" if "UNDEFINED" in body[self.start :] else "empty")
        self._tokenize(body)
        parts = self._map(producers)
        if trailer is not None:
            parts = parts._replace(producers=self._trailer(trailer.end()))
        return parts

    # Tokens

    def _tokenize(self, text: str) -> None:
        kinds, tokens, starts = self.kinds, self.tokens, self.starts
        for match in _TOKEN.finditer(text, self.start):
            kind = match.lastindex or _END
            kinds.append(kind)
            tokens.append(match.group(kind) or "")
            starts.append(match.start(kind))
            if kind == _END:
                break

    def fail(self, expected: str) -> NoReturn:
        token = self.tokens[self.at]
        found = repr(token[:40]) if token else "the end of the text"
        raise self.source.error(
            self.starts[self.at], f"expected {expected}, found {found}", expected=expected, found=found
        )

    def accept(self, token: str) -> bool:
        if self.tokens[self.at] == token:
            self.at += 1
            return True
        return False

    def expect(self, token: str) -> None:
        if not self.accept(token):
            self.fail(f"'{token}'")

    def integer(self) -> int:
        negative = self.accept("-")
        if self.kinds[self.at] != _NUMBER:
            self.fail("an integer")
        value = self._number(negative)
        return -value if negative else value

    def _number(self, negative: bool = False) -> int:
        digits = self.tokens[self.at]
        if len(digits) > 18 and (len(digits.lstrip("0")) > 19 or int(digits) > (1 << 63) - (not negative)):
            raise self.source.error(
                self.starts[self.at], f"{digits[:24]}{'…' if len(digits) > 24 else ''} does not fit int64"
            )
        self.at += 1
        return int(digits)

    # The map

    def _map(self, producers: Sequence[re.Match[str]]) -> MapParts:
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
        self.expect("->")
        results = self._results()
        self.accept(",")
        bounds: dict[Variable, Interval] = {}
        constraints: list[tuple[Expr, Interval]] = []
        of_producer: dict[Variable, Producer] = {}
        if self.accept("domain"):
            self.expect(":")
            self._domain(bounds, constraints, list(producers), of_producer)
        if self.kinds[self.at] != _END:
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
            if self.kinds[self.at] != _WORD or self.tokens[self.at] in _RESERVED:
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
            results.append(self._expression())
            if self.accept(")"):
                return tuple(results)
            if not self.accept(","):
                self.fail("an operator, ',' or ')'")

    def _domain(
        self,
        bounds: dict[Variable, Interval],
        constraints: list[tuple[Expr, Interval]],
        producers: list[re.Match[str]],
        of_producer: dict[Variable, Producer],
    ) -> None:
        while self.kinds[self.at] != _END:
            if self.accept("is_simplified"):
                self.expect(":")
                self.at += 1
            else:
                expr = self._expression()
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
                if producers and producers[0].start() < self.starts[self.at]:
                    match = producers.pop(0)
                    if not isinstance(expr, Variable):
                        raise self.source.error(match.start(), "'hlo:' follows the interval of a variable")
                    if expr.kind is VariableKind.DIM:
                        raise self.source.error(match.start(), "a dimension has no producer")
                    of_producer[expr] = self._producer(match, bounds)
            after = self.source.text[self.starts[self.at - 1] : self.starts[self.at]]
            if not self.accept(",") and self.kinds[self.at] != _END and "\n" not in after:
                self.fail("',', a new line or the end of the text")

    def _producer(self, match: re.Match[str], bounds: Mapping[Variable, Interval]) -> Producer:
        """A producer of older text: its map has no domain of its own, its dimensions are those of the map."""
        dims = {name: variable for name, variable in self.names.items() if variable.kind is VariableKind.DIM}
        inner = _Reader(self.source, match.start(2), match.end(2))
        inner._tokenize(inner.text)
        inner.expect("(")
        for i, (name, at) in enumerate(inner._names(")")):
            if dims.get(name) is None or dims[name].index != i or dims[name] not in bounds:
                raise self.source.error(at, f"expected the dimensions of the map, found {name!r:.60}")
            inner.names[name] = dims[name]
        inner.expect("->")
        results = inner._results()
        if inner.kinds[inner.at] != _END:
            inner.fail("the end of the line")
        variables = tuple(
            Var(bounds[variable], "" if name == default_name(VariableKind.DIM, variable.index) else name)
            for name, variable in dims.items()
        )
        return Producer(match.group(1).strip(), MapParts("map", variables, results=results))

    def _split_runtime(self, parts: MapParts, of_producer: Mapping[Variable, Producer]) -> MapParts:
        """Older text lists runtime variables among the ranges: those with a producer become runtime variables, in order."""
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
        found: dict[str, Producer] = {}
        at = start
        while at < len(self.text):
            end = self.text.find("\n", at)
            end = len(self.text) if end < 0 else end
            line = self.text[at:end]
            if line.strip():
                match = _TRAILER_LINE.match(line)
                if match is None:
                    raise self.source.error(at, "expected a runtime variable as 'name: instruction; map'")
                variable = self.names.get(match.group(1))
                if variable is None or variable.kind is not VariableKind.RUNTIME:
                    raise self.source.error(at + match.start(1), f"no runtime variable is named {match.group(1)!r:.60}")
                inner = _Reader(self.source, at + match.start(3), at + match.end(3))
                found[match.group(1)] = Producer(match.group(2).strip(), inner.read())
            at = end + 1
        runtime = [name for name, variable in self.names.items() if variable.kind is VariableKind.RUNTIME]
        return tuple(found.get(name) for name in runtime)

    # Expressions: operators wait on a stack until one that binds less follows.

    def _expression(self) -> Expr:
        kinds, tokens, names = self.kinds, self.tokens, self.names
        operands: list[Expr] = []
        waiting: list[tuple[int, str, int]] = []  # (precedence, operator, where); 0 is an opening parenthesis
        while True:
            # An operand is due.
            token, kind = tokens[self.at], kinds[self.at]
            if kind == _NUMBER:
                operands.append(Constant(self._number()))
            elif kind == _WORD:
                if token in _FUNCTIONS:
                    waiting.append((0, token, self.at))
                    self.at += 1
                    self.expect("(")
                    continue
                variable = names.get(token)
                if variable is None:
                    if token in _RESERVED:
                        self.fail("an expression")
                    raise self.source.error(self.starts[self.at], f"no variable is named {token!r:.60}")
                operands.append(variable)
                self.at += 1
            elif token == "-":
                waiting.append((_NEGATE, token, self.at))
                self.at += 1
                continue
            elif token == "(":
                waiting.append((0, token, self.at))
                self.at += 1
                continue
            else:
                self.fail("an expression")
            # An operator, a closing parenthesis or the end is due.
            while True:
                token = tokens[self.at]
                operator = _READ.get(token)
                precedence = 0 if operator is None else operator[0]
                while waiting and waiting[-1][0] >= max(precedence, 1):
                    self._apply(waiting.pop(), operands)
                if operator is not None:
                    waiting.append((precedence, token, self.at))
                    self.at += 1
                    break
                if not waiting:
                    return operands[0]
                opened = waiting[-1][1]
                if opened in ("min", "max") and token == ",":
                    waiting[-1] = (0, "," + opened, waiting[-1][2])
                    self.at += 1
                    break
                if opened in ("min", "max"):
                    self.fail("an operator or ','")
                if token != ")":
                    self.fail("an operator or ')'")
                self.at += 1
                waiting.pop()
                if opened != "(":
                    b = operands.pop()
                    operands.append(_FUNCTIONS[opened[1:]](operands.pop(), b))

    def _apply(self, operator: tuple[int, str, int], operands: list[Expr]) -> None:
        precedence, token, at = operator
        try:
            if precedence == _NEGATE:
                operands.append(multiply(operands.pop(), -1))
                return
            right = operands.pop()
            operands.append(_READ[token][1](operands.pop(), right))
        except InvalidMapError as error:
            raise self.source.error(self.starts[at], error.message) from None
