"""When a member of a classic group may join again.

A rejoin that comes before the join that is its reason completes a rebalance without the newcomer, and a second one
follows that the recording does not have. So a rejoin that the recording told its member to (error 27) waits:

    the member's state                       the rejoin leaves
    -------------------------------------------------------------------------------------------------------------------
    the target told it, too; or lost it      now
    the recording had no new generation      never: nor has the target, whose own leader would start one
    the recording did not tell it            now; but see `_forces`
    somebody joined or left since            when the target tells it (made heartbeats ask), after 5 s at the latest
    else, the recording lost members         when those have left by made requests, and the target tells it
    else, it is the elected leader, and      now: the recording assigns anew, and of a stable group's members only the
      the generation has its assignment      leader's join starts a rebalance
    else                                     never: the target's present generation is this one as well
"""

from __future__ import annotations

from typing import Any

from recorder.replay.groups.members import Group, Member, Memberships, error_of
from recorder.replay.plan import NANOSECONDS, AnsweredBefore, Exchange, Hold, Reason, Refusal, Values

# clients ask whether to rejoin every 3 s by default; made heartbeats ask more often
LONGEST_ASKING = 5 * NANOSECONDS


class Rejoins:
    """Holds rejoins back."""

    def __init__(self, state: Memberships) -> None:
        self._state = state

    def refusal(self, exchange: Exchange, group: Group, member: Member) -> Refusal | None:
        """None: the JoinGroup of this member may leave now."""
        if member.told or member.stale or not member.present:
            return None
        if self._changes_nothing(exchange, member):
            return self._present(exchange, group, member)
        if not (member.recorded_told or self._forces(exchange, group, member)):
            return None
        if group.changed_since(member):
            return self._asking(member)
        lost = self._lost(exchange, group)
        for one in lost or ():
            one.leaving = True
        waits = self._asking(member) if lost or lost is None else None
        starts_anew = group.elected(member) and group.assigned == member.current
        return waits or (None if starts_anew else self._present(exchange, group, member))

    def _asking(self, member: Member) -> Hold | None:
        """Made heartbeats ask for this member from now on; None once they have asked for long."""
        if member.asks is None:
            member.asks = self._state.now
        return Hold(Reason.NO_GENERATION) if self._state.now - member.asks < LONGEST_ASKING else None

    def _forces(self, exchange: Exchange, group: Group, member: Member) -> bool:
        """True for a rejoin of the recorded leader that the target would not rebalance for.

        Kafka does so for its leader alone, and for members that changed what they tell. Where it elected another one,
        that one joins first, made.
        """
        if not self._started_rebalance(exchange, member) or member.recorded_leader != member.id:
            return False
        if group.elected(member) or member.protocols != exchange.request["protocols"]:
            return False
        for one in group.present():
            if group.elected(one) and one.join and member.asks is None:
                one.stale = True
        return True

    @staticmethod
    def _started_rebalance(exchange: Exchange, member: Member) -> bool:
        answer = exchange.answer
        return answer is not None and not error_of(answer) and bool(answer["generation_id"] > member.recorded)

    def part(self, exchange: Exchange, group: Group) -> None:
        """Members that the recorded generation lacks are kept alive no more, and leave if they were silent for long."""
        roster = _roster(exchange, group)
        for member in group.present():
            member.fading |= roster is not None and member.id not in roster
            member.leaving |= member.fading and 0 < member.session <= exchange.first_ns - member.recorded_at

    @staticmethod
    def _lost(exchange: Exchange, group: Group) -> list[Member] | None:
        """The members that the recorded generation lacks; None while nothing tells them.

        The recorded leader's answer has all members. Those whose connection ended are lost, whatever it says.
        """
        gone = [member for member in group.present() if not member.open]
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
    """The members of the recorded generation that a JoinGroup led to; None while nothing tells them."""
    answer = exchange.answer or {}
    return group.rosters.get((answer.get("generation_id", -1), answer.get("leader", "")))


def present_generation(exchange: Exchange, group: Group, member: Member) -> Values:
    """What the target last told a member of its generation, in the shape of the recorded answer."""
    told = member.answer | {"members": member.answer.get("members", ()) if group.elected(member) else []}
    if exchange.answer is None:
        return told
    return {name: _like(value, told.get(name, value)) for name, value in exchange.answer.items()}


def _like(shape: Any, value: Any) -> Any:
    """Structs with the fields that those of the recorded answer have; all of them where it has none."""
    if not (isinstance(shape, list) and shape):
        return value
    return [{name: one.get(name) for name in shape[0]} for one in value]
