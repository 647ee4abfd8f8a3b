"""Tests that the catalog agrees with Kafka's own definitions: an alarm for the day on which they differ.

Four releases of `kafka-clients` are compared: the last one with ZooKeeper's apis and the old minimum versions, the last
one with the early-access share groups, the one that the brokers of these tests run, and the newest one on Maven Central
when this was written. Together they have every version of the catalog. The news of a still newer release are warnings
of the run, by name: they are no failure.
"""

import subprocess
import warnings
from collections.abc import Iterator
from copy import deepcopy
from functools import cache
from pathlib import Path

import pytest

from proxy.wire import apis, catalog
from proxy.wire.apis import MessageKind
from proxy.wire.language import Field, Message
from proxy.wire.releases import releases, versions_in
from tests.brokers.jars import clients_jar, copy_clients
from tests.proxy.wire.kafka_definitions import (
    Definition,
    OnTheWire,
    api_name,
    definitions,
    ours,
    theirs,
    version_range,
    walk,
)
from tests.strategies import EVERY_MESSAGE, KINDS

pytestmark = pytest.mark.real

LAST_WITH_ZOOKEEPER, LAST_EARLY_SHARE_GROUPS, BROKERS, NEWEST = "3.9.2", "4.0.2", "4.3.1", "4.4.0"
RELEASES = (LAST_WITH_ZOOKEEPER, LAST_EARLY_SHARE_GROUPS, BROKERS, NEWEST)
every_release = pytest.mark.parametrize("release", RELEASES)

# Changed between 4.0 and 4.1 without a new version, while share groups were early access. The catalog has the layout
# of 4.1 on, with leader_epoch: the only one that a release for production use ever sent.
ANOTHER_LAYOUT = {
    ("ReadShareGroupStateSummaryResponse", 0, LAST_WITH_ZOOKEEPER),
    ("ReadShareGroupStateSummaryResponse", 0, LAST_EARLY_SHARE_GROUPS),
}

# Kafka's entity types -> the marks of the message language.
ENTITIES = {
    "brokerId": "node_id",
    "topicName": "topic_name",
    "groupId": "group_id",
    "producerId": "producer_id",
    "transactionalId": "transactional_id",
}
# Fields that Kafka's definitions leave unmarked, though an equal or neighbouring field has the entity type.
ALSO_MARKED = {
    # the controller's id of the replica, as in DescribeQuorum and Vote
    ("AddRaftVoterRequest", "voter_id"): "node_id",
    ("RemoveRaftVoterRequest", "voter_id"): "node_id",
    ("UpdateRaftVoterRequest", "voter_id"): "node_id",
    # the node that the client wants to reach
    ("ApiVersionsRequest", "node_id"): "node_id",
    # as in Fetch and Produce
    ("ShareFetchResponse", "responses.partitions.current_leader.leader_id"): "node_id",
    ("ShareAcknowledgeResponse", "responses.partitions.current_leader.leader_id"): "node_id",
    # as in all other requests about share groups
    ("InitializeShareGroupStateRequest", "group_id"): "group_id",
    ("ReadShareGroupStateRequest", "group_id"): "group_id",
    ("WriteShareGroupStateRequest", "group_id"): "group_id",
    ("DeleteShareGroupStateRequest", "group_id"): "group_id",
    ("ReadShareGroupStateSummaryRequest", "group_id"): "group_id",
}

