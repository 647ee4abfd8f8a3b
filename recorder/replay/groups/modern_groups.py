"""Groups whose coordinator assigns by heartbeats: consumers (KIP-848), shares (KIP-932) and streams (KIP-1071).

member id           made by the client, unchanged; in version 0 the target's answer gives it
member epoch        the target's last one for the recorded last one, else the paired one; 0 and below unchanged
owned partitions    [] when joining; the target's assignment once after the answer that gave it; else null. What the
                    recorded member owned says nothing, since the target assigns on its own
endpoint epoch      the target's last
refusals            after errors 25, 110 and 113 that the recording lacks the member joins again, and its heartbeat is
                    sent again
"""

from __future__ import annotations

from typing import NamedTuple

from proxy.wire.error_codes import FENCED_MEMBER_EPOCH, STALE_MEMBER_EPOCH, UNKNOWN_MEMBER_ID
from proxy.wire.keys import CONSUMER_GROUP_HEARTBEAT, SHARE_GROUP_HEARTBEAT, STREAMS_GROUP_HEARTBEAT
from recorder.replay.groups.member_states import Event, MemberState
from recorder.replay.groups.members import Group, Member, Memberships, error_of, pace
from recorder.replay.names import Names
from recorder.replay.plan import MILLISECOND, Exchange, Hold, NotSent, Reason, Resend, Values, Withheld
from recorder.replay.requests.apis import JOIN_EPOCH

# errors of the target alone after which a member joins again
MENDED = frozenset({UNKNOWN_MEMBER_ID, FENCED_MEMBER_EPOCH, STALE_MEMBER_EPOCH})


class Heartbeats(NamedTuple):
    """The heartbeats of one kind of group.

    Attributes:
        owned: the fields with what a member owns.
        makes_ids: the versions whose answers give member ids; in later ones clients make their own.
    """

    owned: tuple[str, ...]
    makes_ids: range


HEARTBEATS = {
    CONSUMER_GROUP_HEARTBEAT: Heartbeats(("topic_partitions",), range(1)),
    SHARE_GROUP_HEARTBEAT: Heartbeats((), range(1)),
    STREAMS_GROUP_HEARTBEAT: Heartbeats(("active_tasks", "standby_tasks", "warmup_tasks"), range(0)),
}


