"""How a replay treats each API: one row an API, and the rules that follow from it.

`refusal` tells from a request's head and the options whether it may be sent; `refusal_of_values` tells it from the
decoded request. Both are asked before anything is translated, so names and ids are the recorded ones.

Every API of the catalog has a row. Unknown APIs, such as vendors' own, are never sent: nobody knows what they would do
to the target. Which values of a request are changed is told by its fields (`fields`); what a room does with its own
APIs, that room knows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import StrEnum
from functools import lru_cache
from typing import NamedTuple

from proxy.wire.apis import api_key as key_of
from proxy.wire.apis import known, message
from proxy.wire.catalog import CACHE_SIZE
from proxy.wire.keys import ADD_PARTITIONS_TO_TXN, FIND_COORDINATOR, PRODUCE
from recorder.replay.cluster import SHARE
from recorder.replay.options import Deletes, Options
from recorder.replay.plan import Exchange, Reason, Values


class Treatment(StrEnum):
    """What a replay does with requests of an API."""

    NEVER = "never"  # brokers' own, irreversible, or with secrets that the capture lacks
    ADMIN = "admin"  # sent with --admin
    DELETES = "deletes"  # sent with --deletes
    TELEMETRY = "telemetry"  # sent with --telemetry
    OWN = "own"  # each connection of the replay makes its own: logins and versions
    SENT = "sent"


class Destination(StrEnum):
    """Which node of the target takes a request."""

    LEADER = "leader"  # of each partition
    GROUP = "group"  # the coordinator of each group
    TRANSACTION = "transaction"  # the coordinator of each transactional id; without one, the mapped node
    CONTROLLER = "controller"
    UNITED = "united"  # all nodes that stand for the recorded one; their answers are joined
    MAPPED = "mapped"  # one node that stands for the recorded one; with settings of brokers, several


class Trait(StrEnum):
    """What else is true of an API.

    The first ones say what a request waits for, and what waits for it (`order`).
    """

    OF_GROUP = "group"  # requests of one group wait for each other's answers
    OF_MEMBERS = "member"  # members join and leave by it: it leaves in recorded order
    MOVES_STARTS = "starts"  # it changes where a share group begins, which members and descriptions see
    LOOKS_AT_GROUP = "shares"  # it describes a group, or uses what a share group's members were assigned
    OF_PRODUCER = "producer"  # it names a producer or a transactional id
    CHANGES_LOG = "log"  # it adds records to partitions, or takes them away
    LOOKS_AT_LOG = "look"  # it names a partition for the contents of its log
    USES_TOPICS = "topic"
    CHANGES_TOPICS = "topics"  # it creates, deletes or enlarges topics

    READS = "read"  # sent with --read-only: consumers' reads, and what lists or describes
    PRODUCES = "produce"  # sent with --produce-only
    REPEATABLE = (
        "repeat"  # may be sent again after its connection broke: it changes nothing twice (`World` judges Produce)
    )
    OPENS = "open"  # a member joins, or a transaction begins or ends: a replay that ends awaits the answer
    JOINS = "join"  # its answer tells who is in the group
    NOTED_WHEN_DUE = "due"  # it tells a generation's members and assignments: the groups room uses it while it waits
    POLLS = "poll"  # it says how long a broker may wait for records
    OF_SESSIONS = "session"  # its requests and answers differ by node: the session rooms change them for each one
    SHARES = "share"  # of share sessions
    COMMITS = "commit"  # of offsets
    CLASSIC = "classic"  # of a classic group's members
    HEARTBEATS = "heartbeat"  # of members of all other kinds of groups
    DESCRIBES_GROUPS = "describe"
    WITH_BLOBS = "blobs"  # its answer holds blobs of classic groups' members, with names of their own
    QUOTES = "quote"  # it quotes values of earlier answers, or its answer gives them (`quoted`)
    NAMES_REPLICAS = "replicas"
    SETTINGS = "settings"  # its resources may be brokers
    TELLS_OFFSETS = "offsets"  # its answer tells offsets that may be from before the recording
    TELLS_DEFAULTS = "defaults"  # its answer holds settings that may be a broker's, or Kafka's defaults
    TAKES_NAMELESS_GROUP = "nameless"  # Kafka keeps offsets for a group with an empty name too; other APIs refuse it
    NUMBERS_PARTITIONS = "partitions"  # its request's partitions tell how many a topic has
    TELLS_CLUSTER = "cluster"  # its answer may tell the cluster's id
    TELLS_NODES = "nodes"  # its answer describes nodes and their disks: only its structure is compared


# api, treatment, destination, what it waits for (-: nothing but its connection), further traits
TABLE = """
Produce                     sent      leader      log                       produce open partitions
Fetch                       sent      leader      look topic                read repeat poll session partitions
ListOffsets                 sent      leader      look topic                read repeat offsets partitions
Metadata                    sent      mapped      topic                     read produce repeat cluster nodes
LeaderAndIsr                never
StopReplica                 never
UpdateMetadata              never
ControlledShutdown          never
OffsetCommit                sent      group       group look topic          repeat commit nameless
OffsetFetch                 sent      group       group                     read repeat offsets nameless
FindCoordinator             sent      mapped      -                         read repeat nodes
JoinGroup                   sent      group       group member              open join due classic blobs quote
Heartbeat                   sent      group       group                     repeat classic
LeaveGroup                  sent      group       group member              classic
SyncGroup                   sent      group       group member              due classic blobs quote
DescribeGroups              sent      group       shares                    read repeat describe blobs nameless
ListGroups                  sent      united      -                         read nodes
SaslHandshake               own
ApiVersions                 own
CreateTopics                admin     controller  topics                    replicas defaults
DeleteTopics                deletes   controller  topics
DeleteRecords               deletes   leader      log
InitProducerId              sent      transaction producer                  produce open
OffsetForLeaderEpoch        sent      leader      look topic                read
AddPartitionsToTxn          sent      transaction producer topic            produce open
AddOffsetsToTxn             sent      transaction producer                  open
EndTxn                      sent      transaction producer                  produce open
WriteTxnMarkers             never
TxnOffsetCommit             sent      group       group producer look topic open commit
DescribeAcls                sent      mapped      -                         read
CreateAcls                  admin     mapped      -
DeleteAcls                  deletes   mapped      -
DescribeConfigs             sent      mapped      -                         read settings defaults
AlterConfigs                admin     mapped      -                         settings
AlterReplicaLogDirs         never
DescribeLogDirs             sent      united      topic                     read nodes
SaslAuthenticate            own
CreatePartitions            admin     controller  topics                    replicas
CreateDelegationToken       never
RenewDelegationToken        never
ExpireDelegationToken       never
DescribeDelegationToken     never
DeleteGroups                deletes   group       group                     nameless
ElectLeaders                admin     controller  topic
IncrementalAlterConfigs     admin     mapped      -                         settings
AlterPartitionReassignments admin     controller  topic                     replicas
ListPartitionReassignments  sent      controller  topic                     read
OffsetDelete                deletes   group       group topic
DescribeClientQuotas        sent      mapped      -                         read
AlterClientQuotas           admin     mapped      -
DescribeUserScramCredentials sent      mapped      -                         read
AlterUserScramCredentials   never
Vote                        never
BeginQuorumEpoch            never
EndQuorumEpoch              never
DescribeQuorum              sent      mapped      -                         read nodes
AlterPartition              never
UpdateFeatures              never
Envelope                    never
FetchSnapshot               never
DescribeCluster             sent      mapped      -                         read cluster nodes
DescribeProducers           sent      leader      topic                     read
BrokerRegistration          never
BrokerHeartbeat             never
UnregisterBroker            never
DescribeTransactions        sent      transaction producer                  read
ListTransactions            sent      united      -                         read nodes
AllocateProducerIds         never
ConsumerGroupHeartbeat      sent      group       group member              open join heartbeat
ConsumerGroupDescribe       sent      group       shares                    read describe
ControllerRegistration      never
GetTelemetrySubscriptions   telemetry mapped      -                         quote
PushTelemetry               telemetry mapped      -                         quote
AssignReplicasToDirs        never
ListConfigResources         sent      mapped      -                         read defaults
DescribeTopicPartitions     sent      mapped      topic                     read quote nodes
ShareGroupHeartbeat         sent      group       group member              open join heartbeat
ShareGroupDescribe          sent      group       shares                    read describe
ShareFetch                  sent      leader      shares topic              repeat poll session share
ShareAcknowledge            sent      leader      shares topic              session share
AddRaftVoter                never
RemoveRaftVoter             never
UpdateRaftVoter             never
InitializeShareGroupState   never
ReadShareGroupState         never
WriteShareGroupState        never
DeleteShareGroupState       never
ReadShareGroupStateSummary  never
StreamsGroupHeartbeat       sent      group       group member              open join heartbeat
StreamsGroupDescribe        sent      group       shares                    read describe
DescribeShareGroupOffsets   sent      group       shares topic              read
AlterShareGroupOffsets      admin     group       starts topic
DeleteShareGroupOffsets     deletes   group       starts topic
StreamsGroupTopologyDescriptionUpdate sent      group       -
UnregisterController        never
"""


class ApiRow(NamedTuple):
    """One API's row."""

    treatment: Treatment
    destination: Destination
    traits: frozenset[Trait]


