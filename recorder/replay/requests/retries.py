"""Which answers are asked again: errors that pass, and requests that may be sent twice.

An error passes if the target says so and the recording did not: leaders and coordinators that are moving, brokers that
have not heard of a new topic yet. Producers' and members' errors are not here: their rooms have rules of their own.
"""

from __future__ import annotations

from proxy.wire.keys import (
    DESCRIBE_GROUPS,
    FETCH,
    FIND_COORDINATOR,
    HEARTBEAT,
    LIST_OFFSETS,
    METADATA,
    OFFSET_COMMIT,
    OFFSET_FETCH,
    SHARE_FETCH,
)
from recorder.replay.plan import Exchange, Values
from recorder.replay.requests.routing import errors

FIRST_PAUSE, LONGEST_PAUSE = 20 * 10**6, 2 * 10**9
# by Kafka's codes: leaders (5, 6, 74-76), coordinators (14-16), too few replicas (19), not the controller (41),
# concurrent transactions (51), and what is not known everywhere yet
PASSING = frozenset({5, 6, 14, 15, 16, 19, 41, 51, 78, 88, 89, 111, 133})
# of topics that may just have been made
NEW_TOPIC = frozenset({3, 100})
# of partitions that a share group has not begun to read yet, which Kafka tells as an unknown error
STARTING = frozenset({-1})
COORDINATOR = frozenset({14, 15, 16})
# what may go again when its connection broke: reads, and batches that a broker knows by producer and sequence
REPEATABLE = frozenset(
    {
        *(FETCH, LIST_OFFSETS, METADATA, OFFSET_COMMIT, OFFSET_FETCH, FIND_COORDINATOR, DESCRIBE_GROUPS, HEARTBEAT),
        # what it acquired was given back with its connection
        SHARE_FETCH,
    }
)


def longer(pause: int) -> int:
    """The pause behind one of this length; 0: the first."""
    return min(pause * 2, LONGEST_PAUSE) or FIRST_PAUSE


def is_passing(api_key: int, answer: Values) -> bool:
    """True if an error of the answer to a made request passes. Metadata that names nodes is taken as it is."""
    if api_key == METADATA and answer.get("brokers"):
        return False
    return any(code in PASSING for code in errors(api_key, answer).values())


def passing(exchange: Exchange, answer: Values, new_topics: bool = False) -> set[tuple[str | bytes, int] | None]:
    """The partitions (None: the whole answer) whose errors pass and which the recording answered without this code.

    Args:
        answer: the target's, in the recorded version's shape.
        new_topics: True while topics that this replay made may be unknown to some brokers.
    """
    found = errors(exchange.api_key, answer)
    if not found:
        return set()
    recorded = exchange.answer
    same = set(errors(exchange.api_key, recorded).values()) if recorded is not None else set()
    codes = PASSING | NEW_TOPIC if new_topics else PASSING
    codes = codes | STARTING if exchange.api_key == SHARE_FETCH else codes
    return {where for where, code in found.items() if code in codes and code not in same}
