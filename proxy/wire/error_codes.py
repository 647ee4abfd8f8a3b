"""Kafka's error codes: the name of each, and whether a client may retry.

A table that a person can read, one code a line, in Kafka's own names. Codes never change their meaning; new ones are
added at the end. A code that is not here comes from a broker newer than this table; its name is its number.

Source: Kafka's `org.apache.kafka.common.protocol.Errors` (trunk of August 2026; retriable: the exception is a
`RetriableException`).
"""

from __future__ import annotations

from typing import NamedTuple

TABLE = """
  -1 UNKNOWN_SERVER_ERROR
   0 NONE
   1 OFFSET_OUT_OF_RANGE
   2 CORRUPT_MESSAGE                             retriable
   3 UNKNOWN_TOPIC_OR_PARTITION                  retriable
   4 INVALID_FETCH_SIZE
   5 LEADER_NOT_AVAILABLE                        retriable
   6 NOT_LEADER_OR_FOLLOWER                      retriable
   7 REQUEST_TIMED_OUT                           retriable
   8 BROKER_NOT_AVAILABLE
   9 REPLICA_NOT_AVAILABLE                       retriable
  10 MESSAGE_TOO_LARGE
  11 STALE_CONTROLLER_EPOCH
  12 OFFSET_METADATA_TOO_LARGE
  13 NETWORK_EXCEPTION                           retriable
  14 COORDINATOR_LOAD_IN_PROGRESS                retriable
  15 COORDINATOR_NOT_AVAILABLE                   retriable
  16 NOT_COORDINATOR                             retriable
  17 INVALID_TOPIC_EXCEPTION
  18 RECORD_LIST_TOO_LARGE
  19 NOT_ENOUGH_REPLICAS                         retriable
  20 NOT_ENOUGH_REPLICAS_AFTER_APPEND            retriable
  21 INVALID_REQUIRED_ACKS
  22 ILLEGAL_GENERATION
  23 INCONSISTENT_GROUP_PROTOCOL
  24 INVALID_GROUP_ID
  25 UNKNOWN_MEMBER_ID
  26 INVALID_SESSION_TIMEOUT
  27 REBALANCE_IN_PROGRESS
  28 INVALID_COMMIT_OFFSET_SIZE
  29 TOPIC_AUTHORIZATION_FAILED
  30 GROUP_AUTHORIZATION_FAILED
  31 CLUSTER_AUTHORIZATION_FAILED
  32 INVALID_TIMESTAMP
  33 UNSUPPORTED_SASL_MECHANISM
  34 ILLEGAL_SASL_STATE
  35 UNSUPPORTED_VERSION
  36 TOPIC_ALREADY_EXISTS
  37 INVALID_PARTITIONS
  38 INVALID_REPLICATION_FACTOR
  39 INVALID_REPLICA_ASSIGNMENT
  40 INVALID_CONFIG
  41 NOT_CONTROLLER                              retriable
  42 INVALID_REQUEST
  43 UNSUPPORTED_FOR_MESSAGE_FORMAT
  44 POLICY_VIOLATION
  45 OUT_OF_ORDER_SEQUENCE_NUMBER
  46 DUPLICATE_SEQUENCE_NUMBER
  47 INVALID_PRODUCER_EPOCH
  48 INVALID_TXN_STATE
  49 INVALID_PRODUCER_ID_MAPPING
  50 INVALID_TRANSACTION_TIMEOUT
  51 CONCURRENT_TRANSACTIONS                     retriable
  52 TRANSACTION_COORDINATOR_FENCED
  53 TRANSACTIONAL_ID_AUTHORIZATION_FAILED
  54 SECURITY_DISABLED
  55 OPERATION_NOT_ATTEMPTED
  56 KAFKA_STORAGE_ERROR                         retriable
  57 LOG_DIR_NOT_FOUND
  58 SASL_AUTHENTICATION_FAILED
  59 UNKNOWN_PRODUCER_ID
  60 REASSIGNMENT_IN_PROGRESS
  61 DELEGATION_TOKEN_AUTH_DISABLED
  62 DELEGATION_TOKEN_NOT_FOUND
  63 DELEGATION_TOKEN_OWNER_MISMATCH
  64 DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
  65 DELEGATION_TOKEN_AUTHORIZATION_FAILED
  66 DELEGATION_TOKEN_EXPIRED
  67 INVALID_PRINCIPAL_TYPE
  68 NON_EMPTY_GROUP
  69 GROUP_ID_NOT_FOUND
  70 FETCH_SESSION_ID_NOT_FOUND                  retriable
  71 INVALID_FETCH_SESSION_EPOCH                 retriable
  72 LISTENER_NOT_FOUND                          retriable
  73 TOPIC_DELETION_DISABLED
  74 FENCED_LEADER_EPOCH                         retriable
  75 UNKNOWN_LEADER_EPOCH                        retriable
  76 UNSUPPORTED_COMPRESSION_TYPE
  77 STALE_BROKER_EPOCH
  78 OFFSET_NOT_AVAILABLE                        retriable
  79 MEMBER_ID_REQUIRED
  80 PREFERRED_LEADER_NOT_AVAILABLE              retriable
  81 GROUP_MAX_SIZE_REACHED
  82 FENCED_INSTANCE_ID
  83 ELIGIBLE_LEADERS_NOT_AVAILABLE              retriable
  84 ELECTION_NOT_NEEDED                         retriable
  85 NO_REASSIGNMENT_IN_PROGRESS
  86 GROUP_SUBSCRIBED_TO_TOPIC
  87 INVALID_RECORD
  88 UNSTABLE_OFFSET_COMMIT                      retriable
  89 THROTTLING_QUOTA_EXCEEDED                   retriable
  90 PRODUCER_FENCED
  91 RESOURCE_NOT_FOUND
  92 DUPLICATE_RESOURCE
  93 UNACCEPTABLE_CREDENTIAL
  94 INCONSISTENT_VOTER_SET
  95 INVALID_UPDATE_VERSION
  96 FEATURE_UPDATE_FAILED
  97 PRINCIPAL_DESERIALIZATION_FAILURE
  98 SNAPSHOT_NOT_FOUND
  99 POSITION_OUT_OF_RANGE
 100 UNKNOWN_TOPIC_ID                            retriable
 101 DUPLICATE_BROKER_REGISTRATION
 102 BROKER_ID_NOT_REGISTERED
 103 INCONSISTENT_TOPIC_ID                       retriable
 104 INCONSISTENT_CLUSTER_ID
 105 TRANSACTIONAL_ID_NOT_FOUND
 106 FETCH_SESSION_TOPIC_ID_ERROR                retriable
 107 INELIGIBLE_REPLICA
 108 NEW_LEADER_ELECTED
 109 OFFSET_MOVED_TO_TIERED_STORAGE
 110 FENCED_MEMBER_EPOCH
 111 UNRELEASED_INSTANCE_ID
 112 UNSUPPORTED_ASSIGNOR
 113 STALE_MEMBER_EPOCH
 114 MISMATCHED_ENDPOINT_TYPE
 115 UNSUPPORTED_ENDPOINT_TYPE
 116 UNKNOWN_CONTROLLER_ID
 117 UNKNOWN_SUBSCRIPTION_ID
 118 TELEMETRY_TOO_LARGE
 119 INVALID_REGISTRATION
 120 TRANSACTION_ABORTABLE
 121 INVALID_RECORD_STATE
 122 SHARE_SESSION_NOT_FOUND                     retriable
 123 INVALID_SHARE_SESSION_EPOCH                 retriable
 124 FENCED_STATE_EPOCH
 125 INVALID_VOTER_KEY
 126 DUPLICATE_VOTER
 127 VOTER_NOT_FOUND
 128 INVALID_REGULAR_EXPRESSION
 129 REBOOTSTRAP_REQUIRED
 130 STREAMS_INVALID_TOPOLOGY
 131 STREAMS_INVALID_TOPOLOGY_EPOCH
 132 STREAMS_TOPOLOGY_FENCED
 133 SHARE_SESSION_LIMIT_REACHED                 retriable
 134 GROUP_DELETION_FAILED
 135 STREAMS_TOPOLOGY_DESCRIPTION_UPDATE_FAILED
 136 CONTROLLER_ID_NOT_REGISTERED
"""

