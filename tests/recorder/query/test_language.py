"""Tests of the filter language: what a text means, where an error points, what may come next."""

from __future__ import annotations

from contextlib import suppress

import pytest

from recorder.moments import Moment
from recorder.query.fields import FIELDS
from recorder.query.language import MOST_LETTERS, MOST_LEVELS, FilterError, completions, parse
from recorder.query.syntax import And, Comparison, Node, Not, Or, condition, names, resolved
from recorder.query.values import Api

PRODUCE = condition("api", "==", Api(0, "kafka"))


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("api == Produce", PRODUCE),
        ("API == produce", PRODUCE),
        ("api==0", condition("api", "==", Api(0, None))),
        ("api == 0.7/fetch", condition("api", "==", Api(1, "kafka-0.7"))),
        ("size > 64KiB", condition("size", ">", 65_536)),
        ("size > 64kB", condition("size", ">", 64_000)),
        ("size > 1.5MB", condition("size", ">", 1_500_000)),
        ("latency >= 1.5s", condition("latency", ">=", 1_500_000_000)),
        ("error", condition("error", "")),
        ("error == NotLeaderForPartitionCode", condition("error", "==", 6)),
        ("partition in (1, 2)", condition("partition", "==", 1, 2)),
        ("topic == 'it''s'", None),
        (r'topic == "a \"b\" c"', condition("topic", "==", 'a "b" c')),
        ("topic == orders-1.x:y", condition("topic", "==", "orders-1.x:y")),
        ("topic == and", condition("topic", "==", "and")),
        ("at >= -5m", condition("at", ">=", Moment(back_ns=300 * 10**9))),
        ("error and api == Produce or error", Or((And((condition("error", ""), PRODUCE)), condition("error", "")))),
        ("error and (api == Produce or error)", And((condition("error", ""), Or((PRODUCE, condition("error", "")))))),
        ("not error and api == Produce", And((Not(condition("error", "")), PRODUCE))),
        ("not (error or error)", Not(Or((condition("error", ""), condition("error", ""))))),
    ],
)
def test_a_text_means_a_tree(text: str, meant: Node | None) -> None:
    if meant is None:
        with pytest.raises(FilterError):
            parse(text)
    else:
        assert parse(text) == meant


@pytest.mark.parametrize(
    ("text", "sentence", "place"),
    [
        ("", "an empty filter names nothing: right would be api == Produce", ""),
        ("topc == x", "'topc' is no field: did you mean topic?", "topc"),
        ("error and topc == x", "'topc' is no field: did you mean topic?", "topc"),
        ("topic > 3", "> does not compare topic: right would be ==, !=, ~, !~", ">"),
        ("at == 13:48", "== does not compare at: right would be <, <=, >, >=", "=="),
        ("at in (13:48)", "at has no list of values: right would be <, <=, >, >=", "at"),
        ("size > 64KX", "'64KX' is no size: right would be 64KiB, 1.5MB or 500 (bytes)", "64KX"),
        ("latency > 100", "'100' is no duration: right would be 100ms, 1.5s or 2m", "100"),
        ("at > noon", "'noon' is no time: right would be 2026-11-21T13:48 (UTC), 13:48 or -5m", "noon"),
        ("partition == x", "'x' is no number: right would be 3", "x"),
        ("partition == 1234567890123456789012", "'1234567890123456789012' is no number: right would be 3", "1234"),
        ("api == Prodce", "no API is called 'Prodce'; near: Produce, InitProducerId", "Prodce"),
        ("error == NOT_LEADER", "no error is called 'NOT_LEADER'; near: NOT_LEADER_OR_FOLLOWER", "NOT_"),
        ("codec == zip", "'zip' is no codec: did you mean gzip?", "zip"),
        ("topic", "topic alone says nothing: right would be topic == ..., topic ~ ...", "topic"),
        ("size", "size alone says nothing: right would be size == ..., size > ...", "size"),
        ("api = Produce", "'=' is no operator: right would be ==", "= P"),
        ("error && error", "'&' is no operator: right would be and", "&"),
        ("topic == x || error", "'|' is no operator: right would be or", "|"),
        ("!error", "'!' is no operator: right would be not", "!"),
        ('topic == "x', 'this text has no closing "', '"x'),
        ("topic ==", "the filter ends too early: there is missing a value", ""),
        ("(error", "the filter ends too early: there is missing )", ""),
        ("error)", "')' can't stand here: right would be the filter's end", ")"),
        ("topic in (a b)", "'b)' can't stand here: right would be ), ,", "b)"),
        ("topic == x error", "'error' can't stand here: right would be and, or", "error"),
    ],
)
def test_an_error_says_what_is_right_and_points_at_the_place(text: str, sentence: str, place: str) -> None:
    with pytest.raises(FilterError) as raised:
        parse(text)
    first, shown, caret = str(raised.value).split("\n")
    assert first == sentence
    assert shown[caret.index("^") :].startswith(place)


