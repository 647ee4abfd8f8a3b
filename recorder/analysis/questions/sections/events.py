"""The section on events of the capture."""

from __future__ import annotations

import json
from typing import Any

from pyspark.sql import functions as F  # noqa: N812 - as everybody imports it

from recorder.analysis.bodies import Captured
from recorder.analysis.expressions import ns
from recorder.analysis.questions.bins import firsts
from recorder.analysis.summary.bounds import MAX_ROWS, Table
from recorder.analysis.summary.sections.events import Event, Events
from recorder.capture import frames as c

# kinds of events that a reader understands without the frames around them
_LISTED = (c.EVENT_SESSION, c.EVENT_GAP, c.EVENT_NODE, c.EVENT_CLOCK)


def events(captured: Captured) -> Events:
    """Returns the section on events, in order of time: sessions, gaps, nodes, clocks."""
    listed = captured.events.filter(F.col(c.KIND).isin(*_LISTED))
    ordered = listed.orderBy(c.AT, c.SESSION, c.CONNECTION).select("*", ns(c.AT).alias("_ns"))
    shown, total = firsts(ordered, MAX_ROWS)
    return Events(events=Table(tuple(map(_event, shown)), total))


def _event(row: Any) -> Event:
    where = None if row[c.CONNECTION] is None else f"{row[c.SESSION]}/{row[c.CONNECTION]}"
    return Event(row["_ns"], row[c.KIND], _sentence(row), where)


def _sentence(row: Any) -> str:
    match row[c.KIND]:
        case c.EVENT_SESSION:
            return f"session {row[c.SESSION]}: {row[c.CAUSE]}"
        case c.EVENT_GAP:
            lost = "an unknown number of" if row[c.FRAMES] is None else row[c.FRAMES]
            return f"{lost} frames are missing: {row[c.CAUSE]}"
        case c.EVENT_CLOCK:
            return "the wall clock was set"
    return _node(row[c.DETAIL])


def _node(detail: str | None) -> str:
    """Returns the sentence about a node: its address, and the listener that clients are told."""
    facts = json.loads(detail or "{}")
    return f"node {facts.get('node_id')} is at {facts.get('upstream')}; clients find it at {facts.get('listener')}"
