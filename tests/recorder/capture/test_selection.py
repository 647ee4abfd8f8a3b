"""Tests of the settings that choose what is recorded."""

import pytest

from proxy.schema.errors import InvalidValue
from recorder.capture.selection import (
    APIS,
    BODIES,
    PATTERNS,
    SHARE,
    TOPICS,
    MatchWatch,
    Sample,
    Selection,
    SelectionSettings,
)
from recorder.capture.session import RecordSettings
from tests.tables import each_row

NO_TOPIC = "can match no topic, whose names have up to 249 letters, digits, '.', '_' and '-'"


def test_apis_of_0_7_have_names_of_their_own():
    assert APIS.read(["0.7/fetch", "!0.7/Multi*"]) == ("0.7/fetch", "!0.7/Multi*")
    with pytest.raises(InvalidValue, match=r"'0\.7/fetsh', which is no API, but 0\.7/fetch is"):
        APIS.read(["0.7/fetsh"])


def test_apis_are_called_as_in_the_catalog_whatever_their_letters():
    assert APIS.read("produce, *Offset*,!listoffsets,other") == ("produce", "*Offset*", "!listoffsets", "other")
    chosen = Selection(SelectionSettings(apis=("produce", "*offset*", "!ListOffsets"))).apis
    assert [chosen.matches(name) for name in ("Produce", "OffsetCommit", "ListOffsets", "Fetch")] == [
        True,
        True,
        False,
        False,
    ]


@each_row(
    ("kind", "raw", "reason"),
    [
        (APIS, ["Metadta"], "has 'Metadta', which is no API, but Metadata is"),
        (APIS, ["!Fetsch"], "has 'Fetsch', which is no API, but Fetch is"),
        (APIS, ["Xyzzy*"], "has 'Xyzzy*', which is no API: `kafka-wiretap wire list` has them all"),
        (APIS, "Fetch,,Produce", "has '', which is empty"),
        (PATTERNS, "CN=a,OU=b", "has 'OU=b'; elements with commas stand in a list of JSON, [\"CN=a,OU=b\"]"),
        (PATTERNS, "['a', 7]", "has 7, which is no text"),
        (PATTERNS, ["a", ""], "has '', which is empty"),
        (PATTERNS, ["!"], "has '!', which leaves out nothing"),
        (PATTERNS, [7], "has 7, which is no text"),
        (PATTERNS, [7, "a", "!"], "has 7, which is no text, and has '!', which leaves out nothing"),
        (APIS, [7, "Fetch", "Fetsch"], "has 7, which is no text, and has 'Fetsch', which is no API, but Fetch is"),
        (PATTERNS, [], "names nothing"),
        (PATTERNS, 7, "is no list of patterns"),
        (TOPICS, ["a/b", "!c d", "orders-*"], f"has 'a/b', which {NO_TOPIC}, and has '!c d', which {NO_TOPIC}"),
        (BODIES, "whole", 'is neither "full" nor "head" nor a size'),
        (BODIES, -1, 'is neither "full" nor "head" nor a size'),
    ],
)
def test_an_unknown_name_in_a_selection_is_refused_with_the_nearest(kind, raw, reason):
    with pytest.raises(InvalidValue) as error:
        kind.read(raw)
    assert str(error.value) == reason


@each_row(("raw", "most"), [("full", None), ("head", 0), ("4KiB", 4096), (100, 100), ("0", 0), (0, 0)])
def test_bodies_limits_the_stored_bytes_of_a_frame(raw, most):
    value = BODIES.read(raw)
    assert Selection(SelectionSettings(bodies=value)).body_limit == most
    assert BODIES.read(BODIES.written(value)) == value


def test_everything_is_kept_unless_said_otherwise():
    chosen = Selection(RecordSettings())
    assert chosen.selects_everything
    assert chosen.selects("east", "127.0.0.1:9092")


def test_connections_are_chosen_by_cluster_and_listener():
    chosen = Selection(SelectionSettings(clusters=("east",), listeners=("*:91*",)))
    assert chosen.selects_everything
    assert [chosen.selects(*where) for where in (("east", "a:9100"), ("west", "a:9100"), ("east", "a:9092"))] == [
        True,
        False,
        False,
    ]


@pytest.mark.parametrize("spelled", ["[::1]:19092", "::1", "[0:0::1]"])
def test_a_listener_on_ipv6_is_chosen_as_the_log_writes_it_or_without_its_port(spelled):
    assert Selection(SelectionSettings(listeners=(spelled,))).selects("east", "[::1]:19092")
    assert not Selection(SelectionSettings(listeners=("!" + spelled,))).selects("east", "[::1]:19092")


def test_a_minute_of_frames_without_a_match_is_noticed_once():
    watch = MatchWatch(left_out_frames=5)
    found = [watch.frames_without_match(5, 0), watch.frames_without_match(7, 100), watch.frames_without_match(9, 159)]
    assert found == [0, 0, 0]
    assert watch.frames_without_match(9, 160) == 4
    assert watch.frames_without_match(20, 500) == 0


def test_a_match_begins_the_minute_again():
    watch = MatchWatch()
    assert watch.frames_without_match(1, 0) == 0
    watch.matched += 1
    assert [watch.frames_without_match(left_out, at) for left_out, at in ((2, 60), (3, 61), (4, 120))] == [0, 0, 0]
    assert watch.frames_without_match(5, 121) == 3


CLIENTS = [(f"10.0.{number // 256}.{number % 256}", f"app-{number % 7}") for number in range(4000)]


@pytest.mark.parametrize("share", [0.01, 0.3, 0.9])
def test_about_a_share_of_the_clients_is_taken_and_always_the_same(share):
    sample, again = (Sample(SelectionSettings(share=share)) for _ in range(2))
    taken = [client for client in CLIENTS if sample.takes_client(*client)]
    assert abs(len(taken) / len(CLIENTS) - share) < 0.05
    assert taken == [client for client in CLIENTS if again.takes_client(*client)]
    other = Sample(SelectionSettings(share=share, seed=1))
    assert taken != [client for client in CLIENTS if other.takes_client(*client)]


def test_a_larger_share_has_the_clients_of_a_smaller_one():
    small, large = (Sample(SelectionSettings(share=share)) for share in (0.1, 0.4))
    assert all(large.takes_client(*client) for client in CLIENTS if small.takes_client(*client))


def test_a_share_of_an_apis_exchanges_leaves_other_apis_alone():
    sample = Sample(SelectionSettings(shares={"Fetch": 0.25}))
    assert sample.takes_all_clients
    assert all(sample.takes_exchange("Produce", "10.0.0.1:5", number) for number in range(100))
    taken = sum(sample.takes_exchange("Fetch", "10.0.0.1:5", number) for number in range(4000))
    assert abs(taken / 4000 - 0.25) < 0.05


@pytest.mark.parametrize("wrong", [0, -0.5, 1.5, "a tenth", True])
def test_a_share_is_above_0_and_at_most_1(wrong):
    with pytest.raises(InvalidValue, match="is no share"):
        SHARE.read(wrong)
