"""A client of one release and a server of another, once there are two releases: this tree against the release before
it, both ways.

python tests/conformance/test_releases.py HOST:PORT     # the questions, by the client that is on the path
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SERVE = """
import sys
from xlashape_server import Config, Server
with Server(Config(address="127.0.0.1:0", workers=1, log_level="error")) as server:
    print(server.address, flush=True)
    sys.stdin.read()
"""


def ask(address: str) -> None:
    """One question of each kind, whose answer no version changes."""
    import numpy as np

    from xlashape.errors import InvalidIndexError, NotFoundError, ParseError
    from xlashape_client import Client

    tiled = "f32[3,5]{1,0:T(2,2)}"
    text = "HloModule m\n\nENTRY e {\n  p = f32[4,8]{1,0} parameter(0)\n  ROOT t = f32[8,4]{1,0} transpose(p), dimensions={1,0}\n}\n"
    with Client(address) as client:
        assert client.byte_size(tiled).physical_bytes == 96
        assert client.linear_index(tiled, (2, 3)) == 17
        assert tuple(client.multi_index(tiled, 17) or ()) == (2, 3)
        with pytest.raises(ParseError) as broken:
            client.byte_size("f32[3,5")
        assert (broken.value.line, broken.value.column) == (1, 8)
        with pytest.raises(InvalidIndexError) as outside:
            client.linear_index(tiled, (2, 9))
        assert outside.value.field
        with pytest.raises(NotFoundError):
            client.get_module("modules/" + "0" * 64)
        # Large enough to be a stream.
        many = np.stack(np.divmod(np.arange(400_000) % 15, 5), axis=1)
        assert np.array_equal(
            client.linear_indices(tiled, many)[:15], [client.linear_index(tiled, row) for row in many[:15].tolist()]
        )
        stored = client.upload_module(text.encode())
        assert client.download_module(stored) == text.encode()
        assert sorted(found.name for found in client.list_instructions(stored)) == ["p", "t"]
        assert [found.instruction for found in client.map(stored)]
        assert len(client.reads(stored)) == 1
        assert client.evaluate_map("(d0) -> (d0 floordiv 4), domain: d0 in [-8, 8]", (-3,)) == (-1,)
        values, inside = client.evaluate_map_batch("(d0) -> (d0 mod 4), domain: d0 in [-8, 8]", [[-3], [9]])
        assert (values.tolist(), inside.tolist()) == ([[1], [0]], [True, False])
        client.delete_module(stored)


def git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=ROOT, check=True, capture_output=True, text=True).stdout


def release_before() -> str:
    """The tag of the newest release that is not this commit. Skips where there are not two."""
    if shutil.which("git") is None or not (ROOT / ".git").exists():
        pytest.skip("this folder is not a clone, so its releases are not known")
    releases = git("tag", "--list", "v*", "--sort=-version:refname", "--merged", "HEAD").split()
    if len(releases) < 2:
        pytest.skip(f"the first release has none before it, and there are {len(releases)}")
    head = git("rev-parse", "HEAD").strip()
    return next(tag for tag in releases if git("rev-parse", f"{tag}^{{commit}}").strip() != head)


@pytest.fixture(scope="module")
def older(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tree of the release before this one, with its schema compiled."""
    tag = release_before()
    folder = tmp_path_factory.mktemp("release")
    packed = folder / "tree.tar"
    git("archive", "--output", str(packed), tag)
    tree = folder / "tree"
    with tarfile.open(packed) as archive:
        archive.extractall(tree)  # git's own file
    subprocess.run([sys.executable, "protos/schema_compiler.py"], cwd=tree, check=True, capture_output=True)
    return tree


def variables(tree: Path) -> dict[str, str]:
    path = os.pathsep.join(str(tree / part) for part in (".", "server", "clients/python"))
    return {**os.environ, "PYTHONPATH": path, "GRPC_VERBOSITY": "NONE"}


@contextmanager
def served(tree: Path) -> Iterator[str]:
    command = [sys.executable, "-c", SERVE]
    with subprocess.Popen(
        command, cwd=tree, env=variables(tree), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as server:
        assert server.stdout is not None
        assert server.stdin is not None
        try:
            yield server.stdout.readline().strip()
        finally:
            server.stdin.close()
            server.wait(60)


@pytest.mark.parametrize("newer_is", ["client", "server"])
def test_a_client_and_a_server_of_neighbouring_releases(older: Path, tmp_path: Path, newer_is: str) -> None:
    client, server = (ROOT, older) if newer_is == "client" else (older, ROOT)
    with served(server) as address:
        done = subprocess.run(
            [sys.executable, str(Path(__file__).resolve()), address],
            cwd=tmp_path, env=variables(client), capture_output=True, text=True, timeout=300, check=False,
        )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == str(client)


if __name__ == "__main__":
    import xlashape_client

    ask(sys.argv[1])
    print(Path(xlashape_client.__file__).resolve().parents[3])
