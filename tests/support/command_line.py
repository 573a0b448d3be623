"""The command line run in this process: a process of its own for each question would take most of the tests' time."""

import contextlib
import io
import subprocess
import sys

from xlashape.cli import main


def run(*arguments, data=b""):
    """Exit code, and what was written to standard output and standard error, as bytes."""
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
    return subprocess.CompletedProcess(arguments, code, out.buffer.getvalue(), err.buffer.getvalue())
