"""Tests of remembering responses by what alike ones have in common."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.mapping.nodes import Node
from proxy.rewrite.addresses import naming_none, nodes_in
from proxy.wire import catalog
from proxy.wire.alike import LARGEST, MOST_FORMS, MOST_SIZES, AlikeResponses
from proxy.wire.keys import FETCH, HEARTBEAT, METADATA, PRODUCE
from tests.proxy.rewrite.responses import CARRYING, node_lists, response, values
from tests.proxy.wire.probing import randoms
from tests.strategies import must_codec, values_of

# few random values fall into one form, so damage is tried often
TRIES = 40


def produced(*topics: str, offset: int = 0, leader: int | None = None, correlation_id: int = 1) -> bytes:
    """A Produce 12 response, without its length: a partition of each topic, perhaps with its new leader."""
    partition: dict[str, object] = {"index": 3, "base_offset": offset}
    if leader is not None:
        partition["current_leader"] = {"leader_id": leader, "leader_epoch": 1}
    body = {"responses": [{"name": name, "partition_responses": [partition]} for name in topics]}
    return catalog.encode_response(PRODUCE, 12, correlation_id, body)


def remembering(*frames: bytes) -> AlikeResponses:
    alike = AlikeResponses(must_codec("response", PRODUCE, 12))
    for frame in frames:
        alike.note(frame)
    return alike


def test_a_response_is_known_by_one_with_another_offset_and_a_name_of_the_same_length() -> None:
    alike = remembering(produced("one", "two"))
    assert alike.knows(produced("one", "two", offset=1 << 50, correlation_id=-5))
    assert alike.knows(produced("six", "ten", offset=-1))


def test_it_is_not_known_with_a_longer_name_another_count_or_a_tagged_field() -> None:
    alike = remembering(produced("one", "two"))
    assert not alike.knows(produced("one", "four"))
    assert not alike.knows(produced("one"))
    assert not alike.knows(produced("one", "two", leader=1))
    # as long as the two together
    assert not alike.knows(produced("on", "four"))


def test_tagged_fields_must_be_equal() -> None:
    alike = remembering(produced("one", leader=1))
    assert alike.knows(produced("one", offset=9, leader=1))
    assert not alike.knows(produced("one", offset=9, leader=2))


def test_a_field_that_is_asked_for_must_be_equal() -> None:
    alike = AlikeResponses(must_codec("response", PRODUCE, 12), lambda name: name == "base_offset")
    alike.note(produced("one", offset=4))
    assert alike.knows(produced("two", offset=4))
    assert not alike.knows(produced("two", offset=5))


def test_a_bounded_number_of_sizes_and_forms_is_remembered() -> None:
    frames = [produced("a" * size) for size in range(MOST_SIZES + 1)]
    alike = remembering()
    for frame in frames:
        alike.note(frame)
        # what comes again earns what learning costs
        assert all(alike.knows(frames[0]) for _ in range(20))
    assert sum(map(alike.knows, frames)) == MOST_SIZES
    forms = [produced("b" * size, "c" * (40 - size)) for size in range(MOST_FORMS + 1)]
    alike = remembering(*forms)
    assert [alike.knows(form) for form in forms] == [False, *[True] * MOST_FORMS]


def test_what_comes_again_is_not_forgotten_for_what_does_not() -> None:
    alike = remembering(hot := produced("hot"))
    for size in range(4 * MOST_SIZES):
        assert all(alike.knows(hot) for _ in range(20))
        alike.note(produced("a" * (100 + size)))
    assert alike.knows(hot)


def test_frames_that_never_come_again_are_not_learnt_for_long() -> None:
    alike, learnt = remembering(), 0
    frames = [produced("a" * (number % 200), "b" * (number // 200)) for number in range(2000)]
    for frame in frames:
        if not alike.knows(frame):
            alike.note(frame)
            learnt += alike.knows(frame)
    assert 0 < learnt < 40
    # but some are tried again, in case the traffic has changed
    for number in range(20_000):
        alike.knows(produced("c" * 300, str(number)))
    alike.note(frame := produced("c"))
    assert alike.knows(frame)


def test_large_frames_are_not_remembered() -> None:
    large = produced("a" * LARGEST)
    alike = remembering(large)
    assert not alike.knows(large)


def test_a_frame_that_cannot_be_read_is_not_remembered() -> None:
    cut = produced("one")[:-9]
    assert not remembering(cut).knows(cut)


@pytest.mark.parametrize(
    ("key", "version"), [(METADATA, 12), (HEARTBEAT, 4), (PRODUCE, 9), (FETCH, 12), (FETCH, 99), (-1, 0)]
)
def test_only_responses_with_addresses_in_a_tagged_field_are_remembered_for_naming_none(key: int, version: int) -> None:
    assert naming_none(key, version) is None
    assert naming_none(key, None) is None


TAGGED = [case for case in CARRYING if naming_none(*case) is not None]


@given(st.sampled_from(TAGGED), node_lists, randoms, st.booleans())
def test_whatever_is_known_to_name_no_node_names_none(
    case: tuple[int, int], nodes: list[Node], random: Random, is_plain: bool
) -> None:
    codec = must_codec("response", *case)
    alike = AlikeResponses(codec)
    plain = values_of(codec, random.random(), tame=True) | {"node_endpoints": []} if is_plain else values(*case, [])
    frame = response(*case, plain)
    if not nodes_in(*case, frame):
        alike.note(frame)
    assert not (nodes and alike.knows(response(*case, values(*case, nodes))))
    for _ in range(TRIES):
        changed = bytearray(frame)
        for _ in range(random.randint(1, 3)):
            changed[random.randrange(len(frame))] = random.choice([0, 1, 2, 3, 255, random.randrange(256)])
        if alike.knows(bytes(changed)):
            assert nodes_in(*case, bytes(changed)) == ()