_UNKNOWN = ApiRow(Treatment.NEVER, Destination.MAPPED, frozenset())


def _read() -> Iterator[tuple[int, ApiRow]]:
    for line in TABLE.strip().splitlines():
        name, how, *rest = line.split()
        to, *traits = rest or (_UNKNOWN.destination,)
        key = key_of(name)
        if key is None:
            raise ValueError(f"no API has the name {name}")
        yield key, ApiRow(Treatment(how), Destination(to), frozenset(Trait(one) for one in traits if one != "-"))


ROWS = dict(_read())
DESTINATIONS = {key: row.destination for key, row in ROWS.items()}


def those(*traits: Trait) -> frozenset[int]:
    """The APIs with one of these traits."""
    return frozenset(key for key, row in ROWS.items() if not row.traits.isdisjoint(traits))


READ_ONLY, PRODUCE_ONLY = those(Trait.READS), those(Trait.PRODUCES)
GROUP_APIS, MEMBERSHIP = those(Trait.OF_GROUP), those(Trait.OF_MEMBERS)
CLASSIC, HEARTBEATS = those(Trait.CLASSIC), those(Trait.HEARTBEATS)
JOINING, OPENING, NOTED_WHEN_DUE = those(Trait.JOINS), those(Trait.OPENS), those(Trait.NOTED_WHEN_DUE)
REPEATABLE = those(Trait.REPEATABLE)
# what brings a producer, or a transaction of one, to its next state
STEPS_OF_PRODUCERS = those(Trait.OF_PRODUCER) - READ_ONLY
LONG_POLLS, OF_SESSIONS, SHARES = those(Trait.POLLS), those(Trait.OF_SESSIONS), those(Trait.SHARES)
COMMITS = those(Trait.COMMITS)
CHANGES_TOPICS = those(Trait.CHANGES_TOPICS)
DESCRIBES_GROUPS = those(Trait.DESCRIBES_GROUPS)
CONFIG_APIS = those(Trait.SETTINGS)
TELLS_CLUSTER = those(Trait.TELLS_CLUSTER)

