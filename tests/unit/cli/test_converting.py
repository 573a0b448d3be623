"""`convert`: every form to every other, through files and pipes; a mistake leaves the target as it was."""

import gzip
from importlib import resources

import pytest
from command_line import run

from xlashape.cli.converting import _targets
from xlashape.hlo import HloModule
from xlashape.proto import xla

SOURCE = resources.files("xlashape.data").joinpath("attention.hlo.pb").read_bytes()
FORMS = ["hlo", "txt", "pb", "hlo.pb", "pbtxt", "json", "hlo.gz", "pb.gz", "hlo.pb.gz", "pbtxt.gz", "json.gz"]


def convert(*arguments, data=b"", code=0):
    result = run("convert", *arguments, data=data)
    assert result.returncode == code, result.stderr
    return result


@pytest.mark.parametrize("form", FORMS)
def test_every_form_gives_the_module_back(form, tmp_path):
    source, there, back = tmp_path / "source", tmp_path / f"there.{form}", tmp_path / "back.hlo.pb"
    source.write_bytes(SOURCE)
    convert(source, there)
    assert there.read_bytes().startswith(b"\x1f\x8b") == form.endswith(".gz")
    convert(there, back)
    text = HloModule.load(source).to_text(print_large_constants=True)
    assert HloModule.load(back).to_text(print_large_constants=True) == text
    if not form.startswith(("hlo.gz", "hlo", "txt")) or "pb" in form:
        # All but text are the message itself.
        assert xla.HloProto.FromString(back.read_bytes()) == xla.HloProto.FromString(SOURCE)


def test_the_form_of_standard_input_is_detected_from_the_content():
    text = convert("-", "-", data=SOURCE).stdout
    assert text.startswith(b"HloModule jit_attention")
    assert convert("-", "-", data=gzip.compress(text)).stdout == text
    assert xla.HloModuleProto.FromString(convert("-", "-", "--to", "pb", data=text).stdout).name == "jit_attention"


def test_a_mistake_leaves_the_target_as_it_was(tmp_path):
    source, target = tmp_path / "broken.hlo", tmp_path / "kept.pb"
    source.write_text("HloModule m\n\nENTRY e {\n  a = f32[2 parameter(0)\n  ROOT b = f32[2] nonesuch(a)\n}\n")
    target.write_bytes(b"as it was")
    says = convert(source, target, code=1).stderr.decode()
    assert says.startswith(f"xlashape: {source}:4:")
    # The line is shown, with a caret below the mistake.
    shown, caret = says.splitlines()[1:3]
    assert shown.strip() == "a = f32[2 parameter(0)"
    assert shown[caret.index("^")] == "p"
    assert target.read_bytes() == b"as it was"


@pytest.mark.parametrize(
    ("target", "options", "says", "code"),
    [
        ("x.unknown", [], "names no format", 1),
        ("x.pb", ["--to", "xml"], "'xml' is not a format of modules", 2),
        ("nowhere/x.pb", [], "cannot write", 1),
    ],
)
def test_wrong_targets_are_refused(target, options, says, code, tmp_path):
    source = tmp_path / "source.hlo.pb"
    source.write_bytes(SOURCE)
    assert says in convert(source, tmp_path / target, *options, code=code).stderr.decode()
    assert [path.name for path in tmp_path.iterdir()] == ["source.hlo.pb"]


def test_a_lossy_conversion_is_refused_without_the_option(tmp_path):
    module = xla.HloProto.FromString(SOURCE)
    module.buffer_assignment.buffer_allocations.add(size=7)
    source, target = tmp_path / "source.hlo.pb", tmp_path / "target.pb"
    source.write_bytes(module.SerializeToString())
    assert "the buffer assignment would be lost" in convert(source, target, code=1).stderr.decode()
    assert not target.exists()
    convert(source, target, "--lossy")
    assert xla.HloModuleProto.FromString(target.read_bytes()) == module.hlo_module


def test_what_is_lost_is_said(tmp_path):
    module = xla.HloProto.FromString(SOURCE)
    module.buffer_assignment.logical_buffers.add(id=1, size=4)
    source = tmp_path / "a.hlo.pb"
    source.write_bytes(module.SerializeToString())
    refused = convert(source, tmp_path / "a.pb", code=1).stderr.decode()
    assert (
        refused == "xlashape: pb holds a module alone: the buffer assignment would be lost; --lossy writes the rest\n"
    )
    said = convert(source, tmp_path / "a.pb", "--lossy").stderr.decode()
    lost = "is written, but pb holds a module alone: the buffer assignment is lost"
    assert said == f"xlashape: {tmp_path / 'a.pb'} {lost}\n"
    assert (
        convert(source, tmp_path / "a.hlo").stderr.decode()
        == f"xlashape: {tmp_path / 'a.hlo'} is written, but HLO text does not hold the buffer assignment\n"
    )


