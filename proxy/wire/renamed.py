"""Kafka's former names, and the names of its protocol guide, with today's name for each.

APIs kept their keys and errors their codes, but some changed their names. A lookup ignores case, `_`, `-` and spaces,
and the endings `Request` and `Response` of an API and `Code` of an error. Today's names map to themselves.

Sources: the protocol guide; `ApiKeys` and `Errors` of the releases from 0.8.2 to 3.9; 0.8's `RequestKeys` and
`ErrorMapping` (a test compares them).
"""

from collections.abc import Iterable, Mapping
from functools import cache

from proxy.wire import apis, embedded
from proxy.wire.error_codes import ERRORS

APIS = {
    "Send": "Produce",  # the guide
    "TopicMetadata": "Metadata",  # the guide
    "Offset": "ListOffsets",  # the guide
    "Offsets": "ListOffsets",  # up to 0.11
    "ConsumerMetadata": "FindCoordinator",  # 0.8
    "GroupCoordinator": "FindCoordinator",  # 0.9 and 0.10
    "ElectPreferredLeaders": "ElectLeaders",  # 2.2 and 2.3
    "AlterIsr": "AlterPartition",  # up to 3.1
    "ListClientMetricsResources": "ListConfigResources",  # up to 4.0
}
# messages inside messages
MESSAGES = {
    "ProtocolMetadata": "ConsumerProtocolSubscription",  # the guide
    "MemberAssignment": "ConsumerProtocolAssignment",  # the guide
}
FORMER_ERRORS = {
    "NoError": "NONE",
    "Unknown": "UNKNOWN_SERVER_ERROR",
    "InvalidMessage": "CORRUPT_MESSAGE",
    "InvalidMessageSize": "INVALID_FETCH_SIZE",  # the guide
    "NotLeaderForPartition": "NOT_LEADER_OR_FOLLOWER",
    "MessageSizeTooLarge": "MESSAGE_TOO_LARGE",
    "OffsetsLoadInProgress": "COORDINATOR_LOAD_IN_PROGRESS",
    "GroupLoadInProgress": "COORDINATOR_LOAD_IN_PROGRESS",
    "ConsumerCoordinatorNotAvailable": "COORDINATOR_NOT_AVAILABLE",
    "GroupCoordinatorNotAvailable": "COORDINATOR_NOT_AVAILABLE",
    "NotCoordinatorForConsumer": "NOT_COORDINATOR",
    "NotCoordinatorForGroup": "NOT_COORDINATOR",
    "InvalidTopic": "INVALID_TOPIC_EXCEPTION",
    "MessageSetSizeTooLarge": "RECORD_LIST_TOO_LARGE",
    "TopicAuthorization": "TOPIC_AUTHORIZATION_FAILED",
    "GroupAuthorization": "GROUP_AUTHORIZATION_FAILED",
    "ClusterAuthorization": "CLUSTER_AUTHORIZATION_FAILED",
}


def api_today(name: str) -> str | None:
    """Today's name of an API: "FindCoordinator" for "consumer_metadata_request"; None if no API has or had the name."""
    return _found(name, _apis(), ("request", "response"))


def message_today(name: str) -> str | None:
    """Today's name of an embedded message: "ConsumerProtocolAssignment" for "MemberAssignment"; None if unknown."""
    return _found(name, _messages(), ())


def error_today(name: str) -> str | None:
    """Today's name of an error: "NOT_LEADER_OR_FOLLOWER" for "NotLeaderForPartitionCode"; None if unknown."""
    return _found(name, _errors(), ("code",))


def plain(name: str) -> str:
    """The name in lower case, without separators."""
    return name.lower().replace("_", "").replace("-", "").replace(" ", "")


def _found(name: str, known: Mapping[str, str], ends: tuple[str, ...]) -> str | None:
    wanted = plain(name)
    return next((known[one] for one in (wanted, *(wanted.removesuffix(end) for end in ends)) if one in known), None)


def _by_plain_name(today: Iterable[str], former: Mapping[str, str]) -> dict[str, str]:
    return {plain(name): now for name, now in ({name: name for name in today} | dict(former)).items()}


@cache
def _apis() -> dict[str, str]:
    return _by_plain_name((str(apis.api_name(key)) for key in apis.api_keys()), APIS)


@cache
def _messages() -> dict[str, str]:
    return _by_plain_name(embedded.names(), MESSAGES)


@cache
def _errors() -> dict[str, str]:
    return _by_plain_name((error.name for error in ERRORS.values()), FORMER_ERRORS)
