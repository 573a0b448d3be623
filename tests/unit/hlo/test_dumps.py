"""Files that XLA and its profiler write beside modules: those that hold modules, and those that hold none."""

from __future__ import annotations

import gzip
import io
import pickle
import zipfile
from pathlib import Path

import pytest
from click.testing import CliRunner

import xlashape as xs
from xlashape.cli import main
from xlashape.errors import DecodeError, InvalidArgumentError, NotFoundError
from xlashape.hlo import HloModule, convert
from xlashape.hlo.files import dumps
from xlashape.proto import xla
from xlashape.proto.wire import BYTES, VARINT, sized, tag, varint


def part(number: int, content: bytes | str) -> bytes:
    return tag(number, BYTES) + sized(content.encode() if isinstance(content, str) else content)


def number(field: int, value: int) -> bytes:
    return tag(field, VARINT) + varint(value)


def hlo_proto(name: str) -> bytes:
    module = HloModule.parse(f"HloModule {name}\nENTRY e {{ ROOT p = f32[2] parameter(0) }}").proto
    return xla.HloProto(hlo_module=module).SerializeToString()


def profile(*names: str) -> bytes:
    """An XSpace as jax.profiler writes it: a plane of metadata whose events hold the modules, and a plane of the device
    with lines."""
    entries = b""
    for ident, name in enumerate(names, 1):
        stat = number(1, 4) + part(6, hlo_proto(name.partition("(")[0]))
        metadata = number(1, ident) + part(2, name) + part(4, name) + part(5, stat)
        entries += part(4, number(1, ident) + part(2, metadata))
    stats = part(5, number(1, 4) + part(2, number(1, 4) + part(2, "Hlo Proto")))
    device = number(1, 1) + part(2, "/device:CPU:0") + part(3, number(1, 7) + part(2, "line"))
    return part(1, device) + part(1, part(2, "/host:metadata") + entries + stats) + part(4, "host")


LITERAL = xla.LiteralProto(shape={"element_type": xla.F32, "dimensions": [2]}, f32s=[1, 2]).SerializeToString()
MODULE = xla.HloProto.FromString(hlo_proto("m")).hlo_module.SerializeToString()
SNAPSHOTS = {
    "snapshot": part(1, hlo_proto("m")) + part(2, LITERAL) + part(3, LITERAL) + part(4, "cpu"),
    "snapshot alone": part(1, hlo_proto("m")),
    "unoptimized": part(1, MODULE) + part(2, part(1, LITERAL)) + part(2, part(1, LITERAL)) + number(3, 1),
    "profile of one": profile("m(3)"),
}


@pytest.mark.parametrize("kind", SNAPSHOTS)
def test_a_file_of_one_module_loads_as_it(kind, tmp_path: Path):
    for content in (SNAPSHOTS[kind], gzip.compress(SNAPSHOTS[kind])):
        path = tmp_path / "file.pb"
        path.write_bytes(content)
        assert HloModule.load(path).name == "m"
        assert [(name, HloModule.of_document(document).name) for name, document in convert.modules(path)] == [
            (str(path), "m")
        ]


def test_modules_are_not_taken_for_anything_else():
    assert dumps.modules_in(MODULE) is None
    assert dumps.modules_in(hlo_proto("m")) is None
    assert dumps.content_of_module(MODULE) is MODULE
    assert dumps.modules_in(b"") is None
    assert dumps.modules_in(b"HloModule m") is None


