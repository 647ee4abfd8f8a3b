"""The reasons why frames of a capture are masked, in a few words."""

from __future__ import annotations

from recorder.capture import frames as c

LOGINS = "logins"
SETTINGS = "settings that may be passwords, and what is said of them"
TOKENS = "delegation tokens"
SCRAM = "SCRAM credentials, and what is said of them"
OTHERS = "requests and answers in envelopes, which may be any"
SNAPSHOTS = "snapshots of the cluster's metadata, which hold credentials"
UNREADABLE = "unreadable, and so maybe a secret"

# api -> the secrets in its masked frames
BY_API = {
    "SaslAuthenticate": LOGINS,
    "CreateTopics": SETTINGS,
    "DescribeConfigs": SETTINGS,
    "AlterConfigs": SETTINGS,
    "IncrementalAlterConfigs": SETTINGS,
    "CreateDelegationToken": TOKENS,
    "RenewDelegationToken": TOKENS,
    "ExpireDelegationToken": TOKENS,
    "DescribeDelegationToken": TOKENS,
    "AlterUserScramCredentials": SCRAM,
    "Envelope": OTHERS,
    "FetchSnapshot": SNAPSHOTS,
}


def why(kind: str, api: str | None) -> str:
    """The reason why a frame of this kind and api is masked."""
    return LOGINS if kind == c.TOKEN else BY_API.get(api or "", UNREADABLE)