# What a capture must not keep. Kafka hides logins, hashes of passwords and tokens in its own logs (the toString of
# SaslAuthenticateRequest, AlterUserScramCredentialsRequest, RenewDelegationTokenRequest and their like), and of
# settings those that are passwords or of no known type. An envelope carries any other request, a snapshot of the
# metadata log everybody's credentials. What a broker says of a request with secrets may quote them.
SECRETS = {
    ("SaslAuthenticateRequest", "auth_bytes"): "secret",
    ("SaslAuthenticateResponse", "auth_bytes"): "secret",
    ("SaslAuthenticateResponse", "error_message"): "secret",
    ("AlterUserScramCredentialsRequest", "upsertions.salt"): "secret",
    ("AlterUserScramCredentialsRequest", "upsertions.salted_password"): "secret",
    ("AlterUserScramCredentialsResponse", "results.error_message"): "secret",
    ("RenewDelegationTokenRequest", "hmac"): "secret",
    ("ExpireDelegationTokenRequest", "hmac"): "secret",
    ("CreateDelegationTokenResponse", "hmac"): "secret",
    ("CreateDelegationTokenResponse", "token_id"): "secret",
    ("DescribeDelegationTokenResponse", "tokens.hmac"): "secret",
    ("DescribeDelegationTokenResponse", "tokens.token_id"): "secret",
    ("EnvelopeRequest", "request_data"): "secret",
    ("EnvelopeResponse", "response_data"): "secret",
    ("FetchSnapshotResponse", "topics.partitions.unaligned_records"): "secret",
    ("AlterConfigsRequest", "resources.configs.value"): "sensitive",
    ("AlterConfigsResponse", "responses.error_message"): "secret",
    ("IncrementalAlterConfigsRequest", "resources.configs.value"): "sensitive",
    ("IncrementalAlterConfigsResponse", "responses.error_message"): "secret",
    ("CreateTopicsRequest", "topics.configs.value"): "sensitive",
    ("CreateTopicsResponse", "topics.configs.value"): "sensitive",
    ("CreateTopicsResponse", "topics.error_message"): "secret",
    ("DescribeConfigsResponse", "results.configs.value"): "sensitive",
    ("DescribeConfigsResponse", "results.configs.synonyms.value"): "sensitive",
}

# Fields that tell a broker's client where to connect next.
DIALLED = {
    "ProduceResponse": "node_endpoints",
    "FetchResponse": "node_endpoints",
    "MetadataResponse": "brokers",
    "DescribeClusterResponse": "brokers",
    "ShareFetchResponse": "node_endpoints",
    "ShareAcknowledgeResponse": "node_endpoints",
}


@cache
def definitions_of(release: str) -> dict[tuple[int, MessageKind], Definition]:
    return definitions(clients_jar(release))


def our_message(kind: MessageKind, key: int) -> Message:
    message = apis.message(kind, key)
    assert message is not None, f"the catalog lacks api {key}"
    return message


def every_version(release: str) -> Iterator[tuple[Message, Definition, int]]:
    """Yields each version of each message that the release knows, with ours."""
    for (key, kind), definition in definitions_of(release).items():
        for version in version_range(definition["validVersions"]):
            yield our_message(kind, key), definition, version


@every_release
def test_every_field_of_every_version_is_the_same(release: str) -> None:
    """Compares name, type, order, versions, nullability, tag and default."""
    compared = 0
    for message, definition, version in every_version(release):
        same = ours(message, version) == theirs(definition, version)
        assert same != ((definition["name"], version, release) in ANOTHER_LAYOUT), (definition["name"], version)
        compared += 1
    assert compared > 550


@every_release
def test_versions_are_flexible_from_the_same_on(release: str) -> None:
    for message, definition, _ in every_version(release):
        assert message.flexible == version_range(definition["flexibleVersions"]), definition["name"]


@every_release
def test_apis_have_kafkas_names(release: str) -> None:
    for message, definition, _ in every_version(release):
        assert message.api == api_name(definition)


def test_the_catalog_has_the_versions_of_all_releases_together_and_no_other() -> None:
    kafkas = {
        (message.kind, message.key, version) for release in RELEASES for message, _, version in every_version(release)
    }
    assert kafkas == set(EVERY_MESSAGE)
    assert len({key for _, key, _ in kafkas}) == 95


@every_release
def test_each_releases_versions_are_those_of_its_definitions(release: str) -> None:
    for (key, _), definition in definitions_of(release).items():
        assert versions_in(release, key) == version_range(definition["validVersions"]), definition["name"]
    lacking = set(apis.api_keys()) - {key for key, _ in definitions_of(release)}
    assert not any(versions_in(release, key) for key in lacking)
    assert releases() == RELEASES


