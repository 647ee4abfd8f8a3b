"""Errors that pass, after which a request is sent again.

An error passes if the target has it and the recording has not: a leader or coordinator is moving, or a broker does not
know a new topic yet. Errors of producers and members are not here: their rooms have their own rules.
"""

from __future__ import annotations

from collections.abc import Callable

from proxy.wire.keys import FETCH, METADATA, SHARE_FETCH
from proxy.wire.places import ElementKey
from recorder.replay.names import Names
from recorder.replay.plan import Exchange, Values
from recorder.replay.requests.routing import errors

FIRST_PAUSE, LONGEST_PAUSE = 20 * 10**6, 2 * 10**9
# Kafka's codes: leaders (5, 6, 74-76), coordinators (14-16), too few replicas (19), not the controller (41), concurrent
# transactions (51), and values that are not known everywhere yet.
PASSING = frozenset({5, 6, 14, 15, 16, 19, 41, 51, 78, 88, 89, 111, 133})
# errors of topics that may just have been created
NEW_TOPIC = frozenset({3, 100})
# The offset of a Fetch is within the target's log, as far as its records were sent: those of Produces that await no
# answer may be on their way.
AHEAD = frozenset({1})
# the error of partitions with which a share group has not begun yet: Kafka calls it unknown
STARTING = frozenset({-1})
COORDINATOR = frozenset({14, 15, 16})
_OF_API = {FETCH: AHEAD, SHARE_FETCH: STARTING}


def next_pause(pause: int) -> int:
    """The pause after one of this length; after 0, the first pause."""
    return min(pause * 2, LONGEST_PAUSE) or FIRST_PAUSE


def is_passing(api_key: int, answer: Values) -> bool:
    """True if the answer to a made request has an error that passes. Metadata with nodes never counts as passing."""
    if api_key == METADATA and answer.get("brokers"):
        return False
    return any(code in PASSING for code in errors(api_key, answer).values())


def passing(exchange: Exchange, answer: Values, names: Names, new_topics: bool = False) -> set[ElementKey | None]:
    """The partitions (None: the whole answer) with errors that pass and that the recorded answer does not have there.

    Args:
        answer: the target's, in the recorded version's shape.
        new_topics: True if brokers may not know topics that this replay created.
    """
    found = errors(exchange.api_key, answer)
    if not found:
        return set()
    recorded = errors(exchange.api_key, exchange.answer or {})
    same = {(_named(where, names.topic), code) for where, code in recorded.items()}
    codes = PASSING | NEW_TOPIC if new_topics else PASSING
    codes = codes | _OF_API.get(exchange.api_key, frozenset())
    return {
        where
        for where, code in found.items()
        if code in codes and (_named(where, names.recorded_topic), code) not in same
    }


def _named(where: ElementKey | None, name: Callable[[str | bytes], str | None]) -> tuple[str | None, int] | None:
    """An element's key with the recorded name in place of the target's, or of a topic's id."""
    return None if where is None else (name(where[0]), where[1])
