"""Translates the member that OffsetCommit, OffsetFetch and TxnOffsetCommit quote.

If the target knows the member and its generation, the request quotes both. A member of a modern group quotes the epoch
that it has on the target by now: coordinators take a former one only for partitions that the member has had since, and
the target assigns on its own. Otherwise OffsetFetch and TxnOffsetCommit go as requests of no member. So does an
OffsetCommit to an empty group; Kafka refuses it in any other, so it is withheld. So is each request whose member the
recorded cluster refused: of no member, the target would take it.

A member whose recorded answer is error 25 leaves the target's group first, as in `classic`.
"""

from __future__ import annotations

from proxy.wire.error_codes import REBALANCE_IN_PROGRESS, UNKNOWN_MEMBER_ID
from proxy.wire.keys import OFFSET_COMMIT, OFFSET_FETCH, TXN_OFFSET_COMMIT
from recorder.replay import partitions
from recorder.replay.groups.classic import MENDED as MENDED_CLASSIC
from recorder.replay.groups.classic import needs_assignment
from recorder.replay.groups.member_states import Event, MemberState
from recorder.replay.groups.members import INT32_MAX, Group, Member, Memberships, is_outdated
from recorder.replay.groups.modern_groups import MENDED as MENDED_MODERN
from recorder.replay.plan import Exchange, NotSent, Reason, Resend, Values, Withheld

# the fields of a request that no member sends
NO_MEMBER: dict[int, Values] = {
    OFFSET_COMMIT: {"member_id": "", "generation_id_or_member_epoch": -1, "group_instance_id": None},
    TXN_OFFSET_COMMIT: {"member_id": "", "generation_id_or_member_epoch": -1, "group_instance_id": None},
    OFFSET_FETCH: {"member_id": None, "member_epoch": -1},
}
EPOCH = {
    OFFSET_COMMIT: "generation_id_or_member_epoch",
    TXN_OFFSET_COMMIT: "generation_id_or_member_epoch",
    OFFSET_FETCH: "member_epoch",
}
# errors that are about the member which a request quotes
_OF_MEMBERS = MENDED_CLASSIC | MENDED_MODERN


class Commits:
    """Translates requests that quote a member without changing its membership."""

    API_KEYS = frozenset(NO_MEMBER)

    def __init__(self, state: Memberships) -> None:
        self._state = state

    def request(self, exchange: Exchange, values: Values) -> NotSent | None:
        """Translates `values`, or says why the request is not sent."""
        for part in _parts(values):
            not_sent = self._quote(exchange, part) if part.get("member_id") else None
            if not_sent:
                return not_sent
        return None

    def _quote(self, exchange: Exchange, part: Values) -> NotSent | None:
        group, field = self._state.group(part["group_id"]), EPOCH[exchange.api_key]
        member = self._state.known(group.name, part["member_id"])
        refusals = partitions.codes(exchange, exchange.answer) & _OF_MEMBERS
        hold = self._state.expelled if UNKNOWN_MEMBER_ID in refusals else self._state.unsettled
        not_sent = hold(exchange, member) if member else None
        if not_sent:
            return not_sent
        generation = self._generation(group, member, part[field]) if member else None
        if member is None or generation is None:
            if refusals or (exchange.api_key == OFFSET_COMMIT and not group.empty):
                return Withheld(Reason.NO_GENERATION if member else Reason.NO_MEMBER, part["member_id"])
            part |= {name: value for name, value in NO_MEMBER[exchange.api_key].items() if name in part}
            return None
        part |= {"member_id": member.target, field: generation}
        return None

    def _generation(self, group: Group, member: Member, recorded: int) -> int | None:
        return self._state.generation(group, member, recorded) if member.classic or recorded <= 0 else member.current

    def sent(self, exchange: Exchange, values: Values) -> None:
        """The request leaves now."""
        for part in _parts(exchange.request):
            group = self._state.group(part["group_id"])
            self._state.request_left(exchange, group, None)
            if exchange.api_key == OFFSET_COMMIT and not values["member_id"]:
                group.memberless.add(exchange)

    def lost(self, exchange: Exchange) -> None:
        """No answer will come."""
        self._end(exchange)

    def _end(self, exchange: Exchange) -> None:
        ended = self._state.request_ended(exchange)
        if ended:
            ended[0].memberless.discard(exchange)

    def answered(self, exchange: Exchange, values: Values, answer: Values) -> Resend | None:
        """Sends the request again after a refusal of its member that can be mended."""
        self._end(exchange)
        recorded, told = partitions.codes(exchange, exchange.answer), partitions.codes(exchange, answer)
        quoted = values.get(EPOCH[exchange.api_key], INT32_MAX)
        for part in _parts(exchange.request):
            member = self._state.known(part.get("group_id"), part.get("member_id"))
            if member:
                member.recorded_to_rejoin |= REBALANCE_IN_PROGRESS in recorded
                if REBALANCE_IN_PROGRESS in told and not is_outdated(member, REBALANCE_IN_PROGRESS, quoted):
                    member.on(Event.TOLD)
                again = self._mended(exchange, self._state.group(part["group_id"]), member, told - recorded, quoted)
                if again:
                    return again
        return None

    def _mended(self, exchange: Exchange, group: Group, member: Member, unlike: set[int], quoted: int) -> Resend | None:
        errors = sorted(unlike & (MENDED_CLASSIC if member.classic else MENDED_MODERN))
        if not errors:
            return None
        error = UNKNOWN_MEMBER_ID if UNKNOWN_MEMBER_ID in errors else errors[-1]
        if error == REBALANCE_IN_PROGRESS and group.changed_since(member):
            # the recorded cluster has this rebalance too
            return None
        if error == REBALANCE_IN_PROGRESS and self._ends_unassigned(group):
            return Resend() if self._state.may_mend(exchange) else None
        return self._state.mend(exchange, group, member, error, quoted)

    def _ends_unassigned(self, group: Group) -> bool:
        """True if the elected leader ends a generation for which the recorded leader has sent no assignment.

        The recorded group was rebalancing already, and took commits. The target's takes none before it has an
        assignment, which nothing would ever bring: the elected leader makes a SyncGroup with an empty one, or leaves if
        its client is gone. Nobody waits for its session timeout at `max`.
        """
        leader = group.elected_member
        if leader is None or not needs_assignment(group, leader):
            return False
        if not leader.connections:
            if self._state.options.speed is None:
                leader.on(Event.EXPELLED)
            return leader.state is MemberState.LEAVING
        recorded = leader.recorded, leader.recorded_leader
        if recorded not in group.assignments:
            if not self._state.is_unassigned(group.name, leader.recorded):
                return False
            group.keep(group.assignments, recorded, [])
        leader.synced = leader.recorded
        leader.on(Event.UNASSIGNED)
        return True


def _parts(values: Values) -> list[Values]:
    """The structs of a request that name a group each."""
    parts: list[Values] = values.get("groups", [values])
    return parts
