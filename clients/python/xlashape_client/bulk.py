"""Calls with many items: in one message if request and response fit the 4 MiB that gRPC receives by default, else as a
stream of messages.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from google.protobuf.message import Message
from numpy.typing import NDArray

from xlashape.errors import DecodeError
from xlashape.proto.packed import join, split
from xlashape_client.inputs import payload
from xlashape_client.transport import Transport

# The largest number of bytes of the items in one message. It leaves room for the shape or the map.
_MESSAGE_BYTES = (4 << 20) - (64 << 10)
# The number of bytes of the items in each message of a stream.
_PART_BYTES = 1 << 20
# So many items fit into one message in any case.
_FEW_ITEMS = 4096


class BulkRpc(NamedTuple):
    """An RPC that takes all items in one message, and the RPC that takes them as a stream.

    `numbers` is the field of the items in the requests of both RPCs. `answers` are the fields of their responses: the
    first holds int64 numbers, and the second, if there is one, bools.
    """

    unary: str
    unary_request: type[Message]
    unary_response: type[Message]
    stream: str
    stream_request: type[Message]
    stream_response: type[Message]
    numbers: str
    answers: tuple[str, ...]


async def ask(
    transport: Transport,
    rpc: BulkRpc,
    fields: dict[str, Any],
    items: NDArray[np.int64],
    answer_bytes: Callable[[], int],
    timeout: float | None,
) -> list[NDArray[Any]]:
    """The content of `rpc.answers` for all items, which are along the first axis of the array `items`.

    `fields` are the other fields of the request or, for a stream, of its first message. `answer_bytes` returns the
    bytes of the answer for each item; it is only called for many items. If the server refuses a stream after it has
    answered a part, the error is raised and nothing is returned.
    """
    counts = "count" in rpc.unary_request.DESCRIPTOR.fields_by_name
    if len(items) > _FEW_ITEMS:
        item_bytes = max(8 * (items.size // len(items)), answer_bytes(), 1)
        if len(items) * item_bytes > _MESSAGE_BYTES:
            return await _streamed(transport, rpc, fields, items, max(1, _PART_BYTES // item_bytes), counts, timeout)
    message = rpc.unary_request(**fields, **({"count": len(items)} if counts else {}))
    response = await transport.send(rpc.unary, join(message, **{rpc.numbers: payload(items)}), timeout)
    return _numbers(rpc.unary_response, rpc, response)


async def _streamed(
    transport: Transport,
    rpc: BulkRpc,
    fields: dict[str, Any],
    items: NDArray[np.int64],
    part_items: int,
    counts: bool,
    timeout: float | None,
) -> list[NDArray[Any]]:
    starts = range(0, len(items), part_items)

    def requests() -> Iterator[bytes]:
        for start in starts:
            part = items[start : start + part_items]
            message = rpc.stream_request(**({} if start else fields), **({"count": len(part)} if counts else {}))
            yield join(message, **{rpc.numbers: payload(part)})

    results: list[NDArray[Any]] = []
    responses = transport.open(rpc.stream, requests(), timeout)
    try:
        for start in starts:
            response = await responses.next()
            if response is None:
                raise DecodeError(f"{rpc.stream} ended before all of {len(starts)} messages were answered")
            stop = min(start + part_items, len(items))
            parts = _numbers(rpc.stream_response, rpc, response)
            if not results:
                results = [np.empty(len(part) // (stop - start) * len(items), part.dtype) for part in parts]
            for result, part in zip(results, parts, strict=True):
                width = len(result) // len(items)
                if len(part) != width * (stop - start):
                    raise DecodeError(
                        f"the answer to {stop - start} items has {len(part)} numbers, not {width} for each"
                    )
                result[width * start : width * stop] = part
        await responses.next()  # the end of the call, or its error
        return results
    finally:
        await responses.close()


def _numbers(response_class: type[Message], rpc: BulkRpc, data: bytes) -> list[NDArray[Any]]:
    _, contents = split(response_class, data, *rpc.answers)
    return [np.frombuffer(content, np.bool_ if i else "<i8") for i, content in enumerate(contents)]