def test_a_profile_of_several_modules(tmp_path: Path):
    path = tmp_path / "host.xplane.pb"
    path.write_bytes(profile("jit_f(1)", "jit_g(2)", "jit_f(3)"))
    with pytest.raises(
        InvalidArgumentError, match=r"holds 3 modules: jit_f\(1\), jit_g\(2\), jit_f\(3\); choose one as FILE#NAME"
    ):
        HloModule.load(path)
    assert HloModule.load(f"{path}#jit_f(3)").name == "jit_f"
    assert HloModule.load(f"{path}#jit_g").name == "jit_g"
    with pytest.raises(NotFoundError, match=r"2 modules 'jit_f'; it holds jit_f\(1\), jit_f\(3\)$"):
        HloModule.load(f"{path}#jit_f")
    with pytest.raises(NotFoundError, match="no module 'h'"):
        HloModule.load(f"{path}#h")
    names = [name for name, _ in convert.modules(path)]
    assert names == [f"{path}#jit_f(1)", f"{path}#jit_g(2)", f"{path}#jit_f(3)"]
    assert [HloModule.load(name).name for name in names] == ["jit_f", "jit_g", "jit_f"]
    result = CliRunner().invoke(main, ["size", f"{path}#jit_g(2)"], standalone_mode=False)
    assert "f32[2]" in result.output, result.exception


def test_a_choice_where_there_is_none(tmp_path: Path):
    path = tmp_path / "a#b.pb"
    path.write_bytes(MODULE)
    assert HloModule.load(path).name == "m"
    with pytest.raises(NotFoundError, match="without modules to choose"):
        HloModule.load(f"{path}#m")
    with pytest.raises(NotFoundError, match="no file"):
        HloModule.load(tmp_path / "nothing#m")


_MLIR = "(MLIR that jaxlib .* does not make HLO|StableHLO, which jaxlib makes HLO)"


def _zip(name: str) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        archive.writestr(name, b"x")
    return content.getvalue()


def test_the_graphs_of_torch_xla_are_modules(tmp_path: Path):
    def graph(name: str, count: int) -> str:
        module = (
            f"HloModule {name}, entry_computation_layout={{()->f32[{count}]{{0}}}}\n\nENTRY %e () -> f32[{count}] {{\n"
        )
        module += f"  ROOT %c = f32[{count}]{{0}} parameter(0)\n}}\n\n\n"
        return f"[ScheduleSyncTensorsGraph]\nTensorsGraphInfo:\n  f (a.py:1)\n\n## BEGIN_GRAPH\n{module}Graph Hash: 1d\n\n## END_GRAPH\n\n"

    path = tmp_path / "graphs.hlo.0"
    path.write_text(graph("IrToHlo.3", 2))
    assert str(HloModule.load(path).entry.root.shape) == "f32[2]{0}"
    path.write_text(graph("IrToHlo.3", 2) + graph("IrToHlo.4", 5) + graph("IrToHlo.3", 7))
    with pytest.raises(
        InvalidArgumentError, match=r"3 modules: IrToHlo.3\(0\), IrToHlo.4\(1\), IrToHlo.3\(2\); choose"
    ):
        HloModule.load(path)
    for choice, count in (("IrToHlo.3(0)", 2), ("IrToHlo.4", 5), ("IrToHlo.3(2)", 7)):
        assert str(HloModule.load(f"{path}#{choice}").entry.root.shape) == f"f32[{count}]{{0}}"
    assert [len(each.entry.instructions) for each in HloModule.all_of(path)] == [1, 1, 1]


