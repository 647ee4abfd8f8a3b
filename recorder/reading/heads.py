"""What a filter may ask of a frame's or an exchange's head, by the names of its fields.

Of an exchange of which one frame has passed so far, what only the other tells is UNKNOWN.
"""

from __future__ import annotations

from typing import Any

from recorder.capture import frames as c
from recorder.capture.reader import Row
from recorder.query.evaluation import UNKNOWN
from recorder.reading.exchanges import Pair

Head = dict[str, Any]


def of_frame(row: Row) -> Head:
    """The head of a frame."""
    is_response = row[c.KIND] == c.RESPONSE
    sizes = {"sent": None if is_response else row[c.SIZE], "received": row[c.SIZE] if is_response else None}
    return _shared(row) | sizes | {"at": row[c.AT_NS], "size": row[c.SIZE], "kind": row[c.KIND]} | _times(row)


def of_exchange(pair: Pair) -> Head:
    """The head of an exchange."""
    request, response = pair.request, pair.response
    received = response[c.SIZE] if response else None
    sent = request[c.SIZE] if request else pair.head.get(c.REQUEST_SIZE)
    head = _shared(pair.head)
    head["at"] = request[c.AT_NS] if request else asked_at(pair.head)
    head["sent"], head["received"], head["size"] = sent, received, (sent or 0) + (received or 0)
    head["outcome"] = pair.outcome.value
    if response:
        head |= _times(response)
    return head


def of_half(row: Row) -> Head:
    """The head of an exchange, as far as one of its frames tells."""
    if row[c.KIND] == c.RESPONSE:
        earlier = ["at", "outcome", "principal", "node"]
        earlier += ["sent", "size"] if row.get(c.REQUEST_SIZE) is None else []
        return of_exchange(Pair(None, row)) | dict.fromkeys(earlier, UNKNOWN)
    if row[c.AWAITS] is False:
        return of_exchange(Pair(row, None))
    later = dict.fromkeys(("received", "size", "outcome", "latency", "queued", "transfer"), UNKNOWN)
    return of_exchange(Pair(row, None)) | later


def _shared(row: Row) -> Head:
    return {
        "api": row[c.API],
        "api_key": row[c.API_KEY],
        "dialect": row[c.DIALECT],
        "version": row[c.API_VERSION],
        "client": (row[c.CLIENT_ID], row[c.CLIENT]),
        c.CLIENT_ID: row[c.CLIENT_ID],
        c.PRINCIPAL: row[c.PRINCIPAL],
        c.SESSION: row[c.SESSION],
        c.CLUSTER: row[c.CLUSTER],
        c.CONNECTION: row[c.CONNECTION],
        c.EXCHANGE: row[c.EXCHANGE],
        c.NODE: row[c.NODE],
        c.LISTENER: row[c.LISTENER],
    }


def _times(response: Row) -> Head:
    return {"latency": response[c.LATENCY_NS], "queued": response[c.QUEUED_NS], "transfer": response[c.TRANSFER_NS]}


def asked_at(response: Row) -> int:
    """When the request of a response arrived, as far as the response tells."""
    at: int = response[c.AT_NS]
    return at - (response[c.LATENCY_NS] or 0) - (response[c.TRANSFER_NS] or 0)
