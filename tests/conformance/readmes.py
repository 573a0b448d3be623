"""Runs what the READMEs of the clients show, as a stranger would: in a fresh directory outside the repository, with the
package of this checkout.

    python tests/conformance/readmes.py              # every language whose tools are here
    python tests/conformance/readmes.py go rust

The blocks of a README that stand before a block of output are one program: the first one, and what follows in it.
Blocks with `…` are left out. `CHECKOUT` stands for this checkout, `localhost:50051` for a server that is started here.
Then the client's example `peak` runs in the same directory, twice: about a fusion, and about one that does not exist.
What it prints is compared with the library's answers. The exit code is 0 if each program printed what it should.
"""

from __future__ import annotations

import argparse
import itertools
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import xlashape
from xlashape_server import Config, Server

ROOT = Path(__file__).resolve().parents[2]
_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


_FUSIONS = ("ynn_fusion.4", "no_such_fusion")
"""What the example `peak` is asked about."""
_EXAMPLES = {
    "python": "example/peak.py",
    "go": "examples/peak/main.go",
    "rust": "examples/peak.rs",
    "typescript": "examples/peak.js",
    "java": "examples/src/main/java/io/github/xlashape/examples/Peak.java",
    "java/kotlin": "src/test/kotlin/io/github/xlashape/examples/Peak.kt",
    "cpp": "examples/peak.cc",
}
"""Folder of a client → its example `peak`."""


class Readme(NamedTuple):
    """What a README has."""

    setup: dict[str, str]
    """The first block of each language that is not the program's, such as `sh`, and those of the section on traces."""
    parts: list[str]
    """The parts of the program."""
    printed: str
    peak: Path
    """The file of the example `peak`."""
    arguments: list[list[str]]
    """Of each run of it."""


def read(folder: str, language: str, address: str) -> Readme:
    text = (ROOT / "clients" / folder / "README.md").read_text().replace("CHECKOUT", str(ROOT))
    blocks: list[tuple[str, str]] = [*_BLOCK.findall(text), ("end", "")]
    of_traces = _BLOCK.findall(text.partition("\n## Traces\n")[2].partition("\n## ")[0])
    setup: dict[str, str] = {}
    parts: list[str] = []
    printed: list[str] = []
    for (kind, content), (following, output) in itertools.pairwise(blocks):
        if kind == language == "pycon":
            parts.append(content)  # which holds what it prints
        elif kind == language and following in ("", "console") and "…" not in content:
            parts.append(content)
            printed.append(re.sub(r"^\$.*\n", "", output, flags=re.MULTILINE))
        elif kind not in ("", language):
            if kind not in setup or (kind, content) in of_traces:
                setup[kind] = setup.get(kind, "") + content
    arguments = [[address, "attention.hlo.pb", fusion] for fusion in _FUSIONS]
    parts = [part.replace("localhost:50051", address) for part in parts]
    return Readme(setup, parts, "".join(printed), ROOT / "clients" / folder / _EXAMPLES[folder], arguments)


def peak_printed() -> str:
    """What the runs of the example `peak` print, by the answers of the library."""
    path = ROOT / "xlashape" / "data" / "attention.hlo.pb"
    memory = xlashape.memory(path)
    lines = [f"peak {memory.peak_bytes}"]
    lines += [f"{buffer.name} {buffer.bytes} {buffer.shape}" for buffer in memory.peak_buffers[:3]]
    module = xlashape.HloModule.from_bytes(path.read_bytes())
    fusion = module.instruction(_FUSIONS[0])
    maps = xlashape.indexing.output_to_input(fusion)
    reads = [f"{operand.name} {one.map}" for operand, one in zip(fusion.operands, maps, strict=True)]
    return "\n".join([*lines, *reads, *lines, f"NOT_FOUND instruction {_FUSIONS[1]}"]) + "\n"


def indented(parts: list[str], by: str) -> str:
    return "".join(by + line if line.strip() else line for part in parts for line in part.splitlines(keepends=True))


