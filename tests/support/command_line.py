"""Runs the command line in this process, since starting a process for each command would take most of the tests' time.

Each document that `--json` prints is checked with its schema, if jsonschema is installed.
"""

import contextlib
import io
import json
import subprocess
import sys
from functools import lru_cache
from importlib.util import find_spec

from xlashape.cli import main


def run(*arguments, data=b""):
    """Runs the command line with `data` as standard input. Returns the exit code, and the bytes of standard output and
    standard error."""
    out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", errors="surrogateescape") for _ in range(2))
    stdin, sys.stdin = sys.stdin, io.TextIOWrapper(io.BytesIO(data), "utf-8")
    code = 0
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                main([str(one) for one in arguments], prog_name="xlashape")
            except SystemExit as ended:
                code = ended.code or 0
    finally:
        sys.stdin = stdin
    out.flush()
    err.flush()
    if "--json" in arguments and out.buffer.getvalue() and find_spec("jsonschema"):
        _check(json.loads(out.buffer.getvalue()))
    return subprocess.CompletedProcess(arguments, code, out.buffer.getvalue(), err.buffer.getvalue())


@lru_cache
def schema(name):
    """The schema of a document, by its name, such as size.v1."""
    return json.loads(run("schemas", name).stdout)


def _check(document):
    """Raises jsonschema.ValidationError for a document that does not follow its schema."""
    import jsonschema

    name = document["schema"]
    try:
        jsonschema.validate(document, schema(name.removeprefix("xlashape.")))
    except jsonschema.ValidationError as error:
        raise AssertionError(f"the schema of {name} does not declare this: {error.message}") from None
