"""Cases of HloService."""

from __future__ import annotations

from generating.answered import Cases

__all__ = ["modules"]


def modules() -> Cases:
    """HloService."""
    cases = Cases("modules")
    upload, put, get = "HloService/UploadModule", "HloService/PutModule", "HloService/GetModule"
    for name in ("attention", "convnet", "fused", "text"):
        cases.call(f"upload/{name}", upload, {"data": f"${name}"}, stored=[])
        cases.call(f"put/{name}", put, {"data": f"${name}"}, stored=[])
        cases.call(f"get/{name}", get, {"name": f"$name:{name}"}, stored=[name])
    cases.call("upload/again", upload, {"data": "$fused"}, stored=["fused"])
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

    listing, sizes = "HloService/ListInstructions", "HloService/ByteSizes"
    fused = {"module": {"name": "$name:fused"}}
    for rpc, name in ((listing, "list"), (sizes, "sizes")):
        cases.call(f"{name}/stored", rpc, fused, stored=["fused"])
        cases.call(f"{name}/inline_bytes", rpc, {"module": {"serialized": "$fused"}}, stored=[])
        cases.call(
            f"{name}/first_page", rpc, {"module": {"name": "$name:attention"}, "pageSize": 3}, stored=["attention"]
        )
        cases.call(f"{name}/of_a_computation", rpc, fused | {"computation": "scaled"}, stored=["fused"])
        cases.call(f"{name}/of_an_opcode", rpc, fused | {"opcode": "parameter"}, stored=["fused"])
        cases.call(f"{name}/no_such_computation", rpc, fused | {"computation": "nowhere"}, stored=["fused"])
        cases.call(f"{name}/no_such_opcode", rpc, fused | {"opcode": "negative"}, stored=["fused"])
        cases.call(f"{name}/missing_module", rpc, fused, stored=[])
        cases.call(f"{name}/no_module", rpc, {}, stored=[])
        cases.call(f"{name}/broken_token", rpc, fused | {"pageToken": "abc"}, stored=["fused"])
        cases.call(f"{name}/negative_page", rpc, fused | {"pageSize": -1}, stored=["fused"])
        cases.call(
            f"{name}/broken_text",
            rpc,
            {"module": {"text": "HloModule m\n\nENTRY main {\n  ROOT x = f32[2] parameter(0\n}\n"}},
            stored=[],
        )
        cases.call(f"{name}/no_computations", rpc, {"module": {"serialized": "CgFt"}}, stored=[])
        cases.pages(
            f"{name}/all_pages", rpc, {"module": {"name": "$name:attention"}, "pageSize": 7}, stored=["attention"]
        )
        cases.pages(f"{name}/pages_of_the_server", rpc, {"module": {"name": "$name:convnet"}}, stored=["convnet"])
        cases.pages(
            f"{name}/pages_of_an_opcode",
            rpc,
            {"module": {"name": "$name:fused"}, "opcode": "parameter", "pageSize": 2},
            stored=["fused"],
        )
    cases.call("sizes/largest_first", sizes, fused | {"order": "BYTE_SIZES_ORDER_PHYSICAL_BYTES"}, stored=["fused"])
    cases.call(
        "sizes/most_padding_first",
        sizes,
        fused | {"order": "BYTE_SIZES_ORDER_PADDING_BYTES", "pageSize": 4},
        stored=["fused"],
    )
    cases.pages(
        "sizes/pages_by_padding",
        sizes,
        {"module": {"name": "$name:fused"}, "order": "BYTE_SIZES_ORDER_PADDING_BYTES", "pageSize": 5},
        stored=["fused"],
    )
    cases.call("sizes/unknown_order", sizes, fused | {"order": 9}, stored=["fused"])
    return cases
