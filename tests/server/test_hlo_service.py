"""HloService over gRPC: uploads in parts, lists in pages, bytes and padding."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from typing import Any

import grpc
import pytest
from google.rpc import error_details_pb2, status_pb2

from xlashape.proto import v1, xla


def pieces(content: bytes, size: int = 100, **first: Any) -> list[v1.UploadModuleRequest]:
    made = [v1.UploadModuleRequest(data=content[at : at + size]) for at in range(0, len(content), size)] or [
        v1.UploadModuleRequest()
    ]
    made[0].MergeFrom(v1.UploadModuleRequest(**first))
    return made


def details(error: grpc.RpcError, kind: Any) -> Any:
    data = dict(error.trailing_metadata())["grpc-status-details-bin"]
    for detail in status_pb2.Status.FromString(data).details:
        found = kind()
        if detail.Unpack(found):
            return found
    raise AssertionError(f"no {kind.__name__}")


@pytest.fixture(scope="module")
def uploaded(ask: Any, module: xla.HloModuleProto) -> v1.Module:
    return ask("HloService/UploadModule", pieces(module.SerializeToString())).module


def test_an_upload_is_named_by_its_content(ask: Any, module: xla.HloModuleProto, uploaded: v1.Module) -> None:
    content = module.SerializeToString()
    digest = hashlib.sha256(content).hexdigest()
    assert uploaded.name == f"modules/{digest}"
    assert (uploaded.size_bytes, uploaded.format) == (len(content), v1.MODULE_FORMAT_HLO_MODULE_PROTO)
    assert (uploaded.module_name, uploaded.entry_computation) == ("example", "main")
    assert (uploaded.computation_count, uploaded.instruction_count) == (2, 4)
    # Another test of the session may have uploaded it before.
    assert abs(uploaded.create_time.ToSeconds() - time.time()) < 3600
    assert uploaded.expire_time.ToSeconds() - uploaded.create_time.ToSeconds() >= 24 * 3600 - 60
    again = ask("HloService/UploadModule", pieces(content, 7, sha256=digest.upper(), size_bytes=len(content)))
    assert again.already_present
    assert again.module.name == uploaded.name
    assert again.module.create_time == uploaded.create_time


def test_an_hlo_proto_is_a_module_too(ask: Any, module: xla.HloModuleProto) -> None:
    content = xla.HloProto(hlo_module=module).SerializeToString()
    answer = ask("HloService/UploadModule", pieces(content)).module
    assert (answer.format, answer.instruction_count) == (v1.MODULE_FORMAT_HLO_PROTO, 4)
    listed = ask("HloService/ListInstructions", v1.ListInstructionsRequest(module=v1.ModuleInput(name=answer.name)))
    assert listed.total_size == 4


TEXT = """HloModule written