def test_the_layout_kept_of_a_share_groups_summary_has_the_leaders_epoch() -> None:
    """`ReadShareGroupStateSummaryResponse` v0 as it is since 4.1."""
    fields = {
        release: [one["name"] for _, one in walk(definitions_of(release)[87, "response"], 0)] for release in RELEASES
    }
    expected = ["Results", "TopicId", "Partitions", "Partition", "ErrorCode", "ErrorMessage", "StateEpoch"]
    assert fields[LAST_EARLY_SHARE_GROUPS] == [*expected, "StartOffset"]
    assert fields[BROKERS] == fields[NEWEST] == [*expected, "LeaderEpoch", "StartOffset"]
    values = {"results": [{"partitions": [{"state_epoch": 1, "leader_epoch": 2, "start_offset": 3}]}]}
    codec = catalog.codec("response", 87, 0)
    assert codec is not None
    numbers = bytes.fromhex("00000001 00000002 0000000000000003")
    assert codec.encode(values) == b"\x02" + bytes(16) + b"\x02" + bytes(4 + 2 + 1) + numbers + bytes(3)


def our_marks() -> dict[tuple[str, str], frozenset[str]]:
    """Returns (message, path) -> marks."""
    found: dict[tuple[str, str], frozenset[str]] = {}
    for key in apis.api_keys():
        for kind in KINDS:
            message = our_message(kind, key)
            found |= {(message.name, path): field.marks for path, field in our_fields(message.fields)}
    return found


def our_fields(fields: tuple[Field, ...], above: str = "") -> Iterator[tuple[str, Field]]:
    for field in fields:
        yield above + field.name, field
        yield from our_fields(field.fields, f"{above}{field.name}.")


def marked_as(marks: frozenset[str]) -> dict[tuple[str, str], str]:
    """Returns the fields that have one of these marks."""
    return {where: mark for where, found in our_marks().items() for mark in found & marks}


def test_marks_are_kafkas_entity_types() -> None:
    kafkas = {
        (message.name, path): ENTITIES[field["entityType"]]
        for release in RELEASES
        for message, definition, version in every_version(release)
        for path, field in walk(definition, version)
        if "entityType" in field
    }
    assert not kafkas.keys() & ALSO_MARKED.keys()
    assert marked_as(frozenset(ENTITIES.values())) == kafkas | ALSO_MARKED


# Kafka's names of fields with the index of a topic's partition, or an array of such indexes. A task of Kafka Streams
# has a partition of its subtopology, and a streams topic a number of partitions.
INDEXES = {"index", "partition", "partition_index", "partition_id", "partitions", "partition_indexes"}
NO_INDEXES = {"active_tasks", "standby_tasks", "warmup_tasks", "task_offsets", "task_end_offsets"}
NO_INDEXES |= {"state_changelog_topics", "repartition_source_topics"}


def test_every_index_of_a_topics_partition_is_marked() -> None:
    kafkas = {
        (message.name, path)
        for release in RELEASES
        for message, definition, version in every_version(release)
        for path, field in walk(definition, version)
        if field["type"] in ("int32", "[]int32")
        and path.rpartition(".")[2] in INDEXES
        and not NO_INDEXES & set(path.split("."))
    }
    assert marked_as(frozenset(["partition"])).keys() == kafkas


def test_a_field_is_ignorable_if_the_newest_release_that_has_it_says_so() -> None:
    """Topics' names became ignorable when ids were added; older releases still say otherwise."""
    kafkas: dict[tuple[str, str, range], bool] = {}
    for release in RELEASES:
        for message, definition, version in every_version(release):
            versions = {path: field.versions for path, field in our_fields(message.fields) if version in field.versions}
            for path, field in walk(definition, version):
                kafkas[message.name, path, versions[path]] = field.get("ignorable", False)
    ours = {
        (our_message(kind, key).name, path, field.versions): "ignorable" in field.marks
        for key in apis.api_keys()
        for kind in KINDS
        for path, field in our_fields(our_message(kind, key).fields)
    }
    assert ours == kafkas


def test_every_uuid_of_a_topic_is_marked() -> None:
    for key in apis.api_keys():
        for kind in KINDS:
            for path, field in our_fields(our_message(kind, key).fields):
                of_topic = field.element == "uuid" and "topic" in path.split(".")[-1]
                assert of_topic == ("topic_id" in field.marks), (key, kind, path)


