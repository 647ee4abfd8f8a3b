"""Error codes that are no fault but a normal step of the protocol.

The client knows what to do next:

    UNSUPPORTED_VERSION   of ApiVersions: the answer says which versions there are
    MEMBER_ID_REQUIRED    of JoinGroup: the answer gives the member its id
    GROUP_ID_NOT_FOUND    of ConsumerGroupDescribe: the group is classic, and the client asks DescribeGroups next
    any api               a rebalance makes members join; a fetch session that is gone is opened anew; an earlier
                          transaction, or a commit in one, is not done yet
"""

from __future__ import annotations

from proxy.wire.keys import API_VERSIONS, CONSUMER_GROUP_DESCRIBE, JOIN_GROUP

# UNSUPPORTED_VERSION, MEMBER_ID_REQUIRED, GROUP_ID_NOT_FOUND: each normal for one api
NORMAL_OF = {API_VERSIONS: 35, JOIN_GROUP: 79, CONSUMER_GROUP_DESCRIBE: 69}
# REBALANCE_IN_PROGRESS, CONCURRENT_TRANSACTIONS, FETCH_SESSION_ID_NOT_FOUND, INVALID_FETCH_SESSION_EPOCH,
# UNSTABLE_OFFSET_COMMIT, FETCH_SESSION_TOPIC_ID_ERROR
NORMAL = (27, 51, 70, 71, 88, 106)


def is_normal(api_key: int | None, code: int) -> bool:
    """True if the code is a normal step of the protocol in a response of this api."""
    return code in NORMAL or (api_key is not None and NORMAL_OF.get(api_key) == code)
