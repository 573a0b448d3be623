"""Cases of HloService."""

from __future__ import annotations

from generating.answered import Cases

__all__ = ["modules"]


def modules() -> Cases:
    """HloService."""
    cases = Cases("modules")
    upload, put, get = "HloService/UploadModule", "HloService/PutModule", "HloService/GetModule"
    for name in ("attention", "convnet", "fused", "text"):
        cases.upload(f"upload/{name}", name, stored=[], read_bytes=1 << 20)
        cases.call(f"put/{name}", put, {"data": f"${name}"}, stored=[])
        cases.call(f"get/{name}", get, {"name": f"$name:{name}"}, stored=[name])
    cases.upload("upload/again", "fused", stored=["fused"], read_bytes=1 << 20)
    cases.call("put/again", put, {"data": "$fused"}, stored=["fused"])
    cases.call("upload/nothing", upload, stored=[])
    cases.call("upload/announced_wrongly", upload, {"data": "$fused", "sizeBytes": "3"}, stored=[])
    cases.call("upload/announced_later", upload, {"data": "$fused"}, {"sha256": "0" * 64}, stored=[])
    cases.call("upload/cut_off", upload, {"data": "$fused", "moreFollows": True}, stored=[])
    cases.call("upload/other_digest", upload, {"data": "$fused", "sha256": "0" * 64}, stored=[])
    cases.call("put/no_digest", put, {"data": "$fused", "sha256": "abc"}, stored=[])
    cases.call("put/other_digest", put, {"data": "$fused", "sha256": "0" * 64}, stored=[])
    cases.call("put/empty", put, {}, stored=[])
    cases.call(
        "put/broken_text",
        put,
        {"data": "SGxvTW9kdWxlIG0KCkVOVFJZIG1haW4gewogIHggPSBmMzJbMl0gcGFyYW1ldGVyKDAKfQo="},
        stored=[],
    )
    cases.call(
        "put/unknown_operand",
        put,
        {"data": "SGxvTW9kdWxlIG0KCkVOVFJZIG1haW4gewogIFJPT1QgeCA9IGYzMlsyXSBuZWdhdGUoeSkKfQo="},
        stored=[],
    )
    cases.call("get/content", get, {"name": "$name:fused", "includeContent": True}, stored=["fused"])
    cases.call(
        "get/part_of_the_content",
        get,
        {"name": "$name:fused", "includeContent": True, "contentOffset": "10", "contentLimit": "20"},
        stored=["fused"],
    )
    cases.call(
        "get/negative_offset",
        get,
        {"name": "$name:fused", "includeContent": True, "contentOffset": "-1"},
        stored=["fused"],
    )
    cases.call("get/missing", get, {"name": "$name:loops"}, stored=["fused"])
    cases.call("get/no_name", get, {"name": "fused"}, stored=[])
    cases.call("delete/there", "HloService/DeleteModule", {"name": "$name:fused"}, stored=["fused"])
    cases.call("delete/missing", "HloService/DeleteModule", {"name": "$name:fused"}, stored=[])
    for name in ("attention", "fused", "text"):
        cases.upload(f"known_first/{name}", name, stored=[])
        cases.upload(f"known_first/{name}_again", name, stored=[name])
    cases.upload("from_a_reader/small", "text", stored=[], read_bytes=100)
    cases.upload("from_a_reader/large", "large", stored=[], read_bytes=1_000_003)
    cases.upload("from_a_reader/again", "large", stored=["large"], read_bytes=4 << 20)
    for i in range(10):  # a call that is cancelled looks to a server like one that is complete, now and then
        failing = {"content": "$two_parts", "read_bytes": 1 << 20, "reader_fails": True}
        cases.add(f"from_a_reader/fails/{i}", stored=[], upload=failing, failed=True)
        cases.call(f"from_a_reader/failed_is_not_stored/{i}", get, {"name": "$name:two_parts"})

    listing, sizes = "HloService/ListInstructions", "ReportService/Size"
    fused = {"module": {"name": "$name:fused"}}
    cases.pages("list/stored", listing, fused, stored=["fused"])
    cases.pages("list/inline_bytes", listing, {"module": {"serialized": "$fused"}}, stored=[])
    cases.pages(
        "list/first_page", listing, {"module": {"name": "$name:attention"}, "pageSize": 3}, stored=["attention"]
    )
    cases.pages("list/of_a_computation", listing, fused | {"computation": "scaled"}, stored=["fused"])
    cases.pages("list/of_an_opcode", listing, fused | {"opcode": "parameter"}, stored=["fused"])
    cases.pages("list/no_such_computation", listing, fused | {"computation": "nowhere"}, stored=["fused"])
    cases.pages("list/no_such_opcode", listing, fused | {"opcode": "negative"}, stored=["fused"])
    cases.pages("list/missing_module", listing, fused, stored=[])
    cases.call("list/no_module", listing, {}, stored=[])
    cases.call("list/broken_token", listing, fused | {"pageToken": "abc"}, stored=["fused"])
    cases.pages("list/negative_page", listing, fused | {"pageSize": -1}, stored=["fused"])
    cases.pages(
        "list/broken_text",
        listing,
        {"module": {"text": "HloModule m\n\nENTRY main {\n  ROOT x = f32[2] parameter(0\n}\n"}},
        stored=[],
    )
    cases.pages("list/no_computations", listing, {"module": {"serialized": "CgFt"}}, stored=[])
    cases.pages("list/all_pages", listing, {"module": {"name": "$name:attention"}, "pageSize": 7}, stored=["attention"])
    cases.pages("list/pages_of_the_server", listing, {"module": {"name": "$name:convnet"}}, stored=["convnet"])
    cases.pages(
        "list/pages_of_an_opcode",
        listing,
        {"module": {"name": "$name:fused"}, "opcode": "parameter", "pageSize": 2},
        stored=["fused"],
    )
    cases.pages("sizes/all_pages", sizes, {"module": {"name": "$name:attention"}, "pageSize": 7}, stored=["attention"])
    return cases
