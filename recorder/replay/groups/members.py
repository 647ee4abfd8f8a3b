"""The members of recorded groups: what the recording and the target have told of them. The rules stand elsewhere.

Groups and members are keyed by their recorded names and ids. How a member stands in the target's group is one state
(`member_states`); requests of the replay's own mend those that are not settled (`mending`). Memory grows with groups
and members, and by two assignments a group.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import chain
from typing import TypeVar

from proxy.wire.error_codes import (
    FENCED_INSTANCE_ID,
    FENCED_MEMBER_EPOCH,
    ILLEGAL_GENERATION,
    REBALANCE_IN_PROGRESS,
    STALE_MEMBER_EPOCH,
    UNKNOWN_MEMBER_ID,
)
from proxy.wire.keys import JOIN_GROUP
from recorder.replay.groups.member_states import Event, MemberState
from recorder.replay.mapping import Pairs, ValueKind
from recorder.replay.names import Names
from recorder.replay.options import Options
from recorder.replay.plan import Exchange, Hold, Reason, Resend, Values, Withheld

# answers to a departure after which the member is gone
HAS_LEFT = frozenset({0, UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID, FENCED_MEMBER_EPOCH})
# Generations that are kept: a late member may need the one before the last. At `max`, generations that were read ahead
# are kept too, up to a limit.
KEPT_GENERATIONS, MOST_GENERATIONS = 2, 10_000
# How often one exchange is sent again. Each time mends what the last answer refused; a group that refuses always is
# broken.
MOST_MENDS = 4
INT32_MAX = 2**31 - 1
# what a refusal does to a member; after other errors it must join
_EVENTS_OF_ERRORS = {UNKNOWN_MEMBER_ID: Event.UNKNOWN, STALE_MEMBER_EPOCH: Event.EPOCH_LOST}
# the shortest silence of a member, whatever a capture or a target says
SHORTEST_SILENCE = 10**9

# A recorded generation: its number, and its leader. A group that was deleted counts from 1 again, with another leader.
Generation = tuple[int, str]
Kept = TypeVar("Kept")


@dataclass(eq=False)
class Member:
    """A member of a recorded group.

    Attributes:
        id: recorded; `target`: the target's, "" while unknown; `joins_as`: the id of its next JoinGroup.
        api_key: of the request that it joined with.
        state: how it stands in the target's group.
        recorded, current: the last generation, or member epoch, in the recording and on the target.
        recorded_leader: the leader of the recorded generation.
        synced: the last recorded generation whose assignment it asked for.
        instance: its recorded instance id.
        join: the values of its last join, in the target's terms; `protocols`: those of that join as recorded.
        answer: the target's last successful answer to a join.
        recorded_to_rejoin: the recorded cluster told it to rejoin (error 27) since its last join.
        asks_since: when it began to ask the target whether to rejoin; None: it doesn't.
        owned: fields with an assignment of the target that it has not confirmed yet; `confirming`: those that a request
            in flight confirms.
        in_flight: the number of its recorded requests in flight; `made_in_flight`: a made one is in flight.
        about_to_go: the recording is about to lose it, so the replay keeps it alive no more.
        is_over: its recorded membership is over since its last join: a request by which it leaves has left, and the
            recorded cluster did not refuse it, or told it that it is no member (error 25). Nothing brings it back but
            its next recorded join.
        gave_up: it could not be mended within `--wait`.
        departure_failure: why it could not leave at the end, as far as is known; empty: it could, or did not try.
        connections: the recorded ones of its requests, while they are open. Clients have one for joins and syncs, and
            another for heartbeats: at `max` the one may be over long before the other.
        recorded_at: the recorded time of its last request; `session`: its session timeout, 0: unknown.
        last_sent_at: when it last sent a request; `longest_silence`: 0 if unlimited.
        pause: between its made requests; `again_at`: when the next one may leave.
    """

    id: str
    api_key: int
    target: str = ""
    joins_as: str = ""
    state: MemberState = MemberState.ABSENT
    recorded: int = 0
    current: int | None = None
    recorded_leader: str = ""
    synced: int = 0
    instance: str | None = None
    join: Values | None = None
    protocols: list[Values] = field(default_factory=list)
    answer: Values = field(default_factory=dict)
    recorded_to_rejoin: bool = False
    asks_since: int | None = None
    owned: Values | None = None
    confirming: Values | None = None
    endpoint_epoch: int | None = None
    in_flight: int = 0
    made_in_flight: bool = False
    about_to_go: bool = False
    is_over: bool = False
    gave_up: bool = False
    departure_failure: str = ""
    connections: set[tuple[str, int]] = field(default_factory=set)
    recorded_at: int = 0
    session: int = 0
    last_sent_at: int = 0
    longest_silence: int = 0
    pause: int = 0
    again_at: int = 0

    @property
    def classic(self) -> bool:
        """True for a member that joined by JoinGroup."""
        return self.api_key == JOIN_GROUP

    def on(self, event: Event) -> None:
        """Handles an event. A member outside the group owns nothing; one that the target does not know has no id."""
        self.state = self.state.after(event)
        if not self.state.present:
            self.owned = None
        if event is Event.UNKNOWN:
            self.joins_as = ""


@dataclass(eq=False)
class Group:
    """A recorded group.

    Attributes:
        members: all that ever were; `active`: those that are present or may have something to send.
        joins: JoinGroups in flight, or to be sent again -> the recorded id of their member; `coming`: those that were
            read and have not left -> the id that their request quotes, or its instance id; `newcomers`: heartbeats in
            flight by which members join; `leaves`: requests in flight by which members leave -> those members;
            `memberless`: commits in flight that quote no member, which only an empty group takes.
        generation, leader: the target's last generation, and its leader's id there.
        assigned: the target's last generation that has its assignment.
        left_at: the target's generation when a member last left.
        mending: a rebalance that the recording lacks is under way: all members take part.
        instances: recorded instance id -> the last member with it.
        rosters: recorded generation -> ids of its members; `assignments`: what its leader sent.
        led: recorded generations whose leader's SyncGroup has left, or never will.
        syncs_due: SyncGroups that are due and wait for other requests: recorded generation, and id of the member.
        followed_at: when the last SyncGroup without assignments left; None if none has.
        touched: it has changed since `mending` last looked at it; `wake`: when its next made request is due.
    """

    name: str
    members: dict[str, Member] = field(default_factory=dict)
    active: dict[str, Member] = field(default_factory=dict)
    joins: dict[Exchange, str | None] = field(default_factory=dict)
    coming: dict[Exchange, str | None] = field(default_factory=dict)
    newcomers: set[Exchange] = field(default_factory=set)
    leaves: dict[Exchange, list[Member]] = field(default_factory=dict)
    memberless: set[Exchange] = field(default_factory=set)
    generation: int = 0
    leader: str = ""
    assigned: int = 0
    left_at: int = -1
    mending: bool = False
    instances: dict[str, Member] = field(default_factory=dict)
    rosters: dict[Generation, frozenset[str]] = field(default_factory=dict)
    assignments: dict[Generation, list[Values]] = field(default_factory=dict)
    led: set[Generation] = field(default_factory=set)
    syncs_due: set[tuple[int, str]] = field(default_factory=set)
    followed_at: int | None = None
    touched: bool = True
    wake: int | None = None

    def present(self) -> Iterator[Member]:
        """The members that the target counts among this group's."""
        return (member for member in self.active.values() if member.state.present)

    def keep(self, kept: dict[Generation, Kept], generation: Generation, value: Kept) -> None:
        """Keeps a recorded generation's members or assignments."""
        kept[generation] = value
        if len(kept) > MOST_GENERATIONS:
            del kept[next(iter(kept))]

    def forget_before(self, generation: Generation) -> None:
        """A member is in this recorded generation: those long before it are forgotten."""
        for kept in (self.rosters, self.assignments):
            known = list(kept)
            old = known.index(generation) - KEPT_GENERATIONS if generation in kept else 0
            for one in known[: max(old, 0)]:
                del kept[one]
                self.led.discard(one)

    @property
    def empty(self) -> bool:
        """True while the target's group has no member, as far as is known."""
        return not (self.joins or self.newcomers or any(True for _ in self.present()))

    @property
    def elected_member(self) -> Member | None:
        """The leader that the target elected in its present generation, if it has sent something by now."""
        return next((member for member in self.active.values() if member.target == self.leader), None)

    @property
    def is_ahead(self) -> bool:
        """True while a member of the target's group has the recorded generation that a join in flight led to, or more.

        The target began the member's generation without the join: an empty group waits for nobody for long, and what
        the recorded group was from before is not in the target's. The join waits until all members have joined again.
        The recording has no request for that.
        """
        answers = ((exchange.answer, recorded) for exchange, recorded in self.joins.items())
        joining = [
            (answer["generation_id"], recorded) for answer, recorded in answers if answer and not error_of(answer)
        ]
        # in most rebalances no member has come as far, so that each is looked at once, however many join
        first = min((generation for generation, _ in joining), default=INT32_MAX)
        return any(
            generation <= member.recorded and recorded != member.id
            for member in self.present()
            if member.recorded >= first
            for generation, recorded in joining
        )

    def awaits(self, exchange: Exchange) -> bool:
        """True for the recorded leader's JoinGroup while another member's of the same generation is not answered.

        The recorded cluster answered both at once, so the other one was under way by then. The target may begin a
        generation without it: an empty group waits for nobody for long.
        """
        answer, present = exchange.answer or {}, {member.id for member in self.present()}
        missing = [member for member in answer.get("members", ()) if member["member_id"] not in present]
        names = {name for member in missing for name in (member["member_id"], member.get("group_instance_id"))}
        return any(
            (name or (join.answer or {}).get("member_id")) in names - {None}
            for join, name in chain(self.coming.items(), self.joins.items())
            if not error_of(join.answer) and join.first_ns < (exchange.answered_ns or 0)
        )

    def returns(self, member: Member) -> bool:
        """True for a static member whose next join began no generation: the recorded cluster still had it then."""
        return member.instance is not None and any(
            name == member.instance and (join.answer or {}).get("generation_id") == member.recorded
            for join, name in self.coming.items()
        )

    def is_leaving(self, member: Member) -> bool:
        """True while a recorded request by which it leaves is in flight: the target may not know it any more."""
        return any(member in named for named in self.leaves.values())

    def departure_left(self, exchange: Exchange, members: list[Member]) -> None:
        """A recorded request by which these members leave has left."""
        self.leaves[exchange] = members
        for member in members:
            member.is_over |= not keeps(exchange.answer, member.id, member.instance)

    def departure_ended(self, exchange: Exchange, answer: Values | None) -> None:
        """The target answered it, or it was lost (`answer` is None). Those who stay rebalance.

        Whom only the target refused, or may not have let go, leaves by a made request. Whom the recorded cluster
        refused stays a member.
        """
        for member in self.leaves.pop(exchange, ()):
            stays = keeps(exchange.answer, member.id, member.instance)
            has_left = answer is not None and not keeps(answer, member.target, member.instance)
            # the recorded answer may not have been known when the request left
            member.is_over &= not stays
            if stays and not has_left:
                continue
            if member.state.present:
                self.left_at = max(self.left_at, self.generation)
            member.on(Event.LEFT if has_left else Event.EXPELLED)

    def elected(self, member: Member) -> bool:
        """True for the leader that the target elected in its present generation."""
        return bool(member.target) and member.target == self.leader and member.current == self.generation

    def changed_since(self, member: Member) -> bool:
        """True if a member joined or left since this member joined, so that the target has to rebalance."""
        if member.current is None or self.leaves or self.left_at >= member.current:
            return True
        if any(one.state.joins_again for one in self.active.values() if one is not member):
            return True
        joined = (one.current for one in self.present() if one.current is not None)
        return bool(self.joins) or any(generation > member.current for generation in joined)