# the answer to a request for a topic that is not there, or not yet known
UNKNOWN_TOPIC_OR_PARTITION = 3
# answers to members of classic groups: they quote another generation or an unknown id, or are to join again; the one to
# a first JoinGroup says "ask again with this id"
ILLEGAL_GENERATION, UNKNOWN_MEMBER_ID, REBALANCE_IN_PROGRESS, MEMBER_ID_REQUIRED = 22, 25, 27, 79
# the answers to members whose static name another one has, or whose epoch is over
FENCED_INSTANCE_ID, FENCED_MEMBER_EPOCH = 82, 110
# the answer to an ApiVersions request of a version that the broker lacks; version 0's body follows (KIP-511)
UNSUPPORTED_VERSION = 35
# the answer to a member of a group of KIP-848, or to its commit, that quotes an earlier epoch than the group's
STALE_MEMBER_EPOCH = 113


class KafkaError(NamedTuple):
    """One error code: its number, Kafka's name for it, and whether clients may retry."""

    code: int
    name: str
    retriable: bool


def _read(line: str) -> KafkaError:
    code, name, *retriable = line.split()
    return KafkaError(int(code), name, bool(retriable))


ERRORS = {error.code: error for error in map(_read, TABLE.strip().splitlines())}


def is_error_code(name: str) -> bool:
    """True if a field of that name holds an error code."""
    return name.endswith("error_code")


def kafka_error(code: int) -> KafkaError:
    """The entry of `code`; a code that the table lacks is named `ERROR_<code>` and counts as not retriable."""
    return ERRORS.get(code) or KafkaError(code, f"ERROR_{code}", False)
