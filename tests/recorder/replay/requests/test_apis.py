"""Tests of which requests are sent, which are not, and the reasons."""

from __future__ import annotations

from typing import Any

import pytest

from proxy import wire
from proxy.wire.keys import (
    ADD_PARTITIONS_TO_TXN,
    ALTER_CONFIGS,
    API_VERSIONS,
    CREATE_TOPICS,
    DELETE_TOPICS,
    FETCH,
    FIND_COORDINATOR,
    HEARTBEAT,
    JOIN_GROUP,
    LIST_OFFSETS,
    METADATA,
    OFFSET_COMMIT,
    OFFSET_FOR_LEADER_EPOCH,
    PRODUCE,
    PUSH_TELEMETRY,
    SASL_AUTHENTICATE,
    SHARE_FETCH,
    VOTE,
)
from proxy.wire.long_polls import LONG_POLLS
from recorder.replay.options import Deletes, Options
from recorder.replay.plan import Exchange, Origin, Peer, Reason, Values
from recorder.replay.requests import apis
from recorder.replay.requests.apis import Treatment, refusal, refusal_of_values, treatment
from tests.tables import each_row

UNKNOWN_ID, INTERNAL_ID = b"u" * 16, b"i" * 16


def asked(api_key: int, version: int = 0) -> Exchange:
    return Exchange(Origin("s", 1, 1), api_key, version, b"", 0, 0, Peer("h", None))


def is_kafkas(topic: str | bytes) -> bool:
    return topic in (INTERNAL_ID, "__transaction_state")


def of_values(api_key: int, version: int, **values: Any) -> Reason | None:
    """Returns the refusal of a request that was on the wire."""
    frame = wire.encode_request(api_key, version, 1, None, values)
    decoded = wire.decode_request(frame)
    assert isinstance(decoded, tuple)
    return refusal_of_values(asked(api_key, version), decoded[1], is_kafkas)


def test_every_api_of_the_catalog_has_one_row() -> None:
    assert apis.ROWS.keys() == set(wire.api_keys())
    assert len(apis.TABLE.strip().splitlines()) == len(apis.ROWS)


def test_an_api_that_is_never_sent_goes_nowhere_and_has_no_traits() -> None:
    rows = {line.split()[0]: line.split()[1:] for line in apis.TABLE.strip().splitlines()}
    unsent = {name for name, row in rows.items() if row[0] in (Treatment.NEVER, Treatment.OWN)}
    assert unsent == {name for name, row in rows.items() if len(row) == 1}


@each_row("trait", apis.Trait)
def test_each_trait_is_that_of_an_api_and_not_of_all(trait: apis.Trait) -> None:
    sent = {key for key, row in apis.ROWS.items() if row.treatment not in (Treatment.NEVER, Treatment.OWN)}
    assert set() < apis.those(trait) < sent


def test_members_of_groups_join_leave_and_heartbeat_in_their_group() -> None:
    assert {JOIN_GROUP} | apis.HEARTBEATS == apis.JOINING
    assert apis.JOINING < apis.MEMBERSHIP < apis.GROUP_APIS
    assert apis.JOINING < apis.OPENING
    assert {*apis.CLASSIC, *apis.HEARTBEATS} < apis.GROUP_APIS
    assert {apis.destination(key) for key in apis.GROUP_APIS | apis.DESCRIBES_GROUPS} == {apis.Destination.GROUP}


def test_what_repeats_and_does_not_read_is_a_commit_a_heartbeat_or_a_share_fetch() -> None:
    """A ShareFetch's records were released with its connection."""
    assert {OFFSET_COMMIT, HEARTBEAT, SHARE_FETCH} == apis.REPEATABLE - apis.READ_ONLY


def test_read_only_apis_change_nothing() -> None:
    assert {treatment(key) for key in apis.READ_ONLY} == {Treatment.SENT}
    assert apis.READ_ONLY.isdisjoint(apis.MEMBERSHIP | {PRODUCE})


def test_long_polls_that_wait_for_records_are_among_the_wires() -> None:
    assert {*LONG_POLLS} - apis.MEMBERSHIP == apis.LONG_POLLS


@pytest.mark.parametrize("api_key", [VOTE, 95, 3000, -1], ids=["brokers", "new", "vendor", "negative"])
def test_brokers_and_unknown_apis_are_never_sent(api_key: int) -> None:
    everything = Options(admin=True, deletes=Deletes.ALL, telemetry=True)
    assert refusal(asked(api_key), everything) is Reason.NEVER