def python(readme: Readme, folder: Path, run: Callable[..., str]) -> str:
    run(sys.executable, "-m", "venv", "venv")
    run("sh", "-c", f"set -e\n. venv/bin/activate\n{readme.setup['sh']}")
    (folder / "session.txt").write_text("\n".join(readme.parts))
    options = ["-o", "ELLIPSIS", "-o", "IGNORE_EXCEPTION_DETAIL"]
    program = ["env", "-u", "PYTHONPATH", "venv/bin/python"]
    printed = run(*program, "-m", "doctest", *options, "session.txt")
    return printed + "".join(run(*program, str(readme.peak), *arguments) for arguments in readme.arguments)


def go(readme: Readme, folder: Path, run: Callable[..., str]) -> str:
    run("sh", "-c", f"set -e\n{readme.setup['sh']}")
    body = "".join(readme.parts)
    client = "github.com/xlashape/xlashape/clients/go"
    paths = ["context", "errors", "fmt", "log", "os", client, f"{client}/xlashapev1", "google.golang.org/grpc"]
    paths += ["go.opentelemetry.io/contrib/instrumentation/google.golang.org/grpc/otelgrpc"]
    paths += [f"go.opentelemetry.io/otel/sdk/trace{folder}" for folder in ("", "/tracetest")]
    used = [
        path
        for path in paths
        if re.search(rf"\b{'xlashape' if path == client else path.rpartition('/')[2]}\.", body + "context.")
    ]
    imports = "".join(f'\t{"xlashape " if path == client else ""}"{path}"\n' for path in used)
    body = f"ctx := context.Background()\n{body}"
    (folder / "main.go").write_text(f"package main\n\nimport (\n{imports})\n\nfunc main() {{\n{body}}}\n")
    (folder / "peak").mkdir()
    shutil.copy(readme.peak, folder / "peak")
    run("go", "mod", "tidy")
    return run("go", "run", ".") + "".join(run("go", "run", "./peak", *arguments) for arguments in readme.arguments)


def rust(readme: Readme, folder: Path, run: Callable[..., str]) -> str:
    head = '[package]\nname = "first"\nversion = "0.1.0"\nedition = "2021"\n\n'
    (folder / "Cargo.toml").write_text(head + readme.setup["toml"])
    (folder / "src").mkdir()
    first, rest = readme.parts[0], indented(readme.parts[1:], "    ")
    (folder / "src" / "main.rs").write_text(first.replace("    Ok(())\n", f"{rest}    Ok(())\n"))
    (folder / "src" / "bin").mkdir()
    shutil.copy(readme.peak, folder / "src" / "bin")
    command = ["cargo", "run", "--quiet", "--bin"]
    return run(*command, "first") + "".join(run(*command, "peak", *arguments) for arguments in readme.arguments)


def typescript(readme: Readme, folder: Path, run: Callable[..., str]) -> str:
    (folder / "package.json").write_text('{"private": true}\n')
    run("sh", "-c", f"set -e\n{readme.setup['sh']}")
    first, _, body = "".join(readme.parts).partition("\n")
    names = [name for name in ("EvaluableMap", "toJson", "XlashapeError") if re.search(rf"\b{name}\b", body)]
    assert first == 'import { connect } from "@xlashape/client";', first
    imports = f'import {{ connect, {", ".join(names)} }} from "@xlashape/client";\n'
    imports += 'import { createReadStream } from "node:fs";\nimport { readFile } from "node:fs/promises";\n'
    (folder / "first.mjs").write_text(f"{imports}{body}client.close();\ntraced.close();\n")
    shutil.copy(readme.peak, folder / "peak.mjs")
    return run("node", "first.mjs") + "".join(run("node", "peak.mjs", *arguments) for arguments in readme.arguments)


def _executed(readme: Readme, run: Callable[..., str], maven: list[str], first: str, peak: str) -> str:
    """What the classes print that Maven compiles."""
    printed = run(*maven, "compile", "exec:java", f"-Dexec.mainClass={first}")
    for arguments in readme.arguments:
        printed += run(*maven, "exec:java", f"-Dexec.mainClass={peak}", f"-Dexec.args={' '.join(arguments)}")
    return printed


