"""No file of the three packages imports itself through other files, and every deferred import has its reason in a list.

import-linter keeps the floors (pyproject.toml). These tests look at single files, and count imports inside functions
and under `TYPE_CHECKING` like any other: neither may hide a circle.
"""

from __future__ import annotations

import ast
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
SOURCES = [
    *[path for path in sorted(ROOT.glob("xlashape/**/*.py")) if "_pb2" not in path.name],
    *sorted(ROOT.glob("server/xlashape_server/**/*.py")),
    *sorted(ROOT.glob("clients/python/xlashape_client/**/*.py")),
]
OWN = ("xlashape", "xlashape_server", "xlashape_client")

_PROTOBUF = "protobuf loads when the first message is made"
_NUMPY = "NumPy loads when the first array is made"
_HLO_TEXT = "reader and writer of HLO text take 30 ms to load; many programs need neither, or one of them"
_SHAPES = "modules take 100 ms to load; a question about a shape needs none"
_PYTEST = "every run of pytest loads the plugin, whether or not its tests need it"
_MAPS = "modules and maps take 100 ms to load; a picture of a layout needs neither"
_NAMES = "the names of the package are imported on first use"
_VALUES = "the codecs of attributes load when the first attribute is read"
_SERVER = "grpc and the server load when a server is started"
_TELEMETRY = "the package of the extra telemetry, for servers that have metrics"
_CLIENT = "grpc and NumPy load when a command asks its question"