# the epochs of a heartbeat by which a member joins, and of one by which it leaves (KIP-848)
JOIN_EPOCH, LEAVE_EPOCH = 0, -1
_READS = READ_ONLY | LONG_POLLS
# the topics of requests that write records or markers; brokers alone write those of Kafka's own
_WRITTEN = {PRODUCE: "topic_data", ADD_PARTITIONS_TO_TXN: "v3_and_below_topics"}
_NO_REPLICA: Values = {}


def treatment(api_key: int) -> Treatment:
    """What a replay does with requests of this API."""
    return ROWS.get(api_key, _UNKNOWN).treatment


def writes(api_key: int) -> bool:
    """True for APIs that change something on the cluster. A ShareFetch reads, though it acquires what it reads."""
    return api_key not in _READS


def destination(api_key: int) -> Destination:
    """The node of the target that takes requests of this API."""
    return DESTINATIONS.get(api_key, _UNKNOWN.destination)


def refusal(exchange: Exchange, options: Options) -> Reason | None:
    """Why a request may not be sent, by its head; None if nothing there forbids it."""
    return forbidden(options, exchange.api_key, exchange.version)


def forbidden(options: Options, api_key: int, version: int) -> Reason | None:
    """Why requests of this API and version may not be sent; None if nothing forbids it.

    A request that is made anew is not refused: ask `treatment` first.
    """
    how = treatment(api_key)
    if how is Treatment.NEVER or _is_brokers_own(api_key, version):
        return Reason.NEVER
    if not known(api_key, version):
        return Reason.OPAQUE
    if how is Treatment.OWN:
        return None
    return _not_chosen(api_key, options) or _not_allowed(how, options)


