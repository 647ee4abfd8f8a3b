"""Requests that the replay makes for groups: heartbeats of silent members, joins of refused ones, departures.

A member's state tells which request it makes (`member_states.MADE`). It has at most one made request in flight, and
makes none while a recorded request by which it leaves is in flight.

    made         in a classic group                                      in a modern one
    -------------------------------------------------------------------------------------------------------------------
    LEAVE        LeaveGroup                                              a heartbeat with epoch -1
    JOIN         its last JoinGroup, which follows error 79              a heartbeat with epoch 0
    SYNC         SyncGroup; as elected leader, once the recorded
                   assignments are known, and a heartbeat before that
    HEARTBEAT    Heartbeat                                               a heartbeat with its epoch

Heartbeats leave with growing pauses while a member is not settled, while it asks whether to rejoin, and while its group
mends a member or is ahead of a recorded join (`Group.is_ahead`), because a rebalance that the recording lacks takes all
members along. Otherwise a member's heartbeat leaves once it has been silent for long.

A member whose recorded connections have ended sends nothing. The target loses it after its session timeout, as the
recorded cluster did; but a static member that was back in time is kept alive, however slow the replay is. At the end of
the replay all members leave, static ones too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from proxy.wire.apis import api_name
from proxy.wire.error_codes import (
    FENCED_MEMBER_EPOCH,
    ILLEGAL_GENERATION,
    MEMBER_ID_REQUIRED,
    REBALANCE_IN_PROGRESS,
    STALE_MEMBER_EPOCH,
    UNKNOWN_MEMBER_ID,
    kafka_error,
)
from proxy.wire.keys import HEARTBEAT, JOIN_GROUP, LEAVE_GROUP, SYNC_GROUP
from recorder.replay.cluster import GROUP
from recorder.replay.groups.classic import ClassicGroups, gone, joined, needs_assignment, synced
from recorder.replay.groups.member_states import Event, Made, MemberState
from recorder.replay.groups.members import (
    HAS_LEFT,
    INT32_MAX,
    Group,
    Member,
    Memberships,
    error_of,
    is_outdated,
    refused,
)
from recorder.replay.groups.modern_groups import HEARTBEATS, heartbeat_answered
from recorder.replay.plan import NO_ANSWER, MadeRequest, ToCoordinator, Values
from recorder.replay.requests.apis import JOIN_EPOCH, LEAVE_EPOCH
from recorder.replay.requests.blobs import rename_topics

# the first and the longest pause between requests that ask the same
SHORTEST_PAUSE, LONGEST_PAUSE = 20 * 10**6, 10**9
LOST = frozenset({ILLEGAL_GENERATION, UNKNOWN_MEMBER_ID, FENCED_MEMBER_EPOCH, STALE_MEMBER_EPOCH})

Done = Callable[[Values | None], None]


class Mending:
    """Makes requests for groups."""

    def __init__(self, state: Memberships) -> None:
        self._state = state
        self._wake: int | None = None

    def tick(self, now: int) -> tuple[list[MadeRequest], int | None]:
        """The made requests that are due, and when to ask next."""
        if not self._state.touched and (self._wake is None or now < self._wake):
            return [], self._wake
        self._state.touched = False
        groups = self._state.groups.values()
        made = [made for group in groups if self._awake(group, now) for made in self._of(group, now)]
        self._wake = min((group.wake for group in groups if group.wake is not None), default=None)
        return made, self._wake

    def finish(self, *, at_once: bool) -> list[MadeRequest]:
        """Departures of all members, each once.

        `at_once`: also of members with a request in flight, which may bring them back.
        """
        groups = self._state.groups.values()
        members = [(group, member) for group in groups for member in group.present() if member.target]
        return [
            self._last_departure(group, member)
            for group, member in members
            if not member.departure_failure and (at_once or not (member.in_flight or member.made_in_flight))
        ]

    def departure_failures(self) -> list[str]:
        """Members that could not leave at the end, and why."""
        names, groups = self._state.names, self._state.groups.values()
        return [
            f"member {member.target} of group {names.target(group.name)} "
            f"({api_name(LEAVE_GROUP if member.classic else member.api_key)}: {member.departure_failure})"
            for group in groups
            for member in group.members.values()
            if member.departure_failure
        ]

    # -- what is due ------------------------------------------------------------------------------------------------

    @staticmethod
    def _awake(group: Group, now: int) -> bool:
        return group.touched or (group.wake is not None and group.wake <= now)

    def _of(self, group: Group, now: int) -> list[MadeRequest]:
        group.touched = False
        group.mending = group.is_ahead or (
            group.mending and any(one.state is not MemberState.STABLE for one in group.present())
        )
        self._have_leader_assign(group)
        members = list(group.active.values())
        made = [made for member in members for made in self._due(group, member, now)]
        # a request that is due and can't be made waits for a change
        nexts = [at for member in members if (at := self._next(group, member)) is not None and at > now]
        group.wake = min(nexts, default=None)
        for member in members:
            if member.state is MemberState.ABSENT and not (member.in_flight or member.made_in_flight):
                del group.active[member.id]
        return made

    @staticmethod
    def _have_leader_assign(group: Group) -> None:
        """Has the elected leader make its SyncGroup if its recorded one may stand behind requests that wait for it.

        Those are of members that wait for their assignment: of one with a made SyncGroup in flight, or of the recorded
        leader, which had its assignment before the elected one asked, and sent a heartbeat or joined again meanwhile.
        While the assignment is not known, the leader must not wait: its own requests may bring it.
        """
        leader = group.elected_member
        if leader is None or leader.state is not MemberState.STABLE or not needs_assignment(group, leader):
            return
        recorded = leader.recorded, leader.recorded_leader
        if recorded not in group.assignments:
            return
        stands_behind = (leader.recorded, leader.id) in group.syncs_due and recorded in group.led
        if (stands_behind and not ClassicGroups.awaits_members(group, recorded)) or any(
            one.state is MemberState.UNSYNCED and one.made_in_flight for one in group.present()
        ):
            leader.synced = leader.recorded
            leader.on(Event.UNASSIGNED)

    def _due(self, group: Group, member: Member, now: int) -> Iterator[MadeRequest]:
        if not self._may_make(group, member) or now < self._at(group, member):
            return
        made = self._made(group, member)
        if made:
            member.made_in_flight, member.last_sent_at = True, now
            member.pause = min(max(2 * member.pause, SHORTEST_PAUSE), LONGEST_PAUSE)
            member.again_at = now + member.pause
            yield made

    def _next(self, group: Group, member: Member) -> int | None:
        """When a member's next made request is due; None if it has none, one is in flight, or it is leaving."""
        makes_some = self._urgent(group, member) or self._may_be_silent(group, member)
        return self._at(group, member) if makes_some and self._may_make(group, member) else None

    @staticmethod
    def _may_make(group: Group, member: Member) -> bool:
        return bool(member.target) and not (member.made_in_flight or group.is_leaving(member))

    def _at(self, group: Group, member: Member) -> int:
        return member.again_at if self._urgent(group, member) else member.last_sent_at + member.longest_silence

    @staticmethod
    def _may_be_silent(group: Group, member: Member) -> bool:
        return (
            member.state.present
            and member.state.settled
            and (bool(member.connections) or group.returns(member))
            and not (member.in_flight or member.about_to_go or not member.longest_silence)
        )

    @staticmethod
    def _urgent(group: Group, member: Member) -> bool:
        taken_along = group.mending and member.state.present and not (member.in_flight or member.about_to_go)
        return not member.state.settled or member.asks_since is not None or taken_along

    def _made(self, group: Group, member: Member) -> MadeRequest | None:
        if not member.connections and member.state is not MemberState.LEAVING and not group.returns(member):
            # the target loses it after its session timeout; requests of its client on a new connection are mended then
            member.on(Event.SILENT)
            return None
        made = member.state.made(classic=member.classic)
        if made is Made.LEAVE:
            return self._departure(group, member)
        if made is None or member.id in group.joins.values():
            # Kafka answers only the last JoinGroup of a member
            return None
        if made is Made.JOIN or (made is Made.JOIN_ALONG and group.mending and not member.in_flight):
            return self._join(group, member)
        if made is Made.SYNC:
            return self._sync(group, member) or self._heartbeat(group, member)
        asks = not member.state.settled or member.asks_since is not None or group.mending
        return self._heartbeat(group, member) if asks or self._may_be_silent(group, member) else None

    # -- the requests -----------------------------------------------------------------------------------------------

    def _last_departure(self, group: Group, member: Member) -> MadeRequest:
        member.departure_failure = NO_ANSWER
        return self._departure(group, member, self._left)

    def _departure(self, group: Group, member: Member, learn: Callable[..., None] | None = None) -> MadeRequest:
        learn = learn or self._departed
        if not member.classic:
            return self._heartbeat_with(group, member, {"member_epoch": LEAVE_EPOCH}, "leaves the group", learn)
        instance = (member.join or {}).get("group_instance_id")
        values = {"member_id": member.target, "members": [{"member_id": member.target, "group_instance_id": instance}]}
        return self._make(group, member, LEAVE_GROUP, values, "leaves the group", learn)

    def _join(self, group: Group, member: Member) -> MadeRequest | None:
        if member.join is None:
            return None
        if member.instance is not None and group.instances.get(member.instance) is not member:
            # the static member is back with a new id, which this join would fence
            member.on(Event.LEFT)
            return None
        if not member.classic:
            owned: Values = {name: [] for name in HEARTBEATS[member.api_key].owned}
            values = member.join | {"member_id": member.target, "member_epoch": JOIN_EPOCH} | owned
            return self._make(group, member, member.api_key, values, "joins again", self._heartbeat_answered)
        member.on(Event.MUST_JOIN)
        group.mending = True
        values = member.join | {"member_id": member.joins_as}
        return self._make(group, member, JOIN_GROUP, values, "joins again", self._joined)

    def _sync(self, group: Group, member: Member) -> MadeRequest | None:
        needed = needs_assignment(group, member)
        recorded = member.synced, member.recorded_leader
        if needed and (recorded not in group.assignments or ClassicGroups.awaits_members(group, recorded)):
            return None
        values = self._quoted(member) | {
            "assignments": ClassicGroups.assigned(group, member, recorded) if needed else [],
            "protocol_type": member.answer.get("protocol_type") or (member.join or {}).get("protocol_type"),
            "protocol_name": member.answer.get("protocol_name"),
        }
        if self._state.names.prefix:
            rename_topics(SYNC_GROUP, values, self._state.names.target_topic)
        return self._make(group, member, SYNC_GROUP, values, "asks for its assignment", self._synced)

    def _heartbeat(self, group: Group, member: Member) -> MadeRequest | None:
        if member.current is None:
            return None
        if not member.classic:
            member.confirming = member.owned
            values = {"member_epoch": member.current} | (member.owned or {})
            return self._heartbeat_with(group, member, values, "keeps its membership", self._heartbeat_answered)
        return self._make(group, member, HEARTBEAT, self._quoted(member), "keeps its membership", self._told)

    def _heartbeat_with(
        self, group: Group, member: Member, values: Values, purpose: str, learn: Callable[..., None]
    ) -> MadeRequest:
        common: Values = {"member_id": member.target}
        if member.join and "instance_id" in member.join:
            common["instance_id"] = member.join["instance_id"]
        if member.endpoint_epoch is not None:
            common["endpoint_information_epoch"] = member.endpoint_epoch
        return self._make(group, member, member.api_key, common | values, purpose, learn)

    @staticmethod
    def _quoted(member: Member) -> Values:
        instance = (member.join or {}).get("group_instance_id")
        return {"member_id": member.target, "generation_id": member.current, "group_instance_id": instance}

    def _make(
        self, group: Group, member: Member, api_key: int, values: Values, purpose: str, learn: Callable[..., None]
    ) -> MadeRequest:
        name = self._state.names.target(group.name)

        def done(answer: Values | None) -> None:
            member.made_in_flight = False
            self._state.touch(group)
            # a recorded join may have been answered since
            if answer is not None and not is_outdated(
                member, error_of(answer) or 0, values.get("generation_id", INT32_MAX)
            ):
                learn(group, member, answer)

        to = ToCoordinator(GROUP, name)
        lane = (group.name, member.id)
        return MadeRequest(api_key, values | {"group_id": name}, to, f"a member {purpose}", done, lane=lane)

    # -- the answers ------------------------------------------------------------------------------------------------

    @staticmethod
    def _departed(group: Group, member: Member, answer: Values) -> None:
        """Whatever the answer says: a member that the target does not know has left, too."""
        gone(group, member)

    @staticmethod
    def _left(group: Group, member: Member, answer: Values) -> None:
        codes = {error_of(answer) or 0, *(one["error_code"] for one in answer.get("members") or ())} - HAS_LEFT
        member.departure_failure = kafka_error(min(codes)).name if codes else ""
        if not codes:
            gone(group, member)

    def _joined(self, group: Group, member: Member, answer: Values) -> None:
        error = error_of(answer)
        if error == MEMBER_ID_REQUIRED:
            self._state.identify(group, member, answer["member_id"])
            self._soon(member)
        elif error == UNKNOWN_MEMBER_ID:
            member.on(Event.UNKNOWN)
        elif not error and member.state.joins_again:
            self._state.identify(group, member, answer["member_id"])
            joined(group, member, answer)
            member.current = answer["generation_id"]
            # otherwise the recorded SyncGroup is still to come
            if member.synced == member.recorded:
                member.on(Event.UNASSIGNED)
            self._soon(member)

    def _synced(self, group: Group, member: Member, answer: Values) -> None:
        error = error_of(answer) or 0
        if not error:
            synced(group, member, member.synced)
        elif error in LOST or error == REBALANCE_IN_PROGRESS:
            refused(group, member, error)
        self._soon(member)

    def _told(self, group: Group, member: Member, answer: Values) -> None:
        error = error_of(answer) or 0
        if error == REBALANCE_IN_PROGRESS:
            # told twice to rejoin, and no recorded rejoin came or is to come: the recording has no such rebalance
            is_late = member.recorded_to_rejoin and member.id in group.coming.values()
            group.mending |= member.state.told and member.asks_since is None and not is_late
            member.on(Event.TOLD)
        if error in LOST:
            refused(group, member, error)
        if member.asks_since is not None and member.state.told:
            self._soon(member)

    def _heartbeat_answered(self, group: Group, member: Member, answer: Values) -> None:
        error = error_of(answer) or 0
        if not error:
            self._state.identify(group, member, answer.get("member_id") or member.target)
            heartbeat_answered(member, answer)
            self._state.on_made_heartbeat(member.api_key, group.name, answer)
            self._state.advance(group, member, None, answer["member_epoch"])
            self._soon(member)
        elif error in LOST and not member.is_over:
            # it asked for its epoch, which the target does not know any more
            member.on(Event.UNKNOWN if error == UNKNOWN_MEMBER_ID else Event.MUST_JOIN)

    @staticmethod
    def _soon(member: Member) -> None:
        """An answer has come: the member's next request may leave at once."""
        member.pause = member.again_at = 0
