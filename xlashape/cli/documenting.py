"""The schemas with which programs read answers: `protos`, those of messages, and `schemas`, those of JSON."""

from __future__ import annotations

import json
from importlib import resources
from pathlib import Path
from typing import Final

import click

from xlashape.base.similar import did_you_mean
from xlashape.cli.output import echo
from xlashape.errors import NotFoundError
from xlashape.reports.report import REPORTS, report_of

_PACKAGES: Final = ("xla", "xlashape")


@click.command()
@click.argument("directory", metavar="DIR")
def protos(directory: str) -> None:
    """Writes XLA's messages (xla/…) and the service (xlashape/v1/…) as .proto files into DIR, which may exist. Prints
    the files.

    protoc -I DIR compiles them for any language.
    """
    source = _proto_directory()
    for path in sorted(source.rglob("*.proto")):
        name = path.relative_to(source)
        if name.parts[0] in _PACKAGES:
            target = Path(directory) / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(path.read_bytes())
            echo(str(target))


def _proto_directory() -> Path:
    """Where the .proto files are: in the package, or beside it where the package is used from a checkout."""
    package = Path(__file__).parents[1]
    for place in (package / "proto" / "source", package.parent / "protos"):
        if (place / "xla" / "xla_data.proto").is_file():
            return place
    raise NotFoundError("this installation has no .proto files", kind="file", name="xla/xla_data.proto")


@click.command()
@click.argument("name", required=False, default="")
def schemas(name: str) -> None:
    """The JSON Schema called NAME, such as reads.v1; without NAME, the names of all.

    Every JSON document names its schema in "schema". A schema only gains fields; a change that could break a reader has
    a new version.
    """
    if not name:
        for each in _names():
            echo(each)
        return
    echo(schema_text(name.removeprefix("xlashape.")), newline=False)


def _names() -> list[str]:
    files = resources.files("xlashape.cli").joinpath("schemas").iterdir()
    written = [each.name.removesuffix(".json") for each in files if each.name.endswith(".json")]
    return sorted({*written, *[f"{name}.v1" for name in REPORTS]})


def schema_text(name: str) -> str:
    """The JSON Schema called `name`, as text. Raises UsageError if there is none."""
    names = _names()
    if name not in names:
        raise click.UsageError(f"there is no schema {name!r}; there are {', '.join(names)}{did_you_mean(name, names)}")
    report = name.removesuffix(".v1")
    if report in REPORTS:
        return json.dumps(report_of(report).json_schema(), indent=2, ensure_ascii=False) + "\n"
    return resources.files("xlashape.cli").joinpath("schemas").joinpath(f"{name}.json").read_text(encoding="utf-8")