class Memberships:
    """All groups of one replay, and the rules that they share."""

    def __init__(self, pairs: Pairs, names: Names, options: Options) -> None:
        self.pairs, self.names, self.options = pairs, names, options
        self.groups: dict[str, Group] = {}
        self.now = 0
        self.touched = False
        # called with API, group and answer of each made heartbeat
        self.on_made_heartbeat: Callable[[int, str, Values], None] = lambda api_key, group, answer: None
        # recorded group, generation -> True if the recording lacks its assignment
        self.is_unassigned: Callable[[str, int], bool] = lambda group, generation: False
        self._mends: dict[Exchange, int] = {}
        self._flying: dict[Exchange, tuple[Group, Member | None]] = {}
        self._held: dict[Exchange, Member] = {}
        # recorded connections that ended while a request of theirs was in flight
        self._closed: set[tuple[str, int]] = set()

    def group(self, name: str) -> Group:
        """The group of this recorded name."""
        found = self.groups.get(name)
        if found is None:
            found = self.groups[name] = Group(name)
        self.touched = found.touched = True
        return found

    def touch(self, group: Group) -> None:
        """A group has changed: its members may have something to send."""
        self.touched = group.touched = True

    def member(self, group: Group, recorded: str, api_key: int = JOIN_GROUP) -> Member:
        """The member with this recorded id, created if it is new."""
        found = group.members.get(recorded)
        if found is None:
            found = group.members[recorded] = Member(recorded, api_key)
        found.api_key = api_key
        group.active[recorded] = found
        return found

    def known(self, name: str | None, recorded: str | None) -> Member | None:
        """The member with this recorded id, if the target has given it an id."""
        group = self.groups.get(name or "")
        member = group.members.get(recorded or "") if group else None
        if group is None or member is None or not member.target:
            return None
        group.active[member.id] = member
        return member

    # -- pairs -----------------------------------------------------------------------------------------------------

    def identify(self, group: Group, member: Member, target: str) -> None:
        """Learns the target's id of a member."""
        member.target = member.joins_as = target
        self.pairs.learn(ValueKind.MEMBER, member.id, target, group.name)

    def advance(self, group: Group, member: Member, recorded: int | None, current: int) -> None:
        """Learns a member's generation or epoch on both sides. `recorded`: None if the recording tells none."""
        what = ValueKind.GENERATION if member.classic else ValueKind.MEMBER_EPOCH
        member.current = current
        if recorded is not None and recorded > 0:
            member.recorded = recorded
            self.pairs.learn(what, recorded, current, (group.name, member.id))

    def generation(self, group: Group, member: Member, recorded: int) -> int | None:
        """The target's last generation or epoch for the recorded last one, else the paired one.

        Values of 0 and below stay as they are. None: no answer gave one.
        """
        if recorded <= 0:
            return recorded
        if recorded == member.recorded:
            return member.current
        what = ValueKind.GENERATION if member.classic else ValueKind.MEMBER_EPOCH
        found = self.pairs.target(what, recorded, (group.name, member.id))
        return found if isinstance(found, int) else None

    # -- exchanges in flight ----------------------------------------------------------------------------------------

    def request_left(self, exchange: Exchange, group: Group, member: Member | None) -> None:
        """A request of a member leaves."""
        self._held.pop(exchange, None)
        self._flying[exchange] = group, member
        if member:
            member.in_flight += 1
            self.note_request(exchange, member)

    def note_request(self, exchange: Exchange, member: Member) -> None:
        """A recorded request of a member was sent: the member is alive."""
        member.last_sent_at, member.recorded_at, member.about_to_go = self.now, exchange.at_ns, False
        if exchange.connection not in self._closed:
            member.connections.add(exchange.connection)

    def close(self, connection: tuple[str, int]) -> None:
        """A recorded connection ended: its members fall silent, as in the recording."""
        if any(exchange.connection == connection for exchange in self._flying):
            self._closed.add(connection)
        for group in self.groups.values():
            self.touch(group)
            for member in group.members.values():
                member.connections.discard(connection)

    def request_ended(self, exchange: Exchange) -> tuple[Group, Member | None] | None:
        """A request was answered or lost. Returns its group and member; None if it had not left."""
        found = self._flying.pop(exchange, None)
        if found and found[1]:
            found[1].in_flight -= 1
        return found

    def forget(self, exchange: Exchange) -> None:
        """The exchange is over. A member whose request was still held is given up."""
        if self._mends:
            self._mends.pop(exchange, None)
        if self._closed and not any(flying.connection == exchange.connection for flying in self._flying):
            self._closed.discard(exchange.connection)
        held = self._held.pop(exchange, None) if self._held else None
        if held:
            held.gave_up = True

    def unsettled(self, exchange: Exchange, member: Member) -> Hold | Withheld | None:
        """Holds the request of an unsettled member until the member is mended. None for a settled member.

        The answer to a made heartbeat of a modern group may change the epoch that the request has to quote.
        """
        if member.state.settled and (member.classic or not member.made_in_flight):
            return None
        if member.gave_up:
            return Withheld(Reason.NO_GENERATION, member.id)
        self._held[exchange] = member
        return Hold(Reason.NO_GENERATION)

    def expelled(self, exchange: Exchange, member: Member) -> Hold | Withheld | None:
        """Holds a request that the recorded cluster refused with error 25 until its member has left on the target, too.

        The target refuses it then.
        """
        member.is_over = True
        member.on(Event.EXPELLED)
        return self.unsettled(exchange, member) if member.state is MemberState.LEAVING else None

    def mend(self, exchange: Exchange, group: Group, member: Member, error: int, quoted: int) -> Resend | None:
        """After a refusal that the recording lacks: the member joins again, and its request is sent again.

        None where that changes nothing: the member is leaving or has left, or was mended too often.

        Args:
            quoted: the target's generation or epoch in the request.
        """
        if exchange.answer is None or member.is_over or not self.may_mend(exchange):
            return None
        if not is_outdated(member, error, quoted):
            refused(group, member, error)
        return Resend()

    def may_mend(self, exchange: Exchange) -> bool:
        """True unless this exchange was mended too often. Counts the call."""
        self._mends[exchange] = self._mends.get(exchange, 0) + 1
        return self._mends[exchange] <= MOST_MENDS

    def lengthen_timeout(self, values: Values) -> None:
        """Lengthens a rebalance timeout where the replay is slower than the recording."""
        timeout, speed = values.get("rebalance_timeout_ms", -1), self.options.speed
        if speed is not None and speed < 1 and timeout > 0:
            values["rebalance_timeout_ms"] = min(int(timeout / speed), INT32_MAX)