def java(readme: Readme, folder: Path, run: Callable[..., str]) -> str:
    repository = (
        f"-Dmaven.repo.local={os.environ['XLASHAPE_BUILD_CACHE']}/m2" if "XLASHAPE_BUILD_CACHE" in os.environ else "-q"
    )
    run("sh", "-c", "set -e\n" + readme.setup["sh"].replace("mvn ", f"mvn -B {repository} "))
    project = (
        '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
        "<groupId>first</groupId><artifactId>first</artifactId><version>1</version><dependencies>\n"
    )
    (folder / "pom.xml").write_text(f"{project}{readme.setup['xml']}</dependencies></project>\n")
    sources = folder / "src" / "main" / "java"
    sources.mkdir(parents=True)
    first, rest = readme.parts[0], indented(readme.parts[1:], "      ")
    end = first.index("    }\n  }\n}")
    used = [
        "io.github.xlashape.EvaluableMap",
        "io.github.xlashape.XlashapeException",
        "java.nio.file.Files",
        "java.nio.file.Path",
        "java.util.Arrays",
    ]
    used += [
        f"io.github.xlashape.v1.{name}"
        for name in ("MapInput", "MapOutput", "MemoryRequest", "MemoryResponse", "MemoryRow")
    ]
    used += [
        "io.github.xlashape.ConnectionOptions",
        "io.opentelemetry.instrumentation.grpc.v1_6.GrpcTelemetry",
        "io.opentelemetry.sdk.OpenTelemetrySdk",
        "io.opentelemetry.sdk.testing.exporter.InMemorySpanExporter",
        "io.opentelemetry.sdk.trace.SdkTracerProvider",
        "io.opentelemetry.sdk.trace.export.SimpleSpanProcessor",
    ]
    imports = "".join(f"import {name};\n" for name in used if re.search(rf"\b{name.rpartition('.')[2]}\b", rest))
    program = f"{imports}{first[:end]}{rest}{first[end:]}".replace(
        "main(String[] arguments)", "main(String[] arguments) throws Exception"
    )
    (sources / "First.java").write_text(program)
    shutil.copy(readme.peak, sources)
    options = ["-Dmaven.compiler.source=17", "-Dmaven.compiler.target=17"]
    return _executed(
        readme, run, ["mvn", "-q", "-B", repository, *options], "First", "io.github.xlashape.examples.Peak"
    )


def kotlin(readme: Readme, folder: Path, run: Callable[..., str]) -> str:
    repository = (
        f"-Dmaven.repo.local={os.environ['XLASHAPE_BUILD_CACHE']}/m2" if "XLASHAPE_BUILD_CACHE" in os.environ else "-q"
    )
    run("sh", "-c", "set -e\n" + readme.setup["sh"].replace("mvn ", f"mvn -B {repository} "))
    compiler = (
        "<build><sourceDirectory>src/main/kotlin</sourceDirectory><plugins><plugin><groupId>org.jetbrains.kotlin</groupId><artifactId>kotlin-maven-plugin</artifactId>"
        "<version>2.2.20</version><executions><execution><goals><goal>compile</goal></goals></execution></executions>"
        "<configuration><jvmTarget>17</jvmTarget></configuration></plugin></plugins></build>\n"
    )
    project = (
        '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
        f"<groupId>first</groupId><artifactId>first</artifactId><version>1</version>{compiler}<dependencies>\n"
    )
    (folder / "pom.xml").write_text(f"{project}{readme.setup['xml']}</dependencies></project>\n")
    sources = folder / "src" / "main" / "kotlin"
    sources.mkdir(parents=True)
    first, rest = readme.parts[0], indented(readme.parts[1:], "        ")
    end = first.rindex("    }\n}")
    (sources / "First.kt").write_text(f"import io.github.xlashape.v1.MemoryRequest\n{first[:end]}{rest}{first[end:]}")
    shutil.copy(readme.peak, sources)
    options = ["-Dkotlin.compiler.daemon=false"]
    return _executed(
        readme, run, ["mvn", "-q", "-B", repository, *options], "FirstKt", "io.github.xlashape.examples.PeakKt"
    )