def test_add_partitions_to_txn_is_the_brokers_own_from_version_4() -> None:
    assert refusal(asked(ADD_PARTITIONS_TO_TXN, 3), Options()) is None
    assert refusal(asked(ADD_PARTITIONS_TO_TXN, 4), Options()) is Reason.NEVER


def test_an_unknown_version_can_not_be_read() -> None:
    assert refusal(asked(METADATA, 99), Options()) is Reason.OPAQUE


@pytest.mark.parametrize(
    ("api_key", "options", "reason"),
    [
        (ALTER_CONFIGS, Options(admin=True), Reason.NEEDS_ADMIN),
        (CREATE_TOPICS, Options(admin=True), Reason.NEEDS_ADMIN),
        (DELETE_TOPICS, Options(deletes=Deletes.OWN), Reason.NEEDS_DELETES),
        (PUSH_TELEMETRY, Options(telemetry=True), Reason.NEEDS_TELEMETRY),
    ],
    ids=["configs", "topics", "deletes", "telemetry"],
)
def test_requests_that_change_the_cluster_are_sent_only_with_their_option(
    api_key: int, options: Options, reason: Reason
) -> None:
    assert refusal(asked(api_key), Options()) is reason
    assert refusal(asked(api_key), options) is None


def test_read_only_leaves_what_reads_and_produce_only_what_produces() -> None:
    assert refusal(asked(PRODUCE), Options(read_only=True)) is Reason.READ_ONLY
    assert refusal(asked(JOIN_GROUP), Options(read_only=True)) is Reason.READ_ONLY
    assert refusal(asked(FETCH), Options(read_only=True)) is None
    assert refusal(asked(FETCH), Options(produce_only=True)) is Reason.PRODUCE_ONLY
    assert refusal(asked(PRODUCE), Options(produce_only=True)) is None


def test_only_leaves_out_what_its_patterns_dont_name() -> None:
    assert refusal(asked(FETCH), Options(only=("prod*",))) is Reason.NOT_CHOSEN
    assert refusal(asked(PRODUCE), Options(only=("prod*",))) is None


@pytest.mark.parametrize("api_key", [API_VERSIONS, SASL_AUTHENTICATE])
def test_logins_and_api_versions_are_made_by_the_replay_whatever_is_chosen(api_key: int) -> None:
    assert refusal(asked(api_key), Options(only=("produce",), read_only=True)) is None
    assert treatment(api_key) is Treatment.OWN


def test_only_brokers_look_up_the_coordinator_of_share_state() -> None:
    assert of_values(FIND_COORDINATOR, 6, key_type=2, coordinator_keys=["g:i:0"]) is Reason.NEVER
    assert of_values(FIND_COORDINATOR, 6, key_type=0, coordinator_keys=["g"]) is None
    assert of_values(FIND_COORDINATOR, 0, key="g") is None


@pytest.mark.parametrize(
    ("api_key", "version", "followers", "consumers"),
    [
        (FETCH, 4, {"replica_id": 2}, {"replica_id": -1}),
        (FETCH, 15, {"replica_state": {"replica_id": 2}}, {}),
        (LIST_OFFSETS, 1, {"replica_id": 0}, {"replica_id": -2}),
        (OFFSET_FOR_LEADER_EPOCH, 3, {"replica_id": 1}, {"replica_id": -1}),
    ],
    ids=["fetch", "fetch-15", "offsets", "epochs"],
)
def test_replicas_requests_are_never_sent(api_key: int, version: int, followers: Values, consumers: Values) -> None:
    assert of_values(api_key, version, **followers) is Reason.NEVER
    assert of_values(api_key, version, **consumers) is None


def test_no_transaction_marks_kafkas_own_topics() -> None:
    def adds(name: str) -> Reason | None:
        return of_values(ADD_PARTITIONS_TO_TXN, 3, v3_and_below_topics=[{"name": name, "partitions": [0]}])

    assert adds("__transaction_state") is Reason.NEVER
    assert adds("__debezium-heartbeat.db") is None


def test_nothing_is_produced_to_kafkas_own_topics() -> None:
    def produce(version: int, **named: Any) -> Reason | None:
        return of_values(PRODUCE, version, topic_data=[{"name": "orders"} if version < 13 else {}, named])

    assert produce(9, name="__transaction_state") is Reason.NEVER
    assert produce(9, name="__debezium-heartbeat.db") is None
    assert produce(13, topic_id=INTERNAL_ID) is Reason.NEVER
    assert produce(13, topic_id=UNKNOWN_ID) is None
