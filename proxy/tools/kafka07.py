"""Requests and responses of Kafka 0.7 as trees of plain values, as `tree.py` makes them of all later versions.

The messages in them are opened, those in compressed ones too. Their places are offsets in the frame's stretch of the
log: where that lies in the log, a response does not say. What can't be read says why, with its bytes.
"""

from __future__ import annotations

from itertools import islice
from typing import Any

from proxy.wire.errors import WireError
from proxy.wire.kafka07 import (
    Fetch,
    FetchResponse,
    MultiFetch,
    MultiFetchResponse,
    MultiProduce,
    Offsets,
    OffsetsResponse,
    Produce,
    Request,
    Response,
    UnknownRequest,
    messages,
)
from proxy.wire.kafka07.messages import Message
from proxy.wire.records.kinds import Compression


def request_tree(request: Request | UnknownRequest, most: int) -> dict[str, Any]:
    """`most`: messages told one by one, of each part of a produce, and of what each of them holds."""
    match request:
        case Produce(topic, partition, data):
            return {"topic": topic, "partition": partition, "messages": _opened(data, most)}
        case MultiProduce(produces):
            return {"produces": [request_tree(one, most) for one in produces]}
        case Fetch(topic, partition, offset, max_size):
            return {"topic": topic, "partition": partition, "offset": offset, "max_size": max_size}
        case MultiFetch(fetches):
            return {"fetches": [request_tree(one, most) for one in fetches]}
        case Offsets(topic, partition, time, number):
            return {"topic": topic, "partition": partition, "time": time, "max_number": number}
        case UnknownRequest(number, body):
            return {"type": number, "bytes": body}


def response_tree(response: Response, most: int) -> dict[str, Any]:
    """`most`: as above, of each part of a fetch."""
    told: dict[str, Any] = {"error_code": response.error_code}
    match response:
        case FetchResponse(messages=data):
            return told | {"messages": _opened(data, most)}
        case MultiFetchResponse(parts=parts):
            return told | {"parts": [response_tree(part, most) for part in parts]}
        case OffsetsResponse(offsets=offsets):
            return told | {"offsets": None if offsets is None else list(offsets)}


def _opened(data: bytes, most: int) -> list[dict[str, Any]]:
    """A dict a message of the log; then what is left out, cut or wrong at the end."""
    told: list[dict[str, Any]] = []
    at = 0
    try:
        for one in islice(messages.shallow(data), most):
            told.append(_message(one, data, most))
            at = one.next_offset
        end = messages.tail(data)
    except WireError as error:
        return [*told, {"why": f"can't be read: {error}", "bytes": data[at:]}]
    more = sum(1 for _ in messages.shallow(data)) - len(told)
    told += [{"more_messages": more}] if more else []
    return told + ([{"why": "a message that is cut", "bytes": data[end.whole :]}] if end.whole < len(data) else [])


def _message(one: Message, data: bytes, most: int) -> dict[str, Any]:
    told: dict[str, Any] = {"at": one.offset, "magic": one.magic, "codec": one.codec.value}
    if one.codec is Compression.NONE:
        why = {} if one.intact else {"why": "its checksum doesn't fit"}
        return told | {"payload": one.payload} | why
    try:
        payloads = [inner.payload for inner in messages.read(data[one.offset : one.next_offset])]
    except (WireError, ModuleNotFoundError) as error:
        return told | {"why": f"can't be read: {error}", "payload": one.payload}
    more = len(payloads) - most
    return told | {"payloads": payloads[:most]} | ({"more_messages": more} if more > 0 else {})
