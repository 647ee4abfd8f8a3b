"""The rule for the records of each topic: they are recorded as they are, left out, or hashed.

Used by the tap. Where several patterns match a topic, the strictest rule holds; where none does, that of `records`.
What can't be told (the topic of an unknown id, a version or a frame that nobody can read) is left out as soon as
any rule is not `keep`: a rule of some topic may be meant.
"""

from __future__ import annotations

import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

from proxy.limited_files import UnusableFile, content_of
from proxy.schema.errors import InvalidValue
from proxy.schema.faults import KeyPath
from proxy.schema.keys import Key
from proxy.schema.kinds import FILE, Kind, choice, text
from proxy.schema.patterns import Patterns, may_match
from proxy.wire.texts import LONGEST_TOPIC, TOPIC_LETTERS

# what is right in place of a file that is no key
RIGHT_KEY = "a file of 32 bytes at least that only its owner can read"
# a key of fewer bytes than its hash has adds less than the hash can hide (RFC 2104)
SHORTEST_KEY = 32
_MOST_KEY = 64 * 1024
# topics whose rules are remembered, as matching patterns takes longer
_MOST_KNOWN = 10_000


class RecordRule(StrEnum):
    """What is recorded of a topic's records; the later a rule stands here, the less it gives away.

    KEEP: all of them. HASH: keyed hashes in place of keys and values. DROP: nothing of keys, values and headers.
    """

    KEEP = "keep"
    HASH = "hash"
    DROP = "drop"


_STRICTNESS = {rule: number for number, rule in enumerate(RecordRule)}
RULE = choice(RecordRule)


def topic_pattern(raw: Any) -> str:
    """A pattern of topics' names. Errors: InvalidValue for one that can match none."""
    pattern = text(raw)
    if pattern in (".", "..") or not may_match(pattern, TOPIC_LETTERS, LONGEST_TOPIC):
        raise InvalidValue("can match no topic, whose names have up to 249 letters, digits, '.', '_' and '-'")
    return pattern


TOPIC_PATTERN = Kind("a pattern of topics' names", topic_pattern, str, "PATTERN")


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordRuleSettings:
    """What is recorded of the records in Produce requests, and in answers to Fetch and ShareFetch."""

    records: Annotated[
        RecordRule,
        Key(
            RULE,
            "records",
            "What is recorded of topics' records. `drop`: nothing of keys, values and headers. `hash`: keyed hashes in "
            "place of keys and values.",
            "drop",
        ),
    ] = RecordRule.KEEP
    topic_records: Annotated[
        Mapping[str, RecordRule],
        Key(
            RULE,
            "topics",
            "What is recorded of the records of topics whose names match a pattern. Of several patterns that match, "
            "the strictest rule holds: `drop`, then `hash`.",
            "drop",
            unset="as `records` says",
            name_kind=TOPIC_PATTERN,
            entry=("payments-*", "records"),
        ),
    ] = field(default_factory=dict)
    hash_key: Annotated[
        Path | None,
        Key(
            FILE,
            "hash_key",
            f"The key of `hash`: {RIGHT_KEY}.",
            "/etc/wiretap/hash.key",
            unset="none",
        ),
    ] = None

    @property
    def hashed(self) -> list[KeyPath]:
        """The keys that say `hash`, below the section."""
        rules: dict[KeyPath, RecordRule] = {("records",): self.records}
        rules |= {("topics", pattern, "records"): rule for pattern, rule in self.topic_records.items()}
        return [place for place, rule in rules.items() if rule is RecordRule.HASH]


class RecordRules:
    """The rules, compiled. `keeps_everything`: True if every topic's rule is KEEP.

    `only`: the chosen topics, as `capture.only.topics` says; the rule of all others is DROP.
    """

    def __init__(self, settings: RecordRuleSettings, only: Patterns | None = None) -> None:
        self.only = Patterns(None) if only is None else only
        self._usual = settings.records
        # the strictest first
        rules = sorted({*settings.topic_records.values()}, key=_STRICTNESS.__getitem__, reverse=True)
        self._patterns = [
            (rule, Patterns(name for name, own in settings.topic_records.items() if own is rule)) for rule in rules
        ]
        self._known: dict[str, RecordRule] = {}
        self.keeps_everything = self.only.matches_all and {self._usual, *rules} == {RecordRule.KEEP}
        self.of_unknown = RecordRule.KEEP if self.keeps_everything else RecordRule.DROP

    def of(self, topic: str | None) -> RecordRule:
        """The rule of a topic; None: its name is unknown."""
        if topic is None:
            return self.of_unknown
        rule = self._known.get(topic)
        if rule is None:
            rule = self._rule_of(topic)
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            self._known[topic] = rule
        return rule

    def may_choose(self, topic: str | None) -> bool:
        """True if `only` chooses a topic; also for None, a topic of an unknown name."""
        return topic is None or self.only.matches(topic)

    def _rule_of(self, topic: str) -> RecordRule:
        if not self.only.matches(topic):
            return RecordRule.DROP
        return next((rule for rule, patterns in self._patterns if patterns.matches(topic)), self._usual)


def hash_key_of(settings: RecordRuleSettings) -> bytes | None:
    """The key of hashes; None if no rule needs one, or none is given. Blocks. Errors: UnusableFile."""
    return read_hash_key(settings.hash_key) if settings.hashed and settings.hash_key is not None else None


def read_hash_key(path: Path) -> bytes:
    """The key in a file. Blocks. Errors: UnusableFile."""
    key = content_of(path, _MOST_KEY, refusal="is no file")
    try:
        mode = path.stat().st_mode
    except OSError as error:
        raise UnusableFile(f"can't be read ({error.strerror or error})") from error
    if stat.S_IMODE(mode) & (stat.S_IRWXG | stat.S_IRWXO):
        raise UnusableFile(f"can be read by others than its owner (its mode is {stat.S_IMODE(mode):04o})")
    if len(key) < SHORTEST_KEY:
        raise UnusableFile(f"is shorter than {SHORTEST_KEY} bytes")
    return key
