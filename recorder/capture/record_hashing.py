"""Hashes the records of frames on their way into rows, as the rules say. Used by `streams`, in the compactor alone.

The tap lets batches pass that are to be hashed, into a log that is encrypted. A frame with hashed records has other
bytes than the one that arrived: `size` stays that of the wire, and `batches` tells what each batch was.

Where some rules keep records and others hash them, topics' ids must be told apart. The tap has dropped what it could
not tell; what only this process can't tell, because its state was lost, is hashed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from functools import lru_cache, partial
from typing import Any

from proxy.wire import catalog
from proxy.wire.apis import MessageKind
from proxy.wire.compile.record_finder import NOTHING
from proxy.wire.dialects import Dialect
from proxy.wire.records.walk import RecordWalk
from recorder.capture.record_rules import RecordRule, RecordRules, RecordRuleSettings
from recorder.capture.topic_ids import TopicIds
from recorder.hashing.batches import KEPT
from recorder.hashing.frames import RewrittenFrame, Spans, holders, rewritten_frame
from recorder.hashing.hasher import Hasher

_KINDS: tuple[MessageKind, MessageKind] = ("request", "response")


class RecordHashing:
    """The rules and the key of a session."""

    def __init__(self, settings: RecordRuleSettings, key: bytes) -> None:
        self._rules = RecordRules(settings)
        self._hasher = Hasher(key)
        rules = {settings.records, *settings.topic_records.values()}
        # otherwise all that the tap has not dropped is hashed
        self._needs_topics = RecordRule.KEEP in rules
        self._topic_ids = defaultdict[str | None, TopicIds](TopicIds)

    @property
    def fingerprint(self) -> str:
        """Tells the key from others."""
        return self._hasher.fingerprint

    def concerns(self, direction: int, key: int, version: int | None, dialect: Dialect) -> bool:
        """True for a frame that must pass through `hashed`."""
        if dialect is not Dialect.KAFKA:
            return False
        if (_KINDS[direction], key) in holders():
            return True
        return bool(direction and self._needs_topics and _tells_topics(key, version))

    def hashed(
        self,
        direction: int,
        key: int,
        version: int | None,
        cluster: str | None,
        frame: bytes,
        *,
        masked: Spans,
        dropped: Spans,
        omitted: Spans,
    ) -> RewrittenFrame | None:
        """The frame with hashed records; None for one that stays as it is. It may have told topics' ids.

        `frame`: its bytes without the length, with zeros in spans. `version`: None for one that nobody knows.
        """
        kind, ids = _KINDS[direction], self._topic_ids[cluster]
        if (kind, key) in holders():
            chooses, hasher = partial(self._chooses, ids), self._hasher
            found = rewritten_frame(
                kind, key, version, frame, chooses, hasher, masked=masked, dropped=dropped, omitted=omitted
            )
            return found if found.told is None or any(told.rule != KEPT for told in found.told) else None
        codec = None if version is None else catalog.codec(kind, key, version)
        if codec is not None:
            walk = RecordWalk(codec.find_records, partial(_learn, ids), head=0, by_broker=True, holds_records=False)
            walk.feed(len(frame).to_bytes(4, "big") + frame)
        return None

    def _chooses(self, ids: TopicIds, topic: str | bytes) -> bool:
        if not self._needs_topics:
            return True
        name = ids.name(topic) if isinstance(topic, bytes) else topic
        return not name or self._rules.of(name) is RecordRule.HASH

    def state(self) -> list[tuple[str | None, str, str]]:
        """What was learned of topics, as JSON values: cluster, id in hex, name."""
        return [(cluster, told.hex(), name) for cluster, ids in self._topic_ids.items() for told, name in ids.items()]

    def restore(self, state: Iterable[Any]) -> None:
        """Restores the result of `state`."""
        for cluster, told, name in state:
            self._topic_ids[cluster].learn(bytes.fromhex(told), name)


def hashing_of(rules: RecordRuleSettings, key: bytes | None) -> RecordHashing | None:
    """What hashes records by these rules; None if none of them hashes."""
    return RecordHashing(rules, key) if rules.hashed and key is not None else None


def _learn(ids: TopicIds, name: bytes | None, topic_id: bytes | None) -> int:
    if name is not None and topic_id is not None:
        ids.learn(topic_id, name.decode("utf-8", "replace"))
    return NOTHING


@lru_cache(catalog.CACHE_SIZE)
def _tells_topics(key: int, version: int | None) -> bool:
    return version is not None and catalog.tells_topics("response", key, version)
