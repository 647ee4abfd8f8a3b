"""Classic groups: translates JoinGroup, SyncGroup, Heartbeat and LeaveGroup.

    member id       the id in the target's JoinGroup answer. A member that the target does not know joins with "" and
                    follows error 79; its other requests are withheld
    generation      the target's last one for the recorded last one, else the paired one
    assignments     the recorded leader's, sent by the member that the target elected (`assignments`); where the leader
                    has sent them before the recording, those that recorded answers tell
    rejoins         wait for the event that is their reason (`rejoins`)
    lost members    a member whose recorded answer is error 25 leaves the target's group first, so that the target
                    answers with error 25 too
    refusals        after errors 22, 25 and 27 that the recording lacks the member joins again (`mending`), and its
                    request is sent again

The elected member's SyncGroup waits until the recorded leader's is due. `due` reports that, even while the recorded
leader's own request still waits.
"""

from __future__ import annotations

from proxy.wire.error_codes import ILLEGAL_GENERATION, MEMBER_ID_REQUIRED, REBALANCE_IN_PROGRESS, UNKNOWN_MEMBER_ID
from proxy.wire.keys import HEARTBEAT, JOIN_GROUP, LEAVE_GROUP, SYNC_GROUP
from recorder.replay.groups import assignments
from recorder.replay.groups.member_states import Event, MemberState
from recorder.replay.groups.members import (
    Generation,
    Group,
    Member,
    Memberships,
    error_of,
    is_outdated,
    left_meanwhile,
    pace,
)
from recorder.replay.groups.rejoins import Rejoins
from recorder.replay.plan import MILLISECOND, Exchange, Hold, NotSent, Reason, Resend, Values, Withheld
from recorder.replay.requests.apis import CLASSIC, NOTED_WHEN_DUE

# heartbeats of a client in its session timeout, by default
HEARTBEATS_A_SESSION = 3
# How long (ns) after the others' SyncGroups the assigning one leaves at `max`. Each has its own connection, so
# SyncGroups that leave at once arrive in any order, and some mock brokers never answer one that comes after the
# assigning one.
AFTER_FOLLOWERS = 50 * MILLISECOND
# errors of the target alone after which a member joins again
MENDED = frozenset({ILLEGAL_GENERATION, UNKNOWN_MEMBER_ID, REBALANCE_IN_PROGRESS})