def cpp(readme: Readme, folder: Path, run: Callable[..., str]) -> str:
    head = "cmake_minimum_required(VERSION 3.16)\nproject(first CXX)\nset(CMAKE_CXX_FLAGS -O0)\nadd_executable(my_program main.cc)\n"
    head += f"add_executable(peak {readme.peak})\n"
    (folder / "CMakeLists.txt").write_text(
        head + readme.setup["cmake"] + "target_link_libraries(peak PRIVATE xlashape::xlashape)\n"
    )
    first, rest = readme.parts[0], indented(readme.parts[1:], "  ")
    end = first.rindex("}")
    (folder / "main.cc").write_text(f"#include <fstream>\n#include <iterator>\n{first[:end]}{rest}{first[end:]}")
    run("cmake", "-S", ".", "-B", "build", "-G", "Ninja")
    run("cmake", "--build", "build", "--target", "my_program", "peak")
    return run("build/my_program") + "".join(run("build/peak", *arguments) for arguments in readme.arguments)


LANGUAGES: dict[str, tuple[str, str, Callable[[Readme, Path, Callable[..., str]], str]]] = {
    "python": ("pycon", sys.executable, python),
    "go": ("go", "go", go),
    "rust": ("rust", "cargo", rust),
    "typescript": ("ts", "npm", typescript),
    "java": ("java", "mvn", java),
    "java/kotlin": ("kotlin", "mvn", kotlin),
    "cpp": ("cpp", "cmake", cpp),
}
"""Folder of a client → the name of its blocks, the tool that it needs, and what runs its program."""


def environment() -> dict[str, str]:
    cache = os.environ.get("XLASHAPE_BUILD_CACHE")
    if cache is None:
        return dict(os.environ)
    kept = {
        "GOCACHE": "go-build",
        "GOMODCACHE": "go-mod",
        "CARGO_HOME": "cargo",
        "CARGO_TARGET_DIR": "readme-rust",
        "npm_config_cache": "npm",
    }
    return os.environ | {name: f"{cache}/{folder}" for name, folder in kept.items()} | {"GOFLAGS": "-modcacherw"}


def outcome(language: str, address: str) -> str:
    """What is wrong with the README of a language; an empty text if nothing is."""
    kind, _, shown = LANGUAGES[language]
    readme = read(language, kind, address)
    with tempfile.TemporaryDirectory(prefix="xlashape-readme-") as name:
        folder = Path(name)
        shutil.copy(ROOT / "xlashape" / "data" / "attention.hlo.pb", folder)

        def run(*command: str) -> str:
            done = subprocess.run(
                command, cwd=folder, env=environment(), capture_output=True, text=True, check=False, timeout=1800
            )
            if done.returncode != 0:
                raise RuntimeError(
                    f"{' '.join(command)[:200]}: exit code {done.returncode}\n{done.stdout[-2000:]}{done.stderr[-3000:]}"
                )
            return done.stdout

        try:
            printed = shown(readme, folder, run)
        except (OSError, RuntimeError, subprocess.TimeoutExpired) as error:
            return str(error)
    printed = re.sub(r"\x1b\[\d*m", "", printed)  # of Maven
    expected = readme.printed + peak_printed()
    return "" if printed == expected else f"expected:\n{expected}\nprinted:\n{printed}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument(
        "languages", nargs="*", metavar="LANGUAGE", choices=[[], *LANGUAGES], help=f"Default: {', '.join(LANGUAGES)}."
    )
    parser.add_argument("--required", action="store_true", help="A language whose tools are missing fails the run.")
    arguments = parser.parse_args()
    failed = False
    with Server(Config(address="127.0.0.1:0", workers=1, log_level="error")) as server:
        for language in arguments.languages or LANGUAGES:
            if shutil.which(LANGUAGES[language][1]) is None:
                print(f"{language:12} skipped: no {LANGUAGES[language][1]}")
                failed |= arguments.required
                continue
            began = time.monotonic()
            wrong = outcome(language, server.address)
            print(
                f"{language:12} {'FAILED' if wrong else 'ok'} ({(time.monotonic() - began) / 60:.1f} minutes to the answers)\n{wrong}".rstrip()
            )
            failed |= bool(wrong)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
