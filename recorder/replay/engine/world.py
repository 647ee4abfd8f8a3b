"""The rooms of one replay's state, put together: the engine asks all its questions here.

route        what is done with requests of its kind: which rooms are asked, which steps it needs
refused      why an exchange is withheld whatever the target says (`apis`, `deletes`)
translated   recorded values in the target's terms, by each translator in turn; names and ids last
parts        which node takes which part of a request (`routing`)
written      a part in a version that its node has (`versions`)
read         an answer in the recorded version's shape
answered     rooms learn from the target's answer and the recorded one
compare      the verdict on an exchange
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from proxy.wire.apis import api_name
from proxy.wire.errors import WireError
from proxy.wire.keys import CREATE_TOPICS, DELETE_TOPICS, PRODUCE, SHARE_ACKNOWLEDGE
from proxy.wire.places import WHOLE
from recorder.replay.cluster import Cluster
from recorder.replay.comparison.assigned import Assignments
from recorder.replay.comparison.compare import DifferenceKind, answer_verdict, reason_apart
from recorder.replay.comparison.expectations import Expectations, same_names
from recorder.replay.comparison.from_before import BeforeRecording
from recorder.replay.comparison.one_sided import OneSidedCommits
from recorder.replay.consumers.fetched_records import FetchedRecords, counted_as, stream_results
from recorder.replay.consumers.offsets import Offsets
from recorder.replay.consumers.records import Streams
from recorder.replay.consumers.shared_records import SharedRecords
from recorder.replay.engine.channels import Channel
from recorder.replay.engine.item import Item, Piece
from recorder.replay.engine.routes import Route, Routes
from recorder.replay.engine.waiting import WaitGraph
from recorder.replay.groups.groups import Groups
from recorder.replay.groups.members import error_of
from recorder.replay.mapping import Pairs
from recorder.replay.names import Names
from recorder.replay.options import Options
from recorder.replay.outcome import ApiCounts, Ending, Progress, Result
from recorder.replay.partitions import TopicPartition
from recorder.replay.plan import (
    BY_CHOICE,
    CLIENT_ID,
    MILLISECOND,
    AnsweredBefore,
    Exchange,
    MadeRequest,
    NotSent,
    Reason,
    Resend,
    Values,
    Withheld,
)
from recorder.replay.prepare import Prepared
from recorder.replay.producers.producer_pairs import without_default_pair
from recorder.replay.producers.producers import Producers
from recorder.replay.requests import apis, deletes, order, retries, routing
from recorder.replay.requests.nodes import Nodes
from recorder.replay.requests.translate_names import NamesTranslator
from recorder.replay.results import mismatches
from recorder.replay.sessions.fetch_sessions import FetchSessions
from recorder.replay.sessions.share_sessions import ShareSessions
from recorder.replay.sessions.share_starts import ShareStarts
from recorder.replay.survey import Survey
from recorder.replay.translator import Translator
from recorder.replay.versions import choosing as versions
from recorder.replay.versions.recode import Topics

_PRODUCE = api_name(PRODUCE) or ""


def refused_anywhere(exchange: Exchange, options: Options) -> Withheld | None:
    """Why an exchange is withheld on any target; None: it may be sent."""
    return refused_by_head(exchange, apis.refusal(exchange, options), options)


def refused_by_head(exchange: Exchange, reason: Reason | None, options: Options) -> Withheld | None:
    """Why an exchange is withheld, by its head. `reason`: why its API and version may not be sent."""
    if exchange.peer.client_id == CLIENT_ID:
        # this replay makes its own where it needs them
        return Withheld(Reason.OF_A_REPLAY)
    # the options leave it out, so that it does not count as unplayable for another reason
    if reason in BY_CHOICE:
        return Withheld(reason)
    if not options.has_login(exchange.principal):
        return Withheld(Reason.NO_LOGIN, exchange.principal or "")
    if exchange.fault is not None and not _is_made_without(exchange):
        reason = exchange.fault
    return None if reason is None else Withheld(reason)


def _is_made_without(exchange: Exchange) -> bool:
    """True for a CreateTopics with masked settings: the topics are created without them."""
    return exchange.fault is Reason.MASKED and exchange.api_key == CREATE_TOPICS


def is_regenerated(exchange: Exchange) -> bool:
    """True for requests that each connection of the replay makes anew: logins, and asking for versions."""
    return apis.treatment(exchange.api_key) is apis.Treatment.OWN


class Written(NamedTuple):
    """A part of a request in the version that its node takes: see `Piece`."""

    version: int
    part: Values
    requests: list[Values]


class World:
    """The rooms of one replay.

    Args:
        chooses: False for exchanges that the options leave out; None: they leave none out.
        result: counts what is found.

    Attributes:
        first_ns, last_ns: recorded times of the first and the last request.
        waiting: the order of the exchanges.
        before: what is from before the recording.
    """

    def __init__(
        self,
        options: Options,
        chooses: Callable[[Exchange], bool] | None,
        survey: Survey,
        cluster: Cluster,
        names: Names,
        prepared: Prepared,
        result: Result,
    ) -> None:
        self.options, self.cluster, self.names, self.result = options, cluster, names, result
        self.first_ns, self.last_ns, self._chooses = survey.first_ns, survey.last_ns, chooses
        self.has_new_topics = bool(prepared.lacking)
        self._topics = dict.fromkeys(survey.used_topics())
        self._nodes = Nodes(survey.nodes, options.nodes)
        # groups that the target did not have belong to this replay, as do topics that were created for it
        self._made = {deletes.Thing(deletes.ThingKind.GROUP, names.recorded(name)) for name in prepared.absent_groups}
        self._made |= {deletes.Thing(deletes.ThingKind.TOPIC, names.recorded_topic(name)) for name in prepared.created}
        self._pairs = Pairs()
        self._crossing = Topics(cluster.topic_ids.get, cluster.topic_names.get)
        begun = survey.beginnings
        self.before = BeforeRecording(begun, names)
        self._assignments = Assignments(names, begun.is_member)
        self._commits = OneSidedCommits(names)
        self._groups = Groups(self._pairs, names, options, self._assignments.add_target_answer, begun.is_unassigned)
        self._producers = Producers(names, cluster, self._pairs, options, self.chosen)
        starts, ends = (
            {names.of(place): at for place, at in each.items()} for each in (prepared.starts, prepared.ends)
        )
        shift_ms = prepared.shift_ms if options.shift_timestamps else 0
        # in a capture without Produces the target's log is a copy or empty: its offsets are the recorded ones
        first = survey.first_offsets if survey.sent[_PRODUCE] else {}
        self._offsets = Offsets(names, starts, ends, first, shift_ms, begun.end, self._is_producing)
        self._fetches = FetchSessions(self.chosen)
        self._shares = ShareSessions(names, self._offsets.counterpart)
        self.waiting = WaitGraph()
        self._streams = Streams(
            counted_as, self._offsets.boundary, begun.end, compares_times=not options.shift_timestamps
        )
        self._fetched = FetchedRecords(names, cluster, self._offsets, self._streams, begun.is_session)
        self._shared = SharedRecords(names, self._streams, self._is_writing)
        self._naming = NamesTranslator(names, cluster, self._pairs)
        # the session rooms list all their partitions before offsets are moved; names and ids come last
        translators: tuple[Translator, ...] = (
            ShareStarts(
                names,
                survey.first_acquired,
                survey.topics,
                self._offsets.expected,
                self._offsets.has_all_before,
            ),
            self._groups,
            self._assignments,
            self._commits,
            self._producers,
            self._fetches,
            self._fetched,
            self._shares,
            self._shared,
            self._offsets,
            self._naming,
        )
        self._routes = Routes(options, translators, result, same_names(names))

    # before a request leaves

    def is_chosen(self, exchange: Exchange) -> bool:
        """False for exchanges that the options leave out."""
        return self._chooses is None or self._chooses(exchange)

    def plays(self, exchange: Exchange) -> bool:
        """False for exchanges that the options leave out, that are made anew, or recorded after the survey."""
        is_recorded = exchange.at_ns <= self.last_ns and not self._routes.of(exchange).is_regenerated
        return is_recorded and self.is_chosen(exchange)

    def is_made_anew(self, exchange: Exchange) -> bool:
        """True for an exchange that the options choose and that each connection of the replay makes anew."""
        return self._routes.of(exchange).is_regenerated and self.is_chosen(exchange)

    def refused(self, exchange: Exchange) -> Withheld | None:
        """Why an exchange is withheld, by its head."""
        return refused_by_head(exchange, self._routes.of(exchange).refusal, self.options)

    def route(self, exchange: Exchange) -> Route:
        """What is done with requests of this kind."""
        return self._routes.of(exchange)

    def refused_values(self, exchange: Exchange, values: Values) -> Withheld | None:
        """Why an exchange is withheld, by its values and what it deletes. Asked if its route says that it may be."""
        reason = apis.refusal_of_values(exchange, values, self.names.is_kafkas)
        if reason is None and self._routes.of(exchange).is_deletion:
            reason = deletes.refusal_of_deletes(exchange.api_key, values, self.options, self.names.topic, self._made)
        return None if reason is None else Withheld(reason)

    def was_read(self, exchange: Exchange) -> None:
        """A JoinGroup or SyncGroup was read, long before it leaves."""
        self._groups.was_read(exchange)

    def will_not_leave(self, exchange: Exchange) -> None:
        """A JoinGroup or SyncGroup is withheld, because the recorded cluster refused it."""
        self._groups.will_not_leave(exchange)

    def due(self, exchange: Exchange) -> None:
        """A JoinGroup or SyncGroup is due, even if it still waits."""
        self._groups.due(exchange)

    def translated(self, item: Item, values: Values, now: int, late: int) -> NotSent | None:
        """Translates a recorded request's values into the target's, or says why not.

        Args:
            late: how much later than due the request leaves (ns).
        """
        exchange, route = item.exchange, item.route
        if exchange.fault is Reason.MASKED:
            for topic in values.get("topics", ()):
                topic["configs"] = []
        for translate in route.requests:
            refused = translate(exchange, values, now)
            if isinstance(refused, AnsweredBefore):
                # its room keeps the values for requests of its own, and names come last
                return self._naming.request(exchange, values, now) or refused
            if refused is not None:
                return refused
        if route.is_poll:
            values["max_wait_ms"] = self._patience(exchange, values["max_wait_ms"], late)
        return None

    def _patience(self, exchange: Exchange, recorded_ms: int, late: int) -> int:
        """Milliseconds that a poll may wait: as recorded while records are owed, else until the answer is due."""
        if self._fetched.owes(exchange) or self._shared.owes(exchange) or exchange.answered_ns is None:
            return recorded_ms
        if self.options.speed is None:
            return 0
        took = (exchange.answered_ns - exchange.at_ns) / self.options.speed
        return min(recorded_ms, max(round((took - late) / MILLISECOND), 0))

    def _is_producing(self, place: TopicPartition, until_ns: int) -> bool:
        return self.waiting.is_open(order.key_of_log(*place), until_ns)

    def _is_writing(self, place: TopicPartition, until_ns: int) -> bool:
        return self._is_producing(place, until_ns) or self.waiting.is_open(order.ENDED, until_ns)

    def parts(self, exchange: Exchange, values: Values, route: Route) -> list[routing.Part] | NotSent:
        """The parts of a request, by node."""
        found = routing.parts(exchange, values, self.cluster, self._nodes)
        if not route.is_of_sessions or not isinstance(found, list):
            return found
        homes = [*self._fetches.homes(exchange), *self._shares.homes(exchange, values)]
        return routing.with_homes(found, homes) if homes else found

    def nodes_ahead(self, exchange: Exchange) -> list[int]:
        """The nodes that a request will go to, as far as they are known before it is due. The target is not asked."""
        try:
            values = exchange.decoded()
            if self.refused(exchange) or self._naming.request(exchange, values, 0):
                return []
            found = routing.parts(exchange, values, self.cluster, self._nodes)
        except WireError:
            return []
        return [part.node for part in found] if isinstance(found, list) else []

    def carrier(self, exchange: Exchange, node: int) -> tuple[str, int]:
        """The recorded connection whose channel to a node carries a request of a session."""
        return self._shares.carrier(exchange, node)

    def written(self, item: Item, channel: Channel, part: Values) -> Written | Withheld:
        """A part in the version that its node takes."""
        exchange, route = item.exchange, item.route
        version = self._version(route, channel.node)
        if version is None:
            return Withheld(Reason.NO_VERSION)
        if route.is_of_sessions:
            part = self._fetches.for_node(exchange, channel.node, part)
            part = self._shares.for_node(exchange, channel.node, part)
        if version == route.version:
            return Written(version, part, [part])
        found = versions.request(exchange.api_key, exchange.version, version, part, self._crossing)
        if isinstance(found, Withheld):
            return found
        return Written(version, part, found if isinstance(found, list) else [found])

    def version(self, exchange: Exchange, node: int) -> int | None:
        """The version in which a request goes to a node; None if the node has no suitable one."""
        return self._version(self._routes.of(exchange), node)

    def _version(self, route: Route, node: int) -> int | None:
        newest = self._newest(route.api_key) if route.is_of_transactions else None
        return route.chosen(self.cluster.offered[node].get(route.api_key), newest)

    def chosen(self, api_key: int, recorded: int) -> int | None:
        """The version in which a request would go to any node of the target."""
        node = self.cluster.any_node()
        offered = self.cluster.offered.get(-1 if node is None else node, {}).get(api_key)
        return versions.version_to_send(api_key, recorded, offered, newest=self._newest(api_key))

    def _newest(self, api_key: int) -> int | None:
        if self.cluster.features.get("transaction.version", 0) >= 2:
            return None
        return versions.newest_of_transactions_v1(api_key)

    def may_repeat(self, exchange: Exchange) -> bool:
        """True for a request that may be sent twice: reads, and batches that a broker recognizes by their sequence."""
        if exchange.api_key != PRODUCE:
            return exchange.api_key in apis.REPEATABLE
        try:
            partitions = [each for topic in exchange.request["topic_data"] for each in topic["partition_data"]]
        except WireError:
            return False
        return all(order.producers(each.get("records")) for each in partitions)

    # what comes back

    def read(self, item: Item, piece: Piece) -> Values:
        """The answer to a part, in the recorded version's shape and the target's terms."""
        exchange, route = item.exchange, item.route
        if route.is_answered_plainly and piece.version == route.version:
            return piece.answers[0]
        found = versions.response(
            exchange.api_key, piece.version, exchange.version, piece.answers, self._crossing, piece.part
        )
        found = without_default_pair(exchange.api_key, piece.version, found)
        if not route.is_of_sessions:
            return found
        found = self._fetches.answered_by(exchange, piece.channel.node, piece.part, found)
        return self._shares.answered_by(exchange, piece.channel.node, piece.part, found)

    def forget_moved_coordinators(self, exchange: Exchange, values: Values, answer: Values) -> None:
        """A node says that it is not the coordinator: all coordinators are asked for again."""
        codes = set(routing.errors(exchange.api_key, answer).values())
        if codes & retries.COORDINATOR:
            self.cluster.coordinators.clear()

    def awaits_topics(self, exchange: Exchange, values: Values, answer: Values) -> bool:
        """True for an answer that created topics or partitions whose leaders Metadata has not told yet.

        Asked if the request's route says that it makes topics.
        """
        if values.get("validate_only"):
            return False
        made = [each["name"] for each in answer["topics" if exchange.api_key == CREATE_TOPICS else "results"]]
        codes = routing.errors(exchange.api_key, answer)
        counts = {each["name"]: max(each.get("count", each.get("num_partitions", 1)), 1) for each in values["topics"]}
        made = [name for name in made if not codes.get((name, WHOLE)) and name in counts]
        self._topics |= dict.fromkeys(self.names.recorded_topic(name) for name in made)
        return any(self.cluster.partitions(name) < counts[name] for name in made)

    def answered(self, item: Item, values: Values, answer: Values, now: int) -> Resend | None:
        """Both sides have answered: the rooms learn from it. Returns how the request is sent again, if it has to be."""
        exchange = item.exchange
        for learn in item.route.answereds:
            again = learn(exchange, values, answer, now)
            if again is not None:
                return again
        if item.route.changes_topics:
            self._made |= deletes.made_by(exchange.api_key, values, answer, self.names.recorded_topic)
            self.has_new_topics = True
        if exchange.api_key == DELETE_TOPICS:
            for each in answer["responses"]:
                name = each.get("name") or self.cluster.topic_names.get(each.get("topic_id"))
                if name is not None and not each["error_code"]:
                    self._forget_topic(name)
        return None

    def _forget_topic(self, name: str) -> None:
        """The target has deleted a topic: another one with its name begins with an empty log."""
        self.cluster.forget_topic(name)
        recorded = self.names.recorded_topic(name)
        self._offsets.forget_topic(recorded)
        self._shares.forget_topic(recorded)
        self._shared.forget_topic(recorded)
        self._streams.forget_topic(recorded)

    def lost(self, item: Item) -> None:
        """No answer will come: the rooms note it."""
        for lose in item.route.losts:
            lose(item.exchange, item.values)

    def channel_closed(self, connection: tuple[str, int], node: int) -> None:
        """A channel was closed, and its sessions with it."""
        self._fetches.closed(connection, node)
        self._shares.closed(connection, node)

    def carries_others(self, connection: tuple[str, int]) -> bool:
        """True if others still use the channels of a recorded connection, which has ended."""
        return self._shares.ends(connection)

    def connection_closed(self, connection: tuple[str, int]) -> None:
        """A recorded connection has ended, and is played to its end."""
        self._groups.closed(connection)
        self._fetches.closed(connection)
        self._shares.closed(connection)

    # findings

    def compare(self, item: Item, answer: Values) -> bool:
        """Compares the answers to an exchange, and counts the result. True if they differ."""
        exchange, route = item.exchange, item.route
        route.counts.answered += 1
        if route.names_nothing and answer is exchange.answer and not exchange.dropped:
            # equal bytes, in which nothing stands for anything else
            self._count_latency(item, answer)
            return False
        known = Expectations(self.names, self._pairs, self._offsets, exchange)
        not_expected = self.before.told_by(exchange)
        found = answer_verdict(
            exchange.api_key,
            exchange.version,
            exchange.answer,
            answer,
            known,
            dropped=exchange.dropped,
            consequences={*self._commits.consequences(exchange, answer), *not_expected.follow},
            before=not_expected.whole,
        )
        is_mismatch = found.kind.is_mismatch
        route.counts.uncompared += found.kind is DifferenceKind.UNCOMPARED
        if is_mismatch:
            self.result.add_mismatch(
                mismatches.of_exchange(
                    exchange,
                    found.kind.value,
                    found.differences,
                    item.frame,
                    at_ns=exchange.at_ns,
                    target_version=item.version,
                )
            )
        self._count_latency(item, answer)
        return is_mismatch

    def _count_latency(self, item: Item, answer: Values) -> None:
        exchange, route = item.exchange, item.route
        if exchange.answered_ns is not None and item.answered_at is not None and item.left_at is not None:
            recorded = exchange.answered_ns - exchange.at_ns
            why = route.apart
            if why is None:
                why = reason_apart(exchange.api_key, exchange.answer, answer)
            latency = route.latencies.get(why)
            if latency is None:
                latency = route.latencies[why] = self.result.latency_of(route.name, why)
            latency.recorded.add(recorded)
            latency.replayed.add(item.answered_at - item.left_at)

    def counts(self, exchange: Exchange) -> ApiCounts:
        """The counts of an exchange's API."""
        return self._routes.of(exchange).counts

    def count_made(self, purpose: str) -> None:
        """The replay makes a request of its own."""
        self.result.made[purpose] += 1

    def withhold(self, exchange: Exchange, withheld: Withheld) -> None:
        """A request is not sent."""
        reason = self.before.reason(exchange, withheld.reason)
        if reason is Reason.NO_LEADER and error_of(exchange.answer):
            # the recorded cluster gave no assignment either: the target would, from a leader whose request never comes
            reason = Reason.REFUSED
        self.counts(exchange).withheld[reason.value] += 1

    # requests of the replay's own

    def target_topics(self) -> list[str]:
        """The topics that the replay uses, by the target's names."""
        return [self.names.target_topic(name) for name in self._topics]

    @property
    def has_touched_groups(self) -> bool:
        """True if a group changed since the last `tick`: members may have something to send."""
        return self._groups.touched

    def tick(self, now: int) -> tuple[list[MadeRequest], int | None]:
        """Heartbeats of silent members that are due, and when to ask next."""
        return self._groups.tick(now)

    def owed(self) -> list[MadeRequest]:
        """Fetches of records that consumers read in the recording and the target has not given yet."""
        return self._fetched.owed()

    def finish(self, *, is_calm: bool, at_once: bool) -> list[MadeRequest]:
        """Requests that leave groups and abort transactions, each once.

        Args:
            is_calm: nothing in flight can begin a transaction again.
            at_once: there is no time to wait for requests in flight.
        """
        aborts = self._producers.finish() if is_calm or at_once else []
        return [*self._groups.finish(at_once=at_once or is_calm), *aborts]

    def close(self, progress: Progress, ended_at_ns: int) -> None:
        """The replay has ended: takes the last counts."""
        self.result.ended_at_ns, self.result.position_ns = ended_at_ns, progress.position_ns
        self.result.streams = stream_results(self._streams, is_whole=self.result.ending is Ending.WHOLE)
        self.result.assigned = [*self._assignments.differing()]
        self.result.before = self.before.counts(self.result.streams, self._assignments.of_before)
        self.result.left_open = [*self._producers.abort_failures(), *self._groups.departure_failures()]
        self.result.maybe_twice = self._producers.maybe_twice
        undecided = self._shares.undecided()
        if undecided:
            self.result.api(api_name(SHARE_ACKNOWLEDGE) or "").partitions[Reason.NOT_ACQUIRED.value] += undecided
