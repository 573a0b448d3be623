"""Languages: each has a file in ../languages that says which tools it needs, and how its testee is built and started.

    {
      "directory": "clients/go",                                  where all commands run, below the root of the repository
      "needs": [["go", "version"], ["pkg-config", "--exists", "grpc++"]],   commands that succeed where the language can be built
      "build": [["go", "build", "-o", "{build}/testee", "./conformance"]],  commands that build the testee, in order
      "run": ["{build}/testee"],                                  the command that starts it
      "environment": {"GOCACHE": "{cache}/go"},                   variables of all these commands, beside those of the runner
      "transports": ["grpc", "connect"]               the transports that it supports
    }

In all texts `{root}` is the root of the repository, `{build}` a directory for this language's build, `{cache}` a
directory for what is downloaded and compiled, which all languages share, and `{python}` the Python that runs this.
`{build}` and `{cache}` are kept between runs.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

__all__ = ["ROOT", "Language", "languages"]

ROOT = Path(__file__).resolve().parents[3]
_FOLDER = ROOT / "tests" / "conformance" / "languages"


class Language(NamedTuple):
    """A language, and its directories."""

    name: str
    directory: Path
    needs: list[list[str]]
    build: list[list[str]]
    run: list[str]
    environment: dict[str, str]
    transports: list[str]

    def lacking(self) -> str | None:
        """The first tool that is missing; None if none is."""
        if not self.directory.is_dir():
            return f"{self.directory.relative_to(ROOT)} is not here"
        for command in self.needs:
            try:
                done = subprocess.run(
                    command, cwd=self.directory, env=self.variables(), capture_output=True, timeout=60, check=False
                )
            except OSError:
                return f"{command[0]} is not here"
            except subprocess.TimeoutExpired:
                return f"`{shlex.join(command)}` does not end"
            if done.returncode:
                return f"`{shlex.join(command)}` fails"
        return None

    def made(self, timeout: float) -> str | None:
        """Builds the testee. Returns the output of the command that failed; None if all succeed."""
        for command in self.build:
            try:
                done = subprocess.run(
                    command, cwd=self.directory, env=self.variables(), stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=timeout, check=False,
                )  # fmt: skip
            except OSError as error:
                return f"{shlex.join(command)}: {error}"
            except subprocess.TimeoutExpired:
                return f"{shlex.join(command)}: not done after {timeout:g} s"
            if done.returncode:
                lines = done.stdout.decode(errors="replace").splitlines()
                return "\n".join([f"{shlex.join(command)}: exit code {done.returncode}", *lines[-40:]])
        return None

    def variables(self) -> dict[str, str]:
        """The environment of its commands."""
        return os.environ | self.environment


def languages(cache: Path) -> dict[str, Language]:
    """All languages by name, Python first. Their downloads and builds are kept in `cache`."""
    found: dict[str, Language] = {}
    for path in sorted(_FOLDER.glob("*.json"), key=lambda path: (path.stem != "python", path.stem)):
        build = cache / "build" / path.stem
        build.mkdir(parents=True, exist_ok=True)
        places = {"{root}": str(ROOT), "{build}": str(build), "{cache}": str(cache), "{python}": sys.executable}

        def filled(text: str, places: dict[str, str] = places) -> str:
            for name, value in places.items():
                text = text.replace(name, value)
            return text

        data = json.loads(path.read_text())
        found[path.stem] = Language(
            name=path.stem,
            directory=ROOT / data["directory"],
            needs=[[filled(word) for word in command] for command in data["needs"]],
            build=[[filled(word) for word in command] for command in data["build"]],
            run=[filled(word) for word in data["run"]],
            environment={name: filled(value) for name, value in data.get("environment", {}).items()},
            transports=data["transports"],
        )
    return found
