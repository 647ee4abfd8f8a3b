"""The partitions of fetch sessions (KIP-227) and share sessions (KIP-932), as the requests of clients tell them.

Within a session, a request names only what changes. Used by `topic_choice`, to know which topics a request is about. A
session belongs to a broker, and a client that connects anew may go on with it: so all connections of a process to one
broker share a `SessionTopics`. A session is unknown if its beginning was not seen, or if too much has been since.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Hashable, Iterable, Mapping
from enum import Enum, auto
from typing import Any

# partitions that are known at most, some 100 bytes each; a session counts as one, too
MAX_KNOWN = 200_000

# a topic's name, or its id in a version without names
Topic = str | bytes
Partitions = dict[Topic, set[int]]


class SessionUse(Enum):
    """What a request does to its session."""

    NONE = auto()
    BEGINS = auto()
    GOES_ON = auto()
    CLOSES = auto()


def session_use(values: Mapping[str, Any]) -> SessionUse:
    """What a decoded request to Fetch, ShareFetch or ShareAcknowledge does, by its session's id and epoch."""
    share_epoch = values.get("share_session_epoch")
    # a share session has no id: it is that of the group's member
    session = share_epoch is not None or values.get("session_id", 0)
    epoch = values.get("session_epoch", -1) if share_epoch is None else share_epoch
    if epoch == 0:
        return SessionUse.BEGINS
    if epoch < 0:
        return SessionUse.CLOSES if session else SessionUse.NONE
    return SessionUse.GOES_ON


class SessionTopics:
    """The sessions with one broker. Those that were used the longest ago are forgotten first."""

    def __init__(self, most: int = MAX_KNOWN) -> None:
        self._sessions = OrderedDict[Hashable, Partitions]()
        self._most = most
        self._size = 0

    def __len__(self) -> int:
        return len(self._sessions)

    def __contains__(self, session: Hashable) -> bool:
        return session in self._sessions

    def begin(self, session: Hashable, partitions: Iterable[tuple[Topic, int]]) -> None:
        """Notes a session that begins with these partitions."""
        self.close(session)
        self._sessions[session] = {}
        self._size += 1
        self.change(session, partitions, ())

    def rename(self, session: Hashable, name: Hashable) -> None:
        """Notes the name of a session that has begun under another one."""
        partitions = self._sessions.pop(session, None)
        if partitions is not None:
            self.close(name)
            self._sessions[name] = partitions

    def change(
        self, session: Hashable, added: Iterable[tuple[Topic, int]], forgotten: Iterable[tuple[Topic, int]]
    ) -> None:
        """Notes what a request changes in its session; nothing if the session is unknown."""
        partitions = self._sessions.get(session)
        if partitions is None:
            return
        for topic, number in forgotten:
            left = partitions.get(topic, set())
            self._size -= number in left
            left.discard(number)
            if not left:
                partitions.pop(topic, None)
        for topic, number in added:
            known = partitions.setdefault(topic, set())
            self._size += number not in known
            known.add(number)
        self._sessions.move_to_end(session)
        while self._size > self._most:
            self._size -= _size(self._sessions.popitem(last=False)[1])

    def close(self, session: Hashable) -> None:
        """Forgets a session."""
        partitions = self._sessions.pop(session, None)
        if partitions is not None:
            self._size -= _size(partitions)

    def topics(self, session: Hashable) -> Collection[Topic] | None:
        """The topics of a session; None: the session is unknown."""
        return self._sessions.get(session)

    def clear(self) -> None:
        """Forgets all sessions."""
        self._sessions.clear()
        self._size = 0


def _size(partitions: Partitions) -> int:
    return 1 + sum(map(len, partitions.values()))
