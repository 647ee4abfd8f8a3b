"""Error codes that differ and mean the same: what the target says of a moment, not of the request.

recorded            target    api            why
any                 0         Produce        the recording's client sent these records again
retriable, 27, 79   0         any            the recorded cluster was busy with itself; the client asked again
0                   46        Produce        the target has these records already
0                   27        Heartbeat      a member hears of a rebalance when it asks, sooner or later
"""

from __future__ import annotations

from proxy.wire.error_codes import kafka_error
from proxy.wire.keys import HEARTBEAT, PRODUCE

NO_ERROR = 0
REBALANCE_IN_PROGRESS = 27
DUPLICATE_SEQUENCE_NUMBER = 46
# "ask again with this id": before JoinGroup version 4 the id was given with the answer
MEMBER_ID_REQUIRED = 79

# api key, the target's code, where the recording has none
_OF_THE_MOMENT = frozenset({(PRODUCE, DUPLICATE_SEQUENCE_NUMBER), (HEARTBEAT, REBALANCE_IN_PROGRESS)})


def are_alike(api_key: int, recorded: int, target: int) -> bool:
    """True if both error codes say the same of the request."""
    if recorded == target:
        return True
    if recorded == NO_ERROR:
        return (api_key, target) in _OF_THE_MOMENT
    return target == NO_ERROR and (api_key == PRODUCE or _passes(recorded))


def _passes(code: int) -> bool:
    """True if a client that asks again may have success."""
    return code in (REBALANCE_IN_PROGRESS, MEMBER_ID_REQUIRED) or kafka_error(code).retriable
