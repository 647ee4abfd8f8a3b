"""Tests of what a proxy hands its compactor."""

import json

import pytest

from recorder.capture.handover import Handover, decoded
from recorder.capture.record_rules import RecordRule, RecordRuleSettings

RULES = RecordRuleSettings(records=RecordRule.HASH, topic_records={"pay*": RecordRule.DROP, "free": RecordRule.KEEP})


@pytest.mark.parametrize("given", [Handover(bytes(range(32))), Handover(bytes(32), b"a key" * 9, RULES)])
def test_what_is_handed_over_is_read_as_it_was(given: Handover) -> None:
    assert decoded(given.encoded()) == given


def test_no_text_shows_a_key() -> None:
    text = repr(Handover(b"secret of the log", b"secret of hashes"))
    assert "secret" not in text


@pytest.mark.parametrize("text", [b"", b"[]", b"{}", b'"secret"', json.dumps({"log_key": "secret"}).encode()])
def test_what_is_no_handover_is_not_quoted(text: bytes) -> None:
    with pytest.raises(ValueError, match=r"^standard input holds no keys of a proxy$"):
        decoded(text)