# (importing module, imported module) → why the import is inside a function or under TYPE_CHECKING: start-up time,
# always.
DEFERRED_IMPORTS: dict[tuple[str, str], str] = {
    (
        "xlashape_server.handlers",
        "xlashape_server.conversions",
    ): "it needs gRPC's packages, and answers in JSON alone do",
    ("xlashape.cli.agents", "xlashape.agents"): "start-up time: few calls need it",
    ("xlashape.cli.scanning", "xlashape.scan"): "start-up time: few calls need it",
    ("xlashape.cli.comparing", "xlashape.reports.equivalent"): "it loads NumPy, and few diffs ask for it",
    ("xlashape.pytest_plugin", "xlashape.reports.equivalent"): "every run of pytest loads the plugin",
    ("xlashape.cli.reporting", "xlashape.drawing.draw"): "few commands draw",
    ("xlashape.drawing.draw", "xlashape.drawing.memory_map"): "few commands draw",
    ("xlashape.drawing.draw", "xlashape.drawing.profile_bars"): "few commands draw",
    ("xlashape.drawing.draw", "xlashape.reports.memory"): "few commands draw",
    ("xlashape.drawing.draw", "xlashape.reports.profile"): "few commands draw",
    ("xlashape.reports.memory.recomputing", "xlashape.reports.cost.program"): "it needs maps, and few have such loops",
    ("xlashape.reports.memory.restacked", "xlashape.indexing.answers.leaves"): "it needs maps, and few have such loops",
    ("xlashape.reports.memory.restacked", "xlashape.indexing.walk.repeated.trip_count"): "as above",
    ("xlashape.reports.memory.suggestions", "xlashape.reports.copies"): "it needs maps, and few ask for suggestions",
    ("xlashape.cli.connection", "xlashape_client"): _CLIENT,
    ("xlashape.cli.commands", "xlashape.cli.reporting"): "few commands are reports",
    ("xlashape.cli.commands", "xlashape.cli.unnamed"): "few inputs are named without a command",
    ("xlashape.cli.completing", "xlashape.hlo"): "few files have to be read to complete a name",
    ("xlashape.cli.converting", "xlashape.hlo"): _HLO_TEXT,
    ("xlashape.cli.converting", "xlashape.hlo.files.convert"): _HLO_TEXT,
    ("xlashape.cli.converting", "xlashape.drawing.layers"): _HLO_TEXT,
    ("xlashape.cli.drawing", "xlashape.drawing.draw"): "one command draws",
    ("xlashape.cli.drawing", "xlashape.drawing.picture"): "one command draws",
    ("xlashape.cli.drawing", "xlashape.hlo"): "one command draws, and few pictures need a module",
    ("xlashape_client.methods.reports", "xlashape.reports.profile.sources"): "few callers have profiles",
    ("xlashape.__main__", "xlashape.cli"): "a check of health, every few seconds, needs no command line",
    ("xlashape_server.commands.health", "xlashape_client.status"): _CLIENT,
    ("xlashape.cli.modules", "xlashape.hlo"): _HLO_TEXT,
    ("xlashape.cli.modules", "xlashape.hlo.files.convert"): _HLO_TEXT,
    ("xlashape.cli.reporting", "xlashape_client"): _CLIENT,
    ("xlashape_server.commands.serving", "xlashape_client.methods"): _SERVER,
    ("xlashape_server.commands.serving", "xlashape_server.commands.page_file"): "few machines have no gRPC",
    ("xlashape_server.commands.serving", "xlashape_server"): _SERVER,
    ("xlashape_server.commands.serving", "xlashape_server.process"): _SERVER,
    ("xlashape_server.commands.opening", "xlashape_server.commands.page_file"): _SERVER,
    ("xlashape_server.commands.opening", "xlashape.page"): _SERVER,
    ("xlashape_server.commands.opening", "xlashape_client"): _SERVER,
    ("xlashape_server.commands.opening", "xlashape_server.process"): _SERVER,
    ("xlashape_server.commands.opening", "xlashape_server"): _SERVER,
    (
        "xlashape_server.worker",
        "xlashape_server.web",
    ): "the packages of the extra web, for servers that answer over HTTP",
    ("xlashape_server.app", "xlashape_server.metrics"): _TELEMETRY,
    ("xlashape_server.commands.serving", "xlashape_server.app"): _SERVER,
    ("xlashape_server.commands.serving", "xlashape_server.config"): _SERVER,
    ("xlashape.cli.shapes", "xlashape.hlo"): _HLO_TEXT,
    ("xlashape.cli.shapes", "xlashape.shape.tpu_layout"): "few shapes are put on a device",
    ("xlashape.cli.shapes", "xlashape.shape.xla_util.shape_util"): "`index` does not need it",
    ("xlashape.cli.shapes", "xlashape_client"): _CLIENT,
    ("xlashape.cli.shapes", "xlashape_client.results"): _CLIENT,
    ("xlashape.cli.comparing", "xlashape.hlo"): _HLO_TEXT,
    ("xlashape.cli.comparing", "xlashape.reports.diff"): _HLO_TEXT,
    ("xlashape.cli.comparing", "xlashape.reports.diff.gate"): _HLO_TEXT,
    ("xlashape.cli.comparing", "xlashape.reports.diff.markdown"): _HLO_TEXT,
    ("xlashape.cli.comparing", "xlashape.reports.diff.text"): _HLO_TEXT,
    ("xlashape.drawing.notebook.shapes", "xlashape.drawing.notebook.reading"): _MAPS,
    ("xlashape.drawing.draw", "xlashape.drawing.marks.reads"): _MAPS,
    ("xlashape.drawing.draw", "xlashape.drawing.marks.shardings"): _MAPS,
    ("xlashape.drawing.draw", "xlashape.indexing.sharding"): _MAPS,
    ("xlashape.drawing.draw", "xlashape.hlo"): _MAPS,
    ("xlashape.drawing.draw", "xlashape.symbolic"): _MAPS,
    ("xlashape.hlo", "xlashape.hlo.files.convert"): _NAMES,
    ("xlashape.hlo", "xlashape.hlo.module"): _NAMES,
    ("xlashape.hlo", "xlashape.hlo.module_proto.module_config"): _NAMES,
    ("xlashape.hlo", "xlashape.hlo.ops.opcode"): _NAMES,
    ("xlashape.hlo.files.inputs", "xlashape.hlo.files.dumps"): "most commands are about one file",
    ("xlashape.reports.why.compiler_messages", "xlashape.hlo.collectives.meshes"): "few messages are about shardings",
    ("xlashape.reports.why.compiler_messages", "xlashape.indexing.sharding.resharding"): "few are about shardings",
    ("xlashape.reports.why.compiler_messages", "xlashape.indexing.sharding.spelled"): "few are about shardings",
    ("xlashape.reports.report", "xlashape.reports.layers"): _SHAPES,
    ("xlashape.reports.size", "xlashape.hlo.flow"): _SHAPES,
    ("xlashape.reports.size", "xlashape.hlo.module"): _SHAPES,
    ("xlashape.reports.size", "xlashape.reports.program"): _SHAPES,
    ("xlashape.reports.size", "xlashape.reports.why.programs"): _SHAPES,
    ("xlashape.reports.size", "xlashape.shape.xla_util.shape_util"): _SHAPES,
    ("xlashape.reports.why", "xlashape.reports.why.inputs"): _SHAPES,
    ("xlashape.reports.why", "xlashape.reports.why.oom"): _SHAPES,
    ("xlashape.reports.why", "xlashape.reports.why.programs"): _SHAPES,
    ("xlashape.reports.why.explain", "xlashape.reports.why.inputs"): _SHAPES,
    ("xlashape.hlo", "xlashape.hlo.literal"): _NAMES,
    ("xlashape.hlo", "xlashape.hlo.values.replica_groups"): _NAMES,
    ("xlashape.hlo", "xlashape.hlo.values.sharding"): _NAMES,
    ("xlashape.hlo", "xlashape.hlo.module_proto.stack_frames"): _NAMES,
    ("xlashape.hlo", "xlashape.hlo.ops.instruction_attributes"): _NAMES,
    ("xlashape.hlo", "xlashape.hlo.values.dimension_numbers"): _NAMES,
    ("xlashape.hlo", "xlashape.hlo.values.window"): _NAMES,
    ("xlashape.hlo", "xlashape.hlo.text.writer.printed_module"): _NAMES,
    ("xlashape.hlo", "xlashape.hlo.verifier"): _NAMES,
    ("xlashape.hlo.files.convert", "xlashape.hlo.text.writer.printed_module"): _HLO_TEXT,
    ("xlashape.hlo.ir", "xlashape.hlo.module_proto.stack_frames"): _VALUES,
    ("xlashape.hlo.ir", "xlashape.hlo.ops.instruction_attributes"): _VALUES,
    ("xlashape.hlo.kind", "xlashape.hlo.module_proto.stack_frames"): _VALUES,
    ("xlashape.hlo.kind", "xlashape.hlo.values.replica_groups"): _VALUES,
    ("xlashape.hlo.kind", "xlashape.hlo.values.sharding"): _VALUES,
    ("xlashape.hlo.module", "xlashape.hlo.canonical"): _HLO_TEXT,
    ("xlashape.hlo.module", "xlashape.hlo.editing.edits"): _HLO_TEXT,
    ("xlashape.hlo.module", "xlashape.hlo.files.convert"): _HLO_TEXT,
    ("xlashape.hlo.module", "xlashape.hlo.files.module_of"): _HLO_TEXT,
    ("xlashape.hlo.module", "xlashape.hlo.instruction_table"): "few programs make tables",
    ("xlashape.hlo.module", "xlashape.hlo.text.reader.module"): _HLO_TEXT,
    ("xlashape.hlo.module", "xlashape.hlo.text.writer.module"): _HLO_TEXT,
    ("xlashape.hlo.module", "xlashape.hlo.text.writer.printed_module"): _HLO_TEXT,
    ("xlashape.shape", "xlashape.shape.xla_util.index_util"): _NAMES,
    ("xlashape.shape", "xlashape.shape.xla_util.layout_util"): _NAMES,
    ("xlashape.shape", "xlashape.shape.legacy"): _NAMES,
    ("xlashape.shape", "xlashape.shape.xla_util.primitive_util"): _NAMES,
    ("xlashape.shape", "xlashape.shape.xla_util.shape_util"): _NAMES,
    ("xlashape.pytest_plugin", "xlashape.hlo"): _PYTEST,
    ("xlashape.pytest_plugin", "xlashape.hlo.files.module_of"): _PYTEST,
    ("xlashape.pytest_plugin", "xlashape.reports.diff"): _PYTEST,
    ("xlashape.pytest_plugin", "xlashape.reports.diff.summary"): _PYTEST,
    ("xlashape.shape", "xlashape.shape.tiling"): _NAMES,
    ("xlashape.shape", "xlashape.shape.tpu_layout"): _NAMES,
    ("xlashape.shape.tiling", "xlashape.shape.tiling.batches"): _NUMPY,
    ("xlashape.shape.tiling", "xlashape.shape.tiling.buffers"): _NAMES,
    ("xlashape.shape.tiling", "xlashape.shape.tiling.padding"): _NAMES,
    ("xlashape.shape.value.program_shape", "xlashape.proto.xla"): _PROTOBUF,
    ("xlashape.shape.value.program_shape", "xlashape.shape.proto_codec"): _PROTOBUF,
    ("xlashape.shape.value.shape", "xlashape.proto.xla"): _PROTOBUF,
    ("xlashape.shape.value.shape", "xlashape.shape.shape_of"): "few programs make shapes of other libraries' objects",
    ("xlashape.shape.value.shape", "xlashape.shape.proto_codec"): _PROTOBUF,
    ("xlashape.symbolic.map.indexing_map", "xlashape.proto.v1"): _PROTOBUF,
    ("xlashape.symbolic.map.indexing_map", "xlashape.symbolic.map.serde"): _PROTOBUF,
    ("xlashape_client", "xlashape_client.async_client"): "grpc loads with the client; its results do not need it",
    ("xlashape_client", "xlashape_client.client"): "grpc loads with the client; its results do not need it",
}


