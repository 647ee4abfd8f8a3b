"""Tests of former names: those in the protocol guide, and those in the code of old releases."""

import subprocess
from pathlib import Path

import pytest

from proxy.wire import apis, embedded
from proxy.wire.error_codes import ERRORS
from proxy.wire.renamed import APIS, FORMER_ERRORS, MESSAGES, api_today, error_today, message_today
from tests.brokers import jars
from tests.java.jvm import class_path

PROGRAM = Path(__file__).parents[2] / "java" / "KafkaNames.java"
# the names in the guide, with its numbers
GUIDE_APIS = {"Metadata": 3, "Send": 0, "Fetch": 1, "Offsets": 2, "OffsetCommit": 8, "OffsetFetch": 9}
GUIDE_APIS |= {"GroupCoordinator": 10, "JoinGroup": 11, "SyncGroup": 14, "Heartbeat": 12, "LeaveGroup": 13}
GUIDE_APIS |= {"DescribeGroups": 15, "ListGroups": 16, "TopicMetadataRequest": 3, "OffsetRequest": 2}
GUIDE_ERRORS = {"GroupLoadInProgressCode": 14, "GroupCoordinatorNotAvailableCode": 15, "NotCoordinatorForGroupCode": 16}
GUIDE_ERRORS |= {"InvalidTopicCode": 17, "RecordListTooLargeCode": 18, "NotEnoughReplicasCode": 19}
GUIDE_ERRORS |= {"NotEnoughReplicasAfterAppendCode": 20, "InvalidRequiredAcksCode": 21, "IllegalGenerationCode": 22}
GUIDE_ERRORS |= {"InconsistentGroupProtocolCode": 23, "InvalidGroupIdCode": 24, "UnknownMemberIdCode": 25}
GUIDE_ERRORS |= {"InvalidSessionTimeoutCode": 26, "RebalanceInProgressCode": 27, "InvalidCommitOffsetSizeCode": 28}
GUIDE_ERRORS |= {"TopicAuthorizationFailedCode": 29, "GroupAuthorizationFailedCode": 30, "NotLeaderForPartition": 6}
GUIDE_ERRORS |= {"ClusterAuthorizationFailedCode": 31}
# from ErrorMapping in 0.8: no client ever got this code, whose number has meant another error since
NEVER_SENT = ("StaleLeaderEpochCode", 13)


def test_todays_names_lead_to_themselves_in_any_spelling() -> None:
    for key in apis.api_keys():
        name = str(apis.api_name(key))
        assert {api_today(one) for one in (name, name.upper(), f"{name}Request", f"{name}_response")} == {name}
    for name in embedded.names():
        assert message_today(name.lower()) == name
    for error in ERRORS.values():
        assert error_today(error.name) == error_today(error.name.replace("_", "").lower()) == error.name
    assert api_today("xyzzy") is message_today("Fetch") is error_today("") is None


def test_every_former_name_leads_to_one_that_there_is_and_is_none_itself() -> None:
    today = {str(apis.api_name(key)) for key in apis.api_keys()}
    assert set(APIS.values()) <= today
    assert not set(APIS) & today
    assert set(MESSAGES.values()) <= set(embedded.names())
    assert not set(MESSAGES) & (set(embedded.names()) | today)
    names = {error.name for error in ERRORS.values()}
    assert set(FORMER_ERRORS.values()) <= names
    assert not {name for name in FORMER_ERRORS if name in names}


def test_the_guides_names_lead_to_todays() -> None:
    for name, key in GUIDE_APIS.items():
        assert apis.api_key(api_today(name) or "") == key, name
    for name, code in GUIDE_ERRORS.items():
        assert error_today(name) == ERRORS[code].name


def names_in(path: str) -> list[list[str]]:
    command = [jars.java(), "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", path, str(PROGRAM)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return [line.split() for line in done.stdout.splitlines()]


@pytest.mark.real
@pytest.mark.parametrize("release", ["0.8.2.2", "0.9.0.1", "0.10.2.2", "3.9.2"])
def test_every_name_in_the_code_of_an_old_release_leads_to_todays(release: str) -> None:
    is_whole_broker = release == "0.8.2.2"
    told = names_in(jars.class_path(release) if is_whole_broker else class_path(release))
    assert {kind for kind, *_ in told} == {"api", "error"} | ({"old-api", "old-error"} if is_whole_broker else set())
    for kind, number, *names in told:
        for name in names:
            if kind.endswith("api"):
                assert apis.api_key(api_today(name) or "") == int(number), name
            elif (name, int(number)) != NEVER_SENT:
                assert error_today(name) == ERRORS[int(number)].name, name
