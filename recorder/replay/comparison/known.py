"""The questions of a comparison to the rooms that know the target's values for recorded ones.

    kind of the field (`fields`)               scope                  recorded value
    TOPIC_NAME, TOPIC_PATTERN                  None                   text
    GROUP, TRANSACTION, COORDINATOR_KEY        None                   text
    TOPIC_ID, CLIENT_INSTANCE                  None                   16 bytes
    SUBSCRIPTION                               None                   number
    PRODUCER                                   None                   id and epoch, one value
    MEMBER, INSTANCE, GENERATION, MEMBER_EPOCH group                  text; text; number; number
    OFFSET                                     topic and partition    number
    RESOURCE                                   resource type          text

Scopes are in recorded terms. Resource types are the API's own: access rules and settings number them differently. The
group is None if the answer doesn't name it, and then is the request's. A topic is its name or id, as in the answer.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Protocol

from proxy.wire.places import NO_ID
from recorder.replay.mapping import ValueKind


class Counterparts(Protocol):
    """The target's values, as far as its answers told them."""

    @property
    def same(self) -> frozenset[ValueKind]:
        """The kinds of values that are the same on both sides."""

    def expected(self, what: ValueKind, scope: Hashable, recorded: Hashable) -> Hashable | None:
        """The target's value for a recorded one; None: no answer gave one."""


def is_nothing(value: object) -> bool:
    """True for a value that means that there is none: null, empty text, no id, a number below zero."""
    if isinstance(value, tuple):
        return is_nothing(value[0])
    if isinstance(value, int):
        return value < 0
    return value in (None, "", b"", NO_ID)
