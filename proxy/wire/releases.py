"""The versions of each api in some releases of Kafka, by Kafka's own definitions; requests and responses alike.

Four releases: the last one with ZooKeeper's apis and the old floors, one of 4.0, one of 4.3, and the newest. A test
compares the table with their `kafka-clients` jars. The table does not say in which release an api appeared: an api of
3.9.2 may be older. Versions still in development are included.
"""

from functools import cache

from proxy.wire.apis import API_KEY, api_key, checked

TABLE = """\
                                       3.9.2  4.0.2  4.3.1  4.4.0
Produce                                0-11   3-12   3-13   3-13
Fetch                                  0-17   4-17   4-18   4-18
ListOffsets                            0-9    1-10   1-11   1-11
Metadata                               0-12   0-13   0-13   0-13
LeaderAndIsr                           0-7    -      -      -
StopReplica                            0-4    -      -      -
UpdateMetadata                         0-8    -      -      -
ControlledShutdown                     0-3    -      -      -
OffsetCommit                           0-9    2-9    2-10   2-10
OffsetFetch                            0-9    1-9    1-10   1-10
FindCoordinator                        0-6    0-6    0-6    0-6
JoinGroup                              0-9    0-9    0-9    0-9
Heartbeat                              0-4    0-4    0-4    0-4
LeaveGroup                             0-5    0-5    0-5    0-5
SyncGroup                              0-5    0-5    0-5    0-5
DescribeGroups                         0-5    0-6    0-6    0-6
ListGroups                             0-5    0-5    0-5    0-5
SaslHandshake                          0-1    0-1    0-1    0-1
ApiVersions                            0-4    0-4    0-4    0-5
CreateTopics                           0-7    2-7    2-7    2-7
DeleteTopics                           0-6    1-6    1-6    1-6
DeleteRecords                          0-2    0-2    0-2    0-2
InitProducerId                         0-5    0-5    0-6    0-6
OffsetForLeaderEpoch                   0-4    2-4    2-4    2-4
AddPartitionsToTxn                     0-5    0-5    0-5    0-5
AddOffsetsToTxn                        0-4    0-4    0-4    0-4
EndTxn                                 0-4    0-5    0-5    0-5
WriteTxnMarkers                        0-1    1      1-2    1-2
TxnOffsetCommit                        0-4    0-5    0-5    0-6
DescribeAcls                           0-3    1-3    1-3    1-3
CreateAcls                             0-3    1-3    1-3    1-3
DeleteAcls                             0-3    1-3    1-3    1-3
DescribeConfigs                        0-4    1-4    1-4    1-4
AlterConfigs                           0-2    0-2    0-2    0-2
AlterReplicaLogDirs                    0-2    1-2    1-2    1-2
DescribeLogDirs                        0-4    1-4    1-5    1-5
SaslAuthenticate                       0-2    0-2    0-2    0-2
CreatePartitions                       0-3    0-3    0-3    0-3
CreateDelegationToken                  0-3    1-3    1-3    1-3
RenewDelegationToken                   0-2    1-2    1-2    1-2
ExpireDelegationToken                  0-2    1-2    1-2    1-2
DescribeDelegationToken                0-3    1-3    1-3    1-3
DeleteGroups                           0-2    0-2    0-2    0-3
ElectLeaders                           0-2    0-2    0-2    0-2
IncrementalAlterConfigs                0-1    0-1    0-1    0-1
AlterPartitionReassignments            0      0      0-1    0-1
ListPartitionReassignments             0      0      0      0
OffsetDelete                           0      0      0      0
DescribeClientQuotas                   0-1    0-1    0-1    0-1
AlterClientQuotas                      0-1    0-1    0-1    0-1
DescribeUserScramCredentials           0      0      0      0
AlterUserScramCredentials              0      0      0      0
Vote                                   0-1    0-2    0-2    0-2
BeginQuorumEpoch                       0-1    0-1    0-1    0-1
EndQuorumEpoch                         0-1    0-1    0-1    0-1
DescribeQuorum                         0-2    0-2    0-2    0-2
AlterPartition                         0-3    2-3    2-3    2-3
UpdateFeatures                         0-1    0-2    0-2    0-2
Envelope                               0      0      0      0
FetchSnapshot                          0-1    0-1    0-1    0-1
DescribeCluster                        0-1    0-2    0-2    0-2
DescribeProducers                      0      0      0      0
BrokerRegistration                     0-4    0-4    0-4    0-4
BrokerHeartbeat                        0-1    0-1    0-2    0-2
UnregisterBroker                       0      0      0      0
DescribeTransactions                   0      0      0      0
ListTransactions                       0-1    0-1    0-2    0-2
AllocateProducerIds                    0      0      0      0
ConsumerGroupHeartbeat                 0      0-1    0-1    0-1
ConsumerGroupDescribe                  0      0-1    0-1    0-1
ControllerRegistration                 0      0      0      0
GetTelemetrySubscriptions              0      0      0      0
PushTelemetry                          0      0      0      0
AssignReplicasToDirs                   0      0      0      0
ListConfigResources                    0      0      0-1    0-1
DescribeTopicPartitions                0      0      0      0
ShareGroupHeartbeat                    0      0      1      1
ShareGroupDescribe                     0      0      1      1
ShareFetch                             0      0      1-2    1-2
ShareAcknowledge                       0      0      1-2    1-2
AddRaftVoter                           0      0      0-1    0-1
RemoveRaftVoter                        0      0      0      0
UpdateRaftVoter                        0      0      0      0
InitializeShareGroupState              0      0      0      0
ReadShareGroupState                    0      0      0      0
WriteShareGroupState                   0      0      0-1    0-1
DeleteShareGroupState                  0      0      0      0
ReadShareGroupStateSummary             0      0      0-1    0-1
StreamsGroupHeartbeat                  -      -      0      0-1
StreamsGroupDescribe                   -      -      0      0-1
DescribeShareGroupOffsets              -      -      0-1    0-1
AlterShareGroupOffsets                 -      -      0      0
DeleteShareGroupOffsets                -      -      0      0
StreamsGroupTopologyDescriptionUpdate  -      -      -      0
UnregisterController                   -      -      -      0
"""
NONE = "-"
# the release whose oldest versions tell whether a client is too old for 4.0: the first that accepts JoinGroup 0 again
FLOORS_OF = "4.0.2"


def releases() -> tuple[str, ...]:
    """The releases in the table, ascending."""
    return tuple(TABLE.splitlines()[0].split())


def versions_in(release: str, key: int) -> range:
    """The versions of that api in the release; empty if the release or the catalog lacks the api.

    Errors: ValueError for a release that the table lacks; as `apis.checked`, for the key.
    """
    checked(key, API_KEY)
    if release not in releases():
        raise ValueError(f"known releases are {', '.join(releases())}, not {release!r}")
    return _table()[release].get(key, range(0))


@cache
def _table() -> dict[str, dict[int, range]]:
    """release -> api key -> versions."""
    rows = [line.split() for line in TABLE.splitlines()[1:]]
    return {
        release: {key: _range(row[column]) for row in rows if (key := api_key(row[0])) is not None}
        for column, release in enumerate(releases(), 1)
    }


def _range(text: str) -> range:
    if text == NONE:
        return range(0)
    first, _, last = text.partition("-")
    return range(int(first), int(last or first) + 1)
