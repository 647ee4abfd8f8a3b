"""Builds rows of a capture from exchanges whose frames are written by hand."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

from proxy.wire import records
from tests.recorder.facts.frames import request, response

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
Row = dict[str, Any]
Values = Mapping[str, Any]


# values that the rows of both sides share
_ROW = {"cluster": "main", "connection": 1, "client": "10.0.0.1:5", "node": 1, "client_id": "app"}
_SENT = {"made_by": "client", "awaits": True}
_TOLD = {"made_by": "broker", "request_size": 20, "latency_ns": 5_000_000}


class Talk:
    """The exchanges of a client. Each request arrives at its second after noon, and its response 5 ms later."""

    def __init__(self, **facts: Any) -> None:
        """`facts`: values of all rows, such as `connection` and `client`."""
        self._facts = _ROW | facts
        self._numbers = count()

    def exchange(self, key: int, version: int, at: float, asked: Values, told: Values | None) -> list[Row]:
        """Returns the rows of an exchange; `told`: the response's values, None for no response."""
        number, moment = next(self._numbers), NOON + timedelta(seconds=at)
        facts = self._facts | {"exchange": number, "correlation_id": number}
        sent = request(key, version, asked, **facts, **_SENT, sequence=2 * number, at=moment)
        if told is None:
            return [sent]
        later = moment + timedelta(milliseconds=5)
        return [sent, response(key, version, told, **facts, **_TOLD, sequence=2 * number + 1, at=later)]


def batch(values: int = 2, **facts: Any) -> bytes:
    """A record batch with this number of records; `facts`: arguments of `records.write_batch`."""
    base = facts.pop("base_offset", 0)
    made = [records.Record(base + at, value=b"%d" % at, timestamp=1_795_000_000_000) for at in range(values)]
    return records.write_batch(made, **facts)
