"""Writes expressions as text, and reads them from text. Matches `xla::ToString` and `xla::ParseIndexingMap`, and also
handles the affine spelling, in which floor division is `floordiv` instead of `/`.

    expr      := product {('+' | '-') product}
    product   := unary {('*' | '/' | 'floordiv' | 'ceildiv' | 'mod') unary}
    unary     := '-' unary | integer | name | '(' expr ')' | ('min' | 'max') '(' expr ',' expr ')'

Neither reading nor writing recurses, so that deep expressions take no stack.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import NamedTuple, NoReturn

from xlashape.base.math import checked_int64
from xlashape.base.text import Source
from xlashape.errors import InvalidArgumentError, InvalidMapError
from xlashape.limits import spend
from xlashape.symbolic.expr import expression as ex
from xlashape.symbolic.expr.expression import Binary, Constant, Expr, Variable, VariableKind


class _Operator(NamedTuple):
    precedence: int
    build: Callable[[Expr, Expr], Expr]
    node: type[Expr]
    styles: tuple[str, ...]
    """The styles of text that write this token for `node`. Empty for sums, whose token depends on the sign of the
    term.
    """


def _subtract(lhs: Expr, rhs: Expr) -> Expr:
    return ex.add(lhs, ex.multiply(rhs, -1))


_BOTH_STYLES = ("xla", "affine")
_OPERATORS: dict[str, _Operator] = {
    "+": _Operator(1, ex.add, ex.Add, ()),
    "-": _Operator(1, _subtract, ex.Add, ()),
    "*": _Operator(2, ex.multiply, ex.Mul, _BOTH_STYLES),
    "/": _Operator(2, ex.floor_div, ex.FloorDiv, ("xla",)),
    "floordiv": _Operator(2, ex.floor_div, ex.FloorDiv, ("affine",)),
    "ceildiv": _Operator(2, ex.ceil_div, ex.CeilDiv, _BOTH_STYLES),
    "mod": _Operator(2, ex.modulo, ex.Mod, _BOTH_STYLES),
}
# The least int64. It is written as "+ -9223372036854775808": the number without its sign does not fit int64.
_LEAST = -(1 << 63)
# The precedence of a leading minus, which binds tighter than all operators.
_NEGATE = 3
_FUNCTIONS = {"min": ex.minimum, "max": ex.maximum}
_STYLES: dict[str, dict[type[Expr], str]] = {
    style: {operator.node: f" {token} " for token, operator in _OPERATORS.items() if style in operator.styles}
    for style in _BOTH_STYLES
}

_PREFIX = {VariableKind.DIM: "d", VariableKind.RANGE: "s", VariableKind.RUNTIME: "rt"}
RESERVED = frozenset({"min", "max", "mod", "floordiv", "ceildiv", "in", "domain"})
"""Words that cannot be names of variables."""

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_TOKEN = re.compile(r"[ \t\r\n]*(?:([0-9]+)|([A-Za-z_][A-Za-z0-9_]*)|(->|[-+*/(),\[\]{}:])|($)|(.))", re.DOTALL)
# The kinds of tokens, as numbers of groups in _TOKEN.
_NUMBER, WORD, END = 1, 2, 4
# The number of tokens between two checks of the budget.
_TOKENS_AT_ONCE = 128
# The steps of the budget that reading a token takes: some microseconds.
_READING_STEPS = 2


def default_name(kind: VariableKind, index: int) -> str:
    """The text of a variable without a name: d0, s0, rt0."""
    return f"{_PREFIX[kind]}{index}"


def is_name(name: str) -> bool:
    """Whether `name` may be the name of a variable."""
    return _NAME.fullmatch(name) is not None and name not in RESERVED


def check_style(style: str) -> None:
    """Raises InvalidArgumentError for a style of text that does not exist."""
    if style not in _STYLES:
        raise InvalidArgumentError(f"style is one of {', '.join(sorted(_STYLES))}, not {style!r:.40}")


def expression_text(expr: Expr, names: Mapping[Variable, str] | None = None, style: str = "xla") -> str:
    """The text of an expression. `names` holds the names of variables that do not print as d0, s0, rt0.

    >>> from xlashape.symbolic.expr.expression import dim
    >>> expression_text((dim(1) % 2) * 4 - dim(0) // 8 * 3 + 1)
    '(d1 mod 2) * 4 - (d0 / 8) * 3 + 1'
    """
    check_style(style)
    operators = _STYLES[style]
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
            parts = _sum_parts(node) if isinstance(node, ex.Add) else _term_parts(node, operators)
            parts.reverse()
            stack.extend(parts)
    return "".join(out)


Expr.to_text = expression_text


def _sum_parts(node: Expr) -> list[Expr | str]:
    parts: list[Expr | str] = []
    for term in ex.sum_terms(node):
        if not parts:
            parts.append(term)
        elif isinstance(term, Constant) and _LEAST < term.value < 0:
            parts.append(f" - {-term.value}")
        elif isinstance(term, ex.Mul) and isinstance(term.rhs, Constant) and _LEAST < term.rhs.value < 0:
            parts.append(" - ")
            if term.rhs.value == -1:
                parts.extend(_parenthesised(term.lhs) if isinstance(term.lhs, ex.Add) else (term.lhs,))
            else:
                parts.extend(_left(term.lhs, ex.Mul))
                parts.append(f" * {-term.rhs.value}")
        else:
            parts.append(" + ")
            parts.append(term)
    return parts


def _term_parts(node: Expr, operators: Mapping[type[Expr], str]) -> list[Expr | str]:
    assert isinstance(node, Binary)
    if isinstance(node, ex.Min | ex.Max):
        return ["min(" if isinstance(node, ex.Min) else "max(", node.lhs, ", ", node.rhs, ")"]
    if _is_negation(node):
        operand = node.lhs
        bare = isinstance(operand, Variable | ex.Min | ex.Max) or (
            isinstance(operand, ex.Mul) and not _is_negation(operand)
        )
        return ["-", operand] if bare else ["-", *_parenthesised(operand)]
    parts = _left(node.lhs, node.__class__)
    parts.append(operators[node.__class__])
    parts.extend(
        (node.rhs,)
        if not isinstance(node.rhs, Binary) or isinstance(node.rhs, ex.Min | ex.Max)
        else _parenthesised(node.rhs)
    )
    return parts


def _left(operand: Expr, operator: type[Expr]) -> list[Expr | str]:
    """The left operand of an operator that binds like a product."""
    if isinstance(operand, ex.Add):
        return _parenthesised(operand)
    if isinstance(operand, ex.Mul | ex.Mod | ex.FloorDiv | ex.CeilDiv) and operand.__class__ is not operator:
        if not (_is_negation(operand) and not isinstance(operand.lhs, ex.Mul)):
            return _parenthesised(operand)
    return [operand]


def _is_negation(node: Expr) -> bool:
    return isinstance(node, ex.Mul) and isinstance(node.rhs, Constant) and node.rhs.value == -1


def _parenthesised(node: Expr) -> list[Expr | str]:
    return ["(", node, ")"]


class ExpressionReader:
    """Reads expressions over the variables in `names`.

    `tokens`, `kinds` and `starts` hold the texts of the tokens, their kinds and their offsets. `at` is the index of the
    next token, and `next_look` the index of the token at which the budget is checked again.
    """

    def __init__(self, source: Source) -> None:
        self.source = source
        self.kinds: list[int] = []
        self.tokens: list[str] = []
        self.starts: list[int] = []
        self.at = 0
        self.next_look = _TOKENS_AT_ONCE
        self.names: dict[str, Variable] = {}

    def tokenize(self, text: str, start: int, end: int) -> None:
        """Appends the tokens of the text between two offsets."""
        kinds, tokens, starts = self.kinds, self.tokens, self.starts
        for match in _TOKEN.finditer(text, start, end):
            kind = match.lastindex or END
            if kind == END:
                break
            kinds.append(kind)
            tokens.append(match.group(kind))
            starts.append(match.start(kind))
            if not len(kinds) % _TOKENS_AT_ONCE:
                spend(_TOKENS_AT_ONCE)

    def end_tokens(self, end: int) -> None:
        """Appends the token of the end of the text, which is at the offset `end`."""
        self.kinds.append(END)
        self.tokens.append("")
        self.starts.append(end)

    def fail(self, expected: str) -> NoReturn:
        """Raises ParseError, with line and column, for the next token."""
        token = self.tokens[self.at]
        found = repr(token[:40]) if token else "the end of the text"
        raise self.source.error(
            self.starts[self.at], f"expected {expected}, found {found}", expected=expected, found=found
        )

    def accept(self, token: str) -> bool:
        """Whether the next token is `token`. If it is, it is consumed."""
        if self.tokens[self.at] == token:
            self.at += 1
            return True
        return False

    def expect(self, token: str) -> None:
        """Consumes `token`. Raises ParseError if it is not the next one."""
        if not self.accept(token):
            self.fail(f"'{token}'")

    def integer(self) -> int:
        """Reads an integer, which may be negative."""
        negative = self.accept("-")
        if self.kinds[self.at] != _NUMBER:
            self.fail("an integer")
        value = self._number(negative)
        return -value if negative else value

    def _number(self, negative: bool = False) -> int:
        """Reads the digits of an integer. `negative` says that a minus stands before them, which allows 2^63, too."""
        digits = self.tokens[self.at]
        if len(digits) > 18:
            digits = digits.lstrip("0") or "0"
            if len(digits) > 19 or int(digits) > (1 << 63) - (not negative):
                raise self.source.error(
                    self.starts[self.at], f"{digits[:24]}{'…' if len(digits) > 24 else ''} does not fit int64"
                )
        self.at += 1
        return int(digits)

    def expression(self) -> Expr:
        """Reads an expression by operator precedence: an operator waits on a stack until an operator of lower
        precedence follows.
        """
        kinds, tokens, names = self.kinds, self.tokens, self.names
        operands: list[Expr] = []
        # The operators and opening parentheses read so far: (precedence, token, index of the token). An opening
        # parenthesis has precedence 0.
        waiting: list[tuple[int, str, int]] = []
        while True:
            # Expects an operand.
            if self.at >= self.next_look:
                self.next_look = self.at + _TOKENS_AT_ONCE
                spend(_READING_STEPS * _TOKENS_AT_ONCE)
            token, kind = tokens[self.at], kinds[self.at]
            if kind == _NUMBER:
                is_negated = bool(waiting) and waiting[-1][0] == _NEGATE
                operands.append(Constant(self._number(is_negated)))
            elif kind == WORD:
                if token in _FUNCTIONS:
                    waiting.append((0, token, self.at))
                    self.at += 1
                    self.expect("(")
                    continue
                variable = names.get(token)
                if variable is None:
                    if token in RESERVED:
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
            # Expects an operator, a closing parenthesis or the end.
            while True:
                token = tokens[self.at]
                operator = _OPERATORS.get(token)
                precedence = 0 if operator is None else operator.precedence
                while waiting and waiting[-1][0] >= max(precedence, 1):
                    if not len(waiting) % _TOKENS_AT_ONCE:
                        spend(_READING_STEPS * _TOKENS_AT_ONCE)
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
                operands.append(ex.multiply(operands.pop(), -1))
                return
            right = operands.pop()
            operands.append(_OPERATORS[token].build(operands.pop(), right))
        except InvalidMapError as error:
            raise self.source.error(self.starts[at], error.message) from None