class ClassicGroups:
    """Translates the requests of classic groups."""

    API_KEYS = CLASSIC

    def __init__(self, state: Memberships) -> None:
        self._state = state
        self._rejoins = Rejoins(state)
        # member ids that the target gave with error 79 where the recording did not: the JoinGroup goes again with this
        # id
        self._given: dict[Exchange, str] = {}
        # JoinGroups that the target answered without members of the recorded answer, whose joins had not been answered
        self._early: set[Exchange] = set()

    # -- assignments and members of recorded generations --------------------------------------------------------------

    def due(self, exchange: Exchange) -> None:
        """A request is due: the recording's members and assignments of its generation may be used from now on."""
        if exchange.api_key not in NOTED_WHEN_DUE:
            return
        group = self._state.group(exchange.request["group_id"])
        if exchange.api_key == SYNC_GROUP:
            group.syncs_due.add(_sync_of(exchange))
            self._keep_assignments(group, exchange.request)
        elif exchange.api_key == JOIN_GROUP and exchange.answer and not error_of(exchange.answer):
            self._keep_roster(group, exchange.answer)

    @staticmethod
    def _keep_assignments(group: Group, values: Values) -> None:
        generation = values["generation_id"], values["member_id"]
        if values["assignments"] or generation in group.rosters:
            group.keep(group.assignments, generation, values["assignments"] or _assigned_before(group, generation))

    @staticmethod
    def _keep_roster(group: Group, answer: Values) -> None:
        if answer["members"]:
            members = frozenset(member["member_id"] for member in answer["members"])
            group.keep(group.rosters, (answer["generation_id"], answer["leader"]), members)

    # -- requests ---------------------------------------------------------------------------------------------------

    def was_read(self, exchange: Exchange) -> None:
        """A request was read. Its recorded answer may not be known yet."""
        if exchange.api_key == JOIN_GROUP:
            request = exchange.request
            name = request["member_id"] or request.get("group_instance_id")
            self._state.group(request["group_id"]).coming[exchange] = name

    def will_not_leave(self, exchange: Exchange) -> None:
        """A request is withheld, because the recorded cluster refused it."""
        self._state.group(exchange.request["group_id"]).coming.pop(exchange, None)

    def request(self, exchange: Exchange, values: Values) -> NotSent | None:
        """Translates `values`, or says why the request is not sent."""
        if exchange.api_key in NOTED_WHEN_DUE:
            self.due(exchange)
        group = self._state.group(values["group_id"])
        if exchange.api_key == JOIN_GROUP:
            return self._join(exchange, group, values)
        if exchange.api_key == LEAVE_GROUP:
            return self._leave(exchange, group, values)
        if exchange.api_key == SYNC_GROUP:
            # it waits for no other request any more
            group.syncs_due.discard(_sync_of(exchange))
        return self._quote(exchange, group, values)

    def _join(self, exchange: Exchange, group: Group, values: Values) -> NotSent | None:
        is_early = exchange in self._early
        member = self._state.known(group.name, self._recorded_id(exchange) if is_early else values["member_id"])
        if is_early and member:
            return self._rejoins.again(exchange, group, member)
        self._rejoins.part(exchange, group)
        if member:
            lost = self._lost(exchange)
            not_sent = (
                self._state.expelled(exchange, member) if lost else self._rejoins.not_sent(exchange, group, member)
            )
            if not_sent:
                return not_sent
        elif values["member_id"] and error_of(exchange.answer) == UNKNOWN_MEMBER_ID:
            # the recorded member left before, and is not in the target's group: the join would bring in a new one
            return Withheld(Reason.NO_MEMBER, values["member_id"])
        if group.memberless:
            return Hold(Reason.NO_MEMBER)
        if self._overtakes(exchange, group, member):
            return Hold(Reason.NO_GENERATION)
        values["member_id"] = self._given.get(exchange) or (member.joins_as if member else "")
        self._state.lengthen_timeout(values)
        return None

    @staticmethod
    def _overtakes(exchange: Exchange, group: Group, member: Member | None) -> bool:
        """True for a newcomer's JoinGroup while one is in flight that led to an earlier generation in the recording.

        The target may take both into one generation. A join without a recorded answer counts as an earlier one if its
        client was gone when the newcomer asked, and the newcomer's generation lacks its member. A join that goes again
        waits for none: the target may wait for it before it answers the others.
        """
        answer = exchange.answer
        if answer is None or error_of(answer) or exchange in group.joins or (member and member.state.present):
            return False
        generation = answer["generation_id"]
        roster = group.rosters.get((generation, answer["leader"]))

        def was_gone(join: Exchange, name: str | None) -> bool:
            is_over = join.cut_ns is not None and join.cut_ns <= exchange.first_ns
            return is_over and roster is not None and name is not None and name not in roster

        return any(
            not error_of(join.answer) and join.answer["generation_id"] < generation
            if join.answer
            else was_gone(join, name)
            for join, name in group.joins.items()
        )

    def _quote(self, exchange: Exchange, group: Group, values: Values) -> NotSent | None:
        """Translates member id and generation of a Heartbeat or SyncGroup."""
        member = self._state.known(group.name, values["member_id"])
        if member is None:
            return Withheld(Reason.NO_MEMBER, values["member_id"])
        lost = self._lost(exchange)
        not_sent = self._state.expelled(exchange, member) if lost else self._unsettled(exchange, member)
        if not_sent:
            return not_sent
        generation = self._state.generation(group, member, values["generation_id"])
        if generation is None and not lost:
            return Withheld(Reason.NO_GENERATION, f"generation {values['generation_id']}")
        values |= {"member_id": member.target, "generation_id": values["generation_id"] if lost else generation}
        return self._sync(exchange, group, member, values) if exchange.api_key == SYNC_GROUP else None

    def _unsettled(self, exchange: Exchange, member: Member) -> NotSent | None:
        """Holds an unsettled member's request. A member that joined by a made request may send its own SyncGroup."""
        asks_itself = exchange.api_key == SYNC_GROUP and member.state is MemberState.UNSYNCED
        return None if asks_itself else self._state.unsettled(exchange, member)

    @staticmethod
    def _lost(exchange: Exchange) -> bool:
        """True if the recorded cluster answered that it does not know the member."""
        return error_of(exchange.answer) == UNKNOWN_MEMBER_ID and not left_meanwhile(exchange.answer)

    def _leave(self, exchange: Exchange, group: Group, values: Values) -> NotSent | None:
        entries = values.get("members")
        leaving = {values.get("member_id"), *(entry["member_id"] for entry in entries or ())}
        if any(member in leaving and _has_joined(join) for join, member in group.joins.items()):
            return Hold(Reason.NO_MEMBER)
        for one in filter(None, (self._state.known(group.name, name) for name in leaving)):
            # the target does not know it until its made join is answered, perhaps by another id
            if one.state.joins_again and isinstance(hold := self._state.unsettled(exchange, one), Hold):
                return hold
        if entries is None:
            member = self._state.known(group.name, values["member_id"])
            values["member_id"] = member.target if member else ""
            return None if member else Withheld(Reason.NO_MEMBER)
        # an administrator removes static members by instance id alone
        values["members"] = [
            entry | {"member_id": member.target} if member else entry
            for entry in entries
            if (member := self._state.known(group.name, entry["member_id"])) or not entry["member_id"]
        ]
        return None if values["members"] else Withheld(Reason.NO_MEMBER)

    # -- assignments ------------------------------------------------------------------------------------------------

    def _sync(self, exchange: Exchange, group: Group, member: Member, values: Values) -> NotSent | None:
        for name in ("protocol_type", "protocol_name"):
            if name in values and member.answer.get(name) is not None:
                values[name] = member.answer[name]
        values["assignments"] = []
        recorded = exchange.request["generation_id"], member.recorded_leader
        if self._state.is_unassigned(group.name, recorded[0]) and not error_of(exchange.answer):
            self._keep_given(exchange, group, recorded)
        if not needs_assignment(group, member):
            return self._elected_elsewhere(exchange, group, member)
        if recorded not in group.assignments or self._awaits_leader(exchange, group, recorded):
            # The recorded generation ended without an assignment: a member joined or left before the leader's
            # SyncGroup. That member's request waits for this one, and the leader's SyncGroup for that request: so this
            # one must not wait.
            never = bool(error_of(exchange.answer)) or self._state.is_unassigned(group.name, recorded[0])
            return Withheld(Reason.NO_LEADER) if never else Hold(Reason.NO_LEADER)
        if self.awaits_members(group, recorded):
            return Hold(Reason.NO_LEADER)
        if self._state.options.speed is None and group.followed_at is not None:
            after = group.followed_at + AFTER_FOLLOWERS
            if self._state.now < after:
                return Hold(Reason.NO_LEADER, after)
        values["assignments"] = self.assigned(group, member, recorded)
        return None

    @staticmethod
    def _keep_given(exchange: Exchange, group: Group, recorded: Generation) -> None:
        """Keeps the assignment that the recorded cluster gave a member, of which the recording lacks the leader's."""
        given = group.assignments.get(recorded, [])
        if exchange.answer and exchange.request["member_id"] not in {entry["member_id"] for entry in given}:
            entry = {"member_id": exchange.request["member_id"], "assignment": exchange.answer["assignment"]}
            group.keep(group.assignments, recorded, [*given, entry])
            group.led.add(recorded)

    def _elected_elsewhere(self, exchange: Exchange, group: Group, member: Member) -> NotSent | None:
        """Keeps a follower from waiting for a leader whose SyncGroup can't come.

        The target answers a follower's SyncGroup after the elected leader's. If the target made one generation of two
        recorded ones, the elected leader may be a member of the second one only. Its SyncGroup then leaves after this
        member's next join, and this member would wait for ever. Of the assignments of a generation from before, the
        elected leader sends what is known by then (`_keep_given`), perhaps without this member's.
        """
        if group.elected(member) or member.current != group.generation:
            return None
        if self._state.is_unassigned(group.name, exchange.request["generation_id"]):
            return Withheld(Reason.NO_LEADER)
        if group.assigned == member.current:
            return None
        leader = group.elected_member
        if (leader.id in group.joins.values()) if leader else group.joins:
            return Hold(Reason.NO_LEADER)
        # a leader that has left began a rebalance, for which the target refuses this SyncGroup
        if leader and leader.state.present and leader.recorded != exchange.request["generation_id"]:
            return Withheld(Reason.NO_LEADER)
        return None

    @staticmethod
    def awaits_members(group: Group, recorded: Generation) -> bool:
        """True while an assigned member's JoinGroup is in flight, whose answer tells the target's id of it."""
        assigned = {entry["member_id"] for entry in group.assignments[recorded]}
        # a recorded answer that was not read yet when the join left may be there by now
        joining = {member or (join.answer or {}).get("member_id") for join, member in group.joins.items()}
        return bool(assigned & joining - {member.id for member in group.present()})

    @staticmethod
    def _awaits_leader(exchange: Exchange, group: Group, recorded: Generation) -> bool:
        """True until the recorded leader's SyncGroup has left, or never will. The elected member's takes its place.

        No coordinator is used to a leader that syncs first: some mock brokers never answer the followers' SyncGroups
        then.
        """
        return exchange.request["member_id"] != recorded[1] and recorded not in group.led

    @staticmethod
    def assigned(group: Group, member: Member, recorded: Generation) -> list[Values]:
        """The assignments of a recorded generation, for the target's members."""
        protocol_type = (member.join or {}).get("protocol_type")
        return assignments.mapped(group.assignments[recorded], protocol_type, lambda one: _target_of(group, one))

    # -- answers ----------------------------------------------------------------------------------------------------

    def sent(self, exchange: Exchange, values: Values) -> None:
        """The request leaves now."""
        request = exchange.request
        group = self._state.group(request["group_id"])
        recorded = request.get("member_id")
        if exchange.api_key == LEAVE_GROUP:
            group.departure_left(exchange, self._leaving(group, values))
        elif exchange.api_key == SYNC_GROUP and not request["assignments"]:
            group.followed_at = self._state.now
        elif exchange.api_key == JOIN_GROUP:
            recorded = recorded or (exchange.answer or {}).get("member_id")
            group.joins[exchange] = recorded
            group.coming.pop(exchange, None)
        if exchange.api_key == SYNC_GROUP:
            self._lead(exchange, group)
        self._state.request_left(exchange, group, group.members.get(recorded or ""))

    @staticmethod
    def _lead(exchange: Exchange, group: Group) -> None:
        """Notes that the recorded leader's SyncGroup has left, or will not be sent."""
        if exchange.api_key == SYNC_GROUP and exchange.request["assignments"]:
            group.led.add((exchange.request["generation_id"], exchange.request["member_id"]))

    def lost(self, exchange: Exchange) -> None:
        """No answer will come.

        The member of a lost JoinGroup may have joined or not: it joins again by a made request. A made SyncGroup asks
        for the assignment instead of a lost one. Who may not have left by a lost LeaveGroup leaves by a made one.
        """
        group = self._state.group(exchange.request["group_id"])
        self._hear(exchange, group)
        self._lead(exchange, group)
        if exchange in group.joins and (member := group.members.get(group.joins[exchange] or "")):
            member.on(Event.JOIN_LOST)
        if exchange.api_key == SYNC_GROUP:
            group.syncs_due.discard(_sync_of(exchange))
        is_sync = exchange.api_key == SYNC_GROUP and not error_of(exchange.answer)
        member = group.members.get(exchange.request["member_id"]) if is_sync else None
        if member and self._gets_assignment(exchange, group, member):
            member.synced = exchange.request["generation_id"]
            member.on(Event.UNASSIGNED)
        self._state.request_ended(exchange)
        group.joins.pop(exchange, None)
        group.coming.pop(exchange, None)
        group.departure_ended(exchange, None)
        self._given.pop(exchange, None)
        self._early.discard(exchange)

    def _gets_assignment(self, exchange: Exchange, group: Group, member: Member) -> bool:
        """False for a member without a recorded assignment: it owes no SyncGroup, joins again, and may commit before.

        If the recording lacks the leader's assignments alone, the elected member sends those of `_keep_given`.
        """
        generation, leader = exchange.request["generation_id"], group.elected_member
        given = group.assignments.get((generation, member.recorded_leader), ())
        is_given = leader is not None and leader is not member and leader.id in {each["member_id"] for each in given}
        return is_given or not self._state.is_unassigned(group.name, generation)

    @staticmethod
    def _hear(exchange: Exchange, group: Group) -> None:
        """Notes that the recorded cluster told a member to rejoin, whether or not its request could be sent."""
        member = group.members.get(exchange.request.get("member_id", ""))
        if member and exchange.api_key != JOIN_GROUP:
            member.recorded_to_rejoin |= error_of(exchange.answer) == REBALANCE_IN_PROGRESS

    def answered(self, exchange: Exchange, values: Values, answer: Values) -> Resend | None:
        """Learns member ids and generations. Sends the request again after a refusal that can be mended."""
        self._state.request_ended(exchange)
        group = self._state.group(exchange.request["group_id"])
        if exchange.api_key == LEAVE_GROUP:
            group.departure_ended(exchange, answer)
            return None
        if exchange.api_key == JOIN_GROUP:
            group.coming.pop(exchange, None)
            again = self._joined(exchange, group, values, answer)
            if not again or exchange in self._early:
                group.joins.pop(exchange, None)
            if not again:
                self._early.discard(exchange)
            return again
        return self._told(exchange, group, values, answer)

    def _joined(self, exchange: Exchange, group: Group, values: Values, answer: Values) -> Resend | None:
        error, recorded_error = error_of(answer), error_of(exchange.answer)
        again = self._not_joined(exchange, group, answer) if error not in (0, MEMBER_ID_REQUIRED) else None
        if error == MEMBER_ID_REQUIRED and recorded_error != MEMBER_ID_REQUIRED:
            self._given[exchange] = answer["member_id"]
            again = Resend() if self._state.may_mend(exchange) else None
        if not again:
            self._given.pop(exchange, None)
        if error in (0, MEMBER_ID_REQUIRED):
            self._identified(exchange, group, values, answer)
        if not error and self._lacks_members(exchange, group, answer) and self._state.may_mend(exchange):
            self._early.add(exchange)
            again = Resend()
        return again

    @staticmethod
    def _lacks_members(exchange: Exchange, group: Group, answer: Values) -> bool:
        """True for the leader of a generation that the target began without joins that are still to be answered.

        The recorded answer to the leader names their members, too. So does the target's to a made join that brings the
        leader into the next generation.
        """
        recorded = (exchange.answer or {}).get("members", ())
        return 0 < len(answer["members"]) < len(recorded) and group.awaits(exchange)

    def _identified(self, exchange: Exchange, group: Group, values: Values, answer: Values) -> None:
        """Learns the target's member id. A member without a recorded id can do nothing more, so it leaves."""
        recorded = self._recorded_id(exchange)
        member = self._state.member(group, recorded or answer["member_id"])
        self._state.identify(group, member, answer["member_id"])
        if not answer["error_code"]:
            self._accepted(exchange, group, member, values, answer)
            if not recorded:
                member.on(Event.EXPELLED)

    @staticmethod
    def _recorded_id(exchange: Exchange) -> str | None:
        recorded: str | None = exchange.request["member_id"] or (exchange.answer or {}).get("member_id")
        return recorded

    def _accepted(self, exchange: Exchange, group: Group, member: Member, values: Values, answer: Values) -> None:
        recorded = exchange.answer if not error_of(exchange.answer) else None
        joined(group, member, answer)
        member.join, member.protocols = values, exchange.request["protocols"]
        member.recorded_to_rejoin = member.gave_up = member.is_over = False
        member.instance = exchange.request.get("group_instance_id")
        if member.instance is not None:
            self._replaced(group, group.instances.get(member.instance, member), member)
        member.session = values["session_timeout_ms"] * MILLISECOND
        member.longest_silence = pace(member.session // HEARTBEATS_A_SESSION)
        self._state.note_request(exchange, member)
        self._state.advance(group, member, recorded["generation_id"] if recorded else None, answer["generation_id"])
        if recorded:
            member.recorded_leader = recorded["leader"]
            group.forget_before((member.recorded, member.recorded_leader))

    @staticmethod
    def _replaced(group: Group, former: Member, member: Member) -> None:
        """A static member is back with a new id. Its former id is gone."""
        group.instances[member.instance or ""] = member
        if former is not member:
            former.on(Event.LEFT)

    def _not_joined(self, exchange: Exchange, group: Group, answer: Values) -> Resend | None:
        member = group.members.get(exchange.request["member_id"])
        if member is None or error_of(answer) == error_of(exchange.answer):
            return None
        if error_of(answer) == UNKNOWN_MEMBER_ID:
            member.on(Event.GONE)
            member.joins_as = ""
        mended = error_of(answer) in MENDED and self._state.may_mend(exchange)
        return Resend() if mended else None

    def _told(self, exchange: Exchange, group: Group, values: Values, answer: Values) -> Resend | None:
        """Takes the answer to a Heartbeat or SyncGroup."""
        member = group.members.get(exchange.request["member_id"])
        if member is None:
            return None
        error, recorded_error = error_of(answer), error_of(exchange.answer)
        if recorded_error == REBALANCE_IN_PROGRESS:
            self._hear(exchange, group)
        was_told_early = member.state is MemberState.TOLD_EARLY
        is_told = error == REBALANCE_IN_PROGRESS and not is_outdated(member, error, values["generation_id"])
        if is_told:
            member.on(Event.TOLD)
        if not error:
            if exchange.api_key == SYNC_GROUP:
                synced(group, member, exchange.request["generation_id"])
            return None
        if error == recorded_error or error not in MENDED or member.is_over:
            if error == UNKNOWN_MEMBER_ID:
                member.on(Event.GONE)
            return None
        is_early = exchange.api_key == HEARTBEAT and is_told and not was_told_early
        if is_early and group.changed_since(member):
            member.on(Event.TOLD_EARLY)
            return None
        return self._state.mend(exchange, group, member, error, values["generation_id"])

    @staticmethod
    def _leaving(group: Group, values: Values) -> list[Member]:
        """The members that a LeaveGroup names."""
        entries = values.get("members") or ()
        targets = {values.get("member_id"), *(entry["member_id"] for entry in entries)}
        instances = {entry["group_instance_id"] for entry in entries} - {None}
        return [
            member
            for member in group.active.values()
            if member.target in targets or (member.join or {}).get("group_instance_id") in instances
        ]


def _sync_of(exchange: Exchange) -> tuple[int, str]:
    """A SyncGroup's recorded generation, and its member."""
    return exchange.request["generation_id"], exchange.request["member_id"]


def _has_joined(join: Exchange) -> bool:
    """True if the recorded cluster answered a join, and the member did not leave while it waited."""
    return join.answered_ns is not None and not left_meanwhile(join.answer)


def _assigned_before(group: Group, generation: Generation) -> list[Values]:
    """What a static leader that is back had sent for its generation under its former id: it sends nothing anew."""
    earlier = (kept for (number, _), kept in group.assignments.items() if number == generation[0] and kept)
    return next(earlier, [])


def _target_of(group: Group, recorded: str) -> str | None:
    """The target's id of an assigned member. A static member that is back takes its former id's assignment."""
    member = group.members.get(recorded)
    if member and member.instance is not None:
        member = group.instances.get(member.instance)
    return (member.target if member else None) or None


def needs_assignment(group: Group, member: Member) -> bool:
    """True for the elected leader of a generation that has no assignment yet."""
    if not group.elected(member) or member.answer.get("skip_assignment"):
        return False
    return group.assigned != member.current


def joined(group: Group, member: Member, answer: Values) -> None:
    """The target took a member into a generation."""
    member.on(Event.JOINED)
    member.answer, member.asks_since = answer, None
    # Kafka no longer answers a made JoinGroup that is in flight
    member.made_in_flight = False
    if answer["generation_id"] >= group.generation:
        group.generation, group.leader = answer["generation_id"], answer["leader"]


def synced(group: Group, member: Member, recorded: int) -> None:
    """The target gave a member its assignment."""
    member.on(Event.SYNCED)
    member.synced = max(member.synced, recorded)
    group.assigned = max(group.assigned, member.current or 0)


def gone(group: Group, member: Member) -> None:
    """A member left, so the others have to rebalance."""
    member.on(Event.GONE)
    group.left_at = max(group.left_at, group.generation)
