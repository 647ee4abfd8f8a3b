"""Tells latencies of a cluster's work from latencies of waiting.

A joining member waits for the others, a follower for the leader's assignment, a poll at a log's end for records. These
latencies count apart in a report, so that an API's percentiles are those of its work.
"""

from __future__ import annotations

from proxy.wire.keys import JOIN_GROUP, SYNC_GROUP
from recorder.replay.plan import Values
from recorder.replay.requests.apis import LONG_POLLS

# why an exchange counts apart, as reports say it
JOINS, SYNCS, EMPTY_POLLS = "joins", "syncs", "empty polls"

_OF_GROUPS = {JOIN_GROUP: JOINS, SYNC_GROUP: SYNCS}


def reason_apart(api_key: int, recorded: Values | None, replayed: Values | None) -> str:
    """Why the latencies of an exchange count apart; empty if they don't.

    A poll counts apart if either side had no records: then its two latencies aren't of the same work.
    """
    if api_key in LONG_POLLS:
        has_both = _has_records(recorded) and (replayed is recorded or _has_records(replayed))
        return "" if has_both else EMPTY_POLLS
    return _OF_GROUPS.get(api_key, "")


def _has_records(answer: Values | None) -> bool:
    for topic in (answer or {}).get("responses") or ():
        for partition in topic["partitions"]:
            if partition.get("records"):
                return True
    return False
