"""Formats of modules: each is recognised by its content, and refuses a module of which it cannot hold everything."""

import base64
import gzip
import io
import json
import struct
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from xlashape.errors import (
    DecodeError,
    InvalidArgumentError,
    LimitExceededError,
    LossyConversionError,
    NotFoundError,
    ParseError,
    XlashapeError,
)
from xlashape.hlo import HloModule, convert
from xlashape.hlo.files import detect_format
from xlashape.hlo.files.convert import FileKind, Format, decode, detect, encode, format_of_name, read, write
from xlashape.hlo.literal import from_raw
from xlashape.proto import xla

VECTORS = Path(__file__).resolve().parents[2] / "vectors"
FORMS = [Format(kind, compressed) for kind in FileKind for compressed in (False, True)]


def modules() -> list[HloModule]:
    with (VECTORS / "hlo_print.jsonl").open(encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    # Modules that came from text: not everything that a proto can hold, text can.
    rows = [row for row in rows if "text" in row]
    return [HloModule.from_proto(base64.b64decode(row["proto"])) for row in rows[::6]]


def same(first: HloModule, other: HloModule) -> bool:
    return first.proto.SerializeToString(deterministic=True) == other.proto.SerializeToString(deterministic=True)


@pytest.mark.parametrize("form", FORMS, ids=str)
def test_every_form_is_recognised_and_keeps_the_module(form):
    for module in modules():
        data = encode(module, form)
        assert detect(data) == form
        document = decode(data)
        assert document.format == form
        again = HloModule.of_document(document)
        if form.kind is FileKind.HLO:
            assert encode(again, "hlo") == encode(module, "hlo")
        else:
            assert same(again, module)
        assert HloModule.from_bytes(data).name == module.name


@pytest.mark.parametrize("kind", [FileKind.HLO_PB, FileKind.PBTXT, FileKind.JSON], ids=str)
def test_a_buffer_assignment_stays(kind):
    whole = xla.HloProto(hlo_module=modules()[0].proto)
    whole.buffer_assignment.logical_buffers.add(id=3, size=12)
    document = decode(encode(HloModule.from_proto(whole), kind))
    assert document.format == Format(kind)
    module = HloModule.of_document(document)
    assert module.hlo_proto == whole
    assert HloModule.from_bytes(encode(module, "hlo.pb.gz")).hlo_proto == whole


def test_what_a_form_cannot_hold_is_refused_unless_asked_for():
    whole = xla.HloProto(hlo_module=modules()[0].proto)
    whole.buffer_assignment.logical_buffers.add(id=3)
    module = HloModule.from_proto(whole)
    with pytest.raises(LossyConversionError, match="buffer assignment would be lost"):
        encode(module, "pb")
    assert same(HloModule.from_bytes(encode(module, "pb", lossy=True)), HloModule.from_proto(whole.hlo_module))

    unknown = xla.HloModuleProto.FromString(modules()[0].to_bytes() + b"\xc2\x3e\x01x")
    shape = xla.ShapeProto(element_type=xla.F32)
    payload = xla.HloModuleProto(name="m")
    payload.computations.add(name="e").instructions.add(name="c", opcode="constant").literal.CopyFrom(
        from_raw(shape, struct.pack("<I", 0x7F800001))
    )
    for module in map(HloModule, (unknown, payload)):
        for kind in ("json", "pbtxt"):
            with pytest.raises(LossyConversionError, match=f"{kind} cannot hold all of this module"):
                encode(module, kind)
            assert HloModule.from_bytes(encode(module, kind, lossy=True)).name == module.name
        assert same(HloModule.from_bytes(encode(module, "pb.gz")), module)


def test_text_takes_print_options_and_holds_large_constants():
    shape = xla.ShapeProto(element_type=xla.S32, dimensions=[12])
    proto = xla.HloModuleProto(name="m")
    constant = proto.computations.add(name="e").instructions.add(name="c", opcode="constant", shape=shape)
    constant.literal.CopyFrom(from_raw(shape, struct.pack("<12i", *range(12))))
    module = HloModule(proto)
    assert b"constant({0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11})" in encode(module, "hlo")
    assert b"constant({...})" in encode(module, "hlo", print_large_constants=False)
    assert b"  ROOT c = s32[12] constant(" in encode(module, FileKind.HLO, style="short_parsable")
    with pytest.raises(InvalidArgumentError, match="not a format of modules; the formats are hlo, pb, hlo.pb"):
        encode(module, "yaml")


@pytest.mark.parametrize(
    ("name", "form"),
    [
        ("a.hlo", "hlo"),
        ("a.txt", "hlo"),
        ("A.TXT.GZ", "hlo.gz"),
        ("x/a.pb", "pb"),
        ("a.hlo.pb", "hlo.pb"),
        ("module_0001.jit_f.after_optimizations.hlo.pb.gz", "hlo.pb.gz"),
        ("a.pbtxt", "pbtxt"),
        ("a.json.gz", "json.gz"),
        ("a.gz", None),
        ("a", None),
        ("-", None),
    ],
)
def test_suffixes_stand_for_formats(name, form):
    found = format_of_name(name)
    assert (None if found is None else str(found)) == form


@pytest.mark.parametrize(
    ("data", "form"),
    [
        (b"", "hlo"),
        (b"HloModule m\n\nENTRY e {\n}", "hlo"),
        (b"\xef\xbb\xbf  HloModule m", "hlo"),
        (b"// a comment\nHloModule m", "hlo"),
        (b"computations {\n  ROOT p = f32[] parameter(0)\n}", "hlo"),
        (b"schedule { x = f32[] parameter(0) }", "hlo"),
        (b"add {\n  p = f32[] parameter(0)\n}", "hlo"),
        (b"{ ROOT p = f32[] parameter(0) }", "hlo"),
        (b"cd", "hlo"),  # on the wire, the start and the end of group 12
        (b'# a comment\nname: "m"', "pbtxt"),
        (b'computations {\n  name: "e"\n}', "pbtxt"),
        (b"computations { instructions { } }", "pbtxt"),
        (b"hlo_module <\n>", "pbtxt"),
        (b' {"name": "m"}', "json"),
        (b'\n{"name": "m"}', "json"),
        (b"{}", "json"),
        (xla.HloModuleProto(name="m" * ord("{"), id=1).SerializeToString(), "pb"),
        (gzip.compress(b"{}", mtime=0), "json.gz"),
    ],
)
def test_the_content_decides_the_format(data, form):
    assert str(detect(data)) == form


def test_files_streams_and_progress(tmp_path):
    module = modules()[0]
    path = tmp_path / "m.hlo.pb.gz"
    assert str(write(module, path)) == "hlo.pb.gz"
    assert same(HloModule.of_document(read(path)), module)
    assert same(HloModule.load(path), module)

    stream, reported = io.BytesIO(), []
    write(module, stream, "json", progress=lambda done, total: reported.append((done, total)))
    assert reported == [(len(stream.getvalue()), len(stream.getvalue()))]
    reported.clear()
    stream.seek(0)
    document = read(stream, progress=lambda done, total: reported.append((done, total)))
    assert same(HloModule.of_document(document), module)
    assert reported == [(len(stream.getvalue()), None)]

    with pytest.raises(InvalidArgumentError, match="names no format"):
        write(module, tmp_path / "m.bin")
    with pytest.raises(InvalidArgumentError, match="no format is given"):
        write(module, io.BytesIO())
    with pytest.raises(NotFoundError, match="there is no file"):
        read(tmp_path / "none.pb")
    with pytest.raises(InvalidArgumentError, match="cannot read"):
        read(tmp_path)
    with pytest.raises(InvalidArgumentError, match="not a path"):
        read("a\0b")
    with pytest.raises(InvalidArgumentError, match="cannot write"):
        write(module, tmp_path / "no" / "m.pb")
    # A module that cannot be encoded leaves no file.
    broken = xla.HloModuleProto(computations=[{"instructions": [{"opcode": "no-such"}]}])
    with pytest.raises(XlashapeError):
        write(HloModule(broken), tmp_path / "broken.hlo")
    assert not (tmp_path / "broken.hlo").exists()


def test_standard_streams(monkeypatch):
    class Std:
        def __init__(self, data=b""):
            self.buffer = io.BytesIO(data)

    module = modules()[0]
    out = Std()
    monkeypatch.setattr("sys.stdout", out)
    write(module, "-", "pb")
    monkeypatch.setattr("sys.stdin", Std(out.buffer.getvalue()))
    assert same(HloModule.of_document(read("-")), module)


@pytest.mark.parametrize(
    ("data", "error", "message"),
    [
        (b'{"name": }', ParseError, "line 1, column 10: not JSON: Expecting value"),
        (b'{"name": "m",\n "nome": 1}', DecodeError, "not the JSON of a xla.HloModuleProto"),
        (b'{"a":' * 100_000, DecodeError, "not JSON: nested too deep"),
        (b'{"id": 1' + b"0" * 5000 + b"}", DecodeError, "not JSON"),
        (b'{"name": "\xff"}', DecodeError, "JSON is not UTF-8 at byte 10"),
        (b'name: "m"\nnome: 3', ParseError, "line 2, column 1: Message type"),
        (b"computations {" * 50_000, ParseError, "computations"),
        (b'name: "\xff"', DecodeError, "protobuf text is not UTF-8"),
        (b"\x1f\x8b\x08", DecodeError, "not gzip data"),
        (gzip.compress(b"HloModule m", mtime=0)[:-3], DecodeError, "not gzip data"),
        (b"\x0a\x05ab", DecodeError, "not a xla.HloModuleProto"),
    ],
)
def test_mistakes_are_clear_errors(data, error, message):
    with pytest.raises(error) as caught:
        HloModule.from_bytes(data)
    assert message in str(caught.value)


def test_an_error_about_bytes_names_the_file():
    with pytest.raises(DecodeError, match=r"^m\.pb holds no HLO module: the wire format is broken"):
        HloModule.from_bytes(b"\x0a\x05ab", name="m.pb")


def test_data_that_decompresses_to_more_than_the_limit_is_refused(monkeypatch):
    monkeypatch.setattr(convert, "MAX_BYTES", 1 << 20)
    with pytest.raises(LimitExceededError, match="decompresses to more than 1048576 bytes"):
        decode(gzip.compress(bytes(1 << 22)))
    with pytest.raises(LimitExceededError, match="more than 1048576 bytes"):
        read(io.BytesIO(bytes(1 << 22)))


@settings(max_examples=300, deadline=None, derandomize=True)
@given(
    st.one_of(
        st.binary(max_size=60),
        st.text(alphabet='{}[]":,<>#name computations0123 \n', max_size=60).map(str.encode),
        st.binary(max_size=20).map(gzip.compress),
    )
)
def test_any_bytes_are_a_module_or_an_error_of_the_library(data):
    try:
        module = HloModule.from_bytes(data)
    except XlashapeError:
        return
    assert isinstance(module.proto, xla.HloModuleProto)


@pytest.mark.parametrize("data", [b" " * 10_000, b"\n" * 10_000, b" \t\r\n" * 5_000])
def test_spaces_alone_are_a_text_without_a_module(data):
    assert str(detect(data)) == "hlo"
    with pytest.raises(ParseError):
        HloModule.from_bytes(data)


def test_the_number_of_fields_that_are_looked_at_is_bounded(monkeypatch):
    seen = 0
    fields = detect_format.fields

    def counted(data):
        nonlocal seen
        for field in fields(data):
            seen += 1
            yield field

    monkeypatch.setattr(detect_format, "fields", counted)
    monkeypatch.setattr(detect_format, "_MAX_FIELDS", 100)
    assert not detect_format.holds_text(b"\x20\x01" * 100_000)
    assert seen == 100


FLOATS = """HloModule m

ENTRY e {
  a = f32[5] constant({inf, -inf, nan, -3.40282347e+38, 3.4028233e38})
  b = f64[4] constant({inf, nan, 1.7976931348623157e308, 3.4028235e38})
  c = c64[2] constant({(inf, 3.40282347e+38), (1, nan)})
  d = c128[1] constant({(-inf, 3.4028235e38)})
  ROOT r = bf16[3] constant({inf, nan, 3.38953e+38})
}
"""


@pytest.mark.parametrize("form", ["json", "pbtxt"])
def test_the_largest_floats_and_those_that_are_not_finite_round_trip(form: str):
    module = HloModule.parse(FLOATS)
    assert same(HloModule.from_bytes(convert.encode(module, form)), module)


@pytest.mark.parametrize("number", ["3.4028235677973366e+38", "1e39", "-1e400"])
def test_json_numbers_that_no_f32_holds_are_refused(number: str):
    module = f'{{"computations": [{{"instructions": [{{"literal": {{"f32s": [{number}]}}}}]}}]}}'
    with pytest.raises(DecodeError, match="f32s"):
        convert.decode(module.encode())


@pytest.mark.parametrize(
    ("fields", "words"),
    [(r'"name": "\ud800"', "Unpaired surrogate"), (r'"\ud800": 1', "name of a field has half of a surrogate pair")],
)
def test_json_with_half_of_a_surrogate_pair_is_refused(fields: str, words: str):
    with pytest.raises(DecodeError, match=words):
        convert.decode(f'{{"computations": [], {fields}}}'.encode())


CONFIGURED = [
    ("replica_count=4, num_partitions=2", "", "replica_count, num_partitions"),
    ("alias_passthrough_params=true", "", "alias_passthrough_params"),
    (
        "allow_spmd_sharding_propagation_to_output={true}",
        "",
        "allow_spmd_sharding_propagation_to_output",
    ),
    ("", ", channel_id=0", "channel_id=0"),
]


@pytest.mark.parametrize(("header", "attribute", "lost"), CONFIGURED)
@pytest.mark.parametrize("form", ["pb", "hlo.pb", "json", "pbtxt", "pb.gz"])
def test_what_no_proto_holds_is_lost_only_where_that_is_asked_for(header, attribute, lost, form):
    text = f"HloModule m{', ' if header else ''}{header}\nENTRY e {{ p = f32[8] parameter(0) ROOT c = f32[8] collective-permute(p){attribute}, source_target_pairs={{{{0,1}}}} }}"
    module = HloModule.parse(text)
    with pytest.raises(LossyConversionError, match=f": {lost} would be lost"):
        encode(module, form)
    assert HloModule.from_bytes(encode(module, form, lossy=True)).proto == module.proto
    again = HloModule.from_bytes(encode(module, "hlo"))
    assert (again.config, again.proto) == (module.config, module.proto)


def test_channel_0_is_printed():
    # As jaxlib 0.12.0.1 prints the module that it made of this text.
    text = """HloModule m, entry_computation_layout={(f32[8]{0})->f32[8]{0}}

ENTRY %e (p: f32[8]) -> f32[8] {
  %p = f32[8]{0} parameter(0)
  ROOT %c = f32[8]{0} collective-permute(%p), channel_id=0, source_target_pairs={{0,1}}
}

"""
    module = HloModule.parse(text)
    assert module.to_text() == text
    assert "channel_id" not in HloModule.from_proto(module.proto).to_text()
