"""Error codes and states that differ without a difference: they depend on the moment, not on the request.

recorded            target    api            why
any                 0         Produce        the target took the records: what consumers read of them is compared
retriable, 27, 79   0         any            the recorded cluster was busy with itself, and the client asked again
                                             (but not 27 of a commit, which clients don't repeat)
0                   46        Produce        the target has these records already
0                   27        Heartbeat      a member hears of a rebalance when it asks, sooner or later
0                   121       ShareFetch,    the lock of the records had run out on the target: they are acknowledged
                              ShareAck…      when the group has them again
25, no member id    0         JoinGroup      the member left while its join waited: the target may have answered before

A transaction that was still ending in the recording may have ended on the target. Its description then may differ. So
may that of a classic group that one cluster described during a rebalance: the members that have joined, and the
protocol that they have not yet agreed on.
"""

from __future__ import annotations

from proxy.wire.error_codes import MEMBER_ID_REQUIRED, REBALANCE_IN_PROGRESS, kafka_error
from proxy.wire.keys import (
    DESCRIBE_GROUPS,
    DESCRIBE_TRANSACTIONS,
    HEARTBEAT,
    JOIN_GROUP,
    PRODUCE,
    SHARE_ACKNOWLEDGE,
    SHARE_FETCH,
)
from recorder.replay.groups.members import left_meanwhile
from recorder.replay.plan import Values
from recorder.replay.requests.apis import COMMITS
from recorder.replay.sessions.share_sessions import INVALID_RECORD_STATE

NO_ERROR = 0
DUPLICATE_SEQUENCE_NUMBER = 46

# (api key, the target's code) where the recording has no error
_OF_THE_MOMENT = frozenset(
    {
        (PRODUCE, DUPLICATE_SEQUENCE_NUMBER),
        (HEARTBEAT, REBALANCE_IN_PROGRESS),
        (SHARE_FETCH, INVALID_RECORD_STATE),
        (SHARE_ACKNOWLEDGE, INVALID_RECORD_STATE),
    }
)
# a group while members join, and until its leader has assigned
_IN_REBALANCE = frozenset({"PreparingRebalance", "CompletingRebalance"})
# the state that a transaction reaches by itself
_BECOMES = {"PrepareCommit": "CompleteCommit", "PrepareAbort": "CompleteAbort"}


def is_of_the_moment(api_key: int, recorded: Values, target: Values) -> bool:
    """True for structs that need not be alike.

    They are the answer to a join whose member left meanwhile, a group in a rebalance, a transaction that has ended.
    """
    if api_key == JOIN_GROUP:
        return left_meanwhile(recorded) and target["error_code"] == NO_ERROR
    if api_key == DESCRIBE_GROUPS and "group_state" in recorded:
        has_errors = recorded["error_code"] or target["error_code"]
        return not has_errors and not _IN_REBALANCE.isdisjoint((recorded["group_state"], target["group_state"]))
    later = _BECOMES.get(recorded.get("transaction_state", "")) if api_key == DESCRIBE_TRANSACTIONS else None
    return later is not None and target.get("transaction_state") == later


def are_alike(api_key: int, recorded: int, target: int) -> bool:
    """True if both error codes mean the same for the request."""
    if recorded == target:
        return True
    if recorded == NO_ERROR:
        return (api_key, target) in _OF_THE_MOMENT
    return target == NO_ERROR and (api_key == PRODUCE or _passes(api_key, recorded))


def _passes(api_key: int, code: int) -> bool:
    """True if a client asks again after this error, and may succeed."""
    if code == REBALANCE_IN_PROGRESS:
        return api_key not in COMMITS
    # "ask again with this id": before JoinGroup version 4 a successful answer gave the id
    return code == MEMBER_ID_REQUIRED or kafka_error(code).retriable
