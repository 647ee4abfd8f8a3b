"""Requests and responses of Kafka 0.7 as trees of plain values, as `tree.py` makes them of all later versions.

The messages in them are opened, those in compressed ones too. Where in the log a fetched stretch begins, only the
request says: with the request at hand each message has its `offset` in the log, and the `next_offset` to go on from
behind it; else `at` is its place in the stretch. What can't be read says why, with its bytes.
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

# What is told of a message takes this much in memory besides its payload.
MESSAGE_COST = 600


def request_tree(request: Request | UnknownRequest, most: int, *, budget: Budget | None = None) -> dict[str, Any]:
    """`most`: messages told one by one, of each part of a produce, and of what each of them holds.

    `budget`: what they are taken from, by default a new one.
    """
    budget = budget or Budget()
    match request:
        case Produce(topic, partition, data):
            return {"topic": topic, "partition": partition, "messages": opened(data, most, budget=budget)}
        case MultiProduce(produces):
            return {"produces": [request_tree(one, most, budget=budget) for one in produces]}
        case Fetch(topic, partition, offset, max_size):
            return {"topic": topic, "partition": partition, "offset": offset, "max_size": max_size}
        case MultiFetch(fetches):
            return {"fetches": [request_tree(one, most, budget=budget) for one in fetches]}
        case Offsets(topic, partition, time, number):
            return {"topic": topic, "partition": partition, "time": time, "max_number": number}
        case UnknownRequest(number, body):
            return {"type": number, "bytes": body}


def response_tree(
    response: Response, most: int, asked: Request | UnknownRequest | None = None, *, budget: Budget | None = None
) -> dict[str, Any]:
    """`most`: as above, of each part of a fetch. `asked`: the request that it answers, where that is known."""
    budget = budget or Budget()
    told: dict[str, Any] = {"error_code": response.error_code}
    match response:
        case FetchResponse(messages=data):
            offset = asked.offset if isinstance(asked, Fetch) else None
            return told | {"messages": opened(data, most, offset, budget=budget)}
        case MultiFetchResponse(parts=parts):
            return told | {"parts": _parts(parts, most, asked, budget)}
        case OffsetsResponse(offsets=offsets):
            return told | {"offsets": None if offsets is None else list(offsets)}


def _parts(
    parts: Sequence[FetchResponse], most: int, asked: Request | UnknownRequest | None, budget: Budget
) -> list[dict[str, Any]]:
    """Only their order says what they answer: with the request each is told its topic and partition too."""
    if not isinstance(asked, MultiFetch):
        return [response_tree(part, most, budget=budget) for part in parts]
    return [
        {"topic": fetch.topic, "partition": fetch.partition} | response_tree(part, most, fetch, budget=budget)
        # an error that stands for all of them has no parts
        for part, fetch in zip(parts, asked.fetches, strict=False)
    ]


def opened(data: bytes, most: int, offset: int | None = None, *, budget: Budget) -> list[dict[str, Any]]:
    """A dict a message of the log; then what is left out, cut or wrong at the end. `offset`: where the log has it."""
    told: list[dict[str, Any]] = []
    at = 0
    try:
        for one in islice(messages.shallow(data), most):
            budget.values.take(MESSAGE_COST)
            told.append(_place(one, offset) | _message(one, data, most, budget))
            at = one.next_offset
        end = messages.tail(data)
    except WireError as error:
        return [*told, {"why": f"can't be read: {error}", "bytes": data[at:]}]
    more = sum(1 for _ in messages.shallow(data)) - len(told)
    told += [{"more_messages": more}] if more else []
    return told + ([{"why": "a message that is cut", "bytes": data[end.whole :]}] if end.whole < len(data) else [])


def _place(one: LogMessage, offset: int | None) -> dict[str, Any]:
    if offset is None:
        return {"at": one.offset}
    return {"offset": offset + one.offset, "next_offset": offset + one.next_offset}


def _message(one: LogMessage, data: bytes, most: int, budget: Budget) -> dict[str, Any]:
    told: dict[str, Any] = {"magic": one.magic, "codec": one.codec.value}
    if one.codec is Compression.NONE:
        why = {} if one.intact else {"why": "its checksum doesn't fit"}
        return told | {"payload": one.payload} | why
    payloads: list[bytes] = []
    try:
        found = messages.read(data[one.offset : one.next_offset], budget=budget)
        for inner in islice(found, most):
            budget.values.take(MESSAGE_COST)
            payloads.append(inner.payload)
        more = sum(1 for _ in found)
    except (WireError, ModuleNotFoundError) as error:
        begun = {"payloads": payloads} if payloads else {}
        return told | begun | {"why": f"can't be read: {error}", "payload": one.payload}
    return told | {"payloads": payloads} | ({"more_messages": more} if more else {})