class ModernGroups:
    """Translates heartbeats of groups whose coordinator assigns."""

    API_KEYS = frozenset(HEARTBEATS)

    def __init__(self, state: Memberships) -> None:
        self._state = state

    def request(self, exchange: Exchange, values: Values) -> NotSent | None:
        """Translates `values`, or says why the request is not sent."""
        group = self._state.group(values["group_id"])
        member = self._state.known(group.name, values["member_id"])
        not_sent = self._not_sent(exchange, group, member, values)
        if not_sent:
            return not_sent
        if member:
            values["member_id"] = member.target
            epoch = self._state.generation(group, member, values["member_epoch"])
            # only a member that the recording lost may quote an epoch that no answer of the target gave
            values["member_epoch"] = values["member_epoch"] if epoch is None else epoch
        self._own(exchange.api_key, member, values)
        self._state.lengthen_timeout(values)
        return None

    def _not_sent(self, exchange: Exchange, group: Group, member: Member | None, values: Values) -> NotSent | None:
        epoch = values["member_epoch"]
        if epoch == JOIN_EPOCH:
            return self._joining(exchange, group, member)
        if member is None:
            given = exchange.version in HEARTBEATS[exchange.api_key].makes_ids or epoch < JOIN_EPOCH
            return Withheld(Reason.NO_MEMBER if given else Reason.NO_GENERATION, values["member_id"])
        if error_of(exchange.answer) == UNKNOWN_MEMBER_ID:
            return self._state.expelled(exchange, member)
        if epoch > JOIN_EPOCH and self._state.generation(group, member, epoch) is None:
            return Withheld(Reason.NO_GENERATION, f"member epoch {epoch}")
        return self._state.unsettled(exchange, member)

    def _joining(self, exchange: Exchange, group: Group, member: Member | None) -> NotSent | None:
        """A join settles any member, so only one that has to leave first holds it, or a commit of no member."""
        if group.memberless:
            return Hold(Reason.NO_MEMBER)
        return self._state.unsettled(exchange, member) if member and member.state is MemberState.LEAVING else None

    def _own(self, api_key: int, member: Member | None, values: Values) -> None:
        owned = member.owned if member and member.owned and values["member_epoch"] > JOIN_EPOCH else None
        for name in HEARTBEATS[api_key].owned:
            values[name] = [] if values["member_epoch"] == JOIN_EPOCH else (owned or {}).get(name)
        if values.get("topic_partitions"):
            values["topic_partitions"] = recorded_ids(values["topic_partitions"], self._state.names)
        if "endpoint_information_epoch" in values and member and member.endpoint_epoch is not None:
            values["endpoint_information_epoch"] = member.endpoint_epoch

    def sent(self, exchange: Exchange, values: Values) -> None:
        """The request leaves now."""
        group = self._state.group(exchange.request["group_id"])
        member = group.members.get(exchange.request["member_id"])
        if member:
            member.confirming = member.owned
        if exchange.request["member_epoch"] == JOIN_EPOCH:
            group.newcomers.add(exchange)
        elif exchange.request["member_epoch"] < JOIN_EPOCH and member:
            group.departure_left(exchange, [member])
        self._state.request_left(exchange, group, member)

    def lost(self, exchange: Exchange) -> None:
        """No answer will come.

        A member whose heartbeat had left asks for its epoch, and confirms again what it owns. If the heartbeat was its
        departure, it leaves by a made one.
        """
        found = self._end(exchange, None)
        if found and found[1] and not found[1].is_over:
            found[1].on(Event.EPOCH_LOST)

    def _end(self, exchange: Exchange, answer: Values | None) -> tuple[Group, Member | None] | None:
        found = self._state.request_ended(exchange)
        if found:
            found[0].newcomers.discard(exchange)
            found[0].departure_ended(exchange, answer)
        return found

    def answered(self, exchange: Exchange, values: Values, answer: Values) -> Resend | None:
        """Learns ids, epochs and assignments. Sends the request again after a refusal that can be mended."""
        self._end(exchange, answer)
        group = self._state.group(exchange.request["group_id"])
        error = error_of(answer)
        if error:
            return self._refused(exchange, group, values, error)
        recorded = exchange.request["member_id"] or (exchange.answer or {}).get("member_id") or answer.get("member_id")
        member = self._state.member(group, recorded or "", exchange.api_key)
        self._state.identify(group, member, answer.get("member_id") or values["member_id"])
        if exchange.request["member_epoch"] >= JOIN_EPOCH:
            self._accepted(exchange, group, member, values, answer)
        return None

    def _accepted(self, exchange: Exchange, group: Group, member: Member, values: Values, answer: Values) -> None:
        recorded = exchange.answer if error_of(exchange.answer) == 0 else None
        if values["member_epoch"] == JOIN_EPOCH:
            member.join, member.gave_up, member.is_over = values, False, False
        self._state.note_request(exchange, member)
        heartbeat_answered(member, answer)
        self._state.advance(group, member, recorded["member_epoch"] if recorded else None, answer["member_epoch"])

    def _refused(self, exchange: Exchange, group: Group, values: Values, error: int) -> Resend | None:
        member = group.members.get(exchange.request["member_id"])
        if member is None:
            return None
        if error == error_of(exchange.answer) or error not in MENDED or exchange.request["member_epoch"] < JOIN_EPOCH:
            if error == UNKNOWN_MEMBER_ID:
                member.on(Event.GONE)
            return None
        if exchange.request["member_epoch"] == JOIN_EPOCH:
            # it leaves before it joins
            member.on(Event.STILL_THERE)
            return Resend() if self._state.may_mend(exchange) else None
        return self._state.mend(exchange, group, member, error, values["member_epoch"])


def heartbeat_answered(member: Member, answer: Values) -> None:
    """The target answered a heartbeat. The member's next one confirms what the answer assigned."""
    if member.is_over:
        # its departure has overtaken the heartbeat
        return
    member.on(Event.JOINED)
    member.longest_silence = pace(answer["heartbeat_interval_ms"] * MILLISECOND)
    member.endpoint_epoch = answer.get("endpoint_information_epoch", member.endpoint_epoch)
    unconfirmed = None if member.owned is member.confirming else member.owned
    member.owned, member.confirming = _assigned(member.api_key, answer) or unconfirmed, None


def _assigned(api_key: int, answer: Values) -> Values | None:
    """The request fields that confirm what an answer assigned; None if it assigned nothing new."""
    if api_key == CONSUMER_GROUP_HEARTBEAT:
        assignment = answer.get("assignment")
        return None if assignment is None else {"topic_partitions": assignment["topic_partitions"]}
    tasks = {name: answer.get(name) for name in HEARTBEATS[api_key].owned}
    if all(value is None for value in tasks.values()):
        return None
    return {name: value or [] for name, value in tasks.items()}


def recorded_ids(owned: list[Values], names: Names) -> list[Values]:
    """Topics under their recorded ids, for later translation.

    Topics that the recording lacks are left out: the coordinator takes them for given up.
    """
    found = ((names.recorded_id(entry["topic_id"]), entry) for entry in owned)
    return [entry | {"topic_id": topic_id} for topic_id, entry in found if topic_id is not None]
