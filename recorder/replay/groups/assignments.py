"""Assignments of classic groups: the recorded leader's, under the target's member ids.

Assignments of consumers name topics only. Those of Connect's workers also name the leader's member id (KIP-415), which
is replaced; bytes behind the known fields stay. An assignment that can't be read stays as it is, since only members
read it.
"""

from __future__ import annotations

from collections.abc import Callable

from proxy.wire import embedded
from proxy.wire.errors import WireError
from recorder.replay.plan import Values

CONNECT = "connect"
_CONNECT_ASSIGNMENT = "ConnectAssignment"
_NEWEST_CONNECT = embedded.versions(_CONNECT_ASSIGNMENT)[-1]

Identify = Callable[[str], str | None]


def mapped(assignments: list[Values], protocol_type: str | None, identify: Identify) -> list[Values]:
    """The assignments of those members that the target has.

    Args:
        identify: the target's id of a recorded member, None if it has none.
    """
    found = ((identify(entry["member_id"]), entry) for entry in assignments)
    return [
        {**entry, "member_id": member, "assignment": _blob(entry["assignment"], protocol_type, identify)}
        for member, entry in found
        if member is not None
    ]


def _blob(blob: bytes, protocol_type: str | None, identify: Identify) -> bytes:
    return with_leader(blob, identify) if protocol_type == CONNECT else blob


def with_leader(blob: bytes, identify: Identify) -> bytes:
    """A Connect assignment that names the target's id of the leader."""
    try:
        found = embedded.decode_blob(_CONNECT_ASSIGNMENT, blob)
        leader = identify(found.values["leader"]) if isinstance(found, embedded.Embedded) else None
        if leader is None or not isinstance(found, embedded.Embedded):
            return blob
        layout = min(found.version, _NEWEST_CONNECT)
        body = embedded.encode_blob(_CONNECT_ASSIGNMENT, layout, found.values | {"leader": leader})
    except WireError:
        return blob
    # a version newer than the catalog's keeps its number
    return blob[:2] + body[2:] + found.rest