class Import(NamedTuple):
    """An import of one of our modules."""

    importer: str
    imported: str
    line: int
    is_lazy: bool
    is_for_types: bool


def module_name(path: Path) -> str:
    """`xlashape.hlo` for xlashape/hlo/__init__.py."""
    parts = list(path.relative_to(ROOT).with_suffix("").parts)
    parts = parts[next(i for i, part in enumerate(parts) if part in OWN) :]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_name(path): path for path in SOURCES}


class _Collector(ast.NodeVisitor):
    def __init__(self, importer: str) -> None:
        self.importer = importer
        self.imports: list[Import] = []
        self._is_lazy = False
        self._is_for_types = False

    def _add(self, imported: str, line: int) -> None:
        if imported.split(".")[0] in OWN:
            self.imports.append(Import(self.importer, imported, line, self._is_lazy, self._is_for_types))

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            self._add(alias.name, node.lineno)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        assert not node.level, f"{self.importer}: line {node.lineno} imports relatively"
        for alias in node.names:
            submodule = f"{node.module}.{alias.name}"
            self._add(submodule if submodule in MODULES else node.module or "", node.lineno)

    def visit_Call(self, node: ast.Call) -> None:
        function = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        if function in ("import_module", "__import__") and node.args and isinstance(node.args[0], ast.Constant):
            self._add(str(node.args[0].value), node.lineno)
        self.generic_visit(node)

    def visit_If(self, node: ast.If) -> None:
        before = self._is_for_types
        self._is_for_types = before or ast.unparse(node.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING")
        for child in node.body:
            self.visit(child)
        self._is_for_types = before
        for child in node.orelse:
            self.visit(child)

    def _visit_function(self, node: ast.AST) -> None:
        before, self._is_lazy = self._is_lazy, True
        self.generic_visit(node)
        self._is_lazy = before

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        self._visit_function(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> None:
        self._visit_function(node)

    def visit_Lambda(self, node: ast.Lambda) -> None:
        self._visit_function(node)


def imports() -> list[Import]:
    """Every import of one of our modules in one of our files."""
    found: list[Import] = []
    for name, path in MODULES.items():
        collector = _Collector(name)
        collector.visit(ast.parse(path.read_text(encoding="utf-8")))
        found += collector.imports
    return found


def circles(edges: dict[str, set[str]]) -> list[list[str]]:
    """The strongly connected components of more than one module, and modules that import themselves (Tarjan)."""
    index: dict[str, int] = {}
    lowest: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(name: str) -> None:
        index[name] = lowest[name] = len(index)
        stack.append(name)
        for other in sorted(edges.get(name, ())):
            if other not in index:
                visit(other)
                lowest[name] = min(lowest[name], lowest[other])
            elif other in stack:
                lowest[name] = min(lowest[name], index[other])
        if lowest[name] == index[name]:
            component = [stack.pop()]
            while component[-1] != name:
                component.append(stack.pop())
            if len(component) > 1 or name in edges.get(name, ()):
                found.append(sorted(component))

    for name in sorted(edges):
        if name not in index:
            visit(name)
    return found


def test_circles_are_found():
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"b", "d"}, "d": set(), "e": {"e"}}) == [["b", "c"], ["e"]]


