"""Reads requests to join a classic group: the group, its protocol type, and the assignors that the member knows."""

from __future__ import annotations

from collections.abc import Iterator

from proxy.wire import keys
from proxy.wire.budget import Budget
from recorder.facts.frame import REQUEST, Frame, opened
from recorder.facts.rows import Decoder, FrameSelector, Group
from recorder.facts.schema import Column

_OWN = (
    Column("group_id", "string", "the group"),
    Column("protocol_type", "string", "`consumer`, `connect`, ..."),
    Column("protocols", "array<string>", "the names of the member's assignors"),
)


def read(frame: Frame, budget: Budget) -> Iterator[Group]:
    """The single row of a request. Errors: Unreadable."""
    values = opened(frame, budget)
    names = [protocol["name"] for protocol in values["protocols"]]
    yield Group((), [(values["group_id"], values["protocol_type"], names)])


JOINS = Decoder(
    "joins", "a member's request to join a group", (FrameSelector(REQUEST, (keys.JOIN_GROUP,)),), (), _OWN, read
)
