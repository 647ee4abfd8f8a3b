"""What a proxy hands its compactor, on its standard input: the key of an encrypted log, the key of hashes, the rules.

Keys are never in arguments, in the environment or on a disk: other processes of this user, and whoever gets the disk,
could read them there. A compactor that is started again gets them again; one that nobody hands them compacts logs in
clear alone.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from recorder.capture.record_rules import RecordRule, RecordRuleSettings

# more than two keys and a thousand patterns take
MOST_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Handover:
    """The keys are in no text of it. `hash_key`: None if no rule hashes."""

    log_key: bytes = field(repr=False)
    hash_key: bytes | None = field(default=None, repr=False)
    rules: RecordRuleSettings = field(default_factory=RecordRuleSettings)

    def encoded(self) -> bytes:
        """The bytes that `decoded` reads."""
        told: dict[str, Any] = {"log_key": self.log_key.hex(), "hash_key": self.hash_key and self.hash_key.hex()}
        return json.dumps(told | {"records": self.rules.records, "topics": dict(self.rules.topic_records)}).encode()


def decoded(text: bytes) -> Handover:
    """What was handed over. Errors: ValueError for anything else."""
    try:
        told = json.loads(text)
        topics = {pattern: RecordRule(rule) for pattern, rule in told["topics"].items()}
        rules = RecordRuleSettings(records=RecordRule(told["records"]), topic_records=topics)
        hash_key = told["hash_key"] and bytes.fromhex(told["hash_key"])
        return Handover(bytes.fromhex(told["log_key"]), hash_key, rules)
    except (ValueError, TypeError, KeyError, AttributeError):
        # the error's own text might quote a key
        raise ValueError("standard input holds no keys of a proxy") from None