def test_a_conversion_that_was_perhaps_meant(tmp_path):
    source = tmp_path / "a.hlo.pb"
    source.write_bytes(SOURCE)
    said = convert(source, "-", "--to", "pbtext", code=2).stderr.decode()
    assert said.endswith("each with or without .gz: did you mean 'pbtxt'?\n")
    said = convert(tmp_path / "b.hlo.pb", "-", code=1).stderr.decode()
    assert said == f"xlashape: there is no file {str(tmp_path / 'b.hlo.pb')!r}: did you mean {str(source)!r}?\n"


def test_a_directory_is_converted_file_by_file(tmp_path):
    module = HloModule.parse("HloModule m ENTRY e { ROOT p = f32[4] parameter(0) }")
    dumps = tmp_path / "dumps"
    for name in ("a/one.hlo.pb", "a/two.hlo", "b/one.pb.gz"):
        (dumps / name).parent.mkdir(parents=True, exist_ok=True)
        module.save(dumps / name)
    (dumps / "b" / "broken.hlo").write_text("HloModule m ENTRY")
    for jobs in ("1", "2"):
        out = tmp_path / f"out{jobs}"
        result = convert(str(dumps), str(out), "--to", "json", "--jobs", jobs, code=1)
        assert result.stdout.decode().endswith(f"{out}: 3 of 4 files are written\n")
        assert "broken.hlo: line 1, column 18: expected" in result.stderr.decode()
        found = sorted(str(path.relative_to(out)) for path in out.rglob("*.*"))
        assert found == ["a/one.json", "a/two.json", "b/one.json"]
        assert {HloModule.load(out / name).to_text() for name in found} == {module.to_text()}


def test_a_stage_of_dumps_is_converted(tmp_path):
    dumps = tmp_path / "dumps"
    dumps.mkdir()
    for name in ("module_0001.jit_f.before_optimizations", "module_0001.jit_f.cpu_after_optimizations"):
        (dumps / f"{name}.txt").write_text(
            f"HloModule {name.rpartition('.')[2]} ENTRY e {{ ROOT p = f32[] parameter(0) }}"
        )
    for stage, names in (
        ("last", {"cpu_after_optimizations"}),
        ("before", {"before_optimizations"}),
        ("all", {"cpu_after_optimizations", "before_optimizations"}),
    ):
        convert(dumps, tmp_path / stage, "--to", "pb", "--stage", stage)
        assert {HloModule.load(path).name for path in (tmp_path / stage).rglob("*.pb")} == names


def test_several_files_need_a_form_and_different_targets(tmp_path):
    module = HloModule.parse("HloModule m ENTRY e { ROOT p = f32[4] parameter(0) }")
    module.save(tmp_path / "one.hlo")
    module.save(tmp_path / "one.pb")
    both = [str(tmp_path / "one.hlo"), str(tmp_path / "one.pb")]
    assert "--to says the form of several files" in convert(*both, str(tmp_path / "out"), code=2).stderr.decode()
    said = convert(*both, str(tmp_path / "out"), "--to", "json", code=1).stderr.decode()
    assert "would both be written to" in said
    assert not (tmp_path / "out").exists()


def test_objects_of_a_bucket_keep_their_folders(tmp_path):
    names = ["s3://bucket/dumps/a.pb", "s3://bucket/dumps/x/b.hlo.gz"]
    assert _targets(names, str(tmp_path), "json") == [tmp_path / "a.json", tmp_path / "x" / "b.json"]


def test_text_gets_the_source_of_each_instruction_as_a_comment(tmp_path):
    target, picture = tmp_path / "read.hlo", tmp_path / "layers.svg"
    convert("--with", "source", "-", target, data=SOURCE)
    text = target.read_text()
    module = HloModule.from_bytes(SOURCE)
    for each in module.instructions():
        origin = "  ".join(part for part in (each.metadata.source, each.metadata.op_name) if part)
        line = next(line for line in text.splitlines() if f"%{each.name} = " in line)
        assert line.partition("  // ")[2] == origin
        assert "metadata=" not in line
    assert HloModule.load(target).fingerprint() == module.fingerprint()
    assert HloModule.parse(text).to_text() == module.to_text(print_metadata=False)
    assert "only HLO text has some" in convert("--with", "source", "-", tmp_path / "x.pb", data=SOURCE, code=2).stderr.decode()  # fmt: skip
    convert("-", picture, data=SOURCE)
    assert picture.read_bytes() == convert("-", "-", "--to", "svg", data=SOURCE).stdout
    convert("--to", "png", picture.with_suffix(".hlo"), target, tmp_path / "pictures", code=1)
    assert (tmp_path / "pictures" / "read.png").read_bytes().startswith(b"\x89PNG")


def test_a_name_of_an_operation_ends_no_comment():
    text = 'ENTRY e { p = f32[] parameter(0)  ROOT n = f32[] negate(p), metadata={op_name="a\\nb // c\\rROOT x" } }'
    made = HloModule.parse(text).to_text(print_sources=True)
    assert "// a b // c�ROOT x" in made
    assert HloModule.parse(made).to_text() == HloModule.parse(text).to_text()