def test_no_file_imports_itself_by_way_of_others():
    edges: dict[str, set[str]] = {name: set() for name in MODULES}
    for found in imports():
        edges[found.importer].add(found.imported)
    assert circles(edges) == []


def test_deferred_imports_are_listed():
    """`xlashape/__init__.py` defers all its imports, and is left out."""
    deferred = {(found.importer, found.imported) for found in imports() if found.is_lazy or found.is_for_types}
    deferred = {pair for pair in deferred if pair[0] != "xlashape"}
    assert sorted(deferred - DEFERRED_IMPORTS.keys()) == [], (
        "import at the top of the file, or list the import with its reason"
    )
    assert sorted(DEFERRED_IMPORTS.keys() - deferred) == [], "listed, and no longer in the source"


def test_names_are_imported_from_where_they_are_defined():
    """Not by way of another file that imports them too. Packages, and files with `__all__`, hand on what they
    import."""
    trees = {name: ast.parse(path.read_text(encoding="utf-8")) for name, path in MODULES.items()}
    handed_on: dict[str, set[str]] = {}
    for name, tree in trees.items():
        aliases = [alias for node in tree.body if isinstance(node, ast.ImportFrom) for alias in node.names]
        public = any(isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__" for node in tree.body)
        if MODULES[name].name != "__init__.py" and not public:
            handed_on[name] = {alias.name for alias in aliases if alias.asname is None}
    found = [
        f"{name} imports {alias.name} from {node.module}"
        for name, tree in trees.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
        if alias.name in handed_on.get(node.module or "", ())
    ]
    assert found == []
