"""Reads the settings of a server from a file in TOML, variables XLASHAPE_… and options of the command line.

Options override variables, and variables override the file. All three use the names of the fields of `Config`, and take
the same values:

    store_bytes = "2GiB"        in the file: numbers, strings and booleans; bytes and seconds also as strings with units
    XLASHAPE_STORE_BYTES=2GiB   in the environment
    --store-bytes 2GiB          on the command line

>>> read_value("store_bytes", "2GiB"), read_value("grace_seconds", "1.5m"), read_value("pin", "off")
(2147483648, 90.0, False)
"""

from __future__ import annotations

import dataclasses
import difflib
import json
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple, cast

from xlashape.errors import InvalidArgumentError
from xlashape_server.config import Config

PREFIX = "XLASHAPE_"
"""The prefix of the variables' names."""

FIELDS = {setting.name: setting for setting in dataclasses.fields(Config) if "help" in setting.metadata}
"""Name of a setting → the field of `Config`."""

_DEFAULTS: dict[str, Any] = {name: setting.default for name, setting in FIELDS.items()}
_BINARY = {"": 1, "b": 1, "kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30, "tib": 1 << 40}
_BYTES = {**_BINARY, "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12}
_SECONDS = {"": 1.0, "ms": 1e-3, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86_400.0}
_QUANTITY = re.compile(r"([+-]?(?:\d+(?:_\d+)*(?:\.\d+)?|\.\d+)(?:[eE][+-]?\d+)?)\s*([A-Za-z]*)")
_YES, _NO = ("true", "yes", "on", "1"), ("false", "no", "off", "0")


class Settings(NamedTuple):
    """Some settings by name, and the source of each: the name of a file, a variable or an option."""

    values: dict[str, Any]
    sources: dict[str, str]

    def then(self, later: Settings) -> Settings:
        """These settings together with `later`, which override them."""
        return Settings({**self.values, **later.values}, {**self.sources, **later.sources})


def of_file(path: str) -> Settings:
    """The settings in a file. InvalidArgumentError names the file and the setting."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise InvalidArgumentError(f"{path}: cannot be read: {reason}", field="config") from None
    try:
        table = parsed_toml(text)
    except ValueError as error:
        raise InvalidArgumentError(f"{path}: not TOML: {error}", field="config") from None
    found: dict[str, Any] = {}
    for name, value in table.items():
        if name not in FIELDS:
            near = difflib.get_close_matches(name, FIELDS, 1)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise InvalidArgumentError(f"{path}: there is no setting {name!r}{hint}", field=name)
        try:
            found[name] = read_value(name, value)
        except InvalidArgumentError as error:
            raise InvalidArgumentError(f"{path}: {error.message}", field=name) from None
    return Settings(found, dict.fromkeys(found, path))


def of_environment(environment: Mapping[str, str]) -> Settings:
    """The settings in the variables XLASHAPE_…; other variables are ignored."""
    found: dict[str, Any] = {}
    sources: dict[str, str] = {}
    for name in FIELDS:
        variable = PREFIX + name.upper()
        if variable in environment:
            try:
                found[name] = read_value(name, environment[variable])
            except InvalidArgumentError as error:
                raise InvalidArgumentError(f"{variable}: {error.message}", field=name) from None
            sources[name] = variable
    return Settings(found, sources)


def similar_variables(environment: Mapping[str, str]) -> dict[str, str]:
    """Each variable that is probably a misspelled setting → the variable that was probably meant.

    Kubernetes sets variables such as XLASHAPE_SERVICE_HOST in the pods beside a service of that name, so unknown
    variables are ignored.
    """
    known = [PREFIX + name.upper() for name in FIELDS]
    found: dict[str, str] = {}
    for name in environment:
        if name.startswith(PREFIX) and name not in known:
            near = difflib.get_close_matches(name, known, 1, cutoff=0.88)
            if near:
                found[name] = near[0]
    return found


def read_value(name: str, value: object) -> Any:
    """The value of the setting `name`. `value` is of the setting's type or a text that says it; InvalidArgumentError if
    it is neither.
    """
    kind = cast("type[Any]", type(_DEFAULTS[name]))
    if kind is str:
        if isinstance(value, str):
            return value
        raise _expected(name, "a text", value)
    if kind is bool:
        if isinstance(value, bool):
            return value
        word = value.strip().lower() if isinstance(value, str) else ""
        if word in _YES or word in _NO:
            return word in _YES
        raise _expected(name, "true or false", value)
    if isinstance(value, str):
        return _quantity(name, kind, value)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or (kind is int and value % 1 != 0):
        raise _expected(name, "a whole number" if kind is int else "a number", value)
    return kind(value)


def _quantity(name: str, kind: type, text: str) -> int | float:
    """The number in a text, which may have a unit if the setting is in bytes or seconds."""
    units: Mapping[str, float] = {"": 1}
    example = "a whole number" if kind is int else "a number"
    if name.endswith(("_bytes", "_memory")):
        units, example = _BYTES, "bytes such as 64MiB"
    elif name.endswith("_seconds"):
        units, example = _SECONDS, "seconds such as 90, 1.5m or 24h"
    match = _QUANTITY.fullmatch(text.strip())
    if match is None or match[2].lower() not in units:
        raise _expected(name, example, text)
    unit = units[match[2].lower()]
    if kind is not int:
        return float(match[1]) * unit
    try:
        return int(match[1]) * int(unit)
    except ValueError:
        number = float(match[1]) * unit
        if not number.is_integer():
            raise _expected(name, example, text) from None
        return int(number)


def _expected(name: str, what: str, found: object) -> InvalidArgumentError:
    shown = repr(found)
    return InvalidArgumentError(
        f"{name}: expected {what}, found {shown if len(shown) <= 80 else shown[:80] + '…'}", field=name
    )


def printed(config: Config, sources: Mapping[str, str]) -> str:
    """A TOML document with these settings, and a comment with the meaning and the source of each. `of_file` reads
    it.
    """
    lines: list[str] = []
    for name, setting in FIELDS.items():
        source = sources.get(name)
        lines.append(f"# {setting.metadata['help']}")
        lines.append(f"# from {source}" if source else "# the default")
        lines.append(f"{name} = {_toml_value(getattr(config, name))}")
        lines.append("")
    return "\n".join(lines)


def _toml_value(value: str | float) -> str:
    if isinstance(value, str):
        # A JSON string is a TOML string, except for the code point 127.
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return json.dumps(value)


def parsed_toml(text: str) -> dict[str, Any]:
    """The values of a TOML document. ValueError if the text is not TOML."""
    if sys.version_info >= (3, 11):
        import tomllib  # not in Python 3.10
    else:
        import tomli as tomllib
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise ValueError("its values are nested too deeply") from None
