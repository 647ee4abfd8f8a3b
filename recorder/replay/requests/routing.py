"""Routes a request: the parts of it for the target's nodes, by the tables of `apis` and what `cluster` knows.

Pure: values in the target's terms and the cluster in, parts out. For unknown leaders and coordinators the result is
`AskFirst`, with made Metadata or FindCoordinator requests. A partition that the target lacks goes to the mapped node,
which answers that it is unknown.

    split     by the leader of each partition, or the coordinator of each group or transactional id
    united    the whole request goes to each node that stands for the recorded one
    fitted    replication factors are limited to the number of nodes, lists of replicas name the target's nodes
    joined    one answer comes of those to the parts (`joining`)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from proxy.wire.keys import (
    CREATE_PARTITIONS,
    CREATE_TOPICS,
    FIND_COORDINATOR,
    METADATA,
    PRODUCE,
)
from proxy.wire.places import Level
from recorder.replay.cluster import GROUP, ROUTING, TRANSACTION, Cluster, about_coordinator, about_topics
from recorder.replay.plan import AskFirst, Exchange, MadeRequest, Reason, ToNode, Values, Withheld
from recorder.replay.requests.apis import CONFIG_APIS, DESTINATIONS, Destination, Trait, those
from recorder.replay.requests.joining import joined_answer
from recorder.replay.requests.layout import divided, errors, narrowed
from recorder.replay.requests.nodes import Nodes

__all__ = ["Part", "errors", "fitted", "joined_answer", "narrowed", "parts", "with_homes"]

# org.apache.kafka.common.config.ConfigResource.Type: resources that are nodes
_BROKER, _BROKER_LOGGER = 4, 8
_WITH_REPLICAS = those(Trait.NAMES_REPLICAS)
# a node id is an int32
_NODE_DIGITS = 10


class Part(NamedTuple):
    """The part of a request for one node."""

    node: int
    values: Values


class _Router(NamedTuple):
    """One request to route. `mapped`: the target's nodes that stand for its recorded one."""

    exchange: Exchange
    values: Values
    cluster: Cluster
    nodes: Nodes
    mapped: tuple[int, ...]


def parts(exchange: Exchange, values: Values, cluster: Cluster, nodes: Nodes) -> list[Part] | Withheld | AskFirst:
    """The parts of a request, each for one node. A request that is not split is one part.

    Args:
        values: in the target's terms, not changed.
    """
    mapped = nodes.of(exchange.node, tuple(cluster.nodes))
    if not mapped:
        return Withheld(Reason.NO_NODE, f"node {exchange.node}")
    to = DESTINATIONS.get(exchange.api_key, Destination.MAPPED)
    if to is Destination.LEADER and len(cluster.nodes) == 1:
        return [Part(mapped[0], values)]
    if to is Destination.GROUP and (node := cluster.coordinators.get((GROUP, values.get("group_id", "")))) is not None:
        return [Part(node, values)]
    router = _Router(exchange, fitted(exchange.api_key, values, cluster, nodes), cluster, nodes, mapped)
    if exchange.api_key in CONFIG_APIS:
        return _by_resource(router)
    return _ROUTES[to](router)


def with_homes(found: list[Part], nodes: list[int]) -> list[Part]:
    """The parts of a request that must go to these nodes, whatever it names.

    Other nodes' parts stay if they name a topic.
    """
    kept = {part.node: part for part in found if part.node in nodes or part.values["topics"]}
    nothing: Values = {name: [] for name in ("topics", "forgotten_topics_data") if name in found[0].values}
    return [*kept.values(), *(Part(node, found[0].values | nothing) for node in nodes if node not in kept)]


def _to_mapped(router: _Router) -> list[Part]:
    return [Part(router.mapped[0], router.values)]


def _to_all(router: _Router) -> list[Part]:
    return [Part(node, router.values) for node in router.mapped]


def _to_controller(router: _Router) -> list[Part]:
    controller = router.cluster.controller
    return [Part(controller, router.values)] if controller in router.cluster.nodes else _to_mapped(router)


def _by_leader(router: _Router) -> list[Part] | AskFirst:
    unknown: dict[str, None] = {}

    def home(topic: str | bytes, partition: int) -> int:
        name = router.cluster.topic_names.get(topic) if isinstance(topic, bytes) else topic
        leader = None if name is None else router.cluster.leaders.get((name, partition))
        if leader is not None and leader >= 0:
            return leader
        if name is not None and _is_asked_about(router, name, leader):
            unknown[name] = None
        return router.mapped[0]

    found = _divided(router, Level.PARTITION, home)
    return AskFirst((_ask_for_leaders([*unknown], router.cluster),)) if unknown else found


def _is_asked_about(router: _Router, topic: str, leader: int | None) -> bool:
    """True for a topic of which nothing is known.

    A partition that a known topic lacks, or that has no leader, is an error that the mapped node tells. A Produce with
    acks 0 gets no answer with the error, so its leader is asked for.
    """
    if leader is not None:
        return router.exchange.api_key == PRODUCE and not router.exchange.awaits
    return (topic, 0) not in router.cluster.leaders and topic not in router.cluster.absent


