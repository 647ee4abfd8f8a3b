"""When a member of a classic group may join again.

A rejoin that leaves before the join that caused it completes a rebalance without the newcomer, and causes a second
rebalance that the recording does not have. The first row that applies decides:

    the member's state                             the rejoin leaves
    -------------------------------------------------------------------------------------------------------------------
    a made join of it is in flight                 when that is answered: of two joins, the second would begin another
                                                     generation
    the target told it to rejoin, or lost it       now
    the recorded rejoin made no new generation,    now
      but another join in flight did (`Group.is_ahead`)
    the recorded rejoin made no new generation     never, nor does the target's leader start a rebalance; the rejoin is
                                                     answered with the member's present generation
    the recorded cluster did not tell it           now; but see `_forces`
    another member joined or left since            when the target tells it, which made heartbeats ask; after 5 s at
                                                     the latest
    the recording lost members, or it is not       the same, once lost members have left by made requests
      known whether it did
    it is the elected leader, and its              now: the recorded cluster assigned anew, and in a stable group only
      generation has an assignment                   the leader's join starts a rebalance
    else                                           never: the target's present generation answers this rejoin, too
"""

from __future__ import annotations

from typing import Any

from recorder.replay.groups.member_states import Event
from recorder.replay.groups.members import Group, Member, Memberships, error_of
from recorder.replay.plan import NANOSECONDS, AnsweredBefore, Exchange, Hold, NotSent, Reason, Values

# By default clients ask every 3 s whether to rejoin; made heartbeats ask more often.
LONGEST_ASKING = 5 * NANOSECONDS


class Rejoins:
    """Decides when rejoins leave."""

    def __init__(self, state: Memberships) -> None:
        self._state = state

    def not_sent(self, exchange: Exchange, group: Group, member: Member) -> NotSent | None:
        """Why a member's JoinGroup does not leave now; None if it may."""
        if member.state.joins_again and member.made_in_flight:
            return Hold(Reason.NO_GENERATION)
        if member.state.told or member.state.joins_again or not member.state.present:
            return None
        if self._changes_nothing(exchange, member):
            return None if group.is_ahead else self._present(exchange, group, member)
        if not (member.recorded_to_rejoin or self._forces(exchange, group, member)):
            return None
        if group.changed_since(member):
            return self._asking(member)
        lost = self._lost(exchange, group)
        for one in lost or ():
            one.on(Event.EXPELLED)
        waits = self._asking(member) if lost or lost is None else None
        starts_anew = group.elected(member) and group.assigned == member.current
        return waits or (None if starts_anew else self._present(exchange, group, member))

    def again(self, exchange: Exchange, group: Group, member: Member) -> NotSent | None:
        """What becomes of a leader's JoinGroup that the target answered without others of its recorded generation.

        Once those are on their way, a made join takes their leader along, which may be answered behind theirs. A second
        join of its own would begin a generation that the recording does not have.
        """
        if group.is_ahead or group.awaits(exchange):
            return Hold(Reason.NO_GENERATION)
        return self._state.unsettled(exchange, member) or self._present(exchange, group, member)

    def _asking(self, member: Member) -> Hold | None:
        """Has made heartbeats ask whether this member should rejoin. None once they have asked for long."""
        if member.asks_since is None:
            member.asks_since = self._state.now
        return Hold(Reason.NO_GENERATION) if self._state.now - member.asks_since < LONGEST_ASKING else None

    def _forces(self, exchange: Exchange, group: Group, member: Member) -> bool:
        """True if the recorded leader's rejoin started a rebalance, and would start none on the target.

        A rejoin starts a rebalance if it is the leader's, or if the member changed its protocols. If the target elected
        another leader, that one joins first by a made request.
        """
        if not self._started_rebalance(exchange, member) or member.recorded_leader != member.id:
            return False
        if group.elected(member) or member.protocols != exchange.request["protocols"]:
            return False
        for one in group.present():
            if group.elected(one) and one.join and member.asks_since is None:
                one.on(Event.MUST_JOIN)
        return True

    @staticmethod
    def _started_rebalance(exchange: Exchange, member: Member) -> bool:
        answer = exchange.answer
        return answer is not None and not error_of(answer) and bool(answer["generation_id"] > member.recorded)

    def part(self, exchange: Exchange, group: Group) -> None:
        """Members that the recorded generation lacks are no longer kept alive.

        Those silent for a session timeout leave. At `max` all whose client is gone do: nobody waits for a timeout.
        """
        roster, generation = _roster(exchange, group), (exchange.answer or {}).get("generation_id", -1)
        for member in group.present():
            member.about_to_go |= roster is not None and member.id not in roster and member.recorded < generation
            is_gone = self._state.options.speed is None and not member.connections
            if member.about_to_go and (is_gone or 0 < member.session <= exchange.first_ns - member.recorded_at):
                member.on(Event.EXPELLED)

    @staticmethod
    def _lost(exchange: Exchange, group: Group) -> list[Member] | None:
        """The members that the recorded generation lacks; None if nothing tells them.

        The answer to the recorded leader's JoinGroup names all members. Without it, members whose connection ended are
        lost.
        """
        gone = [member for member in group.present() if not member.connections]
        roster = _roster(exchange, group)
        if roster is None:
            return gone or None
        return [member for member in group.present() if member.id not in roster]

    @staticmethod
    def _changes_nothing(exchange: Exchange, member: Member) -> bool:
        answer = exchange.answer
        return answer is not None and not error_of(answer) and bool(answer["generation_id"] == member.recorded)

    @staticmethod
    def _present(exchange: Exchange, group: Group, member: Member) -> AnsweredBefore | None:
        return AnsweredBefore(present_generation(exchange, group, member)) if member.answer else None


def _roster(exchange: Exchange, group: Group) -> frozenset[str] | None:
    """The members of the recorded generation that a JoinGroup led to; None if nothing tells them."""
    answer = exchange.answer or {}
    return group.rosters.get((answer.get("generation_id", -1), answer.get("leader", "")))


def present_generation(exchange: Exchange, group: Group, member: Member) -> Values:
    """The target's last answer about the member's generation, in the shape of the recorded answer."""
    told = member.answer | {"members": member.answer.get("members", ()) if group.elected(member) else []}
    if exchange.answer is None:
        return told
    return {name: _like(value, told.get(name, value)) for name, value in exchange.answer.items()}


def _like(shape: Any, value: Any) -> Any:
    """Structs reduced to the fields of the recorded answer's; unchanged if that has none."""
    if not (isinstance(shape, list) and shape):
        return value
    return [{name: one.get(name) for name in shape[0]} for one in value]
