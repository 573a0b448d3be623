"""Where instructions come from: frames of real dumps against the program that was compiled, and tables that are
broken."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from xla_versions import Case, cases

from xlashape import HloModule
from xlashape.errors import InvalidArgumentError, InvalidModuleError
from xlashape.hlo.module_proto.stack_frames import Frame, FrameKind, Metadata, ModuleFrames, kind_of
from xlashape.proto import xla

SOURCES = Path(__file__).parents[2] / "vectors" / "sources"
PROGRAM = (SOURCES / "train.py.txt").read_text().splitlines()
DUMPS = sorted(path.name for path in SOURCES.iterdir() if path.name.startswith("jax-"))
WITH_FRAMES = [case for case in cases() if "\nFileNames\n" in case.text]


def by_opcode(module: HloModule, opcode: str) -> Metadata:
    (found,) = [each for each in module.instructions() if each.proto.opcode == opcode]
    return found.metadata


def line_of(metadata: Metadata) -> str:
    """The line of the compiled program that the metadata names."""
    assert metadata.source_file == "/home/user/project/train.py"
    assert metadata.source == f"train.py:{metadata.source_line}"
    return PROGRAM[metadata.source_line - 1].strip()


@pytest.mark.parametrize("name", DUMPS)
def test_lines_of_dumps(name: str):
    """JAX 0.10 and newer name stack frames; JAX 0.7 names the innermost line, and the frames too in its protos."""
    module = HloModule.load(SOURCES / name)
    assert line_of(by_opcode(module, "sine")) == "y = nnlib.apply(lambda a: jnp.sin(a) * 2, nnlib.run(x, w))"
    assert line_of(by_opcode(module, "maximum")) == "return functools.reduce(jnp.maximum, [x, y])"
    assert line_of(by_opcode(module, "reduce")) == "return block(x, w).sum()"
    dot = by_opcode(module, "dot")
    assert dot.op_name == "jit(step)/dot_general"
    if name == "jax-0.7.1.after.hlo":  # its text has no tables
        assert (dot.source, len(dot.frames)) == ("nnlib/__init__.py:5", 1)
        return
    assert line_of(dot) == "y = nnlib.apply(lambda a: jnp.sin(a) * 2, nnlib.run(x, w))"
    assert [(each.source, each.function, each.is_own) for each in dot.frames] == [
        ("nnlib/__init__.py:5", "dense", False),
        ("nnlib/__init__.py:13", "apply", False),
        ("nnlib/__init__.py:9", "run", False),
        ("train.py:9", "block", True),
        ("train.py:15", "step", True),
        ("train.py:19", "<module>", True),
    ]
    assert dot.source_text() == "train.py:9"
    assert dot.source_text("all").startswith("nnlib/__init__.py:5 < nnlib/__init__.py:13 < ")
    span = dot.frames[3]
    assert PROGRAM[span.line - 1][span.column : span.end_column] == "nnlib.run(x, w)"


@pytest.mark.parametrize("name", DUMPS)
def test_table_of_instructions(name: str):
    module = HloModule.load(SOURCES / name)
    rows = {row["opcode"]: row for row in module.table()}
    assert rows["sine"]["source"] == "train.py:9"
    assert rows["sine"]["source_file"] == "/home/user/project/train.py"
    assert rows["sine"]["source_line"] == 9
    assert rows["constant"]["source"] is rows["constant"]["source_line"] is None
    assert [row["source"] or "" for row in module.table()] == [each.metadata.source for each in module.instructions()]


@pytest.mark.parametrize("case", WITH_FRAMES, ids=lambda case: case.name)
def test_frames_of_printed_tables(case: Case):
    """The tables as the text has them, followed by a few lines that share no code with the library."""
    names, functions = (
        {int(number): name for number, name in re.findall(r'^(\d+) "(.*)"$', part, re.MULTILINE)}
        for part in re.findall(r"^F(?:ile|unction)Names\n(?:.+\n)*", case.text, re.MULTILINE)
    )
    locations = {
        int(n): (names[int(f)], functions[int(g)], int(line))
        for n, f, g, line in re.findall(
            r"^(\d+) {file_name_id=(\d+) function_name_id=(\d+) line=(\d+)", case.text, re.MULTILINE
        )
    }
    parents = {
        int(n): (int(location), int(parent) - 1)
        for n, location, parent in re.findall(
            r"^(\d+) {file_location_id=(\d+)(?: parent_frame_id=(\d+))?", case.text.replace("}", " parent_frame_id=0}"), re.MULTILINE
        )
    }  # fmt: skip
    module = HloModule.parse(case.text)
    compared = 0
    for name, number in re.findall(
        r"^ *(?:ROOT )?%?([\w.-]+) = .*metadata={[^}]*stack_frame_id=(\d+)", case.text, re.M
    ):
        expected: list[tuple[str, str, int]] = []
        frame = int(number)
        while frame > 0:
            location, frame = parents[frame]
            expected.append(locations[location])
        found = [each for computation in module.computations for each in computation.instructions if each.name == name]
        for each in found:
            assert [(frame.file, frame.function, frame.line) for frame in each.metadata.frames] == expected
            compared += 1
    assert compared > 0


@pytest.mark.parametrize(
    ("file", "kind"),
    [
        ("train.py", FrameKind.OWN),
        ("/home/user/jax_project/lib/train.py", FrameKind.OWN),
        ("/tmp/ipykernel_12/345.py", FrameKind.OWN),
        ("/home/user/lib/pythonic/train.py", FrameKind.OWN),
        ("<stdin>", FrameKind.OWN),
        ("C:\\Users\\me\\train.py", FrameKind.OWN),
        ("/venv/lib/python3.12/site-packages/flax/linen.py", FrameKind.LIBRARY),
        ("/usr/lib/python3/dist-packages/numpy/core.py", FrameKind.LIBRARY),
        ("C:\\Python312\\Lib\\site-packages\\optax\\x.py", FrameKind.LIBRARY),
        ("/venv/lib/python3.12/site-packages/jax/_src/lax/lax.py", FrameKind.INTERNAL),
        ("/home/user/jax/jax/_src/lax/lax.py", FrameKind.INTERNAL),
        ("/usr/lib/python3.12/functools.py", FrameKind.INTERNAL),
        ("/opt/lib/python3.13t/threading.py", FrameKind.INTERNAL),
        ("/lib/python312.zip/functools.py", FrameKind.INTERNAL),
        ("C:\\Python312\\Lib\\threading.py", FrameKind.INTERNAL),
        ("<frozen runpy>", FrameKind.INTERNAL),
    ],
)
def test_kinds_of_files(file: str, kind: FrameKind):
    assert kind_of(file) is kind


def test_without_own_frames_the_innermost_of_a_library():
    library = Frame("/venv/lib/python3.12/site-packages/flax/linen.py", "call", 3)
    outer = Frame("/venv/lib/python3.12/site-packages/flax/run.py", "main", 4)
    internal = Frame("/usr/lib/python3.12/functools.py", "wrapper", 5)
    assert Metadata(frames=[internal, library, outer]).frame == library
    assert Metadata(frames=[internal]).source == "functools.py:5"
    assert Metadata(frames=[]).source == ""


def test_the_message_names_a_line_of_the_user_and_the_table_none():
    index = xla.StackFrameIndexProto(file_names=["/usr/lib/python3.12/functools.py"], function_names=["f"])
    index.file_locations.add(file_name_id=1, function_name_id=1, line=3)
    index.stack_frames.add(file_location_id=1)
    table = ModuleFrames(index)
    proto = xla.OpMetadata(source_file="train.py", source_line=7, stack_frame_id=1)
    assert Metadata.of_proto(proto, table).source == "train.py:7"
    proto.source_file = "/usr/lib/python3.12/ast.py"
    assert Metadata.of_proto(proto, table).source == "functools.py:3"
    proto.stack_frame_id = 99
    assert Metadata.of_proto(proto, table).source == "ast.py:7"


ids = st.integers(-2, 6)
tables = st.builds(
    xla.StackFrameIndexProto,
    file_names=st.lists(st.sampled_from(["a.py", "/lib/site-packages/b.py", "/lib/python3/c.py", ""]), max_size=5),
    function_names=st.lists(st.text(max_size=2), max_size=3),
    file_locations=st.lists(
        st.builds(xla.StackFrameIndexProto.FileLocation, file_name_id=ids, function_name_id=ids, line=ids), max_size=5
    ),
    stack_frames=st.lists(
        st.builds(xla.StackFrameIndexProto.StackFrame, file_location_id=ids, parent_frame_id=ids), max_size=5
    ),
)


@given(tables, st.integers(-(1 << 31), (1 << 31) - 1) | ids)
def test_any_table(index: xla.StackFrameIndexProto, number: int):
    """Numbers that are in no table and frames in a circle end the frames; the frame that is told is the innermost of
    the lowest kind."""
    metadata = Metadata.of_proto(xla.OpMetadata(stack_frame_id=number), ModuleFrames(index))
    frames = metadata.frames
    assert len(frames) <= len(index.stack_frames)
    assert metadata.frame == min(frames, key=lambda frame: frame.kind, default=None)
    assert metadata == Metadata(frames=frames)
    assert hash(metadata) == hash(Metadata(frames=frames))


def test_deep_tables():
    index = xla.StackFrameIndexProto(file_names=["/lib/python3/x.py"], function_names=["f"])
    index.file_locations.add(file_name_id=1, function_name_id=1, line=3)
    for parent in range(20_000):
        index.stack_frames.add(file_location_id=1, parent_frame_id=parent)
    table = ModuleFrames(index)
    sources = {table.most_telling(number) for number in range(20_000, 0, -1)}
    assert sources == {Frame("/lib/python3/x.py", "f", 3)}
    assert len(table.frames(20_000)) == 20_000


def test_other_words_for_frames():
    with pytest.raises(InvalidArgumentError, match="expected own or all, found 'some'"):
        Metadata().source_text("some")


def test_errors_name_the_line():
    proto = HloModule.load(SOURCES / "jax-0.12.0.1.after.hlo").proto
    sine = next(each for part in proto.computations for each in part.instructions if each.opcode == "sine")
    sine.shape.dimensions[0] = -5
    sine = HloModule(proto).instruction(sine.name)
    with pytest.raises(InvalidModuleError, match=r"instruction 'sin.0' \(train.py:9\) has an invalid shape"):
        _ = sine.shape