def test_secrets_are_these_and_no_other() -> None:
    assert marked_as(frozenset(["secret", "sensitive"])) == SECRETS


def test_addresses_are_those_that_a_client_dials() -> None:
    expected = {(name, f"{nodes}.{part}") for name, nodes in DIALLED.items() for part in ("host", "port")}
    expected |= {("FindCoordinatorResponse", part) for part in ("host", "port")}
    expected |= {("FindCoordinatorResponse", f"coordinators.{part}") for part in ("host", "port")}
    assert set(marked_as(frozenset(["address"]))) == expected


def news(kafkas: dict[tuple[int, MessageKind], Definition]) -> list[str]:
    """Returns the names in these definitions that the catalog lacks or has otherwise."""
    found = []
    for (key, kind), definition in sorted(kafkas.items()):
        versions = version_range(definition["validVersions"])
        message = apis.message(kind, key)
        if message is None:
            found.append(f"{definition['name']} (key {key}, versions {definition['validVersions']}) is new")
            continue
        for version in versions:
            known = version if version in message.versions else message.versions[-1]
            before, now = flat(ours(message, known)), flat(theirs(definition, version))
            changes = [f"+ {path}" for path in now if now[path] != before.get(path)]
            changes += [f"- {path}" for path in before if now.get(path) != before[path]]
            if version not in message.versions or changes:
                found.append(f"{definition['name']} v{version}: {', '.join(changes) or 'no change of fields'}")
    return found


def flat(fields: tuple[OnTheWire, ...], above: str = "") -> dict[str, OnTheWire]:
    found: dict[str, OnTheWire] = {}
    for field in fields:
        found[above + field.name] = field._replace(inner=())
        found |= flat(field.inner, f"{above}{field.name}.")
    return found


def test_differences_between_definitions_are_named() -> None:
    kafkas = deepcopy(definitions_of(NEWEST))
    assert news(kafkas) == []
    fetch = kafkas[1, "response"]
    fetch["validVersions"] = "4-19"  # type: ignore[index]  # a copy
    fetch["fields"].append({"name": "Mood", "type": "[]Mood", "versions": "19+", "fields": []})
    fetch["fields"][1]["type"] = "int32"
    kafkas[95, "request"] = {"name": "SingRequest", "apiKey": 95, "validVersions": "0-1"}
    told = news(kafkas)
    assert told[0] == "FetchResponse v7: + error_code, - error_code"
    assert told[-2:] == [
        "FetchResponse v19: + error_code, + mood, - error_code",
        "SingRequest (key 95, versions 0-1) is new",
    ]


def told_of(newest: Path) -> str:
    """Returns the warning about the newest jar; empty if it is the pinned one."""
    if newest.name == clients_jar(NEWEST).name:
        return ""
    told = "\n".join(news(definitions(newest))) or "it has nothing that the catalog lacks"
    return f"Maven Central's newest is {newest.name}, not {NEWEST}:\n{told}"


def test_another_release_is_named_with_its_differences(tmp_path: Path) -> None:
    another = tmp_path / "kafka-clients-9.9.9.jar"
    another.symlink_to(clients_jar(LAST_EARLY_SHARE_GROUPS))
    told = told_of(another).splitlines()
    assert told[0] == "Maven Central's newest is kafka-clients-9.9.9.jar, not 4.4.0:"
    assert told[1:] == ["ReadShareGroupStateSummaryResponse v0: - results.partitions.leader_epoch"]
    assert told_of(clients_jar(NEWEST)) == ""


def test_differences_of_a_newer_kafka_are_warnings(tmp_path: Path) -> None:
    """This test can't fail: the catalog has to agree only with the pinned releases."""
    try:
        told = told_of(copy_clients("RELEASE", tmp_path))
    except (RuntimeError, subprocess.TimeoutExpired) as error:
        told = f"whether there is a newer Kafka than {NEWEST} is not known: {error}"
    if told:
        warnings.warn(told, stacklevel=1)
