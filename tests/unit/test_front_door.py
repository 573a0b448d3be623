"""`import xlashape` and every other public module: all names are there, `dir()` lists them, and nothing heavy is
imported."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import xlashape

PUBLIC_MODULES = [
    "xlashape",
    "xlashape.base.caches",
    "xlashape.cli",
    "xlashape.drawing",
    "xlashape.errors",
    "xlashape.base.frozen",
    "xlashape.hlo",
    "xlashape.indexing",
    "xlashape.limits",
    "xlashape.base.math",
    "xlashape.proto",
    "xlashape.shape",
    "xlashape.shape.xla_util.index_util",
    "xlashape.shape.xla_util.layout_util",
    "xlashape.shape.legacy",
    "xlashape.shape.xla_util.shape_util",
    "xlashape.shape.tiling",
    "xlashape.symbolic",
    "xlashape.base.text",
    "xlashape_client",
    "xlashape_server",
]


@pytest.mark.parametrize("name", xlashape.__all__)
def test_every_name_is_there(name):
    assert getattr(xlashape, name) is not None
    assert name in dir(xlashape)


def test_type_checkers_know_every_name():
    """The names are imported on first use, and once more in a block that only type checkers read."""
    source = ast.parse(Path(xlashape.__file__).read_text(encoding="utf-8"))
    [block] = [node for node in source.body if isinstance(node, ast.If)]
    known = {alias.asname for node in block.body if isinstance(node, ast.ImportFrom) for alias in node.names}
    known |= {target.id for node in block.body if isinstance(node, ast.Assign) for target in node.targets}
    offered = {*xlashape.__all__, "open", "__version__"}
    assert known - {None} == offered, "`if TYPE_CHECKING` of xlashape/__init__.py imports what `_HOMES` names"


def test_a_name_that_is_not_there():
    with pytest.raises(AttributeError, match="module 'xlashape' has no attribute 'Shapes'"):
        _ = xlashape.Shapes


def test_the_version_is_that_of_the_distribution():
    from importlib.metadata import version

    assert xlashape.__version__ == version("xlashape")


@pytest.mark.parametrize("name", [name for name, (_, attribute) in xlashape._HOMES.items() if not attribute])
def test_a_module_is_there_after_a_bare_import(name):
    """In a new process: elsewhere, an import by another test may have set the attribute."""
    script = f"import xlashape as xs; assert xs.{name}.__name__.startswith('xlashape.'); assert xs.{name}.__all__"
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)


@pytest.mark.parametrize("name", ["index_util", "layout_util", "legacy", "shape_util", "tiling"])
def test_a_module_of_shapes_is_there_after_a_bare_import(name):
    """In a new process, as above."""
    script = f"import xlashape.shape; assert xlashape.shape.{name}.__name__.endswith('.{name}')"
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)


def test_the_packages_are_offered():
    assert {"hlo", "indexing", "proto", "shape", "symbolic", "tiling"} <= set(xlashape.__all__)


@pytest.mark.parametrize("name", PUBLIC_MODULES)
def test_dir_lists_what_a_module_offers(name):
    """In a new process: elsewhere, other tests may have loaded what is imported on first use."""
    if name == "xlashape_client":
        pytest.importorskip("grpc", reason="grpc is not installed")
    script = f"""
import {name} as module

names = module.__all__
assert not set(names) - set(dir(module)), sorted(set(names) - set(dir(module)))
assert len(names) == len(set(names))
for name in names:
    getattr(module, name)
"""
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)


@pytest.mark.parametrize(
    ("code", "kept_out"),
    [
        ("import xlashape", ("numpy", "grpc", "google", "click")),
        ("import xlashape as xs; xs.Shape.parse('f32[3,5]{1,0:T(2,2)}')", ("numpy", "grpc", "click")),
        (
            "import xlashape as xs; xs.tiling.linear_index(xs.Shape.parse('f32[3]'), (1,))",
            ("numpy", "grpc", "click"),
        ),
        ("import xlashape as xs; xs.HloModule; xs.IndexingMap; xs.indexing", ("numpy", "grpc", "click")),
        ("import xlashape_client.results", ("grpc",)),
    ],
)
def test_what_is_heavy_is_loaded_on_first_use(code, kept_out):
    script = f"import sys\n{code}\nloaded = {{name.split('.')[0] for name in sys.modules}}\nassert not loaded & set({kept_out!r}), loaded & set({kept_out!r})"
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)


def test_packages_are_there_after_a_bare_import():
    script = """
import xlashape as xs

assert xs.hlo.Opcode("add") is xs.hlo.Opcode.ADD
assert xs.hlo.verify(xs.hlo.HloModule.parse("ENTRY e { ROOT p = f32[4] parameter(0) }")) == ()
assert xs.symbolic.IndexingMap is xs.IndexingMap
assert xs.shape.Shape is xs.Shape
xs.caches.clear()
"""
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)
