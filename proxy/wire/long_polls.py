"""Long polls: requests that a broker may answer late on purpose, and whether an answer shows such a wait.

The latency of a long poll does not measure the broker's speed: a consumer at the end of a log asks to wait
(`max_wait_ms`), and a joining member waits for the others. Only a Fetch that finds its data at once measures the
broker's work. Its answer shows that, because it stops before the log's end. The request holds the longest wait that
it allows.

    api                    what the answer shows
    Fetch                  full, tail, empty, error
    ShareFetch             tail, empty, error: the answer has no log end
    JoinGroup, SyncGroup   members: the others decide

Kafka 0.7 has no long polls.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum
from functools import cache
from typing import Any

from proxy.wire import catalog, records
from proxy.wire.budget import Budget
from proxy.wire.errors import WireError
from proxy.wire.headers import request_head, response_head
from proxy.wire.keys import FETCH, JOIN_GROUP, SHARE_FETCH, SYNC_GROUP
from proxy.wire.primitives import Buffer

LONG_POLLS = (FETCH, JOIN_GROUP, SYNC_GROUP, SHARE_FETCH)
# the request's field with the longest wait: the first of these that the version has
_ALLOWED: dict[int, tuple[str, ...]] = {
    FETCH: ("max_wait_ms",),
    SHARE_FETCH: ("max_wait_ms",),
    JOIN_GROUP: ("rebalance_timeout_ms", "session_timeout_ms"),
}

# the field of a ShareFetch request from version 2 on that renews locks
_RENEWS = "is_renew_ack"
_PARTITION = "responses.partitions."
_ERRORS = ("error_code", _PARTITION + "error_code")
# the fields that give the log's end; the last two exist from version 4 on
_ENDS = ("high_watermark", "last_stable_offset", "aborted_transactions")


class Wait(StrEnum):
    """Whether the answer to a long poll may include a wait. The value is that of columns and of JSON."""

    FULL = "full"  # stops before the end of the records that the reader may see: the data was there, no wait
    TAIL = "tail"  # records up to the log's end: maybe after a wait
    EMPTY = "empty"  # no records
    ERROR = "error"  # maybe after a wait
    MEMBERS = "members"  # a group's member waits for the others
    INCLUDES_WAIT = "includes_wait"  # the answer is missing or can't be read

    @property
    def is_work(self) -> bool:
        """True if the latency is the broker's work alone."""
        return self is Wait.FULL


def waited(answer: Buffer, api_key: int, api_version: int | None, *, budget: Budget | None = None) -> Wait:
    """Reads the response to a long poll; `answer` is the whole frame behind its length, with nothing masked.

    `budget`: pays for the values; by default a new one. A response that exceeds it counts as unreadable.
    """
    if api_key in (JOIN_GROUP, SYNC_GROUP):
        return Wait.MEMBERS
    project = None if api_version is None else _answered(api_key, api_version)
    if project is None or api_version is None:
        return Wait.INCLUDES_WAIT
    try:
        body = response_head(answer, api_key, api_version).body
        found = project(answer, body, (budget or Budget()).values.take)
        return _shown({path: [value for value, _, _ in spans] for path, spans in found.items()})
    except WireError:
        return Wait.INCLUDES_WAIT


def allowed_ms(request: Buffer, api_key: int, api_version: int | None) -> int | None:
    """The longest wait that the request allows, in milliseconds; None if it has no such field or can't be read."""
    project = None if api_version is None else _asked(api_key, api_version)
    if project is None:
        return None
    try:
        found = project(request, request_head(request).body)
    except WireError:
        return None
    values = [value for spans in found.values() for value, _, _ in spans]
    return int(values[0]) if values else None


def only_renews(request: Buffer, api_key: int, api_version: int | None) -> bool:
    """True for a ShareFetch that renews acquisition locks (KIP-1222): brokers answer it at once, without records."""
    if api_key != SHARE_FETCH or api_version is None:
        return False
    codec = catalog.codec("request", api_key, api_version)
    try:
        found = codec.project((_RENEWS,))(request, request_head(request).body) if codec else {}
    except WireError:
        return False
    return any(value for spans in found.values() for value, _, _ in spans)


@cache
def _asked(api_key: int, api_version: int) -> Any:
    codec = catalog.codec("request", api_key, api_version)
    return codec.project(_ALLOWED[api_key]) if codec and api_key in _ALLOWED else None


@cache
def _answered(api_key: int, api_version: int) -> Any:
    codec = catalog.codec("response", api_key, api_version)
    if codec is None:
        return None
    ends = _ENDS if api_key == FETCH else ()
    return codec.project_within((*_ERRORS, *(_PARTITION + name for name in ("records", *ends))))


def _shown(found: dict[str, list[Any]]) -> Wait:
    partitions = found[_PARTITION + "records"]
    ends = _ends(found, len(partitions))
    pairs = zip(partitions, ends, strict=True)
    stops = (_stops_before(data, end) for data, end in pairs if data and end is not None)
    return shown(stops, any(code for path in _ERRORS for code in found[path]), any(partitions))


def shown(stops_before: Iterable[bool], has_error: bool, has_records: bool) -> Wait:
    """What the answer to a Fetch or a ShareFetch shows.

    `stops_before`: for each partition with records and a known end whether the log has more, until one has.
    """
    if any(stops_before):
        return Wait.FULL
    if has_error:
        return Wait.ERROR
    return Wait.TAIL if has_records else Wait.EMPTY


def _ends(found: dict[str, list[Any]], partitions: int) -> Sequence[int | None]:
    """The end of each partition's log for this reader; `aborted_transactions` is null for read_uncommitted."""
    watermarks = found.get(_PARTITION + "high_watermark")
    if not watermarks:
        return [None] * partitions
    stable, aborted = (found[_PARTITION + name] for name in _ENDS[1:])
    if not stable:
        return watermarks
    return [readers_end(*one) for one in zip(watermarks, stable, aborted, strict=True)]


def readers_end(watermark: int, stable: int, aborted: object) -> int:
    """The end of a log for the reader who was answered so; `aborted`: its `aborted_transactions`."""
    # -1: the broker does not know the last stable offset
    return watermark if aborted is None or stable < 0 else stable


def _stops_before(data: Buffer, end: int) -> bool:
    found = [*records.batches(data)]
    return has_more(found, len(data), end)


def has_more(found: Sequence[records.Batch], size: int, end: int) -> bool:
    """True if the log has more than these batches in `size` bytes: later offsets, or the rest of a cut batch."""
    if not found:
        return size > 0
    return size > found[-1].end or max([batch.last_offset for batch in found]) + 1 < end