def _divided(router: _Router, level: Level, home: Callable[[str | bytes, int], int]) -> list[Part]:
    shares = divided(router.exchange.api_key, router.values, level, home)
    if len(shares) == 1:
        return [Part(node, router.values) for node in shares]
    return [Part(node, share) for node, share in shares.items()] or _to_mapped(router)


def _by_group(router: _Router) -> list[Part] | AskFirst:
    return _by_coordinator(router, Level.GROUP, GROUP, "group_id")


def _by_transaction(router: _Router) -> list[Part] | AskFirst:
    name = "transactional_id" if "transactional_id" in router.values else "v3_and_below_transactional_id"
    return _by_coordinator(router, Level.TRANSACTION, TRANSACTION, name)


def _by_coordinator(router: _Router, level: Level, kind: int, field: str) -> list[Part] | AskFirst:
    """`field`: the field of a request with one key; a request without it has many keys, or none."""
    unknown: dict[str, None] = {}

    def home(key: str | bytes | None, _: int = 0) -> int:
        if not key:
            return router.mapped[0]
        found = router.cluster.coordinators.get((kind, str(key)))
        if found is None:
            unknown[str(key)] = None
        return router.mapped[0] if found is None else found

    if field in router.values:
        found = [Part(home(router.values[field]), router.values)]
    else:
        found = _divided(router, level, home)
    return AskFirst(tuple(_ask_for_coordinator(kind, key, router) for key in unknown)) if unknown else found


def _by_resource(router: _Router) -> list[Part] | Withheld:
    """Settings of a broker go to the nodes that stand for it, under their own ids; all others to the mapped node."""
    shares: dict[int, dict[tuple[int, str, int], Values]] = {}
    for place, resource in enumerate(router.values["resources"]):
        is_node = _names_node(resource)
        homes = [*_homes(router, resource)] if is_node else [(router.mapped[0], resource)]
        if not homes:
            return Withheld(Reason.NO_NODE, f"node {resource['resource_name']}")
        for node, one in homes:
            key = (one["resource_type"], one["resource_name"], 0 if is_node else place)
            shares.setdefault(node, {}).setdefault(key, one)
    found = [Part(node, router.values | {"resources": [*share.values()]}) for node, share in shares.items()]
    return found or _to_mapped(router)


def _names_node(resource: Values) -> bool:
    name = resource["resource_name"]
    is_id = name.isascii() and name.isdigit() and len(name) <= _NODE_DIGITS
    return is_id and resource["resource_type"] in (_BROKER, _BROKER_LOGGER)


def _homes(router: _Router, resource: Values) -> Iterator[tuple[int, Values]]:
    for node in router.nodes.stand_ins(int(resource["resource_name"]), router.cluster):
        yield node, resource | {"resource_name": str(node)}


_ROUTES: dict[Destination, Callable[[_Router], list[Part] | AskFirst]] = {
    Destination.LEADER: _by_leader,
    Destination.GROUP: _by_group,
    Destination.TRANSACTION: _by_transaction,
    Destination.CONTROLLER: _to_controller,
    Destination.UNITED: _to_all,
    Destination.MAPPED: _to_mapped,
}


def _ask_for_leaders(topics: list[str], cluster: Cluster) -> MadeRequest:
    def learn(answer: Values | None) -> None:
        if answer is not None:
            cluster.learn_metadata(answer)

    return MadeRequest(METADATA, about_topics(topics), ToNode(), ROUTING, learn)


def _ask_for_coordinator(kind: int, key: str, router: _Router) -> MadeRequest:
    """A request for one key: versions before 4 take no more.

    If the target does not tell the coordinator, the mapped node gets the request, and refuses it as the recorded node
    may have done.
    """

    def learn(answer: Values | None) -> None:
        if answer is not None:
            router.cluster.learn_coordinator(kind, key, answer)
            router.cluster.coordinators.setdefault((kind, key), router.mapped[0])

    return MadeRequest(FIND_COORDINATOR, about_coordinator(kind, key), ToNode(), ROUTING, learn)


def fitted(api_key: int, values: Values, cluster: Cluster, nodes: Nodes) -> Values:
    """A request's values with replicas that the target can have; unchanged if it names none."""

    if api_key not in _WITH_REPLICAS:
        return values

    def replicas(recorded: list[int] | None) -> list[int] | None:
        return recorded and nodes.replicas(recorded, cluster)

    def assigned(entry: Values, array: str, field: str) -> Values:
        found = entry.get(array)
        return entry | {array: [each | {field: replicas(each[field])} for each in found]} if found else entry

    if api_key == CREATE_TOPICS:
        most = len(cluster.nodes)
        topics = [each | {"replication_factor": min(each["replication_factor"], most)} for each in values["topics"]]
        return values | {"topics": [assigned(each, "assignments", "broker_ids") for each in topics]}
    if api_key == CREATE_PARTITIONS:
        return values | {"topics": [assigned(each, "assignments", "broker_ids") for each in values["topics"]]}
    return values | {"topics": [assigned(each, "partitions", "replicas") for each in values["topics"]]}