@pytest.mark.parametrize(
    ("name", "content", "what"),
    [
        ("x.mlir", b"#loc = loc(unknown)\nmodule @jit_f attributes {} {\n}\n", _MLIR),
        ("x.txt", b"module {\n}\n", _MLIR),
        ("x.bin", b"ML\xefR\x0dStableHLO_v1.0.0\x00", _MLIR),
        ("x.npy", b"\x93NUMPY\x01\x00v\x00{'descr': '<f8'}", "arrays of NumPy, and no program"),
        ("x.npz", _zip("x.npy"), "arrays of NumPy"),
        ("x.pt", _zip("a/data.pkl"), "a file of PyTorch"),
        ("x.pt2", _zip("e/data/weights/weight_0"), "a file of PyTorch"),
        ("x.pth", b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19.", "a file of PyTorch"),
        ("x.pkl", pickle.dumps({"a": 1}), "a pickle of Python"),
        ("x.keras", _zip("metadata.json"), "a model of Keras"),
        ("x.zip", _zip("a.txt"), "a ZIP archive"),
        ("x.h5", b"\x89HDF\r\n\x1a\n" + bytes(9), "arrays as HDF5"),
        ("x.safetensors", b"\x10" + bytes(7) + b'{"a":{"dtype":"F64"}}', "arrays as safetensors"),
        ("x.onnx", number(1, 11) + part(2, "pytorch") + part(7, b"g"), "a model of ONNX"),
        ("y.onnx", number(1, 8) + part(7, part(1, b"")), "a model of ONNX"),
        ("saved_model.pb", number(1, 1) + part(2, b"x"), "a SavedModel of TensorFlow"),
        ("x.tflite", b"\x1c\0\0\0TFL3" + bytes(20), "a model of TensorFlow Lite"),
        ("x.dot", b"digraph G {\n}\n", "Graphviz.*hlo.pb"),
        ("x.ll", b"; ModuleID = '__compute_module'\n", "LLVM's code"),
        ("m-buffer-assignment.txt", b"BufferAssignment:\nallocation 0: size 4\n", "buffer assignment.*optimizations.txt"),
        ("m-memory-usage-report.txt", b"Total bytes used: 4\n", "memory that a module uses"),
        ("m.pb", part(1, number(1, 35) + number(2, 0)) + part(1, number(1, 4)), "memory that a module uses"),
        ("m.debug_options", b"xla_flag: true\n", "options that a module was compiled with"),
        ("compile_options.pb", part(3, number(5, 1)), "options that a module was compiled with.*directory above"),
        ("topology.pb", part(1, b"\xff"), "devices that a module was compiled for.*directory above"),
        ("m.thunk_sequence.txt", b"000: kKernel\n", "thunks"),
        ("empty.xplane.pb", part(1, part(2, "/host:CPU")), "a profile that holds no modules"),
    ],
)  # fmt: skip
def test_files_without_modules_are_named(name, content, what, tmp_path: Path):
    path = tmp_path / name
    path.write_bytes(content)
    for ask in (HloModule.load, xs.cost):
        with pytest.raises(DecodeError, match=what):
            ask(path)
    result = CliRunner().invoke(main, ["map", str(path)], standalone_mode=False)
    assert isinstance(result.exception, DecodeError)


def test_the_content_counts_more_than_the_name(tmp_path: Path):
    path = tmp_path / "x.mlir"
    path.write_text("HloModule m\nENTRY e { ROOT p = f32[2] parameter(0) }")
    assert HloModule.load(path).name == "m"


def test_a_dump_directory_lists_its_modules(tmp_path: Path):
    for name in ("b.before_optimizations.txt", "a.hlo.pb.gz", "a-buffer-assignment.txt", "a.dot", "a.ll", "notes.md"):
        content = (
            gzip.compress(hlo_proto("m"))
            if "hlo.pb" in name
            else b"HloModule m\nENTRY e { ROOT p = f32[2] parameter(0) }"
        )
        (tmp_path / name).write_bytes(content)
    listed = "is a directory; its modules: a.hlo.pb.gz, b.before_optimizations.txt$"
    with pytest.raises(InvalidArgumentError, match=listed):
        HloModule.load(tmp_path)
    result = CliRunner().invoke(main, ["size", str(tmp_path)], standalone_mode=False)
    assert result.exception is None
    assert all(name in result.output for name in ("a.hlo.pb.gz", "b.before_optimizations.txt"))
    assert [
        (Path(name).name, HloModule.of_document(document).name) for name, document in convert.modules(tmp_path)
    ] == [
        ("a.hlo.pb.gz", "m"),
        ("b.before_optimizations.txt", "m"),
    ]
    (tmp_path / "c.cpu_after_optimizations.txt").write_text("HloModule m\nENTRY e { ROOT p = f32[2] parameter(0) }")
    with pytest.raises(InvalidArgumentError, match=r"its modules: c.cpu_after_optimizations.txt, a.hlo.pb.gz, b"):
        HloModule.load(tmp_path)
    (tmp_path / "empty").mkdir()
    with pytest.raises(InvalidArgumentError, match="directory without modules"):
        HloModule.load(tmp_path / "empty")
