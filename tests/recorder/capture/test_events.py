"""Tests of the rows of events."""

import json
import random

from proxy.conversation.conversation import Conversation
from proxy.conversation.routes import Routes
from proxy.wire import keys
from recorder.capture import events as module
from recorder.capture.closed_connections import MissedConnections
from recorder.capture.columns import EventRows, FrameRows, SharedDictionaries
from recorder.capture.connection_state import ConnectionState
from recorder.capture.events import Events
from tests.recorder.capture import traffic
from tests.recorder.capture.logged import account


class One:
    """A sink with a single hour."""

    def __init__(self) -> None:
        self.rows = EventRows("s", None)
        self.shared = SharedDictionaries()

    def frame_rows(self, at_ns: int, clock_offset_ns: int, size: int, *, carries_records: bool) -> FrameRows:
        raise AssertionError("events have no frames")

    def event_rows(self, at_ns: int) -> EventRows:
        return self.rows


def conn(calls: int = 0) -> ConnectionState:
    one = ConnectionState(4, Conversation(Routes(), decides=False), {"client": "c:1"})
    for number in range(calls):
        assert one.conversation is not None
        one.conversation.requests(traffic.call(random.Random(1), keys.METADATA, number, "c").request, 1)
    return one


def only(sink: One) -> dict[str, object]:
    (row,) = sink.rows.table().to_pylist()
    row["detail"] = json.loads(row["detail"])
    return dict(row)


def test_a_closed_connection_names_the_exchanges_that_it_left_open() -> None:
    sink = One()
    one = conn(2)
    one.sequence = 9
    assert one.conversation is not None
    Events(sink, 100).closed(one, 5, "client_reset", 9, 77, list(one.conversation.in_flight))
    row = only(sink)
    assert (row["kind"], row["cause"], row["frames"], row["bytes"], row["at_ns"]) == (
        "closed",
        "client_reset",
        9,
        77,
        105,
    )
    assert row["detail"] == {
        "open": 2,
        "exchanges": [{"exchange": n, "api": "Metadata", "correlation_id": n} for n in range(2)],
    }


def test_many_open_exchanges_are_counted_and_the_first_are_named() -> None:
    sink = One()
    one = conn(1)
    assert one.conversation is not None
    Events(sink, 0).closed(one, 5, "client_reset", 3, 0, list(one.conversation.in_flight) * (module.MAX_NAMED + 1))
    detail = only(sink)["detail"]
    assert isinstance(detail, dict)
    assert (detail["open"], len(detail["exchanges"])) == (module.MAX_NAMED + 1, module.MAX_NAMED)


def test_a_gap_says_since_when_how_much_and_of_which_api() -> None:
    sink = One()
    one = conn(1)
    one.sequence = 10
    one.break_off("queue_full", 50)
    Events(sink, 0).gap(one, 90, 12, 1_000, account(requests={"Fetch": 2}))
    row = only(sink)
    behind = (one.broken or {})["behind"]
    assert (row["cause"], row["mono_ns"], row["frames"], row["bytes"]) == ("queue_full", 50, 2, 1_000 - behind)
    assert row["detail"] == {"until_mono_ns": 90, "lost": {"Fetch": {"requests": 2}}}


def test_a_gap_without_counts_has_an_unknown_size() -> None:
    sink = One()
    one = conn()
    one.break_off("spool_damaged", 50)
    Events(sink, 0).gap(one, 90, None, None, None)
    row = only(sink)
    assert (row["frames"], row["bytes"]) == (None, None)


def test_a_record_that_never_broke_off_has_no_gap() -> None:
    sink = One()
    Events(sink, 0).gap(conn(), 90, None, None, None)
    assert len(sink.rows) == 0


def test_the_other_events_are_rows() -> None:
    sink = One()
    events = Events(sink, 0)
    one = conn()
    events.session("started", 1, {})
    events.opened(one, 2)
    events.login(one, 3, {"mechanism": "PLAIN"})
    events.half_closed(one, 4, 1)
    events.clock(5, -7)
    events.node(6, {"node_id": 2})
    events.connections_lost(7, "queue_full", MissedConnections(3, 20, 200), [5])
    events.log_lost(8, {"segments": [1, 2], "log_bytes": 70})
    rows = sink.rows.table().to_pylist()
    assert [row["kind"] for row in rows] == ["session", "opened", "login", "half_closed", "clock", "node", "gap", "gap"]
    assert [row["connection"] for row in rows] == [None, 4, 4, 4, None, None, None, None]
    assert json.loads(rows[3]["detail"]) == {"by": "broker"}
    assert json.loads(rows[4]["detail"]) == {"moved_ns": -7}
    assert (rows[6]["frames"], rows[6]["bytes"], json.loads(rows[6]["detail"])) == (
        20,
        200,
        {"connections": 3, "ends_of": [5]},
    )
    assert (rows[7]["cause"], rows[7]["frames"], rows[7]["bytes"]) == ("spool_damaged", None, None)
    assert json.loads(rows[7]["detail"]) == {"segments": [1, 2], "log_bytes": 70}
