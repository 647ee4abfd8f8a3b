"""Recordings that begin in the middle of their clients' life: the beginning of another recording is cut off."""

from __future__ import annotations

from collections.abc import Collection

from proxy.wire.keys import PRODUCE
from recorder.replay.partitions import in_request
from recorder.replay.stream import AnswerRecorded, Happening, RequestRecorded
from tests.recorder.replay.simulation import Recording


def without_beginning(recording: Recording, first: int) -> None:
    """Cuts the first happenings off, and answers to the requests among them.

    Retries of records that were written before the cut are left out: no answer tells that the records are older.
    """
    cut, rest = recording.happenings[:first], recording.happenings[first:]
    written = {data for row in cut for data in _written(row)}
    kept = {
        row.exchange.origin
        for row in rest
        if isinstance(row, RequestRecorded) and not any(data in written for data in _written(row))
    }
    recording.happenings = [row for row in rest if _origin(row) in kept]


def _origin(row: Happening) -> object:
    if isinstance(row, RequestRecorded):
        return row.exchange.origin
    return row.origin if isinstance(row, AnswerRecorded) else None


def _written(row: Happening) -> Collection[bytes]:
    if not isinstance(row, RequestRecorded) or row.exchange.api_key != PRODUCE:
        return ()
    return [bytes(each.values["records"]) for each in in_request(PRODUCE, row.exchange.request)]
