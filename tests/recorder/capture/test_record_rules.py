"""The rules for records, by topic, and the key of hashes."""

import os

import pytest

from proxy.limited_files import UnusableFile
from proxy.schema.errors import InvalidValue
from proxy.schema.patterns import Patterns
from recorder.capture.record_rules import TOPIC_PATTERN, RecordRule, RecordRules, RecordRuleSettings, read_hash_key

KEEP, HASH, DROP = RecordRule


def rules(usual=KEEP, **topics):
    return RecordRules(RecordRuleSettings(records=usual, topic_records=topics))


def test_the_usual_rule_holds_where_no_pattern_matches():
    found = rules(DROP, orders=KEEP)
    assert [found.of(topic) for topic in ("orders", "payments")] == [KEEP, DROP]


@pytest.mark.parametrize(
    ("given", "strictest"),
    [({"pay*": KEEP, "*ments": DROP, "payments": HASH}, DROP), ({"pay*": KEEP, "payments": HASH}, HASH)],
)
def test_the_strictest_of_several_patterns_holds_in_whatever_order_they_are_given(given, strictest):
    for order in (given, dict(reversed(given.items()))):
        assert rules(KEEP, **order).of("payments") is strictest


def test_topics_that_are_not_chosen_are_dropped_whatever_other_rules_say():
    settings = RecordRuleSettings(records=HASH, topic_records={"payments*": KEEP})
    found = RecordRules(settings, Patterns(["orders*", "!orders-test"]))
    assert [found.of(topic) for topic in ("orders", "orders-test", "payments", None)] == [HASH, DROP, DROP, DROP]
    names = ("orders", "orders-test", "payments", None)
    assert [found.may_choose(topic) for topic in names] == [True, False, False, True]
    assert not found.keeps_everything
    assert not RecordRules(RecordRuleSettings(), Patterns(["orders"])).keeps_everything


@pytest.mark.parametrize("rule", [HASH, DROP])
def test_an_unknown_topic_is_dropped_as_soon_as_any_rule_is_not_keep(rule):
    assert rules(rule).of(None) is DROP
    assert rules(KEEP, payments=rule).of(None) is DROP


def test_an_unknown_topic_is_kept_where_all_are():
    found = rules(KEEP, orders=KEEP)
    assert found.of(None) is KEEP
    assert found.keeps_everything


@pytest.mark.parametrize("pattern", ["a b", "worker[1]", "!orders", "[%]*", "umläut", "a" * 250, "?" * 250, "..", "."])
def test_a_pattern_that_can_match_no_topic_is_wrong(pattern):
    with pytest.raises(InvalidValue, match="can match no topic"):
        TOPIC_PATTERN.read(pattern)


@pytest.mark.parametrize(
    "pattern", ["*", "payments-*", "[!a]*", "a?[0-9]", "a" * 249, "?" * 249 + "*", "..*", "__consumer_offsets"]
)
def test_a_pattern_that_can_match_a_topic_is_right(pattern):
    assert TOPIC_PATTERN.read(pattern) == pattern


def test_a_key_that_only_its_owner_can_read_is_taken_as_it_is(tmp_path):
    path = tmp_path / "key"
    path.write_bytes(bytes(range(32)))
    path.chmod(0o600)
    assert read_hash_key(path) == bytes(range(32))


@pytest.mark.parametrize(
    ("size", "mode", "reason"),
    [(32, 0o640, "others than its owner"), (32, 0o604, "others than its owner"), (31, 0o600, "shorter than 32 bytes")],
)
def test_a_key_that_others_can_read_and_a_short_one_are_refused(size, mode, reason, tmp_path):
    path = tmp_path / "key"
    path.write_bytes(bytes(size))
    path.chmod(mode)
    with pytest.raises(UnusableFile, match=reason):
        read_hash_key(path)


def test_a_key_that_is_no_file_is_refused_and_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe", 0o600)
    for path in (tmp_path, tmp_path / "pipe", tmp_path / "missing"):
        with pytest.raises(UnusableFile):
            read_hash_key(path)
