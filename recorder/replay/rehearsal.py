"""`--dry-run`: the requests that a replay would send, by node. They are translated and routed without the target's
answers. A request that writes is counted once its recorded answer is read, which tells what the recording refused.

Values of members, producers, sessions and offsets are known only while playing, so requests are looked at without them.
A node that only an answer tells is None: of a coordinator that is not known yet, of a fetch session's partitions.
Topics that the target lacks count as created, since their absence is a refusal of its own.
"""

from __future__ import annotations

from collections.abc import Iterable

from proxy.wire.apis import name_or_key
from proxy.wire.errors import WireError
from proxy.wire.keys import CREATE_TOPICS
from recorder.replay.comparison.from_before import TOLD
from recorder.replay.engine.world import World
from recorder.replay.mapping import Pairs
from recorder.replay.outcome import Plan
from recorder.replay.plan import AskFirst, Exchange, Origin, Reason, Values, Withheld
from recorder.replay.requests import apis, refused_parts
from recorder.replay.requests.translate_names import NamesTranslator
from recorder.replay.stream import AnswerRecorded, Happening, RequestRecorded
from recorder.replay.versions import choosing as versions
from recorder.replay.versions.recode import Topics

Node = int | None


def rehearse(rows: Iterable[Happening], world: World, topics: Iterable[str], plan: Plan) -> None:
    """Counts each request into a plan, as sent or withheld.

    Args:
        topics: the topics that are used, by the target's names.
    """
    rehearsal, asked = _Rehearsal(world, topics), dict[Origin, Exchange]()
    for row in rows:
        if isinstance(row, RequestRecorded):
            exchange = row.exchange
            if world.plays(exchange):
                is_counted_later = exchange.awaits and apis.writes(exchange.api_key)
                found = None if is_counted_later else rehearsal.goes(exchange)
                if found is not None:
                    _count(plan, exchange, found)
                if is_counted_later or (exchange.api_key in TOLD and not isinstance(found, Withheld)):
                    asked[exchange.origin] = exchange
            elif world.is_made_anew(row.exchange):
                _count(plan, row.exchange, Withheld(Reason.MADE_ANEW))
        elif isinstance(row, AnswerRecorded) and row.origin in asked:
            exchange = asked.pop(row.origin)
            exchange.take_answer(row.ns, row.frame)
            if exchange.api_key in TOLD:
                world.before.add_planned(exchange)
            else:
                _count(plan, exchange, rehearsal.goes(exchange))
    for exchange in asked.values():
        if exchange.api_key not in TOLD:
            _count(plan, exchange, rehearsal.goes(exchange))
    plan.before = world.before.counts((), ())


def _count(plan: Plan, exchange: Exchange, found: set[Node] | Withheld) -> None:
    api = name_or_key(exchange.api_key)
    if isinstance(found, Withheld):
        plan.withheld[api, found.reason.value] += 1
        return
    plan.requests[api] += 1
    plan.sent.update((api, node) for node in found)
    plan.partitions.update(dropped.reason.value for dropped in exchange.dropped)


class _Rehearsal:
    def __init__(self, world: World, topics: Iterable[str]) -> None:
        self._world, cluster = world, world.cluster
        for name in topics:
            cluster.absent.discard(name)
            cluster.invent_id(name)
        self._names = NamesTranslator(world.names, cluster, Pairs())
        self._crossing = Topics(cluster.topic_ids.get, cluster.topic_names.get)

    def goes(self, exchange: Exchange) -> set[Node] | Withheld:
        """The nodes that a request would go to."""
        try:
            return self._goes(exchange)
        except WireError as error:
            return Withheld(Reason.OPAQUE, str(error))

    def _goes(self, exchange: Exchange) -> set[Node] | Withheld:
        refused = self._world.refused(exchange)
        if refused is not None:
            return refused
        parts = refused_parts.refused_parts(exchange) if apis.writes(exchange.api_key) else refused_parts.NOTHING
        values = refused_parts.remaining(exchange, exchange.decoded(), parts)
        if values is None:
            return Withheld(Reason.REFUSED)
        refused = self._world.before.planned(exchange)
        if refused is not None:
            return refused
        if exchange.fault is Reason.MASKED and exchange.api_key == CREATE_TOPICS:
            values["topics"] = [topic | {"configs": []} for topic in values["topics"]]
        return self._names.request(exchange, values, 0) or self._routed(exchange, values)

    def _routed(self, exchange: Exchange, values: Values) -> set[Node] | Withheld:
        nodes = self._world.cluster.nodes
        parts = self._world.parts(exchange, values, self._world.route(exchange))
        if isinstance(parts, Withheld):
            return parts
        if not isinstance(parts, list):
            assert isinstance(parts, AskFirst)
            return {next(iter(nodes)) if len(nodes) == 1 else None}
        for part in parts:
            if withheld := self._unwritable(exchange, part.node, part.values):
                return withheld
        # within a session, a request without topics asks for those of the session
        if len(nodes) > 1 and exchange.api_key in apis.OF_SESSIONS and not values["topics"]:
            return {None}
        return {part.node for part in parts}

    def _unwritable(self, exchange: Exchange, node: int, values: Values) -> Withheld | None:
        """Why a part can't be sent to a node; None if it can."""
        version = self._world.version(exchange, node)
        if version is None:
            return Withheld(Reason.NO_VERSION)
        found = versions.request(exchange.api_key, exchange.version, version, values, self._crossing)
        return found if isinstance(found, Withheld) else None
