"""Requests and responses of Kafka 0.7 as trees of plain values, like those that `tree.py` makes for later versions.

Their messages are decoded, nested ones in compressed messages too. Only a request holds the log offset at which a
fetched stretch begins. If the request is known, each message has its `offset` in the log and the `next_offset` behind
it; otherwise `at` is its position in the stretch. Unreadable bytes are kept, with the reason in `why`.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import Any

from proxy.wire.budget import Budget
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
from proxy.wire.kafka07.messages import LogMessage
from proxy.wire.records.kinds import Compression

# The memory of a message's tree besides its payload.
MESSAGE_COST = 600


def request_tree(request: Request | UnknownRequest, max_shown: int, *, budget: Budget | None = None) -> dict[str, Any]:
    """A request as a tree.

    `max_shown`: the most messages shown of each part of a produce, and the most payloads of each compressed message.
    `budget`: pays for them; by default a new one.
    """
    budget = budget or Budget()
    match request:
        case Produce(topic, partition, data):
            return {"topic": topic, "partition": partition, "messages": opened(data, max_shown, budget=budget)}
        case MultiProduce(produces):
            return {"produces": [request_tree(one, max_shown, budget=budget) for one in produces]}
        case Fetch(topic, partition, offset, max_size):
            return {"topic": topic, "partition": partition, "offset": offset, "max_size": max_size}
        case MultiFetch(fetches):
            return {"fetches": [request_tree(one, max_shown, budget=budget) for one in fetches]}
        case Offsets(topic, partition, time, number):
            return {"topic": topic, "partition": partition, "time": time, "max_number": number}
        case UnknownRequest(number, body):
            return {"type": number, "bytes": body}


def response_tree(
    response: Response, max_shown: int, asked: Request | UnknownRequest | None = None, *, budget: Budget | None = None
) -> dict[str, Any]:
    """A response as a tree. `max_shown`: as for requests. `asked`: the request that it answers, if known."""
    budget = budget or Budget()
    tree: dict[str, Any] = {"error_code": response.error_code}
    match response:
        case FetchResponse(messages=data):
            offset = asked.offset if isinstance(asked, Fetch) else None
            return tree | {"messages": opened(data, max_shown, offset, budget=budget)}
        case MultiFetchResponse(parts=parts):
            return tree | {"parts": _parts(parts, max_shown, asked, budget)}
        case OffsetsResponse(offsets=offsets):
            return tree | {"offsets": None if offsets is None else list(offsets)}


def _parts(
    parts: Sequence[FetchResponse], max_shown: int, asked: Request | UnknownRequest | None, budget: Budget
) -> list[dict[str, Any]]:
    """The parts of a MULTIFETCH response as trees. If the request is known, each has its topic and partition.

    Only the order of the parts shows which fetch each one answers.
    """
    if not isinstance(asked, MultiFetch):
        return [response_tree(part, max_shown, budget=budget) for part in parts]
    return [
        {"topic": fetch.topic, "partition": fetch.partition} | response_tree(part, max_shown, fetch, budget=budget)
        # a response may have one error for the whole request, and no parts
        for part, fetch in zip(parts, asked.fetches, strict=False)
    ]


def opened(data: bytes, max_shown: int, offset: int | None = None, *, budget: Budget) -> list[dict[str, Any]]:
    """A dict for each message of the log; at the end, dicts for messages left out and for cut or unreadable bytes.

    `offset`: of the first byte in the log; None if unknown.
    """
    trees: list[dict[str, Any]] = []
    at = 0
    try:
        for one in islice(messages.shallow(data), max_shown):
            budget.values.take(MESSAGE_COST)
            trees.append(_place(one, offset) | _message(one, data, max_shown, budget))
            at = one.next_offset
        end = messages.tail(data)
    except WireError as error:
        return [*trees, {"why": f"can't be read: {error}", "bytes": data[at:]}]
    more = sum(1 for _ in messages.shallow(data)) - len(trees)
    trees += [{"more_messages": more}] if more else []
    return trees + ([{"why": "a message that is cut", "bytes": data[end.whole :]}] if end.whole < len(data) else [])


def _place(one: LogMessage, offset: int | None) -> dict[str, Any]:
    if offset is None:
        return {"at": one.offset}
    return {"offset": offset + one.offset, "next_offset": offset + one.next_offset}


def _message(one: LogMessage, data: bytes, max_shown: int, budget: Budget) -> dict[str, Any]:
    tree: dict[str, Any] = {"magic": one.magic, "codec": one.codec.value}
    if one.codec is Compression.NONE:
        why = {} if one.intact else {"why": "its checksum doesn't fit"}
        return tree | {"payload": one.payload} | why
    payloads: list[bytes] = []
    try:
        found = messages.read(data[one.offset : one.next_offset], budget=budget)
        for inner in islice(found, max_shown):
            budget.values.take(MESSAGE_COST)
            payloads.append(inner.payload)
        more = sum(1 for _ in found)
    except (WireError, ModuleNotFoundError) as error:
        begun = {"payloads": payloads} if payloads else {}
        return tree | begun | {"why": f"can't be read: {error}", "payload": one.payload}
    return tree | {"payloads": payloads} | ({"more_messages": more} if more else {})
