r"""The attributes behind an instruction's operands: `, name=value`, each name at most once, and which an opcode needs.

One regular expression finds a name with its value where the value is plain enough to tell where it ends; what it meant before is kept
by its text. Values that name computations or instructions are read here, all others by `parse_value`.
"""

from __future__ import annotations

import re

from xlashape.errors import ParseError
from xlashape.hlo.lex import NAME, HloCursor
from xlashape.hlo.ops.table import Operation
from xlashape.hlo.text.reader.state import MAX_DEPTH, Attribute, Body, Computation
from xlashape.hlo.values.metadata import parse_metadata
from xlashape.hlo.values.table import VALUES, VALUES_OF
from xlashape.proto import xla
from xlashape.proto.wire import Fields, sized

__all__ = ["parse_attributes"]

_METADATA_TAG = Fields(xla.HloInstructionProto).tag("metadata")
_SPACE = r"[ \t\r\n]*"
_STRING = r'"[^"\\]*(?:\\.[^"\\]*){0,100}"'


def _braces(depth: int) -> str:
    """The regular expression of what stands in braces, strings and further braces to a depth within."""
    inner = rf"{_STRING}|{_braces(depth - 1)}" if depth else _STRING
    return rf"\{{[^{{}}\"]*(?:(?:{inner})[^{{}}\"]*){{0,100}}\}}"


_VALUE = rf"{_STRING}|{_braces(2)}|\[[0-9,]+\]<=\[[0-9,]+\](?:T\([0-9,]+\))?|%?[A-Za-z0-9_.\->?]+"
_ATTRIBUTE = re.compile(rf"{_SPACE},{_SPACE}(({NAME})=[ \t]*(?:{_VALUE})?)", re.DOTALL)
_CALLS = frozenset(
    "to_apply calls condition body select scatter true_computation false_computation branch_computations called_computations".split()
)


def parse_attributes(
    body: Body, opcode: str, operation: Operation, wrapper: str, *, nested: bool
) -> dict[str, Attribute]:
    """Reads attributes, each behind a comma, and checks which there are."""
    cursor, text, state = body.cursor, body.text, body.state
    cache = state.attributes_of(wrapper or opcode)
    found: dict[str, Attribute] = {}
    allowed = operation.allowed
    at = cursor.at
    while not nested:
        match = _ATTRIBUTE.match(text, at)
        if match is None:
            break
        key = match.group(1)
        attribute = cache.get(key)
        if attribute is None:
            name = match.group(2)
            _check_name(cursor, name, opcode, allowed, found, match.start(2))
            cursor.at = match.end(2) + 1
            attribute = _attribute(body, name, wrapper or opcode, match.start(2))
            at = cursor.at
            if at == match.end() and name != "control-predecessors":
                state.keep_attribute(cache, key, attribute)
        else:
            name = attribute.name
            at = match.end()
            if name in found or name not in allowed:
                _check_name(cursor, name, opcode, allowed, found, match.start(2))
        found[name] = attribute
    cursor.at = at
    if not nested and (text.startswith((",", " ", "/", "\t", "\r"), at) or at >= len(text)):
        cursor.skip_space()
        if text.startswith(",", cursor.at):
            cursor.at += 1
            rest = _attributes_after_comma(body, opcode, operation, wrapper, found)
            if rest is not None:
                return rest
    for name in operation.required:
        if name not in found:
            raise cursor.error(
                f"{wrapper or opcode} needs the attribute {name}", at=at, expected=f"{name}=", found=cursor.found()
            )
    return found


def _attributes_after_comma(
    body: Body, opcode: str, operation: Operation, wrapper: str, found: dict[str, Attribute]
) -> dict[str, Attribute] | None:
    """What the fast way did not match: a comment before a name. The comma is consumed."""
    cursor = body.cursor
    while True:
        cursor.skip_space()
        at = cursor.at
        name = cursor.parse_attribute_name()
        _check_name(cursor, name, opcode, operation.allowed, found, at)
        found[name] = _attribute(body, name, wrapper or opcode, at)
        if not cursor.accept(","):
            return None


def _check_name(
    cursor: HloCursor, name: str, opcode: str, allowed: frozenset[str], found: dict[str, Attribute], at: int
) -> None:
    if name in found:
        raise cursor.error(f"attribute {name} stands there twice", at=at, expected="each attribute once", found=name)
    if name not in allowed:
        known = ", ".join(sorted(allowed))
        raise cursor.error(
            f"{opcode} has no attribute {name}; it may have {known}", at=at, expected="an attribute", found=name
        )


def _attribute(body: Body, name: str, opcode: str, at: int) -> Attribute:
    """Reads the value of attribute `name`."""
    cursor = body.cursor
    try:
        if name == "metadata":
            data, frame, payload = parse_metadata(cursor)
            return Attribute(name, _METADATA_TAG + sized(data), frame=frame, payload=payload)
        if name in _CALLS:
            return Attribute(name, b"", calls=_called(body, name))
        if name == "control-predecessors":
            return Attribute(name, b"", calls=_predecessors(body))
        if name == "async_execution_thread":
            return Attribute(name, b"", thread=cursor.parse_text(name))
        return Attribute(name, (VALUES_OF.get(opcode, VALUES).get(name) or VALUES[name])(cursor))
    except ParseError:
        # Where to go on from: behind the attribute's name at least.
        cursor.at = max(cursor.at, at)
        raise


def _called(body: Body, name: str) -> tuple[int, ...]:
    cursor = body.cursor

    def one() -> int:
        cursor.skip_space()
        at = cursor.at
        return body.state.computation(cursor.parse_name("the name of a computation"), at)

    if name in ("branch_computations", "called_computations"):
        return tuple(cursor.parse_list(one))
    if cursor.accept("{"):
        return (_inline(body),)
    return (one(),)


def _inline(body: Body) -> int:
    """A computation written where it is called, its '{' consumed."""
    state = body.state
    if state.depth >= MAX_DEPTH:
        raise body.cursor.error(f"computations nest deeper than {MAX_DEPTH} levels")
    computation = Computation("_")
    state.depth += 1
    try:
        body.parse_body(state, computation)
    finally:
        state.depth -= 1
    state.computations.append(computation)
    return len(state.computations) - 1


def _predecessors(body: Body) -> tuple[int, ...]:
    cursor = body.cursor

    def one() -> int:
        cursor.skip_space()
        at = cursor.at
        name = cursor.parse_name("the name of an instruction")
        place = body.names.get(name)
        if place is None:
            raise cursor.error(
                f"no instruction {name!r} stands before this", at=at, expected="an instruction", found=name
            )
        return place

    if cursor.looking_at("{"):
        start = cursor.at
        cursor.expect("{")
        if cursor.looking_at("}"):
            cursor.fail("the name of an instruction")
        cursor.at = start
    return tuple(dict.fromkeys(place for place in cursor.parse_list(one) if place >= 0))
