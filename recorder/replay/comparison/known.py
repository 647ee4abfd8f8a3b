"""What a comparison asks of those who know the target's values for recorded ones.

    What of the field (`fields`)               scope                  recorded value
    TOPIC_NAME, TOPIC_PATTERN                  None                   text
    GROUP, TRANSACTION, COORDINATOR_KEY        None                   text
    TOPIC_ID, CLIENT_INSTANCE                  None                   16 bytes
    SUBSCRIPTION                               None                   number
    PRODUCER                                   None                   id and epoch, one value
    MEMBER, INSTANCE, GENERATION, MEMBER_EPOCH group                  text; text; number; number
    OFFSET                                     topic and partition    number
    RESOURCE                                   resource type          text

Scopes are in recorded terms. Resource types are the API's: those of access rules are numbered otherwise than those of
settings. The group is None where the answer doesn't name it: then it is the request's. A topic is
what the answer says: its name, or its id.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Protocol

from recorder.replay.mapping import What

NO_ID = bytes(16)


class Known(Protocol):
    """The target's values, as far as its answers told them."""

    @property
    def same(self) -> frozenset[What]:
        """What is called the same on both sides, whatever it is called."""

    def expected(self, what: What, scope: Hashable, recorded: Hashable) -> Hashable | None:
        """The value that stands for a recorded one on the target; None: no answer gave one."""


class Unknown:
    """Of nothing is it known what stands for it: for comparisons without a replay's state."""

    same: frozenset[What] = frozenset()

    def expected(self, what: What, scope: Hashable, recorded: Hashable) -> Hashable | None:
        """None."""
        return None


def is_nothing(value: object) -> bool:
    """True for what says that there is no value: null, no text, no id, a number below zero."""
    if isinstance(value, tuple):
        return is_nothing(value[0])
    if isinstance(value, int):
        return value < 0
    return value in (None, "", b"", NO_ID)