def _is_brokers_own(api_key: int, version: int) -> bool:
    """From version 4 on, brokers send AddPartitionsToTxn to transaction coordinators (KIP-890); clients don't."""
    return api_key == ADD_PARTITIONS_TO_TXN and version >= 4


def _not_chosen(api_key: int, options: Options) -> Reason | None:
    if not options.chooses(api_key):
        return Reason.NOT_CHOSEN
    if options.read_only and api_key not in READ_ONLY:
        return Reason.READ_ONLY
    return Reason.PRODUCE_ONLY if options.produce_only and api_key not in PRODUCE_ONLY else None


def _not_allowed(how: Treatment, options: Options) -> Reason | None:
    if how is Treatment.ADMIN and not options.admin:
        return Reason.NEEDS_ADMIN
    if how is Treatment.DELETES and options.deletes is Deletes.NOTHING:
        return Reason.NEEDS_DELETES
    return Reason.NEEDS_TELEMETRY if how is Treatment.TELEMETRY and not options.telemetry else None


@lru_cache(CACHE_SIZE)
def may_be_refused(api_key: int) -> bool:
    """False for APIs whose requests are never refused for their values or deletions."""
    request = message("request", api_key)
    named = {field.name for field in request.fields} if request else set()
    looked_at = api_key in {FIND_COORDINATOR, *_WRITTEN} or treatment(api_key) is Treatment.DELETES
    return looked_at or bool(named & {"replica_id", "replica_state"})


def refusal_of_values(exchange: Exchange, values: Values, is_kafkas: Callable[[str | bytes], bool]) -> Reason | None:
    """Why a request may not be sent, by its values; None if nothing there forbids it. `deletes` judges deletions.

    Args:
        values: the decoded request, in recorded terms.
        is_kafkas: true for a topic of Kafka's own, by its name or recorded id (`Names.is_kafkas`).
    """
    if exchange.api_key == FIND_COORDINATOR and values.get("key_type") == SHARE:
        return Reason.NEVER
    # a consumer's replica id is below 0
    if values.get("replica_id", -1) >= 0 or (values.get("replica_state") or _NO_REPLICA).get("replica_id", -1) >= 0:
        return Reason.NEVER
    for entry in values.get(_WRITTEN.get(exchange.api_key, ""), ()):
        if is_kafkas(entry["name"] if "name" in entry else entry["topic_id"]):
            return Reason.NEVER
    return None
