"""Tests of the broker's APIs and versions as clients are told them."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.rewrite.api_versions import newest_known, passable, reduce, unsupported
from proxy.wire import apis
from proxy.wire.errors import WireError
from proxy.wire.primitives import uvarint
from tests.proxy.rewrite.responses import CORRELATION_ID, read, response
from tests.tables import each_row

VERSIONS = list(apis.versions(18))
Offers = list[tuple[int, int, int]]


def answer(version: int, offers: Offers, **more: Any) -> bytes:
    keys = [{"api_key": key, "min_version": low, "max_version": high} for key, low, high in offers]
    return response(18, version, {"api_keys": keys} | more)


def offers_in(version: int, framed: bytes) -> Offers:
    assert int.from_bytes(framed[:4], "big") == len(framed) - 4
    keys = read(18, version, framed[4:])["api_keys"]
    return [(key["api_key"], key["min_version"], key["max_version"]) for key in keys]


@each_row("version", VERSIONS)
@each_row(
    ("offered", "told"),
    [
        ((3, 0, 13), (3, 0, 13)),  # a rewrite exists for every version
        ((3, 0, 99), (3, 0, 13)),
        ((1, 0, 99), (1, 0, 18)),  # Fetch: versions below 4 carry no address, whoever can decode them
        ((0, 0, 13), (0, 0, 13)),  # Produce: KAFKA-18659
        ((0, 3, 99), (0, 3, 13)),
        ((10, 0, 7), (10, 0, 6)),
        ((18, 0, 99), (18, 0, 5)),
        ((8, 2, 99), (8, 2, 10)),  # no address in any version, but the next one might
        ((2, 5, 5), (2, 5, 5)),
        ((3, 14, 15), None),  # nothing left
        ((9_999, 0, 1), None),  # Kafka's own, unknown
        ((-1, 0, 1), None),
        ((10_000, 3, 9), (10_000, 3, 9)),  # a vendor's
        ((52, 0, 2), (52, 0, 0)),  # Vote: from version 1 on controllers name each other
        ((82, 0, 0), None),  # UpdateRaftVoter: in every version
        ((7, 5, 3), None),  # no versions at all
    ],
)
def test_the_proxys_offer_is_what_the_broker_offers_within_its_limits(
    version: int, offered: tuple[int, int, int], told: tuple[int, int, int] | None
) -> None:
    first, last = (12, 0, 4), (19, 2, 7)
    reduced = reduce(version, answer(version, [first, offered, last]))
    assert offers_in(version, reduced) == [first, *([told] if told else []), last]


@each_row("version", VERSIONS)
def test_hide_unknown_hides_apis_that_can_not_be_decoded(version: int) -> None:
    kept, vendors = [(12, 0, 4), (0, 0, 13)], [(10_000, 3, 9), (32_767, 0, 0)]
    frame = answer(version, [vendors[0], *kept, vendors[1]])
    assert offers_in(version, reduce(version, frame, hide_unknown=True)) == kept
    assert offers_in(version, reduce(version, frame)) == [vendors[0], *kept, vendors[1]]


def test_each_api_and_version_that_is_not_hidden_can_be_decoded() -> None:
    everything = [(key, 0, 99) for key in (*range(-5, 200), 9_999, 10_000, 10_001, 32_767)]
    offered = offers_in(0, reduce(0, answer(0, everything), hide_unknown=True))
    assert all(apis.known(key, version) for key, low, high in offered for version in range(low, high + 1))
    assert {key for key, _, _ in offered} == {*apis.api_keys()} - {82}


def test_every_version_that_the_catalog_holds_is_passed_on_unless_controllers_alone_speak_it() -> None:
    cut = {key for key in apis.api_keys() if passable(key, apis.versions(key)) != apis.versions(key)}
    assert cut == {52, 53, 54, 59, 82}


def test_no_version_with_an_address_is_passed_on_beyond_its_rewrite() -> None:
    for key in (0, 1, 3, 10, 60, 78, 79):
        assert passable(key, range(1000))[-1] == apis.versions(key)[-1]


@each_row("version", VERSIONS)
def test_an_answer_that_needs_no_change_keeps_every_byte(version: int) -> None:
    frame = answer(version, [(key, *ends(apis.versions(key))) for key in (0, 1, 3, 18)], throttle_time_ms=7)
    assert reduce(version, frame) == len(frame).to_bytes(4, "big") + frame


def ends(versions: range) -> tuple[int, int]:
    return versions[0], versions[-1]


@each_row("version", VERSIONS)
def test_an_answer_without_apis_stays_as_it_is(version: int) -> None:
    frame = answer(version, [], error_code=42)
    assert reduce(version, frame) == len(frame).to_bytes(4, "big") + frame


@each_row("asked", [*VERSIONS, newest_known() + 1, 32767])
def test_an_answer_with_error_35_has_the_body_of_version_0_whatever_was_asked(asked: int) -> None:
    refused = answer(0, [(18, 0, 99)], error_code=35)
    reduced = reduce(asked, refused)
    assert offers_in(0, reduced) == [(18, 0, newest_known())]
    assert read(18, 0, reduced[4:])["error_code"] == 35
    empty = answer(0, [], error_code=35)
    assert reduce(asked, empty)[4:] == empty


@each_row("asked", VERSIONS)
def test_an_answer_with_error_35_in_a_form_of_the_brokers_own_passes_as_it_is(asked: int) -> None:
    # librdkafka's mock cluster: a compact array's count without the one more, and a throttle time
    frame = bytes.fromhex("0000004d 0023 01 0012 0000 0002 00000000")
    assert reduce(asked, frame) == len(frame).to_bytes(4, "big") + frame


def test_all_bytes_around_the_versions_are_the_brokers() -> None:
    tag = b"\x01\x89\x01\x02zz"  # one unknown tagged field, its number longer than needed
    kept, gone, cut = (pack(1, 4, 18) + tag, pack(300, 0, 1) + tag, pack(3, 0, 14) + tag)
    after = bytes.fromhex("00000007") + b"\x03" + b"\x01\x08" + bytes(8) + b"\x05\x02zz" + b"\x00\x01\x01"
    head = CORRELATION_ID.to_bytes(4, "big") + bytes(2)
    frame = head + uvarint(4, 3) + kept + gone + cut + after
    expected = head + uvarint(3) + kept + pack(3, 0, 13) + tag + after
    assert reduce(3, frame) == len(expected).to_bytes(4, "big") + expected


def pack(key: int, low: int, high: int) -> bytes:
    return b"".join(number.to_bytes(2, "big", signed=True) for number in (key, low, high))


offer_lists = st.lists(
    st.tuples(st.integers(-1, 120) | st.integers(9_990, 10_010), st.integers(0, 30), st.integers(-1, 40)), max_size=40
)


@given(st.sampled_from(VERSIONS), offer_lists, st.binary(max_size=20))
def test_the_reduced_answer_has_the_offered_versions_that_can_be_passed_on(
    version: int, offers: Offers, tag: bytes
) -> None:
    more = {"_tags": {77: tag}, "finalized_features_epoch": 5} if version >= 3 else {}
    frame = answer(version, offers, throttle_time_ms=9, **more)
    reduced = reduce(version, frame)
    allowed = [(key, passable(key, range(low, high + 1))) for key, low, high in offers]
    assert offers_in(version, reduced) == [(key, *ends(versions)) for key, versions in allowed if versions]
    assert read(18, version, reduced[4:]) | {"api_keys": 0} == read(18, version, frame) | {"api_keys": 0}


@each_row("version", VERSIONS)
def test_an_answer_that_ends_early_is_an_error(version: int) -> None:
    frame = answer(version, [(1, 4, 18), (3, 0, 14)])
    behind = {0: 0, 1: 4, 2: 4}.get(version, 5)  # the throttle time, and the body's tag buffer, which needn't be read
    for size in range(len(frame) - behind):
        with pytest.raises(WireError):
            reduce(version, frame[:size])


def test_an_answer_to_a_request_that_should_not_have_been_passed_on_is_an_error() -> None:
    with pytest.raises(WireError, match="newer than the proxy"):
        reduce(newest_known() + 1, answer(3, [(1, 4, 18)]))


def test_the_proxys_own_refusal_names_the_versions_to_ask_for() -> None:
    framed = unsupported(-7)
    assert framed == bytes.fromhex("00000010 fffffff9 0023 00000001 0012 0000 0005")
    assert newest_known() == 5
