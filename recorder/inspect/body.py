"""One frame's body as a tree of plain values, with types of their own for bytes and masked values.

A capture blanks values, never lengths, so a masked frame can still be decoded. But a blanked value must never pass for
a real one. An undecodable body is a result with its reason, not an error.
"""

from __future__ import annotations

from proxy.tools.body import Body
from proxy.tools.body import body as decoded
from proxy.tools.kafka07 import request_tree, response_tree
from proxy.tools.tree import Shown
from proxy.wire import kafka07
from proxy.wire.apis import MessageKind
from proxy.wire.budget import Budget
from proxy.wire.errors import WireError
from recorder.capture import frames as c
from recorder.capture.reader import Row

_FETCHES = (kafka07.RequestType.FETCH, kafka07.RequestType.MULTIFETCH)


def body(row: Row, records: int = 10, request_row: Row | None = None, *, budget: Budget | None = None) -> Body:
    """Decodes the frame of a row, which must hold the frame's bytes.

    `records`: the most records shown of each field of record batches. `request_row`: the row of the request, for the
    responses named by `needs_request`. `budget`: pays for the values, by default a new one; when it is used up, the
    values end there.
    """
    budget = budget or Budget()
    frame, kind, key, version = row[c.FRAME], row[c.KIND], row[c.API_KEY], row[c.API_VERSION]
    if kind not in (c.REQUEST, c.RESPONSE):
        return Body(None, f"no frame of Kafka's: {kind}")
    if row[c.OMITTED] or frame is None:
        return Body(None, "part of it was left out of the capture")
    if row[c.DIALECT] == c.KAFKA_07 and row[c.DROPPED] is not None:
        return Body(None, "its records are not kept")
    if row[c.DIALECT] == c.KAFKA_07 and key is not None:
        return _decoded_07(frame, kind, key, records, request_row, budget)
    if key is None or version is None or row[c.DIALECT] != c.KAFKA:
        return Body(None, f"{row[c.API] or 'api unknown'} can't be decoded")
    masked_from = row[c.MASKED][0]["start"] if row[c.MASKED] else None
    shown = Shown(bool(row[c.MASKED]), records, budget, lacks_records=row[c.RECORDS] is not None)
    return decoded(frame, kind, key, version, shown, masked_from=masked_from)


def needs_request(row: Row) -> bool:
    """True for responses to a fetch of 0.7: only their request has the topics and the offsets."""
    is_fetched = row[c.DIALECT] == c.KAFKA_07 and row[c.API_KEY] in _FETCHES
    return is_fetched and row[c.KIND] == c.RESPONSE and row[c.EXCHANGE] is not None


def _decoded_07(
    frame: bytes, kind: MessageKind, key: int, records: int, request_row: Row | None, budget: Budget
) -> Body:
    """Decodes a frame of 0.7, in which nothing is masked."""
    try:
        if kind == c.REQUEST:
            return Body(request_tree(kafka07.decode_request(frame), records, budget=budget))
        request = _request_07(request_row)
        if request is None:
            response = kafka07.decode_response_to(frame, kafka07.RequestType(key))
            return Body(response_tree(response, records, budget=budget))
        return Body(response_tree(kafka07.decode_response(frame, request), records, request, budget=budget))
    except (WireError, ValueError) as error:
        return Body(None, f"can't be decoded: {error}")


def _request_07(row: Row | None) -> kafka07.Request | kafka07.UnknownRequest | None:
    """The request in a row; None if bytes of it are missing or it can't be read."""
    if row is None or row[c.OMITTED] or row[c.FRAME] is None:
        return None
    try:
        return kafka07.decode_request(row[c.FRAME])
    except WireError:
        return None
