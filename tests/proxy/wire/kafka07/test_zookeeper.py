"""Tests of ZooKeeper's paths and values, the producer's pool, and the division among consumers."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.wire.errors import Malformed
from proxy.wire.kafka07.zookeeper import (
    BrokerPartition,
    Order,
    Registration,
    broker_partition,
    broker_path,
    consumer_ids_path,
    consumer_path,
    consumer_split,
    consumer_watches,
    offset_path,
    owner_path,
    parents,
    partition_count,
    producer_pool,
    producer_watches,
    registration,
    topic_broker_path,
    topic_path,
)
from tests.tables import each_row

NAMES = st.text(st.characters(exclude_characters=":", exclude_categories=["Cs"]), min_size=1, max_size=12)
IDS = st.integers(0, 2**31 - 1)
PLACES = st.lists(st.builds(BrokerPartition, st.integers(0, 30), st.integers(0, 30)), unique=True, max_size=60)
CONSUMERS = st.lists(NAMES, unique=True, min_size=1, max_size=12)


def places(*names: str) -> tuple[BrokerPartition, ...]:
    return tuple(broker_partition(name) for name in names)


def test_paths_are_the_pages() -> None:
    place = BrokerPartition(2, 7)
    assert broker_path(2) == "/brokers/ids/2"
    assert topic_path("clicks") == "/brokers/topics/clicks"
    assert topic_broker_path("clicks", 2) == "/brokers/topics/clicks/2"
    assert consumer_ids_path("readers") == "/consumers/readers/ids"
    assert consumer_path("readers", "readers_a-1") == "/consumers/readers/ids/readers_a-1"
    assert owner_path("readers", "clicks", place) == "/consumers/readers/owners/clicks/2-7"
    assert offset_path("readers", "clicks", place) == "/consumers/readers/offsets/clicks/2-7"


def test_the_skeleton_above_a_node_is_made_from_the_top() -> None:
    assert parents("/consumers/readers/offsets/clicks/2-7") == (
        "/consumers",
        "/consumers/readers",
        "/consumers/readers/offsets",
        "/consumers/readers/offsets/clicks",
    )
    assert parents("/consumers") == ()


def test_a_registration_is_split_at_its_colons() -> None:
    assert registration("10.0.0.5-1321825000123:10.0.0.5:9092") == Registration(
        "10.0.0.5-1321825000123", "10.0.0.5", 9092
    )


def test_the_host_is_the_second_element_even_where_a_fourth_follows() -> None:
    assert registration("creator:kafka1:9092:more") == Registration("creator", "kafka1", 9092)


def test_a_proxy_takes_the_brokers_place() -> None:
    told = registration("kafka1-1321825000123:kafka1:9092")
    assert str(replace(told, host="proxy", port=19092)) == "kafka1-1321825000123:proxy:19092"


@given(NAMES, NAMES, st.integers(1, 65535))
def test_registrations_are_read_as_written(creator: str, host: str, port: int) -> None:
    told = Registration(creator, host, port)
    assert registration(str(told)) == told


@each_row(
    "text",
    ["", "kafka1:9092", "c::9092", "c:kafka1:", "c:kafka1:0", "c:kafka1:65536", "c:kafka1:-1", "c:h:9 ", "c:h:²"],
)
def test_a_bad_registration_is_malformed(text: str) -> None:
    with pytest.raises(Malformed, match="/brokers/ids"):
        registration(text)


@pytest.mark.parametrize("told", [Registration("c:d", "h", 1), Registration("c", "::1", 1)])
def test_a_colon_that_readers_would_split_at_is_not_written(told: Registration) -> None:
    with pytest.raises(Malformed, match="colon"):
        str(told)


@given(IDS, IDS)
def test_broker_partitions_are_read_as_written(broker: int, partition: int) -> None:
    place = BrokerPartition(broker, partition)
    assert str(place) == f"{broker}-{partition}"
    assert broker_partition(str(place)) == place


@given(st.text(max_size=12))
def test_any_text_is_a_broker_partition_or_malformed(text: str) -> None:
    try:
        place = broker_partition(text)
    except Malformed:
        return
    assert [int(part) for part in text.split("-")] == list(place)


def test_a_number_of_partitions_is_read() -> None:
    assert partition_count("4") == 4
    for text in ("", "four", "-1", "2147483648", "1" * 5000):
        with pytest.raises(Malformed, match="/brokers/topics"):
            partition_count(text)


def test_a_producer_watches_the_topics_brokers_and_the_brokers_addresses() -> None:
    assert set(producer_watches("clicks")) == {"/brokers/topics/clicks", "/brokers/ids"}


def test_a_consumer_watches_its_group_too() -> None:
    assert set(consumer_watches("readers", "clicks")) == {
        "/consumers/readers/ids",
        "/brokers/ids",
        "/brokers/topics",
        "/brokers/topics/clicks",
    }


def test_the_pool_is_every_broker_with_every_partition() -> None:
    assert producer_pool([1, 0], {0: 2, 1: 3}) == places("0-0", "0-1", "1-0", "1-1", "1-2")


def test_a_new_topic_is_sent_to_partition_0_of_every_broker() -> None:
    assert producer_pool([7, 3, 11], {}) == places("3-0", "7-0", "11-0")


def test_a_broker_that_does_not_know_the_topic_yet_is_sent_to_at_partition_0() -> None:
    assert producer_pool([0, 1], {0: 2}) == places("0-0", "0-1", "1-0")


def test_a_broker_without_an_address_is_left_out() -> None:
    assert producer_pool([0], {0: 1, 9: 4}) == places("0-0")


@given(st.sets(st.integers(0, 50), max_size=8), st.dictionaries(st.integers(0, 50), st.integers(0, 9), max_size=8))
def test_the_pool_is_sorted_and_has_nothing_twice(brokers: set[int], partitions: dict[int, int]) -> None:
    pool = producer_pool(brokers, partitions)
    assert list(pool) == sorted(set(pool))
    assert {place.broker for place in pool} <= brokers
    assert brokers - {place.broker for place in pool} == {one for one in brokers if partitions.get(one) == 0}


def test_the_pages_example_of_a_split() -> None:
    pool = producer_pool([0, 1], {0: 3, 1: 3})
    assert consumer_split(reversed(pool), ["C", "A", "B"]) == {
        "A": places("0-0", "0-1"),
        "B": places("0-2", "1-0"),
        "C": places("1-1", "1-2"),
    }


@each_row(
    ("count", "sizes"),
    [(16, [4, 4, 4, 4]), (17, [5, 4, 4, 4]), (18, [5, 5, 4, 4]), (19, [5, 5, 5, 4]), (3, [1, 1, 1, 0]), (0, [0] * 4)],
)
def test_the_earlier_consumers_take_the_extra_partitions(count: int, sizes: list[int]) -> None:
    split = consumer_split([BrokerPartition(0, n) for n in range(count)], "ABCD")
    assert [len(split[consumer]) for consumer in "ABCD"] == sizes


@given(PLACES, CONSUMERS, st.sampled_from(Order))
def test_every_partition_has_one_consumer_and_chunks_are_even(
    known: list[BrokerPartition], consumers: list[str], order: Order
) -> None:
    split = consumer_split(known, consumers, order)
    assert list(split) == sorted(consumers)
    chunks = list(split.values())
    dealt = [place for chunk in chunks for place in chunk]
    assert dealt == sorted(known, key=str if order is Order.TEXT else None)
    sizes = [len(chunk) for chunk in chunks]
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[0] - sizes[-1] <= 1


def test_brods_order_and_that_of_0_7s_own_consumer_differ_from_ten_on() -> None:
    known = places(*(f"0-{n}" for n in range(12)))
    assert consumer_split(known, ["A"])["A"] == known
    assert consumer_split(known, ["A"], Order.TEXT)["A"] == places(
        "0-0", "0-1", "0-10", "0-11", "0-2", "0-3", "0-4", "0-5", "0-6", "0-7", "0-8", "0-9"
    )


def test_no_partition_is_assigned_without_consumers() -> None:
    assert consumer_split(places("0-0"), []) == {}