ENTRY main {
  x = f32[3,5]{1,0:T(2,2)} parameter(0)
  ROOT t = f32[5,3]{1,0} transpose(x), dimensions={1,0}
}
"""


def test_text_is_a_module_too(ask: Any) -> None:
    answer = ask("HloService/UploadModule", pieces(TEXT.encode())).module
    assert (answer.format, answer.module_name, answer.instruction_count) == (v1.MODULE_FORMAT_TEXT, "written", 2)
    for form in (v1.ModuleInput(name=answer.name), v1.ModuleInput(text=TEXT)):
        sizes = ask("ReportService/Size", v1.SizeRequest(module=form, order=v1.SIZE_ORDER_MODULE)).buffers
        assert [(one.name, one.bytes) for one in sizes] == [("x", 96), ("t", 60)]
        [row] = ask("IndexingService/IndexingMaps", v1.IndexingMapsRequest(module=form, instruction="t")).maps
        assert row.map == "(d0, d1) -> (d1, d0), domain: d0 in [0, 4], d1 in [0, 2]"


def test_a_mistake_in_text_has_line_and_column(ask: Any) -> None:
    wrong = TEXT.replace("transpose(x)", "transpose(y)")
    with pytest.raises(grpc.RpcError) as caught:
        ask("HloService/ListInstructions", v1.ListInstructionsRequest(module=v1.ModuleInput(text=wrong)))
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    [violation] = details(caught.value, error_details_pb2.BadRequest).field_violations
    assert violation.field == "module.text"
    assert violation.description.startswith("line 5, column 36: ")
    info = details(caught.value, error_details_pb2.ErrorInfo)
    assert (info.reason, info.metadata["line"], info.metadata["column"]) == ("PARSE", "5", "36")
    with pytest.raises(grpc.RpcError, match="data: line 5, column 36"):
        ask("HloService/UploadModule", pieces(wrong.encode()))


def test_content_is_returned_complete_or_in_parts(ask: Any, module: xla.HloModuleProto, uploaded: v1.Module) -> None:
    content = module.SerializeToString()
    without = ask("HloService/GetModule", v1.GetModuleRequest(name=uploaded.name))
    assert (without.content, without.module.instruction_count) == (b"", 4)
    whole = ask("HloService/GetModule", v1.GetModuleRequest(name=uploaded.name, include_content=True))
    assert whole.content == content
    part = v1.GetModuleRequest(name=uploaded.name, include_content=True, content_offset=10, content_limit=5)
    assert ask("HloService/GetModule", part).content == content[10:15]
    beyond = v1.GetModuleRequest(name=uploaded.name, include_content=True, content_offset=len(content) + 1)
    assert ask("HloService/GetModule", beyond).content == b""


def test_a_deleted_module_is_gone_from_every_worker(server: Any, wide: Callable[[int], bytes]) -> None:
    content = wide(3)
    channels = [grpc.insecure_channel(server.address, [("grpc.use_local_subchannel_pool", 1)]) for _ in range(8)]
    try:
        calls = [channel.unary_unary("/xlashape.v1.HloService/ListInstructions") for channel in channels]
        uploads = channels[0].stream_unary("/xlashape.v1.HloService/UploadModule")
        name = v1.UploadModuleResponse.FromString(
            uploads(iter([pieces(content, 10**6)[0].SerializeToString()]))
        ).module.name
        request = v1.ListInstructionsRequest(module=v1.ModuleInput(name=name)).SerializeToString()
        # Connections are spread over the workers. Each worker has decoded the module after these calls.
        assert all(v1.ListInstructionsResponse.FromString(call(request)).total_size == 3 for call in calls)
        delete = channels[0].unary_unary("/xlashape.v1.HloService/DeleteModule")
        delete(v1.DeleteModuleRequest(name=name).SerializeToString())
        for call in calls:
            with pytest.raises(grpc.RpcError) as caught:
                call(request)
            assert caught.value.code() is grpc.StatusCode.NOT_FOUND
        with pytest.raises(grpc.RpcError, match="there is no module"):
            delete(v1.DeleteModuleRequest(name=name).SerializeToString())
    finally:
        for channel in channels:
            channel.close()


def test_instructions_are_listed_in_the_modules_order(ask: Any, module: xla.HloModuleProto) -> None:
    inline = v1.ModuleInput(serialized=module.SerializeToString())
    listed = ask("HloService/ListInstructions", v1.ListInstructionsRequest(module=inline))
    assert [one.name for one in listed.instructions] == ["c", "x", "t", "n"]
    c, x, t, n = listed.instructions
    assert (x.shape, x.opcode, x.parameter_number, x.op_name) == ("f32[3,5]{1,0:T(2,2)}", "parameter", 0, "jit(f)/x")
    assert (list(t.operands), t.HasField("parameter_number"), t.computation, t.is_root) == (["x"], False, "main", False)
    assert (n.is_root, n.id, c.computation) == (True, 3, "other")
    one = v1.ListInstructionsRequest(module=inline, computation="main", opcode="transpose")
    assert [each.name for each in ask("HloService/ListInstructions", one).instructions] == ["t"]
    none = v1.ListInstructionsRequest(module=inline, opcode="dot")
    assert ask("HloService/ListInstructions", none).total_size == 0


def test_all_pages_together_are_the_complete_list(ask: Any, wide: Callable[[int], bytes]) -> None:
    rpc, kind = "HloService/ListInstructions", v1.ListInstructionsRequest
    inline = v1.ModuleInput(serialized=wide(25))
    whole = ask(rpc, kind(module=inline))
    assert (len(whole.instructions), whole.next_page_token, whole.total_size) == (25, "", 25)
    found, token = [], ""
    for size in (10, 10, 5):
        page = ask(rpc, kind(module=inline, page_size=10, page_token=token))
        assert (len(page.instructions), page.total_size) == (size, 25)
        found += page.instructions
        token = page.next_page_token
    assert token == ""
    assert found == list(whole.instructions)


def test_a_page_token_is_refused_with_another_request(ask: Any, wide: Callable[[int], bytes]) -> None:
    inline = v1.ModuleInput(serialized=wide(25))
    token = ask("HloService/ListInstructions", v1.ListInstructionsRequest(module=inline, page_size=3)).next_page_token
    for other in (
        v1.ListInstructionsRequest(module=inline, opcode="negate", page_token=token),
        v1.ListInstructionsRequest(module=v1.ModuleInput(serialized=wide(26)), page_token=token),
        v1.ListInstructionsRequest(module=inline, page_token="?"),
        v1.ListInstructionsRequest(module=inline, page_token="ÄÖ"),
        v1.ListInstructionsRequest(module=inline, page_token=token[:-4]),
    ):
        with pytest.raises(grpc.RpcError, match="page_token: expected the next_page_token"):
            ask("HloService/ListInstructions", other)


def broken(module: xla.HloModuleProto) -> bytes:
    changed = xla.HloModuleProto()
    changed.CopyFrom(module)
    changed.computations[1].instructions[1].operand_ids[:] = [77]
    return changed.SerializeToString()


@pytest.mark.parametrize(
    ("first", "content", "said"),
    [
        ({"sha256": "0" * 64}, None, "sha256: expected content with the SHA-256 0000"),
        ({"sha256": "xyz"}, None, "sha256: expected 64 digits"),
        ({"size_bytes": 10**6}, None, "size_bytes: "),
        ({"size_bytes": 3}, None, "data: expected 3 bytes, as the first message said, found more"),
        ({"size_bytes": -3}, None, "size_bytes: expected 0 or more"),
        ({}, b"", "data: the module is empty"),
        ({}, b"\x0a\x01m\x1a\xff", "data: "),
    ],
)
def test_a_wrong_upload_is_refused(
    ask: Any, module: xla.HloModuleProto, first: Any, content: bytes | None, said: str
) -> None:
    whole = module.SerializeToString() if content is None else content
    with pytest.raises(grpc.RpcError) as caught:
        ask("HloService/UploadModule", pieces(whole, **first))
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert caught.value.details().startswith(said)


def test_a_module_that_breaks_its_rules_is_not_stored(ask: Any, module: xla.HloModuleProto) -> None:
    content = broken(module)
    with pytest.raises(grpc.RpcError, match="instruction 't' has as operand 0 the id 77"):
        ask("HloService/UploadModule", pieces(content))
    with pytest.raises(grpc.RpcError) as caught:
        ask("HloService/GetModule", v1.GetModuleRequest(name=f"modules/{hashlib.sha256(content).hexdigest()}"))
    assert caught.value.code() is grpc.StatusCode.NOT_FOUND


def test_only_the_first_message_announces_digest_and_size(ask: Any, module: xla.HloModuleProto) -> None:
    messages = pieces(module.SerializeToString())
    messages[1].size_bytes = 10
    with pytest.raises(grpc.RpcError, match="size_bytes: allowed in the first message of the stream only"):
        ask("HloService/UploadModule", messages)


def test_a_stream_that_ends_where_more_should_follow_is_refused(ask: Any, module: xla.HloModuleProto) -> None:
    messages = pieces(module.SerializeToString())
    for message in messages:
        message.more_follows = True
    said = "more_follows: expected another message, as the last one said, found the end of the stream"
    with pytest.raises(grpc.RpcError, match=said):
        ask("HloService/UploadModule", messages)
    uploaded = ask("HloService/UploadModule", [*messages, v1.UploadModuleRequest()])
    assert uploaded.module.size_bytes == module.ByteSize()


def test_an_upload_without_messages_is_refused(ask: Any) -> None:
    with pytest.raises(grpc.RpcError, match="the module is empty"):
        ask("HloService/UploadModule", [])


@pytest.mark.parametrize(
    ("rpc", "request_", "code", "said"),
    [
        ("GetModule", v1.GetModuleRequest(name="modules/" + "0" * 64), "NOT_FOUND", "name: there is no module"),
        (
            "GetModule",
            v1.GetModuleRequest(name="modules/../../etc/passwd"),
            "INVALID_ARGUMENT",
            "name: expected modules/ and 64 digits",
        ),
        ("GetModule", v1.GetModuleRequest(), "INVALID_ARGUMENT", "name: expected modules/ and 64 digits"),
        (
            "GetModule",
            v1.GetModuleRequest(name="modules/" + "0" * 64, content_offset=-1),
            "INVALID_ARGUMENT",
            "content_offset: expected",
        ),
        ("ListInstructions", v1.ListInstructionsRequest(), "INVALID_ARGUMENT", "module: a module is missing"),
        (
            "ListInstructions",
            v1.ListInstructionsRequest(page_size=-1, module=v1.ModuleInput(serialized=b"")),
            "INVALID_ARGUMENT",
            "module.serialized:",
        ),
    ],
)
def test_an_error_names_the_field(ask: Any, rpc: str, request_: Any, code: str, said: str) -> None:
    with pytest.raises(grpc.RpcError) as caught:
        ask(f"HloService/{rpc}", request_)
    assert caught.value.code().name == code
    assert caught.value.details().startswith(said)


def test_unknown_names_in_a_module_are_not_found(ask: Any, module: xla.HloModuleProto) -> None:
    inline = v1.ModuleInput(serialized=module.SerializeToString())
    with pytest.raises(grpc.RpcError) as caught:
        ask("HloService/ListInstructions", v1.ListInstructionsRequest(module=inline, computation="nowhere"))
    assert caught.value.code() is grpc.StatusCode.NOT_FOUND
    resource = details(caught.value, error_details_pb2.ResourceInfo)
    assert (resource.resource_type, resource.resource_name) == ("computation", "nowhere")
    with pytest.raises(grpc.RpcError, match="opcode: there is no opcode 'transposed'"):
        ask("HloService/ListInstructions", v1.ListInstructionsRequest(module=inline, opcode="transposed"))


def test_a_wrong_shape_of_an_instruction_is_an_error_of_the_module(ask: Any, module: xla.HloModuleProto) -> None:
    wrong = xla.HloModuleProto()
    wrong.CopyFrom(module)
    wrong.computations[1].instructions[2].shape.dimensions[0] = -3
    request = v1.ListInstructionsRequest(module=v1.ModuleInput(serialized=wrong.SerializeToString()))
    with pytest.raises(grpc.RpcError) as caught:
        ask("HloService/ListInstructions", request)
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert caught.value.details().startswith("module: computation 'main': instruction 'n' has an invalid shape")