def pace(silence: int) -> int:
    """The longest silence of a member; 0: unlimited."""
    return max(silence, SHORTEST_SILENCE) if silence > 0 else 0


def error_of(answer: Values | None) -> int | None:
    """The error code of a whole answer; None without an answer."""
    return None if answer is None else answer.get("error_code", 0)


def keeps(answer: Values | None, name: str, instance: str | None) -> bool:
    """True for an answer to a departure that refuses to let this member go, as a whole or in its entry.

    Args:
        name: the member's id in the answer's cluster; `instance`: its instance id, if it is static.
    """
    entries = (answer or {}).get("members") or ()
    own = (one for one in entries if one["member_id"] == name or (instance and one["group_instance_id"] == instance))
    codes = {error_of(answer) or 0, *(one["error_code"] for one in own)}
    return not codes <= HAS_LEFT


def left_meanwhile(answer: Values | None) -> bool:
    """True for the answer to the JoinGroup of a member that left while its join waited: it names no member.

    A member that the cluster does not know is told its own id. Source: Kafka's `removeMemberAndUpdateClassicGroup`.
    """
    return answer is not None and error_of(answer) == UNKNOWN_MEMBER_ID and answer.get("member_id") == ""


def is_outdated(member: Member, error: int, quoted: int) -> bool:
    """True for a refusal of a generation that the member has left behind by a join since its request left."""
    return (
        error in (ILLEGAL_GENERATION, REBALANCE_IN_PROGRESS) and member.current is not None and quoted < member.current
    )


def refused(group: Group, member: Member, error: int) -> None:
    """The target refused a member, unlike the recording: the group mends it, unless its membership is over anyway."""
    if member.is_over:
        return
    member.on(_EVENTS_OF_ERRORS.get(error, Event.MUST_JOIN))
    group.mending = True
