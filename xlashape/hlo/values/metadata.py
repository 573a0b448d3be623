r"""What an instruction says about itself without meaning anything to it: metadata=, frontend_attributes=, backend_config=, statistics=, origin=.

metadata    := '{' (field (','? field)*)? '}'       field := name '=' (string | INT | '{' INT '}')
attributes  := '{' (name '=' (string | object) (',' …)*)? '}'
config      := string | object                      object := '{' … '}', taken as it is, strings and braces matched
statistics  := '{' (name '=' INT (',' name '=' DOUBLE)*)? '}'
origin      := '{' ('[synthetic_call]' | tree)? '}'       tree := '(' tree (',' tree)* ')' | '{' (string ints?)? '}'
"""

from __future__ import annotations

import re

from xlashape.hlo.lex import HloCursor
from xlashape.proto import xla
from xlashape.proto.wire import Fields

__all__ = [
    "parse_backend_config",
    "parse_frontend_attributes",
    "parse_metadata",
    "parse_metadata_messages",
    "parse_origin",
    "parse_original_array",
    "parse_statistics",
]

_FIELDS = Fields(xla.HloInstructionProto)
_METADATA = Fields(xla.OpMetadata)
_TEXTS = frozenset(("op_type", "op_name", "source_file", "deduplicated_name", "scheduling_name"))
_INTS = frozenset(("source_line", "source_end_line", "source_column", "source_end_column", "stack_frame_id"))
_BRACE = re.compile(r'[{}"]')
_INT32_MIN, _INT32_MAX = -(1 << 31), (1 << 31) - 1
_MAX_DEPTH = 200


def parse_metadata(cursor: HloCursor) -> tuple[bytes, int, bytes | None]:
    """The wire bytes of an OpMetadata without what the module keeps in tables: the stack frame and the payload.

    Behind them the number of that frame in the text's table, 0 for none, and the payload itself.
    """
    cursor.expect("{")
    seen: set[str] = set()
    pieces: list[bytes] = []
    frame = 0
    payload: bytes | None = None
    while not cursor.accept("}"):
        if seen:
            cursor.accept(",")
        cursor.skip_space()
        at = cursor.at
        name = cursor.parse_attribute_name()
        if name in seen:
            raise cursor.error(f"{name} stands there twice", at=at)
        seen.add(name)
        if name in _TEXTS:
            pieces.append(_METADATA.string(name, cursor.parse_text(name)))
        elif name in _INTS:
            value = cursor.parse_int_between(_INT32_MIN, _INT32_MAX, name)
            if name == "stack_frame_id":
                frame = value
            else:
                pieces.append(_METADATA.integer(name, value))
        elif name == "profile_type":
            pieces.append(_METADATA.integers(name, cursor.parse_ints()))
        elif name == "metadata_payload":
            payload = cursor.parse_string(name)
        else:
            known = ", ".join(sorted(_TEXTS | _INTS | {"metadata_payload", "profile_type"}))
            raise cursor.error(
                f"metadata has no {name!r}; it has {known}", at=at, expected="a field of metadata", found=name
            )
    return b"".join(pieces), frame, payload


def parse_metadata_messages(cursor: HloCursor) -> list[xla.OpMetadata]:
    """One metadata or a list of them in braces, as shardings carry them."""

    def one() -> xla.OpMetadata:
        data, frame, payload = parse_metadata(cursor)
        message = xla.OpMetadata.FromString(data)
        message.stack_frame_id = frame
        if payload is not None:
            message.metadata_payload.value = payload
        return message

    start = cursor.at
    cursor.expect("{")
    several = cursor.looking_at("{")
    cursor.at = start
    return cursor.parse_list(one) if several else [one()]


def parse_object(cursor: HloCursor) -> bytes:
    """What stands between braces, these included, as it is: JSON by custom, but nothing beyond braces and strings is looked at."""
    cursor.skip_space()
    start = cursor.at
    text = cursor.text
    if not text.startswith("{", start):
        cursor.fail("a string or an object in braces")
    at, depth = start, 0
    while True:
        match = _BRACE.search(text, at)
        if match is None:
            raise cursor.error("this object is never closed", at=start, expected="'}'")
        at = match.end()
        char = match.group()
        if char == '"':
            at = cursor.string_end(at - 1)
        else:
            depth += 1 if char == "{" else -1
            if depth == 0:
                break
    cursor.at = at
    try:
        return text[start:at].encode()
    except UnicodeEncodeError:
        raise cursor.error("half of a surrogate pair is no text", at=start, expected="text") from None


def parse_backend_config(cursor: HloCursor) -> bytes:
    """A string or an object."""
    value = parse_object(cursor) if cursor.looking_at("{") else cursor.parse_string("a backend config")
    return _FIELDS.string("backend_config", value)


def parse_frontend_attributes(cursor: HloCursor) -> xla.FrontendAttributes:
    """Names with strings or objects."""
    found = xla.FrontendAttributes()

    def entry() -> None:
        cursor.skip_space()
        at = cursor.at
        name = cursor.parse_attribute_name()
        if cursor.looking_at("{"):
            value = parse_object(cursor)
        else:
            value = cursor.parse_text(f"the value of {name}")
        del at
        found.map[name] = value.decode()

    cursor.parse_list(entry)
    return found


def parse_statistics(cursor: HloCursor) -> bytes:
    """Which statistic to show, and the statistics."""
    found = xla.StatisticsViz()
    cursor.expect("{")
    if not cursor.accept("}"):
        cursor.parse_attribute_name()
        found.stat_index_to_visualize = cursor.parse_int("the index of a statistic")
        while cursor.accept(","):
            name = cursor.parse_attribute_name()
            found.statistics.add(stat_name=name, stat_val=cursor.parse_double("the value of a statistic"))
        cursor.expect("}")
    return _FIELDS.message("statistics_viz", found)


def parse_original_array(cursor: HloCursor) -> xla.OriginalArrayProto | None:
    """'{' (string ints?)? '}': an instruction and a place in its shape, or nothing."""
    cursor.expect("{")
    found = None
    if not cursor.looking_at("}"):
        found = xla.OriginalArrayProto(instruction_name=cursor.parse_text("an instruction's name").decode())
        if cursor.looking_at("{"):
            found.shape_index.extend(cursor.parse_ints(what="an index into a shape"))
    cursor.expect("}")
    return found


def parse_origin(cursor: HloCursor) -> xla.OriginalValueProto:
    """Where the value came from before optimisation."""
    found = xla.OriginalValueProto()
    cursor.expect("{")
    if cursor.accept("["):
        if cursor.parse_word("'synthetic_call'") != "synthetic_call":
            cursor.fail("'synthetic_call'")
        cursor.expect("]")
        found.is_synthetic_call = True
    elif not cursor.looking_at("}"):
        _tree(cursor, found, [])
    cursor.expect("}")
    return found


def _tree(cursor: HloCursor, found: xla.OriginalValueProto, index: list[int]) -> None:
    if len(index) > _MAX_DEPTH:
        raise cursor.error(f"a tree of original values nests deeper than {_MAX_DEPTH} levels")
    if not cursor.accept("("):
        array = parse_original_array(cursor)
        element = found.elements.add(shape_index=index)
        if array is not None:
            element.original_array.CopyFrom(array)
        return
    if cursor.accept(")"):
        return
    index.append(0)
    while True:
        _tree(cursor, found, index)
        if cursor.accept(")"):
            break
        cursor.expect(",")
        index[-1] += 1
    index.pop()