def test_what_a_terminal_would_obey_is_escaped_and_the_caret_still_points() -> None:
    with pytest.raises(FilterError) as raised:
        parse("topic == '\x1b[2J' and topc == x")
    _, shown, caret = str(raised.value).split("\n")
    assert "\x1b" not in str(raised.value)
    assert shown[caret.index("^") :] == "topc == x"


def test_of_a_long_filter_the_surroundings_of_the_place_are_shown() -> None:
    with pytest.raises(FilterError) as raised:
        parse("error and " * 100 + "topc == x" + " and error" * 100)
    _, shown, caret = str(raised.value).split("\n")
    assert shown[caret.index("^") :].startswith("topc == x")
    assert len(shown) < 140


@pytest.mark.parametrize("text", ["not " * 5000 + "error", "(" * 5000 + "error" + ")" * 5000, "(" * 9000])
def test_a_filter_of_any_depth_is_refused_or_read(text: str) -> None:
    with suppress(FilterError):
        assert parse(text).depth <= MOST_LEVELS


def test_a_filter_that_is_too_long_is_refused() -> None:
    with pytest.raises(FilterError, match="letters at most"):
        parse("error and " * 10_000 + "error")


def test_moments_are_resolved_before_a_capture_is_read() -> None:
    found = resolved(parse("error and not at < -1s or at > 2026-11-21T12:00"), lambda: 5 * 10**9)
    times = [each.values[0] for each in _comparisons(found) if each.field.name == "at"]
    assert times == [4 * 10**9, 1_795_262_400 * 10**9]


def _comparisons(node: Node) -> list[Comparison]:
    match node:
        case Comparison():
            return [node]
        case Not(part):
            return _comparisons(part)
        case And(parts) | Or(parts):
            return [each for part in parts for each in _comparisons(part)]


def test_a_filter_tells_its_fields() -> None:
    assert names(parse("not (topic == a or error) and size > 1")) == {"topic", "error", "size"}


@pytest.mark.parametrize(
    ("begun", "following"),
    [
        ("", {"not", *FIELDS}),
        ("ap", {"api"}),
        ("topic ==x and er", {"topic ==x and error"}),
        ("api == Prod", {"api == Produce"}),
        ("api == Produce a", {"api == Produce and"}),
        ("(error == NOT_LEA", {"(error == NOT_LEADER_OR_FOLLOWER"}),
        ("codec in (gzip, z", {"codec in (gzip, zstd"}),
        ("latency ", {f"latency {each}" for each in ("and", "or", "in", "==", "!=", "<", "<=", ">", ">=")}),
        ("topic == ", set()),
        ("topc == ", set()),
        ('topic == "a', set()),
    ],
)
def test_what_may_come_next_is_completed(begun: str, following: set[str]) -> None:
    assert {*completions(begun)} == following


def test_a_long_begun_filter_completes_and_one_that_is_too_long_does_not() -> None:
    long = 'topic == "' + "a" * (MOST_LETTERS - 20) + '" an'
    assert completions(long) == [long + "d"]
    assert completions("a" * MOST_LETTERS + " and ") == []
